//! The router: ① admit ② sequence ③ produce ④ commit ⑤ answer ⑥ dispatch ⑦ apply, and ⑪ watermark.
//!
//! [`start`] is what the program runs; [`open`] gives the router to whoever feeds it in its own process (the benchmark).

mod admin;
mod admit;
mod answer;
mod apply;
mod audit;
mod cold;
mod commit;
pub mod config;
mod dispatch;
mod lanes;
mod lookup;
mod moves;
mod nodes;
mod ownership;
mod produce;
mod rebuild;
mod replay;
mod router;
mod sequence;
mod tenants;
mod times;
mod told;
mod watermark;

pub use router::{Router, open, start};
