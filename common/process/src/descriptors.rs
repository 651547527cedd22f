//! Descriptors: as many as this process may have, and what they are for.
//!
//! A process that writes a file needs one, and who has none left mints nothing: a serial file that cannot be written stops
//! minting as a full disk does. So connections never get the last ones. What the ports may have is split from what there is,
//! less a reserve for files, and a caller beyond that is told so, makes room or waits, as beyond any other bound.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;

/// A port, and how many connections it is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The most that the port can use.
    pub most: usize,
    /// Without which the program is not to start.
    pub least: usize,
}

/// There are too few for a program to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    limit: usize,
    needed: usize,
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, needed } = self;
        write!(
            f,
            "this process may have {limit} file descriptors and needs {needed} at least: raise the hard limit (`ulimit -Hn`, \
             LimitNOFILE= of a service)"
        )
    }
}

impl std::error::Error for TooFew {}

/// Raises the soft limit to the hard one. Says how many descriptors this process may have.
pub fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Without a limit, or where it may not be raised, the kernel has one of its own or the old one holds.
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "the limit on file descriptors cannot be raised");
    }
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// The descriptors that each port may have of `limit` descriptors, less `reserve` of them for all else: each its least,
/// and of the rest in proportion to what it lacks.
///
/// # Errors
/// If that is not even the least.
pub fn split<const N: usize>(limit: usize, reserve: usize, ports: [Port; N]) -> Result<[usize; N], TooFew> {
    let sum = |of: fn(&Port) -> usize| ports.iter().map(of).fold(0, usize::saturating_add);
    let needed = reserve.saturating_add(sum(|port| port.least));
    let spare = limit.checked_sub(needed).ok_or(TooFew { limit, needed })?;
    let lacking = sum(|port| port.most.saturating_sub(port.least));
    Ok(ports.map(|Port { most, least }| {
        let lacks = most.saturating_sub(least);
        least + if spare >= lacking { lacks } else { spare.saturating_mul(lacks) / lacking }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_get_what_they_want_if_there_is_enough_and_their_part_if_not() {
        let ports = [Port { most: 4_000, least: 64 }, Port { most: 1_000, least: 32 }];
        assert_eq!(split(20_000, 100, ports), Ok([4_000, 1_000]));
        assert_eq!(split(usize::MAX, 100, ports), Ok([4_000, 1_000]));
        let [http, rpc] = split(1_024, 100, ports).unwrap();
        assert!(http + rpc <= 924 && http + rpc > 920, "{http} {rpc}");
        assert!(http > 3 * rpc, "{http} {rpc}");
        assert_eq!(split(196, 100, ports), Ok([64, 32]));
        let too_few = split(195, 100, ports).unwrap_err();
        assert!(too_few.to_string().contains("may have 195") && too_few.to_string().contains("needs 196"), "{too_few}");
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert_eq!(limit, current.map_or(usize::MAX, |limit| limit as usize));
    }
}
