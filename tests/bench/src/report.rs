//! What a benchmark says: a line a figure, its goals, a verdict; and the same as a section of docs/performance.md.

use anyhow::{Context, Result, ensure};

use crate::machine;

pub(crate) struct Report {
    name: &'static str,
    heading: &'static str,
    command: String,
    machine: String,
    parts: Vec<Part>,
    goals: Vec<Goal>,
}

enum Part {
    Figure { what: String, value: String },
    Table { head: Vec<String>, rows: Vec<Vec<String>> },
    Note(String),
}

struct Goal {
    what: String,
    seen: String,
    met: bool,
}

impl Report {
    /// `command`: what is typed after `./dev bench`.
    pub(crate) fn begin(name: &'static str, heading: &'static str, command: String) -> Self {
        let machine = format!("{}, commit {}, {}", machine::date(), machine::commit(), machine::describe());
        println!("bench {name}: {machine}");
        Self { name, heading, command, machine, parts: Vec::new(), goals: Vec::new() }
    }

    pub(crate) fn figure(&mut self, what: impl Into<String>, value: impl Into<String>) {
        let (what, value) = (what.into(), value.into());
        println!("{what}: {value}");
        self.parts.push(Part::Figure { what, value });
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        println!("{text}");
        self.parts.push(Part::Note(text));
    }

    pub(crate) fn table(&mut self, head: &[&str], rows: Vec<Vec<String>>) {
        let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
        print!("{}", table(&head, &rows));
        self.parts.push(Part::Table { head, rows });
    }

    pub(crate) fn goal(&mut self, what: impl Into<String>, seen: impl Into<String>, met: bool) {
        let goal = Goal { what: what.into(), seen: seen.into(), met };
        println!("goal {}: {} ({})", if met { "met" } else { "missed" }, goal.what, goal.seen);
        self.goals.push(goal);
    }

    pub(crate) fn passed(&self) -> bool {
        self.goals.iter().all(|goal| goal.met)
    }

    /// The last line on the screen.
    pub(crate) fn end(self) -> Self {
        let missed: Vec<_> = self.goals.iter().filter(|goal| !goal.met).map(|goal| &*goal.what).collect();
        match missed.is_empty() {
            true => println!("verdict: pass {}", self.name),
            false => println!("verdict: fail {} · {}", self.name, missed.join(" · ")),
        }
        self
    }

    /// Puts the section in the place of the one of the same name.
    pub(crate) fn write_down(&self) -> Result<()> {
        let path = lapwing_servers::paths::workspace_dir().join("docs/performance.md");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = replaced(&text, self.name, &self.markdown())?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("written into docs/performance.md");
        Ok(())
    }

    fn markdown(&self) -> String {
        let mut text =
            format!("## {}\n\n`./dev bench {}`, {}.\n\n", self.heading, self.command, self.machine);
        let mut figures: Vec<Vec<String>> = Vec::new();
        let flush = |text: &mut String, figures: &mut Vec<Vec<String>>| {
            if !figures.is_empty() {
                let head = ["figure", "seen"].map(str::to_owned);
                text.push_str(&table(&head, &std::mem::take(figures)));
                text.push('\n');
            }
        };
        for part in &self.parts {
            match part {
                Part::Figure { what, value } => figures.push(vec![what.clone(), value.clone()]),
                Part::Table { head, rows } => {
                    flush(&mut text, &mut figures);
                    text.push_str(&format!("{}\n", table(head, rows)));
                }
                Part::Note(note) => {
                    flush(&mut text, &mut figures);
                    text.push_str(&format!("{note}\n\n"));
                }
            }
        }
        flush(&mut text, &mut figures);
        let goals: Vec<Vec<String>> = self
            .goals
            .iter()
            .map(|goal| {
                vec![goal.what.clone(), goal.seen.clone(), if goal.met { "met" } else { "missed" }.to_owned()]
            })
            .collect();
        if !goals.is_empty() {
            text.push_str(&table(&["goal", "seen", "verdict"].map(str::to_owned), &goals));
        }
        text
    }
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}{body}", line(head))
}

/// Between `<!-- bench: NAME -->` and `<!-- end: NAME -->`.
fn replaced(text: &str, name: &str, section: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- bench: {name} -->"), format!("<!-- end: {name} -->"));
    let place = text.split_once(&begin).zip(text.split_once(&end));
    let Some(((before, _), (_, after))) = place else {
        anyhow::bail!("docs/performance.md has no section {begin} … {end}");
    };
    ensure!(text.find(&begin) < text.find(&end), "docs/performance.md: {end} stands before {begin}");
    Ok(format!("{before}{begin}\n{}\n{end}{after}", section.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_the_one_of_its_name_only() {
        let text = "# P\n<!-- bench: a -->\nold\n<!-- end: a -->\n<!-- bench: b -->\nkept\n<!-- end: b -->\n";
        let new = replaced(text, "a", "## new\n").unwrap();
        assert_eq!(
            new,
            "# P\n<!-- bench: a -->\n## new\n<!-- end: a -->\n<!-- bench: b -->\nkept\n<!-- end: b -->\n"
        );
        assert!(replaced(text, "c", "").is_err());
    }

    #[test]
    fn a_missed_goal_fails_the_report() {
        let mut report = Report::begin("a", "A", "a --seconds 1".to_owned());
        report.figure("speed", "5/s");
        report.table(&["x", "y"], vec![vec!["1".to_owned(), "2".to_owned()]]);
        report.goal("≥ 4/s", "5/s", true);
        assert!(report.passed());
        report.goal("≥ 9/s", "5/s", false);
        assert!(!report.passed());
        let markdown = report.markdown();
        for line in ["## A", "| speed | 5/s |", "| x | y |", "| 1 | 2 |", "| ≥ 9/s | 5/s | missed |"] {
            assert!(markdown.lines().any(|there| there == line), "{line} not in\n{markdown}");
        }
        assert!(markdown.contains("`./dev bench a --seconds 1`"));
    }
}
