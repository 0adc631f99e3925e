//! Many runs on all cores: each thread takes the next seed, the first violation ends the search.

use std::{
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    faults::Break,
    world::{Counts, World},
};

pub(crate) struct Search {
    pub(crate) first: u64,
    pub(crate) runs: u64,
    pub(crate) until: Option<Instant>,
    pub(crate) jobs: usize,
    pub(crate) broken: Option<Break>,
    /// Tells every few seconds how far it is.
    pub(crate) progress: bool,
}

#[derive(Default)]
pub(crate) struct Found {
    pub(crate) runs: u64,
    pub(crate) counts: Counts,
    /// The lowest seed that failed, and what was wrong.
    pub(crate) wrong: Option<(u64, Vec<String>)>,
}

impl Search {
    pub(crate) fn new(first: u64, runs: u64) -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self { first, runs, until: None, jobs, broken: None, progress: false }
    }

    pub(crate) fn run(&self) -> Found {
        let (next, done) = (AtomicU64::new(0), AtomicBool::new(false));
        let found = Mutex::new(Found::default());
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..self.jobs).map(|_| scope.spawn(|| self.work(&next, &done, &found))).collect();
            let mut told = Instant::now();
            while !workers.iter().all(|worker| worker.is_finished()) {
                std::thread::sleep(Duration::from_millis(50));
                if self.progress && told.elapsed() > Duration::from_secs(5) {
                    told = Instant::now();
                    tell(&found.lock().unwrap(), begin.elapsed());
                }
            }
        });
        let found = found.into_inner().unwrap();
        if self.progress {
            tell(&found, begin.elapsed());
            println!("{:#?}", found.counts.0);
        }
        found
    }

    fn work(&self, next: &AtomicU64, done: &AtomicBool, found: &Mutex<Found>) {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let late = self.until.is_some_and(|until| Instant::now() >= until);
            if number >= self.runs || late || done.load(Ordering::Relaxed) {
                return;
            }
            let seed = self.first.wrapping_add(number);
            let mut world = World::new(seed, self.broken);
            // A panic of the owner is a violation like any other, and its seed has to be told, too.
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
            let wrong = run.unwrap_or_else(|panic| vec![format!("panicked: {}", text_of(&*panic))]);
            let mut found = found.lock().unwrap();
            found.runs += 1;
            found.counts.take_in(&world.counts);
            if !wrong.is_empty() {
                done.store(true, Ordering::Relaxed);
                if found.wrong.as_ref().is_none_or(|(of, _)| *of > seed) {
                    found.wrong = Some((seed, wrong));
                }
            }
        }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let owned = panic.downcast_ref::<String>().cloned();
    owned.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

fn tell(found: &Found, since: Duration) {
    let count = |what| found.counts.0.get(what).copied().unwrap_or_default();
    println!(
        "{:6.0} s  {} runs ({:.0}/s)  accepted {}  refused {}  claims adopted {}  deposed {}  replays {}  crashes {}  pauses {}",
        since.as_secs_f64(),
        found.runs,
        found.runs as f64 / since.as_secs_f64().max(0.001),
        count("an event accepted"),
        count("refused"),
        count("a claim adopted"),
        count("deposed"),
        count("a replay"),
        count("a crash"),
        count("a pause"),
    );
}

impl Counts {
    pub(crate) fn take_in(&mut self, other: &Counts) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(crate) fn missing(&self, wanted: &[&'static str], least: u64) -> Vec<&'static str> {
        let seldom = |what: &&&str| self.0.get(**what).is_none_or(|count| *count < least);
        wanted.iter().filter(seldom).copied().collect()
    }
}

/// One seed a line, behind it why it is kept.
fn seeds_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sim/seeds")
}

pub(crate) fn kept_seeds() -> Vec<u64> {
    let text = std::fs::read_to_string(seeds_file()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

pub(crate) fn keep_seed(seed: u64, wrong: &[String]) {
    if kept_seeds().contains(&seed) {
        return;
    }
    let mut text = std::fs::read_to_string(seeds_file()).unwrap();
    let why: String = wrong.first().map(|first| first.chars().take(120).collect()).unwrap_or_default();
    text.push_str(&format!("{seed} {}\n", why.replace('\n', " ")));
    std::fs::write(seeds_file(), text).unwrap();
}
