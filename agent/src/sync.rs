//! The atomics of the lock-free rooms, in one place so that a test can put loom's there.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
