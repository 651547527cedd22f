//! The page, live: one poller for the whole process, which renders every watched view at most once a second and rests
//! while nobody watches.
//!
//! A watcher holds a seat and the receiving end of a channel that keeps only the newest state of its view, so a slow
//! browser costs a seat and never memory. What a browser is sent is the difference to what it was sent before.

use crate::ask;
use crate::auth::Auth;
use crate::masters::Masters;
use crate::pages::{self, Context, Parts, View};
use crate::problem::Problem;
use axum::response::sse::Event;
use futures::stream::{self, Stream};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// The most browsers that may watch at the same time. The others show the page as it was when they loaded it.
pub(crate) const WATCHERS_MAX: usize = 64;
/// The shortest time from one round of rendering to the next.
const ROUND: Duration = Duration::from_secs(1);

/// The watchers, and what they watch.
pub(crate) struct Live {
    masters: Arc<dyn Masters>,
    auth: Arc<Auth>,
    seats: Arc<Semaphore>,
    watched: Mutex<Watched>,
}

type Newest = Option<Arc<Parts>>;

#[derive(Default)]
struct Watched {
    /// True once no new watcher is taken.
    closed: bool,
    /// True while the poller runs.
    polling: bool,
    views: BTreeMap<View, watch::Sender<Newest>>,
}

impl Live {
    pub(crate) fn new(masters: Arc<dyn Masters>, auth: Arc<Auth>) -> Arc<Self> {
        Arc::new(Self { masters, auth, seats: Arc::new(Semaphore::new(WATCHERS_MAX)), watched: Mutex::default() })
    }

    /// Ends all event streams: whoever waits for open connections to finish would wait for ever otherwise.
    pub(crate) fn close(&self) {
        let mut watched = self.watched();
        watched.closed = true;
        watched.views.clear();
    }

    /// The events of a view, from its whole present state on.
    pub(crate) fn watch(
        self: &Arc<Self>,
        view: View,
    ) -> Result<impl Stream<Item = Result<Event, Infallible>> + use<>, Problem> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| {
            Problem::overloaded(format!("{WATCHERS_MAX} browsers watch this page already; it still shows the moment"))
        })?;
        let newest = self.subscribe(view)?;
        Ok(stream::unfold((newest, None::<Arc<Parts>>, seat), |(mut newest, mut sent, seat)| async move {
            loop {
                newest.changed().await.ok()?;
                let Some(parts) = newest.borrow_and_update().clone() else { continue };
                let event = event(&parts, sent.as_deref());
                sent = Some(parts);
                if let Some(event) = event {
                    return Some((Ok(event), (newest, sent, seat)));
                }
            }
        }))
    }

    fn subscribe(self: &Arc<Self>, view: View) -> Result<watch::Receiver<Newest>, Problem> {
        let mut watched = self.watched();
        if watched.closed {
            return Err(crate::masters::Unavailable::ShuttingDown.into());
        }
        let mut newest = watched.views.entry(view).or_insert_with(|| watch::Sender::new(None)).subscribe();
        // A view that others watch already has a state: it is news to this one.
        newest.mark_changed();
        if !watched.polling {
            watched.polling = true;
            tokio::spawn(Poller(Arc::clone(self)).run());
        }
        Ok(newest)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one task that renders for all. Whatever ends it, the next watcher starts another.
struct Poller(Arc<Live>);

impl Poller {
    async fn run(self) {
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            let views = {
                let mut watched = self.0.watched();
                watched.views.retain(|_, sender| sender.receiver_count() > 0);
                if watched.views.is_empty() {
                    watched.polling = false;
                    return;
                }
                watched.views.clone()
            };
            if let Err(problem) = self.round(views).await {
                tracing::debug!(?problem, "the console's live view skips a second");
            }
        }
    }

    async fn round(&self, views: BTreeMap<View, watch::Sender<Newest>>) -> Result<(), Problem> {
        let context = Context { masters: self.0.masters.as_ref(), commands: self.0.auth.commands() };
        let snapshot = ask::snapshot(context.masters).await?;
        for (view, sender) in views {
            let parts = pages::parts(&context, &view, &snapshot).await?;
            sender.send_if_modified(|newest| {
                let news = newest.as_deref() != Some(&parts);
                *newest = Some(Arc::new(parts));
                news
            });
        }
        Ok(())
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // Only after a panic is there anything left to do: without this nobody would ever poll again.
        let mut watched = self.0.watched();
        if std::thread::panicking() {
            watched.polling = false;
            watched.views.clear();
        }
    }
}

/// The parts that changed since `sent`, as a JSON object of part names and their HTML.
fn event(parts: &Parts, sent: Option<&Parts>) -> Option<Event> {
    let changed = parts.changed_since(sent);
    if changed.is_empty() {
        return None;
    }
    let changed = changed.into_iter().map(|(name, html)| (name.to_owned(), html.into())).collect();
    Some(Event::default().event("parts").data(serde_json::Value::Object(changed).to_string()))
}
