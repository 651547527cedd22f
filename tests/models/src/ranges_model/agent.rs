//! An agent that serves the section: the product's two cores, [`Allocator`] and [`SectionState`], and what is under way to it.
//!
//! Time is what its own clock says since now. An [`Allocator`] is made anew at each step, from answers that lead it to where this one is.

use super::twins::Twin;
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::{AgentId, SessionId};
use common::segment::MasterRun;
use common::sequence::{Section, SectionRange, SequenceDefinition, ServedAt};
use common::time::BootMs;
use minting::sequence::{Allocator, Bound, Bounds, HeldRange, Kept, Ownership, SectionState, Taken, Tenure};
use std::sync::Arc;
use wire::lease::Refusal;
use wire::ranges::{
    HeldSections, KeepReply, KeepRequest, NotRaised, Raise, RaiseRequest, RaiseTo, Raised, RaisedAll, SectionReceipt,
};

/// `--sequence-lease`, in milliseconds.
pub(super) const LEASE: i64 = 200;
/// The time that the product's next owner waits, as [`Allocator`] says.
const WAIT: i64 = LEASE * 103 / 100 + 1;
const NOW: BootMs = BootMs(0);
/// After the pause that follows a raise that failed: when it is asked again matters to nobody.
const AFTER_PAUSE: BootMs = BootMs(1_000);
/// The key whose numbers are given.
const KEY: u32 = 7;

/// A span in which the section is served, on this agent's clock: now is 0, what is over is 0 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Served {
    g: u64,
    since: i64,
    until: i64,
    /// The number of times that a span of this owner began after another one had ended.
    again: u8,
}

/// An answer that lists the section, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Listed {
    g: u64,
    /// The time since its question was sent.
    age: i64,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Agent {
    pub(super) session: u8,
    /// The milliseconds that pass by its clock in a hundred.
    rate: i64,
    served: Option<Served>,
    pub(super) section: Option<SectionState>,
    listed: Option<Listed>,
    /// The raise that is wanted of a master, and in which tenure.
    pub(super) wants: Option<(Tenure, RaiseTo)>,
    /// A master's answer to that, on its way.
    raised: Option<(Tenure, Result<Raised, NotRaised>)>,
    /// The bound that is written down of the section, if it may start again.
    noted: Option<Bound>,
    /// The bound that was written down when it started.
    former: Option<Bound>,
}

/// The rules that an agent goes by.
pub(super) struct Rules<'a> {
    pub(super) name: &'a GeneratorName,
    pub(super) section: Section,
    pub(super) definition: &'a SequenceDefinition,
    /// True if it looks at no clock at all: that none is given twice must not need it.
    pub(super) any_clock: bool,
    /// True if it may start again, and so writes down how far it was raised.
    pub(super) notes: bool,
    /// Tells whether it shows what it was granted: that tells masters something only after both were put back.
    pub(super) shows: bool,
    pub(super) twins: &'a [Twin],
}

impl Rules<'_> {
    fn has(&self, twin: Twin) -> bool {
        self.twins.contains(&twin)
    }
}

impl Agent {
    pub(super) fn new(session: u8, rate: i64) -> Self {
        Self {
            session,
            rate,
            served: None,
            section: None,
            listed: None,
            wants: None,
            raised: None,
            noted: None,
            former: None,
        }
    }

    fn agent_id(&self) -> Option<AgentId> {
        format!("a{}", self.session).parse().ok()
    }

    /// Its question for its sections.
    pub(super) fn keep(&self) -> Option<KeepRequest> {
        let address = ServedAt { http: "a:1".to_owned(), rpc: "a:2".to_owned() };
        Some(KeepRequest {
            agent_id: self.agent_id()?,
            session: SessionId(self.session.into()),
            holder: SessionId(self.session.into()),
            cluster: None,
            address,
            sets: vec!["default".parse().ok()?],
            memory: 1 << 40,
            used: 0,
            per_second: 0,
            leaves: false,
            after: None,
            only: Vec::new(),
            receipts: Vec::new(),
        })
    }

    /// A master answers that. What was on its way before is lost.
    pub(super) fn kept(&mut self, rules: &Rules<'_>, reply: &Result<KeepReply, Refusal>) {
        let sections = reply.iter().flat_map(|reply| &reply.sections);
        let mut of_it =
            sections.filter(|held| held.name == *rules.name && held.from <= rules.section && rules.section < held.to);
        if let Some(held) = of_it.next() {
            self.listed = Some(Listed { g: held.g.0, age: 0 });
        }
        self.forget_old_answers(rules);
    }

    /// An answer that would change nothing will not later either: what it is compared with grows old as fast.
    fn forget_old_answers(&mut self, rules: &Rules<'_>) {
        let mut later = self.clone();
        if later.listed.is_some() && later.hear(rules).is_some() && later.served == self.served {
            self.listed = None;
        }
    }

    fn reply(&self, rules: &Rules<'_>, g: u64) -> KeepReply {
        let (from, to) = (rules.section, Section(rules.section.0 + 1));
        let sections = vec![HeldSections { name: rules.name.clone(), from, to, g: Generation(g) }];
        KeepReply { lease_ms: LEASE as u32, run: MasterRun(0), boot: NOW, sections, more: false }
    }

    fn allocator(&self, rules: &Rules<'_>) -> Option<Allocator> {
        let mut allocator = Allocator::new(1, NOW);
        let mut former = Bounds::default();
        self.former.into_iter().for_each(|bound| former.note(rules.name, rules.section, bound));
        former.note_run(MasterRun(0));
        allocator.resume(Arc::new(former));
        if let Some(served @ Served { g, until, .. }) = self.served {
            let resumed = self.former.is_some_and(|bound| bound.g == Some(Generation(g)));
            let since = served.began();
            let received = BootMs(if resumed || g == 1 { since } else { since - WAIT });
            if !resumed {
                // The master was heard before, for as long as makes no difference any more.
                let long_ago = BootMs(received.0 - 2 * WAIT);
                let reply = KeepReply { sections: Vec::new(), ..self.reply(rules, g) };
                allocator.handle(long_ago, 0, &Kept { sent: long_ago, received: long_ago, reply }).ok()?;
            }
            let kept = Kept { sent: BootMs(until - LEASE), received, reply: self.reply(rules, g) };
            allocator.handle(received, 0, &kept).ok()?;
        }
        Some(allocator)
    }

    /// The answer arrives.
    pub(super) fn hear(&mut self, rules: &Rules<'_>) -> Option<()> {
        let Listed { g, age } = self.listed.take()?;
        let mut allocator = self.allocator(rules)?;
        let before = self.served;
        let sent = BootMs(if rules.has(Twin::LeaseFromReceipt) { 0 } else { -age });
        allocator.handle(NOW, 0, &Kept { sent, received: NOW, reply: self.reply(rules, g) }).ok()?;
        let range = allocator.held(rules.name)?.ranges().next().copied()?;
        let HeldRange { g, since, until, .. } = range;
        let again = before.filter(|before| before.g == g.0).map_or(0, |it| it.again + u8::from(since.0 > it.began()));
        let again = if rules.any_clock { 0 } else { again };
        let mut since = since.0;
        if before.is_none_or(|before| before.g != g.0) {
            if rules.has(Twin::NoWait) {
                since = 0;
            }
            if rules.has(Twin::WaitOfALease) {
                since = since.min(LEASE + 1);
            }
        }
        self.served = Some(Served { g: g.0, since, until: until.0, again }.plain(rules));
        Some(())
    }

    /// A tick of true time passes: a hundred milliseconds.
    pub(super) fn pass(&mut self, rules: &Rules<'_>) {
        let rate = self.rate;
        self.served =
            self.served.map(|it| Served { since: it.since - rate, until: it.until - rate, ..it }.plain(rules));
        self.listed = self.listed.map(|it| Listed { age: (it.age + rate).min(LEASE), ..it });
        self.forget_old_answers(rules);
    }

    /// The tenure in which it serves the section now, by the product's own word.
    fn ownership(&self, rules: &Rules<'_>) -> Option<Tenure> {
        let Served { g, since, until, again } = self.served?;
        // Which of them it is, wherever now is.
        let tenure = Tenure { g: Generation(g), since: BootMs(again.into()) };
        if rules.any_clock {
            return Some(tenure);
        }
        let until = if rules.has(Twin::ServesPastItsLease) { i64::MAX } else { until };
        let (from, to) = (rules.section.0, rules.section.0 + 1);
        let range = HeldRange { from, to, g: Generation(g), since: BootMs(since), until: BootMs(until) };
        match range.ownership(NOW) {
            Ownership::Served(_) => Some(tenure),
            Ownership::NotOurs | Ownership::From(_) | Ownership::Over(_) => None,
        }
    }

    /// Somebody asks for the key's next number: the clock is read, and the number taken.
    pub(super) fn give(&mut self, rules: &Rules<'_>) -> Option<u64> {
        let tenure = self.ownership(rules)?;
        let begins = self.section.is_none();
        let former = self.former.map_or(0, |bound| bound.max_seq);
        let section = self.section.get_or_insert_with(|| SectionState::new(rules.definition, tenure, former));
        let changes = section.tenure() < tenure;
        if changes {
            section.own(tenure);
            self.wants = None;
        }
        if begins || changes {
            // As if it had paused just now: when it asks again matters to nobody, and all states are alike in it.
            section.failed(section.tenure(), NOW);
        }
        let taken = section.take(rules.definition, KEY, 1, true, NOW);
        if let Some(to) = section.want(AFTER_PAUSE) {
            self.wants = Some((section.tenure(), to));
        }
        match taken {
            Taken::From(number) => Some(number),
            Taken::Wait | Taken::Ended | Taken::TooMany | Taken::Full => None,
        }
    }

    /// The receipt that it shows in that question.
    pub(super) fn shown(&self, rules: &Rules<'_>) -> Option<SectionReceipt> {
        self.section.as_ref().filter(|_| rules.shows).and_then(SectionState::receipt)
    }

    /// Tells whether it holds the section as a later owner than the masters know of, or hears so in a moment.
    pub(super) fn is_unshown(&self, known: u64) -> bool {
        let holds = self.section.as_ref().filter(|it| it.receipt().is_some()).map(SectionState::tenure);
        let hears = self.raised.filter(|(_, answer)| answer.is_ok()).map(|(tenure, _)| tenure);
        holds.into_iter().chain(hears).any(|tenure| tenure.g.0 > known)
    }

    /// Its question for a higher bound, if it has one.
    pub(super) fn raise(&self, rules: &Rules<'_>) -> Option<RaiseRequest> {
        let (tenure, to) = self.wants?;
        let receipt = self.shown(rules);
        let (section, next) = (rules.section, Section(rules.section.0 + 1));
        let sections = SectionRange { name: rules.name.clone(), from: section, to: next };
        let receipt = receipt.map(|receipt| (section, next, receipt));
        let raise = Raise { section, sections, g: tenure.g, to, receipt };
        let (agent_id, session) = (self.agent_id()?, SessionId(self.session.into()));
        Some(RaiseRequest { agent_id, session, cluster: None, raises: vec![raise] })
    }

    /// A master answers that.
    pub(super) fn was_raised(&mut self, rules: &Rules<'_>, reply: &Result<RaisedAll, Refusal>) -> Option<()> {
        let answer = reply.as_ref().ok()?.first()?.first()?.outcome;
        let (tenure, _) = self.wants.take()?;
        let answer = answer.map(|raised| Raised { receipt: raised.receipt.filter(|_| rules.shows), ..raised });
        self.raised = Some((tenure, answer));
        Some(())
    }

    /// The answer arrives; `lost`: it does not, and the question ends.
    pub(super) fn hear_raised(&mut self, rules: &Rules<'_>, lost: bool) -> Option<()> {
        let (tenure, answer) = self.raised.take()?;
        let answer = match answer {
            Ok(raised)
                if rules.has(Twin::RaiseFromIgnored) && self.section.as_ref().is_some_and(|it| it.is_loaded()) =>
            {
                Ok(Raised { from: 0, ..raised })
            }
            answer => answer,
        };
        if let (true, false, Ok(Raised { max_seq, .. })) = (rules.notes, lost, answer) {
            let mut bounds = Bounds::default();
            let before = self.noted.into_iter().chain([Bound { g: Some(tenure.g), max_seq }]);
            before.for_each(|bound| bounds.note(rules.name, rules.section, bound));
            self.noted = bounds.get(rules.name, rules.section);
        }
        let section = self.section.as_mut()?;
        match lost {
            true => section.failed(tenure, NOW),
            false => section.raised(rules.definition, tenure, answer, NOW),
        }
        Some(())
    }

    /// Its process ends and starts again as the same session, which goes on with what it wrote down; or as another one.
    #[must_use]
    pub(super) fn started(&self, rules: &Rules<'_>, session: u8) -> Self {
        let same = session == self.session && !rules.has(Twin::NothingWrittenDown);
        let noted = self.noted.filter(|_| same);
        Self { noted, former: noted, ..Self::new(session, self.rate) }
    }

    /// The number of times that a span of its present owner began after another one had ended.
    pub(super) fn again(&self) -> u8 {
        self.served.map_or(0, |served| served.again)
    }

    /// Tells whether it gave `number`, which is the highest so far, as an owner after another one.
    pub(super) fn gave_after_another(&self, number: u64) -> bool {
        let Some(mut section) = self.section.clone() else { return false };
        let gave = section.current(KEY, NOW) == Some(number) && !section.is_empty();
        gave && section.g() > Generation(1)
    }
}

impl Served {
    /// The time at which it began; long ago, if it has.
    fn began(&self) -> i64 {
        if self.since == 0 { -WAIT } else { self.since }
    }

    /// Makes all that is over alike.
    fn plain(self, rules: &Rules<'_>) -> Self {
        let (since, until) = if rules.any_clock { (0, 0) } else { (self.since.max(0), self.until.max(0)) };
        Self { since, until, ..self }
    }
}
