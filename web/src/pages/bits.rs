//! Pictures of numbers and texts: each field as a coloured piece as long as it has bits or characters.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::design::TextPart;
use crate::words::{Words, fill};
use askama::Template;
use common::kind::Kind;
use common::layout::{Field, Layout, Part};
use common::template::PartKind;

/// Units of a whole that positions are told in: 100 % with four digits behind the point.
const WHOLE: u64 = 1_000_000;
/// The shortest piece, in percent of the picture, that has room for its number of bits.
const NUMBER_PERCENT_MIN: u32 = 3;
/// The shortest piece, in percent of the picture, that has room for its name.
const NAME_PERCENT_MIN: u32 = 9;

/// A field in the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldPiece {
    /// The colour: `date`, `token`, `serial`, `literal`, `random`, `biz`, `custom`, `check`.
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    /// Its bits, in a text its characters.
    pub(super) bits: u32,
}

impl FieldPiece {
    pub(super) fn of_text(part: PartKind, characters: usize, w: &'static Words) -> Self {
        let (kind, name) = match part {
            PartKind::Literal => ("literal", w.field_literal),
            PartKind::Date => ("date", w.field_date),
            PartKind::Biz => ("biz", w.field_biz),
            PartKind::Custom => ("custom", w.field_custom),
            PartKind::Token => ("token", w.field_token),
            PartKind::Serial => ("serial", w.field_serial),
            PartKind::Check => ("check", w.field_check),
        };
        Self { kind, name, bits: u32::try_from(characters).unwrap_or(u32::MAX) }
    }

    pub(super) fn of_part(part: &str, bits: u32, w: &'static Words) -> Self {
        let (kind, name) = match part {
            "time" => ("date", w.part_time),
            "token" => ("token", w.field_token),
            "serial" => ("serial", w.field_serial),
            "random" => ("random", w.part_random),
            "year" => ("date", w.field_year),
            "month" => ("date", w.field_month),
            "day" => ("date", w.field_day),
            "hour" => ("date", w.field_hour),
            "minute" => ("date", w.field_minute),
            "second" => ("date", w.field_second),
            "millisecond" => ("date", w.field_ms),
            "zero" => ("literal", w.part_zero),
            _ => ("literal", w.part_const),
        };
        Self { kind, name, bits }
    }
}

/// A number or a text drawn, as HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    /// Its pieces side by side.
    pub(super) drawing: String,
    /// The legend: the name, width and value of each piece.
    pub(super) legend: String,
}

#[derive(Template)]
#[template(path = "bits_legend.html")]
struct Legend {
    entries: Vec<Entry>,
}

struct Entry {
    kind: &'static str,
    name: &'static str,
    bits: String,
    value: String,
}

#[derive(Template)]
#[template(path = "bits.html")]
struct Drawing {
    label: String,
    slices: Vec<Slice>,
}

struct Slice {
    kind: &'static str,
    /// Begin and length, in percent.
    at: String,
    length: String,
    name: &'static str,
    bits: String,
}

/// The drawing of a number of `bits` bits, as HTML; what the pieces do not fill stays empty, and what is too much makes it longer.
pub(super) fn drawing(pieces: &[FieldPiece], bits: u32, w: &'static Words) -> String {
    strip(pieces, bits, w.bits_label)
}

/// The drawing of something so long, with a text for those who do not see it.
pub(super) fn strip(pieces: &[FieldPiece], bits: u32, label: &str) -> String {
    let sum: u32 = pieces.iter().map(|piece| piece.bits).sum();
    let total = sum.max(bits).max(1);
    let percent = |bits: u32| {
        let parts = u64::from(bits) * WHOLE / u64::from(total);
        format!("{}.{:04}", parts / 10_000, parts % 10_000)
    };
    let mut at = 0;
    let slices = pieces.iter().map(|piece| {
        let share = piece.bits * 100 / total;
        let slice = Slice {
            kind: piece.kind,
            at: percent(at),
            length: percent(piece.bits),
            name: if share >= NAME_PERCENT_MIN { piece.name } else { "" },
            bits: if share >= NUMBER_PERCENT_MIN { piece.bits.to_string() } else { String::new() },
        };
        at += piece.bits;
        slice
    });
    let slices = slices.collect();
    let told = pieces.iter().map(|piece| format!("{} {}", piece.name, piece.bits)).collect::<Vec<_>>().join(", ");
    let label = fill(label, &[&bits.to_string(), &told]);
    // A template of our own words and numbers, which cannot fail.
    Drawing { label, slices }.render().unwrap_or_default()
}

/// A number of bits, in words.
pub(super) fn bits_told(bits: u32, w: &'static Words) -> String {
    if bits == 1 { w.one_bit.to_owned() } else { fill(w.bits, &[&bits.to_string()]) }
}

/// The picture of a layout, and of what stands in `id` if there is one.
pub(super) fn layout_picture(layout: &Layout, id: Option<u128>, w: &'static Words) -> Picture {
    let pieces = pieces(layout, w);
    let mut above = layout.bits();
    let value = |field: &Field| {
        above = above.saturating_sub(field.bits);
        let shifted = |id: u128| id.checked_shr(above).unwrap_or(0);
        let ones = if field.bits >= u128::BITS { u128::MAX } else { (1 << field.bits) - 1 };
        match (id, field.part) {
            (Some(id), _) => (shifted(id) & ones).to_string(),
            (None, Part::Const(value)) => value.to_string(),
            (None, _) => String::new(),
        }
    };
    let values = layout.fields().iter().map(value);
    let entry = |(piece, value): (&FieldPiece, String)| Entry {
        kind: piece.kind,
        name: piece.name,
        bits: bits_told(piece.bits, w),
        value,
    };
    let entries = pieces.iter().zip(values).map(entry).collect();
    Picture { drawing: drawing(&pieces, layout.bits(), w), legend: Legend { entries }.render().unwrap_or_default() }
}

/// The picture of a text of these parts with so many characters, and of what they are in an example.
pub(super) fn text_picture(parts: &[(PartKind, usize)], example: &[TextPart], w: &'static Words) -> Picture {
    let pieces: Vec<_> = parts.iter().map(|(part, characters)| FieldPiece::of_text(*part, *characters, w)).collect();
    let length = pieces.iter().map(|piece| piece.bits).sum();
    let entry = |(piece, part): (&FieldPiece, &TextPart)| Entry {
        kind: piece.kind,
        name: piece.name,
        bits: String::new(),
        value: part.text.clone(),
    };
    let entries = pieces.iter().zip(example).map(entry).collect();
    let legend = Legend { entries }.render().unwrap_or_default();
    Picture { drawing: strip(&pieces, length, w.characters_label), legend }
}

/// The drawing of the numbers of a kind, as HTML; `None` if it writes no numbers.
pub(super) fn kind_drawing(kind: Kind, w: &'static Words) -> Option<String> {
    let layout = kind.numbers()?.layout();
    Some(drawing(&pieces(layout, w), layout.bits(), w))
}

fn pieces(layout: &Layout, w: &'static Words) -> Vec<FieldPiece> {
    layout.fields().iter().map(|field| FieldPiece::of_part(&field.part.to_string(), field.bits, w)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Lang;
    use common::layout::Preset;
    use common::token::TokenValue;

    fn picture(preset: Preset, id: Option<u128>) -> Picture {
        layout_picture(&preset.layout().unwrap(), id, Lang::En.words())
    }

    #[test]
    fn each_field_is_as_long_as_it_has_bits() {
        let drawing = picture(Preset::Snowflake, None).drawing;
        let label = "aria-label=\"64 bits, from the highest: zero 1, time 41, token 10, serial 12\"";
        assert!(drawing.contains("role=\"img\"") && drawing.contains(label), "{drawing}");
        for (at, length, class) in [
            ("0.0000", "1.5625", "literal"),
            ("1.5625", "64.0625", "date"),
            ("65.6250", "15.6250", "token"),
            ("81.2500", "18.7500", "serial"),
        ] {
            let slice = format!("<svg class=\"{class}\" x=\"{at}%\" width=\"{length}%\"");
            assert!(drawing.contains(&slice), "{slice}: {drawing}");
        }
        assert_eq!(drawing.matches("<text").count(), 6, "the first one is too short for words: {drawing}");
    }

    #[test]
    fn what_is_missing_or_too_much_can_be_seen() {
        let w = Lang::En.words();
        let pieces = |bits| [FieldPiece::of_part("time", 32, w), FieldPiece::of_part("serial", bits, w)];
        assert!(drawing(&pieces(16), 64, w).contains("x=\"50.0000%\" width=\"25.0000%\""));
        assert!(drawing(&pieces(96), 64, w).contains("x=\"25.0000%\" width=\"75.0000%\""));
        assert!(drawing(&[], 0, w).contains("0 bits"));
    }

    #[test]
    fn the_legend_says_what_stands_where() {
        let layout = Preset::Uuid7.layout().unwrap();
        let id = layout.fill(layout.prefix(1_700_000_000_000, TokenValue(5)).unwrap(), 1 << 14 | 3, 9);
        let values = |picture: &Picture| {
            let codes = picture.legend.split("<code>").skip(1);
            codes.map(|rest| rest.split('<').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let known = picture(Preset::Uuid7, Some(id));
        assert_eq!(values(&known), ["1700000000000", "7", "1", "2", "3", "5", "9"]);
        assert!(known.legend.contains("48 bits"), "{}", known.legend);
        assert_eq!(values(&picture(Preset::Uuid7, None)), ["7", "2"], "constants are known without an ID");
    }

    #[test]
    fn kinds_that_write_numbers_have_a_drawing() {
        let w = Lang::Zh.words();
        assert!(kind_drawing(Kind::Uniq64, w).unwrap().contains(", 序号 31\""));
        assert!(kind_drawing(Kind::Uniq96, w).is_some() && kind_drawing(Kind::String, w).is_none());
    }
}
