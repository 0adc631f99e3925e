//! The three wires of Lapwing as generated types: what clients speak, what NATS carries, what stands in Kafka.
#![allow(clippy::all, clippy::pedantic, unreachable_pub, clippy::disallowed_methods)]

pub use lapwing::bus::v1 as bus;
pub use lapwing::client::v1 as client;
pub use lapwing::record::v1 as record;
pub use prost::Message;

// The generated code names its neighbours by package path.
mod lapwing {
    pub mod bus {
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/lapwing.bus.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/lapwing.bus.v1.serde.rs"));
        }
    }
    pub mod client {
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/lapwing.client.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/lapwing.client.v1.serde.rs"));
        }
    }
    pub mod record {
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/lapwing.record.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/lapwing.record.v1.serde.rs"));
        }
    }
}
