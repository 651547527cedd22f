//! Many numbers at once, at a few bytes a cycle: of ten thousand in a row only the last four digits differ, so the rest is copied and
//! those come from a table.

use super::{Encoding, Way};
use crate::digits::{U32_DIGITS, U64_DIGITS, padded};
use crate::layout::Stretch;
use std::ops::Range;

/// Numbers that share all digits but the last four.
const BLOCK: u64 = 10_000;
/// Packed numbers that share all bytes but the last.
const PACKED_BLOCK: usize = 256;
/// Lines that are copied at once: few enough for the processor's nearest cache.
const LINES: usize = 128;
/// The number of lines below which they are written digit by digit.
const FEW: u64 = 8;
/// Bytes of the longest line: the digits of a Uniq96 and what stands between two of them in JSON.
const LINE_MAX: usize = 40;

/// The four digits of every number below [`BLOCK`].
static FOUR: [[u8; 4]; BLOCK as usize] = {
    let mut table = [[b'0'; 4]; BLOCK as usize];
    let mut n: u16 = 0;
    let mut rest: &mut [[u8; 4]] = &mut table;
    while let [first, tail @ ..] = rest {
        let (high, low) = ((n / 100) as u8, (n % 100) as u8);
        *first = [b'0' + high / 10, b'0' + high % 10, b'0' + low / 10, b'0' + low % 10];
        n += 1;
        rest = tail;
    }
    table
};

/// Every number below [`PACKED_BLOCK`], packed.
static LAST_BYTES: [[u8; 8]; PACKED_BLOCK] = {
    let mut table = [[0; 8]; PACKED_BLOCK];
    let mut n: u8 = 0;
    let mut rest: &mut [[u8; 8]] = &mut table;
    while let [[.., last], tail @ ..] = rest {
        *last = n;
        n = n.wrapping_add(1);
        rest = tail;
    }
    table
};

impl Encoding {
    /// Appends the texts of numbers, none above its bits, each with `after` behind it; of what cannot be written only that.
    pub fn write_run(&self, run: Stretch, after: &[u8], out: &mut Vec<u8>) {
        let (is_plain, serial) = (self.prefix.is_empty() && run.step == 1, run.first as u32);
        match (&self.way, u64::try_from(run.first)) {
            (Way::Decimal, Ok(first)) if is_plain && has_end(run) => numbers(first, run.n, after, out),
            (Way::Split, _) if is_plain && u32::MAX - serial >= run.n.saturating_sub(1) => {
                let high = padded::<U64_DIGITS>((run.first >> u32::BITS) as u64);
                fields::<U32_DIGITS>(&high, serial.into(), run.n, after, out);
            }
            (Way::Fixed(_), _) if run.step == 1 => self.write_by_last_digit(run, after, out),
            _ => {
                for number in run.numbers() {
                    // What cannot be written has no text, but its place: a length that was told is held.
                    let _ = self.write(number, out);
                    out.extend_from_slice(after);
                }
            }
        }
    }

    /// Writes lines with digits side by side: mostly the last one changes, and the rest is copied.
    fn write_by_last_digit(&self, run: Stretch, after: &[u8], out: &mut Vec<u8>) {
        let Way::Fixed(digits) = &self.way else { return };
        // The line before, how long it is, and what its last digit is worth.
        let (mut line, mut len, mut value) = (0, 0, u64::MAX);
        for number in run.numbers() {
            let start = out.len();
            if value.saturating_add(1) < digits.radix() {
                value += 1;
                out.extend_from_within(line..line + len);
                if let Some(last) = out.get_mut(start + len - after.len() - 1) {
                    *last = digits.character(value);
                }
            } else {
                if self.write(number, out) {
                    out.extend_from_slice(after);
                }
                len = out.len() - start;
                let last = out.len().checked_sub(after.len() + 1).and_then(|last| out.get(last));
                value = last.and_then(|last| digits.value(*last)).map_or(u64::MAX, u64::from);
            }
            line = start;
        }
    }

    /// Bytes that [`write_run`](Self::write_run) appends if nothing stands behind the texts.
    pub fn run_len(&self, run: Stretch) -> usize {
        match (&self.way, u64::try_from(run.first)) {
            (Way::Decimal, Ok(first)) if run.step == 1 && has_end(run) => {
                digits(first, run.n) + run.n as usize * self.prefix.len()
            }
            _ if let Some(len) = self.fixed_len() => run.n as usize * len,
            _ => {
                let mut text = Vec::with_capacity(self.len_max());
                let len = |number| {
                    text.clear();
                    // What cannot be written has no text, here as there.
                    let _ = self.write(number, &mut text);
                    text.len()
                };
                run.numbers().map(len).sum()
            }
        }
    }

    /// Bytes of a number that is packed.
    pub const fn packed_len(&self) -> usize {
        match self.bits() {
            ..=64 => 8,
            65..=96 => 12,
            97.. => 16,
        }
    }

    /// Appends the numbers themselves, the most significant byte first.
    pub fn pack_run(&self, run: Stretch, out: &mut Vec<u8>) {
        if self.packed_len() == size_of::<u64>() && run.step == 1 && has_end(run) {
            return packed(run.first as u64, run.n, out);
        }
        let skip = size_of::<u128>() - self.packed_len();
        out.reserve(run.n as usize * self.packed_len());
        for number in run.numbers() {
            out.extend_from_slice(number.to_be_bytes().get(skip..).unwrap_or_default());
        }
    }
}

/// Tells whether 64 bits can say the end of numbers that follow on each other, as what writes many at once needs it.
fn has_end(run: Stretch) -> bool {
    run.first + u128::from(run.n) <= u128::from(u64::MAX)
}

/// `n` numbers from `first` on, 8 bytes each, the most significant first.
fn packed(first: u64, n: u32, out: &mut Vec<u8>) {
    let (mut next, end) = (first, first.saturating_add(n.into()));
    while next < end {
        let low = next % PACKED_BLOCK as u64;
        let take = (end - next).min(PACKED_BLOCK as u64 - low);
        let copied = out.len();
        out.extend_from_slice(LAST_BYTES.get(low as usize..(low + take) as usize).unwrap_or_default().as_flattened());
        // Only the last byte differs within a block, so no number's bytes are turned round: the compiler makes vectors of that.
        let high = (next - low).swap_bytes();
        let (places, _) = out.get_mut(copied..).unwrap_or_default().as_chunks_mut::<8>();
        for place in places {
            *place = (u64::from_le_bytes(*place) | high).to_le_bytes();
        }
        next += take;
    }
}

/// `n` numbers from `first` on, without leading zeros, with `after` behind each.
fn numbers(first: u64, n: u32, after: &[u8], out: &mut Vec<u8>) {
    let (mut next, end) = (first, first.saturating_add(n.into()));
    while next < end {
        let (high, low) = (next / BLOCK, next % BLOCK);
        let take = (end - next).min(BLOCK - low);
        let mut digits = itoa::Buffer::new();
        if high == 0 || take < FEW {
            for number in next..next + take {
                out.extend_from_slice(digits.format(number).as_bytes());
                out.extend_from_slice(after);
            }
        } else {
            block(&[digits.format(high).as_bytes()], low..low + take, after, out);
        }
        next += take;
    }
}

/// `n` numbers from `first` on, each in `WIDTH` digits with `before` before and `after` behind.
fn fields<const WIDTH: usize>(before: &[u8], first: u64, n: u32, after: &[u8], out: &mut Vec<u8>) {
    let (mut next, end) = (first, first.saturating_add(n.into()));
    while next < end {
        let (high, low) = (next / BLOCK, next % BLOCK);
        let take = (end - next).min(BLOCK - low);
        if take < FEW {
            for number in next..next + take {
                out.extend_from_slice(before);
                out.extend_from_slice(&padded::<WIDTH>(number));
                out.extend_from_slice(after);
            }
        } else {
            let digits = padded::<WIDTH>(high * BLOCK);
            let high = digits.get(..WIDTH.saturating_sub(4)).unwrap_or_default();
            block(&[before, high], low..low + take, after, out);
        }
        next += take;
    }
}

/// Digits of `n` numbers from `first` on, all together, without leading zeros.
fn digits(first: u64, n: u32) -> usize {
    let (mut total, mut next, end) = (0, first, first.saturating_add(n.into()));
    while next < end {
        let digits = next.checked_ilog10().map_or(1, |log| log as usize + 1);
        // The first number with one digit more; for the longest there is none.
        let longer = if digits < U64_DIGITS { 10u64.saturating_pow(digits as u32) } else { u64::MAX };
        let same = end.min(longer) - next;
        total += digits * same as usize;
        next += same.max(1);
    }
    total
}

/// Lines that begin with `high`, go on with the four digits of `low`, and end with `after`.
fn block(high: &[&[u8]], low: Range<u64>, after: &[u8], out: &mut Vec<u8>) {
    let (mut line, mut len) = ([0; LINE_MAX], 0);
    for part in high.iter().copied().chain([&b"0000"[..], after]) {
        if let Some(place) = line.get_mut(len..len + part.len()) {
            place.copy_from_slice(part);
        }
        len += part.len();
    }
    let fours = FOUR.get(low.start as usize..low.end as usize).unwrap_or_default();
    // The length of a line is a part of the code that writes it, so that each line is a few moves of known size.
    let known = KNOWN.iter().find(|(length, between, _)| (*length, *between) == (len, after.len()));
    if let Some((.., write)) = known {
        return write(&line, fours, out);
    }
    let line = line.get(..len).unwrap_or_default();
    let (before, after) = line.split_at(len.saturating_sub(after.len() + 4));
    for four in fours {
        out.extend_from_slice(before);
        out.extend_from_slice(four);
        out.extend_from_slice(after.get(4..).unwrap_or_default());
    }
}

/// Appends lines that differ in four digits.
type Write = fn(&[u8; LINE_MAX], &[[u8; 4]], &mut Vec<u8>);

macro_rules! known {
    ($($after:literal: $($len:literal)+;)+) => { &[$($(($len, $after, put::<$len, $after>),)+)+] };
}

/// The lines that are written most: numbers of 5 to 20 digits and of 30, as text and as JSON. By the bytes of a line, and of what ends it.
static KNOWN: &[(usize, usize, Write)] = known! {
    1: 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 31;
    3: 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 33;
};

/// Lines of `LEN` bytes with four digits before the last `AFTER`.
fn put<const LEN: usize, const AFTER: usize>(line: &[u8; LINE_MAX], fours: &[[u8; 4]], out: &mut Vec<u8>) {
    const { assert!(AFTER + 4 <= LEN && LEN <= LINE_MAX, "the digits are in the line") };
    let Some(line) = line.first_chunk::<LEN>() else { return };
    let start = out.len();
    out.reserve(fours.len() * LEN);
    for fours in fours.chunks(LINES) {
        let (copied, len) = (out.len(), fours.len() * LEN);
        // Lines that are there are copied at once, and then only their digits written.
        if copied == start {
            out.resize(start + len, 0);
            out.get_mut(start..).unwrap_or_default().as_chunks_mut::<LEN>().0.fill(*line);
        } else {
            out.extend_from_within(start..start + len);
        }
        let (lines, _) = out.get_mut(copied..).unwrap_or_default().as_chunks_mut::<LEN>();
        for (place, four) in lines.iter_mut().zip(fours) {
            if let Some(digits) = place.get_mut(LEN - AFTER - 4..LEN - AFTER) {
                digits.copy_from_slice(four);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::DECIMAL64;
    use proptest::prelude::*;

    #[test]
    fn the_last_number_of_64_bits_is_written_too() {
        for (first, n) in [(u64::MAX, 1), (u64::MAX - 99, 100), (u64::MAX - 100, 100)] {
            let run = Stretch { first: first.into(), step: 1, n };
            let (mut text, mut packed) = (Vec::new(), Vec::new());
            DECIMAL64.write_run(run, b"\n", &mut text);
            DECIMAL64.pack_run(run, &mut packed);
            let numbers = || run.numbers().map(|number| number as u64);
            assert_eq!(
                String::from_utf8(text).unwrap(),
                numbers().map(|number| format!("{number}\n")).collect::<String>()
            );
            assert_eq!(DECIMAL64.run_len(run), 20 * n as usize);
            assert!(numbers().flat_map(u64::to_be_bytes).eq(packed));
        }
    }

    #[test]
    fn lines_are_those_of_the_formatter_at_the_edges_of_what_is_copied_at_once() {
        let edges = [1, 7, 8, 9, 99, 127, 128, 129, 255, 256, 257, 1_000, 9_999, 10_000, 10_001, 20_100];
        let rolling = (0..20).map(|exponent| 10u64.pow(exponent).saturating_sub(130));
        for first in rolling.chain([9_872, 1 << 62, 999_999_990_000, u64::MAX - 20_100]) {
            for (n, after) in edges.into_iter().flat_map(|n| ["\n", "\",\"", "", "\r\n"].map(|after| (n, after))) {
                let (mut out, mut wanted) = (b"before".to_vec(), "before".to_owned());
                (first..first + u64::from(n)).for_each(|number| wanted += &format!("{number}{after}"));
                numbers(first, n, after.as_bytes(), &mut out);
                assert!(out == wanted.as_bytes(), "{n} from {first} with {after:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_formatter(
            exponent in 0u32..20, offset in 0u64..30_000, n in 0u32..25_000, long: bool
        ) {
            let first = 10u64.pow(exponent).saturating_sub(15_000).saturating_add(offset);
            let after: &[u8] = if long { b"\",\"" } else { b"\n" };
            let end = std::str::from_utf8(after).unwrap();
            let (mut out, mut wanted, mut wide, mut wanted_wide) = (Vec::new(), String::new(), Vec::new(), String::new());
            for number in first..first + u64::from(n) {
                wanted += &format!("{number}{end}");
                wanted_wide += &format!("<{:010}{end}", number % 10_000_000_000);
            }
            numbers(first, n, after, &mut out);
            fields::<10>(b"<", first, n, after, &mut wide);
            prop_assert!(out == wanted.as_bytes());
            prop_assert!(wide == wanted_wide.as_bytes());
            prop_assert_eq!(digits(first, n) + n as usize * after.len(), wanted.len());
            packed(first, n, &mut wide);
            let packed = &wide[wanted_wide.len()..];
            prop_assert!(packed.chunks(8).map(|id| u64::from_be_bytes(id.try_into().unwrap())).eq(first..first + u64::from(n)));
        }
    }
}
