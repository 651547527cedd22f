//! The network: who can reach whom.

/// A process as the network sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// By its number among all masters there ever were.
    Master(usize),
    /// By its number among all hosts.
    Host(usize),
}

/// Cuts, each one way.
#[derive(Debug, Default)]
pub struct Net {
    cuts: Vec<(Node, Node, i64)>,
}

impl Net {
    /// From now on nothing goes from one to the other before `until`.
    pub fn cut(&mut self, from: Node, to: Node, now: i64, until: i64) {
        self.cuts.retain(|(_, _, end)| *end > now);
        self.cuts.push((from, to, until));
    }

    /// Tells whether something gets through now.
    pub fn open(&self, from: Node, to: Node, now: i64) -> bool {
        !self.cuts.iter().any(|(f, t, until)| *f == from && *t == to && *until > now)
    }

    /// Everything is whole again.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }
}
