//! The same IDs over RPC as over HTTP: one set, no ID in both.

use common::clock::TestClock;
use common::kind::Kind;
use common::namespace::{Definition, Namespace};
use common::parameters::{ClusterId, SessionId};
use common::time::WallMs;
use futures::{SinkExt as _, StreamExt as _};
use net::rpc::PROTOCOL;
use net::rpc::lease::{HeartbeatReply, HeartbeatRequest, LeaseServiceRequest, Refusal, RetiredProof};
use net::rpc::mint::{Defined, MintCode, MintFailure, MintServiceClient, MintServiceRequest};
use net::rpc::transport::{connect, deadline_in};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::time::Duration;
use tarpc::context::Context;
use tarpc::{ClientMessage, Request, Response};
use tests::client::Media;
use tests::cluster::Cluster;
use tests::oracle::{Ids, Oracle};
use tests::wire::method_of;

fn soon() -> Context {
    deadline_in(Duration::from_secs(30))
}

async fn minter(cluster: &Cluster) -> MintServiceClient {
    let transport = connect(&cluster.agents[0].rpc_listen.to_string()).await.unwrap();
    MintServiceClient::new(tarpc::client::Config::default(), transport).spawn()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rpc_and_http_share_one_set_of_ids() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let (rpc, oracle) = (minter(&cluster).await, Oracle::default());
    rpc.ready(soon()).await.unwrap().unwrap();
    for n in [1, 10, 100_000] {
        let numbers = rpc.uniq64(soon(), "default".into(), n).await.unwrap().unwrap();
        let wide = rpc.uniq96(soon(), n).await.unwrap().unwrap();
        let texts = rpc
            .texts(soon(), Some(Kind::String), "default".into(), n, "TEST".into(), "00".into())
            .await
            .unwrap()
            .unwrap();
        for (kind, ids) in
            tests::client::KINDS.into_iter().zip([Ids::Uniq64(numbers), Ids::Uniq96(wide), Ids::Text(texts)])
        {
            assert_eq!(ids.len(), n as usize);
            oracle.note(kind.namespace(), "rpc", &ids);
            let url = cluster.agent_url(0, &format!("{}&n={n}", kind.path())).unwrap();
            let answer = cluster.client.get_as(&url, Media::Text).await.unwrap();
            oracle.note(kind.namespace(), "http", &answer.ids(kind, Media::Text).unwrap());
        }
    }
    let verdict = oracle.verdict();
    assert_eq!((verdict.total(), verdict.duplicates), (6 * 100_011, 0), "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_given_over_rpc_has_the_code_it_has_over_http() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let rpc = minter(&cluster).await;
    for n in [0, 100_001, u32::MAX] {
        assert_eq!(rpc.uniq64(soon(), "default".into(), n).await.unwrap().unwrap_err().code, MintCode::BadParameter);
        assert_eq!(rpc.uniq96(soon(), n).await.unwrap().unwrap_err().code, MintCode::BadParameter);
    }
    let string = async |name: &str, biz: &str, custom: &str| {
        let answer = rpc.texts(soon(), Some(Kind::String), name.into(), 1, biz.into(), custom.into()).await.unwrap();
        answer.unwrap_err().code
    };
    assert_eq!(string("default", "TOOLONG", "00").await, MintCode::BadParameter);
    assert_eq!(string("default", "TEST", "\n\n").await, MintCode::BadParameter);
    assert_eq!(string("default", "", "").await, MintCode::BadParameter);
    assert_eq!(string("nosuch", "TEST", "00").await, MintCode::UnknownGenerator);
    let unknown = rpc.uniq64(soon(), "nosuch".into(), 1).await.unwrap().unwrap_err();
    assert_eq!(unknown.code, MintCode::UnknownGenerator);
}

/// Names that nothing has: of agents and of generators.
const MALFORMED: [&str; 4] =
    ["", "two words", "a\0b\u{7}", "x234567890123456789012345678901234567890123456789012345678901234z"];

/// Makes these calls on one connection, each a method's number and its arguments, and gives the answers. Without the service's own
/// client, which takes no malformed name.
async fn call_all<Req, Resp>(at: SocketAddr, calls: Vec<Req>) -> Vec<Result<Resp, String>>
where
    Req: Serialize + Send + 'static,
    Resp: DeserializeOwned + Send + 'static,
{
    let mut connection = Box::pin(connect::<Req, Resp>(&at.to_string()).await.unwrap());
    let mut answers = Vec::new();
    for (id, message) in calls.into_iter().enumerate() {
        let id = id as u64;
        connection.send(ClientMessage::Request(Request { context: soon(), id, message })).await.unwrap();
        let Response { request_id, message } = connection.next().await.expect("the connection was closed").unwrap();
        assert_eq!(request_id, id);
        answers.push(message.map_err(|e| e.detail));
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_malformed_name_is_answered_with_the_rule() {
    type Heartbeat =
        (u32, (u32, String, SessionId, Option<ClusterId>, Option<TestClock>, String, WallMs, Vec<RetiredProof>));
    type Define = (u32, ((String, String), bool));
    let cluster = Cluster::start(1, &[]).await.unwrap();
    // The methods' numbers are those of well-formed calls.
    let request = HeartbeatRequest {
        protocol: PROTOCOL,
        agent_id: "well-formed".parse().unwrap(),
        session: SessionId(1),
        cluster: None,
        test_clock: None,
        version: "1".to_owned(),
        wall: WallMs(0),
        retired: Vec::new(),
    };
    let heartbeats = method_of(&LeaseServiceRequest::Heartbeat { request });
    let namespace = Namespace::define("fine".parse().unwrap(), &Definition::default()).unwrap();
    let defines = method_of(&MintServiceRequest::DefineGenerator { namespace, dry_run: false });
    let heartbeat = |name: &str| -> Heartbeat {
        (heartbeats, (PROTOCOL, name.to_owned(), SessionId(1), None, None, "1".to_owned(), WallMs(0), Vec::new()))
    };
    let define = |name: &str| -> Define { (defines, ((name.to_owned(), r#"{"kind":"uniq64"}"#.to_owned()), false)) };
    // After each a well-formed one, on the same connection.
    let calls = MALFORMED.iter().flat_map(|name| [heartbeat(name), heartbeat("well-formed")]).collect();
    let answers = call_all::<_, (u32, Result<HeartbeatReply, Refusal>)>(cluster.masters[0].agent_listen, calls).await;
    for (answer, name) in answers.chunks(2).zip(MALFORMED) {
        let why = answer[0].as_ref().expect_err(name);
        assert!(why.contains("an agent's name has 1 to 64 characters"), "{name}: {why}");
        assert!(matches!(answer[1], Ok((_, Ok(_)))), "{name}: {:?}", answer[1]);
    }
    let calls = MALFORMED.iter().flat_map(|name| [define(name), define("fine")]).collect();
    let answers = call_all::<_, (u32, Result<Defined, MintFailure>)>(cluster.agents[0].rpc_listen, calls).await;
    for (answer, name) in answers.chunks(2).zip(MALFORMED) {
        let why = answer[0].as_ref().expect_err(name);
        assert!(why.contains("is not a generator's name: write 1 to 63 of a-z 0-9 . _ -"), "{name}: {why}");
        assert!(!why.contains(|c: char| c.is_control()), "{name}: {why:?}");
        assert!(matches!(answer[1], Ok((_, Ok(_)))), "{name}: {:?}", answer[1]);
    }
}
