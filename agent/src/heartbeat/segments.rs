//! The task that fetches segments of plain numbers: for each name that needs one it asks the masters until one is granted.
//!
//! The master that granted the last one is asked first, at first the one in use, and the others at once if it fails or refuses. An answer counts for the call that waits for it, and
//! no call is repeated: each gets a further segment, and what was lost on its way is a gap. A name has one call under way.

use super::PAUSE_MIN;
use super::link::{CallError, Caller, Link};
use super::report::Report;
use crate::minter::{Answer, Minter, Wanted};
use common::clock::Clock;
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::rpc::lease::Refusal as Said;
use common::rpc::ranges::SegmentGrant;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Calls for segments under way at once, of all names.
const CALLS_MAX: usize = 64;
/// Between two rounds of calls for the same name, which double from [`PAUSE_MIN`] on, at most this.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a master may take to introduce itself,
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// and to grant a segment, for which the other one may have to confirm a part of the axis first: up to three seconds.
const CALL_TIMEOUT: Duration = Duration::from_millis(3_500);
/// Until what was granted is shown again, to a master that took no notice.
const SHOW_PAUSE: Duration = Duration::from_secs(1);
const NONE: usize = usize::MAX;
/// A master that could not be reached is left alone for so long, however many names need segments.
const LEFT_ALONE: Duration = Duration::from_millis(300);

/// Fetches segments.
pub struct Segments {
    masters: Vec<Master>,
    caller: Caller,
    minter: Arc<Minter>,
    report: Arc<Report>,
    calls: Semaphore,
    /// Which of the masters granted the last one; [`NONE`]: none yet.
    last: AtomicUsize,
}

/// One of the masters, and the connection to it, which all names share.
struct Master {
    address: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// Why it could not be reached, and when.
    failed: Option<(Instant, CallError)>,
}

impl Master {
    /// A connection to it. Whoever comes while another one connects gets what comes of that.
    async fn link(&self, caller: &Caller, minter: &Arc<Minter>) -> Result<Arc<Link>, CallError> {
        let mut state = self.state.lock().await;
        if let Some(link) = &state.link {
            return Ok(Arc::clone(link));
        }
        if let Some((when, why)) = &state.failed
            && when.elapsed() < LEFT_ALONE
        {
            return Err(why.clone());
        }
        match in_time(&self.address, GREETING_TIMEOUT, Link::open(&self.address, caller, minter)).await {
            Ok((link, _)) => {
                let link = Arc::new(link);
                *state = State { link: Some(Arc::clone(&link)), failed: None };
                Ok(link)
            }
            Err(why) => {
                *state = State { link: None, failed: Some((Instant::now(), why.clone())) };
                Err(why)
            }
        }
    }

    /// What came of a call on that connection, which is given up if that was its end.
    async fn after<T>(&self, link: &Arc<Link>, came: Result<T, CallError>) -> Result<T, CallError> {
        if came.as_ref().is_err_and(CallError::ends_connection) {
            self.drop_link(link).await;
        }
        came
    }

    /// That connection is of no use any more.
    async fn drop_link(&self, link: &Arc<Link>) {
        let mut state = self.state.lock().await;
        if state.link.as_ref().is_some_and(|known| Arc::ptr_eq(known, link)) {
            state.link = None;
        }
    }
}

impl Segments {
    /// For an agent of that name at these masters (HOST:PORT).
    pub fn new(masters: &[String], agent_id: AgentId, minter: Arc<Minter>, report: Arc<Report>, clock: Clock) -> Self {
        let caller = Caller { agent_id, session: minter.session(), clock, retired: Vec::new() };
        let master = |address: &String| Master { address: address.clone(), state: Mutex::default() };
        let masters = masters.iter().map(master).collect();
        Self { masters, caller, minter, report, calls: Semaphore::new(CALLS_MAX), last: AtomicUsize::new(NONE) }
    }

    /// Runs until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let this = Arc::new(self);
        // As many as names that are minted by: each has one call.
        let (mut fetching, mut showing) = (JoinSet::new(), JoinSet::new());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                wanted = this.minter.wanted() => {
                    for wanted in wanted {
                        fetching.spawn(fetch(Arc::clone(&this), wanted));
                    }
                }
                Some(_) = fetching.join_next() => {}
                () = this.report.connected() => {
                    // What goes on for an earlier connection shows nothing that this one does not.
                    showing.abort_all();
                    showing.spawn(show(Arc::clone(&this)));
                }
                Some(_) = showing.join_next() => {}
            }
        }
    }

    /// Asks all masters, until one grants a segment.
    async fn round(&self, wanted: &Wanted) -> Result<Answer, String> {
        if let Some(wrong) = self.minter.wrong_cluster() {
            return Err(wrong.to_string());
        }
        let Ok(_call) = self.calls.acquire().await else { return Err("this agent is ending".to_owned()) };
        let (mut ended, mut reasons) = (0, Vec::new());
        for (place, master) in self.masters.iter().enumerate().cycle().skip(self.first()).take(self.masters.len()) {
            match self.ask(master, wanted).await {
                Ok(grant) => {
                    self.last.store(place, Ordering::Relaxed);
                    return Ok(Answer::Granted(grant));
                }
                Err(CallError::Refused { refusal: Said::AxisEnded { .. }, .. }) => ended += 1,
                Err(error) => reasons.push(format!("master {}: {error}", master.address)),
            }
        }
        // What one of them cannot say, it may still have.
        if ended == self.masters.len() && ended > 0 { Ok(Answer::Ended) } else { Err(reasons.join("; ")) }
    }

    /// Which master is asked first.
    fn first(&self) -> usize {
        match self.last.load(Ordering::Relaxed) {
            NONE => self.in_use(),
            last => last,
        }
    }

    /// The one that the heartbeat goes to; without one, the first.
    fn in_use(&self) -> usize {
        let in_use = self.report.master();
        let is = |master: &Master| in_use.as_ref().is_some_and(|it| it.address == master.address);
        self.masters.iter().position(is).unwrap_or(0)
    }

    async fn ask(&self, master: &Master, wanted: &Wanted) -> Result<SegmentGrant, CallError> {
        let link = master.link(&self.caller, &self.minter).await?;
        let Wanted { name, ask, .. } = wanted;
        let call = link.request_segment(&self.caller, name.clone(), ask.wanted, ask.seen);
        let asked = in_time(&master.address, CALL_TIMEOUT, call).await;
        master.after(&link, asked).await
    }

    /// Shows the master in use what was granted here, but for names in `shown`; those that it has compared are added.
    ///
    /// # Errors
    /// The reason why it has not compared some of them.
    async fn show_all(&self, shown: &mut BTreeSet<GeneratorName>) -> Result<(), CallError> {
        let Some(master) = self.masters.get(self.in_use()) else { return Ok(()) };
        let mut all = Ok(());
        for (name, seen) in self.minter.segments_seen() {
            if shown.contains(&name) {
                continue;
            }
            let Ok(_call) = self.calls.acquire().await else { return Ok(()) };
            let link = master.link(&self.caller, &self.minter).await?;
            let call = link.request_segment(&self.caller, name.clone(), 0, seen);
            let said = in_time(&master.address, CALL_TIMEOUT, call).await;
            match master.after(&link, said).await {
                // It knows of it, gives nothing by that name any more, or has just noticed that it forgot something.
                Ok(_) | Err(CallError::Refused { refusal: Said::NumbersForgotten { .. } | Said::NameRetired, .. }) => {
                    shown.insert(name);
                }
                // It has compared nothing: it may have forgotten the name, too, which is brought back.
                Err(unknown @ CallError::Refused { refusal: Said::NoSuchName, .. }) => all = Err(unknown),
                Err(error) => return Err(error),
            }
        }
        all
    }
}

/// Shows the masters what was granted here: their disks may have been put back to before that, and then they would grant it again. It has
/// to be known before they grant anything, which they put off for a while when neither of them can prove its store.
async fn show(this: Arc<Segments>) {
    let mut shown = BTreeSet::new();
    while let Err(error) = this.show_all(&mut shown).await {
        tracing::debug!(%error, "what was granted was not shown yet");
        tokio::time::sleep(SHOW_PAUSE).await;
    }
}

async fn in_time<T>(
    address: &str,
    patience: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let late = |_| CallError::Failed { address: address.to_owned(), why: "no answer in time".to_owned() };
    tokio::time::timeout(patience, call).await.map_err(late)?
}

/// Asks again and again, until there is an answer or nobody wants one any more.
async fn fetch(this: Arc<Segments>, wanted: Wanted) {
    let mut pause = PAUSE_MIN;
    while !this.minter.has_ended(&wanted) {
        match this.round(&wanted).await {
            Ok(answer) => return this.minter.heard(&wanted, answer),
            Err(why) => {
                tracing::debug!(name = %wanted.name, %why, "no segment came");
                this.minter.heard_nothing(&wanted, why);
            }
        }
        // Not all names at the same time.
        tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    this.minter.heard(&wanted, Answer::Failed);
}
