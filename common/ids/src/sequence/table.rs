//! A table of routes, as clients and agents keep it: for each section the owner that masters named, or that an agent named with a higher `g`.
//!
//! Any agent may say anything. So it is believed about the sections that it was asked about alone, and a master's word takes the place of its.

use super::{Route, Section, ServedAt};
use crate::lease::Generation;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Stretches of sections that a table of one name keeps at most. It is only a memory of what can be asked again, so one that is full
/// begins anew.
const STRETCHES_MAX: usize = 1 << 16;

/// Sections beside each other with one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    /// After the last.
    to: u32,
    address: Arc<ServedAt>,
    g: Generation,
}

/// The routes of one name.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    /// By the first section; none overlaps another.
    stretches: BTreeMap<u32, Stretch>,
}

impl RouteTable {
    /// Takes in what an agent says of the sections that it was asked about, where nothing newer is known, and nothing that it says of
    /// others. If it was asked by routes with no `g` above `by`, what it says takes their place. `true` if something has changed.
    pub fn learn(&mut self, mut asked: BTreeSet<Section>, said: &[Route], by: Option<Generation>) -> bool {
        let mut newest_first: Vec<&Route> = said.iter().filter(|route| route.from < route.to).collect();
        newest_first.sort_by_key(|route| Reverse(route.g));
        let mut changed = false;
        for route in newest_first {
            let about: Vec<Section> = asked.range(route.from..route.to).copied().collect();
            for section in about {
                // Of each the newest alone: what is said of it costs no more, however much that is.
                asked.remove(&section);
                if let Some(g) = by {
                    self.forget(section, g);
                }
                let to = Section(section.0.saturating_add(1));
                changed |= self.take(&Route { from: section, to, ..route.clone() }, false);
            }
        }
        changed
    }

    /// Takes in a master's own word, whatever agents said: their highest `g` may be one that never was. A master also knows the address at
    /// which an owner was heard last, which is another one if its program was started again at another port.
    pub fn learn_from_master(&mut self, route: &Route) -> bool {
        self.take(route, true)
    }

    fn take(&mut self, route: &Route, is_masters: bool) -> bool {
        let (Section(from), Section(to)) = (route.from, route.to);
        if from >= to {
            return false;
        }
        if self.stretches.len() >= STRETCHES_MAX {
            self.stretches.clear();
        }
        let new = Stretch { to, address: Arc::new(route.address.clone()), g: route.g };
        let mut at = from;
        let mut changed = false;
        for (begin, old) in self.cut(from, to) {
            if at < begin {
                self.stretches.insert(at, Stretch { to: begin, ..new.clone() });
                changed = true;
            }
            at = old.to;
            // Of one g there is one owner.
            let newer = old.g < new.g || (is_masters && (old.g, &old.address) != (new.g, &new.address));
            let kept = if newer { Stretch { to: old.to, ..new.clone() } } else { old };
            changed |= newer;
            self.stretches.insert(begin, kept);
        }
        if at < to {
            self.stretches.insert(at, new);
            changed = true;
        }
        self.join(from, to);
        changed
    }

    /// Finds who serves a section, as far as is known.
    pub fn find(&self, section: Section) -> Option<(&Arc<ServedAt>, Generation)> {
        let (_, stretch) = self.stretches.range(..=section.0).next_back()?;
        (section.0 < stretch.to).then_some((&stretch.address, stretch.g))
    }

    /// The stretch that a section lies in, as a route.
    pub fn route(&self, section: Section) -> Option<Route> {
        let (from, stretch) = self.stretches.range(..=section.0).next_back()?;
        (section.0 < stretch.to).then(|| Route {
            from: Section(*from),
            to: Section(stretch.to),
            address: ServedAt::clone(&stretch.address),
            g: stretch.g,
        })
    }

    /// Forgets that route of a section, if it is what is known: whoever it leads to cannot be reached.
    pub fn forget(&mut self, section: Section, g: Generation) {
        if self.find(section).is_some_and(|(_, known)| known <= g)
            && let Some(after) = section.0.checked_add(1)
        {
            self.cut(section.0, after);
        }
    }

    /// Takes out what lies in these sections, cut at their borders; what lies beside them stays.
    fn cut(&mut self, from: u32, to: u32) -> Vec<(u32, Stretch)> {
        let before = self.stretches.range(..from).next_back().map(|(begin, old)| (*begin, old.clone()));
        if let Some((begin, old)) = before.filter(|(_, old)| old.to > from) {
            self.stretches.insert(from, old.clone());
            self.stretches.insert(begin, Stretch { to: from, ..old });
        }
        let last = self.stretches.range(from..to).next_back().map(|(begin, old)| (*begin, old.clone()));
        if let Some((begin, old)) = last.filter(|(_, old)| old.to > to) {
            self.stretches.insert(to, old.clone());
            self.stretches.insert(begin, Stretch { to, ..old });
        }
        let within: Vec<u32> = self.stretches.range(from..to).map(|(begin, _)| *begin).collect();
        within.into_iter().filter_map(|begin| Some((begin, self.stretches.remove(&begin)?))).collect()
    }

    /// Puts together what lies beside each other and has one owner, from just before `from` to just behind `to`.
    fn join(&mut self, from: u32, to: u32) {
        let begin = self.stretches.range(..from).next_back().map_or(from, |(begin, _)| *begin);
        let near: Vec<u32> = self.stretches.range(begin..=to).map(|(begin, _)| *begin).collect();
        let mut last: Option<u32> = None;
        for begin in near {
            let Some(this) = self.stretches.get(&begin).cloned() else { continue };
            match last.and_then(|last| self.stretches.get_mut(&last)) {
                Some(before) if before.to == begin && before.g == this.g && before.address == this.address => {
                    before.to = this.to;
                    self.stretches.remove(&begin);
                }
                _ => last = Some(begin),
            }
        }
    }

    /// The number of stretches.
    pub fn len(&self) -> usize {
        self.stretches.len()
    }

    /// Tells whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route((from, len, owner, g): (u32, u32, u8, u64)) -> Route {
        let address = ServedAt { http: format!("h:{owner}"), rpc: format!("r:{owner}") };
        Route { from: Section(from), to: Section(from + len), address, g: Generation(g) }
    }

    #[test]
    fn a_route_that_leads_nowhere_is_forgotten_for_its_section_alone() {
        let mut table = RouteTable::default();
        table.learn_from_master(&route((0, 10, 1, 5)));
        table.forget(Section(4), Generation(4));
        assert!(table.find(Section(4)).is_some(), "what is known is newer");
        table.forget(Section(4), Generation(5));
        assert!(
            table.find(Section(4)).is_none() && table.find(Section(3)).is_some() && table.find(Section(5)).is_some()
        );
        let learn = |table: &mut RouteTable, said: Route| {
            let sections = (said.from.0..said.to.0).map(Section).collect();
            table.learn(sections, &[said], None)
        };
        assert!(learn(&mut table, route((4, 1, 1, 5))) && table.len() == 1);
        assert!(!learn(&mut table, route((3, 3, 1, 5))) && !learn(&mut table, route((3, 3, 2, 4))));
        assert!(!learn(&mut table, route((3, 0, 1, 9))));
        // The same owner elsewhere: only a master knows that.
        let elsewhere = |to: (u32, u32, u8, u64)| {
            let mut route = route(to);
            route.address.http = "elsewhere:1".to_owned();
            route
        };
        assert!(!learn(&mut table, elsewhere((4, 1, 1, 5))));
        assert!(table.learn_from_master(&elsewhere((4, 1, 1, 5))));
        assert!(!table.learn_from_master(&elsewhere((4, 1, 1, 5))), "it is known");
    }

    #[test]
    fn an_agent_is_believed_about_what_it_was_asked_about_until_a_master_says_otherwise() {
        let mut table = RouteTable::default();
        table.learn_from_master(&route((0, 10, 1, 5)));
        let said = [route((0, u32::MAX, 2, u64::MAX)), route((0, 5, 3, 6)), route((9, 0, 3, 6))];
        assert!(table.learn([4, 20].map(Section).into(), &said, None));
        let owner = |table: &RouteTable, section| table.find(Section(section)).map(|(at, g)| (at.rpc.clone(), g.0));
        let of = |owner: u8, g| Some((format!("r:{owner}"), g));
        assert_eq!(
            [3, 4, 5, 20, 21].map(|at| owner(&table, at)),
            [of(1, 5), of(2, u64::MAX), of(1, 5), of(2, u64::MAX), None]
        );
        assert!(!table.learn([4].map(Section).into(), &[route((4, 1, 1, 7))], None), "it is older than what is known");
        assert!(
            table.learn([20].map(Section).into(), &[route((4, 20, 1, 7))], Some(Generation(u64::MAX))),
            "by that route"
        );
        assert_eq!(owner(&table, 20), of(1, 7));
        assert!(table.learn_from_master(&route((4, 1, 1, 7))), "whatever agents said");
        assert_eq!(owner(&table, 4), of(1, 7));
    }

    proptest! {
        #[test]
        fn of_each_section_the_highest_g_is_kept(
            routes in proptest::collection::vec((0u32..40, 0u32..12, 0u8..3), 0..40),
            gs in proptest::collection::vec(1u64..6, 40),
        ) {
            let mut table = RouteTable::default();
            let mut plain: BTreeMap<u32, (u64, String)> = BTreeMap::new();
            for ((from, len, owner), g) in routes.into_iter().zip(gs) {
                let said = route((from, len, owner, g));
                table.learn((from..from + len).map(Section).collect(), std::slice::from_ref(&said), None);
                for section in from..from + len {
                    let known = plain.entry(section).or_insert((0, String::new()));
                    if known.0 < g {
                        *known = (g, said.address.rpc.clone());
                    }
                }
            }
            for section in 0..60 {
                let found = table.find(Section(section)).map(|(address, g)| (g.0, address.rpc.clone()));
                prop_assert_eq!(found.as_ref(), plain.get(&section));
                if let Some(route) = table.route(Section(section)) {
                    prop_assert!(route.from.0 <= section && section < route.to.0);
                }
            }
            // Nothing is kept in two pieces that is one.
            let all: Vec<_> = table.stretches.iter().collect();
            for pair in all.windows(2) {
                let [(_, one), (begin, other)] = pair else { unreachable!() };
                prop_assert!(one.to < **begin || (one.g, &one.address) != (other.g, &other.address));
            }
        }
    }
}
