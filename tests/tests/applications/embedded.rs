//! An application that mints in its own process, on real masters: its names are those of all agents.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tests::cluster::{Cluster, PATIENCE, until};
use tests::programs;
use uniq_client::{Client, Error, MintCode, Slot};
use uniq_embed::{
    Definition, Embedded, MintError, Namespace, Refusal, SequenceSpec, Settings, StringSpec, UniqGenerator,
};

const TEMPLATE: &str = "{date:%Y%m%d}{biz:2}{token}{serial:6}{check:luhn}";
const BATCH: usize = 1_000;
/// The numbers that one master may grant a key alone, and how that is told.
const ALLOWANCE: u32 = 20_000;
const AT_MOST: &str = "at most 20000";
/// Less than any call waits for a master or a section.
const AT_ONCE: Duration = Duration::from_secs(5);

fn orders(everyday_reset: bool) -> Namespace {
    let definition = Definition::String(StringSpec {
        token_type: Some("string2-only-number".to_owned()),
        everyday_reset: Some(everyday_reset),
        ..StringSpec::of(TEMPLATE)
    });
    Namespace::define("orders".parse().unwrap(), &definition).unwrap()
}

fn start(serial_file: &Path, masters: &[String]) -> Embedded {
    let mut settings = Settings::new(serial_file, masters, "shop-1".parse().unwrap());
    settings.token_types.insert("string2-only-number".parse().unwrap());
    Embedded::start(settings).unwrap()
}

fn format(dir: &Path) -> std::path::PathBuf {
    let file = dir.join("shop.serial");
    let ended =
        programs::run(&programs::generator().unwrap(), &["--format", "--serial-file", "shop.serial"], dir).unwrap();
    assert_eq!(ended.status, Some(0), "{ended:?}");
    file
}

fn mint(from: &impl UniqGenerator, seen: &mut HashSet<String>) {
    for _ in 0..BATCH {
        let id = from.get_uniq_string("DE", "").unwrap();
        assert!(seen.insert(id.clone()), "{id} came twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_made_in_process_is_everybodys_and_is_known_again_without_masters() {
    let all = "string2-only-number,string2-include-letter,uint2";
    let mut cluster = Cluster::start(1, &["--token-types", all]).await.unwrap();
    let masters: Vec<String> = cluster.masters.iter().map(|master| master.agent_listen.to_string()).collect();
    let dir = tempfile::tempdir().unwrap();
    let file = format(dir.path());
    let mut seen = HashSet::new();

    // Blocking calls, as an application without a runtime makes them; they may also come from within one.
    let embedded = start(&file, &masters);
    embedded.wait_ready(PATIENCE).unwrap();
    let unknown = embedded.get_uniq_generator("orders").map(|_| ()).unwrap_err();
    assert!(matches!(&unknown, MintError::Refused(r) if matches!(**r, Refusal::UnknownGenerator { .. })), "{unknown}");
    for _ in 0..2 {
        let tried = embedded.try_generator(orders(true)).unwrap();
        assert_eq!((tried.is_new, tried.examples.len(), tried.warning), (true, 3, None), "nothing is registered");
    }
    let created = embedded.create_uniq_generator(orders(true)).unwrap();
    assert!(embedded.try_generator(orders(true)).is_ok_and(|again| !again.is_new));
    mint(&created, &mut seen);
    mint(&embedded.create_uniq_generator(orders(true)).unwrap(), &mut seen);
    assert!(embedded.try_generator(orders(false)).is_err(), "as the call itself");
    let other = embedded.create_uniq_generator(orders(false)).map(|_| ()).unwrap_err();
    assert!(matches!(&other, MintError::Refused(r) if matches!(**r, Refusal::GeneratorExists { .. })), "{other}");

    // The agent serves it from its first request on, and none of its IDs are among ours.
    let answer = cluster.ask_agent(0, &format!("string/orders?biz=DE&n={BATCH}")).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().lines().all(|id| seen.insert(id.to_owned())), "the agent gave an ID of ours");

    drop(embedded);
    let ended = created.get_uniq_string("DE", "").unwrap_err();
    assert!(matches!(ended, MintError::Refused(_)), "{ended}");
    drop(created);
    // It took its leave, as an agent that is told to stop does.
    let (client, http) = (&cluster.client, cluster.masters[0].daemon.http);
    let stopped = || async move {
        let rows = client.console(http, "/api/agents").await.ok()?.json().ok()?;
        let ours = rows.as_array()?.iter().find(|row| row["agent_id"] == "shop-1")?;
        (ours["state"] == "stopped").then_some(())
    };
    until("the masters show that the application stopped", stopped).await.unwrap();
    for master in &mut cluster.masters {
        master.daemon.kill_9();
    }
    let again = start(&file, &masters);
    again.wait_ready(Duration::from_secs(5)).unwrap();
    mint(&again.get_uniq_generator("orders").unwrap(), &mut seen);
    let unknown = again.get_uniq_generator("invoices").map(|_| ()).unwrap_err();
    assert!(matches!(&unknown, MintError::Refused(r) if matches!(**r, Refusal::MastersUnavailable(_))), "{unknown}");
    assert_eq!(seen.len(), 4 * BATCH);
}

/// Nobody stands where IDs of an application leave, on whichever way; the masters' operators see how many it were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_shows_how_many_ids_an_application_minted() {
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let masters: Vec<String> = cluster.masters.iter().map(|master| master.agent_listen.to_string()).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut settings = Settings::new(format(dir.path()), &masters, "shop-1".parse().unwrap());
    settings.token_types.insert("string2-include-letter".parse().unwrap());
    let embedded = Embedded::start(settings).unwrap();
    embedded.wait_ready(PATIENCE).unwrap();
    let shared = embedded.get_uniq_generator("default").unwrap();
    let mut ids = HashSet::new();
    // Exactly so many are counted once a thread has ended: until then its blocks count as a whole.
    let minted_by = |n: usize| {
        let generator = shared.clone();
        std::thread::spawn(move || (0..n).map(|_| generator.get_uniq64().unwrap()).collect::<Vec<_>>())
    };
    ids.extend(minted_by(1_000).join().unwrap());
    let threads = [1_500, 2_500].map(|n| {
        let generator = shared.clone();
        std::thread::spawn(move || {
            let block = generator.per_thread();
            (0..n).map(|_| block.get_uniq64().unwrap()).collect::<Vec<_>>()
        })
    });
    ids.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
    let mut batch = Vec::new();
    shared.get_batch64(300_000, &mut batch).unwrap();
    ids.extend(batch);
    ids.extend(minted_by(100).join().unwrap());
    let mut texts = Vec::new();
    shared.get_batch_string(40, "SHOP", "01", &mut texts).unwrap();
    texts.push(shared.get_uniq_string("SHOP", "01").unwrap());
    let generator = shared.clone();
    let wide = std::thread::spawn(move || (0..7).map(|_| generator.get_uniq96().unwrap()).collect::<HashSet<_>>());
    let wide = wide.join().unwrap();
    let given = ids.len() + texts.len() + wide.len();
    assert_eq!(given, 1_000 + 1_500 + 2_500 + 300_000 + 100 + 41 + 7);

    let last = Mutex::new(serde_json::Value::Null);
    let shown = || async {
        let console = cluster.masters[0].daemon.http;
        let rows = cluster.client.console(console, "/api/agents").await.ok()?.json().ok()?;
        let row = rows.as_array()?.iter().find(|row| row["agent_id"] == "shop-1")?.clone();
        let exact = row["report"]["minted"].as_u64() == Some(given as u64);
        *last.lock().unwrap() = row;
        exact.then_some(())
    };
    let seen = until("the console shows all IDs", shown).await;
    assert!(seen.is_ok(), "{given} IDs left, and the console says: {}", last.lock().unwrap());
}

/// The example is the front page of the crate, to the letter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_the_front_page_runs() {
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let mut args = vec!["shop.serial".to_owned()];
    args.extend(cluster.masters.iter().map(|master| master.agent_listen.to_string()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let dir = tempfile::tempdir().unwrap();
    format(dir.path());
    let mut seen = HashSet::new();
    for start in 0..2 {
        let ended = programs::run(&programs::example("orders").unwrap(), &args, dir.path()).unwrap();
        assert_eq!(ended.status, Some(0), "start {start}: {ended:?}");
        let ids: Vec<&str> = ended.out.lines().collect();
        assert_eq!(ids.len(), 6, "{ended:?}");
        assert!(ids[1].contains("SHOP") && ids[3..].iter().all(|id| id.starts_with("INV")), "{ended:?}");
        assert!(ids.iter().all(|id| seen.insert((*id).to_owned())), "an ID came twice: {ended:?} {seen:?}");
    }
    let forgotten = programs::run(&programs::example("orders").unwrap(), &[], dir.path()).unwrap();
    assert!(forgotten.status == Some(1) && forgotten.err.contains("serial file"), "{forgotten:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_grow_for_an_application_and_for_whoever_asks_agents() {
    let cluster = Cluster::start(2, &[]).await.unwrap();
    let masters: Vec<String> = cluster.masters.iter().map(|master| master.agent_listen.to_string()).collect();
    let dir = tempfile::tempdir().unwrap();
    let file = format(dir.path());
    let work = move || {
        let embedded = Embedded::start(Settings::new(&file, &masters, "shop-1".parse().unwrap())).unwrap();
        embedded.wait_ready(PATIENCE).unwrap();
        let definition = Definition::Sequence(SequenceSpec {
            keys_per_section: Some(1_000),
            solo_allowance: Some(ALLOWANCE.into()),
            encoding: Some(serde_json::from_str(r#"{"form":"decimal","prefix":"IN-"}"#).unwrap()),
            ..SequenceSpec::default()
        });
        let unknown = embedded.get_sequence("inbox").map(|_| ()).unwrap_err();
        assert!(
            matches!(&unknown, MintError::Refused(r) if matches!(**r, Refusal::UnknownGenerator { .. })),
            "{unknown}"
        );
        let inbox =
            embedded.create_sequence(Namespace::define("inbox".parse().unwrap(), &definition).unwrap()).unwrap();
        // Sections are given to agents first.
        let began = std::time::Instant::now();
        let first = loop {
            match inbox.get_next("42") {
                Ok(first) => break first,
                Err(why) => assert!(began.elapsed() < PATIENCE, "{why}"),
            }
        };
        assert_eq!(inbox.text(first).unwrap(), format!("IN-{first}"));
        assert_eq!(inbox.text(u64::MAX), None, "no key has that number");
        // The section may move at any time; then numbers jump.
        let five = inbox.get_batch_next("42", 5).unwrap();
        let (current, next) = (inbox.get_current("42").unwrap(), inbox.get_next("42").unwrap());
        assert!(
            five > first && current >= five + 4 && next > current,
            "{first}, {five} and four more, {current}, {next}"
        );
        let keys: Vec<String> = (0..300).map(|key| key.to_string()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).chain(["42", "42"]).collect();
        let mut open = keys.len();
        while open > 0 {
            let outcomes = inbox.get_next_of_many(&keys).unwrap();
            open = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            assert!(began.elapsed() < 2 * PATIENCE, "{outcomes:?}");
            if open == 0 {
                let number = |at: usize| *outcomes[at].as_ref().unwrap();
                assert!(number(42) > next && number(300) > number(42) && number(301) > number(300));
            }
        }
        for (key, n) in [("", 1), ("42", 0), ("42", 100_001)] {
            let refused = inbox.get_batch_next(key, n).unwrap_err();
            assert!(matches!(&refused, MintError::Refused(r) if matches!(**r, Refusal::BadParameter(_))), "{refused}");
        }
        // A master that is alone grants no more, so nobody waits for it.
        let (current, began) = (inbox.get_current("42").unwrap(), std::time::Instant::now());
        let refused = inbox.get_batch_next("42", ALLOWANCE + 1).unwrap_err();
        assert!(matches!(&refused, MintError::Refused(r) if matches!(**r, Refusal::BadParameter(_))), "{refused}");
        assert!(refused.to_string().contains(AT_MOST) && refused.to_string().contains("solo_allowance"), "{refused}");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        assert!(inbox.get_batch_next("42", ALLOWANCE).unwrap() > current);
        assert!(embedded.get_sequence("default").is_err(), "that is of another kind");
        let current = inbox.get_current("42").unwrap();
        drop(embedded);
        assert!(inbox.get_next("42").is_err(), "it has ended");
        current
    };
    let (last, heard) = tokio::join!(tokio::task::spawn_blocking(work), cluster.all_give("sequence/inbox/1"));
    heard.unwrap();
    let last = last.unwrap();
    // A client of agents is told the same, whichever way it asks.
    for at in [format!("http://{}", cluster.agents[0].daemon.http), format!("tarpc://{}", cluster.agents[0].rpc_listen)]
    {
        let client = Client::new(uniq_client::Settings::new([at.as_str()]).unwrap()).unwrap();
        let began = std::time::Instant::now();
        let refused = client.sequence_batch("inbox", Slot(42), ALLOWANCE + 1).await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { code: MintCode::BadParameter, .. }), "{at}: {refused}");
        assert!(refused.to_string().contains(AT_MOST), "{at}: {refused}");
        assert!(began.elapsed() < AT_ONCE, "{at}: {:?}", began.elapsed());
        assert!(client.sequence_batch("inbox", Slot(42), ALLOWANCE).await.unwrap() > last);
    }
    for agent in 0..2 {
        let text = cluster.ask_agent(agent, "sequence/inbox/42").await.unwrap().text();
        let next: u64 = text.trim().strip_prefix("IN-").unwrap().parse().unwrap();
        assert!(next > last, "{next} after {last}");
    }
}
