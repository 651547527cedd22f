//! The same IDs over RPC as over HTTP: one set, no ID in both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use common::rpc::mint::{MintCode, MintServiceClient};
use common::rpc::transport::{connect, deadline_in};
use std::time::Duration;
use tarpc::context::Context;
use tests::client::{Kind, Media};
use tests::cluster::Cluster;
use tests::oracle::{Ids, Oracle};

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
        let texts = rpc.uniq_string(soon(), "default".into(), n, "TEST".into(), "00".into()).await.unwrap().unwrap();
        for (kind, ids) in Kind::ALL.into_iter().zip([Ids::Uniq64(numbers), Ids::Uniq96(wide), Ids::Text(texts)]) {
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
        let answer = rpc.uniq_string(soon(), name.into(), 1, biz.into(), custom.into()).await.unwrap();
        answer.unwrap_err().code
    };
    assert_eq!(string("default", "TOOLONG", "00").await, MintCode::BadParameter);
    assert_eq!(string("default", "TEST", "\n\n").await, MintCode::BadParameter);
    assert_eq!(string("default", "", "").await, MintCode::BadParameter);
    assert_eq!(string("nosuch", "TEST", "00").await, MintCode::UnknownGenerator);
    let unknown = rpc.uniq64(soon(), "nosuch".into(), 1).await.unwrap().unwrap_err();
    assert_eq!(unknown.code, MintCode::UnknownGenerator);
}
