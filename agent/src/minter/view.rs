//! Reports of names.

use super::series::Series;
use super::{Driver, Generator, Names, SegmentInUse};
use crate::refusal::Refusal;
use crate::segments::View;
use crate::years::WARN_AHEAD;
use common::calendar::UtcOffset;
use common::json::Whole;
use common::kind::Kind;
use common::layout::LayoutDefinition;
use common::namespace::{GeneratorName, Namespace};
use common::plugin::PluginSpec;
use common::segment::{Shown, Span};
use common::time::WallMs;
use engine::Engine;
use serde::Serialize;
use std::sync::Arc;

/// A generator as `GET /generators` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct GeneratorView {
    /// Its name.
    pub name: GeneratorName,
    /// The kind of IDs that it mints.
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
    /// The plugins around minting by it.
    #[serde(skip_serializing_if = "<[PluginSpec]>::is_empty")]
    pub plugins: Box<[PluginSpec]>,
    /// The number of serials that are reserved at once at the moment.
    pub step: u32,
    /// IDs that one token has in one bucket.
    pub capacity: u64,
    /// The number of them that are left in this one.
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
    /// The rest of the one in use.
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

impl Names {
    /// The meaning of a name, whether IDs are given by it or not, as far as this agent has heard.
    pub fn definition(&self, kind: Kind, name: &GeneratorName) -> Option<Namespace> {
        let default = || self.generators().default(kind).map(|generator| Arc::clone(generator.namespace()));
        let known = self.look(name.as_str(), |known| Arc::clone(&known.namespace)).or_else(default);
        known.filter(|known| known.kind() == kind && known.name() == name).map(|known| Namespace::clone(&known))
    }

    /// All names, with what they stand for.
    pub fn namespaces(&self) -> Vec<Arc<Namespace>> {
        let defaults = Kind::NAMED.into_iter().filter_map(|kind| self.generators().default(kind));
        let names = self.all(|known| Some(Arc::clone(&known.namespace)));
        defaults.map(|generator| Arc::clone(generator.namespace())).chain(names).collect()
    }

    /// The names whose layout ends soon after `now`, or has ended, and when it does, where the cluster counts in that offset.
    pub fn layouts_ending(&self, offset: UtcOffset, now: WallMs) -> Vec<(GeneratorName, WallMs)> {
        let ending = |generator: &Arc<Generator>| {
            let end = generator.namespace().layout()?.layout().ticks(offset).end;
            (end - now <= WARN_AHEAD).then(|| (generator.namespace().name().clone(), end))
        };
        self.generators().iter().filter_map(ending).collect()
    }

    /// The names of which a segment is in use, in the order in which they were learned.
    pub fn segments_in_use(&self) -> impl Iterator<Item = SegmentInUse> {
        self.generators().iter().filter(|generator| !generator.has_ended()).filter_map(|generator| {
            let window = generator.series.serials().filter(|series| series.is_segment())?.window();
            let used = window.taken().saturating_mul(100).checked_div(window.len())?;
            let (name, marked_left) = (generator.namespace().name().clone(), window.left());
            Some(SegmentInUse { name, used_hundredths: used.min(99), marked_left })
        })
    }

    /// The names by which numbers were ever granted, and how far: masters must know of that, if they have forgotten nothing. Empty once minting has
    /// ended.
    pub(crate) fn segments_seen(&self, driver: &Driver) -> Vec<(GeneratorName, Shown)> {
        let seen = driver.lock().map_or_else(|_| Vec::new(), |state| state.engine.segments_seen());
        let name = |series| Some(self.generators().at(series)?.namespace().name().clone());
        seen.into_iter().filter_map(|(series, seen)| Some((name(series)?, seen))).collect()
    }

    /// All generators, by what the engine knows of them.
    pub(super) fn view(&self, engine: &Engine, wall: WallMs) -> Result<Vec<GeneratorView>, Refusal> {
        let view = |generator: &Arc<Generator>| {
            let (id, lent) = match &generator.series {
                Series::Serials(series) => (series.id, series.window.load().left()),
                Series::Ticks(series) => (series.id, 0),
            };
            let serial = engine.serial_view(id, wall, lent)?;
            Ok(GeneratorView {
                serial: serial.segments.is_none().then_some(serial.next),
                step: serial.step,
                capacity_left: serial.capacity_left,
                segments: serial.segments.and_then(|view| SegmentsView::of(&view, generator)),
                ..GeneratorView::of_unused(generator.namespace())
            })
        };
        self.generators().all().filter(|generator| generator.has_name()).map(view).collect()
    }
}
