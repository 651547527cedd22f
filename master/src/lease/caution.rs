//! A start that cannot prove that its store is the one it last wrote: the machine was rebooted, or the disk was copied or put
//! back.
//!
//! Such a master may have renewed leases alone after what it remembers, and neither it nor the other one knows how far.
//! Both know the bound: the other's permit. So before such a master promises, ends or grants anything, the other one lifts
//! every open lease to what it permitted, and the table that it hands over shows it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::event::{Alarm, Effects, Write};
use super::ledger::Ledger;
use common::audit::{Action, Actor, Entry};
use common::lease::{Caution, Floor, Lease, LeaseState, Prep};
use common::rpc::lease::{Mode, Refusal};
use common::rpc::peer::Memory;
use common::time::{Now, SpanMs, WallMs};
use common::token::TokenKey;

/// After a meeting of two masters neither of which can prove its store, agents have this long to show what they hold before
/// anything is granted: longer than an agent waits between two heartbeats, and until it tries a lost connection again.
pub const QUIET: SpanMs = SpanMs::seconds(90);

/// Why a store is not proven to be the untouched one that its master last wrote. It may be all the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unproven {
    /// Written by a version that kept no lineage, or the lineage was removed.
    #[error("it has no lineage: an older version wrote it, or the file `lineage` was removed")]
    Missing,
    /// The lineage is not to be believed.
    #[error("its lineage is not to be believed: {0}")]
    Damaged(String),
    /// The machine was started since, or it is another one.
    #[error("the machine was rebooted since, or it is another one")]
    Rebooted,
    /// The anchor is another file.
    #[error("it is a copy, or was put back from one")]
    Copied,
    /// The anchor was touched.
    #[error("it was touched since its master last wrote it: put back in place, linked, or its mode or owner changed")]
    Touched,
    /// Anchor and lineage are of different commits.
    #[error("a part of it was put back: its anchor and its lineage are of different commits")]
    Mixed,
    /// An earlier start was not proven, and has not met the other master since.
    #[error("an earlier start of it was not proven, and it has not met the other master since")]
    NotMetSince,
}

/// The open ones of `leases` that end before `bound`, lifted to it.
pub(super) fn lifted<'a>(
    leases: impl Iterator<Item = (TokenKey, &'a Lease)>,
    bound: Option<WallMs>,
) -> Vec<(TokenKey, Lease)> {
    let Some(until) = bound else { return Vec::new() };
    let short = |lease: &Lease| lease.state != LeaseState::Closed && lease.until < until;
    leases.filter(|(_, lease)| short(lease)).map(|(key, lease)| (key, Lease { until, ..lease.clone() })).collect()
}

impl Ledger {
    /// Whether this start could not prove its store, and has not met the other master yet.
    pub(crate) fn unmet(&self) -> bool {
        self.pair.unproven().is_some()
    }

    /// What this master remembers, for the other one.
    pub(crate) fn memory(&self) -> Memory {
        Memory { permitted: self.observed.permit_in, unmet: self.unmet(), floor: self.caution.floor }
    }

    /// The other master says that it may have renewed leases that nobody knows of: none of them ends before what it was
    /// permitted, nor does what it may have confirmed and answered before it forgot. Durable before it is handed the table.
    pub(crate) fn lift_what_was_permitted(&mut self, now: Now, fx: &mut Effects) {
        if self.unmet() {
            self.begin_quiet(now, fx);
        }
        let Some(until) = self.permit_out else { return };
        let short = |prep: &&Prep| prep.until < until;
        let preps: Vec<Prep> = self.table.preps().filter(short).cloned().collect();
        for prep in preps {
            let prep = Prep { until, ..prep };
            fx.writes.push(Write::Prep(prep.clone()));
            self.table.put_prep(prep);
        }
        for (key, lease) in lifted(self.table.leases(), Some(until)) {
            self.put_lease(key, lease, fx);
        }
    }

    /// At the meeting: what the other one remembers and this one may have forgotten.
    pub(super) fn remember(&mut self, now: Now, exchange: u64, theirs: &Memory, fx: &mut Effects) {
        if !self.pair.exchanges(exchange) {
            return;
        }
        if self.unmet() {
            // What was permitted bounds what the other one may have promised.
            if theirs.permitted > self.permit_out {
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
        self.quiet_since = now.boot;
        self.put_caution(Caution { quiet: true, ..self.caution }, fx);
    }

    /// At each beat: the agents have had time to show what they hold.
    pub(super) fn end_quiet(&mut self, now: Now, fx: &mut Effects) {
        let met = self.mode() == Mode::Ready && self.pair.heard(now);
        if !met {
            self.quiet_since = now.boot;
        } else if self.caution.quiet && now.boot - self.quiet_since >= QUIET {
            self.put_caution(Caution { quiet: false, ..self.caution }, fx);
        }
    }

    /// Both ledgers were put back: nothing is granted any more, across restarts.
    pub(super) fn on_reverted(&mut self, alarm: Alarm, fx: &mut Effects) {
        if !self.caution.reverted {
            let actor = Actor::master(self.identity.master);
            let (subject, detail) = ("both ledgers", alarm.to_string());
            fx.writes.push(Write::Audit(Entry::new(fx.at, actor, Action::Reverted, subject, &detail)));
            fx.alarms.push(alarm);
            self.put_caution(Caution { reverted: true, ..self.caution }, fx);
        }
    }

    /// Whether anything may be granted, as far as this master's own past is concerned.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn may_promise(&self, now: Now) -> Result<(), Refusal> {
        if self.caution.reverted {
            return Err(Refusal::Reverted);
        }
        if self.caution.quiet {
            return Err(Refusal::Quiet);
        }
        match self.caution.floor {
            Some(Floor { until, above: None }) if self.identity.parameters.utc_offset().day_floor(now.wall) < until => {
                Err(Refusal::NotBefore { until })
            }
            _ => Ok(()),
        }
    }

    /// Whether the floor lets `key` be granted from `from` on.
    pub(super) fn above_floor(&self, key: TokenKey, from: WallMs) -> bool {
        self.caution.floor.is_none_or(|floor| floor.allows(key.value, from))
    }

    /// Why nothing can be granted although the other master is there, with the remedy; for the operator.
    pub fn held_back(&self, now: Now) -> Option<String> {
        let promise = self.may_promise(now).err().map(|refusal| refusal.to_string());
        promise.or_else(|| self.wrong_clock(now))
    }
}
