//! Mutations of the masters: messages that are bent on their way, writes that do not reach the disk, rules that are
//! not looked at. Where a rule is inside the ledger, its record is bent before the event and the ledger opened anew.

use super::master::{Asked, open};
use super::mutation::{Mutation, Mutations};
use super::shelf::Shelf;
use super::world::{Call, Event, World};
use common::audit::Actor;
use common::lease::{Generation, Lease, LeaseState, Prep};
use common::parameters::EpochId;
use common::setting::SettingKey;
use common::time::{SpanMs, WallMs};
use common::token::{TokenKey, TokenType, TokenValue};
use ledger::Snapshot;
use ledger::lease::Loaded;
use ledger::lease::{Caution, Effects, Event as LedgerEvent, Identity, Reply, TokenHash, Write};
use ledger::replication::{join, rules};
use ledger::section::SectionTable;
use std::collections::BTreeMap;
use wire::PROTOCOL;
use wire::lease::{Mode, Rent, TokenRequest};
use wire::peer::{Hello, Memory, PeerFrame, PeerMessage};

/// A proposal that was not answered after this long is given up where they are given up.
const ABORTED_AFTER: SpanMs = SpanMs::seconds(1);

impl World {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutations.has(mutation)
    }

    /// Writes records as no rule would, and opens the ledger on them as it was: ready, or not.
    pub(super) fn rewrite(&mut self, m: usize, writes: Vec<Write>) {
        self.reopen(m, writes, false);
    }

    pub(super) fn reopen(&mut self, m: usize, writes: Vec<Write>, ready: bool) {
        let now = self.master_now(m);
        let master = &mut self.masters[m];
        let (Some(ledger), Some(store)) = (&master.ledger, &mut master.store) else { return };
        let (lsn, ready) = (ledger.lsn(), ready || ledger.mode() == Mode::Ready);
        store.commit(writes, lsn);
        let loaded = store.load();
        master.mirror = loaded.leases.iter().map(|(key, lease)| (*key, (lease.g, lease.until))).collect();
        let Identity { cluster, epoch, parameters, .. } = loaded.identity;
        let seen = loaded.observed.peer_lsn;
        let mut ledger = open(loaded, now, 0).already_begun();
        let mut fx = Effects::default();
        if ready {
            let (answer, version) = (false, String::new());
            let (life, to) = (ledger.lives().peer.unwrap_or_default(), Some(ledger.lives().present()));
            let lives = vec![life];
            let hello = Hello {
                lsn: seen,
                seen: 0,
                parameters,
                wall: now.wall,
                test_clock: None,
                version,
                answer,
                retired: None,
                lives,
                accepted: None,
                copied: false,
                awaits: false,
                challenge: None,
                echo: None,
                users: None,
            };
            let page = PeerMessage::Page {
                exchange: 1,
                after: None,
                records: Vec::new(),
                proposals: Vec::new(),
                settings: Vec::new(),
                more: false,
                extents: Vec::new(),
                memory: Memory::default(),
                last: true,
            };
            let (after, records, proposals) = (None, Vec::new(), Vec::new());
            let sections = PeerMessage::SectionPage { exchange: 1, after, records, proposals, last: true };
            for message in [PeerMessage::Hello(hello), page, sections] {
                let frame =
                    PeerFrame { protocol: PROTOCOL, from: master.id.other(), cluster, epoch, life, to, message };
                ledger.step(now, LedgerEvent::Message(Box::new(frame)), &mut fx);
            }
        }
        master.snapshot = Some(Snapshot::of(&ledger));
        master.ledger = Some(ledger);
        self.commit(m, &fx.writes);
    }

    fn rewrite_lease(&mut self, m: usize, key: TokenKey, bend: impl FnOnce(&mut Lease)) {
        let known = self.masters[m].ledger.as_ref().and_then(|ledger| ledger.table().lease(key));
        let Some(known) = known.cloned() else { return };
        let mut bent = known.clone();
        bend(&mut bent);
        if bent != known {
            self.rewrite(m, vec![Write::Lease(key, bent)]);
        }
    }

    /// Bends the start of a master.
    pub(super) fn bend_start(&mut self, m: usize) {
        if self.has(Mutation::ServeBeforeSync) {
            self.reopen(m, Vec::new(), true);
        }
    }

    /// Before messages are taken in. `None`: it was dealt with.
    pub(super) fn bend_messages(&mut self, m: usize, from: usize, mut frame: Box<PeerFrame>) -> Option<Box<PeerFrame>> {
        if self.mutations == Mutations::NONE {
            return Some(frame);
        }
        let ledger = self.masters[m].ledger.as_ref()?;
        let (epoch, cluster) = (ledger.identity().epoch, ledger.identity().cluster);
        if self.has(Mutation::EpochIgnored) && frame.cluster == cluster && frame.from != ledger.identity().master {
            frame.epoch = epoch;
        }
        let ours = frame.epoch == epoch;
        if self.has(Mutation::TokenUsedIgnored) && ours && ledger.identity().awaiting.is_some() {
            return None;
        }
        if self.has(Mutation::AnyLifeBelieved) && ours {
            (frame.life, frame.to) = (ledger.lives().peer.unwrap_or(frame.life), None);
        }
        if self.has(Mutation::ChallengeSkipped) && ours && matches!(frame.message, PeerMessage::Hello(_)) {
            self.masters[m].greeting = Some((from, frame.clone()));
        }
        let ledger = self.masters[m].ledger.as_ref()?;
        match &mut frame.message {
            PeerMessage::Heartbeat { permit, .. } if self.has(Mutation::PermitIgnored) => {
                *permit = Some(WallMs(i64::MAX / 2));
            }
            PeerMessage::Sync { records, .. } if self.has(Mutation::OverwriteOnSync) && ours => {
                let writes = records.iter().map(|(key, lease)| Write::Lease(*key, lease.clone())).collect();
                self.rewrite(m, writes);
                return None;
            }
            PeerMessage::Propose { prep } if ours && self.has(Mutation::BothPropose) => {
                let prep = prep.clone();
                if rules::home(prep.key) == self.masters[m].id {
                    self.confirm_at_home(m, prep);
                    return None;
                }
            }
            PeerMessage::Propose { prep } if ours && self.has(Mutation::ConfirmBlindly) => {
                let (key, g) = (prep.key, prep.g);
                self.rewrite_lease(m, key, |lease| {
                    if lease.g < g {
                        (lease.state, lease.until) = (LeaseState::Closed, lease.from);
                    }
                });
            }
            PeerMessage::Pull { unmet, .. } if ours && self.has(Mutation::UnprovenNotLifted) => *unmet = false,
            PeerMessage::Hello(hello) if ours && self.has(Mutation::LivesIgnored) => {
                let newest = hello.lives.last().copied();
                hello.lives.extend(ledger.lives().peer.into_iter().chain(newest));
                (hello.accepted, hello.copied) = (None, false);
            }
            PeerMessage::Confirm { prep } => {
                if self.has(Mutation::AnyConfirm)
                    && let Some(stands) = ledger.table().prep(prep.key)
                {
                    *prep = stands.clone();
                }
                if ours && self.masters[m].foreign.get(&prep.key) == Some(prep) {
                    let known = ledger.table().lease(prep.key).is_some_and(|lease| rules::same_grant(lease, prep));
                    let write = Write::Lease(prep.key, Lease::from_prep(prep));
                    self.masters[m].foreign.remove(&prep.key);
                    if !known {
                        self.rewrite(m, vec![write]);
                    }
                    return None;
                }
            }
            PeerMessage::SectionPage { records, .. }
                if ours && self.has(Mutation::NothingAddedAtMeeting) && ledger.pair().unproven().is_some() =>
            {
                let records = records.clone();
                self.merge_only(m, &records);
                return None;
            }
            PeerMessage::Reject { .. } if ours && self.has(Mutation::RejectionIgnored) => return None,
            PeerMessage::Close { key, g, until } if ours && self.has(Mutation::CloseIgnoresUntil) => {
                let (key, g, until) = (*key, *g, *until);
                self.rewrite_lease(m, key, |lease| {
                    if lease.g == g {
                        lease.until = lease.until.min(until);
                    }
                });
            }
            _ => {}
        }
        Some(frame)
    }

    /// Before a call is taken in.
    pub(super) fn bend_call(&mut self, m: usize, call: &mut Call) {
        if self.mutations == Mutations::NONE {
            return;
        }
        let Some(ledger) = &self.masters[m].ledger else { return };
        match call {
            Call::Token(request) => {
                if self.has(Mutation::SessionIgnored) {
                    let held = |(_, key): (TokenType, TokenKey)| ledger.table().lease(key);
                    let lease = ledger.table().of_agent(&request.agent_id).find_map(held);
                    request.session = lease.map_or(request.session, |lease| lease.session);
                }
                if self.has(Mutation::TypesApart) {
                    self.forget_other_types(request.token_type);
                }
                if self.has(Mutation::BothPropose) || self.has(Mutation::NoRest) {
                    self.propose_anything(m, request);
                }
            }
            Call::Rent(request) => {
                if self.has(Mutation::ReceiptsIgnored) {
                    request.receipt = None;
                }
                let key = request.key;
                if self.has(Mutation::SessionIgnored) {
                    request.session = ledger.table().lease(key).map_or(request.session, |lease| lease.session);
                }
                if self.has(Mutation::RenewAfterClose) {
                    let (now, session, g) = (self.master_now(m), request.session, request.g);
                    self.rewrite_lease(m, key, |lease| {
                        if lease.session == session && lease.g == g && !lease.deny && now.wall < lease.until {
                            lease.state = LeaseState::Held;
                        }
                    });
                }
            }
            _ => {}
        }
    }

    /// Before a master's answer to a renewal leaves it.
    pub(super) fn bend_promise(&self, m: usize, reply: &mut Reply, asked: Asked) {
        if self.has(Mutation::LiftedIsTold)
            && let (Reply::Rent(Ok(Rent::Success { until, .. })), Asked::Rent(_, key, _)) = (reply, asked)
            && let Some((_, recorded)) = self.masters[m].mirror.get(&key)
        {
            *until = *recorded;
        }
    }

    /// Both masters forget the leases of all types of token but this one.
    fn forget_other_types(&mut self, token_type: TokenType) {
        for m in 0..self.masters.len() {
            let Some(ledger) = &self.masters[m].ledger else { continue };
            let others = ledger.table().leases().filter(|(_, lease)| lease.token_type != token_type);
            let others: Vec<_> = others.map(|(key, _)| key).collect();
            for key in others {
                self.rewrite_lease(m, key, |lease| {
                    lease.state = LeaseState::Closed;
                    lease.until = lease.from;
                });
            }
        }
    }

    /// A master without a free value proposes one of the other's, or one of its own that has not rested.
    fn propose_anything(&mut self, m: usize, request: &TokenRequest) {
        let now = self.master_now(m);
        let parameters = self.swarm.parameters;
        let today = parameters.utc_offset().day_floor(now.wall);
        let Some(ledger) = self.masters[m].ledger.as_ref().filter(|ledger| ledger.mode() == Mode::Ready) else {
            return;
        };
        let has_one = ledger.table().of_session(request.session, request.token_type).next().is_some();
        if has_one || ledger.table().pick(request.token_type, today, |_| true).is_some() {
            return;
        }
        let own = self.has(Mutation::NoRest);
        let free = |key: &TokenKey| {
            let rested = |lease: &Lease| own || parameters.reuse_at(lease.until) <= today;
            (rules::home(*key) == self.masters[m].id) == own
                && !self.masters[m].foreign.contains_key(key)
                && ledger.table().prep(*key).is_none()
                && ledger.table().lease(*key).is_none_or(|l| l.state == LeaseState::Closed && rested(l))
        };
        let mut keys = (0..=u32::from(parameters.uint2_max())).map(|value| TokenType::Uint2.key(TokenValue(value)));
        let Some(key) = keys.find(free) else { return };
        let prep = Prep {
            key,
            g: ledger.table().lease(key).map_or(Generation::default(), |lease| lease.g).next(),
            token_type: request.token_type,
            agent_id: request.agent_id.clone(),
            session: request.session,
            address: String::new(),
            granted: now.wall,
            from: today,
            until: now.wall + parameters.lease(),
        };
        if own {
            self.rewrite(m, vec![Write::Prep(prep.clone())]);
        } else {
            self.masters[m].foreign.insert(key, prep.clone());
        }
        self.send(m, PeerMessage::Propose { prep });
    }

    /// A home confirms another's proposal of its value, by the rule for those that are not at home.
    fn confirm_at_home(&mut self, m: usize, prep: Prep) {
        let Some(ledger) = &self.masters[m].ledger else { return };
        let known = ledger.table().lease(prep.key);
        let again = known.is_some_and(|lease| rules::same_grant(lease, &prep));
        if !again && !rules::may_confirm(known, &prep, &self.swarm.parameters) {
            return;
        }
        if !again {
            let mut writes = vec![Write::Lease(prep.key, Lease::from_prep(&prep))];
            writes.extend(ledger.table().prep(prep.key).map(|own| Write::DropPrep(own.key)));
            self.rewrite(m, writes);
        }
        self.send(m, PeerMessage::Confirm { prep });
    }

    /// At a beat.
    pub(super) fn bend_beat(&mut self, m: usize) {
        let Some(ledger) = &self.masters[m].ledger else { return };
        let now = self.master_now(m);
        if self.has(Mutation::QuietSkipped) && ledger.caution().quiet {
            let caution = Caution { quiet: false, ..*ledger.caution() };
            return self.rewrite(m, vec![Write::Caution(caution)]);
        }
        if self.has(Mutation::PrepAborted) {
            let late = |prep: &&Prep| now.wall - prep.granted > ABORTED_AFTER;
            let drops: Vec<Write> = ledger.table().preps().filter(late).map(|p| Write::DropPrep(p.key)).collect();
            if !drops.is_empty() {
                self.rewrite(m, drops);
            }
        }
    }

    /// Gives what of a commit reaches the disk.
    pub(super) fn bend_writes(&self, m: usize, writes: &[Write]) -> Vec<Write> {
        let before = &self.masters[m].mirror;
        let renewal = |key: &TokenKey, lease: &Lease| {
            lease.state == LeaseState::Held && before.get(key).is_some_and(|(g, _)| *g == lease.g)
        };
        let preps = writes.iter().any(|write| matches!(write, Write::DropPrep(_)));
        let confirmed = |key: &TokenKey, lease: &Lease| {
            lease.state == LeaseState::Held && !preps && before.get(key).is_none_or(|(g, _)| *g != lease.g)
        };
        let extends = writes.iter().any(|write| matches!(write, Write::Setting(_)));
        let lost = |write: &&Write| match write {
            Write::Lease(key, lease) => {
                (self.has(Mutation::RenewalNotDurable) && renewal(key, lease))
                    || (self.has(Mutation::ConfirmNotDurable) && confirmed(key, lease))
            }
            Write::Prep(_) => self.has(Mutation::PrepNotDurable),
            Write::PermitOut(_) => self.has(Mutation::PermitNotDurable),
            Write::SectionPreps { .. } => self.has(Mutation::SectionPrepNotDurable),
            Write::Cursor { .. } => !extends && self.has(Mutation::CursorNotDurable),
            _ => false,
        };
        let kept = writes.iter().filter(|write| !lost(write)).cloned();
        kept.map(|write| self.without_raises(m, write)).collect()
    }

    /// Rows of sections as they are without what their owner had them raised by.
    fn without_raises(&self, m: usize, mut write: Write) -> Write {
        if let Write::Sections { rows, .. } = &mut write
            && self.has(Mutation::RaiseNotDurable)
        {
            for (record, held) in rows {
                let range = record.range.from..record.range.to;
                let known = self.masters[m].bounds.range(range).filter(|(_, (g, _))| *g == record.g);
                let before = known.map(|(_, (_, max_seq))| *max_seq).min();
                record.max_seq = before.map_or(record.max_seq, |before| before.min(record.max_seq));
                *held = record.max_seq.min(*held);
            }
        }
        write
    }

    /// A greeting that a master doubts is said again by nobody but this.
    pub(super) fn answer_challenge(&mut self, m: usize, message: &PeerMessage) {
        let PeerMessage::Hello(Hello { challenge: Some(number), .. }) = message else { return };
        if !self.has(Mutation::ChallengeSkipped) {
            return;
        }
        let Some((from, mut again)) = self.masters[m].greeting.clone() else { return };
        if let PeerMessage::Hello(hello) = &mut again.message {
            hello.echo = Some(*number);
            self.after(0, Event::Message(m, from, again));
        }
    }

    /// Answers of the other master that it never gave. `true`: and the question does not reach it.
    pub(super) fn forge(&mut self, m: usize, message: &PeerMessage) -> bool {
        let answer = match message {
            PeerMessage::Propose { prep } if self.has(Mutation::ConfirmForged) => {
                PeerMessage::Confirm { prep: prep.clone() }
            }
            PeerMessage::ProposeSetting { setting }
                if self.has(Mutation::ExtentNotConfirmed) && matches!(setting.key, SettingKey::Axis(_)) =>
            {
                PeerMessage::ConfirmSetting { setting: setting.clone() }
            }
            PeerMessage::RaisedSections { bounds } if self.has(Mutation::SentCountsAsHeld) => {
                PeerMessage::HeldBounds { bounds: bounds.clone() }
            }
            PeerMessage::Close { key, g, until } if self.has(Mutation::ClosedForged) => {
                PeerMessage::Closed { key: *key, g: *g, until: *until }
            }
            _ => return false,
        };
        let Some(ledger) = &self.masters[m].ledger else { return false };
        let (life, to) = (ledger.lives().peer.unwrap_or_default(), Some(ledger.lives().present()));
        let frame = PeerFrame { from: ledger.identity().master.other(), life, to, ..ledger.frame(answer) };
        self.after(1, Event::Message(m, m, Box::new(frame)));
        matches!(message, PeerMessage::Close { .. })
    }

    /// A terminated value is closed at both, as if its time were over.
    pub(super) fn free_at_once(&mut self, key: TokenKey) {
        if !self.has(Mutation::ReleaseFrees) {
            return;
        }
        let ended = WallMs(self.t) + SpanMs::days(-3);
        for m in self.current {
            self.rewrite_lease(m, key, |lease| {
                (lease.state, lease.until) = (LeaseState::Closed, lease.from.max(ended));
            });
        }
    }

    /// Gives what the survivor writes when its peer is declared lost.
    pub(super) fn bend_peer_lost(&self, mut loaded: Loaded, epoch: EpochId, token: TokenHash) -> Vec<Write> {
        let closing: BTreeMap<TokenKey, WallMs> = loaded
            .leases
            .iter()
            .filter(|(_, lease)| lease.state == LeaseState::Closing)
            .map(|(key, lease)| (*key, lease.until))
            .collect();
        let preps: BTreeMap<TokenKey, WallMs> = loaded.preps.iter().map(|prep| (prep.key, prep.until)).collect();
        if self.has(Mutation::NoBumpAtPeerLost) {
            loaded.permit_out = None;
        }
        let mut writes = join::declare_lost(&loaded, epoch, token, Actor::new("operator", ""), WallMs(0));
        let dropped = self.has(Mutation::PrepsDroppedAtPeerLost);
        let kept = self.has(Mutation::PrepsKeptAtPeerLost);
        writes.retain(|write| match write {
            Write::Lease(key, _) => !(dropped || kept) || !preps.contains_key(key),
            Write::DropPrep(_) => !kept,
            _ => true,
        });
        let known = SectionTable::new(loaded.sections.iter().cloned(), []);
        for write in &mut writes {
            if let Write::Sections { rows, .. } = write
                && self.has(Mutation::NothingAddedAtLoss)
            {
                for (record, held) in rows {
                    record.max_seq = known.get(&record.range.first()).map_or(0, |known| known.max_seq);
                    *held = record.max_seq;
                }
            }
            if let Write::Lease(key, lease) = write {
                let prep = preps.get(key).filter(|_| self.has(Mutation::PrepsNotBumped));
                let closing = closing.get(key).filter(|_| self.has(Mutation::ClosingNotBumped));
                lease.until = prep.or(closing).copied().unwrap_or(lease.until);
            }
        }
        writes
    }

    /// A store that was put back and shall look new.
    pub(super) fn believe_rollback(&mut self, m: usize, store: &mut Shelf, lsn: u64) {
        if self.has(Mutation::RollbackBelieved) {
            let Some(loaded) = self.masters[m].loaded() else { return };
            // And goes on from the starts that the other master knows.
            store.commit([Write::PermitOut(loaded.permit_out), Write::Lives(loaded.lives)], lsn);
            store.settle_lineage();
        }
    }
}
