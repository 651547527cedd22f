//! Keeping sections: each master is asked by a task of its own, so that one that does not answer delays nobody.

use super::{Sequences, lock};
use crate::masters::{CallError, Lane, Line, OPEN_LIMIT};
use crate::sequence::Kept;
use common::parameters::SessionId;
use common::sequence::{Section, SectionKey, SectionRange};
use common::time::SpanMs;
use net::rpc::lease::Refusal;
use net::rpc::ranges::{KEPT_ONLY_MAX, KeepReply, KeepRequest, RECEIPTS_MAX, ShownReceipt};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The interval at which it is looked whether there is a sequence to serve.
const LOOK: Duration = Duration::from_secs(1);
/// However fast a test clock runs, a master is not asked more often than this.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The time that the last question may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Making a connection may take half a lease, unless this is more: a master that is reached again is not waited for by a packet that was sent
/// while it was not.
const OPEN_LIMIT_MIN: Duration = Duration::from_millis(500);

/// Ranges of sections that wait until a master is asked for them.
const HURRIED_MAX: usize = 8 * KEPT_ONLY_MAX;
/// After such a question that was not answered.
const HURRIED_PAUSE: Duration = Duration::from_millis(100);

/// The last section of an answer.
fn last_of(reply: &KeepReply) -> Option<SectionKey> {
    let last = reply.sections.last()?;
    Some(SectionKey { name: last.name.clone(), section: Section(last.to.0.saturating_sub(1)) })
}

/// Sections for which calls wait, and that are ours by a route.
#[derive(Default)]
pub(super) struct Hurried {
    wanted: Mutex<BTreeSet<SectionRange>>,
    some: Notify,
    /// Calls for keys between the last two questions for all sections.
    calls: AtomicU64,
    /// Held by a question for some sections, and by the goodbye: the master must not hear the former after the latter.
    turn: tokio::sync::Mutex<()>,
}

impl Hurried {
    fn take(&self) -> Vec<SectionRange> {
        let mut wanted = lock(&self.wanted);
        let rest = wanted.iter().nth(KEPT_ONLY_MAX).cloned();
        let rest = rest.map(|rest| wanted.split_off(&rest)).unwrap_or_default();
        std::mem::replace(&mut *wanted, rest).into_iter().collect()
    }
}

impl Sequences {
    /// Keeps sections at one master until `stop`, and says there that we leave.
    pub(super) async fn keep(self: Arc<Self>, at: usize, session: SessionId, stop: CancellationToken) {
        let (mut held, mut counted, mut said) = (None, 0, None);
        loop {
            let ended = tokio::select! {
                () = stop.cancelled() => true,
                () = self.keep_due(at) => false,
            };
            if ended {
                break;
            }
            match self.keep_once(at, session, &mut held, &mut counted).await {
                Ok(()) => said = None,
                Err(error) => {
                    lock(&self.allocator).failed(at);
                    if error.ends_connection() {
                        held = None;
                    }
                    let why = error.to_string();
                    // At each start, until the lease is there; where it does not come, the heartbeat says why.
                    let no_lease = matches!(&error, CallError::Refused { refusal: Refusal::ServesWithoutLease, .. });
                    if said.as_ref() != Some(&why) && !no_lease {
                        tracing::warn!(address = error.address(), %error, "a master did not keep our sections");
                        said = Some(why);
                    }
                }
            }
        }
        if let (Some(line), Some(hurried)) = (held, self.hurried.get(at)) {
            let request = self.keep_request(session, 0, true);
            let _turn = tokio::time::timeout(LEAVE_TIMEOUT / 2, hurried.turn.lock()).await;
            let _ = tokio::time::timeout(LEAVE_TIMEOUT, line.keep_sections(request)).await;
        }
    }

    /// Resolves when that master is to be asked.
    async fn keep_due(&self, at: usize) {
        while !self.is_needed() {
            tokio::select! {
                () = self.minter.names().keyed_learned() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        self.look_at_address();
        loop {
            // Told from here on, so that nothing is missed between a look and the wait after it.
            let mut sooner = pin!(self.kept_sooner.notified());
            sooner.as_mut().enable();
            let next = lock(&self.allocator).next_keep(at);
            let wait = next.map_or(SpanMs(0), |next| next - self.clock.boot());
            tokio::select! {
                () = sooner => {}
                () = tokio::time::sleep(self.clock.real(wait.to_std()).max(PAUSE_MIN)) => return,
            }
        }
    }

    /// Masters have given us sections for which calls wait: those that answer are asked for them at once.
    pub(super) fn hurry(&self, sections: &[SectionRange]) {
        for (at, hurried) in self.hurried.iter().enumerate() {
            if !sections.is_empty() && lock(&self.allocator).answers(at) {
                let mut wanted = lock(&hurried.wanted);
                // What is left out is asked for again when its call looks the next time.
                let room = HURRIED_MAX.saturating_sub(wanted.len());
                wanted.extend(sections.iter().take(room).cloned());
                drop(wanted);
                hurried.some.notify_one();
            }
        }
    }

    /// Asks that master for sections for which calls wait, until `stop`. While a question is under way the next one gathers.
    pub(super) async fn keep_hurried(&self, at: usize, session: SessionId, stop: &CancellationToken) {
        let Some(hurried) = self.hurried.get(at) else { return };
        while !stop.is_cancelled() {
            let only = hurried.take();
            if only.is_empty() {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = hurried.some.notified() => {}
                }
            } else if let Err(error) = self.keep_only(at, session, only, stop).await {
                tracing::debug!(address = error.address(), %error, "a master did not say which sections are ours");
                tokio::time::sleep(HURRIED_PAUSE).await;
            }
        }
    }

    /// Keeps these sections at that master, as far as it lists them for us.
    async fn keep_only(
        &self,
        at: usize,
        session: SessionId,
        only: Vec<SectionRange>,
        stop: &CancellationToken,
    ) -> Result<(), CallError> {
        let Some(hurried) = self.hurried.get(at) else { return Ok(()) };
        let line = self.masters.reach(at, Lane::Lists, self.open_limit(), self.lease_in_real()).await?;
        let _turn = hurried.turn.lock().await;
        if stop.is_cancelled() || self.minter.may_give_sections().is_err() {
            return Ok(());
        }
        let calls = hurried.calls.load(Ordering::Relaxed);
        let request = KeepRequest { only, ..self.keep_request(session, calls, false) };
        // Before it is sent: from here on it may have been answered.
        let sent = self.clock.boot();
        let mut reply = line.keep_sections(request).await?;
        let received = self.clock.boot();
        // Of all that it was not asked for.
        reply.more = true;
        self.kept(at, &Kept { sent, received, reply }).map_err(|e| {
            self.kept_sooner.notify_waiters();
            line.failed(e.to_string())
        })
    }

    /// The time that making a connection to a master may take.
    pub(super) fn open_limit(&self) -> Duration {
        (self.lease_in_real() / 2).clamp(OPEN_LIMIT_MIN, OPEN_LIMIT)
    }

    /// A lease of sections by the machine's own clock.
    pub(super) fn lease_in_real(&self) -> Duration {
        self.clock.real(lock(&self.allocator).lease().to_std())
    }

    async fn keep_once(
        &self,
        at: usize,
        session: SessionId,
        held: &mut Option<Line>,
        counted: &mut u64,
    ) -> Result<(), CallError> {
        lock(&self.allocator).asked(at, self.clock.boot());
        let may_have = self.may_have_sections().await;
        let open_limit = self.open_limit();
        self.masters.open_within(open_limit);
        let line = match (self.masters.reach(at, Lane::Lists, open_limit, self.lease_in_real()).await, &*held) {
            // An older one that still works is as good until there is another.
            (Err(CallError::Failed { .. }), Some(line)) if line.is_open() => line,
            (reached, _) => &*held.insert(reached?),
        };
        let calls = self.counts.calls.load(Ordering::Relaxed);
        let calls = calls.saturating_sub(std::mem::replace(counted, calls));
        if let Some(hurried) = self.hurried.get(at) {
            hurried.calls.store(calls, Ordering::Relaxed);
        }
        let mut request = self.keep_request(session, calls, !may_have);
        request.receipts = self.receipts();
        let mut after = None;
        loop {
            let receipts = std::mem::take(&mut request.receipts);
            let request = KeepRequest { after: after.clone(), receipts, ..request.clone() };
            // Before it is sent: from here on it may have been answered.
            let sent = self.clock.boot();
            let reply = line.keep_sections(request).await?;
            let received = self.clock.boot();
            let next = reply.more.then(|| last_of(&reply)).flatten();
            self.kept(at, &Kept { sent, received, reply }).map_err(|e| line.failed(e.to_string()))?;
            // One that does not get on would be asked for ever.
            if next.is_none() || next <= after {
                return Ok(());
            }
            after = next;
        }
    }

    /// Takes in what a master lists.
    pub(super) fn kept(&self, at: usize, kept: &Kept) -> Result<(), crate::sequence::NotKept> {
        let mut allocator = lock(&self.allocator);
        let handled = allocator.handle(self.clock.boot(), at, kept);
        let served = self.served.load();
        let changed: Vec<_> = match &handled {
            Ok(changed) => changed.iter().filter_map(|name| served.get(name.as_str())).collect(),
            // All spans may have ended.
            Err(_) => served.values().collect(),
        };
        changed.iter().for_each(|name| self.publish(name, allocator.held(name.name())));
        // Whoever is woken asks for it.
        drop(allocator);
        self.durable.listed.notify_one();
        changed.iter().for_each(|name| name.changed.notify_waiters());
        handled.map(drop)
    }

    /// The receipts of sections that masters list for us no more, though they answer: if they know of fewer owners than that, both have forgotten it.
    fn receipts(&self) -> Vec<ShownReceipt> {
        let now = self.clock.boot();
        let served = self.served.load();
        let lost: Vec<_> = {
            let allocator = lock(&self.allocator);
            served.values().filter(|name| allocator.has_lost(name.name(), now)).collect()
        };
        // Not the same ones each time, if there are more.
        let all = || lost.iter().flat_map(|name| name.receipts(now));
        let (from, many) = (self.receipts_from.fetch_add(RECEIPTS_MAX, Ordering::Relaxed), all().count());
        all().chain(all()).skip(from % many.max(1)).take(RECEIPTS_MAX.min(many)).collect()
    }

    fn keep_request(&self, session: SessionId, calls: u64, leaves: bool) -> KeepRequest {
        let lease_ms = u64::try_from(lock(&self.allocator).lease().0).unwrap_or(1).max(1);
        // Questions come three times a lease.
        let per_second = calls.saturating_mul(3_000) / lease_ms;
        KeepRequest {
            agent_id: self.masters.agent_id.clone(),
            session,
            holder: self.minter.session().id(),
            cluster: None,
            address: self.settings.address.clone(),
            sets: self.settings.sets.clone(),
            memory: self.settings.memory,
            used: self.memory.load(Ordering::Relaxed) as u64,
            per_second: u32::try_from(per_second).unwrap_or(u32::MAX),
            leaves,
            after: None,
            only: Vec::new(),
            receipts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::agent_of;
    use super::super::tests::masters::Masters;
    use super::*;
    use crate::heartbeat::tests::nobody;
    use crate::masters::AGE_MAX;
    use crate::masters::tests::{moving, pass};

    #[tokio::test]
    async fn an_old_connection_that_works_keeps_sections_until_there_is_another() {
        let masters = Masters::new("orders", 3_000, 100, 1_000);
        let real = masters.listen().await.remove(0);
        let (lead, to) = tokio::sync::watch::channel(real.clone());
        let agent = agent_of(&[moving(to).await], 1 << 24, 63).await;
        let (mut held, mut counted) = (None, 0);
        let keep = async |held: &mut Option<Line>, counted: &mut u64| {
            agent.sequences.keep_once(0, SessionId(7), held, counted).await.unwrap();
            held.clone().unwrap()
        };
        let old = keep(&mut held, &mut counted).await;
        lead.send_replace(nobody().await);
        pass(AGE_MAX).await;
        assert!(keep(&mut held, &mut counted).await.is_same(&old));
        lead.send_replace(real);
        // Nobody tries again at once.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!keep(&mut held, &mut counted).await.is_same(&old));
    }
}
