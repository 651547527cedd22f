//! One token: its lease, the commands for it, and its history.

use super::audit::Line;
use super::leases::stage_name;
use super::{Frame, PageContext, Parts, rows, widest};
use crate::auth::Role;
use crate::masters::{LeaseFilter, LeaseRow, LeaseStage, Order, Page as Cut};
use crate::problem::Problem;
use crate::text::{When, grouped};
use crate::words::{Words, fill};
use askama::Template;
use common::token::TokenKey;

/// Lines of history that are shown.
const HISTORY_MAX: usize = 100;
/// The length of the drawing, in its own units.
const SPAN_UNITS: i64 = 1_000;

#[derive(Template)]
#[template(path = "lease.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
}

pub(super) fn page(frame: Frame, key: TokenKey, parts: &Parts) -> Result<String, askama::Error> {
    let title = fill(frame.w.lease, &[&key.text()]);
    Page { frame: frame.titled(title), parts }.render()
}

pub(super) async fn parts(page: &PageContext<'_>, key: TokenKey, parts: &mut Parts) -> Result<(), Problem> {
    let filter = LeaseFilter { token: Some(key), ..LeaseFilter::default() };
    let cut = Cut { after: None, skip: 0, limit: 1, order: Order::default() };
    let lease = rows(page.masters.leases(filter, cut)).await?.rows.into_iter().next();
    let history = rows(page.masters.history(key, HISTORY_MAX)).await?;
    parts.add("lease", &Detail::new(page, key, lease.as_ref()))?;
    parts
        .add("history", &History { w: page.w, lines: history.into_iter().map(|row| Line::new(row, page)).collect() })?;
    Ok(())
}

#[derive(Template)]
#[template(path = "history.html")]
struct History {
    w: &'static Words,
    lines: Vec<Line>,
}

#[derive(Template)]
#[template(path = "lease_detail.html")]
struct Detail {
    w: &'static Words,
    token: String,
    token_type: &'static str,
    stage: &'static str,
    stage_name: &'static str,
    explanation: &'static str,
    shown: Option<Shown>,
    /// True if this viewer may act on it, in its present stage.
    can_act: bool,
    gated: bool,
}

struct Shown {
    token_type: &'static str,
    agent: String,
    session: String,
    address: String,
    g: String,
    from: When,
    until: When,
    reuse_at: When,
    reuse_date: When,
    renewed: Option<When>,
    /// Positions of the lease's end and of now, on the drawing.
    until_at: i64,
    now_at: i64,
    from_date: When,
    until_date: When,
}

impl Detail {
    fn new(page: &PageContext<'_>, key: TokenKey, lease: Option<&LeaseRow>) -> Self {
        let w = page.w;
        let (stage, name, explanation) = match lease.map(|row| row.stage) {
            None => ("free", w.state_free, w.state_free_text),
            Some(stage) => {
                let text = match stage {
                    LeaseStage::Granting => w.state_granting_text,
                    LeaseStage::Held => w.state_held_text,
                    LeaseStage::Ending => w.state_ending_text,
                    LeaseStage::Resting => w.state_resting_text,
                };
                (stage.name(), stage_name(stage, w), text)
            }
        };
        let held = lease.is_some_and(|row| row.stage == LeaseStage::Held);
        Self {
            w,
            token: key.text(),
            token_type: lease.map_or(widest(key), |row| row.token_type).name(),
            stage,
            stage_name: name,
            explanation,
            shown: lease.map(|row| Shown::new(row, page)),
            can_act: held && page.key.role >= Role::Operator,
            gated: page.snapshot.gated(),
        }
    }
}

impl Shown {
    fn new(row: &LeaseRow, page: &PageContext<'_>) -> Self {
        let whole = (row.reuse_at - row.from).0.max(1);
        let place = |at: common::time::WallMs| (at - row.from).0.clamp(0, whole).saturating_mul(SPAN_UNITS) / whole;
        Self {
            token_type: row.token_type.name(),
            agent: row.agent_id.to_string(),
            session: row.session.shown(),
            address: row.address.clone(),
            g: grouped(row.g),
            from: page.when(row.from),
            until: page.when(row.until),
            reuse_at: page.when(row.reuse_at),
            reuse_date: When::date(row.reuse_at),
            renewed: row.renewed.map(|at| page.when(at)),
            until_at: place(row.until),
            now_at: place(page.snapshot.now),
            from_date: When::date(row.from),
            until_date: When::date(row.until),
        }
    }
}
