//! The settings one master knows, and the changes of them that are under way.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::lease::event::RequestId;
use common::account::{ApiKey, User};
use common::audit::Actor;
use common::setting::{Change, NAMESPACES_MAX, Outcome, Setting, SettingKey, SettingValue};
use common::time::BootMs;
use ipnet::IpNet;
use std::collections::BTreeMap;

/// Changes that wait for the other master at once; one more is refused.
pub(super) const WAITING_MAX: usize = 1_024;

/// Settings at most: the namespaces, and the whitelist, the users and the keys.
const SETTINGS_MAX: usize = NAMESPACES_MAX + 3;

/// Settings, proposals of them, and who waits for what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Book {
    settings: BTreeMap<SettingKey, Setting>,
    preps: BTreeMap<SettingKey, Setting>,
    pub(super) waiting: Vec<Waiter>,
    /// When each proposal was last sent.
    pub(super) sent_at: BTreeMap<SettingKey, BootMs>,
    /// The whitelist as long as none was ever written down.
    first_whitelist: Vec<IpNet>,
}

/// Somebody who wants a change and has not been answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) id: RequestId,
    pub(super) change: Change,
    pub(super) actor: Actor,
    pub(super) give_up_at: BootMs,
}

impl Book {
    /// What a store held.
    pub(crate) fn new(settings: Vec<Setting>, preps: Vec<Setting>) -> Self {
        let by_key = |all: Vec<Setting>| all.into_iter().map(|setting| (setting.key.clone(), setting)).collect();
        Self { settings: by_key(settings), preps: by_key(preps), ..Self::default() }
    }

    pub(crate) fn set_first_whitelist(&mut self, networks: Vec<IpNet>) {
        self.first_whitelist = networks;
    }

    /// A setting.
    pub fn get(&self, key: &SettingKey) -> Option<&Setting> {
        self.settings.get(key)
    }

    /// A change of a setting that the other master has not confirmed yet.
    pub fn prep(&self, key: &SettingKey) -> Option<&Setting> {
        self.preps.get(key)
    }

    /// All settings, ascending.
    pub fn all(&self) -> impl Iterator<Item = &Setting> {
        self.settings.values()
    }

    /// All changes that are not confirmed, ascending.
    pub fn preps(&self) -> impl Iterator<Item = &Setting> {
        self.preps.values()
    }

    /// Who may ask for leases.
    pub fn whitelist(&self) -> &[IpNet] {
        match self.settings.get(&SettingKey::Whitelist).map(|setting| &setting.value) {
            Some(SettingValue::Whitelist(networks)) => networks,
            _ => &self.first_whitelist,
        }
    }

    /// Who may log in; `None` as long as the cluster never had users.
    pub fn users(&self) -> Option<&[User]> {
        match &self.settings.get(&SettingKey::Users)?.value {
            SettingValue::Users(users) => Some(users),
            _ => None,
        }
    }

    /// Which keys scripts may use.
    pub fn keys(&self) -> &[ApiKey] {
        match self.settings.get(&SettingKey::Keys).map(|setting| &setting.value) {
            Some(SettingValue::Keys(keys)) => keys,
            _ => &[],
        }
    }

    /// What a change would make of what is known now.
    pub(super) fn outcome(&self, change: &Change) -> Outcome {
        let known = self.settings.get(&change.key());
        let outcome = change.outcome(known.map(|setting| &setting.value), &self.first_whitelist);
        let full = known.is_none() && self.settings.len() + self.preps.len() >= SETTINGS_MAX;
        if full && matches!(outcome, Outcome::Becomes(_)) { Outcome::TooMany } else { outcome }
    }

    /// Whether there is room for a record that the other master sends.
    pub(super) fn has_room_for(&self, key: &SettingKey) -> bool {
        self.settings.contains_key(key) || self.settings.len() < SETTINGS_MAX
    }

    pub(super) fn put(&mut self, setting: Setting) {
        self.settings.insert(setting.key.clone(), setting);
    }

    pub(super) fn put_prep(&mut self, prep: Setting) {
        self.preps.insert(prep.key.clone(), prep);
    }

    pub(super) fn drop_prep(&mut self, key: &SettingKey) {
        self.preps.remove(key);
        self.sent_at.remove(key);
    }
}
