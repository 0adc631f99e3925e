use bytes::Bytes;
use fastwebsockets::OpCode;
use lapwing_proto::{Message, client as proto};

/// The two subprotocols: the same messages as binary protobuf or as its JSON mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    #[default]
    Proto,
    Json,
}

impl Encoding {
    pub fn subprotocol(self) -> &'static str {
        match self {
            Encoding::Proto => "lapwing.v1.proto",
            Encoding::Json => "lapwing.v1.json",
        }
    }

    pub(crate) fn opcode(self) -> OpCode {
        match self {
            Encoding::Proto => OpCode::Binary,
            Encoding::Json => OpCode::Text,
        }
    }

    pub(crate) fn encode(self, frame: &proto::ClientFrame) -> Result<Vec<u8>, String> {
        match self {
            Encoding::Proto => Ok(frame.encode_to_vec()),
            Encoding::Json => serde_json::to_vec(frame).map_err(|e| e.to_string()),
        }
    }

    pub(crate) fn decode(self, payload: Bytes) -> Result<proto::ServerFrame, String> {
        match self {
            Encoding::Proto => proto::ServerFrame::decode(payload).map_err(|e| e.to_string()),
            Encoding::Json => serde_json::from_slice(&payload).map_err(|e| e.to_string()),
        }
    }
}

impl std::str::FromStr for Encoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "proto" => Ok(Encoding::Proto),
            "json" => Ok(Encoding::Json),
            other => Err(format!("unknown encoding {other:?}: use proto or json")),
        }
    }
}
