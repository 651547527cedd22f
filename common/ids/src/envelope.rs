//! The wrapper of everything we keep on disk but the serial file: kind, version, length, checksum, payload.
//!
//! Layout, little-endian: `0 kind[4] · 4 u16 version · 6 u16 codec (1 = bincode 1, fixed-width integers) · 8 u32 payload
//! length · 12 u32 CRC-32C of all bytes but these four · 16 payload`. A record is believed only if every byte agrees;
//! one of another version is refused by name.

use bincode::Options as _;
use serde::{Serialize, de::DeserializeOwned};

/// Bytes before the payload.
pub const HEADER_LEN: usize = 16;
/// The longest payload, in bytes: far above any record of ours, far below what could hurt.
pub const PAYLOAD_LEN_MAX: usize = 8 << 20;
const CODEC_BINCODE1_FIXINT: u16 = 1;
/// The place at which a record says how long its payload is.
const PAYLOAD_LEN_AT: std::ops::Range<usize> = 8..12;

/// The kind of a record: four letters and a version, e.g. `LEAS` 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Four ASCII letters.
    pub name: [u8; 4],
    /// Grows with every change of the payload's layout.
    pub version: u16,
}

/// The reason why bytes are not a record of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Fewer bytes than a header, or another length than it says.
    #[error("the record is cut or has bytes left over ({found} bytes)")]
    Length {
        /// Bytes there are.
        found: usize,
    },
    /// Another kind of record.
    #[error("this is a record of another kind")]
    Kind,
    /// A version or codec this program does not know.
    #[error("the record has version {found}, this program reads {known}")]
    Version {
        /// The version in the record.
        found: u16,
        /// The version this program reads.
        known: u16,
    },
    /// The checksum does not fit.
    #[error("the record's checksum does not fit its bytes")]
    Checksum,
    /// The payload cannot be encoded or decoded.
    #[error("the record's payload is malformed: {0}")]
    Payload(String),
}

fn codec() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(PAYLOAD_LEN_MAX as u64)
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), payload)
}

/// Wraps `value` as a record of `kind`.
///
/// # Errors
/// [`EnvelopeError::Payload`] if it does not fit [`PAYLOAD_LEN_MAX`].
pub fn encode<T: Serialize>(kind: Kind, value: &T) -> Result<Vec<u8>, EnvelopeError> {
    let payload = codec().serialize(value).map_err(|e| EnvelopeError::Payload(e.to_string()))?;
    let len = u32::try_from(payload.len()).map_err(|e| EnvelopeError::Payload(e.to_string()))?;
    let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len());
    bytes.extend_from_slice(&kind.name);
    bytes.extend_from_slice(&kind.version.to_le_bytes());
    bytes.extend_from_slice(&CODEC_BINCODE1_FIXINT.to_le_bytes());
    bytes.extend_from_slice(&len.to_le_bytes());
    let sum = checksum(&bytes, &payload);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(&payload);
    Ok(bytes)
}

/// Unwraps a record of `kind`, checking every byte.
///
/// # Errors
/// Whatever does not agree: see [`EnvelopeError`].
pub fn decode<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, EnvelopeError> {
    let cut = EnvelopeError::Length { found: bytes.len() };
    let (header, payload) = bytes.split_at_checked(HEADER_LEN).ok_or_else(|| cut.clone())?;
    let (covered, sum) = header.split_at_checked(HEADER_LEN - 4).ok_or_else(|| cut.clone())?;
    let &[n0, n1, n2, n3, v0, v1, c0, c1, l0, l1, l2, l3] = covered else { return Err(cut) };
    if [n0, n1, n2, n3] != kind.name {
        return Err(EnvelopeError::Kind);
    }
    if usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])) != Ok(payload.len()) {
        return Err(cut);
    }
    if checksum(covered, payload).to_le_bytes() != sum {
        return Err(EnvelopeError::Checksum);
    }
    let version = u16::from_le_bytes([v0, v1]);
    if version != kind.version || u16::from_le_bytes([c0, c1]) != CODEC_BINCODE1_FIXINT {
        return Err(EnvelopeError::Version { found: version, known: kind.version });
    }
    codec().deserialize(payload).map_err(|e| EnvelopeError::Payload(e.to_string()))
}

/// Splits the first one off records that follow each other, by the length that it says.
///
/// # Errors
/// [`EnvelopeError::Length`] if it is cut.
pub fn split_first(bytes: &[u8]) -> Result<(&[u8], &[u8]), EnvelopeError> {
    let cut = EnvelopeError::Length { found: bytes.len() };
    let len = bytes.get(PAYLOAD_LEN_AT).and_then(|len| Some(u32::from_le_bytes(len.try_into().ok()?)));
    let len = len.and_then(|len| HEADER_LEN.checked_add(usize::try_from(len).ok()?));
    len.and_then(|len| bytes.split_at_checked(len)).ok_or(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIND: Kind = Kind { name: *b"TEST", version: 1 };

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = encode(KIND, &("agent".to_owned(), 7u64)).unwrap();
        assert_eq!(decode::<(String, u64)>(KIND, &bytes).unwrap(), ("agent".to_owned(), 7));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<(String, u64)>(KIND, &damaged).is_err(), "bit {bit} went unnoticed");
        }
        for len in 0..bytes.len() {
            assert!(decode::<(String, u64)>(KIND, &bytes[..len]).is_err(), "a cut at {len} went unnoticed");
        }
    }

    #[test]
    fn another_version_is_named() {
        let bytes = encode(Kind { version: 2, ..KIND }, &1u8).unwrap();
        assert_eq!(decode::<u8>(KIND, &bytes), Err(EnvelopeError::Version { found: 2, known: 1 }));
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode::<Vec<String>>(KIND, &bytes).is_err());
        }
    }
}
