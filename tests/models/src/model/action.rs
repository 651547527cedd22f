//! Events that can happen to the masters, and the text of a path of them.

use super::greetings::GREETINGS_MAX;
use super::twins::Twin;
use common::lease::Generation;
use common::parameters::SessionId;
use common::time::{DAY_MS, WallMs};
use common::token::TokenKey;
use std::fmt;
use wire::peer::PeerFrame;

/// Something that can happen. Masters are counted: 0 and 1 are the first two, 2 and on their replacements.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// An agent wants a token.
    Request { at: usize, session: SessionId, wall: WallMs },
    /// An agent renews what it was promised.
    Renew { at: usize, key: TokenKey, g: Generation, session: SessionId, wall: WallMs },
    /// An agent gives back what it was promised.
    Release { at: usize, key: TokenKey, g: Generation, session: SessionId, wall: WallMs },
    /// A beat: a heartbeat goes out, proposals again, what is over is ended.
    Beat { at: usize, wall: WallMs },
    /// Messages arrive.
    Deliver { at: usize, id: u64, frame: Box<PeerFrame>, wall: WallMs },
    /// The other master answers a page of its table to one that is alone.
    CutPage { at: usize, from: usize },
    /// That page arrives.
    TakePage { at: usize },
    /// A crash, and a new start.
    Restart { at: usize },
    /// A master's folder is copied, and the copy started beside it.
    Copy { at: usize },
    /// A master connects to another, and all greetings arrive, or only the first so many.
    Greet { at: usize, with: usize, count: usize },
    /// The operator declares the other one lost.
    PeerLost { survivor: usize },
    /// The replacement joins, step by step.
    Join,
    /// Somebody keeps a copy of this master's disk.
    Keep { at: usize },
    /// This master ends, its disk is put back to the copy, and it starts again: it cannot prove that its store is the one it
    /// last wrote.
    PutBack { at: usize },
    /// Somebody keeps copies of both disks.
    KeepBoth,
    /// Both end, are put back to the copies, and start again.
    Revert,
    /// Agents have had time to show what they hold.
    QuietEnds { at: usize },
    /// Only what a twin does.
    Twin { at: usize, twin: Twin },
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = |wall: &WallMs| wall.0.div_euclid(DAY_MS);
        match self {
            Self::Request { at, session, wall } => write!(f, "day {}: {} asks {at}", day(wall), session.0),
            Self::Renew { at, key, g, session, wall } => {
                write!(f, "day {}: {} renews {key} g{g} at {at}", day(wall), session.0)
            }
            Self::Release { at, key, g, session, .. } => write!(f, "{} gives back {key} g{g} at {at}", session.0),
            Self::Beat { at, wall } => write!(f, "day {}: {at} beats", day(wall)),
            Self::Deliver { at, frame, wall, .. } => {
                let epoch = frame.epoch.map_or(0, |epoch| epoch.0);
                write!(f, "day {}: {at} receives, of pairing {epoch}, {:?}", day(wall), frame.message)
            }
            Self::CutPage { at, from } => write!(f, "{from} answers its table to {at}"),
            Self::TakePage { at } => write!(f, "that table arrives at {at}"),
            Self::Keep { at } => write!(f, "somebody copies the disk of {at}"),
            Self::PutBack { at } => write!(f, "the copy is put back at {at}, which starts again"),
            Self::KeepBoth => write!(f, "somebody copies both disks"),
            Self::Revert => write!(f, "both copies are put back, and both start again"),
            Self::QuietEnds { at } => write!(f, "the quiet time of {at} is over"),
            Self::Restart { at } => write!(f, "{at} crashes and starts again"),
            Self::Copy { at } => write!(f, "{at} is copied"),
            Self::Greet { at, with, count: GREETINGS_MAX } => write!(f, "{at} connects to {with}"),
            Self::Greet { at, with, count } => write!(f, "{at} connects to {with}, and {count} greetings arrive"),
            Self::PeerLost { survivor } => write!(f, "the other one is declared lost at {survivor}"),
            Self::Join => write!(f, "the replacement joins, a step further"),
            Self::Twin { at, twin } => write!(f, "{at}: {twin:?}"),
        }
    }
}
