//! The frame of every page: links to the others, the visitor, the state of the masters.

use super::{Parts, Static, ViewKey, What};
use crate::ask::Snapshot;
use crate::auth::{Role, Who};
use crate::preferences::{Choice, Preferences, langs, themes};
use crate::text::{When, grouped};
use crate::words::{Words, fill};
use axum::extract::FromRequestParts;
use axum::http::request::Parts as Head;
use axum::response::Response;
use common::clock::TestClock;
use serde_json::json;

/// Somebody who was let in, and how they like their pages.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) who: Who,
    pub(crate) preferences: Preferences,
}

impl Visitor {
    pub(crate) fn key(&self) -> ViewKey {
        ViewKey { lang: self.preferences.lang, role: self.who.role }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Response;
    async fn from_request_parts(head: &mut Head, state: &S) -> Result<Self, Response> {
        let preferences = Preferences::of(&head.headers);
        Ok(Self { who: Who::from_request_parts(head, state).await?, preferences })
    }
}

/// A way to a page.
pub(crate) struct NavLink {
    pub(crate) href: &'static str,
    pub(crate) name: &'static str,
    /// The picture's name in `icons.svg`.
    pub(crate) icon: &'static str,
    pub(crate) here: bool,
}

/// The values that `base.html` needs.
pub(crate) struct Frame {
    pub(crate) w: &'static Words,
    pub(crate) lang: &'static str,
    pub(crate) theme: &'static str,
    pub(crate) title: String,
    pub(crate) master: String,
    pub(crate) links: Vec<NavLink>,
    pub(crate) who: String,
    pub(crate) role_name: &'static str,
    pub(crate) csrf: String,
    pub(crate) langs: Vec<Choice>,
    pub(crate) themes: Vec<Choice>,
    pub(crate) test_clock: Option<String>,
    pub(crate) status: String,
    /// Texts of the script, as JSON.
    pub(crate) script_words: String,
    /// True if the visitor may change leases and namespaces.
    pub(crate) operator: bool,
    /// True if the visitor may change everything.
    pub(crate) admin: bool,
    /// True if changes have to wait for the other master.
    pub(crate) gated: bool,
}

impl Frame {
    pub(crate) fn new(
        visitor: &Visitor,
        what: &What,
        snapshot: &Snapshot,
        test_clock: Option<TestClock>,
        parts: &Parts,
    ) -> Self {
        let (Preferences { lang, theme }, who) = (visitor.preferences, &visitor.who);
        let w = lang.words();
        let links = links(w, who.role, what);
        let title = links.iter().find(|link| link.here).map_or("", |link| link.name).to_owned();
        let this = snapshot.masters.iter().find(|row| row.this);
        Self {
            w,
            lang: lang.tag(),
            theme: theme.name(),
            title,
            master: this.map(|row| fill(w.master, &[&row.id.to_string()])).unwrap_or_default(),
            links,
            who: who.name.clone(),
            role_name: role_name(who.role, w),
            csrf: who.csrf.clone().unwrap_or_default(),
            langs: langs(lang),
            themes: themes(theme, w),
            test_clock: test_clock.map(|clock| {
                let since = When::date(clock.epoch);
                fill(w.test_clock_text, &[&grouped(clock.scale.into()), since.exact()])
            }),
            status: parts.get("status").to_owned(),
            script_words: script_words(w),
            operator: who.role >= Role::Operator,
            admin: who.role >= Role::Admin,
            gated: snapshot.gated(),
        }
    }

    pub(crate) fn titled(self, title: String) -> Self {
        Self { title, ..self }
    }
}

pub(crate) fn role_name(role: Role, w: &'static Words) -> &'static str {
    match role {
        Role::Viewer => w.role_viewer,
        Role::Operator => w.role_operator,
        Role::Admin => w.role_admin,
    }
}

fn links(w: &'static Words, role: Role, what: &What) -> Vec<NavLink> {
    let link = |href, name, icon, here| NavLink { href, name, icon, here };
    let mut links = vec![
        link("/", w.overview, "overview", *what == What::Overview),
        link("/leases", w.leases, "leases", matches!(what, What::Leases(_) | What::Lease(_))),
        link("/agents", w.agents, "agents", matches!(what, What::Agents(_) | What::Agent(_))),
        link("/namespaces", w.namespaces, "namespaces", matches!(what, What::Namespaces(_) | What::Name(_))),
        link("/axes", w.axes, "axes", *what == What::Axes),
        link("/sequences", w.sequences, "sequences", matches!(what, What::Sequences(_))),
        link("/whitelist", w.whitelist, "whitelist", *what == What::Whitelist),
        link("/audit", w.audit, "audit", matches!(what, What::Audit(_))),
        link("/designer", w.designer, "designer", *what == What::Static(Static::Designer)),
        link("/designer/template", w.template_designer, "template", *what == What::Static(Static::Templates)),
        link("/explain", w.explain, "explain", *what == What::Static(Static::Explain)),
    ];
    if role >= Role::Admin {
        links.push(link("/users", w.users, "users", *what == What::Static(Static::Users)));
    } else {
        links.push(link("/users", w.own_password, "users", *what == What::Static(Static::Users)));
    }
    links.push(link("/settings", w.settings, "settings", *what == What::Static(Static::Settings)));
    links
}

fn script_words(w: &Words) -> String {
    json!({
        "live": w.live,
        "notLive": w.not_live,
        "lostTitle": w.lost_title,
        "lostText": w.lost_text,
        "failed": w.failed,
        "unreachable": w.unreachable,
        "copied": w.copied,
    })
    .to_string()
}
