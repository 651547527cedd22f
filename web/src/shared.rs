//! What every handler can have.

use crate::auth::Auth;
use crate::live::Live;
use crate::masters::Masters;
use axum::extract::FromRef;
use std::sync::Arc;

/// It.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) masters: Arc<dyn Masters>,
    pub(crate) live: Arc<Live>,
    pub(crate) auth: Arc<Auth>,
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
