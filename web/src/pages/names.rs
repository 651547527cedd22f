//! The generators' names: their definitions, their owners, and how they are found.

use super::bits::{kind_drawing, layout_picture};
use super::name::{href, per};
use super::{Frame, PageContext, Parts, rows};
use crate::auth::Role;
use crate::masters::NamespaceRow;
use crate::names::NamespaceFilter;
use crate::preferences::Choice;
use crate::problem::Problem;
use crate::query::escaped;
use crate::text::grouped;
use crate::words::{Words, fill};
use askama::Template;
use common::about::About;
use common::calendar::UtcOffset;
use common::encoding::{EncodingForm, EncodingSource, WrittenAs};
use common::kind::Kind;
use common::namespace::{At, Namespace, Scope};
use common::time::WallMs;
use common::token::TokenType;

#[derive(Template)]
#[template(path = "namespaces.html")]
struct NamespacesPage<'a> {
    frame: Frame,
    parts: &'a Parts,
    types: Vec<&'static str>,
    /// Encodings that need nothing but their name, of numbers that have no layout.
    forms: Vec<FormOffered>,
    /// The encodings among them that take a length, with `|` between them.
    long_forms: String,
    search: String,
    application: String,
    owner: String,
    label: String,
    kinds: Vec<Choice>,
    filtered: bool,
}

/// An encoding in the form by which a name is registered.
struct FormOffered {
    name: &'static str,
    /// The kinds whose numbers it may write, with `|` between them.
    kinds: &'static str,
}

impl FormOffered {
    fn of(form: EncodingForm) -> Self {
        let kinds = if form.hides().is_some() { "uniq64|segment" } else { "uniq64|segment|sequence" };
        Self { name: form.name(), kinds }
    }
}

fn forms_offered() -> impl Iterator<Item = EncodingForm> {
    let needs_nothing = |form: &EncodingForm| WrittenAs::new(EncodingSource::Name(*form), u64::BITS).is_ok();
    EncodingForm::ALL.into_iter().filter(needs_nothing)
}

pub(super) fn page(frame: Frame, filter: &NamespaceFilter, parts: &Parts) -> Result<String, askama::Error> {
    let types = TokenType::ALL.into_iter().filter(|kind| kind.family().width().is_some()).map(TokenType::name);
    let choice = |kind: Kind| Choice { value: kind.name(), name: kind.name(), chosen: filter.kind == Some(kind) };
    NamespacesPage {
        frame,
        parts,
        types: types.collect(),
        forms: forms_offered().map(FormOffered::of).collect(),
        long_forms: forms_offered()
            .filter(|form| form.takes_length())
            .map(EncodingForm::name)
            .collect::<Vec<_>>()
            .join("|"),
        search: filter.search.as_ref().map(ToString::to_string).unwrap_or_default(),
        application: filter.application.as_ref().map(ToString::to_string).unwrap_or_default(),
        owner: filter.owner.as_ref().map(ToString::to_string).unwrap_or_default(),
        label: filter.label.as_ref().map(ToString::to_string).unwrap_or_default(),
        kinds: Kind::NAMED.map(choice).into(),
        filtered: *filter != NamespaceFilter::default(),
    }
    .render()
}

pub(super) async fn parts(page: &PageContext<'_>, filter: &NamespaceFilter, parts: &mut Parts) -> Result<(), Problem> {
    let all = rows(page.masters.namespaces()).await?;
    let offset = rows(page.masters.settings()).await?.utc_offset.parse().unwrap_or_default();
    let shown: Vec<Shown> =
        all.iter().filter(|row| filter.admits(row)).map(|row| Shown::new(row, page, offset)).collect();
    let (admin, gated) = (page.key.role >= Role::Admin, page.snapshot.gated());
    let number = |n: usize| grouped(u64::try_from(n).unwrap_or(u64::MAX));
    let count = fill(page.w.names_shown, &[&number(shown.len()), &number(all.len())]);
    parts.add("rows", &NamespacesPart { w: page.w, rows: shown, admin, gated })?;
    parts.add("count", &Count { count })?;
    Ok(())
}

#[derive(Template)]
#[template(source = "{{ count }}", ext = "html")]
struct Count {
    count: String,
}

/// The note about a name, as it is shown.
pub(super) struct Noted {
    pub(super) description: String,
    pub(super) application: String,
    pub(super) owner: String,
    /// Labels as text, and where the others are that have it.
    pub(super) labels: Vec<(String, String)>,
    pub(super) is_empty: bool,
}

impl Noted {
    pub(super) fn new(about: &About) -> Self {
        let label = |(key, value): (&String, &String)| {
            let text = if value.is_empty() { key.clone() } else { format!("{key}={value}") };
            (text.clone(), format!("/namespaces?label={}", escaped(&text)))
        };
        Self {
            description: about.description().to_owned(),
            application: about.application().to_owned(),
            owner: about.owner().to_owned(),
            labels: about.labels().iter().map(label).collect(),
            is_empty: about.is_empty(),
        }
    }
}

#[derive(Template)]
#[template(path = "namespaces_rows.html")]
struct NamespacesPart {
    w: &'static Words,
    rows: Vec<Shown>,
    admin: bool,
    gated: bool,
}

/// A name as it is shown, in the table and on its own page.
pub(super) struct Shown {
    key: String,
    pub(super) href: String,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) template: String,
    pub(super) token_type: &'static str,
    pub(super) capacity: String,
    pub(super) resets: bool,
    pub(super) step: String,
    /// Its plugins as the definition has them, in the order there.
    pub(super) plugins: Vec<String>,
    /// The encoding of a layout's numbers, as the definition has it; empty for other kinds.
    pub(super) encoding: String,
    pub(super) example: String,
    /// The bits of its numbers.
    pub(super) drawing: Option<String>,
    pub(super) registered_by: String,
    pub(super) own: bool,
    pub(super) retired: bool,
    pub(super) leased: bool,
    pub(super) noted: Noted,
}

impl Shown {
    /// The predefined ones always exist.
    pub(super) fn retirable(&self) -> bool {
        !self.retired && !self.registered_by.is_empty()
    }

    pub(super) fn new(row: &NamespaceRow, page: &PageContext<'_>, offset: UtcOffset) -> Self {
        let (w, namespace) = (page.w, &row.namespace);
        Self {
            href: href(row),
            noted: Noted::new(&row.about),
            key: format!("namespace-{}-{}", namespace.kind(), namespace.name()),
            name: namespace.name().to_string(),
            kind: namespace.kind().name(),
            template: namespace.template().map(|template| template.source().to_owned()).unwrap_or_default(),
            token_type: namespace.token_type().map_or("", TokenType::name),
            capacity: fill(per(namespace.kind(), w), &[&grouped(row.capacity)]),
            resets: namespace.everyday_reset(),
            // Layouts go by none.
            step: if namespace.layout().is_none() { grouped(namespace.step().into()) } else { String::new() },
            plugins: namespace.plugins().iter().filter_map(|spec| serde_json::to_string(spec).ok()).collect(),
            encoding: match namespace.encoding() {
                Some(EncodingSource::Name(form)) => form.name().to_owned(),
                Some(source) => serde_json::to_string(source).unwrap_or_default(),
                None => String::new(),
            },
            example: example(namespace, page.snapshot.now, offset).unwrap_or_default(),
            drawing: drawing_of(namespace, w),
            registered_by: row.registered_by.clone(),
            own: namespace.scope() == Scope::Own,
            retired: row.retired,
            leased: row.leased,
        }
    }
}

fn drawing_of(namespace: &Namespace, w: &'static Words) -> Option<String> {
    match namespace.layout() {
        Some(definition) => Some(layout_picture(definition.layout(), None, w).drawing),
        None => kind_drawing(namespace.kind(), w),
    }
}

/// An ID of today as this namespace writes it.
fn example(namespace: &Namespace, now: WallMs, offset: UtcOffset) -> Option<String> {
    namespace.examples(&At::keyless(now, offset)).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::namespace::{Definition, StringSpec};

    /// Each encoding is tried with each kind, and with a length.
    #[test]
    fn the_form_offers_the_encodings_that_a_registration_takes() {
        let takes = |kind: &str, encoding: serde_json::Value| {
            let definition = serde_json::json!({ "kind": kind, "encoding": encoding });
            let definition: Definition = serde_json::from_value(definition).unwrap();
            Namespace::define("orders".parse().unwrap(), &definition).is_ok()
        };
        for form in forms_offered() {
            let offered = FormOffered::of(form);
            for kind in ["uniq64", "segment", "sequence"] {
                assert_eq!(
                    takes(kind, form.name().into()),
                    offered.kinds.split('|').any(|one| one == kind),
                    "{kind} {form:?}"
                );
                let long = serde_json::json!({ "form": form.name(), "length": 24 });
                let is_offered = offered.kinds.contains(kind);
                assert_eq!(takes(kind, long), is_offered && form.takes_length(), "{kind} {form:?} of 24 characters");
            }
        }
        assert!(forms_offered().any(|form| form.hides().is_some()) && forms_offered().any(|form| !form.takes_length()));
    }

    #[test]
    fn an_example_is_one_of_its_own_namespace() {
        let now = WallMs(1_795_179_906_000);
        let text = |token_type: &str, template| {
            Definition::String(StringSpec { token_type: Some(token_type.to_owned()), ..StringSpec::of(template) })
        };
        for (definition, id) in [
            (Definition::default(), "3851818012122284074"),
            (text("string2-only-number", "{date:%Y%m%d}{token}{serial:6}"), "2026112012000042"),
            (text("string3-include-letter", "{date:%Y%m%d}{biz:2}{token}{serial:6}"), "20261120AA012000042"),
        ] {
            let namespace = Namespace::define("orders".parse().unwrap(), &definition).unwrap();
            assert_eq!(example(&namespace, now, UtcOffset::default()).unwrap(), id);
        }
    }
}
