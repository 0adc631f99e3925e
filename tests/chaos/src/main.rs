//! `./dev chaos`; everything is in the library, which the tests use too.

fn main() -> std::process::ExitCode {
    lapwing_chaos::main()
}
