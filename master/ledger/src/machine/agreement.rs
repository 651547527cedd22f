//! The questions that decisions put to whoever agrees on them.
//!
//! The handlers of this ledger decide by [`Policy`](crate::policy::Policy) what is granted, extended, ended and set. Whether
//! anything may change its owner at the moment, how far this master may extend a lease alone, and how a change comes to be known to
//! all who have to know it, they ask here. Today a pair of masters answers ([`super::pair`]), by proposals that both make durable.

use super::state::Asked;
use crate::lease::{Effects, RequestId};
use crate::section::{HeldSection, Terms};
use ids::audit::Actor;
use ids::lease::{Lease, Prep};
use ids::namespace::GeneratorName;
use ids::parameters::AgentId;
use ids::sequence::{Section, SectionKey, SectionRange, SectionRecord};
use ids::setting::Change;
use ids::time::{Now, WallMs};
use ids::token::TokenKey;
use wire::lease::{Mode, Refusal};

/// A master's present state, for the console, the health check and the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The mode; it says whether agents are served.
    pub mode: Mode,
    /// The reason why not all that this master is asked for can be done, with the remedy; `None` if all can.
    pub why: Option<String>,
}

/// A way to agree on the changes of a ledger.
///
/// Whatever is handed in is sent again until it is agreed on, and never withdrawn. Whoever waits for it is answered then, or told
/// after a while to ask again.
pub trait Agreement {
    /// Tells whether this master serves at all.
    fn serves(&self) -> Result<(), Refusal>;

    /// Tells whether this ledger holds all that was agreed on, as far as any other one that can be met.
    fn is_complete(&self) -> bool;

    /// The instant until which leases may be extended without asking anybody; `None`: not at all.
    fn alone_until(&self) -> Option<WallMs>;

    /// Tells whether anything may be granted now.
    fn may_grant(&self, now: Now) -> Result<(), Refusal>;

    /// Tells whether leases may be given back and ended now.
    fn may_end(&self, now: Now) -> Result<(), Refusal>;

    /// Tells whether an operator may end a lease now.
    fn may_terminate(&self, now: Now) -> Result<(), Refusal>;

    /// Tells whether settings may be changed now.
    fn may_set(&self, now: Now) -> Result<(), Refusal>;

    /// Tells whether parts of axes may be granted now.
    fn may_extend(&self, now: Now) -> Result<(), Refusal>;

    /// Proposes that a part of an axis belongs to a run. Which it is comes back by `take_extent`.
    fn extend(&mut self, now: Now, change: &Change, fx: &mut Effects);

    /// Makes known that segments of an axis are granted here, if nobody was told yet: whoever is asked next has places then, too.
    fn tell_first_use(&mut self, now: Now, name: &GeneratorName, fx: &mut Effects);

    /// Makes known a record that was changed here.
    fn share(&self, key: TokenKey, fx: &mut Effects);

    /// Proposes a grant.
    fn grant(&mut self, now: Now, prep: Prep, fx: &mut Effects);

    /// Proposes a grant again, because whoever it is for has asked again.
    fn grant_again(&self, prep: Prep, fx: &mut Effects);

    /// Asks for a grant of a value that is not this master's to propose; of a `lower` one if it has some of those that are granted last.
    fn borrow(&self, asked: Asked, address: String, lower: bool, fx: &mut Effects);

    /// Lets a request wait for its grant, as long as not too many do.
    fn await_grant(&mut self, now: Now, asked: Asked, id: RequestId) -> Result<(), Refusal>;

    /// Ends leases whose time is over, as many as fit one beat.
    fn end(&mut self, now: Now, over: Vec<TokenKey>, fx: &mut Effects);

    /// Lets an operator's request wait until all know of the lease that it `denied`.
    fn terminate(&mut self, now: Now, id: RequestId, key: TokenKey, denied: Lease, fx: &mut Effects);

    /// Tells whether sections may be listed for their owners, and raised.
    fn may_serve_sections(&self) -> Result<(), Refusal>;

    /// Tells whether sections may change their owners now.
    fn may_give_sections(&self, now: Now) -> Result<(), Refusal>;

    /// Tells whether the owners of a name's sections are chosen here.
    fn is_home_of(&self, name: &GeneratorName) -> bool;

    /// The highest number that a section may be raised to without asking anybody.
    fn raise_bound(&self, held: &HeldSection, terms: &Terms) -> u64;

    /// The number that is written down as held by all when a section is raised to `max_seq`.
    fn held_by_all(&self, held: &HeldSection, max_seq: u64) -> u64;

    /// Tells all others of sections that were raised here.
    fn share_bound(&mut self, range: &SectionRange);

    /// Proposes new owners of sections whose owners are chosen here.
    fn give_sections(&mut self, now: Now, proposals: Vec<SectionRecord>, fx: &mut Effects);

    /// Asks for owners of sections that are chosen elsewhere.
    fn ask_for_sections(&self, name: &GeneratorName, sections: Vec<Section>, fx: &mut Effects);

    /// Hands on the order to move a section whose owner is chosen elsewhere.
    fn ask_move(&self, key: SectionKey, to: AgentId, fx: &mut Effects);

    /// Proposes a change of a setting.
    fn set(&mut self, now: Now, change: &Change, actor: &Actor, fx: &mut Effects);
}
