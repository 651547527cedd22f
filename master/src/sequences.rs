//! Sequences as the console and the metrics show them: who serves which sections, changes under way, and who could serve.

use crate::ledger::Ledger;
use crate::section::{HeldSection, Owned, Piece, SectionMap};
use crate::section_tally::{REASONS, SectionCounts};
use common::metrics::{Series, counter, counters, gauges};
use common::namespace::GeneratorName;
use common::parameters::{AgentId, SessionId};
use common::sequence::{Section, SectionRange, SequenceDefinition};
use common::setting::SettingKey;
use common::time::{BootMs, Now};
use std::collections::BTreeMap;
use web::{
    AllocatorRow, BAR_PARTS_MAX, BarPart, SectionFilter, SectionHolder, SectionPage, SectionRow, SectionState,
    SequenceRow,
};

/// Sections that were just listed for another owner.
pub(crate) type Waiting = SectionMap<BootMs>;

/// The states of a name's sections, found while one passes over them.
struct States<'a> {
    ledger: &'a Ledger,
    now: Now,
    waiting: &'a Waiting,
    /// Owners, each with whether it is silent: looked up once.
    silent: BTreeMap<SessionId, bool>,
}

impl<'a> States<'a> {
    fn new(ledger: &'a Ledger, now: Now, waiting: &'a Waiting) -> Self {
        Self { ledger, now, waiting, silent: BTreeMap::new() }
    }

    /// All of a name from a section on, by pieces that are in one state.
    fn of_name(&mut self, name: &GeneratorName, from: Section) -> impl Iterator<Item = (Piece, SectionState)> {
        let (ledger, waiting) = (self.ledger, self.waiting);
        ledger.sections().of_name(name, from).flat_map(move |piece| {
            let state = self.of(piece.held.as_ref(), piece.prep.as_ref());
            let runs = match state {
                SectionState::Served => waiting.runs(&piece.range),
                _ => vec![(piece.range.clone(), None)],
            };
            let parts = runs.into_iter().map(move |(range, since)| {
                let state = if since.is_some() { SectionState::Waiting } else { state };
                (Piece { range, ..piece.clone() }, state)
            });
            parts.collect::<Vec<_>>()
        })
    }

    fn of(&mut self, held: Option<&HeldSection>, prep: Option<&Owned>) -> SectionState {
        let Some(held) = held.filter(|_| prep.is_none()) else { return SectionState::Proposed };
        let session = held.owner.session;
        let (ledger, now) = (self.ledger, self.now.boot);
        let silent = *self.silent.entry(session).or_insert_with(|| ledger.allocators().silent(now, session));
        if silent { SectionState::Unserved } else { SectionState::Served }
    }
}

/// The definition of a name, retired or not.
fn definition<'a>(ledger: &'a Ledger, name: &GeneratorName) -> Option<&'a SequenceDefinition> {
    let setting = ledger.settings_table().get(&SettingKey::Namespace(name.clone()))?;
    setting.value.namespace()?.sequences()
}

/// Sections that match, ascending, those beside each other with one owner and one state in one row. It stops with the page.
pub(crate) fn sections(
    ledger: &Ledger,
    now: Now,
    waiting: &Waiting,
    filter: &SectionFilter,
    page: &SectionPage,
) -> Vec<SectionRow> {
    let mut states = States::new(ledger, now, waiting);
    let mut rows: Vec<SectionRow> = Vec::new();
    let first = page.after.as_ref().map(|after| &after.name);
    for name in ledger.sections().names(first.max(filter.name.as_ref())) {
        let definition = definition(ledger, name);
        let of_set = |set: &GeneratorName| definition.is_some_and(|it| it.set() == set);
        if filter.name.as_ref().is_some_and(|wanted| wanted < name) {
            break;
        }
        if !filter.set.as_ref().is_none_or(of_set) {
            continue;
        }
        let set = definition.map(|it| it.set().to_string()).unwrap_or_default();
        let after = page.after.as_ref().filter(|after| after.name == *name);
        let Some(from) = after.map_or(Some(0), |after| after.section.0.checked_add(1)) else { continue };
        for (piece, state) in states.of_name(name, Section(from)) {
            let its = |agent_id: Option<&AgentId>| match (&filter.agent, agent_id) {
                (Some(wanted), agent_id) => agent_id.is_some_and(|agent_id| wanted.matches(agent_id)),
                (None, _) => true,
            };
            let Piece { range, held, prep } = &piece;
            if !its(held.as_ref().map(|it| &it.owner.agent_id)) && !its(prep.as_ref().map(|it| &it.owner.agent_id)) {
                continue;
            }
            if let Some(last) = rows.last_mut()
                && joins(last, &piece, state)
            {
                let g = g_of(&piece);
                (last.to, last.max_seq) = (range.last().section.0, None);
                (last.g_from, last.g_to) = (last.g_from.min(g), last.g_to.max(g));
            } else if rows.len() >= page.limit {
                return rows;
            } else {
                rows.push(row(&set, piece, state));
            }
        }
    }
    rows
}

fn g_of(piece: &Piece) -> u64 {
    let g = piece.held.as_ref().map(|it| it.g).or(piece.prep.as_ref().map(|it| it.g));
    g.map_or(0, |g| g.0)
}

fn joins(last: &SectionRow, Piece { range, held, prep }: &Piece, state: SectionState) -> bool {
    let session = |holder: &Option<SectionHolder>| holder.as_ref().map(|it| it.session);
    last.to.checked_add(1) == Some(range.from.0)
        && last.state == state
        && session(&last.owner) == held.as_ref().map(|it| it.owner.session)
        && session(&last.next) == prep.as_ref().map(|it| it.owner.session)
        && last.name == range.name
}

fn row(set: &str, piece: Piece, state: SectionState) -> SectionRow {
    let g = g_of(&piece);
    let Piece { range, held, prep } = piece;
    SectionRow {
        set: set.to_owned(),
        from: range.from.0,
        to: range.last().section.0,
        state,
        g_from: g,
        g_to: g,
        owner: held.as_ref().map(|it| it.owner.as_ref().into()),
        next: prep.map(|it| it.owner.as_ref().into()),
        max_seq: held.filter(|_| range.len() == 1).map(|it| it.max_seq),
        name: range.name,
    }
}

/// All names of kind `sequence`, those of one set if one is given, by their names: no more than there may be names.
pub(crate) fn names(ledger: &Ledger, now: Now, waiting: &Waiting, set: Option<&GeneratorName>) -> Vec<SequenceRow> {
    let mut states = States::new(ledger, now, waiting);
    let all = ledger.settings_table().all().filter_map(|setting| {
        let namespace = setting.value.namespace()?;
        let definition = namespace.sequences()?;
        set.is_none_or(|set| set == definition.set())
            .then(|| (namespace.name(), definition, setting.value.is_retired()))
    });
    let all = all.map(|(name, definition, retired)| {
        let (counts, bar) = drawn(&mut states, name);
        SequenceRow {
            name: name.clone(),
            set: definition.set().to_string(),
            retired,
            sections: definition.sections(),
            keys_per_section: definition.keys_per_section(),
            counts,
            bar,
        }
    });
    all.collect()
}

/// Counts the sections of a name in each state, and draws its bar.
fn drawn(states: &mut States<'_>, name: &GeneratorName) -> ([u32; 4], Vec<BarPart>) {
    let table = states.ledger.sections();
    let Some((first, last)) = table.ends(name) else { return Default::default() };
    let mut counts = [0_u32; 4];
    let mut bar = Bar::new(first.0, last.0);
    for (Piece { range, held, prep }, state) in states.of_name(name, first) {
        let at = SectionState::ALL.iter().position(|it| *it == state);
        if let Some(count) = at.and_then(|at| counts.get_mut(at)) {
            *count = count.saturating_add(range.len());
        }
        let owner = held.map(|it| it.owner).or(prep.map(|it| it.owner));
        bar.add(&range, state, owner.map(|it| it.agent_id.clone()));
    }
    (counts, bar.parts())
}

/// The parts of a bar: exact ranges as long as there are few of them, else columns of one width with who has most of each.
struct Bar {
    first: u32,
    width: u32,
    exact: Option<Vec<BarPart>>,
    column: u32,
    /// Sections of the column at hand, by state and agent.
    having: BTreeMap<(SectionState, Option<AgentId>), u32>,
    columns: Vec<BarPart>,
}

impl Bar {
    fn new(first: u32, last: u32) -> Self {
        let most = u32::try_from(BAR_PARTS_MAX).unwrap_or(u32::MAX);
        let all = u64::from(last.saturating_sub(first)) + 1;
        let width = u32::try_from(all.div_ceil(most.into())).unwrap_or(u32::MAX);
        Self { first, width, exact: Some(Vec::new()), column: 0, having: BTreeMap::new(), columns: Vec::new() }
    }

    fn add(&mut self, range: &SectionRange, state: SectionState, agent_id: Option<AgentId>) {
        let (from, to) = (range.from.0, range.last().section.0);
        if let Some(parts) = &mut self.exact {
            let room = parts.len() < BAR_PARTS_MAX;
            let joins = |last: &&mut BarPart| {
                last.to.checked_add(1) == Some(from) && (last.state, &last.agent_id) == (state, &agent_id)
            };
            if let Some(last) = parts.last_mut().filter(joins) {
                last.to = to;
            } else if room {
                parts.push(BarPart { from, to, state, agent_id: agent_id.clone(), mixed: false });
            } else {
                self.exact = None;
            }
        }
        let column_of = |section: u32| section.saturating_sub(self.first) / self.width;
        for column in column_of(from)..=column_of(to) {
            if column != self.column {
                self.end_column();
                self.column = column;
            }
            let begin = self.first.saturating_add(column.saturating_mul(self.width));
            let end = begin.saturating_add(self.width).min(to.saturating_add(1));
            let count = self.having.entry((state, agent_id.clone())).or_default();
            *count = count.saturating_add(end.saturating_sub(begin.max(from)));
        }
    }

    fn end_column(&mut self) {
        let most = self.having.iter().max_by_key(|(_, count)| **count);
        if let Some(((state, agent_id), count)) = most {
            let from = self.first.saturating_add(self.column.saturating_mul(self.width));
            let to = from.saturating_add(self.width.saturating_sub(1));
            let (state, agent_id, mixed) = (*state, agent_id.clone(), *count < self.width);
            self.columns.push(BarPart { from, to, state, agent_id, mixed });
        }
        self.having.clear();
    }

    fn parts(mut self) -> Vec<BarPart> {
        self.end_column();
        self.exact.unwrap_or(self.columns)
    }
}

/// The sessions that either master has heard of, by the names of their agents.
pub(crate) fn allocators(ledger: &Ledger, now: Now) -> Vec<AllocatorRow> {
    let known = ledger.allocators();
    let mut rows: Vec<AllocatorRow> = known
        .all()
        .map(|(session, it)| AllocatorRow {
            agent_id: it.said.agent_id.clone(),
            session,
            sets: it.said.sets.iter().map(ToString::to_string).collect(),
            http: it.said.address.http.clone(),
            rpc: it.said.address.rpc.clone(),
            sections: count_of(ledger, session),
            memory_used: it.said.used,
            memory_limit: it.said.memory,
            per_second: it.said.per_second,
            last_keep: it.here.map(|here| now.wall + (here - now.boot)),
            silent: known.silent(now.boot, session),
            draining: known.is_drained(&it.said.agent_id),
            leaves: it.said.leaves,
        })
        .collect();
    rows.sort_unstable_by(|a, b| (&a.agent_id, a.session).cmp(&(&b.agent_id, b.session)));
    rows
}

/// Sections of living names that a session has or is to have: those of retired ones go to nobody any more.
fn count_of(ledger: &Ledger, session: SessionId) -> u32 {
    let living = ledger.sections().counts(session).filter(|(name, _)| ledger.is_living_sequence(name));
    living.fold(0, |sum, (_, count)| sum.saturating_add(count))
}

/// Sections that the sessions of an agent have or are to have.
pub(crate) fn count_of_agent(ledger: &Ledger, agent_id: &AgentId) -> u32 {
    let sessions = ledger.allocators().of_agent(agent_id);
    sessions.fold(0, |sum, (session, _)| sum.saturating_add(count_of(ledger, session)))
}

/// Numbers of sections and allocators in each state at one moment, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionGauges {
    /// Sections by state, in the order of [`SectionState::ALL`].
    sections: [u64; 4],
    heard: u64,
    silent: u64,
    drained: u64,
}

/// Counted from what is kept by owner, without passing over the sections.
pub(crate) fn section_gauges(ledger: &Ledger, now: Now, waiting: u64) -> SectionGauges {
    let (table, allocators) = (ledger.sections(), ledger.allocators());
    let listed = |session| table.listed(session).map_or(0, SectionMap::sections);
    let (silent, living): (Vec<SessionId>, Vec<SessionId>) =
        table.owners().partition(|session| allocators.silent(now.boot, *session));
    let unserved = silent.into_iter().map(listed).sum();
    let living: u64 = living.into_iter().map(listed).sum();
    let waiting = living.min(waiting);
    let proposed = table.proposed();
    let mut states = SectionGauges {
        sections: [living.saturating_sub(waiting), waiting, proposed, unserved],
        ..SectionGauges::default()
    };
    for (session, allocator) in allocators.all() {
        let of = match allocators.silent(now.boot, session) {
            true => &mut states.silent,
            false if allocators.leaves(allocator) => &mut states.drained,
            false => &mut states.heard,
        };
        *of = of.saturating_add(1);
    }
    states
}

/// Series of the states of sections and allocators. The labels are words of the program, so there are always as many lines.
pub(crate) const GAUGES: &[Series<SectionGauges>] = &[
    gauges("uniq_master_sections", "Sections of sequences, by how they are.", &["state"], |states, out| {
        SectionState::ALL.iter().zip(states.sections).for_each(|(state, n)| out.of([&state.name()], n));
    }),
    gauges("uniq_master_allocators", ALLOCATORS, &["state"], |SectionGauges { heard, silent, drained, .. }, out| {
        out.of([&"heard"], heard);
        out.of([&"leaving"], drained);
        out.of([&"silent"], silent);
    }),
];
const ALLOCATORS: &str = "Agents' sessions that serve sections or could; leaving: drained, or about to stop.";

/// Series of what was done about sections.
pub(crate) const DONE: &[Series<SectionCounts>] = &[
    counters(
        "uniq_master_section_raises_refused_total",
        "Raises of sections that were refused.",
        &["why"],
        |it, out| {
            REASONS.iter().zip(it.refused).for_each(|(why, n)| out.of([why], n));
        },
    ),
    counter("uniq_master_section_moves_total", "Sections at home at this master that got another owner.", |it| {
        it.moves
    }),
    counter("uniq_master_section_raises_total", "Bounds of sections that were raised.", |it| it.raises),
    counter("uniq_master_keeps_total", "Calls by which agents keep their sections that were answered.", |it| it.keeps),
];

#[cfg(test)]
#[path = "sequences_tests.rs"]
mod tests;
