//! The networks that may ask for leases: read for each connection, and set by the driver as the ledger says.

use arc_swap::ArcSwap;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;

/// Networks whose addresses may ask for leases. Clones share them, and follow the ledger's.
#[derive(Clone, Debug)]
pub struct Whitelist(Arc<ArcSwap<Vec<IpNet>>>);

impl Whitelist {
    /// A whitelist of these networks, until others are set.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(networks.into_iter().collect())))
    }

    /// Replaces the networks.
    pub fn set(&self, networks: &[IpNet]) {
        // One that was written down before may be in the clothes of IPv6.
        let networks = networks.iter().map(|network| common::setting::canonical(*network).unwrap_or(*network));
        self.0.store(Arc::new(networks.collect()));
    }

    /// Tells whether this address may ask. An IPv4 address that is written as IPv6 counts as what it is.
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.load().iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whitelist_sees_through_mapped_addresses() {
        let list = Whitelist::new(["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        list.set(&["::ffff:127.0.0.0/104".parse().unwrap(), "::1/128".parse().unwrap()]);
        for (address, fine) in
            [("127.0.0.9", true), ("::ffff:127.0.0.1", true), ("::1", true), ("10.0.0.1", false), ("::2", false)]
        {
            assert_eq!(list.admits(address.parse().unwrap()), fine, "{address}");
        }
    }
}
