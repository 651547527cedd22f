//! Requests drawn from the description itself: what it allows, and what is nearly that. No answer is a failure of the
//! program, and each has a status that the description names.

use super::caller::{Caller, escaped};
use super::matrix::{Call, described};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tests::variables;

/// Requests for each call.
const ROUNDS: usize = 200;
/// Statuses that every call may answer without saying so: nobody, not allowed, no such address or method, too large, no JSON.
const ALWAYS: [u16; 8] = [400, 401, 403, 404, 405, 413, 414, 415];
/// Texts that programs stumble over.
const ODD: [&str; 16] = [
    "",
    " ",
    "0",
    "-1",
    "null",
    "99999999999999999999",
    "1e309",
    "../../etc/passwd",
    "%00",
    "\u{0}",
    "\u{feff}",
    "a\r\nb",
    "😀",
    "\u{202e}",
    "'; drop table leases; --",
    "uint2",
];

/// Asks everything that this program describes, at random. Prints the seed, and how often each status came.
pub(crate) async fn walk(caller: &Caller) {
    let seed = variables::seed();
    let mut rng = StdRng::seed_from_u64(seed);
    let (calls, api) = described(caller).await;
    let mut came: BTreeMap<u16, usize> = BTreeMap::new();
    for call in &calls {
        // It would only lock everybody out, and is tested for that elsewhere.
        if call.path == "/login" && call.method == "POST" {
            continue;
        }
        for _ in 0..ROUNDS {
            let (path, body) = request(&mut rng, call, &api);
            let kind = if rng.random_ratio(1, 30) { "text/plain" } else { "application/json" };
            let answer = caller.with("content-type", kind).send(&call.method, &path, body.clone()).await;
            let what = format!("seed {seed}: {} {path} {}", call.method, String::from_utf8_lossy(&body));
            let named = &call.about["responses"][answer.status.to_string()];
            assert!(answer.status < 500, "{what}: {answer:?}");
            assert!(named.is_object() || ALWAYS.contains(&answer.status), "{what}: not described: {answer:?}");
            if answer.status >= 400 && path.starts_with("/api/") {
                assert!(!answer.code().is_empty(), "{what}");
            }
            if answer.status == 200 && answer.header("content-type") == "application/json" {
                let schema = &named["content"]["application/json"]["schema"];
                conforms(&answer.json(), schema, &api, &what);
            }
            *came.entry(answer.status).or_default() += 1;
        }
    }
    println!("{} calls: {came:?}", calls.len());
    assert!(came.contains_key(&200), "nothing was ever right");
}

fn request(rng: &mut StdRng, call: &Call, api: &Value) -> (String, Vec<u8>) {
    let mut path = call.path.clone();
    let mut query = Vec::new();
    for parameter in call.about["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        let fitting = fitting(rng, name).filter(|_| rng.random_ratio(1, 2));
        let value = match fitting.unwrap_or_else(|| drawn(rng, &parameter["schema"], api, 0)) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        if parameter["in"] == "path" {
            // An empty piece would be another address.
            let value = if value.is_empty() { "x".to_owned() } else { value };
            path = path.replace(&format!("{{{name}}}"), &escaped(&value));
        } else if rng.random_ratio(1, 2) {
            query.push(format!("{name}={}", escaped(&value)));
        }
    }
    if rng.random_ratio(1, 20) {
        query.push("unknown=1".to_owned());
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let content = call.about["requestBody"]["content"].as_object().and_then(|content| content.values().next());
    let body = match content {
        None if rng.random_ratio(9, 10) => Vec::new(),
        None => ODD[rng.random_range(0..ODD.len())].into(),
        Some(content) => {
            let mut text = drawn(rng, &content["schema"], api, 0).to_string().into_bytes();
            if rng.random_ratio(1, 10) && !text.is_empty() {
                let at = rng.random_range(0..text.len());
                text[at] ^= 1 << rng.random_range(0..8);
            }
            text
        }
    };
    (path, body)
}

/// A value that a schema describes, or, now and then, one that it does not.
fn drawn(rng: &mut StdRng, schema: &Value, api: &Value, depth: usize) -> Value {
    let schema = resolved(schema, api);
    if rng.random_ratio(1, 8) || depth > 4 {
        return anything(rng);
    }
    for of in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[of].as_array() {
            let choice = choices.get(rng.random_range(0..choices.len().max(1)));
            return choice.map_or(Value::Null, |choice| drawn(rng, choice, api, depth + 1));
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[rng.random_range(0..kinds.len())].clone(),
        one => one.clone(),
    };
    match kind.as_str() {
        Some("object") => {
            let mut object = Map::new();
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                let value = match fitting(rng, name) {
                    Some(value) if rng.random_ratio(5, 6) => value,
                    _ => drawn(rng, schema, api, depth + 1),
                };
                if rng.random_ratio(19, 20) {
                    object.insert(name.clone(), value);
                }
            }
            if rng.random_ratio(1, 10) {
                object.insert("unknown".to_owned(), anything(rng));
            }
            Value::Object(object)
        }
        Some("array") => (0..rng.random_range(0..4)).map(|_| drawn(rng, &schema["items"], api, depth + 1)).collect(),
        Some("integer" | "number") => json!(rng.random_range(0..1_200)),
        Some("boolean") => json!(rng.random_ratio(1, 2)),
        Some("null") => Value::Null,
        _ => json!(text(rng)),
    }
}

/// Draws what makes sense under a name, so that many requests get past the first check.
fn fitting(rng: &mut StdRng, name: &str) -> Option<Value> {
    let of = |rng: &mut StdRng, all: &[&str]| json!(all[rng.random_range(0..all.len())]);
    Some(match name {
        "name" => json!(format!("fuzz{}", rng.random_range(0..40))),
        "role" => of(rng, &["viewer", "operator", "admin"]),
        "password" => json!("correct horse"),
        "kind" => of(rng, &["uniq64", "string"]),
        // Those of which the agent has a lease.
        "token_type" => of(rng, &["uint2", "string2-include-letter"]),
        "template" => of(rng, &["{date:%Y%m%d}{token}{serial:8}", "{date:%y%j}{token}{serial:6:36}{check:luhn}"]),
        "layout" => of(rng, &["snowflake", "js53", "uuid7"]),
        "bits" => of(rng, &["53", "64", "128"]),
        "epoch" => of(rng, &["2024-01-01T00:00:00Z", "2015-06-01T00:00:00.5Z"]),
        "unit_ms" => of(rng, &["1", "10", "1000"]),
        "fields" => of(rng, &["zero:1,time:41,token:10,serial:12", "time:35,token:8,serial:10"]),
        "agent" => of(rng, &["agent-1", "agent-*", "nobody"]),
        "after" => of(rng, &["fuzz1/7", "fuzz1"]),
        "range" => json!(format!("10.{}.0.0/16", rng.random_range(0..8))),
        _ => return None,
    })
}

fn anything(rng: &mut StdRng) -> Value {
    match rng.random_range(0..8) {
        0 => Value::Null,
        1 => json!(rng.next_u64()),
        2 => json!(-1),
        3 => json!(1.5),
        4 => json!([]),
        5 => json!({"a": {"b": [[[[[null]]]]]}}),
        6 => json!("x".repeat(rng.random_range(0..5_000))),
        _ => json!(ODD[rng.random_range(0..ODD.len())]),
    }
}

/// A text: one that means something somewhere, an odd one, or any.
fn text(rng: &mut StdRng) -> String {
    const KNOWN: [&str; 18] = [
        "viewer",
        "operator",
        "admin",
        "fuzzed",
        "uniq64",
        "string",
        "uint2",
        "string2-include-letter",
        "held",
        "resting",
        "10.0.0.0/8",
        "::1/128",
        "{date:%Y%m%d}{token}{serial:8}",
        "agent-1",
        "agent-*",
        "decimal",
        "correct horse",
        "7",
    ];
    match rng.random_range(0..4) {
        0 | 1 => KNOWN[rng.random_range(0..KNOWN.len())].to_owned(),
        2 => ODD[rng.random_range(0..ODD.len())].to_owned(),
        _ => (0..rng.random_range(0..40)).map(|_| rng.random::<char>()).collect(),
    }
}

fn resolved<'a>(schema: &'a Value, api: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(name) => api.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("no {name}")),
        None => schema,
    }
}

/// The schemas that describe fields of an answer: all parts of a whole, and of several the one whose tag it has, or all of whose required
/// fields.
fn parts<'a>(value: &Value, schema: &'a Value, api: &'a Value) -> Vec<&'a Value> {
    let schema = resolved(schema, api);
    if let Some(all) = schema["allOf"].as_array() {
        return all.iter().flat_map(|part| parts(value, part, api)).collect();
    }
    let Some(several) = schema["oneOf"].as_array() else { return vec![schema] };
    let tag = &schema["discriminator"];
    let chosen = match tag["propertyName"].as_str() {
        Some(property) => {
            let named = value[property].as_str().and_then(|said| tag["mapping"][said].as_str());
            named.and_then(|name| api.pointer(name.trim_start_matches('#'))).map(|one| vec![one])
        }
        None => several.iter().map(|one| parts(value, one, api)).find(|one| {
            let required = one.iter().flat_map(|part| part["required"].as_array().into_iter().flatten());
            let mut required = required.map(|name| value.get(name.as_str().unwrap()).is_some()).peekable();
            required.peek().is_some() && required.all(|is_there| is_there)
        }),
    };
    chosen.unwrap_or_default()
}

/// Checks that an answer is what its schema says: every field that must be there is, and every field is described.
fn conforms(value: &Value, schema: &Value, api: &Value, what: &str) {
    let schema = resolved(schema, api);
    if schema["allOf"].is_array() || (schema["oneOf"].is_array() && value.is_object()) {
        let fields = parts(value, schema, api);
        for name in value.as_object().into_iter().flat_map(Map::keys) {
            assert!(
                fields.iter().any(|part| part["properties"].get(name).is_some()),
                "{what}: {name} is not described"
            );
        }
        return;
    }
    match value {
        Value::Array(items) if schema["items"].is_object() => {
            items.iter().for_each(|item| conforms(item, &schema["items"], api, what));
        }
        Value::Object(object) if schema["properties"].is_object() => {
            for required in schema["required"].as_array().into_iter().flatten() {
                assert!(object.contains_key(required.as_str().unwrap()), "{what}: no {required} in {value}");
            }
            for (name, value) in object {
                let described = schema["properties"].get(name);
                let described = described.unwrap_or_else(|| panic!("{what}: {name} of {value} is not described"));
                conforms(value, described, api, what);
            }
        }
        _ => {
            let Some(kinds) = schema.get("type") else { return };
            let kind = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "integer",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            let fits = kinds == kind || kinds.as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind));
            assert!(fits || (kind == "integer" && kinds == "number"), "{what}: {value} is no {kinds}");
        }
    }
}
