//! Exact percentiles from raw samples, nearest rank (R-LT-4).
use serde::Serialize;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) mean_ms: f64,
}

/// Value at rank ⌈q·n⌉ of the sorted samples.
pub(crate) fn nearest_rank(sorted: &[u32], q: f64) -> Option<u32> {
    // 0.95 × 200 is 190.00000000000003 in binary: the tolerance keeps it at rank 190.
    let rank = (q * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

impl Percentiles {
    /// Samples in microseconds; sorts them.
    pub(crate) fn of(micros: &mut [u32]) -> Self {
        micros.sort_unstable();
        let ms = |q| nearest_rank(micros, q).map_or(0.0, |us| f64::from(us) / 1000.0);
        let sum: u64 = micros.iter().map(|us| u64::from(*us)).sum();
        Self {
            count: micros.len(),
            p50_ms: ms(0.50),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            max_ms: ms(1.0),
            mean_ms: if micros.is_empty() { 0.0 } else { sum as f64 / micros.len() as f64 / 1000.0 },
        }
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "P50 {:.1} · P95 {:.1} · P99 {:.1} · max {:.1} ms ({} samples)",
            self.p50_ms, self.p95_ms, self.p99_ms, self.max_ms, self.count
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-LT-4: nearest rank, as in the textbook example 15, 20, 35, 40, 50.
    #[test]
    fn nearest_rank_takes_a_value_that_was_measured() {
        let sorted = [15, 20, 35, 40, 50];
        let at = |q| nearest_rank(&sorted, q).unwrap();
        assert_eq!([at(0.05), at(0.30), at(0.40), at(0.50), at(1.0)], [15, 20, 20, 35, 50]);
        assert_eq!(nearest_rank(&[], 0.5), None);
    }

    #[test]
    fn ranks_are_exact_where_binary_fractions_are_not() {
        let sorted: Vec<u32> = (1..=200).collect();
        assert_eq!(nearest_rank(&sorted, 0.95), Some(190));
        assert_eq!(nearest_rank(&sorted, 0.99), Some(198));
        let sorted: Vec<u32> = (1..=8000).collect();
        assert_eq!(nearest_rank(&sorted, 0.95), Some(7600));
    }

    #[test]
    fn of_sorts_and_converts() {
        let p = Percentiles::of(&mut [3000, 1000, 2000]);
        assert_eq!((p.count, p.p50_ms, p.max_ms, p.mean_ms), (3, 2.0, 3.0, 2.0));
        assert_eq!(Percentiles::of(&mut []).count, 0);
    }
}
