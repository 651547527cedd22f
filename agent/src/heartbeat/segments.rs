//! The task that fetches segments of plain numbers: for each name that needs one it asks the masters until one is granted.
//!
//! The master that granted the last one is asked first, at first the one in use, and the others at once if it fails or refuses. An answer counts for the call that waits for it, and
//! no call is repeated: each gets a further segment, and what was lost on its way is a gap. A name has one call under way.

use super::PAUSE_MIN;
use crate::masters::{Ask, CallError, First, Lane, Masters, Preferred};
use crate::minter::{Minter, SegmentOutcome, Wanted};
use common::namespace::GeneratorName;
use net::rpc::lease::Refusal as Said;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Calls for segments under way at once, of all names: fewer than one connection takes, so that nothing else waits for them.
pub(crate) const CALLS_MAX: usize = 40;
/// Between two rounds of calls for the same name, which double from [`PAUSE_MIN`] on, at most this.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The time that a master may take to introduce itself,
const REACH: Duration = Duration::from_secs(2);
/// and to grant a segment, for which the other one may have to confirm a part of the axis first: up to three seconds.
const LIMIT: Duration = Duration::from_millis(3_500);
/// The time until what was granted is shown again, to a master that took no notice.
const SHOW_PAUSE: Duration = Duration::from_secs(1);

/// Fetches segments.
pub struct Segments {
    masters: Arc<Masters>,
    minter: Arc<Minter>,
    calls: Semaphore,
    /// The master that granted the last one.
    last: Preferred,
}

impl Segments {
    /// From these masters.
    pub(crate) fn new(masters: Arc<Masters>) -> Self {
        Self {
            minter: Arc::clone(&masters.minter),
            masters,
            calls: Semaphore::new(CALLS_MAX),
            last: Preferred::default(),
        }
    }

    /// Runs until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let this = Arc::new(self);
        // As many as names that are minted by: each has one call.
        let (mut fetching, mut showing) = (JoinSet::new(), JoinSet::new());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                wanted = this.minter.segments().wanted() => {
                    for wanted in wanted {
                        fetching.spawn(fetch(Arc::clone(&this), wanted));
                    }
                }
                Some(_) = fetching.join_next() => {}
                () = this.masters.report.connected() => {
                    // What goes on for an earlier connection shows nothing that this one does not.
                    showing.abort_all();
                    showing.spawn(show(Arc::clone(&this)));
                }
                Some(_) = showing.join_next() => {}
            }
        }
    }

    /// Asks all masters, until one grants a segment.
    async fn round(&self, wanted: &Wanted) -> Result<SegmentOutcome, String> {
        if let Some(wrong) = self.minter.grants().wrong_cluster() {
            return Err(wrong.to_string());
        }
        let Ok(_call) = self.calls.acquire().await else { return Err("this agent is ending".to_owned()) };
        let ask = Ask { reach: REACH, limit: LIMIT, ..Ask::new(Lane::Calls, First::Last(&self.last)) };
        let asked = self.masters.ask(ask, |line| async move {
            let ask = wanted.ask;
            line.request_segment(wanted.name().clone(), ask.wanted, ask.seen).await.map(Some)
        });
        let mut none = match asked.await {
            Ok(grant) => return Ok(SegmentOutcome::Granted(grant)),
            Err(none) => none,
        };
        let all = none.errors.len();
        none.errors.retain(|e| !matches!(e, CallError::Refused { refusal: Said::AxisEnded { .. }, .. }));
        // What one of them cannot say, it may still have.
        if none.errors.is_empty() && all > 0 { Ok(SegmentOutcome::Ended) } else { Err(none.why()) }
    }

    /// Shows the master in use what was granted here, but for names in `shown`; those that it has compared are added.
    ///
    /// # Errors
    /// The reason why it has not compared some of them.
    async fn show_all(&self, shown: &mut BTreeSet<GeneratorName>) -> Result<(), CallError> {
        let at = self.masters.in_use().unwrap_or(0);
        let mut all = Ok(());
        for (name, seen) in self.minter.names().segments_seen(self.minter.driver()) {
            if shown.contains(&name) {
                continue;
            }
            let Ok(_call) = self.calls.acquire().await else { return Ok(()) };
            let line = self.masters.reach(at, Lane::Calls, REACH, LIMIT).await?;
            match line.request_segment(name.clone(), 0, seen).await {
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

/// Asks again and again, until there is an answer or nobody wants one any more.
async fn fetch(this: Arc<Segments>, wanted: Wanted) {
    let mut pause = PAUSE_MIN;
    while !wanted.has_ended() {
        match this.round(&wanted).await {
            Ok(answer) => return this.minter.heard(&wanted, answer),
            Err(why) => {
                tracing::debug!(name = %wanted.name(), %why, "no segment came");
                this.minter.segments().heard_nothing(&wanted, why);
            }
        }
        // Not all names at the same time.
        tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    this.minter.heard(&wanted, SegmentOutcome::Failed);
}
