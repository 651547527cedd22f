//! IDs with a serial of their series: the gates, the durable bounds, a new window. In this order.

use super::series::Series;
use super::{Effects, Engine, broken, complete};
use ids::namespace::SHARED_MIN;
use ids::time::WallMs;
use minting::gate::{Bucket, Layout, Prefix};
use minting::refusal::Refusal;
use minting::run::{Run, Runs};
use minting::segments::View;
use minting::serial::Plan;
use minting::window::{Take, Window};
use std::ops::Range;

/// The last serials of a window, fewer than were asked for.
#[derive(Clone, Debug)]
pub struct Part {
    pub(super) prefix: Prefix,
    pub(super) bucket: u32,
    pub(super) serials: Range<u64>,
}

impl From<Part> for Run {
    fn from(Part { prefix, serials, .. }: Part) -> Self {
        // No more than one request may ask for.
        let len = u32::try_from(serials.end - serials.start).unwrap_or(u32::MAX);
        Self { prefix, start: serials.start, len }
    }
}

impl Part {
    /// The number of serials these are.
    pub fn len(&self) -> u64 {
        self.serials.end - self.serials.start
    }

    /// Tells whether there are none; a window gives no such part.
    pub fn is_empty(&self) -> bool {
        self.serials.is_empty()
    }
}

/// The outcome of taking from an open window.
#[derive(Debug)]
pub enum TakenSerials {
    /// All that was asked for; `half_used`: it is time to [`reserve`](Engine::reserve) more.
    All {
        /// The IDs.
        run: Run,
        /// This used up half of the window.
        half_used: bool,
    },
    /// Not enough.
    Some(Part),
    /// Nothing: used up, or its time is over.
    None,
    /// Nothing: it was closed. There may be a new one already.
    Closed,
}

/// `n` IDs of an open window; the short way to an ID.
#[inline]
pub fn take(window: &Window<Prefix>, n: u32, wall: WallMs) -> TakenSerials {
    match window.take(n, wall) {
        Take::All { start, half_used } => {
            TakenSerials::All { run: Run { prefix: window.prefix.clone(), start, len: n }, half_used }
        }
        Take::Some(serials) => {
            TakenSerials::Some(Part { prefix: window.prefix.clone(), bucket: window.bucket, serials })
        }
        Take::None => TakenSerials::None,
        Take::Closed => TakenSerials::Closed,
    }
}

impl Engine {
    pub(super) fn series_mut(&mut self, at: usize) -> Result<&mut Series, Refusal> {
        self.series.get_mut(at).ok_or_else(broken)
    }

    /// The number of serials that a series has reserved at once at the moment, the first that nobody has, and how many are left in
    /// the bucket of `wall`. `lent` are those that a window still has.
    ///
    /// # Errors
    /// If there is no such series.
    pub fn serial_view(&self, at: usize, wall: WallMs, lent: u64) -> Result<SerialView, Refusal> {
        let Series { layout, serial, segments, .. } = self.series.get(at).ok_or_else(broken)?;
        if let (Some(segments), Layout::Plain(definition)) = (segments, layout) {
            let view = segments.view(lent);
            let next = view.current.map_or(0, |span| definition.number(span.from));
            return Ok(SerialView { next, step: view.step, capacity_left: view.left, segments: Some(view) });
        }
        let offset = self.published.membership.parameters.map(|parameters| parameters.utc_offset());
        let bucket = layout.bucket_at(offset.unwrap_or_default(), wall);
        let kept = if bucket > serial.bucket() { 0 } else { lent };
        Ok(SerialView {
            next: serial.next().saturating_sub(lent),
            step: serial.marks().step,
            capacity_left: serial.capacity_left(bucket).saturating_add(kept),
            segments: None,
        })
    }

    /// The bucket of `wall` and what is left in it, if `n` more reach into what callers have in shares. `lent` are those that a window still
    /// has.
    ///
    /// # Errors
    /// If there is no such series.
    pub fn left_to_share(&self, at: usize, wall: WallMs, lent: u64, n: u32) -> Result<Option<(u32, u64)>, Refusal> {
        let series = self.series.get(at).ok_or_else(broken)?;
        let reserve = self.reserve_of(series);
        let left = self.serial_view(at, wall, lent)?.capacity_left;
        let offset = self.published.membership.parameters.map(|parameters| parameters.utc_offset());
        let bucket = series.layout.bucket_at(offset.unwrap_or_default(), wall).max(series.serial.bucket());
        Ok((left < reserve.saturating_add(n.into()) && reserve > 0).then_some((bucket, left)))
    }

    /// The number of a bucket's last serials that callers have in shares.
    fn reserve_of(&self, series: &Series) -> u64 {
        let capacity = series.layout.rules(false).capacity;
        if capacity < SHARED_MIN { 0 } else { capacity / 100 * u64::from(self.reserved_percent) }
    }

    /// The hour, day or tick of a series' last IDs; 0 if it has given none.
    pub fn bucket_of(&self, at: usize) -> u32 {
        self.series.get(at).map_or(0, |series| series.serial.bucket())
    }

    /// Gives `n` IDs, at least 1, of which `part` were taken before, and opens a window with what is there beyond them.
    ///
    /// # Errors
    /// Any [`Refusal`]; then no ID was given.
    pub fn refill(
        &mut self,
        effects: &mut impl Effects,
        at: usize,
        part: Option<Part>,
        n: u32,
    ) -> Result<Runs, Refusal> {
        self.take_back(effects, at)?;
        let series = self.series_mut(at)?;
        // Given back first, so that a refusal costs nothing. If others were taken above them, they are ours to use.
        let part = part.filter(|part| !series.serial.put_back(part.bucket, part.serials.clone()));
        let (last, layout, token_type) =
            (series.serial.bucket(), series.layout.clone(), series.namespace.token_type().ok_or_else(broken)?);
        let (lease, offset) = self.lease(effects, token_type)?;
        // A name that gave nothing yet, as far as the file knows, may have had a block that is another's now.
        let last = if last == 0 { layout.bucket_at(offset, self.contents.header.names_from) } else { last };
        let bucket = layout.gate(offset, &lease, last, effects.wall()).map_err(|e| complete(effects, e))?;
        let prefix = layout.prefix(offset, &lease, &bucket, &self.random)?;
        let mut missing = n;
        if let Some(part) = &part {
            missing -= u32::try_from(part.len()).unwrap_or(n).min(n);
        }
        let (unit, capacity) = (layout.unit().name(), layout.rules(false).capacity);
        let taken = match u64::from(n) > capacity {
            true => {
                Err(Refusal::BadParameter(format!("n: at most {capacity} by this name at once: no {unit} has more")))
            }
            false => self.take_durably(effects, at, &bucket, missing),
        };
        self.open_rest(effects, at, &bucket, &prefix)?;
        let taken = match taken {
            Ok(taken) => taken,
            Err(mut refusal) => {
                if let (Refusal::SerialExhausted { left, .. }, Some(part)) = (&mut refusal, &part)
                    && part.bucket == bucket.number()
                {
                    *left = part.len().max(*left);
                }
                self.keep_part(at, part);
                let series = self.series_mut(at)?;
                let spare = match &refusal {
                    Refusal::SerialExhausted { .. } => series.take_spare(bucket.number(), n),
                    _ => None,
                };
                // Of this bucket, and given to nobody under any token.
                let start = spare.ok_or(refusal)?;
                return Ok(Run { prefix, start, len: n }.into());
            }
        };
        let mut runs = Runs::default();
        if let Some(Part { prefix, serials, .. }) = part {
            runs.push(Run { prefix, start: serials.start, len: n - missing });
        }
        runs.push(Run { prefix, start: taken.start, len: missing });
        Ok(runs)
    }

    /// Keeps what was taken for a call that is refused, for one that comes when nothing else is left.
    pub fn keep_part(&mut self, at: usize, part: Option<Part>) {
        if let (Some(series), Some(part)) = (self.series.get_mut(at), part) {
            series.keep_spare(part.bucket, part.serials);
        }
    }

    /// `n` serials of the bucket, durable.
    fn take_durably(
        &mut self,
        effects: &mut impl Effects,
        at: usize,
        bucket: &Bucket,
        n: u32,
    ) -> Result<Range<u64>, Refusal> {
        let series = self.series_mut(at)?;
        match series.serial.plan(bucket.number(), n, effects.real_boot()) {
            Plan::Ready => {}
            Plan::Write(marks) => self.write_marks(effects, at, marks)?,
            Plan::Exhausted => {
                let (unit, capacity) = (series.layout.unit().name(), series.layout.rules(false).capacity);
                let left = series.left(bucket.number());
                let retry = bucket.end() - effects.wall();
                return Err(Refusal::SerialExhausted { unit, capacity, left, retry });
            }
        }
        Ok(self.series_mut(at)?.serial.take(n))
    }

    /// Opens a window with all that is there of the bucket, if the bucket is durable and the file still ours.
    fn open_rest(
        &mut self,
        effects: &mut impl Effects,
        at: usize,
        bucket: &Bucket,
        prefix: &Prefix,
    ) -> Result<(), Refusal> {
        let ended = self.ended;
        let reserve = self.series.get(at).map_or(0, |series| self.reserve_of(series));
        let serial = &mut self.series_mut(at)?.serial;
        if serial.bucket() == bucket.number() && !ended {
            let window = Window::open(prefix.clone(), bucket.number(), serial.lend(), bucket.valid_until());
            effects.open(at, window.shared(serial.shared(reserve)));
        }
        Ok(())
    }

    /// Makes the next step durable while the window is half full, and lengthens the window by it.
    ///
    /// # Errors
    /// If it cannot be written; the window goes on to its end then.
    pub fn reserve(&mut self, effects: &mut impl Effects, at: usize) -> Result<(), Refusal> {
        if !effects.is_open(at) {
            return Ok(());
        }
        let Some(marks) = self.series_mut(at)?.serial.plan_reserve(effects.real_boot()) else { return Ok(()) };
        self.write_marks(effects, at, marks)?;
        let (bucket, rest) = effects.interrupt(at);
        let serial = &mut self.series_mut(at)?.serial;
        if serial.put_back(bucket, rest) {
            effects.lengthen(at, serial.lend());
        }
        Ok(())
    }

    /// Closes a series' window and takes back what is left of it.
    ///
    /// # Errors
    /// If there is no such series.
    pub fn take_back(&mut self, effects: &mut impl Effects, at: usize) -> Result<(), Refusal> {
        let series = self.series_mut(at)?;
        let (bucket, rest) = effects.close(at);
        series.put_back(bucket, rest);
        Ok(())
    }

    /// Closes every window. What is left in them is taken back.
    pub(crate) fn close_all(&mut self, effects: &mut impl Effects) {
        // Those of ticks have none of their own.
        for (at, series) in self.series.iter_mut().enumerate().filter(|(_, series)| series.axis.is_none()) {
            let (bucket, rest) = effects.close(at);
            series.put_back(bucket, rest);
        }
        self.close_axes(effects);
    }
}

/// The point that a series has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialView {
    /// The counter of the next ID.
    pub next: u64,
    /// The number of serials that are reserved at once at the moment.
    pub step: u32,
    /// The number of IDs its token still has in the bucket, or how many numbers are left in its segments.
    pub capacity_left: u64,
    /// Of plain numbers: its segments.
    pub segments: Option<View>,
}
