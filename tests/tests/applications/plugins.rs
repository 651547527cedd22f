//! Plugins with real masters: a name's definition brings them to every agent, and history knows who got an ID.

use serde_json::json;
use tests::cluster::{Cluster, until_status};
use tests::programs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_brings_its_plugins_to_every_agent_and_history_finds_who_got_an_id() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    let client = cluster.client.clone();
    // Only the first agent keeps a history.
    let agent = cluster.agent(0).unwrap();
    agent.daemon.terminate().await.unwrap();
    let folder = agent.dir.join("past");
    agent.daemon.set("--history-dir", folder.to_str().unwrap());
    agent.daemon.start().unwrap();
    cluster.all_ready().await.unwrap();

    let define = |name: &str, plugins: serde_json::Value| {
        let url = cluster.agent_url(0, &format!("generators/{name}")).unwrap();
        let body = json!({ "kind": "uniq64", "plugins": plugins }).to_string().into_bytes();
        let client = client.clone();
        async move { client.ask("PUT", &url, body).await.unwrap() }
    };
    let both = json!([{"plugin": "quota", "per_day": 2}, {"plugin": "history"}]);
    assert_eq!(define("orders", both.clone()).await.status, 201);
    let again = define("orders", both.clone()).await;
    assert_eq!((again.status, &again.json().unwrap()["definition"]["plugins"]), (200, &both), "{}", again.text());
    assert_eq!(define("orders", json!([{"plugin": "stats"}])).await.code(), "generator_exists");
    assert_eq!(define("nine", json!([(); 9].map(|()| json!({"plugin": "stats"})))).await.code(), "bad_parameter");
    assert_eq!(define("quota", json!([{"plugin": "quota", "per_day": 2}])).await.status, 201);

    let ids = cluster.ask_agent(0, "uniq64/orders?n=2").await.unwrap().text();
    assert_eq!(cluster.ask_agent(0, "uniq64/orders").await.unwrap().code(), "quota_exceeded");
    let other = cluster.ask_agent(1, "uniq64/orders").await.unwrap();
    assert!(other.status == 503 && other.text().contains("keeps no history"), "{}", other.text());
    assert_eq!(cluster.ask_agent(1, "uniq64/quota?n=2").await.unwrap().status, 200, "it came by the masters");
    assert_eq!(cluster.ask_agent(1, "uniq64/quota").await.unwrap().code(), "quota_exceeded");

    // By the file beside the serial file, before any master answers.
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.terminate().await.unwrap();
    }
    let agent = cluster.agent(0).unwrap();
    agent.daemon.terminate().await.unwrap();
    agent.daemon.start().unwrap();
    until_status(&client, &mut agent.daemon, "/readyz", 200).await.unwrap();
    assert_eq!(cluster.ask_agent(0, "uniq64/orders?n=2").await.unwrap().status, 200, "its accounts begin anew");
    assert_eq!(cluster.ask_agent(0, "uniq64/orders").await.unwrap().code(), "quota_exceeded");

    let search = |id: &str| {
        let args = ["--history", id, "--history-dir", folder.to_str().unwrap()];
        programs::run(&programs::generator().unwrap(), &args, cluster.dir()).unwrap()
    };
    for id in ids.lines() {
        let found = search(id);
        assert!(found.status == Some(0) && found.out.contains("uniq64 orders  127.0.0.1  2 IDs"), "{found:?}");
        let hex = format!("{:016x}", id.parse::<u64>().unwrap());
        assert_eq!(search(&hex).status, Some(0), "{hex}");
    }
    assert_eq!(search("1").status, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_with_a_plugin_of_its_own_runs() {
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let format = ["--format", "--serial-file", "shop.serial"];
    assert_eq!(programs::run(&programs::generator().unwrap(), &format, dir.path()).unwrap().status, Some(0));
    let masters: Vec<String> = cluster.masters.iter().map(|master| master.agent_listen.to_string()).collect();
    let args = ["shop.serial", &masters[0], &masters[1]];
    let ended = programs::run(&programs::example("plugin").unwrap(), &args, dir.path()).unwrap();
    assert!(ended.status == Some(0) && ended.out.starts_with("INV-20"), "{ended:?}");
    assert!(ended.err.contains("bad_parameter for in process: n: at most 10"), "{ended:?}");
}
