//! A master's disk: the product's store in memory, which gets what was committed only when somebody reads it.
//!
//! Between two starts of a master nobody looks at its disk, and most records are written over many times: each is
//! encoded, checksummed and decoded by the product's own code, but once per start instead of once per commit.

use ledger::lease::Loaded;
use ledger::lease::{Identity, Write};
use master::store::Store as _;
use master::store::lineage::Unproven;
use master::store::memory::MemoryStore;
use std::collections::BTreeMap;

use common::namespace::GeneratorName;
use common::sequence::SectionKey;
use common::setting::SettingKey;
use common::token::TokenKey;

/// The place that a write replaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Identity,
    Permit,
    PeerObservations,
    Lives,
    Caution,
    Lease(TokenKey),
    Prep(TokenKey),
    Setting(SettingKey),
    SettingPrep(SettingKey),
    Run,
    Cursor(GeneratorName),
    Section(SectionKey),
    SectionPrep(SectionKey),
    SectionsCut,
}

/// A write of several rows as one of each.
fn row_by_row(write: Write) -> Vec<(Place, Write)> {
    match write {
        Write::Sections { gone, rows } => {
            let gone = gone
                .into_iter()
                .map(|key| (Place::Section(key.clone()), Write::Sections { gone: vec![key], rows: Vec::new() }));
            let rows = rows
                .into_iter()
                .map(|(record, held)| (Place::Section(record.range.first()), Write::sections(record, held)));
            gone.chain(rows).collect()
        }
        Write::SectionPreps { gone, rows } => {
            let gone = gone.into_iter().map(|key| {
                (Place::SectionPrep(key.clone()), Write::SectionPreps { gone: vec![key], rows: Vec::new() })
            });
            let rows = rows.into_iter().map(|prep| {
                (Place::SectionPrep(prep.range.first()), Write::SectionPreps { gone: Vec::new(), rows: vec![prep] })
            });
            gone.chain(rows).collect()
        }
        _ => Vec::new(),
    }
}

/// The disk.
#[derive(Debug, Default)]
pub struct Shelf {
    store: MemoryStore,
    newest: BTreeMap<Place, Write>,
    lsn: u64,
    /// True if it is a copy, was put back, or its machine was booted anew, since it was last opened.
    disturbed: bool,
}

impl Shelf {
    /// A store with this identity and nothing else.
    pub fn format(identity: Identity) -> Self {
        Self { store: MemoryStore::of(identity).expect("memory"), ..Self::default() }
    }

    /// Makes all of it durable.
    pub fn commit(&mut self, writes: impl IntoIterator<Item = Write>, lsn: u64) {
        for write in writes {
            let place = match &write {
                Write::Identity(_) => Place::Identity,
                Write::PermitOut(_) => Place::Permit,
                Write::PeerObservations(_) => Place::PeerObservations,
                Write::Lives(_) => Place::Lives,
                Write::Caution(_) => Place::Caution,
                Write::Lease(key, _) => Place::Lease(*key),
                Write::Prep(prep) => Place::Prep(prep.key),
                Write::DropPrep(key) => Place::Prep(*key),
                Write::Setting(setting) => Place::Setting(setting.key.clone()),
                Write::DropSetting(key) => Place::Setting(key.clone()),
                Write::SettingPrep(prep) => Place::SettingPrep(prep.key.clone()),
                Write::DropSettingPrep(key) => Place::SettingPrep(key.clone()),
                Write::Run(_) => Place::Run,
                Write::Cursor { name, .. } => Place::Cursor(name.clone()),
                Write::Sections { .. } | Write::SectionPreps { .. } => {
                    self.newest.extend(row_by_row(write));
                    continue;
                }
                Write::SectionsCut(_) => Place::SectionsCut,
                // Lines of the audit and logins decide nothing.
                Write::Audit(_) | Write::Login(..) => continue,
            };
            self.newest.insert(place, write);
        }
        self.lsn = lsn;
    }

    /// The same without a change of its number.
    pub fn commit_as_is(&mut self, writes: Vec<Write>) {
        self.settle();
        let lsn = self.lsn;
        self.commit(writes, lsn);
    }

    fn settle(&mut self) {
        if !self.newest.is_empty() {
            let writes: Vec<Write> = std::mem::take(&mut self.newest).into_values().collect();
            self.store.commit(&writes, self.lsn).expect("memory");
        }
    }

    /// Loads what is on it.
    pub fn load(&mut self) -> Loaded {
        self.settle();
        let loaded = self.store.load().expect("a store of ours");
        let proven = if self.disturbed { Err(Unproven::Copied) } else { loaded.proven };
        Loaded { lsn: self.lsn.max(loaded.lsn), proven, ..loaded }
    }

    /// Notes that it is not the untouched one any more that its master last wrote.
    pub fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Lets it look like the untouched one: its master has written to it, or what is left out is its lineage.
    pub fn settle_lineage(&mut self) {
        self.disturbed = false;
    }

    /// A copy that later commits do not change: a backup.
    pub fn snapshot(&mut self) -> Self {
        self.settle();
        Self { store: self.store.snapshot(), newest: BTreeMap::new(), lsn: self.lsn, disturbed: self.disturbed }
    }
}
