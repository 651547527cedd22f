//! The parts that several models need: a master whose disk can be looked at, what is known by its hash, and outcomes that are kept.

pub(crate) mod memo;
pub(crate) mod node;
pub(crate) mod shared;
