//! The rules of sections as small total functions, each with the sentence it stands for.

use super::{HeldSection, Terms};
use ids::namespace::GeneratorName;
use ids::parameters::MasterId;
use ids::sequence::SectionRecord;
use ids::setting::home_of;
use std::sync::Arc;
use wire::ranges::{NotRaised, RaiseTo};

/// All sections of a name have one home, and only the home proposes a new owner of them. Without this both masters could give
/// one section to two agents, and each would confirm the other's.
pub fn home(name: &GeneratorName) -> MasterId {
    home_of(name)
}

/// Gives the number up to which one master may raise a section's bound: the allowance beyond what the other one said that it holds. So
/// whoever goes on without a master that is lost knows a bound of everything that one can have raised, even if it is not dead at all.
pub fn bound(peer_has: u64, terms: &Terms) -> u64 {
    peer_has.saturating_add(terms.allowance).min(terms.last)
}

/// A bound that covers what somebody may have raised who knew of `known`, and of whom nothing was heard since. At the end of the
/// width it stops: nobody can have raised beyond that either.
pub fn covering(known: u64, terms: &Terms) -> u64 {
    known.saturating_add(terms.allowance).min(terms.last).max(known)
}

/// Gives the bound that a raise makes of one which is `max_seq` now and may go up to `bound`.
///
/// # Errors
/// [`NotRaised::UsedUp`] at the last number, [`NotRaised::Allowance`] before it.
pub fn raised(max_seq: u64, to: RaiseTo, bound: u64, terms: &Terms) -> Result<u64, NotRaised> {
    to.reached(max_seq, terms.step, bound, terms.last)
}

/// Joins a record with the other master's view of the same section: the higher `g` wins, and whatever its owner, the larger `max_seq` of
/// both. Nothing is ever overwritten by something smaller.
pub fn merge(mine: Option<&HeldSection>, theirs: &SectionRecord) -> HeldSection {
    let adopted = || HeldSection {
        g: theirs.g,
        owner: Arc::new(theirs.owner.clone()),
        max_seq: theirs.max_seq,
        peer_has: theirs.max_seq,
    };
    let Some(mine) = mine else { return adopted() };
    let (max_seq, peer_has) = (mine.max_seq.max(theirs.max_seq), mine.peer_has.max(theirs.max_seq));
    match theirs.g > mine.g {
        true => HeldSection { max_seq, peer_has, ..adopted() },
        false => HeldSection { max_seq, peer_has, ..mine.clone() },
    }
}

/// Two owners under one number of owners, which cannot be.
pub fn contradicts(mine: &HeldSection, theirs: &SectionRecord) -> bool {
    mine.g == theirs.g && mine.owner.session != theirs.owner.session
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::tests::{held, record, terms};
    use proptest::prelude::*;

    #[test]
    fn a_bound_grows_by_a_step_or_to_a_number_and_never_beyond_what_is_allowed() {
        let terms = terms(10, 100, 1_000);
        assert_eq!(raised(5, RaiseTo::ByAStep, 105, &terms), Ok(15));
        assert_eq!(raised(5, RaiseTo::Number(3), 105, &terms), Ok(5));
        assert_eq!(raised(5, RaiseTo::Number(99), 105, &terms), Ok(99));
        assert_eq!(raised(5, RaiseTo::Number(500), 105, &terms), Ok(105));
        assert_eq!(raised(105, RaiseTo::ByAStep, 105, &terms), Err(NotRaised::Allowance));
        // What is there already is said again, whatever is allowed.
        assert_eq!(raised(105, RaiseTo::Number(105), 0, &terms), Ok(105));
    }

    #[test]
    fn at_the_end_of_the_width_a_bound_stops() {
        let terms = terms(10, 100, 1_000);
        assert_eq!(raised(995, RaiseTo::ByAStep, u64::MAX, &terms), Ok(1_000));
        assert_eq!(raised(1_000, RaiseTo::ByAStep, u64::MAX, &terms), Err(NotRaised::UsedUp));
        assert_eq!(raised(1_000, RaiseTo::Number(u64::MAX), u64::MAX, &terms), Err(NotRaised::UsedUp));
        assert_eq!((bound(950, &terms), covering(950, &terms)), (1_000, 1_000));
        assert_eq!((bound(u64::MAX, &terms), covering(u64::MAX, &terms)), (1_000, u64::MAX));
    }

    #[test]
    fn an_owner_is_followed_under_a_higher_number_only() {
        let mine = held(3, 1, 40, 20);
        let owner = |theirs: &SectionRecord| merge(Some(&mine), theirs).owner.session.0;
        assert_eq!([2, 3, 4].map(|g| owner(&record("a", 1, g, 9, 50))), [1, 1, 9]);
        assert_eq!([2, 3, 4].map(|g| contradicts(&mine, &record("a", 1, g, 9, 50))), [false, true, false]);
        assert!(!contradicts(&mine, &record("a", 1, 3, 1, 50)), "the same owner");
    }

    #[test]
    fn sections_of_a_name_have_one_home_and_names_are_spread_over_both() {
        let names = ["a", "b", "c", "d", "inbox", "orders", "seq"];
        assert_eq!(names.map(|name| home(&name.parse().unwrap()).number()), [2, 1, 2, 1, 1, 2, 2]);
    }

    proptest! {
        /// A bound only grows, and what a lost master may have raised by what it knew is covered by who goes on.
        #[test]
        fn whoever_goes_on_covers_what_the_other_one_may_have_raised(
            known in 0_u64..900, steps in proptest::collection::vec((any::<bool>(), 0_u64..2_000), 0..20),
        ) {
            let terms = terms(7, 100, 1_000);
            let mut max_seq = known;
            for (by_a_step, number) in steps {
                let to = if by_a_step { RaiseTo::ByAStep } else { RaiseTo::Number(number) };
                if let Ok(more) = raised(max_seq, to, bound(known, &terms), &terms) {
                    prop_assert!(more >= max_seq);
                    max_seq = more;
                }
            }
            prop_assert!(max_seq <= covering(known, &terms));
        }

        /// Records that come doubled or out of order end in the same one.
        #[test]
        fn merging_is_idempotent_and_commutative(
            (records, shuffled) in proptest::collection::vec((1_u64..4, 0_u64..50), 1..6)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        ) {
            let fold = |all: &[(u64, u64)]| all.iter().fold(None, |mine: Option<HeldSection>, (g, max)| {
                Some(merge(mine.as_ref(), &record("a", 1, *g, g + 100, *max)))
            });
            let doubled: Vec<_> = shuffled.iter().chain(&records).copied().collect();
            prop_assert_eq!(fold(&records), fold(&doubled));
        }

        /// Knowledge of a section never becomes less.
        #[test]
        fn merging_only_grows(g in 1_u64..4, max in 0_u64..50, their_g in 1_u64..4, theirs in 0_u64..50) {
            let mine = held(g, 1, max, 0);
            let merged = merge(Some(&mine), &record("a", 1, their_g, 1, theirs));
            prop_assert!(merged.max_seq >= max && merged.max_seq >= theirs && merged.g >= mine.g);
            prop_assert!(merged.peer_has >= theirs && merged.peer_has <= merged.max_seq);
        }
    }
}
