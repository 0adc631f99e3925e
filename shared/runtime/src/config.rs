//! One file of keys per service. A service's `config.rs` is a clap struct with `env` on each field and [`Common`] flattened;
//! [`load`] adds `KEY_FILE` for every `KEY`, and `--print-config`.
//!
//! Order of precedence: command line, `KEY`, contents of the file named by `KEY_FILE`, default.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::fail_point::FailPoint;

/// A value that is never shown: Debug, Display and Serialize say `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// An address that may hold a password; it is shown as `scheme://user:***@host`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The full address, password included.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Several: `one=redis://… two=redis://…`; or one address, whose instance gets the name.
    pub fn named(&self, one: &str) -> Vec<(String, Self)> {
        let split = |text: &str| match text.split_once('=') {
            Some((name, url)) if !name.contains("://") => (name.to_owned(), Self::new(url)),
            _ => (one.to_owned(), Self::new(text)),
        };
        self.0.split_whitespace().map(split).collect()
    }

    /// The address without user and password, and these two decoded: for clients that log or ignore what stands in the address.
    pub fn split(&self) -> (String, Option<(String, Secret)>) {
        let Some((scheme, rest)) = self.0.split_once("://") else { return (self.0.clone(), None) };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, after) = rest.split_at(end);
        let Some((user_info, host)) = authority.rsplit_once('@') else { return (self.0.clone(), None) };
        let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
        (format!("{scheme}://{host}{after}"), Some((percent_decode(user), Secret(percent_decode(password)))))
    }
}

pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(hex.unwrap_or(bytes[at]));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

macro_rules! redacted {
    ($type:ty, $shown:expr) => {
        impl std::str::FromStr for $type {
            type Err = std::convert::Infallible;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(Self::new(text.trim_end_matches(['\r', '\n'])))
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let shown: fn(&str) -> String = $shown;
                f.write_str(&shown(&self.0))
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}
redacted!(Secret, |_| "***".to_owned());
redacted!(SecretUrl, redact_urls);

/// Replaces the user part of every `scheme://user:password@host` in a text by `user:***` (or `***` for a bare token).
pub fn redact_urls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        shown.push_str(head);
        let authority_end = tail.find(['/', '?', ' ', ',']).unwrap_or(tail.len());
        let (authority, after) = tail.split_at(authority_end);
        match authority.rsplit_once('@') {
            Some((user_info, host)) => {
                let user = user_info.split_once(':').map_or("", |(user, _)| user);
                let colon = if user_info.contains(':') { ":" } else { "" };
                shown.push_str(&format!("{user}{colon}***@{host}"));
            }
            None => shown.push_str(authority),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// Which set of limits a run goes by; every benchmark prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    Default,
    /// Raised rate and connection limits, the persister's pace limiter off: for the gates' ladder only.
    Bench,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Human,
    Json,
}

/// The client libraries tell on `info` of each connection, and on `error` what our own lines tell with a cause.
const DEFAULT_LOG_FILTER: &str =
    "info,rskafka=off,async_nats=warn,librdkafka=warn,opentelemetry=warn,h2=warn";

/// The keys that every service has. Flatten it: `#[command(flatten)] pub common: Common`.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// This process's own name among its kind; becomes part of NATS subjects
    #[arg(long, env = "LAPWING_NODE", value_parser = node_name)]
    pub node: String,

    /// Address of health, metrics and admin API
    #[arg(long, env = "LAPWING_ADMIN_ADDR", default_value = "127.0.0.1:0")]
    pub admin_addr: SocketAddr,

    /// NATS, with user and password: nats://user:password@host:port
    #[arg(long, env = "LAPWING_NATS_URL", default_value = "nats://127.0.0.1:4222", hide_env_values = true)]
    pub nats_url: SecretUrl,

    /// Log lines for people or for machines
    #[arg(long = "log", env = "LAPWING_LOG", value_enum, default_value = "human")]
    pub log: LogFormat,

    /// Which log lines: a tracing filter such as `info,lapwing_router=debug`
    #[arg(long, env = "LAPWING_LOG_FILTER", default_value = DEFAULT_LOG_FILTER)]
    pub log_filter: String,

    /// Limits: default, or bench for benchmarks and ladders
    #[arg(long, env = "LAPWING_PROFILE", value_enum, default_value = "default")]
    pub profile: Profile,

    /// Key for the admin API (give LAPWING_OPERATOR_KEY_FILE rather than the key itself); without it the API refuses
    #[arg(long, env = "LAPWING_OPERATOR_KEY", hide_env_values = true)]
    pub operator_key: Option<Secret>,

    /// Where spans go by OTLP/gRPC, e.g. http://127.0.0.1:4317; off when empty
    #[arg(long, env = "LAPWING_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// Share of new traces that are exported when OTLP is on, 0 to 1
    #[arg(long, env = "LAPWING_OTLP_RATIO", default_value_t = 1.0)]
    pub otlp_ratio: f64,

    /// Milliseconds that work in flight gets at a graceful stop
    #[arg(long, env = "LAPWING_DRAIN_GRACE_MS", default_value_t = 10_000)]
    pub drain_grace_ms: u64,

    /// For tests only: end as by kill -9 at the count-th passage of this place (name:count; the names are in `fail_point.rs`)
    #[arg(long, env = "LAPWING_FAIL_POINT")]
    pub fail_point: Option<FailPoint>,

    /// Print all keys with their values and where each is from, secrets hidden, and end
    #[arg(long, default_value_t = false)]
    pub print_config: bool,
}

impl Common {
    pub fn drain_grace(&self) -> Duration {
        Duration::from_millis(self.drain_grace_ms)
    }

    /// For tests: a node name and defaults for the rest.
    pub fn for_node(node: &str) -> Self {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            common: Common,
        }
        Only::parse_from(["test", "--node", node]).common
    }
}

/// `[A-Za-z0-9_-]{1,32}`: anything else could split or widen a NATS subject (I8).
pub fn node_name(text: &str) -> Result<String, String> {
    let fits = (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(text.to_owned()) } else { Err("must be 1 to 32 of A-Z a-z 0-9 _ -".to_owned()) }
}

/// Reads the configuration of this process. Ends the process with a clear word on a bad key (code 2), and after
/// `--print-config` (code 0).
pub fn load<C: Parser>() -> C {
    let read = |key: &str| std::env::var(key).ok();
    match load_from::<C>(std::env::args_os().collect(), &read) {
        Ok(Loaded::Run(config)) => *config,
        Ok(Loaded::Print(text)) => {
            use std::io::Write;
            let _ = std::io::stdout().write_all(text.as_bytes());
            std::process::exit(0)
        }
        Err(error) => error.exit(),
    }
}

/// Keys that do not go together, found by the service that knows what they mean. The process ends with code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadConfig(pub String);

pub enum Loaded<C> {
    Run(Box<C>),
    Print(String),
}

/// [`load`] without the process: arguments and a reader of environment keys come in, nothing exits. `env` only answers for the
/// `KEY_FILE` names; clap reads `KEY` from the real environment.
pub fn load_from<C: CommandFactory + FromArgMatches>(
    args: Vec<OsString>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded<C>, clap::Error> {
    let (mut command, from_file) = with_files(C::command(), env)?;
    if args.iter().any(|arg| arg == "--print-config") {
        // What is missing is shown as unset: this is how one learns which keys there are.
        command = command.mut_args(|arg| arg.required(false));
    }
    let mut shown = command.clone();
    let mut matches = command.try_get_matches_from(args)?;
    let print = matches.try_get_one::<bool>("print_config").ok().flatten().copied().unwrap_or(false);
    if print {
        shown.build();
        return Ok(Loaded::Print(print_config(&shown, &matches, &from_file)));
    }
    C::from_arg_matches_mut(&mut matches).map(|config| Loaded::Run(Box::new(config)))
}

/// Gives each key whose `KEY_FILE` is set the file's contents as its default: below the command line and `KEY` itself.
fn with_files(
    mut command: Command,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(Command, Vec<clap::Id>), clap::Error> {
    let keys: Vec<(clap::Id, String)> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_id().clone(), arg.get_env()?.to_str()?.to_owned())))
        .collect();
    let mut from_file = Vec::new();
    for (id, key) in keys {
        let file_key = format!("{key}_FILE");
        let Some(path) = env(&file_key).filter(|path| !path.is_empty()) else { continue };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            command.error(clap::error::ErrorKind::Io, format!("{file_key}: cannot read {path}: {error}"))
        })?;
        // clap keeps defaults for the life of the process, which is exactly how long a configuration lives.
        let value: &'static str = Box::leak(text.trim().to_owned().into_boxed_str());
        command = command.mut_arg(&id, |arg| arg.required(false).default_value(value));
        from_file.push(id);
    }
    Ok((command, from_file))
}

fn print_config(command: &Command, matches: &ArgMatches, from_file: &[clap::Id]) -> String {
    let mut lines = String::new();
    for arg in command.get_arguments() {
        let Some(key) = arg.get_env().and_then(|key| key.to_str()) else { continue };
        let source = match matches.value_source(arg.get_id().as_str()) {
            Some(ValueSource::CommandLine) => "command line",
            Some(ValueSource::EnvVariable) => "environment",
            Some(_) if from_file.contains(arg.get_id()) => "file",
            Some(_) => "default",
            None => "unset",
        };
        let help = arg.get_help().map(|help| format!(": {help}")).unwrap_or_default();
        lines.push_str(&format!("{key}={}  # {source}{help}\n", shown_value(arg, matches)));
    }
    lines
}

fn shown_value(arg: &Arg, matches: &ArgMatches) -> String {
    let raw = match matches.try_get_raw(arg.get_id().as_str()) {
        Ok(Some(values)) => values,
        _ => return String::new(),
    };
    let text = raw.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
    // A key that hides its value in --help and is not an address is a secret as a whole.
    let url = arg.get_value_parser().type_id() == std::any::TypeId::of::<SecretUrl>();
    let secret = arg.get_value_parser().type_id() == std::any::TypeId::of::<Secret>()
        || (arg.is_hide_env_values_set() && !url);
    if secret { "***".to_owned() } else { redact_urls(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser, Debug)]
    struct Config {
        #[command(flatten)]
        common: Common,
        /// Redis instances
        #[arg(
            long,
            env = "LAPWING_TEST_REDIS",
            value_delimiter = ',',
            default_value = "redis://:pw@h1:1,redis://h2:2"
        )]
        redis: Vec<SecretUrl>,
        /// A required secret
        #[arg(long, env = "LAPWING_TEST_JWT")]
        jwt: Secret,
    }

    fn args(list: &[&str]) -> Vec<OsString> {
        std::iter::once("service").chain(list.iter().copied()).map(OsString::from).collect()
    }

    fn run(list: &[&str], env: &dyn Fn(&str) -> Option<String>) -> Result<Config, clap::Error> {
        match load_from::<Config>(args(list), env)? {
            Loaded::Run(config) => Ok(*config),
            Loaded::Print(text) => panic!("printed {text}"),
        }
    }

    // R-AUTH-2
    #[test]
    fn a_secret_comes_from_a_file_and_is_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let env = move |key: &str| (key == "LAPWING_TEST_JWT_FILE").then(|| path.clone());
        let config = run(&["--node", "g1"], &env).unwrap();
        assert_eq!(config.jwt.expose(), "hunter2");
        assert_eq!(serde_json::to_string(&config.jwt).unwrap(), "\"***\"");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(!format!("{config:?}").contains("pw"));
        assert_eq!(config.redis[0].expose(), "redis://:pw@h1:1");
        // the command line wins over the file
        assert_eq!(run(&["--node", "g1", "--jwt", "other"], &env).unwrap().jwt.expose(), "other");
    }

    #[test]
    fn print_config_names_each_key_with_its_source_and_no_secret() {
        let printed = load_from::<Config>(
            args(&[
                "--node",
                "g1",
                "--jwt",
                "hunter2",
                "--print-config",
                "--nats-url",
                "nats://lw:sesame@h:1",
            ]),
            &|_| None,
        )
        .unwrap();
        let Loaded::Print(text) = printed else { panic!("did not print") };
        for line in [
            "LAPWING_NODE=g1  # command line",
            "LAPWING_TEST_JWT=***  # command line",
            "LAPWING_NATS_URL=nats://lw:***@h:1  # command line",
            "LAPWING_TEST_REDIS=redis://:***@h1:1,redis://h2:2  # default: Redis instances",
            "LAPWING_PROFILE=default  # default",
            "LAPWING_OPERATOR_KEY=  # unset",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
        assert!(!text.contains("hunter2") && !text.contains("sesame"));
        let Ok(Loaded::Print(text)) = load_from::<Config>(args(&["--print-config"]), &|_| None) else {
            panic!("wants the required keys before it says which they are");
        };
        assert!(text.contains("LAPWING_NODE=  # unset: This process's own name"), "{text}");
    }

    // I8
    #[test]
    fn a_node_name_cannot_split_a_subject() {
        for bad in ["", "a.b", "a*", "a>", "a b", "ä", &"x".repeat(33)] {
            assert!(node_name(bad).is_err(), "{bad} passed");
        }
        assert_eq!(node_name("gateway-1_b").unwrap(), "gateway-1_b");
        let error = run(&["--node", "a.b", "--jwt", "x"], &|_| None).unwrap_err().to_string();
        assert!(error.contains("must be 1 to 32"), "{error}");
    }

    #[test]
    fn a_secret_file_that_is_missing_is_named() {
        let env = |key: &str| (key == "LAPWING_TEST_JWT_FILE").then(|| "does/not/exist".to_owned());
        let error = run(&["--node", "g1"], &env).unwrap_err().to_string();
        assert!(error.contains("LAPWING_TEST_JWT_FILE: cannot read does/not/exist"), "{error}");
    }

    #[test]
    fn urls_are_redacted_wherever_they_stand() {
        assert_eq!(redact_urls("nats://token@h:1"), "nats://***@h:1");
        assert_eq!(
            redact_urls("to mysql://u:p@ss@h/db?x=1 and redis://h"),
            "to mysql://u:***@h/db?x=1 and redis://h"
        );
        assert_eq!(redact_urls("127.0.0.1:9092"), "127.0.0.1:9092");
    }

    #[test]
    fn an_address_is_split_from_its_credentials() {
        let (address, credentials) = SecretUrl::new("nats://lap%20wing:p%40ss%zz@h:1/x").split();
        let (user, password) = credentials.unwrap();
        assert_eq!(
            (address.as_str(), user.as_str(), password.expose()),
            ("nats://h:1/x", "lap wing", "p@ss%zz")
        );
        assert_eq!(SecretUrl::new("nats://h:1").split(), ("nats://h:1".to_owned(), None));
    }
}
