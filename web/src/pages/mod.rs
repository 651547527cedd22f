//! The pages: what each of them shows, as it is first sent and as it is replaced live.
//!
//! A page is made of a frame that all share, of what stands still, and of *parts*: pieces of HTML, each the content of
//! the element whose id is its name, which [`crate::live`] renders anew while somebody watches.

mod agent;
mod agents;
mod audit;
mod axes;
mod bits;
mod designer;
mod explain;
mod frame;
mod lease;
mod leases;
mod name;
mod names;
mod overview;
mod picture;
mod sequences;
mod settings;
mod status;
mod tables;
mod template;
mod users;

pub(crate) use designer::{designer, designer_part};
pub(crate) use explain::take_apart;
use frame::Frame;
pub(crate) use frame::Visitor;
pub(crate) use template::{template_designer, template_facts, template_part};
pub(crate) use users::users;

use crate::ask::{self, Snapshot};
use crate::auth::Role;
use crate::commands::Commands;
use crate::masters::{Masters, Unavailable};
use crate::names::NamespaceFilter;
use crate::problem::Problem;
use crate::query::{NamespacesQuery, SectionsQuery, given};
use crate::words::{Lang, Words};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts as Head;
use common::kind::{Bucket, Kind};
use common::parameters::AgentId;
use common::time::WallMs;
use common::token::{TokenKey, TokenType};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The viewer of a page, as far as that makes a difference to its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ViewKey {
    pub(crate) lang: Lang,
    pub(crate) role: Role,
}

/// A page to be shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Overview,
    Leases(leases::LeasesView),
    Lease(TokenKey),
    Agents(agents::AgentsView),
    Agent(AgentId),
    Namespaces(NamespaceFilter),
    Name(name::NameView),
    Axes,
    Sequences(sequences::SequencesView),
    Whitelist,
    Audit(audit::AuditView),
    /// Pages of which only the frame changes by itself.
    Static(Static),
}

/// Pages that nothing happens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Static {
    Designer,
    Templates,
    Explain,
    Users,
    Settings,
}

/// A viewer's look at a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct View {
    pub(crate) key: ViewKey,
    pub(crate) what: What,
}

/// Pieces of HTML by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(Vec<(&'static str, String)>);

impl Parts {
    fn add(&mut self, name: &'static str, part: &impl askama::Template) -> Result<(), askama::Error> {
        self.0.push((name, part.render()?));
        Ok(())
    }

    /// The part of that name; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, html)| html)
    }

    pub(crate) fn changed_since<'a>(&'a self, shown: Option<&Self>) -> Vec<(&'static str, &'a str)> {
        let is_news = |name: &str, html: &str| shown.is_none_or(|shown| shown.get(name) != html);
        self.0.iter().filter(|(name, html)| is_news(name, html)).map(|(name, html)| (*name, html.as_str())).collect()
    }
}

/// The parts of `view`, as they are now.
pub(crate) async fn parts(context: &Context<'_>, view: &View, snapshot: &Snapshot) -> Result<Parts, Problem> {
    let mut parts = Parts::default();
    let page = PageContext {
        masters: context.masters,
        commands: context.commands,
        snapshot,
        key: view.key,
        w: view.key.lang.words(),
    };
    parts.add("status", &status::StatusPart::new(snapshot, page.w))?;
    match &view.what {
        What::Overview => overview::parts(&page, &mut parts).await?,
        What::Leases(leases) => leases::parts(&page, leases, &mut parts).await?,
        What::Lease(key) => lease::parts(&page, *key, &mut parts).await?,
        What::Agents(agents) => agents::parts(&page, agents, &mut parts).await?,
        What::Agent(agent_id) => agent::parts(&page, agent_id, &mut parts).await?,
        What::Namespaces(filter) => names::parts(&page, filter, &mut parts).await?,
        What::Name(name) => name::parts(&page, name, &mut parts).await?,
        What::Axes => axes::parts(&page, &mut parts).await?,
        What::Sequences(view) => sequences::parts(&page, view, &mut parts).await?,
        What::Whitelist => tables::whitelist(&page, &mut parts).await?,
        What::Audit(audit) => audit::parts(&page, audit, &mut parts).await?,
        What::Static(_) => {}
    }
    Ok(parts)
}

/// The whole page.
pub(crate) async fn page(context: &Context<'_>, visitor: &Visitor, what: What) -> Result<String, Problem> {
    let view = View { key: visitor.key(), what };
    let Context { masters, .. } = *context;
    let snapshot = ask::snapshot(masters).await?;
    let parts = parts(context, &view, &snapshot).await?;
    let frame = Frame::new(visitor, &view.what, &snapshot, masters.test_clock(), &parts);
    Ok(match &view.what {
        What::Overview => overview::page(frame, &parts)?,
        What::Leases(leases) => leases::page(frame, leases, &parts)?,
        What::Lease(key) => lease::page(frame, *key, &parts)?,
        What::Agents(agents) => agents::page(frame, agents, &parts)?,
        What::Agent(agent_id) => agent::page(frame, agent_id, &parts)?,
        What::Namespaces(filter) => names::page(frame, filter, &parts)?,
        What::Name(name) => name::page(masters, frame, name, &parts).await?,
        What::Axes => axes::page(frame, &parts)?,
        What::Sequences(view) => sequences::page(masters, frame, view, &parts).await?,
        What::Whitelist => tables::whitelist_page(frame, &parts)?,
        What::Audit(audit) => audit::page(frame, audit, &parts)?,
        What::Static(Static::Settings) => settings::page(masters, frame).await?,
        What::Static(Static::Designer | Static::Templates | Static::Explain | Static::Users) => {
            return Err(Problem::not_found());
        }
    })
}

pub(crate) async fn explained(context: &Context<'_>, visitor: &Visitor, id: &str) -> Result<String, Problem> {
    let frame = still_frame(context, visitor, Static::Explain).await?;
    explain::page(context.masters, frame, id).await
}

/// The frame of a page that nothing happens on.
async fn still_frame(context: &Context<'_>, visitor: &Visitor, still: Static) -> Result<Frame, Problem> {
    let view = View { key: visitor.key(), what: What::Static(still) };
    let Context { masters, .. } = *context;
    let snapshot = ask::snapshot(masters).await?;
    let parts = parts(context, &view, &snapshot).await?;
    Ok(Frame::new(visitor, &view.what, &snapshot, masters.test_clock(), &parts))
}

/// The services that pages ask.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) masters: &'a dyn Masters,
    pub(crate) commands: &'a dyn Commands,
}

/// The data that a part is made from.
struct PageContext<'a> {
    masters: &'a dyn Masters,
    commands: &'a dyn Commands,
    snapshot: &'a Snapshot,
    key: ViewKey,
    w: &'static Words,
}

impl PageContext<'_> {
    fn when(&self, at: WallMs) -> crate::text::When {
        crate::text::When::new(at, self.snapshot.now, crate::text::Grain::Minute, self.w)
    }
}

/// Reads the view that an address means. A path or query that cannot be meant is refused.
impl<S: Send + Sync> FromRequestParts<S> for What {
    type Rejection = Problem;
    async fn from_request_parts(head: &mut Head, state: &S) -> Result<Self, Problem> {
        let path = head.uri.path();
        let path = path.strip_prefix("/events").unwrap_or(path).to_owned();
        Ok(match path.trim_end_matches('/') {
            "" => query::<Nothing, S>(head, state).await.map(|_| Self::Overview)?,
            "/leases" => Self::Leases(query::<leases::LeasesQuery, S>(head, state).await?.try_into()?),
            "/agents" => Self::Agents(query::<agents::AgentsQuery, S>(head, state).await?.try_into()?),
            "/namespaces" => Self::Namespaces(query::<NamespacesQuery, S>(head, state).await?.try_into()?),
            "/axes" => query::<Nothing, S>(head, state).await.map(|_| Self::Axes)?,
            "/sequences" => Self::Sequences(query::<SectionsQuery, S>(head, state).await?.try_into()?),
            "/whitelist" => Self::Whitelist,
            "/audit" => Self::Audit(query::<audit::AuditViewQuery, S>(head, state).await?.try_into()?),
            "/designer" => Self::Static(Static::Designer),
            "/designer/template" => Self::Static(Static::Templates),
            "/explain" => Self::Static(Static::Explain),
            "/users" => Self::Static(Static::Users),
            "/settings" => Self::Static(Static::Settings),
            _ if path.starts_with("/agents/") => {
                let name = path.strip_prefix("/agents/").map(|rest| rest.trim_end_matches('/'));
                Self::Agent(name.and_then(|name| name.parse().ok()).ok_or_else(Problem::not_found)?)
            }
            _ if path.starts_with("/namespaces/") => {
                let name =
                    path.strip_prefix("/namespaces/").and_then(|rest| rest.trim_end_matches('/').split_once('/'));
                let view = name.and_then(|(kind, name)| name::NameView::parse(kind, name));
                Self::Name(view.ok_or_else(Problem::not_found)?)
            }
            _ => {
                let token = path.strip_prefix("/leases/").and_then(|rest| rest.split_once('/'));
                let (token_type, token) = token.ok_or_else(Problem::not_found)?;
                Self::Lease(token_key(token_type, token)?)
            }
        })
    }
}

/// The query of a page that has none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn query<T: DeserializeOwned, S: Send + Sync>(head: &mut Head, state: &S) -> Result<T, Problem> {
    let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(head, state).await;
    query.map(|Query(query)| query).map_err(|e| Problem::bad_parameter(e.body_text()))
}

/// A token as it stands in an address: `uint2/5`.
pub(crate) fn token_key(token_type: &str, token: &str) -> Result<TokenKey, Problem> {
    let token_type: TokenType =
        given("type", token_type)?.ok_or_else(|| Problem::bad_parameter("the type of the token is missing"))?;
    TokenKey::parse(token_type.family(), token)
        .ok_or_else(|| Problem::bad_parameter(format!("this is not a token of type {token_type}")))
}

/// The unit of time in which a token has so many IDs of a kind.
fn unit(kind: &str, w: &'static Words) -> &'static str {
    match kind.parse::<Kind>().map(|kind| kind.spec().unit) {
        Ok(Bucket::Hour) => w.hour,
        _ => w.day,
    }
}

/// Waits for rows, but not for ever.
async fn rows<T>(answer: futures::future::BoxFuture<'_, Result<T, Unavailable>>) -> Result<T, Problem> {
    Ok(ask::within(answer).await?)
}

/// The type under whose name a token stands in addresses: the widest of its family.
fn widest(key: TokenKey) -> TokenType {
    use common::token::TokenFamily::{String2, String3, Uint};
    match key.family {
        String2 => TokenType::String2IncludeLetter,
        String3 => TokenType::String3IncludeLetter,
        Uint => TokenType::Uint2,
    }
}

/// The address of a token's own page.
fn lease_href(key: TokenKey) -> String {
    format!("/leases/{}/{}", widest(key).name(), key.text())
}
