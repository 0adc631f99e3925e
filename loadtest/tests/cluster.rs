//! The load test as a program against a real cluster of two of each service: verdicts, exit codes, report, a kill.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use lapwing_servers::{Cluster, Options};
use serde_json::Value;

struct Bench {
    _cluster: Cluster,
    state: PathBuf,
    out: PathBuf,
}

impl Bench {
    async fn start() -> Bench {
        let options = Options { profile: "bench".to_owned(), ..Options::default() };
        let cluster = Cluster::start(options).await.unwrap();
        let folder = cluster.infra().folder().to_path_buf();
        let state = folder.join("state.json");
        cluster.state().save(&state).unwrap();
        Bench { _cluster: cluster, state, out: folder.join("report") }
    }

    /// Exit code, last line, report.
    fn run(&self, words: &[&str]) -> (i32, String, Value) {
        let output: Output = Command::new(env!("CARGO_BIN_EXE_lapwing-loadtest"))
            .args(words)
            .arg("--out")
            .arg(&self.out)
            .env("LAPWING_STATE", &self.state)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{words:?}\n{text}{}", String::from_utf8_lossy(&output.stderr));
        let report = std::fs::read(self.out.join("report.json")).unwrap_or_default();
        let last = text.lines().last().unwrap_or_default().to_owned();
        (output.status.code().unwrap_or(-1), last, serde_json::from_slice(&report).unwrap_or_default())
    }
}

fn transcript(folder: &Path) -> PathBuf {
    let path = folder.join("talk.tsv");
    let text = "# conversation\tsecond\tsender\ttext\n\
        c1\t10\tann\thello\nc1\t12\tbob\thö, \"x\" <b>\nc1\t11\tann\tthe second ran backwards\n\
        c2\t1\tcid\t 鳥 \nc2\t2\tann\tbye\n";
    std::fs::write(&path, text).unwrap();
    path
}

// R-LT-6, R-LT-7, R-LT-8, R-ACK-2, #4
#[tokio::test(flavor = "multi_thread")]
async fn runs_are_judged_and_a_kill_costs_no_message() {
    let bench = Bench::start().await;

    let (code, last, report) =
        bench.run(&["p2p", "--pairs", "10", "--messages", "5", "--rate", "10", "--ramp", "1"]);
    assert_eq!((code, report["verdict"].as_str()), (0, Some("pass")));
    assert!(last.starts_with("verdict: pass p2p ramp · 120 of 120 accepted · 240 deliveries"), "{last}");
    assert_eq!(report["figures"]["rows"]["messages"], 120);
    let html = std::fs::read_to_string(bench.out.join("report.html")).unwrap();
    assert!(html.matches("<svg").count() >= 6 && !html.contains("http://") && !html.contains("<script"));

    let group =
        ["group", "--members", "30", "--senders", "5", "--messages", "5", "--mode", "burst", "--rate", "5"];
    let (code, last, _) = bench.run(&[&group[..], &["--encoding", "json"]].concat());
    assert_eq!(code, 0, "{last}");
    assert!(last.contains("30 of 30 accepted · 900 deliveries"), "{last}");

    let talk = transcript(bench.state.parent().unwrap());
    let (code, last, report) = bench.run(&["replay", talk.to_str().unwrap()]);
    assert_eq!(code, 0, "{last}");
    assert_eq!(
        (&report["figures"]["transcript"]["whole"], &report["figures"]["delivered"]),
        (&true.into(), &10.into())
    );

    let kill =
        ["p2p", "--pairs", "60", "--messages", "20", "--rate", "5", "--mode", "burst", "--kill", "router"];
    let (code, last, report) = bench.run(&kill);
    assert_eq!(code, 0, "{last}");
    assert!(report["figures"]["killed"]["in_flight"].as_u64().unwrap() >= 20);

    // A check that cannot be made is no pass.
    let blind = [
        "p2p",
        "--pairs",
        "2",
        "--messages",
        "2",
        "--ramp",
        "0.1",
        "--mysql-url",
        "mysql://no:no@127.0.0.1:1/no",
    ];
    let (code, last, _) = bench.run(&blind);
    assert_eq!(code, 1);
    assert!(last.starts_with("verdict: fail") && last.contains("MySQL, row by row"), "{last}");
}
