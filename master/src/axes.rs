//! What the console shows of axes.

use crate::ledger::Ledger;
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
