//! The cluster's parameters, and this master's flags.

use super::{Frame, rows};
use crate::agents::FlagRow;
use crate::masters::Masters;
use crate::problem::Problem;
use crate::text::grouped;
use crate::words::fill;
use askama::Template;

#[derive(Template)]
#[template(path = "settings.html")]
struct Page {
    frame: Frame,
    /// Name, value and a hint.
    cluster: Vec<(&'static str, String, &'static str)>,
    flags: Vec<FlagRow>,
    version: String,
}

pub(super) async fn page(masters: &dyn Masters, frame: Frame) -> Result<String, Problem> {
    let settings = rows(masters.settings()).await?;
    let w = frame.w;
    let days = |n: u8| if n == 1 { w.one_day.to_owned() } else { fill(w.n_days, &[&n.to_string()]) };
    let cluster = vec![
        (w.cluster, settings.cluster.unwrap_or_else(|| w.unknown.to_owned()), ""),
        (w.pairing, settings.pair_epoch.to_string(), w.pairing_hint),
        (w.lease_length, days(settings.lease_days), ""),
        (w.grace, days(settings.grace_days), w.grace_hint),
        (w.solo, days(settings.solo_days), ""),
        (w.budget, settings.budget.to_string(), ""),
        (w.utc_offset, settings.utc_offset, ""),
        (w.uint2_max, grouped(settings.uint2_max.into()), ""),
    ];
    let (flags, version) = (settings.flags, settings.version);
    Ok(Page { frame, cluster, flags, version }.render()?)
}
