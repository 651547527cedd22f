//! Logins as people see them: everybody the own ones, admins all.

use super::logins::ends;
use super::sso::Sso;
use super::{Auth, Role, Who, proof};
use crate::problem::Problem;
use axum::http::StatusCode;
use common::account::{Login, Person, SecretHash, User};
use common::audit::{Action, Actor, Note};
use common::time::WallMs;
use std::collections::BTreeSet;

/// Digits of a login's hash by which it is named.
const ID_LEN: usize = 16;

/// A login at this master that somebody may see and end.
pub(crate) struct LoginSeen {
    hash: SecretHash,
    pub(crate) id: String,
    pub(crate) person: Person,
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
        let Login { person, began, used, .. } = login.clone();
        let own = who.person.as_ref().is_some_and(|who| who.is(&person));
        let current = who.csrf.as_ref().is_some_and(|csrf| *csrf == login.csrf.to_string());
        Self { hash, id, person, began, used, ends: ends(login), own, current }
    }
}

impl Auth {
    /// The logins that somebody may see: the own ones first, then by name; of each person the newest first.
    pub(crate) fn logins_seen_by(&self, who: &Who, users: &[User]) -> Vec<LoginSeen> {
        // A user who was changed at the other master is logged in here no longer, though that is noticed at the next use.
        let proofs: BTreeSet<SecretHash> = users.iter().map(proof).chain(self.sso().map(Sso::proof)).collect();
        let logins = self.logins();
        let living = logins.living(self.now()).filter(|(_, login)| proofs.contains(&login.proof));
        let seen = living.map(|(hash, login)| LoginSeen::of(hash, login, who));
        let mut seen: Vec<_> = seen.filter(|seen| seen.own || who.role == Role::Admin).collect();
        seen.sort_by(|a, b| (!a.own, &a.person, b.began).cmp(&(!b.own, &b.person, a.began)));
        seen
    }

    /// Ends one of the logins that somebody may see.
    pub(crate) async fn end_login(&self, who: &Who, id: &str, by: Actor) -> Result<(), Problem> {
        let none = || Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no login of this id at this master");
        let users = self.accounts.users().await?;
        let seen = self.logins_seen_by(who, &users).into_iter().find(|seen| seen.id == id).ok_or_else(none)?;
        let over = self.logins().close(seen.hash).ok_or_else(none)?;
        // The end of an own one is a logout, of which the audit has no line either.
        let note = (!seen.own).then(|| Note::new(by, Action::EndLogin, seen.person.to_string()));
        self.accounts.keep(vec![over], note).await?;
        Ok(())
    }
}
