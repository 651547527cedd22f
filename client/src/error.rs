//! Errors: the reasons why no ID came.

use crate::settings::Address;
use net::rpc::mint::MintCode;
use std::fmt;
use std::time::Duration;

/// The reason why no ID came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The question was refused as any agent would refuse it: it has to change.
    #[error("{code}: {detail}")]
    Refused {
        /// [`MintCode::BadParameter`], [`MintCode::UnknownGenerator`], [`MintCode::GeneratorExists`] or
        /// [`MintCode::Forbidden`].
        code: MintCode,
        /// The reason, for a person.
        detail: String,
    },
    /// No agent could give an ID; asking again later may help.
    #[error("no agent gave an ID: {}", list(.0))]
    Unavailable(Vec<Attempt>),
    /// This process was forked from the one that made the client.
    #[error("this process is a fork of the one that made this client: make another one here")]
    Forked,
}

/// One agent that was asked in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The agent.
    pub agent: Address,
    /// The reason why it gave nothing.
    pub cause: Cause,
}

/// The reason why one agent gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The agent cannot mint now.
    #[error("{code}: {detail}")]
    Cannot {
        /// The same codes as over HTTP.
        code: MintCode,
        /// The reason, for a person.
        detail: String,
        /// Time after which it may work again, if it is known.
        retry_after: Option<Duration>,
    },
    /// The agent could not be reached, or the connection failed.
    #[error("{0}")]
    Connection(String),
    /// The agent did not answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The reply was not an answer of an agent.
    #[error("an answer that makes no sense: {0}")]
    Answer(String),
}

impl Error {
    pub(crate) fn bad_parameter(detail: String) -> Self {
        Self::Refused { code: MintCode::BadParameter, detail }
    }

    /// Time after which asking again may help: the earliest that one of the agents named, if one did.
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Unavailable(attempts) = self else { return None };
        let each = attempts.iter().filter_map(|attempt| match &attempt.cause {
            Cause::Cannot { retry_after, .. } => *retry_after,
            _ => None,
        });
        each.min()
    }
}

impl Cause {
    /// The code with which an agent refused; `None`: it gave none.
    pub(crate) const fn code(&self) -> Option<MintCode> {
        match self {
            Self::Cannot { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.agent, self.cause)
    }
}

fn list(attempts: &[Attempt]) -> String {
    let each: Vec<String> = attempts.iter().map(Attempt::to_string).collect();
    each.join(", ")
}

/// Sorts an agent's refusal by who can act on it.
pub(crate) fn refused(code: MintCode, detail: String, retry_after: Option<Duration>) -> Failure {
    match code {
        MintCode::BadParameter | MintCode::UnknownGenerator | MintCode::GeneratorExists | MintCode::Forbidden => {
            Failure::Final(Error::Refused { code, detail })
        }
        _ => Failure::Here(Cause::Cannot { code, detail, retry_after }),
    }
}

/// The reason why one agent gave nothing, and whether another one may give it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another one may.
    Here(Cause),
    /// No other agent will.
    Final(Error),
}
