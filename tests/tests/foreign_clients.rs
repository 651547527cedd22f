//! Programs in other languages, with nothing of ours: two clients that are made from the agents' description, and Java's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::Command;
use tests::cluster::Cluster;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");

/// Runs a command, which must succeed, and shows what it says.
fn run(command: &mut Command) {
    let ended = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    println!("{}", said.trim());
}

async fn cluster() -> (Cluster, String) {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    cluster.all_ready().await.unwrap();
    for (name, definition) in [("orders", r#"{"kind":"segment"}"#), ("inbox", r#"{"kind":"sequence"}"#)] {
        let url = cluster.agent_url(0, &format!("generators/{name}")).unwrap();
        let answer = cluster.client.ask("PUT", &url, definition.as_bytes().to_vec()).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let url = cluster.agent_url(0, "").unwrap();
    (cluster, url.trim_end_matches('/').to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_made_from_the_description_mint() {
    let Some(tools) = std::env::var_os("UNIQ_CLIENTS").map(PathBuf::from) else {
        println!("left out: UNIQ_CLIENTS does not say where scripts/test.sh installed what makes clients");
        return;
    };
    let (cluster, url) = cluster().await;
    let description = cluster.dir().join("openapi.json");
    std::fs::write(&description, cluster.ask_agent(0, "openapi.json").await.unwrap().body).unwrap();
    let python = |program: &str| Command::new(tools.join("bin").join(program));
    run(python("openapi-spec-validator").arg(&description));
    let master = cluster.dir().join("master.json");
    let of_master = format!("http://{}/openapi.json", cluster.masters[0].daemon.http);
    std::fs::write(&master, cluster.client.ask("GET", &of_master, Vec::new()).await.unwrap().body).unwrap();
    run(python("openapi-spec-validator").arg(&master));
    let made = cluster.dir().join("client");
    run(python("openapi-python-client").args(["generate", "--meta", "none"]).args([
        Path::new("--path"),
        &description,
        Path::new("--output-path"),
        &made,
    ]));
    run(python("python").arg(format!("{PROGRAMS}/mint.py")).args([cluster.dir(), Path::new(&url)]));
    run(Command::new("node")
        .arg(format!("{PROGRAMS}/mint.mjs"))
        .arg(&description)
        .arg(&url)
        .env("UNIQ_CLIENTS", &tools));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_mints_with_the_headers_that_it_sends_by_itself() {
    // A runtime alone has no compiler.
    if !Command::new("javac").arg("-version").output().is_ok_and(|ended| ended.status.success()) {
        println!("left out: there is no JDK here");
        return;
    }
    let (_cluster, url) = cluster().await;
    run(Command::new("java").arg(format!("{PROGRAMS}/Mint.java")).arg(&url));
}
