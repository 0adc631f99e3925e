//! The router: ① admit ② sequence ③ produce ④ commit ⑤ answer ⑥ dispatch ⑦ apply, and ⑪ watermark.

mod admin;
mod admit;
mod answer;
mod apply;
mod audit;
mod commit;
mod config;
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

use std::process::ExitCode;

use lapwing_runtime::lifecycle;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let config: config::Config = lapwing_runtime::config::load();
    let common = config.common.clone();
    lifecycle::run("router", common, |context| router::start(config, context))
}
