//! Sections of sequences at two real masters, under the eyes of an operator: one is moved, an agent is drained and let back, by the API of
//! either master, while clients ask all the time. No call is refused, the numbers of each key grow for everybody, and the audit says who
//! ordered what.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tests::client::Client;
use tests::cluster::{Cluster, until};
use tokio::task::JoinSet;

/// The time that an agent serves after it has asked for its sections, in seconds.
const LEASE: &str = "4";
/// Sections of 1,000 keys that are asked for, one key in each.
const SECTIONS: u64 = 12;
const CLIENTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(5);

/// Clients that ask for the next number of any key at any agent, without end.
struct Asking {
    stop: Arc<AtomicBool>,
    /// The greatest number of each key that anybody was given.
    greatest: Arc<Vec<AtomicU64>>,
    /// Descriptions of what was refused, or came out of order.
    wrong: Arc<Mutex<Vec<String>>>,
    /// The longest that an answer took, in milliseconds.
    longest: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Asking {
    fn start(client: &Client, agents: &[SocketAddr]) -> Self {
        let greatest = Arc::new((0..SECTIONS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
        let mut asking = Self {
            stop: Arc::default(),
            greatest,
            wrong: Arc::default(),
            longest: Arc::default(),
            tasks: JoinSet::new(),
        };
        for nth in 0..CLIENTS * agents.len() {
            let (client, agent) = (client.clone(), agents[nth % agents.len()]);
            let (stop, greatest) = (Arc::clone(&asking.stop), Arc::clone(&asking.greatest));
            let (wrong, longest) = (Arc::clone(&asking.wrong), Arc::clone(&asking.longest));
            asking.tasks.spawn(async move {
                let mut section = nth;
                while !stop.load(SeqCst) {
                    section = (section + 5) % greatest.len();
                    let before = greatest[section].load(SeqCst);
                    let began = Instant::now();
                    let answer = client.get(&format!("http://{agent}/sequence/inbox/{}", section * 1_000 + 7)).await;
                    let took = began.elapsed();
                    tokio::time::sleep(PAUSE).await;
                    let number = match &answer {
                        Ok(answer) if answer.status == 200 => answer.text().trim().parse::<u64>().unwrap(),
                        Ok(answer) => {
                            wrong.lock().unwrap().push(format!(
                                "section {section}: {} {}",
                                answer.status,
                                answer.text()
                            ));
                            continue;
                        }
                        Err(e) => {
                            wrong.lock().unwrap().push(format!("section {section}: {e}"));
                            continue;
                        }
                    };
                    if number <= before {
                        wrong.lock().unwrap().push(format!("section {section}: {number} after {before}"));
                    }
                    greatest[section].fetch_max(number, SeqCst);
                    longest.fetch_max(u64::try_from(took.as_millis()).unwrap(), SeqCst);
                }
            });
        }
        asking
    }

    /// Waits until a number of each key came after now.
    async fn all_served(&self) {
        for section in 0..self.greatest.len() {
            let before = self.greatest[section].load(SeqCst);
            let served = || async { (self.greatest[section].load(SeqCst) > before).then_some(()) };
            until(&format!("section {section} is served"), served).await.unwrap();
        }
    }

    async fn stop(mut self) -> (Vec<String>, u64) {
        self.stop.store(true, SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        (self.wrong.lock().unwrap().clone(), self.longest.load(SeqCst))
    }
}

async fn started() -> Cluster {
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        master.daemon.set("--sequence-lease", LEASE);
        master.daemon.start().unwrap();
    }
    for _ in 0..2 {
        let nth = cluster.add_agent(&[]).unwrap();
        cluster.agents[nth].daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let console = cluster.masters[0].daemon.http;
    let inbox = json!({"name": "inbox", "kind": "sequence", "keys_per_section": 1_000, "step": 100});
    assert_eq!(cluster.client.change(console, "/api/namespaces", &inbox).await.unwrap().status, 201);
    cluster.all_give("sequence/inbox/7").await.unwrap();
    let heard = || async {
        let known = allocators(&cluster, 0).await;
        (known.len() == 2 && allocators(&cluster, 1).await.len() == 2).then_some(())
    };
    until("both masters know both agents", heard).await.unwrap();
    cluster
}

async fn read(cluster: &Cluster, master: usize, path: &str) -> Value {
    let answer = cluster.client.console(cluster.masters[master].daemon.http, path).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().unwrap()
}

async fn allocators(cluster: &Cluster, master: usize) -> Vec<Value> {
    read(cluster, master, "/api/allocators").await.as_array().unwrap().clone()
}

async fn allocator(cluster: &Cluster, master: usize, agent: &str) -> Value {
    allocators(cluster, master).await.into_iter().find(|row| row["agent_id"] == agent).unwrap_or_default()
}

/// The one who has a section as a master shows it, and its state.
async fn owner(cluster: &Cluster, master: usize, section: u64) -> Option<(String, String)> {
    let rows = read(cluster, master, "/api/sections?name=inbox").await;
    let row = rows
        .as_array()?
        .iter()
        .find(|row| row["from"].as_u64() <= Some(section) && Some(section) <= row["to"].as_u64())?;
    Some((row["owner"]["agent_id"].as_str()?.to_owned(), row["state"].as_str()?.to_owned()))
}

/// Waits until both masters show that an agent serves a section.
async fn is_at(cluster: &Cluster, section: u64, agent: &str) {
    for master in [0, 1] {
        let there = || async {
            (owner(cluster, master, section).await? == (agent.to_owned(), "served".to_owned())).then_some(())
        };
        until(&format!("master {} shows section {section} at {agent}", master + 1), there).await.unwrap();
    }
}

async fn order(cluster: &Cluster, master: usize, path: &str, body: Value) -> (u16, Value) {
    let answer = cluster.client.change(cluster.masters[master].daemon.http, path, &body).await.unwrap();
    (answer.status, answer.json().unwrap())
}

/// The lines of a master's audit about an action, the newest first.
async fn told(cluster: &Cluster, master: usize, action: &str) -> Vec<(String, String)> {
    let rows = read(cluster, master, &format!("/api/audit?action={action}")).await;
    let told = |row: &Value| {
        assert_eq!(row["who"], "admin", "{row}");
        (row["subject"].as_str().unwrap().to_owned(), row["detail"].as_str().unwrap().to_owned())
    };
    rows.as_array().unwrap().iter().map(told).collect()
}

async fn metric(cluster: &Cluster, master: usize, line: &str) -> u64 {
    cluster.client.metric(cluster.masters[master].daemon.http, line).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_are_moved_and_an_agent_is_drained_while_everybody_asks() {
    let cluster = started().await;
    let agents: Vec<SocketAddr> = cluster.agents.iter().map(|agent| agent.daemon.http).collect();
    let asking = Asking::start(&cluster.client, &agents);
    asking.all_served().await;
    // What was refused before anybody served is not what this is about.
    asking.wrong.lock().unwrap().clear();

    // By either master: all sections of this name are at home at master 1.
    for (section, master) in [(3, 1), (4, 0)] {
        let (from, _) = owner(&cluster, 0, section).await.unwrap();
        let to = if from == "agent-1" { "agent-2" } else { "agent-1" };
        let path = format!("/api/sections/inbox/{section}/move");
        let body = json!({"to": to, "confirm": format!("inbox/{section}")});
        let (status, moved) = order(&cluster, master, &path, body).await;
        assert_eq!((status, &moved["home"], &moved["to"]), (202, &json!(1), &json!(to)), "{moved}");
        is_at(&cluster, section, to).await;
        assert_eq!(told(&cluster, master, "section.move").await, [(format!("inbox/{section}"), format!("to {to}"))]);
    }
    asking.all_served().await;

    // A key goes on where another system left it, and nobody sees a smaller number meanwhile; by the master that is its home.
    let raise = json!({"to": "5000000000", "confirm": "inbox"});
    let (status, refused) = order(&cluster, 1, "/api/sequence/inbox/3007/raise", raise.clone()).await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_moved")), "{refused}");
    let (status, raised) = order(&cluster, 0, "/api/sequence/inbox/3007/raise", raise).await;
    assert_eq!(
        (status, &raised),
        (202, &json!({"name": "inbox", "section": 3, "to": "5000000000", "home": 1})),
        "{raised}"
    );
    let goes_on = || async { (asking.greatest[3].load(SeqCst) >= 5_000_000_000).then_some(()) };
    until("the section goes on from there", goes_on).await.unwrap();
    let other = cluster.ask_agent(0, "sequence/inbox/3999").await.unwrap().text();
    assert!(other.trim().parse::<u64>().unwrap() >= 5_000_000_000, "a key of the same section: {other}");
    assert!(asking.greatest[4].load(SeqCst) < 1_000_000_000, "a section beside it");
    assert_eq!(told(&cluster, 0, "section.raise").await, [("inbox/3".to_owned(), "from 5000000000 on".to_owned())]);
    asking.all_served().await;

    // All sections of one agent, and the other one cannot go then.
    let drain = "/api/allocators/agent-1/drain";
    let (status, drained) = order(&cluster, 0, drain, json!({"drain": true, "confirm": "agent-1"})).await;
    assert_eq!((status, &drained["draining"]), (200, &json!(true)), "{drained}");
    for master in [0, 1] {
        let empty = || async {
            let row = allocator(&cluster, master, "agent-1").await;
            (row["sections"] == 0 && row["draining"] == true).then_some(())
        };
        until("the drained agent has no section", empty).await.unwrap();
    }
    for section in 0..SECTIONS {
        is_at(&cluster, section, "agent-2").await;
    }
    asking.all_served().await;
    let both = json!({"drain": true, "confirm": "agent-2"});
    let (status, refused) = order(&cluster, 1, "/api/allocators/agent-2/drain", both).await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_moved")), "{refused}");
    let back = json!({"to": "agent-1", "confirm": "inbox/5"});
    let (status, refused) = order(&cluster, 0, "/api/sections/inbox/5/move", back.clone()).await;
    assert_eq!((status, &refused["code"]), (409, &json!("not_moved")), "{refused}");

    // It is taken back at the other master, and the agent serves again.
    let (status, drained) = order(&cluster, 1, drain, json!({"drain": false})).await;
    assert_eq!((status, &drained["draining"]), (200, &json!(false)), "{drained}");
    let taken_back = || async { (allocator(&cluster, 0, "agent-1").await["draining"] == false).then_some(()) };
    until("master 1 knows that the drain is over", taken_back).await.unwrap();
    assert_eq!(order(&cluster, 0, "/api/sections/inbox/5/move", back).await.0, 202);
    is_at(&cluster, 5, "agent-1").await;
    asking.all_served().await;

    let (wrong, longest) = asking.stop().await;
    println!("the longest answer took {longest} ms");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let over = ("agent-1".to_owned(), "it takes sections again".to_owned());
    assert_eq!(
        told(&cluster, 0, "agent.drain").await,
        [("agent-1".to_owned(), "all sections go to others".to_owned())]
    );
    assert_eq!(told(&cluster, 1, "agent.drain").await, [over]);
    let moves = metric(&cluster, 0, "uniq_master_section_moves_total").await
        + metric(&cluster, 1, "uniq_master_section_moves_total").await;
    assert!(moves >= 3, "{moves}");
    for master in [0, 1] {
        assert_eq!(metric(&cluster, master, "uniq_master_allocators{state=\"heard\"}").await, 2);
        assert!(metric(&cluster, master, "uniq_master_keeps_total").await > 2);
        assert!(metric(&cluster, master, "uniq_master_sections{state=\"served\"}").await >= SECTIONS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_moved_is_refused_with_the_reason() {
    let mut cluster = started().await;
    for (path, body, status, why) in [
        (
            "/api/sections/inbox/5/move",
            json!({"to": "nobody", "confirm": "inbox/5"}),
            404,
            "no agent of the name 'nobody'",
        ),
        ("/api/sections/inbox/4294968/move", json!({"to": "agent-1", "confirm": "inbox/4294968"}), 404, "0 to 4294967"),
        ("/api/sections/outbox/5/move", json!({"to": "agent-1", "confirm": "outbox/5"}), 404, "no such name"),
        ("/api/sections/inbox/5/move", json!({"to": "agent-1", "confirm": "inbox/6"}), 400, "say inbox/5 once more"),
        ("/api/sections/inbox/5/move", json!({"to": "agent-1"}), 400, "say inbox/5 once more"),
        (
            "/api/allocators/nobody/drain",
            json!({"drain": true, "confirm": "nobody"}),
            404,
            "no agent of the name 'nobody'",
        ),
        ("/api/allocators/agent-1/drain", json!({"drain": true}), 400, "say agent-1 once more"),
        ("/api/sequence/inbox/7/raise", json!({"to": 5}), 400, "say inbox once more"),
        ("/api/sequence/inbox/7/raise", json!({"to": 0, "confirm": "inbox"}), 409, "1 to 9223372036854775807"),
        ("/api/sequence/inbox/7/raise", json!({"to": "1e3", "confirm": "inbox"}), 400, "to"),
        ("/api/sequence/outbox/7/raise", json!({"to": 5, "confirm": "outbox"}), 404, "no such name"),
    ] {
        for master in [0, 1] {
            let (found, problem) = order(&cluster, master, path, body.clone()).await;
            assert_eq!(found, status, "{path} {body}: {problem}");
            assert!(problem["detail"].as_str().unwrap().contains(why), "{path} {body}: {problem}");
        }
    }
    for master in [0, 1] {
        assert_eq!(
            (told(&cluster, master, "section.move").await.len(), told(&cluster, master, "agent.drain").await.len()),
            (0, 0)
        );
    }
    cluster.agents[1].daemon.kill_9();
    let silent = || async { (allocator(&cluster, 0, "agent-2").await["silent"] == true).then_some(()) };
    until("the killed agent is silent", silent).await.unwrap();
    let to_silent = json!({"to": "agent-2", "confirm": "inbox/5"});
    let (status, problem) = order(&cluster, 0, "/api/sections/inbox/5/move", to_silent).await;
    assert_eq!((status, &problem["code"]), (409, &json!("not_moved")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("silent at both masters"), "{problem}");

    // Without the other master nothing moves; but whoever drained the wrong agent can take that back.
    cluster.masters[1].daemon.kill_9();
    let alone = || async {
        let (status, problem) =
            order(&cluster, 0, "/api/allocators/agent-1/drain", json!({"drain": true, "confirm": "agent-1"})).await;
        (status == 503 && problem["code"] == "masters_unavailable").then_some(())
    };
    until("a drain needs both masters", alone).await.unwrap();
    let (status, problem) =
        order(&cluster, 0, "/api/sections/inbox/5/move", json!({"to": "agent-1", "confirm": "inbox/5"})).await;
    assert_eq!((status, &problem["code"]), (503, &json!("masters_unavailable")), "{problem}");
    let (status, row) = order(&cluster, 0, "/api/allocators/agent-1/drain", json!({"drain": false})).await;
    assert_eq!((status, &row["draining"]), (200, &json!(false)), "{row}");
}
