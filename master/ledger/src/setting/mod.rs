//! Settings of the cluster: changed like leases, by the one master that is home to the key, and confirmed by the other.
//!
//! # States
//!
//! ```text
//!   home:   version n --SettingPrep n+1--> (prep) --ConfirmSetting--> version n+1
//!   other:  version n -----ProposeSetting n+1---------------------> version n+1
//! ```
//!
//! A change is wanted of either master. The home works out what it makes of the setting, so that two changes that meet
//! are both heard; a master that is not home sends the wish there and waits to see it come true. A proposal is never
//! dropped: the other master may have confirmed it long ago, and told an agent what a name stands for.
//!
//! # Guarantees
//!
//! * A name by which an ID may have been given never stands for two things: both hold durably that it is in use before an agent gives
//!   the first one, and from then on it is what it is or retired. Before, it can be taken back and stand for anything.
//! * No two names of one kind give equal IDs unless one of them says that its scope is its own: all names have one home,
//!   which proposes none that could give what another one gives, confirmed or proposed before it.
//! * What is noted about a name is of a name that is registered, and the notes about all names fit a frame with everything else.
//! * Every change has an audit line in the same commit, on both masters; that a name is in use is nobody's decision, and has none.
//!
//! # What it costs
//!
//! While one master is away nothing is changed.

mod audit_lines;
mod counts;
mod keys;
mod table;

pub(crate) use audit_lines::lines;
pub use table::SettingsTable;
pub(crate) use table::{WAITING_MAX, Wish};
