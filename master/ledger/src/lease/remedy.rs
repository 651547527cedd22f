//! An operator's decisions on a stopped master, as writes into its store: after both disks were put back, after both
//! calendars were wrong, for a store that nothing but a human can vouch for. Each is audited.

use super::event::{PeerObservations, Write};
use super::{Loaded, Unproven};
use crate::replication::lives::Lives;
use crate::section::rules::covering;
use crate::section::{HeldSection, Piece, SectionTable, Terms};
use ids::audit::{Action, Actor, Entry};
use ids::lease::{Caution, Floor, Generation, Lease};
use ids::namespace::GeneratorName;
use ids::parameters::ClusterParameters;
use ids::sequence::{SectionKey, SectionRecord};
use ids::setting::{Setting, SettingKey};
use ids::time::WallMs;
use ids::token::TokenValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Owners of a section that are skipped after both ledgers were put back: more than any can have had since a backup.
const OWNERS_FORGOTTEN: u64 = 1 << 32;

/// A word of an operator that does not stand for what only the replacement of the other master knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this master waits for a replacement to join, and its store is not proven to be the one it last wrote ({0}): one may have joined since. \
     If one has, this master is over: take it away, run `uniq_master --peer-lost` on the replacement, and let a new one --join there. If you \
     know that none ever joined, say so with --vouch-untouched beside it"
)]
pub struct MayHaveJoined(Unproven);

/// The writes by which an operator says how to go on after both ledgers were put back, on a stopped master: what this ledger
/// had proposed counts as granted, and nothing that the forgotten ledger may have promised is granted before it is over. In each section
/// that it knows `skip` numbers are skipped, and never fewer than a master may have raised alone. Its owner becomes another one, even if it
/// is the same agent: one that served before others, of whom nobody knows any more, and still runs, would take the higher bound for leave
/// to give what those gave.
///
/// # Errors
/// [`MayHaveJoined`]: by its word alone a survivor would extend axes beside its replacement.
pub fn after_revert(
    store: &Loaded,
    floor: Floor,
    skip: u64,
    actor: Actor,
    at: WallMs,
) -> Result<Vec<Write>, MayHaveJoined> {
    if let (Some(_), Err(why)) = (&store.identity.awaiting, &store.proven) {
        return Err(MayHaveJoined(why.clone()));
    }
    let above =
        floor.above.map_or_else(|| "nothing".to_owned(), |above| format!("nothing but values above {}", above.0));
    let skipped = if skip == 0 { String::new() } else { format!("; sections skip {skip} numbers") };
    let detail = format!("{above} is granted before {}{skipped}", floor.until);
    let mut writes = vec![Write::Audit(Entry::new(at, actor, Action::AfterRevert, "both ledgers", &detail))];
    for prep in &store.preps {
        writes.push(Write::DropPrep(prep.key));
        writes.push(Write::Lease(prep.key, Lease::from_prep(prep)));
    }
    let caution = Caution { quiet: false, reverted: false, floor: Some(floor) };
    writes.push(Write::Caution(caution));
    // The operator's word stands for the proof: the floor covers what was forgotten, renewals and permits too.
    writes.push(Write::Lives(Lives { unproven: false, ..store.lives.clone() }));
    // What this store has left of its extents may have been granted after what it was put back to.
    writes.push(Write::Run(None));
    writes.extend(sections_beyond(store, skip, OWNERS_FORGOTTEN));
    Ok(writes)
}

/// The writes by which each section of `store` goes on above what a master may have raised that this one heard nothing of since: by the
/// allowance, or by `skip` if that is more; with so many `owners` more. Whoever a section was proposed to has it, because it may have been
/// listed for them.
///
/// The bound that the other master holds of a section is left as it is known: it limits what this one raises alone.
pub(crate) fn sections_beyond(store: &Loaded, skip: u64, owners: u64) -> Vec<Write> {
    let terms = |name: &GeneratorName| {
        let named = |setting: &&Setting| setting.key == SettingKey::Namespace(name.clone());
        let value = store.settings.iter().find(named).map(|setting| &setting.value);
        let sequences = value.and_then(|value| value.namespace()).and_then(|namespace| namespace.sequences());
        sequences.map_or(Terms::UNKNOWN, Terms::from)
    };
    let mut known: BTreeMap<GeneratorName, Terms> = BTreeMap::new();
    let mut table = SectionTable::new(store.sections.iter().cloned(), store.section_preps.iter().cloned());
    for prep in &store.section_preps {
        for Piece { range, held, .. } in table.pieces(&prep.range).collect::<Vec<_>>() {
            let (before, peer_has) = held.map_or((0, 0), |held| (held.max_seq, held.peer_has));
            let (owner, max_seq) = (Arc::new(prep.owner.clone()), before.max(prep.max_seq));
            table.put(&range, HeldSection { g: prep.g, owner, max_seq, peer_has });
        }
    }
    for (range, held) in table.all().collect::<Vec<_>>() {
        let terms = known.entry(range.name.clone()).or_insert_with(|| terms(&range.name));
        let max_seq = covering(held.max_seq, terms).max(held.max_seq.saturating_add(skip).min(terms.last));
        let g = Generation(held.g.0.saturating_add(owners));
        table.put(&range, HeldSection { max_seq, g, ..held });
    }
    let rows: Vec<(SectionRecord, u64)> = table.stored().collect();
    let begins: BTreeSet<SectionKey> = rows.iter().map(|(record, _)| record.range.first()).collect();
    let gone = store.sections.iter().map(|(record, _)| record.range.first()).filter(|key| !begins.contains(key));
    let sections = Write::Sections { gone: gone.collect(), rows };
    let gone: Vec<SectionKey> = store.section_preps.iter().map(|prep| prep.range.first()).collect();
    let preps = (!gone.is_empty()).then(|| Write::SectionPreps { gone, rows: Vec::new() });
    preps.into_iter().chain((!begins.is_empty()).then_some(sections)).collect()
}

/// The day from which on nothing that was promised until `now` can still be used, and what is granted meanwhile.
pub fn floor_of(parameters: &ClusterParameters, now: WallMs, above: Option<TokenValue>) -> Floor {
    Floor { until: parameters.reuse_at(now + parameters.lease().max(parameters.solo())), above }
}

/// A command writes into the store, so the next start finds it proven. If it was not, the run must not go on by that.
pub fn end_unproven_run(store: &Loaded) -> Option<Write> {
    store.proven.is_err().then_some(Write::Run(None))
}

/// The writes of `--forget-clock`, on a stopped master: the latest time that both calendars ever showed was wrong. Leases that
/// were promised by it keep their ends.
pub fn forget_clock(store: &Loaded, actor: Actor, at: WallMs) -> Vec<Write> {
    let detail = format!("it was {}", store.observed.clock_high);
    let line = Entry::new(at, actor, Action::ForgetClock, "the latest time of both calendars", &detail);
    let observed = PeerObservations { clock_high: WallMs(0), ..store.observed };
    // This write is not a start, and proves nothing about what came before it.
    let lives = Lives { unproven: store.proven.is_err(), ..store.lives.clone() };
    let mut writes = vec![Write::PeerObservations(observed), Write::Lives(lives), Write::Audit(line)];
    writes.extend(end_unproven_run(store));
    writes
}

/// The writes of `--vouch-untouched`, on a stopped master whose store is not proven to be the one that it last wrote: it is
/// believed from now on, and the audit says why it was not. `None` if it is proven.
///
/// The word has to be true: a store that was put back would renew leases that the pair has ended.
pub fn vouch(store: &Loaded, actor: Actor, at: WallMs) -> Option<Vec<Write>> {
    let why = store.proven.as_ref().err()?;
    let lives = Lives { unproven: false, ..store.lives.clone() };
    let subject = format!("master {}", store.identity.master);
    let line = Entry::new(at, actor, Action::Vouch, &subject, &why.to_string());
    Some([Write::Audit(line), Write::Lives(lives)].into_iter().chain(end_unproven_run(store)).collect())
}
