//! The connection to the other master: carries mail out, promises nothing.
//!
//! What cannot be delivered is dropped: the ledger says everything that matters again until it is answered. A call that
//! fails or takes too long ends the connection, because tarpc never reconnects by itself.

use crate::driver::{Driver, Refused};
use crate::lease::{Event, Reply, TokenHash};
use crate::roll::Roll;
use crate::rpc::Told;
use common::rpc::lease::Refusal;
use common::rpc::peer::{
    AgentNews, BATCH_MAX, JoinReply, JoinRequest, JoinToken, PeerFrame, PeerMessage, PeerService, PeerServiceClient,
    REPORTS_MAX,
};
use common::rpc::transport::{self, Limits, accept, deadline_in};
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use tarpc::client::Config;
use tarpc::context::Context;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a delivery may take.
const DELIVER_TIMEOUT: Duration = Duration::from_secs(3);
/// Between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Between two deliveries of agents' reports.
const REPORTS_INTERVAL: Duration = Duration::from_secs(2);
/// Records in one delivery, so that it stays far below a frame.
const RECORDS_MAX: usize = 2_048;

/// What the peer port takes on: one master, and a few connections of a former life of it.
pub const LIMITS: Limits = Limits { connections_max: 16, requests_per_connection_max: 16 };

/// Connects to the other master at `address` (host:port) again and again, and delivers what comes out of `mail`.
pub async fn run(
    address: String,
    mut mail: mpsc::Receiver<PeerFrame>,
    driver: Driver,
    roll: Roll,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            connection = transport::connect(&address) => match connection {
                Ok(connection) => {
                    tracing::info!(%address, "connected to the other master");
                    let client = PeerServiceClient::new(Config::default(), connection).spawn();
                    if driver.tell(Event::Connected).is_ok() {
                        tokio::select! {
                            () = stop.cancelled() => return,
                            why = deliver_all(&client, &mut mail) => tracing::info!(%address, "lost the other master: {why}"),
                            () = pass_on(&client, &driver, &roll) => {}
                        }
                    }
                }
                Err(e) => tracing::debug!(%address, "the other master cannot be reached: {e}"),
            }
        }
        // Stale mail is worth nothing to a peer that was away; greetings follow the next connection.
        while mail.try_recv().is_ok() {}
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RECONNECT_PAUSE) => {}
        }
    }
}

/// Passes on what agents report here, for as long as the connection holds; first all of it, then what is new. What gets
/// lost is followed by the agents' next reports.
async fn pass_on(client: &PeerServiceClient, driver: &Driver, roll: &Roll) {
    let mut after = 0;
    let mut rounds = tokio::time::interval(REPORTS_INTERVAL);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let (from, cluster, epoch) = driver.standing().who();
        let (reports, last) = roll.news_of(from, after, REPORTS_MAX);
        if reports.is_empty() {
            continue;
        }
        // A connection that is broken is noticed, and ended, where the mail is delivered.
        if client
            .reports(deadline_in(DELIVER_TIMEOUT), AgentNews { from, cluster, epoch, reports })
            .await
            .is_ok_and(|taken| taken)
        {
            after = last;
        }
    }
}

async fn deliver_all(client: &PeerServiceClient, mail: &mut mpsc::Receiver<PeerFrame>) -> String {
    while let Some(first) = mail.recv().await {
        let mut weight = records(&first);
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX && weight < RECORDS_MAX {
            let Ok(frame) = mail.try_recv() else { break };
            weight += records(&frame);
            batch.push(frame);
        }
        match client.deliver(deadline_in(DELIVER_TIMEOUT), batch).await {
            // Not taken in: its box is full. Said again later by the ledger, like anything that gets lost.
            Ok(_) => {}
            Err(e) => return e.to_string(),
        }
    }
    "this master is shutting down".to_owned()
}

fn records(frame: &PeerFrame) -> usize {
    match &frame.message {
        PeerMessage::Page { records, settings, .. } => records.len() + settings.len(),
        PeerMessage::Sync { records, .. } => records.len(),
        _ => 1,
    }
}

/// Takes in the other master's mail on `listener`.
pub async fn serve(listener: TcpListener, driver: Driver, told: Told, stop: CancellationToken) {
    let handle = move |io, _| {
        let server = Letterbox { driver: driver.clone(), told: told.clone() };
        async move { common::serve_connection!(io, LIMITS.requests_per_connection_max, server.serve()) }
    };
    accept(listener, LIMITS.connections_max, stop, |_| true, handle).await;
}

/// The SHA-256 by which a join token is known without being kept.
pub fn hash(token: &JoinToken) -> TokenHash {
    Sha256::digest(token.0).into()
}

#[derive(Clone)]
struct Letterbox {
    driver: Driver,
    told: Told,
}

impl PeerService for Letterbox {
    async fn deliver(self, _: Context, mail: Vec<PeerFrame>) -> bool {
        if mail.len() > BATCH_MAX {
            return false;
        }
        mail.into_iter().all(|frame| self.driver.tell(Event::Mail(Box::new(frame))).is_ok())
    }

    async fn join(self, _: Context, request: JoinRequest) -> Result<JoinReply, Refusal> {
        let JoinRequest { token, master, step } = request;
        let token = hash(&token);
        match self.driver.ask(move |id| Event::Join { id, token, master, step }).await {
            Ok(Reply::Join(reply)) => reply,
            Ok(other) => {
                tracing::error!(?other, "the ledger answered another question");
                Err(Refusal::Retry)
            }
            Err(Refused::Overloaded) => Err(Refusal::Overloaded),
            Err(Refused::Stopping) => Err(Refusal::ShuttingDown),
            Err(Refused::NoRoom) => Err(Refusal::DiskFull),
        }
    }
    async fn reports(self, _: Context, news: AgentNews) -> bool {
        let AgentNews { from, cluster, epoch, reports } = news;
        let (me, our_cluster, our_epoch) = self.driver.standing().who();
        let ours = from == me.other() && cluster.is_some() && (cluster, epoch) == (our_cluster, our_epoch);
        if ours && reports.len() <= REPORTS_MAX {
            let at = self.told.clock.wall();
            for (report, address) in reports {
                self.told.roll.take_in(report, &address, from, at);
            }
        }
        ours
    }
}
