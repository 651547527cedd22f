//! The product's own code without processes: [`sim`], whole clusters in virtual time with faults drawn from a seed; [`model`],
//! [`ranges_model`] and [`file_model`], every state of the masters' ledgers and of the agent's serial file within bounds.

pub mod file_model;
mod kit;
pub mod model;
pub mod plain_ids;
pub mod ranges_model;
pub mod sim;
