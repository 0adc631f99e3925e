//! Rows of MySQL as operations on a view that has nothing stored (R-SEQ-6).

use std::sync::Arc;

use lapwing_model::{ConversationKey, Family, Kind, Member, Op};
use lapwing_proto::bus::{RebuildMember, RebuildRow};

/// What the view of a family is told of one conversation, or of more of its members.
pub fn ops_of_row(family: Family, row: &RebuildRow, into: &mut Vec<Op>) {
    let key = ConversationKey::new(row.tenant.as_str(), row.conversation.as_str());
    match family {
        Family::Commit => commit(&key, row, into),
        Family::User => user(&key, row, into),
    }
}

fn commit(key: &ConversationKey, row: &RebuildRow, into: &mut Vec<Op>) {
    let bucket = row.bucket;
    if !row.further {
        let (member_count, history) = (Some(row.member_count), Some(row.history_for_new_members));
        into.push(Op::Reset { key: key.clone(), bucket });
        into.push(Op::Head { key: key.clone(), bucket, head: row.head, n: row.n, member_count, history });
        into.push(Op::Persisted { key: key.clone(), bucket, seq: row.head, trim_to: 0 });
    }
    into.extend(row.members.iter().map(|of| Op::Joined {
        key: key.clone(),
        bucket,
        user: of.user.as_str().into(),
        member: member(of),
    }));
}

fn user(key: &ConversationKey, row: &RebuildRow, into: &mut Vec<Op>) {
    let (tenant, conversation) = (&key.tenant, &key.conversation);
    for of in &row.members {
        let user: Arc<str> = of.user.as_str().into();
        into.push(Op::UserJoined {
            tenant: tenant.clone(),
            user: user.clone(),
            conversation: conversation.clone(),
            member: member(of),
        });
        if (of.read_seq, of.delivered_seq) != (0, 0) {
            into.push(Op::Cursor {
                tenant: tenant.clone(),
                user,
                conversation: conversation.clone(),
                read_seq: of.read_seq,
                read_n: of.read_n,
                delivered_seq: of.delivered_seq,
            });
        }
    }
    if let (Some(Kind::P2p), [one, other]) = (Kind::of_conversation(conversation), &row.members[..]) {
        for (user, peer) in [(one, other), (other, one)] {
            into.push(Op::UserPeer {
                tenant: tenant.clone(),
                user: user.user.as_str().into(),
                conversation: conversation.clone(),
                peer: peer.user.as_str().into(),
            });
        }
    }
}

fn member(of: &RebuildMember) -> Member {
    Member { from_seq: of.from_seq, to_seq: of.to_seq }
}
