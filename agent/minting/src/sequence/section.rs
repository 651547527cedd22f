//! One section in memory: the bound up to which numbers may be given, and the number of each key.
//!
//! It says what it needs from a master ([`want`](SectionState::want)) and takes the answers in. An answer counts only for the owner (`g`)
//! that it was asked for, and for the unbroken time ([`Tenure`]) in which it was. What was given under an older owner, or before its keys were forgotten, is below `base` for ever: whatever a master
//! says later, no key goes back.

use super::counters::Counters;
use super::held::Tenure;
use crate::serial::OPEN_PART;
use ids::lease::Generation;
use ids::sequence::{SECTION_LEN, SequenceDefinition};
use ids::time::{BootMs, HOUR_MS, SpanMs};
use wire::ranges::{NotRaised, RaiseTo, Raised, SectionReceipt};

/// After a raise that was not answered, or refused, it is not asked again before this has passed.
const PAUSE: SpanMs = SpanMs(100);

/// In this time the bound of a section, and so the numbers of each of its keys, grow by no more than
/// [`Width::per_hour`](ids::sequence::Width::per_hour).
const HOUR: SpanMs = SpanMs(HOUR_MS);
/// A section that has had more than this part of that is not forgotten before the hour is over.
const REMEMBERED_PART: u64 = 8;

/// The state of the call for a higher bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asking {
    /// Not wanted.
    Not,
    /// Wanted.
    Wanted(RaiseTo),
    /// Under way.
    Asked,
}

/// The outcome of a question for numbers of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Numbers from this one on.
    From(u64),
    /// A master has to raise the bound first; [`SectionState::want`] says to what.
    Wait,
    /// There are not as many left of this width.
    Ended,
    /// There are not as many left of what this hour has.
    TooMany,
    /// There is no memory for another key.
    Full,
}

/// The outcome of a master's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseOutcome {
    /// The answer counts.
    Used,
    /// The answer is not used, because it is not written down; the section may ask again after a while.
    Unwritten,
    /// Another master may answer otherwise. Whoever asks no other one calls [`SectionState::failed`].
    AskAnother,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SectionState {
    tenure: Tenure,
    /// True if the bound of this owner was read from a master.
    loaded: bool,
    /// Numbers up to it are durable at a master, for this owner.
    max_seq: u64,
    /// The highest number that was given since the section was loaded.
    top: u64,
    counters: Counters,
    asking: Asking,
    not_before: BootMs,
    /// The time when the hour began, and the bound that it began with.
    hour: (BootMs, u64),
    /// The instant at which it was asked for last.
    used: BootMs,
    /// That it is ours, or was: of the last answer that counted.
    receipt: Option<SectionReceipt>,
}

impl SectionState {
    /// A section of which this process gave nothing yet. `floor`: no number above it was given by a process before of this session, 0 if
    /// there was none.
    pub fn new(definition: &SequenceDefinition, tenure: Tenure, floor: u64) -> Self {
        let floor = floor.min(definition.width().last());
        Self {
            tenure,
            loaded: false,
            max_seq: 0,
            top: 0,
            counters: Counters::new(definition.width(), definition.keys_per_section(), floor),
            asking: Asking::Not,
            not_before: BootMs(i64::MIN),
            hour: (BootMs(i64::MIN), 0),
            used: BootMs(0),
            receipt: None,
        }
    }

    /// The number of the owner that it is loaded for, or will be.
    pub const fn g(&self) -> Generation {
        self.tenure.g
    }

    /// The unbroken time in which it is loaded, or will be.
    pub const fn tenure(&self) -> Tenure {
        self.tenure
    }

    /// That it is ours under [`g`](Self::g), if we were granted numbers of it as that owner.
    pub const fn receipt(&self) -> Option<SectionReceipt> {
        self.receipt
    }

    /// Tells whether its bound is known.
    pub const fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// The instant at which it was asked for last.
    pub const fn used(&self) -> BootMs {
        self.used
    }

    /// Memory that it takes, in bytes.
    pub fn len(&self) -> usize {
        SECTION_LEN + self.counters.len()
    }

    /// Tells whether it keeps no key by itself.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// We are another owner of it than before, or the same one after a span that ended: it is to be loaded anew. What may have been given
    /// stays below all that will be. Masters say which one comes later: after they were put back it can be one of a lower `g`.
    pub fn own(&mut self, tenure: Tenure) {
        if tenure == self.tenure {
            return;
        }
        let base = self.floor();
        self.counters.forget(base);
        self.receipt = self.receipt.filter(|_| tenure.g == self.tenure.g);
        (self.tenure, self.loaded, self.max_seq, self.top) = (tenure, false, 0, 0);
        (self.asking, self.not_before) = (Asking::Not, BootMs(i64::MIN));
    }

    /// The highest number that may have been given.
    pub fn floor(&self) -> u64 {
        self.top.max(self.counters.base())
    }

    /// The next `n` numbers of the key at `at`, all or none. With `room` more keys may be kept.
    #[inline]
    pub fn take(&mut self, definition: &SequenceDefinition, at: u32, n: u32, room: bool, now: BootMs) -> Taken {
        self.used = now;
        if !self.loaded {
            self.load();
            return Taken::Wait;
        }
        let (max_seq, end, mut last) = (self.max_seq, definition.width().last(), 0);
        let full = if room { None } else { Some(Taken::Full) };
        let stepped = self.counters.step(at, full, |current| {
            last = current.saturating_add(n.into());
            if last > end {
                Err(Taken::Ended)
            } else if last > max_seq {
                Err(Taken::Wait)
            } else {
                Ok(last)
            }
        });
        match stepped {
            Ok(()) => {}
            Err(Taken::Wait) => {
                let most = self.most(definition, now);
                if last > most {
                    return Taken::TooMany;
                }
                self.raise(definition, last, most);
                return Taken::Wait;
            }
            Err(refused) => return refused,
        }
        self.top = self.top.max(last);
        // Asked for before it is needed, so that nobody waits for it.
        let ahead = u64::from(definition.step() / 2);
        if self.top.saturating_add(ahead) >= self.max_seq && self.max_seq < definition.width().last() {
            let most = self.most(definition, now);
            if self.max_seq < most {
                self.raise(definition, self.max_seq, most);
            }
        }
        Taken::From(last.saturating_sub(n.saturating_sub(1).into()))
    }

    /// The last number that may have been given for a key; the next one is larger. `None` if the section is not loaded.
    pub fn current(&mut self, at: u32, now: BootMs) -> Option<u64> {
        self.used = now;
        if !self.loaded {
            self.load();
            return None;
        }
        Some(self.counters.current(at))
    }

    /// The hour and what is left in it, if `n` more numbers of the key at `at` can be given, and reach into what callers have in shares.
    #[inline]
    pub fn left_to_share(
        &mut self,
        definition: &SequenceDefinition,
        at: u32,
        n: u32,
        now: BootMs,
    ) -> Option<(u32, u64)> {
        let per_hour = definition.width().per_hour()?;
        // No key is further than the highest.
        if self.top.saturating_add(n.into()) <= self.hour.1.saturating_add(per_hour / OPEN_PART) {
            return None;
        }
        let most = self.most(definition, now);
        let current = self.counters.current(at);
        let last = current.saturating_add(n.into());
        let is_open = last <= self.hour.1.saturating_add(per_hour / OPEN_PART);
        if !self.loaded || last > self.max_seq || is_open {
            return None;
        }
        let hour = u32::try_from(self.hour.0.0.div_euclid(HOUR_MS)).unwrap_or(u32::MAX);
        Some((hour, most.saturating_sub(current)))
    }

    fn load(&mut self) {
        if self.asking == Asking::Not {
            self.asking = Asking::Wanted(RaiseTo::ByAStep);
        }
    }

    /// The place up to which the bound may be raised within this hour.
    fn most(&mut self, definition: &SequenceDefinition, now: BootMs) -> u64 {
        let Some(per_hour) = definition.width().per_hour() else { return definition.width().last() };
        if now >= self.hour.0 + HOUR {
            self.hour = (now, self.max_seq);
        }
        self.hour.1.saturating_add(per_hour)
    }

    /// A step beyond `number`, at least, but no further than to `most`.
    fn raise(&mut self, definition: &SequenceDefinition, number: u64, most: u64) {
        let beyond = number.max(self.max_seq).saturating_add(definition.step().into());
        let to = beyond.min(most).min(definition.width().last());
        self.asking = match self.asking {
            Asking::Not => Asking::Wanted(RaiseTo::Number(to)),
            Asking::Wanted(RaiseTo::Number(other)) => Asking::Wanted(RaiseTo::Number(to.max(other))),
            asking => asking,
        };
    }

    /// Tells whether a master is to be asked, now or later.
    pub const fn wants(&self) -> bool {
        matches!(self.asking, Asking::Wanted(_))
    }

    /// Gives the raise to ask a master for now; it counts as asked from then on.
    pub fn want(&mut self, now: BootMs) -> Option<RaiseTo> {
        let Asking::Wanted(to) = self.asking else { return None };
        if now < self.not_before {
            return None;
        }
        self.asking = Asking::Asked;
        Some(to)
    }

    /// A master's answer, to a question of that tenure. `written`: whether the bound that it allows is written down ([`Bounds`]), or
    /// nothing is that a start could go on with.
    ///
    /// [`Bounds`]: super::Bounds
    pub fn answered(
        &mut self,
        definition: &SequenceDefinition,
        tenure: Tenure,
        answer: Result<Raised, NotRaised>,
        written: bool,
        now: BootMs,
    ) -> RaiseOutcome {
        match answer {
            Ok(_) if !written => {
                self.failed(tenure, now);
                RaiseOutcome::Unwritten
            }
            Ok(_) | Err(NotRaised::UsedUp) => {
                self.raised(definition, tenure, answer, now);
                RaiseOutcome::Used
            }
            Err(_) => RaiseOutcome::AskAnother,
        }
    }

    /// An answer that is used, to a question of that tenure.
    pub fn raised(
        &mut self,
        definition: &SequenceDefinition,
        tenure: Tenure,
        answer: Result<Raised, NotRaised>,
        now: BootMs,
    ) {
        if tenure != self.tenure {
            return;
        }
        let last = definition.width().last();
        match answer {
            Ok(Raised { from, max_seq, receipt }) => {
                let (from, max_seq) = (from.min(last), max_seq.min(last));
                // What lies between our bound and where the master begins may be somebody else's: of a later owner that both masters
                // forgot when their disks were put back, or in what they skip for it.
                if !self.loaded || self.max_seq < from {
                    let base = self.floor().max(from);
                    // What others had of it, or nobody, is not of this hour.
                    if definition.width().per_hour().is_some() {
                        let spent = self.max_seq.saturating_sub(self.hour.1);
                        self.hour.1 = max_seq.saturating_sub(spent);
                    }
                    self.counters.forget(base);
                    (self.loaded, self.max_seq, self.top) = (true, max_seq, base);
                } else {
                    self.max_seq = self.max_seq.max(max_seq);
                }
                self.receipt = receipt.or(self.receipt);
                self.asking = Asking::Not;
            }
            Err(NotRaised::UsedUp) if !self.loaded => {
                self.counters.forget(last);
                (self.loaded, self.max_seq, self.top, self.asking) = (true, last, last, Asking::Not);
            }
            Err(_) => self.failed(tenure, now),
        }
    }

    /// Wants nothing from a master: the raise of another section is for this one, too, and whoever waits for it looks again.
    pub fn waits_for_others(&mut self) {
        if matches!(self.asking, Asking::Wanted(_)) {
            self.asking = Asking::Not;
        }
    }

    /// No answer came: it may be asked again after a while.
    pub fn failed(&mut self, tenure: Tenure, now: BootMs) {
        if tenure == self.tenure {
            (self.asking, self.not_before) = (Asking::Not, now + PAUSE);
        }
    }

    /// Gives what whoever forgets it has to remember: no number above it was given. That is the bound, which whoever loads it begins at in
    /// any case, and which neighbours may have, too. `None` while a master is asked, or is to be, and while it has had much of what an hour
    /// has.
    pub fn at_rest(&self, definition: &SequenceDefinition, now: BootMs) -> Option<u64> {
        let spent = self.max_seq.saturating_sub(self.hour.1);
        let much = definition.width().per_hour().is_some_and(|most| spent > most / REMEMBERED_PART);
        let much = much && now < self.hour.0 + HOUR;
        (self.asking == Asking::Not && !much).then(|| self.floor().max(self.max_seq))
    }

    /// Forgets its keys, all of which go on from the highest number that any of them has.
    pub fn unload(&mut self) {
        let base = self.floor();
        self.counters.forget(base);
        self.top = base;
    }
}

#[cfg(test)]
#[path = "section_tests.rs"]
mod tests;
