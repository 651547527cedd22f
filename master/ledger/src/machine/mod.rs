//! The ledger: which token is promised to whom, and until when.
//!
//! # States
//!
//! A value is *absent* (never granted), or has a record of its newest grant `g`:
//!
//! ```text
//!   home:   absent/Closed --prep--> (prep) --Confirm--> Held --Closed--> Closed --rest--> grantable again
//!   other:  absent/Closed/Closing ------Propose-------> Held --Close--> Closing --Sync--> Closed
//! ```
//!
//! Each value has one *home* master (by parity), which alone proposes it and alone starts its end. A grant and an end are
//! changes of ownership and need both masters; a renewal needs one.
//!
//! # Messages
//!
//! `Propose` and `Confirm` grant, `Close` and `Closed` end, `Reject` answers either with a better record, `Sync` and
//! `Page` carry records to be merged, `Ask` and `NoneFree` let a master whose own values are all in use borrow from
//! the other's. Any of them may be lost, doubled, late or out of order.
//!
//! # Guarantees
//!
//! * The rectangles (token x `[from, until)`) that were ever promised to different sessions are disjoint, after rounding
//!   out to whole days. So an agent that mints only inside its rectangle repeats nothing, whatever any clock says.
//! * A grant changes only when both masters hold it durably; a proposal is never dropped and never aborted, because the
//!   other master may have confirmed it and even answered the agent.
//! * `until` only grows within one grant, and a value that is `Closed` anywhere carries an `until` that covers every
//!   promise either master made.
//! * A master extends leases alone only up to the other's *permit*, so whoever replaces a lost master knows a bound of
//!   everything it can have promised, even if it is not dead at all.
//! * Merging another view of a record is idempotent and commutative; nothing is ever overwritten.
//!
//! # Shape
//!
//! `Ledger::step` takes the time and one event and fills [`Effects`](crate::lease::Effects): writes, then messages and
//! replies. It reads no clock, draws no random number and never fails: a refusal is data. The caller must make all writes
//! durable, atomically, before it sends any of the messages or replies. `Ledger::next_deadline` says when to come back
//! without an event.
//!
//! Decisions lie apart from how they are agreed on. The handlers here decide by [`crate::policy`], and know nothing of the
//! other master: they ask one trait, `Agreement`, whether anything may change its owner now, and hand it what they decided. `pair`
//! is what stands behind that trait. A ledger whose changes another engine agrees on would keep the handlers as they are.
//!
//! # What it costs
//!
//! While one master is away there are no new leases and no ends. A value rests for at least a day after its lease, and
//! a session that asks again while its proposal is unconfirmed waits.

mod agreement;
mod command;
mod grant;
mod janitor;
mod pair;
mod placing;
mod receipt;
mod renew;
mod sections;
mod segments;
mod settings;
mod snapshot;
mod state;
mod step;

pub use agreement::Condition;
pub use pair::Salt;
pub use snapshot::Snapshot;

/// The ledger of one of two masters.
pub type Ledger = state::Ledger<pair::Pairwise>;
