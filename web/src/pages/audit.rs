//! The audit.

use super::{Frame, PageContext, Parts, rows};
use crate::commands::{AuditFilter, AuditPart};
use crate::masters::AuditRow;
use crate::preferences::Choice;
use crate::problem::Problem;
use crate::query::{AUDIT_LINES, AUDIT_WATCHED_MAX, escaped};
use crate::text::{When, grouped};
use crate::words::Words;
use askama::Template;
use common::audit::Action;
use common::token::TokenType;
use serde::Deserialize;

/// The longest text to search for, in characters.
const TEXT_CHARS_MAX: usize = 64;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditViewQuery {
    #[serde(default)]
    before: Option<u64>,
    #[serde(default)]
    action: String,
    #[serde(default)]
    actor: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    by: String,
}

/// Kinds of doers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    /// People, and what is seldom.
    People,
    /// Masters and agents, by themselves.
    Machines,
    All,
}

impl By {
    const ALL: [(Self, &'static str); 3] = [(Self::People, "people"), (Self::Machines, "machines"), (Self::All, "all")];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(by, _)| *by == self).map_or("", |(_, name)| name)
    }
}

/// A filter of lines, and their page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AuditView {
    before: Option<u64>,
    action: Option<Action>,
    actor: String,
    about: String,
    by: By,
}

impl AuditView {
    /// The address of its newest lines.
    fn href(&self) -> String {
        let action = self.action.map(Action::code).unwrap_or_default();
        let (actor, about) = (escaped(&self.actor), escaped(&self.about));
        format!("/audit?by={}&action={action}&actor={actor}&about={about}", self.by.name())
    }
}

impl TryFrom<AuditViewQuery> for AuditView {
    type Error = Problem;
    fn try_from(query: AuditViewQuery) -> Result<Self, Problem> {
        let action =
            match query.action.as_str() {
                "" => None,
                code => Some(ACTIONS.into_iter().find(|action| action.code() == code).ok_or_else(|| {
                    Problem::bad_parameter("action: such as lease.grant; the page lists all of them")
                })?),
            };
        let (actor, about) = (query.actor.trim().to_owned(), query.about.trim().to_owned());
        if [&actor, &about].iter().any(|text| text.chars().count() > TEXT_CHARS_MAX) {
            return Err(Problem::bad_parameter(format!("actor, about: at most {TEXT_CHARS_MAX} characters")));
        }
        // Whoever looks for something finds it, whoever did it.
        let looks = action.is_some() || !actor.is_empty() || !about.is_empty();
        let by = match query.by.as_str() {
            "" if looks => By::All,
            "" => By::People,
            name => By::ALL
                .into_iter()
                .find_map(|(by, known)| (known == name).then_some(by))
                .ok_or_else(|| Problem::bad_parameter("by: people, machines or all"))?,
        };
        Ok(Self { before: query.before, action, actor, about, by })
    }
}

/// All that the audit may say.
const ACTIONS: [Action; 34] = [
    Action::Grant,
    Action::Renew,
    Action::Terminate,
    Action::Deny,
    Action::End,
    Action::Define,
    Action::About,
    Action::Retire,
    Action::Whitelist,
    Action::User,
    Action::Key,
    Action::LogIn,
    Action::EndLogin,
    Action::LockOut,
    Action::Invite,
    Action::Withdraw,
    Action::Certify,
    Action::Revoke,
    Action::Refuse,
    Action::Extend,
    Action::Raise,
    Action::Dismiss,
    Action::PeerLost,
    Action::Join,
    Action::RolledBack,
    Action::Vouch,
    Action::Reverted,
    Action::AfterRevert,
    Action::ForgetClock,
    Action::MoveSection,
    Action::RaiseSection,
    Action::Drain,
    Action::Export,
    Action::Import,
];

fn action_name(action: Action, w: &'static Words) -> &'static str {
    match action {
        Action::Grant => w.act_grant,
        Action::Deny => w.act_deny,
        Action::Terminate => w.act_terminate,
        Action::End => w.act_end,
        Action::Renew => w.act_renew,
        Action::Define => w.act_define,
        Action::Retire => w.act_retire,
        Action::About => w.act_about,
        Action::Extend => w.act_extend,
        Action::Raise => w.act_raise,
        Action::Dismiss => w.act_dismiss,
        Action::Whitelist => w.act_whitelist,
        Action::PeerLost => w.act_peer_lost,
        Action::Join => w.act_join,
        Action::RolledBack => w.act_rolled_back,
        Action::LogIn => w.act_login,
        Action::EndLogin => w.act_end_login,
        Action::LockOut => w.act_lockout,
        Action::Invite => w.act_invite,
        Action::Withdraw => w.act_withdraw,
        Action::Certify => w.act_certify,
        Action::Revoke => w.act_revoke,
        Action::Refuse => w.act_refuse,
        Action::User => w.act_user,
        Action::Key => w.act_key,
        Action::Vouch => w.act_vouch,
        Action::Reverted => w.act_reverted,
        Action::AfterRevert => w.act_after_revert,
        Action::ForgetClock => w.act_forget_clock,
        Action::MoveSection => w.act_move_section,
        Action::RaiseSection => w.act_raise_section,
        Action::Drain => w.act_drain,
        Action::Export => w.act_export,
        Action::Import => w.act_import,
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Page<'a> {
    frame: Frame,
    parts: &'a Parts,
    actions: Vec<Choice>,
    bys: Vec<Choice>,
    actor: String,
    about: String,
    filtered: bool,
}

pub(super) fn page(frame: Frame, view: &AuditView, parts: &Parts) -> Result<String, askama::Error> {
    let w = frame.w;
    let actions = ACTIONS.map(|action| Choice {
        value: action.code(),
        name: action_name(action, w),
        chosen: view.action == Some(action),
    });
    let bys = By::ALL.map(|(by, value)| {
        let name = match by {
            By::People => w.by_people,
            By::Machines => w.by_machines,
            By::All => w.by_all,
        };
        // Not chosen, it is all that is searched for.
        let value = if by == By::People { "" } else { value };
        Choice { value, name, chosen: view.by == by }
    });
    let (actor, about) = (view.actor.clone(), view.about.clone());
    let filtered = view.by != By::All || view.action.is_some() || !actor.is_empty() || !about.is_empty();
    Page { frame, parts, actions: actions.into(), bys: bys.into(), actor, about, filtered }.render()
}

pub(super) async fn parts(page: &PageContext<'_>, view: &AuditView, parts: &mut Parts) -> Result<(), Problem> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let filter = AuditFilter {
        actor: given(&view.actor),
        action: view.action.map(|action| action.code().to_owned()),
        about: given(&view.about),
        automatic: match view.by {
            By::People => Some(false),
            By::Machines => Some(true),
            By::All => None,
        },
    };
    let found = page.commands.find_in_audit(filter, view.before, AUDIT_LINES, AUDIT_WATCHED_MAX);
    let AuditPart { rows: lines, older } = rows(found).await?;
    let older = older.map(|number| format!("{}&before={number}", view.href()));
    let newest = view.before.map(|_| view.href());
    let none = if older.is_some() { page.w.audit_none_yet } else { page.w.audit_none };
    parts
        .add("lines", &Lines { w: page.w, none, lines: lines.into_iter().map(|row| Line::new(row, page)).collect() })?;
    parts.add("pager", &Older { w: page.w, older, newest })?;
    Ok(())
}

#[derive(Template)]
#[template(path = "audit_lines.html")]
struct Lines {
    w: &'static Words,
    none: &'static str,
    lines: Vec<Line>,
}

#[derive(Template)]
#[template(path = "audit_pager.html")]
struct Older {
    w: &'static Words,
    older: Option<String>,
    newest: Option<String>,
}

/// A line as it is shown here, in a history, or among what happened lately.
pub(super) struct Line {
    pub(super) number: String,
    pub(super) at: When,
    pub(super) ago: When,
    pub(super) who: String,
    pub(super) from: String,
    pub(super) code: &'static str,
    pub(super) action: &'static str,
    pub(super) tone: &'static str,
    pub(super) subject: String,
    /// The page of its subject.
    pub(super) href: Option<String>,
    pub(super) detail: String,
    /// The detail with long numbers cut short.
    pub(super) short: String,
    pub(super) shortened: bool,
}

impl Line {
    pub(super) fn new(row: AuditRow, page: &PageContext<'_>) -> Self {
        let tone = match row.action {
            Action::Grant | Action::Renew => "well",
            Action::Deny | Action::Terminate | Action::PeerLost | Action::RolledBack | Action::Reverted => "bad",
            Action::End | Action::LogIn => "rest",
            Action::Whitelist
            | Action::User
            | Action::Key
            | Action::EndLogin
            | Action::LockOut
            | Action::Invite
            | Action::Withdraw
            | Action::Certify
            | Action::Revoke
            | Action::Refuse
            | Action::Vouch
            | Action::Export
            | Action::Import => "warn",
            Action::Define
            | Action::About
            | Action::Extend
            | Action::Raise
            | Action::Dismiss
            | Action::Retire
            | Action::Join
            | Action::AfterRevert
            | Action::ForgetClock
            | Action::MoveSection
            | Action::RaiseSection
            | Action::Drain => "wait",
        };
        let short = shortened(&row.detail);
        Self {
            number: grouped(row.number),
            at: When::date(row.at),
            ago: page.when(row.at),
            who: row.who,
            from: row.from,
            code: row.action.code(),
            action: action_name(row.action, page.w),
            tone,
            href: href_of(row.action, &row.subject),
            subject: row.subject,
            shortened: short != row.detail,
            short,
            detail: row.detail,
        }
    }
}

/// A text with its sessions and hashes cut to their beginnings: nobody reads 32 digits.
fn shortened(text: &str) -> String {
    let cut = |word: &str| {
        let digits = word.trim_end_matches(',');
        let is_number = digits.len() >= 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let end = word.get(digits.len()..).unwrap_or_default();
        if is_number { format!("{}…{end}", digits.get(..8).unwrap_or_default()) } else { word.to_owned() }
    };
    text.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

/// The address of the page of a line's subject, if it has one.
fn href_of(action: Action, subject: &str) -> Option<String> {
    if !matches!(action, Action::Grant | Action::Deny | Action::Terminate | Action::End | Action::Renew) {
        return None;
    }
    let (token_type, token) = subject.split_once(' ')?;
    token_type.parse::<TokenType>().ok()?;
    super::token_key(token_type, token).ok().map(super::lease_href)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_cut_and_nothing_else() {
        let session = "0123456789abcdef0123456789abcdef";
        let text = format!("g1 of edge-01, session {session}, until 2026");
        assert_eq!(shortened(&text), "g1 of edge-01, session 01234567…, until 2026");
        for plain in ["", " ", "0123456789", "a b,", &"é".repeat(40)] {
            assert_eq!(shortened(plain), plain);
        }
    }
}
