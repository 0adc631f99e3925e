use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lapwing_links::nats::{Nats, RequestError, SubscriptionOptions, TRACEPARENT};
use lapwing_runtime::OnError;

use crate::{Service, infra, secret, service, within};

const SECOND: Duration = Duration::from_secs(1);

async fn connect(url: String, service: &Service) -> Nats {
    Nats::connect(&secret(url), "test", &service.tasks, &service.health).await.unwrap()
}

/// Answers each request with its own payload and its trace; remembers the payloads.
async fn echo(nats: &Nats, service: &Service, subject: &str) -> Arc<Mutex<HashSet<Bytes>>> {
    let seen: Arc<Mutex<HashSet<Bytes>>> = Arc::default();
    let mut subscription = nats.subscribe(subject, SubscriptionOptions::named("echo")).await.unwrap();
    let noted = seen.clone();
    service.tasks.spawn("echo", OnError::Log, async move {
        while let Some(message) = subscription.next().await {
            noted.lock().unwrap().insert(message.payload.clone());
            let answer = [message.payload.as_ref(), b"|", message.traceparent().as_bytes()].concat();
            let _ = message.respond(answer.into()).await;
        }
    });
    seen
}

// R-ACK-6, R-OBS-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_or_say_why_not() {
    let infra = infra().await;
    infra.nats().start().await.unwrap();
    let service = service();
    let nats = connect(infra.nats().url(), &service).await;
    assert_eq!(service.health.ready(), Ok(()));
    echo(&nats, &service, "lw.t.echo").await;

    let headers = [(TRACEPARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let answer = nats.request("lw.t.echo", &headers, Bytes::from_static(b"hi"), SECOND).await.unwrap();
    assert_eq!(answer, "hi|00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");

    let nobody = nats.request("lw.t.nobody", &[], Bytes::new(), SECOND).await.unwrap_err();
    assert_eq!(nobody, RequestError::NoResponders("lw.t.nobody".to_owned()));

    let _silent = nats.subscribe("lw.t.silent", SubscriptionOptions::named("silent")).await.unwrap();
    let start = Instant::now();
    let late = nats.request("lw.t.silent", &[], Bytes::new(), Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(late, RequestError::Timeout { after_ms: 200, .. }) && !late.nothing_sent());
    assert!(start.elapsed() < Duration::from_millis(600));

    let large = nats.request("lw.t.echo", &[], Bytes::from(vec![0; 3 << 20]), SECOND).await.unwrap_err();
    assert!(matches!(large, RequestError::TooLarge { size: 3145728, max: 2097152 }), "{large}");

    let start = Instant::now();
    for round in 0..10 {
        let asking =
            (0..1000).map(|n| nats.request("lw.t.echo", &[], Bytes::from(format!("{round}.{n}")), SECOND));
        assert!(futures::future::join_all(asking).await.iter().all(Result::is_ok));
    }
    eprintln!("{:.0} requests/s", 10_000.0 / start.elapsed().as_secs_f64());
}

// R-AUTH-2, R-GW-9: a wrong password is named as such, and never shown
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_shows_in_health() {
    let infra = infra().await;
    infra.nats().start().await.unwrap();
    let service = service();
    let url = secret(infra.nats().url().replace(infra.nats().password(), "hunter2"));
    let connecting = Nats::connect(&url, "test", &service.tasks, &service.health);
    assert!(tokio::time::timeout(SECOND, connecting).await.is_err(), "it waits for as long as it takes");
    let reason = service.health.ready().unwrap_err();
    assert!(reason.contains("authorization violation") && !reason.contains("hunter2"), "{reason}");
}

// pitfalls.md: flush() after subscribe is no round trip, the next request got "no responders" (3-8 of 200)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_active_when_it_is_returned() {
    let infra = infra().await;
    infra.nats().start().await.unwrap();
    let service = service();
    let (listener, asker) =
        (connect(infra.nats().url(), &service).await, connect(infra.nats().url(), &service).await);
    for n in 0..300 {
        let subject = format!("lw.t.{n}");
        let _subscription =
            listener.queue_subscribe(&subject, "group", SubscriptionOptions::named("fresh")).await.unwrap();
        let asked = asker.request(&subject, &[], Bytes::new(), Duration::from_millis(1)).await.unwrap_err();
        assert!(matches!(asked, RequestError::Timeout { .. }), "{n}: {asked}");
    }
}

// R-ACK-1: "502 unreachable" is certain, over kills, pauses and restarts of the server
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sent_never_arrives() {
    let infra = infra().await;
    infra.nats().start().await.unwrap();
    let service = service();
    let (listener, asker) =
        (connect(infra.nats().url(), &service).await, connect(infra.nats().url(), &service).await);
    let seen = echo(&listener, &service, "lw.t.ledger").await;

    type Outcomes = Vec<(Bytes, Result<Bytes, RequestError>)>;
    let outcomes: Arc<Mutex<Outcomes>> = Arc::default();
    let stop = service.tasks.child();
    for worker in 0..8 {
        let (asker, outcomes, stopping) = (asker.clone(), outcomes.clone(), stop.stopping());
        stop.spawn("asker", OnError::Log, async move {
            for n in 0.. {
                if stopping.is_cancelled() {
                    return;
                }
                let payload = Bytes::from(format!("{worker}.{n}"));
                let result =
                    asker.request("lw.t.ledger", &[], payload.clone(), Duration::from_millis(300)).await;
                if matches!(result, Err(RequestError::NotSent(_))) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                outcomes.lock().unwrap().push((payload, result));
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    infra.nats().kill9().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    infra.nats().start().await.unwrap();
    let back = within(5, "an answer after the restart", async || {
        asker
            .request("lw.t.ledger", &[], Bytes::from_static(b"back"), Duration::from_millis(300))
            .await
            .is_ok()
    })
    .await;
    eprintln!("answered again {back:?} after the restart");
    assert!(*asker.connects().borrow() >= 2, "a reconnect is told");
    infra.nats().pause().unwrap();
    within(8, "health sees a server that only looks connected", async || service.health.ready().is_err())
        .await;
    infra.nats().resume().unwrap();
    within(8, "health sees it back", async || service.health.ready().is_ok()).await;
    stop.drain(Duration::from_secs(5)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;

    let (outcomes, seen) = (outcomes.lock().unwrap(), seen.lock().unwrap());
    let count =
        |wanted: fn(&Result<Bytes, RequestError>) -> bool| outcomes.iter().filter(|(_, r)| wanted(r)).count();
    let answered = count(Result::is_ok);
    let not_sent = count(|r| matches!(r, Err(RequestError::NotSent(_))));
    let unknown = count(|r| r.as_ref().is_err_and(|error| !error.nothing_sent()));
    eprintln!("{answered} answered, {not_sent} not sent, {unknown} unknown");
    assert!(answered > 1000 && not_sent > 100 && unknown > 0, "the faults did not bite");
    for (payload, result) in outcomes.iter() {
        match result {
            Ok(_) => assert!(seen.contains(payload)),
            Err(error) if error.nothing_sent() => {
                assert!(!seen.contains(payload), "{payload:?} arrived after all: {error}");
            }
            Err(_) => {}
        }
    }
}

// I7, pitfalls.md: a full subscription drops, and not every drop is told
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_is_either_received_or_counted_as_lost() {
    let infra = infra().await;
    infra.nats().start().await.unwrap();
    let service = service();
    let nats = connect(infra.nats().url(), &service).await;
    let mut slow = nats.subscribe("lw.t.slow", SubscriptionOptions::named("slow").items(10)).await.unwrap();
    for n in 0..500 {
        nats.publish("lw.t.slow", &[], Bytes::from(format!("{n}"))).await.unwrap();
    }
    nats.round_trip().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let first = slow.next_up_to(100, 1 << 20).await;
    assert_eq!(first.len(), 10);
    assert_eq!(first[9].payload, "9", "in order");
    assert_eq!(slow.take_lost(), 490);
    assert_eq!(slow.take_lost(), 0);
}

// R-GW-6: nothing hangs at a graceful stop, with the server there or gone
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_at_once_also_without_the_server() {
    let infra = infra().await;
    infra.nats().start().await.unwrap();
    for gone in [false, true] {
        let service = service();
        let nats = connect(infra.nats().url(), &service).await;
        let mut subscription = nats.subscribe("lw.t.stop", SubscriptionOptions::named("stop")).await.unwrap();
        nats.publish("lw.t.stop", &[], Bytes::from_static(b"last")).await.unwrap();
        nats.round_trip().await.unwrap();
        if gone {
            infra.nats().kill9().await;
        }
        let start = Instant::now();
        service.tasks.drain(Duration::from_secs(3)).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(1), "gone {gone}: {:?}", start.elapsed());
        assert_eq!(
            subscription.next().await.map(|message| message.payload),
            Some(Bytes::from_static(b"last"))
        );
        assert!(subscription.next().await.is_none());
    }
}
