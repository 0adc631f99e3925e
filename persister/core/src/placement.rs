//! Which MySQL instance and which table hold a conversation, and which instances get rows from a partition (R-PST-12).
//!
//! Buckets are placed by whole partitions, so a partition's rows are on one instance, but for tenants that have an instance or
//! a table of their own. The configuration says where a partition begins; from then on what the authority has stored counts.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use lapwing_model::{
    ConversationKey, PartitionId,
    bucket::{BUCKETS, RangeMap},
    kind::KINDS,
};

use crate::{shard, side, topic::Item};

/// Leases, placements and session audit are there.
pub const AUTHORITY: usize = 0;

/// Where a tenant's rows are, whatever the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    pub instance: usize,
    pub table: Option<Arc<str>>,
}

/// What the configuration says, with instances as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    pub names: Vec<String>,
    pub buckets: RangeMap<usize>,
    pub tenants: HashMap<String, Own>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Bad(String);

/// A partition's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    pub instance: usize,
    /// Being brought there.
    pub filling: Option<usize>,
    /// All rows have been copied there; what follows comes from the log.
    pub filled: bool,
    /// What is still there is to be deleted.
    pub sweeping: Option<usize>,
}

impl Placed {
    pub fn at(instance: usize) -> Self {
        Self { instance, filling: None, filled: false, sweeping: None }
    }

    fn gets_rows(&self, instance: usize) -> bool {
        self.instance == instance || (self.filled && self.filling == Some(instance))
    }

    fn gets_cursors(&self, instance: usize) -> bool {
        self.instance == instance || self.filling == Some(instance)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub instance: usize,
    pub table: String,
}

/// One state of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub version: i64,
    pub partitions: u32,
    configured: Arc<Configured>,
    placed: HashMap<PartitionId, Placed>,
}

/// What a unit takes from its partition; two of the same take the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule(Vec<bool>);

impl Configured {
    /// `buckets`: `0-127=one 128-255=two`; `tenants`: `acme=two big=one/big`. All on the first when nothing is said.
    pub fn parse(names: Vec<String>, buckets: &str, tenants: &str) -> Result<Self, Bad> {
        let index = |name: &str| {
            let found = names.iter().position(|known| known == name);
            found.ok_or_else(|| Bad(format!("LAPWING_MYSQL_URL has no instance {name}")))
        };
        let buckets = if buckets.trim().is_empty() {
            RangeMap::single(BUCKETS, AUTHORITY)
        } else {
            let map = RangeMap::parse(buckets, BUCKETS)
                .map_err(|error| Bad(format!("LAPWING_MYSQL_BUCKETS: {error}")))?;
            map.try_map(|name| index(name))
                .map_err(|Bad(text)| Bad(format!("LAPWING_MYSQL_BUCKETS: {text}")))?
        };
        let mut own = HashMap::new();
        for piece in tenants.split([' ', ',']).filter(|piece| !piece.is_empty()) {
            let bad = |problem: &str| Bad(format!("LAPWING_MYSQL_TENANTS: {piece:?}: {problem}"));
            let (tenant, place) = piece
                .split_once('=')
                .ok_or_else(|| bad("is not TENANT=INSTANCE or TENANT=INSTANCE/TABLE"))?;
            let (instance, table) = place.split_once('/').map_or((place, None), |(i, t)| (i, Some(t)));
            if table.is_some_and(|table| !is_table_word(table)) {
                return Err(bad("a table's word has 1 to 32 of a-z, 0-9 and _"));
            }
            let instance = index(instance).map_err(|Bad(text)| bad(&text))?;
            let table = table.map(|word| Arc::from(format!("messages_x_{word}")));
            if own.insert(tenant.to_owned(), Own { instance, table }).is_some() {
                return Err(bad("the tenant is named twice"));
            }
        }
        Ok(Self { names, buckets, tenants: own })
    }

    /// A partition is on one instance.
    pub fn check_partitions(&self, partitions: u32) -> Result<(), Bad> {
        let size = BUCKETS / partitions.max(1);
        match self.buckets.ranges().find(|(first, ..)| first % size != 0) {
            Some((first, ..)) => Err(Bad(format!(
                "LAPWING_MYSQL_BUCKETS: a range begins at {first}; ranges are whole partitions, so multiples of {size}"
            ))),
            None => Ok(()),
        }
    }

    /// The tables of tenants that have one on this instance.
    pub fn tables_on(&self, instance: usize) -> Vec<String> {
        let here = self.tenants.values().filter(|own| own.instance == instance);
        here.filter_map(|own| own.table.as_deref().map(str::to_owned))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

fn is_table_word(word: &str) -> bool {
    (1..=32).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

impl Placement {
    pub fn new(configured: Arc<Configured>, partitions: u32) -> Self {
        Self { version: 0, partitions: partitions.max(1), configured, placed: HashMap::new() }
    }

    /// The same with what the authority has stored.
    pub fn stored(&self, version: i64, placed: HashMap<PartitionId, Placed>) -> Self {
        Self { version, placed, ..self.clone() }
    }

    pub fn configured(&self) -> &Configured {
        &self.configured
    }

    pub fn name(&self, instance: usize) -> &str {
        self.configured.names.get(instance).map_or("?", String::as_str)
    }

    /// Where the configuration has a partition.
    pub fn begins_at(&self, partition: &PartitionId) -> usize {
        let first = partition.partition * BUCKETS / self.partitions;
        *self.configured.buckets.get(first.min(BUCKETS - 1))
    }

    pub fn placed(&self, partition: &PartitionId) -> Placed {
        self.placed.get(partition).copied().unwrap_or_else(|| Placed::at(self.begins_at(partition)))
    }

    pub fn own(&self, tenant: &str) -> Option<&Own> {
        self.configured.tenants.get(tenant)
    }

    /// None: no conversation can have this id.
    pub fn of(&self, key: &ConversationKey) -> Option<Place> {
        let (shard, partition) = (shard::of_conversation(key)?, PartitionId::of(key, self.partitions)?);
        let own = self.own(&key.tenant);
        let table = own.and_then(|own| own.table.as_deref());
        Some(Place {
            instance: own.map_or_else(|| self.placed(&partition).instance, |own| own.instance),
            table: table.map_or_else(|| shard::table(shard), str::to_owned),
        })
    }

    /// Whether this is the partition's instance for tenants without one of their own.
    pub fn is_home(&self, partition: &PartitionId, instance: usize) -> bool {
        self.placed(partition).instance == instance
    }

    /// Where readers find a partition's rows, its own instance first.
    pub fn read_from(&self, partition: &PartitionId) -> Vec<usize> {
        let mut all = self.home(partition, |placed| vec![placed.instance]);
        all.extend(self.tenants_instances());
        distinct(all)
    }

    /// Where a partition is written: each of these has an offset row of its own.
    pub fn instances_of(&self, partition: &PartitionId) -> Vec<usize> {
        if &*partition.topic == side::AUDIT_TOPIC {
            return vec![AUTHORITY];
        }
        let mut all = self.home(partition, |placed| {
            let filled = placed.filling.filter(|_| placed.filled || &*partition.topic == side::CURSOR_TOPIC);
            std::iter::once(placed.instance).chain(filled).collect()
        });
        // While rows are copied there nobody else writes: a row of the log before its copy would be half of one.
        let filling = |instance: &usize| {
            let placed = self.placed(partition);
            &*partition.topic != side::CURSOR_TOPIC && placed.filling == Some(*instance) && !placed.filled
        };
        all.extend(self.tenants_instances().into_iter().filter(|instance| !filling(instance)));
        distinct(all)
    }

    /// A side topic's cursors go where the conversations of the same number are, and its unreadable records to the authority.
    fn home(&self, partition: &PartitionId, of: impl Fn(Placed) -> Vec<usize>) -> Vec<usize> {
        match &*partition.topic {
            side::AUDIT_TOPIC => vec![AUTHORITY],
            side::CURSOR_TOPIC => {
                std::iter::once(AUTHORITY)
                    .chain(KINDS.into_iter().flat_map(|kind| {
                        of(self.placed(&PartitionId::new(kind.topic(), partition.partition)))
                    }))
                    .collect()
            }
            _ => of(self.placed(partition)),
        }
    }

    fn tenants_instances(&self) -> BTreeSet<usize> {
        self.configured.tenants.values().map(|own| own.instance).collect()
    }

    /// Two placements with the same rule let a unit take the same.
    pub fn rule(&self, partition: &PartitionId, instance: usize) -> Rule {
        match &*partition.topic {
            side::CURSOR_TOPIC => Rule(
                KINDS
                    .into_iter()
                    .map(|kind| {
                        self.placed(&PartitionId::new(kind.topic(), partition.partition))
                            .gets_cursors(instance)
                    })
                    .collect(),
            ),
            _ => {
                let placed = self.placed(partition);
                // Where rows are being brought they may be there already; once they are placed there none may.
                Rule(vec![placed.gets_rows(instance), placed.filling == Some(instance)])
            }
        }
    }

    /// The partitions that lie wholly in a range of buckets; None: the range is not whole partitions.
    pub fn partitions_in(&self, first: u32, last: u32) -> Option<Vec<PartitionId>> {
        let size = BUCKETS / self.partitions;
        if first > last || last >= BUCKETS || first % size != 0 || (last + 1) % size != 0 {
            return None;
        }
        let numbers = first / size..(last + 1) / size;
        Some(numbers.flat_map(|number| KINDS.map(|kind| PartitionId::new(kind.topic(), number))).collect())
    }

    /// Whether the unit of a partition on this instance writes the item.
    pub fn takes(&self, partition: &PartitionId, instance: usize, item: &Item) -> bool {
        let own = |tenant: &str| self.own(tenant).map(|own| own.instance == instance);
        match item {
            Item::Row(row) => {
                own(&row.record.tenant).unwrap_or_else(|| self.placed(partition).gets_rows(instance))
            }
            Item::Cursor { cursor, .. } => own(&cursor.tenant).unwrap_or_else(|| {
                let key = ConversationKey::new(cursor.tenant.as_str(), cursor.conversation.as_str());
                PartitionId::of(&key, self.partitions)
                    .map_or(instance == AUTHORITY, |partition| self.placed(&partition).gets_cursors(instance))
            }),
            Item::Audit { .. } => instance == AUTHORITY,
            Item::Unreadable(_) => match &*partition.topic {
                side::CURSOR_TOPIC | side::AUDIT_TOPIC => instance == AUTHORITY,
                _ => self.placed(partition).gets_rows(instance),
            },
        }
    }

    /// An item as the unit writes it: with its tenant's own table.
    pub fn routed(&self, mut item: Item) -> Item {
        if let Item::Row(row) = &mut item {
            row.own_table = self.own(&row.record.tenant).and_then(|own| own.table.clone());
        }
        item
    }
}

/// The first of each, in order.
fn distinct(all: Vec<usize>) -> Vec<usize> {
    let mut found = Vec::new();
    for instance in all {
        if !found.contains(&instance) {
            found.push(instance);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use lapwing_model::Position;
    use lapwing_proto::record::Record;

    use super::*;
    use crate::{batch::Row, plan::Cursor};

    fn placement(buckets: &str, tenants: &str) -> Result<Placement, Bad> {
        let names = ["one", "two"].map(str::to_owned).to_vec();
        Ok(Placement::new(Arc::new(Configured::parse(names, buckets, tenants)?), 8))
    }

    fn row(tenant: &str) -> Item {
        Item::Row(Box::new(Row {
            offset: 0,
            behind: Position::default(),
            shard: 3,
            own_table: None,
            record: Record { tenant: tenant.into(), conversation: "grp.a".into(), ..Record::default() },
            raw: Default::default(),
        }))
    }

    fn group(partition: u32) -> PartitionId {
        PartitionId::new("lapwing.group", partition)
    }

    // R-PST-12
    #[test]
    fn ranges_say_where_a_conversation_is_and_a_tenant_may_have_its_own() {
        let map = placement("0-127=one 128-255=two", "acme=two big=one/big").unwrap();
        // Bucket 156 (see the model): the second half, table 9.
        let of = |tenant: &str, name: &str| map.of(&ConversationKey::new(tenant, name)).unwrap();
        assert_eq!(of("demo", "grp.lobby"), Place { instance: 1, table: "messages_09".into() });
        assert_eq!(of("big", "grp.lobby"), Place { instance: 0, table: "messages_x_big".into() });
        assert_eq!(of("acme", "p2p.x").instance, 1);
        assert_eq!(map.of(&ConversationKey::new("demo", "nothing")), None);
        assert_eq!((map.instances_of(&group(0)), map.instances_of(&group(7))), (vec![0, 1], vec![1, 0]));
        assert_eq!(map.configured().tables_on(0), ["messages_x_big"]);
        assert!(map.configured().tables_on(1).is_empty());
    }

    #[test]
    fn a_record_goes_to_the_units_that_take_it() {
        let map = placement("0-127=one 128-255=two", "acme=two big=one/big").unwrap();
        let takes =
            |partition: u32, item: &Item| [0, 1].map(|instance| map.takes(&group(partition), instance, item));
        assert_eq!(takes(0, &row("t")), [true, false]);
        assert_eq!(takes(7, &row("t")), [false, true]);
        assert_eq!(takes(0, &row("acme")), [false, true]);
        assert_eq!(takes(7, &row("big")), [true, false]);
        let Item::Row(routed) = map.routed(row("big")) else { panic!("a row") };
        assert_eq!((routed.table(), map.routed(row("t")).offset()), ("messages_x_big".to_owned(), 0));
    }

    // Rows that are being copied get their tail from the log only when all of them are there; cursors are maxima.
    #[test]
    fn a_partition_that_is_filled_elsewhere_is_written_on_both_once_it_is_copied() {
        let map = placement("", "").unwrap();
        let filling = |filled| {
            let placed = Placed { filling: Some(1), filled, ..Placed::at(0) };
            map.stored(7, HashMap::from([(group(3), placed)]))
        };
        let (copying, copied) = (filling(false), filling(true));
        let cursors = PartitionId::new(side::CURSOR_TOPIC, 3);
        assert_eq!((copying.instances_of(&group(3)), copied.instances_of(&group(3))), (vec![0], vec![0, 1]));
        assert_eq!(copying.instances_of(&cursors), [0, 1]);
        assert!(!copying.takes(&group(3), 1, &row("t")) && copied.takes(&group(3), 1, &row("t")));
        assert!(copied.takes(&group(3), 0, &row("t")));
        let cursor = (0..).map(|i| format!("grp.{i}")).find_map(|name| {
            let key = ConversationKey::new("t", name.as_str());
            (PartitionId::of(&key, 8)? == group(3)).then_some(name)
        });
        let cursor = Cursor {
            tenant: "t".into(),
            user: "u".into(),
            conversation: cursor.unwrap(),
            read_seq: 0,
            read_n: 0,
            delivered_seq: 0,
        };
        let cursor = Item::Cursor { offset: 0, cursor, raw: Default::default() };
        assert!(copying.takes(&cursors, 1, &cursor) && !map.takes(&cursors, 1, &cursor));
        assert_ne!(map.rule(&cursors, 1), copying.rule(&cursors, 1));
        assert_eq!(map.rule(&group(3), 0), copied.rule(&group(3), 0));
        assert_eq!(copied.read_from(&group(3)), [0], "read where all of it is");
    }

    // A tenant's unit on the instance that is being filled waits for the copy.
    #[test]
    fn nobody_writes_where_rows_are_being_copied() {
        let map = placement("", "acme=two").unwrap();
        let placed = Placed { filling: Some(1), ..Placed::at(0) };
        let copying = map.stored(1, HashMap::from([(group(3), placed)]));
        assert_eq!((map.instances_of(&group(3)), copying.instances_of(&group(3))), (vec![0, 1], vec![0]));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_clear_word() {
        let error = |buckets: &str, tenants: &str| placement(buckets, tenants).unwrap_err().to_string();
        assert!(error("0-127=one 128-255=three", "").contains("no instance three"));
        assert!(error("0-127=one", "").contains("must cover 0-255"));
        assert!(error("", "acme=three").contains("no instance three"));
        assert!(error("", "acme=one/Big-Table").contains("a-z, 0-9"));
        assert!(error("", "acme").contains("TENANT=INSTANCE"));
        assert!(error("", "acme=one acme=two").contains("twice"));
        let odd = placement("0-99=one 100-255=two", "").unwrap();
        assert!(odd.configured().check_partitions(8).unwrap_err().to_string().contains("multiples of 32"));
        assert!(odd.configured().check_partitions(64).is_ok());
        assert_eq!(odd.partitions_in(0, 63).map(|all| all.len()), Some(6));
        for (first, last) in [(0, 62), (1, 63), (32, 31), (224, 287)] {
            assert_eq!(odd.partitions_in(first, last), None, "{first}-{last}");
        }
    }
}
