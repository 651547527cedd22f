//! Names with plugins over HTTP, on real connections: short way, pipelines, batches, JSON and packed.

use super::tests::App;
use super::*;
use crate::minter::kit::Kit;
use crate::plugin::history::{self, History, HistorySettings};
use crate::plugin::{Call, Needs, Outgoing, Plugin, PluginRefusal, Plugins, Stage};
use common::namespace::{Definition, Namespace, Scope, Uniq64Spec};
use net::rpc::mint::MintCode;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::net::TcpStream;

pub(super) struct Server {
    pub(super) minter: Arc<Minter>,
    address: SocketAddr,
    stop: CancellationToken,
    _app: App,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(super) struct Got {
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
}

impl Got {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    fn retry_after(&self) -> Option<u32> {
        self.head.lines().find_map(|line| line.strip_prefix("retry-after: "))?.parse().ok()
    }
}

impl Server {
    pub(super) async fn start(plugins: Plugins) -> Self {
        let kit = Kit::new();
        let minter = kit.start();
        assert!(minter.extras().set_plugins(plugins));
        let app = App::over(kit, Arc::clone(&minter));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        tokio::spawn(serve(listener, app.site.clone(), stop.clone()));
        Self { minter, address, stop, _app: app }
    }

    pub(super) fn define(&self, name: &str, definition: Definition, plugins: &str) {
        let plugins = serde_json::from_str(plugins).unwrap();
        let namespace = Namespace::define(name.parse().unwrap(), &definition.with_plugins(plugins)).unwrap();
        self.minter.define(namespace).unwrap();
    }

    /// All at once on one connection, and the answers.
    pub(super) async fn pipeline(&self, requests: &[(&str, &str)]) -> Vec<Got> {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        let request = |(path, accept): &(&str, &str)| {
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\r\n")
        };
        client.write_all(requests.iter().map(request).collect::<String>().as_bytes()).await.unwrap();
        let (mut input, mut all) = (Vec::new(), Vec::new());
        while all.len() < requests.len() {
            let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
                assert_ne!(client.read_buf(&mut input).await.unwrap(), 0, "after {} answers", all.len());
                continue;
            };
            let head = String::from_utf8(input[..end].to_vec()).unwrap();
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let len: usize = len.parse().unwrap();
            while input.len() < end + 4 + len {
                assert_ne!(client.read_buf(&mut input).await.unwrap(), 0);
            }
            let rest = input.split_off(end + 4 + len);
            let body = input.split_off(end + 4);
            all.push(Got { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body });
            input = rest;
        }
        all
    }

    pub(super) async fn get(&self, path: &str, accept: &str) -> Got {
        self.pipeline(&[(path, accept)]).await.pop().unwrap()
    }
}

const ONE: &str = r#"[{"plugin":"quota","per_day":1}]"#;
const ANY: &str = "*/*";
const PACKED: &str = "application/octet-stream";

fn own() -> Definition {
    Definition::Uniq64(Uniq64Spec { scope: Some(Scope::Own), ..Uniq64Spec::default() })
}

fn orders() -> Definition {
    Definition::string("A{date:%Y%m%d}{token}{serial:6}")
}

#[tokio::test]
async fn a_quota_of_one_refuses_the_second_on_every_way_over_http() {
    for accept in [ANY, "application/json", PACKED] {
        let server = Server::start(Plugins::new()).await;
        server.define("alias", Definition::default(), ONE);
        server.define("own", own(), ONE);
        server.define("text", orders(), ONE);
        server.define("layout", Definition::layout("sonyflake"), ONE);
        for path in ["uniq64/alias", "uniq64/own", "string/text", "layout/layout"] {
            if (path, accept) == ("string/text", PACKED) {
                continue;
            }
            let (path, name) = (format!("/{path}"), path.split('/').nth(1).unwrap());
            let any = format!("/id/{name}");
            let batch = format!("{path}?n=2");
            // A name without plugins before and after, so that the short way has begun and a window is open.
            let asked = [
                ("/uniq64", ANY),
                (&batch, accept),
                (&path, accept),
                ("/uniq64", ANY),
                (&path, accept),
                (&any, accept),
                (&path, accept),
            ];
            let got = server.pipeline(&asked).await;
            let status: Vec<u16> = got.iter().map(|got| got.status).collect();
            assert_eq!(status, [200, 429, 200, 200, 429, 429, 429], "{path} {accept}");
            assert!(got[4].text().contains("quota_exceeded"), "{}", got[4].text());
            let day = got[4].retry_after().unwrap();
            assert!((86_300..=86_400).contains(&day), "{day}");
            assert_eq!(got[1].retry_after(), None, "two never fit");
            let again = server.pipeline(&[(&path, accept), (&path, accept)]).await;
            assert!(again.iter().all(|got| got.status == 429), "{path}: on another connection");
        }
    }
}

#[tokio::test]
async fn a_thousand_names_have_a_quota_each() {
    let server = Server::start(Plugins::new()).await;
    let paths: Vec<String> = (0..1_000).map(|nth| format!("/uniq64/shop{nth}")).collect();
    for path in &paths {
        let plugins = r#"[{"plugin":"quota","per_day":3,"by":"caller"},{"plugin":"stats"}]"#;
        server.define(path.strip_prefix("/uniq64/").unwrap(), Definition::default(), plugins);
    }
    let mut seen = BTreeSet::new();
    for round in 0..5 {
        let asked: Vec<_> = paths.iter().map(|path| (path.as_str(), ANY)).collect();
        for got in server.pipeline(&asked).await {
            assert_eq!(got.status, if round < 3 { 200 } else { 429 });
            assert!(got.status == 429 || seen.insert(got.text()), "{} came twice", got.text());
        }
    }
    assert_eq!(seen.len(), 3_000);
    let metrics = server.get("/metrics", ANY).await.text();
    let line = "uniq_name_ids_total{kind=\"uniq64\",name=\"shop999\"} 3";
    assert!(
        metrics.contains(line) && metrics.contains("uniq_refusals_total{code=\"quota_exceeded\"} 2000"),
        "{metrics}"
    );
    let refused = "uniq_name_refusals_total{kind=\"uniq64\",name=\"shop0\",code=\"quota_exceeded\"} 2";
    assert!(metrics.contains(refused), "{metrics}");
}

/// A plugin that logs its calls, and panics or refuses where it is told to.
struct Told {
    name: String,
    at: String,
    does: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Told {
    fn is_in(&self, method: &str) -> Result<(), PluginRefusal> {
        self.log.lock().unwrap().push(format!("{} {method}", self.name));
        match self.does.as_str() {
            "panic" if self.at == method => panic!("planted in {method}"),
            "refuse" if self.at == method => Err(PluginRefusal::new(MintCode::BadParameter, "it does not like it")),
            _ => Ok(()),
        }
    }
}

impl Plugin for Told {
    fn name(&self) -> &str {
        &self.name
    }

    fn before(&self, _: &Call<'_>) -> Result<(), PluginRefusal> {
        self.is_in("before")
    }

    fn after(&self, _: &Call<'_>, _: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        self.is_in("after")
    }

    fn done(&self, _: &Call<'_>, _: &Outgoing<'_>) {
        let _ = self.is_in("done");
    }

    fn failed(&self, _: &Call<'_>, _: &crate::plugin::Failure<'_>) {
        let _ = self.is_in("failed");
    }
}

fn told(log: &Arc<Mutex<Vec<String>>>) -> Plugins {
    let mut plugins = Plugins::new();
    let log = Arc::clone(log);
    plugins
        .register("told", move |attached| {
            let text = |key| match attached.parameters.get(key) {
                Some(crate::plugin::Parameter::Text(text)) => text.clone(),
                _ => String::new(),
            };
            let (name, at, does, log) = (text("name"), text("at"), text("does"), Arc::clone(&log));
            Ok(Arc::new(Told { name, at, does, log }))
        })
        .unwrap();
    plugins
}

#[tokio::test]
async fn plugins_run_by_their_order_and_one_that_panics_refuses_in_every_method() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let server = Server::start(told(&log)).await;
    let of = |at: &str, does: &str| {
        format!(
            r#"[{{"plugin":"told","order":7,"name":"late"}},{{"plugin":"told","order":-5,"name":"first"}},
               {{"plugin":"told","order":3,"name":"mid","at":"{at}","does":"{does}"}}]"#
        )
    };
    let mut seen = BTreeSet::new();
    let both = ["first before", "mid before"];
    let all = ["first before", "mid before", "late before"];
    let failed = ["first failed", "mid failed", "late failed"];
    let fine: Vec<_> = all
        .iter()
        .copied()
        .chain(["first after", "mid after", "late after", "first done", "mid done", "late done"])
        .collect();
    let to_after: Vec<_> = all.iter().copied().chain(["first after", "mid after"]).chain(failed).collect();
    for (nth, (at, does, status, wanted)) in [
        ("", "", 200, fine.clone()),
        ("before", "refuse", 400, both.iter().copied().chain(["first failed"]).collect()),
        ("before", "panic", 503, both.iter().copied().chain(["first failed"]).collect()),
        ("after", "refuse", 400, to_after.clone()),
        ("after", "panic", 503, to_after),
        ("done", "panic", 200, fine),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("n{nth}");
        server.define(&name, Definition::default(), &of(at, does));
        let path = format!("/uniq64/{name}");
        for _ in 0..3 {
            log.lock().unwrap().clear();
            let got = server.get(&path, ANY).await;
            assert_eq!(
                (got.status, log.lock().unwrap().clone()),
                (status, wanted.iter().map(|w| (*w).to_owned()).collect()),
                "{at} {does}"
            );
            assert!(got.status == 200 || !got.text().contains("planted"), "what a panic says is for the log");
            // What a name without plugins gives goes on, and nothing comes twice.
            let plain = server.get("/uniq64", ANY).await;
            assert!(plain.status == 200 && seen.insert(plain.text()));
            assert!(got.status != 200 || seen.insert(got.text()));
        }
    }
    // In `failed` too: the call is refused for its own reason, and the others are told.
    let of = r#"[{"plugin":"told","order":1,"name":"a","at":"failed","does":"panic"},
                 {"plugin":"told","order":2,"name":"b","at":"before","does":"refuse"}]"#;
    server.define("nf", Definition::default(), of);
    log.lock().unwrap().clear();
    assert_eq!(server.get("/uniq64/nf", ANY).await.status, 400);
    assert_eq!(*log.lock().unwrap(), ["a before", "b before", "a failed"]);
}

/// Writes down what it sees.
struct Seen(Arc<Mutex<Vec<String>>>);

impl Plugin for Seen {
    fn name(&self) -> &str {
        "seen"
    }

    fn needs(&self, _: common::kind::Kind) -> Needs {
        Needs::Texts
    }

    fn after(&self, _: &Call<'_>, outgoing: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        self.0.lock().unwrap().extend_from_slice(outgoing.texts());
        Ok(())
    }
}

#[tokio::test]
async fn what_leaves_is_what_plugins_saw() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let mut plugins = Plugins::new();
    let same = Arc::clone(&log);
    plugins.register("seen", move |_| Ok(Arc::new(Seen(Arc::clone(&same))))).unwrap();
    let server = Server::start(plugins).await;
    let seen = || std::mem::take(&mut *log.lock().unwrap());
    for (name, definition) in
        [("uniq64/a", own()), ("string/b", orders()), ("layout/c", Definition::layout("sonyflake"))]
    {
        server.define(&name[name.len() - 1..], definition, r#"[{"plugin":"seen"}]"#);
        let text = server.get(&format!("/{name}?n=3"), ANY).await.text();
        let saw = seen();
        assert_eq!((text.lines().map(str::to_owned).collect::<Vec<_>>(), saw.len()), (saw.clone(), 3), "{name}");
        let json = server.get(&format!("/{name}?n=3"), "application/json").await.text();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let ids = json["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned());
        assert_eq!(ids.collect::<Vec<_>>(), seen(), "{name}");
    }
    // As the name writes them, whatever form they leave in.
    let hex = server.get("/uniq64/a?format=hex", ANY).await.text();
    assert_eq!([u64::from_str_radix(hex.trim_end(), 16).unwrap().to_string()], *seen());
    let packed = server.get("/uniq64/a", PACKED).await.body;
    assert_eq!([u64::from_be_bytes(packed.try_into().unwrap()).to_string()], *seen());
}

#[tokio::test]
async fn history_knows_who_got_an_id_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let settings = HistorySettings { folder: folder.path().to_owned(), file_len_max: 1 << 16, files_max: 10 };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let history = History::start(&settings).unwrap();
        let server = Server::start(Plugins::new().with_history(Arc::clone(&history))).await;
        let plugins = r#"[{"plugin":"history"}]"#;
        server.define("alias", Definition::default(), plugins);
        server.define("text", orders(), plugins);
        server.define("layout", Definition::layout("sonyflake"), plugins);
        for path in ["/uniq64/alias?n=5", "/string/text?n=3", "/layout/layout?n=4", "/uniq64/alias"] {
            let got = server.get(path, ANY).await.text();
            ids.extend(
                got.lines().map(|id| (path.split('/').nth(2).unwrap().split('?').next().unwrap(), id.to_owned())),
            );
        }
        let packed = server.get("/uniq64/alias", PACKED).await.body;
        ids.push(("alias", u64::from_be_bytes(packed.try_into().unwrap()).to_string()));
        let hex = server.get("/uniq64/alias?format=hex", ANY).await.text();
        ids.push(("alias", u64::from_str_radix(hex.trim_end(), 16).unwrap().to_string()));
        assert!(server.get("/metrics", ANY).await.text().contains("uniq_history_failing 0"));
        tokio::task::spawn_blocking(move || history.end()).await.unwrap();
        assert_eq!(server.get("/uniq64/alias", ANY).await.status, 503, "what cannot be written down does not leave");
        assert_eq!(server.get("/uniq64", ANY).await.status, 200);
    }
    for (name, id) in ids {
        let mut found = Vec::new();
        history::find(folder.path(), |line| line.contains(&id), |line| found.push(line)).unwrap();
        assert!(found.iter().any(|line| line.name == name && line.caller == "127.0.0.1"), "{id}: {found:?}");
    }
    let found = |id: &str| {
        let mut found = 0;
        history::find(folder.path(), |line| line.contains(id), |_| found += 1).unwrap();
        found
    };
    assert_eq!(found("1"), 0);
}

#[tokio::test]
async fn a_handler_is_told_of_each_refusal_once() {
    let server = Server::start(Plugins::new()).await;
    server.define("alias", Definition::default(), ONE);
    let (tell, told) = std::sync::mpsc::channel();
    server.minter.calls().refusals().set(move |call, failure| {
        let plugin = failure.plugin.map(str::to_owned);
        let _ = tell.send((call.name.to_owned(), call.n, call.caller.to_string(), failure.code, failure.stage, plugin));
    });
    let asked = ["/uniq64/alias?n=2", "/uniq64/nosuch", "/uniq64?n=0", "/uniq64"].map(|path| (path, ANY));
    let status: Vec<_> = server.pipeline(&asked).await.iter().map(|got| got.status).collect();
    assert_eq!(status, [429, 404, 400, 200]);
    server.minter.suspend().unwrap();
    assert_eq!(server.get("/uniq64?n=3", ANY).await.status, 503, "on the short way");
    let all: Vec<_> = told.try_iter().collect();
    let of = |name: &str, n, code, stage, plugin: Option<&str>| {
        (name.to_owned(), n, "127.0.0.1".to_owned(), code, stage, plugin.map(str::to_owned))
    };
    assert_eq!(
        all,
        [
            of("alias", 2, MintCode::QuotaExceeded, Stage::Before, Some("quota")),
            of("nosuch", 1, MintCode::UnknownGenerator, Stage::Minting, None),
            of("default", 1, MintCode::BadParameter, Stage::Minting, None),
            of("default", 3, MintCode::ClockSkew, Stage::Minting, None),
        ]
    );
}
