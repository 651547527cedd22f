//! The axes of plain numbers: what is granted of them, how much is used, and how long the rest lasts.

use super::{Frame, PageContext, Parts, rows};
use crate::auth::Role;
use crate::axes::{AxisRow, ExtentRow};
use crate::problem::Problem;
use crate::text::{grouped, span};
use crate::words::{Words, fill};
use askama::Template;
use common::kind::Kind;
use common::time::DAY_MS;

/// Days beyond which a number of them says nothing any more.
const DAYS_MAX: u64 = 36_500;

#[derive(Template)]
#[template(path = "axes.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
}

pub(super) fn page(frame: Frame, parts: &Parts) -> Result<String, askama::Error> {
    Page { frame, parts }.render()
}

pub(super) async fn parts(page: &PageContext<'_>, parts: &mut Parts) -> Result<(), Problem> {
    let all = rows(page.masters.axes()).await?;
    let shown = all.iter().map(|row| Shown::new(row, page.w)).collect();
    let (operator, gated) = (page.key.role >= Role::Operator, page.snapshot.gated());
    parts.add("rows", &AxesPart { w: page.w, rows: shown, operator, gated })?;
    Ok(())
}

#[derive(Template)]
#[template(path = "axes_rows.html")]
struct AxesPart {
    w: &'static Words,
    rows: Vec<Shown>,
    operator: bool,
    gated: bool,
}

/// An axis as it is shown, in the table and on its name's own page.
pub(super) struct Shown {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) href: String,
    pub(super) first: String,
    pub(super) last: String,
    /// The number of a place, where it is not the place itself.
    pub(super) number: Option<String>,
    pub(super) granted: String,
    /// The place that it was raised to.
    pub(super) floor: Option<String>,
    pub(super) extent: Option<(String, String)>,
    pub(super) left: String,
    pub(super) left_lasts: Option<String>,
    pub(super) per_day: String,
    pub(super) free: String,
    pub(super) lasts: Option<String>,
    pub(super) ends_soon: bool,
    pub(super) other: &'static str,
    pub(super) retired: bool,
    /// The place that agents show of it though the masters do not know it.
    pub(super) forgotten: Option<String>,
    /// The time within which it can be used up, if that is short.
    pub(super) hours: Option<String>,
    pub(super) raw: Raw,
}

/// Numbers that a script hands on as they are.
pub(super) struct Raw {
    pub(super) granted: u64,
    pub(super) last: u64,
    pub(super) increment: u64,
    pub(super) offset: u64,
    /// The last place that agents show and the masters do not know.
    pub(super) shown: u64,
}

impl Shown {
    pub(super) fn new(row: &AxisRow, w: &'static Words) -> Self {
        let extent = |ExtentRow { master, from, to }: ExtentRow| {
            (fill(w.places_to, &[&grouped(from), &grouped(to)]), fill(w.master, &[&master.to_string()]))
        };
        let is_plain = (row.increment, row.offset) == (1, 0);
        Self {
            key: format!("axis-{}", row.name),
            name: row.name.to_string(),
            href: format!("/namespaces/{}/{}", Kind::Segment, row.name),
            first: grouped(row.first),
            last: grouped(row.last),
            number: (!is_plain).then(|| fill(w.axis_number, &[&grouped(row.offset), &grouped(row.increment)])),
            granted: grouped(row.granted),
            floor: (row.floor > row.first).then(|| fill(w.axis_floor, &[&grouped(row.floor)])),
            extent: row.last_extent.map(extent),
            left: grouped(row.left),
            left_lasts: lasts(row.left, row.per_day, w),
            per_day: grouped(row.per_day),
            free: grouped(row.free),
            lasts: lasts(row.free.saturating_add(row.left), row.per_day, w),
            ends_soon: row.ends_soon(),
            other: match row.other_holds {
                Some(true) => w.yes,
                Some(false) => w.no,
                None => w.unknown,
            },
            retired: row.retired,
            forgotten: row.shown.map(|last| fill(w.axis_shown, &[&grouped(last)])),
            hours: row.hours_at_least.map(|hours| fill(w.axis_hours, &[&grouped(hours.saturating_add(1))])),
            raw: Raw {
                granted: row.granted,
                last: row.last,
                increment: row.increment,
                offset: row.offset,
                shown: row.shown.unwrap_or_default(),
            },
        }
    }
}

/// The time for which so many places last at so many a day; `None` if none are used.
fn lasts(places: u64, per_day: u64, w: &'static Words) -> Option<String> {
    let ms = (u128::from(places) * u128::from(DAY_MS.unsigned_abs())).checked_div(u128::from(per_day))?;
    let days = ms / u128::from(DAY_MS.unsigned_abs());
    Some(match i64::try_from(ms) {
        Ok(ms) if days < u128::from(DAYS_MAX) => span(ms, w),
        _ => w.over_a_century.to_owned(),
    })
}

/// The alarm about an axis that ends soon, or of which the masters have forgotten something.
pub(super) fn alarm_of(row: &AxisRow, w: &'static Words) -> Option<(&'static str, String)> {
    if let Some(last) = row.shown {
        return Some(("bad", format!("{}: {}", row.name, fill(w.axis_shown, &[&grouped(last)]))));
    }
    let rest = lasts(row.free.saturating_add(row.left), row.per_day, w);
    row.ends_soon().then(|| match rest {
        Some(rest) => ("warn", fill(w.alarm_axis, &[row.name.as_str(), &rest])),
        None => ("warn", fill(w.alarm_axis_over, &[row.name.as_str()])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Lang;

    #[test]
    fn how_long_places_last_is_told_as_far_as_it_says_something() {
        let told = |places, per_day| lasts(places, per_day, Lang::En.words());
        assert_eq!(told(100, 0), None);
        assert_eq!(told(0, 5).unwrap(), "0 s");
        assert_eq!(told(36, 24).unwrap(), "1 d 12 h");
        assert_eq!(told(u64::MAX, 1).unwrap(), "more than 100 years");
        assert_eq!(told(u64::MAX, u64::MAX).unwrap(), "1 d");
    }
}
