//! Messages that can change nothing any more are taken out of the state: records only grow, so once a frame is of no news to
//! the master that would believe it, it never is again. A proposal or a closing is never inert: however old, it is answered
//! with the record that there is by then.

use super::disk::{Disk, Node};
use super::world::{Link, World};
use crate::kit::node::Serving;
use crate::kit::shared::Shared;
use common::lease::{Lease, LeaseState};
use common::token::TokenKey;
use ledger::replication::rules;
use wire::peer::{PeerFrame, PeerMessage};

/// Takes out of `world` what is inert, and would be where copies of disks are put back.
pub(super) fn take_out(world: &mut World) {
    let messages = std::mem::take(&mut world.messages);
    let mut put_back = world.clone();
    for (at, disk) in &world.kept {
        put_back.put_node(*at, Node::new(Disk::clone(disk), Serving::Alone));
    }
    let inert = |frame: &PeerFrame| inert(world, &messages, frame) && inert(&put_back, &messages, frame);
    let kept: Vec<_> = messages.iter().filter(|frame| !inert(frame)).cloned().collect();
    world.messages = kept;
}

fn inert(world: &World, messages: &[Shared<PeerFrame>], frame: &PeerFrame) -> bool {
    let of_pairing = |node: &&Node| node.disk.identity.epoch == frame.epoch;
    let nodes = || world.nodes.iter().map(|node| &**node);
    // A copy that meets nobody does nothing with what is of no news to its original.
    let told_apart = if world.link == Link::All { 1 } else { usize::MAX };
    let of_name = |id| nodes().filter(move |node| node.id() == id).filter(of_pairing).take(told_apart);
    if of_name(frame.from.other()).next().is_none() {
        // All of that name have gone on to a later pairing, or the one it is for has not joined yet.
        let begun = nodes().filter(of_pairing).any(|node| node.id() == frame.from);
        return !(begun && world.newest_pairing() == pairing(frame));
    }
    let from: Vec<&Node> = of_name(frame.from).collect();
    of_name(frame.from.other()).all(|to| inert_at(to, &from, messages, frame))
}

/// Tells whether it changes nothing at `to`, whoever of `from` has sent it.
fn inert_at(to: &Node, from: &[&Node], messages: &[Shared<PeerFrame>], frame: &PeerFrame) -> bool {
    if frame.is_between_others(to.disk.lives.present(), to.disk.lives.peer) {
        // Who is over never greets again. Who still lives in it may, or is asked to.
        return from.iter().all(|from| from.disk.lives.present() != frame.life);
    }
    let g_there = |key: &TokenKey| to.disk.leases.get(key).map(|lease| lease.g);
    match &frame.message {
        PeerMessage::Heartbeat { permit, .. } => {
            let higher = |other: &PeerFrame| {
                (other.from, other.epoch) == (frame.from, frame.epoch)
                    && matches!(other.message, PeerMessage::Heartbeat { permit: p, .. } if p > *permit)
            };
            to.disk.observed.permit_in >= *permit && messages.iter().any(|other| higher(other))
        }
        PeerMessage::Sync { records, .. } => records.iter().all(|(key, lease)| no_news(&to.disk, *key, lease)),
        PeerMessage::Reject { key, record } => {
            let same =
                record.as_ref().is_some_and(|lease| g_there(key) == Some(lease.g) && no_news(&to.disk, *key, lease));
            same && !to.disk.preps.contains_key(key)
        }
        PeerMessage::Confirm { prep } => g_there(&prep.key) >= Some(prep.g),
        PeerMessage::Closed { key, g, until } => {
            let over = |node: &Node| {
                node.disk.leases.get(key).is_some_and(|lease| {
                    lease.g > *g || (lease.g == *g && lease.state == LeaseState::Closed && lease.until >= *until)
                })
            };
            g_there(key) > Some(*g) || (over(to) && !from.is_empty() && from.iter().all(|from| over(from)))
        }
        _ => false,
    }
}

fn pairing(frame: &PeerFrame) -> u64 {
    frame.epoch.map_or(0, |epoch| u64::try_from(epoch.0).unwrap_or(u64::MAX))
}

fn no_news(disk: &Disk, key: TokenKey, theirs: &Lease) -> bool {
    let mine = disk.leases.get(&key);
    mine.is_some() && rules::merge(disk.identity.master, key, mine, theirs).as_ref() == mine
}
