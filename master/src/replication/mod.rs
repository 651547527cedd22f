//! The other master: what this one thinks of it ([`pair`]), by which rules the two agree ([`rules`]) and what becomes of one that is
//! lost ([`join`]), all pure; and the connection that carries the messages ([`link`]). [`joining`] fetches the ledger for a
//! replacement.

pub mod join;
pub mod joining;
pub mod link;
pub mod lives;
pub mod pair;
pub mod places;
pub mod rules;
pub mod seal;
