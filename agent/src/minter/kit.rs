//! For tests: a minter on a serial file of its own, with leases as masters would have granted them.

use super::{Minter, SegmentOutcome, Wanted};
use crate::holder::{LeaseView, Leases};
use crate::refusal::Refusal;
use common::calendar::UtcOffset;
use common::clock::Clock;
use common::kind::Kind;
use common::lease::{Generation, Grant};
use common::namespace::{GeneratorName, Namespace};
use common::parameters::{ClusterId, ClusterParameters, SessionId};
use common::segment::Span;
use common::time::{DAY_MS, SpanMs, WallMs};
use common::token::{TokenType, TokenValue};
use net::rpc::lease::{NameState, Registered};
use net::rpc::ranges::SegmentGrant;
use serial_file::{self, AfterReboot, Block, Contents, Opened, SerialFileError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with a serial file.
pub(crate) struct Kit {
    dir: TempDir,
}

impl Kit {
    pub(crate) fn new() -> Self {
        Self::over(tempfile::tempdir().unwrap())
    }

    /// In memory if this machine has a folder there: for tests with thousands of writes.
    pub(crate) fn in_memory() -> Self {
        Self::over(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn over(dir: TempDir) -> Self {
        let kit = Self { dir };
        serial_file::format(&kit.path(), 10, Clock::system().wall(), SessionId(1)).unwrap();
        kit
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("serial")
    }

    pub(crate) fn open(&self) -> Opened {
        // Whoever dropped a minter last lets go of its file a moment after nobody has it any more.
        for _ in 0..2_000 {
            match serial_file::open(&self.path(), AfterReboot::Fresh, SessionId(2)) {
                Err(SerialFileError::Locked(_)) => std::thread::sleep(Duration::from_millis(1)),
                opened => return opened.unwrap(),
            }
        }
        panic!("the file stays locked")
    }

    /// Changes what the file says, as an earlier run would have left it.
    pub(crate) fn preset(&self, change: impl FnOnce(&mut Contents)) {
        let Opened { mut file, mut contents, holdings, .. } = self.open();
        change(&mut contents);
        file.write(&mut contents, &holdings).unwrap();
    }

    /// Leaves the file as a run does that began the hour of `at` with serial `base` and took `used` of them.
    pub(crate) fn preset_hour(&self, at: WallMs, base: u64, used: u64) {
        let namespace = Namespace::default_of(Kind::Uniq64);
        self.preset(|contents| {
            contents.blocks[0] = Some(Block {
                name: namespace.name().into(),
                kind: namespace.kind(),
                everyday_reset: namespace.everyday_reset(),
                create_time: at,
                modification_time: at,
                bucket: UtcOffset::default().hour_bucket(at).0,
                bucket_base: base,
                checksum: namespace.checksum(),
                serial: base + used,
                step: 10_000,
            });
        });
    }

    /// A start without leases.
    pub(crate) fn start_bare(&self) -> Arc<Minter> {
        self.start_with(Kind::PREDEFINED.map(Namespace::default_of).to_vec())
    }

    /// A start without leases, with these generators.
    pub(crate) fn start_with(&self, namespaces: Vec<Namespace>) -> Arc<Minter> {
        let wanted = [TokenType::Uint2, TokenType::String2IncludeLetter];
        let leases = wanted.map(|t| (t, LeaseView::Missing)).into();
        Minter::new(self.open(), namespaces, leases, Clock::system()).unwrap()
    }

    /// A start without leases, of a session that gives up others.
    pub(crate) fn start_giving_up(&self, former: &[u128]) -> Arc<Minter> {
        let mut opened = self.open();
        opened.holdings.former = former.iter().copied().map(SessionId).collect();
        let wanted = [TokenType::Uint2].map(|t| (t, LeaseView::Missing)).into();
        let namespaces = Kind::PREDEFINED.map(Namespace::default_of).to_vec();
        Minter::new(opened, namespaces, wanted, Clock::system()).unwrap()
    }

    /// A start with leases that were resumed; `renew_first` as the lineage says it.
    pub(crate) fn start_resumed(&self, renew_first: bool) -> Arc<Minter> {
        drop(self.start());
        let opened = Opened { renew_first, ..self.open() };
        let leases = held(7).into_iter().map(|(t, view)| match view {
            LeaseView::Held(grant) => (t, LeaseView::Resumed(grant)),
            other => (t, other),
        });
        let namespaces = Kind::PREDEFINED.map(Namespace::default_of).to_vec();
        Minter::new(opened, namespaces, leases.collect(), Clock::system()).unwrap()
    }

    /// A start with a lease of each type, tokens 7 and "07".
    pub(crate) fn start(&self) -> Arc<Minter> {
        let minter = self.start_bare();
        minter.join(ClusterId(1), parameters()).unwrap();
        minter.set_leases(held(7), 0).unwrap();
        minter
    }
}

/// The masters' word that this name is in use.
pub(crate) fn in_use(namespace: Namespace) -> Registered {
    Registered { namespace, state: NameState::InUse, proof: None }
}

impl Minter {
    /// Takes in that masters say that the name is in use.
    pub(crate) fn define(&self, namespace: Namespace) -> Result<(), Refusal> {
        let name = namespace.name().clone();
        self.learn(&in_use(namespace)).unwrap();
        self.names.look(name.as_str(), |known| known.refusal()).flatten().map_or(Ok(()), Err)
    }

    /// Takes in that masters say that the name was retired.
    pub(crate) fn retire(&self, namespace: &Namespace) {
        self.learn(&Registered { state: NameState::Retired, ..in_use(namespace.clone()) }).unwrap();
    }
}

pub(crate) fn parameters() -> ClusterParameters {
    ClusterParameters::new(7, UtcOffset::default(), 65_535).unwrap()
}

/// Leases of a week from today on.
pub(crate) fn held(value: u32) -> Leases {
    let today = UtcOffset::default().day_floor(Clock::system().wall());
    let grant = |token_type: TokenType, value| Grant {
        token_type,
        key: token_type.key(TokenValue(value)),
        g: Generation(1),
        from: today,
        until: today + SpanMs(7 * DAY_MS),
        receipt: None,
    };
    let strings = grant(TokenType::String2IncludeLetter, value % 1_296);
    let numbers = grant(TokenType::Uint2, value);
    Leases::from([
        (TokenType::Uint2, LeaseView::Held(numbers)),
        (TokenType::String2IncludeLetter, LeaseView::Held(strings)),
    ])
}

impl Minter {
    /// Grants every segment that is asked for, as a master that is alone would, from the beginning of each axis on.
    pub(crate) fn feed_segments(self: &Arc<Self>) {
        let minter = Arc::downgrade(self);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut places: BTreeMap<GeneratorName, u64> = BTreeMap::new();
            while let Some(minter) = minter.upgrade() {
                let wanted = runtime.block_on(async {
                    tokio::time::timeout(Duration::from_millis(20), minter.segments.wanted()).await
                });
                for wanted in wanted.unwrap_or_default() {
                    let place = places.entry(wanted.name().clone()).or_insert(minter.segment_first(&wanted));
                    let from = *place;
                    *place += u64::from(wanted.ask.wanted);
                    let _inside = runtime.enter();
                    minter.heard(
                        &wanted,
                        SegmentOutcome::Granted(SegmentGrant { span: Span { from, to: *place }, proof: None }),
                    );
                }
            }
        });
    }

    fn segment_first(&self, wanted: &Wanted) -> u64 {
        let generator = self.names.generator(Kind::Segment, wanted.name().as_str()).unwrap();
        generator.namespace().segments().unwrap().axis().from
    }

    /// A write is under way until `answer` comes; gives whether it came within ten seconds.
    pub(crate) fn hold_the_disk(self: &Arc<Self>, answer: mpsc::Receiver<()>) -> JoinHandle<bool> {
        let (minter, (begins, has_begun)) = (Arc::clone(self), mpsc::channel());
        let disk = std::thread::spawn(move || {
            let _write = minter.driver.state();
            begins.send(()).unwrap();
            answer.recv_timeout(Duration::from_secs(10)).is_ok()
        });
        has_begun.recv().unwrap();
        disk
    }

    /// The leases as they are durable.
    pub(crate) fn lease_grants(&self) -> Vec<Grant> {
        self.driver.state().engine.holdings().leases.clone()
    }

    /// The durable number of the newest renewal.
    pub(crate) fn rseq(&self) -> u64 {
        self.driver.state().engine.holdings().rseq
    }
}

/// Lets the minter believe that it is `wall`.
pub(crate) fn set_wall(minter: &Minter, wall: WallMs) {
    minter.time.set_wall(wall);
}
