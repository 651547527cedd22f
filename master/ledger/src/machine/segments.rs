//! Segments: granted by this master alone, out of extents that both masters hold as its own.
//!
//! An *extent* is a change of ownership, agreed on like a setting: it belongs to one run of one master, and extents of an axis never
//! overlap. A *segment* is a part of an extent, and belongs to one session of one agent. What is left of an extent is durable before the
//! answer leaves, so no later step of this run grants the same again; a later run has no part in it ([`crate::lease::cursor`]). Nothing is
//! remembered of who asked: each call gets a further segment, and an answer that is lost is a gap.
//!
//! While the other master is away this one goes on with the extents it has: about as much as both grant in the solo span.

use super::agreement::Agreement;
use super::state::{Ledger, SegmentWish};
use crate::lease::receipt::{places_were_granted, proof_of_places};
use crate::lease::{Effects, Reply, RequestId};
use ids::namespace::GeneratorName;
use ids::segment::SegmentDefinition;
use ids::setting::{Change, SettingKey, SettingValue};
use ids::time::Now;
use wire::lease::Refusal;
use wire::ranges::{SegmentGrant, SegmentRequest};

/// Calls for segments that wait for an extent at once; one more is refused.
const WAITING_MAX: usize = 16_384;
/// Axes of which extents are asked for at one beat.
const ASKED_MAX: usize = 256;
/// Divisor of what an axis has left: a master takes no more than this part, so that the other one gets some, too.
const PART_OF_REST: u64 = 4;

impl<A> Ledger<A>
where
    Self: Agreement,
{
    pub(super) fn on_segment(
        &mut self,
        now: Now,
        id: RequestId,
        request: &SegmentRequest,
        address: &str,
        fx: &mut Effects,
    ) {
        let granted = self.grant_segment(now, id, request, address, fx);
        let asks = granted.is_ok() && request.wanted > 0;
        if let Some(reply) = granted.transpose() {
            fx.reply(id, Reply::Segment(reply));
        }
        if asks {
            self.ask_for_extent(now, &request.name, fx);
        }
    }

    /// A segment, or nothing if the call waits for an extent from now on.
    fn grant_segment(
        &mut self,
        now: Now,
        id: RequestId,
        request: &SegmentRequest,
        address: &str,
        fx: &mut Effects,
    ) -> Result<Option<SegmentGrant>, Refusal> {
        let name = &request.name;
        let definition = self.may_give_numbers(request)?;
        self.compare_seen(request, fx)?;
        if request.wanted == 0 {
            return Ok(Some(SegmentGrant::default()));
        }
        let asker = (request.session, self.table.usage().limits().network(address));
        self.takings.left(name, &definition, asker, now.boot)?;
        let wanted = request.wanted.min(definition.steps().1);
        self.cursors.asked(name, wanted, now.boot);
        let wish = SegmentWish { name: name.clone(), wanted, asker };
        if let Some(segment) = self.take_segment(now, &wish, fx)? {
            return Ok(Some(segment));
        }
        self.may_wait_for_numbers(now, name)?;
        self.segments.wait(now, id, wish);
        Ok(None)
    }

    fn may_give_numbers(&self, request: &SegmentRequest) -> Result<SegmentDefinition, Refusal> {
        self.same_cluster(request.cluster)?;
        self.serves()?;
        if self.caution.reverted {
            return Err(Refusal::Reverted);
        }
        let key = SettingKey::Namespace(request.name.clone());
        let value = self.settings_table.get(&key).map(|setting| &setting.value);
        if value.is_some_and(SettingValue::is_retired) {
            return Err(Refusal::NameRetired);
        }
        value.and_then(SettingValue::used).ok_or(Refusal::NoSuchName)?;
        self.settings_table.axis(&request.name).map(|(definition, _)| definition).ok_or(Refusal::NoSuchName)
    }

    /// Compares the places that an agent can prove it was given with what this ledger knows. Both masters hold an extent before anybody is
    /// given a part of it. So whoever was given places beyond all that is granted or proposed was given them by ledgers that have
    /// forgotten it since, and would grant them to others.
    ///
    /// The agent is believed by its proof alone, as a lease that both have forgotten: else a stranger stops a name with one call. The session may
    /// have no lease that these ledgers know of, for they may be older than it.
    fn compare_seen(&mut self, request: &SegmentRequest, fx: &mut Effects) -> Result<(), Refusal> {
        let SegmentRequest { name, seen, .. } = request;
        // Nearly always so; a proof costs more than a look.
        let known = self.settings_table.known_of_axis(name).is_none_or(|known| seen.to <= known);
        let pairings = self.identity.epoch.iter().chain(self.identity.former.iter().rev());
        if !known && places_were_granted(pairings, name, seen) {
            self.note_shown(name, seen.to, fx);
        }
        self.has_forgotten(name).map_or(Ok(()), Err)
    }

    /// Tells whether a further extent can be had.
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

    /// A segment, if there are places; what is left is durable before anybody hears of it.
    fn take_segment(
        &mut self,
        now: Now,
        wish: &SegmentWish,
        fx: &mut Effects,
    ) -> Result<Option<SegmentGrant>, Refusal> {
        let SegmentWish { name, wanted, asker } = wish;
        let Some((definition, _)) = self.settings_table.axis(name) else { return Err(Refusal::NoSuchName) };
        let left = self.takings.left(name, &definition, *asker, now.boot)?;
        let wanted = u32::try_from(left).unwrap_or(u32::MAX).min(*wanted);
        let Some(span) = self.cursors.take(name, wanted, now.boot) else { return Ok(None) };
        self.takings.take(name, &definition, *asker, span.len());
        self.write_cursor(name, fx);
        self.tell_first_use(now, name, fx);
        let proof = self.identity.epoch.and_then(|pairing| proof_of_places(pairing, name, span.to));
        Ok(Some(SegmentGrant { span, proof }))
    }

    /// Asks for a further extent if less is left than this master wants to have at least, and it was not asked for just now.
    pub(super) fn ask_for_extent(&mut self, now: Now, name: &GeneratorName, fx: &mut Effects) {
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

    /// Answers whoever waits if there are numbers now, after axes changed in this step; if not, asks for them again. An extent that was
    /// asked for before may have come too late, by how far the axis was granted then.
    pub(super) fn on_axes_changed(&mut self, now: Now, fx: &mut Effects) {
        for name in std::mem::take(&mut self.axes_changed) {
            self.segments.over(&name);
            let waits = self.segments.wishes().filter(|(_, wish)| wish.name == name);
            let waits: Vec<_> = waits.map(|(id, wish)| (*id, wish.clone())).collect();
            for (id, wish) in waits {
                let granted = match self.has_forgotten(&name) {
                    Some(refusal) => Err(refusal),
                    None => self.take_segment(now, &wish, fx),
                };
                let Some(reply) = granted.transpose() else { break };
                self.segments.answered(id..=id);
                fx.reply(id, Reply::Segment(reply));
            }
            self.ask_for_extent(now, &name, fx);
        }
    }

    /// Asks at each beat for the extents that are wanted, and gives up on those who waited too long.
    pub(super) fn retry_segments(&mut self, now: Now, fx: &mut Effects) {
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
