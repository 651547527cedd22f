//! A start that cannot prove that its store is the one it last wrote: the machine was rebooted, or the disk was copied or put
//! back.
//!
//! Such a master may have renewed leases alone after what it remembers, and neither it nor the other one knows how far.
//! Both know the bound: the other's permit. So before such a master promises, ends or grants anything, the other one lifts
//! every open lease to what it permitted, and the table that it hands over shows it.

use super::Pairwise;
use crate::lease::Effects;
use crate::machine::state::Ledger;
use crate::replication::rules;
use ids::lease::{Caution, Prep};
use ids::time::{Now, SpanMs};
use wire::lease::Mode;
use wire::peer::Memory;
use wire::ranges::SECTION_LEASE_MAX_S;

/// Time that agents have, after a meeting of two masters neither of which can prove its store, to show what they hold before anything is
/// granted: longer than an agent waits between two heartbeats, and until it tries a lost connection again.
const QUIET: SpanMs = SpanMs::seconds(90);
// An owner of sections that both masters forgot begins to show receipts a third of a lease after its lease ended, its clock 3 % slower.
const _: () = assert!(QUIET.0 >= 1_000 * SECTION_LEASE_MAX_S as i64 * 137 / 100);

impl Ledger<Pairwise> {
    /// This master's memory, for the other one.
    pub(super) fn memory(&self) -> Memory {
        Memory { permitted: self.agreement.observed.permit_in, unmet: self.unmet(), floor: self.caution.floor }
    }

    /// Lifts leases when the other master says that it may have renewed some that nobody knows of: none of them ends before what it was
    /// permitted, nor does what it may have confirmed and answered before it forgot. Durable before it is handed the table.
    pub(super) fn lift_what_was_permitted(&mut self, now: Now, fx: &mut Effects) {
        if self.unmet() {
            self.begin_quiet(now, fx);
        }
        let Some(until) = self.agreement.permit_out else { return };
        let short = |prep: &&Prep| prep.until < until;
        let preps: Vec<Prep> = self.table.preps().filter(short).cloned().collect();
        for prep in preps {
            self.put_prep(Prep { until, ..prep }, fx);
        }
        for (key, lease) in rules::lifted(self.table.leases(), Some(until)) {
            self.put_lease(key, lease, fx);
        }
    }

    /// Takes over, at the meeting, what the other one remembers and this one may have forgotten.
    pub(super) fn remember(&mut self, now: Now, exchange: u64, theirs: &Memory, fx: &mut Effects) {
        if !self.agreement.pair.exchanges(exchange) {
            return;
        }
        if self.unmet() {
            // What was permitted bounds what the other one may have promised.
            if theirs.permitted > self.agreement.permit_out {
                self.put_permit_out(theirs.permitted, fx);
            }
            if theirs.unmet {
                self.begin_quiet(now, fx);
            }
        }
        let floor = match (self.caution.floor, theirs.floor) {
            (Some(mine), Some(theirs)) => Some(mine.stricter(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.put_caution(Caution { floor, ..self.caution }, fx);
    }

    fn begin_quiet(&mut self, now: Now, fx: &mut Effects) {
        self.agreement.quiet_since = now.boot;
        self.put_caution(Caution { quiet: true, ..self.caution }, fx);
    }

    /// Ends the quiet time at a beat: the agents have had time to show what they hold, to both, or to the one that an operator left.
    pub(crate) fn end_quiet(&mut self, now: Now, fx: &mut Effects) {
        let met = self.mode() == Mode::Ready && self.agreement.pair.heard(now);
        let alone = self.mode() == Mode::ReadyAlone && self.identity.awaiting.is_some();
        if !met && !alone {
            self.agreement.quiet_since = now.boot;
        } else if self.caution.quiet && now.boot - self.agreement.quiet_since >= QUIET {
            self.put_caution(Caution { quiet: false, ..self.caution }, fx);
        }
    }
}
