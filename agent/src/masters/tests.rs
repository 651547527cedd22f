//! Against masters that say what a test tells them to, over connections that are counted, and cut.

use super::*;
use crate::heartbeat::tests::master::Master as Mock;
use crate::holder::Renewal;
use crate::minter::kit::Kit;
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::ClusterId;
use common::segment::Shown;
use common::sequence::ServedAt;
use common::time::SpanMs;
use common::token::{TokenKey, TokenType, TokenValue};
use futures::future::join_all;
use net::rpc::ranges::KeepRequest;
use net::tls::Tls;
use std::sync::atomic::AtomicUsize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Masters at these addresses, as an agent reaches them.
pub(crate) fn masters_at(addresses: &[String], minter: &Arc<Minter>) -> Arc<Masters> {
    Masters::new(addresses.to_vec(), "test-1".parse().unwrap(), Tls::PLAIN, Arc::clone(minter))
}

const SOON: Duration = Duration::from_millis(200);

async fn line(masters: &Arc<Masters>, at: usize, lane: Lane) -> Result<Line, CallError> {
    masters.reach(at, lane, OPEN_LIMIT, CALL_LIMIT).await
}

fn orders() -> GeneratorName {
    "orders".parse().unwrap()
}

async fn segment(line: &Line) -> Result<(), CallError> {
    line.request_segment(orders(), 1, Shown { to: 1, proof: None }).await.map(drop)
}

fn lease() -> (TokenKey, Generation) {
    (TokenType::Uint2.key(TokenValue(7)), Generation(1))
}

#[tokio::test]
async fn all_that_an_agent_asks_at_once_goes_by_one_connection_of_each_lane() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let masters = masters_at(&[master.listen().await], &kit.start());
    let calls = (0..100).map(async |nth| match nth % 5 {
        0 => line(&masters, 0, Lane::Calls).await?.introduction().await.map(drop),
        1 => line(&masters, 0, Lane::Lists).await?.namespaces_after(None).await.map(drop),
        2 => line(&masters, 0, Lane::Lists).await?.find_namespaces(vec![orders()]).await.map(drop),
        3 => segment(&line(&masters, 0, Lane::Calls).await?).await,
        _ => {
            line(&masters, 0, Lane::Calls).await?.renew(lease(), Renewal { rseq: 1, attempt: 1 }, None).await.map(drop)
        }
    });
    assert!(join_all(calls).await.into_iter().all(|done| done.is_ok()));
    assert_eq!(master.with(|records| (records.connections, records.rents.len())), (2, 20));
}

#[tokio::test]
async fn a_call_that_gets_no_answer_ends_the_connection_only_if_no_later_one_does() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let masters = masters_at(&[master.listen().await], &kit.start());
    master.with(|records| records.holds_segments = true);
    let late = masters.reach(0, Lane::Calls, OPEN_LIMIT, SOON).await.unwrap();
    let (held, answered) = tokio::join!(segment(&late), async {
        tokio::time::sleep(SOON / 4).await;
        late.heartbeat().await
    });
    assert!(held.unwrap_err().to_string() == "no answer in time" && answered.is_ok());
    let same = line(&masters, 0, Lane::Calls).await.unwrap();
    assert!(same.is_same(&late) && !masters.all[0].is_silent());

    // Nothing is answered: the next one gets another connection, and what is under way keeps its time.
    let patient = tokio::spawn(async move { same.heartbeat().await.map(drop).or(segment(&same).await) });
    master.with(|records| records.holds_heartbeats = true);
    assert!(segment(&late).await.is_err() && masters.all[0].is_silent());
    master.with(|records| (records.holds_segments, records.holds_heartbeats) = (false, false));
    let other = line(&masters, 0, Lane::Calls).await.unwrap();
    assert!(!other.is_same(&late) && !masters.all[0].is_silent(), "it has answered");
    assert!(patient.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_master_that_does_not_introduce_itself_is_connected_to_once_however_many_wait() {
    let kit = Kit::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let masters = masters_at(&[listener.local_addr().unwrap().to_string()], &kit.start());
    masters.open_within(4 * SOON);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        let mut all = Vec::new();
        loop {
            all.push(listener.accept().await);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let began = Instant::now();
    let waiting = (0..100).map(async |_| masters.reach(0, Lane::Calls, SOON, SOON).await.map(drop).unwrap_err());
    for error in join_all(waiting).await {
        assert_eq!(error.to_string(), "no connection in time");
    }
    assert!(began.elapsed() < 3 * SOON, "each waits its own time");
    // Whoever has more of it waits for the same attempt, and who comes when it has failed is told why at once.
    for _ in 0..2 {
        let error = line(&masters, 0, Lane::Calls).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("no answer in time"), "{error}");
    }
    assert!(began.elapsed() < 4 * SOON + AGAIN, "{:?}", began.elapsed());
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    tokio::time::sleep(AGAIN).await;
    assert!(masters.reach(0, Lane::Calls, SOON, SOON).await.is_err());
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_master_that_is_reached_by_one_connection_is_tried_by_the_other_at_once() {
    let (kit, mock) = (Kit::new(), Mock::new(Ok(1)));
    let masters = masters_at(&[mock.listen().await], &kit.start());
    let master = &masters.all[0];
    for [failed, other] in [[Lane::Lists, Lane::Calls], [Lane::Calls, Lane::Lists]] {
        // As of an attempt while the master was starting.
        *master.slot(other) = Slot::Closed(None);
        *master.slot(failed) = Slot::Closed(Some((Instant::now(), master.failed("cannot connect"))));
        assert!(line(&masters, 0, failed).await.is_err());
        assert!(line(&masters, 0, other).await.is_ok() && line(&masters, 0, failed).await.is_ok());
    }
}

/// A way to a master that can be cut: then what comes from the agent waits, as in the memory of its machine, and goes on when the way is there
/// again, unless the agent has given the connection up.
async fn relay(to: String, is_cut: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (agent, _) = listener.accept().await.unwrap();
            let (master, mut is_cut) = (TcpStream::connect(&to).await.unwrap(), is_cut.clone());
            let ((mut from_agent, mut to_agent), (mut from_master, mut to_master)) =
                (agent.into_split(), master.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_master, &mut to_agent).await });
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(n @ 1..) = from_agent.read(&mut bytes).await {
                    is_cut.wait_for(|is_cut| !is_cut).await.unwrap();
                    if from_agent.as_ref().take_error().unwrap().is_some() {
                        return;
                    }
                    to_master.write_all(&bytes[..n]).await.unwrap();
                    // What follows, be it that nobody waits for an answer any more, comes a little later.
                    tokio::time::sleep(SOON / 10).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_renewal_that_was_given_up_does_not_arrive_later_whoever_else_uses_the_connection() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let (cut, is_cut) = watch::channel(false);
    let masters = masters_at(&[relay(master.listen().await, is_cut).await], &kit.start());
    let renewed = masters.reach(0, Lane::Calls, OPEN_LIMIT, SOON).await.unwrap();
    // Somebody else's, for whom the connection is to stay.
    master.with(|records| records.holds_segments = true);
    let other = line(&masters, 0, Lane::Calls).await.unwrap();
    let others = tokio::spawn(async move { segment(&other).await });
    tokio::time::sleep(SOON).await;
    cut.send(true).unwrap();
    let renewal = renewed.renew(lease(), Renewal { rseq: 1, attempt: 1 }, None).await;
    assert_eq!(renewal.unwrap_err().to_string(), "no answer in time");
    tokio::time::sleep(SOON).await;
    cut.send(false).unwrap();
    tokio::time::sleep(SOON).await;
    assert!(master.with(|records| records.rents.is_empty()), "it came after its time");
    assert!(others.await.unwrap().is_err(), "who asked for something else goes on elsewhere");
}

#[tokio::test]
async fn who_leaves_sections_and_hears_nothing_cuts_the_connection_and_who_keeps_them_does_not() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let (cut, is_cut) = watch::channel(false);
    let masters = masters_at(&[relay(master.listen().await, is_cut).await], &kit.start());
    let line = masters.reach(0, Lane::Lists, OPEN_LIMIT, SOON).await.unwrap();
    let keep = |leaves| KeepRequest {
        agent_id: masters.agent_id.clone(),
        session: masters.minter.session().id(),
        holder: masters.minter.session().id(),
        cluster: None,
        address: ServedAt { http: String::new(), rpc: String::new() },
        sets: Vec::new(),
        memory: 0,
        used: 0,
        per_second: 0,
        leaves,
        after: None,
        only: Vec::new(),
        receipts: Vec::new(),
    };
    assert!(matches!(line.keep_sections(keep(true)).await, Err(CallError::Refused { .. })), "this is an answer");
    cut.send(true).unwrap();
    for leaves in [false, true] {
        assert_eq!(line.keep_sections(keep(leaves)).await.map(drop).unwrap_err().to_string(), "no answer in time");
        tokio::time::sleep(SOON).await;
        assert_eq!(line.is_open(), !leaves);
    }
}

#[tokio::test]
async fn an_attempt_that_ended_by_a_fault_is_followed_by_another_one() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let masters = masters_at(&[master.listen().await], &kit.start());
    let fault = masters.all[0].failed("a fault");
    let ended = async move { Err(fault) }.boxed().shared();
    *masters.all[0].slot(Lane::Calls) = Slot::Opening(ended);
    assert!(line(&masters, 0, Lane::Calls).await.is_err());
    assert!(line(&masters, 0, Lane::Calls).await.is_ok());
}

#[tokio::test]
async fn segments_that_do_not_come_keep_no_renewal_waiting() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let masters = masters_at(&[master.listen().await], &kit.start());
    master.with(|records| records.holds_segments = true);
    let line = line(&masters, 0, Lane::Calls).await.unwrap();
    let held = (0..crate::heartbeat::SEGMENT_CALLS_MAX).map(|_| segment(&line));
    let renewal = async {
        tokio::time::sleep(SOON).await;
        tokio::time::timeout(SOON, line.renew(lease(), Renewal { rseq: 1, attempt: 1 }, None)).await
    };
    tokio::select! {
        _ = join_all(held) => panic!("they are held"),
        renewed = renewal => assert!(renewed.unwrap().is_ok()),
    }
}

/// As if so much time had passed, in which everything had its turn.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test]
async fn what_nobody_uses_is_closed_what_is_held_stays_and_that_for_lists_is_made_anew() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let masters = masters_at(&[master.listen().await], &kit.start());
    let connections = || master.with(|records| records.connections);
    let held = line(&masters, 0, Lane::Calls).await.unwrap();
    line(&masters, 0, Lane::Lists).await.unwrap();
    assert_eq!(connections(), 2);
    pass(IDLE).await;
    pass(LOOK).await;
    assert!(line(&masters, 0, Lane::Calls).await.unwrap().is_same(&held));
    let list = line(&masters, 0, Lane::Lists).await.unwrap();
    assert_eq!(connections(), 3, "the other one was closed");
    for _ in 0..3 {
        pass(IDLE).await;
        list.namespaces_after(None).await.unwrap();
    }
    assert!(!line(&masters, 0, Lane::Lists).await.unwrap().is_same(&list), "its address may lead elsewhere by now");
    assert!(line(&masters, 0, Lane::Calls).await.unwrap().is_same(&held));
    assert_eq!(connections(), 4);
}

#[tokio::test]
async fn a_master_of_another_cluster_is_noticed_by_whatever_it_says_next() {
    let (kit, master) = (Kit::new(), Mock::new(Ok(1)));
    let minter = kit.start();
    let masters = masters_at(&[master.listen().await], &minter);
    for lane in [Lane::Calls, Lane::Lists] {
        let line = line(&masters, 0, lane).await.unwrap();
        assert!(minter.grants().wrong_cluster().is_none());
        master.with(|records| records.cluster = ClusterId(2));
        assert!(line.heartbeat().await.is_err());
        assert!(minter.grants().wrong_cluster().is_some());
        master.with(|records| records.cluster = ClusterId(1));
    }
    // By a refusal, too, and by the next greeting that it is ours again.
    let foreign = net::rpc::lease::Refusal::ForeignCluster { here: ClusterId(2) };
    let line_to_it = line(&masters, 0, Lane::Calls).await.unwrap();
    assert!(minter.grants().wrong_cluster().is_none());
    master.with(|records| records.no_segment = Some(foreign));
    assert!(segment(&line_to_it).await.is_err() && minter.grants().wrong_cluster().is_some());
    assert!(!line(&masters, 0, Lane::Calls).await.unwrap().is_same(&line_to_it));
    assert!(minter.grants().wrong_cluster().is_none());
}

/// An address whose new connections lead to where it is told; those that are there stay.
pub(crate) async fn moving(to: watch::Receiver<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut agent, _) = listener.accept().await.unwrap();
            let now = to.borrow().clone();
            let Ok(mut master) = TcpStream::connect(now).await else { continue };
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut agent, &mut master).await });
        }
    });
    address
}

#[tokio::test]
async fn an_address_that_leads_to_another_cluster_by_now_is_not_taken_for_ours_by_an_older_connection() {
    let (kit, own, foreign) = (Kit::new(), Mock::new(Ok(1)), Mock::new(Ok(1)));
    foreign.with(|records| records.cluster = ClusterId(2));
    let (own, foreign) = (own.listen().await, foreign.listen().await);
    let (lead, to) = watch::channel(own.clone());
    let (address, minter) = (moving(to).await, kit.start());
    let masters = masters_at(&[address], &minter);
    for (older, newer) in [(Lane::Calls, Lane::Lists), (Lane::Lists, Lane::Calls)] {
        lead.send_replace(own.clone());
        let old = line(&masters, 0, older).await.unwrap();
        assert!(minter.grants().wrong_cluster().is_none());
        lead.send_replace(foreign.clone());
        assert!(line(&masters, 0, newer).await.is_err() && minter.grants().wrong_cluster().is_some());
        old.heartbeat().await.unwrap();
        assert!(minter.grants().wrong_cluster().is_some(), "it says nothing of where the address leads by now");
        assert!(line(&masters, 0, older).await.is_err(), "the older one is given to nobody");
        assert!(minter.grants().wrong_cluster().is_some());
        tokio::time::sleep(AGAIN).await;
    }
    lead.send_replace(own);
    line(&masters, 0, Lane::Calls).await.unwrap();
    assert!(minter.grants().wrong_cluster().is_none());
}

#[tokio::test]
async fn an_attempt_that_began_before_its_address_led_elsewhere_forgives_nothing() {
    let (kit, own, foreign) = (Kit::new(), Mock::new(Ok(1)), Mock::new(Ok(1)));
    foreign.with(|records| records.cluster = ClusterId(2));
    let (own, foreign) = (own.listen().await, foreign.listen().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (accepted, is_accepted) = tokio::sync::oneshot::channel();
    let (go, goes) = tokio::sync::oneshot::channel::<()>();
    let lead = async |mut agent: TcpStream, to: String| {
        let mut master = TcpStream::connect(to).await.unwrap();
        tokio::io::copy_bidirectional(&mut agent, &mut master).await
    };
    tokio::spawn(async move {
        // The first one is slow, and to ours; the next one is not.
        let (first, _) = listener.accept().await.unwrap();
        accepted.send(()).unwrap();
        let (next, _) = listener.accept().await.unwrap();
        let slow = async {
            goes.await.unwrap();
            lead(first, own).await
        };
        tokio::join!(slow, lead(next, foreign))
    });
    let minter = kit.start();
    let masters = masters_at(&[address], &minter);
    let slow = async {
        let opened = line(&masters, 0, Lane::Calls).await;
        assert!(opened.is_err() && minter.grants().wrong_cluster().is_some());
    };
    let moved = async {
        is_accepted.await.unwrap();
        assert!(line(&masters, 0, Lane::Lists).await.is_err() && minter.grants().wrong_cluster().is_some());
        go.send(()).unwrap();
    };
    tokio::join!(slow, moved);
    assert!(minter.grants().wrong_cluster().is_some());
}

#[tokio::test]
async fn who_does_not_answer_is_asked_last_until_it_does() {
    let (kit, one, two) = (Kit::new(), Mock::new(Ok(1)), Mock::other(SpanMs(0)));
    let masters = masters_at(&[one.listen().await, two.listen().await], &kit.start());
    let (turn, last) = (AtomicUsize::new(0), Preferred::default());
    let first = line(&masters, 0, Lane::Calls).await.unwrap();
    one.with(|records| (records.holds_segments, records.holds_heartbeats) = (true, true));
    let ask = || Ask { reach: SOON, limit: SOON, ..Ask::new(Lane::Calls, First::Last(&last)) };
    let asked = masters.ask(ask(), async |line| segment(&line).await.map(|()| Some(line.at))).await;
    assert_eq!(asked.unwrap(), 1);
    for asked_first in [First::Master(0), First::Master(1), First::Turn(&turn), First::Last(&last)] {
        assert_eq!(masters.order(&asked_first), [1, 0]);
    }
    assert_eq!((masters.order(&First::Others(0)), masters.order(&First::Others(1))), (vec![1], vec![0]));
    // What the other one says suffices: this one gets little time.
    let began = Instant::now();
    let ask = Ask { reach: CALL_LIMIT, ..ask() };
    let asked = masters.ask(ask, async |line| line.heartbeat().await.map(|_| None::<()>)).await.unwrap_err();
    assert!(asked.answered && asked.errors.len() == 1 && began.elapsed() < RESTED_LIMIT + SOON);

    one.with(|records| (records.holds_segments, records.holds_heartbeats) = (false, false));
    first.heartbeat().await.unwrap();
    assert_eq!((masters.order(&First::Master(0)), masters.order(&First::Last(&last))), (vec![0, 1], vec![1, 0]));
}

#[tokio::test]
async fn who_keeps_a_question_waiting_is_not_waited_for_if_another_one_answers() {
    let (kit, one, two) = (Kit::new(), Mock::new(Ok(1)), Mock::other(SpanMs(0)));
    let masters = masters_at(&[one.listen().await, two.listen().await], &kit.start());
    let last = Preferred::default();
    let ask = || Ask { patience: SOON, ..Ask::new(Lane::Calls, First::Last(&last)) };
    let only_the_second = async |line: Line| match line.at {
        0 => std::future::pending().await,
        at => Ok(Some(at)),
    };
    assert_eq!(masters.ask(ask(), only_the_second).await.unwrap(), 1);
    assert_eq!(masters.order(&First::Last(&last)), [1, 0], "the one that answered is asked first from now on");

    // Who is asked as well does not know, or fails: the one that was asked first still has its time.
    let late = async |line: Line| match line.at {
        1 => {
            tokio::time::sleep(2 * SOON).await;
            Ok(Some(1))
        }
        _ => Ok(None),
    };
    assert_eq!(masters.ask(ask(), late).await.unwrap(), 1);
    let failing = async |line: Line| match line.at {
        1 => Ok::<_, CallError>(None::<usize>),
        _ => Err(line.failed("not now")),
    };
    let unanswered = masters.ask(ask(), failing).await.unwrap_err();
    assert!(unanswered.answered && unanswered.errors.len() == 1);
}

#[tokio::test]
async fn ends_of_pairings_are_kept_once_and_the_newest_ones() {
    let kit = Kit::new();
    let masters = masters_at(&[], &kit.start());
    let proof = |n| RetiredProof([n; 32]);
    // A master names the last one first.
    masters.hear_of_ends(&[proof(2), proof(1)]);
    masters.hear_of_ends(&[proof(2), proof(1)]);
    assert_eq!(masters.retired(), [proof(1), proof(2)]);
    masters.hear_of_ends(&[proof(6), proof(5), proof(4), proof(3), proof(9)]);
    assert_eq!(masters.retired(), [proof(3), proof(4), proof(5), proof(6)]);
}
