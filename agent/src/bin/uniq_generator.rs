//! `uniq_generator`, with nothing added to it.

use agent::extensions::Extensions;
use agent::program;
use std::process::ExitCode;

fn main() -> ExitCode {
    program::main(Extensions::default())
}
