//! A proof that two templates never write the same string, as far as there is one.
//!
//! Strings of two lengths differ, and so do strings that have no character in common at some place. What a piece can
//! write at each of its places is known: the proof goes from place to place and takes the pieces for independent of each
//! other. That can only make it see more strings than there are: what it calls disjoint is, and what it cannot call so
//! may still be. For those an example is searched for, which both templates themselves read as theirs.

use super::date::YEARS;
use super::{Radix, Template, What};
use crate::token::TokenType;
use chrono::{Datelike as _, NaiveDate};

/// Examples that are tried for each pair of days.
const TRIES: usize = 64;
/// Days that examples are of, as year, month and day.
const DAYS: [(i32, u32, u32); 8] = [
    (2026, 11, 20),
    (2027, 1, 1),
    (2030, 10, 10),
    (2120, 12, 20),
    (2012, 2, 12),
    (2111, 11, 11),
    (1970, 1, 1),
    (2000, 10, 20),
];
const _: () = assert!(DAYS[0].0 >= *YEARS.start() && DAYS[0].0 <= *YEARS.end());

/// The strings that two templates have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// No string in common: that is proved.
    Disjoint,
    /// A string that both can write.
    Common(String),
    /// Perhaps some: it could not be proved that there is none.
    Unproved,
}

/// Printable ASCII characters, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chars(u128);

impl Chars {
    const NONE: Self = Self(0);

    pub(super) const fn one(byte: u8) -> Self {
        Self(1 << (byte & 0x7f))
    }

    pub(super) const fn range(first: u8, last: u8) -> Self {
        let (mut set, mut byte) = (0, first);
        while byte <= last {
            set |= Self::one(byte).0;
            byte += 1;
        }
        Self(set)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The characters, digits first.
    fn iter(self) -> impl Iterator<Item = u8> {
        (0..0x80).filter(move |byte| self.0 & Self::one(*byte).0 != 0)
    }
}

pub(super) const DIGITS: Chars = Chars::range(b'0', b'9');
const UPPER: Chars = Chars::range(b'A', b'Z');
const LOWER: Chars = Chars::range(b'a', b'z');

impl Template {
    /// The strings that this template, with tokens of `ours`, and another one can both write.
    pub fn overlap(&self, ours: TokenType, other: &Self, theirs: TokenType) -> Overlap {
        let common = intersection(&self.places(ours, None), &other.places(theirs, None));
        if common.is_none() {
            return Overlap::Disjoint;
        }
        match self.example(ours, other, theirs) {
            Some(example) => Overlap::Common(example),
            None => Overlap::Unproved,
        }
    }

    /// The characters that may stand at each place; with a day, only what that day's date has there.
    fn places(&self, token_type: TokenType, day: Option<NaiveDate>) -> Vec<Chars> {
        let mut places = Vec::with_capacity(self.len);
        for piece in &self.pieces {
            let any = match &piece.what {
                What::Literal(text) => {
                    places.extend(text.bytes().map(Chars::one));
                    continue;
                }
                What::Date(format) => {
                    match day {
                        None => format.places(&mut places),
                        Some(day) => {
                            let mut text = Vec::new();
                            format.write(day, &mut text);
                            places.extend(text.into_iter().map(Chars::one));
                        }
                    }
                    continue;
                }
                What::Biz | What::Custom => DIGITS.or(UPPER).or(LOWER),
                What::Token => match token_type {
                    TokenType::String2OnlyNumber | TokenType::String3OnlyNumber => DIGITS,
                    _ => DIGITS.or(UPPER),
                },
                What::Serial(serial) => match serial.radix {
                    Radix::Ten => DIGITS,
                    Radix::ThirtySix => DIGITS.or(UPPER),
                },
                What::Check(_) => DIGITS,
            };
            places.extend(piece.place.clone().map(|_| any));
        }
        places
    }

    /// A string that both read as theirs, if one is found soon.
    fn example(&self, ours: TokenType, other: &Self, theirs: TokenType) -> Option<String> {
        let days = DAYS.iter().filter_map(|(y, m, d)| NaiveDate::from_ymd_opt(*y, *m, *d)).filter(|day| day.year() > 0);
        let days: Vec<NaiveDate> = days.collect();
        let same = days.iter().map(|day| (Some(*day), Some(*day)));
        // A day that the other one's strings spell by chance is read as well.
        let either = days.iter().flat_map(|day| [(Some(*day), None), (None, Some(*day))]);
        let two = days.iter().flat_map(|one| days.iter().map(move |two| (Some(*one), Some(*two))));
        for (one, two) in same.chain(either).chain(two) {
            let (mine, its) = (self.places(ours, one), other.places(theirs, two));
            let Some(common) = intersection(&mine, &its) else { continue };
            let both = |text: &String| self.take_apart(text).is_ok() && other.take_apart(text).is_ok();
            let found = (0..TRIES).filter_map(|nth| self.candidate(other, &common, nth)).find(both);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The `nth` string with a common character at each place, and with this template's and the other's check digits.
    fn candidate(&self, other: &Self, common: &[Chars], nth: usize) -> Option<String> {
        let mut rest = nth;
        // The last places count on first, as a serial does.
        let mut text: Vec<u8> = Vec::with_capacity(common.len());
        for chars in common.iter().rev() {
            let count = chars.count().max(1);
            text.push(chars.iter().nth(rest % count)?);
            rest /= count;
        }
        text.reverse();
        for template in [self, other] {
            for piece in &template.pieces {
                if let What::Check(kind) = &piece.what
                    && let Some((covered, tail)) = text.split_at_mut_checked(piece.place.start)
                    && let Some(field) = tail.get_mut(..piece.place.len())
                {
                    kind.fill(covered, field);
                }
            }
        }
        String::from_utf8(text).ok()
    }
}

/// The characters that both have at each place; `None` if they have another length, or nothing in common at one of them.
fn intersection(one: &[Chars], other: &[Chars]) -> Option<Vec<Chars>> {
    if one.len() != other.len() {
        return None;
    }
    let both: Vec<Chars> = one.iter().zip(other).map(|(one, other)| one.and(*other)).collect();
    (!both.contains(&Chars::NONE)).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::super::{CallerParts, DEFAULT_TEMPLATE};
    use super::*;
    use crate::calendar::{DayBucket, UtcOffset};
    use crate::token::{TokenKey, TokenValue};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LETTERS: TokenType = TokenType::String2IncludeLetter;
    const NUMBERS: TokenType = TokenType::String2OnlyNumber;

    fn template(source: &str, token_type: TokenType) -> Template {
        Template::parse(source, token_type.family()).unwrap()
    }

    fn overlap(one: (&str, TokenType), other: (&str, TokenType)) -> Overlap {
        template(one.0, one.1).overlap(one.1, &template(other.0, other.1), other.1)
    }

    /// Pairs of which each is accepted alone.
    #[test]
    fn pairs_that_collide_are_found_with_a_string_that_both_write() {
        let plain = "{date:%Y%m%d}{token}{serial:8}";
        for (one, other) in [
            (plain, plain),
            (plain, "{date:%Y%m%d}{token}{serial:7}{check:luhn}"),
            (plain, "{date:%Y%m%d}{serial:8}{token}"),
            (plain, "{date:%Y%m%d}{token}{serial:8:36}"),
            (plain, "{date:%Y%m%d}{biz:2}{token}{serial:6}"),
            ("{date:%Y%m%d}{token}{serial:10}", "{date:%Y%j}{token}{serial:11}"),
            (DEFAULT_TEMPLATE, "{date:%Y%m%d}{token}{serial:12}{custom:2}"),
            ("{date:%F}{token}{serial:6}{check:mod97}", "{date:%Y}-{date:%m}-{date:%d}{token}{serial:8}"),
            ("ORD{date:%Y%m%d}{token}{serial:6}", "{custom:3}{date:%Y%m%d}{token}{serial:6}"),
        ] {
            let found = overlap((one, LETTERS), (other, LETTERS));
            let Overlap::Common(text) = &found else { panic!("{one} and {other}: {found:?}") };
            for source in [one, other] {
                assert!(template(source, LETTERS).take_apart(text).is_ok(), "{source} does not write {text}");
            }
            assert!(matches!(overlap((other, LETTERS), (one, LETTERS)), Overlap::Common(_)));
        }
    }

    #[test]
    fn what_tells_strings_apart_is_seen() {
        let plain = "{date:%Y%m%d}{token}{serial:8}";
        for (one, other) in [
            ((plain, LETTERS), ("{date:%Y%m%d}{token}{serial:9}", LETTERS)),
            ((plain, LETTERS), ("R{date:%Y%m%d}{token}{serial:7}", LETTERS)),
            ((plain, LETTERS), ("{date:%Y%m%d}{token}-{serial:7}", LETTERS)),
            (("a{date:%Y%m%d}{token}{serial:8}", LETTERS), ("A{date:%Y%m%d}{token}{serial:8}", LETTERS)),
            (("{date:%F}{token}{serial:8}", LETTERS), ("{date:%d.%m.%Y}{token}{serial:8}", LETTERS)),
            (("{date:%Y%m%d}{token}{serial:8}", NUMBERS), ("{date:%Y%m%d}X{token}{serial:7}", LETTERS)),
            (("{date:%Y}{date:%m%d}{token}{serial:8}", LETTERS), ("{date:%Y}9{serial:7}{token}{date:%j}x", LETTERS)),
            ((plain, LETTERS), ("0{date:%Y%m%d}{token}{serial:7}", LETTERS)),
        ] {
            assert_eq!(overlap(one, other), Overlap::Disjoint, "{one:?} and {other:?}");
            assert_eq!(overlap(other, one), Overlap::Disjoint, "{other:?} and {one:?}");
        }
    }

    #[test]
    fn a_template_is_broad_if_little_tells_its_strings_from_others() {
        for (source, broad) in [
            ("{date:%Y%m%d}{token}{serial:8:36}{custom:4}", Some((14, 22))),
            ("{custom:8}{date:%Y%m%d}{token}{serial:8:36}", Some((18, 26))),
            ("2{date:%Y%m%d}{token}{serial:8:36}{custom:4}", Some((14, 23))),
            ("{date:%Y%m%d}{token}{serial:3:36}{biz:4}", Some((9, 17))),
            ("{date:%Y%m%d}{token}{serial:3:36}{biz:3}", None),
            ("{date:%Y%m%d}{token}{serial:8:36}", None),
            ("{date:%Y%m%d}-{token}{serial:8:36}{custom:4}", None),
            ("R{date:%Y%m%d}{token}{serial:8:36}{custom:4}", None),
            ("{date:%Y%m%d}{token}{serial:8}", None),
            (DEFAULT_TEMPLATE, None),
        ] {
            assert_eq!(template(source, LETTERS).broad(), broad, "{source}");
        }
    }

    /// Every string of a small template: a few days, tokens and serials of one digit, the caller's part of few characters.
    fn all_of(template: &Template, token_type: TokenType) -> BTreeSet<Vec<u8>> {
        let tokens = (0..36 * 36).step_by(if token_type == NUMBERS { 1 } else { 37 });
        let keys = tokens.map(|value| TokenKey { family: token_type.family(), value: TokenValue(value) });
        let fits = |key: &TokenKey| token_type != NUMBERS || key.text().bytes().all(|b| b.is_ascii_digit());
        let mut all = BTreeSet::new();
        for key in keys.filter(fits).take(20) {
            for day in [15_384, 20_777, 40_492] {
                let bound = template.bind(UtcOffset::default(), DayBucket(day), key).unwrap();
                for part in ["0", "7", "X"] {
                    let caller = match template.biz_len() {
                        Some(len) => template.check_caller(Some(&part.repeat(len as usize)), None).unwrap(),
                        None => CallerParts::default(),
                    };
                    for serial in 0..template.capacity().min(36) {
                        let mut id = Vec::new();
                        bound.write(&caller, serial, &mut id);
                        all.insert(id);
                    }
                    if template.biz_len().is_none() {
                        break;
                    }
                }
            }
        }
        all
    }

    fn small() -> impl Strategy<Value = (String, TokenType)> {
        let date = prop::sample::select(vec!["{date:%Y%j}", "{date:%Y%m%d}", "{date:%j%Y}", "{date:%d}{date:%m%Y}"]);
        let serial = prop::sample::select(vec!["{serial:1}", "{serial:1:36}"]);
        let other = prop::sample::select(vec!["", "", "X", "7", "-", "{biz:1}", "{biz:2}"]);
        let check = prop::sample::select(vec!["", "", "{check:luhn}", "{check:mod97}"]);
        let kind = prop::sample::select(vec![LETTERS, NUMBERS]);
        (date, serial, other, check, kind).prop_flat_map(|(date, serial, other, check, kind)| {
            Just(vec![date, serial, other, "{token}"])
                .prop_shuffle()
                .prop_map(move |pieces| (pieces.concat() + check, kind))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// The oracle writes all strings of both; never are they called disjoint when it finds one in both.
        #[test]
        fn never_disjoint_when_a_string_is_in_both(one in small(), other in small()) {
            let (first, second) = (template(&one.0, one.1), template(&other.0, other.1));
            let found = first.overlap(one.1, &second, other.1);
            let (all, its) = (all_of(&first, one.1), all_of(&second, other.1));
            let common = all.intersection(&its).next().cloned();
            if let Some(common) = common {
                prop_assert_ne!(&found, &Overlap::Disjoint, "{:?} and {:?} both write {:?}", one, other, String::from_utf8(common));
            }
            if let Overlap::Common(text) = found {
                prop_assert!(first.take_apart(&text).is_ok() && second.take_apart(&text).is_ok());
            }
            // What is at each place is what was said to be there.
            let places = first.places(one.1, None);
            for id in all.iter().take(500) {
                prop_assert!(id.len() == places.len() && id.iter().zip(&places).all(|(b, chars)| chars.and(Chars::one(*b)) != Chars::NONE));
            }
        }
    }
}
