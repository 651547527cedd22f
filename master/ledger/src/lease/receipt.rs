//! Receipts: what a master promised, in the holder's hands, so that masters whose disks were put back learn of it.
//!
//! The number of the last change shows that one of the two was put back; where both were put back to the same moment nothing
//! does but what they promised since. A receipt is made under the pairing's id, so no stranger can freeze a cluster, nor stop a name of
//! plain numbers.

use crate::proof::{Proof, Purpose};
use bincode::Options as _;
use ids::lease::{Generation, Receipt};
use ids::namespace::{GeneratorName, Namespace};
use ids::parameters::{EpochId, SessionId};
use ids::segment::Shown;
use ids::sequence::SectionRange;
use ids::setting::is_known_by_name;
use ids::time::WallMs;
use ids::token::TokenKey;
use wire::lease::{NameProof, NameState, Registered, RetiredOnly};
use wire::ranges::SectionReceipt;

/// The bytes that a receipt of a lease proves.
pub(crate) fn said(key: TokenKey, g: Generation, session: SessionId, from: WallMs, until: WallMs) -> Option<Vec<u8>> {
    let codec = bincode::DefaultOptions::new().with_fixint_encoding();
    codec.serialize(&(key, g, session, from, until)).ok()
}

/// The receipt of the masters of `pairing` for a promise.
pub fn receipt(
    pairing: EpochId,
    key: TokenKey,
    g: Generation,
    session: SessionId,
    (from, until): (WallMs, WallMs),
) -> Option<Receipt> {
    let proof = Proof::of(pairing, Purpose::Receipt, &said(key, g, session, from, until)?).into();
    Some(Receipt { from, until, proof })
}

/// The bytes that are proved of places that were granted: those of a name before `to`. They do not name the session, which
/// may go on as another one.
fn granted(name: &GeneratorName, to: u64) -> Option<Vec<u8>> {
    let codec = bincode::DefaultOptions::new().with_fixint_encoding();
    codec.serialize(&(name, to)).ok()
}

/// The proof of the masters of `pairing` that they granted the places of a name before `to`.
pub(crate) fn proof_of_places(pairing: EpochId, name: &GeneratorName, to: u64) -> Option<[u8; 32]> {
    Some(Proof::of(pairing, Purpose::Segment, &granted(name, to)?).into())
}

/// Tells whether the masters of one of these pairings granted what is shown of a name.
pub(crate) fn places_were_granted<'a>(
    mut pairings: impl Iterator<Item = &'a EpochId>,
    name: &GeneratorName,
    shown: &Shown,
) -> bool {
    let Some((proof, granted)) = shown.proof.map(Proof::from).zip(granted(name, shown.to)) else { return false };
    pairings.any(|pairing| proof.proves(*pairing, Purpose::Segment, &granted))
}

/// Gives what is proved of a name; `None` of one by which no ID was given, of which there is nothing to be remembered.
fn said_of_name(namespace: &Namespace, state: NameState) -> Option<Vec<u8>> {
    let codec = bincode::DefaultOptions::new().with_fixint_encoding();
    (state != NameState::Unused).then(|| codec.serialize(&(namespace, state)).ok()).flatten()
}

/// A name as the masters of `pairing` tell it, with their word for it.
pub fn told(pairing: Option<EpochId>, namespace: Namespace, state: NameState) -> Registered {
    let said = pairing.zip(said_of_name(&namespace, state));
    let proof = said.map(|(pairing, said)| NameProof(Proof::of(pairing, Purpose::Name, &said).into()));
    Registered { namespace, state, proof }
}

/// A retired name of which no more is known, as the masters of `pairing` tell it.
pub fn told_by_name(pairing: Option<EpochId>, name: GeneratorName) -> RetiredOnly {
    let proof = |pairing| NameProof(Proof::of(pairing, Purpose::RetiredName, name.as_str().as_bytes()).into());
    RetiredOnly { proof: pairing.map(proof), name }
}

/// Tells whether the masters of one of these pairings told a name so.
pub(crate) fn was_told<'a>(mut pairings: impl Iterator<Item = &'a EpochId>, shown: &Registered) -> bool {
    let Registered { namespace, state, proof } = shown;
    let Some((proof, said)) = proof.zip(said_of_name(namespace, *state)) else { return false };
    let (proof, name) = (Proof::from(proof.0), namespace.name().as_str().as_bytes());
    // Then the definition is the caller's own, and says nothing that any other name depends on.
    let by_name = *state == NameState::Retired && is_known_by_name(namespace);
    pairings.any(|pairing| {
        proof.proves(*pairing, Purpose::Name, &said) || by_name && proof.proves(*pairing, Purpose::RetiredName, name)
    })
}

/// The bytes that a receipt of sections proves.
pub(crate) fn said_of_sections(sections: &SectionRange, g: Generation, session: SessionId) -> Option<Vec<u8>> {
    let codec = bincode::DefaultOptions::new().with_fixint_encoding();
    codec.serialize(&(sections, g, session)).ok()
}

/// The receipt of the masters of `pairing` for sections that a session owns under `g`.
pub fn section_receipt(
    pairing: EpochId,
    sections: &SectionRange,
    g: Generation,
    session: SessionId,
) -> Option<SectionReceipt> {
    Some(SectionReceipt(Proof::of(pairing, Purpose::Section, &said_of_sections(sections, g, session)?).into()))
}
