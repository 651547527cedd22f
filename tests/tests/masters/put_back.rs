//! Disks of masters that are put back to an earlier state, lost, or written by a wrong calendar: no ID comes twice, the
//! operator hears what happened, and the remedy that is named works.

use common::lease::{Generation, Grant};
use common::token::TokenType;
use net::rpc::lease::Rent;
use std::sync::Arc;
use std::time::Duration;
use tests::client::Kind;
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::lessee::Lessee;
use tests::load::Load;
use tests::operator::{format_anew, keep, put_back, remedy};
use tests::oracle::Oracle;

async fn stop_masters(cluster: &mut Cluster) {
    for master in &mut cluster.masters {
        master.daemon.terminate().await.unwrap();
    }
}

fn start_masters(cluster: &mut Cluster) {
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
}

/// Waits until a master's `/readyz` says that nothing can be granted, for a reason with these words in it.
async fn not_ready_because(cluster: &Cluster, nth: usize, words: &str) {
    let url = format!("http://{}/readyz", cluster.masters[nth].daemon.http);
    let said = || async {
        let answer = cluster.client.get(&url).await.ok()?;
        (answer.status == 503 && answer.text().contains(words)).then_some(())
    };
    until(&format!("master {} says {words}", nth + 1), said).await.unwrap();
}

async fn ready(cluster: &mut Cluster) {
    let client = cluster.client.clone();
    for master in &mut cluster.masters {
        until_status(&client, &mut master.daemon, "/readyz", 200).await.unwrap();
    }
}

/// An agent that asks these masters and mints under `oracle`; started, not ready.
fn load_on(cluster: &Cluster, nth: usize, oracle: &Arc<Oracle>, seed: u64) -> Load {
    let agent = &cluster.agents[nth];
    Load::start(&cluster.client, &[(agent.daemon.name.clone(), agent.daemon.http)], oracle, seed)
}

async fn numbers_of(cluster: &Cluster, nth: usize) -> Option<String> {
    cluster.agent_status(nth).await.ok()?.token("uint2").map(str::to_owned)
}

fn value(token: &str) -> u32 {
    token.parse().unwrap()
}

/// Both disks are put back to before B was granted its token. B, which mints on, shows its receipt: nothing is granted any
/// more, both masters say so, and after the operator's word only what B cannot have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_both_masters_have_forgotten_is_granted_to_nobody_else() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let client = cluster.client.clone();
    stop_masters(&mut cluster).await;
    cluster.masters.iter().try_for_each(keep).unwrap();
    start_masters(&mut cluster);
    ready(&mut cluster).await;

    let oracle = Arc::new(Oracle::default());
    let b = cluster.add_agent(&["--token-types", "uint2"]).unwrap();
    let daemon = &mut cluster.agent(b).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let mut b_mints = load_on(&cluster, b, &oracle, 1);
    let held = numbers_of(&cluster, b).await.unwrap();

    stop_masters(&mut cluster).await;
    cluster.masters.iter().try_for_each(put_back).unwrap();
    start_masters(&mut cluster);
    // C asks from the first moment on.
    let c = cluster.add_agent(&["--token-types", "uint2"]).unwrap();
    cluster.agent(c).unwrap().daemon.start().unwrap();
    for nth in 0..2 {
        not_ready_because(&cluster, nth, "--after-revert").await;
    }
    let mut c_mints = load_on(&cluster, c, &oracle, 2);
    tokio::time::sleep(Duration::from_secs(3)).await;
    b_mints.check().unwrap();
    assert_eq!(numbers_of(&cluster, b).await, Some(held.clone()), "B goes on with what it holds");
    assert_eq!(numbers_of(&cluster, c).await, None, "C is granted nothing");

    // It stays so across a restart, and the command wants to be confirmed.
    stop_masters(&mut cluster).await;
    start_masters(&mut cluster);
    for nth in 0..2 {
        not_ready_because(&cluster, nth, "--after-revert").await;
    }
    stop_masters(&mut cluster).await;
    let unsaid = remedy(&cluster.masters[0], "--after-revert", &[]).unwrap();
    assert!(unsaid.status == Some(1) && unsaid.err.contains("both ledgers are old"), "{unsaid:?}");
    for master in &cluster.masters {
        let said = ["--above", "2000", "--confirm", "both ledgers are old"];
        let done = remedy(master, "--after-revert", &said).unwrap();
        assert!(done.status == Some(0) && done.err.contains("above 2000"), "{done:?}");
    }
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    until_status(&client, &mut cluster.agent(c).unwrap().daemon, "/readyz", 200).await.unwrap();
    assert!(value(&numbers_of(&cluster, c).await.unwrap()) > 2_000, "C has what B cannot have");
    assert_eq!(numbers_of(&cluster, b).await, Some(held), "B still has its own");
    tokio::time::sleep(Duration::from_secs(2)).await;
    ready(&mut cluster).await;
    c_mints.check().unwrap();
    let met = (b_mints.stop().await.unwrap(), c_mints.stop().await.unwrap());
    let verdict = oracle.verdict();
    println!("{verdict}\n  meanwhile clients met: {met:?}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// The time that masters promise nothing after they met on stores that may have been put back.
const QUIET: Duration = Duration::from_secs(90);

/// The next number of a key that an agent gives, asked for until it does.
async fn number_of(cluster: &Cluster, nth: usize, n: u32) -> u64 {
    let given = || async {
        let answer = cluster.ask_agent(nth, &format!("sequence/inbox/7?n={n}")).await.ok()?;
        (answer.status == 200).then(|| answer.text().lines().last()?.parse().ok()).flatten()
    };
    until("the key is served", given).await.unwrap().0
}

/// Finds the agent that serves the section of that key, as a master says.
async fn owner_of(cluster: &Cluster) -> Option<usize> {
    let at = cluster.routes("inbox").await.ok()?.first()?.http.clone();
    cluster.agents.iter().position(|agent| agent.daemon.http.to_string() == at)
}

/// Numbers of a key that an agent gives, if it gives any now; each is above `last`, all that was given before.
async fn numbers_above(cluster: &Cluster, nth: usize, last: u64) -> Option<u64> {
    let answer = cluster.ask_agent(nth, "sequence/inbox/7?n=100").await.ok()?;
    if answer.status != 200 {
        return None;
    }
    let numbers: Vec<u64> = answer.text().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 100, "{numbers:?}");
    assert!(numbers[0] > last && numbers.is_sorted_by(|a, b| a < b), "{numbers:?} after {last}");
    numbers.last().copied()
}

/// A section whose owner gave 11 numbers and runs on, moved since to another agent, which gave thousands; and both disks put back to before
/// that. The masters are stopped. The greatest number that was given, the former owner, and the one that the masters have forgotten.
async fn forgotten_move(cluster: &mut Cluster) -> (u64, usize, usize) {
    for master in &mut cluster.masters {
        master.daemon.set("--sequence-lease", "2");
    }
    start_masters(cluster);
    for _ in 0..2 {
        let nth = cluster.add_agent(&[]).unwrap();
        cluster.agents[nth].daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let definition = r#"{"kind":"sequence","keys_per_section":1000,"step":100,"solo_allowance":10000}"#;
    let url = cluster.agent_url(0, "generators/inbox").unwrap();
    let put = || async {
        let answer = cluster.client.ask("PUT", &url, definition.as_bytes().to_vec()).await.ok()?;
        [200, 201].contains(&answer.status).then_some(())
    };
    until("the name is registered", put).await.unwrap();
    let mut last = number_of(cluster, 0, 1).await;
    last = number_of(cluster, 1, 10).await.max(last);
    let former = until("a master says who serves the key", || owner_of(cluster)).await.unwrap().0;

    stop_masters(cluster).await;
    cluster.masters.iter().try_for_each(keep).unwrap();
    start_masters(cluster);
    ready(cluster).await;
    let next = 1 - former;
    let (to, console) = (cluster.agents[next].daemon.name.clone(), cluster.masters[0].daemon.http);
    let order = serde_json::json!({ "to": to, "confirm": "inbox/0" });
    let moved = || async {
        if owner_of(cluster).await == Some(next) {
            return Some(());
        }
        let answer = cluster.client.change(console, "/api/sections/inbox/0/move", &order).await.ok()?;
        // A master that was just started hears of its agents first.
        assert!([202, 404, 409, 503].contains(&answer.status), "{}", answer.text());
        None
    };
    until("the section has moved", moved).await.unwrap();
    for asked in 0..40 {
        let number = number_of(cluster, asked % 2, 100).await;
        assert!(number > last, "{number} after {last}");
        last = number;
    }
    stop_masters(cluster).await;
    cluster.masters.iter().try_for_each(put_back).unwrap();
    (last, former, next)
}

/// The operator's word on both stopped masters.
fn say_both_are_old(cluster: &Cluster) {
    for master in &cluster.masters {
        let said = ["--above", "2000", "--skip-numbers", "20000", "--confirm", "both ledgers are old"];
        let done = remedy(master, "--after-revert", &said).unwrap();
        assert_eq!(done.status, Some(0), "{done:?}");
    }
}

/// Numbers go on above `last` by both agents, beyond what the operator told them to skip.
async fn goes_on_above(cluster: &mut Cluster, mut last: u64) {
    start_masters(cluster);
    ready(cluster).await;
    for asked in 0..40 {
        let given = || numbers_above(cluster, asked % 2, last);
        last = until("the key is served", given).await.unwrap().0;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(last > 20_000, "{last}: the section skips what it was told");
}

/// Both disks are put back to before a section moved, and the operator says so. Its former owner runs on, and is the last one that the two
/// stores know of: what its successor has given is not its own to give.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_of_a_section_that_both_masters_have_forgotten_is_followed_above_all_that_it_gave() {
    let mut cluster = Cluster::new().unwrap();
    let (last, ..) = forgotten_move(&mut cluster).await;
    say_both_are_old(&cluster);
    goes_on_above(&mut cluster, last).await;
}

/// The same, and nobody says so. The former owner, whom the masters list, gives nothing that its successor gave or may have given; and the
/// successor shows what it was granted, after which nothing is given at all until the operator has spoken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_of_a_section_that_both_masters_have_forgotten_shows_them_that_they_have() {
    let mut cluster = Cluster::new().unwrap();
    let (mut last, ..) = forgotten_move(&mut cluster).await;
    start_masters(&mut cluster);
    let began = std::time::Instant::now();
    let url = format!("http://{}/readyz", cluster.masters[0].daemon.http);
    let shown = async || {
        let answer = cluster.client.get(&url).await.ok()?;
        (answer.status == 503 && answer.text().contains("--after-revert")).then_some(())
    };
    while shown().await.is_none() {
        assert!(began.elapsed() < PATIENCE, "nobody notices that both disks were put back; numbers up to {last}");
        for nth in 0..2 {
            last = numbers_above(&cluster, nth, last).await.unwrap_or(last);
        }
    }
    println!("shown after {:?}", began.elapsed());
    not_ready_because(&cluster, 1, "--after-revert").await;
    stop_masters(&mut cluster).await;
    say_both_are_old(&cluster);
    goes_on_above(&mut cluster, last).await;
}

/// Its successor is gone when the masters are back, so nobody can show them what they have forgotten. What it gave is not given again, as
/// far as one master may raise alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loaded_section_goes_on_where_masters_that_were_put_back_begin() {
    let mut cluster = Cluster::new().unwrap();
    let (mut last, former, next) = forgotten_move(&mut cluster).await;
    cluster.agents[next].daemon.kill_9();
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    // No bound is raised before owners that both have forgotten had their time.
    tokio::time::sleep(QUIET).await;
    for _ in 0..20 {
        let given = || numbers_above(&cluster, former, last);
        last = until("the former owner serves the key", given).await.unwrap().0;
    }
    assert!(last > 10_000, "{last}: above what the other one may have been granted");
}

/// A lease as a master has it.
async fn end_of(cluster: &Cluster, master: usize, token: &str) -> Option<String> {
    let rows = cluster.leases(master, "type=uint2").await.ok()?;
    let row = rows.into_iter().find(|row| row["token"] == token)?;
    Some(row["until"].as_str()?.to_owned())
}

/// Master 1 renews A alone, further than anybody else knows; its disk is put back to before that, and the two meet. The
/// lease ends at neither before what A was promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_master_promised_alone_counts_after_its_disk_was_put_back() {
    // A day in six seconds: a renewal a few seconds later reaches days further.
    let mut cluster = Cluster::new().unwrap();
    let test_clock = cluster.run_by_test_clock(14_400, &["--lease-days", "3", "--uint2-max", "0"]).unwrap();
    start_masters(&mut cluster);
    cluster.all_ready().await.unwrap();
    let mut a = Lessee::new("a").unwrap();
    a.test_clock = Some(test_clock.parse().unwrap());
    let at = [cluster.masters[0].agent_listen];
    let grant: Grant =
        a.obtain([cluster.masters[0].agent_listen, cluster.masters[1].agent_listen], TokenType::Uint2).await.unwrap();
    assert_eq!(grant.g, Generation(1));

    // Master 2 is away; what master 1 does alone from here on is forgotten.
    for nth in [1, 0] {
        cluster.masters[nth].daemon.terminate().await.unwrap();
    }
    keep(&cluster.masters[0]).unwrap();
    cluster.masters[0].daemon.start().unwrap();
    let renewed = || async {
        let master = Lessee::connect(at[0]).await.ok()?;
        a.heartbeat(&master).await.ok()?.ok()?;
        match a.renew(&master, &grant, 1).await.ok()?.ok()? {
            Rent::Success { until, .. } if until > grant.until => Some(until),
            _ => None,
        }
    };
    let (promised, _) = until("master 1 renews alone", renewed).await.unwrap();
    cluster.masters[0].daemon.kill_9();
    put_back(&cluster.masters[0]).unwrap();
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    for master in 0..2 {
        let end = end_of(&cluster, master, "0").await.unwrap();
        assert!(end >= promised.to_string(), "master {}: {end}, but {promised} was promised", master + 1);
    }
}

/// Both stores are lost and formatted again while B mints on unheard: nothing that B may have is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_total_loss_nothing_is_granted_that_an_unheard_agent_may_have() {
    let mut cluster = Cluster::start(1, &["--token-types", "uint2"]).await.unwrap();
    let client = cluster.client.clone();
    let oracle = Arc::new(Oracle::default());
    let b_mints = load_on(&cluster, 0, &oracle, 3);
    stop_masters(&mut cluster).await;
    for master in &cluster.masters {
        let plain = format_anew(master, &[]).unwrap();
        assert!(plain.err.contains("--after-total-loss") && plain.err.contains("wrong_cluster"), "{plain:?}");
        let careful = format_anew(master, &["--after-total-loss"]).unwrap();
        assert!(careful.err.contains("nothing is granted before"), "{careful:?}");
    }
    // The masters of the new cluster are elsewhere, so that B, which would stop when it hears them, never does.
    let (one, two) = (cluster.masters[0].data_dir.clone(), cluster.masters[1].data_dir.clone());
    let nowhere = cluster.port().unwrap();
    let second = cluster.another_master("new-2", 2, two, nowhere).unwrap();
    let first = cluster.another_master("new-1", 1, one, second.peer_listen).unwrap();
    let second = cluster.with_other_peer(&second, first.peer_listen).unwrap();
    let old = std::mem::replace(&mut cluster.masters, vec![first, second]);
    drop(old);
    start_masters(&mut cluster);
    for nth in 0..2 {
        not_ready_because(&cluster, nth, "nothing is granted before").await;
    }
    stop_masters(&mut cluster).await;
    for master in &cluster.masters {
        let above = format_anew(master, &["--after-total-loss", "--above", "1099"]).unwrap();
        assert!(above.err.contains("only values above 1099"), "{above:?}");
    }
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    let c = cluster.add_agent(&["--token-types", "uint2"]).unwrap();
    let daemon = &mut cluster.agent(c).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    assert!(value(&numbers_of(&cluster, c).await.unwrap()) > 1_099);
    let c_mints = load_on(&cluster, c, &oracle, 4);
    for kind in [Kind::Uniq64, Kind::Uniq96] {
        for nth in [0, c] {
            assert_eq!(cluster.ask_agent(nth, kind.path()).await.unwrap().status, 200);
        }
    }
    let met = (b_mints.stop().await.unwrap(), c_mints.stop().await.unwrap());
    let verdict = oracle.verdict();
    println!("{verdict}\n  meanwhile clients met: {met:?}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// Both calendars were 81 days ahead for a while: nothing is granted, both masters say why, and an operator's word ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_calendars_that_were_wrong_do_not_stop_a_cluster_for_good() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    // A clock that runs twice as fast since 81 days ago is 81 days ahead.
    let ahead = format!("2@{}", now - 81 * 86_400_000);
    for master in &mut cluster.masters {
        master.daemon.set("--test-clock", &ahead);
    }
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    stop_masters(&mut cluster).await;
    for master in &mut cluster.masters {
        master.daemon.unset("--test-clock");
    }
    start_masters(&mut cluster);
    for nth in 0..2 {
        not_ready_because(&cluster, nth, "--forget-clock").await;
    }
    stop_masters(&mut cluster).await;
    let unsaid = remedy(&cluster.masters[0], "--forget-clock", &[]).unwrap();
    assert!(unsaid.status == Some(1) && unsaid.err.contains("the calendars are right now"), "{unsaid:?}");
    for master in &cluster.masters {
        let done = remedy(master, "--forget-clock", &["--confirm", "the calendars are right now"]).unwrap();
        assert_eq!(done.status, Some(0), "{done:?}");
    }
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    let agent = cluster.add_agent(&[]).unwrap();
    let daemon = &mut cluster.agent(agent).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
}

/// Two stores neither of which is proven to be the one that was last written: both masters say that agents come first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_without_a_proof_grant_nothing_in_the_first_moment_and_say_so() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    stop_masters(&mut cluster).await;
    cluster.masters.iter().try_for_each(keep).unwrap();
    cluster.masters.iter().try_for_each(put_back).unwrap();
    start_masters(&mut cluster);
    for nth in 0..2 {
        not_ready_because(&cluster, nth, "new leases, names and numbers in a moment").await;
    }
    let master = Lessee::connect(cluster.masters[0].agent_listen).await.unwrap();
    let refused = Lessee::new("a").unwrap().request(&master, TokenType::Uint2).await.unwrap().unwrap_err();
    assert_eq!(refused, net::rpc::lease::Refusal::Quiet);
}

/// All clocks were three hours ahead for a while, and are right now: an agent that minted meanwhile is not ready, names the command that
/// helps, and mints by the clock after it, under another token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_minted_while_all_clocks_were_ahead_says_what_to_do_and_it_helps() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    // A clock that runs twice as fast since three hours ago is three hours ahead.
    let ahead = format!("2@{}", now - 3 * 3_600_000);
    cluster.masters.iter_mut().for_each(|master| master.daemon.set("--test-clock", &ahead));
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    let agent = cluster.add_agent(&[]).unwrap();
    let daemon = &mut cluster.agent(agent).unwrap().daemon;
    daemon.set("--test-clock", &ahead);
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let mut ids = Vec::new();
    for kind in [Kind::Uniq64, Kind::Uniq96] {
        ids.push(cluster.ask_agent(agent, kind.path()).await.unwrap().text());
    }
    let token = numbers_of(&cluster, agent).await.unwrap();

    let daemon = &mut cluster.agent(agent).unwrap().daemon;
    daemon.terminate().await.unwrap();
    daemon.unset("--test-clock");
    stop_masters(&mut cluster).await;
    for master in &mut cluster.masters {
        master.daemon.unset("--test-clock");
        let done = remedy(master, "--forget-clock", &["--confirm", "the calendars are right now"]).unwrap();
        assert_eq!(done.status, Some(0), "{done:?}");
    }
    start_masters(&mut cluster);
    ready(&mut cluster).await;
    cluster.agent(agent).unwrap().daemon.start().unwrap();
    let said = || async {
        let answer = cluster.ask_agent(agent, "readyz").await.ok()?;
        (answer.code() == "clock_behind" && answer.text().contains("--forget-clock")).then_some(())
    };
    until("the agent says that it is ahead, and what helps", said).await.unwrap();
    assert_eq!(cluster.ask_agent(agent, Kind::Uniq96.path()).await.unwrap().code(), "clock_behind");

    cluster.agent(agent).unwrap().daemon.terminate().await.unwrap();
    let file = cluster.agents[agent].serial_file();
    let forget = || {
        let mut command = tests::programs::command(&tests::programs::generator().unwrap());
        command.arg("--forget-clock").arg("--serial-file").arg(&file).output().unwrap()
    };
    let done = forget();
    assert!(done.status.success(), "{done:?}");
    let again = forget();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(1) && said.contains("nothing to forget"), "{said}");
    let daemon = &mut cluster.agent(agent).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    for kind in [Kind::Uniq64, Kind::Uniq96] {
        let answer = cluster.ask_agent(agent, kind.path()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            !ids.contains(&answer.text()) && answer.text() < ids.remove(0),
            "by the clock, which is behind what it was"
        );
    }
    assert_ne!(numbers_of(&cluster, agent).await.unwrap(), token);
}
