//! Asking masters for bounds: all sections that need one, in one question after the other. While one is under way the next one gathers.
//!
//! What a master that answers does not grant, the other one may: it is asked beside, by a task of its own. Of sections that have used up
//! what one master may grant alone there are some for as long as the other is away, and those that it can do without must not wait for it.

use super::counts::add;
use super::name::Name;
use super::{Sequences, lock};
use crate::masters::{Ask, CallError, First, Lane, Line, Preferred};
use crate::sequence::{Bounds, Loads, RaiseOutcome, SectionState, Tenure};
use common::parameters::SessionId;
use common::sequence::Section;
use common::time::SpanMs;
use net::rpc::ranges::{NotRaised, RAISES_MAX, Raise, RaiseRequest, RaiseTo, RaisedAll};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Sections that wait to be asked about. One more asks again when its call looks the next time.
const QUEUE_MAX: usize = 1 << 17;
/// After a question that no master answered.
const PAUSE: Duration = Duration::from_millis(100);
/// A master may take a lease to answer, or this if it is more, and after a quarter of that the other one is asked as well: calls wait for it.
/// An answer that is late, or comes second, leaves a gap in the numbers.
const ANSWER_LIMIT_MIN: Duration = Duration::from_secs(1);

/// A master that did not answer what was left over is not asked about such for so long: meanwhile the first one may grant it again, and must
/// be asked for that.
const REST: Duration = Duration::from_secs(5);
/// A section that cannot have a bound of its own, because as many have one as may, is not asked about again for so long.
const TOO_MANY_PAUSE: SpanMs = SpanMs::seconds(5);

/// Memory that sections take which were loaded together and are alike, in bytes.
const LOAD_LEN: usize = 192;

/// Sections that need a higher bound.
#[derive(Default)]
pub(super) struct Raises {
    queue: Mutex<Vec<(Arc<Name>, Section)>>,
    wanted: Notify,
    /// The master that answered the last question.
    last: Preferred,
    /// The raises that a master that answers did not grant. No more than there are sections: of each owner's time a section is asked about once.
    left: Mutex<Vec<Wanted>>,
    left_over: Notify,
}

/// A bound that is asked for.
struct Wanted {
    name: Arc<Name>,
    raise: Raise,
    tenure: Tenure,
    /// The place of the master that did not grant it.
    refused_at: Option<usize>,
    /// The reason that a master gave.
    refused: Option<NotRaised>,
}

impl Wanted {
    /// Tells whether a section that is to be loaded is among what is asked for already.
    fn covers(&self, name: &Arc<Name>, section: Section, tenure: Tenure) -> bool {
        let sections = self.raise.sections.from..self.raise.sections.to;
        self.raise.to == RaiseTo::ByAStep
            && Arc::ptr_eq(&self.name, name)
            && self.tenure == tenure
            && sections.contains(&section)
    }
}

impl Raises {
    /// Puts a section into the queue; `false` if that is full.
    pub(super) fn push(&self, name: &Arc<Name>, section: Section) -> bool {
        let mut queue = lock(&self.queue);
        if queue.len() >= QUEUE_MAX {
            return false;
        }
        queue.push((Arc::clone(name), section));
        drop(queue);
        self.wanted.notify_one();
        true
    }

    /// Leaves to others what the master at that place did not grant.
    fn leave(&self, at: usize, wanted: Vec<Wanted>) {
        if !wanted.is_empty() {
            lock(&self.left).extend(wanted.into_iter().map(|one| Wanted { refused_at: Some(at), ..one }));
            self.left_over.notify_one();
        }
    }
}

/// The names whose sections these are.
fn names_of(wanted: &[Wanted]) -> Vec<Arc<Name>> {
    let mut names: Vec<_> = wanted.iter().map(|one| Arc::clone(&one.name)).collect();
    names.sort_by_key(Arc::as_ptr);
    names.dedup_by(|one, other| Arc::ptr_eq(one, other));
    names
}

/// Something has come of the bounds that calls wait for.
fn tell(names: Vec<Arc<Name>>) {
    names.into_iter().for_each(|name| name.raised.notify_waiters());
}

impl Sequences {
    /// Asks for as long as the program runs.
    pub(super) async fn raise(&self, session: SessionId) {
        loop {
            let (wanted, drained) = self.gather();
            if wanted.is_empty() {
                // What was in the queue may want nothing any more, and what is behind it does.
                if drained == 0 {
                    self.raises.wanted.notified().await;
                }
                continue;
            }
            self.raise_somewhere(session, wanted).await;
        }
    }

    /// Gathers what the sections in the queue want now, as many as fit one question, and tells how many were taken from it.
    fn gather(&self) -> (Vec<Wanted>, usize) {
        let queued: Vec<_> = {
            let mut queue = lock(&self.raises.queue);
            let n = queue.len().min(RAISES_MAX);
            queue.drain(..n).collect()
        };
        let drained = queued.len();
        let mut wanted: Vec<Wanted> = Vec::new();
        for (name, section) in queued {
            let one = self.want(&name, section, &wanted);
            wanted.extend(one.map(|(raise, tenure)| Wanted { name, raise, tenure, refused_at: None, refused: None }));
        }
        (wanted, drained)
    }

    /// The raise that a section wants now, beside others: one that is to be loaded takes all with it around it that are not.
    fn want(&self, name: &Arc<Name>, section: Section, others: &[Wanted]) -> Option<(Raise, Tenure)> {
        let mut shard = lock(name.shard(section)?);
        let entry = shard.get_mut(&section.0)?;
        entry.queued = false;
        let (tenure, loaded) = (entry.state.tenure(), entry.state.is_loaded());
        // Its call looks again when those have an answer.
        if !loaded && others.iter().any(|other| other.covers(name, section, tenure)) {
            entry.state.waits_for_others();
            return None;
        }
        let (held, now) = (name.held(), self.clock.boot());
        let raise =
            lock(&name.loads).raise((name.name(), &name.definition), held.iter(), section, &mut entry.state, now)?;
        Some((raise, tenure))
    }

    /// Asks masters until one answers, the one first that answered last.
    async fn raise_somewhere(&self, session: SessionId, wanted: Vec<Wanted>) {
        let ask = self.ask_within_a_lease(Lane::Calls, &self.raises.last);
        let raises = &wanted;
        let raised = self.masters.ask(ask, |line| async move {
            let at = line.at;
            Ok(Some((at, self.raise_at(line, session, raises).await?)))
        });
        match raised.await {
            Ok((at, answers)) => self.raises.leave(at, self.take_in(wanted, answers).await),
            Err(_) => {
                self.not_raised(&wanted);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// A question about sections, for whose answer calls wait.
    pub(super) fn ask_within_a_lease<'a>(&self, lane: Lane, last: &'a Preferred) -> Ask<'a> {
        let (reach, limit) = (self.open_limit(), self.lease_in_real().max(ANSWER_LIMIT_MIN));
        Ask { reach, limit, patience: limit / 4, ..Ask::new(lane, First::Last(last)) }
    }

    /// Raises that were left over, without those of sections that are to be loaded and that the raise of another one is for, too.
    fn take_left(&self) -> Vec<Wanted> {
        let (mut left, mut wide): (Vec<Wanted>, Vec<usize>) = Default::default();
        let all = std::mem::take(&mut *lock(&self.raises.left));
        for one in all {
            let covers = |other: &Wanted| other.covers(&one.name, one.raise.section, one.tenure);
            if one.raise.to == RaiseTo::ByAStep && wide.iter().filter_map(|at| left.get(*at)).any(covers) {
                self.with_section(&one, |state| state.failed(one.tenure, self.clock.boot()));
                continue;
            }
            if one.raise.sections.len() > 1 {
                wide.push(left.len());
            }
            left.push(one);
        }
        left
    }

    /// Asks about what was left over for as long as the program runs.
    pub(super) async fn raise_left(&self, session: SessionId) {
        let mut silent_since: Vec<Option<Instant>> = vec![None; self.masters.len()];
        loop {
            let mut left = self.take_left();
            if left.is_empty() {
                self.raises.left_over.notified().await;
                continue;
            }
            for (at, silent) in silent_since.iter_mut().enumerate() {
                let (asked, mut kept): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| one.refused_at != Some(at));
                let mut asked = asked.into_iter();
                loop {
                    let wanted: Vec<Wanted> = asked.by_ref().take(RAISES_MAX).collect();
                    let rests = silent.is_some_and(|since| since.elapsed() < REST);
                    if wanted.is_empty() || rests {
                        kept.extend(wanted.into_iter().chain(asked));
                        break;
                    }
                    let Ask { lane, reach, limit, .. } = self.ask_within_a_lease(Lane::Calls, &self.raises.last);
                    let asked = async {
                        let line = self.masters.reach(at, lane, reach, limit).await?;
                        self.raise_at(line, session, &wanted).await
                    };
                    match asked.await {
                        Ok(answers) => {
                            *silent = None;
                            kept.extend(self.take_in(wanted, answers).await);
                        }
                        Err(_) => {
                            *silent = Some(Instant::now());
                            kept.extend(wanted);
                        }
                    }
                }
                left = kept;
            }
            self.not_raised(&left);
        }
    }

    /// No master granted these: they are asked about again, when somebody wants them.
    fn not_raised(&self, wanted: &[Wanted]) {
        let now = self.clock.boot();
        add(&self.counts.raises_failed, wanted.len() as u64);
        for one in wanted {
            if let Some(NotRaised::TooMany { max }) = one.refused {
                lock(&one.name.routes).cannot_have_more(max);
                self.with_section(one, |state| state.failed(one.tenure, now + TOO_MANY_PAUSE));
                continue;
            }
            self.with_section(one, |state| state.failed(one.tenure, now));
            // Somebody else may have it by now.
            self.want_route(&one.name, one.raise.section);
        }
        tell(names_of(wanted));
    }

    async fn raise_at(&self, line: Line, session: SessionId, wanted: &[Wanted]) -> Result<RaisedAll, CallError> {
        let (agent_id, cluster) = (self.masters.agent_id.clone(), None);
        let raises = wanted.iter().map(|one| one.raise.clone()).collect();
        let raised = line.raise_sections(RaiseRequest { agent_id, session, cluster, raises }).await;
        raised.inspect_err(|error| tracing::debug!(address = line.address(), %error, "a master did not raise bounds"))
    }

    /// Takes answers in, once they are written down; those that another master may answer otherwise are given back.
    async fn take_in(&self, wanted: Vec<Wanted>, answers: RaisedAll) -> Vec<Wanted> {
        let names = names_of(&wanted);
        let asked = wanted.iter().map(|one| &one.raise);
        let written = self.note(Bounds::granted(asked.zip(&answers))).await;
        let now = self.clock.boot();
        let mut left = Vec::new();
        for (mut one, answer) in wanted.into_iter().zip(answers) {
            let (definition, tenure) = (&one.name.definition, one.tenure);
            let said = self.change_loads(&one.name, |loads| loads.answered(tenure, &one.raise, &answer, written));
            let Some(said) = said else {
                self.with_section(&one, |state| state.failed(tenure, now));
                continue;
            };
            match self.with_section(&one, |state| state.answered(definition, tenure, said.outcome, written, now)) {
                Some(RaiseOutcome::Used) => add(&self.counts.raises, 1),
                Some(RaiseOutcome::Unwritten) => add(&self.counts.raises_failed, 1),
                Some(RaiseOutcome::AskAnother) => {
                    (one.raise.sections.from, one.raise.sections.to) = (said.from, said.to);
                    left.push(Wanted { refused: said.outcome.err(), ..one });
                }
                // Its name is another one by now.
                None => {}
            }
        }
        tell(names);
        left
    }

    pub(super) fn change_loads<T>(&self, name: &Name, change: impl FnOnce(&mut Loads) -> T) -> T {
        let mut loads = lock(&name.loads);
        let before = loads.len();
        let done = change(&mut loads);
        self.account(before * LOAD_LEN, loads.len() * LOAD_LEN);
        done
    }

    fn with_section<T>(&self, one: &Wanted, change: impl FnOnce(&mut SectionState) -> T) -> Option<T> {
        let mut shard = lock(one.name.shard(one.raise.section)?);
        let entry = shard.get_mut(&one.raise.section.0)?;
        let before = entry.state.len();
        let done = change(&mut entry.state);
        self.account(before, entry.state.len());
        Some(done)
    }
}
