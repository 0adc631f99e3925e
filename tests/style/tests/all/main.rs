//! The tree as it is, and proof that each check can fail.
#![allow(clippy::unwrap_used)]

mod deploy;
mod docs;
mod source;
mod sql;
