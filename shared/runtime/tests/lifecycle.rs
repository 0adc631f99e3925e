//! A service as a real process: probes, signals, drain and exit codes. The process is this test binary itself, run again with
//! `LIFECYCLE_MODE` set.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use lapwing_runtime::config::{LogFormat, Secret};
use lapwing_runtime::{Common, Context, OnError, lifecycle, telemetry};
use serde_json::{Value, json};

const MODE: &str = "LIFECYCLE_MODE";

#[test]
#[ignore = "the service process of the other tests"]
fn body() {
    let Ok(mode) = std::env::var(MODE) else { return };
    let common = Common {
        admin_addr: std::env::var("LIFECYCLE_ADDR").unwrap().parse().unwrap(),
        operator_key: Some(Secret::new("sesame")),
        drain_grace_ms: 2_000,
        log: LogFormat::Json,
        ..Common::for_node("t1")
    };
    let code = lifecycle::run("test", common, move |context| build(context, mode));
    let number = (0..=255u8).find(|n| ExitCode::from(*n) == code).unwrap();
    std::process::exit(i32::from(number));
}

async fn build(context: Context, mode: String) -> anyhow::Result<()> {
    if mode == "unbuildable" {
        anyhow::bail!("no such port");
    }
    context
        .admin
        .route("GET", "/admin/echo", |request| async move { request.wanted("x").map(|x| json!({ "x": x })) });
    context.admin.route("POST", "/admin/panic", |_| async move { panic!("in a handler") });
    context.on_drain("hook", async { tracing::info!("hook done") });
    let stop = context.stopping();
    let fails = mode == "fails";
    let stubborn = mode == "stubborn";
    context.tasks.spawn("worker", OnError::StopService, async move {
        if fails {
            anyhow::bail!("cannot go on");
        }
        stop.cancelled().await;
        if stubborn {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        tracing::info!("work in flight done");
        Ok(())
    });
    if mode == "busy" {
        for _ in 0..16 {
            context.tasks.spawn("busy", OnError::Log, async {
                std::thread::sleep(Duration::from_secs(3));
            });
        }
    }
    if mode == "traced" {
        let incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span = telemetry::span_from(
            incoming,
            tracing::debug_span!(target: "lapwing_test", "admit", tenant = "demo"),
        );
        let outgoing = telemetry::continue_trace(&span, incoming);
        assert_eq!(telemetry::trace_id(&outgoing), telemetry::trace_id(incoming));
        assert_ne!(outgoing, incoming, "the exported span is the parent of what follows");
        span.in_scope(|| assert_eq!(telemetry::current_traceparent(), outgoing));
    }
    Ok(())
}

struct Service {
    child: Child,
    addr: SocketAddr,
}

impl Service {
    fn start(mode: &str, env: &[(&str, &str)]) -> Self {
        // Held until just before the start; the service binds it again.
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "body", "--ignored", "--nocapture"])
            .env(MODE, mode)
            .env("LIFECYCLE_ADDR", addr.to_string())
            .env("RUST_BACKTRACE", "0")
            .envs(env.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, addr }
    }

    fn started(mode: &str, env: &[(&str, &str)]) -> Self {
        let service = Self::start(mode, env);
        let begin = Instant::now();
        while service.get("/readyz").is_none_or(|(status, _)| status != 200) {
            assert!(begin.elapsed() < Duration::from_secs(20), "never ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        service
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        self.ask("GET", path, None)
    }

    fn ask(&self, method: &str, path: &str, key: Option<&str>) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.addr).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\n{key}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }

    fn signal(&self, name: &str) {
        let done =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Exit code, log and how long it took.
    fn end(mut self) -> (i32, String, Duration) {
        let begin = Instant::now();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code().unwrap(), log, begin.elapsed())
    }
}

// R-GW-6, R-AUTH-2, R-OBS-2
#[test]
fn probes_admin_api_and_a_graceful_stop() {
    let service = Service::started("plain", &[]);
    assert_eq!(service.get("/livez"), Some((200, "ok\n".to_owned())));
    let health: Value = serde_json::from_str(&service.get("/healthz").unwrap().1).unwrap();
    assert_eq!(
        (&health["status"], &health["service"], &health["node"]),
        (&json!("ok"), &json!("test"), &json!("t1"))
    );
    assert!(service.get("/metrics").unwrap().1.contains("lapwing_health{check=\"started\"} 1"));

    let refused = |answer: Option<(u16, String)>| {
        let (status, text) = answer.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["error"]["trace_id"].as_str().unwrap().len(), 32, "{body}");
        (status, body["error"]["name"].as_str().unwrap().to_owned())
    };
    let of = |status: u16, name: &str| (status, name.to_owned());
    assert_eq!(refused(service.get("/admin/echo?x=1")), of(401, "unauthenticated"));
    assert_eq!(refused(service.ask("GET", "/admin/echo?x=1", Some("wrong"))), of(401, "unauthenticated"));
    assert_eq!(refused(service.ask("GET", "/admin/echo", Some("sesame"))), of(400, "invalid"));
    assert_eq!(refused(service.ask("GET", "/nowhere", Some("sesame"))), of(404, "not_found"));
    assert_eq!(refused(service.ask("POST", "/admin/panic", Some("sesame"))), of(500, "internal"));
    let (status, text) = service.ask("GET", "/admin/echo?x=a%20b", Some("sesame")).unwrap();
    assert_eq!((status, text.trim()), (200, r#"{"x":"a b"}"#));

    service.signal("TERM");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(service.get("/readyz"), Some((503, "draining\n".to_owned())), "probes answer while it drains");
    let (code, log, took) = service.end();
    assert_eq!(code, 0, "{log}");
    assert!(took < Duration::from_millis(1500), "{took:?}");
    let (hook, work) = (log.find("hook done").unwrap(), log.find("work in flight done").unwrap());
    assert!(hook < work, "hooks come before the stop");
    assert!(!log.contains("sesame"), "{log}");
    for line in log.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["node"], "t1");
    }
}

// R-GW-6: their own thread and runtime
#[test]
fn probes_answer_while_every_worker_is_busy() {
    let service = Service::start("busy", &[]);
    std::thread::sleep(Duration::from_millis(700));
    let begin = Instant::now();
    assert_eq!(service.get("/livez").map(|(status, _)| status), Some(200));
    assert!(service.get("/metrics").unwrap().1.contains("lapwing_health"));
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    service.signal("KILL");
    let mut child = service.child;
    child.wait().unwrap();
}

#[test]
fn the_exit_code_tells_why_it_ended() {
    let (code, log, _) = Service::start("fails", &[]).end();
    assert_eq!(code, i32::from(lifecycle::EXIT_TASK), "{log}");
    assert!(log.contains("task failed, the service stops: cannot go on"), "{log}");

    let (code, log, _) = Service::start("unbuildable", &[]).end();
    assert_eq!(code, i32::from(lifecycle::EXIT_START), "{log}");
    assert!(log.contains("cannot start: no such port"), "{log}");

    let service = Service::started("stubborn", &[]);
    service.signal("INT");
    let (code, log, took) = service.end();
    assert_eq!(code, i32::from(lifecycle::EXIT_GRACE), "{log}");
    assert!(log.contains("worker") && took < Duration::from_secs(4), "{took:?} {log}");

    let service = Service::started("stubborn", &[]);
    service.signal("TERM");
    std::thread::sleep(Duration::from_millis(200));
    service.signal("TERM");
    let (code, _, took) = service.end();
    assert!(
        code == i32::from(lifecycle::EXIT_GRACE) && took < Duration::from_secs(1),
        "a second signal ends it: {took:?}"
    );

    let holder = Service::started("plain", &[]);
    let second = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "body", "--ignored", "--nocapture"])
        .env(MODE, "plain")
        .env("LIFECYCLE_ADDR", holder.addr.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(i32::from(lifecycle::EXIT_START)));
    assert!(text.contains("LAPWING_ADMIN_ADDR") && text.contains("taken by another process"), "{text}");
    holder.signal("TERM");
    assert_eq!(holder.end().0, 0);
}

// R-OBS-1
#[test]
fn spans_leave_by_otlp_and_a_collector_that_is_silent_does_not_hold_the_stop() {
    // Not a collector: it only notes what arrives, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collected = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    });
    let service = Service::started("traced", &[("LAPWING_OTLP_ENDPOINT", &endpoint)]);
    service.signal("TERM");
    let (code, log, took) = service.end();
    assert!(code == 0 && took < Duration::from_secs(6), "{code} {took:?} {log}");
    let bytes = collected.join().unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(bytes.starts_with(b"PRI * HTTP/2.0"), "gRPC");
    assert!(has(b"lapwing-test") && has(b"admit") && has(b"demo"), "service, span and its field");
    assert!(has(&[0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd]), "in the trace that came in");
}
