//! A master is lost for good, or believed to be, and replaced: nothing is repeated, leases go on, new ones are granted.

use common::token::TokenType;
use models::plain_ids;
use net::rpc::lease::{Mode, RetiredProof};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::client::{Client, Kind, Media};
use tests::cluster::{Cluster, Master, until, until_status};
use tests::lessee::Lessee;
use tests::load::{Load, Pace};
use tests::operator::{join, keep, peer_lost, put_back, remedy};
use tests::oracle::{Ids, Oracle};
use tests::programs;

/// Ten kinds of requests at an agent that must mint.
async fn mints(cluster: &Cluster, nth: usize) {
    for kind in tests::client::KINDS {
        let answer = cluster.ask_agent(nth, kind.path()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_is_replaced() {
    let mut cluster = Cluster::start(2, &["--renew-interval", "1s"]).await.unwrap();
    let client = cluster.client.clone();
    let oracle = Arc::new(Oracle::default());
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let mut load = Load::start(&client, &agents, &oracle, 7);
    let before = (cluster.agent_status(0).await.unwrap(), cluster.agent_status(1).await.unwrap());

    // Master 2 dies, and its disk with it. An empty store is not a replacement.
    cluster.masters[1].daemon.kill_9();
    std::fs::remove_dir_all(&cluster.masters[1].data_dir).unwrap();
    let survivor = cluster.masters[0].peer_listen;
    let early = join(&"0".repeat(64), &cluster.masters[1], survivor).unwrap();
    assert_eq!(early.status, Some(1), "without --peer-lost");

    cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[0]).unwrap();
    cluster.masters[0].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[0].daemon, "/healthz", 200).await.unwrap();
    let wrong = join(&token.replace(|c| c != '0', "1"), &cluster.masters[1], survivor).unwrap();
    assert_eq!(wrong.status, Some(1), "{wrong:?}");
    assert!(wrong.err.contains("--peer-lost"), "{wrong:?}");
    // As the wrong one of the two: told so, nothing is written, and the token still stands.
    let astray = cluster.another_master("astray", 1, cluster.dir().join("astray"), survivor).unwrap();
    let ended = join(&token, &astray, survivor).unwrap();
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.err.contains("--id 2") && ended.err.trim_end().lines().count() == 1, "{ended:?}");
    assert!(!astray.data_dir.exists(), "something was written");
    let joined = join(&token, &cluster.masters[1], survivor).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");

    // The token is used up.
    let again = cluster.another_master("again", 2, cluster.dir().join("again"), survivor).unwrap();
    assert_eq!(join(&token, &again, survivor).unwrap().status, Some(1));

    cluster.masters[1].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let after = (cluster.agent_status(0).await.unwrap(), cluster.agent_status(1).await.unwrap());
    assert_eq!((before.0.tokens(), before.1.tokens()), (after.0.tokens(), after.1.tokens()), "leases go on");

    // New leases are granted again, none of a token that somebody has.
    let new = cluster.add_agent(&[]).unwrap();
    let daemon = &mut cluster.agent(new).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    mints(&cluster, new).await;
    let status = cluster.agent_status(new).await.unwrap();
    for token in ["uint2", "string2-include-letter"] {
        let tokens = [&after.0, &after.1, &status].map(|s| s.token(token).unwrap().to_owned());
        let different: std::collections::BTreeSet<_> = tokens.iter().collect();
        assert_eq!(different.len(), 3, "{tokens:?}");
    }
    load.check().unwrap();
    let troubles = load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}\n  meanwhile clients met: {troubles:?}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_believed_dead_and_lives_does_no_harm() {
    let mut cluster = Cluster::start(2, &["--renew-interval", "1s"]).await.unwrap();
    let client = cluster.client.clone();
    let oracle = Arc::new(Oracle::default());
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let mut load = Load::start(&client, &agents, &oracle, 8);

    // Master 2 runs on, and agents go on asking it. The operator replaces it all the same.
    cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[0]).unwrap();
    let survivor_at = cluster.masters[0].peer_listen;
    let mut replacement = cluster.another_master("replacement", 2, cluster.dir().join("new-2"), survivor_at).unwrap();
    let mut survivor = cluster.with_other_peer(&cluster.masters[0], replacement.peer_listen).unwrap();
    survivor.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/healthz", 200).await.unwrap();
    let joined = join(&token, &replacement, survivor.peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    replacement.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/readyz", 200).await.unwrap();
    until_status(&client, &mut replacement.daemon, "/readyz", 200).await.unwrap();

    // The zombie is told so, grants nothing, and says why.
    let refused = until_status(&client, &mut cluster.masters[1].daemon, "/readyz", 503).await.unwrap();
    assert!(refused.text().contains("master"), "{}", refused.text());
    let taken: Vec<String> = {
        let mut tokens = Vec::new();
        for nth in 0..2 {
            tokens.push(cluster.agent_status(nth).await.unwrap().token("uint2").unwrap().to_owned());
        }
        tokens
    };

    // An agent that knows only the new pair gets a token of its own.
    let masters = format!("{},{}", survivor.agent_listen, replacement.agent_listen);
    let new = cluster.add_agent(&[]).unwrap();
    let agent = &cluster.agents[new];
    let (file, http, rpc) = (agent.serial_file(), agent.daemon.http.to_string(), agent.rpc_listen.to_string());
    #[rustfmt::skip]
    let args = [
        "--serial-file", file.to_str().unwrap(), "--masters", &masters, "--agent-id", "newcomer",
        "--http-listen", &http, "--rpc-listen", &rpc,
    ];
    let log = cluster.dir().join("newcomer.log");
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let mut daemon =
        programs::Daemon::new("newcomer", programs::generator().unwrap(), args, cluster.agents[new].daemon.http, log);
    daemon.start().unwrap();
    until_status(&client, &mut daemon, "/readyz", 200).await.unwrap();
    mints(&cluster, new).await;
    let newcomer = cluster.agent_status(new).await.unwrap();
    assert!(!taken.contains(&newcomer.token("uint2").unwrap().to_owned()), "{newcomer:?} {taken:?}");

    // The old agents go on, with whichever master they ask.
    let minted = oracle.total();
    until("more IDs", || async { (oracle.total() > minted + 20_000).then_some(()) }).await.unwrap();
    load.check().unwrap();
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// Master 2 lives on while the operator replaces it by one at another address. Gives the survivor and the replacement.
async fn replace_master_2_while_it_lives(cluster: &mut Cluster) -> (Master, Master) {
    let client = cluster.client.clone();
    cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[0]).unwrap();
    let survivor_at = cluster.masters[0].peer_listen;
    let mut replacement = cluster.another_master("replacement", 2, cluster.dir().join("new-2"), survivor_at).unwrap();
    let mut survivor = cluster.with_other_peer(&cluster.masters[0], replacement.peer_listen).unwrap();
    survivor.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/healthz", 200).await.unwrap();
    let joined = join(&token, &replacement, survivor.peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    replacement.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/readyz", 200).await.unwrap();
    until_status(&client, &mut replacement.daemon, "/readyz", 200).await.unwrap();
    (survivor, replacement)
}

/// Waits until the replaced master 2 has turned away for good; then nobody can take it for the one to go on with.
async fn is_fenced(cluster: &mut Cluster) {
    let http = cluster.masters[1].daemon.http;
    let stopped = || async {
        let row = cluster.master_row(http).await.ok()?;
        (row["mode"] == "rolled-back").then_some(())
    };
    until("the replaced master stops", stopped).await.unwrap();
    cluster.masters[1].daemon.kill_9();
    let refused = peer_lost(&cluster.masters[1]).unwrap_err().to_string();
    assert!(refused.contains("must not go on alone"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_master_that_lives_is_told_so_on_its_own_connection() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let (survivor, _replacement) = replace_master_2_while_it_lives(&mut cluster).await;
    assert_ne!(cluster.masters[1].peer_listen, survivor.peer_listen);
    is_fenced(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_tell_a_replaced_master_that_reaches_nobody() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    // It is cut from the other one before it is replaced.
    let nobody = cluster.port().unwrap().to_string();
    let replaced = &mut cluster.masters[1].daemon;
    replaced.kill_9();
    replaced.set("--peer", &nobody);
    replaced.start().unwrap();
    let client = cluster.client.clone();
    until_status(&client, &mut cluster.masters[1].daemon, "/healthz", 200).await.unwrap();
    let (survivor, _replacement) = replace_master_2_while_it_lives(&mut cluster).await;

    let agent = Lessee::new("agent").unwrap();
    let (new, old) = (Lessee::connect(survivor.agent_listen), Lessee::connect(cluster.masters[1].agent_listen));
    let (new, old) = (new.await.unwrap(), old.await.unwrap());
    let told = agent.heartbeat(&new).await.unwrap().unwrap();
    // Nobody can make it up.
    let made_up = agent.heartbeat_with(&old, vec![RetiredProof([7; 32])]).await.unwrap().unwrap();
    assert!(made_up.mode != Mode::RolledBack && made_up.retired.is_empty(), "{made_up:?}");
    agent.heartbeat_with(&old, told.retired.clone()).await.unwrap().unwrap();
    is_fenced(&mut cluster).await;
    // It ends the pairing that it is of, not the one that followed.
    agent.heartbeat_with(&new, told.retired).await.unwrap().unwrap();
    assert_eq!(agent.heartbeat(&new).await.unwrap().unwrap().mode, Mode::Ready);
}

/// Agents of the old pair and agents of the new one mint beside each other, under masters that know nothing of each other,
/// until one of the agents' calls tells the replaced master; then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_both_pairs_mint_beside_each_other_and_repeat_nothing() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let client = cluster.client.clone();
    // Two that know master 2 alone, and one of the master that goes on.
    let only = [1, 1, 0].map(|nth: usize| cluster.masters[nth].agent_listen.to_string());
    for at in &only {
        let nth = cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.set("--masters", at);
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let nobody = cluster.port().unwrap().to_string();
    let replaced = &mut cluster.masters[1].daemon;
    replaced.terminate().await.unwrap();
    replaced.set("--peer", &nobody);
    replaced.start().unwrap();
    until_status(&client, replaced, "/healthz", 200).await.unwrap();
    let (survivor, replacement) = replace_master_2_while_it_lives(&mut cluster).await;
    let pair = format!("{},{}", survivor.agent_listen, replacement.agent_listen);
    for _ in 0..3 {
        let nth = cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.set("--masters", &pair);
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
    }

    let oracle = Arc::new(Oracle::default());
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let mut load = Load::paced(&client, &agents, &oracle, 12, Pace::resting(Duration::from_millis(200)));
    let more = |ids: usize| {
        let (goal, oracle) = (oracle.total() + ids, Arc::clone(&oracle));
        async move { until("more IDs", || async { (oracle.total() > goal).then_some(()) }).await.unwrap() }
    };
    more(10_000).await;
    // The replaced one, alone, renews for its own; nobody is granted anything there.
    let alone = cluster.masters[1].daemon.http;
    let renews = || async { (cluster.master_row(alone).await.ok()?["mode"] == "ready-alone").then_some(()) };
    until("the replaced master goes on alone", renews).await.unwrap();
    let ends = async || {
        let rows = cluster.leases(1, "agent=agent-1&type=uint2&state=held").await.ok()?;
        rows.first()?["until"].as_str().map(str::to_owned)
    };
    let before = ends().await.unwrap();
    until("it renews", || async { ends().await.filter(|end| *end > before) }).await.unwrap();
    let stranger = Lessee::new("stranger").unwrap();
    let old = Lessee::connect(cluster.masters[1].agent_listen).await.unwrap();
    let refused = stranger.request(&old, TokenType::Uint2).await.unwrap();
    assert!(refused.is_err(), "a token was granted by one master alone: {refused:?}");
    more(10_000).await;
    load.check().unwrap();
    for kind in tests::client::KINDS {
        for nth in 0..cluster.agents.len() {
            assert_eq!(cluster.ask_agent(nth, kind.path()).await.unwrap().status, 200, "agent {nth}");
        }
    }

    // An agent that has the replaced master in its list by mistake hears of the end from the one, and greets the other.
    let nth = cluster.add_agent(&[]).unwrap();
    let both = format!("{},{}", survivor.agent_listen, cluster.masters[1].agent_listen);
    let daemon = &mut cluster.agent(nth).unwrap().daemon;
    daemon.set("--masters", &both);
    daemon.start().unwrap();
    is_fenced(&mut cluster).await;
    until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
    more(10_000).await;
    let mut tokens = std::collections::BTreeSet::new();
    for nth in 0..cluster.agents.len() {
        tokens.insert(cluster.agent_status(nth).await.unwrap().token("uint2").unwrap().to_owned());
    }
    assert_eq!(tokens.len(), cluster.agents.len(), "{tokens:?}");
    load.check().unwrap();
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// A day in less than a second: the permit of a lone master reaches 30 days.
const SCALE: u32 = 100_000;

/// The numbers there are.
const NUMBERS: [&str; 2] = ["0", "1"];
/// The refusals of an agent whose lease is over: by its own clock, or because a master said so first.
const OVER: [&str; 2] = ["lease_expired", "no_lease"];

/// Fetches Uniq96 from an agent until it has no lease any more, and gives the latest time written into one.
async fn latest_written(client: Client, url: String, oracle: Arc<Oracle>) -> String {
    let mut latest = String::new();
    let fetched = || async {
        let answer = client.get_as(&url, Media::Text).await.ok()?;
        let ids = answer.ids(Kind::Uniq96, Media::Text).ok()?;
        Some(ids)
    };
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if let Some(ids) = fetched().await {
            oracle.note(Kind::Uniq96.namespace(), &url, &ids);
            let Ids::Uniq96(ids) = ids else { panic!("asked for Uniq96") };
            for id in ids {
                latest = latest.max(written(id));
            }
        } else if client.get(&url).await.is_ok_and(|answer| OVER.contains(&answer.code().as_str())) {
            return latest;
        }
    }
}

/// The time in a Uniq96, as the masters write theirs.
fn written(id: u128) -> String {
    let at = plain_ids::uniq96((id >> 32) as u64);
    let day = format!("{:04}-{:02}-{:02}", at.year, at.month, at.day);
    format!("{day}T{:02}:{:02}:{:02}.{:03}Z", at.hour, at.minute, at.second, at.millisecond)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agents_of_a_replaced_master_that_lives_on_end_at_its_permit() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let test_clock = cluster.run_by_test_clock(SCALE, &["--lease-days", "7", "--uint2-max", "1"]).unwrap();
    let flags = ["--test-clock", &test_clock, "--token-types", "uint2"];
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();

    // Two agents that know master 2 alone have both numbers there are.
    let zombie = cluster.masters[1].agent_listen.to_string();
    for _ in 0..2 {
        let nth = cluster.add_agent(&flags).unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.set("--masters", &zombie);
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let oracle = Arc::new(Oracle::default());
    let minting: Vec<_> = (0..2)
        .map(|nth| {
            let url = cluster.agent_url(nth, "uniq96?n=100").unwrap();
            tokio::spawn(latest_written(client.clone(), url, Arc::clone(&oracle)))
        })
        .collect();

    // Master 1 declares master 2 lost, and is joined by another one; master 2 runs on.
    cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[0]).unwrap();
    let survivor_at = cluster.masters[0].peer_listen;
    let mut replacement = cluster.another_master("replacement", 2, cluster.dir().join("new-2"), survivor_at).unwrap();
    let mut survivor = cluster.with_other_peer(&cluster.masters[0], replacement.peer_listen).unwrap();
    survivor.daemon.set("--test-clock", &test_clock);
    replacement.daemon.set("--test-clock", &test_clock);
    survivor.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/healthz", 200).await.unwrap();
    let joined = join(&token, &replacement, survivor.peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    replacement.daemon.start().unwrap();
    until_status(&client, &mut replacement.daemon, "/readyz", 200).await.unwrap();
    let permit =
        cluster.master_row(cluster.masters[1].daemon.http).await.unwrap()["permit"].as_str().unwrap().to_owned();

    // Two more agents, of the new pair alone, wait for a number, and clients ask all four for IDs.
    let pair = format!("{},{}", survivor.agent_listen, replacement.agent_listen);
    for _ in 2..4 {
        let nth = cluster.add_agent(&flags).unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.set("--masters", &pair);
        daemon.start().unwrap();
    }
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let load = Load::paced(&client, &agents, &oracle, 9, Pace::resting(Duration::from_millis(300)));

    // Nobody else has either number before the permit is over and the rest after it.
    let last = [Mutex::new(String::new()), Mutex::new(String::new())];
    let granted = |nth: usize| {
        let (cluster, last) = (&cluster, &last[nth]);
        move || async move {
            let rows = cluster.leases(0, "type=uint2").await.ok()?;
            let row = rows.into_iter().find(|row| row["token"].as_str() == Some(NUMBERS[nth]))?;
            let reuse_at = row["reuse_at"].as_str()?.to_owned();
            match row["g"].as_u64()? {
                1 => {
                    *last.lock().unwrap() = reuse_at;
                    None
                }
                _ => Some(row["from"].as_str()?.to_owned()),
            }
        }
    };
    let (one, two) = tokio::join!(until("a new holder", granted(0)), until("a new holder", granted(1)));
    for ((from, took), last) in [one.unwrap(), two.unwrap()].into_iter().zip(&last) {
        let reuse_at = last.lock().unwrap().clone();
        println!("granted again for {from} after {took:?}: permit to {permit}, reusable {reuse_at}");
        assert!(from >= reuse_at && reuse_at > permit, "granted from {from}, permit {permit}, reusable {reuse_at}");
    }
    for minting in minting {
        let latest = minting.await.unwrap();
        println!("an agent of the replaced master wrote no later than {latest}");
        assert!(!latest.is_empty() && latest < permit, "{latest} is not before {permit}");
    }
    for nth in 2..4 {
        until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
    }
    let goal = oracle.total() + 20_000;
    until("IDs of the new holders", || async { (oracle.total() > goal).then_some(()) }).await.unwrap();
    for nth in 0..2 {
        let answer = cluster.ask_agent(nth, Kind::Uniq64.path()).await.unwrap();
        assert!(answer.status == 503 && OVER.contains(&answer.code().as_str()), "{}", answer.text());
    }
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// The disk of the survivor is put back to before its replacement joined, and somebody who does not know that vouches for it. It hears
/// of its replacement before it goes on alone, gives no number again, and the remedy that it names is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_put_back_to_before_the_join_gives_no_number_again() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let client = cluster.client.clone();
    // One that knows master 1 alone, and one of master 2.
    for master in 0..2 {
        let only = cluster.masters[master].agent_listen.to_string();
        let nth = cluster.add_agent(&[]).unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.set("--masters", &only);
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
    }
    let url = cluster.agent_url(0, "generators/orders").unwrap();
    let defined = client.ask("PUT", &url, br#"{"kind":"segment","step":100}"#.to_vec()).await.unwrap();
    assert_eq!(defined.status, 201, "{}", defined.text());
    let mut given = BTreeSet::new();
    let numbers = async |cluster: &Cluster, nth: usize| {
        let answer = cluster.ask_agent(nth, "segment/orders?n=50").await.ok();
        let answer = answer.filter(|answer| answer.status == 200).map(|answer| answer.text()).unwrap_or_default();
        answer.lines().map(str::to_owned).collect::<Vec<_>>()
    };

    cluster.masters[1].daemon.kill_9();
    std::fs::remove_dir_all(&cluster.masters[1].data_dir).unwrap();
    cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[0]).unwrap();
    keep(&cluster.masters[0]).unwrap();
    cluster.masters[0].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[0].daemon, "/healthz", 200).await.unwrap();
    let joined = join(&token, &cluster.masters[1], cluster.masters[0].peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    cluster.masters[1].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let mut rest = 40;
    while given.len() < 2_000 && rest > 0 {
        for nth in 0..2 {
            for number in numbers(&cluster, nth).await {
                assert!(given.insert(number), "given twice");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        rest -= 1;
    }
    assert!(given.len() > 500, "{}", given.len());

    cluster.masters[0].daemon.terminate().await.unwrap();
    put_back(&cluster.masters[0]).unwrap();
    let refused = remedy(&cluster.masters[0], "--after-revert", &["--confirm", "both ledgers are old"]).unwrap();
    assert_eq!(refused.status, Some(1), "{refused:?}");
    assert!(refused.err.contains("one may have joined since"), "{refused:?}");
    cluster.masters[0].daemon.args.push("--vouch-untouched".to_owned());
    cluster.masters[0].daemon.start().unwrap();
    // Longer than it takes to go on alone.
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(15) {
        for nth in 0..2 {
            for number in numbers(&cluster, nth).await {
                assert!(given.insert(number), "given twice");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{} numbers", given.len());
    let row = cluster.master_row(cluster.masters[0].daemon.http).await.unwrap();
    assert_eq!(row["mode"], "rolled-back", "{row}");
    for (nth, words) in [(0, "--peer-lost` on the other one"), (1, "--peer-lost` here")] {
        let said = until_status(&client, &mut cluster.masters[nth].daemon, "/readyz", 503).await.unwrap();
        assert!(said.text().contains(words), "{}", said.text());
    }

    cluster.masters[0].daemon.kill_9();
    let refused = peer_lost(&cluster.masters[0]).unwrap_err().to_string();
    assert!(refused.contains("must not go on alone"), "{refused}");
    cluster.masters[1].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[1]).unwrap();
    cluster.masters[1].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[1].daemon, "/healthz", 200).await.unwrap();
    std::fs::remove_dir_all(&cluster.masters[0].data_dir).unwrap();
    let joined = join(&token, &cluster.masters[0], cluster.masters[1].peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    cluster.masters[0].daemon.args.pop();
    cluster.masters[0].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    for nth in 0..2 {
        let again = || async { Some(numbers(&cluster, nth).await).filter(|numbers| !numbers.is_empty()) };
        for number in until("numbers go on", again).await.unwrap().0 {
            assert!(given.insert(number), "given twice");
        }
    }
}
