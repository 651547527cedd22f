//! Proofs of what only the two masters of a pairing can have said: a keyed hash (HMAC-SHA256) under the pairing's random id, which is
//! kept in their stores and told to nobody else.
//!
//! A seal tells a message of the pairing from a stranger's, without showing the id to whoever listens on the other master's
//! port; a receipt lets an agent carry home what a master promised, so that masters whose disks were put back learn of it
//! and no stranger can make it up.

use hmac::{Hmac, KeyInit as _, Mac as _};
use ids::parameters::EpochId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// The purpose of a proof. One made for one purpose proves nothing for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Message,
    /// A master's promise to an agent.
    Receipt,
    /// The place up to which a master granted an axis.
    Segment,
    /// The owner of a section.
    Section,
    /// The end of the pairing.
    Retired,
    /// Proves that a name is in use, or retired.
    Name,
    /// Proves that a name is retired, whatever it stood for.
    RetiredName,
}

/// A keyed hash of 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proof([u8; 32]);

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof(..)")
    }
}

impl From<[u8; 32]> for Proof {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<Proof> for [u8; 32] {
    fn from(proof: Proof) -> Self {
        proof.0
    }
}

impl Proof {
    /// The proof that a master of `pairing` said `bytes`.
    pub fn of(pairing: EpochId, purpose: Purpose, bytes: &[u8]) -> Self {
        let key = pairing.0.to_le_bytes();
        // A key of any length will do for this hash.
        #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any length");
        mac.update(purpose.label());
        mac.update(bytes);
        Self(mac.finalize().into_bytes().into())
    }

    /// Tells whether this is that proof; takes as long whatever differs.
    pub fn proves(&self, pairing: EpochId, purpose: Purpose, bytes: &[u8]) -> bool {
        Self::of(pairing, purpose, bytes).0.ct_eq(&self.0).into()
    }
}

impl Purpose {
    /// All of one length, so that no label with its bytes is another with others.
    fn label(self) -> &'static [u8; 8] {
        match self {
            Self::Message => b"message\0",
            Self::Receipt => b"receipt\0",
            Self::Segment => b"segment\0",
            Self::Section => b"section\0",
            Self::Retired => b"retired\0",
            Self::Name => b"name\0\0\0\0",
            Self::RetiredName => b"retname\0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_pairing_one_purpose_and_one_text() {
        let proof = Proof::of(EpochId(1), Purpose::Receipt, b"text");
        assert!(proof.proves(EpochId(1), Purpose::Receipt, b"text"));
        assert!(!proof.proves(EpochId(2), Purpose::Receipt, b"text"));
        assert!(!proof.proves(EpochId(1), Purpose::Message, b"text"));
        assert!(!proof.proves(EpochId(1), Purpose::Receipt, b"texts"));
    }
}
