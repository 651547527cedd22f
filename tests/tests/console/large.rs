//! The console of the largest cluster there is: 65,536 tokens of `uint2`, none of them free. Prints how long the table takes
//! and how much memory the masters do; `scripts/console.sh` runs it with optimised programs.

use common::audit::{Action, Actor, Entry};
use common::calendar::UtcOffset;
use common::clock::Clock;
use common::lease::{Generation, Lease, LeaseState, Prep};
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::time::{DAY_MS, WallMs};
use common::token::{TokenKey, TokenType, TokenValue};
use master::lease::{Identity, Write};
use master::store::{self, Draft as _};
use std::path::Path;
use std::time::{Duration, Instant};
use tests::client::{ADMIN_PASSWORD, Client};
use tests::cluster::{Cluster, until};

const LEASES: u32 = 65_536;
const CHUNK: usize = 4_096;
/// Requests of each kind that are measured.
const ROUNDS: usize = 20;

/// A lease as a cluster in the middle of its life has it: most are held, some end, some rest.
fn lease(value: u32, now: WallMs) -> (TokenKey, Lease) {
    let agent = value / 4;
    let key = TokenType::Uint2.key(TokenValue(value));
    let granted = WallMs(now.0 - 3 * DAY_MS - i64::from(value) * 1_000);
    let prep = Prep {
        key,
        g: Generation(u64::from(value % 9) + 1),
        token_type: TokenType::Uint2,
        agent_id: format!("shop-{:02}-{agent:05}", agent % 40).parse().unwrap(),
        session: SessionId(u128::from(value) * 0x9e37_79b9_7f4a_7c15 + 1),
        address: format!("10.{}.{}.{}:{}", agent % 7, agent / 250 % 250, agent % 250, 30_000 + value % 30_000),
        granted,
        from: WallMs(granted.0 / DAY_MS * DAY_MS),
        until: WallMs(now.0 + 4 * DAY_MS),
    };
    let held = Lease::from_prep(&prep);
    let lease = match value % 16 {
        7 => Lease { deny: true, ..held },
        11 | 12 => Lease { state: LeaseState::Closed, until: WallMs(now.0 - DAY_MS / 2), ..held },
        _ => held,
    };
    (key, lease)
}

/// Makes the store of one of two masters that have met and granted everything.
fn fill(dir: &Path, master: MasterId, now: WallMs) {
    std::fs::remove_dir_all(dir).unwrap();
    let identity = Identity {
        master,
        cluster: Some(ClusterId(7)),
        epoch: Some(EpochId(7)),
        pair_epoch: 1,
        former: Vec::new(),
        paired: true,
        awaiting: None,
        parameters: ClusterParameters::new(7, UtcOffset::default(), u16::MAX).unwrap(),
    };
    let mut draft = store::draft(dir).unwrap();
    draft.commit(&[Write::Identity(identity)], 0).unwrap();
    let values: Vec<u32> = (0..LEASES).collect();
    for chunk in values.chunks(CHUNK) {
        let writes = chunk.iter().flat_map(|value| {
            let (key, lease) = lease(*value, now);
            let actor = Actor::new(lease.agent_id.as_str(), &lease.address);
            let entry = Entry::new(lease.granted, actor, Action::Grant, &format!("uint2 {key}"), "g1");
            [Write::Audit(entry), Write::Lease(key, lease)]
        });
        draft.commit(&writes.collect::<Vec<_>>(), u64::from(chunk[0]) + 1).unwrap();
    }
    draft.publish().unwrap();
}

/// Asks for a path again and again: how long the whole answer took, and how long it is.
async fn measure(client: &Client, console: std::net::SocketAddr, path: &str) {
    let mut took = Vec::new();
    let mut length = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let answer = client.console(console, path).await.unwrap();
        took.push(began.elapsed());
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        length = answer.body.len();
    }
    took.sort();
    let ms = |d: Duration| d.as_secs_f64() * 1_000.0;
    let (median, most) = (ms(took[ROUNDS / 2]), ms(took[ROUNDS - 1]));
    println!("{path}: median {median:.1} ms, at most {most:.1} ms, {length} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it prints figures, which scripts/console.sh takes of optimised programs"]
async fn the_largest_table() {
    let mut cluster = Cluster::new().unwrap();
    let now = Clock::system().wall();
    for (nth, id) in [MasterId::One, MasterId::Two].into_iter().enumerate() {
        fill(&cluster.masters[nth].data_dir, id, now);
        cluster.master(nth).unwrap().daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let console = cluster.masters[0].daemon.http;
    let client = &cluster.client;
    client.log_in(console, "admin", ADMIN_PASSWORD).await.unwrap();
    let all = || async {
        let rows = client.console(console, "/api/leases?agent=shop-00-00000").await.ok()?.json().ok()?;
        (rows.as_array()?.len() >= 3).then_some(())
    };
    until("the leases are there", all).await.unwrap();
    println!("memory after the start: {}", memory(&cluster));
    let table = if client.console(console, "/leases").await.unwrap().status == 200 { "/leases" } else { "/" };
    for path in [
        table.to_owned(),
        format!("{table}?page=300"),
        format!("{table}?agent=shop-17*"),
        format!("{table}?state=resting&type=uint2"),
        "/api/leases?agent=shop-17-00017".to_owned(),
        "/api/leases?state=resting".to_owned(),
        "/leases?sort=-until".to_owned(),
        "/leases?search=shop-17".to_owned(),
        "/".to_owned(),
        "/agents".to_owned(),
        "/api/pools".to_owned(),
        "/api/leases".to_owned(),
        "/api/audit?about=uint2%2077".to_owned(),
    ] {
        measure(client, console, &path).await;
    }
    println!("memory at the end: {}", memory(&cluster));
}

fn memory(cluster: &Cluster) -> String {
    // Of the whole, what the program itself takes: pages of its file are the system's to take back.
    let own = |nth: usize| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.masters[nth].daemon.pid().unwrap()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024 / 1_000_000
    };
    let all = |nth: usize| cluster.masters[nth].daemon.memory().unwrap() / 1_000_000;
    format!("master1={} MB (of them {} its own) master2={} MB ({})", all(0), own(0), all(1), own(1))
}
