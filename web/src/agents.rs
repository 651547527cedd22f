//! Rows about agents and about the cluster itself.

use crate::masters::{NetworkRow, as_number, as_number_or_null, as_shown, as_text, as_text_or_null};
use crate::sequences::AllocatorRow;
use common::parameters::{AgentId, MasterId, SessionId};
use common::time::WallMs;
use ipnet::IpNet;
use net::rpc::lease::report_interval_ms;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Reports in a row whose absence makes an agent late.
pub const LATE_AFTER: u64 = 3;
/// Reports in a row whose absence makes an agent lost.
pub const LOST_AFTER: u64 = 12;
/// Agents that are named where a network would leave the whitelist; all are counted.
pub(crate) const CUT_OFF_NAMED_MAX: usize = 100;
/// The longest time that a report may be on its way, in milliseconds.
const SLACK_MS: u64 = 1_000;

/// The state of an agent, by when it last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// Nothing was heard for twelve times as long as it should take, or not since this master started, and it holds leases.
    /// The agent may still mint.
    Lost,
    /// Reports are overdue.
    Late,
    /// The agent reports.
    Well,
    /// Says that it stops, as it was told to, and holds what it has until that ends.
    Stopped,
}

impl AgentState {
    /// All of them, the worst first.
    pub const ALL: [Self; 4] = [Self::Lost, Self::Late, Self::Well, Self::Stopped];

    /// The state of an agent that has been silent for so long, in real time, where one of so many agents.
    pub fn of(silent: Duration, agents: usize) -> Self {
        let (silent, interval) = (u64::try_from(silent.as_millis()).unwrap_or(u64::MAX), report_interval_ms(agents));
        match silent.saturating_sub(SLACK_MS) / interval {
            0..LATE_AFTER => Self::Well,
            LATE_AFTER..LOST_AFTER => Self::Late,
            _ => Self::Lost,
        }
    }

    /// Tells whether it runs, as far as can be told.
    pub const fn is_here(self) -> bool {
        matches!(self, Self::Late | Self::Well)
    }

    /// The name in URLs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Well => "well",
            Self::Stopped => "stopped",
        }
    }
}

/// An agent's session as the console and its API show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AgentRow {
    /// The agent's name.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// Its session: the first twelve digits.
    #[serde(serialize_with = "as_shown")]
    #[schema(value_type = String)]
    pub session: SessionId,
    /// The agent's state.
    pub state: AgentState,
    /// Time of its last report; `None` if there is none since this master started.
    #[serde(serialize_with = "as_text_or_null")]
    #[schema(value_type = Option<String>)]
    pub heard: Option<WallMs>,
    /// The master that it reports to.
    #[serde(serialize_with = "as_number_or_null")]
    #[schema(value_type = Option<u8>)]
    pub master: Option<MasterId>,
    /// Address that it calls from; empty if unknown.
    pub address: String,
    /// The last report.
    pub report: Option<ReportRow>,
    /// The tokens it holds.
    pub tokens: Vec<HeldRow>,
}

/// The last report of an agent about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ReportRow {
    /// Its program's version.
    pub version: String,
    /// The reason why its start began a new session; `None` if it went on with the one it had.
    pub fresh_because: Option<String>,
    /// Time since its start, in seconds of real time.
    pub uptime_s: u64,
    /// Its time minus its machine's, in milliseconds.
    pub clock_offset_ms: i64,
    /// The reason why it cannot mint IDs of every wanted type; `None` if it can.
    pub not_ready: Option<String>,
    /// IDs minted since its start.
    pub minted: u64,
    /// IDs a second between its last reports, the newest at the end; at most those of five minutes.
    pub rates: Vec<u32>,
    /// The generator that has the smallest part of its IDs of this hour, day or tick left.
    pub scarcest: Option<CapacityRow>,
    /// The names that it minted most by since the report before, busiest first; at most 16.
    pub names: Vec<NameUseRow>,
}

/// An agent's use of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct NameUseRow {
    /// Its name.
    pub name: String,
    /// The kind of its IDs.
    pub kind: &'static str,
    /// IDs a second between the last two reports.
    pub per_second: u32,
    /// Counts of its plugin `stats`; `None` if it has none.
    pub calls: Option<CallsRow>,
}

/// Results of an agent's calls for IDs of one name since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CallsRow {
    /// Calls that got their IDs.
    pub served: u64,
    /// Calls that did not, for another reason than the caller's own.
    pub failed: u64,
    /// The longest time that 99 of 100 calls that got IDs took, in microseconds, without the network.
    pub p99_us: u32,
}

impl ReportRow {
    /// IDs a second, lately.
    pub fn rate(&self) -> u32 {
        self.rates.last().copied().unwrap_or(0)
    }
}

/// The rest of a generator's capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CapacityRow {
    /// Its name.
    pub name: String,
    /// The kind of its IDs.
    pub kind: &'static str,
    /// IDs left in this hour (`uniq64`) or day (`string`).
    pub left: u64,
    /// IDs that one token has in it.
    pub of: u64,
}

/// A token that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct HeldRow {
    /// The type it was asked for under.
    #[serde(rename = "type")]
    pub token_type: &'static str,
    /// The token.
    pub token: String,
    /// The first instant that may no longer be written into an ID.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub until: WallMs,
}

/// The cluster's parameters, and the flags this master was started with. None of it changes while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SettingsRow {
    /// The master that answers.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = u8)]
    pub master: MasterId,
    /// Its program's version.
    pub version: String,
    /// The cluster; `None` before the first meeting.
    pub cluster: Option<String>,
    /// The number of pairings that this cluster has had.
    pub pair_epoch: u64,
    /// The length of a lease, in days.
    pub lease_days: u8,
    /// Days that a token rests after the day its lease ends in.
    pub grace_days: u8,
    /// Days for which a master may extend leases without the other.
    pub solo_days: u8,
    /// Open leases that one agent may have of one token type.
    pub budget: u8,
    /// The one UTC offset in which hours and days are counted.
    pub utc_offset: String,
    /// The largest `uint2` token.
    pub uint2_max: u16,
    /// Flags that this master was started with and their values, none of them secret.
    pub flags: Vec<FlagRow>,
}

/// A flag that a master was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FlagRow {
    /// Its name, as in `--help`.
    pub flag: &'static str,
    /// Its value.
    pub value: String,
}

/// The agents that no network of the whitelist has any more without one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct CutOff {
    /// The number of agents.
    pub agents: u64,
    /// The leases that they hold all together, which end when their time is over.
    pub leases: u64,
    /// The sections of sequences that they serve, which other agents get within seconds.
    pub sections: u64,
    /// The agents themselves, at most 100.
    pub cut_off: Vec<CutOffRow>,
}

/// An agent that could renew nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct CutOffRow {
    /// Its name.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// Address that it calls from; of several sessions, the first one.
    pub address: String,
    /// The leases that it holds.
    pub leases: u64,
    /// The sections of sequences that it serves.
    pub sections: u64,
}

impl CutOff {
    /// Finds those that, among the networks of `known`, `removed` alone has. An agent that is silent and holds nothing is not one of them.
    pub(crate) fn by(removed: IpNet, known: &[NetworkRow], agents: &[AgentRow], allocators: &[AllocatorRow]) -> Self {
        let rest = known.iter().filter_map(|row| common::setting::network(&row.network).ok());
        let rest: Vec<IpNet> = rest.filter(|network| *network != removed).collect();
        let only_there = |ip: &IpAddr| removed.contains(ip) && !rest.iter().any(|network| network.contains(ip));
        // A start serves sections as a session of its own: they are counted by the agent's name.
        let mut sections: BTreeMap<&AgentId, u64> = BTreeMap::new();
        for row in allocators.iter().filter(|row| !row.silent) {
            *sections.entry(&row.agent_id).or_default() += u64::from(row.sections);
        }
        let mut cut: BTreeMap<&AgentId, CutOffRow> = BTreeMap::new();
        for row in agents {
            let Some(_) = ip_of(&row.address).filter(only_there) else { continue };
            let (leases, sections) = (row.tokens.len() as u64, sections.remove(&row.agent_id).unwrap_or_default());
            if !row.state.is_here() && leases + sections == 0 {
                continue;
            }
            let (agent_id, address) = (row.agent_id.clone(), row.address.clone());
            let first = CutOffRow { agent_id, address, leases: 0, sections: 0 };
            let cut = cut.entry(&row.agent_id).or_insert(first);
            cut.leases += leases;
            cut.sections += sections;
        }
        let (agents, leases) = (cut.len() as u64, cut.values().map(|row| row.leases).sum());
        let sections = cut.values().map(|row| row.sections).sum();
        Self { agents, leases, sections, cut_off: cut.into_values().take(CUT_OFF_NAMED_MAX).collect() }
    }

    pub(crate) fn is_nobody(&self) -> bool {
        self.agents == 0
    }
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agents, leases, sections, .. } = self;
        let s = |n: &u64| if *n == 1 { "" } else { "s" };
        let [of_agents, of_leases, of_sections] = [agents, leases, sections].map(s);
        write!(
            f,
            "{agents} agent{of_agents} with {leases} lease{of_leases} and {sections} section{of_sections} of sequences"
        )
    }
}

/// The address of a caller, without its port.
fn ip_of(address: &str) -> Option<IpAddr> {
    let with_port = address.parse::<SocketAddr>().map(|at| at.ip());
    with_port.or_else(|_| address.parse()).ok().map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, address: &str, state: AgentState, tokens: usize) -> AgentRow {
        let held = HeldRow { token_type: "uint2", token: "7".to_owned(), until: WallMs(0) };
        AgentRow {
            agent_id: name.parse().unwrap(),
            session: SessionId(1),
            state,
            heard: None,
            master: None,
            address: address.to_owned(),
            report: None,
            tokens: vec![held; tokens],
        }
    }

    fn cut(networks: &[&str], removed: &str) -> CutOff {
        let known: Vec<_> = networks.iter().map(|it| NetworkRow { network: (*it).to_owned() }).collect();
        let agents = [
            agent("a", "10.0.0.1:4711", AgentState::Well, 2),
            agent("b", "[::ffff:10.0.0.2]:1", AgentState::Lost, 1),
            agent("c", "10.0.0.3:1", AgentState::Lost, 0),
            agent("d", "192.0.2.1:1", AgentState::Well, 1),
            agent("d", "192.0.2.1:2", AgentState::Lost, 2),
            agent("e", "", AgentState::Lost, 1),
        ];
        CutOff::by(removed.parse().unwrap(), &known, &agents, &[])
    }

    #[test]
    fn only_agents_that_no_other_network_has_are_cut_off() {
        let all = cut(&["10.0.0.0/8", "192.0.2.0/24"], "10.0.0.0/8");
        assert_eq!((all.agents, all.leases), (2, 3), "{all:?}");
        let names: Vec<_> = all.cut_off.iter().map(|row| row.agent_id.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(cut(&["10.0.0.0/8", "10.0.0.0/30"], "10.0.0.0/8").is_nobody(), "a narrower network has them still");
        assert_eq!(cut(&["0.0.0.0/0"], "0.0.0.0/0").agents, 3);
        assert_eq!(
            cut(&["192.0.2.0/24"], "192.0.2.0/24").to_string(),
            "1 agent with 3 leases and 0 sections of sequences"
        );
    }
}
