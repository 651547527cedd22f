//! The protocol's rules as small total functions, each with the sentence it stands for.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::audit::{Action, Actor, Cause, Entry};
use common::lease::{Lease, LeaseState, Prep, UNPROVED_SPAN};
use common::parameters::{AgentId, ClusterId, ClusterParameters, MasterId, SessionId};
use common::rpc::lease::{Mode, Refusal};
use common::time::{Now, WallMs};
use common::token::{TokenKey, TokenType};

/// Each value has one home, by its parity, and only the home proposes it. Without this both masters could propose one
/// value to two agents and both confirm: a duplicate with no fault and perfect clocks.
pub fn home(key: TokenKey) -> MasterId {
    if key.value.0 & 1 == 1 { MasterId::One } else { MasterId::Two }
}

/// A session that asks again gets the lease it has, as long as that is worth something.
pub fn still_good(lease: &Lease, now: Now) -> bool {
    lease.state == LeaseState::Held && !lease.deny && now.wall < lease.until
}

/// Whether a lease is this session's, asked for under this name. A session alone is not enough: who learned of one, and not
/// under which name it is known, has no claim to what it holds.
pub fn is_of(lease: &Lease, agent_id: &AgentId, session: SessionId) -> bool {
    lease.session == session && lease.agent_id == *agent_id
}

/// The other master confirms a proposal only if it knows of no promise that reaches into it: an older grant must have
/// ended here, and its last day must be over before the new one begins.
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

/// The proposal that this record came from: a doubled proposal is confirmed again.
pub fn same_grant(lease: &Lease, prep: &Prep) -> bool {
    is_of(lease, &prep.agent_id, prep.session) && (lease.g, lease.from) == (prep.g, prep.from)
}

/// Its time and its grace are over: the home may ask the other master to end it.
pub fn may_close(lease: &Lease, now: Now, parameters: &ClusterParameters) -> bool {
    lease.state == LeaseState::Held && now.wall >= lease.until + parameters.grace()
}

/// How far a grant reaches: a lease's length, or, where many grants were never followed up, to the end of the next day at most,
/// until its holder renews it. Shorter is always safe: the holder mints inside what it was told.
pub fn first_until(now: Now, parameters: &ClusterParameters, must_prove: bool) -> WallMs {
    let whole = now.wall + parameters.lease();
    let short = parameters.utc_offset().day_floor(now.wall) + UNPROVED_SPAN;
    if must_prove { whole.min(short) } else { whole }
}

/// How far a renewal reaches: never less than what was promised before, never further than the other master allows this
/// one to go alone.
pub fn renewed_until(lease: &Lease, now: Now, parameters: &ClusterParameters, permit: Option<WallMs>) -> WallMs {
    permit.map_or(lease.until, |permit| lease.until.max(permit.min(now.wall + parameters.lease())))
}

/// Whether what the holder was last promised, as far as this record knows, goes on: after that only what the record was lifted
/// to since, for what may have been forgotten, makes it look as if it did.
pub fn goes_on_by_itself(lease: &Lease, now: Now, parameters: &ClusterParameters) -> bool {
    now.wall < lease.renewed + parameters.lease()
}

/// A holder counts its renewals durably and marks each with a random number, so the same count with another mark, or a
/// lower count, comes from a second live copy of it: a clone of a running machine's memory.
pub fn two_live_copies(lease: &Lease, rseq: u64, attempt: u64) -> bool {
    rseq < lease.rseq || (rseq == lease.rseq && attempt != lease.attempt)
}

/// The line that a change of a record leaves in the audit: a new holder, a denial, an end. Renewals by their holders leave
/// none; one by an operator does, and so does a line of an operator's whose lease is denied already.
pub fn audited(
    key: TokenKey,
    known: Option<&Lease>,
    lease: &Lease,
    at: WallMs,
    by: impl Fn() -> Cause,
) -> Option<Entry> {
    let holder = || Actor::new(lease.agent_id.as_str(), &lease.address);
    let known = known.filter(|known| known.g == lease.g);
    let (action, actor) = match known {
        None if lease.state == LeaseState::Held => (Action::Grant, holder()),
        None => (Action::End, by().actor),
        Some(known) if lease.deny && !known.deny => match by() {
            Cause { actor, commanded: true } => (Action::Terminate, actor),
            Cause { actor, commanded: false } => (Action::Deny, actor),
        },
        Some(known) if known.state == LeaseState::Held && lease.state != LeaseState::Held => (Action::End, by().actor),
        _ => return None,
    };
    let subject = format!("{} {key}", lease.token_type);
    let (agent, session, g) = (&lease.agent_id, lease.session.shown(), lease.g);
    let detail = format!("g{g} of {agent}, session {session}, until {}", lease.until);
    Some(Entry::new(at, actor, action, &subject, &detail))
}

/// A record that a peer sends must at least be one that a peer could have.
pub fn plausible(
    key: TokenKey,
    token_type: TokenType,
    from: WallMs,
    until: WallMs,
    parameters: &ClusterParameters,
) -> bool {
    token_type.family() == key.family && token_type.admits(key.value, parameters.uint2_max()) && from <= until
}

/// What becomes of a record when the other master's view of the same value arrives. Higher `g` wins; within one grant
/// everything only grows. `None`: two holders of one grant, which cannot be.
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
    if is_of(mine, &theirs.agent_id, theirs.session) && mine.from == theirs.from {
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

/// Whether a master in this mode serves at all.
///
/// # Errors
/// Why not.
pub(crate) fn serves(mode: Mode) -> Result<(), Refusal> {
    match mode {
        Mode::Syncing => Err(Refusal::Syncing),
        Mode::RolledBack => Err(Refusal::RolledBack),
        Mode::Ready | Mode::ReadyAlone => Ok(()),
    }
}

/// Whether two belong to the same cluster, as far as both know theirs.
///
/// # Errors
/// [`Refusal::ForeignCluster`].
pub(crate) fn same_cluster(here: Option<ClusterId>, there: Option<ClusterId>) -> Result<(), Refusal> {
    match (here, there) {
        (Some(here), Some(there)) if here != there => Err(Refusal::ForeignCluster { here }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::lease::Generation;
    use common::token::{TokenFamily, TokenValue};
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

        /// No promise gets shorter, no denial and no ending is forgotten.
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
}
