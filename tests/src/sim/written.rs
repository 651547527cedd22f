//! What an agent writes down of its sections, and as whom it goes on with them after a start: the product's files on the simulated disk.

use super::disk::SectionFile;
use super::minter::Shell;
use agent::engine::Confirmation;
use agent::sequence::{Bound, Bounds};
use agent::serial_file::SectionsStart;
use common::lease::{Generation, Grant};
use common::namespace::GeneratorName;
use common::parameters::SessionId;
use common::rpc::ranges::{NotRaised, Raise, Raised};
use common::sequence::Section;
use common::time::BootMs;
use common::token::TokenKey;
use std::sync::Arc;

/// A process's.
pub struct Written {
    file: SectionFile,
    /// The session that goes on, if a master renews one of its leases.
    former: Option<(SessionId, Arc<Bounds>)>,
    /// That of this process if it does not.
    fresh: SessionId,
    /// The leases that the process found.
    kept: Vec<(TokenKey, Generation)>,
    /// As whom masters know it, once that is sure.
    life: Option<(SessionId, Arc<Bounds>)>,
}

impl Written {
    /// What a start has found, with the leases that it kept.
    pub fn new(file: SectionFile, start: &SectionsStart, kept: &[Grant], fresh: SessionId) -> Self {
        let former = match start {
            SectionsStart::Resumed => Some((file.session(), Arc::new(file.bounds().clone()))),
            SectionsStart::Fresh(_) => None,
        };
        let life = former.is_none().then(|| (file.session(), Arc::default()));
        Self { file, former, fresh, kept: kept.iter().map(|grant| (grant.key, grant.g)).collect(), life }
    }

    /// The leases of which one has to be renewed.
    pub fn kept(&self) -> &[(TokenKey, Generation)] {
        &self.kept
    }

    /// As whom masters know the process; `None`: that is not sure yet.
    pub fn session(&self) -> Option<SessionId> {
        self.life.as_ref().map(|(session, _)| *session)
    }

    /// Finds out as whom, by what masters made of the leases. Gives what was written down, if the session goes on from now on.
    pub(super) fn settle(
        &mut self,
        confirmation: Confirmation,
        shell: &mut Shell<'_>,
        now: BootMs,
    ) -> Option<Arc<Bounds>> {
        let former = self.former.clone().filter(|_| self.life.is_none())?;
        match confirmation {
            Confirmation::Given => self.life = Some(former.clone()),
            Confirmation::Waits => return None,
            Confirmation::Refused => {
                shell.folder.begin();
                let begun = self.file.begin(self.fresh, now);
                shell.ended = shell.ended.or(shell.folder.finish(shell.rng));
                self.life = begun.ok().map(|()| (self.fresh, Arc::default()));
                return None;
            }
        }
        Some(former.1)
    }

    /// No number of a section above it was given by a process before of this session.
    pub fn given_before(&self, name: &GeneratorName, section: Section) -> u64 {
        let bound = self.life.as_ref().and_then(|(_, former)| former.get(name, section));
        bound.map_or(0, |bound| bound.max_seq)
    }

    /// Writes down what masters answered. `false`: it must not be used.
    pub(super) fn note(
        &mut self,
        asked: &[Raise],
        answers: &[Result<Raised, NotRaised>],
        shell: &mut Shell<'_>,
        now: BootMs,
    ) -> bool {
        let mut bounds = Bounds::default();
        for (raise, answer) in asked.iter().zip(answers) {
            if let Ok(Raised { max_seq, .. }) = answer {
                bounds.note(&raise.name, raise.section, Bound { g: raise.g, max_seq: *max_seq });
            }
        }
        if bounds.is_empty() {
            return true;
        }
        shell.folder.begin();
        let noted = self.file.note(&bounds, now);
        shell.ended = shell.ended.or(shell.folder.finish(shell.rng));
        noted.is_ok()
    }
}
