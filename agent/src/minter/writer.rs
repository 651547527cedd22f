//! Writing of a name's IDs when nothing else is said.

use crate::plugin::Rest;
use crate::refusal::Refusal;
use crate::run::Runs;
use common::encoding::{Encoding, InvalidEncoding, Secrets};
use common::namespace::Namespace;
use common::strategy::Strategies;
use common::template::CallerParts;
use common::time::BootMs;
use engine::broken;
use std::sync::Arc;

/// The writer of a name's IDs.
#[derive(Debug)]
pub(super) enum Writer {
    /// Numbers as they are.
    Decimal,
    /// The template of strings.
    Template,
    /// An encoding of numbers.
    Encoding(Arc<Encoding>),
    /// A strategy, which sees all numbers of a call at once and may refuse, and whether it is asked.
    Strategy(Arc<Encoding>, Rest),
    /// A writer that is missing: a secret or a strategy.
    Missing(InvalidEncoding),
}

impl Writer {
    /// The writer of a definition. A strategy gets ready here, which may take its time.
    pub(super) fn of(namespace: &Namespace, secrets: &Secrets, strategies: &Strategies) -> Self {
        match namespace.written_by(secrets, strategies) {
            Ok(Some(encoding)) if encoding.own().is_some() => Self::Strategy(encoding, Rest::default()),
            Ok(Some(encoding)) => Self::Encoding(encoding),
            Ok(None) if namespace.template().is_some() => Self::Template,
            Ok(None) => Self::Decimal,
            Err(why) => Self::Missing(why),
        }
    }

    /// Tells whether its texts are there to hide the numbers, which then leave on no way.
    pub(super) fn hides(&self) -> bool {
        match self {
            Self::Decimal | Self::Template => false,
            Self::Encoding(encoding) => encoding.hides(),
            // What can be missing hides.
            Self::Strategy(..) | Self::Missing(_) => true,
        }
    }

    /// Tells whether all texts of an answer have to be there before its first byte leaves, as making them may fail.
    pub(super) fn is_strategy(&self) -> bool {
        matches!(self, Self::Strategy(..))
    }

    /// Tells whether making its texts takes much longer than taking the numbers.
    pub(super) fn encodes(&self) -> bool {
        matches!(self, Self::Encoding(_) | Self::Strategy(..))
    }

    /// Tells whether a strategy panics each time, and is not asked now.
    pub(super) fn rests(&self, now: BootMs) -> bool {
        matches!(self, Self::Strategy(_, rest) if rest.rests(now))
    }

    /// The encoding of numbers; `None` of strings, and of numbers in decimal.
    ///
    /// # Errors
    /// [`Refusal::CannotWrite`].
    pub(super) fn encoding(&self) -> Result<Option<&Arc<Encoding>>, Refusal> {
        match self {
            Self::Decimal | Self::Template => Ok(None),
            Self::Encoding(encoding) | Self::Strategy(encoding, _) => Ok(Some(encoding)),
            Self::Missing(why) => Err(Refusal::CannotWrite(why.clone())),
        }
    }

    /// The text of each ID, with the caller's parts in strings.
    ///
    /// # Errors
    /// [`Refusal::CannotWrite`], [`Refusal::StrategyFailed`].
    pub(super) fn texts(&self, runs: &Runs, parts: &CallerParts) -> Result<Vec<String>, Refusal> {
        let texts: Vec<_> = match self {
            Self::Decimal => runs.numbers().map(|number| number.to_string()).collect(),
            Self::Template => runs.texts(parts),
            Self::Encoding(encoding) => runs.numbers().filter_map(|number| encoding.text(number)).collect(),
            Self::Strategy(encoding, rest) => by_strategy(encoding, rest, runs)?,
            Self::Missing(why) => return Err(Refusal::CannotWrite(why.clone())),
        };
        // An encoding says of no number that it has no text; if one has none, better none leaves than one unseen.
        if texts.len() == runs.len() { Ok(texts) } else { Err(broken()) }
    }
}

fn by_strategy(encoding: &Encoding, rest: &Rest, runs: &Runs) -> Result<Vec<String>, Refusal> {
    let own = encoding.own().ok_or_else(broken)?;
    let numbers: Vec<_> = runs.numbers().collect();
    let texts = own.texts(&numbers);
    match &texts {
        Err(fault) if fault.is_panic() => rest.panicked(),
        _ => rest.works(),
    }
    texts.map_err(Refusal::StrategyFailed)
}
