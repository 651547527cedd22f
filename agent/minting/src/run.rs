//! The IDs that a request gets: runs of IDs that differ in their serials only.

use crate::gate::{Prefix, plain};
use ids::layout::Stretch;
use ids::template::CallerParts;
use wire::mint::MintedNumbers;

/// Room for a string of the usual length.
pub const TEXT_LEN_USUAL: usize = 32;

/// IDs of one prefix with consecutive serials.
#[derive(Clone, Debug)]
pub struct Run {
    /// The part that they share.
    pub prefix: Prefix,
    /// The counter of the first one.
    pub start: u64,
    /// The number of IDs.
    pub len: u32,
}

/// All IDs of one request, in their order. Most requests get one run; those that came to the end of a window get two.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    first: Option<Run>,
    more: Vec<Run>,
}

impl Runs {
    /// Adds a run behind the others.
    pub fn push(&mut self, run: Run) {
        if self.first.is_none() {
            self.first = Some(run);
        } else {
            self.more.push(run);
        }
    }

    /// Takes the first up to `n` IDs out, as far as they are of one run.
    pub fn take(&mut self, n: u32) -> Option<Run> {
        let first = self.first.as_mut()?;
        if first.len > n {
            let taken = Run { len: n, ..first.clone() };
            (first.start, first.len) = (first.start + u64::from(n), first.len - n);
            return Some(taken);
        }
        let next = if self.more.is_empty() { None } else { Some(self.more.remove(0)) };
        std::mem::replace(&mut self.first, next)
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.first.iter().chain(&self.more)
    }

    /// The number of IDs.
    pub fn len(&self) -> usize {
        self.iter().map(|run| run.len as usize).sum()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The IDs, if they are numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u128> {
        self.iter().flat_map(Run::stretches).flat_map(Stretch::numbers)
    }

    /// [`numbers`](Self::numbers), appended: stretch by stretch, which is faster than one by one.
    pub fn numbers_into(&self, all: &mut Vec<u128>) {
        all.reserve(self.len());
        self.iter().flat_map(Run::stretches).for_each(|stretch| all.extend(stretch.numbers()));
    }

    /// The same of numbers that have at most 64 bits.
    pub fn narrow_into(&self, all: &mut Vec<u64>) {
        all.reserve(self.len());
        self.iter().flat_map(Run::stretches).for_each(|stretch| all.extend(stretch.narrow()));
    }

    /// [`numbers`](Self::numbers) for a caller elsewhere: narrow ones, if none can have more than 64 bits.
    pub fn minted(&self) -> MintedNumbers {
        if self.iter().all(|run| !matches!(&run.prefix, Prefix::Number(numbers) if !numbers.fit_64_bits())) {
            let mut all = Vec::new();
            self.narrow_into(&mut all);
            return MintedNumbers::Narrow(all);
        }
        let mut all = Vec::new();
        self.numbers_into(&mut all);
        MintedNumbers::Wide(all)
    }

    /// The IDs, if they are strings, with the caller's parts in them.
    pub fn texts(&self, caller: &CallerParts) -> Vec<String> {
        let mut texts = Vec::with_capacity(self.len());
        for run in self.iter() {
            let Prefix::Text { bound, capacity } = &run.prefix else { continue };
            for counter in run.counters() {
                let mut text = Vec::with_capacity(TEXT_LEN_USUAL);
                bound.write(caller, counter % capacity, &mut text);
                texts.push(String::from_utf8(text).unwrap_or_default());
            }
        }
        texts
    }
}

impl From<Run> for Runs {
    fn from(run: Run) -> Self {
        Self { first: Some(run), more: Vec::new() }
    }
}

impl Run {
    /// The IDs, if they are numbers, as those that are equally far from each other.
    #[inline]
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> {
        let (mut next, mut left) = (self.start, self.len);
        std::iter::from_fn(move || {
            let stretch = if left > 0 { self.stretch(next, left)? } else { return None };
            (next, left) = (next + u64::from(stretch.n), left - stretch.n);
            Some(stretch)
        })
    }

    /// The first of up to `n` numbers from that counter on that are equally far from each other.
    #[inline]
    pub fn stretch(&self, counter: u64, n: u32) -> Option<Stretch> {
        match &self.prefix {
            Prefix::Void | Prefix::Text { .. } => None,
            Prefix::Number(numbers) => Some(numbers.stretch(counter, n)),
            Prefix::Plain { first, increment } => {
                Some(Stretch { first: plain(*first, *increment, counter).into(), step: *increment, n })
            }
        }
    }

    /// The counters of its IDs.
    pub fn counters(&self) -> std::ops::Range<u64> {
        self.start..self.start.saturating_add(u64::from(self.len))
    }
}
