//! Names across clusters, scopes and masters: two agents never give equal IDs by one name, or by two.

use common::namespace::{Definition, Namespace};
use net::rpc::lease::{Changed, DefineRequest, Refusal};
use net::rpc::mint::{MintCode, MintServiceClient};
use net::rpc::transport::{connect, deadline_in};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tests::client::Answer;
use tests::cluster::{Cluster, until, until_status};
use tests::lessee::{CALL_MAX, Lessee};
use tests::oracle::{Ids, Oracle};
use tests::programs;

const BATCH: usize = 1_000;
const TYPES: [&str; 2] = ["--token-types", "uint2,string2-include-letter,string3-include-letter"];

async fn strings(cluster: &Cluster, agent: usize, path: &str) -> Result<Vec<String>, Answer> {
    let answer = cluster.ask_agent(agent, &format!("{path}?n={BATCH}")).await.unwrap();
    if answer.status == 200 { Ok(answer.text().lines().map(str::to_owned).collect()) } else { Err(answer) }
}

fn note(oracle: &Oracle, namespace: &str, source: &str, ids: Vec<String>) {
    assert_eq!(ids.len(), BATCH);
    oracle.note(namespace, source, &Ids::Text(ids));
}

fn no_duplicates(oracle: Oracle) {
    let verdict = oracle.verdict();
    assert!(verdict.duplicates == 0, "{verdict:?}");
    println!("{verdict:?}");
}

/// Ends both masters and formats their stores anew, as somebody does who tries things out; nothing is started.
fn format_anew(cluster: &mut Cluster) {
    for nth in [0, 1] {
        let master = cluster.master(nth).unwrap();
        master.daemon.kill_9();
        std::fs::remove_dir_all(&master.data_dir).unwrap();
        let (dir, id) = (master.data_dir.to_str().unwrap().to_owned(), master.id.to_string());
        let args = ["--format", "--data-dir", &dir, "--id", &id];
        let ended = programs::run(&programs::master().unwrap(), &args, "/".as_ref()).unwrap();
        assert_eq!(ended.status, Some(0), "{ended:?}");
    }
}

fn start_masters(cluster: &mut Cluster) {
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.start().unwrap();
    }
}

fn format_serial_file(cluster: &mut Cluster, nth: usize) {
    let agent = cluster.agent(nth).unwrap();
    let file = agent.serial_file();
    std::fs::remove_file(&file).unwrap();
    let args = ["--format", "--serial-file", file.to_str().unwrap()];
    let ended = programs::run(&programs::generator().unwrap(), &args, &agent.dir).unwrap();
    assert_eq!(ended.status, Some(0), "{ended:?}");
}

/// The same bytes in another file: what a reboot is to the file, and a restored backup.
fn touch(file: &Path) {
    let copy = file.with_extension("copy");
    std::fs::copy(file, &copy).unwrap();
    std::fs::rename(copy, file).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_does_not_outlive_its_cluster() {
    let mut cluster = Cluster::start(2, &TYPES).await.unwrap();
    let before = json!({"kind": "string", "template": "{date:%Y%m%d}{token}{serial:8}"});
    assert_eq!(cluster.put(0, "orders", before.to_string()).await.unwrap().status, 201);
    for agent in [0, 1] {
        assert_eq!(strings(&cluster, agent, "string/orders").await.unwrap().len(), BATCH);
    }
    for agent in [0, 1] {
        cluster.agent(agent).unwrap().daemon.terminate().await.unwrap();
    }
    format_anew(&mut cluster);
    start_masters(&mut cluster);

    // One with a new serial file, one on its old one, and one that registers the name with another template.
    format_serial_file(&mut cluster, 0);
    touch(&cluster.agents[1].serial_file());
    let registrar = cluster.add_agent(&TYPES).unwrap();
    cluster.agent(registrar).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let now = json!({
        "kind": "string", "template": "{date:%Y%m%d}{token}{serial:7}", "token_type": "string3-include-letter",
    });
    let registered = cluster.put(registrar, "orders", now.to_string()).await.unwrap();
    assert_eq!(registered.status, 201, "{}", registered.text());
    for agent in [0, 1] {
        cluster.agent(agent).unwrap().daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let oracle = Oracle::default();
    for agent in [0, 1, registrar] {
        note(&oracle, "orders", &format!("agent {agent}"), strings(&cluster, agent, "string/orders").await.unwrap());
        let all = cluster.ask_agent(agent, "generators").await.unwrap().json().unwrap();
        let row = all.as_array().unwrap().iter().find(|row| row["name"] == "orders").unwrap().clone();
        assert_eq!((&row["template"], &row["scope"]), (&now["template"], &json!("kind")), "agent {agent}: {row}");
    }
    no_duplicates(oracle);
}

fn copy_dir(from: &Path, to: &Path) {
    let args = ["-a", from.to_str().unwrap(), to.to_str().unwrap()];
    assert!(std::process::Command::new("cp").args(args).status().unwrap().success());
}

const BEFORE: &str = r#"{"kind": "string", "template": "{date:%Y%m%d}{token}{serial:8}"}"#;
const AFTER: &str = r#"{"kind": "string", "template": "{date:%Y%m%d}{serial:8}{token}"}"#;

/// A cluster in which `orders` was registered, and retired if so said, after the backups were made that both masters' stores are put back
/// to; nothing runs but agent 0, which has minted by the name.
async fn put_back_to_before_a_name(retired: bool) -> Cluster {
    let mut cluster = Cluster::start(1, &TYPES).await.unwrap();
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.terminate().await.unwrap();
        let dir = cluster.masters[nth].data_dir.clone();
        copy_dir(&dir, &dir.with_extension("backup"));
    }
    start_masters(&mut cluster);
    cluster.all_ready().await.unwrap();
    let before: Value = serde_json::from_str(BEFORE).unwrap();
    let registered =
        || async { (cluster.put(0, "orders", before.to_string()).await.unwrap().status == 201).then_some(()) };
    until("the masters are together again", registered).await.unwrap();
    assert_eq!(strings(&cluster, 0, "string/orders").await.unwrap().len(), BATCH);
    if retired {
        assert_eq!(retire(&cluster, 1, "orders").await.status, 200);
        assert_eq!(cluster.put(0, "orders", before.to_string()).await.unwrap().code(), "generator_exists");
    }
    for nth in [0, 1] {
        let master = cluster.master(nth).unwrap();
        master.daemon.kill_9();
        let dir = master.data_dir.clone();
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::rename(dir.with_extension("backup"), &dir).unwrap();
    }
    cluster
}

/// Agents tell masters what these have forgotten because both were put back, before anybody can say otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_both_masters_forgot_is_registered_again_by_who_serves_it() {
    let mut cluster = put_back_to_before_a_name(false).await;
    start_masters(&mut cluster);
    let other = cluster.add_agent(&TYPES).unwrap();
    let client = cluster.client.clone();
    cluster.agent(other).unwrap().daemon.start().unwrap();
    until_status(&client, &mut cluster.agent(other).unwrap().daemon, "/healthz", 200).await.unwrap();
    let after: Value = serde_json::from_str(AFTER).unwrap();
    let decided = || async {
        let answer = cluster.put(other, "orders", after.to_string()).await.unwrap();
        (answer.code() != "masters_unavailable").then_some(answer)
    };
    let (answer, took) = until("the masters know the name again", decided).await.unwrap();
    // Agents show what they serve with their first connection, and not when they would have asked again.
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!((answer.status, answer.code().as_str()), (409, "generator_exists"), "{}", answer.text());
    println!("known again after {took:?}");
    assert_eq!(strings(&cluster, 0, "string/orders").await.unwrap().len(), BATCH);
    // The masters know it a moment before the agent that told them has their answer.
    let said = || async { cluster.agents[0].daemon.log_tail(200).contains("had forgotten this name").then_some(()) };
    until("the agent says that it was forgotten", said).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retired_name_that_both_masters_forgot_stands_for_nothing_else() {
    let mut cluster = put_back_to_before_a_name(true).await;
    // Whoever served it remembers that it is retired, also after a restart.
    cluster.agent(0).unwrap().daemon.kill_9();
    start_masters(&mut cluster);
    cluster.agent(0).unwrap().daemon.start().unwrap();
    let other = cluster.add_agent(&TYPES).unwrap();
    let client = cluster.client.clone();
    cluster.agent(other).unwrap().daemon.start().unwrap();
    until_status(&client, &mut cluster.agent(other).unwrap().daemon, "/healthz", 200).await.unwrap();
    let after: Value = serde_json::from_str(AFTER).unwrap();
    let decided = || async {
        let answer = cluster.put(other, "orders", after.to_string()).await.unwrap();
        (answer.code() != "masters_unavailable").then_some(answer)
    };
    let (answer, took) = until("the masters know the name again", decided).await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (409, "generator_exists"), "{}", answer.text());
    assert!(answer.text().contains("retired") && took < Duration::from_secs(30), "{took:?}: {}", answer.text());
    println!("known again as retired after {took:?}");
    for agent in [0, other] {
        assert_eq!(strings(&cluster, agent, "string/orders").await.unwrap_err().status, 404);
    }
}

async fn retire(cluster: &Cluster, master: usize, name: &str) -> Answer {
    let console = cluster.masters[master].daemon.http;
    let path = format!("/api/namespaces/{name}/retire");
    cluster.client.change(console, &path, &json!({"confirm": name})).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_gave_no_id_stands_for_something_else_after_it_was_retired_and_then_never() {
    let cluster = Cluster::start(2, &TYPES).await.unwrap();
    let [before, after]: [Value; 2] = [BEFORE, AFTER].map(|text| serde_json::from_str(text).unwrap());
    let row = async || {
        let console = cluster.masters[0].daemon.http;
        let rows = cluster.client.console(console, "/api/namespaces").await.unwrap().json().unwrap();
        let mut rows = rows.as_array().unwrap().iter().filter(|row| row["name"] == "orders");
        rows.next().map(|row| (row["in_use"].clone(), row["template"].clone()))
    };
    assert_eq!(cluster.put(0, "orders", before.to_string()).await.unwrap().status, 201);
    assert_eq!(row().await, Some((json!(false), before["template"].clone())));
    let retired = retire(&cluster, 1, "orders").await;
    assert_eq!((retired.status, &retired.json().unwrap()["template"]), (200, &before["template"]));
    // The master that proposed it says so first.
    until("the other master has retired it, too", || async { row().await.is_none().then_some(()) }).await.unwrap();
    assert_eq!(retire(&cluster, 1, "orders").await.status, 404);
    // The first agent has heard of it as something else.
    let oracle = Oracle::default();
    let first = cluster.put(1, "orders", after.to_string()).await.unwrap();
    assert_eq!(first.status, 201, "{}", first.text());
    for agent in [0, 1] {
        let source = format!("agent {agent}");
        note(&oracle, "orders", &source, strings(&cluster, agent, "string/orders").await.unwrap());
    }
    no_duplicates(oracle);
    assert_eq!(row().await, Some((json!(true), after["template"].clone())));
    assert_eq!(retire(&cluster, 0, "orders").await.status, 200);
    for agent in [0, 1] {
        for definition in [&before, &after] {
            let answer = cluster.put(agent, "orders", definition.to_string()).await.unwrap();
            assert_eq!((answer.status, answer.code().as_str()), (409, "generator_exists"), "{}", answer.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_but_an_operator_keeps_most_templates_of_a_length_out_and_retiring_undoes_it() {
    let cluster = Cluster::start(1, &TYPES).await.unwrap();
    let console = cluster.masters[0].daemon.http;
    let broad = |n: usize| json!({"kind": "string", "template": format!("{{date:%Y%m%d}}{{token}}{{serial:6:36}}{{custom:{n}}}")});
    let honest = json!({"kind": "string", "template": "{date:%Y%m%d}{token}{serial:7}X"});
    for n in 1..=8 {
        let refused = cluster.put(0, &format!("broad{n}"), broad(n).to_string()).await.unwrap();
        assert_eq!((refused.status, refused.code().as_str()), (400, "bad_parameter"), "{}", refused.text());
        assert!(refused.text().contains("have an operator register the name"), "{}", refused.text());
        if n == 8 {
            // As long as those of `default`.
            continue;
        }
        let mut by_operator = broad(n);
        by_operator["name"] = json!(format!("broad{n}"));
        let registered = cluster.client.change(console, "/api/namespaces", &by_operator).await.unwrap();
        assert_eq!(registered.status, 201, "{}", registered.text());
    }
    let kept_out = cluster.put(0, "orders", honest.to_string()).await.unwrap();
    assert_eq!((kept_out.status, kept_out.code().as_str()), (409, "generator_conflict"), "{}", kept_out.text());
    assert!(kept_out.text().contains("'broad2'"), "{}", kept_out.text());
    assert_eq!(retire(&cluster, 0, "broad2").await.status, 200);
    assert_eq!(cluster.put(0, "orders", honest.to_string()).await.unwrap().status, 201);
    assert_eq!(strings(&cluster, 0, "string/orders").await.unwrap().len(), BATCH);
}

/// An agent that was not heard in time has minted by another definition than the one that the masters know since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_the_masters_contradict_gives_no_more_ids_and_is_an_alarm() {
    let mut cluster = put_back_to_before_a_name(false).await;
    cluster.agent(0).unwrap().daemon.kill_9();
    // An operator who is mistaken: nothing is waited for.
    for nth in [0, 1] {
        let daemon = &mut cluster.master(nth).unwrap().daemon;
        daemon.args.push("--vouch-untouched".to_owned());
        daemon.start().unwrap();
    }
    // One that has never heard of the name.
    let other = cluster.add_agent(&TYPES).unwrap();
    let client = cluster.client.clone();
    cluster.agent(other).unwrap().daemon.start().unwrap();
    until_status(&client, &mut cluster.agent(other).unwrap().daemon, "/readyz", 200).await.unwrap();
    let after: Value = serde_json::from_str(AFTER).unwrap();
    let registered =
        || async { (cluster.put(other, "orders", after.to_string()).await.unwrap().status == 201).then_some(()) };
    until("the name is registered anew", registered).await.unwrap();
    assert_eq!(strings(&cluster, other, "string/orders").await.unwrap().len(), BATCH);
    cluster.agent(0).unwrap().daemon.start().unwrap();
    until_status(&client, &mut cluster.agent(0).unwrap().daemon, "/healthz", 200).await.unwrap();

    // The first agent hears of it when it next asks about names, here because somebody registers one.
    let heard = cluster.put(0, "orders", after.to_string()).await.unwrap();
    assert_eq!((heard.status, heard.code().as_str()), (409, "generator_conflict"), "{}", heard.text());
    let refused = strings(&cluster, 0, "string/orders").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (409, "generator_conflict"), "{}", refused.text());
    let why = until_status(&client, &mut cluster.agent(0).unwrap().daemon, "/readyz", 503).await.unwrap();
    assert_eq!(why.code(), "generator_conflict");
    assert_eq!(cluster.ask_agent(0, "uniq64").await.unwrap().status, 200, "other names go on");
    let console = cluster.masters[0].daemon.http;
    let shown = || async {
        client.console(console, "/api/agents").await.ok()?.text().contains("stands for something else").then_some(())
    };
    until("the masters' operators see it", shown).await.unwrap();
    let logs = || [0, 1].map(|nth| cluster.masters[nth].daemon.log_tail(200));
    let alarmed = || async { logs().iter().all(|log| log.contains("ALARM of an agent")).then_some(()) };
    until("both masters' logs say so", alarmed).await.unwrap();

    // A restart does not mint by it either.
    let daemon = &mut cluster.agent(0).unwrap().daemon;
    daemon.kill_9();
    daemon.start().unwrap();
    until_status(&client, daemon, "/healthz", 200).await.unwrap();
    let refused = || async {
        let answer = strings(&cluster, 0, "string/orders").await.err()?;
        (answer.code() == "generator_conflict").then_some(())
    };
    until("the block in the serial file contradicts the masters", refused).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_masters_belong_to_another_cluster_stops_and_stays_stopped() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    assert_eq!(strings(&cluster, 0, "uniq64").await.unwrap().len(), BATCH);
    let held = cluster.agent_status(0).await.unwrap();
    format_anew(&mut cluster);
    start_masters(&mut cluster);
    let stopped = || async {
        let answer = cluster.ask_agent(0, "readyz").await.ok()?;
        (answer.code() == "wrong_cluster").then_some(answer)
    };
    let (why, took) = until("the agent hears that its masters are of another cluster", stopped).await.unwrap();
    assert!(why.status == 503 && why.text().contains("--format") && why.text().contains("--masters"), "{}", why.text());
    println!("stopped after {took:?}");
    for path in ["uniq64", "uniq96", "string?biz=TEST&custom=00"] {
        let refused = cluster.ask_agent(0, path).await.unwrap();
        assert_eq!((refused.status, refused.code().as_str()), (503, "wrong_cluster"), "{path}");
    }
    let status = cluster.ask_agent(0, "status").await.unwrap().json().unwrap();
    assert_eq!(status["not_ready"]["code"], "wrong_cluster", "{status}");

    // The new cluster grants the same token from today: it knows of no lease, and begins with the first values.
    let client = cluster.client.clone();
    let fresh = loop {
        let fresh = cluster.add_agent(&[]).unwrap();
        cluster.agent(fresh).unwrap().daemon.start().unwrap();
        until_status(&client, &mut cluster.agent(fresh).unwrap().daemon, "/readyz", 200).await.unwrap();
        if cluster.agent_status(fresh).await.unwrap().token("uint2") == held.token("uint2") {
            break fresh;
        }
        assert!(fresh < 8, "the scene that must not give two equal IDs did not come about");
    };
    // What both give from now on: the serials of the old one would lie among those of the new one.
    let oracle = Oracle::default();
    if let Ok(ids) = strings(&cluster, 0, "uniq64").await {
        note(&oracle, "uniq64", "the agent of the lost cluster", ids);
    }
    for _ in 0..3 {
        note(&oracle, "uniq64", "the agent of the new cluster", strings(&cluster, fresh, "uniq64").await.unwrap());
    }

    // Killed and started while no master answers: nothing is minted by a lease that was given up.
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.kill_9();
    }
    let daemon = &mut cluster.agent(0).unwrap().daemon;
    daemon.kill_9();
    daemon.start().unwrap();
    until_status(&client, daemon, "/healthz", 200).await.unwrap();
    let refused = cluster.ask_agent(0, "uniq64").await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "no_lease"), "{}", refused.text());
    assert!(cluster.agent_status(0).await.unwrap().resumed);
    start_masters(&mut cluster);
    let stopped = || async {
        let answer = cluster.ask_agent(0, "readyz").await.ok()?;
        (answer.code() == "wrong_cluster").then_some(())
    };
    until("it is stopped again", stopped).await.unwrap();

    // What it was told to do helps.
    cluster.agent(0).unwrap().daemon.terminate().await.unwrap();
    format_serial_file(&mut cluster, 0);
    cluster.agent(0).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    note(&oracle, "uniq64", "with a new serial file", strings(&cluster, 0, "uniq64").await.unwrap());
    no_duplicates(oracle);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_names_of_a_kind_give_equal_ids_unless_one_says_so() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    for (name, scope) in [("orders", "kind"), ("own", "own")] {
        let created = cluster.put(0, name, json!({"kind": "uniq64", "scope": scope}).to_string()).await.unwrap();
        assert_eq!(created.status, 201, "{}", created.text());
        assert_eq!(created.json().unwrap()["definition"]["scope"], scope);
    }
    let oracle = Oracle::default();
    for _ in 0..5 {
        note(&oracle, "uniq64", "default", strings(&cluster, 0, "uniq64").await.unwrap());
        note(&oracle, "uniq64", "orders", strings(&cluster, 0, "uniq64/orders").await.unwrap());
    }
    let own = strings(&cluster, 0, "uniq64/own").await.unwrap();
    let shared = strings(&cluster, 0, "uniq64/orders").await.unwrap();
    assert!(own[0] < shared[0], "a name with a scope of its own begins a series of its own");
    let reset = cluster.put(0, "daily", json!({"kind": "uniq64", "everyday_reset": true}).to_string()).await.unwrap();
    assert_eq!((reset.status, reset.code().as_str()), (400, "bad_parameter"));
    assert!(reset.text().contains("scope"), "{}", reset.text());
    let rows = cluster.ask_agent(0, "generators").await.unwrap().json().unwrap();
    let scope_of =
        |name: &str| rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()["scope"].clone();
    assert_eq!((scope_of("orders"), scope_of("own")), (json!("kind"), json!("own")));

    // Strings: pairs of templates each of which is fine alone. `P` keeps the pairs apart from each other.
    let string = |template: &str| json!({"kind": "string", "template": template});
    let pairs = [
        ("{date:%Y%m%d}{token}{serial:8}", "{date:%Y%m%d}{token}{serial:8}"),
        ("{date:%Y%m%d}{token}{serial:8}", "{date:%Y%m%d}{token}{serial:7}{check:luhn}"),
        ("{date:%Y%m%d}{token}{serial:8}", "{date:%Y%m%d}{serial:8}{token}"),
        ("{date:%Y%m%d}{token}{serial:8}", "{date:%Y%m%d}{token}{serial:8:36}"),
        ("{date:%Y%m%d}{token}{serial:8}", "{date:%Y%m%d}{biz:2}{token}{serial:6}"),
        ("{date:%Y%m%d}{token}{serial:10}", "{date:%Y%j}{token}{serial:11}"),
        ("{date:%Y%m%d}{token}{serial:8}", "{date:%Y%m%d}{token}{serial:6}{check:mod97}"),
    ];
    for (nth, (one, other)) in pairs.into_iter().enumerate() {
        let (one, other) = (format!("P{nth}{one}"), format!("P{nth}{other}"));
        let first = cluster.put(0, &format!("one{nth}"), string(&one).to_string()).await.unwrap();
        assert_eq!(first.status, 201, "{one}: {}", first.text());
        let name = format!("other{nth}");
        let refused = cluster.put(0, &name, string(&other).to_string()).await.unwrap();
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "generator_conflict"),
            "{other}: {}",
            refused.text()
        );
        let text = refused.text();
        assert!(text.contains(&format!("'one{nth}'")) && text.contains(&format!("e.g. P{nth}20")), "{text}");
        let own = json!({"kind": "string", "template": other, "scope": "own"});
        assert_eq!(cluster.put(0, &name, own.to_string()).await.unwrap().status, 201);
    }
    let default =
        cluster.put(0, "same", string("{date:%Y%m%d}{biz:4}{token}{serial:8}{custom:2}").to_string()).await.unwrap();
    assert!(default.status == 409 && default.text().contains("'default'"), "{}", default.text());
    no_duplicates(oracle);
}

async fn define(cluster: &Cluster, master: usize, namespace: Namespace) -> Result<Changed, Refusal> {
    let client = Lessee::connect(cluster.masters[master].agent_listen).await.unwrap();
    let request = DefineRequest { agent_id: "registrar".parse().unwrap(), cluster: None, caller: None, namespace };
    client.define_namespace(deadline_in(CALL_MAX), request).await.unwrap()?.outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_names_that_collide_and_are_registered_at_both_masters_at_once_one_is() {
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let settled = async |master: usize, name: String, template: String| loop {
        let namespace = Namespace::define(name.parse().unwrap(), &Definition::string(template.clone())).unwrap();
        match define(&cluster, master, namespace).await {
            Err(Refusal::Retry | Refusal::PeerAway | Refusal::Syncing) => {}
            done => return done.map(|_| ()),
        }
    };
    for round in 0..8 {
        let one = settled(round % 2, format!("a{round}"), format!("R{round}{{date:%Y%m%d}}{{token}}{{serial:8}}"));
        let two = settled(1 - round % 2, format!("b{round}"), format!("R{round}{{date:%Y%m%d}}{{serial:8}}{{token}}"));
        let (one, two) = tokio::join!(one, two);
        assert!(one.is_ok() != two.is_ok(), "round {round}: {one:?}, {two:?}");
        let refused = one.err().or(two.err()).unwrap();
        assert!(matches!(refused, Refusal::Collides { .. }), "round {round}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_agent_serves_a_name_from_the_first_request_after_it_was_registered() {
    let cluster = Cluster::start(2, &[]).await.unwrap();
    for nth in 0..6 {
        // The other agent has just asked the masters, and heard of no such name.
        let path = format!("uniq64/n{nth}");
        let unknown = cluster.ask_agent(1, &path).await.unwrap();
        assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_generator"), "{}", unknown.text());
        let created = cluster.put(0, &format!("n{nth}"), json!({"kind": "uniq64"}).to_string()).await.unwrap();
        assert_eq!(created.status, 201, "{}", created.text());
        let first = cluster.ask_agent(1, &path).await.unwrap();
        assert_eq!(first.status, 200, "{nth}: {}", first.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_from_one_address_are_bounded_and_a_retired_one_gives_no_more_ids() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let orders = json!({"kind": "uniq64", "scope": "own"});
    let mut registered = 0;
    let refused = loop {
        let answer = cluster.put(0, &format!("n{registered}"), orders.to_string()).await.unwrap();
        if answer.status != 201 {
            break answer;
        }
        registered += 1;
        assert!(registered < 200, "a client registers as many names as it likes");
    };
    assert_eq!((refused.status, refused.code().as_str()), (429, "quota_exceeded"), "{}", refused.text());
    assert!(!refused.header("retry-after").is_empty());
    // What is there may be said again as often as programs start.
    for _ in 0..50 {
        assert_eq!(cluster.put(0, "n0", orders.to_string()).await.unwrap().status, 200);
    }
    assert_eq!(strings(&cluster, 0, "uniq64/n0").await.unwrap().len(), BATCH);

    // An admin retires one: by key the body may be left out, people say the name once more.
    let console = cluster.masters[1].daemon.http;
    let cookie = cluster.client.log_in(console, "admin", tests::client::ADMIN_PASSWORD).await.unwrap();
    let http = reqwest::Client::new();
    let me: Value = {
        let answer = http.get(format!("http://{console}/api/me")).header("cookie", &cookie).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    };
    let csrf = me["csrf"].as_str().unwrap();
    let retire = async |name: &str, confirm: &str| {
        let request = http.post(format!("http://{console}/api/namespaces/{name}/retire")).header("cookie", &cookie);
        let body = json!({"confirm": confirm}).to_string();
        let request = request.header("x-csrf-token", csrf).header("content-type", "application/json").body(body);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!((retire("n0", "n1").await, retire("nosuch", "nosuch").await), (400, 404));
    assert_eq!((retire("n0", "n0").await, retire("n0", "n0").await), (200, 200));
    // The agent hears of it when it asks about names the next time.
    let again = cluster.put(0, "n0", orders.to_string()).await.unwrap();
    assert_eq!((again.status, again.code().as_str()), (409, "generator_exists"), "{}", again.text());
    let gone = cluster.ask_agent(0, "uniq64/n0").await.unwrap();
    assert_eq!((gone.status, gone.code().as_str()), (404, "unknown_generator"), "{}", gone.text());
    assert!(gone.text().contains("retired"), "{}", gone.text());
    assert_eq!(cluster.ask_agent(0, "readyz").await.unwrap().status, 200);
    let rows = cluster.client.console(console, "/api/namespaces").await.unwrap().json().unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "n0").unwrap();
    assert_eq!((&row["retired"], &row["scope"]), (&json!(true), &json!("own")), "{row}");
    let audit = cluster.client.console(console, "/api/audit").await.unwrap().text();
    assert!(audit.contains("namespace.retire"), "{audit}");
}

/// Small sections use up what all names have together, so an agent's callers register no name with such.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_below_a_thousand_keys_are_registered_by_operators_alone() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let of = |keys: u32| json!({"kind": "sequence", "keys_per_section": keys});
    let namespace = |name: &str, keys: u32| {
        let definition: Definition = serde_json::from_value(of(keys)).unwrap();
        Namespace::define(name.parse().unwrap(), &definition).unwrap()
    };
    let says_what_to_do = |text: &str| {
        assert!(text.contains("say 1000 or more") && text.contains("have an operator register"), "{text}");
    };
    let least = cluster.put(0, "least", of(1_000).to_string()).await.unwrap();
    assert_eq!(least.status, 201, "{}", least.text());

    let refused = cluster.put(0, "small", of(999).to_string()).await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_parameter"), "{}", refused.text());
    says_what_to_do(&refused.text());
    let transport = connect(&cluster.agents[0].rpc_listen.to_string()).await.unwrap();
    let agent = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    let refused =
        agent.define_generator(deadline_in(CALL_MAX), namespace("small", 999), false).await.unwrap().unwrap_err();
    assert_eq!(refused.code, MintCode::BadParameter);
    says_what_to_do(&refused.detail);
    for master in [0, 1] {
        let refused = define(&cluster, master, namespace("small", 999)).await.unwrap_err();
        assert_eq!(refused, Refusal::SmallSections { least: 1_000 });
        says_what_to_do(&refused.to_string());
    }
    assert_eq!(cluster.put(0, "small", of(1_001).to_string()).await.unwrap().status, 201, "nothing was registered");

    let tiny = json!({"name": "tiny", "kind": "sequence", "keys_per_section": 999});
    let console = cluster.masters[1].daemon.http;
    let by_operator = cluster.client.change(console, "/api/namespaces", &tiny).await.unwrap();
    assert_eq!(by_operator.status, 201, "{}", by_operator.text());
    // What is there may be said again by anybody.
    let again = cluster.put(0, "tiny", of(999).to_string()).await.unwrap();
    assert_eq!(again.status, 200, "{}", again.text());
    assert!(define(&cluster, 0, namespace("tiny", 999)).await.is_ok());
    let other = cluster.put(0, "tiny", of(998).to_string()).await.unwrap();
    assert_eq!((other.status, other.code().as_str()), (409, "generator_exists"), "{}", other.text());
}
