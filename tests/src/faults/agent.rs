//! An agent without its network, on a real serial file: life after life, with leases as masters would have granted them.

use super::disk::{Call, FaultyDisk, Lie, Struck};
use super::ledger::Ledger;
use super::op::{Ended, Op};
use agent::holder::{Holder, LeaseView, Leases};
use agent::minter::{Generator, Minter};
use agent::refusal::Refusal;
use agent::run::{Run, Runs};
use agent::timebase::ClockSample;
use anyhow::{Context as _, Result};
use common::calendar::UtcOffset;
use common::clock::Clock;
use common::kind::Kind;
use common::layout::Numbers;
use common::lease::{Generation, Grant};
use common::namespace::{GeneratorName, Namespace};
use common::parameters::{ClusterId, ClusterParameters, SessionId};
use common::template::CallerParts;
use common::time::{DAY_MS, HOUR_MS, Now, SpanMs, WallMs};
use common::token::{TokenType, TokenValue};
use models::plain_ids;
use net::rpc::mint::MintCode;
use serial_file::{AfterReboot, Contents, FileLocation, Holdings, Opened, StartKind, format_on, open_on};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

const BLOCKS: u32 = 10;
const WANTED: [TokenType; 2] = [TokenType::Uint2, TokenType::String2IncludeLetter];
/// Far enough from both ends of an hour and of a day that a machine which stands still for minutes does not reach them.
const INTO: SpanMs = SpanMs(10 * 60_000);
/// Past the durable mark of Uniq96, which lies a second ahead.
const PAST_MARK: SpanMs = SpanMs::seconds(3);
/// Past the half of that second.
const PAST_HALF: SpanMs = SpanMs(600);
const LEASE: SpanMs = SpanMs(7 * DAY_MS);
/// The rest of a lease with which it is renewed at the latest.
const SHORT: SpanMs = SpanMs(3 * DAY_MS);
/// The masters grant a value again after this.
const REST: SpanMs = SpanMs(40 * DAY_MS);
/// The number of steps that are told when something does not hold.
const HISTORY: usize = 24;
/// IDs of a small request.
const FEW: u32 = 10;

/// The state that the next start must find, going by `docs/understand/serial-file.md` and the calls that were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStart {
    /// No file.
    NoFile,
    /// The session goes on: the lineage is that of the file.
    Resumes,
    /// The session goes on: the lineage names the file as the one to come.
    ResumesAsNext,
    /// The session does not go on, for this reason.
    Fresh(&'static str),
}

/// The agent, and all that its operator and the masters know of it.
pub struct Agent {
    dir: tempfile::TempDir,
    place: Arc<FileLocation>,
    disk: Arc<FaultyDisk>,
    lie: Option<Lie>,
    minter: Option<Arc<Minter>>,
    /// The ledger of its IDs.
    pub ledger: Arc<Ledger>,
    name: String,
    next_start: NextStart,
    /// True if the write under way has named its file in a lineage.
    announced: bool,
    sessions: u128,
    /// The session of the file in place.
    session: SessionId,
    rseq: u64,
    /// The calendar, as far as it has come.
    time: WallMs,
    tokens: Tokens,
    /// The places that any life of this file has come to with numbers and with strings: in which hour or day, and up to which
    /// serial. Strings begin anew each day.
    next: [(u32, u64); 2],
    /// No millisecond from here on was handed out as Uniq96.
    next96: WallMs,
    caller: CallerParts,
    /// Sentences that do not hold.
    pub violations: Vec<String>,
    /// Descriptions of what was done last, for who has to find out why one does not.
    history: VecDeque<String>,
    /// Numbers below this one were durable when the operation began.
    bound: u64,
}

/// The values that the masters grant to this agent's sessions, one after the other.
#[derive(Clone, Copy)]
struct Tokens {
    first: u32,
    count: u32,
    granted: u32,
}

impl Tokens {
    /// The next value, and whether all were granted before and have to rest first.
    fn grant(&mut self) -> (u32, bool) {
        let value = self.first + self.granted % self.count;
        self.granted += 1;
        (value, self.granted > 1 && self.granted % self.count == 1)
    }
}

impl Agent {
    /// An agent with an empty folder. Of `agents` with one ledger this is the `nth`; each has its own part of the tokens.
    ///
    /// # Errors
    /// If there is no room for a folder.
    pub fn new(nth: u32, agents: u32, ledger: &Arc<Ledger>, lie: Option<Lie>) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let place = Arc::new(FileLocation::resolve(&dir.path().join("F"))?);
        let disk = Arc::new(FaultyDisk::new(dir.path(), lie)?);
        let caller = Namespace::default_of(Kind::String);
        let caller = caller.template().context("a template")?.check_caller(Some("TEST"), Some("00"))?;
        let count = 1_296 / agents.max(1);
        let time = UtcOffset::default().day_floor(Clock::system().wall()) + SpanMs(DAY_MS) + INTO;
        Ok(Self {
            dir,
            place,
            disk,
            lie,
            minter: None,
            ledger: Arc::clone(ledger),
            name: format!("agent {nth}"),
            next_start: NextStart::NoFile,
            announced: false,
            sessions: 0,
            session: SessionId(0),
            rseq: 0,
            time,
            tokens: Tokens { first: nth * count, count, granted: 0 },
            next: [(0, 0); 2],
            next96: WallMs(0),
            caller,
            violations: Vec::new(),
            history: VecDeque::new(),
            bound: 0,
        })
    }

    /// The serial file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("F")
    }

    /// The disk of this life.
    pub fn disk(&self) -> &FaultyDisk {
        &self.disk
    }

    /// Tells whether it is at work.
    pub fn lives(&self) -> bool {
        self.minter.is_some()
    }

    /// The readiness that the minter tells.
    pub fn ready(&self) -> Option<Result<(), MintCode>> {
        self.minter.as_ref().map(|minter| minter.ready().map_err(|refusal| refusal.code()))
    }

    /// The process ends at once, between two calls.
    pub fn drop_dead(&mut self) {
        self.minter = None;
    }

    /// An empty folder: the file is deleted, its lineage stays behind.
    ///
    /// # Errors
    /// If it cannot be deleted.
    pub fn remove_file(&mut self) -> Result<()> {
        self.minter = None;
        if self.next_start != NextStart::NoFile {
            std::fs::remove_file(self.path())?;
        }
        self.next_start = NextStart::NoFile;
        self.remember("the file is removed".to_owned());
        Ok(())
    }

    /// A copy takes the place of the file, as a restore would do it. A copy stays as it is: another one could get the
    /// number of the first file, and the next start would have another reason to be fresh.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn put_a_copy_in_place(&mut self) -> Result<()> {
        if self.next_start == NextStart::Fresh("file_copied") {
            return Ok(());
        }
        self.minter = None;
        self.remember("a copy is put in place".to_owned());
        let copy = self.dir.path().join("copy");
        std::fs::copy(self.path(), &copy)?;
        std::fs::rename(&copy, self.path())?;
        self.next_start = match self.next_start {
            NextStart::Resumes => NextStart::Fresh("file_copied"),
            NextStart::ResumesAsNext => NextStart::Fresh("lineage_behind"),
            other => other,
        };
        Ok(())
    }

    /// The operating system's calendar is set, while the agent is not running.
    pub fn step_calendar(&mut self, by: SpanMs) {
        self.remember(format!("the calendar is set by {by:?}"));
        self.time = self.time + by;
    }

    /// A disk for the next life; whatever was to strike comes with it.
    ///
    /// # Errors
    /// If the folder cannot be opened.
    pub fn new_disk(&mut self) -> Result<()> {
        self.minter = None;
        self.disk = Arc::new(FaultyDisk::new(self.dir.path(), self.lie)?);
        Ok(())
    }

    /// The start that comes next; `None` if there is no file.
    pub fn next_start(&self) -> Option<Op> {
        match self.next_start {
            NextStart::NoFile => None,
            NextStart::Resumes | NextStart::ResumesAsNext => Some(Op::StartResumed),
            NextStart::Fresh(_) => Some(Op::StartFresh),
        }
    }

    /// The operation that is needed before anything else, if one is: a cluster, a lease, a longer one.
    pub fn needs(&self) -> Option<Op> {
        let minter = self.minter.as_ref()?;
        if minter.grants().membership().cluster.is_none() {
            return Some(Op::Join);
        }
        let long =
            |view: &LeaseView| matches!(view, LeaseView::Held(grant) if grant.until - minter.time().wall() > SHORT);
        (!minter.grants().leases().values().all(long)).then_some(Op::Lease)
    }

    /// Does something, and looks at what came of it. Says how it ended, and what struck meanwhile.
    pub fn act(&mut self, op: Op) -> (Ended, Option<Struck>) {
        self.disk.begin();
        self.announced = false;
        self.bound = self.next[0].1 + u64::from(self.left());
        let drawn = self.sessions + 1;
        let ended = match op {
            Op::Format | Op::FormatAgain => self.format(),
            Op::StartFresh | Op::StartResumed => self.start(),
            _ => self.work(op),
        };
        if op.is_format() {
            let there = self.path().exists();
            self.next_start = if there { NextStart::Fresh(self.after_format()) } else { NextStart::NoFile };
        } else {
            let drawn = matches!(op, Op::StartFresh).then_some(self.session_of(drawn));
            for (call, done) in self.disk.calls() {
                if done {
                    self.follow(&call, drawn);
                }
            }
        }
        let ended = if self.disk.dead() { Ended::Killed } else { ended };
        if let Some(minter) = &self.minter {
            self.time = self.time.max(minter.time().wall());
        }
        if ended == Ended::Killed || op == Op::End {
            self.minter = None;
        }
        let struck = self.disk.struck();
        let told = struck.as_ref().map(|struck| format!(", {:?} at {} {}", struck.fault, struck.nth, struck.call));
        self.remember(format!("{op:?} {ended:?}{}, next {:?}", told.unwrap_or_default(), self.next));
        (ended, struck)
    }

    fn remember(&mut self, what: String) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(what);
    }

    /// Notes the change that a finished call makes for the next start: the table of `docs/understand/serial-file.md`, told by renames.
    fn follow(&mut self, call: &Call, drawn: Option<SessionId>) {
        match (call.name, call.file.as_str()) {
            ("create", "F.new") => self.announced = false,
            ("rename", "F.lineage.new F.lineage") => {
                // A fresh start names its file to come in a lineage of the new session, while the old one is in place.
                let early = drawn.is_some_and(|drawn| drawn != self.session);
                self.next_start = if early { NextStart::Fresh("other_session") } else { NextStart::Resumes };
                self.announced = true;
            }
            ("rename", "F.new F") => {
                if let Some(drawn) = drawn {
                    (self.session, self.rseq) = (drawn, 0);
                }
                let behind = NextStart::Fresh("lineage_behind");
                self.next_start = if self.announced { NextStart::ResumesAsNext } else { behind };
            }
            _ => {}
        }
    }

    fn session_of(&self, nth: u128) -> SessionId {
        SessionId(u128::from(self.tokens.first) << 64 | nth)
    }

    fn after_format(&self) -> &'static str {
        if self.dir.path().join("F.lineage").exists() { "other_session" } else { "no_lineage" }
    }

    fn violated(&mut self, what: impl Into<String>) {
        let (what, history) = (what.into(), self.history.make_contiguous().join("; "));
        self.violations.push(format!("{}: {what}; before: {history}", self.name));
    }

    fn format(&mut self) -> Ended {
        self.sessions += 1;
        let session = self.session_of(self.sessions);
        self.session = session;
        let done = format_on(&*self.disk, &self.place, BLOCKS, self.time, session);
        // The file starts anew, and a session of it never meets the tokens of an earlier one.
        (self.next, self.next96) = ([(0, 0); 2], WallMs(0));
        match done {
            Ok(()) => Ended::Well,
            Err(e) => Ended::NotStarted(e.to_string()),
        }
    }

    fn start(&mut self) -> Ended {
        self.sessions += 1;
        let new_session = self.session_of(self.sessions);
        let disk: Arc<dyn serial_file::Disk<File = std::fs::File>> = Arc::clone(&self.disk) as _;
        let opened = match open_on(disk, Arc::clone(&self.place), AfterReboot::Fresh, new_session) {
            Ok(opened) => opened,
            Err(e) => return Ended::NotStarted(e.to_string()),
        };
        self.check_start(&opened, new_session);
        let clock = Clock::system();
        let (held, rseq) = (opened.holdings.leases.clone(), opened.holdings.rseq);
        let wanted = BTreeSet::from(WANTED);
        let holder = Holder::new(&wanted, &held, rseq, SpanMs::seconds(3_600), clock.now());
        let namespaces = Kind::PREDEFINED.map(Namespace::default_of).to_vec();
        match Minter::new(opened, namespaces, holder.leases(), clock) {
            Ok(minter) => {
                self.minter = Some(minter);
                self.set_time(self.time + PAST_MARK);
                Ended::Well
            }
            Err(why) => Ended::NotStarted(why),
        }
    }

    fn check_start(&mut self, opened: &Opened, new_session: SessionId) {
        let expected = match self.next_start {
            NextStart::Resumes | NextStart::ResumesAsNext => ("resumed".to_owned(), self.session),
            NextStart::Fresh(why) => (format!("fresh ({why})"), new_session),
            NextStart::NoFile => ("no file".to_owned(), new_session),
        };
        let found = (opened.start.to_string(), opened.contents.header.session);
        if found != expected {
            self.violated(format!("{found:?} where {expected:?} was due"));
        }
        let resumed = opened.start == StartKind::Resumed;
        // What it gives up at its first request is all that it may know of earlier sessions.
        let kept = Holdings { former: Vec::new(), ..opened.holdings.clone() };
        if !resumed && kept != Holdings::default() {
            self.violated("a fresh start goes on with the tokens of another session");
        }
        if resumed && opened.holdings.rseq < self.rseq {
            self.violated(format!("renewal {} was promised, {} is durable", self.rseq, opened.holdings.rseq));
        }
        self.rseq = opened.holdings.rseq;
        for (kind, next) in Kind::PREDEFINED.into_iter().zip(self.next) {
            let mark = mark(&opened.contents, kind);
            if mark < next {
                self.violated(format!("goes on with {kind} at {mark:?}, though all before {next:?} may be given"));
            }
        }
        if opened.contents.header.time_mark < self.next96 {
            self.violated("goes on with Uniq96 before the last one");
        }
    }

    /// Does what the agent's heartbeat does when a master tells its time, which is that of the machine.
    fn set_time(&self, time: WallMs) {
        let Some(minter) = &self.minter else { return };
        let now = Now { wall: time, boot: minter.time().clock().boot() };
        minter.time().hear(&ClockSample { sent: now, received: now, round_trip: SpanMs(0), wall: time, ahead: None });
    }

    fn work(&mut self, op: Op) -> Ended {
        let Some(minter) = self.minter.clone() else { return Ended::Killed };
        let (wall, before) = (minter.time().wall(), minter.grants().leases());
        let done = match op {
            Op::Join => minter.join(ClusterId(1), parameters()),
            Op::Lease => self.lease(&minter, wall),
            Op::Promise | Op::Again => {
                let rseq = self.rseq + 1;
                minter.promise_rseq(rseq).map(|()| self.rseq = rseq)
            }
            Op::End => minter.end(),
            Op::Hour => {
                self.set_time(WallMs(wall.0 / HOUR_MS * HOUR_MS + HOUR_MS) + INTO);
                self.mint(&minter, Kind::Uniq64, FEW)
            }
            Op::Day => {
                self.set_time(UtcOffset::default().day_ceil(wall + SpanMs(1)) + INTO);
                self.mint(&minter, Kind::String, FEW)
            }
            Op::More => self.mint(&minter, Kind::Uniq64, self.left() + 1),
            Op::Reserve => self.mint(&minter, Kind::Uniq64, (self.left() / 4 * 3).max(1)),
            Op::Mark | Op::Extend => {
                self.set_time(wall + if op == Op::Mark { PAST_MARK } else { PAST_HALF });
                let uniq96 = minter.names().generator(Kind::Uniq96, GeneratorName::DEFAULT);
                let runs = uniq96.and_then(|uniq96| minter.mint_blocking(uniq96, FEW));
                runs.map(|runs| self.received(&runs))
            }
            Op::Format | Op::FormatAgain | Op::StartFresh | Op::StartResumed => Ok(()),
        };
        match done {
            Ok(()) => Ended::Well,
            Err(refusal) => {
                self.check_gain(&minter, &before, &refusal);
                Ended::Refused(refusal.code())
            }
        }
    }

    /// Serials of numbers that are durable and not given.
    pub fn left(&self) -> u32 {
        let mark = self.disk.flushed().map_or((0, 0), |contents| mark(&contents, Kind::Uniq64));
        u32::try_from(mark.1.saturating_sub(self.next[0].1)).unwrap_or(u32::MAX - 1)
    }

    /// Serials of numbers that were durable when the last operation began, and are not given.
    pub fn left_then(&self) -> u32 {
        u32::try_from(self.bound.saturating_sub(self.next[0].1)).unwrap_or(u32::MAX - 1)
    }

    /// `n` numbers, in the hour that it is.
    pub fn mint_numbers(&mut self, n: u32) -> Ended {
        self.mint_now(Kind::Uniq64, n)
    }

    /// Some strings, on the day that it is.
    pub fn mint_strings(&mut self) -> Ended {
        self.mint_now(Kind::String, FEW)
    }

    fn mint_now(&mut self, kind: Kind, n: u32) -> Ended {
        let Some(minter) = self.minter.clone() else { return Ended::Killed };
        self.disk.begin();
        match self.mint(&minter, kind, n) {
            Ok(()) => Ended::Well,
            Err(refusal) => Ended::Refused(refusal.code()),
        }
    }

    fn mint(&mut self, minter: &Arc<Minter>, kind: Kind, n: u32) -> Result<(), Refusal> {
        let generator: &Arc<Generator> = minter.names().generator(kind, "default")?;
        let runs = minter.mint_blocking(generator, n)?;
        self.received(&runs);
        Ok(())
    }

    /// A first lease, or a longer one.
    fn lease(&mut self, minter: &Minter, wall: WallMs) -> Result<(), Refusal> {
        let held = minter.grants().leases();
        let mut leases = Leases::new();
        let (mut wall, mut granted) = (wall, None);
        for (token_type, view) in held {
            let grant = match view {
                LeaseView::Held(grant) => Grant { until: grant.until.max(wall + LEASE), ..grant },
                _ => {
                    let value = *granted.get_or_insert_with(|| {
                        let (value, rest) = self.tokens.grant();
                        wall = if rest { wall + REST } else { wall };
                        value
                    });
                    let from = UtcOffset::default().day_floor(wall);
                    let key = token_type.key(TokenValue(value));
                    Grant { token_type, key, g: Generation(1), from, until: wall + LEASE, receipt: None }
                }
            };
            leases.insert(token_type, LeaseView::Held(grant));
        }
        self.set_time(wall);
        minter.set_leases(leases, 0)
    }

    /// Checks that what was gained by a write that failed is not used.
    fn check_gain(&mut self, minter: &Minter, before: &Leases, refusal: &Refusal) {
        let until = |view: Option<&LeaseView>| match view {
            Some(LeaseView::Held(grant)) => Some(grant.until),
            _ => None,
        };
        if minter.grants().leases().iter().any(|(token_type, now)| until(Some(now)) > until(before.get(token_type))) {
            self.violated(format!("a lease that is not durable is used, although {refusal}"));
        }
    }

    /// IDs came: what was flushed to the disk before must allow them.
    fn received(&mut self, runs: &Runs) {
        self.ledger.note(runs, &self.caller, &format!("{}, session {}", self.name, self.session));
        let Some(flushed) = self.disk.flushed() else {
            return self.violated("IDs were given before anything was durable");
        };
        for run in runs.iter() {
            if let Some(why) = self.not_allowed(run, &flushed) {
                self.violated(why);
            }
        }
    }

    fn not_allowed(&mut self, run: &Run, flushed: &Contents) -> Option<String> {
        use agent::gate::Prefix;
        let end = run.start + u64::from(run.len);
        let (kind, at) = match &run.prefix {
            Prefix::Void => return Some("an ID that means nothing".to_owned()),
            Prefix::Number(numbers @ Numbers::Wide(_)) => {
                let ms = milliseconds((numbers.number(0) >> 32) as u64);
                self.next96 = self.next96.max(ms + SpanMs(1));
                let mark = flushed.header.time_mark;
                return (ms >= mark).then(|| format!("a Uniq96 of {ms}, though only those before {mark} are durable"));
            }
            Prefix::Plain { .. } | Prefix::Number(Numbers::Mixed { .. }) => {
                return Some("a number that no operation here asks for".to_owned());
            }
            Prefix::Number(Numbers::Narrow(_)) => (Kind::Uniq64, 0),
            Prefix::Text { .. } => (Kind::String, 1),
        };
        let (bucket, mark) = mark(flushed, kind);
        if let Some(next) = self.next.get_mut(at) {
            *next = (*next).max((bucket, end));
        }
        let hour = match &run.prefix {
            Prefix::Number(numbers) => hour(numbers.number(0) as u64),
            _ => Some(bucket),
        };
        let allowed = end <= mark && hour == Some(bucket);
        (!allowed).then(|| format!("{kind} of {hour:?} up to {end}, though {bucket} up to {mark} is durable"))
    }
}

fn parameters() -> ClusterParameters {
    ClusterParameters::new(7, UtcOffset::default(), 4_095)
        .unwrap_or_else(|_| unreachable!("the parameters of every test"))
}

/// The hour or day that is durable, and the serial below which all are.
fn mark(contents: &Contents, kind: Kind) -> (u32, u64) {
    let block = contents.blocks.iter().flatten().find(|block| block.kind == kind);
    block.map_or((0, 0), |block| (block.bucket, block.serial))
}

/// The hour that a Uniq64 carries.
fn hour(prefix: u64) -> Option<u32> {
    let offset = UtcOffset::default();
    offset.instant(&plain_ids::uniq64(prefix)).map(|hour| offset.hour_bucket(hour).0)
}

/// The instant that a Uniq96 carries.
fn milliseconds(prefix: u64) -> WallMs {
    UtcOffset::default().instant(&plain_ids::uniq96(prefix)).unwrap_or(WallMs(i64::MAX))
}
