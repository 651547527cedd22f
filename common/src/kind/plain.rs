//! Plain numbers: they carry neither time nor token, so nothing can be read from one but which names may have given it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Bucket, Definable, Durable, Form, Kind, Known, Reading, Spec, TextForm};
use crate::namespace::Namespace;

pub(super) const SEGMENT: Spec = Spec {
    name: "segment",
    title: "Segments",
    right: None,
    unit: Bucket::Ever,
    durable: Durable::Ranges { number: 4 },
    form: Form::Plain,
    definition: Some(Definable { everyday_reset: false, shared_serials: false }),
    readings: |text, known| {
        readings(text, known, Kind::Segment, |namespace, number| {
            namespace.segments().is_some_and(|definition| definition.has(number))
        })
    },
};

pub(super) const SEQUENCE: Spec = Spec {
    name: "sequence",
    title: "Sequences",
    right: None,
    unit: Bucket::Ever,
    durable: Durable::Ranges { number: 5 },
    form: Form::Keyed,
    definition: Some(Definable { everyday_reset: false, shared_serials: false }),
    readings: |text, known| {
        readings(text, known, Kind::Sequence, |namespace, number| {
            namespace.sequences().is_some_and(|definition| (1..=definition.width().last()).contains(&number))
        })
    },
};

fn readings(text: &str, known: &Known<'_>, kind: Kind, has: impl Fn(&Namespace, u64) -> bool) -> Vec<Reading> {
    let Some(number) = text.parse().ok().filter(|number: &u64| number.to_string() == text) else { return Vec::new() };
    let names: Vec<_> = known.of(kind).filter(|it| has(it, number)).map(|it| it.name().clone()).collect();
    let reading = Reading { names, form: Some(TextForm::Decimal), ..Reading::of(kind) };
    Some(reading).filter(|reading| !reading.names.is_empty()).into_iter().collect()
}
