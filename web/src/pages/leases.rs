//! The table of leases.

use super::{Frame, PageContext, Parts, lease_href, rows};
use crate::masters::{LeaseFilter, LeasePage, LeaseRow, LeaseStage, Order, Page as Cut, SortBy};
use crate::preferences::Choice;
use crate::problem::Problem;
use crate::query::{FilterQuery, PAGE_NUMBER_MAX, PAGE_ROWS, escaped, page_number};
use crate::text::{When, grouped};
use crate::words::{Words, fill};
use askama::Template;
use common::time::WallMs;
use common::token::TokenType;
use serde::Deserialize;

/// The query: filter, order and page.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeasesQuery {
    #[serde(rename = "type", default)]
    token_type: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    search: String,
    #[serde(default)]
    sort: String,
    #[serde(default)]
    page: String,
}

/// A filter of leases, their order, and the page (1 is the first).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeasesView {
    filter: LeaseFilter,
    order: Order,
    page: u32,
}

impl TryFrom<LeasesQuery> for LeasesView {
    type Error = Problem;
    fn try_from(query: LeasesQuery) -> Result<Self, Problem> {
        let LeasesQuery { token_type, state, agent, search, sort, page } = query;
        let (name, descending) = sort.strip_prefix('-').map_or((sort.as_str(), false), |name| (name, true));
        let by = match name {
            "" if !descending => SortBy::Token,
            name => SortBy::ALL.into_iter().find(|by| by.name() == name).ok_or_else(|| {
                Problem::bad_parameter(
                    "sort: token, state, agent, until or renewed, with - before it the greatest first",
                )
            })?,
        };
        let filter = FilterQuery { token_type, state, agent, search }.try_into()?;
        Ok(Self { filter, order: Order { by, descending }, page: page_number(&page)? })
    }
}

impl LeasesView {
    /// Counts the rows before this page.
    fn skip(&self) -> usize {
        usize::try_from(self.page.saturating_sub(1)).unwrap_or(usize::MAX).saturating_mul(PAGE_ROWS)
    }

    fn href(&self, order: Order, page: u32) -> String {
        let filter = &self.filter;
        let sign = if order.descending { "-" } else { "" };
        let parts = [
            filter.token_type.map(|kind| format!("type={kind}")),
            filter.stage.map(|stage| format!("state={}", stage.name())),
            filter.agent.as_ref().map(|agent| format!("agent={}", escaped(&agent.to_string()))),
            filter.search.as_ref().map(|text| format!("search={}", escaped(&text.to_string()))),
            (order != Order::default()).then(|| format!("sort={sign}{}", order.by.name())),
            (page > 1).then(|| format!("page={page}")),
        ];
        let query = parts.into_iter().flatten().collect::<Vec<_>>().join("&");
        if query.is_empty() { "/leases".to_owned() } else { format!("/leases?{query}") }
    }
}

#[derive(Template)]
#[template(path = "leases.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
    types: Vec<Choice>,
    stages: Vec<Choice>,
    agent: String,
    search: String,
    sort: String,
    filtered: bool,
    columns: Vec<Column>,
}

/// A column that can be sorted by.
struct Column {
    name: &'static str,
    /// `ascending`, `descending` or `none`.
    sorted: &'static str,
    href: String,
    label: String,
}

pub(super) fn page(frame: Frame, view: &LeasesView, parts: &Parts) -> Result<String, askama::Error> {
    let (filter, w) = (&view.filter, frame.w);
    let column = |(by, name): (SortBy, &'static str)| {
        let here = view.order.by == by;
        let sorted = match (here, view.order.descending) {
            (false, _) => "none",
            (true, false) => "ascending",
            (true, true) => "descending",
        };
        let order = Order { by, descending: here && !view.order.descending };
        Column { name, sorted, href: view.href(order, 1), label: fill(w.sort_by, &[name]) }
    };
    let columns = [
        (SortBy::Token, w.token),
        (SortBy::State, w.state),
        (SortBy::Agent, w.agent),
        (SortBy::Until, w.until),
        (SortBy::Renewed, w.renewed),
    ];
    let sign = if view.order.descending { "-" } else { "" };
    Page {
        types: TokenType::ALL
            .map(|kind| Choice { value: kind.name(), name: kind.name(), chosen: filter.token_type == Some(kind) })
            .into(),
        stages: LeaseStage::ALL
            .map(|stage| Choice {
                value: stage.name(),
                name: stage_name(stage, w),
                chosen: filter.stage == Some(stage),
            })
            .into(),
        agent: filter.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        search: filter.search.as_ref().map(ToString::to_string).unwrap_or_default(),
        sort: if view.order == Order::default() { String::new() } else { format!("{sign}{}", view.order.by.name()) },
        filtered: *filter != LeaseFilter::default(),
        columns: columns.map(column).into(),
        frame,
        parts,
    }
    .render()
}

pub(super) async fn parts(page: &PageContext<'_>, view: &LeasesView, parts: &mut Parts) -> Result<(), Problem> {
    let cut = Cut { after: None, skip: view.skip(), limit: PAGE_ROWS, order: view.order };
    let leases = rows(page.masters.leases(view.filter.clone(), cut)).await?;
    let (filtered, beyond) = (view.filter != LeaseFilter::default(), leases.total > 0);
    let shown = leases.rows.iter().map(|row| Row::new(row, page)).collect();
    parts.add("rows", &Rows { w: page.w, rows: shown, filtered, beyond })?;
    parts.add("pager", &Pager::new(view, &leases, page.w))?;
    Ok(())
}

#[derive(Template)]
#[template(path = "leases_rows.html")]
struct Rows {
    w: &'static Words,
    rows: Vec<Row>,
    filtered: bool,
    /// True if there are leases, on earlier pages.
    beyond: bool,
}

struct Row {
    key: String,
    token: String,
    href: String,
    token_type: &'static str,
    stage: &'static str,
    stage_name: &'static str,
    agent: String,
    address: String,
    session: String,
    until: When,
    /// The part of its span that is left, of 100.
    left: i64,
    renewed: Option<When>,
    reuse_at: When,
}

impl Row {
    fn new(row: &LeaseRow, page: &PageContext<'_>) -> Self {
        let token = row.token.text();
        Self {
            key: format!("lease-{:?}-{token}", row.token.family).to_lowercase(),
            href: lease_href(row.token),
            token,
            token_type: row.token_type.name(),
            stage: row.stage.name(),
            stage_name: stage_name(row.stage, page.w),
            agent: row.agent_id.to_string(),
            address: row.address.clone(),
            session: row.session.shown(),
            until: page.when(row.until),
            left: left(row, page.snapshot.now),
            renewed: row.renewed.map(|at| page.when(at)),
            reuse_at: page.when(row.reuse_at),
        }
    }
}

/// The part of a lease that is left since it was last renewed, of 100.
fn left(row: &LeaseRow, now: WallMs) -> i64 {
    let (whole, left) = ((row.until - row.renewed.unwrap_or(row.from)).0, (row.until - now).0);
    left.clamp(0, whole.max(0)).saturating_mul(100) / whole.max(1)
}

pub(super) fn stage_name(stage: LeaseStage, w: &'static Words) -> &'static str {
    match stage {
        LeaseStage::Granting => w.state_granting,
        LeaseStage::Held => w.state_held,
        LeaseStage::Ending => w.state_ending,
        LeaseStage::Resting => w.state_resting,
    }
}

#[derive(Template)]
#[template(path = "pager.html")]
pub(super) struct Pager {
    w: &'static Words,
    summary: String,
    previous: Option<String>,
    next: Option<String>,
}

impl Pager {
    fn new(view: &LeasesView, leases: &LeasePage, w: &'static Words) -> Self {
        let (total, skip) = (leases.total, view.skip());
        let count = |n: usize| grouped(u64::try_from(n).unwrap_or(u64::MAX));
        let summary = match (total, leases.rows.len()) {
            (0, _) => w.count_none.to_owned(),
            (_, 0) => fill(w.count_beyond, &[&count(total)]),
            (1, 1) => w.count_one.to_owned(),
            (_, shown) if shown == total => fill(w.count_all, &[&count(total)]),
            (_, shown) => {
                let (first, last) = (skip.saturating_add(1), skip.saturating_add(shown));
                fill(w.count_part, &[&count(first), &count(last), &count(total)])
            }
        };
        let last_page = u32::try_from(total.div_ceil(PAGE_ROWS)).unwrap_or(u32::MAX).clamp(1, PAGE_NUMBER_MAX);
        let href = |page| view.href(view.order, page);
        Self {
            w,
            summary,
            previous: (view.page > 1).then(|| href((view.page - 1).min(last_page))),
            next: (view.page < last_page).then(|| href(view.page + 1)),
        }
    }

    pub(super) fn plain(summary: String, previous: Option<String>, next: Option<String>, w: &'static Words) -> Self {
        Self { w, summary, previous, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(query: &str) -> Result<LeasesView, Problem> {
        let uri: axum::http::Uri = format!("/leases?{query}").parse().unwrap();
        let query = axum::extract::Query::<LeasesQuery>::try_from_uri(&uri).unwrap();
        query.0.try_into()
    }

    #[test]
    fn an_address_leads_back_to_its_view() {
        for query in
            ["type=uint2&state=held&agent=edge-*&page=3", "search=10.4%2F%26x&sort=-until", "sort=agent", "sort=-token"]
        {
            let asked = view(query).unwrap();
            assert_eq!(asked.href(asked.order, asked.page), format!("/leases?{query}"));
        }
        assert_eq!(view("type=&state=&agent=&search=&sort=&page=").unwrap().href(Order::default(), 1), "/leases");
        assert_eq!(view("page=3").unwrap().skip(), 2 * PAGE_ROWS);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for query in
            ["type=uint3", "state=free", "agent=%3Cb%3E", "page=0", "page=10001", "sort=x", "sort=-", "search=%01"]
        {
            assert!(view(query).is_err(), "{query}");
        }
    }
}
