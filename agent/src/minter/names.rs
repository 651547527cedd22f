//! The meaning of names, as the masters say it, and how this agent stands to each: one entry a name, read without a lock. `default`, which is
//! there for several kinds and which nobody registers, is none of them.

use super::Generator;
use super::registry::Registry;
use crate::refusal::Refusal;
use arc_swap::ArcSwap;
use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::setting::NAMESPACES_MAX;
use common::time::WallMs;
use engine::broken;
use net::rpc::lease::{NameProof, NameState, Registered};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Names at most, of which those that were never served here and are retired take no more than half: any of those may be asked about.
const NAMES_MAX: usize = 4 * NAMESPACES_MAX;
/// Names are spread over so many lists: each further one copies its own, and not all there are.
const PARTS: usize = 256;

/// The place that a name's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberSource {
    /// The generator in that slot.
    Generator(usize),
    /// Counters of keys, which need neither the serial file nor a lease; `sequences` gives their numbers, in the program.
    Keys,
}

/// The reason why nothing is minted any more by a name that the masters know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// They say that it stands for something else than it does here, or did.
    Contradicted,
    /// A retired name.
    Retired,
}

/// A name's state at this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalState {
    /// Nobody has given an ID by it yet.
    Unused,
    /// Numbers are given by it.
    Served(NumberSource),
    /// A name in use that cannot be served here.
    Unservable(Refusal),
    /// No numbers are given by it any more; the place that they came from.
    Ended(Ended, Option<NumberSource>),
}

/// The change that a word of the masters makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// The word is another one; the local stays.
    Note,
    Unused,
    Serve,
    End(Ended),
}

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) namespace: Arc<Namespace>,
    /// The masters' own mark; of a retired name, if masters that have forgotten that are shown it.
    pub(super) proof: Option<NameProof>,
    pub(crate) local: LocalState,
}

impl Entry {
    pub(super) fn new(word: &Registered, local: LocalState) -> Self {
        Self { namespace: Arc::new(word.namespace.clone()), proof: word.proof, local }
    }

    pub(crate) fn name(&self) -> &GeneratorName {
        self.namespace.name()
    }

    pub(crate) fn is_unused(&self) -> bool {
        matches!(self.local, LocalState::Unused)
    }

    pub(super) fn is_served(&self) -> bool {
        matches!(self.local, LocalState::Served(_))
    }

    /// The place that its numbers come from, or came from.
    pub(crate) fn place(&self) -> Option<NumberSource> {
        match self.local {
            LocalState::Served(place) => Some(place),
            LocalState::Ended(_, served) => served,
            LocalState::Unused | LocalState::Unservable(_) => None,
        }
    }

    /// The reason why no numbers are given by a name that is in use, or was.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let name = || self.name().clone();
        match &self.local {
            LocalState::Unused | LocalState::Served(_) => None,
            LocalState::Unservable(why) => Some(why.clone()),
            LocalState::Ended(Ended::Contradicted, _) => Some(Refusal::GeneratorConflict { name: name() }),
            LocalState::Ended(Ended::Retired, _) => Some(Refusal::GeneratorRetired { name: name() }),
        }
    }

    /// The place that its numbers come from, if they are given.
    pub(super) fn source(&self) -> Result<Option<NumberSource>, Refusal> {
        self.refusal().map_or_else(|| Ok(self.place()), Err)
    }

    fn is_contradicted(&self) -> bool {
        matches!(self.local, LocalState::Ended(Ended::Contradicted, _))
    }

    /// The state as which a name outlives a start, and is shown to masters that have forgotten it: one that is served, or was.
    pub(crate) fn kept_as(&self) -> Option<NameState> {
        match self.local {
            LocalState::Served(_) => Some(NameState::InUse),
            LocalState::Ended(Ended::Retired, _) if self.proof.is_some() => Some(NameState::Retired),
            _ => None,
        }
    }

    /// The word of the masters that is kept of it.
    pub(crate) fn kept(&self) -> Option<Registered> {
        let state = self.kept_as()?;
        Some(Registered { namespace: Namespace::clone(&self.namespace), state, proof: self.proof })
    }

    /// The change that a word makes to what is known. What is served goes on until it ends, what was retired stays so, whatever masters say
    /// that have forgotten it, and one definition of a served name is as good as another that gives the same IDs.
    fn step(known: Option<&Self>, word: &Registered) -> Step {
        use NameState::{InUse, Retired, Unused};
        let Some(known) = known else {
            return match word.state {
                Unused => Step::Unused,
                InUse => Step::Serve,
                Retired => Step::End(Ended::Retired),
            };
        };
        let differs = *known.namespace != word.namespace || known.proof != word.proof;
        let others = !known.namespace.same_ids(&word.namespace);
        match (&known.local, word.state) {
            (LocalState::Served(_), InUse | Retired) if others => Step::End(Ended::Contradicted),
            (LocalState::Served(_), Retired) => Step::End(Ended::Retired),
            (LocalState::Served(_), InUse) if differs => Step::Note,
            (LocalState::Served(_), InUse | Unused) => Step::Nothing,
            (LocalState::Ended(Ended::Contradicted, _), Retired) => Step::End(Ended::Retired),
            (LocalState::Ended(Ended::Retired, _), Retired) if known.proof.is_some() && differs => Step::Note,
            (LocalState::Ended(Ended::Retired, Some(_)), InUse) if known.proof.is_none() => {
                Step::End(Ended::Contradicted)
            }
            (LocalState::Ended(..), _) => Step::Nothing,
            (LocalState::Unused | LocalState::Unservable(_), Retired) => Step::End(Ended::Retired),
            (LocalState::Unused | LocalState::Unservable(_), InUse) => Step::Serve,
            (LocalState::Unused, Unused) if !differs => Step::Nothing,
            (LocalState::Unused | LocalState::Unservable(_), Unused) => Step::Unused,
        }
    }
}

type Part = Vec<Arc<Entry>>;

/// The names that this agent has heard of.
pub struct Names {
    /// In their order, spread over [`PARTS`].
    parts: Box<[ArcSwap<Part>]>,
    /// Held by whoever changes something.
    changing: Mutex<()>,
    len: AtomicUsize,
    contradicted: AtomicUsize,
    changes: AtomicU64,
    /// Those of what is kept.
    kept_changes: AtomicU64,
    /// The generators of those that are served, and of `default`.
    generators: Registry,
    /// Told when a further sequence becomes known.
    keyed: Notify,
}

impl Names {
    /// None yet; the time mark that the former run left.
    pub(super) fn new(mark: WallMs) -> Self {
        Self {
            parts: (0..PARTS).map(|_| ArcSwap::default()).collect(),
            changing: Mutex::default(),
            len: AtomicUsize::new(0),
            contradicted: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            kept_changes: AtomicU64::new(0),
            generators: Registry::new(mark),
            keyed: Notify::new(),
        }
    }

    pub(super) fn generators(&self) -> &Registry {
        &self.generators
    }

    /// The generator of that kind and name; of a kind without names the one that there is.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`], also for what could not be a name; [`Refusal::GeneratorConflict`],
    /// [`Refusal::GeneratorRetired`].
    pub fn generator(&self, kind: Kind, name: &str) -> Result<&Arc<Generator>, Refusal> {
        let name = if kind.spec().definition.is_some() { name } else { GeneratorName::DEFAULT };
        let found = match self.look(name, |known| known.source()).transpose()? {
            Some(Some(NumberSource::Generator(slot))) => self.generators.at(slot).filter(|it| it.kind() == kind),
            Some(Some(NumberSource::Keys) | None) => None,
            None => self.generators.default(kind).filter(|_| name == GeneratorName::DEFAULT),
        };
        found.ok_or_else(|| Refusal::unknown(kind, name))
    }

    /// The sequence of that name.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`], [`Refusal::GeneratorConflict`], [`Refusal::GeneratorRetired`].
    pub fn keyed(&self, name: &str) -> Result<Arc<Namespace>, Refusal> {
        let of = |known: &Arc<Entry>| match known.source()? {
            Some(NumberSource::Keys) => Ok(Some(Arc::clone(&known.namespace))),
            Some(NumberSource::Generator(_)) | None => Ok(None),
        };
        let found = self.look(name, of).transpose()?.flatten();
        found.ok_or_else(|| Refusal::unknown(Kind::Sequence, name))
    }

    /// Resolves when a further sequence becomes known.
    pub(crate) async fn keyed_learned(&self) {
        self.keyed.notified().await;
    }

    /// The kind of the generator that has this name. `None` if there is none here.
    pub fn kind_of(&self, name: &str) -> Option<Kind> {
        let is_known = |known: &Arc<Entry>| matches!(known.local, LocalState::Served(_) | LocalState::Ended(..));
        let known = self.look(name, |known| is_known(known).then(|| known.namespace.kind()));
        known.unwrap_or_else(|| (name == GeneratorName::DEFAULT).then(Kind::default))
    }

    /// The reason why nothing is minted by that name any more.
    pub(super) fn why_ended(&self, generator: &Generator) -> Refusal {
        self.look(generator.namespace().name().as_str(), |known| known.refusal()).flatten().unwrap_or_else(broken)
    }

    #[inline]
    fn part(&self, name: &str) -> Option<&ArcSwap<Part>> {
        self.parts.get(usize::from(name.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))))
    }

    /// Looks at the entry of that name.
    #[inline]
    pub(crate) fn look<T>(&self, name: &str, look: impl FnOnce(&Arc<Entry>) -> T) -> Option<T> {
        let part = self.part(name)?.load();
        part.get(place_in(&part, name).ok()?).map(look)
    }

    /// The results of `of` for the names, in their order.
    pub(crate) fn all<T>(&self, of: impl Fn(&Entry) -> Option<T>) -> Vec<T> {
        let mut all: Vec<_> = self.parts.iter().flat_map(|part| Part::clone(&part.load())).collect();
        all.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        all.iter().filter_map(|entry| of(entry)).collect()
    }

    /// Tells whether it `is` so of any name.
    pub(crate) fn any(&self, is: impl Fn(&Entry) -> bool) -> bool {
        self.parts.iter().any(|part| part.load().iter().any(|entry| is(entry)))
    }

    /// One `of` the names about which the masters contradict what is served here, or was.
    pub(super) fn contradicted(&self, of: impl Fn(&Entry) -> bool) -> Option<GeneratorName> {
        if self.contradicted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.all(|entry| (entry.is_contradicted() && of(entry)).then(|| entry.name().clone())).into_iter().next()
    }

    /// A number that is another one after each change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// A number that is another one after each change of what is kept.
    pub(crate) fn kept_changes(&self) -> u64 {
        self.kept_changes.load(Ordering::Acquire)
    }

    /// Tells whether there is room for another one that is served.
    pub(super) fn has_room(&self) -> bool {
        self.len.load(Ordering::Relaxed) < NAMES_MAX
    }

    /// The change that a word of the masters makes.
    pub(crate) fn step(&self, word: &Registered) -> Step {
        let step = self.look(word.namespace.name().as_str(), |known| Entry::step(Some(known), word));
        let crowded = || self.len.load(Ordering::Relaxed) >= NAMES_MAX / 2;
        match step.unwrap_or_else(|| Entry::step(None, word)) {
            Step::End(_) if step.is_none() && crowded() => Step::Nothing,
            step => step,
        }
    }

    /// Notes what a master says of names by which nobody has given an ID: these are `unused`, and those are `gone`.
    pub(crate) fn hear_unused(&self, gone: impl IntoIterator<Item = GeneratorName>, unused: Vec<Registered>) {
        for name in gone {
            self.change(&name, |known| known.filter(|known| !known.is_unused()).cloned());
        }
        for word in unused.iter().filter(|word| self.step(word) == Step::Unused) {
            self.change(word.namespace.name(), |known| match Entry::step(known, word) {
                Step::Unused => Some(Entry::new(word, LocalState::Unused)),
                _ => known.cloned(),
            });
        }
    }

    /// Notes the mark by which a retired name is shown to masters that have forgotten that; `None`: it is not.
    pub(crate) fn show(&self, name: &GeneratorName, proof: Option<NameProof>) {
        self.change(name, |known| known.map(|known| Entry { proof, ..known.clone() }));
    }

    /// Notes how a name stands from now on; what is wrong with it is said once, and not each time that masters say the name again.
    pub(super) fn note(&self, entry: Entry) {
        let (name, why, place) = (entry.name().clone(), entry.refusal(), entry.place().filter(|_| entry.is_served()));
        let is_news = self.change(&name, |_| Some(entry));
        if let Some(why) = why.filter(|why| is_news && !matches!(why, Refusal::GeneratorRetired { .. })) {
            tracing::error!(%name, %why, "this generator is not served");
        }
        if place == Some(NumberSource::Keys) {
            self.keyed.notify_waiters();
        }
    }

    /// Notes a name that is served before masters say anything.
    pub(super) fn serve(&self, namespace: Arc<Namespace>, place: NumberSource) {
        let name = namespace.name().clone();
        if !name.is_default() {
            self.change(&name, |_| Some(Entry { namespace, proof: None, local: LocalState::Served(place) }));
        }
    }

    /// Changes an entry, makes one, or takes it away; tells whether that is another one.
    pub(super) fn change(&self, name: &GeneratorName, change: impl FnOnce(Option<&Entry>) -> Option<Entry>) -> bool {
        let Some(part) = self.part(name.as_str()) else { return false };
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Part::clone(&part.load());
        let (at, known) = match place_in(&all, name.as_str()) {
            Ok(at) => (at, Some(all.remove(at))),
            Err(at) => (at, None),
        };
        let changed = change(known.as_deref());
        if changed.as_ref() == known.as_deref() || known.is_none() && !self.has_room() {
            return false;
        }
        let count = |counted: &AtomicUsize, is: fn(&Entry) -> bool| {
            counted.fetch_add(changed.as_ref().is_some_and(is).into(), Ordering::Relaxed);
            counted.fetch_sub(known.as_deref().is_some_and(is).into(), Ordering::Relaxed);
        };
        count(&self.len, |_| true);
        count(&self.contradicted, Entry::is_contradicted);
        let is_kept = [known.as_deref(), changed.as_ref()].into_iter().flatten().any(|it| it.kept_as().is_some());
        all.splice(at..at, changed.map(Arc::new));
        part.store(Arc::new(all));
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.kept_changes.fetch_add(is_kept.into(), Ordering::Release);
        true
    }
}

fn place_in(part: &Part, name: &str) -> Result<usize, usize> {
    part.binary_search_by(|entry| entry.name().as_str().cmp(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::namespace::Definition;
    use std::collections::BTreeSet;

    fn word(name: &str, json: &str, state: NameState, proof: u8) -> Registered {
        let definition: Definition = common::json::read(json.as_bytes()).unwrap();
        let namespace = Namespace::define(name.parse().unwrap(), &definition).unwrap();
        Registered { namespace, state, proof: Some(NameProof([proof; 32])) }
    }

    /// Every local, and what each word of the masters does to it: on the same definition, on one that gives the same IDs, on another one.
    #[test]
    fn what_a_word_changes_is_what_is_written_here() {
        use NameState::{InUse, Retired, Unused};
        const SAME: &str = r#"{"kind":"uniq64"}"#;
        const AS_GOOD: &str = r#"{"kind":"uniq64","step":2000}"#;
        const OTHER: &str = r#"{"kind":"layout","layout":"snowflake"}"#;
        let served = Some(NumberSource::Generator(3));
        let states = [
            ("unknown", None, true),
            ("unused", Some(LocalState::Unused), true),
            ("served", Some(LocalState::Served(NumberSource::Keys)), true),
            ("unservable", Some(LocalState::Unservable(Refusal::Overloaded("full"))), true),
            ("contradicted", Some(LocalState::Ended(Ended::Contradicted, served)), true),
            ("never served", Some(LocalState::Ended(Ended::Contradicted, None)), true),
            ("retired", Some(LocalState::Ended(Ended::Retired, served)), true),
            ("retired, not shown", Some(LocalState::Ended(Ended::Retired, served)), false),
            ("retired, never served", Some(LocalState::Ended(Ended::Retired, None)), false),
        ];
        let all = states.map(|(told, local, proved)| {
            let known = local.map(|local| Entry::new(&word("a", SAME, InUse, 1), local));
            let known = known.map(|known| Entry { proof: known.proof.filter(|_| proved), ..known });
            let step = |json, state, proof| Entry::step(known.as_ref(), &word("a", json, state, proof));
            let of = |state| match [step(SAME, state, 1), step(AS_GOOD, state, 1), step(OTHER, state, 1)] {
                [one, as_good, other] if one == as_good && one == other => format!("{one:?}"),
                steps => format!("{steps:?}"),
            };
            assert_eq!(step(SAME, Retired, 2) == Step::Note, told == "retired", "{told}: with another proof");
            format!("{told}: {}; {}; {}", of(Unused), of(InUse), of(Retired))
        });
        let expected = [
            "unknown: Unused; Serve; End(Retired)",
            "unused: [Nothing, Unused, Unused]; Serve; End(Retired)",
            "served: Nothing; [Nothing, Note, End(Contradicted)]; [End(Retired), End(Retired), End(Contradicted)]",
            "unservable: Unused; Serve; End(Retired)",
            "contradicted: Nothing; Nothing; End(Retired)",
            "never served: Nothing; Nothing; End(Retired)",
            "retired: Nothing; Nothing; [Nothing, Note, Note]",
            "retired, not shown: Nothing; End(Contradicted); Nothing",
            "retired, never served: Nothing; Nothing; Nothing",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn names_are_found_listed_in_order_counted_and_taken_away() {
        let names = Names::new(WallMs(0));
        let of = |n: usize| word(&format!("n{n:04}"), r#"{"kind":"uniq64"}"#, NameState::Unused, 1);
        names.hear_unused([], (0..1_000).rev().map(of).collect());
        let all = |names: &Names| names.all(|known| Some(known.name().to_string()));
        assert_eq!(all(&names), (0..1_000).map(|n| format!("n{n:04}")).collect::<Vec<_>>());
        let before = (names.changes(), names.kept_changes());
        names.hear_unused([], (0..1_000).map(of).collect());
        assert_eq!((names.changes(), names.kept_changes()), before, "nothing is new");
        for n in 0..1_000 {
            let name = of(n).namespace.name().clone();
            names.change(&name, |known| match n % 4 {
                0 => None,
                1 => {
                    known.map(|known| Entry { local: LocalState::Served(NumberSource::Generator(n)), ..known.clone() })
                }
                2 => known.map(|known| Entry { local: LocalState::Ended(Ended::Contradicted, None), ..known.clone() }),
                _ => known.cloned(),
            });
        }
        assert_eq!((names.changes() - before.0, names.kept_changes() - before.1), (750, 250));
        assert_eq!(names.len.load(Ordering::Relaxed), 750);
        assert_eq!(names.contradicted(|_| true), Some("n0002".parse().unwrap()));
        assert_eq!(names.contradicted(Entry::is_unused), None);
        // No name is two of these.
        let kept = names.all(Entry::kept).into_iter().map(|one| one.namespace.name().clone());
        let unused = names.all(|known| known.is_unused().then(|| known.name().clone()));
        let ended = names.all(|known| known.refusal().map(|_| known.name().clone()));
        let parts = [kept.collect::<Vec<_>>(), unused, ended];
        assert_eq!(parts.each_ref().map(Vec::len), [250; 3]);
        assert_eq!(parts.concat().into_iter().collect::<BTreeSet<_>>().len(), 750);
        // What is served, or was, is not gone because a list is without it.
        names.hear_unused((0..1_000).map(|n| of(n).namespace.name().clone()), (0..1_000).map(of).collect());
        assert_eq!(names.all(|known| known.place()).len(), 250);
        assert_eq!(names.contradicted(|_| true), Some("n0002".parse().unwrap()));
    }

    #[test]
    fn retired_names_that_were_never_served_take_no_more_than_half_of_the_room() {
        let names = Names::new(WallMs(0));
        names.len.store(NAMES_MAX / 2, Ordering::Relaxed);
        let of = |state| word("a", r#"{"kind":"uniq64"}"#, state, 1);
        assert_eq!(names.step(&of(NameState::Retired)), Step::Nothing);
        assert_eq!(names.step(&of(NameState::InUse)), Step::Serve);
        names.hear_unused([], vec![of(NameState::Unused)]);
        assert_eq!(names.step(&of(NameState::Retired)), Step::End(Ended::Retired), "it is known already");
        names.len.store(NAMES_MAX, Ordering::Relaxed);
        names.hear_unused([], vec![word("b", r#"{"kind":"uniq64"}"#, NameState::Unused, 1)]);
        assert!(!names.has_room() && names.look("b", |_| ()).is_none());
    }
}
