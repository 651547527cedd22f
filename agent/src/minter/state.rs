//! The engine under its lock, and what it asks for carried out: windows that others mint from, and the serial file.

use super::Minter;
use super::series::SerialSeries;
use crate::gate::Prefix;
use crate::segments::Ask;
use crate::ticks::{TickPosition, TickWindow};
use crate::window::Window;
use common::time::{BootMs, WallMs};
use engine::{Effects, Engine, Published};
use serial_file::{Contents, Holdings, SerialFile, WriteError};
use std::ops::Range;
use std::sync::Arc;

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
        self.minter.names.generators().serials(series).map(Arc::as_ref)
    }
}

impl Effects for Hands<'_> {
    fn wall(&self) -> WallMs {
        self.minter.time.wall()
    }

    fn real_boot(&self) -> BootMs {
        self.minter.time.real_boot()
    }

    fn scale(&self) -> u32 {
        self.minter.time.scale()
    }

    fn why(&self) -> String {
        self.minter.grants.why()
    }

    fn write(&mut self, contents: &mut Contents, holdings: &Holdings) -> Result<(), WriteError> {
        let done = self.file.write(contents, holdings);
        self.minter.disk.written(done)
    }

    fn write_holdings(&mut self, holdings: &Holdings) -> Result<(), WriteError> {
        let done = self.file.write_holdings(holdings);
        self.minter.disk.written(done)
    }

    fn ask(&mut self, series: usize, ask: Ask) {
        if let Some(generator) = self.minter.names.generators().at(series) {
            self.minter.segments.want(generator, series, ask);
        }
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

    fn close_ticks(&mut self, axis: usize) -> Option<TickPosition> {
        self.minter.names.generators().axis(axis)?.close()
    }

    fn open_ticks(&mut self, axis: usize, window: TickWindow) {
        if let Some(axis) = self.minter.names.generators().axis(axis) {
            axis.open(window);
        }
    }

    fn publish(&mut self, published: &Published) {
        self.minter.grants.publish(published);
    }

    fn give_up(&mut self, why: String) {
        self.minter.driver.give_up(why);
    }
}
