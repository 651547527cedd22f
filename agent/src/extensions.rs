//! The additions of an application to an agent: plugins, strategies, and who is told of refusals.

use crate::plugin::{Call, Failure, Plugins, RefusalHandler};
use common::strategy::{RegisterError, Strategies, Strategy};
use std::fmt;
use std::sync::Arc;

/// See the module. `Extensions::default()` adds nothing.
#[derive(Default)]
pub struct Extensions {
    pub(crate) plugins: Plugins,
    pub(crate) strategies: Strategies,
    pub(crate) refusals: Option<RefusalHandler>,
}

impl Extensions {
    /// With these plugins, for names whose definitions have such.
    #[must_use]
    pub fn plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }

    /// With this strategy, for names whose definitions name it.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn strategy(mut self, name: &str, strategy: impl Strategy + 'static) -> Result<Self, RegisterError> {
        self.strategies.register(name, strategy)?;
        Ok(self)
    }

    /// With this handler for calls that get no IDs, instead of a line of the log.
    #[must_use]
    pub fn refusals(self, handler: impl Fn(&Call<'_>, &Failure<'_>) + Send + Sync + 'static) -> Self {
        Self { refusals: Some(Arc::new(handler)), ..self }
    }
}

impl From<Plugins> for Extensions {
    fn from(plugins: Plugins) -> Self {
        Self::default().plugins(plugins)
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions")
            .field("plugins", &self.plugins)
            .field("strategies", &self.strategies)
            .finish_non_exhaustive()
    }
}
