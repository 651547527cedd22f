//! The console of the largest cluster there is: 65,536 tokens of `uint2`, none of them free. Prints how long the table takes
//! and how much memory the masters do; `scripts/console.sh` runs it with optimised programs.
#![allow(clippy::print_stdout, reason = "a tool that prints what it measured")]

use anyhow::{Context as _, Result, ensure};

use common::audit::{Action, Actor, Entry};
use common::calendar::UtcOffset;
use common::clock::Clock;
use common::lease::{Generation, Lease, LeaseState, Prep};
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::time::{DAY_MS, WallMs};
use common::token::{TokenKey, TokenType, TokenValue};
use master::lease::{Identity, Write};
use master::store::{self, Draft as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::client::{ADMIN_PASSWORD, Client};
use tests::cluster::{Cluster, until};

const LEASES: u32 = 65_536;
const CHUNK: usize = 4_096;
/// Requests of each kind that are measured.
const ROUNDS: usize = 20;

/// A lease as a cluster in the middle of its life has it: most are held, some end, some rest.
fn lease(value: u32, now: WallMs) -> Result<(TokenKey, Lease)> {
    let agent = value / 4;
    let key = TokenType::Uint2.key(TokenValue(value));
    let granted = WallMs(now.0 - 3 * DAY_MS - i64::from(value) * 1_000);
    let prep = Prep {
        key,
        g: Generation(u64::from(value % 9) + 1),
        token_type: TokenType::Uint2,
        agent_id: format!("shop-{:02}-{agent:05}", agent % 40).parse()?,
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
    Ok((key, lease))
}

/// Makes the store of one of two masters that have met and granted everything.
fn fill(dir: &Path, master: MasterId, now: WallMs) -> Result<()> {
    std::fs::remove_dir_all(dir)?;
    let identity = Identity {
        master,
        cluster: Some(ClusterId(7)),
        epoch: Some(EpochId(7)),
        pair_epoch: 1,
        former: Vec::new(),
        paired: true,
        awaiting: None,
        parameters: ClusterParameters::new(7, UtcOffset::default(), u16::MAX)?,
    };
    let mut draft = store::draft(dir)?;
    draft.commit(&[Write::Identity(identity)], 0)?;
    let values: Vec<u32> = (0..LEASES).collect();
    for (chunk, lsn) in values.chunks(CHUNK).zip(1..) {
        let mut writes = Vec::new();
        for value in chunk {
            let (key, lease) = lease(*value, now)?;
            let actor = Actor::new(lease.agent_id.as_str(), &lease.address);
            let entry = Entry::new(lease.granted, actor, Action::Grant, &format!("uint2 {key}"), "g1");
            writes.extend([Write::Audit(entry), Write::Lease(key, lease)]);
        }
        draft.commit(&writes, lsn)?;
    }
    draft.publish()?;
    Ok(())
}

/// Asks for a path again and again: how long the whole answer took, and how long it is.
async fn measure(client: &Client, console: SocketAddr, path: &str) -> Result<()> {
    let mut took = Vec::new();
    let mut length = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let answer = client.console(console, path).await?;
        took.push(began.elapsed());
        ensure!(answer.status == 200, "{path}: {}", answer.text());
        length = answer.body.len();
    }
    took.sort();
    let ms = |nth: usize| took.get(nth).map_or(0.0, Duration::as_secs_f64) * 1_000.0;
    let (median, most) = (ms(ROUNDS / 2), ms(ROUNDS - 1));
    println!("{path}: median {median:.1} ms, at most {most:.1} ms, {length} bytes");
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let mut cluster = Cluster::new()?;
    let now = Clock::system().wall();
    for (nth, id) in [MasterId::One, MasterId::Two].into_iter().enumerate() {
        let master = cluster.master(nth)?;
        fill(&master.data_dir, id, now)?;
        master.daemon.start()?;
    }
    cluster.all_ready().await?;
    let console = cluster.master(0)?.daemon.http;
    let client = &cluster.client;
    client.log_in(console, "admin", ADMIN_PASSWORD).await?;
    let all = || async {
        let rows = client.console(console, "/api/leases?agent=shop-00-00000").await.ok()?.json().ok()?;
        (rows.as_array()?.len() >= 3).then_some(())
    };
    until("the leases are there", all).await?;
    println!("memory after the start: {}", memory(&cluster)?);
    for path in [
        "/leases",
        "/leases?page=300",
        "/leases?agent=shop-17*",
        "/leases?state=resting&type=uint2",
        "/leases?sort=-until",
        "/leases?search=shop-17",
        "/",
        "/agents",
        "/api/leases?agent=shop-17-00017",
        "/api/leases?state=resting",
        "/api/leases",
        "/api/pools",
        "/api/audit?about=uint2%2077",
    ] {
        measure(client, console, path).await?;
    }
    println!("memory at the end: {}", memory(&cluster)?);
    Ok(())
}

fn memory(cluster: &Cluster) -> Result<String> {
    let mut all = String::new();
    for master in &cluster.masters {
        let pid = master.daemon.pid().context("a master does not run")?;
        // Of the whole, what the program itself takes: pages of its file are the system's to take back.
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
        let own = own.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024 / 1_000_000;
        all += &format!(" master{}={} MB (of them {own} its own)", master.id, master.daemon.memory()? / 1_000_000);
    }
    Ok(all)
}
