//! A cluster that exists only in memory, for the console's own tests and for its preview: the console is the thing
//! looked at here, so what stands behind the trait may be as simple as can be.
#![allow(dead_code, reason = "each user of this file takes what it needs")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "made-up rows, never input")]

pub(crate) mod ask;
pub(crate) mod sequences;

use common::about::{About, AboutSource};
use common::account::{Login, SecretHash, User};
use common::api_key::{ApiKey, KeyScope};
use common::audit::{Action, Actor, Note, RefusedAt};
use common::certificate::Revocation;
use common::clock::TestClock;
use common::namespace::{Definition, GeneratorName, Namespace, Scope, SegmentSpec, StringSpec, Uniq64Spec};
use common::parameters::{AgentId, MasterId, SessionId};
use common::sequence::{SectionKey, Slot};
use common::setting::{Change, Credentials, Outcome, SettingKey, SettingValue};
use common::time::{DAY_MS, HOUR_MS, WallMs};
use common::token::{TokenKey, TokenType, TokenValue};
use futures::future::BoxFuture;
use net::enroll::{Invitation, InvitationRequest, Secret};
use net::rpc::lease::{Changed, Mode, Refusal};
use sequences::Sequences;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use web::{
    Accounts, AgentRow, AgentState, AllocatorRow, AuditCheck, AuditFilter, AuditPart, AuditRow, Auth, AuthSettings,
    AxisRow, CallsRow, CapacityRow, Commands, Drained, ExtentRow, FlagRow, HeldRow, Invitations, KeyRaised,
    LeaseFields, LeaseFilter, LeasePage, LeaseRow, LeaseStage, MasterMode, MasterRow, Masters, NameUseRow,
    NamespaceRow, NetworkRow, NotInvited, OpenInvitation, Page, PoolRow, Refusals, ReportRow, Role, SectionFilter,
    SectionMoved, SectionPage, SectionRow, SequenceRow, SettingsRow, Unavailable,
};

/// 2026-11-20T13:05:06Z.
pub(crate) const NOW: WallMs = WallMs(1_795_179_906_000);

pub(crate) struct Sample {
    pub(crate) state: Mutex<State>,
    /// The number of times that the leases were asked for.
    pub(crate) asked: AtomicUsize,
}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) now: WallMs,
    pub(crate) leases: Vec<LeaseRow>,
    pub(crate) masters: Vec<MasterRow>,
    pub(crate) audit: Vec<AuditRow>,
    pub(crate) agents: Vec<AgentRow>,
    pub(crate) namespaces: Vec<NamespaceRow>,
    pub(crate) axes: Vec<AxisRow>,
    pub(crate) sequences: Sequences,
    pub(crate) ready: Result<(), String>,
    pub(crate) test_clock: Option<TestClock>,
    pub(crate) unavailable: Option<Unavailable>,
    /// True if every question ends in a panic.
    pub(crate) broken: bool,
}

impl Sample {
    pub(crate) fn new(leases: Vec<LeaseRow>) -> Self {
        let state = State {
            now: NOW,
            leases,
            masters: vec![master(MasterId::One, true), master(MasterId::Two, false)],
            audit: Vec::new(),
            agents: Vec::new(),
            namespaces: Vec::new(),
            axes: Vec::new(),
            sequences: Sequences::default(),
            ready: Ok(()),
            test_clock: None,
            unavailable: None,
            broken: false,
        };
        Self { state: Mutex::new(state), asked: AtomicUsize::new(0) }
    }

    pub(crate) fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.state.lock().unwrap());
    }

    /// The other master falls silent.
    pub(crate) fn lose_peer(state: &mut State) {
        state.masters[0].mode = Mode::ReadyAlone.into();
        state.masters[1].mode = MasterMode::Silent;
        state.ready = Err("the other master is silent, and a new lease needs both".to_owned());
    }

    fn answer<T: Send + 'static>(&self, how: impl FnOnce(&State) -> T) -> BoxFuture<'_, Result<T, Unavailable>> {
        let state = self.state.lock().unwrap().clone();
        assert!(!state.broken, "told to break");
        let answer = match state.unavailable {
            Some(why) => Err(why),
            None => Ok(how(&state)),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl Masters for Sample {
    fn leases(&self, filter: LeaseFilter, page: Page) -> BoxFuture<'_, Result<LeasePage, Unavailable>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer(|state| {
            let seen = state.leases.iter().map(|row| (LeaseFields::of_row(row), row));
            page.cut(seen.filter(|(seen, _)| filter.admits(seen)), |_, row| row.clone())
        })
    }

    fn masters(&self) -> BoxFuture<'_, Result<Vec<MasterRow>, Unavailable>> {
        self.answer(|state| state.masters.clone())
    }

    fn pools(&self) -> BoxFuture<'_, Result<Vec<PoolRow>, Unavailable>> {
        self.answer(|state| web::count_pools(4095, state.leases.iter().map(|row| (row.token, row.stage))))
    }

    fn audit(&self, before: Option<u64>, count: usize) -> BoxFuture<'_, Result<Vec<AuditRow>, Unavailable>> {
        self.answer(|state| {
            let wanted = state.audit.iter().rev().filter(|row| before.is_none_or(|before| row.number < before));
            wanted.take(count).cloned().collect()
        })
    }

    fn whitelist(&self) -> BoxFuture<'_, Result<Vec<NetworkRow>, Unavailable>> {
        self.answer(|_| vec![NetworkRow { network: "127.0.0.0/8".to_owned() }])
    }

    fn namespaces(&self) -> BoxFuture<'_, Result<Vec<NamespaceRow>, Unavailable>> {
        self.answer(|state| state.namespaces.clone())
    }

    fn axes(&self) -> BoxFuture<'_, Result<Vec<AxisRow>, Unavailable>> {
        self.answer(|state| state.axes.clone())
    }

    fn sections(
        &self,
        filter: SectionFilter,
        page: SectionPage,
    ) -> BoxFuture<'_, Result<Vec<SectionRow>, Unavailable>> {
        self.answer(|state| state.sequences.page(&filter, &page))
    }

    fn sequences(&self, set: Option<GeneratorName>) -> BoxFuture<'_, Result<Vec<SequenceRow>, Unavailable>> {
        let of_set = |row: &&SequenceRow| set.as_ref().is_none_or(|set| set.as_str() == row.set);
        self.answer(|state| state.sequences.names.iter().filter(of_set).cloned().collect())
    }

    fn allocators(&self) -> BoxFuture<'_, Result<Vec<AllocatorRow>, Unavailable>> {
        self.answer(|state| state.sequences.allocators.clone())
    }

    fn agents(&self) -> BoxFuture<'_, Result<Vec<AgentRow>, Unavailable>> {
        self.answer(|state| state.agents.clone())
    }

    fn settings(&self) -> BoxFuture<'_, Result<SettingsRow, Unavailable>> {
        self.answer(|_| SettingsRow {
            master: MasterId::One,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: Some("5ced".repeat(8)),
            pair_epoch: 1,
            lease_days: 7,
            grace_days: 1,
            solo_days: 30,
            budget: 4,
            utc_offset: "+00:00".to_owned(),
            uint2_max: 4095,
            flags: vec![FlagRow { flag: "--agent-listen", value: "127.0.0.1:7101".to_owned() }],
        })
    }

    fn history(&self, token: TokenKey, count: usize) -> BoxFuture<'_, Result<Vec<AuditRow>, Unavailable>> {
        self.answer(|state| {
            let end = format!(" {}", token.text());
            let about = state.audit.iter().rev().filter(|row| row.subject.ends_with(&end));
            about.take(count).cloned().collect()
        })
    }

    fn readiness(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(self.state.lock().unwrap().ready.clone()))
    }

    fn metrics(&self, named: bool) -> BoxFuture<'_, String> {
        let names = if named { "uniq_master_axis_free{name=\"orders\"} 1\n" } else { "" };
        Box::pin(std::future::ready(format!("# TYPE uniq_master_up gauge\nuniq_master_up 1\n{names}")))
    }

    fn now(&self) -> WallMs {
        self.state.lock().unwrap().now
    }

    fn test_clock(&self) -> Option<TestClock> {
        self.state.lock().unwrap().test_clock
    }
}

/// A key that may do everything in the sample.
pub(crate) const KEY: &str = "uniq_0000000000000000000000000000000000000000000000000000000000000000";

/// Users and keys that exist only in memory.
#[derive(Default)]
pub(crate) struct SampleAccounts {
    pub(crate) users: Mutex<Vec<User>>,
    pub(crate) credentials: Mutex<Credentials>,
    /// Leases that operators can do something about.
    pub(crate) leases: Mutex<Vec<LeaseRow>>,
    /// Every change that was asked for, in order.
    pub(crate) done: Mutex<Vec<String>>,
    /// The refusal of every change.
    pub(crate) refusal: Mutex<Option<Refusal>>,
    /// Lines of the audit.
    pub(crate) audit: Mutex<Vec<AuditRow>>,
    /// Logins that were made durable, in order.
    pub(crate) kept: Mutex<Vec<(SecretHash, Option<Login>)>>,
    /// Lines of the audit that came with them.
    pub(crate) noted: Mutex<Vec<String>>,
    pub(crate) refused: Mutex<Vec<String>>,
    pub(crate) invited_at: Mutex<&'static str>,
    pub(crate) invited: Mutex<Vec<(Invitation, OpenInvitation)>>,
    /// True if the walk through the audit never ends; `asked` counts those that were begun.
    pub(crate) endless: bool,
    pub(crate) asked: AtomicUsize,
}

impl SampleAccounts {
    /// With [`KEY`] as the key of an admin.
    pub(crate) fn with_key() -> Self {
        Self::with_key_of(Role::Admin)
    }

    /// With [`KEY`] as the key of somebody.
    pub(crate) fn with_key_of(role: Role) -> Self {
        let key = ApiKey::new("all".parse().unwrap(), KeyScope::Console(role), SecretHash::of(KEY.as_bytes()));
        let credentials = Credentials { keys: vec![key], revoked: Vec::new() };
        Self { credentials: Mutex::new(credentials), ..Self::default() }
    }

    fn ordered(
        &self,
        what: &str,
        key: TokenKey,
        by: Actor,
        how: impl FnOnce(&mut LeaseRow),
    ) -> BoxFuture<'_, Result<LeaseRow, Refusal>> {
        self.done.lock().unwrap().push(format!("{} {what} {key}", by.who()));
        let refusal = self.refusal.lock().unwrap().clone();
        let mut leases = self.leases.lock().unwrap();
        let answer = match (refusal, leases.iter_mut().find(|row| row.token == key)) {
            (Some(refusal), _) => Err(refusal),
            (None, None) => Err(Refusal::NoLease),
            (None, Some(row)) => {
                how(row);
                Ok(row.clone())
            }
        };
        Box::pin(std::future::ready(answer))
    }

    /// Its authentication.
    pub(crate) fn auth(self: Arc<Self>) -> Arc<Auth> {
        let settings = AuthSettings {
            cookie: "sample".to_owned(),
            tls: false,
            loopback: true,
            hosts: common::hosts::HostNames::default(),
            logins: Vec::new(),
            sso: None,
        };
        Auth::new(self, settings)
    }
}

impl Commands for SampleAccounts {
    fn lease(&self, key: TokenKey) -> BoxFuture<'_, Result<Option<LeaseRow>, Unavailable>> {
        let found = self.leases.lock().unwrap().iter().find(|row| row.token == key).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn renew(&self, key: TokenKey, by: Actor) -> BoxFuture<'_, Result<LeaseRow, Refusal>> {
        self.ordered("renew", key, by, |_| {})
    }

    fn terminate(&self, key: TokenKey, by: Actor) -> BoxFuture<'_, Result<LeaseRow, Refusal>> {
        self.ordered("terminate", key, by, |row| row.stage = LeaseStage::Ending)
    }

    fn change(&self, change: Change, by: Actor) -> BoxFuture<'_, Result<Changed, Refusal>> {
        self.done.lock().unwrap().push(format!("{} changes {}", by.who(), change.key()));
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Box::pin(std::future::ready(Err(refusal)));
        }
        if let Change::Raise { to, .. } = change {
            self.done.lock().unwrap().push(format!("raised to {to}"));
            return Box::pin(std::future::ready(Ok(Changed::Done)));
        }
        if let Change::Dismiss { below, .. } = change {
            self.done.lock().unwrap().push(format!("dismissed below {below}"));
            return Box::pin(std::future::ready(Ok(Changed::Done)));
        }
        let users = SettingValue::Users(self.users.lock().unwrap().clone());
        let credentials = SettingValue::Credentials(self.credentials.lock().unwrap().clone());
        let known = match change.key() {
            SettingKey::Users => Some(&users),
            SettingKey::Credentials => Some(&credentials),
            _ => None,
        };
        let answer = match change.outcome(known, &[]) {
            Outcome::AlreadySo => Ok(Changed::AlreadySo),
            Outcome::Taken => Err(Refusal::NameTaken),
            Outcome::TooMany => Err(Refusal::TooMany { max: 0 }),
            Outcome::NoSuch => Err(Refusal::NoSuchUser),
            Outcome::LastAdmin => Err(Refusal::LastAdmin),
            Outcome::Retired => Err(Refusal::NameRetired),
            Outcome::NoSuchName => Err(Refusal::NoSuchName),
            Outcome::AboutsFull => Err(Refusal::AboutsFull { max: 0 }),
            Outcome::NotRaised { granted, last } => Err(Refusal::NotRaised { granted, last }),
            Outcome::Collides { name, template, example } => Err(Refusal::Collides { name, template, example }),
            Outcome::Becomes(value) => {
                match value {
                    SettingValue::Users(users) => *self.users.lock().unwrap() = users,
                    SettingValue::Credentials(credentials) => *self.credentials.lock().unwrap() = credentials,
                    _ => {}
                }
                Ok(Changed::Done)
            }
        };
        Box::pin(std::future::ready(answer))
    }

    fn would_change(&self, _: Change) -> BoxFuture<'_, Result<Changed, Refusal>> {
        let refusal = self.refusal.lock().unwrap().clone();
        Box::pin(std::future::ready(refusal.map_or(Ok(Changed::Done), Err)))
    }

    fn move_section(&self, key: SectionKey, to: AgentId, by: Actor) -> BoxFuture<'_, Result<SectionMoved, Refusal>> {
        self.done.lock().unwrap().push(format!("{} moves {key} to {to}", by.who()));
        let refusal = self.refusal.lock().unwrap().clone();
        let moved = SectionMoved { name: key.name, section: key.section.0, to, home: 2 };
        Box::pin(std::future::ready(refusal.map_or(Ok(moved), Err)))
    }

    fn raise_key(
        &self,
        name: GeneratorName,
        slot: Slot,
        to: u64,
        by: Actor,
    ) -> BoxFuture<'_, Result<KeyRaised, Refusal>> {
        self.done.lock().unwrap().push(format!("{} raises {name}/{} to {to}", by.who(), slot.0));
        let refusal = self.refusal.lock().unwrap().clone();
        let raised = KeyRaised { name, section: 0, to, home: 2 };
        Box::pin(std::future::ready(refusal.map_or(Ok(raised), Err)))
    }

    fn drain(&self, agent_id: AgentId, on: bool, by: Actor) -> BoxFuture<'_, Result<Drained, Refusal>> {
        self.done.lock().unwrap().push(format!("{} drains {agent_id}: {on}", by.who()));
        let refusal = self.refusal.lock().unwrap().clone();
        let drained = Drained { agent_id, draining: on, sections: 7 };
        Box::pin(std::future::ready(refusal.map_or(Ok(drained), Err)))
    }

    fn find_in_audit(
        &self,
        wanted: AuditFilter,
        before: Option<u64>,
        count: usize,
        among: usize,
    ) -> BoxFuture<'_, Result<AuditPart, Unavailable>> {
        let audit = self.audit.lock().unwrap();
        let lines = audit.iter().rev().filter(|row| before.is_none_or(|before| row.number < before)).take(among);
        let mut found = AuditPart::default();
        for row in lines {
            if found.rows.len() >= count {
                break;
            }
            found.older = (row.number > 1).then_some(row.number);
            if wanted.admits(&row.who, row.action, &row.subject) {
                found.rows.push(row.clone());
            }
        }
        Box::pin(std::future::ready(Ok(found)))
    }

    fn verify_audit(&self) -> BoxFuture<'_, Result<AuditCheck, Unavailable>> {
        if self.endless {
            self.asked.fetch_add(1, Ordering::SeqCst);
            return Box::pin(std::future::pending());
        }
        let check = AuditCheck { whole: true, lines: 0, last: 0, hash: "0".repeat(64), problem: None };
        Box::pin(std::future::ready(Ok(check)))
    }
}

impl Accounts for SampleAccounts {
    fn users(&self) -> BoxFuture<'_, Result<Vec<User>, Unavailable>> {
        Box::pin(std::future::ready(Ok(self.users.lock().unwrap().clone())))
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<ApiKey>, Unavailable>> {
        Box::pin(std::future::ready(Ok(self.credentials.lock().unwrap().keys.clone())))
    }

    fn revoked(&self) -> BoxFuture<'_, Result<Vec<Revocation>, Unavailable>> {
        Box::pin(std::future::ready(Ok(self.credentials.lock().unwrap().revoked.clone())))
    }

    fn keep(
        &self,
        logins: Vec<(SecretHash, Option<Login>)>,
        note: Option<Note>,
    ) -> BoxFuture<'_, Result<(), Unavailable>> {
        let note = note.map(|note| format!("{} {} {}", note.actor.who(), note.action, note.subject));
        self.noted.lock().unwrap().extend(note);
        self.kept.lock().unwrap().extend(logins);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Refusals for SampleAccounts {
    fn refused(&self, at: RefusedAt, who: Actor, why: String) {
        self.refused.lock().unwrap().push(format!("{} at {}: {why}", who.who(), at.name()));
    }
}

impl Invitations for SampleAccounts {
    fn invited_at(&self) -> Result<&str, NotInvited> {
        Ok(*self.invited_at.lock().unwrap())
    }

    fn invitations(&self) -> BoxFuture<'_, Result<Vec<OpenInvitation>, NotInvited>> {
        let open = self.invited.lock().unwrap().iter().map(|(_, open)| open.clone()).collect();
        Box::pin(std::future::ready(Ok(open)))
    }

    fn invite(
        &self,
        request: InvitationRequest,
        by: Actor,
    ) -> BoxFuture<'_, Result<(Invitation, OpenInvitation), NotInvited>> {
        let InvitationRequest { terms, valid, at } = request;
        let at = at.unwrap_or_else(|| (*self.invited_at.lock().unwrap()).to_owned());
        let secret = Secret::Drawn([8; 32]);
        let invitation = Invitation { at, invited: terms.invited.clone(), ca: [7; 32], secret };
        let ends = WallMs(NOW.0 + i64::try_from(valid.as_millis()).unwrap());
        let open = OpenInvitation { id: "0123456789abcdef".to_owned(), terms, ends };
        self.noted.lock().unwrap().push(format!("{} invites {}", by.who(), open.terms.invited));
        self.invited.lock().unwrap().push((invitation.clone(), open.clone()));
        Box::pin(std::future::ready(Ok((invitation, open))))
    }

    fn withdraw(&self, id: String, by: Actor) -> BoxFuture<'_, Result<(), NotInvited>> {
        let mut invited = self.invited.lock().unwrap();
        let before = invited.len();
        invited.retain(|(_, open)| open.id != id);
        self.noted.lock().unwrap().push(format!("{} withdraws {id}", by.who()));
        let done = if invited.len() < before { Ok(()) } else { Err(NotInvited::NotFound) };
        Box::pin(std::future::ready(done))
    }
}

pub(crate) fn master(id: MasterId, this: bool) -> MasterRow {
    MasterRow {
        id,
        this,
        mode: Mode::Ready.into(),
        last_heartbeat: Some(NOW),
        lsn: Some(18_204),
        clock_skew_ms: Some(if this { 0 } else { -12 }),
        permit: None,
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        calendar_ahead_ms: None,
    }
}

/// A lease of `value`, granted two days and renewed half an hour ago.
pub(crate) fn lease(token_type: TokenType, value: u32, stage: LeaseStage, agent: &str) -> LeaseRow {
    let token = TokenKey { family: token_type.family(), value: TokenValue(value) };
    let until = match stage {
        LeaseStage::Granting | LeaseStage::Held => WallMs(NOW.0 + 7 * DAY_MS - HOUR_MS / 2),
        LeaseStage::Ending => WallMs(NOW.0 - 3 * HOUR_MS),
        LeaseStage::Resting => WallMs(NOW.0 - 25 * HOUR_MS),
    };
    LeaseRow {
        token_type,
        token,
        stage,
        agent_id: agent.parse().unwrap(),
        session: SessionId(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834_u128.wrapping_mul(u128::from(value) + 1)),
        address: format!("10.4.0.{}:{}", value % 250 + 1, 40_000 + value),
        g: u64::from(value % 7) + 1,
        from: WallMs(NOW.0 / DAY_MS * DAY_MS - 2 * DAY_MS),
        until,
        renewed: (stage != LeaseStage::Granting).then_some(WallMs(NOW.0 - HOUR_MS / 2)),
        reuse_at: WallMs((until.0 / DAY_MS + 2) * DAY_MS),
    }
}

/// A table of some size, as a cluster in the middle of its life has it.
pub(crate) fn many(count: u32) -> Vec<LeaseRow> {
    let stage = |n: u32| match n % 11 {
        0 => LeaseStage::Granting,
        4 => LeaseStage::Ending,
        7 | 8 => LeaseStage::Resting,
        _ => LeaseStage::Held,
    };
    let strings = count / 5;
    let text = if count > 1_000 { TokenType::String3IncludeLetter } else { TokenType::String2IncludeLetter };
    let mut rows: Vec<LeaseRow> =
        (0..strings).map(|n| lease(text, 37 + n * 3, stage(n + 3), &format!("edge-{:02}", n % 40 + 1))).collect();
    rows.extend(
        (0..count - strings).map(|n| lease(TokenType::Uint2, n * 2, stage(n), &format!("orders-{:02}", n % 60))),
    );
    rows.sort_by_key(|row| row.token);
    rows
}

/// An agent that reports these rates.
pub(crate) fn agent(name: &str, state: AgentState, rates: &[u32]) -> AgentRow {
    AgentRow {
        agent_id: name.parse().unwrap(),
        session: SessionId(
            name.bytes().fold(7, |sum: u128, byte| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) + u128::from(byte)),
        ),
        state,
        heard: Some(WallMs(NOW.0 - 2_000)),
        master: Some(MasterId::One),
        address: "10.4.0.7:40123".to_owned(),
        report: Some(ReportRow {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fresh_because: None,
            uptime_s: 86_400,
            clock_offset_ms: 3,
            not_ready: None,
            minted: 123_456_789,
            rates: rates.to_vec(),
            scarcest: Some(CapacityRow {
                name: "default".to_owned(),
                kind: "uniq64",
                left: 2_000_000_000,
                of: 1 << 31,
            }),
            names: vec![NameUseRow {
                name: "invoices".to_owned(),
                kind: "string",
                per_second: 1_200,
                calls: Some(CallsRow { served: 99_990, failed: 10, p99_us: 1_530 }),
            }],
        }),
        tokens: vec![HeldRow { token_type: "uint2", token: "5".to_owned(), until: WallMs(NOW.0 + DAY_MS) }],
    }
}

/// A line of the audit.
pub(crate) fn line(number: u64, action: Action, subject: &str) -> AuditRow {
    let detail = format!("g1 of edge-01, session {:032x}, until 2026-11-27T12:35:06.000Z", 7);
    let (who, from, subject) = ("jane".to_owned(), "10.0.0.1:5".to_owned(), subject.to_owned());
    AuditRow { number, at: WallMs(NOW.0 - HOUR_MS), who, from, action, subject, detail }
}

/// A registered namespace.
pub(crate) fn namespace(name: &str, template: Option<&str>) -> NamespaceRow {
    let (everyday_reset, step, scope) = (Some(true), Some(1_000), Some(Scope::Own));
    defined(
        name,
        &match template {
            Some(template) => {
                Definition::String(StringSpec { everyday_reset, step, scope, ..StringSpec::of(template) })
            }
            None => Definition::Uniq64(Uniq64Spec { everyday_reset, step, scope, ..Uniq64Spec::default() }),
        },
    )
}

/// A registered name that stands for this.
pub(crate) fn defined(name: &str, definition: &Definition) -> NamespaceRow {
    NamespaceRow {
        namespace: Namespace::define(name.parse().unwrap(), definition).unwrap(),
        about: About::default(),
        capacity: 100_000_000,
        registered_by: "jane".to_owned(),
        in_use: true,
        retired: false,
        leased: true,
    }
}

/// A registered name whose numbers come in segments.
pub(crate) fn segment(name: &str) -> NamespaceRow {
    defined(name, &Definition::Segment(SegmentSpec { step: Some(1_000), ..SegmentSpec::default() }))
}

/// Its axis: some of it is granted, and used.
pub(crate) fn axis(name: &str) -> AxisRow {
    AxisRow {
        name: name.parse().unwrap(),
        first: 1,
        last: i64::MAX as u64,
        increment: 1,
        offset: 0,
        floor: 1,
        granted: 128_001,
        free: i64::MAX as u64 - 128_000,
        last_extent: Some(ExtentRow { master: MasterId::Two, from: 64_001, to: 128_000 }),
        left: 36_000,
        per_day: 24_000,
        lasts_days: Some((i64::MAX as u64 - 92_000) / 24_000),
        other_holds: Some(true),
        shown: None,
        hours_at_least: None,
        retired: false,
    }
}

/// Notes about a name.
pub(crate) fn about(description: &str, application: &str, owner: &str, labels: &[(&str, &str)]) -> About {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let [description, application, owner] = [description, application, owner].map(str::to_owned);
    About::new(AboutSource { description, application, owner, labels }).unwrap()
}

/// Agents, namespaces and lines of the audit, as there are after a while.
pub(crate) fn furnish(state: &mut State) {
    let rates = |n: u32| (0..40).map(|at| n * 1_000 + at * 37 % 11 * 50).collect::<Vec<_>>();
    let named = [("edge-01", AgentState::Well), ("edge-02", AgentState::Late), ("orders-01", AgentState::Well)];
    state.agents = named.into_iter().zip(1..).map(|((name, how), n)| agent(name, how, &rates(n))).collect();
    state.namespaces =
        vec![namespace("default", None), namespace("invoices", Some("INV-{date:%Y%m%d}-{token}{serial:6}"))];
    state.namespaces[1].about =
        about("Numbers on invoices", "billing", "team-pay", &[("env", "prod"), ("region", "eu-west-1")]);
    state.audit = vec![line(1, Action::Grant, "uint2 6"), line(2, Action::Renew, "uint2 6")];
}
