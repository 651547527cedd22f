//! The order of sequences on machines of their own: every key's numbers strictly grow for every client while masters and agents are killed,
//! stand still past their lease, and are cut from each other every way; how long nobody serves a section meanwhile, and what is refused.
//!
//! `scripts/sequences.sh` runs the long form: by UNIQ_KEYS, UNIQ_SECTIONS, UNIQ_SEQUENCE_AGENTS, UNIQ_SEQUENCE_LEASE (seconds),
//! UNIQ_SEQUENCE_ROUNDS, UNIQ_SEQUENCE_MOVES, UNIQ_TEXT_KEYS (1: keys are texts). Machines are network namespaces, cuts are nft rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::keyed::Keys;
use tests::keyed::bulk::Bulk;
use tests::keyed::probe::{Probes, Since};
use tests::netns::{self, Net, Node};
use tests::variables;

const NAME: &str = "inbox";
/// Clients that ask for thousands of keys at once.
const BULK_CLIENTS: u32 = 2;
/// Sections in which a key is asked for all the time, at each agent.
const PROBED: u32 = 24;

/// The size of a run.
#[derive(Clone, Copy)]
struct Size {
    keys: Keys,
    agents: usize,
    lease: Duration,
    rounds: u64,
    moves: u32,
    seed: u64,
}

impl Size {
    fn asked_for() -> Self {
        let few = |name, default| u32::try_from(variables::number_or(name, default)).expect(name);
        let keys = Keys {
            count: few("UNIQ_KEYS", 20_000),
            sections: few("UNIQ_SECTIONS", 400),
            per_section: few("UNIQ_KEYS_PER_SECTION", 100_000),
            text: variables::number_or("UNIQ_TEXT_KEYS", 0) == 1,
        };
        Self {
            keys,
            agents: variables::number_or("UNIQ_SEQUENCE_AGENTS", 3),
            lease: Duration::from_secs(variables::number_or("UNIQ_SEQUENCE_LEASE", 2)),
            rounds: variables::number_or("UNIQ_SEQUENCE_ROUNDS", 1),
            moves: few("UNIQ_SEQUENCE_MOVES", 6),
            seed: variables::seed(),
        }
    }

    fn probed(&self) -> Vec<u32> {
        let probed = PROBED.min(self.keys.sections);
        (0..probed).map(|nth| nth * (self.keys.sections / probed)).collect()
    }
}

struct Whole {
    size: Size,
    cluster: Cluster,
    masters: [Node; 2],
    agents: Vec<Node>,
    probes: Probes,
    bulk: Bulk,
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

impl Whole {
    /// Starts everything, and waits until every key was given a number.
    async fn start(size: Size) -> Self {
        let mut net = Net::new().unwrap();
        let mut cluster = Cluster::new().unwrap();
        let masters = [net.node().unwrap(), net.node().unwrap()];
        netns::move_masters(&mut cluster, &masters).unwrap();
        for master in &mut cluster.masters {
            master.daemon.set("--sequence-lease", &size.lease.as_secs().to_string());
            master.daemon.start().unwrap();
        }
        let agents: Vec<Node> = (0..size.agents).map(|_| net.node().unwrap()).collect();
        for node in &agents {
            let nth = cluster.add_agent(&[]).unwrap();
            netns::move_agent(&mut cluster, nth, node).unwrap();
            cluster.agents[nth].daemon.start().unwrap();
        }
        cluster.all_ready().await.unwrap();
        let definition = format!(r#"{{"kind":"sequence","keys_per_section":{}}}"#, size.keys.per_section);
        let url = cluster.agent_url(0, &format!("generators/{NAME}")).unwrap();
        let done = || async {
            let answer = cluster.client.ask("PUT", &url, definition.clone().into_bytes()).await.ok()?;
            [200, 201].contains(&answer.status).then_some(())
        };
        until("the name is registered", done).await.unwrap();
        let at: Vec<SocketAddr> = cluster.agents.iter().map(|agent| agent.daemon.http).collect();
        let began = Instant::now();
        let bulk = Bulk::start(&cluster.client, &at, NAME, size.keys, BULK_CLIENTS, true, size.seed);
        let probes = Probes::start(&cluster.client, &at, NAME, size.keys, &size.probed());
        let whole = Self { size, cluster, masters, agents, probes, bulk };
        whole.every_key_comes(began).await;
        println!(
            "{} keys in {} sections at {} agents, N = {:?}: the first number of each after {:.1?}",
            size.keys.count,
            size.keys.sections,
            size.agents,
            size.lease,
            began.elapsed()
        );
        whole.memory();
        whole.sections().await;
        whole
    }

    async fn every_key_comes(&self, began: Instant) {
        let (goal, patience) = (self.bulk.rounds() + 1, PATIENCE.max(Duration::from_micros(60) * self.size.keys.count));
        while self.bulk.rounds() < goal || self.probes.silent_since(began) > 0 {
            let verdict = self.bulk.verdict();
            assert!(
                began.elapsed() < patience,
                "{} of the probed keys got no number: {verdict:?}",
                self.probes.silent_since(began)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn sections(&self) {
        let mut of_agents = Vec::new();
        for nth in 0..self.cluster.agents.len() {
            let metrics = self.cluster.ask_agent(nth, "metrics").await.map(|answer| answer.text()).unwrap_or_default();
            let served = metrics.lines().find_map(|line| line.strip_prefix("uniq_sequence_sections "));
            of_agents.push(served.unwrap_or("?").to_owned());
        }
        println!("  sections served by agents: {of_agents:?}");
    }

    fn memory(&self) {
        let megabytes = |bytes: u64| bytes >> 20;
        let of_agents: Vec<u64> =
            self.cluster.agents.iter().map(|a| megabytes(a.daemon.memory().unwrap_or(0))).collect();
        let of_masters: Vec<u64> =
            self.cluster.masters.iter().map(|m| megabytes(m.daemon.memory().unwrap_or(0))).collect();
        println!("  resident MiB: agents {of_agents:?}, masters {of_masters:?}");
    }

    /// Waits until every probed key was given a number after now, and says what it was like since it was last asked.
    async fn settles(&self, what: &str) -> Since {
        let now = Instant::now();
        while self.probes.silent_since(now) > 0 {
            assert!(
                now.elapsed() < PATIENCE,
                "{what}: {} keys got no number: {:?}",
                self.probes.silent_since(now),
                self.bulk.verdict()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let since = self.probes.since();
        println!(
            "{what}: without service {} ms at most ({:.1} N), {} ms in the middle; refused {} {:?}",
            since.longest_ms(),
            since.longest_ms() as f64 / self.size.lease.as_millis() as f64,
            since.median_ms(),
            since.refused(),
            since.troubles,
        );
        since
    }

    async fn quiet(&self, leases: u32) {
        tokio::time::sleep(self.size.lease * leases).await;
    }

    async fn a_master_is_killed(&mut self, nth: usize) {
        let daemon = &mut self.cluster.masters[nth].daemon;
        daemon.kill_9();
        self.quiet(2).await;
        self.settles(&format!("master {nth} away")).await;
        let daemon = &mut self.cluster.masters[nth].daemon;
        daemon.start().unwrap();
        until_status(&self.cluster.client.clone(), daemon, "/readyz", 200).await.unwrap();
        self.settles(&format!("master {nth} back")).await;
    }

    async fn an_agent_is_killed(&mut self, nth: usize) {
        self.cluster.agents[nth].daemon.kill_9();
        self.settles(&format!("agent {nth} killed")).await;
        let daemon = &mut self.cluster.agents[nth].daemon;
        daemon.start().unwrap();
        until_status(&self.cluster.client.clone(), daemon, "/readyz", 200).await.unwrap();
        self.quiet(4).await;
        self.settles(&format!("agent {nth} back")).await;
        self.sections().await;
    }

    /// An agent stands still past its lease with calls in its sockets, and then goes on.
    async fn an_agent_stands_still(&self, nth: usize) {
        let pid = self.cluster.agents[nth].daemon.pid().unwrap();
        signal(pid, rustix::process::Signal::STOP);
        self.quiet(4).await;
        signal(pid, rustix::process::Signal::CONT);
        self.settles(&format!("agent {nth} stood still")).await;
    }

    async fn a_cut(&self, what: &str, cuts: &[(&Node, &Node)]) {
        for (deaf, other) in cuts {
            deaf.deafen(other).unwrap();
        }
        self.quiet(4).await;
        self.settles(&format!("{what}: cut")).await;
        for (deaf, _) in cuts {
            deaf.heal().unwrap();
        }
        self.quiet(2).await;
        self.settles(&format!("{what}: healed")).await;
    }

    /// An operator moves probed sections, one after the other, each to an agent that does not serve it.
    async fn an_operator_moves(&self) {
        self.quiet(2).await;
        self.settles("before moves").await;
        let probed = self.size.probed();
        let mut moved = 0;
        let mut sections = probed.iter().cycle();
        let began = Instant::now();
        while moved < self.size.moves {
            assert!(began.elapsed() < PATIENCE * 4, "{moved} moves only");
            let section = *sections.next().unwrap();
            let to = self.somebody_else(section).await;
            let console = self.cluster.masters[moved as usize % 2].daemon.http;
            let body = serde_json::json!({"to": to, "confirm": format!("{NAME}/{section}")});
            let path = format!("/api/sections/{NAME}/{section}/move");
            let answer = self.cluster.client.change(console, &path, &body).await.unwrap();
            assert!(matches!(answer.status, 200 | 202 | 409), "{}", answer.text());
            moved += u32::from(answer.status != 409);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.quiet(3).await;
        let since = self.settles(&format!("{moved} moves by an operator")).await;
        assert_eq!(since.refused(), 0, "calls wait while a section moves: {since:?}");
    }

    /// An agent that does not serve a section.
    async fn somebody_else(&self, section: u32) -> String {
        let console = self.cluster.masters[0].daemon.http;
        let after = section.checked_sub(1).map_or(String::new(), |before| format!("&after={NAME}/{before}"));
        let path = format!("/api/sections?name={NAME}&n=1{after}");
        let rows = self.cluster.client.console(console, &path).await.unwrap().json().unwrap();
        let serving = rows.to_string();
        let others = self.cluster.agents.iter().filter(|agent| !serving.contains(&format!("\"{}\"", agent.agent_id)));
        let others: Vec<_> = others.collect();
        others[section as usize % others.len()].agent_id.clone()
    }

    async fn cuts(&self, agent: usize) {
        let [one, two] = &self.masters;
        let cut_off = &self.agents[agent];
        self.a_cut("the masters", &[(one, two), (two, one)]).await;
        self.a_cut("the masters, one way", &[(two, one)]).await;
        self.a_cut("an agent from both masters", &[(cut_off, one), (cut_off, two)]).await;
        self.a_cut("an agent that both masters do not hear", &[(one, cut_off), (two, cut_off)]).await;
        self.a_cut("an agent from one master", &[(cut_off, one), (one, cut_off)]).await;
    }

    async fn ends(self) {
        self.memory();
        let bulk = self.bulk.stop().await.unwrap();
        let probed = self.probes.stop().await.unwrap();
        let numbers = bulk.numbers + probed.numbers;
        println!("  {bulk:?}\n  {probed:?}");
        println!(
            "  keys={} sections={} numbers={numbers} duplicates={} disorder={}",
            self.size.keys.count,
            self.size.keys.sections,
            probed.duplicates,
            bulk.disorder + probed.disorder
        );
        assert_eq!((probed.duplicates, bulk.disorder + probed.disorder), (0, 0));
    }
}

async fn through_everything() {
    let size = Size::asked_for();
    let mut whole = Whole::start(size).await;
    whole.probes.since();
    whole.quiet(2).await;
    whole.settles("nothing happens").await;
    for round in 0..size.rounds as usize {
        let agent = |nth: usize| (round + nth) % size.agents;
        for master in 0..2 {
            whole.a_master_is_killed(master).await;
        }
        whole.an_operator_moves().await;
        whole.an_agent_is_killed(agent(0)).await;
        whole.an_agent_stands_still(agent(1)).await;
        whole.cuts(agent(2)).await;
    }
    let began = Instant::now();
    whole.every_key_comes(began).await;
    println!("every key once more after {:.1?}", began.elapsed());
    whole.ends().await;
}

#[test]
fn keys_grow_for_everybody_whatever_is_killed_stands_still_or_is_cut() {
    netns::enter(async || through_everything().await).unwrap();
}
