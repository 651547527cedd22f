//! The state of the masters as far as it is known, for `/status`.

use arc_swap::ArcSwapOption;
use common::parameters::MasterId;
use common::time::WallMs;
use net::rpc::lease::Mode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// The master that the connection goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterInUse {
    /// Its address.
    pub address: String,
    /// Its ID.
    pub id: MasterId,
    /// Its mode.
    pub mode: Mode,
    /// The instant at which it last answered, by our time.
    pub heard: WallMs,
}

/// The last thing that did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRefusal {
    /// The instant, by our time.
    pub at: WallMs,
    /// The words of a master, or of the network.
    pub text: String,
}

/// Written by the heartbeat, read by anyone.
#[derive(Debug, Default)]
pub struct Report {
    master: ArcSwapOption<MasterInUse>,
    refusal: ArcSwapOption<LastRefusal>,
    connected: Notify,
    /// The digest of all names that the last new connection showed.
    names: AtomicU64,
    names_shown: Notify,
}

impl Report {
    /// Waits for the next new connection to a master, or for the last one if nobody has waited since.
    pub(crate) async fn connected(&self) {
        self.connected.notified().await;
    }

    pub(crate) fn has_connected(&self) {
        self.connected.notify_one();
    }

    /// Waits for the digest of all names that the next new connection shows, or gives the last one if nobody has waited since.
    pub(crate) async fn names(&self) -> u64 {
        self.names_shown.notified().await;
        self.names.load(Ordering::Relaxed)
    }

    pub(crate) fn set_names(&self, names: u64) {
        self.names.store(names, Ordering::Relaxed);
        self.names_shown.notify_one();
    }

    /// The master in use; `None` while there is none.
    pub fn master(&self) -> Option<Arc<MasterInUse>> {
        self.master.load_full()
    }

    /// The last thing that did not work; it may have worked since.
    pub fn last_refusal(&self) -> Option<Arc<LastRefusal>> {
        self.refusal.load_full()
    }

    pub(crate) fn set_master(&self, master: Option<MasterInUse>) {
        self.master.store(master.map(Arc::new));
    }

    pub(crate) fn set_refusal(&self, at: WallMs, text: String) {
        self.refusal.store(Some(Arc::new(LastRefusal { at, text })));
    }
}
