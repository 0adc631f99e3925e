//! Reads how many tests passed and failed from the closing lines of the two test runners.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// nextest: `Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 2 skipped`;
    /// Node: `# pass 7` or `ℹ pass 7`, and the same with `fail` and `cancelled`.
    pub(crate) fn read(&mut self, line: &str) {
        let line = line.trim();
        if line.starts_with("Summary [")
            && let Some((_, counts)) = line.split_once(" run: ")
        {
            for part in counts.split(',') {
                let mut words = part.split_whitespace();
                let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
                match words.next() {
                    Some("passed") => self.passed += number,
                    Some("failed" | "timed" | "exec") => self.failed += number,
                    _ => {}
                }
            }
        }
        if let Some(rest) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))
            && let Some((what, number)) = rest.split_once(' ')
            && let Ok(number) = number.parse::<u64>()
        {
            match what {
                "pass" => self.passed += number,
                "fail" | "cancelled" => self.failed += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lines: &[&str]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts.read(line));
        counts
    }

    #[test]
    fn reads_both_runners() {
        let nextest = "     Summary [  12.3s] 9 tests run: 7 passed (1 slow, 1 leaky), 1 failed, 1 timed out, 2 skipped";
        assert_eq!(counts(&[nextest]), Counts { passed: 7, failed: 2 });
        let node = ["# tests 5", "# pass 3", "# fail 1", "# cancelled 1", "# duration_ms 7"];
        assert_eq!(counts(&node), Counts { passed: 3, failed: 2 });
        assert_eq!(counts(&["ℹ pass 4", "ℹ fail 0", "all pass 9"]), Counts { passed: 4, failed: 0 });
    }
}
