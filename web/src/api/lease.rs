//! `POST /api/leases/..`: the commands of an operator about a lease.

use super::{ChangeErrors, Operator, ProblemBody, optional_body, path};
use crate::auth::Auth;
use crate::masters::LeaseRow;
use crate::problem::Problem;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use common::token::{TokenKey, TokenType};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

type LeasePath = Result<Path<(String, String)>, PathRejection>;

/// The token that a termination says again.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Termination {
    /// `TYPE/TOKEN` once more. People must say it; a script with an API key may leave the whole body out.
    #[serde(default)]
    confirm: String,
}

/// Renews a lease as its holder would.
#[utoipa::path(
    post, path = "/api/leases/{type}/{token}/renew", tag = "leases",
    params(("type" = String, Path, description = "The token type"), ("token" = String, Path, description = "The token")),
    responses(
        (status = 200, description = "The lease as it is now", body = LeaseRow),
        (status = 404, description = "`not_found`: nobody has this token", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`no_lease`: it is over, or denied", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn renew(
    State(auth): State<Arc<Auth>>,
    Operator(caller): Operator,
    named: LeasePath,
) -> Result<Json<LeaseRow>, Problem> {
    let (key, _) = known(&auth, named).await?;
    Ok(Json(auth.commands().renew(key, caller.actor()).await?))
}

/// Ends a lease: no renewal any more. The token rests until `reuse_at`.
#[utoipa::path(
    post, path = "/api/leases/{type}/{token}/terminate", tag = "leases",
    params(("type" = String, Path, description = "The token type"), ("token" = String, Path, description = "The token")),
    request_body = Option<Termination>,
    responses(
        (status = 200, description = "The lease as it is now", body = LeaseRow),
        (status = 400, description = "`bad_parameter`: among others if `confirm` is not TYPE/TOKEN", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`: nobody has this token", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`no_lease`: it is over, or denied already", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn terminate(
    State(auth): State<Arc<Auth>>,
    Operator(caller): Operator,
    named: LeasePath,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<LeaseRow>, Problem> {
    let said: Option<Termination> = optional_body(body)?;
    let (key, named) = known(&auth, named).await?;
    caller.confirmed("end this lease", &named, said.as_ref().map(|said| said.confirm.as_str()))?;
    Ok(Json(auth.commands().terminate(key, caller.actor()).await?))
}

/// The token that a path names, if somebody has it under that type; and its name.
async fn known(auth: &Auth, named: LeasePath) -> Result<(TokenKey, String), Problem> {
    let (token_type, token) = path(named)?;
    let kind: TokenType = super::read_as("type", &token_type)?;
    let key = TokenKey::parse(kind.family(), &token)
        .ok_or_else(|| Problem::bad_parameter(format!("token: this is not a token of the type {kind}")))?;
    let known = auth.commands().lease(key).await?.filter(|lease| lease.token_type == kind);
    let none = || Problem::new(StatusCode::NOT_FOUND, "not_found", format!("nobody has the token {key} of {kind}"));
    known.map(|_| (key, format!("{kind}/{key}"))).ok_or_else(none)
}
