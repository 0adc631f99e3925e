//! The same random calls to both; then everything that can be read is read from both, and must be the same.

use lapwing_model::{
    ConversationKey, Family, Member, Op, PartitionId, Position, bucket::bucket_of, view::FAMILIES,
};
use lapwing_views::{Applied, Expect, OwnItem, PageAsk, Section};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    memory::Memory,
    real::Real,
    store::{
        NOW, START, Store, ask_load, at, head, hot, id_of, joined, left, mid, persisted, reset, section,
    },
};

const RUNS: u64 = 40;
const CALLS: usize = 60;
const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
const CONVERSATIONS: [(&str, &str); 6] =
    [("t", "grp.a"), ("t", "grp.b"), ("t", "grp.c"), ("t", "p2p.x"), ("t", "p2p.y"), ("u", "grp.a")];

struct Play {
    random: StdRng,
    /// Of each conversation: the next seq, as its log has it.
    next: [u64; CONVERSATIONS.len()],
    sent: Vec<Section>,
    taken: usize,
}

fn keys() -> [ConversationKey; CONVERSATIONS.len()] {
    CONVERSATIONS.map(|(tenant, conversation)| ConversationKey::new(tenant, conversation))
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        // A view that was rebuilt begins far above 1.
        let next =
            CONVERSATIONS.map(|_| if random.random_bool(0.3) { random.random_range(1..2000) } else { 1 });
        Self { random, next, sent: Vec::new(), taken: 0 }
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.random_range(0..of.len())].clone()
    }

    fn user(&mut self) -> &'static str {
        self.pick(&USERS)
    }

    /// A section of one of the partitions, mostly such that it is taken.
    async fn section(&mut self, memory: &mut Memory) -> Section {
        if !self.sent.is_empty() && self.random.random_bool(0.08) {
            let sent = self.sent.clone();
            return self.pick(&sent);
        }
        let (id, family) = (id_of(&self.pick(&keys())), self.pick(&FAMILIES));
        let stands = match memory.apply(0, &[probe(&id, family)]).await.remove(0) {
            Applied::At(stands) => stands,
            _ => None,
        };
        let (from, token) = (stands.unwrap_or(START), format!("r{}", self.random.random_range(0..2)));
        let to = at(from.offset + self.random.random_range(0..9));
        let expect = match self.random.random_range(0..100) {
            0..12 => Expect::Any,
            12..18 => Expect::Move(at(from.offset + 1), to),
            18..22 => Expect::Begin(token),
            22..28 => Expect::Rebuild(token),
            28..32 => Expect::End(token, to),
            32 => Expect::Leave(from, "two".to_owned()),
            _ => Expect::Move(from, to),
        };
        let mut ops = Vec::new();
        for _ in 0..self.random.random_range(0..6) {
            let of_it: Vec<usize> = (0..CONVERSATIONS.len()).filter(|n| id_of(&keys()[*n]) == id).collect();
            let conversation = self.pick(&of_it);
            match family {
                Family::Commit => self.commit(conversation, &mut ops),
                Family::User => self.user_op(conversation, &mut ops),
            }
        }
        section(&id, family, expect, ops)
    }

    fn commit(&mut self, conversation: usize, ops: &mut Vec<Op>) {
        let key = &keys()[conversation];
        let next = self.next[conversation];
        let (user, seq) = (self.user(), self.random.random_range(1..next + 3));
        match self.random.random_range(0..20) {
            0 => ops.push(reset(key)),
            1 => ops.push(persisted(key, seq, 0)),
            2 => ops.push(persisted(key, seq, seq.saturating_sub(self.random.random_range(0..5)))),
            3 => ops.push(Op::Told { at: at(seq) }),
            4..7 => ops.push(joined(key, user, seq)),
            7..10 => ops.push(left(key, user, seq)),
            10 => ops.push(Op::Head {
                key: key.clone(),
                bucket: bucket_of(key).unwrap(),
                head: seq,
                n: seq / 2,
                member_count: self.random.random_bool(0.5).then_some(seq as u32),
                history: self.random.random_bool(0.5).then_some(seq.is_multiple_of(2)),
            }),
            _ => self.messages(conversation, ops),
        }
    }

    /// Some records in the order of their log, from its end on or replayed from further back.
    fn messages(&mut self, conversation: usize, ops: &mut Vec<Op>) {
        let (key, next) = (&keys()[conversation], self.next[conversation]);
        let back = if self.random.random_bool(0.25) { self.random.random_range(0..12) } else { 0 };
        let first = next.saturating_sub(back).max(1);
        let most = if self.random.random_bool(0.03) { 1200 } else { 8 };
        let last = first + self.random.random_range(0..most);
        for seq in first..=last {
            ops.push(hot(key, seq));
            let sent_at_ms = NOW - self.random.random_range(0..3 * 3600 * 1000);
            ops.push(mid(key, self.random.random_range(0..40), seq, sent_at_ms));
            ops.push(head(key, seq));
        }
        self.next[conversation] = next.max(last + 1);
    }

    fn user_op(&mut self, conversation: usize, ops: &mut Vec<Op>) {
        let ConversationKey { tenant, conversation } = keys()[conversation].clone();
        let user = self.user().into();
        let mut seq = || self.random.random_range(0..300);
        let (one, other, third) = (seq(), seq(), seq());
        ops.push(match one % 10 {
            0..3 => {
                Op::UserJoined { tenant, user, conversation, member: Member { from_seq: other, to_seq: 0 } }
            }
            3 => Op::UserLeft { tenant, user, conversation, to_seq: other },
            5 | 6 => Op::Sent { tenant, user, conversation, seq: one, n: other },
            4 => Op::UserPeer { tenant, user, conversation, peer: self.user().into() },
            _ => Op::Cursor {
                tenant,
                user,
                conversation,
                read_seq: one / 10,
                read_n: other,
                delivered_seq: third,
            },
        });
    }

    async fn call(&mut self, memory: &mut Memory, real: &mut Real) {
        let mut sections = Vec::new();
        for _ in 0..self.random.random_range(1..4) {
            sections.push(self.section(memory).await);
        }
        let (model, scripts) = (memory.apply(0, &sections).await, real.apply(0, &sections).await);
        assert_eq!(model, scripts, "{sections:?}");
        self.taken += model.iter().filter(|answer| **answer == Applied::Ok).count();
        self.sent.extend(sections);
        if self.random.random_bool(0.05) {
            let id = id_of(&self.pick(&keys()));
            memory.clear(&id, 0).await;
            real.clear(&id, 0).await;
        }
        if self.random.random_bool(0.03) {
            let (id, offset) = (id_of(&self.pick(&keys())), self.random.random_range(0..60));
            memory.right_up_to(&id, offset, offset / 2);
            real.right_up_to(&id, offset, offset / 2);
        }
    }
}

fn probe(id: &PartitionId, family: Family) -> Section {
    Section::probe(id, crate::store::piece(family))
}

/// Returns how much of it said anything.
async fn compare(play: &mut Play, memory: &mut Memory, real: &mut Real) -> usize {
    let mut said = 0;
    for (key, next) in keys().iter().zip(play.next) {
        let id = id_of(key);
        for family in FAMILIES {
            let probe = [probe(&id, family)];
            assert_eq!(memory.apply(0, &probe).await, real.apply(0, &probe).await, "{id} {family:?}");
        }
        assert_eq!(memory.found(&id, 0).await, real.found(&id, 0).await, "{id}");
        assert_eq!(memory.told(&id).await, real.told(&id).await, "{id}");
        let lowest = play.random.random_range(0..40);
        let items: Vec<_> = (0..40).map(|name| ask_load(key, lowest, &USERS, Some(name))).collect();
        let loaded = memory.load(0, &items).await;
        assert_eq!(loaded, real.load(0, &items).await, "{key} from {lowest}");
        said += loaded.iter().flatten().count();
        for _ in 0..8 {
            let (from, limit) = (play.random.random_range(0..next + 5), play.random.random_range(0..30));
            let to = from + play.random.random_range(0..60);
            let newest = play.random.random_bool(0.5);
            let ask = PageAsk { key, user: Some(play.user()), from, to, limit, newest };
            let page = memory.page(ask).await;
            assert_eq!(page, real.page(ask).await, "{ask:?}");
            said += page.map_or(0, |page| page.events.len());
        }
        let whole = PageAsk { key, user: None, from: 0, to: 1 << 40, limit: 5000, newest: false };
        assert_eq!(memory.page(whole).await, real.page(whole).await, "{key}");
    }
    for (tenant, user) in ["t", "u"].iter().flat_map(|tenant| USERS.map(|user| (tenant, user))) {
        let most = play.random.random_range(1..9);
        let found = memory.conversations(tenant, user, most).await;
        assert_eq!(found, real.conversations(tenant, user, most).await, "{tenant}/{user}");
        said += found.map_or(0, |found| found.len());
    }
    let item = |mid: usize, random: &mut StdRng| OwnItem {
        tenant: "t".into(),
        sender: USERS[mid % 2].into(),
        client_mid: format!("m{mid}").into(),
        content_hash: [random.random_range(0..2); 16],
    };
    let items: Vec<_> = (0..5).map(|_| item(play.random.random_range(0..6), &mut play.random)).collect();
    assert_eq!(memory.own(&items).await, real.own(&items).await, "{items:?}");
    said
}

/// Partitions of which this play has no conversation stand from the start; else nobody's list would be readable.
async fn begin(memory: &mut Memory, real: &mut Real) {
    for kind in lapwing_model::kind::KINDS {
        for n in 0..crate::store::PARTITIONS {
            let first = Expect::Move(START, Position::default());
            let section = section(&PartitionId::new(kind.topic(), n), Family::User, first, Vec::new());
            assert_eq!(
                memory.apply(0, std::slice::from_ref(&section)).await,
                real.apply(0, &[section]).await
            );
        }
    }
}

#[tokio::test]
async fn random_calls_leave_the_model_and_redis_alike() {
    let mut real = Real::start().await;
    let only = std::env::var("LAPWING_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = only.map_or(0..RUNS, |seed| seed..seed + 1);
    let (mut taken, mut said) = (0, 0);
    for seed in seeds {
        // Printed with the failure alone.
        println!("LAPWING_SEED={seed}");
        let (mut play, mut memory) = (Play::new(seed), Memory::default());
        real.renew().await;
        if seed % 4 != 0 {
            begin(&mut memory, &mut real).await;
        }
        for call in 0..CALLS {
            play.call(&mut memory, &mut real).await;
            if call % 15 == 14 {
                said += compare(&mut play, &mut memory, &mut real).await;
            }
        }
        taken += play.taken;
    }
    assert!(only.is_some() || (taken > 2000 && said > 10_000), "{taken} sections taken, {said} things read");
    println!("{taken} sections taken, {said} things read");
}
