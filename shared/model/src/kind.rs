//! A conversation's kind: fixed at creation, told by its id's prefix, part of its hash domain; it names the topic.

use data_encoding::{BASE32_NOPAD, Encoding};
use lapwing_proto::{client, record};

use crate::ids::{self, BadId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    P2p,
    Group,
    System,
}

pub const KINDS: [Kind; 3] = [Kind::P2p, Kind::Group, Kind::System];

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::P2p => "p2p",
            Kind::Group => "group",
            Kind::System => "system",
        }
    }

    pub fn topic(self) -> &'static str {
        match self {
            Kind::P2p => "lapwing.p2p",
            Kind::Group => "lapwing.group",
            Kind::System => "lapwing.system",
        }
    }

    pub fn of_topic(topic: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.topic() == topic)
    }

    /// By the id's prefix; None: no conversation can have this id.
    pub fn of_conversation(id: &str) -> Option<Self> {
        let (prefix, rest) = id.split_once('.')?;
        match prefix {
            _ if rest.is_empty() => None,
            "p2p" => Some(Kind::P2p),
            "grp" => Some(Kind::Group),
            "sys" => Some(Kind::System),
            _ => None,
        }
    }
}

impl From<Kind> for client::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::P2p => client::Kind::P2p,
            Kind::Group => client::Kind::Group,
            Kind::System => client::Kind::System,
        }
    }
}

impl From<Kind> for record::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::P2p => record::Kind::P2p,
            Kind::Group => record::Kind::Group,
            Kind::System => record::Kind::System,
        }
    }
}

/// The p2p conversation of two users, whichever of them asks: `p2p.` + base32 of 20 hash bytes.
pub fn p2p_id(tenant: &str, one: &str, other: &str) -> String {
    let (small, large) = if one <= other { (one, other) } else { (other, one) };
    let hash = crate::bucket::hash(&[tenant, small, large]);
    format!("p2p.{}", lower_base32().encode(&hash.as_bytes()[..20]))
}

/// The group with the name that its creator gave: `grp.` + name.
pub fn group_id(name: &str) -> Result<String, BadId> {
    ids::check_id("group name", name)?;
    Ok(format!("grp.{name}"))
}

/// A user's notices: `sys.` + user.
pub fn system_id(user: &str) -> String {
    format!("sys.{user}")
}

fn lower_base32() -> Encoding {
    let mut spec = BASE32_NOPAD.specification();
    spec.symbols.make_ascii_lowercase();
    spec.encoding().unwrap_or(BASE32_NOPAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2p_id_is_the_same_for_both_sides_and_differs_by_tenant() {
        let id = p2p_id("t", "alice", "bob");
        assert_eq!(id, p2p_id("t", "bob", "alice"));
        assert_ne!(id, p2p_id("u", "alice", "bob"));
        assert_eq!(id, "p2p.".to_owned() + &id[4..].to_ascii_lowercase());
        assert_eq!(Kind::of_conversation(&id), Some(Kind::P2p));
        assert_eq!(Kind::of_conversation("grp."), None);
        assert_eq!(Kind::of_conversation("nope"), None);
    }
}
