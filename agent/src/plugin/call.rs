//! Calls, answers and refusals as plugins see them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::refusal::Refusal;
use common::account::AccountName;
use common::kind::Kind;
use common::time::{Now, SECOND_MS, SpanMs};
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use net::rpc::mint::MintCode;
use net::tls::{Remote, Role};

/// The longest reason of a refusal, in bytes; what is longer is cut.
pub const DETAIL_LEN_MAX: usize = 512;

/// The caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller<'a> {
    /// A client, by the address that its connection comes from.
    Address(IpAddr),
    /// A client or an agent, by its certificate.
    Certificate(&'a Role),
    /// Whoever shows that API key.
    Key(&'a AccountName),
    /// A user of this machine, by the number that the system knows it by.
    User(u32),
    /// Whoever has no address, such as the application that an agent is embedded in.
    Label(&'a str),
}

impl<'a> From<&'a Remote> for Caller<'a> {
    fn from(remote: &'a Remote) -> Self {
        match (remote.user(), remote.role()) {
            (Some(user), _) => Self::User(user),
            (None, Some(role)) => Self::Certificate(role),
            (None, None) => Self::Address(remote.from.ip()),
        }
    }
}

impl Caller<'static> {
    /// The application that mints in its own process.
    pub const IN_PROCESS: Self = Self::Label("in process");
}

impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.to_canonical().fmt(f),
            Self::Certificate(role) => role.fmt(f),
            Self::Key(name) => write!(f, "key:{name}"),
            Self::User(user) => write!(f, "uid:{user}"),
            Self::Label(label) => f.write_str(label),
        }
    }
}

/// A call for IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The kind of the IDs.
    pub kind: Kind,
    /// The name of the generator.
    pub name: &'a str,
    /// The number of IDs, at least 1.
    pub n: u32,
    /// The caller.
    pub caller: Caller<'a>,
    /// The time at which the call came.
    pub now: Now,
}

/// The parts of an answer that a plugin looks at. Each includes those before it; what no plugin of a name needs is not made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// Only that IDs left.
    #[default]
    Count,
    /// The ranges that left.
    Ranges,
    /// The text of each ID.
    Texts,
}

/// IDs that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first of them, as text; numbers in decimal.
    pub first: String,
    /// The last one.
    pub last: String,
    /// The number of IDs, at least 1.
    pub count: u32,
}

/// An answer that is about to leave. Its IDs are taken: whatever happens now, nobody else gets them.
#[derive(Debug)]
pub struct Outgoing<'a> {
    ranges: &'a [IdRange],
    texts: &'a [String],
    elapsed: Duration,
}

impl<'a> Outgoing<'a> {
    /// An answer of these ranges; none of them where no plugin [needs](Needs) them.
    pub fn new(ranges: &'a [IdRange]) -> Self {
        Self { ranges, texts: &[], elapsed: Duration::ZERO }
    }

    /// With the texts of all IDs, in their order.
    #[must_use]
    pub fn with_texts(self, texts: &'a [String]) -> Self {
        Self { texts, ..self }
    }

    /// The ranges, in the order in which they were minted. Empty unless a plugin of the name needs them.
    pub fn ranges(&self) -> &[IdRange] {
        self.ranges
    }

    /// The text of each ID as its name writes it, also where another form was asked for. Empty unless a plugin of the name needs it.
    pub fn texts(&self) -> &[String] {
        self.texts
    }

    /// The time that minting took, with the plugins' `before`.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    pub(super) fn took(self, elapsed: Duration) -> Self {
        Self { elapsed, ..self }
    }
}

/// A plugin's no, worded for the caller. It never comes with an ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PluginRefusal {
    code: MintCode,
    detail: String,
    retry: Option<SpanMs>,
    /// The plugin that said no: known to the chain.
    pub(super) plugin: String,
}

impl PluginRefusal {
    /// A refusal with one of the stable codes, which says the HTTP status too.
    pub fn new(code: MintCode, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > DETAIL_LEN_MAX {
            detail.truncate(detail.floor_char_boundary(DETAIL_LEN_MAX));
        }
        Self { code, detail, retry: None, plugin: String::new() }
    }

    /// A refusal for what works again by itself.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(MintCode::Overloaded, detail).retry_after(SpanMs(SECOND_MS))
    }

    /// Sets the time after which to ask again; over HTTP `Retry-After`, in whole seconds, rounded up.
    #[must_use]
    pub fn retry_after(self, retry: SpanMs) -> Self {
        Self { retry: Some(retry), ..self }
    }

    /// The stable code.
    pub fn code(&self) -> MintCode {
        self.code
    }

    /// The reason.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The time after which to ask again, if that is known.
    pub fn retry(&self) -> Option<SpanMs> {
        self.retry
    }

    /// The plugin that said no.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }
}

/// The stage that a call reached that gets no ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// A plugin refused it before any ID was taken.
    Before,
    /// Minting refused it. No ID left; at most a gap.
    Minting,
    /// A plugin refused it when its IDs were taken: they are a gap.
    After,
    /// Nobody waits for the answer any more, or minting panicked. Its IDs may be a gap.
    GivenUp,
}

/// The reason why a call gets no ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The stable code.
    pub code: MintCode,
    /// The reason.
    pub detail: &'a str,
    /// The time after which to ask again, if that is known.
    pub retry: Option<SpanMs>,
    /// The stage that it reached.
    pub stage: Stage,
    /// The plugin that refused it, if one did.
    pub plugin: Option<&'a str>,
    /// The time that it took.
    pub elapsed: Duration,
}

impl<'a> Failure<'a> {
    /// Of a call that minting refused, or whatever is before minting; `detail` is the refusal's text.
    pub fn of(refusal: &'a Refusal, detail: &'a str) -> Self {
        let (plugin, stage) = match refusal {
            Refusal::ByPlugin { plugin, taken: false, .. } => (Some(plugin.as_str()), Stage::Before),
            Refusal::ByPlugin { plugin, taken: true, .. } => (Some(plugin.as_str()), Stage::After),
            _ => (None, Stage::Minting),
        };
        Self { code: refusal.code(), detail, retry: refusal.retry_after(), stage, plugin, elapsed: Duration::ZERO }
    }

    /// Of a call that a plugin refused.
    pub fn by_plugin(refusal: &'a PluginRefusal, stage: Stage) -> Self {
        Self {
            code: refusal.code,
            detail: &refusal.detail,
            retry: refusal.retry,
            stage,
            plugin: Some(&refusal.plugin),
            elapsed: Duration::ZERO,
        }
    }

    pub(super) fn took(self, elapsed: Duration) -> Self {
        Self { elapsed, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_of_bounded_length_and_callers_are_shown_as_people_know_them() {
        let long = PluginRefusal::new(MintCode::Overloaded, "ä".repeat(DETAIL_LEN_MAX));
        assert!(long.detail().len() <= DETAIL_LEN_MAX && long.detail().starts_with('ä'));
        assert_eq!(Caller::Address("::ffff:10.0.0.1".parse().unwrap()).to_string(), "10.0.0.1");
        assert_eq!(Caller::User(1_000).to_string(), "uid:1000");
        assert_eq!(Caller::IN_PROCESS.to_string(), "in process");
    }
}
