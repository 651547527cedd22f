//! The values that a master may propose by itself.

use ids::token::TokenValue;
use std::num::NonZeroU32;

/// Every `step`th value of each family, from `first` on. Those of masters that agree with each other are disjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stride {
    first: u32,
    step: NonZeroU32,
}

impl Stride {
    pub const fn new(first: u32, step: NonZeroU32) -> Self {
        Self { first, step }
    }

    pub fn contains(self, value: TokenValue) -> bool {
        value.0.checked_sub(self.first).is_some_and(|above| above % self.step == 0)
    }

    /// Counts its values below `size`.
    pub fn count(self, size: u32) -> u32 {
        size.saturating_sub(self.first).div_ceil(self.step.get())
    }
}
