//! Messages in flight, and which of them can change nothing any more.

use super::disk::{Disk, Node};
use crate::kit::node::Serving;
use crate::kit::shared::Shared;
use common::setting::Change;
use wire::peer::{PeerFrame, PeerMessage};

/// Answers to answers; there are none after so many.
const ANSWERS_MAX: u8 = 4;

/// The outcome of a message at a master: its next state, and what it says.
pub(super) type Delivered = (Shared<Node>, Vec<Shared<PeerFrame>>);

/// Adds a message, in the order of their hashes.
pub(super) fn post(messages: &mut Vec<Shared<PeerFrame>>, frame: Shared<PeerFrame>) {
    if let Err(at) = messages.binary_search_by_key(&frame.id(), Shared::id) {
        messages.insert(at, frame);
    }
}

/// Tells whether `to` is who the message is for, as far as name and pairing go.
pub(super) fn is_for(to: &Node, frame: &PeerFrame) -> bool {
    to.disk.id() == frame.from.other() && to.disk.identity.epoch == frame.epoch
}

/// Tells whether a message changes nothing at any master, now or later.
pub(super) fn is_inert(
    nodes: &[Shared<Node>],
    frame: &Shared<PeerFrame>,
    deliver: &impl Fn(&Shared<Node>, &Shared<PeerFrame>) -> Option<Delivered>,
    depth: u8,
) -> bool {
    nodes.iter().filter(|to| is_for(to, frame)).all(|to| {
        let lives = &to.disk.lives;
        if frame.to.is_some_and(|life| life != lives.present() && life.start <= lives.present().start) {
            // Meant for a start that is over.
            return true;
        }
        match lives.peer {
            Some(accepted) if accepted != frame.life => return frame.life.start <= accepted.start,
            _ => {}
        }
        if to.disk.unmet() || depth >= ANSWERS_MAX || speaks_of_more(to.known(), &frame.message) {
            return false;
        }
        let ready = Shared::new(Node { serving: Serving::Ready, page: None, ..Node::clone(to) });
        [to, &ready].into_iter().all(|to| {
            deliver(to, frame).is_none_or(|(next, said)| {
                next == *to && said.iter().all(|answer| is_inert(nodes, answer, deliver, depth + 1))
            })
        })
    })
}

/// Tells whether a message is of something that `to` has not heard of yet. It may be left aside now, and not later.
fn speaks_of_more(to: &Disk, message: &PeerMessage) -> bool {
    match message {
        PeerMessage::AskSetting { change: Change::Extend { granted, .. }, .. } => {
            to.axis().map_or(1, |axis| axis.granted) <= *granted
        }
        PeerMessage::ConfirmSetting { setting } => {
            to.settings.get(&setting.key).is_none_or(|known| known.version < setting.version)
        }
        PeerMessage::ConfirmSections { records } => {
            records.iter().any(|it| to.sections.get(&it.range.first()).is_none_or(|(known, _)| known.g < it.g))
        }
        PeerMessage::RaisedSections { bounds } | PeerMessage::HeldBounds { bounds } => bounds.iter().any(|it| {
            let known = to.sections.get(&it.range.first()).map(|(known, _)| known);
            known.is_none_or(|known| known.g < it.g || known.max_seq < it.max_seq)
        }),
        _ => false,
    }
}
