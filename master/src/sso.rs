//! The identity provider of the console (OpenID Connect), as flags say it.

use clap::Args;
use common::account::Role;
use net::https::is_safe;
use process::program::Wrong;
use process::settings;
use std::path::PathBuf;
use std::str::FromStr;
use web::SsoSettings;

/// Single sign-on at the console, beside the users with passwords.
#[derive(Args, Clone, Debug)]
pub struct SsoFlags {
    /// The identity provider (OpenID Connect) by which people log in at the console, beside users with passwords, as its tokens name it
    #[arg(long, env = "UNIQ_OIDC_ISSUER", value_name = "URL", value_parser = safe_url,
          requires_all = ["oidc_client_id", "oidc_roles", "console_url"])]
    pub oidc_issuer: Option<String>,

    /// The name under which the identity provider knows this console
    #[arg(long, env = "UNIQ_OIDC_CLIENT_ID", value_name = "ID", requires = "oidc_issuer")]
    pub oidc_client_id: Option<String>,

    /// A file whose first line is the secret that goes with it, read at each login [default: none, a public client]
    #[arg(long, env = "UNIQ_OIDC_CLIENT_SECRET_FILE", value_name = "FILE", requires = "oidc_issuer")]
    pub oidc_client_secret_file: Option<PathBuf>,

    /// The CAs of the identity provider's certificate, a file in PEM form [default: those of the machine]
    #[arg(long, env = "UNIQ_OIDC_CA", value_name = "FILE", requires = "oidc_issuer")]
    pub oidc_ca: Option<PathBuf>,

    /// The roles, comma-separated, by the values of --oidc-role-claim: such as ids-admins=admin,ids-operators=operator,staff=viewer (a
    /// comma in a value is written %2C). The highest counts; whoever has none of them is not let in
    #[arg(long, env = "UNIQ_OIDC_ROLES", value_name = "VALUE=ROLE", value_delimiter = ',',
          value_parser = settings::item(str::parse::<GivenRole>), requires = "oidc_issuer")]
    pub oidc_roles: Vec<GivenRole>,

    /// The claim that says what somebody may do: its name, or a JSON pointer such as /realm_access/roles
    #[arg(long, env = "UNIQ_OIDC_ROLE_CLAIM", value_name = "CLAIM", default_value = "groups")]
    pub oidc_role_claim: String,

    /// The claim that says what somebody is called; people are told apart by sub, whatever that is
    #[arg(long, env = "UNIQ_OIDC_NAME_CLAIM", value_name = "CLAIM", default_value = "email")]
    pub oidc_name_claim: String,

    /// The scopes that are asked for, comma-separated; openid is among them in any case
    #[arg(
        long,
        env = "UNIQ_OIDC_SCOPES",
        value_name = "SCOPE",
        value_delimiter = ',',
        default_value = "openid,profile,email",
        value_parser = settings::item(scope)
    )]
    pub oidc_scopes: Vec<String>,

    /// The address of this master's console, as browsers reach it: the provider sends them back to URL/login/sso/callback
    #[arg(long, env = "UNIQ_CONSOLE_URL", value_name = "URL", value_parser = safe_url, requires = "oidc_issuer")]
    pub console_url: Option<String>,
}

/// A role that a value of a claim gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRole(String, Role);

impl FromStr for GivenRole {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let read = text.rsplit_once('=').and_then(|(value, role)| Some((value, role.parse().ok()?)));
        let (value, role) =
            read.filter(|(value, _)| !value.is_empty()).ok_or("write VALUE=viewer, =operator or =admin")?;
        Ok(Self(value.replace("%2C", ","), role))
    }
}

fn scope(text: &str) -> Result<String, String> {
    // RFC 6749, section 3.3.
    let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"\\".contains(&b));
    fits.then(|| text.to_owned()).ok_or_else(|| "a scope is one word".to_owned())
}

fn safe_url(text: &str) -> Result<String, String> {
    let plain = !text.contains(['?', '#', '@']);
    Some(text.to_owned()).filter(|text| is_safe(text) && plain).ok_or_else(|| {
        "write an address with https://, or with http:// on this machine's loopback, without a user, a query and a fragment".to_owned()
    })
}

impl SsoFlags {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// A text that names the remedy.
    pub fn check(&self) -> Result<(), Wrong> {
        match &self.console_url {
            Some(url) if url.splitn(4, '/').nth(3).is_some_and(|path| !path.is_empty()) => {
                let why = "--console-url: the console is at the root of its address, such as https://ids.example.com";
                Err((clap::error::ErrorKind::ValueValidation, why.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The host name by which browsers ask the console.
    pub fn host(&self) -> Option<String> {
        let (_, rest) = self.console_url.as_ref()?.split_once("://")?;
        let host = rest.trim_end_matches('/');
        // An address needs not be named.
        Some(host.split(':').next().unwrap_or(host).to_owned()).filter(|host| !host.starts_with('['))
    }

    /// The settings, if there is a provider.
    pub fn settings(&self) -> Option<SsoSettings> {
        let (issuer, console) = (self.oidc_issuer.clone()?, self.console_url.clone()?);
        let mut scopes = self.oidc_scopes.clone();
        if !scopes.iter().any(|scope| scope == "openid") {
            scopes.insert(0, "openid".to_owned());
        }
        Some(SsoSettings {
            issuer,
            client_id: self.oidc_client_id.clone()?,
            client_secret_file: self.oidc_client_secret_file.clone(),
            cas: self.oidc_ca.clone(),
            console,
            scopes,
            role_claim: self.oidc_role_claim.clone(),
            roles: self.oidc_roles.iter().map(|GivenRole(value, role)| (value.clone(), *role)).collect(),
            name_claim: self.oidc_name_claim.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_given_by_values_that_may_have_anything_in_them() {
        assert_eq!("cn=admins%2Cdc=x=admin".parse(), Ok(GivenRole("cn=admins,dc=x".to_owned(), Role::Admin)));
        for wrong in ["", "=admin", "staff", "staff=", "staff=root"] {
            assert!(wrong.parse::<GivenRole>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_goes_where_others_can_read_it() {
        for good in [
            "https://id.example.com",
            "https://id.example.com/realms/x",
            "http://127.0.0.1:8080",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(safe_url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://id.example.com",
            "ftp://localhost",
            "id.example.com",
            "https://u@h/",
            "https://h/?a",
            "https://h/#a",
            "",
        ] {
            assert!(safe_url(bad).is_err(), "{bad}");
        }
    }
}
