//! Names whose numbers are encrypted: agents with the same secret write texts that do not repeat, one without it says what it
//! lacks, and nobody who has not shown the secret turns them back.

use serde_json::Value;
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tests::cluster::Cluster;

const DEFINITION: &str = r#"{"kind":"layout","layout":"snowflake","encoding":{"form":"ff1","length":13,"alphabet":"0123456789ABCDEFGHJKMNPQRSTVWXYZ"}}"#;

fn secret_file(dir: &Path, name: &str, lines: &[String]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, lines.join("\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

async fn texts(cluster: &Cluster, agent: usize, n: u32) -> Vec<String> {
    let answer = cluster.ask_agent(agent, &format!("id/coupons?n={n}")).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_has_the_secret_writes_and_reads_a_names_texts() {
    let [one, two] = ["1f".repeat(32), "2e".repeat(32)];
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let dir = cluster.dir().to_owned();
    let own = secret_file(&dir, "own", std::slice::from_ref(&one));
    // After a change of the secret: the new one first.
    let both = secret_file(&dir, "both", &[two.clone(), one.clone()]);
    let other = secret_file(&dir, "other", &[two]);
    let files = [Some(&own), Some(&both), Some(&other), None];
    for file in files {
        let flags: Vec<&str> =
            file.map(|file| ["--secret-file", file.to_str().unwrap()]).into_iter().flatten().collect();
        let nth = cluster.add_agent(&flags).unwrap();
        cluster.agent(nth).unwrap().daemon.start().unwrap();
    }
    // As containers are given them.
    let contained = cluster.add_agent(&[]).unwrap();
    let daemon = &mut cluster.agent(contained).unwrap().daemon;
    daemon.env("UNIQ_SECRETS", &one);
    daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    // What has a secret leaves no dump of its memory.
    for nth in [0, 1, 2, contained] {
        let pid = cluster.agents[nth].daemon.pid().unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "agent {nth}");
    }

    // Without a secret there is nothing to register by.
    let refused = cluster.put(3, "coupons", DEFINITION).await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_parameter"));
    assert!(refused.text().contains("--secret-file"), "{}", refused.text());
    let defined = cluster.put(0, "coupons", DEFINITION).await.unwrap();
    assert_eq!(defined.status, 201, "{}", defined.text());
    let shown: Value = serde_json::from_str(&defined.text()).unwrap();
    let mark = shown["definition"]["encoding"]["secret"].as_str().unwrap();
    assert!(mark.len() == 16 && !one.contains(mark), "{mark}");

    // The same, said again by programs at their start; with another secret it is another definition.
    assert_eq!(texts(&cluster, 1, 1).await.len(), 1);
    assert_eq!(cluster.put(1, "coupons", DEFINITION).await.unwrap().status, 200);
    let taken = cluster.put(2, "coupons", DEFINITION).await.unwrap();
    assert_eq!((taken.status, taken.code().as_str()), (409, "generator_exists"));

    let mut seen = HashSet::new();
    for agent in [0, 1, contained, 0, 1, contained] {
        for text in texts(&cluster, agent, 5_000).await {
            assert!(text.len() == 13 && seen.insert(text.clone()), "{text}");
        }
    }
    for agent in [2, 3] {
        let refused = cluster.ask_agent(agent, "id/coupons").await.unwrap();
        assert_eq!((refused.status, refused.code().as_str()), (503, "secret_missing"), "{}", refused.text());
        assert!(refused.text().contains(mark), "{}", refused.text());
    }

    // What hides the numbers hides them in every form, and from whoever only asks.
    for query in ["layout/coupons?format=hex", "layout/coupons?format=decimal"] {
        assert_eq!(cluster.ask_agent(0, query).await.unwrap().status, 400, "{query}");
    }
    let text = texts(&cluster, 0, 1).await.remove(0);
    let explained = cluster.ask_agent(0, &format!("explain/{text}")).await.unwrap();
    assert!(!explained.text().contains("snowflake"), "{}", explained.text());

    // Whoever has the secret and the names that the agent has learned turns them back.
    let file = cluster.agent(0).unwrap().serial_file();
    let explain = |secrets: &Path| {
        let files = ["--serial-file", file.to_str().unwrap(), "--secret-file", secrets.to_str().unwrap()];
        let program = tests::programs::generator().unwrap();
        tests::programs::command(&program).args(["--json", "--explain", &text]).args(files).output().unwrap()
    };
    let told = explain(&own);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap_or_else(|e| panic!("{e}: {told:?}"));
    // Some of the texts are Uniq64 in base32, too.
    let readings = told["also"].as_array().into_iter().flatten().chain([&told]);
    let own = |reading: &&Value| {
        (reading["preset"].as_str(), reading["encoding"].as_str()) == (Some("snowflake"), Some("ff1"))
    };
    assert_eq!(readings.filter(own).count(), 1, "{told}");
    assert!(!String::from_utf8_lossy(&explain(&other).stdout).contains("snowflake"));

    // Nothing that is kept or logged has a secret in it.
    for entry in walk(&dir) {
        if files.iter().flatten().any(|file| **file == entry) {
            continue;
        }
        let bytes = std::fs::read(&entry).unwrap();
        let raw = [0x1f; 32];
        let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
        assert!(!has(one.as_bytes()) && !has(&raw), "{}", entry.display());
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files.extend(walk(&entry.path()));
        } else if entry.file_type().unwrap().is_file() {
            files.push(entry.path());
        }
    }
    files
}
