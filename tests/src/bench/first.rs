//! First calls on a cluster that has nothing else to do: how long each takes, by what it is the first of, and how many are refused.
//!
//! Connections are open before anything is measured, and one call follows the other but where it says otherwise. Numbers of keys are held
//! against those that came before.

use super::figures::Latencies;
use super::report;
use crate::client::{Answer, Client};
use crate::cluster::{Cluster, PATIENCE, until, until_status};
use crate::programs;
use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use common::sequence::{KEYS_PER_SECTION_DEFAULT, Slot};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Names of kind `sequence` that are registered, and known to both agents, before anything is measured.
const KNOWN: [&str; 7] = ["keys", "sections", "callers", "away", "many-0", "many-1", "many-2"];
const KEYS: u32 = 60;
/// New keys after each disturbance, at each agent.
const NEW_KEYS: u32 = 30;
const CALLERS: u32 = 16;
const CALLERS_KEYS: u32 = 320;
const MANY: u32 = 10_000;
const UNKNOWN: u32 = 20;
/// New keys with a master away, at each agent: one that is refused takes seconds.
const AWAY_KEYS: u32 = 3;
/// Names of each kind that each agent registers for each of two rows,
const NAMES: u32 = 2;
/// and those that it registers after a restart of a master: together as many as one caller may, at most.
const NAMES_AFTER: u32 = 5;
/// Names that are asked for at an agent before somebody else registers them.
const EARLY: u32 = 10;
/// Time in which the cluster comes to rest.
const REST: Duration = Duration::from_secs(2);
/// Time between two looks whether sections have moved.
const LOOK: Duration = Duration::from_millis(20);
/// Time after which another agent serves what was moved: more than two leases of sections.
const HANDED_OVER: Duration = Duration::from_secs(12);
/// Looks, with [`REST`] between them, that show the same.
const SETTLED: u32 = 3;
/// Time after which masters count one that is silent as away.
const GONE: Duration = Duration::from_secs(12);

/// A definition for each kind, and the path of its first number or ID.
const KINDS: [(&str, &str, &str); 5] = [
    ("uniq64", r#"{"kind":"uniq64"}"#, "uniq64/NAME"),
    ("string", r#"{"kind":"string","scope":"own","template":"{date:%Y%m%d}{token}{serial:8}"}"#, "string/NAME"),
    ("layout", r#"{"kind":"layout","layout":"sonyflake"}"#, "id/NAME"),
    ("segment", r#"{"kind":"segment"}"#, "segment/NAME"),
    ("sequence", r#"{"kind":"sequence"}"#, "sequence/NAME/7"),
];
/// Layouts whose token an agent does not lease before the first ID is asked for.
const NARROW: [(&str, &str); 3] = [
    ("narrow-8", r#"{"kind":"layout","layout":"js53"}"#),
    ("narrow-10", r#"{"kind":"layout","layout":"snowflake"}"#),
    (
        "narrow-5",
        r#"{"kind":"layout","bits":64,"epoch":"2024-01-01T00:00:00Z","unit_ms":1,"fields":["zero:1","time:41","token:5","serial:17"]}"#,
    ),
];

/// The outcome of a call.
struct Asked {
    taken: Duration,
    refused: Option<String>,
}

struct Row {
    what: String,
    taken: Latencies,
    calls: usize,
    /// Codes of refusals, and how often each came.
    refused: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn note(&mut self, what: &str, asked: Asked) -> Result<()> {
        let at = match self.0.iter().position(|row| row.what == what) {
            Some(at) => at,
            None => {
                let (what, taken) = (what.to_owned(), Latencies::new()?);
                self.0.push(Row { what, taken, calls: 0, refused: BTreeMap::new() });
                self.0.len() - 1
            }
        };
        let row = self.0.get_mut(at).context("no row")?;
        row.calls += 1;
        row.taken.note(u64::try_from(asked.taken.as_nanos()).unwrap_or(u64::MAX));
        if let Some(code) = asked.refused {
            *row.refused.entry(code).or_default() += 1;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut text =
            "| first call | calls | p50 ms | p90 ms | p99 ms | max ms | refused |\n|---|---:|---:|---:|---:|---:|---|\n"
                .to_owned();
        for Row { what, taken, calls, refused } in &self.0 {
            let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|part| taken.quantile(part) / 1e3);
            let max = taken.spread().max / 1e3;
            let refused: Vec<String> = refused.iter().map(|(code, times)| format!("{times} x {code}")).collect();
            let refused = refused.join(", ");
            let _ = writeln!(text, "| {what} | {calls} | {p50:.2} | {p90:.2} | {p99:.2} | {max:.2} | {refused} |");
        }
        text
    }
}

/// Asks, and says how long that took and why it was refused, if it was, beside the answer.
async fn timed(ask: impl Future<Output = Result<Answer>>) -> Result<(Asked, Answer)> {
    let began = Instant::now();
    let answer = ask.await?;
    let taken = began.elapsed();
    let refused = (answer.status >= 300).then(|| format!("{} {}", answer.status, answer.code()));
    Ok((Asked { taken, refused }, answer))
}

struct Bench {
    cluster: Cluster,
    client: Client,
    table: Table,
    /// The last number of each key.
    last: BTreeMap<String, u64>,
}

/// A call for a key at an agent.
struct Keyed {
    agent: usize,
    key: String,
    asked: Asked,
}

fn texts(group: &str, count: u32) -> Vec<String> {
    (0..count).map(|nth| format!("{group}-{nth}")).collect()
}

impl Bench {
    /// The masters, two agents, and the names that are known to all.
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(2, &[]).await?;
        let sequences = KNOWN.map(|name| (name, r#"{"kind":"sequence"}"#));
        for (name, definition) in sequences.into_iter().chain(NARROW) {
            cluster.register(name, definition).await?;
        }
        for name in KNOWN {
            cluster.all_give(&format!("sequence/{name}/0")).await?;
        }
        let bench = Self { client: cluster.client.clone(), cluster, table: Table::default(), last: BTreeMap::new() };
        bench.settle().await?;
        Ok(bench)
    }

    /// Opens a connection to each agent, if there is none.
    async fn connect(&self) -> Result<()> {
        for agent in 0..self.cluster.agents.len() {
            self.cluster.ask_agent(agent, "healthz").await?;
        }
        Ok(())
    }

    async fn get(&self, agent: usize, path: &str) -> Result<(Asked, Answer)> {
        timed(self.client.get(&self.cluster.agent_url(agent, path)?)).await
    }

    /// The next number of a key.
    async fn number(&mut self, agent: usize, name: &str, key: &str) -> Result<Asked> {
        let (asked, answer) = self.get(agent, &format!("sequence/{name}/{key}")).await?;
        self.hold_against(name, key, &answer)?;
        Ok(asked)
    }

    fn hold_against(&mut self, name: &str, key: &str, answer: &Answer) -> Result<()> {
        if answer.status == 200 {
            let number: u64 = answer.text().trim().parse()?;
            let last = self.last.insert(format!("{name}/{key}"), number).unwrap_or(0);
            ensure!(number > last, "{name}/{key}: {number} came after {last}");
        }
        Ok(())
    }

    async fn numbers(&mut self, agent: usize, name: &str, keys: &[String]) -> Result<Vec<Keyed>> {
        let mut all = Vec::new();
        for key in keys {
            let (asked, key) = (self.number(agent, name, key).await?, key.clone());
            all.push(Keyed { agent, key, asked });
        }
        Ok(all)
    }

    /// Waits until sections stay where they are, and each is served: an agent that comes to sequences last is given its part within half a
    /// minute, and calls for what is on its way wait for the agent that had it before.
    async fn settle(&self) -> Result<()> {
        let (mut before, mut same) = (Vec::new(), 0);
        while same < SETTLED {
            tokio::time::sleep(REST).await;
            let mut now = Vec::new();
            for name in KNOWN {
                now.push(self.cluster.routes(name).await?);
            }
            same = if now == before && self.on_their_way().await? == 0 { same + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }

    /// Sections that wait at their next owners for the ones before to stop.
    async fn on_their_way(&self) -> Result<u64> {
        let mut sections = 0;
        for agent in 0..self.cluster.agents.len() {
            let names = self.cluster.ask_agent(agent, "generators").await?.json()?;
            let waiting = |name: &serde_json::Value| name.pointer("/sequence/waiting")?.as_u64();
            sections += names.as_array().into_iter().flatten().filter_map(waiting).sum::<u64>();
        }
        Ok(sections)
    }

    /// The agent that serves each key, as a master says; none of one that nobody serves.
    async fn owners(&self, name: &str, keys: &[String]) -> Result<BTreeMap<String, usize>> {
        let routes = self.cluster.routes(name).await?;
        let agents: Vec<String> = self.cluster.agents.iter().map(|agent| agent.daemon.http.to_string()).collect();
        let owner = |key: &String| {
            let section = u64::from(Slot::of(key).ok()?.0 / KEYS_PER_SECTION_DEFAULT);
            let route = routes.iter().find(|route| (route.from..route.to).contains(&section))?;
            Some((key.clone(), agents.iter().position(|agent| *agent == route.http)?))
        };
        Ok(keys.iter().filter_map(owner).collect())
    }

    /// Notes calls in two rows: those at the agent that serves the key, and the others.
    fn note_keyed(&mut self, what: &str, calls: Vec<Keyed>, owners: &BTreeMap<String, usize>) -> Result<()> {
        for Keyed { agent, key, asked } in calls {
            let row = match owners.get(&key) {
                Some(owner) if *owner == agent => "at the agent that serves it",
                Some(_) => "at the other one",
                None => "of a section that nobody serves",
            };
            self.table.note(&format!("{what}, {row}"), asked)?;
        }
        Ok(())
    }

    /// Keys of a group that nobody used, at one agent after the other, each asked for at one of them.
    async fn new_keys(&mut self, what: &str, name: &str, group: &str, count: u32) -> Result<()> {
        self.connect().await?;
        for agent in 0..2 {
            let keys = texts(&format!("{group}-{agent}"), count);
            let calls = self.numbers(agent, name, &keys).await?;
            let owners = self.owners(name, &keys).await?;
            self.note_keyed(what, calls, &owners)?;
        }
        Ok(())
    }

    async fn keys(&mut self) -> Result<()> {
        let keys = texts("user", KEYS);
        self.connect().await?;
        let first = self.numbers(0, "keys", &keys).await?;
        let owners = self.owners("keys", &keys).await?;
        self.note_keyed("a text key", first, &owners)?;
        let second = self.numbers(1, "keys", &keys).await?;
        let owners = self.owners("keys", &keys).await?;
        self.note_keyed("the same keys from the other side", second, &owners)?;
        for agent in 0..2 {
            let again = self.numbers(agent, "keys", &keys).await?;
            self.note_keyed("again", again, &owners)?;
        }
        Ok(())
    }

    async fn sections(&mut self) -> Result<()> {
        let keys: Vec<String> =
            (1..=NEW_KEYS).map(|section| (section * KEYS_PER_SECTION_DEFAULT + 1).to_string()).collect();
        for agent in 0..2 {
            let keys = keys.iter().skip(agent).step_by(2).cloned().collect::<Vec<_>>();
            let calls = self.numbers(agent, "sections", &keys).await?;
            let owners = self.owners("sections", &keys).await?;
            self.note_keyed("a key in each of thirty sections", calls, &owners)?;
        }
        Ok(())
    }

    /// Callers at once, each with a connection of its own.
    async fn callers(&mut self) -> Result<()> {
        let keys = texts("caller", CALLERS_KEYS);
        let mut callers = Vec::new();
        for part in keys.chunks((CALLERS_KEYS / CALLERS) as usize) {
            let (client, base) = (Client::new()?, self.cluster.agent_url(0, "")?);
            client.get(&format!("{base}healthz")).await?;
            let part = part.to_vec();
            callers.push(async move {
                let mut all = Vec::new();
                for key in part {
                    all.push((timed(client.get(&format!("{base}sequence/callers/{key}"))).await?, key));
                }
                anyhow::Ok(all)
            });
        }
        for ((asked, answer), key) in futures::future::try_join_all(callers).await?.into_iter().flatten() {
            self.hold_against("callers", &key, &answer)?;
            self.table.note(&format!("{CALLERS} callers at once, {CALLERS_KEYS} new keys"), asked)?;
        }
        Ok(())
    }

    /// New keys, all in one call.
    async fn many(&mut self) -> Result<()> {
        self.connect().await?;
        for name in KNOWN.iter().filter(|name| name.starts_with("many")) {
            let keys = texts("many", MANY);
            let body = keys.iter().map(|key| format!("{key}\n")).collect::<String>();
            let url = self.cluster.agent_url(0, &format!("sequence/{name}"))?;
            let (mut asked, answer) = timed(self.client.ask("POST", &url, body.into_bytes())).await?;
            let text = answer.text();
            let failed = text.lines().filter(|line| line.starts_with('!')).count();
            if failed > 0 && asked.refused.is_none() {
                let code = text.lines().find(|line| line.starts_with('!')).unwrap_or_default();
                asked.refused = Some(format!("{failed} keys {code}"));
            }
            self.table.note(&format!("{MANY} new keys in one call"), asked)?;
        }
        Ok(())
    }

    /// Names of each kind: registered, and asked for where they were registered or elsewhere.
    async fn names(&mut self) -> Result<()> {
        self.connect().await?;
        for (kind, definition, path) in KINDS {
            for (here, there) in [(0, 1), (1, 0)] {
                for nth in 0..2 * NAMES {
                    let name = format!("new-{kind}-{here}-{nth}");
                    let url = self.cluster.agent_url(here, &format!("generators/{name}"))?;
                    let (asked, answer) = timed(self.client.ask("PUT", &url, definition.into())).await?;
                    ensure!(answer.status == 201, "cannot register {name}: {}", answer.text());
                    self.table.note(&format!("a definition of kind {kind}"), asked)?;
                    let path = path.replace("NAME", &name);
                    let (at, row) = match nth < NAMES {
                        true => (there, "just registered, at the other agent"),
                        false => (here, "just registered, at the agent that registered it"),
                    };
                    let (asked, _) = self.get(at, &path).await?;
                    self.table.note(&format!("{kind}: {row}"), asked)?;
                    if at == here {
                        let (asked, _) = self.get(there, &path).await?;
                        self.table.note(&format!("{kind}: just used, at the other agent"), asked)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// First IDs of names that nobody used, by callers at once.
    async fn names_at_once(&mut self) -> Result<()> {
        let mut callers = Vec::new();
        for nth in 0..CALLERS {
            let name = format!("at-once-{nth}");
            self.cluster.register(&name, r#"{"kind":"uniq64"}"#).await?;
            let (client, url) = (Client::new()?, self.cluster.agent_url(0, "")?);
            client.get(&format!("{url}healthz")).await?;
            callers.push(async move { timed(client.get(&format!("{url}uniq64/{name}"))).await });
        }
        for (asked, _) in futures::future::try_join_all(callers).await? {
            self.table.note(
                &format!("uniq64: {CALLERS} callers at once, each by a name that was registered elsewhere"),
                asked,
            )?;
        }
        Ok(())
    }

    /// Names that nobody registered, and layouts for which an agent has to lease a token first.
    async fn unknown_and_narrow(&mut self) -> Result<()> {
        for nth in 0..UNKNOWN {
            let (mut asked, answer) = self.get(0, &format!("uniq64/unknown-{nth}")).await?;
            // That is the answer to it.
            if answer.status == 404 {
                asked.refused = None;
            }
            self.table.note("an unknown name, until it is said to be unknown", asked)?;
        }
        for nth in 0..EARLY {
            let name = format!("early-{nth}");
            let path = format!("uniq64/{name}");
            let (_, answer) = self.get(0, &path).await?;
            ensure!(answer.status == 404, "{name} is known: {}", answer.text());
            self.cluster.register(&name, r#"{"kind":"uniq64"}"#).await?;
            let (asked, _) = self.get(0, &path).await?;
            self.table.note("uniq64: just registered elsewhere, asked for before", asked)?;
        }
        for (name, _) in NARROW {
            for agent in 0..2 {
                let (asked, _) = self.get(agent, &format!("id/{name}")).await?;
                self.table.note("a layout for which a token is leased first", asked)?;
            }
        }
        Ok(())
    }

    /// Starts the first agent again, and asks for the keys that it served, and for new ones.
    async fn agent_again(&mut self, what: &str, kill: bool) -> Result<()> {
        let keys = texts("user", KEYS);
        self.numbers(1, "keys", &keys).await?;
        let owners = self.owners("keys", &keys).await?;
        let mut served: Vec<String> = keys.iter().filter(|key| owners.get(*key) == Some(&0)).cloned().collect();
        let daemon = &mut self.cluster.agent(0)?.daemon;
        match kill {
            true => daemon.kill_9(),
            false => _ = daemon.terminate().await?,
        }
        let began = Instant::now();
        daemon.start()?;
        until_status(&self.client, &mut self.cluster.agent(0)?.daemon, "/readyz", 200).await?;
        // One of them tells when it serves again.
        if let Some(probe) = served.pop() {
            let url = self.cluster.agent_url(0, &format!("sequence/keys/{probe}"))?;
            let gives = || async { (self.client.get(&url).await.ok()?.status == 200).then_some(()) };
            until("the agent serves again", gives).await?;
            let taken = began.elapsed();
            self.table.note(&format!("{what}: from its start to its first number"), Asked { taken, refused: None })?;
        }
        self.connect().await?;
        for agent in 0..2 {
            let calls = self.numbers(agent, "keys", &served).await?;
            self.note_keyed(&format!("{what}: a key that it served"), calls, &owners)?;
        }
        self.new_keys(&format!("{what}: a new key"), "keys", what, NEW_KEYS).await?;
        // One that was stopped cleanly gave its sections away, and is given others.
        self.settle().await
    }

    async fn master_again(&mut self) -> Result<()> {
        let daemon = &mut self.cluster.master(0)?.daemon;
        daemon.terminate().await?;
        daemon.start()?;
        self.cluster.all_ready().await?;
        self.connect().await?;
        for nth in 0..2 * NAMES_AFTER {
            let (here, name) = ((nth % 2) as usize, format!("after-{nth}"));
            let url = self.cluster.agent_url(here, &format!("generators/{name}"))?;
            let (asked, _) = timed(self.client.ask("PUT", &url, br#"{"kind":"uniq64"}"#.into())).await?;
            self.table.note("after a restart of a master: a definition", asked)?;
            let (asked, _) = self.get(1 - here, &format!("uniq64/{name}")).await?;
            self.table.note("after a restart of a master: a name just registered, at the other agent", asked)?;
        }
        tokio::time::sleep(REST).await;
        self.new_keys("after a restart of a master: a new key", "keys", "master", NEW_KEYS).await
    }

    /// Drains the first agent, and asks for the keys that it served, and for new ones, once the other one serves all.
    async fn drained(&mut self) -> Result<()> {
        let keys = texts("drained", KEYS);
        self.numbers(0, "keys", &keys).await?;
        let owners = self.owners("keys", &keys).await?;
        let moved: Vec<String> = keys.into_iter().filter(|key| owners.get(key) == Some(&0)).collect();
        let probe = moved.first().context("the first agent serves none of the keys")?;
        let before = self.sections_of(0).await?;
        let began = Instant::now();
        self.drain(0, true).await?;
        while self.sections_of(0).await? > 0 {
            ensure!(began.elapsed() < PATIENCE, "sections stay at an agent that is drained");
            tokio::time::sleep(LOOK).await;
        }
        let taken = began.elapsed();
        self.table.note(
            &format!("a drain of {before} sections, until all are the other agent's"),
            Asked { taken, refused: None },
        )?;
        // The agent that is drained gives numbers until its lease of sections ends, and the next one waits for that.
        let mut longest = Asked { taken: Duration::ZERO, refused: None };
        let served = Instant::now();
        while served.elapsed() < HANDED_OVER {
            let asked = self.number(0, "keys", probe).await?;
            if asked.taken > longest.taken {
                longest = asked;
            }
            tokio::time::sleep(LOOK).await;
        }
        self.table.note("a drain: the longest call for a key that moves, at the agent that is drained", longest)?;
        let owners = self.owners("keys", &moved).await?;
        for agent in 0..2 {
            let calls = self.numbers(agent, "keys", &moved).await?;
            self.note_keyed("after a drain: a key that moved", calls, &owners)?;
        }
        self.new_keys("after a drain: a new key", "keys", "after-drain", NEW_KEYS).await?;
        self.drain(0, false).await?;
        self.settle().await
    }

    /// The number of sections of the names that an agent serves.
    async fn sections_of(&self, agent: usize) -> Result<u64> {
        let at = self.cluster.agents.get(agent).context("no such agent")?.daemon.http.to_string();
        let mut sections = 0;
        for name in KNOWN {
            let routes = self.cluster.routes(name).await?;
            sections += routes.iter().filter(|route| route.http == at).map(|route| route.to - route.from).sum::<u64>();
        }
        Ok(sections)
    }

    async fn drain(&self, agent: usize, drain: bool) -> Result<()> {
        let console = self.cluster.masters.first().context("no master")?.daemon.http;
        let agent_id = &self.cluster.agents.get(agent).context("no such agent")?.agent_id;
        let form = serde_json::json!({ "drain": drain, "confirm": agent_id });
        let path = format!("/api/allocators/{agent_id}/drain");
        let answer = self.client.change_by("POST".parse()?, console, &path, &form).await?;
        ensure!(answer.status == 200, "cannot drain {agent_id}: {}", answer.text());
        Ok(())
    }

    async fn without_master(&mut self, nth: usize) -> Result<()> {
        self.cluster.master(nth)?.daemon.kill_9();
        tokio::time::sleep(GONE).await;
        let what = format!("with master {} away: a new key", nth + 1);
        self.new_keys(&what, "away", &format!("without-{nth}"), AWAY_KEYS).await?;
        self.cluster.master(nth)?.daemon.start()?;
        self.cluster.all_ready().await?;
        tokio::time::sleep(REST).await;
        Ok(())
    }
}

/// A part of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Definitions, first IDs of names, unknown names, tokens that are leased on demand.
    Names,
    /// Keys of sequences.
    Keys,
    /// Keys after restarts of an agent and of a master.
    Restarts,
    /// Keys with a master away.
    Away,
    /// New keys, many in a call.
    Many,
    /// Keys after their agent was drained.
    Drain,
}

impl Bench {
    async fn measure(&mut self, part: Part) -> Result<()> {
        match part {
            Part::Names => {
                self.names().await?;
                self.names_at_once().await?;
                self.unknown_and_narrow().await
            }
            Part::Keys => {
                self.keys().await?;
                self.sections().await?;
                self.callers().await
            }
            Part::Restarts => {
                self.agent_again("after kill -9 of an agent", true).await?;
                self.agent_again("after a restart of an agent", false).await?;
                self.master_again().await
            }
            Part::Away => {
                self.without_master(0).await?;
                self.without_master(1).await
            }
            Part::Many => self.many().await,
            Part::Drain => self.drained().await,
        }
    }
}

/// Starts a cluster, of the programs in `bins` if that is given, and prints the parts of the table.
///
/// # Errors
/// If something does not start or answer, or a key's number does not grow.
pub async fn run(bins: Option<PathBuf>, parts: &[Part]) -> Result<()> {
    if let Some(bins) = bins {
        programs::take_from(&bins)?;
    }
    let machine = report::machine();
    eprintln!("Starting two masters and two agents ...");
    let mut bench = Bench::start().await?;
    for part in parts {
        eprintln!("{part:?} ...");
        bench.measure(*part).await?;
    }
    writeln!(std::io::stdout(), "{machine}\n\n{}", bench.table.text())?;
    Ok(())
}
