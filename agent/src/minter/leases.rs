//! Leases and time as minting sees them: what may only shrink at once, and grows only when it is durable.

use super::{Minter, PATIENCE};
use crate::engine::Membership;
use crate::holder::{Confirmation, Leases};
use crate::refusal::Refusal;
use crate::timebase::{ClockSample, Heard};
use common::calendar::UtcOffset;
use common::kind::{Reading, TokenText};
use common::lease::Grant;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::{ClusterId, ClusterParameters, SessionId};
use common::time::SpanMs;
use common::token::{TokenFamily, TokenType, TokenValue};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// [`PATIENCE`], as a span of the clock's.
const PATIENCE_MS: SpanMs = SpanMs::seconds(PATIENCE.as_secs() as i64);

impl Minter {
    /// The lease to mint under, and the offset in which its cluster counts.
    pub(super) fn lease(&self, token_type: TokenType) -> Result<(Grant, UtcOffset), Refusal> {
        self.published.load().lease(token_type, self.real_boot(), || self.why())
    }

    /// Tells whether this agent has a lease of the token of that reading which spans its time.
    pub fn leases_token_of(&self, reading: &Reading) -> bool {
        let published = self.published.load();
        let offset = published.membership.parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default();
        let Some(at) = reading.instant(offset) else { return false };
        let Some(token) = &reading.token else { return false };
        let same = |grant: &Grant| match token {
            TokenText::Number(token) => grant.key.family == TokenFamily::Uint && grant.key.value == TokenValue(*token),
            TokenText::Characters(token) => grant.key.family != TokenFamily::Uint && grant.key.text() == *token,
        };
        let spans = |grant: &Grant| grant.from <= at && at < grant.until;
        published.leases.values().filter_map(|view| view.grant()).any(|grant| same(grant) && spans(grant))
    }

    /// The warning to whoever registers that name here, where sections of these sets are served: nobody, or not everybody, may get IDs
    /// by it.
    pub(super) fn warning(&self, sets: Option<&[GeneratorName]>, namespace: &Namespace) -> Option<String> {
        let no_tokens = namespace.token_type().and_then(|token_type| self.never_leases(token_type));
        no_tokens.or_else(|| other_set(sets, namespace)).or_else(|| namespace.used_up_in_a_day())
    }

    /// What keeps this agent from ever minting by tokens of that type, if something does: it does not ask for any.
    pub fn never_leases(&self, token_type: TokenType) -> Option<String> {
        let asked = token_type.is_on_demand() || self.published.load().leases.contains_key(&token_type);
        (!asked).then(|| {
            format!(
                "this agent leases no {token_type} tokens and answers no_lease for this name; agents that shall serve it need \
                 {token_type} in --token-types"
            )
        })
    }

    /// The time that a lease of that type may still wait for the renewal that a resumed session begins with; `None` if it does
    /// not.
    pub(super) fn resumption_left(&self, token_type: TokenType) -> Option<Duration> {
        let left = self.published.load().resumption_left(token_type, self.real_boot(), PATIENCE_MS);
        left.map(SpanMs::to_std)
    }

    /// Waits for the renewal that a resumed session begins with, at most [`RESUME_WAIT`](crate::engine::RESUME_WAIT), or
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

    /// What the masters made of the leases that a resumed session kept.
    pub fn confirmation(&self) -> Confirmation {
        self.published.load().confirmation(&self.kept)
    }

    /// The sessions that this one gives up, until a master has granted it a lease.
    pub(crate) fn former(&self) -> Vec<SessionId> {
        self.lock().map(|state| state.engine.former().to_vec()).unwrap_or_default()
    }

    /// Tells whether the masters' calendar is too far from this machine's to mint.
    pub(crate) fn is_skewed(&self) -> bool {
        self.time().skew().is_some()
    }

    /// The leases as minting sees them.
    pub fn leases(&self) -> Leases {
        self.published.load().leases.clone()
    }

    /// The cluster this agent belongs to.
    pub fn membership(&self) -> Membership {
        self.published.load().membership
    }

    /// Joins a cluster: durable, and for the life of the session.
    ///
    /// # Errors
    /// If it cannot be written, or the session belongs to another cluster already.
    pub fn join(&self, cluster: ClusterId, parameters: ClusterParameters) -> Result<(), Refusal> {
        self.decide(|engine, hands| engine.join(hands, cluster, parameters))
    }

    /// Makes durable that renewals up to this number may have been sent.
    ///
    /// # Errors
    /// If it cannot be written; then the renewal must not be sent.
    pub fn promise_rseq(&self, rseq: u64) -> Result<(), Refusal> {
        self.decide(|engine, hands| engine.promise_rseq(hands, rseq))
    }

    /// Takes over the holder's leases. What is lost is not used from this moment on, whatever else happens; what is
    /// gained is used once it is durable. `jumps` is how many jumps of the clock the holder has heard of.
    ///
    /// # Errors
    /// If it cannot be written; then what was gained is not used.
    pub fn set_leases(&self, leases: Leases, jumps: u64) -> Result<(), Refusal> {
        self.decide(|engine, hands| {
            let jumped = self.jumps() != jumps;
            engine.set_leases(hands, leases, jumped)
        })?;
        self.tell_if_ahead();
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
        self.decide(|engine, hands| {
            engine.suspend(hands);
            Ok(())
        })
    }

    /// Takes a master's time. Gives what it changed, and whether windows have to pass the gates again.
    pub fn hear(&self, answer: &ClockSample) -> (Heard, bool) {
        let mut time = self.time();
        let heard = time.correct(answer);
        self.offset.store(time.offset(), Ordering::Relaxed);
        heard
    }

    /// Lets every window pass the gates again, after the time changed.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn regate(&self) -> Result<(), Refusal> {
        self.decide(|engine, hands| {
            let skew = self.time().skew();
            engine.regate(hands, skew);
            Ok(())
        })?;
        self.tell_if_ahead();
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
}

/// The reason why this agent gives no numbers of a sequence itself, if it does not. A misspelt set is served by nobody.
fn other_set(sets: Option<&[GeneratorName]>, namespace: &Namespace) -> Option<String> {
    let set = namespace.sequences()?.set();
    let sets = sets.filter(|sets| !sets.contains(set))?;
    let served = sets.iter().map(GeneratorName::as_str).collect::<Vec<_>>().join(", ");
    Some(format!(
        "this agent serves no sections of the set '{set}' (it serves: {served}): numbers come from agents that were started with it \
         among their --sets, and while there is none, from nobody"
    ))
}
