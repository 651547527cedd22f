//! Digits of fixed width, written in place: what every minted ID costs, so no formatter and no allocation.

/// The digits of every radix up to 36.
pub(crate) const ALPHANUMERIC: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Longest piece of a foreign text that an error message repeats, in characters.
const SHOWN_MAX: usize = 64;

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut n: u8 = 0;
    let mut rest: &mut [[u8; 2]] = &mut pairs;
    while let [first, tail @ ..] = rest {
        *first = [b'0' + n / 10, b'0' + n % 10];
        n += 1;
        rest = tail;
    }
    pairs
};

/// Fills `field` with the last `field.len()` decimal digits of `value`, zero-padded.
#[inline]
pub(crate) fn fill_decimal(field: &mut [u8], value: u64) {
    let mut rest = value;
    let mut pairs = field.rchunks_exact_mut(2);
    for pair in pairs.by_ref() {
        if let (Some(two), Ok(pair)) = (PAIRS.get((rest % 100) as usize), <&mut [u8; 2]>::try_from(pair)) {
            *pair = *two;
        }
        rest /= 100;
    }
    if let [first] = pairs.into_remainder() {
        *first = b'0' + (rest % 10) as u8;
    }
}

/// Decimal digits of the largest `u64`.
pub(crate) const U64_DIGITS: usize = 20;
/// Digits of the largest `u32`.
pub(crate) const U32_DIGITS: usize = 10;

/// The last `WIDTH` decimal digits of `value`, zero-padded.
#[inline]
pub(crate) fn padded<const WIDTH: usize>(value: u64) -> [u8; WIDTH] {
    let mut digits = [b'0'; WIDTH];
    fill_decimal(&mut digits, value);
    digits
}

/// Fills `field` with the last `field.len()` digits of `value` in `RADIX`, zero-padded, out of `alphabet`.
#[inline]
pub(crate) fn fill_digits<const RADIX: u64, const N: usize>(field: &mut [u8], value: u64, alphabet: &[u8; N]) {
    const { assert!(RADIX >= 2 && RADIX <= N as u64, "the alphabet has a character for every digit") };
    let mut rest = value;
    for place in field.iter_mut().rev() {
        // Never out of the alphabet (see above); `get` is there because the house does not index.
        *place = alphabet.get((rest % RADIX) as usize).copied().unwrap_or(b'0');
        rest /= RADIX;
    }
}

/// The number that `text` spells with 1 to 20 decimal digits and nothing else.
pub(crate) fn read_decimal(text: &str) -> Option<u64> {
    ((1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// A foreign text as an error message may repeat it: bounded, without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut escaped = text.escape_debug();
    let mut shown: String = escaped.by_ref().take(SHOWN_MAX).collect();
    if escaped.next().is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_shown_is_bounded_and_has_no_control_characters() {
        let shown = shown(&"\u{1b}[31m\n".repeat(1_000));
        assert!(shown.len() < 80 && !shown.chars().any(char::is_control), "{shown}");
    }

    proptest! {
        #[test]
        fn decimal_digits_are_those_of_the_formatter(value: u64, width in 1usize..=24) {
            let mut field = vec![b'?'; width];
            fill_decimal(&mut field, value);
            let all = format!("{value:024}");
            prop_assert_eq!(std::str::from_utf8(&field).unwrap(), &all[24 - width..]);
        }

        #[test]
        fn digits_of_other_radices_read_back(value: u64) {
            let mut field = [b'?'; 16];
            fill_digits::<16, _>(&mut field, value, b"0123456789abcdef");
            prop_assert_eq!(std::str::from_utf8(&field).unwrap(), format!("{value:016x}"));
            let mut field = [b'?'; 13];
            fill_digits::<36, _>(&mut field, value, ALPHANUMERIC);
            prop_assert_eq!(u64::from_str_radix(std::str::from_utf8(&field).unwrap(), 36), Ok(value));
        }

        #[test]
        fn only_digits_are_a_decimal(text in "[0-9+ _é-]{0,22}") {
            let strict = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            prop_assert_eq!(read_decimal(&text).is_some(), strict && text.len() <= 20 && text.parse::<u64>().is_ok());
        }
    }
}
