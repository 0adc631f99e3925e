//! What gateways ask an owner about: attach (head and visibility), fetch (what memory holds), cursors.

use std::sync::Arc;

use lapwing_model::{ConversationKey, Kind, Member, Position, Refusal};
use lapwing_proto::{Message as _, bus, client, record::CursorRecord};

use crate::{
    Effect, Now, Partition, RequestId,
    commit::not_ready,
    io::LoadAsk,
    partition::Asker,
    recent::NowPersisted,
    requests::{Form, Slot, not_owner},
};

pub(crate) struct Reader {
    request: RequestId,
    slot: usize,
    user: Option<Arc<str>>,
    what: Read,
}

enum Read {
    Attach,
    Fetch { after: u64, limit: u32 },
    Cursor(CursorRecord),
}

/// Largest page that an owner answers from memory.
const MAX_FETCH: u32 = 500;
const MAX_FETCH_BYTES: usize = 1 << 20;

impl Partition {
    /// "This node has sessions for it": the interest counts at once, before any head is read.
    pub fn attach(&mut self, request: RequestId, batch: bus::AttachBatch, now: Now) {
        if !self.admits() {
            return self.effects.push_back(Effect::Reply { request, reply: not_owner(50) });
        }
        self.open(request, Form::Attach, batch.items.len());
        for (slot, item) in batch.items.into_iter().enumerate() {
            let key = ConversationKey::new(item.tenant, item.conversation);
            self.effects.push_back(Effect::Interest {
                hash: key.hash64(),
                node: batch.node.clone(),
                incarnation: batch.incarnation,
                counter: batch.counter,
            });
            let user = (!item.user.is_empty()).then(|| Arc::from(item.user));
            self.start_read(&key, Reader { request, slot, user, what: Read::Attach }, now);
        }
    }

    pub fn fetch(&mut self, request: RequestId, ask: bus::Fetch, now: Now) {
        if !self.admits() {
            return self.effects.push_back(Effect::Reply { request, reply: not_owner(50) });
        }
        self.open(request, Form::Fetch, 1);
        let key = ConversationKey::new(ask.tenant, ask.conversation);
        let user = (!ask.user.is_empty()).then(|| Arc::from(ask.user));
        let what = Read::Fetch { after: ask.after, limit: ask.limit.min(MAX_FETCH) };
        self.start_read(&key, Reader { request, slot: 0, user, what }, now);
    }

    pub fn cursors(&mut self, request: RequestId, batch: bus::CursorBatch, now: Now) {
        if !self.admits() {
            return self.effects.push_back(Effect::Reply { request, reply: not_owner(50) });
        }
        self.open(request, Form::Cursors, batch.cursors.len());
        for (slot, cursor) in batch.cursors.into_iter().enumerate() {
            let key = ConversationKey::new(cursor.tenant.as_str(), cursor.conversation.as_str());
            let user = Some(cursor.user.as_str().into());
            self.start_read(&key, Reader { request, slot, user, what: Read::Cursor(cursor) }, now);
        }
    }

    fn start_read(&mut self, key: &ConversationKey, reader: Reader, now: Now) {
        let lowest = self.lowest();
        let conversation = self.conversation(key, now.mono);
        let unknown = reader.user.iter().filter(|user| !conversation.members.contains_key(*user));
        let users: Vec<_> = unknown.cloned().collect();
        if conversation.loaded && users.is_empty() {
            return self.read_ready(key, reader, now);
        }
        let load = LoadAsk { lowest, users: users.clone(), mid: None, cold: true };
        self.ask(key, users, Asker::Reader(reader), Some(load), None, now);
    }

    pub(crate) fn read_ready(&mut self, key: &ConversationKey, reader: Reader, now: Now) {
        let conversation = self.conversation(key, now.mono);
        let member = match &reader.user {
            None => Some(Some(Member { from_seq: 1, to_seq: 0 })),
            Some(user) => conversation.members.get(user).copied(),
        };
        let slot = match member {
            Some(member) if conversation.loaded => {
                let (head, n, persisted) =
                    (conversation.header.head, conversation.header.n, conversation.persisted);
                self.read_found(key, &reader, member, (head, n, persisted))
            }
            _ => Some(Slot::refused(&not_ready(key, "its state cannot be read now"), "")),
        };
        if let Some(slot) = slot {
            self.answer(reader.request, reader.slot, slot);
        }
    }

    fn read_found(
        &mut self,
        key: &ConversationKey,
        reader: &Reader,
        member: Option<Member>,
        (head, n, persisted): (u64, u64, u64),
    ) -> Option<Slot> {
        let kind = Kind::of_conversation(&key.conversation).map_or(0, |kind| client::Kind::from(kind).into());
        match &reader.what {
            Read::Attach => {
                let Some(member) = member.filter(|_| head > 0) else {
                    return Some(Slot::Attached(bus::Attached::default()));
                };
                Some(Slot::Attached(bus::Attached {
                    found: true,
                    head,
                    n,
                    from_seq: member.from_seq,
                    to_seq: member.to_seq,
                    kind,
                    ..bus::Attached::default()
                }))
            }
            Read::Fetch { after, limit } => {
                let mut reply = bus::FetchReply {
                    found: head > 0,
                    head,
                    n,
                    persisted_seq: persisted,
                    ..bus::FetchReply::default()
                };
                if let Some(member) = member.filter(|_| head > 0) {
                    reply.member = true;
                    reply.from_seq = member.from_seq;
                    reply.to_seq = member.to_seq;
                    reply.events = self.events(key, *after, *limit, member);
                }
                Some(Slot::Fetched(Box::new(reply)))
            }
            Read::Cursor(cursor) => match member.filter(|_| head > 0) {
                Some(member) => {
                    let cursor = self.clamp(key, cursor.clone(), member, (head, n));
                    let (request, slot) = (reader.request, reader.slot);
                    self.effects.push_back(Effect::Cursor { cursor, request, slot });
                    None
                }
                None => {
                    let message = format!("{}: no such conversation for {}", key.conversation, cursor.user);
                    Some(Slot::refused(&Refusal::new(lapwing_model::Code::NotFound, message), ""))
                }
            },
        }
    }

    /// A persister says up to where MySQL has this partition: receipts for senders, trims for the hot windows (R-ACK-3).
    pub fn mark(&mut self, at: Position, tombstones: &[bus::Tombstone]) {
        let now = self.recent.mark(at, tombstones);
        self.tell_persisted(now);
    }

    pub(crate) fn tell_persisted(&mut self, persisted: Vec<NowPersisted>) {
        for now in persisted {
            let seq = now.receipt.persisted_seq;
            let head = self.recent.of(&now.key).last().map_or(seq, |released| released.record.seq);
            if let Some(conversation) = self.conversations.get_mut(&now.key) {
                conversation.persisted = conversation.persisted.max(seq);
            }
            self.effects.push_back(Effect::Persisted { key: now.key.clone(), bucket: now.bucket, seq, head });
            self.effects.push_back(Effect::Receipts { key: now.key, receipt: now.receipt });
        }
    }

    /// The cursor stands in the log: the request's slot is done.
    pub fn cursor_stored(&mut self, request: RequestId, slot: usize) {
        self.answer(request, slot, Slot::Done);
    }

    pub fn cursor_failed(&mut self, request: RequestId, slot: usize, error: &str) {
        let refusal = Refusal::new(lapwing_model::Code::NotReady, format!("cursor not stored: {error}"));
        self.answer(request, slot, Slot::refused(&refusal, ""));
    }

    fn events(&self, key: &ConversationKey, after: u64, limit: u32, member: Member) -> Vec<client::Event> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        for released in self.recent.of(key).filter(|released| released.record.seq > after) {
            if events.len() >= limit as usize || bytes > MAX_FETCH_BYTES || !member.sees(released.record.seq)
            {
                if events.is_empty() {
                    continue;
                }
                break;
            }
            bytes += released.event.len();
            events.extend(client::Event::decode(released.event.clone()));
        }
        events
    }

    /// R-FAN-14: never past the head, never outside the member's time.
    fn clamp(
        &self,
        key: &ConversationKey,
        mut cursor: CursorRecord,
        member: Member,
        (head, n): (u64, u64),
    ) -> CursorRecord {
        let top = if member.active() { head } else { member.to_seq.min(head) };
        cursor.read_seq = cursor.read_seq.min(top);
        cursor.delivered_seq = cursor.delivered_seq.min(top);
        let remembered = self.recent.of(key).find(|released| released.record.seq == cursor.read_seq);
        cursor.read_n = match remembered {
            _ if cursor.read_seq == head => n,
            Some(released) => released.record.n,
            // Not in memory: at most every event since then was countable.
            None => n.saturating_sub(head - cursor.read_seq),
        };
        cursor
    }
}
