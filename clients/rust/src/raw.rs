//! Events read straight from the frame's bytes: nothing is copied, so one core looks at several hundred thousand a second.
use bytes::Buf;
use lapwing_proto::client as proto;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawEvent<'a> {
    pub conversation: &'a str,
    pub seq: u64,
    pub n: u64,
    pub sender: &'a str,
    pub device: &'a str,
    pub client_mid: &'a str,
    pub sent_at_ms: u64,
    pub traceparent: &'a str,
    pub body: RawBody<'a>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RawBody<'a> {
    #[default]
    None,
    Text(&'a [u8]),
    Data(&'a [u8]),
    /// Not a message: the field number of client.proto's Event.
    Other(u32),
}

/// A pushed `events` frame without an id starts with the key of field 20.
const EVENTS_KEY: [u8; 2] = [0xa2, 0x01];

/// Calls `visit` for each event of a binary `events` push. `Ok(false)`: the frame is something else, decode it whole.
pub fn scan_events<'a>(frame: &'a [u8], mut visit: impl FnMut(RawEvent<'a>)) -> Result<bool, String> {
    let Some(rest) = frame.strip_prefix(&EVENTS_KEY) else {
        return Ok(false);
    };
    let mut input = rest;
    let mut events = take(&mut input)?;
    if !input.is_empty() {
        return Ok(false);
    }
    while !events.is_empty() {
        let (field, value) = next(&mut events)?;
        if let (1, Value::Bytes(event)) = (field, value) {
            visit(parse_event(event)?);
        }
    }
    Ok(true)
}

fn parse_event(mut input: &[u8]) -> Result<RawEvent<'_>, String> {
    let mut event = RawEvent::default();
    while !input.is_empty() {
        match next(&mut input)? {
            (1, Value::Bytes(b)) => event.conversation = text(b)?,
            (2, Value::Number(n)) => event.seq = n,
            (3, Value::Number(n)) => event.n = n,
            (4, Value::Bytes(b)) => event.sender = text(b)?,
            (5, Value::Bytes(b)) => event.device = text(b)?,
            (6, Value::Bytes(b)) => event.client_mid = text(b)?,
            (7, Value::Number(n)) => event.sent_at_ms = n,
            (8, Value::Bytes(b)) => event.traceparent = text(b)?,
            (20, Value::Bytes(b)) => event.body = parse_content(b)?,
            (field, _) if field > 20 => event.body = RawBody::Other(field),
            _ => {}
        }
    }
    Ok(event)
}

fn parse_content(mut input: &[u8]) -> Result<RawBody<'_>, String> {
    let mut body = RawBody::None;
    while !input.is_empty() {
        match next(&mut input)? {
            (1, Value::Bytes(b)) => body = RawBody::Text(b),
            (2, Value::Bytes(b)) => body = RawBody::Data(b),
            _ => {}
        }
    }
    Ok(body)
}

impl<'a> From<&'a proto::Event> for RawEvent<'a> {
    fn from(event: &'a proto::Event) -> Self {
        RawEvent {
            conversation: &event.conversation,
            seq: event.seq,
            n: event.n,
            sender: &event.sender,
            device: &event.device,
            client_mid: &event.client_mid,
            sent_at_ms: event.sent_at_ms,
            traceparent: &event.traceparent,
            body: body_of(event),
        }
    }
}

fn body_of(event: &proto::Event) -> RawBody<'_> {
    use proto::event::Body;
    match &event.body {
        None => RawBody::None,
        Some(Body::Message(content)) => match &content.body {
            None => RawBody::None,
            Some(proto::content::Body::Text(text)) => RawBody::Text(text.as_bytes()),
            Some(proto::content::Body::Data(data)) => RawBody::Data(data),
        },
        Some(Body::Created(_)) => RawBody::Other(21),
        Some(Body::MembersAdded(_)) => RawBody::Other(22),
        Some(Body::MembersRemoved(_)) => RawBody::Other(23),
        Some(Body::Edited(_)) => RawBody::Other(24),
        Some(Body::Recalled(_)) => RawBody::Other(25),
        Some(Body::Reaction(_)) => RawBody::Other(26),
        Some(Body::RoleChanged(_)) => RawBody::Other(27),
        Some(Body::Muted(_)) => RawBody::Other(28),
        Some(Body::Blocked(_)) => RawBody::Other(29),
        Some(Body::Settings(_)) => RawBody::Other(30),
    }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn next<'a>(input: &mut &'a [u8]) -> Result<(u32, Value<'a>), String> {
    let key = varint(input)?;
    let field = (key >> 3) as u32;
    let value = match key & 7 {
        0 => Value::Number(varint(input)?),
        1 => Value::Number(fixed(input, 8)?),
        2 => Value::Bytes(take(input)?),
        5 => Value::Number(fixed(input, 4)?),
        other => return Err(format!("wire type {other} in field {field}")),
    };
    Ok((field, value))
}

fn varint(input: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        if !input.has_remaining() {
            return Err("frame ends inside a number".into());
        }
        let byte = input.get_u8();
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("number longer than 10 bytes".into())
}

fn fixed(input: &mut &[u8], width: usize) -> Result<u64, String> {
    let Some((head, tail)) = input.split_at_checked(width) else {
        return Err("frame ends inside a number".into());
    };
    *input = tail;
    Ok(head.iter().rev().fold(0, |acc, b| acc << 8 | u64::from(*b)))
}

fn take<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = varint(input)? as usize;
    let Some((head, tail)) = input.split_at_checked(length) else {
        return Err(format!("frame ends inside a field of {length} bytes"));
    };
    *input = tail;
    Ok(head)
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use lapwing_proto::Message;

    use super::*;

    fn frame(id: u64, events: Vec<proto::Event>) -> Vec<u8> {
        let body = Some(proto::server_frame::Body::Events(proto::Events { events }));
        proto::ServerFrame { id, body }.encode_to_vec()
    }

    fn event(seq: u64) -> proto::Event {
        let content =
            proto::Content { r#type: "t".into(), body: Some(proto::content::Body::Text("héllo".into())) };
        proto::Event {
            conversation: "grp.x".into(),
            seq,
            n: seq - 1,
            sender: "alice".into(),
            device: "phone".into(),
            client_mid: format!("m{seq}"),
            sent_at_ms: u64::MAX,
            traceparent: String::new(),
            body: Some(proto::event::Body::Message(content)),
        }
    }

    #[test]
    fn sees_what_the_full_decoder_sees() {
        let mut created = event(1);
        created.body = Some(proto::event::Body::Created(proto::Created::default()));
        let events = vec![created, event(2), event(300)];
        let bytes = frame(0, events.clone());
        let mut seen = 0;
        let whole = scan_events(&bytes, |raw| {
            assert_eq!(raw, RawEvent::from(&events[seen]));
            seen += 1;
        });
        assert_eq!((whole, seen), (Ok(true), 3));
    }

    #[test]
    fn leaves_other_frames_to_the_full_decoder() {
        assert_eq!(scan_events(&frame(7, vec![event(1)]), |_| panic!("an answer")), Ok(false));
        assert_eq!(scan_events(&[], |_| panic!("nothing")), Ok(false));
    }

    #[test]
    fn every_cut_of_a_frame_is_an_error_and_never_a_panic() {
        let bytes = frame(0, vec![event(1), event(2)]);
        for cut in 2..bytes.len() {
            assert!(scan_events(&bytes[..cut], |_| {}).is_err(), "cut at {cut}");
        }
    }
}
