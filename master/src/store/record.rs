//! The records on disk: keys, and values in checksummed envelopes.
//!
//! | key | value |
//! |---|---|
//! | `i` | `IDEN` 2: [`Identity`] |
//! | `m` | `META` 10: [`Meta`], rewritten with every commit; its version grows with that of any other record |
//! | `o` | `PERM` 1: how far the other master may extend leases alone |
//! | `w` | `WITN` 1: [`PeerObservations`] |
//! | `v` | `LIVE` 2: [`Lives`] |
//! | `c` | `CAUT` 1: [`Caution`]; absent: there is nothing to be careful about |
//! | `l` family value (u32, big-endian) | `LEAS` 1: key and [`Lease`] |
//! | `p` family value (u32, big-endian) | `PREP` 1: [`Prep`] |
//! | `s` name | `SETT` 9: [`Setting`] |
//! | `t` name | `SETT` 9: a proposal of a [`Setting`] |
//! | `u` | `RUNS` 1: the run of this master that goes on ([`MasterRun`]); not counted |
//! | `x` name | `CURS` 1: run, name, and what the run has left of its extents of the name's axis |
//! | `q` name, 0, first section (u32, big-endian) | `SECT` 2: a [`SectionRecord`] and what the other master holds of its `max_seq` |
//! | `r` name, 0, first section (u32, big-endian) | `SPRP` 2: a proposal of a [`SectionRecord`] |
//! | `e` | `SCUT` 1: whether the sections were cut for the replacement that is awaited; absent: no |
//! | `k` hash (32 bytes) | `LOGN` 2: a [`Login`] at this master's console; not counted |
//! | `a` number (u64, big-endian) | `AUDT` 1: a line of the audit ([`super::audit`]) |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::audit::{Head, LINES_MAX};
use super::lineage::Unproven;
use crate::lease::Loaded;
use crate::lease::{Caution, Identity, Lives, PeerObservations, Write};
use common::account::{Login, SecretHash};
use common::envelope::{EnvelopeError, Kind, decode, encode};
use common::lease::{Lease, Prep};
use common::namespace::GeneratorName;
use common::segment::{MasterRun, Span};
use common::sequence::{SectionKey, SectionRange, SectionRecord};
use common::setting::{Setting, SettingKey};
use common::time::WallMs;
use common::token::{TokenFamily, TokenKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const IDENTITY: Kind = Kind { name: *b"IDEN", version: 2 };
const META: Kind = Kind { name: *b"META", version: 10 };
const PERMIT: Kind = Kind { name: *b"PERM", version: 1 };
const OBSERVED: Kind = Kind { name: *b"WITN", version: 1 };
const LIVES: Kind = Kind { name: *b"LIVE", version: 2 };
const CAUTION: Kind = Kind { name: *b"CAUT", version: 1 };
const LEASE: Kind = Kind { name: *b"LEAS", version: 1 };
const PREP: Kind = Kind { name: *b"PREP", version: 1 };
const SETTING: Kind = Kind { name: *b"SETT", version: 9 };
const RUN: Kind = Kind { name: *b"RUNS", version: 1 };
const CURSOR: Kind = Kind { name: *b"CURS", version: 1 };
const SECTION: Kind = Kind { name: *b"SECT", version: 2 };
const SECTION_PREP: Kind = Kind { name: *b"SPRP", version: 2 };
const SECTIONS_CUT: Kind = Kind { name: *b"SCUT", version: 1 };
const LOGIN: Kind = Kind { name: *b"LOGN", version: 2 };

pub const IDENTITY_KEY: &[u8] = b"i";
pub const META_KEY: &[u8] = b"m";
const PERMIT_KEY: &[u8] = b"o";
const OBSERVED_KEY: &[u8] = b"w";
const LIVES_KEY: &[u8] = b"v";
const CAUTION_KEY: &[u8] = b"c";
const RUN_KEY: &[u8] = b"u";
const CURSOR_TAG: u8 = b'x';
const LEASE_TAG: u8 = b'l';
const PREP_TAG: u8 = b'p';
const SETTING_TAG: u8 = b's';
const SETTING_PREP_TAG: u8 = b't';
const SECTION_TAG: u8 = b'q';
const SECTION_PREP_TAG: u8 = b'r';
const SECTIONS_CUT_KEY: &[u8] = b"e";
const LOGIN_TAG: u8 = b'k';
/// The first byte of the keys of audit lines.
pub const AUDIT_TAG: u8 = b'a';

/// Counts of a store's records: one that opens shorter than it was is noticed, not believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub lsn: u64,
    pub leases: u64,
    pub preps: u64,
    pub settings: u64,
    pub setting_preps: u64,
    pub audit: Head,
    pub sections: u64,
    pub section_preps: u64,
}

/// A change of one key; `None` removes it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// The changes of `writes`, in order. Lines of the audit are added to the chain that ends at `audit`.
///
/// # Errors
/// A record that is too large to be one.
pub fn changes(writes: &[Write], audit: &mut Head) -> Result<Vec<Change>, EnvelopeError> {
    let mut changes = Vec::with_capacity(writes.len());
    for write in writes {
        if let Write::Audit(entry) = write {
            let (number, bytes) = audit.add(entry)?;
            changes.push((audit_key(number), Some(bytes)));
            if let Some(oldest) = number.checked_sub(LINES_MAX).filter(|oldest| *oldest > 0) {
                changes.push((audit_key(oldest), None));
            }
        } else if let Write::Sections { gone, rows } = write {
            changes.extend(gone.iter().map(|key| (section_key(SECTION_TAG, key), None)));
            for row in rows {
                changes.push((section_key(SECTION_TAG, &row.0.range.first()), Some(encode(SECTION, row)?)));
            }
        } else if let Write::SectionPreps { gone, rows } = write {
            changes.extend(gone.iter().map(|key| (section_key(SECTION_PREP_TAG, key), None)));
            for row in rows {
                changes.push((section_key(SECTION_PREP_TAG, &row.range.first()), Some(encode(SECTION_PREP, row)?)));
            }
        } else {
            changes.push(change(write)?);
        }
    }
    Ok(changes)
}

fn change(write: &Write) -> Result<Change, EnvelopeError> {
    Ok(match write {
        Write::Lease(key, lease) => (row_key(LEASE_TAG, *key), Some(encode(LEASE, &(*key, lease))?)),
        Write::Prep(prep) => (row_key(PREP_TAG, prep.key), Some(encode(PREP, prep)?)),
        Write::DropPrep(key) => (row_key(PREP_TAG, *key), None),
        Write::PermitOut(permit) => (PERMIT_KEY.to_vec(), Some(encode(PERMIT, permit)?)),
        Write::PeerObservations(observed) => (OBSERVED_KEY.to_vec(), Some(encode(OBSERVED, observed)?)),
        Write::Lives(lives) => (LIVES_KEY.to_vec(), Some(encode(LIVES, lives)?)),
        Write::Caution(caution) => (CAUTION_KEY.to_vec(), Some(encode(CAUTION, caution)?)),
        Write::Identity(identity) => (IDENTITY_KEY.to_vec(), Some(encode(IDENTITY, identity)?)),
        Write::Setting(setting) => (setting_key(SETTING_TAG, &setting.key), Some(encode(SETTING, setting)?)),
        Write::DropSetting(key) => (setting_key(SETTING_TAG, key), None),
        Write::SettingPrep(prep) => (setting_key(SETTING_PREP_TAG, &prep.key), Some(encode(SETTING, prep)?)),
        Write::DropSettingPrep(key) => (setting_key(SETTING_PREP_TAG, key), None),
        Write::Run(run) => (RUN_KEY.to_vec(), Some(encode(RUN, run)?)),
        Write::Cursor { name, spans, .. } if spans.is_empty() => (cursor_key(name), None),
        Write::Cursor { run, name, spans } => (cursor_key(name), Some(encode(CURSOR, &(run, name, spans))?)),
        Write::Login(hash, login) => {
            let login = login.as_ref().map(|login| encode(LOGIN, &(*hash, login))).transpose()?;
            (login_key(*hash), login)
        }
        Write::SectionsCut(cut) => (SECTIONS_CUT_KEY.to_vec(), Some(encode(SECTIONS_CUT, cut)?)),
        // Several changes each, made by the caller.
        Write::Audit(_) | Write::Sections { .. } | Write::SectionPreps { .. } => (Vec::new(), None),
    })
}

/// The bytes of [`Meta`].
///
/// # Errors
/// None in practice; the envelope's.
pub fn meta_bytes(meta: &Meta) -> Result<Vec<u8>, EnvelopeError> {
    encode(META, meta)
}

/// [`Meta`] from its bytes.
///
/// # Errors
/// They are not what was written.
pub fn read_meta(bytes: &[u8]) -> Result<Meta, EnvelopeError> {
    decode(META, bytes)
}

/// The count that a record with this key belongs to.
pub fn counted(key: &[u8]) -> Option<Counted> {
    match key.first() {
        Some(&LEASE_TAG) => Some(Counted::Lease),
        Some(&PREP_TAG) => Some(Counted::Prep),
        Some(&SETTING_TAG) => Some(Counted::Setting),
        Some(&SETTING_PREP_TAG) => Some(Counted::SettingPrep),
        Some(&SECTION_TAG) => Some(Counted::Section),
        Some(&SECTION_PREP_TAG) => Some(Counted::SectionPrep),
        _ => None,
    }
}

/// The counts of [`Meta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Lease,
    Prep,
    Setting,
    SettingPrep,
    Section,
    SectionPrep,
}

impl Meta {
    pub fn count(&mut self, what: Counted) -> &mut u64 {
        match what {
            Counted::Lease => &mut self.leases,
            Counted::Prep => &mut self.preps,
            Counted::Setting => &mut self.settings,
            Counted::SettingPrep => &mut self.setting_preps,
            Counted::Section => &mut self.sections,
            Counted::SectionPrep => &mut self.section_preps,
        }
    }
}

/// The contents of a store's rows.
#[derive(Default)]
struct Rows {
    identity: Option<Identity>,
    meta: Option<Meta>,
    permit_out: Option<WallMs>,
    observed: PeerObservations,
    lives: Lives,
    caution: Caution,
    leases: Vec<(TokenKey, Lease)>,
    preps: Vec<Prep>,
    settings: Vec<Setting>,
    setting_preps: Vec<Setting>,
    run: Option<MasterRun>,
    cursors: Vec<(MasterRun, GeneratorName, Vec<Span>)>,
    sections: Vec<(SectionRecord, u64)>,
    section_preps: Vec<SectionRecord>,
    sections_cut: bool,
    logins: Vec<(SecretHash, Login)>,
    last_line: Option<Vec<u8>>,
}

impl Rows {
    fn take(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), String> {
        match key.first() {
            Some(b'i') if key == IDENTITY_KEY => self.identity = Some(read(IDENTITY, key, &value)?),
            Some(b'm') if key == META_KEY => self.meta = Some(read(META, key, &value)?),
            Some(b'o') if key == PERMIT_KEY => self.permit_out = read(PERMIT, key, &value)?,
            Some(b'w') if key == OBSERVED_KEY => self.observed = read(OBSERVED, key, &value)?,
            Some(b'v') if key == LIVES_KEY => self.lives = read(LIVES, key, &value)?,
            Some(b'c') if key == CAUTION_KEY => self.caution = read(CAUTION, key, &value)?,
            Some(b'u') if key == RUN_KEY => self.run = read(RUN, key, &value)?,
            Some(b'e') if key == SECTIONS_CUT_KEY => self.sections_cut = read(SECTIONS_CUT, key, &value)?,
            Some(&LEASE_TAG) => {
                self.leases.push(read_own(LEASE, key, &value, |(token, _)| row_key(LEASE_TAG, *token))?);
            }
            Some(&PREP_TAG) => self.preps.push(read_own(PREP, key, &value, |prep: &Prep| row_key(PREP_TAG, prep.key))?),
            Some(&tag @ (SETTING_TAG | SETTING_PREP_TAG)) => {
                let setting = read_own(SETTING, key, &value, |setting: &Setting| setting_key(tag, &setting.key))?;
                if !setting.plausible() {
                    return Err(format!("record {} is none that is written", key.escape_ascii()));
                }
                if tag == SETTING_TAG { self.settings.push(setting) } else { self.setting_preps.push(setting) }
            }
            Some(&CURSOR_TAG) => self.cursors.push(read_own(CURSOR, key, &value, |(_, name, _)| cursor_key(name))?),
            Some(&SECTION_TAG) => {
                let own = |(record, _): &(SectionRecord, u64)| section_key(SECTION_TAG, &record.range.first());
                self.sections.push(read_own(SECTION, key, &value, own)?);
            }
            Some(&SECTION_PREP_TAG) => {
                let own = |prep: &SectionRecord| section_key(SECTION_PREP_TAG, &prep.range.first());
                self.section_preps.push(read_own(SECTION_PREP, key, &value, own)?);
            }
            Some(&LOGIN_TAG) => self.logins.push(read_own(LOGIN, key, &value, |(hash, _)| login_key(*hash))?),
            // Only the last one is checked here; all of them would make a start slow (`--verify-audit` does).
            Some(&AUDIT_TAG) => self.last_line = Some(value),
            _ => return Err(format!("a record {} that this program does not know", key.escape_ascii())),
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(kind: Kind, key: &[u8], value: &[u8]) -> Result<T, String> {
    decode(kind, value).map_err(|e: EnvelopeError| format!("record {}: {e}", key.escape_ascii()))
}

/// Reads a record that says itself under which key it stands.
fn read_own<T: DeserializeOwned>(
    kind: Kind,
    key: &[u8],
    value: &[u8],
    own: impl FnOnce(&T) -> Vec<u8>,
) -> Result<T, String> {
    let record = read(kind, key, value)?;
    if own(&record) == key {
        Ok(record)
    } else {
        Err(format!("record {} stands under another's key", key.escape_ascii()))
    }
}

/// Reads all rows of a store, believing none that does not fit.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn load(stored: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), String>>) -> Result<(Loaded, Meta), String> {
    let mut rows = Rows::default();
    for row in stored {
        let (key, value) = row?;
        rows.take(&key, value)?;
    }
    let Rows { identity, meta, leases, preps, settings, setting_preps, sections, section_preps, .. } = rows;
    let identity = identity.ok_or("the identity record is missing")?;
    let meta = meta.ok_or("the count of records is missing")?;
    let found = [leases.len(), preps.len(), settings.len(), setting_preps.len(), sections.len(), section_preps.len()];
    let found = found.map(|count| count as u64);
    let written = [meta.leases, meta.preps, meta.settings, meta.setting_preps, meta.sections, meta.section_preps];
    if found != written {
        return Err(format!(
            "there are {found:?} leases, settings and sections, each with its proposals, but {written:?} were written"
        ));
    }
    let overlap = first_overlap(sections.iter().map(|(record, _)| record)).or(first_overlap(section_preps.iter()));
    if let Some(range) = overlap {
        return Err(format!("the record of section {range} reaches into another one"));
    }
    if !meta.audit.ends_with(rows.last_line.as_deref()) {
        return Err(format!("the audit does not end with line {}, which was written last", meta.audit.number));
    }
    let loaded = Loaded {
        identity,
        lsn: meta.lsn,
        permit_out: rows.permit_out,
        observed: rows.observed,
        proven: if rows.lives.unproven { Err(Unproven::NotMetSince) } else { Ok(()) },
        lives: rows.lives,
        caution: rows.caution,
        leases,
        preps,
        settings,
        setting_preps,
        run: rows.run,
        cursors: rows.cursors,
        sections,
        section_preps,
        sections_cut: rows.sections_cut,
        logins: rows.logins,
    };
    Ok((loaded, meta))
}

/// The range of a record that is empty or reaches into the one before it: rows come by name and first section.
fn first_overlap<'a>(records: impl Iterator<Item = &'a SectionRecord>) -> Option<&'a SectionRange> {
    let mut last: Option<&SectionRange> = None;
    for record in records {
        let reaches = |last: &SectionRange| last.name == record.range.name && last.to > record.range.from;
        if record.range.is_empty() || last.is_some_and(reaches) {
            return Some(&record.range);
        }
        last = Some(&record.range);
    }
    None
}

/// The key of a line of the audit.
pub fn audit_key(number: u64) -> Vec<u8> {
    let mut bytes = vec![AUDIT_TAG];
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes
}

fn cursor_key(name: &GeneratorName) -> Vec<u8> {
    [&[CURSOR_TAG], name.as_str().as_bytes()].concat()
}

fn login_key(hash: SecretHash) -> Vec<u8> {
    let mut bytes = vec![LOGIN_TAG];
    bytes.extend_from_slice(&hash.0);
    bytes
}

fn section_key(tag: u8, key: &SectionKey) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(key.name.as_str().as_bytes());
    // No name has such a byte.
    bytes.push(0);
    bytes.extend_from_slice(&key.section.0.to_be_bytes());
    bytes
}

fn setting_key(tag: u8, key: &SettingKey) -> Vec<u8> {
    let mut bytes = vec![tag];
    match key {
        SettingKey::Whitelist => bytes.push(b'w'),
        SettingKey::Users => bytes.push(b'u'),
        SettingKey::Credentials => bytes.push(b'k'),
        SettingKey::RetiredNames(part) => {
            bytes.push(b'z');
            bytes.extend_from_slice(&part.to_be_bytes());
        }
        SettingKey::Namespace(name) => {
            bytes.push(b'n');
            bytes.extend_from_slice(name.as_str().as_bytes());
        }
        SettingKey::Axis(name) => {
            bytes.push(b'x');
            bytes.extend_from_slice(name.as_str().as_bytes());
        }
        SettingKey::About(name) => {
            bytes.push(b'a');
            bytes.extend_from_slice(name.as_str().as_bytes());
        }
    }
    bytes
}

fn row_key(tag: u8, key: TokenKey) -> Vec<u8> {
    let family = match key.family {
        TokenFamily::String2 => 2,
        TokenFamily::String3 => 3,
        TokenFamily::Uint => 20,
    };
    let mut bytes = vec![tag, family];
    bytes.extend_from_slice(&key.value.0.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_store_grows_with_that_of_any_record() {
        let records = [
            IDENTITY,
            PERMIT,
            OBSERVED,
            LIVES,
            CAUTION,
            LEASE,
            PREP,
            SETTING,
            RUN,
            CURSOR,
            SECTION,
            SECTION_PREP,
            SECTIONS_CUT,
            LOGIN,
        ];
        let sum: u16 = records.map(|kind| kind.version).iter().sum();
        assert_eq!((sum, META.version), (27, 10), "both grow together");
    }
}
