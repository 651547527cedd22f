//! Networks as operators write them.

use core::net::IpAddr;
use ipnet::{IpNet, Ipv6Net};

/// A text that is not a network, or one that would not mean what it seems to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Text that is no network.
    #[error("write a network as 10.0.0.0/8 or fd00::/8, or one address")]
    Malformed,
    /// An octet that some read as decimal and others as octal.
    #[error("write the octets of an IPv4 network without leading zeros: some would read them as octal numbers")]
    LeadingZero,
    /// A part of the addresses that stand for IPv4 ones, and of others.
    #[error("callers from ::ffff:0:0/96 count as the IPv4 addresses they stand for: write the IPv4 network")]
    Mapped,
}

/// A network as an operator writes it, or one address, with nothing beyond its mask. One of IPv4 addresses in the clothes of
/// IPv6 becomes what it stands for, because callers do.
///
/// # Errors
/// Text that would never match, or would match what it does not seem to.
pub fn network(text: &str) -> Result<IpNet, NetworkError> {
    let address = text.split('/').next().unwrap_or_default();
    let octets = address.rsplit(':').next().unwrap_or_default();
    let zero = |octet: &str| octet.len() > 1 && octet.starts_with('0');
    if octets.contains('.') && octets.split('.').any(zero) {
        return Err(NetworkError::LeadingZero);
    }
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    canonical(network.map_err(|_| NetworkError::Malformed)?)
}

/// The network in the form that callers' addresses are compared with.
///
/// # Errors
/// [`NetworkError::Mapped`].
pub fn canonical(network: IpNet) -> Result<IpNet, NetworkError> {
    const MAPPED_BITS: u8 = 96;
    let IpAddr::V4(v4) = network.addr().to_canonical() else { return Ok(network.trunc()) };
    let bits = match network {
        IpNet::V4(net) => Some(net.prefix_len()),
        IpNet::V6(net) => net.prefix_len().checked_sub(MAPPED_BITS),
    };
    let network = bits.and_then(|bits| IpNet::new(v4.into(), bits).ok());
    network.map(|network| network.trunc()).ok_or(NetworkError::Mapped)
}

/// The network that one host usually has: its IPv4 address, or the 64 bits of IPv6 that are its own.
pub fn host_network(address: IpAddr) -> IpNet {
    const V6_BITS: u8 = 64;
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4).into(),
        IpAddr::V6(v6) => Ipv6Net::new(v6, V6_BITS).map_or(IpAddr::V6(v6).into(), |net| net.trunc().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_taken_as_callers_are_compared_with_it_or_refused() {
        for (text, taken) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1/32"),
            ("::ffff:a00:0/96", "0.0.0.0/0"),
            ("fd00::7/8", "fd00::/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(network(text), Ok(net(taken)), "{text}");
        }
        for (text, why) in [
            ("010.0.0.0/8", NetworkError::LeadingZero),
            ("10.0.00.1", NetworkError::LeadingZero),
            ("::ffff:010.0.0.0/104", NetworkError::LeadingZero),
            ("::ffff:10.0.0.0/95", NetworkError::Mapped),
            ("10.0.0.0/33", NetworkError::Malformed),
            ("somewhere", NetworkError::Malformed),
            ("", NetworkError::Malformed),
        ] {
            assert_eq!(network(text), Err(why), "{text}");
        }
    }
}
