//! The source of all chance in a simulation.

/// SplitMix64. Written out, because a seed that is named in a report must lead to the same history whatever version of
/// whatever crate is installed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The chance that belongs to a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed ^ 0x51_7c_c1_b7_27_22_0a_95);
        rng.next();
        rng
    }

    /// Any 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 128 bits, for sessions and the like.
    pub fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    /// 0..n; 0 for n = 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// True so often.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// 0.0..1.0
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `low..=high`, each alike.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low).max(0) as usize + 1) as i64
    }

    /// `low..=high`, each order of magnitude alike; `low` at least 1.
    pub fn magnitude(&mut self, low: i64, high: i64) -> i64 {
        let (a, b) = ((low as f64).ln(), (high as f64).ln());
        ((a + (b - a) * self.unit()).exp() as i64).clamp(low, high)
    }
}

/// Spreads every bit of a number over all of them.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
