//! Check digits: they notice a slip of the pen, and prove nothing else.
//!
//! Both cover the letters and digits that stand before them; other characters (a dash, say) do not count. A letter counts
//! as its value in base 36 (A = 10 ... Z = 35, lower case the same), written in decimal: `A7` is the digits 1, 0, 7.
//! This is how ISO 6166 (ISIN) feeds Luhn and ISO 17442 (LEI) feeds MOD 97-10.
//!
//! - `luhn`: one digit, so that the sum of ISO/IEC 7812-1 ends in 0. Notices every single wrong digit.
//! - `mod97`: two digits, ISO/IEC 7064 MOD 97-10, so that the whole number is 1 modulo 97. Notices every single wrong
//!   digit, every letter in another's place, and every swap of two neighbours that are both digits.

use crate::digits::fill_decimal;

/// A way of checking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CheckKind {
    Luhn,
    Mod97,
}

impl CheckKind {
    pub(super) const fn width(self) -> usize {
        match self {
            Self::Luhn => 1,
            Self::Mod97 => 2,
        }
    }

    /// Fills `field` with the check digits over `covered`.
    pub(super) fn fill(self, covered: &[u8], field: &mut [u8]) {
        let digits = match self {
            Self::Luhn => luhn(covered),
            Self::Mod97 => mod97(covered),
        };
        fill_decimal(field, digits.into());
    }
}

/// 0..=35, or `None` for characters that do not count.
fn value(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(36)
}

/// The check digit, 0..=9.
fn luhn(covered: &[u8]) -> u32 {
    let mut sum = 0;
    // The check digit itself will be the last one, which is not doubled; so the one before it is.
    let mut double = true;
    let mut add = |digit: u32| {
        let weighted = if double { digit * 2 } else { digit };
        sum += weighted / 10 + weighted % 10;
        double = !double;
    };
    for value in covered.iter().rev().filter_map(|byte| value(*byte)) {
        add(value % 10);
        if value >= 10 {
            add(value / 10);
        }
    }
    (10 - sum % 10) % 10
}

/// The check number, 2..=98.
fn mod97(covered: &[u8]) -> u32 {
    let append = |rest: u32, value: u32| (rest * if value < 10 { 10 } else { 100 } + value) % 97;
    let rest = covered.iter().filter_map(|byte| value(*byte)).fold(0, append);
    98 - rest * 100 % 97
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers that others have published: a card, two securities (Apple, Siemens), a company (the LEI foundation).
    #[test]
    fn golden_against_published_numbers() {
        assert_eq!(luhn(b"7992739871"), 3);
        assert_eq!(luhn(b"US037833100"), 5);
        assert_eq!(luhn(b"DE000723610"), 1);
        assert_eq!(mod97(b"506700GE1G29325QX3"), 63);
        assert_eq!(mod97(b"794"), 44);
        assert_eq!((luhn(b""), mod97(b"")), (0, 98));
    }

    #[test]
    fn case_and_separators_do_not_count() {
        assert_eq!(luhn(b"us-0378 33100"), luhn(b"US037833100"));
        assert_eq!(mod97(b"506700ge1g29325qx3"), mod97(b"506700-GE1G29325QX3"));
    }

    proptest! {
        #[test]
        fn every_single_wrong_digit_is_noticed(text in "[A-Z0-9]{0,30}[0-9][A-Z0-9]{0,30}", pick: prop::sample::Index, by in 1u8..10) {
            let places: Vec<usize> = (0..text.len()).filter(|i| text.as_bytes()[*i].is_ascii_digit()).collect();
            let mut wrong = text.clone().into_bytes();
            let place = &mut wrong[*pick.get(&places)];
            *place = b'0' + (*place - b'0' + by) % 10;
            prop_assert_ne!(luhn(text.as_bytes()), luhn(&wrong));
            prop_assert_ne!(mod97(text.as_bytes()), mod97(&wrong));
        }

        #[test]
        fn mod97_notices_wrong_letters_and_swapped_digits(head in "[A-Z0-9]{0,20}", a in 0u8..26, b in 0u8..26, x in 0u8..10, y in 0u8..10, tail in "[A-Z0-9]{0,20}") {
            let with = |middle: String| mod97(format!("{head}{middle}{tail}").as_bytes());
            let letter = |l: u8| char::from(b'A' + l).to_string();
            prop_assert_eq!(a == b, with(letter(a)) == with(letter(b)));
            prop_assert_eq!(x == y, with(format!("{x}{y}")) == with(format!("{y}{x}")));
        }
    }
}
