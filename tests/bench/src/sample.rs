//! Medians and percentiles.

/// Of an odd number of rounds: the one in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// Nearest rank; sorts the samples.
pub(crate) fn percentile(samples: &mut [u32], q: f64) -> f64 {
    samples.sort_unstable();
    let rank = (q * samples.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    samples.get(rank - 1).copied().map_or(0.0, f64::from)
}

/// 12345.6 → "12,346".
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    if value < 0.0 { format!("-{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_percentiles_and_thousands() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
        let mut samples: Vec<u32> = (1..=200).rev().collect();
        assert_eq!([0.5, 0.95, 0.99].map(|q| percentile(&mut samples, q)), [100.0, 190.0, 198.0]);
        assert_eq!([0.0, 999.0, 1000.0, 1234567.4].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
