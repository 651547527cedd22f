//! Strangers at every port at once: garbage, floods, silent and slow callers, callers that read nothing, and refused ones.
//!
//! They come until they are dropped. What each port has to bear is bounded by [`Target::held`], so that others find a place.

use crate::wire::{call, uniq96};
use common::parameters::MasterId;
use net::rpc::PROTOCOL;
use net::rpc::lease::{LeaseServiceRequest, NamespacesRequest};
use net::rpc::peer::{PeerServiceRequest, Seal, SealedFrame};
use net::tls::{Admits, ClientStream, Tls};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// The longest time that a caller tries to connect, and to be rid of its bytes.
const TRY: Duration = Duration::from_secs(1);
/// The time that one waits for an answer that need not come.
const LISTEN: Duration = Duration::from_millis(20);
/// Between two callers of one kind.
const REST: Duration = Duration::from_millis(25);
/// Callers in a wave of a flood.
const WAVE: usize = 20;
/// The time that callers that read nothing stay.
const UNREAD: Duration = Duration::from_secs(12);
/// The deadline of their calls, in seconds and nanoseconds.
const UNREAD_DEADLINE: (u64, u32) = (60, 0);
/// Answers that such a caller asks for.
const UNREAD_CALLS: u64 = 50;
/// Between two bytes of a slow caller.
const SLOW: Duration = Duration::from_millis(400);
/// Garbage in one piece, in bytes.
const GARBAGE_MAX: usize = 4_096;
/// The address of callers that a whitelist of 127.0.0.1 alone refuses.
pub const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// An agent's HTTP.
    Mint,
    /// A master's HTTP.
    Console,
    /// An agent's RPC.
    MintRpc,
    /// A master's port for agents.
    LeaseRpc,
    /// A master's port for the other one.
    PeerRpc,
}

/// A port.
#[derive(Clone)]
pub struct Target {
    /// The address.
    pub at: SocketAddr,
    /// The protocol that it speaks.
    pub speaks: Speaks,
    /// Silent connections that are held.
    pub held: usize,
    /// The certificate of those that say something, but for half of the garbage, which comes as plain TCP also where that is not spoken.
    pub tls: Tls,
}

/// Strangers at work; dropped, they go.
pub struct Strangers {
    came: Arc<AtomicU64>,
    /// Of each port, those that could say something.
    greeted: Vec<Arc<AtomicU64>>,
    _tasks: JoinSet<()>,
}

impl Strangers {
    /// Every kind at every port, as `seed` decides.
    pub fn start(targets: &[Target], seed: u64) -> Self {
        let came = Arc::new(AtomicU64::new(0));
        let (mut tasks, mut greeted) = (JoinSet::new(), Vec::new());
        for (nth, target) in targets.iter().enumerate() {
            let caller = Caller { target: target.clone(), came: Arc::clone(&came), greeted: Arc::default() };
            greeted.push(Arc::clone(&caller.greeted));
            let random = SmallRng::seed_from_u64(seed.wrapping_add(nth as u64));
            tasks.spawn(caller.clone().garbage(random));
            tasks.spawn(caller.clone().floods());
            tasks.spawn(caller.clone().silent());
            tasks.spawn(caller.clone().slow());
            tasks.spawn(caller.clone().reads_nothing());
            if target.speaks == Speaks::LeaseRpc {
                tasks.spawn(caller.refused());
            }
        }
        Self { came, greeted, _tasks: tasks }
    }

    /// Of each port the connections by the certificates that belong there, if it speaks TLS, whose handshakes succeeded.
    pub fn greeted(&self) -> Vec<u64> {
        self.greeted.iter().map(|count| count.load(Relaxed)).collect()
    }

    /// Connections that they made so far.
    pub fn came(&self) -> u64 {
        self.came.load(Relaxed)
    }
}

#[derive(Clone)]
struct Caller {
    target: Target,
    came: Arc<AtomicU64>,
    greeted: Arc<AtomicU64>,
}

impl Caller {
    async fn connect(&self, from: Ipv4Addr) -> Option<TcpStream> {
        let socket = TcpSocket::new_v4().ok()?;
        socket.bind((from, 0).into()).ok()?;
        let stream = tokio::time::timeout(TRY, socket.connect(self.target.at)).await.ok()?.ok()?;
        // Ports of ours that wait for the end of their connections would soon be none.
        let _ = stream.set_zero_linger();
        self.came.fetch_add(1, Relaxed);
        Some(stream)
    }

    /// A connection on which somebody says something.
    async fn greeted(&self, tls: &Tls, from: Ipv4Addr) -> Option<ClientStream> {
        let stream = self.connect(from).await?;
        let expected = match self.target.speaks {
            Speaks::Mint | Speaks::MintRpc => Admits::Agents,
            Speaks::Console | Speaks::LeaseRpc | Speaks::PeerRpc => Admits::Masters,
        };
        let io = tokio::time::timeout(TRY, tls.connect(stream, expected)).await.ok()?.ok()?;
        if tls.is_plain() == self.target.tls.is_plain() {
            self.greeted.fetch_add(1, Relaxed);
        }
        Some(io)
    }

    async fn send(&self, tls: &Tls, bytes: &[u8]) -> Option<ClientStream> {
        let mut stream = self.greeted(tls, Ipv4Addr::LOCALHOST).await?;
        let _ = tokio::time::timeout(TRY, stream.write_all(bytes)).await;
        let _ = tokio::time::timeout(TRY, stream.flush()).await;
        Some(stream)
    }

    async fn garbage(self, mut random: SmallRng) {
        loop {
            let len = random.random_range(1..GARBAGE_MAX);
            let mut bytes: Vec<u8> = (0..len).map(|_| random.random()).collect();
            // Some begin like a frame that a port takes, some like a greeting of TLS.
            match random.random_range(0..4) {
                0 | 1 => drop(bytes.splice(0..0, u32::try_from(len).unwrap_or_default().to_be_bytes())),
                2 => {
                    let [high, low] = u16::try_from(len).unwrap_or_default().to_be_bytes();
                    bytes.splice(0..0, [22, 3, 1, high, low, 1]);
                }
                _ => {}
            }
            let tls = if random.random() { &self.target.tls } else { &Tls::PLAIN };
            if let Some(mut stream) = self.send(tls, &bytes).await {
                let _ = tokio::time::timeout(LISTEN, stream.read(&mut [0; 1_024])).await;
            }
            tokio::time::sleep(REST).await;
        }
    }

    async fn floods(self) {
        loop {
            let mut wave = Vec::new();
            for _ in 0..WAVE {
                wave.extend(self.connect(Ipv4Addr::LOCALHOST).await);
            }
            drop(wave);
            tokio::time::sleep(REST * 4).await;
        }
    }

    async fn silent(self) {
        let mut held: Vec<TcpStream> = Vec::new();
        loop {
            // Those that were ended are followed by others.
            held.retain(
                |stream| matches!(stream.try_read(&mut [0; 1]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock),
            );
            while held.len() < self.target.held {
                match self.connect(Ipv4Addr::LOCALHOST).await {
                    Some(stream) => held.push(stream),
                    None => break,
                }
            }
            tokio::time::sleep(REST * 20).await;
        }
    }

    async fn slow(self) {
        loop {
            let Some(mut stream) = self.greeted(&self.target.tls, Ipv4Addr::LOCALHOST).await else {
                tokio::time::sleep(REST).await;
                continue;
            };
            for byte in self.request(1) {
                if stream.write_u8(byte).await.is_err() {
                    break;
                }
                tokio::time::sleep(SLOW).await;
            }
        }
    }

    async fn reads_nothing(self) {
        let requests: Vec<u8> = (0..UNREAD_CALLS).flat_map(|id| self.request(id)).collect();
        loop {
            let stream = self.send(&self.target.tls, &requests).await;
            tokio::time::sleep(UNREAD).await;
            drop(stream);
        }
    }

    async fn refused(self) {
        loop {
            drop(self.greeted(&self.target.tls, ELSEWHERE).await);
            tokio::time::sleep(REST / 5).await;
        }
    }

    /// A request for as much as one may ask for there.
    fn request(&self, id: u64) -> Vec<u8> {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
        match self.target.speaks {
            Speaks::Mint => get("/uniq64?n=100000"),
            Speaks::Console => get("/login"),
            Speaks::MintRpc => call(UNREAD_DEADLINE, id, &uniq96(100_000)),
            Speaks::LeaseRpc => {
                let request = NamespacesRequest { cluster: None, after: None };
                call(UNREAD_DEADLINE, id, &LeaseServiceRequest::ListNamespaces { request })
            }
            Speaks::PeerRpc => {
                let seal = Seal::Unmet { cluster: None, epoch: None };
                let sealed = SealedFrame { protocol: PROTOCOL, from: MasterId::Two, seal, body: vec![0; 1_024] };
                call(UNREAD_DEADLINE, id, &PeerServiceRequest::Deliver { sealed })
            }
        }
    }
}
