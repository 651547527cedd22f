//! Kinds that agents mint, and what of them their serial files say from the beginning.

use super::minter::Of;
use super::mutation::{Mutation, Mutations};
use common::calendar::UtcOffset;
use common::kind;
use common::namespace::{Definition, LayoutSpec, Namespace, Scope, SegmentSpec, StringSpec};
use common::segment::SegmentDefinition;
use common::time::WallMs;
use minting::gate::Layout;
use minting::serial::{Marks, Rules};
use serial_file::Block;
use std::sync::Arc;

/// A kind of generator.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its definition.
    pub namespace: Namespace,
    layout: Layout,
    /// The rules that its serials follow.
    pub rules: Rules,
}

impl Kind {
    fn new(namespace: Namespace) -> Self {
        let layout = Layout::of(&namespace).expect("a kind with serials");
        let rules = layout.rules(namespace.everyday_reset());
        Self { namespace, layout, rules }
    }

    /// Uniq64.
    pub fn uniq64() -> Self {
        Self::new(Namespace::default_of(kind::Kind::Uniq64))
    }

    /// Strings with a serial of so many digits.
    pub fn strings(width: usize, everyday_reset: bool) -> Self {
        let definition = Definition::String(StringSpec {
            everyday_reset: Some(everyday_reset),
            ..StringSpec::of(format!("{{date:%Y%m%d}}{{token}}{{serial:{width}}}"))
        });
        Self::new(Namespace::define("strings".parse().expect("a name"), &definition).expect("a definition"))
    }

    /// Two names with one layout, drawn by its number: by the millisecond, by 100 ms, by the second with nothing ahead of the clock,
    /// and by ten seconds.
    pub fn layouts(which: usize) -> [Self; 2] {
        let custom = |unit_ms: u32, time: u32, serial: u32, ahead_max_ms| {
            Definition::Layout(LayoutSpec {
                bits: Some(64),
                epoch: Some("2024-01-01T00:00:00.777Z".to_owned()),
                unit_ms: Some(unit_ms),
                fields: Some([format!("time:{time}"), "token:16".to_owned(), format!("serial:{serial}")].into()),
                ahead_max_ms: Some(ahead_max_ms),
                ..LayoutSpec::default()
            })
        };
        let definition = match which {
            0 => Definition::Layout(LayoutSpec { token_type: Some("uint2".to_owned()), ..LayoutSpec::of("snowflake") }),
            1 => custom(100, 36, 12, 1_000),
            2 => custom(1_000, 33, 15, 0),
            _ => custom(10_000, 32, 16, 10_000),
        };
        ["ids", "more-ids"]
            .map(|name| Self::new(Namespace::define(name.parse().expect("a name"), &definition).expect("a definition")))
    }

    /// Numbers by ticks of more than ten seconds, whose serials have the mark, drawn by its number: by the hour from half past on, by the
    /// minute, and by a calendar to the hour and to the day. Serials are as few as may be.
    pub fn long_ticks(which: usize) -> Self {
        let (unit_ms, serial, time): (u32, &str, &[&str]) = match which {
            0 => (3_600_000, "serial:19", &["zero:9", "time:20"]),
            1 => (60_000, "serial:13", &["zero:9", "time:26"]),
            2 => (3_600_000, "serial:19", &["zero:8", "year:7", "month:4", "day:5", "hour:5"]),
            _ => (86_400_000, "serial:24", &["zero:8", "year:7", "month:4", "day:5"]),
        };
        let fields = time.iter().chain(&["token:16", serial]).map(|field| (*field).to_owned()).collect();
        let definition = Definition::Layout(LayoutSpec {
            bits: Some(64),
            epoch: (which < 2).then(|| "2024-01-01T00:30:00Z".to_owned()),
            unit_ms: Some(unit_ms),
            fields: Some(fields),
            ..LayoutSpec::default()
        });
        Self::new(Namespace::define("long-ticks".parse().expect("a name"), &definition).expect("a definition"))
    }

    /// Plain numbers in segments of up to so many, which are far less than anybody has in practice: each is soon used up.
    pub fn plain(step: u32, step_max: u32, (increment, offset): (u64, u64)) -> Self {
        let definition = Definition::Segment(SegmentSpec {
            step: Some(step),
            step_min: Some((step / 4).max(1)),
            step_max: Some(step_max),
            increment: Some(increment),
            offset: Some(offset),
            ..SegmentSpec::default()
        });
        Self::new(Namespace::define("numbers".parse().expect("a name"), &definition).expect("a definition"))
    }

    /// The kind of its IDs.
    pub fn of(&self) -> Of {
        match &self.layout {
            Layout::Number(kind::Kind::Uniq64, _) => Of::Uniq64,
            Layout::Number(_, definition) => Of::Layout(Arc::clone(definition)),
            Layout::Plain(_) => Of::Plain,
            Layout::Text(_) => Of::Text,
        }
    }

    /// The definition of its segments, if its numbers come in some.
    pub fn segments(&self) -> Option<&SegmentDefinition> {
        self.namespace.segments()
    }

    /// Tells whether it has a serial that goes on from bucket to bucket.
    pub fn counts(&self) -> bool {
        self.layout.by_ticks().is_none() && self.segments().is_none()
    }

    /// The same, as a mutation wants it: agents count on strings that are longer than they are, and names with one layout count
    /// each by itself.
    pub fn bent(self, mutations: Mutations) -> Self {
        if self.namespace.layout().is_some() && mutations.has(Mutation::AxesNotShared) {
            let definition = self.namespace.definition().with_scope(Scope::Own);
            return Self::new(Namespace::define(self.namespace.name().clone(), &definition).expect("a definition"));
        }
        let width = self.rules.capacity.ilog10() as usize;
        if self.namespace.template().is_none() || !mutations.has(Mutation::WrapPastCapacity) {
            return self;
        }
        let longer = Self::strings(width + 1, self.rules.everyday_reset);
        Self { rules: self.rules, ..longer }
    }

    /// The bucket that an instant lies in.
    pub fn bucket_at(&self, offset: UtcOffset, wall: WallMs) -> u32 {
        self.layout.bucket_at(offset, wall)
    }

    /// The end of a bucket.
    pub fn end(&self, offset: UtcOffset, bucket: u32) -> WallMs {
        self.layout.end(offset, bucket)
    }

    /// The block of one that was in use for long: its next serial is `serial`.
    pub fn used(&self, serial: u64, now: WallMs) -> Block {
        let marks = Marks { bucket: 0, base: serial, mark: serial, step: self.namespace.step() };
        Block {
            name: self.namespace.name().into(),
            kind: self.namespace.kind(),
            everyday_reset: self.rules.everyday_reset,
            create_time: now,
            modification_time: now,
            bucket: marks.bucket,
            bucket_base: marks.base,
            checksum: self.namespace.checksum(),
            serial: marks.mark,
            step: marks.step,
        }
    }
}
