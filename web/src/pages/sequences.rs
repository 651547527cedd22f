//! Sequences: which agent serves which sections of keys, moves under way, and the load of each agent.

use super::{Frame, PageContext, Parts, rows};
use crate::auth::Role;
use crate::masters::Masters;
use crate::problem::Problem;
use crate::query::{SectionsQuery, escaped};
use crate::sequences::{
    AllocatorRow, BarPart, SectionFilter, SectionHolder, SectionPage, SectionRow, SectionState, SequenceRow,
};
use crate::text::{When, grouped, percent};
use crate::words::{Words, fill};
use askama::Template;
use common::kind::Kind;
use common::parameters::AgentId;
use common::sequence::SectionKey;
use std::collections::BTreeMap;

/// Names of which bars are drawn on one page.
const BARS_MAX: usize = 12;
/// Rows of sections on one page: on a phone each of them is a card of its own.
const ROWS_MAX: usize = 20;
/// Patterns over the colours of the agents in bars, as paths in squares of 8: they are told apart without colour. With more agents some
/// share one, and the table tells them apart.
const PATTERNS: [&str; 8] = [
    "",
    "M-2 2l4-4M0 8l8-8M6 10l4-4",
    "M-2 6l4 4M0 0l8 8M6-2l4 4",
    "M0 4h8",
    "M4 0v8",
    "M4 0v8M0 4h8",
    "M3 4h2",
    "M0 0l8 8M0 8l8-8",
];
/// Parts of a bar that its label tells in words: the table has all of them.
const TOLD_MAX: usize = 12;
/// Parts of a bar that positions are told in: 100 % with two digits behind the point.
const BAR_UNITS: u64 = 10_000;
/// The narrowest part of a bar: a smaller one would be invisible.
const BAR_UNITS_MIN: u64 = 20;

/// A filter of sections, and the page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SequencesView {
    filter: SectionFilter,
    after: Option<SectionKey>,
}

impl TryFrom<SectionsQuery> for SequencesView {
    type Error = Problem;
    fn try_from(query: SectionsQuery) -> Result<Self, Problem> {
        let (filter, page) = query.read()?;
        Ok(Self { filter, after: page.after })
    }
}

impl SequencesView {
    fn texts(&self) -> [String; 3] {
        let SectionFilter { set, name, agent } = &self.filter;
        let text = |name: &Option<_>| name.as_ref().map(ToString::to_string).unwrap_or_default();
        [text(set), text(name), agent.as_ref().map(ToString::to_string).unwrap_or_default()]
    }

    fn href(&self, after: Option<&SectionRow>) -> String {
        let [set, name, agent] = self.texts().map(|text| escaped(&text));
        let after = after.map(|row| escaped(&format!("{}/{}", row.name, row.to)));
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        format!("/sequences?set={set}&name={name}&agent={agent}{after}")
    }
}

#[derive(Template)]
#[template(path = "sequences.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
    set: String,
    name: String,
    agent: String,
    filtered: bool,
    offered: Vec<String>,
    patterns: [&'static str; PATTERNS.len()],
}

pub(super) async fn page(
    masters: &dyn Masters,
    frame: Frame,
    view: &SequencesView,
    parts: &Parts,
) -> Result<String, Problem> {
    let mut offered: Vec<String> = rows(masters.allocators()).await?.iter().map(|it| it.agent_id.to_string()).collect();
    offered.dedup();
    let [set, name, agent] = view.texts();
    let filtered = view.filter != SectionFilter::default();
    Ok(Page { frame, parts, set, name, agent, filtered, offered, patterns: PATTERNS }.render()?)
}

pub(super) async fn parts(page: &PageContext<'_>, view: &SequencesView, parts: &mut Parts) -> Result<(), Problem> {
    let (w, operator, gated) = (page.w, page.key.role >= Role::Operator, page.snapshot.gated());
    let names = rows(page.masters.sequences(view.filter.set.clone())).await?;
    let allocators = rows(page.masters.allocators()).await?;
    // One more than is shown, to know whether there are more.
    let wanted = SectionPage { after: view.after.clone(), limit: ROWS_MAX.saturating_add(1) };
    let mut sections = rows(page.masters.sections(view.filter.clone(), wanted)).await?;
    let more = sections.len() > ROWS_MAX;
    sections.truncate(ROWS_MAX);
    parts.add("map", &MapPart::new(view, &names, w))?;
    let any = !names.is_empty();
    let shown: Vec<Row> = sections.iter().map(|row| Row::new(row, w)).collect();
    let summary = fill(w.sections_shown, &[&grouped(u64::try_from(shown.len()).unwrap_or(u64::MAX))]);
    parts.add("rows", &RowsPart { w, rows: shown, any, operator, gated })?;
    let next = sections.last().filter(|_| more).map(|last| view.href(Some(last)));
    let first = view.after.is_some().then(|| view.href(None));
    parts.add("pager", &PagerPart { w, summary, first, next })?;
    parts.add("allocators", &allocators_table(&allocators, operator, page))?;
    Ok(())
}

/// The agents that serve sections, as rows.
pub(super) fn allocators_table(all: &[AllocatorRow], operator: bool, page: &PageContext<'_>) -> AllocatorsPart {
    let rows = all.iter().map(|row| Agent::new(row, page)).collect();
    AllocatorsPart { w: page.w, rows, operator, gated: page.snapshot.gated() }
}

#[derive(Template)]
#[template(path = "sequences_map.html")]
struct MapPart {
    w: &'static Words,
    bars: Vec<Bar>,
    /// The agents in the bars, each with the number of its pattern.
    legend: Vec<(usize, String)>,
    more: Option<String>,
}

struct Bar {
    name: String,
    href: String,
    set: String,
    retired: bool,
    given: String,
    moving: Option<String>,
    unserved: Option<String>,
    label: String,
    ends: Option<(String, String)>,
    pieces: Vec<DrawnPart>,
}

/// A part of a bar as it is drawn.
struct DrawnPart {
    class: &'static str,
    /// The number of its pattern, where an agent serves it.
    pattern: Option<usize>,
    /// Begin and length, in percent.
    at: String,
    length: String,
    title: String,
}

impl MapPart {
    fn new(view: &SequencesView, names: &[SequenceRow], w: &'static Words) -> Self {
        let mut wanted: Vec<&SequenceRow> =
            names.iter().filter(|row| view.filter.name.as_ref().is_none_or(|name| *name == row.name)).collect();
        let count = wanted.len();
        // What was asked for comes first; the names are in order already.
        wanted.sort_by_key(|row| row.bar.is_empty());
        wanted.truncate(BARS_MAX);
        let mut legend: BTreeMap<&AgentId, usize> = BTreeMap::new();
        wanted.iter().flat_map(|row| &row.bar).filter_map(|part| part.agent_id.as_ref()).for_each(|agent_id| {
            legend.insert(agent_id, 0);
        });
        legend.values_mut().zip((0..PATTERNS.len()).cycle()).for_each(|(pattern, nth)| *pattern = nth);
        let bars = wanted.iter().map(|row| Bar::new(row, &legend, w)).collect();
        let left = count.saturating_sub(BARS_MAX);
        let more = (left > 0).then(|| fill(w.sequences_more, &[&grouped(u64::try_from(left).unwrap_or(u64::MAX))]));
        let legend = legend.into_iter().map(|(agent_id, pattern)| (pattern, agent_id.to_string())).collect();
        Self { w, bars, legend, more }
    }
}

impl Bar {
    fn new(row: &SequenceRow, legend: &BTreeMap<&AgentId, usize>, w: &'static Words) -> Self {
        let number = |count: u32| grouped(count.into());
        let counted = |count: u32, text: &str| (count > 0).then(|| fill(text, &[&number(count)]));
        let given = row.counts.iter().fold(0_u32, |sum, count| sum.saturating_add(*count));
        let moving = row.count(SectionState::Waiting).saturating_add(row.count(SectionState::Proposed));
        let ends = row.bar.first().zip(row.bar.last()).map(|(first, last)| (first.from, last.to));
        let pieces =
            ends.map(|(from, to)| row.bar.iter().map(|part| DrawnPart::new(part, (from, to), legend, w)).collect());
        Self {
            name: row.name.to_string(),
            href: format!("/namespaces/{}/{}", Kind::Sequence, row.name),
            set: row.set.clone(),
            retired: row.retired,
            given: fill(w.sections_of, &[&number(given), &number(row.sections)]),
            moving: counted(moving, w.sections_moving),
            unserved: counted(row.count(SectionState::Unserved), w.sections_unserved),
            label: label(row, w),
            ends: ends.map(|(from, to)| (number(from), number(to))),
            pieces: pieces.unwrap_or_default(),
        }
    }
}

/// A bar in words, for those who do not see it.
fn label(row: &SequenceRow, w: &'static Words) -> String {
    let (Some(first), Some(last)) = (row.bar.first(), row.bar.last()) else { return String::new() };
    let mut told: Vec<String> = row.bar.iter().take(TOLD_MAX).map(|part| part_told(part, w)).collect();
    let left = row.bar.len().saturating_sub(TOLD_MAX);
    if left > 0 {
        told.push(fill(w.sections_bar_more, &[&grouped(u64::try_from(left).unwrap_or(u64::MAX))]));
    }
    let [from, to] = [first.from, last.to].map(|at| grouped(at.into()));
    fill(w.sections_bar, &[&from, &to, row.name.as_str(), &told.join("; ")])
}

fn part_told(part: &BarPart, w: &'static Words) -> String {
    let agent = part.agent_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut what = match part.state {
        SectionState::Served => agent,
        state => format!("{agent} ({})", state_name(state, w)),
    };
    if part.mixed {
        what = fill(w.sections_mixed, &[&what]);
    }
    let [from, to] = [part.from, part.to].map(|at| grouped(at.into()));
    fill(w.sections_bar_part, &[&from, &to, &what])
}

impl DrawnPart {
    fn new(part: &BarPart, (from, to): (u32, u32), legend: &BTreeMap<&AgentId, usize>, w: &'static Words) -> Self {
        let all = u64::from(to.saturating_sub(from)).saturating_add(1);
        let units = |sections: u32| u64::from(sections).saturating_mul(BAR_UNITS) / all;
        let at = units(part.from.saturating_sub(from));
        let end = units(part.to.saturating_sub(from).saturating_add(1));
        let told = |units: u64| format!("{}.{:02}", units / 100, units % 100);
        let served = part.agent_id.as_ref().filter(|_| part.state == SectionState::Served);
        Self {
            class: part.state.name(),
            pattern: served.and_then(|agent_id| legend.get(agent_id).copied()),
            at: told(at.min(BAR_UNITS.saturating_sub(BAR_UNITS_MIN))),
            length: told(end.saturating_sub(at).max(BAR_UNITS_MIN)),
            title: part_told(part, w),
        }
    }
}

fn state_name(state: SectionState, w: &'static Words) -> &'static str {
    match state {
        SectionState::Served => w.section_served,
        SectionState::Waiting => w.section_waiting,
        SectionState::Proposed => w.section_proposed,
        SectionState::Unserved => w.section_unserved,
    }
}

#[derive(Template)]
#[template(path = "sequences_rows.html")]
struct RowsPart {
    w: &'static Words,
    rows: Vec<Row>,
    any: bool,
    operator: bool,
    gated: bool,
}

struct Row {
    key: String,
    name: String,
    href: String,
    set: String,
    sections: String,
    tone: &'static str,
    state: &'static str,
    state_text: &'static str,
    owner: Option<Holder>,
    next: Option<String>,
    owners: String,
    max_seq: Option<String>,
    /// The first and the last section, as the form says them.
    raw: (u32, u32),
}

struct Holder {
    agent: String,
    session: String,
    http: String,
}

impl Row {
    fn new(row: &SectionRow, w: &'static Words) -> Self {
        let (tone, state_text) = match row.state {
            SectionState::Served => ("well", w.section_served_text),
            SectionState::Waiting => ("wait", w.section_waiting_text),
            SectionState::Proposed => ("wait", w.section_proposed_text),
            SectionState::Unserved => ("bad", w.section_unserved_text),
        };
        let range = |from: String, to: String| if from == to { from } else { fill(w.section_from_to, &[&from, &to]) };
        let holder = |it: &SectionHolder| Holder {
            agent: it.agent_id.to_string(),
            session: it.session.shown(),
            http: it.http.clone(),
        };
        Self {
            key: format!("section-{}-{}", row.name, row.from),
            name: row.name.to_string(),
            href: format!("/namespaces/{}/{}", Kind::Sequence, row.name),
            set: row.set.clone(),
            sections: range(grouped(row.from.into()), grouped(row.to.into())),
            tone,
            state: state_name(row.state, w),
            state_text,
            owner: row.owner.as_ref().map(holder),
            next: row.next.as_ref().map(|next| fill(w.section_next, &[next.agent_id.as_str()])),
            owners: range(grouped(row.g_from), grouped(row.g_to)),
            max_seq: row.max_seq.map(grouped),
            raw: (row.from, row.to),
        }
    }
}

#[derive(Template)]
#[template(path = "sequences_pager.html")]
struct PagerPart {
    w: &'static Words,
    summary: String,
    first: Option<String>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "allocators_rows.html")]
pub(super) struct AllocatorsPart {
    w: &'static Words,
    rows: Vec<Agent>,
    operator: bool,
    gated: bool,
}

struct Agent {
    key: String,
    agent: String,
    href: String,
    http: String,
    session: String,
    sets: String,
    tone: &'static str,
    state: &'static str,
    state_text: &'static str,
    sections: String,
    per_second: String,
    memory: String,
    memory_percent: String,
    memory_units: u64,
    last_keep: Option<When>,
    draining: bool,
    silent: bool,
}

impl Agent {
    fn new(row: &AllocatorRow, page: &PageContext<'_>) -> Self {
        let w = page.w;
        let (tone, state, state_text) = match row {
            AllocatorRow { silent: true, .. } => ("bad", w.allocator_silent, w.allocator_silent_text),
            AllocatorRow { leaves: true, .. } => ("warn", w.allocator_leaves, w.allocator_leaves_text),
            AllocatorRow { draining: true, sections: 0, .. } => ("wait", w.allocator_drained, w.allocator_drained_text),
            AllocatorRow { draining: true, .. } => ("wait", w.allocator_draining, w.allocator_draining_text),
            _ => ("well", w.allocator_serves, w.allocator_serves_text),
        };
        let bytes = |bytes: u64| format!("{} MiB", grouped(bytes >> 20));
        let share = u128::from(row.memory_used) * 100 / u128::from(row.memory_limit.max(1));
        Self {
            key: format!("allocator-{}", row.session.shown()),
            agent: row.agent_id.to_string(),
            href: super::agent::href(row.agent_id.as_str()),
            http: row.http.clone(),
            session: row.session.shown(),
            sets: row.sets.join(", "),
            tone,
            state,
            state_text,
            sections: grouped(row.sections.into()),
            per_second: grouped(row.per_second.into()),
            memory: fill(w.memory_of, &[&bytes(row.memory_used), &bytes(row.memory_limit)]),
            memory_percent: percent(row.memory_used, row.memory_limit),
            memory_units: u64::try_from(share).unwrap_or(100).min(100),
            last_keep: row.last_keep.map(|at| page.when(at)),
            draining: row.draining,
            silent: row.silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Lang;
    use common::sequence::Section;

    fn part(from: u32, to: u32, state: SectionState, agent: &str, mixed: bool) -> BarPart {
        BarPart { from, to, state, agent_id: Some(agent.parse().unwrap()), mixed }
    }

    fn sequence(bar: Vec<BarPart>) -> SequenceRow {
        SequenceRow {
            name: "inbox".parse().unwrap(),
            set: "default".to_owned(),
            retired: false,
            sections: 42_950,
            keys_per_section: 100_000,
            counts: [1, 2, 3, 4],
            bar,
        }
    }

    #[test]
    fn a_bar_is_drawn_to_scale_and_nothing_of_it_is_too_narrow_to_be_seen() {
        use SectionState::{Served, Unserved};
        let bar = vec![
            part(100, 100, Served, "b", false),
            part(101, 100_098, Unserved, "a", false),
            part(100_099, 100_099, Served, "a", false),
        ];
        let view = SequencesView { filter: SectionFilter::default(), after: None };
        let map = MapPart::new(&view, &[sequence(Vec::new()), sequence(bar)], Lang::En.words());
        let drawn: Vec<_> =
            map.bars[0].pieces.iter().map(|it| (it.pattern, it.at.as_str(), it.length.as_str())).collect();
        assert_eq!(drawn, [(Some(1), "0.00", "0.20"), (None, "0.00", "99.99"), (Some(0), "99.80", "0.20")]);
        assert!(map.bars[1].pieces.is_empty(), "what was never asked for stands behind");
        assert_eq!(map.bars[0].ends, Some(("100".to_owned(), "100,099".to_owned())));
        assert_eq!(map.bars[0].given, "10 of 42,950 sections given");
        assert_eq!(map.bars[0].moving.as_deref(), Some("5 moving"));
        assert_eq!(map.legend, [(0, "a".to_owned()), (1, "b".to_owned())]);
        let label = "Sections 100 to 100,099 of inbox: 100 to 100: b; 101 to 100,098: a (served by nobody); \
                     100,099 to 100,099: a";
        assert_eq!(map.bars[0].label, label);
    }

    #[test]
    fn a_bar_of_many_parts_is_told_shortly() {
        let bar: Vec<_> = (0..50).map(|at| part(at, at, SectionState::Served, "a", at == 0)).collect();
        let told = label(&sequence(bar), Lang::En.words());
        assert!(told.contains(": 0 to 0: mostly a; ") && told.ends_with("; and 38 more parts"), "{told}");
    }

    #[test]
    fn a_page_is_found_again_by_its_address() {
        let query = r#"{"set":"large","name":"inbox","agent":"edge-*","after":"inbox/7"}"#;
        let view = SequencesView::try_from(serde_json::from_str::<SectionsQuery>(query).unwrap()).unwrap();
        assert_eq!(view.href(None), "/sequences?set=large&name=inbox&agent=edge-*");
        let row = SectionRow {
            name: "inbox".parse().unwrap(),
            set: "large".to_owned(),
            from: 8,
            to: 9,
            state: SectionState::Served,
            g_from: 1,
            g_to: 1,
            owner: None,
            next: None,
            max_seq: None,
        };
        assert_eq!(view.href(Some(&row)), "/sequences?set=large&name=inbox&agent=edge-*&after=inbox%2F9");
        assert_eq!(view.after, Some(SectionKey { name: "inbox".parse().unwrap(), section: Section(7) }));
    }
}
