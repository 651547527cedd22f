//! One-time codes beside the password (TOTP, RFC 6238), as every authenticator app makes them: SHA-1, six digits, steps of 30 s.

use common::account::{AccountName, TotpSecret};
use common::time::{SECOND_MS, WallMs};
use std::collections::BTreeMap;
use totp_rs::{Builder, Secret, Totp};

/// The name under which apps list their codes.
const ISSUER: &str = "UniqGenerator";
/// Steps before and after the present one whose codes count, because clocks differ.
const SKEW: u16 = 1;

/// A new secret.
pub(crate) fn draw() -> TotpSecret {
    let mut bytes = [0; 20];
    rand::fill(&mut bytes);
    TotpSecret(bytes)
}

/// The secret in base32, as people type it into an app.
pub(crate) fn in_base32(secret: TotpSecret) -> String {
    Secret::new_stack(secret.0).to_base32()
}

/// Reads a secret of 160 bits in base32. Whoever brings one of another length brings one that not every app takes.
///
/// # Errors
/// The reason why it is none.
pub(crate) fn read(text: &str) -> Result<TotpSecret, &'static str> {
    let secret = Secret::try_from_base32(text).ok();
    let bytes = secret.and_then(|secret| secret.as_bytes().try_into().ok());
    bytes.map(TotpSecret).ok_or("secret: write 20 bytes in base32, 32 characters of A-Z 2-7")
}

/// The address that an app reads, as a QR code or typed.
pub(crate) fn uri(name: &AccountName, secret: TotpSecret) -> String {
    format!("otpauth://totp/{ISSUER}:{name}?secret={}&issuer={ISSUER}", in_base32(secret))
}

/// Tells whether that is a code of now.
pub(crate) fn fits(secret: TotpSecret, code: &str, now: WallMs) -> bool {
    step(secret, code, now).is_some()
}

/// The step whose code that is, if it is near now.
fn step(secret: TotpSecret, code: &str, now: WallMs) -> Option<u64> {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).take(16).collect();
    codes(secret).check(&code, u64::try_from(now.0 / SECOND_MS).ok()?)
}

fn codes(secret: TotpSecret) -> Totp {
    Builder::new().with_secret(Secret::new_stack(secret.0)).with_skew(SKEW).build_noncompliant()
}

/// The last step whose code each user has used at this master: a code opens nothing a second time.
#[derive(Debug, Default)]
pub(super) struct UsedCodes(BTreeMap<AccountName, u64>);

impl UsedCodes {
    /// Takes that code for used. `false` if it is none of now, or one of no later step than the last.
    pub(super) fn take(&mut self, user: &AccountName, secret: TotpSecret, code: &str, now: WallMs) -> bool {
        let Some(step) = step(secret, code, now) else { return false };
        // Codes of older steps count no more in any case.
        self.0.retain(|_, used| *used + 2 * u64::from(SKEW) >= step);
        let is_new = self.0.get(user).is_none_or(|used| *used < step);
        if is_new {
            self.0.insert(user.clone(), step);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6238, appendix B: the secret is 12345678901234567890, and codes of six digits are the last six of those.
    const SECRET: TotpSecret = TotpSecret(*b"12345678901234567890");

    fn at(seconds: i64) -> WallMs {
        WallMs(seconds * SECOND_MS)
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        for (seconds, code) in
            [(59, "287082"), (1_111_111_109, "081804"), (1_234_567_890, "005924"), (20_000_000_000, "353130")]
        {
            assert!(fits(SECRET, code, at(seconds)), "{seconds}");
            assert!(fits(SECRET, &format!(" {} {}", &code[..3], &code[3..]), at(seconds + 30)), "as apps show it");
            assert!(!fits(SECRET, code, at(seconds + 90)) && !fits(SECRET, code, at(seconds - 90)));
        }
        for none in ["", "28708", "2870822", "28708x", "२८७०८२", &"2".repeat(1_000)] {
            assert!(!fits(SECRET, none, at(59)), "{none}");
        }
        assert!(!fits(SECRET, "287082", at(-1)));
    }

    #[test]
    fn a_secret_is_written_as_apps_read_it() {
        let text = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
        assert_eq!((in_base32(SECRET).as_str(), read(text)), (text, Ok(SECRET)));
        let expected = format!("otpauth://totp/UniqGenerator:olga?secret={text}&issuer=UniqGenerator");
        assert_eq!(uri(&"olga".parse().unwrap(), SECRET), expected);
        for bad in ["", "GEZDGNBV", "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJ1", &text.repeat(2)] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_ne!(draw(), draw());
    }

    #[test]
    fn a_code_opens_nothing_a_second_time() {
        let (mut used, [olga, ivan]) = (UsedCodes::default(), ["olga", "ivan"].map(|name| name.parse().unwrap()));
        assert!(used.take(&olga, SECRET, "287082", at(59)) && !used.take(&olga, SECRET, "287082", at(61)));
        assert!(used.take(&ivan, SECRET, "287082", at(59)), "another one's");
        let earlier = codes(SECRET).generate(29).to_string();
        assert!(!used.take(&olga, SECRET, &earlier, at(59)), "also none of before");
        assert!(used.take(&olga, SECRET, "081804", at(1_111_111_109)) && used.0.len() == 1);
    }
}
