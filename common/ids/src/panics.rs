//! Calls into code of applications, whose panics must end nothing but the call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Characters of a panic's message that are told.
const MESSAGE_LEN_MAX: usize = 256;

/// The message of a panic.
fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message").chars().take(MESSAGE_LEN_MAX).collect();
    // What was thrown may panic when it is dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(panic))) {
        std::mem::forget(again);
    }
    text
}

/// Calls `call`, and returns what it gives.
///
/// # Errors
/// The message of its panic, cut to 256 characters. A process built with `panic = "abort"` ends instead.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(message)
}
