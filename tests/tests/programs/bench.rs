//! The load generator against a real agent for a moment: it gets answers in every way it knows, and no ID twice. Nothing
//! here is about speed; `scripts/bench.sh` is.

use std::time::Duration;
use tests::bench::check::Form;
use tests::bench::figures::Figures;
use tests::bench::load::{self, Plan};
use tests::bench::rpc;
use tests::bench::speak::{Protocol, http_request};
use tests::cluster::Cluster;

const A_MOMENT: Duration = Duration::from_millis(200);

fn plan(cluster: &Cluster, path: &str, accept: Option<&str>, form: Form) -> Plan {
    let target = cluster.agents[0].daemon.http;
    Plan {
        target,
        unix: None,
        from: None,
        protocol: Protocol::Http,
        requests: vec![http_request(&target.to_string(), path, accept)],
        connections: 8,
        depth: 1,
        rate: None,
        once: false,
        warmup: Duration::ZERO,
        duration: A_MOMENT,
        check: Some(form),
        pid: cluster.agents[0].daemon.pid(),
        progress: false,
    }
}

async fn run(plan: Plan) -> Figures {
    let figures = tokio::task::spawn_blocking(|| load::run(plan)).await.unwrap().unwrap();
    assert!(figures.requests > 0 && figures.refused == 0 && figures.duplicates == 0, "{figures:?}");
    assert!(figures.latency.p50 > 0.0 && figures.server_us.is_some(), "{figures:?}");
    figures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_load_is_answered_and_no_id_comes_twice() {
    let cluster = Cluster::start(1, &["--threads", "2"]).await.unwrap();
    let packed = Some("application/octet-stream");
    let single = plan(&cluster, "/uniq64", None, Form::Decimal);
    for plan in [
        Plan { depth: 16, ..single.clone() },
        Plan { rate: Some(1_000.0), ..single.clone() },
        plan(&cluster, "/uniq96", None, Form::Decimal),
        single,
    ] {
        assert!(run(plan).await.checked > 0);
    }
    for (path, accept, form, n) in [
        ("/uniq64?n=10000", None, Form::Decimal, 10_000),
        ("/uniq64?n=30000", packed, Form::Packed(8), 30_000),
        ("/uniq96?n=1000", packed, Form::Packed(12), 1_000),
    ] {
        let figures = run(plan(&cluster, path, accept, form)).await;
        assert!(figures.checked >= figures.requests * n, "{path}: {figures:?}");
    }
    let call = rpc::Plan {
        target: cluster.agents[0].rpc_listen,
        call: rpc::Call::Uniq64,
        n: 3,
        connections: 2,
        in_flight: 100,
        warmup: Duration::ZERO,
        duration: A_MOMENT,
        pid: None,
    };
    let figures = rpc::run(call).await.unwrap();
    assert!(figures.requests > 0 && figures.checked >= figures.requests * 3 && figures.duplicates == 0, "{figures:?}");
}
