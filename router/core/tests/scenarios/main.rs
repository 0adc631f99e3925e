//! One behaviour of a partition's owner each, step by step.

mod claims;
mod dedupe;
mod loads;
mod members;
mod order;
mod reads;
mod rig;
#[path = "../support/view.rs"]
mod view;
