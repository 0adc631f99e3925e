//! What becomes of one message (R-ACK-1): the table of answers, folded over all attempts of one client_mid.
use std::time::Duration;

use lapwing_proto::client as proto;

use crate::{backoff::Backoff, options::RetryPolicy};

/// The four outcomes. `Unknown` says that nobody can tell yet: 0 or 1 copy exists.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Accepted(proto::Published),
    Duplicate(proto::Published),
    Rejected(proto::Error),
    Unknown { code: u32, reason: String },
}

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Published(proto::Published),
    Refused(proto::Error),
    /// Written, and no answer in time.
    Timeout,
    /// Written, and the socket closed before an answer.
    Closed(String),
    /// Never given to a socket.
    NotSent(String),
}

impl Answer {
    /// HTTP-like code; 0 = no answer in time, 1 = socket closed, 2 = not sent.
    pub fn code(&self) -> u32 {
        match self {
            Answer::Published(p) if p.outcome() == proto::Outcome::Duplicate => 200,
            Answer::Published(_) => 202,
            Answer::Refused(error) => error.code,
            Answer::Timeout => 0,
            Answer::Closed(_) => 1,
            Answer::NotSent(_) => 2,
        }
    }

    fn reason(&self) -> String {
        match self {
            Answer::Published(_) => String::new(),
            Answer::Refused(error) => format!("{} {}: {}", error.code, error.name, error.message),
            Answer::Timeout => "no answer in time".into(),
            Answer::Closed(why) => format!("socket closed: {why}"),
            Answer::NotSent(why) => format!("not sent: {why}"),
        }
    }
}

/// What a client does with a code, by the requirements' table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    Done,
    Report,
    RefreshAndRetry,
    RetryAfter,
    RetryWithBackoff,
    RetrySameMid,
}

pub fn advice(code: u32) -> Advice {
    match code {
        200 | 202 => Advice::Done,
        401 => Advice::RefreshAndRetry,
        429 | 503 => Advice::RetryAfter,
        502 => Advice::RetryWithBackoff,
        400 | 403 | 404 | 409 | 413 => Advice::Report,
        _ => Advice::RetrySameMid,
    }
}

/// Class of a refusal; the server's word first, the table for servers that say nothing.
pub fn class_of(error: &proto::Error) -> proto::Class {
    match error.class() {
        proto::Class::Unspecified => match advice(error.code) {
            Advice::Report => proto::Class::Rejected,
            Advice::RefreshAndRetry | Advice::RetryAfter | Advice::RetryWithBackoff => proto::Class::Open,
            Advice::Done | Advice::RetrySameMid => proto::Class::Unknown,
        },
        class => class,
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Done(Outcome),
    Retry { after: Duration, refresh: bool },
}

/// Fold of one message's attempts.
#[derive(Debug)]
pub struct Attempts {
    policy: RetryPolicy,
    backoff: Backoff,
    /// Number of the attempt that is out now; 0 before the first.
    pub count: u32,
    /// Some attempt may stand in the log without our knowing.
    pub unanswered: bool,
    /// Codes of all answers so far, see `Answer::code`.
    pub codes: Vec<u32>,
    /// Names of the refusals among them.
    pub refusals: Vec<String>,
}

impl Attempts {
    pub fn new(policy: RetryPolicy) -> Self {
        let (codes, refusals) = (Vec::new(), Vec::new());
        Self { policy, backoff: Backoff::publish(), count: 0, unanswered: false, codes, refusals }
    }

    /// `elapsed`: monotonic time since the message was first handed in.
    pub fn answer(&mut self, answer: Answer, elapsed: Duration) -> Next {
        self.codes.push(answer.code());
        if let Answer::Refused(error) = &answer {
            self.refusals.push(error.name.clone());
        }
        let (after, refresh) = match &answer {
            Answer::Published(published) => return Next::Done(accepted(published.clone())),
            Answer::Refused(error) => match class_of(error) {
                proto::Class::Rejected => return Next::Done(self.refused(error)),
                proto::Class::Open => (self.wait(error.retry_after_ms), error.code == 401),
                _ => {
                    self.unanswered = true;
                    (self.wait(error.retry_after_ms), false)
                }
            },
            Answer::Timeout | Answer::Closed(_) => {
                self.unanswered = true;
                (Duration::ZERO, false)
            }
            Answer::NotSent(_) => (self.backoff.jittered(), false),
        };
        let late = elapsed + after;
        if self.count >= self.policy.max_attempts
            || late > self.policy.max_elapsed
            || late >= self.policy.max_age
        {
            return Next::Done(self.give_up(&answer));
        }
        Next::Retry { after, refresh }
    }

    /// An open or unknown answer that will not be followed by another attempt.
    pub fn give_up(&self, last: &Answer) -> Outcome {
        if self.unanswered {
            return Outcome::Unknown { code: last.code(), reason: last.reason() };
        }
        match last {
            Answer::Refused(error) => Outcome::Rejected(error.clone()),
            other => Outcome::Rejected(proto::Error {
                code: 502,
                name: "unreachable".into(),
                class: proto::Class::Open.into(),
                temporary: true,
                message: other.reason(),
                ..Default::default()
            }),
        }
    }

    /// A definite refusal says nothing definite while an earlier attempt is without an answer.
    fn refused(&self, error: &proto::Error) -> Outcome {
        if self.unanswered {
            let reason =
                format!("{} {} after an unanswered attempt: {}", error.code, error.name, error.message);
            return Outcome::Unknown { code: error.code, reason };
        }
        Outcome::Rejected(error.clone())
    }

    fn wait(&mut self, retry_after_ms: u32) -> Duration {
        let own = self.backoff.jittered();
        own.max(Duration::from_millis(u64::from(retry_after_ms)))
    }
}

fn accepted(published: proto::Published) -> Outcome {
    match published.outcome() {
        proto::Outcome::Duplicate => Outcome::Duplicate(published),
        _ => Outcome::Accepted(published),
    }
}

/// What `publish` hands back.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub outcome: Outcome,
    pub attempts: u32,
    /// Codes of all answers, the last one included.
    pub codes: Vec<u32>,
    /// Names of the refusals among them: 503 alone says little.
    pub refusals: Vec<String>,
    /// Some attempt went without an answer, whatever the outcome is now.
    pub was_unknown: bool,
}

impl Report {
    pub fn published(&self) -> Option<&proto::Published> {
        match &self.outcome {
            Outcome::Accepted(p) | Outcome::Duplicate(p) => Some(p),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u32) -> Answer {
        Answer::Refused(proto::Error { code, ..Default::default() })
    }

    fn published(outcome: proto::Outcome) -> Answer {
        Answer::Published(proto::Published { seq: 7, outcome: outcome.into(), ..Default::default() })
    }

    fn attempts(max_attempts: u32) -> Attempts {
        let mut attempts = Attempts::new(RetryPolicy { max_attempts, ..Default::default() });
        attempts.count = 1;
        attempts
    }

    // R-ACK-1: the table, line by line.
    #[test]
    fn each_code_has_its_advice() {
        let table = [
            (202, Advice::Done),
            (200, Advice::Done),
            (400, Advice::Report),
            (404, Advice::Report),
            (409, Advice::Report),
            (413, Advice::Report),
            (403, Advice::Report),
            (401, Advice::RefreshAndRetry),
            (429, Advice::RetryAfter),
            (503, Advice::RetryAfter),
            (502, Advice::RetryWithBackoff),
            (504, Advice::RetrySameMid),
            (0, Advice::RetrySameMid),
        ];
        for (code, wanted) in table {
            assert_eq!(advice(code), wanted, "{code}");
        }
    }

    // R-ACK-1
    #[test]
    fn accepted_and_duplicate_end_it() {
        let Next::Done(Outcome::Accepted(p)) =
            attempts(9).answer(published(proto::Outcome::Accepted), Duration::ZERO)
        else {
            panic!("accepted");
        };
        assert_eq!(p.seq, 7);
        let done = attempts(9).answer(published(proto::Outcome::Duplicate), Duration::ZERO);
        assert!(matches!(done, Next::Done(Outcome::Duplicate(_))));
    }

    // R-ACK-1
    #[test]
    fn definite_refusals_are_rejected_at_once() {
        for code in [400, 403, 404, 409, 413] {
            let done = attempts(9).answer(refused(code), Duration::ZERO);
            assert!(matches!(done, Next::Done(Outcome::Rejected(ref e)) if e.code == code), "{code}");
        }
    }

    // R-ACK-1, footnote: a refusal behind an unanswered attempt is unknown, with the code as its reason.
    #[test]
    fn a_refusal_after_an_unanswered_attempt_is_unknown() {
        for silent in [Answer::Timeout, Answer::Closed("reset".into()), refused(504)] {
            let mut attempts = attempts(9);
            assert!(matches!(attempts.answer(silent, Duration::ZERO), Next::Retry { .. }));
            attempts.count = 2;
            let done = attempts.answer(refused(403), Duration::ZERO);
            assert!(matches!(done, Next::Done(Outcome::Unknown { code: 403, .. })), "{done:?}");
        }
    }

    // R-ACK-1: open codes are rejected only when the client gives up and nothing is unanswered.
    #[test]
    fn open_codes_are_retried_and_rejected_when_given_up() {
        for code in [401, 429, 502, 503] {
            let next = attempts(2).answer(refused(code), Duration::ZERO);
            assert!(matches!(next, Next::Retry { refresh, .. } if refresh == (code == 401)), "{code}");
            let done = attempts(1).answer(refused(code), Duration::ZERO);
            assert!(matches!(done, Next::Done(Outcome::Rejected(ref e)) if e.code == code), "{code}");
        }
        let mut attempts = attempts(2);
        attempts.answer(Answer::Timeout, Duration::ZERO);
        attempts.count = 2;
        assert!(matches!(attempts.answer(refused(503), Duration::ZERO), Next::Done(Outcome::Unknown { .. })));
    }

    // R-ACK-1, R-ACK-6
    #[test]
    fn never_sent_is_rejected_and_never_unknown() {
        let done = attempts(1).answer(Answer::NotSent("offline".into()), Duration::ZERO);
        assert!(matches!(done, Next::Done(Outcome::Rejected(ref e)) if e.code == 502));
    }

    // R-GW-4, R-ACK-6
    #[test]
    fn waits_at_least_as_long_as_the_server_asks() {
        let error = proto::Error { code: 503, retry_after_ms: 5000, ..Default::default() };
        let next = attempts(9).answer(Answer::Refused(error), Duration::ZERO);
        assert!(matches!(next, Next::Retry { after, .. } if after >= Duration::from_secs(5)));
    }

    // R-ACK-4
    #[test]
    fn older_than_the_window_is_never_sent_again() {
        let policy = RetryPolicy { max_elapsed: Duration::MAX, ..Default::default() };
        let mut attempts = Attempts::new(policy);
        attempts.count = 1;
        let done = attempts.answer(Answer::Timeout, Duration::from_secs(110 * 60));
        assert!(matches!(done, Next::Done(Outcome::Unknown { .. })));
    }
}
