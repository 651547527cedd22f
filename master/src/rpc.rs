//! `LeaseService` for agents: decode, queue, await the answer. Decides only who may connect at all.

use crate::driver::{Driver, Refused};
use crate::lease::{Event, Reply};
use common::lease::Grant;
use common::rpc::lease::{
    HeartbeatReply, HeartbeatRequest, LeaseService, ListRequest, ListedLease, Refusal, Rent, RentRequest,
    TerminateRequest, TokenRequest,
};
use common::rpc::transport::{Limits, accept};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tarpc::context::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What the agents' port takes on.
pub const LIMITS: Limits = Limits { connections_max: 8_192, requests_per_connection_max: 64 };

/// Who may ask for leases: addresses in one of these networks.
#[derive(Clone, Debug)]
pub struct Whitelist(Arc<[IpNet]>);

impl Whitelist {
    /// Exactly these networks.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// Whether this address may ask. An IPv4 address that arrives dressed as IPv6 counts as what it is.
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// Serves agents on `listener` until `stop`.
pub async fn serve(listener: TcpListener, driver: Driver, whitelist: Whitelist, stop: CancellationToken) {
    let admit = move |from: SocketAddr| {
        let fine = whitelist.admits(from.ip());
        if !fine {
            tracing::warn!(%from, "refused: this address is not on the whitelist (--allow)");
        }
        fine
    };
    let handle = move |io, from: SocketAddr| {
        let server = LeaseServer { driver: driver.clone(), from };
        async move { common::serve_connection!(io, LIMITS.requests_per_connection_max, server.serve()) }
    };
    accept(listener, LIMITS.connections_max, stop, admit, handle).await;
}

#[derive(Clone)]
struct LeaseServer {
    driver: Driver,
    from: SocketAddr,
}

fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::Overloaded => Refusal::Overloaded,
        Refused::Stopping => Refusal::ShuttingDown,
    }
}

/// Asks the ledger and unwraps the one kind of answer that this kind of question has.
macro_rules! ask {
    ($driver:expr, $event:expr, $kind:path) => {
        match $driver.ask($event).await {
            Ok($kind(reply)) => reply,
            Ok(other) => {
                tracing::error!(?other, "the ledger answered another question");
                Err(Refusal::Retry)
            }
            Err(refused) => Err(refusal(refused)),
        }
    };
}

impl LeaseService for LeaseServer {
    async fn request_token(self, _: Context, request: TokenRequest) -> Result<Grant, Refusal> {
        let address = self.from.to_string();
        ask!(self.driver, move |id| Event::Token { id, request, address }, Reply::Token)
    }

    async fn rent_token(self, _: Context, request: RentRequest) -> Result<Rent, Refusal> {
        ask!(self.driver, move |id| Event::Rent { id, request }, Reply::Rent)
    }

    async fn list_tokens(self, _: Context, request: ListRequest) -> Result<Vec<ListedLease>, Refusal> {
        ask!(self.driver, move |id| Event::List { id, request }, Reply::List)
    }

    async fn terminate_token(self, _: Context, request: TerminateRequest) -> Result<(), Refusal> {
        ask!(self.driver, move |id| Event::Terminate { id, request }, Reply::Terminate)
    }

    async fn heartbeat(self, _: Context, request: HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        ask!(self.driver, move |id| Event::Heartbeat { id, request }, Reply::Heartbeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whitelist_sees_through_mapped_addresses() {
        let list = Whitelist::new(["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        for (address, fine) in
            [("127.0.0.9", true), ("::ffff:127.0.0.1", true), ("::1", true), ("10.0.0.1", false), ("::2", false)]
        {
            assert_eq!(list.admits(address.parse().unwrap()), fine, "{address}");
        }
    }
}
