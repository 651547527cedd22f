//! Turns of callers: where several want more than a thread can do, each is served as much as the others, however many connections it has
//! and however fast it asks.
//!
//! Time passes in *rounds*. In one round a caller takes up to `QUANTUM` of work; what it takes beyond that counts in the next rounds. Then its
//! connections wait until nobody is left who has taken less and is ready: a task that steps aside for everybody who is ready (the *referee*)
//! comes to its next turn without one of them having been served. So no processor time is left unused, no clock is read, and a caller who is
//! alone never waits. It is made for runtimes of one thread; on those of several, rounds pass without anybody being waited for long. This is deficit round robin (Shreedhar and Varghese 1995), over callers that are told apart by a hash (McKenney 1990).

use super::tls::Remote;
use ids::setting::host_network;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The work of a caller in one round, in small requests.
const QUANTUM: u64 = 64;
/// Callers that are told apart; further ones share.
const SLOTS: usize = 1_024;
/// Looks of the referee without anybody served after which nobody else is ready: whoever stepped aside as it did may come only behind it.
const QUIET_LOOKS: u32 = 2;
/// The waiting connections of a caller that go on in a new round.
const CONNECTIONS_A_ROUND: usize = 16;

/// The work that a new connection is, without and with a handshake of TLS, in small requests.
const NEWCOMER_WORK: u32 = 8;
const HANDSHAKE_WORK: u32 = 128;

/// The work that a new connection is, in small requests.
pub fn newcomer_work(remote: &Remote) -> u32 {
    if remote.is_over_tls() { HANDSHAKE_WORK } else { NEWCOMER_WORK }
}

/// A caller, as a hash under a key of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallerId(u64);

impl CallerId {
    /// The caller that is known by that.
    pub fn of(caller: impl Hash) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEY.hash_one(caller).max(1))
    }

    /// Whoever comes from that address, or from the network that one host usually has.
    pub fn at(address: IpAddr) -> Self {
        Self::of(host_network(address))
    }

    fn slot(self) -> usize {
        usize::try_from(self.0 % SLOTS as u64).unwrap_or_default()
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Whoever is at the other end, by the best that is known of it by now.
impl From<&Remote> for CallerId {
    fn from(remote: &Remote) -> Self {
        match (remote.user(), remote.role()) {
            (Some(user), _) => Self::of(("user", user)),
            (None, Some(role)) => Self::of(role),
            (None, None) => Self::at(remote.from.ip()),
        }
    }
}

/// The turns on one thread. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The caller who was alone in the last round, and still is; 0: none.
    alone: AtomicU64,
    round: Mutex<Round>,
}

/// The work of a caller in the round in which it was served last, with what it took beyond its part before.
#[derive(Clone, Copy, Debug, Default)]
struct RoundUse {
    round: u64,
    work: u64,
}

/// The place of a connection among those of its caller that wait: by the order in which they came.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    slot: usize,
    number: u64,
}

#[derive(Debug)]
struct Round {
    number: u64,
    taken: Vec<RoundUse>,
    /// Callers who asked for a turn in this round.
    callers: usize,
    /// Looks of the referee since somebody had one.
    quiet: u32,
    /// Connections of callers who have had their part.
    waiting: BTreeMap<usize, BTreeMap<u64, Waker>>,
    tickets: u64,
    has_referee: bool,
}

impl Default for Round {
    fn default() -> Self {
        let taken = vec![RoundUse::default(); SLOTS];
        Self { number: 1, taken, callers: 0, quiet: 0, waiting: BTreeMap::new(), tickets: 0, has_referee: false }
    }
}

impl Round {
    /// The work of a caller in this round.
    #[expect(clippy::indexing_slicing, reason = "a slot is a remainder")]
    fn taken(&mut self, slot: usize) -> &mut u64 {
        let (number, taken) = (self.number, &mut self.taken[slot % SLOTS]);
        if taken.round != number {
            let over = (number - taken.round).saturating_mul(QUANTUM);
            *taken = RoundUse { round: number, work: taken.work.saturating_sub(over) };
            self.callers += 1;
        }
        &mut taken.work
    }

    /// Takes a turn with so much work, if it is this caller's.
    fn take(&mut self, caller: CallerId, work: u32, alone: &AtomicU64) -> bool {
        alone.store(0, Relaxed);
        if *self.taken(caller.slot()) >= QUANTUM {
            if self.callers > 1 || !self.waiting.is_empty() {
                return false;
            }
            self.number += 1;
            self.callers = 0;
            *self.taken(caller.slot()) = 0;
            alone.store(caller.0, Relaxed);
        }
        // Whoever asks for turns and does nothing in them must not keep others from theirs.
        *self.taken(caller.slot()) += u64::from(work.max(1));
        self.quiet = 0;
        true
    }

    /// Begins the next round, if nobody was served for so many looks. Gives whoever goes on.
    fn next(&mut self) -> Vec<Waker> {
        self.quiet += 1;
        if self.quiet <= QUIET_LOOKS {
            return Vec::new();
        }
        self.quiet = 0;
        let slots: Vec<usize> = self.waiting.keys().copied().collect();
        let is_alone = self.callers <= 1 && slots.len() == 1;
        // As many rounds as nobody who waits has a part in.
        let rounds = slots.iter().map(|slot| *self.taken(*slot) / QUANTUM).min().unwrap_or(0).max(1);
        (self.number, self.callers) = (self.number + rounds, 0);
        let mut go_on = Vec::new();
        for slot in slots {
            // Each is of this round before any of them is served.
            let taken = self.taken(slot);
            if is_alone {
                *taken = 0;
            }
            let most = if is_alone { usize::MAX } else { CONNECTIONS_A_ROUND };
            if *taken < QUANTUM
                && let Some(queue) = self.waiting.get_mut(&slot)
            {
                go_on.extend(std::iter::from_fn(|| queue.pop_first()).take(most).map(|(_, waker)| waker));
            }
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        go_on
    }

    fn forget(&mut self, Ticket { slot, number }: Ticket) {
        if let Some(queue) = self.waiting.get_mut(&slot) {
            queue.remove(&number);
            if queue.is_empty() {
                self.waiting.remove(&slot);
            }
        }
    }
}

impl Turns {
    /// The turns of whoever is served by this thread.
    pub fn of_this_thread() -> Self {
        thread_local!(static TURNS: Turns = Turns::default());
        TURNS.with(Clone::clone)
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        // Nothing in it can be half done.
        self.0.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_alone(&self, caller: CallerId) -> bool {
        self.0.alone.load(Relaxed) == caller.0
    }

    /// Takes a turn with so much work, in small requests, if it is that caller's now.
    #[inline]
    pub fn try_take(&self, caller: CallerId, work: u32) -> bool {
        self.is_alone(caller) || self.round().take(caller, work, &self.0.alone)
    }

    /// Counts work that was done for that caller, in small requests.
    #[inline]
    pub fn owe(&self, caller: CallerId, work: u32) {
        if work > 0 && !self.is_alone(caller) {
            *self.round().taken(caller.slot()) += u64::from(work);
        }
    }

    /// The wait of a connection for its turns.
    pub fn wait(&self) -> Wait {
        Wait { turns: self.clone(), ticket: None }
    }
}

/// The wait of a connection for its turns.
#[derive(Debug)]
pub struct Wait {
    turns: Turns,
    ticket: Option<Ticket>,
}

impl Wait {
    /// Takes a turn with so much work, in small requests, when it is that caller's.
    pub fn poll_take(&mut self, cx: &Context<'_>, caller: CallerId, work: u32) -> Poll<()> {
        if self.ticket.is_none() && self.turns.is_alone(caller) {
            return Poll::Ready(());
        }
        let mut round = self.turns.round();
        if round.take(caller, work, &self.turns.0.alone) {
            if let Some(ticket) = self.ticket.take() {
                round.forget(ticket);
            }
            return Poll::Ready(());
        }
        let Ticket { slot, number } = *self.ticket.get_or_insert_with(|| {
            round.tickets += 1;
            Ticket { slot: caller.slot(), number: round.tickets }
        });
        round.waiting.entry(slot).or_default().insert(number, cx.waker().clone());
        let has_referee = std::mem::replace(&mut round.has_referee, true);
        // A runtime that ends drops it at once, and that locks the round.
        drop(round);
        if !has_referee {
            tokio::spawn(Referee(self.turns.clone()).run());
        }
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.turns.round().forget(ticket);
        }
    }
}

/// The task that begins new rounds as long as somebody waits.
struct Referee(Turns);

impl Referee {
    async fn run(self) {
        let mut waiting = true;
        while waiting {
            // Behind all that are ready now.
            tokio::task::yield_now().await;
            let mut round = self.0.round();
            let go_on = round.next();
            waiting = !round.waiting.is_empty();
            // Under the same lock: whoever waits from here on calls another one.
            round.has_referee = waiting;
            drop(round);
            go_on.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Referee {
    fn drop(&mut self) {
        let mut round = self.0.round();
        // Its runtime ends; those who wait may be of another one.
        let waiting = std::mem::take(&mut round.waiting);
        round.has_referee = false;
        drop(round);
        waiting.into_values().flat_map(BTreeMap::into_values).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    async fn take(turns: &Turns, caller: CallerId, work: u32) {
        let mut wait = turns.wait();
        poll_fn(|cx| wait.poll_take(cx, caller, work)).await;
    }

    /// The order in which callers were served.
    type Served = Arc<Mutex<Vec<&'static str>>>;

    /// A connection on which requests of so much work wait without end.
    fn greedy(turns: &Turns, name: &'static str, work: u32, served: &Served) {
        let (turns, served) = (turns.clone(), Arc::clone(served));
        tokio::spawn(async move {
            loop {
                take(&turns, CallerId::of(name), work).await;
                served.lock().unwrap().push(name);
                tokio::task::yield_now().await;
            }
        });
    }

    async fn served_within(turns: usize, served: &Served) -> BTreeMap<&'static str, usize> {
        served.lock().unwrap().clear();
        while served.lock().unwrap().len() < turns {
            tokio::task::yield_now().await;
        }
        let mut counts = BTreeMap::new();
        served.lock().unwrap().iter().for_each(|name| *counts.entry(*name).or_default() += 1);
        counts
    }

    #[tokio::test]
    async fn a_caller_is_served_as_much_as_another_one_with_a_hundred_connections() {
        let (turns, served) = (Turns::default(), Served::default());
        (0..100).for_each(|_| greedy(&turns, "many", 1, &served));
        assert_eq!(served_within(5_000, &served).await.len(), 1, "alone, it never waits");
        assert!(turns.round().waiting.is_empty() && !turns.round().has_referee);
        (0..2).for_each(|_| greedy(&turns, "few", 1, &served));
        let counts = served_within(20_000, &served).await;
        assert!((9_000..=11_000).contains(&counts["few"]), "{counts:?}");
        // One whose requests are dear has as much work done for it, not as many requests.
        greedy(&turns, "dear", 640, &served);
        let counts = served_within(20_000, &served).await;
        let work = counts["dear"] * 640 * 10 / counts["few"];
        assert!((7..=13).contains(&work), "{counts:?}");
    }

    /// Whoever is polled first in a new round has no advantage of it.
    #[tokio::test]
    async fn a_debt_is_paid_whoever_comes_first_and_with_however_few_connections() {
        for (dear, small) in [(1, 1), (1, 16), (16, 1), (16, 16)] {
            let mut names = ["a", "b"];
            names.sort_by_key(|name| CallerId::of(*name).slot());
            let [low, high] = names;
            for order in [[low, high], [high, low]] {
                let (turns, served) = (Turns::default(), Served::default());
                (0..dear).for_each(|_| greedy(&turns, order[0], 6_400, &served));
                (0..small).for_each(|_| greedy(&turns, order[1], 1, &served));
                served_within(10_000, &served).await;
                let counts = served_within(30_000, &served).await;
                let work = counts.get(order[0]).unwrap_or(&0) * 6_400 * 10 / counts[order[1]];
                assert!((5..=15).contains(&work), "{dear} {small} {order:?}: {counts:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let (turns, one) = (Turns::default(), CallerId::of(1));
        assert!(turns.try_take(CallerId::of(2), 1));
        turns.owe(one, 1_000);
        for _ in 0..100 {
            let mut waits = turns.wait();
            for _ in 0..3 {
                let polled = poll_fn(|cx| Poll::Ready(waits.poll_take(cx, one, 1))).await;
                assert!(polled.is_pending());
            }
            assert_eq!(turns.round().waiting.values().map(BTreeMap::len).sum::<usize>(), 1);
        }
        assert!(turns.round().waiting.is_empty());
    }

    #[tokio::test]
    async fn turns_in_which_nothing_is_done_hold_nobody_up() {
        let (turns, served) = (Turns::default(), Served::default());
        (0..4).for_each(|_| greedy(&turns, "idle", 0, &served));
        greedy(&turns, "busy", 1, &served);
        let counts = served_within(20_000, &served).await;
        assert!(counts["busy"] > 5_000, "{counts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_caller_who_has_gone_and_no_referee_stays() {
        let (turns, served) = (Turns::default(), Served::default());
        (0..100).for_each(|_| greedy(&turns, "many", 1, &served));
        for _ in 0..3 {
            // Somebody who comes now and then is served at once, and lets the others go on.
            take(&turns, CallerId::of("gentle"), 1).await;
            served_within(5_000, &served).await;
            assert!(turns.round().waiting.is_empty() && !turns.round().has_referee);
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn who_waits_goes_on_although_the_runtime_of_the_referee_ends() {
        let turns = Turns::default();
        let (one, other) = (CallerId::of(1), CallerId::of(2));
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let exhausted = |turns: &Turns| while turns.try_take(one, 8) {};
        assert!(turns.try_take(other, 1));
        exhausted(&turns);
        let ended = runtime();
        ended.block_on(async {
            // It is dropped before its first turn.
            let waits = take(&turns, one, 1);
            tokio::select! { biased; () = waits => panic!("it has had its part"), () = std::future::ready(()) => {} }
        });
        drop(ended);
        assert!(!turns.round().has_referee);
        runtime().block_on(async {
            tokio::time::timeout(Duration::from_secs(60), take(&turns, one, 1)).await.unwrap();
        });
    }

    #[test]
    fn callers_are_told_apart_by_the_best_that_is_known() {
        let at = |address: &str| CallerId::at(address.parse().unwrap());
        assert_eq!(at("10.0.0.1"), at("::ffff:10.0.0.1"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_eq!(CallerId::from(&Remote::here()), CallerId::at(Remote::here().from.ip()));
    }
}
