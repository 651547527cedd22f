//! What a person sees of a serial file.
use super::SerialFileError;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// A serial file, taken apart.
#[derive(Debug, Serialize)]
pub struct Inspection {}

impl fmt::Display for Inspection {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// Reads the serial file at `path` without locking or changing anything.
///
/// # Errors
/// See [`SerialFileError`].
pub fn inspect(path: &Path) -> Result<Inspection, SerialFileError> {
    Err(SerialFileError::Missing(path.to_owned()))
}
