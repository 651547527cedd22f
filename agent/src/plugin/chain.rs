//! The plugins of one name, run by their order, so that none of them can do more harm than refuse.

use super::limiter::Limiter;
use super::rest::Rest;
use super::{Call, Failure, Needs, Outgoing, Plugin, PluginRefusal, Stage};
use crate::refusal::Refusal;
use common::kind::Kind;
use common::namespace::GeneratorName;
use common::panics::caught;
use net::rpc::mint::MintCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A plugin, attached to one name.
struct PluginInChain {
    order: i32,
    called: String,
    plugin: Arc<dyn Plugin>,
    needs: Needs,
    rest: Rest,
    said: Limiter,
}

/// The plugins of one name, in their order.
pub struct Chain {
    kind: Kind,
    name: GeneratorName,
    links: Vec<PluginInChain>,
    needs: Needs,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let links: Vec<_> = self.links.iter().map(|link| (link.order, &link.called)).collect();
        f.debug_struct("Chain").field("kind", &self.kind).field("name", &self.name).field("links", &links).finish()
    }
}

impl PluginInChain {
    /// Runs one method of the plugin.
    fn run<T>(
        &self,
        chain: &Chain,
        method: &'static str,
        call: impl FnOnce(&dyn Plugin) -> T,
    ) -> Result<T, PluginRefusal> {
        match caught(|| call(self.plugin.as_ref())) {
            Ok(done) => Ok(done),
            Err(panic) => {
                self.rest.panicked();
                self.log(chain, method, &panic);
                Err(self.broken())
            }
        }
    }

    fn broken(&self) -> PluginRefusal {
        let why = format!("the plugin '{}' does not work; this agent's log says why", self.called);
        self.named(PluginRefusal::unavailable(why))
    }

    fn named(&self, mut refusal: PluginRefusal) -> PluginRefusal {
        refusal.plugin.clone_from(&self.called);
        refusal
    }

    fn log(&self, chain: &Chain, method: &'static str, why: &str) {
        if let Some(left_out) = self.said.admit() {
            let (kind, name, plugin) = (chain.kind, &chain.name, &self.called);
            tracing::error!(%kind, %name, %plugin, method, %why, left_out, "a plugin failed; its call is refused");
        }
    }

    fn before(&self, chain: &Chain, call: &Call<'_>) -> Result<(), PluginRefusal> {
        if self.rest.rests(call.now.boot) {
            return Err(self.broken());
        }
        self.run(chain, "before", |plugin| plugin.before(call))?.map_err(|refusal| {
            self.rest.works();
            self.named(refusal)
        })
    }

    fn after(&self, chain: &Chain, call: &Call<'_>, outgoing: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        self.run(chain, "after", |plugin| plugin.after(call, outgoing))?.map_err(|refusal| {
            self.log(chain, "after", refusal.detail());
            self.named(refusal)
        })
    }
}

impl Chain {
    /// The plugins of that name. Of equal order, the one that comes first here runs first. `None` if there are none: then
    /// nothing is run.
    ///
    /// # Errors
    /// The name of no plugin, and what it said, if it panics when it is asked for its name and needs.
    pub fn new(
        kind: Kind,
        name: GeneratorName,
        plugins: impl IntoIterator<Item = (i32, Arc<dyn Plugin>)>,
    ) -> Result<Option<Self>, String> {
        let link = |(order, plugin): (i32, Arc<dyn Plugin>)| {
            let (called, needs) = caught(|| (plugin.name().to_owned(), plugin.needs(kind)))?;
            Ok(PluginInChain { order, called, plugin, needs, rest: Rest::default(), said: Limiter::default() })
        };
        let mut links = plugins.into_iter().map(link).collect::<Result<Vec<_>, String>>()?;
        links.sort_by_key(|link| link.order);
        let needs = links.iter().map(|link| link.needs).max();
        Ok(needs.map(|needs| Self { kind, name, links, needs }))
    }

    /// The kind of IDs that the plugins are attached to.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name that they are attached to.
    pub fn name(&self) -> &GeneratorName {
        &self.name
    }

    /// The names of the plugins, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|link| link.called.as_str())
    }

    /// The parts to be put into [`Outgoing`].
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Asks every plugin whether the call may have IDs.
    ///
    /// # Errors
    /// The first plugin's refusal; those before it were told.
    pub fn before<'a>(&'a self, call: Call<'a>) -> Result<Passed<'a>, PluginRefusal> {
        // Ends the call of those that have passed, whatever panics outside the plugins.
        let mut passed = Passed { chain: self, call, started: Instant::now(), passed: 0 };
        for link in &self.links {
            if let Err(refusal) = link.before(self, &call) {
                passed.fail(&Failure::by_plugin(&refusal, Stage::Before));
                return Err(refusal);
            }
            passed.passed += 1;
        }
        Ok(passed)
    }
}

/// A call that all plugins let pass, and that has to be ended by [`after`](Self::after) or [`failed`](Self::failed). If it is
/// dropped before, as when a caller goes away, the plugins are told that it was given up.
#[derive(Debug)]
#[must_use = "the plugins have to be told how the call ends"]
pub struct Passed<'a> {
    chain: &'a Chain,
    call: Call<'a>,
    started: Instant,
    /// The number of plugins that wait to be told how it ends.
    passed: usize,
}

impl Passed<'_> {
    /// The IDs are taken: tells every plugin, and says whether they may leave.
    ///
    /// # Errors
    /// The first plugin's refusal; then the IDs are a gap.
    pub fn after(mut self, outgoing: Outgoing<'_>) -> Result<(), PluginRefusal> {
        let (chain, call) = (self.chain, self.call);
        let outgoing = &outgoing.took(self.elapsed());
        for link in &chain.links {
            if let Err(refusal) = link.after(chain, &call, outgoing) {
                self.fail(&Failure::by_plugin(&refusal, Stage::After));
                return Err(refusal);
            }
        }
        self.passed = 0;
        for link in &chain.links {
            // Too late to refuse: the log has it.
            if link.run(chain, "done", |plugin| plugin.done(&call, outgoing)).is_ok() {
                link.rest.works();
            }
        }
        Ok(())
    }

    /// Minting refused it: tells every plugin.
    pub fn failed(mut self, refusal: &Refusal) {
        self.fail(&Failure::of(refusal, &refusal.to_string()));
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn fail(&mut self, failure: &Failure<'_>) {
        let failure = failure.took(self.elapsed());
        let passed = std::mem::take(&mut self.passed);
        for link in self.chain.links.iter().take(passed) {
            let _ = link.run(self.chain, "failed", |plugin| plugin.failed(&self.call, &failure));
        }
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        if self.passed != 0 {
            let detail = "nobody waits for the answer any more";
            self.fail(&Failure {
                code: MintCode::Overloaded,
                detail,
                retry: None,
                stage: Stage::GivenUp,
                plugin: None,
                elapsed: Duration::ZERO,
            });
        }
    }
}
