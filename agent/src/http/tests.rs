use super::*;
use crate::minter::kit::{Kit, held};
use axum::body::to_bytes;
use axum::http::{Method, Request};
use common::kind::{UNIQ64, UNIQ96};
use common::token::{TokenType, TokenValue};
use net::rpc::mint::MintCode;
use serde_json::Value;
use std::collections::HashSet;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

pub(super) struct App {
    pub(super) site: Site,
    router: Router,
    pub(super) minter: Arc<Minter>,
    _kit: Kit,
}

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: axum::http::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Status and code of a problem document, which it must be.
    pub(super) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        assert_eq!(self.header("cache-control"), "no-store");
        let json = self.json();
        assert_eq!(json["status"], self.status.as_u16());
        assert!(!json["detail"].as_str().unwrap().is_empty() && !json["title"].as_str().unwrap().is_empty());
        (self.status.as_u16(), json["code"].as_str().unwrap().to_owned())
    }
}

impl App {
    pub(super) fn over(kit: Kit, minter: Arc<Minter>) -> Self {
        let agent = Agent::new(Arc::clone(&minter), Arc::default(), "test-1".parse().unwrap(), BATCH_MAX_DEFAULT);
        let site = Site::new(agent, common::hosts::HostNames::default());
        Self { router: site.router.clone(), site, minter, _kit: kit }
    }

    fn new() -> Self {
        let kit = Kit::new();
        let minter = kit.start();
        Self::over(kit, minter)
    }

    fn bare() -> Self {
        let kit = Kit::new();
        let minter = kit.start_bare();
        Self::over(kit, minter)
    }

    async fn send(&self, method: Method, path: &str, accept: Option<&str>) -> Answer {
        let request =
            Request::builder().method(method).uri(path).header("host", "localhost:6200").extension(Remote::here());
        let request = accept.into_iter().fold(request, |request, value| request.header("accept", value));
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(super) async fn post(&self, path: &str) -> Answer {
        self.send(Method::POST, path, None).await
    }

    pub(super) async fn accept(&self, path: &str, accept: &str) -> Answer {
        self.send(Method::GET, path, Some(accept)).await
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(super) async fn problem(&self, path: &str) -> (u16, String) {
        self.get(path).await.problem()
    }
}

fn bad_parameter() -> (u16, String) {
    (400, "bad_parameter".to_owned())
}

const STRING: &str = "/string?biz=ABCD&custom=xy";

#[tokio::test]
async fn each_kind_comes_as_a_line_of_text() {
    let app = App::new();
    for (path, len) in [("/uniq64", 19), ("/uniq64/default", 19), ("/uniq96", 30), (STRING, 24)] {
        for method in [Method::GET, Method::POST] {
            let answer = app.send(method, path, None).await;
            assert_eq!((answer.status, answer.text().len()), (StatusCode::OK, len + 1), "{}", answer.text());
            assert!(answer.text().ends_with('\n'));
            assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
            assert_eq!(answer.header("cache-control"), "no-store");
        }
    }
    assert!(app.get("/string/default?biz=ABCD&custom=xy").await.text().contains("ABCD07"));
}

#[tokio::test]
async fn every_text_form_and_media_type_says_the_same() {
    let app = App::new();
    for (format, len) in [("decimal", 19), ("hex", 16), ("base32", 13)] {
        let answer = app.get(&format!("/uniq64?format={format}")).await;
        assert_eq!(answer.text().trim_end().len(), len);
        assert_eq!(
            UNIQ64.parse(answer.text().trim_end()).ok().and_then(|id| UNIQ64.layout().parts(id)).unwrap().token,
            TokenValue(7)
        );
    }
    assert!(app.get("/uniq96?format=uri").await.text().starts_with("uniq96://20"));

    let packed = app.send(Method::GET, "/uniq64?n=3", Some("application/octet-stream")).await;
    assert_eq!(packed.header("content-type"), "application/octet-stream");
    let ids: Vec<_> = packed.body.chunks(8).map(|id| u64::from_be_bytes(id.try_into().unwrap())).collect();
    assert!(ids.len() == 3 && ids.is_sorted());
    let packed = app.send(Method::GET, "/uniq96?n=3", Some("application/octet-stream")).await;
    let wide = |id: &[u8]| id.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    let ids: Vec<_> = packed.body.chunks(12).map(wide).collect();
    assert!(ids.len() == 3 && ids.iter().all(|id| UNIQ96.layout().parts(*id).unwrap().token == TokenValue(7)));

    for path in ["/uniq64?n=2", "/uniq96?n=2&format=hex", "/string?n=2&biz=ABCD&custom=xy"] {
        let answer = app.send(Method::GET, path, Some("application/json")).await;
        assert_eq!(answer.header("content-type"), "application/json");
        let json = answer.json();
        assert!(json["ids"].as_array().unwrap().iter().all(Value::is_string) && json["ids"][1].is_string(), "{json}");
    }
}

#[tokio::test]
async fn a_hundred_thousand_in_one_answer_are_all_different() {
    let app = App::new();
    let mut seen = HashSet::new();
    for path in ["/uniq64?n=100000", "/uniq96?n=100000", "/string?n=100000&biz=ABCD&custom=xy"] {
        let text = app.get(path).await;
        seen.extend(text.text().lines().map(str::to_owned));
        let json = app.send(Method::GET, path, Some("application/json")).await.json();
        seen.extend(json["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()));
    }
    let packed = app.send(Method::GET, "/uniq64?n=100000", Some("application/octet-stream")).await;
    seen.extend(packed.body.chunks(8).map(|id| u64::from_be_bytes(id.try_into().unwrap()).to_string()));
    assert_eq!(seen.len(), 700_000);
    assert_eq!(app.minter.names().minted().map(|(_, n)| n).sum::<u64>(), 700_000);
}

#[tokio::test]
async fn what_is_not_understood_is_refused_and_named() {
    let app = App::new();
    for (path, named) in [
        ("/uniq64?n=0", "n:"),
        ("/uniq64?n=100001", "100000"),
        ("/uniq64?n=ten", "n:"),
        ("/uniq64?n=1&n=1", "n is there twice"),
        ("/uniq64?count=1", "count"),
        ("/uniq64?biz=ABCD", "biz"),
        ("/uniq64?format=roman", "roman"),
        ("/uniq96?format=", "format"),
        ("/string?biz=ABCD&custom=xy&format=hex", "format"),
        ("/string?biz=ABCD&custom=xy&date=20261120", "date"),
        ("/string", "/string?biz=AAAA&custom=AA"),
        ("/string?biz=ABCD", "custom"),
        ("/string?biz=ABCDE&custom=xy", "biz"),
        ("/string?biz=AB%0AD&custom=xy", "biz"),
        ("/string?biz=AB%C3%A9&custom=xy", "biz"),
        ("/explain/nonsense", "nonsense"),
    ] {
        let answer = app.get(path).await;
        assert_eq!(answer.problem(), bad_parameter(), "{path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(named), "{path}: {}", answer.text());
    }
    let packed = app.send(Method::GET, STRING, Some("application/octet-stream")).await;
    assert_eq!(packed.problem(), bad_parameter());
    let both = app.send(Method::GET, "/uniq64?format=hex", Some("application/octet-stream")).await;
    assert_eq!(both.problem(), bad_parameter());
    let minted: u64 = app.minter.names().minted().map(|(_, n)| n).sum();
    assert_eq!(minted, 0, "a refusal costs no ID");
    assert_eq!(app.minter.calls().refused().next(), Some((MintCode::BadParameter, 17)));
}

/// Headers as Java's `HttpURLConnection` sent them until 17.0.12, and sends them in 8.
#[tokio::test]
async fn a_header_that_names_nothing_we_have_gets_the_default_form() {
    let app = App::new();
    for accept in ["text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "*/*;q=.2", "*", "", "image/png"] {
        let answer = app.send(Method::GET, "/uniq64", Some(accept)).await;
        assert_eq!(answer.status, StatusCode::OK, "{accept}: {}", answer.text());
        assert!(answer.text().trim().parse::<u64>().is_ok(), "{accept}: {}", answer.text());
    }
}

#[tokio::test]
async fn unknown_names_paths_and_methods_are_problems_too() {
    let app = App::new();
    for path in ["/uniq64/orders", "/string/orders?biz=ABCD&custom=xy", "/uniq64/NoName", "/uniq64/%FF"] {
        assert_eq!(app.problem(path).await, (404, "unknown_generator".to_owned()), "{path}");
    }
    for path in ["/", "/uniq", "/uniq96/default", "/uniq64/a/b"] {
        assert_eq!(app.problem(path).await, (404, "not_found".to_owned()), "{path}");
    }
    for (method, path, allowed) in
        [(Method::PUT, "/uniq64", "POST"), (Method::DELETE, "/status", "GET"), (Method::POST, "/healthz", "GET")]
    {
        let answer = app.send(method, path, None).await;
        assert_eq!(answer.problem(), (405, "method_not_allowed".to_owned()));
        assert!(answer.header("allow").contains(allowed), "{}", answer.header("allow"));
    }
}

#[tokio::test]
async fn without_a_lease_nothing_comes_but_the_reason() {
    let app = App::bare();
    app.minter.grants().explain(Some("master a:1: the other master is silent".to_owned()));
    for path in ["/uniq64", "/uniq96", STRING, "/readyz"] {
        let answer = app.get(path).await;
        assert_eq!(answer.problem(), (503, "no_lease".to_owned()));
        assert!(answer.text().contains("the other master is silent"));
        assert_eq!(answer.header("retry-after"), "1");
    }
    assert_eq!(app.get("/healthz").await.status, StatusCode::OK);
    let status = app.get("/status").await.json();
    assert_eq!((&status["ready"], &status["not_ready"]["code"]), (&Value::Bool(false), &"no_lease".into()));
}

#[tokio::test]
async fn the_codes_of_the_clock_the_token_and_the_end_of_serials() {
    let app = App::new();
    app.minter.set_leases(held(4_096), 0).unwrap();
    assert_eq!(app.problem("/uniq64").await, (503, "token_out_of_range".to_owned()));
    app.minter.suspend().unwrap();
    assert_eq!(app.problem("/uniq96").await, (503, "clock_skew".to_owned()));
    let retry = common::time::SpanMs(90_000);
    let exhausted = Refusal::SerialExhausted { unit: "hour", capacity: 1, left: 0, retry };
    let problem = Problem::refused(&exhausted, app.minter.time().clock());
    let response = axum::response::IntoResponse::into_response(problem);
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &HeaderValue::from(90)));
    for code in MintCode::ALL {
        assert!(StatusCode::from_u16(code.http_status()).unwrap().is_client_error() || code.http_status() == 503);
    }
}

#[tokio::test]
async fn answers_that_are_not_read_hold_their_memory_and_one_caller_leaves_some_to_others() {
    let app = App::new();
    let ask = |remote| {
        let request = Request::builder().uri("/uniq64?n=100000").header("host", "localhost");
        request.extension(remote).body(Body::empty()).unwrap()
    };
    // As many as are given; one more is refused.
    let unread = async |remote: Remote| {
        let mut unread = Vec::new();
        loop {
            let response = app.router.clone().oneshot(ask(remote.clone())).await.unwrap();
            if response.status() != StatusCode::OK {
                assert_eq!(response.status().as_u16(), 503);
                break unread;
            }
            unread.push(response);
            assert!(unread.len() < 1_000, "no bound");
        }
    };
    let of_one = unread(Remote::from(SocketAddr::from(([10, 0, 0, 1], 1)))).await;
    let of_another = unread(Remote::here()).await;
    assert!((of_one.len() / 4..of_one.len() / 2).contains(&of_another.len()), "{} {}", of_one.len(), of_another.len());
    assert_eq!(app.problem("/uniq64?n=100000").await, (503, "overloaded".to_owned()));
    assert_eq!(app.get("/uniq64").await.status, StatusCode::OK, "there is room for one that needs little");
    drop((of_one, of_another));
    assert_eq!(app.get("/uniq64?n=100000").await.status, StatusCode::OK);
}

#[tokio::test]
async fn ids_are_explained() {
    let app = App::new();
    for format in ["decimal", "hex", "base32", "uri"] {
        let id = app.get(&format!("/uniq64?format={format}")).await.text().trim_end().to_owned();
        let explained = app.get(&format!("/explain/{id}")).await.json();
        assert_eq!((&explained["kind"], &explained["token"]), (&"uniq64".into(), &7.into()), "{explained}");
    }
    let id = app.get(STRING).await.text().trim_end().to_owned();
    let explained = app.get(&format!("/explain/{id}")).await.json();
    let as_string = std::iter::once(&explained).chain(explained["also"].as_array().into_iter().flatten());
    assert!(
        as_string.into_iter().any(|reading| reading["kind"] == "string" && reading["token"] == "07"),
        "{explained}"
    );
}

#[tokio::test]
async fn the_agent_tells_about_itself() {
    let app = App::new();
    app.get("/uniq64?n=10").await;
    let status = app.get("/status").await.json();
    assert_eq!(status["agent_id"], "test-1");
    assert_eq!((&status["start"], &status["start_reason"]), (&"fresh".into(), &"no_lineage".into()));
    let lease = &status["leases"][1];
    assert_eq!((&lease["type"], &lease["token"], &lease["g"]), (&"uint2".into(), &"7".into(), &1.into()));
    assert!(lease["until"].as_str().unwrap().ends_with("T00:00:00.000Z"));
    let generators = app.get("/generators").await.json();
    let uniq64 = &generators[0];
    assert_eq!((&uniq64["kind"], &uniq64["serial"]), (&"uniq64".into(), &10.into()));
    assert_eq!(uniq64["capacity_left"], (1u64 << 31) - 10);
    assert_eq!(generators[1]["template"], common::template::DEFAULT_TEMPLATE);
    assert_eq!(app.get("/readyz").await.status, StatusCode::OK);
    let metrics = app.get("/metrics").await;
    assert!(metrics.text().contains("uniq_ids_minted_total{kind=\"uniq64\"} 10\n"), "{}", metrics.text());
    for name in ["uniq_refusals_total{code=\"no_lease\"} 0", "uniq_lease_seconds_left{type=\"uint2\"}", "uniq_ready 1"]
    {
        assert!(metrics.text().contains(name), "{name}");
    }
    assert_eq!(app.minter.grants().leases().get(&TokenType::Uint2), held(7).get(&TokenType::Uint2));
}

async fn listen(app: &App) -> (std::net::SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(listener, app.site.clone(), stop.clone()));
    (address, stop, server)
}

#[tokio::test]
async fn what_is_no_http_is_told_so_and_bounded() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let app = App::new();
    let (address, stop, _server) = listen(&app).await;
    let _stop = stop.drop_guard();
    let long = format!("GET /uniq64?{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "a".repeat(HEAD_LEN_MAX));
    let many = format!("GET /uniq64 HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
    let garbage = "\u{1}\u{2}\u{3} what?\r\n\r\n".to_owned();
    for (request, status) in [(long, "HTTP/1.1 431"), (many, "HTTP/1.1 431"), (garbage, "HTTP/1.1 400")] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        while let Ok(1..) = client.read_buf(&mut got).await {}
        assert!(got.starts_with(status.as_bytes()), "{status}: {}", String::from_utf8_lossy(&got));
    }
}

/// A web page whose owner lets its name lead here could otherwise take IDs, and register names, in a visitor's browser.
#[tokio::test]
async fn a_name_that_is_not_ours_gets_no_id() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let app = App::new();
    let (address, stop, _server) = listen(&app).await;
    let _stop = stop.drop_guard();
    for (request, status) in [
        ("GET /uniq64 HTTP/1.1\r\nHost: localhost:6200\r\n", "HTTP/1.1 200"),
        ("GET /uniq64 HTTP/1.0\r\n", "HTTP/1.0 200"),
        ("GET /uniq64 HTTP/1.1\r\n", "HTTP/1.1 400"),
        ("GET /uniq64 HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", "HTTP/1.1 400"),
        ("GET /uniq64 HTTP/1.1\r\nHost: evil.example\r\n", "HTTP/1.1 421"),
        ("GET http://evil.example/uniq64 HTTP/1.1\r\nHost: localhost\r\n", "HTTP/1.1 421"),
        ("GET /status HTTP/1.1\r\nHost: evil.example:6200\r\n", "HTTP/1.1 421"),
        ("PUT /generators/a HTTP/1.1\r\nHost: evil.example\r\n", "HTTP/1.1 421"),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(format!("{request}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut got = String::new();
        client.read_to_string(&mut got).await.unwrap();
        assert!(got.starts_with(status), "{request}: {got}");
        assert_eq!(got.contains("--host-names"), status.ends_with("421"), "{got}");
    }
    // The short way looks at each new head too, also behind one that was answered.
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = |host: &str| format!("GET /uniq64 HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.write_all(format!("{}{}", request("localhost"), request("evil.example")).as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("unknown_host") {
        assert_ne!(client.read_buf(&mut got).await.unwrap(), 0);
    }
    let got = String::from_utf8_lossy(&got);
    assert_eq!((got.matches("HTTP/1.1 200").count(), got.matches("HTTP/1.1 421").count()), (1, 1), "{got}");
}

/// Over a real socket: pipelined requests, a connection that says nothing, and a stop that waits for neither.
#[tokio::test]
async fn it_serves_pipelined_requests_and_stops_in_spite_of_silent_connections() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let app = App::new();
    let (address, stop, server) = listen(&app).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    silent.write_all(b"GET /uniq64 HTTP/1.1\r\nHo").await.unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    // The sixth is not all there; the others are answered nevertheless.
    client.write_all(&b"GET /uniq64 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(5)).await.unwrap();
    client.write_all(b"GET /uniq64 HTT").await.unwrap();
    let mut got = Vec::new();
    while String::from_utf8_lossy(&got).matches("HTTP/1.1 200 OK").count() < 5 || !got.ends_with(b"\n") {
        assert_ne!(client.read_buf(&mut got).await.unwrap(), 0);
    }
    stop.cancel();
    server.await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0, "closed");
    assert!(TcpStream::connect(address).await.is_err());
}

/// A GET over a connection of its own; status, headers and body as they came.
async fn get_raw(address: std::net::SocketAddr, path: &str) -> (String, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut got = Vec::new();
    loop {
        assert_ne!(client.read_buf(&mut got).await.unwrap(), 0);
        let text = String::from_utf8_lossy(&got);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= len.parse().unwrap() {
                return (head.to_owned(), body.to_owned());
            }
        }
    }
}

#[tokio::test]
async fn the_last_five_hundred_serials_of_an_hour_and_then_the_next_hour() {
    use crate::minter::kit::set_wall;
    use common::kind::UNIQ64_SERIALS_PER_HOUR;
    use common::time::{DAY_MS, HOUR_MS, SpanMs, WallMs};
    const LEFT: u64 = 500;
    let kit = Kit::new();
    let now = common::clock::Clock::system().wall();
    let noon = WallMs(now.0 / DAY_MS * DAY_MS + DAY_MS + 12 * HOUR_MS);
    kit.preset_hour(noon, 0, UNIQ64_SERIALS_PER_HOUR - LEFT);
    let minter = kit.start();
    set_wall(&minter, noon + SpanMs::seconds(3_000));
    // One caller may have all of it.
    minter.driver().reserve_last(0).unwrap();
    let app = App::over(kit, minter);
    let (address, stop, _server) = listen(&app).await;
    let _stop = stop.drop_guard();
    let mut ids = HashSet::new();
    let mut take = |body: &str, serials: std::ops::Range<u32>, hour: u64| {
        let fields = body.lines().map(|id| UNIQ64.layout().parts(UNIQ64.parse(id).unwrap()).unwrap());
        assert!(fields.map(|f| (f.tick % 24, f.serial)).eq(serials.map(|serial| (hour, serial))), "{body}");
        ids.extend(body.lines().map(str::to_owned));
    };
    let start = (UNIQ64_SERIALS_PER_HOUR - LEFT) as u32;
    let (_, body) = get_raw(address, "/uniq64?n=400").await;
    take(&body, start..start + 400, 12);
    let (head, body) = get_raw(address, "/uniq64?n=101").await;
    assert!(head.starts_with("HTTP/1.1 429 ") && body.contains("serial_exhausted"), "{head} {body}");
    for nth in 400..500 {
        let (_, body) = get_raw(address, "/uniq64").await;
        take(&body, start + nth..start + nth + 1, 12);
    }
    for path in ["/uniq64", "/uniq64?n=2", "/uniq64?format=uri"] {
        let (head, body) = get_raw(address, path).await;
        assert!(head.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{path}: {head}");
        let after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
        assert!((500..=600).contains(&after.parse::<u32>().unwrap()), "to the end of the hour: {after} s");
        assert!(head.contains("application/problem+json") && head.contains("cache-control: no-store"), "{head}");
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&"serial_exhausted".into(), &429.into()));
        assert_eq!(app.problem(path).await, (429, "serial_exhausted".to_owned()), "by the router too");
    }
    assert_eq!(get_raw(address, "/uniq96").await.1.len(), 31, "Uniq96 are not concerned");
    set_wall(&app.minter, noon + SpanMs(HOUR_MS));
    let (head, body) = get_raw(address, "/uniq64?n=1000").await;
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    take(&body, 0..1_000, 13);
    assert_eq!(ids.len() as u64, LEFT + 1_000);
}

#[tokio::test]
async fn too_many_connections_are_told_so_at_once_and_the_others_go_on() {
    let app = App::new();
    let (address, stop, _server) = listen(&app).await;
    let _stop = stop.drop_guard();
    assert!(get_raw(address, "/uniq64").await.0.starts_with("HTTP/1.1 200 OK"));
    let taken = (0..CONNECTIONS_MAX).map(|_| app.site.places.take(CallerId::of(())).unwrap());
    let (taken, at_work): (Vec<_>, Vec<_>) = taken.map(|place| (place.clone(), place.begin())).unzip();
    let (head, body) = get_raw(address, "/uniq64").await;
    assert!(head.starts_with("HTTP/1.1 503 ") && body.contains("\"overloaded\""), "{head} {body}");
    drop(at_work);
    assert!(get_raw(address, "/uniq64").await.0.starts_with("HTTP/1.1 200 OK"), "idle ones make room");
    drop(taken);
    assert!(get_raw(address, "/uniq64").await.0.starts_with("HTTP/1.1 200 OK"));
}

/// A stream that is no socket, and sends what is written to it only when it is flushed, as TLS may: the short way serves it, hands it to the router,
/// and ends.
#[tokio::test]
async fn any_stream_of_bytes_is_served() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream, DuplexStream};
    const LAST: &str = "\n";
    const PIPE: usize = 64 << 10;
    let app = App::new();
    let (site, stop) = (Arc::new(app.site.clone()), CancellationToken::new());
    let call = || {
        let (near, far) = tokio::io::duplex(PIPE);
        let work = welcome(BufStream::new(near), SocketAddr::from(([127, 0, 0, 1], 1)).into(), &site, &stop).unwrap();
        (tokio::spawn(work), far)
    };
    async fn ask(far: &mut DuplexStream, paths: &[&str], until: impl Fn(&str) -> bool) -> String {
        let requests = paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        far.write_all(requests.collect::<String>().as_bytes()).await.unwrap();
        let mut got = Vec::new();
        while !std::str::from_utf8(&got).is_ok_and(&until) {
            got.reserve(PIPE);
            assert_ne!(far.read_buf(&mut got).await.unwrap(), 0, "{}", String::from_utf8_lossy(&got));
        }
        String::from_utf8(got).unwrap()
    }
    let ids = |got: &str| got.lines().filter(|line| UNIQ64.parse(line).is_ok()).count();
    let (server, mut far) = call();
    ask(&mut far, &["/uniq64"], |got| ids(got) == 1 && got.ends_with(LAST)).await;
    ask(&mut far, &["/uniq64"; 5], |got| ids(got) == 5 && got.ends_with(LAST)).await;
    ask(&mut far, &["/uniq64?n=6000", "/uniq64"], |got| ids(got) == 6_001 && got.ends_with(LAST)).await;
    let got = ask(&mut far, &["/uniq64?n=0"], |got| got.ends_with('}')).await;
    assert!(got.starts_with("HTTP/1.1 400 "), "{got}");
    ask(&mut far, &["/healthz"], |got| got.ends_with("alive\n")).await;
    drop(far);
    server.await.unwrap();

    let (idle, mut far) = call();
    ask(&mut far, &["/uniq64"], |got| ids(got) == 1 && got.ends_with(LAST)).await;
    let taken: Vec<_> = (1..CONNECTIONS_MAX).map(|_| app.site.places.take(CallerId::of(())).unwrap()).collect();
    let at_work: Vec<_> = taken.iter().map(Place::begin).collect();
    let last = app.site.places.take(CallerId::of(())).unwrap().begin();
    idle.await.unwrap();
    assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0, "it made room");
    let (turned_away, mut far) = call();
    let got = ask(&mut far, &["/uniq64"], |got| got.ends_with('}')).await;
    assert!(got.starts_with("HTTP/1.1 503 ") && got.contains("\"overloaded\""), "{got}");
    drop(far);
    turned_away.await.unwrap();
    drop((at_work, last));
    let (stopped, mut far) = call();
    ask(&mut far, &["/uniq64"], |got| ids(got) == 1 && got.ends_with(LAST)).await;
    stop.cancel();
    stopped.await.unwrap();
}

#[tokio::test]
async fn large_requests_beyond_the_bound_are_refused_and_small_ones_are_not() {
    let app = App::new();
    let (address, stop, _server) = listen(&app).await;
    let _stop = stop.drop_guard();
    let taken: Vec<_> = std::iter::from_fn(|| app.site.agent.large.take(100_000, Caller::User(7))).collect();
    assert_eq!(taken.len(), large::LARGE_MAX);
    let (head, body) = get_raw(address, "/uniq64?n=100000").await;
    assert!(head.starts_with("HTTP/1.1 503 ") && body.contains("\"overloaded\""), "{head} {body}");
    assert_eq!(get_raw(address, "/uniq64?n=10000").await.1.lines().count(), 10_000);
    drop(taken);
    assert_eq!(get_raw(address, "/uniq64?n=100000").await.1.lines().count(), 100_000);
}

/// Whoever asks for large answers and does not read them leaves most places to others.
#[tokio::test]
async fn slow_readers_of_one_address_keep_large_answers_from_nobody_else() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let app = App::new();
    let ask = async |from: &str| {
        let (near, mut far) = tokio::io::duplex(4 << 10);
        let from = SocketAddr::new(from.parse().unwrap(), 1).into();
        let (site, place) = (app.site.clone(), app.site.places.take(CallerId::of(())).unwrap());
        tokio::spawn(async move { serve_connection(near, from, &site, &place, &CancellationToken::new()).await });
        far.write_all(b"GET /uniq64?n=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut head = [0; 12];
        far.read_exact(&mut head).await.unwrap();
        (String::from_utf8(head.to_vec()).unwrap(), far)
    };
    let mut slow = Vec::new();
    for nth in 0..40 {
        let (head, far) = ask("10.0.0.1").await;
        assert_eq!(head, if nth < large::CALLER_MAX { "HTTP/1.1 200" } else { "HTTP/1.1 503" }, "{nth}");
        slow.push(far);
    }
    assert_eq!(ask("10.0.0.2").await.0, "HTTP/1.1 200");
    drop(slow);
}

/// Pipelined: the answers to what is understood come in order, and what is not is answered in its place, by hyper.
#[tokio::test]
async fn a_connection_that_asks_for_something_else_is_answered_in_order() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let app = App::new();
    let (address, stop, _server) = listen(&app).await;
    let _stop = stop.drop_guard();
    let paths = ["/uniq64", "/uniq64?n=3", "/string?biz=ABCD&custom=xy", "/healthz", "/uniq64?format=uri", "/nothing"];
    let requests = paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")).concat();
    for cut in [requests.len(), 1, 7, 40] {
        let mut client = TcpStream::connect(address).await.unwrap();
        for piece in requests.as_bytes().chunks(cut) {
            client.write_all(piece).await.unwrap();
        }
        client.write_all(b"POST /uniq64 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut got = String::new();
        client.read_to_string(&mut got).await.unwrap();
        let statuses: Vec<_> = got.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(statuses, ["200", "200", "200", "200", "200", "404", "200"], "in pieces of {cut}: {got}");
        assert!(got.find("ABCD07") < got.find("uniq64://"), "{got}");
    }
}

#[tokio::test]
async fn what_nobody_reads_is_refused() {
    let app = App::new();
    for path in [
        "/explain/0?name=orders",
        "/generators?kind=string",
        "/status?x",
        "/readyz?a=b",
        "/metrics?name=x",
        "/openapi.json?v=3",
    ] {
        assert_eq!(app.get(path).await.problem(), (400, "bad_parameter".to_owned()), "{path}");
    }
    for (path, sent) in [
        ("/uniq64", r#"{"n":5}"#),
        ("/string?n=2", "biz=1"),
        ("/id/default", "n=5"),
        ("/status", "{}"),
        ("/sequence/a/7", "n=5"),
    ] {
        let method = if path == "/status" { Method::GET } else { Method::POST };
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.extension(Remote::here()).body(Body::from(sent)).unwrap();
        let response = app.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains("no body is read here"), "{path}: {body:?}");
    }
    assert_eq!(app.post("/uniq64").await.status, StatusCode::OK);
    assert_eq!(app.get("/readyz?").await.status, StatusCode::OK, "nothing is asked for");
}
