//! The console's view of this master: reads the ledger between two steps, and decides nothing.

use crate::agents;
use crate::axes;
use crate::driver::{Counters, Driver, Refused};
use crate::invitations::Inviting;
use crate::ledger::Ledger;
use crate::metrics;
use crate::registry::AgentRegistry;
use crate::sequences::{self, Waiting};
use crate::store::Audit;
use crate::store::audit::Line;
use common::about::About;
use common::account::User;
use common::clock::{Clock, TestClock};
use common::lease::{Lease, Prep};
use common::namespace::{GeneratorName, Namespace};
use common::parameters::ClusterParameters;
use common::setting::{SettingKey, SettingValue, predefined};
use common::time::{Now, WallMs};
use common::token::{TokenKey, TokenType};
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use std::collections::BTreeSet;
use std::sync::Arc;
use web::{
    AgentRow, AllocatorRow, AuditRow, AxisRow, FlagRow, LeaseFields, LeaseFilter, LeasePage, LeaseRow, LeaseStage,
    MasterMode, MasterRow, Masters, NamespaceRow, NetworkRow, Page, PoolRow, SectionFilter, SectionPage, SectionRow,
    SequenceRow, SettingsRow, Unavailable, count_pools,
};

/// Lines of the audit that are searched for those about one token.
const HISTORY_SCAN_MAX: usize = 100_000;

/// The masters as this one sees them.
pub struct Admin<A> {
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) audit: A,
    /// Held by whoever has the audit walked.
    pub(crate) verifying: Arc<tokio::sync::Mutex<()>>,
    registry: AgentRegistry,
    flags: Vec<FlagRow>,
    /// A user who may log in as long as the ledger has no users.
    pub(crate) first_admin: Option<User>,
    /// `None`: this master issues no certificates.
    pub(crate) inviting: Option<Inviting>,
}

impl<A: Audit> Admin<A> {
    /// A view through this driver.
    pub fn new(driver: Driver, clock: Clock, counters: Arc<Counters>, audit: A) -> Self {
        let (first_admin, inviting, registry, flags, verifying) = Default::default();
        Self { driver, clock, counters, audit, verifying, first_admin, inviting, registry, flags }
    }

    /// Adds the registry of agents, and this master's flags; none of that may be secret.
    #[must_use]
    pub fn with_registry(self, registry: AgentRegistry, flags: Vec<FlagRow>) -> Self {
        Self { registry, flags, ..self }
    }

    /// Adds invitations, if this master issues certificates.
    #[must_use]
    pub fn with_invitations(self, inviting: Option<Inviting>) -> Self {
        Self { inviting, ..self }
    }

    /// Adds a user who may log in as long as the ledger has none.
    #[must_use]
    pub fn with_first_admin(self, first_admin: Option<User>) -> Self {
        Self { first_admin, ..self }
    }

    pub(crate) fn look<T: Send + 'static>(
        &self,
        view: impl FnOnce(&Ledger, Now) -> T + Send + 'static,
    ) -> BoxFuture<'_, Result<T, Unavailable>> {
        async move {
            let seen = self.driver.look(|ledger, clock| view(ledger, clock.link_now())).await;
            seen.map_err(|refused| match refused {
                Refused::Overloaded => Unavailable::Overloaded,
                Refused::Stopping => Unavailable::ShuttingDown,
                Refused::NoRoom => Unavailable::DiskFull,
            })
        }
        .boxed()
    }

    /// The same, with the sections whose next owners wait.
    fn look_at_sections<T: Send + 'static>(
        &self,
        view: impl FnOnce(&Ledger, Now, &Waiting) -> T + Send + 'static,
    ) -> BoxFuture<'_, Result<T, Unavailable>> {
        let counters = Arc::clone(&self.counters);
        self.look(move |ledger, now| {
            let waiting = counters.sections.waiting(now.boot, ledger.allocators().lease());
            view(ledger, now, &waiting)
        })
    }
}

/// A value that is not free.
enum InUse<'a> {
    Proposed(&'a Prep),
    Leased(&'a Lease, LeaseStage),
}

impl<'a> InUse<'a> {
    fn stage(&self) -> LeaseStage {
        match self {
            Self::Proposed(_) => LeaseStage::Granting,
            Self::Leased(_, stage) => *stage,
        }
    }

    fn fields(&self, key: TokenKey) -> LeaseFields<'a> {
        match self {
            Self::Proposed(prep) => LeaseFields::of_prep(prep),
            Self::Leased(lease, stage) => LeaseFields::of_lease(key, lease, *stage),
        }
    }

    fn row(&self, key: TokenKey, parameters: &ClusterParameters) -> LeaseRow {
        match self {
            Self::Proposed(prep) => LeaseRow::of_prep(prep, parameters),
            Self::Leased(lease, stage) => LeaseRow::of_lease(key, lease, *stage, parameters),
        }
    }
}

/// Everything that is not free, ascending: one entry a value, its proposal rather than its last lease.
fn in_use(ledger: &Ledger, now: WallMs) -> impl Iterator<Item = (TokenKey, InUse<'_>)> {
    let parameters = ledger.identity().parameters;
    let table = ledger.table();
    let mut proposed = table.preps().peekable();
    let mut leased = table
        .leases()
        .filter(move |(key, _)| table.prep(*key).is_none())
        .filter_map(move |(key, lease)| Some((key, lease, LeaseStage::of(lease, now, &parameters)?)))
        .peekable();
    std::iter::from_fn(move || {
        let next_is_leased = match (proposed.peek(), leased.peek()) {
            (Some(prep), Some((key, ..))) => prep.key > *key,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if next_is_leased {
            leased.next().map(|(key, lease, stage)| (key, InUse::Leased(lease, stage)))
        } else {
            proposed.next().map(|prep| (prep.key, InUse::Proposed(prep)))
        }
    })
}

fn page_of(ledger: &Ledger, now: WallMs, filter: &LeaseFilter, page: Page) -> LeasePage {
    let parameters = ledger.identity().parameters;
    let all = in_use(ledger, now).map(|(key, entry)| (entry.fields(key), entry));
    let matching = all.filter(|(fields, _)| filter.admits(fields));
    page.cut(matching, |key, entry| entry.row(key, &parameters))
}

fn both(ledger: &Ledger, now: Now) -> Vec<MasterRow> {
    let me = ledger.identity().master;
    let ahead_of = |master| ledger.calendar_ahead_of(master, now).map(|ahead| ahead.0);
    let this = MasterRow {
        id: me,
        this: true,
        mode: ledger.mode().into(),
        last_heartbeat: Some(now.wall),
        lsn: Some(ledger.lsn()),
        clock_skew_ms: Some(0),
        permit: ledger.observed().permit_in,
        version: Some(ledger.version().to_owned()),
        calendar_ahead_ms: ahead_of(me),
    };
    let peer = ledger.pair().peer();
    let heard = ledger.pair().heard(now);
    let other = MasterRow {
        id: me.other(),
        this: false,
        mode: peer.and_then(|peer| peer.mode).filter(|_| heard).map_or(MasterMode::Silent, MasterMode::Says),
        last_heartbeat: peer.map(|peer| peer.heard),
        lsn: peer.map(|peer| peer.lsn),
        clock_skew_ms: peer.map(|peer| peer.skew.0),
        permit: ledger.permit_out(),
        version: peer.map(|peer| peer.version.clone()),
        calendar_ahead_ms: ahead_of(me.other()),
    };
    let mut rows = vec![this, other];
    rows.sort_by_key(|row| row.id);
    rows
}

impl<A: Audit> Masters for Admin<A> {
    fn leases(&self, filter: LeaseFilter, page: Page) -> BoxFuture<'_, Result<LeasePage, Unavailable>> {
        self.look(move |ledger, now| page_of(ledger, now.wall, &filter, page))
    }

    fn masters(&self) -> BoxFuture<'_, Result<Vec<MasterRow>, Unavailable>> {
        self.look(both)
    }

    fn pools(&self) -> BoxFuture<'_, Result<Vec<PoolRow>, Unavailable>> {
        self.look(|ledger, now| {
            let taken = in_use(ledger, now.wall).map(|(key, entry)| (key, entry.stage()));
            count_pools(ledger.identity().parameters.uint2_max(), taken)
        })
    }

    fn audit(&self, before: Option<u64>, count: usize) -> BoxFuture<'_, Result<Vec<AuditRow>, Unavailable>> {
        let part = self.read_audit(move |audit| audit.newest(before, count));
        part.map_ok(|part| part.rows).boxed()
    }

    fn whitelist(&self) -> BoxFuture<'_, Result<Vec<NetworkRow>, Unavailable>> {
        self.look(|ledger, _| {
            let networks = ledger.settings_table().either_whitelist().into_iter();
            networks.map(|network| NetworkRow { network: network.to_string() }).collect()
        })
    }

    fn namespaces(&self) -> BoxFuture<'_, Result<Vec<NamespaceRow>, Unavailable>> {
        self.look(|ledger, now| {
            let leased = leased_types(ledger, now.wall);
            let row = |namespace: &Namespace, by: &str, value: Option<&SettingValue>| NamespaceRow {
                // An agent that serves it asks for one then.
                leased: namespace
                    .token_type()
                    .is_none_or(|token_type| token_type.is_on_demand() || leased.contains(&token_type)),
                about: noted(ledger, namespace.name()),
                ..namespace_row(namespace, by, value)
            };
            let registered = ledger
                .settings_table()
                .all()
                .filter_map(|setting| Some(row(setting.value.namespace()?, setting.actor.who(), Some(&setting.value))));
            predefined().map(|namespace| row(&namespace, "", None)).chain(registered).collect()
        })
    }

    fn axes(&self) -> BoxFuture<'_, Result<Vec<AxisRow>, Unavailable>> {
        self.look(axes::rows)
    }

    fn sections(
        &self,
        filter: SectionFilter,
        page: SectionPage,
    ) -> BoxFuture<'_, Result<Vec<SectionRow>, Unavailable>> {
        self.look_at_sections(move |ledger, now, waiting| sequences::sections(ledger, now, waiting, &filter, &page))
    }

    fn sequences(&self, set: Option<GeneratorName>) -> BoxFuture<'_, Result<Vec<SequenceRow>, Unavailable>> {
        self.look_at_sections(move |ledger, now, waiting| sequences::names(ledger, now, waiting, set.as_ref()))
    }

    fn allocators(&self) -> BoxFuture<'_, Result<Vec<AllocatorRow>, Unavailable>> {
        self.look(sequences::allocators)
    }

    fn agents(&self) -> BoxFuture<'_, Result<Vec<AgentRow>, Unavailable>> {
        let registry = self.registry.clone();
        self.look(move |ledger, now| agents::rows(ledger, now.wall, registry.all()))
    }

    fn settings(&self) -> BoxFuture<'_, Result<SettingsRow, Unavailable>> {
        let flags = self.flags.clone();
        self.look(move |ledger, _| agents::settings(ledger, flags))
    }

    fn history(&self, token: TokenKey, count: usize) -> BoxFuture<'_, Result<Vec<AuditRow>, Unavailable>> {
        let about = move |line: &Line| agents::is_about(line, token);
        let part = self.read_audit(move |audit| audit.newest_of(None, HISTORY_SCAN_MAX, count, about));
        part.map_ok(|part| part.rows).boxed()
    }

    fn readiness(&self) -> BoxFuture<'_, Result<(), String>> {
        async move {
            if self.driver.is_full() {
                return Err(Unavailable::DiskFull.to_string());
            }
            match self.look(|ledger, now| ledger.condition(now).why).await {
                Ok(None) => Ok(()),
                Ok(Some(why)) => Err(why),
                Err(e) => Err(e.to_string()),
            }
        }
        .boxed()
    }

    fn metrics(&self, named: bool) -> BoxFuture<'_, String> {
        async move {
            let pools = self.pools().await.unwrap_or_default();
            let seen = self.look(|ledger, now| {
                let ends = ledger.settings_table().keys().iter().filter_map(|key| key.until);
                metrics::Moment {
                    mode: ledger.mode(),
                    lsn: ledger.lsn(),
                    peer_up: ledger.pair().heard(now),
                    skew_ms: ledger.pair().peer().map(|peer| peer.skew.0),
                    next_key_end: ends.filter(|end| now.wall < *end).min(),
                }
            });
            let seen = seen.await.ok();
            let axes = if named { self.axes().await.unwrap_or_default() } else { Vec::new() };
            let sections = self
                .look_at_sections(|ledger, now, waiting| sequences::section_gauges(ledger, now, waiting.sections()));
            metrics::page(&self.counters, seen.as_ref(), &pools, axes, &sections.await.unwrap_or_default())
        }
        .boxed()
    }

    fn now(&self) -> WallMs {
        self.clock.wall()
    }

    fn test_clock(&self) -> Option<TestClock> {
        self.clock.test_clock()
    }
}

pub(crate) fn audit_row(line: Line) -> AuditRow {
    let Line { number, entry, .. } = line;
    let (who, from) = (entry.actor.who().to_owned(), entry.actor.from().to_owned());
    AuditRow { number, at: entry.at, who, from, action: entry.action, subject: entry.subject, detail: entry.detail }
}

fn namespace_row(namespace: &Namespace, registered_by: &str, value: Option<&SettingValue>) -> NamespaceRow {
    NamespaceRow {
        namespace: namespace.clone(),
        about: About::default(),
        capacity: namespace.capacity(),
        registered_by: registered_by.to_owned(),
        retired: value.is_some_and(SettingValue::is_retired),
        in_use: value.is_none_or(|value| value.used().is_some()),
        leased: false,
    }
}

fn noted(ledger: &Ledger, name: &GeneratorName) -> About {
    match ledger.settings_table().get(&SettingKey::About(name.clone())).map(|setting| &setting.value) {
        Some(SettingValue::About(about)) => (**about).clone(),
        _ => About::default(),
    }
}

/// The token types of which somebody holds a lease.
fn leased_types(ledger: &Ledger, now: WallMs) -> BTreeSet<TokenType> {
    let held = in_use(ledger, now).filter_map(|(_, entry)| match entry {
        InUse::Leased(lease, LeaseStage::Held) => Some(lease.token_type),
        _ => None,
    });
    held.collect()
}
