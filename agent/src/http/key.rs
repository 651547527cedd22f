//! A request for numbers of one key, as far as the short way understands it. Whatever is unusual in one, the router
//! ([`super::sequence`]) knows what to say to it.

use super::Agent;
use super::accept::{Media, negotiate};
use super::mint::{NoPlan, Unplanned};
use super::problem::Problem;
use super::render::Style;
use super::sequence::{KeyQuery, OF_ONE_KEY};
use crate::access::Visitor;
use crate::gate::Prefix;
use crate::run::Run;
use crate::sequences::{Call, Name, admits};
use axum::http::Uri;
use common::api_key::KeyAction;
use common::kind::Kind;
use common::sequence::{Route, Slot};
use common::template::CallerParts;
use std::sync::Arc;

/// The path to numbers of keys: behind it the name, and behind another `/` the key.
pub(super) const PATH: &str = "/sequence/";

/// The plan of such a request.
pub(super) struct KeyPlan {
    pub(super) name: Arc<Name>,
    pub(super) slot: Slot,
    pub(super) n: u32,
    pub(super) call: Call,
    pub(super) style: Style,
}

impl KeyPlan {
    /// The plan of that request, if it is for a key of a sequence that is known here, and understood.
    pub(super) fn of(agent: &Agent, uri: &Uri, accept: Option<&str>, visitor: &Visitor) -> Result<Self, NoPlan> {
        let unfit = || NoPlan::NotForUs;
        let (name, key) = uri.path().strip_prefix(PATH).and_then(|rest| rest.split_once('/')).ok_or_else(unfit)?;
        // The router would read them to the letter, too; it knows of percent signs, and of what follows on a key.
        let is_plain = |text: &str| text.is_ascii() && !text.bytes().any(|byte| matches!(byte, b'%' | b'/'));
        if !is_plain(name) || !is_plain(key) {
            return Err(NoPlan::NotForUs);
        }
        visitor.may(KeyAction::Mint, Some(name))?;
        let media = accept.map_or(Media::default(), negotiate);
        let query = KeyQuery::of(uri, OF_ONE_KEY, agent.batch_max).map_err(|_| unfit())?;
        let (slot, n) = (Slot::of(key).map_err(|_| NoPlan::NotForUs)?, query.n.unwrap_or(1));
        let sequences = agent.sequences.as_ref().filter(|sequences| sequences.is_of(query.cluster));
        let name = sequences.ok_or_else(unfit)?.known(name).ok_or_else(|| unserved(agent, name, n))?;
        name.admits(n).map_err(|_| NoPlan::NotForUs)?;
        let encoding = Some(Arc::clone(query.encoding(&name)));
        let style = Style { media, encoding, uri: None, caller: CallerParts::default(), text_len: 0 };
        let call = Call { from: Some(visitor.holder()), ..query.call };
        Ok(Self { name, slot, n, call, style })
    }

    /// Tells whether numbers of that name are still given: understood once, a request is answered as often as it comes.
    pub(super) fn still_stands(&self, agent: &Agent) -> bool {
        agent.sequences.as_ref().is_some_and(|sequences| sequences.gives(&self.name).is_ok())
    }

    /// Its numbers, from that one on.
    pub(super) fn run(&self, first: u64) -> Run {
        Run { prefix: Prefix::Plain { first, increment: 1 }, start: 0, len: self.n }
    }
}

/// The reason why there is no plan for so many numbers of a key of a name that is not served here.
fn unserved(agent: &Agent, name: &str, n: u32) -> NoPlan {
    // Of another cluster nobody is asked.
    let names = agent.names.as_ref().filter(|_| agent.minter.grants().wrong_cluster().is_none());
    let unserved = names.and_then(|names| names.unserved(name, |heard| admits(heard, n)));
    match (unserved, agent.minter.names().keyed(name)) {
        (Some(name), Err(refusal)) => Unplanned::of(name, Some(Kind::Sequence), n, refusal),
        _ => NoPlan::NotForUs,
    }
}

impl Agent {
    /// The first of these numbers, if they can be had without waiting and there is nothing to tell.
    #[inline]
    pub(super) fn try_key(&self, plan: &KeyPlan) -> Option<u64> {
        let KeyPlan { name, slot, n, call, .. } = plan;
        self.sequences.as_ref()?.try_next(name, *slot, *n, *call)
    }

    /// The same, waited for if need be, with routes to tell.
    pub(super) async fn key(&self, plan: &KeyPlan) -> Result<(u64, Vec<Route>), Problem> {
        match self.try_key(plan) {
            Some(first) => Ok((first, Vec::new())),
            None => self.next_of(&plan.name, plan.slot, plan.n, plan.call).await,
        }
    }
}
