//! What a mutation does to sections: to what masters tell each other of them, and to what they tell their owners.

use super::master::Asked;
use super::mutation::Mutation;
use super::world::World;
use common::rpc::peer::PeerMessage;
use common::rpc::ranges::HeldSections;
use common::sequence::{Section, SectionRecord};
use master::lease::{Lives, Reply, Write};
use master::section::rules;

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
        for SectionRecord { key, .. } in ledger.sections().preps() {
            let held = ledger.sections().get(&key).filter(|held| held.owner.session == session);
            reply.sections.extend(held.map(|held| HeldSections {
                name: key.name.clone(),
                from: key.section,
                to: Section(key.section.0 + 1),
                g: held.g,
                fresh: None,
            }));
        }
    }

    /// A master that may have forgotten takes the other one's sections over, and adds nothing.
    pub(super) fn merge_only(&mut self, m: usize, records: &[SectionRecord]) {
        let Some(ledger) = &self.masters[m].ledger else { return };
        let preps = ledger
            .sections()
            .preps()
            .filter(|prep| records.iter().any(|record| record.key == prep.key && record.g >= prep.g));
        let overtaken: Vec<Write> = preps.map(|prep| Write::DropSectionPrep(prep.key)).collect();
        let merged = records.iter().map(|record| {
            let merged = rules::merge(ledger.sections().get(&record.key), record);
            let held = merged.peer_has;
            Write::Section(merged.record(record.key.clone()), held)
        });
        let lives = Lives { unproven: false, ..ledger.lives().clone() };
        let writes = overtaken.into_iter().chain(merged).chain([Write::Lives(lives)]).collect();
        self.reopen(m, writes, true);
    }
}
