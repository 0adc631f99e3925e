//! The program; everything is in the library, which the fault runner uses too.

fn main() -> std::process::ExitCode {
    lapwing_loadtest::main()
}
