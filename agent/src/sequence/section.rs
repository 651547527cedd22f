//! One section in memory: the bound up to which numbers may be given, and the number of each key.
//!
//! It says what it needs from a master ([`want`](SectionState::want)) and takes the answers in. An answer counts only for the owner (`g`)
//! that it was asked for. What was given under an older owner, or before its keys were forgotten, is below `base` for ever: whatever a master
//! says later, no key goes back.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::counters::Counters;
use common::lease::Generation;
use common::rpc::ranges::{NotRaised, RaiseTo, Raised};
use common::sequence::SequenceDefinition;
use common::time::{BootMs, SpanMs};

/// Memory of a section beside its keys, in bytes; with its place in a map of sections.
pub const RECORD_LEN: usize = 192;
/// After a raise that was not answered, or refused, it is not asked again before this has passed.
const PAUSE: SpanMs = SpanMs(100);

/// Where the call for a higher bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asking {
    /// Nowhere.
    Not,
    /// Wanted.
    Wanted(RaiseTo),
    /// Under way.
    Asked,
}

/// What came of a question for numbers of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Numbers from this one on.
    From(u64),
    /// A master has to raise the bound first; [`SectionState::want`] says to what.
    Wait,
    /// There are not as many left of this width.
    Ended,
    /// There is no memory for another key.
    Full,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SectionState {
    g: Generation,
    /// Whether the bound of this owner was read from a master.
    loaded: bool,
    /// Numbers up to it are durable at a master, for this owner.
    max_seq: u64,
    /// The highest number that was given since the section was loaded.
    top: u64,
    counters: Counters,
    asking: Asking,
    not_before: BootMs,
    /// When it was asked for last.
    used: BootMs,
}

impl SectionState {
    /// A section that this session never had.
    pub const fn new(definition: &SequenceDefinition, g: Generation) -> Self {
        Self {
            g,
            loaded: false,
            max_seq: 0,
            top: 0,
            counters: Counters::new(definition.width(), definition.keys_per_section(), 0),
            asking: Asking::Not,
            not_before: BootMs(i64::MIN),
            used: BootMs(0),
        }
    }

    /// Which owner it is loaded for, or will be.
    pub const fn g(&self) -> Generation {
        self.g
    }

    /// Whether its bound is known.
    pub const fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// When it was asked for last.
    pub const fn used(&self) -> BootMs {
        self.used
    }

    /// Memory that it takes, in bytes.
    pub fn len(&self) -> usize {
        RECORD_LEN + self.counters.len()
    }

    /// Whether it keeps no key by itself.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// We are another owner of it than before: it is to be loaded anew. What may have been given stays below all that will be.
    pub fn own(&mut self, g: Generation) {
        if g <= self.g {
            return;
        }
        let base = self.floor();
        self.counters.forget(base);
        (self.g, self.loaded, self.max_seq, self.top) = (g, false, 0, 0);
        (self.asking, self.not_before) = (Asking::Not, BootMs(i64::MIN));
    }

    /// No number above it was given.
    fn floor(&self) -> u64 {
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
        let current = self.counters.current(at);
        let last = current.saturating_add(n.into());
        if last > definition.width().last() {
            return Taken::Ended;
        }
        if last > self.max_seq {
            self.raise(definition, last);
            return Taken::Wait;
        }
        if !room && self.counters.grows(at) {
            return Taken::Full;
        }
        self.counters.set(at, last);
        self.top = self.top.max(last);
        // Asked for before it is needed, so that nobody waits for it.
        let ahead = u64::from(definition.step() / 2);
        if self.top.saturating_add(ahead) >= self.max_seq && self.max_seq < definition.width().last() {
            self.raise(definition, self.max_seq);
        }
        Taken::From(current.saturating_add(1))
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

    fn load(&mut self) {
        if self.asking == Asking::Not {
            self.asking = Asking::Wanted(RaiseTo::ByAStep);
        }
    }

    /// A step beyond `number`, at least.
    fn raise(&mut self, definition: &SequenceDefinition, number: u64) {
        let beyond = number.max(self.max_seq).saturating_add(definition.step().into());
        let to = beyond.min(definition.width().last());
        self.asking = match self.asking {
            Asking::Not => Asking::Wanted(RaiseTo::Number(to)),
            Asking::Wanted(RaiseTo::Number(other)) => Asking::Wanted(RaiseTo::Number(to.max(other))),
            asking => asking,
        };
    }

    /// Whether a master is to be asked, now or later.
    pub const fn wants(&self) -> bool {
        matches!(self.asking, Asking::Wanted(_))
    }

    /// What a master is to be asked now; it counts as asked from then on.
    pub fn want(&mut self, now: BootMs) -> Option<RaiseTo> {
        let Asking::Wanted(to) = self.asking else { return None };
        if now < self.not_before {
            return None;
        }
        self.asking = Asking::Asked;
        Some(to)
    }

    /// A master's answer, to a question of the owner `g`.
    pub fn raised(
        &mut self,
        definition: &SequenceDefinition,
        g: Generation,
        answer: Result<Raised, NotRaised>,
        now: BootMs,
    ) {
        if g != self.g {
            return;
        }
        let last = definition.width().last();
        match answer {
            Ok(Raised { from, max_seq }) => {
                let max_seq = max_seq.min(last);
                if self.loaded {
                    self.max_seq = self.max_seq.max(max_seq);
                } else {
                    let base = self.floor().max(from.min(last));
                    self.counters.forget(base);
                    (self.loaded, self.max_seq, self.top) = (true, max_seq, base);
                }
                self.asking = Asking::Not;
            }
            Err(NotRaised::UsedUp) if !self.loaded => {
                self.counters.forget(last);
                (self.loaded, self.max_seq, self.top, self.asking) = (true, last, last, Asking::Not);
            }
            Err(_) => self.failed(g, now),
        }
    }

    /// No answer came: it may be asked again after a while.
    pub fn failed(&mut self, g: Generation, now: BootMs) {
        if g == self.g {
            (self.asking, self.not_before) = (Asking::Not, now + PAUSE);
        }
    }

    /// Forgets its keys, all of which go on from the highest number that any of them has.
    pub fn unload(&mut self) {
        let base = self.floor();
        self.counters.forget(base);
        self.top = base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::sequence::SequenceSource;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const NOW: BootMs = BootMs(1_000);
    const G: Generation = Generation(3);

    fn definition(width: u8, step: u32) -> SequenceDefinition {
        let said = SequenceSource {
            width: Some(width),
            step: Some(step),
            keys_per_section: Some(100),
            solo_allowance: Some(1_000_000),
            ..SequenceSource::default()
        };
        SequenceDefinition::new(&said).unwrap()
    }

    fn loaded(definition: &SequenceDefinition, from: u64, max_seq: u64) -> SectionState {
        let mut section = SectionState::new(definition, G);
        assert_eq!(section.take(definition, 1, 1, true, NOW), Taken::Wait);
        assert_eq!(section.want(NOW), Some(RaiseTo::ByAStep));
        section.raised(definition, G, Ok(Raised { from, max_seq }), NOW);
        section
    }

    #[test]
    fn a_section_is_loaded_and_its_bound_raised_before_it_is_reached() {
        let definition = definition(63, 10);
        let mut section = loaded(&definition, 100, 110);
        assert_eq!(section.take(&definition, 1, 4, true, NOW), Taken::From(101));
        assert!(!section.wants(), "104 of 110, and 5 ahead");
        assert_eq!(section.take(&definition, 2, 5, true, NOW), Taken::From(101));
        assert_eq!((section.want(NOW), section.want(NOW)), (Some(RaiseTo::Number(120)), None), "once");
        assert_eq!(section.take(&definition, 2, 5, true, NOW), Taken::From(106));
        assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::Wait);
        assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::From(105), "others are not kept");
        section.raised(&definition, G, Ok(Raised { from: 110, max_seq: 115 }), NOW);
        assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::From(111), "less than was asked for");
        assert_eq!(section.take(&definition, 2, 50, true, NOW), Taken::Wait);
        assert_eq!(section.want(NOW), Some(RaiseTo::Number(171)), "what is needed, and a step");
        assert_eq!(section.current(2, NOW), Some(111));
    }

    #[test]
    fn an_answer_counts_for_the_owner_that_asked() {
        let definition = definition(63, 10);
        let mut section = loaded(&definition, 100, 110);
        assert_eq!(section.take(&definition, 1, 3, true, NOW), Taken::From(101));
        section.own(Generation(5));
        section.own(Generation(4));
        section.raised(&definition, G, Ok(Raised { from: 0, max_seq: 1_000 }), NOW);
        assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait);
        assert_eq!(section.want(NOW), Some(RaiseTo::ByAStep));
        // A master that knows less than was given: nobody goes back, and nothing above what it says is given.
        section.raised(&definition, Generation(5), Ok(Raised { from: 100, max_seq: 102 }), NOW);
        assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait);
        assert_eq!(section.want(NOW), Some(RaiseTo::Number(114)));
        section.raised(&definition, Generation(5), Ok(Raised { from: 102, max_seq: 114 }), NOW);
        assert_eq!(section.take(&definition, 7, 1, true, NOW), Taken::From(104));
    }

    #[test]
    fn a_failed_raise_is_asked_again_after_a_pause() {
        let definition = definition(63, 10);
        let mut section = loaded(&definition, 0, 2);
        for answer in [NotRaised::Allowance, NotRaised::OtherOwner, NotRaised::UsedUp] {
            let now = section.used() + SpanMs(1_000);
            assert_eq!(section.take(&definition, 1, 5, true, now), Taken::Wait);
            assert_eq!(section.want(now), Some(RaiseTo::Number(15)));
            section.raised(&definition, G, Err(answer), now);
            assert_eq!(section.take(&definition, 1, 5, true, now), Taken::Wait);
            assert_eq!(section.want(now), None);
            assert_eq!(section.want(now + PAUSE), Some(RaiseTo::Number(15)));
            section.failed(G, now);
        }
    }

    #[test]
    fn the_width_ends_once_and_for_all() {
        let definition = definition(32, 10);
        let last = u64::from(u32::MAX);
        let mut section = loaded(&definition, last - 5, last);
        assert_eq!(section.take(&definition, 1, 6, true, NOW), Taken::Ended);
        assert_eq!(section.take(&definition, 1, 5, true, NOW), Taken::From(last - 4));
        assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Ended);
        assert!(!section.wants());
        assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::From(last - 4));
        let mut ended = SectionState::new(&definition, G);
        ended.raised(&definition, G, Err(NotRaised::UsedUp), NOW);
        assert_eq!(ended.take(&definition, 1, 1, true, NOW), Taken::Ended);
    }

    #[test]
    fn without_room_known_keys_go_on_and_unloaded_ones_jump() {
        let definition = definition(63, 100);
        let mut section = loaded(&definition, 0, 100);
        assert_eq!(section.take(&definition, 1, 7, true, NOW), Taken::From(1));
        assert_eq!(section.take(&definition, 2, 1, false, NOW), Taken::Full);
        assert_eq!(section.take(&definition, 1, 1, false, NOW), Taken::From(8));
        section.unload();
        assert_eq!((section.len(), section.take(&definition, 2, 1, true, NOW)), (RECORD_LEN, Taken::From(9)));
    }

    #[derive(Clone, Copy, Debug)]
    enum Deed {
        Take(u32, u32),
        /// The master answers the question asked last, and raises by a part of what was asked; or it does, and the answer is lost.
        Answer(u64, bool),
        /// An old answer comes again.
        Again(usize),
        Unload,
        /// We lose the section and get it back: the master is asked anew.
        Move,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            6 => (0u32..4, 1u32..30).prop_map(|(at, n)| Deed::Take(at, n)),
            4 => (0u64..60, any::<bool>()).prop_map(|(part, lost)| Deed::Answer(part, lost)),
            1 => (0usize..50).prop_map(Deed::Again),
            1 => Just(Deed::Unload),
            1 => Just(Deed::Move),
        ]
    }

    proptest! {
        /// Whatever is lost, late or doubled: numbers of a key grow, and lie within what the master held durably for this owner.
        #[test]
        fn numbers_grow_below_the_bound(deeds in proptest::collection::vec(deed(), 1..200)) {
            let definition = definition(63, 20);
            let mut section = SectionState::new(&definition, Generation(1));
            let (mut now, mut bound) = (NOW, 0u64);
            let mut given: BTreeMap<u32, u64> = BTreeMap::new();
            let mut answers = Vec::new();
            for deed in deeds {
                now = now + SpanMs(200);
                match deed {
                    Deed::Take(at, n) => {
                        if let Taken::From(first) = section.take(&definition, at, n, true, now) {
                            let last = first + u64::from(n) - 1;
                            prop_assert!(given.get(&at).is_none_or(|before| *before < first) && last <= bound);
                            given.insert(at, last);
                        }
                    }
                    Deed::Answer(part, lost) => {
                        if let Some(to) = section.want(now) {
                            let wanted = match to {
                                RaiseTo::ByAStep => bound + 20,
                                RaiseTo::Number(number) => number.max(bound),
                            };
                            let from = bound;
                            bound = wanted.min(bound + part);
                            let answer = (section.g(), Ok(Raised { from, max_seq: bound }));
                            if lost {
                                section.failed(section.g(), now);
                            } else {
                                section.raised(&definition, answer.0, answer.1, now);
                            }
                            answers.push(answer);
                        }
                    }
                    Deed::Again(nth) => {
                        if let Some((g, answer)) = answers.get(nth) {
                            section.raised(&definition, *g, *answer, now);
                        }
                    }
                    Deed::Unload => section.unload(),
                    Deed::Move => section.own(Generation(section.g().0 + 1)),
                }
            }
        }
    }
}
