//! Two real masters: their stores and disks, one of them away, lost or replaced, what they keep and what they grant.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod attached_anew;
mod backup;
mod copied_store;
mod damaged_store;
mod fresh_stores;
mod full_disk;
mod late_messages;
mod one_master_down;
mod put_back;
mod replaced_master;
mod settings;
mod two_hundred_agents;
