//! The keys, and what is revoked of certificates, asked for now and then, and kept beside the serial file.

use super::Access;
use crate::masters::{Ask, First, Lane, Masters, Preferred};
use net::rpc::lease::AgentCredentials;
use serial_file::KeptCredentials;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The interval at which the masters are asked, in real time.
const REFRESH: Duration = Duration::from_secs(10);
/// The interval if none of them answered.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Of so many questions one goes to the masters in turn.
const BOTH_EACH: usize = 6;
/// The interval at which a start looks whether there is a connection to a master.
const CONNECTED_LOOK: Duration = Duration::from_millis(20);
/// The longest time between two looks for keys that have ended.
const LOOK: Duration = Duration::from_secs(1);

/// The list of keys and revocations, as this agent learns it.
pub(crate) struct CredentialList {
    access: Arc<Access>,
    masters: Arc<Masters>,
    serial_file: PathBuf,
    /// Times that a master was asked.
    asks: AtomicUsize,
    /// The master that is asked first the next time that both are asked in turn.
    turn: AtomicUsize,
    /// The list that is not kept beside the serial file yet.
    unkept: Mutex<Option<KeptCredentials>>,
}

impl CredentialList {
    fn new(access: Arc<Access>, masters: Arc<Masters>, serial_file: &Path) -> Self {
        let (asks, turn) = (AtomicUsize::new(1), AtomicUsize::new(0));
        Self { access, masters, serial_file: serial_file.to_owned(), asks, turn, unkept: Mutex::default() }
    }

    /// The same, with what was kept from a former run of the same cluster.
    pub(crate) fn recalled(access: Arc<Access>, masters: Arc<Masters>, serial_file: &Path) -> Self {
        let list = Self::new(access, masters, serial_file);
        list.recall();
        list
    }

    fn recall(&self) {
        let here = self.masters.minter.grants().membership().cluster;
        match KeptCredentials::read(&self.serial_file) {
            Ok(Some(kept)) if here == Some(kept.cluster) => {
                let (version, count) = (kept.credentials.version.version, kept.credentials.keys.len());
                tracing::info!(keys = count, version, "the API keys of the last run, and what was revoked, are known");
                self.learn(kept.credentials);
            }
            Ok(_) => {}
            Err(why) => tracing::warn!(%why, "the masters are asked for the API keys, and what is revoked, instead"),
        }
    }

    fn learn(&self, credentials: AgentCredentials) {
        self.masters.tls.revoke(&credentials.revoked);
        self.access.learn(credentials, self.masters.minter.time().wall());
    }

    /// Asks the masters now and then, and ends keys in time, until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.keep_asking() => {}
            () = self.keep_ending() => {}
        }
    }

    async fn keep_asking(&self) {
        // By the connection that the heartbeat makes.
        let connected = async {
            while self.masters.in_use().is_none() {
                tokio::time::sleep(CONNECTED_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(ASK_AGAIN, connected).await;
        loop {
            let asked = self.refresh().await;
            let pause = if asked.is_ok() { REFRESH } else { ASK_AGAIN };
            if let Err(why) = asked {
                tracing::debug!(%why, "the API keys could not be asked for");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Has callers judged anew whenever a key has ended. What ended since the last look is found whatever the calendar did meanwhile.
    async fn keep_ending(&self) {
        let time = self.masters.minter.time();
        let mut looked = time.wall();
        loop {
            let end = self.access.next_end(looked);
            looked = time.wall();
            let left = match end {
                Some(end) if end <= looked => {
                    self.access.judge_anew(looked);
                    Duration::ZERO
                }
                Some(end) => time.clock().real((end - looked).to_std()),
                None => LOOK,
            };
            tokio::time::sleep(left.clamp(Duration::from_millis(1), LOOK)).await;
        }
    }

    /// Fetches the list from one of the masters that answers, if it has another, and keeps what is not kept yet.
    async fn refresh(&self) -> Result<(), String> {
        let known = self.access.version();
        // By the connection that is there in any case: a change of the keys is known to both masters. But for one whose disk was put back
        // and that has not met the other since: therefore that one is asked now and then, too.
        let (asks, in_use) = (self.asks.fetch_add(1, Ordering::Relaxed), Preferred::default());
        let ask = match asks % BOTH_EACH {
            0 => Ask::new(Lane::Lists, First::Turn(&self.turn)),
            _ => Ask::new(Lane::Calls, First::Last(&in_use)),
        };
        let asked = self.masters.ask(ask, |line| async move { line.agent_credentials(known).await.map(Some) }).await;
        if let Ok(Some((cluster, credentials))) = &asked {
            let AgentCredentials { version, keys, revoked } = credentials;
            tracing::info!(
                keys = keys.len(),
                revoked = revoked.len(),
                version = version.version,
                "the API keys for agents, or what is revoked of certificates, have changed"
            );
            self.learn(credentials.clone());
            *self.unkept() = Some(KeptCredentials { cluster: *cluster, credentials: credentials.clone() });
        }
        let unkept = self.unkept().clone();
        if let Some(credentials) = unkept {
            let path = self.serial_file.clone();
            let kept = tokio::task::spawn_blocking(move || credentials.write(&path)).await;
            match kept.unwrap_or(Ok(())) {
                Ok(()) => *self.unkept() = None,
                // They are used nevertheless; a start without masters goes by those that were kept before.
                Err(why) => {
                    tracing::warn!(%why, beside = %self.serial_file.display(), "the API keys, and what is revoked, could not be kept")
                }
            }
        }
        asked.map(drop).map_err(|none| none.why())
    }

    fn unkept(&self) -> MutexGuard<'_, Option<KeptCredentials>> {
        self.unkept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::tests::master::Master;
    use crate::masters::tests::masters_at;
    use crate::minter::kit::Kit;
    use common::account::SecretHash;
    use common::api_key::{AgentScope, ApiKey, KeyAction, KeyScope};
    use common::parameters::ClusterId;
    use common::time::WallMs;
    use net::rpc::lease::CredentialsVersion;
    use net::tls::Remote;

    const SHOP: SecretHash = SecretHash([1; 32]);

    fn keys(version: u64, hashes: &[SecretHash]) -> AgentCredentials {
        let scope = AgentScope { actions: [KeyAction::Mint].into(), names: ["*".parse().unwrap()].into(), quota: None };
        let key = |hash: &SecretHash| ApiKey::new("shop".parse().unwrap(), KeyScope::Agents(scope.clone()), *hash);
        AgentCredentials {
            version: CredentialsVersion { version, at: WallMs(0) },
            keys: hashes.iter().map(key).collect(),
            revoked: Vec::new(),
        }
    }

    fn knows(list: &CredentialList, hash: SecretHash) -> bool {
        list.access.visitor(&Remote::here(), Some(hash), WallMs(0)).is_ok()
    }

    #[tokio::test]
    async fn a_key_that_ends_while_no_master_answers_ends_for_open_connections() {
        let (kit, master) = (Kit::new(), Master::new(Ok(7)));
        let masters = masters_at(&[master.listen().await], &kit.start());
        let list = CredentialList::new(Arc::default(), Arc::clone(&masters), &kit.path());
        let (access, now) = (Arc::clone(&list.access), masters.minter.time().wall());
        let mut ends = keys(1, &[SHOP]);
        ends.keys[0].until = Some(now + common::time::SpanMs(200));
        access.learn(ends, now);
        let judged = access.generation();
        let stop = CancellationToken::new();
        master.with(|records| records.holds_heartbeats = true);
        let running = tokio::spawn(list.run(stop.clone()));
        while access.generation() == judged {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let now = masters.minter.time().wall();
        assert!(access.visitor(&Remote::here(), Some(SHOP), now).is_err());
        assert!(!access.any_keys().load(std::sync::atomic::Ordering::Relaxed), "nobody else has one");
        stop.cancel();
        running.await.unwrap();
    }

    #[tokio::test]
    async fn keys_are_heard_of_and_known_after_a_restart_of_the_same_cluster() {
        let (kit, master) = (Kit::new(), Master::new(Ok(7)));
        let masters = masters_at(&[master.listen().await], &kit.start());
        let list = |masters: &Arc<Masters>| CredentialList::new(Arc::default(), Arc::clone(masters), &kit.path());
        let first = list(&masters);
        first.recall();
        first.refresh().await.unwrap();
        assert!(!knows(&first, SHOP) && KeptCredentials::read(&kit.path()) == Ok(None), "there are none");
        master.with(|records| records.keys = Some(keys(1, &[SHOP])));
        first.refresh().await.unwrap();
        assert!(knows(&first, SHOP) && first.access.any_keys().load(std::sync::atomic::Ordering::Relaxed));
        let kept = KeptCredentials::read(&kit.path()).unwrap().unwrap();
        assert_eq!((kept.cluster, &kept.credentials), (ClusterId(1), &keys(1, &[SHOP])));
        // Another run, without a master.
        let again = list(&masters);
        again.recall();
        assert!(knows(&again, SHOP));
        // What is revoked is forgotten there, too.
        master.with(|records| records.keys = Some(keys(2, &[])));
        again.refresh().await.unwrap();
        assert!(!knows(&again, SHOP) && knows(&first, SHOP));
        KeptCredentials { cluster: ClusterId(9), credentials: keys(3, &[SHOP]) }.write(&kit.path()).unwrap();
        let elsewhere = list(&masters);
        elsewhere.recall();
        assert!(!knows(&elsewhere, SHOP), "another cluster's");
        let mut damaged = kit.path().into_os_string();
        damaged.push(".keys");
        std::fs::write(damaged, b"no keys").unwrap();
        assert!(KeptCredentials::read(&kit.path()).unwrap_err().contains("API keys"));
        elsewhere.recall();
        elsewhere.refresh().await.unwrap();
        assert_eq!(KeptCredentials::read(&kit.path()).unwrap().unwrap().credentials, keys(2, &[]));
    }
}
