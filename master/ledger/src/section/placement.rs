//! The owner that a section gets: next to its neighbours, so that the ranges stay compact, and by the memory that is left.

use ids::parameters::SessionId;
use ipnet::IpNet;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Neighbours within so many sections attract each other.
pub const NEAR: u32 = 256;
/// As many sections may an allocator be ahead of others because it is next to them.
pub const AHEAD: u64 = 64;

/// Somebody who may be given sections of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub session: SessionId,
    /// Memory that it may use for keys, in bytes.
    pub memory: u64,
    /// The part of that memory that counts beside others, in bytes ([`share`]).
    pub counted: u64,
    /// Memory that the sections would take that it has or is to have if all of their keys were used, in bytes: only for comparing.
    pub assigned: u64,
    /// Memory that it uses for keys, in bytes, as it says.
    pub used: u64,
    /// Calls a second, lately.
    pub per_second: u32,
}

impl Candidate {
    /// Tells whether there is memory left. Of most sections few keys are used at a time, so what counts is what is in use.
    pub fn has_room(&self) -> bool {
        self.used < self.memory
    }

    /// Gives what would be assigned to it if it had as much memory as `other`.
    fn assigned_as(&self, other: &Self) -> u128 {
        u128::from(self.assigned) * u128::from(other.counted) / u128::from(self.counted.max(1))
    }
}

/// Of its memory, in hundredths, that an allocator uses which has some left for a further network's share. Whoever is short of memory forgets
/// keys until three quarters are in use, and is asked for them again: it never uses all of it.
const HAS_LEFT_PERCENT: u64 = 60;

/// Lets the candidates of no network have more than so many percent of all, as long as those of another one have memory left: what of their
/// memory counts is less. Anybody can say that he has much memory.
pub fn share(mut candidates: Vec<(Option<IpNet>, Candidate)>, percent: u8) -> Vec<Candidate> {
    let mut of_network: BTreeMap<Option<IpNet>, u128> = BTreeMap::new();
    let has_left = |it: &Candidate| it.used < it.memory.saturating_mul(HAS_LEFT_PERCENT) / 100;
    for (network, it) in candidates.iter().filter(|(_, it)| has_left(it)) {
        let memory = of_network.entry(*network).or_default();
        *memory = memory.saturating_add(it.memory.into());
    }
    let all: u128 = of_network.values().sum();
    let percent = u128::from(percent);
    for (network, it) in &mut candidates {
        let own = of_network.get(network).copied().unwrap_or_default();
        let others = all.saturating_sub(own);
        let most = (others * percent).checked_div(100_u128.saturating_sub(percent)).unwrap_or(u128::MAX);
        if others > 0 && own > most {
            it.counted = u64::try_from(u128::from(it.memory) * most / own).unwrap_or(u64::MAX).max(1);
        }
    }
    candidates.into_iter().map(|(_, it)| it).collect()
}

/// Chooses who gets a section of `weight` bytes, if somebody has memory left: a neighbour that is not far ahead, else whoever has the least
/// for its memory, and of those the one with the fewest calls.
pub fn choose(candidates: &[Candidate], neighbours: [Option<SessionId>; 2], weight: u64) -> Option<SessionId> {
    let fitting = || candidates.iter().filter(|candidate| candidate.has_room());
    let least = fitting().min_by(|a, b| {
        let (mine, theirs) =
            (u128::from(a.assigned) * u128::from(b.counted), u128::from(b.assigned) * u128::from(a.counted));
        mine.cmp(&theirs).then(a.per_second.cmp(&b.per_second)).then(a.session.cmp(&b.session))
    })?;
    let near = |candidate: &&Candidate| {
        let ahead = u128::from(candidate.assigned).saturating_sub(least.assigned_as(candidate));
        ahead < u128::from(weight) * u128::from(AHEAD)
    };
    let neighbour = neighbours
        .into_iter()
        .flatten()
        .find_map(|session| fitting().find(|candidate| candidate.session == session).filter(near));
    Some(neighbour.unwrap_or(least).session)
}

/// Chooses whose so many sections of `weight` bytes beside each other become, in their order. Few go to one; of more than a neighbourhood each gets as
/// many as let all who get some have as much for their memory then.
pub fn divide(
    candidates: &[Candidate],
    neighbours: [Option<SessionId>; 2],
    weight: u64,
    sections: u32,
) -> Vec<(SessionId, u32)> {
    if u64::from(sections) <= AHEAD {
        let to = choose(candidates, neighbours, weight).filter(|_| sections > 0);
        return to.map(|to| (to, sections)).into_iter().collect();
    }
    let mut fitting: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.has_room()).collect();
    fitting.sort_by(|a, b| by_fill(a, b));
    // Of a few sections everybody would get next to nothing, each as a record of its own.
    fitting.truncate(usize::try_from(u64::from(sections) / AHEAD).unwrap_or(usize::MAX));
    let (mut bytes, mut counted, mut some) = (u128::from(weight) * u128::from(sections), 0_u128, 0);
    for it in &fitting {
        // This one has more than all before it would have with everything.
        if bytes * u128::from(it.counted.max(1)) <= u128::from(it.assigned) * counted {
            break;
        }
        bytes += u128::from(it.assigned);
        counted += u128::from(it.counted.max(1));
        some += 1;
    }
    fitting.truncate(some);
    let mut left = sections;
    let mut shares: Vec<(SessionId, u32)> = Vec::new();
    for it in fitting.iter().rev() {
        let its = (bytes * u128::from(it.counted.max(1)) / counted.max(1)).saturating_sub(it.assigned.into());
        let share = u32::try_from(its / u128::from(weight.max(1))).unwrap_or(u32::MAX).min(left);
        left -= share;
        shares.push((it.session, share));
    }
    // What is left by dividing goes to who has the least.
    if let Some((_, share)) = shares.last_mut() {
        *share += left;
    }
    // Next to what it has already each range is one with it.
    shares.sort_by_key(|(session, _)| match Some(*session) {
        session if session == neighbours[0] => 0,
        session if session == neighbours[1] => 2,
        _ => 1,
    });
    shares.retain(|(_, share)| *share > 0);
    shares
}

/// Sections in a block of those that are dealt.
const BLOCK: u32 = 128;
/// Blocks that are dealt, from the first section of a name on.
const BLOCKS: u32 = 16;

/// Chooses whose sections become that nobody had, in their order, from that one on: the first blocks of the name one by one, the rest
/// [divided](divide). Whoever numbers keys from 1 up uses the first ones alone, and they are spread over all allocators, too. The candidates
/// are those by what they have of this name: else all of a name that is used much would go to whoever came last.
pub fn deal(candidates: &[Candidate], weight: u64, (mut from, sections): (u32, u32)) -> Vec<(SessionId, u32)> {
    let mut candidates = candidates.to_vec();
    let end = from.saturating_add(sections);
    let mut dealt: Vec<(SessionId, u32)> = Vec::new();
    while from < end {
        let block = from / BLOCK;
        let (to, shares) = if block < BLOCKS {
            let to = block.saturating_add(1).saturating_mul(BLOCK).min(end);
            let its = choose(&candidates, [None, None], weight);
            (to, its.map(|session| (session, to.saturating_sub(from))).into_iter().collect())
        } else {
            let before = dealt.last().map(|(session, _)| *session);
            (end, divide(&candidates, [before, None], weight, end.saturating_sub(from)))
        };
        for (session, share) in shares {
            let its = candidates.iter_mut().filter(|it| it.session == session);
            its.for_each(|it| it.assigned = it.assigned.saturating_add(weight.saturating_mul(share.into())));
            match dealt.last_mut().filter(|(last, _)| *last == session) {
                Some((_, last)) => *last = last.saturating_add(share),
                None => dealt.push((session, share)),
            }
        }
        from = to;
    }
    dealt
}

/// The order of candidates by what they have for their memory.
fn by_fill(a: &Candidate, b: &Candidate) -> Ordering {
    let (mine, theirs) =
        (u128::from(a.assigned) * u128::from(b.counted), u128::from(b.assigned) * u128::from(a.counted));
    mine.cmp(&theirs).then(a.session.cmp(&b.session))
}

/// Finds who should give a section of `weight` bytes to whom, because the two are far apart: by more than a quarter, and by more than two
/// neighbourhoods, so that what one place attracts is not moved on at once; and as long as whoever gives still has more for its memory then,
/// or the section would come back.
pub fn uneven(candidates: &[Candidate], weight: u64) -> Option<(SessionId, SessionId)> {
    let most = candidates.iter().max_by(|a, b| by_fill(a, b))?;
    let least = candidates.iter().filter(|candidate| candidate.has_room()).min_by(|a, b| by_fill(a, b))?;
    let its = least.assigned_as(most);
    let far = its.saturating_mul(5) / 4 + u128::from(weight) * u128::from(2 * AHEAD);
    let then = Candidate { assigned: least.assigned.saturating_add(weight), ..*least };
    let stays = then.assigned_as(most) <= u128::from(most.assigned.saturating_sub(weight));
    (u128::from(most.assigned) > far && stays).then_some((most.session, least.session))
}

/// Lets what takes so many bytes go from one to another.
pub fn moved(candidates: &mut [Candidate], (from, to): (SessionId, SessionId), bytes: u64) {
    for it in candidates {
        match it.session {
            session if session == from => it.assigned = it.assigned.saturating_sub(bytes),
            session if session == to => it.assigned = it.assigned.saturating_add(bytes),
            _ => {}
        }
    }
}

/// Counts the sections of `weight` bytes that go from one to another until the two are [`uneven`] no more, `most` at most. Others do not count: what
/// goes to one at a beat is one range.
pub fn evening(candidates: &[Candidate], weight: u64, pair: (SessionId, SessionId), most: u32) -> u32 {
    let both = candidates.iter().filter(|it| it.session == pair.0 || it.session == pair.1);
    let both: Vec<Candidate> = both.copied().collect();
    let goes_on = |sections: u32| {
        let mut then = both.clone();
        moved(&mut then, pair, weight.saturating_mul(sections.into()));
        uneven(&then, weight) == Some(pair)
    };
    // It goes on after `low`, and not after `high` any more.
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if goes_on(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WEIGHT: u64 = 10;

    fn candidate(session: u128, memory: u64, sections: u64) -> Candidate {
        let assigned = sections * WEIGHT;
        Candidate { session: SessionId(session), memory, counted: memory, assigned, used: assigned, per_second: 0 }
    }

    fn chosen(candidates: &[Candidate], near: Option<u128>) -> Option<u128> {
        choose(candidates, [near.map(SessionId), None], WEIGHT).map(|session| session.0)
    }

    #[test]
    fn whoever_has_the_least_for_its_memory_gets_it() {
        assert_eq!(chosen(&[candidate(1, 10_000, 10), candidate(2, 10_000, 9)], None), Some(2));
        assert_eq!(chosen(&[candidate(1, 30_000, 10), candidate(2, 10_000, 9)], None), Some(1));
        let busy = Candidate { per_second: 9, ..candidate(1, 10_000, 0) };
        assert_eq!(chosen(&[busy, candidate(2, 10_000, 0)], None), Some(2));
    }

    /// One that is made up says that it has all the memory there can be: it gets what its network may have, and whoever is on another one
    /// gets the rest.
    #[test]
    fn no_network_gets_more_than_its_share_as_long_as_another_one_has_memory_left() {
        let network = |nth: u32| Some(format!("10.0.0.{nth}/32").parse().unwrap());
        let counted = |all: &[(u32, Candidate)], percent| {
            let all = all.iter().map(|(nth, it)| (network(*nth), *it)).collect();
            share(all, percent).iter().map(|it| it.counted).collect::<Vec<_>>()
        };
        let (honest, liar) = (candidate(1, 10_000, 0), candidate(2, 1 << 40, 0));
        assert_eq!(counted(&[(1, honest), (2, liar)], 50), [10_000, 10_000]);
        assert_eq!(counted(&[(1, honest), (2, liar)], 75), [10_000, 30_000]);
        assert_eq!(counted(&[(1, honest), (2, liar)], 100), [10_000, 1 << 40], "no limit");
        assert_eq!(counted(&[(1, honest), (1, liar)], 50), [10_000, 1 << 40], "there is no other network");
        assert_eq!(
            counted(&[(1, candidate(1, 100, 10)), (2, liar)], 50),
            [100, 1 << 40],
            "whoever is full takes nothing"
        );
        // An agent forgets keys long before its memory is used up, and goes on with what is left: it never takes all of it.
        let small = |used| Candidate { used, ..candidate(1, 100, 0) };
        assert_eq!(counted(&[(1, small(59)), (2, liar)], 50), [100, 100]);
        assert_eq!(
            counted(&[(1, small(60)), (2, liar)], 50),
            [100, 1 << 40],
            "what is forgotten by then is asked for again"
        );
        let large = Candidate { used: 10, ..candidate(2, 1 << 20, 1_000) };
        let both = share(vec![(network(1), Candidate { assigned: 1_000, ..small(75) }), (network(2), large)], 50);
        assert_eq!(uneven(&both, WEIGHT), None, "the one with next to no memory is as full as it gets");
        // Those of one network have its share together, each by its memory.
        let more = [(1, honest), (2, liar), (2, candidate(3, 1 << 40, 0)), (3, candidate(4, 6_000, 0))];
        assert_eq!(counted(&more, 50), [10_000, 8_000, 8_000, 6_000]);
        let mut all = share(vec![(network(1), honest), (network(2), liar)], 50);
        for _ in 0..200 {
            let to = choose(&all, [None, None], WEIGHT).unwrap();
            all.iter_mut().filter(|it| it.session == to).for_each(|it| it.assigned += WEIGHT);
        }
        assert_eq!(all.iter().map(|it| it.assigned / WEIGHT).collect::<Vec<_>>(), [100, 100]);
    }

    #[test]
    fn a_neighbour_gets_it_as_long_as_it_is_not_far_ahead() {
        let two = |ahead| [candidate(1, 100_000, ahead), candidate(2, 100_000, 0)];
        assert_eq!(chosen(&two(63), Some(1)), Some(1));
        assert_eq!(chosen(&two(64), Some(1)), Some(2));
        assert_eq!(chosen(&two(5), Some(3)), Some(2), "who is no candidate any more attracts nothing");
    }

    #[test]
    fn many_sections_are_cut_so_that_all_have_as_much_for_their_memory() {
        let divided = |all: &[Candidate], near: [Option<u128>; 2], sections| {
            let shares = divide(all, near.map(|session| session.map(SessionId)), WEIGHT, sections);
            shares.into_iter().map(|(session, share)| (session.0, share)).collect::<Vec<_>>()
        };
        let three = [candidate(1, 1 << 40, 0), candidate(2, 1 << 41, 300), candidate(3, 1 << 40, 100)];
        assert_eq!(divided(&three, [None, None], 1_000), [(2, 400), (3, 250), (1, 350)]);
        assert_eq!(divided(&three, [Some(1), Some(2)], 1_000), [(1, 350), (3, 250), (2, 400)]);
        // Who has more than all others would have gets none, and few go to one.
        assert_eq!(divided(&three, [None, None], 80), [(1, 80)]);
        assert_eq!(divided(&three, [None, None], 64), [(1, 64)]);
        assert_eq!(divided(&three, [None, None], 0), []);
        let full = Candidate { used: 5, ..candidate(2, 5, 0) };
        assert_eq!(divided(&[full, candidate(1, 1 << 40, 9)], [None, None], u32::MAX), [(1, u32::MAX)]);
        assert_eq!(divided(&[full], [None, None], 1_000), []);
        assert_eq!(divided(&[], [None, None], 1_000), []);
    }

    #[test]
    fn the_first_sections_of_a_name_are_spread_over_all_however_many_of_them_are_used() {
        let dealt = |all: &[Candidate], from, sections| {
            let shares = deal(all, WEIGHT, (from, sections));
            shares.into_iter().map(|(session, share)| (session.0, share)).collect::<Vec<_>>()
        };
        let two = [candidate(1, 1 << 40, 0), candidate(2, 1 << 40, 0)];
        assert_eq!(dealt(&two[..1], 0, 42_950), [(1, 42_950)], "one range");
        let shares = dealt(&two, 0, 42_950);
        assert!(shares.len() <= 18, "{shares:?}");
        for used in [256, 1_000, 1_500, 42_950] {
            let (mut from, mut its) = (0, [0, 0]);
            for (session, share) in &shares {
                its[*session as usize - 1] += (*share).min(u32::saturating_sub(used, from));
                from += share;
            }
            assert!(its.iter().all(|its| *its >= used / 3), "{used}: {its:?} of {shares:?}");
        }
        let many: Vec<Candidate> = (0..60).map(|session| candidate(session, 1 << 40, 0)).collect();
        assert!(dealt(&many, 0, 42_950).len() <= 76, "a few records, and one for each");
        assert_eq!(dealt(&two, 100, 28), [(1, 28)], "what is left of a block");
        assert_eq!((dealt(&two, 0, 0), dealt(&[], 0, 9)), (vec![], vec![]));
        assert_eq!(dealt(&two, u32::MAX - 200, 200).iter().map(|(_, share)| share).sum::<u32>(), 200);
    }

    proptest! {
        /// All are given, nobody gets what would be more even elsewhere, and then nothing is to be moved.
        #[test]
        fn whatever_is_cut_is_all_and_comes_to_rest(
            memories in proptest::collection::vec((1_u64..40, 0_u64..5_000), 1..6), sections in 65_u32..1_000_000,
        ) {
            let candidates = memories.iter().zip(1..).map(|((memory, has), session)| candidate(session, memory << 33, *has));
            let mut candidates: Vec<Candidate> = candidates.collect();
            let shares = divide(&candidates, [None, None], WEIGHT, sections);
            prop_assert_eq!(shares.iter().map(|(_, share)| u64::from(*share)).sum::<u64>(), u64::from(sections));
            let before = uneven(&candidates, WEIGHT).is_some();
            for (session, share) in shares {
                candidates.iter_mut().filter(|it| it.session == session).for_each(|it| it.assigned += u64::from(share) * WEIGHT);
            }
            prop_assert!(before || uneven(&candidates, WEIGHT).is_none(), "{:?}", candidates);
        }

        /// As many are moved as if one was moved after the other.
        #[test]
        fn evening_is_moving_one_after_the_other(most in 0_u64..3_000, least in 0_u64..3_000, memory in 1_u64..9, max in 0_u32..2_000) {
            let mut two = vec![candidate(1, 1 << 40, most), candidate(2, memory << 39, least)];
            let Some(pair) = uneven(&two, WEIGHT) else { return Ok(()) };
            let at_once = evening(&two, WEIGHT, pair, max);
            let mut one_by_one = 0;
            while one_by_one < max && uneven(&two, WEIGHT) == Some(pair) {
                moved(&mut two, pair, WEIGHT);
                one_by_one += 1;
            }
            prop_assert_eq!(at_once, one_by_one);
        }
    }

    #[test]
    fn nobody_gets_more_who_has_no_memory_left() {
        assert_eq!(chosen(&[candidate(1, 100, 10)], Some(1)), None);
        assert_eq!(chosen(&[candidate(1, 100, 9)], Some(1)), Some(1));
        assert_eq!(chosen(&[candidate(1, u64::MAX, 0), candidate(2, 0, 0)], None), Some(1));
        // Sections of which few keys are used, as many as ever.
        assert_eq!(chosen(&[Candidate { used: 99, ..candidate(1, 100, 500) }], Some(1)), Some(1));
        assert_eq!(chosen(&[], None), None);
    }

    #[test]
    fn only_what_is_far_apart_is_moved() {
        let apart = |most, least| {
            let two = [candidate(1, 1 << 20, most), candidate(2, 1 << 20, least)];
            uneven(&two, WEIGHT).map(|(from, to)| (from.0, to.0))
        };
        assert_eq!((apart(128, 0), apart(129, 0)), (None, Some((1, 2))));
        assert_eq!((apart(1_378, 1_000), apart(1_379, 1_000)), (None, Some((1, 2))));
        assert_eq!(uneven(&[candidate(1, 1 << 20, 500)], WEIGHT), None);
        // To who has next to no memory nothing moves that would be too much there.
        let tiny = |memory| uneven(&[candidate(1, 1 << 20, 1_000), candidate(2, memory, 0)], WEIGHT).is_some();
        assert_eq!((tiny(1 << 11), tiny(1 << 9)), (true, false));
        // Where nobody has room nothing moves.
        let full = Candidate { used: 5, ..candidate(2, 5, 0) };
        assert_eq!(uneven(&[candidate(1, 1 << 20, 500), full], WEIGHT), None);
    }
}
