//! One sample of every frame, record and request, each field set.

use lapwing_proto::{Message, bus, client as c, record as r};
use serde::Serialize;

pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) binary: Vec<u8>,
    pub(crate) json: String,
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const GROUP: &str = "grp.lobby";

pub(crate) fn sample<M: Message + Serialize>(kind: &str, name: &str, message: &M) -> Sample {
    let json = serde_json::to_string_pretty(message).expect("JSON") + "\n";
    Sample { name: format!("{kind}-{name}"), binary: message.encode_to_vec(), json }
}

pub(crate) fn all() -> Vec<Sample> {
    let mut all = client_frames();
    all.extend(server_frames());
    all.extend(records());
    all.extend(buses());
    all
}

fn text() -> c::Content {
    let body = Some(c::content::Body::Text("caf\u{e9} \u{1f426}\n".into()));
    c::Content { body, r#type: "text/plain".into() }
}

fn client_frames() -> Vec<Sample> {
    use c::client_frame::Body;
    let cursor = c::Cursor { conversation: GROUP.into(), seq: 41 };
    let publish = |target| c::Publish {
        target: Some(target),
        client_mid: "m-1".into(),
        content: Some(text()),
        attempt: 2,
        first_attempt_age_ms: 1500,
        receipt: true,
    };
    let bodies = [
        (
            "connect",
            Body::Connect(c::Connect {
                token: "e30.e30.c2ln".into(),
                device: "phone-1".into(),
                cursors: vec![cursor],
                receipts: true,
            }),
        ),
        ("publish", Body::Publish(publish(c::publish::Target::Conversation(GROUP.into())))),
        ("publish_to_user", Body::Publish(publish(c::publish::Target::ToUser("bob".into())))),
        ("ack", Body::Ack(c::Ack { conversation: GROUP.into(), seq: u64::MAX >> 1 })),
        ("read", Body::Read(c::Read { conversation: GROUP.into(), seq: 42 })),
        (
            "history_after",
            Body::History(c::HistoryRequest {
                conversation: GROUP.into(),
                after: Some(0),
                before: None,
                limit: 100,
                reverse: true,
                seen: 42,
            }),
        ),
        (
            "history_before",
            Body::History(c::HistoryRequest { before: Some(7), limit: 5, ..Default::default() }),
        ),
        ("sync", Body::Sync(c::Sync { conversation: GROUP.into(), seq: 9 })),
        ("refresh", Body::Refresh(c::Refresh { token: "e30.e30.c2ln".into() })),
        ("ping", Body::Ping(c::Ping {})),
    ];
    bodies
        .into_iter()
        .map(|(name, body)| {
            let frame = c::ClientFrame { id: 7, traceparent: TRACE.into(), body: Some(body) };
            sample("client_frame", name, &frame)
        })
        .collect()
}

fn event(body: c::event::Body) -> c::Event {
    c::Event {
        conversation: GROUP.into(),
        seq: 42,
        n: 40,
        sender: "alice".into(),
        device: "phone-1".into(),
        client_mid: "m-1".into(),
        sent_at_ms: 1_796_000_000_123,
        traceparent: TRACE.into(),
        body: Some(body),
    }
}

fn settings() -> c::Settings {
    let custom = [("topic".to_owned(), "birds".to_owned())].into();
    c::Settings { history_for_new_members: true, title: "Lobby".into(), custom }
}

fn events() -> Vec<c::Event> {
    use c::event::Body;
    let data = Some(c::content::Body::Data(vec![0, 1, 254, 255].into()));
    let users = vec!["alice".to_owned(), "bob".to_owned()];
    [
        Body::Message(text()),
        Body::Message(c::Content { body: data, r#type: "image/x".into() }),
        Body::Created(c::Created {
            kind: c::Kind::Group.into(),
            name: "lobby".into(),
            settings: Some(settings()),
            members: users.clone(),
            member_count: 2,
        }),
        Body::MembersAdded(c::MembersAdded { users: users.clone(), role: "admin".into() }),
        Body::MembersRemoved(c::MembersRemoved { users }),
        Body::Edited(c::Edited { seq: 3, content: Some(text()) }),
        Body::Recalled(c::Recalled { seq: 3 }),
        Body::Reaction(c::Reaction { seq: 3, reaction: "+1".into(), removed: true }),
        Body::RoleChanged(c::RoleChanged { user: "bob".into(), role: "owner".into() }),
        Body::Muted(c::Muted { user: "bob".into(), until_ms: 1_796_000_000_123 }),
        Body::Blocked(c::Blocked { by: "bob".into(), blocked: true }),
        Body::Settings(settings()),
    ]
    .map(event)
    .into()
}

fn error() -> c::Error {
    c::Error {
        code: 504,
        name: "publish_unknown".into(),
        class: c::Class::Unknown.into(),
        temporary: true,
        retry_after_ms: 250,
        message: "no answer in time".into(),
        cause: "forbidden".into(),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".into(),
    }
}

fn state() -> c::ConversationState {
    c::ConversationState {
        conversation: GROUP.into(),
        kind: c::Kind::Group.into(),
        head: 42,
        n: 40,
        from_seq: 1,
        read_seq: 30,
        read_n: 29,
        delivered_seq: 41,
        live_after: 42,
        last: events().into_iter().next(),
        peer: "bob".into(),
    }
}

fn gap() -> c::Gap {
    c::Gap { conversation: GROUP.into(), from: 1, to: 9, reason: c::GapReason::NotMember.into() }
}

fn published() -> c::Published {
    c::Published {
        conversation: GROUP.into(),
        seq: 42,
        client_mid: "m-1".into(),
        outcome: c::Outcome::Duplicate.into(),
        n: 40,
        sent_at_ms: 1_796_000_000_123,
    }
}

fn server_frames() -> Vec<Sample> {
    use c::server_frame::Body;
    let limits = c::Limits {
        max_body_bytes: 524_288,
        max_frame_bytes: 589_824,
        max_history_page: 500,
        dedupe_window_ms: 7_200_000,
    };
    let welcome = c::Welcome {
        session: "00ff".into(),
        node: "g1".into(),
        user: "alice".into(),
        tenant: "demo".into(),
        server_time_ms: 1_796_000_000_123,
        heartbeat_ms: 25_000,
        limits: Some(limits),
        conversations: vec![state()],
        complete: true,
    };
    let page = c::HistoryPage {
        conversation: GROUP.into(),
        events: events(),
        head: 42,
        n: 40,
        persisted_seq: 41,
        more: true,
        gaps: vec![gap()],
        from_seq: 1,
    };
    let cursor = c::CursorMoved {
        conversation: GROUP.into(),
        user: "bob".into(),
        read_seq: 30,
        read_n: 29,
        delivered_seq: 41,
    };
    let persisted = c::Persisted {
        conversation: GROUP.into(),
        persisted_seq: 42,
        seqs: vec![40, 42],
        dead_lettered: vec![41],
    };
    let bodies = [
        ("error", 7, Body::Error(error())),
        ("welcome", 7, Body::Welcome(welcome)),
        ("published", 7, Body::Published(published())),
        ("history", 7, Body::History(page)),
        ("ok", 7, Body::Ok(c::Ok {})),
        ("events", 0, Body::Events(c::Events { events: events() })),
        ("gap", 0, Body::Gap(gap())),
        ("cursor", 0, Body::Cursor(cursor)),
        ("persisted", 0, Body::Persisted(persisted)),
        ("joined", 0, Body::Joined(state())),
        (
            "conversations",
            0,
            Body::Conversations(c::Conversations { conversations: vec![state()], complete: true }),
        ),
        ("moved", 0, Body::Moved(c::Moved { url: "ws://127.0.0.1:7101".into(), within_ms: 3000 })),
    ];
    bodies
        .into_iter()
        .map(|(name, id, body)| sample("server_frame", name, &c::ServerFrame { id, body: Some(body) }))
        .collect()
}

fn records() -> Vec<Sample> {
    use r::record::Body;
    let users = vec!["alice".to_owned(), "bob".to_owned()];
    let message = r::Message { body: Some(r::message::Body::Text("caf\u{e9}".into())), r#type: "t".into() };
    let data = r::Message { body: Some(r::message::Body::Data(vec![0, 255].into())), r#type: "".into() };
    let settings = r::Settings {
        history_for_new_members: true,
        title: "Lobby".into(),
        custom: [("topic".to_owned(), "birds".to_owned())].into(),
    };
    let bodies = [
        ("claim", Body::Claim(r::Claim { nonce: 0x0123_4567_89ab_cdef, router: "r1".into() })),
        ("beat", Body::Beat(r::Beat {})),
        ("message_text", Body::Message(message.clone())),
        ("message_data", Body::Message(data)),
        (
            "created",
            Body::Created(r::Created {
                kind: r::Kind::Group.into(),
                name: "lobby".into(),
                settings: Some(settings.clone()),
                members: users.clone(),
                member_count: 2,
            }),
        ),
        (
            "members_added",
            Body::MembersAdded(r::MembersAdded {
                users: users.clone(),
                role: "admin".into(),
                member_count: 4,
                from_seq: 1,
            }),
        ),
        ("members_removed", Body::MembersRemoved(r::MembersRemoved { users, member_count: 2 })),
        ("edited", Body::Edited(r::Edited { seq: 3, content: Some(message) })),
        ("recalled", Body::Recalled(r::Recalled { seq: 3 })),
        ("reaction", Body::Reaction(r::Reaction { seq: 3, reaction: "+1".into(), removed: true })),
        ("role_changed", Body::RoleChanged(r::RoleChanged { user: "bob".into(), role: "owner".into() })),
        ("muted", Body::Muted(r::Muted { user: "bob".into(), until_ms: 1_796_000_000_123 })),
        ("blocked", Body::Blocked(r::Blocked { by: "bob".into(), blocked: true })),
        ("settings", Body::Settings(settings)),
        (
            "move_begin",
            Body::MoveBegin(r::MoveBegin {
                view: "redis".into(),
                from_bucket: 128,
                to_bucket: 255,
                instance: "two".into(),
                version: 3,
            }),
        ),
        ("move_switch", Body::MoveSwitch(r::MoveSwitch { view: "redis".into(), version: 3 })),
    ];
    let mut all: Vec<_> = bodies
        .into_iter()
        .map(|(name, body)| {
            let record = r::Record {
                epoch: 1000,
                index: 17,
                bucket: 156,
                tenant: "demo".into(),
                conversation: GROUP.into(),
                seq: 42,
                n: 40,
                sender: "alice".into(),
                device: "phone-1".into(),
                client_mid: "m-1".into(),
                content_hash: vec![0xab; 16].into(),
                sent_at_ms: 1_796_000_000_123,
                traceparent: TRACE.into(),
                receipt: true,
                countable: true,
                body: Some(body),
            };
            sample("record", name, &record)
        })
        .collect();
    all.push(sample("cursor_record", "full", &cursor()));
    all.push(sample("tenant_record", "full", &tenant()));
    all.push(sample("audit_record", "full", &audit()));
    all
}

fn cursor() -> r::CursorRecord {
    r::CursorRecord {
        tenant: "demo".into(),
        conversation: GROUP.into(),
        user: "bob".into(),
        read_seq: 30,
        read_n: 29,
        delivered_seq: 41,
    }
}

fn tenant() -> r::TenantRecord {
    r::TenantRecord {
        tenant: "demo".into(),
        expected: 12,
        suspended: true,
        keys: vec![r::ApiKey { name: "dev".into(), hash: vec![7; 32].into(), created_at_ms: 1 }],
        realtime_members: 200,
        broadcast_members: 5000,
    }
}

fn audit() -> r::AuditRecord {
    r::AuditRecord {
        session: "00ff".into(),
        tenant: "demo".into(),
        user: "alice".into(),
        device: "phone-1".into(),
        node: "g1".into(),
        remote: "127.0.0.1".into(),
        opened_at_ms: 1,
        closed_at_ms: 2,
        close_code: 4000,
    }
}

fn buses() -> Vec<Sample> {
    use bus::{node_request, router_reply, router_request};
    let partition = Some(bus::PartitionId { topic: "lapwing.group".into(), partition: 4 });
    let item = bus::PublishItem {
        client_mid: "m-1".into(),
        content: Some(text()),
        attempt: 1,
        receipt: true,
        traceparent: TRACE.into(),
    };
    let batch = bus::PublishBatch {
        tenant: "demo".into(),
        conversation: GROUP.into(),
        sender: "alice".into(),
        device: "phone-1".into(),
        session: "00ff".into(),
        items: vec![item],
        server: true,
        sent_at_ms: 1_796_000_000_123,
    };
    let request =
        bus::RouterRequest { partition: partition.clone(), body: Some(router_request::Body::Publish(batch)) };
    let attach = bus::AttachBatch {
        node: "g1".into(),
        incarnation: 9,
        counter: 3,
        items: vec![bus::AttachItem {
            tenant: "demo".into(),
            conversation: GROUP.into(),
            user: "alice".into(),
        }],
    };
    let attach =
        bus::RouterRequest { partition: partition.clone(), body: Some(router_request::Body::Attach(attach)) };
    let outcome = |outcome| bus::PublishOutcome { outcome: Some(outcome) };
    let not_owner = bus::NotOwner { owner: "r2".into(), retry_after_ms: 50 };
    let reply = bus::PublishReply {
        outcomes: vec![
            outcome(bus::publish_outcome::Outcome::Published(published())),
            outcome(bus::publish_outcome::Outcome::Error(error())),
            outcome(bus::publish_outcome::Outcome::NotOwner(not_owner)),
        ],
    };
    let reply = bus::RouterReply { body: Some(router_reply::Body::Publish(reply)) };
    let event = events().remove(0).encode_to_vec().into();
    let deliver = bus::Deliver {
        router: "r1".into(),
        incarnation: 9,
        lane: 5,
        batch: 77,
        items: vec![bus::DeliverItem {
            tenant: "demo".into(),
            conversation: GROUP.into(),
            seq: 42,
            left: vec!["eve".into()],
            body: Some(bus::deliver_item::Body::Event(event)),
        }],
    };
    let deliver = bus::NodeRequest { body: Some(node_request::Body::Deliver(deliver)) };
    let results = vec![bus::DeliverResult::Ok.into(), bus::DeliverResult::HubFull.into()];
    let delivered =
        bus::NodeReply { body: Some(bus::node_reply::Body::Deliver(bus::DeliverReply { results })) };
    let beat = bus::RouterHeartbeat {
        router: "r1".into(),
        incarnation: 9,
        counter: 3,
        owned: vec![bus::Owned {
            topic: "lapwing.group".into(),
            partition: 4,
            epoch: 1000,
            serving: true,
            ..bus::Owned::default()
        }],
        draining: true,
        tenants_generation: 12,
    };
    let gateway = bus::GatewayHeartbeat {
        node: "g1".into(),
        incarnation: 9,
        sessions: 250,
        public_url: "ws://127.0.0.1:7100".into(),
        draining: true,
    };
    let mark = bus::Mark {
        partition,
        persisted: Some(bus::Position { offset: 1018, epoch: 1000, index: 17 }),
        tombstones: vec![bus::Tombstone {
            tenant: "demo".into(),
            conversation: GROUP.into(),
            seq: 41,
            offset: 1016,
        }],
        persister: "p1".into(),
    };
    let ask = bus::PersisterHistory {
        tenant: "demo".into(),
        conversation: GROUP.into(),
        user: "alice".into(),
        from: 1,
        to: 41,
        limit: 100,
        newest: true,
    };
    let rows = bus::HistoryRows {
        found: true,
        member: true,
        head: 42,
        n: 40,
        persisted_seq: 42,
        from_seq: 1,
        to_seq: 0,
        events: events(),
        dead_lettered: vec![41],
        error: None,
    };
    vec![
        sample("router_request", "publish", &request),
        sample("router_request", "attach", &attach),
        sample("router_reply", "publish", &reply),
        sample("node_request", "deliver", &deliver),
        sample("node_reply", "deliver", &delivered),
        sample("router_heartbeat", "full", &beat),
        sample("gateway_heartbeat", "full", &gateway),
        sample("mark", "full", &mark),
        sample("persister_history", "full", &ask),
        sample("history_rows", "full", &rows),
    ]
}
