//! The description of the agent's API (OpenAPI 3.1), made from what stands at its handlers.

use super::{body, generators, mint, sequence, status};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use common::kind::{Form, Kind};
use common::namespace::Definition;
use std::sync::OnceLock;
use utoipa::openapi::Required;
use utoipa::openapi::path::{HttpMethod, Operation, Parameter, ParameterIn};
use utoipa::openapi::response::Responses;
use utoipa::openapi::schema::{Object, Type};
use utoipa::{IntoParams, IntoResponses, OpenApi, ToSchema};

/// IDs come by either.
const METHODS: [HttpMethod; 2] = [HttpMethod::Get, HttpMethod::Post];

/// How many IDs, and how they are written.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "query.rs reads it; here it is described")]
pub(super) struct NumberQuery {
    /// How many IDs; 1 unless it is said. The most is --batch-max: 100,000 unless it is set, 1,000,000 at most.
    #[param(minimum = 1, maximum = 1_000_000)]
    n: Option<u32>,
    /// `decimal` (unless it is said), `hex`, `base32` or `uri`.
    format: Option<String>,
}

/// How many numbers.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "query.rs reads it; here it is described")]
pub(super) struct PlainQuery {
    /// How many numbers; 1 unless it is said. The most is --batch-max: 100,000 unless it is set, 1,000,000 at most; and six times the
    /// name's step_max.
    #[param(minimum = 1, maximum = 1_000_000)]
    n: Option<u32>,
}

/// How many IDs, and what the caller puts into them.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "query.rs reads it; here it is described")]
pub(super) struct StringQuery {
    /// How many IDs; 1 unless it is said. The most is --batch-max: 100,000 unless it is set, 1,000,000 at most.
    #[param(minimum = 1, maximum = 1_000_000)]
    n: Option<u32>,
    /// The template's `{biz}` part.
    biz: Option<String>,
    /// The template's `{custom}` part.
    custom: Option<String>,
}

/// IDs as JSON: always strings.
#[derive(ToSchema)]
#[allow(dead_code, reason = "render.rs writes it; here it is described")]
pub(super) struct Ids {
    ids: Vec<String>,
}

/// What a name stands for.
#[derive(ToSchema)]
#[allow(dead_code, reason = "generators.rs writes it; here it is described")]
pub(super) struct Defined {
    name: String,
    /// With nothing left out.
    definition: Definition,
    /// How many IDs one token gives in an hour or a day.
    capacity: u64,
    /// `hour` or `day`.
    per: String,
    /// Only of a sequence of 32 bits: numbers that a key is given in an hour at most.
    key_per_hour: Option<u64>,
    /// Only if this agent does not serve the name, or one caller can use up within a day what all have.
    warning: Option<String>,
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
    /// What is wrong and who can mend it, for people.
    detail: String,
    /// What is wrong, for programs: it never changes.
    code: String,
}

/// What a request for IDs is answered with.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it is only described")]
pub(super) enum Minted {
    /// The IDs: one a line; with `Accept: application/octet-stream` packed, big-endian.
    #[response(status = 200, content_type = "application/json")]
    Ids(Ids),
    /// `bad_parameter`, `bad_host`
    #[response(status = 400, content_type = "application/problem+json")]
    BadParameter(#[to_schema] ProblemBody),
    /// `unknown_generator`
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(#[to_schema] ProblemBody),
    /// `serial_exhausted`, with Retry-After to the end of the hour or day, and without it where plain numbers are used up;
    /// `quota_exceeded` of a plugin
    #[response(status = 429, content_type = "application/problem+json")]
    Exhausted(#[to_schema] ProblemBody),
    /// `no_lease` `lease_expired` `clock_behind` `clock_skew` `serial_file_io` `serial_file_full` `token_out_of_range`
    /// `masters_unavailable` `overloaded` `segment_pending`
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(#[to_schema] ProblemBody),
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
    components(schemas(Ids, Defined, ProblemBody))
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
    api
}

/// The description of this API.
#[utoipa::path(get, path = "/openapi.json", tag = "program", responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn description() -> Response {
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
    fn what_is_promised_of_ids_is_what_may_come() {
        let api: serde_json::Value = serde_json::from_str(&describe().to_json().unwrap()).unwrap();
        for path in MINTED {
            let call = &api["paths"][path]["get"];
            // A form that is not there is a bad parameter: no answer has the status 406.
            let statuses: Vec<&str> = call["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(statuses, ["200", "400", "404", "429", "503"], "{path}");
            let n = call["parameters"].as_array().unwrap().iter().find(|parameter| parameter["name"] == "n").unwrap();
            let most = n["schema"]["maximum"].as_f64().unwrap();
            assert!((most - f64::from(common::rpc::mint::BATCH_MAX_LIMIT)).abs() < 0.5, "{path}: {n}");
        }
    }
}
