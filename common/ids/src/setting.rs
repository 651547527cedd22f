//! Settings of the whole cluster: who may ask for leases, what generators' names stand for and what is noted about them, and who
//! may use the console.
//! Each is a record that both masters confirm, like a lease.

mod credentials;
mod names;
mod networks;
mod retired;

pub use credentials::Credentials;
pub use names::{collision, predefined};
pub use networks::{NetworkError, canonical, host_network, network};
pub use retired::{RETIRED_KEPT, RETIRED_NAMES_MAX, RetiredName, RetiredNames, is_known_by_name};

use crate::about::About;
use crate::account::{ACCOUNTS_MAX, AccountName, Role, SecretHash, TotpSecret, User};
use crate::api_key::ApiKey;
use crate::audit::Actor;
use crate::certificate::{REVOCATIONS_MAX, Revocation, Role as Holder};
use crate::namespace::{GeneratorName, Namespace};
use crate::parameters::MasterId;
use crate::segment::{Axis, MasterRun};
use crate::time::{SpanMs, WallMs};
use ipnet::IpNet;
use names::{define, restored, used};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Networks in the whitelist at most.
pub const NETWORKS_MAX: usize = 1_024;
/// Registered namespaces at most.
pub const NAMESPACES_MAX: usize = 16_384;
/// Retired names at most of which more than the name is kept.
pub const RETIRED_MAX: usize = 131_072;
/// Names at most that were taken back before anybody used them, and were not registered again since.
pub const FREE_MAX: usize = 131_072;
/// The largest length of the notes about all names together, in bytes ([`About::len`]): 256 for each of [`NAMESPACES_MAX`].
pub const ABOUTS_LEN_MAX: usize = 256 * NAMESPACES_MAX;

/// Names that one caller of an agent may register at once.
pub const CALLER_NAMES_AT_ONCE: u32 = 30;
/// Time after which a caller that has registered [`CALLER_NAMES_AT_ONCE`] may register another.
pub const CALLER_NAME_EACH: SpanMs = SpanMs::seconds(30);
/// Callers that may register as much together as their agent may for all: one alone leaves something to the others.
const NAME_CALLERS: u32 = 3;
/// Names that one network may register at a master at once, and so an agent for all of its callers.
pub const NAMES_AT_ONCE: u32 = CALLER_NAMES_AT_ONCE * NAME_CALLERS;
/// Time after which a network that has registered [`NAMES_AT_ONCE`] may register another.
pub const NAME_EACH: SpanMs = SpanMs(CALLER_NAME_EACH.0 / NAME_CALLERS as i64);

/// The subject of a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SettingKey {
    /// The networks that may ask for leases.
    Whitelist,
    /// The definition of a generator's name.
    Namespace(GeneratorName),
    /// The users of the console.
    Users,
    /// The API keys, and what is revoked of certificates.
    Credentials,
    /// The note about a generator's name.
    About(GeneratorName),
    /// The state of a segment's axis.
    Axis(GeneratorName),
    /// A part of the names that are retired and known by their digests alone. Behind all others: whoever has the same is not sent them.
    RetiredNames(u16),
}

impl SettingKey {
    /// The one master that proposes changes of it, so that two never propose different ones.
    pub fn home(&self) -> MasterId {
        match self {
            Self::Whitelist | Self::Credentials => MasterId::Two,
            // At home with the master that draws the first admin's password.
            Self::Users => MasterId::One,
            // All with one: whether two names can give equal IDs is decided where all of them are known.
            Self::Namespace(_) => MasterId::One,
            // Where it is known whether there is such a name.
            Self::About(_) => MasterId::One,
            // Where names are retired.
            Self::RetiredNames(_) => MasterId::One,
            Self::Axis(name) => home_of(name),
        }
    }
}

/// The one master that proposes what often changes of a name: names are spread over both.
pub fn home_of(name: &GeneratorName) -> MasterId {
    if name.checksum() & 1 == 1 { MasterId::One } else { MasterId::Two }
}

impl fmt::Display for SettingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whitelist => f.write_str("whitelist"),
            Self::Users => f.write_str("users"),
            Self::Credentials => f.write_str("credentials"),
            Self::Namespace(name) => name.fmt(f),
            Self::About(name) => write!(f, "about {name}"),
            Self::Axis(name) => write!(f, "axis of {name}"),
            Self::RetiredNames(part) => write!(f, "retired names, part {part}"),
        }
    }
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SettingValue {
    /// The networks, ascending, each once.
    Whitelist(Vec<IpNet>),
    /// The definition of a name in use: agents may have given IDs by it, so it never changes.
    Namespace(Box<Namespace>),
    /// All users, ascending by name, each once; one of them is an admin.
    Users(Vec<User>),
    /// The API keys, and what is revoked of certificates.
    Credentials(Credentials),
    /// The definition that a name had until it was retired: it gives no more IDs, and stands for nothing else, ever.
    Retired(Box<Namespace>),
    /// The note about a name; empty if it is again as if nothing ever was.
    About(Box<About>),
    /// The state of an axis: how far it is granted, and to whom last.
    Axis(Box<Axis>),
    /// The definition of a name by which nobody has given an ID: none is given before both masters hold that it is in use.
    Unused(Box<Namespace>),
    /// Nothing: a name that was taken back before it was in use, and may stand for anything.
    Free,
    /// A part of the names that are retired and known by their digests alone.
    RetiredNames(Box<RetiredNames>),
}

impl SettingValue {
    /// The definition that a name has, or had until it was retired.
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Namespace(namespace) | Self::Retired(namespace) | Self::Unused(namespace) => Some(namespace),
            _ => None,
        }
    }

    /// A name by which agents may have given IDs.
    pub fn used(&self) -> Option<&Namespace> {
        self.namespace().filter(|_| !matches!(self, Self::Unused(_)))
    }

    /// Tells whether it is a name that stands for something and was not retired.
    pub fn is_living(&self) -> bool {
        matches!(self, Self::Namespace(_) | Self::Unused(_))
    }

    /// Tells whether it is a name that gives no more IDs.
    pub fn is_retired(&self) -> bool {
        matches!(self, Self::Retired(_))
    }
}

/// A setting as both masters hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The subject.
    pub key: SettingKey,
    /// Grows by one with each change.
    pub version: u64,
    /// The value since then.
    pub value: SettingValue,
    /// The actor who changed it.
    pub actor: Actor,
    /// Time of the change, by the calendar of the master that proposed it.
    pub at: WallMs,
}

impl Setting {
    /// Tells whether a master can have written it: the key fits the value, and nothing is larger than it may be.
    pub fn plausible(&self) -> bool {
        match (&self.key, &self.value) {
            (SettingKey::Whitelist, SettingValue::Whitelist(networks)) => {
                networks.len() <= NETWORKS_MAX && networks.is_sorted_by(|a, b| a < b)
            }
            (SettingKey::Namespace(name), SettingValue::Free) => !name.is_default(),
            (SettingKey::Namespace(name), value) => {
                value.namespace().is_some_and(|namespace| name == namespace.name()) && !name.is_default()
            }
            (SettingKey::RetiredNames(part), SettingValue::RetiredNames(names)) => names.plausible(*part),
            // Its parts are checked when it is read.
            (SettingKey::About(name), SettingValue::About(_)) => !name.is_default(),
            // What it has to do with its definition and with what was granted before, whoever knows these says.
            (SettingKey::Axis(name), SettingValue::Axis(axis)) => !name.is_default() && axis.floor <= axis.granted,
            (SettingKey::Users, SettingValue::Users(users)) => {
                users.len() <= ACCOUNTS_MAX
                    && users.is_sorted_by(|a, b| a.name < b.name)
                    && users.iter().all(User::plausible)
                    && has_admin(users)
            }
            (SettingKey::Credentials, SettingValue::Credentials(credentials)) => credentials.plausible(),
            _ => false,
        }
    }
}

/// A change that somebody wants. Wanting it twice is wanting it once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    /// The network may ask for leases.
    Allow(IpNet),
    /// The network may not any more.
    Disallow(IpNet),
    /// A name stands for this.
    Define(Box<Namespace>),
    /// The first user, if there is none.
    FirstAdmin(User),
    /// A new user.
    AddUser(User),
    /// A user's new password, as its hash.
    SetPassword {
        /// The user's name.
        name: AccountName,
        /// The hash in PHC's form.
        phc: String,
    },
    /// A user's logins need one-time codes of that secret, or none any more.
    SetTotp {
        /// The user's name.
        name: AccountName,
        /// The secret; `None`: none are needed.
        secret: Option<TotpSecret>,
    },
    /// A user gets another role.
    SetRole {
        /// The user's name.
        name: AccountName,
        /// The role.
        role: Role,
    },
    /// A user is removed.
    RemoveUser(AccountName),
    /// A new API key.
    AddKey(ApiKey),
    /// A key is replaced, and opens the same.
    RotateKey {
        /// The key's name.
        name: AccountName,
        /// The hash of the present one.
        former: SecretHash,
        /// The hash of the new one.
        hash: SecretHash,
        /// The first instant at which the one before opens nothing any more.
        former_until: WallMs,
    },
    /// A key is removed.
    RemoveKey(AccountName),
    /// A holder's certificates are revoked.
    Revoke(Revocation),
    /// Nothing is revoked of that holder any more.
    Reinstate(Holder),
    /// A name gives no more IDs, and is never used again if any were given.
    Retire(GeneratorName),
    /// A retired name is reduced to a digest.
    Shorten(GeneratorName),
    /// A name gets another note.
    About {
        /// The name.
        name: GeneratorName,
        /// All of it.
        about: Box<About>,
    },
    /// A run of a master is to be granted a further part of an axis.
    Extend {
        /// The name.
        name: GeneratorName,
        /// The place before which all is granted as the one who asks knows it: what was granted meanwhile answers the question.
        granted: u64,
        /// The master.
        master: MasterId,
        /// The run of that master.
        run: MasterRun,
        /// The number of places.
        wanted: u64,
    },
    /// An operator says that no agent was granted the places of an axis below one, whatever agents show.
    Dismiss {
        /// The name.
        name: GeneratorName,
        /// The place after the last one that is shown.
        below: u64,
    },
    /// The places of an axis below one are not granted or used any more.
    Raise {
        /// The name.
        name: GeneratorName,
        /// The first place that may be used.
        to: u64,
    },
    /// IDs are to be given by a name that stands for this.
    Use(Box<Namespace>),
    /// IDs were given by a name that stands for this.
    Restore {
        /// The definition.
        namespace: Box<Namespace>,
        /// Tells whether the name was retired since.
        retired: bool,
        /// Tells whether masters of this cluster said so.
        proved: bool,
    },
}

/// The outcome of a change of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The setting is so already.
    AlreadySo,
    /// The setting becomes this.
    Becomes(SettingValue),
    /// The name stands for something else, for ever.
    Taken,
    /// There would be more of them than there may be.
    TooMany,
    /// There is nobody of that name.
    NoSuch,
    /// Nobody could manage users any more.
    LastAdmin,
    /// The name was retired.
    Retired,
    /// There is no such name, or it is one that always exists.
    NoSuchName,
    /// The notes about all names would be longer than [`ABOUTS_LEN_MAX`].
    AboutsFull,
    /// An axis is raised to where something is granted already, or beyond its end.
    NotRaised {
        /// The place before which all is granted.
        granted: u64,
        /// Its last place.
        last: u64,
    },
    /// The strings of both names cannot be proved to differ.
    Collides {
        /// The other name.
        name: GeneratorName,
        /// Its template.
        template: String,
        /// A string that both can write; empty if none was found.
        example: String,
    },
}

impl Change {
    /// The setting that it is about.
    pub fn key(&self) -> SettingKey {
        match self {
            Self::Allow(_) | Self::Disallow(_) => SettingKey::Whitelist,
            Self::Define(namespace) | Self::Use(namespace) | Self::Restore { namespace, .. } => {
                SettingKey::Namespace(namespace.name().clone())
            }
            Self::Retire(name) => SettingKey::Namespace(name.clone()),
            Self::Shorten(name) => SettingKey::RetiredNames(RetiredName::of(name).part()),
            Self::About { name, .. } => SettingKey::About(name.clone()),
            Self::Extend { name, .. } | Self::Raise { name, .. } | Self::Dismiss { name, .. } => {
                SettingKey::Axis(name.clone())
            }
            Self::FirstAdmin(_)
            | Self::AddUser(_)
            | Self::SetPassword { .. }
            | Self::SetTotp { .. }
            | Self::SetRole { .. }
            | Self::RemoveUser(_) => SettingKey::Users,
            Self::AddKey(_) | Self::RotateKey { .. } | Self::RemoveKey(_) | Self::Revoke(_) | Self::Reinstate(_) => {
                SettingKey::Credentials
            }
        }
    }

    /// The name that it is about, if it is about one.
    pub fn name(&self) -> Option<&GeneratorName> {
        match self {
            Self::Define(namespace) | Self::Use(namespace) | Self::Restore { namespace, .. } => Some(namespace.name()),
            Self::Retire(name)
            | Self::Shorten(name)
            | Self::About { name, .. }
            | Self::Extend { name, .. }
            | Self::Raise { name, .. }
            | Self::Dismiss { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The largest number of what it is about; of notes about names, of bytes.
    pub fn bound(&self) -> usize {
        match self.key() {
            SettingKey::Whitelist => NETWORKS_MAX,
            SettingKey::Namespace(_) if matches!(self, Self::Retire(_) | Self::Restore { retired: true, .. }) => {
                RETIRED_MAX
            }
            SettingKey::Namespace(_) | SettingKey::Axis(_) => NAMESPACES_MAX,
            SettingKey::RetiredNames(_) => RETIRED_NAMES_MAX,
            SettingKey::About(_) => ABOUTS_LEN_MAX,
            SettingKey::Credentials if matches!(self, Self::Revoke(_)) => REVOCATIONS_MAX,
            SettingKey::Users | SettingKey::Credentials => ACCOUNTS_MAX,
        }
    }

    /// The outcome for a setting that is `known` now. `first` is the whitelist as long as none was ever written down. Whoever
    /// knows all settings has to check the rest: whether there is such a name, and room.
    pub fn outcome(&self, known: Option<&SettingValue>, first: &[IpNet]) -> Outcome {
        let networks = match known {
            Some(SettingValue::Whitelist(networks)) => networks,
            _ => first,
        };
        match self {
            Self::Define(wanted) => define(wanted, known),
            Self::Retire(_) => match known {
                Some(SettingValue::Namespace(namespace)) => Outcome::Becomes(SettingValue::Retired(namespace.clone())),
                Some(SettingValue::Unused(_)) => Outcome::Becomes(SettingValue::Free),
                Some(SettingValue::Retired(_) | SettingValue::Free) => Outcome::AlreadySo,
                _ => Outcome::NoSuchName,
            },
            Self::Shorten(name) => {
                let none = RetiredNames::default();
                let names = match known {
                    Some(SettingValue::RetiredNames(names)) => &**names,
                    _ => &none,
                };
                match names.with(RetiredName::of(name)) {
                    Some(more) if more == *names => Outcome::AlreadySo,
                    Some(more) => Outcome::Becomes(SettingValue::RetiredNames(Box::new(more))),
                    None => Outcome::TooMany,
                }
            }
            Self::Use(wanted) => used(wanted, known),
            Self::Restore { namespace, retired, proved } => restored(namespace, *retired, *proved, known),
            Self::About { about, .. } => match known {
                Some(SettingValue::About(known)) if known == about => Outcome::AlreadySo,
                None if about.is_empty() => Outcome::AlreadySo,
                _ => Outcome::Becomes(SettingValue::About(about.clone())),
            },
            // What becomes of an axis depends on the name's definition.
            Self::Extend { .. } | Self::Raise { .. } | Self::Dismiss { .. } => Outcome::NoSuchName,
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
            _ => match known {
                Some(SettingValue::Users(users)) => self.users_outcome(users),
                Some(SettingValue::Credentials(credentials)) => credentials.after(self),
                _ if self.key() == SettingKey::Credentials => Credentials::default().after(self),
                _ => self.users_outcome(&[]),
            },
        }
    }

    fn users_outcome(&self, known: &[User]) -> Outcome {
        let mut users = known.to_vec();
        match self {
            Self::FirstAdmin(user) if known.is_empty() => users.push(user.clone()),
            Self::AddUser(user) => match known.iter().find(|one| one.name == user.name) {
                Some(same) if same == user => return Outcome::AlreadySo,
                Some(_) => return Outcome::Taken,
                None if known.len() >= ACCOUNTS_MAX => return Outcome::TooMany,
                None => users.push(user.clone()),
            },
            Self::SetPassword { name, phc } => match users.iter_mut().find(|user| user.name == *name) {
                Some(user) => user.phc.clone_from(phc),
                None => return Outcome::NoSuch,
            },
            Self::SetTotp { name, secret } => match users.iter_mut().find(|user| user.name == *name) {
                Some(user) => user.totp = *secret,
                None => return Outcome::NoSuch,
            },
            Self::SetRole { name, role } => match users.iter_mut().find(|user| user.name == *name) {
                Some(user) => user.role = *role,
                None => return Outcome::NoSuch,
            },
            Self::RemoveUser(name) => users.retain(|user| user.name != *name),
            _ => {}
        }
        users.sort_unstable();
        if users == known {
            Outcome::AlreadySo
        } else if has_admin(&users) {
            Outcome::Becomes(SettingValue::Users(users))
        } else {
            Outcome::LastAdmin
        }
    }
}

fn has_admin(users: &[User]) -> bool {
    users.iter().any(|user| user.role == Role::Admin)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::about::AboutSource;
    use crate::namespace::{Definition, Scope, Uniq64Spec};

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn orders(step: u32, reset: bool) -> Box<Namespace> {
        let scope = Scope::Own;
        let definition = Definition::Uniq64(Uniq64Spec {
            everyday_reset: Some(reset),
            step: Some(Namespace::STEP_MIN + step),
            scope: Some(scope),
            ..Uniq64Spec::default()
        });
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
        let many = (0..NETWORKS_MAX as u32).map(|n| net(&format!("{}/32", core::net::Ipv4Addr::from(n)))).collect();
        let full = SettingValue::Whitelist(many);
        assert_eq!(Change::Allow(net("10.0.0.0/8")).outcome(Some(&full), &first), Outcome::TooMany);
    }

    fn user(name: &str, role: Role) -> User {
        User { name: name.parse().unwrap(), role, phc: "$argon2id$v=19$x".to_owned(), totp: None }
    }

    #[test]
    fn there_is_always_an_admin_and_the_first_one_comes_once() {
        let (admin, other) = (user("admin", Role::Admin), user("other", Role::Admin));
        let becomes = |change: Change, known: Option<&SettingValue>| match change.outcome(known, &[]) {
            Outcome::Becomes(value) => value,
            other => panic!("{change:?}: {other:?}"),
        };
        assert_eq!(Change::AddUser(user("v", Role::Viewer)).outcome(None, &[]), Outcome::LastAdmin);
        let one = becomes(Change::FirstAdmin(admin.clone()), None);
        assert_eq!(Change::FirstAdmin(other.clone()).outcome(Some(&one), &[]), Outcome::AlreadySo);
        assert_eq!(Change::RemoveUser(admin.name.clone()).outcome(Some(&one), &[]), Outcome::LastAdmin);
        let demoted = Change::SetRole { name: admin.name.clone(), role: Role::Operator };
        assert_eq!(demoted.outcome(Some(&one), &[]), Outcome::LastAdmin);
        let two = becomes(Change::AddUser(other.clone()), Some(&one));
        assert_eq!(Change::AddUser(other.clone()).outcome(Some(&two), &[]), Outcome::AlreadySo);
        assert_eq!(Change::AddUser(user("other", Role::Viewer)).outcome(Some(&two), &[]), Outcome::Taken);
        let gone = becomes(Change::RemoveUser(admin.name.clone()), Some(&two));
        assert_eq!(Change::RemoveUser(admin.name.clone()).outcome(Some(&gone), &[]), Outcome::AlreadySo);
        let password = Change::SetPassword { name: admin.name, phc: "$argon2id$new".to_owned() };
        assert_eq!(password.outcome(Some(&gone), &[]), Outcome::NoSuch);
        let changed = becomes(password, Some(&two));
        assert_ne!(changed, two);
        let full = (0..ACCOUNTS_MAX).map(|n| user(&format!("u{n:04}"), Role::Admin)).collect();
        assert_eq!(Change::AddUser(other).outcome(Some(&SettingValue::Users(full)), &[]), Outcome::TooMany);
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
        let users = |all: &[User]| setting(SettingKey::Users, SettingValue::Users(all.to_vec())).plausible();
        let (a, b) = (user("a", Role::Admin), user("b", Role::Viewer));
        assert!(users(&[a.clone(), b.clone()]));
        assert!(!users(&[b.clone(), a.clone()]) && !users(&[a.clone(), a]) && !users(&[b]));
    }

    #[test]
    fn what_is_noted_about_a_name_changes_and_can_be_taken_back() {
        let about = |owner: &str| {
            let source = AboutSource { owner: owner.to_owned(), ..AboutSource::default() };
            let about = Box::new(About::new(source).unwrap());
            Change::About { name: "orders".parse().unwrap(), about }
        };
        assert_eq!(about("").outcome(None, &[]), Outcome::AlreadySo);
        let Outcome::Becomes(jane) = about("jane").outcome(None, &[]) else { panic!() };
        assert_eq!(about(" jane ").outcome(Some(&jane), &[]), Outcome::AlreadySo);
        let Outcome::Becomes(nobody) = about("").outcome(Some(&jane), &[]) else { panic!() };
        assert_eq!(nobody, SettingValue::About(Box::default()));
        assert!(matches!(about("olga").outcome(Some(&nobody), &[]), Outcome::Becomes(_)));
        let setting = |key, value| Setting { key, version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) };
        assert!(setting(about("").key(), jane.clone()).plausible());
        assert!(!setting(SettingKey::Namespace("orders".parse().unwrap()), jane.clone()).plausible());
        assert!(!setting(SettingKey::About(GeneratorName::default()), jane).plausible());
        assert_eq!(about("").key().home(), MasterId::One);
    }

    #[test]
    fn names_have_one_home_and_the_other_master_is_home_to_the_whitelist() {
        let home = |name: &str| SettingKey::Namespace(name.parse().unwrap()).home();
        assert_eq!((home("a"), home("b")), (MasterId::One, MasterId::One));
        assert_eq!(SettingKey::Whitelist.home(), MasterId::Two);
    }
}
