use std::{env, path::PathBuf};

use prost::Message;

const FILES: [&str; 3] = ["lapwing/client.proto", "lapwing/record.proto", "lapwing/bus.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    println!("cargo::rerun-if-changed={}", here.join("lapwing").display());
    let descriptors = protox::compile(FILES, [&here])?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors.clone())?;
    // Only the client's wire has a JSON form; the internal ones are binary, with JSON for tests and tools.
    pbjson_build::Builder::new()
        .register_descriptors(&descriptors.encode_to_vec())?
        .ignore_unknown_fields() // a newer client or server may say more
        .build(&[".lapwing"])?;
    Ok(())
}
