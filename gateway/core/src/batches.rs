//! Batches of routers' lanes that were already delivered: a repeated one is answered, not delivered again.

use std::collections::{HashMap, VecDeque};

const REMEMBERED: usize = 32; // a lane has fewer in flight

#[derive(Default)]
struct LaneBatches {
    incarnation: u64,
    newest: u64,
    answers: VecDeque<(u64, Vec<i32>)>,
}

#[derive(Default)]
pub struct Batches {
    lanes: HashMap<(String, u32), LaneBatches>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    New,
    /// With its answer, if that is still known.
    Repeated(Option<Vec<i32>>),
    /// From a router process that a newer one has replaced.
    Stale,
}

impl Batches {
    pub fn see(&mut self, router: &str, incarnation: u64, lane: u32, batch: u64) -> Seen {
        let known = self.lanes.entry((router.to_owned(), lane)).or_default();
        if incarnation < known.incarnation {
            return Seen::Stale;
        }
        if incarnation > known.incarnation {
            *known = LaneBatches { incarnation, ..Default::default() };
        }
        if batch <= known.newest {
            let answer = known.answers.iter().find(|(number, _)| *number == batch);
            return Seen::Repeated(answer.map(|(_, results)| results.clone()));
        }
        known.newest = batch;
        Seen::New
    }

    pub fn answered(&mut self, router: &str, incarnation: u64, lane: u32, batch: u64, results: &[i32]) {
        let Some(known) = self.lanes.get_mut(&(router.to_owned(), lane)) else { return };
        if known.incarnation != incarnation {
            return;
        }
        if known.answers.len() == REMEMBERED {
            known.answers.pop_front();
        }
        known.answers.push_back((batch, results.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-FAN-3: a batch whose answer was lost comes again and is delivered once.
    #[test]
    fn a_repeated_batch_gets_its_first_answer() {
        let mut batches = Batches::default();
        assert_eq!(batches.see("r", 1, 0, 1), Seen::New);
        batches.answered("r", 1, 0, 1, &[1, 2]);
        assert_eq!(batches.see("r", 1, 0, 1), Seen::Repeated(Some(vec![1, 2])));
        assert_eq!(batches.see("r", 1, 1, 1), Seen::New, "another lane");
        assert_eq!(batches.see("r", 2, 0, 1), Seen::New, "a restarted router counts anew");
        assert_eq!(batches.see("r", 1, 0, 2), Seen::Stale);
        assert_eq!(batches.see("r", 2, 0, 1), Seen::Repeated(None));
    }
}
