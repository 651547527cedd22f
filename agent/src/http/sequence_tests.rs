//! Numbers of keys over HTTP, with masters that do what a test says.

use super::tests::Answer;
use super::*;
use crate::access::Visitor;
use crate::heartbeat::tests::master::in_use;
use crate::sequences::tests::masters::{Masters, Record};
use crate::sequences::tests::{self as kit, agent_for, agent_of};
use axum::body::to_bytes;
use axum::http::Method;
use common::namespace::{Definition, Namespace, SequenceSpec};
use common::sequence::Slot;
use net::rpc::lease::{NameState, Registered};
use net::rpc::mint::{MintCode, MintServiceClient, Passing, SequenceCall};
use net::rpc::transport::{connect, deadline_in};
use serde_json::json;
use std::collections::HashSet;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tower::ServiceExt as _;

pub(super) struct Served {
    pub(super) router: Router,
    pub(super) site: Site,
    pub(super) agent: kit::Agent,
    masters: Masters,
}

async fn site_at(addresses: &[String], masters: &Masters, width: u8) -> Served {
    site_by(agent_of(addresses, 1 << 24, width).await, masters)
}

fn site_by(agent: kit::Agent, masters: &Masters) -> Served {
    let (minter, sequences) = (Arc::clone(&agent.minter), Arc::clone(&agent.sequences));
    let served = Agent::new(minter, Arc::default(), "test-1".parse().unwrap(), BATCH_MAX_DEFAULT);
    let served = served.with_sequences(sequences);
    let site = Site::new(served, common::hosts::HostNames::default());
    Served { router: site.router.clone(), site, agent, masters: masters.clone() }
}

async fn site_of(namespace: Namespace) -> Served {
    let masters = Masters::new("orders", 3_000, 100, i64::MAX as u64);
    let site = site_by(agent_for(&masters.listen().await, 1 << 24, namespace).await, &masters);
    masters.session(0).await;
    site
}

pub(super) async fn site() -> Served {
    let masters = Masters::new("orders", 3_000, 100, i64::MAX as u64);
    let site = site_at(&masters.listen().await, &masters, 63).await;
    masters.session(0).await;
    site
}

impl Served {
    async fn call(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let request =
            Request::builder().method(method).uri(path).header("host", "localhost:6200").extension(Remote::here());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &[], "").await
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        self.call(Method::POST, path, headers, body).await
    }
}

#[tokio::test]
async fn each_key_has_numbers_of_its_own_in_every_media_type() {
    let site = site().await;
    assert_eq!(site.get("/sequence/orders/42").await.text(), "1\n");
    let answer = site.post("/sequence/orders/42?n=3", &[("accept", "application/json")], "").await;
    assert_eq!(answer.json(), json!({ "ids": ["2", "3", "4"] }));
    let packed = site.post("/sequence/orders/42?n=2", &[("accept", "application/octet-stream")], "").await;
    assert_eq!(packed.body, [5u64, 6].map(u64::to_be_bytes).concat());
    assert_eq!(site.get("/sequence/orders/42/current").await.text(), "6\n");
    assert_eq!(site.get("/sequence/orders/43/current").await.text(), "0\n");
    assert_eq!(site.get("/sequence/orders/43?n=250").await.text().lines().last(), Some("250"), "beyond a step");
    // A text is another key than the number, and is written as one segment of the path.
    assert_eq!(site.get("/sequence/orders/user%2F7%20%C3%BC").await.text(), "1\n");
    let header = site.get("/sequence/orders/42").await;
    assert_eq!(header.header("cache-control"), "no-store");
    assert_eq!(header.header("uniq-route"), "", "nobody asked for routes");
}

#[tokio::test]
async fn texts_of_keys_are_as_the_definition_writes_them_and_numbers_are_digits_where_they_are_asked_for() {
    let encoding = serde_json::from_str(r#"{"form":"decimal","length":19,"prefix":"INV-"}"#).unwrap();
    let said = SequenceSpec { encoding: Some(encoding), ..kit::namespace(63).sequences().unwrap().spec() };
    let written = Namespace::define("orders".parse().unwrap(), &Definition::Sequence(said)).unwrap();
    let site = site_of(written).await;
    let text = |number: u64| format!("INV-{number:019}");
    let json = [("accept", "application/json")];
    assert_eq!(site.get("/sequence/orders/42").await.text(), text(1) + "\n");
    assert_eq!(site.get("/sequence/orders/42?n=2").await.text(), text(2) + "\n" + &text(3) + "\n");
    let answer = site.post("/sequence/orders/42?n=2", &json, "").await;
    assert_eq!(answer.json(), json!({ "ids": [text(4), text(5)] }));
    let packed = site.post("/sequence/orders/42?n=2", &[("accept", "application/octet-stream")], "").await;
    assert_eq!(packed.body, [6u64, 7].map(u64::to_be_bytes).concat());
    assert_eq!(site.get("/sequence/orders/42/current").await.text(), text(7) + "\n");
    assert_eq!(site.get("/sequence/orders/44/current").await.text(), "0\n", "none was given");
    let none = site.call(Method::GET, "/sequence/orders/44/current", &json, "").await;
    assert_eq!(none.json(), json!({ "ids": ["0"] }));
    assert_eq!(site.post("/sequence/orders", &[], "42\n43\n").await.text(), text(8) + "\n" + &text(1) + "\n");
    let answer = site.post("/sequence/orders", &json, "42\n43\n").await;
    assert_eq!(answer.json(), json!({ "ids": [text(9), text(2)] }));
    // As programs that count with them want them.
    assert_eq!(site.get("/sequence/orders/42?format=decimal").await.text(), "10\n");
    assert_eq!(site.get("/sequence/orders/42/current?format=decimal").await.text(), "10\n");
    assert_eq!(site.post("/sequence/orders?format=decimal", &[], "42\n43\n").await.text(), "11\n3\n");
    for bad in ["42?format=hex", "42?format=", "42/current?format=base32", "42?format=decimal&format=decimal"] {
        let answer = site.get(&format!("/sequence/orders/{bad}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad}");
    }
}

/// Each call for more would wait in vain: no master raises a section that far alone.
#[tokio::test]
async fn more_numbers_than_a_master_may_grant_alone_are_refused_at_once_with_the_most_there_are() {
    let said = SequenceSpec { solo_allowance: Some(200), ..kit::namespace(63).sequences().unwrap().spec() };
    let few = Namespace::define("orders".parse().unwrap(), &Definition::Sequence(said)).unwrap();
    let site = site_of(few).await;
    assert_eq!(site.get("/sequence/orders/42?n=200").await.text().lines().last(), Some("200"));
    let refused = [
        site.get("/sequence/orders/42?n=201").await,
        site.post("/sequence/orders/42?n=201", &[], "").await,
        site.post("/sequence/orders", &[], "7\n{\"key\":42,\"n\":201}\n").await,
    ];
    for answer in refused {
        assert_eq!((answer.status, answer.json()["code"].as_str()), (StatusCode::BAD_REQUEST, Some("bad_parameter")));
        assert!(answer.text().contains("at most 200") && answer.text().contains("solo_allowance"), "{}", answer.text());
    }
    let server = crate::rpc::Server::new(Arc::clone(&site.agent.minter), BATCH_MAX_DEFAULT);
    let server = server.with_sequences(Arc::clone(&site.agent.sequences)).for_this_machine();
    let call = SequenceCall { name: "orders".to_owned(), g: None, passing: Passing::On, cluster: None };
    let refused = server.next_of(&call, Slot(42), 201).await.unwrap_err();
    assert_eq!(refused.code(), MintCode::BadParameter);
    assert_eq!(site.get("/sequence/orders/42").await.text(), "201\n", "nothing was given");
}

#[tokio::test]
async fn the_list_of_generators_has_them_with_what_is_served_here() {
    let site = site().await;
    let row = async || {
        let all = site.get("/generators").await.json();
        let row = all.as_array().unwrap().iter().find(|row| row["name"] == "orders").cloned().unwrap();
        let status = site.get("/status").await.json();
        assert!(status["generators"].as_array().unwrap().contains(&row), "{status}");
        row
    };
    let of = |served, loaded| {
        json!({
            "name": "orders", "kind": "sequence", "step": 100, "per": "key",
            "sequence": {
                "width": 63, "keys_per_section": 10, "sections": 429_496_730u32, "set": "default",
                "served": served, "waiting": 0, "loaded": loaded,
            },
        })
    };
    assert_eq!(row().await, of(0, 0), "nobody asked for a key");
    assert_eq!(site.get("/sequence/orders/42").await.text(), "1\n");
    assert_eq!(row().await, of(1, 1));
}

#[tokio::test]
async fn bad_input_has_a_code_and_costs_no_number() {
    let site = site().await;
    assert_eq!(site.get("/sequence/orders/42").await.text(), "1\n");
    let long = "k".repeat(129);
    for path in [
        "/sequence/orders/42?n=0".to_owned(),
        "/sequence/orders/42?n=100001".to_owned(),
        "/sequence/orders/42?n=1&n=1".to_owned(),
        "/sequence/orders/42?m=1".to_owned(),
        "/sequence/orders/42?format=hex".to_owned(),
        "/sequence/orders/42?g=-1".to_owned(),
        "/sequence/orders/42?forward=maybe".to_owned(),
        "/sequence/orders/42?cluster=1".to_owned(),
        format!("/sequence/orders/42?cluster=+{}", "1".repeat(31)),
        "/sequence/orders/42/current?n=1".to_owned(),
        "/sequence/orders/%FF".to_owned(),
        format!("/sequence/orders/{long}"),
        "/sequences/orders/routes?from=x".to_owned(),
        "/id/orders".to_owned(),
    ] {
        assert_eq!(site.get(&path).await.problem(), (400, "bad_parameter".to_owned()), "{path}");
    }
    for path in ["/sequence/nothing/42", "/sequence/nothing/42/current", "/sequences/nothing/routes"] {
        assert_eq!(site.get(path).await.problem(), (404, "unknown_generator".to_owned()), "{path}");
    }
    assert_eq!(site.get("/sequence/orders").await.status, StatusCode::METHOD_NOT_ALLOWED);
    for body in ["", "1\n\n2", "{\"key\":1,\"n\":0}", "{\"key\":1.5}", &"1\n".repeat(10_001), &format!("1\n{long}")] {
        let answer = site.post("/sequence/orders", &[], body.to_owned()).await;
        assert_eq!(answer.problem(), (400, "bad_parameter".to_owned()), "{body:.20}");
    }
    let packed = [("content-type", "application/octet-stream")];
    assert_eq!(site.post("/sequence/orders", &packed, vec![0; 12]).await.problem().0, 400);
    // No body is read for a name that is known to give no such numbers.
    let other = |name: &str| Namespace::define(name.parse().unwrap(), &Definition::default()).unwrap();
    let minter = &site.agent.minter;
    minter.define(other("other")).unwrap();
    minter.learn(&in_use(other("retired"))).unwrap();
    minter.learn(&Registered { state: NameState::Retired, ..in_use(other("retired")) }).unwrap();
    for path in ["/sequence/other", "/sequence/retired"] {
        assert_eq!(site.post(path, &[], "").await.problem(), (404, "unknown_generator".to_owned()), "{path}");
    }
    assert_eq!(site.get("/sequence/orders/42").await.text(), "2\n");
    assert_eq!(site.get("/sequence/orders/1/current").await.text(), "0\n", "nothing was given of what was refused");
}

#[tokio::test]
async fn many_keys_at_once_come_in_the_order_asked_for() {
    let site = site().await;
    let body = "42\n{\"key\":42,\"n\":5}\n{\"key\":\"7\"}\nuser 7\n42\n";
    assert_eq!(site.post("/sequence/orders", &[], body).await.text(), "1\n2\n1\n1\n7\n");
    let answer = site.post("/sequence/orders", &[("accept", "application/json")], body).await;
    assert_eq!(answer.json(), json!({ "ids": ["8", "9", "2", "2", "14"] }));
    let keys: Vec<u8> = [7u64, 42, 7].iter().flat_map(|key| key.to_be_bytes()).collect();
    let headers = [("content-type", "application/octet-stream"), ("accept", "application/octet-stream")];
    let packed = site.post("/sequence/orders", &headers, keys).await;
    assert_eq!(packed.body, [3u64, 15, 4].map(u64::to_be_bytes).concat());
    let many: String = (0..10_000).map(|key| format!("{}\n", key * 3)).collect();
    let answer = site.post("/sequence/orders", &[], many).await;
    assert_eq!(answer.text().lines().count(), 10_000);
    assert!(answer.text().lines().all(|line| line == "1" || line == "16"), "one of them is 42");
}

#[tokio::test]
async fn keys_that_get_nothing_are_told_one_by_one() {
    let last = u64::from(u32::MAX);
    let masters = Masters::new("orders", 3_000, 100, last);
    let site = site_at(&masters.listen().await, &masters, 32).await;
    let first = masters.session(0).await;
    masters.with(|state| {
        state.records.insert(0, Record { g: 1, owner: Some(first), max_seq: last });
    });
    let body = "1\n11\n";
    assert_eq!(site.post("/sequence/orders", &[], body).await.text(), "!serial_exhausted\n1\n");
    let json = site.post("/sequence/orders", &[("accept", "application/json")], body).await.json();
    assert_eq!(json["ids"], json!([null, "2"]));
    assert_eq!((&json["errors"][0]["at"], &json["errors"][0]["code"]), (&json!(0), &json!("serial_exhausted")));
    let packed = site.post("/sequence/orders", &[("accept", "application/octet-stream")], body).await;
    assert_eq!(packed.body, [0u64, 3].map(u64::to_be_bytes).concat());
    let none = site.post("/sequence/orders", &[], "1\n2\n").await;
    assert_eq!((none.problem(), none.header("retry-after")), ((429, "serial_exhausted".to_owned()), ""));
    let one = site.get("/sequence/orders/1").await;
    assert_eq!((one.problem(), one.header("retry-after")), ((429, "serial_exhausted".to_owned()), ""));
}

#[tokio::test]
async fn callers_of_another_cluster_are_given_nothing() {
    let site = site().await;
    let ours = site.agent.minter.grants().membership().cluster.unwrap().to_string();
    let another = "2".repeat(32);
    assert_eq!(site.get("/sequences/orders/routes").await.json()["cluster"], json!(ours));
    for path in ["/sequence/orders/5?", "/sequence/orders/5/current?", "/sequence/orders?"] {
        let many = path.starts_with("/sequence/orders?");
        let (method, body) = if many { (Method::POST, "5") } else { (Method::GET, "") };
        let refused = site.call(method.clone(), &format!("{path}cluster={another}"), &[], body).await;
        assert_eq!(refused.problem(), (503, "wrong_cluster".to_owned()), "{path}");
        let given = site.call(method, &format!("{path}cluster={ours}"), &[], body).await;
        assert_eq!(given.status, StatusCode::OK, "{path}");
    }
    assert_eq!(site.get("/sequence/orders/5").await.text(), "3\n", "nothing was given to others");
}

#[tokio::test]
async fn routes_come_with_answers_to_those_who_know_less() {
    let masters = Masters::new("orders", 3_000, 100, i64::MAX as u64);
    let addresses = masters.listen().await;
    let one = site_at(&addresses, &masters, 63).await;
    let first = masters.session(0).await;
    let two = site_at(&addresses, &masters, 63).await;
    masters.session(1).await;
    masters.give(0..3, first);
    assert_eq!(two.get("/sequence/orders/5").await.text(), "1\n", "passed on");
    let json = [("accept", "application/json")];
    let told = two.post("/sequence/orders/5?g=0", &json, "").await.json();
    let route = &told["routes"][0];
    assert_eq!(
        (&told["ids"], &route["from"], &route["to"], &route["g"]),
        (&json!(["2"]), &json!(0), &json!(1), &json!(1))
    );
    let at = route["rpc"].as_str().unwrap();
    let line = two.get("/sequence/orders/5?g=0").await;
    assert_eq!(line.header("uniq-route"), format!("0-1; g=1; http={}; rpc={at}", at.replace("127.0.0.1", "localhost")));
    let refused = two.get("/sequence/orders/5?forward=no").await;
    assert_eq!(refused.problem(), (421, "misdirected".to_owned()));
    assert_eq!(refused.json()["routes"][0], *route);
    let all = two.get("/sequences/orders/routes?from=1").await.json();
    assert_eq!(
        (&all["keys_per_section"], &all["next"], all["routes"].as_array().unwrap().len()),
        (&json!(10), &json!(null), 2)
    );
    assert_eq!(one.post("/sequence/orders/5?g=1&forward=no", &json, "").await.json(), json!({ "ids": ["4"] }));
    let own = one.post("/sequence/orders/5?g=0", &json, "").await.json();
    assert_eq!((&own["routes"][0]["g"], &own["routes"][0]["rpc"]), (&json!(1), &json!(at)));
    let many = two.post("/sequence/orders?g=7", &json, "5\n6\n").await.json();
    assert_eq!((&many["ids"], &many["routes"][0]["rpc"]), (&json!(["6", "1"]), &json!(at)));
    let metrics = two.get("/metrics").await;
    for line in
        ["uniq_sequence_forwarded_total 5", "uniq_sequence_misdirected_total 1", "uniq_sequence_masters_answering 2"]
    {
        assert!(metrics.text().contains(line), "{line}: {}", metrics.text());
    }
    // The one that was asked for was kept alone; the others are listed by the next question for all.
    loop {
        let status = one.get("/status").await.json();
        assert_eq!(&status["sequences"]["loaded"], &json!(1));
        if status["sequences"]["sections"] == json!(3) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop((one.agent, two.masters));
}

#[tokio::test]
async fn side_by_side_no_number_of_a_key_comes_twice() {
    let site = Arc::new(site().await);
    let calls = (0..64).map(|nth| {
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            let mut last = 0;
            let mut all = Vec::new();
            for n in 0..20 {
                let answer = match nth % 2 {
                    0 => site.get("/sequence/orders/5").await,
                    _ => site.post("/sequence/orders", &[], format!("5\n{}\n", 100 + n)).await,
                };
                let number: u64 = answer.text().lines().next().unwrap().parse().unwrap();
                assert!(number > last);
                last = number;
                all.push(number);
            }
            all
        })
    });
    let all = futures::future::join_all(calls).await.into_iter().flat_map(Result::unwrap).collect::<Vec<_>>();
    let different: HashSet<u64> = all.iter().copied().collect();
    assert_eq!((all.len(), different.len(), different.iter().max()), (1_280, 1_280, Some(&1_280)));
}

/// Bytes that callers only say they will send are nothing yet.
#[tokio::test]
async fn callers_who_say_a_length_and_send_nothing_keep_nobody_out() {
    let site = site().await;
    let length = sequence::BODY_LEN_MAX.to_string();
    let silent = || {
        let router = site.router.clone();
        let request = Request::post("/sequence/orders").header("host", "localhost:6200").extension(Remote::here());
        let request = request.header("content-length", &length);
        let never = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        tokio::spawn(router.oneshot(request.body(never).unwrap()))
    };
    let silent: Vec<_> = (0..200).map(|_| silent()).collect();
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let answer = site.post("/sequence/orders", &[], "1\n2\n").await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "1\n1\n"));
    assert!(silent.iter().all(|call| !call.is_finished()), "they are still there");
}

/// Their answers may be long, once somebody serves what they ask for; until then they hold nothing that others need.
#[tokio::test]
async fn calls_that_wait_keep_nobody_out() {
    use tokio::io::AsyncWriteExt as _;
    let site = site().await;
    // So that no span ends while all of that is read: a section is loaded anew after that, and its numbers jump.
    let keeps = site.masters.with(|state| {
        state.lease_ms = 20_000;
        state.keeps.len()
    });
    while site.masters.with(|state| state.keeps.len()) < keeps + 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(site.post("/sequence/orders", &[], "1\n2\n").await.text(), "1\n1\n");
    site.masters.with(|state| state.heir = 9);
    let unserved = |request: axum::http::request::Builder, body: String| {
        let request = request.header("host", "localhost:6200").extension(Remote::here());
        let request = request.body(Body::from(body)).unwrap();
        tokio::spawn(site.router.clone().oneshot(request))
    };
    let one = |_| unserved(Request::get("/sequence/orders/900000?n=100000"), String::new());
    let many =
        |_| unserved(Request::post("/sequence/orders").header("accept", "application/json"), "900001\n".repeat(10_000));
    let waiting: Vec<_> = (0..120).map(one).chain((0..60).map(many)).collect();
    // By the short way too, which has a number of places for large answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let server = tokio::spawn(serve(listener, site.site.clone(), stop.clone()));
    let mut sockets = Vec::new();
    for _ in 0..2 * large::LARGE_MAX {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET /sequence/orders/900000?n=20001 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        sockets.push(socket);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let answer = site.post("/sequence/orders", &[], "1\n2\n").await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "2\n2\n"));
    let large = raw(&site, "GET", "/sequence/orders/1?n=20001", "").await;
    assert!(large.starts_with("HTTP/1.1 200"), "{large}");
    assert!(waiting.iter().all(|call| !call.is_finished()), "they are still there");
    stop.cancel();
    drop(sockets);
    server.await.unwrap();
}

/// Callers over HTTP or over RPC whose calls wait for a section that nobody serves.
struct Waiting {
    site: Served,
    http: SocketAddr,
    rpc: SocketAddr,
    sockets: Vec<tokio::net::TcpStream>,
    /// The tasks that keep the connections over RPC.
    lines: Vec<tokio::task::JoinHandle<()>>,
    /// The calls over them.
    _calls: Vec<tokio::task::JoinHandle<()>>,
    stop: CancellationToken,
}

fn call() -> SequenceCall {
    SequenceCall { name: "orders".to_owned(), g: None, passing: Passing::On, cluster: None }
}

impl Waiting {
    /// At an agent with so many descriptors for HTTP and an eighth of them for RPC, more callers than there are.
    async fn start(descriptors: usize, over_http: bool) -> Self {
        use tokio::io::AsyncWriteExt as _;
        let masters = Masters::new("orders", 3_000, 100, i64::MAX as u64);
        let connections = connections_of(descriptors);
        let agent = kit::agent_with_connections(&masters.listen().await, connections).await;
        let mut site = site_by(agent, &masters);
        masters.session(0).await;
        assert_eq!(site.get("/sequence/orders/1").await.text(), "1\n");
        site.masters.with(|state| state.heir = 9);
        site.site = site.site.with_descriptors(descriptors);
        let listeners =
            [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let [http, rpc] = [0, 1].map(|at| listeners[at].local_addr().unwrap());
        let [for_http, for_rpc] = listeners;
        let stop = CancellationToken::new();
        tokio::spawn(serve(for_http, site.site.clone(), stop.clone()));
        let server = crate::rpc::Server::new(Arc::clone(&site.agent.minter), 100_000);
        let server = server.with_sequences(Arc::clone(&site.agent.sequences)).with_connections(descriptors / 8);
        tokio::spawn(server.run(for_rpc, stop.clone()));
        let (mut sockets, mut lines, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for nth in 0..descriptors * 3 / 2 {
            if over_http {
                let mut socket = tokio::net::TcpStream::connect(http).await.unwrap();
                // By the short way, and by the router.
                let accept = ["", "Accept: */*;q=1\r\nX-Unusual: 1\r\n"][nth % 2];
                let request = format!("GET /sequence/orders/900000 HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n");
                socket.write_all(request.as_bytes()).await.unwrap();
                sockets.push(socket);
                continue;
            }
            let made =
                MintServiceClient::new(tarpc::client::Config::default(), connect(&rpc.to_string()).await.unwrap());
            let (client, dispatch) = (made.client, made.dispatch);
            lines.push(tokio::spawn(async move {
                let _ = dispatch.await;
            }));
            calls.push(tokio::spawn(async move {
                let _ = client.sequence(deadline_in(Duration::from_secs(20)), call(), Slot(900_000), 1).await;
            }));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        Self { site, http, rpc, sockets, lines, _calls: calls, stop }
    }
}

#[tokio::test]
async fn calls_that_wait_leave_connections_to_others() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let waiting = Waiting::start(64, true).await;
    for nth in 0..20 {
        let mut socket = tokio::net::TcpStream::connect(waiting.http).await.unwrap();
        socket.write_all(b"GET /sequence/orders/1 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut got = vec![0; 64];
        let read = socket.read(&mut got).await.unwrap();
        let got = String::from_utf8_lossy(&got[..read]).into_owned();
        assert!(got.starts_with("HTTP/1.1 200"), "newcomer {nth}: {got}");
    }
    waiting.stop.cancel();
    let waiting = Waiting::start(64, false).await;
    for nth in 0..20 {
        let transport = connect(&waiting.rpc.to_string()).await.unwrap();
        let client = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
        let said = client.sequence(deadline_in(Duration::from_secs(1)), call(), Slot(1), 1).await;
        assert!(matches!(said, Ok(Ok(_))), "newcomer {nth}: {said:?}");
    }
    waiting.stop.cancel();
}

#[tokio::test]
async fn calls_whose_callers_are_gone_give_their_places_back() {
    for over_http in [true, false] {
        let Waiting { site, sockets, lines, stop, .. } = Waiting::start(256, over_http).await;
        let held = site.agent.waiting("orders").await;
        assert!(held >= 20, "{held}");
        drop(sockets);
        // Without a word that the calls are given up.
        lines.iter().for_each(tokio::task::JoinHandle::abort);
        let gone = async {
            while site.agent.waiting("orders").await > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_secs(1), gone).await;
        assert!(gone.is_ok(), "over HTTP {over_http}: {}", site.agent.waiting("orders").await);
        stop.cancel();
    }
}

/// A header that the short way leaves to the router.
pub(super) const LONG_WAY: &str = "Connection: other\r\n";

/// Answers over a socket: by the short way, or, with a header that it leaves to the router, by that. The date is left out.
pub(super) async fn raw(site: &Served, method: &str, path: &str, headers: &str) -> String {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    raw_all(site, &request, 1).await.remove(0)
}

/// The answers to so many requests that are sent at once.
pub(super) async fn raw_all(site: &Served, requests: &str, n: usize) -> Vec<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(listener, site.site.clone(), stop.clone()));
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    client.write_all(requests.as_bytes()).await.unwrap();
    let (mut got, mut answers) = (Vec::new(), Vec::new());
    while answers.len() < n {
        let end = got.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(0, |at| at + 4);
        let head = String::from_utf8(got[..end].to_vec()).unwrap();
        let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|len| len.parse().unwrap());
        let Some(body) = len.and_then(|len: usize| got.get(end..end + len)) else {
            assert_ne!(client.read_buf(&mut got).await.unwrap(), 0);
            continue;
        };
        let dated = head.lines().filter(|line| line.starts_with("date: ")).count();
        assert_eq!(dated, 1, "{head}");
        let lines: Vec<&str> =
            head.lines().map(|line| if line.starts_with("date: ") { "date" } else { line }).collect();
        answers.push(format!("{}\n{}", lines.join("\n"), String::from_utf8_lossy(body)));
        got.drain(..end + body.len());
    }
    drop(client);
    stop.cancel();
    server.await.unwrap();
    answers
}

fn is_short(site: &Served, path: &str) -> bool {
    super::key::KeyPlan::of(&site.site.agent, &path.parse().unwrap(), None, &Visitor::local()).is_ok()
}

#[tokio::test]
async fn the_short_way_and_the_router_answer_alike() {
    let masters = Masters::new("orders", 3_000, 100, i64::MAX as u64);
    let addresses = masters.listen().await;
    let one = site_at(&addresses, &masters, 63).await;
    let first = masters.session(0).await;
    let two = site_at(&addresses, &masters, 63).await;
    masters.session(1).await;
    masters.give(0..3, first);
    assert_eq!(
        (two.get("/sequence/orders/5").await.text(), one.get("/sequence/orders/6").await.text()),
        ("1\n", "1\n")
    );
    let (mut short, mut long) = (String::new(), String::new());
    for query in ["", "?", "?n=1", "?n=3", "?n=250", "?g=0", "?g=1", "?g=0&n=2", "?g=7&forward=no", "?forward=yes"] {
        for media in ["", "text/plain", "application/json", "application/octet-stream", "*/*"] {
            let accept = if media.is_empty() { String::new() } else { format!("Accept: {media}\r\n") };
            for (site, method) in [(&one, "GET"), (&one, "POST"), (&two, "GET")] {
                // Two keys of one section that went the same way until now.
                let path = format!("/sequence/orders/5{query}");
                assert!(is_short(site, &path), "{path}");
                short += &raw(site, method, &path, &accept).await;
                let path = format!("/sequence/orders/6{query}");
                long += &raw(site, method, &path, &format!("{accept}{LONG_WAY}")).await;
                assert_eq!(short, long, "{path} {media}");
            }
        }
    }
    assert!(
        short.contains("uniq-route: 0-1; g=1; ") && short.contains("HTTP/1.1 421 ") && short.contains("\"routes\"")
    );
    for odd in [
        "/sequence/orders/5?n=0",
        "/sequence/orders/5?m=1",
        "/sequence/orders/5?n=1&n=1",
        "/sequence/orders/5/current",
        "/sequence/orders/5/",
        "/sequence/orders/%35",
        "/sequence/orders/",
        "/sequence/nothing/5",
        "/sequence//5",
        "/sequence/orders",
        "/sequences/orders/routes",
    ] {
        assert!(!is_short(&one, odd), "{odd}");
        let (short, long) = (raw(&one, "GET", odd, "").await, raw(&one, "GET", odd, LONG_WAY).await);
        assert_eq!(short.len(), long.len(), "{odd}: {short} {long}");
    }
    // A name that ends while a connection asks for it again and again.
    let namespace = one.agent.minter.names().keyed("orders").unwrap();
    let plan =
        super::key::KeyPlan::of(&one.site.agent, &"/sequence/orders/5".parse().unwrap(), None, &Visitor::local())
            .unwrap();
    assert!(plan.still_stands(&one.site.agent));
    one.agent.minter.retire(&namespace);
    assert!(!plan.still_stands(&one.site.agent) && !is_short(&one, "/sequence/orders/5"));
    assert_eq!(
        raw(&one, "GET", "/sequence/orders/5", "").await,
        raw(&one, "GET", "/sequence/orders/5", LONG_WAY).await
    );
}

#[tokio::test]
async fn keys_of_one_connection_are_counted_each_for_itself() {
    let long = "k".repeat(300);
    let tail = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for keys in [
        &["5", "6", "5", "user-7", "user-7", "06", "a.b_c~d", "18446744073709551615", "5"][..],
        &["5", "6?n=3", "6", "5?n=3", "6?n=3", "5"],
        &["5", "%35", "5"],
        &["5", "", "5"],
        &["5", "5/current", "6"],
        &["5", &long, "6"],
        &["5", "é", "5"],
    ] {
        let (one_by_one, together) = (site().await, site().await);
        let request = |key: &&str| format!("GET /sequence/orders/{key}{tail}");
        let mut wanted = Vec::new();
        for key in keys {
            // A connection of its own: nothing is known of the request before.
            wanted.extend(raw_all(&one_by_one, &request(key), 1).await);
        }
        let requests: String = keys.iter().map(request).collect();
        let answers = raw_all(&together, &requests, keys.len()).await;
        assert_eq!(answers, wanted, "{keys:?}");
    }
}

/// Keys of other sections in between, and the same ones again: what the call is sorted by for the locks is not seen in its answer.
#[tokio::test]
async fn scattered_keys_come_in_the_order_asked_for() {
    let site = site().await;
    let key = |nth: usize| (nth * 7) % 90;
    let body: String = (0..450).map(|nth| format!("{}\n", key(nth))).collect();
    let answer = site.post("/sequence/orders", &[], body).await;
    let numbers: Vec<usize> = answer.text().lines().map(|line| line.parse().unwrap()).collect();
    let mut counts = std::collections::HashMap::new();
    for (nth, number) in numbers.iter().enumerate() {
        let count = counts.entry(key(nth)).or_insert(0);
        *count += 1;
        assert_eq!(number, count, "key {}", key(nth));
    }
    assert_eq!((numbers.len(), counts.len()), (450, 90));
}
