//! The protocol with one of its mechanisms taken away: a model that could not find what goes wrong then would prove nothing where it finds
//! nothing. The product's `step` stays as it is; what it is given, or what comes out of it, is bent.

use super::disk::{Disk, Stepped};
use common::sequence::SectionRecord;
use common::setting::{SettingKey, SettingValue};
use ledger::lease::{Event, Write};
use wire::peer::{PeerFrame, PeerMessage};

/// The distance that one master raises a section alone, in these models.
pub const ALLOWANCE: u64 = 2;

/// A mechanism that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Twin {
    /// A segment is granted before it is durable what is left.
    CursorNotDurable,
    /// A start without proven lineage is taken for one with it; where its volume is attached is not compared.
    PutBackBelieved,
    /// A start without proven lineage goes on with the run before.
    RunGoesOn,
    /// The home grants from an extent that it has proposed, before it is confirmed.
    UsedBeforeConfirmed,
    /// A proposal of an extent is confirmed whatever is known.
    ConfirmBlindly,
    /// A survivor's proposals are dropped.
    PrepForgotten,
    /// A survivor goes on to extend and raise by itself after the snapshot for the replacement is cut.
    GoesOnAfterCut,
    /// A master that may have forgotten a confirmation is not told what was proposed to it.
    ProposalsKeptBack,
    /// The home lists a section for its owner while another one is proposed.
    ListedDuringPrep,
    /// The home raises a section for its owner while another one is proposed.
    RaisedDuringPrep,
    /// A section is raised for whoever asks.
    RaisedForAnybody,
    /// A confirmation does not say how far the section was raised.
    ConfirmWithoutBound,
    /// A raise is answered before it is durable.
    RaiseNotDurable,
    /// A proposal of an owner is sent before it is durable.
    SectionPrepNotDurable,
    /// Declaring the other master lost adds nothing to bounds.
    NothingAddedAtALoss,
    /// Nothing is added to bounds when a start without proven lineage meets the other master.
    NothingAddedAtAMeeting,
    /// A start without proven lineage lists, raises and confirms before it has met the other master.
    ServesUnmet,
    /// The next owner of a section does not wait.
    NoWait,
    /// The next owner waits for a lease, and for no difference of clocks.
    WaitOfALease,
    /// A lease of sections counts from the receipt of the answer.
    LeaseFromReceipt,
    /// An owner serves past its lease.
    ServesPastItsLease,
    /// An owner does not look where a master's bound was before it was raised.
    RaiseFromIgnored,
    /// An agent that can give nothing does not say so.
    LeavesUnsaid,
    /// Nobody shows what it was granted of sections.
    ReceiptsIgnored,
    /// An agent that is started again does not know how far its section was raised for it.
    NothingWrittenDown,
}

fn is_axis(key: &SettingKey) -> bool {
    matches!(key, SettingKey::Axis(_))
}

/// Bends what a step is given.
pub(super) fn before(has: &impl Fn(Twin) -> bool, known: &mut Disk, event: &mut Event) {
    match event {
        Event::Keep { .. } if has(Twin::ListedDuringPrep) => known.section_preps.clear(),
        Event::Raise { .. } if has(Twin::RaisedDuringPrep) => known.section_preps.clear(),
        Event::Raise { request, .. } if has(Twin::RaisedForAnybody) => {
            for (record, _) in known.sections.values_mut() {
                (record.owner.session, record.owner.agent_id) = (request.session, request.agent_id.clone());
                request.raises.iter_mut().for_each(|raise| raise.g = record.g);
            }
        }
        Event::Message(frame) => before_message(has, known, frame),
        _ => {}
    }
    let serves = match event {
        Event::Keep { .. } | Event::Raise { .. } => true,
        Event::Message(frame) => matches!(frame.message, PeerMessage::ProposeSections { .. }),
        _ => false,
    };
    if serves && has(Twin::ServesUnmet) {
        known.lives.unproven = false;
    }
}

fn before_message(has: &impl Fn(Twin) -> bool, known: &mut Disk, frame: &mut PeerFrame) {
    match &mut frame.message {
        PeerMessage::ProposeSetting { .. } if has(Twin::ConfirmBlindly) => {
            known.settings.retain(|key, _| !is_axis(key));
        }
        PeerMessage::Page { extents, .. } if has(Twin::ProposalsKeptBack) => extents.clear(),
        PeerMessage::SectionPage { proposals, .. } if has(Twin::ProposalsKeptBack) => proposals.clear(),
        _ => {}
    }
}

/// Bends what came of it.
pub(super) fn after(has: &impl Fn(Twin) -> bool, known: &Disk, event: &Event, stepped: &mut Stepped) {
    if has(Twin::UsedBeforeConfirmed) {
        use_before_confirmed(known, stepped);
    }
    let page = match event {
        Event::Message(frame) => match &frame.message {
            PeerMessage::SectionPage { records, .. } => Some(records),
            _ => None,
        },
        _ => None,
    };
    for (record, peer_has) in stepped.writes.iter_mut().flat_map(rows_mut) {
        let mine = known.sections.get(&record.range.first()).map(|(record, _)| record);
        if let Some(theirs) = page.filter(|_| has(Twin::NothingAddedAtAMeeting)) {
            let said = theirs.iter().filter(|said| said.range == record.range).chain(mine);
            record.max_seq = said.map(|said| said.max_seq).max().unwrap_or_default();
            *peer_has = record.max_seq.min(*peer_has);
        }
        if let (Event::Raise { .. }, Some(mine)) = (event, mine) {
            (record.g, record.owner) = (mine.g, mine.owner.clone());
        }
    }
    for frame in &mut stepped.messages {
        match &mut frame.message {
            PeerMessage::ConfirmSections { records } if has(Twin::ConfirmWithoutBound) => {
                records.iter_mut().for_each(|record| record.max_seq = 0);
            }
            _ => {}
        }
    }
    let heard = std::mem::replace(&mut stepped.known, known.clone());
    stepped.known.apply(&stepped.writes);
    for (key, (record, peer_has)) in &mut stepped.known.sections {
        let said = heard.sections.get(key).map_or(0, |(_, said)| *said);
        *peer_has = said.max(*peer_has).min(record.max_seq);
    }
}

/// The rows of sections that a write has.
fn rows_mut(write: &mut Write) -> &mut [(SectionRecord, u64)] {
    match write {
        Write::Sections { rows, .. } => rows,
        _ => &mut [],
    }
}

fn use_before_confirmed(known: &Disk, stepped: &mut Stepped) {
    let Some(run) = known.run else { return };
    let mut more = Vec::new();
    for write in &mut stepped.writes {
        match write {
            // What was confirmed was used before.
            Write::Cursor { name, spans, .. } if known.setting_preps.keys().any(is_axis) => {
                let mut before = known.cursors.get(name).map(|(_, spans)| spans.clone()).unwrap_or_default();
                before.retain(|span| spans.iter().any(|now| now.from <= span.from && span.to <= now.to));
                *spans = before;
            }
            Write::SettingPrep(prep) => {
                let (SettingKey::Axis(name), SettingValue::Axis(axis)) = (&prep.key, &prep.value) else { continue };
                let own = axis.last.filter(|extent| (extent.master, extent.run) == (known.id(), run));
                let mut spans = known.cursors.get(name).map(|(_, spans)| spans.clone()).unwrap_or_default();
                spans.extend(own.map(|extent| extent.span));
                more.push(Write::Cursor { run, name: name.clone(), spans });
            }
            _ => {}
        }
    }
    stepped.writes.extend(more);
}

/// Tells whether a crash loses this write of a step, although it was answered.
pub(super) fn lost(has: &impl Fn(Twin) -> bool, event: &Event, write: &Write) -> bool {
    match (event, write) {
        (Event::Segment { .. }, Write::Cursor { .. }) => has(Twin::CursorNotDurable),
        (Event::Raise { .. }, Write::Sections { .. }) => has(Twin::RaiseNotDurable),
        (_, Write::SectionPreps { rows, .. }) if !rows.is_empty() => has(Twin::SectionPrepNotDurable),
        _ => false,
    }
}

/// Bends what declaring the other master lost writes.
pub(super) fn after_declaring_lost(has: &impl Fn(Twin) -> bool, disk: &Disk, writes: &mut Vec<Write>) {
    if has(Twin::PrepForgotten) {
        writes.retain(|write| match write {
            Write::Setting(setting) => !is_axis(&setting.key),
            _ => true,
        });
    }
    for (record, peer_has) in writes.iter_mut().flat_map(rows_mut) {
        let before = disk.sections.get(&record.range.first()).map(|(before, _)| before.clone());
        if has(Twin::NothingAddedAtALoss) {
            record.max_seq = record.max_seq.saturating_sub(ALLOWANCE);
            *peer_has = record.max_seq;
        }
        if let Some(before) = before.filter(|_| has(Twin::PrepForgotten)) {
            *record = SectionRecord { max_seq: record.max_seq, ..before };
        }
    }
}
