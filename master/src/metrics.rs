//! Metrics of a master.

use crate::axes;
use crate::driver::Counters;
use crate::sequences::{DONE, GAUGES, SectionGauges};
use crate::store::reserve::ROOM_MIN;
use common::metrics::{Series, counter, counters, gauge, gauges, rows, write};
use common::time::{SECOND_MS, WallMs};
use common::token::POOL_LOW_PERCENT;
use net::rpc::ended;
use net::rpc::lease::Mode;
use net::tls;
use process::log;
use std::sync::atomic::Ordering::Relaxed;
use web::{AxisRow, PoolRow};

/// The ledger at one moment.
pub(crate) struct Moment {
    pub(crate) mode: Mode,
    pub(crate) lsn: u64,
    pub(crate) peer_up: bool,
    /// The other master's clock minus this one's, in milliseconds.
    pub(crate) skew_ms: Option<i64>,
    /// The end of the API key that ends next.
    pub(crate) next_key_end: Option<WallMs>,
}

const REFUSED: &str = "Heartbeats of agents, and their renewals of leases and sections, that were refused.";
const COUNTED: &[Series<Counters>] = &[
    gauge("uniq_master_audit_lines", "Number of the last line of the audit.", |it| it.audited.load(Relaxed).into()),
    gauge("uniq_master_audit_written_lines", "Number of the last line in the files of --audit-dir; 0 without.", |it| {
        it.audit_written.load(Relaxed).into()
    }),
    counter(
        "uniq_master_certificates_issued_total",
        "Certificates that were issued for an invitation, or renewed.",
        |it| it.certificates_issued.load(Relaxed),
    ),
    counter("uniq_master_certificates_refused_total", "Requests for a certificate that were refused.", |it| {
        it.certificates_refused.load(Relaxed)
    }),
    counter("uniq_master_commits_total", "Durable commits of the ledger.", |it| it.commits.load(Relaxed)),
    counter("uniq_master_events_total", "Events the ledger took in.", |it| it.events.load(Relaxed)),
    counter("uniq_master_lockouts_total", "Users and addresses that failed to log in too often.", |it| {
        it.lockouts.load(Relaxed)
    }),
    counter(
        "uniq_master_messages_dropped_total",
        "Messages to the other master that were dropped because the queue was full.",
        |it| it.messages_dropped.load(Relaxed),
    ),
    counters("uniq_master_renewals_refused_total", REFUSED, &["why"], |it, out| {
        it.renewals.all().for_each(|(why, n)| out.of([&why], n));
    }),
];

const ROOM: &str = "Free on the disk under the store; below 8388608 nothing is promised.";
const _: () = assert!(ROOM_MIN == 8_388_608);
const DISK: &[Series<u64>] = &[gauge("uniq_master_room_bytes", ROOM, |room| (*room).into())];

const LEDGER: &[Series<Moment>] = &[
    gauges("uniq_master_mode", "What this master does; 1 for the mode it is in.", &["mode"], |seen, out| {
        Mode::ALL.into_iter().for_each(|mode| out.of([&mode], u8::from(mode == seen.mode)));
    }),
    gauge("uniq_master_lsn", "Number of the last durable change.", |seen| seen.lsn.into()),
    gauge("uniq_master_peer_up", "Whether the other master is heard.", |seen| seen.peer_up.into()),
];
const SKEW: &[Series<i64>] =
    &[gauge("uniq_master_peer_clock_skew_ms", "The other master's clock minus this one's.", |ms| (*ms).into())];
const KEY_END: &str = "The end of the API key that ends next, in seconds since 1970; not there if none of them does.";
const KEYS: &[Series<WallMs>] = &[gauge("uniq_master_next_key_end_seconds", KEY_END, |end| (end.0 / SECOND_MS).into())];

const LOW: &str = "Whether 80 % of a token type's values are in use.";
const _: () = assert!(POOL_LOW_PERCENT == 80);
const POOLS: &[Series<[PoolRow]>] = &[
    gauges("uniq_master_pool", "Values of a token type by stage.", &["type", "stage"], |pools, out| {
        for PoolRow { token_type, free, held, resting, .. } in pools {
            let stages = [("free", free), ("held", held), ("resting", resting)];
            stages.iter().for_each(|(stage, n)| out.of([token_type, stage], n));
        }
    }),
    gauges("uniq_master_pool_low", LOW, &["type"], |pools, out| {
        pools.iter().for_each(|pool| out.of([&pool.token_type], u8::from(pool.is_low())));
    }),
];

/// The metrics in Prometheus' text format.
pub(crate) fn page(
    counters: &Counters,
    seen: Option<&Moment>,
    pools: &[PoolRow],
    axes: Vec<AxisRow>,
    sections: &SectionGauges,
) -> String {
    let mut page = String::new();
    write(&mut page, COUNTED, counters);
    write(&mut page, DISK, Some(&counters.room.load(Relaxed)).filter(|room| **room < u64::MAX));
    write(&mut page, LEDGER, seen);
    write(&mut page, SKEW, seen.and_then(|seen| seen.skew_ms.as_ref()));
    write(&mut page, KEYS, seen.and_then(|seen| seen.next_key_end.as_ref()));
    write(&mut page, POOLS, pools);
    write(&mut page, axes::SERIES, Some(&axes::living(axes, &counters.axes)[..]).filter(|axes| !axes.is_empty()));
    write(&mut page, GAUGES, sections);
    write(&mut page, DONE, &counters.sections.counts());
    write(&mut page, log::SERIES, &());
    write(&mut page, ended::SERIES, &());
    write(&mut page, tls::SERIES, &());
    page
}

/// All series that only masters have, as rows of the table in the documents.
pub fn table() -> String {
    let ledger = rows(COUNTED) + &rows(DISK) + &rows(LEDGER) + &rows(SKEW) + &rows(KEYS) + &rows(POOLS);
    ledger + &rows(axes::SERIES) + &rows(GAUGES) + &rows(DONE)
}
