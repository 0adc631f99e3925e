//! Single Redis commands by hand, for what tests do to a server.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(10);

/// The answer as text; what is nested is left out.
pub(crate) async fn command(address: &str, password: &str, words: &[&str]) -> Result<String> {
    let work = async {
        let mut stream = BufReader::new(TcpStream::connect(address).await?);
        for words in [&["AUTH", password][..], words] {
            let mut request = format!("*{}\r\n", words.len());
            words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
            stream.write_all(request.as_bytes()).await?;
            let answer = read(&mut stream).await?;
            if words[0] != "AUTH" {
                return Ok(answer);
            }
            ensure!(answer == "OK", "Redis does not take the password: {answer}");
        }
        bail!("no command was sent")
    };
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(answer) => answer,
        Err(_) => bail!("Redis at {address} gave no answer to {} within {TIMEOUT:?}", words.join(" ")),
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let line = line.trim_end();
    ensure!(!line.is_empty(), "Redis closed the connection");
    let (kind, rest) = line.split_at(1);
    match kind {
        "+" | ":" => Ok(rest.to_owned()),
        "-" => bail!("Redis: {rest}"),
        "$" if rest == "-1" => Ok(String::new()),
        "$" => {
            let mut bulk = vec![0; rest.parse::<usize>()? + 2];
            stream.read_exact(&mut bulk).await?;
            Ok(String::from_utf8_lossy(&bulk[..bulk.len() - 2]).into_owned())
        }
        other => bail!("an answer of kind {other:?} is not read here"),
    }
}
