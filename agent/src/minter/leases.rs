//! Leases and time as minting sees them: what may only shrink at once, and grows only when it is durable.

use super::{Minter, PATIENCE, broken};
use crate::holder::{self, LeaseView, Leases};
use crate::refusal::{ClockFault, Refusal};
use crate::serial_file::Holdings;
use crate::timebase::{Answer, Heard};
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::parameters::{ClusterId, ClusterParameters, SessionId};
use common::time::SpanMs;
use common::token::TokenType;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A clock that is set back by less than this needs no new gates: buckets and milliseconds may lie ahead of it.
pub const SET_BACK_MAX: SpanMs = SpanMs::seconds(1);

/// What all who mint may see without a lock.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) leases: Leases,
    pub(super) cluster: Option<ClusterId>,
    pub(super) parameters: Option<ClusterParameters>,
    pub(super) skew: Option<SpanMs>,
    /// Masters of our list that belong to other clusters, by address.
    pub(super) strangers: BTreeMap<String, ClusterId>,
}

impl Published {
    /// Nothing may be minted while a master of our list belongs to another cluster: that one may grant our tokens too.
    pub(super) fn wrong_cluster(&self) -> Option<Refusal> {
        let (address, there) = self.strangers.first_key_value()?;
        Some(Refusal::WrongCluster { address: address.clone(), here: self.cluster?, there: *there })
    }
}

/// The cluster this agent belongs to, as far as it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Which one.
    pub cluster: Option<ClusterId>,
    /// Its parameters.
    pub parameters: Option<ClusterParameters>,
}

impl Minter {
    /// The lease to mint under, and the offset in which its cluster counts.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn lease(&self, token_type: TokenType) -> Result<(Grant, UtcOffset), Refusal> {
        let published = self.published.load();
        if let Some(wrong) = published.wrong_cluster() {
            return Err(wrong);
        }
        if let Some(by) = published.skew {
            return Err(Refusal::ClockSkew(ClockFault::Skewed { by }));
        }
        let missing = |why| Refusal::NoLease { token_type, why };
        let Some(view) = published.leases.get(&token_type) else {
            return Err(missing("this agent does not ask for that type; add it to --token-types".to_owned()));
        };
        match (view, published.parameters) {
            (LeaseView::Held(grant), Some(parameters)) => Ok((grant.clone(), parameters.utc_offset())),
            (LeaseView::Resumed(grant), Some(parameters)) if self.may_resume_alone() => {
                Ok((grant.clone(), parameters.utc_offset()))
            }
            (LeaseView::Resumed(_), _) => Err(missing(self.why_not_resumed())),
            (LeaseView::Suspended(_), _) => Err(Refusal::ClockSkew(ClockFault::Stepped)),
            (LeaseView::Expired(grant), _) => {
                Err(Refusal::LeaseExpired { token_type, until: grant.until, why: self.why() })
            }
            (LeaseView::Missing | LeaseView::Held(_), _) => Err(missing(self.why())),
        }
    }

    /// What keeps this agent from ever minting by tokens of that type, if something does: it does not ask for any.
    pub fn never_leases(&self, token_type: TokenType) -> Option<String> {
        let asked = self.published.load().leases.contains_key(&token_type);
        (!asked).then(|| {
            format!(
                "this agent leases no {token_type} tokens and answers no_lease for this name; agents that shall serve it need \
                 {token_type} in --token-types"
            )
        })
    }

    /// Whether a resumed session has waited long enough for the masters to mint without having heard of one.
    fn may_resume_alone(&self) -> bool {
        self.resumed_until.is_some_and(|until| self.real_boot() >= until)
    }

    fn why_not_resumed(&self) -> String {
        match self.resumed_until {
            Some(_) => format!(
                "the session was resumed just now, and a master has {} ms to renew its lease first",
                super::RESUME_WAIT.0
            ),
            None => format!(
                "the session was resumed from a lineage that leaves room for a second copy (of an earlier version, or in \
                 layers that were mounted anew), so a master has to renew its lease first: {}",
                self.why()
            ),
        }
    }

    /// How long a lease of that type may still wait for the renewal that a resumed session begins with; `None` if it does
    /// not.
    pub(super) fn resumption_left(&self, token_type: TokenType) -> Option<Duration> {
        if !matches!(self.published.load().leases.get(&token_type), Some(LeaseView::Resumed(_))) {
            return None;
        }
        let Some(until) = self.resumed_until else { return Some(PATIENCE) };
        let left = until - self.real_boot();
        (left > SpanMs(0)).then(|| left.to_std())
    }

    /// Waits for the renewal that a resumed session begins with, at most [`RESUME_WAIT`](super::RESUME_WAIT), or
    /// [`PATIENCE`] where nothing else will do. What came of it the gates say.
    pub(super) async fn resumed(&self, token_type: TokenType) {
        let waiting = async {
            loop {
                // First, so that no change is missed.
                let changed = self.leases_changed.notified();
                let Some(left) = self.resumption_left(token_type) else { return };
                // Whichever of both it was is looked at again.
                let _ = tokio::time::timeout(left, changed).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, waiting).await;
    }

    /// The sessions that this one gives up, until a master has granted it a lease.
    pub(crate) fn former(&self) -> Vec<SessionId> {
        self.lock().map(|state| state.holdings.former.clone()).unwrap_or_default()
    }

    /// Whether the masters' calendar is too far from this machine's to mint.
    pub(crate) fn is_skewed(&self) -> bool {
        self.time().skew().is_some()
    }

    /// A refusal of the gates, with what the masters have to do with it.
    pub(super) fn complete(&self, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::LeaseExpired { token_type, until, .. } => {
                Refusal::LeaseExpired { token_type, until, why: self.why() }
            }
            other => other,
        }
    }

    /// Whether IDs of every wanted type can be minted now, as far as can be told without minting.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), Refusal> {
        if let Some(why) = self.gone_why.get() {
            return Err(Refusal::SerialFileIo(why.clone()));
        }
        if !self.file_works.load(Ordering::Relaxed) {
            return Err(Refusal::SerialFileIo("its last write failed; the log says why".to_owned()));
        }
        if let Some(wrong) = self.wrong_cluster() {
            return Err(wrong);
        }
        if let Some(name) = self.generators.contradicted() {
            return Err(Refusal::GeneratorConflict { name });
        }
        let wall = self.wall();
        for token_type in self.published.load().leases.keys() {
            let (grant, _) = self.lease(*token_type)?;
            if wall >= grant.until {
                return Err(Refusal::LeaseExpired { token_type: *token_type, until: grant.until, why: self.why() });
            }
            if wall < grant.from {
                let behind = grant.from - wall;
                return Err(Refusal::ClockBehind { behind, retry: behind });
            }
        }
        Ok(())
    }

    /// The leases as minting sees them.
    pub fn leases(&self) -> Leases {
        self.published.load().leases.clone()
    }

    /// The cluster this agent belongs to.
    pub fn membership(&self) -> Membership {
        let published = self.published.load();
        Membership { cluster: published.cluster, parameters: published.parameters }
    }

    /// Joins a cluster: durable, and for the life of the session.
    ///
    /// # Errors
    /// If it cannot be written, or the session belongs to another cluster already.
    pub fn join(&self, cluster: ClusterId, parameters: ClusterParameters) -> Result<(), Refusal> {
        let mut state = self.lock()?;
        let mut holdings = state.holdings.clone();
        if *holdings.cluster.get_or_insert(cluster) != cluster
            || *holdings.parameters.get_or_insert(parameters) != parameters
        {
            return Err(broken());
        }
        self.write_holdings(&mut state, holdings)?;
        self.publish(|published| (published.cluster, published.parameters) = (Some(cluster), Some(parameters)));
        Ok(())
    }

    /// Makes durable that renewals up to this number may have been sent.
    ///
    /// # Errors
    /// If it cannot be written; then the renewal must not be sent.
    pub fn promise_rseq(&self, rseq: u64) -> Result<(), Refusal> {
        let mut state = self.lock()?;
        let mut holdings = state.holdings.clone();
        holdings.rseq = holdings.rseq.max(rseq);
        self.write_holdings(&mut state, holdings)
    }

    /// Takes over the holder's leases. What is lost is not used from this moment on, whatever else happens; what is
    /// gained is used once it is durable. `jumps` is how many jumps of the clock the holder has heard of.
    ///
    /// # Errors
    /// If it cannot be written; then what was gained is not used.
    pub fn set_leases(&self, mut leases: Leases, jumps: u64) -> Result<(), Refusal> {
        let mut state = self.lock()?;
        if self.jumps() != jumps {
            holder::suspend(&mut leases);
        }
        let before = self.published.load_full();
        let kept = holder::usable_before_durable(&before.leases, &leases);
        self.publish(|published| published.leases = kept.clone());
        if kept != before.leases {
            self.close_all(&mut state);
            self.leases_changed.notify_waiters();
        }
        let may_be_used = self.published.load().strangers.is_empty();
        let grants = if may_be_used { holder::grants(&leases) } else { Vec::new() };
        // Who granted one has heard which sessions this one gives up.
        let former = if grants.is_empty() { state.holdings.former.clone() } else { Vec::new() };
        let holdings = Holdings { leases: grants, former, ..state.holdings.clone() };
        self.write_holdings(&mut state, holdings)?;
        self.publish(|published| published.leases = leases.clone());
        self.leases_changed.notify_waiters();
        Ok(())
    }

    /// How often the clock has jumped since the start.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Acquire)
    }

    /// Looks whether the operating system's clock was stepped. If so, every lease is suspended, from now on, until the
    /// holder had it renewed. Gives by how much.
    pub(crate) fn watch_clock(&self) -> Option<SpanMs> {
        let step = self.time().look(self.clock.now(), self.scale())?;
        self.jumps.fetch_add(1, Ordering::AcqRel);
        Some(step)
    }

    /// Suspends every lease after a jump.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn suspend(&self) -> Result<(), Refusal> {
        let mut state = self.lock()?;
        self.publish(|published| holder::suspend(&mut published.leases));
        self.close_all(&mut state);
        Ok(())
    }

    /// Takes a master's time. Gives what it changed, and whether windows have to pass the gates again.
    pub fn hear(&self, answer: &Answer) -> (Heard, bool) {
        let mut time = self.time();
        let skew_before = time.skew();
        let heard = time.hear(answer);
        self.offset.store(time.offset(), Ordering::Relaxed);
        let set_back = matches!(heard, Heard::Moved(by) if by < SpanMs(-SET_BACK_MAX.0));
        (heard, set_back || time.skew() != skew_before)
    }

    /// Lets every window pass the gates again, after the time changed.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn regate(&self) -> Result<(), Refusal> {
        let mut state = self.lock()?;
        let skew = self.time().skew();
        self.publish(|published| published.skew = skew);
        self.close_all(&mut state);
        Ok(())
    }

    /// How far our time is from the operating system's, in milliseconds.
    pub fn clock_offset_ms(&self) -> i64 {
        (self.wall() - self.clock.wall()).0
    }

    fn time(&self) -> std::sync::MutexGuard<'_, crate::timebase::Timebase> {
        // Plain numbers: whatever a panic left behind is as good as any.
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only under the state's lock, so that no change is lost.
    pub(super) fn publish(&self, change: impl Fn(&mut Published)) {
        self.published.rcu(|published| {
            let mut next = Published::clone(published);
            change(&mut next);
            Arc::new(next)
        });
    }
}
