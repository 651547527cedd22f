//! IDs fetched before they are asked for.

use crate::agents::Agents;
use crate::error::Error;
use crate::settings::Prefetch;
use common::namespace::GeneratorName;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Mutex as Turn;

/// Names that are prefetched at most; the IDs of others are fetched one by one.
const NAMES_MAX: usize = 64;

/// IDs of one batch.
struct Batch<T> {
    ids: VecDeque<T>,
    fetched: Instant,
}

/// The stock of one generator.
struct Shelf<T> {
    batches: Mutex<VecDeque<Batch<T>>>,
    /// Whoever fetches has it, so that those who come together fetch once.
    turn: Turn<()>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { batches: Mutex::default(), turn: Turn::default() }
    }
}

impl<T> Shelf<T> {
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
        Self { prefetch, numbers: Mutex::default(), plain: Mutex::default(), wide: Arc::default() }
    }

    pub(crate) async fn uniq64(&self, agents: &Arc<Agents>, name: &GeneratorName) -> Result<u64, Error> {
        let n = self.prefetch.batch;
        let shelf = shelf(&self.numbers, name);
        let Some(shelf) = shelf else { return agents.uniq64(name, 1).await.and_then(crate::first) };
        self.give(&shelf, agents, {
            let name = name.clone();
            move |agents: Arc<Agents>| {
                let name = name.clone();
                async move { agents.uniq64(&name, n).await }
            }
        })
        .await
    }

    pub(crate) async fn segment(&self, agents: &Arc<Agents>, name: &GeneratorName) -> Result<u64, Error> {
        let n = self.prefetch.batch;
        let shelf = shelf(&self.plain, name);
        let Some(shelf) = shelf else { return agents.segment(name, 1).await.and_then(crate::first) };
        self.give(&shelf, agents, {
            let name = name.clone();
            move |agents: Arc<Agents>| {
                let name = name.clone();
                async move { agents.segment(&name, n).await }
            }
        })
        .await
    }

    pub(crate) async fn uniq96(&self, agents: &Arc<Agents>) -> Result<u128, Error> {
        let n = self.prefetch.batch;
        self.give(&self.wide, agents, move |agents: Arc<Agents>| async move { agents.uniq96(n).await }).await
    }

    async fn give<T, F>(
        &self,
        shelf: &Arc<Shelf<T>>,
        agents: &Arc<Agents>,
        fetch: impl Fn(Arc<Agents>) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<Vec<T>, Error>> + Send + 'static,
    {
        if let Some((id, left)) = shelf.take(self.prefetch) {
            let low = self.prefetch.batch as usize / 2;
            if left < low {
                fetch_beside(shelf, low, agents, fetch);
            }
            return Ok(id);
        }
        let _turn = shelf.turn.lock().await;
        // Another one may have fetched while we waited for our turn; its failure is ours to find out anew.
        if let Some((id, _)) = shelf.take(self.prefetch) {
            return Ok(id);
        }
        let asked = Instant::now();
        let mut ids = VecDeque::from(fetch(Arc::clone(agents)).await?);
        let first = ids.pop_front();
        shelf.put(ids, asked);
        first.ok_or_else(|| Error::bad_parameter("this generator gives no such IDs".to_owned()))
    }
}

fn shelf(shelves: &Shelves, name: &GeneratorName) -> Option<Arc<Shelf<u64>>> {
    let mut shelves = shelves.lock().unwrap_or_else(PoisonError::into_inner);
    if !shelves.contains_key(name) && shelves.len() >= NAMES_MAX {
        return None;
    }
    Some(Arc::clone(shelves.entry(name.clone()).or_default()))
}

/// Fetches a batch in the background, unless somebody does already. If that fails, whoever finds the shelf empty hears why.
fn fetch_beside<T, F>(
    shelf: &Arc<Shelf<T>>,
    low: usize,
    agents: &Arc<Agents>,
    fetch: impl Fn(Arc<Agents>) -> F + Send + 'static,
) where
    T: Send + 'static,
    F: Future<Output = Result<Vec<T>, Error>> + Send + 'static,
{
    if shelf.turn.try_lock().is_err() {
        return;
    }
    let (shelf, agents) = (Arc::clone(shelf), Arc::clone(agents));
    tokio::spawn(async move {
        let Ok(_turn) = shelf.turn.try_lock() else { return };
        // Another one may have been quicker.
        if shelf.left() >= low {
            return;
        }
        let asked = Instant::now();
        if let Ok(ids) = fetch(agents).await {
            shelf.put(ids.into(), asked);
        }
    });
}
