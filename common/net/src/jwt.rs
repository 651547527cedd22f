//! JSON Web Tokens (RFC 7519) that somebody else signs, checked against that one's keys.
//!
//! Signatures are checked by ring, as those of certificates are.

use common::audit::{TOLD_CHARS, cleared};
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation, decode, decode_header};
use ring::signature as ring;
use serde::de::DeserializeOwned;
use std::sync::Once;

pub use jsonwebtoken::jwk::JwkSet;

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};

/// The reason why a token is not believed.
#[derive(Debug, thiserror::Error)]
pub enum JwtError {
    /// It is none, it has ended, or it is of or for somebody else.
    #[error("{}", cleared(&.0.to_string(), TOLD_CHARS))]
    Wrong(#[from] Error),
    /// No key that is known signed it.
    #[error("it is signed by a key that is not among those of the issuer ({})", cleared(.0, TOLD_CHARS))]
    UnknownKey(String),
    /// Whoever knows its key could have made it.
    #[error("it is signed by {0:?}, and not by a private key")]
    Symmetric(Algorithm),
}

/// The issuer of tokens, and the one that they are for.
#[derive(Clone, Copy, Debug)]
pub struct Parties<'a> {
    /// The claim `iss`.
    pub issuer: &'a str,
    /// The claim `aud`, or one of it.
    pub audience: &'a str,
}

/// Returns the claims of a token that is signed by one of these keys, of this issuer and for this audience, and valid now, to within a minute.
///
/// # Errors
/// [`JwtError`]
pub fn verified<C: DeserializeOwned>(token: &str, keys: &JwkSet, parties: Parties<'_>) -> Result<C, JwtError> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Another one that an application has installed serves as well.
        let _ = BY_RING.install_default();
    });
    let header = decode_header(token)?;
    if matches!(header.alg, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) {
        return Err(JwtError::Symmetric(header.alg));
    }
    let signs = |key: &&Jwk| !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
    let mut keys = keys.keys.iter().filter(signs);
    let key = match &header.kid {
        Some(kid) => keys.find(|key| key.common.key_id.as_ref() == Some(kid)),
        // Without a name it is known if it is the only one.
        None => keys.next().filter(|_| keys.next().is_none()),
    };
    let key = key.ok_or_else(|| {
        JwtError::UnknownKey(header.kid.map_or_else(|| "no kid".to_owned(), |kid| format!("kid {kid}")))
    })?;
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[parties.issuer]);
    validation.set_audience(&[parties.audience]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation.validate_nbf = true;
    Ok(decode(token, &DecodingKey::from_jwk(key)?, &validation)?.claims)
}

static BY_RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(ByRing { algorithm: *algorithm, key: key.clone() })),
    key_utils: KeyUtils::new_unimplemented(),
};

struct ByRing {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for ByRing {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for ByRing {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let rsa = rsa(self.algorithm).ok_or_else(signature::Error::new)?;
                ring::RsaPublicKeyComponents { n, e }.verify(rsa, message, signature)
            }
            DecodingKeyKind::SecretOrDer(point) => {
                let curve = curve(self.algorithm).ok_or_else(signature::Error::new)?;
                ring::UnparsedPublicKey::new(curve, point).verify(message, signature)
            }
        };
        checked.map_err(|_| signature::Error::new())
    }
}

/// The way in which a signature by an RSA key is checked (RFC 7518, sections 3.3 and 3.5).
fn rsa(algorithm: Algorithm) -> Option<&'static ring::RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &ring::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &ring::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &ring::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &ring::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &ring::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &ring::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// The same by a key on a curve (RFC 7518, section 3.4; RFC 8037, section 3.1).
fn curve(algorithm: Algorithm) -> Option<&'static dyn ring::VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &ring::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &ring::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &ring::ED25519,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The payload of the examples of RFC 7515, appendix A.
    const PAYLOAD: &str =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

    /// RFC 7515, appendix A.2 and A.3: the header, the signature and the key.
    fn examples() -> [(&'static str, &'static str, Value); 2] {
        let n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMs\
                 D1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQ\
                 Y4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        let by_rsa = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t\
                      1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12j\
                      zDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQ\
                      Ge77Rw";
        let by_curve = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        let x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
        let y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
        [
            ("eyJhbGciOiJSUzI1NiJ9", by_rsa, json!({"kty": "RSA", "n": n, "e": "AQAB"})),
            ("eyJhbGciOiJFUzI1NiJ9", by_curve, json!({"kty": "EC", "crv": "P-256", "x": x, "y": y})),
        ]
    }

    fn kind(token: &str, keys: &[Value]) -> ErrorKind {
        let keys: JwkSet = serde_json::from_value(json!({"keys": keys})).unwrap();
        match verified::<Value>(token, &keys, Parties { issuer: "joe", audience: "x" }) {
            Err(JwtError::Wrong(why)) => why.into_kind(),
            other => panic!("{other:?}"),
        }
    }

    /// The examples have no audience and ended in 2011, which is looked at once their signature is found right.
    #[test]
    fn the_examples_of_rfc_7515_are_signed_by_their_keys_alone() {
        for (header, signature, key) in examples() {
            let key = [key];
            let token = format!("{header}.{PAYLOAD}.{signature}");
            assert!(matches!(kind(&token, &key), ErrorKind::MissingRequiredClaim(_)), "{:?}", kind(&token, &key));
            let altered = format!("{header}.{}.{signature}", PAYLOAD.replacen("MTkz", "MTk0", 1));
            assert_eq!(kind(&altered, &key), ErrorKind::InvalidSignature);
        }
        let [(rsa, by_rsa, rsa_key), (curve, by_curve, curve_key)] = examples();
        for (header, signature, key) in [(rsa, by_rsa, curve_key), (curve, by_curve, rsa_key)] {
            assert_eq!(kind(&format!("{header}.{PAYLOAD}.{signature}"), &[key]), ErrorKind::InvalidSignature);
        }
    }

    #[test]
    fn a_key_is_known_by_its_name_or_because_it_is_the_only_one() {
        let [(header, signature, key), (_, _, other)] = examples();
        let token = format!("{header}.{PAYLOAD}.{signature}");
        let known = |keys: &[Value]| {
            let keys: JwkSet = serde_json::from_value(json!({"keys": keys})).unwrap();
            !matches!(
                verified::<Value>(&token, &keys, Parties { issuer: "joe", audience: "x" }),
                Err(JwtError::UnknownKey(_))
            )
        };
        assert!(known(std::slice::from_ref(&key)) && !known(&[]) && !known(&[key.clone(), other]));
        let mut enciphers = key;
        enciphers["use"] = json!("enc");
        assert!(!known(&[enciphers]));
    }
}
