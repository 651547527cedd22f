//! The result of a definition: examples, IDs a day, the last day.

use super::{Definition, GeneratorName, Namespace, Of};
use crate::calendar::UtcOffset;
use crate::encoding::{DECIMAL64, Secrets};
use crate::kind::{Bucket, Form};
use crate::strategy::Strategies;
use crate::template::YEARS;
use crate::time::{DAY_MS, HOUR_MS, SpanMs, WallMs};
use crate::token::{TokenKey, TokenValue};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Tokens of examples: as characters `12` and `13`, which every type of string has.
const TEXT_TOKENS: [TokenValue; 2] = [TokenValue(38), TokenValue(39)];
/// Tokens of layouts, which may have few bits for them.
const LAYOUT_TOKENS: [TokenValue; 2] = [TokenValue(1), TokenValue(2)];
/// The first serial of examples, where there are so many.
const SERIAL: u32 = 42;
/// Number of examples.
const EXAMPLES: usize = 3;

/// The result of a definition that was made or tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Preview {
    /// The name.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: GeneratorName,
    /// The definition with nothing left out.
    pub definition: Definition,
    /// Three IDs of now, the first two of one agent; none where whoever answers lacks the secret or the strategy to write them.
    pub examples: Vec<String>,
    /// Number of IDs that one token gives in the unit of time; of plain numbers how many there are, of a sequence its last number.
    pub capacity: u64,
    /// The unit of time: `hour`, `day`, `tick` or `ever`.
    pub per: String,
    /// Number of IDs that one token gives in a day.
    #[serde(default, with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub per_day: Option<u64>,
    /// The last day that its IDs can carry: by the cluster's offset, of a layout in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_day: Option<String>,
    /// Only of a sequence of 32 bits: numbers that a key is given in an hour at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_per_hour: Option<u64>,
    /// Only of a sequence of 32 bits: those that one caller is given at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_per_hour_by_caller: Option<u64>,
    /// True if the name was free.
    #[serde(rename = "new")]
    pub is_new: bool,
    /// A warning, if whoever answers does not lease the name's type of token or serve its set, or one caller can use up within a day what all have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The time and the means by which a definition is tried.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The time of the examples.
    pub now: WallMs,
    /// The cluster's UTC offset.
    pub offset: UtcOffset,
    /// The secrets that are known there.
    pub secrets: &'a Secrets,
    /// The strategies that are known there.
    pub strategies: &'a Strategies,
}

impl At<'static> {
    /// A place with neither secrets nor strategies, as a master is.
    pub const fn keyless(now: WallMs, offset: UtcOffset) -> Self {
        Self { now, offset, secrets: Secrets::NONE, strategies: Strategies::NONE }
    }
}

impl Namespace {
    /// The result of its definition.
    pub fn preview(&self, at: &At<'_>) -> Preview {
        Preview {
            name: self.name.clone(),
            definition: self.definition(),
            examples: self.examples(at),
            capacity: self.capacity(),
            per: self.kind().spec().unit.name().to_owned(),
            per_day: self.per_day(),
            last_day: self.end(at.offset).map(|end| {
                // Ticks are read by those who know of no offset.
                let is_utc = self.numbers().is_some_and(|numbers| numbers.layout().calendar().is_none());
                let offset = if is_utc { UtcOffset::default() } else { at.offset };
                offset.day_text(end + SpanMs(-1))
            }),
            key_per_hour: self.sequences().and_then(|definition| definition.width().per_hour()),
            key_per_hour_by_caller: None,
            is_new: false,
            warning: self.used_up_in_a_day(),
        }
    }

    /// IDs as it writes them, of two tokens; the caller's parts are letters.
    pub fn examples(&self, at: &At<'_>) -> Vec<String> {
        let [one, other] = match &self.of {
            Of::Segment(definition) => {
                let places = (definition.axis().from..definition.axis().to).take(EXAMPLES);
                return self.texts(at, places.map(|place| definition.number(place)));
            }
            Of::Sequence(definition) => {
                return self.texts(at, (definition.first()..=definition.width().last()).take(EXAMPLES));
            }
            Of::Layout(..) => LAYOUT_TOKENS,
            Of::Number(..) | Of::String(..) => TEXT_TOKENS,
        };
        let serial = u32::try_from(self.capacity().saturating_sub(2)).map_or(SERIAL, |last| last.min(SERIAL));
        let of = [(one, serial), (one, serial + 1), (other, serial)];
        of.into_iter().filter_map(|(token, serial)| self.example(at, token, serial)).collect()
    }

    /// The texts of plain numbers, if they can be written there.
    fn texts(&self, at: &At<'_>, numbers: impl Iterator<Item = u64>) -> Vec<String> {
        let Ok(encoding) = self.written_by(at.secrets, at.strategies) else { return Vec::new() };
        let encoding = encoding.unwrap_or_else(|| Arc::clone(&DECIMAL64));
        numbers.filter_map(|number| encoding.text(number.into())).collect()
    }

    /// An ID of that token and serial; `None` if they do not fit, or it cannot be written there.
    fn example(&self, at: &At<'_>, token: TokenValue, serial: u32) -> Option<String> {
        let offset = at.offset;
        if let Some(numbers) = self.numbers() {
            let layout = numbers.layout();
            let number = layout.fill(layout.prefix_at(offset, at.now, token)?, serial, 0);
            let encoding = self.written_by(at.secrets, at.strategies).ok()?;
            return encoding.map_or_else(|| Some(number.to_string()), |encoding| encoding.text(number));
        }
        let template = self.template()?;
        let token = TokenKey { family: template.family(), value: token };
        let bound = template.bind(offset, offset.day_bucket(at.now), token).ok()?;
        let letters = |len: Option<u32>| len.map(|len| "A".repeat(len as usize));
        let (biz, custom) = (letters(template.biz_len()), letters(template.custom_len()));
        let caller = template.check_caller(biz.as_deref(), custom.as_deref()).ok()?;
        let mut text = Vec::new();
        bound.write(&caller, serial.into(), &mut text);
        String::from_utf8(text).ok()
    }

    fn per_day(&self) -> Option<u64> {
        let unit = match self.kind().spec().unit {
            Bucket::Hour => HOUR_MS,
            Bucket::Day => DAY_MS,
            Bucket::Tick => self.layout()?.layout().unit().0,
            Bucket::Millisecond | Bucket::Ever => return None,
        };
        Some(self.capacity().saturating_mul(u64::try_from(DAY_MS / unit.max(1)).ok()?))
    }

    /// The first instant that its IDs cannot carry.
    pub fn end(&self, offset: UtcOffset) -> Option<WallMs> {
        match self.kind().spec().form {
            Form::Number(_) | Form::Layout { .. } => Some(self.numbers()?.layout().ticks(offset).end),
            Form::Template { .. } => offset.new_year(YEARS.end().saturating_add(1)),
            Form::Plain | Form::Keyed => None,
        }
    }
}
