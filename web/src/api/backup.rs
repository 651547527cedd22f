//! All settings as one file, and the import of such a file.

use super::revocations::clocks_agree;
use super::{Admin, ChangeErrors, ProblemBody, query};
use crate::ask;
use crate::auth::{Auth, new_key};
use crate::backup::{File, Here, Imported, LEN_MAX, Plan, plan};
use crate::masters::{Masters, Unavailable};
use crate::problem::Problem;
use crate::shared::Turn;
use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use common::account::User;
use common::audit::{Action, Actor, Note};
use common::setting::{Change, SettingKey};
use futures::stream;
use net::rpc::lease::Refusal;
use net::tls::dated_now;
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::IntoParams;

/// The time in which one import is read and makes changes: less than a request may take.
const IMPORT_MAX: Duration = Duration::from_secs(45);
/// Bytes of a file that are handed over at a time.
const PIECE_LEN: usize = 64 * 1024;

/// Parameters of what can be tried first.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DryRun {
    /// Only say what would be done, and what is wrong. `dry-run`, as agents spell it, is the same.
    #[serde(default, alias = "dry-run")]
    pub(crate) dry_run: bool,
}

/// All that is set, but for secrets, as one file for `POST /api/import`: what names stand for with their notes, networks, users without
/// passwords, and revocations of certificates. Keys for scripts are not in it, nor notes about retired names.
#[utoipa::path(
    get, path = "/api/export", tag = "settings",
    responses(
        (status = 200, description = "The file", body = File),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn export(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    State(turn): State<Turn>,
    Admin(caller): Admin,
) -> Result<Response, Problem> {
    let turn = turn.take().await?;
    let Here { networks, users, revoked, names, .. } = here(masters.as_ref(), &auth).await?;
    let (settings, axes) = (ask::within(masters.settings()).await?, ask::within(masters.axes()).await?);
    let now = masters.now();
    let written = tokio::task::spawn_blocking(move || {
        serde_json::to_vec(&File::new(now, settings, networks, (&users, &revoked), names, &axes))
    });
    let text = written.await.ok().and_then(Result::ok).map(Bytes::from).ok_or(Unavailable::Overloaded)?;
    note(&auth, caller.actor(), Action::Export, "settings").await?;
    // Whoever reads slowly keeps the turn, so that there is one such file in memory.
    let pieces = (0..text.len()).step_by(PIECE_LEN).map(move |from| {
        let _ = &turn;
        Ok::<_, Infallible>(text.slice(from..text.len().min(from + PIECE_LEN)))
    });
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, Body::from_stream(stream::iter(pieces))).into_response())
}

/// Makes what a file of `GET /api/export` says, as far as it is not there. All of it is checked first, and all that is wrong with it is said;
/// what was begun and not ended goes on when the same file is sent again. Names come in as used; those of kind `segment` begin at the `first` that
/// each needs, and those of kind `sequence` come in retired. Users come in with passwords that nobody knows.
#[utoipa::path(
    post, path = "/api/import", tag = "settings", request_body = File, params(DryRun),
    responses(
        (status = 200, description = "Both masters hold all of it, or what would be done", body = Imported),
        (status = 409, description = "`generator_exists`, `generator_conflict`, `name_taken`, `too_many`: what only the masters can say; what was done before stays", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "`bad_parameter`: it is longer than 64 MiB, or broke off", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn import(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    State(turn): State<Turn>,
    Admin(caller): Admin,
    asked: Result<Query<DryRun>, QueryRejection>,
    body: Body,
) -> Result<Json<Imported>, Problem> {
    // Nothing is read of somebody who may not, or whose turn it is not.
    let DryRun { dry_run } = query(asked)?;
    let until = Instant::now() + IMPORT_MAX;
    let _turn = turn.take().await?;
    let file = to_bytes(body, LEN_MAX).await.map_err(|_| {
        let why = format!("the file is longer than {LEN_MAX} bytes, or broke off: spread its names over several files");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_parameter", why)
    })?;
    let here = here(masters.as_ref(), &auth).await?;
    let planned = tokio::task::spawn_blocking(move || plan(&file, &here));
    let mut plan = planned.await.map_err(|_| Unavailable::Overloaded)?.map_err(Problem::bad_parameter)?;
    if !plan.revocations.is_empty() {
        clocks_agree(masters.as_ref()).await?;
    }
    plan.imported.dry_run = dry_run;
    let imported = if dry_run { plan.imported } else { apply(&auth, plan, until, &caller.actor()).await? };
    Ok(Json(imported))
}

async fn here(masters: &dyn Masters, auth: &Auth) -> Result<Here, Problem> {
    Ok(Here {
        utc_offset: ask::within(masters.settings()).await?.utc_offset,
        networks: ask::within(masters.whitelist()).await?,
        users: auth.accounts().users().await?,
        revoked: auth.accounts().revoked().await?,
        dated: dated_now(),
        names: ask::within(masters.namespaces()).await?,
    })
}

async fn note(auth: &Auth, by: Actor, action: Action, subject: &str) -> Result<(), Problem> {
    Ok(auth.accounts().keep(Vec::new(), Some(Note::new(by, action, subject))).await?)
}

/// Makes the changes of a plan, each as an operator would: who is no longer believed before all else, and names before who may ask for them.
async fn apply(auth: &Auth, plan: Plan, until: Instant, by: &Actor) -> Result<Imported, Problem> {
    let Plan { names, notes, users, networks, revocations, imported } = plan;
    let all = names.len() + notes.len() + users.len() + networks.len() + revocations.len();
    note(auth, by.clone(), Action::Import, &format!("{all} changes")).await?;
    // One for all of them: nobody knows what it is the hash of.
    let phc = if users.is_empty() { String::new() } else { auth.hash(new_key()).await? };
    let users =
        users.into_iter().map(|(name, role)| Change::AddUser(User { name, role, phc: phc.clone(), totp: None }));
    // One follows the other: others have to be served meanwhile.
    for (made, change) in revocations.into_iter().chain(names).chain(notes).chain(users).chain(networks).enumerate() {
        let key = change.key();
        let why = if Instant::now() >= until {
            Problem::overloaded(format!("no more is done in {} seconds", IMPORT_MAX.as_secs()))
        } else {
            match auth.commands().change(change, by.clone()).await {
                Ok(_) => continue,
                Err(Refusal::NameTaken) if matches!(key, SettingKey::Namespace(_)) => {
                    Problem::new(StatusCode::CONFLICT, "generator_exists", Refusal::NameTaken.to_string())
                }
                Err(why) => why.into(),
            }
        };
        let place = format!("{key}: {made} of {all} changes are made; send the same file again for the rest: ");
        return Err(why.after(&place));
    }
    Ok(imported)
}
