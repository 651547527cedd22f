//! A generator for all threads.

use super::ticks::TickBlocks;
use super::{MintError, PerThread, Process, UniqGenerator};
use crate::gate::{Prefix, plain};
use crate::minter::{CachedClock, Generator, Leaves, Minted, Minter, Series};
use crate::plugin::Caller;
use crate::refusal::{NAME_SHOWN_MAX, Refusal};
use crate::run::{Runs, uniq64};
use crate::window::{One, Window};
use common::kind::Kind;
use common::template::CallerParts;
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

    /// Tells of a refusal.
    #[cold]
    fn refused(&self, kind: Kind, n: u32, refusal: Refusal) -> MintError {
        self.minter.tell(kind, &self.name, n, self.caller(), &refusal);
        refusal.into()
    }

    /// `n` IDs, past the plugins if the name has some.
    fn runs(&self, generator: Result<&Arc<Generator>, Refusal>, kind: Kind, n: u32) -> Result<Runs, MintError> {
        let minted =
            generator.and_then(|generator| self.minter.give_blocking(generator, n, Leaves::Numbers, self.caller()));
        minted.map(|minted| minted.runs).map_err(|refusal| self.refused(kind, n, refusal))
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
            Prefix::Number { prefix, .. } => Some(move |serial| uniq64(prefix, serial).bits()),
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
        let number = self.runs(self.ticks.as_ref().map_err(Refusal::clone), Kind::Layout, 1)?.numbers().next();
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
        let runs = self.runs(self.of_kind(Kind::Uniq64), Kind::Uniq64, 1)?;
        self.remember();
        first(&runs)
    }

    #[cold]
    fn unknown_plain(&self) -> Result<u64, MintError> {
        let runs = self.runs(self.of_kind(Kind::Segment), Kind::Segment, 1)?;
        self.remember();
        let number = runs.plain().next();
        number.ok_or_else(|| Refusal::BadParameter("this generator gives no plain numbers".to_owned()).into())
    }

    /// What gives numbers of that kind by this name: else they would be used up by a call for others.
    fn of_kind(&self, kind: Kind) -> Result<&Arc<Generator>, Refusal> {
        let known = self.numbers.as_ref().map_err(Refusal::clone)?;
        if known.namespace().kind() == kind {
            return Ok(known);
        }
        Err(Refusal::UnknownGenerator { kind, name: self.name.chars().take(NAME_SHOWN_MAX).collect() })
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
    let id = runs.uniq64().next().map(|id| id.bits());
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
        let runs = self.runs(Ok(self.minter.uniq96()), Kind::Uniq96, 1)?;
        let id = runs.uniq96().next().map(|id| id.bits());
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
        self.runs(self.ticks.as_ref().map_err(Refusal::clone), Kind::Layout, n.max(1))?.numbers_into(ids);
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
        let n = n.max(1);
        let written = match kind {
            Kind::String => self.texts(n, "", ""),
            _ => self.written(kind, n),
        };
        ids.append(&mut written.map_err(|refusal| self.refused(kind, n, refusal))?);
        Ok(())
    }

    fn get_uniq_string(&self, biz: &str, custom: &str) -> Result<String, MintError> {
        let none = || Refusal::BadParameter("this generator gives no strings".to_owned());
        self.strings(1, biz, custom)?.pop().ok_or_else(|| none().into())
    }

    fn get_batch64(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.process.check()?;
        let runs = self.runs(self.of_kind(Kind::Uniq64), Kind::Uniq64, n.max(1))?;
        ids.extend(runs.uniq64().map(|id| id.bits()));
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
        let runs = self.runs(self.of_kind(Kind::Segment), Kind::Segment, n.max(1))?;
        ids.extend(runs.plain());
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
        self.texts(n, biz, custom).map_err(|refusal| self.refused(Kind::String, n, refusal))
    }

    /// Numbers as the definition writes them.
    fn written(&self, kind: Kind, n: u32) -> Result<Vec<String>, Refusal> {
        let generator = if kind == Kind::Layout { &self.ticks } else { &self.numbers };
        let generator = generator.as_ref().map_err(Refusal::clone)?;
        self.all_texts(generator, n, &CallerParts::default())
    }

    fn texts(&self, n: u32, biz: &str, custom: &str) -> Result<Vec<String>, Refusal> {
        let generator = self.strings.as_ref().map_err(Refusal::clone)?;
        let bad = Refusal::BadParameter;
        let template = generator.namespace().template().ok_or_else(|| bad("this generator has no template".into()))?;
        let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let caller = template.check_caller(given(biz), given(custom)).map_err(|e| bad(e.to_string()))?;
        self.all_texts(generator, n, &caller)
    }

    fn all_texts(&self, generator: &Arc<Generator>, n: u32, parts: &CallerParts) -> Result<Vec<String>, Refusal> {
        let Minted { texts, .. } = self.minter.give_blocking(generator, n, Leaves::Texts(parts), self.caller())?;
        Ok(texts.unwrap_or_default())
    }
}
