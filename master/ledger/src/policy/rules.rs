//! The rules of granting, extending and ending as small total functions, each with the sentence it stands for.

use ids::audit::{Action, Actor, Cause, Entry};
use ids::lease::{Lease, LeaseState, UNPROVED_SPAN};
use ids::namespace::Namespace;
use ids::parameters::{ClusterId, ClusterParameters};
use ids::sequence::KEYS_PER_SECTION_LEAST;
use ids::template::Template;
use ids::time::{Now, WallMs};
use ids::token::TokenKey;
use wire::lease::Refusal;

/// Tells whether a session that asks again gets the lease it has: as long as that is worth something.
pub fn still_good(lease: &Lease, now: Now) -> bool {
    lease.state == LeaseState::Held && !lease.deny && now.wall < lease.until
}

/// Tells whether a lease may be ended: its time and its grace are over.
pub fn may_close(lease: &Lease, now: Now, parameters: &ClusterParameters) -> bool {
    lease.state == LeaseState::Held && now.wall >= lease.until + parameters.grace()
}

/// Tells whether a lease can be denied: it is held, and was not denied before.
pub fn may_deny(lease: &Lease) -> bool {
    !lease.deny && lease.state == LeaseState::Held
}

/// The end of a new grant: a lease's length, or, where many grants were never followed up, the end of the next day at most,
/// until its holder renews it. Shorter is always safe: the holder mints inside what it was told.
pub fn first_until(now: Now, parameters: &ClusterParameters, must_prove: bool) -> WallMs {
    let whole = now.wall + parameters.lease();
    let short = parameters.utc_offset().day_floor(now.wall) + UNPROVED_SPAN;
    if must_prove { whole.min(short) } else { whole }
}

/// The end that a renewal gives: never less than what was promised before, never further than this master may go by
/// itself, which is `bound`.
pub fn renewed_until(lease: &Lease, now: Now, parameters: &ClusterParameters, bound: Option<WallMs>) -> WallMs {
    bound.map_or(lease.until, |bound| lease.until.max(bound.min(now.wall + parameters.lease())))
}

/// The end that the holder of a lease is told, which is no further than `lease` and than what another master can know of: what the
/// holder has `shown` a receipt for, the least that a grant of then was confirmed with, and what this master may promise by itself
/// now, which is `bound`.
///
/// A record can reach further than that. It was lifted here, to what the other master was permitted and may have promised before
/// it forgot; whether that one ever hears of the lift is open. If a holder was told the lifted end, the other master could end the
/// lease before it.
pub fn told_until(
    lease: &Lease,
    now: Now,
    parameters: &ClusterParameters,
    bound: Option<WallMs>,
    shown: Option<WallMs>,
) -> WallMs {
    let granted = Now { wall: lease.granted, ..now };
    let confirmed = first_until(granted, parameters, true).max(lease.from);
    let permitted = bound.map(|bound| bound.min(now.wall + parameters.lease()));
    permitted.max(shown).map_or(confirmed, |known| known.max(confirmed)).min(lease.until)
}

/// Tells whether what the holder was last promised, as far as this record knows, goes on: after that only what the record was
/// lifted to since, for what may have been forgotten, makes it look as if it did.
pub fn goes_on_by_itself(lease: &Lease, now: Now, parameters: &ClusterParameters) -> bool {
    now.wall < lease.renewed + parameters.lease()
}

/// Tells whether two live copies of one holder renew. A holder counts its renewals durably and marks each with a random number, so the same
/// count with another mark, or a lower count, comes from a second live copy of it: a clone of a running machine's memory.
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

/// Checks that two belong to the same cluster, as far as both know theirs.
///
/// # Errors
/// [`Refusal::ForeignCluster`].
pub(crate) fn same_cluster(here: Option<ClusterId>, there: Option<ClusterId>) -> Result<(), Refusal> {
    match (here, there) {
        (Some(here), Some(there)) if here != there => Err(Refusal::ForeignCluster { here }),
        _ => Ok(()),
    }
}

/// Tells whether anybody may register a name that stands for this, and not operators alone.
///
/// # Errors
/// [`Refusal::SmallSections`], [`Refusal::BroadTemplate`].
pub fn by_anybody(namespace: &Namespace) -> Result<(), Refusal> {
    if namespace.sequences().is_some_and(|its| its.keys_per_section() < KEYS_PER_SECTION_LEAST) {
        return Err(Refusal::SmallSections { least: KEYS_PER_SECTION_LEAST });
    }
    // One whose scope is its own keeps out those whose scope is the kind.
    match namespace.template().and_then(Template::broad) {
        Some((open, len)) => Err(Refusal::BroadTemplate { open, len }),
        None => Ok(()),
    }
}
