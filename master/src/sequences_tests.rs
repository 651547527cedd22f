use super::*;
use crate::lease::{Effects, Event, Identity, RequestId, Write};
use crate::store::Store as _;
use crate::store::memory::MemoryStore;
use common::audit::Actor;
use common::calendar::UtcOffset;
use common::lease::Generation;
use common::metrics::write;
use common::namespace::{Definition, Namespace, SequenceSpec};
use common::parameters::{AgentId, ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::sequence::{Section, SectionKey, SectionOwner, SectionRecord, ServedAt};
use common::setting::{Setting, SettingValue};
use common::time::WallMs;
use net::rpc::ranges::KeepRequest;

const START: Now = Now { wall: WallMs(1_800_000_000_000), boot: BootMs(0) };

fn agent(session: u128) -> AgentId {
    format!("agent-{session}").parse().unwrap()
}

fn address(session: u128) -> ServedAt {
    ServedAt { http: format!("10.0.0.{session}:6200"), rpc: format!("10.0.0.{session}:6201") }
}

fn owner(session: u128) -> SectionOwner {
    SectionOwner { session: SessionId(session), agent_id: agent(session), address: address(session) }
}

fn record(name: &str, section: u32, g: u64, session: u128, max_seq: u64) -> SectionRecord {
    let range = (&SectionKey { name: name.parse().unwrap(), section: Section(section) }).into();
    SectionRecord { range, g: Generation(g), owner: owner(session), max_seq }
}

fn keep(session: u128, memory: u64) -> KeepRequest {
    KeepRequest {
        agent_id: agent(session),
        session: SessionId(session),
        holder: SessionId(session),
        cluster: None,
        address: address(session),
        sets: vec!["default".parse().unwrap()],
        memory,
        used: 0,
        per_second: 0,
        leaves: false,
        after: None,
        only: Vec::new(),
        receipts: Vec::new(),
    }
}

fn sequence(name: &str, set: &str) -> Write {
    let definition = Definition::Sequence(SequenceSpec { set: Some(set.to_owned()), ..SequenceSpec::default() });
    let namespace = Namespace::define(name.parse().unwrap(), &definition).unwrap();
    let (key, value) = (SettingKey::Namespace(name.parse().unwrap()), SettingValue::Namespace(Box::new(namespace)));
    Write::Setting(Setting { key, version: 1, value, actor: Actor::new("olga", ""), at: WallMs(0) })
}

/// A ledger with two names and these sections and proposals besides.
fn ledger(more: Vec<Write>) -> Ledger {
    let identity = Identity {
        master: MasterId::One,
        cluster: Some(ClusterId(7)),
        epoch: Some(EpochId(7)),
        pair_epoch: 1,
        former: Vec::new(),
        paired: true,
        parameters: ClusterParameters::new(7, UtcOffset::default(), 31).unwrap(),
        awaiting: None,
    };
    let mut store = MemoryStore::of(identity).unwrap();
    let writes: Vec<Write> = [sequence("a", "default"), sequence("b", "other")].into_iter().chain(more).collect();
    store.commit(&writes, 1).unwrap();
    Ledger::start(store.load().unwrap(), START, 1, None, "test".to_owned())
}

fn section(name: &str, at: u32, g: u64, session: u64) -> Write {
    Write::sections(record(name, at, g, session.into(), u64::from(at) * 10), 0)
}

fn prep(name: &str, at: u32, g: u64, session: u64) -> Write {
    Write::SectionPreps { gone: Vec::new(), rows: vec![record(name, at, g, session.into(), 0)] }
}

/// The same ledger once it serves without the other master.
fn serving() -> Ledger {
    let mut ledger = some();
    (1..=20).for_each(|second| ledger.step(later(second * 1_000), Event::Tick, &mut Effects::default()));
    ledger
}

fn heard(ledger: &mut Ledger, at: Now, request: KeepRequest) {
    ledger.step(at, Event::Keep { id: RequestId(1), request }, &mut Effects::default());
}

fn later(ms: i64) -> Now {
    Now { wall: WallMs(START.wall.0 + ms), boot: BootMs(ms) }
}

type Short = (String, u32, u32, SectionState, u64, u64);

fn short(rows: &[SectionRow]) -> Vec<Short> {
    rows.iter().map(|row| (row.name.to_string(), row.from, row.to, row.state, row.g_from, row.g_to)).collect()
}

fn some() -> Ledger {
    let mut writes: Vec<Write> = (1..=6).map(|at| section("a", at, u64::from(at % 2) + 1, 7)).collect();
    writes.extend([section("a", 7, 1, 8), prep("a", 3, 3, 8), prep("a", 9, 1, 8), section("b", 2, 5, 7)]);
    ledger(writes)
}

#[test]
fn sections_beside_each_other_with_one_owner_and_state_are_one_row() {
    use SectionState::{Proposed, Served, Waiting as Waits};
    let ledger = some();
    let mut waiting = Waiting::default();
    waiting.set(&record("a", 6, 1, 7, 0).range, Some(BootMs(0)));
    let all = |filter: SectionFilter, after: Option<(&str, u32)>, limit| {
        let after = after.map(|(name, at)| SectionKey { name: name.parse().unwrap(), section: Section(at) });
        sections(&ledger, START, &waiting, &filter, &SectionPage { after, limit })
    };
    let a = |from, to, state, g_from, g_to| ("a".to_owned(), from, to, state, g_from, g_to);
    let b = ("b".to_owned(), 2, 2, Served, 5, 5);
    let of_a = [
        a(1, 2, Served, 1, 2),
        a(3, 3, Proposed, 2, 2),
        a(4, 5, Served, 1, 2),
        a(6, 6, Waits, 1, 1),
        a(7, 7, Served, 1, 1),
        a(9, 9, Proposed, 1, 1),
    ];
    let whole = all(SectionFilter::default(), None, 100);
    assert_eq!(short(&whole), [of_a.to_vec(), vec![b.clone()]].concat());
    assert_eq!((whole[0].max_seq, whole[1].max_seq, whole[5].max_seq), (None, Some(30), None));
    assert_eq!((&whole[0].set, &whole[6].set), (&"default".to_owned(), &"other".to_owned()));
    assert_eq!(whole[1].owner, Some(SectionHolder::from(&owner(7))));
    assert_eq!(whole[1].next, Some(SectionHolder::from(&owner(8))));
    assert_eq!((&whole[5].owner, &whole[5].next), (&None, &Some(SectionHolder::from(&owner(8)))));
    // However it is cut into pages, it is all of them, and no section comes twice.
    for limit in 1..=4 {
        let (mut after, mut came) = (None, Vec::new());
        loop {
            let rows =
                all(SectionFilter::default(), after.as_ref().map(|(n, at): &(String, u32)| (n.as_str(), *at)), limit);
            assert!(rows.len() <= limit);
            let Some(last) = rows.last() else { break };
            after = Some((last.name.to_string(), last.to));
            came.extend(short(&rows));
        }
        assert_eq!(came, short(&whole), "{limit}");
    }
    let of = |filter| short(&all(filter, None, 100));
    let name = |text: &str| Some(text.parse().unwrap());
    assert_eq!(of(SectionFilter { name: name("a"), ..SectionFilter::default() }), of_a);
    assert_eq!(of(SectionFilter { name: name("aa"), ..SectionFilter::default() }), []);
    assert_eq!(of(SectionFilter { set: name("other"), ..SectionFilter::default() }), [b]);
    let agent = |text: &str| of(SectionFilter { agent: Some(text.parse().unwrap()), ..SectionFilter::default() });
    assert_eq!(agent("agent-8"), [of_a[1].clone(), of_a[4].clone(), of_a[5].clone()]);
    assert_eq!((agent("agent-*").len(), agent("nobody").len()), (7, 0));
}

#[test]
fn sections_of_an_owner_that_is_silent_at_both_masters_are_unserved() {
    let ledger = some();
    let state = |ledger: &Ledger, now| {
        let page = SectionPage { after: None, limit: 1 };
        sections(ledger, now, &Waiting::default(), &SectionFilter::default(), &page)[0].state
    };
    assert_eq!(state(&ledger, later(5_000)), SectionState::Served, "everybody counts as heard at the start");
    assert_eq!(state(&ledger, later(6_000)), SectionState::Unserved);
    let before = section_gauges(&ledger, later(6_000), 0);
    assert_eq!(before, SectionGauges { sections: [0, 0, 2, 7], ..SectionGauges::default() });
    let mut ledger = serving();
    heard(&mut ledger, later(26_000), keep(7, 1 << 30));
    assert_eq!(state(&ledger, later(26_000)), SectionState::Served);
    let after = section_gauges(&ledger, later(26_000), 1);
    assert_eq!(after, SectionGauges { sections: [5, 1, 2, 1], heard: 1, silent: 0, drained: 0 });
}

#[test]
fn a_bar_has_few_parts_however_many_ranges_there_are() {
    let name = "a".parse().unwrap();
    let waiting = Waiting::default();
    let drawn = |ledger: &Ledger| drawn(&mut States::new(ledger, START, &waiting), &name);
    let few = some();
    let (counts, bar) = drawn(&few);
    assert_eq!(counts, [6, 0, 2, 0]);
    let ends: Vec<_> = bar.iter().map(|part| (part.from, part.to, part.mixed)).collect();
    assert_eq!(ends, [(1, 2, false), (3, 3, false), (4, 6, false), (7, 7, false), (9, 9, false)]);
    // Each second one is somebody else's, and the last third one agent's alone.
    let session = |at| if at < 6_000 { u64::from(at % 2) + 7 } else { 9 };
    let many = ledger((0..9_000).map(|at| section("a", at, 1, session(at))).collect());
    let (counts, bar) = drawn(&many);
    assert_eq!((counts, bar.len()), ([9_000, 0, 0, 0], BAR_PARTS_MAX));
    assert!(bar.windows(2).all(|two| two[0].to + 1 == two[1].from));
    assert_eq!((bar[0].from, bar[0].mixed, bar[119].to, bar[119].mixed), (0, true, 8_999, false));
    assert_eq!(bar[119].agent_id, Some(owner(9).agent_id));
    let rows = names(&many, START, &waiting, None);
    let known: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.set.as_str(), row.bar.len())).collect();
    assert_eq!(known, [("a", "default", 120), ("b", "other", 0)]);
    assert_eq!(names(&many, START, &waiting, Some(&"other".parse().unwrap())).len(), 1);
}

#[test]
fn allocators_are_told_with_what_they_have_and_when_they_were_heard() {
    let mut ledger = serving();
    heard(&mut ledger, later(21_000), keep(8, 1 << 30));
    heard(&mut ledger, later(22_000), KeepRequest { used: 9, per_second: 5, leaves: true, ..keep(7, 1 << 20) });
    let rows = allocators(&ledger, later(26_600));
    let seven = AllocatorRow {
        agent_id: owner(7).agent_id,
        session: SessionId(7),
        sets: vec!["default".to_owned()],
        http: "10.0.0.7:6200".to_owned(),
        rpc: "10.0.0.7:6201".to_owned(),
        sections: 6,
        memory_used: 9,
        memory_limit: 1 << 20,
        per_second: 5,
        last_keep: Some(later(22_000).wall),
        silent: false,
        draining: false,
        leaves: true,
    };
    assert_eq!((rows.len(), &rows[0]), (2, &seven));
    assert_eq!((rows[1].sections, rows[1].silent, rows[1].last_keep), (3, true, Some(later(21_000).wall)));
    assert_eq!(count_of_agent(&ledger, &owner(8).agent_id), 3);
    let states = section_gauges(&ledger, later(26_600), 0);
    assert_eq!((states.heard, states.silent, states.drained), (0, 1, 1));
}

#[test]
fn the_metrics_have_as_many_lines_whatever_there_is() {
    let page = |states: &SectionGauges, counts: &SectionCounts| {
        let mut page = String::new();
        write(&mut page, GAUGES, states);
        write(&mut page, DONE, counts);
        page
    };
    let empty = page(&SectionGauges::default(), &SectionCounts::default());
    let counts = SectionCounts { keeps: 3, raises: 4, moves: 5, refused: [1, 0, 0, 2, 0] };
    let text = page(&section_gauges(&some(), START, 0), &counts);
    assert_eq!(text.lines().count(), empty.lines().count());
    for line in [
        "uniq_master_sections{state=\"served\"} 7",
        "uniq_master_sections{state=\"proposed\"} 2",
        "uniq_master_section_raises_refused_total{why=\"unknown\"} 2",
        "uniq_master_section_moves_total 5",
        "uniq_master_section_raises_total 4",
        "uniq_master_keeps_total 3",
        "uniq_master_allocators{state=\"heard\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
}
