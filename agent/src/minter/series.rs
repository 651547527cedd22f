//! Series of numbers: the serials of a series of the engine, or the ticks of an axis. Names share one by a clone.

use super::count::Tally;
use super::registry::{Axes, AxisWindow};
use super::segments::Fetching;
use crate::gate::{Layout, Prefix};
use crate::run::Run;
use crate::ticks::Reach;
use crate::window::{Ends, Window};
use arc_swap::{ArcSwap, Guard};
use common::layout::LayoutDefinition;
use common::namespace::Namespace;
use common::time::WallMs;
use engine::{Engine, TakenSerials, TakenTicks, take, take_ticks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// A block has no more than this part of what a window of serials has left, which may be a short segment.
const WINDOW_PARTS: u64 = 16;

/// Numbers for a thread to give out one by one.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) run: Run,
    /// The end of their time.
    pub(crate) over: WallMs,
    /// Tells whether to reserve more.
    pub(crate) half_used: bool,
}

/// A series of numbers.
#[derive(Clone, Debug)]
pub(crate) enum Series {
    /// Serials, from a window of its own.
    Serials(Arc<SerialSeries>),
    /// Ticks, from the window of an axis.
    Ticks(Arc<TickSeries>),
}

/// Serials of the engine, and the one window that they leave by.
#[derive(Debug)]
pub(crate) struct SerialSeries {
    /// Its place in the engine.
    pub(super) id: usize,
    pub(super) layout: Layout,
    pub(super) window: ArcSwap<Window<Prefix>>,
    /// Of windows that were closed for good, and not merely lengthened.
    pub(super) ends: Ends,
    /// The hour, day or tick of its last IDs before this process; its windows know later ones.
    bucket_before: u32,
    /// The end of the hour, day or tick of which it has nothing left, in milliseconds since 1970.
    pub(super) exhausted_until: AtomicI64,
    /// If they are numbers that come in segments.
    pub(super) fetching: Option<Box<Fetching>>,
    pub(super) tally: Tally,
}

/// Ticks of an axis, whose window names with the same layout share.
#[derive(Debug)]
pub(crate) struct TickSeries {
    /// Its place in the engine.
    pub(super) id: usize,
    pub(super) axis: usize,
    window: Arc<AxisWindow>,
    pub(super) definition: Arc<LayoutDefinition>,
    /// As in the definition, but at hand.
    reach: Reach,
    /// Tells whether an ID was minted by it: then the serial file knows of it.
    begun: AtomicBool,
    pub(super) tally: Tally,
}

impl Series {
    /// The series of a name in the engine.
    ///
    /// # Errors
    /// If names of that kind have no serials, or there is no room for a further axis.
    pub(super) fn of(engine: &Engine, axes: &Axes, id: usize, namespace: &Namespace) -> Result<Self, String> {
        let layout = Layout::of(namespace);
        let layout = layout.ok_or_else(|| format!("a generator of kind {} keeps no serials", namespace.kind()))?;
        if let (Some(axis), Some(definition)) = (engine.axis_of(id), layout.by_ticks()) {
            let window = axes.window(axis).ok_or("there are more layouts than there may be")?;
            let (definition, reach) = (Arc::clone(definition), Reach::from(&**definition));
            // What has no block begins without one.
            let (begun, tally) = (AtomicBool::new(!namespace.kind().has_blocks()), Tally::default());
            return Ok(Self::Ticks(Arc::new(TickSeries { id, axis, window, definition, reach, begun, tally })));
        }
        Ok(Self::Serials(Arc::new(SerialSeries {
            id,
            layout,
            window: ArcSwap::from_pointee(Window::closed(Prefix::Void)),
            ends: Ends::default(),
            bucket_before: engine.bucket_of(id),
            exhausted_until: AtomicI64::new(i64::MIN),
            fetching: namespace.segments().map(|_| Box::default()),
            tally: Tally::default(),
        })))
    }

    /// The count of its windows that were ended.
    pub(crate) fn ends(&self) -> &Ends {
        match self {
            Self::Serials(series) => &series.ends,
            Self::Ticks(series) => series.window.ends(),
        }
    }

    /// Takes up to `n` numbers of the window that is open now, at least 1.
    pub(crate) fn take_block(&self, n: u32, wall: WallMs) -> Option<Block> {
        match self {
            Self::Serials(series) => {
                let window = series.window();
                let n = u32::try_from(window.left() / WINDOW_PARTS).unwrap_or(u32::MAX).clamp(1, n);
                let (run, half_used) = match take(&window, n, wall) {
                    TakenSerials::All { run, half_used } => (run, half_used),
                    TakenSerials::Some(last) => (last.into(), false),
                    TakenSerials::None | TakenSerials::Closed => return None,
                };
                Some(Block { run, over: window.valid_until(), half_used })
            }
            Self::Ticks(series) if series.has_begun() => {
                match take_ticks(&series.window.load(), n, wall, series.reach) {
                    TakenTicks::All { run, over, half_used } => {
                        series.count(run.len);
                        // Where ticks run ahead of the clock, no longer than one of the present.
                        let over = over.min(wall + series.definition.layout().unit());
                        Some(Block { run, over, half_used })
                    }
                    TakenTicks::None | TakenTicks::Closed => None,
                }
            }
            Self::Ticks(_) => None,
        }
    }

    /// `n` IDs that were taken of a window were not given out.
    pub(crate) fn take_off(&self, n: u64) {
        match self {
            Self::Serials(series) => series.take_off(n),
            Self::Ticks(series) => series.tally.take_off(n),
        }
    }

    /// IDs that left by it; [`super::count`] says what counts.
    pub(super) fn minted(&self) -> u64 {
        match self {
            Self::Serials(series) => series.tally.total(|| series.window.load().taken()),
            Self::Ticks(series) => series.tally.total(|| 0),
        }
    }

    /// The series, if it is of serials.
    pub(super) fn serials(&self) -> Option<&Arc<SerialSeries>> {
        match self {
            Self::Serials(series) => Some(series),
            Self::Ticks(_) => None,
        }
    }
}

impl SerialSeries {
    /// The window that is open now, or was last.
    pub(crate) fn window(&self) -> Guard<Arc<Window<Prefix>>> {
        self.window.load()
    }

    /// Tells whether they are numbers that come in segments.
    pub(crate) fn is_segment(&self) -> bool {
        self.fetching.is_some()
    }

    /// `n` serials that were taken of a window were not given out, or not yet.
    pub(crate) fn take_off(&self, n: u64) {
        self.tally.take_off(n);
    }

    /// The hour, day or tick of its last IDs; 0 if it has given none.
    pub(super) fn last_bucket(&self) -> u32 {
        self.window.load().bucket.max(self.bucket_before)
    }
}

impl TickSeries {
    /// The window of its axis.
    pub(crate) fn window(&self) -> &Arc<AxisWindow> {
        &self.window
    }

    /// The place where its IDs may lie.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Tells whether its window may be used: the serial file knows of it.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// `n` IDs were given out.
    pub(crate) fn count(&self, n: u32) {
        self.tally.add(n.into());
    }
}
