//! Answers of an agent over HTTP: IDs in every form, and errors that programs can tell apart.

use serde_json::Value;
use tests::client::{Answer, Client, Kind, Media, uniq64, uniq96};
use tests::cluster::Cluster;
use tests::oracle::{Ids, Oracle};

const BATCH_MAX: usize = 100_000;

fn base(cluster: &Cluster) -> String {
    cluster.agent_url(0, "").unwrap()
}

async fn ids(client: &Client, base: &str, kind: Kind, media: Media, n: usize) -> (Answer, Ids) {
    let answer = client.get_as(&format!("{base}{}&n={n}", kind.path()), media).await.unwrap();
    let ids = answer.ids(kind, media).unwrap();
    (answer, ids)
}

#[tokio::test]
async fn the_largest_batch_comes_whole_in_every_form() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let (base, client, oracle) = (base(&cluster), &cluster.client, Oracle::default());
    for kind in tests::client::KINDS {
        for media in Media::ALL {
            if (kind, media) == (Kind::String, Media::Packed) {
                continue; // strings have no packed form
            }
            let (answer, ids) = ids(client, &base, kind, media, BATCH_MAX).await;
            assert!(answer.whole);
            assert_eq!(ids.len(), BATCH_MAX, "{kind:?} as {media:?}");
            assert!(answer.header("content-type").starts_with(media.mime()), "{:?}", answer.headers);
            assert_eq!(answer.header("cache-control"), "no-store");
            oracle.note(kind.namespace(), media.mime(), &ids);
        }
    }
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!((verdict.total(), verdict.duplicates), (8 * BATCH_MAX, 0), "{verdict}");
}

#[tokio::test]
async fn one_id_is_what_a_request_without_n_gives_by_get_and_by_post() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let (base, oracle) = (base(&cluster), Oracle::default());
    for kind in tests::client::KINDS {
        let names = match kind {
            Kind::Uniq64 => vec!["uniq64", "uniq64/default"],
            Kind::Uniq96 => vec!["uniq96"],
            _ => vec!["string?biz=TEST&custom=00", "string/default?biz=TEST&custom=00"],
        };
        for path in names {
            let url = format!("{base}{path}");
            for answer in [cluster.client.get(&url).await.unwrap(), cluster.client.post(&url).await.unwrap()] {
                let ids = answer.ids(kind, Media::Text).unwrap();
                assert_eq!(ids.len(), 1, "{path}");
                assert_eq!(answer.header("cache-control"), "no-store", "{path}");
                oracle.note(kind.namespace(), path, &ids);
            }
        }
    }
    assert_eq!(oracle.verdict().duplicates, 0, "{}", oracle.verdict());
}

#[tokio::test]
async fn what_cannot_be_given_is_refused_with_its_status_and_code() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let (base, client) = (base(&cluster), &cluster.client);
    let long = "x".repeat(5_000);
    let bad: Vec<String> = [
        "uniq64?n=0",
        "uniq96?n=0",
        "string?biz=TEST&custom=00&n=0",
        "uniq64?n=100001",
        "uniq96?n=100001",
        "string?biz=TEST&custom=00&n=100001",
        "uniq64?n=-1",
        "uniq64?n=1.5",
        "uniq64?n=many",
        "uniq64?n=",
        "uniq64?n=18446744073709551616",
        "uniq64?format=roman",
        "uniq96?format=DECIMAL",
        "string",
        "string?biz=TEST",
        "string?biz=TESTS&custom=00",
        "string?biz=TES&custom=00",
        "string?biz=TEST&custom=000",
        "string?biz=TE%20T&custom=00",
        "string?biz=T%C3%89S&custom=00",
        "string?biz=TE%0AT&custom=00",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("string?biz={long}&custom=00")])
    .collect();
    for path in &bad {
        problem(&client.get(&format!("{base}{path}")).await.unwrap(), 400, "bad_parameter", path);
    }
    for path in ["uniq64/nosuch", "string/nosuch?biz=TEST&custom=00"] {
        problem(&client.get(&format!("{base}{path}")).await.unwrap(), 404, "unknown_generator", path);
    }
    for path in ["nosuch", "uniq65", "uniq64/a/b", "admin", "uniq64//", "%00"] {
        let answer = client.get(&format!("{base}{path}")).await.unwrap();
        assert!([400, 404].contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
        problem(&answer, answer.status, &answer.code(), path);
    }
    for (method, path) in [("DELETE", "uniq64"), ("PUT", "uniq64"), ("PATCH", "status")] {
        let answer = client.ask(method, &format!("{base}{path}"), Vec::new()).await.unwrap();
        assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text());
    }

    // None of that kept it from its work.
    let (_, ids) = ids(client, &base, Kind::Uniq64, Media::Text, 10).await;
    assert_eq!(ids.len(), 10);
}

/// A problem document as RFC 9457 has it, with our stable code, and no ID.
fn problem(answer: &Answer, status: u16, code: &str, what: &str) {
    let shown = || format!("{what}: {} {:?} {}", answer.status, answer.headers, answer.text());
    assert_eq!(answer.status, status, "{}", shown());
    assert!(!code.is_empty() && answer.code() == code, "not {code} but {}", shown());
    assert!(answer.header("content-type").starts_with("application/problem+json"), "{}", shown());
    let json = answer.json().unwrap();
    assert_eq!(json["status"], status, "{}", shown());
    assert!(json["title"].is_string() && json.get("ids").is_none(), "{}", shown());
}

/// The fields of an integer ID by the bits, as the contract has them: date and time, token, serial.
fn fields(kind: Kind, bits: u128) -> (String, u128, u128) {
    let widths: &[u32] = match kind {
        Kind::Uniq64 => &[7, 4, 5, 5, 12, 31],
        _ => &[12, 4, 5, 5, 6, 6, 10, 16, 32],
    };
    let mut left = widths.iter().sum::<u32>();
    let f: Vec<u128> = widths
        .iter()
        .map(|width| {
            left -= width;
            (bits >> left) & ((1 << width) - 1)
        })
        .collect();
    let hour = format!("{:04}-{:02}-{:02}T{:02}", 2000 + f[0], f[1], f[2], f[3]);
    match kind {
        Kind::Uniq64 => (format!("{hour}:00:00"), f[4], f[5]),
        _ => (format!("{hour}:{:02}:{:02}.{:03}", f[4], f[5], f[6]), f[7], f[8]),
    }
}

/// An ID in a text form, back to bits by the contract alone.
fn bits(kind: Kind, form: &str, text: &str) -> u128 {
    const CROCKFORD: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let (hex_len, base32_len) = if kind == Kind::Uniq64 { (16, 13) } else { (24, 20) };
    match form {
        "decimal" if kind == Kind::Uniq64 => uniq64(text).unwrap().into(),
        "decimal" => uniq96(text).unwrap(),
        "hex" => {
            assert_eq!(text.len(), hex_len, "{text}");
            u128::from_str_radix(text, 16).unwrap()
        }
        "base32" => {
            assert_eq!(text.len(), base32_len, "{text}");
            text.chars().fold(0, |bits, c| (bits << 5) | CROCKFORD.find(c).expect("a digit of base32") as u128)
        }
        _ => panic!("{form} has no bits"),
    }
}

#[tokio::test]
async fn every_text_form_says_the_same_bits_and_explains_itself() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let (base, client) = (base(&cluster), &cluster.client);
    let token: u128 = cluster.agent_status(0).await.unwrap().token("uint2").unwrap().parse().unwrap();
    let explain = async |id: &str| {
        let answer = client.get(&format!("{base}explain/{}", id.replace('/', "%2F"))).await.unwrap();
        assert_eq!(answer.status, 200, "{id}: {}", answer.text());
        answer.json().unwrap()
    };
    for (kind, name) in [(Kind::Uniq64, "uniq64"), (Kind::Uniq96, "uniq96")] {
        let mut before = (String::new(), 0);
        for form in ["decimal", "hex", "base32", "uri", "decimal"] {
            let text = client.get(&format!("{base}{name}?format={form}")).await.unwrap().text();
            let id = text.strip_suffix('\n').expect("one line");
            let said = explain(id).await;
            let (time, own, serial) =
                if form == "uri" { uri_fields(name, id) } else { fields(kind, bits(kind, form, id)) };
            assert_eq!(own, token, "{id} carries another token than the lease");
            assert_eq!((&said["kind"], &said["time"]), (&Value::from(name), &Value::from(time.clone())), "{id}");
            assert_eq!(said["token"].to_string(), own.to_string(), "{id}: {said}");
            assert_eq!(said["serial"].to_string(), serial.to_string(), "{id}: {said}");
            assert!((time.clone(), serial) > before, "{id} does not come after {before:?}");
            before = (time, serial);
        }
    }

    // A string: date, biz, token, serial, custom, and no other length.
    let text = client.get(&format!("{base}string?biz=ORDR&custom=7z")).await.unwrap().text();
    let id = text.trim_end();
    let token = cluster.agent_status(0).await.unwrap().token("string2-include-letter").unwrap().to_owned();
    assert_eq!((id.len(), &id[8..12], &id[12..14], &id[22..]), (24, "ORDR", token.as_str(), "7z"), "{id}");
    let said = explain(id).await;
    assert_eq!((&said["kind"], &said["token"]), (&Value::from("string"), &Value::from(token)), "{said}");
    assert_eq!(said["serial"].as_u64().unwrap(), id[14..22].parse::<u64>().unwrap(), "{said}");
    assert_eq!(said["time"].as_str().unwrap()[..10].replace('-', ""), id[..8], "{said}");
    assert!(said["parts"].as_array().is_some_and(|parts| parts.len() == 5), "{said}");

    for garbage in ["x", "99999999999999999999999", "%FF", "uniq64:%2F%2F2026-13-45_99%2F1%2F1", &"7".repeat(4_000)] {
        let answer = client.get(&format!("{base}explain/{garbage}")).await.unwrap();
        problem(&answer, 400, "bad_parameter", garbage);
    }
}

/// `uniq64://2026-11-20_13/4095/1` and `uniq96://2026-11-20_13:05:06_999/65535/1`.
fn uri_fields(name: &str, id: &str) -> (String, u128, u128) {
    let rest = id.strip_prefix(name).and_then(|rest| rest.strip_prefix("://")).expect("the kind is the scheme");
    let [time, token, serial] = rest.split('/').collect::<Vec<_>>().try_into().expect("three parts");
    let time = match name {
        "uniq64" => format!("{}:00:00", time.replace('_', "T")),
        _ => time.replacen('_', "T", 1).replacen('_', ".", 1),
    };
    (time, token.parse().unwrap(), serial.parse().unwrap())
}

#[tokio::test]
async fn json_ids_are_strings_and_packed_ids_are_big_endian() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let (base, client) = (base(&cluster), &cluster.client);
    for kind in tests::client::KINDS {
        let answer = client.get_as(&format!("{base}{}&n=3", kind.path()), Media::Json).await.unwrap();
        let json = answer.json().unwrap();
        let ids = json["ids"].as_array().unwrap();
        assert!(ids.len() == 3 && ids.iter().all(Value::is_string), "{json}");
    }
    for (kind, token_type) in [(Kind::Uniq64, "uint2"), (Kind::Uniq96, "uint2")] {
        let token: u128 = cluster.agent_status(0).await.unwrap().token(token_type).unwrap().parse().unwrap();
        let (_, ids) = ids(client, &base, kind, Media::Packed, 5).await;
        let bits: Vec<u128> = match ids {
            Ids::Uniq64(ids) => ids.into_iter().map(u128::from).collect(),
            Ids::Uniq96(ids) => ids,
            Ids::Text(_) => unreachable!(),
        };
        assert!(bits.windows(2).all(|pair| pair[0] < pair[1]), "{kind:?} does not ascend: {bits:?}");
        assert!(bits.iter().all(|bits| fields(kind, *bits).1 == token), "{kind:?} {bits:?} without token {token}");
    }
}

#[tokio::test]
async fn the_agent_tells_of_itself() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let (base, client) = (base(&cluster), &cluster.client);
    let _ = ids(client, &base, Kind::Uniq64, Media::Text, 1).await;
    for path in ["healthz", "readyz"] {
        assert_eq!(client.get(&format!("{base}{path}")).await.unwrap().status, 200, "{path}");
    }
    let metrics = client.get(&format!("{base}metrics")).await.unwrap();
    assert!(metrics.status == 200 && metrics.text().contains("# TYPE "), "{}", metrics.text());
    let generators = client.get(&format!("{base}generators")).await.unwrap().json().unwrap();
    assert!(generators.to_string().contains("default"), "{generators}");
    let status = client.get(&format!("{base}status")).await.unwrap().json().unwrap();
    let lease = &status["leases"][0];
    for field in ["type", "token", "g", "from", "until"] {
        assert!(!lease[field].is_null(), "no {field} in {status}");
    }
    assert!(status.get("master").is_some(), "the master in use is not named: {status}");
}

#[tokio::test]
async fn the_masters_show_every_lease_and_each_other() {
    let cluster = Cluster::start(2, &[]).await.unwrap();
    for master in 0..2 {
        let rows = cluster.leases(master, "").await.unwrap();
        assert_eq!(rows.len(), 4, "two agents with two types each: {rows:?}");
        for row in &rows {
            #[rustfmt::skip]
            let fields =
                ["type", "token", "state", "agent_id", "session", "address", "g", "from", "until", "renewed", "reuse_at"];
            for field in fields {
                assert!(row.get(field).is_some(), "no {field} in {row}");
            }
            assert_eq!(row["state"], "held");
        }
        assert_eq!(cluster.leases(master, "type=uint2").await.unwrap().len(), 2);
        assert_eq!(cluster.leases(master, "agent=agent-2").await.unwrap().len(), 2);
        assert_eq!(cluster.leases(master, "agent=agent-2&type=uint2&state=held").await.unwrap().len(), 1);
        assert_eq!(cluster.leases(master, "state=resting").await.unwrap().len(), 0);
        let web = cluster.masters[master].daemon.http;
        for query in ["type=uint3", "state=asleep"] {
            let answer = cluster.client.console(web, &format!("/api/leases?{query}")).await.unwrap();
            problem(&answer, 400, "bad_parameter", query);
        }
        let masters = cluster.client.console(web, "/api/masters").await.unwrap().json().unwrap();
        assert_eq!(masters.as_array().map(Vec::len), Some(2), "{masters}");
        for path in ["/healthz", "/readyz", "/metrics", "/"] {
            assert_eq!(cluster.client.console(web, path).await.unwrap().status, 200, "{path}");
        }
    }
}
