//! The state of the cluster, at a glance.

use super::agents::state_name;
use super::audit::Line;
use super::axes::alarm_of as alarm_of_axis;
use super::picture::{Spark, pieces, sum};
use super::status::MastersPart;
use super::{Frame, PageContext, Parts, lease_href, rows, unit};
use crate::agents::{AgentRow, AgentState};
use crate::axes::AxisRow;
use crate::commands::AuditFilter;
use crate::masters::{AuditRow, LeaseFilter, LeaseRow, LeaseStage, Order, Page as Cut, PoolRow, SortBy};
use crate::problem::Problem;
use crate::query::AUDIT_WATCHED_MAX;
use crate::sequences::AllocatorRow;
use crate::text::{When, grouped, percent, skew};
use crate::words::{Words, fill};
use askama::Template;
use common::token::{TokenFamily, TokenType};

/// Lines of the audit that are shown of people's doing.
const RECENT_OF_PEOPLE: usize = 7;
/// Lines of the audit that are shown of what masters and agents do by themselves.
const RECENT_OF_MACHINES: usize = 3;
/// Agents that are shown.
const BUSIEST: usize = 6;
/// Alarms that are shown; the rest is counted.
const ALARMS_MAX: usize = 6;
/// The smallest difference of a machine's clock that is an alarm, in milliseconds.
const OFFSET_ALARM_MS: u64 = 10_000;
/// Divisor of a generator's IDs: less than that part of them left is an alarm.
const SCARCE: u64 = 10;

#[derive(Template)]
#[template(path = "overview.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
}

pub(super) fn page(frame: Frame, parts: &Parts) -> Result<String, askama::Error> {
    Page { frame, parts }.render()
}

pub(super) async fn parts(page: &PageContext<'_>, parts: &mut Parts) -> Result<(), Problem> {
    let PageContext { masters, snapshot, w, .. } = *page;
    let agents = rows(masters.agents()).await?;
    let held = LeaseFilter { stage: Some(LeaseStage::Held), ..LeaseFilter::default() };
    let order = Order { by: SortBy::Until, descending: false };
    let first = rows(masters.leases(held, Cut { after: None, skip: 0, limit: 1, order })).await?;
    let recent = |automatic, count| {
        let wanted = AuditFilter { automatic: Some(automatic), ..AuditFilter::default() };
        rows(page.commands.find_in_audit(wanted, None, count, AUDIT_WATCHED_MAX))
    };
    let people = recent(false, RECENT_OF_PEOPLE).await?.rows;
    let machines = recent(true, RECENT_OF_MACHINES).await?.rows;
    parts.add("alarms", &Alarms::new(page, &agents, &rows(masters.axes()).await?))?;
    parts.add("tiles", &Tiles::new(page, &agents, first.rows.first()))?;
    parts.add("keyed", &Keyed::new(&rows(masters.allocators()).await?, w))?;
    parts.add("masters", &MastersPart::new(snapshot, w))?;
    parts.add("pools", &Pools { w, bars: snapshot.pools.iter().map(|row| Bar::new(row, w)).collect() })?;
    parts.add("recent", &Recent::new(people, machines, page))?;
    parts.add("busiest", &Busiest::new(&agents, w))?;
    Ok(())
}

#[derive(Template)]
#[template(path = "alarms.html")]
struct Alarms {
    w: &'static Words,
    /// Each with its tone.
    alarms: Vec<(&'static str, String)>,
    more: Option<String>,
}

impl Alarms {
    fn new(page: &PageContext<'_>, agents: &[AgentRow], axes: &[AxisRow]) -> Self {
        let w = page.w;
        let low = page.snapshot.pools.iter().filter(|pool| pool.is_low());
        let pools = low.map(|pool| match pool.free {
            0 => ("bad", fill(w.alarm_pool, &[pool.token_type.name()])),
            free => ("warn", fill(w.alarm_pool_low, &[&grouped(free.into()), pool.token_type.name()])),
        });
        let agents = agents.iter().filter_map(|row| alarm_of(row, page));
        let all: Vec<_> = pools.chain(axes.iter().filter_map(|row| alarm_of_axis(row, w))).chain(agents).collect();
        let more = all.len().saturating_sub(ALARMS_MAX);
        let more = (more > 0).then(|| fill(w.alarm_more, &[&grouped(more as u64)]));
        Self { w, alarms: all.into_iter().take(ALARMS_MAX).collect(), more }
    }
}

/// The worst that is to be said of an agent.
fn alarm_of(row: &AgentRow, page: &PageContext<'_>) -> Option<(&'static str, String)> {
    let (w, name) = (page.w, row.agent_id.as_str());
    // Who left and holds nothing any more is nobody's worry.
    let holds = !row.tokens.is_empty();
    let Some((report, heard)) = row.report.as_ref().zip(row.heard) else {
        return holds.then(|| ("warn", fill(w.alarm_agent_unheard, &[name])));
    };
    if row.state == AgentState::Stopped {
        return None;
    }
    if row.state == AgentState::Lost {
        let since = page.when(heard);
        return holds.then(|| ("warn", fill(w.alarm_agent_lost, &[name, since.exact()])));
    }
    if let Some(why) = &report.not_ready {
        return Some(("bad", fill(w.alarm_agent_unready, &[name, why])));
    }
    if report.clock_offset_ms.unsigned_abs() >= OFFSET_ALARM_MS {
        return Some(("warn", fill(w.alarm_agent_skew, &[name, &skew(report.clock_offset_ms, w)])));
    }
    let scarce = report.scarcest.as_ref().filter(|it| it.left < it.of / SCARCE)?;
    let per = unit(scarce.kind, w);
    let left = percent(scarce.left, scarce.of);
    Some(("warn", fill(w.alarm_agent_scarce, &[name, &scarce.name, &left, per])))
}

#[derive(Template)]
#[template(path = "tiles.html")]
struct Tiles {
    w: &'static Words,
    rate: String,
    spark: Spark,
    peak: String,
    well: u64,
    late: u64,
    lost: u64,
    /// Begin and length of the pieces of the agents' bar: well, late, lost.
    agents_bar: Vec<(u64, u64)>,
    held: String,
    size: String,
    held_bar: Vec<(u64, u64)>,
    next: Option<Next>,
}

struct Next {
    until: When,
    token: String,
    href: String,
    agent: String,
}

impl Tiles {
    fn new(page: &PageContext<'_>, agents: &[AgentRow], first: Option<&LeaseRow>) -> Self {
        let here = || agents.iter().filter(|row| row.state.is_here());
        let rates = sum(here().filter_map(|row| row.report.as_ref()).map(|report| report.rates.as_slice()));
        let spark = Spark::new(&rates);
        let count = |state| agents.iter().filter(|row| row.state == state).count() as u64;
        let (well, late, lost) = (count(AgentState::Well), count(AgentState::Late), count(AgentState::Lost));
        let families = [TokenFamily::String2, TokenFamily::String3, TokenFamily::Uint];
        let widest = |pool: &&PoolRow| {
            let is_whole = !matches!(
                pool.token_type,
                TokenType::Uint1 | TokenType::String2OnlyNumber | TokenType::String3OnlyNumber
            );
            is_whole && families.contains(&pool.token_type.family())
        };
        let pools = || page.snapshot.pools.iter().filter(widest);
        let held: u64 = pools().map(|pool| u64::from(pool.held)).sum();
        let size: u64 = pools().map(|pool| u64::from(pool.size)).sum();
        Self {
            w: page.w,
            rate: grouped(rates.last().copied().unwrap_or(0)),
            peak: fill(page.w.peak, &[&grouped(spark.peak)]),
            spark,
            well,
            late,
            lost,
            agents_bar: pieces(&[well, late, lost], well + late + lost),
            held: grouped(held),
            size: fill(page.w.of_values, &[&grouped(size)]),
            held_bar: pieces(&[held], size),
            next: first.map(|row| Next {
                until: page.when(row.until),
                token: row.token.text(),
                href: lease_href(row.token),
                agent: row.agent_id.to_string(),
            }),
        }
    }
}

/// Sequences in a line: counted by their agents, as passing over all sections is for their own page.
#[derive(Template)]
#[template(path = "keyed.html")]
struct Keyed {
    w: &'static Words,
    told: Option<String>,
    silent: Option<String>,
    leaving: Option<String>,
}

impl Keyed {
    fn new(all: &[AllocatorRow], w: &'static Words) -> Self {
        let count = |of: fn(&AllocatorRow) -> bool| all.iter().filter(|row| of(row)).count() as u64;
        let some = |word, n: u64| (n > 0).then(|| fill(word, &[&grouped(n)]));
        let here = count(|row| !row.silent);
        let sections = all.iter().filter(|row| !row.silent).map(|row| u64::from(row.sections)).sum();
        let told = (!all.is_empty()).then(|| fill(w.keyed_told, &[&grouped(here), &grouped(sections)]));
        // Who is silent and has nothing any more is nobody's worry.
        let silent = some(w.keyed_silent, count(|row| row.silent && row.sections > 0));
        let leaving = some(w.keyed_leaving, count(|row| !row.silent && (row.leaves || row.draining)));
        Self { w, told, silent, leaving }
    }
}

#[derive(Template)]
#[template(path = "pools.html")]
struct Pools {
    w: &'static Words,
    bars: Vec<Bar>,
}

struct Bar {
    name: &'static str,
    size: String,
    held: String,
    resting: String,
    free: String,
    /// Begin and length of the held and the resting piece; the rest of the bar is free.
    pieces: Vec<(u64, u64)>,
    exhausted: bool,
}

impl Bar {
    fn new(row: &PoolRow, w: &Words) -> Self {
        Self {
            name: row.token_type.name(),
            size: fill(w.values, &[&grouped(row.size.into())]),
            held: grouped(row.held.into()),
            resting: grouped(row.resting.into()),
            free: grouped(row.free.into()),
            pieces: pieces(&[row.held.into(), row.resting.into()], row.size.into()),
            exhausted: row.free == 0,
        }
    }
}

#[derive(Template)]
#[template(path = "recent.html")]
struct Recent {
    w: &'static Words,
    /// People's doing, and apart from it, under its own heading, what masters and agents do by themselves.
    lists: Vec<(Option<&'static str>, Vec<Line>)>,
}

impl Recent {
    fn new(people: Vec<AuditRow>, machines: Vec<AuditRow>, page: &PageContext<'_>) -> Self {
        let list = |rows: Vec<AuditRow>| rows.into_iter().map(|row| Line::new(row, page)).collect();
        let mut lists = vec![(None, list(people))];
        if !machines.is_empty() {
            lists.push((Some(page.w.recent_machines), list(machines)));
        }
        Self { w: page.w, lists }
    }
}

#[derive(Template)]
#[template(path = "busiest.html")]
struct Busiest {
    w: &'static Words,
    agents: Vec<Busy>,
}

struct Busy {
    name: String,
    href: String,
    tone: &'static str,
    state: &'static str,
    rate: String,
    spark: Spark,
}

impl Busiest {
    fn new(agents: &[AgentRow], w: &'static Words) -> Self {
        let mut reporting: Vec<_> = agents.iter().filter_map(|row| Some((row, row.report.as_ref()?))).collect();
        reporting.retain(|(row, _)| row.state.is_here());
        reporting.sort_by_key(|(row, report)| (std::cmp::Reverse(report.rate()), row.agent_id.clone()));
        let busy = reporting.into_iter().take(BUSIEST).map(|(row, report)| Busy {
            name: row.agent_id.to_string(),
            href: super::agent::href(row.agent_id.as_str()),
            tone: row.state.name(),
            state: state_name(row.state, w),
            rate: grouped(report.rate().into()),
            spark: Spark::new(&report.rates.iter().map(|rate| u64::from(*rate)).collect::<Vec<_>>()),
        });
        Self { w, agents: busy.collect() }
    }
}
