//! Finds the servers' programs, and gets those that are missing. What is there is used as it is, so no root is needed
//! on a machine that has them.

mod apt;
mod templates;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

pub use apt::{apt_install, clear_leftovers, distribution_services, policy_left_behind};

use crate::paths;

const KAFKA_VERSION: &str = "4.3.0";
const NATS_MODULE: &str = "github.com/nats-io/nats-server/v2@v2.15.3";

/// The programs and the prepared data folders.
#[derive(Clone, Debug)]
pub struct Tools {
    pub nats_server: PathBuf,
    pub redis_server: PathBuf,
    pub mariadbd: PathBuf,
    pub mariadb_install_db: PathBuf,
    pub mariadb_template: PathBuf,
    pub java: PathBuf,
    pub kafka_lib: PathBuf,
    pub kafka_template: PathBuf,
}

/// All tools, installed if need be. Slow only the first time; parallel test processes wait for each other.
pub async fn ensure() -> Result<Tools> {
    tokio::task::spawn_blocking(ensure_blocking).await.context("the installing task died")?
}

fn ensure_blocking() -> Result<Tools> {
    let folder = paths::tools_dir();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join("install.lock"))?;
    lock.lock().context("cannot lock the tools folder")?;
    apt::clear_leftovers()?;
    install_packages()?;
    let java =
        need("java", "install a Java 17 runtime, for instance `apt-get install openjdk-17-jre-headless`")?;
    let mut tools = Tools {
        nats_server: need("nats-server", "install nats-server, or Go (then it is built)")?,
        redis_server: need("redis-server", "install Redis 7: `apt-get install redis-server`")?,
        mariadbd: need("mariadbd", "install MariaDB: `apt-get install mariadb-server`")?,
        mariadb_install_db: need("mariadb-install-db", "install MariaDB: `apt-get install mariadb-server`")?,
        mariadb_template: PathBuf::new(),
        java,
        kafka_lib: kafka_jars(&folder)?,
        kafka_template: PathBuf::new(),
    };
    tools.kafka_template = templates::kafka(&tools, &folder.join(format!("kafka-{KAFKA_VERSION}-data")))?;
    tools.mariadb_template = templates::mariadb(&tools, &folder.join("mariadb-data"))?;
    Ok(tools)
}

fn install_packages() -> Result<()> {
    let mut missing = Vec::new();
    // The "core" packages hold MariaDB's programs without its service; the client brings my_print_defaults.
    for (program, package) in [
        ("nats-server", "nats-server"),
        ("redis-server", "redis-server"),
        ("mariadbd", "mariadb-server-core"),
        ("my_print_defaults", "mariadb-client-core"),
    ] {
        if find(program).is_none() {
            missing.push(package);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    if apt::usable() {
        return apt_install(&missing);
    }
    if missing.contains(&"nats-server") {
        build_nats()?;
        missing.retain(|package| *package != "nats-server");
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "missing and not installable by this user: {}. As root: `apt-get install {}`",
        missing.join(", "),
        missing.join(" ")
    )
}

fn build_nats() -> Result<()> {
    let go = find("go").context("nats-server is missing: install it, or Go (then it is built)")?;
    let bin = paths::tools_dir().join("bin");
    std::fs::create_dir_all(&bin)?;
    run("building nats-server with Go", Command::new(go).args(["install", NATS_MODULE]).env("GOBIN", bin))
}

fn kafka_jars(folder: &Path) -> Result<PathBuf> {
    let lib = folder.join(format!("kafka-{KAFKA_VERSION}-lib"));
    if lib.is_dir() {
        return Ok(lib);
    }
    let mvn = find("mvn").context("Kafka's jars are fetched with Maven: `apt-get install maven`")?;
    let work = tempfile::tempdir_in(folder)?;
    let pom = work.path().join("pom.xml");
    std::fs::write(&pom, include_str!("../kafka/pom.xml"))?;
    let jars = work.path().join("lib");
    let mut command = Command::new(mvn);
    command
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-Dkafka.version={KAFKA_VERSION}"))
        .arg(format!("-DoutputDirectory={}", jars.display()));
    run("fetching Kafka's jars with Maven", &mut command)?;
    std::fs::rename(&jars, &lib).context("Maven laid no jars")?;
    Ok(lib)
}

/// The arguments of `java` that run one of Kafka's classes.
pub(crate) fn kafka_command(tools: &Tools, class: &str, arguments: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = [
        "-Xms64m",
        "-Xmx512m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true",
        "-Dlog4j2.level=WARN",
        "-cp",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push(format!("{}/*", tools.kafka_lib.display()));
    all.push(class.to_owned());
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    all
}

fn need(program: &str, advice: &str) -> Result<PathBuf> {
    find(program).with_context(|| format!("{program} is missing: {advice}"))
}

/// Looks in `PATH`, in the system folders that an ordinary user's `PATH` lacks, and among the built tools.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(
            ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/go/bin"]
                .map(PathBuf::from),
        )
        .chain([paths::tools_dir().join("bin")])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Runs a step that takes a while: says so, and shows its output only when it fails.
pub fn run(what: &str, command: &mut Command) -> Result<()> {
    let begin = Instant::now();
    eprintln!("  {what} …");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{what}: cannot run it"))?;
    if !output.status.success() {
        bail!(
            "{what} failed ({}):\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    eprintln!("  {what}: {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}
