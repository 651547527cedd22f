//! Under which names a server of ours may be asked over HTTP.
//!
//! A page in a browser may send requests to any address that its own name leads to: whoever owns a name can let it lead to
//! 127.0.0.1, or to a machine of a closed network, and its pages then ask there as if it were their own server ("DNS
//! rebinding"). What such a request cannot help saying is that name, in `Host`. So a name must be known; a plain address is no
//! name, and `localhost` leads nowhere else.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use core::net::IpAddr;
use std::collections::BTreeSet;

/// Stands for every name.
pub const ANY: &str = "*";
/// The longest part of a refused name that is repeated to the caller, in characters.
const SHOWN_MAX: usize = 64;

/// The names that are known, beside addresses and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    any: bool,
    names: BTreeSet<String>,
}

/// The reason why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// HTTP/1.1 without a `Host`, or with more than one (RFC 9112, section 3.2).
    #[error("a request of HTTP/1.1 has exactly one Host header; this one has {0}")]
    Count(usize),
    /// A name that nobody told us of.
    #[error("this server is not known as '{0}': ask it by its address, or start it with --host-names {0}")]
    Unknown(String),
}

impl HostNames {
    /// Host names (`*`: all), in any case, without ports.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        Self { any: names.contains(ANY), names }
    }

    /// Tells whether a request for `host`, the value of a `Host` header, may be answered.
    pub fn accept(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let Some(name) = without_port(host) else { return false };
        let local = |name: &str| name == "localhost" || name.ends_with(".localhost");
        let known = |name: &str| local(name) || self.names.contains(name);
        self.any || is_address(name) || known(&name.trim_end_matches('.').to_ascii_lowercase())
    }

    /// Checks that a request with these `Host` headers, and this authority in its target if it has one, may be
    /// answered. `needed`: the request is one of HTTP/1.1, which has to have the header.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn check<'a>(
        &self,
        needed: bool,
        hosts: impl Iterator<Item = &'a [u8]>,
        target: Option<&'a str>,
    ) -> Result<(), HostError> {
        let hosts: Vec<&[u8]> = hosts.collect();
        if hosts.len() > 1 || (needed && hosts.is_empty()) {
            return Err(HostError::Count(hosts.len()));
        }
        match hosts.into_iter().chain(target.map(str::as_bytes)).find(|host| !self.accept(host)) {
            None => Ok(()),
            Some(host) => {
                let name: String = String::from_utf8_lossy(host).chars().filter(|c| !c.is_control()).collect();
                let name = without_port(&name).unwrap_or(&name);
                Err(HostError::Unknown(name.chars().take(SHOWN_MAX).collect()))
            }
        }
    }
}

/// The host of `HOST` or `HOST:PORT`; `None` if what follows it is not a port.
fn without_port(host: &str) -> Option<&str> {
    let end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, rest) = host.split_at_checked(end)?;
    let port = rest.strip_prefix(':').unwrap_or(rest);
    let is_port = (rest.is_empty() || rest.starts_with(':')) && port.bytes().all(|b| b.is_ascii_digit());
    is_port.then_some(name)
}

fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match bare {
        Some(six) => six.parse::<core::net::Ipv6Addr>().is_ok(),
        None => matches!(name.parse(), Ok(IpAddr::V4(_))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_and_known_names_are_accepted_and_no_others() {
        let names = HostNames::new(["Agent-1".to_owned(), "ids.example.com".to_owned()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:6200",
            "10.1.2.3:80",
            "[::1]:6200",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST:6200",
            "ids.localhost:1",
            "agent-1:6200",
            "AGENT-1",
            "ids.example.com.",
            "ids.example.com:443",
        ] {
            assert!(names.accept(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            "a",
            "evil.example",
            "evil.example:6200",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "127.0.0.1@evil.example",
            "ids.example.com:443:1",
            "[::1]evil.example",
            "[evil.example]",
            "::1",
            "0x7f.1",
            "agent-1 ",
            "user@localhost",
            "localhost/",
            "*",
        ] {
            assert!(!names.accept(host.as_bytes()), "{host}");
        }
        assert!(!names.accept(b"\xff"));
        assert!(HostNames::new(["*".to_owned()]).accept(b"evil.example"));
    }

    #[test]
    fn one_host_and_no_more() {
        let names = HostNames::default();
        let check = |needed, hosts: &[&'static str], target| {
            names.check(needed, hosts.iter().map(|host| host.as_bytes()), target)
        };
        assert_eq!(check(true, &["localhost"], None), Ok(()));
        assert_eq!(check(false, &[], None), Ok(()));
        assert_eq!(check(true, &[], None), Err(HostError::Count(0)));
        assert_eq!(check(true, &["localhost", "localhost"], None), Err(HostError::Count(2)));
        assert_eq!(
            check(true, &["localhost"], Some("evil.example:1")),
            Err(HostError::Unknown("evil.example".to_owned()))
        );
        let Err(HostError::Unknown(shown)) = names.check(true, std::iter::once([b'a'; 999].as_slice()), None) else {
            panic!()
        };
        assert_eq!(shown.len(), SHOWN_MAX);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(host: Vec<u8>, text in "[\\[\\]:.a-z0-9]{0,12}") {
            let names = HostNames::default();
            let _ = names.check(true, std::iter::once(host.as_slice()), Some(&text));
        }
    }
}
