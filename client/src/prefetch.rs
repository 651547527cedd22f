//! IDs fetched before they are asked for.

use crate::agents::Agents;
use crate::error::Error;
use crate::settings::Prefetch;
use common::namespace::GeneratorName;
use common::rpc::mint::MintCode;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Mutex as Turn;

/// Names that are prefetched at most; the IDs of others are fetched one by one.
const NAMES_MAX: usize = 64;

/// A batch that is too large for a generator is tried again as this part of it.
const SMALLER: u32 = 8;

/// IDs of one batch.
struct Batch<T> {
    ids: VecDeque<T>,
    fetched: Instant,
}

/// The stock of one generator.
struct Shelf<T> {
    batches: Mutex<VecDeque<Batch<T>>>,
    /// IDs asked for at once: those of the settings, or as many as its definition lets agents give at once (`step_max` of a segment).
    size: AtomicU32,
    /// Whoever fetches has it, so that those who come together fetch once.
    turn: Turn<()>,
}

impl<T> Shelf<T> {
    fn new(prefetch: Prefetch) -> Self {
        Self { batches: Mutex::default(), size: AtomicU32::new(prefetch.batch), turn: Turn::default() }
    }

    fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// A batch, smaller if so many are refused.
    async fn fetch<F>(
        &self,
        prefetch: Prefetch,
        agents: &Arc<Agents>,
        fetch: impl Fn(Arc<Agents>, u32) -> F,
    ) -> Result<VecDeque<T>, Error>
    where
        F: Future<Output = Result<Vec<T>, Error>>,
    {
        let mut n = self.size();
        loop {
            let said = fetch(Arc::clone(agents), n).await;
            match said {
                Err(Error::Refused { code: MintCode::BadParameter, .. }) if n > 1 => n = (n / SMALLER).max(1),
                Err(error) => {
                    // Something else is wrong than the number of them.
                    if matches!(error, Error::Refused { code: MintCode::BadParameter, .. }) {
                        self.size.store(prefetch.batch, Ordering::Relaxed);
                    }
                    return Err(error);
                }
                Ok(ids) => {
                    self.size.store(n, Ordering::Relaxed);
                    return Ok(ids.into());
                }
            }
        }
    }

    /// The oldest ID that is not too old, and how many are left then.
    fn take(&self, prefetch: Prefetch) -> Option<(T, usize)> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(batch) = batches.front_mut() {
            if batch.fetched.elapsed() < prefetch.max_age
                && let Some(id) = batch.ids.pop_front()
            {
                return Some((id, left(&batches)));
            }
            batches.pop_front();
        }
        None
    }

    fn left(&self) -> usize {
        left(&self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, ids: VecDeque<T>, asked: Instant) {
        let batch = Batch { ids, fetched: asked };
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push_back(batch);
    }
}

fn left<T>(batches: &VecDeque<Batch<T>>) -> usize {
    batches.iter().map(|batch| batch.ids.len()).sum()
}

type Shelves = Mutex<BTreeMap<GeneratorName, Arc<Shelf<u64>>>>;

/// All stocks of a client.
pub(crate) struct Stock {
    prefetch: Prefetch,
    numbers: Shelves,
    plain: Shelves,
    wide: Arc<Shelf<u128>>,
}

impl Stock {
    pub(crate) fn new(prefetch: Prefetch) -> Self {
        Self { prefetch, numbers: Mutex::default(), plain: Mutex::default(), wide: Arc::new(Shelf::new(prefetch)) }
    }

    pub(crate) async fn uniq64(&self, agents: &Arc<Agents>, name: &GeneratorName) -> Result<u64, Error> {
        let shelf = self.shelf(&self.numbers, name);
        let Some(shelf) = shelf else { return agents.uniq64(name, 1).await.and_then(crate::first) };
        self.give(&shelf, agents, {
            let name = name.clone();
            move |agents: Arc<Agents>, n| {
                let name = name.clone();
                async move { agents.uniq64(&name, n).await }
            }
        })
        .await
    }

    pub(crate) async fn segment(&self, agents: &Arc<Agents>, name: &GeneratorName) -> Result<u64, Error> {
        let shelf = self.shelf(&self.plain, name);
        let Some(shelf) = shelf else { return agents.segment(name, 1).await.and_then(crate::first) };
        self.give(&shelf, agents, {
            let name = name.clone();
            move |agents: Arc<Agents>, n| {
                let name = name.clone();
                async move { agents.segment(&name, n).await }
            }
        })
        .await
    }

    pub(crate) async fn uniq96(&self, agents: &Arc<Agents>) -> Result<u128, Error> {
        self.give(&self.wide, agents, |agents: Arc<Agents>, n| async move { agents.uniq96(n).await }).await
    }

    async fn give<T, F>(
        &self,
        shelf: &Arc<Shelf<T>>,
        agents: &Arc<Agents>,
        fetch: impl Fn(Arc<Agents>, u32) -> F + Send + Sync + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<Vec<T>, Error>> + Send + 'static,
    {
        if let Some((id, left)) = shelf.take(self.prefetch) {
            if left < shelf.size() as usize / 2 {
                self.fetch_beside(shelf, agents, fetch);
            }
            return Ok(id);
        }
        let _turn = shelf.turn.lock().await;
        // Another one may have fetched while we waited for our turn; its failure is ours to find out anew.
        if let Some((id, _)) = shelf.take(self.prefetch) {
            return Ok(id);
        }
        let asked = Instant::now();
        let mut ids = shelf.fetch(self.prefetch, agents, fetch).await?;
        let first = ids.pop_front();
        shelf.put(ids, asked);
        first.ok_or_else(|| Error::bad_parameter("this generator gives no such IDs".to_owned()))
    }

    fn shelf(&self, shelves: &Shelves, name: &GeneratorName) -> Option<Arc<Shelf<u64>>> {
        let mut shelves = shelves.lock().unwrap_or_else(PoisonError::into_inner);
        if !shelves.contains_key(name) && shelves.len() >= NAMES_MAX {
            return None;
        }
        Some(Arc::clone(shelves.entry(name.clone()).or_insert_with(|| Arc::new(Shelf::new(self.prefetch)))))
    }

    /// Fetches a batch in the background, unless somebody does already. If that fails, whoever finds the shelf empty hears why.
    fn fetch_beside<T, F>(
        &self,
        shelf: &Arc<Shelf<T>>,
        agents: &Arc<Agents>,
        fetch: impl Fn(Arc<Agents>, u32) -> F + Send + Sync + 'static,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<Vec<T>, Error>> + Send + 'static,
    {
        if shelf.turn.try_lock().is_err() {
            return;
        }
        let (shelf, agents, prefetch) = (Arc::clone(shelf), Arc::clone(agents), self.prefetch);
        tokio::spawn(async move {
            let Ok(_turn) = shelf.turn.try_lock() else { return };
            // Another one may have been quicker.
            if shelf.left() >= shelf.size() as usize / 2 {
                return;
            }
            let asked = Instant::now();
            if let Ok(ids) = shelf.fetch(prefetch, &agents, fetch).await {
                shelf.put(ids, asked);
            }
        });
    }
}
