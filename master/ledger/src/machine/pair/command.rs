//! Terminations that operators commanded: written down here, shared, written down by the other master, which sends the record
//! back, and only then the operator is answered. A command is never taken back, and said again until the other has it: whoever is
//! told to look again later finds it done.

use super::agree::COMMANDS_MAX;
use super::{Command, Pairwise};
use crate::lease::{Effects, Reply, RequestId};
use crate::machine::agreement::Agreement as _;
use crate::machine::state::Ledger;
use ids::lease::{Lease, LeaseState};
use ids::time::Now;
use ids::token::TokenKey;
use wire::lease::Refusal;
use wire::peer::PeerMessage;

impl Ledger<Pairwise> {
    /// Answers the other master, which says by whose command it denies something: it is written down here too.
    pub(super) fn confirm_commands(&self, keys: &[TokenKey], fx: &mut Effects) {
        let records: Vec<(TokenKey, Lease)> = keys
            .iter()
            .filter_map(|key| Some((*key, self.table.lease(*key)?)))
            .filter(|(_, lease)| lease.deny)
            .map(|(key, lease)| (key, lease.clone()))
            .collect();
        if !records.is_empty() {
            fx.send(PeerMessage::Sync { records, by: None });
        }
    }

    /// Settles commands by records as the other master has them: what was commanded here and stands in them is done.
    pub(super) fn settle_commands(&mut self, theirs: &[(TokenKey, Lease)], fx: &mut Effects) {
        let holds = |command: &Command| {
            theirs.iter().any(|(key, lease)| {
                *key == command.key && (lease.g > command.denied.g || (lease.g == command.denied.g && lease.deny))
            })
        };
        for (id, command) in self.agreement.commands.extract_if(.., |_, command| holds(command)) {
            self.agreement.commanded.over(&id);
            for id in self.agreement.commanded.answered(id..=id) {
                fx.reply(id, Reply::Commanded(Ok(command.denied.clone())));
            }
        }
    }

    /// Sends again at each beat what was not confirmed, and gives up on those who waited too long.
    pub(crate) fn retry_commands(&mut self, now: Now, fx: &mut Effects) {
        // What both have ended, or granted to somebody else, needs no command any more.
        let (table, commanded) = (&self.table, &mut self.agreement.commanded);
        let open = |command: &Command| {
            let lease = table.lease(command.key);
            lease.is_some_and(|lease| lease.g == command.denied.g && lease.state != LeaseState::Closed)
        };
        let idle = self.agreement.commands.extract_if(.., |id, command| !commanded.waits(id) && !open(command));
        let idle: Vec<RequestId> = idle.map(|(id, _)| id).collect();
        idle.iter().for_each(|id| commanded.over(id));
        for id in commanded.give_up(now) {
            fx.reply(id, Reply::Commanded(Err(Refusal::Retry)));
        }
        if self.agreement.pair.heard(now) {
            for id in self.agreement.commanded.resend(now, COMMANDS_MAX, self.agreement.commands.keys().copied()) {
                if let Some(command) = self.agreement.commands.get(&id) {
                    fx.by.clone_from(&command.by);
                    self.share(command.key, fx);
                }
            }
        }
    }
}
