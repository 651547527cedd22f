//! Namespaces and the whitelist: short tables with what may be done to them.

use super::bits::{kind_drawing, layout_picture};
use super::{Frame, PageContext, Parts, rows};
use crate::auth::Role;
use crate::masters::NamespaceRow;
use crate::problem::Problem;
use crate::text::{grouped, short};
use crate::words::{Words, fill};
use askama::Template;
use common::calendar::UtcOffset;
use common::kind::Bucket;
use common::namespace::{Namespace, Scope};
use common::time::WallMs;
use common::token::{TokenType, TokenValue};

/// The token and the serial of an example: the token is `12` as characters, which every type of string has.
const EXAMPLE_TOKEN: u32 = 38;
const EXAMPLE_SERIAL: u32 = 42;

#[derive(Template)]
#[template(path = "namespaces.html")]
struct NamespacesPage<'a> {
    frame: Frame,
    parts: &'a Parts,
    types: Vec<&'static str>,
}

pub(super) fn namespaces_page(frame: Frame, parts: &Parts) -> Result<String, askama::Error> {
    let types = TokenType::ALL.into_iter().filter(|kind| kind.family().width().is_some()).map(TokenType::name);
    NamespacesPage { frame, parts, types: types.collect() }.render()
}

pub(super) async fn namespaces(page: &PageContext<'_>, parts: &mut Parts) -> Result<(), Problem> {
    let all = rows(page.masters.namespaces()).await?;
    let offset = rows(page.masters.settings()).await?.utc_offset.parse().unwrap_or_default();
    let shown = all.iter().map(|row| NamespaceShown::new(row, page, offset)).collect();
    let (admin, gated) = (page.key.role >= Role::Admin, page.snapshot.gated());
    parts.add("rows", &NamespacesPart { w: page.w, rows: shown, admin, gated })?;
    Ok(())
}

#[derive(Template)]
#[template(path = "namespaces_rows.html")]
struct NamespacesPart {
    w: &'static Words,
    rows: Vec<NamespaceShown>,
    admin: bool,
    gated: bool,
}

struct NamespaceShown {
    key: String,
    name: String,
    kind: &'static str,
    template: String,
    token_type: String,
    capacity: String,
    capacity_exact: String,
    resets: bool,
    step: String,
    example: String,
    /// The bits of its numbers.
    drawing: Option<String>,
    registered_by: String,
    own: bool,
    retired: bool,
    leased: bool,
}

impl NamespaceShown {
    /// The predefined ones always exist.
    fn retirable(&self) -> bool {
        !self.retired && !self.registered_by.is_empty()
    }

    fn new(row: &NamespaceRow, page: &PageContext<'_>, offset: UtcOffset) -> Self {
        let (w, definition) = (page.w, &row.definition);
        let per = match definition.kind.spec().unit {
            Bucket::Day => w.capacity_day,
            Bucket::Hour | Bucket::Millisecond => w.capacity_hour,
            Bucket::Tick => w.capacity_tick,
        };
        Self {
            key: format!("namespace-{}-{}", definition.kind, row.name),
            name: row.name.to_string(),
            kind: definition.kind.name(),
            template: definition.template.clone().unwrap_or_default(),
            token_type: definition.token_type.clone().unwrap_or_default(),
            capacity: fill(per, &[&short(row.capacity)]),
            capacity_exact: grouped(row.capacity),
            resets: definition.everyday_reset.unwrap_or_default(),
            step: definition.step.map(|step| grouped(step.into())).unwrap_or_default(),
            example: example(row, page.snapshot.now, offset).unwrap_or_default(),
            drawing: drawing_of(row, w),
            registered_by: row.registered_by.clone(),
            own: definition.scope == Some(Scope::Own),
            retired: row.retired,
            leased: row.leased,
        }
    }
}

fn drawing_of(row: &NamespaceRow, w: &'static Words) -> Option<String> {
    let namespace = Namespace::define(row.name.clone(), &row.definition).ok()?;
    match namespace.layout() {
        Some(definition) => Some(layout_picture(definition.layout(), None, w).drawing),
        None => kind_drawing(namespace.kind(), w),
    }
}

/// An ID of today as this namespace writes it.
fn example(row: &NamespaceRow, now: WallMs, offset: UtcOffset) -> Option<String> {
    let namespace = Namespace::define(row.name.clone(), &row.definition).ok()?;
    namespace.example(offset, now, TokenValue(EXAMPLE_TOKEN), EXAMPLE_SERIAL)
}

#[derive(Template)]
#[template(path = "whitelist.html")]
struct WhitelistPage<'a> {
    frame: Frame,
    parts: &'a Parts,
}

pub(super) fn whitelist_page(frame: Frame, parts: &Parts) -> Result<String, askama::Error> {
    WhitelistPage { frame, parts }.render()
}

pub(super) async fn whitelist(page: &PageContext<'_>, parts: &mut Parts) -> Result<(), Problem> {
    let networks = rows(page.masters.whitelist()).await?;
    let shown = networks.into_iter().map(|row| Network { size: size_of(&row.network), range: row.network });
    let (admin, gated) = (page.key.role >= Role::Admin, page.snapshot.gated());
    parts.add("rows", &WhitelistPart { w: page.w, rows: shown.collect(), admin, gated })?;
    Ok(())
}

#[derive(Template)]
#[template(path = "whitelist_rows.html")]
struct WhitelistPart {
    w: &'static Words,
    rows: Vec<Network>,
    admin: bool,
    gated: bool,
}

struct Network {
    range: String,
    size: String,
}

/// How many addresses a network has: `16.7 M`, or `2^64` where that says more.
fn size_of(network: &str) -> String {
    let Some((address, length)) = network.split_once('/') else { return "1".to_owned() };
    let whole: u32 = if address.contains(':') { 128 } else { 32 };
    let bits = length.parse().map_or(0, |length: u32| whole.saturating_sub(length));
    if bits <= 20 {
        grouped(1_u64 << bits)
    } else if bits <= 32 {
        short(1_u64 << bits)
    } else {
        format!("2^{bits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::kind::Kind;

    #[test]
    fn networks_say_how_large_they_are() {
        let sizes = ["10.0.0.0/8", "10.0.0.1/32", "::/0", "::1/128", "10.0.0.0/24"].map(size_of);
        assert_eq!(sizes, ["16.7 M", "1", "2^128", "1", "256"]);
    }
    #[test]
    fn an_example_is_one_of_its_own_namespace() {
        let now = WallMs(1_795_179_906_000);
        for (token_type, template, id) in [
            (None, None, "3851818012122284074"),
            (Some("string2-only-number"), Some("{date:%Y%m%d}{token}{serial:6}"), "2026112012000042"),
            (Some("string3-include-letter"), Some("{date:%Y%m%d}{biz:2}{token}{serial:6}"), "20261120AA012000042"),
        ] {
            let kind = if template.is_some() { Kind::String } else { Kind::Uniq64 };
            let [token_type, template] = [token_type, template].map(|text| text.map(str::to_owned));
            let definition = common::namespace::Definition { kind, token_type, template, ..Default::default() };
            let row = NamespaceRow {
                name: "orders".parse().unwrap(),
                definition,
                capacity: 1,
                registered_by: String::new(),
                retired: false,
                leased: true,
            };
            assert_eq!(example(&row, now, UtcOffset::default()).unwrap(), id);
        }
    }
}
