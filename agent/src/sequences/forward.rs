//! Passing calls on to the agents that serve their keys. What was passed on is not passed on again: whoever gets it serves it or says who does.

use super::counts::add;
use super::name::{Name, ownership};
use super::routes::Awaited;
use super::serve::{REFUSED, REST, ROUTES_TOLD_MAX, sections_of};
use super::waiting::{Room, forwarded_max};
use super::{Sequences, lock};
use crate::sequence::Ownership;
use common::lease::Generation;
use common::sequence::{Section, ServedAt};
use common::time::BootMs;
use ipnet::IpNet;
use net::rpc::mint::{
    KEYS_PER_CALL_MAX, KeyAsked, KeyOutcome, KeyReply, KeysReply, MintCode, MintFailure, MintServiceClient, Passing,
    SequenceCall,
};
use net::rpc::transport;
use net::tls::Admits;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tarpc::client::RpcError;
use tokio::time::Instant;

/// Agents that connections are kept to. For one more all are made anew.
const AGENTS_MAX: usize = 256;
/// The part of calls that are passed on at once which go to one agent: one that does not answer takes the places of no other.
const SHARE_PART: usize = 4;
/// Keys of calls that are passed on, of all and, by that part, to one agent. A key takes some 40 bytes until it is answered.
const KEYS_MAX: usize = 1 << 19;
/// The time that another agent may take at most.
const PATIENCE_MAX: Duration = Duration::from_secs(30);

/// A connection to another agent, which is told from the next one to the same address by its number.
#[derive(Clone)]
struct Line {
    number: u64,
    /// The [`Tls::revision`](net::tls::Tls::revision) before it was made.
    revision: u64,
    client: MintServiceClient,
}

pub(super) struct Forwards {
    lines: Mutex<BTreeMap<String, Line>>,
    /// Locks by the agent's address, held while a connection is made, so that calls that lost one together make one.
    connecting: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    made: AtomicU64,
    /// The networks of other agents, as a master said last: any other address that one of them gives as its own is somebody else's.
    networks: Mutex<Vec<IpNet>>,
    said: Once,
    /// The room for calls that are passed on at once; one more call waits here.
    room: Room,
    /// By the agent's address.
    shares: Mutex<BTreeMap<String, Arc<Room>>>,
}

impl Forwards {
    /// With callers that have so many connections.
    pub(super) fn new(connections: usize) -> Self {
        let room = Room::new(forwarded_max(connections), KEYS_MAX);
        Self {
            lines: Mutex::default(),
            connecting: Mutex::default(),
            made: AtomicU64::new(0),
            networks: Mutex::default(),
            said: Once::new(),
            room,
            shares: Mutex::default(),
        }
    }

    /// Calls that are passed on now.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.room.calls_taken()
    }

    /// From now on agents are in these networks.
    pub(super) fn allow(&self, networks: Vec<IpNet>) {
        let mut known = lock(&self.networks);
        if *known != networks {
            *known = networks;
            // What was allowed before may not be any more.
            lock(&self.lines).clear();
        }
    }

    /// Those of these addresses at which another agent may be.
    fn admitted(&self, found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
        let networks = lock(&self.networks);
        found.filter(|at| networks.iter().any(|network| network.contains(&at.ip().to_canonical()))).collect()
    }

    /// Forgets a connection, if there is no later one.
    fn drop_line(&self, address: &str, number: u64) {
        let mut lines = lock(&self.lines);
        if lines.get(address).is_some_and(|line| line.number == number) {
            lines.remove(address);
        }
    }

    fn turn(&self, address: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = lock(&self.connecting);
        if all.len() >= AGENTS_MAX {
            // Those in use are with calls that connect.
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(all.entry(address.to_owned()).or_default())
    }

    fn share(&self, address: &str) -> Arc<Room> {
        let mut shares = lock(&self.shares);
        if let Some(share) = shares.get(address) {
            return Arc::clone(share);
        }
        if shares.len() >= AGENTS_MAX {
            // Those in use are with calls that are under way.
            shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = Arc::new(self.room.part(SHARE_PART));
        shares.insert(address.to_owned(), Arc::clone(&share));
        share
    }
}

/// The reason why another agent gave nothing.
#[derive(Debug)]
pub(super) enum NotPassed {
    /// As many calls are passed on as may be, or one that was before waits for the same sections.
    Full,
    /// Others serve all of these keys by now.
    Overtaken,
    /// The agent was not reached, or its answer was lost.
    Lost(String),
    /// The connection ended before an answer came.
    Closed(String),
    /// The agent refused the whole call.
    Refused(MintFailure),
}

/// Ends after a while if other calls wait already for all sections of the keys at these places: one that waits at another agent keeps a place
/// there and here, so one for each section does, and the others wait here until that is answered. What this call is given all the same is
/// skipped.
async fn waits_as_first(name: &Name, keys: &[KeyAsked], places: &[usize], at: &Arc<ServedAt>) {
    tokio::time::sleep(REST).await;
    let Some(_first) = Awaited::first(name, &sections_of(name, keys, places), at) else { return };
    std::future::pending().await
}

impl Sequences {
    /// Passes the keys at these places on to the agent that serves them, until these are served here if that is known.
    pub(super) async fn ask_other(
        &self,
        name: &Arc<Name>,
        keys: &[KeyAsked],
        places: &[usize],
        (address, until): (&Arc<ServedAt>, Option<BootMs>),
        patience: Duration,
    ) -> Result<KeysReply, NotPassed> {
        let asked: Vec<KeyAsked> = places.iter().filter_map(|at| keys.get(*at).copied()).collect();
        let overtaken = async {
            match until {
                Some(until) => tokio::time::sleep(self.real_until(until)).await,
                None => self.overtaken(name, keys, places, address).await,
            }
        };
        let mut said = tokio::select! {
            said = self.pass_on(&address.rpc, name, asked, patience) => said,
            () = overtaken => Err(NotPassed::Overtaken),
            () = waits_as_first(name, keys, places, address) => Err(NotPassed::Full),
        };
        if until.is_some()
            && let Ok(reply) = &mut said
        {
            // What the former owner lacks, the next one may have.
            for said in &mut reply.outcomes {
                if !matches!(said, KeyOutcome::Given(_) | KeyOutcome::Refused(MintCode::SerialExhausted)) {
                    *said = REFUSED(MintCode::Misdirected);
                }
            }
        }
        said
    }

    /// Ends when none of the keys at these places is served by the agent that was asked for them, as far as is known. If that one stands
    /// still, or hears of nothing, calls that wait for it would outlast the time in which nobody serves them. What it gives all the same
    /// is skipped.
    async fn overtaken(&self, name: &Name, keys: &[KeyAsked], places: &[usize], asked: &ServedAt) {
        tokio::time::sleep(REST).await;
        let sections = sections_of(name, keys, places);
        loop {
            let still: Vec<Section> = {
                let (held, now) = (name.held(), self.clock.boot());
                let ours = |section| matches!(ownership(&held, section, now), Ownership::Served(_));
                let others = |section| lock(&name.routes).find(section).is_some_and(|(at, _)| at.rpc != asked.rpc);
                sections.iter().copied().filter(|section| !ours(*section) && !others(*section)).collect()
            };
            if still.is_empty() {
                return;
            }
            still.into_iter().for_each(|section| self.want_route(name, section));
            tokio::time::sleep(REST).await;
        }
    }

    /// Asks the agent at `address` for numbers of these keys.
    pub(super) async fn pass_on(
        &self,
        address: &str,
        name: &Name,
        keys: Vec<KeyAsked>,
        patience: Duration,
    ) -> Result<KeysReply, NotPassed> {
        let share = self.forwards.share(address);
        let _share = share.enter(keys.len()).ok_or(NotPassed::Full)?;
        let _place = self.forwards.room.enter(keys.len()).ok_or(NotPassed::Full)?;
        let end = Instant::now() + patience.min(PATIENCE_MAX);
        let (mut line, mut known) = self.line_until(address, end).await?;
        add(&self.counts.forwarded, keys.len() as u64);
        let asked_for = keys.len();
        let mut all = KeysReply { outcomes: Vec::with_capacity(asked_for), routes: Vec::new() };
        for keys in keys.chunks(KEYS_PER_CALL_MAX) {
            let answer = loop {
                let answer = self.ask_there(&line.client, name, keys, end).await;
                if let Err(NotPassed::Closed(_) | NotPassed::Lost(_)) = &answer {
                    self.forwards.drop_line(address, line.number);
                }
                // One that was made before may have led to a process that has ended since: the one that is there by now is asked at once.
                let again = matches!(answer, Err(NotPassed::Closed(_))) && std::mem::take(&mut known);
                if !again || !all.outcomes.is_empty() {
                    break answer;
                }
                (line, _) = self.line_until(address, end).await?;
            };
            match answer {
                Ok(reply) => {
                    all.outcomes.extend(reply.outcomes);
                    all.routes.extend(reply.routes.into_iter().take(ROUTES_TOLD_MAX));
                }
                Err(failed) if all.outcomes.is_empty() => return Err(failed),
                Err(failed) => {
                    // What was given is not lost with the rest, which is asked for again.
                    tracing::debug!(?failed, "a part of what was passed on to another agent got no answer");
                    all.outcomes.resize(asked_for, KeyOutcome::Refused(MintCode::Misdirected));
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Asks the agent at the other end of a connection about as many keys as fit one call.
    async fn ask_there(
        &self,
        line: &MintServiceClient,
        name: &Name,
        keys: &[KeyAsked],
        end: Instant,
    ) -> Result<KeysReply, NotPassed> {
        // Routes are wanted: of keys that it does not serve.
        let call = SequenceCall {
            name: name.name().to_string(),
            g: Some(Generation(u64::MAX)),
            passing: Passing::Back,
            cluster: self.minter.grants().membership().cluster.map(Box::new),
        };
        let until = transport::deadline_in(end.saturating_duration_since(Instant::now()));
        let asked = async {
            match keys {
                // Nothing is to be given.
                [KeyAsked { slot, n: 0 }] => line
                    .sequence_current(until, call, *slot)
                    .await
                    .map(|said| said.map(|KeyReply { outcome, routes }| KeysReply { outcomes: vec![outcome], routes })),
                keys => line.sequence_many(until, call, keys.to_vec()).await,
            }
        };
        match tokio::time::timeout_at(end, asked).await {
            Ok(Ok(Ok(reply))) if reply.outcomes.len() == keys.len() => Ok(reply),
            Ok(Ok(Ok(_))) => Err(NotPassed::Lost("another number of answers than of keys".to_owned())),
            Ok(Ok(Err(failure))) => Err(NotPassed::Refused(failure)),
            // Perhaps its machine is gone, of which a connection with something under way hears only after many minutes.
            Ok(Err(RpcError::DeadlineExceeded)) | Err(_) => Err(NotPassed::Lost("no answer in time".to_owned())),
            // It has too much to do.
            Ok(Err(RpcError::Server(error))) => Err(NotPassed::Lost(error.to_string())),
            Ok(Err(error)) => Err(NotPassed::Closed(error.to_string())),
        }
    }

    /// A connection to the agent at `address`, and whether it was there before.
    async fn line_until(&self, address: &str, end: Instant) -> Result<(Line, bool), NotPassed> {
        let known = lock(&self.forwards.lines).contains_key(address);
        let line = tokio::time::timeout_at(end, self.line(address)).await;
        let line = line.map_err(|_| NotPassed::Lost("no connection in time".to_owned()))?.map_err(NotPassed::Lost)?;
        Ok((line, known))
    }

    async fn line(&self, address: &str) -> Result<Line, String> {
        let revision = self.masters.tls.revision();
        let known = || lock(&self.forwards.lines).get(address).filter(|line| line.revision == revision).cloned();
        if let Some(line) = known() {
            return Ok(line);
        }
        let turn = self.forwards.turn(address);
        let _turn = turn.lock().await;
        if let Some(line) = known() {
            return Ok(line);
        }
        let found = tokio::net::lookup_host(address).await.map_err(|e| e.to_string())?;
        let admitted = self.forwards.admitted(found);
        if admitted.is_empty() {
            self.forwards.said.call_once(|| {
                tracing::warn!(
                    address,
                    "calls for keys are not passed on to this address, which lies in no network of the masters' whitelist: let that agent \
                     advertise one within (--advertise-rpc), or add its network in the console"
                );
            });
            return Err(format!("{address} lies in no network of the masters' whitelist"));
        }
        let transport = transport::connect_as(admitted.as_slice(), &self.masters.tls, Admits::Agents)
            .await
            .map_err(|e| e.to_string())?;
        let client = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
        let line = Line { number: self.forwards.made.fetch_add(1, Ordering::Relaxed), revision, client };
        let mut lines = lock(&self.forwards.lines);
        if lines.len() >= AGENTS_MAX {
            lines.clear();
        }
        lines.insert(address.to_owned(), line.clone());
        Ok(line)
    }
}
