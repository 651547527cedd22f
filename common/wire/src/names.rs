//! Messages between masters and agents about generators' names.

use crate::lease::Refusal;
use ids::namespace::{GeneratorName, Namespace};
use ids::parameters::{AgentId, ClusterId};
use ids::setting::{Change, Outcome, SettingValue};
use serde::{Deserialize, Serialize};

/// A call to register a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DefineRequest {
    pub agent_id: AgentId,
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// The caller who asked the agent for it, as the agent knows it, for the audit; `None` if the agent wants it by itself.
    pub caller: Option<String>,
    /// The name and what it shall stand for.
    pub namespace: Namespace,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Changed {
    /// The change is made, and both masters hold it durably.
    Done,
    /// Nothing had to be changed.
    AlreadySo,
}

/// The answer to a call to register a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefineReply {
    pub outcome: Result<Changed, Refusal>,
    /// The entries known of the name now, whatever came of it.
    pub known: Found,
}

/// A call that shows a name by which the caller gave IDs, and that the master does not know as the caller does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RestoreRequest {
    pub agent_id: AgentId,
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// The name, as masters told it.
    pub shown: Registered,
}

/// A call for the registered namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamespacesRequest {
    /// The cluster the caller belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// Only those after this name.
    pub after: Option<GeneratorName>,
}

/// Tells whether IDs are given by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NameState {
    /// Not yet, by anybody: an agent that is to give the first one says so before.
    Unused,
    /// IDs are given by it.
    InUse,
    /// No IDs are given by it any more.
    Retired,
}

impl NameState {
    /// Tells what a record of a name says.
    pub const fn of(value: &SettingValue) -> Self {
        match value {
            SettingValue::Unused(_) => Self::Unused,
            SettingValue::Retired(_) => Self::Retired,
            _ => Self::InUse,
        }
    }
}

/// A proof that masters of this cluster hold a name as in use, or as retired, which only they can make or recognise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NameProof(pub [u8; 32]);

/// A registered name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Registered {
    /// The definition that it stands for.
    pub namespace: Namespace,
    /// Tells whether IDs are given by it.
    pub state: NameState,
    /// The masters' word for it, if IDs were given.
    pub proof: Option<NameProof>,
}

/// A retired name of which the masters know no more than that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetiredOnly {
    pub name: GeneratorName,
    /// The masters' word for it.
    pub proof: Option<NameProof>,
}

/// The names that were asked about and are registered, or were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Found {
    /// Names of which it is known what they stand for.
    pub names: Vec<Registered>,
    /// Names that are retired, and of which no more is known.
    pub retired: Vec<RetiredOnly>,
}

/// A question about some names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FindRequest {
    /// The cluster the caller belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// The names; those beyond [`NAMESPACES_PAGE_MAX`](super::lease::NAMESPACES_PAGE_MAX) are ignored.
    pub names: Vec<GeneratorName>,
}

/// The refusal of a change of a setting; `None` if it is so already, or can be made.
pub fn refusal(outcome: Outcome, change: &Change) -> Option<Refusal> {
    Some(match outcome {
        Outcome::AlreadySo | Outcome::Becomes(_) => return None,
        Outcome::Taken => Refusal::NameTaken,
        Outcome::TooMany => Refusal::TooMany { max: u32::try_from(change.bound()).unwrap_or(u32::MAX) },
        Outcome::NoSuch => Refusal::NoSuchUser,
        Outcome::LastAdmin => Refusal::LastAdmin,
        Outcome::Retired => Refusal::NameRetired,
        Outcome::NoSuchName => Refusal::NoSuchName,
        Outcome::AboutsFull => Refusal::AboutsFull { max: u32::try_from(change.bound()).unwrap_or(u32::MAX) },
        Outcome::NotRaised { granted, last } => match change {
            Change::Dismiss { name, below } => Refusal::NotShown { name: name.clone(), last: below.saturating_sub(1) },
            _ => Refusal::NotRaised { granted, last },
        },
        Outcome::Collides { name, template, example } => Refusal::Collides { name, template, example },
    })
}
