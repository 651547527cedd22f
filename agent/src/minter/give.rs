//! The only ways on which IDs leave this module, but for a thread's own blocks ([`Generator::unguarded`]): what stands
//! around minting by a name is asked and told here, whoever asks for IDs and however they wait.

use super::{Generator, Minter};
use crate::plugin::{Call, Caller, IdRange, Needs, Outgoing, Passed, PluginRefusal};
use crate::refusal::Refusal;
use crate::run::{Run, Runs};
use common::kind::Kind;
use common::layout::Stretch;
use common::template::CallerParts;
use engine::broken;
use std::sync::Arc;

/// Texts of more IDs than this are made by a strategy on a thread that may block.
const INLINE_MAX: u32 = 4_000;

/// The form in which the IDs of an answer leave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaves<'a> {
    /// Numbers or bytes.
    Numbers,
    /// Texts that the protocol writes, in whatever form was asked for, with the caller's parts in strings. Plugins see the name's
    /// own: so history finds an ID however it was asked for.
    Streamed(&'a CallerParts),
    /// The name's own texts, with the caller's parts in strings.
    Texts(&'a CallerParts),
}

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct Minted {
    pub(crate) runs: Runs,
    /// Texts that leave instead of the runs: where [texts](Leaves::Texts) were asked for, and where a strategy made
    /// them.
    pub(crate) texts: Option<Vec<String>>,
}

/// A plugin's refusal; whether IDs were `taken` for the call, which are a gap then.
fn by_plugin(refusal: &PluginRefusal, taken: bool) -> Refusal {
    let (plugin, detail) = (refusal.plugin().to_owned(), refusal.detail().to_owned());
    Refusal::ByPlugin { plugin, code: refusal.code(), detail, retry: refusal.retry(), taken }
}

impl Minter {
    /// `n` IDs, at least 1, for this process; Uniq96 are all of one millisecond.
    ///
    /// # Errors
    /// Any [`Refusal`]; then no ID was given. Serials that the window still had, fewer than were asked for, may be a gap:
    /// if nobody else took serials meanwhile they are given back, but not by a request that found no room in the queue or
    /// waited too long. A gap lowers what is left of the hour, day or tick; it repeats nothing.
    pub async fn mint(self: &Arc<Self>, generator: &Arc<Generator>, n: u32) -> Result<Runs, Refusal> {
        Ok(self.give(generator, n, Leaves::Numbers, Caller::IN_PROCESS).await?.runs)
    }

    /// The same, waiting on this thread; not for tasks.
    ///
    /// # Errors
    /// As [`mint`](Self::mint).
    pub fn mint_blocking(self: &Arc<Self>, generator: &Arc<Generator>, n: u32) -> Result<Runs, Refusal> {
        Ok(self.give_blocking(generator, n, Leaves::Numbers, Caller::IN_PROCESS)?.runs)
    }

    /// Gives `n` IDs, at least 1, after asking all that stands around minting by that name.
    ///
    /// # Errors
    /// As [`mint`](Self::mint); [`Refusal::ShareUsedUp`] for callers of other processes, and what a plugin says.
    pub(crate) async fn give(
        self: &Arc<Self>,
        generator: &Arc<Generator>,
        n: u32,
        leaves: Leaves<'_>,
        caller: Caller<'_>,
    ) -> Result<Minted, Refusal> {
        may_leave(generator, leaves)?;
        if generator.is_alone() && !matches!(leaves, Leaves::Texts(_)) {
            return Ok(Minted { runs: self.mint_by(generator, n, caller).await?, texts: None });
        }
        // Boxed, as most calls have no need of it.
        Box::pin(self.give_around(generator, n, leaves, caller)).await
    }

    async fn give_around(
        self: &Arc<Self>,
        generator: &Arc<Generator>,
        n: u32,
        leaves: Leaves<'_>,
        caller: Caller<'_>,
    ) -> Result<Minted, Refusal> {
        let passed = self.begin(generator, n, caller)?;
        let texts = matches!(leaves, Leaves::Texts(_)) || generator.keeps_texts();
        let minted = match self.mint_by(generator, n, caller).await {
            Ok(runs) if n > INLINE_MAX && texts && generator.writer.encodes() => {
                // Others are served meanwhile.
                let generator = Arc::clone(generator);
                let write = move || written(&generator, runs, Leaves::Texts(&CallerParts::default()));
                tokio::task::spawn_blocking(write).await.unwrap_or_else(|_| Err(broken()))
            }
            minted => minted.and_then(|runs| written(generator, runs, leaves)),
        };
        end(generator, passed, minted, leaves)
    }

    /// The same on a thread that may block.
    ///
    /// # Errors
    /// As [`give`](Self::give).
    pub(crate) fn give_blocking(
        self: &Arc<Self>,
        generator: &Arc<Generator>,
        n: u32,
        leaves: Leaves<'_>,
        caller: Caller<'_>,
    ) -> Result<Minted, Refusal> {
        may_leave(generator, leaves)?;
        if generator.is_alone() && !matches!(leaves, Leaves::Texts(_)) {
            return Ok(Minted { runs: self.mint_by_blocking(generator, n)?, texts: None });
        }
        let passed = self.begin(generator, n, caller)?;
        let minted = self.mint_by_blocking(generator, n).and_then(|runs| written(generator, runs, leaves));
        end(generator, passed, minted, leaves)
    }

    /// Asks the plugins, before any ID is taken.
    fn begin<'a>(&self, generator: &'a Generator, n: u32, caller: Caller<'a>) -> Result<Option<Passed<'a>>, Refusal> {
        if generator.has_ended() {
            return Err(self.names.why_ended(generator));
        }
        let now = self.time.now();
        let call = Call { kind: generator.kind(), name: generator.namespace().name().as_str(), n, caller, now };
        let passed = generator.chain.as_ref().map(|chain| chain.before(call)).transpose();
        let passed = passed.map_err(|refusal| by_plugin(&refusal, false))?;
        if generator.writer.rests(now.boot) {
            return Err(failed(passed, Refusal::StrategyRests));
        }
        Ok(passed)
    }
}

/// Refuses numbers that are hidden, and what cannot be written, before anything is taken.
fn may_leave(generator: &Generator, leaves: Leaves<'_>) -> Result<(), Refusal> {
    if generator.writer.hides() {
        generator.encoding()?;
        if matches!(leaves, Leaves::Numbers) {
            return Err(Refusal::OnlyTexts);
        }
    }
    Ok(())
}

/// Makes the texts of what was minted, where somebody sees or makes them.
fn written(generator: &Generator, runs: Runs, leaves: Leaves<'_>) -> Result<Minted, Refusal> {
    let none = CallerParts::default();
    let parts = match leaves {
        Leaves::Streamed(parts) | Leaves::Texts(parts) => parts,
        Leaves::Numbers => &none,
    };
    let wanted = matches!(leaves, Leaves::Texts(_)) || generator.keeps_texts();
    let texts = wanted.then(|| generator.writer.texts(&runs, parts)).transpose()?;
    Ok(Minted { runs, texts })
}

/// Tells the plugins that a call got no IDs.
fn failed(passed: Option<Passed<'_>>, refusal: Refusal) -> Refusal {
    if let Some(passed) = passed {
        passed.failed(&refusal);
    }
    refusal
}

/// Shows the plugins what is about to leave, or that nothing does.
fn end(
    generator: &Generator,
    passed: Option<Passed<'_>>,
    minted: Result<Minted, Refusal>,
    leaves: Leaves<'_>,
) -> Result<Minted, Refusal> {
    let Minted { runs, texts } = match minted {
        Ok(minted) => minted,
        Err(refusal) => return Err(failed(passed, refusal)),
    };
    if let Some(passed) = passed {
        let needs = generator.needs();
        let all = texts.as_deref().unwrap_or_default();
        let ranges = match leaves {
            _ if needs < Needs::Ranges => Vec::new(),
            // As they leave: a strategy is asked once.
            _ if generator.kind() == Kind::Layout && texts.is_some() => ranges_of(&runs, all),
            Leaves::Streamed(parts) | Leaves::Texts(parts) => ranges(generator, &runs, parts),
            Leaves::Numbers => ranges(generator, &runs, &CallerParts::default()),
        };
        let seen = if needs < Needs::Texts { &[] } else { all };
        passed.after(Outgoing::new(&ranges).with_texts(seen)).map_err(|e| by_plugin(&e, true))?;
    }
    let leave = matches!(leaves, Leaves::Texts(_)) || generator.writer.is_strategy();
    Ok(Minted { runs, texts: texts.filter(|_| leave) })
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

/// Ranges of IDs that follow each other: of kinds with numbers of their own those, of all others what one run has.
fn ranges(generator: &Generator, runs: &Runs, parts: &CallerParts) -> Vec<IdRange> {
    let mut all = Vec::new();
    for run in runs.iter() {
        if generator.kind().numbers().is_some() {
            all.extend(run.stretches().map(|Stretch { first, n, .. }| IdRange {
                first: first.to_string(),
                last: (first + u128::from(n) - 1).to_string(),
                count: n,
            }));
            continue;
        }
        let one = |start| Runs::from(Run { start, len: 1, ..run.clone() });
        let text = |start| generator.writer.texts(&one(start), parts).ok()?.pop();
        if let (Some(first), Some(last)) = (text(run.start), text(run.counters().end.saturating_sub(1))) {
            all.push(IdRange { first, last, count: run.len });
        }
    }
    all
}
