//! The agents that serve what we do not: masters are asked about sections that somebody asked us for, all of a name in one question.

use super::name::Name;
use super::{Sequences, lock};
use crate::masters::{Lane, Preferred};
use crate::refusal::Refusal;
use common::lease::Generation;
use common::sequence::{Route, RouteTable, Section, SectionRange, ServedAt};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use net::rpc::mint::SequenceRoutes;
use net::rpc::ranges::{ROUTES_ASKED_MAX, ROUTES_MAX, RoutesReply, RoutesRequest, Unserved};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// Sections of a name that are asked about next, at most.
const WANTED_MAX: usize = 1 << 14;
/// Names that masters are asked about at once.
const QUESTIONS_MAX: usize = 16;
/// A section is not asked about twice within this time, nor anything of a name after a question that no master answered, or where something can be
/// given to nobody: what nobody serves is wanted again and again.
const PAUSE: Duration = Duration::from_millis(50);
/// A call for all routes of a name waits that long for those before it.
const TURN: Duration = Duration::from_secs(5);

/// The routes of a name, as far as they are known.
#[derive(Default)]
pub(super) struct NameRoutes {
    table: RouteTable,
    wanted: BTreeSet<u32>,
    /// Behind the last one that was asked about: those after it are next, so that low ones that are wanted again and again, because nobody can
    /// serve them, keep none from being asked about.
    next: u32,
    /// Tells whether masters are asked about some,
    asking: bool,
    /// and which they were asked about lately,
    asked: BTreeSet<u32>,
    /// from then on.
    asked_since: Option<Instant>,
    /// Sections with the agents that let a call for them wait: others wait here.
    awaited: BTreeSet<(Section, Arc<ServedAt>)>,
    /// The reason why a section that was asked about lately can be given to nobody.
    unserved: Option<Unserved>,
}

/// The state that those who ask for routes share.
pub(super) struct Asks {
    /// Told when there is something to ask.
    wanted: Notify,
    /// The master that answered the last question.
    last: Preferred,
    questions: Semaphore,
    /// For calls that want all routes of a name: one after the other.
    turn: tokio::sync::Mutex<()>,
}

impl Default for Asks {
    fn default() -> Self {
        let questions = Semaphore::new(QUESTIONS_MAX);
        Self { wanted: Notify::new(), last: Preferred::default(), questions, turn: tokio::sync::Mutex::default() }
    }
}

impl NameRoutes {
    pub(super) fn find(&self, section: Section) -> Option<(Arc<ServedAt>, Generation)> {
        self.table.find(section).map(|(address, g)| (Arc::clone(address), g))
    }

    /// Tells whether a call waits for that section at that agent.
    pub(super) fn is_awaited(&self, section: Section, at: &Arc<ServedAt>) -> bool {
        !self.awaited.is_empty() && self.awaited.contains(&(section, Arc::clone(at)))
    }

    pub(super) fn route(&self, section: Section) -> Option<Route> {
        self.table.route(section)
    }

    /// Begins a question, if something is wanted that was not asked about lately; `true` if there is one now. Otherwise, when there will be.
    fn begin(&mut self, now: Instant) -> Result<bool, Instant> {
        if self.asking || self.wanted.is_empty() {
            return Ok(false);
        }
        let since = *self.asked_since.get_or_insert(now);
        if now >= since + PAUSE {
            self.asked.clear();
            self.asked_since = Some(now);
        } else if self.asked.len() >= WANTED_MAX || self.wanted.is_subset(&self.asked) {
            return Err(since + PAUSE);
        }
        self.asking = true;
        Ok(true)
    }

    /// Takes the sections that are asked about next.
    fn take_wanted(&mut self) -> Vec<Section> {
        let after = self.wanted.range(self.next..).chain(self.wanted.range(..self.next));
        let new = after.copied().filter(|section| !self.asked.contains(section));
        let some: Vec<u32> = new.take(ROUTES_ASKED_MAX).collect();
        for section in &some {
            self.wanted.remove(section);
        }
        self.asked.extend(&some);
        self.next = some.last().map_or(0, |last| last.saturating_add(1));
        some.into_iter().map(Section).collect()
    }

    /// Learns what another agent said when it was asked about these sections; `true` if something was new.
    pub(super) fn learn(&mut self, asked: BTreeSet<Section>, routes: &[Route]) -> bool {
        self.table.learn(asked, routes, None)
    }

    /// The reason why a section of this name may be served by nobody, as a master said lately.
    pub(super) fn unserved(&self) -> Option<Unserved> {
        self.unserved.clone()
    }

    /// No further section of the name can have a bound of its own, as the masters say.
    pub(super) fn cannot_have_more(&mut self, max: u32) {
        self.unserved = Some(Unserved::TooManyOfName { max });
    }

    /// Learns what a master said.
    fn learn_from_master(&mut self, routes: &[Route]) {
        for route in routes {
            self.table.learn_from_master(route);
        }
    }
}

/// Sections that a call waits for at another agent; dropped with the call.
pub(super) struct Awaited<'a> {
    name: &'a Name,
    sections: Vec<(Section, Arc<ServedAt>)>,
}

impl<'a> Awaited<'a> {
    /// Those of these sections for which no other call waits at that agent; `None` if there is none.
    pub(super) fn first(name: &'a Name, sections: &BTreeSet<Section>, at: &Arc<ServedAt>) -> Option<Self> {
        let mut routes = lock(&name.routes);
        let awaited = sections.iter().map(|section| (*section, Arc::clone(at)));
        let sections: Vec<_> = awaited.filter(|awaited| routes.awaited.insert(awaited.clone())).collect();
        drop(routes);
        if sections.is_empty() { None } else { Some(Self { name, sections }) }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let mut routes = lock(&self.name.routes);
        for section in &self.sections {
            routes.awaited.remove(section);
        }
        drop(routes);
        self.name.changed.notify_waiters();
    }
}

impl Sequences {
    /// Masters are to be asked who serves that section. If nobody does, they give it to somebody.
    pub(super) fn want_route(&self, name: &Name, section: Section) {
        let mut routes = lock(&name.routes);
        if routes.wanted.len() < WANTED_MAX && routes.wanted.insert(section.0) {
            drop(routes);
            self.asks.wanted.notify_one();
        }
    }

    /// Asks for as long as the program runs. While a question about a name is under way the next one gathers.
    pub(super) async fn ask_routes(&self) {
        let mut questions = FuturesUnordered::new();
        loop {
            let mut due = None;
            for name in self.served.load().values() {
                match lock(&name.routes).begin(Instant::now()) {
                    Ok(true) => questions.push(self.ask_about(Arc::clone(name))),
                    Ok(false) => {}
                    Err(at) => due = due.min(Some(at)).or(Some(at)),
                }
            }
            let later = due.unwrap_or_else(Instant::now);
            tokio::select! {
                Some(()) = questions.next() => {}
                () = self.asks.wanted.notified() => {}
                () = tokio::time::sleep_until(later), if due.is_some() => {}
            }
        }
    }

    /// Asks about what is wanted of a name.
    async fn ask_about(&self, name: Arc<Name>) {
        // Never closed.
        let turn = self.asks.questions.acquire().await;
        let sections = lock(&name.routes).take_wanted();
        let reply = self.ask(&name, sections, None).await;
        drop(turn);
        let in_vain = reply.as_ref().is_none_or(|reply| reply.unserved.is_some());
        let mut ours = Vec::new();
        {
            let mut routes = lock(&name.routes);
            routes.unserved = reply.as_ref().and_then(|reply| reply.unserved.clone());
            for Route { from, to, address, .. } in reply.iter().flat_map(|reply| &reply.routes) {
                // Asked about was what we do not serve: what is ours of it was not listed yet.
                if *address == self.settings.address {
                    ours.push(SectionRange { name: name.name().clone(), from: *from, to: *to });
                }
            }
            routes.learn_from_master(reply.as_ref().map_or(&[], |reply| &reply.routes));
        }
        self.hurry(&ours);
        name.changed.notify_waiters();
        // Calls for ever new sections make no busy loop where nothing can be given.
        if in_vain {
            tokio::time::sleep(PAUSE).await;
        }
        lock(&name.routes).asking = false;
    }

    /// The first answer that one of the masters gives.
    async fn ask(&self, name: &Name, sections: Vec<Section>, all_from: Option<Section>) -> Option<RoutesReply> {
        let request = RoutesRequest { cluster: None, name: name.name().clone(), sections, all_from };
        let request = &request;
        let asked = self.masters.ask(self.ask_within_a_lease(Lane::Lists, &self.asks.last), |line| async move {
            let said = line.section_routes(request.clone()).await;
            said.map(Some)
                .inspect_err(|error| tracing::debug!(address = line.address(), %error, "a master said no routes"))
        });
        let mut reply = asked.await.ok()?;
        self.forwards.allow(std::mem::take(&mut reply.networks));
        Some(reply)
    }

    /// Asks a master who serves which sections of a name, from that one on.
    ///
    /// # Errors
    /// [`Refusal::MastersUnavailable`], [`Refusal::Overloaded`], and what comes of asking for a name.
    pub async fn routes(&self, name: &str, from: Section) -> Result<SequenceRoutes, Refusal> {
        let name = self.name(name, 0).await?;
        let turn = tokio::time::timeout(TURN, self.asks.turn.lock()).await;
        let asking =
            turn.map_err(|_| Refusal::Overloaded("too many calls for routes wait for the masters; ask again"))?;
        let reply = self.ask(&name, Vec::new(), Some(from)).await;
        drop(asking);
        let mut reply = reply.ok_or_else(|| Refusal::MastersUnavailable("none of them says routes".to_owned()))?;
        reply.routes.truncate(ROUTES_MAX);
        lock(&name.routes).learn_from_master(&reply.routes);
        let keys_per_section = name.definition.keys_per_section();
        let cluster = self.minter.grants().membership().cluster;
        Ok(SequenceRoutes { cluster, keys_per_section, routes: reply.routes, next: reply.next })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_again_and_again_keeps_nothing_from_being_asked_about() {
        let asked = u32::try_from(ROUTES_ASKED_MAX).unwrap();
        let mut routes = NameRoutes { wanted: (0..2 * asked).collect(), ..NameRoutes::default() };
        assert_eq!(routes.take_wanted(), (0..asked).map(Section).collect::<Vec<_>>());
        routes.asked.clear();
        routes.wanted.extend(0..asked);
        assert_eq!(routes.take_wanted(), (asked..2 * asked).map(Section).collect::<Vec<_>>());
        routes.asked.clear();
        assert_eq!(routes.take_wanted(), (0..asked).map(Section).collect::<Vec<_>>());
        assert!(routes.take_wanted().is_empty() && routes.wanted.is_empty());
    }
}
