//! API keys: what scripts show at the console, and applications at agents. Both masters confirm each change of them, as of any
//! [setting](crate::setting), and agents know those that are for agents.
//!
//! No key is ever in here, only what it can be checked against.

use crate::account::{AccountName, Role, SecretHash};
use crate::namespace::GeneratorName;
use crate::quota::IdQuota;
use crate::time::WallMs;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The beginning of every key, by which it is known where somebody finds it.
pub const KEY_BEGIN: &str = "uniq_";
/// The length of a key, in bytes: the beginning, and 256 bits in hexadecimal digits.
pub const KEY_LEN: usize = KEY_BEGIN.len() + 64;
/// Patterns of names that one key may have.
pub const PATTERNS_MAX: usize = 8;

/// Hours for which a key that is replaced goes on if nothing else is said.
pub const KEEP_HOURS: u32 = 24;
/// Hours for which one may go on at most.
pub const KEEP_HOURS_MAX: u32 = 720;
/// Days that a key with an end may have.
pub const DAYS_MAX: u32 = 3_650;

/// An API key. It has 256 random bits, so its hash needs no salt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ApiKey {
    /// The name.
    pub name: AccountName,
    /// The calls that it opens.
    pub scope: KeyScope,
    /// Its SHA-256.
    pub hash: SecretHash,
    /// The first instant at which it opens nothing any more; `None`: it does not end.
    pub until: Option<WallMs>,
    /// The key that it replaced, as long as that one opens the same.
    pub former: Option<FormerKey>,
}

/// A key that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FormerKey {
    /// Its SHA-256.
    pub hash: SecretHash,
    /// The first instant at which it opens nothing any more.
    pub until: WallMs,
}

/// The calls that a key opens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyScope {
    /// Calls of the masters' API that a role may make.
    Console(Role),
    /// Calls of agents.
    Agents(AgentScope),
}

/// The calls of agents that a key opens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentScope {
    /// The actions, at least one.
    pub actions: BTreeSet<KeyAction>,
    /// The names that it may mint by or define, 1 to [`PATTERNS_MAX`].
    pub names: BTreeSet<NamePattern>,
    /// The most IDs that it gives; `None`: as many as there are.
    pub quota: Option<IdQuota>,
}

/// An action at an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyAction {
    /// Take IDs, and numbers of keys.
    Mint,
    /// Register what a name stands for.
    Define,
    /// Take an ID apart.
    Explain,
    /// Read the agent's state, its names, and its metrics.
    Status,
}

impl KeyAction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mint, Self::Define, Self::Explain, Self::Status];

    /// The name in JSON and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mint => "mint",
            Self::Define => "define",
            Self::Explain => "explain",
            Self::Status => "status",
        }
    }
}

impl fmt::Display for KeyAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyAction {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|action| action.name() == name);
        found.ok_or_else(|| "an action is mint, define, explain or status".to_owned())
    }
}

/// A generator's name, or the beginning of names with `*` behind it; `*` alone stands for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePattern(String);

/// A text that is no pattern of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern is a generator's name, such as orders, the beginning of names with * behind it, such as orders-*, or * for all"
)]
pub struct NamePatternError;

impl NamePattern {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether it stands for that name.
    pub fn fits(&self, name: &str) -> bool {
        self.0.strip_suffix('*').map_or(self.0 == name, |begin| name.starts_with(begin))
    }
}

impl FromStr for NamePattern {
    type Err = NamePatternError;
    fn from_str(text: &str) -> Result<Self, NamePatternError> {
        let begin = text.strip_suffix('*');
        let is_name = |text: &str| text.parse::<GeneratorName>().is_ok();
        let is_pattern = begin == Some("") || is_name(begin.unwrap_or(text));
        is_pattern.then(|| Self(text.to_owned())).ok_or(NamePatternError)
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for NamePattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for NamePattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl AgentScope {
    /// Tells whether it opens that action on that name; `None`: one that is not about a name.
    pub fn opens(&self, action: KeyAction, name: Option<&str>) -> bool {
        self.actions.contains(&action) && name.is_none_or(|name| self.names.iter().any(|pattern| pattern.fits(name)))
    }
}

impl fmt::Display for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Console(role) => role.fmt(f),
            Self::Agents(scope) => {
                let join = |texts: Vec<&str>| texts.join(" ");
                let actions = join(scope.actions.iter().map(|action| action.name()).collect());
                write!(
                    f,
                    "{actions} at agents, names {}",
                    join(scope.names.iter().map(NamePattern::as_str).collect())
                )?;
                scope.quota.map_or(Ok(()), |quota| write!(f, ", at most {quota}"))
            }
        }
    }
}

impl ApiKey {
    /// A key without an end.
    pub fn new(name: AccountName, scope: KeyScope, hash: SecretHash) -> Self {
        Self { name, scope, hash, until: None, former: None }
    }

    /// Tells whether a key of that hash is this one, or the one that it replaced, and opens something at `now`.
    pub fn opens(&self, hash: SecretHash, now: WallMs) -> bool {
        let is_former = |former: FormerKey| former.hash == hash && now < former.until;
        (self.hash == hash || self.former.is_some_and(is_former)) && self.until.is_none_or(|until| now < until)
    }

    /// The role that it has at the masters' API, if it has one.
    pub fn role(&self) -> Option<Role> {
        match self.scope {
            KeyScope::Console(role) => Some(role),
            KeyScope::Agents(_) => None,
        }
    }

    /// The calls of agents that it opens, if it opens any.
    pub fn agents(&self) -> Option<&AgentScope> {
        match &self.scope {
            KeyScope::Console(_) => None,
            KeyScope::Agents(scope) => Some(scope),
        }
    }

    /// Tells whether a master can have written it.
    pub fn plausible(&self) -> bool {
        let scope = |scope: &AgentScope| !scope.actions.is_empty() && (1..=PATTERNS_MAX).contains(&scope.names.len());
        self.agents().is_none_or(scope) && self.former.is_none_or(|former| former.hash != self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(actions: &[KeyAction], names: &[&str]) -> AgentScope {
        let names = names.iter().map(|name| name.parse().unwrap()).collect();
        AgentScope { actions: actions.iter().copied().collect(), names, quota: None }
    }

    #[test]
    fn a_pattern_is_a_name_or_the_beginning_of_names() {
        for (pattern, fits, not) in [
            ("orders", &["orders"][..], &["orders2", "order", "", "Orders"][..]),
            ("orders-*", &["orders-", "orders-eu"], &["orders", "order-eu"]),
            ("*", &["orders", "default", "a"], &[]),
            ("default", &["default"], &["defaults"]),
        ] {
            let pattern: NamePattern = pattern.parse().unwrap();
            assert!(fits.iter().all(|name| pattern.fits(name)), "{pattern}");
            assert!(!not.iter().any(|name| pattern.fits(name)), "{pattern}");
        }
        for bad in ["", "**", "*a", "a*b", "A*", "a b", ".a*", "a/b", "a%*"] {
            assert_eq!(bad.parse::<NamePattern>(), Err(NamePatternError), "{bad}");
        }
    }

    #[test]
    fn a_scope_opens_its_actions_on_its_names() {
        let minting = scope(&[KeyAction::Mint, KeyAction::Status], &["orders", "eu-*"]);
        assert!(minting.opens(KeyAction::Mint, Some("orders")) && minting.opens(KeyAction::Mint, Some("eu-1")));
        assert!(!minting.opens(KeyAction::Mint, Some("other")) && !minting.opens(KeyAction::Define, Some("orders")));
        assert!(minting.opens(KeyAction::Status, None) && !minting.opens(KeyAction::Explain, None));
        assert_eq!(KeyScope::Agents(minting).to_string(), "mint status at agents, names eu-* orders");
        for action in KeyAction::ALL {
            assert_eq!(action.name().parse(), Ok(action));
        }
        assert!("write".parse::<KeyAction>().is_err());
    }

    #[test]
    fn a_key_opens_until_its_end_and_the_one_it_replaced_until_its_own() {
        let [new, old, other] = [1, 2, 3].map(|byte| SecretHash([byte; 32]));
        let key = ApiKey::new("app".parse().unwrap(), KeyScope::Agents(scope(&[KeyAction::Mint], &["*"])), new);
        let former = Some(FormerKey { hash: old, until: WallMs(50) });
        let key = ApiKey { until: Some(WallMs(100)), former, ..key };
        assert!(key.plausible() && key.opens(new, WallMs(99)) && !key.opens(new, WallMs(100)));
        assert!(key.opens(old, WallMs(49)) && !key.opens(old, WallMs(50)) && !key.opens(other, WallMs(0)));
        assert!(!ApiKey { scope: KeyScope::Agents(scope(&[], &["*"])), ..key.clone() }.plausible());
        assert!(!ApiKey { scope: KeyScope::Agents(scope(&[KeyAction::Mint], &[])), ..key.clone() }.plausible());
        assert!(!ApiKey { former: Some(FormerKey { hash: new, until: WallMs(50) }), ..key }.plausible());
    }
}
