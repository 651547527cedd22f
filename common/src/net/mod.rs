//! What all listeners share: the loop that accepts, places for connections, and connections that do not wait for the other end
//! for ever.

#[cfg(feature = "http")]
pub mod http;
pub mod io;
pub mod listener;
pub mod places;
