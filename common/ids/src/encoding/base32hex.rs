//! The bytes of a number in base 32 with extended hex alphabet (RFC 4648, section 7), without padding.

use super::Case;

const DIGIT_BITS: u32 = 5;

/// Texts of the bytes of numbers of so many bits.
#[derive(Debug)]
pub(super) struct Base32hex {
    /// Bits of the bytes.
    bits: u32,
    case: Case,
}

impl Base32hex {
    /// An encoding of numbers of up to 128 bits, in small letters unless something else is said.
    pub(super) fn new(bits: u32, case: Option<Case>) -> Self {
        Self { bits: bits.next_multiple_of(u8::BITS), case: case.unwrap_or(Case::Lower) }
    }

    /// Characters of a text.
    pub(super) fn len(&self) -> usize {
        self.bits.div_ceil(DIGIT_BITS) as usize
    }

    /// Bits that the last digit has behind the last byte.
    fn behind(&self) -> u32 {
        self.bits.next_multiple_of(DIGIT_BITS) - self.bits
    }

    /// Appends the text of a number.
    pub(super) fn write(&self, number: u128, out: &mut Vec<u8>) {
        let radix = 1 << DIGIT_BITS;
        for nth in (0..self.bits.div_ceil(DIGIT_BITS)).rev() {
            let digits = match (nth * DIGIT_BITS).checked_sub(self.behind()) {
                Some(below) => number >> below,
                None => number << self.behind(),
            };
            let digit = char::from_digit((digits % radix) as u32, radix as u32).unwrap_or('0');
            out.push(if self.case == Case::Upper { digit.to_ascii_uppercase() } else { digit } as u8);
        }
    }

    /// The number that these characters are of in either case; `None` if there is none.
    pub(super) fn read(&self, text: &str) -> Option<u128> {
        let (last, digits) = text.as_bytes().split_last().filter(|_| text.len() == self.len())?;
        let value = |byte: &u8| char::from(*byte).to_digit(1 << DIGIT_BITS);
        let high =
            digits.iter().try_fold(0u128, |number, byte| Some(number << DIGIT_BITS | u128::from(value(byte)?)))?;
        Some(high << (DIGIT_BITS - self.behind()) | u128::from(value(last)? >> self.behind()))
    }
}
