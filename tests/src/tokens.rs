//! Somebody who signs JSON Web Tokens: the API server of a Kubernetes, an identity provider.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::time::SystemTime;

/// A signer with a key of its own, `kid` one.
pub struct Signer(EcdsaKeyPair);

#[allow(clippy::expect_used, reason = "a test that cannot sign has nothing to try")]
impl Signer {
    /// One with another key than all others.
    ///
    /// # Panics
    /// If no key can be drawn.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key is drawn");
        Self(EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).expect("and read"))
    }

    /// Its key, as a JSON Web Key Set.
    pub fn keys(&self) -> Value {
        let point = self.0.public_key().as_ref();
        let [x, y] = [1..33, 33..65].map(|half| URL_SAFE_NO_PAD.encode(point.get(half).unwrap_or_default()));
        json!({"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "one", "x": x, "y": y}]})
    }

    /// A token with that header, whatever it says; with an HMAC by the public key if it says HS256.
    ///
    /// # Panics
    /// If nothing can be signed.
    pub fn signed(&self, header: &Value, claims: &Value) -> String {
        let [first, second] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let said = format!("{first}.{second}");
        let signature = match header["alg"].as_str() {
            Some("HS256") => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.public_key().as_ref());
                hmac::sign(&key, said.as_bytes()).as_ref().to_vec()
            }
            _ => self.0.sign(&SystemRandom::new(), said.as_bytes()).expect("it is signed").as_ref().to_vec(),
        };
        format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// A token as it should be.
    pub fn token(&self, claims: &Value) -> String {
        self.signed(&json!({"alg": "ES256", "kid": "one"}), claims)
    }
}

/// Seconds since 1970, as tokens count.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
