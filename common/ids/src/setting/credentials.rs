//! API keys, and the revocation of certificates.

use super::{Change, Outcome, SettingValue};
use crate::account::ACCOUNTS_MAX;
use crate::api_key::{ApiKey, FormerKey};
use crate::certificate::{REVOCATIONS_MAX, Revocation};
use serde::{Deserialize, Serialize};

/// The credentials that others than users of the console have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Credentials {
    /// All API keys, ascending by name, each once.
    pub keys: Vec<ApiKey>,
    /// Revocations of certificates, ascending by holder, each holder once.
    pub revoked: Vec<Revocation>,
}

impl Credentials {
    /// Tells whether a master can have written them.
    pub(super) fn plausible(&self) -> bool {
        let Self { keys, revoked } = self;
        keys.len() <= ACCOUNTS_MAX
            && keys.is_sorted_by(|a, b| a.name < b.name)
            && keys.iter().all(ApiKey::plausible)
            && revoked.len() <= REVOCATIONS_MAX
            && revoked.is_sorted_by(|a, b| a.role < b.role)
            && revoked.iter().all(Revocation::plausible)
    }

    /// The outcome that a change of them would have.
    pub(super) fn after(&self, change: &Change) -> Outcome {
        let Self { mut keys, mut revoked } = self.clone();
        match change {
            Change::AddKey(key) => match self.keys.iter().find(|one| one.name == key.name) {
                Some(same) if same == key => return Outcome::AlreadySo,
                Some(_) => return Outcome::Taken,
                None if keys.len() >= ACCOUNTS_MAX => return Outcome::TooMany,
                None => keys.push(key.clone()),
            },
            Change::RotateKey { name, former, hash, former_until } => {
                match keys.iter_mut().find(|key| key.name == *name) {
                    Some(key) if key.hash == *hash => return Outcome::AlreadySo,
                    Some(key) if key.hash == *former => {
                        key.former = Some(FormerKey { hash: *former, until: *former_until });
                        key.hash = *hash;
                    }
                    Some(_) => return Outcome::Taken,
                    None => return Outcome::NoSuch,
                }
            }
            Change::RemoveKey(name) => keys.retain(|key| key.name != *name),
            Change::Revoke(wanted) => match revoked.iter_mut().find(|one| one.role == wanted.role) {
                // What was revoked stays so, whatever another master's calendar says.
                Some(one) => one.before = one.before.max(wanted.before),
                None if self.revoked.len() >= REVOCATIONS_MAX => return Outcome::TooMany,
                None => revoked.push(wanted.clone()),
            },
            Change::Reinstate(holder) => revoked.retain(|one| one.role != *holder),
            _ => {}
        }
        keys.sort_unstable();
        revoked.sort_unstable();
        let credentials = Self { keys, revoked };
        if credentials == *self { Outcome::AlreadySo } else { Outcome::Becomes(SettingValue::Credentials(credentials)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Role, SecretHash};
    use crate::api_key::KeyScope;
    use crate::certificate::Role as Holder;
    use crate::time::WallMs;

    fn key(name: &str, byte: u8) -> ApiKey {
        ApiKey::new(name.parse().unwrap(), KeyScope::Console(Role::Viewer), SecretHash([byte; 32]))
    }

    #[test]
    fn keys_come_and_go() {
        let Outcome::Becomes(one) = Change::AddKey(key("a", 1)).outcome(None, &[]) else { panic!() };
        assert_eq!(Change::AddKey(key("a", 1)).outcome(Some(&one), &[]), Outcome::AlreadySo);
        assert_eq!(Change::AddKey(key("a", 2)).outcome(Some(&one), &[]), Outcome::Taken);
        let rotate = |name: &str, byte: u8| {
            let (name, [former, hash]) = (name.parse().unwrap(), [1, byte].map(|byte| SecretHash([byte; 32])));
            Change::RotateKey { name, former, hash, former_until: WallMs(9) }
        };
        let Outcome::Becomes(rotated) = rotate("a", 3).outcome(Some(&one), &[]) else { panic!() };
        let SettingValue::Credentials(Credentials { keys, .. }) = &rotated else { panic!() };
        let opens = |byte: u8, at: i64| keys.iter().any(|key| key.opens(SecretHash([byte; 32]), WallMs(at)));
        assert!(opens(3, 9) && opens(1, 8) && !opens(1, 9) && !opens(2, 0));
        assert_eq!(rotate("a", 3).outcome(Some(&rotated), &[]), Outcome::AlreadySo);
        assert_eq!(rotate("a", 4).outcome(Some(&rotated), &[]), Outcome::Taken, "somebody else did");
        assert_eq!(rotate("b", 3).outcome(Some(&rotated), &[]), Outcome::NoSuch);
        let remove = Change::RemoveKey("a".parse().unwrap());
        assert_eq!(
            remove.outcome(Some(&one), &[]),
            Outcome::Becomes(SettingValue::Credentials(Credentials::default()))
        );
        assert_eq!(remove.outcome(None, &[]), Outcome::AlreadySo);
    }

    #[test]
    fn certificates_are_revoked_once_and_for_longer_and_can_be_reinstated() {
        let revoke = |text: &str| Change::Revoke(text.parse().unwrap());
        let (early, late) = (revoke("client/a 2026-01-01T00:00:00Z"), revoke("client/a 2026-02-01T00:00:00Z"));
        let Outcome::Becomes(one) = early.outcome(None, &[]) else { panic!() };
        assert_eq!(early.outcome(Some(&one), &[]), Outcome::AlreadySo);
        let Outcome::Becomes(other) = late.outcome(Some(&one), &[]) else { panic!() };
        assert_eq!(early.outcome(Some(&other), &[]), Outcome::AlreadySo, "what was revoked stays so");
        let Outcome::Becomes(both) = Change::AddKey(key("a", 1)).outcome(Some(&other), &[]) else { panic!() };
        let SettingValue::Credentials(Credentials { keys, revoked }) = &both else { panic!() };
        assert_eq!((keys.len(), revoked.len()), (1, 1));
        let reinstate = |path: &str| Change::Reinstate(Holder::of_path(path).unwrap());
        assert_eq!(reinstate("agent/a").outcome(Some(&both), &[]), Outcome::AlreadySo);
        let Outcome::Becomes(SettingValue::Credentials(left)) = reinstate("client/a").outcome(Some(&both), &[]) else {
            panic!()
        };
        assert_eq!(left, Credentials { keys: keys.clone(), revoked: Vec::new() });
        let many = (0..REVOCATIONS_MAX).map(|n| format!("agent/a{n:04} 2026-01-01T00:00:00Z").parse().unwrap());
        let full = SettingValue::Credentials(Credentials { keys: Vec::new(), revoked: many.collect() });
        assert_eq!((early.outcome(Some(&full), &[]), early.bound()), (Outcome::TooMany, REVOCATIONS_MAX));
    }

    #[test]
    fn credentials_that_no_master_writes_are_noticed() {
        let credentials = |keys: Vec<ApiKey>, revoked: &[&str]| {
            let revoked = revoked.iter().map(|text| text.parse().unwrap()).collect();
            Credentials { keys, revoked }.plausible()
        };
        let [one, other] = ["agent/a 2026-01-01T00:00:00Z", "client/a 2026-01-01T00:00:00Z"];
        assert!(credentials(vec![key("a", 1), key("b", 2)], &[one, other]));
        assert!(!credentials(vec![key("a", 1), key("a", 2)], &[]));
        assert!(!credentials(Vec::new(), &[other, one]) && !credentials(Vec::new(), &[one, one]));
        assert!(
            !credentials(Vec::new(), &["master/1 2026-01-01T00:00:00Z"]),
            "they could not agree on anything any more"
        );
    }
}
