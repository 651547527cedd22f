//! What plugins are told of a call, what they may change of its answer, and how they say no.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::refusal::Refusal;
use common::kind::Kind;
use common::rpc::mint::MintCode;
use common::time::{Now, SECOND_MS, SpanMs};
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

/// The longest text that a plugin may make of an ID, in bytes.
pub const TEXT_LEN_MAX: usize = 256;
/// The longest reason of a refusal, in bytes; what is longer is cut.
pub const DETAIL_LEN_MAX: usize = 512;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller<'a> {
    /// A client, by the address that its connection comes from.
    Address(IpAddr),
    /// Whoever has no address, such as the application that an agent is embedded in.
    Label(&'a str),
}

impl Caller<'static> {
    /// The application that mints in its own process.
    pub const IN_PROCESS: Self = Self::Label("in process");
}

impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.to_canonical().fmt(f),
            Self::Label(label) => f.write_str(label),
        }
    }
}

/// A call for IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Of which kind.
    pub kind: Kind,
    /// By which generator's name.
    pub name: &'a str,
    /// How many, at least 1.
    pub n: u32,
    /// Who asks.
    pub caller: Caller<'a>,
    /// When the call came.
    pub now: Now,
}

/// What of an answer a plugin looks at. Each includes those before it; what no plugin of a name needs is not made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// Only that IDs left.
    #[default]
    Count,
    /// The ranges that left.
    Ranges,
    /// The text of each ID.
    Texts,
    /// The text of each ID, to change it.
    Changes,
}

/// IDs that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first of them, as text; numbers in decimal.
    pub first: String,
    /// The last one.
    pub last: String,
    /// How many there are, at least 1.
    pub count: u32,
}

/// The texts of an answer.
#[derive(Debug)]
enum Texts<'a> {
    Fixed(&'a [String]),
    Free(&'a mut [String]),
}

/// An answer that is about to leave. Its IDs are taken: whatever happens now, nobody else gets them.
#[derive(Debug)]
pub struct Outgoing<'a> {
    ranges: &'a [IdRange],
    texts: Texts<'a>,
    /// Whether the plugin whose turn it is may change texts.
    pub(super) open: bool,
    pub(super) elapsed: Duration,
}

impl<'a> Outgoing<'a> {
    /// An answer of these ranges; none of them where no plugin [needs](Needs) them.
    pub fn new(ranges: &'a [IdRange]) -> Self {
        Self { ranges, texts: Texts::Fixed(&[]), open: false, elapsed: Duration::ZERO }
    }

    /// With the texts of all IDs, in their order, for an answer that does not carry texts.
    #[must_use]
    pub fn with_fixed_texts(self, texts: &'a [String]) -> Self {
        Self { texts: Texts::Fixed(texts), ..self }
    }

    /// With the texts of all IDs, in their order, which leave as plugins change them.
    #[must_use]
    pub fn with_texts(self, texts: &'a mut [String]) -> Self {
        Self { texts: Texts::Free(texts), ..self }
    }

    /// The ranges as they were minted, in their order. Empty unless a plugin of the name needs them.
    pub fn ranges(&self) -> &[IdRange] {
        self.ranges
    }

    /// The text of each ID as the plugins before left it. Empty unless a plugin of the name needs it.
    pub fn texts(&self) -> &[String] {
        match &self.texts {
            Texts::Fixed(texts) => texts,
            Texts::Free(texts) => texts,
        }
    }

    /// How long minting took, with the plugins' `before`.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Whether texts leave as they stand in [`texts`](Self::texts).
    pub(super) fn is_free(&self) -> bool {
        matches!(self.texts, Texts::Free(_))
    }

    /// Changes the text of the ID at `index`: 1 to [`TEXT_LEN_MAX`] printable ASCII characters without `"` and `\`.
    ///
    /// # Errors
    /// [`PluginRefusal`], if the plugin does not need [`Needs::Changes`], the answer carries no texts, there is no such ID, or
    /// the text may not leave. To be handed on by `?`.
    pub fn set_text(&mut self, index: usize, text: String) -> Result<(), PluginRefusal> {
        let refuse = |code, why: &str| Err(PluginRefusal::new(code, why));
        let texts = match &mut self.texts {
            Texts::Free(texts) if self.open => texts,
            Texts::Free(_) => {
                return refuse(MintCode::Overloaded, "a plugin changes texts and does not say that it needs to");
            }
            Texts::Fixed(_) => return refuse(MintCode::BadParameter, NO_TEXTS),
        };
        let leaves = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        if !(1..=TEXT_LEN_MAX).contains(&text.len()) || !text.bytes().all(leaves) {
            return refuse(MintCode::Overloaded, "a plugin made a text that may not leave");
        }
        match texts.get_mut(index) {
            Some(old) => *old = text,
            None => return refuse(MintCode::Overloaded, "a plugin changed the text of an ID that there is not"),
        }
        Ok(())
    }
}

/// Why an answer without texts is refused where a plugin changes them.
pub(crate) const NO_TEXTS: &str = "IDs by this name leave as texts only: ask for text or JSON";

/// A plugin's no, worded for the caller. It never comes with an ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PluginRefusal {
    code: MintCode,
    detail: String,
    retry: Option<SpanMs>,
    /// Who said no: known to the chain.
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

    /// What works again by itself.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(MintCode::Overloaded, detail).retry_after(SpanMs(SECOND_MS))
    }

    /// When to ask again; over HTTP `Retry-After`, in whole seconds, rounded up.
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

    /// When to ask again, if that is known.
    pub fn retry(&self) -> Option<SpanMs> {
        self.retry
    }

    /// The plugin that said no.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }
}

/// How far a call came that gets no ID.
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

/// Why a call gets no ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The stable code.
    pub code: MintCode,
    /// The reason.
    pub detail: &'a str,
    /// When to ask again, if that is known.
    pub retry: Option<SpanMs>,
    /// How far it came.
    pub stage: Stage,
    /// The plugin that refused it, if one did.
    pub plugin: Option<&'a str>,
    /// How long it took.
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
    fn only_texts_that_can_leave_are_taken() {
        let mut texts = vec!["1".to_owned()];
        let mut outgoing = Outgoing::new(&[]).with_texts(&mut texts);
        assert!(outgoing.set_text(0, "A-1".to_owned()).is_err(), "it did not say that it needs to");
        outgoing.open = true;
        for bad in ["", "a\nb", "a\"b", "a\\b", "ä", &"x".repeat(TEXT_LEN_MAX + 1)] {
            assert!(outgoing.set_text(0, bad.to_owned()).is_err(), "{bad:?}");
        }
        assert!(outgoing.set_text(1, "A".to_owned()).is_err());
        for good in ["A 1~", &"x".repeat(TEXT_LEN_MAX)] {
            outgoing.set_text(0, good.to_owned()).unwrap();
            assert_eq!(outgoing.texts(), [good]);
        }
        let fixed = ["1".to_owned()];
        let mut outgoing = Outgoing::new(&[]).with_fixed_texts(&fixed);
        outgoing.open = true;
        assert_eq!(outgoing.set_text(0, "A".to_owned()).unwrap_err().code(), MintCode::BadParameter);
    }

    #[test]
    fn a_reason_is_of_bounded_length_and_callers_are_shown_as_people_know_them() {
        let long = PluginRefusal::new(MintCode::Overloaded, "ä".repeat(DETAIL_LEN_MAX));
        assert!(long.detail().len() <= DETAIL_LEN_MAX && long.detail().starts_with('ä'));
        assert_eq!(Caller::Address("::ffff:10.0.0.1".parse().unwrap()).to_string(), "10.0.0.1");
        assert_eq!(Caller::IN_PROCESS.to_string(), "in process");
    }
}
