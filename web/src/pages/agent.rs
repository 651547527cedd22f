//! One agent: its sessions with what they hold, the sections that it serves, and the names that it mints by.

use super::{Frame, PageContext, Parts, agents, rows, sequences};
use crate::agents::AgentRow;
use crate::auth::Role;
use crate::problem::Problem;
use crate::query::escaped;
use crate::text::grouped;
use crate::words::{Words, fill};
use askama::Template;
use common::parameters::AgentId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The address of an agent's own page. Each character of a name may stand in a path.
pub(super) fn href(agent_id: &str) -> String {
    format!("/agents/{agent_id}")
}

#[derive(Template)]
#[template(path = "agent.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
    leases: String,
    sections: String,
    audit: String,
}

pub(super) fn page(frame: Frame, agent_id: &AgentId, parts: &Parts) -> Result<String, askama::Error> {
    let (title, name) = (fill(frame.w.one_agent, &[agent_id.as_str()]), escaped(agent_id.as_str()));
    let [leases, sections, audit] =
        [format!("/leases?agent={name}"), format!("/sequences?agent={name}"), format!("/audit?by=all&actor={name}")];
    Page { frame: frame.titled(title), parts, leases, sections, audit }.render()
}

pub(super) async fn parts(page: &PageContext<'_>, agent_id: &AgentId, parts: &mut Parts) -> Result<(), Problem> {
    let mut sessions = rows(page.masters.agents()).await?;
    sessions.retain(|row| row.agent_id == *agent_id);
    let mut allocators = rows(page.masters.allocators()).await?;
    allocators.retain(|row| row.agent_id == *agent_id);
    if sessions.is_empty() && allocators.is_empty() {
        return Err(Problem::not_found());
    }
    sessions.sort_by_key(|row| row.state);
    parts.add("rows", &agents::table(&sessions, true, page))?;
    parts.add("allocators", &sequences::allocators_table(&allocators, page.key.role >= Role::Operator, page))?;
    parts.add("names", &Names { w: page.w, rows: used(&sessions) })?;
    Ok(())
}

#[derive(Template)]
#[template(path = "agent_names.html")]
struct Names {
    w: &'static Words,
    rows: Vec<Used>,
}

/// One row of each name, whichever of an agent's sessions mint by it, busiest first.
fn used(sessions: &[AgentRow]) -> Vec<Used> {
    let mut rates: BTreeMap<(&'static str, &str), u64> = BTreeMap::new();
    for used in sessions.iter().filter_map(|row| row.report.as_ref()).flat_map(|report| &report.names) {
        *rates.entry((used.kind, &used.name)).or_default() += u64::from(used.per_second);
    }
    let mut rates: Vec<_> = rates.into_iter().collect();
    rates.sort_by_key(|(_, rate)| Reverse(*rate));
    rates.into_iter().map(|((kind, name), rate)| Used::new(kind, name, rate)).collect()
}

struct Used {
    name: String,
    kind: &'static str,
    href: String,
    rate: String,
}

impl Used {
    fn new(kind: &'static str, name: &str, rate: u64) -> Self {
        Self { name: name.to_owned(), kind, href: format!("/namespaces/{kind}/{name}"), rate: grouped(rate) }
    }
}
