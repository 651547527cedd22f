//! The rights of callers of this agent: by the certificate, the user of a Unix socket, the API key that is shown, or the address.
//!
//! | caller | may |
//! |---|---|
//! | shows an API key | what the key opens, wherever it comes from |
//! | has a certificate of an agent or a client, or comes by a Unix socket | everything |
//! | comes by plain TCP, where nobody can be known: beyond loopback with `--insecure` alone | everything |
//! | has no certificate where others have, with `--open-mint` | everything but register names |
//! | the same without it | ask whether the agent is alive and ready, nothing else |
//!
//! The masters know the keys, this agent asks for their hashes (`refreshing`) and keeps them beside the serial file, so that it knows them after
//! a restart without any master. As long as there are none, nobody without a certificate gets past a TLS handshake.

mod metered;
mod refreshing;
mod visitor;

pub(crate) use refreshing::CredentialList;
pub(crate) use visitor::Visitor;

use crate::refusal::Refusal;
use arc_swap::ArcSwap;
use common::account::SecretHash;
use common::api_key::{KEY_BEGIN, KEY_LEN};
use common::time::WallMs;
use metered::KnownKey;
use net::rpc::lease::{AgentCredentials, CredentialsVersion};
use net::tls::Remote;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const UNKNOWN: &str = "this API key is not known here, or has ended: an agent hears of a new one within some 20 seconds, and of none that is for masters";

/// The rights of callers.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Tells whether callers without a certificate mint where others have one.
    open_mint: bool,
    known: ArcSwap<Known>,
    /// Grows when a right that a caller had may be another one.
    generation: AtomicU64,
    /// Tells whether there are keys: ports let callers without a certificate in, then.
    any: Arc<AtomicBool>,
}

/// The keys, as they were last heard of.
#[derive(Debug, Default)]
struct Known {
    version: CredentialsVersion,
    keys: Vec<Arc<KnownKey>>,
}

impl Access {
    pub(crate) fn new(open_mint: bool) -> Self {
        Self { open_mint, ..Self::default() }
    }

    /// Tells whether there are keys for agents, also later.
    pub(crate) fn any_keys(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.any)
    }

    /// A number that is another one after the rights of callers may have changed.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The caller at the other end of a connection, who shows that key, or none.
    ///
    /// # Errors
    /// [`Refusal::LoginRequired`]: the key opens nothing here, whatever its owner might do without it.
    pub(crate) fn visitor(&self, remote: &Remote, shown: Option<SecretHash>, now: WallMs) -> Result<Visitor, Refusal> {
        let Some(hash) = shown else {
            return Ok(Visitor::without_key(remote.clone(), self.open_mint));
        };
        let known = self.known.load();
        let key = known.keys.iter().find(|known| known.key.opens(hash, now)).ok_or(Refusal::LoginRequired(UNKNOWN))?;
        Ok(Visitor::with_key(remote.clone(), Arc::clone(key)))
    }

    /// Takes these keys over.
    pub(crate) fn learn(&self, AgentCredentials { version, keys, .. }: AgentCredentials, now: WallMs) {
        let before = self.known.load();
        let keys = keys.into_iter().map(|key| Arc::new(KnownKey::after(&before.keys, key))).collect();
        self.known.store(Arc::new(Known { version, keys }));
        self.judge_anew(now);
    }

    /// Has all callers judged anew, at their next request.
    pub(crate) fn judge_anew(&self, now: WallMs) {
        let lasts = |known: &Arc<KnownKey>| known.key.until.is_none_or(|until| now < until);
        self.any.store(self.known.load().keys.iter().any(lasts), Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn version(&self) -> CredentialsVersion {
        self.known.load().version
    }

    /// The next instant after `now` at which a key ends.
    pub(crate) fn next_end(&self, now: WallMs) -> Option<WallMs> {
        let known = self.known.load();
        let ends = known
            .keys
            .iter()
            .map(|known| &known.key)
            .flat_map(|key| [key.until, key.former.map(|former| former.until)]);
        ends.flatten().filter(|until| *until > now).min()
    }
}

/// The hash of a key as callers write it.
///
/// # Errors
/// [`Refusal::LoginRequired`]: it is none of ours.
pub(crate) fn hash_of(key: &[u8]) -> Result<SecretHash, Refusal> {
    let is_one = key.len() == KEY_LEN && key.starts_with(KEY_BEGIN.as_bytes());
    is_one.then(|| SecretHash::of(key)).ok_or(Refusal::LoginRequired("this is no API key of UniqGenerator"))
}

/// The hash of the key in an `Authorization` header.
///
/// # Errors
/// [`Refusal::LoginRequired`]: it has another scheme, or no key of ours.
pub(crate) fn hash_in(header: &[u8]) -> Result<SecretHash, Refusal> {
    const BEARER: &[u8] = b"bearer ";
    match header.split_at_checked(BEARER.len()) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(BEARER) => hash_of(key.trim_ascii()),
        _ => Err(Refusal::LoginRequired("write the header as Authorization: Bearer KEY")),
    }
}
