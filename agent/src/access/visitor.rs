//! A caller, and what it may do.

use super::KnownKey;
use crate::plugin::{AccountHolder, Caller};
use crate::refusal::{NAME_SHOWN_MAX, Refusal};
use common::api_key::{ApiKey, KeyAction};
use common::time::BootMs;
use net::tls::Remote;
use net::turns::CallerId;
use std::sync::Arc;

/// The calls that a caller may make.
#[derive(Clone, Debug)]
enum Rights {
    /// All.
    All,
    /// All but registering names.
    AllButDefine,
    /// Those that a key opens.
    Key(Arc<KnownKey>),
    /// None.
    None,
}

/// A caller, and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    remote: Remote,
    rights: Rights,
}

impl Visitor {
    /// One of whom nothing is known yet.
    pub(crate) fn unknown(remote: Remote) -> Self {
        Self { remote, rights: Rights::None }
    }

    /// One of this machine.
    #[cfg(test)]
    pub(crate) fn local() -> Self {
        Self::without_key(Remote::here(), false)
    }

    /// One who shows no key.
    pub(super) fn without_key(remote: Remote, open_mint: bool) -> Self {
        let rights = match (remote.is_anonymous(), open_mint) {
            (false, _) => Rights::All,
            (true, true) => Rights::AllButDefine,
            (true, false) => Rights::None,
        };
        Self { remote, rights }
    }

    /// One who shows that key.
    pub(super) fn with_key(remote: Remote, key: Arc<KnownKey>) -> Self {
        Self { remote, rights: Rights::Key(key) }
    }

    /// The other end of its connection.
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Tells whether it may do nothing: it has shown neither a certificate nor a key where one is needed.
    pub(crate) fn is_nobody(&self) -> bool {
        matches!(self.rights, Rights::None)
    }

    /// The caller, as quotas and the log know it.
    pub(crate) fn caller(&self) -> Caller<'_> {
        match &self.rights {
            Rights::Key(known) => Caller::Key(&known.key.name),
            _ => Caller::from(&self.remote),
        }
    }

    /// The caller, as turns and places know it.
    pub(crate) fn caller_id(&self) -> CallerId {
        match &self.rights {
            Rights::Key(known) => CallerId::of(("key", &known.key.name)),
            _ => CallerId::from(&self.remote),
        }
    }

    /// The account that it draws from.
    pub(crate) fn holder(&self) -> AccountHolder {
        AccountHolder::of(common::plugin::By::Caller, self.caller())
    }

    /// Lets it do that, with that name if it is about one.
    ///
    /// # Errors
    /// [`Refusal::LoginRequired`] if a certificate or a key is needed; [`Refusal::Forbidden`] if its key does not open it.
    #[inline]
    pub(crate) fn may(&self, action: KeyAction, name: Option<&str>) -> Result<(), Refusal> {
        match (&self.rights, action) {
            (Rights::All, _) => Ok(()),
            (Rights::AllButDefine, KeyAction::Mint | KeyAction::Explain | KeyAction::Status) => Ok(()),
            (Rights::AllButDefine, KeyAction::Define) => Err(Refusal::LoginRequired(
                "names are for ever: whoever registers one shows a certificate, or an API key that may define",
            )),
            (Rights::None, _) => {
                Err(Refusal::LoginRequired("show a certificate, or an API key in Authorization: Bearer KEY"))
            }
            (Rights::Key(known), _) if known.opens(action, name) => Ok(()),
            (Rights::Key(known), _) => Err(forbidden(&known.key, action, name)),
        }
    }

    /// Tells whether it may have so many IDs and no more.
    pub(crate) fn is_metered(&self) -> bool {
        matches!(&self.rights, Rights::Key(known) if known.quota().is_some())
    }

    /// Counts `n` IDs, or numbers of keys, that it asks for.
    ///
    /// # Errors
    /// [`Refusal::KeyUsedUp`].
    #[inline]
    pub(crate) fn take(&self, n: u32, now: impl FnOnce() -> BootMs) -> Result<(), Refusal> {
        match &self.rights {
            Rights::Key(known) => known.take(n, now),
            _ => Ok(()),
        }
    }
}

#[cold]
fn forbidden(key: &ApiKey, action: KeyAction, name: Option<&str>) -> Refusal {
    let shown = |name: &str| name.chars().take(NAME_SHOWN_MAX).collect::<String>();
    let name = name.map(|name| format!(" by the name '{}'", shown(name))).unwrap_or_default();
    Refusal::Forbidden(format!("the API key {} opens {}, and not {action}{name}", key.name, key.scope))
}
