//! The services' own figures: scraped before, during and after.
use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use hyper::Method;
use lapwing_client::http::Api;

/// (node, series) → value.
pub(crate) type Snapshot = BTreeMap<(String, String), f64>;

pub(crate) struct Scraper {
    services: Vec<(String, Api)>,
}

impl Scraper {
    pub(crate) fn new(services: &[(String, String)]) -> Self {
        let api = |url: &String| {
            let mut api = Api::new(url.clone(), None);
            api.timeout = Duration::from_secs(3);
            api
        };
        Self { services: services.iter().map(|(node, url)| (node.clone(), api(url))).collect() }
    }

    /// What answers; a service that is down is left out.
    pub(crate) async fn snapshot(&self) -> Snapshot {
        let one = |(node, api): (String, Api)| async move {
            match api.send(Method::GET, "/metrics", None).await {
                Ok((200, body)) => parse(&node, &String::from_utf8_lossy(&body)),
                _ => Snapshot::new(),
            }
        };
        join_all(self.services.iter().cloned().map(one)).await.into_iter().flatten().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty()
    }
}

pub(crate) fn parse(node: &str, text: &str) -> Snapshot {
    let line = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let keep = series.starts_with("lapwing_") && !series.contains("_bucket{");
        keep.then_some(((node.to_owned(), series.to_owned()), value.parse().ok()?))
    };
    text.lines().filter(|l| !l.starts_with('#')).filter_map(line).collect()
}

/// Growth of all series of a name that carry `label` (a part of the label list), over all nodes.
pub(crate) fn growth(before: &Snapshot, after: &Snapshot, name: &str, label: &str) -> f64 {
    let of = |key: &(String, String)| series_is(&key.1, name) && key.1.contains(label);
    let grown = |(key, now): (&(String, String), &f64)| {
        let then = before.get(key).copied().unwrap_or(0.0);
        // A counter below its old value has begun anew with its process.
        if *now >= then { now - then } else { *now }
    };
    after.iter().filter(|(key, _)| of(key)).map(grown).sum()
}

pub(crate) fn largest(snapshot: &Snapshot, name: &str) -> Option<f64> {
    snapshot.iter().filter(|(key, _)| series_is(&key.1, name)).map(|(_, v)| *v).reduce(f64::max)
}

fn series_is(series: &str, name: &str) -> bool {
    series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
}

/// Counters of one label value each, for the report: name and labels → growth.
pub(crate) fn grown(before: &Snapshot, after: &Snapshot) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for (key, now) in after.iter().filter(|(key, _)| key.1.contains("_total") || key.1.contains("_count")) {
        let then = before.get(key).copied().unwrap_or(0.0);
        let by = if *now >= then { now - then } else { *now };
        if by > 0.0 {
            *all.entry(key.1.clone()).or_default() += by;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE lapwing_enqueue_total counter\n\
        lapwing_enqueue_total{queue=\"lane\",result=\"timeout\"} 3\n\
        lapwing_enqueue_total{queue=\"lane\",result=\"ok\"} 90\n\
        lapwing_enqueue_totals 7\n\
        lapwing_stage_seconds_bucket{le=\"1\"} 4\n\
        process_cpu 1\n\
        lapwing_persist_lag 12.5\n";

    #[test]
    fn growth_takes_the_named_series_with_the_label() {
        let (before, mut after) = (parse("g1", TEXT), parse("g1", TEXT));
        *after
            .get_mut(&("g1".into(), "lapwing_enqueue_total{queue=\"lane\",result=\"timeout\"}".into()))
            .unwrap() = 5.0;
        assert_eq!(growth(&before, &after, "lapwing_enqueue_total", "result=\"timeout\""), 2.0);
        assert_eq!(growth(&before, &after, "lapwing_enqueue_total", "result=\"ok\""), 0.0);
        assert_eq!(growth(&Snapshot::new(), &after, "lapwing_enqueue_total", ""), 95.0);
        assert_eq!((largest(&after, "lapwing_persist_lag"), before.len()), (Some(12.5), 4));
        assert_eq!(grown(&before, &after).len(), 1);
    }

    #[test]
    fn a_restarted_process_counts_from_zero() {
        let before = parse("g1", "lapwing_queue_drops_total{queue=\"q\"} 10\n");
        let after = parse("g1", "lapwing_queue_drops_total{queue=\"q\"} 4\n");
        assert_eq!(growth(&before, &after, "lapwing_queue_drops_total", ""), 4.0);
    }
}
