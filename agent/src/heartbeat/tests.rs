//! Against masters that do what real ones do only in bad moments. What real ones do is tested with real ones.

pub(crate) mod master;
mod on_demand;
mod segments;

use super::*;
use crate::catalog::Catalog;
use crate::embed::{Shared, UniqGenerator as _};
use crate::holder::{LeaseView, Leases};
use crate::masters::AGE_MAX;
use crate::masters::tests::{masters_at, moving, pass};
use crate::minter::kit::{Kit, held, parameters};
use common::calendar::UtcOffset;
use common::clock::Clock;
use common::kind::{Kind, UNIQ64};
use common::lease::{Generation, Grant};
use common::namespace::{Definition, GeneratorName, Namespace, Uniq64Spec};
use common::parameters::{ClusterId, ClusterParameters, MasterId};
use common::plugin::PluginSpec;
use common::segment::Span;
use common::time::{DAY_MS, SpanMs, WallMs};
use common::token::{TokenKey, TokenType, TokenValue};
use master::{Master, success};
use net::places::{Place, Places};
use net::rpc::lease::{
    AgentReport, Changed, DefineReply, DefineRequest, FindRequest, Found, HeartbeatReply, HeartbeatRequest,
    LeaseService, ListRequest, ListedLease, Mode, NameProof, NameState, NamespacesRequest, Refusal as Said, Registered,
    RentRequest, RestoreRequest, RetiredOnly, TerminateRequest, TokenRequest,
};
use net::rpc::ranges::{
    KeepReply, KeepRequest, RaiseRequest, RaisedAll, RoutesReply, RoutesRequest, SegmentGrant, SegmentRequest,
};
use net::rpc::transport;
use std::sync::Mutex;
use tarpc::context::Context;
use tokio::net::TcpListener;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// An address where nobody listens.
pub(crate) async fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

struct Running {
    minter: Arc<Minter>,
    report: Arc<Report>,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An agent that wants `uint2`, with the leases it has, renewing every 50 ms.
fn start(minter: Arc<Minter>, masters: Vec<String>, has: &[Grant]) -> Running {
    let wanted = [TokenType::Uint2].into();
    let holder = Holder::new(&wanted, has, 0, SpanMs(50), minter.time().now());
    let (masters, stop) = (masters_at(&masters, &minter), CancellationToken::new());
    let report = Arc::clone(&masters.report);
    tokio::spawn(Heartbeat { masters, holder }.run(stop.clone()));
    Running { minter, report, stop }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "in vain: {what}");
}

fn token(minter: &Minter) -> Option<u32> {
    match minter.grants().leases().remove(&TokenType::Uint2) {
        Some(LeaseView::Held(grant)) => Some(grant.key.value.0),
        _ => None,
    }
}

fn numbers_only() -> (Leases, Vec<Grant>) {
    let mut leases = held(7);
    leases.remove(&TokenType::String2IncludeLetter);
    let grants = leases.values().filter_map(|view| match view {
        LeaseView::Held(grant) => Some(grant.clone()),
        _ => None,
    });
    (leases.clone(), grants.collect())
}

#[tokio::test]
async fn when_one_master_is_away_or_cannot_the_other_is_asked() {
    let kit = Kit::new();
    let (cannot, can) = (Master::new(Err(Said::PeerAway)), Master::new(Ok(9)));
    let masters = vec![nobody().await, cannot.listen().await, can.listen().await];
    let running = start(kit.start_bare(), masters, &[]);
    until("a token", || token(&running.minter) == Some(9)).await;
    assert_eq!(running.minter.grants().membership().cluster, Some(ClusterId(1)));
    assert_eq!(running.report.master().unwrap().id, MasterId::One);
}

#[tokio::test]
async fn the_reason_for_having_no_lease_is_what_each_master_said() {
    let kit = Kit::new();
    let cannot = Master::new(Err(Said::PeerAway));
    let running = start(kit.start_bare(), vec![nobody().await, cannot.listen().await], &[]);
    let why = || running.minter.ready().unwrap_err().to_string();
    until("both reasons", || why().contains("cannot connect") && why().contains("needs both")).await;
    assert!(running.report.last_refusal().is_some());
}

#[tokio::test]
async fn a_master_with_other_terms_or_an_impossible_grant_is_not_believed() {
    let kit = Kit::new();
    let (other, greedy) = (Master::new(Ok(3)), Master::new(Ok(70_000)));
    other.with(|records| records.parameters = ClusterParameters::new(8, UtcOffset::default(), 65_535).unwrap());
    let minter = kit.start();
    let running = start(minter, vec![other.listen().await, greedy.listen().await], &[]);
    running.minter.set_leases(Leases::from([(TokenType::Uint2, LeaseView::Missing)]), 0).unwrap();
    let why = || running.minter.ready().unwrap_err().to_string();
    until("both reasons", || why().contains("its parameters are") && why().contains("cannot be used")).await;
    assert!(other.with(|records| records.requests.is_empty()), "not asked after its introduction");
    assert_eq!(token(&running.minter), None);
}

#[tokio::test]
async fn a_renewal_is_durable_first_and_the_same_at_the_other_master() {
    let kit = Kit::new();
    let (mute, can) = (Master::new(Ok(1)), Master::new(Ok(2)));
    mute.with(|records| records.rent = Err(Said::Overloaded));
    can.with(|records| records.rent = Err(Said::Overloaded));
    let (leases, has) = numbers_only();
    let minter = kit.start();
    minter.set_leases(leases, 0).unwrap();
    let running = start(minter, vec![mute.listen().await, can.listen().await], &has);
    let asked = |master: &Master| master.with(|records| records.rents.first().cloned());
    until("both asked", || asked(&mute).is_some() && asked(&can).is_some()).await;
    assert_eq!(asked(&mute), asked(&can));
    assert_eq!(running.minter.rseq(), asked(&can).unwrap().rseq);
    assert_eq!(token(&running.minter), Some(7), "minting goes on");
}

#[tokio::test]
async fn renewals_go_on_with_growing_numbers() {
    let kit = Kit::new();
    let master = Master::new(Ok(1));
    let (leases, has) = numbers_only();
    let minter = kit.start();
    minter.set_leases(leases, 0).unwrap();
    let running = start(minter, vec![master.listen().await], &has);
    until("three renewals", || master.with(|records| records.rents.len()) >= 3).await;
    let rseqs: Vec<_> = master.with(|records| records.rents.iter().map(|rent| rent.rseq).collect());
    assert!(rseqs.windows(2).all(|pair| pair[0] < pair[1]), "{rseqs:?}");
    let until_end = |minter: &Minter| match minter.grants().leases().remove(&TokenType::Uint2) {
        Some(LeaseView::Held(grant)) => grant.until,
        other => panic!("{other:?}"),
    };
    until("the new end", || until_end(&running.minter) > has[0].until).await;
}

#[tokio::test]
async fn a_lease_that_is_over_is_replaced_by_another_token() {
    let kit = Kit::new();
    let master = Master::new(Ok(12));
    master.with(|records| records.rent = Ok(|_| Rent::Unrented));
    let (leases, has) = numbers_only();
    let minter = kit.start();
    minter.set_leases(leases, 0).unwrap();
    let running = start(minter, vec![master.listen().await], &has);
    until("the other token", || token(&running.minter) == Some(12)).await;
    let request = master.with(|records| records.requests.first().cloned()).unwrap();
    assert_eq!(request.session, running.minter.session().id(), "the same session");
}

#[tokio::test]
async fn a_denied_lease_ends_with_a_heartbeat_though_renewals_would_succeed() {
    let kit = Kit::new();
    let master = Master::new(Ok(12));
    let (leases, has) = numbers_only();
    // Of another grant of the same token, and of a token that we do not have, nothing follows.
    let other = TokenKey { value: TokenValue(8), ..has[0].key };
    master.with(|records| records.denied = vec![(has[0].key, has[0].g.next()), (other, has[0].g)]);
    let minter = kit.start();
    minter.set_leases(leases, 0).unwrap();
    let running = start(Arc::clone(&minter), vec![master.listen().await], &has);
    until("a renewal", || !master.with(|records| records.rents.is_empty())).await;
    assert_eq!(token(&running.minter), Some(7));
    drop(running);

    master.with(|records| records.denied = vec![(has[0].key, has[0].g)]);
    let running = start(minter, vec![master.listen().await], &has);
    until("the other token", || token(&running.minter) == Some(12)).await;
}

#[tokio::test]
async fn after_a_jump_of_the_clock_a_renewal_restores_minting() {
    let kit = Kit::new();
    let master = Master::new(Ok(1));
    master.with(|records| records.rent = Err(Said::Overloaded));
    let (leases, has) = numbers_only();
    let minter = kit.start();
    minter.set_leases(leases, 0).unwrap();
    let running = start(minter, vec![master.listen().await], &has);
    until("a renewal that fails", || master.with(|records| !records.rents.is_empty())).await;
    running.minter.time().pretend_jump();
    until("suspension", || {
        matches!(running.minter.grants().leases().get(&TokenType::Uint2), Some(LeaseView::Suspended(_)))
    })
    .await;
    master.with(|records| records.rent = Ok(success));
    until("minting", || token(&running.minter) == Some(7)).await;
}

#[tokio::test]
async fn a_report_says_how_the_agent_fares_and_a_master_that_does_not_take_it_is_left() {
    let kit = Kit::new();
    let (first, second) = (Master::new(Ok(1)), Master::new(Ok(1)));
    let minter = kit.start();
    let addresses = [first.listen().await, second.listen().await];
    let holder = Holder::new(&[TokenType::Uint2].into(), &[], 0, SpanMs(50), minter.time().now());
    let heartbeat = Heartbeat { masters: masters_at(&addresses, &minter), holder };
    let mut task = Heartbeat::task(heartbeat);
    task.turn = 0;
    task.heartbeat(task.turn).await.unwrap();
    task.tell().await;
    let reports = first.with(|records| records.reports.clone());
    let [report] = reports.as_slice() else { panic!("one report, not {reports:?}") };
    assert_eq!((report.session, report.minted), (minter.session().id(), 0));
    assert!(report.not_ready.is_none(), "it has its leases: {report:?}");
    assert!(report.fresh_because.is_some() && report.scarcest.as_ref().is_some_and(|scarcest| scarcest.left > 0));

    // Names by what they minted since the last report, and how their calls fared if they count them.
    let stats: PluginSpec = serde_json::from_str(r#"{"plugin":"stats"}"#).unwrap();
    let definition = Definition::Uniq64(Uniq64Spec { plugins: vec![stats], ..Uniq64Spec::default() });
    let orders = Namespace::define("orders".parse().unwrap(), &definition).unwrap();
    minter.in_turn(move |minter| minter.define(orders)).await.unwrap().unwrap();
    task.tell().await;
    let same = Arc::clone(&minter);
    let minted = tokio::task::spawn_blocking(move || {
        for (name, n) in [("orders", 40), ("orders", 2), ("default", 7)] {
            Shared::new(&same, name).unwrap().get_batch64(n, &mut Vec::new()).unwrap();
        }
    });
    minted.await.unwrap();
    task.tell().await;
    let report = first.with(|records| records.reports.last().cloned().unwrap());
    let names: Vec<_> = report.names.iter().map(|it| (it.name.as_str(), it.calls.map(|calls| calls.served))).collect();
    // Both draw from one series; what the other counts by itself is not counted twice.
    assert_eq!(names, [("orders", Some(2)), ("default", None)], "{report:?}");
    assert!(report.names.iter().all(|it| it.per_second > 0), "{report:?}");

    minter.in_turn(Minter::suspend).await.unwrap().unwrap();
    task.tell().await;
    assert!(first.with(|records| records.reports.last().unwrap().not_ready.is_some()), "now it may not use them");

    task.take_leave().await;
    let stops = first.with(|records| records.reports.iter().map(|report| report.stops).collect::<Vec<_>>());
    assert_eq!(
        stops.iter().position(|stops| *stops),
        Some(stops.len() - 1),
        "the last report alone says it: {stops:?}"
    );

    // A master that is going is noticed here, and not only when the next lease is due.
    first.with(|records| records.closing = true);
    task.tell().await;
    assert!(task.held.is_none());
    task.heartbeat(task.turn).await.unwrap();
    task.tell().await;
    assert_eq!(second.with(|records| records.reports.len()), 1);
}

const HOUR: SpanMs = SpanMs(3_600_000);

/// An agent with its leases whose connection goes to the first of these masters.
async fn task_at(kit: &Kit, masters: &[&Master]) -> Task {
    let (leases, has) = numbers_only();
    let minter = kit.start();
    minter.set_leases(leases, 0).unwrap();
    let mut addresses = Vec::new();
    for master in masters {
        addresses.push(master.listen().await);
    }
    // One more than there are, which is away.
    addresses.push(nobody().await);
    let holder = Holder::new(&[TokenType::Uint2].into(), &has, 0, HOUR, minter.time().now());
    let mut task = Heartbeat::task(Heartbeat { masters: masters_at(&addresses, &minter), holder });
    task.turn = 0;
    task
}

#[tokio::test]
async fn who_is_asked_only_for_its_cluster_is_asked_by_a_connection_that_is_not_old() {
    let (kit, own, foreign) = (Kit::new(), Master::new(Ok(1)), Master::new(Ok(1)));
    foreign.with(|records| records.cluster = ClusterId(2));
    let (lead, to) = tokio::sync::watch::channel(own.listen().await);
    let mut task = task_at(&kit, &[&own]).await;
    let minter = Arc::clone(&task.minter);
    task.masters = masters_at(&[own.listen().await, moving(to).await], &minter);
    let _used = task.masters.reach(1, Lane::Calls, OPEN_LIMIT, CALL_LIMIT).await.unwrap();
    lead.send_replace(foreign.listen().await);
    task.greet_others(0).await;
    assert!(minter.grants().wrong_cluster().is_none(), "the one there is leads to ours");
    pass(AGE_MAX).await;
    task.greet_others(0).await;
    assert!(minter.grants().wrong_cluster().is_some());
}

#[tokio::test]
async fn one_masters_wrong_calendar_stops_nobody_as_long_as_the_other_says_so() {
    let kit = Kit::new();
    let (wrong, right) = (Master::new(Ok(1)), Master::other(SpanMs(0)));
    wrong.with(|records| records.ahead = HOUR);
    let mut task = task_at(&kit, &[&wrong, &right]).await;
    task.heartbeat(task.turn).await.unwrap();
    assert_eq!(task.minter.ready(), Ok(()));
    assert!(task.minter.time().offset_ms().abs() < 60_000, "nor is its time gone by");
    assert_eq!(task.report.master().map(|master| master.id), Some(MasterId::Two));

    // A calendar that goes wrong later, on a connection that stays.
    wrong.with(|records| records.ahead = SpanMs(0));
    right.with(|records| records.ahead = HOUR);
    task.heartbeat(task.turn).await.unwrap();
    assert_eq!((task.minter.ready(), task.report.master().map(|master| master.id)), (Ok(()), Some(MasterId::One)));
}

#[tokio::test]
async fn a_clock_that_all_masters_call_wrong_stops_minting_and_so_does_the_only_one_there_is() {
    let kit = Kit::new();
    let (one, other) = (Master::new(Ok(1)), Master::other(HOUR));
    one.with(|records| records.ahead = HOUR);
    let mut task = task_at(&kit, &[&one, &other]).await;
    task.heartbeat(task.turn).await.unwrap();
    assert!(task.minter.ready().unwrap_err().to_string().contains("correct it"));
    assert!(other.with(|records| records.heartbeats) > 0, "it was asked");
    drop(task);

    // The same master under another address is not a second opinion.
    let twice = Master::new(Ok(1));
    twice.with(|records| records.ahead = HOUR);
    let mut task = task_at(&kit, &[&twice, &twice]).await;
    task.heartbeat(task.turn).await.unwrap();
    assert!(task.minter.ready().is_err());
    // It was the masters' calendar, and it is mended: minutes later nobody needs to wait for that.
    twice.with(|records| records.ahead = SpanMs(0));
    task.heartbeat(task.turn).await.unwrap();
    assert_eq!(task.minter.ready(), Ok(()));
}

/// The lessee in the hands of the loop: a skew that ends is noticed without waiting for the next minute.
#[tokio::test]
async fn minting_goes_on_soon_after_the_calendars_agree_again() {
    let kit = Kit::new();
    let master = Master::new(Ok(1));
    master.with(|records| records.ahead = HOUR);
    let (leases, has) = numbers_only();
    let minter = kit.start();
    minter.set_leases(leases, 0).unwrap();
    let running = start(minter, vec![master.listen().await], &has);
    until("a refusal", || running.minter.ready().is_err()).await;
    master.with(|records| records.ahead = SpanMs(0));
    let before = master.with(|records| records.heartbeats);
    until("minting", || running.minter.ready().is_ok()).await;
    assert_eq!(master.with(|records| records.heartbeats), before + 1, "by the next heartbeat");
}

/// A minter in a session that was resumed, with the lease that it had.
fn resumed(kit: &Kit) -> (Arc<Minter>, Leases, Vec<Grant>) {
    drop(kit.start());
    let (leases, has) = numbers_only();
    let resumed = has.iter().map(|grant| (grant.token_type, LeaseView::Resumed(grant.clone()))).collect();
    let minter = kit.start_bare();
    assert_eq!(minter.session().start().to_string(), "resumed");
    minter.set_leases(resumed, 0).unwrap();
    (minter, leases, has)
}

fn start_resumed(minter: &Arc<Minter>, masters: Vec<String>, has: &[Grant]) -> CancellationToken {
    let holder = Holder::new(&[TokenType::Uint2].into(), has, 0, HOUR, minter.time().now()).resumed();
    let stop = CancellationToken::new();
    let heartbeat = Heartbeat { masters: masters_at(&masters, minter), holder };
    tokio::spawn(heartbeat.run(stop.clone()));
    stop
}

/// Two copies that were resumed are told apart by the renewals with which they begin; the second one's comes too late.
#[tokio::test]
async fn a_resumed_session_mints_nothing_before_the_masters_have_heard_of_it() {
    let kit = Kit::new();
    let (minter, _, has) = resumed(&kit);
    let master = Master::new(Ok(12));
    master.with(|records| records.rent = Ok(|_| Rent::Unrented));
    let stop = start_resumed(&minter, vec![master.listen().await], &has);
    let source = minter.names().generator(Kind::Uniq64, "default").unwrap();
    let id = loop {
        match minter.mint(source, 1).await {
            Ok(runs) => break runs.numbers().next().and_then(|id| UNIQ64.layout().parts(id)).unwrap(),
            Err(refusal) => assert!(matches!(refusal, Refusal::NoLease { .. }), "{refusal}"),
        }
    };
    assert_eq!(id.token, TokenValue(12), "never under the token that was denied");
    stop.cancel();
}

#[tokio::test]
async fn a_resumed_session_goes_on_when_its_lease_was_renewed() {
    let kit = Kit::new();
    let (minter, _, has) = resumed(&kit);
    let master = Master::new(Ok(12));
    let stop = start_resumed(&minter, vec![master.listen().await], &has);
    let source = minter.names().generator(Kind::Uniq64, "default").unwrap();
    let id = minter.mint(source, 1).await.unwrap().numbers().next().and_then(|id| UNIQ64.layout().parts(id)).unwrap();
    assert_eq!(id.token, TokenValue(7));
    until("the lease is held", || token(&minter) == Some(7)).await;
    stop.cancel();
}

#[tokio::test]
async fn a_fresh_session_shows_the_former_ones_until_it_was_granted_a_lease() {
    let kit = Kit::new();
    let minter = kit.start_giving_up(&[77, 78]);
    let master = Master::new(Err(Said::PeerAway));
    let running = start(minter, vec![master.listen().await], &[]);
    until("a request", || !master.with(|records| records.requests.is_empty())).await;
    master.with(|records| records.grant = Ok(9));
    until("a token", || token(&running.minter) == Some(9)).await;
    let former =
        master.with(|records| records.requests.iter().map(|request| request.former.clone()).collect::<Vec<_>>());
    assert!(former.len() > 1 && former.iter().all(|former| former.iter().map(|s| s.0).eq([77, 78])), "{former:?}");
    assert!(running.minter.driver().former().is_empty(), "they were heard of");
}

/// Asks an agent for one Uniq64.
async fn minted(minter: &Arc<Minter>) -> Result<u64, net::rpc::mint::MintCode> {
    let source = minter.names().generator(Kind::Uniq64, "default").unwrap();
    let runs = minter.mint(source, 1).await.map_err(|refusal| refusal.code())?;
    Ok(runs.numbers().next().unwrap() as u64)
}

#[tokio::test]
async fn one_master_of_another_cluster_stops_minting_until_the_list_leads_to_ours_alone() {
    use net::rpc::mint::MintCode;
    let (kit, ours, other) = (Kit::new(), Master::new(Ok(7)), Master::new(Ok(7)));
    let masters = vec![ours.listen().await, other.listen().await];
    let minter = kit.start_bare();
    let agent = start(Arc::clone(&minter), masters.clone(), &[]);
    until("ready", || minter.ready().is_ok()).await;
    let mut ids = vec![minted(&minter).await.unwrap()];

    // Whoever asks it, for whatever reason.
    other.with(|records| records.cluster = ClusterId(2));
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    for _ in 0..masters.len() {
        let _ = names.look_up("unknown", |_| Ok(())).await;
    }
    until("it stops", || minter.ready().is_err()).await;
    assert_eq!(minted(&minter).await, Err(MintCode::WrongCluster));
    let alarm = || minter.alarm().is_some_and(|alarm| alarm.starts_with("wrong_cluster: the master at "));
    assert!(alarm(), "{:?}", minter.alarm());
    until("the operators are told", || {
        ours.with(|records| records.reports.iter().any(|report| report.alarm.is_some()))
    })
    .await;
    drop((agent, names));
    until("nobody else has the file", || Arc::strong_count(&minter) == 1).await;
    drop(minter);

    // A restart goes on with the session and without the leases.
    let asked = ours.with(|records| records.requests.len());
    let opened = kit.open();
    assert!(opened.holdings.leases.is_empty() && opened.holdings.cluster == Some(ClusterId(1)));
    drop(opened);
    let minter = kit.start_bare();
    assert_eq!(minter.session().start().to_string(), "resumed");
    let agent = start(Arc::clone(&minter), masters, &[]);
    until("it is stopped again", || minter.grants().wrong_cluster().is_some()).await;
    assert_eq!(minted(&minter).await, Err(MintCode::WrongCluster));
    assert_eq!(
        ours.with(|records| records.requests.len()),
        asked,
        "no token is asked for while a master is a stranger"
    );

    // The list leads to one cluster again: the session gets its lease again.
    other.with(|records| records.cluster = ClusterId(1));
    until("ready again", || minter.ready().is_ok()).await;
    ids.push(minted(&minter).await.unwrap());
    assert!(ids[1] > ids[0] && minter.alarm().is_none());
    drop(agent);
}
