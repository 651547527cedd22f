//! The state that those see who mint without a lock, and the parts of it that they may use.

use super::RESUME_WAIT;
use ids::calendar::UtcOffset;
use ids::lease::{Generation, Grant};
use ids::parameters::{ClusterId, ClusterParameters};
use ids::time::{BootMs, SpanMs};
use ids::token::{TokenKey, TokenType};
use minting::holder::{self, Confirmation, LeaseView, Leases};
use minting::refusal::{ClockFault, Refusal};
use minting::timebase::Skew;
use serial_file::Holdings;
use std::collections::BTreeMap;

/// The leases, and what stands against using them.
#[derive(Clone, Debug)]
pub struct Published {
    /// All wanted types with their leases.
    pub leases: Leases,
    /// The cluster this agent belongs to, as far as it knows.
    pub membership: Membership,
    /// The difference of the operating system's calendar from the masters', if that is too large to mint.
    pub skew: Option<Skew>,
    /// Masters of our list that belong to other clusters, by address.
    pub strangers: BTreeMap<String, ClusterId>,
    /// The instant from which a resumed session may mint although no master has answered, by the machine's real time; `None`: never.
    resumed_until: Option<BootMs>,
}

/// The cluster this agent belongs to, as far as it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The cluster's ID.
    pub cluster: Option<ClusterId>,
    pub parameters: Option<ClusterParameters>,
}

impl Published {
    pub(super) fn new(holdings: &Holdings, leases: Leases, resumed_until: Option<BootMs>) -> Self {
        let membership = Membership { cluster: holdings.cluster, parameters: holdings.parameters };
        Self { leases, membership, skew: None, strangers: BTreeMap::new(), resumed_until }
    }

    /// The lease to mint under, and the offset in which its cluster counts. `why` is what the masters said last.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn lease(
        &self,
        token_type: TokenType,
        real_boot: BootMs,
        why: impl Fn() -> String,
    ) -> Result<(Grant, UtcOffset), Refusal> {
        if let Some(wrong) = self.wrong_cluster() {
            return Err(wrong);
        }
        if let Some(Skew { by, disputed }) = self.skew {
            let fault = if disputed { ClockFault::Disputed { by } } else { ClockFault::Skewed { by } };
            return Err(Refusal::ClockSkew(fault));
        }
        let missing = |why| Refusal::NoLease { token_type, why };
        let Some(view) = self.leases.get(&token_type) else {
            // It is asked for by now.
            if token_type.is_on_demand() {
                return Err(missing(why()));
            }
            return Err(missing("this agent does not ask for that type; add it to --token-types".to_owned()));
        };
        match (view, self.membership.parameters) {
            (LeaseView::Held(grant), Some(parameters)) => Ok((grant.clone(), parameters.utc_offset())),
            (LeaseView::Resumed(grant), Some(parameters)) if self.may_resume_alone(real_boot) => {
                Ok((grant.clone(), parameters.utc_offset()))
            }
            (LeaseView::Resumed(_), _) => Err(missing(self.why_not_resumed(&why()))),
            (LeaseView::Suspended(_), _) => Err(Refusal::ClockSkew(ClockFault::Stepped)),
            (LeaseView::Expired(grant), _) => Err(Refusal::LeaseExpired { token_type, until: grant.until, why: why() }),
            (LeaseView::Missing | LeaseView::Held(_), _) => Err(missing(why())),
        }
    }

    /// Nothing may be minted while a master of our list belongs to another cluster: that one may grant our tokens too.
    pub fn wrong_cluster(&self) -> Option<Refusal> {
        let (address, there) = self.strangers.first_key_value()?;
        Some(Refusal::WrongCluster { address: address.clone(), here: self.membership.cluster?, there: *there })
    }

    /// Tells whether a resumed session has waited long enough for the masters to mint without having heard of one.
    fn may_resume_alone(&self, real_boot: BootMs) -> bool {
        self.resumed_until.is_some_and(|until| real_boot >= until)
    }

    /// The time for which what a resumed session kept beside its leases may still not be used; `None`: it may, because a master has renewed
    /// one of them, or none has answered for as long as that takes.
    pub(super) fn confirmation_left(&self, kept: &[(TokenKey, Generation)], real_boot: BootMs) -> Option<SpanMs> {
        // A lease that is new tells nothing: the masters grant it to each copy of the session.
        let renewed = |view: &LeaseView| matches!(view, LeaseView::Held(grant) if kept.contains(&(grant.key, grant.g)));
        if self.leases.values().any(renewed) || self.may_resume_alone(real_boot) {
            return None;
        }
        Some(self.resumed_until.map_or(RESUME_WAIT, |until| until - real_boot))
    }

    /// The masters' word on the leases that a resumed session `kept`.
    pub fn confirmation(&self, kept: &[(TokenKey, Generation)]) -> Confirmation {
        holder::confirmation(&self.leases, kept)
    }

    fn why_not_resumed(&self, why: &str) -> String {
        match self.resumed_until {
            Some(_) => format!(
                "the session was resumed just now, and a master has {} ms to renew its lease first",
                RESUME_WAIT.0
            ),
            None => format!(
                "the session was resumed from a lineage that leaves room for a second copy (the file is in layers \
                 that were mounted anew), so a master has to renew its lease first: {why}",
            ),
        }
    }

    /// The time that a lease of that type may still wait for the renewal that a resumed session begins with, at most
    /// `at_most`; `None` if it does not wait.
    pub fn resumption_left(&self, token_type: TokenType, real_boot: BootMs, at_most: SpanMs) -> Option<SpanMs> {
        if !matches!(self.leases.get(&token_type), Some(LeaseView::Resumed(_))) {
            return None;
        }
        let Some(until) = self.resumed_until else { return Some(at_most) };
        let left = until - real_boot;
        (left > SpanMs(0)).then_some(left)
    }
}
