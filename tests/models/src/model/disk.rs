//! The part of a master's disk that leases are kept in.

use crate::kit::node::{self, Part};
use common::lease::{Lease, Prep};
use common::time::WallMs;
use common::token::TokenKey;
use ledger::Ledger;
use ledger::lease::{Lives, Loaded, Write};
use std::collections::BTreeMap;
use wire::lease::Mode;
use wire::peer::PeerMessage;

pub(super) type Disk = node::Disk<Leases>;
pub(super) type Node = node::Node<Leases>;
pub(super) type Stepped = node::Stepped<Leases>;

/// All of it. The model has no settings, axes and sections, and the audit decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Leases {
    pub(super) permit_out: Option<WallMs>,
    pub(super) leases: BTreeMap<TokenKey, Lease>,
    pub(super) preps: BTreeMap<TokenKey, Prep>,
}

/// Nothing of the starts.
pub(super) fn no_starts(unproven: bool) -> Lives {
    Lives { unproven, ..Lives::default() }
}

impl Part for Leases {
    const STARTS: bool = false;

    fn load(&self, loaded: &mut Loaded) {
        loaded.leases = self.leases.iter().map(|(key, lease)| (*key, lease.clone())).collect();
        loaded.preps = self.preps.values().cloned().collect();
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::Lease(key, lease) => drop(self.leases.insert(*key, lease.clone())),
            Write::Prep(prep) => drop(self.preps.insert(prep.key, prep.clone())),
            Write::DropPrep(key) => drop(self.preps.remove(key)),
            Write::PermitOut(permit) => self.permit_out = *permit,
            _ => {}
        }
    }

    fn differs_from(&self, ledger: &Ledger) -> Option<&'static str> {
        let table = ledger.table();
        let same = ledger.permit_out() == self.permit_out
            && table.leases().eq(self.leases.iter().map(|(key, lease)| (*key, lease)))
            && table.preps().eq(self.preps.values());
        (!same).then_some("leases")
    }

    fn plain(&mut self) {
        self.leases.values_mut().for_each(plain);
    }

    fn permit_out(&self) -> Option<WallMs> {
        self.permit_out
    }

    /// Without what is for operators' eyes and what only makes a receiver more careful.
    fn posted(message: PeerMessage) -> Option<PeerMessage> {
        Some(match message {
            // Greetings are steps of their own.
            PeerMessage::Hello(_) | PeerMessage::Pull { .. } => return None,
            PeerMessage::Ask { .. }
            | PeerMessage::NoneFree { .. }
            | PeerMessage::SegmentsUsed { .. }
            | PeerMessage::NumbersShown { .. } => return None,
            PeerMessage::Heartbeat { permit, .. } => heartbeat(permit),
            PeerMessage::Sync { mut records, .. } => {
                records.iter_mut().for_each(|(_, lease)| plain(lease));
                PeerMessage::Sync { records, by: None }
            }
            mut other => {
                match &mut other {
                    PeerMessage::Page { records, .. } => records.iter_mut().for_each(|(_, lease)| plain(lease)),
                    PeerMessage::Reject { record, .. } => record.iter_mut().for_each(plain),
                    _ => {}
                }
                other
            }
        })
    }
}

pub(super) fn plain(lease: &mut Lease) {
    lease.renewed = lease.granted;
}

/// One that says nothing but how far the other master may go alone.
pub(crate) fn heartbeat(permit: Option<WallMs>) -> PeerMessage {
    let wall = WallMs(0);
    PeerMessage::Heartbeat { lsn: 0, wall, mode: Mode::Ready, permit, steady: true, read: wall, reverted: false }
}
