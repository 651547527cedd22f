//! The connection to the other master: carries messages out and answers back, promises nothing.
//!
//! A message that cannot be delivered is dropped: the ledger says everything that matters again until it is answered. A
//! call that fails or takes too long ends the connection, because tarpc never reconnects by itself.

use super::places::{PeerPlace, PeerPlaces};
use super::seal::{self, NotBelieved, Opened, Own};
use crate::driver::{Driver, Refused};
use crate::lease::{Event, Reply, TokenHash};
use crate::registry::AgentRegistry;
use crate::rpc::ReportContext;
use net::rpc::lease::Refusal;
use net::rpc::peer::{
    BATCH_MAX, Content, Delivered, JoinReply, JoinRequest, JoinToken, PeerFrame, PeerMessage, PeerService,
    PeerServiceClient, REPORTS_MAX, SealedFrame,
};
use net::rpc::transport::{self, FRAME_LEN_MAX, Limits, accept, deadline_in};
use net::tls::{Admits, Listener, Remote, Tls};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tarpc::client::Config;
use tarpc::context::Context;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The longest time that a delivery may take.
const DELIVER_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Interval between two deliveries of agents' reports.
const REPORTS_INTERVAL: Duration = Duration::from_secs(2);
/// Records in one delivery at most, so that it stays far below a frame.
const RECORDS_MAX: usize = 2_048;
/// The shortest interval between two notes of what is not believed: whoever writes it shall not write the log.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// Limits of the peer port: the other master, a few connections of former lives of it, and those that still have to prove whose they are.
pub const LIMITS: Limits = Limits {
    connections_max: CONNECTIONS_MAX,
    requests_per_connection_max: 16,
    frame_len_max: FRAME_LEN_MAX,
    // A frame for each, so that no stranger's keeps the other master's waiting.
    memory_max: (CONNECTIONS_MAX * (FRAME_LEN_MAX + 4)) as u32,
};
const CONNECTIONS_MAX: usize = 2 * super::places::UNPROVED_MAX + super::places::PROVED_MAX + 1;

/// Takes in what the other master says, on whichever connection.
#[derive(Clone)]
pub struct Inbox {
    driver: Driver,
    reporting: ReportContext,
    noted: Arc<Mutex<Option<Instant>>>,
}

impl Inbox {
    /// An inbox for the ledger behind this driver; agents' reports go where `reporting` says.
    pub fn new(driver: Driver, reporting: ReportContext) -> Self {
        Self { driver, reporting, noted: Arc::default() }
    }

    fn own(&self) -> Own {
        self.driver.snapshot().own()
    }

    fn open(&self, sealed: SealedFrame) -> Result<Opened, NotBelieved> {
        let own = self.own();
        let opened = seal::open(&own, sealed);
        if let Err(why) = &opened
            && self.may_note()
        {
            // The queue may be full; whoever it was will write again.
            let _ = self.driver.tell(Event::Stranger(why.to_string()));
        }
        opened
    }

    fn may_note(&self) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let may = noted.is_none_or(|at| now - at >= NOTE_INTERVAL);
        if may {
            *noted = Some(now);
        }
        may
    }

    /// Answers that came back on our own connection.
    fn take_answer(&self, sealed: SealedFrame) {
        let Ok(Opened::Messages(frames)) = self.open(sealed) else { return };
        for frame in frames {
            if self.driver.tell(Event::Message(Box::new(frame))).is_err() {
                return;
            }
        }
    }

    /// Takes in a delivery; greetings are answered, and so is, once, what another life of the other master says, or says to another life of this one;
    /// everything else is queued. Says also whether the sender proved that it is, or was, the other master.
    async fn take(&self, sealed: SealedFrame) -> (Delivered, bool) {
        let refused = Delivered { taken: false, answer: None };
        let frames = match self.open(sealed) {
            Err(_) => return (refused, false),
            Ok(Opened::Reports(reports)) => {
                let at = self.reporting.clock.wall();
                for passed_on in reports {
                    self.reporting.registry.take_over(passed_on, at);
                }
                return (Delivered { taken: true, answer: None }, true);
            }
            Ok(Opened::Messages(frames)) => frames,
        };
        let own = self.own();
        let (mut taken, mut proved, mut answers) = (true, false, Vec::new());
        let mut asked_to_greet = false;
        for frame in frames {
            let is_proved = frame.epoch.is_some() || !own.paired;
            proved |= is_proved;
            let greeting = matches!(frame.message, PeerMessage::Hello(_));
            if !is_proved {
                // Nothing of it is believed; the ledger says why, now and then.
                if greeting && self.may_note() {
                    taken &= self.driver.tell(Event::Message(Box::new(frame))).is_ok();
                }
            } else if frame.is_between_others(own.life, own.accepted) && std::mem::replace(&mut asked_to_greet, true) {
                // Nothing of it is believed, and whoever it is has been asked who it is.
            } else if frame.is_answered(own.life, own.accepted) {
                match self.driver.ask(move |id| Event::Greeting { id, frame: Box::new(frame) }).await {
                    Ok(Reply::Greeted(messages)) => answers.extend(messages),
                    _ => taken = false,
                }
            } else {
                taken &= self.driver.tell(Event::Message(Box::new(frame))).is_ok();
            }
        }
        answers.truncate(BATCH_MAX);
        // What is said in the name of another pairing comes alone: it is the only answer to whoever belongs to that one.
        (Delivered { taken, answer: seal::seal_messages(&self.own(), answers) }, proved)
    }
}

/// Connects to the other master at `address` (host:port) again and again, and delivers what comes out of `messages`.
pub async fn run(
    address: String,
    mut messages: mpsc::Receiver<PeerFrame>,
    inbox: Inbox,
    places: PeerPlaces,
    registry: AgentRegistry,
    tls: Tls,
    stop: CancellationToken,
) {
    let other = Admits::Master(inbox.own().master.other());
    loop {
        if let Ok(peers) = tokio::net::lookup_host(&address).await {
            places.set_peers(peers.map(|peer| peer.ip()));
        }
        tokio::select! {
            () = stop.cancelled() => return,
            connection = transport::connect_as(&address, &tls, other) => match connection {
                Ok(connection) => {
                    tracing::info!(%address, "connected to the other master");
                    let client = PeerServiceClient::new(Config::default(), connection).spawn();
                    if inbox.driver.tell(Event::Connected).is_ok() {
                        tokio::select! {
                            () = stop.cancelled() => return,
                            why = deliver_all(&client, &mut messages, &inbox) => tracing::info!(%address, "lost the other master: {why}"),
                            () = pass_on(&client, &inbox, &registry) => {}
                        }
                    }
                }
                Err(e) => tracing::debug!(%address, "the other master cannot be reached: {e}"),
            }
        }
        // Stale messages are worth nothing to a peer that was away; greetings follow the next connection.
        while messages.try_recv().is_ok() {}
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RECONNECT_PAUSE) => {}
        }
    }
}

/// Passes on what agents report, for as long as the connection holds; first all that is known, so that a master that began anew knows it
/// again, then what is new here. What gets lost is followed by the agents' next reports.
async fn pass_on(client: &PeerServiceClient, inbox: &Inbox, registry: &AgentRegistry) {
    let (mut after, mut all) = (0, true);
    let mut rounds = tokio::time::interval(REPORTS_INTERVAL);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let own = inbox.own();
        let (reports, last) = registry.news((!all).then_some(own.master), after, REPORTS_MAX);
        let more = reports.len() >= REPORTS_MAX;
        if reports.is_empty() || !own.paired {
            continue;
        }
        let Some(sealed) = seal::seal(&own, own.epoch, &Content::Reports(reports)) else { continue };
        // A connection that is broken is noticed, and ended, where the messages are delivered.
        if client.deliver(deadline_in(DELIVER_TIMEOUT), sealed).await.is_ok_and(|delivered| delivered.taken) {
            after = last;
            all &= more;
        }
    }
}

async fn deliver_all(client: &PeerServiceClient, messages: &mut mpsc::Receiver<PeerFrame>, inbox: &Inbox) -> String {
    while let Some(first) = messages.recv().await {
        let mut weight = records(&first.message);
        let mut batch = vec![first.message];
        while batch.len() < BATCH_MAX && weight < RECORDS_MAX {
            let Ok(frame) = messages.try_recv() else { break };
            weight += records(&frame.message);
            batch.push(frame.message);
        }
        let own = inbox.own();
        let Some(sealed) =
            seal::seal(&own, own.epoch, &Content::Messages { life: own.life, to: own.accepted, messages: batch })
        else {
            continue;
        };
        match client.deliver(deadline_in(DELIVER_TIMEOUT), sealed).await {
            // Not taken in: its box is full. Said again later by the ledger, like anything that gets lost.
            Ok(Delivered { answer: None, .. }) => {}
            Ok(Delivered { answer: Some(answer), .. }) => inbox.take_answer(answer),
            Err(e) => return e.to_string(),
        }
    }
    "this master is shutting down".to_owned()
}

fn records(message: &PeerMessage) -> usize {
    match message {
        PeerMessage::Page { records, proposals, settings, .. } => records.len() + proposals.len() + settings.len(),
        PeerMessage::SettingsPage { settings, .. } => settings.len(),
        PeerMessage::Sync { records, .. } => records.len(),
        PeerMessage::ProposeSections { proposals: records }
        | PeerMessage::ConfirmSections { records }
        | PeerMessage::KnownSections { records } => records.len(),
        PeerMessage::SectionPage { records, proposals, .. } => records.len() + proposals.len(),
        PeerMessage::RaisedSections { bounds } | PeerMessage::HeldBounds { bounds } => bounds.len(),
        PeerMessage::Allocators { seen, drained, .. } => seen.len() + drained.len(),
        PeerMessage::AskSections { sections, .. } => sections.len(),
        _ => 1,
    }
}

/// Takes in what comes to `port`.
pub async fn serve(port: impl Into<Listener>, inbox: Inbox, places: PeerPlaces, stop: CancellationToken) {
    let bounds = LIMITS.bounds();
    let handle = move |io, remote: Remote, seat| {
        let bounds = bounds.clone();
        let place = Arc::new(places.take(remote.from.ip()));
        let server = PeerServer { inbox: inbox.clone(), place: Arc::clone(&place) };
        async move {
            let serving = async { net::serve_connection!(io, &seat, &bounds, server.serve()) };
            tokio::select! {
                () = serving => {}
                () = place.over() => {}
            }
        }
    };
    accept(port, net::places::Places::new(LIMITS.connections_max), stop, handle).await;
}

/// The SHA-256 by which a join token is known without being kept.
pub fn hash(token: &JoinToken) -> TokenHash {
    Sha256::digest(token.0).into()
}

#[derive(Clone)]
struct PeerServer {
    inbox: Inbox,
    place: Arc<PeerPlace>,
}

impl PeerService for PeerServer {
    async fn deliver(self, _: Context, sealed: SealedFrame) -> Delivered {
        let (delivered, proved) = self.inbox.take(sealed).await;
        if proved {
            self.place.prove();
        }
        delivered
    }

    async fn join(self, _: Context, request: JoinRequest) -> Result<JoinReply, Refusal> {
        let JoinRequest { token, master, step } = request;
        let token = hash(&token);
        match self.inbox.driver.ask(move |id| Event::Join { id, token, master, step }).await {
            Ok(Reply::Join(reply)) => {
                if reply.is_ok() {
                    self.place.prove();
                }
                reply
            }
            Ok(other) => {
                tracing::error!(?other, "the ledger answered another question");
                Err(Refusal::Retry)
            }
            Err(Refused::Overloaded) => Err(Refusal::Overloaded),
            Err(Refused::Stopping) => Err(Refusal::ShuttingDown),
            Err(Refused::NoRoom) => Err(Refusal::DiskFull),
        }
    }
}
