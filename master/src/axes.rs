//! Axes as the console and the metrics show them.

use crate::ledger::Ledger;
use crate::tally::{AxisCounts, AxisTally};
use common::metrics::{Labels, Samples, Series, counters, gauges};
use common::namespace::GeneratorName;
use common::setting::Setting;
use common::time::Now;
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

/// Tells whether the other master has places to grant, as far as is known: it has if the last extent is its own, or if it granted
/// segments lately; it has none where nothing was granted above the floor.
fn other_holds(ledger: &Ledger, name: &GeneratorName, now: Now) -> Option<bool> {
    let (_, axis) = ledger.settings_table().axis(name)?;
    let last_is_its = axis.last.is_some_and(|extent| extent.master != ledger.identity().master);
    if last_is_its || (axis.granted > axis.floor && ledger.cursors().other_grants(name, now.boot)) {
        return Some(true);
    }
    (axis.granted == axis.floor).then_some(false)
}

/// An axis, and what was granted of it.
pub(crate) type Axis = (AxisCounts, AxisRow);

/// Axes of names that are not retired, of which there are [`common::setting::NAMESPACES_MAX`] at most.
pub(crate) fn living(rows: Vec<AxisRow>, tally: &AxisTally) -> Vec<Axis> {
    let counted = tally.all();
    let of = |row: AxisRow| (counted.get(&row.name).copied().unwrap_or_default(), row);
    rows.into_iter().filter(|row| !row.retired).map(of).collect()
}

fn each(axes: &[Axis], out: &mut Samples<'_>, value: fn(&Axis) -> u64) {
    axes.iter().for_each(|axis| out.of([&axis.1.name], value(axis)));
}

/// Series of the states of axes and of what was granted of them, for whoever may see names.
pub(crate) const SERIES: &[Series<[Axis]>] = &[
    gauges("uniq_master_axis_granted", GRANTED, NAME, |axes, out| each(axes, out, |(_, row)| row.granted)),
    gauges("uniq_master_axis_free", "Places of an axis that no master was granted yet.", NAME, |axes, out| {
        each(axes, out, |(_, row)| row.free);
    }),
    gauges("uniq_master_axis_left", "Places that this master may still grant by itself.", NAME, |axes, out| {
        each(axes, out, |(_, row)| row.left);
    }),
    counters("uniq_master_segments_total", "Segments granted to agents.", NAME, |axes, out| {
        each(axes, out, |(counts, _)| counts.segments);
    }),
    counters("uniq_master_segment_places_total", "Places in these segments.", NAME, |axes, out| {
        each(axes, out, |(counts, _)| counts.places);
    }),
    counters("uniq_master_segment_waits_total", WAITS, NAME, |axes, out| each(axes, out, |(counts, _)| counts.waited)),
    counters("uniq_master_extents_total", "Extents that this master was granted.", NAME, |axes, out| {
        each(axes, out, |(counts, _)| counts.extents);
    }),
    counters("uniq_master_axis_raises_total", "Raises of an axis by operators.", NAME, |axes, out| {
        each(axes, out, |(counts, _)| counts.raises);
    }),
];
const GRANTED: &str = "Below this place of an axis everything belongs to somebody, or to nobody for ever.";
const WAITS: &str = "Calls for a segment that had to wait for an extent.";
const NAME: Labels = &["name"];

#[cfg(test)]
mod tests {
    use super::*;
    use common::metrics::write;

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
        assert!(living(vec![row("b", true)], &AxisTally::default()).is_empty());
        let axes = living(vec![row("a", false), row("b", true)], &AxisTally::default());
        write(&mut text, SERIES, &axes[..]);
        assert!(text.contains("uniq_master_axis_granted{name=\"a\"} 65\n"), "{text}");
        assert!(text.contains("uniq_master_axis_left{name=\"a\"} 7\n") && !text.contains("\"b\""), "{text}");
        assert_eq!(text.matches("# TYPE").count(), text.matches("{name=\"a\"}").count(), "{text}");
    }
}
