//! Leases and time as minting sees them: what may only shrink at once, and grows only when it is durable.

use super::{Effects, Engine, broken};
use ids::calendar::UtcOffset;
use ids::lease::Grant;
use ids::parameters::{ClusterId, ClusterParameters};
use ids::token::TokenType;
use minting::holder::{self, LeaseView, Leases};
use minting::refusal::Refusal;
use minting::timebase::Skew;
use serial_file::Holdings;

impl Engine {
    /// The lease to mint under, and the offset in which its cluster counts.
    pub(super) fn lease(&self, effects: &impl Effects, token_type: TokenType) -> Result<(Grant, UtcOffset), Refusal> {
        self.published.lease(token_type, effects.real_boot(), || effects.why())
    }

    /// Joins a cluster: durable, and for the life of the session.
    ///
    /// # Errors
    /// If it cannot be written, or the session belongs to another cluster already.
    pub fn join(
        &mut self,
        effects: &mut impl Effects,
        cluster: ClusterId,
        parameters: ClusterParameters,
    ) -> Result<(), Refusal> {
        let mut holdings = self.held();
        if *holdings.cluster.get_or_insert(cluster) != cluster
            || *holdings.parameters.get_or_insert(parameters) != parameters
        {
            return Err(broken());
        }
        self.write_holdings(effects, holdings)?;
        self.publish(effects, |published| {
            (published.membership.cluster, published.membership.parameters) = (Some(cluster), Some(parameters));
        });
        Ok(())
    }

    /// Makes durable that renewals up to this number may have been sent.
    ///
    /// # Errors
    /// If it cannot be written; then the renewal must not be sent.
    pub fn promise_rseq(&mut self, effects: &mut impl Effects, rseq: u64) -> Result<(), Refusal> {
        let mut holdings = self.held();
        holdings.rseq = holdings.rseq.max(rseq);
        self.write_holdings(effects, holdings)
    }

    /// Takes over the holder's leases. What is lost is not used from this moment on, whatever else happens; what is
    /// gained is used once it is durable. `jumped`: the clock has jumped since the holder last heard of it.
    ///
    /// # Errors
    /// If it cannot be written; then what was gained is not used.
    pub fn set_leases(&mut self, effects: &mut impl Effects, mut leases: Leases, jumped: bool) -> Result<(), Refusal> {
        if jumped {
            holder::suspend(&mut leases);
        }
        let denied = holder::is_any_taken_away(&self.published.leases, &leases);
        let kept = holder::usable_before_durable(&self.published.leases, &leases);
        if kept != self.published.leases {
            self.publish(effects, |published| published.leases = kept);
            self.close_all(effects);
        }
        let is_kept = |grant: &Grant| self.unconfirmed.contains(&(grant.key, grant.g));
        let none_is_kept = !leases.values().filter_map(LeaseView::grant).any(is_kept);
        if denied || (none_is_kept && !self.unconfirmed.is_empty()) {
            // There may be a second copy of this session, which has its segments, too; or no master can say any more that there is none.
            self.give_up_segments();
        }
        let may_be_used = self.published.strangers.is_empty();
        let grants = if may_be_used { holder::grants(&leases) } else { Vec::new() };
        // Who granted one has heard which sessions this one gives up.
        let former = if grants.is_empty() { self.holdings.former.clone() } else { Vec::new() };
        let holdings = Holdings { leases: grants, former, ..self.held() };
        self.write_holdings(effects, holdings)?;
        self.publish(effects, |published| published.leases = leases);
        Ok(())
    }

    /// Suspends every lease after a jump of the clock.
    pub fn suspend(&mut self, effects: &mut impl Effects) {
        self.publish(effects, |published| holder::suspend(&mut published.leases));
        self.close_all(effects);
    }

    /// Lets every window pass the gates again, after the time changed.
    pub fn regate(&mut self, effects: &mut impl Effects, skew: Option<Skew>) {
        self.publish(effects, |published| published.skew = skew);
        self.close_all(effects);
    }

    /// A master of our list belongs to another cluster, which may grant our tokens and numbers to others. Nothing is minted
    /// from now on, and leases and segments are given up durably, so that a restart does not mint with them either: our own masters give
    /// them again once that address leads to one of them.
    ///
    /// # Errors
    /// If the leases could not be given up; nothing is minted then either. Say it again.
    pub fn hear_stranger(
        &mut self,
        effects: &mut impl Effects,
        address: &str,
        there: ClusterId,
    ) -> Result<(), Refusal> {
        if self.published.strangers.get(address) != Some(&there) {
            self.publish(effects, |published| {
                published.strangers.insert(address.to_owned(), there);
            });
            self.close_all(effects);
        }
        self.give_up_segments();
        let holdings = Holdings { leases: Vec::new(), ..self.held() };
        self.write_holdings(effects, holdings)
    }

    /// The master at that address is one of ours.
    pub fn hear_own(&mut self, effects: &mut impl Effects, address: &str) {
        self.publish(effects, |published| {
            published.strangers.remove(address);
        });
    }
}
