//! The plugins that there are, and their attachment to names.

use super::history::{History, Recorder};
use super::quota::{Quota, Room};
use super::{Call, Chain, Plugin, PluginRefusal, SpecError, StatsSnapshot, stats};
use common::kind::Kind;
use common::namespace::GeneratorName;
use common::panics::caught;
use common::plugin::{HistorySpec, Parameters, PluginName, PluginSpec, StatsSpec};
use common::time::BootMs;
use net::rpc::mint::MintCode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Plugins that applications may register.
const REGISTERED_MAX: usize = 256;
/// The orders of plugins that say none: `stats` sees what all others refuse, `history` what all others let pass.
const STATS_ORDER: i32 = 10;
const QUOTA_ORDER: i32 = 20;
const CUSTOM_ORDER: i32 = 50;
const HISTORY_ORDER: i32 = 90;
const BUILT_IN: [&str; 3] = ["quota", "history", "stats"];

/// A name that a plugin is made for.
#[derive(Clone, Copy, Debug)]
pub struct Attached<'a> {
    /// The kind of its IDs.
    pub kind: Kind,
    /// The name.
    pub name: &'a GeneratorName,
    /// The parameters in its definition.
    pub parameters: &'a Parameters,
}

/// Makes a plugin for a name, or hands out one that several names share; says why not, for whoever wrote the definition.
pub type Factory = Arc<dyn Fn(Attached<'_>) -> Result<Arc<dyn Plugin>, String> + Send + Sync>;

/// The plugins that an agent has.
#[derive(Default)]
pub struct Plugins {
    factories: BTreeMap<String, Factory>,
    history: Option<Arc<History>>,
    stats: stats::Table,
    room: Room,
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let registered: Vec<_> = self.factories.keys().collect();
        f.debug_struct("Plugins")
            .field("registered", &registered)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

impl Plugins {
    /// `quota` and `stats`.
    pub fn new() -> Self {
        Self::default()
    }

    /// With `history`, which this writes.
    #[must_use]
    pub fn with_history(self, history: Arc<History>) -> Self {
        Self { history: Some(history), ..self }
    }

    /// Adds a plugin of the application's own, by which definitions may name it.
    ///
    /// # Errors
    /// [`SpecError`] if the name is not one, or taken, or there are too many (256).
    pub fn register(
        &mut self,
        name: &str,
        factory: impl Fn(Attached<'_>) -> Result<Arc<dyn Plugin>, String> + Send + Sync + 'static,
    ) -> Result<(), SpecError> {
        let name: PluginName = name.parse()?;
        if BUILT_IN.contains(&name.as_str()) || self.factories.contains_key(name.as_str()) {
            return Err(SpecError::of(&name, "there is a plugin of that name"));
        }
        if self.factories.len() >= REGISTERED_MAX {
            return Err(SpecError::of(&name, format!("at most {REGISTERED_MAX} plugins are registered")));
        }
        self.factories.insert(name.as_str().to_owned(), Arc::new(factory));
        Ok(())
    }

    /// The plugins of that name, as its definition says; `None` if it has none. Accounts of quotas begin anew.
    ///
    /// # Errors
    /// [`SpecError`] if there is no such plugin here, or its parameters make no sense.
    pub fn chain(
        &self,
        kind: Kind,
        name: &GeneratorName,
        specs: &[PluginSpec],
    ) -> Result<Option<Arc<Chain>>, SpecError> {
        common::plugin::check(specs)?;
        let mut plugins = Vec::new();
        for (place, spec) in specs.iter().enumerate() {
            let once = ["history", "stats"].contains(&spec.plugin.as_str());
            if once && specs.iter().take(place).any(|before| before.plugin == spec.plugin) {
                return Err(SpecError::of(&spec.plugin, "a name has it once"));
            }
            plugins.push(self.make(kind, name, spec)?);
        }
        let chain = Chain::new(kind, name.clone(), plugins)
            .map_err(|why| SpecError::new(format!("a plugin panicked: {why}")))?;
        Ok(chain.map(Arc::new))
    }

    /// The same; but of a name whose plugins cannot be made here, one that refuses every call with the reason: without them
    /// its IDs shall not leave.
    pub fn chain_or_refuse(&self, kind: Kind, name: &GeneratorName, specs: &[PluginSpec]) -> Option<Arc<Chain>> {
        self.chain(kind, name, specs).unwrap_or_else(|why| {
            tracing::error!(%kind, %name, %why, "the plugins of a name cannot be made; it gives no IDs here");
            let plugin: Arc<dyn Plugin> = Arc::new(Missing(why.to_string()));
            // It does not panic, and it is one.
            Chain::new(kind, name.clone(), [(0, plugin)]).ok().flatten().map(Arc::new)
        })
    }

    fn make(&self, kind: Kind, name: &GeneratorName, spec: &PluginSpec) -> Result<(i32, Arc<dyn Plugin>), SpecError> {
        let PluginSpec { plugin, order, parameters } = spec;
        let wrong = |why: SpecError| SpecError::of(plugin, why);
        let (default, made): (i32, Arc<dyn Plugin>) = match plugin.as_str() {
            "quota" => (QUOTA_ORDER, Arc::new(Quota::new(parameters.read().map_err(wrong)?, self.room.clone()))),
            "stats" => {
                let StatsSpec {} = parameters.read().map_err(wrong)?;
                (STATS_ORDER, self.stats.of(kind, name))
            }
            "history" => {
                let HistorySpec { mode } = parameters.read().map_err(wrong)?;
                let none = || SpecError::of(plugin, "this agent keeps no history; give it a folder for it");
                (HISTORY_ORDER, Arc::new(Recorder::new(self.history.clone().ok_or_else(none)?, mode)))
            }
            other => {
                let factory = self.factories.get(other).ok_or_else(|| {
                    let there_are = BUILT_IN.into_iter().chain(self.factories.keys().map(String::as_str));
                    SpecError::of(
                        plugin,
                        format!("there is no such plugin here, but {}", there_are.collect::<Vec<_>>().join(", ")),
                    )
                })?;
                let made = caught(|| factory(Attached { kind, name, parameters }));
                let made = made.unwrap_or_else(|panic| Err(format!("it panicked: {panic}")));
                (CUSTOM_ORDER, made.map_err(|why| SpecError::of(plugin, why))?)
            }
        };
        Ok((order.unwrap_or(default), made))
    }

    /// The counts of `stats` for each name that has it.
    pub fn stats(&self, now: BootMs) -> Vec<StatsSnapshot> {
        self.stats.snapshot(now)
    }

    /// Forgets the `stats` of a name that gives no more IDs.
    pub fn forget(&self, kind: Kind, name: &GeneratorName) {
        self.stats.forget(kind, name);
    }

    /// The writer of history, if there is one.
    pub fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }
}

/// A stand-in for plugins that cannot be made.
struct Missing(String);

impl Plugin for Missing {
    fn name(&self) -> &str {
        "missing"
    }

    fn before(&self, _: &Call<'_>) -> Result<(), PluginRefusal> {
        Err(PluginRefusal::new(MintCode::Overloaded, format!("no IDs by this name here: {}", self.0)))
    }
}
