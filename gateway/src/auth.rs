//! Clients' tokens: JWT HS256 with fixed issuer and audience (R-AUTH-1), and keys of the server API (R-AUTH-2).

use anyhow::Context as _;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use lapwing_model::{Code, Refusal, ids::check_id};
use lapwing_proto::record::TenantRecord;
use lapwing_runtime::config::BadConfig;
use lapwing_runtime::{Secret, time::now_ms};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

const ISSUER: &str = "lapwing";
const AUDIENCE: &str = "lapwing";
/// Shortest secret that is taken: HS256 wants as many bytes as its hash has.
const MIN_SECRET: usize = 32;
/// Longest life of a token that the server API signs, in seconds.
pub const MAX_TTL_S: u64 = 30 * 24 * 3600;

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    sub: String,
    tenant: String,
    exp: u64,
    iat: u64,
    aud: String,
    iss: String,
    jti: String,
}

/// Whom a token speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub tenant: String,
    pub user: String,
    /// Seconds since 1970.
    pub expires_at: u64,
}

pub struct Auth {
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
}

impl Auth {
    pub fn new(secret: &Secret) -> anyhow::Result<Self> {
        let bytes = secret.expose().as_bytes();
        if bytes.len() < MIN_SECRET {
            let text =
                format!("LAPWING_JWT_SECRET has {} bytes, HS256 needs at least {MIN_SECRET}", bytes.len());
            return Err(BadConfig(text).into());
        }
        // A fixed list: the token's header never chooses the algorithm.
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&[AUDIENCE]);
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = 5;
        Ok(Self {
            encoding: EncodingKey::from_secret(bytes).context("LAPWING_JWT_SECRET")?,
            decoding: DecodingKey::from_secret(bytes).context("LAPWING_JWT_SECRET")?,
            validation,
        })
    }

    pub fn verify(&self, token: &str) -> Result<Identity, Refusal> {
        let bad = |what: String| Refusal::new(Code::Unauthenticated, what);
        let claims = decode::<Claims>(token, &self.decoding, &self.validation)
            .map_err(|error| bad(format!("token is not accepted: {error}")))?
            .claims;
        for (what, id) in [("token's tenant", &claims.tenant), ("token's sub", &claims.sub)] {
            check_id(what, id).map_err(|error| bad(error.to_string()))?;
        }
        Ok(Identity { tenant: claims.tenant, user: claims.sub, expires_at: claims.exp })
    }

    /// A token for a user, and when it expires (seconds since 1970).
    pub fn sign(&self, tenant: &str, user: &str, ttl_s: u64) -> anyhow::Result<(String, u64)> {
        let iat = now_ms() / 1000;
        let exp = iat + ttl_s;
        let claims = Claims {
            sub: user.to_owned(),
            tenant: tenant.to_owned(),
            exp,
            iat,
            aud: AUDIENCE.to_owned(),
            iss: ISSUER.to_owned(),
            jti: random_hex(),
        };
        Ok((encode(&Header::new(Algorithm::HS256), &claims, &self.encoding)?, exp))
    }
}

/// 32 hex digits that nobody can guess.
pub fn random_hex() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// A new key of the server API: the text for its holder, and the hash that is stored.
pub fn new_api_key(tenant: &str) -> (String, Vec<u8>) {
    let secret = format!("{}{}", random_hex(), random_hex());
    (format!("lwk.{tenant}.{secret}"), blake3::hash(secret.as_bytes()).as_bytes().to_vec())
}

/// Splits `lwk.<tenant>.<secret>`; tenants may contain dots, secrets do not.
pub fn parse_api_key(key: &str) -> Option<(&str, &str)> {
    let (tenant, secret) = key.strip_prefix("lwk.")?.rsplit_once('.')?;
    (!secret.is_empty() && check_id("tenant", tenant).is_ok()).then_some((tenant, secret))
}

/// Whether a secret belongs to one of the tenant's keys; every key is compared, each in constant time.
pub fn holds_key(record: &TenantRecord, secret: &str) -> bool {
    let hash = blake3::hash(secret.as_bytes());
    let hits = record.keys.iter().map(|key| key.hash.as_ref().ct_eq(hash.as_bytes().as_slice()));
    bool::from(hits.fold(subtle::Choice::from(0), |any, hit| any | hit))
}

pub fn same_secret(one: &str, other: &str) -> bool {
    let hash = |text: &str| blake3::hash(text.as_bytes());
    bool::from(hash(one).as_bytes().ct_eq(hash(other).as_bytes()))
}

#[cfg(test)]
mod tests {
    use lapwing_proto::record::ApiKey;

    use super::*;

    fn auth(secret: &str) -> Auth {
        Auth::new(&Secret::new(secret.repeat(32))).unwrap()
    }

    // R-AUTH-1
    #[test]
    fn only_tokens_of_our_own_secret_algorithm_issuer_and_time_pass() {
        let auth = auth("a");
        let (token, expires_at) = auth.sign("demo", "alice", 60).unwrap();
        let identity = Identity { tenant: "demo".into(), user: "alice".into(), expires_at };
        assert_eq!(auth.verify(&token).unwrap(), identity);
        let forged = self::auth("b").sign("demo", "alice", 60).unwrap().0;
        let claims = |exp: u64, iss: &str, aud: &str, sub: &str| Claims {
            sub: sub.into(),
            tenant: "demo".into(),
            exp,
            iat: 0,
            aud: aud.into(),
            iss: iss.into(),
            jti: String::new(),
        };
        let sign =
            |algorithm, claims: &Claims| encode(&Header::new(algorithm), claims, &auth.encoding).unwrap();
        for bad in [
            forged,
            sign(Algorithm::HS384, &claims(expires_at, ISSUER, AUDIENCE, "alice")),
            sign(Algorithm::HS256, &claims(1000, ISSUER, AUDIENCE, "alice")),
            sign(Algorithm::HS256, &claims(expires_at, "other", AUDIENCE, "alice")),
            sign(Algorithm::HS256, &claims(expires_at, ISSUER, "other", "alice")),
            sign(Algorithm::HS256, &claims(expires_at, ISSUER, AUDIENCE, "a b")),
            token[..token.len() - 2].to_owned(),
            String::new(),
        ] {
            assert_eq!(auth.verify(&bad).unwrap_err().code, Code::Unauthenticated, "{bad}");
        }
        assert!(Auth::new(&Secret::new("short")).is_err());
    }

    // R-AUTH-2
    #[test]
    fn api_keys_are_stored_hashed_and_tenants_may_have_dots() {
        let (key, hash) = new_api_key("a.b");
        let (tenant, secret) = parse_api_key(&key).unwrap();
        assert_eq!(tenant, "a.b");
        let keys = vec![ApiKey { name: "k".into(), hash: hash.into(), created_at_ms: 0 }];
        let record = TenantRecord { keys, ..Default::default() };
        assert!(holds_key(&record, secret) && !holds_key(&record, "x"));
        assert!(!holds_key(&TenantRecord::default(), secret));
        assert_eq!(parse_api_key("lwk..x"), None);
        assert_eq!(parse_api_key("x"), None);
    }
}
