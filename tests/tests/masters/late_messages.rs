//! Messages between the masters that arrive again, days late, in any order, also after one of them was replaced: nothing is
//! forgotten, nothing comes back, nothing is granted that somebody has.

use bincode::Options as _;
use net::rpc::peer::{Content, PeerMessage, PeerServiceRequest};
use net::rpc::transport::FRAME_LEN_MAX;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tarpc::ClientMessage;
use tests::cluster::{Cluster, until, until_status};
use tests::load::{Load, Pace};
use tests::operator::{join, peer_lost};
use tests::oracle::Oracle;
use tests::recorder::{Recorder, replay};
use tests::variables;

/// A day in two seconds.
const SCALE: u32 = 43_200;

/// Reads what a frame says, as far as it is a message of the pair.
fn messages(frame: &[u8]) -> Vec<PeerMessage> {
    let codec = bincode::DefaultOptions::new().with_limit(FRAME_LEN_MAX as u64);
    match codec.deserialize(&frame[4..]).unwrap() {
        ClientMessage::Request(tarpc::Request { message: PeerServiceRequest::Deliver { sealed }, .. }) => {
            let codec = bincode::DefaultOptions::new().with_limit(FRAME_LEN_MAX as u64);
            match codec.deserialize(&sealed.body).unwrap() {
                Content::Messages { messages, .. } => messages,
                Content::Reports(_) => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// Counts the messages of each kind.
fn kinds(frames: &[Vec<u8>]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for message in frames.iter().flat_map(|frame| messages(frame)) {
        let text = format!("{message:?}");
        let kind = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// The parts of a lease that may only grow: its grant, how far it is on its way, its end.
type Grown = (u64, u8, String);

/// Every lease in a master's table by type and token, with its holder.
async fn table(cluster: &Cluster, http: SocketAddr) -> BTreeMap<(String, String), (Grown, String)> {
    let rows = cluster.client.console(http, "/api/leases").await.unwrap().json().unwrap();
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
    let entry = |row: &serde_json::Value| {
        let state = match row["state"].as_str().unwrap() {
            "granting" | "held" => 0,
            "ending" => 1,
            _ => 2,
        };
        let grown = (row["g"].as_u64().unwrap(), state, text(row, "until"));
        ((text(row, "type"), text(row, "token")), (grown, text(row, "session")))
    };
    rows.as_array().unwrap().iter().map(entry).collect()
}

/// Delivers frames in a new order to the master at `peer`, whose table must have lost nothing of it.
async fn replay_changes_nothing(
    cluster: &Cluster,
    frames: &[Vec<u8>],
    (peer, http): (SocketAddr, SocketAddr),
    random: &mut SmallRng,
) {
    let before = table(cluster, http).await;
    let mut frames: Vec<_> = frames.iter().collect();
    frames.shuffle(random);
    for frame in &frames {
        replay(frame, peer).await.unwrap();
    }
    let after = table(cluster, http).await;
    for (token, (grown, session)) in &before {
        // What rested may be free by now, and then it is in no table until somebody has it.
        let Some((now, holder)) = after.get(token) else {
            assert_eq!(grown.1, 2, "{token:?} is lost: {grown:?}");
            continue;
        };
        assert!(now >= grown, "{token:?} was {grown:?} and is {now:?}");
        assert!(now.0 > grown.0 || now.2 >= grown.2, "{token:?} was {grown:?} and is {now:?}: its end shrank");
        assert!(now.0 > grown.0 || holder == session, "{token:?} has another holder in the same grant");
    }
    let old = |token: &(String, String)| before.contains_key(token);
    let new: Vec<_> = after.iter().filter(|(token, _)| !old(token)).collect();
    assert!(new.is_empty(), "nobody asked for these: {new:?}");
    println!("{} frames delivered again to {peer}; {} leases as they were", frames.len(), before.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_comes_again_days_later_changes_nothing() {
    let seed = variables::seed();
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let test_clock = cluster.run_by_test_clock(SCALE, &["--lease-days", "1", "--uint2-max", "1"]).unwrap();
    let mut wires = Vec::new();
    for sender in 0..2 {
        let (wire, to) = (cluster.port().unwrap(), cluster.masters[1 - sender].peer_listen);
        wires.push(Recorder::start(wire, to).await.unwrap());
        let daemon = &mut cluster.masters[sender].daemon;
        daemon.set("--peer", &wire.to_string());
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();

    // Two agents have both numbers, one of them dies, a third one has its number after it.
    let flags = ["--test-clock", &test_clock, "--token-types", "uint2"];
    let oracle = Arc::new(Oracle::default());
    for _ in 0..3 {
        let nth = cluster.add_agent(&flags).unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.start().unwrap();
        if nth < 2 {
            until_status(&client, daemon, "/readyz", 200).await.unwrap();
        }
    }
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let load = Load::paced(&client, &agents, &oracle, seed, Pace::resting(Duration::from_millis(150)));
    until("some IDs", || async { (oracle.total() > 20_000).then_some(()) }).await.unwrap();
    cluster.agent(0).unwrap().daemon.kill_9();
    until_status(&client, &mut cluster.agent(2).unwrap().daemon, "/readyz", 200).await.unwrap();

    let frames: Vec<_> = wires.iter().map(Recorder::frames).collect();
    let heard: BTreeSet<String> = frames.iter().flat_map(|frames| kinds(frames).into_keys()).collect();
    println!("recorded: {:?} and {:?}", kinds(&frames[0]), kinds(&frames[1]));
    for kind in ["Hello", "Heartbeat", "Pull", "Page", "Sync", "Propose", "Confirm", "Close", "Closed"] {
        assert!(heard.contains(kind), "no {kind} was recorded, and none can be replayed: {heard:?}");
    }
    let at = |nth: usize| (cluster.masters[nth].peer_listen, cluster.masters[nth].daemon.http);
    for (sender, sent) in frames.iter().enumerate() {
        replay_changes_nothing(&cluster, sent, at(1 - sender), &mut random).await;
        // To its own sender too, as a mirror would.
        replay_changes_nothing(&cluster, sent, at(sender), &mut random).await;
    }
    // Among it was a greeting from before the last changes, which looks like that of a master that lost them. It is asked to
    // say so again, and an old one cannot.
    for master in &cluster.masters {
        let ready = client.get(&format!("http://{}/readyz", master.daemon.http)).await.unwrap();
        assert_eq!(ready.status, 200, "old messages stopped it: {}", ready.text());
    }

    // Master 2 is replaced. Messages of the former pairing are nobody's now.
    cluster.masters[1].daemon.kill_9();
    cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[0]).unwrap();
    cluster.masters[0].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[0].daemon, "/healthz", 200).await.unwrap();
    std::fs::remove_dir_all(&cluster.masters[1].data_dir).unwrap();
    let joined = join(&token, &cluster.masters[1], cluster.masters[0].peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    cluster.masters[1].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let at = |nth: usize| (cluster.masters[nth].peer_listen, cluster.masters[nth].daemon.http);
    for (sender, sent) in frames.iter().enumerate() {
        replay_changes_nothing(&cluster, sent, at(1 - sender), &mut random).await;
        let ready = client.get(&format!("http://{}/readyz", at(1 - sender).1)).await.unwrap();
        assert_eq!(ready.status, 200, "messages of another pairing stopped it: {}", ready.text());
    }
    let goal = oracle.total() + 10_000;
    until("more IDs", || async { (oracle.total() > goal).then_some(()) }).await.unwrap();
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}
