//! The committed vectors, in both encodings, that every later version must still read. A wire change that breaks one of them
//! breaks a client, a record in a log, or a neighbour of the version before.
//!
//! `LAPWING_NEW_VECTORS=1 cargo test -p lapwing-proto` adds files for new samples; what is there is never written again.

#[path = "vectors/dead.rs"]
mod dead;
#[path = "vectors/samples.rs"]
mod samples;

use std::{collections::BTreeSet, fs, path::PathBuf};

use lapwing_proto::{Message, bus, client, record};
use samples::Sample;
use serde::{Serialize, de::DeserializeOwned};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

fn read_back<M: Message + Default + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str) {
    let binary = fs::read(folder().join(format!("{name}.bin"))).expect(name);
    let json = fs::read_to_string(folder().join(format!("{name}.json"))).expect(name);
    let from_binary = M::decode(&binary[..]).unwrap_or_else(|error| panic!("{name}.bin: {error}"));
    let from_json: M = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{name}.json: {error}"));
    assert!(from_binary == from_json, "{name}: the two encodings differ:\n{from_binary:?}\n{from_json:?}");
    assert!(from_binary != M::default(), "{name} is empty");
    assert_eq!(from_binary.encode_to_vec(), binary, "{name}: bytes change on the way through");
    let again = serde_json::to_value(&from_binary).expect("JSON");
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(&json).expect("JSON"), "{name}");
}

#[test]
fn every_committed_vector_is_still_read() {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder()).expect("proto/vectors") {
        let path = entry.expect("entry").path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    assert!(names.len() >= 40, "{} vectors", names.len());
    for name in &names {
        let (kind, _) = name.split_once('-').expect("kind-sample");
        match kind {
            "client_frame" => read_back::<client::ClientFrame>(name),
            "server_frame" => read_back::<client::ServerFrame>(name),
            "record" => read_back::<record::Record>(name),
            "cursor_record" => read_back::<record::CursorRecord>(name),
            "tenant_record" => read_back::<record::TenantRecord>(name),
            "dead_letter_record" => read_back::<record::DeadLetterRecord>(name),
            "audit_record" => read_back::<record::AuditRecord>(name),
            "router_request" => read_back::<bus::RouterRequest>(name),
            "router_reply" => read_back::<bus::RouterReply>(name),
            "node_request" => read_back::<bus::NodeRequest>(name),
            "node_reply" => read_back::<bus::NodeReply>(name),
            "router_heartbeat" => read_back::<bus::RouterHeartbeat>(name),
            "gateway_heartbeat" => read_back::<bus::GatewayHeartbeat>(name),
            "mark" => read_back::<bus::Mark>(name),
            "persister_history" => read_back::<bus::PersisterHistory>(name),
            "dead_ask" => read_back::<bus::DeadAsk>(name),
            "dead_reply" => read_back::<bus::DeadReply>(name),
            "history_rows" => read_back::<bus::HistoryRows>(name),
            other => panic!("{name}: no message is called {other}"),
        }
    }
}

#[test]
fn every_sample_has_its_vector() {
    for Sample { name, binary, json } in samples::all().into_iter().chain(dead::all()) {
        let (bin, text) = (folder().join(format!("{name}.bin")), folder().join(format!("{name}.json")));
        if std::env::var_os("LAPWING_NEW_VECTORS").is_some() && !bin.exists() {
            fs::write(&bin, &binary).expect("write");
            fs::write(&text, &json).expect("write");
        }
        assert_eq!(fs::read(&bin).unwrap_or_default(), binary, "{name}.bin: today's bytes are other bytes");
        assert_eq!(fs::read_to_string(&text).unwrap_or_default(), json, "{name}.json");
    }
}
