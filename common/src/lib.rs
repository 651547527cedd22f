//! The parts that every room of UniqGenerator shares: what an ID is (the crate `ids`, under its modules' names), clocks, files, host names, metrics.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub use ids::{
    about, account, api_key, audit, calendar, certificate, encoding, envelope, json, kind, layout, lease, namespace,
    panics, parameters, plugin, quota, segment, sequence, setting, strategy, template, time, token,
};

pub mod attachment;
pub mod clock;
pub mod file;
pub mod hosts;
pub mod metrics;
