//! The engine under its lock, and what it asks for carried out: windows that others mint from, and the serial file.

use super::Minter;
use super::series::SerialSeries;
use crate::engine::{Effects, Engine, Published, broken};
use crate::gate::Prefix;
use crate::refusal::Refusal;
use crate::segments::Ask;
use crate::serial_file::{Contents, Holdings, SerialFile, WriteError};
use crate::ticks::{Place, TickWindow};
use crate::window::Window;
use common::time::{BootMs, WallMs};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Guarded by one lock, held across writes; nobody who may not block takes it.
pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) file: SerialFile,
}

impl State {
    /// The engine, and what carries out what it asks for.
    pub(super) fn parts<'a>(&'a mut self, minter: &'a Minter) -> (&'a mut Engine, Hands<'a>) {
        let Self { engine, file } = self;
        (engine, Hands { minter, file })
    }
}

/// Carries out what the engine asks for.
pub(super) struct Hands<'a> {
    minter: &'a Minter,
    file: &'a mut SerialFile,
}

impl Hands<'_> {
    /// Those of ticks have no window of their own.
    fn serials(&self, series: usize) -> Option<&SerialSeries> {
        self.minter.generators.serials(series).map(Arc::as_ref)
    }

    fn written(&self, done: Result<(), WriteError>) -> Result<(), WriteError> {
        self.minter.counters.writes.fetch_add(1, Ordering::Relaxed);
        let worked = self.minter.file_works.swap(done.is_ok(), Ordering::Relaxed);
        match &done {
            Ok(()) if !worked => tracing::info!("the serial file can be written again"),
            Err(WriteError::Io(e)) => {
                tracing::error!(error = %e, "the serial file cannot be written; what was reserved is still minted");
                self.minter.counters.write_failures.fetch_add(1, Ordering::Relaxed);
            }
            Ok(()) | Err(WriteError::Taken(_)) => {}
        }
        done
    }
}

impl Effects for Hands<'_> {
    fn wall(&self) -> WallMs {
        self.minter.wall()
    }

    fn real_boot(&self) -> BootMs {
        self.minter.real_boot()
    }

    fn scale(&self) -> u32 {
        self.minter.scale()
    }

    fn why(&self) -> String {
        self.minter.why()
    }

    fn write(&mut self, contents: &mut Contents, holdings: &Holdings) -> Result<(), WriteError> {
        let done = self.file.write(contents, holdings);
        self.written(done)
    }

    fn write_holdings(&mut self, holdings: &Holdings) -> Result<(), WriteError> {
        let done = self.file.write_holdings(holdings);
        self.written(done)
    }

    fn ask(&mut self, series: usize, ask: Ask) {
        self.minter.want(series, ask);
    }

    fn is_open(&self, series: usize) -> bool {
        self.serials(series).is_some_and(|series| !series.window.load().is_closed())
    }

    fn close(&mut self, series: usize) -> (u32, Range<u64>) {
        let Some(series) = self.serials(series) else { return (0, 0..0) };
        let window = series.window.load();
        let rest = series.close(&window);
        series.ends.end();
        (window.bucket, rest)
    }

    fn interrupt(&mut self, series: usize) -> (u32, Range<u64>) {
        let Some(series) = self.serials(series) else { return (0, 0..0) };
        let window = series.window.load();
        (window.bucket, series.close(&window))
    }

    fn lengthen(&mut self, series: usize, serials: Range<u64>) {
        if let Some(series) = self.serials(series) {
            let longer = series.window.load().with_serials(serials);
            series.window.store(Arc::new(longer));
        }
    }

    fn open(&mut self, series: usize, window: Window<Prefix>) {
        if let Some(series) = self.serials(series) {
            series.window.store(Arc::new(window));
        }
    }

    fn close_ticks(&mut self, axis: usize) -> Option<Place> {
        self.minter.axes.known(axis)?.close()
    }

    fn open_ticks(&mut self, axis: usize, window: TickWindow) {
        if let Some(axis) = self.minter.axes.known(axis) {
            axis.open(window);
        }
    }

    fn publish(&mut self, published: &Published) {
        self.minter.published.store(Arc::new(published.clone()));
        self.minter.leases_changed.notify_waiters();
    }

    fn give_up(&mut self, why: String) {
        self.minter.give_up(why);
    }
}

impl Minter {
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, State>, Refusal> {
        let Ok(state) = self.state.lock() else {
            self.give_up("a fault of this program; restart it to go on".to_owned());
            return Err(broken());
        };
        match (state.engine.is_ended(), self.gone_why.get()) {
            (false, _) => Ok(state),
            (true, Some(why)) => Err(Refusal::SerialFileIo(why.clone())),
            (true, None) => Err(Refusal::Overloaded("this agent is shutting down")),
        }
    }

    /// Lets the engine decide something.
    pub(super) fn decide<T>(
        &self,
        question: impl FnOnce(&mut Engine, &mut Hands<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut state = self.lock()?;
        let (engine, mut hands) = state.parts(self);
        question(engine, &mut hands)
    }

    /// Ends minting for good.
    fn give_up(&self, why: String) {
        tracing::error!(%why, "minting ends");
        // The first reason is the one to report.
        let _ = self.gone_why.set(why);
        self.gone.cancel();
    }

    /// Ends minting and writes back what was reserved and not used, so that a clean stop leaves no gap.
    ///
    /// # Errors
    /// If it cannot be written; then the next start begins at the durable marks, and the serials below are a gap.
    pub fn end(&self) -> Result<(), Refusal> {
        self.decide(|engine, hands| engine.end(hands))
    }
}
