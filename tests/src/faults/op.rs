//! Operations of an agent on its serial file, as steps of a life.

use net::rpc::mint::MintCode;

/// An operation of an agent on its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// `--format`.
    Format,
    /// The same, where an earlier one was killed.
    FormatAgain,
    /// A start that begins a new session.
    StartFresh,
    /// A start that goes on.
    StartResumed,
    /// Joins the cluster: a write of the lineage alone.
    Join,
    /// A lease is granted or renewed: the same.
    Lease,
    /// A renewal is numbered: the same.
    Promise,
    /// The first ID of an hour.
    Hour,
    /// More IDs than were reserved.
    More,
    /// More than half of those reserved: the next are reserved beside it.
    Reserve,
    /// The first string of a day.
    Day,
    /// A Uniq96 beyond the mark.
    Mark,
    /// A Uniq96 in the second half before it: the mark is moved beside it.
    Extend,
    /// A renewal is numbered after a write failed behind its rename: the whole file is written again, and named in no
    /// lineage beforehand.
    Again,
    /// A clean stop.
    End,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Format,
        Self::FormatAgain,
        Self::StartFresh,
        Self::StartResumed,
        Self::Join,
        Self::Lease,
        Self::Promise,
        Self::Hour,
        Self::More,
        Self::Reserve,
        Self::Day,
        Self::Mark,
        Self::Extend,
        Self::Again,
        Self::End,
    ];

    /// Tells whether it makes a new file.
    pub fn is_format(self) -> bool {
        matches!(self, Self::Format | Self::FormatAgain)
    }

    /// Tells whether it is a request for IDs.
    pub fn mints(self) -> bool {
        matches!(self, Self::Hour | Self::More | Self::Reserve | Self::Day | Self::Mark | Self::Extend)
    }

    /// Tells whether the caller gets its IDs although this fails: it is done beside the request.
    pub fn is_in_background(self) -> bool {
        matches!(self, Self::Reserve | Self::Extend)
    }
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As it should.
    Well,
    /// With an answer that says no.
    Refused(MintCode),
    /// A start or a format with a message to the operator.
    NotStarted(String),
    /// The process is dead.
    Killed,
}
