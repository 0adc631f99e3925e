//! A persister around the real core: batches of judged records, each committed with its position, killed at any step.

use std::collections::BTreeMap;

use lapwing_model::{ConversationKey, Header, Member, Position};
use lapwing_persister_core::{
    Item, LogReader, Plan,
    batch::{Judged, same_content},
    plan::Conversation,
};
use lapwing_proto::record::Record;
use lapwing_router_core::{Load, Loaded, io::LoadAsk};
use rand::Rng as _;

use crate::world::{Event, World};

/// What MySQL holds of one partition.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) at: Position,
    pub(crate) messages: BTreeMap<(ConversationKey, u64), Record>,
    pub(crate) conversations: BTreeMap<ConversationKey, Conversation>,
    /// From, to.
    pub(crate) members: BTreeMap<(ConversationKey, String), (u64, u64)>,
    pub(crate) cursors: BTreeMap<(String, String), (u64, u64)>,
}

pub(crate) struct Persister {
    pub(crate) tables: Tables,
    reader: LogReader,
    items: Vec<Item>,
    /// The next offset to read.
    pub(crate) next: u64,
    /// It met what it must not step over.
    pub(crate) stopped: bool,
}

impl Default for Persister {
    fn default() -> Self {
        Self {
            tables: Tables::default(),
            reader: LogReader::new(Position::default()),
            items: Vec::new(),
            next: 0,
            stopped: false,
        }
    }
}

impl Persister {
    /// Killed: what was not committed is read again from the committed position.
    pub(crate) fn kill(&mut self) {
        self.reader = LogReader::new(self.tables.at);
        self.items.clear();
        self.next = self.tables.at.offset;
    }

    /// One transaction: rows and position.
    fn commit(&mut self, wrong: &mut Vec<String>) {
        let items = std::mem::take(&mut self.items);
        let plan = Plan::of(items.iter().filter(|item| !matches!(item, Item::Unreadable(_))));
        self.tables.take(&plan, wrong);
        self.tables.at = self.reader.position();
    }
}

impl Tables {
    fn take(&mut self, plan: &Plan<'_>, wrong: &mut Vec<String>) {
        for row in plan.messages.values().flatten() {
            let place = (lapwing_model::record::key_of(&row.record), row.record.seq);
            let before = self.messages.insert(place.clone(), row.record.clone());
            if before.is_some_and(|before| !same_content(&before, &row.record)) {
                wrong.push(format!("MySQL has two messages at {place:?}"));
            }
        }
        for (key, said) in &plan.conversations {
            let of = self.conversations.entry(key.clone()).or_default();
            (of.head, of.n) = (of.head.max(said.head), of.n.max(said.n));
            of.member_count = said.member_count.or(of.member_count);
            of.history_for_new_members = said.history_for_new_members.or(of.history_for_new_members);
        }
        for member in &plan.members {
            let of = self.members.entry((member.key.clone(), member.user.clone())).or_default();
            of.0 = member.from_seq.unwrap_or(of.0);
            of.1 = member.to_seq;
        }
        for cursor in &plan.cursors {
            let of = self.cursors.entry((cursor.user.clone(), cursor.conversation.clone())).or_default();
            *of = (*of).max((cursor.read_seq, cursor.read_n));
        }
    }
}

impl World {
    /// Some records are read; at times a batch is committed, at times the answer to that is lost.
    pub(crate) fn persist(&mut self, part: usize, records: u64) {
        // Only what is acknowledged can be read by a consumer.
        let end = self.parts[part].log.len();
        let commit = self.random.random_bool(0.5);
        let of = &mut self.parts[part];
        if of.persister.stopped {
            return;
        }
        for _ in 0..records {
            let offset = of.persister.next;
            if offset >= end {
                break;
            }
            of.persister.next = offset + 1;
            match of.persister.reader.judge(offset, of.log.value(offset)) {
                Ok((judged, settled)) => {
                    of.persister.items.extend(settled.into_iter().map(Item::Unreadable));
                    if let Judged::Row(row) = judged {
                        of.persister.items.push(Item::Row(row));
                    }
                }
                Err(_) => {
                    of.persister.stopped = true;
                    self.counts.add("a persister stopped");
                    break;
                }
            }
        }
        if commit {
            let of = &mut self.parts[part];
            of.persister.commit(&mut self.wrong);
            let at = of.persister.tables.at;
            self.counts.add("a persister's commit");
            self.tell_mark(part, at);
        }
    }

    /// What MySQL has of one conversation; it says nothing of a client_mid.
    pub(crate) fn load_persisted(&mut self, part: usize, key: &ConversationKey, ask: &LoadAsk) -> Load {
        if !ask.cold || self.fault(0.1) {
            return Load::Unavailable;
        }
        self.counts.add("a load from MySQL");
        let tables = &self.parts[part].persister.tables;
        let header = tables.conversations.get(key).map_or_else(Header::default, |of| Header {
            head: of.head,
            n: of.n,
            member_count: of.member_count.unwrap_or_default(),
            history_for_new_members: of.history_for_new_members.unwrap_or_default(),
        });
        let member = |user: &std::sync::Arc<str>| {
            let times = tables.members.get(&(key.clone(), user.to_string())).copied();
            times.map(|(from_seq, to_seq)| Member { from_seq, to_seq })
        };
        let members = ask.users.iter().map(member).collect();
        let loaded = Loaded { persisted: header.head, header, members, mid: None };
        Load::Persisted(tables.at.offset, Box::new(loaded))
    }

    fn tell_mark(&mut self, part: usize, at: Position) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].part == part && !self.fault(0.3) {
                self.later(slot, Event::Mark(at));
            }
        }
    }

    pub(crate) fn kill_persister(&mut self, part: usize) {
        self.parts[part].persister.kill();
        self.counts.add("a persister killed");
    }
}
