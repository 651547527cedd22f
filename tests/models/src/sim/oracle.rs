//! Invariants: no ID twice, and the protocol's invariants on everything that was ever promised or minted.

use super::episode::Sequences;
use super::minter::{Of, Run};
use super::numbers::Numbers;
use super::rng::mix;
use common::calendar::UtcOffset;
use common::kind::{Known, Reading, TextForm, UNIQ64, UNIQ96, explain};
use common::lease::{Generation, Lease, LeaseState};
use common::namespace::{Definition, Namespace};
use common::parameters::SessionId;
use common::template::CallerParts;
use common::time::WallMs;
use common::token::TokenKey;
use minting::gate::Prefix;
use minting::run::Runs;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Of the runs of IDs, every so many is also kept as the texts of its first and last ID.
const SAMPLE: u64 = 8;
/// Violations that are told one by one.
const TOLD_MAX: usize = 5;

/// Mixes numbers; the keys here are numbers of our own.
#[derive(Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = mix(self.0 ^ n.wrapping_add(0x9e37_79b9_7f4a_7c15));
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

#[derive(Clone, Debug)]
struct Promise {
    from: WallMs,
    /// The latest end that was promised.
    until: WallMs,
    /// The earliest end with which a master noted that it is closed.
    closed: Option<WallMs>,
    /// True if it reached its holder.
    taken: bool,
}

/// Layouts do not share serials.
fn layout(of: &Of) -> u8 {
    match of {
        Of::Uniq64 => 0,
        Of::Uniq96 => 1,
        Of::Text => 2,
        Of::Layout(_) => 3,
        Of::Plain => 4,
    }
}

/// Everything that was promised and minted in one simulation.
#[derive(Default)]
pub struct Oracle {
    offset: UtcOffset,
    /// Serials by layout and prefix, which is time and token.
    minted: Map<(u8, u64), Vec<(u64, u64)>>,
    /// The progress of each grant in each layout: prefix, and the serial after the last one.
    reached: Map<(u8, u32, u64, SessionId), (u64, u64)>,
    texts: HashSet<u64, BuildHasherDefault<Mixer>>,
    /// By generation; and by session too, because masters that have forgotten begin again with generations that were.
    promises: BTreeMap<TokenKey, BTreeMap<(Generation, SessionId), Promise>>,
    /// True if what both masters knew was ever put back or lost: then generations come twice, and a lease is closed at an end
    /// that was known; rectangles must be disjoint all the same.
    pub forgotten: bool,
    /// Numbers that come in ranges.
    pub numbers: Numbers,
    /// Numbers of keys.
    pub sequences: Sequences,
    /// Numbers that did not come in order.
    pub disorder: u64,
    /// IDs.
    pub ids: u64,
    /// IDs that came twice.
    pub duplicates: u64,
    /// Promises of a value that had been promised to another session before.
    pub reuses: u64,
    /// Sentences that do not hold.
    pub violations: u64,
    /// The first of them.
    pub told: Vec<String>,
}

impl Oracle {
    /// Nothing yet.
    pub fn new(offset: UtcOffset) -> Self {
        Self { offset, ..Self::default() }
    }

    /// Counts what reached clients, by kind.
    pub fn given(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("IDs", self.ids),
            ("numbers in segments", self.numbers.given),
            ("numbers of keys", self.sequences.numbers),
        ])
    }

    /// Something does not hold.
    pub fn violated(&mut self, what: impl FnOnce() -> String) {
        self.violations += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(what());
        }
    }

    /// A promise has reached its holder.
    pub fn taken(&mut self, key: TokenKey, g: Generation, session: SessionId) {
        if let Some(known) = self.promises.get_mut(&key).and_then(|grants| grants.get_mut(&(g, session))) {
            known.taken = true;
        }
    }

    /// Tells whether all that ever reached a holder, and was not over at `at`, is among `held`.
    pub fn is_all_held(&self, held: &[(TokenKey, Generation, SessionId)], at: WallMs) -> bool {
        let each = self.promises.iter().flat_map(|(key, grants)| grants.iter().map(move |grant| (key, grant)));
        let mut running = each.filter(|(_, (_, promise))| promise.taken && promise.until > at);
        running.all(|(key, ((g, session), _))| held.contains(&(*key, *g, *session)))
    }

    /// Tells whether any of what reached a holder, and is not over at `at`, is of a later grant than these.
    pub fn is_forgotten_by(&self, known: &BTreeMap<TokenKey, Generation>, at: WallMs) -> bool {
        let each = self.promises.iter().flat_map(|(key, grants)| grants.iter().map(move |grant| (key, grant)));
        let mut running = each.filter(|(_, (_, promise))| promise.taken && promise.until > at);
        running.any(|(key, ((g, _), _))| known.get(key).is_none_or(|known| known < g))
    }

    /// Forgets what reached nobody: it never will, and is not a promise.
    pub fn forget_untaken(&mut self) {
        self.promises.values_mut().for_each(|grants| grants.retain(|_, promise| promise.taken));
    }

    /// The end until which a grant was ever promised to a session.
    pub fn promised_until(&self, (key, g, session): (TokenKey, Generation, SessionId)) -> Option<WallMs> {
        Some(self.promises.get(&key)?.get(&(g, session))?.until)
    }

    /// An answer with a lease leaves a master.
    pub fn promised(&mut self, key: TokenKey, g: Generation, session: SessionId, from: Option<WallMs>, until: WallMs) {
        let offset = self.offset;
        let grants = self.promises.entry(key).or_default();
        if let Some((_, other)) = grants.keys().find(|(g2, s2)| *g2 == g && *s2 != session).filter(|_| !self.forgotten)
        {
            let other = *other;
            return self.violated(|| format!("I1 {key} g{g} is promised to {session}, but also to {other}"));
        }
        let Some(known) = grants.get_mut(&(g, session)) else {
            let Some(from) = from else {
                return self.violated(|| format!("I6 {key} g{g} is renewed, but was never promised or confirmed"));
            };
            self.reuses += u64::from(!grants.is_empty());
            grants.insert((g, session), Promise { from, until, closed: None, taken: false });
            return self.check_rectangles(key, (g, session));
        };
        if self.forgotten {
            known.from = from.map_or(known.from, |from| from.min(known.from));
        } else if from.is_some_and(|from| from != known.from) {
            return self.violated(|| format!("I1 {key} g{g} begins at two times"));
        }
        let longer = offset.day_ceil(until) > offset.day_ceil(known.until);
        known.until = known.until.max(until);
        if let Some(closed) = known.closed.filter(|closed| until > *closed && !self.forgotten) {
            self.violated(|| format!("I7 {key} g{g} is promised until {until}, but was closed with {closed}"));
        } else if longer {
            self.check_rectangles(key, (g, session));
        }
    }

    /// I1: the rectangles of a value, rounded out to days, are disjoint, and in the order of their generations unless masters
    /// have forgotten.
    fn check_rectangles(&mut self, key: TokenKey, of: (Generation, SessionId)) {
        let Some(grants) = self.promises.get(&key) else { return };
        let Some(this) = grants.get(&of) else { return };
        let before = |a: &Promise, b: &Promise| self.offset.day_ceil(a.until) <= self.offset.day_floor(b.from);
        let apart = |(other, p): (&(Generation, SessionId), &Promise)| match self.forgotten {
            true => before(p, this) || before(this, p),
            false if *other < of => before(p, this),
            false => before(this, p),
        };
        if let Some(((g, session), p)) = grants.iter().find(|grant| *grant.0 != of && !apart(*grant)) {
            let text = format!(
                "I1 {key}: g{} [{}, {}) of {} meets g{g} [{}, {}) of {session}",
                of.0, this.from, this.until, of.1, p.from, p.until
            );
            self.violated(|| text);
        }
    }

    /// A record becomes durable somewhere. `was` is what it replaces there.
    pub fn recorded(&mut self, key: TokenKey, lease: &Lease, was: Option<(Generation, WallMs)>) {
        if let Some((g, until)) = was
            && (lease.g < g || (lease.g == g && lease.until < until))
        {
            self.violated(|| format!("{key}: a record of g{g} until {until} shrinks to g{} {}", lease.g, lease.until));
        }
        if lease.state != LeaseState::Closed {
            return;
        }
        let Some(known) = self.promises.get_mut(&key).and_then(|grants| grants.get_mut(&(lease.g, lease.session)))
        else {
            return;
        };
        known.closed = Some(known.closed.map_or(lease.until, |closed| closed.min(lease.until)));
        let promised = known.until;
        if promised > lease.until && !self.forgotten {
            let (g, until) = (lease.g, lease.until);
            self.violated(|| format!("I7 {key} g{g} is closed with {until}, but was promised until {promised}"));
        }
    }

    /// IDs reach a client. `wall` is the time as the agent knows it.
    pub fn minted(&mut self, run: &Run, session: SessionId, wall: WallMs) {
        let known = self.promises.get(&run.lease.key).and_then(|grants| grants.get(&(run.lease.g, session)));
        let inside = known.is_some_and(|p| p.from <= run.time && run.time < p.until);
        let over = known.is_some_and(|p| wall >= p.until);
        let (key, g, time) = (run.lease.key, run.lease.g, run.time);
        if !inside {
            self.violated(|| format!("I2 {session} mints an ID of {time} under {key} g{g}, which it does not hold"));
        }
        if over {
            self.violated(|| format!("I2 {session} mints at {wall}, when by its own clock {key} g{g} is over"));
        }
        self.check_growth(run, session);
        self.ids += run.len;
        let start = run.start % run.capacity;
        let straight = run.len.min(run.capacity - start);
        // A run that comes to the end of the serials goes on with the first.
        let twice = self.take(run, start, straight) + self.take(run, 0, run.len - straight);
        if twice > 0 {
            self.duplicates += twice;
            let (key, time) = (run.lease.key, run.time);
            self.violated(|| format!("{twice} IDs of token {key}, {time} from serial {start} on were minted twice"));
        }
        self.sample(run, session);
    }

    /// I3: under one grant, time and serial of each layout only grow, whatever happens to the agent meanwhile.
    fn check_growth(&mut self, run: &Run, session: SessionId) {
        let (key, g) = (run.lease.key, run.lease.g);
        let place = (layout(&run.of), key.value.0, g.0, session);
        let end = (run.high, run.start + run.len);
        let before = self.reached.insert(place, end);
        if let Some((high, next)) = before.filter(|before| (run.high, run.start) < *before) {
            let (time, start) = (run.time, run.start);
            self.violated(|| {
                format!(
                    "I3 {key} g{g} goes back to {time} serial {start} ({:x}), from {high:x} serial {next}",
                    run.high
                )
            });
        }
    }

    /// Takes these serials, and counts those that were there before.
    fn take(&mut self, run: &Run, start: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        let serials = self.minted.entry((layout(&run.of), run.high)).or_default();
        let end = start + len;
        // Serials come in ascending order unless something is wrong, so the end of the list is where to look first.
        match serials.last_mut() {
            Some(last) if last.1 == start => {
                last.1 = end;
                0
            }
            Some(last) if last.1 > start => {
                let twice = serials.iter().map(|(s, e)| e.min(&end).saturating_sub(*s.max(&start))).sum();
                serials.push((start, end));
                serials.sort_unstable();
                twice
            }
            _ => {
                serials.push((start, end));
                0
            }
        }
    }

    fn sample(&mut self, run: &Run, session: SessionId) {
        if !mix(run.high ^ run.start).is_multiple_of(SAMPLE) {
            return;
        }
        for counter in [run.start, run.start + run.len - 1].into_iter().take(run.len.min(2) as usize) {
            self.keep_text(run, counter, session);
        }
    }

    fn keep_text(&mut self, run: &Run, counter: u64, session: SessionId) {
        let number = match &run.prefix {
            Prefix::Number(numbers) => numbers.number(counter),
            _ => 0,
        };
        let (text, read_back) = match &run.of {
            Of::Uniq64 => {
                let text = UNIQ64.text(number, TextForm::Decimal);
                let read = UNIQ64.parse_form(&text, TextForm::Decimal).map(|id| UNIQ64.text(id, TextForm::Decimal));
                (text, read.ok())
            }
            Of::Uniq96 => {
                let text = UNIQ96.text(number, TextForm::Base32);
                let read = UNIQ96.parse_form(&text, TextForm::Base32).map(|id| UNIQ96.text(id, TextForm::Base32));
                (text, read.ok())
            }
            Of::Layout(definition) => {
                let text = definition.text(number).unwrap_or_default();
                let said = Definition::Layout(definition.spec());
                let name = Namespace::define("ticks".parse().expect("a name"), &said).expect("a definition");
                let read = explain(&text, &Known { names: &[&name], ..Known::NONE }).ok().into_iter();
                let mut readings = read.flat_map(|read| std::iter::once(read.reading).chain(read.also));
                let mut time = run.time.to_string();
                if definition.layout().calendar().is_some() {
                    // By the cluster's offset, which the number does not say; to the second, as the calendars here have ticks of hours and days.
                    time = self.offset.to_local(run.time).to_string();
                    time.truncate("2026-11-20T13:00:00".len());
                }
                let is_ours = |reading: &Reading| {
                    reading.layout.is_some()
                        && reading.serial == Some(counter % run.capacity)
                        && reading.time.as_ref() == Some(&time)
                };
                let found = readings.any(|reading| is_ours(&reading));
                (text.clone(), found.then_some(text))
            }
            Of::Text | Of::Plain => {
                let runs = Runs::from(minting::run::Run { prefix: run.prefix.clone(), start: counter, len: 1 });
                let text = runs.texts(&CallerParts::default()).pop().unwrap_or_default();
                (text.clone(), Some(text))
            }
        };
        if read_back.as_ref() != Some(&text) {
            self.violated(|| format!("I9 {text} does not read back"));
        }
        let mut hasher = Mixer(text.len() as u64);
        hasher.write(text.as_bytes());
        if !self.texts.insert(hasher.finish()) {
            self.duplicates += 1;
            self.violated(|| format!("the ID {text} came twice, now from {session}"));
        }
    }
}
