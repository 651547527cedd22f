//! Sequences with real masters and agents: each key's numbers strictly grow for every client, whoever asks whom, over kills, agents that
//! stand still past their lease, and masters that are away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tests::client::Client;
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::variables;
use tokio::task::JoinSet;

const AGENTS: usize = 3;
/// The time that an allocator serves after it has asked for its sections, in seconds.
const LEASE: u64 = 2;
/// Keys that are used, spread over sections of 1,000 keys.
const KEYS: usize = 60;
const CLIENTS: usize = 2;
const PAUSE: Duration = Duration::from_millis(10);

async fn started(agents: usize, definition: &str) -> Cluster {
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        master.daemon.set("--sequence-lease", &LEASE.to_string());
        master.daemon.start().unwrap();
    }
    for _ in 0..agents {
        let nth = cluster.add_agent(&[]).unwrap();
        cluster.agents[nth].daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let done =
        || async { [200, 201].contains(&cluster.put(0, "inbox", definition).await.unwrap().status).then_some(()) };
    until("the name is registered", done).await.unwrap();
    cluster
}

/// Numbers that came for each key: all of them, and the greatest that any client has received.
struct Seen {
    greatest: Vec<AtomicU64>,
    all: Vec<Mutex<Vec<u64>>>,
    disorder: AtomicU64,
    total: AtomicU64,
}

impl Seen {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            greatest: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            all: (0..KEYS).map(|_| Mutex::default()).collect(),
            disorder: AtomicU64::new(0),
            total: AtomicU64::new(0),
        })
    }

    /// An answer to a question that was asked when `before` was the greatest known.
    fn take(&self, key: usize, before: u64, numbers: &[u64]) {
        if numbers.first().is_some_and(|first| *first <= before) || !numbers.is_sorted_by(|a, b| a < b) {
            println!("key {key}: {numbers:?} after {before}");
            self.disorder.fetch_add(1, SeqCst);
        }
        self.greatest[key].fetch_max(numbers.last().copied().unwrap_or(0), SeqCst);
        self.all[key].lock().unwrap().extend(numbers);
        self.total.fetch_add(numbers.len() as u64, SeqCst);
    }

    fn duplicates(&self) -> usize {
        let twice = |numbers: &Mutex<Vec<u64>>| {
            let mut numbers = numbers.lock().unwrap().clone();
            numbers.sort_unstable();
            numbers.windows(2).filter(|pair| pair[0] == pair[1]).count()
        };
        self.all.iter().map(twice).sum()
    }
}

/// A key of each kind: numbers in several sections, and texts.
fn key(nth: usize) -> String {
    if nth.is_multiple_of(3) { format!("user-{nth}") } else { (nth * 617).to_string() }
}

struct Load {
    stop: Arc<AtomicBool>,
    troubles: Arc<Mutex<BTreeMap<String, u64>>>,
    tasks: JoinSet<()>,
}

impl Load {
    fn start(client: &Client, agents: &[SocketAddr], seen: &Arc<Seen>, seed: u64) -> Self {
        let mut load = Self { stop: Arc::default(), troubles: Arc::default(), tasks: JoinSet::new() };
        for nth in 0..agents.len() * CLIENTS {
            let (client, agents, seen) = (client.clone(), agents.to_vec(), Arc::clone(seen));
            let (stop, troubles) = (Arc::clone(&load.stop), Arc::clone(&load.troubles));
            let mut random = SmallRng::seed_from_u64(seed + nth as u64);
            load.tasks.spawn(async move {
                while !stop.load(SeqCst) {
                    let nth = random.random_range(0..KEYS);
                    let n = [1, 1, 1, 5][random.random_range(0..4usize)];
                    let agent = agents[random.random_range(0..agents.len())];
                    let before = seen.greatest[nth].load(SeqCst);
                    let url = format!("http://{agent}/sequence/inbox/{}?n={n}", key(nth));
                    let trouble = match client.get(&url).await {
                        Ok(answer) if answer.status == 200 => {
                            let numbers: Vec<u64> =
                                answer.text().lines().map(|line| line.parse().expect("a number")).collect();
                            assert_eq!(numbers.len(), n, "{}", answer.text());
                            seen.take(nth, before, &numbers);
                            continue;
                        }
                        Ok(answer) => answer.code(),
                        Err(_) => "no answer".to_owned(),
                    };
                    *troubles.lock().unwrap().entry(trouble).or_default() += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        load
    }

    async fn stop(mut self) -> BTreeMap<String, u64> {
        self.stop.store(true, SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.troubles.lock().unwrap().clone()
    }
}

async fn more(seen: &Seen, more: u64) {
    let goal = seen.total.load(SeqCst) + more;
    let (mut last, mut since) = (0, Instant::now());
    while seen.total.load(SeqCst) < goal {
        if seen.total.load(SeqCst) > last {
            (last, since) = (seen.total.load(SeqCst), Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "no number came for {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until every key gave a number after now.
async fn all_keys_served(cluster: &Cluster, seen: &Seen) -> Duration {
    let began = Instant::now();
    for nth in 0..KEYS {
        let before = seen.greatest[nth].load(SeqCst);
        let served = || async { (seen.greatest[nth].load(SeqCst) > before).then_some(()) };
        until(&format!("key {} is served; agents: {}", key(nth), cluster.agents.len()), served).await.unwrap();
    }
    began.elapsed()
}

fn addresses(cluster: &Cluster) -> Vec<SocketAddr> {
    cluster.agents.iter().map(|agent| agent.daemon.http).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_grow_for_everybody_while_processes_are_killed_and_stand_still() {
    let seed = variables::seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cluster =
        started(AGENTS, r#"{"kind":"sequence","keys_per_section":1000,"step":100,"solo_allowance":1000000}"#).await;
    let client = cluster.client.clone();
    let seen = Seen::new();
    let load = Load::start(&client, &addresses(&cluster), &seen, seed);
    all_keys_served(&cluster, &seen).await;
    for round in 0..variables::number_or("UNIQ_SEQUENCE_ROUNDS", 1) {
        let mut victims: Vec<usize> = (0..AGENTS + 2).collect();
        victims.shuffle(&mut random);
        for victim in victims {
            more(&seen, 500).await;
            let daemon = match victim.checked_sub(2) {
                None => &mut cluster.masters[victim].daemon,
                Some(agent) => &mut cluster.agents[agent].daemon,
            };
            let stands_still = victim >= 2 && random.random_bool(0.5);
            if stands_still {
                // Past its lease, with calls in its sockets; then it goes on.
                let pid = rustix::process::Pid::from_raw(daemon.pid().unwrap().cast_signed()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
                tokio::time::sleep(Duration::from_millis(LEASE * 1_000 * 3)).await;
                rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
            } else {
                daemon.kill_9();
                daemon.start().unwrap();
            }
            until_status(&client, daemon, "/readyz", 200).await.unwrap();
            let took = all_keys_served(&cluster, &seen).await;
            let who = if victim < 2 { "master" } else { "agent" };
            let what = if stands_still { "stood still" } else { "was killed" };
            println!("round {round}: {who} {victim} {what}; every key served again after {took:?}");
        }
    }
    let troubles = load.stop().await;
    let (total, duplicates, disorder) = (seen.total.load(SeqCst), seen.duplicates(), seen.disorder.load(SeqCst));
    println!("numbers={total} duplicates={duplicates} disorder={disorder}; meanwhile clients met {troubles:?}");
    assert_eq!((duplicates, disorder), (0, 0));
}

/// The first number of each key is the one of the definition, whoever serves it, and after a kill its numbers go on above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_begin_at_the_first_number_of_the_definition() {
    const FIRST: u64 = 5_000_000_001;
    let definition = r#"{"kind":"sequence","first":"5000000001","keys_per_section":1000,"step":100}"#;
    let mut cluster = started(2, definition).await;
    cluster.all_give("sequence/inbox/999").await.unwrap();
    let number = async |cluster: &Cluster, agent: usize, key: u64| -> u64 {
        let given = || async {
            let answer = cluster.ask_agent(agent, &format!("sequence/inbox/{key}")).await.ok()?;
            answer.text().trim().parse().ok()
        };
        until("the key is given a number", given).await.unwrap().0
    };
    for (agent, key) in [(0, 1), (1, 2), (0, 1_001), (1, 4_000_000_000)] {
        assert_eq!(number(&cluster, agent, key).await, FIRST, "key {key}");
        assert_eq!(number(&cluster, 1 - agent, key).await, FIRST + 1, "key {key} at the other agent");
    }
    for agent in [0, 1] {
        cluster.agents[agent].daemon.kill_9();
        cluster.agents[agent].daemon.start().unwrap();
    }
    for key in [1, 2, 1_001, 4_000_000_000] {
        let next = number(&cluster, 0, key).await;
        assert!((FIRST + 2..FIRST + 1_000).contains(&next), "key {key}: {next}");
    }
    // The last 6 numbers of 32 bits.
    let narrow = cluster.put(0, "narrow", r#"{"kind":"sequence","width":32,"first":4294967290}"#).await.unwrap();
    assert!([200, 201].contains(&narrow.status), "{}", narrow.text());
    let given = || async {
        let answer = cluster.ask_agent(0, "sequence/narrow/7?n=6").await.ok()?;
        (answer.status == 200).then(|| answer.text().lines().map(|line| line.parse::<u64>().unwrap()).collect())
    };
    let last: Vec<u64> = until("the last ones are given", given).await.unwrap().0;
    assert_eq!(last, (4_294_967_290..=4_294_967_295).collect::<Vec<_>>());
    let over = cluster.ask_agent(0, "sequence/narrow/7").await.unwrap();
    assert_eq!((over.status, over.code().as_str()), (429, "serial_exhausted"), "{}", over.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_wrong_of_keys_is_refused_with_a_stated_code() {
    let cluster = started(2, r#"{"kind":"sequence","width":32,"step":1000,"solo_allowance":268435455}"#).await;
    let ask = async |path: &str| cluster.ask_agent(0, path).await.unwrap();
    let ready = || async { (ask("sequence/inbox/42").await.status == 200).then_some(()) };
    until("it gives numbers", ready).await.unwrap();
    let long = "k".repeat(129);
    for (path, status, code) in [
        (format!("sequence/inbox/{long}"), 400, "bad_parameter"),
        ("sequence/inbox/42?n=0".to_owned(), 400, "bad_parameter"),
        ("sequence/inbox/42?n=100001".to_owned(), 400, "bad_parameter"),
        ("sequence/nobody/42".to_owned(), 404, "unknown_generator"),
        ("segment/inbox".to_owned(), 404, "unknown_generator"),
    ] {
        let answer = ask(&path).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path}: {}", answer.text());
    }
    let url = cluster.agent_url(0, "sequence/inbox").unwrap();
    let post = async |body: String| cluster.client.ask("POST", &url, body.into_bytes()).await.unwrap();
    let keys = |n: usize| (0..n).map(|key| format!("{key}\n")).collect::<String>();
    let many = post(keys(10_001)).await;
    assert_eq!((many.status, many.code().as_str()), (400, "bad_parameter"), "{}", many.text());
    let few = post(keys(100)).await;
    assert_eq!(few.status, 200, "{}", few.text());
    assert!(few.text().lines().all(|line| line.parse::<u64>().is_ok()) && few.text().lines().count() == 100);
    for (definition, why) in [
        (r#"{"kind":"sequence","width":64}"#, "32 or 63"),
        (r#"{"kind":"sequence","first":0}"#, "first 0"),
        (r#"{"kind":"sequence","set":"No Set"}"#, "the set"),
        (r#"{"kind":"sequence","keys_per_section":1}"#, "keys_per_section 1"),
        (r#"{"kind":"sequence","plugins":[{"plugin":"stats"}]}"#, "no plugins"),
        (r#"{"kind":"sequence","step":10,"solo_allowance":5}"#, "solo_allowance 5"),
    ] {
        let answer = cluster.put(0, "bad", definition).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_parameter"), "{}", answer.text());
        assert!(answer.text().contains(why), "{}", answer.text());
    }
    // Of a set that no agent serves nobody gives a number, and it says so.
    let other = cluster.put(0, "elsewhere", r#"{"kind":"sequence","set":"elsewhere"}"#).await.unwrap();
    assert!([200, 201].contains(&other.status), "{}", other.text());
    let warning = other.json().unwrap()["warning"].as_str().unwrap_or_default().to_owned();
    assert!(warning.contains("'elsewhere'") && warning.contains("--sets"), "{warning}");
    let answer = ask("sequence/elsewhere/1").await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "segment_pending"), "{}", answer.text());
    assert!(answer.text().contains("start one with --sets elsewhere"), "{}", answer.text());
    // Over the other agent the same key goes on.
    let one: u64 = ask("sequence/inbox/42").await.text().trim().parse().unwrap();
    let two: u64 = cluster.ask_agent(1, "sequence/inbox/42").await.unwrap().text().trim().parse().unwrap();
    assert!(two > one, "{two} after {one}");
    let current: Value = serde_json::from_str(ask("sequence/inbox/42/current").await.text().trim()).unwrap();
    assert!(current.as_u64().is_some_and(|current| current >= two), "{current} after {two}");
}

/// Waits until a process is ready, and every key is served.
async fn killed_and_started(cluster: &mut Cluster, agent: usize, seen: &Seen) -> Duration {
    let client = cluster.client.clone();
    cluster.agents[agent].daemon.kill_9();
    cluster.agents[agent].daemon.start().unwrap();
    until_status(&client, &mut cluster.agents[agent].daemon, "/readyz", 200).await.unwrap();
    all_keys_served(cluster, seen).await
}

/// While a master is away no section gets another owner: keys are served again only because the agent goes on with what it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_killed_goes_on_with_its_sections_while_a_master_is_away() {
    let mut cluster =
        started(2, r#"{"kind":"sequence","keys_per_section":1000,"step":100,"solo_allowance":1000000}"#).await;
    let client = cluster.client.clone();
    let seen = Seen::new();
    let load = Load::start(&client, &addresses(&cluster), &seen, 11);
    all_keys_served(&cluster, &seen).await;
    // What an agent had is what it wrote down: sections of a moment ago it gets again from both masters alone.
    let written = || async { (0..2).all(|agent| written_down(&cluster, agent) == [true; 2]).then_some(()) };
    until("sections are written down", written).await.unwrap();
    for away in [1, 0] {
        more(&seen, 500).await;
        // What the one that stays has not heard of is likely to be in the other one's raises.
        cluster.masters[away].daemon.kill_9();
        for agent in [0, 1] {
            let took = killed_and_started(&mut cluster, agent, &seen).await;
            println!("master {away} is away, agent {agent} was killed: every key served again after {took:?}");
            more(&seen, 500).await;
        }
        cluster.masters[away].daemon.start().unwrap();
        until_status(&client, &mut cluster.masters[away].daemon, "/readyz", 200).await.unwrap();
    }
    let troubles = load.stop().await;
    let (total, duplicates, disorder) = (seen.total.load(SeqCst), seen.duplicates(), seen.disorder.load(SeqCst));
    println!("numbers={total} duplicates={duplicates} disorder={disorder}; meanwhile clients met {troubles:?}");
    assert_eq!((duplicates, disorder), (0, 0));
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => match std::fs::copy(entry.path(), to) {
                // What is written beside a file, and then takes its name, was there a moment ago only.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.unwrap()),
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copied_agent_and_a_master_that_is_put_back_repeat_no_number_of_a_key() {
    let mut cluster =
        started(2, r#"{"kind":"sequence","keys_per_section":1000,"step":100,"solo_allowance":1000000}"#).await;
    let client = cluster.client.clone();
    let seen = Seen::new();
    let load = Load::start(&client, &addresses(&cluster), &seen, 12);
    all_keys_served(&cluster, &seen).await;
    more(&seen, 500).await;

    // The disk of master 1, to be put back later.
    cluster.masters[0].daemon.terminate().await.unwrap();
    let (store, kept) = (cluster.masters[0].data_dir.clone(), cluster.dir().join("kept"));
    copy_folder(&store, &kept);
    cluster.masters[0].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[0].daemon, "/readyz", 200).await.unwrap();
    more(&seen, 500).await;

    // A copy of an agent's folder, made while it runs; both live on, and the original is killed.
    let copy = cluster.dir().join("copy");
    copy_folder(&cluster.agents[0].dir, &copy);
    let third = cluster.add_agent_in(copy, "agent-3", &[]).unwrap();
    cluster.agents[third].daemon.start().unwrap();
    until_status(&client, &mut cluster.agents[third].daemon, "/readyz", 200).await.unwrap();
    let beside = Load::start(&client, &[cluster.agents[third].daemon.http], &seen, 13);
    more(&seen, 500).await;
    let took = killed_and_started(&mut cluster, 0, &seen).await;
    println!("beside its copy the agent was killed: every key served again after {took:?}");

    cluster.masters[0].daemon.kill_9();
    std::fs::remove_dir_all(&store).unwrap();
    copy_folder(&kept, &store);
    // The agent starts before that master has met the other one.
    cluster.agents[1].daemon.kill_9();
    cluster.masters[0].daemon.start().unwrap();
    let took = killed_and_started(&mut cluster, 1, &seen).await;
    println!("with a master that was put back: every key served again after {took:?}");
    more(&seen, 500).await;
    let troubles = (load.stop().await, beside.stop().await);
    let (total, duplicates, disorder) = (seen.total.load(SeqCst), seen.duplicates(), seen.disorder.load(SeqCst));
    println!("numbers={total} duplicates={duplicates} disorder={disorder}; meanwhile clients met {troubles:?}");
    assert_eq!((duplicates, disorder), (0, 0));
}

/// Tells which of the two files there are in which an agent writes its sections down: the bounds, and what proves them.
fn written_down(cluster: &Cluster, agent: usize) -> [bool; 2] {
    let file = cluster.agents[agent].serial_file();
    let name = file.file_name().unwrap().display();
    ["bounds", "proof"].map(|end| file.with_file_name(format!("{name}.{end}")).exists())
}

/// No write of any file succeeds any more, that of the log neither. What cannot be written down is not needed either: numbers come from
/// masters, and the next start is another session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_a_disk_serves_its_sections_on_and_a_start_repeats_nothing() {
    let mut cluster =
        started(2, r#"{"kind":"sequence","keys_per_section":1000,"step":100,"solo_allowance":1000000}"#).await;
    let client = cluster.client.clone();
    let daemon = &mut cluster.agents[0].daemon;
    daemon.kill_9();
    daemon.survive_file_limit();
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let seen = Seen::new();
    let load = Load::start(&client, &addresses(&cluster), &seen, 14);
    all_keys_served(&cluster, &seen).await;
    let written = || async { (written_down(&cluster, 0) == [true; 2]).then_some(()) };
    until("sections are written down", written).await.unwrap();

    let pid = rustix::process::Pid::from_raw(cluster.agents[0].daemon.pid().unwrap().cast_signed()).unwrap();
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(pid), Resource::Fsize, nothing).unwrap();
    let given_up = || async { (written_down(&cluster, 0) == [false; 2]).then_some(()) };
    until("what is written down is removed", given_up).await.unwrap();
    all_keys_served(&cluster, &seen).await;
    // Nobody else may get its sections, so it is this agent that serves them.
    cluster.masters[1].daemon.kill_9();
    more(&seen, 2_000).await;
    let took = all_keys_served(&cluster, &seen).await;
    println!("without a disk, and with one master: every key served after {took:?}");
    cluster.masters[1].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[1].daemon, "/readyz", 200).await.unwrap();

    let took = killed_and_started(&mut cluster, 0, &seen).await;
    println!("started again with a disk: every key served after {took:?}");
    let written = || async { (written_down(&cluster, 0) == [true; 2]).then_some(()) };
    until("sections are written down again", written).await.unwrap();
    let troubles = load.stop().await;
    let (total, duplicates, disorder) = (seen.total.load(SeqCst), seen.duplicates(), seen.disorder.load(SeqCst));
    println!("numbers={total} duplicates={duplicates} disorder={disorder}; meanwhile clients met {troubles:?}");
    assert_eq!((duplicates, disorder), (0, 0));
}
