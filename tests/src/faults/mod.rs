//! Faults of the disk below a real serial file, and kills at each of its system calls, in one process.
//!
//! [`FaultyDisk`] passes every call on to the product's own disk, in a real folder, and strikes at the chosen one: the
//! process dies before, in the midst of or after it, or the call fails. [`Agent`] is what a started agent is, without
//! its network: the product's own start, minter and writes, life after life on one folder, with leases as masters would
//! have granted them. After each call that gave IDs it looks whether the file that was flushed to the disk allows them,
//! and hands them to the [`Ledger`], in which none may come twice.
//!
//! How a kill within one process is faithful: from the deadly call on every call fails, so nothing reaches the folder
//! any more, and the process's objects are dropped without a clean stop; dropping them closes the files, which is how a
//! kernel lets go of the locks of the dead. What differs from `kill -9` is only that the process can see that it is dead,
//! and nobody asks it.

mod agent;
mod coverage;
mod disk;
mod ledger;
mod lives;
mod op;

pub use agent::Agent;
pub use coverage::Coverage;
pub use disk::{Call, Fault, FaultyDisk, Lie, Struck};
pub use ledger::Ledger;
pub use op::{Ended, Op};
