//! The table of leases and proposals, with the indexes that keep every rule off a full scan.

use super::Stride;
use super::usage::{Limits, Usage, take_one, types_of};
use ids::lease::{Lease, LeaseState, Prep};
use ids::parameters::{AgentId, ClusterParameters, SessionId};
use ids::time::WallMs;
use ids::token::{Tier, TokenFamily, TokenKey, TokenType, TokenValue};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use wire::peer::PAGE_MAX;

/// The records of one master about every value. The two maps are the truth; the sets are derived from them and change
/// only with them, in [`Table::put_lease`], [`Table::put_prep`] and [`Table::drop_prep`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// The values that may be proposed here.
    own: Stride,
    parameters: ClusterParameters,
    leases: BTreeMap<TokenKey, Lease>,
    preps: BTreeMap<TokenKey, Prep>,
    /// All values of a tier below this one that are at home here have been granted or proposed before. A value never becomes
    /// ungranted again, so this only grows.
    granted_below: BTreeMap<Tier, u32>,
    /// Values at home here that are closed, by the instant from which on they may be granted again.
    resting: BTreeMap<Tier, BTreeSet<(WallMs, TokenValue)>>,
    /// Held values at home here, by the end of their lease.
    ends: BTreeSet<(WallMs, TokenKey)>,
    /// Leases and proposals that are not closed, by session.
    by_session: BTreeSet<(SessionId, TokenType, TokenKey)>,
    /// Leases and proposals that are not closed, by agent.
    by_agent: BTreeSet<(AgentId, TokenType, TokenKey)>,
    /// Counts the values at home here that have ever been granted or proposed, by the types that admit them.
    touched: BTreeMap<TokenType, u32>,
    usage: Usage,
}

impl Table {
    /// A table with these records in it, of a master that may propose the values in `own`.
    pub fn new(
        own: Stride,
        parameters: ClusterParameters,
        leases: impl IntoIterator<Item = (TokenKey, Lease)>,
        preps: impl IntoIterator<Item = Prep>,
    ) -> Self {
        let mut table = Self {
            own,
            parameters,
            leases: BTreeMap::new(),
            preps: BTreeMap::new(),
            granted_below: BTreeMap::new(),
            resting: BTreeMap::new(),
            ends: BTreeSet::new(),
            by_session: BTreeSet::new(),
            by_agent: BTreeSet::new(),
            touched: BTreeMap::new(),
            usage: Usage::new(Limits::DEFAULT, parameters.uint2_max()),
        };
        for (key, lease) in leases {
            table.put_lease(key, lease);
        }
        for prep in preps {
            table.put_prep(prep);
        }
        table
    }

    pub fn set_limits(&mut self, limits: Limits) {
        let mut usage = Usage::new(limits, self.parameters.uint2_max());
        self.leases.iter().for_each(|(key, lease)| usage.add_lease(*key, lease));
        self.preps.values().for_each(|prep| usage.add_prep(prep));
        self.usage = usage;
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The newest grant of `key`, if there ever was one.
    pub fn lease(&self, key: TokenKey) -> Option<&Lease> {
        self.leases.get(&key)
    }

    /// The proposal of `key` that waits for its confirmation.
    pub fn prep(&self, key: TokenKey) -> Option<&Prep> {
        self.preps.get(&key)
    }

    pub fn leases(&self) -> impl Iterator<Item = (TokenKey, &Lease)> {
        self.leases.iter().map(|(key, lease)| (*key, lease))
    }

    pub fn leases_after(&self, after: Option<TokenKey>) -> impl Iterator<Item = (TokenKey, &Lease)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.leases.range((start, Bound::Unbounded)).map(|(key, lease)| (*key, lease))
    }

    /// The records after `after`, ascending, the proposals too if they are wanted, and whether that was all. Not more than
    /// [`PAGE_MAX`] of both together; whatever is said of one value is on one page.
    pub fn page(&self, after: Option<TokenKey>, with_proposals: bool) -> (Vec<(TokenKey, Lease)>, Vec<Prep>, bool) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.leases_after(after).take(PAGE_MAX + 1);
        let mut records: Vec<_> = records.map(|(key, lease)| (key, lease.clone())).collect();
        let wanted = if with_proposals { PAGE_MAX + 1 } else { 0 };
        let mut proposals: Vec<_> =
            self.preps.range((start, Bound::Unbounded)).take(wanted).map(|(_, prep)| prep.clone()).collect();
        let mut keys: Vec<_> =
            records.iter().map(|(key, _)| *key).chain(proposals.iter().map(|prep| prep.key)).collect();
        keys.sort_unstable();
        let next = keys.get(PAGE_MAX).copied();
        if let Some(next) = next {
            records.retain(|(key, _)| *key < next);
            proposals.retain(|prep| prep.key < next);
        }
        (records, proposals, next.is_none())
    }

    pub fn preps(&self) -> impl Iterator<Item = &Prep> {
        self.preps.values()
    }

    /// Keys of a type that a session has and that are not closed, ascending.
    pub fn of_session(&self, session: SessionId, token_type: TokenType) -> impl Iterator<Item = TokenKey> {
        let first = TokenKey { family: TokenFamily::String2, value: TokenValue(0) };
        self.by_session
            .range((session, token_type, first)..)
            .take_while(move |(s, t, _)| (*s, *t) == (session, token_type))
            .map(|(_, _, key)| *key)
    }

    /// Keys that this agent has and that are not closed, ascending by type and key.
    pub fn of_agent(&self, agent_id: &AgentId) -> impl Iterator<Item = (TokenType, TokenKey)> {
        let first = TokenKey { family: TokenFamily::String2, value: TokenValue(0) };
        let start = (agent_id.clone(), TokenType::String2IncludeLetter, first);
        self.by_agent
            .range(start.clone()..)
            .take_while(move |(a, _, _)| *a == start.0)
            .map(|(_, token_type, key)| (*token_type, *key))
    }

    /// Tells whether this agent's session has anything that is not closed.
    pub fn holds(&self, agent_id: &AgentId, session: SessionId) -> bool {
        let its = |(_, key): (TokenType, TokenKey)| self.lease(key).is_some_and(|lease| lease.is_of(agent_id, session));
        self.of_agent(agent_id).any(its)
    }

    /// A lease of this agent's session that is not closed, and that nobody ended.
    pub fn in_force(&self, agent_id: &AgentId, session: SessionId) -> Option<&Lease> {
        let its = self.of_agent(agent_id).filter_map(|(_, key)| self.lease(key));
        its.into_iter().find(|lease| lease.is_of(agent_id, session) && !lease.deny)
    }

    /// Held values at home here whose lease ended before `instant`, the longest ended first.
    pub fn ended_before(&self, instant: WallMs) -> impl Iterator<Item = TokenKey> {
        self.ends.iter().take_while(move |(until, _)| *until < instant).map(|(_, key)| *key)
    }

    /// The value to grant next for `token_type`: of the first [`Tier`] that has any, one at home here that was never granted,
    /// else the one that rested longest. `today` is the first instant of the present day.
    pub fn pick(&self, token_type: TokenType, today: WallMs, allowed: impl Fn(TokenValue) -> bool) -> Option<TokenKey> {
        let family = token_type.family();
        let (uint2_max, size) = (self.parameters.uint2_max(), family.size(self.parameters.uint2_max()));
        let fits = |value: &TokenValue| token_type.admits(*value, uint2_max) && allowed(*value);
        let of_tier = |tier: Tier| {
            let start = self.granted_below.get(&tier).copied().unwrap_or(tier.first);
            let never = (start..tier.end.min(size))
                .map(TokenValue)
                .find(|value| fits(value) && self.never_granted_at_home(TokenKey { family, value: *value }));
            never.or_else(|| self.rested(tier, today).find(fits))
        };
        family.tiers().find_map(of_tier).map(|value| TokenKey { family, value })
    }

    /// Values that rested long enough to be granted again, the longest rested first.
    fn rested(&self, tier: Tier, today: WallMs) -> impl Iterator<Item = TokenValue> {
        let resting = self.resting.get(&tier).into_iter().flatten();
        resting.take_while(move |(reuse_at, _)| *reuse_at <= today).map(|(_, value)| *value)
    }

    /// Tells whether so few values of a type that are at home here are free that they are kept for who is known.
    pub(crate) fn is_nearly_empty(&self, token_type: TokenType, today: WallMs) -> bool {
        let uint2_max = self.parameters.uint2_max();
        let size = token_type.size(uint2_max);
        let at_home = self.own.count(size);
        let kept = (at_home * u32::from(self.usage.limits().kept_percent) / 100) as usize;
        let untouched = at_home.saturating_sub(self.touched.get(&token_type).copied().unwrap_or_default()) as usize;
        let rested = token_type.family().tiers().flat_map(|tier| self.rested(tier, today));
        let fitting = rested.filter(|value| token_type.admits(*value, uint2_max));
        kept > 0 && untouched <= kept && untouched + fitting.take(kept + 1).count() <= kept
    }

    /// Counts the values of each type that are neither promised to anybody nor resting, at home here or not.
    pub fn free(&self, today: WallMs) -> BTreeMap<TokenType, u32> {
        let uint2_max = self.parameters.uint2_max();
        let mut free: BTreeMap<_, _> = TokenType::pools(uint2_max).map(|kind| (kind, kind.size(uint2_max))).collect();
        let promised = |(key, lease): (&TokenKey, &Lease)| {
            let rested = lease.state == LeaseState::Closed && self.parameters.reuse_at(lease.until) <= today;
            (!rested && !self.preps.contains_key(key)).then_some(*key)
        };
        let taken = self.leases.iter().filter_map(promised).chain(self.preps.keys().copied());
        for token_type in taken.flat_map(|key| types_of(key, uint2_max)) {
            if let Some(count) = free.get_mut(&token_type) {
                *count = count.saturating_sub(1);
            }
        }
        free
    }

    fn touch(&mut self, key: TokenKey) {
        if self.never_granted_at_home(key) {
            types_of(key, self.parameters.uint2_max()).for_each(|kind| *self.touched.entry(kind).or_default() += 1);
        }
    }

    fn never_granted_at_home(&self, key: TokenKey) -> bool {
        self.own.contains(key.value) && !self.leases.contains_key(&key) && !self.preps.contains_key(&key)
    }

    pub fn put_lease(&mut self, key: TokenKey, lease: Lease) {
        self.touch(key);
        self.unindex(key);
        self.leases.insert(key, lease);
        self.index(key);
    }

    pub fn put_prep(&mut self, prep: Prep) {
        let key = prep.key;
        self.touch(key);
        self.unindex(key);
        self.preps.insert(key, prep);
        self.index(key);
    }

    /// Removes a proposal that became a lease, or that a newer grant overtook.
    pub fn drop_prep(&mut self, key: TokenKey) {
        self.unindex(key);
        let dropped = self.preps.remove(&key).is_some();
        if dropped && self.never_granted_at_home(key) {
            types_of(key, self.parameters.uint2_max()).for_each(|kind| take_one(&mut self.touched, &kind));
        }
        self.index(key);
    }

    fn unindex(&mut self, key: TokenKey) {
        if let Some(lease) = self.leases.get(&key) {
            self.usage.remove_lease(key, lease);
            if let Some(values) = self.resting.get_mut(&Tier::of(key)) {
                values.remove(&(self.parameters.reuse_at(lease.until), key.value));
            }
            self.ends.remove(&(lease.until, key));
            self.by_session.remove(&(lease.session, lease.token_type, key));
            self.by_agent.remove(&(lease.agent_id.clone(), lease.token_type, key));
        }
        if let Some(prep) = self.preps.get(&key) {
            self.usage.remove_prep(prep);
            self.by_session.remove(&(prep.session, prep.token_type, key));
            self.by_agent.remove(&(prep.agent_id.clone(), prep.token_type, key));
        }
    }

    fn index(&mut self, key: TokenKey) {
        let at_home = self.own.contains(key.value);
        let prep = self.preps.get(&key);
        if let Some(lease) = self.leases.get(&key) {
            self.usage.add_lease(key, lease);
        }
        match self.leases.get(&key) {
            None => {}
            Some(lease) if lease.state == LeaseState::Closed && at_home && prep.is_none() => {
                let rested = (self.parameters.reuse_at(lease.until), key.value);
                self.resting.entry(Tier::of(key)).or_default().insert(rested);
            }
            Some(lease) if lease.state == LeaseState::Closed => {}
            Some(lease) => {
                if at_home && lease.state == LeaseState::Held {
                    self.ends.insert((lease.until, key));
                }
                self.by_session.insert((lease.session, lease.token_type, key));
                self.by_agent.insert((lease.agent_id.clone(), lease.token_type, key));
            }
        }
        if let Some(prep) = prep {
            self.usage.add_prep(prep);
            self.by_session.insert((prep.session, prep.token_type, key));
            self.by_agent.insert((prep.agent_id.clone(), prep.token_type, key));
        }
        let tier = Tier::of(key);
        let end = tier.end.min(key.family.size(self.parameters.uint2_max()));
        let mut below = self.granted_below.get(&tier).copied().unwrap_or(tier.first);
        while below < end && !self.never_granted_at_home(TokenKey { family: key.family, value: TokenValue(below) }) {
            below += 1;
        }
        self.granted_below.insert(tier, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::calendar::UtcOffset;
    use ids::lease::Generation;
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    /// The values of master 1.
    const ODD: Stride = Stride::new(1, NonZeroU32::MIN.saturating_add(1));

    fn parameters() -> ClusterParameters {
        ClusterParameters::new(7, UtcOffset::default(), 15).unwrap()
    }

    fn lease(state: LeaseState, agent: u8, until: i64) -> Lease {
        let prep = prep(TokenKey { family: TokenFamily::Uint, value: TokenValue(0) }, agent, until);
        Lease { state, ..Lease::from_prep(&prep) }
    }

    fn prep(key: TokenKey, agent: u8, until: i64) -> Prep {
        Prep {
            key,
            g: Generation(1),
            token_type: TokenType::Uint2,
            agent_id: format!("a{agent}").parse().unwrap(),
            session: SessionId(agent.into()),
            address: String::new(),
            granted: WallMs(0),
            from: WallMs(0),
            until: WallMs(until),
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Lease(u32, u8, LeaseState, i64),
        Prep(u32, u8),
        Confirm(u32, u8),
    }

    fn change() -> impl Strategy<Value = Change> {
        let state = prop_oneof![Just(LeaseState::Held), Just(LeaseState::Closing), Just(LeaseState::Closed)];
        prop_oneof![
            (0u32..16, 0u8..3, state, 0i64..900_000_000).prop_map(|(v, a, s, u)| Change::Lease(v, a, s, u)),
            (0u32..16, 0u8..3).prop_map(|(v, a)| Change::Prep(v, a)),
            (0u32..16, 0u8..3).prop_map(|(v, a)| Change::Confirm(v, a)),
        ]
    }

    #[test]
    fn pages_hold_every_record_and_every_proposal_once_and_not_more_than_fit() {
        let parameters = ClusterParameters::new(7, UtcOffset::default(), 2_047).unwrap();
        let key = |v: u32| TokenKey { family: TokenFamily::Uint, value: TokenValue(v) };
        // Some values have a record, some a proposal, some both.
        let records = (0..700).filter(|v| v % 3 != 0).map(|v| (key(v), lease(LeaseState::Closed, 1, 1)));
        let proposals = (0..700).filter(|v| v % 3 != 1).map(|v| prep(key(v), 1, 1));
        let table = Table::new(ODD, parameters, records, proposals);
        for with_proposals in [false, true] {
            let (mut after, mut records, mut proposals) = (None, Vec::new(), Vec::new());
            loop {
                let (more, proposed, last) = table.page(after, with_proposals);
                assert!((PAGE_MAX - 1..=PAGE_MAX).contains(&(more.len() + proposed.len())) || last);
                after = more.last().map(|(key, _)| *key).max(proposed.last().map(|prep| prep.key));
                records.extend(more);
                proposals.extend(proposed);
                if last {
                    break;
                }
            }
            assert!(records.iter().map(|(key, lease)| (*key, lease)).eq(table.leases()));
            assert_eq!(proposals.len(), if with_proposals { table.preps.len() } else { 0 });
            assert!(proposals.iter().zip(table.preps()).all(|(said, known)| said == known));
        }
    }

    #[test]
    fn small_values_are_kept_for_layouts_with_narrow_tokens() {
        let parameters = ClusterParameters::new(7, UtcOffset::default(), 8_191).unwrap();
        let mut table = Table::new(ODD, parameters, [], []);
        let mut grant = |token_type| {
            let key = table.pick(token_type, WallMs(0), |_| true)?;
            table.put_prep(Prep { key, token_type, ..prep(key, 1, 1) });
            Some(key.value.0)
        };
        assert_eq!(grant(TokenType::Uint10Bit), Some(257));
        // What Uniq64 can write and no narrow layout needs, then ever smaller ones, and what Uniq64 cannot write at the end.
        let mut expected: Vec<u32> = (1_024..4_096).filter(|v| v % 2 == 1).collect();
        expected.extend((259..1_024).step_by(2).chain((33..256).step_by(2)).chain((1..32).step_by(2)));
        expected.extend((4_097..8_192).step_by(2));
        let granted: Vec<u32> = (0..expected.len()).filter_map(|_| grant(TokenType::Uint2)).collect();
        assert_eq!(granted, expected);
        assert_eq!((grant(TokenType::Uint2), grant(TokenType::Uint10Bit)), (None, None));
    }

    proptest! {
        /// The indexes after any sequence of changes are those that a table built from the same records has.
        #[test]
        fn indexes_follow_the_records(changes in proptest::collection::vec(change(), 0..60)) {
            let mut table = Table::new(ODD, parameters(), [], []);
            for change in changes {
                let key = |v: u32| TokenKey { family: TokenFamily::Uint, value: TokenValue(v) };
                match change {
                    Change::Lease(v, a, s, u) => table.put_lease(key(v), lease(s, a, u)),
                    Change::Prep(v, a) => table.put_prep(prep(key(v), a, 1)),
                    Change::Confirm(v, a) => {
                        table.drop_prep(key(v));
                        table.put_lease(key(v), lease(LeaseState::Held, a, 1));
                    }
                }
                let mut rebuilt = Table::new(ODD, parameters(), table.leases.clone(), table.preps.values().cloned());
                rebuilt.resting.retain(|_, values| !values.is_empty());
                let mut found = table.clone();
                found.resting.retain(|_, values| !values.is_empty());
                prop_assert_eq!(found, rebuilt);
            }
        }

        /// `pick` against its naive definition.
        #[test]
        fn the_longest_rested_value_at_home_is_picked(
            changes in proptest::collection::vec(change(), 0..60), today in 0i64..12,
        ) {
            let key = |v: u32| TokenKey { family: TokenFamily::Uint, value: TokenValue(v) };
            let mut table = Table::new(ODD, parameters(), [], []);
            for change in changes {
                match change {
                    Change::Lease(v, a, s, u) => table.put_lease(key(v), lease(s, a, u)),
                    Change::Prep(v, a) => table.put_prep(prep(key(v), a, 1)),
                    Change::Confirm(v, a) => {
                        table.drop_prep(key(v));
                        table.put_lease(key(v), lease(LeaseState::Held, a, 1));
                    }
                }
            }
            let today = WallMs(today * ids::time::DAY_MS);
            let naive = (0..16u32)
                .filter(|v| v % 2 == 1 && table.prep(key(*v)).is_none())
                .filter_map(|v| match table.lease(key(v)) {
                    None => Some((WallMs(i64::MIN), v)),
                    Some(l) if l.state == LeaseState::Closed => Some((parameters().reuse_at(l.until), v)),
                    Some(_) => None,
                })
                .filter(|(reuse_at, _)| *reuse_at <= today)
                .min()
                .map(|(_, v)| key(v));
            prop_assert_eq!(table.pick(TokenType::Uint2, today, |_| true), naive);
        }
    }
}
