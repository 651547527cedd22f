//! Reasons why an encoding is refused.

use super::ff1::DOMAIN_BITS_MIN;
use super::{EncodingForm, InvalidAlphabet, LEN_MAX, PREFIX_LEN_MAX, SecretMark};
use crate::strategy::{STRATEGY_PARAMETERS_LEN_MAX, Unready};

/// A reason why an encoding is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEncoding {
    /// A parameter that the form does not take.
    #[error("{form} takes no {parameter}: leave it out")]
    Superfluous {
        /// The form.
        form: &'static str,
        /// The parameter.
        parameter: &'static str,
    },
    /// The numbers do not fit the texts.
    #[error("{length} characters out of {characters} do not hold numbers up to {last}: {needed} are needed")]
    TooShort {
        /// The length that was asked for.
        length: u32,
        /// The number of different characters.
        characters: usize,
        /// The largest number.
        last: u128,
        /// The least that will do.
        needed: u32,
    },
    /// Too few texts to hide numbers among, whatever the numbers are.
    #[error(
        "ff1 hides numbers among {least} texts at least, and {length} characters out of {characters} make fewer: {needed} are needed",
        least = 1u32 << DOMAIN_BITS_MIN
    )]
    TooFew {
        /// The length that was asked for.
        length: u32,
        /// The number of different characters.
        characters: usize,
        /// The least that will do.
        needed: u32,
    },
    /// Longer than [`LEN_MAX`].
    #[error("texts of {0} characters are too long: at most {LEN_MAX} with the prefix, and for ff1 fewer than 240 bits")]
    TooLong(u32),
    /// A UUID of other than 128 bits.
    #[error("a uuid has 128 bits, and these numbers have {0}")]
    NoUuid(u32),
    /// A prefix that a text cannot begin with.
    #[error("'{0}' is not a prefix: write 1 to {PREFIX_LEN_MAX} of A-Z a-z 0-9 . _ -")]
    Prefix(String),
    /// A KSUID of other than 128 bits.
    #[error("a ksuid's numbers have 128 bits, and these have {0}: take a layout of 128 bits, or another encoding")]
    NoKsuid(u32),
    /// A text that is no alphabet.
    #[error(transparent)]
    Alphabet(#[from] InvalidAlphabet),
    /// The key is missing.
    #[error(
        "ff1 needs a secret: start the agents that serve the name with --secret-file, and register it through one of them"
    )]
    NoKey,
    /// A secret that is not among those that there are.
    #[error("ff1 needs the secret {0}: it is not in this program's --secret-file")]
    OtherKey(SecretMark),
    /// A strategy for numbers that have no layout.
    #[error("a strategy makes texts of a layout's numbers: take kind layout")]
    OnlyLayouts,
    /// A form that hides numbers which leave as numbers, too.
    #[error(
        "{0} hides numbers, and those of a sequence leave as numbers, too: take decimal, hex, base32, base32hex or base62, or kind segment"
    )]
    Hides(&'static str),
    /// A strategy that is not named.
    #[error("a strategy needs its name: {{\"form\":\"strategy\",\"strategy\":\"NAME\"}}")]
    NoStrategy,
    /// A text that cannot be a strategy's name.
    #[error("'{0}' is not a strategy's name: write 1 to 32 of a-z 0-9 _ -")]
    StrategyName(String),
    /// Too much is said to it.
    #[error(
        "the parameters of a strategy have at most {STRATEGY_PARAMETERS_LEN_MAX} bytes as JSON, in which each quote counts twice"
    )]
    StrategyParameters,
    /// Parameters of a strategy that cannot be kept.
    #[error("the parameters of a strategy cannot be kept: {0}")]
    UnreadableParameters(String),
    /// The strategy cannot be used by this program.
    #[error(transparent)]
    Strategy(#[from] Unready),
    /// The library refuses it.
    #[error("sqids cannot take this alphabet: {0}")]
    Sqids(String),
}

/// A name that is not an encoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an encoding; there are {names}", names = EncodingForm::ALL.map(EncodingForm::name).join(", "))]
pub struct UnknownEncoding(pub(super) String);
