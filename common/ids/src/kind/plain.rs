//! Plain numbers: they carry neither time nor token, so nothing can be read from one but which names may have given it.

use super::{Bucket, Definable, Durable, Form, Kind, Known, Reading, Spec, TextForm, TextForms};
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
    known.of(kind).flat_map(|namespace| readings_by(text, namespace, known, |number| has(namespace, number))).collect()
}

/// The reading of a text that the name's encoding gives, and that of a number as it leaves beside its texts: digits may be both.
fn readings_by(text: &str, namespace: &Namespace, known: &Known<'_>, has: impl Fn(u64) -> bool) -> Vec<Reading> {
    let named = || Reading { names: vec![namespace.name().clone()], ..Reading::of(namespace.kind()) };
    let digits = || {
        let number: u64 = text.parse().ok()?;
        let is_one = has(number) && number.to_string() == text;
        is_one.then(|| Reading { form: Some(TextForm::Decimal), ..named() })
    };
    let Some(written) = namespace.written() else { return Vec::from_iter(digits()) };
    let Ok(encoding) = written.plain(known.secrets) else {
        return Vec::from_iter(Reading::unread(namespace, written, text));
    };
    let read = encoding.read(text).or_else(|| encoding.read_spelled(text));
    let by_digits = digits().filter(|_| !encoding.hides());
    let Some(number) = read.filter(|number| u64::try_from(*number).is_ok_and(&has)) else {
        return Vec::from_iter(by_digits);
    };
    let texts = TextForms::of(|form| match form {
        TextForm::Uri => String::new(),
        form => encoding.plain(form).text(number).unwrap_or_default(),
    });
    let form = written.source().form();
    let plain = (!encoding.is_respelled()).then(|| TextForm::of(form)).flatten();
    let own = Reading { form: plain, hidden: form.hides(), texts: Some(texts), ..named() };
    let other = by_digits.filter(|_| text.parse() != Ok(number));
    [own].into_iter().chain(other).collect()
}
