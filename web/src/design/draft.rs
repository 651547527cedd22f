//! A layout as it stands in a form, whole or not: each text as it was typed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::encoding::{EncodingForm, EncodingSource};
use common::layout::{
    FIELDS_MAX, Field, InvalidDefinition, InvalidLayout, Layout, LayoutDefinition, LayoutSpec, Part, Preset,
};

/// Parameters that a query may have: those of [`ROWS_MAX`] rows and of the rest.
const PAIRS_MAX: usize = 3 * ROWS_MAX + 16;
/// Characters that one parameter may have.
const TEXT_MAX: usize = 512;
/// Rows that are kept: more than a layout may have, so that the excess can be shown.
const ROWS_MAX: usize = 2 * FIELDS_MAX;
/// The constant of a field that was made one just now.
const CONST_FIRST: &str = "1";

/// A field as it was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// `zero`, `const`, `time`, `token`, `serial` or `random`.
    pub(crate) part: String,
    /// The number of bits, as it was typed.
    pub(crate) width: String,
    /// The number, of a constant; else empty.
    pub(crate) value: String,
}

/// A layout as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    /// The preset that it began as, if it was one.
    pub(crate) preset: Option<Preset>,
    pub(crate) bits: String,
    pub(crate) epoch: String,
    pub(crate) unit_ms: String,
    /// The most significant field first.
    pub(crate) rows: Vec<Row>,
    /// The time that IDs may lie ahead of the clock, in milliseconds; empty: as usual.
    pub(crate) ahead_max_ms: String,
    /// The name of an encoding; empty: as usual.
    pub(crate) encoding: String,
}

/// A field of the form, in which a fault may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormField {
    Preset,
    Bits,
    Epoch,
    Unit,
    Ahead,
    Encoding,
    /// The fields together.
    Fields,
    /// One of them.
    Row(usize),
}

/// A fault, and the field it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: FormField,
    pub(crate) why: String,
}

impl Row {
    pub(crate) const PARTS: [&str; 6] = ["zero", "const", "time", "token", "serial", "random"];

    /// The field as a definition says it.
    fn text(&self) -> String {
        let Self { part, width, value } = self;
        if value.is_empty() { format!("{part}:{width}") } else { format!("{part}:{width}={value}") }
    }

    fn of_text(text: &str) -> Self {
        let (part, rest) = text.split_once(':').unwrap_or((text, ""));
        let (width, value) = rest.split_once('=').unwrap_or((rest, ""));
        Self { part: part.to_owned(), width: width.to_owned(), value: value.to_owned() }
    }

    /// The bits that it would have, as far as they can be read; never more than any number has.
    pub(crate) fn drawn(&self) -> u32 {
        self.width.parse().map_or(0, |bits: u32| bits.min(u128::BITS))
    }
}

/// The texts of a query, before it is known what they mean.
#[derive(Default)]
struct Said {
    layout: Option<String>,
    was: Option<String>,
    bits: Option<String>,
    epoch: Option<String>,
    unit_ms: Option<String>,
    ahead_max_ms: Option<String>,
    encoding: Option<String>,
    fields: Option<String>,
    parts: Vec<String>,
    widths: Vec<String>,
    values: Vec<String>,
    /// The button that was pressed, and its row.
    action: Option<(Action, String)>,
}

#[derive(Clone, Copy)]
enum Action {
    Add,
    Remove,
    Up,
    Down,
}

impl Said {
    fn read(pairs: Vec<(String, String)>) -> Result<Self, String> {
        if pairs.len() > PAIRS_MAX {
            return Err(format!("{} parameters are too many: a layout needs {PAIRS_MAX} at most", pairs.len()));
        }
        let mut said = Self::default();
        for (name, value) in pairs {
            if value.len() > TEXT_MAX {
                return Err(format!("{name}: at most {TEXT_MAX} characters"));
            }
            let once = match name.as_str() {
                "layout" => &mut said.layout,
                "was" => &mut said.was,
                "bits" => &mut said.bits,
                "epoch" => &mut said.epoch,
                "unit_ms" => &mut said.unit_ms,
                "ahead_max_ms" => &mut said.ahead_max_ms,
                "encoding" => &mut said.encoding,
                "fields" => &mut said.fields,
                "part" | "width" | "value" => {
                    let list = match name.as_str() {
                        "part" => &mut said.parts,
                        "width" => &mut said.widths,
                        _ => &mut said.values,
                    };
                    list.push(value);
                    continue;
                }
                "add" | "remove" | "up" | "down" => {
                    let action = match name.as_str() {
                        "add" => Action::Add,
                        "remove" => Action::Remove,
                        "up" => Action::Up,
                        _ => Action::Down,
                    };
                    said.action = Some((action, value));
                    continue;
                }
                _ => {
                    let known = "layout, bits, epoch, unit_ms, fields, ahead_max_ms and encoding";
                    return Err(format!(
                        "unknown parameter: there are {known}; a spread, a case or a prefix of an encoding is said at PUT /generators/NAME"
                    ));
                }
            };
            if once.replace(value).is_some() {
                return Err(format!("{name}: say it once"));
            }
        }
        Ok(said)
    }

    /// The fields, if any were said: as one text, or each in pieces, as forms send them.
    fn rows(&mut self) -> Result<Option<Vec<Row>>, String> {
        let rows: Vec<Row> = match self.fields.take() {
            Some(_) if !self.parts.is_empty() => return Err("fields: say them once".to_owned()),
            Some(fields) => {
                let texts = fields.split(|c: char| c == ',' || c.is_whitespace()).filter(|text| !text.is_empty());
                texts.map(Row::of_text).collect()
            }
            None if self.parts.is_empty() => return Ok(None),
            None if self.parts.len() != self.widths.len() => {
                return Err("each part needs a width".to_owned());
            }
            None => {
                let mut values = std::mem::take(&mut self.values).into_iter();
                let pieces = std::mem::take(&mut self.parts).into_iter().zip(std::mem::take(&mut self.widths));
                let row = |(part, width): (String, String)| {
                    let value = values.next().unwrap_or_default();
                    let value = match part.as_str() {
                        "const" if value.is_empty() => CONST_FIRST.to_owned(),
                        "const" => value,
                        _ => String::new(),
                    };
                    Row { part, width: width.trim().to_owned(), value: value.trim().to_owned() }
                };
                pieces.map(row).collect()
            }
        };
        if rows.len() > ROWS_MAX {
            return Err(InvalidLayout::TooManyFields(rows.len()).to_string());
        }
        Ok(Some(rows))
    }
}

impl Draft {
    /// The encodings that a definition can name without more.
    pub(crate) const ENCODINGS: [EncodingForm; 8] = [
        EncodingForm::Decimal,
        EncodingForm::Hex,
        EncodingForm::Base32,
        EncodingForm::Base32hex,
        EncodingForm::Base62,
        EncodingForm::Uuid,
        EncodingForm::Ksuid,
        EncodingForm::Sqids,
    ];

    /// Reads a draft from a query; `None` if that says nothing. A query that cannot be meant is refused with the reason.
    ///
    /// A form sends the preset that it was made from as `was`: another `layout` then means that one, with nothing of the rest.
    pub(crate) fn read(pairs: Vec<(String, String)>) -> Result<Option<Self>, String> {
        if pairs.is_empty() {
            return Ok(None);
        }
        let mut said = Said::read(pairs)?;
        let rows = said.rows()?;
        let named = said.layout.as_deref().filter(|name| !name.is_empty());
        let preset: Option<Preset> =
            named.map(str::parse).transpose().map_err(|unknown: InvalidLayout| unknown.to_string())?;
        let trimmed = |text: Option<String>| text.map(|text| text.trim().to_owned());
        let epoch = trimmed(said.epoch);
        let ahead_max_ms = trimmed(said.ahead_max_ms).unwrap_or_default();
        let encoding = trimmed(said.encoding).unwrap_or_default();
        let switched = said.was.is_some() && said.was != said.layout;
        let mut draft = match preset {
            Some(preset) if switched => Self::of_preset(preset)?,
            Some(preset) if said.was.is_none() => {
                // As a definition: its name, and at most an epoch.
                let (bits, unit) = (said.bits.is_some(), said.unit_ms.is_some());
                for (too_much, what) in [(bits, "bits"), (unit, "unit_ms"), (rows.is_some(), "fields")] {
                    if too_much {
                        return Err(InvalidLayout::PresetChanged(what).to_string());
                    }
                }
                let draft = Self::of_preset(preset)?;
                let epoch = epoch.filter(|epoch| !epoch.is_empty()).unwrap_or_else(|| draft.epoch.clone());
                Self { epoch, ahead_max_ms, encoding, ..draft }
            }
            preset => {
                let missing = |what| move || InvalidLayout::Incomplete(what).to_string();
                Self {
                    preset,
                    bits: said.bits.ok_or_else(missing("bits"))?,
                    epoch: epoch.ok_or_else(missing("epoch"))?,
                    unit_ms: said.unit_ms.ok_or_else(missing("unit_ms"))?.trim().to_owned(),
                    rows: rows.ok_or_else(missing("fields"))?,
                    ahead_max_ms,
                    encoding,
                }
            }
        };
        if let Some((action, value)) = said.action {
            draft.act(action, &value);
        }
        Ok(Some(draft))
    }

    /// A preset, to begin with.
    pub(crate) fn of_preset(preset: Preset) -> Result<Self, String> {
        let layout = preset.layout().map_err(|refused| refused.to_string())?;
        Ok(Self { preset: Some(preset), ..Self::of_layout(&layout) })
    }

    fn of_layout(layout: &Layout) -> Self {
        Self {
            preset: None,
            bits: layout.bits().to_string(),
            epoch: layout.epoch().to_string(),
            unit_ms: layout.unit().0.to_string(),
            rows: layout.fields().iter().map(|field| Row::of_text(&field.to_string())).collect(),
            ahead_max_ms: String::new(),
            encoding: String::new(),
        }
    }

    fn act(&mut self, action: Action, value: &str) {
        let row = value.parse().ok().filter(|row| *row < self.rows.len());
        match (action, row) {
            (Action::Add, _) if Row::PARTS.contains(&value) && self.rows.len() < ROWS_MAX => {
                let sum: u32 = self.rows.iter().map(Row::drawn).sum();
                let left = self.bits.parse().unwrap_or(0_u32).saturating_sub(sum).max(1);
                let constant = if value == "const" { CONST_FIRST } else { "" };
                self.rows.push(Row { part: value.to_owned(), width: left.to_string(), value: constant.to_owned() });
            }
            (Action::Remove, Some(row)) => drop(self.rows.remove(row)),
            (Action::Up, Some(row @ 1..)) => self.rows.swap(row - 1, row),
            (Action::Down, Some(row)) if row + 1 < self.rows.len() => self.rows.swap(row, row + 1),
            _ => {}
        }
    }

    /// The bits of the number, as far as they can be read.
    pub(crate) fn number_bits(&self) -> u32 {
        self.bits.parse().map_or(0, |bits: u32| bits.min(u128::BITS))
    }

    /// The layout, if it is one.
    pub(crate) fn layout(&self) -> Result<Layout, Fault> {
        let number = |text: &str, place, what: &str| {
            let fault = || Fault { place, why: format!("'{}' is not a number of {what}", cut(text)) };
            text.parse::<u32>().map_err(|_| fault())
        };
        let bits = number(&self.bits, FormField::Bits, "bits")?;
        let unit_ms = number(&self.unit_ms, FormField::Unit, "milliseconds")?;
        for (nth, row) in self.rows.iter().enumerate().take(FIELDS_MAX) {
            if let Err(why) = row.text().parse::<Field>() {
                return Err(Fault { place: FormField::Row(nth), why: why.to_string() });
            }
        }
        let source = LayoutSpec {
            bits: Some(bits),
            epoch: Some(self.epoch.clone()),
            unit_ms: Some(unit_ms),
            fields: Some(self.rows.iter().map(Row::text).collect()),
            ..LayoutSpec::default()
        };
        Layout::of(&source).map_err(|refused| self.fault(&refused))
    }

    fn encoding(&self) -> Result<Option<EncodingForm>, Fault> {
        let fault = |why| Fault { place: FormField::Encoding, why };
        let form = Some(self.encoding.as_str()).filter(|name| !name.is_empty());
        let form = form.map(str::parse::<EncodingForm>).transpose().map_err(|unknown| fault(unknown.to_string()))?;
        match form {
            // What the others need besides is not here: a secret, or a strategy of an application.
            Some(form) if !Self::ENCODINGS.contains(&form) => Err(fault(format!(
                "{} needs what only agents have: register such a name by PUT /generators/NAME at one of them",
                form.name()
            ))),
            form => Ok(form),
        }
    }

    /// The definition that it says; refused unless names with that layout may have all of it.
    pub(crate) fn definition(&self, layout: &Layout) -> Result<LayoutSpec, Fault> {
        let ahead_max_ms = match self.ahead_max_ms.as_str() {
            "" => None,
            text => Some(text.parse::<u32>().map_err(|_| Fault {
                place: FormField::Ahead,
                why: format!("'{}' is not a number of milliseconds", cut(text)),
            })?),
        };
        let encoding = self.encoding()?.map(EncodingSource::Name);
        let said = LayoutSpec { ahead_max_ms, encoding, ..definition_of(layout, self.preset_of(layout)) };
        LayoutDefinition::new(&said).map(|_| said).map_err(|refused| match &refused {
            InvalidDefinition::Layout(layout) => self.fault(layout),
            InvalidDefinition::TickTooLong { .. } => Fault { place: FormField::Unit, why: refused.to_string() },
            InvalidDefinition::TooFarAhead(_) | InvalidDefinition::OnlyShortTicks(_) => {
                Fault { place: FormField::Ahead, why: refused.to_string() }
            }
            InvalidDefinition::Encoding(_) => Fault { place: FormField::Encoding, why: refused.to_string() },
            _ => Fault { place: FormField::Fields, why: refused.to_string() },
        })
    }

    /// The fault for which a layout is refused, and its place.
    pub(crate) fn fault(&self, refused: &InvalidLayout) -> Fault {
        let row_of = |part: Part| {
            let name = part.to_string();
            self.rows.iter().position(|row| row.part == name).map_or(FormField::Fields, FormField::Row)
        };
        let place = match refused {
            InvalidLayout::UnknownPreset(_) | InvalidLayout::PresetChanged(_) => FormField::Preset,
            InvalidLayout::Width(_) | InvalidLayout::Incomplete("bits") => FormField::Bits,
            InvalidLayout::Epoch(_)
            | InvalidLayout::EpochOfCalendar
            | InvalidLayout::NotYet { .. }
            | InvalidLayout::EndsSoon { .. } => FormField::Epoch,
            InvalidLayout::Unit(_) => FormField::Unit,
            InvalidLayout::TooWide { part, .. } => row_of(*part),
            InvalidLayout::SerialTooSmall { .. } => row_of(Part::Serial),
            _ => FormField::Fields,
        };
        Fault { place, why: refused.to_string() }
    }

    /// The preset that `layout`, made of this, still is: the one that it began as, or any other.
    pub(crate) fn preset_of(&self, layout: &Layout) -> Option<Preset> {
        let same = |preset: &Preset| {
            let own = preset.layout().ok();
            own.is_some_and(|own| {
                (own.bits(), own.unit(), own.fields()) == (layout.bits(), layout.unit(), layout.fields())
            })
        };
        self.preset.filter(same).or_else(|| Preset::of(layout))
    }
}

/// A definition of that layout and nothing else: by the name of the preset that it is, if it is one, with an epoch if that is another.
pub(crate) fn definition_of(layout: &Layout, preset: Option<Preset>) -> LayoutSpec {
    match preset {
        Some(preset) => LayoutSpec {
            epoch: (preset.epoch() != layout.epoch()).then(|| layout.epoch().to_string()),
            ..LayoutSpec::of(preset.name())
        },
        None => layout.spec(),
    }
}

/// A foreign text as far as a message repeats it.
fn cut(text: &str) -> String {
    const SHOWN_MAX: usize = 32;
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
        query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn read(query: &[(&str, &str)]) -> Draft {
        Draft::read(pairs(query)).unwrap().unwrap()
    }

    fn refusal(query: &[(&str, &str)]) -> String {
        Draft::read(pairs(query)).unwrap_err()
    }

    const OWN: [(&str, &str); 3] = [("bits", "64"), ("epoch", "2024-01-01T00:00:00Z"), ("unit_ms", "1")];
    const SNOWFLAKE: (&str, &str) = ("fields", "zero:1,time:41 token:10, serial:12");

    fn own(rest: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&OWN, rest].concat()
    }

    #[test]
    fn a_layout_is_said_by_its_name_or_whole() {
        assert_eq!(Draft::read(Vec::new()), Ok(None));
        let leaf = read(&[("layout", "leaf")]);
        assert_eq!((leaf.preset, leaf.rows.len()), (Some(Preset::Leaf), 4));
        assert_eq!(leaf.layout().unwrap(), Preset::Leaf.layout().unwrap());
        assert_eq!(leaf.preset_of(&leaf.layout().unwrap()), Some(Preset::Leaf), "not snowflake, which is the same");
        let whole = read(&own(&[SNOWFLAKE]));
        let layout = whole.layout().unwrap();
        assert_eq!((whole.preset, whole.preset_of(&layout)), (None, Some(Preset::Snowflake)));
        let later = read(&[("layout", "uidgenerator"), ("epoch", "2026-01-01T00:00:00Z")]);
        assert_eq!(later.layout().unwrap().epoch().to_string(), "2026-01-01T00:00:00.000Z");
        assert_eq!(read(&[("layout", "discord"), ("epoch", "")]).epoch, "2015-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_form_says_each_field_in_pieces_and_what_it_was_made_from() {
        let form = |layout, was, width| {
            let rows = [("part", "zero"), ("part", "time"), ("part", "token"), ("part", "serial")];
            let widths = [("width", "1"), ("width", width), ("width", "10"), ("width", "12")];
            let values = [("value", ""), ("value", "7"), ("value", ""), ("value", "")];
            [&[("layout", layout), ("was", was)], &OWN[..], &rows, &widths, &values].concat()
        };
        let same = read(&form("snowflake", "snowflake", "41"));
        assert_eq!(same.preset_of(&same.layout().unwrap()), Some(Preset::Snowflake));
        assert_eq!(same.rows[1].value, "", "only constants have a value");
        let other = read(&form("snowflake", "snowflake", "40"));
        let fault = other.layout().unwrap_err();
        assert_eq!((fault.place, fault.why.contains("63 bits, and the number has 64")), (FormField::Fields, true));
        let switched = read(&form("ulid", "snowflake", "41"));
        assert_eq!(switched, Draft::of_preset(Preset::Ulid).unwrap());
        assert_eq!(read(&form("", "snowflake", "41")).preset, None, "it goes on without the name");
        assert_eq!(read(&own(&[("part", "const"), ("width", "4"), ("value", "")])).rows[0].text(), "const:4=1");
    }

    #[test]
    fn rows_are_added_removed_and_moved() {
        let after = |action| {
            let draft = read(&own(&[("fields", "zero:1,time:41,token:10"), action]));
            draft.rows.iter().map(Row::text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(after(("add", "serial")), "zero:1 time:41 token:10 serial:12");
        assert_eq!(after(("add", "nothing")), "zero:1 time:41 token:10");
        assert_eq!(after(("remove", "0")), "time:41 token:10");
        assert_eq!(after(("up", "2")), "zero:1 token:10 time:41");
        assert_eq!(after(("down", "0")), "time:41 zero:1 token:10");
        for nothing in [("up", "0"), ("down", "2"), ("remove", "3"), ("up", "-1"), ("remove", "x")] {
            assert_eq!(after(nothing), "zero:1 time:41 token:10", "{nothing:?}");
        }
        let full = read(&own(&[SNOWFLAKE, ("add", "const")]));
        assert_eq!(full.rows[4].text(), "const:1=1");
    }

    #[test]
    fn what_is_wrong_stands_beside_what_it_is_about() {
        let fields = |fields| own(&[("fields", fields)]);
        let with = |name: &str, value: &'static str| {
            let mut all = own(&[SNOWFLAKE]);
            all.iter_mut().filter(|(known, _)| *known == name).for_each(|pair| pair.1 = value);
            all
        };
        for (query, place, said) in [
            (with("bits", "65"), FormField::Bits, "65 bits cannot be had"),
            (with("bits", "many"), FormField::Bits, "'many' is not a number of bits"),
            (with("epoch", "today"), FormField::Epoch, "not an instant"),
            (with("unit_ms", "7"), FormField::Unit, "does not divide a day"),
            (with("unit_ms", ""), FormField::Unit, "not a number of milliseconds"),
            (fields("zero:1,time:41,token:x,serial:12"), FormField::Row(2), "no width that fits"),
            (fields("time:41,token:10,lunch:1"), FormField::Row(2), "is not a field"),
            (fields("zero:4,time:40,serial:20"), FormField::Fields, "token is missing"),
            (fields("time:50,token:6,serial:8"), FormField::Row(0), "time has 50 bits"),
            (fields("zero:14,time:32,token:18"), FormField::Fields, "serial is missing"),
        ] {
            let fault = read(&query).layout().unwrap_err();
            assert!(fault.place == place && fault.why.contains(said), "{fault:?}, and not {said}");
        }
        let days = "year:7,month:4,day:5,token:16,serial:32";
        let days = |epoch| [("bits", "64"), ("epoch", epoch), ("unit_ms", "86400000"), ("fields", days)];
        assert_eq!(read(&days("2024-01-01T00:00:00Z")).layout().unwrap_err().place, FormField::Epoch);
        let days = read(&[&days("1970-01-01T00:00:00Z")[..], &[("ahead_max_ms", "0")]].concat());
        assert_eq!(days.definition(&days.layout().unwrap()).unwrap_err().place, FormField::Ahead);
        let slow = [("bits", "64"), ("epoch", "2024-01-01T00:00:00Z"), ("unit_ms", "1000")];
        let slow = read(&[&slow[..], &[("fields", "zero:8,time:40,token:10,serial:6")]].concat());
        assert_eq!(slow.layout().unwrap_err().place, FormField::Row(3));
    }

    #[test]
    fn what_a_query_cannot_mean_is_refused_and_nothing_is_too_long() {
        for (query, said) in [
            (vec![("layout", "Leaf")], "is not a layout"),
            (vec![("layout", "leaf"), ("bits", "64")], "leave out bits"),
            (vec![("layout", "leaf"), ("fields", "zero:1")], "leave out fields"),
            (vec![("bits", "64")], "epoch is missing"),
            (vec![("add", "time")], "bits is missing"),
            (vec![("lay", "leaf")], "unknown parameter"),
            (vec![("layout", "leaf"), ("layout", "ulid")], "say it once"),
            (vec![("part", "time")], "needs a width"),
            (own(&[SNOWFLAKE, ("part", "time"), ("width", "1")]), "say them once"),
            (own(&[("part", "zero"); 40]), "needs a width"),
        ] {
            let refusal = refusal(&query);
            assert!(refusal.contains(said), "{refusal}, and not {said}");
        }
        let long = "zero:1,".repeat(40);
        assert!(Draft::read(vec![("fields".into(), long)]).unwrap_err().contains("40 fields are too many"));
        assert!(Draft::read(vec![("epoch".into(), "x".repeat(513))]).unwrap_err().contains("at most 512"));
        assert!(Draft::read(vec![("part".into(), String::new()); 113]).unwrap_err().contains("too many"));
        let many = read(&own(&[(
            "fields",
            "zero:1 zero:1 zero:1 zero:1 zero:1 zero:1 zero:1 zero:1 zero:1 zero:1 zero:1 zero:1 \
             zero:1 time:41 token:5 serial:4 zero:1",
        )]));
        let fault = many.layout().unwrap_err();
        assert!(fault.place == FormField::Fields && fault.why.contains("17 fields are too many"), "{fault:?}");
    }
}
