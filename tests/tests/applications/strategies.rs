//! Agents of an application with a strategy of its own (`agent/examples/strategy.rs`), beside one that has nothing added.

use serde_json::Value;
use std::collections::HashSet;
use tests::cluster::Cluster;
use tests::programs;

const DEFINITION: &[u8] = br#"{"kind":"layout","encoding":{"form":"strategy","strategy":"checked"}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_forty_lines_serves_what_its_strategy_makes() {
    let program = programs::example("strategy").unwrap();
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    for own in [true, true, false] {
        let nth = cluster.add_agent(&[]).unwrap();
        let agent = cluster.agent(nth).unwrap();
        if own {
            agent.daemon.run_by(program.clone());
        }
        agent.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let put = async |nth: usize, name: &str, definition: &[u8]| {
        let url = cluster.agent_url(nth, &format!("generators/{name}")).unwrap();
        cluster.client.ask("PUT", &url, definition.to_vec()).await.unwrap()
    };

    // Where there is no such strategy nobody can register one that is misspelt, or whose layout nobody knows.
    for definition in
        [DEFINITION, br#"{"kind":"layout","layout":"leaf","encoding":{"form":"strategy","strategy":"checkt"}}"#]
    {
        let refused = put(2, "orders", definition).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "bad_parameter"), "{}", refused.text());
    }
    let defined = put(0, "orders", DEFINITION).await;
    assert_eq!(defined.status, 201, "{}", defined.text());
    let shown: Value = serde_json::from_str(&defined.text()).unwrap();
    assert_eq!(shown["definition"]["layout"], "snowflake", "as the strategy needs it");
    assert_eq!(put(1, "orders", DEFINITION).await.status, 200);

    let mut seen = HashSet::new();
    let mut last = String::new();
    for round in 0..3 {
        for nth in [0, 1] {
            let answer = cluster.ask_agent(nth, "id/orders?n=2000").await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            for text in answer.text().lines() {
                assert!(text.starts_with("O-") && text.len() == 23 && seen.insert(text.to_owned()), "{text}");
                text.clone_into(&mut last);
            }
        }
        // It is known again by the file beside the serial file.
        let daemon = &mut cluster.agent(round % 2).unwrap().daemon;
        daemon.kill_9();
        daemon.start().unwrap();
        cluster.all_ready().await.unwrap();
    }

    let refused = cluster.ask_agent(2, "id/orders").await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "strategy_missing"), "{}", refused.text());
    assert_eq!(cluster.ask_agent(2, "uniq64").await.unwrap().status, 200);
    let explained = cluster.ask_agent(0, &format!("explain/{last}")).await.unwrap().json().unwrap();
    assert_eq!((&explained["strategy"], &explained["kind"]), (&"checked".into(), &"layout".into()), "{explained}");
    let unread = cluster.ask_agent(2, &format!("explain/{last}")).await.unwrap().json().unwrap();
    assert_eq!((&unread["names"][0], &unread["time"]), (&"orders".into(), &Value::Null), "{unread}");
    assert!(unread["hidden"].as_str().unwrap().contains("by a strategy"), "{unread}");

    let file = cluster.agent(0).unwrap().dir.join("uniq_generator.serial");
    let args = ["--explain", &last, "--serial-file", file.to_str().unwrap()];
    let told = programs::run(&program, &args, cluster.dir()).unwrap();
    assert!(told.status == Some(0) && told.out.contains("snowflake"), "{told:?}");
}
