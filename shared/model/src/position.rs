//! The log's one rule of validity (I3): the same state and the same function in every reader.

use lapwing_proto::bus;

/// How far a reader or a view has come in one partition: stored beside every view's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The next offset to read.
    pub offset: u64,
    /// Offset of the newest claim before `offset`; −1 when there was none.
    pub epoch: i64,
    /// Index of the last valid record under that claim; the claim itself has 0.
    pub index: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self { offset: 0, epoch: -1, index: 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A new epoch begins here.
    Claim,
    Valid,
    Void(Void),
}

/// Why a record counts for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Void {
    /// Written under a claim that is not the newest before it: a zombie's or a late one.
    Epoch,
    /// Under the newest claim, but its index was judged already: a doubled append.
    Doubled,
    /// Under the newest claim, behind a hole: everything until the next claim is void.
    Hole,
}

/// The two parts of the rule. Every reader has both; the simulation takes one away, to see that its check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The record's epoch is the newest claim before it.
    pub epoch: bool,
    /// Its index is the next one.
    pub order: bool,
}

impl Rule {
    pub const WHOLE: Self = Self { epoch: true, order: true };
}

impl Position {
    /// Judges the record at `offset` and moves behind it. Offsets may skip (compaction, aborted batches), never go back.
    pub fn follow(&mut self, offset: u64, claim: bool, epoch: u64, index: u64) -> Verdict {
        self.follow_by(Rule::WHOLE, offset, claim, epoch, index)
    }

    #[doc(hidden)]
    pub fn follow_by(&mut self, rule: Rule, offset: u64, claim: bool, epoch: u64, index: u64) -> Verdict {
        debug_assert!(offset >= self.offset, "record {offset} was judged before {self:?}");
        self.offset = offset + 1;
        if claim {
            self.epoch = offset as i64;
            self.index = 0;
            return Verdict::Claim;
        }
        if rule.epoch && epoch as i64 != self.epoch {
            return Verdict::Void(Void::Epoch);
        }
        match index {
            _ if index == self.index + 1 || !rule.order && index > self.index => {
                self.index = index;
                Verdict::Valid
            }
            _ if index <= self.index => Verdict::Void(Void::Doubled),
            _ => Verdict::Void(Void::Hole),
        }
    }

    /// `offset:epoch:index`, as stored in Redis and shown to people.
    pub fn encode(&self) -> String {
        format!("{}:{}:{}", self.offset, self.epoch, self.index)
    }

    pub fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let position = Self {
            offset: parts.next()?.parse().ok()?,
            epoch: parts.next()?.parse().ok()?,
            index: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(position)
    }
}

impl From<Position> for bus::Position {
    fn from(at: Position) -> Self {
        Self { offset: at.offset, epoch: at.epoch, index: at.index }
    }
}

impl From<bus::Position> for Position {
    fn from(at: bus::Position) -> Self {
        Self { offset: at.offset, epoch: at.epoch, index: at.index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I3: epoch = newest claim before it, index = last valid + 1, judged once, in log order.
    #[test]
    fn zombies_doubles_and_what_follows_a_hole_are_void() {
        let mut at = Position::default();
        assert_eq!(at.follow(0, false, 0, 1), Verdict::Void(Void::Epoch), "before any claim");
        assert_eq!(at.follow(1, true, 0, 0), Verdict::Claim);
        assert_eq!(at.follow(2, false, 1, 1), Verdict::Valid);
        assert_eq!(at.follow(3, false, 1, 1), Verdict::Void(Void::Doubled));
        assert_eq!(at.follow(4, false, 1, 3), Verdict::Void(Void::Hole));
        assert_eq!(at.follow(5, false, 1, 4), Verdict::Void(Void::Hole));
        assert_eq!(at.follow(6, false, 1, 2), Verdict::Valid, "the late one fills the hole");
        assert_eq!(at.follow(7, true, 0, 0), Verdict::Claim);
        assert_eq!(at.follow(8, false, 1, 3), Verdict::Void(Void::Epoch), "zombie");
        assert_eq!(at.follow(10, false, 7, 1), Verdict::Valid, "offsets may skip");
        assert_eq!(at, Position { offset: 11, epoch: 7, index: 1 });
        assert_eq!(Position::decode(&at.encode()), Some(at));
        assert_eq!(Position::decode("1:2"), None);
    }
}
