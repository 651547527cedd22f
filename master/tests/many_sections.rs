//! As many sections as a large cluster has: they are exchanged in pages, commits stay small, and what an allocator is told every other
//! second is compact.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use common::audit::Actor;
use common::calendar::UtcOffset;
use common::lease::{Generation, Lease, LeaseState};
use common::namespace::{Definition, GeneratorName, Namespace, SequenceSpec};
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::sequence::{Section, SectionKey, SectionOwner, SectionRange, SectionRecord, ServedAt};
use common::setting::{Change, Setting, SettingKey, SettingValue};
use common::time::{BootMs, Now, SECOND_MS, WallMs};
use common::token::{TokenFamily, TokenKey, TokenType, TokenValue};
use master::lease::{Effects, Event, Identity, Reply, RequestId, Unproven, Write};
use master::ledger::Ledger;
use master::section::{SECTIONS_OF_NAME_MAX, SectionTable};
use master::store::Store as _;
use master::store::memory::MemoryStore;
use net::rpc::lease::Mode;
use net::rpc::peer::{PAGE_MAX, PeerMessage};
use net::rpc::ranges::{
    KEEP_RANGES_MAX, KeepRequest, NotRaised, Raise, RaiseRequest, RaiseTo, RaisedSections, RoutesRequest, Unserved,
};

const MANY: u32 = 20_000;
const ALLOWANCE: u64 = 1_000_000;

fn name() -> GeneratorName {
    "seq".parse().unwrap()
}

fn sequence(name: GeneratorName, keys_per_section: Option<u32>) -> Setting {
    sequence_of_width(name, keys_per_section, None)
}

fn sequence_of_width(name: GeneratorName, keys_per_section: Option<u32>, width: Option<u8>) -> Setting {
    let definition = Definition::Sequence(SequenceSpec {
        width,
        solo_allowance: Some(ALLOWANCE),
        keys_per_section,
        ..SequenceSpec::default()
    });
    let namespace = Namespace::define(name.clone(), &definition).unwrap();
    let (key, value) = (SettingKey::Namespace(name), SettingValue::Namespace(Box::new(namespace)));
    Setting { key, version: 1, value, actor: Actor::new("olga", ""), at: WallMs(0) }
}

fn section(at: u32, session: u128, max_seq: u64) -> SectionRecord {
    sections(at, at + 1, session, max_seq)
}

fn sections(from: u32, to: u32, session: u128, max_seq: u64) -> SectionRecord {
    let address = ServedAt { http: format!("10.0.0.{session}:6200"), rpc: format!("10.0.0.{session}:6201") };
    let owner = SectionOwner { session: SessionId(session), agent_id: format!("a{session}").parse().unwrap(), address };
    let range = SectionRange { name: name(), from: Section(from), to: Section(to) };
    SectionRecord { range, g: Generation(1), owner, max_seq }
}

/// The lease that lets its agent serve sections.
fn lease(session: u128) -> Write {
    let agent_id = section(0, session, 0).owner.agent_id;
    let value = TokenValue(u32::try_from(session).unwrap());
    let lease = Lease {
        g: Generation(1),
        state: LeaseState::Held,
        token_type: TokenType::Uint2,
        agent_id,
        session: SessionId(session),
        address: "10.0.0.1:1".to_owned(),
        granted: WallMs(0),
        renewed: WallMs(0),
        from: WallMs(0),
        until: WallMs(30_000 * 86_400_000),
        deny: false,
        rseq: 1,
        attempt: 1,
    };
    Write::Lease(TokenKey { family: TokenFamily::Uint, value }, lease)
}

fn keep(session: u128) -> KeepRequest {
    let owner = section(0, session, 0).owner;
    let (agent_id, session, address) = (owner.agent_id, owner.session, owner.address);
    let sets = vec!["default".parse().unwrap()];
    KeepRequest {
        agent_id,
        session,
        holder: session,
        cluster: None,
        address,
        sets,
        memory: 1 << 40,
        used: 0,
        per_second: 0,
        leaves: false,
        after: None,
        only: Vec::new(),
        receipts: Vec::new(),
    }
}

struct Pair {
    ledgers: [Ledger; 2],
    now: Now,
    /// The most writes of one step.
    most: usize,
    replies: Vec<Reply>,
    /// No message arrives.
    cut: bool,
    /// The number of times that raised bounds were told.
    told: usize,
}

impl Pair {
    fn new(records: [Vec<SectionRecord>; 2], unproven: [bool; 2]) -> Self {
        Self::of(vec![sequence(name(), None)], records, unproven)
    }

    fn of(settings: Vec<Setting>, records: [Vec<SectionRecord>; 2], unproven: [bool; 2]) -> Self {
        let mut pair = Self::apart(settings, records, unproven);
        pair.connect();
        pair
    }

    fn connect(&mut self) {
        self.cut = false;
        (0..2).for_each(|at| self.event(at, Event::Connected));
    }

    /// Masters that are not connected.
    fn apart(settings: Vec<Setting>, records: [Vec<SectionRecord>; 2], unproven: [bool; 2]) -> Self {
        let now = Now { wall: WallMs(20_777 * 86_400_000), boot: BootMs(0) };
        let ids = [MasterId::One, MasterId::Two];
        let ledgers = [0, 1].map(|at| {
            let identity = Identity {
                master: ids[at],
                cluster: Some(ClusterId(7)),
                epoch: Some(EpochId(7)),
                pair_epoch: 1,
                former: Vec::new(),
                paired: true,
                parameters: ClusterParameters::new(7, UtcOffset::default(), 31).unwrap(),
                awaiting: None,
            };
            let mut store = MemoryStore::of(identity).unwrap();
            let table = SectionTable::new(records[at].iter().map(|it| (it.clone(), it.max_seq)), []);
            let sections = table.stored().map(|(record, held)| Write::sections(record, held));
            let writes: Vec<Write> =
                settings.iter().cloned().map(Write::Setting).chain(sections).chain((1..=9).map(lease)).collect();
            store.commit(&writes, 1).unwrap();
            let mut loaded = store.load().unwrap();
            if unproven[at] {
                loaded.proven = Err(Unproven::Rebooted);
            }
            Ledger::start(loaded, now, at as u64 + 1, None, "test".to_owned())
        });
        Self { ledgers, now, most: 0, replies: Vec::new(), cut: true, told: 0 }
    }

    /// An event, and whatever messages follow from it until there are none.
    fn event(&mut self, at: usize, event: Event) {
        let mut events = vec![(at, event)];
        while !events.is_empty() {
            let (at, event) = events.remove(0);
            let mut fx = Effects::default();
            self.ledgers[at].step(self.now, event, &mut fx);
            self.most = self.most.max(fx.writes.len());
            for message in fx.messages.into_iter().filter(|_| !self.cut) {
                if let PeerMessage::SectionPage { records, proposals, .. } = &message {
                    assert!(records.len() + proposals.len() <= PAGE_MAX);
                }
                self.told += usize::from(matches!(message, PeerMessage::RaisedSections { .. }));
                let frame = Box::new(self.ledgers[at].frame(message));
                events.push((1 - at, Event::Message(frame)));
            }
            self.replies.extend(fx.replies.into_iter().map(|(_, reply)| reply));
        }
    }

    fn pass(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now.wall.0 += SECOND_MS;
            self.now.boot.0 += SECOND_MS;
            (0..2).for_each(|at| self.event(at, Event::Tick));
        }
    }

    fn max_seq(&self, at: usize, section: u32) -> u64 {
        let key = SectionKey { name: name(), section: Section(section) };
        self.ledgers[at].sections().get(&key).unwrap().max_seq
    }

    fn kept(&mut self, at: usize, session: u128) -> usize {
        self.replies.clear();
        self.event(at, Event::Keep { id: RequestId(1), request: keep(session) });
        match self.replies.last() {
            Some(Reply::Keep(Ok(kept))) => kept.sections.len(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_start_that_is_not_proven_reads_all_pages_before_it_serves() {
    let known: Vec<_> = (0..MANY).map(|at| section(at, 1, 500)).collect();
    // Of some it knows less, of some nothing, and of some it alone knows.
    let older: Vec<_> = (MANY / 2..MANY + 1_000).map(|at| section(at, 1, 100)).collect();
    let mut pair = Pair::new([known, older], [false, true]);
    assert_eq!([0, 1].map(|at| pair.ledgers[at].mode()), [Mode::Ready; 2]);
    for at in [0, MANY / 2, MANY - 1] {
        assert_eq!(pair.max_seq(1, at), 500 + ALLOWANCE);
    }
    for at in [MANY, MANY + 999] {
        assert_eq!(pair.max_seq(1, at), 100 + ALLOWANCE);
    }
    assert!(pair.most <= PAGE_MAX + 10 + 1_000, "{} writes in one commit", pair.most);
    // What it holds now is told and answered within some beats.
    pair.pass(6);
    for at in [0, MANY - 1] {
        assert_eq!(pair.max_seq(0, at), 500 + ALLOWANCE);
    }
    assert!(
        pair.ledgers[1]
            .sections()
            .all()
            .filter(|(range, _)| range.to.0 <= MANY)
            .all(|(_, held)| held.peer_has == held.max_seq)
    );
    pair.told = 0;
    pair.pass(6);
    assert_eq!(pair.told, 0, "what is held by both is told no more");
}

/// As many sections as there can be are one row, which splits and joins: nothing takes longer because of them.
#[test]
fn all_sections_of_a_name_are_moved_as_a_few_ranges() {
    let all = 1_u32 << 31;
    let known = vec![sections(0, all, 1, 500)];
    let mut pair = Pair::of(vec![sequence(name(), Some(2))], [known.clone(), known], [false, false]);
    let count = |pair: &Pair, session| {
        pair.ledgers[1].sections().counts(SessionId(session)).map(|(_, count)| count).sum::<u32>()
    };
    pair.pass(1);
    assert_eq!((pair.kept(0, 1), count(&pair, 1)), (1, all));
    // One question for one of them, or two, is answered for all.
    let sections = vec![Section(7), Section(all - 1)];
    let request = RoutesRequest { cluster: None, name: name(), sections, all_from: None };
    pair.event(0, Event::Routes { id: RequestId(1), request, address: "10.0.0.1".to_owned() });
    let Some(Reply::Routes(Ok(reply))) = pair.replies.last() else { panic!("{:?}", pair.replies) };
    assert!(matches!(&*reply.routes, [route] if (route.from.0, route.to.0) == (0, all)));
    // Its owner dies, and the others get as much each.
    for _ in 0..10 {
        for (at, session) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            pair.kept(at, session);
        }
        pair.pass(1);
    }
    assert_eq!([1, 2, 3].map(|session| count(&pair, session)), [0, all / 2, all / 2]);
    assert!(pair.ledgers.iter().all(|ledger| ledger.sections().len() < 8));
    // One of them is drained, in a moment.
    let (id, agent_id, actor) = (RequestId(3), "a2".parse().unwrap(), Actor::new("olga", ""));
    pair.event(0, Event::Drain { id, agent_id, on: true, actor });
    for _ in 0..3 {
        for (at, session) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            pair.kept(at, session);
        }
        pair.pass(1);
    }
    assert_eq!([2, 3].map(|session| count(&pair, session)), [0, all]);
    // It comes back: a part of them at each beat, and then none any more.
    let (id, agent_id, actor) = (RequestId(3), "a2".parse().unwrap(), Actor::new("olga", ""));
    pair.event(0, Event::Drain { id, agent_id, on: false, actor });
    let (mut before, mut beats) = (0, 0);
    for beat in 1..60 {
        for (at, session) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            pair.kept(at, session);
        }
        pair.pass(1);
        let moved = count(&pair, 2) - before;
        assert!(moved <= all / 32, "{moved} at one beat");
        (before, beats) = (count(&pair, 2), if moved > 0 { beat } else { beats });
    }
    assert!(beats < 40 && before > all / 3 && before <= all / 2, "{before} after {beats} beats");
    assert!(pair.ledgers[0].sections().len() < 50 && pair.most < 200);
}

/// Sections that an owner leaves are shared as one lot, and rows that are beside each other then are joined: else each change of owners would
/// make as many of each row as there are agents.
#[test]
fn owners_that_come_and_go_leave_no_more_rows_than_a_few() {
    let all = 1_u32 << 31;
    let known = vec![sections(0, all, 1, 500)];
    let mut pair = Pair::of(vec![sequence(name(), Some(2))], [known.clone(), known], [false, false]);
    let mut most = 0;
    for round in 0..40 {
        // Three at a time, of which one is gone in the next round.
        let living: Vec<u128> = (0..3).map(|nth| (round + nth) % 9 + 1).collect();
        for _ in 0..8 {
            for session in &living {
                pair.kept(0, *session);
                pair.kept(1, *session);
            }
            pair.pass(1);
        }
        most = most.max(pair.ledgers.iter().map(|ledger| ledger.sections().len()).max().unwrap());
    }
    assert!(most < 60, "{most} rows");
    let owned = pair.ledgers[0].sections().all().map(|(range, _)| range.len()).sum::<u32>();
    assert_eq!(owned, all, "none is lost");
}

/// A section in use is a step ahead of those beside it after each change of owners. Where a step is a part of all numbers that counts, they would
/// be at the end of theirs before one of them was given.
#[test]
fn sections_of_which_a_step_is_dear_are_moved_without_a_gap() {
    let step = 134_000_000;
    let definition = Definition::Sequence(SequenceSpec {
        width: Some(32),
        step: Some(step),
        solo_allowance: Some(2 * u64::from(step)),
        ..SequenceSpec::default()
    });
    let namespace = Namespace::define(name(), &definition).unwrap();
    let (key, value) = (SettingKey::Namespace(name()), SettingValue::Namespace(Box::new(namespace)));
    let setting = Setting { key, version: 1, value, actor: Actor::new("olga", ""), at: WallMs(0) };
    let known = vec![sections(0, 1, 1, step.into()), sections(1, 100, 1, 0)];
    let mut pair = Pair::of(vec![setting], [known.clone(), known], [false, false]);
    for _ in 0..10 {
        pair.kept(0, 2);
        pair.kept(1, 2);
        pair.pass(1);
    }
    assert_eq!(pair.ledgers[0].sections().count_of(SessionId(2), &name()), 100);
    assert_eq!([0, 1, 99].map(|at| pair.max_seq(0, at)), [step.into(), 0, 0]);
}

/// Sections that are proposed are served by nobody before that is confirmed: with the other master gone that could take hours.
#[test]
fn nothing_is_moved_for_the_load_while_the_other_master_says_nothing() {
    let known = vec![sections(0, 2_000, 1, 500)];
    let mut pair = Pair::new([known.clone(), known], [false, false]);
    pair.pass(1);
    for (at, session) in [(0, 1), (1, 1), (0, 2), (1, 2)] {
        pair.kept(at, session);
    }
    // Just heard, and dead.
    pair.cut = true;
    for _ in 0..4 {
        pair.pass(1);
        pair.kept(1, 1);
        pair.kept(1, 2);
        assert_eq!(pair.ledgers.each_ref().map(|ledger| ledger.sections().preps_len()), [0, 0]);
    }
    pair.connect();
    pair.pass(2);
    assert!(pair.ledgers[1].sections().count_of(SessionId(2), &name()) > 0, "they are moved when it is back");
}

/// A name that is used much is shared as others are, not moved as a whole, and many names take no longer than one.
#[test]
fn who_comes_later_gets_its_part_of_every_name() {
    let all = 100_000;
    let names: Vec<GeneratorName> = (0..40).map(|nth| format!("seq-{nth}").parse().unwrap()).collect();
    let of = |name: &GeneratorName| {
        let mut record = sections(0, all, 1, 500);
        record.range.name = name.clone();
        record
    };
    let known: Vec<_> = names.iter().map(of).collect();
    let settings = names.iter().map(|name| sequence(name.clone(), Some(u32::MAX / all))).collect();
    let mut pair = Pair::of(settings, [known.clone(), known], [false, false]);
    for _ in 0..90 {
        for (at, session) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            pair.kept(at, session);
        }
        pair.pass(1);
    }
    for name in &names {
        let its = pair.ledgers[0].sections().count_of(SessionId(2), name);
        assert!(its >= all / 3 && its <= all / 2, "{its} of {name}");
    }
    assert!(pair.ledgers[0].sections().len() < 200, "{} rows", pair.ledgers[0].sections().len());
}

/// The other master confirms by its own pieces, which may come one without the other.
#[test]
fn a_confirmation_drops_the_proposal_of_its_sections_alone() {
    let known = vec![sections(0, 10, 1, 500)];
    let mut pair = Pair::new([known.clone(), known], [false, false]);
    pair.pass(5);
    for at in 0..2 {
        pair.kept(at, 2);
    }
    // Its owner counts as silent from now on.
    pair.cut = true;
    pair.now.boot.0 += SECOND_MS;
    pair.event(1, Event::Tick);
    let preps = |pair: &Pair| {
        let preps = pair.ledgers[1].sections().preps();
        preps.map(|prep| (prep.range.from.0, prep.range.to.0, prep.owner.session.0)).collect::<Vec<_>>()
    };
    assert_eq!(preps(&pair), [(0, 10, 2)]);
    let confirmed = SectionRecord { g: Generation(2), ..sections(3, 5, 2, 700) };
    let confirm = |pair: &mut Pair, records| {
        let frame = Box::new(pair.ledgers[0].frame(PeerMessage::ConfirmSections { records }));
        pair.event(1, Event::Message(frame));
    };
    confirm(&mut pair, vec![confirmed]);
    assert_eq!(preps(&pair), [(0, 3, 2), (5, 10, 2)]);
    assert_eq!([2, 3, 4, 5].map(|at| pair.max_seq(1, at)), [500, 700, 700, 500]);
    // Of another owner it drops nothing.
    confirm(&mut pair, vec![SectionRecord { g: Generation(2), ..sections(0, 10, 3, 700) }]);
    assert_eq!(preps(&pair).len(), 2);
    // What was not confirmed is proposed again.
    pair.cut = false;
    pair.pass(3);
    assert!(preps(&pair).is_empty());
    let owners: Vec<_> = pair.ledgers[1].sections().all().map(|(_, held)| (held.g.0, held.owner.session.0)).collect();
    assert!(owners.iter().all(|owner| *owner == (2, 2)), "{owners:?}");
}

/// A raise makes a row more or two. Where there are as many as may be, a section's neighbours of the same row are raised with it if numbers
/// are wide, and the raise is refused otherwise.
#[test]
fn a_raise_makes_no_row_more_than_there_may_be() {
    let most = u32::try_from(SECTIONS_OF_NAME_MAX).unwrap();
    for (width, expected) in [(32, Err(NotRaised::TooMany { max: most })), (63, Ok(10_900))] {
        a_raise_of_a_row_is(width, expected);
    }
}

/// An answer is kept: a row that is raised whole can become one with the next, of which the same question wants a step, too.
#[test]
fn no_raise_of_a_question_takes_back_what_another_one_was_answered() {
    let most = u32::try_from(SECTIONS_OF_NAME_MAX).unwrap();
    let mut known = vec![sections(0, 100, 1, 500), sections(100, 200, 1, 20_500), sections(300, 400, 1, 500)];
    known.extend((0..most - 4).map(|at| section(1_000 + at, 1, 500 + u64::from(at % 2))));
    let mut pair = Pair::of(vec![sequence(name(), Some(1_000))], [known.clone(), known], [false, false]);
    let len = |pair: &Pair| pair.ledgers[0].sections().len();
    // One row, of which the other master holds less in its second half, and as many rows as there may be.
    raised_together(&mut pair, 0, 0..50);
    pair.pass(6);
    raised_together(&mut pair, 50, 50..100);
    raised_together(&mut pair, 350, 350..351);
    assert!(len(&pair) >= SECTIONS_OF_NAME_MAX);
    assert_eq!([0, 99, 100].map(|at| pair.max_seq(0, at)), [10_500, 10_500, 20_500]);
    let said = raised_together(&mut pair, 60, 0..200);
    assert!(said.iter().any(|said| said.has(Section(60)) && said.outcome.is_ok()));
    for RaisedSections { from, to, outcome } in said {
        for at in from.0..to.0 {
            let held = pair.max_seq(0, at);
            assert!(outcome.is_err() || outcome.is_ok_and(|raised| raised.max_seq <= held), "{at}: {outcome:?} {held}");
        }
    }
}

/// Raises sections by a step for the owner of all, the one that calls wait for first.
fn raised_together(pair: &mut Pair, at: u32, sections: std::ops::Range<u32>) -> Vec<RaisedSections> {
    pair.replies.clear();
    let sections = SectionRange { name: name(), from: Section(sections.start), to: Section(sections.end) };
    let raise = Raise { section: Section(at), sections, g: Generation(1), to: RaiseTo::ByAStep, receipt: None };
    let (agent_id, session) = (section(0, 1, 0).owner.agent_id, SessionId(1));
    let request = RaiseRequest { agent_id, session, cluster: None, raises: vec![raise] };
    pair.event(0, Event::Raise { id: RequestId(1), request });
    let Some(Reply::Raise(Ok(raised))) = pair.replies.last() else { panic!("{:?}", pair.replies) };
    raised[0].clone()
}

fn a_raise_of_a_row_is(width: u8, expected: Result<u64, NotRaised>) {
    let most = u32::try_from(SECTIONS_OF_NAME_MAX).unwrap();
    let mut known: Vec<_> = (0..most - 1).map(|at| section(at, 1, 500 + u64::from(at % 2))).collect();
    known.push(sections(most - 1, most + 99, 1, 900));
    let mut pair =
        Pair::of(vec![sequence_of_width(name(), Some(1_000), Some(width))], [known.clone(), known], [false, false]);
    let raised = |pair: &mut Pair, at| raised_together(pair, at, at..at + 1)[0].outcome.map(|raised| raised.max_seq);
    assert_eq!(raised(&mut pair, most + 7), expected);
    assert_eq!(raised(&mut pair, 7), Ok(10_501));
    let row = expected.unwrap_or(900);
    assert_eq!([6, 7, most - 1, most + 98].map(|at| pair.max_seq(0, at)), [500, 10_501, row, row]);
    assert_eq!(pair.ledgers[0].sections().len(), SECTIONS_OF_NAME_MAX);
}

/// Keys that are spread by their hash take sections here and there. Whoever was told of a part of its sections served no others.
#[test]
fn sections_here_and_there_are_listed_page_by_page() {
    let known: Vec<_> = (0..MANY).map(|at| section(at, 1 + u128::from(at % 2), 500)).collect();
    let mut pair = Pair::new([known.clone(), known], [false, false]);
    let (mut listed, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        pair.replies.clear();
        let request = KeepRequest { after: after.clone(), ..keep(2) };
        pair.event(0, Event::Keep { id: RequestId(1), request });
        let Some(Reply::Keep(Ok(kept))) = pair.replies.last() else { panic!("{:?}", pair.replies) };
        assert!(kept.sections.len() <= KEEP_RANGES_MAX);
        listed.extend(kept.sections.iter().flat_map(|range| range.from.0..range.to.0));
        pages += 1;
        if !kept.more {
            break;
        }
        let last = kept.sections.last().unwrap();
        after = Some(SectionKey { name: last.name.clone(), section: Section(last.to.0 - 1) });
    }
    assert_eq!(listed, (0..MANY).filter(|at| at % 2 == 1).collect::<Vec<_>>());
    assert_eq!(pages, (MANY as usize / 2).div_ceil(KEEP_RANGES_MAX));
    // What was asked for is no part of what is known of an allocator, and told to the other master.
    assert_eq!(pair.ledgers[0].allocators().get(SessionId(2)).unwrap().said, keep(2));
}

#[test]
fn many_sections_of_one_owner_are_one_range_and_go_on_when_it_dies() {
    let known: Vec<_> = (0..MANY).map(|at| section(at, 1, 500)).collect();
    let mut pair = Pair::new([known.clone(), known], [false, false]);
    pair.pass(1);
    assert_eq!((pair.kept(0, 1), pair.kept(1, 1)), (1, 1));
    let mut beats = 0;
    while pair.ledgers.iter().any(|ledger| ledger.sections().listed(SessionId(1)).is_some()) {
        pair.pass(1);
        for at in 0..2 {
            pair.kept(at, 2);
        }
        beats += 1;
        assert!(beats < 25, "sections of an owner that is gone are given away by thousands");
    }
    assert_eq!((pair.kept(0, 1), pair.kept(0, 2), pair.kept(1, 2)), (0, 1, 1));
    assert!(pair.most < 10_000, "{} writes in one commit", pair.most);
}

#[test]
fn who_comes_later_gets_its_part_some_at_a_time() {
    let known: Vec<_> = (0..2_000).map(|at| section(at, 1, 500)).collect();
    let mut pair = Pair::new([known.clone(), known], [false, false]);
    let mut most = 0;
    for _ in 0..60 {
        for (at, session) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            pair.kept(at, session);
        }
        let before = pair.ledgers[0].sections().counts(SessionId(2)).map(|(_, count)| count).sum::<u32>();
        pair.pass(1);
        let after = pair.ledgers[0].sections().counts(SessionId(2)).map(|(_, count)| count).sum::<u32>();
        most = most.max(after - before);
    }
    let counts = [1, 2]
        .map(|session| pair.ledgers[0].sections().counts(SessionId(session)).map(|(_, count)| count).sum::<u32>());
    assert!(counts[1] > 700 && counts[1] <= 1_100, "{counts:?}");
    assert!(most <= 64, "{most} at one beat");
    assert!(pair.kept(0, 1) <= 2 && pair.kept(0, 2) <= 2, "the ranges stay compact");
}

/// Of a set with names of very different sections: what would be too much where it goes to would come back at the next beat, for ever.
#[test]
fn heavy_sections_beside_light_ones_stay_where_they_are() {
    let (light, heavy) = (sequence(name(), Some(1_000)), sequence("heavy".parse().unwrap(), Some(1_000_000)));
    let mut known: Vec<_> = (0..10).map(|at| section(at, 1, 500)).collect();
    let mut one = section(0, 1, 500);
    one.range.name = "heavy".parse().unwrap();
    known.push(one.clone());
    let mut pair = Pair::of(vec![light, heavy], [known.clone(), known], [false, false]);
    for _ in 0..60 {
        for (at, session) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            pair.kept(at, session);
        }
        pair.pass(1);
    }
    let owners: Vec<_> = pair.ledgers[0].sections().all().map(|(_, held)| held.g).collect();
    assert!(owners.iter().all(|g| *g <= Generation(2)), "{owners:?}");
    assert_eq!(
        pair.ledgers[0].sections().get(&one.range.first()).unwrap().g,
        Generation(1),
        "nothing is more even with it elsewhere"
    );
}

/// Both masters were away, and come back one after the other: nobody was silent to masters that answered nobody.
#[test]
fn who_could_not_be_heard_loses_nothing() {
    let known: Vec<_> = (0..100).map(|at| section(at, 1, 500)).collect();
    let mut pair = Pair::apart(vec![sequence(name(), None)], [known.clone(), known], [true, true]);
    pair.pass(60);
    pair.connect();
    // The one agent is first, the other one, whose sections they are, asks a second later.
    for beat in 0..10 {
        for at in 0..2 {
            pair.kept(at, 2);
            if beat > 0 {
                pair.kept(at, 1);
            }
        }
        pair.pass(1);
    }
    let all = pair.ledgers[0].sections().all();
    assert!(all.map(|(_, held)| held.owner.session).all(|session| session == SessionId(1)));
}

/// Its session goes on, and so do its leases: nobody else would ever serve what it has been given.
#[test]
fn who_is_started_again_with_other_sets_gives_up_what_was_of_the_former_ones() {
    let known: Vec<_> = (0..100).map(|at| section(at, 1, 500)).collect();
    let mut pair = Pair::new([known.clone(), known], [false, false]);
    for _ in 0..20 {
        for at in 0..2 {
            let request = KeepRequest { sets: vec!["orders".parse().unwrap()], ..keep(1) };
            pair.event(at, Event::Keep { id: RequestId(1), request });
            pair.kept(at, 2);
        }
        pair.pass(1);
    }
    let counts = |session| pair.ledgers[0].sections().counts(SessionId(session)).map(|(_, count)| count).sum::<u32>();
    assert_eq!([1, 2].map(counts), [0, 100]);
}

/// Nobody keeps others from getting sections by using up one name; and retired, that name gives back what it took, for good.
#[test]
fn a_name_has_a_part_of_all_sections_and_gives_it_back_when_it_is_retired() {
    let most = u32::try_from(SECTIONS_OF_NAME_MAX).unwrap();
    // No two beside each other are alike.
    let known: Vec<_> = (0..most).map(|at| section(at, 1, 500 + u64::from(at % 2))).collect();
    let other: GeneratorName = "other".parse().unwrap();
    let settings = vec![sequence(name(), Some(1_000)), sequence(other.clone(), None)];
    let mut pair = Pair::of(settings, [known.clone(), known], [false, false]);
    for at in 0..2 {
        pair.kept(at, 1);
    }
    let asked = |pair: &mut Pair, name: &GeneratorName, section| {
        let request =
            RoutesRequest { cluster: None, name: name.clone(), sections: vec![Section(section)], all_from: None };
        for _ in 0..2 {
            pair.replies.clear();
            pair.event(0, Event::Routes { id: RequestId(1), request: request.clone(), address: "10.0.0.1".to_owned() });
            // It may wait for what the home of the name makes of it.
            pair.pass(1);
        }
        let Some(Reply::Routes(Ok(reply))) = pair.replies.last() else { panic!("{:?}", pair.replies) };
        (reply.routes.len(), reply.unserved.clone())
    };
    assert_eq!(asked(&mut pair, &name(), most + 1), (0, Some(Unserved::TooManyOfName { max: most })));
    assert_eq!(asked(&mut pair, &other, 1), (1, None));
    let (id, actor) = (RequestId(2), Actor::new("olga", ""));
    pair.event(0, Event::Change { id, change: Change::Retire(name()), actor });
    for _ in 0..20 {
        for at in 0..2 {
            pair.kept(at, 1);
        }
        pair.pass(1);
    }
    assert_eq!([0, 1].map(|at| pair.ledgers[at].sections().len()), [1, 1]);
    assert!(pair.most <= PAGE_MAX + 5_000, "{} writes in one commit", pair.most);
    assert_eq!(pair.kept(1, 1), 1, "whoever had them is told");
    assert_eq!(asked(&mut pair, &name(), 1), (0, None));
    assert_eq!(pair.ledgers[0].sections().len(), 1);
}
