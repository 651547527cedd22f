use super::*;
use crate::minter::kit::Kit;
use net::rpc::mint::{MintCode, MintServiceClient};
use std::collections::HashSet;
use tokio::net::TcpListener;

async fn client(kit: &Kit, leased: bool) -> MintServiceClient {
    let minter = if leased { kit.start() } else { kit.start_bare() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(Server::new(minter, 100_000).run(listener, CancellationToken::new()));
    let transport = transport::connect(&address).await.unwrap();
    MintServiceClient::new(tarpc::client::Config::default(), transport).spawn()
}

fn soon() -> Context {
    transport::deadline_in(std::time::Duration::from_secs(30))
}

#[tokio::test]
async fn the_same_ids_come_over_rpc() {
    let kit = Kit::new();
    let client = client(&kit, true).await;
    client.ready(soon()).await.unwrap().unwrap();
    let numbers = client.uniq64(soon(), "default".to_owned(), 100_000).await.unwrap().unwrap();
    let more = client.uniq64(soon(), String::new(), 2).await.unwrap().unwrap();
    assert!(numbers.is_sorted() && numbers.last() < more.first());
    assert_eq!(numbers.iter().chain(&more).collect::<HashSet<_>>().len(), 100_002);
    let wide = client.uniq96(soon(), 100_000).await.unwrap().unwrap();
    assert_eq!(wide.iter().collect::<HashSet<_>>().len(), 100_000);
    assert!(wide.iter().all(|bits| bits >> 96 == 0));
    let (biz, custom) = ("ABCD".to_owned(), "xy".to_owned());
    let texts =
        client.texts(soon(), Some(Kind::String), "default".to_owned(), 100_000, biz, custom).await.unwrap().unwrap();
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), 100_000);
    assert!(texts.iter().all(|text| text.len() == 24 && text.contains("ABCD07")));
}

/// An agent under load spent more than a fifth of its time on copying futures, when each had 10 KiB.
#[tokio::test]
async fn the_future_of_a_call_is_small() {
    use net::rpc::mint::MintServiceRequest;
    use tarpc::server::Serve as _;
    let kit = Kit::new();
    let service = Calls(Arc::new(Server::new(kit.start(), 1))).serve();
    let call =
        service.serve(soon(), MintServiceRequest::Numbers { kind: Some(Kind::Uniq64), name: String::new(), n: 1 });
    let bytes = std::mem::size_of_val(&call);
    assert!(bytes <= 512, "{bytes} bytes");
}

#[tokio::test]
async fn refusals_have_the_same_codes() {
    let kit = Kit::new();
    let client = client(&kit, false).await;
    let code = |failure: Result<Vec<u64>, MintFailure>| failure.unwrap_err().code;
    let ask = async |name: &str, n| client.uniq64(soon(), name.to_owned(), n).await.unwrap();
    assert_eq!(code(ask("default", 1).await), MintCode::NoLease);
    assert_eq!(code(ask("default", 0).await), MintCode::BadParameter);
    assert_eq!(code(ask("default", 100_001).await), MintCode::BadParameter);
    assert_eq!(code(ask("orders", 1).await), MintCode::UnknownGenerator);
    let long =
        client.texts(soon(), Some(Kind::String), String::new(), 1, "ABCDE".to_owned(), "xy".to_owned()).await.unwrap();
    assert_eq!(long.unwrap_err().code, MintCode::BadParameter);
    assert_eq!(client.ready(soon()).await.unwrap().unwrap_err().code, MintCode::NoLease);
}

#[tokio::test]
async fn a_quota_of_one_refuses_the_second_on_every_way_over_rpc() {
    use common::namespace::{Definition, Scope, Uniq64Spec};
    let kit = Kit::new();
    let minter = kit.start();
    let own = Definition::Uniq64(Uniq64Spec { scope: Some(Scope::Own), ..Uniq64Spec::default() });
    let (text, layout) = (Definition::string("A{date:%Y%m%d}{token}{serial:6}"), Definition::layout("sonyflake"));
    for (name, definition) in [("alias", Definition::default()), ("own", own), ("text", text), ("layout", layout)] {
        for by in ["a", "b"] {
            let plugins = serde_json::from_str(r#"[{"plugin":"quota","per_day":1,"by":"caller"}]"#).unwrap();
            let definition = match name {
                "text" => Definition::string(format!("{by}{{date:%Y%m%d}}{{token}}{{serial:6}}")),
                _ => definition.clone(),
            };
            let name = format!("{name}-{by}").parse().unwrap();
            minter.define(Namespace::define(name, &definition.with_plugins(plugins)).unwrap()).unwrap();
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(Server::new(Arc::clone(&minter), 100_000).run(listener, CancellationToken::new()));
    let transport = transport::connect(&address).await.unwrap();
    let client = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    client.uniq64(soon(), String::new(), 1).await.unwrap().unwrap();
    let none = String::new;
    for nth in 0..3 {
        let all = [
            client.uniq64(soon(), "alias-a".to_owned(), 1).await.unwrap().map(|ids| ids.len()),
            client.uniq64(soon(), "own-a".to_owned(), 1).await.unwrap().map(|ids| ids.len()),
            client
                .texts(soon(), Some(Kind::String), "text-a".to_owned(), 1, none(), none())
                .await
                .unwrap()
                .map(|ids| ids.len()),
            client.numbers(soon(), Some(Kind::Layout), "layout-a".to_owned(), 1).await.unwrap().map(|ids| ids.len()),
            client.texts(soon(), None, "alias-b".to_owned(), 1, none(), none()).await.unwrap().map(|ids| ids.len()),
            client.texts(soon(), None, "own-b".to_owned(), 1, none(), none()).await.unwrap().map(|ids| ids.len()),
            client.texts(soon(), None, "text-b".to_owned(), 1, none(), none()).await.unwrap().map(|ids| ids.len()),
            client.texts(soon(), None, "layout-b".to_owned(), 1, none(), none()).await.unwrap().map(|ids| ids.len()),
        ];
        for got in all {
            match got {
                Ok(len) => assert_eq!((nth, len), (0, 1)),
                Err(failure) => {
                    assert!(nth > 0 && failure.code == MintCode::QuotaExceeded, "{failure:?}");
                    assert!((86_300..=86_400).contains(&failure.retry_after_s), "{failure:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_does_not_fit_its_name_does_not_take_it_in_use() {
    use crate::heartbeat::tests::master::Master;
    use crate::masters::tests::masters_at;
    use crate::sequences::SequenceSettings;
    use common::namespace::Definition;
    use common::sequence::{ServedAt, Slot};
    use net::rpc::lease::{NameState, Registered};
    use net::rpc::mint::Passing;
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    let unused = |name: &str, definition: &Definition| {
        let namespace = Namespace::define(name.parse().unwrap(), definition).unwrap();
        Registered { namespace, state: NameState::Unused, proof: None }
    };
    master.with(|records| {
        records.registered = vec![
            unused("number", &Definition::default()),
            unused("text", &Definition::string("T{biz:2}{date:%Y%m%d}{token}{serial:6}")),
            unused("keyed", &common::json::read(br#"{"kind":"sequence","solo_allowance":20000}"#).unwrap()),
        ];
    });
    let settings = SequenceSettings {
        sets: Vec::new(),
        memory: 1 << 20,
        address: ServedAt { http: String::new(), rpc: String::new() },
    };
    let sequences = Arc::new(Sequences::new(settings, masters_at(&masters, &minter), Some(Arc::clone(&names))));
    let server = Server::new(minter, 50_000).with_names(names).with_sequences(sequences);
    let server = Calls(Arc::new(server.for_this_machine()));
    let call = |name: &str| SequenceCall { name: name.to_owned(), g: None, passing: Passing::Back, cluster: None };
    let (number, text, none) = (|| "number".to_owned(), || "text".to_owned(), String::new);
    // Nobody has heard of them here.
    let refused = [
        server.clone().numbers(soon(), Some(Kind::Layout), number(), 1).await.map(drop),
        server.clone().texts(soon(), Some(Kind::String), text(), 1, "ABC".to_owned(), none()).await.map(drop),
        server.clone().sequence(soon(), call("keyed"), Slot(1), 20_001).await.map(drop),
    ];
    let codes = refused.map(|refused| refused.unwrap_err().code);
    let (bad, unknown) = (MintCode::BadParameter, MintCode::UnknownGenerator);
    assert_eq!(codes, [unknown, bad, bad]);
    let refused = [
        server.clone().numbers(soon(), Some(Kind::Uniq64), number(), 0).await.map(drop),
        server.clone().numbers(soon(), Some(Kind::Uniq64), number(), 50_001).await.map(drop),
        server.clone().numbers(soon(), Some(Kind::Uniq64), text(), 1).await.map(drop),
        server.clone().numbers(soon(), Some(Kind::Layout), number(), 1).await.map(drop),
        server.clone().texts(soon(), None, number(), 1, "AB".to_owned(), none()).await.map(drop),
        server.clone().texts(soon(), None, text(), 1, none(), none()).await.map(drop),
        server.clone().texts(soon(), None, "keyed".to_owned(), 1, none(), none()).await.map(drop),
        server.clone().sequence(soon(), call("number"), Slot(1), 1).await.map(drop),
        server.clone().texts(soon(), Some(Kind::String), text(), 1, "ABC".to_owned(), none()).await.map(drop),
    ];
    let codes = refused.map(|refused| refused.unwrap_err().code);
    assert_eq!(codes, [bad, bad, unknown, unknown, bad, bad, bad, unknown, bad]);
    let unused = |records: &mut crate::heartbeat::tests::master::Records| {
        records.registered.iter().filter(|one| one.state == NameState::Unused).count()
    };
    assert_eq!(master.with(|records| (records.uses, unused(records))), (0, 3));
    assert_eq!(server.clone().texts(soon(), None, text(), 1, "AB".to_owned(), none()).await.unwrap().len(), 1);
    assert_eq!(server.clone().numbers(soon(), Some(Kind::Uniq64), number(), 1).await.unwrap().len(), 1);
}
