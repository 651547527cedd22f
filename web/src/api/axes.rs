//! Axes of plain numbers: their state, raising one, and saying that what agents show of one is not true.

use super::{ChangeErrors, Operator, ProblemBody, Sent, body, path, read_as};
use crate::ask;
use crate::auth::Auth;
use crate::axes::AxisRow;
use crate::masters::Masters;
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use common::json::Whole;
use common::namespace::GeneratorName;
use common::setting::{Change, SettingKey};
use net::rpc::lease::Refusal;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The place that an axis is raised to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RaiseForm {
    /// The first place that may still be granted: a number, or its digits as a text, which is exact for every program. Places are not
    /// always numbers: see `increment` and `offset`.
    #[schema(value_type = String)]
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
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn raise(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Operator(caller): Operator,
    name: Result<Path<String>, PathRejection>,
    form: Sent,
) -> Result<Json<AxisRow>, Problem> {
    let name: GeneratorName = read_as("name", &path(name)?)?;
    let RaiseForm { to, confirm } = body(form)?;
    caller.confirmed("raise this axis for ever", name.as_str(), confirm.as_deref())?;
    change(&auth, &masters, caller, Change::Raise { name, to: to.0 }).await
}

/// A place that agents show of an axis, though it is not true.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DismissForm {
    /// The last place that is shown (`shown` of the axis): a number, or its digits as a text, which is exact for every program.
    #[schema(value_type = String)]
    last: Whole,
    /// The name once more. By key it may be left out.
    confirm: Option<String>,
}

/// Says that no agent was granted numbers up to a place, though one shows it and the masters know nothing of it: numbers are granted again
/// from where the masters are. If it was true after all, numbers come twice.
#[utoipa::path(
    post, path = "/api/axes/{name}/dismiss", tag = "settings", request_body = DismissForm,
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "Both masters hold it", body = AxisRow),
        (status = 404, description = "`not_found`: no name of kind `segment` is registered so", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`not_shown`: no agent shows just this place; `generator_exists`: the name was retired", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn dismiss(
    State(auth): State<Arc<Auth>>,
    State(masters): State<Arc<dyn Masters>>,
    Operator(caller): Operator,
    name: Result<Path<String>, PathRejection>,
    form: Sent,
) -> Result<Json<AxisRow>, Problem> {
    let name: GeneratorName = read_as("name", &path(name)?)?;
    let DismissForm { last, confirm } = body(form)?;
    caller.confirmed("say that it is not true", name.as_str(), confirm.as_deref())?;
    change(&auth, &masters, caller, Change::Dismiss { name, below: last.0.saturating_add(1) }).await
}

/// Changes an axis and answers with it.
async fn change(
    auth: &Auth,
    masters: &Arc<dyn Masters>,
    caller: super::Caller,
    change: Change,
) -> Result<Json<AxisRow>, Problem> {
    let SettingKey::Axis(name) = change.key() else { return Err(Refusal::NoSuchName.into()) };
    auth.commands().change(change, caller.actor()).await?;
    let all = ask::within(masters.axes()).await?;
    all.into_iter().find(|row| row.name == name).map(Json).ok_or_else(|| Refusal::Retry.into())
}
