//! How many sections that nobody was given before each network asked about within the hour: each of them takes room at both masters for as
//! long as its name lives.
//!
//! Only in memory: a master that starts counts anew. Asked about again, a section counts once, as far as there is room to remember it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{NEW_AN_HOUR, SECTIONS_MAX};
use common::sequence::SectionKey;
use common::time::{BootMs, HOUR_MS, SpanMs};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};

/// Networks that are counted at once; beyond that whoever has asked about the fewest is forgotten.
const NETWORKS_MAX: usize = 16_384;

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
        if asked >= NEW_AN_HOUR {
            return false;
        }
        // Others are not held back by what some have asked about.
        if self.sections.len() >= SECTIONS_MAX {
            self.sections.clear();
        }
        if asked == 0 && self.of_network.len() >= NETWORKS_MAX {
            let least = self.of_network.iter().min_by_key(|(_, asked)| **asked).map(|(network, _)| *network);
            least.map(|network| self.of_network.remove(&network));
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
    fn no_more_are_remembered_than_there_may_be_and_nobody_is_held_back_by_others() {
        let mut newcomers = Newcomers::default();
        let network = |nth: u32| Some(format!("10.0.{}.{}/32", nth >> 8, nth & 255).parse().unwrap());
        let most = u32::try_from(SECTIONS_MAX).unwrap();
        let all = most / NEW_AN_HOUR;
        for section in 0..most {
            assert!(newcomers.admit(BootMs(0), network(section / NEW_AN_HOUR), &key("a", section)));
        }
        assert!(!newcomers.admit(BootMs(0), network(0), &key("a", most)), "that one has asked about its part");
        let more = u32::try_from(NETWORKS_MAX).unwrap();
        for nth in all..all + more {
            assert!(newcomers.admit(BootMs(0), network(nth), &key("a", most + nth)), "{nth}");
        }
        assert!(newcomers.sections.len() <= SECTIONS_MAX && newcomers.of_network.len() == NETWORKS_MAX);
        assert!(!newcomers.admit(BootMs(0), network(0), &key("a", 7)), "who has asked about the most is known on");
    }
}
