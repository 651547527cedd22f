//! Coverage: the faults that have struck, and where.

use super::disk::{Fault, Struck};
use super::op::Op;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A call of an operation: which, and the how manieth.
type Step = (Op, usize, String);

/// The faults that have struck so far.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    struck: BTreeMap<Step, BTreeMap<Fault, u64>>,
}

impl Coverage {
    /// Notes a fault.
    pub fn note(&mut self, op: Op, struck: &Struck) {
        let step = (op, struck.nth, struck.call.to_string());
        *self.struck.entry(step).or_default().entry(struck.fault).or_default() += 1;
    }

    /// All that another has seen, too.
    pub fn add(&mut self, other: &Self) {
        for (step, faults) in &other.struck {
            for (fault, count) in faults {
                *self.struck.entry(step.clone()).or_default().entry(*fault).or_default() += count;
            }
        }
    }

    /// The number of times that a process was killed.
    pub fn kills(&self) -> u64 {
        self.count(Fault::kills)
    }

    /// The number of times that a call failed and the process lived on.
    pub fn errors(&self) -> u64 {
        self.count(|fault| !fault.kills())
    }

    fn count(&self, which: impl Fn(Fault) -> bool) -> u64 {
        self.struck.values().flatten().filter(|(fault, _)| which(**fault)).map(|(_, count)| count).sum()
    }

    /// At how many different calls of different operations something struck.
    pub fn steps(&self) -> usize {
        self.struck.len()
    }

    /// The numbers of those calls of an operation that were struck by faults of this sort.
    pub fn calls_of(&self, op: Op, which: impl Fn(Fault) -> bool) -> BTreeSet<usize> {
        let hit = |faults: &BTreeMap<Fault, u64>| faults.keys().any(|fault| which(*fault));
        self.struck.iter().filter(|((of, ..), faults)| *of == op && hit(faults)).map(|((_, nth, _), _)| *nth).collect()
    }
}

/// One line for each operation: its calls, how often it was struck, and by how many kinds of faults.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for op in Op::ALL {
            let of_op = || self.struck.iter().filter(|((of, ..), _)| *of == op);
            let calls: BTreeSet<&str> = of_op().map(|((_, _, call), _)| call.as_str()).collect();
            let mut faults: BTreeMap<Fault, u64> = BTreeMap::new();
            for (fault, count) in of_op().flat_map(|(_, faults)| faults) {
                *faults.entry(*fault).or_default() += count;
            }
            let faults: Vec<String> = faults.iter().map(|(fault, count)| format!("{fault:?} {count}")).collect();
            let steps = of_op().count();
            writeln!(f, "  {op:?}: {steps} steps ({} different calls): {}", calls.len(), faults.join(", "))?;
        }
        write!(f, "  {} steps, {} kills, {} other faults", self.steps(), self.kills(), self.errors())
    }
}
