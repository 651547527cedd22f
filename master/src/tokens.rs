//! Tokens of Kubernetes' service accounts, by which a pod gets its certificate without a secret of ours.
//!
//! The kubelet writes such a token into the pod (a projected volume), for an audience that the pod's definition names, and bound to the pod:
//! the API server signs which pod of which account it is. So the pod's name is its name here, and no other pod gets it.

use clap::Args;
use common::file;
use common::parameters::AgentId;
use net::enroll::{Invited, are_names};
use net::jwt::{self, JwkSet, Parties};
use net::tls::Role;
use process::program::Wrong;
use process::settings;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The most bytes of a file with keys.
const KEYS_LEN_MAX: u64 = 1 << 20;

/// The tokens that a master accepts.
#[derive(Args, Clone, Debug)]
pub struct TokenFlags {
    /// The public keys of a Kubernetes API server (`kubectl get --raw /openid/v1/jwks`), whose pods get certificates by service account
    /// tokens; read anew for each. The same at both masters
    #[arg(long, env = "UNIQ_TOKEN_KEYS", value_name = "FILE", requires = "token_account")]
    pub token_keys: Option<PathBuf>,

    /// The issuer of those tokens: the API server's --service-account-issuer
    #[arg(
        long,
        env = "UNIQ_TOKEN_ISSUER",
        value_name = "URL",
        default_value = "https://kubernetes.default.svc.cluster.local"
    )]
    pub token_issuer: String,

    /// The audience that those tokens are for, as the volume in the pod's definition says
    #[arg(long, env = "UNIQ_TOKEN_AUDIENCE", value_name = "NAME", default_value = "uniq")]
    pub token_audience: String,

    /// The service accounts whose pods get certificates, comma-separated: NAMESPACE/ACCOUNT=agent or =client, and DNS names that the
    /// certificates have besides, as in shop/orders=agent@orders.shop.svc. The pod's name in them is NAMESPACE.POD
    #[arg(
        long,
        env = "UNIQ_TOKEN_ACCOUNT",
        value_name = "NAMESPACE/ACCOUNT=ROLE[@NAME...]",
        value_delimiter = ',',
        value_parser = settings::item(str::parse::<TokenAccount>),
        requires = "token_keys"
    )]
    pub token_account: Vec<TokenAccount>,
}

/// A service account whose pods get certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAccount {
    namespace: String,
    account: String,
    /// An agent or a client, by the pod's name.
    invited: Invited,
    names: Vec<String>,
}

impl FromStr for TokenAccount {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = || {
            let (whose, what) = text.split_once('=')?;
            let (namespace, account) = whose.split_once('/')?;
            let mut what = what.split('@').map(str::to_owned);
            let invited = match what.next()?.as_str() {
                "agent" => Invited::Agent,
                "client" => Invited::Client,
                _ => return None,
            };
            let names: Vec<String> = what.collect();
            let fits = !namespace.is_empty() && !account.is_empty() && !account.contains('/') && are_names(&names);
            fits.then(|| Self { namespace: namespace.to_owned(), account: account.to_owned(), invited, names })
        };
        parts().ok_or_else(|| "write a service account as NAMESPACE/ACCOUNT=agent or =client, and DNS names as in shop/orders=agent@orders.shop.svc".to_owned())
    }
}

/// The claims of a token that Kubernetes issued.
#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    iat: u64,
    #[serde(rename = "kubernetes.io")]
    bound: Option<Bound>,
}

#[derive(Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: Named,
    pod: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// The pod that shows a token.
#[derive(Debug, PartialEq, Eq)]
pub struct Pod {
    /// The role that its certificate has.
    pub role: Role,
    /// The DNS names that it has besides.
    pub names: Vec<String>,
    /// NAMESPACE/ACCOUNT.
    pub account: String,
    /// The time at which the token was issued, in seconds since 1970.
    pub issued_s: u64,
}

impl TokenFlags {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// A text that names the remedy.
    pub fn check(&self) -> Result<(), Wrong> {
        let key = |it: &TokenAccount| (it.namespace.clone(), it.account.clone());
        let twice = self.token_account.iter().enumerate();
        let mut twice =
            twice.filter(|(nth, it)| self.token_account.iter().take(*nth).any(|other| key(other) == key(it)));
        match twice.next() {
            Some((_, it)) => {
                let why = format!("--token-account: {}/{} is there twice", it.namespace, it.account);
                Err((clap::error::ErrorKind::ValueValidation, why))
            }
            None => Ok(()),
        }
    }

    /// Tells which pod shows this token. To be asked where a thread may wait for a disk.
    ///
    /// # Errors
    /// The reason why it is no pod that gets a certificate.
    pub fn pod(&self, token: &str) -> Result<Pod, String> {
        let Some(file) = &self.token_keys else {
            return Err("this master accepts none (--token-keys)".to_owned());
        };
        let parties = Parties { issuer: &self.token_issuer, audience: &self.token_audience };
        let claims: Claims = jwt::verified(token, &keys_in(file)?, parties).map_err(|why| why.to_string())?;
        let unbound = || "it is not bound to a pod: take one of a projected volume (serviceAccountToken)".to_owned();
        let Bound { namespace, serviceaccount, pod } = claims.bound.ok_or_else(unbound)?;
        let account = format!("{namespace}/{}", serviceaccount.name);
        let is_it = |it: &&TokenAccount| it.namespace == namespace && it.account == serviceaccount.name;
        let known = self.token_account.iter().find(is_it);
        let known = known.ok_or_else(|| format!("pods of {account} get no certificates here (--token-account)"))?;
        let pod = pod.ok_or_else(unbound)?;
        // A namespace has no dot in it, so no two pods have the same.
        let name = format!("{namespace}.{}", pod.name);
        let id =
            AgentId::try_from(name).map_err(|why| format!("{namespace}.{}, the name of the pod: {why}", pod.name))?;
        let role = if known.invited == Invited::Agent { Role::Agent(id) } else { Role::Client(id) };
        Ok(Pod { role, names: known.names.clone(), account, issued_s: claims.iat })
    }
}

fn keys_in(path: &Path) -> Result<JwkSet, String> {
    let wrong = |why: String| {
        tracing::error!("--token-keys {}: {why}", path.display());
        "this master cannot read the keys that tokens are signed by; its log says why".to_owned()
    };
    let text = file::read_text(path, KEYS_LEN_MAX).map_err(|why| wrong(why.to_string()))?;
    serde_json::from_str(&text).map_err(|why| wrong(format!("it is no JSON Web Key Set: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_named_with_what_their_pods_are() {
        let read: TokenAccount = "shop/orders=agent@orders.shop.svc@10.0.0.9".parse().unwrap();
        assert_eq!((read.namespace.as_str(), read.account.as_str(), read.invited), ("shop", "orders", Invited::Agent));
        assert_eq!(read.names, ["orders.shop.svc", "10.0.0.9"]);
        assert_eq!("a/b=client".parse::<TokenAccount>().unwrap().invited, Invited::Client);
        for wrong in [
            "",
            "shop=agent",
            "shop/orders",
            "shop/orders=",
            "shop/orders=master",
            "/orders=agent",
            "a/b/c=agent",
            "a/b=agent@",
        ] {
            assert!(wrong.parse::<TokenAccount>().is_err(), "{wrong}");
        }
    }
}
