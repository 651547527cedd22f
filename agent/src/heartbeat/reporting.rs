//! The reports on this agent for the masters' operators. Nothing depends on it.

use super::Task;
use crate::holder::Event;
use crate::minter::{GeneratorView, Minter, NameTotal};
use crate::years::{ending, signed_ending};
use common::kind::Kind;
use common::namespace::GeneratorName;
use common::time::{BootMs, DAY_MS, SpanMs};
use net::rpc::lease::{
    AgentReport, Capacity, NAMES_REPORTED_MAX, NameUse, REPORT_CHARS_MAX, REPORT_INTERVAL_MAX_MS, REPORT_INTERVAL_MS,
};
use serial_file::StartKind;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A layout that ends soon is warned about this often.
const END_WARNING: SpanMs = SpanMs(DAY_MS);

impl Task {
    /// Warns, once a day, of what will not fit into an ID any more.
    pub(super) fn warn_of_ends(&mut self) {
        let now = self.minter.time().now();
        let due = self.warned.is_none_or(|at| now.boot - at >= END_WARNING);
        let Some(parameters) = self.minter.grants().membership().parameters.filter(|_| due) else { return };
        self.warned = Some(now.boot);
        for end in ending(parameters.utc_offset(), now.wall) {
            let (kind, at) = (end.kind, end.at);
            tracing::warn!(%kind, %at, "this layout's last year ends then, and from then on there are no such IDs");
        }
        for (name, at) in self.minter.names().layouts_ending(parameters.utc_offset(), now.wall) {
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
        let held = self.held.as_ref()?;
        let at = held.at;
        match held.report(report).await {
            Ok(wait_ms) => Some(wait_ms),
            Err(error) => {
                tracing::debug!(%error, "a report was not taken in");
                if error.ends_connection() {
                    self.move_on(at);
                    self.report.set_master(None);
                    self.holder.handle(self.minter.time().now(), rand::random(), &Event::HeartbeatFailed);
                }
                None
            }
        }
    }

    /// Tells the master in use that this process ends as it was told to, so that nobody looks for it.
    pub(super) async fn take_leave(&mut self) {
        let report = AgentReport { stops: true, ..self.own_report().await };
        if let Some(held) = &self.held {
            let _ = held.report(report).await;
        }
    }

    async fn own_report(&mut self) -> AgentReport {
        let names = self.used.since(&self.minter);
        let minter = &self.minter;
        let uptime = minter.time().clock().link_now().boot - self.started;
        AgentReport {
            cluster: None,
            agent_id: self.masters.agent_id.clone(),
            session: minter.session().id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fresh_because: match minter.session().start() {
                StartKind::Resumed => None,
                StartKind::Fresh(reason) => Some(cut(&reason.to_string())),
            },
            uptime_ms: u64::try_from(uptime.0).unwrap_or(0),
            clock_offset_ms: minter.time().offset_ms(),
            alarm: minter.alarm().map(|text| cut(&text)),
            not_ready: minter.ready().err().map(|refusal| cut(&refusal.to_string())),
            stops: false,
            minted: minter.names().minted().map(|(_, n)| n).sum(),
            // A disk that does not answer must not silence the rest.
            scarcest: scarcest(&minter.view(None).await.unwrap_or_default()),
            names,
        }
    }
}

/// The totals of each name up to the last report.
#[derive(Debug, Default)]
pub(super) struct Used {
    at: Option<BootMs>,
    minted: BTreeMap<(Kind, GeneratorName), NameTotal>,
}

impl Used {
    /// The names that were used most since the last time, busiest first.
    fn since(&mut self, minter: &Minter) -> Vec<NameUse> {
        let now = minter.time().clock().link_now().boot;
        let stats = minter.extras().plugins().stats(minter.time().now().boot);
        let before = std::mem::replace(&mut self.minted, minter.names().minted_by_name(stats));
        let span = self.at.replace(now).map_or(0, |at| (now - at).0);
        let span = u64::try_from(span).unwrap_or(0).max(1);
        let used = |(key, total): (&(Kind, GeneratorName), &NameTotal)| {
            // Of a name that was not there at the last report nobody knows since when.
            let since = total.minted.saturating_sub(before.get(key)?.minted);
            let per_second = u32::try_from(u128::from(since) * 1_000 / u128::from(span)).unwrap_or(u32::MAX);
            let (kind, name) = (key.0, key.1.clone());
            let used = NameUse { name, kind, per_second, calls: total.calls };
            (since > 0 || total.calls.is_some()).then_some((since, used))
        };
        let mut all: Vec<_> = self.minted.iter().filter_map(used).collect();
        all.sort_by_key(|(since, _)| Reverse(*since));
        all.into_iter().take(NAMES_REPORTED_MAX).map(|(_, used)| used).collect()
    }
}

/// The generator with the smallest part left of its hour, day or other long tick. Short ticks come and go, and plain numbers lie on axes, which
/// the masters watch.
fn scarcest(views: &[GeneratorView]) -> Option<Capacity> {
    let part = |view: &&GeneratorView| {
        u128::from(view.capacity_left) * u128::from(u64::MAX) / u128::from(view.capacity.max(1))
    };
    let view = views.iter().filter(|view| view.has_serials).min_by_key(part)?;
    let kind = view.kind.parse().ok()?;
    Some(Capacity { name: view.name.clone(), kind, left: view.capacity_left, of: view.capacity })
}

fn cut(text: &str) -> String {
    text.chars().take(REPORT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minter::kit::Kit;

    #[tokio::test]
    async fn what_lasts_no_hour_or_day_is_never_the_scarcest() {
        let kit = Kit::new();
        let minter = kit.start();
        for (name, definition) in [
            ("orders", r#"{"kind":"segment"}"#),
            ("posts", r#"{"kind":"layout","layout":"snowflake"}"#),
            ("hours", r#"{"kind":"layout","layout":"hour53"}"#),
        ] {
            let definition = serde_json::from_str(definition).unwrap();
            minter.define(common::namespace::Namespace::define(name.parse().unwrap(), &definition).unwrap()).unwrap();
        }
        let mut views = minter.view(None).await.unwrap();
        for view in &mut views {
            if ["orders", "posts"].contains(&view.name.as_str()) {
                view.capacity_left = 0;
            }
        }
        assert!(views.iter().filter(|view| view.capacity_left == 0).count() >= 2, "{views:?}");
        assert_eq!(scarcest(&views).unwrap().name.as_str(), GeneratorName::DEFAULT);
        for view in views.iter_mut().filter(|view| view.name.as_str() == "hours") {
            view.capacity_left = 0;
        }
        assert_eq!(scarcest(&views).unwrap().name.as_str(), "hours");
    }
}
