//! A name by which IDs are minted: the series that gives its numbers, the plugins that stand around that, and what writes them.

use super::series::Series;
use super::writer::Writer;
use crate::plugin::{Chain, Needs};
use crate::refusal::Refusal;
use common::encoding::Encoding;
use common::kind::Kind;
use common::namespace::Namespace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A named generator.
#[derive(Debug)]
pub struct Generator {
    number: u64,
    /// That of the definition, at hand.
    kind: Kind,
    namespace: Arc<Namespace>,
    /// Not to be had outside but by [`unguarded`](Self::unguarded): there is no way round a name's plugins.
    pub(super) series: Series,
    /// `None`: nobody is asked.
    pub(super) chain: Option<Arc<Chain>>,
    pub(super) writer: Writer,
    /// Nothing is minted by its name any more: the registry says why.
    ended: AtomicBool,
}

impl Generator {
    pub(super) fn new(namespace: Namespace, series: Series, chain: Option<Arc<Chain>>, writer: Writer) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (number, ended) = (NEXT.fetch_add(1, Ordering::Relaxed), AtomicBool::new(false));
        Arc::new(Self { number, kind: namespace.kind(), namespace: Arc::new(namespace), series, chain, writer, ended })
    }

    /// A number that no other generator of this process has.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its definition.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// The kind of its IDs.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Tells whether it has a name, as all have but those of a kind that has none.
    pub(super) fn has_name(&self) -> bool {
        self.kind.spec().definition.is_some()
    }

    /// The encoding of its numbers when nothing else is said; `None` of strings, and of numbers in decimal.
    ///
    /// # Errors
    /// [`Refusal::CannotWrite`].
    pub fn encoding(&self) -> Result<Option<&Arc<Encoding>>, Refusal> {
        self.writer.encoding()
    }

    /// Tells whether nothing is minted by its name any more. What was taken of a window that it shares is a gap then.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends it; whether it had not ended before.
    pub(super) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Tells whether nothing stands around minting by its name: no plugin, and no strategy that makes all texts of an answer.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.chain.is_none() && !self.writer.is_strategy()
    }

    /// Its series, if nothing stands around minting by this name.
    pub(crate) fn unguarded(&self) -> Option<&Series> {
        let free = self.is_alone() && !self.writer.hides() && !self.has_ended();
        free.then_some(&self.series)
    }

    /// The parts of answers that plugins are shown.
    pub(super) fn needs(&self) -> Needs {
        self.chain.as_ref().map_or(Needs::Count, |chain| chain.needs())
    }

    /// Tells whether all texts of an answer are in memory at once, because somebody sees or makes them.
    pub(crate) fn keeps_texts(&self) -> bool {
        self.writer.is_strategy() || self.needs() >= Needs::Texts
    }
}
