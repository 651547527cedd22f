//! Plain numbers in segments, with real masters and agents: no number of a name comes twice, whatever is killed, copied, put back or
//! replaced, and gaps are as long as is promised. `scripts/segments.sh` runs the long form by UNIQ_SEGMENT_{AGENTS,NAMES,ROUNDS,NUMBERS}.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use serde_json::Value;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::client::Media;
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::operator::{join, keep, peer_lost, put_back};
use tests::plain::{Load, Numbers, read};
use tests::programs;
use tests::variables;

const AGENTS: usize = 3;
const NAMES: usize = 24;
const ROUNDS: usize = 2;
const NUMBERS: u64 = 2_000_000;
/// Numbers that must come between two kills, so that each hits a system at work.
const BETWEEN: u64 = 20_000;
const CLIENTS: usize = 2;

fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("n{n}")).collect()
}

/// Names that agents may register in a burst; beyond it they are an operator's business.
const NAMES_BY_AGENTS: usize = 32;

async fn register(cluster: &Cluster, names: &[String], definition: &str) {
    let (by_agents, by_operators) = names.split_at(names.len().min(NAMES_BY_AGENTS));
    for name in by_operators {
        let mut body: Value = serde_json::from_str(definition).unwrap();
        body["name"] = name.as_str().into();
        let console = cluster.masters[0].daemon.http;
        let answer = cluster.client.change(console, "/api/namespaces", &body).await.unwrap();
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    }
    for name in by_agents {
        let done =
            || async { [200, 201].contains(&cluster.put(0, name, definition).await.unwrap().status).then_some(()) };
        until("the name is registered", done).await.unwrap();
    }
}

fn addresses(cluster: &Cluster) -> Vec<SocketAddr> {
    cluster.agents.iter().map(|agent| agent.daemon.http).collect()
}

/// `n` numbers of a name from an agent, which must give them.
async fn get(cluster: &Cluster, agent: usize, name: &str, n: u32) -> Vec<u64> {
    let url = cluster.agent_url(agent, &format!("segment/{name}?n={n}")).unwrap();
    let got = || async {
        let answer = cluster.client.get_as(&url, Media::Packed).await.ok()?;
        (answer.status == 200).then(|| read(Media::Packed, &answer.body).unwrap())
    };
    until("the agent gives numbers", got).await.unwrap().0
}

async fn more(numbers: &Numbers, load: &Load, more: u64) {
    let goal = numbers.total() + more;
    let (mut seen, mut since) = (numbers.total(), Instant::now());
    while numbers.total() < goal {
        if numbers.total() > seen {
            (seen, since) = (numbers.total(), Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "no number came for {PATIENCE:?}: {:?}", load.troubles());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_number_comes_twice_while_every_process_is_killed_in_turn() {
    let agents = variables::number_or("UNIQ_SEGMENT_AGENTS", AGENTS);
    let count = variables::number_or("UNIQ_SEGMENT_NAMES", NAMES);
    let rounds = variables::number_or("UNIQ_SEGMENT_ROUNDS", ROUNDS);
    let goal = variables::number_or("UNIQ_SEGMENT_NUMBERS", NUMBERS);
    let seed = variables::seed();
    let mut random = rand::rngs::SmallRng::seed_from_u64(seed);
    let mut cluster = Cluster::start(agents, &[]).await.unwrap();
    let names = names(count);
    let began = Instant::now();
    register(&cluster, &names, r#"{"kind":"segment","step":100000}"#).await;
    println!("{} names at {} agents after {:.1?}", names.len(), cluster.agents.len(), began.elapsed());
    let numbers = Arc::new(Numbers::default());
    let load = Load::start(&cluster.client, &addresses(&cluster), &names, &numbers, CLIENTS, seed);
    let client = cluster.client.clone();
    // Kills are spread over all of it.
    let between = BETWEEN.max(goal / (rounds * (agents + 2)) as u64);
    let mut kills = 0;
    for round in 0..rounds {
        let mut victims: Vec<usize> = (0..cluster.agents.len() + 2).collect();
        victims.shuffle(&mut random);
        for victim in victims {
            more(&numbers, &load, between).await;
            let daemon = match victim.checked_sub(2) {
                None => &mut cluster.masters[victim].daemon,
                Some(agent) => &mut cluster.agents[agent].daemon,
            };
            daemon.kill_9();
            daemon.start().unwrap();
            until_status(&client, daemon, "/readyz", 200).await.unwrap();
            kills += 1;
        }
        println!("round {round}: {kills} kills, {} numbers after {:.1?}", numbers.total(), began.elapsed());
    }
    while numbers.total() < goal {
        more(&numbers, &load, BETWEEN).await;
    }
    let troubles = load.stop().await.unwrap();
    let verdict = numbers.verdict();
    println!("{verdict:?}\n  meanwhile clients met: {troubles:?}");
    println!("  kills={kills} numbers={} duplicates={}", verdict.numbers, verdict.duplicates);
    assert_eq!(verdict.duplicates, 0, "{verdict:?}");
    let harmless = ["no answer", "segment_pending", "masters_unavailable", "unknown_generator"];
    assert!(troubles.keys().all(|code| harmless.contains(&code.as_str())), "clients met {troubles:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_leaves_no_gap_and_a_kill_one_of_a_step_of_the_mark() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let client = cluster.client.clone();
    register(&cluster, &["orders".to_owned()], r#"{"kind":"segment","first":1000,"step":10000}"#).await;
    let first = get(&cluster, 0, "orders", 1).await;
    assert_eq!(first, [1_000]);
    assert_eq!(get(&cluster, 0, "orders", 3).await, [1_001, 1_002, 1_003]);
    let daemon = &mut cluster.agents[0].daemon;
    daemon.terminate().await.unwrap();
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    assert_eq!(get(&cluster, 0, "orders", 1).await, [1_004], "a clean stop");
    let daemon = &mut cluster.agents[0].daemon;
    daemon.kill_9();
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let next = get(&cluster, 0, "orders", 1).await[0];
    // The first segment of a run is a tenth of a step; no mark lies beyond it.
    assert!((1_005..=2_000).contains(&next), "{next}");
}

/// With one master away for all of the solo span numbers flow on, without a word of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_flow_on_for_the_solo_span_with_one_master_away() {
    let mut cluster = Cluster::new().unwrap();
    // A day in 43 seconds.
    let test_clock = cluster.run_by_test_clock(2_000, &[]).unwrap();
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    for _ in 0..2 {
        let nth = cluster.add_agent(&["--test-clock", &test_clock]).unwrap();
        cluster.agents[nth].daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let names = names(3);
    register(&cluster, &names, r#"{"kind":"segment"}"#).await;
    let numbers = Arc::new(Numbers::default());
    // What is kept for the solo span follows from the use before, so that has to be steady.
    let load = Load::paced(&cluster.client, &addresses(&cluster), &names, &numbers, 1, 7, Duration::from_millis(30));
    // Three half-lives of what is known of the use: by then it is known well enough.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = load.troubles();
    cluster.masters[1].daemon.kill_9();
    let until_then = Instant::now() + Duration::from_millis(43_200);
    while Instant::now() < until_then {
        more(&numbers, &load, 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let after = load.stop().await.unwrap();
    let verdict = numbers.verdict();
    println!("{verdict:?}, {before:?} before and {after:?} in all");
    assert_eq!(verdict.duplicates, 0, "{verdict:?}");
    assert_eq!(after.get("segment_pending"), before.get("segment_pending"), "nobody waited in vain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_agents_and_masters_put_back_or_replaced_repeat_no_number() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    let client = cluster.client.clone();
    let names = names(4);
    register(&cluster, &names, r#"{"kind":"segment","step":5000}"#).await;
    let numbers = Arc::new(Numbers::default());
    let load = Load::start(&client, &addresses(&cluster), &names, &numbers, 1, 3);
    more(&numbers, &load, 50_000).await;

    // A copy of an agent's folder, made while it runs, beside it.
    let from = cluster.agents[0].dir.clone();
    let copy = cluster.dir().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&from).unwrap() {
        let entry = entry.unwrap();
        match std::fs::copy(entry.path(), copy.join(entry.file_name())) {
            // What is written beside a file, and then takes its name, was there a moment ago only.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
    let third = cluster.add_agent_in(copy, "agent-3", &[]).unwrap();
    cluster.agents[third].daemon.start().unwrap();
    until_status(&client, &mut cluster.agents[third].daemon, "/readyz", 200).await.unwrap();
    let beside = Load::start(&client, &[cluster.agents[third].daemon.http], &names, &numbers, 1, 4);
    more(&numbers, &load, 50_000).await;

    // The disk of master 1 is put back to before much was granted.
    cluster.masters[0].daemon.terminate().await.unwrap();
    keep(&cluster.masters[0]).unwrap();
    cluster.masters[0].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[0].daemon, "/readyz", 200).await.unwrap();
    more(&numbers, &load, 100_000).await;
    cluster.masters[0].daemon.kill_9();
    put_back(&cluster.masters[0]).unwrap();
    cluster.masters[0].daemon.start().unwrap();
    more(&numbers, &load, 100_000).await;
    println!("after the copy and the disk that was put back: {:?}", numbers.verdict());
    assert_eq!(numbers.verdict().duplicates, 0);

    // It is noticed, and replaced; it lives on meanwhile, and agents go on asking it.
    cluster.masters[1].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[1]).unwrap();
    let survivor_at = cluster.masters[1].peer_listen;
    let mut replacement = cluster.another_master("replacement", 1, cluster.dir().join("new-1"), survivor_at).unwrap();
    let mut survivor = cluster.with_other_peer(&cluster.masters[1], replacement.peer_listen).unwrap();
    survivor.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/healthz", 200).await.unwrap();
    more(&numbers, &load, 100_000).await;
    let joined = join(&token, &replacement, survivor.peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    replacement.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/readyz", 200).await.unwrap();
    more(&numbers, &load, 100_000).await;
    let troubles = (load.stop().await.unwrap(), beside.stop().await.unwrap());
    let verdict = numbers.verdict();
    println!("{verdict:?}\n  meanwhile clients met: {troubles:?}");
    assert_eq!(verdict.duplicates, 0, "{verdict:?}");
    replacement.daemon.kill_9();
    survivor.daemon.kill_9();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_wrong_is_refused_with_a_stated_code_and_an_axis_ends() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    for (definition, why) in [
        (r#"{"kind":"segment","increment":0}"#, "again and again"),
        (r#"{"kind":"segment","first":5,"last":4}"#, "lies above last"),
        (r#"{"kind":"segment","first":0}"#, "begin at 1"),
        (r#"{"kind":"segment","threshold":91}"#, "1 to 90"),
        (r#"{"kind":"segment","step":0}"#, "step 0"),
        (r#"{"kind":"segment","token_type":"uint2"}"#, "a generator of kind segment: token_type: unknown field"),
    ] {
        let answer = cluster.put(0, "bad", definition).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_parameter"), "{}", answer.text());
        assert!(answer.text().contains(why), "{definition}: {}", answer.text());
    }
    register(&cluster, &["few".to_owned()], r#"{"kind":"segment","first":10,"last":29,"increment":3,"offset":1}"#)
        .await;
    for (path, status, code) in [
        ("segment/few?n=0", 400, "bad_parameter"),
        ("segment/few?n=100001", 400, "bad_parameter"),
        ("segment/few?format=hex", 400, "bad_parameter"),
        ("segment/nobody", 404, "unknown_generator"),
        ("uniq64/few", 404, "unknown_generator"),
    ] {
        let answer = cluster.ask_agent(0, path).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path}: {}", answer.text());
    }
    let mut all = Vec::new();
    for _ in 0..10 {
        all.extend(get(&cluster, 0, "few", 2).await);
    }
    let expected: Vec<u64> = (10..30).map(|place| 1 + 3 * place).collect();
    all.sort_unstable();
    assert_eq!(all, expected);
    let ended = || async {
        let answer = cluster.ask_agent(0, "segment/few").await.ok()?;
        (answer.status == 429).then_some(answer)
    };
    let (answer, _) = until("the axis has ended", ended).await.unwrap();
    assert_eq!((answer.code().as_str(), answer.header("retry-after")), ("serial_exhausted", ""));
    let listed: Value = cluster.ask_agent(0, "generators").await.unwrap().json().unwrap();
    assert!(listed.as_array().unwrap().iter().any(|row| row["name"] == "few" && row["kind"] == "segment"), "{listed}");
}

/// Order numbers without a date: whatever is killed, no text comes twice, and they end with the length that was said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_one_length_come_once_over_kills_and_end_with_their_length() {
    const KILL_EVERY: usize = 60;
    const KILLS: usize = 4;
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    let definition =
        r#"{"kind":"segment","step":100,"step_max":100,"encoding":{"form":"decimal","length":4,"prefix":"ORD-"}}"#;
    let said: Value = cluster.put(0, "orders", definition).await.unwrap().json().unwrap();
    assert_eq!((&said["capacity"], &said["definition"]["last"]), (&9_999.into(), &"9999".into()), "{said}");
    assert_eq!(said["examples"], serde_json::json!(["ORD-0001", "ORD-0002", "ORD-0003"]));
    let other = cluster.put(1, "orders", &definition.replace("ORD-", "BILL-")).await.unwrap();
    assert_eq!(other.code(), "generator_exists", "a prefix is a part of what the name stands for");
    let (mut seen, mut ended, mut kills) = (HashSet::new(), [false; 2], 0);
    let began = Instant::now();
    for call in 0.. {
        let agent = call % 2;
        if ended == [true; 2] {
            break;
        }
        if kills < KILLS && call > 0 && call % KILL_EVERY == 0 {
            kills += 1;
            let client = cluster.client.clone();
            let daemon = &mut cluster.agent(kills % 2).unwrap().daemon;
            daemon.kill_9();
            daemon.start().unwrap();
            until_status(&client, daemon, "/readyz", 200).await.unwrap();
        }
        let answer = cluster.ask_agent(agent, "segment/orders?n=20").await.unwrap();
        match answer.status {
            200 => {
                for text in answer.text().lines() {
                    let digits = text.strip_prefix("ORD-").unwrap_or_default();
                    assert!(digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()), "{text}");
                    assert!(seen.insert(text.to_owned()), "{text} came twice");
                }
            }
            429 => {
                assert_eq!((answer.code().as_str(), answer.header("retry-after")), ("serial_exhausted", ""));
                ended[agent] = true;
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        assert!(began.elapsed() < 2 * PATIENCE, "{} texts came: {}", seen.len(), answer.text());
    }
    assert_eq!(kills, KILLS);
    assert!(seen.len() > 7_000, "{} of 9,999 came", seen.len());
    let told: Value = cluster.ask_agent(1, "explain/ORD-0042").await.unwrap().json().unwrap();
    assert_eq!((&told["names"][0], &told["texts"]["decimal"]), (&"orders".into(), &"42".into()), "{told}");
    let file = cluster.agents[1].serial_file();
    let args = ["--explain", "ORD-0042", "--serial-file", file.to_str().unwrap()];
    let told = programs::run(&programs::generator().unwrap(), &args, &cluster.agents[1].dir).unwrap();
    assert!(told.out.contains("name      orders\n  decimal   42\n"), "{told:?}");
}
