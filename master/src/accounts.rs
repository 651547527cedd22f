//! What the console's door sees of this master: users and keys of the ledger, and the logins in its store.

use crate::admin::Admin;
use common::account::{ApiKey, Login, SecretHash, User};
use common::audit::{Action, Actor};
use futures::future::BoxFuture;
use web::{Accounts, Unavailable};

impl Accounts for Admin {
    fn users(&self) -> BoxFuture<'_, Result<Vec<User>, Unavailable>> {
        Box::pin(std::future::ready(Ok(self.first_admin.iter().cloned().collect())))
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<ApiKey>, Unavailable>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn keep(
        &self,
        _: Vec<(SecretHash, Option<Login>)>,
        _: Option<(Actor, Action, String)>,
    ) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
