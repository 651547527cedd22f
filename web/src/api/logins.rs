//! Logins at this master: listed and ended.

use super::{ChangeErrors, From, ProblemBody, caller, path};
use crate::auth::{Auth, LoginSeen, Role, Who};
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A login at this master.
#[derive(Serialize, ToSchema)]
pub(crate) struct LoginRow {
    /// The name by which it can be ended: the first 16 hexadecimal digits of the SHA-256 of its cookie.
    id: String,
    /// The user; `sso NAME` of somebody whom the identity provider let in.
    user: String,
    /// The instant of the login.
    began: String,
    /// The instant of the last use, to within five minutes.
    used: String,
    /// The instant at which it ends if it is not used again.
    ends: String,
    /// True if it is one of the user who asks.
    own: bool,
    /// True if it is the one of this request.
    current: bool,
}

impl core::convert::From<LoginSeen> for LoginRow {
    fn from(seen: LoginSeen) -> Self {
        let [began, used, ends] = [seen.began, seen.used, seen.ends].map(|at| at.to_string());
        Self { id: seen.id, user: seen.person.to_string(), began, used, ends, own: seen.own, current: seen.current }
    }
}

/// Logins at this master: one's own ones, and all for admins.
#[utoipa::path(
    get, path = "/api/logins", tag = "people",
    responses((status = 200, description = "The own ones first, then by name; keys have none, and those of admins see all", body = [LoginRow])),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn logins(State(auth): State<Arc<Auth>>, who: Who) -> Result<Json<Vec<LoginRow>>, Problem> {
    let users = auth.accounts().users().await?;
    Ok(Json(auth.logins_seen_by(&who, &users).into_iter().map(LoginRow::from).collect()))
}

/// Ends a login. This master does it alone.
#[utoipa::path(
    delete, path = "/api/logins/{id}", tag = "people",
    params(("id" = String, Path, description = "The login. One's own is everybody's affair, another's an admin's")),
    responses(
        (status = 204, description = "Ended: its next request is 401, and its open event streams end within seconds"),
        (status = 404, description = "`not_found`: there is none of this id that you may see", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["viewer"]), ("key" = ["admin"]))
)]
pub(crate) async fn end_login(
    State(auth): State<Arc<Auth>>,
    who: Who,
    from: From,
    named: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let by = caller(who.clone(), Role::Viewer, from)?.actor();
    auth.end_login(&who, &path(named)?, by).await?;
    Ok(StatusCode::NO_CONTENT)
}
