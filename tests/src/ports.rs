//! Ports on loopback that stay ours while processes come and go.
//!
//! A port that the kernel hands out for `:0` comes from the range it also gives to outgoing connections: while a killed
//! process is down, a client's own connection may take its port, or even connect to itself. So ports come from
//! below that range, in blocks, each guarded by a lock file that the next test finds taken.

use anyhow::{Context as _, Result, bail};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Ports in one block.
pub const BLOCK: u16 = 40;
/// The first port of the first block: above what services are known by, below what the kernel gives out itself.
pub const FIRST: u16 = 11_000;
/// The number of blocks, all below port 32768.
pub const BLOCKS: u16 = 540;
const _: () = assert!((FIRST as u32) + (BLOCK as u32) * (BLOCKS as u32) < 32_768);

/// A block of ports; they are ours until it is dropped.
pub struct Ports {
    next: u16,
    end: u16,
    _lock: File,
}

impl Ports {
    /// Takes a block that nobody else has.
    ///
    /// # Errors
    /// If every block is taken, or the lock files cannot be made.
    pub fn take() -> Result<Self> {
        let dir = std::env::temp_dir().join("uniq-test-ports");
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let start = u16::try_from(std::process::id() % u32::from(BLOCKS)).unwrap_or(0);
        for nth in (start..BLOCKS).chain(0..start) {
            let path = dir.join(nth.to_string());
            let lock = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
            if lock.try_lock().is_ok() {
                let next = FIRST + nth * BLOCK;
                return Ok(Self { next, end: next + BLOCK, _lock: lock });
            }
        }
        bail!("every block of ports is taken: {} has a lock file for each", dir.display())
    }

    /// One more port, free at this moment.
    ///
    /// # Errors
    /// If the block is used up.
    pub fn port(&mut self) -> Result<SocketAddr> {
        while self.next < self.end {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.next));
            self.next += 1;
            if TcpListener::bind(address).is_ok() {
                return Ok(address);
            }
        }
        bail!("the block of {BLOCK} ports is used up")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_share_no_port_and_taken_ports_are_passed_over() {
        let (mut a, mut b) = (Ports::take().unwrap(), Ports::take().unwrap());
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, a.next));
        let first = a.port().unwrap();
        assert!(taken.is_err() || first != taken.unwrap().local_addr().unwrap());
        let mut seen = std::collections::BTreeSet::from([first]);
        while let Ok(port) = a.port() {
            assert!(seen.insert(port));
        }
        while let Ok(port) = b.port() {
            assert!(seen.insert(port));
        }
    }
}
