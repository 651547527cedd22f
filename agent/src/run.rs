//! What a request gets: runs of IDs that differ in their serials only.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::gate::Prefix;
use crate::ticks::Numbers;
use common::kind::{Kind, UNIQ64_SERIALS_PER_HOUR, Uniq64, Uniq96};
use common::template::CallerParts;
use std::sync::Arc;

/// Room for a string of the usual length.
pub(crate) const TEXT_LEN_USUAL: usize = 32;

/// IDs of one prefix with consecutive serials.
#[derive(Clone, Debug)]
pub struct Run {
    /// What they have in common.
    pub prefix: Prefix,
    /// The counter of the first one.
    pub start: u64,
    /// How many there are.
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

    /// How many IDs there are.
    pub fn len(&self) -> usize {
        self.iter().map(|run| run.len as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The IDs, if they are Uniq64.
    pub fn uniq64(&self) -> impl Iterator<Item = Uniq64> {
        self.iter().flat_map(|run| {
            let prefix = match run.prefix {
                Prefix::Number { prefix, numbers } if numbers.kind == Kind::Uniq64 => Some(prefix),
                _ => None,
            };
            prefix.into_iter().flat_map(|prefix| run.counters().map(move |counter| uniq64(prefix, counter)))
        })
    }

    /// The IDs, if they are Uniq96.
    pub fn uniq96(&self) -> impl Iterator<Item = Uniq96> {
        self.iter().flat_map(|run| {
            let prefix = match run.prefix {
                Prefix::Uniq96 { prefix } => Some(prefix),
                _ => None,
            };
            prefix.into_iter().flat_map(|prefix| run.counters().map(move |counter| uniq96(prefix, counter)))
        })
    }

    /// The IDs, if they are numbers of a layout.
    pub fn numbers(&self) -> impl Iterator<Item = u128> {
        self.iter().flat_map(|run| {
            let prefix = match &run.prefix {
                Prefix::Ticks { tick, numbers } => Some((*tick, numbers)),
                _ => None,
            };
            let numbers = move |(tick, numbers): (u64, &Arc<Numbers>)| {
                let numbers = Arc::clone(numbers);
                run.counters().map(move |counter| numbers.number(tick, counter))
            };
            prefix.into_iter().flat_map(numbers)
        })
    }

    /// The IDs, if they are plain numbers.
    pub fn plain(&self) -> impl Iterator<Item = u64> {
        self.iter().flat_map(|run| {
            let prefix = match run.prefix {
                Prefix::Plain { first, increment } => Some((first, increment)),
                _ => None,
            };
            prefix.into_iter().flat_map(|(first, increment)| {
                run.counters().map(move |place| crate::gate::plain(first, increment, place))
            })
        })
    }

    /// The IDs in decimal, if they are numbers that no layout makes.
    pub fn decimals(&self) -> impl Iterator<Item = String> {
        let narrow = self.uniq64().map(|id| id.bits()).chain(self.plain()).map(|number| number.to_string());
        narrow.chain(self.uniq96().map(|id| id.bits().to_string()))
    }

    /// The IDs, if they are numbers that an encoding may write: of a layout, or Uniq64.
    pub fn integers(&self) -> impl Iterator<Item = u128> {
        self.iter().flat_map(Run::integers)
    }

    /// [`numbers`](Self::numbers), appended: run by run, which is faster than one by one.
    pub fn numbers_into(&self, all: &mut Vec<u128>) {
        all.reserve(self.len());
        for run in self.iter() {
            if let Prefix::Ticks { tick, numbers } = &run.prefix {
                all.extend(run.counters().map(|counter| numbers.number(*tick, counter)));
            }
        }
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
    /// The IDs, if they are numbers that an encoding may write: of a layout, or Uniq64.
    pub fn integers(&self) -> impl Iterator<Item = u128> {
        self.counters().map_while(|counter| match &self.prefix {
            Prefix::Ticks { tick, numbers } => Some(numbers.number(*tick, counter)),
            Prefix::Number { prefix, numbers } => Some((prefix | counter & numbers.serial_mask).into()),
            Prefix::Void | Prefix::Uniq96 { .. } | Prefix::Text { .. } | Prefix::Plain { .. } => None,
        })
    }

    /// The counters of its IDs.
    pub fn counters(&self) -> std::ops::Range<u64> {
        self.start..self.start.saturating_add(u64::from(self.len))
    }
}

/// The Uniq64 of that prefix and counter: the serial is the counter modulo what an hour has.
#[inline]
pub fn uniq64(prefix: u64, counter: u64) -> Uniq64 {
    Uniq64::from_bits(prefix | (counter & (UNIQ64_SERIALS_PER_HOUR - 1)))
}

/// The numbers of `len` counters from `start` on, as stretches of consecutive ones: the first of each, and how many. The
/// serial begins again at 0 where the counter passes what a unit of time has, at most once for as many as a request may ask
/// for.
#[inline]
pub fn stretches(prefix: u64, serial_mask: u64, start: u64, len: u32) -> impl Iterator<Item = (u64, u32)> {
    let left = serial_mask - (start & serial_mask) + 1;
    let first = len.min(u32::try_from(left).unwrap_or(u32::MAX));
    let stretch = |start, len| (prefix | (start & serial_mask), len);
    let stretches = [stretch(start, first), stretch(start + u64::from(first), len - first)];
    stretches.into_iter().filter(|(_, n)| *n > 0)
}

/// The Uniq96 of that prefix and counter; a window gives no counter that is not a serial.
#[inline]
pub fn uniq96(prefix: u64, counter: u64) -> Uniq96 {
    Uniq96::with_serial(prefix, (counter & u64::from(u32::MAX)) as u32)
}
