//! The things that definitions may refer to: secrets, strategies and plugins.

use crate::plugin::Plugins;
use crate::refusal::Refusal;
use common::encoding::Secrets;
use common::namespace::Namespace;
use common::strategy::Strategies;
use std::sync::OnceLock;

/// Each is said once, before a name that needs it is learned; the first word stays.
#[derive(Debug, Default)]
pub struct Extras {
    secrets: OnceLock<Secrets>,
    strategies: OnceLock<Strategies>,
    plugins: OnceLock<Plugins>,
}

impl Extras {
    /// Writes names whose encoding needs a secret by these.
    pub fn keep_secrets(&self, secrets: Secrets) {
        let _ = self.secrets.set(secrets);
    }

    /// The means that it was told to write by.
    pub fn secrets(&self) -> &Secrets {
        self.secrets.get().unwrap_or(Secrets::NONE)
    }

    /// Writes names whose encoding is a strategy by these.
    pub fn keep_strategies(&self, strategies: Strategies) {
        let _ = self.strategies.set(strategies);
    }

    /// The means that it was told to write by.
    pub fn strategies(&self) -> &Strategies {
        self.strategies.get().unwrap_or(Strategies::NONE)
    }

    /// With these plugins from now on: names that were learned before keep what they have. Without a call of this there are
    /// `quota` and `stats`. `false` if there are plugins already, because somebody said so or a name needed them.
    pub fn set_plugins(&self, plugins: Plugins) -> bool {
        self.plugins.set(plugins).is_ok()
    }

    /// The plugins that names can have here.
    pub fn plugins(&self) -> &Plugins {
        self.plugins.get_or_init(Plugins::new)
    }

    /// Tells whether the IDs of that name can be written here.
    ///
    /// # Errors
    /// [`Refusal::CannotWrite`].
    pub fn can_write(&self, namespace: &Namespace) -> Result<(), Refusal> {
        namespace.written_by(self.secrets(), self.strategies()).map(drop).map_err(Refusal::CannotWrite)
    }
}
