//! Messages of one master to the other.
//!
//! Every message stands by itself, may be lost, doubled, late or out of order, and is answered, if at all, by another
//! message the other way: the call itself only says that the message was taken in.

use super::lease::{AgentReport, Mode, Refusal};
use super::ranges::SeenAllocator;
use ids::audit::{Actor, Cause};
use ids::lease::{Caution, Floor, Generation, Lease, Prep};
use ids::namespace::GeneratorName;
use ids::parameters::{AgentId, ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use ids::sequence::{Section, SectionBound, SectionKey, SectionRecord};
use ids::setting::{Change, Setting, SettingKey};
use ids::time::{BootMs, TestClock, WallMs};
use ids::token::{TokenKey, TokenType};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The most messages in one delivery.
pub const BATCH_MAX: usize = 256;
/// The most records and proposals in one page of a table. With names and addresses of full length a page stays below a frame, the
/// last one too, which has all settings.
pub const PAGE_MAX: usize = 256;
/// The most bytes of settings in a page, as far as a single one is not longer.
pub const SETTINGS_PAGE_LEN_MAX: usize = 1 << 20;

/// The most reports of agents in one delivery. With texts and names of full length they stay below a frame.
pub const REPORTS_MAX: usize = 512;

/// A frame between the masters. The id of the pairing is their secret: it is never sent once they have met, and what they
/// say is proved by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SealedFrame {
    /// The version of the protocol that the sender speaks.
    pub protocol: u32,
    /// The sender.
    pub from: MasterId,
    /// The reason to believe it.
    pub seal: Seal,
    /// A [`Content`], as bincode.
    pub body: Vec<u8>,
}

/// The reason to believe a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Seal {
    /// No proof: the sender has not met the other master yet. Whoever belongs to a pairing believes nothing of it.
    Unmet {
        /// The cluster that the sender drew; master 2 has none yet.
        cluster: Option<ClusterId>,
        /// The pairing that it drew.
        epoch: Option<EpochId>,
    },
    /// HMAC-SHA256 of sender and body under the pairing's id.
    Proved([u8; 32]),
}

/// The contents of a sealed frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Content {
    /// Messages of the sender.
    Messages {
        /// The start of the sender's in which it says it.
        life: Life,
        /// The start of the receiver's that the sender accepted last; `None` before their first meeting.
        to: Option<Life>,
        /// The messages, at most [`BATCH_MAX`].
        messages: Vec<PeerMessage>,
    },
    /// Recent reports of agents, at most [`REPORTS_MAX`]: so that the operators of either master see all of them.
    Reports(Vec<PassedOn>),
}

/// A report as a master passes it on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassedOn {
    /// The agent's report.
    pub report: AgentReport,
    /// The address that the agent reported from.
    pub address: String,
    /// The master that it reported to.
    pub via: MasterId,
    /// Time since then, in milliseconds of real time.
    pub silent_ms: u64,
}

/// The outcome of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delivered {
    /// `false`: not all of it was taken in, the inbox is full or closing; or it is not believed.
    pub taken: bool,
    /// The answer to a greeting among it.
    pub answer: Option<SealedFrame>,
}

/// A message with what is known of its sender, as the ledger takes it in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PeerFrame {
    /// The version of the protocol that the sender speaks.
    pub protocol: u32,
    /// The sender.
    pub from: MasterId,
    /// The sender's cluster; `None` before its first meeting.
    pub cluster: Option<ClusterId>,
    /// The pairing in whose name it is proved to be said, or before the first meeting is claimed to be; `None`: of none.
    pub epoch: Option<EpochId>,
    /// The start of the sender's in which it says it. Proved like the message.
    pub life: Life,
    /// The start of the receiver's that the sender accepted last; `None` before their first meeting. Proved like the message.
    pub to: Option<Life>,
    pub message: PeerMessage,
}

impl PeerFrame {
    /// Tells whether a master that lives in `own`, and accepted the life `accepted` of the other one last, must not take this in:
    /// it is of another life than that, which has to greet first, or meant for another one than its own. It may be late; or a
    /// copy of one of the two stores has greeted in its place, and who sent this, or who receives it, knows nothing of that.
    pub fn is_between_others(&self, own: Life, accepted: Option<Life>) -> bool {
        let other = |life: Option<Life>, known: Life| life.is_some_and(|life| life != known);
        !matches!(self.message, PeerMessage::Hello(_)) && (other(accepted, self.life) || other(self.to, own))
    }

    /// Tells whether such a master may have an answer for whoever sent this, on the connection it came by.
    pub fn is_answered(&self, own: Life, accepted: Option<Life>) -> bool {
        matches!(self.message, PeerMessage::Hello(_)) || self.is_between_others(own, accepted)
    }
}

impl PeerMessage {
    /// The pairing in whose name a master of the pairing `own` says it: that a pairing is over is said in its own name,
    /// because the master that must hear of it knows no other.
    pub fn said_in(&self, own: Option<EpochId>) -> Option<EpochId> {
        match self {
            Self::Hello(Hello { retired: Some(retired), .. }) => Some(*retired),
            _ => own,
        }
    }
}

/// A message of one master to the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Here I am: sent on every new connection and until answered.
    Hello(Hello),
    /// I am alive; every second.
    Heartbeat {
        /// The sender's last durable change.
        lsn: u64,
        /// The sender's calendar.
        wall: WallMs,
        /// The sender's mode at the moment.
        mode: Mode,
        /// The instant until which the receiver may extend leases without the sender; durable at the sender. Only grows.
        permit: Option<WallMs>,
        /// True if the sender's calendar runs with its machine's own clock.
        steady: bool,
        /// Its machine's calendar, followed or not.
        read: WallMs,
        /// True if the sender has found proof that both ledgers were put back.
        reverted: bool,
    },
    /// Send me a page of your table.
    Pull {
        /// The exchange it belongs to: drawn anew at each start and each reunion.
        exchange: u64,
        /// The page after this key; the first if `None`.
        after: Option<TokenKey>,
        /// True if the sender cannot prove that its store is the one it last wrote, and has not met the receiver since: what
        /// the receiver permitted it may have been used for renewals that nobody knows of any more.
        unmet: bool,
        /// A number that stands for all retired names that the sender knows by their digests alone: of the same it need not be told.
        retired: u64,
    },
    /// A page of my table.
    Page {
        /// The exchange that asked for it.
        exchange: u64,
        /// The key it was asked to follow.
        after: Option<TokenKey>,
        /// The records, ascending.
        records: Vec<(TokenKey, Lease)>,
        /// The sender's proposals of these values, ascending, for a receiver that is unmet. The receiver may have confirmed
        /// them, answered its agents, and forgotten both. With `records` at most [`PAGE_MAX`].
        proposals: Vec<Prep>,
        /// The first settings, ascending, with the last page; [`SETTINGS_PAGE_LEN_MAX`] at most.
        settings: Vec<Setting>,
        /// True if there are further settings, to be asked for by [`PeerMessage::PullSettings`].
        more: bool,
        /// The sender's proposals of parts of axes, with the last of the settings, for a receiver that is unmet. The receiver may have
        /// confirmed and used them, and forgotten both.
        extents: Vec<Setting>,
        /// The sender's memory of the two.
        memory: Memory,
        /// True if it is the last one.
        last: bool,
    },
    /// Records that changed here; to be merged, never believed blindly.
    Sync {
        records: Vec<(TokenKey, Lease)>,
        /// The operator who wanted it, for the receiver's audit.
        by: Option<Cause>,
    },
    /// Somebody wants this change of a setting that is at home with you.
    AskSetting {
        change: Change,
        /// The actor who wants it.
        actor: Actor,
    },
    /// I want to set this. Only ever sent by the key's home.
    ProposeSetting {
        /// The setting as it shall be.
        setting: Setting,
    },
    /// I have written it down; the proposal is echoed whole.
    ConfirmSetting {
        /// The setting, as it was received.
        setting: Setting,
    },
    /// Settings as I know them; to be merged.
    Settings { records: Vec<Setting> },
    /// I want to grant this. Only ever sent by the value's home.
    Propose {
        /// The proposal.
        prep: Prep,
    },
    /// I have written it down as granted; the proposal is echoed whole.
    Confirm {
        /// The proposal, as it was received.
        prep: Prep,
    },
    /// I know better.
    Reject {
        /// The value.
        key: TokenKey,
        /// The sender's record of it.
        record: Option<Lease>,
    },
    /// Its time is over: stop renewing it. Only ever sent by the value's home.
    Close {
        /// The value.
        key: TokenKey,
        /// The number of the grant.
        g: Generation,
        /// The end as the sender knows it.
        until: WallMs,
    },
    /// I have stopped renewing it.
    Closed {
        /// The value.
        key: TokenKey,
        /// The number of the grant.
        g: Generation,
        /// The latest end that either of us promised.
        until: WallMs,
    },
    /// I have no free value at home, or none but those that are granted last: can you grant one to that session?
    Ask {
        agent_id: AgentId,
        session: SessionId,
        /// The token type that it wants.
        token_type: TokenType,
        /// The address that it asks from, as text for the operator.
        address: String,
        /// True if only a value will do that is granted before those that are granted last, of which there is one at home here.
        lower: bool,
    },
    /// Neither have I.
    NoneFree {
        /// The name of the agent that asked.
        agent_id: AgentId,
        /// The session that asked.
        session: SessionId,
        /// The token type that it wanted.
        token_type: TokenType,
        /// The address that was said.
        address: String,
        /// The reason why there is none.
        why: Refusal,
    },
    /// Networks that agents may ask from here by a flag, as long as there is no whitelist that both hold.
    Allows {
        /// The networks; at most [`NETWORKS_MAX`](ids::setting::NETWORKS_MAX).
        networks: Vec<IpNet>,
    },
    /// Recent use of axes here: sums of which half is forgotten after each half-life, and the places of the longest segment that was
    /// asked for.
    SegmentsUsed {
        /// The uses by name; at most 256.
        uses: Vec<(GeneratorName, u64, u32)>,
    },
    /// Agents have shown me places of axes beyond what both of us hold as granted: both ledgers have forgotten something.
    NumbersShown {
        /// The places after the last ones, by name; at most 256.
        shown: Vec<(GeneratorName, u64)>,
    },
    /// Allocators that I have heard of, with a heartbeat.
    Allocators {
        /// Time for which I let an allocator serve, in milliseconds (`--sequence-lease`).
        lease_ms: u32,
        /// Allocators that were heard here lately.
        seen: Vec<SeenAllocator>,
        /// Agents that operators drain, or no longer do (`false`), each with the number of that order: the higher one counts.
        drained: Vec<(AgentId, u64, bool)>,
        /// The reading of my clock when I said this,
        sent: BootMs,
        /// and of yours in the last of these messages that I heard from you: no sections are moved without an order unless that was lately.
        heard: Option<BootMs>,
    },
    /// I want to give these sections to those sessions. Only ever sent by the sections' home. At most [`PAGE_MAX`].
    ProposeSections { proposals: Vec<SectionRecord> },
    /// I have written them down as given. At most [`PAGE_MAX`].
    ConfirmSections {
        /// The records as they were received, each with the larger `max_seq` of both of us.
        records: Vec<SectionRecord>,
    },
    /// I know better of these sections; to be merged. At most [`PAGE_MAX`].
    KnownSections { records: Vec<SectionRecord> },
    /// Bounds that were raised here; to be merged as the larger, and answered. At most [`PAGE_MAX`].
    RaisedSections { bounds: Vec<SectionBound> },
    /// Bounds that I hold durably. At most [`PAGE_MAX`].
    HeldBounds { bounds: Vec<SectionBound> },
    /// Somebody asks for these sections, which are at home with you and served by nobody. At most [`PAGE_MAX`].
    AskSections { name: GeneratorName, sections: Vec<Section> },
    /// An operator wants this section, which is at home with you, to go to that agent.
    AskMove {
        /// The section.
        key: SectionKey,
        /// The agent.
        to: AgentId,
    },
    /// Send me a page of your sections.
    PullSections {
        /// The exchange it belongs to.
        exchange: u64,
        /// The page after this one; the first if `None`.
        after: Option<SectionKey>,
        /// As in [`PeerMessage::Pull`].
        unmet: bool,
    },
    /// Send me a further page of your settings.
    PullSettings {
        /// The exchange it belongs to.
        exchange: u64,
        /// The page after this one.
        after: SettingKey,
        /// As in [`PeerMessage::Pull`].
        unmet: bool,
        /// As in [`PeerMessage::Pull`].
        retired: u64,
    },
    /// A further page of my settings.
    SettingsPage {
        /// The exchange that asked for it.
        exchange: u64,
        /// The setting it was asked to follow.
        after: SettingKey,
        /// The settings, ascending, [`SETTINGS_PAGE_LEN_MAX`] at most.
        settings: Vec<Setting>,
        /// As in [`PeerMessage::Page`].
        more: bool,
        /// As in [`PeerMessage::Page`].
        extents: Vec<Setting>,
    },
    /// A page of my sections.
    SectionPage {
        /// The exchange that asked for it.
        exchange: u64,
        /// The section it was asked to follow.
        after: Option<SectionKey>,
        /// The records, ascending.
        records: Vec<SectionRecord>,
        /// The sender's proposals, ascending, for a receiver that is unmet. The receiver may have confirmed them and forgotten
        /// that. With `records` at most [`PAGE_MAX`].
        proposals: Vec<SectionRecord>,
        /// True if it is the last one.
        last: bool,
    },
}

/// A start of a master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Life {
    /// The number of starts of its store, this one among them.
    pub start: u64,
    /// Drawn at random, so that the next starts of two copies differ.
    pub mark: u64,
}

/// One master's memory of the two beside the records, for another that may have forgotten it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Memory {
    /// The instant until which the receiver once allowed the sender to extend leases alone.
    pub permitted: Option<WallMs>,
    /// True if the sender cannot prove either that its store is the one it last wrote, and has not met the receiver since.
    pub unmet: bool,
    /// The bound of what a ledger before this one may have promised.
    pub floor: Option<Floor>,
}

/// A master's introduction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hello {
    /// The sender's last durable change.
    pub lsn: u64,
    /// The last change of the receiver that the sender has heard of: a receiver that is behind that was rolled back.
    pub seen: u64,
    /// The cluster's parameters, as the sender has them.
    pub parameters: ClusterParameters,
    /// The sender's calendar.
    pub wall: WallMs,
    /// The test clock it runs by, if any.
    pub test_clock: Option<TestClock>,
    /// Its program's version.
    pub version: String,
    /// True if it would like an answer: an answer to an answer would never end.
    pub answer: bool,
    /// The earlier pairing, to a master that still believes in it: it is over. Only the masters of a pairing know its
    /// id, so only one that knows better can say so.
    pub retired: Option<EpochId>,
    /// The sender's present life and those before it, since the last one that the receiver is known to have accepted.
    pub lives: Vec<Life>,
    /// The last life of the receiver that the sender accepted.
    pub accepted: Option<Life>,
    /// The sender has seen two stores of the receiver's that go on from the same past.
    pub copied: bool,
    /// True if the sender waits for a replacement to join, which to whoever has joined means that it was put back to before that.
    pub awaits: bool,
    /// A greeting that would stop one of the two may be an old one: it counts only if it names this number again.
    pub challenge: Option<u64>,
    /// The number that the receiver asked for.
    pub echo: Option<u64>,
    /// The first users, as the sender proposes them as long as it has met nobody. Whoever becomes its pair holds them from
    /// that moment on, so that they outlive the sender however soon the two are parted.
    pub users: Option<Box<Setting>>,
}

/// A step of joining. The token is the proof that an operator wants it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The token that `--peer-lost` printed.
    pub token: JoinToken,
    /// The number that the caller is going to have.
    pub master: MasterId,
    /// The step that it asks for.
    pub step: JoinStep,
}

/// A one-use secret of 256 random bits.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JoinToken(pub [u8; 32]);

/// The steps of joining: the ledger is asked for page by page between the first and the last.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JoinStep {
    /// Cut the snapshot. From then on the survivor extends nothing by its former peer's permit.
    Begin,
    /// A page of the snapshot, after this key.
    Page {
        /// The first page if `None`.
        after: Option<TokenKey>,
    },
    /// I have it all, durably. The token is used up; this answer is what makes the caller a master.
    Done,
    /// A page of the settings, after this one.
    Settings {
        /// The last one that is known.
        after: SettingKey,
    },
    /// A page of the sections, after this one.
    Sections {
        /// The first page if `None`.
        after: Option<SectionKey>,
    },
}

/// The part of the survivor's state that a joining master has to know before the records.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Begun {
    pub cluster: ClusterId,
    /// The new pairing.
    pub epoch: EpochId,
    /// The number of the pairing.
    pub pair_epoch: u64,
    /// The pairings before it, the last one at the end.
    pub former: Vec<EpochId>,
    /// The cluster's parameters.
    pub parameters: ClusterParameters,
    /// Restraints that keep the survivor from promising, and the new one too: it may be the survivor next.
    pub caution: Caution,
}

/// The survivor's answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JoinReply {
    /// The answer to [`JoinStep::Begin`].
    Begun(Begun),
    /// The answer to [`JoinStep::Page`].
    Page {
        /// The records, ascending.
        records: Vec<(TokenKey, Lease)>,
        /// The first settings, with the last page, as many as fit.
        settings: Vec<Setting>,
        /// True if there are further settings, to be asked for by [`JoinStep::Settings`].
        more: bool,
        /// True if it is the last one.
        last: bool,
    },
    /// The answer to [`JoinStep::Settings`].
    Settings {
        /// The settings, ascending.
        settings: Vec<Setting>,
        /// True if there are further ones.
        more: bool,
    },
    /// The answer to [`JoinStep::Done`].
    Done,
    /// The answer to [`JoinStep::Sections`].
    Sections {
        /// The records, ascending.
        records: Vec<SectionRecord>,
        /// True if it is the last page.
        last: bool,
    },
}

impl std::fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinToken(..)")
    }
}

impl std::fmt::Display for JoinToken {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not a join token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a join token has 64 hexadecimal digits, as `uniq_master --peer-lost` printed them")]
pub struct JoinTokenError;

impl std::str::FromStr for JoinToken {
    type Err = JoinTokenError;
    fn from_str(text: &str) -> Result<Self, JoinTokenError> {
        let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let digits: Option<Vec<u8>> = text.bytes().map(digit).collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or(JoinTokenError)?;
        let mut token = [0; 32];
        for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |sum, digit| sum << 4 | digit);
        }
        Ok(Self(token))
    }
}
