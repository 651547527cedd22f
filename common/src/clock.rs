//! The one file that reads the operating system's clocks.
//!
//! [`Clock::now`] gives the calendar (`CLOCK_REALTIME`) and the machine's own time (`CLOCK_BOOTTIME`, which counts
//! suspended time and never steps). A test clock lets days pass in seconds: `--test-clock SCALE@EPOCH_MS`.

use crate::time::{BootMs, Now, WallMs};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Time that runs faster than it is, for tests of rules that speak of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TestClock {
    /// Factor by which the clock is faster, 1..=1,000,000.
    pub scale: u32,
    /// The instant from which on it runs faster; before it time is as it is.
    pub epoch: WallMs,
}

/// A text that is not a test clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a test clock is written SCALE@EPOCH_MS with SCALE from 1 to {}", TestClock::SCALE_MAX)]
pub struct TestClockError;

impl TestClock {
    /// The fastest: a day in 86 ms.
    pub const SCALE_MAX: u32 = 1_000_000;
}

impl FromStr for TestClock {
    type Err = TestClockError;
    fn from_str(text: &str) -> Result<Self, TestClockError> {
        let (scale, epoch) = text.split_once('@').ok_or(TestClockError)?;
        let scale: u32 = scale.parse().map_err(|_| TestClockError)?;
        let epoch: i64 = epoch.parse().map_err(|_| TestClockError)?;
        if !(1..=Self::SCALE_MAX).contains(&scale) || epoch < 0 {
            return Err(TestClockError);
        }
        Ok(Self { scale, epoch: WallMs(epoch) })
    }
}

impl fmt::Display for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.scale, self.epoch.0)
    }
}

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

    #[test]
    fn test_clocks_parse_exactly() {
        assert_eq!("60@5".parse(), Ok(TestClock { scale: 60, epoch: WallMs(5) }));
        for bad in ["", "60", "0@1", "1000001@1", "x@1", "1@-1", "1@", "@1"] {
            assert_eq!(bad.parse::<TestClock>(), Err(TestClockError), "{bad}");
        }
    }
}
