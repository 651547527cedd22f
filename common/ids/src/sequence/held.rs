//! The owner of each section and the bound up to which its numbers may have been given, as both masters keep them.

use super::{Section, ServedAt};
use crate::lease::Generation;
use crate::namespace::GeneratorName;
use crate::parameters::{AgentId, SessionId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One section of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SectionKey {
    /// The name.
    pub name: GeneratorName,
    /// A section of that name.
    pub section: Section,
}

impl fmt::Display for SectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.section.0)
    }
}

/// Sections of one name beside each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SectionRange {
    /// The name.
    pub name: GeneratorName,
    /// The first.
    pub from: Section,
    /// After the last.
    pub to: Section,
}

impl SectionRange {
    /// Counts them.
    pub const fn len(&self) -> u32 {
        self.to.0.saturating_sub(self.from.0)
    }

    /// Tells whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first one.
    pub fn first(&self) -> SectionKey {
        SectionKey { name: self.name.clone(), section: self.from }
    }

    /// The last one.
    pub fn last(&self) -> SectionKey {
        SectionKey { name: self.name.clone(), section: Section(self.to.0.saturating_sub(1)) }
    }
}

impl From<SectionKey> for SectionRange {
    fn from(SectionKey { name, section }: SectionKey) -> Self {
        Self { name, from: section, to: Section(section.0.saturating_add(1)) }
    }
}

impl From<&SectionKey> for SectionRange {
    fn from(key: &SectionKey) -> Self {
        key.clone().into()
    }
}

impl fmt::Display for SectionRange {
    /// `NAME/FIRST`, or `NAME/FIRST-LAST` if there are more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().fmt(f)?;
        if self.len() > 1 { write!(f, "-{}", self.last().section.0) } else { Ok(()) }
    }
}

/// An agent's session that serves sections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SectionOwner {
    /// The session.
    pub session: SessionId,
    /// The agent's name.
    pub agent_id: AgentId,
    /// The address at which it is reached.
    pub address: ServedAt,
}

/// An operator's order for a section.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SectionOrder {
    /// Let that agent serve it.
    Move(AgentId),
    /// Give no number below this one for any of its keys any more; whoever serves it loads it anew.
    Raise(u64),
}

impl fmt::Display for SectionOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Move(to) => write!(f, "to {to}"),
            Self::Raise(first) => write!(f, "from {first} on"),
        }
    }
}

/// Sections that are alike, as a master knows them, or as their home proposes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SectionRecord {
    /// The sections.
    pub range: SectionRange,
    /// The number of owners that each has had; 1 is the first one. Grows with each change, at both masters or not at all.
    pub g: Generation,
    /// The owner.
    pub owner: SectionOwner,
    /// No number above it was given to anybody of any of them. Only grows.
    pub max_seq: u64,
}

/// The number up to which numbers of sections may have been given, under one owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SectionBound {
    /// The sections.
    pub range: SectionRange,
    /// Under which owner.
    pub g: Generation,
    /// The bound.
    pub max_seq: u64,
}
