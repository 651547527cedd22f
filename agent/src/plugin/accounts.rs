//! The number of IDs that each caller has had: windows of a second and of a day that begin with the first ID in them.
//!
//! In one window nobody gets more than the limit; in a span of that length that lies across two windows it may be up to twice
//! as much. A refusal says to the millisecond when the window ends, and then the call passes. Time is the machine's own,
//! which is never stepped.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::call::Caller;
use common::plugin::{By, QuotaSpec};
use common::setting::host_network;
use common::time::{BootMs, DAY_MS, SECOND_MS, SpanMs};
use core::hash::{Hash, Hasher as _};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

/// The interval at which the accounts are looked through for those that may be forgotten.
const SWEEP_EACH: SpanMs = SpanMs(SECOND_MS);

/// The holder of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// All callers of the name.
    Everyone,
    /// The network that one host usually has.
    Network(IpNet),
    /// A user of this machine.
    User(u32),
    /// The hash of a certificate's role, of an API key's name, or of the label of a caller without an address.
    Named(u64),
}

impl Holder {
    /// The holder of the account that a caller draws from.
    pub(crate) fn of(by: By, caller: Caller<'_>) -> Self {
        match (by, caller) {
            (By::Name, _) => Self::Everyone,
            (By::Caller, Caller::Label(label)) => Self::named(label),
            (By::Caller, Caller::Certificate(role)) => Self::named(role),
            (By::Caller, Caller::Key(name)) => Self::named(("key", name)),
            (By::Caller, Caller::User(user)) => Self::User(user),
            (By::Caller, Caller::Address(address)) => Self::Network(host_network(address)),
        }
    }

    fn named(name: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self::Named(hasher.finish())
    }
}

/// The count of what was taken in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    start: BootMs,
    used: u64,
}

impl Window {
    fn end(self, span: SpanMs) -> BootMs {
        self.start + span
    }

    /// The window that `now` is in.
    fn at(self, now: BootMs, span: SpanMs) -> Self {
        if self.used == 0 || now >= self.end(span) { Self { start: now, used: 0 } } else { self }
    }

    /// The time until `n` more fit, if they do not now.
    fn refuses(self, now: BootMs, n: u64, limit: u64, span: SpanMs) -> Option<SpanMs> {
        (self.used + n > limit).then(|| self.end(span) - now)
    }

    fn give_back(&mut self, taken: BootMs, n: u64) {
        // A window that began later never had them.
        if self.start <= taken {
            self.used = self.used.saturating_sub(n);
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    second: Window,
    day: Window,
}

/// The unit of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    Second,
    Day,
}

impl Per {
    const fn span(self) -> SpanMs {
        match self {
            Self::Second => SpanMs(SECOND_MS),
            Self::Day => SpanMs(DAY_MS),
        }
    }

    /// The word for it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Day => "day",
        }
    }
}

/// The reason why an account does not give so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    /// The limit,
    pub(super) limit: u64,
    /// in each of these.
    pub(super) per: Per,
    /// The time after which the same call passes, if nobody else takes meanwhile; `None`: never, it asks for more than the limit.
    pub(super) retry: Option<SpanMs>,
}

/// The accounts of one name.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    spec: QuotaSpec,
    own: BTreeMap<Holder, Account>,
    /// Of all callers for whom there is no account of their own.
    others: Account,
    next_sweep: BootMs,
}

impl Accounts {
    pub(super) fn new(spec: QuotaSpec) -> Self {
        Self { spec, own: BTreeMap::new(), others: Account::default(), next_sweep: BootMs(i64::MIN) }
    }

    /// The number of callers that have an account of their own.
    pub(super) fn len(&self) -> usize {
        self.own.len()
    }

    fn limits(&self) -> impl Iterator<Item = (Per, u64)> + use<> {
        let limits = [(Per::Second, self.spec.per_second()), (Per::Day, self.spec.per_day())];
        limits.into_iter().filter_map(|(per, limit)| limit.map(|limit| (per, limit)))
    }

    /// Counts `n` IDs, at least 1. No more than `max` callers have an account of their own afterwards, or as many as had before.
    ///
    /// # Errors
    /// [`Excess`]; then nothing is counted.
    pub(super) fn take(&mut self, now: BootMs, holder: &Holder, n: u32, max: usize) -> Result<(), Excess> {
        let n = u64::from(n);
        let limits = self.limits();
        if let Some((per, limit)) = self.limits().find(|(_, limit)| n > *limit) {
            return Err(Excess { limit, per, retry: None });
        }
        let max = max.min(usize::try_from(self.spec.callers_max()).unwrap_or(usize::MAX));
        let account = self.account(now, holder, max);
        let mut next =
            Account { second: account.second.at(now, Per::Second.span()), day: account.day.at(now, Per::Day.span()) };
        let refuses = limits.filter_map(|(per, limit)| {
            let window = next.window(per);
            window.refuses(now, n, limit, per.span()).map(|retry| Excess { limit, per, retry: Some(retry) })
        });
        if let Some(excess) = refuses.max_by_key(|excess| excess.retry) {
            return Err(excess);
        }
        next.second.used += n;
        next.day.used += n;
        *account = next;
        Ok(())
    }

    /// Takes back `n` IDs that were counted at `taken`, and did not leave.
    pub(super) fn give_back(&mut self, taken: BootMs, holder: &Holder, n: u32) {
        let account = self.own.get_mut(holder).unwrap_or(&mut self.others);
        account.second.give_back(taken, n.into());
        account.day.give_back(taken, n.into());
    }

    /// The account that a caller draws from.
    fn account(&mut self, now: BootMs, holder: &Holder, max: usize) -> &mut Account {
        if !self.own.contains_key(holder) {
            if self.own.len() >= max {
                self.sweep(now);
            }
            if self.own.len() >= max {
                return &mut self.others;
            }
        }
        self.own.entry(*holder).or_default()
    }

    /// Forgets the accounts whose windows are over: they are as good as new ones.
    fn sweep(&mut self, now: BootMs) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_EACH;
        let limits: Vec<_> = self.limits().collect();
        self.own.retain(|_, account| {
            limits.iter().any(|(per, _)| {
                let window = account.window(*per);
                window.used > 0 && now < window.end(per.span())
            })
        });
    }
}

impl Account {
    fn window(&self, per: Per) -> Window {
        match per {
            Per::Second => self.second,
            Per::Day => self.day,
        }
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
