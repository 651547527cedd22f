//! What the console and the metrics show of axes.

use crate::ledger::Ledger;
use crate::tally::AxisTally;
use common::namespace::GeneratorName;
use common::setting::Setting;
use common::time::Now;
use std::fmt::Write as _;
use web::{AxisRow, ExtentRow};

/// All axes, by their names: no more than there may be names.
pub(crate) fn rows(ledger: &Ledger, now: Now) -> Vec<AxisRow> {
    ledger.settings_table().all().filter_map(|setting| row(ledger, now, setting)).collect()
}

fn row(ledger: &Ledger, now: Now, setting: &Setting) -> Option<AxisRow> {
    let name = setting.value.namespace()?.name();
    let (definition, axis) = ledger.settings_table().axis(name)?;
    let (cursors, whole) = (ledger.cursors(), definition.axis());
    let free = whole.to.saturating_sub(axis.granted);
    let left = cursors.get(name).map_or(0, |cursor| cursor.left());
    let per_day = cursors.per_day(name, now.boot);
    Some(AxisRow {
        name: name.clone(),
        first: whole.from,
        last: whole.to.saturating_sub(1),
        increment: definition.increment(),
        offset: definition.number(0),
        floor: axis.floor,
        granted: axis.granted,
        free,
        last_extent: axis.last.map(|extent| ExtentRow::new(extent.master, extent.span)),
        left,
        per_day,
        lasts_days: AxisRow::days(free.saturating_add(left), per_day),
        other_holds: other_holds(ledger, name, now),
        shown: ledger.shown(name).map(|to| to.saturating_sub(1)),
        hours_at_least: definition.hours_at_least(),
        retired: setting.value.is_retired(),
    })
}

/// Whether the other master has places to grant, as far as is known: it has if the last extent is its own, or if it granted segments of
/// late; it has none where nothing was granted above the floor.
fn other_holds(ledger: &Ledger, name: &GeneratorName, now: Now) -> Option<bool> {
    let (_, axis) = ledger.settings_table().axis(name)?;
    let last_is_its = axis.last.is_some_and(|extent| extent.master != ledger.identity().master);
    if last_is_its || (axis.granted > axis.floor && ledger.cursors().other_grants(name, now.boot)) {
        return Some(true);
    }
    (axis.granted == axis.floor).then_some(false)
}

/// How axes stand and what was granted of them, in Prometheus' text format: one line a metric and name that is not retired, of which
/// there are [`common::setting::NAMESPACES_MAX`] at most.
pub(crate) fn metrics(text: &mut String, rows: &[AxisRow], tally: &AxisTally) -> std::fmt::Result {
    let counted = tally.all();
    let of = |row: &AxisRow| counted.get(&row.name).copied().unwrap_or_default();
    let mut all = |name: &str, kind: &str, help: &str, value: &dyn Fn(&AxisRow) -> u64| {
        let mut lines = rows.iter().filter(|row| !row.retired).peekable();
        if lines.peek().is_some() {
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        }
        lines.try_for_each(|row| writeln!(text, "{name}{{name=\"{}\"}} {}", row.name, value(row)))
    };
    let help = "Below this place of an axis everything belongs to somebody, or to nobody for ever.";
    all("uniq_master_axis_granted", "gauge", help, &|row| row.granted)?;
    all("uniq_master_axis_free", "gauge", "Places of an axis that no master was granted yet.", &|row| row.free)?;
    all("uniq_master_axis_left", "gauge", "Places that this master may still grant by itself.", &|row| row.left)?;
    all("uniq_master_segments_total", "counter", "Segments granted to agents.", &|row| of(row).segments)?;
    all("uniq_master_segment_places_total", "counter", "Places in these segments.", &|row| of(row).places)?;
    let help = "Calls for a segment that had to wait for an extent.";
    all("uniq_master_segment_waits_total", "counter", help, &|row| of(row).waited)?;
    all("uniq_master_extents_total", "counter", "Extents that this master was granted.", &|row| of(row).extents)?;
    all("uniq_master_axis_raises_total", "counter", "Raises of an axis by operators.", &|row| of(row).raises)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, retired: bool) -> AxisRow {
        AxisRow {
            name: name.parse().unwrap(),
            first: 1,
            last: 100,
            increment: 1,
            offset: 0,
            floor: 1,
            granted: 65,
            free: 36,
            last_extent: None,
            left: 7,
            per_day: 0,
            lasts_days: None,
            other_holds: None,
            shown: None,
            hours_at_least: None,
            retired,
        }
    }

    #[test]
    fn each_name_that_is_not_retired_has_its_lines() {
        let mut text = String::new();
        metrics(&mut text, &[], &AxisTally::default()).unwrap();
        assert_eq!(text, "");
        metrics(&mut text, &[row("a", false), row("b", true)], &AxisTally::default()).unwrap();
        assert!(text.contains("uniq_master_axis_granted{name=\"a\"} 65\n"), "{text}");
        assert!(text.contains("uniq_master_axis_left{name=\"a\"} 7\n") && !text.contains("\"b\""), "{text}");
        assert_eq!(text.matches("# TYPE").count(), text.matches("{name=\"a\"}").count(), "{text}");
    }
}
