//! The handling of refusals: an application's own handler, or a line in the log.

use super::limiter::Limiter;
use super::{Call, Failure};
use crate::refusal::Refusal;
use arc_swap::ArcSwap;
use common::panics::caught;
use net::rpc::mint::MintCode;
use std::sync::Arc;

/// A handler that an application gives refusals to. It runs on the thread that serves the call, before the caller gets its answer; a panic in it is a
/// line in the log.
pub type RefusalHandler = Arc<dyn Fn(&Call<'_>, &Failure<'_>) + Send + Sync>;

/// The place where refusals are told. One for an agent; whoever refuses a call tells it once.
pub struct Refusals {
    handler: ArcSwap<RefusalHandler>,
    panicked: Limiter,
}

impl Default for Refusals {
    /// With a handler that writes a line of the log for each code, at most one a second, with how many were left out.
    fn default() -> Self {
        Self { handler: ArcSwap::from_pointee(logged()), panicked: Limiter::default() }
    }
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusals").finish_non_exhaustive()
    }
}

fn logged() -> RefusalHandler {
    let limits: Vec<(MintCode, Limiter)> = MintCode::ALL.iter().map(|code| (*code, Limiter::default())).collect();
    Arc::new(move |call, failure| {
        let limit = limits.iter().find(|(code, _)| *code == failure.code);
        if let Some(left_out) = limit.and_then(|(_, limit)| limit.admit()) {
            let Call { kind, name, n, caller, .. } = call;
            let Failure { code, detail, plugin, .. } = failure;
            tracing::info!(%code, %kind, name, n, %caller, plugin, detail, "refused ({left_out} more not shown)");
        }
    })
}

impl Refusals {
    /// From now on `handler` is told, and nobody else.
    pub fn set(&self, handler: impl Fn(&Call<'_>, &Failure<'_>) + Send + Sync + 'static) {
        self.handler.store(Arc::new(Arc::new(handler)));
    }

    /// Tells of a call that gets no ID.
    pub fn tell(&self, call: &Call<'_>, failure: &Failure<'_>) {
        let handler = self.handler.load_full();
        if let Err(panic) = caught(|| handler(call, failure))
            && let Some(left_out) = self.panicked.admit()
        {
            tracing::error!(%panic, left_out, "the handler of refusals panicked");
        }
    }

    /// Tells of a call that minting refused, or whatever is before minting.
    pub fn tell_refusal(&self, call: &Call<'_>, refusal: &Refusal) {
        self.tell(call, &Failure::of(refusal, &refusal.to_string()));
    }
}
