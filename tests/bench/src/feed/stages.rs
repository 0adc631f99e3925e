//! Stage latencies out of the process's own metrics: what was added between two readings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct StageTime {
    pub(crate) stage: String,
    pub(crate) count: u64,
    pub(crate) mean_ms: f64,
    /// Within its bucket by straight line.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

#[derive(Default)]
pub(crate) struct Reading(BTreeMap<String, Stage>);

#[derive(Default, Clone)]
struct Stage {
    sum: f64,
    /// Upper bound in seconds → count up to it.
    buckets: Vec<(f64, u64)>,
}

/// All kinds and results of a stage together.
pub(crate) fn read(text: &str) -> Reading {
    let mut stages: BTreeMap<String, Stage> = BTreeMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("lapwing_stage_seconds_") else { continue };
        let Some((labels, value)) = rest.rsplit_once(' ') else { continue };
        let label = |name: &str| labels.split_once(&format!("{name}=\""))?.1.split('"').next();
        let (Some(stage), Ok(value)) = (label("stage"), value.parse::<f64>()) else { continue };
        let stage = stages.entry(stage.to_owned()).or_default();
        if labels.starts_with("sum") {
            stage.sum += value;
        } else if let Some(bound) = label("le") {
            let bound = bound.parse().unwrap_or(f64::INFINITY);
            match stage.buckets.iter_mut().find(|(of, _)| *of == bound) {
                Some((_, count)) => *count += value as u64,
                None => stage.buckets.push((bound, value as u64)),
            }
        }
    }
    for stage in stages.values_mut() {
        stage.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Reading(stages)
}

/// In the order of the stages; those that had nothing to do are left out.
pub(crate) fn between(before: &Reading, after: &Reading) -> Vec<StageTime> {
    let one = |stage: &&str| {
        let (old, new) = (before.0.get(*stage).cloned().unwrap_or_default(), after.0.get(*stage)?);
        let then =
            |bound: f64| old.buckets.iter().find(|(of, _)| *of == bound).map_or(0, |(_, count)| *count);
        let buckets: Vec<(f64, u64)> =
            new.buckets.iter().map(|(bound, count)| (*bound, count - then(*bound))).collect();
        let count = buckets.last()?.1;
        (count > 0).then(|| StageTime {
            stage: (*stage).to_owned(),
            count,
            mean_ms: (new.sum - old.sum) * 1000.0 / count as f64,
            p50_ms: quantile(&buckets, 0.5) * 1000.0,
            p99_ms: quantile(&buckets, 0.99) * 1000.0,
        })
    };
    lapwing_runtime::metrics::STAGES.iter().filter_map(one).collect()
}

fn quantile(buckets: &[(f64, u64)], q: f64) -> f64 {
    let Some((_, all)) = buckets.last() else { return 0.0 };
    let rank = q * *all as f64;
    let (mut low, mut below) = (0.0, 0u64);
    for (bound, count) in buckets {
        if *count as f64 >= rank && *count > below {
            // Nothing is known above the last bound.
            return if bound.is_finite() {
                low + (bound - low) * (rank - below as f64) / (count - below) as f64
            } else {
                low
            };
        }
        (low, below) = (*bound, *count);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_between_two_readings_is_told_by_stage() {
        let line = |stage: &str, le: &str, count: u64| {
            format!(
                "lapwing_stage_seconds_bucket{{stage=\"{stage}\",kind=\"none\",result=\"ok\",le=\"{le}\"}} {count}\n"
            )
        };
        let sum = |value: f64| {
            format!("lapwing_stage_seconds_sum{{stage=\"commit\",kind=\"none\",result=\"ok\"}} {value}\n")
        };
        let first = line("commit", "0.001", 10) + &line("commit", "0.01", 10) + &line("commit", "+Inf", 10);
        let first = first + &sum(0.01);
        let second =
            line("commit", "0.001", 60) + &line("commit", "0.01", 110) + &line("commit", "+Inf", 110);
        let second = second + &sum(0.21);
        let seen = between(&read(&first), &read(&second));
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].stage.as_str(), seen[0].count), ("commit", 100));
        assert!((seen[0].mean_ms - 2.0).abs() < 1e-9 && (seen[0].p50_ms - 1.0).abs() < 1e-9, "{seen:?}");
        assert!((seen[0].p99_ms - 9.82).abs() < 1e-9, "{seen:?}");
        assert!(between(&read(&second), &read(&second)).is_empty());
    }
}
