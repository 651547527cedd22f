//! The settings one master knows, and the changes of them that are under way.

use super::counts::Counts;
use crate::lease::event::RequestId;
use crate::lease::proposals::Proposals;
use ids::account::User;
use ids::audit::Actor;
use ids::namespace::{GeneratorName, Namespace, Scope};
use ids::segment::{Axis, SegmentDefinition};
use ids::setting::{
    ABOUTS_LEN_MAX, Change, FREE_MAX, NAMESPACES_MAX, Outcome, RETIRED_KEPT, RETIRED_MAX, RETIRED_NAMES_MAX,
    RetiredName, Setting, SettingKey, SettingValue, collision, is_known_by_name,
};
use ids::time::{Now, SpanMs, WallMs};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use wire::peer::SETTINGS_PAGE_LEN_MAX;

/// Changes that wait for the other master at once; one more is refused.
pub(crate) const WAITING_MAX: usize = 1_024;

/// Settings, proposals of them, and who waits for what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SettingsTable {
    settings: BTreeMap<SettingKey, Setting>,
    counts: Counts,
    preps: BTreeMap<SettingKey, Setting>,
    pub(crate) changes: Proposals<SettingKey, RequestId, Wish>,
    /// The whitelist as long as none was ever written down.
    first_whitelist: Vec<IpNet>,
    other_first_whitelist: Vec<IpNet>,
    /// The user to be proposed as the first one at the first step.
    first_admin: Option<User>,
}

/// A change that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub(crate) change: Change,
    pub(crate) actor: Actor,
}

impl SettingsTable {
    /// The table of a store's settings and proposals.
    pub(crate) fn new(settings: Vec<Setting>, preps: Vec<Setting>) -> Self {
        let mut table = Self::default();
        for setting in settings {
            table.put(setting);
        }
        preps.into_iter().for_each(|prep| table.put_prep(prep));
        table
    }

    pub(crate) fn set_first_whitelist(&mut self, networks: Vec<IpNet>) {
        self.first_whitelist = networks;
    }

    pub(crate) fn set_first_admin(&mut self, user: Option<User>) {
        self.first_admin = user;
    }

    pub(crate) fn take_first_admin(&mut self) -> Option<User> {
        self.first_admin.take()
    }

    /// A number that stands for all names that are known by their digests alone.
    pub(crate) fn digest_of_retired(&self) -> u64 {
        self.counts.shortened.1
    }

    /// Tells whether a name is retired, and known by its digest alone.
    pub fn is_shortened(&self, name: &GeneratorName) -> bool {
        self.part_of(name).is_some()
    }

    /// The part that has the name, if it is known by its digest alone.
    fn part_of(&self, name: &GeneratorName) -> Option<&Setting> {
        let digest = RetiredName::of(name);
        let part = self.settings.get(&SettingKey::RetiredNames(digest.part()))?;
        matches!(&part.value, SettingValue::RetiredNames(names) if names.contains(digest)).then_some(part)
    }

    /// The setting that says what is known of the name that `key` is about, if that is known by its digest alone.
    pub(crate) fn shortened(&self, key: &SettingKey) -> Option<&Setting> {
        match key {
            SettingKey::Namespace(name) | SettingKey::About(name) | SettingKey::Axis(name) => self.part_of(name),
            _ => None,
        }
    }

    /// Retired names beyond those that are kept, the oldest first, of which the digest alone may be kept now, at most so many; `may` says of
    /// which nothing else is in the way. Where those that keep their definitions need the room, fewer others are kept.
    pub(crate) fn to_shorten(&self, max: usize, may: impl Fn(&GeneratorName) -> bool) -> Vec<Change> {
        let may_be_shortened = self.counts.retired_at.len();
        let room = RETIRED_MAX.saturating_sub(self.counts.retired.saturating_sub(may_be_shortened));
        let beyond = may_be_shortened.saturating_sub(RETIRED_KEPT.min(room / 2));
        let oldest = self.counts.retired_at.iter().take(beyond).map(|(_, name)| name).filter(|name| may(name));
        let oldest = oldest.map(|name| Change::Shorten(name.clone()));
        oldest.filter(|change| matches!(self.outcome(change), Outcome::Becomes(_))).take(max).collect()
    }

    /// The reason why the digest alone of a name cannot be kept, if that is so: it is not retired, or something about it is
    /// being agreed on.
    fn not_to_be_shortened(&self, change: &Change) -> Option<Outcome> {
        let Change::Shorten(name) = change else { return None };
        let known = self.settings.get(&SettingKey::Namespace(name.clone())).map(|setting| &setting.value);
        let by_name = matches!(known, Some(SettingValue::Retired(namespace)) if is_known_by_name(namespace));
        let proposed = [SettingKey::Namespace(name.clone()), SettingKey::About(name.clone())];
        if !by_name || proposed.iter().any(|key| self.preps.contains_key(key)) {
            return Some(Outcome::NoSuchName);
        }
        (self.counts.shortened.0 >= RETIRED_NAMES_MAX).then_some(Outcome::TooMany)
    }

    /// A number that stands for all names and what they stand for.
    pub(crate) fn digest_of_names(&self) -> u64 {
        self.counts.digest
    }

    pub fn get(&self, key: &SettingKey) -> Option<&Setting> {
        self.settings.get(key)
    }

    /// A change of a setting that the other master has not confirmed yet.
    pub fn prep(&self, key: &SettingKey) -> Option<&Setting> {
        self.preps.get(key)
    }

    pub fn all(&self) -> impl Iterator<Item = &Setting> {
        self.settings.values()
    }

    /// Settings after `after`, ascending, as many as a page has, and whether there are more. `retired` is the
    /// [number](Self::digest_of_retired) of the one who asks: with the same it is told of no name that is known by its digest alone.
    pub(crate) fn page(&self, after: Option<&SettingKey>, retired: u64) -> (Vec<Setting>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut page, mut len) = (Vec::new(), 0);
        let is_news =
            |key: &SettingKey| !matches!(key, SettingKey::RetiredNames(_)) || retired != self.digest_of_retired();
        let settings = self.settings.range::<SettingKey, _>((from, Bound::Unbounded));
        for (_, setting) in settings.take_while(|(key, _)| is_news(key)) {
            len += bincode::serialized_size(setting).unwrap_or(u64::MAX);
            if len > SETTINGS_PAGE_LEN_MAX as u64 && !page.is_empty() {
                return (page, true);
            }
            page.push(setting.clone());
        }
        (page, false)
    }

    /// Names that stand for something and are not retired, in their order after `after`.
    pub fn names_after(&self, after: Option<&GeneratorName>) -> impl Iterator<Item = &Setting> {
        let after = after.map(|name| SettingKey::Namespace(name.clone()));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.settings.range((from, Bound::Unbounded)).map(|(_, setting)| setting);
        let names = names.skip_while(|setting| !matches!(setting.key, SettingKey::Namespace(_)));
        let names = names.take_while(|setting| matches!(setting.key, SettingKey::Namespace(_)));
        names.filter(|setting| setting.value.is_living())
    }

    pub fn preps(&self) -> impl Iterator<Item = &Setting> {
        self.preps.values()
    }

    pub fn whitelist(&self) -> &[IpNet] {
        match self.settings.get(&SettingKey::Whitelist).map(|setting| &setting.value) {
            Some(SettingValue::Whitelist(networks)) => networks,
            _ => &self.first_whitelist,
        }
    }

    /// Networks that the first change of the whitelist begins with, and that operators are shown until then: what either
    /// master was told by its flag. Each lets in by its own.
    pub fn either_whitelist(&self) -> Vec<IpNet> {
        if self.settings.contains_key(&SettingKey::Whitelist) {
            return self.whitelist().to_vec();
        }
        let mut networks: Vec<IpNet> = self.first_whitelist.iter().map(IpNet::trunc).collect();
        for network in &self.other_first_whitelist {
            if !networks.contains(network) {
                networks.push(*network);
            }
        }
        networks
    }

    /// Notes the other master's whitelist; `true` if that is news, and another one.
    pub(crate) fn note_other_first_whitelist(&mut self, networks: &[IpNet]) -> bool {
        let sorted = |networks: &[IpNet]| networks.iter().map(IpNet::trunc).collect::<std::collections::BTreeSet<_>>();
        let theirs = sorted(networks);
        let differs = theirs != sorted(&self.first_whitelist);
        let theirs: Vec<IpNet> = theirs.into_iter().filter(|_| differs).collect();
        let news = theirs != self.other_first_whitelist;
        self.other_first_whitelist = theirs;
        news && differs
    }

    /// The console's users; `None` as long as the cluster never had any.
    pub fn users(&self) -> Option<&[User]> {
        match &self.settings.get(&SettingKey::Users)?.value {
            SettingValue::Users(users) => Some(users),
            _ => None,
        }
    }

    /// The outcome that a change would have by what is known now.
    pub(crate) fn outcome(&self, change: &Change) -> Outcome {
        if change.name().is_some_and(|name| self.is_shortened(name)) {
            return match change {
                Change::Retire(_) | Change::Shorten(_) | Change::Restore { retired: true, .. } => Outcome::AlreadySo,
                Change::About { about, .. } if about.is_empty() => Outcome::AlreadySo,
                _ => Outcome::Retired,
            };
        }
        if let Some(why) = self.not_to_be_noted(change).or_else(|| self.not_to_be_shortened(change)) {
            return why;
        }
        if let SettingKey::Axis(name) = change.key() {
            return self.axis_outcome(&name, change);
        }
        let known = self.settings.get(&change.key());
        let outcome = change.outcome(known.map(|setting| &setting.value), &self.either_whitelist());
        match &outcome {
            // An operator raised its axis before it was free again, and what is known of that is of its former definition.
            Outcome::Becomes(value) if value.namespace().is_some() && self.has_axis_without_name(known) => {
                Outcome::Retired
            }
            Outcome::Becomes(value) if value.is_living() && self.living_others(&change.key()) >= NAMESPACES_MAX => {
                Outcome::TooMany
            }
            // What both have forgotten was there before; without it somebody could use the name again.
            Outcome::Becomes(SettingValue::Retired(_)) if matches!(change, Change::Restore { proved: true, .. }) => {
                outcome
            }
            Outcome::Becomes(SettingValue::Retired(_)) if self.counts.retired >= RETIRED_MAX => Outcome::TooMany,
            Outcome::Becomes(SettingValue::Free) if self.counts.free >= FREE_MAX => Outcome::TooMany,
            // What is registered was compared, and others may be registered since that say of themselves that they may give the same.
            Outcome::Becomes(SettingValue::Namespace(_)) if matches!(change, Change::Use(_)) => outcome,
            Outcome::Becomes(SettingValue::Namespace(namespace)) => {
                self.collision(namespace, |other| other.scope() == Scope::Kind).unwrap_or(outcome)
            }
            Outcome::Becomes(SettingValue::Unused(namespace)) => self.collision(namespace, |_| true).unwrap_or(outcome),
            Outcome::Becomes(SettingValue::About(about)) => {
                let before = known.map_or(0, |setting| length(&setting.value));
                let fits = self.noted_about_others(&change.key()).saturating_add(about.len()) <= ABOUTS_LEN_MAX;
                // What makes it shorter is always taken.
                if fits || about.len() < before { outcome } else { Outcome::AboutsFull }
            }
            _ => outcome,
        }
    }

    fn has_axis_without_name(&self, known: Option<&Setting>) -> bool {
        let Some(Setting { key: SettingKey::Namespace(name), value: SettingValue::Free, .. }) = known else {
            return false;
        };
        let key = SettingKey::Axis(name.clone());
        self.settings.contains_key(&key) || self.preps.contains_key(&key)
    }

    /// The reason why nothing can be noted about a name: only what is registered has a note, and what was retired has none
    /// but an empty one.
    fn not_to_be_noted(&self, change: &Change) -> Option<Outcome> {
        let Change::About { name, about } = change else { return None };
        match self.settings.get(&SettingKey::Namespace(name.clone())).map(|setting| &setting.value) {
            Some(value) if value.is_living() => None,
            Some(SettingValue::Retired(_) | SettingValue::Free) if about.is_empty() => None,
            Some(SettingValue::Retired(_)) => Some(Outcome::Retired),
            _ => Some(Outcome::NoSuchName),
        }
    }

    /// The length of the notes about all names but that of `key`, in bytes, as they are or are about to be.
    fn noted_about_others(&self, key: &SettingKey) -> usize {
        let mut lengths = BTreeMap::new();
        let noted = self.settings.values().chain(self.preps.values()).filter(|setting| length(&setting.value) > 0);
        for setting in noted.filter(|setting| setting.key != *key) {
            let longest: &mut usize = lengths.entry(&setting.key).or_default();
            *longest = length(&setting.value).max(*longest);
        }
        lengths.values().sum()
    }

    /// The state of an axis: as both hold it, or whole if none of it was ever granted. `None` if there is no such name, or it is none
    /// of segments.
    pub fn axis(&self, name: &GeneratorName) -> Option<(SegmentDefinition, Axis)> {
        let definition = *self.settings.get(&SettingKey::Namespace(name.clone()))?.value.namespace()?.segments()?;
        let axis = match self.settings.get(&SettingKey::Axis(name.clone())).map(|setting| &setting.value) {
            Some(SettingValue::Axis(axis)) => **axis,
            _ => Axis::new(&definition),
        };
        Some((definition, axis))
    }

    /// The place of an axis before which whatever agents show is no news: it is granted or proposed, or an operator said that it is not
    /// true.
    pub(crate) fn known_of_axis(&self, name: &GeneratorName) -> Option<u64> {
        let (_, axis) = self.axis(name)?;
        let proposed = match self.prep(&SettingKey::Axis(name.clone())).map(|prep| &prep.value) {
            Some(SettingValue::Axis(proposed)) => proposed.granted,
            _ => 0,
        };
        Some(axis.granted.max(proposed).max(axis.dismissed))
    }

    /// All axes of which something was granted, and those that were raised.
    pub fn axes(&self) -> impl Iterator<Item = (&GeneratorName, &Axis)> {
        self.settings.values().filter_map(|setting| match (&setting.key, &setting.value) {
            (SettingKey::Axis(name), SettingValue::Axis(axis)) => Some((name, &**axis)),
            _ => None,
        })
    }

    /// Proposals of parts of axes.
    pub(crate) fn proposed_extents(&self) -> Vec<Setting> {
        self.preps.values().filter(|prep| matches!(prep.key, SettingKey::Axis(_))).cloned().collect()
    }

    /// The outcome of a change of an axis.
    fn axis_outcome(&self, name: &GeneratorName, change: &Change) -> Outcome {
        let Some((definition, axis)) = self.axis(name) else { return Outcome::NoSuchName };
        if self.settings.get(&SettingKey::Namespace(name.clone())).is_some_and(|setting| setting.value.is_retired()) {
            return Outcome::Retired;
        }
        let becomes = match change {
            Change::Extend { granted, .. } if *granted != axis.granted => return Outcome::AlreadySo,
            Change::Extend { master, run, wanted, .. } => axis.extended(&definition, *master, *run, *wanted),
            Change::Raise { to, .. } if *to == axis.floor => return Outcome::AlreadySo,
            Change::Raise { to, .. } => axis.raised(&definition, *to),
            Change::Dismiss { below, .. } if *below <= axis.dismissed => return Outcome::AlreadySo,
            Change::Dismiss { below, .. } => axis.dismissing(&definition, *below),
            _ => return Outcome::NoSuchName,
        };
        let refused = Outcome::NotRaised { granted: axis.granted, last: definition.axis().to.saturating_sub(1) };
        becomes.map_or(refused, |axis| Outcome::Becomes(SettingValue::Axis(Box::new(axis))))
    }

    /// Tells whether a record that the other master sends can come after what is known here. No retired name is left out. What is said of
    /// an axis has to grow from there; where the definition of its name is not known yet, it is sent again later.
    pub(crate) fn may_follow(&self, setting: &Setting) -> bool {
        if let SettingValue::RetiredNames(theirs) = &setting.value {
            let mine = self.settings.get(&setting.key).map(|mine| &mine.value);
            return !matches!(mine, Some(SettingValue::RetiredNames(mine)) if !theirs.may_follow(mine));
        }
        let (SettingKey::Axis(name), SettingValue::Axis(theirs)) = (&setting.key, &setting.value) else { return true };
        self.axis(name).is_some_and(|(definition, mine)| theirs.may_follow(&mine, &definition))
    }

    /// Tells whether the definition of the name that an axis is of is known.
    pub(crate) fn knows_name_of(&self, key: &SettingKey) -> bool {
        let SettingKey::Axis(name) = key else { return true };
        self.axis(name).is_some()
    }

    /// Counts the names other than `name` that those whom `its` accepts registered in a time of that length before `now`, or are about to.
    pub(crate) fn registered_lately(
        &self,
        now: WallMs,
        span: SpanMs,
        name: &GeneratorName,
        its: impl Fn(&Actor) -> bool,
    ) -> usize {
        let since = (WallMs(now.0.saturating_sub(span.0)), GeneratorName::default());
        // What a clock that ran far ahead has dated does not count until that time comes.
        let lately = self.counts.registered.range(since..).take_while(|(at, _)| *at <= now + span);
        let known = lately.filter_map(|(_, name)| self.settings.get(&SettingKey::Namespace(name.clone())));
        let known = known.chain(self.preps.values()).map(|setting| (setting.value.namespace(), &setting.actor));
        let wishes = self.changes.wishes().map(|(_, wish)| match &wish.change {
            Change::Define(namespace) | Change::Restore { namespace, .. } => (Some(&**namespace), &wish.actor),
            _ => (None, &wish.actor),
        });
        let names = known.chain(wishes).filter(|(_, actor)| its(actor)).filter_map(|(namespace, _)| namespace);
        names.map(Namespace::name).filter(|other| *other != name).collect::<BTreeSet<_>>().len()
    }

    /// Counts the names other than that of `key` that stand for something, or are about to. Other kinds of settings have places of
    /// their own.
    fn living_others(&self, key: &SettingKey) -> usize {
        let lives = |key: &SettingKey| self.settings.get(key).is_some_and(|setting| setting.value.is_living());
        let is_new = |prep: &&Setting| prep.key != *key && prep.value.is_living() && !lives(&prep.key);
        let news = self.preps.values().filter(is_new);
        self.counts.names + news.count() - usize::from(lives(key))
    }

    /// The removal of what is noted about the name of `key`, if anything is.
    pub(crate) fn note_to_remove(&self, key: &SettingKey) -> Option<Change> {
        let SettingKey::Namespace(name) = key else { return None };
        let noted = self.settings.get(&SettingKey::About(name.clone())).is_some_and(|note| length(&note.value) > 0);
        noted.then(|| Change::About { name: name.clone(), about: Box::default() })
    }

    /// The settings of other keys, as they are or are about to be.
    fn others(&self, key: &SettingKey) -> impl Iterator<Item = (&SettingKey, &SettingValue)> {
        let all = self.settings.values().chain(self.preps.values()).filter(move |setting| setting.key != *key);
        all.map(|setting| (&setting.key, &setting.value))
    }

    /// A new name must not give what another one of `these` gives, a retired one included, unless its scope is its own.
    fn collision(&self, wanted: &Namespace, these: impl Fn(&Namespace) -> bool) -> Option<Outcome> {
        let key = SettingKey::Namespace(wanted.name().clone());
        collision(wanted, self.others(&key).filter_map(|(_, value)| value.namespace()).filter(|other| these(other)))
    }

    /// Tells whether there is room for a record that the other master sends. Of names as many as two masters can have
    /// registered together: each of them counts on its own. Of notes about them as many as of names.
    pub(crate) fn has_room_for(&self, key: &SettingKey) -> bool {
        let known = match key {
            SettingKey::Namespace(_) => self.counts.names + self.counts.retired + self.counts.free,
            SettingKey::About(_) => self.counts.abouts,
            SettingKey::Axis(_) => self.counts.axes,
            SettingKey::Whitelist | SettingKey::Users | SettingKey::Credentials | SettingKey::RetiredNames(_) => 0,
        };
        known < NAMESPACES_MAX + RETIRED_MAX + FREE_MAX || self.settings.contains_key(key)
    }

    /// Takes a setting in; the keys of those that are gone, as their names are known by their digests alone from now on.
    pub(crate) fn put(&mut self, setting: Setting) -> Vec<SettingKey> {
        self.take_out(&setting.key);
        let names = match &setting.value {
            SettingValue::RetiredNames(names) => Some(names.iter()),
            _ => None,
        };
        let by_digest = &self.counts.by_digest;
        let names: Vec<_> = names.into_iter().flatten().filter_map(|name| by_digest.get(&name).cloned()).collect();
        self.counts.add(&setting);
        self.settings.insert(setting.key.clone(), setting);
        let keys = names.into_iter().flat_map(|name| [SettingKey::Namespace(name.clone()), SettingKey::About(name)]);
        keys.filter(|key| self.take_out(key)).collect()
    }

    fn take_out(&mut self, key: &SettingKey) -> bool {
        let former = self.settings.remove(key);
        former.inspect(|former| self.counts.remove(former)).is_some()
    }

    pub(crate) fn put_prep(&mut self, prep: Setting) {
        self.preps.insert(prep.key.clone(), prep);
    }

    /// The proposals that have to be sent again now.
    pub(crate) fn resend(&mut self, now: Now) -> Vec<Setting> {
        let due = self.changes.resend(now, self.preps.len(), self.preps.keys().cloned());
        due.iter().filter_map(|key| self.preps.get(key).cloned()).collect()
    }

    pub(crate) fn drop_prep(&mut self, key: &SettingKey) {
        self.preps.remove(key);
        self.changes.over(key);
    }
}

/// The length of a note, in bytes; 0 for all that is none.
fn length(value: &SettingValue) -> usize {
    match value {
        SettingValue::About(about) => about.len(),
        _ => 0,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ids::about::{About, AboutSource};
    use ids::namespace::{Definition, SegmentSpec};

    fn define(name: String, template: Option<String>) -> Change {
        let definition = template.map_or_else(Definition::default, Definition::string);
        Change::Define(Box::new(Namespace::define(name.parse().unwrap(), &definition).unwrap()))
    }

    fn used(definition: &Change) -> Change {
        let Change::Define(namespace) = definition else { panic!() };
        Change::Use(namespace.clone())
    }

    /// Does what a change makes of the settings table, as both masters would.
    pub(crate) fn put(settings_table: &mut SettingsTable, change: &Change) {
        let Outcome::Becomes(value) = settings_table.outcome(change) else {
            panic!("{change:?}: {:?}", settings_table.outcome(change))
        };
        let version = settings_table.get(&change.key()).map_or(1, |known| known.version + 1);
        settings_table.put(Setting { key: change.key(), version, value, actor: Actor::new("a", ""), at: WallMs(0) });
    }

    #[test]
    fn names_take_no_place_but_their_own_and_retired_ones_make_room() {
        let mut settings_table = SettingsTable::default();
        for n in 0..NAMESPACES_MAX {
            fill(&mut settings_table, &format!("n{n}"), SettingValue::Namespace);
        }
        assert_eq!(settings_table.outcome(&define("more".to_owned(), None)), Outcome::TooMany);
        put(&mut settings_table, &Change::Allow("10.0.0.0/8".parse().unwrap()));
        assert!(
            settings_table.has_room_for(&SettingKey::Credentials) && settings_table.has_room_for(&SettingKey::Users)
        );
        put(&mut settings_table, &Change::Retire("n7".parse().unwrap()));
        put(&mut settings_table, &define("more".to_owned(), None));
        assert_eq!(settings_table.outcome(&define("n7".to_owned(), None)), Outcome::Retired);
        for n in 2..RETIRED_MAX {
            fill(&mut settings_table, &format!("r{n}"), SettingValue::Retired);
        }
        put(&mut settings_table, &Change::Retire("n8".parse().unwrap()));
        let retire = Change::Retire("n9".parse::<GeneratorName>().unwrap());
        assert_eq!(settings_table.outcome(&retire), Outcome::TooMany);
    }

    #[test]
    fn what_is_kept_of_a_retired_name_makes_no_difference_to_the_number_of_names() {
        let mut settings_table = SettingsTable::default();
        for n in 0..=RETIRED_KEPT {
            fill(&mut settings_table, &format!("r{n:05}"), SettingValue::Retired);
        }
        let before = settings_table.digest_of_names();
        assert!(settings_table.to_shorten(7, |_| false).is_empty());
        let [shorten] = &settings_table.to_shorten(7, |_| true)[..] else { panic!() };
        put(&mut settings_table, shorten);
        let name = shorten.name().unwrap();
        assert!(settings_table.is_shortened(name) && settings_table.counts.retired == RETIRED_KEPT);
        assert_eq!((settings_table.digest_of_names(), settings_table.to_shorten(7, |_| true)), (before, Vec::new()));
        assert_eq!(settings_table.outcome(&define(name.to_string(), None)), Outcome::Retired);
        let again = SettingsTable::new(settings_table.all().cloned().collect(), Vec::new());
        assert!(again.counts == settings_table.counts);
        // None is ever left out.
        let part = settings_table.get(&shorten.key()).unwrap();
        let other = SettingValue::RetiredNames(Box::default());
        assert!(!settings_table.may_follow(&Setting { version: 2, value: other, ..part.clone() }));
        let last = settings_table.page(None, 0).0;
        assert!(
            settings_table.page(Some(&last.last().unwrap().key), settings_table.digest_of_retired()).0.len()
                <= last.len()
        );
    }

    #[test]
    fn names_that_were_taken_back_unused_take_no_place_of_retired_ones() {
        let mut settings_table = SettingsTable::default();
        for n in 0..FREE_MAX {
            fill(&mut settings_table, &format!("f{n}"), |_| SettingValue::Free);
        }
        let (used_one, unused_one) = (define("used".to_owned(), None), define("unused".to_owned(), None));
        [&used_one, &used(&used_one), &unused_one].into_iter().for_each(|change| put(&mut settings_table, change));
        put(&mut settings_table, &Change::Retire("used".parse().unwrap()));
        assert_eq!(settings_table.outcome(&Change::Retire("unused".parse().unwrap())), Outcome::TooMany);
        put(&mut settings_table, &define("f7".to_owned(), None));
        put(&mut settings_table, &Change::Retire("unused".parse().unwrap()));
    }

    /// Both masters hold this already.
    fn fill(settings_table: &mut SettingsTable, name: &str, value: fn(Box<Namespace>) -> SettingValue) {
        let Change::Define(namespace) = define(name.to_owned(), None) else { panic!() };
        let (key, value) = (SettingKey::Namespace(namespace.name().clone()), value(namespace));
        settings_table.put(Setting { key, version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) });
    }

    fn about(name: &str, description: &str, labels: usize) -> Change {
        let labels = (0..labels).map(|n| (format!("key-{n}"), "v".repeat(About::TEXT_CHARS_MAX))).collect();
        let source = AboutSource { description: description.to_owned(), labels, ..AboutSource::default() };
        Change::About { name: name.parse().unwrap(), about: Box::new(About::new(source).unwrap()) }
    }

    #[test]
    fn only_names_that_are_registered_have_a_note_and_a_retired_one_keeps_or_loses_it() {
        let mut settings_table = SettingsTable::default();
        assert_eq!(settings_table.outcome(&about("orders", "x", 0)), Outcome::NoSuchName);
        assert_eq!(settings_table.outcome(&about("default", "x", 0)), Outcome::NoSuchName);
        put(&mut settings_table, &define("orders".to_owned(), None));
        put(&mut settings_table, &about("orders", "x", 0));
        put(&mut settings_table, &about("orders", "y", 0));
        put(&mut settings_table, &used(&define("orders".to_owned(), None)));
        put(&mut settings_table, &Change::Retire("orders".parse().unwrap()));
        let key = SettingKey::About("orders".parse().unwrap());
        assert_eq!(settings_table.get(&key).map(|setting| length(&setting.value)), Some(1));
        for again in ["y", "z"] {
            assert_eq!(settings_table.outcome(&about("orders", again, 0)), Outcome::Retired);
        }
        put(&mut settings_table, &about("orders", "", 0));
        assert_eq!(settings_table.outcome(&about("orders", "", 0)), Outcome::AlreadySo);
    }

    #[test]
    fn notes_have_room_together_and_what_is_proposed_counts() {
        let mut settings_table = SettingsTable::default();
        let mut names = (0..NAMESPACES_MAX).map(|n| format!("n{n}"));
        let full = loop {
            let name = names.next().unwrap();
            put(&mut settings_table, &define(name.clone(), None));
            match settings_table.outcome(&about(&name, "d", About::LABELS_MAX)) {
                // All but the first are only proposed.
                Outcome::Becomes(value) if name != "n0" => {
                    let key = SettingKey::About(name.parse().unwrap());
                    settings_table.put_prep(Setting {
                        key,
                        version: 1,
                        value,
                        actor: Actor::new("a", ""),
                        at: WallMs(0),
                    });
                }
                Outcome::Becomes(_) => put(&mut settings_table, &about("n0", "d", About::LABELS_MAX)),
                Outcome::AboutsFull => break name,
                other => panic!("{other:?}"),
            }
        };
        let noted = settings_table.noted_about_others(&SettingKey::About(full.parse().unwrap()));
        let one = length(&settings_table.get(&SettingKey::About("n0".parse().unwrap())).unwrap().value);
        assert!(noted <= ABOUTS_LEN_MAX && noted + one > ABOUTS_LEN_MAX && one > 1_000, "{noted} of {one} each");
        put(&mut settings_table, &about("n0", "d", 1));
        put(&mut settings_table, &about(&full, "d", About::LABELS_MAX - 2));
        let key = |n: usize| SettingKey::About(format!("m{n}").parse().unwrap());
        let mut others = SettingsTable::default();
        for n in 0..NAMESPACES_MAX + RETIRED_MAX + FREE_MAX {
            let value = SettingValue::About(Box::default());
            others.put(Setting { key: key(n), version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) });
        }
        assert!(!others.has_room_for(&key(NAMESPACES_MAX + RETIRED_MAX + FREE_MAX)) && others.has_room_for(&key(0)));
        assert!(others.has_room_for(&SettingKey::Namespace("m0".parse().unwrap())));
    }

    #[test]
    fn a_template_is_compared_with_proposals_and_with_retired_names() {
        let mut settings_table = SettingsTable::default();
        let (one, two) = ("{date:%Y%m%d}{token}{serial:8}", "{date:%Y%m%d}{serial:8}{token}");
        let (one, two) = (define("one".to_owned(), Some(one.into())), define("two".to_owned(), Some(two.into())));
        let Outcome::Becomes(value) = settings_table.outcome(&one) else { panic!() };
        let prep = Setting { key: one.key(), version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) };
        settings_table.put_prep(prep.clone());
        let collides = |settings_table: &SettingsTable| {
            let outcome = settings_table.outcome(&two);
            let Outcome::Collides { name, template, example } = &outcome else { panic!("{outcome:?}") };
            assert!(name.as_str() == "one" && example.len() == 18, "{example}");
            assert_eq!(template, "{date:%Y%m%d}{token}{serial:8}");
            let refusal = wire::lease::refusal(outcome.clone(), &two).unwrap().to_string();
            assert!(refusal.contains("'one' ({date:%Y%m%d}{token}{serial:8})"), "{refusal}");
        };
        collides(&settings_table);
        settings_table.drop_prep(&one.key());
        settings_table.put(prep.clone());
        collides(&settings_table);
        let retire = Change::Retire("one".parse().unwrap());
        let mut never_used = settings_table.clone();
        put(&mut settings_table, &used(&one));
        put(&mut settings_table, &retire);
        collides(&settings_table);

        // One by which no string was given is in nobody's way, until it is registered again.
        put(&mut never_used, &retire);
        assert!(matches!(never_used.outcome(&two), Outcome::Becomes(_)));
        never_used.put_prep(Setting { version: 3, ..prep });
        collides(&never_used);
    }

    #[test]
    fn a_name_whose_axis_was_raised_before_it_was_taken_back_stands_for_nothing_else() {
        let mut settings_table = SettingsTable::default();
        let name: GeneratorName = "parts".parse().unwrap();
        let definition = Definition::Segment(SegmentSpec::default());
        let define = Change::Define(Box::new(Namespace::define(name.clone(), &definition).unwrap()));
        put(&mut settings_table, &define);
        put(&mut settings_table, &Change::Raise { name: name.clone(), to: 1_000 });
        put(&mut settings_table, &Change::Retire(name));
        assert_eq!(settings_table.outcome(&define), Outcome::Retired);
    }
}
