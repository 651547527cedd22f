//! The console's commands: decodes, queues and awaits; the ledger decides.

use crate::admin::{Admin, audit_row};
use crate::driver::Refused;
use crate::lease::{Event, Reply, RequestId};
use crate::ledger::Ledger;
use crate::section::rules::home;
use crate::sequences;
use crate::store::audit::Line;
use crate::store::{Audit, StoreError};
use common::audit::Actor;
use common::lease::Lease;
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::sequence::{SectionKey, SectionOrder, Slot};
use common::setting::Change;
use common::time::Now;
use common::token::TokenKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use net::rpc::lease::{Changed, Refusal};
use std::sync::Arc;
use web::{
    AuditCheck, AuditFilter, AuditPart, Commands, Drained, KeyRaised, LeaseRow, LeaseStage, SectionMoved, Unavailable,
};

impl<A: Audit> Admin<A> {
    async fn ordered(&self, key: TokenKey, event: impl FnOnce(RequestId) -> Event + Send + 'static) -> Ordered {
        let lease = match self.driver.ask(event).await.map_err(refusal)? {
            Reply::Commanded(lease) => lease?,
            other => return Err(unexpected(&other)),
        };
        let row = self.look(move |ledger, now| row(ledger, now, key, &lease)).await;
        row.map_err(|_| Refusal::ShuttingDown)
    }

    async fn begun(&self, event: impl FnOnce(RequestId) -> Event + Send + 'static) -> Result<(), Refusal> {
        match self.driver.ask(event).await.map_err(refusal)? {
            Reply::Ordered(begun) => begun,
            other => Err(unexpected(&other)),
        }
    }

    /// Reads the audit by `read`, on a thread that may wait for the disk.
    pub(crate) async fn read_audit(
        &self,
        read: impl FnOnce(A) -> Result<(Vec<Line>, Option<u64>), StoreError> + Send + 'static,
    ) -> Result<AuditPart, Unavailable> {
        let audit = self.audit.clone();
        let lines = tokio::task::spawn_blocking(move || read(audit)).await.map_err(|_| Unavailable::ShuttingDown)?;
        let (lines, older) = lines.map_err(|e| {
            tracing::error!("the audit cannot be read: {e}");
            Unavailable::Damaged
        })?;
        Ok(AuditPart { rows: lines.into_iter().map(audit_row).collect(), older })
    }
}

type Ordered = Result<LeaseRow, Refusal>;

impl<A: Audit> Commands for Admin<A> {
    fn lease(&self, key: TokenKey) -> BoxFuture<'_, Result<Option<LeaseRow>, Unavailable>> {
        self.look(move |ledger, now| {
            let lease = ledger.table().lease(key)?;
            LeaseStage::of(lease, now.wall, &ledger.identity().parameters)?;
            Some(row(ledger, now, key, lease))
        })
    }

    fn renew(&self, key: TokenKey, by: Actor) -> BoxFuture<'_, Ordered> {
        self.ordered(key, move |id| Event::Extend { id, key, actor: by }).boxed()
    }

    fn terminate(&self, key: TokenKey, by: Actor) -> BoxFuture<'_, Ordered> {
        self.ordered(key, move |id| Event::Deny { id, key, actor: by }).boxed()
    }

    fn change(&self, change: Change, by: Actor) -> BoxFuture<'_, Result<Changed, Refusal>> {
        async move {
            match self.driver.ask(move |id| Event::Change { id, change, actor: by }).await.map_err(refusal)? {
                Reply::Change(changed) => changed,
                other => Err(unexpected(&other)),
            }
        }
        .boxed()
    }

    fn would_change(&self, change: Change) -> BoxFuture<'_, Result<Changed, Refusal>> {
        let judged = self.look(move |ledger, now| ledger.would_change(now, &change));
        async move { judged.await.map_err(|_| Refusal::ShuttingDown)? }.boxed()
    }

    fn move_section(&self, key: SectionKey, to: AgentId, by: Actor) -> BoxFuture<'_, Result<SectionMoved, Refusal>> {
        async move {
            let (asked, order) = (key.clone(), SectionOrder::Move(to.clone()));
            self.begun(move |id| Event::Section { id, key: asked, order, actor: by }).await?;
            let home = home(&key.name).number();
            Ok(SectionMoved { name: key.name, section: key.section.0, to, home })
        }
        .boxed()
    }

    fn raise_key(
        &self,
        name: GeneratorName,
        slot: Slot,
        to: u64,
        by: Actor,
    ) -> BoxFuture<'_, Result<KeyRaised, Refusal>> {
        async move {
            let asked = name.clone();
            let place = self.look(move |ledger, _| ledger.section_of(&asked, slot)).await;
            let section = place.map_err(|_| Refusal::ShuttingDown)??;
            let (key, order) = (SectionKey { name: name.clone(), section }, SectionOrder::Raise(to));
            self.begun(move |id| Event::Section { id, key, order, actor: by }).await?;
            let home = home(&name).number();
            Ok(KeyRaised { name, section: section.0, to, home })
        }
        .boxed()
    }

    fn drain(&self, agent_id: AgentId, on: bool, by: Actor) -> BoxFuture<'_, Result<Drained, Refusal>> {
        async move {
            let asked = agent_id.clone();
            self.begun(move |id| Event::Drain { id, agent_id: asked, on, actor: by }).await?;
            let counted = agent_id.clone();
            let sections = self.look(move |ledger, _| sequences::count_of_agent(ledger, &counted)).await;
            let sections = sections.map_err(|_| Refusal::ShuttingDown)?;
            Ok(Drained { agent_id, draining: on, sections })
        }
        .boxed()
    }

    fn find_in_audit(
        &self,
        wanted: AuditFilter,
        before: Option<u64>,
        count: usize,
        among: usize,
    ) -> BoxFuture<'_, Result<AuditPart, Unavailable>> {
        self.read_audit(move |audit| {
            let admits = |line: &Line| {
                let entry = &line.entry;
                wanted.admits(entry.actor.who(), entry.action, &entry.subject)
            };
            audit.newest_of(before, among, count, admits)
        })
        .boxed()
    }

    fn verify_audit(&self) -> BoxFuture<'_, Result<AuditCheck, Unavailable>> {
        async move {
            // A million lines are read and hashed: for one asker at a time.
            let turn = Arc::clone(&self.verifying).try_lock_owned().map_err(|_| Unavailable::Overloaded)?;
            let audit = self.audit.clone();
            let walked = tokio::task::spawn_blocking(move || {
                let head = audit.head();
                let walked = head.clone().and_then(|head| audit.verify(head));
                drop(turn);
                (head.unwrap_or_default(), walked)
            });
            let (head, walked) = walked.await.map_err(|_| Unavailable::ShuttingDown)?;
            let (lines, problem) = match walked {
                Ok(lines) => (lines, None),
                Err(why) => (0, Some(why)),
            };
            let whole = problem.is_none();
            Ok(AuditCheck { whole, lines, last: head.number, hash: head.hash.to_string(), problem })
        }
        .boxed()
    }
}

fn row(ledger: &Ledger, now: Now, key: TokenKey, lease: &Lease) -> LeaseRow {
    let parameters = ledger.identity().parameters;
    let stage = LeaseStage::of(lease, now.wall, &parameters).unwrap_or(LeaseStage::Resting);
    LeaseRow::of_lease(key, lease, stage, &parameters)
}

fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::Overloaded => Refusal::Overloaded,
        Refused::Stopping => Refusal::ShuttingDown,
        Refused::NoRoom => Refusal::DiskFull,
    }
}

fn unexpected(reply: &Reply) -> Refusal {
    tracing::error!(?reply, "the ledger answered another question");
    Refusal::Retry
}
