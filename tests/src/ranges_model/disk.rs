//! What a master's disk holds of axes and sections, and of who it is: all that survives a crash.

use common::calendar::UtcOffset;
use common::lease::{Caution, Generation, Lease, LeaseState};
use common::namespace::GeneratorName;
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::rpc::peer::Life;
use common::segment::{MasterRun, Span};
use common::sequence::{SectionKey, SectionRecord};
use common::setting::{Setting, SettingKey, SettingValue};
use common::time::{DAY_MS, WallMs};
use common::token::{TokenFamily, TokenKey, TokenType, TokenValue};
use master::lease::{Identity, Lives, Loaded, PeerObservations, Unproven, Write};
use master::ledger::Ledger;
use std::collections::BTreeMap;

/// How long leases are; nothing here looks at it.
const LEASE_DAYS: u8 = 7;
/// Until when a master lets the other one go on alone: for ever, as nothing of axes and sections ends with it.
const PERMITTED: WallMs = WallMs(10_000 * DAY_MS);

/// It.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    pub(super) identity: Identity,
    pub(super) observed: PeerObservations,
    pub(super) lives: Lives,
    pub(super) caution: Caution,
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

impl Disk {
    /// The disk of a master that has met the other one in the first start of both, and knows these names.
    pub(super) fn first(
        master: MasterId,
        parameters: ClusterParameters,
        names: impl IntoIterator<Item = Setting>,
    ) -> Self {
        let identity = Identity {
            master,
            cluster: Some(ClusterId(1)),
            epoch: Some(EpochId(1)),
            pair_epoch: 1,
            former: Vec::new(),
            paired: true,
            parameters,
            awaiting: None,
        };
        let life = |id: MasterId| Life { start: 1, mark: u64::from(id.number()) - 1 };
        let lives = Lives { own: vec![life(master)], peer: Some(life(master.other())), ..Lives::default() };
        Self {
            identity,
            observed: permitted(),
            lives,
            caution: Caution::default(),
            settings: names.into_iter().map(|name| (name.key.clone(), name)).collect(),
            setting_preps: BTreeMap::new(),
            run: Some(MasterRun(u128::from(master.number()) - 1)),
            cursors: BTreeMap::new(),
            sections: BTreeMap::new(),
            section_preps: BTreeMap::new(),
            sections_cut: false,
        }
    }

    /// That of a replacement, before its first start.
    pub(super) fn of_replacement(identity: Identity) -> Self {
        Self {
            identity,
            observed: PeerObservations::default(),
            lives: Lives::default(),
            caution: Caution::default(),
            settings: BTreeMap::new(),
            setting_preps: BTreeMap::new(),
            run: None,
            cursors: BTreeMap::new(),
            sections: BTreeMap::new(),
            section_preps: BTreeMap::new(),
            sections_cut: false,
        }
    }

    pub(super) fn id(&self) -> MasterId {
        self.identity.master
    }

    /// Whether it was opened without proof, and has not met the other one since.
    pub(super) fn unmet(&self) -> bool {
        self.lives.unproven
    }

    /// A disk of the other master of this pairing, in the life that is believed here: for messages in its name.
    pub(super) fn of_other(&self) -> Self {
        let identity = Identity { master: self.id().other(), ..self.identity.clone() };
        let lives =
            Lives { own: self.lives.peer.into_iter().collect(), peer: Some(self.lives.present()), ..Lives::default() };
        Self { identity, lives, ..self.clone() }
    }

    pub(super) fn loaded(&self) -> Loaded {
        Loaded {
            identity: self.identity.clone(),
            lsn: 0,
            permit_out: Some(PERMITTED),
            observed: self.observed,
            lives: self.lives.clone(),
            proven: if self.unmet() { Err(Unproven::NotMetSince) } else { Ok(()) },
            caution: self.caution,
            leases: (1..=SESSIONS_MAX).filter_map(lease).collect(),
            preps: Vec::new(),
            settings: self.settings.values().cloned().collect(),
            setting_preps: self.setting_preps.values().cloned().collect(),
            run: self.run,
            cursors: self.cursors.iter().map(|(name, (run, spans))| (*run, name.clone(), spans.clone())).collect(),
            sections: self.sections.values().cloned().collect(),
            section_preps: self.section_preps.values().cloned().collect(),
            sections_cut: self.sections_cut,
            logins: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Identity(identity) => self.identity = identity.clone(),
                Write::PeerObservations(observed) => {
                    let PeerObservations { permit_in, rolled_back, .. } = *observed;
                    self.observed = PeerObservations { permit_in, rolled_back, ..PeerObservations::default() };
                }
                Write::Lives(lives) => self.lives = lives.clone(),
                Write::Caution(caution) => self.caution = *caution,
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
                Write::Lease(..)
                | Write::Prep(_)
                | Write::DropPrep(_)
                | Write::PermitOut(_)
                | Write::Audit(_)
                | Write::Login(..) => {}
            }
        }
    }

    /// The first thing that a running ledger knows otherwise than this disk: it would be believed and not survive.
    pub(super) fn differs_from(&self, ledger: &Ledger) -> Option<&'static str> {
        let cursors = || self.cursors.iter().filter(|(_, (run, _))| *run == ledger.run());
        let left = ledger.cursors().iter().filter(|(_, cursor)| !cursor.spans().is_empty());
        let differs = [
            ("identity", ledger.identity() != &self.identity),
            ("starts", ledger.lives() != &self.lives),
            ("caution", ledger.caution() != &self.caution),
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

    /// What the other master said that it holds, as the running ledger believes it.
    pub(super) fn note_peer_has(&mut self, ledger: &Ledger) {
        for (record, held) in ledger.sections().stored() {
            if let Some((_, peer_has)) = self.sections.get_mut(&record.range.first()) {
                *peer_has = held;
            }
        }
    }

    /// How the axis stands here; `None` before anything of it was granted.
    pub(super) fn axis(&self) -> Option<common::segment::Axis> {
        self.settings.values().find_map(|setting| match &setting.value {
            SettingValue::Axis(axis) => Some(**axis),
            _ => None,
        })
    }

    /// What the present run may still grant.
    pub(super) fn spans(&self) -> impl Iterator<Item = Span> {
        let own = self.cursors.values().filter(|(run, _)| Some(*run) == self.run);
        own.flat_map(|(_, spans)| spans.iter().copied())
    }
}

/// The other master lets this one go on alone, as it does with its first heartbeat.
pub(super) fn permitted() -> PeerObservations {
    PeerObservations { permit_in: Some(PERMITTED), ..PeerObservations::default() }
}
