//! What is written down of sections, so that a process that is started again goes on with them: as the same session, from at least what the
//! one before may have given.

use super::counts::add;
use super::{Sequences, lock};
use crate::minter::Confirmation;
use crate::sequence::Bounds;
use crate::serial_file::{Noted, SectionFile, SectionsStart};
use common::namespace::GeneratorName;
use common::parameters::SessionId;
use common::sequence::Section;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// How often it is looked whether a master has renewed a lease of a resumed session.
const LOOK: Duration = Duration::from_millis(20);

/// The file, and what it said at the start.
#[derive(Debug)]
pub(super) struct Durable {
    /// `None`: nothing is written down.
    file: Option<Arc<Mutex<SectionFile>>>,
    /// The session of a process before that goes on, if nothing speaks against it, and what that gave.
    former: Option<(SessionId, Arc<Bounds>)>,
    /// That of this process if it does not.
    fresh: SessionId,
    /// As whom masters know us; set before the first of them is asked.
    life: OnceLock<(SessionId, Arc<Bounds>)>,
}

impl Durable {
    pub(super) fn none() -> Self {
        Self { file: None, former: None, fresh: SessionId(rand::random()), life: OnceLock::new() }
    }

    pub(super) fn new(file: SectionFile, start: &SectionsStart) -> Self {
        let (session, bounds) = (file.session(), file.bounds().clone());
        let (former, fresh) = match start {
            SectionsStart::Resumed => (Some((session, Arc::new(bounds))), SessionId(rand::random())),
            SectionsStart::Fresh(_) => (None, session),
        };
        Self { file: Some(Arc::new(Mutex::new(file))), former, fresh, life: OnceLock::new() }
    }

    /// As whom masters know us.
    pub(super) fn session(&self) -> SessionId {
        self.life.get().map_or(self.fresh, |(session, _)| *session)
    }

    /// No number of a section above this was given by a process before of this session; 0 if there was none.
    pub(super) fn given_before(&self, name: &GeneratorName, section: Section) -> u64 {
        let bound = self.life.get().and_then(|(_, former)| former.get(name, section));
        bound.map_or(0, |bound| bound.max_seq)
    }
}

impl Sequences {
    /// Finds out as whom masters know us. Does not return before that is sure.
    ///
    /// A session that goes on waits until a master has renewed a lease of it, as minting does: a second copy of the agent's files that the
    /// file system does not tell from the first is denied there. Without a master there would be nothing to serve in any case.
    pub(super) async fn settle(&self) {
        let durable = &self.durable;
        let Some(former) = &durable.former else {
            let _ = durable.life.set((durable.fresh, Arc::default()));
            return;
        };
        loop {
            match self.minter.confirmation() {
                Confirmation::Given => break self.go_on(former.clone()),
                Confirmation::Refused if self.begin_anew().await => break,
                Confirmation::Refused | Confirmation::Waits => tokio::time::sleep(LOOK).await,
            }
        }
    }

    fn go_on(&self, former: (SessionId, Arc<Bounds>)) {
        tracing::info!(session = %former.0, sections = former.1.len(), "serving of sections goes on");
        lock(&self.allocator).resume(Arc::clone(&former.1));
        let _ = self.durable.life.set(former);
    }

    /// `false`: what is written of the session before cannot be removed, so that a later start might go on with it.
    async fn begin_anew(&self) -> bool {
        let (fresh, now) = (self.durable.fresh, self.clock.boot());
        if let Some(file) = self.durable.file.clone() {
            let begun = tokio::task::spawn_blocking(move || lock(&file).begin(fresh, now)).await;
            if let Ok(Err(error)) | Err(error) =
                begun.map(|begun| begun.map_err(|e| e.to_string())).map_err(|e| e.to_string())
            {
                tracing::warn!(%error, "what is written of sections cannot be removed");
                tokio::time::sleep(LOOK).await;
                return false;
            }
        }
        tracing::warn!(session = %fresh, "no lease of the session was renewed; sections are served by another session");
        let _ = self.durable.life.set((fresh, Arc::default()));
        true
    }

    /// Writes bounds down. `false`: they must not be used.
    pub(super) async fn note(&self, bounds: Bounds) -> bool {
        let Some(file) = self.durable.file.clone().filter(|_| !bounds.is_empty()) else { return true };
        let now = self.clock.boot();
        // The disk may take its time; nothing is held meanwhile that a call needs.
        let noted = tokio::task::spawn_blocking(move || lock(&file).note(&bounds, now)).await;
        match noted {
            Ok(Ok(Noted::Durable | Noted::StillGivenUp)) => true,
            Ok(Ok(Noted::GivenUp(error))) => {
                add(&self.counts.unwritten, 1);
                tracing::warn!(%error, "bounds of sections cannot be written down; they are served on, but not by the next start of this agent");
                true
            }
            Ok(Err(error)) => {
                add(&self.counts.unwritten, 1);
                tracing::error!(%error, "bounds of sections can be neither written down nor removed; they are not raised");
                false
            }
            Err(error) => {
                tracing::error!(%error, "bounds of sections were not written down");
                false
            }
        }
    }
}
