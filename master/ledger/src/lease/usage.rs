//! The use of the pools by agents and networks: grants are limited by it beside an agent's name, which its caller chooses.
//!
//! Nobody chooses the address that he connects from, or only within his own network. So the open leases of one network, and
//! its new grants of an hour, are bounded too, and the last free values are kept for those who have held one before.

use core::net::{IpAddr, SocketAddr};
use ids::lease::{Lease, LeaseState, Prep};
use ids::parameters::{AgentId, ClusterParameters};
use ids::time::{HOUR_MS, SpanMs, WallMs};
use ids::token::{TokenKey, TokenType};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};

/// Span over which new grants of a network are counted.
pub const RATE_SPAN: SpanMs = SpanMs(HOUR_MS);
/// Time after its grant at which a renewal makes its holder known: the last free values are for those.
pub const KNOWN_AFTER: SpanMs = SpanMs(HOUR_MS);
/// Open leases of a network that were never renewed, with which it gets further ones for [`UNPROVED_SPAN`] only, until they
/// are.
///
/// [`UNPROVED_SPAN`]: ids::lease::UNPROVED_SPAN
pub const UNPROVED_MAX: u32 = 16;

/// Limits of one network. Each master goes by its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Leading bits that IPv4 addresses of one network have in common, 1 to 32.
    pub v4_bits: u8,
    /// Leading bits that IPv6 addresses of one network have in common, 1 to 128.
    pub v6_bits: u8,
    /// The part of a type's tokens that one network may have open leases of, 1 to 100 percent; 100 means no limit.
    pub share_percent: u8,
    /// New grants of a type that one network gets within [`RATE_SPAN`]; 0 means no limit.
    pub grants_per_hour: u32,
    /// The part of each pool that is kept for agents and networks that are known, 0 to 50 percent; 0 keeps nothing.
    pub kept_percent: u8,
}

impl Limits {
    /// The limits if nothing else is said: an IPv4 address, or the network that one IPv6 host usually has, gets half of a pool
    /// at most, and a quarter of the largest usual pool within an hour.
    pub const DEFAULT: Self =
        Self { v4_bits: 32, v6_bits: 64, share_percent: 50, grants_per_hour: 1_024, kept_percent: 20 };

    /// The network of a caller; `None` if the text is not an address with or without a port.
    pub fn network(&self, address: &str) -> Option<IpNet> {
        let ip: IpAddr = address.parse::<SocketAddr>().map(|a| a.ip()).or_else(|_| address.parse()).ok()?;
        let ip = ip.to_canonical();
        let bits = if ip.is_ipv4() { self.v4_bits } else { self.v6_bits };
        IpNet::new(ip, bits).ok().map(|network| network.trunc())
    }

    /// Counts the open leases that one network may have of a type with so many tokens: never fewer than one agent may have.
    pub fn share_of(&self, size: u32) -> u32 {
        if self.share_percent >= 100 {
            return u32::MAX;
        }
        let share = u64::from(size) * u64::from(self.share_percent) / 100;
        u32::try_from(share).unwrap_or(u32::MAX).max(ClusterParameters::BUDGET.into())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The counts. Derived from the table's records, and changed with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Usage {
    limits: Limits,
    uint2_max: u16,
    /// Open leases by network, by the type that was asked for, and by the time of the grant.
    granted: BTreeSet<(IpNet, TokenType, WallMs, TokenKey)>,
    /// Counts the values that a type admits of a network, whichever type they were asked for under.
    open: BTreeMap<(IpNet, TokenType), u32>,
    /// Those of them, of all types, that were never renewed by their holders.
    unproved: BTreeMap<IpNet, BTreeSet<TokenKey>>,
    /// Counts the leases of known agents and networks, also closed ones.
    agents: BTreeMap<AgentId, u32>,
    networks: BTreeMap<IpNet, u32>,
}

impl Usage {
    pub(super) fn new(limits: Limits, uint2_max: u16) -> Self {
        Self { limits, uint2_max, ..Self::default() }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn add_lease(&mut self, key: TokenKey, lease: &Lease) {
        let network = self.limits.network(&lease.address);
        if lease.state != LeaseState::Closed {
            self.add(key, network, lease.token_type, lease.granted);
            if let Some(network) = network.filter(|_| lease.rseq == 0) {
                self.unproved.entry(network).or_default().insert(key);
            }
        }
        if is_known(lease) {
            *self.agents.entry(lease.agent_id.clone()).or_default() += 1;
            if let Some(network) = network {
                *self.networks.entry(network).or_default() += 1;
            }
        }
    }

    pub(super) fn remove_lease(&mut self, key: TokenKey, lease: &Lease) {
        let network = self.limits.network(&lease.address);
        self.remove(key, network, lease.token_type, lease.granted);
        self.prove(key, network);
        if is_known(lease) {
            take_one(&mut self.agents, &lease.agent_id);
            if let Some(network) = network {
                take_one(&mut self.networks, &network);
            }
        }
    }

    pub(super) fn add_prep(&mut self, prep: &Prep) {
        let network = self.limits.network(&prep.address);
        self.add(prep.key, network, prep.token_type, prep.granted);
        if let Some(network) = network {
            self.unproved.entry(network).or_default().insert(prep.key);
        }
    }

    pub(super) fn remove_prep(&mut self, prep: &Prep) {
        let network = self.limits.network(&prep.address);
        self.remove(prep.key, network, prep.token_type, prep.granted);
        self.prove(prep.key, network);
    }

    fn prove(&mut self, key: TokenKey, network: Option<IpNet>) {
        let Some(network) = network else { return };
        if let Some(keys) = self.unproved.get_mut(&network) {
            keys.remove(&key);
            if keys.is_empty() {
                self.unproved.remove(&network);
            }
        }
    }

    fn add(&mut self, key: TokenKey, network: Option<IpNet>, asked: TokenType, at: WallMs) {
        let Some(network) = network else { return };
        if self.granted.insert((network, asked, at, key)) {
            for token_type in types_of(key, self.uint2_max) {
                *self.open.entry((network, token_type)).or_default() += 1;
            }
        }
    }

    fn remove(&mut self, key: TokenKey, network: Option<IpNet>, asked: TokenType, at: WallMs) {
        let Some(network) = network else { return };
        if self.granted.remove(&(network, asked, at, key)) {
            for token_type in types_of(key, self.uint2_max) {
                take_one(&mut self.open, &(network, token_type));
            }
        }
    }

    /// Tells whether so many leases of a network were never renewed that the next one has to be proved wanted.
    pub(crate) fn must_prove(&self, address: &str) -> bool {
        let keys = self.limits.network(address).and_then(|network| self.unproved.get(&network));
        keys.is_some_and(|keys| keys.len() >= UNPROVED_MAX as usize)
    }

    pub(crate) fn open_of(&self, network: IpNet, token_type: TokenType) -> u32 {
        self.open.get(&(network, token_type)).copied().unwrap_or_default()
    }

    /// Tells whether a network was granted `count` or more of a type since an instant.
    pub(crate) fn were_granted(&self, network: IpNet, token_type: TokenType, since: WallMs, count: u32) -> bool {
        let first = TokenKey { family: ids::token::TokenFamily::String2, value: ids::token::TokenValue(0) };
        let recent = self.granted.range((network, token_type, since, first)..);
        let recent = recent.take_while(|(n, t, ..)| (*n, *t) == (network, token_type));
        recent.take(count as usize).count() >= count as usize
    }

    /// Tells whether this agent or this network has held a lease for a while, ever.
    pub(crate) fn knows(&self, agent_id: &AgentId, network: Option<IpNet>) -> bool {
        self.agents.contains_key(agent_id) || network.is_some_and(|network| self.networks.contains_key(&network))
    }
}

/// The types that admit a value.
pub(super) fn types_of(key: TokenKey, uint2_max: u16) -> impl Iterator<Item = TokenType> {
    TokenType::ALL.into_iter().filter(move |kind| kind.family() == key.family && kind.admits(key.value, uint2_max))
}

fn is_known(lease: &Lease) -> bool {
    lease.renewed - lease.granted >= KNOWN_AFTER
}

pub(super) fn take_one<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_ipv4_address_or_what_one_ipv6_host_has() {
        let limits = Limits::DEFAULT;
        for (address, network) in [
            ("10.0.0.1:5", Some("10.0.0.1/32")),
            ("10.0.0.1", Some("10.0.0.1/32")),
            ("[::ffff:10.0.0.1]:5", Some("10.0.0.1/32")),
            ("[2001:db8::1:2:3:4]:5", Some("2001:db8::/64")),
            ("", None),
            ("a name", None),
        ] {
            assert_eq!(limits.network(address), network.map(|text| text.parse().unwrap()), "{address}");
        }
        let wider = Limits { v4_bits: 24, v6_bits: 48, ..limits };
        assert_eq!(wider.network("10.0.0.9:5"), Some("10.0.0.0/24".parse().unwrap()));
    }

    #[test]
    fn a_share_is_at_least_what_one_agent_may_have_and_a_hundred_percent_is_no_bound() {
        let share = |share_percent, size| Limits { share_percent, ..Limits::DEFAULT }.share_of(size);
        assert_eq!((share(50, 4_096), share(50, 100), share(1, 10)), (2_048, 50, 4));
        assert_eq!(share(100, 10), u32::MAX);
    }
}
