//! Agents as applications have them: over HTTP and RPC, by clients of many languages, within a process, by names of every kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod clients;
mod dev;
mod embedded;
mod encrypted;
mod foreign_clients;
mod http_contract;
mod layouts;
mod names;
mod namespaces;
mod narrow_tokens;
mod plain_http;
mod plugins;
mod rpc_contract;
mod strategies;
mod unix_socket;
