//! Calls that only read.

use super::{ProblemBody, path, query};
use crate::agents::{AgentRow, SettingsRow};
use crate::ask;
use crate::auth::{Auth, Entry};
use crate::commands::{AuditCheck, AuditFilter};
use crate::masters::{AuditRow, LeaseFilter, LeasePage, LeaseRow, MasterRow, Masters, PoolRow};
use crate::pages::take_apart;
use crate::problem::Problem;
use crate::query::{AUDIT_SCAN_MAX, AuditQuery, FilterQuery};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use std::sync::Arc;

/// All leases that match, ascending by their tokens.
#[utoipa::path(
    get, path = "/api/leases", tag = "leases", params(FilterQuery),
    responses(
        (status = 200, description = "All that match", body = [LeaseRow]),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
// Sent in pieces as they are read, so that a large table never lies in memory whole.
pub(crate) async fn leases(
    State(masters): State<Arc<dyn Masters>>,
    asked: Result<Query<FilterQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let filter = LeaseFilter::try_from(query(asked)?)?;
    let first = ask::chunk(masters.as_ref(), filter.clone(), None).await?;
    let rest = stream::try_unfold(Some((None, first)), move |step| {
        let (masters, filter) = (Arc::clone(&masters), filter.clone());
        async move {
            let Some((before, chunk)) = step else { return Ok(None) };
            let is_first = before.is_none();
            let Some(last) = chunk.rows.last().map(|row| row.token) else {
                let end = if is_first { "[]" } else { "]" };
                return Ok(Some((Bytes::from_static(end.as_bytes()), None)));
            };
            // Each question passes over the whole table: none is asked whose answer is known.
            if chunk.rows.len() < ask::CHUNK_ROWS {
                return Ok(Some((piece(&chunk, is_first, true)?, None)));
            }
            let text = piece(&chunk, is_first, false)?;
            let next = ask::chunk(masters.as_ref(), filter, Some(last)).await?;
            Ok::<_, axum::BoxError>(Some((text, Some((Some(last), next)))))
        }
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(rest)).into_response())
}

/// Rows as a piece of a JSON array.
fn piece(chunk: &LeasePage, is_first: bool, is_last: bool) -> Result<Bytes, serde_json::Error> {
    let mut text = serde_json::to_string(&chunk.rows)?;
    if !is_last {
        text.pop();
    }
    if !is_first {
        text.replace_range(..1, ",");
    }
    Ok(text.into())
}

/// Both masters.
#[utoipa::path(
    get, path = "/api/masters", tag = "masters",
    responses((status = 200, description = "Both, the one with id 1 first", body = [MasterRow])),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn masters(State(masters): State<Arc<dyn Masters>>) -> Result<Json<Vec<MasterRow>>, Problem> {
    Ok(Json(ask::within(masters.masters()).await?))
}

/// Counts of the free tokens of each type.
#[utoipa::path(
    get, path = "/api/pools", tag = "leases",
    responses((status = 200, description = "One row a token type", body = [PoolRow])),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn pools(State(masters): State<Arc<dyn Masters>>) -> Result<Json<Vec<PoolRow>>, Problem> {
    Ok(Json(ask::within(masters.pools()).await?))
}

/// The agents: those who report, and those who only hold leases.
#[utoipa::path(
    get, path = "/api/agents", tag = "agents",
    responses((status = 200, description = "By their names", body = [AgentRow])),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn agents(State(masters): State<Arc<dyn Masters>>) -> Result<Json<Vec<AgentRow>>, Problem> {
    Ok(Json(ask::within(masters.agents()).await?))
}

/// The cluster's parameters, and the flags this master was started with.
#[utoipa::path(
    get, path = "/api/settings", tag = "settings",
    responses((status = 200, description = "None of it changes while the master runs", body = SettingsRow)),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn settings(State(masters): State<Arc<dyn Masters>>) -> Result<Json<SettingsRow>, Problem> {
    Ok(Json(ask::within(masters.settings()).await?))
}

/// Takes an ID apart, by every name that is registered.
#[utoipa::path(
    get, path = "/api/explain/{id}", tag = "leases",
    params(("id" = String, Path, description = "The ID in any of its text forms; slashes as %2F")),
    responses(
        (status = 200, description = "Its fields: kind, time, token, serial, for a string its template's parts, and the names that may have given it; the likeliest reading first"),
        (status = 400, description = "`bad_parameter`: it is not an ID", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn explain(
    State(masters): State<Arc<dyn Masters>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let id = path(id)?;
    let rows = ask::within(masters.namespaces()).await?;
    let explained = take_apart(&id, &rows, masters.now()).map_err(|e| Problem::bad_parameter(e.to_string()))?;
    Ok(Json(explained).into_response())
}

/// This master's audit, the newest lines first.
#[utoipa::path(
    get, path = "/api/audit", tag = "audit", params(AuditQuery),
    responses(
        (status = 200, description = "Lines; with a filter, those that the newest lines before `before` have", body = [AuditRow]),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn audit(
    State(masters): State<Arc<dyn Masters>>,
    State(auth): State<Arc<Auth>>,
    asked: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Json<Vec<AuditRow>>, Problem> {
    let asked = query(asked)?;
    let filter = asked.filter();
    let (before, count) = asked.part()?;
    if filter == AuditFilter::default() {
        return Ok(Json(ask::within(masters.audit(before, count)).await?));
    }
    let found = auth.commands().find_in_audit(filter, before, count, AUDIT_SCAN_MAX);
    Ok(Json(ask::within(found).await?.rows))
}

/// Walks this master's whole audit, and tells whether every line follows from the one before it.
#[utoipa::path(
    get, path = "/api/audit/verify", tag = "audit",
    responses(
        (status = 200, description = "What came of it", body = AuditCheck),
        (status = 503, description = "`overloaded`: somebody else has it walked", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn verify(State(auth): State<Arc<Auth>>) -> Result<Json<AuditCheck>, Problem> {
    Ok(Json(auth.commands().verify_audit().await?))
}

/// Tells that this program is alive.
#[utoipa::path(get, path = "/healthz", tag = "program", responses((status = 200, description = "It is")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Tells whether a new lease can be granted.
#[utoipa::path(
    get, path = "/readyz", tag = "program",
    responses(
        (status = 200, description = "It can: `ready`, and a line for each token type of which no token is free", body = String),
        (status = 503, description = "`not_ready`, with the reason", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(crate) async fn readyz(State(masters): State<Arc<dyn Masters>>) -> Result<String, Problem> {
    let not_ready = |reason| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", reason);
    ask::readiness(masters.as_ref()).await.map_err(not_ready)?;
    let pools = ask::within(masters.pools()).await.map_err(|e| not_ready(e.to_string()))?;
    said_of(&pools).map_err(not_ready)
}

/// Describes the pools of a master that can grant as far as it is concerned.
fn said_of(pools: &[PoolRow]) -> Result<String, String> {
    let used_up: Vec<_> = pools.iter().filter(|pool| pool.free == 0).map(|pool| pool.token_type.name()).collect();
    if used_up.len() == pools.len() {
        return Err("no token of any type is free: leases have to end and rest first".to_owned());
    }
    let said =
        used_up.iter().map(|name| format!("no {name} token is free: a lease of one has to end and rest first\n"));
    Ok(std::iter::once("ready\n".to_owned()).chain(said).collect())
}

/// Metrics in Prometheus' text format.
#[utoipa::path(
    get, path = "/metrics", tag = "program",
    responses((status = 200, description = "All metrics; those with names of generators only for whoever has logged in or has a key", body = String)),
    security((), ("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn metrics(
    State(masters): State<Arc<dyn Masters>>,
    State(auth): State<Arc<Auth>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let named = !matches!(auth.recognise(&headers).await?, Entry::Nobody);
    let text = masters.metrics(named).await;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::token::TokenType;

    #[test]
    fn readiness_names_types_without_a_free_token_and_ends_with_the_last_one() {
        let free = |free| TokenType::ALL.map(|token_type| PoolRow { token_type, size: 9, free, held: 0, resting: 0 });
        assert_eq!(said_of(&free(1)).unwrap(), "ready\n");
        let mut pools = free(1);
        pools[5].free = 0;
        let said = said_of(&pools).unwrap();
        let second = said.strip_prefix("ready\n").unwrap();
        assert_eq!(
            second,
            format!("no {} token is free: a lease of one has to end and rest first\n", pools[5].token_type)
        );
        assert!(said_of(&free(0)).unwrap_err().contains("no token of any type is free"));
    }
}
