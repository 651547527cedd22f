//! The session: as whom this process mints, one unbroken line of the serial file.

use crate::serial_file::StartKind;
use common::parameters::SessionId;

/// The session of this start.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    start: StartKind,
}

impl Session {
    pub(super) fn new(id: SessionId, start: StartKind) -> Self {
        Self { id, start }
    }

    /// Its number.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Tells whether this start continued it.
    pub fn start(&self) -> &StartKind {
        &self.start
    }
}
