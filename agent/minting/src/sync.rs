//! The atomics of the lock-free rooms, in one place so that a test can put loom's there.

pub use std::sync::atomic::{AtomicU64, Ordering};
