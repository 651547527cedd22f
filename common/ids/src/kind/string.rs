//! Strings: characters by a template, one token's serials per day.

use super::{Bucket, Definable, Durable, Form, Kind, Reading, Right, Spec, TokenText};
use crate::calendar::UtcOffset;
use crate::namespace::Namespace;
use crate::template::{DEFAULT_TEMPLATE, TakenApart};
use crate::token::TokenType;

pub(super) const SPEC: Spec = Spec {
    name: "string",
    title: "Strings",
    right: Some(Right {
        token_type: TokenType::String2IncludeLetter,
        token_types: &[
            TokenType::String2IncludeLetter,
            TokenType::String3IncludeLetter,
            TokenType::String2OnlyNumber,
            TokenType::String3OnlyNumber,
        ],
        wanted: "the string2 and string3 types",
    }),
    unit: Bucket::Day,
    durable: Durable::Block { number: 2 },
    form: Form::Template { default: DEFAULT_TEMPLATE },
    // People read strings and expect the serial to start anew.
    definition: Some(Definable { everyday_reset: true, shared_serials: false }),
    readings: |text, known| known.of(Kind::String).filter_map(|namespace| reading(text, namespace)).collect(),
};

fn reading(text: &str, namespace: &Namespace) -> Option<Reading> {
    let template = namespace.template()?;
    let TakenApart { day, token, serial, parts } = template.read(text).ok()?;
    // A bucket counts local days, so any offset gives the same date.
    let date = UtcOffset::default().date(day)?;
    Some(Reading {
        names: vec![namespace.name().clone()],
        time: Some(date.to_string()),
        token: Some(TokenText::Characters(token.text())),
        serial: Some(serial),
        template: Some(template.source().to_owned()),
        parts,
        ..Reading::of(Kind::String)
    })
}
