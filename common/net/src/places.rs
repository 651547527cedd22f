//! Places for the connections of a listener: so many and no more, and a newcomer takes the place of a connection that keeps us waiting: of the
//! caller who has most of them the one that has done so longest.
//!
//! A connection keeps us *waiting* while the other end has asked for nothing, has asked for half of something, or does not read
//! the answer; it is *at work* while we owe it something. Only those that wait make room. Of connections that never asked
//! for anything and of those that did, the kind that has the larger part of the places makes room, so that silent
//! strangers cannot drive out everybody who is idle for a moment, nor those who were here first keep out all newcomers. A
//! connection that is [kept](Place::keep) never makes room. Whoever opens more and more of them so displaces its own.
//!
//! Waiting is measured in newcomers, not in time: no clock is read for a request.

use super::turns::{CallerId, Turns, Wait};
use futures::FutureExt as _;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// The part of all places that is picked at once to make room one after the other: who searches all of them for each
/// newcomer is kept busy by a flood of them.
const LOOK_AHEAD_PART: usize = 64;

/// The places of one listener, or of several that share them. Clones share them, too.
#[derive(Clone, Debug)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    /// Counts the newcomers: the clock by which connections wait.
    newcomers: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Connections by their numbers, which are given in the order in which they come.
    open: BTreeMap<u64, Arc<Seat>>,
    /// Connections that never make room, by their numbers, each with whom it is kept for.
    kept: BTreeMap<u64, (u128, Arc<Seat>)>,
    /// The connection that is kept for each.
    keys: BTreeMap<u128, u64>,
    /// The connections that make room next, each with the instant since when it waited when it was picked.
    next: VecDeque<(u64, u64)>,
}

/// A value of [`Seat::waits_since`].
const AT_WORK: u64 = 0;

/// The state of a connection. Its own task alone writes it, so no two of its fields have to agree at any instant.
#[derive(Debug)]
struct Seat {
    number: u64,
    /// The caller, by the best that was known of it.
    caller: AtomicU64,
    /// The count of newcomers when it began to wait, or [`AT_WORK`].
    waits_since: AtomicU64,
    /// Requests that are not answered yet.
    under_way: AtomicU32,
    /// True once it has asked for anything.
    asked: AtomicBool,
    end: CancellationToken,
}

/// A connection's place; given back when its last clone is dropped.
#[derive(Clone, Debug)]
pub struct Place(Arc<PlaceState>);

#[derive(Debug)]
struct PlaceState {
    seat: Arc<Seat>,
    places: Places,
    turns: Turns,
}

/// A request that is under way; dropped when it is answered.
#[derive(Debug)]
pub struct RequestGuard(Place);

impl Places {
    /// A set of so many places.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Shared { max, newcomers: AtomicU64::new(0), inner: Mutex::default() }))
    }

    /// A place for a connection of that caller, which this thread serves. If all are taken, one that waits has to [go](Place::has_to_go);
    /// `None` if none does.
    pub fn take(&self, caller: CallerId) -> Option<Place> {
        let Shared { max, newcomers, .. } = &*self.0;
        let mut inner = self.inner();
        if inner.open.len() + inner.kept.len() >= *max && !inner.make_room(*max) {
            return None;
        }
        let number = newcomers.fetch_add(1, Relaxed) + 1;
        let seat = Arc::new(Seat {
            number,
            caller: AtomicU64::new(caller.bits()),
            waits_since: AtomicU64::new(number),
            under_way: AtomicU32::new(0),
            asked: AtomicBool::new(false),
            end: CancellationToken::new(),
        });
        inner.open.insert(number, Arc::clone(&seat));
        Some(Place(Arc::new(PlaceState { seat, places: self.clone(), turns: Turns::of_this_thread() })))
    }

    /// Lets those that have to go do so first, after a newcomer was taken in, if all places are taken. Each of them has its
    /// descriptor until then, and files need some too.
    pub async fn settle(&self) {
        let full = {
            let inner = self.inner();
            inner.open.len() + inner.kept.len() >= self.0.max
        };
        if full {
            tokio::task::yield_now().await;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing in it can be half done.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Lets one connection go. `false` if none waits.
    fn make_room(&mut self, max: usize) -> bool {
        for _ in 0..2 {
            while let Some((number, since)) = self.next.pop_front() {
                if self.open.get(&number).is_some_and(|seat| seat.waits_since.load(Relaxed) == since)
                    && let Some(seat) = self.open.remove(&number)
                {
                    seat.end.cancel();
                    return true;
                }
            }
            self.look(max);
        }
        false
    }

    /// Finds those that make room: one after the other the one that waits longest of the caller who has most connections then.
    fn look(&mut self, max: usize) {
        let (mut asked, mut silent) = (Vec::new(), Vec::new());
        let mut silent_count = 0;
        let mut connections = BTreeMap::<u64, usize>::new();
        for seat in self.open.values() {
            let has_asked = seat.asked.load(Relaxed);
            silent_count += usize::from(!has_asked);
            let caller = seat.caller.load(Relaxed);
            *connections.entry(caller).or_default() += 1;
            let since = seat.waits_since.load(Relaxed);
            if since != AT_WORK {
                if has_asked { &mut asked } else { &mut silent }.push((since, seat.number, caller));
            }
        }
        let silent_first = silent_count * 2 >= max;
        let mut waiting = if silent.is_empty() || (!silent_first && !asked.is_empty()) { asked } else { silent };
        waiting.sort_unstable();
        // Each by the number of connections that its caller has by the time it goes.
        let mut waiting: Vec<_> = waiting
            .into_iter()
            .map(|(since, number, caller)| {
                let left = connections.entry(caller).or_default();
                *left = left.saturating_sub(1);
                (Reverse(*left), since, number)
            })
            .collect();
        let wanted = (max / LOOK_AHEAD_PART).max(1);
        if waiting.len() > wanted {
            waiting.select_nth_unstable(wanted);
            waiting.truncate(wanted);
        }
        waiting.sort_unstable();
        self.next = waiting.into_iter().map(|(_, since, number)| (number, since)).collect();
    }

    fn release(&mut self, number: u64) -> Option<Arc<Seat>> {
        let (key, seat) = self.kept.remove(&number)?;
        if self.keys.get(&key) == Some(&number) {
            self.keys.remove(&key);
        }
        Some(seat)
    }
}

impl Seat {
    fn waits(&self, places: &Places) {
        self.waits_since.store(places.0.newcomers.load(Relaxed), Relaxed);
    }
}

impl Place {
    /// Notes who the caller is, as soon as more is known of it than where it comes from.
    pub fn is_of(&self, caller: CallerId) {
        self.0.seat.caller.store(caller.bits(), Relaxed);
    }

    /// The caller, by the best that is known of it by now.
    pub(crate) fn caller(&self) -> CallerId {
        CallerId::from_bits(self.0.seat.caller.load(Relaxed))
    }

    /// Takes a turn among those of other callers, with so much work, in small requests: at once if it is this one's now. `false` if it
    /// has to make room instead.
    #[inline]
    pub fn turn(&self, work: u32) -> impl Future<Output = bool> + use<'_> {
        // Most need not wait, and have no room for that with them.
        let waits = (!self.0.turns.try_take(self.caller(), work)).then(|| Box::pin(self.wait(work)));
        async move {
            match waits {
                Some(waits) => waits.await,
                None => true,
            }
        }
    }

    async fn wait(&self, work: u32) -> bool {
        let mut wait = self.turns();
        // It is not served, whatever it has asked for.
        self.stalls();
        let came = tokio::select! {
            biased;
            () = self.has_to_go() => false,
            () = poll_fn(|cx| wait.poll_take(cx, self.caller(), work)) => true,
        };
        self.goes_on();
        came
    }

    /// The wait of this connection for its turns, for who polls it.
    pub fn turns(&self) -> Wait {
        self.0.turns.wait()
    }

    /// Takes a turn with so much work, in small requests, when it is this connection's.
    pub fn poll_turn(&self, wait: &mut Wait, cx: &Context<'_>, work: u32) -> Poll<()> {
        wait.poll_take(cx, self.caller(), work)
    }

    /// Counts work that was done for this connection, in small requests: its caller's next turns come so much later.
    #[inline]
    pub fn owes(&self, work: u32) {
        self.0.turns.owe(self.caller(), work);
    }

    /// Notes a request that has come whole: until the result is dropped, the connection is at work.
    pub fn begin(&self) -> RequestGuard {
        let seat = &self.0.seat;
        seat.under_way.fetch_add(1, Relaxed);
        seat.asked.store(true, Relaxed);
        seat.waits_since.store(AT_WORK, Relaxed);
        RequestGuard(self.clone())
    }

    /// Notes that a request has come, for a connection that answers one request after the other and says itself when it
    /// [rests](Self::rests).
    #[inline]
    pub fn works(&self) {
        let seat = &self.0.seat;
        seat.under_way.store(1, Relaxed);
        seat.asked.store(true, Relaxed);
        seat.waits_since.store(AT_WORK, Relaxed);
    }

    /// Notes that it waits for the next request.
    #[inline]
    pub fn rests(&self) {
        self.0.seat.under_way.store(0, Relaxed);
        self.0.seat.waits(&self.0.places);
    }

    /// Notes that it waits in the middle of a request or of an answer: for more of the one, or until the other is read.
    pub fn stalls(&self) {
        self.0.seat.waits(&self.0.places);
    }

    /// Notes that what it waited for in the middle of something has come.
    pub fn goes_on(&self) {
        let PlaceState { seat, places, .. } = &*self.0;
        if seat.under_way.load(Relaxed) > 0 {
            seat.waits_since.store(AT_WORK, Relaxed);
        } else {
            seat.waits(places);
        }
    }

    /// Keeps this connection from ever making room, and lets the one that was kept for the same `key` before make room.
    pub fn keep(&self, key: u128) {
        let PlaceState { seat, places, .. } = &*self.0;
        let mut inner = places.inner();
        if inner.keys.get(&key) == Some(&seat.number) {
            return;
        }
        let seat = inner.release(seat.number).or_else(|| inner.open.remove(&seat.number));
        // None: it had to go already.
        let Some(seat) = seat else { return };
        if let Some(former) = inner.keys.insert(key, seat.number)
            && let Some((_, former)) = inner.kept.remove(&former)
        {
            inner.open.insert(former.number, former);
        }
        inner.kept.insert(seat.number, (key, seat));
    }

    /// Lets it make room again.
    pub fn keep_no_more(&self) {
        let mut inner = self.0.places.inner();
        if let Some(seat) = inner.release(self.0.seat.number) {
            inner.open.insert(seat.number, seat);
        }
    }

    /// Ends when the connection has to make room for another one.
    pub fn has_to_go(&self) -> WaitForCancellationFuture<'_> {
        self.0.seat.end.cancelled()
    }

    /// The token that [`has_to_go`](Self::has_to_go) waits for.
    pub(super) fn end(&self) -> CancellationToken {
        self.0.seat.end.clone()
    }

    /// Ends when the connection has to make room, or if it has asked for nothing `within` this.
    pub async fn over(&self, within: Duration) {
        tokio::select! {
            () = self.has_to_go() => return,
            () = tokio::time::sleep(within) => {}
        }
        if self.0.seat.asked.load(Relaxed) {
            self.has_to_go().await;
        }
    }

    /// Wraps work as that of a request which has just come.
    pub fn while_asked<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let asked = self.begin();
        // No async block: it would have room for the work twice.
        work.map(move |done| {
            drop(asked);
            done
        })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let PlaceState { seat, places, .. } = &*self.0.0;
        if seat.under_way.fetch_sub(1, Relaxed) == 1 {
            seat.waits(places);
        }
    }
}

impl Drop for PlaceState {
    fn drop(&mut self) {
        let mut inner = self.places.inner();
        if inner.release(self.seat.number).is_none() {
            inner.open.remove(&self.seat.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOMEBODY: CallerId = CallerId::from_bits(1);

    fn stays(place: &Place) -> bool {
        place.has_to_go().now_or_never().is_none()
    }

    fn count(places: &[Place]) -> usize {
        places.iter().filter(|place| stays(place)).count()
    }

    #[test]
    fn who_waits_longest_makes_room() {
        let places = Places::new(4);
        let taken: Vec<_> = (0..4).map(|_| places.take(SOMEBODY).unwrap()).collect();
        let at_work = taken[0].begin();
        drop(taken[1].begin());
        let fifth = places.take(SOMEBODY).unwrap();
        assert_eq!(taken.iter().map(stays).collect::<Vec<_>>(), [true, true, false, true], "the oldest silent one");
        let sixth = places.take(SOMEBODY).unwrap();
        assert!(stays(&taken[1]) && !stays(&taken[3]) && stays(&fifth), "half of them were silent");
        drop((at_work, fifth.begin()));
        let seventh = places.take(SOMEBODY).unwrap();
        assert!(
            !stays(&taken[1]) && stays(&taken[0]) && stays(&fifth),
            "fewer were; it waited longest of those that asked"
        );
        let all = [&taken[0], &fifth, &sixth, &seventh].map(Place::begin);
        assert!(places.take(SOMEBODY).is_none(), "all are at work");
        drop(all);
        assert!(places.take(SOMEBODY).is_some());
    }

    #[test]
    fn places_come_back() {
        let places = Places::new(2);
        let (one, two) = (places.take(SOMEBODY).unwrap(), places.take(SOMEBODY).unwrap());
        let at_work = [one.begin(), two.begin()];
        assert!(places.take(SOMEBODY).is_none());
        drop((one, at_work));
        let three = places.take(SOMEBODY).unwrap();
        assert!(stays(&two) && stays(&three), "nobody had to go");
    }

    #[test]
    fn silent_strangers_drive_out_half_of_the_idle_at_most_and_nobody_at_work() {
        let places = Places::new(100);
        let honest: Vec<_> = (0..100).map(|_| places.take(SOMEBODY).unwrap()).collect();
        let at_work: Vec<_> = honest.iter().take(10).map(Place::begin).collect();
        honest.iter().skip(10).for_each(|place| drop(place.begin()));
        let strangers: Vec<_> = (0..1_000).map(|_| places.take(SOMEBODY).unwrap()).collect();
        assert!((48..=50).contains(&count(&honest)), "{}", count(&honest));
        assert_eq!(count(&honest[..10]), 10);
        assert_eq!(count(&honest) + count(&strangers), 100);
        assert!(stays(&strangers[999]) && !stays(&strangers[0]));
        drop(at_work);
        // Those who were here first and idle do not keep out newcomers either.
        let places = Places::new(100);
        let first: Vec<_> = (0..100).map(|_| places.take(SOMEBODY).unwrap()).collect();
        first.iter().for_each(|place| drop(place.begin()));
        let newcomers: Vec<_> = (0..40).map(|_| places.take(SOMEBODY).unwrap()).collect();
        assert_eq!((count(&first), count(&newcomers)), (60, 40));
    }

    #[test]
    fn who_opens_more_and_more_displaces_its_own() {
        let [greedy, honest] = [2, 3].map(CallerId::from_bits);
        for asks in [true, false] {
            let places = Places::new(100);
            let (mut open, mut all_greedy) = (Vec::new(), Vec::new());
            let come = |caller, to: &mut Vec<Place>| {
                let place = places.take(caller).unwrap();
                if asks {
                    drop(place.begin());
                }
                to.push(place);
            };
            (0..20).for_each(|_| come(honest, &mut open));
            (0..1_000).for_each(|_| come(greedy, &mut all_greedy));
            assert_eq!((count(&open), count(&all_greedy)), (20, 80));
            // Others have as many as they like, up to the same number.
            (0..100).for_each(|_| come(honest, &mut open));
            let kept = count(&open);
            assert!((49..=51).contains(&kept) && kept + count(&all_greedy) == 100, "{kept}");
            // By another name they are counted together.
            open.iter().for_each(|place| place.is_of(greedy));
            let (third, mut few) = (CallerId::from_bits(4), Vec::new());
            (0..50).for_each(|_| come(third, &mut few));
            assert_eq!(count(&few), 50);
        }
    }

    #[test]
    fn who_does_not_read_or_sends_half_a_request_counts_as_waiting() {
        let places = Places::new(2);
        let (stalled, honest) = (places.take(SOMEBODY).unwrap(), places.take(SOMEBODY).unwrap());
        let asked = [stalled.begin(), honest.begin()];
        assert!(places.take(SOMEBODY).is_none());
        stalled.stalls();
        stalled.goes_on();
        assert!(places.take(SOMEBODY).is_none(), "it read on");
        stalled.stalls();
        let newcomer = places.take(SOMEBODY).unwrap();
        assert!(!stays(&stalled) && stays(&honest) && stays(&newcomer));
        drop(asked);
    }

    #[test]
    fn one_connection_for_each_is_kept() {
        let places = Places::new(3);
        let (former, holder) = (places.take(SOMEBODY).unwrap(), places.take(SOMEBODY).unwrap());
        former.keep(1);
        holder.keep(1);
        holder.keep(1);
        let strangers: Vec<_> = (0..10).map(|_| places.take(SOMEBODY).unwrap()).collect();
        assert!(!stays(&former) && stays(&holder), "the newest connection of a holder is kept");
        assert_eq!(count(&strangers), 2);
        strangers[9].keep(2);
        strangers[8].keep(3);
        assert!(places.take(SOMEBODY).is_none(), "all are kept");
        strangers[8].keep(2);
        assert!(places.take(SOMEBODY).is_some() && !stays(&strangers[9]));
        holder.keep_no_more();
        assert!(places.take(SOMEBODY).is_some());
        drop((former, holder, strangers));
        let inner = places.inner();
        assert!(inner.open.is_empty() && inner.kept.is_empty() && inner.keys.is_empty());
    }

    #[tokio::test]
    async fn who_waits_for_its_turn_makes_room_whatever_it_has_asked_for() {
        let places = Places::new(1);
        let place = places.take(CallerId::of("greedy")).unwrap();
        assert!(place.0.turns.try_take(SOMEBODY, 1));
        place.owes(1_000);
        let asked = place.begin();
        assert!(places.take(SOMEBODY).is_none(), "it is at work");
        let mut turn = std::pin::pin!(place.turn(1));
        assert!(futures::poll!(turn.as_mut()).is_pending());
        let newcomer = places.take(SOMEBODY).unwrap();
        assert!(!turn.await && stays(&newcomer));
        drop(asked);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_nothing_in_time_is_over() {
        let places = Places::new(2);
        let (silent, honest) = (places.take(SOMEBODY).unwrap(), places.take(SOMEBODY).unwrap());
        drop(honest.begin());
        let within = Duration::from_secs(5);
        silent.over(within).await;
        assert!(tokio::time::timeout(within * 10, honest.over(within)).await.is_err());
    }
}
