//! Namespaces, what is noted about them, and the whitelist.

use super::backup::DryRun;
use super::{Admin, Caller, ChangeErrors, Operator, ProblemBody, Sent, body, optional_body, query, read_as};
use crate::agents::CutOff;
use crate::ask;
use crate::auth::Auth;
use crate::masters::{Masters, Named, NamespaceRow, NetworkRow};
use crate::names::NamespaceFilter;
use crate::problem::Problem;
use crate::query::NamespacesQuery;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use common::about::{About, AboutSource};
use common::json;
use common::namespace::{At, Definition, GeneratorName, Namespace, Preview};
use common::setting::Change;
use ipnet::IpNet;
use net::rpc::lease::{Changed, Refusal};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// A network.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeForm {
    /// The network in CIDR notation, or one address.
    range: String,
}

/// A network to be taken off the whitelist: in the query, for clients that send no body with DELETE, or in the body.
#[derive(Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Removal {
    /// The network in CIDR notation, or one address.
    #[param(required = false)]
    range: String,
    /// The network once more, where it is that of agents which no other one on the whitelist has.
    #[serde(default)]
    confirm: String,
    /// Only say whom it would concern.
    #[serde(default)]
    dry_run: bool,
}

/// The whitelist, and the agents that no network of it has any more.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Removed {
    /// The whitelist as both masters hold it now.
    networks: Vec<NetworkRow>,
    #[serde(flatten)]
    cut_off: CutOff,
}

/// The generators' names and what they stand for, the predefined ones first.
#[utoipa::path(
    get, path = "/api/namespaces", tag = "settings", params(NamespacesQuery),
    responses(
        (status = 200, description = "All that match", body = [NamespaceRow]),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn namespaces(
    State(masters): State<Arc<dyn Masters>>,
    asked: Result<Query<NamespacesQuery>, QueryRejection>,
) -> Result<Json<Vec<NamespaceRow>>, Problem> {
    let filter = NamespaceFilter::try_from(query(asked)?)?;
    let mut rows = ask::within(masters.namespaces()).await?;
    rows.retain(|row| filter.admits(row));
    Ok(Json(rows))
}

/// Registers what a name stands for, for ever.
#[utoipa::path(
    post, path = "/api/namespaces", tag = "settings", request_body = Named, params(DryRun),
    responses(
        (status = 201, description = "Registered: both masters hold it", body = Registered),
        (status = 200, description = "It was so before; with `dry_run`, what it would be", body = RegisterReply),
        (status = 409, description = "`generator_exists` with another definition, or retired; `generator_conflict`: another name may give the same strings; `too_many`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn define(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Operator(caller): Operator,
    asked: Result<Query<DryRun>, QueryRejection>,
    form: Sent,
) -> Result<(StatusCode, Json<RegisterReply>), Problem> {
    let DryRun { dry_run } = query(asked)?;
    let Named { name, definition } = body(form)?;
    let name = read_as("name", &name)?;
    registered(&auth, masters.as_ref(), &caller, name, &definition, dry_run).await
}

/// Registers what a name stands for, for ever, by a definition as agents take it.
#[utoipa::path(
    put, path = "/api/generators/{name}", tag = "settings", request_body = Definition,
    params(("name" = String, Path, description = "The name"), DryRun),
    responses(
        (status = 201, description = "Registered: both masters hold it", body = Registered),
        (status = 200, description = "It was so before; with `dry_run`, what it would be", body = RegisterReply),
        (status = 409, description = "`generator_exists` with another definition, or retired; `generator_conflict`: another name may give the same strings; `too_many`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn register(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Operator(caller): Operator,
    name: Result<Path<String>, PathRejection>,
    asked: Result<Query<DryRun>, QueryRejection>,
    definition: Sent,
) -> Result<(StatusCode, Json<RegisterReply>), Problem> {
    let DryRun { dry_run } = query(asked)?;
    let name = read_as("name", &super::path(name)?)?;
    registered(&auth, masters.as_ref(), &caller, name, &body(definition)?, dry_run).await
}

async fn registered(
    auth: &Auth,
    masters: &dyn Masters,
    caller: &Caller,
    name: GeneratorName,
    definition: &Definition,
    dry_run: bool,
) -> Result<(StatusCode, Json<RegisterReply>), Problem> {
    let namespace = Namespace::define(name, definition);
    let namespace = namespace.and_then(|namespace| namespace.check_new(masters.now()).map(|()| namespace));
    let namespace = Box::new(namespace.map_err(|e| Problem::bad_parameter(e.to_string()))?);
    let (commands, change) = (auth.commands(), Change::Define(namespace.clone()));
    let changed =
        if dry_run { commands.would_change(change).await } else { commands.change(change, caller.actor()).await };
    let is_new = match changed {
        Ok(changed) => changed == Changed::Done,
        Err(Refusal::NameTaken) => {
            let why = Refusal::NameTaken.to_string();
            return Err(Problem::new(StatusCode::CONFLICT, "generator_exists", why));
        }
        Err(other) => return Err(other.into()),
    };
    if dry_run {
        let offset = ask::within(masters.settings()).await?.utc_offset.parse().unwrap_or_default();
        let preview = Preview { is_new, ..namespace.preview(&At::keyless(masters.now(), offset)) };
        return Ok((StatusCode::OK, Json(RegisterReply::WouldBe(Box::new(preview)))));
    }
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let all = ask::within(masters.namespaces()).await?;
    let registered =
        |row: &NamespaceRow| (row.namespace.name(), row.namespace.kind()) == (namespace.name(), namespace.kind());
    let row = all.into_iter().find(registered).ok_or(Refusal::Retry)?;
    let warning = row.namespace.used_up_in_a_day();
    Ok((status, Json(RegisterReply::Is(Box::new(Registered { row, warning })))))
}

/// A name that was registered, or what it would be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum RegisterReply {
    Is(Box<Registered>),
    /// The name as it would be, with `dry_run`.
    WouldBe(Box<Preview>),
}

/// A name that was registered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Registered {
    #[serde(flatten)]
    row: NamespaceRow,
    /// Only if one caller can use up within a day what all have.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// Notes what a name is for, whose it is, and its labels, in the place of all that was noted before. None of it changes its IDs.
#[utoipa::path(
    put, path = "/api/namespaces/{name}/about", tag = "settings", request_body = AboutSource,
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "Both masters hold it", body = NamespaceRow),
        (status = 404, description = "`not_found`: no such name is registered", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`generator_exists`: it was retired, of which only an empty note is taken; `too_many`: the notes about all names would be too long together", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn about(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Operator(caller): Operator,
    name: Result<Path<String>, PathRejection>,
    form: Sent,
) -> Result<Json<NamespaceRow>, Problem> {
    let name: GeneratorName = read_as("name", &super::path(name)?)?;
    let about = Box::new(About::new(body(form)?).map_err(|e| Problem::bad_parameter(e.to_string()))?);
    auth.commands().change(Change::About { name: name.clone(), about }, caller.actor()).await?;
    let all = ask::within(masters.namespaces()).await?;
    let row = all.into_iter().find(|row| *row.namespace.name() == name && !row.registered_by.is_empty());
    row.map(Json).ok_or_else(|| Refusal::Retry.into())
}

/// The name once more, by whom it is to be retired. By key the body may be left out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retirement {
    /// The name.
    #[serde(default)]
    confirm: String,
}

/// Ends a name: it gives no more IDs, at the latest a minute after an agent heard a master, and never stands for anything else. It does
/// not count among the names there may be. One that was never in use is gone at once, and may stand for anything.
#[utoipa::path(
    post, path = "/api/namespaces/{name}/retire", tag = "settings", request_body = Option<Retirement>,
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "Retired: both masters hold it; what it stood for", body = NamespaceRow),
        (status = 400, description = "`bad_parameter`: among others if `confirm` is not the name", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`: no such name is registered", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`too_many`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn retire(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Admin(caller): Admin,
    name: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<NamespaceRow>, Problem> {
    let name: GeneratorName = read_as("name", &super::path(name)?)?;
    let said: Option<Retirement> = optional_body(body)?;
    caller.confirmed("retire this name for ever", name.as_str(), said.as_ref().map(|said| said.confirm.as_str()))?;
    let known = ask::within(masters.namespaces()).await?;
    let before = known.into_iter().find(|row| *row.namespace.name() == name).ok_or(Refusal::NoSuchName)?;
    auth.commands().change(Change::Retire(name.clone()), caller.actor()).await?;
    let all = ask::within(masters.namespaces()).await?;
    let row = all.into_iter().find(|row| *row.namespace.name() == name && row.retired);
    Ok(Json(row.unwrap_or(NamespaceRow { retired: true, ..before })))
}

/// The networks that may ask for leases.
#[utoipa::path(
    get, path = "/api/whitelist", tag = "settings",
    responses((status = 200, description = "All networks", body = [NetworkRow])),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn whitelist(State(masters): State<Arc<dyn Masters>>) -> Result<Json<Vec<NetworkRow>>, Problem> {
    Ok(Json(ask::within(masters.whitelist()).await?))
}

/// Lets the agents of a network ask for leases.
#[utoipa::path(
    post, path = "/api/whitelist", tag = "settings", request_body = RangeForm,
    responses(
        (status = 200, description = "The whitelist as both masters hold it now", body = [NetworkRow]),
        (status = 409, description = "`too_many`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn allow(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Admin(caller): Admin,
    form: Sent,
) -> Result<Json<Vec<NetworkRow>>, Problem> {
    let network = network(&body::<RangeForm>(form)?.range)?;
    auth.commands().change(Change::Allow(network), caller.actor()).await?;
    whitelist(State(masters)).await
}

/// Lets the agents of a network ask no more. What they hold they keep until it ends: leases for days, sections of sequences for seconds.
#[utoipa::path(
    delete, path = "/api/whitelist", tag = "settings", params(Removal), request_body = Option<Removal>,
    responses(
        (status = 200, description = "The whitelist as both masters hold it now, and whom it concerns", body = Removed),
        (status = 400, description = "`bad_parameter`: among others if agents are concerned and `confirm` is not the network", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`: it is not on the whitelist", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn disallow(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Admin(caller): Admin,
    asked: Uri,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Removed>, Problem> {
    let body = body.map_err(|e| Problem::new(e.status(), "bad_parameter", e.body_text()))?;
    let Removal { range, confirm, dry_run } = match (asked.query().unwrap_or_default(), body.as_ref()) {
        ("", json) => json::read(json).map_err(Problem::bad_parameter)?,
        (_, b"") => query(Query::try_from_uri(&asked))?,
        _ => return Err(Problem::bad_parameter("say what is to be removed in the query or in the body, not in both")),
    };
    let network = network(&range)?;
    let known = ask::within(masters.whitelist()).await?;
    if !known.iter().any(|row| row.network == network.to_string()) {
        return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", "this network is not on the whitelist"));
    }
    let (agents, allocators) = (ask::within(masters.agents()).await?, ask::within(masters.allocators()).await?);
    let cut_off = CutOff::by(network, &known, &agents, &allocators);
    if dry_run {
        return Ok(Json(Removed { networks: known, cut_off }));
    }
    if !cut_off.is_nobody() && confirm.trim() != network.to_string() {
        return Err(Problem::bad_parameter(format!(
            "confirm: {cut_off} could renew nothing any more: say {network} once more, or look first with dry_run"
        )));
    }
    auth.commands().change(Change::Disallow(network), caller.actor()).await?;
    Ok(Json(Removed { networks: ask::within(masters.whitelist()).await?, cut_off }))
}

fn network(text: &str) -> Result<IpNet, Problem> {
    common::setting::network(text).map_err(|why| Problem::bad_parameter(format!("range: {why}")))
}
