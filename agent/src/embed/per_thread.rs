//! A generator for one thread.

use super::block::Blocks;
use super::{MintError, Shared, UniqGenerator};
use common::kind::Kind;

/// The generators of one name, for the thread that has this.
pub struct PerThread {
    shared: Shared,
    blocks: Blocks,
}

impl PerThread {
    pub(super) fn new(shared: Shared) -> Self {
        Self { blocks: Blocks::of(shared.generator(), true), shared }
    }

    #[inline(always)]
    fn at_hand(&self, kind: Kind) -> Option<u64> {
        self.shared.process.check().ok()?;
        self.blocks.take(kind, self.shared.time.wall())
    }

    #[inline(never)]
    fn next(&self, kind: Kind) -> Result<u128, MintError> {
        self.shared.process.check()?;
        self.blocks.take_or_cut(kind, &self.shared).map_or_else(|| self.shared.slow_path(kind), Ok)
    }

    /// The same for numbers of 64 bits: these come back in a register, so that calls which take one at hand store nothing but that.
    #[cold]
    #[inline(never)]
    fn next_64(&self, kind: Kind) -> Result<u64, MintError> {
        self.next(kind).map(|number| number as u64)
    }
}

impl UniqGenerator for PerThread {
    #[inline]
    fn get_uniq64(&self) -> Result<u64, MintError> {
        match self.at_hand(Kind::Uniq64) {
            Some(id) => Ok(id),
            None => self.next_64(Kind::Uniq64),
        }
    }

    fn get_uniq96(&self) -> Result<u128, MintError> {
        self.shared.get_uniq96()
    }

    #[inline(always)]
    fn get_number(&self) -> Result<u128, MintError> {
        match self.at_hand(Kind::Layout) {
            Some(number) => Ok(number.into()),
            None => self.next(Kind::Layout),
        }
    }

    fn get_batch_number(&self, n: u32, ids: &mut Vec<u128>) -> Result<(), MintError> {
        self.shared.get_batch_number(n, ids)
    }

    #[inline]
    fn get_segment(&self) -> Result<u64, MintError> {
        match self.at_hand(Kind::Segment) {
            Some(number) => Ok(number),
            None => self.next_64(Kind::Segment),
        }
    }

    fn get_batch_segment(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.shared.get_batch_segment(n, ids)
    }

    fn get_id(&self) -> Result<String, MintError> {
        self.shared.get_id()
    }

    fn get_batch_id(&self, n: u32, ids: &mut Vec<String>) -> Result<(), MintError> {
        self.shared.get_batch_id(n, ids)
    }

    fn get_uniq_string(&self, biz: &str, custom: &str) -> Result<String, MintError> {
        self.shared.get_uniq_string(biz, custom)
    }

    fn get_batch64(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.shared.get_batch64(n, ids)
    }

    fn get_batch_string(&self, n: u32, biz: &str, custom: &str, texts: &mut Vec<String>) -> Result<(), MintError> {
        self.shared.get_batch_string(n, biz, custom, texts)
    }
}
