//! The parts that all listeners share: the loop that accepts, places for connections, the memory that these may take, and
//! connections that do not wait for the other end for ever.

pub mod budget;
#[cfg(feature = "http")]
pub mod http;
pub mod io;
pub mod listener;
pub mod places;
pub mod tls;
