//! The numbers of one token, by a counter.

use super::{Layout, RandomBits};
use crate::token::TokenValue;
use std::sync::Arc;

/// The numbers of a token from a tick on, by a counter: the serials of that tick, and behind them those of the ticks that follow. By a
/// calendar, and in ticks so long that the serials have a mark, there are none behind them, and the serial begins at 0 again.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// Numbers of at most 64 bits, with time and serial in one piece each.
    Narrow(Narrow),
    /// Numbers of more bits, also in one piece each.
    Wide(Wide),
    /// Numbers with time or serial in several pieces, or with random bits.
    Mixed {
        /// The tick.
        tick: u64,
        /// The rest that they are made of.
        of: Arc<Mixed>,
    },
}

/// Numbers of at most 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    /// The number with serial 0.
    base: u64,
    /// The sum that one tick more adds; 0 if none follows.
    tick: u64,
    serial_bits: u8,
    /// The lowest bit of the serial.
    serial: u8,
}

/// Numbers of more than 64 bits. Their halves are apart, because as one number they would be aligned to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    high: u64,
    low: u64,
    /// The lowest bit of the tick; `None` if none follows.
    tick: Option<u8>,
    serial_bits: u8,
    serial: u8,
}

/// Parts of a number that have to be put together one by one.
#[derive(Debug)]
pub struct Mixed {
    layout: Layout,
    token: TokenValue,
    random: Arc<RandomBits>,
    counts_on: bool,
}

/// Numbers that are equally far from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first one.
    pub first: u128,
    /// The distance of each from the next one.
    pub step: u64,
    /// The number of them.
    pub n: u32,
}

impl Layout {
    /// The numbers of that token from that tick on. `None` if one of both does not fit.
    pub fn numbers(&self, tick: u64, token: TokenValue, random: &Arc<RandomBits>) -> Option<Numbers> {
        let base = self.prefix(tick, token)?;
        let (Some(time), Some(serial @ ..u64::BITS), 0) = (self.time.shift(), self.serial.shift(), self.random.bits())
        else {
            let of = Mixed { layout: self.clone(), token, random: Arc::clone(random), counts_on: self.counts_on() };
            return Some(Numbers::Mixed { tick, of: Arc::new(of) });
        };
        let counts_on = self.counts_on();
        // All of them are below 128.
        let (time, serial, serial_bits) = (time as u8, serial as u8, self.serial_bits() as u8);
        Some(match u64::try_from(base) {
            Ok(base) if self.bits <= u64::BITS => {
                Numbers::Narrow(Narrow { base, tick: if counts_on { 1 << time } else { 0 }, serial_bits, serial })
            }
            _ => {
                let (high, low, tick) = ((base >> u64::BITS) as u64, base as u64, counts_on.then_some(time));
                Numbers::Wide(Wide { high, low, tick, serial_bits, serial })
            }
        })
    }
}

const fn ones(bits: u8) -> u64 {
    (1 << bits) - 1
}

impl Narrow {
    /// The number of a counter. Whoever counts ends where the time does not fit any more.
    #[inline]
    pub const fn number(&self, counter: u64) -> u64 {
        let ticks = counter >> self.serial_bits;
        self.base.wrapping_add(ticks.wrapping_mul(self.tick)) | (counter & ones(self.serial_bits)) << self.serial
    }

    /// The distance of a number from the next one of its tick.
    #[inline]
    pub const fn step(&self) -> u64 {
        1 << self.serial
    }
}

impl Wide {
    #[inline]
    fn number(&self, counter: u64) -> u128 {
        let base = u128::from(self.high) << u64::BITS | u128::from(self.low);
        let ticks = self.tick.map_or(0, |shift| u128::from(counter >> self.serial_bits) << shift);
        base.wrapping_add(ticks) | u128::from(counter & ones(self.serial_bits)) << self.serial
    }
}

impl Mixed {
    #[inline(never)]
    fn number(&self, tick: u64, counter: u64) -> u128 {
        let (layout, bits) = (&self.layout, self.layout.serial_bits());
        // Whoever counts ends where the time does not fit any more.
        let ticks = if self.counts_on { counter >> bits } else { 0 };
        let prefix = layout.prefix(tick + ticks, self.token).unwrap_or_default();
        let number = layout.fill(prefix, (counter & ones(bits as u8)) as u32, 0);
        if layout.random_bits() == 0 { number } else { layout.fill(number, 0, self.random.of(number)) }
    }
}

impl Numbers {
    /// The number of a counter.
    #[inline]
    pub fn number(&self, counter: u64) -> u128 {
        match self {
            Self::Narrow(narrow) => narrow.number(counter).into(),
            Self::Wide(wide) => wide.number(counter),
            Self::Mixed { tick, of } => of.number(*tick, counter),
        }
    }

    /// The numbers of a later tick; `None` where a counter does not go on to it, and the layout has to be asked for each tick.
    #[inline]
    pub fn later(&self, ticks: u64) -> Option<Self> {
        if ticks == 0 {
            return Some(self.clone());
        }
        match self {
            Self::Narrow(Narrow { tick: 0, .. }) | Self::Wide(Wide { tick: None, .. }) => None,
            Self::Narrow(narrow) => {
                Some(Self::Narrow(Narrow { base: narrow.number(ticks << narrow.serial_bits), ..*narrow }))
            }
            Self::Wide(wide) => {
                let base = wide.number(ticks << wide.serial_bits);
                Some(Self::Wide(Wide { high: (base >> u64::BITS) as u64, low: base as u64, ..*wide }))
            }
            Self::Mixed { of, .. } if !of.counts_on => None,
            Self::Mixed { tick, of } => Some(Self::Mixed { tick: tick + ticks, of: Arc::clone(of) }),
        }
    }

    /// Tells whether they have at most 64 bits.
    pub fn fit_64_bits(&self) -> bool {
        match self {
            Self::Narrow(_) => true,
            Self::Wide(_) => false,
            Self::Mixed { of, .. } => of.layout.bits() <= u64::BITS,
        }
    }

    /// Tells whether they have at most 64 bits, and are not made one by one.
    pub const fn are_narrow(&self) -> bool {
        matches!(self, Self::Narrow(_))
    }

    /// The first up to `n` numbers from that counter on that are equally far from each other: at most those of one tick.
    #[inline]
    pub fn stretch(&self, counter: u64, n: u32) -> Stretch {
        let (serial_bits, serial) = match self {
            Self::Narrow(narrow) => (narrow.serial_bits, narrow.serial),
            Self::Wide(wide) => (wide.serial_bits, wide.serial),
            Self::Mixed { .. } => return Stretch { first: self.number(counter), step: 1, n: n.min(1) },
        };
        let left = ones(serial_bits) - (counter & ones(serial_bits)) + 1;
        let n = n.min(u32::try_from(left).unwrap_or(u32::MAX));
        Stretch { first: self.number(counter), step: 1u64.checked_shl(serial.into()).unwrap_or(0), n }
    }
}

impl Stretch {
    /// The numbers.
    #[inline]
    pub fn numbers(self) -> impl Iterator<Item = u128> {
        (0..self.n).map(move |nth| self.first.wrapping_add(u128::from(self.step) * u128::from(nth)))
    }

    /// The numbers, if they have at most 64 bits.
    #[inline]
    pub fn narrow(self) -> impl ExactSizeIterator<Item = u64> {
        let first = self.first as u64;
        (0..self.n).map(move |nth| first.wrapping_add(self.step.wrapping_mul(nth.into())))
    }
}
