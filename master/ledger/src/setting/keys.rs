//! The API keys, as masters check them and as agents are told of them.

use super::table::SettingsTable;
use ids::api_key::ApiKey;
use ids::setting::{Setting, SettingKey, SettingValue};
use wire::lease::{AgentKeys, KeysVersion};

impl SettingsTable {
    /// All API keys.
    pub fn keys(&self) -> &[ApiKey] {
        listed(self.get(&SettingKey::Keys))
    }

    /// The API keys that are for agents, for who has those of `known`. A list of a lower version is given only if both masters are known to hold
    /// it (`settled`), as after their disks were put back: otherwise it may be one that the other master has changed meanwhile.
    pub fn agent_keys(&self, known: KeysVersion, settled: bool) -> Option<AgentKeys> {
        // What is proposed may be in force at the other master, and comes true in any case.
        let setting = self.prep(&SettingKey::Keys).or_else(|| self.get(&SettingKey::Keys));
        let version = setting
            .map_or_else(KeysVersion::default, |setting| KeysVersion { version: setting.version, at: setting.at });
        if known == version || version.version < known.version && !settled {
            return None;
        }
        let keys = listed(setting).iter().filter(|key| key.agents().is_some()).cloned().collect();
        Some(AgentKeys { version, keys })
    }
}

fn listed(setting: Option<&Setting>) -> &[ApiKey] {
    match setting.map(|setting| &setting.value) {
        Some(SettingValue::Keys(keys)) => keys,
        _ => &[],
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
        assert_eq!(table.agent_keys(KeysVersion::default(), true), None);
        let key = |name: &str, scope| {
            Change::AddKey(ApiKey::new(name.parse().unwrap(), scope, SecretHash::of(name.as_bytes())))
        };
        let names = ["*".parse().unwrap()].into();
        let agents = KeyScope::Agents(AgentScope { actions: [KeyAction::Mint].into(), names, quota: None });
        put(&mut table, &key("shop", agents.clone()));
        put(&mut table, &key("ops", KeyScope::Console(Role::Admin)));
        let told = table.agent_keys(KeysVersion::default(), false).unwrap();
        let shown: Vec<_> = told.keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((told.version.version, shown), (2, vec!["shop"]));
        assert_eq!(table.agent_keys(told.version, true), None);
        // As before its disk was put back: of one version, and of a later one.
        let other = KeysVersion { at: WallMs(7), ..told.version };
        assert_eq!(table.agent_keys(other, false), Some(told.clone()));
        let later = KeysVersion { version: 3, at: WallMs(7) };
        assert_eq!([true, false].map(|settled| table.agent_keys(later, settled).is_some()), [true, false]);
        let Outcome::Becomes(value) = table.outcome(&key("billing", agents)) else { panic!() };
        let prep = Setting { key: SettingKey::Keys, version: 3, value, actor: Actor::new("a", ""), at: WallMs(9) };
        table.put_prep(prep);
        let told = table.agent_keys(told.version, false).unwrap();
        let shown: Vec<_> = told.keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((told.version, shown), (KeysVersion { version: 3, at: WallMs(9) }, vec!["billing", "shop"]));
    }
}
