//! Sequences: who serves which sections, moving one, and draining an agent.

use super::{ChangeErrors, Operator, ProblemBody, Sent, body, path, query, read_as};
use crate::ask;
use crate::auth::Auth;
use crate::masters::Masters;
use crate::problem::Problem;
use crate::query::SectionsQuery;
use crate::sequences::{AllocatorRow, Drained, KeyRaised, SectionMoved, SectionRow, section_key};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use common::json::Whole;
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::sequence::Slot;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The agent that a section goes to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveForm {
    /// The agent that shall serve it.
    to: String,
    /// `NAME/SECTION` once more. By key it may be left out.
    confirm: Option<String>,
}

/// The order to drain an agent, or to end that.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainForm {
    /// `true`: its sections go to others, and it gets none. `false`: it gets sections again.
    drain: bool,
    /// The agent's name once more, if it is drained. By key it may be left out.
    confirm: Option<String>,
}

/// The sections and who serves them, as the answering master knows it: those beside each other that have one owner and one state in one
/// row. What is not in the list was never asked for. For the rest of a long list ask with `after`, NAME and the last section of the last
/// row.
#[utoipa::path(
    get, path = "/api/sections", tag = "sequences", params(SectionsQuery),
    responses(
        (status = 200, description = "Ascending by name and section", body = [SectionRow]),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn sections(
    State(masters): State<Arc<dyn Masters>>,
    asked: Result<Query<SectionsQuery>, QueryRejection>,
) -> Result<Json<Vec<SectionRow>>, Problem> {
    let (filter, page) = query(asked)?.read()?;
    Ok(Json(ask::within(masters.sections(filter, page)).await?))
}

/// The agents that serve sections, or could: all that either master heard of lately.
#[utoipa::path(
    get, path = "/api/allocators", tag = "sequences",
    responses((status = 200, description = "One row a session, by the names of the agents", body = [AllocatorRow])),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn allocators(State(masters): State<Arc<dyn Masters>>) -> Result<Json<Vec<AllocatorRow>>, Problem> {
    Ok(Json(ask::within(masters.allocators()).await?))
}

/// Gives a section to another agent. Calls for its keys wait meanwhile, about half of `--sequence-lease`, and none is refused. Either
/// master takes the order; the section's home carries it out.
#[utoipa::path(
    post, path = "/api/sections/{name}/{section}/move", tag = "sequences", request_body = MoveForm,
    params(
        ("name" = String, Path, description = "The name"),
        ("section" = u32, Path, description = "Which of its sections, from 0 on")
    ),
    responses(
        (status = 202, description = "It is begun; `GET /api/sections` shows when the section is there", body = SectionMoved),
        (status = 404, description = "`not_found`: no such name, section or agent", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`not_moved`: the section is being moved already, or the agent is silent, serves other sets, has no memory left, stops or is drained; `generator_exists`: the name was retired", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn move_section(
    State(auth): State<Arc<Auth>>,
    Operator(caller): Operator,
    named: Result<Path<(String, String)>, PathRejection>,
    form: Sent,
) -> Result<(StatusCode, Json<SectionMoved>), Problem> {
    let (name, section) = path(named)?;
    let wrong =
        || Problem::bad_parameter("a section is said as NAME/SECTION, where SECTION is a whole number from 0 on");
    let key = section_key(&format!("{name}/{section}")).ok_or_else(wrong)?;
    let MoveForm { to, confirm } = body(form)?;
    let to: AgentId = read_as("to", &to)?;
    caller.confirmed("move this section", &key.to_string(), confirm.as_deref())?;
    Ok((StatusCode::ACCEPTED, Json(auth.commands().move_section(key, to, caller.actor()).await?)))
}

/// The number from which those of a key go on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RaiseKeyForm {
    /// The first number that may still be given: a number, or its digits as a text, which is exact for every program.
    #[schema(value_type = String)]
    to: Whole,
    /// The name once more. By key it may be left out.
    confirm: Option<String>,
}

/// Lets the numbers of a key go on from `to`, for ever, and those of all other keys of its section: a key that another system counted goes on
/// there. Calls for them wait until the section is loaded anew, about one `--sequence-lease`. The section's home alone takes the order: it
/// is durable there before the answer.
#[utoipa::path(
    post, path = "/api/sequence/{name}/{key}/raise", tag = "sequences", request_body = RaiseKeyForm,
    params(
        ("name" = String, Path, description = "The name"),
        ("key" = String, Path, description = "The key: a whole number, or any text of up to 128 bytes")
    ),
    responses(
        (status = 202, description = "It is begun; `max_seq` in `GET /api/sections` shows when the section is raised", body = KeyRaised),
        (status = 404, description = "`not_found`: no name of kind `sequence` is registered so", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`not_moved`: the section is at home at the other master, or being moved already, no agent could serve it, or the name has no such number; `generator_exists`: the name was retired", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn raise_key(
    State(auth): State<Arc<Auth>>,
    Operator(caller): Operator,
    named: Result<Path<(String, String)>, PathRejection>,
    form: Sent,
) -> Result<(StatusCode, Json<KeyRaised>), Problem> {
    let (name, key) = path(named)?;
    let name: GeneratorName = read_as("name", &name)?;
    let slot = Slot::of(&key).map_err(|why| Problem::bad_parameter(why.to_string()))?;
    let RaiseKeyForm { to, confirm } = body(form)?;
    caller.confirmed("raise this key for ever", name.as_str(), confirm.as_deref())?;
    Ok((StatusCode::ACCEPTED, Json(auth.commands().raise_key(name, slot, to.0, caller.actor()).await?)))
}

/// Takes all sections away from an agent, a few at a time, so that it can be stopped; or lets it have sections again. Calls wait
/// meanwhile as with a single move. Both masters keep the order in memory: after both were started anew it has to be given again.
#[utoipa::path(
    post, path = "/api/allocators/{agent}/drain", tag = "sequences", request_body = DrainForm,
    params(("agent" = String, Path, description = "The agent's name")),
    responses(
        (status = 200, description = "It is begun; `GET /api/allocators` shows when no section is left", body = Drained),
        (status = 404, description = "`not_found`: no agent of that name serves sequences", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`not_moved`: nobody else could take its sections", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["operator"]), ("key" = ["operator"]))
)]
pub(crate) async fn drain(
    State(auth): State<Arc<Auth>>,
    Operator(caller): Operator,
    named: Result<Path<String>, PathRejection>,
    form: Sent,
) -> Result<Json<Drained>, Problem> {
    let agent_id: AgentId = read_as("agent", &path(named)?)?;
    let DrainForm { drain, confirm } = body(form)?;
    // What is taken back does no harm, and shall be fast.
    if drain || confirm.is_some() {
        caller.confirmed("drain this agent", agent_id.as_str(), confirm.as_deref())?;
    }
    Ok(Json(auth.commands().drain(agent_id, drain, caller.actor()).await?))
}
