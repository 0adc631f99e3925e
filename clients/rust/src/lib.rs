//! Lapwing's client for Rust: one WebSocket session that reconnects by itself, typed publish outcomes, events in order.
//!
//! The way a message goes through this crate: `options` → `dial` (TCP, upgrade) → `session` (connect, welcome, reader) →
//! `link` (requests and answers of one socket) → `client` (publish with retries, history, cursors).
mod backoff;
mod client;
mod codec;
mod contiguity;
mod dial;
mod error;
pub mod http;
mod link;
mod options;
mod outcome;
mod raw;
mod session;
mod turns;
mod update;

pub use backoff::Backoff;
pub use client::{Client, ConnectTimes, Message, Updates};
pub use codec::Encoding;
pub use contiguity::{Contiguity, Order, Start};
pub use error::{ClientError, ErrorKind, Step};
pub use lapwing_proto::client as proto;
pub use options::{Options, RetryPolicy, Token, TokenSource};
pub use outcome::{Advice, Answer, Attempts, Outcome, Report, advice, class_of};
pub use raw::{RawBody, RawEvent, scan_events};
pub use update::{Counts, Handler, Update};
