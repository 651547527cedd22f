//! What the minter tells about itself.

use super::series::Series;
use super::{Generator, Minter};
use crate::refusal::Refusal;
use crate::segments::View;
use crate::serial::caller_per_hour;
use crate::years::WARN_AHEAD;
use common::json::Whole;
use common::kind::Kind;
use common::layout::LayoutDefinition;
use common::namespace::{At, GeneratorName, Namespace, Preview};
use common::plugin::PluginSpec;
use common::rpc::mint::MintCode;
use common::segment::Span;
use common::time::WallMs;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happened since the start.
#[derive(Debug, Default)]
pub struct Counters {
    refused: [AtomicU64; MintCode::ALL.len()],
    pub(super) writes: AtomicU64,
    pub(super) write_failures: AtomicU64,
}

impl Counters {
    /// Counts a request for IDs that was refused, for whatever reason. Whoever answers it calls this.
    pub fn refuse(&self, code: MintCode) {
        if let Some(refused) = self.refused.get(code as usize) {
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests refused, by code.
    pub fn refused(&self) -> impl Iterator<Item = (MintCode, u64)> {
        MintCode::ALL.iter().copied().zip(self.refused.iter().map(|n| n.load(Ordering::Relaxed)))
    }

    /// Writes of the serial file and its lineage, failed ones included.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Writes that failed.
    pub fn write_failures(&self) -> u64 {
        self.write_failures.load(Ordering::Relaxed)
    }
}

/// A generator as `GET /generators` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct GeneratorView {
    /// Its name.
    pub name: GeneratorName,
    /// What it mints.
    pub kind: &'static str,
    /// The type of token it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<&'static str>,
    /// The template, for strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// For layouts: the preset, or the fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// True if its serial starts at 0 each day.
    pub everyday_reset: bool,
    /// The counter of the next ID; of plain numbers none: `segments` has the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// `kind`: no other name of its kind gives equal IDs. `own`: others may.
    pub scope: &'static str,
    /// What stands around minting by it.
    #[serde(skip_serializing_if = "<[PluginSpec]>::is_empty")]
    pub plugins: Box<[PluginSpec]>,
    /// The number of serials that are reserved at once at the moment.
    pub step: u32,
    /// IDs that one token has in one bucket.
    pub capacity: u64,
    /// How many of them are left in this one.
    pub capacity_left: u64,
    /// The bucket: hour, day or tick; of plain numbers `ever`.
    pub per: &'static str,
    /// Of plain numbers: the segments that are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentsView>,
    /// Set if what is left has to last until an hour, a day or another long tick is over.
    #[serde(skip)]
    pub has_serials: bool,
}

/// Segments that are held of a name.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SegmentsView {
    /// What is left of the one in use.
    pub current: Option<NumbersView>,
    /// The one after it.
    pub next: Option<NumbersView>,
    /// Numbers left in all of them.
    pub left: Whole,
    /// Segments that came since the start.
    pub fetched: u64,
    /// The masters say that there are no further ones.
    pub ended: bool,
}

/// From one number to another, both of them included.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NumbersView {
    /// The first number.
    pub first: Whole,
    /// The last one.
    pub last: Whole,
}

impl GeneratorView {
    /// A name by which no ID was given yet.
    pub fn of_unused(namespace: &Namespace) -> Self {
        let capacity = namespace.capacity();
        Self {
            name: namespace.name().clone(),
            kind: namespace.kind().name(),
            token_type: namespace.token_type().map(|token_type| token_type.name()),
            template: namespace.template().map(|template| template.source().to_owned()),
            layout: namespace.layout().map(LayoutDefinition::title),
            everyday_reset: namespace.everyday_reset(),
            serial: namespace.segments().is_none().then_some(0),
            scope: namespace.scope().name(),
            plugins: namespace.plugins().into(),
            step: namespace.step(),
            capacity,
            capacity_left: capacity,
            per: namespace.kind().spec().unit.name(),
            has_serials: namespace.has_serials(),
            segments: None,
        }
    }
}

impl SegmentsView {
    fn of(view: &View, generator: &Generator) -> Option<Self> {
        let definition = generator.namespace().segments()?;
        let numbers = |span: Span| {
            let (first, last) = (definition.number(span.from), definition.number(span.to.saturating_sub(1)));
            (!span.is_empty()).then_some(NumbersView { first: Whole(first), last: Whole(last) })
        };
        Some(Self {
            current: view.current.and_then(numbers),
            next: view.next.and_then(numbers),
            left: Whole(view.left),
            fetched: generator.series.serials()?.segments_fetched(),
            ended: view.ended,
        })
    }
}

impl Minter {
    /// What happened since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The meaning of a name, whether IDs are given by it or not, as far as this agent has heard.
    pub fn definition(&self, kind: Kind, name: &GeneratorName) -> Option<Namespace> {
        let default = || self.generators.default(kind).map(|generator| Arc::clone(generator.namespace()));
        let known = self.names.look(name.as_str(), |known| Arc::clone(&known.namespace)).or_else(default);
        known.filter(|known| known.kind() == kind && known.name() == name).map(|known| Namespace::clone(&known))
    }

    /// The result of a definition that was made here or tried, where sections of these sets are served.
    pub(crate) fn preview(&self, sets: Option<&[GeneratorName]>, namespace: Namespace, is_new: bool) -> Preview {
        // As it is served, which may be as it was registered long ago.
        let namespace = self.definition(namespace.kind(), namespace.name()).unwrap_or(namespace);
        let offset = self.membership().parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default();
        let at = At { now: self.wall(), offset, secrets: self.secrets(), strategies: self.strategies() };
        let width = namespace.sequences().map(|definition| definition.width());
        let (warning, key_per_hour_by_caller) = (self.warning(sets, &namespace), width.and_then(caller_per_hour));
        Preview { is_new, warning, key_per_hour_by_caller, ..namespace.preview(&at) }
    }

    /// All names, with what they stand for.
    pub fn namespaces(&self) -> Vec<Arc<Namespace>> {
        let defaults = Kind::NAMED.into_iter().filter_map(|kind| self.generators.default(kind));
        let names = self.names.all(|known| Some(Arc::clone(&known.namespace)));
        defaults.map(|generator| Arc::clone(generator.namespace())).chain(names).collect()
    }

    /// The names whose layout ends soon after `now`, or has ended, and when it does.
    pub fn layouts_ending(&self, now: WallMs) -> Vec<(GeneratorName, WallMs)> {
        let offset = self.membership().parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default();
        let ending = |generator: &Arc<Generator>| {
            let end = generator.namespace().layout()?.layout().ticks(offset).end;
            (end - now <= WARN_AHEAD).then(|| (generator.namespace().name().clone(), end))
        };
        self.generators.iter().filter_map(ending).collect()
    }

    /// All generators. Waits for the disk if it is being written.
    ///
    /// # Errors
    /// If minting has ended or the disk does not answer.
    pub async fn view(self: &Arc<Self>) -> Result<Vec<GeneratorView>, Refusal> {
        let turn = self.queue_up(None).await?;
        self.on_a_thread(turn, |minter| minter.view_now()).await?
    }

    fn view_now(&self) -> Result<Vec<GeneratorView>, Refusal> {
        let state = self.lock()?;
        let wall = self.wall();
        let view = |generator: &Arc<Generator>| {
            let (id, lent) = match &generator.series {
                Series::Serials(series) => (series.id, series.window.load().left()),
                Series::Ticks(series) => (series.id, 0),
            };
            let serial = state.engine.serial_view(id, wall, lent)?;
            Ok(GeneratorView {
                serial: serial.segments.is_none().then_some(serial.next),
                step: serial.step,
                capacity_left: serial.capacity_left,
                segments: serial.segments.and_then(|view| SegmentsView::of(&view, generator)),
                ..GeneratorView::of_unused(generator.namespace())
            })
        };
        self.generators.all().filter(|generator| generator.has_name()).map(view).collect()
    }
}
