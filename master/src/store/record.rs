//! The records on disk: keys, and values in checksummed envelopes.
//!
//! | key | value |
//! |---|---|
//! | `i` | `IDEN` 2: [`Identity`] |
//! | `m` | `META` 1: [`Meta`], rewritten with every commit |
//! | `o` | `PERM` 1: how far the other master may extend leases alone |
//! | `w` | `WITN` 1: [`Witness`] |
//! | `l` family value (u32, big-endian) | `LEAS` 1: key and [`Lease`] |
//! | `p` family value (u32, big-endian) | `PREP` 1: [`Prep`] |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::lease::ledger::Loaded;
use crate::lease::{Identity, Witness, Write};
use common::envelope::{EnvelopeError, Kind, decode, encode};
use common::lease::{Lease, Prep};
use common::time::WallMs;
use common::token::{TokenFamily, TokenKey};
use serde::{Deserialize, Serialize};

const IDENTITY: Kind = Kind { name: *b"IDEN", version: 2 };
const META: Kind = Kind { name: *b"META", version: 1 };
const PERMIT: Kind = Kind { name: *b"PERM", version: 1 };
const WITNESS: Kind = Kind { name: *b"WITN", version: 1 };
const LEASE: Kind = Kind { name: *b"LEAS", version: 1 };
const PREP: Kind = Kind { name: *b"PREP", version: 1 };

/// The key of [`Identity`].
pub const IDENTITY_KEY: &[u8] = b"i";
/// The key of [`Meta`].
pub const META_KEY: &[u8] = b"m";
const PERMIT_KEY: &[u8] = b"o";
const WITNESS_KEY: &[u8] = b"w";
const LEASE_TAG: u8 = b'l';
const PREP_TAG: u8 = b'p';

/// How much there must be: a store that opens shorter than it was is noticed, not believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The last durable change.
    pub lsn: u64,
    /// How many leases there are.
    pub leases: u64,
    /// How many proposals there are.
    pub preps: u64,
}

/// A change of one key; `None` removes it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// The changes of `writes`, in order.
///
/// # Errors
/// A record that is too large to be one.
pub fn changes(writes: &[Write]) -> Result<Vec<Change>, EnvelopeError> {
    writes
        .iter()
        .map(|write| {
            Ok(match write {
                Write::Lease(key, lease) => (row_key(LEASE_TAG, *key), Some(encode(LEASE, &(*key, lease))?)),
                Write::Prep(prep) => (row_key(PREP_TAG, prep.key), Some(encode(PREP, prep)?)),
                Write::DropPrep(key) => (row_key(PREP_TAG, *key), None),
                Write::PermitOut(permit) => (PERMIT_KEY.to_vec(), Some(encode(PERMIT, permit)?)),
                Write::Witness(witness) => (WITNESS_KEY.to_vec(), Some(encode(WITNESS, witness)?)),
                Write::Identity(identity) => (IDENTITY_KEY.to_vec(), Some(encode(IDENTITY, identity)?)),
            })
        })
        .collect()
}

/// The bytes of [`Meta`].
///
/// # Errors
/// None in practice; the envelope's.
pub fn meta_bytes(meta: &Meta) -> Result<Vec<u8>, EnvelopeError> {
    encode(META, meta)
}

/// Whether a key is that of a lease or a proposal, for counting.
pub fn counted(key: &[u8]) -> Option<Counted> {
    match key.first() {
        Some(&LEASE_TAG) => Some(Counted::Lease),
        Some(&PREP_TAG) => Some(Counted::Prep),
        _ => None,
    }
}

/// What is counted in [`Meta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A lease.
    Lease,
    /// A proposal.
    Prep,
}

/// Reads all rows of a store, believing none that does not fit.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn load(rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), String>>) -> Result<(Loaded, Meta), String> {
    let (mut identity, mut meta, mut permit_out, mut witness) = (None, None, None, Witness::default());
    let (mut leases, mut preps) = (Vec::new(), Vec::new());
    for row in rows {
        let (key, value) = row?;
        let bad = |e: EnvelopeError| format!("record {}: {e}", key.escape_ascii());
        match key.first() {
            Some(b'i') if key == IDENTITY_KEY => identity = Some(decode::<Identity>(IDENTITY, &value).map_err(bad)?),
            Some(b'm') if key == META_KEY => meta = Some(decode::<Meta>(META, &value).map_err(bad)?),
            Some(b'o') if key == PERMIT_KEY => permit_out = decode::<Option<WallMs>>(PERMIT, &value).map_err(bad)?,
            Some(b'w') if key == WITNESS_KEY => witness = decode::<Witness>(WITNESS, &value).map_err(bad)?,
            Some(&LEASE_TAG) => {
                let (token, lease) = decode::<(TokenKey, Lease)>(LEASE, &value).map_err(bad)?;
                if row_key(LEASE_TAG, token) != key {
                    return Err(format!("record {} stands under another's key", key.escape_ascii()));
                }
                leases.push((token, lease));
            }
            Some(&PREP_TAG) => {
                let prep = decode::<Prep>(PREP, &value).map_err(bad)?;
                if row_key(PREP_TAG, prep.key) != key {
                    return Err(format!("record {} stands under another's key", key.escape_ascii()));
                }
                preps.push(prep);
            }
            _ => return Err(format!("a record {} that this program does not know", key.escape_ascii())),
        }
    }
    let identity = identity.ok_or("the identity record is missing")?;
    let meta = meta.ok_or("the count of records is missing")?;
    let found = (leases.len() as u64, preps.len() as u64);
    if found != (meta.leases, meta.preps) {
        return Err(format!(
            "there are {} leases and {} proposals, but {} and {} were written",
            found.0, found.1, meta.leases, meta.preps
        ));
    }
    Ok((Loaded { identity, lsn: meta.lsn, permit_out, witness, leases, preps }, meta))
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
