//! How times and numbers read. Pure: what time it is comes in.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::time::{DAY_MS, HOUR_MS, SECOND_MS, WallMs};

const MINUTE_MS: i64 = 60 * SECOND_MS;

/// An instant as the page shows it: relative, with the exact one behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct When {
    /// For the machine: RFC 3339.
    pub(crate) machine: String,
    /// For the hover: the same in UTC, to the second.
    pub(crate) exact: String,
    /// For the eye: `in 6 d 23 h`.
    pub(crate) relative: String,
}

/// How finely a distance in time is told. A table of 200 rows that counts seconds would never be at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// To the second, from 3 s on: heartbeats.
    Second,
    /// To the minute.
    Minute,
}

impl When {
    pub(crate) fn new(instant: WallMs, now: WallMs, grain: Grain) -> Self {
        let machine = instant.to_string();
        let exact = match machine.get(..19).zip(machine.get(19..)) {
            Some((to_the_second, millis)) if millis.ends_with('Z') => {
                format!("{} UTC", to_the_second.replace('T', " "))
            }
            _ => machine.clone(),
        };
        Self { machine, exact, relative: relative(instant, now, grain) }
    }
}

fn relative(instant: WallMs, now: WallMs, grain: Grain) -> String {
    let distance = (instant - now).0;
    let length = distance.saturating_abs();
    let smallest = match grain {
        Grain::Second => 3 * SECOND_MS,
        Grain::Minute => MINUTE_MS,
    };
    if length < smallest {
        return if distance <= 0 || grain == Grain::Second { "just now" } else { "in under a minute" }.to_owned();
    }
    let length = span(length);
    if distance < 0 { format!("{length} ago") } else { format!("in {length}") }
}

/// A length in the two largest units that say something: `6 d 23 h`, `3 h 5 min`, `12 min`, `8 s`.
fn span(length_ms: i64) -> String {
    let (days, hours) = (length_ms / DAY_MS, length_ms % DAY_MS / HOUR_MS);
    let (minutes, seconds) = (length_ms % HOUR_MS / MINUTE_MS, length_ms % MINUTE_MS / SECOND_MS);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, 0) => format!("{hours} h"),
        (0, ..) => format!("{hours} h {minutes} min"),
        (_, 0, _) => format!("{} d", grouped(days.unsigned_abs())),
        _ => format!("{} d {hours} h", grouped(days.unsigned_abs())),
    }
}

/// A difference of clocks: `+12 ms`, `−3.4 s`.
pub(crate) fn skew(ms: i64) -> String {
    let sign = match ms {
        0 => "",
        1.. => "+",
        _ => "\u{2212}",
    };
    let length = ms.unsigned_abs();
    match length {
        0..1_000 => format!("{sign}{length} ms"),
        1_000..60_000 => format!("{sign}{}.{} s", length / 1_000, length % 1_000 / 100),
        _ => format!("{sign}{}", span(i64::try_from(length).unwrap_or(i64::MAX))),
    }
}

/// A number with its thousands apart: `65,536`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_read_in_their_two_largest_units() {
        let now = WallMs(1_000 * DAY_MS);
        let at = |ms: i64, grain| relative(WallMs(now.0 + ms), now, grain);
        for (ms, text) in [
            (0, "just now"),
            (-59_999, "just now"),
            (59_999, "in under a minute"),
            (-MINUTE_MS, "1 min ago"),
            (3 * HOUR_MS, "in 3 h"),
            (3 * HOUR_MS + 5 * MINUTE_MS, "in 3 h 5 min"),
            (7 * DAY_MS - 1, "in 6 d 23 h"),
            (7 * DAY_MS, "in 7 d"),
            (-400 * DAY_MS, "400 d ago"),
        ] {
            assert_eq!(at(ms, Grain::Minute), text);
        }
        assert_eq!(at(-2_999, Grain::Second), "just now");
        assert_eq!(at(-8_000, Grain::Second), "8 s ago");
        assert!(relative(WallMs(i64::MIN), WallMs(i64::MAX), Grain::Minute).ends_with("ago"));
    }

    #[test]
    fn the_exact_instant_stands_behind_the_relative_one() {
        let when = When::new(WallMs(1_790_000_000_123), WallMs(0), Grain::Minute);
        assert_eq!(
            (when.machine.as_str(), when.exact.as_str()),
            ("2026-09-21T14:13:20.123Z", "2026-09-21 14:13:20 UTC")
        );
        assert_eq!(When::new(WallMs(i64::MAX), WallMs(0), Grain::Minute).exact, format!("{} ms", i64::MAX));
    }

    #[test]
    fn numbers_and_skews() {
        assert_eq!(
            [0, 999, 1_000, 65_536, u64::MAX].map(grouped),
            ["0", "999", "1,000", "65,536", "18,446,744,073,709,551,615"]
        );
        assert_eq!(
            [0, 12, -12, 3_450, -75_000, i64::MIN].map(skew),
            ["0 ms", "+12 ms", "\u{2212}12 ms", "+3.4 s", "\u{2212}1 min", "\u{2212}106,751,991,167 d 7 h"]
        );
    }
}
