//! All names, asked for now and then, and shown to masters that have forgotten them.

use super::{Catalog, name_of};
use crate::masters::{Ask, CallError, First, Lane, Line};
use crate::minter::Entry;
use common::namespace::GeneratorName;
use common::setting::NAMESPACES_MAX;
use net::rpc::lease::{Changed, NAMESPACES_PAGE_MAX, NameState, Refusal as Said, Registered};
use serial_file::{KeptNames, StartKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The masters are asked for all names this often.
const REFRESH: Duration = Duration::from_secs(60);
/// After this long they are asked again if they did not answer, or not take back what they have forgotten, and after twice as long each
/// further time.
const SAY_AGAIN: Duration = Duration::from_secs(2);
/// Pages of names at most: all that there may be, and one.
const PAGES_MAX: usize = NAMESPACES_MAX / NAMESPACES_PAGE_MAX + 2;

impl Catalog {
    /// Takes in what was kept from a former run, if that was of the cluster in which this session goes on: a name outlives
    /// neither. It is not a source of truth: a name whose serials are in the serial file is only taken with the definition
    /// they were made by.
    pub async fn recall(&self) {
        let here = self.minter.grants().membership().cluster;
        let resumed = *self.minter.session().start() == StartKind::Resumed;
        match KeptNames::read(&self.serial_file) {
            Ok(Some(kept)) if resumed && here.is_some() && kept.cluster == here => {
                let retired = kept.names.iter().filter(|one| one.state == NameState::Retired);
                let retired: Vec<_> = retired.map(|one| (name_of(one), one.proof)).collect();
                if let Err(why) = self.learn(kept.names).await {
                    tracing::warn!(%why, "not all names that were kept are served yet; the masters are asked");
                }
                retired.iter().for_each(|(name, proof)| self.minter.names().show(name, *proof));
            }
            Ok(Some(_)) => tracing::info!("the names of a former session are not taken over; the masters are asked"),
            Ok(None) => {}
            Err(why) => tracing::warn!(%why, "the masters are asked for the names instead"),
        }
    }

    /// Asks the masters for all names now and then, and at once when a new connection shows that they know others, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut again = SAY_AGAIN;
        loop {
            let done = self.refresh().await;
            // Also if no master answers: what could not be written before is as true.
            self.keep().await;
            if let Err(why) = &done {
                tracing::debug!(%why, "the names could not be asked for");
            }
            let pause = if done == Ok(true) { REFRESH } else { again };
            again = if done == Ok(true) { SAY_AGAIN } else { (2 * again).min(REFRESH) };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.others_are_known() => again = SAY_AGAIN,
            }
        }
    }

    /// Waits until a new connection shows that the masters know other names than when they were asked.
    async fn others_are_known(&self) {
        while Some(self.masters.report.names().await) == *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
            && !self.learned.load(Ordering::Relaxed)
        {}
    }

    /// Fetches all names from one of the masters that answers, and shows it what it has forgotten. `true` if it took all of that.
    pub(super) async fn refresh(&self) -> Result<bool, String> {
        let ask = Ask::new(Lane::Lists, First::Turn(&self.turn));
        let done = self.masters.ask(ask, |line| async move { self.refresh_at(line).await.map(Some) });
        done.await.map_err(|none| none.why())
    }

    async fn refresh_at(&self, mut line: Line) -> Result<bool, CallError> {
        let names = line.introduction().await?.reply.names;
        let learned = self.learned.swap(false, Ordering::Relaxed);
        let (unused, used): (Vec<_>, Vec<_>) =
            all_names(&line).await?.into_iter().partition(|one| one.state == NameState::Unused);
        let listed = used.iter().map(name_of).collect();
        let all = self.learn_and_keep(used).await.is_ok();
        let still: BTreeSet<_> = unused.iter().map(name_of).collect();
        let gone = |known: &Entry| (known.is_unused() && !still.contains(known.name())).then(|| known.name().clone());
        self.minter.names().hear_unused(self.minter.names().all(gone), unused);
        let others = learned || *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != Some(names);
        let done = self.show_forgotten(&line, &listed, others).await? && all;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = done.then_some(names);
        Ok(done)
    }

    /// Asks about what is served here and not among the names in use that a master lists, if it knows `others` than the last time also
    /// about what is retired here, and shows it what it does not know so: both masters may have been put back. Masters that may have been
    /// register nothing new until those agents that can be heard have shown theirs ([`Said::Quiet`], 90 s). `true` if it took all of it.
    async fn show_forgotten(
        &self,
        line: &Line,
        listed: &BTreeSet<GeneratorName>,
        others: bool,
    ) -> Result<bool, CallError> {
        let missing = |known: &Entry| match known.kept_as()? {
            NameState::Retired if !others => None,
            NameState::InUse if listed.contains(known.name()) => None,
            _ => Some((known.name().clone(), known.kept()?)),
        };
        let mut forgotten: BTreeMap<_, _> = self.minter.names().all(missing).into_iter().collect();
        let unlisted: Vec<GeneratorName> = forgotten.keys().cloned().collect();
        let mut all = true;
        for page in unlisted.chunks(NAMESPACES_PAGE_MAX) {
            let mut found = self.completed(line.find_namespaces(page.to_vec()).await?);
            // Whoever knows that a name is retired knows no less than whoever says that it is in use.
            let later = |one: &Registered| match forgotten.get(one.namespace.name()).map(|known| known.state) {
                Some(NameState::Retired) => one.state == NameState::Retired,
                _ => one.state != NameState::Unused,
            };
            found.retain(later);
            forgotten.retain(|name, _| !found.iter().any(|one| one.namespace.name() == name));
            all &= self.learn_and_keep(found).await.is_ok();
        }
        for shown in forgotten.into_values() {
            let (name, retired) = (name_of(&shown), shown.state == NameState::Retired);
            match line.restore(shown.clone()).await {
                Ok(Changed::Done) => tracing::warn!(
                    %name, retired,
                    "the masters had forgotten this name, as they have if their stores were put back: they know it again"
                ),
                Ok(Changed::AlreadySo) => {}
                Err(CallError::Refused { refusal: why @ (Said::NameTaken | Said::Collides { .. }), .. })
                    if !retired =>
                {
                    tracing::error!(%name, %why, "the masters had forgotten this name and do not take it back: no more IDs by it");
                    let _ = self.minter.in_turn(move |minter| minter.contradicted(&shown)).await;
                    self.keep().await;
                }
                Err(CallError::Refused { refusal: why @ (Said::NameTaken | Said::NotShownRetired), .. }) => {
                    tracing::error!(%name, %why, "the masters had forgotten that this name is retired, and do not take it back");
                    self.minter.names().show(&name, None);
                    self.keep().await;
                }
                Err(refused @ CallError::Refused { .. }) => {
                    all = false;
                    tracing::debug!(%name, %refused, "a name that the masters have forgotten is not taken back yet");
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(all)
    }
}

async fn all_names(line: &Line) -> Result<Vec<Registered>, CallError> {
    let mut all = Vec::new();
    let mut after: Option<GeneratorName> = None;
    for _ in 0..PAGES_MAX {
        let page = line.namespaces_after(after).await?;
        let more = page.len() >= NAMESPACES_PAGE_MAX;
        after = page.last().map(name_of);
        all.extend(page);
        if !more {
            break;
        }
    }
    Ok(all)
}
