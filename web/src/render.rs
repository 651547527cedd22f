//! From rows to HTML: the parts of the page, each as it is both sent first and replaced live.

use crate::masters::{LeasePage, LeaseRow, LeaseStage, MasterMode, MasterRow, PoolRow};
use crate::query::{PAGE_NUMBER_MAX, PAGE_ROWS, View};
use crate::text::{Grain, When, grouped, skew};
use askama::Template;
use common::clock::TestClock;
use common::rpc::lease::Mode;
use common::time::WallMs;
use common::token::TokenType;
use serde::Serialize;

/// From this difference of the masters' clocks on the page warns, in milliseconds (`docs/protocol.md`: the alarm).
const SKEW_ALARM_MS: u64 = 10_000;
/// The length of a pool's bar, in units of its drawing.
const BAR_UNITS: u64 = 1_000;
/// The shortest piece of a bar that can be seen.
const BAR_PIECE_MIN: u64 = 6;
/// What lies between two pieces, so that they can be told apart without their colours.
const BAR_GAP: u64 = 4;

/// What all views have in common, as it was at `now`.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) now: WallMs,
    pub(crate) masters: Vec<MasterRow>,
    pub(crate) pools: Vec<PoolRow>,
    /// The reason why no lease can be granted, if so.
    pub(crate) unready: Option<String>,
}

/// The parts of the page that change, as HTML. Each replaces the content of the element whose id is its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Parts {
    pub(crate) status: String,
    pub(crate) masters: String,
    pub(crate) pools: String,
    pub(crate) rows: String,
    pub(crate) pager: String,
}

impl Parts {
    pub(crate) fn render(view: &View, snapshot: &Snapshot, leases: &LeasePage) -> Result<Self, askama::Error> {
        Ok(Self {
            status: StatusPart::new(snapshot).render()?,
            masters: MastersPart { cards: snapshot.masters.iter().map(|row| Card::new(row, snapshot.now)).collect() }
                .render()?,
            pools: PoolsPart { bars: snapshot.pools.iter().map(Bar::new).collect() }.render()?,
            rows: RowsPart {
                rows: leases.rows.iter().map(|row| Row::new(row, snapshot.now)).collect(),
                filtered: view.filter != Default::default(),
                beyond: leases.total > 0,
            }
            .render()?,
            pager: PagerPart::new(view, leases).render()?,
        })
    }

    /// Those parts that are not as in `shown`, by name.
    pub(crate) fn changed_since<'a>(&'a self, shown: Option<&Self>) -> Vec<(&'static str, &'a str)> {
        self.named()
            .into_iter()
            .zip(shown.map(Self::named).into_iter().flatten().map(Some).chain(std::iter::repeat(None)))
            .filter(|(new, old)| Some(*new) != *old)
            .map(|(new, _)| new)
            .collect()
    }

    fn named(&self) -> [(&'static str, &str); 5] {
        [
            ("status", &self.status),
            ("masters", &self.masters),
            ("pools", &self.pools),
            ("rows", &self.rows),
            ("pager", &self.pager),
        ]
    }
}

/// The whole page.
#[derive(Template)]
#[template(path = "page.html")]
pub(crate) struct Page<'a> {
    title: String,
    test_clock: Option<String>,
    types: Vec<Choice>,
    stages: Vec<Choice>,
    agent: String,
    filtered: bool,
    parts: &'a Parts,
}

struct Choice {
    name: &'static str,
    chosen: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(view: &View, snapshot: &Snapshot, test_clock: Option<TestClock>, parts: &'a Parts) -> Self {
        let filter = &view.filter;
        let this = snapshot.masters.iter().find(|row| row.this);
        Self {
            title: this.map_or_else(|| "UniqGenerator".to_owned(), |row| format!("Master {} · UniqGenerator", row.id)),
            test_clock: test_clock.map(|clock| {
                let since = When::new(clock.epoch, clock.epoch, Grain::Minute).exact;
                format!("time runs {} times faster since {since}", grouped(clock.scale.into()))
            }),
            types: TokenType::ALL
                .map(|kind| Choice { name: kind.name(), chosen: filter.token_type == Some(kind) })
                .into(),
            stages: LeaseStage::ALL
                .map(|stage| Choice { name: stage.name(), chosen: filter.stage == Some(stage) })
                .into(),
            agent: filter.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
            filtered: *filter != Default::default(),
            parts,
        }
    }
}

/// One sentence that says how things are.
#[derive(Template)]
#[template(path = "status.html")]
struct StatusPart {
    tone: &'static str,
    headline: String,
    detail: String,
}

impl StatusPart {
    fn new(snapshot: &Snapshot) -> Self {
        let silent = snapshot.masters.iter().find(|row| row.mode == MasterMode::Silent);
        let syncing = snapshot.masters.iter().find(|row| row.mode == MasterMode::Says(Mode::Syncing));
        let skewed = snapshot.masters.iter().find(|row| is_alarming(row.clock_skew_ms));
        let (tone, headline, detail) = match (&snapshot.unready, silent, syncing, skewed) {
            (_, Some(row), ..) => (
                "bad",
                format!("Master {} is silent", row.id),
                "Agents keep minting and renewing; new leases wait until it is back.".to_owned(),
            ),
            (_, _, Some(row), _) => (
                "wait",
                format!("Master {} is synchronising", row.id),
                "It exchanges tables with the other one first; agents keep minting meanwhile.".to_owned(),
            ),
            (Some(reason), ..) => ("bad", "No new lease can be granted".to_owned(), sentence(reason)),
            (None, None, None, Some(_)) => (
                "warn",
                "The masters’ clocks are far apart".to_owned(),
                "New leases can still be granted; check the time service on both machines.".to_owned(),
            ),
            (None, None, None, None) => {
                ("well", "Both masters are ready".to_owned(), "New leases can be granted.".to_owned())
            }
        };
        Self { tone, headline, detail }
    }
}

/// An error's text, which begins small and has no full stop, as a sentence.
fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}

#[derive(Template)]
#[template(path = "masters.html")]
struct MastersPart {
    cards: Vec<Card>,
}

struct Card {
    id: u8,
    this: bool,
    mode: String,
    tone: &'static str,
    explanation: &'static str,
    heartbeat: Option<When>,
    skew: Option<String>,
    skew_alarm: bool,
    lsn: Option<String>,
    permit: Option<When>,
    version: Option<String>,
}

impl Card {
    fn new(row: &MasterRow, now: WallMs) -> Self {
        let (tone, explanation) = match row.mode {
            MasterMode::Says(Mode::Ready) => ("well", "grants and renews leases"),
            MasterMode::Says(Mode::ReadyAlone) => ("warn", "renews leases; new ones need both masters"),
            MasterMode::Says(Mode::Syncing) => ("wait", "exchanges tables with the other, serves nothing yet"),
            MasterMode::Says(Mode::RolledBack) => ("bad", "its ledger is older than it was: replace it"),
            MasterMode::Silent => ("bad", "does not answer"),
        };
        Self {
            id: row.id.number(),
            this: row.this,
            mode: row.mode.to_string(),
            tone,
            explanation,
            heartbeat: row.last_heartbeat.map(|at| When::new(at, now, Grain::Second)),
            skew: row.clock_skew_ms.map(skew),
            skew_alarm: is_alarming(row.clock_skew_ms),
            lsn: row.lsn.map(grouped),
            permit: row.permit.map(|at| When::new(at, now, Grain::Minute)),
            version: row.version.clone(),
        }
    }
}

fn is_alarming(skew_ms: Option<i64>) -> bool {
    skew_ms.is_some_and(|ms| ms.unsigned_abs() >= SKEW_ALARM_MS)
}

#[derive(Template)]
#[template(path = "pools.html")]
struct PoolsPart {
    bars: Vec<Bar>,
}

struct Bar {
    name: &'static str,
    size: String,
    held: String,
    resting: String,
    free: String,
    /// Lengths of the pieces; the rest of the bar is free.
    held_units: u64,
    resting_from: u64,
    resting_units: u64,
    exhausted: bool,
}

impl Bar {
    fn new(row: &PoolRow) -> Self {
        let units = |count: u32| match u64::from(count) {
            0 => 0,
            count => (count * BAR_UNITS / u64::from(row.size.max(1))).clamp(BAR_PIECE_MIN, BAR_UNITS),
        };
        let resting_units = units(row.resting);
        let held_units = units(row.held).min(BAR_UNITS - resting_units);
        Self {
            name: row.token_type.name(),
            size: grouped(row.size.into()),
            held: grouped(row.held.into()),
            resting: grouped(row.resting.into()),
            free: grouped(row.free.into()),
            held_units,
            resting_from: if held_units == 0 { 0 } else { held_units + BAR_GAP },
            resting_units,
            exhausted: row.free == 0,
        }
    }
}

#[derive(Template)]
#[template(path = "rows.html")]
struct RowsPart {
    rows: Vec<Row>,
    filtered: bool,
    /// Whether there are leases, on earlier pages.
    beyond: bool,
}

struct Row {
    key: String,
    token: String,
    token_type: &'static str,
    stage: &'static str,
    agent: String,
    address: String,
    session: String,
    g: String,
    from: When,
    until: When,
    renewed: Option<When>,
    reuse_at: When,
}

impl Row {
    fn new(row: &LeaseRow, now: WallMs) -> Self {
        let when = |at| When::new(at, now, Grain::Minute);
        let token = row.token.text();
        Self {
            key: format!("lease-{:?}-{token}", row.token.family).to_lowercase(),
            token,
            token_type: row.token_type.name(),
            stage: row.stage.name(),
            agent: row.agent_id.to_string(),
            address: row.address.clone(),
            session: row.session.to_string(),
            g: grouped(row.g),
            from: when(row.from),
            until: when(row.until),
            renewed: row.renewed.map(when),
            reuse_at: when(row.reuse_at),
        }
    }
}

#[derive(Template)]
#[template(path = "pager.html")]
struct PagerPart {
    summary: String,
    previous: Option<String>,
    next: Option<String>,
}

impl PagerPart {
    fn new(view: &View, leases: &LeasePage) -> Self {
        let (total, skip) = (leases.total, view.skip());
        let count = |n: usize| grouped(u64::try_from(n).unwrap_or(u64::MAX));
        let summary = match (total, leases.rows.len()) {
            (0, _) => "No lease".to_owned(),
            (_, 0) => format!("None of {} leases on this page", count(total)),
            (1, 1) => "1 lease".to_owned(),
            (_, shown) if shown == total => format!("{} leases", count(total)),
            (_, shown) => {
                let (first, last) = (skip.saturating_add(1), skip.saturating_add(shown));
                format!("{}\u{2013}{} of {} leases", count(first), count(last), count(total))
            }
        };
        let last_page = u32::try_from(total.div_ceil(PAGE_ROWS)).unwrap_or(u32::MAX).clamp(1, PAGE_NUMBER_MAX);
        Self {
            summary,
            previous: (view.page > 1).then(|| view.href((view.page - 1).min(last_page))),
            next: (view.page < last_page).then(|| view.href(view.page + 1)),
        }
    }
}
