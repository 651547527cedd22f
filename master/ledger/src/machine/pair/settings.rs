//! Changing settings: proposed by the home, confirmed by the other, and answered when both hold it.

use super::Pairwise;
use crate::lease::proposals::confirms;
use crate::lease::{Alarm, Effects, Reply, Write};
use crate::machine::agreement::Agreement as _;
use crate::machine::state::Ledger;
use crate::setting;
use ids::audit::{Actor, Entry};
use ids::namespace::GeneratorName;
use ids::setting::{Change, NETWORKS_MAX, Outcome, Setting, SettingKey, SettingValue};
use ids::time::Now;
use ipnet::IpNet;
use std::collections::BTreeSet;
use wire::lease::{Changed, Mode, Refusal, refusal};
use wire::peer::PeerMessage;

/// Retired names that are reduced to their digests at one beat at most.
const SHORTENED_MAX: usize = 16;

/// The setting that says that a name is retired, in whose way that stands.
fn retired(change: &Change) -> SettingKey {
    match change {
        Change::About { name, .. } => SettingKey::Namespace(name.clone()),
        _ => change.key(),
    }
}

impl Ledger<Pairwise> {
    /// Proposes the first user like any other, before anything is said to the other master: it goes with the greeting
    /// by which the two become a pair.
    pub(super) fn propose_first_admin(&mut self, fx: &mut Effects) {
        let Some(user) = self.settings_table.take_first_admin() else { return };
        let (key, change) = (SettingKey::Users, Change::FirstAdmin(user));
        if key.home() != self.identity().master {
            return;
        }
        let Outcome::Becomes(value) = self.settings_table.outcome(&change) else { return };
        // Once the two have met, the other master may hold what was proposed; before, another password may be given.
        let known = self.settings_table.prep(&key).map(|prep| &prep.value);
        if known.is_some_and(|known| *known == value || self.identity().paired) {
            return;
        }
        let prep = Setting { key, version: 1, value, actor: Actor::master(self.identity().master), at: fx.at };
        fx.writes.push(Write::SettingPrep(prep.clone()));
        self.settings_table.put_prep(prep);
    }

    /// The first users that this master proposes, as long as nobody holds them.
    pub(super) fn first_users(&self) -> Option<Setting> {
        self.settings_table.prep(&SettingKey::Users).filter(|_| self.settings_table.users().is_none()).cloned()
    }

    /// Takes over what the other master proposes as first users, at the first meeting.
    pub(super) fn take_first_users(&mut self, users: &Setting, fx: &mut Effects) {
        let here = users.key.home() == self.identity().master;
        if users.key == SettingKey::Users && !here && users.plausible() && self.settings_table.users().is_none() {
            self.put_setting(users.clone(), fx);
        }
    }

    /// Tells the other master of this one's whitelist as long as the ledger has none: the two may have been started with different ones.
    pub(super) fn tell_first_whitelist(&self, fx: &mut Effects) {
        if self.settings_table.get(&SettingKey::Whitelist).is_none() && !self.settings_table.whitelist().is_empty() {
            let networks = self.settings_table.whitelist().iter().take(NETWORKS_MAX).copied().collect();
            fx.send(PeerMessage::Allows { networks });
        }
    }

    pub(super) fn on_allows(&mut self, networks: Vec<IpNet>, fx: &mut Effects) {
        let known = self.settings_table.get(&SettingKey::Whitelist).is_some();
        if known || networks.len() > NETWORKS_MAX || !self.settings_table.note_other_first_whitelist(&networks) {
            return;
        }
        let texts = |networks: &[IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (here, there) = (texts(self.settings_table.whitelist()), texts(&networks));
        fx.alarms.push(Alarm::WhitelistsDiffer { here, there });
    }

    /// Proposes a change if it is at home here, else asks the home to.
    pub(super) fn want(&mut self, now: Now, change: &Change, actor: &Actor, fx: &mut Effects) {
        let key = change.key();
        if key.home() != self.identity().master {
            return fx.send(PeerMessage::AskSetting { change: change.clone(), actor: actor.clone() });
        }
        if let Some(prep) = self.settings_table.prep(&key) {
            // One change at a time: this one's turn comes when that is confirmed.
            return fx.send(PeerMessage::ProposeSetting { setting: prep.clone() });
        }
        let Outcome::Becomes(value) = self.settings_table.outcome(change) else { return };
        if let (SettingValue::Free, Some(note)) = (&value, self.settings_table.note_to_remove(&key)) {
            // First its note, which says nothing of what the name stands for next: once that is gone the wish is checked again.
            return self.want(now, &note, actor, fx);
        }
        let known = self.settings_table.get(&key);
        let version = known.map_or(0, |known| known.version).saturating_add(1);
        // Whoever uses a name first has not registered it.
        let by = known.filter(|_| matches!(change, Change::Use(_))).map(|known| (known.actor.clone(), known.at));
        let (actor, at) = by.unwrap_or_else(|| (actor.clone(), now.wall));
        let prep = Setting { key: key.clone(), version, value, actor, at };
        fx.writes.push(Write::SettingPrep(prep.clone()));
        self.settings_table.put_prep(prep.clone());
        self.settings_table.changes.sent(now, key);
        fx.send(PeerMessage::ProposeSetting { setting: prep });
    }

    pub(super) fn on_ask_setting(&mut self, now: Now, change: &Change, actor: &Actor, fx: &mut Effects) {
        let key = change.key();
        if key.home() != self.identity().master || self.may_set(now).is_err() {
            return;
        }
        match self.settings_table.outcome(change) {
            Outcome::Retired => self.tell_setting(&retired(change), fx),
            Outcome::Becomes(_) => self.want(now, change, actor, fx),
            // What stands in the way is told: whoever asked may not have heard of it yet.
            Outcome::Collides { name, .. } => self.tell_setting(&SettingKey::Namespace(name), fx),
            Outcome::AlreadySo
            | Outcome::Taken
            | Outcome::TooMany
            | Outcome::NoSuch
            | Outcome::LastAdmin
            | Outcome::AboutsFull
            | Outcome::NotRaised { .. }
            | Outcome::NoSuchName => self.tell_setting(&key, fx),
        }
    }

    fn tell_setting(&self, key: &SettingKey, fx: &mut Effects) {
        if let Some(setting) = self.settings_table.get(key).or_else(|| self.settings_table.shortened(key)) {
            fx.send(PeerMessage::Settings { records: vec![setting.clone()] });
        }
    }

    pub(super) fn on_propose_setting(&mut self, now: Now, setting: Setting, fx: &mut Effects) {
        let from_elsewhere = setting.key.home() == self.identity().master;
        if from_elsewhere || !setting.plausible() || !self.settings_table.has_room_for(&setting.key) {
            return fx.alarms.push(Alarm::ImplausibleSetting(setting.key));
        }
        if self.agreement.pair.frozen() || self.mode() == Mode::RolledBack {
            return;
        }
        if self.settings_table.shortened(&setting.key).is_some() {
            return self.tell_setting(&setting.key, fx);
        }
        let known = self.settings_table.get(&setting.key);
        if known != Some(&setting) && known.is_some_and(|known| known.version >= setting.version) {
            return self.tell_setting(&setting.key, fx);
        }
        if known != Some(&setting) {
            if !self.settings_table.may_follow(&setting) {
                if !self.settings_table.knows_name_of(&setting.key) {
                    return;
                }
                return fx.alarms.push(Alarm::ImplausibleSetting(setting.key));
            }
            // The other master confirms nothing of ours while it has a proposal of its own: nobody knows of this one.
            if self.settings_table.prep(&setting.key).is_some() {
                self.drop_setting_prep(&setting.key, fx);
            }
            self.put_setting(setting.clone(), fx);
            self.own_extent(&setting, fx);
        }
        fx.send(PeerMessage::ConfirmSetting { setting });
        self.settle(now, fx);
    }

    pub(super) fn on_confirm_setting(&mut self, now: Now, echo: &Setting, fx: &mut Effects) {
        if !confirms(echo, self.settings_table.prep(&echo.key)) {
            return;
        }
        self.drop_setting_prep(&echo.key, fx);
        self.put_setting(echo.clone(), fx);
        self.own_extent(echo, fx);
        self.settle(now, fx);
    }

    /// Merges what the other master knows: a higher version wins.
    pub(super) fn merge_settings(&mut self, now: Now, records: Vec<Setting>, fx: &mut Effects) {
        for theirs in records {
            if !theirs.plausible() || !self.settings_table.has_room_for(&theirs.key) {
                fx.alarms.push(Alarm::ImplausibleSetting(theirs.key));
                continue;
            }
            // It hears, or has heard, that the name is retired.
            if self.settings_table.shortened(&theirs.key).is_some() {
                continue;
            }
            let mine = self.settings_table.get(&theirs.key);
            match mine.map(|mine| mine.version) {
                Some(version) if version > theirs.version => continue,
                Some(version) if version == theirs.version => {
                    if mine.is_some_and(|mine| mine.value != theirs.value) {
                        self.agreement.pair.freeze();
                        fx.alarms.push(Alarm::SettingConflict(theirs.key));
                    }
                    continue;
                }
                _ => {}
            }
            if !self.settings_table.may_follow(&theirs) {
                // Where the name is not known yet, its axis comes again.
                if self.settings_table.knows_name_of(&theirs.key) {
                    fx.alarms.push(Alarm::ImplausibleSetting(theirs.key));
                }
                continue;
            }
            let proposed = self.settings_table.prep(&theirs.key);
            // Then it has confirmed it.
            let confirmed = proposed == Some(&theirs);
            if proposed.is_some_and(|prep| prep.version <= theirs.version) {
                self.drop_setting_prep(&theirs.key, fx);
            }
            self.put_setting(theirs.clone(), fx);
            if confirmed {
                self.own_extent(&theirs, fx);
            }
        }
        self.settle(now, fx);
    }

    pub(super) fn put_setting(&mut self, setting: Setting, fx: &mut Effects) {
        let known = self.settings_table.get(&setting.key).map(|known| &known.value);
        for (action, subject, detail) in setting::lines(known, &setting) {
            let entry = Entry::new(fx.at, setting.actor.clone(), action, &subject, &detail);
            fx.writes.push(Write::Audit(entry));
        }
        fx.writes.push(Write::Setting(setting.clone()));
        self.trim_to_floor(&setting, fx);
        for gone in self.settings_table.put(setting) {
            if self.settings_table.prep(&gone).is_some() {
                self.drop_setting_prep(&gone, fx);
            }
            fx.writes.push(Write::DropSetting(gone));
        }
    }

    /// Reduces, at each beat, the oldest retired names beyond those that are kept to their digests. A sequence waits until its sections are
    /// given back.
    fn shorten_retired(&mut self, now: Now, fx: &mut Effects) {
        let here = SettingKey::RetiredNames(0).home() == self.identity().master;
        if !here || self.may_set(now).is_err() {
            return;
        }
        let actor = Actor::master(self.identity().master);
        let has_no_sections = |name: &GeneratorName| self.sections.len_of(name) == 0;
        for change in self.settings_table.to_shorten(SHORTENED_MAX, has_no_sections) {
            if self.settings_table.prep(&change.key()).is_none() {
                self.want(now, &change, &actor, fx);
            }
        }
    }

    fn drop_setting_prep(&mut self, key: &SettingKey, fx: &mut Effects) {
        fx.writes.push(Write::DropSettingPrep(key.clone()));
        self.settings_table.drop_prep(key);
    }

    /// Answers everybody whose wish came true or cannot come true any more; what is still to be done is begun.
    fn settle(&mut self, now: Now, fx: &mut Effects) {
        let mut new = BTreeSet::new();
        let wishes = self.settings_table.changes.wishes();
        for (id, wish) in wishes.map(|(id, wish)| (*id, wish.clone())).collect::<Vec<_>>() {
            let reply = match self.settings_table.outcome(&wish.change) {
                Outcome::AlreadySo => Ok(match self.settings_table.get(&wish.change.key()) {
                    // Several may have wanted the same of either master, or it was under way before. One of them registered it, or showed it.
                    Some(known) if matches!(wish.change, Change::Define(_) | Change::Restore { .. }) => {
                        let its = known.actor == wish.actor && new.insert(known.key.clone());
                        if its { Changed::Done } else { Changed::AlreadySo }
                    }
                    _ => Changed::Done,
                }),
                outcome => match refusal(outcome, &wish.change) {
                    Some(refusal) => Err(refusal),
                    None => {
                        if self.settings_table.prep(&wish.change.key()).is_none() {
                            self.want(now, &wish.change, &wish.actor, fx);
                        }
                        continue;
                    }
                },
            };
            self.settings_table.changes.answered(id..=id);
            fx.reply(id, Reply::Change(reply));
        }
    }

    /// Sends again at each beat what was not confirmed, and gives up on those who waited too long.
    pub(crate) fn retry_settings(&mut self, now: Now, fx: &mut Effects) {
        if self.agreement.pair.heard(now) {
            for setting in self.settings_table.resend(now) {
                fx.send(PeerMessage::ProposeSetting { setting });
            }
        }
        self.shorten_retired(now, fx);
        for id in self.settings_table.changes.give_up(now) {
            fx.reply(id, Reply::Change(Err(Refusal::Retry)));
        }
    }
}
