//! What the masters' operators are told of this agent. Nothing depends on it.

use super::Task;
use crate::holder::Event;
use crate::minter::GeneratorView;
use crate::serial_file::StartKind;
use crate::years::{ending, signed_ending};
use common::rpc::lease::{AgentReport, Capacity, REPORT_CHARS_MAX, REPORT_INTERVAL_MAX_MS, REPORT_INTERVAL_MS};
use common::time::{DAY_MS, SpanMs};
use std::time::Duration;
use tokio::time::Instant;

/// A layout that ends soon is warned about this often.
const END_WARNING: SpanMs = SpanMs(DAY_MS);

impl Task {
    /// Warns, once a day, of what will not fit into an ID any more.
    pub(super) fn warn_of_ends(&mut self) {
        let now = self.minter.now();
        let due = self.warned.is_none_or(|at| now.boot - at >= END_WARNING);
        let Some(parameters) = self.minter.membership().parameters.filter(|_| due) else { return };
        self.warned = Some(now.boot);
        for end in ending(parameters.utc_offset(), now.wall) {
            let (kind, at) = (end.kind, end.at);
            tracing::warn!(%kind, %at, "this layout's last year ends then, and from then on there are no such IDs");
        }
        for (name, at) in self.minter.layouts_ending(now.wall) {
            tracing::warn!(
                %name, %at,
                "the layout of this name has no bits for times from then on: let applications take a name with a later epoch or \
                 more bits before"
            );
        }
        if let Some(at) = signed_ending(parameters.utc_offset(), now.wall) {
            tracing::warn!(
                %at,
                "from then on a uniq64 is larger than a signed BIGINT holds: keep it in an unsigned column, a \
                 NUMERIC(20) or as text (hex, base32), or use uniq96"
            );
        }
    }

    /// Tells the master in use how we fare. One that is gone is left at once: the next heartbeat goes to another.
    pub(super) async fn tell(&mut self) {
        let wait_ms = self.tell_once().await.unwrap_or(REPORT_INTERVAL_MS);
        let wait_ms = wait_ms.clamp(REPORT_INTERVAL_MS, REPORT_INTERVAL_MAX_MS);
        self.tell_at = Instant::now() + Duration::from_millis(wait_ms);
    }

    /// `None` if nobody took it in.
    async fn tell_once(&mut self) -> Option<u64> {
        let report = self.own_report().await;
        match self.link.as_ref()?.report(report).await {
            Ok(wait_ms) => Some(wait_ms),
            Err(error) => {
                tracing::debug!(%error, "a report was not taken in");
                if error.ends_connection() {
                    self.move_on();
                    self.report.set_master(None);
                    self.holder.handle(self.minter.now(), rand::random(), &Event::HeartbeatFailed);
                }
                None
            }
        }
    }

    async fn own_report(&self) -> AgentReport {
        let minter = &self.minter;
        let uptime = minter.clock().link_now().boot - self.started;
        AgentReport {
            cluster: None,
            agent_id: self.caller.agent_id.clone(),
            session: self.caller.session,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fresh_because: match minter.start() {
                StartKind::Resumed => None,
                StartKind::Fresh(reason) => Some(cut(&reason.to_string())),
            },
            uptime_ms: u64::try_from(uptime.0).unwrap_or(0),
            clock_offset_ms: minter.clock_offset_ms(),
            alarm: minter.alarm().map(|text| cut(&text)),
            not_ready: minter.ready().err().map(|refusal| cut(&refusal.to_string())),
            minted: minter.minted().map(|(_, n)| n).sum(),
            // A disk that does not answer must not silence the rest.
            scarcest: scarcest(&minter.view().await.unwrap_or_default()),
        }
    }
}

/// The generator with the smallest part left.
fn scarcest(views: &[GeneratorView]) -> Option<Capacity> {
    let part = |view: &&GeneratorView| {
        u128::from(view.capacity_left) * u128::from(u64::MAX) / u128::from(view.capacity.max(1))
    };
    let view = views.iter().min_by_key(part)?;
    let kind = view.kind.parse().ok()?;
    Some(Capacity { name: view.name.clone(), kind, left: view.capacity_left, of: view.capacity })
}

fn cut(text: &str) -> String {
    text.chars().take(REPORT_CHARS_MAX).collect()
}
