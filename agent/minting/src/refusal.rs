//! The reasons why no ID came: one list for minting, HTTP and RPC.

use crate::serial::SHARE_PARTS;
use ids::encoding::InvalidEncoding;
use ids::kind::Kind;
use ids::namespace::GeneratorName;
use ids::parameters::ClusterId;
use ids::setting::NAME_EACH;
use ids::strategy::{Fault, Unready};
use ids::time::{SECOND_MS, SpanMs, WallMs};
use ids::token::{TokenKey, TokenType};
use wire::mint::MintCode;
use wire::ranges::Unserved;

/// Characters of an unknown name that a refusal repeats.
pub const NAME_SHOWN_MAX: usize = GeneratorName::LEN_MAX;

/// A refusal, worded for the caller. None of them comes with an ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A parameter is missing, malformed or out of range.
    #[error("{0}")]
    BadParameter(String),
    /// No generator has that name.
    #[error("there is no {kind} generator named '{name}'; GET /generators lists those there are")]
    UnknownGenerator {
        /// The kind that was asked for.
        kind: Kind,
        /// The name asked for, cut to a bounded length.
        name: String,
    },
    /// No generator of any kind has that name.
    #[error("there is no generator named '{name}'; GET /generators lists those there are")]
    UnknownName {
        /// The name asked for, cut to a bounded length.
        name: String,
    },
    /// The name stands for something else.
    #[error("the name '{name}' is registered with another definition, which never changes; take another name")]
    GeneratorExists { name: GeneratorName },
    /// The masters say that the name stands for something else than was minted under it here.
    #[error(
        "the masters say that '{name}' stands for something else than this agent minted under it: no more IDs by this name \
         here. If the masters were restored from a backup, that is what has to be mended; else remove this agent's serial \
         file and format a new one (uniq_generator --format)"
    )]
    GeneratorConflict { name: GeneratorName },
    /// The name was retired.
    #[error(
        "the name '{name}' was retired: it gives no more IDs and never stands for anything else; take another name"
    )]
    GeneratorRetired { name: GeneratorName },
    /// The masters do not register a definition.
    #[error("{why}")]
    NotRegistered {
        /// `generator_conflict`, `generator_exists`, `bad_parameter` or `quota_exceeded`.
        code: MintCode,
        /// The reason.
        why: String,
    },
    /// The call takes a certificate or an API key, and neither was shown, or a key that opens nothing.
    #[error("{0}")]
    LoginRequired(&'static str),
    /// The API key that was shown does not open this call.
    #[error("{0}")]
    Forbidden(String),
    /// The API key has given the IDs of its quota.
    #[error("{why}")]
    KeyUsedUp {
        /// The quota, and what there is to do.
        why: String,
        /// The time after which the same call passes; `None`: never.
        retry: Option<SpanMs>,
    },
    /// Too many names were registered by one caller.
    #[error("more names are registered by {caller} than one caller may: at most {max} at once, and one more each {} s", whole_seconds(*each))]
    TooManyNames {
        /// The caller, as its quotas know it.
        caller: String,
        /// The number of names that may come at once.
        max: u32,
        /// The time after which another one may come.
        each: SpanMs,
    },
    /// A master in the list belongs to another cluster than the leases.
    #[error(
        "the master at {address} belongs to cluster {there}, this agent's leases to cluster {here}: the other cluster may \
         grant the same tokens, so nothing is minted. If that address is a mistake, mend --masters; if the cluster was made \
         anew, stop this agent, remove its serial file and format a new one (uniq_generator --format)"
    )]
    WrongCluster {
        /// The address of that master.
        address: String,
        /// The cluster of the leases.
        here: ClusterId,
        /// The master's.
        there: ClusterId,
    },
    /// A call from another cluster, to whose caller an old address led here.
    #[error(
        "the call is from cluster {there}, and this agent belongs to cluster {here}, where the same keys have other numbers"
    )]
    CallOfAnotherCluster {
        /// This agent's.
        here: ClusterId,
        /// The caller's.
        there: ClusterId,
    },
    /// The masters could not do their part.
    #[error("the masters could not complete the request, ask again: {0}")]
    MastersUnavailable(String),
    /// The caller has had its share of what is left of the bucket.
    #[error(
        "most of this {unit}'s IDs are used up, and of those left one caller has a {SHARE_PARTS}th, which you have used up, or which is less than you \
         ask for: ask for fewer, at another agent, or again in the next {unit}, which begins in {} s. If this caller stands for many, say \
         --reserved-percent 0 at the agent",
        whole_seconds(*retry)
    )]
    ShareUsedUp {
        /// "hour" or "day".
        unit: &'static str,
        /// The time when the next one begins.
        retry: SpanMs,
    },
    /// The bucket has not as many serials left.
    #[error("{}; the next {unit} begins in {} s", bucket_left(unit, *capacity, *left), whole_seconds(*retry))]
    SerialExhausted {
        /// "hour" or "day".
        unit: &'static str,
        /// The number of serials in one.
        capacity: u64,
        /// The number of them that are left, for calls that want no more.
        left: u64,
        /// To the end of the bucket.
        retry: SpanMs,
    },
    /// The masters have not granted a segment of the name yet.
    #[error("a segment of numbers has to come from the masters first: {why}")]
    SegmentPending {
        /// The reason why they do not grant one, as far as is known.
        why: String,
    },
    /// The axis of the name has no more numbers.
    #[error(
        "the name's {numbers} numbers are used up ({left} are left here, for calls that want no more): take another name, as its \
         last number is a part of its definition"
    )]
    AxisEnded {
        /// The number of places on the axis.
        numbers: u64,
        /// The count of those left in this agent's segments.
        left: u64,
    },
    /// No lease, and none before it.
    #[error("no lease of a {token_type} token: {why}")]
    NoLease {
        /// The type needed.
        token_type: TokenType,
        /// The reason why the masters do not grant one, as far as is known.
        why: String,
    },
    /// The lease ended and was not renewed.
    #[error("the lease of the {token_type} token ended at {until}: {why}")]
    LeaseExpired {
        /// The type needed.
        token_type: TokenType,
        /// The instant at which it ended.
        until: WallMs,
        /// The reason why the masters do not renew it, as far as is known.
        why: String,
    },
    /// The clock stands before the time that the next ID would have to carry.
    #[error(
        "the clock is {} s behind the time of the next ID: correct it, or wait. If it is right now, and was ahead when IDs were minted \
         before, stop this agent and run `uniq_generator --forget-clock --serial-file FILE` as the user that it runs as (root: with \
         `runuser -u USER --` before it): the next start has a new token, and mints by the clock",
        whole_seconds(*behind)
    )]
    ClockBehind {
        /// The time by which it is behind.
        behind: SpanMs,
        /// The time until IDs are minted again if nothing is done.
        retry: SpanMs,
    },
    /// The clock cannot be trusted at the moment.
    #[error("{0}")]
    ClockSkew(ClockFault),
    /// The serial file cannot be written.
    #[error("the serial file cannot be written: {0}")]
    SerialFileIo(String),
    /// The serial file has no block left for a name that has none.
    #[error(
        "the serial file has blocks for {blocks} names and all are in use, so this agent serves no name that is new to it: have \
         others served by another agent, or retire names that are not needed (their blocks return when the hour, day or tick of their \
         last IDs is over)"
    )]
    SerialFileFull {
        /// The number of blocks.
        blocks: usize,
    },
    /// The bounds to which sections were raised can be neither written down nor removed.
    #[error(
        "bounds of sections can be neither written to the folder of the serial file nor removed there: {0}; they are not raised, and the \
         masters give the sections to other agents"
    )]
    BoundsUnwritten(String),
    /// The token is beyond its field.
    #[error(
        "token {token} does not fit its field, which has room for {tokens} tokens (0 to {}): let the masters grant smaller ones \
         (--uint2-max), lease such tokens on fewer agents, or take a kind or a layout with a wider token, as uniq96",
        tokens.saturating_sub(1)
    )]
    TokenOutOfRange {
        token: TokenKey,
        /// Tokens that there is room for.
        tokens: u64,
    },
    /// The name's encoding needs a secret or a strategy that this agent does not have.
    #[error("this agent cannot write the name's numbers: {0}")]
    CannotWrite(InvalidEncoding),
    /// The name's strategy did something wrong; the numbers are a gap.
    #[error("no IDs by this name: {0}")]
    StrategyFailed(Fault),
    /// The name's strategy panics every time.
    #[error("no IDs by this name: its strategy panics each time, and is asked once a second now")]
    StrategyRests,
    /// The name's encoding or strategy makes texts, and something else was asked for.
    #[error("the IDs of this name are the texts of its encoding: ask for them as text or JSON, without format")]
    OnlyTexts,
    /// Another agent serves the key.
    #[error("another agent serves this key; ask there, or leave forward=no out and this one passes the call on")]
    Misdirected,
    /// Nobody serves the key at the moment.
    #[error("{}", pending(why.as_ref()))]
    SectionPending {
        /// The reason that a master gives, if it can be given to nobody.
        why: Option<Unserved>,
    },
    /// Nobody serves the key, and the masters do not let this agent ask them for its section.
    #[error("no numbers of this key come from here: {0}")]
    OutsideWhitelist(String),
    /// The key's numbers are used up.
    #[error("this key has fewer numbers left than are asked for: they have {bits} bits; register another name")]
    KeyEnded {
        /// The width of the numbers, in bits.
        bits: u8,
    },
    /// The key has had what an hour has.
    #[error(
        "this call exceeds the limit of an hour: a key, or the one of its section that is furthest, gets at most {most} numbers in an hour, and \
         one caller at most {of_caller} of them: ask again later, or register a name with more bits"
    )]
    KeyTooFast {
        /// The numbers that there are in an hour.
        most: u64,
        /// Those that one caller has.
        of_caller: u64,
    },
    /// Too many requests at once.
    #[error("{0}")]
    Overloaded(&'static str),
    /// A plugin of the name says no.
    #[error("{detail}")]
    ByPlugin {
        /// The plugin's name.
        plugin: String,
        code: MintCode,
        /// Its reason.
        detail: String,
        /// The time after which to ask again, if it said one.
        retry: Option<SpanMs>,
        /// True if IDs were taken for the call already: then they are a gap.
        taken: bool,
    },
}

/// A fault of the clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockFault {
    /// The clock was stepped, or the machine was copied or restored: a renewal must prove that the lease is still ours.
    #[error("the clock was stepped: minting goes on as soon as a master has renewed the lease")]
    Stepped,
    /// The clock is too far from the masters'.
    #[error("this machine's clock is {} s off the masters': correct it", whole_seconds(*by))]
    Skewed {
        /// The difference, never negative.
        by: SpanMs,
    },
    /// The clock is too far from the calendar that the masters go by, and shows what their machines' do, which jumped.
    #[error(
        "this machine's clock is {} s off the calendar that the masters go by, but shows what a master's own machine does, whose calendar \
         was set: if that is right now, the masters follow it when both of them and the agents have shown the same for five minutes; \
         /readyz of a master says what is missing, and a master that is started anew follows at once",
        whole_seconds(*by)
    )]
    Disputed {
        /// The difference, never negative.
        by: SpanMs,
    },
    /// The clock shows a year that no ID can carry.
    #[error("{0}")]
    Year(String),
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> MintCode {
        match self {
            Self::BadParameter(_) => MintCode::BadParameter,
            Self::UnknownGenerator { .. } | Self::UnknownName { .. } => MintCode::UnknownGenerator,
            Self::GeneratorExists { .. } => MintCode::GeneratorExists,
            Self::GeneratorConflict { .. } => MintCode::GeneratorConflict,
            Self::WrongCluster { .. } | Self::CallOfAnotherCluster { .. } => MintCode::WrongCluster,
            Self::GeneratorRetired { .. } => MintCode::UnknownGenerator,
            Self::NotRegistered { code, .. } => *code,
            Self::LoginRequired(_) => MintCode::LoginRequired,
            Self::Forbidden(_) => MintCode::Forbidden,
            Self::TooManyNames { .. } | Self::ShareUsedUp { .. } | Self::KeyTooFast { .. } | Self::KeyUsedUp { .. } => {
                MintCode::QuotaExceeded
            }
            Self::MastersUnavailable(_) => MintCode::MastersUnavailable,
            Self::SerialExhausted { .. } => MintCode::SerialExhausted,
            Self::SegmentPending { .. } => MintCode::SegmentPending,
            Self::AxisEnded { .. } => MintCode::SerialExhausted,
            Self::NoLease { .. } => MintCode::NoLease,
            Self::LeaseExpired { .. } => MintCode::LeaseExpired,
            Self::ClockBehind { .. } => MintCode::ClockBehind,
            Self::ClockSkew(_) => MintCode::ClockSkew,
            Self::SerialFileIo(_) | Self::BoundsUnwritten(_) => MintCode::SerialFileIo,
            Self::SerialFileFull { .. } => MintCode::SerialFileFull,
            Self::TokenOutOfRange { .. } => MintCode::TokenOutOfRange,
            Self::CannotWrite(InvalidEncoding::Strategy(Unready::Unknown { .. })) => MintCode::StrategyMissing,
            Self::CannotWrite(InvalidEncoding::Strategy(_)) => MintCode::StrategyFailed,
            Self::CannotWrite(_) => MintCode::SecretMissing,
            Self::StrategyFailed(_) | Self::StrategyRests => MintCode::StrategyFailed,
            Self::OnlyTexts => MintCode::BadParameter,
            Self::Misdirected => MintCode::Misdirected,
            Self::SectionPending { .. } | Self::OutsideWhitelist(_) => MintCode::SegmentPending,
            Self::KeyEnded { .. } => MintCode::SerialExhausted,
            Self::Overloaded(_) => MintCode::Overloaded,
            Self::ByPlugin { code, .. } => *code,
        }
    }

    /// Refuses a name that no generator of that kind has, or that could not be one.
    pub fn unknown(kind: Kind, name: &str) -> Self {
        Self::UnknownGenerator { kind, name: name.chars().take(NAME_SHOWN_MAX).collect() }
    }

    /// Refuses a name that no generator has, of whatever kind.
    pub fn unknown_name(name: &str) -> Self {
        Self::UnknownName { name: name.chars().take(NAME_SHOWN_MAX).collect() }
    }

    /// The time after which to ask again, if that is known or a guess is better than none.
    pub fn retry_after(&self) -> Option<SpanMs> {
        match self {
            Self::TooManyNames { each, .. } => Some(*each),
            Self::KeyTooFast { .. } => Some(SpanMs::seconds(60)),
            Self::NotRegistered { code: MintCode::QuotaExceeded, .. } => Some(NAME_EACH),
            Self::ByPlugin { retry, .. } | Self::KeyUsedUp { retry, .. } => *retry,
            Self::SerialExhausted { retry, .. } | Self::ShareUsedUp { retry, .. } | Self::ClockBehind { retry, .. } => {
                Some(*retry)
            }
            Self::SegmentPending { .. }
            | Self::SectionPending { .. }
            | Self::OutsideWhitelist(_)
            | Self::NoLease { .. }
            | Self::SerialFileIo(_)
            | Self::BoundsUnwritten(_)
            | Self::Overloaded(_)
            | Self::MastersUnavailable(_) => Some(SpanMs(SECOND_MS)),
            _ => None,
        }
    }
}

/// The reason why a bucket gives no more, as far as its serials go.
fn bucket_left(unit: &str, capacity: u64, left: u64) -> String {
    match left {
        0 => format!("all {capacity} serials of this {unit} are used up"),
        _ => format!("of the {capacity} serials of this {unit} {left} are left here, for calls that want no more"),
    }
}

fn pending(why: Option<&Unserved>) -> String {
    match why {
        Some(why) => format!("nobody serves the section of this key: {why}"),
        None => "the section of this key is moving or being loaded, or the masters do not answer: ask again".to_owned(),
    }
}

fn whole_seconds(span: SpanMs) -> i64 {
    span.0.saturating_add(SECOND_MS - 1) / SECOND_MS
}
