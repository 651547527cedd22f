//! Layouts: numbers whose bits a definition says, one token's serials per tick.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Bucket, Definable, Durable, Form, Kind, Known, Reading, Right, Spec, TextForm, TextForms, TokenText};
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
    // The block has no serials: it says by which definition the name was minted. Time is durable in the header.
    durable: Durable::Block { number: 3 },
    form: Form::Layout { example: Preset::Snowflake },
    numbers: None,
    definition: Some(Definable { everyday_reset: false, shared_serials: false }),
    readings: |text, known| known.of(Kind::Layout).filter_map(|namespace| reading(text, namespace, known)).collect(),
};

/// What a number of a layout says beyond time, token and serial.
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
    /// The strategy that made it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
}

/// The forms that every number has unless its encoding hides it.
const PLAIN: [(TextForm, EncodingForm); 3] = [
    (TextForm::Decimal, EncodingForm::Decimal),
    (TextForm::Hex, EncodingForm::Hex),
    (TextForm::Base32, EncodingForm::Base32),
];

/// The number that `text` is by that definition: in its own encoding, or, if that hides nothing, in one of those that every
/// number has. With the encoding, and whether it writes as that of every number does.
fn read(text: &str, definition: &LayoutDefinition, encoding: &Encoding) -> Option<(u128, EncodingForm, bool)> {
    let own = definition.encoding().form();
    if let Some(number) = encoding.read(text).or_else(|| encoding.read_spelled(text)) {
        return Some((number, own, !encoding.is_respelled()));
    }
    let forms = PLAIN.iter().filter(|_| !encoding.hides());
    forms.map(|(plain, form)| Some((encoding.plain(*plain).read(text)?, *form, true))).find_map(|read| read)
}

fn reading(text: &str, namespace: &Namespace, known: &Known<'_>) -> Option<Reading> {
    let definition = namespace.layout()?;
    let layout = definition.layout();
    let Ok(encoding) = definition.written_by(known.secrets, known.strategies) else {
        return Reading::unread(namespace, definition.written(), text);
    };
    let (number, form, is_plain) = read(text, definition, &encoding)?;
    let parts = layout.parts(number)?;
    let plain = |form| encoding.plain(form).text(number).unwrap_or_default();
    Some(Reading {
        names: vec![namespace.name().clone()],
        form: PLAIN.iter().find_map(|(plain, encoding)| (is_plain && *encoding == form).then_some(*plain)),
        hidden: form.hides(),
        time: Some(parts.time.to_string()),
        token: Some(TokenText::Number(parts.token.0)),
        serial: Some(parts.serial.into()),
        texts: Some(TextForms {
            decimal: plain(TextForm::Decimal),
            hex: plain(TextForm::Hex),
            base32: plain(TextForm::Base32),
            uri: String::new(),
        }),
        layout: Some(LayoutReading {
            preset: definition.preset().map(Preset::name),
            bits: layout.bits(),
            epoch: layout.epoch().to_string(),
            unit_ms: layout.unit().0,
            fields: layout.fields().iter().map(ToString::to_string).collect(),
            encoding: form.name(),
            strategy: encoding.own().map(|own| own.name().to_owned()),
        }),
        ..Reading::of(Kind::Layout)
    })
}
