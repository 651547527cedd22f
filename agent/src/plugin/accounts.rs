//! The number of IDs that each caller has had: windows of a second and of a day that begin with the first ID in them.
//!
//! In one window nobody gets more than the limit; in a span of that length that lies across two windows it may be up to twice
//! as much. A refusal says to the millisecond when the window ends, and then the call passes. Time is the machine's own,
//! which is never stepped.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::call::Caller;
use common::plugin::{By, QuotaSpec};
use common::quota::IdQuota;
use common::setting::host_network;
use common::time::{BootMs, DAY_MS, SECOND_MS, SpanMs};
use core::fmt;
use core::hash::{Hash, Hasher as _};
use core::net::{IpAddr, Ipv6Addr};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

/// The interval at which the accounts are looked through for those that may be forgotten.
const SWEEP_EACH: SpanMs = SpanMs(SECOND_MS);

/// The holder of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AccountHolder {
    /// All callers of the name.
    Everyone,
    /// The network that one host usually has.
    Network(IpNet),
    /// A user of this machine.
    User(u32),
    /// The hash of a certificate's role, of an API key's name, or of the label of a caller without an address.
    Named(u64),
}

impl AccountHolder {
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

    /// The same, if it is counted where one caller may have a part of something: whoever is on this machine and has no certificate may have all,
    /// because what stands in front of an agent asks for many.
    pub(crate) fn counted(self) -> Option<Self> {
        let is_of_this_machine = match self {
            Self::Network(from) => from.addr().is_loopback() || from.contains(&IpAddr::V6(Ipv6Addr::LOCALHOST)),
            Self::User(_) => true,
            Self::Everyone | Self::Named(_) => false,
        };
        (!is_of_this_machine).then_some(self)
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

/// An account: what one holder has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    second: Window,
    day: Window,
}

/// The unit of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
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
    const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Day => "day",
        }
    }
}

/// The reason why an account does not give so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    limit: u64,
    per: Per,
    /// The time after which the same call passes, if nobody else takes meanwhile; `None`: never, it asks for more than the limit.
    pub(crate) retry: Option<SpanMs>,
}

impl Excess {
    /// The reason as whoever asked for `n` IDs reads it.
    pub(crate) fn told(self, giver: impl fmt::Display, whose: &str, n: u32) -> String {
        let Self { limit, per, retry } = self;
        let gives = format!("{giver} gives {limit} IDs a {}{whose}", per.name());
        match retry {
            Some(_) => format!("{gives}, and they are used up; ask again later"),
            None => format!("{gives}, and {n} are asked for at once; ask for fewer"),
        }
    }
}

/// The accounts of one name.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    spec: QuotaSpec,
    own: BTreeMap<AccountHolder, Account>,
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

    /// Counts `n` IDs, at least 1. No more than `max` callers have an account of their own afterwards, or as many as had before.
    ///
    /// # Errors
    /// [`Excess`]; then nothing is counted.
    pub(super) fn take(&mut self, now: BootMs, holder: &AccountHolder, n: u32, max: usize) -> Result<(), Excess> {
        let quota = self.spec.quota();
        fits(quota, n)?;
        let max = max.min(usize::try_from(self.spec.callers_max()).unwrap_or(usize::MAX));
        self.account(now, holder, max).take(quota, now, n)
    }

    /// Takes back `n` IDs that were counted at `taken`, and did not leave.
    pub(super) fn give_back(&mut self, taken: BootMs, holder: &AccountHolder, n: u32) {
        let account = self.own.get_mut(holder).unwrap_or(&mut self.others);
        account.second.give_back(taken, n.into());
        account.day.give_back(taken, n.into());
    }

    /// The account that a caller draws from.
    fn account(&mut self, now: BootMs, holder: &AccountHolder, max: usize) -> &mut Account {
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
        let limits: Vec<_> = limits(self.spec.quota()).collect();
        self.own.retain(|_, account| {
            limits.iter().any(|(per, _)| {
                let window = account.window(*per);
                window.used > 0 && now < window.end(per.span())
            })
        });
    }
}

/// The limits that a quota has.
fn limits(quota: IdQuota) -> impl Iterator<Item = (Per, u64)> {
    let limits = [(Per::Second, quota.per_second()), (Per::Day, quota.per_day())];
    limits.into_iter().filter_map(|(per, limit)| limit.map(|limit| (per, limit)))
}

/// Refuses more at once than a quota ever gives.
fn fits(quota: IdQuota, n: u32) -> Result<(), Excess> {
    let exceeded = limits(quota).find(|(_, limit)| u64::from(n) > *limit);
    exceeded.map_or(Ok(()), |(per, limit)| Err(Excess { limit, per, retry: None }))
}

impl Account {
    /// Counts `n` IDs, at least 1.
    ///
    /// # Errors
    /// [`Excess`]; then nothing is counted.
    pub(crate) fn take(&mut self, quota: IdQuota, now: BootMs, n: u32) -> Result<(), Excess> {
        fits(quota, n)?;
        let mut next = Self { second: self.second.at(now, Per::Second.span()), day: self.day.at(now, Per::Day.span()) };
        let refuses = limits(quota).filter_map(|(per, limit)| {
            let retry = next.window(per).refuses(now, n.into(), limit, per.span())?;
            Some(Excess { limit, per, retry: Some(retry) })
        });
        if let Some(excess) = refuses.max_by_key(|excess| excess.retry) {
            return Err(excess);
        }
        next.second.used += u64::from(n);
        next.day.used += u64::from(n);
        *self = next;
        Ok(())
    }

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
