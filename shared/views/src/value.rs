//! Scripts' answers → Rust.

use bytes::Bytes;
use lapwing_links::redis::Value;
use lapwing_model::{Header, Member};

use crate::ViewError;

pub(crate) fn form(script: &'static str, answer: &Value) -> ViewError {
    let mut answer = format!("{answer:?}");
    answer.truncate(200);
    ViewError::Form { script, answer }
}

pub(crate) fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

pub(crate) fn strings(value: &Value) -> Option<Vec<Bytes>> {
    array(value)?.iter().map(string).collect()
}

pub(crate) fn string(value: &Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(Bytes::copy_from_slice(bytes)),
        Value::SimpleString(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Value::Int(number) => Some(Bytes::from(number.to_string())),
        Value::Nil => Some(Bytes::new()),
        _ => None,
    }
}

/// An absent number is 0.
pub(crate) fn number(field: &Bytes) -> Option<u64> {
    if field.is_empty() { Some(0) } else { std::str::from_utf8(field).ok()?.parse().ok() }
}

/// head, n, member count, history, persisted.
pub(crate) fn header(fields: &[Bytes]) -> Option<(Header, u64)> {
    let header = Header {
        head: number(fields.first()?)?,
        n: number(fields.get(1)?)?,
        member_count: u32::try_from(number(fields.get(2)?)?).ok()?,
        history_for_new_members: number(fields.get(3)?)? == 1,
    };
    Some((header, number(fields.get(4)?)?))
}

/// Outer None: another form than expected; inner None: never a member.
pub(crate) fn member(field: &Bytes) -> Option<Option<Member>> {
    if field.is_empty() {
        return Some(None);
    }
    Some(Some(Member::decode(std::str::from_utf8(field).ok()?)?))
}

pub(crate) fn three(field: &Bytes) -> Option<[u64; 3]> {
    let mut parts = std::str::from_utf8(field).ok()?.split(':').map(str::parse);
    Some([parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?])
}
