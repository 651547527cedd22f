//! Connections that stay on the short way, and those that do not.

use super::*;
use crate::heartbeat::tests::master::{Master, in_use};
use crate::masters::tests::masters_at;
use crate::minter::kit::Kit;
use common::namespace::{Definition, Namespace};
use common::rpc::lease::{NameState, Refusal as Said, Registered};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The answers to these paths, asked for one after the other, and whether the connection was handed on to the router.
async fn ask(site: &Site, paths: &[&str]) -> (String, bool) {
    let (near, mut far) = tokio::io::duplex(64 << 10);
    let (stop, place) = (CancellationToken::new(), site.places.take().unwrap());
    for path in paths {
        far.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    }
    let asked = async move {
        let mut got = Vec::new();
        let answers = |got: &[u8]| String::from_utf8_lossy(got).matches("HTTP/1.1 ").count();
        while answers(&got) < paths.len() && far.read_buf(&mut got).await.unwrap() > 0 {}
        String::from_utf8(got).unwrap()
    };
    let served = async { Front::new(near, [127, 0, 0, 1].into(), site, &place).serve(&stop).await.unwrap().is_some() };
    tokio::join!(asked, served)
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
        assert!(ask(&site, &[path]).await.1, "{path}");
    }
    let is_unused = |one: &Registered| one.namespace.name().as_str() == "unfit" && one.state == NameState::Unused;
    assert!(master.with(|records| records.registered.iter().any(is_unused)));
    // While the other master is away nobody asks here again what the router will ask.
    let away = Registered { namespace: define("away"), state: NameState::Unused, proof: None };
    site.agent.minter.names.hear_unused([], vec![away.clone()]);
    master.with(|records| (records.uses, records.restore) = (0, Err(Said::PeerAway)));
    master.with(|records| records.registered.push(away));
    assert!(ask(&site, &["/uniq64/away"]).await.1);
    assert_eq!(master.with(|records| records.uses), 1);
    // A request that gives nothing learns of nothing, and nobody is asked twice here about a name that there is not.
    let before = master.with(|records| records.finds.len());
    assert_eq!(ask(&site, &["/uniq64/other?n=0"]).await, (String::new(), true));
    assert_eq!(ask(&site, &["/generators/other"]).await, (String::new(), true));
    assert_eq!(master.with(|records| records.finds.len()), before);
    assert_eq!(ask(&site, &["/uniq64/other"]).await, (String::new(), true));
    assert_eq!(master.with(|records| records.finds.len()), before + 1);
}
