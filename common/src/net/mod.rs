//! The parts that all listeners share: the loop that accepts, the one that answers out of a connection's buffers, places for
//! connections, turns of callers, the memory that these may take, and connections that do not wait for the other end for ever.

pub mod budget;
#[cfg(feature = "http")]
pub mod http;
pub mod io;
pub mod listener;
pub mod pipeline;
pub mod places;
pub mod tls;
pub mod turns;
