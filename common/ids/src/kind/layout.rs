//! Layouts: numbers whose bits a definition says, one token's serials per tick.

use super::{Bucket, Definable, Durable, Form, Kind, Known, Reading, Right, Spec, TextForm, TextForms};
use crate::encoding::{Encoding, EncodingForm};
use crate::layout::{LayoutDefinition, Preset};
use crate::namespace::Namespace;
use crate::token::TokenType;
use serde::Serialize;

pub(super) const SPEC: Spec = Spec {
    name: "layout",
    title: "Layouts",
    right: Some(Right {
        token_type: TokenType::Uint2,
        token_types: &[
            TokenType::Uint1,
            TokenType::Uint2,
            TokenType::Uint5Bit,
            TokenType::Uint10Bit,
            TokenType::Uint12Bit,
            TokenType::Uint13Bit,
        ],
        wanted: "the uint types",
    }),
    unit: Bucket::Tick,
    // Of ticks of at most 10 s the block has no serials: it says by which definition the name was minted. Time is durable in the header.
    durable: Durable::Block { number: 3 },
    form: Form::Layout { example: Preset::Snowflake },
    definition: Some(Definable { everyday_reset: false, shared_serials: false }),
    readings: |text, known| known.of(Kind::Layout).flat_map(|namespace| readings(text, namespace, known)).collect(),
};

/// The contents of a layout's number beyond time, token and serial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayoutReading {
    /// The preset that it is, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<&'static str>,
    /// Bits of the number.
    pub bits: u32,
    /// The instant that ticks are counted from.
    pub epoch: String,
    /// The length of a tick in milliseconds.
    pub unit_ms: i64,
    /// The fields, the most significant first, as in a definition.
    pub fields: Vec<String>,
    /// The encoding that the text was read by.
    pub encoding: &'static str,
    /// Tells whether that writes in digits of either case, and nothing before them.
    #[serde(skip)]
    pub(super) has_spellings: bool,
    /// The strategy that made it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
}

/// The forms that every number has unless its encoding hides it.
const PLAIN: [EncodingForm; 3] = [EncodingForm::Decimal, EncodingForm::Hex, EncodingForm::Base32];

/// A number that a text is, and how it is written.
#[derive(Clone, Copy)]
struct Read {
    number: u128,
    form: EncodingForm,
    /// True if every number has that form.
    is_plain: bool,
}

/// The numbers that `text` is by that definition: in its own encoding to the letter, or else in the forms that every number has, if it hides
/// none, and in its own with other letters.
fn read(text: &str, definition: &LayoutDefinition, encoding: &Encoding) -> Vec<Read> {
    let own = |number| Read { number, form: definition.encoding().form(), is_plain: !encoding.is_respelled() };
    if let Some(number) = encoding.read(text) {
        return vec![own(number)];
    }
    let forms = PLAIN.iter().filter(|_| !encoding.hides());
    let plain = |form: &EncodingForm| {
        Some(Read { number: encoding.plain(TextForm::of(*form)?).read(text)?, form: *form, is_plain: true })
    };
    let mut all: Vec<_> = forms.filter_map(plain).take(1).collect();
    let spelled = encoding.read_spelled(text).filter(|number| all.iter().all(|read| read.number != *number));
    all.extend(spelled.map(own));
    all
}

fn readings(text: &str, namespace: &Namespace, known: &Known<'_>) -> Vec<Reading> {
    let Some(definition) = namespace.layout() else { return Vec::new() };
    match definition.written_by(known.secrets, known.strategies) {
        Ok(encoding) => {
            let read = read(text, definition, &encoding).into_iter();
            read.filter_map(|read| reading(&read, namespace, definition, &encoding)).collect()
        }
        Err(_) => Reading::unread(namespace, definition.written(), text).into_iter().collect(),
    }
}

fn reading(read: &Read, namespace: &Namespace, definition: &LayoutDefinition, encoding: &Encoding) -> Option<Reading> {
    let (layout, Read { number, form, is_plain }) = (definition.layout(), *read);
    let parts = layout.parts(number)?;
    let plain = |form| match form {
        TextForm::Uri => String::new(),
        form => encoding.plain(form).text(number).unwrap_or_default(),
    };
    Some(Reading {
        names: vec![namespace.name().clone()],
        form: TextForm::of(form).filter(|_| is_plain),
        hidden: form.hides(),
        layout: Some(LayoutReading {
            preset: definition.preset().map(Preset::name),
            bits: layout.bits(),
            epoch: layout.epoch().to_string(),
            unit_ms: layout.unit().0,
            fields: layout.fields().iter().map(ToString::to_string).collect(),
            encoding: form.name(),
            has_spellings: form == EncodingForm::Uuid && is_plain,
            strategy: encoding.own().map(|own| own.name().to_owned()),
        }),
        ..Reading::of_number(Kind::Layout, &parts, layout.time_text(parts.time), TextForms::of(plain))
    })
}
