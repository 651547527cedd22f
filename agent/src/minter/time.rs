//! The time: the machine's own with the masters' correction, and a copy of it for those who cannot afford a clock.

use super::Minter;
use crate::timebase::{ClockSample, Heard, Skew, Timebase};
use common::clock::Clock;
use common::time::{BootMs, Now, SpanMs, WallMs};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// The interval at which the time is written down for those who cannot afford to look at a clock.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// The time a moment ago.
#[derive(Debug)]
pub struct CachedClock(AtomicI64);

impl CachedClock {
    /// The minter's time, written down by a thread that ends with it.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn of(minter: &Arc<Minter>) -> std::io::Result<Arc<Self>> {
        let cached = &minter.time.cached;
        if let Some(time) = cached.get() {
            return Ok(Arc::clone(time));
        }
        let time = Arc::new(Self(AtomicI64::new(minter.time.wall().0)));
        let (minter, written) = (Arc::downgrade(minter), Arc::clone(&time));
        std::thread::Builder::new().name("uniq-time".to_owned()).spawn(move || write_down(&minter, &written))?;
        // If two come here at once, both threads write, each its own.
        Ok(Arc::clone(cached.get_or_init(|| time)))
    }

    /// The minter's time, at most a few milliseconds late; later if the machine does not let us run.
    #[inline]
    pub fn wall(&self) -> WallMs {
        WallMs(self.0.load(Ordering::Relaxed))
    }
}

fn write_down(minter: &Weak<Minter>, time: &CachedClock) {
    while let Some(minter) = minter.upgrade() {
        time.0.store(minter.time.wall().0, Ordering::Relaxed);
        drop(minter);
        std::thread::sleep(TICK);
    }
}

/// The time that minting goes by.
#[derive(Debug)]
pub struct Time {
    clock: Clock,
    /// Calendar minus machine time, in milliseconds.
    offset: AtomicI64,
    base: Mutex<Timebase>,
    jumps: AtomicU64,
    /// True if what was minted before lies ahead of the clock, as the operator was told.
    ahead: AtomicBool,
    cached: OnceLock<Arc<CachedClock>>,
}

impl Time {
    pub(super) fn new(clock: Clock) -> Self {
        let base = Timebase::start(clock.now());
        Self {
            clock,
            offset: AtomicI64::new(base.offset()),
            base: Mutex::new(base),
            jumps: AtomicU64::new(0),
            ahead: AtomicBool::new(false),
            cached: OnceLock::new(),
        }
    }

    #[inline]
    fn at(&self, boot: BootMs) -> WallMs {
        WallMs(boot.0.saturating_add(self.offset.load(Ordering::Relaxed)))
    }

    /// The time: the machine's own with the masters' correction.
    #[inline]
    pub fn wall(&self) -> WallMs {
        self.at(self.clock.boot())
    }

    /// The time as of the last tick of the kernel's timer.
    #[inline]
    pub(crate) fn wall_coarse(&self) -> WallMs {
        self.at(self.clock.boot_coarse())
    }

    /// Calendar and machine time, as fast as the clock runs.
    pub fn now(&self) -> Now {
        let boot = self.clock.boot();
        Now { wall: self.at(boot), boot }
    }

    /// Machine time as it is, even by a test clock.
    pub(super) fn real_boot(&self) -> BootMs {
        self.clock.link_now().boot
    }

    /// The number of times faster than real time the clock runs.
    pub(super) fn scale(&self) -> u32 {
        self.clock.test_clock().map_or(1, |test| test.scale)
    }

    /// The clock that everything goes by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Our time minus the operating system's, in milliseconds.
    pub fn offset_ms(&self) -> i64 {
        (self.wall() - self.clock.wall()).0
    }

    /// The number of times that the clock has jumped since the start.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Acquire)
    }

    /// Looks whether the operating system's clock was stepped. If so, every lease is suspended, from now on, until the
    /// holder had it renewed. Gives by how much.
    pub(crate) fn watch(&self) -> Option<SpanMs> {
        let step = self.base().look(self.clock.now(), self.scale())?;
        self.jumps.fetch_add(1, Ordering::AcqRel);
        Some(step)
    }

    /// Takes a master's time. Gives what it changed, and whether windows have to pass the gates again.
    pub fn hear(&self, answer: &ClockSample) -> (Heard, bool) {
        let mut base = self.base();
        let heard = base.correct(answer);
        self.offset.store(base.offset(), Ordering::Relaxed);
        heard
    }

    /// The distance of the masters' calendar from this machine's, if that is too far to mint.
    pub(crate) fn skew(&self) -> Option<Skew> {
        self.base().skew()
    }

    /// Notes whether what was minted before lies ahead of the clock; tells whether it was said to before.
    pub(super) fn note_ahead(&self, ahead: bool) -> bool {
        self.ahead.swap(ahead, Ordering::Relaxed)
    }

    fn base(&self) -> MutexGuard<'_, Timebase> {
        // Plain numbers: whatever a panic left behind is as good as any.
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Time {
    /// The operating system's clock seems to have been stepped by an hour since it was last looked at.
    pub(crate) fn pretend_jump(&self) {
        let now = self.clock.now();
        self.base().look(Now { wall: now.wall + SpanMs(3_600_000), ..now }, 1);
    }

    /// Lets the minter believe that it is `wall`, or up to a tick of the kernel's timer later: the short way to an ID looks at
    /// the time as of the last tick, and shall not be behind.
    pub(crate) fn set_wall(&self, wall: WallMs) {
        self.offset.store(wall.0 - self.clock.boot_coarse().0, Ordering::Relaxed);
    }
}
