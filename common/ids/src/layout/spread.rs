//! Low bits that are even where a tick gives few IDs.

use super::{InvalidDefinition, Layout, Part};

/// Places where the serials of a tick may begin, from 0 on; one of them when nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spread(u32);

impl Default for Spread {
    fn default() -> Self {
        Self(1)
    }
}

impl Spread {
    /// A spread over so many places, for that layout.
    ///
    /// # Errors
    /// [`InvalidDefinition::Spread`], [`InvalidDefinition::SpreadOf`].
    pub(super) fn new(places: u32, layout: &Layout) -> Result<Self, InvalidDefinition> {
        let Some(last) = layout.fields().last() else { return Err(InvalidDefinition::SpreadOf(Part::Serial)) };
        if last.part != Part::Serial {
            return Err(InvalidDefinition::SpreadOf(last.part));
        }
        // A serial may stand in pieces: the lowest one is what a division sees.
        let max = (layout.serials_per_tick() / 2).min(1 << last.bits);
        if !(2..=max).contains(&u64::from(places)) {
            return Err(InvalidDefinition::Spread { spread: places, max });
        }
        Ok(Self(places))
    }

    /// The places, if there are more than one.
    pub fn places(self) -> Option<u32> {
        Some(self.0).filter(|places| *places > 1)
    }

    /// Serials of a tick that may be passed over.
    pub(super) fn passed_over(self) -> u64 {
        u64::from(self.0).saturating_sub(1)
    }

    /// The serial that the IDs of a tick begin with: evenly spread over the places, however far the ticks lie apart.
    #[inline]
    pub fn first_serial(self, tick: u64) -> u32 {
        if self.0 <= 1 {
            return 0;
        }
        // The finalizer of SplitMix64.
        let mixed = (tick ^ tick >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % u64::from(self.0)) as u32
    }
}
