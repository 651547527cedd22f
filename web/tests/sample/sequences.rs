//! Sections and allocators, as there are after a while.

use super::NOW;
use common::namespace::{Definition, SequenceSpec};
use common::parameters::SessionId;
use common::time::WallMs;
use web::{
    AllocatorRow, BarPart, NamespaceRow, SectionFilter, SectionHolder, SectionPage, SectionRow, SectionState,
    SequenceRow,
};

/// Sections, names and allocators.
#[derive(Clone, Default)]
pub(crate) struct Sequences {
    pub(crate) rows: Vec<SectionRow>,
    pub(crate) names: Vec<SequenceRow>,
    pub(crate) allocators: Vec<AllocatorRow>,
}

impl Sequences {
    pub(crate) fn page(&self, filter: &SectionFilter, page: &SectionPage) -> Vec<SectionRow> {
        let its = |holder: &Option<SectionHolder>| {
            let its = |it: &SectionHolder| filter.agent.as_ref().is_none_or(|wanted| wanted.matches(&it.agent_id));
            holder.as_ref().is_some_and(its)
        };
        let after = |row: &SectionRow| {
            page.after.as_ref().is_none_or(|after| (&after.name, after.section.0) < (&row.name, row.from))
        };
        let admits = |row: &&SectionRow| {
            filter.set.as_ref().is_none_or(|set| set.as_str() == row.set)
                && filter.name.as_ref().is_none_or(|name| *name == row.name)
                && (its(&row.owner) || its(&row.next))
                && after(row)
        };
        self.rows.iter().filter(admits).take(page.limit).cloned().collect()
    }
}

pub(crate) fn holder(agent: &str) -> SectionHolder {
    let session = SessionId(agent.bytes().fold(1, |sum: u128, byte| (sum << 7) + u128::from(byte)) << 64);
    let (http, rpc) = (format!("{agent}:6200"), format!("{agent}:6201"));
    SectionHolder { agent_id: agent.parse().unwrap(), session, http, rpc }
}

/// An agent that serves sections of these sets.
pub(crate) fn allocator(agent: &str, sets: &[&str], sections: u32) -> AllocatorRow {
    let SectionHolder { agent_id, session, http, rpc } = holder(agent);
    AllocatorRow {
        agent_id,
        session,
        sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        http,
        rpc,
        sections,
        memory_used: 96 << 20,
        memory_limit: 512 << 20,
        per_second: 12_400,
        last_keep: Some(WallMs(NOW.0 - 1_000)),
        silent: false,
        draining: false,
        leaves: false,
    }
}

/// Sections of a name from the first to the last one.
pub(crate) fn sections(name: &str, (from, to): (u32, u32), state: SectionState, agent: &str) -> SectionRow {
    SectionRow {
        name: name.parse().unwrap(),
        set: "default".to_owned(),
        from,
        to,
        state,
        g_from: 1,
        g_to: 4,
        owner: Some(holder(agent)),
        next: None,
        max_seq: (from == to).then_some(1_230_000),
    }
}

/// A name with the bar of these sections.
pub(crate) fn name_of(name: &str, rows: &[SectionRow]) -> SequenceRow {
    let part = |row: &SectionRow| BarPart {
        from: row.from,
        to: row.to,
        state: row.state,
        agent_id: row.owner.as_ref().map(|owner| owner.agent_id.clone()),
        mixed: false,
    };
    let mut counts = [0; 4];
    for row in rows {
        counts[SectionState::ALL.iter().position(|it| *it == row.state).unwrap()] += row.to - row.from + 1;
    }
    let (name, set) = (name.parse().unwrap(), "default".to_owned());
    let bar = rows.iter().map(part).collect();
    SequenceRow { name, set, retired: false, sections: 42_950, keys_per_section: 100_000, counts, bar }
}

/// A registered name with a sequence for each key.
pub(crate) fn sequence(name: &str) -> NamespaceRow {
    super::defined(name, &Definition::Sequence(SequenceSpec::default()))
}

/// Two names, of which one is on the move, and three agents, of which one is drained and one silent.
pub(crate) fn furnished() -> Sequences {
    use SectionState::{Proposed, Served, Unserved, Waiting};
    let inbox = [
        sections("inbox", (0, 4_095), Served, "edge-01"),
        SectionRow { next: Some(holder("edge-02")), ..sections("inbox", (4_096, 4_096), Proposed, "edge-01") },
        sections("inbox", (4_097, 4_100), Waiting, "edge-02"),
        sections("inbox", (4_101, 9_000), Served, "edge-02"),
    ];
    let orders = [sections("orders", (0, 99), Served, "edge-02"), sections("orders", (100, 139), Unserved, "edge-03")];
    let names = vec![name_of("inbox", &inbox), name_of("orders", &orders), name_of("unused", &[])];
    let drained = AllocatorRow { draining: true, ..allocator("edge-01", &["default"], 4_097) };
    let silent = AllocatorRow { silent: true, last_keep: None, ..allocator("edge-03", &["default", "large"], 40) };
    let allocators = vec![drained, allocator("edge-02", &["default"], 5_005), silent];
    Sequences { rows: [inbox.to_vec(), orders.to_vec()].concat(), names, allocators }
}
