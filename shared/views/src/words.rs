//! The words of a script call, one behind the other in one buffer: an allocation a call, not one a word.

use std::io::Write as _;

#[derive(Default)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Digits of a number that is told later.
const LATER: usize = 8;

impl Words {
    pub(crate) fn with_capacity(words: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    pub(crate) fn push(&mut self, word: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(word.as_ref());
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn number(&mut self, number: u64) {
        // Into memory nothing fails.
        let _ = write!(self.bytes, "{number}");
        self.ends.push(self.bytes.len());
    }

    /// Room for a number that [`Words::tell`] puts there.
    pub(crate) fn later(&mut self) -> usize {
        self.bytes.extend_from_slice(&[b'0'; LATER]);
        self.ends.push(self.bytes.len());
        self.bytes.len()
    }

    pub(crate) fn tell(&mut self, end: usize, number: u64) {
        let digits = format!("{number:0LATER$}");
        self.bytes[end - LATER..end].copy_from_slice(&digits.as_bytes()[..LATER]);
    }

    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[begin..*end]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_order_and_bounds() {
        let mut words = Words::default();
        words.push("P");
        let count = words.later();
        words.push("");
        words.number(70);
        words.tell(count, 12);
        assert_eq!(words.slices(), [&b"P"[..], b"00000012", b"", b"70"]);
    }
}
