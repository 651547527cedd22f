//! Axes of plain numbers: how they stand, and raising one.

use super::{From, ProblemBody, Refused, Whole, body, caller, path, read_as};
use crate::ask;
use crate::auth::{Auth, Role, Who};
use crate::axes::AxisRow;
use crate::masters::Masters;
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use common::namespace::GeneratorName;
use common::rpc::lease::Refusal;
use common::setting::Change;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Where an axis is raised to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RaiseForm {
    /// The first place that may still be granted: a number, or its digits as a text, which is exact for every program. Places are not
    /// always numbers: see `increment` and `offset`.
    #[schema(value_type = u64)]
    to: Whole,
    /// The name once more. By key it may be left out.
    confirm: Option<String>,
}

/// All axes, as the answering master sees them.
#[utoipa::path(
    get, path = "/api/axes", tag = "settings",
    responses((status = 200, description = "One row a name of kind `segment`, by their names", body = [AxisRow])),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn axes(State(masters): State<Arc<dyn Masters>>) -> Result<Json<Vec<AxisRow>>, Problem> {
    Ok(Json(ask::within(masters.axes()).await?))
}

/// Raises an axis, for ever: places below `to` are granted by nobody any more. Numbers below still come from segments that agents hold
/// already.
#[utoipa::path(
    post, path = "/api/axes/{name}/raise", tag = "settings", request_body = RaiseForm,
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "Both masters hold it", body = AxisRow),
        (status = 404, description = "`not_found`: no name of kind `segment` is registered so", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`not_raised`: a place from there on is granted already, or the axis ends before; `generator_exists`: the name was retired", body = ProblemBody, content_type = "application/problem+json"),
        Refused
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn raise(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    who: Who,
    from: From,
    name: Result<Path<String>, PathRejection>,
    form: Result<Json<RaiseForm>, JsonRejection>,
) -> Result<Json<AxisRow>, Problem> {
    let is_script = who.csrf.is_none();
    let caller = caller(who, Role::Operator, from)?;
    let name: GeneratorName = read_as("name", &path(name)?)?;
    let RaiseForm { to, confirm } = body(form)?;
    if confirm.as_deref().map_or(!is_script, |said| said != name.as_str()) {
        return Err(Problem::bad_parameter(format!("confirm: to raise this axis for ever say {name} once more")));
    }
    auth.commands().change(Change::Raise { name: name.clone(), to: to.0 }, caller.actor()).await?;
    let all = ask::within(masters.axes()).await?;
    all.into_iter().find(|row| row.name == name).map(Json).ok_or_else(|| Refusal::Retry.into())
}
