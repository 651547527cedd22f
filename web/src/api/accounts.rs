//! Users, their passwords and roles, and API keys.

use super::{Admin, ChangeErrors, From, ProblemBody, Sent, body, caller, path, read_as};
use crate::auth::{Auth, Role, Who, acceptable, new_key};
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use common::account::{AccountName, SecretHash, User};
use common::api_key::{AgentScope, ApiKey, DAYS_MAX, FormerKey, KEEP_HOURS, KEEP_HOURS_MAX, KeyScope, PATTERNS_MAX};
use common::audit::Actor;
use common::quota::IdQuota;
use common::setting::Change;
use common::time::{HOUR_MS, SpanMs, WallMs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use utoipa::ToSchema;

pub(super) type NamePath = Result<Path<String>, PathRejection>;

/// Somebody with a role: a user, or an API key.
#[derive(Serialize, ToSchema)]
pub(crate) struct AccountRow {
    /// The name.
    name: String,
    /// The role: `viewer`, `operator`, `admin`.
    #[schema(value_type = String)]
    role: Role,
    /// True if its logins need a one-time code beside the password.
    second_factor: bool,
}

impl AccountRow {
    pub(super) fn of(user: &User) -> Self {
        Self { name: user.name.to_string(), role: user.role, second_factor: user.totp.is_some() }
    }
}

/// The user or key that asks.
#[derive(Serialize, ToSchema)]
pub(crate) struct MeRow {
    /// The user's name, `sso NAME` or `key NAME`.
    name: String,
    /// The role.
    #[schema(value_type = String)]
    role: Role,
    /// The token that a change by cookie needs in the header X-CSRF-Token; `null` for API keys, which need none.
    csrf: Option<String>,
}

/// An API key, without the key itself.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyRow {
    /// The name.
    name: String,
    /// The role at the masters' API; `null` for a key for agents.
    #[schema(value_type = Option<String>)]
    role: Option<Role>,
    /// The actions at agents: `mint`, `define`, `explain`, `status`; `null` for a key for masters.
    actions: Option<Vec<&'static str>>,
    /// The names that it may mint by or define: a name, or the beginning of names with `*` behind it; `null` for a key for masters.
    names: Option<Vec<String>>,
    /// The most IDs that it gives at each agent in a second; `null`: as many as there are.
    per_second: Option<u64>,
    /// The same in 24 hours.
    per_day: Option<u64>,
    /// The instant from which on it opens nothing; `null`: none.
    until: Option<String>,
    /// The instant until which the key that it replaced opens the same; `null`: none.
    former_until: Option<String>,
}

impl KeyRow {
    fn of(key: &ApiKey) -> Self {
        let agents = key.agents();
        let quota = agents.and_then(|scope| scope.quota);
        Self {
            name: key.name.to_string(),
            role: key.role(),
            actions: agents.map(|scope| scope.actions.iter().map(|action| action.name()).collect()),
            names: agents.map(|scope| scope.names.iter().map(ToString::to_string).collect()),
            per_second: quota.and_then(IdQuota::per_second),
            per_day: quota.and_then(IdQuota::per_day),
            until: key.until.map(|until| until.to_string()),
            former_until: key.former.map(|former| former.until.to_string()),
        }
    }
}

/// A new API key.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewKey {
    #[serde(flatten)]
    made: KeyRow,
    /// The key. It is shown this once and kept nowhere.
    key: String,
}

/// A user to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserForm {
    /// 1..=32 of a-z 0-9 . _ -, beginning with a letter or a digit.
    name: String,
    /// The password: at least 10 characters, at most 256 bytes.
    password: String,
    /// `viewer`, `operator` or `admin`.
    role: String,
}

/// A key to be made: with a role for masters, or with actions and names for agents.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyForm {
    /// 1..=32 of a-z 0-9 . _ -, beginning with a letter or a digit.
    name: String,
    /// `viewer`, `operator` or `admin`.
    role: Option<String>,
    /// `mint`, `define`, `explain`, `status`.
    actions: Option<Vec<String>>,
    /// 1..=8 of: a generator's name, the beginning of names with `*` behind it, or `*` for all. The kinds' own IDs are those of the name `default`.
    names: Option<Vec<String>>,
    /// The most IDs that it gives at each agent in a second, 1..=1000000000; as many as there are if it is left out.
    per_second: Option<u64>,
    /// The same in 24 hours.
    per_day: Option<u64>,
    /// Days after which it opens nothing, 1..=3650; without an end if it is left out.
    days: Option<u32>,
}

impl KeyForm {
    /// The calls that it opens.
    fn scope(&self) -> Result<KeyScope, Problem> {
        let quota = match (self.per_second, self.per_day) {
            (None, None) => None,
            (second, day) => Some(IdQuota::new(second, day).map_err(Problem::bad_parameter)?),
        };
        match (&self.role, &self.actions, &self.names) {
            (Some(_), None, None) if quota.is_some() => {
                Err(Problem::bad_parameter("per_second and per_day are for keys for agents: masters give no IDs"))
            }
            (Some(role), None, None) => Ok(KeyScope::Console(read_as("role", role)?)),
            (None, Some(actions), Some(names)) => {
                let actions: BTreeSet<_> = actions.iter().map(|it| read_as("actions", it)).collect::<Result<_, _>>()?;
                let names: BTreeSet<_> = names.iter().map(|it| read_as("names", it)).collect::<Result<_, _>>()?;
                if actions.is_empty() || !(1..=PATTERNS_MAX).contains(&names.len()) {
                    let why = format!("write at least one of actions, and 1 to {PATTERNS_MAX} of names");
                    return Err(Problem::bad_parameter(why));
                }
                Ok(KeyScope::Agents(AgentScope { actions, names, quota }))
            }
            _ => Err(Problem::bad_parameter(
                "write either a role, for a key for masters, or actions and names, for one for agents",
            )),
        }
    }
}

/// A key to be replaced.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotateForm {
    /// Hours for which the one before opens the same, 0..=720; 24 unless it is said.
    keep_hours: Option<u32>,
}

/// A new password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordForm {
    /// The password: at least 10 characters, at most 256 bytes.
    password: String,
    /// The present one; needed for one's own.
    current: Option<String>,
}

/// A new role.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleForm {
    /// `viewer`, `operator` or `admin`.
    role: String,
}

/// The user or key that asks.
#[utoipa::path(
    get, path = "/api/me", tag = "people",
    responses((status = 200, description = "You", body = MeRow)),
    security(("login" = ["viewer"]), ("key" = ["viewer"]))
)]
pub(crate) async fn me(who: Who) -> Json<MeRow> {
    let Who { name, role, csrf, .. } = who;
    Json(MeRow { name, role, csrf })
}

/// All users.
#[utoipa::path(
    get, path = "/api/users", tag = "people",
    responses((status = 200, description = "All users, by name", body = [AccountRow])),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn users(State(auth): State<Arc<Auth>>, _: Admin) -> Result<Json<Vec<AccountRow>>, Problem> {
    let users = auth.accounts().users().await?;
    Ok(Json(users.iter().map(AccountRow::of).collect()))
}

/// A new user.
#[utoipa::path(
    post, path = "/api/users", tag = "people", request_body = UserForm,
    responses(
        (status = 201, description = "Made: both masters hold it", body = AccountRow),
        (status = 409, description = "`name_taken`, `too_many`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn add_user(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    form: Sent,
) -> Result<(StatusCode, Json<AccountRow>), Problem> {
    let UserForm { name, password, role } = body(form)?;
    let name: AccountName = read_as("name", &name)?;
    let role = read_as("role", &role)?;
    acceptable(&password, name.as_str()).map_err(Problem::bad_parameter)?;
    if user_of(&auth, &name).await?.is_some() {
        return Err(taken("there is a user of this name"));
    }
    let phc = auth.hash(password).await?;
    let user = User { name, role, phc, totp: None };
    let made = AccountRow::of(&user);
    auth.commands().change(Change::AddUser(user), caller.actor()).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// A user's new password. All of the user's logins end.
#[utoipa::path(
    post, path = "/api/users/{name}/password", tag = "people", request_body = PasswordForm,
    params(("name" = String, Path, description = "The user. One's own is everybody's affair, another's an admin's")),
    responses(
        (status = 200, description = "Changed", body = AccountRow),
        (status = 403, description = "`forbidden`; `wrong_password` if `current` is not the present one", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "`locked_out`: too many wrong passwords", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["viewer"]), ("key" = ["admin"]))
)]
pub(crate) async fn set_password(
    State(auth): State<Arc<Auth>>,
    who: Who,
    from: From,
    named: NamePath,
    form: Sent,
) -> Result<Json<AccountRow>, Problem> {
    let name: AccountName = read_as("name", &path(named)?)?;
    let is_own = who.is_user(&name);
    let needed = if is_own { Role::Viewer } else { Role::Admin };
    let caller = caller(who, needed, from)?;
    let PasswordForm { password, current } = body(form)?;
    acceptable(&password, name.as_str()).map_err(Problem::bad_parameter)?;
    let user = user_of(&auth, &name).await?.ok_or_else(no_such_user)?;
    if is_own {
        auth.prove(name.as_str(), current.unwrap_or_default(), caller.address()).await?;
    }
    let phc = auth.hash(password).await?;
    changed(&auth, &name, Change::SetPassword { name: name.clone(), phc }, caller.actor()).await?;
    Ok(Json(AccountRow::of(&user)))
}

/// A user's new role. All of the user's logins end.
#[utoipa::path(
    post, path = "/api/users/{name}/role", tag = "people", request_body = RoleForm,
    params(("name" = String, Path, description = "The user")),
    responses(
        (status = 200, description = "Changed", body = AccountRow),
        (status = 404, description = "`not_found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`last_admin`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn set_role(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    named: NamePath,
    form: Sent,
) -> Result<Json<AccountRow>, Problem> {
    let name: AccountName = read_as("name", &path(named)?)?;
    let role = read_as("role", &body::<RoleForm>(form)?.role)?;
    changed(&auth, &name, Change::SetRole { name: name.clone(), role }, caller.actor()).await?;
    let user = user_of(&auth, &name).await?.ok_or_else(no_such_user)?;
    Ok(Json(AccountRow::of(&user)))
}

/// Removes a user. All of the user's logins end.
#[utoipa::path(
    delete, path = "/api/users/{name}", tag = "people",
    params(("name" = String, Path, description = "The user")),
    responses(
        (status = 204, description = "Gone"),
        (status = 404, description = "`not_found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`last_admin`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn remove_user(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    named: NamePath,
) -> Result<StatusCode, Problem> {
    let name: AccountName = read_as("name", &path(named)?)?;
    user_of(&auth, &name).await?.ok_or_else(no_such_user)?;
    changed(&auth, &name, Change::RemoveUser(name.clone()), caller.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All API keys, without the keys themselves, which nobody has.
#[utoipa::path(
    get, path = "/api/keys", tag = "people",
    responses((status = 200, description = "All keys, by name", body = [KeyRow])),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn keys(State(auth): State<Arc<Auth>>, _: Admin) -> Result<Json<Vec<KeyRow>>, Problem> {
    let keys = auth.accounts().keys().await?;
    Ok(Json(keys.iter().map(KeyRow::of).collect()))
}

/// A new API key: with a `role` for the masters' API, or with `actions` and `names` for agents.
#[utoipa::path(
    post, path = "/api/keys", tag = "people", request_body = KeyForm,
    responses(
        (status = 201, description = "Made: both masters hold its hash, and agents hear of it within some 20 seconds. The key is shown this once", body = NewKey),
        (status = 409, description = "`name_taken`, `too_many`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn add_key(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    form: Sent,
) -> Result<(StatusCode, Json<NewKey>), Problem> {
    let form: KeyForm = body(form)?;
    let name: AccountName = read_as("name", &form.name)?;
    let key = new_key();
    let until = form.days.map(|days| days_from(auth.now(), days)).transpose()?;
    let made = ApiKey { until, ..ApiKey::new(name, form.scope()?, SecretHash::of(key.as_bytes())) };
    auth.commands().change(Change::AddKey(made.clone()), caller.actor()).await.map_err(|refusal| match refusal {
        net::rpc::lease::Refusal::NameTaken => taken("there is a key of this name"),
        other => other.into(),
    })?;
    Ok((StatusCode::CREATED, Json(NewKey { made: KeyRow::of(&made), key })))
}

/// Replaces a key by another one that opens the same. The one before goes on for a while, so that nothing that uses it fails meanwhile.
#[utoipa::path(
    post, path = "/api/keys/{name}/rotate", tag = "people", request_body = RotateForm,
    params(("name" = String, Path, description = "The key's name")),
    responses(
        (status = 200, description = "Replaced. The new key is shown this once", body = NewKey),
        (status = 404, description = "`not_found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`name_taken`: somebody else replaced it at the same time", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn rotate_key(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    named: NamePath,
    form: Sent,
) -> Result<Json<NewKey>, Problem> {
    let name: AccountName = read_as("name", &path(named)?)?;
    let RotateForm { keep_hours } = body(form)?;
    let hours = keep_hours.unwrap_or(KEEP_HOURS);
    if hours > KEEP_HOURS_MAX {
        return Err(Problem::bad_parameter(format!("keep_hours: at most {KEEP_HOURS_MAX}")));
    }
    let now = auth.now();
    let former_until = now + SpanMs(i64::from(hours) * HOUR_MS);
    let before = key_of(&auth, &name).await?;
    if before.until.is_some_and(|until| until <= now) {
        return Err(Problem::bad_parameter("this key has ended: remove it, and make another one"));
    }
    let key = new_key();
    let hash = SecretHash::of(key.as_bytes());
    let former = before.hash;
    let change = Change::RotateKey { name, former, hash, former_until };
    auth.commands().change(change, caller.actor()).await.map_err(|refusal| match refusal {
        net::rpc::lease::Refusal::NameTaken => taken("somebody else has replaced this key meanwhile: look at it again"),
        other => other.into(),
    })?;
    let former = Some(FormerKey { hash: former, until: former_until });
    Ok(Json(NewKey { made: KeyRow::of(&ApiKey { hash, former, ..before }), key }))
}

/// Removes a key.
#[utoipa::path(
    delete, path = "/api/keys/{name}", tag = "people",
    params(("name" = String, Path, description = "The key's name")),
    responses(
        (status = 204, description = "Gone: it opens nothing at masters, and within some 20 seconds nothing at agents that reach one"),
        (status = 404, description = "`not_found`", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn remove_key(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    named: NamePath,
) -> Result<StatusCode, Problem> {
    let name: AccountName = read_as("name", &path(named)?)?;
    key_of(&auth, &name).await?;
    auth.commands().change(Change::RemoveKey(name), caller.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn key_of(auth: &Auth, name: &AccountName) -> Result<ApiKey, Problem> {
    let found = auth.accounts().keys().await?.into_iter().find(|key| key.name == *name);
    found.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no key of this name"))
}

/// The end of a key that is to open something for so many days.
fn days_from(now: WallMs, days: u32) -> Result<WallMs, Problem> {
    if !(1..=DAYS_MAX).contains(&days) {
        return Err(Problem::bad_parameter(format!("days: 1 to {DAYS_MAX}, or left out for a key without an end")));
    }
    Ok(now + SpanMs::days(days.into()))
}

/// Makes a change of a user, and ends the logins that it makes worthless.
pub(super) async fn changed(auth: &Auth, name: &AccountName, change: Change, by: Actor) -> Result<(), Problem> {
    auth.commands().change(change, by).await?;
    auth.end_logins_of(name).await?;
    Ok(())
}

pub(super) async fn user_of(auth: &Auth, name: &AccountName) -> Result<Option<User>, Problem> {
    Ok(auth.accounts().users().await?.into_iter().find(|user| user.name == *name))
}

pub(super) fn no_such_user() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no user of this name")
}

fn taken(why: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "name_taken", why)
}
