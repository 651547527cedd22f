//! The counts that an agent keeps of its sequences.

use common::metrics::{Series, counter, gauge};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Calls, of one key or many.
    pub(super) calls: AtomicU64,
    /// Numbers given here.
    pub(super) numbers: AtomicU64,
    /// Calls that had to wait for a section or a bound.
    pub(super) waits: AtomicU64,
    /// Keys that were refused because another agent serves them.
    pub(super) misdirected: AtomicU64,
    /// Keys that were passed on to another agent.
    pub(super) forwarded: AtomicU64,
    /// Keys that got no number for another reason.
    pub(super) refused: AtomicU64,
    /// Bounds that a master raised, of loads too.
    pub(super) raises: AtomicU64,
    /// Those that were refused, or not answered.
    pub(super) raises_failed: AtomicU64,
    /// Sections whose keys were forgotten to make room.
    pub(super) unloads: AtomicU64,
    /// Times that bounds could not be written down.
    pub(super) unwritten: AtomicU64,
}

/// The state of sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SequenceView {
    /// The time that masters let sections be served without an answer, in milliseconds.
    pub lease_ms: i64,
    /// Masters that answered when they were asked last.
    pub masters_answering: usize,
    /// Sections that are served now.
    pub sections: u64,
    /// Sections that will be when the agent before is sure to have stopped.
    pub sections_waiting: u64,
    /// Sections whose bounds are in memory.
    pub loaded: u64,
    /// Memory for keys that is used, in bytes.
    pub memory: usize,
    /// Memory for keys that may be used, in bytes.
    pub memory_max: u64,
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Series of what is counted.
pub(crate) const COUNTED: &[Series<Counts>] = &[
    counter("uniq_sequence_calls_total", "Calls for numbers of keys.", |it| get(&it.calls)),
    counter("uniq_sequence_numbers_total", "Numbers of keys given here.", |it| get(&it.numbers)),
    counter("uniq_sequence_waits_total", "Calls that waited for a section or a bound.", |it| get(&it.waits)),
    counter("uniq_sequence_misdirected_total", "Keys refused because another agent serves them.", |it| {
        get(&it.misdirected)
    }),
    counter("uniq_sequence_forwarded_total", "Keys passed on to the agent that serves them.", |it| get(&it.forwarded)),
    counter("uniq_sequence_refused_total", "Keys that got no number for another reason.", |it| get(&it.refused)),
    counter("uniq_sequence_raises_total", "Bounds that a master raised.", |it| get(&it.raises)),
    counter("uniq_sequence_raises_failed_total", "Raises that were refused or not answered.", |it| {
        get(&it.raises_failed)
    }),
    counter("uniq_sequence_unloads_total", "Sections whose keys were forgotten to make room.", |it| get(&it.unloads)),
    counter("uniq_sequence_unwritten_total", "Writes of sections' bounds that failed.", |it| get(&it.unwritten)),
];

/// Series of how things stand.
pub(crate) const GAUGES: &[Series<SequenceView>] = &[
    gauge("uniq_sequence_sections", "Sections served now.", |it| it.sections.into()),
    gauge("uniq_sequence_sections_waiting", "Sections that wait for the agent before to stop.", |it| {
        it.sections_waiting.into()
    }),
    gauge("uniq_sequence_sections_loaded", "Sections whose bounds are in memory.", |it| it.loaded.into()),
    gauge("uniq_sequence_masters_answering", "Masters that keep our sections.", |it| it.masters_answering as i128),
    gauge("uniq_sequence_memory_bytes", "Memory for keys that is used.", |it| it.memory as i128),
    gauge("uniq_sequence_memory_max_bytes", "Memory for keys that may be used.", |it| it.memory_max.into()),
];
