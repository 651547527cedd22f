//! Callers that mean harm, or cost as much as if they did: every process stays alive and serves everybody else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod all_at_once;
mod api_keys;
mod certificates;
mod crowd;
mod hostile_input;
mod invitations;
mod places;
mod quotas;
mod revocations;
mod scarce;
mod strangers;
mod tokens;
