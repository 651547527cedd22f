//! Messages in flight, and which of them can change nothing any more.

use super::node::{Node, Serving};
use crate::model::Shared;
use common::rpc::peer::PeerFrame;

/// Answers to answers; there are none after so many.
const ANSWERS_MAX: u8 = 4;

/// What comes of a message at a master: its next state, and what it says.
pub(super) type Delivered = (Shared<Node>, Vec<Shared<PeerFrame>>);

/// Adds a message, in the order of their hashes.
pub(super) fn post(messages: &mut Vec<Shared<PeerFrame>>, frame: Shared<PeerFrame>) {
    if let Err(at) = messages.binary_search_by_key(&frame.id(), Shared::id) {
        messages.insert(at, frame);
    }
}

/// Whether `to` is who the message is for, as far as name and pairing go.
pub(super) fn is_for(to: &Node, frame: &PeerFrame) -> bool {
    to.disk.id() == frame.from.other() && to.disk.identity.epoch == frame.epoch
}

/// Whether a message changes nothing at any master, now or later.
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
        if to.disk.unmet() || depth >= ANSWERS_MAX {
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
