use std::time::{Duration, Instant};

use super::*;

// I7, R-FAN-2
#[tokio::test(start_paused = true)]
async fn a_full_queue_answers_and_gives_the_item_back() {
    let (tx, mut rx) = Queue::named("t_full").items(2).bytes(100).open();
    tx.try_push("a", 60).unwrap();
    assert_eq!(tx.try_push("b", 41), Err(PushError::Full("b")), "bytes bound");
    tx.try_push("b", 40).unwrap();
    assert_eq!(tx.try_push("c", 0), Err(PushError::Full("c")), "items bound");
    let start = tokio::time::Instant::now();
    assert_eq!(tx.push_timeout("c", 1, Duration::from_millis(300)).await, Err(PushError::Full("c")));
    assert_eq!(start.elapsed(), Duration::from_millis(300));
    assert_eq!((tx.len(), tx.bytes()), (2, 100));
    assert_eq!(rx.pop().await, Some("a"));
    tx.try_push("c", 1).unwrap();
}

// I7: what must not be lost goes in, in order, and the bounds hold for the rest.
#[tokio::test]
async fn what_nothing_would_make_good_goes_beyond_the_bounds() {
    let budget = Budget::new("t_over", 50);
    let (tx, mut rx) = Queue::named("t_over").items(1).bytes(50).budget(&budget).open();
    tx.try_push(1, 50).unwrap();
    tx.push_over(2, 10);
    assert!(tx.try_push(3, 1).unwrap_err().is_full());
    assert_eq!((tx.len(), budget.used()), (2, 60));
    assert_eq!((rx.pop().await, rx.pop().await), (Some(1), Some(2)));
    assert_eq!((tx.bytes(), budget.used()), (0, 0));
    rx.close();
    tx.push_over(4, 1);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn an_item_larger_than_the_queue_passes_alone() {
    let (tx, mut rx) = Queue::named("t_large").items(8).bytes(10).open();
    tx.try_push(1, 50).unwrap();
    assert!(tx.fill() > 1.0);
    assert!(tx.try_push(2, 1).unwrap_err().is_full());
    assert_eq!(rx.pop().await, Some(1));
    assert_eq!(tx.bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_producer_gets_the_room_that_a_pop_makes() {
    let (tx, mut rx) = Queue::named("t_wait").items(1).bytes(10).open();
    tx.try_push(1, 1).unwrap();
    let waiting = {
        let tx = tx.clone();
        async move { tx.push_timeout(2, 1, Duration::from_secs(5)).await }
    };
    let popping = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        rx.pop().await
    };
    let (pushed, popped) = tokio::join!(waiting, popping);
    assert_eq!((pushed, popped), (Ok(()), Some(1)));
    assert_eq!(rx.pop().await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_budget_bounds_several_queues_and_wakes_across_them() {
    let budget = Budget::new("t_budget", 100);
    let (tx1, mut rx1) = Queue::named("t_b1").budget(&budget).open();
    let (tx2, mut rx2) = Queue::named("t_b2").budget(&budget).open();
    tx1.try_push("a", 80).unwrap();
    assert!(tx2.try_push("b", 30).unwrap_err().is_full());
    let waiting = tx2.push_timeout("b", 30, Duration::from_secs(5));
    let popping = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        rx1.pop().await
    };
    let (pushed, _) = tokio::join!(waiting, popping);
    pushed.unwrap();
    assert_eq!(budget.used(), 30);
    assert_eq!(rx2.pop().await, Some("b"));
    tx1.try_push("left", 7).unwrap();
    drop(rx1);
    assert_eq!(budget.used(), 0, "a consumer that goes away gives its bytes back");
}

#[tokio::test]
async fn batches_take_what_is_there_in_order_bounded_by_bytes() {
    let (tx, mut rx) = Queue::named("t_batch").items(100).bytes(10_000).open();
    for i in 0..10 {
        tx.try_push(i, 100).unwrap();
    }
    assert_eq!(rx.pop_up_to(3, 10_000).await, vec![0, 1, 2]);
    assert_eq!(rx.pop_up_to(100, 250).await, vec![3, 4]);
    assert_eq!(rx.pop_up_to(100, 1).await, vec![5], "at least one");
    assert_eq!(rx.pop_up_to(100, 10_000).await, vec![6, 7, 8, 9]);
    assert_eq!(tx.bytes(), 0);
}

#[tokio::test]
async fn closing_lets_what_is_inside_out_and_refuses_the_rest() {
    let (tx, mut rx) = Queue::named("t_close").open();
    tx.try_push(1, 1).unwrap();
    tx.close();
    assert_eq!(tx.try_push(2, 1), Err(PushError::Closed(2)));
    assert_eq!(rx.pop().await, Some(1));
    assert_eq!(rx.pop().await, None);
    assert!(rx.pop_up_to(10, 10).await.is_empty());

    let (tx, mut rx) = Queue::named("t_close").open::<u8>();
    let other = tx.clone();
    drop(tx);
    other.try_push(7, 1).unwrap();
    drop(other);
    assert_eq!((rx.pop().await, rx.pop().await), (Some(7), None), "the last sender closes it");
}

#[tokio::test]
async fn a_waiting_consumer_is_woken_by_close() {
    let (tx, mut rx) = Queue::named("t_wake").open::<u8>();
    let closer = async {
        tokio::task::yield_now().await;
        tx.close();
    };
    let (popped, ()) = tokio::join!(rx.pop(), closer);
    assert_eq!(popped, None);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_pop_loses_nothing() {
    let (tx, mut rx) = Queue::named("t_cancel").open();
    for round in 0..50 {
        let late = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tx.try_push(round, 1).unwrap();
        };
        let _ = tokio::join!(tokio::time::timeout(Duration::from_millis(1), rx.pop()), late);
        let _ = rx.try_pop();
    }
    assert!(rx.is_empty());
}

#[test]
fn many_producers_and_one_consumer_lose_and_reorder_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    const EACH: usize = 100_000;
    let (tx, mut rx) = Queue::named("t_many").items(1000).bytes(1 << 20).open();
    let start = Instant::now();
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let tx = tx.clone();
            std::thread::spawn(move || {
                let wait = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                wait.block_on(async {
                    for i in 0..EACH {
                        tx.push_timeout((producer, i), 16, Duration::from_secs(30)).await.unwrap();
                    }
                });
            })
        })
        .collect();
    drop(tx);
    let counts = runtime.block_on(async {
        let mut next = [0usize; 4];
        loop {
            let batch = rx.pop_up_to(256, 1 << 20).await;
            if batch.is_empty() {
                break next;
            }
            for (producer, i) in batch {
                assert_eq!(i, next[producer], "producer {producer} out of order");
                next[producer] += 1;
            }
        }
    });
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    assert_eq!(counts, [EACH; 4]);
    eprintln!("{:.0} items/s", 4.0 * EACH as f64 / start.elapsed().as_secs_f64());
}

// R-GW-6
#[test]
fn a_full_queue_of_one_peer_is_not_the_processes_trouble() {
    let (own, _own_rx) = Queue::named("t_own").items(10).open();
    let (peer, _peer_rx) = Queue::named("t_peer").items(1).of_one_peer().open();
    own.try_push((), 0).unwrap();
    peer.try_push((), 0).unwrap();
    let reports = report();
    let of = |name| reports.iter().find(|report| report.queue == name).unwrap().clone();
    assert!(of("t_own").readiness && of("t_own").fullest == 0.1);
    assert!(!of("t_peer").readiness && of("t_peer").fullest == 1.0);
}
