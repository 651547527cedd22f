//! Agents as the console shows them: their reports, joined with what the ledger says they hold.

use crate::ledger::Ledger;
use crate::registry::{FORGET, Present, REGISTRY_MAX};
use crate::store::audit::Line;
use common::parameters::{ClusterParameters, SessionId};
use common::time::WallMs;
use common::token::TokenKey;
use net::rpc::lease::{CallsServed, NameUse};
use std::collections::{BTreeMap, BTreeSet};
use web::{
    AgentRow, AgentState, CallsRow, CapacityRow, FlagRow, HeldRow, LeaseStage, NameUseRow, ReportRow, SettingsRow,
};

/// Rows at most: everybody who can be in the registry, and as many again who hold leases and do not report.
const ROWS_MAX: usize = 2 * REGISTRY_MAX;

/// Everybody in the registry, and those who hold a lease without reporting, at most [`ROWS_MAX`]; by name, then by session.
pub(crate) fn rows(ledger: &Ledger, now: WallMs, registry: Vec<Present>) -> Vec<AgentRow> {
    let agents = registry.len();
    let forgotten = registry.iter().filter(|it| it.silent >= FORGET).map(|it| it.report.session);
    let forgotten: BTreeSet<SessionId> = forgotten.collect();
    let mut rows: BTreeMap<SessionId, AgentRow> =
        registry.into_iter().map(|present| (present.report.session, row_of(present, agents))).collect();
    let parameters = ledger.identity().parameters;
    for (key, lease) in ledger.table().leases() {
        if LeaseStage::of(lease, now, &parameters) != Some(LeaseStage::Held) {
            continue;
        }
        if !rows.contains_key(&lease.session) && rows.len() >= ROWS_MAX {
            continue;
        }
        let row = rows.entry(lease.session).or_insert_with(|| AgentRow {
            agent_id: lease.agent_id.clone(),
            session: lease.session,
            state: AgentState::Lost,
            heard: None,
            master: None,
            address: lease.address.clone(),
            report: None,
            tokens: Vec::new(),
        });
        let (token_type, token, until) = (lease.token_type.name(), key.text(), lease.until);
        row.tokens.push(HeldRow { token_type, token, until });
    }
    // Who left as it was told to is shown for as long as what it left behind.
    let is_over = |row: &AgentRow| row.tokens.is_empty() && forgotten.contains(&row.session);
    let mut rows: Vec<AgentRow> = rows.into_values().filter(|row| !is_over(row)).collect();
    rows.sort_unstable_by(|a, b| (&a.agent_id, a.session).cmp(&(&b.agent_id, b.session)));
    rows
}

fn row_of(present: Present, agents: usize) -> AgentRow {
    let Present { report, address, via, heard_at, silent, rates } = present;
    let scarcest = report.scarcest.map(|it| CapacityRow {
        name: it.name.to_string(),
        kind: it.kind.name(),
        left: it.left,
        of: it.of,
    });
    AgentRow {
        agent_id: report.agent_id,
        session: report.session,
        state: if report.stops { AgentState::Stopped } else { AgentState::of(silent, agents) },
        heard: Some(heard_at),
        master: Some(via),
        address,
        report: Some(ReportRow {
            version: report.version,
            fresh_because: report.fresh_because,
            uptime_s: report.uptime_ms / 1_000,
            clock_offset_ms: report.clock_offset_ms,
            not_ready: report.not_ready,
            minted: report.minted,
            rates,
            scarcest,
            names: report.names.into_iter().map(name_row).collect(),
        }),
        tokens: Vec::new(),
    }
}

fn name_row(used: NameUse) -> NameUseRow {
    let NameUse { name, kind, per_second, calls } = used;
    let calls = calls.map(|CallsServed { served, failed, p99_us }| CallsRow { served, failed, p99_us });
    NameUseRow { name: name.to_string(), kind: kind.name(), per_second, calls }
}

/// Tells whether a line of the audit is about a token. A token of numbers may have been asked for as either of two types.
pub(crate) fn is_about(line: &Line, token: TokenKey) -> bool {
    let Some((token_type, text)) = line.entry.subject.split_once(' ') else { return false };
    let family = token_type.parse::<common::token::TokenType>().ok().map(common::token::TokenType::family);
    family == Some(token.family) && text == token.text()
}

/// The cluster's parameters, and the flags this master was started with.
pub(crate) fn settings(ledger: &Ledger, flags: Vec<FlagRow>) -> SettingsRow {
    let identity = ledger.identity();
    let parameters = identity.parameters;
    SettingsRow {
        master: identity.master,
        version: ledger.version().to_owned(),
        cluster: identity.cluster.map(|cluster| cluster.to_string()),
        pair_epoch: identity.pair_epoch,
        lease_days: parameters.lease_days(),
        grace_days: ClusterParameters::GRACE_DAYS,
        solo_days: ClusterParameters::SOLO_DAYS,
        budget: ClusterParameters::BUDGET,
        utc_offset: parameters.utc_offset().to_string(),
        uint2_max: parameters.uint2_max(),
        flags,
    }
}
