//! Texts that only the holder of a key can turn back, by the crate `fpe` (NIST SP 800-38G, FF1 with AES-256). What is here is the
//! arithmetic that it asks of a numeral string, on words instead of big integers.

use super::alphabet::Digits;
use aes::Aes256;
use fpe::ff1::{FF1, NumeralString, Operations};
use std::fmt;

/// Bits of the smallest domain that SP 800-38G allows: a million different texts.
pub(super) const DOMAIN_BITS_MIN: u32 = 20;
/// The largest half of a text, as a power of two: a byte more fits a word of 128 bits.
const HALF_MAX: u128 = 1 << 120;
/// Bytes of a word.
const WORD_LEN: usize = 16;

/// The key that `ff1` encrypts with. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; Key::LEN]);

impl Key {
    /// Bytes of a key.
    pub const LEN: usize = 32;

    /// The key of these bytes, which have to be random.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The cipher of one name.
pub(super) struct Ff1 {
    cipher: FF1<Aes256>,
    tweak: Vec<u8>,
    digits: Digits,
    /// Digits of the second half, and what they count to.
    low_len: usize,
    low_size: u128,
}

impl fmt::Debug for Ff1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ff1").field("digits", &self.digits).finish_non_exhaustive()
    }
}

impl Ff1 {
    /// `None` if halves of such texts are larger than [`HALF_MAX`].
    pub(super) fn new(key: &Key, tweak: &[u8], digits: Digits) -> Option<Self> {
        let low_len = digits.len() - digits.len() / 2;
        let low_size = u128::from(digits.radix()).checked_pow(u32::try_from(low_len).ok()?);
        let low_size = low_size.filter(|size| *size <= HALF_MAX)?;
        let cipher = FF1::new(&key.0, u32::try_from(digits.radix()).ok()?).ok()?;
        Some(Self { cipher, tweak: tweak.to_vec(), digits, low_len, low_size })
    }

    pub(super) fn len(&self) -> usize {
        self.digits.len()
    }

    fn numerals(&self, number: u128) -> Numerals {
        let high = Half { value: number / self.low_size, len: self.len() - self.low_len };
        Numerals { high, low: Half { value: number % self.low_size, len: self.low_len } }
    }

    /// Appends the text of `number`. `false` if it has more digits than the texts.
    pub(super) fn write(&self, number: u128, out: &mut Vec<u8>) -> bool {
        let Ok(Numerals { high, low }) = self.cipher.encrypt(&self.tweak, &self.numerals(number)) else { return false };
        self.digits.write_with(high.value, high.len, out);
        self.digits.write_with(low.value, low.len, out);
        true
    }

    /// Tells whether it has the length and the digits of a text.
    pub(super) fn may_be(&self, text: &[u8]) -> bool {
        text.len() == self.len() && text.iter().all(|digit| self.digits.value(*digit).is_some())
    }

    pub(super) fn read(&self, text: &[u8]) -> Option<u128> {
        if text.len() != self.len() {
            return None;
        }
        let (high, low) = text.split_at_checked(text.len() - self.low_len)?;
        let half = |digits: &[u8]| Some(Half { value: self.digits.read_any(digits)?, len: digits.len() });
        let text = Numerals { high: half(high)?, low: half(low)? };
        let Numerals { high, low } = self.cipher.decrypt(&self.tweak, &text).ok()?;
        high.value.checked_mul(self.low_size)?.checked_add(low.value)
    }
}

/// A number of so many digits, in the two halves that FF1 mixes.
struct Numerals {
    high: Half,
    low: Half,
}

#[derive(Clone, Copy)]
struct Half {
    value: u128,
    len: usize,
}

impl NumeralString for Numerals {
    type Ops = Half;

    fn is_valid(&self, radix: u32) -> bool {
        self.high.value < size(radix, self.high.len) && self.low.value < size(radix, self.low.len)
    }

    fn numeral_count(&self) -> usize {
        self.high.len + self.low.len
    }

    fn split(&self) -> (Half, Half) {
        (self.high, self.low)
    }

    fn concat(high: Half, low: Half) -> Self {
        Self { high, low }
    }
}

/// Counts the numbers of so many digits.
fn size(radix: u32, len: usize) -> u128 {
    u128::from(radix).saturating_pow(u32::try_from(len).unwrap_or(u32::MAX)).min(HALF_MAX)
}

/// The number that bytes spell, the most significant first, modulo `size`.
fn modulo(mut bytes: impl Iterator<Item = u8>, size: u128) -> u128 {
    let first = bytes.by_ref().take(WORD_LEN).fold(0u128, |word, byte| word << 8 | u128::from(byte));
    bytes.fold(first % size, |rest, byte| (rest << 8 | u128::from(byte)) % size)
}

impl Operations for Half {
    type Bytes = Tail;

    fn numeral_count(&self) -> usize {
        self.len
    }

    fn to_be_bytes(&self, _: u32, b: usize) -> Tail {
        Tail { bytes: self.value.to_be_bytes(), from: WORD_LEN.saturating_sub(b) }
    }

    fn add_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, m: usize) -> Self {
        let size = size(radix, m);
        Self { value: (self.value + modulo(other, size)) % size, len: m }
    }

    fn sub_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, m: usize) -> Self {
        let size = size(radix, m);
        Self { value: (self.value + size - modulo(other, size)) % size, len: m }
    }
}

/// The last bytes of a word.
struct Tail {
    bytes: [u8; WORD_LEN],
    from: usize,
}

impl AsRef<[u8]> for Tail {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::Alphabet;
    use super::*;
    use fpe::ff1::FlexibleNumeralString;
    use proptest::prelude::*;

    /// NIST's samples for FF1 with AES-256 (7, 8 and 9): plain text, tweak, cipher text.
    #[test]
    fn nists_samples() {
        let key: [u8; 32] = [
            0x2B, 0x7E, 0x15, 0x16, 0x28, 0xAE, 0xD2, 0xA6, 0xAB, 0xF7, 0x15, 0x88, 0x09, 0xCF, 0x4F, 0x3C, 0xEF, 0x43,
            0x59, 0xD8, 0xD5, 0x80, 0xAA, 0x4F, 0x7F, 0x03, 0x6D, 0x6F, 0x04, 0xFC, 0x6A, 0x94,
        ];
        let decimal = || Digits::new(Alphabet::decimal(), 10);
        let letters = || Digits::new("0123456789abcdefghijklmnopqrstuvwxyz".parse().unwrap(), 19);
        for (digits, tweak, plain, cipher) in [
            (decimal(), b"".as_slice(), "0123456789", "6657667009"),
            (decimal(), b"\x39\x38\x37\x36\x35\x34\x33\x32\x31\x30", "0123456789", "1001623463"),
            (letters(), b"\x37\x37\x37\x37\x70\x71\x72\x73\x37\x37\x37", "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
        ] {
            let ff1 = Ff1::new(&Key::new(key), tweak, digits.clone()).unwrap();
            let number = digits.read(plain.as_bytes()).unwrap();
            let mut out = Vec::new();
            assert!(ff1.write(number, &mut out));
            assert_eq!((String::from_utf8(out).unwrap().as_str(), ff1.read(cipher.as_bytes())), (cipher, Some(number)));
        }
    }

    proptest! {
        /// The library's own numeral strings, which are big integers, give the same.
        #[test]
        fn words_count_as_big_integers_do(key: [u8; 32], number: u128, radix in 2u16..=94, longer in 0u32..8, tweak: Vec<u8>) {
            let alphabet: String = (0x21..=0x7Eu8).filter(|b| !b"\"'\\".contains(b)).take(radix.into()).map(char::from).collect();
            let alphabet: Alphabet = alphabet.parse().unwrap();
            let radix = alphabet.len() as u32;
            let len = alphabet.digits_for(u128::MAX) + longer;
            let digits = Digits::new(alphabet, len);
            let Some(ff1) = Ff1::new(&Key::new(key), &tweak, digits.clone()) else { return Ok(()) };
            let mut out = Vec::new();
            prop_assert!(ff1.write(number, &mut out));
            let mut plain = Vec::new();
            digits.write(number, &mut plain);
            let plain: Vec<u16> = plain.iter().map(|c| digits.value(*c).unwrap().into()).collect();
            let theirs = FF1::<Aes256>::new(&key, radix).unwrap();
            let theirs = theirs.encrypt(&tweak, &FlexibleNumeralString::from(plain)).unwrap();
            let theirs: Vec<u8> = Vec::<u16>::from(theirs).iter().map(|n| digits.character((*n).into())).collect();
            prop_assert_eq!(&out, &theirs);
            prop_assert_eq!(ff1.read(&out), Some(number));
        }
    }
}
