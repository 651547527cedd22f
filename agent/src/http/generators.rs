//! `PUT /generators/NAME`: registering what a name stands for.

use super::openapi::{DryRun, ProblemBody};
use super::problem::Problem;
use super::{Agent, body, query};
use crate::access::Visitor;
use crate::refusal::Refusal;
use crate::sequences::Sequences;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use common::api_key::KeyAction;
use common::encoding::EncodingForm;
use common::namespace::{Definition, GeneratorName, Namespace, Preview};
use std::sync::Arc;
use std::time::Duration;

/// A definition, in bytes.
const DEFINITION_LEN_MAX: usize = 4 << 10;
/// The time that it may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Registers what a name stands for with the masters, for ever; a dry run answers what that would give, or why it would be refused.
#[utoipa::path(
    put, path = "/generators/{name}", tag = "ids", request_body = Definition,
    params(("name" = String, Path, description = "1..=63 of a-z 0-9 . _ -, without a dot in front"), DryRun),
    responses(
        (status = 201, description = "Registered; with a `warning` if this agent leases no tokens of its type, does not serve its set, or one caller can use up within a day what all have", body = Preview),
        (status = 200, description = "It was so before, or this is a dry run; the same, and `new` says whether the name was free", body = Preview),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`generator_exists` with another definition, or retired; `generator_conflict`: another name may give the same strings", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`: too many names from one caller", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn define(
    State(agent): State<Arc<Agent>>,
    name: Result<Path<String>, PathRejection>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
    definition: Body,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_| Problem::bad_parameter("the name is not text"))?;
    let name: GeneratorName = name.parse().map_err(|e| Problem::bad_parameter(format!("{e}")))?;
    visitor
        .may(KeyAction::Define, Some(name.as_str()))
        .map_err(|e| agent.turn_away(name.as_str(), visitor.caller(), &e))?;
    let dry_run = query::dry_run(&uri).map_err(|e| agent.refused(&e))?;
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
    let known = agent.minter.names().definition(definition.kind(), &name);
    let definition =
        definition.completed(agent.minter.extras().secrets(), agent.minter.extras().strategies(), known.as_ref());
    let namespace = Namespace::define(name, &definition).map_err(|e| Problem::bad_parameter(e.to_string()))?;
    let Some(names) = &agent.names else {
        return Err(agent.refused(&Refusal::MastersUnavailable("this agent asks no masters about names".to_owned())));
    };
    let known = agent.minter.names().definition(namespace.kind(), namespace.name());
    // A misspelt strategy would be registered for ever, and gives IDs nowhere.
    if known.is_none_or(|known| !namespace.is_met_by(&known))
        && namespace.encoding().is_some_and(|encoding| encoding.form() == EncodingForm::Strategy)
        && let Err(refusal) = agent.minter.extras().can_write(&namespace)
    {
        return Err(Problem::bad_parameter(refusal.to_string()));
    }
    let is_new = names.define(visitor.caller(), &namespace, dry_run).await.map_err(|e| agent.refused(&e))?;
    let shown = agent.minter.preview(agent.sequences.as_deref().map(Sequences::sets), namespace, is_new);
    let status = if is_new && !dry_run { StatusCode::CREATED } else { StatusCode::OK };
    Ok(body(
        status,
        HeaderValue::from_static("application/json"),
        serde_json::to_string(&shown).unwrap_or_default().into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{BATCH_MAX_DEFAULT, Site};
    use super::*;
    use crate::catalog::Catalog;
    use crate::heartbeat::tests::master::Master;
    use crate::masters::tests::masters_at;
    use crate::minter::kit::Kit;
    use axum::http::Request;
    use common::setting::CALLER_NAMES_AT_ONCE;
    use net::tls::Remote;
    use serde_json::{Value, json};
    use std::net::SocketAddr;
    use tower::ServiceExt as _;

    const CALLER: [u8; 4] = [10, 0, 0, 1];

    async fn put(site: &Site, path: &str, definition: &Value) -> (u16, Value) {
        let request = Request::put(format!("/generators/{path}")).header("host", "localhost");
        let mut request = request.body(Body::from(definition.to_string())).unwrap();
        request.extensions_mut().insert(Remote::from(SocketAddr::from((CALLER, 1))));
        let answer = site.router.clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&to_bytes(answer.into_body(), usize::MAX).await.unwrap()).unwrap())
    }

    #[tokio::test]
    async fn a_dry_run_is_answered_as_the_call_and_registers_nothing() {
        let (kit, master) = (Kit::new(), Master::new(Ok(7)));
        let masters = vec![master.listen().await];
        let minter = kit.start();
        let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
        let agent = Agent::new(minter, Arc::default(), "test-1".parse().unwrap(), BATCH_MAX_DEFAULT);
        let site = Site::new(agent.with_names(Arc::clone(&names)), common::hosts::HostNames::default());
        let (orders, other) = (json!({"kind": "uniq64", "encoding": "sqids"}), json!({"kind": "uniq64"}));
        // As often as anybody likes: it takes nothing of what a caller may register.
        for _ in 0..=CALLER_NAMES_AT_ONCE {
            let (status, answer) = put(&site, "orders?dry-run", &orders).await;
            assert_eq!((status, &answer["new"]), (200, &json!(true)), "{answer}");
            assert_eq!(answer["examples"].as_array().map(Vec::len), Some(3), "{answer}");
        }
        let name: GeneratorName = "orders".parse().unwrap();
        names.look_up(name.as_str(), |_| Ok(())).await.unwrap();
        assert_eq!(site.agent.minter.names().definition(common::kind::Kind::Uniq64, &name), None);
        assert!(master.with(|records| records.registered.is_empty()));

        let (_, would) = put(&site, "orders?dry_run=true", &orders).await;
        let (status, is) = put(&site, "orders?dry-run=false", &orders).await;
        assert_eq!((status, &is["definition"]), (201, &would["definition"]));
        let (status, again) = put(&site, "orders?dry-run=true", &orders).await;
        assert_eq!((status, &again["new"]), (200, &json!(false)));
        let refused = put(&site, "orders?dry-run", &other).await;
        assert_eq!((refused.0, &refused.1["code"]), (409, &json!("generator_exists")));
        assert_eq!(refused, put(&site, "orders", &other).await);
        for bad in ["x?dry-run=1", "x?dryrun", "x?dry-run&dry_run"] {
            let (status, problem) = put(&site, bad, &other).await;
            assert_eq!((status, &problem["code"]), (400, &json!("bad_parameter")), "{bad}");
        }
        assert_eq!(master.with(|records| records.registered.len()), 1);

        // Who may register no more is told so.
        for nth in 1..CALLER_NAMES_AT_ONCE {
            assert_eq!(put(&site, &format!("n{nth}"), &other).await.0, 201);
        }
        let refused = put(&site, "more?dry-run", &other).await;
        assert_eq!((refused.0, &refused.1["code"]), (429, &json!("quota_exceeded")));
        assert_eq!(put(&site, "more", &other).await.0, 429);
        assert_eq!(put(&site, "orders?dry-run", &orders).await.0, 200, "it is known");
    }
}
