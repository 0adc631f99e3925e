//! The TCP proxy: passes on, stands still, cuts, leads elsewhere.

use std::time::Duration;

use lapwing_servers::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Greets with its name and sends back what it gets.
async fn echo(name: &'static [u8], tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                stream.write_all(name).await.unwrap();
                let (mut read, mut write) = stream.split();
                let _ended = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

async fn greeted(proxy: &Proxy) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let name = stream.read_u8().await.unwrap();
    (stream, name)
}

#[tokio::test]
async fn it_passes_on_stands_still_cuts_and_leads_elsewhere() {
    let mut tasks = JoinSet::new();
    let (first, second) = (echo(b"1", &mut tasks).await, echo(b"2", &mut tasks).await);
    let proxy = Proxy::start(&first).await.unwrap();
    let (mut stream, name) = greeted(&proxy).await;
    assert_eq!(name, b'1');

    proxy.stall(true);
    stream.write_all(b"x").await.unwrap();
    assert!(timeout(Duration::from_millis(200), stream.read_u8()).await.is_err(), "it stands still");
    proxy.stall(false);
    assert_eq!(
        timeout(Duration::from_secs(5), stream.read_u8()).await.unwrap().unwrap(),
        b'x',
        "nothing is lost"
    );

    proxy.switch_to(&second);
    assert!(timeout(Duration::from_secs(5), stream.read_u8()).await.unwrap().is_err(), "it is cut");
    assert_eq!(greeted(&proxy).await.1, b'2');
}
