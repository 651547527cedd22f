//! What an operator commands a lease to do: renew or end.
//!
//! A termination needs both masters: the one that is asked writes it down and shares it, the other one writes it down too and
//! sends the record back, and only then the operator is answered. It is never taken back, and said again until the other has
//! it: whoever is told to look again later finds it done.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::state::{Command, Ledger};
use crate::lease::{Effects, Reply, RequestId, Write, rules};
use common::audit::{Action, Actor, Entry};
use common::lease::{Lease, LeaseState};
use common::rpc::lease::{Mode, Refusal};
use common::rpc::peer::PeerMessage;
use common::time::Now;
use common::token::TokenKey;

/// Commands that the other master has not confirmed, at once; one more is refused.
const COMMANDS_MAX: usize = 256;

impl Ledger {
    /// An operator's denial, of whoever's lease.
    pub(super) fn on_deny(&mut self, now: Now, id: RequestId, key: TokenKey, fx: &mut Effects) {
        let denied = match self.deniable(now, key) {
            Ok(lease) => Lease { deny: true, ..lease.clone() },
            Err(refusal) => return fx.reply(id, Reply::Commanded(Err(refusal))),
        };
        self.put_lease(key, denied.clone(), fx);
        self.share(key, fx);
        self.commands.insert(id, Command { by: fx.by.clone(), key, denied });
        self.commanded.sent(now, id);
        self.commanded.wait(now, id, ());
    }

    fn deniable(&self, now: Now, key: TokenKey) -> Result<&Lease, Refusal> {
        self.serves()?;
        if self.mode() != Mode::Ready || !self.pair.heard(now) {
            return Err(Refusal::PeerAway);
        }
        if self.commands.len() >= COMMANDS_MAX {
            return Err(Refusal::Overloaded);
        }
        let open = self.table.lease(key).filter(|lease| !lease.deny && lease.state == LeaseState::Held);
        open.ok_or(Refusal::NoLease)
    }

    /// The other master says by whose command it denies something: it is told that it is written down here too.
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

    /// Records as the other master has them: what was commanded here and stands in them is done.
    pub(super) fn settle_commands(&mut self, theirs: &[(TokenKey, Lease)], fx: &mut Effects) {
        let holds = |command: &Command| {
            theirs.iter().any(|(key, lease)| {
                *key == command.key && (lease.g > command.denied.g || (lease.g == command.denied.g && lease.deny))
            })
        };
        for (id, command) in self.commands.extract_if(.., |_, command| holds(command)) {
            self.commanded.over(&id);
            for id in self.commanded.answered(id..=id) {
                fx.reply(id, Reply::Commanded(Ok(command.denied.clone())));
            }
        }
    }

    /// At each beat: send again what was not confirmed, and give up on those who waited too long.
    pub(super) fn press_commands(&mut self, now: Now, fx: &mut Effects) {
        // What both have ended, or granted to somebody else, needs no command any more.
        let (table, commanded) = (&self.table, &mut self.commanded);
        let open = |command: &Command| {
            let lease = table.lease(command.key);
            lease.is_some_and(|lease| lease.g == command.denied.g && lease.state != LeaseState::Closed)
        };
        let idle = self.commands.extract_if(.., |id, command| !commanded.waits(id) && !open(command));
        let idle: Vec<RequestId> = idle.map(|(id, _)| id).collect();
        idle.iter().for_each(|id| commanded.over(id));
        for id in commanded.give_up(now) {
            fx.reply(id, Reply::Commanded(Err(Refusal::Retry)));
        }
        if self.pair.heard(now) {
            for id in self.commanded.resend(now, COMMANDS_MAX, self.commands.keys().copied()) {
                if let Some(command) = self.commands.get(&id) {
                    fx.by.clone_from(&command.by);
                    self.share(command.key, fx);
                }
            }
        }
    }

    /// An operator's renewal, as long as the holder's own: it goes on from there.
    pub(super) fn on_extend(&mut self, now: Now, key: TokenKey, fx: &mut Effects) -> Result<Lease, Refusal> {
        self.serves()?;
        let lease = self.table.lease(key).filter(|lease| rules::still_good(lease, now)).ok_or(Refusal::NoLease)?;
        let until = rules::renewed_until(lease, now, &self.identity.parameters, self.observed.permit_in);
        let renewed = Lease { until, renewed: lease.renewed.max(now.wall), ..lease.clone() };
        let actor = fx.by.clone().map_or_else(|| Actor::master(self.identity.master), |cause| cause.actor);
        let (subject, detail) = (format!("{} {key}", lease.token_type), format!("g{} until {until}", lease.g));
        fx.writes.push(Write::Audit(Entry::new(now.wall, actor, Action::Renew, &subject, &detail)));
        self.put_lease(key, renewed.clone(), fx);
        self.share(key, fx);
        Ok(renewed)
    }
}
