//! Visible progress: each step with its time.

use std::future::Future;
use std::time::Instant;

use anyhow::Result;

/// Names the step, runs it, and says how long it took or that it failed.
pub(crate) async fn step<T>(name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    println!("→ {name} …");
    let begin = Instant::now();
    let result = work.await;
    let mark = if result.is_ok() { "✓" } else { "✗" };
    println!("{mark} {name}: {:.1} s", begin.elapsed().as_secs_f64());
    result
}

/// Ends at Ctrl-C or SIGTERM.
pub(crate) async fn interrupted() -> &'static str {
    let term = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "Ctrl-C",
        _ = term => "SIGTERM",
    }
}
