//! The admin console of a master: live pages and a JSON API.
//!
//! The console sees the masters through one trait, [`Masters`], and never the ledger itself. Pages are rendered here
//! and sent whole, so they work without a script; the one script only replaces parts of the page by what the server
//! renders anew (`/events`). Everything the page needs is inside the program.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod agents;
mod api;
mod ask;
mod auth;
mod axes;
mod backup;
mod commands;
mod design;
mod invitations;
mod live;
mod masters;
mod names;
mod pages;
mod preferences;
mod problem;
mod query;
mod routes;
mod sequences;
mod serve;
mod shared;
mod table;
mod text;
mod words;

pub use agents::{
    AgentRow, AgentState, CallsRow, CapacityRow, FlagRow, HeldRow, LATE_AFTER, LOST_AFTER, NameUseRow, ReportRow,
    SettingsRow,
};
pub use auth::{
    Accounts, Auth, AuthSettings, PASSWORD_CHARS_MIN, PASSWORD_LEN_MAX, Refusals, Role, SsoSettings, Who, acceptable,
    hash, verify,
};
pub use axes::{AxisRow, ExtentRow};
pub use commands::{AuditCheck, AuditFilter, AuditPart, Commands};
pub use invitations::{Invitations, NotInvited, OpenInvitation};
pub use masters::{
    AgentPattern, AuditRow, LeaseFields, LeaseFilter, LeasePage, LeaseRow, LeaseStage, MasterMode, MasterRow, Masters,
    NamespaceRow, NetworkRow, Order, Page, PoolRow, Search, SortBy, Unavailable, count_pools,
};
pub use names::{Label, NamespaceFilter, Text};
pub use sequences::{
    AllocatorRow, BAR_PARTS_MAX, BarPart, Drained, KeyRaised, SectionFilter, SectionHolder, SectionMoved, SectionPage,
    SectionRow, SectionState, SequenceRow,
};
pub use serve::{CONNECTIONS_MAX, serve};

use std::sync::Arc;

/// All routes of the console, to be served by [`serve`] or asked directly in a test.
pub fn router(masters: Arc<dyn Masters>, auth: Arc<Auth>) -> axum::Router {
    let live = live::Live::new(Arc::clone(&masters), Arc::clone(&auth));
    routes::router(shared::Shared { masters, live, auth, turn: shared::Turn::default() })
}
