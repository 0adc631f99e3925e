//! A transcript file: a header line, then conversation, second, sender, text.
use std::path::Path;

use anyhow::{Context, bail, ensure};

use crate::{history, report};

pub(crate) struct Line {
    pub(crate) second: String,
    pub(crate) sender: String,
    pub(crate) text: String,
}

pub(crate) struct Talk {
    pub(crate) name: String,
    /// In the order of their first line.
    pub(crate) members: Vec<String>,
    pub(crate) lines: Vec<Line>,
    /// The conversation's bytes as they stand in the file.
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct File {
    pub(crate) header: Vec<u8>,
    /// In the file's order.
    pub(crate) talks: Vec<Talk>,
}

pub(crate) fn read(path: &Path) -> anyhow::Result<File> {
    let bytes =
        std::fs::read(path).with_context(|| format!("cannot read the transcript {}", path.display()))?;
    parse(&bytes).with_context(|| format!("in the transcript {}", path.display()))
}

pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<File> {
    let mut file = File { header: Vec::new(), talks: Vec::<Talk>::new() };
    for (number, raw) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        if number == 0 && raw.starts_with(b"#") {
            file.header = raw.to_vec();
            continue;
        }
        let line = std::str::from_utf8(raw).with_context(|| format!("line {} is not UTF-8", number + 1))?;
        let line = line.strip_suffix('\n').context("the last line has no end")?;
        let fields: Vec<&str> = line.split('\t').collect();
        let [conversation, second, sender, text] = fields[..] else {
            bail!("line {} has {} fields instead of 4", number + 1, fields.len());
        };
        let at = match file.talks.iter().position(|talk| talk.name == conversation) {
            Some(at) => at,
            None => {
                let (members, lines, bytes) = (Vec::new(), Vec::new(), Vec::new());
                file.talks.push(Talk { name: conversation.to_owned(), members, lines, bytes });
                file.talks.len() - 1
            }
        };
        let talk = &mut file.talks[at];
        if !talk.members.iter().any(|member| member == sender) {
            talk.members.push(sender.to_owned());
        }
        talk.lines.push(Line { second: second.to_owned(), sender: sender.to_owned(), text: text.to_owned() });
        talk.bytes.extend_from_slice(raw);
    }
    ensure!(!file.talks.is_empty(), "no lines");
    Ok(file)
}

/// How the second travels with its message: in the content type.
pub(crate) fn kind_of(second: &str) -> String {
    format!("line;second={second}")
}

/// History put back into the file's form; the message of the first difference if it is not the same.
pub(crate) fn compare(talks: &[Talk], histories: &[Option<&history::Transcript>]) -> report::Transcript {
    let mut result = report::Transcript { conversations: talks.len(), ..Default::default() };
    for (talk, history) in talks.iter().zip(histories) {
        let written = history.map(|history| written(&talk.name, history)).unwrap_or_default();
        result.bytes += written.len();
        if written == talk.bytes {
            result.equal += 1;
        } else if result.first_difference.is_none() {
            result.first_difference = Some(difference(&talk.name, &talk.bytes, &written));
        }
    }
    result.whole = result.equal == talks.len();
    result
}

fn written(name: &str, history: &history::Transcript) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (sender, kind, text) in history {
        let second = kind.strip_prefix("line;second=").unwrap_or(kind);
        for field in [name, "\t", second, "\t", sender, "\t", text, "\n"] {
            bytes.extend_from_slice(field.as_bytes());
        }
    }
    bytes
}

fn difference(name: &str, file: &[u8], history: &[u8]) -> String {
    let lines = |bytes: &[u8]| -> Vec<String> {
        bytes.split(|b| *b == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    };
    let (file, history) = (lines(file), lines(history));
    let at = file.iter().zip(&history).position(|(a, b)| a != b).unwrap_or(file.len().min(history.len()));
    let show = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "nothing".into());
    format!("{name} line {}: file {:?}, history {:?}", at + 1, show(&file), show(&history))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = "# c\ts\tu\tt\nc1\t10\tann\thello\nc1\t9\tbob\thö, \"x\"\nc2\t1\tann\t \n".as_bytes();

    fn history(lines: &[(&str, &str, &str)]) -> history::Transcript {
        lines.iter().map(|(who, second, text)| ((*who).into(), kind_of(second), (*text).into())).collect()
    }

    // #4: the order is the file's order, also where the second runs backwards.
    #[test]
    fn reads_conversations_members_and_bytes() {
        let file = parse(FILE).unwrap();
        let names: Vec<_> =
            file.talks.iter().map(|t| (t.name.as_str(), t.lines.len(), t.members.len())).collect();
        assert_eq!(names, [("c1", 2, 2), ("c2", 1, 1)]);
        let whole: Vec<u8> =
            file.header.iter().chain(file.talks.iter().flat_map(|t| &t.bytes)).copied().collect();
        assert_eq!(whole, FILE);
        assert!(parse(b"#\nc1\t10\tann\n").is_err());
        assert!(parse(b"#\nc1\t10\tann\tx").is_err());
        assert!(parse(b"# only\n").is_err());
    }

    // #4: byte for byte.
    #[test]
    fn history_equals_the_file_or_says_where_not() {
        let file = parse(FILE).unwrap();
        let (one, two) =
            (history(&[("ann", "10", "hello"), ("bob", "9", "hö, \"x\"")]), history(&[("ann", "1", " ")]));
        let same = compare(&file.talks, &[Some(&one), Some(&two)]);
        assert!(same.whole && same.equal == 2 && same.first_difference.is_none());
        let wrong = history(&[("ann", "10", "hello"), ("bob", "9", "hö, \"X\"")]);
        let other = compare(&file.talks, &[Some(&wrong), None]);
        assert_eq!((other.whole, other.equal), (false, 0));
        assert!(other.first_difference.unwrap().starts_with("c1 line 2"));
    }
}
