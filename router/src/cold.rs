//! Cold loads without Redis: single conversations out of MySQL, by way of a persister (R-ACK-5, R-SEQ-9; ADR 7). Bounded by the
//! places that lookups of an instance have, and by time; whatever fails is `not_ready`.

use std::{collections::HashMap, time::Duration};

use lapwing_model::{ConversationKey, Header, Member, PartitionId, Position};
use lapwing_proto::{
    Message as _,
    bus::{LoadAsk, LoadAskItem, LoadReply, LoadReplyItem},
};
use lapwing_router_core::{Load, Loaded, Lookup};
use lapwing_runtime::{metrics, throttle::Throttle};

use crate::router::Router;

const SUBJECT: &str = "lw.p.load";
const TIMEOUT: Duration = Duration::from_secs(2);
/// Conversations and members of one request; who asks for more in one conversation waits for Redis.
const MOST: usize = 2000;

static TROUBLE: Throttle = Throttle::every_ms(5000);

/// An answer for each lookup, in their order.
pub(crate) async fn load(router: &Router, batch: &[(PartitionId, Lookup)]) -> Vec<Load> {
    let nothing = |lookup: &Lookup| if lookup.load.is_some() { Load::Unavailable } else { Load::NotAsked };
    let mut loads: Vec<Load> = batch.iter().map(|(_, lookup)| nothing(lookup)).collect();
    let requests = requests(batch);
    if requests.is_empty() {
        return loads;
    }
    let (timer, mut result) = (metrics::rpc("load"), "ok");
    for places in requests {
        let items = places.iter().filter_map(|place| item(&batch[*place])).collect();
        match ask(router, LoadAsk { items }).await {
            Ok(answers) if answers.len() == places.len() => {
                for (place, answer) in places.into_iter().zip(answers) {
                    loads[place] = loaded(&batch[place].1, answer).unwrap_or(Load::Unavailable);
                }
            }
            Ok(_) => result = "form",
            Err(error) => {
                result = "error";
                if let Some(more) = TROUBLE.pass() {
                    tracing::warn!(more, "cold conversations wait: Redis is away, and {error}");
                }
                // The next request would wait as long.
                break;
            }
        }
    }
    timer.done(result);
    loads
}

/// The places in the batch that go together.
fn requests(batch: &[(PartitionId, Lookup)]) -> Vec<Vec<usize>> {
    let (mut requests, mut weight) = (Vec::<Vec<usize>>::new(), usize::MAX);
    for (place, (_, lookup)) in batch.iter().enumerate() {
        let Some(load) = lookup.load.as_ref().filter(|load| load.cold && load.users.len() < MOST) else {
            continue;
        };
        let own = 1 + load.users.len();
        match requests.last_mut().filter(|_| weight.saturating_add(own) <= MOST) {
            Some(request) => request.push(place),
            None => {
                weight = 0;
                requests.push(vec![place]);
            }
        }
        weight += own;
    }
    requests
}

fn item((id, lookup): &(PartitionId, Lookup)) -> Option<LoadAskItem> {
    let ConversationKey { tenant, conversation } = &lookup.key;
    Some(LoadAskItem {
        partition: Some(id.into()),
        tenant: tenant.to_string(),
        conversation: conversation.to_string(),
        users: lookup.load.as_ref()?.users.iter().map(|user| user.to_string()).collect(),
    })
}

async fn ask(router: &Router, ask: LoadAsk) -> Result<Vec<LoadReplyItem>, String> {
    let answer = router.nats.request(SUBJECT, &[], ask.encode_to_vec().into(), TIMEOUT).await;
    let answer = answer.map_err(|error| format!("no persister answers: {error}"))?;
    let reply = LoadReply::decode(answer).map_err(|error| error.to_string())?;
    match reply.error {
        Some(error) => Err(error.message),
        None => Ok(reply.items),
    }
}

/// None: nothing can be said.
fn loaded(lookup: &Lookup, answer: LoadReplyItem) -> Option<Load> {
    let at: Position = answer.at?.into();
    let row = answer.row.unwrap_or_default();
    let users = &lookup.load.as_ref()?.users;
    let found: HashMap<&str, Member> = row
        .members
        .iter()
        .map(|of| (of.user.as_str(), Member { from_seq: of.from_seq, to_seq: of.to_seq }))
        .collect();
    let loaded = Loaded {
        header: Header {
            head: row.head,
            n: row.n,
            member_count: row.member_count,
            history_for_new_members: row.history_for_new_members,
        },
        persisted: row.head,
        mid: None,
        members: users.iter().map(|user| found.get(&**user).copied()).collect(),
    };
    Some(Load::Persisted(at.offset, Box::new(loaded)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lapwing_router_core::io::LoadAsk;

    use super::*;

    fn lookup(users: usize, cold: bool) -> (PartitionId, Lookup) {
        let users = (0..users).map(|n| Arc::from(format!("u{n}"))).collect();
        let load = Some(LoadAsk { lowest: 0, users, mid: None, cold });
        let key = ConversationKey::new("t", "grp.g");
        (PartitionId::new("lapwing.group", 0), Lookup { ticket: 0, key, bucket: 0, load, own: None })
    }

    #[test]
    fn requests_are_cut_by_weight_and_what_is_not_cold_is_not_asked() {
        let batch = [(1, true), (5, false), (1500, true), (498, true), (0, true), (MOST, true)];
        let batch = batch.map(|(users, cold)| lookup(users, cold));
        assert_eq!(requests(&batch), [vec![0, 2], vec![3, 4]]);
    }

    // I9: a row that is missing is no member; an answer without a position is none.
    #[test]
    fn members_are_told_in_the_order_of_the_question() {
        let (_, asked) = lookup(3, true);
        assert_eq!(loaded(&asked, LoadReplyItem::default()), None);
        let member = |user: &str, from_seq| lapwing_proto::bus::RebuildMember {
            user: user.into(),
            from_seq,
            ..Default::default()
        };
        let row = lapwing_proto::bus::RebuildRow {
            head: 9,
            members: vec![member("u2", 4), member("u0", 1)],
            ..Default::default()
        };
        let at = Some(Position { offset: 12, epoch: 0, index: 3 }.into());
        let Some(Load::Persisted(12, loaded)) = loaded(&asked, LoadReplyItem { at, row: Some(row) }) else {
            panic!("loaded from position 12")
        };
        let from = |from_seq| Some(Member { from_seq, to_seq: 0 });
        assert_eq!(loaded.members, [from(1), None, from(4)]);
        assert_eq!((loaded.header.head, loaded.persisted), (9, 9));
    }
}
