//! The other master: what this one thinks of it ([`pair`], pure) and the connection that carries the mail ([`link`]).

pub mod link;
pub mod pair;
