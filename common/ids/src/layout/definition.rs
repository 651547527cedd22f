//! Definitions of names of kind `layout`: a layout, how far it may run ahead of the clock, and how its numbers are written.

use super::{InvalidLayout, Layout, LayoutSpec, Mark, Part, Preset, Spread};
use crate::encoding::{Encoding, EncodingForm, EncodingSource, InvalidEncoding, Secrets, WrittenAs};
use crate::strategy::Strategies;
use crate::time::{HOUR_MS, SECOND_MS, SpanMs};
use crate::token::TokenType;
use std::sync::Arc;

/// The longest tick whose time is durable ahead of its use: after a restart a name goes on with the next one, so it may have to wait for it. In
/// longer ticks the serials are.
pub const TICK_MAX: SpanMs = SpanMs::seconds(10);
/// The longest tick without a calendar. It may begin at any time of the day, and a lease begins with a day: what of a tick lies before that is
/// not used, and an ID carries a tick that is at most so far ahead of the clock.
const LONG_TICK_MAX: SpanMs = SpanMs(HOUR_MS);
/// The furthest that a name may be told to run ahead of the clock.
pub const AHEAD_MAX_LIMIT: SpanMs = SpanMs::seconds(10);
/// Time that a name may run ahead of the clock when nothing else is said, or one tick if that is longer.
pub const AHEAD_MAX_DEFAULT: SpanMs = SpanMs(SECOND_MS);

/// See the module. Built only by checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayoutDefinition {
    layout: Layout,
    /// The name that it was asked for by.
    preset: Option<Preset>,
    ahead_max: SpanMs,
    spread: Spread,
    written: WrittenAs,
}

/// The reason why there is no such definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDefinition {
    /// The layout is refused.
    #[error("the layout cannot be taken: {0}")]
    Layout(#[from] InvalidLayout),
    /// The encoding is refused.
    #[error("the encoding cannot be taken: {0}")]
    Encoding(#[from] InvalidEncoding),
    /// A tick longer than the longest that there may be.
    #[error("a unit of {unit_ms} ms is too long: at most {max}, or a calendar by the day", max = LONG_TICK_MAX.0)]
    TickTooLong {
        /// The unit.
        unit_ms: i64,
    },
    /// A part of a definition that goes with ticks of at most [`TICK_MAX`].
    #[error("{0} is for ticks of at most {max} ms, and the serials of longer ones go on from tick to tick: leave it out", max = TICK_MAX.0)]
    OnlyShortTicks(&'static str),
    /// A spread of more serials than a tick can spare, or of fewer than two.
    #[error(
        "a spread of {spread} does not fit: 2 to {max}, at most half of the IDs that a token has in a tick, and no more than the lowest bits of the serial count, or leave it out"
    )]
    Spread {
        /// The spread that was asked for.
        spread: u32,
        /// The largest that fits.
        max: u64,
    },
    /// A spread where other bits than the serial's are the lowest.
    #[error("the lowest bits of this layout are those of {0}, and a spread is of the serial: leave it out")]
    SpreadOf(Part),
    /// Further ahead than [`AHEAD_MAX_LIMIT`].
    #[error("an ahead_max_ms of {0} is too far: 0 to {max}", max = AHEAD_MAX_LIMIT.0)]
    TooFarAhead(u32),
}

impl LayoutDefinition {
    /// The definition as it was said, with all that is left out as the layout has it.
    ///
    /// # Errors
    /// [`InvalidDefinition`], with the reason.
    pub fn new(said: &LayoutSpec) -> Result<Self, InvalidDefinition> {
        let layout = Layout::of(said)?;
        if layout.unit() > LONG_TICK_MAX && layout.calendar().is_none() {
            return Err(InvalidDefinition::TickTooLong { unit_ms: layout.unit().0 });
        }
        let has_short_ticks = layout.mark() == Mark::Time;
        for (what, is_said) in [("ahead_max_ms", said.ahead_max_ms.is_some()), ("spread", said.spread.is_some())] {
            if is_said && !has_short_ticks {
                return Err(InvalidDefinition::OnlyShortTicks(what));
            }
        }
        let ahead_max = match said.ahead_max_ms {
            _ if !has_short_ticks => SpanMs(0),
            Some(ms) if SpanMs(ms.into()) > AHEAD_MAX_LIMIT => return Err(InvalidDefinition::TooFarAhead(ms)),
            Some(ms) => SpanMs(ms.into()),
            None => AHEAD_MAX_DEFAULT.max(layout.unit()),
        };
        let preset = match &said.layout {
            Some(name) => Some(name.parse()?),
            None => Preset::of(&layout),
        };
        let own = || preset.map(Preset::encoding).unwrap_or_default();
        let encoding = said.encoding.clone().unwrap_or_else(own);
        // Records of other encodings are as they were written.
        let encoding = if encoding.form() == EncodingForm::Strategy { encoding.shortened() } else { encoding };
        let written = WrittenAs::new(encoding, layout.bits())?;
        let spread = said.spread.map(|places| Spread::new(places, &layout)).transpose()?.unwrap_or_default();
        Ok(Self { layout, preset, ahead_max, spread, written })
    }

    /// The definition of a kind's own numbers, with nothing that a person said.
    pub(crate) fn of_kind(layout: Layout, ahead_max: SpanMs) -> Self {
        let (spread, written) = (Spread::default(), WrittenAs::decimal(layout.bits()));
        Self { layout, preset: None, ahead_max, spread, written }
    }

    /// Places where the serials of a tick begin.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The preset that it is but for its epoch, if it is one.
    pub fn preset(&self) -> Option<Preset> {
        self.preset
    }

    /// The type of token that it needs when nothing else is said: the widest one whose values it can write.
    pub fn token_type(&self) -> TokenType {
        // Of fewer than 5 bits there is no type of its own: such a layout goes with the small values of the narrowest one.
        TokenType::fitting(self.layout.token_bits()).unwrap_or(TokenType::Uint5Bit)
    }

    /// The time by which an ID may lie ahead of the clock when short ticks are used up; 0: minting waits for the clock.
    pub fn ahead_max(&self) -> SpanMs {
        self.ahead_max
    }

    /// The encoding of its numbers when nobody asks for another form.
    pub fn encoding(&self) -> &EncodingSource {
        self.written.source()
    }

    /// The most IDs that one request can get without waiting for the clock: those of the ticks that may lie ahead of it, less what is
    /// passed over of the first one.
    pub fn batch_max(&self) -> u64 {
        let ticks = u64::try_from(self.ahead_max.0 / self.layout.unit().0.max(1)).unwrap_or(0) + 1;
        self.layout.serials_per_tick().saturating_mul(ticks) - self.spread.passed_over()
    }

    /// Tells whether both give the same numbers, however they were asked for.
    pub fn same_ids(&self, other: &Self) -> bool {
        Self { preset: None, ..self.clone() } == Self { preset: None, ..other.clone() }
    }

    /// A number in its own encoding; `None` if that needs a key or a strategy.
    pub fn text(&self, number: u128) -> Option<String> {
        self.written_by(Secrets::NONE, Strategies::NONE).ok()?.text(number)
    }

    /// Its encoding, to write with and to read by: built once for all copies of this definition, but for `ff1`, which only those
    /// get who have its secret.
    ///
    /// # Errors
    /// [`InvalidEncoding::OtherKey`] of `ff1`, [`InvalidEncoding::Strategy`] of a strategy that is not among these or does not
    /// take the definition; all else was checked when the definition was made.
    pub fn written_by(&self, secrets: &Secrets, strategies: &Strategies) -> Result<Arc<Encoding>, InvalidEncoding> {
        self.written.encoding(secrets, |source| Encoding::by_strategy(source, &self.layout, strategies))
    }

    /// The same, as its name has it.
    pub(crate) fn written(&self) -> &WrittenAs {
        &self.written
    }

    /// The definition as a person says it, with nothing left out but token type, scope and plugins: the preset and its epoch, or all of the
    /// layout.
    pub fn spec(&self) -> LayoutSpec {
        let said = self.checked();
        match self.preset {
            Some(preset) => {
                LayoutSpec { layout: Some(preset.name().to_owned()), bits: None, unit_ms: None, fields: None, ..said }
            }
            None => said,
        }
    }

    /// The name that people call it by: the preset, or its fields.
    pub fn title(&self) -> String {
        match self.preset {
            Some(preset) => preset.name().to_owned(),
            None => self.layout.fields().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        }
    }

    /// The parts of it that say which IDs come: not by which name it was asked for. Checksums are of its text.
    pub(crate) fn checked(&self) -> LayoutSpec {
        LayoutSpec {
            ahead_max_ms: u32::try_from(self.ahead_max.0).ok().filter(|_| self.layout.mark() == Mark::Time),
            spread: self.spread.places(),
            encoding: Some(self.encoding().clone()),
            ..self.layout.spec()
        }
    }
}

impl Preset {
    /// A number as the preset's own encoding writes it, if no form that every layout has does.
    pub fn own_text(self, number: u128) -> Option<String> {
        let bits = self.layout().ok()?.bits();
        let own = self.encoding();
        let known = [EncodingForm::Decimal, EncodingForm::Hex, EncodingForm::Base32, EncodingForm::Uuid]
            .map(EncodingSource::Name);
        if known.contains(&own) {
            return None;
        }
        Encoding::of(&own, bits, None, &[]).ok()?.text(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> LayoutDefinition {
        LayoutDefinition::new(&LayoutSpec::of(name)).unwrap()
    }

    #[test]
    fn what_is_left_out_is_as_the_layout_has_it() {
        let snowflake = of("snowflake");
        assert_eq!(snowflake.ahead_max(), SpanMs(1_000));
        assert_eq!(snowflake.batch_max(), 1_001 * 4_096);
        let text = |name, number| of(name).text(number).unwrap();
        assert_eq!(text("uuid7", 0), "00000000-0000-0000-0000-000000000000");
        assert_eq!(text("ulid", u128::MAX).len(), 26);
        assert_eq!(text("snowflake", 1 << 22), "4194304");
    }

    #[test]
    fn two_presets_of_one_layout_give_the_same_ids() {
        let [leaf, snowflake] = ["leaf", "snowflake"].map(of);
        assert!(leaf != snowflake && leaf.same_ids(&snowflake) && leaf.checked() == snowflake.checked());
    }

    #[test]
    fn a_spread_is_even_whatever_lies_between_ticks() {
        let spread = |name, spread| LayoutDefinition::new(&LayoutSpec { spread: Some(spread), ..LayoutSpec::of(name) });
        let definition = spread("snowflake", 16).unwrap();
        assert_eq!(definition.batch_max(), 1_001 * 4_096 - 15);
        assert!(!definition.same_ids(&of("snowflake")));
        // One tick after the other, ten and two a second, and every minute.
        for between in [1, 100, 500, 60_000] {
            let mut counts = [0u32; 16];
            (0..16_000).for_each(|nth| counts[definition.spread().first_serial(nth * between + 7) as usize] += 1);
            assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{between}: {counts:?}");
        }
        for (name, of, said) in [
            ("snowflake", 1, "2 to 2048"),
            ("snowflake", 2_049, "2 to 2048"),
            ("sonyflake", 16, "are those of token"),
            ("ulid", 16, "are those of random"),
        ] {
            let refusal = spread(name, of).unwrap_err().to_string();
            assert!(refusal.contains(said), "{refusal}");
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let custom = |unit_ms, fields: &[&str]| LayoutSpec {
            bits: Some(64),
            epoch: Some("2024-01-01T00:00:00Z".to_owned()),
            unit_ms: Some(unit_ms),
            fields: Some(fields.iter().map(ToString::to_string).collect()),
            ..LayoutSpec::default()
        };
        let leaf = || LayoutSpec::of("leaf");
        let fields = ["zero:1", "time:25", "token:16", "serial:22"];
        for (refused, said) in [
            (custom(7_200_000, &fields), "at most 3600000, or a calendar"),
            (
                LayoutSpec { ahead_max_ms: Some(0), ..custom(3_600_000, &fields) },
                "ahead_max_ms is for ticks of at most 10000 ms",
            ),
            (LayoutSpec { spread: Some(16), ..custom(3_600_000, &fields) }, "spread is for ticks of at most 10000 ms"),
            (LayoutSpec { ahead_max_ms: Some(10_001), ..leaf() }, "0 to 10000"),
            (LayoutSpec { encoding: Some(EncodingSource::Name(EncodingForm::Uuid)), ..leaf() }, "a uuid has 128 bits"),
        ] {
            let refusal = LayoutDefinition::new(&refused).unwrap_err().to_string();
            assert!(refusal.contains(said), "{refusal}");
        }
    }
}
