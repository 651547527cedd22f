//! Nothing is ever stuck: from any state, once both masters hear each other and agents are heard, an agent that can give serves the section,
//! also if the other one keeps it and cannot.

use super::agent::Agent;
use super::disk::Disk;
use super::sequences::Sections;
use crate::model::Pair;
use common::segment::MasterRun;
use common::time::{BootMs, Now, SpanMs, WallMs};
use ledger::lease::{Event, Reply, RequestId};
use ledger::{Ledger, Salt};
use minting::sequence::{Allocator, Kept, Ownership};
use wire::ranges::{KeepRequest, RoutesRequest};

/// Beats, a second each: the next owner waits five of them for the last one's lease to end.
const BEATS_MAX: u8 = 20;
const ID: RequestId = RequestId(0);

/// Tells whether `able` serves the section after a while, though `unable` keeps its sections and gives nothing.
pub(super) fn is_served(model: &Sections, disks: &[&Disk], unable: &Agent, able: &Agent) -> Option<bool> {
    let now = Now { wall: WallMs(0), boot: BootMs(0) };
    let start = |disk: &&Disk| {
        // No start here has had this number, nor any run.
        let mark = u64::MAX - u64::from(disk.id().number());
        Ledger::start(disk.loaded(), now, Salt { mark, run: MasterRun(mark.into()) }, None, String::new())
    };
    let mut pair = Pair::meet(disks.iter().map(start).collect(), now)?;
    let mut allocator = Allocator::new(disks.len(), now.boot);
    for _ in 0..BEATS_MAX {
        pair.now.boot = pair.now.boot + SpanMs::seconds(1);
        for at in 0..disks.len() {
            let keeps = KeepRequest { leaves: !model.leaves_unsaid(), ..unable.keep()? };
            let (name, sections) = (model.key.name.clone(), vec![model.key.section]);
            let wanted = RoutesRequest { cluster: None, name, sections, all_from: None };
            let events = [
                Event::Tick,
                Event::Keep { id: ID, request: keeps },
                Event::Routes { id: ID, request: wanted, address: String::new() },
                Event::Keep { id: ID, request: able.keep()? },
            ];
            if !events.into_iter().all(|event| pair.step(at, event)) {
                return None;
            }
            let Some(Reply::Keep(Ok(reply))) = pair.replies.first() else { continue };
            let (sent, received) = (pair.now.boot, pair.now.boot);
            allocator.handle(received, at, &Kept { sent, received, reply: reply.clone() }).ok()?;
        }
        let held = allocator.held(&model.key.name);
        let serves =
            held.is_some_and(|held| matches!(held.ownership(model.key.section, pair.now.boot), Ownership::Served(_)));
        if serves {
            return Some(true);
        }
    }
    Some(false)
}
