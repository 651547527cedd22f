//! One name: its definition, the note about it, and who serves it.

use super::agents::state_name;
use super::axes;
use super::names::{Noted, Shown};
use super::{Frame, PageContext, Parts, rows, widest};
use crate::agents::{AgentRow, AgentState, CallsRow, CapacityRow, NameUseRow};
use crate::auth::Role;
use crate::masters::{Masters, NamespaceRow};
use crate::problem::Problem;
use crate::query::{PAGE_ROWS, escaped};
use crate::sequences::AllocatorRow;
use crate::text::{grouped, percent};
use crate::words::{Words, fill};
use askama::Template;
use common::kind::{Bucket, Kind};
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::token::{TokenKey, TokenType};
use std::collections::BTreeSet;

/// A name with its kind: `default` is there for more than one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameView {
    kind: Kind,
    name: GeneratorName,
}

impl NameView {
    /// Reads a name from an address: `string/invoices`.
    pub(super) fn parse(kind: &str, name: &str) -> Option<Self> {
        Some(Self { kind: kind.parse().ok()?, name: name.parse().ok()? })
    }

    async fn row(&self, masters: &dyn Masters) -> Result<NamespaceRow, Problem> {
        let all = rows(masters.namespaces()).await?;
        let found = all.into_iter().find(|row| *row.namespace.name() == self.name && row.namespace.kind() == self.kind);
        found.ok_or_else(Problem::not_found)
    }
}

/// The address of a name's own page.
pub(super) fn href(row: &NamespaceRow) -> String {
    format!("/namespaces/{}/{}", row.namespace.kind(), row.namespace.name())
}

#[derive(Template)]
#[template(path = "name.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
    name: String,
    /// The note, as far as it may be changed by whoever looks.
    noted: Option<Noted>,
    /// Its kind, if its numbers can be raised and whoever looks may do that.
    raisable: Option<Kind>,
}

pub(super) async fn page(
    masters: &dyn Masters,
    frame: Frame,
    view: &NameView,
    parts: &Parts,
) -> Result<String, Problem> {
    let row = view.row(masters).await?;
    let may = frame.operator && !row.retired && !row.registered_by.is_empty();
    let (title, name) = (fill(frame.w.one_name, &[row.namespace.name().as_str()]), row.namespace.name().to_string());
    let raisable = Some(row.namespace.kind()).filter(|kind| may && matches!(kind, Kind::Segment | Kind::Sequence));
    Ok(Page { frame: frame.titled(title), parts, name, noted: may.then(|| Noted::new(&row.about)), raisable }
        .render()?)
}

pub(super) async fn parts(page: &PageContext<'_>, view: &NameView, parts: &mut Parts) -> Result<(), Problem> {
    let w = page.w;
    let row = view.row(page.masters).await?;
    let offset = rows(page.masters.settings()).await?.utc_offset.parse().unwrap_or_default();
    let serving = match row.namespace.kind() {
        _ if row.retired => Vec::new(),
        Kind::Sequence => keyed(rows(page.masters.agents()).await?, &rows(page.masters.allocators()).await?, &row),
        _ => serving(rows(page.masters.agents()).await?, &row),
    };
    let detail = Detail {
        w,
        it: Shown::new(&row, page, offset),
        figures: Figures::new(&row, &serving, w),
        axis: axis(page, &row).await?,
        operator: page.key.role >= Role::Operator,
        audit: format!("/audit?about={}", escaped(row.namespace.name().as_str())),
        admin: page.key.role >= Role::Admin,
        gated: page.snapshot.gated(),
    };
    parts.add("detail", &detail)?;
    let shown = serving.iter().take(PAGE_ROWS).map(|agent| Server::new(agent, &row, w)).collect();
    let token_type = row.namespace.token_type().map_or("", TokenType::name);
    let none = match token_type {
        _ if row.retired => w.retired.to_owned(),
        _ if row.namespace.kind() == Kind::Sequence => w.serves_keys_none.to_owned(),
        "" => w.serves_all.to_owned(),
        _ => fill(w.serves_none, &[token_type]),
    };
    parts.add("served", &Served { w, rows: shown, none })?;
    Ok(())
}

/// The axis of a name of kind `segment`.
async fn axis(page: &PageContext<'_>, row: &NamespaceRow) -> Result<Option<axes::Shown>, Problem> {
    if row.namespace.kind() != Kind::Segment {
        return Ok(None);
    }
    let all = rows(page.masters.axes()).await?;
    Ok(all.iter().find(|axis| axis.name == *row.namespace.name()).map(|axis| axes::Shown::new(axis, page.w)))
}

/// The agents that can mint by this name: those that hold a token of its type. They learn of a name when they are first asked
/// for it. Where no token is needed every agent can, and those are told of that say that they do.
fn serving(mut all: Vec<AgentRow>, row: &NamespaceRow) -> Vec<AgentRow> {
    all.retain(|agent| agent.state != AgentState::Stopped);
    let Some(wanted) = row.namespace.token_type().map(TokenType::name) else {
        all.retain(|agent| used(agent, row).is_some());
        all.iter_mut().for_each(|agent| agent.tokens.clear());
        all.sort_by_key(|agent| agent.state);
        return all;
    };
    let fitting = all.into_iter().map(|mut agent| {
        agent.tokens.retain(|held| held.token_type == wanted);
        agent
    });
    let mut serving: Vec<AgentRow> = fitting.filter(|agent| !agent.tokens.is_empty()).collect();
    // What needs a look comes first; the names are in order already.
    serving.sort_by_key(|agent| agent.state);
    serving
}

/// The agents that can have sections of this sequence: those of its set that the masters hear and that are not leaving.
fn keyed(mut all: Vec<AgentRow>, allocators: &[AllocatorRow], row: &NamespaceRow) -> Vec<AgentRow> {
    let set = row.namespace.sequences().map(|definition| definition.set().as_str());
    let of_set = |it: &&AllocatorRow| it.sets.iter().any(|it| Some(it.as_str()) == set);
    let serves = allocators.iter().filter(of_set).filter(|it| !(it.silent || it.leaves || it.draining));
    let serves: BTreeSet<&AgentId> = serves.map(|it| &it.agent_id).collect();
    all.retain(|agent| agent.state.is_here() && serves.contains(&agent.agent_id));
    all.iter_mut().for_each(|agent| agent.tokens.clear());
    all.sort_by_key(|agent| agent.state);
    all
}

/// The capacity that an agent says it has left, if it is of this name.
fn left<'a>(agent: &'a AgentRow, row: &NamespaceRow) -> Option<&'a CapacityRow> {
    let scarcest = agent.report.as_ref()?.scarcest.as_ref()?;
    (scarcest.name == row.namespace.name().as_str() && scarcest.kind == row.namespace.kind().name()).then_some(scarcest)
}

/// The use of this name that an agent reports.
fn used<'a>(agent: &'a AgentRow, row: &NamespaceRow) -> Option<&'a NameUseRow> {
    let names = &agent.report.as_ref()?.names;
    names.iter().find(|used| used.name == row.namespace.name().as_str() && used.kind == row.namespace.kind().name())
}

/// Microseconds as people read them.
fn milliseconds(us: u32) -> String {
    format!("{}.{:03} ms", us / 1_000, us % 1_000)
}

#[derive(Template)]
#[template(path = "name_detail.html")]
struct Detail {
    w: &'static Words,
    it: Shown,
    figures: Figures,
    axis: Option<axes::Shown>,
    operator: bool,
    /// The address of its lines in the audit.
    audit: String,
    admin: bool,
    gated: bool,
}

struct Figures {
    agents: String,
    tokens: String,
    /// The number of IDs that all of these tokens can give together.
    capacity: String,
    /// `None` if no agent tells of it.
    rate: Option<String>,
    /// The part of all calls that got their IDs, and the exact numbers.
    availability: Option<(String, String)>,
    /// The longest that any agent said.
    p99: Option<String>,
    /// The least that any agent said to have left, with its name.
    left: Option<(String, String)>,
}

impl Figures {
    fn new(row: &NamespaceRow, serving: &[AgentRow], w: &'static Words) -> Self {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let tokens = count(serving.iter().map(|agent| agent.tokens.len()).sum());
        let capacity = row.capacity.saturating_mul(tokens);
        let used = || serving.iter().filter_map(|agent| used(agent, row));
        let calls = || used().filter_map(|used| used.calls);
        let sum = |of: fn(&CallsRow) -> u64| calls().fold(0u64, |sum, calls| sum.saturating_add(of(&calls)));
        let (served, failed) = (sum(|calls| calls.served), sum(|calls| calls.failed));
        let all = served.saturating_add(failed);
        let part = |it: &CapacityRow| u128::from(it.left) * u128::from(u32::MAX) / u128::from(it.of.max(1));
        let told = serving.iter().filter_map(|agent| Some((agent, left(agent, row)?)));
        let scarcest = told.min_by_key(|(_, it)| part(it));
        Self {
            agents: grouped(count(serving.len())),
            tokens: grouped(tokens),
            capacity: fill(per(row.namespace.kind(), w), &[&grouped(capacity)]),
            rate: used().next().is_some().then(|| grouped(used().map(|used| u64::from(used.per_second)).sum())),
            availability: (all > 0)
                .then(|| (percent(served, all), fill(w.calls_of, &[&grouped(served), &grouped(all)]))),
            p99: calls().map(|calls| calls.p99_us).max().map(milliseconds),
            left: scarcest.map(|(agent, it)| (percent(it.left, it.of), agent.agent_id.to_string())),
        }
    }
}

/// The unit of time that a kind's capacity is told in.
pub(super) fn per(kind: Kind, w: &'static Words) -> &'static str {
    match kind.spec().unit {
        Bucket::Day => w.capacity_day,
        Bucket::Hour | Bucket::Millisecond => w.capacity_hour,
        Bucket::Tick => w.capacity_tick,
        Bucket::Ever => w.capacity_ever,
    }
}

#[derive(Template)]
#[template(path = "name_served.html")]
struct Served {
    w: &'static Words,
    rows: Vec<Server>,
    none: String,
}

struct Server {
    key: String,
    name: String,
    href: String,
    tone: &'static str,
    state: &'static str,
    not_ready: Option<String>,
    tokens: Vec<(String, String)>,
    rate: Option<String>,
    /// The part of this name's capacity that is left, and the exact numbers.
    left: Option<(String, String)>,
}

impl Server {
    fn new(agent: &AgentRow, row: &NamespaceRow, w: &'static Words) -> Self {
        let lease = |held: &crate::agents::HeldRow| {
            let key =
                held.token_type.parse::<TokenType>().ok().and_then(|it| TokenKey::parse(it.family(), &held.token));
            let token_type = key.map_or(held.token_type, |key| widest(key).name());
            (held.token.clone(), format!("/leases/{token_type}/{}", held.token))
        };
        let exact = |it: &CapacityRow| {
            let unit = super::unit(it.kind, w);
            (percent(it.left, it.of), fill(w.capacity_long, &[&grouped(it.left), &grouped(it.of), unit]))
        };
        Self {
            key: format!("agent-{}-{}", agent.agent_id, agent.session.shown()),
            name: agent.agent_id.to_string(),
            href: super::agent::href(agent.agent_id.as_str()),
            tone: agent.state.name(),
            state: state_name(agent.state, w),
            not_ready: agent.report.as_ref().and_then(|report| report.not_ready.clone()),
            tokens: agent.tokens.iter().map(lease).collect(),
            rate: used(agent, row).map(|used| grouped(used.per_second.into())),
            left: left(agent, row).map(exact),
        }
    }
}
