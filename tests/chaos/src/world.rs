//! What a scenario acts on, and the words in which it acts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use lapwing_loadtest::drive::Load;
use lapwing_runtime::fail_point;
use lapwing_servers::{
    Cluster, Managed, http, proxy::Proxy, redis::Redis, services::Service, small_disk::SmallDisk,
};
use parking_lot::Mutex;

use crate::{
    journal::{Journal, MIN_IN_FLIGHT},
    population::Population,
    stack::{Links, Parts, Replica},
    watch::Line,
};

pub(crate) struct World {
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) population: Option<Population>,
    pub(crate) second: Option<Redis>,
    pub(crate) cluster: Cluster,
    pub(crate) replica: Option<Replica>,
    pub(crate) kafka: Option<Proxy>,
    pub(crate) links: Option<Links>,
    pub(crate) load: Load,
    pub(crate) journal: Arc<Journal>,
    pub(crate) lines: Arc<Mutex<Vec<Line>>>,
    pub(crate) quick: bool,
}

/// Above the least, since some are answered in the moment of the fault.
const WANTED: u64 = 40;
/// p2p, group and system with 8 partitions each.
pub(crate) const PARTITIONS: usize = 24;
pub(crate) const LEASE: Duration = Duration::from_secs(3);

impl World {
    pub(crate) fn new(
        parts: Parts,
        load: Load,
        journal: Arc<Journal>,
        lines: Arc<Mutex<Vec<Line>>>,
        quick: bool,
    ) -> Self {
        let Parts { disk, population, second, cluster, replica, kafka, links } = parts;
        Self { disk, population, second, cluster, replica, kafka, links, load, journal, lines, quick }
    }

    /// Waits for many publishes in flight, does it, tells it.
    pub(crate) async fn strike<T>(
        &self,
        what: &str,
        act: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.load.until_in_flight(WANTED, Duration::from_secs(8)).await;
        let moment = self.load.now();
        let done = act.await.with_context(|| what.to_owned())?;
        self.journal.injected(what, &self.load, moment);
        Ok(done)
    }

    pub(crate) async fn kill(&self, server: &Managed) -> anyhow::Result<Instant> {
        let at = async {
            server.kill9().await;
            Ok(Instant::now())
        };
        self.strike(&format!("kill -9 {}", server.name()), at).await
    }

    pub(crate) async fn start(&self, server: &Managed) -> anyhow::Result<()> {
        let begin = Instant::now();
        server.start().await?;
        let took = begin.elapsed().as_secs_f64();
        self.journal.saw(&format!("{} started again, ready after {took:.1} s", server.name()));
        Ok(())
    }

    /// Time for what follows a fault to show.
    pub(crate) async fn wait(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// An owner younger than this asks Redis also about first attempts: they may have been stored by the one before.
    pub(crate) async fn owners_remember(&self) {
        self.wait(7.0).await;
    }

    /// The long one, or the short one of `--quick`.
    pub(crate) fn seconds(&self, long: f64, quick: f64) -> f64 {
        if self.quick { quick } else { long }
    }

    pub(crate) fn rounds(&self, long: usize, quick: usize) -> usize {
        if self.quick { quick } else { long }
    }

    /// Publishes are accepted again, or a failed check says that they are not.
    pub(crate) async fn accepts_again(&self, after: &str) {
        let begin = Instant::now();
        let accepted = self.load.until_accepted(200, Duration::from_secs(60)).await;
        let value = format!("{:.1} s for 200 more", begin.elapsed().as_secs_f64());
        self.journal.check(&format!("accepting after {after}"), value, "≤ 60 s", accepted);
    }

    /// Partitions that this router serves, as it says itself; None: no answer.
    pub(crate) async fn served_by(&self, router: &Service) -> Option<usize> {
        let rows = self.partitions(router).await?;
        Some(rows.iter().filter(|row| row["state"] == "serving").count())
    }

    pub(crate) async fn partitions(&self, router: &Service) -> Option<Vec<serde_json::Value>> {
        let key = Some(self.cluster.operator_key());
        let address = router.admin_address();
        let asked = http::request(&address, "GET", "/admin/partitions", key, None);
        let answer = tokio::time::timeout(Duration::from_secs(1), asked).await.ok()?.ok()?;
        answer.json().ok()?.as_array().cloned()
    }

    /// Until the routers of these indices serve every partition together; the time since `from`.
    pub(crate) async fn all_served(
        &self,
        routers: &[usize],
        from: Instant,
        limit: Duration,
    ) -> Option<Duration> {
        loop {
            let mut served = 0;
            for index in routers {
                served += self.served_by(self.cluster.router(*index)).await.unwrap_or(0);
            }
            if served == PARTITIONS {
                return Some(from.elapsed());
            }
            if from.elapsed() > limit {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    /// A router that came back gets partitions, and all of them have an owner.
    pub(crate) async fn check_owns(&self, router: usize) {
        let begin = Instant::now();
        let owns = async {
            while self.served_by(self.cluster.router(router)).await.unwrap_or(0) == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            self.all_served(&[0, 1], begin, Duration::from_secs(20)).await.is_some()
        };
        let good = tokio::time::timeout(Duration::from_secs(20), owns).await.unwrap_or(false);
        let value = format!("{:.1} s", begin.elapsed().as_secs_f64());
        self.journal.check("it owns partitions again", value, "within 20 s", good);
    }

    /// R-SEQ-10: after a kill, each partition has an owner within the lease time and a second.
    pub(crate) async fn check_take_over(&self, survivors: &[usize], killed_at: Instant) {
        let limit = LEASE + Duration::from_secs(1);
        let took = self.all_served(survivors, killed_at, Duration::from_secs(20)).await;
        let value = took.map_or("not within 20 s".to_owned(), |took| format!("{:.2} s", took.as_secs_f64()));
        self.journal.check(
            "take-over of all partitions",
            value,
            "< lease + 1 s = 4 s",
            took.is_some_and(|took| took < limit),
        );
    }

    /// How often views were found behind, and whole again, until now.
    pub(crate) fn views(&self) -> (u64, u64) {
        (self.journal.messages("the view is behind"), self.journal.messages("the view is whole again"))
    }

    /// Starts the service so that it ends itself at this place, until it did so with enough in flight.
    pub(crate) async fn ended_at(
        &self,
        service: &Service,
        place: &fail_point::Place,
        counts: &[u64],
    ) -> anyhow::Result<Option<Instant>> {
        for count in counts {
            service.stop().await;
            let point = format!("{}:{count}", place.name);
            service.set_environment(&[("LAPWING_FAIL_POINT", &point)]);
            service.spawn()?;
            let ended = service.wait_ended(Duration::from_secs(20)).await;
            let (at, moment) = (Instant::now(), self.load.now());
            service.set_environment(&[]);
            let in_flight = self.load.in_flight_at(moment);
            if ended && in_flight >= MIN_IN_FLIGHT {
                let what = format!("{} ended itself at {point} ({})", service.node(), place.between);
                self.journal.injected(&what, &self.load, moment);
                return Ok(Some(at));
            }
            let how =
                if ended { format!("with only {in_flight} in flight") } else { "not at all".to_owned() };
            self.journal.saw(&format!("{} ended at {point} {how}: again", service.node()));
            service.kill9().await;
        }
        self.journal.check(&format!("ended at {}", place.name), "no", "with ≥ 20 in flight", false);
        Ok(None)
    }

    /// As [`World::check_noticed`], within some seconds.
    pub(crate) async fn check_noticed_soon(&self, before: u64, message: &str) {
        let begin = Instant::now();
        while self.journal.messages(message) == before && begin.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.check_noticed(before, message);
    }

    /// Something must have been noticed, or the fault did not do what it says.
    pub(crate) fn check_noticed(&self, before: u64, message: &str) {
        let times = self.journal.messages(message) - before;
        self.journal.check(&format!("noticed: {message}"), format!("{times} times"), "≥ 1", times > 0);
    }

    /// Views that were found behind are whole again.
    pub(crate) async fn check_whole_again(&self, behind: u64, whole: u64) {
        let begin = Instant::now();
        let missing = || {
            let behind = self.journal.messages("the view is behind") - behind;
            behind.saturating_sub(self.journal.messages("the view is whole again") - whole)
        };
        while missing() > 0 && begin.elapsed() < Duration::from_secs(40) {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        self.journal.check("views that are still behind", missing(), "0", missing() == 0);
    }
}
