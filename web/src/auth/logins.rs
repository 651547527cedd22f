//! Logins at one master. Pure: the time, and what is random, come in.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::account::{Login, Person, SecretHash};
use common::time::{DAY_MS, HOUR_MS, SpanMs, WallMs};
use std::collections::BTreeMap;

/// Logins at a time at most; one more ends the one that was unused longest.
pub(crate) const LOGINS_MAX: usize = 1_024;
/// Logins of one person at a time at most, in the same way.
pub(crate) const LOGINS_OF_ONE_MAX: usize = 16;
/// Time without use after which a login ends.
pub(crate) const IDLE_MAX: SpanMs = SpanMs(2 * HOUR_MS);
/// Time after which a login ends even if it is used.
pub(crate) const AGE_MAX: SpanMs = SpanMs(DAY_MS);
/// The longest time by which the last use on the disk may be late.
const USED_GRAIN: SpanMs = SpanMs(5 * 60_000);

/// A change to be written down: `None` removes.
pub(crate) type Kept = (SecretHash, Option<Login>);

/// All logins at this master.
#[derive(Debug, Default)]
pub(crate) struct Logins(BTreeMap<SecretHash, Login>);

impl Logins {
    /// The logins that were written down.
    pub(crate) fn new(kept: Vec<(SecretHash, Login)>) -> Self {
        Self(kept.into_iter().collect())
    }

    /// Takes in a new login. Returns what has to be written down.
    pub(crate) fn open(&mut self, hash: SecretHash, login: Login, now: WallMs) -> Vec<Kept> {
        let mut kept = self.purge(now);
        let own = |one: &Login| one.person.is(&login.person);
        while self.0.values().filter(|one| own(one)).count() >= LOGINS_OF_ONE_MAX {
            kept.extend(self.drop_stalest(own));
        }
        while self.0.len() >= LOGINS_MAX {
            kept.extend(self.drop_stalest(|_| true));
        }
        kept.push((hash, Some(login.clone())));
        self.0.insert(hash, login);
        kept
    }

    /// The login under `hash`, if it has not run out; and it itself if its use is news to the disk.
    pub(crate) fn use_it(&mut self, hash: SecretHash, now: WallMs) -> Option<(Login, Option<Kept>)> {
        let login = self.0.get_mut(&hash).filter(|login| lives(login, now))?;
        let news = now - login.used >= USED_GRAIN;
        if news {
            login.used = now;
        }
        Some((login.clone(), news.then(|| (hash, Some(login.clone())))))
    }

    /// The logins that have not run out.
    pub(crate) fn living(&self, now: WallMs) -> impl Iterator<Item = (SecretHash, &Login)> {
        self.0.iter().filter(move |(_, login)| lives(login, now)).map(|(hash, login)| (*hash, login))
    }

    /// Ends a login, because its user logs out or may not stay.
    pub(crate) fn close(&mut self, hash: SecretHash) -> Option<Kept> {
        self.0.remove(&hash).map(|_| (hash, None))
    }

    /// Ends all logins of a person.
    pub(crate) fn close_all_of(&mut self, person: &Person) -> Vec<Kept> {
        self.drop_those(|login| login.person.is(person))
    }

    fn purge(&mut self, now: WallMs) -> Vec<Kept> {
        self.drop_those(|login| !lives(login, now))
    }

    fn drop_those(&mut self, which: impl Fn(&Login) -> bool) -> Vec<Kept> {
        let over: Vec<SecretHash> = self.0.iter().filter(|(_, login)| which(login)).map(|(hash, _)| *hash).collect();
        over.into_iter().filter_map(|hash| self.close(hash)).collect()
    }

    fn drop_stalest(&mut self, among: impl Fn(&Login) -> bool) -> Option<Kept> {
        let stalest = self.0.iter().filter(|(_, login)| among(login)).min_by_key(|(_, login)| login.used);
        let hash = stalest.map(|(hash, _)| *hash)?;
        self.close(hash)
    }
}

/// The instant at which a login ends if it is not used again.
pub(crate) fn ends(login: &Login) -> WallMs {
    (login.used + IDLE_MAX).min(login.began + AGE_MAX)
}

/// A clock that was set back makes no login older, and one that was set back by much ends it.
fn lives(login: &Login, now: WallMs) -> bool {
    let (idle, age) = (now - login.used, now - login.began);
    idle < IDLE_MAX && age < AGE_MAX && age >= SpanMs(-HOUR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMs = WallMs(1_000 * DAY_MS);

    fn hash(n: usize) -> SecretHash {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        SecretHash(bytes)
    }

    fn login(user: &str, at: WallMs) -> Login {
        Login { person: Person::User(user.parse().unwrap()), proof: hash(1), csrf: hash(2), began: at, used: at }
    }

    #[test]
    fn a_login_ends_when_it_is_not_used_and_when_it_is_old() {
        let mut logins = Logins::default();
        logins.open(hash(1), login("a", NOW), NOW);
        let mut now = NOW;
        while now - NOW < AGE_MAX {
            assert!(logins.use_it(hash(1), now).is_some(), "in use");
            now = now + SpanMs(IDLE_MAX.0 - 1);
        }
        assert!(logins.use_it(hash(1), NOW + AGE_MAX).is_none());
        let (used, began) = (NOW + IDLE_MAX, NOW + AGE_MAX);
        assert_eq!(ends(&login("a", NOW)), used);
        assert_eq!(ends(&Login { used: began + SpanMs(-1), ..login("a", NOW) }), began);
        let mut logins = Logins::default();
        logins.open(hash(2), login("a", NOW), NOW);
        assert_eq!((logins.living(used + SpanMs(-1)).count(), logins.living(used).count()), (1, 0));
        assert!(logins.use_it(hash(2), used).is_none());
        assert!(logins.use_it(hash(2), NOW + SpanMs(-2 * HOUR_MS)).is_none(), "the clock was set back");
        assert!(logins.use_it(hash(3), NOW).is_none());
    }

    #[test]
    fn there_are_so_many_and_no_more_and_the_stalest_goes_first() {
        let mut logins = Logins::default();
        for n in 0..LOGINS_OF_ONE_MAX + 3 {
            logins.open(hash(n), login("a", NOW + SpanMs(n as i64)), NOW);
        }
        assert_eq!(logins.0.len(), LOGINS_OF_ONE_MAX);
        assert!(logins.use_it(hash(2), NOW).is_none() && logins.use_it(hash(3), NOW).is_some());
        for n in 0..2 * LOGINS_MAX {
            logins.open(hash(1_000 + n), login(&format!("u{n}"), NOW), NOW);
        }
        assert_eq!(logins.0.len(), LOGINS_MAX);
        let kept = logins.open(hash(9), login("z", NOW + AGE_MAX), NOW + AGE_MAX);
        assert_eq!((kept.len(), logins.0.len()), (LOGINS_MAX + 1, 1), "what ran out is removed from the disk too");
    }

    #[test]
    fn use_is_written_down_now_and_then() {
        let mut logins = Logins::default();
        logins.open(hash(1), login("a", NOW), NOW);
        assert!(logins.use_it(hash(1), NOW + SpanMs(1)).unwrap().1.is_none());
        assert!(logins.use_it(hash(1), NOW + USED_GRAIN).unwrap().1.is_some());
        assert!(logins.use_it(hash(1), NOW + USED_GRAIN).unwrap().1.is_none());
    }

    #[test]
    fn all_of_one_person_end() {
        let mut logins = Logins::default();
        for (n, user) in ["a", "b", "a"].into_iter().enumerate() {
            logins.open(hash(n), login(user, NOW), NOW);
        }
        assert_eq!(logins.close_all_of(&Person::User("a".parse().unwrap())), [(hash(0), None), (hash(2), None)]);
        assert!(logins.use_it(hash(1), NOW).is_some());
        assert!(logins.close(hash(7)).is_none());
    }
}
