//! WebSocket frames, read incrementally and failed early: mask, reserved bits, control frames, fragment order, total
//! size and UTF-8 are judged here, because the library under us judges some of them late and others never.

use bytes::{Buf, Bytes, BytesMut};

#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    Text(Bytes),
    Binary(Bytes),
    Ping(Bytes),
    Pong,
    Close(Option<u16>),
}

/// The close code and the reason that the peer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({code})")]
pub struct Violation {
    pub code: u16,
    pub reason: &'static str,
}

const fn protocol(reason: &'static str) -> Violation {
    Violation { code: 1002, reason }
}

const TOO_LARGE: Violation = Violation { code: 1009, reason: "message too large" };
const NOT_UTF8: Violation = Violation { code: 1007, reason: "text is not UTF-8" };

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Binary,
}

/// Reads a client's frames; `max_message` bounds a message over all its fragments.
pub struct Reader {
    max_message: usize,
    open: Option<(Kind, BytesMut)>,
}

struct Header {
    fin: bool,
    opcode: u8,
    mask: [u8; 4],
    header_len: usize,
    len: usize,
}

impl Reader {
    pub fn new(max_message: usize) -> Self {
        Self { max_message, open: None }
    }

    /// The next whole message in `buf`, or None when more bytes are needed.
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<Incoming>, Violation> {
        loop {
            let Some(header) = self.header(buf)? else { return Ok(None) };
            if buf.len() < header.header_len + header.len {
                return Ok(None);
            }
            buf.advance(header.header_len);
            let mut payload = buf.split_to(header.len);
            unmask(&mut payload, header.mask);
            if let Some(message) = self.frame(&header, payload)? {
                return Ok(Some(message));
            }
        }
    }

    /// Judged before the payload is here, so that a lie about its length reserves nothing.
    fn header(&self, buf: &[u8]) -> Result<Option<Header>, Violation> {
        let [first, second, rest @ ..] = buf else { return Ok(None) };
        let (fin, opcode) = (first & 0x80 != 0, first & 0x0f);
        if first & 0x70 != 0 {
            return Err(protocol("reserved bits are set"));
        }
        if second & 0x80 == 0 {
            return Err(protocol("frame is not masked"));
        }
        let (len, extra) = match second & 0x7f {
            126 if rest.len() < 2 => return Ok(None),
            126 => (u64::from(u16::from_be_bytes([rest[0], rest[1]])), 2),
            127 if rest.len() < 8 => return Ok(None),
            127 => {
                let mut long = [0; 8];
                long.copy_from_slice(&rest[..8]);
                (u64::from_be_bytes(long), 8)
            }
            short => (u64::from(short), 0),
        };
        self.judge(fin, opcode, len)?;
        let Some(mask) = rest.get(extra..extra + 4) else { return Ok(None) };
        let mask = [mask[0], mask[1], mask[2], mask[3]];
        let len = usize::try_from(len).map_err(|_| TOO_LARGE)?;
        Ok(Some(Header { fin, opcode, mask, header_len: 2 + extra + 4, len }))
    }

    fn judge(&self, fin: bool, opcode: u8, len: u64) -> Result<(), Violation> {
        match opcode {
            0 if self.open.is_none() => return Err(protocol("continuation of nothing")),
            1 | 2 if self.open.is_some() => return Err(protocol("new message inside a fragmented one")),
            0..=2 => {}
            8..=10 if !fin => return Err(protocol("fragmented control frame")),
            8..=10 if len > 125 => return Err(protocol("control frame over 125 bytes")),
            8..=10 => return Ok(()),
            _ => return Err(protocol("unknown opcode")),
        }
        let so_far = self.open.as_ref().map_or(0, |(_, payload)| payload.len() as u64);
        if so_far.saturating_add(len) > self.max_message as u64 { Err(TOO_LARGE) } else { Ok(()) }
    }

    fn frame(&mut self, header: &Header, payload: BytesMut) -> Result<Option<Incoming>, Violation> {
        match header.opcode {
            8 => close(&payload).map(Some),
            9 => Ok(Some(Incoming::Ping(payload.freeze()))),
            10 => Ok(Some(Incoming::Pong)),
            0 => {
                let Some((kind, mut whole)) = self.open.take() else { return Ok(None) };
                whole.extend_from_slice(&payload);
                self.data(kind, whole, header.fin)
            }
            1 => self.data(Kind::Text, payload, header.fin),
            _ => self.data(Kind::Binary, payload, header.fin),
        }
    }

    fn data(&mut self, kind: Kind, payload: BytesMut, fin: bool) -> Result<Option<Incoming>, Violation> {
        if !fin {
            self.open = Some((kind, payload));
            return Ok(None);
        }
        match kind {
            Kind::Binary => Ok(Some(Incoming::Binary(payload.freeze()))),
            Kind::Text if std::str::from_utf8(&payload).is_err() => Err(NOT_UTF8),
            Kind::Text => Ok(Some(Incoming::Text(payload.freeze()))),
        }
    }
}

fn close(payload: &[u8]) -> Result<Incoming, Violation> {
    let code = match payload {
        [] => return Ok(Incoming::Close(None)),
        [_] => return Err(protocol("close frame of one byte")),
        [high, low, reason @ ..] => {
            std::str::from_utf8(reason).map_err(|_| NOT_UTF8)?;
            u16::from_be_bytes([*high, *low])
        }
    };
    match code {
        1000..=1003 | 1007..=1014 | 3000..=4999 => Ok(Incoming::Close(Some(code))),
        _ => Err(protocol("close code out of range")),
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let mut chunks = payload.chunks_exact_mut(4);
    for chunk in &mut chunks {
        for (byte, mask) in chunk.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in chunks.into_remainder().iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Puts the header of an unfragmented server frame in front of what follows.
pub fn put_header(out: &mut Vec<u8>, opcode: u8, len: usize) {
    out.push(0x80 | opcode);
    match len {
        0..=125 => out.push(len as u8),
        126..=65_535 => {
            out.push(126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;

pub fn message(opcode: u8, payload: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(payload.len() + 10);
    put_header(&mut out, opcode, payload.len());
    out.extend_from_slice(payload);
    Bytes::from(out)
}

pub fn pong(payload: &[u8]) -> Bytes {
    message(10, payload)
}

pub fn close_frame(code: u16, reason: &str) -> Bytes {
    let mut payload = code.to_be_bytes().to_vec();
    payload.extend_from_slice(&reason.as_bytes()[..reason.len().min(123)]);
    message(8, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut out = Vec::new();
        put_header(&mut out, first & 0x0f, payload.len());
        out[0] = first;
        out[1] |= 0x80;
        out.extend_from_slice(&mask);
        out.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]));
        out
    }

    fn read(bytes: &[u8]) -> Result<Vec<Incoming>, Violation> {
        let (mut reader, mut buf, mut out) = (Reader::new(1000), BytesMut::new(), Vec::new());
        for byte in bytes {
            // One byte at a time: every prefix must be judged without waiting for more than it needs.
            buf.extend_from_slice(&[*byte]);
            while let Some(message) = reader.next(&mut buf)? {
                out.push(message);
            }
        }
        Ok(out)
    }

    fn code(bytes: &[u8]) -> u16 {
        read(bytes).expect_err("must be refused").code
    }

    #[test]
    fn whole_and_fragmented_messages_with_control_frames_between() {
        let bytes =
            [frame(0x01, b"he"), frame(0x89, b"p"), frame(0x80, b"llo"), frame(0x82, &[7; 300])].concat();
        assert_eq!(
            read(&bytes).unwrap(),
            [
                Incoming::Ping(Bytes::from_static(b"p")),
                Incoming::Text(Bytes::from_static(b"hello")),
                Incoming::Binary(Bytes::from(vec![7; 300])),
            ]
        );
        assert_eq!(read(&frame(0x88, &1000u16.to_be_bytes())).unwrap(), [Incoming::Close(Some(1000))]);
    }

    // R-REL: malformed, huge and hostile frames.
    #[test]
    fn hostile_frames_are_refused_early() {
        assert_eq!(code(&[0x82, 0x05]), 1002, "not masked");
        assert_eq!(code(&frame(0xc2, b"x")), 1002, "reserved bit");
        assert_eq!(code(&frame(0x83, b"x")), 1002, "unknown opcode");
        assert_eq!(code(&frame(0x80, b"x")), 1002, "continuation of nothing");
        assert_eq!(code(&[frame(0x01, b"x"), frame(0x81, b"y")].concat()), 1002, "message in a message");
        assert_eq!(code(&frame(0x09, b"")), 1002, "fragmented ping");
        assert_eq!(code(&frame(0x89, &[0; 126])), 1002, "large ping");
        assert_eq!(code(&frame(0x88, &[3])), 1002, "short close");
        assert_eq!(code(&frame(0x88, &1005u16.to_be_bytes())), 1002, "close code");
        assert_eq!(code(&frame(0x81, &[0xff])), 1007);
        assert_eq!(code(&[0x82, 0xff, 0, 0, 0, 0, 0xff, 0, 0, 0]), 1009, "a lie of length, before its mask");
        assert_eq!(code(&[frame(0x02, &[0; 600]), frame(0x00, &[0; 600])].concat()), 1009, "in fragments");
    }
}
