//! Checks of a request against a definition.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Form, MintRequest};
use crate::refusal::Refusal;
use common::encoding::{self, EncodingSource};
use common::kind::{Form as KindForm, Kind, TextForm};
use common::namespace::Namespace;
use common::template::{CallerParts, Template};

/// Refuses a number of IDs that no answer has.
pub(super) fn within(n: u32, max: u32) -> Result<(), Refusal> {
    if (1..=max).contains(&n) {
        return Ok(());
    }
    Err(Refusal::BadParameter(format!("n: {n} is not a number from 1 to {max}")))
}

/// Refuses a kind whose numbers are asked for by key.
pub(super) fn without_keys(kind: Kind) -> Result<(), Refusal> {
    match kind.spec().form {
        KindForm::Keyed => {
            let why = "this name gives each key numbers of its own: ask at /sequence/NAME/KEY";
            Err(Refusal::BadParameter(why.to_owned()))
        }
        _ => Ok(()),
    }
}

/// The caller's parts of a request that a name of that kind and definition answers.
pub(super) fn fits(request: &MintRequest<'_>, kind: Kind, namespace: &Namespace) -> Result<CallerParts, Refusal> {
    let template = namespace.template();
    if let Some(asked) = request.kind.filter(|asked| *asked != kind) {
        return Err(Refusal::unknown(asked, request.name));
    }
    without_keys(kind)?;
    within(request.n, request.n_max)?;
    let bad = |why: String| Err(Refusal::BadParameter(why));
    let hides = || namespace.encoding().map(EncodingSource::form).is_some_and(|form| form.hides().is_some());
    match (request.form, &kind.spec().form) {
        (Form::Numbers, KindForm::Template { .. }) => {
            return bad("strings have no packed form: ask for text or JSON".to_owned());
        }
        (Form::Numbers | Form::Streamed(Some(_)), _) if hides() => return Err(Refusal::OnlyTexts),
        (Form::Streamed(Some(_)), KindForm::Template { .. } | KindForm::Plain | KindForm::Keyed) => {
            return bad(format!("format: there is one form of the IDs of a {kind}; leave format out"));
        }
        (Form::Streamed(Some(_)), KindForm::Number { .. }) if namespace.encoding().is_some() => {
            return bad("format: this name has an encoding; leave format out".to_owned());
        }
        (Form::Streamed(Some(TextForm::Uri)), KindForm::Layout { .. }) => {
            return bad("format: layouts have no uri; there are decimal, hex and base32".to_owned());
        }
        (Form::Texts, _) => {
            let len = template.map_or(encoding::LEN_MAX as usize, |template| template.len());
            within(request.n, request.n_max.min((request.texts_max)(len)))?;
        }
        (Form::Numbers | Form::Streamed(_), _) => {}
    }
    let Some(template) = template else {
        return match (request.biz, request.custom) {
            (None, None) => Ok(CallerParts::default()),
            _ => bad(format!("biz and custom are for strings, and '{}' is a {kind}", namespace.name())),
        };
    };
    let parts = template.check_caller(request.biz, request.custom);
    parts.map_err(|e| Refusal::BadParameter(format!("{e}; over HTTP the request is {}", example(namespace, template))))
}

/// A request that would be understood, e.g. `/string?biz=AAAA&custom=AA`.
fn example(namespace: &Namespace, template: &Template) -> String {
    let (kind, name) = (namespace.kind(), namespace.name());
    let path = if name.is_default() { format!("/{kind}") } else { format!("/{kind}/{name}") };
    let part = |name: &str, len: Option<u32>| len.map(|len| format!("{name}={}", "A".repeat(len as usize)));
    let parts = [part("biz", template.biz_len()), part("custom", template.custom_len())];
    let query = parts.into_iter().flatten().collect::<Vec<_>>().join("&");
    if query.is_empty() { path } else { format!("{path}?{query}") }
}
