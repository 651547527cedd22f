//! The routes that tell about the agent and about IDs.

use super::openapi::ProblemBody;
use super::problem::Problem;
use super::{Agent, body};
use crate::access::Visitor;
use crate::holder::LeaseView;
use crate::metrics::page;
use crate::minter::{Entry, GeneratorView, NumberSource};
use crate::years::{layout_ends, signed_end};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use common::encoding::Secrets;
use common::kind::{Kind, Known, explain};
use common::lease::Grant;
use common::metrics;
use common::namespace::Namespace;
use common::parameters::ClusterParameters;
use common::time::SECOND_MS;
use net::rpc::ended;
use net::tls;
use process::log;
use serde_json::{Value, json};
use serial_file::StartKind;
use std::sync::Arc;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Tells whether this program is alive.
#[utoipa::path(get, path = "/healthz", tag = "program", responses((status = 200, description = "It is")))]
pub(super) async fn healthz() -> Response {
    body(StatusCode::OK, TEXT, "alive\n".into())
}

/// Tells whether IDs of every wanted type can be minted.
#[utoipa::path(get, path = "/readyz", tag = "program", responses((status = 200, description = "They can"), (status = 503, description = "The reason", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn readyz(State(agent): State<Arc<Agent>>) -> Result<Response, Problem> {
    agent.minter.ready().map_err(|e| Problem::refused(&e, agent.minter.time().clock()).unavailable())?;
    let but = agent.minter.masters().outside_whitelist().map(|why| format!("as long as its leases last: {why}\n"));
    Ok(body(StatusCode::OK, TEXT, format!("ready\n{}", but.unwrap_or_default()).into()))
}

/// Takes an ID apart.
#[utoipa::path(get, path = "/explain/{id}", tag = "program", params(("id" = String, Path, description = "The ID, in any of its text forms")), responses((status = 200, description = "Its fields, by each name that may have given it, the likeliest first"), (status = 400, description = "`bad_parameter`: it is not an ID", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn explained(
    State(agent): State<Arc<Agent>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(id) = id.map_err(|_| Problem::bad_parameter("the ID is not text"))?;
    let names = agent.minter.names().namespaces();
    let names: Vec<_> = names.iter().map(Arc::as_ref).collect();
    // Whoever asks has not shown who they are: what is encrypted stays so.
    let secrets = Secrets::NONE;
    let known = Known {
        names: &names,
        secrets,
        strategies: agent.minter.extras().strategies(),
        now: agent.minter.time().wall(),
    };
    let explained = explain(&id, &known).map_err(|e| Problem::bad_parameter(e.to_string()))?;
    let explained = explained.leased_first(|reading| agent.minter.grants().leases_token_of(reading));
    Ok(body(StatusCode::OK, JSON, serde_json::to_vec(&explained).unwrap_or_default().into()))
}

/// The generators with serial, step and capacity left.
#[utoipa::path(get, path = "/generators", tag = "program", responses((status = 200, description = "All of them"), (status = 503, description = "`serial_file_io`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn generators(
    State(agent): State<Arc<Agent>>,
    Extension(visitor): Extension<Visitor>,
) -> Result<Response, Problem> {
    let views = agent.minter.view(Some(visitor.holder())).await.map_err(|e| agent.refused(&e))?;
    let rows = all_generators(&agent, &views);
    Ok(body(StatusCode::OK, JSON, serde_json::to_vec(&rows).unwrap_or_default().into()))
}

/// With those whose numbers belong to keys, and what this agent has of them.
fn all_generators(agent: &Agent, views: &[GeneratorView]) -> Vec<Value> {
    let sequence = |name: &Arc<Namespace>| {
        let (definition, name) = (name.sequences()?, name.name().as_str());
        let here = agent.sequences.as_ref().map(|sequences| sequences.view_of(name)).unwrap_or_default();
        Some(json!({
            "name": name,
            "kind": Kind::Sequence.name(),
            "step": definition.step(),
            "per": "key",
            "sequence": {
                "width": definition.width().bits(),
                "keys_per_section": definition.keys_per_section(),
                "sections": definition.sections(),
                "set": definition.set().as_str(),
                "served": here.sections,
                "waiting": here.sections_waiting,
                "loaded": here.loaded,
            },
        }))
    };
    let shown = |name: &Entry| {
        (name.is_unused() || name.place() == Some(NumberSource::Keys)).then(|| Arc::clone(&name.namespace))
    };
    let names = agent.minter.names().all(shown);
    let plain = names.iter().filter(|name| name.sequences().is_none()).map(|name| GeneratorView::of_unused(name));
    let minted = views.iter().cloned().chain(plain).filter_map(|view| serde_json::to_value(view).ok());
    minted.chain(names.iter().filter_map(sequence)).collect()
}

/// Session, start, leases, the master in use.
#[utoipa::path(get, path = "/status", tag = "program", responses((status = 200, description = "What there is to tell")))]
pub(super) async fn status(State(agent): State<Arc<Agent>>, Extension(visitor): Extension<Visitor>) -> Response {
    let minter = &agent.minter;
    let membership = minter.grants().membership();
    let reason = match minter.session().start() {
        StartKind::Resumed => None,
        StartKind::Fresh(reason) => Some(reason),
    };
    let master = agent.report.master().map(|master| {
        json!({
            "address": master.address,
            "id": master.id.number(),
            "mode": master.mode.to_string(),
            "heard": master.heard.to_string(),
        })
    });
    let refusal = agent.report.last_refusal();
    let ready = minter.ready().map_err(|e| json!({ "code": e.code().as_str(), "detail": e.to_string() }));
    let status = json!({
        "agent_id": agent.agent_id,
        "version": env!("CARGO_PKG_VERSION"),
        "dev": minter.masters().own().map(|own| own.about()),
        "session": minter.session().id().shown(),
        "start": if reason.is_none() { "resumed" } else { "fresh" },
        "start_reason": reason.map(ToString::to_string),
        "uptime_s": agent.uptime_s(),
        "ready": ready.is_ok(),
        "not_ready": ready.err(),
        "outside_whitelist": minter.masters().outside_whitelist(),
        "cluster": membership.cluster.map(|cluster| cluster.to_string()),
        "terms": membership.parameters.map(|parameters| parameters.to_string()),
        "leases": minter.grants().leases().values().filter_map(lease).collect::<Vec<_>>(),
        "master": master,
        "clock_offset_ms": minter.time().offset_ms(),
        "layouts_end": layouts_end(membership.parameters),
        "uniq64_signed_until":
            membership.parameters.and_then(|parameters| signed_end(parameters.utc_offset())).map(|at| at.to_string()),
        "last_refusal": refusal.as_ref().map(|refusal| &refusal.text),
        "last_refusal_at": refusal.as_ref().map(|refusal| refusal.at.to_string()),
        "sequences": agent.sequences.as_ref().map(|sequences| sequences.view()),
        "test_clock": minter.time().clock().test_clock().map(|test| test.to_string()),
        // Whoever asks for the status wants to see it even while the disk does not answer.
        "generators": all_generators(&agent, &minter.view(Some(visitor.holder())).await.unwrap_or_default()),
    });
    body(StatusCode::OK, JSON, status.to_string().into())
}

/// The first instant that each layout cannot express; nothing before the cluster's calendar is known.
fn layouts_end(parameters: Option<ClusterParameters>) -> serde_json::Map<String, Value> {
    let ends = parameters.into_iter().flat_map(|parameters| layout_ends(parameters.utc_offset()));
    ends.map(|end| (end.kind.to_string(), end.at.to_string().into())).collect()
}

fn lease(view: &LeaseView) -> Option<Value> {
    let (state, grant) = match view {
        LeaseView::Missing => return None,
        LeaseView::Held(grant) => ("held", grant),
        LeaseView::Resumed(grant) => ("resumed", grant),
        LeaseView::Suspended(grant) => ("suspended", grant),
        LeaseView::Expired(grant) => ("expired", grant),
    };
    let Grant { token_type, key, g, from, until, .. } = grant;
    Some(json!({
        "type": token_type.name(),
        "token": key.text(),
        "value": key.value.0,
        "g": g.0,
        "from": from.to_string(),
        "until": until.to_string(),
        "state": state,
    }))
}

/// Metrics in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "program", responses((status = 200, description = "All metrics")))]
pub(super) async fn metrics(State(agent): State<Arc<Agent>>) -> Response {
    let mut text = String::new();
    metrics::write(&mut text, log::SERIES, &());
    metrics::write(&mut text, ended::SERIES, &());
    metrics::write(&mut text, tls::SERIES, &());
    text += &page(&agent.minter, agent.sequences.as_deref(), agent.uptime_s());
    body(StatusCode::OK, PROMETHEUS, text.into())
}

impl Agent {
    fn uptime_s(&self) -> i64 {
        (self.minter.time().clock().link_now().boot - self.started).0 / SECOND_MS
    }
}
