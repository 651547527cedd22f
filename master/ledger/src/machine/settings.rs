//! Changes of settings ([`crate::setting`]), answered when they are agreed on.

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::receipt::was_told;
use crate::lease::{Effects, Reply, RequestId};
use crate::setting::{WAITING_MAX, Wish};
use ids::audit::Actor;
use ids::namespace::Namespace;
use ids::setting::{Change, Outcome, SettingValue};
use ids::time::Now;
use wire::lease::{Changed, NameState, Refusal, Registered, refusal};

impl<A> Ledger<A>
where
    Self: Agreement,
{
    /// An agent registers a name for whoever asks it: as often as its network may, and not what is an operator's to register.
    pub(super) fn on_define(&mut self, now: Now, id: RequestId, change: Change, actor: Actor, fx: &mut Effects) {
        match self.policy().may_register(now, &self.settings_table, &change, &actor) {
            Ok(()) => self.on_change(now, id, change, actor, fx),
            Err(why) => fx.reply(id, Reply::Change(Err(why))),
        }
    }

    /// An agent shows a name that this ledger may have forgotten, or how it stood. What masters of this cluster said before is taken
    /// at once; who cannot prove it registers a name as anybody does.
    pub(super) fn on_restore(&mut self, now: Now, id: RequestId, shown: Registered, actor: Actor, fx: &mut Effects) {
        let (proved, retired) = (was_told(self.pairings(), &shown), shown.state == NameState::Retired);
        let change = Change::Restore { namespace: Box::new(shown.namespace), retired, proved };
        match retired {
            _ if proved => self.change(now, id, change, actor, fx),
            true => fx.reply(id, Reply::Change(Err(Refusal::NotShownRetired))),
            false => self.on_define(now, id, change, actor, fx),
        }
    }

    pub(super) fn on_change(&mut self, now: Now, id: RequestId, change: Change, actor: Actor, fx: &mut Effects) {
        match self.may_name(&change) {
            Ok(()) => self.change(now, id, change, actor, fx),
            Err(why) => fx.reply(id, Reply::Change(Err(why))),
        }
    }

    /// Changes a setting as [`on_change`](Self::on_change) does, also one that this master may have forgotten.
    pub(super) fn change(&mut self, now: Now, id: RequestId, change: Change, actor: Actor, fx: &mut Effects) {
        match self.judged(now, &change) {
            Ok(Changed::Done) => {
                self.set(now, &change, &actor, fx);
                self.settings_table.changes.wait(now, id, Wish { change, actor });
            }
            answer => fx.reply(id, Reply::Change(answer)),
        }
    }

    /// The answer to an operator's change if it were asked for now, as far as one master knows: what both are agreeing on in this moment
    /// may be in its way, and the other one may be lost meanwhile.
    ///
    /// # Errors
    /// The reason by which it would be refused.
    pub fn would_change(&self, now: Now, change: &Change) -> Result<Changed, Refusal> {
        self.may_name(change).and_then(|()| self.judged(now, change))
    }

    /// The answer to an agent's registration if it were asked for now, as [`would_change`](Self::would_change).
    ///
    /// # Errors
    /// The reason by which it would be refused.
    pub fn would_define(&self, now: Now, namespace: Box<Namespace>, actor: &Actor) -> Result<Changed, Refusal> {
        let change = Change::Define(namespace);
        self.policy().may_register(now, &self.settings_table, &change, actor)?;
        self.would_change(now, &change)
    }

    /// Checks that agents have shown what they use: before, nobody knows whether a name is free, or to be freed, or gone.
    fn may_name(&self, change: &Change) -> Result<(), Refusal> {
        match self.settings_table.outcome(change) {
            Outcome::Becomes(value)
                if self.serves().is_ok()
                    && (value.is_living()
                        || value == SettingValue::Free
                        || matches!(change, Change::Restore { .. })) =>
            {
                self.policy().may_name()
            }
            _ => Ok(()),
        }
    }

    /// The outcome of a change that is asked for now; [`Changed::Done`] if it can be proposed.
    fn judged(&self, now: Now, change: &Change) -> Result<Changed, Refusal> {
        self.serves()?;
        let refused = match self.settings_table.outcome(change) {
            Outcome::AlreadySo => return Ok(Changed::AlreadySo),
            Outcome::Becomes(_) if self.is_not_shown(change).is_some() => self.is_not_shown(change),
            // The first admin is still being agreed on.
            Outcome::LastAdmin if self.settings_table.users().is_none() => Some(Refusal::Retry),
            Outcome::Becomes(_) if self.may_set(now).is_err() => self.may_set(now).err(),
            Outcome::Becomes(_) if self.settings_table.changes.waiting() >= WAITING_MAX => Some(Refusal::Overloaded),
            outcome => refusal(outcome, change),
        };
        refused.map_or(Ok(Changed::Done), Err)
    }

    /// The reason why something of that kind cannot be said not to be true: it has to be just what is shown.
    fn is_not_shown(&self, change: &Change) -> Option<Refusal> {
        let Change::Dismiss { name, below } = change else { return None };
        let shown = self.shown(name) == Some(*below);
        (!shown).then(|| Refusal::NotShown { name: name.clone(), last: below.saturating_sub(1) })
    }
}
