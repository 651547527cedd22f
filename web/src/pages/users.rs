//! Users, API keys, logins, invitations, and the own password.

use super::frame::role_name;
use super::{Context, Frame, Static, Visitor, rows, still_frame};
use crate::auth::{Auth, LoginSeen, PASSWORD_CHARS_MIN, PASSWORD_LEN_MAX, Role, totp};
use crate::invitations::{HOURS_MAX, NotInvited, OpenInvitation, USES_MAX};
use crate::masters::Unavailable;
use crate::problem::Problem;
use crate::text::When;
use crate::words::{Words, fill};
use askama::Template;
use common::account::{Person, User};
use common::api_key::{ApiKey, DAYS_MAX, KEEP_HOURS, KEEP_HOURS_MAX, KeyAction, KeyScope, PATTERNS_MAX};
use common::certificate::{Revocation, Role as Holder};
use common::quota::{IdQuota, LIMITS};
use common::time::{SpanMs, WallMs};
use net::enroll::Invited;
use qrcode::QrCode;
use qrcode::render::svg;

/// Time before a key's end from which on the list points it out.
const SOON: SpanMs = SpanMs::days(7);

#[derive(Template)]
#[template(path = "users.html")]
struct Page {
    frame: Frame,
    /// The viewer's own name; empty for API keys, which have no password.
    own: String,
    factor: Factor,
    users: Vec<Account>,
    keys: Vec<Key>,
    logins: Vec<LoginShown>,
    /// `None`: this master issues no certificates.
    invitations: Option<InvitationsShown>,
    revoked: Vec<RevokedShown>,
    roles: Vec<RoleShown>,
    actions: Vec<ActionShown>,
    names_hint: String,
    days_hint: String,
    days_max: u32,
    ids_max: u64,
    hours: u32,
    hours_max: u32,
    password_hint: String,
    password_min: usize,
    password_max: usize,
}

/// The viewer's own second factor.
enum Factor {
    /// An API key has none.
    None,
    /// Logins need a code.
    SetUp,
    /// They need none: a secret that was drawn for this page, and its QR code.
    Offered { secret: String, picture: String },
}

/// A user.
struct Account {
    name: String,
    role: &'static str,
    role_name: &'static str,
    own: bool,
    second_factor: bool,
}

/// A key.
struct Key {
    name: String,
    /// `None`: it is for agents.
    role: Option<&'static str>,
    opens: &'static str,
    /// The actions, the names and the quota at agents.
    agents: Option<(String, String, Option<String>)>,
    until: Option<When>,
    /// The tone and the text of what there is to say about its end.
    mark: Option<(&'static str, &'static str)>,
    /// The end of the key that it replaced, as long as that one goes on.
    former: Option<When>,
}

/// A login at this master.
struct LoginShown {
    id: String,
    user: String,
    own: bool,
    current: bool,
    began: When,
    used: When,
    ends: When,
}

/// The open invitations of this master, and the bounds of others.
struct InvitationsShown {
    open: Vec<InvitationShown>,
    /// The reason why they are not known; empty if they are.
    problem: String,
    at: String,
    /// The commands that take an invitation.
    agent: &'static str,
    client: &'static str,
    uses_max: u32,
    hours_max: u64,
}

struct InvitationShown {
    id: String,
    role: String,
    names: String,
    networks: String,
    uses: u32,
    until: When,
}

/// The revocation of a holder's certificates.
struct RevokedShown {
    role: &'static str,
    holder: String,
    before: When,
}

struct RoleShown {
    value: &'static str,
    name: &'static str,
    text: &'static str,
}

struct ActionShown {
    value: &'static str,
    text: &'static str,
}

pub(crate) async fn users(context: &Context<'_>, auth: &Auth, visitor: &Visitor) -> Result<String, Problem> {
    let frame = still_frame(context, visitor, Static::Users).await?;
    let w = frame.w;
    // Whom an identity provider let in has neither a password nor a second factor here.
    let own = match &visitor.who.person {
        Some(Person::User(name)) => name.to_string(),
        _ => String::new(),
    };
    let everybody = rows(auth.accounts().users()).await?;
    let factor = Factor::of(everybody.iter().find(|user| user.name.as_str() == own))?;
    let logins = auth.logins_seen_by(&visitor.who, &everybody).into_iter().map(LoginShown::of).collect();
    let (mut users, mut keys, mut invitations, mut revoked) = (Vec::new(), Vec::new(), None, Vec::new());
    if frame.admin {
        invitations = InvitationsShown::of(auth).await?;
        users = everybody.iter().map(|it| Account::of(it, &own, w)).collect();
        revoked = rows(auth.accounts().revoked()).await?.iter().filter_map(RevokedShown::of).collect();
        keys = rows(auth.accounts().keys()).await?.iter().map(|it| Key::of(it, auth.now(), w)).collect();
    }
    let page = Page {
        frame,
        own,
        factor,
        users,
        keys,
        logins,
        invitations,
        revoked,
        roles: roles(w),
        actions: actions(w),
        names_hint: fill(w.key_names_hint, &[&PATTERNS_MAX.to_string()]),
        days_hint: fill(w.key_days_hint, &[&DAYS_MAX.to_string()]),
        days_max: DAYS_MAX,
        ids_max: *LIMITS.end(),
        hours: KEEP_HOURS,
        hours_max: KEEP_HOURS_MAX,
        password_hint: fill(w.password_hint, &[&PASSWORD_CHARS_MIN.to_string()]),
        password_min: PASSWORD_CHARS_MIN,
        password_max: PASSWORD_LEN_MAX,
    };
    Ok(page.render()?)
}

impl RevokedShown {
    fn of(revocation: &Revocation) -> Option<Self> {
        let (role, holder) = match &revocation.role {
            Holder::Agent(name) => ("agent", name.to_string()),
            Holder::Client(name) => ("client", name.to_string()),
            // Masters are not revoked here.
            Holder::Master(_) => return None,
        };
        Some(Self { role, holder, before: When::date(revocation.before) })
    }
}

impl Account {
    fn of(user: &User, own: &str, w: &'static Words) -> Self {
        let (name, role) = (user.name.to_string(), user.role);
        let second_factor = user.totp.is_some();
        Self { own: name == own, name, role: role.name(), role_name: role_name(role, w), second_factor }
    }
}

impl Factor {
    fn of(own: Option<&User>) -> Result<Self, Problem> {
        match own {
            None => Ok(Self::None),
            Some(user) if user.totp.is_some() => Ok(Self::SetUp),
            Some(user) => {
                let secret = totp::draw();
                let code = QrCode::new(totp::uri(&user.name, secret)).map_err(|_| Unavailable::Overloaded)?;
                let drawn = code.render::<svg::Color<'_>>().build();
                // Inside a page it has no head of its own.
                let picture = drawn.find("<svg").and_then(|at| drawn.get(at..)).unwrap_or_default().to_owned();
                Ok(Self::Offered { secret: totp::in_base32(secret), picture })
            }
        }
    }
}

impl Key {
    fn of(key: &ApiKey, now: WallMs, w: &'static Words) -> Self {
        let (role, opens, agents) = match &key.scope {
            KeyScope::Console(role) => (Some(role.name()), role_name(*role, w), None),
            KeyScope::Agents(scope) => {
                let actions: Vec<_> = scope.actions.iter().map(|action| action.name()).collect();
                let names: Vec<_> = scope.names.iter().map(|name| name.as_str()).collect();
                let quota = scope.quota.map(|quota| quota_text(quota, w));
                (None, w.key_agents, Some((actions.join(", "), names.join(" "), quota)))
            }
        };
        let mark = key.until.and_then(|until| match until - now {
            left if left <= SpanMs(0) => Some(("bad", w.key_ended)),
            left if left <= SOON => Some(("warn", w.key_ends_soon)),
            _ => None,
        });
        let former = key.former.map(|former| former.until).filter(|until| now < *until);
        let (until, former) = (key.until.map(When::date), former.map(When::date));
        Self { name: key.name.to_string(), role, opens, agents, until, mark, former }
    }
}

impl LoginShown {
    fn of(seen: LoginSeen) -> Self {
        let LoginSeen { id, own, current, .. } = seen;
        let [began, used, ends] = [seen.began, seen.used, seen.ends].map(When::date);
        Self { id, user: seen.person.to_string(), own, current, began, used, ends }
    }
}

impl InvitationsShown {
    async fn of(auth: &Auth) -> Result<Option<Self>, Problem> {
        let at = match auth.accounts().invited_at() {
            Err(NotInvited::NoCa(_)) => return Ok(None),
            at => at?.to_owned(),
        };
        // The rest of the page is of use all the same.
        let (open, problem) = match auth.accounts().invitations().await {
            Err(NotInvited::Failed(why)) => (Vec::new(), why),
            open => (open?, String::new()),
        };
        let open = open.into_iter().map(InvitationShown::of).collect();
        let (agent, client) = (Invited::Agent.command(), Invited::Client.command());
        Ok(Some(Self { open, problem, at, agent, client, uses_max: USES_MAX, hours_max: HOURS_MAX }))
    }
}

impl InvitationShown {
    fn of(open: OpenInvitation) -> Self {
        let OpenInvitation { id, terms, ends } = open;
        let (names, networks) = (terms.names.join(" "), terms.networks_text());
        Self { id, role: terms.invited.to_string(), names, networks, uses: terms.uses, until: When::date(ends) }
    }
}

fn quota_text(quota: IdQuota, w: &'static Words) -> String {
    let limits = [(quota.per_second(), w.key_per_second_told), (quota.per_day(), w.key_per_day_told)];
    let told = limits.iter().filter_map(|(limit, text)| limit.map(|limit| fill(text, &[&limit.to_string()])));
    told.collect::<Vec<_>>().join(", ")
}

fn actions(w: &'static Words) -> Vec<ActionShown> {
    let text = |action| match action {
        KeyAction::Mint => w.action_mint,
        KeyAction::Define => w.action_define,
        KeyAction::Explain => w.action_explain,
        KeyAction::Status => w.action_status,
    };
    KeyAction::ALL.map(|action| ActionShown { value: action.name(), text: text(action) }).into()
}

fn roles(w: &'static Words) -> Vec<RoleShown> {
    let text = |role| match role {
        Role::Viewer => w.role_viewer_text,
        Role::Operator => w.role_operator_text,
        Role::Admin => w.role_admin_text,
    };
    Role::ALL.map(|role| RoleShown { value: role.name(), name: role_name(role, w), text: text(role) }).into()
}
