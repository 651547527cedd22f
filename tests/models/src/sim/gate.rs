//! The gate: each mechanism that is left out must lead to something that does not hold, or be known as redundant, with the
//! reason. A simulation that finds nothing in the product proves something only as far as it finds what is missing here.

use super::mutation::{Mutation, Mutations};
use super::swarm::Theme;
use super::{Setup, run};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The expected outcome when a mechanism is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A seed finds it.
    Caught,
    /// A seed finds it that is after something of the kind.
    CaughtIn(Theme),
    /// Hardly any seed does; a model walks the way that leads there.
    Modelled(&'static str),
    /// None does, because another mechanism covers it.
    Redundant(&'static str),
}

/// The seed that finds it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The rule that does not hold.
    pub what: String,
}

/// The expected outcome without `mutation`.
pub fn expected(mutation: Mutation) -> Expected {
    match mutation {
        Mutation::PrepsNotBumped
        | Mutation::PrepsKeptAtPeerLost
        | Mutation::PermitIgnored
        | Mutation::PermitKeptAfterJoin => Expected::CaughtIn(Theme::Replaced),
        Mutation::StoreCopyBelieved | Mutation::RollbackBelieved => Expected::CaughtIn(Theme::RolledBack),
        Mutation::QuietSkipped
        | Mutation::FloorIgnored
        | Mutation::CautionNotInherited
        | Mutation::ReceiptsIgnored
        | Mutation::RejectionIgnored
        | Mutation::UnprovenNotLifted
        | Mutation::LiftedIsTold
        | Mutation::ChallengeSkipped => Expected::CaughtIn(Theme::Forgotten),
        Mutation::ClosingNotBumped | Mutation::NoRest => Expected::CaughtIn(Theme::Ended),
        Mutation::CursorNotDurable
        | Mutation::ExtentNotConfirmed
        | Mutation::AxesNotTakenOver
        | Mutation::AnswerTakenTwice
        | Mutation::SegmentsKeptByFresh
        | Mutation::SegmentBelowMark
        | Mutation::SegmentMarkNotDurable
        | Mutation::RaiseNotDurable
        | Mutation::ConfirmWithoutBound
        | Mutation::NoWaitOfNextOwner
        | Mutation::ServedPastSpan
        | Mutation::SentCountsAsHeld
        | Mutation::TokenUsedIgnored
        | Mutation::NothingAddedAtLoss
        | Mutation::NothingAddedAtMeeting
        | Mutation::LateKeepBelieved
        | Mutation::RaiseAnswerOfAnotherG
        | Mutation::BoundsNotReadBack
        | Mutation::NotLoadedAnew
        | Mutation::StandstillUnseen
        | Mutation::LeavesUnsaid
        | Mutation::RunGoesOnAfterPutBack
        | Mutation::SectionPrepNotDurable => Expected::CaughtIn(Theme::Ranges),
        Mutation::OverwriteOnSync | Mutation::ClosedForged => Expected::CaughtIn(Theme::Any),
        Mutation::AnyLifeBelieved => Expected::Modelled(
            "about one cluster in ten thousand comes there; tests/models/tests/masters.rs has two ways to a duplicate, and an unknown grant",
        ),
        Mutation::LivesIgnored => Expected::Redundant(
            "two stores that go on from the same past end at different changes as soon as one of them has promised something; \
             that both are stopped before is shown by tests/tests/masters/copied_store.rs",
        ),
        Mutation::RaiseFromIgnored => Expected::Modelled(
            "only an owner needs it that stood still while its section moved and both masters were put back, where all that was given \
             since has been forgotten; in tests/models/tests/ranges.rs a number comes twice without",
        ),
        Mutation::ConfirmBlindly => Expected::Redundant(
            "a home proposes nothing before it holds the end of the grant before, which the other master has consented to; \
             the model finds the duplicate when that is left out too",
        ),
        Mutation::AnyConfirm => Expected::Redundant(
            "a proposal stands until it is answered, so there is no other one whose answer could be taken for its own; the \
             model finds the duplicate when proposals are dropped too",
        ),
        Mutation::UnconfirmedGoesOn => Expected::Redundant(
            "a copy of an agent's files is in another boot, mount or inode, and begins another session; what masters do with one \
             that looks the same is tried by agent/src/sequences/tests/resume.rs",
        ),
        Mutation::SectionReceiptsIgnored => Expected::Redundant(
            "stores are put back here only as far as one master's allowance reaches, and what was forgotten within that is skipped; the \
             model finds the duplicate when that is left out too, and that masters freeze is shown by tests/tests/masters/put_back.rs",
        ),
        Mutation::WritesNotCounted => Expected::Redundant(
            "a write makes a new file with a new inode and times of its own, and these are compared too",
        ),
        _ => Expected::Caught,
    }
}

/// The seed at which the search for a mechanism begins: for those that few seeds show, one that is known to, so that not all before
/// it are tried each time. It goes on from there as from anywhere, for a change of the simulation moves them.
fn known(mutation: Mutation) -> u64 {
    match mutation {
        Mutation::JoinedEmpty => 13,
        Mutation::ReleaseFrees => 15,
        Mutation::RunGoesOnAfterPutBack | Mutation::StandstillUnseen => 23,
        Mutation::NothingAddedAtMeeting => 25,
        Mutation::OverwriteOnSync => 27,
        Mutation::NothingAddedAtLoss | Mutation::PermitNotDurable | Mutation::NoBumpAtPeerLost => 33,
        Mutation::RollbackBelieved => 37,
        Mutation::WindowOutlivesLease => 45,
        Mutation::SentCountsAsHeld => 55,
        Mutation::BucketsGoBack => 60,
        Mutation::BoundsNotReadBack => 63,
        Mutation::RenewAfterClose => 78,
        Mutation::PrepAborted => 93,
        Mutation::NotLoadedAnew => 109,
        Mutation::SendBeforeCommit => 110,
        Mutation::ConfirmWithoutBound => 149,
        Mutation::Mark96NotDurable => 153,
        Mutation::PrepNotDurable | Mutation::PrepsDroppedAtPeerLost => 180,
        Mutation::HomeListsAfterPrep => 182,
        Mutation::SectionPrepNotDurable => 217,
        Mutation::ConfirmForged => 265,
        Mutation::CautionNotInherited => 279,
        Mutation::LateKeepBelieved => 306,
        Mutation::FloorIgnored => 460,
        Mutation::MintBeforeTheLease => 514,
        Mutation::CloseIgnoresUntil => 530,
        Mutation::BothPropose => 721,
        Mutation::PrepsKeptAtPeerLost => 738,
        Mutation::ClosedForged => 1_052,
        Mutation::RejectionIgnored => 1_202,
        Mutation::PermitKeptAfterJoin => 1_314,
        Mutation::NoRest => 1_386,
        Mutation::QuietSkipped => 1_765,
        Mutation::PrepsNotBumped => 1_827,
        Mutation::UnprovenNotLifted => 2_911,
        Mutation::ClosingNotBumped => 3_582,
        Mutation::ReceiptsIgnored => 3_677,
        _ => 1,
    }
}

/// Looks for a seed that shows that `mutation` is missing: the first of `seeds` from `from` on, or from the known one, each with so
/// many days of faults.
///
/// All `threads` stop at the first one; which of several is told may differ between two runs with more than one thread.
pub fn hunt(
    mutation: Mutation,
    theme: Option<Theme>,
    from: Option<u64>,
    seeds: u64,
    days: i64,
    threads: usize,
) -> Option<Found> {
    let from = from.unwrap_or_else(|| known(mutation));
    let end = from.saturating_add(seeds);
    let (next, found) = (AtomicU64::new(from), Mutex::new(None::<Found>));
    let mutations = Mutations::of(&[mutation]);
    // What all else rests on is looked for without them: the known seeds stay what they are, whatever is done with ranges.
    // What a store that was rolled back has forgotten of leases the other master knows nearly always, or their holders show it; what of its
    // cursors, nobody. And since a home moves sections only where it is heard, seeds that are after ranges alone hardly show what it lists
    // meanwhile.
    let alone = matches!(mutation, Mutation::RollbackBelieved | Mutation::HomeListsAfterPrep);
    let ranges = theme == Some(Theme::Ranges) || alone;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let outcome = run(&Setup { mutations, theme, ranges, ..Setup::plain(seed, days) });
                    if !outcome.fine() {
                        next.store(end, Ordering::Relaxed);
                        let what = outcome.told.into_iter().next().unwrap_or_default();
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        if found.as_ref().is_none_or(|known| seed < known.seed) {
                            *found = Some(Found { seed, what });
                        }
                        return;
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tells whether it came as expected, and gives the line that says so.
pub fn judge(mutation: Mutation, from: Option<u64>, seeds: u64, days: i64, threads: usize) -> (bool, String) {
    let expected = expected(mutation);
    let theme = match expected {
        Expected::CaughtIn(theme) => Some(theme),
        _ => None,
    };
    let found = hunt(mutation, theme, from, seeds, days, threads);
    match (expected, found) {
        (Expected::Redundant(why), None) => (true, format!("redundant  {mutation:<28} {why}")),
        (Expected::Modelled(why), None) => (true, format!("modelled   {mutation:<28} {why}")),
        (Expected::Redundant(_), Some(found)) => {
            (false, format!("NOT REDUNDANT  {mutation}: seed {} finds it: {}", found.seed, found.what))
        }
        (_, Some(found)) => {
            let theme = theme.map(|theme| format!(" --theme {theme}")).unwrap_or_default();
            (true, format!("caught     {mutation:<28} seed {}{theme}: {}", found.seed, found.what))
        }
        (_, None) => (false, format!("MISSED     {mutation}: none of {seeds} seeds finds it")),
    }
}
