//! The order of what is asked for, and what a refused write leaves. What serials, gates and windows do is tried beside them.

use super::*;
use ids::calendar::UtcOffset;
use ids::kind::Kind;
use ids::lease::{Generation, Grant};
use ids::parameters::{ClusterId, ClusterParameters};
use ids::time::{DAY_MS, HOUR_MS};
use ids::token::{TokenType, TokenValue};
use minting::holder::LeaseView;
use serial_file::{FileLoss, Header, StepError};
use std::collections::{BTreeMap, BTreeSet};
use wire::mint::MintCode;

mod segments;
mod ticks;
mod walk;

const NOON: WallMs = WallMs(20_000 * DAY_MS + 12 * HOUR_MS);

/// A disk and windows that do as they are told, and write down what that was.
struct Fake {
    wall: WallMs,
    boot: BootMs,
    fails: Option<fn() -> WriteError>,
    window: Window<Prefix>,
    /// By axis.
    ticks: [TickWindow; 4],
    asked: Vec<&'static str>,
    /// Segments that masters are to be asked for.
    asks: Vec<(usize, Ask)>,
}

impl Fake {
    fn new() -> Self {
        let (wall, boot, window) = (NOON, BootMs(10_000), Window::closed(Prefix::Void));
        let ticks = [(); 4].map(|()| TickWindow::closed());
        Self { wall, boot, fails: None, window, ticks, asked: Vec::new(), asks: Vec::new() }
    }

    fn pass(&mut self, ms: i64) {
        (self.wall, self.boot) = (self.wall + SpanMs(ms), self.boot + SpanMs(ms));
        self.asked.clear();
    }

    fn written(&mut self, what: &'static str) -> Result<(), WriteError> {
        self.asked.push(what);
        self.fails.map_or(Ok(()), |why| Err(why()))
    }
}

fn full() -> WriteError {
    StepError { action: "write".into(), source: std::io::ErrorKind::StorageFull.into() }.into()
}

fn taken() -> WriteError {
    WriteError::Lost(FileLoss::Replaced)
}

impl Effects for Fake {
    fn wall(&self) -> WallMs {
        self.wall
    }
    fn real_boot(&self) -> BootMs {
        self.boot
    }
    fn scale(&self) -> u32 {
        1
    }
    fn why(&self) -> String {
        "the masters say nothing".to_owned()
    }
    fn write(&mut self, _: &mut Contents, _: &Holdings) -> Result<(), WriteError> {
        self.written("write")
    }
    fn write_holdings(&mut self, _: &Holdings) -> Result<(), WriteError> {
        self.written("write holdings")
    }
    fn is_open(&self, _: usize) -> bool {
        !self.window.is_closed()
    }
    fn close(&mut self, _: usize) -> (u32, Range<u64>) {
        self.asked.push("close");
        (self.window.bucket, self.window.close())
    }
    fn interrupt(&mut self, _: usize) -> (u32, Range<u64>) {
        self.asked.push("interrupt");
        (self.window.bucket, self.window.close())
    }
    fn lengthen(&mut self, _: usize, serials: Range<u64>) {
        self.asked.push("lengthen");
        self.window = self.window.with_serials(serials);
    }
    fn open(&mut self, _: usize, window: Window<Prefix>) {
        self.asked.push("open");
        self.window = window;
    }
    fn ask(&mut self, series: usize, ask: Ask) {
        self.asks.push((series, ask));
    }
    fn close_ticks(&mut self, axis: usize) -> Option<TickPosition> {
        self.ticks[axis].close()
    }
    fn open_ticks(&mut self, axis: usize, window: TickWindow) {
        self.asked.push("open ticks");
        self.ticks[axis] = window;
    }
    fn publish(&mut self, _: &Published) {
        self.asked.push("publish");
    }
    fn give_up(&mut self, _: String) {
        self.asked.push("give up");
    }
}

fn lease() -> Leases {
    let token_type = TokenType::Uint2;
    let grant = Grant {
        token_type,
        key: token_type.key(TokenValue(7)),
        g: Generation(1),
        from: WallMs(20_000 * DAY_MS),
        until: WallMs(20_007 * DAY_MS),
        receipt: None,
    };
    BTreeMap::from([(token_type, LeaseView::Held(grant))])
}

/// An engine with one series, Uniq64, and a lease.
fn with_a_lease(fake: &mut Fake) -> Engine {
    let header = Header { session: SessionId(1), time_mark: WallMs(0), write_counter: 0, names_from: WallMs(0) };
    let contents = Contents { header, blocks: vec![None, None] };
    let none = BTreeMap::from([(TokenType::Uint2, LeaseView::Missing)]);
    let mut engine = Engine::new(contents, Holdings::default(), none, None);
    engine.add(&Namespace::default_of(Kind::Uniq64)).unwrap();
    engine.join(fake, ClusterId(1), ClusterParameters::new(7, UtcOffset::default(), 65_535).unwrap()).unwrap();
    engine.set_leases(fake, lease(), false).unwrap();
    fake.asked.clear();
    engine
}

/// By its series, which is added first.
fn refill_uniq96(fake: &mut Fake, engine: &mut Engine, n: u32) -> Result<Refilled, Refusal> {
    let known = engine.series.iter().position(|series| series.namespace.kind() == Kind::Uniq96);
    let at = known.unwrap_or_else(|| engine.add(&Namespace::default_of(Kind::Uniq96)).unwrap());
    engine.refill_ticks(fake, at, n)
}

fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> MintCode {
    result.unwrap_err().code()
}

#[test]
fn a_window_opens_when_its_serials_are_durable() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    assert_eq!(engine.refill(fake, 0, None, 3).unwrap().len(), 3);
    assert_eq!(fake.asked, ["close", "write", "open"]);
    fake.asked.clear();
    engine.reserve(fake, 0).unwrap();
    assert_eq!(fake.asked, ["write", "interrupt", "lengthen"]);
}

#[test]
fn a_disk_that_refuses_is_left_alone_for_a_moment_and_nothing_opens() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    fake.fails = Some(full);
    assert_eq!(code(engine.refill(fake, 0, None, 3)), MintCode::SerialFileIo);
    assert_eq!(fake.asked, ["close", "write"]);
    fake.asked.clear();
    assert_eq!(code(engine.refill(fake, 0, None, 3)), MintCode::SerialFileIo);
    assert_eq!(fake.asked, ["close"], "not before its time");
    fake.pass(WRITE_RETRY.0);
    fake.fails = None;
    assert_eq!(engine.refill(fake, 0, None, 3).unwrap().len(), 3);
    assert_eq!(fake.asked, ["close", "write", "open"]);
}

#[test]
fn what_is_lost_ends_at_once_and_what_is_gained_when_it_is_durable() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    engine.refill(fake, 0, None, 3).unwrap();
    fake.asked.clear();
    fake.fails = Some(full);
    let none = BTreeMap::from([(TokenType::Uint2, LeaseView::Missing)]);
    assert!(engine.set_leases(fake, none, false).is_err());
    assert_eq!(fake.asked, ["publish", "close", "write holdings"]);
    assert_eq!(code(engine.refill(fake, 0, None, 1)), MintCode::NoLease);
    fake.pass(WRITE_RETRY.0);
    assert!(engine.set_leases(fake, lease(), false).is_ok(), "that is what the file says already");
    assert_eq!(fake.asked, ["publish"]);
}

#[test]
fn who_has_lost_the_file_gives_nothing_more_of_the_stretch_that_was_durable() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    assert!(matches!(refill_uniq96(fake, &mut engine, 1).unwrap(), Refilled::Runs(_)));
    // The clock was corrected, so the window has to pass the gates again; 300 ms of its stretch are left.
    engine.regate(fake, None);
    fake.pass(MARK_AHEAD.0 - 300);
    fake.fails = Some(taken);
    assert_eq!(code(refill_uniq96(fake, &mut engine, 1)), MintCode::SerialFileIo);
    assert!(engine.is_ended() && fake.ticks[0].is_closed());
    assert_eq!(fake.asked, ["write", "close", "give up"]);
}

#[test]
fn a_disk_that_refuses_leaves_the_stretch_that_is_durable() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    refill_uniq96(fake, &mut engine, 1).unwrap();
    engine.regate(fake, None);
    fake.pass(MARK_AHEAD.0 - 300);
    fake.fails = Some(full);
    assert!(matches!(refill_uniq96(fake, &mut engine, 1).unwrap(), Refilled::Runs(_)));
    engine.regate(fake, None);
    fake.pass(300);
    assert_eq!(code(refill_uniq96(fake, &mut engine, 1)), MintCode::SerialFileIo, "its end is passed");
}

#[test]
fn what_is_seen_of_a_series_is_what_its_bucket_still_has() {
    const HOUR: u64 = 1 << 31;
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    engine.refill(fake, 0, None, 3).unwrap();
    let step = u64::from(engine.serial_view(0, NOON, 0).unwrap().step);
    let view = engine.serial_view(0, NOON, step - 3).unwrap();
    assert_eq!((view.next, view.capacity_left), (3, HOUR - 3), "what is lent to the window was given to nobody");
    let later = engine.serial_view(0, NOON + SpanMs(HOUR_MS), step - 3).unwrap();
    assert_eq!((later.next, later.capacity_left), (3, HOUR), "the next hour has nothing of it");
    let TakenSerials::Some(part) = take(&fake.window, u32::MAX, NOON) else { panic!("more than the window has") };
    assert_eq!((part.len(), part.is_empty()), (step - 3, false));
}

#[test]
fn a_session_is_of_one_cluster_with_its_parameters() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    let parameters = |days| ClusterParameters::new(days, UtcOffset::default(), 65_535).unwrap();
    assert!(engine.join(fake, ClusterId(1), parameters(7)).is_ok());
    assert!(engine.join(fake, ClusterId(2), parameters(7)).is_err());
    assert!(engine.join(fake, ClusterId(1), parameters(8)).is_err());
    fake.asked.clear();
    engine.promise_rseq(fake, 5).unwrap();
    engine.promise_rseq(fake, 4).unwrap();
    assert_eq!((engine.holdings().rseq, &fake.asked[..]), (5, &["write holdings"][..]));
}

#[test]
fn a_stranger_ends_all_leases_until_it_is_heard_no_more() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    engine.refill(fake, 0, None, 3).unwrap();
    fake.asked.clear();
    engine.hear_stranger(fake, "b:7101", ClusterId(2)).unwrap();
    assert_eq!(fake.asked, ["publish", "close", "write holdings"]);
    assert!(engine.holdings().leases.is_empty());
    fake.asked.clear();
    engine.hear_stranger(fake, "b:7101", ClusterId(2)).unwrap();
    assert_eq!(fake.asked, [""; 0], "that was known");
    assert_eq!(code(engine.refill(fake, 0, None, 1)), MintCode::WrongCluster);
    engine.set_leases(fake, lease(), false).unwrap();
    assert!(engine.holdings().leases.is_empty(), "none may be used yet");
    engine.hear_own(fake, "b:7101");
    engine.set_leases(fake, lease(), false).unwrap();
    assert_eq!((engine.holdings().leases.len(), engine.refill(fake, 0, None, 1).unwrap().len()), (1, 1));
}

#[test]
fn a_resumed_session_waits_until_its_moment_is_over() {
    let fake = &mut Fake::new();
    let held = with_a_lease(fake);
    let resumed: Leases = lease()
        .into_iter()
        .map(|(token_type, view)| match view {
            LeaseView::Held(grant) => (token_type, LeaseView::Resumed(grant)),
            other => (token_type, other),
        })
        .collect();
    let of = |until| Published::new(held.holdings(), resumed.clone(), until);
    let left = |published: &Published, ms| published.resumption_left(TokenType::Uint2, BootMs(ms), SpanMs(9));
    let lease = |published: &Published, ms| published.lease(TokenType::Uint2, BootMs(ms), || "silence".to_owned());
    let soon = of(Some(BootMs(1_500)));
    assert_eq!([1_000, 1_499, 1_500].map(|ms| left(&soon, ms)), [Some(SpanMs(500)), Some(SpanMs(1)), None]);
    assert_eq!(code(lease(&soon, 1_499)), MintCode::NoLease);
    assert!(lease(&soon, 1_499).unwrap_err().to_string().contains("1500 ms"));
    assert!(lease(&soon, 1_500).is_ok());
    let never = of(None);
    assert_eq!(left(&never, 1_000_000), Some(SpanMs(9)));
    assert!(lease(&never, 1_000_000).unwrap_err().to_string().contains("silence"));
    assert_eq!(left(held.published(), 0), None);
}

/// The first serial, by a new window.
fn uniq96_again(fake: &mut Fake, engine: &mut Engine) -> u64 {
    engine.regate(fake, None);
    fake.asked.clear();
    match refill_uniq96(fake, engine, 1).unwrap() {
        Refilled::Runs(runs) => runs.iter().map(|run| run.start).min().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stretch_of_uniq96_is_made_durable_when_half_of_it_is_left() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    let mark = |engine: &Engine| engine.contents().header.time_mark;
    assert_eq!((uniq96_again(fake, &mut engine), mark(&engine)), (0, NOON + MARK_AHEAD));
    assert_eq!(uniq96_again(fake, &mut engine), 1, "in the same millisecond they go on");
    assert_eq!(fake.asked, ["open ticks"]);
    fake.pass(499);
    uniq96_again(fake, &mut engine);
    assert_eq!(fake.asked, ["open ticks"], "501 ms are left");
    fake.pass(1);
    uniq96_again(fake, &mut engine);
    assert_eq!(fake.asked, ["write", "open ticks"]);
    fake.pass(600);
    engine.extend_ticks(fake, 0).unwrap();
    assert_eq!((&fake.asked[..], mark(&engine)), (&["write", "open ticks"][..], fake.wall + MARK_AHEAD));
    let before = fake.wall;
    fake.pass(MARK_AHEAD.0 - 2);
    fake.fails = Some(full);
    assert_eq!(uniq96_again(fake, &mut engine), 0, "this millisecond and one more are durable");
    fake.pass(1);
    engine.forget_failure();
    engine.regate(fake, None);
    assert_eq!(code(refill_uniq96(fake, &mut engine, 1)), MintCode::SerialFileIo, "one is for serials that run over");
    assert_eq!(mark(&engine), before + MARK_AHEAD);
}

#[test]
fn a_mark_ahead_of_the_clock_is_waited_for_once_if_it_is_near() {
    for (ahead, waits) in [(0, false), (1, true), (RESTART_WAIT_MAX.0, true), (RESTART_WAIT_MAX.0 + 1, false)] {
        let fake = &mut Fake::new();
        let mut engine = with_a_lease(fake);
        engine.mark_at_start = NOON + SpanMs(ahead);
        match refill_uniq96(fake, &mut engine, 1).unwrap() {
            Refilled::WaitFor(span) => assert!(waits && span == SpanMs(ahead), "{ahead}"),
            _ => assert!(!waits, "{ahead}"),
        }
        fake.pass(ahead);
        assert!(matches!(refill_uniq96(fake, &mut engine, 1).unwrap(), Refilled::Runs(_)), "{ahead}");
    }
}

#[test]
fn a_clean_stop_gives_back_what_was_not_used() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    engine.refill(fake, 0, None, 3).unwrap();
    refill_uniq96(fake, &mut engine, u32::MAX).unwrap();
    assert!(
        matches!(take_ticks(&fake.ticks[0], 1, NOON, ids::kind::UNIQ96_AHEAD_MAX), TakenTicks::All { .. }),
        "the last of its millisecond"
    );
    fake.asked.clear();
    engine.end(fake).unwrap();
    assert_eq!((engine.is_ended(), &fake.asked[..]), (true, &["close", "write"][..]));
    assert_eq!(engine.contents().header.time_mark, NOON + SpanMs(1));
    assert_eq!(engine.contents().blocks[0].as_ref().map(|block| block.serial), Some(3));
    fake.asked.clear();
    engine.end(fake).unwrap();
    assert_eq!(fake.asked, ["close"], "there is nothing more to write");
}

#[test]
fn what_a_request_took_of_the_window_before_counts_towards_what_it_gets() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    engine.refill(fake, 0, None, 3).unwrap();
    let TakenSerials::Some(part) = take(&fake.window, u32::MAX, NOON) else { panic!("more than the window has") };
    let len = u32::try_from(part.len()).unwrap();
    // Somebody else comes first and is given what lies above, so it cannot be put back.
    let others = engine.refill(fake, 0, None, 2).unwrap();
    let runs = engine.refill(fake, 0, Some(part), len + 5).unwrap();
    assert_eq!(runs.iter().map(|run| run.len).collect::<Vec<_>>(), [len, 5]);
    let ids: BTreeSet<u64> = runs.numbers().chain(others.numbers()).map(|id| id as u64).collect();
    assert_eq!(ids.len(), len as usize + 5 + 2, "none came twice");
}
