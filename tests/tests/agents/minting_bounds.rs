//! Bounds of each ID, on real programs: its mark is on disk before anybody has it, nothing is minted past the end of a
//! lease, and the hour and the day of an ID begin when the machine's own clock says so.
//!
//! Each of these is a gate of the product's own minting code, which the simulation has only a copy of:
//! `scripts/planted.sh` leaves each of them out there, and sees these tests fail.

use common::calendar::{DayBucket, UtcOffset};
use common::clock::{Clock, TestClock};
use common::kind;
use common::time::{DAY_MS, HOUR_MS, SECOND_MS, SpanMs, WallMs};
use models::plain_ids;
use serial_file::{Contents, decode};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tests::client::{Kind, Media};
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::oracle::{Ids, Oracle};
use tests::programs;
use uniq_embed::{Embedded, Settings, UniqGenerator as _};

/// The types of token that all three kinds need.
const ALL_TYPES: &str = "string2-include-letter,uint2";
const MINUTE_MS: i64 = 60 * SECOND_MS;

fn os_now() -> WallMs {
    WallMs(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap())
}

/// The UTC offset by which a day begins at `instant`, which is a whole minute.
fn offset_of_midnight(instant: WallMs) -> UtcOffset {
    let minutes = instant.0.rem_euclid(DAY_MS) / MINUTE_MS;
    UtcOffset::from_minutes(i16::try_from(-minutes).unwrap()).unwrap()
}

/// An ID's own time: the first instant that it can mean, and the first that it cannot mean any more.
fn own_time(offset: UtcOffset, id: &str, kind: Kind) -> (WallMs, WallMs) {
    let of_length = |start: WallMs, length: i64| (start, start + SpanMs(length));
    match kind {
        Kind::Uniq64 => of_length(offset.instant(&plain_ids::uniq64(id.parse().unwrap())).unwrap(), HOUR_MS),
        // The upper 64 bits stand in the first 20 digits.
        Kind::Uniq96 => of_length(offset.instant(&plain_ids::uniq96(id[..20].parse().unwrap())).unwrap(), 1),
        _ => {
            let days = (0..).map(|back| offset.day_bucket(os_now()).0 + 40 - back).map(DayBucket);
            let written = |day: &DayBucket| offset.date(*day).unwrap().format("%Y%m%d").to_string() == id[..8];
            of_length(offset.day_start(days.take(80).find(written).unwrap()), DAY_MS)
        }
    }
}

/// One ID over the connection that answers the like.
async fn one(cluster: &Cluster, nth: usize, kind: Kind) -> Result<String, String> {
    let answer = cluster.ask_agent(nth, kind.path()).await.unwrap();
    if answer.status == 200 { Ok(answer.text().trim().to_owned()) } else { Err(answer.code()) }
}

async fn started(mut cluster: Cluster, flags: &[&str]) -> Cluster {
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    let nth = cluster.add_agent(flags).unwrap();
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    cluster
}

/// An application that mints in its own process, here.
fn embedded(cluster: &Cluster, dir: &Path) -> Embedded {
    let ended = programs::run(&programs::generator().unwrap(), &["--format", "--serial-file", "app"], dir).unwrap();
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let masters: Vec<String> = cluster.masters.iter().map(|master| master.agent_listen.to_string()).collect();
    let embedded = Embedded::start(Settings::new(dir.join("app"), masters, "app-1".parse().unwrap())).unwrap();
    embedded.wait_ready(PATIENCE).unwrap();
    embedded
}

/// Reads what is on disk now.
fn on_disk(serial_file: &Path) -> Contents {
    decode(&std::fs::read(serial_file).unwrap()).unwrap()
}

/// Tells whether an ID's serial is below what is durable: whoever dies now must not come back to it.
fn is_below_the_mark(contents: &Contents, offset: UtcOffset, id: &str, kind: Kind) -> bool {
    let (of_kind, bucket, serial) = match kind {
        Kind::Uniq64 => {
            let hour = offset.hour_bucket(own_time(offset, id, kind).0);
            (kind::Kind::Uniq64, hour.0, plain_ids::serial64(id.parse().unwrap()))
        }
        Kind::Uniq96 => return own_time(offset, id, kind).0 < contents.header.time_mark,
        Kind::String => {
            // Eight digits of the date, TEST, two of the token, the serial, two of the caller's.
            let serial: u64 = id[14..id.len() - 2].parse().unwrap();
            (kind::Kind::String, offset.day_bucket(own_time(offset, id, kind).0).0, serial)
        }
    };
    // On a new file the counter is the serial. A bucket that is over cannot be minted in again.
    let block = contents.blocks.iter().flatten().find(|block| block.kind == of_kind);
    block.is_some_and(|block| block.bucket > bucket || (block.bucket == bucket && serial < block.serial))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_id_is_out_before_its_mark_is_on_disk() {
    const ROUNDS: usize = 60;
    let cluster = started(Cluster::new().unwrap(), &["--token-types", ALL_TYPES]).await;
    let oracle = Oracle::default();
    let utc = UtcOffset::default();
    let file = cluster.agents[0].serial_file();
    let mut writes = BTreeMap::new();
    for round in 0..ROUNDS {
        // Batches that soon use up whatever step is reserved ahead, single ones, and those that a window just holds.
        let n = [1, 3_000, 10_000, 777, 100_000][round % 5];
        for kind in tests::client::KINDS {
            let url = cluster.agent_url(0, &format!("{}&n={n}", kind.path())).unwrap();
            let answer = cluster.client.get_as(&url, Media::Text).await.unwrap();
            let contents = on_disk(&file);
            assert_eq!(answer.status, 200, "{}", answer.text());
            let text = answer.text();
            for id in [text.lines().next().unwrap(), text.lines().last().unwrap()] {
                assert!(is_below_the_mark(&contents, utc, id, kind), "{id} is out, and on disk is {contents:?}");
            }
            oracle.note(kind.namespace(), "the agent", &answer.ids(kind, Media::Text).unwrap());
            writes.insert(contents.header.write_counter, ());
        }
    }
    assert!(writes.len() > 5, "the file was hardly written: {writes:?}");

    // The same in an application's own process, for all threads and for one.
    let dir = tempfile::tempdir().unwrap();
    let app = embedded(&cluster, dir.path());
    let shared = app.get_uniq_generator("default").unwrap();
    let own = shared.per_thread();
    for _ in 0..ROUNDS {
        let mut batch = Vec::new();
        shared.get_batch64(3_000, &mut batch).unwrap();
        batch.extend([shared.get_uniq64().unwrap(), own.get_uniq64().unwrap()]);
        let contents = on_disk(&dir.path().join("app"));
        for id in [batch[0], batch[2_999], batch[3_000], batch[3_001]] {
            let text = id.to_string();
            assert!(is_below_the_mark(&contents, utc, &text, Kind::Uniq64), "{id} is out, and on disk is {contents:?}");
        }
        oracle.note(Kind::Uniq64.namespace(), "the application", &Ids::Uniq64(batch));
    }
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_minted_past_the_end_of_a_lease() {
    // A day in eight seconds, so that a slow machine mints too before it is over. It begins at six in the morning, and so does
    // the lease end: strings of that day could be minted for the 18 hours left of it, were it not for the lease.
    const SCALE: u32 = 10_800;
    let mut cluster = Cluster::new().unwrap();
    let six = WallMs((os_now().0 - 6 * HOUR_MS).div_euclid(MINUTE_MS) * MINUTE_MS);
    let offset = offset_of_midnight(six);
    let format = ["--lease-days", "1", "--utc-offset", &offset.to_string()];
    let test_clock = cluster.run_by_test_clock(SCALE, &format).unwrap();
    let clock = Clock::test(test_clock.parse::<TestClock>().unwrap());
    let mut cluster = started(cluster, &["--test-clock", &test_clock, "--token-types", ALL_TYPES]).await;
    let oracle = Oracle::default();
    for master in &mut cluster.masters {
        master.daemon.kill_9();
    }
    // The two clocks are read by two programs, a millisecond apart: that is eleven seconds here.
    let slack = SpanMs(HOUR_MS);
    let mut ends: BTreeMap<String, WallMs> = BTreeMap::new();
    let mut minted: Vec<(Kind, WallMs, String)> = Vec::new();
    let mut over = BTreeMap::new();
    while over.len() < tests::client::KINDS.len() || clock.wall() < *ends.values().max().unwrap() + SpanMs::days(1) {
        for lease in cluster.agent_status(0).await.unwrap().leases {
            let until = humantime::parse_rfc3339(&lease.until).unwrap().duration_since(UNIX_EPOCH).unwrap();
            let until = WallMs(until.as_millis().try_into().unwrap());
            let known = ends.entry(lease.token_type).or_insert(until);
            *known = until.max(*known);
        }
        for kind in tests::client::KINDS {
            let asked = clock.wall();
            match one(&cluster, 0, kind).await {
                Ok(id) => minted.push((kind, asked, id)),
                Err(code) if asked > *ends.values().max().unwrap() + slack => drop(over.insert(kind, code)),
                Err(_) => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{} IDs until the leases ended at {ends:?}, then {over:?}", minted.len());
    assert!(minted.len() > tests::client::KINDS.len(), "nothing was minted before the end");
    assert!(over.values().all(|code| code == "lease_expired"), "{over:?}");
    for (kind, asked, id) in &minted {
        let token_type = if *kind == Kind::String { "string2-include-letter" } else { "uint2" };
        let until = ends[token_type];
        assert!(
            *asked < until + slack,
            "{id} was minted for a request of {asked}, when the lease had ended at {until}"
        );
        let (written, _) = own_time(offset, id, *kind);
        assert!(written < until, "{id} carries {written}, which is past the lease's end at {until}");
        oracle.note(kind.namespace(), "the agent", &one_id(*kind, id));
    }
    assert_eq!(oracle.verdict().duplicates, 0);
}

fn one_id(kind: Kind, id: &str) -> Ids {
    match kind {
        Kind::Uniq64 => Ids::Uniq64(vec![tests::client::uniq64(id).unwrap()]),
        Kind::Uniq96 => Ids::Uniq96(vec![tests::client::uniq96(id).unwrap()]),
        _ => Ids::Text(vec![id.to_owned()]),
    }
}

/// A cluster that is ready some seconds before its day begins, by the machine's own clock: no test clock, which would read
/// the time for each ID anew instead of once for each tick of the kernel's timer.
async fn ready_before_midnight() -> (Cluster, UtcOffset, WallMs) {
    const TRIES: usize = 4;
    for _ in 0..TRIES {
        let midnight = WallMs((os_now().0 + 12 * SECOND_MS).div_euclid(MINUTE_MS) * MINUTE_MS + MINUTE_MS);
        let offset = offset_of_midnight(midnight);
        let mut cluster = Cluster::new().unwrap();
        cluster.format_anew(&["--utc-offset", &offset.to_string()]).unwrap();
        let cluster = started(cluster, &["--token-types", ALL_TYPES]).await;
        if os_now() + SpanMs(5 * SECOND_MS) < midnight {
            return (cluster, offset, midnight);
        }
    }
    panic!("no cluster was ready before its midnight in {TRIES} tries");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hour_and_the_day_begin_when_the_machines_own_clock_says_so() {
    let (mut cluster, offset, midnight) = ready_before_midnight().await;
    let dir = tempfile::tempdir().unwrap();
    let app = embedded(&cluster, dir.path());
    let shared = app.get_uniq_generator("default").unwrap();
    let own = shared.per_thread();
    let oracle = Oracle::default();
    // The clocks of the agent and of this test are one machine's, which its masters' answers move by less than this.
    let slack = SpanMs(SECOND_MS);
    let mut minted = Vec::new();
    let (mut before, mut after) = ([0; 2], [0; 2]);
    let mut note = |by: usize, start: WallMs| {
        if start < midnight { before[by] += 1 } else { after[by] += 1 }
    };
    while os_now() < midnight + SpanMs(3 * SECOND_MS) {
        for kind in tests::client::KINDS {
            let asked = os_now();
            let id = one(&cluster, 0, kind).await.unwrap();
            minted.push((kind, asked, os_now(), id));
        }
        let ids = vec![shared.get_uniq64().unwrap(), own.get_uniq64().unwrap()];
        for id in &ids {
            note(0, own_time(offset, &id.to_string(), Kind::Uniq64).0);
        }
        oracle.note(Kind::Uniq64.namespace(), "the application", &Ids::Uniq64(ids));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (kind, asked, came, id) in &minted {
        let (start, end) = own_time(offset, id, *kind);
        assert!(start <= *came + slack, "{id} came at {came} and carries {start}");
        assert!(end + slack > *asked, "{id} was asked for at {asked} and carries a time that ended at {end}");
        note(1, start);
        oracle.note(kind.namespace(), "the agent", &one_id(*kind, id));
    }
    // In process the time is written down by a thread, which the machine may keep waiting.
    let new_hour = || async {
        let ids = [shared.get_uniq64().unwrap(), own.get_uniq64().unwrap()];
        ids.iter().all(|id| own_time(offset, &id.to_string(), Kind::Uniq64).0 >= midnight).then_some(())
    };
    until("the application mints in the new hour", new_hour).await.unwrap();
    assert!(before.iter().chain(&after).all(|count| *count > 0), "before midnight {before:?}, after it {after:?}");
    let verdict = oracle.verdict();
    println!("before midnight {before:?}, after it {after:?}\n{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");

    // Whoever is killed in the new day goes on in it.
    let daemon = &mut cluster.agent(0).unwrap().daemon;
    daemon.kill_9();
    daemon.start().unwrap();
    let client = cluster.client.clone();
    until_status(&client, &mut cluster.agent(0).unwrap().daemon, "/readyz", 200).await.unwrap();
    for kind in tests::client::KINDS {
        let id = one(&cluster, 0, kind).await.unwrap();
        assert!(own_time(offset, &id, kind).0 >= midnight, "{id}");
        oracle.note(kind.namespace(), "the agent again", &one_id(kind, &id));
    }
    assert_eq!(oracle.verdict().duplicates, 0);
}
