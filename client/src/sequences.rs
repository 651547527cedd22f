//! Numbers of keys: the agent that serves a key is asked at once, as far as is known, and any of them otherwise.
//!
//! Agents tell with their answers what a caller does not know, and pass on what they do not serve themselves. So a route that is old costs
//! one answer a hop, and none that is wrong costs a number's order: it is only where a question goes first.

use crate::agents::{AgentReply, Agents, Line, Question};
use crate::error::{Attempt, Cause, Error, Failure};
use crate::settings::Address;
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::ClusterId;
use common::sequence::{Route, RouteTable, Section, ServedAt, Slot};
use net::rpc::mint::{KEYS_PER_CALL_MAX, KeyAsked, KeyOutcome, MintCode, SequenceRoutes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Names whose routes are kept; for one more all are asked for anew.
const NAMES_MAX: usize = 1_024;
/// Agents that connections are kept to beside those of the settings.
const LINES_MAX: usize = 256;
/// Answers with routes that are asked for at once, of a name that is not known yet.
const PAGES_MAX: usize = 64;
/// All routes of a name that nobody knew anything of are not asked for again before this has passed.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The routes that are known of a name.
#[derive(Default)]
struct Known {
    keys_per_section: Option<u32>,
    table: RouteTable,
    asked: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct Sequences {
    names: Mutex<BTreeMap<GeneratorName, Known>>,
    lines: Mutex<BTreeMap<Address, Arc<Line>>>,
    /// The cluster whose agents say the routes: the first that said any. Numbers of the same keys in another cluster are others.
    cluster: OnceLock<ClusterId>,
}

/// The agent that a key is asked for at.
type Owner = Option<(Address, Generation)>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sequences {
    /// The first of `n` numbers of a key.
    pub(crate) async fn next(&self, agents: &Agents, name: &GeneratorName, key: KeyAsked) -> Result<u64, Error> {
        let outcomes = self.many(agents, name, &[key]).await?;
        match outcomes.first() {
            Some(KeyOutcome::Given(first)) => Ok(*first),
            Some(KeyOutcome::Refused(code)) => Err(refused(*code)),
            None => Err(refused(MintCode::SegmentPending)),
        }
    }

    /// The outcome of each key, in the order asked for.
    pub(crate) async fn many(
        &self,
        agents: &Agents,
        name: &GeneratorName,
        keys: &[KeyAsked],
    ) -> Result<Vec<KeyOutcome>, Error> {
        self.get_to_know(agents, name).await;
        let parts = self.by_owner(agents, name, keys).into_iter().flat_map(|(address, (g, places))| {
            let owner = address.map(|address| (address, g));
            let parts: Vec<(Owner, Vec<usize>)> =
                places.chunks(KEYS_PER_CALL_MAX).map(|part| (owner.clone(), part.to_vec())).collect();
            parts
        });
        let calls = parts.map(|(owner, places)| async move {
            let asked: Vec<KeyAsked> = places.iter().filter_map(|at| keys.get(*at).copied()).collect();
            (places, self.ask(agents, name, owner, asked).await)
        });
        let mut outcomes = vec![None; keys.len()];
        let mut failed = None;
        for (places, said) in futures::future::join_all(calls).await {
            match said {
                Ok(part) => {
                    for (at, outcome) in places.into_iter().zip(part) {
                        if let Some(place) = outcomes.get_mut(at) {
                            *place = Some(outcome);
                        }
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            // What others gave is not thrown away.
            Some(error) if outcomes.iter().all(Option::is_none) => Err(error),
            _ => Ok(outcomes
                .into_iter()
                .map(|one| one.unwrap_or(KeyOutcome::Refused(MintCode::SegmentPending)))
                .collect()),
        }
    }

    /// Places of keys by whom they are asked of.
    fn by_owner(
        &self,
        agents: &Agents,
        name: &GeneratorName,
        keys: &[KeyAsked],
    ) -> BTreeMap<Option<Address>, (Generation, Vec<usize>)> {
        let names = lock(&self.names);
        let known = names.get(name);
        let mut parts: BTreeMap<Option<Address>, (Generation, Vec<usize>)> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            let found = known.and_then(|known| known.find(key.slot));
            let (address, g) = match found {
                Some((served, g)) => (agents.address_of(served), g),
                None => (None, Generation(0)),
            };
            let part = parts.entry(address).or_default();
            part.0 = part.0.max(g);
            part.1.push(at);
        }
        parts
    }

    /// Asks the owner, if there is one that is known, and any agent if that one does not do it.
    async fn ask(
        &self,
        agents: &Agents,
        name: &GeneratorName,
        owner: Owner,
        keys: Vec<KeyAsked>,
    ) -> Result<Vec<KeyOutcome>, Error> {
        let mut attempts = Vec::new();
        let cluster = self.cluster.get().copied();
        if let Some((address, g)) = owner {
            let question = Question::Keys { name: name.clone(), keys: keys.clone(), g, cluster };
            let line = self.line(agents, &address);
            let cause = match agents.ask_line(&line, &question).await {
                Ok(AgentReply::Keys(outcomes, routes)) if outcomes.len() == keys.len() => {
                    // It was asked by that route: what it says instead is believed, however high the route's g.
                    self.learn(name, &keys, &routes, Some(g));
                    return Ok(outcomes);
                }
                Ok(_) => Cause::Answer("another number of answers than of keys".to_owned()),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Here(why)) => why,
            };
            // Who has too much to do most likely still serves them; without the route further calls would cost it more.
            if cause.code() != Some(MintCode::Overloaded) {
                self.forget(name, &keys, g);
            }
            attempts.push(Attempt { agent: address, cause });
        }
        let wanted = keys.len();
        let take = |answer| match answer {
            AgentReply::Keys(outcomes, routes) if outcomes.len() == wanted => Some((outcomes, routes)),
            _ => None,
        };
        let question = Question::Keys { name: name.clone(), keys: keys.clone(), g: Generation(0), cluster };
        let (outcomes, routes) = agents.ask_after(attempts, question, take).await?;
        self.learn(name, &keys, &routes, None);
        Ok(outcomes)
    }

    /// Asks for all routes of a name of which nothing is known. It is served without them, too.
    async fn get_to_know(&self, agents: &Agents, name: &GeneratorName) {
        {
            let mut names = lock(&self.names);
            if names.len() >= NAMES_MAX && !names.contains_key(name) {
                names.clear();
            }
            let known = names.entry(name.clone()).or_default();
            let lately = known.asked.is_some_and(|asked| asked.elapsed() < ASK_AGAIN);
            if lately || (known.keys_per_section.is_some() && !known.table.is_empty()) {
                return;
            }
            known.asked = Some(Instant::now());
        }
        let mut from = Some(Section(0));
        for _ in 0..PAGES_MAX {
            let Some(first) = from else { break };
            let take = |answer| match answer {
                AgentReply::Routes(routes) => Some(routes),
                _ => None,
            };
            let asked = agents.ask(Question::Routes { name: name.clone(), from: first }, take).await;
            let Ok(SequenceRoutes { cluster, keys_per_section, routes, next }) = asked else { return };
            if cluster.is_some_and(|theirs| *self.cluster.get_or_init(|| theirs) != theirs) {
                return;
            }
            if let Some(known) = lock(&self.names).get_mut(name) {
                known.keys_per_section = Some(keys_per_section).filter(|keys| *keys > 0);
                // An agent of the settings passes on what a master says now.
                for route in &routes {
                    known.table.learn_from_master(route);
                }
            }
            from = next.filter(|next| *next > first);
        }
    }

    /// Takes in what an agent said of these keys' sections when it was asked by routes with no `g` above `by`, if by any.
    fn learn(&self, name: &GeneratorName, keys: &[KeyAsked], routes: &[Route], by: Option<Generation>) {
        if routes.is_empty() {
            return;
        }
        if let Some(known) = lock(&self.names).get_mut(name) {
            let asked: BTreeSet<Section> = keys.iter().filter_map(|key| known.section(key.slot)).collect();
            known.table.learn(asked, routes, by);
        }
    }

    /// Whoever was asked does not answer: these sections are asked of any agent until one says who serves them.
    fn forget(&self, name: &GeneratorName, keys: &[KeyAsked], g: Generation) {
        if let Some(known) = lock(&self.names).get_mut(name) {
            for key in keys {
                if let Some(section) = known.section(key.slot) {
                    known.table.forget(section, g);
                }
            }
        }
    }

    fn line(&self, agents: &Agents, address: &Address) -> Arc<Line> {
        let mut lines = lock(&self.lines);
        if let Some(line) = lines.get(address) {
            return Arc::clone(line);
        }
        if lines.len() >= LINES_MAX {
            lines.clear();
        }
        let line = Arc::new(agents.line(address));
        lines.insert(address.clone(), Arc::clone(&line));
        line
    }
}

impl Known {
    fn section(&self, slot: Slot) -> Option<Section> {
        self.keys_per_section.and_then(|keys| slot.0.checked_div(keys)).map(Section)
    }

    fn find(&self, slot: Slot) -> Option<(&Arc<ServedAt>, Generation)> {
        self.table.find(self.section(slot)?)
    }
}

/// The error that a code means to a caller of one key.
fn refused(code: MintCode) -> Error {
    let detail = match code {
        MintCode::SerialExhausted => "the numbers of this key are used up",
        MintCode::QuotaExceeded => "this key was given as many numbers as it is in an hour; ask again later",
        _ => "no agent serves this key at the moment; ask again",
    };
    Error::Refused { code, detail: detail.to_owned() }
}
