//! The agents.

use super::leases::Pager;
use super::picture::Spark;
use super::{Frame, PageContext, Parts, rows, unit};
use crate::agents::{AgentRow, AgentState};
use crate::preferences::Choice;
use crate::problem::Problem;
use crate::query::{PAGE_ROWS, escaped, page_number};
use crate::text::{Grain, When, grouped, percent, skew, span};
use crate::words::{Words, fill};
use askama::Template;
use serde::Deserialize;

/// The longest text to search for, in characters.
const SEARCH_CHARS_MAX: usize = 64;

/// The query: a part of the name, a state, a page.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentsQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    page: String,
}

/// A filter of agents, and the page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentsView {
    search: String,
    state: Option<AgentState>,
    page: u32,
}

impl TryFrom<AgentsQuery> for AgentsView {
    type Error = Problem;
    fn try_from(query: AgentsQuery) -> Result<Self, Problem> {
        let search = query.search.trim().to_lowercase();
        if search.chars().count() > SEARCH_CHARS_MAX {
            return Err(Problem::bad_parameter(format!("search: at most {SEARCH_CHARS_MAX} characters")));
        }
        let state = match query.state.as_str() {
            "" => None,
            name => Some(
                AgentState::ALL
                    .into_iter()
                    .find(|state| state.name() == name)
                    .ok_or_else(|| Problem::bad_parameter("state: an agent is well, late, lost or stopped"))?,
            ),
        };
        Ok(Self { search, state, page: page_number(&query.page)? })
    }
}

impl AgentsView {
    fn admits(&self, row: &AgentRow) -> bool {
        let found = || row.agent_id.as_str().to_lowercase().contains(&self.search);
        self.state.is_none_or(|state| state == row.state) && (self.search.is_empty() || found())
    }

    fn href(&self, page: u32) -> String {
        let state = self.state.map(AgentState::name).unwrap_or_default();
        format!("/agents?search={}&state={state}&page={page}", escaped(&self.search))
    }

    fn skip(&self) -> usize {
        usize::try_from(self.page.saturating_sub(1)).unwrap_or(usize::MAX).saturating_mul(PAGE_ROWS)
    }
}

#[derive(Template)]
#[template(path = "agents.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
    search: String,
    states: Vec<Choice>,
    filtered: bool,
}

pub(super) fn page(frame: Frame, view: &AgentsView, parts: &Parts) -> Result<String, askama::Error> {
    let w = frame.w;
    let states = AgentState::ALL.map(|state| Choice {
        value: state.name(),
        name: state_name(state, w),
        chosen: view.state == Some(state),
    });
    let filtered = !view.search.is_empty() || view.state.is_some();
    Page { frame, parts, search: view.search.clone(), states: states.into(), filtered }.render()
}

pub(super) async fn parts(page: &PageContext<'_>, view: &AgentsView, parts: &mut Parts) -> Result<(), Problem> {
    let w = page.w;
    let mut all = rows(page.masters.agents()).await?;
    let count = all.len();
    all.retain(|row| view.admits(row));
    // What needs a look comes first; the names are in order already.
    all.sort_by_key(|row| row.state);
    let (matching, skip) = (all.len(), view.skip());
    let shown: Vec<AgentRow> = all.into_iter().skip(skip).take(PAGE_ROWS).collect();
    let number = |n: usize| grouped(u64::try_from(n).unwrap_or(u64::MAX));
    let summary = fill(w.agents_shown, &[&number(matching), &number(count)]);
    let more = skip.saturating_add(PAGE_ROWS) < matching;
    let previous = (view.page > 1).then(|| view.href(view.page - 1));
    parts.add("rows", &table(&shown, count > 0, page))?;
    parts.add("pager", &Pager::plain(summary, previous, more.then(|| view.href(view.page + 1)), w))?;
    Ok(())
}

/// Agents as rows; `any` says whether there are any that are not shown.
pub(super) fn table(all: &[AgentRow], any: bool, page: &PageContext<'_>) -> Rows {
    Rows { w: page.w, rows: all.iter().map(|row| Row::new(row, page)).collect(), any }
}

pub(super) fn state_name(state: AgentState, w: &'static Words) -> &'static str {
    match state {
        AgentState::Well => w.agent_well,
        AgentState::Late => w.agent_late,
        AgentState::Lost => w.agent_lost,
        AgentState::Stopped => w.agent_stopped,
    }
}

#[derive(Template)]
#[template(path = "agents_rows.html")]
pub(super) struct Rows {
    w: &'static Words,
    rows: Vec<Row>,
    any: bool,
}

struct Row {
    key: String,
    name: String,
    href: String,
    tone: &'static str,
    state: &'static str,
    state_text: &'static str,
    heard: Option<When>,
    master: Option<String>,
    address: String,
    session: String,
    tokens: Vec<AgentToken>,
    report: Option<Reported>,
}

struct AgentToken {
    text: String,
    token_type: &'static str,
    href: String,
}

struct Reported {
    version: String,
    fresh_because: Option<String>,
    uptime: String,
    offset: String,
    not_ready: Option<String>,
    minted: String,
    rate: String,
    spark: Spark,
    left: Option<Left>,
}

struct Left {
    percent: String,
    /// The filled part of the bar, of 100.
    units: u64,
    title: String,
}

impl Row {
    fn new(row: &AgentRow, page: &PageContext<'_>) -> Self {
        let w = page.w;
        let held = |held: &crate::agents::HeldRow| AgentToken {
            text: held.token.clone(),
            token_type: held.token_type,
            href: format!("/leases/{}/{}", held.token_type, held.token),
        };
        Self {
            key: format!("agent-{}-{}", row.agent_id, row.session.shown()),
            name: row.agent_id.to_string(),
            href: super::agent::href(row.agent_id.as_str()),
            tone: row.state.name(),
            state: state_name(row.state, w),
            state_text: match row.state {
                AgentState::Well => w.agent_well_text,
                AgentState::Late => w.agent_late_text,
                AgentState::Lost => w.agent_lost_text,
                AgentState::Stopped => w.agent_stopped_text,
            },
            heard: row.heard.map(|at| When::new(at, page.snapshot.now, Grain::Minute, w)),
            master: row.master.map(|master| fill(w.master, &[&master.to_string()])),
            address: row.address.clone(),
            session: row.session.shown(),
            tokens: row.tokens.iter().map(held).collect(),
            report: row.report.as_ref().map(|report| Reported::new(report, w)),
        }
    }
}

impl Reported {
    fn new(report: &crate::agents::ReportRow, w: &'static Words) -> Self {
        let rates: Vec<u64> = report.rates.iter().map(|rate| u64::from(*rate)).collect();
        let uptime_ms = i64::try_from(report.uptime_s.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self {
            version: report.version.clone(),
            fresh_because: report.fresh_because.clone(),
            // To the minute: a table that counts seconds is never at rest.
            uptime: span((uptime_ms / 60_000).max(1).saturating_mul(60_000), w),
            offset: skew(report.clock_offset_ms, w),
            not_ready: report.not_ready.clone(),
            minted: grouped(report.minted),
            rate: grouped(report.rate().into()),
            spark: Spark::new(&rates),
            left: report.scarcest.as_ref().map(|it| {
                let per = unit(it.kind, w);
                let title = fill(w.capacity_long, &[&grouped(it.left), &grouped(it.of), per]);
                let units = u64::try_from(u128::from(it.left) * 100 / u128::from(it.of.max(1))).unwrap_or(100);
                Left { percent: percent(it.left, it.of), units, title: format!("{}/{}: {title}", it.kind, it.name) }
            }),
        }
    }
}
