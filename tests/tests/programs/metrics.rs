//! The metrics of both programs: the text is golden but for its values.

use agent::embed::{Embedded, Namespace, Settings, UniqGenerator as _};
use agent::plugin::Plugins;
use agent::plugin::history::{History, HistorySettings};
use common::metrics::rows;
use net::rpc::ended;
use net::tls;
use process::log;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::cluster::{Cluster, until};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A page with `N` for each digit of a value, one for all of those before a point.
fn shape(page: &str) -> String {
    let line = |line: &str| match line.rsplit_once(' ') {
        Some((series, value)) if !line.starts_with('#') => {
            let (whole, rest) = value.split_at(value.find('.').unwrap_or(value.len()));
            whole.parse::<i128>().unwrap_or_else(|e| panic!("{line}: {e}"));
            format!("{series} N{}\n", rest.replace(|c: char| c.is_ascii_digit(), "N"))
        }
        _ => format!("{line}\n"),
    };
    page.lines().map(line).collect()
}

fn golden(name: &str) -> String {
    let path = root().join("tests/golden/metrics").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of all kinds that have series of their own, each asked for once, and one call that is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_series_has_its_name_type_help_and_labels() {
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    let history = cluster.dir().join("history");
    let nth = cluster.add_agent(&["--history-dir", history.to_str().unwrap()]).unwrap();
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let plugins = json!([{"plugin": "quota", "per_day": 5}, {"plugin": "stats"}]);
    for (name, definition) in
        [("few", json!({"kind": "segment", "plugins": plugins})), ("inbox", json!({"kind": "sequence"}))]
    {
        let url = cluster.agent_url(nth, &format!("generators/{name}")).unwrap();
        let answer = cluster.client.ask("PUT", &url, definition.to_string().into_bytes()).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    for path in ["segment/few?n=4", "sequence/inbox/alice"] {
        let given = || async { (cluster.ask_agent(nth, path).await.ok()?.status == 200).then_some(()) };
        until(path, given).await.unwrap();
    }
    let refused = cluster.ask_agent(nth, "segment/few?n=4").await.unwrap();
    assert_eq!(refused.code(), "quota_exceeded");
    let page = cluster.ask_agent(nth, "metrics").await.unwrap().text();
    assert_eq!(shape(&page), golden("agent.txt"), "{page}");
    let key = json!({"name": "billing", "role": "viewer", "days": 30});
    let made = cluster.client.change(cluster.masters[0].daemon.http, "/api/keys", &key).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    for master in &cluster.masters {
        // Logs in: the page shows names only to whoever has.
        cluster.client.console(master.daemon.http, "/api/axes").await.unwrap();
        let whole = || async {
            let page = cluster.client.console(master.daemon.http, "/metrics").await.ok()?.text();
            let late =
                ["uniq_master_axis_granted{", "uniq_master_peer_clock_skew_ms ", "uniq_master_next_key_end_seconds "];
            late.iter().all(|series| page.contains(series)).then_some(page)
        };
        let (page, _) = until("the master knows the name and the other master", whole).await.unwrap();
        assert_eq!(shape(&page), golden("master.txt"), "{page}");
    }
}

/// An application that mints by itself shows what an agent shows of the same names.
#[test]
fn an_application_has_the_series_of_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let history =
        History::start(&HistorySettings { folder: dir.path().to_owned(), file_len_max: 1 << 20, files_max: 2 })
            .unwrap();
    let settings = Settings::dev("app-1".parse().unwrap());
    let embedded = Embedded::start_with(settings, Plugins::new().with_history(history)).unwrap();
    embedded.wait_ready(Duration::from_secs(10)).unwrap();
    let plugins = json!([{"plugin": "quota", "per_day": 5}, {"plugin": "stats"}]);
    let few = serde_json::from_value(json!({"kind": "segment", "plugins": plugins})).unwrap();
    let few = embedded.create_uniq_generator(Namespace::define("few".parse().unwrap(), &few).unwrap()).unwrap();
    let mut numbers = Vec::new();
    few.get_batch_segment(4, &mut numbers).unwrap();
    assert!(few.get_batch_segment(4, &mut numbers).is_err(), "the quota is used up");
    let page = embedded.metrics();
    let agent = golden("agent.txt");
    let of_the_program = agent.find("# HELP uniq_ids_minted_total").unwrap();
    assert_eq!(shape(&page), agent[of_the_program..], "{page}");
    assert!(page.contains("uniq_ids_minted_total{kind=\"segment\"} 4\n"), "{page}");
}

/// Series that pages show are all in the documents, and no others.
#[test]
fn the_documents_list_every_series() {
    let docs = fs::read_to_string(root().join("docs/operate/metrics.md")).unwrap() + "\n";
    let both = rows(log::SERIES) + &rows(ended::SERIES) + &rows(tls::SERIES);
    let programs = [("agent.txt", agent::metrics::table()), ("master.txt", master::metrics::table())];
    for table in programs.iter().map(|(_, table)| table).chain([&both]) {
        assert!(
            docs.contains(&format!("|---|---|---|---|\n{table}\n")),
            "docs/operate/metrics.md does not have this:\n{table}"
        );
    }
    for (page, table) in &programs {
        let page = golden(page);
        let of = |text: &str, before: &str| -> BTreeSet<String> {
            let names = text.lines().filter_map(|line| line.strip_prefix(before)?.split([' ', '`']).next());
            names.map(str::to_owned).collect()
        };
        assert_eq!(of(&(both.clone() + table), "| `"), of(&page, "# HELP "));
        for (name, kind) in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        }
    }
}
