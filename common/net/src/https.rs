//! A client of somebody else's HTTPS server, which is known by its address: JSON of bounded length, in bounded time, and no redirects.

use crate::tls::provider;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use common::audit::{TOLD_CHARS, cleared};
use form_urlencoded::{Serializer, byte_serialize};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request;
use hyper::{Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The longest time that an answer takes.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const ANSWER_LEN_MAX: usize = 1 << 20;

/// A client.
#[derive(Clone)]
pub struct Https(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// The server was not reached, or broke off.
    #[error("cannot be asked: {0}")]
    Broken(String),
    /// It says no.
    #[error("answered {0}: {1}")]
    Status(StatusCode, String),
    /// It answers something else than was asked for.
    #[error("answered what is not understood: {0}")]
    Strange(#[from] serde_json::Error),
}

impl Https {
    /// A client that believes servers of the CAs in this file, or of those of the machine. It speaks plain HTTP where an address says so.
    ///
    /// # Errors
    /// There are no CAs.
    pub fn new(cas: Option<&Path>) -> Result<Self, String> {
        let connector = HttpsConnectorBuilder::new().with_tls_config(roots_of(cas)?);
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Self(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector)))
    }

    /// Asks for JSON, with an access token if there is one (RFC 6750).
    ///
    /// # Errors
    /// [`HttpsError`]
    pub async fn get<T: DeserializeOwned>(&self, at: &str, token: Option<&str>) -> Result<T, HttpsError> {
        let request = Request::get(at).header(ACCEPT, "application/json");
        let request = match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        self.json(request, String::new()).await
    }

    /// Sends a form, and reads JSON; with a name and a secret if there are some (RFC 6749, section 2.3.1).
    ///
    /// # Errors
    /// [`HttpsError`]
    pub async fn post<T: DeserializeOwned>(
        &self,
        at: &str,
        form: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<T, HttpsError> {
        let escaped = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let request = Request::post(at).header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = match basic {
            Some((name, secret)) => {
                let both = STANDARD.encode(format!("{}:{}", escaped(name), escaped(secret)));
                request.header(AUTHORIZATION, format!("Basic {both}"))
            }
            None => request,
        };
        let form = Serializer::new(String::new()).extend_pairs(form).finish();
        self.json(request, form).await
    }

    async fn json<T: DeserializeOwned>(&self, request: request::Builder, body: String) -> Result<T, HttpsError> {
        let request = request.body(Full::from(body)).map_err(|why| HttpsError::Broken(why.to_string()))?;
        let answer = tokio::time::timeout(ANSWER_MAX, self.answer(request)).await;
        let late = |_| HttpsError::Broken(format!("no answer within {} s", ANSWER_MAX.as_secs()));
        let (status, body) = answer.map_err(late)??;
        if !status.is_success() {
            return Err(HttpsError::Status(status, cleared(&String::from_utf8_lossy(&body), TOLD_CHARS)));
        }
        Ok(serde_json::from_slice(&body)?)
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), HttpsError> {
        // What hyper says first is 'client error (Connect)'.
        let broken = |why: &dyn std::error::Error| {
            HttpsError::Broken(why.source().map_or_else(|| why.to_string(), |source| format!("{why}: {source}")))
        };
        let answer = self.0.request(request).await.map_err(|why| broken(&why))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_LEN_MAX).collect().await;
        Ok((status, body.map_err(|why| HttpsError::Broken(why.to_string()))?.to_bytes()))
    }
}

/// Tells whether what is sent to that address cannot be read on the way: by TLS, or on this machine.
pub fn is_safe(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_here,
        _ => false,
    }
}

/// The configuration of a client of servers that are known by their addresses: by the CAs in this file, or those of the machine.
///
/// # Errors
/// There are none.
fn roots_of(cas: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let (given, whose) = match cas {
        Some(file) => {
            let given = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            (given.map_err(|why| format!("{}: {why}", file.display()))?, file.display().to_string())
        }
        None => (rustls_native_certs::load_native_certs().certs, "this machine's store of CAs".to_owned()),
    };
    if roots.add_parsable_certificates(given).0 == 0 {
        return Err(format!("there is no CA in {whose}"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|why| why.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
