//! Messages that can change nothing any more are taken out of the state: records only grow, so once a frame is of no news to
//! the master that would believe it, it never is again. A proposal or a closing is never inert: however old, it is answered
//! with the record that there is by then.

use super::node::{Disk, Node, Serving};
use super::world::World;
use common::lease::{Lease, LeaseState};
use common::rpc::peer::{PeerFrame, PeerMessage};
use common::token::TokenKey;
use master::lease::rules;

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

fn inert(world: &World, messages: &[super::world::Shared<PeerFrame>], frame: &PeerFrame) -> bool {
    let of_pairing = |node: &&Node| node.disk.identity.epoch == frame.epoch;
    let nodes = || world.nodes.iter().map(|node| &**node);
    let to = nodes().filter(|node| node.id() == frame.from.other()).find(of_pairing);
    let Some(to) = to else {
        // All of that name have gone on to a later pairing, or the one it is for has not joined yet.
        let begun = nodes().filter(of_pairing).any(|node| node.id() == frame.from);
        return !(begun && world.newest_pairing() == pairing(frame));
    };
    let from = nodes().filter(|node| node.id() == frame.from).find(of_pairing);
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
            g_there(key) > Some(*g) || (over(to) && from.is_some_and(over))
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
