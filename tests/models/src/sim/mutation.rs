//! The protocol with mechanisms taken away: a simulation that could not find the duplicate there would prove nothing
//! where it finds none. The product's code stays as it is; what it is given, or what comes out of it, is bent.

use super::swarm::words;
use std::fmt;
use std::str::FromStr;

words! {
    /// One mechanism less.
    Mutation {
        /// A master sends before its commit is durable.
        SendBeforeCommit = "send-before-commit",
        /// A renewal is not made durable.
        RenewalNotDurable = "renewal-not-durable",
        /// A proposal is not made durable.
        PrepNotDurable = "prep-not-durable",
        /// A lease that a master confirms is not made durable.
        ConfirmNotDurable = "confirm-not-durable",
        /// The permit for the other master is not made durable.
        PermitNotDurable = "permit-not-durable",
        /// Records of the other master are believed instead of merged.
        OverwriteOnSync = "overwrite-on-sync",
        /// Nothing is added to the leases when a master is declared lost.
        NoBumpAtPeerLost = "no-bump-at-peer-lost",
        /// Nothing is added then to the leases whose end was begun.
        ClosingNotBumped = "closing-not-bumped",
        /// Proposals are dropped when a master is declared lost.
        PrepsDroppedAtPeerLost = "preps-dropped-at-peer-lost",
        /// They become leases, but nothing is added to them.
        PrepsNotBumped = "preps-not-bumped",
        /// They stay proposals.
        PrepsKeptAtPeerLost = "preps-kept-at-peer-lost",
        /// Masters extend leases without a permit.
        PermitIgnored = "permit-ignored",
        /// A survivor keeps the permit of its lost peer when the new one takes its snapshot.
        PermitKeptAfterJoin = "permit-kept-after-join",
        /// Messages of another pairing are believed.
        EpochIgnored = "epoch-ignored",
        /// A survivor that was put back to before its replacement joined does not listen to it.
        TokenUsedIgnored = "token-used-ignored",
        /// A store that was rolled back is believed.
        RollbackBelieved = "rollback-believed",
        /// A copy of a master's store, or one that was put back, is taken for the untouched one.
        StoreCopyBelieved = "store-copy-believed",
        /// Nobody lifts leases for a master that cannot prove its store.
        UnprovenNotLifted = "unproven-not-lifted",
        /// Holders are told the end that their lease was lifted to.
        LiftedIsTold = "lifted-is-told",
        /// Receipts that holders can show are not looked at.
        ReceiptsIgnored = "receipts-ignored",
        /// Two masters that cannot prove their stores grant as soon as they meet.
        QuietSkipped = "quiet-skipped",
        /// After both ledgers were put back, what they may have forgotten is granted at once.
        FloorIgnored = "floor-ignored",
        /// A replacement is not told what keeps the survivor from granting.
        CautionNotInherited = "caution-not-inherited",
        /// The starts of the other master are not compared.
        LivesIgnored = "lives-ignored",
        /// A message is believed whichever of the other master's lives says it.
        AnyLifeBelieved = "any-life-believed",
        /// A greeting that may be old is acted on, without asking for it again.
        ChallengeSkipped = "challenge-skipped",
        /// A replacement starts without the survivor's table.
        JoinedEmpty = "joined-empty",
        /// A master serves everything from its start, before the tables are exchanged.
        ServeBeforeSync = "serve-before-sync",
        /// The seed, taken literally: a master proposes values that are not at home there, and the home confirms.
        BothPropose = "both-propose",
        /// A type of token that is a part of another is taken for a pool of its own: leases of the other types are not looked at.
        TypesApart = "types-apart",
        /// The home grants without the other's confirmation.
        ConfirmForged = "confirm-forged",
        /// A proposal is confirmed whatever is known of an older grant.
        ConfirmBlindly = "confirm-blindly",
        /// Any confirmation of a value confirms the proposal that stands.
        AnyConfirm = "any-confirm",
        /// A proposal that the other master rejects goes on being proposed.
        RejectionIgnored = "rejection-ignored",
        /// A proposal that is not answered at once is forgotten.
        PrepAborted = "prep-aborted",
        /// The home ends leases without the other.
        ClosedForged = "closed-forged",
        /// A master that is asked to end a lease does not look how far it renewed it itself.
        CloseIgnoresUntil = "close-ignores-until",
        /// A lease that is ending or ended is renewed.
        RenewAfterClose = "renew-after-close",
        /// A value that is closed is granted again without a rest.
        NoRest = "no-rest",
        /// A terminated value is free at once.
        ReleaseFrees = "release-frees",
        /// An agent is known by its name, and its session not looked at.
        SessionIgnored = "session-ignored",
        /// Any lineage is believed at a start.
        AnyLineageResumes = "any-lineage-resumes",
        /// A copy of the file is taken for the file.
        CopyResumes = "copy-resumes",
        /// A file that was changed in place is taken for the untouched one.
        ChangeOverlooked = "change-overlooked",
        /// Another boot is taken for the same one.
        RebootResumes = "reboot-resumes",
        /// The count of writes is not compared.
        WritesNotCounted = "writes-not-counted",
        /// A failed write of the serial file counts as durable.
        FailedWriteBelieved = "failed-write-believed",
        /// Serials are given out before they are durable.
        MintBeforeDurable = "mint-before-durable",
        /// A start goes on below the durable mark.
        ResumeBelowMark = "resume-below-mark",
        /// The mark of Uniq96 is not made durable.
        Mark96NotDurable = "mark96-not-durable",
        /// Each of two names with one layout counts by itself.
        AxesNotShared = "axes-not-shared",
        /// An agent's buckets may go back.
        BucketsGoBack = "buckets-go-back",
        /// Serials go on past what a bucket has.
        WrapPastCapacity = "wrap-past-capacity",
        /// An agent mints past its lease.
        MintPastTheLease = "mint-past-the-lease",
        /// An agent mints before its lease begins.
        MintBeforeTheLease = "mint-before-the-lease",
        /// A window is used on when its lease is over or another one's.
        WindowOutlivesLease = "window-outlives-lease",
        /// The rest of a master's extents after a segment is not made durable.
        CursorNotDurable = "cursor-not-durable",
        /// A master grants of an extent before the other one has confirmed it.
        ExtentNotConfirmed = "extent-not-confirmed",
        /// A store that was put back goes on with its run.
        RunGoesOnAfterPutBack = "run-goes-on-after-put-back",
        /// A replacement is not told how far axes are granted.
        AxesNotTakenOver = "axes-not-taken-over",
        /// An agent takes whatever segment comes for the one that it waits for.
        AnswerTakenTwice = "answer-taken-twice",
        /// A fresh session goes on with the segments that it finds.
        SegmentsKeptByFresh = "segments-kept-by-fresh",
        /// A start goes on below the marks in its segments.
        SegmentBelowMark = "segment-below-mark",
        /// The marks of an agent in its segments are not made durable.
        SegmentMarkNotDurable = "segment-mark-not-durable",
        /// A raised bound of a section is not made durable.
        RaiseNotDurable = "raise-not-durable",
        /// The proposal of a section's next owner is not made durable.
        SectionPrepNotDurable = "section-prep-not-durable",
        /// A master that confirms a section's next owner does not say how far it was raised.
        ConfirmWithoutBound = "confirm-without-bound",
        /// The next owner of a section serves at once.
        NoWaitOfNextOwner = "no-wait-of-next-owner",
        /// An owner serves on when no master has answered for too long.
        ServedPastSpan = "served-past-span",
        /// Raised bounds that were told count as held by the other master.
        SentCountsAsHeld = "sent-counts-as-held",
        /// Nothing is added to bounds when a master is declared lost.
        NothingAddedAtLoss = "nothing-added-at-loss",
        /// Nor by a master that may have forgotten, when it meets the other one.
        NothingAddedAtMeeting = "nothing-added-at-meeting",
        /// The home lists a section for its owner when it has proposed the next one.
        HomeListsAfterPrep = "home-lists-after-prep",
        /// A lease of sections counts from its answer, not from its question.
        LateKeepBelieved = "late-keep-believed",
        /// A bound counts for whichever owner an agent is.
        RaiseAnswerOfAnotherG = "raise-answer-of-another-g",
        /// An owner does not look where a master's bound was before it was raised.
        RaiseFromIgnored = "raise-from-ignored",
        /// A section is not loaded anew after a span that ended.
        NotLoadedAnew = "not-loaded-anew",
        /// Nobody shows what it was granted of sections.
        SectionReceiptsIgnored = "section-receipts-ignored",
        /// An agent does not compare its clock with the masters'.
        StandstillUnseen = "standstill-unseen",
        /// An agent that goes on with its sections does not go by what it wrote down of them.
        BoundsNotReadBack = "bounds-not-read-back",
        /// An allocator that can write down no bounds keeps its sections.
        LeavesUnsaid = "leaves-unsaid",
        /// An agent goes on with its sections before a master has renewed one of its leases.
        UnconfirmedGoesOn = "unconfirmed-goes-on",
    }
}

/// The mechanisms that are left out of one simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mutations(u128);

impl Mutations {
    /// The product as it is.
    pub const NONE: Self = Self(0);

    /// Without these.
    pub fn of(mutations: &[Mutation]) -> Self {
        Self(mutations.iter().fold(0, |bits, mutation| bits | 1_u128 << *mutation as u32))
    }

    /// Tells whether this one is left out.
    pub fn has(self, mutation: Mutation) -> bool {
        self.0 >> mutation as u32 & 1 == 1
    }
}

impl FromStr for Mutations {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let each: Result<Vec<Mutation>, String> =
            text.split('+').filter(|word| !word.is_empty() && *word != "none").map(str::parse).collect();
        each.map(|mutations| Self::of(&mutations))
    }
}

impl fmt::Display for Mutations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = Mutation::ALL.iter().filter(|m| self.has(**m)).map(|m| m.word()).collect();
        f.write_str(if words.is_empty() { "none" } else { "" })?;
        f.write_str(&words.join("+"))
    }
}
