//! The session: as whom this process mints, one unbroken line of the serial file.

use common::parameters::SessionId;
use serial_file::StartKind;

/// The session of this start.
#[derive(Debug)]
pub struct Session {
    pub(super) id: SessionId,
    pub(super) start: StartKind,
}

impl Session {
    /// Its number.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Tells whether this start continued it.
    pub fn start(&self) -> &StartKind {
        &self.start
    }
}
