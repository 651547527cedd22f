//! Logins as people see them: everybody the own ones, admins all.

use super::logins::ends;
use super::{Auth, Role, Who, proof};
use crate::problem::Problem;
use axum::http::StatusCode;
use common::account::{AccountName, Login, SecretHash, User};
use common::audit::{Action, Actor, Note};
use common::time::WallMs;
use std::collections::BTreeSet;

/// Digits of a login's hash by which it is named.
const ID_LEN: usize = 16;

/// A login at this master that somebody may see and end.
pub(crate) struct LoginSeen {
    hash: SecretHash,
    pub(crate) id: String,
    pub(crate) user: AccountName,
    pub(crate) began: WallMs,
    pub(crate) used: WallMs,
    pub(crate) ends: WallMs,
    pub(crate) own: bool,
    /// True for the login that the request itself comes by.
    pub(crate) current: bool,
}

impl LoginSeen {
    fn of(hash: SecretHash, login: &Login, who: &Who) -> Self {
        let mut id = hash.to_string();
        id.truncate(ID_LEN);
        let Login { user, began, used, .. } = login.clone();
        // Keys have no logins, and none has a user's name.
        let own = user.as_str() == who.name;
        let current = who.csrf.as_ref().is_some_and(|csrf| *csrf == login.csrf.to_string());
        Self { hash, id, user, began, used, ends: ends(login), own, current }
    }
}

impl Auth {
    /// The logins that somebody may see: the own ones first, then by name; of each person the newest first.
    pub(crate) fn logins_seen_by(&self, who: &Who, users: &[User]) -> Vec<LoginSeen> {
        // A user who was changed at the other master is logged in here no longer, though that is noticed at the next use.
        let proofs: BTreeSet<SecretHash> = users.iter().map(proof).collect();
        let logins = self.logins();
        let living = logins.living(self.now()).filter(|(_, login)| proofs.contains(&login.proof));
        let seen = living.map(|(hash, login)| LoginSeen::of(hash, login, who));
        let mut seen: Vec<_> = seen.filter(|seen| seen.own || who.role == Role::Admin).collect();
        seen.sort_by(|a, b| (!a.own, &a.user, b.began).cmp(&(!b.own, &b.user, a.began)));
        seen
    }

    /// Ends one of the logins that somebody may see.
    pub(crate) async fn end_login(&self, who: &Who, id: &str, by: Actor) -> Result<(), Problem> {
        let none = || Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no login of this id at this master");
        let users = self.accounts.users().await?;
        let seen = self.logins_seen_by(who, &users).into_iter().find(|seen| seen.id == id).ok_or_else(none)?;
        let over = self.logins().close(seen.hash).ok_or_else(none)?;
        // The end of an own one is a logout, of which the audit has no line either.
        let note = (!seen.own).then(|| Note::new(by, Action::EndLogin, seen.user.as_str()));
        self.accounts.keep(vec![over], note).await?;
        Ok(())
    }
}
