//! The calendar of an agent's machine is set, forwards and back, under the running program and between two runs of it: no
//! ID comes twice, and after each jump nothing is minted until a master has renewed the lease.
//!
//! The calendar is libfaketime's, which no program as it is shipped would ever see: the agent asks the kernel for the time
//! without the C library (rustix reads the vDSO), so what is put before that library (`LD_PRELOAD`) changes the times in
//! its log and nothing else. Nor can a test set the real calendar, which is everybody's. So the program under test here is
//! the same one, built to ask the C library (`--cfg rustix_use_libc`): `scripts/faults.sh` builds it and says in
//! [`LIBC_BIN_DIR`] where it is. Without that, or without libfaketime, these tests leave themselves out; then the calendar
//! is stepped by the random lives of `file_faults.rs` and by the simulation.

use std::path::{Path, PathBuf};
use tests::client::{KINDS, Kind, Media};
use tests::cluster::{Cluster, until, until_status};
use tests::oracle::Oracle;
use tests::programs::Daemon;

/// The variable that names the folder of a `uniq_generator` that asks the C library for the time.
const LIBC_BIN_DIR: &str = "UNIQ_LIBC_BIN_DIR";
/// Distances by which the calendar is set, in seconds.
const STEPS: [i64; 6] = [3_600, -3_600, 86_400, -86_400, 400 * 86_400, -400 * 86_400];
/// Too little to be noticed as a step, and more than the mark of a tick is ahead.
const SLIGHT: [i64; 2] = [2, -2];
/// Every layout that has a name, its IDs fetched beside those of the predefined kinds: most lease a second, small token and go
/// ahead of the clock by a second or a tick; `sony` never goes ahead of it, and `js` goes as far as may be.
const LAYOUTS: [(&str, &str); 9] = [
    ("flake", r#"{"kind":"layout","layout":"snowflake"}"#),
    ("leaf", r#"{"kind":"layout","layout":"leaf","epoch":"2024-01-01T00:00:00Z"}"#),
    ("seconds", r#"{"kind":"layout","layout":"uidgenerator","epoch":"2024-01-01T00:00:00Z"}"#),
    ("sony", r#"{"kind":"layout","layout":"sonyflake","ahead_max_ms":0}"#),
    ("insta", r#"{"kind":"layout","layout":"instagram"}"#),
    ("discord", r#"{"kind":"layout","layout":"discord"}"#),
    ("js", r#"{"kind":"layout","layout":"js53","ahead_max_ms":10000}"#),
    ("uuid", r#"{"kind":"layout","layout":"uuid7"}"#),
    ("ulid", r#"{"kind":"layout","layout":"ulid"}"#),
];
/// The number of generators that are asked at a time: the predefined kinds, and the layouts.
const ASKED: usize = KINDS.len() + LAYOUTS.len();

/// The library, where distributions put it.
fn libfaketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut places = folders.chain(["/usr/lib".into(), "/usr/local/lib".into()]);
    places.find_map(|folder| Some(folder.join("faketime/libfaketimeMT.so.1")).filter(|library| library.is_file()))
}

/// A calendar that can be set.
struct Calendar {
    file: PathBuf,
}

impl Calendar {
    /// So many seconds off.
    fn set(&self, by: i64) {
        // At one stroke, for who is reading it.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{by:+}\n")).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }
}

/// Finds the program and the library for this; says what is missing, if one is.
fn had() -> Option<(PathBuf, PathBuf)> {
    let program = std::env::var_os(LIBC_BIN_DIR).map(|dir| Path::new(&dir).join("uniq_generator"));
    match (program.filter(|program| program.is_file()), libfaketime()) {
        (Some(program), Some(library)) => Some((program, library)),
        (None, _) => {
            println!("left out: {LIBC_BIN_DIR} names no program that asks the C library for the time");
            None
        }
        (_, None) => {
            println!("left out: there is no libfaketime");
            None
        }
    }
}

/// Lets an agent run as that program, by that calendar.
fn by_calendar(cluster: &mut Cluster, nth: usize, program: &Path, library: &Path) -> Calendar {
    let (file, log) = (cluster.dir().join("calendar"), cluster.dir().join("by-calendar.log"));
    let daemon = &mut cluster.agent(nth).unwrap().daemon;
    // env becomes the program: the process id stays that of the program. The machine's own time is not to be stepped.
    let mut args = vec![
        format!("LD_PRELOAD={}", library.display()),
        format!("FAKETIME_TIMESTAMP_FILE={}", file.display()),
        "FAKETIME_NO_CACHE=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        program.display().to_string(),
    ];
    args.append(&mut daemon.args);
    *daemon = Daemon::new(&daemon.name, "env".into(), args, daemon.http, log);
    let calendar = Calendar { file };
    calendar.set(0);
    calendar
}

/// Some IDs of each kind; those that are refused are told by their codes.
async fn fetch(cluster: &Cluster, nth: usize, oracle: &Oracle) -> Vec<String> {
    let mut refused = Vec::new();
    for kind in KINDS {
        let url = cluster.agent_url(nth, &format!("{}&n=100", kind.path())).unwrap();
        let answer = cluster.client.get_as(&url, Media::Text).await.unwrap();
        match answer.ids(kind, Media::Text) {
            Ok(ids) => oracle.note(kind.namespace(), "the agent", &ids),
            Err(_) => refused.push(answer.code()),
        }
    }
    for (name, _) in LAYOUTS {
        let answer = cluster.ask_agent(nth, &format!("layout/{name}?n=100")).await.unwrap();
        match answer.ids(Kind::String, Media::Text) {
            Ok(ids) => oracle.note(name, "the agent", &ids),
            Err(_) => refused.push(answer.code()),
        }
    }
    refused
}

/// Registers the layouts.
async fn define_layouts(cluster: &Cluster, nth: usize) {
    for (name, definition) in LAYOUTS {
        let url = cluster.agent_url(nth, &format!("generators/{name}")).unwrap();
        let answer = cluster.client.ask("PUT", &url, definition.as_bytes().to_vec()).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}

/// The number of times that the agent has noticed that its calendar was set.
async fn noticed(cluster: &Cluster, nth: usize) -> usize {
    let metrics = cluster.ask_agent(nth, "metrics").await.unwrap().text();
    let steps = metrics.lines().find_map(|line| line.strip_prefix("uniq_clock_steps_total "));
    steps.and_then(|steps| steps.parse().ok()).expect(&metrics)
}

/// Sets the calendar, and fetches until the agent has noticed it.
async fn step(cluster: &Cluster, nth: usize, oracle: &Oracle, calendar: &Calendar, by: i64) {
    let before = noticed(cluster, nth).await;
    calendar.set(by);
    let notices = || async {
        fetch(cluster, nth, oracle).await;
        (noticed(cluster, nth).await > before).then_some(())
    };
    until("the step is noticed", notices).await.unwrap();
}

async fn ready(cluster: &mut Cluster, nth: usize) {
    let client = cluster.client.clone();
    until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_of_the_calendar_repeat_no_id() {
    let Some((program, library)) = had() else { return };
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let nth = cluster.add_agent(&[]).unwrap();
    let calendar = by_calendar(&mut cluster, nth, &program, &library);
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    ready(&mut cluster, nth).await;
    let oracle = Oracle::default();
    let session = cluster.agent_status(nth).await.unwrap().session;
    define_layouts(&cluster, nth).await;
    // The small tokens are leased one by one.
    let all = || async { fetch(&cluster, nth, &oracle).await.is_empty().then_some(()) };
    until("all are minted", all).await.unwrap();

    // Under the running agent: its own time does not follow, and a master renews its leases. If a heartbeat happens to
    // tell it meanwhile that it is more than five minutes off, it refuses until the next one.
    for by in STEPS {
        step(&cluster, nth, &oracle, &calendar, by).await;
        let settled = || async {
            let refused = fetch(&cluster, nth, &oracle).await;
            refused.iter().all(|code| code == "clock_skew").then_some(refused.is_empty())
        };
        let (mints, _) = until("it mints, or says that its clock is wrong", settled).await.unwrap();
        step(&cluster, nth, &oracle, &calendar, 0).await;
        ready(&mut cluster, nth).await;
        assert!(fetch(&cluster, nth, &oracle).await.is_empty());
        println!("stepped by {by} s, minted meanwhile: {mints}, and back: {} IDs", oracle.total());
    }

    // Without a master nothing is minted after a step, as nobody can renew.
    for master in &mut cluster.masters {
        master.daemon.kill_9();
    }
    step(&cluster, nth, &oracle, &calendar, 3_600).await;
    let stops = || async { (fetch(&cluster, nth, &oracle).await == ["clock_skew"; ASKED]).then_some(()) };
    until("it stops", stops).await.unwrap();
    for _ in 0..20 {
        assert_eq!(fetch(&cluster, nth, &oracle).await, ["clock_skew"; ASKED]);
    }

    // Between two runs.
    for by in SLIGHT.into_iter().chain(STEPS).chain([0]) {
        cluster.agent(nth).unwrap().daemon.kill_9();
        calendar.set(by);
        cluster.agent(nth).unwrap().daemon.start().unwrap();
        let client = cluster.client.clone();
        until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/healthz", 200).await.unwrap();
        let status = cluster.agent_status(nth).await.unwrap();
        assert!(status.resumed && status.session == session, "a calendar is not a reason to lose a token: {status:?}");
        let before = oracle.total();
        let mut refused = std::collections::BTreeSet::new();
        for _ in 0..5 {
            refused.extend(fetch(&cluster, nth, &oracle).await);
        }
        let told = ["lease_expired", "clock_behind"];
        assert!(refused.iter().all(|code| told.contains(&code.as_str())), "{by}: {refused:?}");
        println!("started {by} s off: {} IDs, refused: {refused:?}", oracle.total() - before);
    }
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}
