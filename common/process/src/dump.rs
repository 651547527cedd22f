//! Keeps a process from leaving its memory behind when it dies.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Keeps this process's memory out of core dumps, and other processes of its user from reading it: a secret stands in it. A debugger
/// attaches by root alone from here on.
pub fn forbid() {
    let limited = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let undumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = limited.and(undumpable) {
        tracing::warn!(%error, "memory with a secret cannot be kept out of core dumps: set `ulimit -c 0` (LimitCORE=0 of a service)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getrlimit;

    #[test]
    fn nothing_is_dumped_from_then_on() {
        forbid();
        let Rlimit { current, maximum } = getrlimit(Resource::Core);
        assert_eq!((current, maximum), (Some(0), Some(0)));
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
