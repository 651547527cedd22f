//! A small snapshot of the ledger, as the last commit left it, from which heartbeats are answered.
//!
//! Heartbeats come from every agent every minute, and change nothing. Whoever has this copy answers them, without the way to
//! the ledger's thread and back, which costs several times the answer. The copy follows the ledger after each commit, so what
//! it says is durable, like everything else a master says.

use super::pair::Pairwise;
use super::state::Ledger;
use crate::lease::Write;
use crate::lease::calendar::Calendar;
use crate::policy::rules::same_cluster;
use crate::proof::{Proof, Purpose};
use crate::replication::seal::Own;
use ids::lease::{Generation, Lease, LeaseState};
use ids::parameters::{AgentId, ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use ids::time::Now;
use ids::time::TestClock;
use ids::token::TokenKey;
use std::collections::BTreeMap;
use wire::lease::{DENIED_MAX, HeartbeatReply, HeartbeatRequest, Mode, RETIRED_MAX, Refusal, RetiredProof};
use wire::peer::Life;

/// The state that one master answers heartbeats from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    master: MasterId,
    cluster: Option<ClusterId>,
    epoch: Option<EpochId>,
    paired: bool,
    former: Vec<EpochId>,
    /// This start, and the last one of the other master that was accepted.
    life: Life,
    accepted: Option<Life>,
    /// The proof that would end this master's own pairing.
    own_end: Option<RetiredProof>,
    /// The proofs that the last pairings before are over.
    ended: Vec<RetiredProof>,
    parameters: ClusterParameters,
    mode: Mode,
    test_clock: Option<TestClock>,
    version: String,
    names: u64,
    calendar: Calendar,
    /// Leases that are denied and not closed, by session.
    denied: BTreeMap<SessionId, BTreeMap<TokenKey, (AgentId, Generation)>>,
    /// The session of each of them, to find it again when its record changes.
    holders: BTreeMap<TokenKey, SessionId>,
}

impl Snapshot {
    /// The snapshot of a ledger all of which is durable.
    pub fn of(ledger: &Ledger<Pairwise>) -> Self {
        let identity = ledger.identity();
        let mut snapshot = Self {
            master: identity.master,
            cluster: identity.cluster,
            epoch: identity.epoch,
            paired: identity.paired,
            former: identity.former.clone(),
            life: ledger.lives().present(),
            accepted: ledger.lives().peer,
            own_end: identity.epoch.map(end_of),
            ended: ended(&identity.former),
            parameters: identity.parameters,
            mode: ledger.mode(),
            test_clock: ledger.test_clock(),
            version: ledger.version().to_owned(),
            names: ledger.settings_table().digest_of_names(),
            calendar: *ledger.calendar(),
            denied: BTreeMap::new(),
            holders: BTreeMap::new(),
        };
        for (key, lease) in ledger.table().leases() {
            snapshot.note(key, lease);
        }
        snapshot
    }

    /// Takes over what changed by a step whose `writes` are durable now.
    pub fn follow(&mut self, ledger: &Ledger<Pairwise>, writes: &[Write]) {
        (self.mode, self.calendar) = (ledger.mode(), *ledger.calendar());
        self.names = ledger.settings_table().digest_of_names();
        for write in writes {
            match write {
                Write::Identity(identity) => {
                    (self.cluster, self.epoch, self.parameters) =
                        (identity.cluster, identity.epoch, identity.parameters);
                    (self.paired, self.former) = (identity.paired, identity.former.clone());
                    (self.own_end, self.ended) = (identity.epoch.map(end_of), ended(&identity.former));
                }
                Write::Lives(lives) => (self.life, self.accepted) = (lives.present(), lives.peer),
                Write::Lease(key, lease) => self.note(*key, lease),
                _ => {}
            }
        }
    }

    fn note(&mut self, key: TokenKey, lease: &Lease) {
        if let Some(session) = self.holders.remove(&key)
            && let Some(its) = self.denied.get_mut(&session)
        {
            its.remove(&key);
            if its.is_empty() {
                self.denied.remove(&session);
            }
        }
        if lease.deny && lease.state != LeaseState::Closed {
            self.denied.entry(lease.session).or_default().insert(key, (lease.agent_id.clone(), lease.g));
            self.holders.insert(key, lease.session);
        }
    }

    /// The answer to a heartbeat at this instant.
    ///
    /// # Errors
    /// The reason why the two do not belong together, or [`Refusal::Syncing`] before the masters ever met.
    pub fn answer(&self, now: Now, request: &HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        if request.protocol != wire::PROTOCOL {
            return Err(Refusal::Protocol { here: wire::PROTOCOL });
        }
        if request.test_clock != self.test_clock {
            return Err(Refusal::TestClock);
        }
        same_cluster(self.cluster, request.cluster)?;
        let cluster = self.cluster.ok_or(Refusal::Syncing)?;
        Ok(HeartbeatReply {
            master: self.master,
            cluster,
            parameters: self.parameters,
            mode: self.mode,
            wall: self.calendar.shown(now),
            ahead: self.calendar.ahead(),
            test_clock: self.test_clock,
            version: self.version.clone(),
            denied: self.denied_of(&request.agent_id, request.session),
            retired: self.ended.clone(),
            names: self.names,
        })
    }

    /// True if the calendar jumped and is not followed, so that agents' calendars are of interest.
    pub fn doubts_its_calendar(&self) -> bool {
        self.calendar.ahead().is_some()
    }

    /// The leases that a session has and shall not use any more. It hears of them at its next heartbeat, because its
    /// next renewal may be half a day away.
    fn denied_of(&self, agent_id: &AgentId, session: SessionId) -> Vec<(TokenKey, Generation)> {
        let its = self.denied.get(&session).into_iter().flatten();
        let named = its.filter(|(_, (holder, _))| holder == agent_id);
        named.map(|(key, (_, g))| (*key, *g)).take(DENIED_MAX).collect()
    }

    /// Tells whether this master serves somebody of this cluster (`None`: of none yet).
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn serves_cluster(&self, cluster: Option<ClusterId>) -> Result<(), Refusal> {
        same_cluster(self.cluster, cluster)?;
        self.mode.serves()
    }

    /// Tells whether an agent brings the proof, and it is news, that this master's own pairing is over.
    pub fn is_over(&self, heard: &[RetiredProof]) -> bool {
        !self.mode.is_final()
            && self.own_end.is_some_and(|end| heard.iter().take(RETIRED_MAX).any(|proof| *proof == end))
    }

    /// This master's identity towards the other one.
    pub fn own(&self) -> Own {
        let Self { master, cluster, epoch, paired, life, accepted, .. } = *self;
        Own { master, cluster, epoch, paired, former: self.former.clone(), life, accepted }
    }
}

/// The proof that a pairing is over.
fn end_of(pairing: EpochId) -> RetiredProof {
    RetiredProof(Proof::of(pairing, Purpose::Retired, &[]).into())
}

/// The proofs that the last of these pairings are over.
fn ended(former: &[EpochId]) -> Vec<RetiredProof> {
    former.iter().rev().take(RETIRED_MAX).map(|pairing| end_of(*pairing)).collect()
}
