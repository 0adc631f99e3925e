//! Frames for clients. An event is encoded at most once per encoding and node, then shared by reference (R-FAN-10).

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lapwing_proto::{
    Message as _,
    client::{Event, Events, ServerFrame, event, server_frame},
};

use crate::wire;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Binary,
    Json,
}

impl Encoding {
    pub fn subprotocol(self) -> &'static str {
        match self {
            Encoding::Binary => "lapwing.v1.proto",
            Encoding::Json => "lapwing.v1.json",
        }
    }

    /// The first of the offered subprotocols that we speak.
    pub fn negotiate(offered: &str) -> Option<Self> {
        offered.split(',').map(str::trim).find_map(|name| {
            [Encoding::Binary, Encoding::Json].into_iter().find(|encoding| encoding.subprotocol() == name)
        })
    }
}

/// Any server frame as bytes for the socket, WebSocket header included.
pub fn server_frame(frame: &ServerFrame, encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Binary => {
            let len = frame.encoded_len();
            let mut out = Vec::with_capacity(len + 10);
            wire::put_header(&mut out, wire::BINARY, len);
            // A Vec grows: encoding into it cannot fail.
            let _ = frame.encode(&mut out);
            Bytes::from(out)
        }
        Encoding::Json => wire::message(wire::TEXT, &serde_json::to_vec(frame).unwrap_or_default()),
    }
}

/// One event on its way to many sessions.
#[derive(Debug, Clone)]
pub struct EventFrame {
    pub seq: u64,
    pub n: u64,
    /// The trace of its publish.
    pub traceparent: String,
    /// Users who see nothing after this event.
    pub left: Vec<String>,
    event: Bytes,
    binary: OnceLock<Bytes>,
    json: OnceLock<Bytes>,
}

impl EventFrame {
    /// From the encoded event, read once to know that every client can read it.
    pub fn decode(event: Bytes) -> Result<Arc<Self>, prost::DecodeError> {
        let read = Event::decode(event.clone())?;
        let left = match read.body {
            Some(event::Body::MembersRemoved(removed)) => removed.users,
            _ => Vec::new(),
        };
        let (binary, json) = (OnceLock::new(), OnceLock::new());
        let Event { seq, n, traceparent, .. } = read;
        Ok(Arc::new(Self { seq, n, traceparent, left, event, binary, json }))
    }

    /// Bytes of the event itself, which count for queues.
    pub fn len(&self) -> usize {
        self.event.len()
    }

    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }

    pub fn event(&self) -> &Bytes {
        &self.event
    }

    pub fn decoded(&self) -> Event {
        Event::decode(self.event.clone()).unwrap_or_default()
    }

    /// The socket's bytes.
    pub fn wire(&self, encoding: Encoding) -> &Bytes {
        match encoding {
            Encoding::Binary => self.binary.get_or_init(|| binary(&self.event)),
            Encoding::Json => self.json.get_or_init(|| {
                let events = Events { events: vec![self.decoded()] };
                let frame = ServerFrame { id: 0, body: Some(server_frame::Body::Events(events)) };
                server_frame(&frame, Encoding::Json)
            }),
        }
    }
}

/// ServerFrame{events: {[event]}} around the bytes that came from the owner, without encoding them again.
fn binary(event: &Bytes) -> Bytes {
    const EVENTS: [u8; 2] = [0xa2, 0x01]; // field 20, length-delimited
    const EVENT: u8 = 0x0a; // field 1, length-delimited
    let inner = 1 + varint_len(event.len()) + event.len();
    let outer = EVENTS.len() + varint_len(inner) + inner;
    let mut out = Vec::with_capacity(outer + 10);
    wire::put_header(&mut out, wire::BINARY, outer);
    out.extend_from_slice(&EVENTS);
    put_varint(&mut out, inner);
    out.push(EVENT);
    put_varint(&mut out, event.len());
    out.extend_from_slice(event);
    Bytes::from(out)
}

fn varint_len(value: usize) -> usize {
    let bits = usize::BITS - value.leading_zeros();
    bits.max(1).div_ceil(7) as usize
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use lapwing_proto::client::{Content, MembersRemoved, content};

    use super::*;

    fn event(text: &str) -> Event {
        Event {
            conversation: "grp.g".into(),
            seq: 300,
            n: 299,
            sender: "alice".into(),
            body: Some(event::Body::Message(Content {
                body: Some(content::Body::Text(text.into())),
                r#type: String::new(),
            })),
            ..Default::default()
        }
    }

    // R-FAN-10
    #[test]
    fn the_hand_made_frame_is_what_the_encoder_makes() {
        for size in [0, 1, 90, 100, 110, 125, 126, 127, 128, 16_300, 16_384, 70_000] {
            let event = event(&"x".repeat(size));
            let frame = EventFrame::decode(event.encode_to_vec().into()).unwrap();
            let events = server_frame::Body::Events(Events { events: vec![event] });
            let whole = ServerFrame { id: 0, body: Some(events) };
            assert_eq!(frame.wire(Encoding::Binary), &server_frame(&whole, Encoding::Binary), "{size}");
            assert_eq!(frame.wire(Encoding::Json), &server_frame(&whole, Encoding::Json), "{size}");
            let again = frame.wire(Encoding::Json).as_ptr();
            assert_eq!(frame.wire(Encoding::Json).as_ptr(), again, "encoded once");
        }
    }

    #[test]
    fn an_event_tells_who_left() {
        let mut event = event("");
        event.body = Some(event::Body::MembersRemoved(MembersRemoved { users: vec!["bob".into()] }));
        let frame = EventFrame::decode(event.encode_to_vec().into()).unwrap();
        assert_eq!((frame.seq, frame.n, frame.left.as_slice()), (300, 299, &["bob".to_owned()][..]));
        assert!(EventFrame::decode(Bytes::from_static(b"\xff\xff")).is_err());
    }

    #[test]
    fn subprotocols_are_negotiated_by_name() {
        assert_eq!(Encoding::negotiate("x, lapwing.v1.json, lapwing.v1.proto"), Some(Encoding::Json));
        assert_eq!(Encoding::negotiate("lapwing.v2"), None);
    }
}
