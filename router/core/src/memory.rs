//! What an owner remembers and when it forgets: conversations by their weight, client_mids by number and age.
//!
//! What is ahead of the view stays; behind it may go and is loaded again. Loads count only from where memory begins.

use std::collections::HashSet;

use lapwing_model::ConversationKey;

use crate::{
    Load, LookupAnswer, Now, Partition, conversation::Conversation, partition::Asker, safeguard::Safeguard,
};

/// Beyond this multiple of `recent_mids` even young ones are forgotten.
const MIDS_HARD: usize = 8;
/// A conversation whose members take more than this part of all memory keeps none that the view has.
const MEMBERS_PART: usize = 16;
/// Conversations that are looked over in a millisecond, at least.
const LOOKED_OVER: u64 = 1000;

impl Partition {
    /// What its conversations weigh.
    pub fn conversation_bytes(&self) -> usize {
        self.weight
    }

    pub fn conversations(&self) -> usize {
        self.conversations.len()
    }

    /// What they may weigh from now on; the next tick evicts down to nine tenths of it.
    pub fn set_conversation_bytes(&mut self, bytes: usize) {
        self.options.conversation_bytes = bytes;
    }

    pub(crate) fn conversation(&mut self, key: &ConversationKey, now: u64) -> &mut Conversation {
        self.weighed(key, now).0
    }

    /// With the sum of all weights, for who changes what it holds.
    pub(crate) fn weighed(&mut self, key: &ConversationKey, now: u64) -> (&mut Conversation, &mut usize) {
        let (next_id, weight) = (&mut self.next_id, &mut self.weight);
        let conversation = self.conversations.entry(key.clone()).or_insert_with(|| {
            *next_id += 1;
            let mut fresh = Box::new(Conversation::new(key, *next_id));
            fresh.reweigh(weight);
            fresh
        });
        conversation.last_used = now;
        (conversation, weight)
    }

    /// The same key, sharing its text with everything else that is kept of this conversation.
    pub(crate) fn shared(&self, key: ConversationKey) -> ConversationKey {
        self.conversations.get_key_value(&key).map_or(key, |(known, _)| known.clone())
    }

    /// Where cold loads are served from, at least.
    pub(crate) fn lowest(&self) -> u64 {
        if self.lacks(Safeguard::ColdCheck) {
            return 0;
        }
        let begins = if self.lacks(Safeguard::Begins) { 0 } else { self.begins };
        self.view_acked.max(begins)
    }

    /// The views' answer to a lookup.
    pub fn looked_up(&mut self, answer: LookupAnswer, now: Now) {
        let Some(asked) = self.lookups.remove(&answer.ticket) else { return };
        let cold_since = self.lacks(Safeguard::ColdSince);
        // MySQL may be behind what was evicted, or behind where this owner began.
        let late = |at: u64| at < self.begins && !self.lacks(Safeguard::Behind);
        let answer = match answer.load {
            Load::Persisted(at, _) if late(at) => LookupAnswer { load: Load::Unavailable, ..answer },
            _ => answer,
        };
        if let Load::Found(loaded) | Load::Persisted(_, loaded) = &answer.load
            && let Some(conversation) = self.conversations.get_mut(&asked.key)
            && (conversation.generation == asked.generation || cold_since)
        {
            conversation.load(loaded, &asked.users);
            conversation.reweigh(&mut self.weight);
        }
        match asked.asker {
            Asker::Entry(entry) => self.entry_looked_up(entry, &answer, now),
            Asker::Reader(reader) => self.read_ready(&asked.key, reader, now),
        }
    }

    pub(crate) fn forget_mids(&mut self, now: Now) {
        let surplus = self.stored_order.len() > self.options.recent_mids;
        // A window that was asked is right up to where the view stood then: what came later has to stay until it is used.
        let asked = self.entries.values().filter(|_| surplus).map(|entry| entry.asked_at).min();
        let safe = asked.map_or(self.view_acked, |asked| asked.min(self.view_acked));
        while self.stored_order.len() > self.options.recent_mids {
            let few = self.stored_order.len() <= self.options.recent_mids * MIDS_HARD;
            let young = |mid: &[u8; 16]| {
                self.stored.get(mid).is_some_and(|of| of.sent_at_ms + self.options.mids_ms > now.wall)
            };
            match self.stored_order.front() {
                Some((offset, mid)) if *offset < safe && !(few && young(mid)) => {
                    if let Some(entry) = self.stored.remove(mid) {
                        self.forgotten = self.forgotten.max(entry.sent_at_ms);
                    }
                    self.stored_order.pop_front();
                }
                _ => break,
            }
        }
    }

    /// Down to nine tenths of the bound, the longest unused first: of what the view has; if that is not enough, because the view
    /// is away, of what MySQL has. What neither has stays.
    pub(crate) fn evict(&mut self, now: Now) {
        if self.weight <= self.options.conversation_bytes || now.mono < self.evict_due {
            return;
        }
        let target = self.options.conversation_bytes / 10 * 9;
        let asked: HashSet<_> = self.lookups.values().map(|asked| asked.key.clone()).collect();
        for stored in [self.view_acked, self.recent.persisted()] {
            self.forget_members(stored, &asked);
            self.evict_below(stored, target, &asked);
            if self.weight <= target {
                return;
            }
        }
        self.evict_due = now.mono + self.conversations.len() as u64 / LOOKED_OVER;
    }

    fn evict_below(&mut self, stored: u64, target: usize, asked: &HashSet<ConversationKey>) {
        let mut idle: Vec<_> = self
            .conversations
            .iter()
            .filter(|(key, conversation)| match self.options.without {
                Some(Safeguard::Evict) => true,
                Some(Safeguard::ColdSince) => conversation.evictable(stored),
                _ => conversation.evictable(stored) && !asked.contains(*key),
            })
            .map(|(key, conversation)| ((conversation.last_used, conversation.generation), key.clone()))
            .collect();
        idle.sort_unstable_by_key(|(age, _)| *age);
        for (_, key) in idle {
            if self.weight <= target {
                return;
            }
            let Some(gone) = self.conversations.remove(&key) else { continue };
            self.begins = self.begins.max(gone.newest_offset.map_or(0, |newest| newest + 1));
            gone.unweigh(&mut self.weight);
        }
    }

    /// A conversation that is never idle would collect everybody who ever wrote.
    fn forget_members(&mut self, stored: u64, asked: &HashSet<ConversationKey>) {
        let most = self.options.conversation_bytes / MEMBERS_PART;
        for (key, conversation) in &mut self.conversations {
            if conversation.members_weight() <= most || asked.contains(key) {
                continue;
            }
            if let Some(newest) = conversation.forget_members(stored) {
                self.begins = self.begins.max(newest);
                conversation.reweigh(&mut self.weight);
            }
        }
    }
}
