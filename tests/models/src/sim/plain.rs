//! An agent's plain numbers: the engine's segments, driven as the product's minter drives them, on the same simulated disk.

use super::minter::{Minter, Shell};
use common::namespace::GeneratorName;
use common::segment::{SegmentDefinition, Span};
use engine::{Refilled, SegmentOutcome, TakenSerials, take};
use minting::gate::Prefix;
use minting::refusal::Refusal;
use minting::run::Run;
use minting::segments::Ask;

/// The share of clients that wait for a segment where they have to; the others come again.
const WAITS: f64 = 0.5;

impl Minter {
    /// The numbers of `n` places; which places they are comes out.
    ///
    /// # Errors
    /// Any [`Refusal`]; what is in `out` counts all the same.
    pub fn give_numbers(
        &mut self,
        shell: &mut Shell<'_>,
        at: usize,
        n: u32,
        out: &mut Vec<Span>,
    ) -> Result<(), Refusal> {
        if self.membership().is_none() {
            return Err(Refusal::Overloaded("no cluster was joined yet"));
        }
        let Some(definition) = self.definition(at) else { return Err(Refusal::Overloaded("no segments")) };
        let n = n.min(definition.steps().1.saturating_mul(4));
        let wall = self.now(shell.os).wall;
        let part = match self.own.part.take() {
            Some(part) => Some(part),
            None => match take(&self.own.windows[at], n, wall) {
                TakenSerials::All { run, half_used } => {
                    out.push(places(&definition, &run));
                    // In the agent another thread does this, or comes too late; if it fails, the window goes on to its end.
                    if half_used && shell.rng.chance(0.8) {
                        let _ = self.decide(shell, |engine, hands| engine.tend(hands, [at]));
                    }
                    return Ok(());
                }
                TakenSerials::Some(part) => Some(part),
                TakenSerials::None | TakenSerials::Closed => None,
            },
        };
        match self.decide(shell, |engine, hands| engine.refill_segment(hands, at, part, n))? {
            Refilled::Runs(runs) if shell.ended.is_none() => {
                out.extend(runs.iter().map(|run| places(&definition, run)));
                Ok(())
            }
            Refilled::Runs(_) => Ok(()),
            Refilled::Pending(part) => {
                if shell.rng.chance(WAITS) {
                    self.own.part = part;
                } else {
                    let _ = self.decide(shell, |engine, hands| engine.give_back(hands, at, part));
                }
                Err(Refusal::Overloaded("a segment has to come first"))
            }
            Refilled::WaitFor(_) => Err(Refusal::Overloaded("a master has to know of the resumed session first")),
        }
    }

    fn definition(&self, at: usize) -> Option<SegmentDefinition> {
        self.own.kinds.get(at)?.segments().copied()
    }

    /// Handles the outcome of a call for a segment: made durable in the background, if the disk does it.
    ///
    /// # Errors
    /// Any [`Refusal`].
    pub fn segment_answered(
        &mut self,
        shell: &mut Shell<'_>,
        call: u64,
        answer: SegmentOutcome,
    ) -> Result<(), Refusal> {
        let Some(at) = (0..self.own.kinds.len()).find(|at| self.definition(*at).is_some()) else { return Ok(()) };
        self.decide(shell, |engine, hands| {
            engine.answered(at, call, answer);
            engine.tend(hands, [at])
        })
    }

    /// Takes what masters are to be asked for since the last time.
    pub fn take_asks(&mut self) -> Vec<(GeneratorName, Ask)> {
        std::mem::take(&mut self.own.asks)
    }
}

/// The places of these numbers.
fn places(definition: &SegmentDefinition, run: &Run) -> Span {
    let Prefix::Plain { first, increment } = run.prefix else { return Span::default() };
    let number = minting::gate::plain(first, increment, run.start);
    let from = (number - definition.number(0)) / definition.increment();
    Span { from, to: from + u64::from(run.len) }
}
