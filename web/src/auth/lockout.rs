//! Counts failed logins, by name and by address. Pure: the time comes in.
//!
//! Where a name has logged in before, its failures there are counted by themselves: so nobody who fails elsewhere by that name, or there by
//! other names, keeps its owner out.
//!
//! An attempt counts before its password is checked, so that a hundred at once are not a hundred tries; one that
//! succeeds is forgiven. Unknown names are counted like known ones: who is locked out learns nothing of who exists.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::setting::host_network;
use common::time::{SpanMs, WallMs};
use core::net::IpAddr;
use ipnet::IpNet;
use std::collections::{BTreeMap, VecDeque};

/// Failures within [`WINDOW`] that lock out.
pub(crate) const FAILURES_MAX: usize = 5;
/// Time for which a failure counts.
pub(crate) const WINDOW: SpanMs = SpanMs(15 * 60_000);
/// Names and addresses that are remembered at most; then the one whose last failure is oldest is forgotten.
pub(crate) const REMEMBERED_MAX: usize = 8_192;
/// Characters of a name that count; nobody's is longer.
const NAME_CHARS_MAX: usize = 40;
/// Pairs of a name and an address that has logged in by it at most; then the one that did so longest ago is forgotten.
const HOMES_MAX: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Name(String),
    Address(IpNet),
    /// A name where it has logged in before.
    Home(String, IpNet),
}

/// The failures that count, and the addresses from which each name has logged in.
#[derive(Debug, Default)]
pub(crate) struct Lockout {
    failures: BTreeMap<Whose, VecDeque<WallMs>>,
    homes: BTreeMap<(String, IpNet), WallMs>,
}

/// Locked out until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockedOut {
    pub(crate) until: WallMs,
}

impl Lockout {
    /// Counts an attempt.
    pub(crate) fn attempt(&mut self, name: &str, address: IpAddr, now: WallMs) -> Result<(), LockedOut> {
        let counted = self.counted(name, address);
        if let Some(until) = counted.iter().filter_map(|whose| self.locked_until(whose, now)).max() {
            return Err(LockedOut { until });
        }
        for whose in counted {
            self.make_room(&whose, now);
            self.failures.entry(whose).or_default().push_back(now);
        }
        Ok(())
    }

    /// Forgets the name's failures, and this attempt at the address, because the attempt succeeded; from now on the name is at home there.
    pub(crate) fn forgive(&mut self, name: &str, address: IpAddr, now: WallMs) {
        for whose in self.counted(name, address) {
            if let Whose::Address(_) = whose {
                self.failures.get_mut(&whose).and_then(VecDeque::pop_back);
            } else {
                self.failures.remove(&whose);
            }
        }
        self.homes.insert(pair(name, address), now);
        if self.homes.len() > HOMES_MAX
            && let Some(oldest) = self.homes.iter().min_by_key(|(_, last)| **last).map(|(home, _)| home.clone())
        {
            self.homes.remove(&oldest);
        }
    }

    /// Tells whether the name, and whether the address, is locked out for who has just failed by that name there.
    pub(crate) fn has_locked(&mut self, name: &str, address: IpAddr, now: WallMs) -> [bool; 2] {
        let counted = self.counted(name, address);
        let mut locked = counted.iter().map(|whose| self.locked_until(whose, now).is_some());
        [locked.next().unwrap_or(false), locked.next().unwrap_or(false)]
    }

    /// The counts that an attempt adds to; that of the name comes first.
    fn counted(&self, name: &str, address: IpAddr) -> Vec<Whose> {
        let home = pair(name, address);
        if self.homes.contains_key(&home) {
            return vec![Whose::Home(home.0, home.1)];
        }
        vec![Whose::Name(home.0), Whose::Address(home.1)]
    }

    fn locked_until(&mut self, whose: &Whose, now: WallMs) -> Option<WallMs> {
        let failures = self.failures.get_mut(whose)?;
        // A failure of the future is from before the clock was set back, or from a guess that read the clock after this one did: it
        // counts from now on, so that neither locks for longer than the window, nor makes room for further guesses.
        failures.iter_mut().for_each(|at| *at = (*at).min(now));
        failures.retain(|at| now - *at < WINDOW);
        if failures.len() < FAILURES_MAX {
            return None;
        }
        failures.front().map(|first| *first + WINDOW)
    }

    fn make_room(&mut self, whose: &Whose, now: WallMs) {
        if self.failures.contains_key(whose) || self.failures.len() < REMEMBERED_MAX {
            return;
        }
        self.failures.retain(|_, failures| failures.back().is_some_and(|last| now - *last < WINDOW));
        if self.failures.len() >= REMEMBERED_MAX {
            let oldest = self.failures.iter().min_by_key(|(_, failures)| (failures.len(), failures.back().copied()));
            if let Some(oldest) = oldest.map(|(whose, _)| whose.clone()) {
                self.failures.remove(&oldest);
            }
        }
    }
}

fn pair(name: &str, address: IpAddr) -> (String, IpNet) {
    (name.chars().take(NAME_CHARS_MAX).collect(), host_network(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMs = WallMs(1_000_000_000);

    fn ip(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn five_failures_lock_a_name_and_an_address_for_a_quarter_of_an_hour() {
        let mut lockout = Lockout::default();
        for n in 0..5 {
            assert_eq!(lockout.attempt("admin", ip(n), NOW + SpanMs(n.into())), Ok(()));
        }
        let until = NOW + WINDOW;
        assert_eq!(lockout.attempt("admin", ip(9), NOW + SpanMs(10)), Err(LockedOut { until }), "from anywhere");
        assert_eq!(lockout.attempt("jane", ip(9), NOW + SpanMs(10)), Ok(()), "the others may go on");
        assert_eq!(lockout.attempt("admin", ip(9), until), Ok(()));

        for n in 0..5 {
            assert_eq!(lockout.attempt(&format!("user{n}"), ip(77), NOW), Ok(()));
        }
        assert!(lockout.attempt("another", ip(77), NOW).is_err(), "by anybody");
        assert_eq!(lockout.has_locked("another", ip(77), NOW), [false, true]);
        assert_eq!(lockout.has_locked("another", ip(78), NOW), [false, false]);
    }

    #[test]
    fn a_guess_that_took_long_makes_no_room_for_others() {
        let mut lockout = Lockout::default();
        for n in 0..5 {
            lockout.attempt("admin", ip(n), NOW + SpanMs(100 + i64::from(n))).unwrap();
        }
        // The first one's password was checked by then, and its clock was read before the others came.
        assert_eq!(lockout.has_locked("admin", ip(8), NOW), [true, false]);
        assert!(lockout.attempt("admin", ip(9), NOW + SpanMs(200)).is_err());
        // A clock that was set back locks nobody out for longer than the window.
        let back = WallMs(NOW.0 - 3_600_000);
        assert_eq!(lockout.attempt("admin", ip(9), back), Err(LockedOut { until: back + WINDOW }));
        assert_eq!(lockout.attempt("admin", ip(9), back + WINDOW), Ok(()));
    }

    #[test]
    fn success_is_forgiven_but_does_not_free_the_address() {
        let mut lockout = Lockout::default();
        for _ in 0..4 {
            lockout.attempt("victim", ip(1), NOW).unwrap();
        }
        lockout.attempt("own", ip(1), NOW).unwrap();
        lockout.forgive("own", ip(1), NOW);
        lockout.attempt("victim", ip(1), NOW).unwrap();
        assert!(lockout.attempt("other", ip(1), NOW).is_err());
    }

    #[test]
    fn whoever_fails_elsewhere_or_by_other_names_keeps_nobody_out_of_where_he_was_before() {
        let mut lockout = Lockout::default();
        lockout.attempt("admin", ip(1), NOW).unwrap();
        lockout.forgive("admin", ip(1), NOW);
        for n in 0..5 {
            lockout.attempt("admin", ip(100 + n), NOW).unwrap();
            lockout.attempt(&format!("user{n}"), ip(1), NOW).unwrap();
        }
        assert!(lockout.attempt("admin", ip(2), NOW).is_err() && lockout.attempt("user9", ip(1), NOW).is_err());
        for _ in 0..5 {
            assert_eq!(lockout.has_locked("admin", ip(1), NOW), [false, false]);
            lockout.attempt("admin", ip(1), NOW).unwrap();
        }
        // There, too, nobody guesses for ever; and success there gives no guesses to those elsewhere.
        assert!(lockout.attempt("admin", ip(1), NOW).is_err());
        assert_eq!(lockout.has_locked("admin", ip(1), NOW), [true, false]);
        lockout.forgive("admin", ip(1), NOW);
        assert!(lockout.attempt("admin", ip(1), NOW).is_ok() && lockout.attempt("admin", ip(2), NOW).is_err());
        for n in 0..HOMES_MAX as u32 + 10 {
            lockout.forgive("jane", ip(1_000 + n), NOW + SpanMs(n.into()));
        }
        assert_eq!(lockout.homes.len(), HOMES_MAX);
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_a_mapped_one_is_itself() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(pair("a", at("2001:db8::1")), pair("a", at("2001:db8::ffff")));
        assert_ne!(pair("a", at("2001:db8::1")), pair("a", at("2001:db8:0:1::1")));
        assert_eq!(pair("a", at("::ffff:10.0.0.1")), pair("a", at("10.0.0.1")));
    }

    #[test]
    fn memory_is_bounded_and_what_is_locked_stays_locked() {
        let mut lockout = Lockout::default();
        for n in 0..5 {
            lockout.attempt("admin", ip(n), NOW).unwrap();
        }
        // Each is a name and an address.
        for n in 0..REMEMBERED_MAX as u32 / 2 + 200 {
            let _ = lockout.attempt(&format!("{n}{}", "x".repeat(1_000)), ip(1_000 + n), NOW);
        }
        assert!(lockout.failures.len() <= REMEMBERED_MAX);
        assert!(lockout.attempt("admin", ip(99), NOW).is_err());
        assert!(
            lockout.failures.keys().all(|whose| !matches!(whose, Whose::Name(name) if name.len() > NAME_CHARS_MAX))
        );
    }
}
