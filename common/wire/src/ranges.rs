//! Requests of agents to a master about numbers that are handed out in ranges: segments of an axis, and sections of keys.

use ids::lease::Generation;
use ids::namespace::GeneratorName;
use ids::parameters::{AgentId, ClusterId, SessionId};
use ids::segment::{MasterRun, Shown, Span};
use ids::sequence::{Route, Section, SectionKey, SectionRange, ServedAt};
use ids::time::BootMs;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Sets that an agent serves at most.
pub const SETS_MAX: usize = 64;
/// Raises in one call at most: as many as fit a frame of one, with names of full length.
pub const RAISES_MAX: usize = 384;
/// Bounds that one call raises at most, of which each may be that of many sections beside each other.
pub const RAISED_MAX: usize = 1_024;
/// Receipts of sections in one call of an allocator at most.
pub const RECEIPTS_MAX: usize = 64;
/// Ranges of sections that one call of an allocator asks for at most.
pub const KEPT_ONLY_MAX: usize = 512;
/// Sections that one call asks the routes of at most.
pub const ROUTES_ASKED_MAX: usize = 1_024;
/// Routes in one answer at most; the rest by another call from the last section on.
pub const ROUTES_MAX: usize = 1_024;

/// The longest lease of sections (`--sequence-lease`), in seconds: after two masters forgot the same, nothing is given anew before all that
/// they may have given is over.
pub const SECTION_LEASE_MAX_S: u8 = 60;

/// A call for a segment. Each gets a further one: nothing is remembered of those before, so an answer counts only for the call that
/// waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentRequest {
    pub agent_id: AgentId,
    /// The session that will use it.
    pub session: SessionId,
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// Of which axis.
    pub name: GeneratorName,
    /// The number of places; fewer may come, at least 1. With 0 it only shows `seen`, and is answered with an empty span.
    pub wanted: u32,
    /// The end of the places of this axis that the session was ever granted. A master that knows less has forgotten something.
    pub seen: Shown,
}

/// A segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentGrant {
    /// Its places; none if none were wanted.
    pub span: Span,
    /// The proof that the masters granted the places before its end ([`Shown`]).
    pub proof: Option<[u8; 32]>,
}

impl SegmentGrant {
    /// Gives what its holder has seen of the axis with it.
    pub const fn seen(&self) -> Shown {
        Shown { to: self.span.to, proof: self.proof }
    }
}

/// A call of an allocator by which it keeps its sections. It is answered with all of them, or with those that it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeepRequest {
    pub agent_id: AgentId,
    /// The session that serves.
    pub session: SessionId,
    /// The session that holds its leases, which nobody else knows.
    pub holder: SessionId,
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// The address at which others reach it.
    pub address: ServedAt,
    /// The sets that it serves, at most [`SETS_MAX`].
    pub sets: Vec<GeneratorName>,
    /// Memory that it may use for keys, in bytes.
    pub memory: u64,
    /// Memory that it uses for keys, in bytes.
    pub used: u64,
    /// Calls for keys a second, lately.
    pub per_second: u32,
    /// True if it is about to stop, or may give nothing: it wants no further sections.
    pub leaves: bool,
    /// Only sections after this one are asked for: the last of an answer after which there are more. `None`: from the first on.
    pub after: Option<SectionKey>,
    /// Only of these is asked, at most [`KEPT_ONLY_MAX`]: calls wait for them. None: all.
    pub only: Vec<SectionRange>,
    /// Receipts of sections that it was granted and that no master lists for it any more, at most [`RECEIPTS_MAX`].
    pub receipts: Vec<ShownReceipt>,
}

/// A master's word that a session owned sections beside each other under a `g`, which only the masters of the pairing can have written.
/// Masters whose disks were put back learn from it what both have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SectionReceipt(pub [u8; 32]);

/// A receipt, with what it is of; the session is the one that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShownReceipt {
    /// The sections that it is of.
    pub sections: SectionRange,
    /// The owner's number that the session had.
    pub g: Generation,
    pub receipt: SectionReceipt,
}

/// Ranges of sections in one answer to an allocator at most; those after them are asked for by another call ([`KeepRequest::after`]). Keys
/// that are spread by their hash take sections here and there, each a range of its own, so there may be tens of thousands.
pub const KEEP_RANGES_MAX: usize = 8_192;
/// The longest address of an allocator, in bytes: a host's name of full length, and a port.
pub const ADDRESS_LEN_MAX: usize = 261;

/// An allocator as one master has heard of it, for the other one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SeenAllocator {
    /// The last call that it made.
    pub said: KeepRequest,
    /// The time since then, in milliseconds.
    pub silent_ms: u32,
}

/// The sections that an allocator serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeepReply {
    /// The time that an allocator serves after it sent the call that was answered so, in milliseconds of its own clock
    /// (`--sequence-lease`).
    pub lease_ms: u32,
    /// The start of the answering master from which on it remembers what it did: another one may have forgotten. It never outlasts a boot,
    /// so readings of `boot` under one run are of one clock.
    pub run: MasterRun,
    /// The clock of the answering master, which shows an allocator that its own stood still.
    pub boot: BootMs,
    /// Sections that the answering master lists for it, ascending by name and section, at most [`KEEP_RANGES_MAX`]. Each is kept by the
    /// call that is answered with it.
    pub sections: Vec<HeldSections>,
    /// True if there are more after the last one.
    pub more: bool,
}

/// Sections beside each other that one session serves under one number of owners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldSections {
    /// Of which name.
    pub name: GeneratorName,
    /// The first.
    pub from: Section,
    /// After the last.
    pub to: Section,
    /// The owner's number; 1: nobody had them before.
    pub g: Generation,
}

/// A call to raise bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaiseRequest {
    pub agent_id: AgentId,
    /// The session that serves.
    pub session: SessionId,
    /// The cluster it belongs to.
    pub cluster: Option<ClusterId>,
    /// The raises that are wanted, at most [`RAISES_MAX`].
    pub raises: Vec<Raise>,
}

/// A section whose bound is to be raised, and those around it that are raised with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Raise {
    /// The section that calls wait for: it is raised first.
    pub section: Section,
    /// All of them; the section is among them.
    pub sections: SectionRange,
    /// The caller's number as the owner.
    pub g: Generation,
    /// The bound that each of them is to have.
    pub to: RaiseTo,
    /// The receipt that the caller has of the section as this owner, and of which sections it is.
    pub receipt: Option<(Section, Section, SectionReceipt)>,
}

impl Raise {
    /// The section that calls wait for.
    pub fn key(&self) -> SectionKey {
        SectionKey { name: self.sections.name.clone(), section: self.section }
    }

    /// The receipt as it is shown to a master.
    pub fn shown(&self) -> Option<ShownReceipt> {
        let (from, to, receipt) = self.receipt?;
        let sections = SectionRange { name: self.sections.name.clone(), from, to };
        Some(ShownReceipt { sections, g: self.g, receipt })
    }
}

/// Answers to a call to raise bounds, one for each raise in its order.
pub type RaisedAll = Vec<Vec<RaisedSections>>;

/// Sections beside each other of which one raise came to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaisedSections {
    /// The first.
    pub from: Section,
    /// After the last.
    pub to: Section,
    /// The bound of each of them, or the reason why none was raised.
    pub outcome: Result<Raised, NotRaised>,
}

impl RaisedSections {
    /// Tells whether a section is one of them.
    pub fn has(&self, section: Section) -> bool {
        (self.from..self.to).contains(&section)
    }
}

/// The target to which a bound is to be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RaiseTo {
    /// By a step from where it is: the caller loads the section, and does not know the bound.
    ByAStep,
    /// To this number; nothing happens if it is there already.
    Number(u64),
}

impl RaiseTo {
    /// The bound that a raise makes of one which is `max_seq` now and may go up to `bound`; it grows by `step`, and ends with `last`.
    ///
    /// # Errors
    /// [`NotRaised::UsedUp`] at the last number, [`NotRaised::Allowance`] before it.
    pub fn reached(self, max_seq: u64, step: u64, bound: u64, last: u64) -> Result<u64, NotRaised> {
        let wanted = match self {
            Self::ByAStep => max_seq.saturating_add(step),
            Self::Number(number) if number <= max_seq => return Ok(max_seq),
            Self::Number(number) => number,
        };
        let reached = wanted.min(bound).min(last);
        match reached > max_seq {
            true => Ok(reached),
            false if max_seq >= last => Err(NotRaised::UsedUp),
            false => Err(NotRaised::Allowance),
        }
    }
}

/// The outcome for one bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Raised {
    /// The bound before.
    pub from: u64,
    /// The bound now, durable at the master. It may be less than was asked for: as far as this master may go alone, or the last number.
    pub max_seq: u64,
    /// That the caller owned the sections under its `g`.
    pub receipt: Option<SectionReceipt>,
}

/// The reason why a bound was not raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum NotRaised {
    /// Another session serves the section, or another owner than the caller believes to be, or it is being given to somebody else.
    #[error("another owner")]
    OtherOwner,
    /// This master went as far as it may without the other one.
    #[error("the solo allowance is used up, and the other master is away")]
    Allowance,
    /// There are no more numbers of this width.
    #[error("the numbers of this width are used up")]
    UsedUp,
    /// There is no such sequence or section, or its name was retired.
    #[error("no such sequence")]
    Unknown,
    /// No further section can have a bound of its own: of the name, or of all names, there are as many as are kept.
    #[error("{max} sections with bounds of their own are in use, as many as are kept")]
    TooMany {
        /// The number of them that is kept.
        max: u32,
    },
}

/// A call for who serves what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoutesRequest {
    /// The cluster the caller belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// Of which name.
    pub name: GeneratorName,
    /// Of which sections, at most [`ROUTES_ASKED_MAX`]. Those that nobody serves are given to somebody, if there is one.
    pub sections: Vec<Section>,
    /// Beside them all of the name, at most [`ROUTES_MAX`], from this one on.
    pub all_from: Option<Section>,
}

/// The routes to those who serve sections.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoutesReply {
    /// Ascending. A section that is not among them is served by nobody at the moment.
    pub routes: Vec<Route>,
    /// The section to go on with, if there are more.
    pub next: Option<Section>,
    /// The reason why sections that were asked about can be given to nobody, if one of them cannot.
    pub unserved: Option<Unserved>,
    /// Networks in which agents are: whoever may ask for leases. None connects to an address elsewhere, whatever another one says of itself.
    pub networks: Vec<IpNet>,
}

/// The reason why a section that nobody serves can be given to nobody now.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Unserved {
    /// Only both masters together give a section to somebody.
    #[error(
        "giving a section to an agent needs both masters, and one of them is not reachable: start it, or the agent that had the section"
    )]
    MasterAway,
    /// Agents come first that could show what both masters have forgotten.
    #[error(
        "both masters started on stores that may have been put back: sections are given to agents in a moment, ask again"
    )]
    Quiet,
    /// No agent that serves its set was heard lately, or all of them leave.
    #[error(
        "no agent that takes sections of the set '{set}' and holds a lease is heard by the master: start one with --sets {set}, or see \
         why it has no lease"
    )]
    NoAllocator { set: GeneratorName },
    /// All of their memory for keys is in use.
    #[error(
        "all agents of the set '{set}' use the memory that they have for keys: start another one, or give one more (--sequence-memory)"
    )]
    NoMemory { set: GeneratorName },
    /// As many sections were given as are kept.
    #[error(
        "{max} sections, those beside each other that are alike counted once, are in use, the most of all names together: retire a name that is \
         not needed, whose sections are given back then, and register names with more keys_per_section"
    )]
    TooMany {
        /// The number of them that is kept.
        max: u32,
    },
    /// As many sections of this name were given as are kept of one.
    #[error(
        "{max} sections of this name, those beside each other that are alike counted once, are in use, the most of one name: register another \
         name with more keys_per_section"
    )]
    TooManyOfName {
        /// The number of them that is kept.
        max: u32,
    },
}

/// The reason why a section is not moved, or an agent not drained, as an operator wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum NotMoved {
    /// The name has fewer sections.
    #[error("the sections of this name are numbered 0 to {last}")]
    NoSuchSection {
        /// The last one.
        last: u32,
    },
    /// The section is raised by its home alone.
    #[error("this section is at home at master {home}: ask that one")]
    NotHome {
        /// The number of that master.
        home: u8,
    },
    /// Sections are not raised that far.
    #[error("the numbers of this name are 1 to {last}")]
    NoSuchNumber {
        /// The last one.
        last: u64,
    },
    /// Nobody could load it anew.
    #[error("no agent serves the set '{set}' of this name with memory left: start one with --sets {set}")]
    Nobody {
        /// The set of the name.
        set: GeneratorName,
    },
    /// The section is being moved already.
    #[error("this section is on its way to agent '{to}' already: wait until it is there, a few seconds")]
    UnderWay {
        /// To whom.
        to: AgentId,
    },
    /// Nobody of that name serves sections.
    #[error(
        "no agent of the name '{agent_id}' that serves sequences was heard since the masters started: the list of allocators says who \
         was"
    )]
    NoSuchAgent {
        /// The name.
        agent_id: AgentId,
    },
    /// The agent has not kept its sections lately.
    #[error("agent '{agent_id}' is silent at both masters: start it, or take another one")]
    Silent { agent_id: AgentId },
    /// The agent holds no lease.
    #[error(
        "agent '{agent_id}' holds no lease, or an operator ended it: sections go to agents that hold one; take another one"
    )]
    NoLease { agent_id: AgentId },
    /// The agent serves other sets.
    #[error(
        "agent '{agent_id}' does not serve the set '{set}' of this name: start it with --sets {set}, or take another one"
    )]
    OtherSet {
        agent_id: AgentId,
        /// The set of the name.
        set: GeneratorName,
    },
    /// The agent stops, or an operator drains it.
    #[error(
        "agent '{agent_id}' gives its sections away: it is stopping, or being drained; let it serve again, or choose another one"
    )]
    Leaves { agent_id: AgentId },
    /// All of its memory for keys is in use.
    #[error(
        "agent '{agent_id}' has no memory left for keys: start it with more --sequence-memory, or take another one"
    )]
    Full { agent_id: AgentId },
    /// Nobody could take its sections.
    #[error(
        "no other agent of the set '{set}' can take over the sections of this one, and those that nobody serves yet would stay so: start \
         another agent with --sets {set} first"
    )]
    Alone { set: GeneratorName },
    /// Nobody has it, and there are as many as may be.
    #[error("{full}")]
    NoRoom {
        /// Of what.
        full: Unserved,
    },
    /// As many sections are on their way as may be.
    #[error("the most sections that may be moved at once are being moved: wait until some have arrived")]
    TooManyUnderWay,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CALL_LEN_MAX;
    use bincode::Options as _;

    fn fits_a_call(request: &impl Serialize) {
        // What tarpc says beside it: an id, a deadline, a trace.
        let around = 256;
        let len = bincode::DefaultOptions::new().serialized_size(request).unwrap();
        assert!(len + around <= CALL_LEN_MAX as u64, "{len} bytes");
    }

    #[test]
    fn the_largest_call_of_an_allocator_fits_its_frame() {
        let name: GeneratorName = "n".repeat(GeneratorName::LEN_MAX).parse().unwrap();
        let range = SectionRange { name: name.clone(), from: Section(u32::MAX), to: Section(u32::MAX) };
        let receipt = SectionReceipt([255; 32]);
        let shown = ShownReceipt { sections: range.clone(), g: Generation(u64::MAX), receipt };
        let address = "h".repeat(ADDRESS_LEN_MAX);
        fits_a_call(&KeepRequest {
            agent_id: "a".repeat(AgentId::LEN_MAX).parse().unwrap(),
            session: SessionId(u128::MAX),
            holder: SessionId(u128::MAX),
            cluster: Some(ClusterId(u128::MAX)),
            address: ServedAt { http: address.clone(), rpc: address },
            sets: vec![name.clone(); SETS_MAX],
            memory: u64::MAX,
            used: u64::MAX,
            per_second: u32::MAX,
            leaves: true,
            after: Some(SectionKey { name, section: Section(u32::MAX) }),
            only: vec![range; KEPT_ONLY_MAX],
            receipts: vec![shown; RECEIPTS_MAX],
        });
    }

    #[test]
    fn the_largest_call_for_raises_fits_its_frame() {
        let most = Section(u32::MAX);
        let name = "n".repeat(GeneratorName::LEN_MAX).parse().unwrap();
        let raise = Raise {
            section: most,
            sections: SectionRange { name, from: most, to: most },
            g: Generation(u64::MAX),
            to: RaiseTo::Number(u64::MAX),
            receipt: Some((most, most, SectionReceipt([255; 32]))),
        };
        let request = RaiseRequest {
            agent_id: "a".repeat(AgentId::LEN_MAX).parse().unwrap(),
            session: SessionId(u128::MAX),
            cluster: Some(ClusterId(u128::MAX)),
            raises: vec![raise; RAISES_MAX],
        };
        fits_a_call(&request);
    }
}
