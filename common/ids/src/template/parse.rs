//! From a template's text to its pieces, and the proof that its IDs are unique.

use super::check::CheckKind;
use super::date::{DateFormat, DateParts};
use super::{PartKind, Piece, Radix, Serial, Template, TemplateError, What};
use crate::digits::{read_decimal, shown};
use crate::token::TokenFamily;

/// The widest serial in radix 10 and in radix 36 whose capacity fits 64 bits.
const SERIAL_WIDTHS: [u32; 2] = [19, 12];
const _: () = {
    let [ten, thirty_six] = SERIAL_WIDTHS;
    assert!(10u64.checked_pow(ten).is_some() && 10u64.checked_pow(ten + 1).is_none());
    assert!(36u64.checked_pow(thirty_six).is_some() && 36u64.checked_pow(thirty_six + 1).is_none());
};

/// The character, if it may stand in an ID.
pub(super) fn literal_character(c: char) -> Result<char, TemplateError> {
    if c.is_ascii_graphic() && !matches!(c, '"' | '\\') { Ok(c) } else { Err(TemplateError::Character { found: c }) }
}

impl Template {
    /// The template that `source` spells, for tokens of `family`.
    ///
    /// # Errors
    /// [`TemplateError`], with the reason for each refusal.
    pub fn parse(source: &str, family: TokenFamily) -> Result<Self, TemplateError> {
        if source.len() > Self::SOURCE_LEN_MAX {
            return Err(TemplateError::SourceTooLong { bytes: source.len() });
        }
        let pieces = lay_out(source, family)?;
        let serial = prove(&pieces)?;
        Ok(Self::of(source, family, pieces, serial))
    }

    /// The parts that a text spells as far as it can be read, each with its characters in an ID, and the byte at which that ends. What
    /// they make may be no template.
    pub fn sketch(source: &str, family: TokenFamily) -> (Vec<(PartKind, usize)>, usize) {
        let ends = source.char_indices().map(|(at, c)| at + c.len_utf8());
        let ends: Vec<_> = std::iter::once(0).chain(ends).take_while(|end| *end <= Self::SOURCE_LEN_MAX).collect();
        let read = |end: usize| Some((lay_out(source.get(..end)?, family).ok()?, end));
        let (pieces, end) = ends.into_iter().rev().find_map(read).unwrap_or_default();
        (pieces.iter().map(|piece| (piece.what.kind(), piece.place.len())).collect(), end)
    }

    /// The caller has proved the pieces.
    fn of(source: &str, family: TokenFamily, pieces: Vec<Piece>, serial: Serial) -> Self {
        let width = |kind| {
            let piece = pieces.iter().find(|piece| piece.what.kind() == kind)?;
            u32::try_from(piece.place.len()).ok()
        };
        let (biz, custom) = (width(PartKind::Biz), width(PartKind::Custom));
        let len = pieces.last().map_or(0, |piece| piece.place.end);
        Self { source: source.to_owned(), family, pieces, len, serial, biz, custom }
    }
}

/// The pieces, each in its place.
fn lay_out(source: &str, family: TokenFamily) -> Result<Vec<Piece>, TemplateError> {
    let token_width = family.width().ok_or(TemplateError::TokenFamily)? as usize;
    let mut pieces = Vec::new();
    let mut len = 0;
    for field in split(source)? {
        let width = field.width(token_width);
        pieces.push(Piece { place: len..len + width, what: field.what });
        len += width;
        if len > Template::LEN_MAX {
            return Err(TemplateError::TooLong);
        }
    }
    Ok(pieces)
}

/// Finds the serial among the fields, and checks that they make IDs unique.
fn prove(pieces: &[Piece]) -> Result<Serial, TemplateError> {
    let mut seen = Vec::new();
    let mut named = None;
    let mut serial = None;
    for Piece { place, what } in pieces {
        match what {
            What::Literal(_) => continue,
            What::Date(format) => {
                format.name(named.get_or_insert_with(DateParts::default));
                continue;
            }
            What::Serial(one) => serial = Some(*one),
            What::Check(_) if place.start == 0 => return Err(TemplateError::CheckFirst),
            What::Biz | What::Custom | What::Token | What::Check(_) => {}
        }
        if seen.contains(&what.kind()) {
            return Err(TemplateError::Twice { field: what.kind() });
        }
        seen.push(what.kind());
    }
    let missing = |field, why| TemplateError::Missing { field, why };
    if !seen.contains(&PartKind::Token) {
        return Err(missing(PartKind::Token, "without {token} two agents would mint the same IDs"));
    }
    let serial = serial.ok_or_else(|| {
        missing(PartKind::Serial, "without {serial:N} an agent would mint one ID all day, again and again")
    })?;
    named
        .ok_or_else(|| missing(PartKind::Date, "without {date:%Y%m%d} its IDs would come back the next day"))?
        .complete()?;
    Ok(serial)
}

/// A piece before it has its place.
struct Field {
    what: What,
    /// The width of the caller's fields; the others know theirs.
    width: usize,
}

impl Field {
    fn new(what: What) -> Self {
        Self { what, width: 0 }
    }

    fn width(&self, token_width: usize) -> usize {
        match &self.what {
            What::Literal(text) => text.len(),
            What::Date(format) => format.width(),
            What::Biz | What::Custom => self.width,
            What::Token => token_width,
            What::Serial(serial) => serial.width as usize,
            What::Check(kind) => kind.width(),
        }
    }
}

/// Literals and fields in their order.
fn split(source: &str) -> Result<Vec<Field>, TemplateError> {
    let mut fields = Vec::new();
    let mut literal = String::new();
    let mut rest = source;
    let at = |rest: &str| source.len() - rest.len();
    while let Some(c) = rest.chars().next() {
        let brace = ["{{", "}}"].into_iter().find_map(|twice| rest.strip_prefix(twice));
        if let Some(tail) = brace {
            literal.push(c);
            rest = tail;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let (inner, tail) = inner.split_once('}').ok_or(TemplateError::Brace { at: at(rest) })?;
            if inner.contains('{') {
                return Err(TemplateError::Brace { at: at(rest) });
            }
            if !literal.is_empty() {
                fields.push(Field::new(What::Literal(std::mem::take(&mut literal))));
            }
            fields.push(field(inner)?);
            rest = tail;
        } else if c == '}' {
            return Err(TemplateError::Brace { at: at(rest) });
        } else {
            literal.push(literal_character(c)?);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    if !literal.is_empty() {
        fields.push(Field::new(What::Literal(literal)));
    }
    Ok(fields)
}

/// The field that stands between two braces.
fn field(inner: &str) -> Result<Field, TemplateError> {
    let (name, argument) = match inner.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (inner, None),
    };
    let refuse = |field, wanted| TemplateError::Argument { field, found: shown(argument.unwrap_or_default()), wanted };
    let caller = |field| {
        let wanted = "write the number of characters, e.g. {biz:4}";
        let width = argument.and_then(count).ok_or_else(|| refuse(field, wanted))?;
        // Wide enough for any that is refused later, so that sums stay small.
        Ok(width.min(Template::LEN_MAX as u64 + 1) as usize)
    };
    match name {
        "date" => match argument {
            Some(format) if !format.is_empty() => Ok(Field::new(What::Date(DateFormat::parse(format)?))),
            _ => Err(refuse(PartKind::Date, "write how, e.g. {date:%Y%m%d}")),
        },
        "biz" => Ok(Field { what: What::Biz, width: caller(PartKind::Biz)? }),
        "custom" => Ok(Field { what: What::Custom, width: caller(PartKind::Custom)? }),
        "token" if argument.is_none() => Ok(Field::new(What::Token)),
        "token" => Err(refuse(PartKind::Token, "it takes no argument; its width is the token type's")),
        "serial" => {
            let wanted = "write the number of digits, {serial:1} to {serial:19} or {serial:1:36} to {serial:12:36}";
            let serial = serial(argument.unwrap_or_default()).ok_or_else(|| refuse(PartKind::Serial, wanted))?;
            Ok(Field::new(What::Serial(serial)))
        }
        "check" => match argument {
            Some("luhn") => Ok(Field::new(What::Check(CheckKind::Luhn))),
            Some("mod97") => Ok(Field::new(What::Check(CheckKind::Mod97))),
            _ => Err(refuse(PartKind::Check, "write {check:luhn} or {check:mod97}")),
        },
        _ => Err(TemplateError::UnknownField { name: shown(inner) }),
    }
}

fn serial(argument: &str) -> Option<Serial> {
    let [ten, thirty_six] = SERIAL_WIDTHS;
    let (width, radix, max) = match argument.split_once(':') {
        None => (argument, Radix::Ten, ten),
        Some((width, "10")) => (width, Radix::Ten, ten),
        Some((width, "36")) => (width, Radix::ThirtySix, thirty_six),
        Some(_) => return None,
    };
    let width = u32::try_from(count(width)?).ok().filter(|width| *width <= max)?;
    Some(Serial { radix, width, capacity: u64::from(radix.number()).checked_pow(width)? })
}

/// A number from 1 on, without leading zeros: one template has one spelling of it.
fn count(text: &str) -> Option<u64> {
    if text.starts_with('0') { None } else { read_decimal(text) }
}

#[cfg(test)]
mod tests {
    use super::super::{CallerParts, DEFAULT_TEMPLATE};
    use super::*;
    use crate::calendar::{DayBucket, UtcOffset};
    use crate::token::{TokenKey, TokenValue};
    use TokenFamily::{String2, String3, Uint};

    #[test]
    fn the_default_has_the_shape_of_the_contract() {
        let template = Template::parse(DEFAULT_TEMPLATE, String2).unwrap();
        assert_eq!((template.len(), template.biz_len(), template.custom_len()), (8 + 4 + 2 + 8 + 2, Some(4), Some(2)));
        assert_eq!((template.serial_width(), template.serial_radix(), template.capacity()), (8, 10, 100_000_000));
        assert_eq!(Template::parse(DEFAULT_TEMPLATE, String3).unwrap().len(), template.len() + 1);
    }

    #[test]
    fn the_widest_serials_have_the_capacity_of_their_radix() {
        for (source, capacity) in [
            ("{date:%F}{token}{serial:1}", 10),
            ("{date:%F}{token}{serial:19}", 10_000_000_000_000_000_000),
            ("{date:%F}{token}{serial:19:10}", 10_000_000_000_000_000_000),
            ("{date:%F}{token}{serial:1:36}", 36),
            ("{date:%F}{token}{serial:12:36}", 4_738_381_338_321_616_896),
        ] {
            assert_eq!(Template::parse(source, String2).unwrap().capacity(), capacity, "{source}");
        }
    }

    #[test]
    fn a_text_is_sketched_as_far_as_it_can_be_read() {
        use PartKind::{Biz, Date, Literal, Serial as Number, Token};
        let sketch = |source: &str| Template::sketch(source, String2);
        assert_eq!(sketch("A-{date:%F}{token}{serial:4}").0, [(Literal, 2), (Date, 10), (Token, 2), (Number, 4)]);
        for (source, parts, end) in [
            ("", vec![], 0),
            ("{token}{token}", vec![(Token, 2), (Token, 2)], 14),
            ("{date:%F}{year}{token}", vec![(Date, 10)], 9),
            ("{date:%F{token}", vec![], 0),
            ("a}}b}{token}", vec![(Literal, 3)], 4),
            ("{biz:2}é{token}", vec![(Biz, 2)], 7),
            ("{token}{biz:127}x", vec![(Token, 2)], 7),
        ] {
            assert_eq!(sketch(source), (parts, end), "{source}");
        }
        assert_eq!(sketch(&"é".repeat(1 << 16)).1, 0);
        assert_eq!(sketch(&"{{".repeat(1 << 16)), (vec![(Literal, 128)], 256));
        assert_eq!(Template::sketch("{token}", Uint), (vec![], 0));
    }

    #[test]
    fn what_names_the_day_is_taken() {
        for date in ["%Y%m%d", "%F", "%Y-%m-%d", "%Y%j", "%d.%m.%Y", "%y%Y%m%d", "%Y%%%j"] {
            assert!(Template::parse(&format!("{{date:{date}}}{{token}}{{serial:4}}"), String2).is_ok(), "{date}");
        }
        assert!(Template::parse("{date:%Y}-{token}-{date:%m%d}-{serial:4}", String2).is_ok());
        assert!(Template::parse("{{a}}{date:%Y%j}{token}{serial:4}{{{{", String2).is_ok());
    }

    /// Each refusal with a word of its reason: a caller must be able to mend the template by it.
    #[test]
    fn what_proves_nothing_is_refused_with_the_reason() {
        let wide = format!("{{date:%F}}{{token}}{{serial:4}}{}", "x".repeat(Template::LEN_MAX - 15));
        let long = "x".repeat(Template::SOURCE_LEN_MAX + 1);
        for (source, reason) in [
            ("", "without {token}"),
            ("{date:%F}{serial:4}", "two agents"),
            ("{date:%F}{token}", "serial is missing"),
            ("{token}{serial:4}", "date is missing"),
            ("{date:%y%m%d}{token}{serial:4}", "four digits"),
            ("{date:%Y%d}{token}{serial:4}", "month"),
            ("{date:%Y%m}{token}{serial:4}", "the day"),
            ("{date:%j}{token}{serial:4}", "year"),
            ("{date:%m%d}{token}{serial:4}", "year"),
            ("{date:--}{token}{serial:4}", "year"),
            ("{date:%Y%m%d%H}{token}{serial:4}", "no time of day"),
            ("{date:%Y%b%d}{token}{serial:4}", "no fixed width"),
            ("{date:%Y%m%-d}{token}{serial:4}", "zero-padded"),
            ("{date:%Y%m%d%}{token}{serial:4}", "needs a letter"),
            ("{date:%G%V}{token}{serial:4}", "fixed width"),
            ("{date:%é}{token}{serial:4}", "fixed width"),
            ("{date:é%F}{token}{serial:4}", "printable ASCII"),
            ("{date:}{token}{serial:4}", "{date:%Y%m%d}"),
            ("{date}{token}{serial:4}", "{date:%Y%m%d}"),
            ("{date:%F}{token}{token}{serial:4}", "token stands there twice"),
            ("{date:%F}{token}{serial:4}{serial:4}", "serial stands there twice"),
            ("{biz:1}{biz:1}{date:%F}{token}{serial:4}", "biz stands there twice"),
            ("{date:%F}{token}{serial:4}{check:luhn}{check:mod97}", "check stands there twice"),
            ("{check:luhn}{date:%F}{token}{serial:4}", "nothing stands before"),
            ("{date:%F}{token}{serial:4}{check:crc}", "{check:mod97}"),
            ("{date:%F}{token}{serial:4}{check}", "{check:mod97}"),
            ("{date:%F}{token:2}{serial:4}", "no argument"),
            ("{date:%F}{token}{serial}", "{serial:19}"),
            ("{date:%F}{token}{serial:0}", "{serial:19}"),
            ("{date:%F}{token}{serial:04}", "{serial:19}"),
            ("{date:%F}{token}{serial:20}", "{serial:19}"),
            ("{date:%F}{token}{serial:13:36}", "{serial:12:36}"),
            ("{date:%F}{token}{serial:4:16}", "{serial:12:36}"),
            ("{date:%F}{token}{serial:99999999999999999999999}", "{serial:19}"),
            ("{date:%F}{token}{serial:-4}", "{serial:19}"),
            ("{date:%F}{token}{serial:4}{biz:0}", "{biz:4}"),
            ("{date:%F}{token}{serial:4}{biz}", "{biz:4}"),
            ("{date:%F}{token}{serial:4}{custom:4:4}", "number of characters"),
            ("{date:%F}{token}{serial:4}{biz:18446744073709551615}{custom:18446744073709551615}", "128"),
            ("{date:%F}{token}{serial:4}{year}", "not a field"),
            ("{date:%F}{token}{serial:4}{}", "not a field"),
            ("{date:%F}{token}{serial:4}{ token}", "not a field"),
            ("{date:%F}{token}{serial:4", "alone"),
            ("{date:%F}{token}{serial:4}}", "alone"),
            ("{date:%F{token}{serial:4}", "alone"),
            ("{date:%F}{token}{serial:4} ", "printable ASCII"),
            ("{date:%F}{token}{serial:4}\n", "printable ASCII"),
            ("{date:%F}{token}{serial:4}\"", "printable ASCII"),
            ("{date:%F}{token}{serial:4}\\", "printable ASCII"),
            ("{date:%F}{token}{serial:4}é", "printable ASCII"),
            (&wide, "128"),
            (&long, "256"),
        ] {
            let refusal = Template::parse(source, String2).expect_err(source).to_string();
            assert!(refusal.contains(reason), "{source}: {refusal}");
        }
        assert_eq!(Template::parse(DEFAULT_TEMPLATE, Uint), Err(TemplateError::TokenFamily));
        assert_eq!(Template::parse(wide.strip_suffix('x').unwrap(), String2).unwrap().len(), Template::LEN_MAX);
    }

    /// Shows what the proof is for: each template that it refuses, made without it, writes one ID twice.
    #[test]
    fn without_the_proof_ids_come_back() {
        let write = |source: &str, (day, token, serial): (u32, u32, u64)| {
            let how = Serial { radix: Radix::Ten, width: 4, capacity: 10_000 };
            let template = Template::of(source, String2, lay_out(source, String2).unwrap(), how);
            let key = TokenKey { family: String2, value: TokenValue(token) };
            let bound = template.bind(UtcOffset::default(), DayBucket(day), key).unwrap();
            let mut id = Vec::new();
            bound.write(&CallerParts::default(), serial, &mut id);
            id
        };
        let now = (20_777, 42, 7);
        // A hundred years have 36,524 days here, and 2026 as well as 2027 has 365.
        for (source, then) in [
            ("{date:%F}{serial:4}", (20_777, 43, 7)),
            ("{date:%F}{token}", (20_777, 42, 8)),
            ("{token}{serial:4}", (20_778, 42, 7)),
            ("{date:%y%m%d}{token}{serial:4}", (20_777 + 36_524, 42, 7)),
            ("{date:%m%d}{token}{serial:4}", (20_777 + 365, 42, 7)),
            ("{date:%j}{token}{serial:4}", (20_777 + 365, 42, 7)),
            ("{date:%Y%m}{token}{serial:4}", (20_778, 42, 7)),
            ("{date:%Y%d}{token}{serial:4}", (20_777 - 31, 42, 7)),
        ] {
            assert!(Template::parse(source, String2).is_err());
            assert_eq!(write(source, now), write(source, then), "{source}");
            let whole = "{date:%F}{token}{serial:4}";
            assert!(Template::parse(whole, String2).is_ok() && write(whole, now) != write(whole, then));
        }
    }
}
