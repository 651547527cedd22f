//! Policy: decides by the records alone what may be granted, extended, ended and handed out again, and which value is picked.
//!
//! The rules are small total functions, each with the sentence it stands for ([`rules`]); [`Policy`] applies them to the records
//! of one master. Nothing here knows how a decision is agreed on, nor with whom: which values this master may propose stands in
//! its table ([`Stride`](crate::lease::Stride)), how far it may extend a lease alone is told by the caller, and whether anything
//! may change its owner at the moment is not asked here.

mod grant;
mod limits;
pub mod rules;

use crate::lease::Caution;
use crate::lease::table::Table;
use ids::lease::Lease;
use ids::parameters::ClusterParameters;
use ids::time::{Now, SpanMs, WallMs};
use ids::token::TokenKey;
use wire::lease::Refusal;

/// The records that are decided by.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// Leases and proposals, and who has how many.
    pub table: &'a Table,
    pub caution: &'a Caution,
    pub parameters: &'a ClusterParameters,
}

impl<'a> Policy<'a> {
    /// Leases of values that this master may propose whose time and grace are over, the longest ended first.
    pub(crate) fn over(&self, now: Now) -> impl Iterator<Item = TokenKey> + use<'a> {
        let Self { table, parameters, .. } = *self;
        let ended = WallMs(now.wall.0.saturating_sub(parameters.grace().0)) + SpanMs(1);
        let may_end = move |key: &TokenKey| table.lease(*key).is_some_and(|it| rules::may_close(it, now, parameters));
        table.ended_before(ended).filter(may_end)
    }

    /// The lease that an operator may terminate.
    ///
    /// # Errors
    /// [`Refusal::NoLease`].
    pub(crate) fn terminable(&self, key: TokenKey) -> Result<&'a Lease, Refusal> {
        self.table.lease(key).filter(|lease| rules::may_deny(lease)).ok_or(Refusal::NoLease)
    }
}
