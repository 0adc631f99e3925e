//! Visible progress: each step with its time.

use std::future::Future;
use std::time::Instant;

use anyhow::Result;
use tokio::signal::unix::SignalKind;

/// Names the step, runs it, and says how long it took or that it failed.
pub(crate) async fn step<T>(name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    println!("→ {name} …");
    let begin = Instant::now();
    let result = work.await;
    let mark = if result.is_ok() { "✓" } else { "✗" };
    println!("{mark} {name}: {:.1} s", begin.elapsed().as_secs_f64());
    result
}

/// Ends at Ctrl-C, SIGTERM, or when the terminal closes.
pub(crate) async fn interrupted() -> &'static str {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "Ctrl-C",
        () = signal(SignalKind::terminate()) => "SIGTERM",
        () = signal(SignalKind::hangup()) => "the terminal closed",
    }
}

async fn signal(kind: SignalKind) {
    match tokio::signal::unix::signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
