//! Sections of sequences: who serves which keys, and how far their numbers may have been given.
//!
//! # States
//!
//! A section is *absent* (never given to anybody), or has a record `{ g, owner, max_seq }` at both masters. Its *home*, by its name, may have
//! a proposal of the next owner beside it:
//!
//! ```text
//!   home:   absent/record g --prep {g+1, B, max_seq}--> (prep) --Confirm {max_seq}--> record g+1
//!   other:  absent/record g --------Propose-----------> record g+1
//! ```
//!
//! Sections beside each other that are alike are one *row* of the table, one record of the store and one part of a message, however many
//! they are. The rules hold for each section by itself: a row splits where one of its sections changes, and neighbours that are alike again
//! are one row. So whatever a master hears of a range it takes in by the pieces that its own table has of it, and answers by pieces.
//!
//! An *allocator* is an agent that serves sections. It asks both masters for the list of its sections every third of `--sequence-lease` (N),
//! and serves a section until N after it sent the last such call that was answered with it. The next owner waits N and a little from the
//! answer that first listed the section for it.
//!
//! # Guarantees
//!
//! * A number that is given is not above a `max_seq` that was durable at a master before: an allocator gives only below what a raise was
//!   answered with, and a master answers after the commit.
//! * No number of a key is given twice, whatever clocks do and whichever of the two disks is put back. Whoever begins to serve a section
//!   begins above everything that anybody before it can have given. If both are put back, that is so of all that was raised by the
//!   allowance at most since, and of all else whose last owner runs and shows within 90 s what both have forgotten.
//! * As long as clock rates are within 1 % and no living master is declared lost, an answer for a key is greater than each answer before
//!   its question. Only the order needs clocks.
//!
//! # What keeps them
//!
//! Each of these is there because a number came twice or out of order without it, in a walk through all states:
//!
//! | rule | kept by |
//! |---|---|
//! | only the home proposes | [`rules::home`], asked by `Ledger::givable` and `Ledger::on_propose_sections` |
//! | from the prep on the home lists the section for nobody and raises it for nobody | [`SectionTable::listed`], `Ledger::raise_piece` |
//! | a prep is never dropped, but for a record that is newer | `Ledger::take_section` |
//! | it is durable before it is sent; a record before it is confirmed | the driver, which commits before it sends |
//! | Confirm carries `max_seq`, and the home takes the larger one | `Ledger::on_propose_sections`, `Ledger::on_confirm_sections` |
//! | a Confirm drops the proposal of the sections that it names, and of no others | `Ledger::on_confirm_sections`, `Ledger::take_section` |
//! | a doubled Propose merges again and is confirmed again | `Ledger::on_propose_sections` |
//! | merges take the larger `max_seq`, whatever the owner | [`rules::merge`] |
//! | a raise needs the session and the `g` of the record | `Ledger::raise_piece` |
//! | `to <= peer_has + L` | [`rules::bound`] |
//! | `peer_has` is what the other's messages of this pairing and start said, never what was sent | [`SectionTable::note_peer_has`], `Ledger::admit` |
//! | a start that is not proven answers no keep, raise or Propose before it has read all pages and proposals | `Ledger::may_serve_sections`, `asks_for_consent` |
//! | and holds then at least L more than the other one, or than itself where the other knows nothing | `Ledger::on_section_page` |
//! | a raise says where the bound was, and an owner that is below it goes on from there | `Ledger::raise_piece`, agents' `SectionState::raised` |
//! | an owner that both ledgers have forgotten proves it by a receipt, and they freeze | `Ledger::compare_section_receipt` |
//! | while such owners may come, no section is given to anybody, nor raised | `Agreement::may_give_sections`, `Ledger::on_raise` |
//! | `--peer-lost` adds L everywhere, and proposals become records | [`declare_lost`](crate::replication::join::declare_lost) |
//! | each call raises by L at most while a replacement is awaited, without an end until the first page is cut; then the cut + L | `Ledger::raise_bound` |
//!
//! # Caveats, and what they cost
//!
//! * While one master is away sections stay with their owners, and each is raised by L at most. A section whose proposal is open then is
//!   served by nobody until the other one is back or declared lost.
//! * A master that was declared lost and lives can raise within what was added, and its numbers are skipped by everybody else; but it
//!   still lists sections for agents that reach it alone, until it hears that it is replaced: their numbers do not come in order.
//! * Both disks put back to before a section moved, and nobody alive who can show it: its former owner goes on L above what the disks say. A
//!   section that neither knows begins at the first number, whatever was given of it.
//! * An agent that stood still together with its clock serves on until its next answered keep; until its span ends by that clock, if both
//!   masters began another run meanwhile, by whose clocks it cannot tell.
//! * A survivor whose own store is not proven serves no sections and lets nobody join: it alone knew how far it had raised them.

pub mod allocators;
mod map;
pub mod placement;
pub mod rules;
mod table;

pub use allocators::Allocators;
pub use map::{ChangedRows, SectionMap};
pub use table::{ChangedRecords, Piece, SectionTable};

use ids::lease::Generation;
use ids::sequence::{SECTION_LEN, SectionOwner, SectionRange, SectionRecord, SequenceDefinition, is_step_cheap};
use std::sync::Arc;

/// Rows of records and proposals of all names. With as many no further section is given to anybody, and none is raised that would split a row.
pub const SECTIONS_MAX: usize = 262_144;
/// Of those, so many may be of one name: nobody who uses up one keeps all others from getting any.
pub const SECTIONS_OF_NAME_MAX: usize = SECTIONS_MAX / 4;
/// Rows of proposals of one master that are open at once.
pub const PREPS_MAX: usize = 4_096;
/// Memory that a key takes at an allocator, in bytes.
pub const KEY_LEN: u64 = 8;

/// A section that was given to somebody, with what the other master holds of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldSection {
    /// The owner's number.
    pub g: Generation,
    /// The owner of the section.
    pub owner: Arc<SectionOwner>,
    /// No number above it was given.
    pub max_seq: u64,
    /// The bound that the other master said that it holds. On disk it may be less than in memory.
    pub peer_has: u64,
}

impl HeldSection {
    /// As the other master hears it.
    pub fn record(&self, range: SectionRange) -> SectionRecord {
        SectionRecord { range, g: self.g, owner: SectionOwner::clone(&self.owner), max_seq: self.max_seq }
    }
}

/// The owner of a section, or the one that its home proposes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owned {
    /// The number of its owner, now or to come.
    pub g: Generation,
    /// The owner, now or to come.
    pub owner: Arc<SectionOwner>,
    /// No number above it was given; of a proposal when it was made, as far as the home knew.
    pub max_seq: u64,
}

impl Owned {
    /// As the other master hears it.
    pub fn record(&self, range: SectionRange) -> SectionRecord {
        SectionRecord { range, g: self.g, owner: SectionOwner::clone(&self.owner), max_seq: self.max_seq }
    }
}

/// The terms of a name's sections, by its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// By how much a bound grows at a time.
    pub step: u64,
    /// The first number of a key.
    pub first: u64,
    /// The last number.
    pub last: u64,
    /// The distance that one master may raise a section beyond what it knows of the other one.
    pub allowance: u64,
    /// The number of sections.
    pub sections: u32,
    /// Memory that a section takes, in bytes.
    pub weight: u64,
}

impl From<&SequenceDefinition> for Terms {
    fn from(definition: &SequenceDefinition) -> Self {
        Self {
            step: definition.step().into(),
            first: definition.first(),
            last: definition.width().last(),
            allowance: definition.solo_allowance(),
            sections: definition.sections(),
            weight: u64::from(definition.keys_per_section()).saturating_mul(KEY_LEN).saturating_add(SECTION_LEN as u64),
        }
    }
}

impl Terms {
    /// Those of a name of which nothing is known here, though sections of it are: the widest.
    pub const UNKNOWN: Self =
        Self { step: 1, first: 1, last: (1 << 63) - 1, allowance: 1 << 59, sections: u32::MAX, weight: u64::MAX };

    /// The distance within which bounds of sections that are moved together become the `greatest` of them, in numbers: what that skips at most.
    pub fn joined_within(&self, greatest: u64) -> u64 {
        let cheap = greatest < self.last && is_step_cheap(self.step, self.last, self.allowance);
        if cheap { self.step } else { 0 }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ids::parameters::{AgentId, SessionId};
    use ids::sequence::{Section, SectionKey, SequenceSpec, ServedAt};
    use wire::ranges::KeepRequest;

    pub(crate) fn terms(step: u64, allowance: u64, last: u64) -> Terms {
        Terms { step, first: 1, last, allowance, sections: 100, weight: 800 }
    }

    pub(crate) fn key(name: &str, section: u32) -> SectionKey {
        SectionKey { name: name.parse().unwrap(), section: Section(section) }
    }

    fn agent(session: u128) -> AgentId {
        format!("agent-{session}").parse().unwrap()
    }

    pub(crate) fn address(session: u128) -> ServedAt {
        ServedAt { http: format!("10.0.0.{session}:6200"), rpc: format!("10.0.0.{session}:6201") }
    }

    pub(crate) fn owner(session: u128) -> SectionOwner {
        SectionOwner { session: SessionId(session), agent_id: agent(session), address: address(session) }
    }

    pub(crate) fn held(g: u64, session: u128, max_seq: u64, peer_has: u64) -> HeldSection {
        HeldSection { g: Generation(g), owner: Arc::new(owner(session)), max_seq, peer_has }
    }

    pub(crate) fn record(name: &str, section: u32, g: u64, session: u64, max_seq: u64) -> SectionRecord {
        SectionRecord { range: (&key(name, section)).into(), g: Generation(g), owner: owner(session.into()), max_seq }
    }

    pub(crate) fn keep(session: u128, memory: u64) -> KeepRequest {
        KeepRequest {
            agent_id: agent(session),
            session: SessionId(session),
            holder: SessionId(session),
            cluster: None,
            address: address(session),
            sets: vec!["default".parse().unwrap()],
            memory,
            used: 0,
            per_second: 0,
            leaves: false,
            after: None,
            only: Vec::new(),
            receipts: Vec::new(),
        }
    }

    #[test]
    fn terms_are_those_of_the_definition() {
        let narrow = SequenceSpec { width: Some(32), keys_per_section: Some(1_000), ..SequenceSpec::default() };
        let terms = Terms::from(&SequenceDefinition::new(&narrow).unwrap());
        assert_eq!((terms.step, terms.last, terms.allowance), (10_000, u32::MAX.into(), 1 << 20));
        assert_eq!((terms.sections, terms.weight), (4_294_968, 8_256));
        let wide = SequenceDefinition::new(&SequenceSpec::default()).unwrap();
        assert!(Terms::UNKNOWN.allowance >= wide.width().last() / 16, "no definition has a larger one");
    }
}
