//! Places for calls that wait for sections. A call takes one, and one for each of its keys: until it is answered it keeps memory for all of
//! them (what was read, and over tarpc what its answer will take), and this memory is shared with calls that need not wait.
//!
//! Those who wait for sections that this agent does not serve now wait for seconds. The ones that wait for bounds of sections which it serves
//! wait some milliseconds as a rule, until a master has raised them. These have places that the others cannot take, however many they are (one
//! whose section goes away meanwhile may keep its). One name has three quarters of each kind at most, and one caller, of both kinds together,
//! half as much as may wait for sections.

use crate::plugin::{AccountHolder, CallerLimit, CallerPermit};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Of so many connections of callers,
const CONNECTIONS_PARTS: usize = 8;
/// so many are for calls that wait for sections that are not served here now,
const BEYOND_PARTS: usize = 3;
/// so many for those alone that wait for bounds,
const SERVED_PARTS: usize = 2;
/// and so many for calls that are passed on. Some are left for all else.
const FORWARDED_PARTS: usize = 2;
const _: () = assert!(BEYOND_PARTS + SERVED_PARTS + FORWARDED_PARTS < CONNECTIONS_PARTS);
/// Keys of waiting calls, of each kind. A key takes some 40 bytes as long as its call waits: all of them together 80 MiB, of 128 MiB for frames
/// and 256 MiB for bodies.
const KEYS_MAX: usize = 1 << 20;
/// The part of it all that one name may have, in hundredths.
const NAME_PERCENT: usize = 75;

/// The thing that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// Bounds of sections that are served here.
    Bounds,
    /// Sections that are not, perhaps beside others.
    Sections,
}

/// Calls that may be passed on at once, where callers have so many connections.
pub(super) fn forwarded_max(connections: usize) -> usize {
    part_of(connections, FORWARDED_PARTS)
}

/// Calls, and their keys, that one caller may have waiting at once, for whatever it is: half of what may wait for sections.
#[derive(Clone, Debug)]
pub(super) struct OfCallers {
    calls: CallerLimit,
    keys: CallerLimit,
}

impl OfCallers {
    /// Where callers have so many connections.
    pub(super) fn new(connections: usize) -> Self {
        let calls = CallerLimit::new(part_of(connections, BEYOND_PARTS) / 2);
        Self { calls, keys: CallerLimit::new(KEYS_MAX / 2) }
    }

    /// Places for a call of that caller with so many keys; `None`: it has its part.
    pub(super) fn take(&self, caller: Option<AccountHolder>, keys: usize) -> Option<[CallerPermit; 2]> {
        Some([self.calls.take(caller, 1)?, self.keys.take(caller, keys)?])
    }
}

fn part_of(connections: usize, parts: usize) -> usize {
    (connections * parts / CONNECTIONS_PARTS).max(1)
}

/// Places of one kind, for calls and for their keys.
pub(super) struct Room {
    calls: Semaphore,
    calls_max: usize,
    keys: Semaphore,
    keys_max: usize,
}

impl Room {
    pub(super) fn new(calls_max: usize, keys_max: usize) -> Self {
        let (calls_max, keys_max) = (calls_max.max(1), keys_max.max(1));
        Self { calls: Semaphore::new(calls_max), calls_max, keys: Semaphore::new(keys_max), keys_max }
    }

    /// Another room with one of so many parts of what there is in this one.
    pub(super) fn part(&self, parts: usize) -> Self {
        Self::new(self.calls_max / parts, self.keys_max / parts)
    }

    pub(super) fn enter(&self, keys: usize) -> Option<[SemaphorePermit<'_>; 2]> {
        // Whoever asks for more than there are at all has them all.
        let keys = u32::try_from(keys.min(self.keys_max)).unwrap_or(u32::MAX);
        Some([self.calls.try_acquire().ok()?, self.keys.try_acquire_many(keys).ok()?])
    }

    /// Calls that have places.
    #[cfg(test)]
    pub(super) fn calls_taken(&self) -> usize {
        self.calls_max - self.calls.available_permits()
    }
}

/// Places of both kinds: those of all names, or those of one.
pub(super) struct Rooms {
    served: Room,
    beyond: Room,
}

/// A call's places, until it is dropped.
pub(super) struct WaitPermit<'a> {
    serves: WaitsFor,
    _permits: [[SemaphorePermit<'a>; 2]; 2],
}

impl WaitPermit<'_> {
    /// Tells whether a call that waits for that may keep it.
    pub(super) fn is_for(&self, waits_for: WaitsFor) -> bool {
        self.serves == WaitsFor::Sections || waits_for == WaitsFor::Bounds
    }
}

impl Rooms {
    fn new(connections: usize, percent: usize) -> Self {
        let room = |parts| Room::new(part_of(connections, parts) * percent / 100, KEYS_MAX * percent / 100);
        Self { served: room(SERVED_PARTS), beyond: room(BEYOND_PARTS) }
    }

    /// Those of all names together, where callers have so many connections.
    pub(super) fn of_all(connections: usize) -> Self {
        Self::new(connections, 100)
    }

    /// Those of one name.
    pub(super) fn of_one(connections: usize) -> Self {
        Self::new(connections, NAME_PERCENT)
    }

    /// Calls that have places.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.served.calls_taken() + self.beyond.calls_taken()
    }

    fn room(&self, kind: WaitsFor) -> &Room {
        match kind {
            WaitsFor::Bounds => &self.served,
            WaitsFor::Sections => &self.beyond,
        }
    }

    /// Places for a call with so many keys of the name whose rooms are `its`; `None` if there are none left.
    pub(super) fn enter<'a>(&'a self, its: &'a Self, waits_for: WaitsFor, keys: usize) -> Option<WaitPermit<'a>> {
        let enter = |serves| {
            let permits = [its.room(serves).enter(keys)?, self.room(serves).enter(keys)?];
            Some(WaitPermit { serves, _permits: permits })
        };
        // Where those for bounds are taken, a master does not answer, and the wait is a long one.
        enter(waits_for).or_else(|| enter(WaitsFor::Sections).filter(|_| waits_for == WaitsFor::Bounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken<'a>(all: &'a Rooms, its: &'a Rooms, waits_for: WaitsFor, keys: usize) -> Vec<WaitPermit<'a>> {
        std::iter::from_fn(|| all.enter(its, waits_for, keys)).collect()
    }

    #[test]
    fn neither_kind_and_no_name_takes_the_places_of_others() {
        let (all, one, two) = (Rooms::of_all(4_096), Rooms::of_one(4_096), Rooms::of_one(4_096));
        let of_one = taken(&all, &one, WaitsFor::Sections, 1);
        let of_two = taken(&all, &two, WaitsFor::Sections, 1);
        assert_eq!((of_one.len(), of_two.len()), (1_152, 384));
        let waiting_for_bounds = taken(&all, &one, WaitsFor::Bounds, 1);
        assert_eq!(waiting_for_bounds.len(), 768);
        drop(of_one);
        assert_eq!(taken(&all, &two, WaitsFor::Sections, 1).len(), 1_152 - 384, "places come back");
        assert_eq!(
            taken(&all, &one, WaitsFor::Bounds, 1).len(),
            1_152,
            "whoever waits for bounds takes the others, too"
        );
        drop(waiting_for_bounds);
    }

    #[test]
    fn calls_that_wait_leave_connections_to_others_however_few_there_are() {
        for connections in [8, 64, 755, 4_096] {
            let (all, one, two) = (Rooms::of_all(connections), Rooms::of_one(connections), Rooms::of_one(connections));
            let kinds = [WaitsFor::Sections, WaitsFor::Bounds];
            let waiting: Vec<_> = kinds
                .into_iter()
                .flat_map(|kind| [&one, &two].map(|its| taken(&all, its, kind, 1)))
                .flatten()
                .collect();
            let held = waiting.len() + forwarded_max(connections);
            assert!(held > connections / 2 && held < connections, "{held} of {connections}");
        }
    }

    #[test]
    fn large_calls_are_counted_by_their_keys() {
        let (all, one, two) = (Rooms::of_all(4_096), Rooms::of_one(4_096), Rooms::of_one(4_096));
        let of_one = taken(&all, &one, WaitsFor::Sections, 10_000);
        assert_eq!(of_one.len(), 78);
        assert_eq!(taken(&all, &two, WaitsFor::Sections, 10_000).len(), 26);
        assert!(all.enter(&one, WaitsFor::Bounds, 10_000).is_some());
        drop(of_one);
        assert!(all.enter(&one, WaitsFor::Sections, usize::MAX).is_some(), "an empty room has room for any call");
    }
}
