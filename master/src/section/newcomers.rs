//! How many sections that nobody was given before each network asked about within the hour: each of them takes room at both masters for as
//! long as its name lives.
//!
//! Only in memory: a master that starts counts anew. Asked about again, a section counts once.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{NEW_AN_HOUR, SECTIONS_MAX};
use common::sequence::SectionKey;
use common::time::{BootMs, HOUR_MS, SpanMs};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};

/// What was asked about since the hour began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Newcomers {
    since: BootMs,
    sections: BTreeSet<SectionKey>,
    of_network: BTreeMap<Option<IpNet>, u32>,
}

impl Newcomers {
    /// Whether a network may ask about a section that nobody was given before; it counts as asked about.
    pub fn admit(&mut self, now: BootMs, network: Option<IpNet>, key: &SectionKey) -> bool {
        if now - self.since >= SpanMs(HOUR_MS) {
            *self = Self { since: now, ..Self::default() };
        }
        if self.sections.contains(key) {
            return true;
        }
        let asked = self.of_network.get(&network).copied().unwrap_or_default();
        if asked >= NEW_AN_HOUR || self.sections.len() >= SECTIONS_MAX {
            return false;
        }
        self.of_network.insert(network, asked.saturating_add(1));
        self.sections.insert(key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::tests::key;

    #[test]
    fn a_network_asks_about_so_many_new_sections_an_hour_and_others_are_not_held_back() {
        let network = |nth: u8| Some(format!("10.0.0.{nth}/32").parse().unwrap());
        let mut newcomers = Newcomers::default();
        let mut admit = |at: i64, nth, section| newcomers.admit(BootMs(at), network(nth), &key("a", section));
        assert!((0..NEW_AN_HOUR).all(|section| admit(5, 1, section)));
        assert!(!admit(6, 1, NEW_AN_HOUR), "one more");
        assert!(admit(7, 1, 3), "what was asked about counts once");
        assert!(admit(8, 2, NEW_AN_HOUR), "another network");
        assert!(admit(9, 1, NEW_AN_HOUR), "somebody asked about it");
        assert!(!admit(HOUR_MS - 1, 1, u32::MAX) && admit(HOUR_MS, 1, u32::MAX), "the next hour");
    }

    #[test]
    fn no_more_are_remembered_than_there_may_be() {
        let mut newcomers = Newcomers::default();
        let network = |section: u32| Some(format!("10.0.0.{}/32", section / NEW_AN_HOUR).parse().unwrap());
        let most = u32::try_from(SECTIONS_MAX).unwrap();
        assert!((0..most).all(|section| newcomers.admit(BootMs(0), network(section), &key("a", section))));
        assert!(!newcomers.admit(BootMs(0), Some("10.9.9.9/32".parse().unwrap()), &key("a", most)));
    }
}
