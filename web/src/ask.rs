//! Questions to the masters, none of which may hang a page.

use crate::masters::{LeaseFilter, LeasePage, MasterRow, Masters, Order, Page, PoolRow, Unavailable};
use common::time::WallMs;
use common::token::TokenKey;
use futures::future::BoxFuture;
use std::time::Duration;

/// The longest time that a master may take over one question; it is a look into its memory.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Rows asked for at once when all are wanted: few enough to hold in memory, and each question passes over the table.
pub(crate) const CHUNK_ROWS: usize = 4_000;

/// The rows that all views share, as they were at `now`.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) now: WallMs,
    pub(crate) masters: Vec<MasterRow>,
    pub(crate) pools: Vec<PoolRow>,
    /// The reason why no lease can be granted, if so.
    pub(crate) unready: Option<String>,
}

impl Snapshot {
    /// Tells whether a change that both masters must confirm has to wait.
    pub(crate) fn gated(&self) -> bool {
        self.unready.is_some()
    }
}

/// Waits for an answer, but not for ever.
pub(crate) async fn within<T>(answer: BoxFuture<'_, Result<T, Unavailable>>) -> Result<T, Unavailable> {
    tokio::time::timeout(ANSWER_MAX, answer).await.unwrap_or(Err(Unavailable::Overloaded))
}

/// Checks that a lease can be granted; if not, says why.
pub(crate) async fn readiness(masters: &dyn Masters) -> Result<(), String> {
    tokio::time::timeout(ANSWER_MAX, masters.readiness())
        .await
        .unwrap_or_else(|_| Err(Unavailable::Overloaded.to_string()))
}

pub(crate) async fn snapshot(masters: &dyn Masters) -> Result<Snapshot, Unavailable> {
    Ok(Snapshot {
        masters: within(masters.masters()).await?,
        pools: within(masters.pools()).await?,
        unready: readiness(masters).await.err(),
        now: masters.now(),
    })
}

/// The next rows of all that match, after `after`.
pub(crate) async fn chunk(
    masters: &dyn Masters,
    filter: LeaseFilter,
    after: Option<TokenKey>,
) -> Result<LeasePage, Unavailable> {
    within(masters.leases(filter, Page { after, skip: 0, limit: CHUNK_ROWS, order: Order::default() })).await
}
