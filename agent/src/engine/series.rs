//! A series of serials: what a generator's IDs are made by, and how far they have come.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::gate::Layout;
use crate::serial::{Marks, Serial};
use crate::serial_file::{Block, Contents};
use common::namespace::Namespace;
use common::parameters::ClusterId;
use common::time::WallMs;
use std::ops::Range;

/// Ranges of spare serials that are kept for a generator; more are a gap.
const SPARES_MAX: usize = 1_024;

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) namespace: Namespace,
    pub(super) layout: Layout,
    pub(super) serial: Serial,
    /// Serials of a bucket that were taken for a request and not given, because it needed more than the bucket had left
    /// and others had taken some above them meanwhile.
    spares: (u32, Vec<Range<u64>>),
}

impl Series {
    /// The serials go on where the block says. A block of another cluster's name says nothing about this one: no session
    /// of ours has minted by it under a lease of this cluster, or it would be this cluster's. One that was made before
    /// blocks told their cluster counts if its definition is the same; marks that are too high cost serials, not IDs.
    pub(super) fn resume(
        namespace: &Namespace,
        contents: &Contents,
        cluster: Option<ClusterId>,
    ) -> Result<Self, String> {
        let layout = Layout::of(namespace)
            .ok_or_else(|| format!("a generator of kind {} keeps no serials", namespace.kind()))?;
        let marks = recalled(namespace, contents, cluster)?;
        let serial = Serial::resume(layout.rules(namespace.everyday_reset()), marks);
        Ok(Self { namespace: namespace.clone(), layout, serial, spares: (0, Vec::new()) })
    }

    /// Keeps serials that were taken and not given. Those of a former bucket are gone.
    pub(super) fn keep_spare(&mut self, bucket: u32, serials: Range<u64>) {
        let (of, spares) = &mut self.spares;
        if *of != bucket {
            (*of, *spares) = (bucket, Vec::new());
        }
        if spares.len() < SPARES_MAX {
            spares.push(serials);
        }
    }

    /// The first of `n` consecutive ones that were kept, at the end of a bucket.
    pub(super) fn take_spare(&mut self, bucket: u32, n: u32) -> Option<u64> {
        let (of, spares) = &mut self.spares;
        let spare = spares.iter_mut().find(|spare| *of == bucket && spare.end - spare.start >= u64::from(n))?;
        let start = spare.start;
        spare.start += u64::from(n);
        spares.retain(|spare| spare.start < spare.end);
        Some(start)
    }

    /// The file's contents with other marks for this series; `None` if its name is new and no block is free.
    pub(super) fn contents_with(
        &self,
        contents: &Contents,
        cluster: Option<ClusterId>,
        marks: Marks,
        now: WallMs,
    ) -> Option<Contents> {
        let namespace = &self.namespace;
        let mut contents = contents.clone();
        let known = contents.blocks.iter().position(|block| is_of(block.as_ref(), namespace));
        let slot = known.or_else(|| contents.blocks.iter().position(Option::is_none))?;
        let block = contents.blocks.get_mut(slot)?;
        let create_time = block.as_ref().map_or(now, |block| block.create_time);
        *block = Some(Block {
            name: namespace.name().clone(),
            kind: namespace.kind(),
            everyday_reset: namespace.everyday_reset(),
            create_time,
            modification_time: now,
            bucket: marks.bucket,
            bucket_base: marks.base,
            checksum: checksum(namespace, cluster),
            serial: marks.mark,
            step: marks.step,
        });
        Some(contents)
    }

    /// The mark of this series' block at a clean stop, when nothing is lent out.
    pub(super) fn rest(&self, contents: &mut Contents, cluster: Option<ClusterId>) {
        let namespace = &self.namespace;
        let ours = |block: &&mut Block| is_of(Some(block), namespace) && is_by(block, namespace, cluster);
        if let Some(block) = contents.blocks.iter_mut().flatten().find(ours) {
            block.serial = self.serial.marks_at_rest().mark;
        }
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

fn recalled(namespace: &Namespace, contents: &Contents, cluster: Option<ClusterId>) -> Result<Marks, String> {
    let block = contents.blocks.iter().flatten().find(|block| is_of(Some(block), namespace));
    let fits = |block: &&Block| is_by(block, namespace, cluster);
    let foreign = |block: &&Block| cluster.is_some_and(|cluster| !Namespace::same_cluster(block.checksum, cluster));
    let Some(block) = block.filter(|block| fits(block) || !foreign(block)) else {
        return Ok(Marks { step: namespace.step(), ..Marks::default() });
    };
    if !fits(&block) {
        return Err(format!(
            "the serial file has a {} generator '{}' of another definition; use the version of this program that made \
             it, or format a new serial file",
            namespace.kind(),
            namespace.name()
        ));
    }
    Ok(Marks { bucket: block.bucket, base: block.bucket_base, mark: block.serial, step: block.step })
}
