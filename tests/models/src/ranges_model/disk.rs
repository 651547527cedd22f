//! The part of a master's disk that axes and sections are kept in.

use crate::kit::node::{self, EXCHANGE, Part, STEP, Serving, page};
use crate::kit::shared::Shared;
use crate::model::heartbeat;
use common::calendar::UtcOffset;
use common::lease::{Generation, Lease, LeaseState};
use common::namespace::GeneratorName;
use common::parameters::{ClusterParameters, MasterId, SessionId};
use common::segment::{MasterRun, Span};
use common::sequence::{SectionKey, SectionRecord};
use common::setting::{Setting, SettingKey, SettingValue};
use common::time::{DAY_MS, Now, WallMs};
use common::token::{TokenFamily, TokenKey, TokenType, TokenValue};
use ledger::Ledger;
use ledger::lease::{Effects, Event, Loaded, PeerObservations, Reply, RequestId, Write};
use std::collections::BTreeMap;
use wire::peer::PeerMessage;

pub(super) type Disk = node::Disk<Ranges>;
pub(super) type Node = node::Node<Ranges>;
pub(super) type Stepped = node::Stepped<Ranges>;

/// The length of leases, in days; nothing here looks at it.
const LEASE_DAYS: u8 = 7;
/// Until when a master lets the other one go on alone: for ever, as nothing of axes and sections ends with it.
const PERMITTED: WallMs = WallMs(10_000 * DAY_MS);

/// Nothing here looks at a calendar.
pub(super) const WALL: WallMs = WallMs(0);

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ranges {
    pub(super) settings: BTreeMap<SettingKey, Setting>,
    pub(super) setting_preps: BTreeMap<SettingKey, Setting>,
    pub(super) run: Option<MasterRun>,
    pub(super) cursors: BTreeMap<GeneratorName, (MasterRun, Vec<Span>)>,
    /// Each with what the other master holds of it. In memory that may be more than on disk.
    pub(super) sections: BTreeMap<SectionKey, (SectionRecord, u64)>,
    pub(super) section_preps: BTreeMap<SectionKey, SectionRecord>,
    pub(super) sections_cut: bool,
}

/// The parameters of every cluster here.
pub(super) fn parameters() -> anyhow::Result<ClusterParameters> {
    Ok(ClusterParameters::new(LEASE_DAYS, UtcOffset::default(), 31)?)
}

/// Sessions that agents may have.
const SESSIONS_MAX: u8 = 9;

/// The lease by which a session may serve sections: both masters have it, and it lasts for ever.
fn lease(session: u8) -> Option<(TokenKey, Lease)> {
    let key = TokenKey { family: TokenFamily::Uint, value: TokenValue(session.into()) };
    let lease = Lease {
        g: Generation(1),
        state: LeaseState::Held,
        token_type: TokenType::Uint2,
        agent_id: format!("a{session}").parse().ok()?,
        session: SessionId(session.into()),
        address: String::new(),
        granted: WallMs(0),
        renewed: WallMs(0),
        from: WallMs(0),
        until: PERMITTED,
        deny: false,
        rseq: 1,
        attempt: 1,
    };
    Some((key, lease))
}

/// The disk of a master that has met the other one in the first start of both, and knows these names.
pub(super) fn first(master: MasterId, parameters: ClusterParameters, names: impl IntoIterator<Item = Setting>) -> Disk {
    let settings = names.into_iter().map(|name| (name.key.clone(), name)).collect();
    let run = Some(MasterRun(u128::from(master.number()) - 1));
    Disk::first(master, parameters, Some(PERMITTED), Ranges { settings, run, ..Ranges::default() })
}

impl Part for Ranges {
    const STARTS: bool = true;

    fn load(&self, loaded: &mut Loaded) {
        loaded.leases = (1..=SESSIONS_MAX).filter_map(lease).collect();
        loaded.settings = self.settings.values().cloned().collect();
        loaded.setting_preps = self.setting_preps.values().cloned().collect();
        loaded.run = self.run;
        loaded.cursors = self.cursors.iter().map(|(name, (run, it))| (*run, name.clone(), it.clone())).collect();
        loaded.sections = self.sections.values().cloned().collect();
        loaded.section_preps = self.section_preps.values().cloned().collect();
        loaded.sections_cut = self.sections_cut;
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::Setting(setting) => drop(self.settings.insert(setting.key.clone(), setting.clone())),
            Write::DropSetting(key) => drop(self.settings.remove(key)),
            Write::SettingPrep(prep) => drop(self.setting_preps.insert(prep.key.clone(), prep.clone())),
            Write::DropSettingPrep(key) => drop(self.setting_preps.remove(key)),
            Write::Run(run) => self.run = *run,
            Write::Cursor { name, spans, .. } if spans.is_empty() => drop(self.cursors.remove(name)),
            Write::Cursor { run, name, spans } => {
                self.cursors.insert(name.clone(), (*run, spans.clone()));
            }
            Write::Sections { gone, rows } => {
                gone.iter().for_each(|key| drop(self.sections.remove(key)));
                self.sections.extend(rows.iter().map(|row| (row.0.range.first(), row.clone())));
            }
            Write::SectionPreps { gone, rows } => {
                gone.iter().for_each(|key| drop(self.section_preps.remove(key)));
                self.section_preps.extend(rows.iter().map(|prep| (prep.range.first(), prep.clone())));
            }
            Write::SectionsCut(cut) => self.sections_cut = *cut,
            // No leases here, and what only makes a master more careful, or is for people, decides nothing.
            _ => {}
        }
    }

    fn differs_from(&self, ledger: &Ledger) -> Option<&'static str> {
        let cursors = || self.cursors.iter().filter(|(_, (run, _))| *run == ledger.run());
        let left = ledger.cursors().iter().filter(|(_, cursor)| !cursor.spans().is_empty());
        let differs = [
            ("run", Some(ledger.run()) != self.run),
            ("settings", !ledger.settings_table().all().eq(self.settings.values())),
            ("proposals of settings", !ledger.settings_table().preps().eq(self.setting_preps.values())),
            (
                "cursors",
                !left
                    .map(|(name, cursor)| (name, cursor.spans()))
                    .eq(cursors().map(|(name, (_, spans))| (name, &**spans))),
            ),
            (
                "sections",
                !ledger.sections().stored().map(|(record, _)| record).eq(self.sections.values().map(|it| it.0.clone())),
            ),
            ("proposals of sections", !ledger.sections().preps().eq(self.section_preps.values().cloned())),
        ];
        differs.into_iter().find(|(_, differs)| *differs).map(|(what, _)| what)
    }

    /// The records that the other master said it holds.
    fn note(&mut self, ledger: &Ledger) {
        for (record, held) in ledger.sections().stored() {
            if let Some((_, peer_has)) = self.sections.get_mut(&record.range.first()) {
                *peer_has = held;
            }
        }
    }

    fn permit_out(&self) -> Option<WallMs> {
        Some(PERMITTED)
    }

    fn heard(&self, serving: Serving, observed: &PeerObservations) -> Vec<PeerMessage> {
        let (ready, sequences) = (serving == Serving::Ready, self.has_sequences());
        let sections = || PeerMessage::SectionPage {
            exchange: EXCHANGE,
            after: None,
            records: Vec::new(),
            proposals: Vec::new(),
            last: true,
        };
        let heard = [
            (ready || sequences).then(page),
            (ready && sequences).then(sections),
            ready.then(|| heartbeat(observed.permit_in)),
        ];
        heard.into_iter().flatten().collect()
    }

    /// Greetings and pages are steps of their own; what tells of use, clocks and who is alive decides nothing here.
    fn posted(message: PeerMessage) -> Option<PeerMessage> {
        let posted = matches!(
            message,
            PeerMessage::AskSetting { .. }
                | PeerMessage::ProposeSetting { .. }
                | PeerMessage::ConfirmSetting { .. }
                | PeerMessage::Settings { .. }
                | PeerMessage::ProposeSections { .. }
                | PeerMessage::ConfirmSections { .. }
                | PeerMessage::KnownSections { .. }
                | PeerMessage::RaisedSections { .. }
                | PeerMessage::HeldBounds { .. }
        );
        posted.then_some(message)
    }
}

impl Ranges {
    /// Tells whether a name that is known stands for a sequence.
    pub(super) fn has_sequences(&self) -> bool {
        self.settings.values().filter_map(|it| it.value.namespace()).any(|it| it.sequences().is_some())
    }

    /// The axis as it stands here; `None` before anything of it was granted.
    pub(super) fn axis(&self) -> Option<common::segment::Axis> {
        self.settings.values().find_map(|setting| match &setting.value {
            SettingValue::Axis(axis) => Some(**axis),
            _ => None,
        })
    }

    /// Spans that the present run may still grant.
    pub(super) fn spans(&self) -> impl Iterator<Item = Span> {
        let own = self.cursors.values().filter(|(run, _)| Some(*run) == self.run);
        own.flat_map(|(_, spans)| spans.iter().copied())
    }
}

/// The other master lets this one go on alone, as it does with its first heartbeat.
pub(super) fn permitted() -> PeerObservations {
    PeerObservations { permit_in: Some(PERMITTED), ..PeerObservations::default() }
}

/// `asker` connects to `other`, both greet, and `other` answers a page of its table. `None`: it does not.
pub(super) fn cut_page(asker: &Node, other: &Node) -> Option<(Node, Node)> {
    let now = Now { wall: WALL, boot: STEP };
    let (mut asks, mut answers) =
        (asker.known().opened(asker.serving, WALL), other.known().opened(other.serving, WALL));
    let (mut of_asker, mut of_other) = (Effects::default(), Effects::default());
    asks.step(now, Event::Connected, &mut of_asker);
    let greeting = of_asker.messages.drain(..).find(|message| matches!(message, PeerMessage::Hello(_)))?;
    let frame = Box::new(asks.frame(greeting));
    answers.step(now, Event::Greeting { id: RequestId(0), frame }, &mut of_other);
    let greeted = of_other.replies.drain(..).find_map(|(_, reply)| match reply {
        Reply::Greeted(messages) => messages.into_iter().find(|message| matches!(message, PeerMessage::Hello(_))),
        _ => None,
    })?;
    let frame = Box::new(answers.frame(greeted));
    asks.step(now, Event::Message(frame), &mut of_asker);
    if asks.lives().peer != Some(answers.lives().present()) || answers.lives().peer != Some(asks.lives().present()) {
        return None;
    }
    let unmet = asker.known().unmet();
    let section_page = asks.frame(PeerMessage::PullSections { exchange: EXCHANGE, after: None, unmet });
    let pull = asks.frame(PeerMessage::Pull { exchange: EXCHANGE, after: None, unmet, retired: 0 });
    for frame in [Some(pull), asker.known().has_sequences().then_some(section_page)].into_iter().flatten() {
        of_other.messages.clear();
        answers.step(now, Event::Message(Box::new(frame)), &mut of_other);
    }
    let is_page = |message: &PeerMessage| matches!(message, PeerMessage::Page { .. } | PeerMessage::SectionPage { .. });
    let page = of_other.messages.drain(..).find(is_page)?;
    let page = Some(Shared::new(answers.frame(page)));
    Some((Node { page, ..asker.written(&of_asker.writes) }, other.written(&of_other.writes)))
}
