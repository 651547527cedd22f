//! The task that talks to the masters: it does what the [`Holder`] says, and tells it what came of it.
//!
//! It goes by one master, chosen at random at first; on any failure the next one in the list is tried at once. Nothing here is waited for
//! by a request: minting goes on under the leases there are.

mod clocks;
mod reporting;
mod segments;
mod strangers;

#[cfg(test)]
pub(crate) use segments::CALLS_MAX as SEGMENT_CALLS_MAX;
pub use segments::Segments;

use crate::holder::{Command, Event, Holder, LeaseView, Next, check_grant};
use crate::masters::{CALL_LIMIT, CallError, First, Greeting, Lane, Line, MasterInUse, Masters, OPEN_LIMIT, Report};
use crate::minter::Minter;
use crate::refusal::Refusal;
use crate::timebase::Heard;
use common::time::BootMs;
use net::rpc::lease::{DENIED_MAX, Rent};
use reporting::Used;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The most masters in the list; two are enough, more addresses may lead to the same two.
pub const MASTERS_MAX: usize = 8;
/// The intervals at which leases may be renewed: often enough for the shortest lease of a day, seldom enough for the masters.
pub const RENEW_INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(12 * 3_600);
/// After something failed, nothing is tried before this has passed in real time, however fast a test clock runs.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Time that the last report may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Texts that are remembered as logged.
const LOGGED_MAX: usize = 64;
/// The interval at which the operating system's clock is compared with the machine's own time.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The parts that the task needs.
pub struct Heartbeat {
    /// The masters, 1 to [`MASTERS_MAX`].
    pub(crate) masters: Arc<Masters>,
    /// The leases that we want and hold.
    pub(crate) holder: Holder,
}

struct Task {
    masters: Arc<Masters>,
    /// The place of the master that is tried next.
    turn: usize,
    /// The line to the one that was heard last.
    held: Option<Line>,
    holder: Holder,
    /// Jumps of the clock that the holder knows of.
    jumps: u64,
    minter: Arc<Minter>,
    report: Arc<Report>,
    /// The last words of each of them when it did not do as asked.
    said: BTreeMap<String, String>,
    /// The texts that were logged since something last worked, so that a long outage is not logged over and over.
    logged: BTreeSet<String>,
    /// The instant at which the masters' operators are told next how we fare.
    tell_at: tokio::time::Instant,
    /// The instant at which ends of layouts were last looked for.
    warned: Option<BootMs>,
    used: Used,
    /// The instant at which the task started, by the machine's own time.
    started: BootMs,
}

impl Heartbeat {
    /// Runs until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let jumped = Arc::new(Notify::new());
        let watch = watch(Arc::clone(&self.masters.minter), Arc::clone(&jumped));
        let mut task = self.task();
        tokio::select! {
            () = stop.cancelled() => {}
            () = watch => {}
            () = task.run(&jumped) => {}
        }
        // Who ends of a fault is to be looked for.
        if !task.minter.driver().is_gone() {
            let _ = tokio::time::timeout(LEAVE_TIMEOUT, task.take_leave()).await;
        }
    }

    fn task(self) -> Task {
        let Self { masters, holder } = self;
        let minter = Arc::clone(&masters.minter);
        let turn = usize::try_from(rand::random::<u64>() % masters.len().max(1) as u64).unwrap_or(0);
        Task {
            turn,
            held: None,
            holder,
            jumps: minter.time().jumps(),
            tell_at: tokio::time::Instant::now(),
            warned: None,
            used: Used::default(),
            started: minter.time().clock().link_now().boot,
            minter,
            report: Arc::clone(&masters.report),
            masters,
            said: BTreeMap::new(),
            logged: BTreeSet::new(),
        }
    }
}

/// Notices jumps of the clock.
async fn watch(minter: Arc<Minter>, jumped: Arc<Notify>) {
    let mut ticks = tokio::time::interval(WATCH_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(step) = minter.time().watch() else { continue };
        tracing::warn!(step_ms = step.0, "the clock was stepped; minting stops until the leases are renewed");
        // If it cannot be done in time, the next renewal does it: the jump is counted.
        if let Err(refusal) = minter.in_turn(Minter::suspend).await.and_then(|done| done) {
            tracing::error!(%refusal, "the leases could not be suspended");
        }
        jumped.notify_one();
    }
}

impl Task {
    async fn run(&mut self, jumped: &Notify) {
        loop {
            self.hear_of_jumps().await;
            if self.minter.grants().wrong_cluster().is_some() {
                self.stand_still().await;
                continue;
            }
            for token_type in self.minter.grants().demand().types() {
                self.holder.want(token_type, self.minter.time().now());
            }
            match self.holder.next(self.minter.time().now(), rand::random()) {
                Next::Wait(due) => {
                    let wait = self.minter.time().clock().real((due - self.minter.time().now().boot).to_std());
                    tokio::select! {
                        () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
                        () = jumped.notified() => {}
                        () = self.minter.masters().stranger_heard() => {}
                        () = self.minter.grants().demand().heard() => {}
                        () = tokio::time::sleep_until(self.tell_at) => {
                            self.warn_of_ends();
                            self.tell().await;
                        }
                    }
                    // A lease may have ended meanwhile.
                    self.publish().await;
                }
                Next::Do(command) => {
                    if !self.carry_out(command).await {
                        tokio::time::sleep(PAUSE_MIN).await;
                    }
                }
            }
        }
    }

    async fn hear_of_jumps(&mut self) {
        if self.minter.time().jumps() != self.jumps {
            self.jumps = self.minter.time().jumps();
            self.holder.handle(self.minter.time().now(), rand::random(), &Event::ClockJumped);
            self.publish().await;
        }
    }

    /// Does one thing, at the next master if this one fails. `false` if all did.
    async fn carry_out(&mut self, command: Command) -> bool {
        let mut last = None;
        for at in self.masters.order(&First::Master(self.turn)) {
            let done = match &command {
                Command::Heartbeat => self.heartbeat(at).await.map(|()| None),
                Command::Request(token_type) => self.request(at, *token_type).await.map(Some),
                Command::Renew { key, g, renewal, .. } => self.renew(at, (*key, *g), *renewal).await.map(Some),
            };
            match done {
                Ok(event) => {
                    if event.is_some() {
                        // A heartbeat alone does not answer why there is no lease.
                        self.said.clear();
                        self.minter.grants().explain(None);
                    }
                    self.logged.clear();
                    return match event {
                        Some(event) => self.take_in(event).await,
                        None => true,
                    };
                }
                Err(error) => {
                    let go_on = error.other_may_help();
                    self.note(&error);
                    last = Some(error);
                    if !go_on {
                        break;
                    }
                    self.move_on(at);
                }
            }
        }
        let patient = last.as_ref().is_some_and(CallError::is_patient);
        let event = match command {
            Command::Heartbeat => Event::HeartbeatFailed,
            Command::Request(token_type) => Event::NotGranted { token_type, patient },
            Command::Renew { key, g, .. } => Event::NotRenewed { key, g },
        };
        self.holder.handle(self.minter.time().now(), rand::random(), &event);
        false
    }

    /// Leaves that master and turns to the next one.
    fn move_on(&mut self, at: usize) {
        self.held = None;
        self.turn = (at + 1) % self.masters.len().max(1);
    }

    fn note(&mut self, error: &CallError) {
        let address = error.address();
        let text = format!("master {address}: {error}");
        if error.ends_connection() {
            self.held = None;
            self.report.set_master(None);
        }
        self.report.set_refusal(self.minter.time().wall(), text.clone());
        self.said.insert(address.to_owned(), text.clone());
        let all: Vec<&str> = self.said.values().map(String::as_str).collect();
        self.minter.grants().explain(Some(all.join("; ")));
        if self.is_news(text) {
            tracing::warn!(%address, %error, "a master did not do as asked");
        }
    }

    fn is_news(&mut self, text: String) -> bool {
        if self.logged.len() >= LOGGED_MAX {
            self.logged.clear();
        }
        self.logged.insert(text)
    }

    /// A line to that master, or to another one whose calendar fits; `true`: by another connection than the one that was used last, which
    /// is told of then. Its introduction is a heartbeat.
    async fn line(&mut self, at: usize) -> Result<(Line, bool), CallError> {
        let mut line = self.masters.reach(at, Lane::Calls, OPEN_LIMIT, CALL_LIMIT).await?;
        if self.held.as_ref().is_some_and(|held| held.is_same(&line)) {
            return Ok((line, false));
        }
        let greeting = line.introduction().await?;
        let (line, greeting) = self.with_a_fitting_clock(line, greeting).await;
        let (address, master, mode) = (line.address(), greeting.reply.master, greeting.reply.mode);
        self.report.set_names(greeting.reply.names);
        if self.is_news(format!("connected to {address}, {mode}")) {
            tracing::info!(%address, %master, %mode, "connected");
        }
        self.greeted(&line, greeting).await;
        // These masters may have been put back to before they promised what is held here: show it soon.
        self.holder.handle(self.minter.time().now(), rand::random(), &Event::Connected);
        self.report.has_connected();
        Ok((line, true))
    }

    async fn heartbeat(&mut self, at: usize) -> Result<(), CallError> {
        let (line, introduced) = self.line(at).await?;
        if !introduced {
            let greeting = line.heartbeat().await?;
            let (line, greeting) = self.with_a_fitting_clock(line, greeting).await;
            self.greeted(&line, greeting).await;
        }
        Ok(())
    }

    /// Takes in what the master at the end of that line says, which is the one that is gone by from now on.
    async fn greeted(&mut self, line: &Line, greeting: Greeting) {
        let Greeting { reply, answer } = greeting;
        let (heard, regate) = self.minter.time().hear(&answer);
        if let Heard::Moved(by) = heard
            && by.0 != 0
        {
            tracing::debug!(by_ms = by.0, "time corrected by a master's");
        }
        if regate && let Err(refusal) = self.minter.in_turn(Minter::regate).await.and_then(|done| done) {
            tracing::error!(%refusal, "the windows could not be closed after a change of the time");
        }
        let (address, id, mode, heard) =
            (line.address().to_owned(), reply.master, reply.mode, self.minter.time().wall());
        self.report.set_master(Some(MasterInUse { address, id, mode, heard }));
        (self.held, self.turn) = (Some(line.clone()), line.at);
        self.holder.handle(self.minter.time().now(), rand::random(), &Event::HeartbeatAnswered);
        if self.minter.time().skew().is_some() {
            self.holder.handle(self.minter.time().now(), rand::random(), &Event::ClockSkewed);
        }
        self.denied(&reply.denied).await;
    }

    /// Stops using what a master says is denied, without waiting for the next renewal.
    async fn denied(&mut self, denied: &[(common::token::TokenKey, common::lease::Generation)]) {
        for (key, g) in denied.iter().copied().take(DENIED_MAX) {
            let has = self.holder.leases().values().any(|view| match view {
                LeaseView::Held(grant) | LeaseView::Resumed(grant) | LeaseView::Suspended(grant) => {
                    (grant.key, grant.g) == (key, g)
                }
                LeaseView::Missing | LeaseView::Expired(_) => false,
            });
            if has {
                tracing::warn!(token = %key, %g, "the masters denied a lease; asking for another token");
                self.take_in(Event::Ended { key, g }).await;
            }
        }
    }

    async fn request(&mut self, at: usize, token_type: common::token::TokenType) -> Result<Event, CallError> {
        let (line, _) = self.line(at).await?;
        self.greet_others(line.at).await;
        if let Some(wrong) = self.minter.grants().wrong_cluster() {
            return Err(CallError::Failed { address: String::new(), why: wrong.to_string() });
        }
        // Without them the masters grant as well, as long as there is room.
        let former = self.minter.in_turn(|minter| minter.driver().former()).await.unwrap_or_default();
        let grant = line.request_token(token_type, former).await?;
        check_grant(&grant, token_type, line.parameters())
            .map_err(|why| line.failed(format!("it granted what cannot be used: {why}")))?;
        Ok(Event::Granted(grant))
    }

    async fn renew(
        &mut self,
        at: usize,
        (key, g): (common::token::TokenKey, common::lease::Generation),
        renewal: crate::holder::Renewal,
    ) -> Result<Event, CallError> {
        let (line, _) = self.line(at).await?;
        let promised = self.minter.in_turn(move |minter| minter.promise_rseq(renewal.rseq)).await;
        if let Err(refusal) = promised.and_then(|done| done) {
            return Err(line.failed(format!("not asked to renew: {refusal}")));
        }
        Ok(match line.renew((key, g), renewal, self.holder.receipt(key, g)).await? {
            Rent::Success { until, receipt } => Event::Renewed { key, g, until, receipt },
            Rent::Rented | Rent::Unrented => {
                tracing::warn!(token = %key, %g, "the masters ended a lease; asking for another token");
                Event::Ended { key, g }
            }
        })
    }

    /// Tells the holder and makes what it gained durable; if that fails, the holder has not heard of it.
    async fn take_in(&mut self, event: Event) -> bool {
        let mut holder = self.holder.clone();
        holder.handle(self.minter.time().now(), rand::random(), &event);
        let (leases, jumps) = (holder.leases(), self.jumps);
        let set = self.minter.in_turn(move |minter| minter.set_leases(leases, jumps)).await.and_then(|done| done);
        let lost = matches!(event, Event::Ended { .. });
        match set {
            Ok(()) => {
                if let Event::Granted(grant) = &event {
                    let (token_type, token, g, until) = (grant.token_type, grant.key, grant.g, grant.until);
                    tracing::info!(%token_type, %token, %g, %until, "lease granted");
                }
            }
            Err(refusal) => {
                self.not_durable(&refusal);
                if !lost {
                    let failed = match event {
                        Event::Granted(grant) => Event::NotGranted { token_type: grant.token_type, patient: false },
                        Event::Renewed { key, g, .. } => Event::NotRenewed { key, g },
                        other => other,
                    };
                    self.holder.handle(self.minter.time().now(), rand::random(), &failed);
                    return false;
                }
            }
        }
        self.holder = holder;
        true
    }

    /// Shows minting what the holder has.
    async fn publish(&mut self) {
        let (leases, jumps) = (self.holder.leases(), self.jumps);
        if leases == self.minter.grants().leases() {
            return;
        }
        let set = self.minter.in_turn(move |minter| minter.set_leases(leases, jumps)).await;
        if let Err(refusal) = set.and_then(|done| done) {
            self.not_durable(&refusal);
        }
    }

    fn not_durable(&self, refusal: &Refusal) {
        tracing::error!(%refusal, "a change of the leases did not become durable");
    }
}

#[cfg(test)]
pub(crate) mod tests;
