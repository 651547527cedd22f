//! Connections that stay on the short way, and those that do not.

use super::front::{LOOK, Plan, Usual};
use super::head::{self, Head};
use super::key::KeyPlan;
use super::*;
use crate::access::Visitor;
use crate::heartbeat::tests::master::{Master, in_use};
use crate::masters::tests::masters_at;
use crate::minter::kit::Kit;
use crate::sequences::tests::agent_of;
use crate::sequences::tests::masters::Masters;
use common::namespace::{Definition, Namespace};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use net::rpc::lease::{NameState, Refusal as Said, Registered};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// The answers to these paths, asked for one after the other, and whether the connection was handed on to the router.
async fn ask(site: &Site, paths: &[&str]) -> (String, bool) {
    let (near, mut far) = tokio::io::duplex(64 << 10);
    let (stop, place) = (CancellationToken::new(), site.places.take(CallerId::of(())).unwrap());
    for path in paths {
        far.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    }
    let asked = async move {
        let mut got = Vec::new();
        let answers = |got: &[u8]| String::from_utf8_lossy(got).matches("HTTP/1.1 ").count();
        while answers(&got) < paths.len() && far.read_buf(&mut got).await.unwrap() > 0 {}
        String::from_utf8(got).unwrap()
    };
    let front = Front::new(LOCAL.into(), site, &place);
    let served = async { Pipeline::new(near, &place).serve(front, &stop).await.unwrap().is_some() };
    tokio::join!(asked, served)
}

#[tokio::test]
async fn an_end_that_comes_with_a_request_is_not_lost() {
    let kit = Kit::new();
    let agent = Agent::new(kit.start(), Arc::default(), "test-1".parse().unwrap(), BATCH_MAX_DEFAULT);
    let site = Site::new(agent, common::hosts::HostNames::default());
    tokio::time::pause();
    for stops in [false, true] {
        let (near, mut far) = tokio::io::duplex(64 << 10);
        let (stop, place) = (CancellationToken::new(), site.places.take(CallerId::of(())).unwrap());
        let (front, pipeline) = (Front::new(LOCAL.into(), &site, &place), Pipeline::new(near, &place));
        // Polled only if it was woken.
        let mut serving = FuturesUnordered::from_iter([pipeline.serve(front, &stop)]);
        assert!(futures::poll!(serving.next()).is_pending());
        if stops {
            stop.cancel();
        } else {
            tokio::time::sleep(LOOK).await;
        }
        far.write_all(b"GET /uniq64 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let within = if stops { Duration::ZERO } else { 3 * LOOK };
        let ended = tokio::time::timeout(within, serving.next()).await;
        assert!(matches!(ended, Ok(Some(Ok(None)))), "stops: {stops}");
        let mut got = String::new();
        far.read_to_string(&mut got).await.unwrap();
        assert!(got.starts_with("HTTP/1.1 200 OK"), "{got}");
    }
}

#[tokio::test]
async fn who_asks_for_a_name_first_stays_on_the_short_way() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let minter = kit.start();
    let id: common::parameters::AgentId = "test-1".parse().unwrap();
    let names = Catalog::new(masters_at(&masters, &minter), &kit.path());
    let agent = Agent::new(minter, Arc::default(), id, BATCH_MAX_DEFAULT).with_names(Arc::new(names));
    let site = Site::new(agent, common::hosts::HostNames::default());
    let define = |name: &str| Namespace::define(name.parse().unwrap(), &Definition::default()).unwrap();
    let unfit: Definition = common::json::read(br#"{"kind":"uniq64","encoding":"sqids"}"#).unwrap();
    let unfit = Namespace::define("unfit".parse().unwrap(), &unfit).unwrap();
    master.with(|records| {
        records.registered = vec![
            in_use(define("used")),
            Registered { namespace: define("new"), state: NameState::Unused, proof: None },
            in_use(define("any")),
            Registered { namespace: unfit, state: NameState::Unused, proof: None },
        ];
    });
    for paths in [["/uniq64/used?n=3", "/uniq64/used"], ["/uniq64/new", "/uniq64/new?n=2"], ["/id/any", "/uniq64/any"]]
    {
        let (answers, handed_on) = ask(&site, &paths).await;
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{paths:?}: {answers}");
        assert!(!handed_on, "{paths:?}");
    }
    // Nor is one taken in use by a request that it does not answer.
    for path in ["/layout/unfit", "/uniq64/unfit?format=hex", "/string/unfit"] {
        let (answers, handed_on) = ask(&site, &[path, "/uniq64/used"]).await;
        assert!(answers.starts_with("HTTP/1.1 4") && answers.contains("HTTP/1.1 200") && !handed_on, "{answers}");
        assert!(answers.contains(&of_the_router(&site, path).await), "{answers}");
    }
    let is_unused = |one: &Registered| one.namespace.name().as_str() == "unfit" && one.state == NameState::Unused;
    assert!(master.with(|records| records.registered.iter().any(is_unused)));
    // Nobody is asked twice, and the answers are the router's: about a name that needs the other master while that is away,
    let away = Registered { namespace: define("away"), state: NameState::Unused, proof: None };
    site.agent.minter.names().hear_unused([], vec![away.clone()]);
    master.with(|records| (records.uses, records.restore) = (0, Err(Said::PeerAway)));
    master.with(|records| records.registered.push(away));
    let (answers, handed_on) = ask(&site, &["/uniq64/away?n=2", "/uniq64/used"]).await;
    assert!(answers.starts_with("HTTP/1.1 503") && answers.contains("HTTP/1.1 200") && !handed_on, "{answers}");
    assert_eq!(master.with(|records| records.uses), 1);
    assert!(answers.contains(&of_the_router(&site, "/uniq64/away?n=2").await), "{answers}");
    // and about names that there are not. A request that gives nothing learns of nothing.
    let before = master.with(|records| records.finds.len());
    assert_eq!(ask(&site, &["/uniq64/other?n=0"]).await, (String::new(), true));
    assert_eq!(ask(&site, &["/generators/other"]).await, (String::new(), true));
    assert_eq!(master.with(|records| records.finds.len()), before);
    for (nth, path) in ["/uniq64/other", "/id/other?n=2", "/layout/other"].into_iter().enumerate() {
        // Requests that come while one waits are kept, whatever was answered before them.
        let long = format!("/uniq64/used?{}", "&".repeat(HEAD_LEN_MAX / 2));
        let (answers, handed_on) = ask(&site, &[path, "/uniq64/used", &long, &long, &long]).await;
        assert!(answers.starts_with("HTTP/1.1 404") && answers.contains("HTTP/1.1 200") && !handed_on, "{answers}");
        assert_eq!(master.with(|records| records.finds.len()), before + 2 * nth + 1);
        assert!(answers.contains(&of_the_router(&site, path).await), "{answers}");
    }
}

/// The document that the router answers a request with.
async fn of_the_router(site: &Site, path: &str) -> String {
    let request =
        Request::builder().uri(path).header("host", "localhost").extension(Remote::here()).body(Body::empty()).unwrap();
    let response = site.router.clone().oneshot(request).await.unwrap();
    String::from_utf8(axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_that_is_like_the_last_but_for_its_key_is_what_the_parser_says() {
    let masters = Masters::new("orders", 3_000, 100, i64::MAX as u64);
    let kit = agent_of(&masters.listen().await, 1 << 24, 63).await;
    masters.session(0).await;
    let (minter, sequences) = (Arc::clone(&kit.minter), Arc::clone(&kit.sequences));
    let agent = Agent::new(minter, Arc::default(), "test-1".parse().unwrap(), BATCH_MAX_DEFAULT);
    let agent = agent.with_sequences(sequences);
    let parse = |input: &[u8]| {
        let Head::Plain(plain) = head::read(input) else { return None };
        let plan = KeyPlan::of(&agent, &plain.uri, plain.accept, &Visitor::local()).ok()?;
        let mut usual = Usual::default();
        let plan = Plan::Key(plan);
        usual.learn(&plan, &plain, input);
        let Plan::Key(plan) = plan else { unreachable!() };
        Some((usual, plan, plain.len))
    };
    let (short, requests) = (Cell::new(0), Cell::new(0));
    let keys = prop_oneof!["[0-9]{1,3}", "[0-9A-Za-z%/?#. ~_-]{0,9}", "k{126,130}"];
    let tails = prop_oneof![Just(""), Just("?n=3"), Just("?"), Just("#a"), Just("/current")];
    let changes = proptest::collection::vec((0usize..80, any::<u8>()), 0..2);
    let drawn = (keys, tails.clone(), tails, changes);
    // So many that enough of them are as the short way wants them.
    let done = TestRunner::new(Config::with_cases(1_024)).run(&drawn, |(key, before, after, changes)| {
        let request = |key: &str, tail| {
            format!("GET /sequence/orders/{key}{tail} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
        };
        let Some((usual, mut plan, _)) = parse(&request("5", before)) else { return Ok(()) };
        let mut input = request(&key, after);
        for (at, byte) in changes {
            if let Some(place) = input.get_mut(at) {
                *place = byte;
            }
        }
        requests.set(requests.get() + 1);
        if let Some(len) = usual.with_key(&mut plan, &input) {
            short.set(short.get() + 1);
            let (_, wanted, wanted_len) = parse(&input).expect("the parser understands it, too");
            prop_assert_eq!((plan.slot, plan.n, len), (wanted.slot, wanted.n, wanted_len));
        }
        Ok(())
    });
    done.unwrap();
    assert!(short.get() > 10 && short.get() < requests.get(), "{} of {}", short.get(), requests.get());
}
