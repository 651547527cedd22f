//! Names whose texts a strategy makes, on every way to their IDs.

use super::plugged_tests::Server;
use crate::embed::{EncodingSource, Shared, UniqGenerator as _};
use crate::plugin::Plugins;
use common::encoding::Secrets;
use common::kind::Kind;
use common::layout::LayoutSpec;
use common::namespace::{Definition, Scope, Uniq64Spec};
use common::plugin::{Parameter, Parameters};
use common::strategy::{Defined, Generate, Minted, Strategies, Strategy};
use net::rpc::mint::{MintCode, MintServiceClient};
use net::rpc::transport;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio_util::sync::CancellationToken;

const RIGHT: u8 = 0;
const ERRS: u8 = 1;
const PANICS: u8 = 2;
/// Leaves the last two digits out, so that a hundred numbers would get one text.
const ALIKE: u8 = 3;

struct Orders(Arc<AtomicU8>);

struct Prefixed(Arc<AtomicU8>, String);

impl Strategy for Orders {
    fn needs(&self) -> LayoutSpec {
        layout()
    }

    fn init(&self, of: Defined<'_>) -> Result<Box<dyn Generate>, String> {
        match of.parameters.get("prefix") {
            Some(Parameter::Text(prefix)) => Ok(Box::new(Prefixed(Arc::clone(&self.0), prefix.clone()))),
            _ => Err("say a prefix".to_owned()),
        }
    }
}

impl Generate for Prefixed {
    fn generate(&self, ids: &[Minted]) -> Result<Vec<String>, String> {
        let does = self.0.load(Ordering::Relaxed);
        assert!(does != PANICS, "out of order");
        let text = |id: &Minted| format!("{}-{}", self.1, if does == ALIKE { id.number / 100 } else { id.number });
        if does == ERRS { Err("closed today".to_owned()) } else { Ok(ids.iter().map(text).collect()) }
    }

    fn read(&self, text: &str) -> Option<u128> {
        text.strip_prefix(&self.1)?.strip_prefix('-')?.parse().ok()
    }
}

/// One that the tokens of this agent fit.
fn layout() -> LayoutSpec {
    LayoutSpec {
        bits: Some(64),
        epoch: Some("2024-01-01T00:00:00Z".to_owned()),
        unit_ms: Some(1),
        fields: Some(["zero:1", "time:41", "token:12", "serial:10"].map(str::to_owned).to_vec()),
        ..LayoutSpec::default()
    }
}

fn by_strategy(name: &str, prefix: Option<&str>) -> Definition {
    let parameters = prefix.map(|prefix| Parameters::default().with("prefix", Parameter::Text(prefix.to_owned())));
    let encoding = EncodingSource::strategy(name, parameters.unwrap_or_default());
    Definition::Layout(LayoutSpec { encoding: Some(encoding), ..layout() })
}

/// A server whose strategy does what the switch says, with a name by it.
async fn start(plugins: &str) -> (Server, Arc<AtomicU8>) {
    let (server, does) = (Server::start(Plugins::new()).await, Arc::new(AtomicU8::new(RIGHT)));
    let mut strategies = Strategies::default();
    strategies.register("orders", Orders(Arc::clone(&does))).unwrap();
    server.minter.extras().keep_strategies(strategies);
    server.define("orders", by_strategy("orders", Some("A")), plugins);
    (server, does)
}

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const PACKED: &str = "application/octet-stream";

#[tokio::test]
async fn texts_leave_on_every_way_and_numbers_on_none() {
    let (server, _) = start("[]").await;
    let ways = [("/id/orders", TEXT), ("/layout/orders?n=5000", TEXT), ("/id/orders?n=2", JSON), ("/uniq64", TEXT)];
    let answers = server.pipeline(&ways).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{}", answers[0].text());
    let mut seen = HashSet::new();
    let mut see = |text: &str| assert!(text.starts_with("A-") && seen.insert(text.to_owned()), "{text}");
    answers[..2].iter().for_each(|answer| answer.text().lines().for_each(&mut see));
    let json: serde_json::Value = serde_json::from_str(&answers[2].text()).unwrap();
    json["ids"].as_array().unwrap().iter().for_each(|id| see(id.as_str().unwrap()));

    let minted = || server.minter.names().minted().map(|(_, n)| n).sum::<u64>();
    let before = minted();
    for (path, accept) in [("/id/orders", PACKED), ("/id/orders?format=hex", TEXT), ("/layout/orders?n=2", PACKED)] {
        let refused = server.get(path, accept).await;
        assert_eq!(
            (refused.status, refused.text().contains("bad_parameter")),
            (400, true),
            "{path} {}",
            refused.text()
        );
    }
    assert_eq!(minted(), before, "refused before any ID was taken");

    // In process, on threads that may block.
    let minter = Arc::clone(&server.minter);
    let ids = tokio::task::spawn_blocking(move || {
        let orders = Shared::new(&minter, "orders").unwrap();
        let mut ids = vec![orders.get_id().unwrap()];
        orders.per_thread().get_batch_id(100, &mut ids).unwrap();
        assert!(orders.get_number().is_err() && orders.get_batch_number(3, &mut Vec::new()).is_err());
        ids
    });
    ids.await.unwrap().iter().for_each(|id| see(id));

    // Over RPC.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(crate::rpc::Server::new(Arc::clone(&server.minter), 100_000).run(listener, CancellationToken::new()));
    let transport = transport::connect(&address).await.unwrap();
    let client = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    let soon = || transport::deadline_in(std::time::Duration::from_secs(30));
    let name = || "orders".to_owned();
    let ids = client.texts(soon(), None, name(), 1_000, String::new(), String::new()).await.unwrap().unwrap();
    ids.iter().for_each(|id| see(id));
    let refused = client.numbers(soon(), Some(Kind::Layout), name(), 1).await.unwrap().unwrap_err();
    assert_eq!(refused.code, MintCode::BadParameter);

    let explained = server.get(&format!("/explain/{}", ids[0]), JSON).await;
    let told: serde_json::Value = serde_json::from_str(&explained.text()).unwrap();
    assert_eq!((&told["encoding"], &told["strategy"]), (&"strategy".into(), &"orders".into()));
    assert_eq!(format!("A-{}", told["texts"]["decimal"].as_str().unwrap()), ids[0]);
}

#[tokio::test]
async fn what_a_strategy_does_wrong_is_a_refusal_and_no_id_comes_twice() {
    let (server, does) = start("[]").await;
    let before = server.get("/id/orders?n=50", TEXT).await.text();
    for (wrong, said) in [(ERRS, "closed today"), (ALIKE, "does not read"), (PANICS, "out of order")] {
        does.store(wrong, Ordering::Relaxed);
        for (n, accept) in [(1, TEXT), (5_000, TEXT), (3, JSON)] {
            let refused = server.get(&format!("/id/orders?n={n}"), accept).await;
            let text = refused.text();
            assert_eq!((refused.status, text.contains("strategy_failed")), (503, true), "{text}");
            assert!(text.contains(said), "{text}");
        }
        // All else goes on.
        assert_eq!(server.get("/uniq64", TEXT).await.status, 200);
    }
    does.store(RIGHT, Ordering::Relaxed);
    let after = server.get("/id/orders?n=50", TEXT).await.text();
    let all: HashSet<_> = before.lines().chain(after.lines()).collect();
    assert_eq!(all.len(), 100, "{after}");

    // One that panics each time is not asked each time.
    does.store(PANICS, Ordering::Relaxed);
    let mut last = String::new();
    for _ in 0..20 {
        last = server.get("/id/orders", TEXT).await.text();
    }
    assert!(last.contains("panics each time"), "{last}");
}

#[tokio::test]
async fn plugins_stand_around_a_strategy_as_around_all_else() {
    let (server, does) = start(r#"[{"plugin":"quota","per_day":3},{"plugin":"stats"}]"#).await;
    let first = server.get("/id/orders?n=2", TEXT).await;
    assert_eq!((first.status, first.text().lines().count()), (200, 2));
    does.store(ERRS, Ordering::Relaxed);
    assert_eq!(server.get("/id/orders", TEXT).await.status, 503);
    let refused = server.get("/id/orders?n=2", TEXT).await;
    assert_eq!((refused.status, refused.text().contains("quota_exceeded")), (429, true), "{}", refused.text());
}

#[tokio::test]
async fn an_agent_without_the_strategy_says_so_and_serves_all_else() {
    let (server, _) = start("[]").await;
    server.define("other", by_strategy("other", None), "[]");
    server.define("wrong", by_strategy("orders", None), "[]");
    for (name, code, status, said) in
        [("other", "strategy_missing", 503, "no strategy 'other'"), ("wrong", "strategy_failed", 503, "say a prefix")]
    {
        let refused = server.get(&format!("/id/{name}"), TEXT).await;
        let text = refused.text();
        assert_eq!((refused.status, text.contains(code), text.contains(said)), (status, true, true), "{text}");
        let minter = Arc::clone(&server.minter);
        let generator = Shared::new(&minter, name).unwrap();
        assert!(generator.get_id().unwrap_err().to_string().contains(said));
    }
    assert_eq!(server.get("/id/orders", TEXT).await.status, 200);
}

#[tokio::test]
async fn uniq64_leave_as_their_names_encoding_writes_them() {
    let server = Server::start(Plugins::new()).await;
    let secret = "1f".repeat(32);
    server.minter.extras().keep_secrets(secret.parse().unwrap());
    let secrets: Secrets = secret.parse().unwrap();
    let uniq64 = |encoding: &str, scope| {
        let encoding = Some(serde_json::from_str(encoding).unwrap());
        let definition = Definition::Uniq64(Uniq64Spec { encoding, scope: Some(scope), ..Uniq64Spec::default() });
        definition.completed(&secrets, Strategies::NONE, None)
    };
    let long = r#"{"form":"decimal","length":20}"#;
    for (name, encoding, scope, len) in [
        ("short", r#""base62""#, Scope::Kind, Some(11)),
        ("own", r#""hex""#, Scope::Own, Some(16)),
        ("padded", long, Scope::Kind, Some(20)),
        ("veiled", r#""sqids""#, Scope::Kind, None),
        ("coupons", r#"{"form":"ff1","length":20}"#, Scope::Own, Some(20)),
    ] {
        server.define(name, uniq64(encoding, scope), "[]");
        let (one, many) = (format!("/id/{name}"), format!("/uniq64/{name}?n=3000"));
        let answers = server.pipeline(&[(&one, TEXT), (&many, TEXT), (&one, JSON), ("/uniq64", TEXT)]).await;
        let mut seen = HashSet::new();
        for text in answers[0].text().lines().chain(answers[1].text().lines()) {
            assert!(len.is_none_or(|len| text.len() == len) && seen.insert(text.to_owned()), "{name}: {text}");
        }
        assert_eq!((seen.len(), answers[2].status), (3_001, 200), "{name}");
        let hides = ["veiled", "coupons"].contains(&name);
        // Eight bytes each are the numbers.
        let packed = server.get(&many, PACKED).await;
        assert_eq!((packed.status, packed.body.len()), if hides { (400, packed.body.len()) } else { (200, 24_000) });
        let refused = server.get(&format!("{one}?format=hex"), TEXT).await;
        assert_eq!((refused.status, refused.text().contains("bad_parameter")), (400, true), "{}", refused.text());

        let minter = Arc::clone(&server.minter);
        let shared = Shared::new(&minter, name).unwrap();
        let ids = tokio::task::spawn_blocking(move || (shared.get_id().unwrap(), shared.get_uniq64().ok()));
        let (id, number) = ids.await.unwrap();
        assert!(seen.insert(id.clone()) && number.is_none() == hides, "{name}: {number:?}");
        let explained = server.get(&format!("/explain/{id}"), JSON).await.text();
        let told: serde_json::Value = serde_json::from_str(&explained).unwrap();
        let mut readings = std::iter::once(&told).chain(told["also"].as_array().into_iter().flatten());
        let is_uniq64 = readings.any(|reading| reading["kind"] == "uniq64" && reading["texts"].is_object());
        let hidden = explained.contains(&format!("\"names\":[\"{name}\"]")) && explained.contains("\"hidden\":\"by ");
        assert_eq!(hidden, hides, "{name} {id}: {explained}");
        // Whoever asks has not shown the secret. What is written may look like a number, and then is taken for that one.
        let as_it_stands = explained.contains(&format!("\"decimal\":\"{}\"", id.trim_start_matches('0')));
        assert_eq!(is_uniq64 && !as_it_stands, name != "coupons" && name != "padded", "{name} {id}: {explained}");
        assert!(is_uniq64 || name == "coupons", "{name} {id}: {explained}");
    }
    // One series for all names whose scope is the kind.
    let hidden: HashSet<_> = server
        .minter
        .names()
        .namespaces()
        .iter()
        .filter(|it| it.written().is_some())
        .map(|it| it.name().to_string())
        .collect();
    assert_eq!(hidden.len(), 5);
}
