//! The one table of outcomes and errors (R-ACK-1): code, class, and what the client does. Docs and SDKs are checked against it.

use lapwing_proto::client::{self, Class};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    ClientMidConflict,
    TooLarge,
    RateLimited,
    Unreachable,
    Overloaded,
    NotReady,
    Busy,
    PublishUnknown,
}

pub const CODES: [Code; 12] = [
    Code::Invalid,
    Code::Unauthenticated,
    Code::Forbidden,
    Code::NotFound,
    Code::ClientMidConflict,
    Code::TooLarge,
    Code::RateLimited,
    Code::Unreachable,
    Code::Overloaded,
    Code::NotReady,
    Code::Busy,
    Code::PublishUnknown,
];

/// One line of the table.
pub struct Line {
    pub http: u32,
    pub name: &'static str,
    pub class: Class,
    pub temporary: bool,
    pub client_does: &'static str,
}

impl Code {
    pub fn line(self) -> Line {
        let line =
            |http, name, class, temporary, client_does| Line { http, name, class, temporary, client_does };
        match self {
            Code::Invalid => line(400, "invalid", Class::Rejected, false, "report, no retry"),
            Code::Unauthenticated => {
                line(401, "unauthenticated", Class::Open, false, "refresh the token, retry")
            }
            Code::Forbidden => line(403, "forbidden", Class::Rejected, false, "report, no retry"),
            Code::NotFound => line(404, "not_found", Class::Rejected, false, "report, no retry"),
            Code::ClientMidConflict => {
                line(409, "client_mid_conflict", Class::Rejected, false, "report, no retry")
            }
            Code::TooLarge => line(413, "too_large", Class::Rejected, false, "report, no retry"),
            Code::RateLimited => line(429, "rate_limited", Class::Open, true, "retry after `retry_after_ms`"),
            Code::Unreachable => line(502, "unreachable", Class::Open, true, "retry with backoff"),
            Code::Overloaded => line(503, "overloaded", Class::Open, true, "retry after `retry_after_ms`"),
            Code::NotReady => line(503, "not_ready", Class::Open, true, "retry after `retry_after_ms`"),
            Code::Busy => line(503, "busy", Class::Open, true, "retry after `retry_after_ms`"),
            Code::PublishUnknown => {
                line(504, "publish_unknown", Class::Unknown, true, "retry with the same client_mid")
            }
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        CODES.into_iter().find(|code| code.line().name == name)
    }
}

/// A refusal on its way to the wire: what happened, to which conversation, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.line().name)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub retry_after_ms: u32,
    pub cause: String,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let retry_after_ms = if code.line().temporary { 100 } else { 0 };
        Self { code, message: message.into(), retry_after_ms, cause: String::new() }
    }

    pub fn retry_after(mut self, ms: u32) -> Self {
        self.retry_after_ms = ms;
        self
    }

    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    /// A refusal of a publish that was re-sent after an unanswered attempt says nothing definite any more (R-ACK-1, *).
    pub fn after_unanswered_attempt(self) -> Self {
        match self.code {
            Code::PublishUnknown => self,
            code => Self {
                code: Code::PublishUnknown,
                retry_after_ms: self.retry_after_ms.max(100),
                message: format!("an earlier attempt is unanswered; this one was refused: {}", self.message),
                cause: code.line().name.to_owned(),
            },
        }
    }

    /// `trace_id`: 32 hex digits, on every error (R-GW-9).
    pub fn to_wire(&self, trace_id: &str) -> client::Error {
        let line = self.code.line();
        client::Error {
            code: line.http,
            name: line.name.to_owned(),
            class: line.class.into(),
            temporary: line.temporary,
            retry_after_ms: self.retry_after_ms,
            message: self.message.clone(),
            cause: self.cause.clone(),
            trace_id: trace_id.to_owned(),
        }
    }

    pub fn from_wire(error: &client::Error) -> Self {
        Self {
            code: Code::of_name(&error.name).unwrap_or(Code::PublishUnknown),
            message: error.message.clone(),
            retry_after_ms: error.retry_after_ms,
            cause: error.cause.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-ACK-1, R-ACK-6
    #[test]
    fn the_table_is_the_requirements_table() {
        let lines: Vec<_> = CODES
            .iter()
            .map(|c| (c.line().http, c.line().name, c.line().class, c.line().temporary))
            .collect();
        for (http, class, temporary) in [
            (400, Class::Rejected, false),
            (401, Class::Open, false),
            (403, Class::Rejected, false),
            (404, Class::Rejected, false),
            (409, Class::Rejected, false),
            (413, Class::Rejected, false),
            (429, Class::Open, true),
            (502, Class::Open, true),
            (503, Class::Open, true),
            (504, Class::Unknown, true),
        ] {
            let of_http: Vec<_> = lines.iter().filter(|line| line.0 == http).collect();
            assert!(
                !of_http.is_empty() && of_http.iter().all(|l| (l.2, l.3) == (class, temporary)),
                "{http}"
            );
        }
        for code in CODES {
            assert_eq!(Code::of_name(code.line().name), Some(code));
        }
    }

    #[test]
    fn a_refusal_after_an_unanswered_attempt_is_unknown() {
        let refusal = Refusal::new(Code::Forbidden, "not a member").after_unanswered_attempt();
        assert_eq!((refusal.code, refusal.cause.as_str()), (Code::PublishUnknown, "forbidden"));
    }
}
