//! What the slow path works on: the serial file, what it says, and the serials behind it.

use super::registry::Registry;
use super::{Generator, Minter, WRITE_RETRY, broken};
use crate::refusal::Refusal;
use crate::serial::{Marks, Serial};
use crate::serial_file::{Block, Contents, Holdings, SerialFile, WriteError};
use crate::uniq96::Place;
use common::namespace::Namespace;
use common::parameters::ClusterId;
use common::time::{BootMs, WallMs};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Ranges of spare serials that are kept for a generator; more are a gap.
const SPARES_MAX: usize = 1_024;

/// Guarded by one lock, held across writes; nobody who may not block takes it.
pub(super) struct State {
    pub(super) file: SerialFile,
    /// As they are durable.
    pub(super) contents: Contents,
    /// As they are durable.
    pub(super) holdings: Holdings,
    /// By the generators' ids.
    serials: Vec<Serial>,
    /// By the generators' ids: serials of a bucket that were taken for a request and not given, because it needed more
    /// than the bucket had left and others had taken some above them meanwhile.
    spares: Vec<(u32, Vec<Range<u64>>)>,
    /// Where Uniq96 go on; while a window is open, where it began.
    pub(super) place96: Place,
    /// Whether the clock has passed the mark of the former run, or was waited for long enough.
    pub(super) settled96: bool,
    /// When the last write failed and why; `None` if it did not.
    failed: Option<(BootMs, String)>,
    /// Nothing is minted or written any more.
    pub(super) ended: bool,
}

impl State {
    pub(super) fn new(
        file: SerialFile,
        contents: Contents,
        holdings: Holdings,
        generators: &Registry,
    ) -> Result<Self, String> {
        let cluster = holdings.cluster;
        let serials = generators.iter().map(|g| resume(&contents, cluster, g)).collect::<Result<Vec<_>, _>>()?;
        let spares = vec![(0, Vec::new()); serials.len()];
        let place96 = Place { ms: contents.header.uniq96_mark, serial: 0 };
        Ok(Self { file, contents, holdings, serials, spares, place96, settled96: false, failed: None, ended: false })
    }

    /// The serials of a further generator, whose id is the next.
    ///
    /// # Errors
    /// A text for the operator, if a block of the file belongs to another definition of its name.
    pub(super) fn add(&mut self, generator: &Arc<Generator>) -> Result<(), String> {
        let serial = resume(&self.contents, self.holdings.cluster, generator)?;
        self.serials.push(serial);
        self.spares.push((0, Vec::new()));
        Ok(())
    }

    pub(super) fn serial(&mut self, generator: &Generator) -> Result<&mut Serial, Refusal> {
        self.serials.get_mut(generator.id).ok_or_else(broken)
    }

    /// Keeps serials that were taken and not given. Those of a former bucket are gone.
    pub(super) fn keep_spare(&mut self, generator: &Generator, bucket: u32, serials: Range<u64>) {
        let Some((of, spares)) = self.spares.get_mut(generator.id) else { return };
        if *of != bucket {
            (*of, *spares) = (bucket, Vec::new());
        }
        if spares.len() < SPARES_MAX {
            spares.push(serials);
        }
    }

    /// The first of `n` consecutive ones that were kept, at the end of a bucket.
    pub(super) fn take_spare(&mut self, generator: &Generator, bucket: u32, n: u32) -> Option<u64> {
        let (of, spares) = self.spares.get_mut(generator.id)?;
        let spare = spares.iter_mut().find(|spare| *of == bucket && spare.end - spare.start >= u64::from(n))?;
        let start = spare.start;
        spare.start += u64::from(n);
        spares.retain(|spare| spare.start < spare.end);
        Some(start)
    }

    /// As if enough time had passed since the last failure.
    #[cfg(test)]
    pub(super) fn forget_failure(&mut self) {
        self.failed = None;
    }

    /// Closes the generator's window and takes back what is left of it.
    pub(super) fn take_back(&mut self, generator: &Generator) -> Result<(), Refusal> {
        let serial = self.serial(generator)?;
        let window = generator.window.load();
        // First, so that no block cut from the window before it is closed outlives it.
        generator.windows_ended.fetch_add(1, Ordering::AcqRel);
        let rest = generator.close(&window);
        serial.put_back(window.bucket, rest);
        Ok(())
    }

    /// The file's contents with other marks for a generator.
    ///
    /// # Errors
    /// If its name is new and no block is free.
    fn contents_with(&self, generator: &Generator, marks: Marks, now: WallMs) -> Result<Contents, Refusal> {
        let namespace = &generator.namespace;
        let mut contents = self.contents.clone();
        let checksum = checksum(namespace, self.holdings.cluster);
        let known = contents.blocks.iter().position(|block| is_of(block.as_ref(), namespace));
        let Some(slot) = known.or_else(|| contents.blocks.iter().position(Option::is_none)) else {
            return Err(Refusal::SerialFileIo(format!(
                "its {} blocks are all in use; format one with more (--num-blocks)",
                contents.blocks.len()
            )));
        };
        if let Some(block) = contents.blocks.get_mut(slot) {
            let create_time = block.as_ref().map_or(now, |block| block.create_time);
            *block = Some(Block {
                name: namespace.name().clone(),
                kind: namespace.kind(),
                everyday_reset: namespace.everyday_reset(),
                create_time,
                modification_time: now,
                bucket: marks.bucket,
                bucket_base: marks.base,
                checksum,
                serial: marks.mark,
                step: marks.step,
            });
        }
        Ok(contents)
    }
}

fn is_of(block: Option<&Block>, namespace: &Namespace) -> bool {
    block.is_some_and(|block| block.kind == namespace.kind() && block.name == *namespace.name())
}

/// What stands for a definition in a block of an agent of that cluster.
fn checksum(namespace: &Namespace, cluster: Option<ClusterId>) -> u64 {
    cluster.map_or_else(|| namespace.checksum(), |cluster| namespace.checksum_in(cluster))
}

/// Whether a block was made by this definition, as far as it tells.
fn is_by(block: &Block, namespace: &Namespace, cluster: Option<ClusterId>) -> bool {
    [checksum(namespace, cluster), namespace.checksum()].contains(&block.checksum)
}

/// The serials of a generator go on where its block says. A block of another cluster's name says nothing about this one:
/// no session of ours has minted by it under a lease of this cluster, or it would be this cluster's. One that was made
/// before blocks told their cluster counts if its definition is the same; marks that are too high cost serials, not IDs.
fn resume(contents: &Contents, cluster: Option<ClusterId>, generator: &Arc<Generator>) -> Result<Serial, String> {
    let namespace = &generator.namespace;
    let rules = generator.layout.rules(namespace.everyday_reset());
    let block = contents.blocks.iter().flatten().find(|block| is_of(Some(block), namespace));
    let fits = |block: &&Block| is_by(block, namespace, cluster);
    let foreign = |block: &&Block| cluster.is_some_and(|cluster| !Namespace::same_cluster(block.checksum, cluster));
    let Some(block) = block.filter(|block| fits(block) || !foreign(block)) else {
        return Ok(Serial::resume(rules, Marks { step: namespace.step(), ..Marks::default() }));
    };
    if !fits(&block) {
        return Err(format!(
            "the serial file has a {} generator '{}' of another definition; use the version of this program that made \
             it, or format a new serial file",
            namespace.kind(),
            namespace.name()
        ));
    }
    let marks = Marks { bucket: block.bucket, base: block.bucket_base, mark: block.serial, step: block.step };
    Ok(Serial::resume(rules, marks))
}

impl Minter {
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, State>, Refusal> {
        let Ok(state) = self.state.lock() else {
            self.give_up("a fault of this program; restart it to go on".to_owned());
            return Err(broken());
        };
        match (state.ended, self.gone_why.get()) {
            (false, _) => Ok(state),
            (true, Some(why)) => Err(Refusal::SerialFileIo(why.clone())),
            (true, None) => Err(Refusal::Overloaded("this agent is shutting down")),
        }
    }

    /// Makes a generator's marks durable.
    pub(super) fn write_marks(&self, state: &mut State, generator: &Generator, marks: Marks) -> Result<(), Refusal> {
        let contents = state.contents_with(generator, marks, self.wall())?;
        self.write_contents(state, contents)?;
        let now = self.real_boot();
        state.serial(generator)?.commit(marks, now);
        Ok(())
    }

    /// Makes a later Uniq96 mark durable; nothing happens if it is not later.
    pub(super) fn write_mark96(&self, state: &mut State, mark: WallMs) -> Result<(), Refusal> {
        if mark <= state.contents.header.uniq96_mark {
            return Ok(());
        }
        let mut contents = state.contents.clone();
        contents.header.uniq96_mark = mark;
        self.write_contents(state, contents)
    }

    /// Makes all of the file durable. If that fails, the bounds stay as they were.
    fn write_contents(&self, state: &mut State, mut contents: Contents) -> Result<(), Refusal> {
        self.may_write(state)?;
        let done = state.file.write(&mut contents, &state.holdings);
        self.after_write(state, done)?;
        state.contents = contents;
        Ok(())
    }

    /// Makes what the agent holds durable; nothing happens if it is already.
    pub(super) fn write_holdings(&self, state: &mut State, holdings: Holdings) -> Result<(), Refusal> {
        if holdings == state.holdings {
            return Ok(());
        }
        let done = state.file.write_holdings(&holdings);
        self.after_write(state, done)?;
        state.holdings = holdings;
        Ok(())
    }

    /// A disk that just failed is left alone for a moment, however many requests wait for it.
    fn may_write(&self, state: &State) -> Result<(), Refusal> {
        match &state.failed {
            Some((when, why)) if self.real_boot() - *when < WRITE_RETRY => Err(Refusal::SerialFileIo(why.clone())),
            _ => Ok(()),
        }
    }

    fn after_write(&self, state: &mut State, done: Result<(), WriteError>) -> Result<(), Refusal> {
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.file_works.store(done.is_ok(), Ordering::Relaxed);
        match done {
            Ok(()) => {
                if state.failed.take().is_some() {
                    tracing::info!("the serial file can be written again");
                }
                Ok(())
            }
            Err(WriteError::Io(e)) => {
                tracing::error!(error = %e, "the serial file cannot be written; what was reserved is still minted");
                self.counters.write_failures.fetch_add(1, Ordering::Relaxed);
                state.failed = Some((self.real_boot(), e.to_string()));
                Err(Refusal::SerialFileIo(e.to_string()))
            }
            Err(WriteError::Taken(e)) => {
                state.ended = true;
                self.close_all(state);
                let why = WriteError::Taken(e).to_string();
                self.give_up(why.clone());
                Err(Refusal::SerialFileIo(why))
            }
        }
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
        let mut state = self.lock()?;
        self.close_all(&mut state);
        state.ended = true;
        let mut contents = state.contents.clone();
        let cluster = state.holdings.cluster;
        for generator in self.generators.iter() {
            let (namespace, marks) = (&generator.namespace, state.serial(generator)?.marks_at_rest());
            let ours = |block: &&mut Block| is_of(Some(block), namespace) && is_by(block, namespace, cluster);
            if let Some(block) = contents.blocks.iter_mut().flatten().find(ours) {
                block.serial = marks.mark;
            }
        }
        let place = state.place96;
        let used_up_to = WallMs(place.ms.0.saturating_add(i64::from(place.serial > 0)));
        contents.header.uniq96_mark = used_up_to.min(contents.header.uniq96_mark);
        if contents == state.contents {
            return Ok(());
        }
        self.write_contents(&mut state, contents)
    }
}
