//! A cluster that speaks TLS between its programs, and plain HTTP to those who ask on the same machine.

use net::tls::{Admits, Tls};
use tests::certificates::{Authority, get, secure};
use tests::cluster::Cluster;
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_is_for_the_same_machine_and_all_other_ports_speak_tls() {
    let mut cluster = Cluster::new().unwrap();
    let ca = Authority::new(&cluster.dir().join("ca")).unwrap();
    cluster.add_agent(&[]).unwrap();
    let roles = [("--web-listen", "master/1"), ("--web-listen", "master/2"), ("--http-listen", "agent/agent-1")];
    for (nth, (daemon, (flag, role))) in cluster.daemons().zip(roles).enumerate() {
        secure(daemon, &ca.issue(&format!("program-{nth}"), &[&format!("uniq://{role}")]).unwrap());
        let plain = format!("plain:{}", daemon.http);
        daemon.set(flag, &plain);
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    // Whoever is on this machine mints and registers names, and logs in to the console.
    cluster.register("inbox", r#"{"kind":"sequence"}"#).await.unwrap();
    assert_eq!(cluster.ask_agent(0, "uniq64?n=3").await.unwrap().status, 200);
    assert_eq!(cluster.leases(0, "").await.unwrap().len(), 2);

    let (master, agent) = (&cluster.masters[0], &cluster.agents[0]);
    let secured = [
        (master.agent_listen, "uniq://agent/agent-2", Admits::Masters),
        (master.peer_listen, "uniq://master/2", Admits::Masters),
        (agent.rpc_listen, "uniq://client/orders", Admits::Agents),
    ];
    for (at, role, expected) in secured {
        ca.tls("ours", role).unwrap().connect(TcpStream::connect(at).await.unwrap(), expected).await.unwrap();
        let in_the_clear = get(&Tls::PLAIN, Admits::Anyone, at, "/healthz").await.unwrap_or_default();
        assert!(!in_the_clear.contains("HTTP"), "{at}: {in_the_clear}");
    }
    let client = ca.tls("client", "uniq://client/orders").unwrap();
    for (at, expected) in [(master.daemon.http, Admits::Masters), (agent.daemon.http, Admits::Agents)] {
        get(&client, expected, at, "/healthz").await.unwrap_err();
    }
}
