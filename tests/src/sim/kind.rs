//! What agents mint, and what of it their serial files say from the beginning.

use super::mutation::{Mutation, Mutations};
use agent::gate::Layout;
use agent::serial::{Marks, Rules};
use agent::serial_file::Block;
use common::calendar::UtcOffset;
use common::kind;
use common::namespace::{Definition, Namespace};
use common::time::WallMs;

/// What a generator is.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its definition.
    pub namespace: Namespace,
    layout: Layout,
    /// How its serials behave.
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
        let definition = Definition {
            kind: kind::Kind::String,
            token_type: None,
            template: Some(format!("{{date:%Y%m%d}}{{token}}{{serial:{width}}}")),
            everyday_reset: Some(everyday_reset),
            step: None,
            scope: None,
        };
        Self::new(Namespace::define("strings".parse().expect("a name"), &definition).expect("a definition"))
    }

    /// The same, as a mutation wants it: agents count on strings that are longer than they are.
    pub fn bent(self, mutations: Mutations) -> Self {
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
        offset.bucket_start(bucket + 1, self.layout.unit().span())
    }

    /// The block of one that was in use for long: its next serial is `serial`.
    pub fn used(&self, serial: u64, now: WallMs) -> Block {
        let marks = Marks { bucket: 0, base: serial, mark: serial, step: self.namespace.step() };
        Block {
            name: self.namespace.name().clone(),
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
