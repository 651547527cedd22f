//! The whitelist: a short table with what may be done to it.

use super::{Frame, PageContext, Parts, rows};
use crate::auth::Role;
use crate::problem::Problem;
use crate::text::grouped;
use crate::words::Words;
use askama::Template;

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

/// The number of addresses of a network: `16,777,216`, or `2^64` where that says more.
fn size_of(network: &str) -> String {
    let Some((address, length)) = network.split_once('/') else { return "1".to_owned() };
    let whole: u32 = if address.contains(':') { 128 } else { 32 };
    let bits = length.parse().map_or(0, |length: u32| whole.saturating_sub(length));
    if bits <= 32 { grouped(1_u64 << bits) } else { format!("2^{bits}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_say_how_large_they_are() {
        let sizes = ["10.0.0.0/8", "10.0.0.1/32", "::/0", "::1/128", "10.0.0.0/24"].map(size_of);
        assert_eq!(sizes, ["16,777,216", "1", "2^128", "1", "256"]);
    }
}
