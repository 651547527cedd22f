//! A generator for all threads.

use super::{MintError, PerThread, Process, UniqGenerator};
use crate::gate::Prefix;
use crate::minter::{CachedClock, Generator, Minter, Source};
use crate::refusal::Refusal;
use crate::run::{Runs, uniq64};
use crate::window::{One, Window};
use common::kind::Kind;
use std::cell::RefCell;
use std::sync::Arc;

/// The number of no generator.
const NONE: u64 = u64::MAX;
/// Windows that a thread remembers, one for each of so many generators.
const REMEMBERED: usize = 4;

/// A generator's window as a thread saw it last. It may be used for as long as it gives something: a window knows by
/// itself when it is closed, used up or over.
struct Known {
    id: u64,
    window: Arc<Window<Prefix>>,
}

thread_local! {
    static WINDOWS: RefCell<[Option<Known>; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
}

/// The generators of one name, for any number of threads at once.
#[derive(Clone)]
pub struct Shared {
    pub(super) minter: Arc<Minter>,
    pub(super) process: Process,
    pub(super) time: Arc<CachedClock>,
    numbers: Result<Arc<Generator>, Refusal>,
    /// The number of that generator, at hand: after an atomic addition each load that depends on another one is waited for.
    /// [`NONE`] if there is none.
    number: u64,
    strings: Result<Arc<Generator>, Refusal>,
    ticks: Result<Arc<Generator>, Refusal>,
}

impl Shared {
    /// The generators of that name. The minter must live in a process that was not forked since.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`] if there is none of any kind; [`Refusal::Overloaded`] if the operating system refuses
    /// what it takes to notice a fork, or a thread to write down the time.
    pub fn new(minter: &Arc<Minter>, name: &str) -> Result<Self, Refusal> {
        let process = Process::this().map_err(|_| Refusal::Overloaded("forks cannot be noticed"))?;
        let time = minter.cached_clock().map_err(|_| Refusal::Overloaded("no thread can be started"))?;
        let of = |kind| minter.generator(kind, name).cloned();
        let (numbers, strings, ticks) = (of(Kind::Uniq64), of(Kind::String), of(Kind::Layout));
        match (&numbers, &strings, &ticks) {
            (Err(unknown), Err(_), Err(_)) => Err(unknown.clone()),
            _ => {
                let number = numbers.as_ref().map_or(NONE, |generator| generator.number());
                Ok(Self { minter: Arc::clone(minter), process, time, numbers, number, strings, ticks })
            }
        }
    }

    /// The same for one thread alone, faster.
    pub fn per_thread(&self) -> PerThread {
        PerThread::new(self.clone())
    }

    pub(super) fn numbers(&self) -> Result<&Arc<Generator>, Refusal> {
        self.numbers.as_ref().map_err(Refusal::clone)
    }

    /// By the window that this thread knows.
    #[inline]
    fn known(&self) -> Option<u64> {
        let wall = self.time.wall();
        WINDOWS.with_borrow(|windows| {
            let known = windows.get(self.number as usize % REMEMBERED)?.as_ref()?;
            if known.id != self.number {
                return None;
            }
            let Prefix::Number { prefix, .. } = known.window.prefix else { return None };
            let One { serial, half_used } = known.window.take_one(wall)?;
            if half_used {
                self.reserve_soon();
            }
            Some(uniq64(prefix, serial).bits())
        })
    }

    #[cold]
    fn reserve_soon(&self) {
        if let Ok(generator) = &self.numbers {
            self.minter.reserve_soon(generator);
        }
    }

    #[cold]
    fn unknown(&self, generator: &Arc<Generator>) -> Result<u64, MintError> {
        let runs = self.minter.mint_blocking(generator.into(), 1)?;
        WINDOWS.with_borrow_mut(|windows| {
            if let Some(place) = windows.get_mut(generator.number() as usize % REMEMBERED) {
                *place = Some(Known { id: generator.number(), window: generator.window() });
            }
        });
        first(&runs)
    }
}

/// The first of Uniq64 that were minted; there always is one.
fn first(runs: &Runs) -> Result<u64, MintError> {
    let id = runs.uniq64().next().map(|id| id.bits());
    id.ok_or_else(|| Refusal::BadParameter("this generator gives no Uniq64".to_owned()).into())
}

impl UniqGenerator for Shared {
    #[inline]
    fn get_uniq64(&self) -> Result<u64, MintError> {
        self.process.check()?;
        match self.known() {
            Some(id) => Ok(id),
            None => self.unknown(self.numbers()?),
        }
    }

    fn get_uniq96(&self) -> Result<u128, MintError> {
        self.process.check()?;
        let runs = self.minter.mint_blocking(Source::Uniq96, 1)?;
        let id = runs.uniq96().next().map(|id| id.bits());
        id.ok_or_else(|| Refusal::BadParameter("no Uniq96 came".to_owned()).into())
    }

    fn get_number(&self) -> Result<u128, MintError> {
        self.process.check()?;
        let generator = self.ticks.as_ref().map_err(Refusal::clone)?;
        if let Some(number) = self.minter.try_mint_number(generator, self.time.wall()) {
            return Ok(number);
        }
        let number = self.minter.mint_blocking(generator.into(), 1)?.numbers().next();
        number.ok_or_else(|| Refusal::BadParameter("this generator gives no numbers of a layout".to_owned()).into())
    }

    fn get_batch_number(&self, n: u32, ids: &mut Vec<u128>) -> Result<(), MintError> {
        self.process.check()?;
        let generator = self.ticks.as_ref().map_err(Refusal::clone)?;
        ids.extend(self.minter.mint_blocking(generator.into(), n.max(1))?.numbers());
        Ok(())
    }

    fn get_uniq_string(&self, biz: &str, custom: &str) -> Result<String, MintError> {
        let none = || Refusal::BadParameter("this generator gives no strings".to_owned());
        self.strings(1, biz, custom)?.pop().ok_or_else(|| none().into())
    }

    fn get_batch64(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.process.check()?;
        let runs = self.minter.mint_blocking(self.numbers()?.into(), n.max(1))?;
        ids.extend(runs.uniq64().map(|id| id.bits()));
        Ok(())
    }

    fn get_batch_string(&self, n: u32, biz: &str, custom: &str, texts: &mut Vec<String>) -> Result<(), MintError> {
        texts.append(&mut self.strings(n.max(1), biz, custom)?);
        Ok(())
    }
}

impl Shared {
    fn strings(&self, n: u32, biz: &str, custom: &str) -> Result<Vec<String>, MintError> {
        self.process.check()?;
        let generator = self.strings.as_ref().map_err(Refusal::clone)?;
        let bad = |why: String| MintError::from(Refusal::BadParameter(why));
        let template = generator.namespace().template().ok_or_else(|| bad("this generator has no template".into()))?;
        let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let caller = template.check_caller(given(biz), given(custom)).map_err(|e| bad(e.to_string()))?;
        Ok(self.minter.mint_blocking(generator.into(), n)?.texts(&caller))
    }
}
