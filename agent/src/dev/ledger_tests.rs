use super::*;
use common::namespace::Definition;
use common::segment::Shown;
use common::time::{DAY_MS, SpanMs};
use net::rpc::lease::NameState;
use net::rpc::ranges::RaiseTo;
use std::collections::BTreeSet;

const NOW: WallMs = WallMs(20_000 * DAY_MS + 5);

fn ledger() -> Ledger {
    Ledger::new(7)
}

fn asks(session: u128, token_type: TokenType) -> TokenRequest {
    TokenRequest {
        agent_id: "a".parse().unwrap(),
        session: SessionId(session),
        cluster: None,
        token_type,
        former: Vec::new(),
    }
}

fn renewal(session: u128, grant: &Grant) -> RentRequest {
    let (agent_id, session) = ("a".parse().unwrap(), SessionId(session));
    RentRequest { agent_id, session, cluster: None, key: grant.key, g: grant.g, rseq: 1, attempt: 1, receipt: None }
}

fn name(name: &str, json: &str) -> Namespace {
    Namespace::define(name.parse().unwrap(), &serde_json::from_str::<Definition>(json).unwrap()).unwrap()
}

fn define(ledger: &mut Ledger, namespace: &Namespace) -> Result<Changed, Refusal> {
    ledger.change_name(None, &Change::Define(Box::new(namespace.clone())))
}

fn take_in_use(ledger: &mut Ledger, namespace: &Namespace) {
    assert_eq!(define(ledger, namespace), Ok(Changed::Done));
    assert_eq!(ledger.change_name(None, &Change::Use(Box::new(namespace.clone()))), Ok(Changed::Done));
}

fn served() -> ServedAt {
    ServedAt { http: "h:1".to_owned(), rpc: "r:1".to_owned() }
}

fn keeps(session: u128, leaves: bool) -> KeepRequest {
    KeepRequest {
        agent_id: "a".parse().unwrap(),
        session: SessionId(session),
        holder: SessionId(1),
        cluster: None,
        address: served(),
        sets: vec!["default".parse().unwrap()],
        memory: 1,
        used: 0,
        per_second: 0,
        leaves,
        after: None,
        only: Vec::new(),
        receipts: Vec::new(),
    }
}

fn routes(name: &Namespace, sections: impl IntoIterator<Item = u32>) -> RoutesRequest {
    let sections = sections.into_iter().map(Section).collect();
    RoutesRequest { cluster: None, name: name.name().clone(), sections, all_from: None }
}

fn raise(name: &Namespace, g: u64, to: RaiseTo) -> Raise {
    let (section, name) = (Section(3), name.name().clone());
    let sections = SectionRange { name, from: section, to: Section(4) };
    Raise { section, sections, g: Generation(g), to, receipt: None }
}

#[test]
fn a_session_gets_its_own_lease_again_and_another_one_another_token() {
    let mut ledger = ledger();
    let first = ledger.grant(NOW, &asks(1, TokenType::Uint2), 77).unwrap();
    assert_eq!(ledger.grant(NOW, &asks(1, TokenType::Uint2), 5), Ok(first.clone()));
    let other = ledger.grant(NOW, &asks(2, TokenType::Uint2), 77).unwrap();
    assert_ne!(first.key, other.key);
    assert_eq!(first.from, WallMs(20_000 * DAY_MS));
    // The same dice, when the first lease and its rest are over: not before.
    let rested = ClusterParameters::default().reuse_at(first.until);
    let before = ledger.grant(rested + SpanMs(-1), &asks(3, TokenType::Uint2), 77).unwrap();
    assert_ne!(before.key, first.key);
    let again = ledger.grant(rested, &asks(4, TokenType::Uint2), 77).unwrap();
    assert_eq!((again.key, again.g), (first.key, first.g.next()));
    assert!(again.from >= first.until, "{again:?} {first:?}");
}

#[test]
fn tokens_of_a_narrow_type_are_each_given_once_and_then_none() {
    let mut ledger = ledger();
    let grants = (0..32).map(|session| ledger.grant(NOW, &asks(session, TokenType::Uint5Bit), 4_000).unwrap().key);
    assert_eq!(grants.collect::<BTreeSet<_>>().len(), 32);
    let none = ledger.grant(NOW, &asks(99, TokenType::Uint5Bit), 1);
    assert_eq!(none, Err(Refusal::PoolExhausted { token_type: TokenType::Uint5Bit }));
}

#[test]
fn only_its_session_renews_a_lease_and_none_that_is_over_or_was_given_back() {
    let mut ledger = ledger();
    let grant = ledger.grant(NOW, &asks(1, TokenType::Uint2), 0).unwrap();
    let later = NOW + SpanMs(DAY_MS);
    assert_eq!(ledger.renew(later, &renewal(2, &grant)), Ok(Rent::Rented));
    let until = later + ClusterParameters::default().lease();
    assert_eq!(ledger.renew(later, &renewal(1, &grant)), Ok(Rent::Success { until, receipt: None }));
    assert_eq!(ledger.renew(NOW, &renewal(1, &grant)), Ok(Rent::Success { until, receipt: None }), "never shorter");
    assert_eq!(ledger.renew(until, &renewal(1, &grant)), Ok(Rent::Unrented));
    let mut back =
        TerminateRequest { agent_id: "a".parse().unwrap(), session: SessionId(2), key: grant.key, g: grant.g };
    assert_eq!(ledger.take_back(&back), Err(Refusal::NotHolder));
    back.session = SessionId(1);
    assert_eq!((ledger.take_back(&back), ledger.take_back(&back)), (Ok(()), Err(Refusal::NoLease)));
    assert_eq!(ledger.renew(later, &renewal(1, &grant)), Ok(Rent::Unrented));
    let list = ListRequest { agent_id: "a".parse().unwrap(), session: SessionId(1), after: None };
    assert!(matches!(&ledger.list(&list)[..], [ListedLease { held: false, .. }]));
    assert_ne!(ledger.grant(later, &asks(1, TokenType::Uint2), 0).unwrap().key, grant.key, "it rests");
}

#[test]
fn names_are_registered_by_the_rules_of_all_masters() {
    let mut ledger = ledger();
    let orders = name("orders", r#"{"kind":"string","template":"INV{date:%Y%m%d}{token}{serial:6}"}"#);
    let before = ledger.digest_of_names();
    assert_eq!(define(&mut ledger, &orders), Ok(Changed::Done));
    assert_eq!(define(&mut ledger, &orders), Ok(Changed::AlreadySo));
    let registered = ledger.digest_of_names();
    let segment = r#"{"kind":"segment","step":10}"#;
    assert_eq!(define(&mut ledger, &name("orders", segment)), Err(Refusal::NameTaken));
    let alike = name("alike", r#"{"kind":"string","template":"INV{date:%Y%m%d}{token}{serial:6}"}"#);
    assert!(matches!(define(&mut ledger, &alike), Err(Refusal::Collides { .. })));
    assert_eq!(ledger.name(orders.name()).map(|one| one.state), Some(NameState::Unused));
    assert_eq!(ledger.change_name(None, &Change::Use(Box::new(orders.clone()))), Ok(Changed::Done));
    assert_eq!(ledger.name(orders.name()).map(|one| one.state), Some(NameState::InUse));
    let used = ledger.digest_of_names();
    assert!(before < registered && registered < used);
    for nth in 1..NAMES_MAX {
        assert_eq!(define(&mut ledger, &name(&format!("n{nth}"), segment)), Ok(Changed::Done));
    }
    let max = u32::try_from(NAMES_MAX).unwrap();
    assert_eq!(define(&mut ledger, &name("one-more", segment)), Err(Refusal::TooMany { max }));
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = ledger.names(&NamespacesRequest { cluster: None, after: after.clone() }).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.namespace.name().clone());
        all.extend(page);
    }
    assert_eq!(all.len(), NAMES_MAX);
}

#[test]
fn places_are_granted_once_up_to_the_end_of_the_axis() {
    let mut ledger = ledger();
    let short = name("short", r#"{"kind":"segment","first":5,"last":14,"step":4,"step_max":4}"#);
    let asks = |wanted, to| SegmentRequest {
        agent_id: "a".parse().unwrap(),
        session: SessionId(1),
        cluster: None,
        name: short.name().clone(),
        wanted,
        seen: Shown { to, proof: None },
    };
    assert_eq!(ledger.segment(&asks(4, 0)), Err(Refusal::NoSuchName));
    take_in_use(&mut ledger, &short);
    let mut span = |wanted, seen| ledger.segment(&asks(wanted, seen)).map(|grant| (grant.span.from, grant.span.to));
    assert_eq!(span(0, 0), Ok((0, 0)));
    assert_eq!([span(100, 0), span(2, 0)], [Ok((5, 9)), Ok((9, 11))]);
    // Places that somebody had are not granted again, whatever this ledger knows of it.
    assert_eq!(span(100, 13), Ok((13, 15)));
    assert_eq!(span(1, 0), Err(Refusal::AxisEnded { name: short.name().clone() }));
}

#[test]
fn a_section_goes_to_whoever_serves_and_its_bound_stays() {
    let mut ledger = ledger();
    let inbox = name("inbox", r#"{"kind":"sequence","step":10,"width":32}"#);
    assert_eq!(ledger.routes(&routes(&inbox, [3])), Err(Refusal::NoSuchName));
    take_in_use(&mut ledger, &inbox);
    let nobody = ledger.routes(&routes(&inbox, [3])).unwrap();
    assert!(nobody.routes.is_empty() && matches!(nobody.unserved, Some(Unserved::NoAllocator { .. })));
    assert_eq!(ledger.keep(&keeps(1, false)), Ok((Vec::new(), false)));
    let reply = ledger.routes(&routes(&inbox, [3, 4, 3, u32::MAX])).unwrap();
    let route = |from, g| Route { from: Section(from), to: Section(from + 1), address: served(), g: Generation(g) };
    assert_eq!(reply.routes, [route(3, 1), route(4, 1)], "and none that there is not");
    let held = |from, to, g| HeldSections {
        name: inbox.name().clone(),
        from: Section(from),
        to: Section(to),
        g: Generation(g),
    };
    assert_eq!(ledger.keep(&keeps(1, false)), Ok((vec![held(3, 5, 1)], false)));

    let step = ledger.raise_one(SessionId(1), &raise(&inbox, 1, RaiseTo::ByAStep), Section(3));
    assert_eq!(step, Ok(Raised { from: 0, max_seq: 10, receipt: None }));
    assert_eq!(
        ledger.raise_one(SessionId(2), &raise(&inbox, 1, RaiseTo::ByAStep), Section(3)),
        Err(NotRaised::OtherOwner)
    );

    // The next process: another owner, from that bound on.
    assert_eq!(ledger.keep(&keeps(2, false)), Ok((Vec::new(), false)));
    let all = RoutesRequest { all_from: Some(Section(0)), ..routes(&inbox, [3]) };
    assert_eq!(ledger.routes(&all).unwrap().routes, [route(3, 2)]);
    assert_eq!(ledger.keep(&keeps(2, false)), Ok((vec![held(3, 4, 2)], false)));
    assert_eq!(
        ledger.raise_one(SessionId(1), &raise(&inbox, 1, RaiseTo::ByAStep), Section(3)),
        Err(NotRaised::OtherOwner)
    );
    let step = ledger.raise_one(SessionId(2), &raise(&inbox, 2, RaiseTo::ByAStep), Section(3));
    assert_eq!(step, Ok(Raised { from: 10, max_seq: 20, receipt: None }));
    let last = u64::from(u32::MAX);
    let end = ledger.raise_one(SessionId(2), &raise(&inbox, 2, RaiseTo::Number(u64::MAX)), Section(3)).unwrap();
    assert_eq!(end.max_seq, last);
    assert_eq!(ledger.raise_one(SessionId(2), &raise(&inbox, 2, RaiseTo::ByAStep), Section(3)), Err(NotRaised::UsedUp));
    ledger.keep(&keeps(2, true)).unwrap();
    assert!(ledger.routes(&routes(&inbox, [3])).unwrap().routes.is_empty(), "it leaves");
}

#[test]
fn sections_have_a_bound_and_come_in_pages() {
    let mut ledger = ledger();
    let many = name("many", r#"{"kind":"sequence"}"#);
    take_in_use(&mut ledger, &many);
    ledger.keep(&keeps(1, false)).unwrap();
    let max = u32::try_from(SECTIONS_MAX).unwrap();
    // Every other one, so that none joins another.
    let all: Vec<u32> = (0..max).map(|nth| nth * 2).collect();
    for page in all.chunks(ROUTES_ASKED_MAX) {
        assert_eq!(ledger.routes(&routes(&many, page.iter().copied())).unwrap().unserved, None);
    }
    let full = ledger.routes(&routes(&many, [1, 2])).unwrap();
    assert_eq!((full.unserved, full.routes.len()), (Some(Unserved::TooMany { max }), 1));
    let (first, more) = ledger.keep(&keeps(1, false)).unwrap();
    assert!(more && first.len() == KEEP_RANGES_MAX);
    let last = first.last().map(|last| SectionKey { name: last.name.clone(), section: Section(last.to.0 - 1) });
    let (rest, more) = ledger.keep(&KeepRequest { after: last, ..keeps(1, false) }).unwrap();
    assert!(!more && first.len() + rest.len() == SECTIONS_MAX);
    let (mut seen, mut from) = (0, Some(Section(0)));
    while let Some(first) = from {
        let reply = ledger.routes(&RoutesRequest { all_from: Some(first), ..routes(&many, []) }).unwrap();
        (seen, from) = (seen + reply.routes.len(), reply.next);
    }
    assert_eq!(seen, SECTIONS_MAX);
}

#[test]
fn callers_of_other_clusters_get_nothing() {
    let mut ledger = ledger();
    let (there, here) = (Some(ClusterId(9)), ledger.cluster());
    let refused = Refusal::ForeignCluster { here };
    let inbox = name("inbox", r#"{"kind":"sequence"}"#);
    let token = TokenRequest { cluster: there, ..asks(1, TokenType::Uint2) };
    assert_eq!(ledger.grant(NOW, &token, 0), Err(refused.clone()));
    let change = Change::Define(Box::new(inbox.clone()));
    assert_eq!(ledger.change_name(there, &change), Err(refused.clone()));
    assert_eq!(ledger.keep(&KeepRequest { cluster: there, ..keeps(1, false) }), Err(refused.clone()));
    assert_eq!(ledger.routes(&RoutesRequest { cluster: there, ..routes(&inbox, [1]) }), Err(refused));
    assert_eq!(ledger.same_cluster(Some(here)), Ok(()));
    assert_eq!(ledger, Ledger::new(7), "and nothing changed");
}
