//! Events that can happen to the files, and their outcome.

use super::folder::Folder;
use super::operator::{self, Deed, Trouble};
use super::process::{Doing, Process, What, format_file};
use super::run::{Fault, Run};
use super::world::{Kept, Minted, World};
use super::{Bounds, heal};
use crate::kit::shared::Shared;
use stateright::{Model, Property};

/// The one thing that matters.
pub const DISJOINT: &str = "no serial of a session and day is minted twice, or could be";
/// Nobody is stuck.
pub const GOES_ON: &str = "once the disk works, a start goes on or begins anew, and mints";
/// The model is large enough for what happens in it.
pub const ROOM: &str = "the disk of the model has room";

/// Something that can happen. Processes and folders are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A process starts.
    Start { who: usize, at: u8, after_reboot_resume: bool },
    /// `--format`, where there is no file.
    Format { who: usize },
    /// The next step of what it is doing.
    Step { who: usize },
    /// The same, and the disk fails: it does nothing or, `done`, it does it and yet says that it failed.
    Fault { who: usize, done: bool },
    /// The process mints one of the serials that it may mint.
    Mint { who: usize },
    /// The process begins to write; the number says which of the writes that it may begin.
    Write { who: usize, which: usize },
    /// The process stops cleanly.
    Stop { who: usize },
    /// The process is killed.
    Kill { who: usize },
    /// Someone else does something.
    Deed(Deed),
}

/// A serial file, and everything that may befall it within the bounds.
#[derive(Clone, Debug)]
pub struct Files {
    /// The bounds within which it goes.
    pub bounds: Bounds,
}

impl Files {
    fn starts(&self, world: &World, who: usize, actions: &mut Vec<Action>) {
        // Processes are alike.
        let first_free = world.processes.iter().position(Option::is_none) == Some(who);
        if !first_free || world.starts >= self.bounds.starts {
            return;
        }
        for at in 0..u8::try_from(world.folders.len()).unwrap_or(0) {
            actions.push(Action::Start { who, at, after_reboot_resume: false });
            if self.bounds.resume {
                actions.push(Action::Start { who, at, after_reboot_resume: true });
            }
        }
        if world.folder(0).is_some_and(|folder| folder.named(super::folder::Name::File).is_none()) {
            actions.push(Action::Format { who });
        }
    }

    fn of_process(&self, world: &World, who: usize, process: &Process, actions: &mut Vec<Action>) {
        actions.push(Action::Kill { who });
        if process.clone().mint().is_some() {
            actions.push(Action::Mint { who });
        }
        if let Doing::Minting { .. } = process.doing {
            actions.push(Action::Stop { who });
            if world.writes < self.bounds.writes {
                actions.extend((0..process.writes(&self.bounds).len()).map(|which| Action::Write { who, which }));
            }
        } else {
            actions.push(Action::Step { who });
            if world.troubles < self.bounds.troubles && self.bounds.trouble.contains(&Trouble::Fault) {
                actions.extend([false, true].map(|done| Action::Fault { who, done }));
            }
        }
    }

    fn start(&self, mut world: World, who: usize, at: u8, doing: Doing) -> World {
        world.starts += 1;
        world.put_process(who, Some(Process::new(at, doing)));
        world
    }

    fn step(&self, mut world: World, who: usize, fault: Fault) -> Option<World> {
        let process = world.process(who)?.clone();
        let folder = Folder::clone(world.folder(process.at)?);
        let me = u8::try_from(who).ok()?;
        let run = Run::step(folder, world.clock, process.log.clone(), me, fault, &self.bounds.twins);
        let (run, after) = process.step(run, &self.bounds);
        if run.pointless {
            return None;
        }
        world.clock = run.clock;
        world.full |= run.full;
        world.put_process(who, after);
        world.put_folder(process.at, run.folder);
        Some(world)
    }

    fn mint(&self, mut world: World, who: usize) -> Option<World> {
        let mut process = Process::clone(world.process(who)?);
        let (session, day, serial) = process.mint()?;
        world.twice |= !world.minted.note(session, day, serial);
        world.put_process(who, Some(process));
        Some(world)
    }

    fn write(&self, mut world: World, who: usize, what: What) -> Option<World> {
        let process = Process::clone(world.process(who)?);
        let at = process.at;
        let after = process.begin(what, &self.bounds);
        if what != What::Stop {
            world.writes += 1;
        }
        world.put_process(who, after);
        let folder = Folder::clone(world.folder(at)?);
        world.put_folder(at, folder);
        Some(world)
    }
}

impl Model for Files {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let (run, formatted) = Run::whole(Folder::new(0), 0).with(|| format_file(0));
        let mut folder = run.folder;
        folder.collect(&[]);
        let world = World {
            folders: vec![Shared::new(folder)],
            processes: [None, None],
            kept: Kept::default(),
            minted: Minted::default(),
            clock: run.clock,
            boots: 0,
            starts: 0,
            writes: 0,
            troubles: 0,
            tampered: false,
            twice: false,
            full: !formatted,
        };
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for who in 0..self.bounds.processes {
            match world.process(who) {
                None => self.starts(world, who, actions),
                Some(process) => self.of_process(world, who, process, actions),
            }
        }
        if world.troubles < self.bounds.troubles {
            actions.extend(operator::deeds(self, world).into_iter().map(Action::Deed));
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let world = before.clone();
        let session = world.starts + 1;
        match action {
            Action::Start { who, at, after_reboot_resume } => {
                Some(self.start(world, who, at, Doing::Starting { after_reboot_resume, session }))
            }
            Action::Format { who } => Some(self.start(world, who, 0, Doing::Formatting { session })),
            Action::Step { who } => self.step(world, who, Fault::None),
            Action::Fault { who, done } => {
                let fault = if done { Fault::DoneButFails } else { Fault::Fails };
                let troubles = world.troubles + 1;
                self.step(World { troubles, ..world }, who, fault)
            }
            Action::Mint { who } => self.mint(world, who),
            Action::Write { who, which } => {
                let what = *world.process(who)?.writes(&self.bounds).get(which)?;
                self.write(world, who, what)
            }
            Action::Stop { who } => self.write(world, who, What::Stop),
            Action::Kill { who } => {
                let mut world = world;
                let at = world.process(who)?.at;
                world.put_process(who, None);
                let folder = Folder::clone(world.folder(at)?);
                world.put_folder(at, folder);
                Some(world)
            }
            Action::Deed(deed) => operator::act(self, world, deed),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DISJOINT, |_: &Self, world: &World| world.disjoint()),
            Property::always(GOES_ON, heal::sampled),
            Property::always(ROOM, |_: &Self, world: &World| !world.full),
        ]
    }
}
