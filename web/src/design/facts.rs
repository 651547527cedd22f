//! Facts about a layout: how many IDs, agents and years it gives, and where its numbers fit.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::calendar::UtcOffset;
use common::encoding::{Encoding, EncodingForm, EncodingSource};
use common::layout::{Layout, LayoutSpec, Preset};
use common::namespace::Definition;
use common::time::{SpanMs, WallMs};
use common::token::TokenValue;
use serde::Serialize;

/// The token of an example.
const EXAMPLE_TOKEN: TokenValue = TokenValue(1);
/// Agents below which a layout gets a warning.
const AGENTS_FEW: u64 = 16;
/// IDs a second of an agent below which a layout gets a warning.
const RATE_SLOW: u64 = 1_000;
/// Time until its end below which a layout gets a warning.
const LIFE_SHORT: SpanMs = SpanMs::days(10 * 365);
/// Bits of a signed integer of a database.
const BIGINT_BITS: u32 = 63;
const UUID_BITS: u32 = 128;

/// A field, and the bits it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct FieldRow {
    /// The field as definitions say it: `time:41`.
    pub(crate) field: String,
    /// `zero`, `const`, `time`, `token`, `serial` or `random`.
    pub(crate) part: String,
    /// The number of its bits.
    pub(crate) bits: u32,
    /// Its highest bit, counted from 0.
    pub(crate) high: u32,
    /// Its lowest bit.
    pub(crate) low: u32,
}

/// An ID of now, of token 1, with the serial 0, in several forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct Example {
    /// The number.
    pub(crate) decimal: String,
    /// 0-9 a-f, of fixed length.
    pub(crate) hex: String,
    /// Crockford's alphabet, of fixed length.
    pub(crate) base32: String,
    /// The number as RFC 9562 writes it; `null` unless it has 128 bits.
    pub(crate) uuid: Option<String>,
    /// The text as the definition's `encoding` writes it, where it has one, or as its preset does, where that is none of these forms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

/// A warning that is worth knowing before a layout is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Warning {
    /// A later number may be smaller.
    NotSorted,
    /// JavaScript and what reads JSON like it would round its numbers.
    NotForJavascript,
    /// Some do not fit a signed integer of 64 bits.
    NotForBigint,
    /// Few tokens.
    FewAgents,
    /// Few IDs a second.
    Slow,
    /// The time ends within ten years.
    EndsEarly,
}

/// All that there is to say of a layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct Facts {
    /// The definition that a name is registered with.
    pub(crate) definition: Definition,
    /// The preset that it is, perhaps with another epoch; `null` if it is none.
    pub(crate) preset: Option<&'static str>,
    /// The width of its numbers, in bits.
    pub(crate) bits: u32,
    /// The instant at which its time begins, RFC 3339.
    pub(crate) epoch: String,
    /// The length of a tick.
    pub(crate) unit_ms: i64,
    /// The most significant first.
    pub(crate) fields: Vec<FieldRow>,
    /// The number of agents that can mint it at once.
    pub(crate) agents: u64,
    /// IDs that an agent has in a tick.
    pub(crate) per_tick: u64,
    /// IDs that an agent has in a second.
    pub(crate) per_second: u64,
    /// IDs that all agents have in a second; 2^64 - 1 if it is more.
    pub(crate) per_second_all: u64,
    /// The last day on which its time fits, in UTC.
    pub(crate) last_day: String,
    /// True if a larger number is never an earlier tick.
    pub(crate) sorts_by_time: bool,
    /// True if all numbers are below 2^53.
    pub(crate) safe_for_javascript: bool,
    /// True if all numbers are below 2^63.
    pub(crate) fits_bigint: bool,
    /// `null` if its time has not come or is over.
    pub(crate) example: Option<Example>,
    /// The warnings.
    pub(crate) warnings: Vec<Warning>,
}

/// The number of now, of token 1, with the serial 0; `None` if its time has not come or is over.
pub(crate) fn example_of(layout: &Layout, now: WallMs) -> Option<u128> {
    let prefix = layout.prefix(layout.tick(now)?, EXAMPLE_TOKEN)?;
    Some(layout.fill(prefix, 0, 0))
}

/// The largest number that there is.
fn largest(layout: &Layout) -> Option<u128> {
    let last = layout.tick(layout.end() + SpanMs(-1))?;
    let token = TokenValue(u32::try_from(layout.tokens() - 1).ok()?);
    Some(layout.fill(layout.prefix(last, token)?, u32::MAX, u128::MAX))
}

impl Example {
    fn new(number: u128, bits: u32, preset: Option<Preset>, encoding: Option<&EncodingSource>) -> Self {
        let text = |encoding: &EncodingSource| Encoding::of(encoding, bits, None, b"").ok()?.text(number);
        let known = |form| text(&EncodingSource::Name(form)).unwrap_or_default();
        Self {
            decimal: known(EncodingForm::Decimal),
            hex: known(EncodingForm::Hex),
            base32: known(EncodingForm::Base32),
            uuid: if bits == UUID_BITS { text(&EncodingSource::Name(EncodingForm::Uuid)) } else { None },
            // That of a preset which writes as no other form does.
            text: encoding.map_or_else(|| preset?.own_text(number), text),
        }
    }
}

impl Facts {
    /// The facts of a layout that is this preset, if it is one, in names of which this is said.
    pub(crate) fn new(layout: &Layout, preset: Option<Preset>, said: LayoutSpec, now: WallMs) -> Self {
        let mut above = layout.bits();
        let fields = layout.fields().iter().map(|field| {
            let high = above.saturating_sub(1);
            above = above.saturating_sub(field.bits);
            FieldRow { field: field.to_string(), part: field.part.to_string(), bits: field.bits, high, low: above }
        });
        let fields = fields.collect();
        let (agents, per_second) = (layout.tokens(), layout.serials_per_second());
        let fits_bigint = largest(layout).is_some_and(|largest| largest >> BIGINT_BITS == 0);
        let (sorts_by_time, safe_for_javascript) = (layout.sorts_by_time(), layout.is_safe_for_javascript());
        // A number of more than 64 bits is kept as a text or as bytes anyway.
        let is_integer = layout.bits() <= u64::BITS;
        let warnings = [
            (Warning::NotSorted, !sorts_by_time),
            (Warning::NotForJavascript, is_integer && !safe_for_javascript),
            (Warning::NotForBigint, is_integer && !fits_bigint),
            (Warning::FewAgents, agents < AGENTS_FEW),
            (Warning::Slow, per_second < RATE_SLOW),
            (Warning::EndsEarly, layout.end() - now < LIFE_SHORT),
        ];
        Self {
            preset: preset.map(Preset::name),
            bits: layout.bits(),
            epoch: layout.epoch().to_string(),
            unit_ms: layout.unit().0,
            fields,
            agents,
            per_tick: layout.serials_per_tick(),
            per_second,
            per_second_all: agents.saturating_mul(per_second),
            last_day: UtcOffset::default().day_text(layout.end() + SpanMs(-1)),
            sorts_by_time,
            safe_for_javascript,
            fits_bigint,
            example: example_of(layout, now)
                .map(|number| Example::new(number, layout.bits(), preset, said.encoding.as_ref())),
            definition: Definition::Layout(said),
            warnings: warnings.into_iter().filter(|(_, holds)| *holds).map(|(warning, _)| warning).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::layout::Field;

    /// 2026-11-20T13:05:06Z.
    const NOW: WallMs = WallMs(1_795_179_906_000);

    fn facts(preset: Preset) -> Facts {
        Facts::new(&preset.layout().unwrap(), Some(preset), LayoutSpec::default(), NOW)
    }

    fn own(bits: u32, fields: &[&str]) -> Facts {
        let fields = fields.iter().map(|field| field.parse::<Field>().unwrap()).collect();
        Facts::new(&Layout::new(bits, WallMs(1_704_067_200_000), 1, fields).unwrap(), None, LayoutSpec::default(), NOW)
    }

    #[test]
    fn a_snowflake_is_what_it_always_was() {
        let facts = facts(Preset::Snowflake);
        assert_eq!((facts.agents, facts.per_second, facts.per_second_all), (1_024, 4_096_000, 4_194_304_000));
        assert_eq!((facts.last_day.as_str(), facts.per_tick), ("2080-07-10", 4_096));
        assert_eq!((facts.sorts_by_time, facts.safe_for_javascript, facts.fits_bigint), (true, false, true));
        assert_eq!(facts.warnings, [Warning::NotForJavascript]);
        let example = facts.example.unwrap();
        let number: u128 = example.decimal.parse().unwrap();
        let parts = Preset::Snowflake.layout().unwrap().parts(number).unwrap();
        assert_eq!((parts.time, parts.token, parts.serial), (NOW, TokenValue(1), 0));
        assert_eq!((example.hex.as_str(), example.uuid), (format!("{number:016x}").as_str(), None));
        let spans: Vec<_> = facts.fields.iter().map(|row| (row.part.as_str(), row.high, row.low)).collect();
        assert_eq!(spans, [("zero", 63, 63), ("time", 62, 22), ("token", 21, 12), ("serial", 11, 0)]);
    }

    #[test]
    fn wide_numbers_are_written_as_uuids_and_reach_far_beyond_the_calendar() {
        let facts = facts(Preset::Uuid7);
        let example = facts.example.unwrap();
        assert!(example.uuid.as_deref().unwrap().starts_with("01a"), "{example:?}");
        assert_eq!(example.uuid.unwrap().replace('-', ""), example.hex);
        assert_eq!((facts.last_day.as_str(), example.base32.len()), ("10889-08-02", 26));
        assert!(facts.warnings.is_empty() && !facts.fits_bigint, "{:?}", facts.warnings);
    }

    #[test]
    fn where_numbers_fit_and_what_is_worth_a_word() {
        let js = facts(Preset::Js53);
        assert!(js.safe_for_javascript && js.fits_bigint && js.warnings.is_empty());
        let unsigned = facts(Preset::Instagram);
        assert_eq!(unsigned.warnings, [Warning::NotForJavascript, Warning::NotForBigint]);
        let set = own(64, &["const:1=1", "time:41", "token:10", "serial:12"]);
        assert!(!set.fits_bigint && set.sorts_by_time);
        let mixed = own(63, &["token:3", "time:40", "random:18", "serial:2"]);
        assert_eq!(mixed.warnings, [Warning::NotSorted, Warning::NotForJavascript, Warning::FewAgents]);
        let over = facts(Preset::UidGenerator);
        assert_eq!((over.example, over.last_day.as_str()), (None, "2024-11-20"));
        assert!(over.warnings.contains(&Warning::EndsEarly));
        let slow = own(53, &["time:45", "token:7", "serial:1"]);
        assert_eq!(slow.per_second, 2_000);
        let huge = own(128, &["time:48", "token:32", "serial:32", "random:16"]);
        assert_eq!(huge.per_second_all, u64::MAX, "more than can be said");
    }

    #[test]
    fn definitions_are_as_agents_take_them() {
        let json = |layout: &Layout, preset| {
            serde_json::to_string(&Definition::Layout(crate::design::definition_of(layout, preset))).unwrap()
        };
        let snowflake = Preset::Snowflake.layout().unwrap();
        assert_eq!(json(&snowflake, Some(Preset::Snowflake)), r#"{"kind":"layout","layout":"snowflake"}"#);
        let later = Layout::new(64, WallMs(1_704_067_200_000), 1, snowflake.fields().to_vec()).unwrap();
        assert_eq!(
            json(&later, Some(Preset::Snowflake)),
            r#"{"kind":"layout","layout":"snowflake","epoch":"2024-01-01T00:00:00.000Z"}"#
        );
        assert_eq!(
            json(&later, None),
            r#"{"kind":"layout","bits":64,"epoch":"2024-01-01T00:00:00.000Z","unit_ms":1,"fields":["zero:1","time:41","token:10","serial:12"]}"#
        );
    }
}
