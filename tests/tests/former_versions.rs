//! What programs of earlier versions left behind is opened by those of today, which go on with it: the stores of both masters
//! and an agent's serial file (`tests/fixtures/`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tests::client::uniq64;
use tests::cluster::{Cluster, until, until_status};
use tests::oracle::{Ids, Oracle};
use tests::programs::{self, Ended};

/// The commits of which there is a fixture.
const VERSIONS: [&str; 2] = ["ec16feb", "5d1798f"];
/// The types of token that the agent leased.
const TOKEN_TYPES: &str = "uint2,string2-include-letter,string2-only-number";
/// IDs that are asked for by each name.
const IDS: usize = 3_000;
/// The bits of a Uniq64 that are its serial.
const SERIAL_MASK: u64 = (1 << 31) - 1;

/// A fixture, unpacked into a folder of the cluster.
struct Former {
    from: PathBuf,
    files: PathBuf,
}

impl Former {
    /// Unpacks a fixture. The stores of the cluster's masters are replaced by those in it.
    fn unpack(version: &str, cluster: &Cluster) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(version);
        let files = cluster.dir().join("former");
        std::fs::create_dir(&files).unwrap();
        let archive = from.join("files.tar.gz");
        let args = ["-xzf", archive.to_str().unwrap(), "-C", files.to_str().unwrap()];
        succeeded(&programs::run(Path::new("tar"), &args, &files).unwrap());
        for master in &cluster.masters {
            std::fs::remove_dir_all(&master.data_dir).unwrap();
            std::fs::rename(files.join(format!("master-{}", master.id)), &master.data_dir).unwrap();
        }
        Self { from, files }
    }

    fn agent(&self) -> PathBuf {
        self.files.join("agent")
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.from.join(name)).unwrap()
    }

    /// What the former programs answered.
    fn said(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(&format!("{name}.json"))).unwrap()
    }

    /// IDs that the former programs gave, by scope.
    fn ids(&self) -> BTreeMap<String, Vec<String>> {
        let mut by_scope: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in self.text("ids.txt").lines() {
            let (scope, id) = line.split_once(' ').unwrap();
            by_scope.entry(scope.to_owned()).or_default().push(id.to_owned());
        }
        by_scope
    }
}

fn succeeded(ended: &Ended) {
    assert_eq!(ended.status, Some(0), "{ended:?}");
}

/// A command on the stopped masters' stores; what each of them says.
fn ask_stores(cluster: &Cluster, command: &str) -> Vec<String> {
    let ask = |dir: &Path| {
        let args = [command, "--data-dir", dir.to_str().unwrap()];
        let ended = programs::run(&programs::master().unwrap(), &args, "/".as_ref()).unwrap();
        succeeded(&ended);
        ended.out.trim().to_owned()
    };
    cluster.masters.iter().map(|master| ask(&master.data_dir)).collect()
}

async fn rows(cluster: &Cluster, master: usize, path: &str) -> Vec<Value> {
    let answer = cluster.client.console(cluster.masters[master].daemon.http, path).await.unwrap();
    answer.json().unwrap().as_array().unwrap_or_else(|| panic!("{path}: {}", answer.text())).clone()
}

/// Whether a row of today says all that a former one says of these fields. Sessions are cut by now, so they agree as far as
/// both go.
fn agree(now: &Value, then: &Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| match (now[field].as_str(), then[field].as_str()) {
        (Some(now), Some(then)) if *field == "session" => now.starts_with(then) || then.starts_with(now),
        _ => now[field] == then[field],
    })
}

/// Each row that was there is still there, by these fields.
fn all_are_there(what: &str, now: &[Value], then: &Value, fields: &[&str]) {
    let then = then.as_array().unwrap();
    assert!(!then.is_empty(), "the fixture has no {what}");
    for row in then {
        assert!(now.iter().any(|now| agree(now, row, fields)), "{what}: {row} is not among {now:#?}");
    }
}

/// All that the former masters knew, at both of today's. A line of the audit that told a session whole may be cut by now.
async fn nothing_is_forgotten(former: &Former, cluster: &Cluster) {
    for master in [0, 1] {
        for (what, fields) in [
            ("users", &["name", "role"][..]),
            ("keys", &["name", "role"]),
            ("whitelist", &["network"]),
            ("namespaces", &["name", "kind", "token_type", "template", "everyday_reset", "step"]),
        ] {
            let now = rows(cluster, master, &format!("/api/{what}")).await;
            all_are_there(what, &now, &former.said(what), fields);
        }
        let now = rows(cluster, master, "/api/leases").await;
        let then = former.said("leases");
        all_are_there("leases", &now, &then, &["type", "token", "g", "agent_id", "session", "from"]);
        for lease in then.as_array().unwrap() {
            let now = now.iter().find(|now| agree(now, lease, &["type", "token"])).unwrap();
            assert!(now["until"].as_str() >= lease["until"].as_str(), "{now} ends before {lease}");
        }
    }
    let retired = |row: &&Value| row["retired"] == true;
    let names = rows(cluster, 1, "/api/namespaces").await;
    for row in former.said("namespaces").as_array().unwrap().iter().filter(retired) {
        assert!(names.iter().filter(retired).any(|now| now["name"] == row["name"]), "{row} is served again");
    }
    // The audit that was asked for is that of master 1.
    let audit = rows(cluster, 0, "/api/audit?n=1000").await;
    all_are_there("audit", &audit, &former.said("audit"), &["number", "at", "who", "from", "action", "subject"]);
}

/// The former agent's file, opened by today's agent at the masters of its cluster: a new session, since the file is a copy,
/// that goes on at the marks and ends the leases of the one before.
async fn an_agent_goes_on(former: &Former, cluster: &mut Cluster) {
    let file = former.agent().join("uniq_generator.serial");
    let args = ["--inspect", "--json", "--serial-file", file.to_str().unwrap()];
    let seen = programs::run(&programs::generator().unwrap(), &args, "/".as_ref()).unwrap();
    succeeded(&seen);
    let (seen, then): (Value, Value) = (serde_json::from_str(&seen.out).unwrap(), former.said("inspect"));
    for part in ["header", "blocks", "length"] {
        assert_eq!(seen[part], then[part], "{part}");
    }
    assert_eq!(seen["lineage"]["reason"], "file_copied", "{seen}");

    let kept = former.agent().join("uniq_generator.serial.generators");
    let kept_then = std::fs::read(&kept).unwrap();
    let nth = cluster.add_agent_in(former.agent(), "shop-1", &["--token-types", TOKEN_TYPES]).unwrap();
    let client = cluster.client.clone();
    let daemon = &mut cluster.agent(nth).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let log = daemon.log_text();
    assert!(!log.contains("ERROR") && !log.contains("damaged"), "{log}");
    let status = cluster.agent_status(nth).await.unwrap();
    assert_eq!((status.resumed, status.fresh_because.as_deref()), (false, Some("file_copied")), "{status:?}");

    mints_what_nobody_has(former, cluster, nth).await;

    // It showed the session that its lineage names: nobody goes on with that one's leases.
    let given_up = || async {
        let now = rows(cluster, 1, "/api/leases").await;
        let fields = ["type", "token", "g", "session"];
        let former = former.said("leases");
        let mut held = former.as_array().unwrap().iter().filter(|row| row["agent_id"] == "shop-1").map(|row| {
            let now = now.iter().find(|now| agree(now, row, &fields));
            now.is_some_and(|now| now["state"] == "held")
        });
        (!held.any(|held| held)).then_some(())
    };
    until("the former session's leases are denied", given_up).await.unwrap();
    let renewed = || async { (std::fs::read(&kept).ok()? != kept_then).then_some(()) };
    until("the names are kept for the new session", renewed).await.unwrap();
}

/// All names give IDs again, none of them one of those that the former programs gave.
async fn mints_what_nobody_has(former: &Former, cluster: &Cluster, nth: usize) {
    let names = former.said("namespaces");
    let named = |scope: &str| {
        let (kind, name) = scope.split_once('/').unwrap();
        names.as_array().unwrap().iter().find(|row| row["kind"] == kind && row["name"] == name)
    };
    let oracle = Oracle::default();
    for (scope, old) in former.ids() {
        let retired = named(&scope).is_some_and(|row| row["retired"] == true);
        // By default all names of a numeric kind are one scope; those from before there were scopes have each their own.
        let own = named(&scope).is_some_and(|row| row["scope"] != "kind");
        let unique_in = if own { &scope } else { scope.split_once('/').unwrap().0 };
        let (path, caller) = match scope.as_str() {
            "uniq96/default" => ("uniq96", ""),
            "string/default" => ("string", "biz=TEST&custom=00&"),
            "string/tickets" => (scope.as_str(), "custom=AB&"),
            _ => (scope.as_str(), ""),
        };
        oracle.note(unique_in, "the former agent", &Ids::Text(old));
        let answer = cluster.ask_agent(nth, &format!("{path}?{caller}n={IDS}")).await.unwrap();
        if retired {
            assert_ne!(answer.status, 200, "{scope} was retired: {}", answer.text());
            continue;
        }
        assert_eq!(answer.status, 200, "{scope}: {}", answer.text());
        let new: Vec<String> = answer.text().lines().map(str::to_owned).collect();
        assert_eq!(new.len(), IDS, "{scope}");
        if scope.starts_with("uniq64/") {
            // Their serials run on through the hours: at the mark that the former agent left.
            let serial = uniq64(&new[0]).unwrap() & SERIAL_MASK;
            assert!(serial >= IDS as u64, "{scope} begins at {serial} again");
        }
        oracle.note(unique_in, "today's agent", &Ids::Text(new));
    }
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

async fn opens_and_goes_on(version: &str) {
    let mut cluster = Cluster::new().unwrap();
    let former = Former::unpack(version, &cluster);
    for (now, then) in ask_stores(&cluster, "--verify-audit").iter().zip(former.text("verify-audit.txt").lines()) {
        assert_eq!(now, then, "the chain of the audit");
    }
    ask_stores(&cluster, "--check-store");
    // They were copied, so an operator has to vouch for them; otherwise nothing is granted for a while.
    for master in &mut cluster.masters {
        master.daemon.args.push("--vouch-untouched".to_owned());
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    nothing_is_forgotten(&former, &cluster).await;
    an_agent_goes_on(&former, &mut cluster).await;
    for master in &mut cluster.masters {
        let (ended, _) = master.daemon.terminate().await.unwrap();
        assert!(ended.success(), "{ended}");
    }
    for whole in ask_stores(&cluster, "--verify-audit") {
        assert!(whole.starts_with("the audit is whole: "), "{whole}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_stores_from_before_names_had_scopes_open_and_go_on() {
    opens_and_goes_on(VERSIONS[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_stores_of_the_version_before_open_and_go_on() {
    opens_and_goes_on(VERSIONS[1]).await;
}

/// Copied stores of which nobody says anything: both masters open them, meet, and know all that they knew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_nobody_vouches_for_meet_and_forget_nothing() {
    for version in VERSIONS {
        let mut cluster = Cluster::new().unwrap();
        let former = Former::unpack(version, &cluster);
        for master in &mut cluster.masters {
            master.daemon.start().unwrap();
        }
        for master in &cluster.masters {
            // Not that it grants: that begins when agents had time to show what they hold.
            let met = || async {
                let row = cluster.master_row(master.daemon.http).await.ok()?;
                (row["mode"] == "ready").then_some(())
            };
            until("it has met the other one", met).await.unwrap();
        }
        nothing_is_forgotten(&former, &cluster).await;
    }
}
