//! Revocations of certificates, which both masters hold: listed, made, taken back.

use super::{Admin, ChangeErrors, ProblemBody, Sent, body, path, read_as};
use crate::ask;
use crate::auth::Auth;
use crate::masters::{MasterMode, MasterRow, Masters, RevocationRow};
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use common::certificate::{Revocation, Role as Holder};
use common::setting::Change;
use net::tls::dated_now;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The largest difference between clocks by which certificates are revoked: each is dated an hour back, so that who issued it may be so far off.
const CLOCKS_APART_MAX_MS: u64 = 300_000;

/// The holder whose certificates are to be revoked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HolderForm {
    /// `agent` or `client`.
    role: String,
    /// The name in its certificates.
    name: String,
}

/// Makes sure that both masters date certificates alike, as far as they hear each other.
pub(super) async fn clocks_agree(masters: &dyn Masters) -> Result<(), Problem> {
    let most = CLOCKS_APART_MAX_MS.saturating_mul(masters.test_clock().map_or(1, |clock| clock.scale.into()));
    let is_wrong = |row: &&MasterRow| {
        let skewed = row.clock_skew_ms.is_some_and(|ms| ms.unsigned_abs() > most);
        row.mode != MasterMode::Silent && (row.calendar_ahead_ms.is_some() || skewed)
    };
    let rows = ask::within(masters.masters()).await?;
    let Some(row) = rows.iter().find(is_wrong) else { return Ok(()) };
    let why = "the clocks of the masters' machines are too far apart, or one of them jumped (GET /api/masters), and a certificate is \
               revoked by its date: correct them, or add a line to ca.pem at both masters";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "clock_skew", format!("master {}: {why}", row.id)))
}

fn holder(role: &str, name: &str) -> Result<Holder, Problem> {
    let name = read_as("name", name)?;
    match role {
        "agent" => Ok(Holder::Agent(name)),
        "client" => Ok(Holder::Client(name)),
        "master" => {
            let why = "role: a master's certificates cannot be revoked here, because the masters could not agree on anything any more: \
                       exchange the CA, or revoke them in every ca.pem";
            Err(Problem::bad_parameter(why))
        }
        _ => Err(Problem::bad_parameter("role: agent or client")),
    }
}

/// Revocations of certificates, which both masters hold, or one has proposed.
#[utoipa::path(
    get, path = "/api/revocations", tag = "people",
    responses((status = 200, description = "All, by their holders", body = [RevocationRow])),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn revocations(State(auth): State<Arc<Auth>>, _: Admin) -> Result<Json<Vec<RevocationRow>>, Problem> {
    Ok(Json(auth.accounts().revoked().await?.iter().map(RevocationRow::from).collect()))
}

/// Revokes all certificates that a holder has by now, whoever issued them, with all that come of them by renewal, and ends its connections. One
/// that it gets by a later invitation or token is believed.
#[utoipa::path(
    post, path = "/api/revocations", tag = "people", request_body = HolderForm,
    responses(
        (status = 201, description = "Revoked: neither master believes them any more, and agents hear of it within some 20 seconds", body = RevocationRow),
        (status = 409, description = "`too_many`: certificates of 1,024 holders are revoked already", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn revoke(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Admin(caller): Admin,
    form: Sent,
) -> Result<(StatusCode, Json<RevocationRow>), Problem> {
    let HolderForm { role, name } = body(form)?;
    let holder = holder(&role, &name)?;
    clocks_agree(masters.as_ref()).await?;
    let revoked = Revocation::at(holder, dated_now());
    auth.commands().change(Change::Revoke(revoked.clone()), caller.actor()).await?;
    // A later one that was there stays.
    let all = auth.accounts().revoked().await?;
    let kept = all.iter().find(|it| it.role == revoked.role).unwrap_or(&revoked);
    Ok((StatusCode::CREATED, Json(RevocationRow::from(kept))))
}

/// Takes a revocation back: what it revoked is believed again, if it has not ended.
#[utoipa::path(
    delete, path = "/api/revocations/{role}/{name}", tag = "people",
    params(("role" = String, Path, description = "`agent` or `client`"), ("name" = String, Path, description = "The name in the certificates")),
    responses(
        (status = 204, description = "Nothing is revoked of that holder any more; agents believe its certificates within an hour"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn reinstate(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    named: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let (role, name) = path(named)?;
    auth.commands().change(Change::Reinstate(holder(&role, &name)?), caller.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}
