//! The order of what is asked for, and what a refused write leaves. What serials, gates and windows do is tried beside them.

use super::*;
use crate::holder::LeaseView;
use crate::serial_file::{Header, StepError, Taken as FileTaken};
use common::kind::Kind;
use common::lease::Generation;
use common::parameters::{ClusterId, ClusterParameters};
use common::rpc::mint::MintCode;
use common::time::{DAY_MS, HOUR_MS};
use common::token::{TokenType, TokenValue};
use std::collections::BTreeMap;

const NOON: WallMs = WallMs(20_000 * DAY_MS + 12 * HOUR_MS);

/// A disk and windows that do as they are told, and write down what that was.
struct Fake {
    wall: WallMs,
    boot: BootMs,
    fails: Option<fn() -> WriteError>,
    window: Window<Prefix>,
    window96: Window96,
    asked: Vec<&'static str>,
}

impl Fake {
    fn new() -> Self {
        let (window, window96) = (Window::closed(Prefix::Void), Window96::closed());
        Self { wall: NOON, boot: BootMs(10_000), fails: None, window, window96, asked: Vec::new() }
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
    StepError { action: "write", source: std::io::ErrorKind::StorageFull.into() }.into()
}

fn taken() -> WriteError {
    WriteError::Taken(FileTaken::Replaced)
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
    fn close_uniq96(&mut self) -> Option<Place> {
        self.window96.close()
    }
    fn open_uniq96(&mut self, window: Window96) {
        self.asked.push("open uniq96");
        self.window96 = window;
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
    let header = Header { session: SessionId(1), uniq96_mark: WallMs(0), write_counter: 0 };
    let contents = Contents { header, blocks: vec![None, None] };
    let none = BTreeMap::from([(TokenType::Uint2, LeaseView::Missing)]);
    let mut engine = Engine::new(contents, Holdings::default(), none, None);
    engine.add(&Namespace::default_of(Kind::Uniq64)).unwrap();
    engine.join(fake, ClusterId(1), ClusterParameters::new(7, UtcOffset::default(), 65_535).unwrap()).unwrap();
    engine.set_leases(fake, lease(), false).unwrap();
    fake.asked.clear();
    engine
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
    assert!(matches!(engine.refill_uniq96(fake, 1).unwrap(), Refilled::Run(_)));
    // The clock was corrected, so the window has to pass the gates again; 300 ms of its stretch are left.
    engine.regate(fake, None);
    fake.pass(MARK_AHEAD.0 - 300);
    fake.fails = Some(taken);
    assert_eq!(code(engine.refill_uniq96(fake, 1)), MintCode::SerialFileIo);
    assert!(engine.is_ended() && fake.window96.is_closed());
    assert_eq!(fake.asked, ["write", "close", "give up"]);
}

#[test]
fn a_disk_that_refuses_leaves_the_stretch_that_is_durable() {
    let fake = &mut Fake::new();
    let mut engine = with_a_lease(fake);
    engine.refill_uniq96(fake, 1).unwrap();
    engine.regate(fake, None);
    fake.pass(MARK_AHEAD.0 - 300);
    fake.fails = Some(full);
    assert!(matches!(engine.refill_uniq96(fake, 1).unwrap(), Refilled::Run(_)));
    engine.regate(fake, None);
    fake.pass(300);
    assert_eq!(code(engine.refill_uniq96(fake, 1)), MintCode::SerialFileIo, "its end is passed");
}
