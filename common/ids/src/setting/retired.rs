//! Names that are retired and of which nothing else has to be known: each costs a digest.
//!
//! They are parts of one set, each a setting of its own, so that a name that is added is a record of a few kilobytes.

use crate::kind::Kind;
use crate::namespace::{GeneratorName, Namespace, Scope};
use serde::{Deserialize, Serialize};

/// Names that are kept as digests at most.
pub const RETIRED_NAMES_MAX: usize = 1 << 20;
/// Retired names of which all is kept that was known, at least: the last ones.
pub const RETIRED_KEPT: usize = 16_384;
/// Names of one part at most: with as many as there may be a part has a quarter of that, so it is full only where somebody chose names for it.
const PART_MAX: usize = 1_024;
/// The bits of a digest that say which part it belongs to.
const PART_BITS: u32 = 12;

/// A retired name, as no other name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetiredName([u8; 16]);

/// The names of one part, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetiredNames(Vec<RetiredName>);

impl RetiredName {
    /// The [digest](GeneratorName::digest) of a name.
    pub fn of(name: &GeneratorName) -> Self {
        Self(name.digest())
    }

    /// The part that it belongs to.
    pub fn part(self) -> u16 {
        let [one, two, ..] = self.0;
        u16::from_be_bytes([one, two]) >> (u16::BITS - PART_BITS)
    }

    /// A number that stands for it.
    pub fn number(self) -> u64 {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl RetiredNames {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = RetiredName> {
        self.0.iter().copied()
    }

    /// Counts the names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether a name is one of them.
    pub fn contains(&self, name: RetiredName) -> bool {
        self.0.binary_search(&name).is_ok()
    }

    /// Tells whether all of `others` are among them: none is ever taken out.
    pub fn may_follow(&self, others: &Self) -> bool {
        others.0.iter().all(|name| self.contains(*name))
    }

    /// The names with one more; `None` if there is no room for it.
    #[must_use]
    pub fn with(&self, name: RetiredName) -> Option<Self> {
        let Err(at) = self.0.binary_search(&name) else { return Some(self.clone()) };
        if self.0.len() >= PART_MAX {
            return None;
        }
        let mut names = self.0.clone();
        names.insert(at, name);
        Some(Self(names))
    }

    /// Tells whether they can be those of that part.
    pub(super) fn plausible(&self, part: u16) -> bool {
        self.0.len() <= PART_MAX
            && self.0.is_sorted_by(|one, other| one < other)
            && self.0.iter().all(|name| name.part() == part)
    }
}

/// Tells whether of a retired name of that definition the name alone has to be known: its strings are in no other template's way, and no axis says
/// how far it went.
pub fn is_known_by_name(namespace: &Namespace) -> bool {
    match namespace.kind() {
        Kind::Segment => false,
        Kind::String => namespace.scope() == Scope::Own,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_names_in_order_and_no_more_than_there_is_room_for() {
        let name = |n: u32| RetiredName::of(&format!("n{n}").parse().unwrap());
        let part = name(0).part();
        let mut of_part = (0..).map(name).filter(|name| name.part() == part);
        let first = RetiredNames::default().with(of_part.next().unwrap()).unwrap();
        assert!(first.contains(name(0)) && first.plausible(part) && !first.plausible(part ^ 1));
        assert_eq!(first.with(name(0)), Some(first.clone()));
        let mut full = first.clone();
        while full.len() < PART_MAX {
            // As if they were of this part.
            full = full.with(name(full.len() as u32 + 7)).unwrap();
        }
        assert!(full.may_follow(&first) && !first.may_follow(&full) && !full.plausible(part));
        assert_eq!(full.with(name(u32::MAX)), None);
        assert_eq!(full.with(name(0)), Some(full.clone()));
    }
}
