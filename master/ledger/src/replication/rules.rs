//! The rules of agreeing as small total functions, each with the sentence it stands for.

use crate::lease::Stride;
use ids::lease::{Lease, LeaseState, Prep};
use ids::parameters::{ClusterParameters, MasterId};
use ids::time::WallMs;
use ids::token::{TokenKey, TokenType};
use std::num::NonZeroU32;

/// The number of masters, which take turns.
const MASTERS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// Each value has one home, by its parity, and only the home proposes it. Without this both masters could propose one
/// value to two agents and both confirm: a duplicate with no fault and perfect clocks.
pub fn home(key: TokenKey) -> MasterId {
    if key.value.0 & 1 == 1 { MasterId::One } else { MasterId::Two }
}

/// The values that are at home with a master, which it alone proposes.
pub fn at_home(master: MasterId) -> Stride {
    Stride::new(u32::from(master == MasterId::One), MASTERS)
}

/// Tells whether the other master confirms a proposal: only if it knows of no promise that reaches into it. An older
/// grant must have ended here, and its last day must be over before the new one begins.
pub fn may_confirm(known: Option<&Lease>, prep: &Prep, parameters: &ClusterParameters) -> bool {
    match known {
        None => true,
        Some(lease) => {
            lease.g < prep.g
                && lease.state != LeaseState::Held
                && prep.from >= parameters.utc_offset().day_ceil(lease.until)
        }
    }
}

/// Tells whether this record came from that proposal: a doubled proposal is confirmed again.
pub fn same_grant(lease: &Lease, prep: &Prep) -> bool {
    lease.is_of(&prep.agent_id, prep.session) && (lease.g, lease.from) == (prep.g, prep.from)
}

/// Tells whether a peer could have a record that it sends.
pub fn plausible(
    key: TokenKey,
    token_type: TokenType,
    from: WallMs,
    until: WallMs,
    parameters: &ClusterParameters,
) -> bool {
    token_type.family() == key.family && token_type.admits(key.value, parameters.uint2_max()) && from <= until
}

/// Merges a record with the other master's view of the same value. Higher `g` wins; within one grant everything only
/// grows. `None`: two holders of one grant, which cannot be.
pub fn merge(me: MasterId, key: TokenKey, mine: Option<&Lease>, theirs: &Lease) -> Option<Lease> {
    let at_home = home(key) == me;
    let state = |lease: LeaseState| match lease {
        // The other one has ended it and the home has now heard of it: both know.
        LeaseState::Closing | LeaseState::Closed if at_home => LeaseState::Closed,
        other => other,
    };
    let adopted = || Lease { state: state(theirs.state), ..theirs.clone() };
    let Some(mine) = mine else { return Some(adopted()) };
    if theirs.g > mine.g {
        return Some(adopted());
    }
    if theirs.g < mine.g {
        return Some(mine.clone());
    }
    if mine.is_of(&theirs.agent_id, theirs.session) && mine.from == theirs.from {
        let (rseq, attempt) = (mine.rseq, mine.attempt).max((theirs.rseq, theirs.attempt));
        return Some(Lease {
            state: mine.state.max(state(theirs.state)),
            until: mine.until.max(theirs.until),
            renewed: mine.renewed.max(theirs.renewed),
            deny: mine.deny || theirs.deny,
            rseq,
            attempt,
            ..mine.clone()
        });
    }
    None
}

/// The open ones of `leases` that end before `bound`, lifted to it.
pub(crate) fn lifted<'a>(
    leases: impl Iterator<Item = (TokenKey, &'a Lease)>,
    bound: Option<WallMs>,
) -> Vec<(TokenKey, Lease)> {
    let Some(until) = bound else { return Vec::new() };
    let short = |lease: &Lease| lease.state != LeaseState::Closed && lease.until < until;
    leases.filter(|(_, lease)| short(lease)).map(|(key, lease)| (key, Lease { until, ..lease.clone() })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::lease::Generation;
    use ids::parameters::SessionId;
    use ids::token::{TokenFamily, TokenValue};
    use proptest::prelude::*;

    fn lease() -> impl Strategy<Value = Lease> {
        let state = prop_oneof![Just(LeaseState::Held), Just(LeaseState::Closing), Just(LeaseState::Closed)];
        (1u64..4, state, 10i64..20, any::<bool>(), 0u64..3, 0u64..3).prop_map(
            |(g, state, until, deny, rseq, attempt)| {
                Lease {
                    g: Generation(g),
                    state,
                    token_type: TokenType::Uint2,
                    agent_id: "a".parse().unwrap(),
                    // One holder for each grant: that is what the protocol promises.
                    session: SessionId(g.into()),
                    address: String::new(),
                    granted: WallMs(0),
                    renewed: WallMs(until),
                    from: WallMs(0),
                    until: WallMs(until),
                    deny,
                    rseq,
                    attempt,
                }
            },
        )
    }

    fn key(value: u32) -> TokenKey {
        TokenKey { family: TokenFamily::Uint, value: TokenValue(value) }
    }

    fn fold(me: MasterId, messages: &[Lease]) -> Lease {
        messages.iter().fold(None, |mine: Option<Lease>, theirs| merge(me, key(1), mine.as_ref(), theirs)).unwrap()
    }

    proptest! {
        /// Messages that are doubled or out of order end in the same record.
        #[test]
        fn merge_is_idempotent_and_commutative(
            (messages, shuffled) in proptest::collection::vec(lease(), 1..6)
                .prop_flat_map(|messages| (Just(messages.clone()), Just(messages).prop_shuffle())),
            home in any::<bool>(),
        ) {
            let me = if home { MasterId::One } else { MasterId::Two };
            let doubled: Vec<Lease> = shuffled.iter().chain(messages.iter()).cloned().collect();
            prop_assert_eq!(fold(me, &messages), fold(me, &doubled));
        }

        /// Shows that no promise gets shorter, and that no denial and no ending is forgotten.
        #[test]
        fn merge_only_grows(mine in lease(), theirs in lease(), home in any::<bool>()) {
            let me = if home { MasterId::One } else { MasterId::Two };
            let merged = merge(me, key(1), Some(&mine), &theirs).unwrap();
            prop_assert!(merged.g >= mine.g);
            if merged.g == mine.g {
                prop_assert!(merged.until >= mine.until && merged.state >= mine.state && merged.deny >= mine.deny);
            }
        }
    }

    #[test]
    fn two_holders_of_one_grant_are_not_merged() {
        let mine = Lease::from_prep(&Prep {
            key: key(1),
            g: Generation(1),
            token_type: TokenType::Uint2,
            agent_id: "a".parse().unwrap(),
            session: SessionId(1),
            address: String::new(),
            granted: WallMs(0),
            from: WallMs(0),
            until: WallMs(9),
        });
        let theirs = Lease { session: SessionId(2), ..mine.clone() };
        assert_eq!(merge(MasterId::One, key(1), Some(&mine), &theirs), None);
    }

    #[test]
    fn each_value_has_one_home_and_is_counted_there() {
        for value in 0..9 {
            for master in [MasterId::One, MasterId::Two] {
                let own = at_home(master);
                assert_eq!(own.contains(TokenValue(value)), home(key(value)) == master);
                let before = (0..value).filter(|value| home(key(*value)) == master).count();
                assert_eq!(own.count(value) as usize, before);
            }
        }
    }
}
