//! One-time codes beside the password: setting them up for oneself, and giving them up.

use super::accounts::{AccountRow, NamePath, changed, no_such_user, user_of};
use super::{ChangeErrors, From, ProblemBody, Sent, body, caller, optional_body, path, read_as};
use crate::auth::{Auth, Role, Who, totp};
use crate::problem::Problem;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use common::account::AccountName;
use common::setting::Change;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The second factor to be set up.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecondFactorForm {
    /// The secret that codes are made of: 20 bytes in base32.
    secret: String,
    /// A code of now, which shows that a device has the secret.
    code: String,
    /// The present password.
    current: String,
}

/// The proof of who gives up the own second factor.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordShown {
    /// The present password.
    current: String,
}

/// One-time codes (TOTP, RFC 6238) for one's own logins. All of one's logins end.
#[utoipa::path(
    put, path = "/api/users/{name}/second-factor", tag = "people", request_body = SecondFactorForm,
    params(("name" = String, Path, description = "Oneself, by a login")),
    responses(
        (status = 200, description = "Logins need a code from now on", body = AccountRow),
        (status = 403, description = "`forbidden`: for somebody else; `wrong_password` if `current` is not the present one", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "`locked_out`: too many wrong passwords", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["viewer"]))
)]
pub(crate) async fn set(
    State(auth): State<Arc<Auth>>,
    who: Who,
    from: From,
    named: NamePath,
    form: Sent,
) -> Result<Json<AccountRow>, Problem> {
    let name: AccountName = read_as("name", &path(named)?)?;
    if !who.is_user(&name) {
        let why = "one-time codes are set up by whoever has the device, logged in as that user";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why));
    }
    let caller = caller(who, Role::Viewer, from)?;
    let SecondFactorForm { secret, code, current } = body(form)?;
    let secret = totp::read(&secret).map_err(Problem::bad_parameter)?;
    auth.prove(name.as_str(), current, caller.address()).await?;
    if !totp::fits(secret, &code, auth.now()) {
        let why = "code: none of now; take the one that the device shows, and compare its clock with this master's";
        return Err(Problem::bad_parameter(why));
    }
    changed(&auth, &name, Change::SetTotp { name: name.clone(), secret: Some(secret) }, caller.actor()).await?;
    let user = user_of(&auth, &name).await?.ok_or_else(no_such_user)?;
    Ok(Json(AccountRow::of(&user)))
}

/// No one-time codes any more for a user's logins: one's own by the password, another's, whose device is lost, by an admin. All of
/// the user's logins end.
#[utoipa::path(
    delete, path = "/api/users/{name}/second-factor", tag = "people", request_body = Option<PasswordShown>,
    params(("name" = String, Path, description = "The user")),
    responses(
        (status = 204, description = "Logins need the password alone"),
        (status = 403, description = "`forbidden`; `wrong_password` if `current` is not the present one", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "`locked_out`: too many wrong passwords", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["viewer"]), ("key" = ["admin"]))
)]
pub(crate) async fn remove(
    State(auth): State<Arc<Auth>>,
    who: Who,
    from: From,
    named: NamePath,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Problem> {
    let name: AccountName = read_as("name", &path(named)?)?;
    let is_own = who.is_user(&name);
    let caller = caller(who, if is_own { Role::Viewer } else { Role::Admin }, from)?;
    let shown: Option<PasswordShown> = optional_body(body)?;
    user_of(&auth, &name).await?.ok_or_else(no_such_user)?;
    if is_own {
        auth.prove(name.as_str(), shown.map(|shown| shown.current).unwrap_or_default(), caller.address()).await?;
    }
    changed(&auth, &name, Change::SetTotp { name: name.clone(), secret: None }, caller.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}
