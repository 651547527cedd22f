//! Names as the serial file keeps them, until the shared vocabulary has them.
use serde::Serialize;

/// The name of a generator: 1..=15 of `a-z 0-9 _ -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct GeneratorName(String);

impl GeneratorName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a generator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum GeneratorKind {
    /// Numbers of 64 bits.
    Uniq64 = 1,
    /// Strings by a template.
    String = 2,
}
