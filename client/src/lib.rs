//! Order numbers, transaction IDs and message IDs that never repeat, from agents over the network.
//!
//! A [`Client`] asks agents of UniqGenerator (`uniq_generator`), by HTTP or RPC, and the next one when one fails. Applications that
//! want IDs in nanoseconds, and can keep a file, mint in their own process instead: the crate `uniq-embed`.
//!
//! # Why no ID repeats
//! An agent leases a *token* for some days of the ID's own axis of time, which no other agent has in those days, and makes the bound
//! of its serials durable before it uses them. So it may crash, be copied or have its clock set back: it refuses, or goes on behind
//! what it gave. An error never comes with an ID, and this crate never asks for the same IDs again: what was lost on its way is a
//! gap. It follows no redirect and uses no proxy, and asks by `POST`, so that nothing on the way answers from a cache.
//!
//! # An example
//! This is `examples/fetch.rs`; tests run it with real agents. With `scripts/quickstart.sh` running:
//! `cargo run -p uniq-client --example fetch -- http://127.0.0.1:6200`.
//!
//! ```no_run
#![doc = include_str!("../examples/fetch.rs")]
//! ```
//!
//! # What a failure costs
//! Every call asks the agent that answered last; if that one cannot be reached, or cannot mint now, the next one is asked, each
//! at most once. IDs of an answer that was lost on its way are a gap: nobody gets them, and they are never asked for again.
//! An agent that failed is asked last for a while. What no other agent would answer differently (a parameter that is wrong,
//! a name that does not exist) is returned at once.
//!
//! # Prefetching
//! Off unless [`Settings::prefetch`] is given. Then single numbers are fetched in batches, the next one in the background
//! when half of a batch is used, and a call usually takes no more than a lock. An ID's time is that of its batch, so it may be
//! as old as [`Prefetch::max_age`]; what is older is thrown away and is a gap.
//!
//! # Numbers of keys
//! A generator of kind `sequence` has a counter for each key ([`Client::sequence`]). The client keeps the routes that agents tell, asks the
//! agent that serves a key at once, and any agent when it knows none or that one does not answer; a batch is split by agents, which are
//! asked side by side. While a section moves from one agent to another its calls wait, for half a lease of sections as a rule
//! (`--sequence-lease` of the masters): let [`Settings::key_timeout`] be longer than one and a half. When two agents
//! say `segment_pending` of a key no further one is asked; the next call begins with one that was not.
//!
//! # After a fork
//! A child must not use its parent's connections, nor hand out what its parent has fetched: every call there says
//! [`Error::Forked`]. Make a client in the child. (Only the C library's `fork` is noticed, not a bare system call.)
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod agents;
mod certificate;
mod error;
mod http;
mod prefetch;
mod rpc;
mod sequences;
mod settings;

pub use certificate::redeem;
pub use common::kind::Kind as GeneratorKind;
pub use common::namespace::{
    Definition, GeneratorName, LayoutSpec, Namespace, Preview, SegmentSpec, SequenceSpec, StringSpec, Uniq64Spec,
};
pub use common::sequence::{InvalidKey, Slot};
pub use error::{Attempt, Cause, Error};
pub use net::enroll::RedeemError;
pub use net::rpc::mint::MintCode;
pub use net::tls::Files as TlsFiles;
pub use settings::{AGENTS_MAX, Address, ApiKey, Prefetch, Protocol, Settings, SettingsError};

use agents::Agents;
use common::kind::Kind;
use net::rpc::mint::{KeyAsked, KeyOutcome, MintedNumbers};
use prefetch::Stock;
use sequences::Sequences;
use std::sync::Arc;

/// IDs asked for at once at most: what agents give if they are not told otherwise (`--batch-max`).
pub const BATCH_MAX: u32 = 100_000;

/// Asks agents for IDs. Cheap to clone; all clones share connections and what was prefetched.
///
/// Calls need a tokio runtime; a client may be used from several runtimes only if no call is cut off with one of them.
#[derive(Clone)]
pub struct Client {
    agents: Arc<Agents>,
    sequences: Arc<Sequences>,
    stock: Option<Arc<Stock>>,
    process: forkguard::atfork::Guard,
}

impl Client {
    /// A client of these agents. Nothing is asked yet.
    ///
    /// # Errors
    /// [`SettingsError`], naming the remedy.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let process = forkguard::atfork::Guard::try_new().map_err(|e| SettingsError::System(e.to_string()))?;
        let prefetch = settings.prefetch;
        let agents = Arc::new(Agents::new(settings)?);
        let stock = prefetch.map(|prefetch| Arc::new(Stock::new(prefetch)));
        Ok(Self { agents, sequences: Arc::default(), stock, process })
    }

    /// A number of the generator `name` of any kind that gives numbers, in the low bits.
    ///
    /// # Errors
    /// [`Error`]; then no number was given.
    pub async fn number(&self, name: &str) -> Result<u128, Error> {
        self.one(None, name).await
    }

    /// `n` of them, 1 to [`BATCH_MAX`] and no more than the ticks of a layout have; never from what was prefetched. They ascend if they sort
    /// by time.
    ///
    /// # Errors
    /// [`Error`]; then no number was given.
    pub async fn numbers(&self, name: &str, n: u32) -> Result<Vec<u128>, Error> {
        Ok(self.many(None, name, n).await?.into())
    }

    /// An ID of the generator `name` of any kind, as its definition writes it; `biz` and `custom` are the caller's parts of strings, and
    /// empty for others.
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn text(&self, name: &str, biz: &str, custom: &str) -> Result<String, Error> {
        self.texts(name, 1, biz, custom).await.and_then(first)
    }

    /// `n` of them, 1 to [`BATCH_MAX`].
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn texts(&self, name: &str, n: u32, biz: &str, custom: &str) -> Result<Vec<String>, Error> {
        self.written(None, name, n, biz, custom).await
    }

    /// A Uniq64 of the generator `name` (`default`).
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn uniq64(&self, name: &str) -> Result<u64, Error> {
        Ok(self.one(Some(Kind::Uniq64), name).await? as u64)
    }

    /// `n` Uniq64, 1 to [`BATCH_MAX`], ascending; never from what was prefetched.
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn uniq64_batch(&self, name: &str, n: u32) -> Result<Vec<u64>, Error> {
        Ok(self.many(Some(Kind::Uniq64), name, n).await?.into())
    }

    /// A Uniq96, in the low bits.
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn uniq96(&self) -> Result<u128, Error> {
        self.one(Some(Kind::Uniq96), GeneratorName::DEFAULT).await
    }

    /// `n` Uniq96, 1 to [`BATCH_MAX`], ascending; never from what was prefetched.
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn uniq96_batch(&self, n: u32) -> Result<Vec<u128>, Error> {
        Ok(self.many(Some(Kind::Uniq96), GeneratorName::DEFAULT, n).await?.into())
    }

    /// A string of the generator `name` (`default`) with the caller's parts; empty where its template has none.
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn uniq_string(&self, name: &str, biz: &str, custom: &str) -> Result<String, Error> {
        self.uniq_string_batch(name, 1, biz, custom).await.and_then(first)
    }

    /// `n` strings, 1 to [`BATCH_MAX`].
    ///
    /// # Errors
    /// [`Error`]; then no ID was given.
    pub async fn uniq_string_batch(&self, name: &str, n: u32, biz: &str, custom: &str) -> Result<Vec<String>, Error> {
        self.written(Some(Kind::String), name, n, biz, custom).await
    }

    /// The next number of a key of the generator `name` of kind `sequence`: greater than every number that anybody was given for this key
    /// before the call. [`Slot::of`] gives the slot of a key, [`Slot::of_number`] that of a number.
    ///
    /// # Errors
    /// [`Error`]; then no number was given. [`MintCode::SerialExhausted`] if there are no more.
    pub async fn sequence(&self, name: &str, key: Slot) -> Result<u64, Error> {
        self.sequence_batch(name, key, 1).await
    }

    /// The first of the next `n` numbers of a key, 1 to [`BATCH_MAX`]; the others follow on it.
    ///
    /// # Errors
    /// As [`sequence`](Self::sequence).
    pub async fn sequence_batch(&self, name: &str, key: Slot, n: u32) -> Result<u64, Error> {
        self.check()?;
        let key = KeyAsked { slot: key, n: batch(n)? };
        self.sequences.next(&self.agents, &generator(name)?, key).await
    }

    /// The next number of each of up to [`BATCH_MAX`] keys, in their order; of a key that got none the code says why. A key that is there
    /// twice gets two numbers.
    ///
    /// # Errors
    /// [`Error`], if none of them got a number.
    pub async fn sequence_many(&self, name: &str, keys: &[Slot]) -> Result<Vec<Result<u64, MintCode>>, Error> {
        self.check()?;
        batch(u32::try_from(keys.len()).unwrap_or(u32::MAX))?;
        let keys: Vec<KeyAsked> = keys.iter().map(|slot| KeyAsked { slot: *slot, n: 1 }).collect();
        let outcomes = self.sequences.many(&self.agents, &generator(name)?, &keys).await?;
        let each = outcomes.into_iter().map(|outcome| match outcome {
            KeyOutcome::Given(number) => Ok(number),
            KeyOutcome::Refused(code) => Err(code),
        });
        Ok(each.collect())
    }

    /// The last number that may have been given for a key: none larger was, and the next one is larger; 0 if there was none. Gives none.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn sequence_current(&self, name: &str, key: Slot) -> Result<u64, Error> {
        self.check()?;
        self.sequences.next(&self.agents, &generator(name)?, KeyAsked { slot: key, n: 0 }).await
    }

    /// Registers what a generator's name stands for; both masters confirm.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`MintCode::GeneratorExists`] if the name stands for something else; and all others.
    pub async fn define_generator(&self, namespace: Namespace) -> Result<Preview, Error> {
        self.check()?;
        self.agents.define(namespace, false).await
    }

    /// Tells what registering that would give (examples, IDs a day, the last day, whether the name is free), and registers nothing.
    ///
    /// # Errors
    /// As [`define_generator`](Self::define_generator).
    pub async fn try_generator(&self, namespace: Namespace) -> Result<Preview, Error> {
        self.check()?;
        self.agents.define(namespace, true).await
    }

    /// A number, perhaps from what was prefetched.
    async fn one(&self, kind: Option<Kind>, name: &str) -> Result<u128, Error> {
        self.check()?;
        let name = generator(name)?;
        if let Some(stock) = &self.stock
            && let Some(number) = stock.give(&self.agents, kind, &name).await
        {
            return number;
        }
        self.agents.numbers(kind, &name, 1).await.and_then(|numbers| first(numbers.into()))
    }

    async fn many(&self, kind: Option<Kind>, name: &str, n: u32) -> Result<MintedNumbers, Error> {
        self.check()?;
        self.agents.numbers(kind, &generator(name)?, batch(n)?).await
    }

    async fn written(
        &self,
        kind: Option<Kind>,
        name: &str,
        n: u32,
        biz: &str,
        custom: &str,
    ) -> Result<Vec<String>, Error> {
        self.check()?;
        let (name, n) = (generator(name)?, batch(n)?);
        self.agents.texts(kind, name, n, part(biz)?, part(custom)?).await
    }

    fn check(&self) -> Result<(), Error> {
        // The guard forgets once it has told; a copy tells it again and again.
        if self.process.clone().detected_fork() { Err(Error::Forked) } else { Ok(()) }
    }
}

fn generator(name: &str) -> Result<GeneratorName, Error> {
    name.parse().map_err(|e: common::namespace::NameError| Error::bad_parameter(e.to_string()))
}

fn part(text: &str) -> Result<String, Error> {
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(text.to_owned());
    }
    Err(Error::bad_parameter(format!("'{text}' has other characters than A-Z a-z 0-9")))
}

fn batch(n: u32) -> Result<u32, Error> {
    let fits = (1..=BATCH_MAX).contains(&n);
    if fits { Ok(n) } else { Err(Error::bad_parameter(format!("n is {n}; ask for 1 to {BATCH_MAX} at once"))) }
}

fn first<T>(ids: Vec<T>) -> Result<T, Error> {
    ids.into_iter().next().ok_or_else(|| Error::bad_parameter("this generator gives no such IDs".to_owned()))
}
