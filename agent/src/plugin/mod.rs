//! Plugins: what applications and operators put around minting, by generators' names.
//!
//! A name has a [`Chain`] of plugins, run by their order. For each call that asks for IDs:
//!
//! 1. [`before`](Plugin::before) of each plugin, before any ID is taken. The first that refuses ends the call; those before it
//!    are told by [`failed`](Plugin::failed).
//! 2. Minting. If it refuses, every plugin is told by `failed`.
//! 3. [`after`](Plugin::after) of each plugin. The IDs are taken: a plugin that refuses now makes them a gap, and nobody
//!    else gets them.
//! 4. [`done`](Plugin::done) of each plugin: the answer leaves.
//!
//! So each `before` that passed is followed by exactly one `done` or `failed`, whatever happens; also if the caller does not
//! wait for its answer.
//!
//! **A plugin cannot make an ID come twice.** It never sees serials, windows or leases, it changes nothing, and an answer that
//! it refuses is thrown away.
//!
//! **A plugin that panics refuses.** The caller gets `overloaded`, the log a line, at most one a second for each name and
//! plugin. After [`PANICS_MAX`] in a row it is asked once a second only, and all else by that name is refused meanwhile. A
//! panic in `failed` or `done` is a line in the log. What cannot be caught is a process built with `panic = "abort"`, or one
//! that runs out of stack.
//!
//! A plugin runs on the thread that serves the call, in a server on that of a runtime: what waits there keeps others waiting.
//!
//! ```
//! use agent::plugin::{Call, Plugin, PluginRefusal, PluginSpec, Plugins};
//! use agent::embed::{GeneratorKind, MintCode};
//! use serde::Deserialize;
//! use std::sync::Arc;
//!
//! /// Gives at most so many IDs to one call.
//! struct Small {
//!     most: u32,
//! }
//!
//! impl Plugin for Small {
//!     fn name(&self) -> &str {
//!         "small"
//!     }
//!
//!     fn before(&self, call: &Call<'_>) -> Result<(), PluginRefusal> {
//!         if call.n <= self.most {
//!             return Ok(());
//!         }
//!         Err(PluginRefusal::new(MintCode::BadParameter, format!("n: at most {} by this name", self.most)))
//!     }
//! }
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Parameters {
//!     most: u32,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut plugins = Plugins::new();
//! plugins.register("small", |attached| {
//!     let Parameters { most } = attached.parameters.read().map_err(|e| e.to_string())?;
//!     Ok(Arc::new(Small { most }))
//! })?;
//! let specs: Vec<PluginSpec> = serde_json::from_str(r#"[{"plugin":"small","order":5,"most":10}, {"plugin":"stats"}]"#)?;
//! let chain = plugins.chain(GeneratorKind::Uniq64, &"orders".parse()?, &specs)?;
//! assert_eq!(chain.map(|chain| chain.names().map(str::to_owned).collect()), Some(vec!["small".to_owned(), "stats".to_owned()]));
//! # Ok(())
//! # }
//! ```

mod accounts;
pub(crate) mod call;
mod caller_limit;
mod chain;
mod histogram;
pub mod history;
mod limiter;
mod quota;
mod refusals;
mod registry;
mod rest;
mod shares;
mod stats;

#[cfg(test)]
mod tests;

#[cfg(feature = "server")]
pub(crate) use accounts::Account;
pub(crate) use accounts::AccountHolder;
pub use call::{Call, Caller, DETAIL_LEN_MAX, Failure, IdRange, Needs, Outgoing, PluginRefusal, Stage};
pub(crate) use caller_limit::{CallerLimit, CallerPermit};
pub use chain::{Chain, Passed};
pub use common::plugin::{
    By, Mode, ORDERS, PLUGINS_MAX, Parameter, Parameters, PluginName, PluginSpec, QuotaSpec, SpecError,
};
pub use quota::ACCOUNTS_MAX;
pub use refusals::{RefusalHandler, Refusals};
pub use registry::{Attached, Factory, Plugins};
pub use rest::PANICS_MAX;
pub(crate) use rest::Rest;
pub(crate) use shares::Shares;
pub(crate) use stats::SERIES as STATS;
pub use stats::StatsSnapshot;

use common::kind::Kind;

/// A plugin around minting; see the [module](self) for when its methods run.
pub trait Plugin: Send + Sync {
    /// The name that it has in refusals and in the log. Asked once for each name that it is attached to.
    fn name(&self) -> &str;

    /// The parts of answers that it looks at. Asked once for each name, by the name's kind.
    fn needs(&self, kind: Kind) -> Needs {
        let _ = kind;
        Needs::Count
    }

    /// A call came; no ID is taken yet.
    ///
    /// # Errors
    /// [`PluginRefusal`]: the caller gets it, and no ID.
    fn before(&self, call: &Call<'_>) -> Result<(), PluginRefusal> {
        let _ = call;
        Ok(())
    }

    /// The IDs are taken and about to leave, if all plugins agree.
    ///
    /// # Errors
    /// [`PluginRefusal`]: the caller gets it, and the IDs are a gap.
    fn after(&self, call: &Call<'_>, outgoing: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        let _ = (call, outgoing);
        Ok(())
    }

    /// All plugins agreed: the answer leaves.
    fn done(&self, call: &Call<'_>, outgoing: &Outgoing<'_>) {
        let _ = (call, outgoing);
    }

    /// A call whose `before` passed gets no ID.
    fn failed(&self, call: &Call<'_>, failure: &Failure<'_>) {
        let _ = (call, failure);
    }
}
