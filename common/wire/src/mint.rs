//! Requests of clients to an agent over tarpc, and its answers.

use ids::lease::Generation;
use ids::namespace::Preview;
use ids::parameters::ClusterId;
use ids::sequence::{Route, Section, Slot};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Numbers of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MintedNumbers {
    /// Of at most 64 bits.
    Narrow(Vec<u64>),
    /// Of up to 128 bits, in the low bits.
    Wide(Vec<u128>),
}

impl MintedNumbers {
    /// The number of them.
    pub fn len(&self) -> usize {
        match self {
            Self::Narrow(numbers) => numbers.len(),
            Self::Wide(numbers) => numbers.len(),
        }
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<MintedNumbers> for Vec<u128> {
    fn from(numbers: MintedNumbers) -> Self {
        match numbers {
            MintedNumbers::Narrow(numbers) => numbers.into_iter().map(u128::from).collect(),
            MintedNumbers::Wide(numbers) => numbers,
        }
    }
}

/// Those that have at most 64 bits, which all of a name have or none.
impl From<MintedNumbers> for Vec<u64> {
    fn from(numbers: MintedNumbers) -> Self {
        match numbers {
            MintedNumbers::Narrow(numbers) => numbers,
            MintedNumbers::Wide(numbers) => numbers.into_iter().filter_map(|number| number.try_into().ok()).collect(),
        }
    }
}

/// Keys in one call over RPC at most: as many as fit a frame, whatever they ask for.
pub const KEYS_PER_CALL_MAX: usize = 5_000;

/// The part of a call for numbers of keys beside the keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceCall {
    pub name: String,
    /// The highest `g` of the routes by which the caller chose this agent, 0 if it has none; routes that it may not know are added
    /// to the answer. `None`: no routes are wanted.
    pub g: Option<Generation>,
    /// The treatment of a key that the agent does not serve.
    pub passing: Passing,
    /// The caller's cluster. An agent of another one, to which an old address leads by now, refuses (`wrong_cluster`): its keys are others.
    /// `None`: the caller does not know it. Boxed, as every call of the service has room for the longest.
    pub cluster: Option<Box<ClusterId>>,
}

/// The largest number that one call may ask for, whatever an agent's `--batch-max` is.
pub const BATCH_MAX_LIMIT: u32 = 1_000_000;

/// The treatment of a call for a key that another agent serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Passing {
    /// The call is passed on to whoever serves the key.
    #[default]
    On,
    /// The call is refused with the route ([`MintCode::Misdirected`]). A call that was passed on is never passed on again.
    Back,
}

/// The agents that serve sections of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRoutes {
    /// The cluster of the agent that says so, once it has joined one: what a caller says with its calls by these routes
    /// ([`SequenceCall::cluster`]).
    pub cluster: Option<ClusterId>,
    /// The section of a slot is the slot divided by this, without the rest.
    pub keys_per_section: u32,
    /// Ascending; sections that nobody serves are not among them.
    pub routes: Vec<Route>,
    /// The section to go on from, if there are more.
    pub next: Option<Section>,
}

/// A question about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyAsked {
    /// The key's slot.
    pub slot: Slot,
    /// The number of numbers, 1 or more.
    pub n: u32,
}

/// The outcome for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyOutcome {
    /// The first of the numbers; the others follow on it.
    Given(u64),
    /// None was given.
    Refused(MintCode),
}

/// The answer about one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReply {
    pub outcome: KeyOutcome,
    /// Routes that the caller may not know.
    pub routes: Vec<Route>,
}

/// The answer about several keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysReply {
    /// One for each key, in the order asked for.
    pub outcomes: Vec<KeyOutcome>,
    /// Routes that the caller may not know.
    pub routes: Vec<Route>,
}

/// The result of a definition that was made or tried; as JSON, in which definitions are written. Boxed, as every answer of the service has
/// room for the longest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
#[serde(into = "String")]
pub struct Defined(pub Box<Preview>);

impl TryFrom<String> for Defined {
    type Error = serde_json::Error;
    fn try_from(json: String) -> Result<Self, serde_json::Error> {
        serde_json::from_str(&json).map(Self)
    }
}

impl From<Defined> for String {
    fn from(Defined(preview): Defined) -> Self {
        // Texts and numbers alone: there is nothing in it that JSON has no form for.
        serde_json::to_string(&preview).unwrap_or_default()
    }
}

/// The reason why no ID came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct MintFailure {
    /// The kind of failure; the same codes as over HTTP.
    pub code: MintCode,
    /// The reason, for a person.
    pub detail: String,
    /// Seconds from now after which it may work again; 0 if waiting does not help or is unknown.
    pub retry_after_s: u32,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal;)*) => {
        /// The stable codes of failures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum MintCode {
            $($(#[$doc])* $name,)*
        }

        impl MintCode {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as it stands in problem documents.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The HTTP status it goes with.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
        }
    };
}

codes! {
    /// A parameter is missing, malformed or out of range.
    BadParameter = "bad_parameter", 400;
    /// The call takes a certificate or an API key, and neither was shown, or a key that opens nothing.
    LoginRequired = "login_required", 401;
    /// The API key that was shown does not open this call.
    Forbidden = "forbidden", 403;
    /// No generator has that name and kind.
    UnknownGenerator = "unknown_generator", 404;
    /// The name is taken by another definition.
    GeneratorExists = "generator_exists", 409;
    /// The hour's or day's serials are used up.
    SerialExhausted = "serial_exhausted", 429;
    /// No lease of the token type yet.
    NoLease = "no_lease", 503;
    /// The lease has run out and was not renewed.
    LeaseExpired = "lease_expired", 503;
    /// The clock stands too far behind the last ID's time.
    ClockBehind = "clock_behind", 503;
    /// The clock was stepped, or differs too much from the masters'.
    ClockSkew = "clock_skew", 503;
    /// The serial file cannot be written.
    SerialFileIo = "serial_file_io", 503;
    /// The token does not fit a Uniq64.
    TokenOutOfRange = "token_out_of_range", 503;
    /// No master answers.
    MastersUnavailable = "masters_unavailable", 503;
    /// Too many requests at once.
    Overloaded = "overloaded", 503;
    /// The masters say that the name stands for something else than was minted under it here.
    GeneratorConflict = "generator_conflict", 409;
    /// One caller asks for more than it may.
    QuotaExceeded = "quota_exceeded", 429;
    /// A master in the agent's list belongs to another cluster than its leases.
    WrongCluster = "wrong_cluster", 503;
    /// The name's encoding needs a secret that this agent was not given.
    SecretMissing = "secret_missing", 503;
    /// The name's strategy is one of an application that this agent is not part of.
    StrategyMissing = "strategy_missing", 503;
    /// The name's strategy made no IDs, or such that it does not read back.
    StrategyFailed = "strategy_failed", 503;
    /// The numbers' range is on its way: a segment that a master has not granted yet, a section that is moving.
    SegmentPending = "segment_pending", 503;
    /// Another agent serves this key, and the caller did not want the call to be passed on.
    Misdirected = "misdirected", 421;
    /// The serial file has as many names as it can have, and this one is not among them.
    SerialFileFull = "serial_file_full", 503;
}

impl fmt::Display for MintCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
