//! Users, keys and logins of this master, for the console's authentication.

use crate::admin::Admin;
use crate::driver::{Driver, Refused};
use crate::lease::{Event, Reply};
use crate::store::Audit;
use common::account::{ApiKey, Login, SecretHash, User};
use common::audit::{Action, Actor};
use common::setting::Change;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use web::{Accounts, Unavailable};

/// Interval at which the first admin is proposed as long as the other master is away.
const PROPOSE_AGAIN: Duration = Duration::from_secs(1);

impl<A: Audit> Accounts for Admin<A> {
    fn users(&self) -> BoxFuture<'_, Result<Vec<User>, Unavailable>> {
        async move {
            let known = self.look(|ledger, _| ledger.settings_table().users().map(<[User]>::to_vec)).await?;
            // Until both masters hold a first admin, whoever can read its password's file may look around here.
            Ok(known.unwrap_or_else(|| self.first_admin.iter().cloned().collect()))
        }
        .boxed()
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<ApiKey>, Unavailable>> {
        self.look(|ledger, _| ledger.settings_table().keys().to_vec())
    }

    fn keep(
        &self,
        logins: Vec<(SecretHash, Option<Login>)>,
        note: Option<(Actor, Action, String)>,
    ) -> BoxFuture<'_, Result<(), Unavailable>> {
        async move {
            if note.as_ref().is_some_and(|(_, action, _)| *action == Action::LockOut) {
                self.counters.lockouts.fetch_add(1, Ordering::Relaxed);
            }
            match self.driver.ask(move |id| Event::KeepLogins { id, logins, note }).await {
                Ok(Reply::Kept) => Ok(()),
                Ok(_) | Err(Refused::Stopping) => Err(Unavailable::ShuttingDown),
                Err(Refused::Overloaded) => Err(Unavailable::Overloaded),
                Err(Refused::NoRoom) => Err(Unavailable::DiskFull),
            }
        }
        .boxed()
    }
}

/// Proposes `user` as the first one until the cluster has users, from here or from the other master.
pub async fn propose_first_admin(driver: Driver, user: User, stop: CancellationToken) {
    let proposed = async {
        loop {
            let change = Change::FirstAdmin(user.clone());
            let me = driver.look(|ledger, _| ledger.identity().master).await?;
            match driver.ask(move |id| Event::Change { id, change, actor: Actor::master(me) }).await? {
                Reply::Change(Ok(_)) => return Ok::<_, Refused>(()),
                Reply::Change(Err(why)) => tracing::debug!(%why, "the first admin is not confirmed yet"),
                other => tracing::error!(?other, "the ledger answered another question"),
            }
            tokio::time::sleep(PROPOSE_AGAIN).await;
        }
    };
    tokio::select! {
        done = proposed => if done.is_ok() { tracing::info!("both masters hold the first user of the console") },
        () = stop.cancelled() => {}
    }
}
