//! Records that an agent writes of its sections, and the identity with which it goes on after a start: the product's files on the simulated disk.

use super::disk::SectionFile;
use super::minter::Shell;
use super::sections::Wanted;
use common::lease::{Generation, Grant};
use common::namespace::GeneratorName;
use common::parameters::SessionId;
use common::sequence::Section;
use common::time::{BootMs, SpanMs};
use common::token::TokenKey;
use minting::holder::Confirmation;
use minting::sequence::{Bounds, Decision, Life, Listed, Start};
use serial_file::SectionsStart;
use std::sync::Arc;
use wire::ranges::RaisedSections;

/// A process's.
pub struct Written {
    file: SectionFile,
    start: Start,
    /// The leases that the process found.
    kept: Vec<(TokenKey, Generation)>,
    /// As whom masters know it, once that is sure.
    life: Option<Life>,
    /// Since when bounds can be neither written down nor removed.
    unwritten: Option<BootMs>,
}

impl Written {
    /// Takes up what a start has found, with the leases that it kept.
    pub fn new(file: SectionFile, found: &SectionsStart, kept: &[Grant], fresh: SessionId) -> Self {
        let start = file.start(found, fresh);
        let life = match start.decide(Confirmation::Waits) {
            Decision::Serves(life) => Some(life),
            Decision::Begins(_) | Decision::Waits => None,
        };
        let kept = kept.iter().map(|grant| (grant.key, grant.g)).collect();
        Self { file, start, kept, life, unwritten: None }
    }

    /// The leases of which one has to be renewed.
    pub fn kept(&self) -> &[(TokenKey, Generation)] {
        &self.kept
    }

    /// As whom masters know the process; `None`: that is not sure yet.
    pub fn session(&self) -> Option<SessionId> {
        self.life.as_ref().map(Life::session)
    }

    /// Finds out as whom, by what masters made of the leases. Gives what was written down, if the session goes on from now on.
    pub(super) fn settle(
        &mut self,
        confirmation: Confirmation,
        shell: &mut Shell<'_>,
        now: BootMs,
    ) -> Option<Arc<Bounds>> {
        if self.life.is_some() {
            return None;
        }
        match self.start.decide(confirmation) {
            Decision::Waits => None,
            Decision::Serves(life) => Some(Arc::clone(self.life.insert(life).former())),
            Decision::Begins(life) => {
                shell.folder.begin();
                let begun = self.file.begin(life.session(), now);
                shell.ended = shell.ended.or(shell.folder.finish(shell.rng));
                self.life = begun.ok().map(|()| life);
                None
            }
        }
    }

    /// No number of a section above it was given by a process before of this session.
    pub fn given_before(&self, name: &GeneratorName, section: Section) -> Option<u64> {
        self.life.as_ref()?.given_before(name, section)
    }

    /// Writes down what masters answered. `false`: it must not be used.
    pub(super) fn note(
        &mut self,
        asked: &[Wanted],
        answers: &[Vec<RaisedSections>],
        shell: &mut Shell<'_>,
        now: BootMs,
    ) -> bool {
        let bounds = Bounds::granted(asked.iter().map(|(raise, _)| raise).zip(answers));
        bounds.is_empty() || self.write(&bounds, shell, now)
    }

    /// Writes down of which sections it is the last owner no more, by what is listed for it.
    pub(super) fn note_lost(&mut self, listed: &Listed, shell: &mut Shell<'_>, now: BootMs) {
        let lost = self.file.bounds().lost(listed, now);
        if !lost.is_empty() {
            self.write(&lost, shell, now);
        }
    }

    /// Tells whether it may be given sections. What could not be written down is tried again.
    pub(super) fn may_have_sections(&mut self, shell: &mut Shell<'_>, now: BootMs) -> bool {
        self.unwritten.is_none() || self.write(&Bounds::default(), shell, now)
    }

    /// Tells whether it has been able to give nothing for so long.
    pub(super) fn gives_nothing(&self, now: BootMs, span: SpanMs) -> bool {
        self.unwritten.is_some_and(|since| now - since >= span)
    }

    fn write(&mut self, bounds: &Bounds, shell: &mut Shell<'_>, now: BootMs) -> bool {
        shell.folder.begin();
        let noted = self.file.note(bounds, now);
        shell.ended = shell.ended.or(shell.folder.finish(shell.rng));
        self.unwritten = if noted.is_ok() { None } else { self.unwritten.or(Some(now)) };
        noted.is_ok()
    }
}
