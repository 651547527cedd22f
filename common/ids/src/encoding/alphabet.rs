//! Digits of any alphabet, in texts of fixed length.

use super::Case;
use crate::digits::shown;
use std::str::FromStr;

/// The characters of an encoding, in the order of their values: 2 to 94 of printable ASCII, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alphabet {
    characters: Vec<u8>,
}

/// The reason why a text is not an alphabet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an alphabet: write two or more characters of printable ASCII, each once, without space, quotes and backslash"
)]
pub struct InvalidAlphabet(String);

impl Alphabet {
    /// The digits 0-9.
    pub fn decimal() -> Self {
        Self { characters: b"0123456789".to_vec() }
    }

    /// The digits 0-9 a-f.
    pub fn hex() -> Self {
        Self { characters: b"0123456789abcdef".to_vec() }
    }

    /// Douglas Crockford's alphabet.
    pub fn crockford() -> Self {
        Self { characters: b"0123456789ABCDEFGHJKMNPQRSTVWXYZ".to_vec() }
    }

    /// The alphabet in small or in capital letters.
    #[must_use]
    pub(super) fn in_case(mut self, case: Option<Case>) -> Self {
        match case {
            Some(Case::Lower) => self.characters.make_ascii_lowercase(),
            Some(Case::Upper) => self.characters.make_ascii_uppercase(),
            None => {}
        }
        self
    }

    /// 0-9 A-Z a-z.
    pub fn base62() -> Self {
        Self { characters: b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".to_vec() }
    }

    /// Counts the characters.
    #[expect(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.characters.len()
    }

    /// The characters, in the order of their values.
    pub fn characters(&self) -> impl Iterator<Item = u8> {
        self.characters.iter().copied()
    }

    /// The number of digits that all numbers up to that one need.
    pub(super) fn digits_for(&self, last: u128) -> u32 {
        let (radix, mut rest, mut digits) = (self.radix(), last, 0);
        while rest > 0 {
            rest /= u128::from(radix);
            digits += 1;
        }
        digits
    }

    pub(super) fn radix(&self) -> u64 {
        u64::try_from(self.len()).unwrap_or(2).max(2)
    }
}

impl FromStr for Alphabet {
    type Err = InvalidAlphabet;
    fn from_str(text: &str) -> Result<Self, InvalidAlphabet> {
        let characters = text.as_bytes().to_vec();
        let fits = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\');
        let mut sorted = characters.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if characters.len() < 2 || sorted.len() != characters.len() || !characters.iter().all(fits) {
            return Err(InvalidAlphabet(shown(text)));
        }
        Ok(Self { characters })
    }
}

/// Texts of so many digits of an alphabet.
#[derive(Clone, Debug)]
pub(super) struct Digits {
    alphabet: Alphabet,
    len: u32,
    /// The number of digits that a word holds, and what they count to: a division of 128 bits is slow.
    chunk: u32,
    chunk_size: u64,
    /// The value of each character; [`NONE`] if it has none.
    values: Vec<u8>,
}

const NONE: u8 = u8::MAX;

impl Digits {
    pub(super) fn new(alphabet: Alphabet, len: u32) -> Self {
        let radix = alphabet.radix();
        let (mut chunk, mut chunk_size) = (0, 1u64);
        while let Some(larger) = chunk_size.checked_mul(radix) {
            (chunk, chunk_size) = (chunk + 1, larger);
        }
        let mut values = vec![NONE; 256];
        for (value, character) in alphabet.characters().enumerate() {
            if let (Some(place), Ok(value)) = (values.get_mut(usize::from(character)), u8::try_from(value)) {
                *place = value;
            }
        }
        Self { alphabet, len, chunk, chunk_size, values }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn radix(&self) -> u64 {
        self.alphabet.radix()
    }

    /// Appends the lowest digits of `number`, from the most significant one on.
    pub(super) fn write(&self, number: u128, out: &mut Vec<u8>) {
        self.write_with(number, self.len(), out);
    }

    /// The same, with so many digits.
    pub(super) fn write_with(&self, number: u128, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + len, b'0');
        let Some(field) = out.get_mut(start..) else { return };
        // By a number that the compiler knows it divides several times faster.
        match self.radix() {
            10 => self.fill(number, field, || 10),
            16 => self.fill_bits::<4, 16>(number, field),
            32 => self.fill_bits::<5, 32>(number, field),
            62 => self.fill(number, field, || 62),
            radix => self.fill(number, field, || radix),
        }
    }

    /// Digits of so many bits each, which takes no division at all.
    fn fill_bits<const BITS: u32, const RADIX: usize>(&self, number: u128, field: &mut [u8]) {
        const { assert!(1 << BITS == RADIX, "a character for every digit") };
        let Some(characters) = self.alphabet.characters.first_chunk::<RADIX>() else { return };
        let (digits, mut rest) = (u64::BITS / BITS, number);
        for chunk in field.rchunks_mut(digits as usize) {
            let mut word = rest as u64;
            for place in chunk.iter_mut().rev() {
                *place = characters.get(word as usize % RADIX).copied().unwrap_or(b'0');
                word >>= BITS;
            }
            rest >>= digits * BITS;
        }
    }

    #[inline(always)]
    fn fill(&self, number: u128, field: &mut [u8], radix: impl Fn() -> u64) {
        let mut rest = number;
        for chunk in field.rchunks_mut(self.chunk as usize) {
            let mut word = match u64::try_from(rest) {
                Ok(word) => {
                    rest = u128::from(word / self.chunk_size);
                    word % self.chunk_size
                }
                Err(_) => {
                    let word = (rest % u128::from(self.chunk_size)) as u64;
                    rest /= u128::from(self.chunk_size);
                    word
                }
            };
            for place in chunk.iter_mut().rev() {
                *place = self.character(word % radix());
                word /= radix();
            }
        }
    }

    /// The number that these digits spell, all of them and no others; `None` if it has more than 128 bits.
    pub(super) fn read(&self, text: &[u8]) -> Option<u128> {
        if text.len() == self.len() { self.read_any(text) } else { None }
    }

    /// Reads any number of digits.
    pub(super) fn read_any(&self, text: &[u8]) -> Option<u128> {
        text.iter().try_fold(0u128, |number, character| {
            number.checked_mul(self.radix().into())?.checked_add(self.value(*character)?.into())
        })
    }

    #[inline]
    pub(super) fn character(&self, value: u64) -> u8 {
        self.alphabet.characters.get(value as usize).copied().unwrap_or(b'0')
    }

    #[inline]
    pub(super) fn value(&self, character: u8) -> Option<u8> {
        self.values.get(usize::from(character)).copied().filter(|value| *value != NONE)
    }
}
