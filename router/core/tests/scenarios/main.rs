//! One behaviour of a partition's owner each, step by step.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod claims;
mod dedupe;
mod loads;
mod members;
mod order;
mod persisted;
mod reads;
mod rig;
#[path = "../support/view.rs"]
mod view;
