use super::*;
use crate::refusal::Refusal;
use common::namespace::GeneratorName;
use common::plugin::PluginSpec;
use common::time::{BootMs, Now, SpanMs, WallMs};
use net::rpc::mint::MintCode;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Log = Arc<Mutex<Vec<String>>>;

/// The behaviour of a plugin of these tests in one of its methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Nothing,
    Refuses(&'static str),
    Panics(&'static str),
}

/// Says what it is told.
struct Told {
    name: String,
    log: Log,
    does: Does,
}

impl Told {
    fn is_in(&self, method: &str, say: String) -> Result<(), PluginRefusal> {
        self.log.lock().unwrap().push(format!("{} {say}", self.name));
        match self.does {
            Does::Panics(at) if at == method => panic!("planted in {method}"),
            Does::Refuses(at) if at == method => Err(PluginRefusal::new(MintCode::BadParameter, "it does not like it")),
            _ => Ok(()),
        }
    }
}

impl Plugin for Told {
    fn name(&self) -> &str {
        &self.name
    }

    fn before(&self, _: &Call<'_>) -> Result<(), PluginRefusal> {
        self.is_in("before", "before".to_owned())
    }

    fn after(&self, _: &Call<'_>, _: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        self.is_in("after", "after".to_owned())
    }

    fn done(&self, _: &Call<'_>, _: &Outgoing<'_>) {
        let _ = self.is_in("done", "done".to_owned());
    }

    fn failed(&self, _: &Call<'_>, failure: &Failure<'_>) {
        let by = failure.plugin.unwrap_or("minting");
        let _ = self.is_in("failed", format!("failed {:?} {} by {by}", failure.stage, failure.code));
    }
}

fn name(text: &str) -> GeneratorName {
    text.parse().unwrap()
}

fn call(ms: i64) -> Call<'static> {
    let now = Now { wall: WallMs(ms), boot: BootMs(ms) };
    Call { kind: Kind::Uniq64, name: "orders", n: 1, caller: Caller::IN_PROCESS, now }
}

/// A chain of plugins a, b, c.
fn chain(does: [Does; 3]) -> (Chain, Log) {
    let log = Log::default();
    let told = |(place, does): (usize, Does)| {
        let name = ["a", "b", "c"][place].to_owned();
        let plugin: Arc<dyn Plugin> = Arc::new(Told { name, log: Arc::clone(&log), does });
        (place as i32, plugin)
    };
    let chain = Chain::new(Kind::Uniq64, name("orders"), does.into_iter().enumerate().map(told));
    (chain.unwrap().unwrap(), log)
}

fn said(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

/// A whole call, whose minting works.
fn mint(chain: &Chain, ms: i64) -> Result<(), PluginRefusal> {
    chain.before(call(ms))?.after(Outgoing::new(&[]))
}

const OK: Does = Does::Nothing;

#[test]
fn plugins_run_by_their_order_and_equal_ones_as_they_were_given() {
    let log = Log::default();
    let plugins = [("late", 90), ("second", 10), ("third", 10), ("first", -5)].map(|(name, order)| {
        let plugin: Arc<dyn Plugin> = Arc::new(Told { name: name.to_owned(), log: Arc::clone(&log), does: OK });
        (order, plugin)
    });
    let chain = Chain::new(Kind::Uniq64, name("orders"), plugins).unwrap().unwrap();
    assert_eq!(chain.names().collect::<Vec<_>>(), ["first", "second", "third", "late"]);
    mint(&chain, 0).unwrap();
    let order = ["first", "second", "third", "late"];
    let wanted: Vec<_> =
        ["before", "after", "done"].iter().flat_map(|m| order.map(|name| format!("{name} {m}"))).collect();
    assert_eq!(said(&log), wanted);
    assert!(Chain::new(Kind::Uniq64, name("orders"), []).unwrap().is_none(), "no plugins: nothing to run");
}

#[test]
fn who_passed_is_told_how_the_call_failed() {
    let (chain, log) = chain([OK, OK, Does::Refuses("before")]);
    let refusal = mint(&chain, 0).unwrap_err();
    assert_eq!(
        (refusal.plugin(), refusal.code(), refusal.detail()),
        ("c", MintCode::BadParameter, "it does not like it")
    );
    let by = |stage: &str, by: &str| format!("failed {stage} bad_parameter by {by}");
    assert_eq!(
        said(&log),
        ["a before", "b before", "c before", &format!("a {}", by("Before", "c")), &format!("b {}", by("Before", "c"))]
    );

    let (chain, log) = self::chain([OK, Does::Refuses("after"), OK]);
    assert_eq!(mint(&chain, 0).unwrap_err().plugin(), "b");
    let failed = ["a", "b", "c"].map(|name| format!("{name} {}", by("After", "b")));
    assert_eq!(
        said(&log)[3..],
        ["a after".to_owned(), "b after".to_owned()].into_iter().chain(failed).collect::<Vec<_>>()
    );

    let (chain, log) = self::chain([OK; 3]);
    chain.before(call(0)).unwrap().failed(&Refusal::Overloaded("too much"));
    assert_eq!(said(&log)[3..], ["a", "b", "c"].map(|name| format!("{name} failed Minting overloaded by minting")));

    drop(chain.before(call(0)).unwrap());
    assert_eq!(said(&log)[3..], ["a", "b", "c"].map(|name| format!("{name} failed GivenUp overloaded by minting")));
}

#[test]
fn a_panic_is_a_refusal_wherever_it_is() {
    for method in ["before", "after"] {
        let (chain, log) = chain([OK, Does::Panics(method), OK]);
        let refusal = mint(&chain, 0).unwrap_err();
        assert_eq!(
            (refusal.code(), refusal.plugin(), refusal.retry()),
            (MintCode::Overloaded, "b", Some(SpanMs(1_000)))
        );
        assert!(refusal.detail().contains("'b' does not work") && !refusal.detail().contains("planted"), "{refusal}");
        let ends = said(&log).into_iter().filter(|line| line.contains("failed") || line.contains("done")).count();
        assert_eq!(ends, if method == "before" { 1 } else { 3 }, "{method}");
    }
    let (chain, log) = self::chain([Does::Panics("done"), Does::Panics("failed"), OK]);
    mint(&chain, 0).unwrap();
    assert!(said(&log).contains(&"c done".to_owned()), "the others are told, and the IDs leave");
    chain.before(call(0)).unwrap().failed(&Refusal::Overloaded("too much"));
    assert_eq!(said(&log).last().unwrap(), "c failed Minting overloaded by minting");
}

#[test]
fn a_plugin_that_only_panics_is_asked_once_a_second() {
    let (chain, log) = chain([OK, Does::Panics("after"), OK]);
    let asked = |log: &Log| said(log).iter().filter(|line| *line == "b before").count();
    let refused = (0..1_000).filter(|_| mint(&chain, 5).is_err()).count();
    assert_eq!((refused, asked(&log)), (1_000, PANICS_MAX as usize + 1));
    let refused = (0..1_000).filter(|_| mint(&chain, 1_004).is_err()).count();
    assert_eq!((refused, asked(&log)), (1_000, 0));
    let refused = (0..3_000).filter(|ms| mint(&chain, 1_005 + ms).is_err()).count();
    assert_eq!((refused, asked(&log)), (3_000, 3), "each second anew");
}

/// A plugin that panics at first and then works again.
struct Recovers(AtomicU64);

impl Plugin for Recovers {
    fn name(&self) -> &str {
        "recovers"
    }

    fn before(&self, _: &Call<'_>) -> Result<(), PluginRefusal> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) >= 20, "not yet");
        Ok(())
    }
}

#[test]
fn a_plugin_that_works_again_serves_again() {
    let plugin: Arc<dyn Plugin> = Arc::new(Recovers(AtomicU64::new(0)));
    let chain = Chain::new(Kind::Uniq64, name("orders"), [(0, plugin)]).unwrap().unwrap();
    let passed: Vec<_> = (0..40).map(|second| mint(&chain, second * 500).is_ok()).collect();
    let first = passed.iter().position(|passed| *passed).unwrap();
    assert!(first > 20 && passed[first..].iter().all(|passed| *passed), "{passed:?}");
}

/// The payload of a panic, which panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("again");
        }
    }
}

struct Bomber;

impl Plugin for Bomber {
    fn name(&self) -> &str {
        "bomber"
    }

    fn before(&self, _: &Call<'_>) -> Result<(), PluginRefusal> {
        std::panic::panic_any(Bomb)
    }
}

struct Nameless;

impl Plugin for Nameless {
    fn name(&self) -> &str {
        panic!("no name")
    }
}

#[test]
fn panics_within_panics_and_without_a_name_end_nothing() {
    let chain = Chain::new(Kind::Uniq64, name("orders"), [(0, Arc::new(Bomber) as Arc<dyn Plugin>)]).unwrap().unwrap();
    assert_eq!(mint(&chain, 0).unwrap_err().plugin(), "bomber");
    let nameless = Chain::new(Kind::Uniq64, name("orders"), [(0, Arc::new(Nameless) as Arc<dyn Plugin>)]);
    assert_eq!(nameless.unwrap_err(), "no name");
}

fn specs(json: &str) -> Vec<PluginSpec> {
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_thousand_names_have_a_thousand_quotas() {
    const NAMES: usize = 1_000;
    let plugins = Plugins::new();
    let names: Vec<_> = (0..NAMES).map(|n| name(&format!("n{n}"))).collect();
    let chains: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let json = format!(r#"[{{"plugin":"quota","per_second":{}}},{{"plugin":"stats"}}]"#, n % 7 + 1);
            plugins.chain(Kind::Uniq64, name, &specs(&json)).unwrap().unwrap()
        })
        .collect();
    // From eight threads, ten seconds of ten calls for each name.
    let passed: Vec<AtomicU64> = (0..NAMES).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (chains, passed) = (&chains, &passed);
            scope.spawn(move || {
                for turn in (0..100 * NAMES).filter(|turn| turn % 8 == thread) {
                    let (name, chain) = (turn % NAMES, &chains[turn % NAMES]);
                    let call = Call { name: chain.name().as_str(), ..call(0) };
                    match chain.before(call) {
                        Ok(call) => {
                            call.after(Outgoing::new(&[])).unwrap();
                            passed[name].fetch_add(1, Ordering::Relaxed);
                        }
                        Err(refusal) => {
                            assert_eq!((refusal.code(), refusal.code().http_status()), (MintCode::QuotaExceeded, 429));
                            assert_eq!(refusal.retry(), Some(SpanMs(1_000)));
                        }
                    }
                }
            });
        }
    });
    let stats = plugins.stats(BootMs(1_000));
    assert_eq!(stats.len(), NAMES);
    for (n, (passed, name)) in passed.iter().zip(&names).enumerate() {
        let limit = n as u64 % 7 + 1;
        assert_eq!(passed.load(Ordering::Relaxed), limit, "{name}");
        let stats = stats.iter().find(|stats| stats.name == *name).unwrap();
        assert_eq!((stats.calls, stats.ids), (limit, limit));
        assert_eq!(stats.refused, [(MintCode::QuotaExceeded, 100 - limit)]);
        assert!((stats.ids_per_second - limit as f64 / 10.0).abs() < 1e-9);
    }
}

#[test]
fn a_quota_is_by_caller_and_counts_only_what_left() {
    let mut plugins = Plugins::new();
    plugins.register("even", |_| Ok(Arc::new(Even))).unwrap();
    let json = r#"[{"plugin":"quota","per_day":10,"by":"caller"},{"plugin":"quota","per_day":25},{"plugin":"even"}]"#;
    let chain = plugins.chain(Kind::Uniq64, &name("orders"), &specs(json)).unwrap().unwrap();
    assert_eq!(chain.names().collect::<Vec<_>>(), ["quota", "quota", "even"]);
    let take = |address: &str, n: u32| {
        let address: IpAddr = address.parse().unwrap();
        let call = Call { n, caller: Caller::Address(address), ..call(0) };
        chain.before(call)?.after(Outgoing::new(&[]))
    };
    assert_eq!(take("10.0.0.1", 9).unwrap_err().code(), MintCode::BadParameter, "odd");
    take("10.0.0.1", 10).unwrap();
    let refusal = take("10.0.0.1", 2).unwrap_err();
    assert_eq!((refusal.plugin(), refusal.retry()), ("quota", Some(SpanMs::days(1))));
    take("2001:db8::1", 10).unwrap();
    assert!(take("2001:db8::2", 2).is_err(), "the same network");
    // The first quota would allow it, the second one has 5 left; the first gets back what the second refuses.
    assert!(take("10.0.0.3", 6).is_err());
    take("10.0.0.3", 4).unwrap();
    let never = take("10.0.0.4", 12).unwrap_err();
    assert_eq!((never.code(), never.retry()), (MintCode::QuotaExceeded, None));
    assert!(never.detail().contains("ask for fewer"), "{never}");
    // IDs that were taken for a call that failed afterwards are counted.
    let fresh =
        plugins.chain(Kind::Uniq64, &name("others"), &specs(r#"[{"plugin":"quota","per_day":2}]"#)).unwrap().unwrap();
    drop(fresh.before(call(0)).unwrap());
    fresh.before(call(0)).unwrap().failed(&Refusal::Overloaded("too much"));
    mint(&fresh, 0).unwrap();
    assert!(mint(&fresh, 0).is_err());
}

/// Gives even numbers of IDs only.
struct Even;

impl Plugin for Even {
    fn name(&self) -> &str {
        "even"
    }

    fn before(&self, call: &Call<'_>) -> Result<(), PluginRefusal> {
        if call.n.is_multiple_of(2) { Ok(()) } else { Err(PluginRefusal::new(MintCode::BadParameter, "odd")) }
    }
}

#[test]
fn one_plugin_may_be_of_several_names() {
    let log = Log::default();
    let shared: Arc<dyn Plugin> = Arc::new(Told { name: "shared".to_owned(), log: Arc::clone(&log), does: OK });
    let mut plugins = Plugins::new();
    plugins.register("shared", move |_| Ok(Arc::clone(&shared))).unwrap();
    for name in ["a", "b"].map(name) {
        let chain = plugins.chain(Kind::Uniq64, &name, &specs(r#"[{"plugin":"shared"}]"#)).unwrap().unwrap();
        mint(&chain, 0).unwrap();
    }
    assert_eq!(said(&log).iter().filter(|line| *line == "shared done").count(), 2);
}

#[test]
fn what_cannot_be_attached_says_why_and_the_name_gives_nothing() {
    let mut plugins = Plugins::new();
    plugins.register("broken", |_| panic!("planted")).unwrap();
    plugins.register("picky", |attached| Err(format!("not {}", attached.name))).unwrap();
    for taken in ["quota", "history", "stats", "broken", "Broken", ""] {
        assert!(plugins.register(taken, |_| Ok(Arc::new(Even))).is_err(), "{taken}");
    }
    let nine = format!("[{}]", [r#"{"plugin":"quota","per_day":1}"#; PLUGINS_MAX + 1].join(","));
    for (json, why) in [
        (
            r#"[{"plugin":"nothing"}]"#,
            "plugins: nothing: there is no such plugin here, but quota, history, stats, broken, picky",
        ),
        (r#"[{"plugin":"history"}]"#, "keeps no history"),
        (r#"[{"plugin":"stats"},{"plugin":"stats"}]"#, "a name has it once"),
        (r#"[{"plugin":"stats","by":"name"}]"#, "unknown field `by`"),
        (r#"[{"plugin":"history","mode":"never"}]"#, "`required` or `best-effort`"),
        (r#"[{"plugin":"quota"}]"#, "quota: plugins: say per_second, per_day or both"),
        (r#"[{"plugin":"broken"}]"#, "it panicked: planted"),
        (r#"[{"plugin":"picky"}]"#, "picky: not orders"),
        (&nine, "at most 8"),
    ] {
        let refusal = plugins.chain(Kind::Uniq64, &name("orders"), &specs(json)).unwrap_err().to_string();
        assert!(refusal.contains(why), "{json}: {refusal}");
        let chain = plugins.chain_or_refuse(Kind::Uniq64, &name("orders"), &specs(json)).unwrap();
        let refusal = mint(&chain, 0).unwrap_err();
        assert!(refusal.detail().contains(why), "{json}: {refusal}");
    }
    assert!(plugins.chain_or_refuse(Kind::Uniq64, &name("orders"), &[]).is_none());
}

#[test]
fn the_metrics_name_each_name() {
    let plugins = Plugins::new();
    let chain = plugins.chain(Kind::Uniq64, &name("orders"), &specs(r#"[{"plugin":"stats"}]"#)).unwrap().unwrap();
    mint(&chain, 0).unwrap();
    chain.before(call(0)).unwrap().failed(&Refusal::Overloaded("too much"));
    let mut text = String::new();
    common::metrics::write(&mut text, STATS, &plugins.stats(BootMs(0))[..]);
    for line in [
        r#"uniq_name_ids_total{kind="uniq64",name="orders"} 1"#,
        r#"uniq_name_refusals_total{kind="uniq64",name="orders",code="overloaded"} 1"#,
        r#"uniq_name_seconds_count{kind="uniq64",name="orders"} 1"#,
        r#"uniq_name_seconds{kind="uniq64",name="orders",quantile="0.999"} 0.0000"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
    plugins.forget(Kind::Uniq64, &name("orders"));
    assert!(plugins.stats(BootMs(0)).is_empty());
}

#[test]
fn refusals_go_to_the_handler_that_was_set() {
    let refusals = Refusals::default();
    refusals.tell_refusal(&call(0), &Refusal::Overloaded("to the log"));
    let log = Log::default();
    let told = Arc::clone(&log);
    refusals.set(move |call, failure| {
        told.lock().unwrap().push(format!("{} {} {} {:?}", call.name, failure.code, failure.detail, failure.plugin));
    });
    refusals.tell_refusal(&call(0), &Refusal::Overloaded("too much"));
    let refusal = PluginRefusal::new(MintCode::QuotaExceeded, "used up");
    refusals.tell(&call(0), &Failure::by_plugin(&refusal, Stage::Before));
    assert_eq!(said(&log), ["orders overloaded too much None", "orders quota_exceeded used up Some(\"\")"]);
    refusals.set(|_, _| panic!("planted"));
    refusals.tell_refusal(&call(0), &Refusal::Overloaded("it goes on"));
}

#[test]
fn how_long_a_call_took_is_told() {
    struct Took(Mutex<Vec<Duration>>);
    impl Plugin for Took {
        fn name(&self) -> &str {
            "took"
        }
        fn done(&self, _: &Call<'_>, outgoing: &Outgoing<'_>) {
            self.0.lock().unwrap().push(outgoing.elapsed());
        }
        fn failed(&self, _: &Call<'_>, failure: &Failure<'_>) {
            self.0.lock().unwrap().push(failure.elapsed);
        }
    }
    let took = Arc::new(Took(Mutex::default()));
    let plugin: Arc<dyn Plugin> = Arc::clone(&took) as Arc<dyn Plugin>;
    let chain = Chain::new(Kind::Uniq64, name("orders"), [(0, plugin)]).unwrap().unwrap();
    for fails in [false, true] {
        let passed = chain.before(call(0)).unwrap();
        std::thread::sleep(Duration::from_millis(3));
        if fails {
            passed.failed(&Refusal::Overloaded("too much"));
        } else {
            passed.after(Outgoing::new(&[])).unwrap();
        }
    }
    assert!(took.0.lock().unwrap().iter().all(|took| *took >= Duration::from_millis(3)));
}

/// A call waits for its IDs across threads.
#[test]
fn a_call_under_way_may_move_to_another_thread() {
    fn moves<T: Send>(_: T) {}
    let (chain, _) = chain([OK; 3]);
    moves(chain.before(call(0)).unwrap());
    moves(Outgoing::new(&[]));
}
