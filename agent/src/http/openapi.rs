//! The description of the agent's API (OpenAPI 3.1), made from what stands at its handlers.

use super::{body, generators, mint, sequence, status};
use axum::http::{HeaderValue, StatusCode};
use common::kind::{Form, Kind};
use std::sync::OnceLock;
use utoipa::openapi::path::{HttpMethod, Operation, Parameter, ParameterIn};
use utoipa::openapi::response::{Response, Responses};
use utoipa::openapi::schema::{Object, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, KnownFormat, Ref, RefOr, Required, SchemaFormat};
use utoipa::{IntoParams, IntoResponses, OpenApi, ToSchema};

/// The addresses that take neither a certificate nor a key.
pub(super) const OPEN: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];
/// IDs come by either.
const METHODS: [HttpMethod; 2] = [HttpMethod::Get, HttpMethod::Post];

/// The number of IDs, and how they are written.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "query.rs reads it; here it is described")]
pub(super) struct NumberQuery {
    /// The number of IDs; 1 unless it is said. The most is --batch-max: 100,000 unless it is set, 1,000,000 at most.
    #[param(minimum = 1, maximum = 1_000_000)]
    n: Option<u32>,
    /// `decimal` (unless it is said), `hex`, `base32` or `uri`.
    format: Option<String>,
}

/// The number of numbers.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "query.rs reads it; here it is described")]
pub(super) struct PlainQuery {
    /// The number of numbers; 1 unless it is said. The most is --batch-max: 100,000 unless it is set, 1,000,000 at most; and six times the
    /// name's step_max.
    #[param(minimum = 1, maximum = 1_000_000)]
    n: Option<u32>,
}

/// The number of IDs, and what the caller puts into them.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "query.rs reads it; here it is described")]
pub(super) struct StringQuery {
    /// The number of IDs; 1 unless it is said. The most is --batch-max: 100,000 unless it is set, 1,000,000 at most.
    #[param(minimum = 1, maximum = 1_000_000)]
    n: Option<u32>,
    /// The template's `{biz}` part.
    biz: Option<String>,
    /// The template's `{custom}` part.
    custom: Option<String>,
}

/// A dry run.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "query.rs reads it; here it is described")]
pub(super) struct DryRun {
    /// Only answer what it would give: nothing is registered. `dry_run`, as masters spell it, is the same.
    #[param(rename = "dry-run")]
    dry_run: Option<bool>,
}

/// IDs as JSON: always strings.
#[derive(ToSchema)]
#[allow(dead_code, reason = "render.rs writes it; here it is described")]
pub(super) struct Ids {
    ids: Vec<String>,
}

/// Numbers of keys as JSON.
#[derive(ToSchema)]
#[allow(dead_code, reason = "sequence.rs writes it; here it is described")]
pub(super) struct Numbers {
    /// The first number of each key; of a call for many keys `null` for one that got none.
    ids: Vec<Option<String>>,
    /// The reason why keys got none.
    #[schema(required = false, nullable = false)]
    errors: Option<Vec<KeyError>>,
    /// The agents that serve the keys, if the caller may not know.
    #[schema(required = false, nullable = false)]
    routes: Option<Vec<KeyRoute>>,
}

/// The reason why a key got no number.
#[derive(ToSchema)]
#[allow(dead_code, reason = "sequence.rs writes it; here it is described")]
pub(super) struct KeyError {
    /// The key's place in the call, from 0.
    at: usize,
    /// The code of what is wrong, for programs.
    code: String,
    /// A sentence that says what is wrong, for people.
    detail: String,
}

/// The agents that serve sections beside each other.
#[derive(ToSchema)]
#[allow(dead_code, reason = "sequence_body.rs writes it; here it is described")]
pub(super) struct KeyRoute {
    /// The first section.
    from: u32,
    /// The section after the last one.
    to: u32,
    /// The number of the owner: a later one counts.
    g: u64,
    /// HOST:PORT of the agent's HTTP.
    http: String,
    /// HOST:PORT of its RPC.
    rpc: String,
}

/// An error (RFC 9457). It never contains an ID.
#[derive(ToSchema)]
#[allow(dead_code, reason = "problem.rs writes it; here it is described")]
pub(super) struct ProblemBody {
    /// Always `about:blank`.
    r#type: String,
    /// The status in words.
    title: String,
    /// The status.
    status: u16,
    /// The problem and who can mend it, for people.
    detail: String,
    /// The code of the problem, for programs: it never changes.
    code: String,
}

/// The answers to a request for IDs.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it is only described")]
pub(super) enum Minted {
    /// The IDs: one a line; with `Accept: application/json` as JSON, with `application/octet-stream` packed, big-endian.
    #[response(status = 200, content_type = "application/json")]
    Ids(Ids),
    /// `bad_parameter`, `bad_host`
    #[response(status = 400, content_type = "application/problem+json")]
    BadParameter(ProblemBody),
    /// `unknown_generator`
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(ProblemBody),
    /// `serial_exhausted`, with Retry-After to the end of the hour, day or tick, and without it where plain numbers are used up;
    /// `quota_exceeded` of a plugin, or of what one caller may have
    #[response(status = 429, content_type = "application/problem+json")]
    Exhausted(ProblemBody),
    /// `no_lease` `lease_expired` `clock_behind` `clock_skew` `serial_file_io` `serial_file_full` `token_out_of_range`
    /// `masters_unavailable` `overloaded` `segment_pending`
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(ProblemBody),
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "The API of a UniqGenerator agent",
        description = "IDs that never repeat, minted by this agent alone."
    ),
    paths(
        status::explained,
        status::generators,
        generators::define,
        status::status,
        status::healthz,
        status::readyz,
        status::metrics,
        description,
        sequence::one,
        sequence::many,
        sequence::current,
        sequence::routes
    ),
    components(schemas(Ids, Numbers, KeyError, KeyRoute, ProblemBody))
)]
struct Description;

/// The description of all routes.
fn describe() -> utoipa::openapi::OpenApi {
    let mut api = Description::openapi();
    for kind in Kind::ALL {
        let title = kind.spec().title;
        let (default, named) = mint::addresses(kind);
        let of_default =
            if named.is_some() { format!("{title} of the generator `default`.") } else { format!("{title}.") };
        let parameters = || match kind.spec().form {
            Form::Number { .. } | Form::Layout { .. } => NumberQuery::into_params(|| None),
            Form::Plain | Form::Keyed => PlainQuery::into_params(|| None),
            Form::Template { .. } => StringQuery::into_params(|| None),
        };
        let operation = |id: String, summary: String| {
            let operation = Operation::builder().tag("ids").summary(Some(summary)).operation_id(Some(id));
            operation.responses(Responses::builder().responses_from_into_responses::<Minted>())
        };
        if let Some(default) = default {
            let operation_of_default = operation(kind.to_string(), of_default).parameters(Some(parameters()));
            api.paths.add_path_operation(default, METHODS.to_vec(), operation_of_default);
        }
        if let Some(named) = named {
            let name = Parameter::builder().name("name").parameter_in(ParameterIn::Path).required(Required::True);
            let name = name.description(Some("The generator")).schema(Some(Object::with_type(Type::String)));
            let operation = operation(format!("{kind}_named"), format!("{title} of a generator."));
            let operation = operation.parameter(name).parameters(Some(parameters()));
            api.paths.add_path_operation(named, METHODS.to_vec(), operation);
        }
    }
    let name = Parameter::builder().name("name").parameter_in(ParameterIn::Path).required(Required::True);
    let name = name.description(Some("The generator, of any kind")).schema(Some(Object::with_type(Type::String)));
    let summary = "IDs of a generator of any kind; each kind takes the parameters that it takes under its own address.";
    let operation = Operation::builder().tag("ids").summary(Some(summary)).operation_id(Some("id_named"));
    let operation = operation.responses(Responses::builder().responses_from_into_responses::<Minted>());
    let operation = operation.parameter(name).parameters(Some(NumberQuery::into_params(|| None)));
    let strings = StringQuery::into_params(|| None).into_iter().filter(|parameter| parameter.name != "n");
    let operation = operation.parameters(Some(strings));
    api.paths.add_path_operation(mint::OF_ANY_KIND, METHODS.to_vec(), operation);
    if let Some(of_a_key) = api.paths.paths.get_mut(sequence::OF_A_KEY) {
        of_a_key.post = of_a_key.get.clone();
    }
    for item in api.paths.paths.values_mut() {
        // Programs that make clients name their functions by it.
        if let (Some(get), Some(post)) = (&item.get, &mut item.post)
            && get.operation_id == post.operation_id
        {
            post.operation_id = post.operation_id.take().map(|id| id + "_post");
        }
        [&mut item.get, &mut item.post].into_iter().flatten().for_each(in_all_forms);
    }
    let described = api.paths.paths.iter_mut().filter(|(path, _)| !OPEN.contains(&path.as_str()));
    for (_, item) in described {
        [&mut item.get, &mut item.post, &mut item.put].into_iter().flatten().for_each(for_callers);
    }
    let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API key made in the console."));
    api.components.get_or_insert_default().add_security_scheme("key", SecurityScheme::Http(key.build()));
    api
}

/// Says that the caller may have to show an API key, and what comes of it if it does not.
fn for_callers(operation: &mut Operation) {
    let without = SecurityRequirement::default();
    operation.security = Some(vec![without, SecurityRequirement::new("key", [""; 0])]);
    for (status, code) in [
        ("401", "`login_required`: a certificate or an API key is needed, or the key opens nothing"),
        ("403", "`forbidden`: the API key does not open this"),
    ] {
        let problem = Content::new(Some(Ref::from_schema_name("ProblemBody")));
        let answer = Response::builder().description(code).content("application/problem+json", problem);
        operation.responses.responses.insert(status.to_owned(), RefOr::T(answer.build()));
    }
}

/// Describes an answer with numbers in each form in which it comes, that first which comes unless another one is asked for: clients that
/// are made from the description read the first one that they know.
fn in_all_forms(operation: &mut Operation) {
    let Some(RefOr::T(answer)) = operation.responses.responses.get_mut("200") else { return };
    let Some(json) = answer.content.shift_remove("application/json") else { return };
    let of = |format| Object::builder().schema_type(Type::String).format(format).build();
    let text = Content::new(Some(of(None)));
    let packed = Content::new(Some(of(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))));
    let packed = ("application/octet-stream", RefOr::T(packed));
    for (form, content) in [("text/plain", RefOr::T(text)), ("application/json", json), packed] {
        answer.content.insert(form.to_owned(), content);
    }
}

/// The description of this API.
#[utoipa::path(get, path = "/openapi.json", tag = "program", responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn description() -> axum::response::Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| describe().to_json().unwrap_or_default());
    body(StatusCode::OK, HeaderValue::from_static("application/json"), text.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINTED: [&str; 8] = [
        "/uniq64",
        "/uniq64/{name}",
        "/uniq96",
        "/string",
        "/string/{name}",
        "/layout/{name}",
        "/segment/{name}",
        "/id/{name}",
    ];

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let api: serde_json::Value = serde_json::from_str(&describe().to_json().unwrap()).unwrap();
        let described: Vec<&str> = api["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let routes = include_str!("mod.rs").split(".route(\"").skip(1);
        let mut routes: Vec<String> = routes.map(|rest| rest.split('"').next().unwrap().replace("{*", "{")).collect();
        routes.extend(MINTED.map(str::to_owned));
        routes.sort();
        assert_eq!(described, routes);
        assert_eq!(api["openapi"], "3.1.0");
    }

    #[test]
    fn clients_can_be_made_from_it() {
        let api = describe();
        let operations: Vec<&Operation> =
            api.paths.paths.values().flat_map(|item| [&item.get, &item.put, &item.post]).flatten().collect();
        let mut ids: Vec<&str> =
            operations.iter().map(|operation| operation.operation_id.as_deref().unwrap()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "no two functions of one name: {ids:?}");
        for id in ["uniq64", "uniq64_post", "id_named", "sequence", "sequence_post", "sequence_many", "current"] {
            let operation = operations.iter().find(|operation| operation.operation_id.as_deref() == Some(id)).unwrap();
            let Some(RefOr::T(answer)) = operation.responses.responses.get("200") else { panic!("{id}") };
            let forms: Vec<&str> = answer.content.keys().map(String::as_str).collect();
            assert_eq!(forms, ["text/plain", "application/json", "application/octet-stream"], "{id}");
        }
    }

    #[test]
    fn each_kind_of_definition_is_a_type_that_clients_tell_by_its_kind() {
        let api: serde_json::Value = serde_json::from_str(&describe().to_json().unwrap()).unwrap();
        let definition = &api["components"]["schemas"]["Definition"];
        let kinds = definition["discriminator"]["mapping"].as_object().unwrap();
        let mut named = Kind::NAMED.map(Kind::name);
        named.sort_unstable();
        assert_eq!(kinds.keys().collect::<Vec<_>>(), named);
        assert_eq!(definition["oneOf"].as_array().unwrap().len(), named.len());
        for (kind, place) in kinds {
            let spec = api.pointer(place.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
            assert_eq!(spec["properties"]["kind"]["enum"], serde_json::json!([kind]), "{spec}");
            assert_eq!(spec["required"], serde_json::json!(["kind"]), "{spec}");
            // Answers have a name beside it.
            assert_eq!(spec["additionalProperties"], serde_json::Value::Null, "{spec}");
        }
    }

    #[test]
    fn what_is_promised_of_ids_is_what_may_come() {
        let api: serde_json::Value = serde_json::from_str(&describe().to_json().unwrap()).unwrap();
        for path in MINTED {
            let call = &api["paths"][path]["get"];
            // A form that is not there is a bad parameter: no answer has the status 406.
            let statuses: Vec<&str> = call["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(statuses, ["200", "400", "401", "403", "404", "429", "503"], "{path}");
            let n = call["parameters"].as_array().unwrap().iter().find(|parameter| parameter["name"] == "n").unwrap();
            let most = n["schema"]["maximum"].as_f64().unwrap();
            assert!((most - f64::from(net::rpc::mint::BATCH_MAX_LIMIT)).abs() < 0.5, "{path}: {n}");
        }
    }
}
