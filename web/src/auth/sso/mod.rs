//! Single sign-on: logins by an identity provider (OpenID Connect Core 1.0, the authorization code flow with PKCE, RFC 7636).
//!
//! Nothing is kept of a login that has begun but a secret in a cookie of the browser that began it, from which what the provider must
//! bring back follows: nobody can use up room for such logins, and what another browser brings opens nothing. The role comes from the
//! provider at each login.

pub(crate) mod routes;

use crate::auth::Role;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::account::{EXTERNAL_CHARS_MAX, Person, SecretHash};
use common::audit::{TOLD_CHARS, cleared};
use common::file;
use form_urlencoded::Serializer;
use net::https::{Https, HttpsError, is_safe};
use net::jwt::{self, JwkSet, JwtError, Parties};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The path to which the provider sends a browser back.
pub(crate) const CALLBACK: &str = "/login/sso/callback";
/// The age at which what the provider says of itself, and its keys, are asked for again.
const PROVIDER_AGE_MAX: Duration = Duration::from_secs(3_600);
/// The shortest time between two such questions because of an unknown key.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// The same after it could not be asked.
const ASK_AGAIN_FAILED: Duration = Duration::from_secs(2);
/// The most bytes of a client's secret.
const SECRET_LEN_MAX: u64 = 4_096;
/// Logins that are finished at the same time, and the longest wait for one's turn.
const FINISHED_AT_ONCE: usize = 8;
const TURN_WAIT_MAX: Duration = Duration::from_secs(10);

/// The identity provider of a console.
#[derive(Clone, Debug)]
pub struct SsoSettings {
    /// The provider, as its tokens name it.
    pub issuer: String,
    /// The name under which it knows this console.
    pub client_id: String,
    /// A file whose first line is the secret that goes with it, read at each login; `None`: a public client.
    pub client_secret_file: Option<PathBuf>,
    /// CAs of the provider's certificate; `None`: those of the machine.
    pub cas: Option<PathBuf>,
    /// The address of this console, as browsers reach it.
    pub console: String,
    /// The scopes that are asked for; `openid` is always among them.
    pub scopes: Vec<String>,
    /// The claim that says what somebody may do: a name, or a JSON pointer (RFC 6901).
    pub role_claim: String,
    /// Its values, and the roles that they give.
    pub roles: Vec<(String, Role)>,
    /// The claim that says what somebody is called.
    pub name_claim: String,
}

/// The reason why nobody is logged in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SsoError {
    /// The provider cannot be asked, or is not set up as this console is.
    #[error("{0}")]
    Provider(String),
    /// The browser brought nothing that is of a login it began here, or something that was used before.
    #[error("{0}")]
    Wrong(String),
    /// The provider lets somebody in who has no role here.
    #[error("{name} has no role here: {claim} is {found}")]
    NoRole { name: String, claim: String, found: String },
}

impl SsoError {
    fn not_begun() -> Self {
        Self::Wrong("this browser began no such login here, or too long ago".to_owned())
    }
}

/// The configuration that a provider publishes (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug, Deserialize)]
struct Provider {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

impl Provider {
    /// Tells whether it is the one that the settings name, and nothing that is sent to it can be read on the way.
    fn check(&self, issuer: &str) -> Result<(), String> {
        let Self { issuer: own, authorization_endpoint, token_endpoint, jwks_uri, userinfo_endpoint, .. } = self;
        // Discovery, section 4.3: exactly.
        if own.trim_end_matches('/') != issuer {
            return Err(format!(
                "the identity provider at {issuer} calls itself {}: set --oidc-issuer to that",
                cleared(own, TOLD_CHARS)
            ));
        }
        let endpoints = [authorization_endpoint, token_endpoint, jwks_uri];
        match endpoints.into_iter().chain(userinfo_endpoint).find(|it| !is_safe(it)) {
            Some(plain) => {
                Err(format!("the identity provider has an endpoint without TLS: {}", cleared(plain, TOLD_CHARS)))
            }
            None => Ok(()),
        }
    }
}

/// The answer of the token endpoint.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: Option<String>,
}

/// The provider; or why it cannot be asked, and since when that is known.
type Known = (Instant, Result<Asked, String>);

/// A provider that was asked: what it says of itself, its keys, and the way to it.
#[derive(Clone)]
struct Asked {
    provider: Arc<Provider>,
    keys: Arc<JwkSet>,
    https: Https,
}

/// Logins by an identity provider.
pub(crate) struct Sso {
    settings: SsoSettings,
    known: tokio::sync::Mutex<Option<Known>>,
    turns: Semaphore,
}

/// The query with which the provider sends a browser back.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Back {
    #[serde(default)]
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) state: String,
    /// The provider that sends the browser, where it says so (RFC 9207).
    #[serde(default)]
    pub(crate) iss: String,
    /// The reason why the provider lets nobody in.
    #[serde(default)]
    pub(crate) error: String,
}

/// A secret that a browser keeps while its user is at the provider, and what follows from it.
struct Begun<'a>(&'a str);

impl Begun<'_> {
    fn derived(&self, what: &str) -> String {
        SecretHash::of(format!("{what}\n{}", self.0).as_bytes()).to_string()
    }

    fn state(&self) -> String {
        self.derived("state")
    }

    fn nonce(&self) -> String {
        self.derived("nonce")
    }

    /// RFC 7636, section 4.1: 64 characters of those that it may have.
    fn verifier(&self) -> String {
        self.derived("verifier")
    }

    /// The same, section 4.2, S256.
    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(SecretHash::of(self.verifier().as_bytes()).0)
    }
}

impl Sso {
    /// Logins by that provider. It is asked when somebody logs in.
    pub(crate) fn new(settings: SsoSettings) -> Self {
        Self { settings, known: tokio::sync::Mutex::default(), turns: Semaphore::new(FINISHED_AT_ONCE) }
    }

    /// Changes with everything that could give somebody another role.
    pub(crate) fn proof(&self) -> SecretHash {
        let SsoSettings { issuer, client_id, role_claim, roles, .. } = &self.settings;
        SecretHash::of(format!("{issuer}\n{client_id}\n{role_claim}\n{roles:?}").as_bytes())
    }

    /// Tells whether browsers reach this console by TLS.
    pub(super) fn is_by_tls(&self) -> bool {
        self.settings.console.starts_with("https:")
    }

    fn callback(&self) -> String {
        let console = &self.settings.console;
        format!("{}{CALLBACK}", console.trim_end_matches('/'))
    }

    /// The address at the provider at which a login goes on whose browser keeps this secret.
    pub(crate) async fn begin(&self, secret: &str) -> Result<String, SsoError> {
        let provider = self.provider(PROVIDER_AGE_MAX).await?.provider;
        let begun = Begun(secret);
        let query = Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.callback())
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &begun.state())
            .append_pair("nonce", &begun.nonce())
            .append_pair("code_challenge", &begun.challenge())
            .append_pair("code_challenge_method", "S256")
            .finish();
        let to = &provider.authorization_endpoint;
        Ok(format!("{to}{}{query}", if to.contains('?') { '&' } else { '?' }))
    }

    /// The person who comes back from the provider, to a browser that keeps this secret.
    pub(crate) async fn finish(&self, back: &Back, secret: &str) -> Result<Person, SsoError> {
        let begun = Begun(secret);
        if !super::guard::is_token(back.state.as_bytes(), &begun.state()) {
            return Err(SsoError::not_begun());
        }
        if !back.error.is_empty() {
            return Err(SsoError::Wrong(format!("the identity provider says {}", cleared(&back.error, TOLD_CHARS))));
        }
        if back.code.is_empty() {
            return Err(SsoError::Wrong("the identity provider gave no code".to_owned()));
        }
        let turn = tokio::time::timeout(TURN_WAIT_MAX, self.turns.acquire()).await;
        let busy = || SsoError::Provider("others are being logged in; try again".to_owned());
        let _turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let asked = self.provider(PROVIDER_AGE_MAX).await?;
        if !back.iss.is_empty() && back.iss != asked.provider.issuer {
            return Err(SsoError::Wrong("another identity provider sent this browser".to_owned()));
        }
        let tokens = self.exchange(&asked, &back.code, &begun.verifier()).await?;
        let claims = self.claims(&tokens.id_token, &begun.nonce()).await?;
        self.person(&asked, claims, tokens.access_token).await
    }

    /// The provider, asked no longer ago than this. One call asks for all: nobody makes this master ask more often.
    async fn provider(&self, age_max: Duration) -> Result<Asked, SsoError> {
        let mut known = self.known.lock().await;
        match &*known {
            Some((at, Ok(it))) if at.elapsed() < age_max => return Ok(it.clone()),
            Some((at, Err(why))) if at.elapsed() < ASK_AGAIN_FAILED => return Err(SsoError::Provider(why.clone())),
            _ => {}
        }
        let fresh = self.ask_provider().await;
        *known = Some((Instant::now(), fresh.clone()));
        fresh.map_err(SsoError::Provider)
    }

    async fn ask_provider(&self) -> Result<Asked, String> {
        let cas = self.settings.cas.clone();
        let https = tokio::task::spawn_blocking(move || Https::new(cas.as_deref())).await;
        let https = https.unwrap_or_else(|why| Err(why.to_string())).map_err(|why| format!("--oidc-ca: {why}"))?;
        let issuer = self.settings.issuer.trim_end_matches('/');
        let said = |why: HttpsError| format!("the identity provider {issuer} {why}");
        let at = format!("{issuer}/.well-known/openid-configuration");
        let provider: Provider = https.get(&at, None).await.map_err(said)?;
        provider.check(issuer)?;
        let keys: JwkSet = https.get(&provider.jwks_uri, None).await.map_err(said)?;
        Ok(Asked { provider: Arc::new(provider), keys: Arc::new(keys), https })
    }

    /// The tokens for a code (RFC 6749, section 4.1.3).
    async fn exchange(&self, asked: &Asked, code: &str, verifier: &str) -> Result<Tokens, SsoError> {
        let Asked { provider, https, .. } = asked;
        let settings = &self.settings;
        let callback = self.callback();
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &callback),
            ("code_verifier", verifier),
        ];
        let secret = settings.secret().await?;
        let methods = &provider.token_endpoint_auth_methods_supported;
        let has = |method: &str| methods.iter().any(|it| it == method);
        // The default where it says none (Discovery, section 3).
        let by_header = secret.is_some() && (methods.is_empty() || has("client_secret_basic"));
        if !by_header {
            form.push(("client_id", &settings.client_id));
            form.extend(secret.as_deref().map(|secret| ("client_secret", secret)));
        }
        let basic = secret.as_deref().filter(|_| by_header).map(|secret| (settings.client_id.as_str(), secret));
        let asked = https.post(&provider.token_endpoint, &form, basic).await;
        asked.map_err(|why| match why {
            // A code that was used or made up is the caller's affair.
            HttpsError::Status(status, said)
                if ["invalid_grant", "invalid_request"].iter().any(|it| said.contains(it)) =>
            {
                SsoError::Wrong(format!("the identity provider answered {status}: {said}"))
            }
            why => SsoError::Provider(format!("the identity provider {why}")),
        })
    }

    /// The claims of an ID token of this login (Core, section 3.1.3.7).
    async fn claims(&self, token: &str, nonce: &str) -> Result<Map<String, Value>, SsoError> {
        let (issuer, client_id) = (&self.settings.issuer, &self.settings.client_id);
        let mut age_max = PROVIDER_AGE_MAX;
        let claims: Map<String, Value> = loop {
            let Asked { provider, keys, .. } = self.provider(age_max).await?;
            let parties = Parties { issuer: &provider.issuer, audience: client_id };
            match jwt::verified(token, &keys, parties) {
                Ok(claims) => break claims,
                // It may have a new one.
                Err(JwtError::UnknownKey(_)) if age_max > ASK_AGAIN => age_max = ASK_AGAIN,
                Err(why) => return Err(SsoError::Provider(format!("a token of {issuer} is not believed: {why}"))),
            }
        };
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
        if text("nonce") != Some(nonce) {
            return Err(SsoError::Wrong("the identity provider's token is of another login".to_owned()));
        }
        let is_shared = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
        if text("azp").map_or(is_shared, |party| party != client_id) {
            return Err(SsoError::Wrong("the identity provider's token is for another party".to_owned()));
        }
        Ok(claims)
    }

    /// The person of these claims, and of those that the provider tells apart from its token.
    async fn person(
        &self,
        asked: &Asked,
        mut claims: Map<String, Value>,
        access: Option<String>,
    ) -> Result<Person, SsoError> {
        let SsoSettings { role_claim, roles, name_claim, .. } = &self.settings;
        let text = |claims: &Map<String, Value>, claim: &str| {
            claims.get(claim).and_then(Value::as_str).filter(|it| is_plain(it)).map(str::to_owned)
        };
        let strange = format!("the identity provider gives no claim sub of 1 to {EXTERNAL_CHARS_MAX} plain characters");
        let subject = text(&claims, "sub").ok_or(SsoError::Provider(strange))?;
        let mut found = claim(&claims, role_claim);
        if let (None, Some(endpoint), Some(access)) = (&found, &asked.provider.userinfo_endpoint, access) {
            let said = |why| SsoError::Provider(format!("the identity provider {why}"));
            let more: Map<String, Value> = asked.https.get(endpoint, Some(&access)).await.map_err(said)?;
            // Core, section 5.3.2: or it is of somebody else.
            if text(&more, "sub").as_ref() != Some(&subject) {
                return Err(SsoError::Provider("the identity provider's user info is of somebody else".to_owned()));
            }
            found = claim(&more, role_claim);
            more.into_iter().for_each(|(name, value)| {
                claims.entry(name).or_insert(value);
            });
        }
        // Anybody can say that an address is theirs. Some providers write truths as texts.
        let is_unverified = |it: &Value| it == &Value::Bool(false) || it.as_str() == Some("false");
        if claims.get("email_verified").is_some_and(is_unverified) {
            claims.remove("email");
            found = found.filter(|_| role_claim != "email");
        }
        let name = text(&claims, name_claim).unwrap_or_else(|| subject.clone());
        let has = |value: &str| match &found {
            Some(Value::Array(all)) => all.iter().any(|it| it.as_str() == Some(value)),
            Some(one) => one.as_str() == Some(value),
            None => false,
        };
        let role = roles.iter().filter(|(value, _)| has(value)).map(|(_, role)| *role).max();
        match role {
            Some(role) => Ok(Person::External { subject, name, role }),
            None => {
                let found = found.map_or_else(|| "not there".to_owned(), |it| cleared(&it.to_string(), TOLD_CHARS));
                Err(SsoError::NoRole { name, claim: role_claim.clone(), found })
            }
        }
    }
}

impl SsoSettings {
    async fn secret(&self) -> Result<Option<String>, SsoError> {
        let Some(file) = self.client_secret_file.clone() else { return Ok(None) };
        let said = format!("--oidc-client-secret-file {}", file.display());
        let read = tokio::task::spawn_blocking(move || file::read_text(&file, SECRET_LEN_MAX)).await;
        let read = read.unwrap_or_else(|why| Err(std::io::Error::other(why)));
        let secret = read.map_err(|why| SsoError::Provider(format!("{said}: {why}")))?;
        match secret.lines().next().unwrap_or_default().trim() {
            "" => Err(SsoError::Provider(format!("{said}: its first line is empty"))),
            secret => Ok(Some(secret.to_owned())),
        }
    }
}

/// A claim by its name, or by a JSON pointer.
fn claim(claims: &Map<String, Value>, name: &str) -> Option<Value> {
    match name.starts_with('/') {
        true => Value::Object(claims.clone()).pointer(name).cloned(),
        false => claims.get(name).cloned(),
    }
}

/// Tells whether a text looks like what it is.
fn is_plain(text: &str) -> bool {
    // What is not seen, or turns the direction of what is.
    let hidden =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let fits = !text.is_empty() && text.chars().count() <= EXTERNAL_CHARS_MAX;
    fits && !text.chars().any(|c| c.is_control() || hidden(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_provider_is_the_one_that_is_named_and_speaks_tls() {
        let checked = |other: Value| {
            let mut said = json!({
                "issuer": "https://id.example/x", "authorization_endpoint": "https://id.example/a",
                "token_endpoint": "https://id.example/t", "jwks_uri": "https://id.example/k",
            });
            said.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
            serde_json::from_value::<Provider>(said).map_err(|why| why.to_string())?.check("https://id.example/x")
        };
        assert_eq!(checked(json!({})), Ok(()));
        assert_eq!(
            checked(json!({"issuer": "https://id.example/x/", "userinfo_endpoint": "http://[::1]:1/me"})),
            Ok(())
        );
        for wrong in [
            json!({"issuer": "https://evil.example"}),
            json!({"token_endpoint": "http://evil.example/token"}),
            json!({"jwks_uri": "http://192.0.2.1/keys"}),
            json!({"userinfo_endpoint": "http://localhost.evil.example/me"}),
            json!({"authorization_endpoint": "javascript:alert(1)"}),
            json!({"authorization_endpoint": "https://"}),
            json!({"jwks_uri": null}),
        ] {
            assert!(checked(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn claims_are_found_by_name_and_by_pointer() {
        let claims = json!({"groups": "a", "realm": {"roles": ["b"]}, "a/b": 1});
        let claims = claims.as_object().unwrap();
        assert_eq!(claim(claims, "groups"), Some(json!("a")));
        assert_eq!(claim(claims, "/realm/roles"), Some(json!(["b"])));
        assert_eq!(claim(claims, "a/b"), Some(json!(1)));
        assert!(claim(claims, "/realm/none").is_none() && claim(claims, "none").is_none());
    }
}
