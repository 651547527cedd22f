//! Numbers of keys over tarpc.

use crate::access::{self, Access, Visitor};
use crate::refusal::Refusal;
use crate::rpc::Server;
use crate::sequences::{Call, CallOutcome};
use arc_swap::ArcSwapOption;
use common::account::SecretHash;
use common::api_key::KeyAction;
use common::kind::Kind;
use common::sequence::Slot;
use common::time::WallMs;
use net::places::Place;
use net::rpc::mint::{
    BATCH_MAX_LIMIT, KEYS_PER_CALL_MAX, KeyAsked, KeyOutcome, KeyReply, KeysReply, MintCode, Passing, SequenceCall,
};
use net::tls::Remote;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const TOO_MANY_WAIT: Refusal = Refusal::Overloaded("calls of too many connections wait for sections; ask again");

/// A connection, as far as its calls ask.
pub(super) struct Connected {
    remote: Remote,
    place: Place,
    judged: ArcSwapOption<Judged>,
    /// Of all connections: how many may have calls that wait.
    may_wait: Arc<Semaphore>,
    /// Calls of this one that wait, with the permit that they share.
    waiting: Mutex<(usize, Option<OwnedSemaphorePermit>)>,
}

/// The caller, as it was judged last.
struct Judged {
    /// The hash of the key that it showed.
    shown: Option<SecretHash>,
    /// The rights of callers by which it was judged.
    generation: u64,
    visitor: Result<Arc<Visitor>, Refusal>,
}

/// A call that waits.
struct Waits<'a>(&'a Connected);

impl Connected {
    pub(super) fn new(remote: Remote, place: Place, may_wait: Arc<Semaphore>) -> Self {
        Self { remote, place, judged: ArcSwapOption::empty(), may_wait, waiting: Mutex::default() }
    }

    /// The caller, by the key that it showed or by this connection.
    ///
    /// # Errors
    /// [`Refusal::LoginRequired`]: that key opens nothing, or nothing any more.
    pub(super) fn visitor(&self, access: &Access, now: impl Fn() -> WallMs) -> Result<Arc<Visitor>, Refusal> {
        let judged = self.judged.load();
        match &*judged {
            Some(judged) if judged.generation == access.generation() => judged.visitor.clone(),
            former => self.judge(former.as_ref().and_then(|former| former.shown), access, now),
        }
    }

    /// Takes the caller for the owner of that key from now on.
    ///
    /// # Errors
    /// [`Refusal::LoginRequired`]: it opens nothing here, and so does the caller until it shows another one.
    pub(super) fn show(&self, key: &str, access: &Access, now: impl Fn() -> WallMs) -> Result<(), Refusal> {
        let shown = self.judge(Some(SecretHash::of(key.as_bytes())), access, now);
        access::hash_of(key.as_bytes()).and(shown).map(drop)
    }

    fn judge(
        &self,
        shown: Option<SecretHash>,
        access: &Access,
        now: impl Fn() -> WallMs,
    ) -> Result<Arc<Visitor>, Refusal> {
        // In this order: what ends after it is another one.
        let generation = access.generation();
        let visitor = access.visitor(&self.remote, shown, now()).map(Arc::new);
        if let Ok(visitor) = &visitor {
            self.place.is_of(visitor.caller_id());
        }
        self.judged.store(Some(Arc::new(Judged { shown, generation, visitor: visitor.clone() })));
        visitor
    }

    fn waiting(&self) -> MutexGuard<'_, (usize, Option<OwnedSemaphorePermit>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: as many connections as may have calls that wait.
    fn wait(&self) -> Option<Waits<'_>> {
        let mut waiting = self.waiting();
        if waiting.0 == 0 {
            waiting.1 = Some(Arc::clone(&self.may_wait).try_acquire_owned().ok()?);
        }
        waiting.0 += 1;
        Some(Waits(self))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.0 = waiting.0.saturating_sub(1);
        if waiting.0 == 0 {
            waiting.1 = None;
        }
    }
}

/// The bytes that an outcome takes at most until it is sent, in memory and in the frame.
const OUTCOME_WEIGHT: usize = 32;
/// The bytes that an answer with routes takes at most.
pub(super) const ROUTES_WEIGHT: usize = 256 << 10;

/// The bytes that the answer about so many keys takes at most until it is sent.
pub(super) fn weight(keys: usize) -> usize {
    keys.min(KEYS_PER_CALL_MAX).saturating_mul(OUTCOME_WEIGHT)
}

/// The answer about the one key that there is.
pub(super) fn of_one(answer: CallOutcome) -> KeyReply {
    let outcome = answer.outcomes.first().copied().unwrap_or(KeyOutcome::Refused(MintCode::SegmentPending));
    KeyReply { outcome, routes: answer.routes }
}

/// Said by an agent without sequences.
pub(super) fn none(name: &str) -> Refusal {
    Refusal::unknown(Kind::Sequence, name)
}

impl Server {
    pub(crate) async fn next_of(&self, call: &SequenceCall, slot: Slot, n: u32) -> Result<KeyReply, Refusal> {
        self.check_n(call, n)?;
        self.keyed(call, &[KeyAsked { slot, n }]).await.map(of_one)
    }

    pub(super) async fn next_of_many(&self, call: &SequenceCall, keys: &[KeyAsked]) -> Result<KeysReply, Refusal> {
        if keys.is_empty() || keys.len() > KEYS_PER_CALL_MAX {
            let why = format!("{} keys: there may be 1 to {KEYS_PER_CALL_MAX} in one call", keys.len());
            return Err(Refusal::BadParameter(why));
        }
        keys.iter().try_for_each(|key| self.check_n(call, key.n))?;
        let CallOutcome { outcomes, routes } = self.keyed(call, keys).await?;
        Ok(KeysReply { outcomes, routes })
    }

    fn check_n(&self, call: &SequenceCall, n: u32) -> Result<(), Refusal> {
        // What another agent passes on it has admitted, by a --batch-max of its own.
        let most = if call.passing == Passing::Back { BATCH_MAX_LIMIT } else { self.batch_max };
        if (1..=most).contains(&n) {
            return Ok(());
        }
        Err(Refusal::BadParameter(format!("n: {n} is not a number from 1 to {most}")))
    }

    pub(super) async fn keyed(&self, call: &SequenceCall, keys: &[KeyAsked]) -> Result<CallOutcome, Refusal> {
        let visitor = self.may(KeyAction::Mint, &call.name)?;
        let sequences = self.sequences.as_ref().ok_or_else(|| none(&call.name))?;
        sequences.same_cluster(call.cluster.as_deref().copied())?;
        let name = sequences.name(&call.name, keys.iter().map(|key| key.n).max().unwrap_or(0)).await?;
        let n = keys.iter().map(|key| key.n).fold(0, u32::saturating_add);
        visitor.take(n, || self.minter.time().now().boot)?;
        let said = Call { g: call.g, passing: call.passing, from: self.connected().map(|_| visitor.holder()) };
        if let [key] = keys
            && key.n > 0
            && let Some(first) = sequences.try_next(&name, key.slot, key.n, said)
        {
            return Ok(CallOutcome { outcomes: vec![KeyOutcome::Given(first)], routes: Vec::new() });
        }
        let _waits = self.connected().map(|connected| connected.wait().ok_or(TOO_MANY_WAIT)).transpose()?;
        Ok(sequences.next(&name, keys, said).await)
    }
}
