//! A generator for all threads.

use super::ticks::TickBlocks;
use super::{MintError, PerThread, Process, UniqGenerator};
use crate::gate::{Prefix, plain};
use crate::mint::{Form, MintRequest, ask_blocking};
use crate::minter::{CachedClock, Generator, Minted, Minter, Series};
use crate::plugin::Caller;
use crate::refusal::Refusal;
use crate::run::Runs;
use crate::window::{One, Window};
use common::kind::Kind;
use common::layout::Numbers;
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
    static TICKS: RefCell<[Option<TickBlocks>; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
    static WINDOWS: RefCell<[Option<Known>; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
}

/// The generators of one name, for any number of threads at once.
#[derive(Clone)]
pub struct Shared {
    pub(super) minter: Arc<Minter>,
    pub(super) process: Process,
    pub(super) time: Arc<CachedClock>,
    /// Of Uniq64 or of plain numbers.
    numbers: Result<Arc<Generator>, Refusal>,
    /// The number of that generator, at hand: after an atomic addition each load that depends on another one is waited for.
    /// [`NONE`] if there is none.
    number: u64,
    strings: Result<Arc<Generator>, Refusal>,
    ticks: Result<Arc<Generator>, Refusal>,
    /// The number of that one, at hand; [`NONE`] if there is none.
    ticks_number: u64,
    name: Arc<str>,
    /// Who asks, as plugins are told; `None`: the application.
    caller: Option<Arc<str>>,
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
        // A name other than `default` is of one kind, and only `default` is there for several.
        let numbers = numbers.or_else(|unknown| of(Kind::Segment).map_err(|_| unknown));
        match (&numbers, &strings, &ticks) {
            (Err(unknown), Err(_), Err(_)) => Err(unknown.clone()),
            _ => {
                let number_of =
                    |generator: &Result<Arc<Generator>, _>| generator.as_ref().map_or(NONE, |it| it.number());
                let (number, ticks_number) = (number_of(&numbers), number_of(&ticks));
                let (minter, name) = (Arc::clone(minter), name.into());
                Ok(Self { minter, process, time, numbers, number, strings, ticks, ticks_number, name, caller: None })
            }
        }
    }

    /// The same for a part of the application that plugins tell from others by this label: quotas by caller count it for
    /// itself, and history has it in its lines.
    #[must_use]
    pub fn called_by(&self, label: &str) -> Self {
        Self { caller: Some(label.into()), ..self.clone() }
    }

    fn caller(&self) -> Caller<'_> {
        self.caller.as_deref().map_or(Caller::IN_PROCESS, Caller::Label)
    }

    /// Gives `n` IDs of that kind, at least 1, after asking the name's plugins.
    fn ask(&self, kind: Kind, n: u32, form: Form, biz: &str, custom: &str) -> Result<Minted, MintError> {
        let generator = match kind {
            Kind::String => self.strings.as_ref(),
            Kind::Layout => self.ticks.as_ref(),
            Kind::Uniq96 => Ok(self.minter.uniq96()),
            _ => self.numbers.as_ref(),
        };
        let [biz, custom] = [biz, custom].map(|text| Some(text).filter(|text| !text.is_empty()));
        let (kind, name, n, caller) = (Some(kind), &*self.name, n.max(1), self.caller());
        let (n_max, texts_max): (_, fn(_) -> _) = (u32::MAX, |_| u32::MAX);
        let request = MintRequest { kind, name, n, biz, custom, form, caller, n_max, texts_max };
        Ok(ask_blocking(&self.minter, generator.map_err(Refusal::clone), &request)?)
    }

    fn runs(&self, kind: Kind, n: u32) -> Result<Runs, MintError> {
        Ok(self.ask(kind, n, Form::Numbers, "", "")?.runs)
    }

    /// The same for one thread alone, faster. IDs of a name with plugins come one by one, as from this.
    pub fn per_thread(&self) -> PerThread {
        PerThread::new(self.clone())
    }

    pub(super) fn numbers(&self) -> Result<&Arc<Generator>, &Refusal> {
        self.numbers.as_ref()
    }

    /// By the window that this thread knows.
    #[inline]
    fn known(&self) -> Option<u64> {
        self.of_window(|prefix| match *prefix {
            Prefix::Number(Numbers::Narrow(numbers)) => Some(move |serial| numbers.number(serial)),
            _ => None,
        })
    }

    /// The same of plain numbers.
    #[inline]
    fn known_plain(&self) -> Option<u64> {
        self.of_window(|prefix| match *prefix {
            Prefix::Plain { first, increment } => Some(move |place| plain(first, increment, place)),
            _ => None,
        })
    }

    #[inline(always)]
    fn of_window<F: Fn(u64) -> u64>(&self, id: impl FnOnce(&Prefix) -> Option<F>) -> Option<u64> {
        let wall = self.time.wall();
        WINDOWS.with_borrow(|windows| {
            let known = windows.get(self.number as usize % REMEMBERED)?.as_ref()?;
            if known.id != self.number {
                return None;
            }
            let id = id(&known.window.prefix)?;
            let One { serial, half_used } = known.window.take_one(wall)?;
            if half_used {
                self.reserve_soon();
            }
            Some(id(serial))
        })
    }

    pub(super) fn ticks(&self) -> Result<&Arc<Generator>, &Refusal> {
        self.ticks.as_ref()
    }

    /// What this thread has of the name's ticks, if it has something.
    #[inline(always)]
    fn of_ticks<T>(&self, number: impl FnOnce(&TickBlocks) -> Option<T>) -> Option<T> {
        TICKS.with_borrow(|known| {
            let known = known.get(self.ticks_number as usize % REMEMBERED)?.as_ref()?;
            if known.id() == self.ticks_number { number(known) } else { None }
        })
    }

    #[inline(never)]
    fn unknown_number(&self) -> Result<u128, MintError> {
        if let Some(number) = self.of_ticks(|known| known.wide_or_cut(self.time.wall(), &self.minter)) {
            return Ok(number);
        }
        let number = self.long_way_to_a_number()?;
        if let Ok(generator) = &self.ticks {
            TICKS.with_borrow_mut(|all| {
                if let Some(place) = all.get_mut(self.ticks_number as usize % REMEMBERED)
                    && place.as_ref().is_none_or(|known| known.id() != self.ticks_number)
                {
                    *place = Some(TickBlocks::new(Arc::clone(generator)));
                }
            });
        }
        Ok(number)
    }

    pub(super) fn long_way_to_a_number(&self) -> Result<u128, MintError> {
        let number = self.runs(Kind::Layout, 1)?.numbers().next();
        number.ok_or_else(|| Refusal::BadParameter("this generator gives no numbers of a layout".to_owned()).into())
    }

    #[cold]
    fn reserve_soon(&self) {
        if let Ok(generator) = &self.numbers
            && let Some(Series::Serials(series)) = generator.unguarded()
        {
            self.minter.reserve_soon(series);
        }
    }

    #[cold]
    fn unknown(&self) -> Result<u64, MintError> {
        let runs = self.runs(Kind::Uniq64, 1)?;
        self.remember();
        first(&runs)
    }

    #[cold]
    fn unknown_plain(&self) -> Result<u64, MintError> {
        let runs = self.runs(Kind::Segment, 1)?;
        self.remember();
        let number = runs.numbers().next().map(|number| number as u64);
        number.ok_or_else(|| Refusal::BadParameter("this generator gives no plain numbers".to_owned()).into())
    }

    /// The window that is open now is this thread's way from now on. Of a name with plugins there is none.
    fn remember(&self) {
        let Ok(generator) = self.numbers() else { return };
        let Some(Series::Serials(series)) = generator.unguarded() else { return };
        let window = series.window();
        // Looked at after it was loaded: whoever ends the name closes the window that was open then, and no later one.
        if generator.has_ended() {
            return;
        }
        WINDOWS.with_borrow_mut(|windows| {
            if let Some(place) = windows.get_mut(generator.number() as usize % REMEMBERED) {
                *place = Some(Known { id: generator.number(), window });
            }
        });
    }
}

/// The first of Uniq64 that were minted; there always is one.
fn first(runs: &Runs) -> Result<u64, MintError> {
    let id = runs.numbers().next().map(|number| number as u64);
    id.ok_or_else(|| Refusal::BadParameter("this generator gives no Uniq64".to_owned()).into())
}

impl UniqGenerator for Shared {
    #[inline]
    fn get_uniq64(&self) -> Result<u64, MintError> {
        self.process.check()?;
        match self.known() {
            Some(id) => Ok(id),
            None => self.unknown(),
        }
    }

    fn get_uniq96(&self) -> Result<u128, MintError> {
        self.process.check()?;
        let runs = self.runs(Kind::Uniq96, 1)?;
        let id = runs.numbers().next();
        id.ok_or_else(|| Refusal::BadParameter("no Uniq96 came".to_owned()).into())
    }

    // Else 128 bits go to the caller through memory, written in halves and read as a whole, which costs more than all the rest.
    #[inline(always)]
    fn get_number(&self) -> Result<u128, MintError> {
        self.process.check()?;
        let wall = self.time.wall();
        match self.of_ticks(|known| known.narrow(wall)) {
            Some(number) => Ok(number.into()),
            None => self.unknown_number(),
        }
    }

    fn get_batch_number(&self, n: u32, ids: &mut Vec<u128>) -> Result<(), MintError> {
        self.process.check()?;
        self.runs(Kind::Layout, n)?.numbers_into(ids);
        Ok(())
    }

    fn get_id(&self) -> Result<String, MintError> {
        let mut ids = Vec::with_capacity(1);
        self.get_batch_id(1, &mut ids)?;
        ids.pop().ok_or_else(|| Refusal::BadParameter("no ID came".to_owned()).into())
    }

    fn get_batch_id(&self, n: u32, ids: &mut Vec<String>) -> Result<(), MintError> {
        self.process.check()?;
        let kind = self.minter.kind_of(&self.name).unwrap_or(Kind::Uniq64);
        ids.append(&mut self.texts(kind, n, "", "")?);
        Ok(())
    }

    fn get_uniq_string(&self, biz: &str, custom: &str) -> Result<String, MintError> {
        self.process.check()?;
        let none = || Refusal::BadParameter("this generator gives no strings".to_owned());
        self.texts(Kind::String, 1, biz, custom)?.pop().ok_or_else(|| none().into())
    }

    fn get_batch64(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.process.check()?;
        self.runs(Kind::Uniq64, n)?.narrow_into(ids);
        Ok(())
    }

    #[inline]
    fn get_segment(&self) -> Result<u64, MintError> {
        self.process.check()?;
        match self.known_plain() {
            Some(number) => Ok(number),
            None => self.unknown_plain(),
        }
    }

    fn get_batch_segment(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.process.check()?;
        self.runs(Kind::Segment, n)?.narrow_into(ids);
        Ok(())
    }

    fn get_batch_string(&self, n: u32, biz: &str, custom: &str, texts: &mut Vec<String>) -> Result<(), MintError> {
        self.process.check()?;
        texts.append(&mut self.texts(Kind::String, n, biz, custom)?);
        Ok(())
    }
}

impl Shared {
    fn texts(&self, kind: Kind, n: u32, biz: &str, custom: &str) -> Result<Vec<String>, MintError> {
        Ok(self.ask(kind, n, Form::Texts, biz, custom)?.texts.unwrap_or_default())
    }
}
