//! Lives of an agent: every fault at every call of every operation, or whatever a seed draws.

use super::agent::Agent;
use super::coverage::Coverage;
use super::disk::{Call, Fault, Struck};
use super::op::{Ended, Op};
use anyhow::{Result, bail};
use common::time::{DAY_MS, HOUR_MS, SpanMs};
use models::sim::rng::Rng;
use net::rpc::mint::MintCode;

/// The call of a write that looks whether the new file is in place.
const LOOK: usize = 14;
/// Within so many calls a drawn fault strikes: some lives pass without one.
const WITHIN: usize = 160;
/// The same after one that was survived.
const WITHIN_AGAIN: usize = 40;
/// Operations of a life, at most.
const OPS_MAX: i64 = 12;

impl Agent {
    /// A life with a cluster and leases, at the first ID of an hour.
    fn live(&mut self) -> Result<()> {
        self.be_there()?;
        self.must(Op::Hour)
    }

    /// A life with a cluster and leases, in whatever hour it is.
    fn be_there(&mut self) -> Result<()> {
        if !self.lives() {
            self.begin_life()?;
        }
        while let Some(op) = self.needs() {
            self.must(op)?;
        }
        Ok(())
    }

    /// The start that is due, of a file made beforehand if there is none.
    fn begin_life(&mut self) -> Result<()> {
        self.new_disk()?;
        if self.next_start().is_none() {
            self.must(Op::Format)?;
        }
        self.next_start().map_or(Ok(()), |op| self.must(op))
    }

    fn must(&mut self, op: Op) -> Result<()> {
        match self.act(op) {
            (Ended::Well, None) => Ok(()),
            other => bail!("{op:?} without a fault: {other:?}; {:?}", self.violations),
        }
    }

    /// Brings it to where the operation can begin.
    fn prepare(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Format | Op::FormatAgain => {
                self.remove_file()?;
                let left_over = self.path().with_file_name("F.format");
                match op {
                    Op::FormatAgain => std::fs::write(left_over, "the first bytes of one")?,
                    _ if left_over.exists() => std::fs::remove_file(left_over)?,
                    _ => {}
                }
                self.new_disk()?;
            }
            Op::StartFresh | Op::Join => {
                if self.next_start().is_none() {
                    self.live()?;
                }
                self.put_a_copy_in_place()?;
                self.new_disk()?;
                if op == Op::Join {
                    self.must(Op::StartFresh)?;
                }
            }
            Op::StartResumed => {
                if self.next_start() != Some(Op::StartResumed) {
                    self.begin_life()?;
                }
                self.new_disk()?;
            }
            Op::Extend => {
                self.live()?;
                self.must(Op::Mark)?;
            }
            Op::Again => {
                self.live()?;
                self.disk().arm(LOOK, Fault::Io);
                if self.act(Op::Hour).0 != Ended::Refused(MintCode::SerialFileIo) {
                    bail!("a write that fails is not reported");
                }
            }
            _ => self.live()?,
        }
        Ok(())
    }

    /// The calls of an operation when nothing strikes.
    ///
    /// # Errors
    /// If it does not end well.
    pub fn calls_of(&mut self, op: Op) -> Result<Vec<Call>> {
        self.prepare(op)?;
        self.must(op)?;
        Ok(self.disk().calls().into_iter().map(|(call, _)| call).collect())
    }

    /// Strikes at each call of an operation with each of these faults, and lets a life follow each time.
    ///
    /// # Errors
    /// If what has nothing to do with the fault fails.
    pub fn strike_at_every_call(&mut self, op: Op, faults: &[Fault], coverage: &mut Coverage) -> Result<usize> {
        let calls = self.calls_of(op)?;
        for (nth, call) in (1..).zip(&calls) {
            for fault in faults.iter().filter(|fault| fault.fits(call.name)) {
                self.prepare(op)?;
                self.disk().arm(nth, *fault);
                let (ended, struck) = self.act(op);
                let Some(struck) = struck.filter(|struck| struck.call == *call) else {
                    bail!("call {nth} of {op:?} is not {call} this time: {:?}", self.disk().calls());
                };
                coverage.note(op, &struck);
                self.check_answer(op, &struck, &ended, op.is_in_background());
                self.afterwards(op, &ended)?;
                if let Some(violation) = self.violations.first() {
                    bail!("after {fault:?} at call {nth} of {op:?}, {call}: {violation}");
                }
            }
        }
        Ok(calls.len())
    }

    /// Checks the answer when a fault strikes, as `docs/understand/serial-file.md` has it; `background` says whether the write may have been
    /// beside a request.
    fn check_answer(&mut self, op: Op, struck: &Struck, ended: &Ended, background: bool) {
        let Struck { fault, nth, call } = struck;
        let path = self.path();
        let as_due = match (ended, op) {
            (Ended::Killed, _) => fault.kills(),
            _ if fault.kills() => false,
            (Ended::NotStarted(why), Op::Format | Op::FormatAgain | Op::StartFresh | Op::StartResumed) => {
                let named = why.contains("boot") || path.to_str().is_some_and(|path| why.contains(path));
                named && !why.contains('\n') && (!op.is_format() || !path.exists())
            }
            // Minting goes on up to the old bounds; the next write says how it stands with the file.
            (Ended::Well, _) if background => self.ready() == Some(Err(MintCode::SerialFileIo)),
            (Ended::Refused(code), _) => *code == MintCode::SerialFileIo,
            _ => false,
        };
        if !as_due {
            self.violations.push(format!("{fault:?} at call {nth} of {op:?}, {call}, is answered with {ended:?}"));
        }
    }

    /// Whoever lives goes on within the old bounds and then as if nothing had been; whoever died is started again.
    fn afterwards(&mut self, op: Op, ended: &Ended) -> Result<()> {
        if self.lives() {
            let left = self.left_then();
            if *ended != Ended::Killed && matches!(op, Op::More | Op::Reserve) && left > 0 {
                let rest = self.mint_numbers(left);
                if rest != Ended::Well {
                    bail!("{left} serials that were durable before cannot be had after a failed write: {rest:?}");
                }
            }
            // A number for a renewal is written at once; other writes leave a disk alone for a second after it failed.
            self.heal(op)?;
            if self.ready() == Some(Err(MintCode::SerialFileIo)) {
                bail!("the file works again, and it is not said");
            }
        }
        // First in the same hour and day, where an ID could come again; then in the next hour.
        self.be_there()?;
        self.must(Op::More)?;
        let strings = self.mint_strings();
        if strings != Ended::Well {
            bail!("strings of this day without a fault: {strings:?}");
        }
        self.live()?;
        self.must(Op::More)?;
        self.drop_dead();
        Ok(())
    }

    fn heal(&mut self, op: Op) -> Result<()> {
        match self.act(if op == Op::Again { Op::Again } else { Op::Promise }) {
            (Ended::Well, None) => Ok(()),
            other => bail!("the disk works again, and the file is not written: {other:?}"),
        }
    }

    /// A life with what chance does to it.
    ///
    /// # Errors
    /// If the folder is not there.
    pub fn random_life(&mut self, rng: &mut Rng, coverage: &mut Coverage) -> Result<()> {
        self.between_lives(rng)?;
        self.new_disk()?;
        self.disk().arm(1 + rng.below(WITHIN), draw(rng));
        if self.next_start().is_none() && !self.goes_on(Op::Format, coverage, rng) {
            return Ok(());
        }
        let Some(start) = self.next_start() else { return Ok(()) };
        if !self.goes_on(start, coverage, rng) {
            return Ok(());
        }
        for _ in 0..rng.range(1, OPS_MAX) {
            let wanted = [Op::Hour, Op::More, Op::Reserve, Op::Day, Op::Mark, Op::Extend, Op::Promise, Op::Lease];
            let drawn = wanted.get(rng.below(wanted.len())).copied().unwrap_or(Op::Hour);
            let op = self.needs().unwrap_or(drawn);
            if !self.goes_on(op, coverage, rng) {
                return Ok(());
            }
        }
        if rng.chance(0.4) {
            self.goes_on(Op::End, coverage, rng);
        }
        self.drop_dead();
        Ok(())
    }

    fn goes_on(&mut self, op: Op, coverage: &mut Coverage, rng: &mut Rng) -> bool {
        let (ended, struck) = self.act(op);
        if let Some(struck) = struck {
            coverage.note(op, &struck);
            // Under a calendar that was set back the window may still be open: then any request may reserve beside it.
            self.check_answer(op, &struck, &ended, op.mints());
            self.disk().arm(1 + rng.below(WITHIN_AGAIN), draw(rng));
            return self.lives();
        }
        let fine = match &ended {
            Ended::Well => true,
            // The disk is left alone for a second after it failed; a calendar set back by hours is waited for.
            Ended::Refused(code) => matches!(code, MintCode::SerialFileIo | MintCode::ClockBehind),
            Ended::NotStarted(_) | Ended::Killed => false,
        };
        if !fine {
            self.violations.push(format!("{op:?} without a fault: {ended:?}"));
        }
        self.lives() || op == Op::Format
    }

    /// Does what people do to a folder and to a clock while nobody is running.
    fn between_lives(&mut self, rng: &mut Rng) -> Result<()> {
        self.drop_dead();
        if self.next_start().is_some() {
            match rng.below(25) {
                0 => self.remove_file()?,
                1 => self.put_a_copy_in_place()?,
                2 => self.step_calendar(SpanMs(rng.range(60_000, 2 * DAY_MS))),
                3 => self.step_calendar(SpanMs(-rng.range(60_000, 2 * HOUR_MS))),
                _ => {}
            }
        }
        Ok(())
    }
}

fn draw(rng: &mut Rng) -> Fault {
    let kills = [Fault::DiesBefore, Fault::DiesWithin, Fault::DiesAfter, Fault::DiesAfter];
    let row: &[Fault] = if rng.chance(0.8) { &kills } else { &Fault::ERRORS };
    row.get(rng.below(row.len())).copied().unwrap_or(Fault::DiesAfter)
}
