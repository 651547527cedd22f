//! Operators: make a cluster, replace a lost master.

use super::episode::each;
use super::master::{Asker, Master, slot};
use super::mutation::Mutation;
use super::net::Node;
use super::ranges::rewritten;
use super::shelf::Shelf;
use super::swarm::Theme;
use super::world::{BEGIN, Event, World};
use common::audit::Actor;
use common::namespace::Namespace;
use common::parameters::{ClusterId, EpochId, MasterId};
use common::segment::Axis;
use common::sequence::SectionRecord;
use common::setting::{Setting, SettingKey, SettingValue};
use common::time::{DAY_MS, HOUR_MS, SECOND_MS, WallMs};
use common::token::TokenKey;
use ledger::lease::{Event as LedgerEvent, Identity, Loaded, TokenHash, Write};
use ledger::replication::join::{first_writes, section_taken_over, taken_over};
use ledger::section::{HeldSection, SectionTable};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::lease::Mode;
use wire::peer::{JoinReply, JoinStep};

/// In this time, in milliseconds, a replacement has met the survivor.
const SETTLES: i64 = 60_000;

/// The longest time that the replacement of a master takes between two steps.
pub(super) const STEP_MAX: i64 = HOUR_MS;

/// A replacement under way.
#[derive(Debug)]
pub struct Joining {
    /// The new master.
    pub new: usize,
    /// The one that goes on.
    pub survivor: usize,
    token: TokenHash,
    draft: Shelf,
    step: JoinStep,
}

/// Adds records as both masters hold them.
fn put_all(table: &mut SectionTable, records: impl IntoIterator<Item = SectionRecord>) {
    for SectionRecord { range, g, owner, max_seq } in records {
        table.put(&range, HeldSection { g, owner: Arc::new(owner), max_seq, peer_has: max_seq });
    }
}

impl World {
    /// Two freshly formatted masters.
    pub fn format_masters(&mut self) {
        for identity in self.draw_cluster() {
            let (id, mut store) = (identity.master, Shelf::format(identity));
            store.commit(self.names(), 0);
            self.masters.push(Master::new(id, Some(store)));
        }
        self.start_master(0);
        self.start_master(1);
    }

    /// The names that are registered with a new cluster.
    pub(super) fn names(&self) -> Vec<Write> {
        let named = |namespace: &Namespace| {
            let (key, value) =
                (SettingKey::Namespace(namespace.name().clone()), SettingValue::Namespace(namespace.clone().into()));
            Write::Setting(Setting { key, version: 1, value, actor: Actor::new("operator", ""), at: WallMs(BEGIN) })
        };
        self.swarm.ranges.names.iter().map(named).collect()
    }

    /// After both masters have forgotten: their operator raises axes above all that was ever given, as the manual says.
    pub(super) fn above_all_given(&self, loaded: &Loaded) -> Vec<Write> {
        let axes = self.swarm.ranges.names.iter().filter(|namespace| namespace.segments().is_some());
        let raised = axes.flat_map(|namespace| {
            let (key, to) = (SettingKey::Axis(namespace.name().clone()), self.oracle.numbers.axis_end);
            let known = loaded.settings.iter().find(|setting| setting.key == key).map_or(0, |setting| setting.version);
            // Both masters are told the same, whatever each of them knows.
            let version = known.max(self.oracle.numbers.axis_end) + 1;
            let value = SettingValue::Axis(Box::new(Axis { floor: to, granted: to, dismissed: 0, last: None }));
            let overtaken = Write::DropSettingPrep(key.clone());
            [
                overtaken,
                Write::Setting(Setting { key, version, value, actor: Actor::new("operator", ""), at: WallMs(BEGIN) }),
            ]
        });
        raised.filter(|_| self.oracle.numbers.axis_end > 0).collect()
    }

    /// Sections as they are, for stores that are put back, or made anew, while nobody says so: of those nothing could tell a duplicate.
    pub(super) fn sections_as_they_are(&self, loaded: &Loaded) -> Vec<Write> {
        let is = SectionTable::new(loaded.sections.iter().cloned(), loaded.section_preps.iter().cloned());
        let mut becomes = SectionTable::new(loaded.sections.iter().cloned(), []);
        put_all(&mut becomes, self.oracle.sections());
        rewritten(&is, &becomes).into()
    }

    /// Gives what an operator says of sections whose numbers both masters have forgotten: how many to skip in those that either store
    /// knows, and for the others, of which the manual gives up the name, how far they came.
    pub(super) fn sections_forgotten(&self, loaded: &Loaded) -> (u64, Vec<Write>) {
        let (known, proposed) = (loaded.sections.iter().map(|(record, _)| record), loaded.section_preps.iter());
        let known = proposed.chain(known).flat_map(each);
        let known: BTreeMap<_, _> = known.map(|record| (record.range.from, record.max_seq)).collect();
        let all = self.oracle.sections();
        let behind = |record: &SectionRecord| Some(record.max_seq.saturating_sub(*known.get(&record.range.from)?));
        let skip = all.iter().filter_map(behind).max().unwrap_or_default();
        let unknown = all.into_iter().filter(|record| !known.contains_key(&record.range.from));
        let mut table = SectionTable::default();
        put_all(&mut table, unknown);
        (skip, table.stored().map(|(record, held)| Write::sections(record, held)).collect())
    }

    /// The masters of a new cluster.
    pub(super) fn draw_cluster(&mut self) -> [Identity; 2] {
        [MasterId::One, MasterId::Two].map(|id| {
            let first = id == MasterId::One;
            Identity {
                master: id,
                cluster: first.then(|| ClusterId(self.rng.wide())),
                epoch: first.then(|| EpochId(self.rng.wide())),
                pair_epoch: 1,
                former: Vec::new(),
                paired: false,
                parameters: self.swarm.parameters,
                awaiting: None,
            }
        })
    }

    /// Tells whether `lost` may be declared lost: the other one is whole, belongs to the pair and has no replacement joining.
    pub fn replaceable(&mut self, lost: usize) -> bool {
        let survivor = self.current[slot(self.masters[lost].id.other())];
        // A store that was put back is a lost disk: whoever knows of it declares its master lost, never the other one.
        let restored = self.masters[survivor].restored;
        let whole = !self.masters[survivor].condemned
            && self.masters[survivor]
                .loaded()
                .is_some_and(|l| l.identity.paired && !l.observed.rolled_back && !(restored && l.proven.is_err()));
        self.current.contains(&lost) && self.joining.is_none() && whole
    }

    /// `--peer-lost` on the stopped survivor, and a new machine in the place of the lost one.
    pub fn declare_lost(&mut self, lost: usize, zombie: bool) {
        if !self.replaceable(lost) {
            if self.current.contains(&lost) && !self.healed {
                self.after(STEP_MAX, Event::DeclareLost { lost, zombie });
            }
            return;
        }
        let id = self.masters[lost].id;
        let survivor = self.current[slot(id.other())];
        self.tell(|| format!("master {lost} is declared lost (lives on: {zombie})"));
        if zombie {
            // Long enough, often, to see how far it goes on alone.
            let long = self.rng.chance(0.5);
            let span = if long { self.rng.range(20 * DAY_MS, 50 * DAY_MS) } else { self.outage(15 * DAY_MS) };
            self.after(span, Event::EndZombie(lost));
            // One that reaches the survivor is told at once that it was replaced; this one is of use only where it is not.
            if self.swarm.theme == Theme::Replaced {
                for (from, to) in [(survivor, lost), (lost, survivor)] {
                    self.net.cut(Node::Master(from), Node::Master(to), self.t, self.t + span + 1);
                }
            }
        } else {
            self.masters[lost].die();
            self.masters[lost].store = None;
        }
        self.masters[survivor].die();
        // It was put back and has met the other one since, or it would not go on.
        self.masters[survivor].restored = false;
        let token = self.peer_lost(survivor);
        self.masters.push(Master::new(id, None));
        self.replacements += 1;
        let new = self.masters.len() - 1;
        self.current[slot(id)] = new;
        let (draft, step) = (Shelf::default(), JoinStep::Begin);
        self.joining = Some(Joining { new, survivor, token, draft, step });
        let pause = self.outage(STEP_MAX);
        self.after(pause, Event::StartMaster(survivor));
        let pause = pause + self.outage(STEP_MAX);
        self.after(pause, Event::Join(new));
    }

    fn peer_lost(&mut self, survivor: usize) -> TokenHash {
        let mut token = [0; 32];
        token[..8].copy_from_slice(&self.rng.next().to_le_bytes());
        let epoch = EpochId(self.rng.wide());
        let mut loaded = self.masters[survivor].loaded().expect("the survivor has a disk");
        let lsn = loaded.lsn;
        // `--vouch-untouched`: whoever stands before the machine knows that it was merely booted anew.
        loaded.lives.unproven = false;
        let writes = self.bend_peer_lost(loaded, epoch, token);
        if let Some(store) = &mut self.masters[survivor].store {
            store.settle_lineage();
            store.commit(writes.iter().cloned(), lsn + 1);
            // By what was drawn already, so that other lives stay what they are.
            if self.swarm.theme == Theme::Ranges && token[0] % 2 == 0 {
                self.masters[survivor].awaiting_backup = Some((lsn + 1, store.snapshot()));
            }
        }
        self.oracle.sections_recorded(&writes);
        for write in &writes {
            self.tell(|| format!("master {survivor} writes {write:?}"));
        }
        token
    }

    fn settings_taken_over(&self, settings: Vec<Setting>) -> Vec<Write> {
        let left_out = self.mutations.has(Mutation::AxesNotTakenOver);
        let kept = settings.into_iter().filter(|setting| !left_out || !matches!(setting.key, SettingKey::Axis(_)));
        kept.map(Write::Setting).collect()
    }

    /// The next step of the replacement.
    pub fn on_join(&mut self, new: usize) {
        let Some(mut joining) = self.joining.take().filter(|joining| joining.new == new) else { return };
        let (survivor, token) = (joining.survivor, joining.token);
        let me = self.masters[new].id;
        let pause = self.outage(STEP_MAX);
        let up = self.masters[survivor].ledger.is_some() && self.masters[survivor].paused_until <= self.t;
        // The call is lost on its way there, or its answer on the way back.
        let (lost, answer_lost) = (self.lost(), self.lost());
        if up && !lost {
            self.ask_survivor(survivor, token, me, joining.step.clone());
        }
        let reply = self.masters[survivor].join_reply.take().filter(|_| up && !lost && !answer_lost);
        let done_in_doubt = joining.step == JoinStep::Done && reply.is_none();
        if reply.is_none() {
            // Whoever joins again begins anew, with an empty draft.
            joining.step = JoinStep::Begin;
        }
        match reply {
            Some(JoinReply::Begun(begun)) => {
                let (identity, caution) = first_writes(me, begun);
                joining.draft = Shelf::format(identity);
                let inherited = !self.mutations.has(Mutation::CautionNotInherited);
                joining.draft.commit(inherited.then_some(caution), 0);
                joining.step = JoinStep::Page { after: None };
            }
            Some(JoinReply::Page { records, settings, more, last }) => {
                let after: Option<TokenKey> = records.last().map(|(key, _)| *key);
                let records = if self.mutations.has(Mutation::JoinedEmpty) { Vec::new() } else { records };
                let writes: Vec<Write> =
                    records.into_iter().map(|(key, lease)| Write::Lease(key, taken_over(me, key, lease))).collect();
                joining.draft.commit(writes, 0);
                let further = settings.last().filter(|_| more).map(|setting| setting.key.clone());
                joining.draft.commit(self.settings_taken_over(settings), 0);
                joining.step = match further {
                    Some(after) => JoinStep::Settings { after },
                    None if last || after.is_none() => JoinStep::Sections { after: None },
                    None => JoinStep::Page { after },
                };
            }
            Some(JoinReply::Settings { settings, more }) => {
                let further = settings.last().filter(|_| more).map(|setting| setting.key.clone());
                joining.draft.commit(self.settings_taken_over(settings), 0);
                joining.step = match further {
                    Some(after) => JoinStep::Settings { after },
                    None => JoinStep::Sections { after: None },
                };
            }
            Some(JoinReply::Sections { records, last }) => {
                let after = records.last().map(|record| record.range.last());
                joining.draft.commit(records.into_iter().map(section_taken_over), 0);
                joining.step = if last || after.is_none() { JoinStep::Done } else { JoinStep::Sections { after } };
            }
            Some(JoinReply::Done) => {
                self.tell(|| format!("master {new} has joined"));
                self.masters[new].store = Some(joining.draft);
                self.lose_survivor(survivor, new);
                if self.masters[survivor].awaiting_backup.is_some() {
                    let after = SETTLES + i64::from(token[1]) * SECOND_MS;
                    self.after(after, Event::PutBackAwaiting(survivor));
                }
                return self.after(pause, Event::StartMaster(new));
            }
            None if done_in_doubt => {
                // The token may be used up: the operator begins anew.
                if let Some(loaded) = self.masters[survivor].loaded()
                    && loaded.identity.awaiting.is_none_or(|awaited| awaited != token)
                {
                    self.masters[survivor].die();
                    joining.token = self.peer_lost(survivor);
                    self.after(1_000, Event::StartMaster(survivor));
                }
            }
            None => {}
        }
        self.joining = Some(joining);
        self.after(pause, Event::Join(new));
    }

    /// Now and then the survivor is lost too, before the replacement has heard a word of it.
    fn lose_survivor(&mut self, survivor: usize, new: usize) {
        if self.healed || !self.rng.chance(0.2) || !self.may_replace(survivor) {
            return;
        }
        let notice = self.rng.magnitude(HOUR_MS, 3 * DAY_MS);
        for (from, to) in [(survivor, new), (new, survivor)] {
            self.net.cut(Node::Master(from), Node::Master(to), self.t, self.t + notice + 1);
        }
        let zombie = self.zombie_comes();
        self.after(notice, Event::DeclareLost { lost: survivor, zombie });
    }

    fn ask_survivor(&mut self, survivor: usize, token: TokenHash, master: MasterId, step: JoinStep) {
        let id = self.masters[survivor].draw();
        self.masters[survivor].wait(id, Asker::Join);
        let observed = self.masters[survivor].ledger.as_ref().map(|ledger| *ledger.observed());
        self.step(survivor, LedgerEvent::Join { id, token, master, step });
        if let Some(observed) = observed.filter(|_| self.mutations.has(Mutation::PermitKeptAfterJoin)) {
            self.rewrite(survivor, vec![Write::PeerObservations(observed)]);
        }
        self.busy(3_000);
    }

    /// A store that is put back from a backup of which the other master has seen more. The mutation makes it look new.
    pub fn roll_back(&mut self, m: usize) -> bool {
        let other = self.current[slot(self.masters[m].id.other())];
        let seen = self.masters[other].ledger.as_ref().filter(|ledger| ledger.mode() == Mode::Ready);
        let seen = seen.map_or(0, |ledger| ledger.observed().peer_lsn);
        let fits = self.masters[m].backup.as_ref().is_some_and(|(lsn, _)| *lsn < seen);
        if !fits || !self.replaceable(m) {
            return false;
        }
        let Some((lsn, backup)) = &mut self.masters[m].backup else { return false };
        let (lsn, mut store) = (*lsn, backup.snapshot());
        // A machine that is put back as a whole looks untouched; what the other one says stops it.
        let awaits = store.load().identity.awaiting.is_some();
        if !awaits {
            store.disturb();
        }
        self.believe_rollback(m, &mut store, seen.max(lsn) + 100_000);
        self.masters[m].die();
        self.masters[m].store = Some(store);
        self.masters[m].tampered = true;
        let unnoticed = awaits && self.mutations.has(Mutation::TokenUsedIgnored);
        self.masters[m].condemned = !unnoticed && !self.mutations.has(Mutation::RollbackBelieved);
        true
    }
}
