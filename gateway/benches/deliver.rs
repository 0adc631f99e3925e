//! How many session deliveries one core makes: a group with 250 local sessions, events of 300 bytes, without sockets.
//! `cargo bench -p lapwing-gateway --bench deliver`

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use lapwing_gateway::{
    hub::Hub,
    session::{Outbox, Seat, Session},
};
use lapwing_gateway_core::{
    Encoding, EventFrame,
    rate::{Rate, TokenBucket},
    room::Attach,
};
use lapwing_model::ConversationKey;
use lapwing_proto::{
    Message as _,
    client::{Content, Event, content, event},
};
use parking_lot::Mutex;

const SESSIONS: u64 = 250;
const EVENTS: u64 = 4000;
const ROUND: u64 = 500;

fn session(id: u64, encoding: Encoding) -> (Arc<Session>, lapwing_runtime::queue::Receiver<bytes::Bytes>) {
    let (out, queue) = Outbox::new(512 << 10);
    let rate = TokenBucket::full(Rate { per_second: 1.0, burst: 1.0 }, Instant::now());
    let session = Session {
        id,
        name: id.to_string(),
        tenant: "bench".into(),
        user: format!("u{id}").into(),
        device: "d".into(),
        remote: String::new(),
        encoding,
        receipts: false,
        opened_at_ms: 0,
        out: Arc::new(out),
        rate: Arc::new(Mutex::new(rate)),
        rooms: Default::default(),
        passed: Default::default(),
        lanes: Default::default(),
        expires_at: AtomicU64::new(0),
        last_heard: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        answering: Default::default(),
        welcomed: Default::default(),
    };
    (Arc::new(session), queue)
}

fn encoded(key: &ConversationKey, seq: u64) -> bytes::Bytes {
    let text = content::Body::Text("x".repeat(300));
    let event = Event {
        conversation: key.conversation.to_string(),
        seq,
        n: seq,
        sender: "u1".into(),
        client_mid: format!("m{seq}"),
        body: Some(event::Body::Message(Content { body: Some(text), r#type: String::new() })),
        ..Default::default()
    };
    event.encode_to_vec().into()
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn run(encoding: Encoding) {
    let hub = Hub::new(8, Duration::from_secs(30));
    let key = ConversationKey::new("bench", "grp.bench");
    let (sessions, mut queues): (Vec<_>, Vec<_>) = (0..SESSIONS).map(|id| session(id, encoding)).unzip();
    hub.enter(&key);
    for session in &sessions {
        hub.with(&key, |room, effects| {
            room.handle_owner_head(0, 0, effects);
            let sink = Seat { session: session.clone(), conversation: key.conversation.clone() };
            let user = session.user.clone();
            room.attach(Attach { sink, user, from: None, first: 0, to: 0, announced: 0 }, effects);
        });
    }
    let events: Vec<_> = (1..=EVENTS).map(|seq| encoded(&key, seq)).collect();
    let (mut busy, mut written) = (Duration::ZERO, 0);
    for round in events.chunks(ROUND as usize) {
        let since = Instant::now();
        for event in round {
            let frame = EventFrame::decode(event.clone()).expect("an event");
            hub.with(&key, |room, effects| room.handle_event(&frame, effects));
        }
        busy += since.elapsed();
        // The writers' part: what they take out is counted, their system calls are not.
        for queue in &mut queues {
            while !queue.is_empty() {
                written += queue.try_pop_up_to(256, 64 << 10).len() as u64;
            }
        }
    }
    assert_eq!(written, SESSIONS * EVENTS, "each session got each event once");
    let per_second = written as f64 / busy.as_secs_f64();
    println!("{encoding:?}: {written} session deliveries in {busy:.2?}: {per_second:.0}/s on one core");
}

fn main() {
    run(Encoding::Binary);
    run(Encoding::Json);
}
