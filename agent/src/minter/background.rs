//! What goes on beside the callers: steps that are reserved in advance, and the time for those who cannot afford a clock.

use super::series::SerialSeries;
use super::{Minter, PATIENCE};
use common::time::WallMs;
use common::token::TokenType;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;

/// The interval at which the time is written down for those who cannot afford to look at a clock.
const TICK: Duration = Duration::from_millis(2);

/// What time it was a moment ago.
#[derive(Debug)]
pub struct CachedClock(AtomicI64);

impl CachedClock {
    /// The minter's time, at most a few milliseconds late; later if the machine does not let us run.
    #[inline]
    pub fn wall(&self) -> WallMs {
        WallMs(self.0.load(Ordering::Relaxed))
    }
}

/// Where work that waits for the disk is done, beside the callers.
#[derive(Debug, Default)]
pub(super) struct Background {
    handle: OnceLock<Handle>,
    time: OnceLock<Arc<CachedClock>>,
}

impl Minter {
    /// [`leased`](Self::leased) and [`resumed`](Self::resumed), on this thread.
    pub(super) fn resumed_blocking(&self, token_type: TokenType) {
        let mut waited = Duration::ZERO;
        let waits = || self.demand(token_type).is_some() || self.resumption_left(token_type).is_some();
        while waited < PATIENCE && waits() {
            std::thread::sleep(TICK);
            waited += TICK;
        }
    }

    /// Lets the background reserve run there when a window is half used on a thread that has no runtime.
    pub fn reserve_on(&self, handle: Handle) {
        // The first one stays.
        let _ = self.background.handle.set(handle);
    }

    /// Makes the next step of serials durable, in the background.
    #[cold]
    pub(crate) fn reserve_soon(self: &Arc<Self>, series: &Arc<SerialSeries>) {
        if series.is_segment() {
            return self.tend_to(series);
        }
        let (minter, series) = (Arc::clone(self), Arc::clone(series));
        self.in_background(move || minter.reserve(&series));
    }

    /// Does what may wait for the disk where it keeps nobody, if there is such a place.
    pub(super) fn in_background(&self, work: impl FnOnce() + Send + 'static) {
        match self.background.handle.get().cloned().map_or_else(Handle::try_current, Ok) {
            Ok(handle) => drop(handle.spawn_blocking(work)),
            Err(_) => work(),
        }
    }

    /// The time, written down by a thread that ends with this minter.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn cached_clock(self: &Arc<Self>) -> std::io::Result<Arc<CachedClock>> {
        if let Some(time) = self.background.time.get() {
            return Ok(Arc::clone(time));
        }
        let time = Arc::new(CachedClock(AtomicI64::new(self.wall().0)));
        let (minter, written) = (Arc::downgrade(self), Arc::clone(&time));
        std::thread::Builder::new().name("uniq-time".to_owned()).spawn(move || write_down(&minter, &written))?;
        // If two come here at once, both threads write, each its own.
        Ok(Arc::clone(self.background.time.get_or_init(|| time)))
    }

    /// What time it is, as of the last tick of the kernel's timer.
    #[inline]
    pub(crate) fn wall_coarse(&self) -> WallMs {
        WallMs(self.clock.boot_coarse().0.saturating_add(self.offset.load(Ordering::Relaxed)))
    }
}

fn write_down(minter: &Weak<Minter>, time: &CachedClock) {
    while let Some(minter) = minter.upgrade() {
        time.0.store(minter.wall().0, Ordering::Relaxed);
        drop(minter);
        std::thread::sleep(TICK);
    }
}
