//! Layouts and templates that are only being thought of, and what would come of them.

use super::{ProblemBody, query};
use crate::design::{Draft, Facts, TemplateDraft, TemplateFacts};
use crate::masters::Masters;
use crate::pages;
use crate::preferences::Preferences;
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// A layout: the name of one, perhaps with an epoch, or all of the rest.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "it is only described: what forms send is more")]
pub(crate) struct LayoutQuery {
    /// The name of one that people use: `snowflake`, `leaf`, `uuid7`, ..
    layout: Option<String>,
    /// The width of the number: 53, 63, 64, 96 or 128.
    bits: Option<u32>,
    /// The instant that time counts from: RFC 3339, in milliseconds at most.
    epoch: Option<String>,
    /// The length of a tick in milliseconds; it divides a day.
    unit_ms: Option<u32>,
    /// The fields, the most significant first: `zero:1,time:41,token:10,serial:12`.
    fields: Option<String>,
    /// The time, in milliseconds, that an ID may lie ahead of the clock at most: 0 to 10000.
    ahead_max_ms: Option<u32>,
    /// `decimal`, `hex`, `base32`, `base32hex`, `base62`, `uuid`, `ksuid` or `sqids`.
    encoding: Option<String>,
}

/// Describes what a layout gives, or why it is refused. As `text/html` it is the part of the page `/designer` that follows what is
/// typed: in the reader's language, and with status 200 also where the layout is refused.
#[utoipa::path(
    get, path = "/api/layout", tag = "settings", params(LayoutQuery),
    responses(
        (status = 200, description = "What it gives, with its definition", body = Facts),
        (status = 400, description = "`bad_parameter`: why it is refused", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn layout(
    State(masters): State<Arc<dyn Masters>>,
    headers: HeaderMap,
    asked: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Response, Problem> {
    let (pairs, now) = (query(asked)?, masters.now());
    if wants_html(&headers) {
        return Ok(Html(pages::designer_part(pairs, now, Preferences::of(&headers).lang)?).into_response());
    }
    let draft = Draft::read(pairs).map_err(Problem::bad_parameter)?;
    let draft = draft.ok_or_else(|| Problem::bad_parameter("say layout, or bits, epoch, unit_ms and fields"))?;
    let layout = draft.layout().map_err(|fault| Problem::bad_parameter(fault.why))?;
    layout.check_life(now).map_err(|refused| Problem::bad_parameter(refused.to_string()))?;
    let said = draft.definition(&layout).map_err(|fault| Problem::bad_parameter(fault.why))?;
    Ok(Json(Facts::new(&layout, draft.preset_of(&layout), said, now)).into_response())
}

fn wants_html(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepts.contains("text/html")
}

/// Describes what a template gives, or why it is refused: the facts of a dry run, and more. As `text/html` it is the part of the page
/// `/designer/template` that follows what is typed, as with layouts.
#[utoipa::path(
    get, path = "/api/template", tag = "settings", params(TemplateDraft),
    responses(
        (status = 200, description = "What it gives, with its definition", body = TemplateFacts),
        (status = 400, description = "`bad_parameter`: why it is refused, and how far it can be read", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn template(
    State(masters): State<Arc<dyn Masters>>,
    headers: HeaderMap,
    asked: Result<Query<TemplateDraft>, QueryRejection>,
) -> Result<Response, Problem> {
    let (draft, masters) = (query(asked)?, masters.as_ref());
    if wants_html(&headers) {
        let lang = Preferences::of(&headers).lang;
        return Ok(Html(pages::template_part(masters, draft, lang).await?.0).into_response());
    }
    let draft = draft.read().map_err(Problem::bad_parameter)?;
    let said = draft.template.as_deref().ok_or_else(|| Problem::bad_parameter("say template"))?;
    let (_, end) = draft.sketch();
    let after = said.get(..end).filter(|read| read.len() < said.len());
    let refused = |why| match after {
        Some(read) => Problem::bad_parameter(format!("after '{read}': {why}")),
        None => Problem::bad_parameter(why),
    };
    Ok(Json(pages::template_facts(masters, &draft).await?.map_err(refused)?).into_response())
}
