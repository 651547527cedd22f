//! Minting by names that have plugins.
//!
//! Such a name is known by a generator without serials of its own, which has the plugins and stands before the generator that
//! mints: its window is closed for ever, it has no ticks and no number that the engine knows. So a way to IDs that does
//! not come by here gets none. Names without plugins do not come by here, but for two: those whose texts a strategy makes, because all
//! texts of an answer have to be there before its first byte leaves, as the strategy may fail; and Uniq64 with an encoding, so
//! that the ways on which all others leave need not look for one.

use super::{Generator, Minter, Source, SourceRef};
use crate::engine::broken;
use crate::gate::{Layout, Prefix};
use crate::plugin::{Call, Caller, Chain, IdRange, Needs, Outgoing, Passed, PluginRefusal, Plugins, Refusals, Rest};
use crate::refusal::Refusal;
use crate::run::{Run, Runs, stretches};
use crate::window::Window;
use arc_swap::ArcSwap;
use common::encoding::{EncodingForm, EncodingSource};
use common::kind::Kind;
use common::namespace::Namespace;
use common::template::CallerParts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

/// Texts of more IDs than this are made on a thread that may block.
#[cfg(feature = "server")]
const INLINE_MAX: u32 = 4_000;
/// The number of no series of the engine.
const NO_SERIES: usize = usize::MAX;

/// What stands before a generator.
#[derive(Debug)]
pub(super) struct Plugged {
    chain: Arc<Chain>,
    /// What mints; of another name for `default`, the generator of `default`.
    inner: Arc<Generator>,
    /// Whether texts leave as its encoding writes them, all at once.
    written: Option<Texts>,
}

/// By what the texts of an answer are made here.
#[derive(Debug)]
pub(super) enum Texts {
    /// A strategy, and whether it is asked.
    Strategy(Rest),
    /// The encoding of a Uniq64.
    Encoding,
}

/// What the plugins are told of an answer: how its IDs leave.
pub(crate) enum Leaves<'a> {
    /// As numbers or bytes.
    Numbers,
    /// As texts, with the caller's parts in strings. Plugins see the name's own, whatever form they leave in: so history finds
    /// an ID however it was asked for.
    Texts(&'a CallerParts),
}

impl Leaves<'_> {
    fn as_texts(&self) -> bool {
        matches!(self, Self::Texts(_))
    }
}

/// What a call gets.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) runs: Runs,
    /// What leaves instead of what the runs would be written as.
    pub(crate) texts: Option<Vec<String>>,
}

/// A plugin's refusal; whether IDs were `taken` for the call, which are a gap then.
fn by_plugin(refusal: &PluginRefusal, taken: bool) -> Refusal {
    let (plugin, detail) = (refusal.plugin().to_owned(), refusal.detail().to_owned());
    Refusal::ByPlugin { plugin, code: refusal.code(), detail, retry: refusal.retry(), taken }
}

/// By what the texts of that name are made here, if they are.
pub(super) fn texts_of(namespace: &Namespace) -> Option<Texts> {
    match namespace.encoding().map(EncodingSource::form) {
        Some(EncodingForm::Strategy) => Some(Texts::Strategy(Rest::default())),
        _ => namespace.written().map(|_| Texts::Encoding),
    }
}

/// A generator that stands before `inner` with the plugins of `namespace`.
fn plugged(
    namespace: Namespace,
    chain: Arc<Chain>,
    inner: &Arc<Generator>,
    encoding: Option<super::Written>,
) -> Option<Arc<Generator>> {
    let layout = Layout::of(&namespace)?;
    let inner = Arc::clone(inner);
    let written = texts_of(&namespace);
    Some(Arc::new(Generator {
        id: NO_SERIES,
        number: Generator::next_number(),
        layout,
        window: ArcSwap::from_pointee(Window::closed(Prefix::Void)),
        windows_ended: AtomicU64::new(0),
        bucket_before: 0,
        exhausted_until: AtomicI64::new(i64::MIN),
        axis: None,
        encoding,
        begun: AtomicBool::new(false),
        tally: Default::default(),
        ended: AtomicBool::new(false),
        fetching: None,
        namespace,
        plugged: Some(Plugged { chain, inner, written }),
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
        self.plugged.as_ref().map(|plugged| match plugged.written {
            // Its texts are all there before one leaves.
            Some(_) => plugged.chain.needs().max(Needs::Texts),
            None => plugged.chain.needs(),
        })
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
    pub(super) fn plugged(
        &self,
        namespace: &Namespace,
        inner: &Arc<Generator>,
        encoding: Option<super::Written>,
    ) -> Option<Option<Arc<Generator>>> {
        let (kind, name) = (namespace.kind(), namespace.name());
        let chain = match namespace.plugins() {
            [] if texts_of(namespace).is_some() => Arc::new(Chain::of_none(kind, name.clone())),
            [] => return Some(None),
            plugins => self.plugins().chain_or_refuse(kind, name, plugins)?,
        };
        plugged(namespace.clone(), chain, inner, encoding).map(Some)
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
            return Ok(Given { runs: self.mint_by(Some(caller), from, n).await?, texts: None });
        };
        let (plugged, passed) = self.begin(generator, n, caller, &leaves)?;
        let minted = self.mint_by(Some(caller), SourceRef::from(&plugged.inner), n).await;
        if plugged.written.is_none() || !leaves.as_texts() || n <= INLINE_MAX {
            return end(generator, plugged, passed, minted, &leaves, None);
        }
        // Others are served meanwhile.
        let (same, made) = (Arc::clone(generator), |same: &Generator, minted: Result<Runs, Refusal>| {
            let own = minted.as_ref().ok().map(|runs| own_texts(same, runs));
            (minted, own)
        });
        let done = tokio::task::spawn_blocking(move || made(&same, minted)).await;
        let (minted, own) = done.unwrap_or_else(|_| (Err(broken()), None));
        end(generator, plugged, passed, minted, &leaves, own)
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
        end(generator, plugged, passed, minted, &leaves, None)
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
        if plugged.written.is_some() {
            let hides = generator.encoding()?.is_some_and(|encoding| encoding.hides());
            if hides && !leaves.as_texts() {
                return Err(Refusal::OnlyTexts);
            }
        }
        let call = Call { kind: generator.kind(), name, n, caller, now: self.now() };
        let passed = plugged.chain.before(call).map_err(|refusal| by_plugin(&refusal, false))?;
        if let Some(Texts::Strategy(rest)) = &plugged.written
            && rest.rests(call.now.boot)
        {
            passed.failed(&Refusal::StrategyRests);
            return Err(Refusal::StrategyRests);
        }
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
    own: Option<Result<Vec<String>, Refusal>>,
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
        Leaves::Texts(parts) => parts,
        Leaves::Numbers => &no_parts,
    };
    let own = own.or_else(|| {
        let written = plugged.written.as_ref().filter(|_| leaves.as_texts());
        written.map(|written| made(generator, written, &runs))
    });
    let own = match own.transpose() {
        Ok(texts) => texts,
        Err(refusal) => {
            passed.failed(&refusal);
            return Err(refusal);
        }
    };
    let ranges = match &own {
        _ if needs < Needs::Ranges => Vec::new(),
        // As they leave: a strategy is asked once.
        Some(texts) if generator.kind() == Kind::Layout => ranges_of(&runs, texts),
        _ => ranges(generator, &runs, parts),
    };
    let leave_as_own = own.is_some();
    let texts = match leaves {
        _ if leave_as_own => own.unwrap_or_default(),
        _ if needs < Needs::Texts => Vec::new(),
        _ => texts(generator, &runs, parts),
    };
    if (leave_as_own || needs >= Needs::Texts) && texts.len() != runs.len() {
        // Some have no text, which their encoding does not say of any number; better none leaves than one unseen.
        let refusal = broken();
        passed.failed(&refusal);
        return Err(refusal);
    }
    passed.after(Outgoing::new(&ranges).with_texts(&texts)).map_err(|e| by_plugin(&e, true))?;
    Ok(Given { runs, texts: leave_as_own.then_some(texts) })
}

/// The same by the generator alone.
#[cfg(feature = "server")]
fn own_texts(generator: &Generator, runs: &Runs) -> Result<Vec<String>, Refusal> {
    let written = generator.plugged.as_ref().and_then(|plugged| plugged.written.as_ref()).ok_or_else(broken)?;
    made(generator, written, runs)
}

/// What the name's strategy, or its encoding, makes of the numbers that were minted.
fn made(generator: &Generator, written: &Texts, runs: &Runs) -> Result<Vec<String>, Refusal> {
    let encoding = generator.encoding()?.ok_or_else(broken)?;
    let Texts::Strategy(rest) = written else {
        return Ok(numbers(runs).filter_map(|number| encoding.text(number)).collect());
    };
    let own = encoding.own().ok_or_else(broken)?;
    let numbers: Vec<_> = numbers(runs).collect();
    let texts = own.texts(&numbers).map_err(|fault| {
        if fault.is_panic() {
            rest.panicked();
        } else {
            rest.works();
        }
        Refusal::StrategyFailed(fault)
    })?;
    rest.works();
    Ok(texts)
}

/// All IDs that are numbers which an encoding can write.
fn numbers(runs: &Runs) -> impl Iterator<Item = u128> {
    runs.numbers().chain(runs.uniq64().map(|id| id.bits().into()))
}

/// All IDs as the name's definition writes them.
fn texts(generator: &Generator, runs: &Runs, parts: &CallerParts) -> Vec<String> {
    match (&generator.encoding, generator.namespace.template()) {
        (Some(Ok(encoding)), _) => numbers(runs).filter_map(|number| encoding.text(number)).collect(),
        // Without its secret there is none; whoever asked for texts was told so before.
        (Some(Err(_)), _) => Vec::new(),
        (None, Some(_)) => runs.texts(parts),
        (None, None) => runs.decimals().collect(),
    }
}

/// The first and the last text of each run.
fn ranges_of(runs: &Runs, texts: &[String]) -> Vec<IdRange> {
    let (mut all, mut rest) = (Vec::new(), texts);
    for run in runs.iter() {
        let Some((own, after)) = rest.split_at_checked(run.len as usize) else { break };
        if let (Some(first), Some(last)) = (own.first(), own.last()) {
            all.push(IdRange { first: first.clone(), last: last.clone(), count: run.len });
        }
        rest = after;
    }
    all
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
