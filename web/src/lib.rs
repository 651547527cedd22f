//! The admin console of a master: one page and a JSON API, read-only so far.
//!
//! It sees the masters through one trait, [`Masters`], and never the ledger itself.

mod masters;

pub use masters::{
    AgentPattern, LeaseFilter, LeasePage, LeaseRow, LeaseStage, MasterMode, MasterRow, Masters, Page, PoolRow,
    Unavailable, count_pools,
};

use std::sync::Arc;

/// All routes of the console.
pub fn router(masters: Arc<dyn Masters>) -> axum::Router {
    axum::Router::new().with_state(masters)
}

/// Serves the console on `listener` until `stop` resolves; then open requests and event streams end.
///
/// # Errors
/// None at the moment: an `accept` that fails is logged and tried again.
pub async fn serve(
    listener: tokio::net::TcpListener,
    masters: Arc<dyn Masters>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(masters)).with_graceful_shutdown(stop).await
}
