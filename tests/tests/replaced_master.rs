//! A master is lost for good, or believed to be, and replaced: nothing is repeated, leases go on, new ones are granted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use tests::client::Kind;
use tests::cluster::{Cluster, Master, until, until_status};
use tests::load::Load;
use tests::oracle::Oracle;
use tests::programs::{self, Ended};

fn master_command(args: &[&str]) -> Ended {
    programs::run(&programs::master().unwrap(), args, Path::new("/")).unwrap()
}

/// Declares the other master lost on a stopped one; gives the token.
fn peer_lost(survivor: &Master) -> String {
    let ended = master_command(&["--peer-lost", "--data-dir", survivor.data_dir.to_str().unwrap()]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let token = ended.out.trim().to_owned();
    assert_eq!(token.len(), 64, "{ended:?}");
    token
}

fn join(token: &str, replacement: &Master, survivor: &Master) -> Ended {
    let (dir, id) = (replacement.data_dir.to_str().unwrap(), replacement.id.to_string());
    master_command(&["--join", token, "--data-dir", dir, "--id", &id, "--peer", &survivor.peer_listen.to_string()])
}

/// Ten kinds of requests at an agent that must mint.
async fn mints(cluster: &Cluster, nth: usize) {
    for kind in Kind::ALL {
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

    // Master 2 dies, and its disk with it. An empty store is no replacement.
    cluster.masters[1].daemon.kill_9();
    std::fs::remove_dir_all(&cluster.masters[1].data_dir).unwrap();
    assert_eq!(join(&"0".repeat(64), &cluster.masters[1], &cluster.masters[0]).status, Some(1), "without --peer-lost");

    cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[0]);
    cluster.masters[0].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[0].daemon, "/healthz", 200).await.unwrap();
    let wrong = join(&token.replace(|c| c != '0', "1"), &cluster.masters[1], &cluster.masters[0]);
    assert_eq!(wrong.status, Some(1), "{wrong:?}");
    assert!(wrong.err.contains("--peer-lost"), "{wrong:?}");
    let joined = join(&token, &cluster.masters[1], &cluster.masters[0]);
    assert_eq!(joined.status, Some(0), "{joined:?}");

    // The token is used up.
    let survivor = cluster.masters[0].peer_listen;
    let again = cluster.another_master("again", 2, cluster.dir().join("again"), survivor).unwrap();
    assert_eq!(join(&token, &again, &cluster.masters[0]).status, Some(1));

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
    let token = peer_lost(&cluster.masters[0]);
    let survivor_at = cluster.masters[0].peer_listen;
    let mut replacement = cluster.another_master("replacement", 2, cluster.dir().join("new-2"), survivor_at).unwrap();
    let mut survivor = cluster.with_other_peer(&cluster.masters[0], replacement.peer_listen).unwrap();
    survivor.daemon.start().unwrap();
    until_status(&client, &mut survivor.daemon, "/healthz", 200).await.unwrap();
    let joined = join(&token, &replacement, &survivor);
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
