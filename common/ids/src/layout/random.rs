//! The random bits of a number: what nobody can tell who has not the key, and yet the same each time the number is written.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use std::fmt;

/// Bytes of a key.
pub const RANDOM_KEY_LEN: usize = 16;

/// Random bits out of a number's other bits: AES-128 of those under a key that is drawn at each start and kept nowhere. So what
/// writes an ID needs no state and no source of randomness, and an ID that is written twice is the same ID.
pub struct RandomBits(Aes128);

impl RandomBits {
    /// A source with that key.
    pub fn new(key: [u8; RANDOM_KEY_LEN]) -> Self {
        Self(Aes128::new(&key.into()))
    }

    /// 128 of them for a number whose random bits are 0.
    #[inline]
    pub fn of(&self, number: u128) -> u128 {
        let mut block = number.to_be_bytes().into();
        self.0.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }
}

impl Default for RandomBits {
    /// A source with a key that everybody knows, for tests and simulations.
    fn default() -> Self {
        Self::new([0; RANDOM_KEY_LEN])
    }
}

impl fmt::Debug for RandomBits {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RandomBits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_differ_by_number_and_key_and_are_the_same_again() {
        let [one, other] = [RandomBits::default(), RandomBits::new([7; RANDOM_KEY_LEN])];
        assert_eq!(one.of(5), one.of(5));
        assert!(one.of(5) != one.of(6) && one.of(5) != other.of(5));
        // FIPS 197 gives none of 0 under 0; this one is in NIST's known answers.
        assert_eq!(one.of(0), 0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e);
        assert_eq!(format!("{other:?}"), "RandomBits");
    }
}
