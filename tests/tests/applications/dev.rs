//! A process that is its own masters, for laptops and tests: as a program (`--dev`) and within an application (`Settings::dev`). It gives
//! IDs of all kinds, keeps what it was told to keep, and is of no cluster but its own.

use common::parameters::{ClusterId, SessionId};
use common::time::WallMs;
use net::rpc::lease::{HeartbeatRequest, LeaseServiceClient, Refusal as Said};
use net::rpc::{PROTOCOL, transport};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::client::Client;
use tests::cluster::{Cluster, PATIENCE, until_status};
use tests::ports::Ports;
use tests::programs::{self, Daemon};
use uniq_client::Slot;
use uniq_embed::{Definition, Embedded, GeneratorKind, Namespace, Settings, StartError, UniqGenerator};

/// The files of a folder that is kept.
const SERIAL_FILE: &str = "uniq_generator.serial";
const LEDGER: &str = "uniq_dev.ledger";
/// The words of the line at each start and of `/status`.
const ALONE: &str = "alone, for trying";
/// Names of all kinds that are registered, with their definitions.
const NAMES: [(&str, &str); 5] = [
    ("invoices", r#"{"kind":"segment"}"#),
    ("inbox", r#"{"kind":"sequence"}"#),
    ("snow", r#"{"kind":"layout","layout":"snowflake"}"#),
    ("short", r#"{"kind":"uniq64","encoding":"sqids"}"#),
    ("orders", r#"{"kind":"string","template":"INV{date:%Y%m%d}{token}{serial:6}"}"#),
];

struct Process {
    daemon: Daemon,
    rpc: String,
    dir: tempfile::TempDir,
    client: Client,
    _ports: Ports,
}

/// Makes one with a folder for temporary files of its own, in which nothing else is.
fn process(keep: Option<&Path>) -> Process {
    let dir = tempfile::tempdir().unwrap();
    let mut ports = Ports::take().unwrap();
    let (http, rpc) = (ports.port().unwrap(), ports.port().unwrap().to_string());
    let mut args = ["--dev", "--http-listen", &http.to_string(), "--rpc-listen", &rpc].map(str::to_owned).to_vec();
    if let Some(keep) = keep {
        args.extend(["--dev-dir".to_owned(), keep.to_str().unwrap().to_owned()]);
    }
    let log = dir.path().join("log");
    let mut daemon = Daemon::new("dev", programs::generator().unwrap(), args, http, log);
    let tmp = dir.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    daemon.env("TMPDIR", tmp.to_str().unwrap());
    Process { daemon, rpc, dir, client: Client::new().unwrap(), _ports: ports }
}

impl Process {
    async fn start(&mut self) {
        self.daemon.start().unwrap();
        until_status(&self.client, &mut self.daemon, "/readyz", 200).await.unwrap();
    }

    /// Lists its folder for temporary files.
    fn temporary(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.dir.path().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    async fn text(&self, method: &str, path: &str, body: &str) -> String {
        let url = format!("http://{}/{path}", self.daemon.http);
        let answer = self.client.ask(method, &url, body.into()).await.unwrap();
        assert!((200..300).contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
        answer.text()
    }

    async fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.text("GET", "status", "").await).unwrap()
    }

    async fn define(&self) {
        for (name, definition) in NAMES {
            self.text("PUT", &format!("generators/{name}"), definition).await;
        }
    }

    /// IDs of every kind: where each was asked for, and those that came.
    async fn mint(&self) -> BTreeSet<(String, String)> {
        let mut ids = BTreeSet::new();
        let given = [
            "uniq64",
            "uniq96",
            "string?biz=SHOP&custom=07",
            "segment/invoices",
            "layout/snow",
            "id/short",
            "id/orders",
        ];
        for path in given {
            let n = if path.contains('?') { "&n=20" } else { "?n=20" };
            let of_path = self.text("GET", &format!("{path}{n}"), "").await;
            let before = ids.len();
            ids.extend(of_path.lines().map(|id| (path.to_owned(), id.to_owned())));
            assert_eq!(ids.len(), before + 20, "{path}: {of_path}");
        }
        for key in ["user-7", "42"] {
            let path = format!("sequence/inbox/{key}");
            ids.insert((path.clone(), self.text("POST", &path, "").await.trim().to_owned()));
        }
        ids
    }
}

fn cluster_of(status: &serde_json::Value) -> ClusterId {
    status["cluster"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_starts_with_nothing_gives_ids_of_all_kinds_and_leaves_nothing() {
    let mut process = process(None);
    process.start().await;
    let status = process.status().await;
    assert!(status["dev"].as_str().unwrap().contains(ALONE), "{status}");
    assert!(process.daemon.log_text().contains(ALONE), "{}", process.daemon.log_text());
    assert!(cluster_of(&status).is_for_trying());
    process.define().await;
    let first = process.mint().await;
    let all = first.len();
    let ids: BTreeSet<_> = first.into_iter().chain(process.mint().await).collect();
    assert_eq!(ids.len(), 2 * all);
    // Serials begin where nobody was, and counters of keys at 1.
    assert!(ids.contains(&("sequence/inbox/user-7".to_owned(), "1".to_owned())), "{ids:?}");

    let client =
        uniq_client::Client::new(uniq_client::Settings::new([format!("tarpc://{}", process.rpc).as_str()]).unwrap());
    let client = client.unwrap();
    client.uniq64("default").await.unwrap();
    client.uniq96().await.unwrap();
    client.number("snow").await.unwrap();
    client.uniq_string("default", "SHOP", "07").await.unwrap();
    assert_eq!(client.number("invoices").await.unwrap(), 41);
    assert_eq!(client.sequence("inbox", Slot(42)).await.unwrap(), 3);
    let colliding = r#"{"kind":"string","template":"INV{date:%Y%m%d}{token}{serial:6}"}"#;
    let url = format!("http://{}/generators/alike", process.daemon.http);
    let refused = process.client.ask("PUT", &url, colliding.into()).await.unwrap();
    assert_eq!(refused.status, 409, "{}", refused.text());

    assert_eq!(process.temporary().len(), 1);
    let (ended, _) = process.daemon.terminate().await.unwrap();
    assert!(ended.success() && process.temporary().is_empty(), "{:?}", process.temporary());
    process.start().await;
    assert_ne!(cluster_of(&process.status().await), cluster_of(&status), "each start is a cluster of its own");
    assert!(process.status().await["generators"].as_array().unwrap().iter().all(|one| one["name"] == "default"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_what_a_registration_would_and_registers_nothing() {
    let mut process = process(None);
    process.start().await;
    let put = async |path: &str, definition: &str| {
        let url = format!("http://{}/generators/{path}", process.daemon.http);
        let answer = process.client.ask("PUT", &url, definition.into()).await.unwrap();
        (answer.status, serde_json::from_str::<serde_json::Value>(&answer.text()).unwrap())
    };
    let (template, other) =
        (r#"{"kind":"string","template":"A{date:%Y%m%d}{token}{serial:6}"}"#, r#"{"kind":"segment"}"#);
    let (status, would) = put("orders?dry-run", template).await;
    assert!(status == 200 && would["new"] == true && would["examples"].as_array().unwrap().len() == 3, "{would}");
    let url = format!("http://{}/string/orders", process.daemon.http);
    assert_eq!(process.client.ask("GET", &url, "".into()).await.unwrap().status, 404);
    let (status, is) = put("orders", template).await;
    assert_eq!((status, &is["definition"]), (201, &would["definition"]));
    for (path, definition, code) in [("orders", other, "generator_exists"), ("alike", template, "generator_conflict")] {
        let dry = put(&format!("{path}?dry-run"), definition).await;
        assert_eq!((dry.0, &dry.1["code"]), (409, &code.into()), "{path}");
        assert_eq!(dry, put(path, definition).await);
    }
    let (status, again) = put("orders?dry-run", template).await;
    assert!(status == 200 && again["new"] == false, "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_comes_again_in_a_folder_that_is_kept_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().join("made/by/it");
    let mut process = process(Some(&keep));
    process.start().await;
    process.define().await;
    let mut seen = BTreeSet::new();
    let cluster = cluster_of(&process.status().await);
    for nth in 0..6 {
        // Ids of one kind are compared with all of that kind, whoever asked.
        for id in process.mint().await {
            assert!(seen.insert(id.clone()), "{id:?} came twice, after start {nth}");
        }
        assert_eq!(cluster_of(&process.status().await), cluster);
        if nth % 3 == 1 {
            process.daemon.terminate().await.unwrap();
        } else {
            process.daemon.kill_9();
        }
        if nth % 3 == 2 {
            // A session that begins anew, as after a reboot: it gets another token.
            let lineage = keep.join(format!("{SERIAL_FILE}.lineage"));
            std::fs::remove_file(lineage).unwrap();
        }
        process.start().await;
    }
    assert!(process.temporary().is_empty());
    let said = refused(&keep);
    assert!(said.contains("in use"), "{said}");
    process.daemon.kill_9();

    // What is granted was forgotten: IDs could come again, so none come.
    std::fs::remove_file(keep.join(LEDGER)).unwrap();
    let said = refused(&keep);
    assert!(said.contains("take another folder"), "{said}");
}

/// Starts a second one on a folder, which has to refuse.
fn refused(keep: &Path) -> String {
    let args =
        ["--dev", "--dev-dir", keep.to_str().unwrap(), "--http-listen", "127.0.0.1:0", "--rpc-listen", "127.0.0.1:0"];
    let other = programs::run(&programs::generator().unwrap(), &args, keep).unwrap();
    assert_eq!(other.status, Some(1), "{other:?}");
    other.err
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_has_a_folder_whatever_is_taken_out_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (keep, other) = (folder.path().join("kept"), folder.path().join("other"));
    let mut process = process(Some(&keep));
    process.start().await;
    process.define().await;
    process.mint().await;
    std::fs::create_dir(&other).unwrap();
    let take = |file: &str| std::fs::rename(keep.join(file), other.join(file)).unwrap();

    // What it grants is granted by nobody else: while its ledger is not there, it grants nothing.
    take(LEDGER);
    let url = format!("http://{}/generators/later", process.daemon.http);
    let answer = process.client.ask("PUT", &url, r#"{"kind":"segment"}"#.into()).await.unwrap();
    assert!(answer.status == 503 && answer.text().contains("took it away"), "{}", answer.text());
    std::fs::rename(other.join(LEDGER), keep.join(LEDGER)).unwrap();
    process.text("PUT", "generators/later", r#"{"kind":"segment"}"#).await;

    take(SERIAL_FILE);
    let said = refused(&keep);
    assert!(said.contains("in use") && said.contains("--dev-dir") && !said.contains("--serial-file"), "{said}");
    take(LEDGER);
    let said = refused(&other);
    assert!(said.contains("in use") && !said.contains("--serial-file"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_it_from_writing_is_said_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().join("kept");
    // A disk that fails at the first write of the ledger, and between two of them.
    let in_the_way = keep.join(format!("{LEDGER}.new"));
    std::fs::create_dir_all(&in_the_way).unwrap();
    let said = refused(&keep);
    assert!(said.contains("Is a directory") && said.contains("--dev-dir"), "{said}");
    std::fs::remove_dir(&in_the_way).unwrap();
    let mut process = process(Some(&keep));
    process.start().await;
    process.define().await;
    std::fs::create_dir(&in_the_way).unwrap();
    let url = format!("http://{}/generators/later", process.daemon.http);
    let answer = process.client.ask("PUT", &url, r#"{"kind":"segment"}"#.into()).await.unwrap();
    assert!(answer.status == 503 && answer.text().contains("Is a directory"), "{}", answer.text());
    assert!(!answer.text().contains("full"), "{}", answer.text());
    std::fs::remove_dir(&in_the_way).unwrap();
    process.text("PUT", "generators/later", r#"{"kind":"segment"}"#).await;
    process.daemon.terminate().await.unwrap();

    let file = keep.join(SERIAL_FILE);
    std::fs::hard_link(&file, folder.path().join("second")).unwrap();
    let said = refused(&keep);
    assert!(said.contains("hard links") && said.contains("--dev-dir") && !said.contains("--format"), "{said}");
    std::fs::rename(folder.path().join("second"), &file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(keep.join(LEDGER), &file).unwrap();
    let said = refused(&keep);
    assert!(said.contains("--dev-dir") && !said.contains("--serial-file"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_masters_and_agents_refuse_it_and_it_refuses_them() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let master = cluster.masters[0].agent_listen.to_string();
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().join("kept");
    let mut process = process(Some(&keep));
    process.start().await;
    process.define().await;
    let here = cluster_of(&process.status().await);

    // A master is told of which cluster the caller is.
    let transport = transport::connect(&master).await.unwrap();
    let asks = LeaseServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    let request = HeartbeatRequest {
        protocol: PROTOCOL,
        agent_id: "dev".parse().unwrap(),
        session: SessionId(1),
        cluster: Some(here),
        test_clock: None,
        version: String::new(),
        wall: WallMs(0),
        retired: Vec::new(),
    };
    let said = asks.heartbeat(transport::deadline_in(PATIENCE), request).await.unwrap();
    assert!(matches!(said, Err(Said::ForeignCluster { here: there }) if !there.is_for_trying()), "{said:?}");

    // So is an agent, whose keys another one wants: of either.
    let real: ClusterId = serde_json::from_str::<serde_json::Value>(
        &cluster.ask_agent(0, "status").await.unwrap().text(),
    )
    .unwrap()["cluster"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(!real.is_for_trying());
    let url = format!("http://{}/sequence/inbox/42?cluster={real}", process.daemon.http);
    let answer = process.client.post(&url).await.unwrap();
    assert!(answer.status == 503 && answer.text().contains("wrong_cluster"), "{}", answer.text());

    // Its file is not taken by an agent that has masters, nor theirs by it.
    process.daemon.terminate().await.unwrap();
    let file = keep.join(SERIAL_FILE);
    let run = |args: &[&str]| programs::run(&programs::generator().unwrap(), args, folder.path()).unwrap();
    let taken = run(&["--serial-file", file.to_str().unwrap(), "--masters", &master, "--http-listen", "127.0.0.1:0"]);
    assert!(taken.status == Some(1) && taken.err.contains("--dev"), "{taken:?}");
    let settings = Settings::new(&file, [&master], "a".parse().unwrap());
    assert!(matches!(Embedded::start(settings), Err(StartError::Settings(why)) if why.contains("--dev")));
    let agent = cluster.agent(0).unwrap();
    agent.daemon.terminate().await.unwrap();
    let theirs = agent.dir.clone();
    let said = refused(&theirs);
    assert!(said.contains("no uniq_dev.ledger"), "{said}");
    std::fs::copy(keep.join(LEDGER), theirs.join(LEDGER)).unwrap();
    let said = refused(&theirs);
    assert!(said.contains("of another cluster"), "{said}");
    // Nothing of theirs was touched: it goes on with its tokens.
    cluster.agent(0).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let status = cluster.ask_agent(0, "status").await.unwrap().text();
    assert!(status.contains(r#""start":"resumed""#), "{status}");
}

#[test]
fn what_does_not_go_with_it_is_refused_wherever_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    for (toml, environment, named) in [
        ("dev = true\nmasters = [\"a:1\"]", &[][..], "--masters"),
        ("masters = [\"a:1\"]", &[("UNIQ_DEV", "true")], "--masters"),
        ("dev = true\nserial_file = \"x\"", &[], "--dev-dir FOLDER"),
        ("dev = true", &[("UNIQ_SERIAL_FILE", "uniq_generator.serial")], "--dev-dir FOLDER"),
        ("dev_dir = \"x\"\nmasters = [\"a:1\"]", &[], "say --dev too"),
        ("", &[("UNIQ_DEV_DIR", "x"), ("UNIQ_MASTERS", "a:1")], "say --dev too"),
    ] {
        std::fs::write(&file, toml).unwrap();
        let mut command = programs::command(&programs::generator().unwrap());
        command.args(["--config", file.to_str().unwrap()]).envs(environment.iter().copied()).current_dir(&dir);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(named), "{toml} {environment:?}: {said}");
    }
}

fn names() -> impl Iterator<Item = Namespace> {
    NAMES.into_iter().map(|(name, definition)| {
        Namespace::define(name.parse().unwrap(), &serde_json::from_str::<Definition>(definition).unwrap()).unwrap()
    })
}

/// One text for each kind, of a name of it.
fn embedded_ids(embedded: &Embedded) -> Vec<String> {
    embedded.wait_ready(PATIENCE).unwrap();
    let default = embedded.get_uniq_generator("default").unwrap();
    let mut ids = vec![
        format!("64 {}", default.get_uniq64().unwrap()),
        format!("96 {}", default.get_uniq96().unwrap()),
        default.get_uniq_string("SHOP", "07").unwrap(),
    ];
    for namespace in names() {
        let name = namespace.name().to_string();
        if namespace.kind() == GeneratorKind::Sequence {
            let numbers = embedded.create_sequence(namespace).unwrap();
            ids.extend(["user-7", "42"].map(|key| format!("{name} {key} {}", numbers.get_next(key).unwrap())));
        } else {
            ids.push(format!("{name} {}", embedded.create_uniq_generator(namespace).unwrap().get_id().unwrap()));
        }
    }
    ids
}

#[test]
fn an_application_mints_all_kinds_alone() {
    let embedded = Embedded::start(Settings::dev("tests".parse().unwrap())).unwrap();
    let mut seen: HashSet<String> = embedded_ids(&embedded).into_iter().collect();
    let first = seen.len();
    assert!(seen.contains("inbox user-7 1"), "{seen:?}");
    seen.extend(embedded_ids(&embedded));
    assert_eq!(seen.len(), 2 * first);
    // As many as there are, at once.
    let other = Embedded::start(Settings::dev("tests".parse().unwrap())).unwrap();
    other.wait_ready(Duration::from_secs(60)).unwrap();

    let mut settings = Settings::dev("tests".parse().unwrap());
    settings.masters = vec!["127.0.0.1:7101".to_owned()];
    assert!(matches!(Embedded::start(settings), Err(StartError::Settings(why)) if why.contains("its own masters")));
}

#[test]
fn an_application_that_keeps_its_folder_gets_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = HashSet::new();
    for nth in 0..4 {
        let embedded = Embedded::start(Settings::dev_in(folder.path(), "tests".parse().unwrap())).unwrap();
        for id in embedded_ids(&embedded) {
            assert!(seen.insert(id.clone()), "{id} came twice, in run {nth}");
        }
    }
}
