//! What all listeners share: places for connections, and connections that do not wait for the other end for ever.

#[cfg(feature = "http")]
pub mod http;
pub mod io;
pub mod places;
