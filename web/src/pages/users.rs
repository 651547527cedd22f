//! Users, API keys, and the own password.

use super::frame::role_name;
use super::{Context, Frame, Static, Visitor, rows, still_frame};
use crate::auth::{Auth, PASSWORD_CHARS_MIN, PASSWORD_LEN_MAX, Role};
use crate::problem::Problem;
use crate::words::{Words, fill};
use askama::Template;

#[derive(Template)]
#[template(path = "users.html")]
struct Page {
    frame: Frame,
    /// The viewer's own name; empty for API keys, which have no password.
    own: String,
    users: Vec<Account>,
    keys: Vec<Account>,
    roles: Vec<RoleShown>,
    password_hint: String,
    password_min: usize,
    password_max: usize,
}

/// A user or a key.
struct Account {
    name: String,
    role: &'static str,
    role_name: &'static str,
    own: bool,
}

struct RoleShown {
    value: &'static str,
    name: &'static str,
    text: &'static str,
}

pub(crate) async fn users(context: &Context<'_>, auth: &Auth, visitor: &Visitor) -> Result<String, Problem> {
    let frame = still_frame(context, visitor, Static::Users).await?;
    let w = frame.w;
    let own = if visitor.who.csrf.is_some() { visitor.who.name.clone() } else { String::new() };
    let account =
        |name: String, role: Role| Account { own: name == own, name, role: role.name(), role_name: role_name(role, w) };
    let (mut users, mut keys) = (Vec::new(), Vec::new());
    if frame.admin {
        users =
            rows(auth.accounts().users()).await?.into_iter().map(|it| account(it.name.to_string(), it.role)).collect();
        keys =
            rows(auth.accounts().keys()).await?.into_iter().map(|it| account(it.name.to_string(), it.role)).collect();
    }
    let password_hint = fill(w.password_hint, &[&PASSWORD_CHARS_MIN.to_string()]);
    let (password_min, password_max) = (PASSWORD_CHARS_MIN, PASSWORD_LEN_MAX);
    Ok(Page { frame, own, users, keys, roles: roles(w), password_hint, password_min, password_max }.render()?)
}

fn roles(w: &'static Words) -> Vec<RoleShown> {
    let text = |role| match role {
        Role::Viewer => w.role_viewer_text,
        Role::Operator => w.role_operator_text,
        Role::Admin => w.role_admin_text,
    };
    Role::ALL.map(|role| RoleShown { value: role.name(), name: role_name(role, w), text: text(role) }).into()
}
