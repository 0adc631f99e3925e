//! R-REL: malformed, huge and hostile frames end their own connection, with a code, and nobody else's.

use serde_json::json;

use crate::{
    socket::{Frame, masked, upgrade},
    world::World,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_upgrades_and_frames() {
    let world = World::start(1, &[]).await;
    upgrades(&world).await;
    let (mut bystander, _) = world.session(0, "bystander", "phone").await;
    let hostile: [(&str, Vec<u8>, u16); 8] = [
        ("not masked", [&[0x81, 0x02][..], b"{}"].concat(), 1002),
        ("reserved bit", masked(0xc1, b"{}"), 1002),
        ("continuation of nothing", masked(0x80, b"{}"), 1002),
        ("message in a message", [masked(0x01, b"{"), masked(0x81, b"}")].concat(), 1002),
        ("large ping", masked(0x89, &[0; 126]), 1002),
        ("not UTF-8", masked(0x81, &[0xff, 0xfe]), 1007),
        ("a claim of an exabyte", vec![0x82, 0xff, 0x10, 0, 0, 0, 0, 0, 0, 0], 1009),
        (
            "too large in fragments",
            [masked(0x01, &[b'x'; 300 << 10]), masked(0x80, &[b'x'; 300 << 10])].concat(),
            1009,
        ),
    ];
    for (what, bytes, code) in &hostile {
        let mut fresh = world.socket(0).await;
        fresh.raw(bytes).await;
        assert_eq!(fresh.closed().await, *code, "{what}, before connect");
        let (mut connected, _) = world.session(0, "mallory", "phone").await;
        connected.raw(bytes).await;
        assert_eq!(connected.closed().await, *code, "{what}, connected");
    }
    for (what, frame) in
        [("no JSON", "nonsense"), ("no frame", "[1]"), ("publish before connect", r#"{"id":"1","ping":{}}"#)]
    {
        let mut socket = world.socket(0).await;
        socket.raw(&masked(0x81, frame.as_bytes())).await;
        assert_eq!(socket.closed().await, 4502, "{what}");
    }
    let mut socket = world.socket(0).await;
    socket.raw(&masked(0x88, &1000u16.to_be_bytes())).await;
    assert_eq!(socket.closed().await, 1000, "a close is answered");
    bystander.raw(&masked(0x89, b"still here")).await;
    assert_eq!(bystander.frame().await, Frame::Other(10), "pong");
    bystander.send(json!({ "id": "5", "ping": {}, "aFieldOfTheFuture": 1 })).await;
    assert!(bystander.answer(5).await["ok"].is_object());
}

async fn upgrades(world: &World) {
    let address = world.cluster.gateway(0).client_address();
    let protocol = ("Sec-WebSocket-Protocol", "lapwing.v1.json");
    let own = format!("http://{address}");
    for (what, headers, status) in [
        ("no subprotocol", vec![], 400),
        ("an unknown subprotocol", vec![("Sec-WebSocket-Protocol", "chat")], 400),
        ("a foreign Origin", vec![protocol, ("Origin", "http://evil.example.com")], 403),
        ("the own Origin", vec![protocol, ("Origin", own.as_str())], 101),
        ("one of several", vec![("Sec-WebSocket-Protocol", "x, lapwing.v1.proto")], 101),
    ] {
        assert_eq!(upgrade(&address, &headers).await.expect("an answer").0, status, "{what}");
    }
}
