//! The lines of history: what one says, and whether an ID is among those that it stands for.
//!
//! `crc time kind name caller count form first last`, separated by tabs, in printable ASCII; other bytes are written as `\xNN`.
//! `crc` is the CRC-32C of the rest in 8 hexadecimal digits, so that a line that was cut off by a crash is known as such. `form`
//! says which IDs lie from `first` to `last`:
//!
//! * `number`: the numbers between.
//! * `AT-TO/RADIX`: texts of one length that are equal but for the bytes from AT to before TO, which count in digits of that
//!   radix, `0-9A-Z`. Written only after each text was seen to be so, thus nothing else is among them.
//! * `one`: a single text.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::plugin::Call;
use core::fmt::Write as _;
use std::borrow::Cow;

/// Bytes of a line at most; what is longer is none of ours.
pub(super) const LINE_LEN_MAX: usize = 4 << 10;
/// Bytes of a caller's label that are written: a certificate's role is not longer.
const CALLER_LEN_MAX: usize = 80;
/// Bytes of an ID that are written; longer ones do not leave.
const ID_LEN_MAX: usize = common::kind::TEXT_LEN_MAX;
/// The radixes that serials are written in.
const RADIXES: [u32; 2] = [10, 36];
/// Digits of a counter at most: those of 36^12 fit 64 bits, and so do those of 10^19.
const DIGITS_MAX: usize = 12;

/// The form in which the IDs of a line follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As numbers.
    Number,
    /// As a counter within a text.
    Counter {
        /// Its first byte.
        at: usize,
        /// The byte behind its last one.
        to: usize,
        /// 10 or 36.
        radix: u32,
    },
    /// There is one only.
    One,
}

/// A line: a range that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The time at which their call came, in RFC 3339.
    pub time: String,
    /// Their kind.
    pub kind: String,
    /// The name by which they were minted.
    pub name: String,
    /// The caller.
    pub caller: String,
    /// The number of IDs.
    pub count: u64,
    /// The form in which they follow each other.
    pub form: Form,
    /// The first ID.
    pub first: String,
    /// The last one.
    pub last: String,
}

/// The value of a number of digits; `None` if one of them is no digit, or they are none or too many.
fn value(text: &str, radix: u32) -> Option<u64> {
    let digit = |byte: u8| char::from(byte).to_digit(radix).filter(|_| !byte.is_ascii_lowercase());
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    text.bytes().try_fold(0, |sum: u64, byte| Some(sum.checked_mul(radix.into())? + u64::from(digit(byte)?)))
}

/// A number in decimal; unlike the standard library's, without a sign.
fn number(text: &str) -> Option<u128> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The value of a text's counter, if all else of it is as in `pattern`.
fn counter(text: &str, pattern: &str, at: usize, to: usize, radix: u32) -> Option<u64> {
    let same =
        text.len() == pattern.len() && text.get(..at)? == pattern.get(..at)? && text.get(to..)? == pattern.get(to..)?;
    if same { value(text.get(at..to)?, radix) } else { None }
}

impl Line {
    /// Tells whether that ID, written as in this history, is one of those that left.
    pub fn contains(&self, id: &str) -> bool {
        match self.form {
            Form::One => self.first == id,
            Form::Number => match (number(&self.first), number(id), number(&self.last)) {
                (Some(first), Some(id), Some(last)) => (first..=last).contains(&id) && self.is_in_step(first, id, last),
                _ => false,
            },
            Form::Counter { at, to, radix } => {
                let value = |text: &str| counter(text, &self.first, at, to, radix);
                match (value(&self.first), value(id), value(&self.last)) {
                    (Some(first), Some(id), Some(last)) => (first..=last).contains(&id),
                    _ => false,
                }
            }
        }
    }

    /// Tells whether a number between the two lies as far from them as one of the line does: of plain numbers with an increment not each one does.
    fn is_in_step(&self, first: u128, id: u128, last: u128) -> bool {
        let steps = u128::from(self.count.saturating_sub(1));
        let step = (last - first).checked_div(steps).unwrap_or(1).max(1);
        (id - first).checked_rem(step) == Some(0)
    }

    /// Reads a line without its end; `None` if it is torn, or none of ours.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (crc, rest) = line.split_once('\t')?;
        if crc.len() != 8 || u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(rest.as_bytes()) {
            return None;
        }
        let mut fields = rest.split('\t');
        let mut field = || fields.next().and_then(unescaped);
        let (time, kind, name, caller) = (field()?, field()?, field()?, field()?);
        let (count, form, first, last) = (field()?.parse().ok()?, form(&field()?)?, field()?, field()?);
        fields.next().is_none().then_some(Self { time, kind, name, caller, count, form, first, last })
    }
}

fn form(text: &str) -> Option<Form> {
    match text {
        "number" => Some(Form::Number),
        "one" => Some(Form::One),
        _ => {
            let (span, radix) = text.split_once('/')?;
            let (at, to) = span.split_once('-')?;
            let radix = radix.parse().ok().filter(|radix| RADIXES.contains(radix))?;
            Some(Form::Counter { at: at.parse().ok()?, to: to.parse().ok()?, radix })
        }
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'\\'
}

fn escaped(text: &str, len_max: usize) -> Cow<'_, str> {
    let text = text.get(..text.floor_char_boundary(len_max)).unwrap_or(text);
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(byte.into());
        } else {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    Cow::Owned(out)
}

fn unescaped(text: &str) -> Option<String> {
    if !text.bytes().all(|byte| is_plain(byte) || byte == b'\\') {
        return None;
    }
    let mut parts = text.split('\\');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = (part.strip_prefix('x')?.get(..2)?, part.get(3..)?);
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Writes the lines of one call.
pub(super) struct Writer<'a> {
    head: String,
    out: &'a mut Vec<u8>,
    len_max: usize,
    line: String,
}

impl<'a> Writer<'a> {
    /// Lines of that call, behind what is in `out`, which then has at most `len_max` bytes.
    pub(super) fn new(call: &Call<'_>, out: &'a mut Vec<u8>, len_max: usize) -> Self {
        let caller = call.caller.to_string();
        let (time, kind, name) = (call.now.wall, call.kind, escaped(call.name, CALLER_LEN_MAX));
        let head = format!("{time}\t{kind}\t{name}\t{}", escaped(&caller, CALLER_LEN_MAX));
        Self { head, out, len_max, line: String::new() }
    }

    /// IDs that follow each other as numbers.
    ///
    /// # Errors
    /// No more room; then `out` may have a part of the call.
    pub(super) fn numbers(&mut self, first: &str, last: &str, count: u64) -> Result<(), Full> {
        self.write(first, last, count, Form::Number)
    }

    /// Texts: those that count up are one line.
    ///
    /// # Errors
    /// As [`numbers`](Self::numbers).
    pub(super) fn texts(&mut self, texts: &[String]) -> Result<(), Full> {
        let mut rest = texts;
        while let Some(first) = rest.first() {
            let (count, form) = counted(rest);
            let last = rest.get(count.saturating_sub(1)).unwrap_or(first);
            self.write(first, last, u64::try_from(count).unwrap_or(u64::MAX), form)?;
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    fn write(&mut self, first: &str, last: &str, count: u64, form: Form) -> Result<(), Full> {
        let (line, head) = (&mut self.line, &self.head);
        line.clear();
        let _ = match form {
            Form::Number => write!(line, "{head}\t{count}\tnumber"),
            Form::One => write!(line, "{head}\t{count}\tone"),
            Form::Counter { at, to, radix } => write!(line, "{head}\t{count}\t{at}-{to}/{radix}"),
        };
        let _ = write!(line, "\t{}\t{}", escaped(first, ID_LEN_MAX), escaped(last, ID_LEN_MAX));
        let crc = crc32c::crc32c(line.as_bytes());
        // The sum, a tab and the end of the line.
        if self.out.len() + line.len() + 10 > self.len_max {
            return Err(Full);
        }
        self.out.extend_from_slice(format!("{crc:08x}\t").as_bytes());
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
        Ok(())
    }
}

/// There is no room for a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Counts the first texts that count up, at least 1, and tells in which form they do.
fn counted(texts: &[String]) -> (usize, Form) {
    let ([first, second, ..], one) = (texts, (1, Form::One)) else { return (1, Form::One) };
    let differ = |a: &str, b: &str| a.len() == b.len() && a.is_ascii() && b.is_ascii();
    if !differ(first, second) {
        return one;
    }
    // The last digit of a counter changes with every step, and what is before it only grows to the left.
    let Some(last_digit) = first.bytes().zip(second.bytes()).rposition(|(a, b)| a != b) else { return one };
    let to = last_digit + 1;
    let mut best = one;
    for radix in RADIXES {
        let is_digit = |byte: &u8| char::from(*byte).is_digit(radix) && !byte.is_ascii_lowercase();
        let digits =
            first.as_bytes().get(..to).unwrap_or_default().iter().rev().take(DIGITS_MAX).take_while(|b| is_digit(b));
        let at = to - digits.count();
        let Some(start) = counter(first, first, at, to, radix) else { continue };
        let follows = |(place, text): &(u64, &String)| counter(text, first, at, to, radix) == start.checked_add(*place);
        let count = (0..).zip(texts).take_while(follows).count();
        if count > best.0 {
            best = (count, Form::Counter { at, to, radix });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::Caller;
    use common::kind::Kind;
    use common::time::{Now, WallMs};
    use proptest::prelude::*;

    fn call<'a>(caller: &'a str) -> Call<'a> {
        let now = Now { wall: WallMs(1_000), ..Now::default() };
        Call { kind: Kind::String, name: "orders", n: 1, caller: Caller::Label(caller), now }
    }

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<Line> {
        let mut out = Vec::new();
        write(&mut Writer::new(&call("me"), &mut out, 1 << 20));
        let text = String::from_utf8(out).unwrap();
        text.lines().map(|line| Line::parse(line.as_bytes()).unwrap()).collect()
    }

    fn of(texts: &[&str]) -> Vec<Line> {
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        written(|writer| writer.texts(&texts).unwrap())
    }

    #[test]
    fn numbers_are_a_range_and_read_back() {
        let lines = written(|writer| writer.numbers("98", "0102", 5).unwrap());
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((line.time.as_str(), line.kind.as_str()), ("1970-01-01T00:00:01.000Z", "string"));
        assert_eq!((line.name.as_str(), line.caller.as_str(), line.count), ("orders", "me", 5));
        for (id, is) in
            [("97", false), ("98", true), ("099", true), ("102", true), ("103", false), ("+99", false), ("", false)]
        {
            assert_eq!(line.contains(id), is, "{id}");
        }
        let huge = "9".repeat(60);
        assert!(!line.contains(&huge));
    }

    #[test]
    fn of_numbers_with_an_increment_only_those_are_among_a_line() {
        let mut line = of(&["7"]).remove(0);
        for (first, last, count, among, not) in [
            ("10", "30", 5, &["10", "15", "30"][..], &["11", "16", "31", "5"][..]),
            ("7", "9", 3, &["8"], &["10"]),
            ("7", "7", 1, &["7"], &["8"]),
        ] {
            line = Line { first: first.to_owned(), last: last.to_owned(), count, form: Form::Number, ..line };
            assert!(among.iter().all(|id| line.contains(id)) && !not.iter().any(|id| line.contains(id)), "{line:?}");
        }
    }

    #[test]
    fn texts_that_count_are_one_line_and_nothing_else_is_among_them() {
        let lines = of(&["D01T08AA", "D01T09AA", "D01T10AA", "D01T11AA"]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((line.count, line.form), (4, Form::Counter { at: 4, to: 6, radix: 10 }));
        for (id, is) in [
            ("D01T08AA", true),
            ("D01T10AA", true),
            ("D01T12AA", false),
            ("D01T07AA", false),
            ("D01T09AB", false),
            ("D02T09AA", false),
            ("D01T0AAA", false),
            ("D01T9AA", false),
            ("", false),
        ] {
            assert_eq!(line.contains(id), is, "{id}");
        }
        let letters = of(&["T0Y", "T0Z", "T10", "T11"]);
        assert_eq!((letters.len(), letters[0].count), (1, 4));
        assert!(letters[0].contains("T0Z") && !letters[0].contains("T0z"));
        // A check digit behind the counter: each text for itself, so a wrong check digit is not found.
        let checked = of(&["T017", "T025", "T033"]);
        assert!(checked.len() >= 2 && checked.iter().all(|line| !line.contains("T020")), "{checked:?}");
        for id in ["T017", "T025", "T033"] {
            assert_eq!(checked.iter().filter(|line| line.contains(id)).count(), 1, "{id}");
        }
        // Two runs of serials.
        assert_eq!(of(&["A8", "A9", "B0", "B1"]).iter().map(|line| line.count).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(of(&["A"]).len() + of(&[]).len(), 1);
    }

    #[test]
    fn torn_and_foreign_lines_are_none() {
        let mut out = Vec::new();
        Writer::new(&call("a\tb\\x\n\u{e4}"), &mut out, 1 << 20).numbers("1", "2", 2).unwrap();
        let line = out.strip_suffix(b"\n").unwrap();
        assert_eq!(Line::parse(line).unwrap().caller, "a\tb\\x\n\u{e4}");
        assert!(!line.contains(&b'\n') && line.is_ascii());
        for len in 0..line.len() {
            assert_eq!(Line::parse(&line[..len]), None, "{len}");
            let mut wrong = line.to_vec();
            wrong[len] ^= 1;
            assert_eq!(Line::parse(&wrong), None, "{len}");
        }
        assert_eq!(Line::parse(&[0xff; 40]), None);
        let long = "c".repeat(1_000);
        let ids = vec!["\u{1}".repeat(1_000)];
        let mut out = Vec::new();
        Writer::new(&call(&long), &mut out, 1 << 20).texts(&ids).unwrap();
        assert!(out.len() <= LINE_LEN_MAX && Line::parse(out.strip_suffix(b"\n").unwrap()).is_some());
        assert_eq!(Writer::new(&call("a"), &mut out, 100).numbers("1", "2", 2), Err(Full));
    }

    proptest! {
        #[test]
        fn every_text_is_in_exactly_one_line(
            texts in prop::collection::btree_set("[A-B]{0,1}[0-9A]{1,3}[A-B]{0,1}", 1..40),
        ) {
            let texts: Vec<_> = texts.into_iter().collect();
            let lines = written(|writer| writer.texts(&texts).unwrap());
            prop_assert_eq!(lines.iter().map(|line| line.count).sum::<u64>(), texts.len() as u64);
            for text in &texts {
                prop_assert_eq!(lines.iter().filter(|line| line.contains(text)).count(), 1, "{}", text);
            }
        }

        #[test]
        fn anything_is_parsed_without_a_panic(line in prop::collection::vec(any::<u8>(), 0..200), form_text in "[0-9/-]{0,12}") {
            let _ = Line::parse(&line);
            let rest = format!("t\tk\tn\tc\t1\t{form_text}\tA1\tA9");
            let line = format!("{:08x}\t{rest}", crc32c::crc32c(rest.as_bytes()));
            if let Some(line) = Line::parse(line.as_bytes()) {
                line.contains("A5");
            }
        }
    }
}
