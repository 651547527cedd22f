//! Settings of the whole cluster: who may ask for leases, and what generators' names stand for. Each is a record that both
//! masters confirm, like a lease.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::audit::Actor;
use crate::namespace::{GeneratorKind, GeneratorName, Namespace};
use crate::terms::MasterId;
use crate::time::WallMs;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Networks in the whitelist at most.
pub const NETWORKS_MAX: usize = 1_024;
/// Registered namespaces at most: together with the whitelist they fit one page of an exchange of tables.
pub const NAMESPACES_MAX: usize = 1_024;

/// What a setting is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SettingKey {
    /// Who may ask for leases.
    Whitelist,
    /// What a generator's name stands for.
    Namespace(GeneratorName),
}

impl SettingKey {
    /// The one master that proposes changes of it, so that two never propose different ones.
    pub fn home(&self) -> MasterId {
        let sum = match self {
            Self::Whitelist => 0,
            Self::Namespace(name) => name.as_str().bytes().fold(1, u8::wrapping_add),
        };
        if sum & 1 == 1 { MasterId::One } else { MasterId::Two }
    }
}

impl fmt::Display for SettingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whitelist => f.write_str("whitelist"),
            Self::Namespace(name) => name.fmt(f),
        }
    }
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SettingValue {
    /// The networks, ascending, each once.
    Whitelist(Vec<IpNet>),
    /// The definition; it never changes.
    Namespace(Box<Namespace>),
}

/// A setting as both masters hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// What it is about.
    pub key: SettingKey,
    /// Grows by one with each change.
    pub version: u64,
    /// What it is since then.
    pub value: SettingValue,
    /// Who changed it.
    pub actor: Actor,
    /// When, by the calendar of the master that proposed it.
    pub at: WallMs,
}

impl Setting {
    /// Whether a master can have written it: the key fits the value, and nothing is larger than it may be.
    pub fn plausible(&self) -> bool {
        match (&self.key, &self.value) {
            (SettingKey::Whitelist, SettingValue::Whitelist(networks)) => {
                networks.len() <= NETWORKS_MAX && networks.is_sorted_by(|a, b| a < b)
            }
            (SettingKey::Namespace(name), SettingValue::Namespace(namespace)) => name == namespace.name(),
            _ => false,
        }
    }
}

/// What somebody wants changed. Wanting it twice is wanting it once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// This network may ask for leases.
    Allow(IpNet),
    /// It may not any more.
    Disallow(IpNet),
    /// A name stands for this.
    Define(Box<Namespace>),
}

/// What a change would make of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is so already.
    AlreadySo,
    /// This.
    Becomes(SettingValue),
    /// The name stands for something else, for ever.
    Taken,
    /// The whitelist would have more than [`NETWORKS_MAX`] networks.
    TooMany,
}

impl Change {
    /// Which setting it is about.
    pub fn key(&self) -> SettingKey {
        match self {
            Self::Allow(_) | Self::Disallow(_) => SettingKey::Whitelist,
            Self::Define(namespace) => SettingKey::Namespace(namespace.name().clone()),
        }
    }

    /// What it makes of `known`. `first` is the whitelist as long as none was ever written down.
    pub fn outcome(&self, known: Option<&SettingValue>, first: &[IpNet]) -> Outcome {
        let networks = match known {
            Some(SettingValue::Whitelist(networks)) => networks,
            _ => first,
        };
        match self {
            Self::Define(wanted) => define(wanted, known),
            Self::Allow(network) => {
                let mut networks = networks.to_vec();
                networks.push(network.trunc());
                whitelist(known, networks)
            }
            Self::Disallow(network) => {
                let mut networks = networks.to_vec();
                networks.retain(|known| known.trunc() != network.trunc());
                whitelist(known, networks)
            }
        }
    }
}

fn whitelist(known: Option<&SettingValue>, networks: Vec<IpNet>) -> Outcome {
    let mut networks: Vec<IpNet> = networks.iter().map(IpNet::trunc).collect();
    networks.sort_unstable();
    networks.dedup();
    if networks.len() > NETWORKS_MAX {
        return Outcome::TooMany;
    }
    let value = SettingValue::Whitelist(networks);
    if known == Some(&value) { Outcome::AlreadySo } else { Outcome::Becomes(value) }
}

fn define(wanted: &Namespace, known: Option<&SettingValue>) -> Outcome {
    if wanted.name().is_default() {
        let same = wanted.same_ids(&Namespace::default_of(wanted.kind()));
        return if same { Outcome::AlreadySo } else { Outcome::Taken };
    }
    match known {
        Some(SettingValue::Namespace(known)) if known.same_ids(wanted) => Outcome::AlreadySo,
        Some(_) => Outcome::Taken,
        None => Outcome::Becomes(SettingValue::Namespace(Box::new(wanted.clone()))),
    }
}

/// The namespaces that exist without being registered.
pub fn predefined() -> impl Iterator<Item = Namespace> {
    GeneratorKind::ALL.into_iter().map(Namespace::default_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Definition;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn orders(step: u32, reset: bool) -> Box<Namespace> {
        let definition = Definition {
            kind: GeneratorKind::Uniq64,
            token_type: None,
            template: None,
            everyday_reset: Some(reset),
            step: Some(step),
        };
        Box::new(Namespace::define("orders".parse().unwrap(), &definition).unwrap())
    }

    #[test]
    fn the_first_whitelist_is_what_the_flags_say_until_one_is_written_down() {
        let first = [net("127.0.0.0/8")];
        let Outcome::Becomes(both) = Change::Allow(net("10.1.2.3/8")).outcome(None, &first) else { panic!() };
        assert_eq!(both, SettingValue::Whitelist(vec![net("10.0.0.0/8"), net("127.0.0.0/8")]));
        assert_eq!(Change::Allow(net("10.9.9.9/8")).outcome(Some(&both), &first), Outcome::AlreadySo);
        assert_eq!(Change::Disallow(net("192.168.0.0/16")).outcome(Some(&both), &first), Outcome::AlreadySo);
        let Outcome::Becomes(one) = Change::Disallow(net("127.0.0.0/8")).outcome(Some(&both), &first) else { panic!() };
        assert_eq!(one, SettingValue::Whitelist(vec![net("10.0.0.0/8")]));
        let many = (0..NETWORKS_MAX as u32).map(|n| net(&format!("{}/32", std::net::Ipv4Addr::from(n)))).collect();
        let full = SettingValue::Whitelist(many);
        assert_eq!(Change::Allow(net("10.0.0.0/8")).outcome(Some(&full), &first), Outcome::TooMany);
    }

    #[test]
    fn a_name_is_defined_once_and_for_all() {
        let Outcome::Becomes(known) = Change::Define(orders(10, false)).outcome(None, &[]) else { panic!() };
        assert_eq!(Change::Define(orders(10, false)).outcome(Some(&known), &[]), Outcome::AlreadySo);
        // The step says how often the file is written, not which IDs come out.
        assert_eq!(Change::Define(orders(20, false)).outcome(Some(&known), &[]), Outcome::AlreadySo);
        assert_eq!(Change::Define(orders(10, true)).outcome(Some(&known), &[]), Outcome::Taken);
        for namespace in predefined() {
            assert_eq!(Change::Define(Box::new(namespace)).outcome(None, &[]), Outcome::AlreadySo);
        }
    }

    #[test]
    fn a_record_that_no_master_writes_is_noticed() {
        let setting = |key, value| Setting { key, version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) };
        let (a, b) = (net("10.0.0.0/8"), net("11.0.0.0/8"));
        assert!(setting(SettingKey::Whitelist, SettingValue::Whitelist(vec![a, b])).plausible());
        assert!(!setting(SettingKey::Whitelist, SettingValue::Whitelist(vec![b, a])).plausible());
        assert!(!setting(SettingKey::Whitelist, SettingValue::Namespace(orders(1, true))).plausible());
        let other = SettingKey::Namespace("other".parse().unwrap());
        assert!(!setting(other, SettingValue::Namespace(orders(1, true))).plausible());
    }

    #[test]
    fn both_masters_are_home_to_some() {
        let home = |name: &str| SettingKey::Namespace(name.parse().unwrap()).home();
        assert_ne!(home("a"), home("b"));
    }
}
