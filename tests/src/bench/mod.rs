//! The load generator behind `uniq_bench`, and the comparison with peers that `scripts/bench.sh` runs.
//!
//! One program loads everything that is compared: HTTP and RESP through [`load`], tarpc through [`rpc`]. It is one thread
//! over epoll without an HTTP library, because a generator that is slower than the server measures itself. Every ID that
//! an answer brings can be noted and must not come twice ([`check`]).

pub mod check;
pub mod client;
pub mod compare;
pub mod contenders;
pub mod embedded;
pub mod figures;
pub mod first;
pub mod load;
pub mod peers;
pub mod plot;
pub mod ranges;
pub mod report;
pub mod rpc;
pub mod speak;
pub mod steady;
pub mod versus;
