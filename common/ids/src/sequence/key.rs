//! Keys, and the slots that count for them.
//!
//! A key that is a whole number below 2^32, written as numbers are, has the slot of that number: nobody else's. Every other text has the
//! slot that its SipHash-2-4 says, and shares it with whoever hashes to it: two such keys share a counter, which costs each of them gaps
//! and nothing else. So nothing is stored for a key, and clients and agents find its section without asking anybody.

use super::{Section, SequenceDefinition};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;

/// Bytes of a key at most.
pub const KEY_LEN_MAX: usize = 128;
/// Digits of the largest number that has a slot of its own.
const DIGITS_MAX: usize = 10;

/// The place of a key among the 2^32 of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u32);

/// The reason why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// There is none.
    #[error("a key has 1 to {KEY_LEN_MAX} bytes, and this one is empty")]
    Empty,
    /// Too much of it.
    #[error("a key has at most {KEY_LEN_MAX} bytes, and this one has {0}")]
    Long(usize),
    /// Bytes that are no text.
    #[error("a key is text in UTF-8, and these bytes are not")]
    NotText,
}

impl Slot {
    /// The slot of a key.
    ///
    /// # Errors
    /// [`InvalidKey`], if it is empty or too long.
    pub fn of(key: &str) -> Result<Self, InvalidKey> {
        let bytes = key.as_bytes();
        Ok(Self::own(bytes)?.unwrap_or_else(|| Self::hashed(bytes)))
    }

    /// The slot of a key that came as bytes.
    ///
    /// # Errors
    /// [`InvalidKey`].
    pub fn of_bytes(key: &[u8]) -> Result<Self, InvalidKey> {
        // The length first: of a long one nobody needs to know whether it is text. Nor of digits, of which most keys are.
        match Self::own(key)? {
            Some(own) => Ok(own),
            None => std::str::from_utf8(key).map(|_| Self::hashed(key)).map_err(|_| InvalidKey::NotText),
        }
    }

    /// The slot that a number has by itself, if the key is one; its length is checked.
    fn own(key: &[u8]) -> Result<Option<Self>, InvalidKey> {
        match key.len() {
            0 => Err(InvalidKey::Empty),
            1..=KEY_LEN_MAX => Ok(canonical(key).map(Self)),
            len => Err(InvalidKey::Long(len)),
        }
    }

    /// The slot of a whole number: the same as that of its digits.
    pub fn of_number(number: u64) -> Self {
        match u32::try_from(number) {
            Ok(own) => Self(own),
            Err(_) => Self::hashed(itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    fn hashed(bytes: &[u8]) -> Self {
        let mut hasher = SipHasher24::new_with_keys(0, 0);
        hasher.write(bytes);
        Self((hasher.finish() & u64::from(u32::MAX)) as u32)
    }
}

/// The number that these digits are the one way to write, if it has a slot of its own.
fn canonical(digits: &[u8]) -> Option<u32> {
    let zeros = digits.len() > 1 && digits.first() == Some(&b'0');
    if digits.len() > DIGITS_MAX || zeros {
        return None;
    }
    let add = |sum: u64, digit: &u8| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'));
    digits.iter().try_fold(0, add).and_then(|number| u32::try_from(number).ok())
}

impl SequenceDefinition {
    /// The section that a slot belongs to, and the slot's place in it.
    #[inline]
    pub const fn place(&self, slot: Slot) -> (Section, u32) {
        let keys = self.keys_per_section();
        (Section(slot.0 / keys), slot.0 % keys)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SequenceSpec;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_have_the_slots_that_they_have_always_had() {
        for (key, slot) in [
            ("0", 0),
            ("42", 42),
            ("4294967295", u32::MAX),
            // Not the way to write a number, or a number without a slot of its own.
            ("042", 3_320_212_241),
            ("+42", 2_919_496_270),
            ("-1", 116_001_835),
            ("00", 2_371_661_417),
            (" 42", 3_692_187_737),
            ("4294967296", 2_891_816_409),
            ("a", 3_449_004_617),
            ("user:42", 3_346_149_961),
            ("\u{fc}ber", 2_442_214_335),
        ] {
            assert_eq!(Slot::of(key), Ok(Slot(slot)), "{key}");
        }
        assert_eq!(Slot::of(&"k".repeat(128)), Ok(Slot(780_949_654)));
    }

    #[test]
    fn the_hash_is_siphash_2_4() {
        // The vector of its authors' paper.
        let mut hasher = SipHasher24::new_with_keys(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        hasher.write(&(0..15).collect::<Vec<u8>>());
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_reason() {
        assert_eq!(Slot::of(""), Err(InvalidKey::Empty));
        assert_eq!(Slot::of(&"\u{fc}".repeat(65)), Err(InvalidKey::Long(130)));
        assert_eq!(Slot::of_bytes(&[0xff; 129]), Err(InvalidKey::Long(129)));
        assert_eq!(Slot::of_bytes(&[0xff; 2]), Err(InvalidKey::NotText));
    }

    /// Keys of ten million that share their slot with another one: n (1 - (1 - 2^-32)^(n-1)), give or take.
    #[test]
    fn ten_million_text_keys_share_slots_as_chance_would_have_it() {
        const KEYS: u32 = 10_000_000;
        let numbered = |nth: u32| format!("user-{nth}");
        let random = |nth: u32| format!("{:016x}", u64::from(nth).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for (kind, text) in [("numbered", numbered as fn(u32) -> String), ("random", random)] {
            let mut slots: Vec<u32> = (0..KEYS).map(|nth| Slot::of(&text(nth)).unwrap().0).collect();
            slots.sort_unstable();
            let sharing: usize = slots.chunk_by(|a, b| a == b).map(<[u32]>::len).filter(|keys| *keys > 1).sum();
            let expected = f64::from(KEYS) * f64::from(KEYS - 1) / f64::from(u32::MAX);
            // They come in pairs, whose number varies by its root: six times that is a chance in a thousand million.
            let deviation = 2.0 * (expected / 2.0).sqrt();
            let off = (sharing as f64 - expected) / deviation;
            println!("{kind}: {sharing} of {KEYS} keys share a slot, {expected:.0} expected, {off:+.1} deviations");
            assert!(off.abs() < 6.0, "{kind}: {sharing}, not {expected:.0}");
            // Nor do they crowd in sections: of 42,950 with 233 keys each, the fullest has fewer than twice as many.
            let fullest = slots.chunk_by(|a, b| a / 100_000 == b / 100_000).map(<[u32]>::len).max().unwrap();
            assert!(fullest < 400, "{kind}: {fullest} keys in one section");
        }
    }

    proptest! {
        #[test]
        fn a_number_and_its_digits_are_one_key(number: u64, own: u32) {
            prop_assert_eq!(Slot::of(&number.to_string()), Ok(Slot::of_number(number)));
            prop_assert_eq!(Slot::of(&own.to_string()), Ok(Slot(own)));
            prop_assert_eq!(Slot::of_bytes(own.to_string().as_bytes()), Ok(Slot(own)));
        }

        #[test]
        fn any_text_of_fitting_length_is_a_key(key in "\\PC{0,64}") {
            match key.len() {
                0 => prop_assert!(Slot::of(&key).is_err()),
                1..=KEY_LEN_MAX => prop_assert!(Slot::of(&key).is_ok()),
                _ => prop_assert!(Slot::of(&key).is_err()),
            }
        }

        #[test]
        fn every_slot_lies_in_one_section(slot: u32, keys in 2u32..) {
            let source = SequenceSpec { keys_per_section: Some(keys), ..SequenceSpec::default() };
            let definition = SequenceDefinition::new(&source).unwrap();
            let (Section(section), at) = definition.place(Slot(slot));
            prop_assert!(section < definition.sections() && at < keys);
            prop_assert_eq!(u64::from(section) * u64::from(keys) + u64::from(at), u64::from(slot));
        }
    }
}
