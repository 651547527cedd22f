//! A generator for all threads.

use super::block::{Blocks, stretch};
use super::{MintError, PerThread, Process, UniqGenerator};
use crate::mint::{Form, MintRequest, ask_blocking};
use crate::minter::{CachedClock, Generator, Minted, Minter};
use crate::plugin::Caller;
use crate::refusal::Refusal;
use crate::run::Runs;
use common::kind::Kind;
use std::cell::RefCell;
use std::sync::Arc;

/// Generators of which a thread has blocks.
const REMEMBERED: usize = 4;

thread_local! {
    static BLOCKS: RefCell<[Option<Blocks>; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
}

/// The result of `give` for this thread's blocks of a generator, if it has some.
#[inline(always)]
fn of_blocks<T>(id: u64, give: impl FnOnce(&Blocks) -> Option<T>) -> Option<T> {
    let of_thread = BLOCKS.try_with(|all| {
        let all = all.borrow();
        let blocks = all.get(id as usize % REMEMBERED)?.as_ref()?;
        if blocks.id() == id { give(blocks) } else { None }
    });
    of_thread.ok().flatten()
}

/// Keeps blocks for this thread's next calls, unless it is about to end.
fn remember(blocks: Blocks) {
    let place = blocks.id() as usize % REMEMBERED;
    let former = BLOCKS.try_with(|all| all.try_borrow_mut().ok()?.get_mut(place)?.replace(blocks));
    // Dropped here, where a plugin's own end may mint.
    drop(former);
}

/// The generators of one name, for any number of threads at once.
#[derive(Clone)]
pub struct Shared {
    pub(super) minter: Arc<Minter>,
    pub(super) process: Process,
    pub(super) time: Arc<CachedClock>,
    /// The name's generator; of `default`, which is of several kinds, that of the first.
    generator: Arc<Generator>,
    /// Its number, at hand.
    id: u64,
    strings: Option<Arc<Generator>>,
    name: Arc<str>,
    /// The caller, as plugins are told; `None`: the application.
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
        let time = CachedClock::of(minter).map_err(|_| Refusal::Overloaded("no thread can be started"))?;
        let of = |kind| minter.names().generator(kind, name).cloned();
        let kind = minter.names().kind_of(name).filter(|kind| *kind != Kind::Sequence);
        let (generator, strings) = (of(kind.unwrap_or_default())?, of(Kind::String).ok());
        let (id, minter, name) = (generator.number(), Arc::clone(minter), name.into());
        Ok(Self { minter, process, time, generator, id, strings, name, caller: None })
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

    /// The same for one thread alone, faster. IDs of a name with plugins come one by one, as from this.
    pub fn per_thread(&self) -> PerThread {
        PerThread::new(self.clone())
    }

    /// The name's generator; of `default`, that of the first kind.
    pub(super) fn generator(&self) -> &Arc<Generator> {
        &self.generator
    }

    fn of_kind(&self, kind: Kind) -> Result<&Arc<Generator>, Refusal> {
        let mut known = std::iter::once(&self.generator).chain(&self.strings);
        known.find(|known| known.kind() == kind).map_or_else(|| self.minter.names().generator(kind, &self.name), Ok)
    }

    /// Gives `n` IDs of that kind, at least 1, after asking the name's plugins.
    fn ask(&self, kind: Kind, n: u32, form: Form, biz: &str, custom: &str) -> Result<Minted, MintError> {
        let [biz, custom] = [biz, custom].map(|text| Some(text).filter(|text| !text.is_empty()));
        let (asked, name, n, caller) = (Some(kind), &*self.name, n.max(1), self.caller());
        let (n_max, texts_max): (_, fn(_) -> _) = (u32::MAX, |_| u32::MAX);
        let request = MintRequest { kind: asked, name, n, biz, custom, form, caller, n_max, texts_max };
        Ok(ask_blocking(&self.minter, self.of_kind(kind), &request)?)
    }

    fn runs(&self, kind: Kind, n: u32) -> Result<Runs, MintError> {
        Ok(self.ask(kind, n, Form::Numbers, "", "")?.runs)
    }

    fn texts(&self, kind: Kind, n: u32, biz: &str, custom: &str) -> Result<Vec<String>, MintError> {
        Ok(self.ask(kind, n, Form::Texts, biz, custom)?.texts.unwrap_or_default())
    }

    #[inline(always)]
    fn at_hand(&self, kind: Kind) -> Option<u64> {
        self.process.check().ok()?;
        let wall = self.time.wall();
        of_blocks(self.id, |blocks| blocks.take(kind, wall))
    }

    #[inline(never)]
    fn next(&self, kind: Kind) -> Result<u128, MintError> {
        self.process.check()?;
        let Ok(generator) = self.of_kind(kind) else { return self.slow_path(kind) };
        match of_blocks(generator.number(), |blocks| blocks.take_or_cut(kind, self)) {
            Some(number) => Ok(number),
            None => self.unknown(generator),
        }
    }

    /// A number that this thread has no blocks for, or whose block nothing could be cut for.
    #[cold]
    fn unknown(&self, generator: &Arc<Generator>) -> Result<u128, MintError> {
        let kind = generator.kind();
        if of_blocks(generator.number(), |_| Some(())).is_none() {
            let blocks = Blocks::of(generator, false);
            let number = blocks.take_or_cut(kind, self);
            remember(blocks);
            if let Some(number) = number {
                return Ok(number);
            }
        }
        self.slow_path(kind)
    }

    pub(super) fn slow_path(&self, kind: Kind) -> Result<u128, MintError> {
        let number = self.runs(kind, 1)?.iter().find_map(stretch).map(|stretch| stretch.first);
        number.ok_or_else(|| Refusal::BadParameter(format!("'{}' gives no numbers", self.name)).into())
    }
}

impl UniqGenerator for Shared {
    #[inline]
    fn get_uniq64(&self) -> Result<u64, MintError> {
        match self.at_hand(Kind::Uniq64) {
            Some(id) => Ok(id),
            None => Ok(self.next(Kind::Uniq64)? as u64),
        }
    }

    fn get_uniq96(&self) -> Result<u128, MintError> {
        self.next(Kind::Uniq96)
    }

    // Else 128 bits go to the caller through memory, written in halves and read as a whole, which costs more than all the rest.
    #[inline(always)]
    fn get_number(&self) -> Result<u128, MintError> {
        match self.at_hand(Kind::Layout) {
            Some(number) => Ok(number.into()),
            None => self.next(Kind::Layout),
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
        ids.append(&mut self.texts(self.generator.kind(), n, "", "")?);
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
        match self.at_hand(Kind::Segment) {
            Some(number) => Ok(number),
            None => Ok(self.next(Kind::Segment)? as u64),
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
