//! Metrics of an agent, in its program and in an application.

use crate::holder::LeaseView;
use crate::minter::{Minter, SegmentCounters, SegmentInUse};
use crate::plugin::{STATS, history};
use crate::sequences::{COUNTED, GAUGES, Sequences};
use crate::years::{layout_ends, signed_end};
use common::calendar::UtcOffset;
use common::metrics::{Series, counter, counters, gauge, gauges, rows, write};
use common::time::{SECOND_MS, WallMs};

/// Names whose segments have samples of their own.
const SEGMENT_NAMES_SHOWN_MAX: usize = 100;

const MINTED: &[Series<Minter>] = &[
    counters("uniq_ids_minted_total", "IDs minted.", &["kind"], |minter, out| {
        minter.names().minted().for_each(|(kind, n)| out.of([&kind.name()], n));
    }),
    counters("uniq_refusals_total", "Requests that were refused.", &["code"], |minter, out| {
        minter.calls().refused().for_each(|(code, n)| out.of([&code], n));
    }),
    gauges("uniq_lease_seconds_left", "Time until a lease ends if it is not renewed.", &["type"], |minter, out| {
        for grant in minter.grants().leases().values().filter_map(LeaseView::grant) {
            out.of([&grant.token_type], seconds(minter.time().wall(), grant.until));
        }
    }),
];

const SEGMENTS: &[Series<SegmentCounters>] = &[
    counter("uniq_segments_fetched_total", "Segments that masters granted.", |it| it.fetched),
    counter("uniq_segment_numbers_fetched_total", "Numbers in them.", |it| it.numbers),
    counter("uniq_segment_rounds_failed_total", "Rounds of all masters in which none granted one.", |it| it.failed),
    counter("uniq_segment_waits_total", "Requests that waited for a segment.", |it| it.waits),
    counters("uniq_segment_wait_seconds_total", "How long they waited, all together.", &[], |it, out| {
        out.of([], format_args!("{}.{:06}", it.waited_us / 1_000_000, it.waited_us % 1_000_000));
    }),
];

const USED_RATIO: &str = "Share that is used of the numbers that are marked at the moment.";
const WINDOWS: &[Series<[SegmentInUse]>] = &[
    gauges("uniq_segment_window_used_ratio", USED_RATIO, &["name"], |names, out| {
        names.iter().for_each(|it| out.of([&it.name], format_args!("0.{:02}", it.used_hundredths)));
    }),
    gauges("uniq_segment_window_numbers_left", "Numbers left of them.", &["name"], |names, out| {
        names.iter().for_each(|it| out.of([&it.name], it.marked_left));
    }),
];

const LAYOUT_LEFT: &str = "Time until the layout's last year is over; past it there are no such IDs.";
const SIGNED_LEFT: &str = "Time until a uniq64 is larger than a signed integer of 64 bits holds (BIGINT).";
const YEARS: &[Series<(UtcOffset, WallMs)>] = &[
    gauges("uniq_layout_seconds_left", LAYOUT_LEFT, &["kind"], |(offset, now), out| {
        layout_ends(*offset).for_each(|end| out.of([&end.kind], seconds(*now, end.at)));
    }),
    gauge("uniq_uniq64_signed_seconds_left", SIGNED_LEFT, |(offset, now)| {
        signed_end(*offset).map_or(0, |at| seconds(*now, at)).into()
    }),
];

const WRITE_FAILURES: &str = "Writes of the serial file that failed.";
const MINTER: &[Series<Minter>] = &[
    gauge("uniq_ready", "Whether IDs of every wanted type can be minted.", |it| it.ready().is_ok().into()),
    counter("uniq_serial_file_writes_total", "Writes of the serial file.", |it| it.disk().writes()),
    counter("uniq_serial_file_write_failures_total", WRITE_FAILURES, |it| it.disk().write_failures()),
    gauge("uniq_clock_offset_ms", "Our time minus this machine's.", |it| it.time().offset_ms().into()),
    counter("uniq_clock_steps_total", "Steps of this machine's calendar.", |it| it.time().jumps()),
];

const UPTIME: &[Series<i64>] = &[gauge("uniq_uptime_seconds", "Time since the start.", |s| (*s).into())];

fn seconds(from: WallMs, to: WallMs) -> i64 {
    (to - from).0.max(0) / SECOND_MS
}

/// All of it in Prometheus' text format.
pub(crate) fn page(minter: &Minter, sequences: Option<&Sequences>, uptime_s: i64) -> String {
    let (mut page, plugins) = (String::new(), minter.extras().plugins());
    let windows: Vec<_> = minter.names().segments_in_use().take(SEGMENT_NAMES_SHOWN_MAX).collect();
    let years =
        minter.grants().membership().parameters.map(|parameters| (parameters.utc_offset(), minter.time().wall()));
    let stats = plugins.stats(minter.time().now().boot);
    write(&mut page, MINTED, minter);
    write(&mut page, SEGMENTS, &minter.segments().counters());
    write(&mut page, WINDOWS, Some(&windows[..]).filter(|names| !names.is_empty()));
    write(&mut page, YEARS, years.as_ref());
    write(&mut page, MINTER, minter);
    write(&mut page, UPTIME, &uptime_s);
    write(&mut page, STATS, Some(&stats[..]).filter(|names| !names.is_empty()));
    write(&mut page, history::SERIES, plugins.history().map(AsRef::as_ref));
    write(&mut page, COUNTED, sequences.map(Sequences::counts));
    write(&mut page, GAUGES, sequences.map(Sequences::view).as_ref());
    page
}

/// All series that only agents have, as rows of the table in the documents.
pub fn table() -> String {
    let minting = rows(MINTED) + &rows(SEGMENTS) + &rows(WINDOWS) + &rows(YEARS) + &rows(MINTER) + &rows(UPTIME);
    minting + &rows(STATS) + &rows(history::SERIES) + &rows(COUNTED) + &rows(GAUGES)
}
