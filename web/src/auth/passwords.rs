//! Hashing and checking of passwords: argon2id, on threads of its own kind, few at a time.

use crate::masters::Unavailable;
use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The shortest password that may be set, in characters.
pub const PASSWORD_CHARS_MIN: usize = 10;
/// The longest password, in bytes. More is refused before it is hashed.
pub const PASSWORD_LEN_MAX: usize = 256;
/// Memory that one hash takes, in KiB, and the passes over it. Of the pairs that OWASP counts as equally strong for
/// argon2id the one with the least memory: the allocator keeps what a hash once took.
const MEMORY_KIB: u32 = 7 * 1_024;
const PASSES: u32 = 5;
/// The most that a hash in the ledger may ask for: whoever can write one shall not be able to use up the memory.
const MEMORY_KIB_MAX: u32 = 64 * 1_024;
const PASSES_MAX: u32 = 16;
/// Hashes at a time: they bound the memory.
const AT_ONCE_MAX: usize = 2;
/// Hashes that wait for their turn at most; one more is refused as overload.
const WAITING_MAX: usize = 16;

/// The one place where passwords are hashed.
pub(crate) struct Passwords {
    concurrent: Arc<Semaphore>,
    seats: Arc<Semaphore>,
    /// A hash of nothing anybody knows: unknown names take as long as known ones.
    dummy: String,
}

impl Passwords {
    pub(crate) fn new() -> Self {
        let mut nobody = [0; 32];
        rand::fill(&mut nobody);
        Self {
            concurrent: Arc::new(Semaphore::new(AT_ONCE_MAX)),
            seats: Arc::new(Semaphore::new(AT_ONCE_MAX + WAITING_MAX)),
            dummy: hash(&nobody).unwrap_or_default(),
        }
    }

    /// Tells whether `password` is the one of `phc`. Takes as long if there is none.
    pub(crate) async fn verify(&self, password: String, phc: Option<String>) -> Result<bool, Unavailable> {
        let known = phc.is_some();
        let phc = phc.unwrap_or_else(|| self.dummy.clone());
        let fits = self.in_turn(move || verify(password.as_bytes(), &phc)).await?;
        Ok(fits && known)
    }

    /// The hash of a new password, in PHC's form.
    pub(crate) async fn hash(&self, password: String) -> Result<String, Unavailable> {
        self.in_turn(move || hash(password.as_bytes())).await?.ok_or(Unavailable::Overloaded)
    }

    async fn in_turn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unavailable> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| Unavailable::Overloaded)?;
        let turn = Arc::clone(&self.concurrent).acquire_owned().await.map_err(|_| Unavailable::ShuttingDown)?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            // Held until here even if nobody waits for the answer any more.
            drop((seat, turn));
            result
        });
        done.await.map_err(|_| Unavailable::ShuttingDown)
    }
}

fn argon2() -> Option<Argon2<'static>> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).ok()?;
    Some(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

/// The hash of `password` in PHC's form, with a salt of its own. It takes some 20 ms and 7 MiB. `None` if the system has
/// no random numbers.
pub fn hash(password: &[u8]) -> Option<String> {
    let salt = SaltString::generate(&mut OsRng);
    Some(argon2()?.hash_password(password, &salt).ok()?.to_string())
}

/// Tells whether this is the password of a hash in PHC's form; never of one that asks for more memory or passes than a hash may.
pub fn verify(password: &[u8], phc: &str) -> bool {
    let Some((argon2, phc)) = argon2().zip(PasswordHash::new(phc).ok()) else { return false };
    let bounded = Params::try_from(&phc).is_ok_and(|p| p.m_cost() <= MEMORY_KIB_MAX && p.t_cost() <= PASSES_MAX);
    bounded && password.len() <= PASSWORD_LEN_MAX && argon2.verify_password(password, &phc).is_ok()
}

/// Checks that a password may be set.
///
/// # Errors
/// The sentence that says why not.
pub fn acceptable(password: &str, user: &str) -> Result<(), String> {
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_LEN_MAX {
        return Err(format!(
            "a password has at least {PASSWORD_CHARS_MIN} characters and at most {PASSWORD_LEN_MAX} bytes"
        ));
    }
    let first = password.chars().next();
    if password.to_lowercase().contains(user)
        && password.chars().count() < user.chars().count() + PASSWORD_CHARS_MIN / 2
    {
        return Err("a password is more than the name and a few characters".to_owned());
    }
    if password.chars().all(|c| Some(c) == first) {
        return Err("a password is more than one character again and again".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_fits_its_own_hash_only() {
        let passwords = Passwords::new();
        let phc = passwords.hash("correct horse".to_owned()).await.unwrap();
        assert!(phc.starts_with("$argon2id$v=19$m=7168,t=5,p=1$"), "{phc}");
        assert_ne!(phc, passwords.hash("correct horse".to_owned()).await.unwrap(), "each has a salt of its own");
        for (password, phc, fits) in [
            ("correct horse", Some(phc.clone()), true),
            ("correct horsf", Some(phc), false),
            ("correct horse", None, false),
            ("correct horse", Some("no hash".to_owned()), false),
            ("", Some("$argon2id$v=19$m=4194304,t=9999,p=1$c29tZXNhbHQ$c29tZWhhc2hzb21laGFzaA".to_owned()), false),
        ] {
            assert_eq!(passwords.verify(password.to_owned(), phc).await, Ok(fits));
        }
    }

    #[tokio::test]
    async fn too_many_at_once_are_refused() {
        let passwords = Passwords::new();
        let many = (0..100).map(|_| passwords.verify("x".to_owned(), None));
        let answers = futures::future::join_all(many).await;
        assert!(answers.contains(&Ok(false)) && answers.contains(&Err(Unavailable::Overloaded)));
    }

    #[test]
    fn weak_passwords_are_refused() {
        for weak in ["", "short", "aaaaaaaaaaaaaaaa", "jane.doe12", &"x y".repeat(100)] {
            assert!(acceptable(weak, "jane.doe").is_err(), "{weak}");
        }
        assert!(acceptable("correct horse", "jane.doe").is_ok());
    }
}
