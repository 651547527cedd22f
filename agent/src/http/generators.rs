//! `PUT /generators/NAME`: registering what a name stands for.

use super::openapi::ProblemBody;
use super::problem::Problem;
use super::{Agent, CallerAddress, body};
use crate::refusal::Refusal;
use crate::sequences::caller_per_hour;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use common::encoding::EncodingForm;
use common::namespace::{At, Definition, GeneratorName, Namespace, Preview};
use std::sync::Arc;
use std::time::Duration;

/// A definition, in bytes.
const DEFINITION_LEN_MAX: usize = 4 << 10;
/// How long it may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Registers what a name stands for with the masters, for ever.
#[utoipa::path(
    put, path = "/generators/{name}", tag = "ids", request_body = Definition,
    params(("name" = String, Path, description = "1..=63 of a-z 0-9 . _ -, without a dot in front")),
    responses(
        (status = 201, description = "Registered; with a `warning` if this agent leases no tokens of its type, does not serve its set, or one caller can use up within a day what all have", body = Preview),
        (status = 200, description = "It was so before; the same", body = Preview),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`generator_exists` with another definition, or retired; `generator_conflict`: another name may give the same strings", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`: too many names from one address", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn define(
    State(agent): State<Arc<Agent>>,
    name: Result<Path<String>, PathRejection>,
    from: Option<Extension<CallerAddress>>,
    definition: Body,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_| Problem::bad_parameter("the name is not text"))?;
    let name: GeneratorName = name.parse().map_err(|e| Problem::bad_parameter(format!("{e}")))?;
    let too_long = |_| Problem::bad_parameter(format!("a definition has at most {DEFINITION_LEN_MAX} bytes"));
    let too_slow =
        |_| Problem::bad_parameter(format!("the definition did not come within {} s", BODY_TIMEOUT.as_secs()));
    let whole = tokio::time::timeout(BODY_TIMEOUT, to_bytes(definition, DEFINITION_LEN_MAX));
    let definition = whole.await.map_err(too_slow)?.map_err(too_long)?;
    let definition: Definition = common::json::read(&definition).map_err(|e| {
        Problem::bad_parameter(format!(
            "the definition is not as agreed: {e}; write e.g. {{\"kind\":\"string\",\"template\":\"{{date:%Y%m%d}}{{token}}\
             {{serial:6}}\"}}"
        ))
    })?;
    let known_as = |kind, name: &GeneratorName| match &agent.names {
        Some(names) => names.definition(kind, name),
        None => agent.minter.definition(kind, name),
    };
    let known = known_as(definition.kind(), &name);
    let definition = definition.completed(agent.minter.secrets(), agent.minter.strategies(), known.as_ref());
    let namespace = Namespace::define(name, &definition).map_err(|e| Problem::bad_parameter(e.to_string()))?;
    let Some(names) = &agent.names else {
        return Err(agent.refused(&Refusal::MastersUnavailable("this agent asks no masters about names".to_owned())));
    };
    let known = known_as(namespace.kind(), namespace.name());
    // A misspelt strategy would be registered for ever, and gives IDs nowhere.
    if known.is_none_or(|known| !namespace.is_met_by(&known))
        && namespace.encoding().is_some_and(|encoding| encoding.form() == EncodingForm::Strategy)
        && let Err(refusal) = agent.minter.can_write(&namespace)
    {
        return Err(Problem::bad_parameter(refusal.to_string()));
    }
    let from = from.map(|Extension(CallerAddress(from))| from);
    let is_new = names.define_for(from, namespace.clone()).await.map_err(|e| agent.refused(&e))?;
    // As it is served, which may be as it was registered long ago.
    let known = known_as(namespace.kind(), namespace.name());
    let namespace = known.unwrap_or(namespace);
    let minter = &agent.minter;
    let warning = minter.warning(agent.sequences.as_deref().map(|sequences| sequences.sets()), &namespace);
    let width = namespace.sequences().map(|definition| definition.width());
    let offset = minter.membership().parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default();
    let at = At { now: minter.wall(), offset, secrets: minter.secrets(), strategies: minter.strategies() };
    let key_per_hour_by_caller = width.and_then(caller_per_hour);
    let shown = Preview { is_new, warning, key_per_hour_by_caller, ..namespace.preview(&at) };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(body(
        status,
        HeaderValue::from_static("application/json"),
        serde_json::to_string(&shown).unwrap_or_default().into(),
    ))
}
