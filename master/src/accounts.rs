//! Users, keys, logins and invitations of this master, for the console.

use crate::admin::Admin;
use crate::bootstrap::Reset;
use crate::driver::{Counters, Driver, Refused};
use crate::invitations::{InviteError, Inviting, KeepError, Kept, id_of};
use crate::lease::{Event, Reply};
use crate::ledger::Ledger;
use crate::store::Audit;
use anyhow::{Context as _, bail};
use common::account::{Login, SecretHash, User};
use common::api_key::ApiKey;
use common::audit::{Action, Actor, Note, RefusedAt};
use common::certificate::Revocation;
use common::clock::Clock;
use common::setting::{Change, SettingKey, SettingValue};
use common::time::{Now, WallMs};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use net::enroll::{Invitation, InvitationRequest};
use net::rpc::lease::{Mode, Refusal};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use web::{Accounts, Invitations, NotInvited, OpenInvitation, Refusals, Unavailable};

/// Interval of looking for refusals that the audit is to be told of.
const LOOK_FOR_REFUSALS: Duration = Duration::from_secs(1);
/// Interval at which an admin is proposed as long as the other master is away.
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

    fn revoked(&self) -> BoxFuture<'_, Result<Vec<Revocation>, Unavailable>> {
        self.look(|ledger, _| ledger.settings_table().revoked().to_vec())
    }

    fn keep(
        &self,
        logins: Vec<(SecretHash, Option<Login>)>,
        note: Option<Note>,
    ) -> BoxFuture<'_, Result<(), Unavailable>> {
        async move {
            if note.as_ref().is_some_and(|note| note.action == Action::LockOut) {
                self.counters.lockouts.fetch_add(1, Ordering::Relaxed);
            }
            kept(&self.driver, logins, note).await
        }
        .boxed()
    }
}

impl<A: Audit> Refusals for Admin<A> {
    fn refused(&self, at: RefusedAt, who: Actor, why: String) {
        self.counters.refusals.count(at, who, why);
    }
}

impl<A: Audit> Invitations for Admin<A> {
    fn invited_at(&self) -> Result<&str, NotInvited> {
        Ok(self.inviting()?.at())
    }

    fn invitations(&self) -> BoxFuture<'_, Result<Vec<OpenInvitation>, NotInvited>> {
        async move {
            let Some(inviting) = self.inviting.clone() else { return Ok(Vec::new()) };
            let now = self.clock.wall();
            let open = on_disk(move || inviting.kept().open(now)).await?;
            Ok(open.into_iter().map(|(id, Kept { terms, ends })| OpenInvitation { id, terms, ends }).collect())
        }
        .boxed()
    }

    fn invite(
        &self,
        request: InvitationRequest,
        by: Actor,
    ) -> BoxFuture<'_, Result<(Invitation, OpenInvitation), NotInvited>> {
        let (inviting, driver, now) = (self.inviting().cloned(), self.driver.clone(), self.clock.wall());
        finished(async move { invited(inviting?, &driver, (request, now), by).await })
    }

    fn withdraw(&self, id: String, by: Actor) -> BoxFuture<'_, Result<(), NotInvited>> {
        let (inviting, driver, now) = (self.inviting().cloned(), self.driver.clone(), self.clock.wall());
        finished(async move { withdrawn(inviting?, &driver, (id, now), by).await })
    }
}

impl<A: Audit> Admin<A> {
    fn inviting(&self) -> Result<&Inviting, NotInvited> {
        let why = "it listens on loopback alone without --tls-dir, speaks plain TCP, has certificates from elsewhere, or has no CA";
        self.inviting.as_ref().ok_or_else(|| NotInvited::NoCa(why.to_owned()))
    }
}

/// Does the work to its end, also if whoever asked for it goes away in between: nothing happens without its line in the audit.
fn finished<T: Send + 'static>(
    work: impl Future<Output = Result<T, NotInvited>> + Send + 'static,
) -> BoxFuture<'static, Result<T, NotInvited>> {
    async move { tokio::spawn(work).await.unwrap_or(Err(Unavailable::ShuttingDown.into())) }.boxed()
}

async fn invited(
    inviting: Inviting,
    driver: &Driver,
    (request, now): (InvitationRequest, WallMs),
    by: Actor,
) -> Result<(Invitation, OpenInvitation), NotInvited> {
    if driver.is_full() {
        return Err(Unavailable::DiskFull.into());
    }
    let making = inviting.clone();
    let made = tokio::task::spawn_blocking(move || making.make(request, now));
    let (invitation, made) = made.await.map_err(|_| Unavailable::ShuttingDown)?.map_err(|why| match why {
        InviteError::NoCa(why) => NotInvited::NoCa(why.to_string()),
        InviteError::Address(why) => NotInvited::Address(why),
        InviteError::Unkept(KeepError::Unwritten(why)) => failed(&why),
        InviteError::Unkept(why @ KeepError::TooMany) => NotInvited::TooMany(why.to_string()),
    })?;
    let open = OpenInvitation { id: id_of(&invitation.proof()), terms: made.terms, ends: made.ends };
    let detail = format!("{} for {}, until {}", open.id, open.terms.programs(), open.ends);
    let note = Note { detail, ..Note::new(by, Action::Invite, open.terms.invited.to_string()) };
    if let Err(why) = kept(driver, Vec::new(), Some(note)).await {
        // Nobody has seen it: without its line in the audit it is none.
        let id = open.id.clone();
        on_disk(move || inviting.kept().withdraw(&id, now)).await?;
        return Err(why.into());
    }
    Ok((invitation, open))
}

async fn withdrawn(
    inviting: Inviting,
    driver: &Driver,
    (id, now): (String, WallMs),
    by: Actor,
) -> Result<(), NotInvited> {
    let looking = inviting.clone();
    let open = on_disk(move || looking.kept().open(now)).await?;
    let (id, open) = open.into_iter().find(|(open, _)| *open == id).ok_or(NotInvited::NotFound)?;
    let note = Note { detail: id.clone(), ..Note::new(by, Action::Withdraw, open.terms.invited.to_string()) };
    kept(driver, Vec::new(), Some(note)).await?;
    // One that was used up meanwhile is gone as well.
    on_disk(move || inviting.kept().withdraw(&id, now)).await
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, NotInvited> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| Unavailable::ShuttingDown)?;
    done.map_err(|why| failed(&why))
}

fn failed(why: &io::Error) -> NotInvited {
    NotInvited::Failed(format!("the folder of invitations cannot be used: {why}"))
}

/// Makes logins and a line of the audit durable.
async fn kept(
    driver: &Driver,
    logins: Vec<(SecretHash, Option<Login>)>,
    note: Option<Note>,
) -> Result<(), Unavailable> {
    match driver.ask(move |id| Event::KeepLogins { id, logins, note }).await {
        Ok(Reply::Kept) => Ok(()),
        Ok(_) | Err(Refused::Stopping) => Err(Unavailable::ShuttingDown),
        Err(Refused::Overloaded) => Err(Unavailable::Overloaded),
        Err(Refused::NoRoom) => Err(Unavailable::DiskFull),
    }
}

/// Writes refusals into the audit, until `stop`.
pub async fn tell_refusals(driver: Driver, counters: Arc<Counters>, clock: Clock, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(LOOK_FOR_REFUSALS)).await.is_some() {
        for note in counters.refusals.due(clock.link_now().boot) {
            let (at, untold) = (note.subject.clone(), note.detail.clone());
            if let Err(why) = kept(&driver, Vec::new(), Some(note)).await {
                tracing::warn!(at, untold, %why, "refusals could not be written into the audit");
            }
        }
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

/// Lets `admin` in again, with the password of `reset`, as soon as both masters are there. To be run where a thread may be
/// kept busy with passwords.
pub async fn reset_admin(driver: Driver, mut reset: Reset, stop: CancellationToken) {
    let file = reset.file().display().to_string();
    tracing::warn!(
        "--reset-admin gives the console's user 'admin' the password in {file}: leave the flag out of the next start, which would \
         do so again if the password was changed since"
    );
    let resets = async {
        let (mut changes, mut waits) = (0, String::new());
        loop {
            match reset_once(&driver, &mut reset).await {
                Ok(false) => return changes,
                Ok(true) => changes += 1,
                Err(why) => {
                    let why = format!("{why:#}");
                    if why != waits {
                        tracing::warn!("--reset-admin has not done all of it yet, and tries again until it has: {why}");
                        waits = why;
                    }
                    tokio::time::sleep(PROPOSE_AGAIN).await;
                }
            }
        }
    };
    tokio::select! {
        changes = resets => match changes {
            0 => tracing::info!("the password of the console's user 'admin' is the one in {file} already"),
            _ => tracing::info!("the console's user 'admin' has a new password, and it is in {file}"),
        },
        () = stop.cancelled() => {}
    }
}

/// Makes the next change of a reset; `false` if there is none to make.
async fn reset_once(driver: &Driver, reset: &mut Reset) -> anyhow::Result<bool> {
    // Anew for each change: others change users, too.
    let (users, proposed) = driver.look(|ledger, clock| agreed(ledger, clock.link_now())).await??;
    let Some(change) = tokio::task::block_in_place(|| reset.next(&users, &proposed))? else { return Ok(false) };
    let actor = Actor::new("operator", "uniq_master --reset-admin");
    match driver.ask(move |id| Event::Change { id, change, actor }).await? {
        Reply::Change(Err(why @ Refusal::TooMany { .. })) => {
            Err(why).context("there is no room for the user 'admin': log in as another admin and remove one")
        }
        Reply::Change(changed) => Ok(changed.map(|_| true)?),
        other => bail!("the ledger answered another question: {other:?}"),
    }
}

/// The users that both masters hold, and those that are proposed.
///
/// # Errors
/// The reason why this master cannot say now whom both of them hold.
fn agreed(ledger: &Ledger, now: Now) -> Result<(Vec<User>, Vec<User>), Refusal> {
    ledger.mode().serves()?;
    if ledger.mode() != Mode::Ready || !ledger.pair().heard(now) {
        return Err(Refusal::PeerAway);
    }
    let table = ledger.settings_table();
    let proposed = match table.prep(&SettingKey::Users).map(|prep| &prep.value) {
        Some(SettingValue::Users(users)) => users.clone(),
        _ => Vec::new(),
    };
    // Without any, the first admin is still being agreed on.
    table.users().map(|users| (users.to_vec(), proposed)).ok_or(Refusal::Retry)
}
