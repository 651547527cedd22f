//! Connections to the peer port: held by the other master, and for a moment whoever still has to show that it is.
//!
//! A connection that has said nothing provable within [`PROVE_WITHIN`] is closed, and when all places for such ones are
//! taken, the oldest of them makes room. Addresses that `--peer` resolves to have places of their own, so that no other
//! address can keep the other master out. Others may prove themselves too: a replacement that joins, and a master that was
//! replaced or copied and has to be told.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time that a new connection has to prove whose it is.
pub const PROVE_WITHIN: Duration = Duration::from_secs(5);
/// Connections at once that have proved nothing yet, from the other master's addresses and as many from all others.
pub const UNPROVED_MAX: usize = 16;
/// Connections at once that were proved: the other master's, and few of former lives of it. The newest takes the place of
/// the oldest.
pub const PROVED_MAX: usize = 4;

/// The connections to the peer port. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct PeerPlaces(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Addresses that `--peer` last resolved to.
    peers: BTreeSet<IpAddr>,
    /// Connections in the order in which they came, or were proved.
    taken: Vec<Connection>,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    class: Class,
    end: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Proved,
    FromPeer,
    FromElsewhere,
}

impl Class {
    fn max(self) -> usize {
        match self {
            Self::Proved => PROVED_MAX,
            Self::FromPeer | Self::FromElsewhere => UNPROVED_MAX,
        }
    }
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub struct PeerPlace {
    places: PeerPlaces,
    number: u64,
    end: CancellationToken,
}

impl PeerPlaces {
    /// Sets the other master's addresses.
    pub fn set_peers(&self, peers: impl IntoIterator<Item = IpAddr>) {
        self.inner().peers = peers.into_iter().map(|peer| peer.to_canonical()).collect();
    }

    /// A place for a new connection from this address.
    pub fn take(&self, from: IpAddr) -> PeerPlace {
        let mut inner = self.inner();
        let class = if inner.peers.contains(&from.to_canonical()) { Class::FromPeer } else { Class::FromElsewhere };
        inner.next += 1;
        let (number, end) = (inner.next, CancellationToken::new());
        inner.put(Connection { number, class, end: end.clone() });
        PeerPlace { places: self.clone(), number, end }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing in it can be half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// One more of a class; the oldest of it makes room.
    fn put(&mut self, taken: Connection) {
        let class = taken.class;
        while self.taken.iter().filter(|other| other.class == class).count() >= class.max() {
            let Some(oldest) = self.taken.iter().position(|other| other.class == class) else { break };
            self.taken.remove(oldest).end.cancel();
        }
        self.taken.push(taken);
    }
}

impl PeerPlace {
    /// Whoever is at the other end is the other master, or was: it keeps its place.
    pub fn prove(&self) {
        let mut inner = self.places.inner();
        let Some(at) = inner.taken.iter().position(|taken| taken.number == self.number) else { return };
        if inner.taken.get(at).is_some_and(|taken| taken.class != Class::Proved) {
            let taken = inner.taken.remove(at);
            inner.put(Connection { class: Class::Proved, ..taken });
        }
    }

    /// Ends when the connection has to: others took its place, or it proved nothing in time.
    pub async fn over(&self) {
        tokio::select! {
            () = self.end.cancelled() => return,
            () = tokio::time::sleep(PROVE_WITHIN) => {}
        }
        let proved = self.places.inner().taken.iter().any(|t| t.number == self.number && t.class == Class::Proved);
        if proved {
            self.end.cancelled().await;
        }
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        self.places.inner().taken.retain(|taken| taken.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn over(place: &PeerPlace) -> bool {
        place.over().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_cannot_keep_the_other_master_out() {
        let places = PeerPlaces::default();
        places.set_peers([PEER]);
        let peer = places.take(PEER);
        peer.prove();
        let later = places.take(PEER);
        let strangers: Vec<PeerPlace> = (0..1_000).map(|_| places.take(OTHER)).collect();
        assert!(!over(&peer) && !over(&later), "other addresses have places of their own");
        assert_eq!(strangers.iter().filter(|place| !over(place)).count(), UNPROVED_MAX);
        assert!(over(&strangers[0]) && !over(&strangers[999]), "the oldest makes room");
        // From its own address, or one that it shares with them, it needs but a moment.
        let silent: Vec<PeerPlace> = (0..1_000).map(|_| places.take(PEER)).collect();
        let new = places.take(PEER);
        new.prove();
        drop(silent);
        assert!(!over(&new) && !over(&peer));
        let newer: Vec<PeerPlace> = (0..PROVED_MAX).map(|_| places.take(PEER)).inspect(PeerPlace::prove).collect();
        assert!(over(&peer) && over(&new) && newer.iter().all(|place| !over(place)), "the newest wins");
    }

    #[tokio::test(start_paused = true)]
    async fn what_proves_nothing_in_time_is_closed() {
        let places = PeerPlaces::default();
        let (silent, proved) = (places.take(OTHER), places.take(OTHER));
        proved.prove();
        silent.over().await;
        tokio::time::sleep(PROVE_WITHIN * 10).await;
        assert!(!over(&proved));
    }
}
