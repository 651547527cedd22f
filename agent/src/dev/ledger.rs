//! The ledger of a process that is its own masters: what they would grant, by the same rules, where nobody else has to agree.
//!
//! Tokens rest as anywhere, so a session that begins anew gets one with which none of the last days can have minted. Places of axes and
//! bounds of sections only grow.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::lease::{Generation, Grant};
use common::namespace::{GeneratorName, Namespace};
use common::parameters::{ClusterId, ClusterParameters, SessionId};
use common::segment::Span;
use common::sequence::{Route, Section, SectionKey, SectionRange, SequenceDefinition, ServedAt};
use common::setting::{Change, Outcome, SettingKey, SettingValue, collision};
use common::time::WallMs;
use common::token::{TokenKey, TokenType, TokenValue};
use net::rpc::lease::{
    Changed, LIST_MAX, ListRequest, ListedLease, NAMESPACES_PAGE_MAX, NameState, NamespacesRequest, Refusal,
    Registered, Rent, RentRequest, TerminateRequest, TokenRequest, refusal,
};
use net::rpc::ranges::{
    HeldSections, KEEP_RANGES_MAX, KeepRequest, NotRaised, RAISED_MAX, ROUTES_ASKED_MAX, ROUTES_MAX, Raise, Raised,
    RaisedSections, RoutesReply, RoutesRequest, SegmentGrant, SegmentRequest, Unserved,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Names that may be registered: with [`SECTIONS_MAX`] they keep the ledger well below what one record may have.
pub(super) const NAMES_MAX: usize = 1_000;
/// Sections of all names together.
pub(super) const SECTIONS_MAX: usize = 16_384;

/// All that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ledger {
    cluster: ClusterId,
    leases: BTreeMap<TokenKey, Leased>,
    names: BTreeMap<GeneratorName, SettingValue>,
    /// The first place of each axis that nobody was granted.
    places: BTreeMap<GeneratorName, u64>,
    sections: BTreeMap<SectionKey, Owned>,
    /// Whoever serves sections now.
    #[serde(skip)]
    allocator: Option<Allocator>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Leased {
    token_type: TokenType,
    g: Generation,
    session: SessionId,
    from: WallMs,
    until: WallMs,
    /// False once it was given back.
    held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owned {
    g: Generation,
    owner: SessionId,
    max_seq: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Allocator {
    session: SessionId,
    address: ServedAt,
    sets: Vec<GeneratorName>,
}

impl Leased {
    fn grant(&self, key: TokenKey) -> Grant {
        let Self { token_type, g, from, until, .. } = *self;
        Grant { token_type, key, g, from, until, receipt: None }
    }
}

impl Ledger {
    /// Of a new cluster.
    pub(super) fn new(random: u64) -> Self {
        Self {
            cluster: ClusterId::for_trying(random),
            leases: BTreeMap::new(),
            names: BTreeMap::new(),
            places: BTreeMap::new(),
            sections: BTreeMap::new(),
            allocator: None,
        }
    }

    /// The cluster it is of.
    pub(super) const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Checks that a caller belongs to this cluster, as far as it says.
    ///
    /// # Errors
    /// [`Refusal::ForeignCluster`].
    pub(super) fn same_cluster(&self, caller: Option<ClusterId>) -> Result<(), Refusal> {
        match caller {
            Some(there) if there != self.cluster => Err(Refusal::ForeignCluster { here: self.cluster }),
            _ => Ok(()),
        }
    }

    /// The lease that the session has, or one of a free token; `dice` says where one is looked for first.
    pub(super) fn grant(&mut self, now: WallMs, request: &TokenRequest, dice: u32) -> Result<Grant, Refusal> {
        self.same_cluster(request.cluster)?;
        let TokenRequest { session, token_type, .. } = *request;
        let its = |leased: &Leased| leased.session == session && leased.token_type == token_type;
        let known = self.leases.iter().find(|(_, leased)| its(leased) && leased.held && now < leased.until);
        if let Some((key, leased)) = known {
            return Ok(leased.grant(*key));
        }
        let parameters = ClusterParameters::default();
        let from = parameters.utc_offset().day_floor(now);
        let is_free = |key: &TokenKey| match self.leases.get(key) {
            Some(leased) => parameters.reuse_at(leased.until) <= from,
            None => true,
        };
        let size = token_type.family().size(parameters.uint2_max());
        let all = (0..size).map(|step| TokenValue((dice % size + step) % size));
        let admitted = all.filter(|value| token_type.admits(*value, parameters.uint2_max()));
        let key = admitted.map(|value| token_type.key(value)).find(is_free);
        let key = key.ok_or(Refusal::PoolExhausted { token_type })?;
        let g = self.leases.get(&key).map_or(Generation::default(), |leased| leased.g).next();
        let leased = Leased { token_type, g, session, from, until: now + parameters.lease(), held: true };
        let grant = leased.grant(key);
        self.leases.insert(key, leased);
        Ok(grant)
    }

    /// Makes a lease longer that has not ended.
    pub(super) fn renew(&mut self, now: WallMs, request: &RentRequest) -> Result<Rent, Refusal> {
        self.same_cluster(request.cluster)?;
        let Some(leased) = self.leases.get_mut(&request.key).filter(|leased| leased.g == request.g) else {
            return Ok(Rent::Unrented);
        };
        if leased.session != request.session {
            return Ok(Rent::Rented);
        }
        if !leased.held || now >= leased.until {
            return Ok(Rent::Unrented);
        }
        leased.until = leased.until.max(now + ClusterParameters::default().lease());
        Ok(Rent::Success { until: leased.until, receipt: None })
    }

    /// The leases of a session.
    pub(super) fn list(&self, request: &ListRequest) -> Vec<ListedLease> {
        let after = request.after.map_or(Bound::Unbounded, Bound::Excluded);
        let its = self.leases.range((after, Bound::Unbounded)).filter(|(_, leased)| leased.session == request.session);
        its.take(LIST_MAX).map(|(key, leased)| ListedLease { grant: leased.grant(*key), held: leased.held }).collect()
    }

    /// Takes a lease back; its token rests as long as any.
    pub(super) fn take_back(&mut self, request: &TerminateRequest) -> Result<(), Refusal> {
        let leased = self.leases.get_mut(&request.key).filter(|leased| leased.g == request.g && leased.held);
        let leased = leased.ok_or(Refusal::NoLease)?;
        if leased.session != request.session {
            return Err(Refusal::NotHolder);
        }
        leased.held = false;
        Ok(())
    }

    /// Changes what a name stands for, or takes it in use.
    pub(super) fn change_name(&mut self, cluster: Option<ClusterId>, change: &Change) -> Result<Changed, Refusal> {
        let Some((name, value)) = self.would_change_name(cluster, change)? else { return Ok(Changed::AlreadySo) };
        self.names.insert(name, value);
        Ok(Changed::Done)
    }

    /// The name as a change would leave it; `None` if it is so already.
    pub(super) fn would_change_name(
        &self,
        cluster: Option<ClusterId>,
        change: &Change,
    ) -> Result<Option<(GeneratorName, SettingValue)>, Refusal> {
        self.same_cluster(cluster)?;
        let SettingKey::Namespace(name) = change.key() else { return Err(Refusal::NoSuchName) };
        let known = self.names.get(&name);
        let outcome = change.outcome(known, &[]);
        let full = known.is_none() && self.names.len() >= NAMES_MAX;
        match outcome {
            Outcome::Becomes(_) if full => Err(Refusal::TooMany { max: u32::try_from(NAMES_MAX).unwrap_or(u32::MAX) }),
            Outcome::Becomes(value) => {
                let others = self.names.values().filter_map(SettingValue::namespace);
                let collides = match &value {
                    SettingValue::Unused(wanted) => collision(wanted, others.filter(|other| *other.name() != name)),
                    _ => None,
                };
                if let Some(refused) = collides.and_then(|outcome| refusal(outcome, change)) {
                    return Err(refused);
                }
                Ok(Some((name, value)))
            }
            other => refusal(other, change).map_or(Ok(None), Err),
        }
    }

    /// A number that changes whenever names do: none is ever taken away, and each changes once.
    pub(super) fn digest_of_names(&self) -> u64 {
        let in_use = self.names.values().filter(|value| NameState::of(value) == NameState::InUse).count();
        (self.names.len() + in_use) as u64
    }

    /// A name, if it is registered.
    pub(super) fn name(&self, name: &GeneratorName) -> Option<Registered> {
        registered(self.names.get(name)?)
    }

    /// The names after another one.
    pub(super) fn names(&self, request: &NamespacesRequest) -> Result<Vec<Registered>, Refusal> {
        self.same_cluster(request.cluster)?;
        let after = request.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.names.range::<GeneratorName, _>((after, Bound::Unbounded));
        Ok(names.filter_map(|(_, value)| registered(value)).take(NAMESPACES_PAGE_MAX).collect())
    }

    fn in_use(&self, name: &GeneratorName) -> Option<&Namespace> {
        self.names.get(name).and_then(SettingValue::used)
    }

    /// A segment of an axis, after all that were granted.
    pub(super) fn segment(&mut self, request: &SegmentRequest) -> Result<SegmentGrant, Refusal> {
        self.same_cluster(request.cluster)?;
        let SegmentRequest { name, wanted, seen, .. } = request;
        let definition = self.in_use(name).and_then(Namespace::segments).ok_or(Refusal::NoSuchName)?;
        let (axis, step_max) = (definition.axis(), definition.steps().1);
        let first = self.places.get(name).copied().unwrap_or(axis.from).max(seen.to);
        if *wanted == 0 {
            return Ok(SegmentGrant::default());
        }
        let mut rest = Span { from: first, to: axis.to };
        let span = rest.take((*wanted).min(step_max).into());
        if span.is_empty() {
            return Err(Refusal::AxisEnded { name: name.clone() });
        }
        self.places.insert(name.clone(), rest.from);
        Ok(SegmentGrant { span, proof: None })
    }

    /// The sections of whoever keeps them, and whether there are more. From here on it serves those that nobody has.
    pub(super) fn keep(&mut self, request: &KeepRequest) -> Result<(Vec<HeldSections>, bool), Refusal> {
        self.same_cluster(request.cluster)?;
        let KeepRequest { session, address, sets, only, .. } = request;
        let allocator = Allocator { session: *session, address: address.clone(), sets: sets.clone() };
        self.allocator = (!request.leaves).then_some(allocator);
        let after = request.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let all = || self.sections.range::<SectionKey, _>((after, Bound::Unbounded));
        let within = |SectionRange { name, from, to }: &SectionRange| {
            let key = |section: &Section| SectionKey { name: name.clone(), section: *section };
            self.sections.range(key(from)..key(to.max(from)))
        };
        let wanted: Box<dyn Iterator<Item = _>> = match only.is_empty() {
            true => Box::new(all()),
            false => Box::new(only.iter().flat_map(within)),
        };
        let mut held: Vec<HeldSections> = Vec::new();
        for (SectionKey { name, section }, owned) in wanted.filter(|(_, owned)| owned.owner == *session) {
            let to = Section(section.0.saturating_add(1));
            let full = held.len() >= KEEP_RANGES_MAX;
            match held.last_mut().filter(|last| last.name == *name && last.to == *section && last.g == owned.g) {
                Some(last) => last.to = to,
                None if full => return Ok((held, true)),
                None => held.push(HeldSections { name: name.clone(), from: *section, to, g: owned.g }),
            }
        }
        Ok((held, false))
    }

    fn sequence(&self, name: &GeneratorName) -> Option<&SequenceDefinition> {
        self.in_use(name)?.sequences()
    }

    /// Raises bounds of a session's sections: first that of the one that calls wait for.
    pub(super) fn raise(&mut self, session: SessionId, raise: &Raise) -> Vec<RaisedSections> {
        let key = |section| SectionKey { name: raise.sections.name.clone(), section };
        let around = self.sections.range(key(raise.sections.from)..key(raise.sections.to.max(raise.sections.from)));
        let around = around.map(|(key, _)| key.section).filter(|section| *section != raise.section);
        let sections: Vec<Section> = [raise.section].into_iter().chain(around).take(RAISED_MAX).collect();
        let said = sections.into_iter().map(|section| RaisedSections {
            from: section,
            to: Section(section.0.saturating_add(1)),
            outcome: self.raise_one(session, raise, section),
        });
        said.collect()
    }

    pub(super) fn raise_one(
        &mut self,
        session: SessionId,
        raise: &Raise,
        section: Section,
    ) -> Result<Raised, NotRaised> {
        let name = &raise.sections.name;
        let definition = self.sequence(name).ok_or(NotRaised::Unknown)?;
        let (step, last) = (definition.step().into(), definition.width().last());
        let key = SectionKey { name: name.clone(), section };
        let owned = self.sections.get_mut(&key).ok_or(NotRaised::OtherOwner)?;
        if (owned.owner, owned.g) != (session, raise.g) {
            return Err(NotRaised::OtherOwner);
        }
        let from = owned.max_seq;
        // Nobody else can have raised it.
        owned.max_seq = raise.to.reached(from, step, last, last)?;
        Ok(Raised { from, max_seq: owned.max_seq, receipt: None })
    }

    /// Routes to sections; those that are asked for are given to whoever serves now.
    pub(super) fn routes(&mut self, request: &RoutesRequest) -> Result<RoutesReply, Refusal> {
        self.same_cluster(request.cluster)?;
        let RoutesRequest { name, sections: asked, all_from, .. } = request;
        let definition = self.sequence(name).ok_or(Refusal::NoSuchName)?;
        let (set, many) = (definition.set().clone(), definition.sections());
        let mut reply = RoutesReply { routes: Vec::new(), next: None, unserved: None, networks: Vec::new() };
        let Some(Allocator { session, address, .. }) =
            self.allocator.clone().filter(|allocator| allocator.sets.contains(&set))
        else {
            reply.unserved = Some(Unserved::NoAllocator { set });
            return Ok(reply);
        };
        let mut wanted: Vec<Section> = asked.iter().copied().take(ROUTES_ASKED_MAX).collect();
        wanted.sort_unstable();
        wanted.dedup();
        for section in wanted.iter().filter(|section| section.0 < many) {
            if !self.give(&SectionKey { name: name.clone(), section: *section }, session) {
                reply.unserved = Some(Unserved::TooMany { max: u32::try_from(SECTIONS_MAX).unwrap_or(u32::MAX) });
            }
        }
        let from = |section| SectionKey { name: name.clone(), section };
        let its = |(key, owned): (&SectionKey, &Owned)| {
            let to = Section(key.section.0.saturating_add(1));
            let route = || Route { from: key.section, to, address: address.clone(), g: owned.g };
            (owned.owner == session).then(route)
        };
        let all = all_from.map(|first| self.sections.range(from(first)..=from(Section(u32::MAX))));
        let mut all = all.into_iter().flatten().filter_map(its);
        let asked = wanted.iter().filter_map(|section| self.sections.get_key_value(&from(*section)).and_then(its));
        reply.routes = all.by_ref().take(ROUTES_MAX).collect();
        reply.next = all.next().map(|route| route.from);
        reply.routes.extend(asked);
        reply.routes.sort_unstable_by_key(|route| route.from);
        reply.routes.dedup_by_key(|route| route.from);
        Ok(reply)
    }

    /// Gives a section to a session; `false` if there is no room for a further one.
    fn give(&mut self, key: &SectionKey, session: SessionId) -> bool {
        let full = self.sections.len() >= SECTIONS_MAX;
        match self.sections.get_mut(key) {
            Some(owned) if owned.owner == session => true,
            Some(owned) => {
                (owned.g, owned.owner) = (owned.g.next(), session);
                true
            }
            None if full => false,
            None => {
                let owned = Owned { g: Generation::default().next(), owner: session, max_seq: 0 };
                self.sections.insert(key.clone(), owned);
                true
            }
        }
    }
}

fn registered(value: &SettingValue) -> Option<Registered> {
    Some(Registered { namespace: value.namespace()?.clone(), state: NameState::of(value), proof: None })
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
