//! Times and numbers as text. Pure: the time comes in.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::words::{Words, fill};
use common::time::{DAY_MS, HOUR_MS, SECOND_MS, WallMs};
use std::fmt;

const MINUTE_MS: i64 = 60 * SECOND_MS;

/// An instant as a page shows it: an element that says it to the eye, with the exact one in UTC behind it. The script puts
/// the viewer's own zone in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct When {
    machine: String,
    exact: String,
    /// `None`: the date itself.
    relative: Option<String>,
}

/// The unit to which a distance in time is told. A table of 200 rows that counts seconds would never be at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Seconds, from 3 s on: for heartbeats.
    Second,
    Minute,
}

impl When {
    /// Relative to `now`.
    pub(crate) fn new(instant: WallMs, now: WallMs, grain: Grain, w: &Words) -> Self {
        Self { relative: Some(relative(instant, now, grain, w)), ..Self::date(instant) }
    }

    pub(crate) fn date(instant: WallMs) -> Self {
        let machine = instant.to_string();
        let exact = match machine.get(..19).zip(machine.get(19..)) {
            Some((to_the_second, millis)) if millis.ends_with('Z') => {
                format!("{} UTC", to_the_second.replace('T', " "))
            }
            _ => machine.clone(),
        };
        Self { machine, exact, relative: None }
    }

    /// The instant for scripts, by RFC 3339.
    pub(crate) fn machine(&self) -> &str {
        &self.machine
    }

    /// The date and time in UTC, as text.
    pub(crate) fn exact(&self) -> &str {
        &self.exact
    }
}

/// Writes HTML: all of it is made of our own words and digits.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, exact, relative } = self;
        let (kind, text) = match relative {
            Some(relative) => ("relative", relative),
            None => ("date", exact),
        };
        write!(f, "<time datetime=\"{machine}\" title=\"{exact}\" data-as=\"{kind}\">{text}</time>")
    }
}

fn relative(instant: WallMs, now: WallMs, grain: Grain, w: &Words) -> String {
    let distance = (instant - now).0;
    let length = distance.saturating_abs();
    let smallest = match grain {
        Grain::Second => 3 * SECOND_MS,
        Grain::Minute => MINUTE_MS,
    };
    if length < smallest {
        return if distance <= 0 || grain == Grain::Second { w.just_now } else { w.under_a_minute }.to_owned();
    }
    fill(if distance < 0 { w.ago } else { w.ahead }, &[&span(length, w)])
}

/// A length in the two largest units that say something: `6 d 23 h`, `3 h 5 min`, `12 min`, `8 s`.
pub(crate) fn span(length_ms: i64, w: &Words) -> String {
    let (days, hours) = (length_ms / DAY_MS, length_ms % DAY_MS / HOUR_MS);
    let (minutes, seconds) = (length_ms % HOUR_MS / MINUTE_MS, length_ms % MINUTE_MS / SECOND_MS);
    let part = |unit: &str, n: i64| fill(unit, &[&grouped(n.unsigned_abs())]);
    match (days, hours, minutes) {
        (0, 0, 0) => part(w.seconds, seconds),
        (0, 0, _) => part(w.minutes, minutes),
        (0, _, 0) => part(w.hours, hours),
        (0, ..) => format!("{} {}", part(w.hours, hours), part(w.minutes, minutes)),
        (_, 0, _) => part(w.days, days),
        _ => format!("{} {}", part(w.days, days), part(w.hours, hours)),
    }
}

/// A difference of clocks: `+12 ms`, `−3.4 s`.
pub(crate) fn skew(ms: i64, w: &Words) -> String {
    let sign = match ms {
        0 => "",
        1.. => "+",
        _ => "\u{2212}",
    };
    let length = ms.unsigned_abs();
    match length {
        0..1_000 => format!("{sign}{length} ms"),
        1_000..60_000 => format!("{sign}{}.{} s", length / 1_000, length % 1_000 / 100),
        _ => format!("{sign}{}", span(i64::try_from(length).unwrap_or(i64::MAX), w)),
    }
}

/// A part of a whole in percent, never rounded up to all of it nor down to nothing: `99.9 %`.
pub(crate) fn percent(part: u64, of: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(of.max(1));
    match (tenths, part) {
        (1_000.., _) => "100 %".to_owned(),
        (0, 1..) => "< 0.1 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
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
    use crate::words::Lang;

    #[test]
    fn distances_read_in_their_two_largest_units() {
        let now = WallMs(1_000 * DAY_MS);
        let w = Lang::En.words();
        let at = |ms: i64, grain| relative(WallMs(now.0 + ms), now, grain, w);
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
        assert!(relative(WallMs(i64::MIN), WallMs(i64::MAX), Grain::Minute, w).ends_with("ago"));
    }

    #[test]
    fn the_exact_instant_stands_behind_the_relative_one() {
        let when = When::new(WallMs(1_790_000_000_123), WallMs(0), Grain::Minute, Lang::Zh.words());
        assert_eq!(
            when.to_string(),
            "<time datetime=\"2026-09-21T14:13:20.123Z\" title=\"2026-09-21 14:13:20 UTC\" data-as=\"relative\">\
             20,717 天 14 小时后</time>"
        );
        assert_eq!(When::date(WallMs(i64::MAX)).exact(), format!("{} ms", i64::MAX));
    }

    #[test]
    fn parts_never_lie() {
        let parts = [(0, 10), (1, 1 << 40), (999_999, 1_000_000), (1, 3), (7, 7), (0, 0)].map(|(p, of)| percent(p, of));
        assert_eq!(parts, ["0.0 %", "< 0.1 %", "99.9 %", "33.3 %", "100 %", "0.0 %"]);
    }

    #[test]
    fn numbers_and_skews() {
        assert_eq!(
            [0, 999, 1_000, 65_536, u64::MAX].map(grouped),
            ["0", "999", "1,000", "65,536", "18,446,744,073,709,551,615"]
        );
        assert_eq!(
            [0, 12, -12, 3_450, -75_000, i64::MIN].map(|ms| skew(ms, Lang::En.words())),
            ["0 ms", "+12 ms", "\u{2212}12 ms", "+3.4 s", "\u{2212}1 min", "\u{2212}106,751,991,167 d 7 h"]
        );
    }
}
