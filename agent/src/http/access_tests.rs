//! Callers with API keys, at every address, by the short way and by the router, and at every call over RPC.

use super::sequence_tests::{LONG_WAY, Served, raw, raw_all, site};
use super::*;
use crate::rpc::Server;
use common::account::SecretHash;
use common::api_key::{AgentScope, ApiKey, KEY_BEGIN, KeyScope};
use common::namespace::{Definition, Namespace};
use common::quota::IdQuota;
use common::sequence::{Section, Slot};
use common::time::{SpanMs, WallMs};
use net::rpc::lease::{AgentCredentials, CredentialsVersion};
use net::rpc::mint::{KeyAsked, MintCode, MintFailure, MintServiceClient, Passing, SequenceCall};
use net::rpc::transport::{connect, deadline_in};
use tarpc::client::RpcError;
use tokio::net::TcpListener;

/// A key, as its owner has it.
fn secret(nth: u8) -> String {
    format!("{KEY_BEGIN}{nth:064x}")
}

fn key(nth: u8, actions: &[KeyAction], names: &[&str]) -> ApiKey {
    let (name, names) =
        (format!("key-{nth}").parse().unwrap(), names.iter().map(|name| name.parse().unwrap()).collect());
    let scope = KeyScope::Agents(AgentScope { actions: actions.iter().copied().collect(), names, quota: None });
    ApiKey::new(name, scope, SecretHash::of(secret(nth).as_bytes()))
}

fn learn(access: &Access, version: u64, keys: Vec<ApiKey>) {
    access.learn(
        AgentCredentials { version: CredentialsVersion { version, at: WallMs(0) }, keys, revoked: Vec::new() },
        WallMs(0),
    );
}

/// An agent whose access is `access`.
async fn with_access(access: Arc<Access>) -> Served {
    let mut served = site().await;
    let (minter, sequences) = (Arc::clone(&served.agent.minter), Arc::clone(&served.agent.sequences));
    let agent = Agent::new(minter, Arc::default(), "test-1".parse().unwrap(), BATCH_MAX_DEFAULT);
    let agent = agent.with_sequences(sequences).with_access(access);
    served.site = Site::new(agent, common::hosts::HostNames::default());
    served.router = served.site.router.clone();
    served
}

/// Every address that is not open to all, with what it takes.
const ADDRESSES: &[(&str, &str, KeyAction)] = &[
    ("GET", "/uniq64", KeyAction::Mint),
    ("POST", "/uniq64?n=3", KeyAction::Mint),
    ("GET", "/uniq64/default", KeyAction::Mint),
    ("GET", "/uniq96", KeyAction::Mint),
    ("GET", "/string?biz=ABCD&custom=xy", KeyAction::Mint),
    ("GET", "/string/default?biz=ABCD&custom=xy", KeyAction::Mint),
    ("GET", "/id/default", KeyAction::Mint),
    ("GET", "/layout/orders", KeyAction::Mint),
    ("GET", "/segment/orders", KeyAction::Mint),
    ("GET", "/sequence/orders/7", KeyAction::Mint),
    ("GET", "/sequence/orders/7/current", KeyAction::Mint),
    ("POST", "/sequence/orders", KeyAction::Mint),
    ("GET", "/sequences/orders/routes", KeyAction::Mint),
    ("PUT", "/generators/orders", KeyAction::Define),
    ("GET", "/explain/1", KeyAction::Explain),
    ("GET", "/generators", KeyAction::Status),
    ("GET", "/status", KeyAction::Status),
    ("GET", "/metrics", KeyAction::Status),
];

#[tokio::test]
async fn each_address_of_the_description_is_tried_or_open() {
    let served = site().await;
    let described = served.get("/openapi.json").await.json();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let is_open = openapi::OPEN.contains(&path.as_str());
        let first = |path: &str| path.split(['/', '?']).nth(1).unwrap().to_owned();
        let fits = |tried: &str| first(tried) == first(path) && tried.matches('/').count() == path.matches('/').count();
        for method in methods.as_object().unwrap().keys() {
            let tried = ADDRESSES.iter().any(|(as_, tried, _)| as_.eq_ignore_ascii_case(method) && fits(tried));
            let tried = tried || ADDRESSES.iter().any(|(_, tried, action)| fits(tried) && *action == KeyAction::Mint);
            assert!(is_open || tried, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_key_opens_its_actions_on_its_names_at_every_address_and_by_both_ways() {
    let access = Arc::<Access>::default();
    let keys = (0..).zip(KeyAction::ALL).map(|(nth, action)| key(nth, &[action], &["default", "ord*"]));
    let others = key(9, &KeyAction::ALL, &["other", "order"]);
    learn(&access, 1, keys.chain([others]).collect());
    let served = with_access(access).await;
    for (method, path, needed) in ADDRESSES {
        for (shown, may) in (0..).zip(KeyAction::ALL.map(|action| action == *needed)).chain([(9, false)]) {
            // What is not about a name is open to a key for other names.
            let may = may || shown == 9 && matches!(needed, KeyAction::Explain | KeyAction::Status);
            let shows = format!("Authorization: Bearer {}\r\n", secret(shown));
            for way in ["", LONG_WAY] {
                let answer = raw(&served, method, path, &format!("{shows}{way}")).await;
                let is_refused = answer.starts_with("HTTP/1.1 403 ") && answer.contains("\"code\":\"forbidden\"");
                assert_eq!(is_refused, !may, "{method} {path} by key {shown}: {answer}");
                assert!(!answer.starts_with("HTTP/1.1 401 "), "{answer}");
            }
        }
        for wrong in ["Bearer uniq_x", "Basic YTpi", &format!("Bearer {}", secret(77)), "Bearer", "x"] {
            for way in ["", LONG_WAY] {
                let answer = raw(&served, method, path, &format!("Authorization: {wrong}\r\n{way}")).await;
                assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("login_required"), "{wrong}: {answer}");
                assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
            }
        }
        // Whoever is on this machine needs none.
        let answer = raw(&served, method, path, "").await;
        assert!(!answer.starts_with("HTTP/1.1 401 ") && !answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
    for open in openapi::OPEN {
        let answer = raw(&served, "GET", open, "Authorization: Bearer uniq_x\r\n").await;
        assert!(!answer.starts_with("HTTP/1.1 401 "), "{open}: {answer}");
    }
    let twice = format!("Authorization: Bearer {0}\r\nAuthorization: Bearer {0}\r\n", secret(0));
    assert!(raw(&served, "GET", "/uniq64", &twice).await.starts_with("HTTP/1.1 400 "));
    // A name that is written otherwise in the address is the same name.
    let shows = format!("Authorization: Bearer {}\r\n", secret(9));
    for path in ["/sequence/%6frders/7", "/uniq64/%64efault", "/id/%64efault"] {
        assert!(raw(&served, "GET", path, &shows).await.starts_with("HTTP/1.1 403 "), "{path}");
    }
}

#[tokio::test]
async fn requests_behind_each_other_have_each_their_own_key() {
    let access = Arc::<Access>::default();
    learn(&access, 1, vec![key(1, &[KeyAction::Mint], &["default"]), key(2, &[KeyAction::Mint], &["other"])]);
    let served = with_access(access).await;
    let of = |header: &str| format!("GET /uniq64 HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
    let shows = |nth| of(&format!("Authorization: Bearer {}\r\n", secret(nth)));
    let requests = [shows(1), shows(1), of(""), shows(1), shows(2), shows(1), of(""), shows(7)];
    let answers = raw_all(&served, &requests.concat(), requests.len()).await;
    let statuses: Vec<&str> = answers.iter().map(|answer| &answer[9..12]).collect();
    assert_eq!(statuses, ["200", "200", "200", "200", "403", "200", "200", "401"]);
}

#[tokio::test]
async fn a_key_that_ends_or_is_revoked_opens_nothing_more_on_an_open_connection() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let access = Arc::<Access>::default();
    let served = with_access(Arc::clone(&access)).await;
    let now = served.agent.minter.time().wall();
    let ends = |nth, ms| ApiKey { until: Some(now + SpanMs(ms)), ..key(nth, &[KeyAction::Mint], &["*"]) };
    learn(&access, 1, vec![ends(1, 60_000), ends(2, 60_000), ends(3, -1)]);
    assert_eq!((access.next_end(now), access.next_end(now + SpanMs(60_000))), (Some(now + SpanMs(60_000)), None));
    let (listener, stop) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), CancellationToken::new());
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, served.site.clone(), stop.clone()));
    let mut io = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut ask = async |nth: u8, path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", secret(nth));
        io.write_all(request.as_bytes()).await.unwrap();
        let mut got = vec![0; 4 << 10];
        let len = io.read(&mut got).await.unwrap();
        String::from_utf8_lossy(&got[9..12.min(len)]).into_owned()
    };
    for path in ["/uniq64", "/sequence/orders/7", "/uniq64"] {
        assert_eq!(ask(1, path).await, "200");
    }
    learn(&access, 2, vec![ends(2, 60_000)]);
    // Not even behind a request that nothing is understood of but its key.
    assert_eq!([ask(2, "/uniq64/unknown").await, ask(1, "/uniq64").await], ["404", "401"]);
    assert_eq!([ask(1, "/uniq64").await, ask(2, "/uniq64").await, ask(3, "/uniq64").await], ["401", "200", "401"]);
    stop.cancel();
}

fn metered(nth: u8, per_day: u64) -> ApiKey {
    let names = ["default".parse().unwrap(), "ord*".parse().unwrap()].into();
    let quota = IdQuota::new(None, Some(per_day)).ok();
    let scope = KeyScope::Agents(AgentScope { actions: [KeyAction::Mint].into(), names, quota });
    ApiKey { scope, ..key(nth, &[], &[]) }
}

#[tokio::test]
async fn a_key_with_a_quota_gives_no_more_at_any_address_by_either_way() {
    let access = Arc::<Access>::default();
    let served = with_access(Arc::clone(&access)).await;
    // These give no IDs, or need a body.
    let free = |path: &str| path.ends_with("/current") || path.ends_with("/routes") || path == "/sequence/orders";
    let minting = ADDRESSES.iter().filter(|(_, path, needed)| *needed == KeyAction::Mint && !free(path));
    for (nth, (method, path, _)) in (0..).zip(minting) {
        let n = if path.contains("n=3") { 3 } else { 1 };
        learn(&access, nth.into(), vec![metered(nth, 4 * n)]);
        let shows = format!("Authorization: Bearer {}\r\n", secret(nth));
        for way in ["", LONG_WAY, "", LONG_WAY] {
            let answer = raw(&served, method, path, &format!("{shows}{way}")).await;
            assert!(!answer.starts_with("HTTP/1.1 429 "), "{method} {path}: {answer}");
        }
        for way in ["", LONG_WAY] {
            let answer = raw(&served, method, path, &format!("{shows}{way}")).await;
            let is_told = answer.starts_with("HTTP/1.1 429 ") && answer.contains("\"code\":\"quota_exceeded\"");
            assert!(is_told && answer.contains("retry-after: "), "{method} {path}: {answer}");
        }
    }
    let shows = format!("Authorization: Bearer {}\r\n", secret(50));
    // A change of the key gives nothing anew but what it allows more; more at once than it ever gives is told as that.
    for (version, per_day, status) in [(30, 2, "429"), (31, 5, "200"), (32, 5, "429"), (33, 2, "429"), (34, 8, "200")] {
        learn(&access, version, vec![metered(50, per_day)]);
        let answer = raw(&served, "GET", "/uniq64?n=3", &shows).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{per_day}: {answer}");
        assert_eq!(answer.contains("ask for fewer"), per_day == 2, "{answer}");
    }
}

type Called<T> = Result<Result<T, MintFailure>, RpcError>;

fn code<T>(called: Called<T>) -> Option<MintCode> {
    called.unwrap().err().map(|failure| failure.code)
}

/// The codes of every call for a name, in the order of the service, without those that are open to all.
async fn every_call(client: &MintServiceClient, name: &str) -> [Option<MintCode>; 7] {
    let soon = || deadline_in(Duration::from_secs(30));
    let call = || SequenceCall { name: name.to_owned(), g: None, passing: Passing::On, cluster: None };
    let namespace = Namespace::define(name.parse().unwrap(), &Definition::layout("snowflake")).unwrap();
    let name = || name.to_owned();
    [
        code(client.numbers(soon(), None, name(), 1).await),
        code(client.texts(soon(), None, name(), 1, String::new(), String::new()).await),
        code(client.sequence(soon(), call(), Slot(7), 1).await),
        code(client.sequence_many(soon(), call(), vec![KeyAsked { slot: Slot(7), n: 1 }]).await),
        code(client.sequence_current(soon(), call(), Slot(7)).await),
        code(client.sequence_routes(soon(), name(), Section(0)).await),
        code(client.define_generator(soon(), namespace, true).await),
    ]
}

#[tokio::test]
async fn a_key_opens_the_same_over_rpc() {
    let access = Arc::<Access>::default();
    let keys = || vec![key(1, &[KeyAction::Mint], &["orders"]), key(2, &[KeyAction::Define], &["*"])];
    learn(&access, 1, keys());
    let served = with_access(Arc::clone(&access)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Server::new(Arc::clone(&served.agent.minter), 100).with_sequences(Arc::clone(&served.agent.sequences));
    tokio::spawn(server.with_access(Arc::clone(&access)).run(listener, CancellationToken::new()));
    let connected = async || {
        let transport = connect(&address).await.unwrap();
        MintServiceClient::new(tarpc::client::Config::default(), transport).spawn()
    };
    let soon = || deadline_in(Duration::from_secs(30));
    let forbidden = Some(MintCode::Forbidden);
    let is_forbidden = |codes: [Option<MintCode>; 7]| codes.map(|code| code == forbidden);
    let client = connected().await;
    assert_eq!(is_forbidden(every_call(&client, "orders").await), [false; 7], "whoever is on this machine needs none");
    assert_eq!(code(client.authenticate(soon(), secret(9)).await), Some(MintCode::LoginRequired));
    assert_eq!(every_call(&client, "orders").await, [Some(MintCode::LoginRequired); 7], "and a key is all that counts");
    assert_eq!(code(client.authenticate(soon(), "open sesame".to_owned()).await), Some(MintCode::LoginRequired));
    assert_eq!(every_call(&client, "orders").await, [Some(MintCode::LoginRequired); 7]);
    assert_eq!(code(client.authenticate(soon(), secret(1)).await), None);
    assert_eq!(is_forbidden(every_call(&client, "orders").await), [false, false, false, false, false, false, true]);
    assert_eq!(is_forbidden(every_call(&client, "default2").await), [true; 7]);
    assert_eq!(code(client.authenticate(soon(), secret(2)).await), None);
    assert_eq!(is_forbidden(every_call(&client, "orders").await), [true, true, true, true, true, true, false]);
    // What is revoked opens nothing on open connections either, until it is known again.
    learn(&access, 2, Vec::new());
    assert_eq!(every_call(&client, "orders").await, [Some(MintCode::LoginRequired); 7]);
    assert_eq!(code(client.ready(soon()).await), None);
    learn(&access, 3, keys());
    assert_eq!(is_forbidden(every_call(&client, "orders").await), [true, true, true, true, true, true, false]);
    // The calls that give something have one account.
    let (exceeded, quota) = (Some(MintCode::QuotaExceeded), |per_day| vec![metered(4, per_day)]);
    learn(&access, 4, quota(4));
    assert_eq!(code(client.authenticate(soon(), secret(4)).await), None);
    let first = every_call(&client, "orders").await;
    assert!(first[..6].iter().all(|code| *code != exceeded), "{first:?}");
    assert_eq!(
        every_call(&client, "orders").await.map(|code| code == exceeded),
        [true, true, true, true, false, false, false]
    );
}
