//! Nobody is ever stuck: from any state, once all processes are gone and the disk works, a start goes on or begins anew, or
//! says what is wrong in a way that `--format` cures; and then it mints what nobody has minted.

use super::files::Files;
use super::folder::{Folder, Name};
use super::process::{Doing, Process, What, format_file, minting};
use super::run::{Run, disk, place};
use super::world::{SERIALS, World};
use common::parameters::SessionId;
use serial_file::{AfterReboot, SerialFileError, open_on};

/// A session that no other start drew.
const SESSION: u8 = 200;

/// Tells whether all is well after `world`; looked at in every `bounds.heal_every`th state, by its hash.
pub(super) fn sampled(model: &Files, world: &World) -> bool {
    let every = model.bounds.heal_every;
    every == 0
        || !crate::kit::shared::hash_of(world).is_multiple_of(every)
        || world.folders.iter().all(|folder| heals(model, world, folder))
}

fn heals(model: &Files, world: &World, folder: &Folder) -> bool {
    let mut folder = folder.clone();
    folder.collect(&[]);
    let run = Run::whole(folder, world.clock + 1);
    let open = || open_on(disk(), place(), AfterReboot::Fresh, SessionId(SESSION.into()));
    let (run, opened) = run.with(open);
    let (run, opened) = match opened {
        Ok(opened) => (run, Ok(opened)),
        // Nothing but what others do leads here.
        Err(_) if !world.tampered => return false,
        Err(SerialFileError::Missing(_) | SerialFileError::Damaged { .. } | SerialFileError::HardLinked { .. }) => {
            let mut run = run;
            run.folder.set_name(Name::File, None);
            run.with(|| if format_file(SESSION + 1) { open() } else { Err(SerialFileError::NoName("F".into())) })
        }
        Err(_) => return false,
    };
    let Ok(opened) = opened else { return false };
    let process = Process::new(0, minting(opened, &model.bounds));
    let Doing::Minting { serial, .. } = &process.doing else { return false };
    let marks = minting::serial::Marks { mark: serial.marks().mark + 1, ..serial.marks() };
    let Some(process) = process.begin(What::Refill(marks), &model.bounds) else { return false };
    let (_, process) = process.step(run.again(), &model.bounds);
    let minted = process.and_then(|mut process| process.mint());
    minted.is_some_and(|(session, day, serial)| serial >= SERIALS || !world.minted.has(session, day, serial))
}
