//! Close codes: 4000–4499 the client should reconnect, 4500–4999 it should not.

use lapwing_gateway_core::wire::Violation;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The client closed; its code is repeated.
    Client(u16),
    /// The socket broke.
    Lost,
    /// A frame that the WebSocket protocol forbids: 1002, 1007 or 1009.
    Frame(Violation),
    GoingAway,
    SlowConsumer,
    HeartbeatLost,
    NotReady,
    SessionReplaced,
    Unauthenticated,
    Protocol(&'static str),
    TenantSuspended,
}

impl Close {
    pub fn code(self) -> u16 {
        match self {
            Close::Client(code) => code,
            Close::Lost => 1006,
            Close::Frame(violation) => violation.code,
            Close::GoingAway => 4000,
            Close::SlowConsumer => 4001,
            Close::HeartbeatLost => 4002,
            Close::NotReady => 4003,
            Close::SessionReplaced => 4500,
            Close::Unauthenticated => 4501,
            Close::Protocol(_) => 4502,
            Close::TenantSuspended => 4503,
        }
    }

    pub fn reason(self) -> &'static str {
        match self {
            Close::Client(_) => "",
            Close::Lost => "lost",
            Close::Frame(violation) => violation.reason,
            Close::GoingAway => "going_away",
            Close::SlowConsumer => "slow_consumer",
            Close::HeartbeatLost => "heartbeat_lost",
            Close::NotReady => "not_ready",
            Close::SessionReplaced => "session_replaced",
            Close::Unauthenticated => "unauthenticated",
            Close::Protocol(what) => what,
            Close::TenantSuspended => "tenant_suspended",
        }
    }

    /// A metric label.
    pub fn label(self) -> &'static str {
        match self {
            Close::Client(_) => "client",
            Close::Frame(_) | Close::Protocol(_) => "protocol_error",
            other => other.reason(),
        }
    }
}
