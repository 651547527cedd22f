//! Minting by names that have plugins.
//!
//! Such a name is known by a generator without serials of its own, which has the plugins and stands before the generator that
//! mints: its window is closed for ever, it has no ticks and no number that the engine knows. So a way to IDs that does
//! not come by here gets none. Names without plugins do not come by here.

use super::{Generator, Minter, Source, SourceRef};
use crate::engine::broken;
use crate::gate::{Layout, Prefix};
use crate::plugin::call::NO_TEXTS;
use crate::plugin::{Call, Caller, Chain, IdRange, Needs, Outgoing, Passed, PluginRefusal, Plugins, Refusals};
use crate::refusal::Refusal;
use crate::run::{Run, Runs, stretches};
use crate::window::Window;
use arc_swap::ArcSwap;
use common::kind::{Kind, TextForm};
use common::namespace::Namespace;
use common::template::CallerParts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The number of no series of the engine.
const NO_SERIES: usize = usize::MAX;

/// What stands before a generator.
#[derive(Debug)]
pub(super) struct Plugged {
    chain: Arc<Chain>,
    /// What mints; of another name for `default`, the generator of `default`.
    inner: Arc<Generator>,
}

/// What the plugins are told of an answer: how its IDs leave.
pub(crate) enum Leaves<'a> {
    /// As numbers or bytes, which no plugin can change.
    Numbers,
    /// As the name's own texts, with the caller's parts in strings.
    Texts(&'a CallerParts),
    /// As texts that this writes, which may be of another form. Plugins that do not change them see the name's own: so
    /// history finds an ID however it was asked for.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only listeners are asked for other forms"))]
    Written(&'a CallerParts, &'a (dyn Fn(&Runs) -> Vec<String> + Send + Sync)),
}

impl Leaves<'_> {
    fn as_texts(&self) -> bool {
        matches!(self, Self::Texts(_) | Self::Written(..))
    }
}

/// What a call gets.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) runs: Runs,
    /// What leaves instead of what the runs would be written as, if plugins may have changed it.
    pub(crate) texts: Option<Vec<String>>,
}

/// A plugin's refusal; whether IDs were `taken` for the call, which are a gap then.
fn by_plugin(refusal: &PluginRefusal, taken: bool) -> Refusal {
    let (plugin, detail) = (refusal.plugin().to_owned(), refusal.detail().to_owned());
    Refusal::ByPlugin { plugin, code: refusal.code(), detail, retry: refusal.retry(), taken }
}

/// A generator that stands before `inner` with the plugins of `namespace`.
fn plugged(namespace: Namespace, chain: Arc<Chain>, inner: &Arc<Generator>) -> Option<Arc<Generator>> {
    let layout = Layout::of(&namespace)?;
    let inner = Arc::clone(inner);
    Some(Arc::new(Generator {
        id: NO_SERIES,
        number: Generator::next_number(),
        layout,
        window: ArcSwap::from_pointee(Window::closed(Prefix::Void)),
        windows_ended: AtomicU64::new(0),
        axis: None,
        encoding: inner.encoding.clone(),
        begun: AtomicBool::new(false),
        tally: Default::default(),
        ended: AtomicBool::new(false),
        namespace,
        plugged: Some(Plugged { chain, inner }),
    }))
}

impl Generator {
    /// Whether plugins stand before it.
    pub(crate) fn is_plugged(&self) -> bool {
        self.plugged.is_some()
    }

    /// What the plugins of this name look at of answers; `None` if there are no plugins.
    #[cfg(feature = "server")]
    pub(crate) fn needs(&self) -> Option<Needs> {
        self.plugged.as_ref().map(|plugged| plugged.chain.needs())
    }

    /// What mints by its name: itself, unless plugins stand before it.
    pub(super) fn beneath(self: &Arc<Self>) -> &Arc<Self> {
        self.plugged.as_ref().map_or(self, |plugged| &plugged.inner)
    }
}

impl Minter {
    /// With these plugins from now on: names that were learned before keep what they have. Without a call of this there are
    /// `quota` and `stats`. `false` if there are plugins already, because somebody said so or a name needed them.
    pub fn set_plugins(&self, plugins: Plugins) -> bool {
        self.plugins.set(plugins).is_ok()
    }

    /// The plugins that names can have here.
    pub fn plugins(&self) -> &Plugins {
        self.plugins.get_or_init(Plugins::new)
    }

    /// Who is told of calls that get no IDs.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// What stands before `inner` by that name; nothing if its definition has no plugins. `None` if it has some and they
    /// cannot be attached: then the name shall not be served.
    pub(super) fn plugged(&self, namespace: &Namespace, inner: &Arc<Generator>) -> Option<Option<Arc<Generator>>> {
        if namespace.plugins().is_empty() {
            return Some(None);
        }
        let chain = self.plugins().chain_or_refuse(namespace.kind(), namespace.name(), namespace.plugins())?;
        plugged(namespace.clone(), chain, inner).map(Some)
    }

    /// Tells of a call that gets no IDs, and counts it.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell(&self, kind: Kind, name: &str, n: u32, caller: Caller<'_>, refusal: &Refusal) {
        self.counters.refuse(refusal.code());
        self.refusals.tell_refusal(&Call { kind, name, n, caller, now: self.now() }, refusal);
    }

    /// The same of one that HTTP refused in its own words.
    #[cfg(feature = "server")]
    #[cold]
    #[inline(never)]
    pub(crate) fn tell_failure(
        &self,
        kind: Kind,
        name: &str,
        n: u32,
        caller: Caller<'_>,
        failure: &crate::plugin::Failure<'_>,
    ) {
        self.counters.refuse(failure.code);
        self.refusals.tell(&Call { kind, name, n, caller, now: self.now() }, failure);
    }

    /// `n` IDs, at least 1, of a source whose name may have plugins.
    ///
    /// # Errors
    /// As [`mint`](Self::mint), and what a plugin says.
    #[cfg(feature = "server")]
    pub(crate) async fn mint_for(
        self: &Arc<Self>,
        from: SourceRef<'_>,
        n: u32,
        caller: Caller<'_>,
        leaves: Leaves<'_>,
    ) -> Result<Given, Refusal> {
        let Source::Plugged(generator) = from else {
            return Ok(Given { runs: self.mint(from, n).await?, texts: None });
        };
        let (plugged, passed) = self.begin(generator, n, caller, &leaves)?;
        let minted = self.mint(SourceRef::from(&plugged.inner), n).await;
        end(generator, plugged, passed, minted, &leaves)
    }

    /// The same on a thread that may block.
    ///
    /// # Errors
    /// As [`mint_for`](Self::mint_for).
    pub(crate) fn mint_for_blocking(
        self: &Arc<Self>,
        from: SourceRef<'_>,
        n: u32,
        caller: Caller<'_>,
        leaves: Leaves<'_>,
    ) -> Result<Given, Refusal> {
        let Source::Plugged(generator) = from else {
            return Ok(Given { runs: self.mint_blocking(from, n)?, texts: None });
        };
        let (plugged, passed) = self.begin(generator, n, caller, &leaves)?;
        let minted = self.mint_blocking(SourceRef::from(&plugged.inner), n);
        end(generator, plugged, passed, minted, &leaves)
    }

    /// Asks the plugins, before any ID is taken.
    fn begin<'a>(
        &self,
        generator: &'a Arc<Generator>,
        n: u32,
        caller: Caller<'a>,
        leaves: &Leaves<'_>,
    ) -> Result<(&'a Plugged, Passed<'a>), Refusal> {
        let plugged = generator.plugged.as_ref().ok_or_else(broken)?;
        let name = generator.namespace.name().as_str();
        // What mints knows nothing of another name for `default` that has ended.
        if let Some(ended) = self.generators.ended(name) {
            return Err(ended);
        }
        let changes = plugged.chain.needs() == Needs::Changes;
        if changes && !leaves.as_texts() {
            return Err(Refusal::BadParameter(NO_TEXTS.to_owned()));
        }
        let call = Call { kind: generator.kind(), name, n, caller, now: self.now() };
        let passed = plugged.chain.before(call).map_err(|refusal| by_plugin(&refusal, false))?;
        Ok((plugged, passed))
    }
}

/// Shows the plugins what is about to leave, or that nothing does.
fn end(
    generator: &Generator,
    plugged: &Plugged,
    passed: Passed<'_>,
    minted: Result<Runs, Refusal>,
    leaves: &Leaves<'_>,
) -> Result<Given, Refusal> {
    let runs = match minted {
        Ok(runs) => runs,
        Err(refusal) => {
            passed.failed(&refusal);
            return Err(refusal);
        }
    };
    let needs = plugged.chain.needs();
    let no_parts = CallerParts::default();
    let parts = match leaves {
        Leaves::Texts(parts) | Leaves::Written(parts, _) => parts,
        Leaves::Numbers => &no_parts,
    };
    let ranges = if needs >= Needs::Ranges { ranges(generator, &runs, parts) } else { Vec::new() };
    let mut texts = match leaves {
        _ if needs < Needs::Texts => Vec::new(),
        Leaves::Written(_, write) if needs == Needs::Changes => write(&runs),
        _ => texts(generator, &runs, parts),
    };
    if needs >= Needs::Texts && texts.len() != runs.len() {
        // Some have no text, which their encoding does not say of any number; better none leaves than one unseen.
        let refusal = broken();
        passed.failed(&refusal);
        return Err(refusal);
    }
    if needs == Needs::Changes {
        passed.after(&mut Outgoing::new(&ranges).with_texts(&mut texts)).map_err(|e| by_plugin(&e, true))?;
        return Ok(Given { runs, texts: Some(texts) });
    }
    passed.after(&mut Outgoing::new(&ranges).with_fixed_texts(&texts)).map_err(|e| by_plugin(&e, true))?;
    Ok(Given { runs, texts: None })
}

/// All IDs as the name's definition writes them.
fn texts(generator: &Generator, runs: &Runs, parts: &CallerParts) -> Vec<String> {
    match (&generator.encoding, generator.namespace.template()) {
        (Some(Ok(encoding)), _) => runs.numbers().filter_map(|number| encoding.text(number)).collect(),
        // Without its secret there is none; whoever asked for texts was told so before.
        (Some(Err(_)), _) => Vec::new(),
        (None, Some(_)) => runs.texts(parts),
        (None, None) => runs.uniq64().map(|id| id.text(TextForm::Decimal)).collect(),
    }
}

/// What follows each other: of Uniq64 the numbers, of all others what one run has.
fn ranges(generator: &Generator, runs: &Runs, parts: &CallerParts) -> Vec<IdRange> {
    let mut all = Vec::new();
    for run in runs.iter() {
        if let Prefix::Number { prefix, numbers } = &run.prefix {
            let stretches = stretches(*prefix, numbers.serial_mask, run.start, run.len);
            all.extend(stretches.map(|(first, count)| IdRange {
                first: first.to_string(),
                last: (first + u64::from(count) - 1).to_string(),
                count,
            }));
            continue;
        }
        let one = |start| Runs::from(Run { start, len: 1, ..run.clone() });
        let text = |start| texts(generator, &one(start), parts).pop();
        if let (Some(first), Some(last)) = (text(run.start), text(run.counters().end.saturating_sub(1))) {
            all.push(IdRange { first, last, count: run.len });
        }
    }
    all
}
