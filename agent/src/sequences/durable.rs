//! The records of sections, so that a process that is started again goes on with them: as the same session, from at least what the
//! one before may have given.

use super::counts::add;
use super::name::Name;
use super::{Sequences, lock};
use crate::refusal::Refusal;
use crate::sequence::{Bounds, Decision, HeldRanges, Life, Start};
use common::namespace::GeneratorName;
use common::parameters::SessionId;
use common::sequence::Section;
use serial_file::{Noted, SectionFile, SectionsStart};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// The interval at which it is looked whether a master has renewed a lease of a resumed session.
const LOOK: Duration = Duration::from_millis(20);

/// The file, and as whom the process goes on by it.
#[derive(Debug)]
pub(super) struct Durable {
    /// `None`: nothing is written down.
    file: Option<Arc<Mutex<SectionFile>>>,
    start: Start,
    /// Set before the first master is asked for sections.
    life: OnceLock<Life>,
    /// Told when a master has listed sections.
    pub(super) listed: Notify,
}

impl Durable {
    pub(super) fn none() -> Self {
        Self {
            file: None,
            start: Start::nothing(SessionId(rand::random())),
            life: OnceLock::new(),
            listed: Notify::new(),
        }
    }

    pub(super) fn new(file: SectionFile, found: &SectionsStart) -> Self {
        let start = file.start(found, SessionId(rand::random()));
        Self { file: Some(Arc::new(Mutex::new(file))), start, ..Self::none() }
    }

    /// No number of a section above this was given by a process before of this session; `None` if none was.
    pub(super) fn given_before(&self, name: &GeneratorName, section: Section) -> Option<u64> {
        self.life.get()?.given_before(name, section)
    }
}

impl Sequences {
    /// Finds out as whom masters are to know us. Does not return before that is sure: without a master there would be nothing to serve in any
    /// case.
    pub(super) async fn settle(&self) -> SessionId {
        let life = loop {
            match self.durable.start.decide(self.minter.grants().confirmation()) {
                Decision::Serves(life) => break life,
                Decision::Begins(life) if self.begin_anew(life.session()).await => break life,
                Decision::Begins(_) | Decision::Waits => tokio::time::sleep(LOOK).await,
            }
        };
        let sections = life.former().len();
        if sections > 0 {
            tracing::info!(session = %life.session(), sections, "serving of sections goes on");
        }
        lock(&self.allocator).resume(Arc::clone(life.former()));
        let session = life.session();
        let _ = self.durable.life.set(life);
        session
    }

    /// `false`: what is written of the session before cannot be removed, so that a later start might go on with it.
    async fn begin_anew(&self, fresh: SessionId) -> bool {
        let now = self.clock.boot();
        if let Some(file) = self.durable.file.clone() {
            let begun = tokio::task::spawn_blocking(move || lock(&file).begin(fresh, now)).await;
            if let Ok(Err(error)) | Err(error) =
                begun.map(|begun| begun.map_err(|e| e.to_string())).map_err(|e| e.to_string())
            {
                tracing::warn!(%error, "what is written of sections cannot be removed");
                return false;
            }
        }
        tracing::warn!(session = %fresh, "no lease of the session was renewed; sections are served by another session");
        true
    }

    /// Says what masters list for us of a name.
    pub(super) fn publish(&self, name: &Name, held: Option<&HeldRanges>) {
        name.publish(held.into_iter().flat_map(HeldRanges::ranges).copied());
    }

    /// Writes bounds down. `false`: they must not be used.
    pub(super) async fn note(&self, bounds: Bounds) -> bool {
        if bounds.is_empty() { true } else { self.write(bounds).await }
    }

    /// Writes down, as long as the program runs, of which sections this session is the last owner no more.
    pub(super) async fn note_lost(&self) {
        loop {
            self.durable.listed.notified().await;
            let now = self.clock.boot();
            let Some(listed) = lock(&self.allocator).take_lost(now) else { continue };
            let Some(file) = self.durable.file.clone() else { continue };
            let lost = tokio::task::spawn_blocking(move || lock(&file).bounds().lost(&listed, now)).await;
            self.note(lost.unwrap_or_default()).await;
        }
    }

    /// Tells whether sections may be given to us. What could not be written down is tried again: once it can be, they may.
    pub(super) async fn may_have_sections(&self) -> bool {
        match self.minter.may_give_sections() {
            Err(Refusal::BoundsUnwritten(_)) => self.write(Bounds::default()).await,
            may => may.is_ok(),
        }
    }

    async fn write(&self, bounds: Bounds) -> bool {
        let Some(file) = self.durable.file.clone() else { return true };
        let now = self.clock.boot();
        // The disk may take its time; nothing is held meanwhile that a call needs.
        let noted = tokio::task::spawn_blocking(move || lock(&file).note(&bounds, now)).await;
        match noted {
            Ok(Ok(Noted::Durable | Noted::StillGivenUp)) => {
                self.minter.disk().note_bounds(None);
                true
            }
            Ok(Ok(Noted::GivenUp(error))) => {
                self.minter.disk().note_bounds(None);
                add(&self.counts.unwritten, 1);
                tracing::warn!(%error, "bounds of sections cannot be written down; they are served on, but not by the next start of this agent");
                true
            }
            Ok(Err(error)) => {
                add(&self.counts.unwritten, 1);
                tracing::error!(%error, "bounds of sections can be neither written down nor removed; they are not raised");
                self.minter.disk().note_bounds(Some(error.to_string()));
                false
            }
            Err(error) => {
                tracing::error!(%error, "bounds of sections were not written down");
                self.minter.disk().note_bounds(Some(error.to_string()));
                false
            }
        }
    }
}
