//! The routes that tell about the agent and about IDs.

use super::openapi::ProblemBody;
use super::problem::Problem;
use super::{Agent, body};
use crate::holder::LeaseView;
use crate::minter::{GeneratorView, SegmentCounters};
use crate::plugin;
use crate::serial_file::StartKind;
use crate::years::{layout_ends, signed_end};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use common::encoding::Secrets;
use common::kind::{Kind, Known, explain};
use common::lease::Grant;
use common::namespace::Namespace;
use common::parameters::ClusterParameters;
use common::process::log;
use common::time::SECOND_MS;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// Names whose segments have metrics of their own.
const SEGMENT_NAMES_SHOWN_MAX: usize = 100;
const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Whether this program is alive.
#[utoipa::path(get, path = "/healthz", tag = "program", responses((status = 200, description = "It is")))]
pub(super) async fn healthz() -> Response {
    body(StatusCode::OK, TEXT, "alive\n".into())
}

/// Whether IDs of every wanted type can be minted.
#[utoipa::path(get, path = "/readyz", tag = "program", responses((status = 200, description = "They can"), (status = 503, description = "The reason", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn readyz(State(agent): State<Arc<Agent>>) -> Result<Response, Problem> {
    agent.minter.ready().map_err(|e| Problem::refused(&e, agent.minter.clock()).unavailable())?;
    let but = agent.minter.outside_whitelist().map(|why| format!("as long as its leases last: {why}\n"));
    Ok(body(StatusCode::OK, TEXT, format!("ready\n{}", but.unwrap_or_default()).into()))
}

/// Takes an ID apart.
#[utoipa::path(get, path = "/explain/{id}", tag = "program", params(("id" = String, Path, description = "The ID, in any of its text forms")), responses((status = 200, description = "Its fields, by each name that may have given it, the likeliest first"), (status = 400, description = "`bad_parameter`: it is not an ID", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn explained(
    State(agent): State<Arc<Agent>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(id) = id.map_err(|_| Problem::bad_parameter("the ID is not text"))?;
    let unused = agent.names.iter().flat_map(|names| names.unused()).map(Arc::new);
    let names: Vec<Arc<Namespace>> = agent.minter.namespaces().into_iter().chain(unused).collect();
    let names: Vec<_> = names.iter().map(Arc::as_ref).collect();
    // Whoever asks has not shown who they are: what is encrypted stays so.
    let secrets = Secrets::NONE;
    let known = Known { names: &names, secrets, strategies: agent.minter.strategies(), now: agent.minter.wall() };
    let explained = explain(&id, &known).map_err(|e| Problem::bad_parameter(e.to_string()))?;
    let explained = explained.leased_first(|reading| agent.minter.leases_token_of(reading));
    Ok(body(StatusCode::OK, JSON, serde_json::to_vec(&explained).unwrap_or_default().into()))
}

/// The generators with serial, step and capacity left.
#[utoipa::path(get, path = "/generators", tag = "program", responses((status = 200, description = "All of them"), (status = 503, description = "`serial_file_io`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn generators(State(agent): State<Arc<Agent>>) -> Result<Response, Problem> {
    let views = agent.minter.view().await.map_err(|e| agent.refused(&e))?;
    let rows = all_generators(&agent, &views);
    Ok(body(StatusCode::OK, JSON, serde_json::to_vec(&rows).unwrap_or_default().into()))
}

/// With those whose numbers belong to keys, and what this agent has of them.
fn all_generators(agent: &Agent, views: &[GeneratorView]) -> Vec<Value> {
    let keyed = agent.minter.keyed_names();
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
    let unused: Vec<Arc<Namespace>> = agent.names.iter().flat_map(|names| names.unused()).map(Arc::new).collect();
    let plain = unused.iter().filter(|name| name.sequences().is_none()).map(|name| GeneratorView::of_unused(name));
    let minted = views.iter().cloned().chain(plain).filter_map(|view| serde_json::to_value(view).ok());
    minted.chain(keyed.values().chain(&unused).filter_map(sequence)).collect()
}

/// Session, start, leases, the master in use.
#[utoipa::path(get, path = "/status", tag = "program", responses((status = 200, description = "What there is to tell")))]
pub(super) async fn status(State(agent): State<Arc<Agent>>) -> Response {
    let minter = &agent.minter;
    let membership = minter.membership();
    let reason = match minter.start() {
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
        "dev": minter.own_masters().map(|own| own.about()),
        "session": minter.session().shown(),
        "start": if reason.is_none() { "resumed" } else { "fresh" },
        "start_reason": reason.map(ToString::to_string),
        "uptime_s": agent.uptime_s(),
        "ready": ready.is_ok(),
        "not_ready": ready.err(),
        "outside_whitelist": minter.outside_whitelist(),
        "cluster": membership.cluster.map(|cluster| cluster.to_string()),
        "terms": membership.parameters.map(|parameters| parameters.to_string()),
        "leases": minter.leases().values().filter_map(lease).collect::<Vec<_>>(),
        "master": master,
        "clock_offset_ms": minter.clock_offset_ms(),
        "layouts_end": layouts_end(membership.parameters),
        "uniq64_signed_until":
            membership.parameters.and_then(|parameters| signed_end(parameters.utc_offset())).map(|at| at.to_string()),
        "last_refusal": refusal.as_ref().map(|refusal| &refusal.text),
        "last_refusal_at": refusal.as_ref().map(|refusal| refusal.at.to_string()),
        "sequences": agent.sequences.as_ref().map(|sequences| sequences.view()),
        "test_clock": minter.clock().test_clock().map(|test| test.to_string()),
        // Whoever asks for the status wants to see it even while the disk does not answer.
        "generators": all_generators(&agent, &minter.view().await.unwrap_or_default()),
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
    body(StatusCode::OK, PROMETHEUS, agent.metrics().into())
}

impl Agent {
    fn uptime_s(&self) -> i64 {
        (self.minter.clock().link_now().boot - self.started).0 / SECOND_MS
    }

    /// Prometheus' text format. Labels are our own words, nothing that a caller sent.
    fn metrics(&self) -> String {
        let minter = &self.minter;
        let counters = minter.counters();
        let mut out = log::metrics() + &common::rpc::ended::metrics();
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head(&mut out, "uniq_ids_minted_total", "counter", "IDs minted.");
        for (kind, n) in minter.minted() {
            let _ = writeln!(out, "uniq_ids_minted_total{{kind=\"{}\"}} {n}", kind.name());
        }
        head(&mut out, "uniq_refusals_total", "counter", "Requests for IDs that were refused.");
        for (code, n) in counters.refused() {
            let _ = writeln!(out, "uniq_refusals_total{{code=\"{code}\"}} {n}");
        }
        head(&mut out, "uniq_lease_seconds_left", "gauge", "Time until a lease ends if it is not renewed.");
        for grant in minter.leases().values().filter_map(LeaseView::grant) {
            let left = (grant.until - minter.wall()).0.max(0) / SECOND_MS;
            let _ = writeln!(out, "uniq_lease_seconds_left{{type=\"{}\"}} {left}", grant.token_type);
        }
        self.segment_metrics(&mut out);
        if let Some(parameters) = minter.membership().parameters {
            let help = "Time until the layout's last year is over; past it there are no such IDs.";
            head(&mut out, "uniq_layout_seconds_left", "gauge", help);
            for end in layout_ends(parameters.utc_offset()) {
                let left = (end.at - minter.wall()).0.max(0) / SECOND_MS;
                let _ = writeln!(out, "uniq_layout_seconds_left{{kind=\"{}\"}} {left}", end.kind);
            }
            let help = "Time until a uniq64 is larger than a signed integer of 64 bits holds (BIGINT).";
            head(&mut out, "uniq_uniq64_signed_seconds_left", "gauge", help);
            let left = signed_end(parameters.utc_offset()).map_or(0, |at| (at - minter.wall()).0.max(0) / SECOND_MS);
            let _ = writeln!(out, "uniq_uniq64_signed_seconds_left {left}");
        }
        let plain: [(&str, &str, &str, i128); 6] = [
            ("uniq_ready", "gauge", "Whether IDs of every wanted type can be minted.", minter.ready().is_ok().into()),
            ("uniq_serial_file_writes_total", "counter", "Writes of the serial file.", counters.writes().into()),
            (
                "uniq_serial_file_write_failures_total",
                "counter",
                "Writes of the serial file that failed.",
                counters.write_failures().into(),
            ),
            ("uniq_clock_offset_ms", "gauge", "Our time minus this machine's.", minter.clock_offset_ms().into()),
            ("uniq_clock_steps_total", "counter", "Steps of this machine's calendar.", minter.jumps().into()),
            ("uniq_uptime_seconds", "gauge", "Time since the start.", self.uptime_s().into()),
        ];
        for (name, kind, help, value) in plain {
            head(&mut out, name, kind, help);
            let _ = writeln!(out, "{name} {value}");
        }
        out += &self.plugin_metrics();
        if let Some(sequences) = &self.sequences {
            out += &sequences.counts().metrics(&sequences.view());
        }
        out
    }

    /// Segments of plain numbers; of each name, of so many names.
    fn segment_metrics(&self, out: &mut String) {
        let SegmentCounters { fetched, numbers, failed, waits, waited_us } = self.minter.segment_counters();
        let all = [
            ("uniq_segments_fetched_total", "Segments that masters granted.", fetched.to_string()),
            ("uniq_segment_numbers_fetched_total", "Numbers in them.", numbers.to_string()),
            (
                "uniq_segment_rounds_failed_total",
                "Rounds of all masters in which none granted one.",
                failed.to_string(),
            ),
            ("uniq_segment_waits_total", "Requests that waited for a segment.", waits.to_string()),
            (
                "uniq_segment_wait_seconds_total",
                "How long they waited, all together.",
                format!("{}.{:06}", waited_us / 1_000_000, waited_us % 1_000_000),
            ),
        ];
        for (name, help, value) in all {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        let (mut used, mut held) = (String::new(), String::new());
        for name in self.minter.segments_in_use().take(SEGMENT_NAMES_SHOWN_MAX) {
            let (share, left) = (name.used_hundredths, name.marked_left);
            let _ = writeln!(used, "uniq_segment_window_used_ratio{{name=\"{}\"}} 0.{share:02}", name.name);
            let _ = writeln!(held, "uniq_segment_window_numbers_left{{name=\"{}\"}} {left}", name.name);
        }
        if !used.is_empty() {
            let _ = write!(
                out,
                "# HELP uniq_segment_window_used_ratio Share that is used of the numbers that are marked at the moment.\n\
                 # TYPE uniq_segment_window_used_ratio gauge\n{used}\
                 # HELP uniq_segment_window_numbers_left Numbers left of them.\n\
                 # TYPE uniq_segment_window_numbers_left gauge\n{held}"
            );
        }
    }

    /// What plugins count.
    fn plugin_metrics(&self) -> String {
        let plugins = self.minter.plugins();
        let mut out = plugin::metrics(&plugins.stats(self.minter.now().boot));
        if let Some(history) = plugins.history() {
            let failing = i32::from(history.failing().is_some());
            let _ = write!(
                out,
                "# HELP uniq_history_failing Whether the disk takes no lines of history at the moment.\n\
                 # TYPE uniq_history_failing gauge\nuniq_history_failing {failing}\n\
                 # HELP uniq_history_dropped_lines_total Lines of history that were not written.\n\
                 # TYPE uniq_history_dropped_lines_total counter\nuniq_history_dropped_lines_total {}\n",
                history.dropped()
            );
        }
        out
    }
}
