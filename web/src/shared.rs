//! The state that every handler can have.

use crate::auth::Auth;
use crate::live::Live;
use crate::masters::{Masters, Unavailable};
use axum::extract::FromRef;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};

#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) masters: Arc<dyn Masters>,
    pub(crate) live: Arc<Live>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) turn: Turn,
}

/// The longest wait for the turn.
const TURN_MAX: Duration = Duration::from_secs(5);

/// The turn of whoever has all settings in memory at once: one at a time.
#[derive(Clone, Default)]
pub(crate) struct Turn(Arc<Mutex<()>>);

impl Turn {
    /// Waits for it, but not for long.
    pub(crate) async fn take(self) -> Result<OwnedMutexGuard<()>, Unavailable> {
        tokio::time::timeout(TURN_MAX, self.0.lock_owned()).await.map_err(|_| Unavailable::Overloaded)
    }
}

impl FromRef<Shared> for Turn {
    fn from_ref(shared: &Shared) -> Self {
        shared.turn.clone()
    }
}

impl FromRef<Shared> for Arc<Auth> {
    fn from_ref(shared: &Shared) -> Self {
        Arc::clone(&shared.auth)
    }
}

impl FromRef<Shared> for Arc<dyn Masters> {
    fn from_ref(shared: &Shared) -> Self {
        Arc::clone(&shared.masters)
    }
}
