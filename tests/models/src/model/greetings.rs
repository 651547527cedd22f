//! A new connection between two masters, and what they say to each other on it before anything else: who they are and which
//! starts they remember, and again with the number that the other one asks for, until neither has anything to answer.

use super::disk::Node;
use super::masters::Masters;
use super::twins;
use crate::kit::node::{STEP, Serving};
use crate::kit::shared::Shared;
use common::time::{Now, WallMs};
use ledger::Ledger;
use ledger::lease::{Effects, Event, Reply, RequestId, Write};
use std::collections::VecDeque;
use wire::peer::{PeerFrame, PeerMessage};

/// So many greetings are on the way on one connection at most. What is left of it is said on the next one.
pub const GREETINGS_MAX: usize = 8;

/// The two after a connection.
#[derive(Debug)]
pub(super) struct Met {
    /// The one that made the connection, and the one that it leads to.
    pub(super) nodes: [Shared<Node>; 2],
    /// True for each that has taken in a greeting of the other.
    pub(super) greeted: [bool; 2],
    /// True if all was said that there was to say.
    pub(super) complete: bool,
}

struct Side<'a> {
    before: &'a Node,
    ledger: Ledger,
    writes: Vec<Write>,
    greeted: bool,
}

impl<'a> Side<'a> {
    fn new(model: &Masters, before: &'a Node, wall: WallMs) -> Self {
        let known = twins::before_meeting(model, before.known());
        Self { before, ledger: known.opened(before.serving, wall), writes: Vec::new(), greeted: false }
    }

    /// Gives what it says to `event`; `by_answer`: on the connection by which it was asked.
    fn step(&mut self, wall: WallMs, event: Event, by_answer: bool) -> Vec<PeerFrame> {
        let mut fx = Effects::default();
        self.ledger.step(Now { wall, boot: STEP }, event, &mut fx);
        self.writes.append(&mut fx.writes);
        // Whoever has taken a greeting in asks for the other's table.
        self.greeted |= fx.messages.iter().any(|message| matches!(message, PeerMessage::Pull { .. }));
        let answers = fx.replies.into_iter().find_map(|(_, reply)| match reply {
            Reply::Greeted(messages) => Some(messages),
            _ => None,
        });
        let said = if by_answer { answers.unwrap_or_default() } else { fx.messages };
        let greetings = said.into_iter().filter(|message| matches!(message, PeerMessage::Hello(_)));
        greetings.map(|message| self.ledger.frame(message)).collect()
    }

    fn after(&self) -> Node {
        let mut next = self.before.written(&self.writes);
        next.greeted |= self.greeted;
        // Another exchange of tables begins.
        next.page = next.page.filter(|_| !self.greeted);
        // What was heard of the other one is believed no more.
        if next.disk.observed.rolled_back || next.disk.lives.peer_copied {
            (next.serving, next.page, next.greeted) = (Serving::Alone, None, false);
        }
        next
    }
}

/// `asker` connects to `other`, and the first `count` of all that is said arrives.
pub(super) fn connect(model: &Masters, asker: &Node, other: &Node, count: usize, wall: WallMs) -> Met {
    let (mut asks, mut answers) = (Side::new(model, asker, wall), Side::new(model, other, wall));
    let there = |said: Vec<PeerFrame>| said.into_iter().map(|frame| (true, frame)).collect::<VecDeque<_>>();
    let mut line = there(asks.step(wall, Event::Connected, false));
    for _ in 0..count {
        let Some((to_other, mut said)) = line.pop_front() else { break };
        let to = if to_other { other } else { asker };
        if !twins::before_greeting(model, to.known(), &mut said) {
            continue;
        }
        if to_other {
            let greeting = Event::Greeting { id: RequestId(0), frame: Box::new(said) };
            line.extend(answers.step(wall, greeting, true).into_iter().map(|frame| (false, frame)));
        } else {
            line.extend(there(asks.step(wall, Event::Message(Box::new(said)), false)));
        }
    }
    let greeted = [asks.greeted, answers.greeted];
    Met { nodes: [asks.after(), answers.after()].map(Shared::new), greeted, complete: line.is_empty() }
}
