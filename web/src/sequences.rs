//! Sequences: who serves which sections of keys, changes under way, and the agents that serve them.

use crate::masters::{AgentPattern, as_shown, as_text, as_text_or_null};
use common::namespace::GeneratorName;
use common::parameters::{AgentId, SessionId};
use common::sequence::{Section, SectionKey, SectionOwner};
use common::time::WallMs;
use serde::Serialize;

/// Parts that the bar of one name is drawn of at most: more than that could not be told apart.
pub const BAR_PARTS_MAX: usize = 120;

/// The state of sections, as the answering master knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SectionState {
    /// Its owner serves it.
    Served,
    /// Its owner is new, and waits until the one before it serves no more; calls for its keys wait as long.
    Waiting,
    /// A next owner is proposed, and the other master has not confirmed it. Only the home of the name's sections knows.
    Proposed,
    /// Its owner is silent at both masters, and nobody took it over yet.
    Unserved,
}

impl SectionState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Served, Self::Waiting, Self::Proposed, Self::Unserved];

    /// The name in URLs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Waiting => "waiting",
            Self::Proposed => "proposed",
            Self::Unserved => "unserved",
        }
    }
}

/// An agent that serves sections, or is going to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SectionHolder {
    /// The agent's name.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// Its session: the first twelve digits.
    #[serde(serialize_with = "as_shown")]
    #[schema(value_type = String)]
    pub session: SessionId,
    /// Address where clients reach it by HTTP.
    pub http: String,
    /// Address where other agents reach it.
    pub rpc: String,
}

impl From<&SectionOwner> for SectionHolder {
    fn from(owner: &SectionOwner) -> Self {
        let SectionOwner { session, agent_id, address } = owner;
        Self { agent_id: agent_id.clone(), session: *session, http: address.http.clone(), rpc: address.rpc.clone() }
    }
}

/// Sections of one name beside each other that have one owner and one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SectionRow {
    /// The name whose sections they are.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub name: GeneratorName,
    /// The set of the name; empty if the name is not known here.
    pub set: String,
    /// The first section.
    pub from: u32,
    /// The last section.
    pub to: u32,
    /// The state of all of them.
    pub state: SectionState,
    /// The number of owners of the one of them that changed hands least; 1 is the first owner.
    pub g_from: u64,
    /// The number of owners of the one of them that changed hands most.
    pub g_to: u64,
    /// The owner; `null` as long as the first owner is only proposed.
    pub owner: Option<SectionHolder>,
    /// The next owner that is proposed; `null` if there is none, as far as this master knows.
    pub next: Option<SectionHolder>,
    /// The number above which none was given for any key of this section; `null` if the row is about several.
    pub max_seq: Option<u64>,
}

/// A filter of sections. An empty one wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionFilter {
    /// Only those of names of this set.
    pub set: Option<GeneratorName>,
    /// Only those of this name.
    pub name: Option<GeneratorName>,
    /// Only those that such an agent has or is to have.
    pub agent: Option<AgentPattern>,
}

/// A part of the matching rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionPage {
    /// Only sections after this one.
    pub after: Option<SectionKey>,
    /// The largest number of rows.
    pub limit: usize,
}

/// A part of the bar of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarPart {
    /// The first section.
    pub from: u32,
    /// The last one.
    pub to: u32,
    /// The state of most of them.
    pub state: SectionState,
    /// The agent that has most of them; `None`: nobody had any.
    pub agent_id: Option<AgentId>,
    /// True if there are others in this part, too: there is more to it than can be drawn.
    pub mixed: bool,
}

/// The sections of one name together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceRow {
    /// The name.
    pub name: GeneratorName,
    /// The set whose agents serve it.
    pub set: String,
    /// True if the name gives no more numbers.
    pub retired: bool,
    /// The number of its sections.
    pub sections: u32,
    /// Keys of a section.
    pub keys_per_section: u32,
    /// Counts of the sections in each state, in the order of [`SectionState::ALL`]. The rest was never asked for.
    pub counts: [u32; 4],
    /// The parts from the first to the last section that was given to anybody, at most [`BAR_PARTS_MAX`].
    pub bar: Vec<BarPart>,
}

/// An agent's session that serves sections of sequences, or could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AllocatorRow {
    /// Its name.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// Its session: the first twelve digits.
    #[serde(serialize_with = "as_shown")]
    #[schema(value_type = String)]
    pub session: SessionId,
    /// The sets that it serves.
    pub sets: Vec<String>,
    /// Address where clients reach it by HTTP.
    pub http: String,
    /// Address where other agents reach it.
    pub rpc: String,
    /// Sections that it has or is to have, as far as this master knows.
    pub sections: u32,
    /// Memory that it uses for keys, in bytes.
    pub memory_used: u64,
    /// Memory that it may use for keys, in bytes.
    pub memory_limit: u64,
    /// Calls for keys a second, lately.
    pub per_second: u32,
    /// Time at which it last asked the answering master for its sections; `null`: not since that master started.
    #[serde(serialize_with = "as_text_or_null")]
    #[schema(value_type = Option<String>)]
    pub last_keep: Option<WallMs>,
    /// True if both masters have not heard of it for longer than it may serve.
    pub silent: bool,
    /// True if an operator drains it.
    pub draining: bool,
    /// True if it is about to stop, and gives its sections away by itself.
    pub leaves: bool,
}

/// The answer to an operator who moves a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SectionMoved {
    /// The name of the sequence.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub name: GeneratorName,
    /// The section's number.
    pub section: u32,
    /// The agent that gets it.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub to: AgentId,
    /// The master that moves it and sees the move from the beginning: 1 for odd sections, 2 for even ones.
    pub home: u8,
}

/// The answer to an operator who raises a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct KeyRaised {
    /// The name.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub name: GeneratorName,
    /// The key's section, of which all keys are raised.
    pub section: u32,
    /// The number below which none is given for any of them any more.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub to: u64,
    /// The master that carries it out: 1 for odd sections, 2 for even ones.
    pub home: u8,
}

/// The answer to an operator who drains an agent or lets it have sections again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Drained {
    /// The agent.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// True if it is drained from now on.
    pub draining: bool,
    /// Sections that it has, or is to have, at the moment.
    pub sections: u32,
}

impl SequenceRow {
    /// Counts the sections in a state.
    pub fn count(&self, state: SectionState) -> u32 {
        let at = SectionState::ALL.iter().position(|it| *it == state);
        at.and_then(|at| self.counts.get(at)).copied().unwrap_or_default()
    }
}

/// A section as it stands in addresses and is typed to confirm: `NAME/SECTION`.
pub(crate) fn section_key(text: &str) -> Option<SectionKey> {
    let (name, section) = text.split_once('/')?;
    let digits = section.bytes().all(|digit| digit.is_ascii_digit());
    let section = section.parse().ok().filter(|_| digits)?;
    Some(SectionKey { name: name.parse().ok()?, section: Section(section) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_as_it_is_written() {
        let key = section_key("inbox/42").unwrap();
        assert_eq!((key.to_string().as_str(), key.section), ("inbox/42", Section(42)));
        for wrong in ["", "inbox", "inbox/", "/1", "inbox/+1", "inbox/-1", "inbox/4294967296", "IN/1", "inbox/1/2"] {
            assert_eq!(section_key(wrong), None, "{wrong}");
        }
    }
}
