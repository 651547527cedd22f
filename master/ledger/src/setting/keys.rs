//! The API keys and the revocations of certificates, as masters check them and as agents are told of them.

use super::table::SettingsTable;
use ids::api_key::ApiKey;
use ids::certificate::Revocation;
use ids::setting::{Credentials, Setting, SettingKey, SettingValue};
use wire::lease::{AgentCredentials, CredentialsVersion};

impl SettingsTable {
    /// All API keys.
    pub fn keys(&self) -> &[ApiKey] {
        listed(self.get(&SettingKey::Credentials)).map_or(&[], |listed| &listed.keys)
    }

    /// Revocations of certificates, also those that the other master has not confirmed yet.
    pub fn revoked(&self) -> &[Revocation] {
        listed(self.latest_credentials()).map_or(&[], |listed| &listed.revoked)
    }

    /// The credentials as proposed, if they are: that may be in force at the other master, and comes true in any case.
    fn latest_credentials(&self) -> Option<&Setting> {
        self.prep(&SettingKey::Credentials).or_else(|| self.get(&SettingKey::Credentials))
    }

    /// The API keys that are for agents, and what is revoked, for who has those of `known`. A list of a lower version is given only if both masters are known to hold
    /// it (`settled`), as after their disks were put back: otherwise it may be one that the other master has changed meanwhile.
    pub fn agent_credentials(&self, known: CredentialsVersion, settled: bool) -> Option<AgentCredentials> {
        let setting = self.latest_credentials();
        let version = setting.map_or_else(CredentialsVersion::default, |setting| CredentialsVersion {
            version: setting.version,
            at: setting.at,
        });
        if known == version || version.version < known.version && !settled {
            return None;
        }
        let Credentials { keys, revoked } = listed(setting).cloned().unwrap_or_default();
        let keys = keys.into_iter().filter(|key| key.agents().is_some()).collect();
        Some(AgentCredentials { version, keys, revoked })
    }
}

fn listed(setting: Option<&Setting>) -> Option<&Credentials> {
    match setting.map(|setting| &setting.value) {
        Some(SettingValue::Credentials(credentials)) => Some(credentials),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::put;
    use super::*;
    use ids::account::{Role, SecretHash};
    use ids::api_key::{AgentScope, KeyAction, KeyScope};
    use ids::audit::Actor;
    use ids::setting::{Change, Outcome};
    use ids::time::WallMs;

    #[test]
    fn keys_for_agents_are_told_to_who_has_others_but_no_older_ones_unless_both_masters_hold_them() {
        let mut table = SettingsTable::default();
        assert_eq!(table.agent_credentials(CredentialsVersion::default(), true), None);
        let key = |name: &str, scope| {
            Change::AddKey(ApiKey::new(name.parse().unwrap(), scope, SecretHash::of(name.as_bytes())))
        };
        let names = ["*".parse().unwrap()].into();
        let agents = KeyScope::Agents(AgentScope { actions: [KeyAction::Mint].into(), names, quota: None });
        put(&mut table, &key("shop", agents.clone()));
        put(&mut table, &key("ops", KeyScope::Console(Role::Admin)));
        let told = table.agent_credentials(CredentialsVersion::default(), false).unwrap();
        let shown: Vec<_> = told.keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((told.version.version, shown), (2, vec!["shop"]));
        assert_eq!(table.agent_credentials(told.version, true), None);
        let revocation: Revocation = "client/a 2026-01-01T00:00:00Z".parse().unwrap();
        put(&mut table, &Change::Revoke(revocation.clone()));
        assert_eq!(table.revoked(), std::slice::from_ref(&revocation));
        assert_eq!(table.agent_credentials(told.version, false).unwrap().revoked, [revocation]);
        let told = table.agent_credentials(told.version, true).unwrap();
        // As before its disk was put back: of one version, and of a later one.
        let other = CredentialsVersion { at: WallMs(7), ..told.version };
        assert_eq!(table.agent_credentials(other, false), Some(told.clone()));
        let later = CredentialsVersion { version: 4, at: WallMs(7) };
        assert_eq!([true, false].map(|settled| table.agent_credentials(later, settled).is_some()), [true, false]);
        let Outcome::Becomes(value) = table.outcome(&key("billing", agents)) else { panic!() };
        let prep =
            Setting { key: SettingKey::Credentials, version: 4, value, actor: Actor::new("a", ""), at: WallMs(9) };
        table.put_prep(prep);
        let told = table.agent_credentials(told.version, false).unwrap();
        let shown: Vec<_> = told.keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((told.version, shown), (CredentialsVersion { version: 4, at: WallMs(9) }, vec!["billing", "shop"]));
    }
}
