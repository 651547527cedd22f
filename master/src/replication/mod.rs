//! The other master: what this one thinks of it ([`pair`], pure) and the connection that carries the messages ([`link`]);
//! [`joining`] fetches the ledger for a replacement.

pub mod joining;
pub mod link;
pub mod lives;
pub mod pair;
pub mod places;
pub mod seal;
