//! The session: as whom this process mints, one unbroken line of the serial file.

use crate::serial_file::StartKind;
use common::parameters::SessionId;

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
