//! Segments: granted by this master alone, out of extents that both masters hold as its own.
//!
//! An *extent* is a change of ownership, agreed on like a setting: it belongs to one run of one master, and extents of an axis never
//! overlap. A *segment* is a part of an extent, and belongs to one session of one agent. What is left of an extent is durable before the
//! answer leaves, so no later step of this run grants the same again; a later run has no part in it ([`crate::lease::cursor`]). Nothing is
//! remembered of who asked: each call gets a further segment, and an answer that is lost is a gap.
//!
//! While the other master is away this one goes on with the extents it has: about as much as both grant in the solo span.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::{Effects, Reply, RequestId};
use common::namespace::GeneratorName;
use common::rpc::lease::Refusal;
use common::rpc::ranges::SegmentRequest;
use common::segment::{STEP_LIMIT, Span};
use common::setting::{Change, SettingKey};
use common::time::Now;

/// Calls for segments that wait for an extent at once; one more is refused.
const WAITING_MAX: usize = 16_384;
/// Axes of which extents are asked for at one beat.
const ASKED_MAX: usize = 256;
/// A master takes no more than this part of what an axis has left, so that the other one gets some, too.
const PART_OF_REST: u64 = 4;

impl<A> Ledger<A>
where
    Self: Agreement,
{
    pub(super) fn on_segment(&mut self, now: Now, id: RequestId, request: &SegmentRequest, fx: &mut Effects) {
        let (name, wanted) = (&request.name, request.wanted.clamp(1, STEP_LIMIT));
        let may = self.may_give_numbers(request).and_then(|()| self.compare_seen(request, fx));
        if let Err(refusal) = may {
            return fx.reply(id, Reply::Segment(Err(refusal)));
        }
        if request.wanted == 0 {
            return fx.reply(id, Reply::Segment(Ok(Span { from: 0, to: 0 })));
        }
        self.cursors.asked(name, wanted, now.boot);
        if let Some(segment) = self.take_segment(now, name, wanted, fx) {
            fx.reply(id, Reply::Segment(Ok(segment)));
            return self.ask_for_extent(now, name, fx);
        }
        let refused = self.may_wait_for_numbers(now, name);
        if let Err(refusal) = refused {
            return fx.reply(id, Reply::Segment(Err(refusal)));
        }
        self.segments.wait(now, id, (name.clone(), wanted));
        self.ask_for_extent(now, name, fx);
    }

    fn may_give_numbers(&self, request: &SegmentRequest) -> Result<(), Refusal> {
        self.same_cluster(request.cluster)?;
        self.serves()?;
        if self.caution.reverted {
            return Err(Refusal::Reverted);
        }
        let key = SettingKey::Namespace(request.name.clone());
        if self.settings_table.get(&key).is_some_and(|setting| setting.value.is_retired()) {
            return Err(Refusal::NameRetired);
        }
        self.settings_table.axis(&request.name).map(drop).ok_or(Refusal::NoSuchName)
    }

    /// Both masters hold an extent before anybody is given a part of it. So whoever was given places beyond all that is granted or
    /// proposed was given them by ledgers that have forgotten it since, and would grant them to others.
    ///
    /// No proof is asked for, unlike for a lease that both have forgotten: whoever may ask for segments can use an axis up as well as
    /// stop it, and of others it stops nothing.
    fn compare_seen(&mut self, request: &SegmentRequest, fx: &mut Effects) -> Result<(), Refusal> {
        self.note_shown(&request.name, request.seen, fx);
        self.has_forgotten(&request.name).map_or(Ok(()), Err)
    }

    /// Whether a further extent can be had.
    fn may_wait_for_numbers(&self, now: Now, name: &GeneratorName) -> Result<(), Refusal> {
        if self.settings_table.axis(name).is_some_and(|(definition, axis)| axis.granted >= definition.axis().to) {
            return Err(Refusal::AxisEnded { name: name.clone() });
        }
        self.policy().may_name()?;
        if self.may_extend(now).is_err() {
            return Err(Refusal::NoNumbers { name: name.clone() });
        }
        if self.segments.waiting() >= WAITING_MAX { Err(Refusal::Overloaded) } else { Ok(()) }
    }

    /// A segment; what is left is durable before anybody hears of it.
    fn take_segment(&mut self, now: Now, name: &GeneratorName, wanted: u32, fx: &mut Effects) -> Option<Span> {
        let segment = self.cursors.take(name, wanted, now.boot)?;
        self.write_cursor(name, fx);
        Some(segment)
    }

    /// Asks for a further extent if less is left than this master wants to have at least, and it was not asked for just now.
    fn ask_for_extent(&mut self, now: Now, name: &GeneratorName, fx: &mut Effects) {
        let Some((wanted, least)) = self.cursors.lacks(name, now.boot) else { return };
        let Some((definition, axis)) = self.settings_table.axis(name) else { return };
        let rest = definition.axis().to.saturating_sub(axis.granted);
        let waits_for_leave =
            self.may_extend(now).is_err() || self.policy().may_name().is_err() || self.has_forgotten(name).is_some();
        if rest == 0 || waits_for_leave || self.segments.resend(now, 1, std::iter::once(name.clone())).is_empty() {
            return;
        }
        let change = Change::Extend {
            name: name.clone(),
            granted: axis.granted,
            master: self.identity.master,
            run: self.cursors.run(),
            wanted: wanted.min(rest / PART_OF_REST).max(least).max(1),
        };
        self.extend(now, &change, fx);
    }

    /// What came of axes in this step: whoever waits is answered if there are numbers now, and if not, they are asked for again. What was
    /// asked for before may have come too late, by how far the axis was granted then.
    pub(super) fn on_axes_changed(&mut self, now: Now, fx: &mut Effects) {
        for name in std::mem::take(&mut self.axes_changed) {
            self.segments.over(&name);
            let waits = self.segments.wishes().filter(|(_, (of, _))| *of == name);
            let waits: Vec<_> = waits.map(|(id, (_, wanted))| (*id, *wanted)).collect();
            for (id, wanted) in waits {
                if let Some(refusal) = self.has_forgotten(&name) {
                    self.segments.answered(id..=id);
                    fx.reply(id, Reply::Segment(Err(refusal)));
                    continue;
                }
                let Some(segment) = self.take_segment(now, &name, wanted, fx) else { break };
                self.segments.answered(id..=id);
                fx.reply(id, Reply::Segment(Ok(segment)));
            }
            self.ask_for_extent(now, &name, fx);
        }
    }

    /// At each beat: ask for the extents that are wanted, and give up on those who waited too long.
    pub(super) fn press_segments(&mut self, now: Now, fx: &mut Effects) {
        // Those that have ended lack for ever, and would keep others from their turn.
        let goes_on = |name: &GeneratorName| {
            self.settings_table.axis(name).is_some_and(|(definition, axis)| axis.granted < definition.axis().to)
        };
        let names = self.cursors.iter().map(|(name, _)| name).filter(|name| goes_on(name));
        let lacking = names.filter(|name| self.cursors.lacks(name, now.boot).is_some());
        for name in lacking.take(ASKED_MAX).cloned().collect::<Vec<_>>() {
            self.ask_for_extent(now, &name, fx);
        }
        for id in self.segments.give_up(now) {
            fx.reply(id, Reply::Segment(Err(Refusal::Retry)));
        }
    }
}
