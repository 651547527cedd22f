//! The parts of a connection: the loop that accepts, the one that answers out of a connection's buffers, places for connections, turns
//! of callers, the memory that these may take, TLS, the tarpc services, and the way to a certificate.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod budget;
pub mod enroll;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "https")]
pub mod https;
pub mod io;
#[cfg(feature = "jwt")]
pub mod jwt;
pub mod listener;
pub mod pipeline;
pub mod places;
pub mod rpc;
pub mod tls;
pub mod turns;
