//! Plain numbers: they carry neither time nor token, so nothing can be read from one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Bucket, Definable, Durable, Form, Spec};

pub(super) const SEGMENT: Spec = Spec {
    name: "segment",
    title: "Segments",
    right: None,
    unit: Bucket::Ever,
    durable: Durable::Ranges { number: 4 },
    form: Form::Plain,
    numbers: None,
    definition: Some(Definable { everyday_reset: false, shared_serials: false }),
    readings: |_, _| Vec::new(),
};

pub(super) const SEQUENCE: Spec = Spec {
    name: "sequence",
    title: "Sequences",
    right: None,
    unit: Bucket::Ever,
    durable: Durable::Ranges { number: 5 },
    form: Form::Keyed,
    numbers: None,
    definition: Some(Definable { everyday_reset: false, shared_serials: false }),
    readings: |_, _| Vec::new(),
};
