//! Mishaps around the processes, and the deeds of people.

use super::files::Files;
use super::folder::{Folder, Name};
use super::world::World;
use crate::kit::shared::Shared;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// A call of the disk fails: it does nothing, or does it and says that it failed.
    Fault,
    /// The machine loses its power and starts again.
    PowerCut,
    /// Either file is copied to a place of safety.
    Keep,
    /// Such a copy is put back: over the bytes that are there, or as a new file.
    PutBack,
    /// `touch`, `chmod`, `chown`.
    Touch,
    /// The file is moved away, or back.
    Move,
    /// The file gets a second name, or loses it.
    Link,
    /// Either file is removed.
    Remove,
    /// Both files are copied into another folder.
    Copy,
    /// The disk is cloned, and the clone runs in another machine.
    Clone,
    /// A snapshot of the file system is mounted in the same boot, with the device number of the original.
    Snapshot,
}

/// One thing that an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    /// The power of the machine with that folder goes; the number says what the cut leaves.
    PowerCut(u8, u32),
    /// Keeps a copy of the serial file.
    KeepFile,
    /// Keeps a copy of the lineage.
    KeepLineage,
    /// Writes the kept bytes over those of the serial file.
    PutFileInPlace,
    /// Makes a new serial file of the kept bytes.
    PutFile,
    /// The same with the lineage. Nothing tells how.
    PutLineage,
    /// Changes nothing but the ctime.
    Touch,
    /// Moves the serial file away.
    MoveAway,
    /// Moves it back.
    MoveBack,
    /// Gives it a second name.
    Link,
    /// Takes the second name away.
    Unlink,
    /// Removes the serial file.
    RemoveFile,
    /// Removes the lineage.
    RemoveLineage,
    /// Copies both files into another folder.
    Copy,
    /// Clones the disk.
    Clone,
    /// Mounts a snapshot with the same device number.
    Snapshot,
}

/// All that may be done now.
pub(super) fn deeds(model: &Files, world: &World) -> Vec<Deed> {
    let mut all = Vec::new();
    let Some(folder) = world.folder(0) else { return all };
    let (file, away) = (folder.at(Name::File), folder.at(Name::Away));
    let lineage = folder.at(Name::Lineage);
    for trouble in model.bounds.trouble {
        let may: &[(bool, Deed)] = match trouble {
            Trouble::Fault => &[],
            Trouble::PowerCut => {
                for (at, folder) in (0..).zip(&world.folders) {
                    all.extend((0..folder.cuts()).map(|choice| Deed::PowerCut(at, choice)));
                }
                &[]
            }
            Trouble::Keep => &[(file.is_some(), Deed::KeepFile), (lineage.is_some(), Deed::KeepLineage)],
            Trouble::PutBack => &[
                (world.kept.file.is_some() && file.is_some(), Deed::PutFileInPlace),
                (world.kept.file.is_some(), Deed::PutFile),
                (world.kept.lineage.is_some(), Deed::PutLineage),
            ],
            Trouble::Touch => &[(file.is_some(), Deed::Touch)],
            Trouble::Move => &[(file.is_some(), Deed::MoveAway), (away.is_some(), Deed::MoveBack)],
            Trouble::Link => &[(file.is_some() && away.is_none(), Deed::Link), (away.is_some(), Deed::Unlink)],
            Trouble::Remove => &[(file.is_some(), Deed::RemoveFile), (lineage.is_some(), Deed::RemoveLineage)],
            Trouble::Copy => &[(world.folders.len() == 1 && file.is_some(), Deed::Copy)],
            Trouble::Clone => &[(world.folders.len() == 1, Deed::Clone)],
            Trouble::Snapshot => &[(world.folders.len() == 1, Deed::Snapshot)],
        };
        all.extend(may.iter().filter(|(may, _)| *may).map(|(_, deed)| *deed));
    }
    all
}

/// Gives the world that comes of it.
pub(super) fn act(model: &Files, mut world: World, deed: Deed) -> Option<World> {
    world.clock += model.bounds.operator_pause;
    world.troubles += 1;
    let clock = world.clock;
    let mut folder = Folder::clone(world.folder(0)?);
    match deed {
        Deed::PowerCut(at, choice) => return power_cut(world, at, choice),
        Deed::KeepFile => world.kept.file = Some(folder.named(Name::File)?.data.clone()),
        Deed::KeepLineage => world.kept.lineage = Some(folder.named(Name::Lineage)?.data.clone()),
        Deed::PutFileInPlace => folder.overwrite(Name::File, world.kept.file.clone()?, clock)?,
        Deed::PutFile => folder.place(Name::File, world.kept.file.clone()?, clock)?,
        Deed::PutLineage => folder.place(Name::Lineage, world.kept.lineage.clone()?, clock)?,
        Deed::Touch => folder.touch(folder.at(Name::File)?, clock),
        Deed::MoveAway => drop(folder.rename(Name::File, Name::Away, clock)),
        Deed::MoveBack => drop(folder.rename(Name::Away, Name::File, clock)),
        Deed::Link => {
            folder.set_name(Name::Away, folder.at(Name::File));
            folder.touch(folder.at(Name::File)?, clock);
        }
        Deed::Unlink => {
            folder.touch(folder.at(Name::Away)?, clock);
            folder.set_name(Name::Away, None);
        }
        Deed::RemoveFile => folder.set_name(Name::File, None),
        Deed::RemoveLineage => folder.set_name(Name::Lineage, None),
        Deed::Copy => {
            let copy = copied(&folder, clock)?;
            world.folders.push(Shared::new(copy));
        }
        Deed::Clone => {
            world.boots += 1;
            let clone = folder.cloned(world.boots);
            world.folders.push(Shared::new(clone));
        }
        Deed::Snapshot => world.folders.push(Shared::new(folder.snapshot())),
    }
    if !matches!(deed, Deed::KeepFile | Deed::KeepLineage) {
        world.tampered = true;
    }
    world.put_folder(0, folder);
    Some(world)
}

/// The machine of a folder loses its power; another folder that is not a clone is on the same machine.
fn power_cut(mut world: World, at: u8, choice: u32) -> Option<World> {
    let folder = world.folder(at)?.clone();
    let machine = folder.boot;
    world.boots += 1;
    let (boot, after) = (world.boots, folder.cut(choice, world.boots)?);
    for who in 0..world.processes.len() {
        let there = world
            .process(who)
            .is_some_and(|process| world.folder(process.at).is_some_and(|folder| folder.boot == machine));
        if there {
            world.put_process(who, None);
        }
    }
    for other in 0..u8::try_from(world.folders.len()).unwrap_or(0) {
        let folder = world.folder(other)?;
        if other != at && folder.boot == machine {
            let mut kept = Folder::clone(folder);
            kept.boot = boot;
            world.put_folder(other, kept);
        }
    }
    world.put_folder(at, after);
    Some(world)
}

/// A folder with copies of both files: other files, on the same disk of the same machine.
fn copied(folder: &Folder, clock: u16) -> Option<Folder> {
    let mut copy = Folder::new(folder.boot);
    copy.place(Name::File, folder.named(Name::File)?.data.clone(), clock)?;
    if let Some(lineage) = folder.named(Name::Lineage) {
        copy.place(Name::Lineage, lineage.data.clone(), clock)?;
    }
    copy.flush_names();
    Some(copy)
}
