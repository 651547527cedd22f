//! The serials of one generator: what is durable, what is free, and when more must be made durable.
//!
//! The serial is one counter that runs on through the buckets; an ID carries it modulo the capacity. A bucket begins at
//! its base, so serials of one bucket differ as long as they lie in `[base, base + capacity)`. Nothing is given out
//! above the durable mark, and a bucket with its base is durable before its first ID.

use ids::namespace::Namespace;
use ids::sequence::Width;
use ids::time::{BootMs, SpanMs};
use std::ops::Range;

/// The largest step; a crash loses at most this many serials and what was reserved before. The 64th part of what an hour
/// of Uniq64 has, which an application that mints in its own process can use up in 0.1 s.
pub const STEP_MAX: u32 = 1 << 25;
/// Of the last IDs of a bucket one caller has at most this part of what is left.
pub const SHARE_PARTS: u64 = 16;
/// Of the numbers of a key that an hour has, one of so many parts is given to whoever asks; of the rest each caller has a
/// [part](SHARE_PARTS) of what is left.
pub const OPEN_PART: u64 = 4;
/// A reserve that lasted less than this doubles the step.
pub const STEP_TOO_SHORT: SpanMs = SpanMs::seconds(10);
/// A reserve that lasted longer than this halves it.
pub const STEP_TOO_LONG: SpanMs = SpanMs::seconds(60);

/// Numbers of a key by which one caller can bring its section forward within an hour, at most; `None`: as many as there are.
pub fn caller_per_hour(width: Width) -> Option<u64> {
    let all = width.per_hour()?;
    let open = all / OPEN_PART;
    Some(open + (all - open) / SHARE_PARTS)
}

/// The durable state of a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// The hour, day or tick of its last IDs.
    pub bucket: u32,
    /// The serial at which that bucket began.
    pub base: u64,
    /// Every serial below it may be in use.
    pub mark: u64,
    /// The number of serials that are reserved at once.
    pub step: u32,
}

/// The rules of the serials of a kind of ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// IDs that one token has in one bucket, at least 1.
    pub capacity: u64,
    /// Buckets in a day: 24 or 1.
    pub buckets_per_day: u32,
    /// True if the serial starts at 0 when the day grows.
    pub everyday_reset: bool,
}

/// The step that must happen before `n` serials of a bucket can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    Ready,
    /// These must become durable first.
    Write(Marks),
    /// The bucket has not that many left.
    Exhausted,
}

/// The serials of one generator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Serial {
    rules: Rules,
    durable: Marks,
    /// The first that nobody has. Those lent to a window count as given away until they are put back.
    next: u64,
    /// The instant at which the last reserve was made, on the machine's own time.
    reserved: Option<BootMs>,
}

impl Rules {
    fn clamp_step(&self, step: u32) -> u32 {
        let (min, max) = Namespace::step_bounds(self.capacity, STEP_MAX);
        step.clamp(min, max)
    }

    fn day(&self, bucket: u32) -> u32 {
        bucket / self.buckets_per_day.max(1)
    }
}

impl Serial {
    /// Goes on where `durable` says: at the mark, because every serial below it may be in use.
    pub fn resume(rules: Rules, durable: Marks) -> Self {
        Self { rules, durable, next: durable.mark, reserved: None }
    }

    /// The last bucket.
    pub fn bucket(&self) -> u32 {
        self.durable.bucket
    }

    /// The durable marks.
    pub fn marks(&self) -> Marks {
        self.durable
    }

    /// The first serial that nobody has.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The number of IDs `bucket` can still have, apart from those lent out.
    pub fn capacity_left(&self, bucket: u32) -> u64 {
        if bucket > self.durable.bucket {
            return self.rules.capacity;
        }
        self.limit(self.durable.base).saturating_sub(self.next)
    }

    fn limit(&self, base: u64) -> u64 {
        base.saturating_add(self.rules.capacity)
    }

    /// The serials of the last bucket that callers have in shares, if those are the last `reserve` of it.
    pub fn shared(&self, reserve: u64) -> Range<u64> {
        let end = self.limit(self.durable.base);
        match reserve {
            0 => u64::MAX..u64::MAX,
            _ => end.saturating_sub(reserve)..end,
        }
    }

    /// The end of what may be given out now.
    fn end(&self) -> u64 {
        self.durable.mark.min(self.limit(self.durable.base))
    }

    /// Tells what it takes to give out `n` serials of `bucket`, which must not be before the last one. All serials must have been put back before.
    pub fn plan(&self, bucket: u32, n: u32, now: BootMs) -> Plan {
        let grows = bucket > self.durable.bucket;
        let restarts = self.rules.everyday_reset && self.rules.day(bucket) > self.rules.day(self.durable.bucket);
        let next = if restarts { 0 } else { self.next };
        let base = if grows { next } else { self.durable.base };
        let n = u64::from(n);
        let (Some(wanted), limit) = (next.checked_add(n), self.limit(base)) else { return Plan::Exhausted };
        if wanted > limit {
            return Plan::Exhausted;
        }
        if !grows && wanted <= self.durable.mark {
            return Plan::Ready;
        }
        let step = if grows { self.rules.clamp_step(self.durable.step) } else { self.adapted_step(now) };
        let kept = if restarts { 0 } else { self.durable.mark };
        let mark = next.saturating_add(u64::from(step).max(n)).max(kept).min(limit);
        Plan::Write(Marks { bucket: bucket.max(self.durable.bucket), base, mark, step })
    }

    /// Gives the marks to make durable so that the next step is there before this one is used up; `None` if the bucket has no more. Serials may be
    /// lent out meanwhile.
    pub fn plan_reserve(&self, now: BootMs) -> Option<Marks> {
        let step = self.adapted_step(now);
        let mark = self.durable.mark.saturating_add(u64::from(step)).min(self.limit(self.durable.base));
        (mark > self.durable.mark).then_some(Marks { mark, step, ..self.durable })
    }

    /// A step that will last for about ten seconds to a minute, going by how long the last one lasted.
    fn adapted_step(&self, now: BootMs) -> u32 {
        let step = self.durable.step;
        self.rules.clamp_step(match self.reserved.map(|then| now - then) {
            Some(lasted) if lasted < STEP_TOO_SHORT => step.saturating_mul(2),
            Some(lasted) if lasted > STEP_TOO_LONG => step / 2,
            _ => step,
        })
    }

    /// `marks`, which came from a plan, have become durable.
    pub fn commit(&mut self, marks: Marks, now: BootMs) {
        if marks.bucket > self.durable.bucket {
            self.next = marks.base;
        }
        self.durable = marks;
        self.reserved = Some(now);
    }

    /// Takes up to `n` serials of the last bucket.
    pub fn take(&mut self, n: u32) -> Range<u64> {
        let start = self.next;
        self.next = start.saturating_add(u64::from(n)).min(self.end()).max(start);
        start..self.next
    }

    /// Takes all that are there, for a window.
    pub fn lend(&mut self) -> Range<u64> {
        let start = self.next;
        self.next = self.end().max(start);
        start..self.next
    }

    /// Takes back serials that nobody used, if they are the last ones that were given out of `bucket`; otherwise they
    /// are gone, as nothing may be given out below the rest.
    pub fn put_back(&mut self, bucket: u32, serials: Range<u64>) -> bool {
        let fits = bucket == self.durable.bucket && serials.end == self.next && serials.start >= self.durable.base;
        if fits && serials.start < serials.end {
            self.next = serials.start;
        }
        fits
    }

    /// The marks that say exactly what is in use, for a clean stop. All serials must have been put back before.
    pub fn marks_at_rest(&self) -> Marks {
        Marks { mark: self.next.min(self.durable.mark), ..self.durable }
    }
}

#[cfg(test)]
#[path = "serial_tests.rs"]
mod tests;
