//! IDs fetched before they are asked for.

use crate::agents::Agents;
use crate::error::Error;
use crate::settings::Prefetch;
use common::kind::Kind;
use common::namespace::GeneratorName;
use net::rpc::mint::MintCode;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Mutex as Turn;

/// Names of one kind that are prefetched at most; the IDs of others are fetched one by one.
const NAMES_MAX: usize = 64;

/// Divisor by which a batch that is too large for a generator is made smaller.
const SMALLER: u32 = 8;

/// Numbers of one batch.
struct Batch {
    ids: VecDeque<u128>,
    fetched: Instant,
}

/// The stock of one generator.
struct Shelf {
    kind: Option<Kind>,
    name: GeneratorName,
    batches: Mutex<VecDeque<Batch>>,
    /// IDs asked for at once: those of the settings, or as many as its definition lets agents give at once (`step_max` of a segment).
    size: AtomicU32,
    /// Whoever fetches has it, so that those who come together fetch once.
    turn: Turn<()>,
}

impl Shelf {
    fn new(prefetch: Prefetch, kind: Option<Kind>, name: GeneratorName) -> Self {
        let size = AtomicU32::new(prefetch.batch);
        Self { kind, name, batches: Mutex::default(), size, turn: Turn::default() }
    }

    fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// A batch, smaller if so many are refused.
    async fn fetch(&self, prefetch: Prefetch, agents: &Agents) -> Result<VecDeque<u128>, Error> {
        let mut n = self.size();
        loop {
            match agents.numbers(self.kind, &self.name, n).await {
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
                    return Ok(Vec::from(ids).into());
                }
            }
        }
    }

    /// The oldest ID that is not too old, and how many are left then.
    fn take(&self, prefetch: Prefetch) -> Option<(u128, usize)> {
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

    fn put(&self, ids: VecDeque<u128>, asked: Instant) {
        let batch = Batch { ids, fetched: asked };
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push_back(batch);
    }
}

fn left(batches: &VecDeque<Batch>) -> usize {
    batches.iter().map(|batch| batch.ids.len()).sum()
}

/// The stock of each generator, by the kind that is asked for and the name.
type Shelves = BTreeMap<(Option<Kind>, GeneratorName), Arc<Shelf>>;

/// All stocks of a client.
pub(crate) struct Stock {
    prefetch: Prefetch,
    shelves: Mutex<Shelves>,
}

impl Stock {
    pub(crate) fn new(prefetch: Prefetch) -> Self {
        Self { prefetch, shelves: Mutex::default() }
    }

    /// A number of that generator; `None` if too many others are prefetched.
    pub(crate) async fn give(
        &self,
        agents: &Arc<Agents>,
        kind: Option<Kind>,
        name: &GeneratorName,
    ) -> Option<Result<u128, Error>> {
        let shelf = self.shelf(kind, name)?;
        Some(self.give_of(&shelf, agents).await)
    }

    async fn give_of(&self, shelf: &Arc<Shelf>, agents: &Arc<Agents>) -> Result<u128, Error> {
        if let Some((id, left)) = shelf.take(self.prefetch) {
            if left < shelf.size() as usize / 2 {
                self.fetch_beside(shelf, agents);
            }
            return Ok(id);
        }
        let _turn = shelf.turn.lock().await;
        // Another one may have fetched while we waited for our turn; its failure is ours to find out anew.
        if let Some((id, _)) = shelf.take(self.prefetch) {
            return Ok(id);
        }
        let asked = Instant::now();
        let mut ids = shelf.fetch(self.prefetch, agents).await?;
        let first = ids.pop_front();
        shelf.put(ids, asked);
        first.ok_or_else(|| Error::bad_parameter("this generator gives no such IDs".to_owned()))
    }

    fn shelf(&self, kind: Option<Kind>, name: &GeneratorName) -> Option<Arc<Shelf>> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name.clone());
        let of_kind = || shelves.keys().filter(|(of, _)| *of == kind).count();
        if !shelves.contains_key(&key) && of_kind() >= NAMES_MAX {
            return None;
        }
        let new = || Arc::new(Shelf::new(self.prefetch, kind, name.clone()));
        Some(Arc::clone(shelves.entry(key).or_insert_with(new)))
    }

    /// Fetches a batch in the background, unless somebody does already. If that fails, whoever finds the shelf empty hears why.
    fn fetch_beside(&self, shelf: &Arc<Shelf>, agents: &Arc<Agents>) {
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
            if let Ok(ids) = shelf.fetch(prefetch, &agents).await {
                shelf.put(ids, asked);
            }
        });
    }
}
