//! Authentication: who may come in, and what for.
//!
//! Everything but the login itself, its assets and what machines watch ([`guard`]) needs a [`Who`]: somebody with a login
//! at this master (a cookie), or a script with an API key. Whoever changes something by cookie must also show the login's
//! CSRF token, and whoever comes from another site's page is refused in any case.
//!
//! People and keys are settings that both masters confirm; a login is known to one master alone, and survives its restart.

pub(crate) mod guard;
mod lockout;
pub(crate) mod login;
mod logins;
mod passwords;
mod seen;
pub(crate) mod sso;
pub(crate) mod totp;

pub use common::account::Role;
pub use passwords::{PASSWORD_CHARS_MIN, PASSWORD_LEN_MAX, acceptable, hash, verify};
pub(crate) use seen::LoginSeen;
pub use sso::SsoSettings;

use crate::commands::Commands;
use crate::invitations::Invitations;
use crate::masters::Unavailable;
use crate::problem::Problem;
use axum::extract::{Extension, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use common::account::{AccountName, Login, Person, SecretHash, User};
use common::api_key::{ApiKey, KEY_BEGIN};
use common::audit::{Actor, Note, RefusedAt};
use common::certificate::Revocation;
use common::clock::Clock;
use common::hosts::HostNames;
use common::time::WallMs;
use futures::future::BoxFuture;
use lockout::Lockout;
use logins::Logins;
use passwords::Passwords;
use sso::Sso;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use totp::UsedCodes;

/// Somebody who was let in. Every handler behind the guard can take it from the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The user's name, `sso NAME` or `key NAME`.
    pub name: String,
    /// The person; `None` for API keys.
    pub person: Option<Person>,
    /// The role.
    pub role: Role,
    /// The token that its pages must show to change anything; `None` for API keys.
    pub csrf: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Response;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        parts.extensions.get().cloned().ok_or_else(|| Problem::login_required().into_response())
    }
}

/// The address that a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source(pub(crate) IpAddr);

impl Source {
    /// The address; without a connection there is nobody but a test.
    pub(crate) fn address(from: Option<Extension<Self>>) -> IpAddr {
        from.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |Extension(Self(address))| address)
    }
}

impl Who {
    /// Tells whether it is that user, by a login.
    pub(crate) fn is_user(&self, name: &AccountName) -> bool {
        self.person == Some(Person::User(name.clone()))
    }

    /// Lets it go on, as somebody who may do at least this.
    pub(crate) fn at_least(self, role: Role) -> Result<Self, Problem> {
        if self.role >= role {
            return Ok(self);
        }
        let (name, has) = (&self.name, self.role);
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", format!("this needs the role {role}; {name} is {has}")))
    }
}

/// The notice that is taken of who was refused.
pub trait Refusals: Send + Sync + 'static {
    /// Counts a refusal, of which the audit is told now and then.
    fn refused(&self, at: RefusedAt, who: Actor, why: String);
}

/// The store of users, keys and logins, and the one who invites and carries out commands.
pub trait Accounts: Commands + Invitations + Refusals {
    /// All users, by name.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn users(&self) -> BoxFuture<'_, Result<Vec<User>, Unavailable>>;

    /// All API keys, by name.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn keys(&self) -> BoxFuture<'_, Result<Vec<ApiKey>, Unavailable>>;

    /// Revocations of certificates, by their holders.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn revoked(&self) -> BoxFuture<'_, Result<Vec<Revocation>, Unavailable>>;

    /// Makes logins durable (`None`: forgets them), and a line of the audit with them.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn keep(
        &self,
        logins: Vec<(SecretHash, Option<Login>)>,
        note: Option<Note>,
    ) -> BoxFuture<'_, Result<(), Unavailable>>;
}

/// Settings of a console's authentication.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// The cookie's name: two masters on one machine must not take each other's for their own.
    pub cookie: String,
    /// The console is reached by TLS.
    pub tls: bool,
    /// The console listens on loopback.
    pub loopback: bool,
    /// Host names by which the console may be asked.
    pub hosts: HostNames,
    /// The logins that were written down.
    pub logins: Vec<(SecretHash, Login)>,
    /// The identity provider, if there is one.
    pub sso: Option<SsoSettings>,
}

/// The authentication of one master's console.
pub struct Auth {
    accounts: Arc<dyn Accounts>,
    settings: AuthSettings,
    clock: Clock,
    logins: Mutex<Logins>,
    lockout: Mutex<Lockout>,
    passwords: Passwords,
    used_codes: Mutex<UsedCodes>,
    sso: Option<Sso>,
}

/// The identity that a caller was recognised by.
pub(crate) enum Entry {
    Key(Who),
    Login(Who, SecretHash),
    Nobody,
}

impl Auth {
    pub fn new(accounts: Arc<dyn Accounts>, mut settings: AuthSettings) -> Arc<Self> {
        let sso = settings.sso.take().map(Sso::new);
        let logins = Mutex::new(Logins::new(std::mem::take(&mut settings.logins)));
        // A login's hours are real ones, whatever clock the leases run by.
        let (clock, passwords) = (Clock::system(), Passwords::new());
        Arc::new(Self {
            accounts,
            settings,
            clock,
            logins,
            lockout: Mutex::default(),
            passwords,
            used_codes: Mutex::default(),
            sso,
        })
    }

    /// Host names by which the console may be asked.
    pub(crate) fn hosts(&self) -> &HostNames {
        &self.settings.hosts
    }

    pub(crate) fn sso(&self) -> Option<&Sso> {
        self.sso.as_ref()
    }

    /// The name of the cookie of a login that has begun at the identity provider.
    pub(crate) fn begun_cookie(&self) -> String {
        let prefix = if self.sso().is_some_and(Sso::is_by_tls) { "__Host-" } else { "" };
        format!("{prefix}{}_sso", self.settings.cookie)
    }

    pub(crate) fn commands(&self) -> &dyn Commands {
        self.accounts.as_ref()
    }

    pub(crate) fn accounts(&self) -> &dyn Accounts {
        self.accounts.as_ref()
    }

    /// The hash of a new password.
    pub(crate) async fn hash(&self, password: String) -> Result<String, Unavailable> {
        self.passwords.hash(password).await
    }

    pub(crate) fn now(&self) -> WallMs {
        self.clock.wall()
    }

    fn logins(&self) -> MutexGuard<'_, Logins> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lockout(&self) -> MutexGuard<'_, Lockout> {
        self.lockout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recognises who sends these headers. A key that is none is an error: its owner would wonder about a login page.
    pub(crate) async fn recognise(&self, headers: &HeaderMap) -> Result<Entry, Problem> {
        if let Some(given) = headers.get(header::AUTHORIZATION) {
            let given = given.to_str().ok().and_then(|text| text.split_once(' '));
            let key = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
            let wrong = |why| Problem::new(StatusCode::UNAUTHORIZED, "login_required", why);
            let none = || wrong("this is not an API key of this cluster, or one that has ended");
            let key = key.ok_or_else(|| wrong("write the header as Authorization: Bearer KEY"))?;
            let key = Some(key).filter(|key| key.starts_with(KEY_BEGIN)).ok_or_else(none)?;
            let (hash, now) = (SecretHash::of(key.as_bytes()), self.now());
            let keys = self.accounts.keys().await?;
            let key = keys.into_iter().find(|key| key.opens(hash, now)).ok_or_else(none)?;
            let role = key.role().ok_or_else(|| wrong("this API key is for agents: it opens nothing at masters"))?;
            return Ok(Entry::Key(Who { name: format!("key {}", key.name), person: None, role, csrf: None }));
        }
        match self.cookie(headers) {
            Some(cookie) => self.recognise_login(SecretHash::of(cookie.as_bytes())).await,
            None => Ok(Entry::Nobody),
        }
    }

    /// The login under `hash`, if its user is still who logged in.
    pub(crate) async fn recognise_login(&self, hash: SecretHash) -> Result<Entry, Problem> {
        let now = self.now();
        let Some((login, news)) = self.logins().use_it(hash, now) else { return Ok(Entry::Nobody) };
        let Some(role) = self.role_of(&login).await? else {
            let over = self.logins().close(hash);
            self.accounts.keep(over.into_iter().collect(), None).await?;
            return Ok(Entry::Nobody);
        };
        if let Some(news) = news {
            if let Err(why) = self.accounts.keep(vec![news], None).await {
                // It ends a little early after a restart; that is not a reason to refuse the request.
                tracing::debug!(%why, "the time of a login's last use could not be written down");
            }
            // One that was ended meanwhile must not be on the disk again because of that.
            if self.logins().use_it(hash, now).is_none() {
                self.accounts.keep(vec![(hash, None)], None).await?;
                return Ok(Entry::Nobody);
            }
        }
        let (name, csrf) = (login.person.to_string(), Some(login.csrf.to_string()));
        Ok(Entry::Login(Who { name, person: Some(login.person), role, csrf }, hash))
    }

    /// The role of a login, if its person is still who logged in.
    async fn role_of(&self, login: &Login) -> Result<Option<Role>, Problem> {
        Ok(match &login.person {
            Person::User(name) => {
                let user = self.user(name.as_str()).await?.filter(|user| proof(user) == login.proof);
                user.map(|user| user.role)
            }
            Person::External { role, .. } => {
                Some(*role).filter(|_| self.sso().is_some_and(|sso| sso.proof() == login.proof))
            }
        })
    }

    async fn user(&self, name: &str) -> Result<Option<User>, Problem> {
        let users = self.accounts.users().await?;
        Ok(users.into_iter().find(|user| user.name.as_str() == name))
    }

    fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        self.cookie_of(headers, &self.settings.cookie)
    }

    /// The value of that cookie.
    pub(crate) fn cookie_of<'a>(&self, headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|all| all.split(';'))
            .filter_map(|one| one.trim().split_once('='))
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    }

    /// Ends all logins of somebody at this master. They would end at their next use anyway.
    pub(crate) async fn end_logins_of(&self, user: &AccountName) -> Result<(), Unavailable> {
        let over = self.logins().close_all_of(&Person::User(user.clone()));
        if over.is_empty() { Ok(()) } else { self.accounts.keep(over, None).await }
    }
}

/// Changes with everything that ends a login.
fn proof(user: &User) -> SecretHash {
    let totp = user.totp.map(|secret| secret.0).unwrap_or_default();
    let said = format!("{}\n{}\n{}\n", user.name, user.role, user.phc);
    SecretHash::of(&[said.as_bytes(), &totp].concat())
}

/// 256 random bits.
fn secret() -> SecretHash {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes);
    SecretHash(bytes)
}

/// A new API key.
pub(crate) fn new_key() -> String {
    format!("{KEY_BEGIN}{}", secret())
}
