//! Mutations of sections: of what masters tell each other of them, and of what they tell their owners.

use super::master::Asked;
use super::mutation::Mutation;
use super::world::World;
use common::sequence::{SectionRange, SectionRecord};
use ledger::lease::{Lives, Reply, Write};
use ledger::section::{Piece, SectionTable, rules};
use wire::peer::PeerMessage;
use wire::ranges::HeldSections;

/// The writes that make a store which holds one table hold another one.
pub(super) fn rewritten(is: &SectionTable, becomes: &SectionTable) -> [Write; 2] {
    let gone = is.stored().map(|(record, _)| record.range.first()).collect();
    let preps = is.preps().map(|prep| prep.range.first()).collect();
    [
        Write::SectionPreps { gone: preps, rows: becomes.preps().collect() },
        Write::Sections { gone, rows: becomes.stored().collect() },
    ]
}

impl World {
    /// Before a message leaves a master.
    pub(super) fn bend_message(&self, mut message: PeerMessage) -> PeerMessage {
        if let PeerMessage::ConfirmSections { records } = &mut message
            && self.mutations.has(Mutation::ConfirmWithoutBound)
        {
            records.iter_mut().for_each(|record| record.max_seq = 0);
        }
        message
    }

    /// Before an agent is answered.
    pub(super) fn bend_reply(&self, m: usize, reply: &mut Reply, asked: Asked) {
        if !self.mutations.has(Mutation::HomeListsAfterPrep) {
            return;
        }
        let (Reply::Keep(Ok(reply)), Asked::Keep(session)) = (reply, asked) else { return };
        let Some(ledger) = &self.masters[m].ledger else { return };
        for SectionRecord { range, .. } in ledger.sections().preps() {
            let pieces = ledger.sections().pieces(&range);
            reply.sections.extend(pieces.filter_map(
                |Piece { range: SectionRange { name, from, to }, held, .. }| {
                    let held = held.filter(|held| held.owner.session == session)?;
                    Some(HeldSections { name, from, to, g: held.g })
                },
            ));
        }
    }

    /// A master that may have forgotten takes the other one's sections over, and adds nothing.
    pub(super) fn merge_only(&mut self, m: usize, records: &[SectionRecord]) {
        let Some(ledger) = &self.masters[m].ledger else { return };
        let mut table = ledger.sections().clone();
        for record in records {
            for Piece { range, held, prep } in ledger.sections().pieces(&record.range) {
                if prep.is_some_and(|prep| record.g >= prep.g) {
                    table.drop_prep(&range);
                }
                table.put(&range, rules::merge(held.as_ref(), record));
            }
        }
        let lives = Write::Lives(Lives { unproven: false, ..ledger.lives().clone() });
        let writes = rewritten(ledger.sections(), &table).into_iter().chain([lives]).collect();
        self.reopen(m, writes, true);
    }
}
