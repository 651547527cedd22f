//! Minting in the application's own process: no request, no copy, a few nanoseconds an ID.
//!
//! [`Embedded::start`] does what the program `uniq_generator` does, without its listeners: it locks a serial file of its own,
//! leases tokens from the masters and keeps them. [`Shared`] may be used from any number of threads at once; [`PerThread`], made by
//! [`Shared::per_thread`], by one.
//!
//! Both take numbers from the open window in blocks, so that a thread touches nothing that another one writes often. A block was taken by one
//! atomic step, so its numbers are nobody else's, whatever ends meanwhile. The right to give them out is looked up for each: that this
//! is not a fork, that the block's time is not over, and that no window has ended since it was cut, as one does when the lease or the
//! clock is in doubt, when a master of another cluster is heard, and when a name ends. A thread that slept past any of that cannot use
//! the rest of its block.
//!
//! * The time of a block ends with its tick; of kinds that have none, with the hour or the lease. Plain numbers need neither lease nor
//!   clock. On [`Shared`] what has no ticks ends with the reading of the clock, which is new every few milliseconds.
//! * A block has one number, and each further one that is used up in that time twice as many, up to 2,048, a quarter of a tick, and a
//!   sixteenth of what the window has left. So the numbers that a thread gets one by one of one generator grow, and so do those of all threads that
//!   are more than a tick or a few milliseconds apart; threads that mint much at once get theirs beside each other. What is left of a
//!   block is a gap: no more than was given out in that time, and less than 2,048 a thread.
//! * [`PerThread`] cuts as many serials and plain numbers as it may, and keeps them for as long as it lives.
//!
//! The time is the one that a thread of ours writes down every few milliseconds, so it may be that late, or later where
//! the machine lets that thread wait. No ID's uniqueness rests on it: an ID carries the hour of its window and a serial
//! that is durably ours in that hour, whenever it is given out.
//!
//! Numbers that leave are counted for the masters' console, by the block: it counts as a whole when it is cut, and what is left of it is taken off
//! when the thread cuts the next one or ends.
//!
//! A process that forks does not take the right to mint into the child: every call there says [`MintError::Forked`]. (Only
//! the C library's `fork` is noticed, not a bare system call.)
//!
//! ```no_run
//! use agent::embed::{Definition, Embedded, Namespace, Settings, UniqGenerator};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::new("orders.serial", ["10.0.0.1:7101", "10.0.0.2:7101"], "orders-1".parse()?);
//! let embedded = Embedded::start(settings)?;
//! embedded.wait_ready(std::time::Duration::from_secs(10))?;
//! let generator = embedded.get_uniq_generator("default")?;
//! let order = generator.get_uniq64()?;
//! let text = generator.get_uniq_string("SHOP", "01")?;
//!
//! let invoices = Definition::string("INV{date:%Y%m%d}{token}{serial:6}");
//! let invoices = embedded.create_uniq_generator(Namespace::define("invoices".parse()?, &invoices)?)?;
//! let mut texts = Vec::new();
//! invoices.get_batch_string(100, "", "", &mut texts)?;
//!
//! // One counter for each key. Agents serve them; this asks the one that serves the key.
//! let inbox = embedded.get_sequence("inbox")?;
//! let version = inbox.get_next("user-7")?;
//! assert!(inbox.get_current("user-7")? >= version);
//! # Ok(())
//! # }
//! ```

mod block;
mod keys;
mod per_thread;
#[cfg(test)]
mod plain_tests;
mod setup;
mod shared;
mod start;
#[cfg(test)]
mod tests;

pub use keys::Sequence;
pub use per_thread::PerThread;
pub use setup::{format, redeem};
pub use shared::Shared;
pub use start::{Embedded, Settings, StartError};

// What the calls take and answer: an application needs no other crate of ours for them.
pub use crate::extensions::Extensions;
pub use crate::plugin;
pub use crate::refusal::Refusal;
pub use common::encoding::EncodingSource;
pub use common::kind::Kind as GeneratorKind;
pub use common::namespace::{
    Definition, GeneratorName, LayoutSpec, Namespace, NamespaceError, Preview, Scope, SegmentSpec, SequenceSpec,
    StringSpec, Uniq64Spec,
};
pub use common::parameters::AgentId;
pub use common::strategy;
pub use common::token::TokenType;
pub use net::enroll::RedeemError;
pub use net::rpc::mint::MintCode;
pub use net::tls::Files as TlsFiles;
pub use serial_file::{AfterReboot, SerialFileError};

/// Gives IDs of one name, none of them twice.
pub trait UniqGenerator {
    /// A Uniq64.
    ///
    /// # Errors
    /// [`MintError`]; then no serial was used up.
    fn get_uniq64(&self) -> Result<u64, MintError>;

    /// A Uniq96, in the low bits.
    ///
    /// # Errors
    /// [`MintError`].
    fn get_uniq96(&self) -> Result<u128, MintError>;

    /// A number of a layout, in the low bits.
    ///
    /// # Errors
    /// [`MintError`]; then no serial was used up.
    fn get_number(&self) -> Result<u128, MintError>;

    /// Appends `n` numbers of a layout, at least 1.
    ///
    /// # Errors
    /// [`MintError`]; then nothing was appended.
    fn get_batch_number(&self, n: u32, ids: &mut Vec<u128>) -> Result<(), MintError>;

    /// An ID as the name's definition writes it, for names of every kind that needs no parts of the caller's: a Uniq64 in decimal, a
    /// number in the encoding of its layout, a string, or what a strategy makes.
    ///
    /// # Errors
    /// [`MintError`].
    fn get_id(&self) -> Result<String, MintError>;

    /// Appends `n` such IDs, at least 1.
    ///
    /// # Errors
    /// [`MintError`]; then nothing was appended.
    fn get_batch_id(&self, n: u32, ids: &mut Vec<String>) -> Result<(), MintError>;

    /// A number of a name of kind `segment`: each once; those that a thread gets grow within a segment.
    ///
    /// # Errors
    /// [`MintError`]; then no number was used up.
    fn get_segment(&self) -> Result<u64, MintError>;

    /// Appends `n` of them, at least 1.
    ///
    /// # Errors
    /// [`MintError`]; then nothing was appended.
    fn get_batch_segment(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError>;

    /// A string, with the caller's `biz` and `custom` parts; empty where the template has none.
    ///
    /// # Errors
    /// [`MintError`]; then no serial was used up.
    fn get_uniq_string(&self, biz: &str, custom: &str) -> Result<String, MintError>;

    /// Appends `n` Uniq64, at least 1, ascending.
    ///
    /// # Errors
    /// [`MintError`]; then nothing was appended.
    fn get_batch64(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError>;

    /// Appends `n` strings, at least 1, in the order of their serials, all with the caller's parts.
    ///
    /// # Errors
    /// [`MintError`]; then nothing was appended.
    fn get_batch_string(&self, n: u32, biz: &str, custom: &str, texts: &mut Vec<String>) -> Result<(), MintError>;
}

/// The reason why no ID came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// This process was forked from the one that has the right.
    #[error("this process is a fork of the one that mints: start a generator here, on a serial file of its own")]
    Forked,
    /// One of the gates is closed.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

impl From<Refusal> for MintError {
    #[cold]
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

/// The process that it was made in, told from forks of it.
#[derive(Clone, Debug)]
struct Process(forkguard::atfork::Guard);

impl Process {
    fn this() -> Result<Self, String> {
        forkguard::atfork::Guard::try_new().map(Self).map_err(|e| e.to_string())
    }

    #[inline]
    fn check(&self) -> Result<(), MintError> {
        // The guard forgets once it has told; a copy tells it again and again.
        if self.0.clone().detected_fork() { Err(MintError::Forked) } else { Ok(()) }
    }
}
