//! A series of serials: what a generator's IDs are made by, and how far they have come.

use ids::namespace::Namespace;
use ids::parameters::ClusterId;
use ids::time::WallMs;
use minting::gate::Layout;
use minting::segments::Segments;
use minting::serial::{Marks, Serial};
use serial_file::{Block, Contents, NUM_BLOCKS};
use std::ops::Range;

/// Ranges of spare serials that are kept for a generator; more are a gap.
const SPARES_MAX: usize = 1_024;

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) namespace: Namespace,
    pub(super) layout: Layout,
    pub(super) serial: Serial,
    /// The segments that its numbers come from if they are plain ones, until its name ends; its serials stand for nothing then.
    pub(super) segments: Option<Segments>,
    /// The axis on which its IDs go on if they are of a tick; its serials stand for nothing then, and its block for its definition.
    pub(super) axis: Option<usize>,
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
        let (segments, axis) = (None, None);
        Ok(Self { namespace: namespace.clone(), layout, serial, segments, axis, spares: (0, Vec::new()) })
    }

    /// Takes back what nobody has taken of a window.
    pub(super) fn put_back(&mut self, bucket: u32, rest: Range<u64>) {
        match &mut self.segments {
            Some(segments) => segments.put_back(bucket, &rest),
            None => self.serial.put_back(bucket, rest),
        };
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

    /// The most that a call can still have of a bucket: what is free, or what was kept.
    pub(super) fn left(&self, bucket: u32) -> u64 {
        let (of, spares) = &self.spares;
        let spares = spares.iter().filter(|_| *of == bucket).map(|spare| spare.end - spare.start);
        spares.fold(self.serial.capacity_left(bucket), u64::max)
    }

    /// The file's contents with other marks for this series. A name that is new takes a free block, or one of a name that `gives_way`, or
    /// a further one; `None` if there may be no more.
    pub(super) fn contents_with(
        &self,
        contents: &Contents,
        cluster: Option<ClusterId>,
        marks: Marks,
        now: WallMs,
        gives_way: impl Fn(&Block) -> bool,
    ) -> Option<Contents> {
        let namespace = &self.namespace;
        let mut contents = contents.clone();
        let known = contents.blocks.iter().position(|block| is_of(block.as_ref(), namespace));
        let free = || contents.blocks.iter().position(Option::is_none);
        let slot = match known.or_else(free) {
            Some(slot) => slot,
            None => match contents.blocks.iter().position(|block| block.as_ref().is_some_and(&gives_way)) {
                Some(slot) => {
                    // Whoever goes on with that name nevertheless begins later than its last IDs.
                    contents.header.names_from = contents.header.names_from.max(now);
                    slot
                }
                None if contents.blocks.len() < *NUM_BLOCKS.end() as usize => {
                    contents.blocks.push(None);
                    contents.blocks.len() - 1
                }
                None => return None,
            },
        };
        let block = contents.blocks.get_mut(slot)?;
        let create_time = block.as_ref().filter(|_| known.is_some()).map_or(now, |block| block.create_time);
        *block = Some(Block {
            name: namespace.name().into(),
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

    /// Tells whether the file has to have a block of this name first. The definition of one that is there was compared when the series was
    /// added.
    pub(super) fn needs_block(&self, contents: &Contents) -> bool {
        let mut blocks = contents.blocks.iter();
        self.namespace.kind().has_blocks() && !blocks.any(|block| is_of(block.as_ref(), &self.namespace))
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

/// Tells whether the file has a block that was made by this definition.
pub(super) fn has_block_of(contents: &Contents, namespace: &Namespace, cluster: Option<ClusterId>) -> bool {
    let mut blocks = contents.blocks.iter().flatten();
    blocks.any(|block| is_of(Some(block), namespace) && is_by(block, namespace, cluster))
}

fn is_of(block: Option<&Block>, namespace: &Namespace) -> bool {
    block.is_some_and(|block| block.kind == namespace.kind() && block.name == namespace.name().into())
}

/// The checksum that stands for a definition in a block of an agent of that cluster.
fn checksum(namespace: &Namespace, cluster: Option<ClusterId>) -> u64 {
    cluster.map_or_else(|| namespace.checksum(), |cluster| namespace.checksum_in(cluster))
}

/// Tells whether a block was made by this definition, as far as it tells.
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

#[cfg(test)]
mod tests {
    use super::*;
    use ids::kind::Kind;
    use ids::namespace::{Definition, Scope, Uniq64Spec};
    use ids::parameters::SessionId;
    use serial_file::{BlockName, Header};

    const OURS: Option<ClusterId> = Some(ClusterId(1));
    const THEIRS: Option<ClusterId> = Some(ClusterId(2));
    /// No block gives way.
    const NONE: fn(&Block) -> bool = |_| false;
    const MARKS: Marks = Marks { bucket: 5, base: 10, mark: 110, step: 1_000 };

    fn empty() -> Contents {
        let header = Header { session: SessionId(1), time_mark: WallMs(0), write_counter: 0, names_from: WallMs(0) };
        Contents { header, blocks: vec![None, None, None] }
    }

    fn orders(step: u32) -> Namespace {
        let definition =
            Definition::Uniq64(Uniq64Spec { scope: Some(Scope::Own), step: Some(step), ..Uniq64Spec::default() });
        Namespace::define("orders".parse().unwrap(), &definition).unwrap()
    }

    fn series(namespace: &Namespace, contents: &Contents, cluster: Option<ClusterId>) -> Series {
        Series::resume(namespace, contents, cluster).unwrap()
    }

    #[test]
    fn spares_are_given_once_in_their_bucket_and_so_many_of_them_are_kept() {
        let mut series = series(&Namespace::default_of(Kind::Uniq64), &empty(), None);
        series.keep_spare(5, 10..20);
        series.keep_spare(5, 30..33);
        assert_eq!(series.take_spare(6, 1), None, "of another bucket");
        assert_eq!((series.take_spare(5, 11), series.take_spare(5, 10)), (None, Some(10)), "they follow on each other");
        assert_eq!([2, 2, 1, 1].map(|n| series.take_spare(5, n)), [Some(30), None, Some(32), None]);
        for n in 0..=SPARES_MAX as u64 {
            series.keep_spare(7, 2 * n..2 * n + 1);
        }
        assert_eq!(std::iter::from_fn(|| series.take_spare(7, 1)).count(), SPARES_MAX);
        series.keep_spare(7, 9_000..9_001);
        assert_eq!(series.take_spare(7, 1), Some(9_000), "there is room again");
        series.keep_spare(7, 9_002..9_003);
        series.keep_spare(8, 4..5);
        assert_eq!((series.take_spare(8, 1), series.take_spare(8, 1)), (Some(4), None), "those of 7 are gone");
    }

    #[test]
    fn each_kind_and_name_has_a_block_of_its_own() {
        let mut contents = empty();
        let all = [Namespace::default_of(Kind::Uniq64), Namespace::default_of(Kind::String), orders(1_000)];
        for (place, namespace) in all.iter().enumerate() {
            let marks = Marks { mark: 100 + place as u64, ..MARKS };
            contents =
                series(namespace, &contents, OURS).contents_with(&contents, OURS, marks, WallMs(7), NONE).unwrap();
        }
        for (place, namespace) in all.iter().enumerate() {
            let marks = Marks { mark: 100 + place as u64, ..MARKS };
            assert_eq!(series(namespace, &contents, OURS).serial.marks(), marks);
            let again =
                series(namespace, &contents, OURS).contents_with(&contents, OURS, marks, WallMs(8), NONE).unwrap();
            let block = again.blocks[place].as_ref().unwrap();
            assert_eq!((block.create_time, block.modification_time), (WallMs(7), WallMs(8)));
        }
        assert_eq!(contents.blocks.len(), 3);
    }

    #[test]
    fn a_name_without_a_block_takes_a_free_one_or_one_that_gives_way_or_a_further_one_up_to_the_most_there_can_be() {
        let mut contents = empty();
        let block = |n: usize| {
            let own = series(&orders(1_000), &empty(), OURS).contents_with(&empty(), OURS, MARKS, WallMs(7), NONE);
            let block = own.unwrap().blocks[0].clone().unwrap();
            Some(Block { name: BlockName::from(&format!("n{n}").parse().unwrap()), ..block })
        };
        contents.blocks = (0..3).map(block).collect();
        let with = |contents: &Contents, gives_way: fn(&Block) -> bool| {
            series(&orders(1_000), contents, OURS).contents_with(contents, OURS, MARKS, WallMs(9), gives_way)
        };
        let name = |contents: &Contents, at: usize| contents.blocks[at].as_ref().unwrap().name.to_string();
        let grown = with(&contents, NONE).unwrap();
        assert_eq!((grown.blocks.len(), name(&grown, 3), grown.header.names_from), (4, "orders".into(), WallMs(0)));
        let second: fn(&Block) -> bool = |block| block.name.to_string() == "n1";
        let taken = with(&contents, second).unwrap();
        assert_eq!((taken.blocks.len(), name(&taken, 1), taken.header.names_from), (3, "orders".into(), WallMs(9)));
        assert_eq!(taken.blocks[1].as_ref().unwrap().create_time, WallMs(9));
        contents.blocks[2] = None;
        let free = with(&contents, second).unwrap();
        assert_eq!((name(&free, 2), free.header.names_from), ("orders".into(), WallMs(0)), "a free one first");
        contents.blocks = (0..*NUM_BLOCKS.end() as usize).map(block).collect();
        assert_eq!(with(&contents, NONE), None);
        assert_eq!(with(&contents, second).map(|taken| name(&taken, 1)), Some("orders".into()));
    }

    #[test]
    fn a_block_counts_for_the_definition_and_the_cluster_that_made_it() {
        let contents =
            series(&orders(1_000), &empty(), OURS).contents_with(&empty(), OURS, MARKS, WallMs(7), NONE).unwrap();
        assert_eq!(series(&orders(1_000), &contents, OURS).serial.marks(), MARKS);
        let elsewhere = series(&orders(2_000), &contents, THEIRS).serial;
        assert_eq!(elsewhere.marks(), Marks { step: 2_000, ..Marks::default() });
        let daily = Definition::Uniq64(Uniq64Spec {
            scope: Some(Scope::Own),
            everyday_reset: Some(true),
            ..Uniq64Spec::default()
        });
        let daily = Namespace::define("orders".parse().unwrap(), &daily).unwrap();
        assert!(Series::resume(&daily, &contents, OURS).is_err(), "another definition");
        let mut stopped = contents.clone();
        series(&orders(1_000), &empty(), THEIRS).rest(&mut stopped, THEIRS);
        assert_eq!(stopped, contents, "another cluster's");
        series(&orders(1_000), &empty(), OURS).rest(&mut stopped, OURS);
        assert_eq!(stopped.blocks[0].as_ref().map(|block| block.serial), Some(0));
        // As before blocks told their cluster.
        let plain =
            series(&orders(1_000), &empty(), None).contents_with(&empty(), None, MARKS, WallMs(7), NONE).unwrap();
        assert_eq!(series(&orders(1_000), &plain, OURS).serial.marks(), MARKS);
    }
}
