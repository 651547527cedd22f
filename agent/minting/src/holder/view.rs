//! The leases as minting sees them, and what of them may be used while they change.

use ids::lease::{Generation, Grant};
use ids::token::{TokenKey, TokenType};
use std::collections::BTreeMap;

/// A lease of one type, as minting sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseView {
    /// None, and none before.
    Missing,
    /// To be used.
    Held(Grant),
    /// Of a resumed session: to be used when it was renewed, or no master has answered for a moment.
    Resumed(Grant),
    /// Not to be used until it was renewed: the clock jumped.
    Suspended(Grant),
    /// Its time is over.
    Expired(Grant),
}

/// All wanted types with their leases.
pub type Leases = BTreeMap<TokenType, LeaseView>;

impl LeaseView {
    /// The lease, whether it may be used or not.
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Missing => None,
            Self::Held(grant) | Self::Resumed(grant) | Self::Suspended(grant) | Self::Expired(grant) => Some(grant),
        }
    }

    /// The lease as it may be used whether the change from `before` to `self` becomes durable or not.
    fn if_it_fails(&self, before: Option<&Self>) -> Self {
        match (before, self) {
            (Some(Self::Held(old)), Self::Held(new)) if old.key == new.key && old.g == new.g => {
                Self::Held(Grant { from: old.from.max(new.from), until: old.until.min(new.until), ..old.clone() })
            }
            // What a master's renewal was waited for to say it has said; the lease itself was durable all along.
            (Some(Self::Resumed(old)), Self::Held(new)) if old.key == new.key && old.g == new.g => {
                Self::Held(old.clone())
            }
            (Some(Self::Suspended(old)), Self::Held(_)) => Self::Suspended(old.clone()),
            (Some(Self::Expired(old)), Self::Held(_)) => Self::Expired(old.clone()),
            (_, Self::Held(_)) => Self::Missing,
            (_, other) => other.clone(),
        }
    }
}

/// Suspends every lease that is held.
pub fn suspend(leases: &mut Leases) {
    for view in leases.values_mut() {
        if let LeaseView::Held(grant) | LeaseView::Resumed(grant) = view {
            *view = LeaseView::Suspended(grant.clone());
        }
    }
}

/// The leases of `after` as they may be used before it is durable: what is lost counts at once, what is gained does not yet.
pub fn usable_before_durable(before: &Leases, after: &Leases) -> Leases {
    after.iter().map(|(t, view)| (*t, view.if_it_fails(before.get(t)))).collect()
}

/// Tells whether a lease was taken away before its time: the masters denied it, and the session may have a second copy.
pub fn is_any_taken_away(before: &Leases, after: &Leases) -> bool {
    let of = |grant: &Grant| (grant.key, grant.g);
    before.iter().any(|(token_type, view)| {
        let (LeaseView::Held(grant) | LeaseView::Resumed(grant) | LeaseView::Suspended(grant)) = view else {
            return false;
        };
        let now = after.get(token_type).and_then(LeaseView::grant);
        now.is_none_or(|now| of(now) != of(grant))
    })
}

/// Every lease there is, to be kept in the serial file whether it may be used or not.
pub fn grants(leases: &Leases) -> Vec<Grant> {
    leases.values().filter_map(LeaseView::grant).cloned().collect()
}

/// A master's word that it knows a resumed session for the only one of its name: a second copy of it is denied its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// None has answered yet.
    Waits,
    /// A master has renewed one of its leases.
    Given,
    /// They are denied or over, or there were none.
    Refused,
}

/// The masters' word on the leases that a resumed session `kept`. A lease that is new tells nothing: they grant it to each copy.
pub fn confirmation(leases: &Leases, kept: &[(TokenKey, Generation)]) -> Confirmation {
    let is_kept = |grant: &Grant| kept.contains(&(grant.key, grant.g));
    let mut waits = false;
    for view in leases.values() {
        match view {
            LeaseView::Held(grant) if is_kept(grant) => return Confirmation::Given,
            LeaseView::Resumed(grant) | LeaseView::Suspended(grant) => waits |= is_kept(grant),
            LeaseView::Held(_) | LeaseView::Missing | LeaseView::Expired(_) => {}
        }
    }
    if waits { Confirmation::Waits } else { Confirmation::Refused }
}
