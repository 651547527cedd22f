//! `PUT /generators/NAME`: registering what a name stands for.

use super::openapi::ProblemBody;
use super::problem::Problem;
use super::{Agent, body};
use crate::refusal::Refusal;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use common::namespace::{Definition, GeneratorName, Namespace};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A definition, in bytes: the only body that is read.
const DEFINITION_LEN_MAX: usize = 4 << 10;
/// How long it may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Registers what a name stands for with the masters, for ever.
#[utoipa::path(
    put, path = "/generators/{name}", tag = "ids", request_body = Definition,
    params(("name" = String, Path, description = "1..=15 of a-z 0-9 _ -")),
    responses(
        (status = 201, description = "Registered"),
        (status = 200, description = "It was so before"),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`generator_exists` with another definition", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn define(
    State(agent): State<Arc<Agent>>,
    name: Result<Path<String>, PathRejection>,
    definition: Body,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_| Problem::bad_parameter("the name is no text"))?;
    let name: GeneratorName = name.parse().map_err(|e| Problem::bad_parameter(format!("{e}")))?;
    let too_long = |_| Problem::bad_parameter(format!("a definition has at most {DEFINITION_LEN_MAX} bytes"));
    let too_slow =
        |_| Problem::bad_parameter(format!("the definition did not come within {} s", BODY_TIMEOUT.as_secs()));
    let whole = tokio::time::timeout(BODY_TIMEOUT, to_bytes(definition, DEFINITION_LEN_MAX));
    let definition = whole.await.map_err(too_slow)?.map_err(too_long)?;
    let definition: Definition = serde_json::from_slice(&definition).map_err(|e| {
        Problem::bad_parameter(format!(
            "the definition is not as agreed: {e}; write e.g. {{\"kind\":\"string\",\"template\":\"{{date:%Y%m%d}}{{token}}\
             {{serial:6}}\"}}"
        ))
    })?;
    let namespace = Namespace::define(name, &definition).map_err(|e| Problem::bad_parameter(e.to_string()))?;
    let Some(names) = &agent.names else {
        return Err(agent.refused(&Refusal::MastersUnavailable("this agent asks no masters about names".to_owned())));
    };
    let is_new = names.define(namespace.clone()).await.map_err(|e| agent.refused(&e))?;
    let shown = json!({
        "name": namespace.name().as_str(),
        "definition": namespace.definition(),
        "capacity": namespace.capacity(),
        "per": if namespace.template().is_some() { "day" } else { "hour" },
    });
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(body(status, HeaderValue::from_static("application/json"), shown.to_string().into()))
}
