//! The one file that reads the operating system's clocks.
//!
//! [`Clock::now`] gives the calendar (`CLOCK_REALTIME`) and the machine's own time (`CLOCK_BOOTTIME`, which counts
//! suspended time and never steps). A test clock lets days pass in seconds: `--test-clock SCALE@EPOCH_MS`.

use crate::time::{BootMs, Now, WallMs};
pub use crate::time::{TestClock, TestClockError};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::Cell;
use std::time::Duration;

/// A source of time. Cheap to copy; every program makes one and passes it on.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    test: Option<TestClock>,
    /// Machine time at which the test clock's epoch was (or will be) reached.
    epoch_boot: BootMs,
}

impl Clock {
    /// The system's clocks as they are.
    pub fn system() -> Self {
        Self { test: None, epoch_boot: BootMs(0) }
    }

    /// The system's clocks, running `test.scale` times faster from `test.epoch` on.
    pub fn test(test: TestClock) -> Self {
        let (wall, boot) = (os_wall(), os_boot());
        Self { test: Some(test), epoch_boot: boot + (test.epoch - wall) }
    }

    /// The system's clocks, or a test clock if there is one.
    pub fn new(test: Option<TestClock>) -> Self {
        test.map_or_else(Self::system, Self::test)
    }

    /// The test clock, if this is one.
    pub fn test_clock(&self) -> Option<TestClock> {
        self.test
    }

    /// The calendar and the machine's time, both as fast as this clock runs.
    pub fn now(&self) -> Now {
        Now { wall: self.wall(), boot: self.boot() }
    }

    /// The calendar, as this operating system has it.
    pub fn wall(&self) -> WallMs {
        let wall = os_wall();
        match self.test {
            Some(test) if wall > test.epoch => {
                WallMs(test.epoch.0.saturating_add((wall.0 - test.epoch.0).saturating_mul(test.scale.into())))
            }
            _ => wall,
        }
    }

    /// The operating system's calendar in whole seconds since 1970, unscaled, as of the last tick of its timer: a few
    /// milliseconds late, and cheap.
    pub fn coarse_second(&self) -> u64 {
        u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
    }

    /// The machine's own time, running as fast as the calendar does.
    pub fn boot(&self) -> BootMs {
        let boot = os_boot();
        match self.test {
            Some(test) if boot > self.epoch_boot => {
                BootMs(self.epoch_boot.0.saturating_add((boot.0 - self.epoch_boot.0).saturating_mul(test.scale.into())))
            }
            _ => boot,
        }
    }

    /// [`boot`](Self::boot) as of the last tick of the kernel's timer (every 1 to 10 ms), at a fifth of the cost: as long
    /// as the tick has not changed on this thread, what was read then is given again. A stop, a suspended machine and a
    /// step of the calendar all change the tick.
    #[inline]
    pub fn boot_coarse(&self) -> BootMs {
        if self.test.is_some() {
            return self.boot();
        }
        let tick = clock_gettime(ClockId::RealtimeCoarse);
        let (seen, boot) = TICK.get();
        if seen == (tick.tv_sec, tick.tv_nsec) { BootMs(boot) } else { read_boot((tick.tv_sec, tick.tv_nsec)) }
    }

    /// The calendar beside the machine's time *unscaled*: for rules between neighbours (heartbeats, time-outs), which a
    /// test clock must not turn into microseconds.
    pub fn link_now(&self) -> Now {
        Now { wall: self.wall(), boot: os_boot() }
    }

    /// Real time to sleep for `span` to pass on this clock.
    pub fn real(&self, span: Duration) -> Duration {
        match self.test {
            Some(test) if os_wall() > test.epoch => span / test.scale,
            _ => span,
        }
    }
}

thread_local! {
    /// The last tick that this thread saw, and the machine's time in milliseconds just after.
    static TICK: Cell<((i64, i64), i64)> = const { Cell::new(((i64::MIN, 0), 0)) };
}

#[cold]
fn read_boot(tick: (i64, i64)) -> BootMs {
    let boot = os_boot();
    TICK.set((tick, boot.0));
    boot
}

fn ms(t: Timespec) -> i64 {
    t.tv_sec.saturating_mul(1_000).saturating_add(t.tv_nsec / 1_000_000)
}

fn os_wall() -> WallMs {
    WallMs(ms(clock_gettime(ClockId::Realtime)))
}

fn os_boot() -> BootMs {
    BootMs(ms(clock_gettime(ClockId::Boottime)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_clock_runs_from_its_epoch_on() {
        let epoch = WallMs(os_wall().0 - 1_000);
        let clock = Clock::test(TestClock { scale: 3_600, epoch });
        assert!(clock.wall() - epoch >= crate::time::SpanMs(1_000 * 3_600));
        let later = Clock::test(TestClock { scale: 3_600, epoch: WallMs(os_wall().0 + 3_600_000) });
        assert!((later.wall().0 - os_wall().0).abs() < 60_000, "before the epoch time is as it is");
    }

    #[test]
    fn the_coarse_time_is_never_ahead_and_goes_on() {
        let clock = Clock::system();
        let (first, began) = (clock.boot_coarse(), clock.boot());
        assert!(first <= began);
        let mut last = first;
        // Ticks come at least every 10 ms; a machine with much to do may let us wait longer.
        while last == first {
            let now = clock.boot_coarse();
            assert!(last <= now && now <= clock.boot());
            last = now;
        }
    }
}
