//! The threads that talk to clients: each with a runtime and with listeners of its own, so that no connection ever waits
//! for another thread.
//!
//! All listeners of an address share its port; the kernel spreads the connections over them.

use anyhow::Context as _;
use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use tokio_util::task::TaskTracker;

/// The most threads that may be asked for.
pub const THREADS_MAX: u16 = 256;
/// Connections that the kernel keeps for a listener until they are accepted.
const BACKLOG: i32 = 1_024;
/// Threads of one worker that wait for the disk.
const BLOCKING_MAX: usize = 64;

/// One thread for each core that this process may use.
pub fn threads_default() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// `count` listeners on the same address.
///
/// # Errors
/// If it cannot be had, also if someone else listens there already.
pub fn listeners(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    // Sockets that share a port share it with any process of the same user that does so too. One that does not share
    // finds out whether anybody is there.
    let alone = TcpListener::bind(address)?;
    alone.set_nonblocking(true)?;
    if count <= 1 {
        return Ok(vec![alone]);
    }
    let address = alone.local_addr()?;
    drop(alone);
    (0..count).map(|_| shared(address)).collect()
}

fn shared(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Starts a thread for each of `listeners` that runs `work` on it. The tracker is empty when all have ended.
///
/// # Errors
/// If a runtime or a thread cannot be made.
pub fn start<L: Send + 'static, F: Future<Output = ()>>(
    listeners: Vec<L>,
    work: impl Fn(L) -> F + Clone + Send + 'static,
) -> anyhow::Result<TaskTracker> {
    let tracker = TaskTracker::new();
    for (nth, listener) in listeners.into_iter().enumerate() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(BLOCKING_MAX).build();
        let runtime = runtime.context("cannot start the runtime of a worker")?;
        let (work, running) = (work.clone(), tracker.token());
        let worker = move || {
            runtime.block_on(work(listener));
            // What still waits for the disk must not keep us.
            runtime.shutdown_background();
            drop(running);
        };
        std::thread::Builder::new().name(format!("worker-{nth}")).spawn(worker).context("cannot start a worker")?;
    }
    tracker.close();
    Ok(tracker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpStream;

    #[test]
    fn listeners_share_a_port_among_themselves_and_with_nobody_else() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(ours) = listeners(address.parse().unwrap(), 3) else {
                assert!(address.contains("::1"), "this machine may have no IPv6");
                continue;
            };
            let at: Vec<_> = ours.iter().map(|listener| listener.local_addr().unwrap()).collect();
            assert!(at.len() == 3 && at.iter().all(|address| *address == at[0] && address.port() > 0), "{at:?}");
            for count in [1, 2] {
                assert_eq!(listeners(at[0], count).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            }
        }
    }

    #[test]
    fn every_worker_serves_and_ends() {
        let ours = listeners("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = ours[0].local_addr().unwrap();
        let tracker = start(ours, |listener| async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (io, _) = listener.accept().await.unwrap();
            drop(io);
        })
        .unwrap();
        // The kernel chooses which listener gets a connection, so as many are made as it takes for each to have had one.
        while !tracker.is_empty() {
            if let Ok(mut stream) = TcpStream::connect(address) {
                stream.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
                let _ = stream.read(&mut [0; 1]);
            }
        }
    }
}
