use std::process::ExitCode;

use lapwing_router::{config::Config, start};
use lapwing_runtime::{config, lifecycle};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let config: Config = config::load();
    let common = config.common.clone();
    lifecycle::run("router", common, |context| start(config, context))
}
