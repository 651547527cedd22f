//! Encodings of numbers: as digits of fixed length, or so that nobody reads from them how many there are.
//!
//! | form | 64 bits | what it is |
//! |---|---|---|
//! | `decimal` | 1 to 20 digits | the number; with a length, padded with zeros |
//! | `hex` | 16 of 0-9 a-f | sorts as the numbers do |
//! | `base32` | 13 of Crockford's alphabet (no I, L, O, U) | sorts, and can be read aloud |
//! | `base32hex` | 13 of 0-9 a-v | sorts; the bytes as RFC 4648 writes them, without padding, as in an xid |
//! | `base62` | 11 of 0-9 A-Z a-z | sorts, byte by byte |
//! | `uuid` | 128 bits only | with hyphens, as RFC 9562 writes it |
//! | `ksuid` | 128 bits only | 27 of 0-9 A-Z a-z; the numbers are the first 128 of a KSUID's 160 bits, the last 32 are 0 |
//! | `sqids` | 1 and more | short, and shows no order at first sight; whoever knows the alphabet reads it |
//! | `strategy` | 1 to 64 | what the application makes of it that registers the strategy ([`crate::strategy`]) |
//! | `ff1` | as many as the length says | encrypted (NIST SP 800-38G): of fixed length, and nobody without the key guesses the next one, counts them, or sees an order |
//!
//! Hex and base32 come in small or capital letters, and what is not a strategy's may have a prefix, as in `ord_01J...`.
//!
//! Each is a bijection between the numbers of so many bits and their texts, so what is unique stays unique; [`Encoding::read`] takes
//! exactly what [`Encoding::write`] gives and nothing else.

mod alphabet;
mod base32hex;
mod error;
mod ff1;
mod ksuid;
mod lines;
mod plain;
mod secret;
mod written;

pub use alphabet::{Alphabet, InvalidAlphabet};
pub use error::{InvalidEncoding, UnknownEncoding};
pub use ff1::Key;
pub use plain::{TextForm, UnknownTextForm};
pub use secret::{InvalidMark, InvalidSecrets, SECRETS_MAX, Secret, SecretMark, Secrets};
pub use written::WrittenAs;

use crate::digits::{U32_DIGITS, U64_DIGITS, padded, read_decimal, shown};
use crate::layout::Layout;
use crate::plugin::Parameters;
use crate::strategy::{self, Defined, Own, STRATEGY_PARAMETERS_LEN_MAX, STRATEGY_TEXT_LEN_MAX, Strategies};
use alphabet::Digits;
use base32hex::Base32hex;
use ff1::Ff1;
use serde::{Deserialize, Serialize};
use sqids::Sqids;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

/// The longest text that an encoding may be asked to give, in characters.
pub const LEN_MAX: u32 = 64;
/// Characters of a UUID.
const UUID_LEN: usize = 36;
const UUID_BITS: u32 = 128;
/// Characters of a prefix.
const PREFIX_LEN_MAX: usize = 32;
/// Its groups behind the first one, the last one first: where each stands among the digits, where in the text, and how long it is.
const UUID_GROUPS: [(usize, usize, usize); 4] = [(20, 24, 12), (16, 19, 4), (12, 14, 4), (8, 9, 4)];

/// The name of an encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncodingForm {
    /// Decimal digits.
    #[default]
    Decimal,
    /// Hexadecimal digits, 0-9 a-f.
    Hex,
    /// Crockford's base32.
    Base32,
    /// RFC 4648's, of the bytes.
    Base32hex,
    /// 0-9 A-Z a-z.
    Base62,
    /// The form of RFC 9562.
    Uuid,
    /// The form of segmentio's KSUIDs.
    Ksuid,
    /// Short, not secret.
    Sqids,
    /// Encrypted digits.
    Ff1,
    /// The texts of an application's own strategy.
    Strategy,
}

/// An encoding as a person writes it in JSON: its name, or its name with parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EncodingSource {
    /// A form without parameters: `"base62"`
    Name(EncodingForm),
    /// A form with parameters: `{"form":"ff1","length":10,"alphabet":"0123456789"}`
    Parameters(EncodingParameters),
}

/// An encoding with its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodingParameters {
    /// The form that numbers are written in.
    pub form: EncodingForm,
    /// Characters: of all texts behind the prefix (`decimal`, `hex`, `base32`, `base62`, `ff1`), or of the shortest (`sqids`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// Small or capital letters (`hex`, `base32`, `base32hex`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// The beginning of every text, 1 to 32 of A-Z a-z 0-9 . _ - (all but `strategy`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The characters, each once (`sqids`, `ff1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
    /// The secret that the key follows from (`ff1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretMark>,
    /// The strategy (`strategy`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The parameters of the strategy (`strategy`): at most 128 bytes as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Parameters>,
}

/// The letters of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// Small letters, a-z.
    Lower,
    /// Capital letters, A-Z.
    Upper,
}

impl EncodingParameters {
    /// The digits of texts that have one length; `None` of a form that has others.
    fn digits(&self) -> Result<Option<Alphabet>, InvalidAlphabet> {
        let alphabet = match self.form {
            EncodingForm::Decimal => Alphabet::decimal(),
            EncodingForm::Hex | EncodingForm::Uuid => Alphabet::hex(),
            EncodingForm::Base32 => Alphabet::crockford(),
            EncodingForm::Base62 => Alphabet::base62(),
            EncodingForm::Ff1 => self.alphabet.as_deref().map_or_else(|| Ok(Alphabet::decimal()), str::parse)?,
            EncodingForm::Base32hex | EncodingForm::Ksuid | EncodingForm::Sqids | EncodingForm::Strategy => {
                return Ok(None);
            }
        };
        Ok(Some(alphabet.in_case(self.case)))
    }
}

impl EncodingSource {
    /// The strategy of that name, with these parameters.
    pub fn strategy(name: impl Into<String>, parameters: Parameters) -> Self {
        Self::Parameters(EncodingParameters {
            form: EncodingForm::Strategy,
            strategy: Some(name.into()),
            parameters: Some(parameters).filter(|parameters| *parameters != Parameters::default()),
            ..EncodingParameters::default()
        })
    }

    /// The source without what says nothing: an object with a form alone is that form's name.
    #[must_use]
    pub fn shortened(self) -> Self {
        let Self::Parameters(mut parameters) = self else { return self };
        parameters.parameters = parameters.parameters.filter(|said| *said != Parameters::default());
        let bare = EncodingParameters { form: parameters.form, ..EncodingParameters::default() };
        if parameters == bare { Self::Name(bare.form) } else { Self::Parameters(parameters) }
    }

    /// The strategy by which its texts are made, if there is one.
    pub fn by_strategy(&self) -> Option<&str> {
        match self {
            Self::Parameters(EncodingParameters { form: EncodingForm::Strategy, strategy, .. }) => strategy.as_deref(),
            _ => None,
        }
    }

    /// The form.
    pub const fn form(&self) -> EncodingForm {
        match self {
            Self::Name(form) => *form,
            Self::Parameters(parameters) => parameters.form,
        }
    }

    /// The largest number that has a text of the length that it says, if it says one and all texts have it.
    pub fn largest(&self) -> Option<u128> {
        let Self::Parameters(said) = self else { return None };
        let (length, alphabet) = (said.length?, said.digits().ok()??);
        Some(u128::from(alphabet.radix()).checked_pow(length).map_or(u128::MAX, |numbers| numbers - 1))
    }

    /// The secret that it goes with, if it says one.
    pub const fn secret(&self) -> Option<SecretMark> {
        match self {
            Self::Name(_) => None,
            Self::Parameters(parameters) => parameters.secret,
        }
    }
}

impl Default for EncodingSource {
    fn default() -> Self {
        Self::Name(EncodingForm::default())
    }
}

impl EncodingForm {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Decimal,
        Self::Hex,
        Self::Base32,
        Self::Base32hex,
        Self::Base62,
        Self::Uuid,
        Self::Ksuid,
        Self::Sqids,
        Self::Ff1,
        Self::Strategy,
    ];

    /// The name in definitions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decimal => "decimal",
            Self::Hex => "hex",
            Self::Base32 => "base32",
            Self::Base32hex => "base32hex",
            Self::Base62 => "base62",
            Self::Uuid => "uuid",
            Self::Ksuid => "ksuid",
            Self::Sqids => "sqids",
            Self::Ff1 => "ff1",
            Self::Strategy => "strategy",
        }
    }

    /// Tells whether the texts sort as the numbers do, byte by byte, if they are as long as each other.
    pub const fn sorts(self) -> bool {
        !matches!(self, Self::Sqids | Self::Ff1 | Self::Strategy)
    }

    /// Tells whether a definition may say how long its texts are.
    pub const fn takes_length(self) -> bool {
        !matches!(self, Self::Uuid | Self::Ksuid | Self::Base32hex)
    }

    /// The means by which it hides its numbers, which then leave in no other form, and who reads its texts; `None` if it hides none.
    pub const fn hides(self) -> Option<&'static str> {
        match self {
            Self::Decimal | Self::Hex | Self::Base32 | Self::Base32hex | Self::Base62 | Self::Uuid | Self::Ksuid => {
                None
            }
            Self::Sqids => Some("by sqids: its name gives the number in no other form"),
            Self::Ff1 => Some(
                "by ff1: whoever has the secret reads it, with uniq_generator --explain ID --serial-file FILE \
                 --secret-file FILE",
            ),
            Self::Strategy => Some("by a strategy: agents that have it read it, at GET /explain/ID"),
        }
    }
}

impl FromStr for EncodingForm {
    type Err = UnknownEncoding;
    fn from_str(name: &str) -> Result<Self, UnknownEncoding> {
        Self::ALL.into_iter().find(|form| form.name() == name).ok_or_else(|| UnknownEncoding(shown(name)))
    }
}

/// A way to write numbers of so many bits, and to read them.
#[derive(Debug)]
pub struct Encoding {
    bits: u32,
    /// The beginning of every text.
    prefix: Box<str>,
    /// Digits that have other spellings, where these are not those of a form that every number has.
    respelled: Option<EncodingForm>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// Decimal with as few digits as there are.
    Decimal,
    Fixed(Digits),
    /// Decimal of the upper 64 bits, and then of the lower 32. No definition can say it.
    Split,
    Base32hex(Base32hex),
    Uuid(Digits),
    Ksuid,
    /// Sqids, with the characters of the longest text.
    Sqids(Box<Sqids>, u32),
    Ff1(Box<Ff1>),
    Own(Box<Own>),
}

/// Numbers of 64 bits as they are.
pub static DECIMAL64: LazyLock<Arc<Encoding>> = LazyLock::new(|| Arc::new(Encoding::in_form(64, TextForm::Decimal)));

/// The treatment of the words that sqids leaves out: checking for them takes milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    LeftOut,
    /// The words are ignored, to see whether there is such an encoding, and not to write by it.
    NotLookedAt,
}

impl Encoding {
    /// The encoding that `source` says, for numbers of `bits` bits, 1 to 128. `key` is what `ff1` encrypts with, and `tweak` what
    /// makes two names with one key differ, e.g. the name.
    ///
    /// # Errors
    /// [`InvalidEncoding`], with the reason.
    pub fn of(source: &EncodingSource, bits: u32, key: Option<&Key>, tweak: &[u8]) -> Result<Self, InvalidEncoding> {
        Self::build(source, bits, ones(bits), key, tweak, Words::LeftOut)
    }

    /// Checks that there is such an encoding of numbers up to `last`, without the cost of building one: `sqids` goes through a list of words at
    /// each build.
    /// Of `ff1` everything is checked but the key, and of a strategy what every program can know.
    ///
    /// # Errors
    /// As of [`of`](Self::of), but for [`InvalidEncoding::NoKey`].
    pub fn check(source: &EncodingSource, bits: u32, last: u128) -> Result<(), InvalidEncoding> {
        if source.form() == EncodingForm::Strategy {
            return check_strategy(source).map(drop);
        }
        let any_key = Key::new([0; Key::LEN]);
        Self::build(source, bits, last, Some(&any_key), &[], Words::NotLookedAt).map(drop)
    }

    /// The encoding of that strategy, for the numbers of that layout.
    ///
    /// # Errors
    /// As of [`check`](Self::check); [`InvalidEncoding::Strategy`] if it is not among these, or does not take the definition.
    pub fn by_strategy(
        source: &EncodingSource,
        layout: &Layout,
        strategies: &Strategies,
    ) -> Result<Self, InvalidEncoding> {
        let (name, parameters) = check_strategy(source)?;
        let own = strategies.ready(&name, Defined { layout, parameters: &parameters })?;
        Ok(Self { bits: layout.bits(), prefix: Box::default(), respelled: None, way: Way::Own(Box::new(own)) })
    }

    /// The encoding of numbers up to `last`, which have `bits` bits where they are packed.
    fn build(
        source: &EncodingSource,
        bits: u32,
        last: u128,
        key: Option<&Key>,
        tweak: &[u8],
        words: Words,
    ) -> Result<Self, InvalidEncoding> {
        let bits = bits.clamp(1, u128::BITS);
        let said = match source {
            EncodingSource::Name(form) => &EncodingParameters { form: *form, ..EncodingParameters::default() },
            EncodingSource::Parameters(said) => said,
        };
        let EncodingParameters { form, length, case, .. } = *said;
        check_taken(said)?;
        // Of so many digits that all numbers up to the last, or to that one, fit.
        let fixed = |alphabet: Alphabet, least: u128| {
            let needed = alphabet.digits_for(last.max(least));
            let (length, characters) = (length.unwrap_or(needed), alphabet.len());
            if length < needed {
                return Err(match length < alphabet.digits_for(last) {
                    true => InvalidEncoding::TooShort { length, characters, last, needed },
                    false => InvalidEncoding::TooFew { length, characters, needed },
                });
            }
            if length > LEN_MAX { Err(InvalidEncoding::TooLong(length)) } else { Ok(Digits::new(alphabet, length)) }
        };
        let way = match (form, said.digits()?) {
            (EncodingForm::Decimal, _) if length.is_none() => Way::Decimal,
            (EncodingForm::Uuid, _) if bits != UUID_BITS => return Err(InvalidEncoding::NoUuid(bits)),
            (EncodingForm::Uuid, Some(alphabet)) => Way::Uuid(fixed(alphabet, 0)?),
            (EncodingForm::Ff1, Some(alphabet)) => {
                let key = key.ok_or(InvalidEncoding::NoKey)?;
                let digits = fixed(alphabet, ones(ff1::DOMAIN_BITS_MIN))?;
                let too_long = InvalidEncoding::TooLong(u32::try_from(digits.len()).unwrap_or(u32::MAX));
                Way::Ff1(Box::new(Ff1::new(key, tweak, digits).ok_or(too_long)?))
            }
            (_, Some(alphabet)) => Way::Fixed(fixed(alphabet, 0)?),
            (EncodingForm::Base32hex, None) => Way::Base32hex(Base32hex::new(bits, case)),
            (EncodingForm::Ksuid, None) if bits == ksuid::BITS => Way::Ksuid,
            (EncodingForm::Ksuid, None) => return Err(InvalidEncoding::NoKsuid(bits)),
            (EncodingForm::Sqids, None) => sqids(length, said.alphabet.as_deref(), bits, words)?,
            // It is made of a layout, not of a number of bits: by_strategy.
            (_, None) => return Err(InvalidEncoding::NoStrategy),
        };
        let prefix = checked_prefix(said.prefix.as_deref())?;
        let other_case = if form == EncodingForm::Hex { Case::Upper } else { Case::Lower };
        let is_plain = prefix.is_empty() && case != Some(other_case) && form != EncodingForm::Base32hex;
        let respelled = (!is_plain).then_some(form);
        let encoding = Self { bits, prefix, respelled, way };
        match u32::try_from(encoding.longest()) {
            Ok(len) if len <= LEN_MAX => Ok(encoding),
            len => Err(InvalidEncoding::TooLong(len.unwrap_or(u32::MAX))),
        }
    }

    /// Tells whether its texts are there instead of the numbers, which then leave in no other form: to hide them, or because the
    /// texts are an application's own.
    pub fn hides(&self) -> bool {
        matches!(self.way, Way::Sqids(..) | Way::Ff1(_) | Way::Own(_))
    }

    /// The strategy that makes its texts, if one does: it sees all numbers of a call at once, and may refuse.
    pub fn own(&self) -> Option<&Own> {
        match &self.way {
            Way::Own(own) => Some(own),
            _ => None,
        }
    }

    /// Bits of the numbers.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Bytes of the longest text.
    pub fn len_max(&self) -> usize {
        match self.way {
            Way::Own(_) => LEN_MAX as usize,
            _ => self.longest(),
        }
    }

    /// The characters of every text; `None` if they differ.
    pub fn fixed_len(&self) -> Option<usize> {
        let own = match &self.way {
            Way::Decimal | Way::Sqids(..) | Way::Own(_) => return None,
            Way::Fixed(digits) => digits.len(),
            Way::Split => U64_DIGITS + U32_DIGITS,
            Way::Base32hex(digits) => digits.len(),
            Way::Uuid(_) => UUID_LEN,
            Way::Ksuid => ksuid::LEN,
            Way::Ff1(ff1) => ff1.len(),
        };
        Some(self.prefix.len() + own)
    }

    /// Characters of the longest text, or more.
    fn longest(&self) -> usize {
        let own = match &self.way {
            Way::Decimal => ones(self.bits).checked_ilog10().map_or(1, |log| log + 1),
            Way::Sqids(_, longest) => *longest,
            _ => 0,
        };
        self.fixed_len().unwrap_or(self.prefix.len() + own as usize)
    }

    /// Appends the text of a number; what is above its bits is cut off. `false`, and nothing is appended, if there is no text:
    /// for `sqids` that takes an alphabet all of whose words are rude, and of a strategy it is a fault.
    #[must_use]
    pub fn write(&self, number: u128, out: &mut Vec<u8>) -> bool {
        let (number, start) = (number & ones(self.bits), out.len());
        out.extend_from_slice(self.prefix.as_bytes());
        let is_written = self.write_number(number, out);
        if !is_written {
            out.truncate(start);
        }
        is_written
    }

    fn write_number(&self, number: u128, out: &mut Vec<u8>) -> bool {
        match &self.way {
            Way::Decimal => match u64::try_from(number) {
                Ok(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
                Err(_) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
            },
            Way::Fixed(digits) => digits.write(number, out),
            Way::Split => {
                out.extend_from_slice(&padded::<U64_DIGITS>((number >> u32::BITS) as u64));
                out.extend_from_slice(&padded::<U32_DIGITS>(number as u32 as u64));
            }
            Way::Base32hex(digits) => digits.write(number, out),
            Way::Ksuid => ksuid::write(number, out),
            Way::Uuid(digits) => {
                let start = out.len();
                digits.write(number, out);
                out.resize(start + UUID_LEN, b'-');
                // From the last group on, each to its place, with a hyphen before it.
                for (from, to, len) in UUID_GROUPS {
                    out.copy_within(start + from..start + from + len, start + to);
                    if let Some(hyphen) = out.get_mut(start + to - 1) {
                        *hyphen = b'-';
                    }
                }
            }
            Way::Sqids(sqids, _) => {
                let Ok(text) = sqids.encode(&words(number)) else { return false };
                out.extend_from_slice(text.as_bytes());
            }
            Way::Ff1(ff1) => return ff1.write(number, out),
            Way::Own(own) => match own.texts(&[number]) {
                Ok(texts) => texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes())),
                Err(_) => return false,
            },
        }
        true
    }

    /// The text of a number; `None` as for [`write`](Self::write).
    pub fn text(&self, number: u128) -> Option<String> {
        let mut out = Vec::new();
        self.write(number, &mut out).then(|| String::from_utf8(out).ok()).flatten()
    }

    /// The number whose text this is, to the letter; `None` if there is none.
    pub fn read(&self, text: &str) -> Option<u128> {
        if text.len() > LEN_MAX as usize * 2 {
            return None;
        }
        let own = text.strip_prefix(&*self.prefix)?;
        let number = match &self.way {
            Way::Decimal => own.bytes().all(|b| b.is_ascii_digit()).then(|| own.parse().ok()).flatten()?,
            Way::Fixed(digits) => digits.read(own.as_bytes())?,
            Way::Split => {
                let (above, below) = own.split_at_checked(U64_DIGITS)?;
                u128::from(read_decimal(above)?) << u32::BITS | u128::from(read_decimal(below)?)
            }
            Way::Base32hex(digits) => digits.read(own)?,
            Way::Uuid(digits) => digits.read(own.replace('-', "").as_bytes())?,
            Way::Ksuid => ksuid::read(own)?,
            Way::Sqids(sqids, _) => match sqids.decode(own).as_slice() {
                [low] => (*low).into(),
                [high, low] => u128::from(*high) << u64::BITS | u128::from(*low),
                _ => return None,
            },
            Way::Ff1(ff1) => ff1.read(own.as_bytes())?,
            // It looks itself whether exactly that text would be written.
            Way::Own(strategy) => return strategy.read(text),
        };
        // Exactly that text, and no other of the same number.
        (number & !ones(self.bits) == 0 && self.text(number).as_deref() == Some(text)).then_some(number)
    }

    /// Tells that its texts are those of no form that every number has, by a prefix or by their letters.
    pub(crate) fn is_respelled(&self) -> bool {
        self.respelled.is_some()
    }

    /// The number whose text this is behind the prefix in another spelling: hex, base32 and UUIDs in either case, and O, I and L in base32.
    /// Only of an encoding that is [respelled](Self::is_respelled).
    pub(crate) fn read_spelled(&self, text: &str) -> Option<u128> {
        let form = self.respelled?;
        let is_crockford = match form {
            EncodingForm::Base32 => true,
            EncodingForm::Hex | EncodingForm::Base32hex | EncodingForm::Uuid => false,
            _ => return None,
        };
        let folded = |letter: char| match letter.to_ascii_lowercase() {
            'o' if is_crockford => '0',
            'i' | 'l' if is_crockford => '1',
            other => other,
        };
        let lower: String = text.strip_prefix(&*self.prefix)?.chars().map(folded).collect();
        let upper = lower.to_ascii_uppercase();
        [lower, upper].into_iter().find_map(|own| self.read(&format!("{}{own}", self.prefix)))
    }
}

/// The library's encoding, and the characters of its longest text.
fn sqids(length: Option<u32>, alphabet: Option<&str>, bits: u32, words: Words) -> Result<Way, InvalidEncoding> {
    let mut builder = Sqids::builder().min_length(u8::try_from(length.unwrap_or(0)).unwrap_or(u8::MAX));
    if words == Words::NotLookedAt {
        builder = builder.blocklist([].into());
    }
    let mut characters = SQIDS_CHARACTERS;
    if let Some(alphabet) = alphabet {
        let checked: Alphabet = alphabet.parse()?;
        characters = checked.len();
        builder = builder.alphabet(checked.characters().map(char::from).collect());
    }
    let sqids = builder.build().map_err(|e| InvalidEncoding::Sqids(e.to_string()))?;
    let longest = sqids_len(characters, bits);
    if longest > LEN_MAX {
        return Err(InvalidEncoding::TooLong(longest));
    }
    Ok(Way::Sqids(Box::new(sqids), longest.max(length.unwrap_or(0))))
}

/// Refuses what the form does not take.
fn check_taken(said: &EncodingParameters) -> Result<(), InvalidEncoding> {
    let EncodingParameters { form, length, case, prefix: _, alphabet, secret, strategy, parameters } = said;
    let has_alphabet = matches!(form, EncodingForm::Sqids | EncodingForm::Ff1);
    let has_case = matches!(form, EncodingForm::Hex | EncodingForm::Base32 | EncodingForm::Base32hex);
    for (parameter, superfluous) in [
        ("length", length.is_some() && !form.takes_length()),
        ("case", case.is_some() && !has_case),
        ("alphabet", alphabet.is_some() && !has_alphabet),
        ("secret", secret.is_some() && *form != EncodingForm::Ff1),
        ("strategy", strategy.is_some()),
        ("parameters", parameters.is_some()),
    ] {
        if superfluous {
            return Err(InvalidEncoding::Superfluous { form: form.name(), parameter });
        }
    }
    match length {
        Some(long) if *long > LEN_MAX => Err(InvalidEncoding::TooLong(*long)),
        _ => Ok(()),
    }
}

fn checked_prefix(prefix: Option<&str>) -> Result<Box<str>, InvalidEncoding> {
    let Some(prefix) = prefix else { return Ok(Box::default()) };
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if (1..=PREFIX_LEN_MAX).contains(&prefix.len()) && prefix.bytes().all(fits) {
        return Ok(prefix.into());
    }
    Err(InvalidEncoding::Prefix(shown(prefix)))
}

/// The name and the parameters of a strategy, as far as every program can check them.
fn check_strategy(source: &EncodingSource) -> Result<(String, Parameters), InvalidEncoding> {
    let EncodingSource::Parameters(said) = source else { return Err(InvalidEncoding::NoStrategy) };
    let EncodingParameters { form, length, case, prefix, alphabet, secret, strategy, parameters } = said;
    for (said, parameter) in [
        (length.is_some(), "length"),
        (case.is_some(), "case"),
        (prefix.is_some(), "prefix"),
        (alphabet.is_some(), "alphabet"),
        (secret.is_some(), "secret"),
    ] {
        if said {
            return Err(InvalidEncoding::Superfluous { form: form.name(), parameter });
        }
    }
    let name = strategy.as_deref().ok_or(InvalidEncoding::NoStrategy)?;
    let name = strategy::check_name(name).map_err(InvalidEncoding::StrategyName)?;
    let parameters = parameters.clone().unwrap_or_default();
    let too_long = |_| InvalidEncoding::StrategyParameters;
    let json = serde_json::to_string(&parameters).map_err(too_long)?;
    // Less the quotes around it.
    if serde_json::to_string(&json).map_err(too_long)?.len() - 2 > STRATEGY_PARAMETERS_LEN_MAX {
        return Err(InvalidEncoding::StrategyParameters);
    }
    // What a program put together has the bounds of what a person writes: else masters could not read it.
    match serde_json::from_str::<Parameters>(&json) {
        Ok(read) if read == parameters => {}
        Ok(_) => return Err(InvalidEncoding::UnreadableParameters("they read back as others".to_owned())),
        Err(why) => return Err(InvalidEncoding::UnreadableParameters(why.to_string())),
    }
    Ok((name, parameters))
}

// Memory for an answer is taken by the longest text that an encoding gives.
const _: () = assert!(STRATEGY_TEXT_LEN_MAX <= LEN_MAX as usize);

pub(crate) const fn ones(bits: u32) -> u128 {
    if bits >= u128::BITS { u128::MAX } else { (1 << bits) - 1 }
}

/// Characters of the alphabet that sqids takes when none is given.
const SQIDS_CHARACTERS: usize = 62;

/// The most characters that sqids makes of a number: one that says how the alphabet was turned, the digits of each word by all
/// characters but one, and that one between two words.
fn sqids_len(characters: usize, bits: u32) -> u32 {
    let radix = (characters as u64).saturating_sub(1).max(2);
    let digits = |bits: u32| if bits == 0 { 0 } else { ((1u128 << bits) - 1).ilog(radix.into()) + 1 };
    let (high, low) = (bits.saturating_sub(u64::BITS), bits.min(u64::BITS));
    1 + digits(low) + if high == 0 { 0 } else { 1 + digits(high) }
}

/// A number as sqids takes it.
fn words(number: u128) -> Vec<u64> {
    let (high, low) = ((number >> u64::BITS) as u64, number as u64);
    if high == 0 { vec![low] } else { vec![high, low] }
}

#[cfg(test)]
mod tests;
