//! What one run is made of, drawn from its seed: small worlds reach more, wide ones hold more; each leaves some faults out.

use std::sync::LazyLock;

use lapwing_model::{ConversationKey, PartitionId, RangeMap, bucket, kind::p2p_id};
use rand::{Rng as _, rngs::StdRng};

pub(crate) const ROUTERS: usize = 3;
pub(crate) const GATEWAYS: usize = 2;
pub(crate) const TENANT: &str = "t";
pub(crate) const USERS: [&str; 4] = ["u0", "u1", "u2", "u3"];

/// Two groups on two sides of everything: in two partitions of two, and each on another Redis instance.
pub(crate) static GROUPS: LazyLock<[String; 2]> = LazyLock::new(|| {
    let group = |wanted: std::ops::Range<u32>| {
        let mut names = (0..).map(|n| format!("grp.g{n}"));
        let found = names.find(|name| {
            bucket::bucket_of(&ConversationKey::new(TENANT, name.as_str()))
                .is_some_and(|of| wanted.contains(&of))
        });
        found.unwrap_or_default()
    };
    [group(0..64), group(128..192)]
});

pub(crate) fn p2p() -> String {
    p2p_id(TENANT, USERS[0], USERS[1])
}

/// How often each fault strikes, per chance that it gets.
#[derive(Debug, Clone)]
pub(crate) struct Faults {
    pub(crate) lost_append: f64,
    pub(crate) late_append: f64,
    pub(crate) doubled_append: f64,
    pub(crate) garbled: f64,
    pub(crate) false_failure: f64,
    pub(crate) lost_answer: f64,
    pub(crate) lost_apply: f64,
    pub(crate) skipped_key: f64,
    pub(crate) no_load: f64,
    pub(crate) lost_beat: f64,
    pub(crate) crash: u32,
    pub(crate) pause: u32,
    pub(crate) roll_back: u32,
    pub(crate) redis_lost: u32,
    pub(crate) redis_down: u32,
    pub(crate) cut: u32,
    pub(crate) clock_jump: u32,
    pub(crate) persister_kill: u32,
    pub(crate) gateway_crash: u32,
    pub(crate) gateway_pause: u32,
    pub(crate) reconnect: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) step_ms: u64,
    /// One partition for all conversations, or each in its own.
    pub(crate) wide: bool,
    /// Heartbeats and the real assignment decide who claims; else anyone does at any time.
    pub(crate) assigned: bool,
    /// Clients' publishes go through the gateways' lanes and ownership tables; else straight to some router.
    pub(crate) gateways: bool,
    pub(crate) buckets: RangeMap<String>,
    pub(crate) shards: RangeMap<String>,
    pub(crate) instances: Vec<&'static str>,
    pub(crate) faults: Faults,
}

impl Plan {
    pub(crate) fn draw(random: &mut StdRng) -> Self {
        let wide = random.random_bool(0.3);
        let assigned = wide || random.random_bool(0.15);
        let gateways = assigned && random.random_bool(0.7);
        let two = random.random_bool(0.4);
        let maps = if two {
            ("0-31=a 32-95=b 96-159=a 160-255=b", "0-20=a 21-40=b 41-63=a")
        } else {
            ("0-255=a", "0-63=a")
        };
        Self {
            step_ms: if assigned { 50 } else { 10 },
            wide,
            assigned,
            gateways,
            buckets: RangeMap::parse(maps.0, bucket::BUCKETS).unwrap(),
            shards: RangeMap::parse(maps.1, bucket::USER_SHARDS).unwrap(),
            instances: if two { vec!["a", "b"] } else { vec!["a"] },
            faults: Faults::draw(random),
        }
    }

    pub(crate) fn partitions(&self) -> Vec<PartitionId> {
        if !self.wide {
            return vec![PartitionId::new("lapwing.group", 0)];
        }
        let mut all: Vec<_> = GROUPS.iter().cloned().chain([p2p()]).map(|of| Self::id(&of)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn id(conversation: &str) -> PartitionId {
        let key = ConversationKey::new(TENANT, conversation);
        PartitionId::of(&key, 2).unwrap()
    }

    /// The place of a conversation's partition among all.
    pub(crate) fn part(&self, all: &[PartitionId], conversation: &str) -> usize {
        if !self.wide {
            return 0;
        }
        let id = Self::id(conversation);
        all.iter().position(|of| *of == id).unwrap()
    }

    pub(crate) fn instance_of_bucket(&self, bucket: u32) -> usize {
        let name = self.buckets.get(bucket);
        self.instances.iter().position(|of| of == name).unwrap()
    }

    pub(crate) fn instance_of_user(&self, user: &str) -> usize {
        let name = self.shards.get(bucket::user_shard(TENANT, user));
        self.instances.iter().position(|of| of == name).unwrap()
    }
}

impl Faults {
    /// Each kind is left out in every fourth run: what one fault hides, another run shows.
    fn draw(random: &mut StdRng) -> Self {
        let mut of = |usual: f64| if random.random_bool(0.25) { 0.0 } else { usual };
        let (lost_append, late_append, doubled_append) = (of(0.01), of(0.02), of(0.03));
        let (false_failure, lost_answer, lost_apply) = (of(0.02), of(0.1), of(0.1));
        let (no_load, lost_beat) = (of(0.05), of(0.03));
        // Nothing may rest on these keys: in some runs they are hardly ever there.
        let skipped_key = [0.0, 0.1, 0.1, 0.8][random.random_range(0..4)];
        // What nobody can read stops a persister for good, by design: seldom, or nothing else of it would be seen.
        let garbled = if random.random_bool(0.2) { 0.003 } else { 0.0 };
        let mut times = |usual: u32| if random.random_bool(0.25) { 0 } else { usual };
        Self {
            lost_append,
            late_append,
            doubled_append,
            garbled,
            false_failure,
            lost_answer,
            lost_apply,
            skipped_key,
            no_load,
            lost_beat,
            crash: times(2),
            pause: times(3),
            roll_back: times(2),
            redis_lost: times(1),
            redis_down: times(2),
            cut: times(3),
            clock_jump: times(3),
            persister_kill: times(3),
            gateway_crash: times(2),
            gateway_pause: times(3),
            reconnect: times(6),
        }
    }
}
