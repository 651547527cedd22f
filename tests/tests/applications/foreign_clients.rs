//! Programs in other languages, with nothing of ours: two clients that are made from the agents' description, Java's own, and the code that
//! docs/use/clients/ has.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use tests::cluster::{Cluster, until, until_status};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients");

/// Runs a command, which must succeed, and shows what it says.
fn run(command: &mut Command) {
    let ended = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    println!("{}", said.trim());
}

/// Tells whether a compiler is there: of Java a runtime alone has none.
fn has(compiler: &str, version: &str) -> bool {
    let has = Command::new(compiler).arg(version).output().is_ok_and(|ended| ended.status.success());
    if !has {
        println!("left out: there is no {compiler} here");
    }
    has
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
    if !has("javac", "-version") {
        return;
    }
    let (_cluster, url) = cluster().await;
    run(Command::new("java").arg(format!("{PROGRAMS}/Mint.java")).arg(&url));
}

/// An address of no agent: whoever asks there gets an answer that ends in the middle of an ID.
fn cut_off() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4_096]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 20000\r\n\r\n123");
        }
    });
    address
}

/// Lets a program mint by all agents of a cluster while one of them after the other is killed: no call fails, and no ID comes twice.
async fn survives_kills(program: &mut Command, cluster: &mut Cluster) {
    program.arg(cut_off().to_string());
    for nth in [0, 1] {
        program.arg(cluster.agent(nth).unwrap().daemon.http.to_string());
    }
    let mut running = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (ids, output) = (Arc::new(Mutex::new(Vec::new())), BufReader::new(running.stdout.take().unwrap()));
    let all = Arc::clone(&ids);
    let reader = std::thread::spawn(move || output.lines().for_each(|id| all.lock().unwrap().push(id.unwrap())));
    let client = cluster.client.clone();
    let minted = || ids.lock().unwrap().len();
    for nth in [0, 1, 0] {
        let enough = minted() + 5_000;
        until("it mints", async || (minted() > enough).then_some(())).await.unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.kill_9();
        // More than was fetched before.
        let enough = minted() + 20_000;
        until("it mints by the other agent", async || (minted() > enough).then_some(())).await.unwrap();
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
    }
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success(), "a call failed");
    reader.join().unwrap();
    let ids = ids.lock().unwrap();
    let wrong = ids.iter().find(|id| id.len() < 18 || !id.bytes().all(|digit| digit.is_ascii_digit()));
    assert_eq!(wrong, None);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an ID came twice");
    println!("{} IDs while three times an agent was killed, none twice, no call failed", ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_code_in_python_survives_an_agent_that_is_killed() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    cluster.all_ready().await.unwrap();
    let mut program = Command::new("python3");
    survives_kills(program.arg("-B").arg(format!("{PROGRAMS}/threads.py")), &mut cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_code_in_java_survives_an_agent_that_is_killed() {
    if !has("javac", "-version") {
        return;
    }
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    cluster.all_ready().await.unwrap();
    let classes = cluster.dir().join("classes");
    let sources = ["Uniq.java", "Threads.java"].map(|file| format!("{PROGRAMS}/{file}"));
    run(Command::new("javac").args(["--release", "8", "-Xlint:-options", "-d"]).arg(&classes).args(sources));
    survives_kills(Command::new("java").arg("-cp").arg(&classes).arg("Threads"), &mut cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_code_in_go_survives_an_agent_that_is_killed() {
    if !has("go", "version") {
        return;
    }
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    cluster.all_ready().await.unwrap();
    let module = cluster.dir().join("go");
    std::fs::create_dir_all(module.join("uniq")).unwrap();
    std::fs::copy(format!("{PROGRAMS}/uniq.go"), module.join("uniq/uniq.go")).unwrap();
    std::fs::copy(format!("{PROGRAMS}/threads.go"), module.join("threads.go")).unwrap();
    std::fs::write(module.join("go.mod"), "module ids\n\ngo 1.19\n").unwrap();
    let cache = cluster.dir().join("go-cache");
    run(Command::new("go").args(["build", "-o", "threads", "."]).current_dir(&module).env("GOCACHE", cache));
    survives_kills(&mut Command::new(module.join("threads")), &mut cluster).await;
}

/// The code that people copy is what is tested.
#[test]
fn the_page_has_the_code_that_is_tested() {
    for (file, language) in [("uniq.py", "python"), ("Uniq.java", "java"), ("uniq.go", "go")] {
        let name = format!("docs/use/clients/{language}.md");
        let page = std::fs::read_to_string(format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../{}"), name)).unwrap();
        let code = std::fs::read_to_string(format!("{PROGRAMS}/{file}")).unwrap();
        assert!(page.contains(&format!("\n```{language}\n{code}```\n")), "{name} has another {file}");
    }
}
