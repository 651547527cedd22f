//! Plain numbers: segments that masters granted, durable before they are used, and in each a mark below which numbers are given.
//!
//! No lease and no clock stands before them. What is durable of them is in the lineage file, which has those of all names: names
//! that need a write at the same time share one.

use super::serials::Part;
use super::series::Series;
use super::{Effects, Engine, Refilled, broken};
use ids::namespace::{GeneratorName, Namespace};
use ids::segment::{SegmentDefinition, Shown};
use ids::setting::NAMESPACES_MAX;
use ids::time::{SpanMs, WallMs};
use minting::gate::{Layout, Prefix};
use minting::refusal::Refusal;
use minting::run::{Run, Runs};
use minting::segments::{Plan, Record, Segments, bucket_of};
use minting::window::Window;
use serial_file::{HeldSegments, Holdings};
use std::collections::BTreeSet;
use wire::ranges::SegmentGrant;

/// The interval at which it is looked whether a resumed session is confirmed.
const CONFIRMATION_POLL: SpanMs = SpanMs(20);
/// Numbers need no clock: a window of them is never over.
const ALWAYS: WallMs = WallMs(i64::MAX);

/// The outcome of a call for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOutcome {
    /// These places.
    Granted(SegmentGrant),
    /// Nothing that helps; it may be asked again.
    Failed,
    /// All masters say that the axis has ended.
    Ended,
}

impl Series {
    fn plain(&mut self) -> Option<(&SegmentDefinition, &mut Segments)> {
        match (&self.layout, &mut self.segments) {
            (Layout::Plain(definition), Some(segments)) => Some((definition, segments)),
            _ => None,
        }
    }
}

impl Engine {
    /// Without a second segment of each name; see [`Segments::alone`]. For names that are added from now on.
    pub fn fetch_one_segment(&mut self) {
        self.one_segment = true;
    }

    /// The segments of a name that is added: those that are durable, if it gives such numbers.
    pub(super) fn segments_for(&self, namespace: &Namespace) -> Option<Segments> {
        let definition = namespace.segments()?;
        let held = self.holdings.segments.get(namespace.name()).and_then(|held| held.of(definition));
        let mut record = held.cloned().unwrap_or_default();
        if self.segments_given_up {
            record.held.clear();
        }
        Some(Segments::resume(*definition, &record).alone(self.one_segment))
    }

    fn segments(&mut self, at: usize) -> Result<(&SegmentDefinition, &mut Segments), Refusal> {
        self.series.get_mut(at).and_then(Series::plain).ok_or_else(broken)
    }

    /// The end of all places that were ever granted, by series, of those that were granted something.
    pub fn segments_seen(&self) -> Vec<(usize, Shown)> {
        let seen = |series: &Series| Some(series.segments.as_ref()?.durable().seen).filter(|seen| seen.to > 0);
        self.series.iter().enumerate().filter_map(|(at, series)| Some((at, seen(series)?))).collect()
    }

    /// Takes the outcome of a call for a segment. It may be used once [`tend`](Self::tend) has made it durable.
    pub fn answered(&mut self, at: usize, call: u64, answer: SegmentOutcome) {
        let Ok((_, segments)) = self.segments(at) else { return };
        match answer {
            SegmentOutcome::Granted(grant) => segments.granted(call, grant),
            SegmentOutcome::Failed => segments.failed(call),
            SegmentOutcome::Ended => segments.end(call),
        }
    }

    /// Takes a part of a window back. Before anything else is done for its series: once the next segment is in use, it is its taker's.
    pub fn give_back(&mut self, effects: &mut impl Effects, at: usize, part: Option<Part>) -> Option<Part> {
        let part = part?;
        self.recall(effects, at);
        let Ok((_, segments)) = self.segments(at) else { return Some(part) };
        let fits = segments.put_back(part.bucket, &part.serials);
        (!fits).then_some(part)
    }

    /// Gives `n` numbers, at least 1, of which `part` were taken before, and opens a window with what is marked beyond them.
    ///
    /// # Errors
    /// Any [`Refusal`]; then no number was given.
    pub fn refill_segment(
        &mut self,
        effects: &mut impl Effects,
        at: usize,
        part: Option<Part>,
        n: u32,
    ) -> Result<Refilled, Refusal> {
        if let Some(wrong) = self.published.wrong_cluster() {
            return Err(wrong);
        }
        if let Some(left) = self.confirmation_left(effects) {
            return Ok(Refilled::WaitFor(left));
        }
        self.recall(effects, at);
        let (_, segments) = self.segments(at)?;
        if u64::from(n) > segments.batch_max() {
            return Err(Refusal::BadParameter(format!(
                "n: at most {} by this name at once: it has no more numbers, or no more are held, as its segments have up to so many (step_max)",
                segments.batch_max()
            )));
        }
        // First, so that a refusal costs nothing. If others were taken above them, they are ours to use.
        let part = self.give_back(effects, at, part);
        let missing = n - part.as_ref().map_or(0, |part| u32::try_from(part.len()).unwrap_or(n).min(n));
        let provided = self.provide(effects, at, missing.into());
        let taken = match provided {
            Ok(true) => self.taken(effects, at, missing).map(Some),
            Ok(false) => Ok(None),
            Err(refusal) => Err(refusal),
        };
        self.lend(effects, at);
        let Some(taken) = taken? else { return Ok(Refilled::Pending(part)) };
        let mut runs = Runs::default();
        if let Some(Part { prefix, serials, .. }) = part {
            runs.push(Run { prefix, start: serials.start, len: n - missing });
        }
        taken.into_iter().for_each(|run| runs.push(run));
        Ok(Refilled::Runs(runs))
    }

    /// The time that numbers of a resumed session still wait: until a master has renewed a lease of it, as IDs do, or none has answered for as
    /// long as that takes. A second copy of the file, which the file system does not tell from the first, is denied there, before
    /// it gave a number.
    fn confirmation_left(&mut self, effects: &impl Effects) -> Option<SpanMs> {
        if self.unconfirmed.is_empty() {
            return None;
        }
        let left = self.published.confirmation_left(&self.unconfirmed, effects.real_boot());
        if left.is_none() {
            self.unconfirmed.clear();
        }
        left.map(|left| left.min(CONFIRMATION_POLL))
    }

    /// Makes durable what it takes to give `n` numbers; `false` if a segment has to come first.
    fn provide(&mut self, effects: &mut impl Effects, at: usize, n: u64) -> Result<bool, Refusal> {
        let now = effects.real_boot();
        let (definition, segments) = self.segments(at)?;
        match segments.plan(n, now) {
            Plan::Ready => Ok(true),
            Plan::Write(record) => self.write_records(effects, vec![(at, record)]).map(|()| true),
            Plan::Pending => Ok(false),
            Plan::Ended => Err(Refusal::AxisEnded { numbers: definition.axis().len(), left: segments.left() }),
        }
    }

    /// Takes `n` numbers that are there, as runs of one segment each.
    fn taken(&mut self, effects: &impl Effects, at: usize, n: u32) -> Result<Vec<Run>, Refusal> {
        let now = effects.real_boot();
        let (definition, segments) = self.segments(at)?;
        let (mut runs, mut missing) = (Vec::new(), n);
        while missing > 0 {
            let lent = segments.take(missing.into(), now);
            let len = u32::try_from(lent.places.end - lent.places.start).unwrap_or(missing).min(missing);
            if len == 0 {
                return Err(broken());
            }
            runs.push(Run { prefix: prefix(definition, lent.first), start: lent.places.start, len });
            missing -= len;
        }
        Ok(runs)
    }

    /// Makes durable in advance what these series need soon, in one write for all of them, and lengthens their windows by it.
    ///
    /// # Errors
    /// If it cannot be written; the windows go on to their ends then.
    pub fn tend(&mut self, effects: &mut impl Effects, series: impl IntoIterator<Item = usize>) -> Result<(), Refusal> {
        let (now, mut records) = (effects.real_boot(), Vec::new());
        for at in series {
            self.recall(effects, at);
            // A name may have ended meanwhile.
            if let Ok((_, segments)) = self.segments(at) {
                records.extend(segments.plan_ahead(now).map(|record| (at, record)));
                self.lend(effects, at);
            }
        }
        // One that there is no room for keeps no other one from its marks. Whoever mints by it is told.
        let mut room = NAMESPACES_MAX.saturating_sub(self.holdings.segments.len());
        records.retain(|(at, _)| {
            let is_new = !self.holds(*at);
            let fits = !is_new || room > 0;
            room = room.saturating_sub(usize::from(is_new));
            fits
        });
        let written: Vec<usize> = records.iter().map(|(at, _)| *at).collect();
        self.write_records(effects, records)?;
        for at in written {
            self.recall(effects, at);
            self.lend(effects, at);
        }
        Ok(())
    }

    /// Tells whether something durable is there of the name of that series.
    fn holds(&self, at: usize) -> bool {
        self.series.get(at).is_some_and(|series| self.holdings.segments.contains_key(series.namespace.name()))
    }

    /// Makes these records durable, all or none.
    fn write_records(&mut self, effects: &mut impl Effects, records: Vec<(usize, Record)>) -> Result<(), Refusal> {
        if records.is_empty() {
            return Ok(());
        }
        self.may_write(effects)?;
        let mut holdings = self.held();
        for (at, record) in &records {
            let series = self.series.get(*at).ok_or_else(broken)?;
            let definition = series.namespace.segments().ok_or_else(broken)?;
            holdings.segments.insert(series.namespace.name().clone(), HeldSegments::new(definition, record.clone()));
        }
        if holdings.segments.len() > NAMESPACES_MAX {
            // Those that were retired while this process did not run are among what it never met. Of others this costs a gap.
            let living = self.series.iter().filter(|series| series.segments.is_some());
            let met: BTreeSet<&GeneratorName> = living.map(|series| series.namespace.name()).collect();
            holdings.segments.retain(|name, _| met.contains(name));
        }
        if holdings.segments.len() > NAMESPACES_MAX {
            return Err(Refusal::Overloaded("this agent holds segments of as many names as may live; ask another one"));
        }
        self.write_holdings(effects, holdings)?;
        let now = effects.real_boot();
        for (at, record) in records {
            self.segments(at)?.1.commit(record, now);
        }
        Ok(())
    }

    /// Closes the window of a series and takes back what is left of it. Blocks that were cut from it stay good: they need neither
    /// lease nor clock.
    fn recall(&mut self, effects: &mut impl Effects, at: usize) {
        if let Some(series) = self.series.get_mut(at) {
            let (bucket, rest) = effects.interrupt(at);
            series.put_back(bucket, rest);
        }
    }

    /// Opens a window with all that is marked of the segment in use. Before that it is seen whether the next one is needed.
    fn lend(&mut self, effects: &mut impl Effects, at: usize) {
        if self.ended || self.published.wrong_cluster().is_some() || self.confirmation_left(effects).is_some() {
            return;
        }
        let now = effects.real_boot();
        let Ok((definition, segments)) = self.segments(at) else { return };
        let ask = segments.ask();
        let lent = segments.take(u64::MAX, now);
        let window = Window::open(prefix(definition, lent.first), bucket_of(lent.ordinal), lent.places, ALWAYS);
        effects.open(at, window.told_at(segments.tell_at()));
        if let Some(ask) = ask {
            effects.ask(at, ask);
        }
    }

    /// The holdings that a clean stop leaves. Every window was closed.
    pub(super) fn holdings_at_rest(&self) -> Holdings {
        let mut holdings = self.held();
        for series in &self.series {
            if let (Some(segments), Some(definition)) = (&series.segments, series.namespace.segments()) {
                let record = segments.at_rest();
                if record == Record::default() {
                    continue;
                }
                holdings.segments.insert(series.namespace.name().clone(), HeldSegments::new(definition, record));
            }
        }
        holdings
    }

    /// Gives up all segments: a gap. They are not continued from this moment on, and no longer durable after the next write.
    pub(super) fn give_up_segments(&mut self) {
        self.series.iter_mut().filter_map(|series| series.segments.as_mut()).for_each(Segments::drop_all);
        self.segments_given_up = true;
        // What is left to wait for is numbers that are granted from now on, to this one alone.
        self.unconfirmed.clear();
    }

    /// No more numbers by this series' name, and its segments are dropped. The window was closed.
    pub fn end_segments(&mut self, at: usize) {
        if let Some(series) = self.series.get_mut(at)
            && series.segments.take().is_some()
        {
            // With the next write, whatever that is for: by the next start the masters say that the name has ended.
            self.holdings.segments.remove(series.namespace.name());
        }
    }
}

fn prefix(definition: &SegmentDefinition, first: u64) -> Prefix {
    Prefix::Plain { first: definition.number(first), increment: definition.increment() }
}
