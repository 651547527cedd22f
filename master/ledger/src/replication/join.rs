//! Replacing a master that is gone for good, or that is believed to be.
//!
//! The operator declares it lost on the stopped survivor: a new pairing begins, every open lease is extended to what the
//! lost one was permitted to promise, and every proposal of the survivor counts as confirmed and answered, because it may
//! have been. Then a new store joins with a one-use token. Nothing of this needs the lost master to be really dead: it
//! can extend nothing past the permit, and messages of its pairing are refused.

use super::rules;
use crate::lease::event::FORMER_MAX;
use crate::lease::remedy;
use crate::lease::{Identity, Lives, Loaded, PeerObservations, TokenHash, Write};
use ids::audit::{Action, Actor, Entry};
use ids::lease::{Lease, LeaseState};
use ids::parameters::{EpochId, MasterId};
use ids::sequence::SectionRecord;
use ids::time::WallMs;
use ids::token::TokenKey;
use wire::peer::Begun;

/// The writes that make `survivor` go on without its peer: one atomic commit.
pub fn declare_lost(survivor: &Loaded, epoch: EpochId, token: TokenHash, actor: Actor, at: WallMs) -> Vec<Write> {
    let bound = survivor.permit_out;
    let extended = |lease: &Lease| Lease { until: bound.map_or(lease.until, |b| lease.until.max(b)), ..lease.clone() };
    let open = survivor.leases.iter().filter(|(_, lease)| lease.state != LeaseState::Closed);
    let subject = format!("master {}", survivor.identity.master.other());
    let detail = format!("leases extended to {}", bound.map_or_else(|| "what they were".to_owned(), |b| b.to_string()));
    let mut writes = vec![Write::Audit(Entry::new(at, actor, Action::PeerLost, &subject, &detail))];
    writes.extend(open.map(|(key, lease)| Write::Lease(*key, extended(lease))));
    for prep in &survivor.preps {
        writes.push(Write::DropPrep(prep.key));
        writes.push(Write::Lease(prep.key, extended(&Lease::from_prep(prep))));
    }
    for prep in &survivor.setting_preps {
        writes.push(Write::DropSettingPrep(prep.key.clone()));
        writes.push(Write::Setting(prep.clone()));
    }
    let identity = &survivor.identity;
    let mut former: Vec<EpochId> = identity.former.iter().copied().chain(identity.epoch).collect();
    former.drain(..former.len().saturating_sub(FORMER_MAX));
    writes.push(Write::Identity(Identity {
        epoch: Some(epoch),
        pair_epoch: identity.pair_epoch.saturating_add(1),
        former,
        awaiting: Some(token),
        ..identity.clone()
    }));
    if !survivor.sections.is_empty() || !survivor.section_preps.is_empty() {
        writes.extend(sections_without_peer(survivor));
    }
    writes.push(Write::PermitOut(None));
    // What the lost master permitted still stands: until a new one's snapshot is cut, this ledger alone knows what is
    // renewed by it.
    writes.push(Write::PeerObservations(PeerObservations { peer_lsn: 0, ..survivor.observed }));
    writes.push(Write::Lives(Lives {
        peer: None,
        peer_ended: Vec::new(),
        peer_copied: false,
        ..survivor.lives.clone()
    }));
    writes.extend(remedy::end_unproven_run(survivor));
    writes
}

/// The first writes of the new store of master `me`: all that is not a record.
pub fn first_writes(me: MasterId, begun: Begun) -> (Identity, Write) {
    let Begun { cluster, epoch, pair_epoch, former, parameters, caution } = begun;
    let (cluster, epoch) = (Some(cluster), Some(epoch));
    let identity =
        Identity { master: me, cluster, epoch, pair_epoch, former, paired: true, parameters, awaiting: None };
    (identity, Write::Caution(caution))
}

/// A section of the survivor as the joining master takes it: the survivor holds as much.
pub fn section_taken_over(record: SectionRecord) -> Write {
    let held = record.max_seq;
    Write::sections(record, held)
}

/// Whatever the lost master may have raised alone is skipped in every section, and whoever a section was proposed to has it, because the
/// lost one may have listed it for them. Until a replacement takes them over nobody else raises them, so what is written is what all hold.
fn sections_without_peer(survivor: &Loaded) -> Vec<Write> {
    let beyond = remedy::sections_beyond(survivor, 0, 0).into_iter().map(|write| match write {
        Write::Sections { gone, rows } => {
            let rows = rows.into_iter().map(|(record, _)| (record.max_seq, record));
            Write::Sections { gone, rows: rows.map(|(held, record)| (record, held)).collect() }
        }
        other => other,
    });
    std::iter::once(Write::SectionsCut(false)).chain(beyond).collect()
}

/// A record of the survivor as the joining master `me` takes it: what the other has ended, and the home hears of now, is
/// closed.
pub fn taken_over(me: MasterId, key: TokenKey, lease: Lease) -> Lease {
    let closed = rules::home(key) == me && lease.state == LeaseState::Closing;
    Lease { state: if closed { LeaseState::Closed } else { lease.state }, ..lease }
}
