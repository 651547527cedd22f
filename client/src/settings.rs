//! Settings of a client: which agents to ask, and how patiently.

use common::api_key::{KEY_BEGIN, KEY_LEN};
use net::tls::Files as TlsFiles;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// Agents of one client at most.
pub const AGENTS_MAX: usize = 64;

/// The protocol in which an agent is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP, at its `--http-listen`.
    Http,
    /// tarpc, at its `--rpc-listen`.
    Rpc,
}

/// The address of an agent, with its protocol: `http://HOST:PORT` or `tarpc://HOST:PORT`, and with TLS `https://` or `tarpcs://`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The protocol.
    pub protocol: Protocol,
    /// TLS, with [`Settings::tls`], instead of plain TCP.
    pub tls: bool,
    /// HOST:PORT.
    pub at: String,
}

impl FromStr for Address {
    type Err = SettingsError;
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let wrong = || SettingsError::Address(text.to_owned());
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(wrong)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let plain = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:[]".contains(&b));
        if !plain || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        let (protocol, tls) = match scheme {
            "http" => (Protocol::Http, false),
            "https" => (Protocol::Http, true),
            "tarpc" => (Protocol::Rpc, false),
            "tarpcs" => (Protocol::Rpc, true),
            _ => return Err(wrong()),
        };
        Ok(Self { protocol, tls, at: rest.to_owned() })
    }
}

impl Address {
    /// Tells whether it is of this machine.
    pub(crate) fn is_local(&self) -> bool {
        let host = self.at.rsplit_once(':').map_or("", |(host, _)| host.trim_matches(['[', ']']));
        host == "localhost" || host.parse().is_ok_and(|at: IpAddr| at.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, tls, at } = self;
        let scheme = match protocol {
            Protocol::Http => "http",
            Protocol::Rpc => "tarpc",
        };
        write!(f, "{scheme}{}://{at}", if *tls { "s" } else { "" })
    }
}

/// Fetching in batches: [`Prefetch::new`], or [`Prefetch::default`] and what shall differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prefetch {
    /// IDs of one batch, 2 to [`BATCH_MAX`](crate::BATCH_MAX).
    pub batch: u32,
    /// Age beyond which IDs are not handed out any more.
    pub max_age: Duration,
}

impl Prefetch {
    /// Batches of `batch` IDs, of which none is handed out when it is older than `max_age`.
    pub const fn new(batch: u32, max_age: Duration) -> Self {
        Self { batch, max_age }
    }
}

impl Default for Prefetch {
    /// 1,000 IDs, ten seconds.
    fn default() -> Self {
        Self { batch: 1_000, max_age: Duration::from_secs(10) }
    }
}

/// Settings of a client: [`Settings::new`], and what shall differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Agents to ask, 1 to [`AGENTS_MAX`]; the first one first.
    pub agents: Vec<Address>,
    /// The longest time that one agent may take for one answer, and for a connection.
    pub timeout: Duration,
    /// The longest time that one may take for numbers of keys, if that is longer: while a section moves, or its agent is lost, calls
    /// wait at the agent up to one and a half `--sequence-lease` of the masters (7.5 s if they do not say otherwise) before it refuses.
    pub key_timeout: Duration,
    /// Time for which an agent that failed is asked last.
    pub rest: Duration,
    /// `None`: nothing is fetched before it is asked for.
    pub prefetch: Option<Prefetch>,
    /// The CA by which agents are known, and the application's own certificate, for addresses with TLS. The files are read again when they
    /// change.
    pub tls: Option<TlsFiles>,
    /// The masters' `--agent-listen`, by which a certificate that came by an invitation is renewed in time, and follows the cluster's CA; none:
    /// it is renewed elsewhere, as by `uniq_generator --renew-certificate`.
    pub masters: Vec<String>,
    /// The API key that the client shows to agents; `None`: it is known by its certificate or its address.
    pub api_key: Option<ApiKey>,
    /// Shows the key over plain TCP to agents of other machines, too, where everybody on the way can read it.
    pub key_over_plain_tcp: bool,
}

/// An API key for agents, as an admin made it in the console.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiKey {
    type Err = SettingsError;
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let text = text.trim();
        let is_one = text.len() == KEY_LEN && text.starts_with(KEY_BEGIN) && text.bytes().all(|b| b.is_ascii_graphic());
        is_one.then(|| Self(text.to_owned())).ok_or(SettingsError::ApiKey)
    }
}

impl fmt::Debug for ApiKey {
    /// Without the key: settings are logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

impl Settings {
    /// Settings for these agents, each with two seconds for an answer, and ten for numbers of keys; one that failed is asked last for
    /// a second; no prefetching.
    ///
    /// # Errors
    /// [`SettingsError::Address`].
    pub fn new<'a>(agents: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingsError> {
        let agents: Result<Vec<Address>, SettingsError> = agents.into_iter().map(str::parse).collect();
        Ok(Self {
            agents: agents?,
            timeout: Duration::from_secs(2),
            key_timeout: Duration::from_secs(10),
            rest: Duration::from_secs(1),
            prefetch: None,
            tls: None,
            masters: Vec::new(),
            api_key: None,
            key_over_plain_tcp: false,
        })
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        if !(1..=AGENTS_MAX).contains(&self.agents.len()) {
            return Err(SettingsError::Agents(self.agents.len()));
        }
        if let Some(address) = self.agents.iter().find(|address| address.tls && self.tls.is_none()) {
            return Err(SettingsError::NoTls(address.clone()));
        }
        let is_open = |address: &&Address| !(address.tls || address.is_local());
        let shows = self.api_key.is_some() && !self.key_over_plain_tcp;
        if let Some(address) = self.agents.iter().find(is_open).filter(|_| shows) {
            return Err(SettingsError::PlainKey(address.clone()));
        }
        match self.prefetch {
            Some(prefetch) if !(2..=crate::BATCH_MAX).contains(&prefetch.batch) => {
                Err(SettingsError::Batch(prefetch.batch))
            }
            _ => Ok(()),
        }
    }
}

/// The reason why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A text that is not an agent's address.
    #[error(
        "'{0}' is not an agent's address: write http://HOST:PORT (its --http-listen) or tarpc://HOST:PORT (its --rpc-listen), \
         and https:// or tarpcs:// if it speaks TLS"
    )]
    Address(String),
    /// None, or too many.
    #[error("{0} agents were named: name 1 to {AGENTS_MAX}")]
    Agents(usize),
    /// A batch that makes no sense.
    #[error("a batch of {0} cannot be prefetched: 2 to {max}", max = crate::BATCH_MAX)]
    Batch(u32),
    /// A text that is no API key.
    #[error(
        "this is no API key: it begins with {KEY_BEGIN} and has {KEY_LEN} characters, as the console showed it when it was made"
    )]
    ApiKey,
    /// An API key for an address without TLS.
    #[error(
        "{0} is an address without TLS, on which everybody on the way could read the API key: use https:// or tarpcs://, or set key_over_plain_tcp"
    )]
    PlainKey(Address),
    /// TLS without certificates.
    #[error("{0} is an address with TLS: say in `tls` by which CA its agent is known")]
    NoTls(Address),
    /// Masters for a certificate that they did not issue.
    #[error(
        "`masters` renew a certificate that came by an invitation: let `tls` be TlsFiles::in_folder of its folder, where own.pem is as it came"
    )]
    NotEnrolled,
    /// Certificates that cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The operating system refused something.
    #[error("{0}")]
    System(String),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["http://127.0.0.1:6200", "tarpc://agent-1.example:6201", "https://[::1]:6200", "tarpcs://a:1"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!(
            " http://a:1/ ".parse::<Address>(),
            Ok(Address { protocol: Protocol::Http, tls: false, at: "a:1".to_owned() })
        );
        for text in [
            "",
            "127.0.0.1:6200",
            "httpss://a:1",
            "http://a",
            "http://:1",
            "http://a:70000",
            "http://a/x:1",
            "http://a@b:1",
        ] {
            assert_eq!(text.parse::<Address>(), Err(SettingsError::Address(text.to_owned())));
        }
    }

    #[test]
    fn a_key_is_taken_as_it_was_shown_and_is_not_shown_again() {
        let text = format!("{KEY_BEGIN}{}", "a1".repeat(32));
        let key: ApiKey = format!(" {text}\n").parse().unwrap();
        assert_eq!((key.as_str(), format!("{key:?}")), (text.as_str(), "ApiKey(..)".to_owned()));
        for bad in ["", "uniq_", &text[1..], &text.replace("a1", "a\n")] {
            assert_eq!(bad.parse::<ApiKey>(), Err(SettingsError::ApiKey), "{bad}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let none = Settings::new([]).unwrap();
        assert_eq!(none.check(), Err(SettingsError::Agents(0)));
        let mut one = Settings::new(["http://a:1"]).unwrap();
        assert_eq!(one.check(), Ok(()));
        let mut secured = Settings::new(["tarpcs://a:1"]).unwrap();
        assert_eq!(secured.check(), Err(SettingsError::NoTls("tarpcs://a:1".parse().unwrap())));
        secured.tls = Some(TlsFiles { ca: "ca.pem".into(), own: None });
        assert_eq!(secured.check(), Ok(()));
        let key: ApiKey = format!("{KEY_BEGIN}{}", "0".repeat(64)).parse().unwrap();
        for (at, fits) in [
            ("http://a:1", false),
            ("tarpc://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost:1", true),
        ] {
            let settings = Settings { api_key: Some(key.clone()), ..Settings::new([at]).unwrap() };
            assert_eq!(settings.check().is_ok(), fits, "{at}");
            assert_eq!(Settings { key_over_plain_tcp: true, ..settings }.check(), Ok(()));
        }
        one.prefetch = Some(Prefetch { batch: 1, ..Prefetch::default() });
        assert_eq!(one.check(), Err(SettingsError::Batch(1)));
    }
}
