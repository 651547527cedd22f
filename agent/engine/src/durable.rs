//! The writes that are durable before they count, and the state that a failed one leaves.

use super::ticks::Axis;
use super::{Effects, Engine, WRITE_RETRY, broken, series};
use ids::namespace::Namespace;
use ids::time::WallMs;
use minting::gate::Layout;
use minting::refusal::Refusal;
use minting::serial::Marks;
use serial_file::{Block, Contents, Holdings, WriteError};

impl Engine {
    /// Makes a series' marks durable.
    pub(super) fn write_marks(&mut self, effects: &mut impl Effects, at: usize, marks: Marks) -> Result<(), Refusal> {
        let contents = self.contents_with(effects, at, marks)?;
        self.write_contents(effects, contents)?;
        let now = effects.real_boot();
        self.series.get_mut(at).ok_or_else(broken)?.serial.commit(marks, now);
        Ok(())
    }

    /// The file's contents with other marks for a series, in its own block, or in one that is free.
    pub(super) fn contents_with(&self, effects: &impl Effects, at: usize, marks: Marks) -> Result<Contents, Refusal> {
        let series = self.series.get(at).ok_or_else(broken)?;
        let (cluster, now) = (self.holdings.cluster, effects.wall());
        let offset = self.published.membership.parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default();
        let gives_way = |block: &Block| {
            let retired = self.retired.get(&(block.kind, block.name));
            retired.is_some_and(|layout| layout.bucket_at(offset, now) > block.bucket)
        };
        let with = series.contents_with(&self.contents, cluster, marks, now, gives_way);
        with.ok_or(Refusal::SerialFileFull { blocks: self.contents.blocks.len() })
    }

    /// Nothing is minted any more by a name that was retired. Its block is another's once the hour, day or tick of its last IDs is over.
    pub fn retire(&mut self, namespace: &Namespace) {
        let layout = Layout::of(namespace);
        if let Some(layout) = layout.filter(|_| series::has_block_of(&self.contents, namespace, self.holdings.cluster))
        {
            self.retired.insert((namespace.kind(), namespace.name().into()), layout);
        }
    }

    /// Makes a later time mark durable; nothing happens if it is not later.
    pub(super) fn write_mark(&mut self, effects: &mut impl Effects, mark: WallMs) -> Result<(), Refusal> {
        if mark <= self.contents.header.time_mark {
            return Ok(());
        }
        let mut contents = self.contents.clone();
        contents.header.time_mark = mark;
        self.write_contents(effects, contents)
    }

    /// Makes all of the file durable. If that fails, the bounds stay as they were.
    pub(super) fn write_contents(&mut self, effects: &mut impl Effects, mut contents: Contents) -> Result<(), Refusal> {
        self.may_write(effects)?;
        if self.segments_given_up {
            let holdings = self.held();
            return self.write_both(effects, contents, holdings);
        }
        let done = effects.write(&mut contents, &self.holdings);
        self.after_write(effects, done)?;
        self.contents = contents;
        Ok(())
    }

    /// The holdings that the next write is to say, but for what it changes: those that are durable, without segments that are given up. The point up
    /// to which the session was ever granted places stays: masters are shown it.
    pub(super) fn held(&self) -> Holdings {
        let mut holdings = self.holdings.clone();
        if self.segments_given_up {
            holdings.segments.values_mut().for_each(|segments| segments.record.held.clear());
        }
        holdings
    }

    /// Makes what the agent holds, made of what [is held](Self::held), durable; nothing happens if it is already.
    pub(super) fn write_holdings(&mut self, effects: &mut impl Effects, holdings: Holdings) -> Result<(), Refusal> {
        if holdings == self.holdings {
            return Ok(());
        }
        if holdings.segments != self.holdings.segments {
            return self.write_segments(effects, holdings);
        }
        let done = effects.write_holdings(&holdings);
        self.after_write(effects, done)?;
        self.holdings = holdings;
        Ok(())
    }

    /// Makes other segments, or marks in them, durable, with the marks of the file as they are. Each is a write of the file, too, and counted in
    /// it: an older lineage that is put back alone would else be taken for the newest one, and its marks given again.
    fn write_segments(&mut self, effects: &mut impl Effects, holdings: Holdings) -> Result<(), Refusal> {
        self.write_both(effects, self.contents.clone(), holdings)
    }

    fn write_both(
        &mut self,
        effects: &mut impl Effects,
        mut contents: Contents,
        holdings: Holdings,
    ) -> Result<(), Refusal> {
        let done = effects.write(&mut contents, &holdings);
        self.after_write(effects, done)?;
        (self.contents, self.holdings, self.segments_given_up) = (contents, holdings, false);
        Ok(())
    }

    /// A disk that just failed is left alone for a moment, however many requests wait for it.
    pub(super) fn may_write(&self, effects: &impl Effects) -> Result<(), Refusal> {
        match &self.failed {
            Some((when, why)) if effects.real_boot() - *when < WRITE_RETRY => Err(Refusal::SerialFileIo(why.clone())),
            _ => Ok(()),
        }
    }

    fn after_write(&mut self, effects: &mut impl Effects, done: Result<(), WriteError>) -> Result<(), Refusal> {
        match done {
            Ok(()) => {
                self.failed = None;
                Ok(())
            }
            Err(WriteError::Io(e)) => {
                let why = e.to_string();
                self.failed = Some((effects.real_boot(), why.clone()));
                Err(Refusal::SerialFileIo(why))
            }
            Err(taken @ WriteError::Lost(_)) => {
                self.ended = true;
                self.close_all(effects);
                let why = taken.to_string();
                effects.give_up(why.clone());
                Err(Refusal::SerialFileIo(why))
            }
        }
    }

    /// Ends minting and writes back what was reserved and not used, so that a clean stop leaves no gap.
    ///
    /// # Errors
    /// If it cannot be written; then the next start begins at the durable marks, and the serials below are a gap.
    pub fn end(&mut self, effects: &mut impl Effects) -> Result<(), Refusal> {
        self.close_all(effects);
        self.ended = true;
        let mut contents = self.contents.clone();
        for series in &self.series {
            series.rest(&mut contents, self.holdings.cluster);
        }
        let used_up_to = self.axes.iter().map(Axis::used_up_to).max().unwrap_or(contents.header.time_mark);
        contents.header.time_mark = used_up_to.min(contents.header.time_mark);
        let holdings = self.holdings_at_rest();
        if contents == self.contents {
            return self.write_holdings(effects, holdings);
        }
        self.may_write(effects)?;
        self.write_both(effects, contents, holdings)
    }
}
