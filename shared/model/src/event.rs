//! Record of the log → event as clients see it.

use lapwing_proto::{
    client::{self, event},
    record::{self, Record, message, record::Body},
};

/// None for claims, beats and moves, which no client sees.
pub fn of_record(record: &Record) -> Option<client::Event> {
    Some(client::Event {
        conversation: record.conversation.clone(),
        seq: record.seq,
        n: record.n,
        sender: record.sender.clone(),
        device: record.device.clone(),
        client_mid: record.client_mid.clone(),
        sent_at_ms: record.sent_at_ms,
        traceparent: record.traceparent.clone(),
        body: Some(body_of(record.body.as_ref()?)?),
    })
}

fn body_of(body: &Body) -> Option<event::Body> {
    Some(match body {
        Body::Claim(_) | Body::Beat(_) | Body::MoveBegin(_) | Body::MoveSwitch(_) => return None,
        Body::Message(message) => event::Body::Message(to_client(message)),
        Body::Created(created) => event::Body::Created(client::Created {
            kind: created.kind,
            name: created.name.clone(),
            settings: created.settings.as_ref().map(settings_to_client),
            members: created.members.clone(),
            member_count: created.member_count,
        }),
        Body::MembersAdded(added) => event::Body::MembersAdded(client::MembersAdded {
            users: added.users.clone(),
            role: added.role.clone(),
        }),
        Body::MembersRemoved(removed) => {
            event::Body::MembersRemoved(client::MembersRemoved { users: removed.users.clone() })
        }
        Body::Edited(edited) => event::Body::Edited(client::Edited {
            seq: edited.seq,
            content: edited.content.as_ref().map(to_client),
        }),
        Body::Recalled(recalled) => event::Body::Recalled(client::Recalled { seq: recalled.seq }),
        Body::Reaction(reaction) => event::Body::Reaction(client::Reaction {
            seq: reaction.seq,
            reaction: reaction.reaction.clone(),
            removed: reaction.removed,
        }),
        Body::RoleChanged(change) => event::Body::RoleChanged(client::RoleChanged {
            user: change.user.clone(),
            role: change.role.clone(),
        }),
        Body::Muted(muted) => {
            event::Body::Muted(client::Muted { user: muted.user.clone(), until_ms: muted.until_ms })
        }
        Body::Blocked(blocked) => {
            event::Body::Blocked(client::Blocked { by: blocked.by.clone(), blocked: blocked.blocked })
        }
        Body::Settings(settings) => event::Body::Settings(settings_to_client(settings)),
    })
}

pub fn to_client(message: &record::Message) -> client::Content {
    client::Content {
        body: message.body.as_ref().map(|body| match body {
            message::Body::Text(text) => client::content::Body::Text(text.clone()),
            message::Body::Data(data) => client::content::Body::Data(data.clone()),
        }),
        r#type: message.r#type.clone(),
    }
}

pub fn of_client(content: client::Content) -> record::Message {
    record::Message {
        body: content.body.map(|body| match body {
            client::content::Body::Text(text) => message::Body::Text(text),
            client::content::Body::Data(data) => message::Body::Data(data),
        }),
        r#type: content.r#type,
    }
}

pub fn settings_to_client(settings: &record::Settings) -> client::Settings {
    client::Settings {
        history_for_new_members: settings.history_for_new_members,
        title: settings.title.clone(),
        custom: settings.custom.clone(),
    }
}

pub fn settings_of_client(settings: client::Settings) -> record::Settings {
    record::Settings {
        history_for_new_members: settings.history_for_new_members,
        title: settings.title,
        custom: settings.custom,
    }
}
