//! What an operator commands a lease to do: renew or end.
//!
//! A termination needs both masters: the one that is asked writes it down and shares it, the other one writes it down too and
//! sends the record back, and only then the operator is answered. It is never taken back, and said again until the other has
//! it: whoever is told to look again later finds it done.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::state::{CONFIRM_WAIT, Command, Ledger};
use crate::lease::rules;
use crate::lease::{Effects, Reply, RequestId, Write};
use common::audit::{Action, Actor, Entry};
use common::lease::{Lease, LeaseState};
use common::rpc::lease::{Mode, Refusal};
use common::rpc::peer::PeerMessage;
use common::time::{Now, SpanMs};
use common::token::TokenKey;

/// Commands that the other master has not confirmed, at once; one more is refused.
const COMMANDS_MAX: usize = 256;
/// A command that was not confirmed is said again after this long.
const RESEND_AFTER: SpanMs = SpanMs::seconds(2);

impl Ledger {
    /// An operator's denial, of whoever's lease.
    pub(super) fn on_deny(&mut self, now: Now, id: RequestId, key: TokenKey, fx: &mut Effects) {
        let denied = match self.deniable(now, key) {
            Ok(lease) => Lease { deny: true, ..lease.clone() },
            Err(refusal) => return fx.reply(id, Reply::Commanded(Err(refusal))),
        };
        self.put_lease(key, denied.clone(), fx);
        self.share(key, fx);
        let (give_up_at, sent_at) = (now.boot + CONFIRM_WAIT, now.boot);
        self.commands.push(Command { id: Some(id), by: fx.by.clone(), key, denied, give_up_at, sent_at });
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
    pub(super) fn confirm_orders(&self, keys: &[TokenKey], fx: &mut Effects) {
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

    /// Records as the other master has them: what was ordered here and stands in them is done.
    pub(super) fn settle_orders(&mut self, theirs: &[(TokenKey, Lease)], fx: &mut Effects) {
        let holds = |command: &Command| {
            theirs.iter().any(|(key, lease)| {
                *key == command.key && (lease.g > command.denied.g || (lease.g == command.denied.g && lease.deny))
            })
        };
        self.commands.retain(|command| {
            let done = holds(command);
            if done && let Some(id) = command.id {
                fx.reply(id, Reply::Commanded(Ok(command.denied.clone())));
            }
            !done
        });
    }

    /// At each beat: say again what was not confirmed, and give up on those who waited too long.
    pub(super) fn press_orders(&mut self, now: Now, fx: &mut Effects) {
        let heard = self.pair.heard(now);
        // What both have ended, or granted to somebody else, needs no command any more.
        let table = &self.table;
        let open = |command: &Command| {
            let lease = table.lease(command.key);
            lease.is_some_and(|lease| lease.g == command.denied.g && lease.state != LeaseState::Closed)
        };
        self.commands.retain(|command| command.id.is_some() || open(command));
        let mut due = Vec::new();
        for command in &mut self.commands {
            if command.give_up_at <= now.boot
                && let Some(id) = command.id.take()
            {
                fx.reply(id, Reply::Commanded(Err(Refusal::Retry)));
            }
            if heard && now.boot - command.sent_at >= RESEND_AFTER {
                command.sent_at = now.boot;
                due.push((command.key, command.by.clone()));
            }
        }
        for (key, by) in due {
            fx.by = by;
            self.share(key, fx);
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
