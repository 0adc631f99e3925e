//! This node's share of the cluster's rate: the limit divided by the live gateways (R-GW-4).

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use lapwing_gateway_core::rate::{Rate, TokenBucket};
use lapwing_model::{Code, Refusal};
use parking_lot::Mutex;

pub struct Share {
    cluster: Option<Rate>,
    gateways: AtomicUsize,
    bucket: Option<Mutex<TokenBucket>>,
}

impl Share {
    pub fn new(cluster: Option<Rate>) -> Self {
        let bucket = cluster.map(|rate| Mutex::new(TokenBucket::full(rate, Instant::now())));
        Self { cluster, gateways: AtomicUsize::new(1), bucket }
    }

    pub fn set_gateways(&self, live: usize) {
        self.gateways.store(live.max(1), Ordering::Relaxed);
    }

    pub fn take(&self) -> Result<(), Refusal> {
        let (Some(cluster), Some(bucket)) = (self.cluster, &self.bucket) else { return Ok(()) };
        let live = self.gateways.load(Ordering::Relaxed) as f64;
        let own = Rate { per_second: cluster.per_second / live, burst: (cluster.burst / live).max(1.0) };
        bucket
            .lock()
            .take(own, Instant::now())
            .map_err(|wait| limited("the cluster takes no more messages a second".to_owned(), wait))
    }
}

pub fn limited(what: String, wait: Duration) -> Refusal {
    metrics::counter!("lapwing_gateway_rate_limited_total").increment(1);
    let ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).clamp(100, 3000);
    Refusal::new(Code::RateLimited, what).retry_after(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-GW-4
    #[test]
    fn each_of_two_gateways_spends_half() {
        let share = Share::new(Some(Rate { per_second: 0.001, burst: 10.0 }));
        share.set_gateways(2);
        assert_eq!((0..20).filter(|_| share.take().is_ok()).count(), 5);
        let refusal = share.take().unwrap_err();
        assert_eq!((refusal.code, refusal.retry_after_ms), (Code::RateLimited, 3000));
        assert!((0..100).all(|_| Share::new(None).take().is_ok()), "bench");
    }
}
