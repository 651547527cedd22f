//! Sums over all settings, kept as these come and go.

use ids::namespace::{GeneratorName, Namespace};
use ids::setting::{RetiredName, Setting, SettingKey, SettingValue, is_known_by_name};
use ids::time::WallMs;
use std::collections::{BTreeMap, BTreeSet};

/// Counts of the settings of which there may be many, and the times at which names were registered. Derived from the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Counts {
    pub(super) names: usize,
    pub(super) retired: usize,
    pub(super) free: usize,
    pub(super) abouts: usize,
    pub(super) axes: usize,
    pub(super) registered: BTreeSet<(WallMs, GeneratorName)>,
    /// Retired names of which the digest would do, by the time when they were.
    pub(super) retired_at: BTreeSet<(WallMs, GeneratorName)>,
    /// Names that are known by more than their digests.
    pub(super) by_digest: BTreeMap<RetiredName, GeneratorName>,
    /// Counts the names that are known by their digests alone, with the sum of a number for each of them.
    pub(super) shortened: (usize, u64),
    /// The sum of a number for each name.
    pub(super) digest: u64,
}

impl Counts {
    fn of(&mut self, value: &SettingValue) -> Option<&mut usize> {
        match value {
            SettingValue::Namespace(_) | SettingValue::Unused(_) => Some(&mut self.names),
            SettingValue::Retired(_) => Some(&mut self.retired),
            SettingValue::Free => Some(&mut self.free),
            SettingValue::About(_) => Some(&mut self.abouts),
            SettingValue::Axis(_) => Some(&mut self.axes),
            SettingValue::Whitelist(_)
            | SettingValue::Users(_)
            | SettingValue::Credentials(_)
            | SettingValue::RetiredNames(_) => None,
        }
    }

    pub(super) fn add(&mut self, setting: &Setting) {
        self.digest = self.digest.wrapping_add(number_of(setting));
        if let Some(count) = self.of(&setting.value) {
            *count += 1;
        }
        if let Some(namespace) = setting.value.namespace().filter(|_| setting.value.is_living()) {
            self.registered.insert((setting.at, namespace.name().clone()));
        }
        if let SettingKey::Namespace(name) = &setting.key {
            self.by_digest.insert(RetiredName::of(name), name.clone());
        }
        match &setting.value {
            SettingValue::Retired(namespace) if is_known_by_name(namespace) => {
                self.retired_at.insert((setting.at, namespace.name().clone()));
            }
            SettingValue::RetiredNames(names) => {
                self.shortened.0 += names.len();
                self.shortened.1 = self.shortened.1.wrapping_add(number_of(setting));
            }
            _ => {}
        }
    }

    pub(super) fn remove(&mut self, setting: &Setting) {
        self.digest = self.digest.wrapping_sub(number_of(setting));
        if let Some(count) = self.of(&setting.value) {
            *count = count.saturating_sub(1);
        }
        if let Some(namespace) = setting.value.namespace().filter(|_| setting.value.is_living()) {
            self.registered.remove(&(setting.at, namespace.name().clone()));
        }
        if let SettingKey::Namespace(name) = &setting.key {
            self.by_digest.remove(&RetiredName::of(name));
        }
        match &setting.value {
            SettingValue::Retired(namespace) => {
                self.retired_at.remove(&(setting.at, namespace.name().clone()));
            }
            SettingValue::RetiredNames(names) => {
                self.shortened.0 = self.shortened.0.saturating_sub(names.len());
                self.shortened.1 = self.shortened.1.wrapping_sub(number_of(setting));
            }
            _ => {}
        }
    }
}

/// A number that stands for a name and what it stands for, or for several retired ones, whatever is kept of these; 0 for all other settings.
fn number_of(setting: &Setting) -> u64 {
    match (&setting.key, &setting.value) {
        (SettingKey::Namespace(name), SettingValue::Retired(_)) => RetiredName::of(name).number(),
        (SettingKey::Namespace(name), value) => {
            let definition = value.namespace().map_or(0, Namespace::checksum).rotate_left(u32::BITS);
            (name.checksum() ^ definition).wrapping_add(setting.version)
        }
        (_, SettingValue::RetiredNames(names)) => names.iter().map(RetiredName::number).fold(0, u64::wrapping_add),
        _ => 0,
    }
}
