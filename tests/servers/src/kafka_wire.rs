//! Two requests of Kafka's protocol by hand: making topics with their settings (which rskafka cannot) and asking for
//! leaders. It spares each start a JVM of 1.2 s a topic.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CREATE_TOPICS: (i16, i16) = (19, 2);
const METADATA: (i16, i16) = (3, 4);
const TOPIC_ALREADY_EXISTS: i16 = 36;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) settings: Vec<(String, String)>,
}

/// Makes the topics that are missing. Fails while the broker has no controller yet; the caller tries again.
pub(crate) async fn create_topics(address: &str, topics: &[Topic], replicas: i16) -> Result<()> {
    let mut body = Vec::new();
    put_len(&mut body, topics.len());
    for topic in topics {
        put_str(&mut body, &topic.name);
        body.extend(topic.partitions.to_be_bytes());
        body.extend(replicas.to_be_bytes());
        put_len(&mut body, 0);
        put_len(&mut body, topic.settings.len());
        for (key, value) in &topic.settings {
            put_str(&mut body, key);
            put_str(&mut body, value);
        }
    }
    body.extend(8_000_i32.to_be_bytes());
    body.push(0);
    let answer = exchange(address, CREATE_TOPICS, &body).await?;
    let mut read = Reader { rest: &answer };
    read.i32()?;
    for _ in 0..read.i32()? {
        let (name, error, message) = (read.string()?, read.i16()?, read.string()?);
        ensure!(error == 0 || error == TOPIC_ALREADY_EXISTS, "topic {name}: error {error} {message}");
    }
    Ok(())
}

/// Whether each of the topics exists and all its partitions have a leader.
pub(crate) async fn all_led(address: &str, topics: &[String]) -> Result<bool> {
    Ok(metadata(address, topics).await?.is_some_and(|leaders| leaders.iter().all(|of| of.leader >= 0)))
}

/// The node that leads a partition.
pub(crate) async fn leader(address: &str, topic: &str, partition: i32) -> Result<i32> {
    let leaders = metadata(address, &[topic.to_owned()]).await?.unwrap_or_default();
    let found = leaders.iter().find(|of| of.partition == partition && of.leader >= 0);
    Ok(found.with_context(|| format!("{topic}/{partition} has no leader"))?.leader)
}

struct Leader {
    partition: i32,
    leader: i32,
}

/// All partitions of the topics; None: there is no broker, or an error with one of them.
async fn metadata(address: &str, topics: &[String]) -> Result<Option<Vec<Leader>>> {
    let mut body = Vec::new();
    put_len(&mut body, topics.len());
    for topic in topics {
        put_str(&mut body, topic);
    }
    body.push(0);
    let answer = exchange(address, METADATA, &body).await?;
    let mut read = Reader { rest: &answer };
    read.i32()?;
    let brokers = read.i32()?;
    for _ in 0..brokers {
        read.i32()?;
        read.string()?;
        read.i32()?;
        read.string()?;
    }
    read.string()?;
    read.i32()?;
    let mut good = brokers > 0;
    let mut leaders = Vec::new();
    for _ in 0..read.i32()? {
        good &= read.i16()? == 0;
        read.string()?;
        read.take(1)?;
        for _ in 0..read.i32()? {
            // A partition whose replica is away carries an error here, and is led all the same.
            read.i16()?;
            leaders.push(Leader { partition: read.i32()?, leader: read.i32()? });
            for _ in 0..2 {
                let replicas = read.i32()?.max(0) as usize;
                read.take(replicas * 4)?;
            }
        }
    }
    Ok(good.then_some(leaders))
}

async fn exchange(address: &str, (key, version): (i16, i16), body: &[u8]) -> Result<Vec<u8>> {
    let mut request = Vec::new();
    request.extend(key.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    put_str(&mut request, "lapwing-servers");
    request.extend_from_slice(body);
    let work = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&(request.len() as i32).to_be_bytes()).await?;
        stream.write_all(&request).await?;
        let length = stream.read_i32().await?;
        ensure!((4..16 << 20).contains(&length), "an answer of {length} bytes");
        let mut answer = vec![0; length as usize];
        stream.read_exact(&mut answer).await?;
        answer.drain(..4);
        Ok(answer)
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, work).await {
        Ok(answer) => answer,
        Err(_) => bail!("Kafka at {address} gave no answer within {REQUEST_TIMEOUT:?}"),
    }
}

fn put_len(out: &mut Vec<u8>, length: usize) {
    out.extend((length as i32).to_be_bytes());
}

fn put_str(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        ensure!(self.rest.len() >= count, "Kafka's answer is cut short");
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    fn i16(&mut self) -> Result<i16> {
        let raw = self.take(2)?;
        Ok(i16::from_be_bytes([raw[0], raw[1]]))
    }

    fn i32(&mut self) -> Result<i32> {
        let raw = self.take(4)?;
        Ok(i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]))
    }

    fn string(&mut self) -> Result<String> {
        let length = self.i16()?.max(0) as usize;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}
