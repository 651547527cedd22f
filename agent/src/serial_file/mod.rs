//! The formatted serial file: high-water marks that are durable before they are used.

mod file;
mod inspect;
mod layout;
mod lineage;
mod names;

pub use file::{Opened, SerialFile, SerialFileError, WriteError, format, open};
pub use inspect::{Inspection, inspect};
pub use layout::{Block, Contents, Header, LayoutError};
pub use lineage::{AfterReboot, FreshReason, Holdings, StartKind};
