//! Decides who is believed to be the other master, and which of the two must not go on ([`crate::replication::pair`]).

use super::Pairwise;
use crate::lease::{Alarm, Effects, Identity, Lives, PeerObservations};
use crate::machine::state::Ledger;
use crate::replication::lives::Follows;
use crate::replication::pair::{CHALLENGE_WAIT, Challenge, Doubt};
use ids::parameters::MasterId;
use ids::setting::Setting;
use ids::time::Now;
use wire::lease::Mode;
use wire::peer::{Hello, Life, PeerFrame, PeerMessage};

/// The remedy for a store that was formatted in place of one that was lost.
const FORMATTED_ANEW: &str = "If it was formatted anew because it was lost: a lost store is not replaced by an empty one. Stop both \
                              masters, run `uniq_master --peer-lost` here, and make the other's store with --join instead of \
                              --format";

/// The sender of a message that is not believed.
#[derive(Clone, Copy)]
enum Refused {
    /// The other master, or whoever is to become it.
    TheOther,
    /// A life of the other master's store that is not the accepted one.
    AnotherLife,
    Stranger,
}

impl Ledger<Pairwise> {
    /// Greets over a new connection.
    pub(crate) fn greet(&mut self, now: Now, fx: &mut Effects) {
        self.agreement.pair.connected_anew = true;
        fx.send(PeerMessage::Hello(self.hello(now, true)));
    }

    /// A message to the other master with who says it to whom: of which pairing, and in which lives.
    pub fn frame(&self, message: PeerMessage) -> PeerFrame {
        let me = self.identity();
        let (epoch, life, to) = (message.said_in(me.epoch), self.agreement.lives.present(), self.agreement.lives.peer);
        PeerFrame { protocol: wire::PROTOCOL, from: me.master, cluster: me.cluster, epoch, life, to, message }
    }

    pub(super) fn hello(&self, now: Now, answer: bool) -> Hello {
        Hello {
            lsn: self.lsn(),
            seen: self.agreement.observed.peer_lsn,
            parameters: self.identity().parameters,
            wall: now.wall,
            test_clock: self.test_clock(),
            version: self.version().to_owned(),
            answer,
            retired: None,
            lives: self.agreement.lives.own.clone(),
            accepted: self.agreement.lives.peer,
            copied: self.agreement.lives.peer_copied,
            awaits: self.identity().awaiting.is_some(),
            challenge: None,
            echo: None,
            users: self.first_users().filter(|_| !self.identity().paired).map(Box::new),
        }
    }

    /// Believes a message only if it is proved to come from the other master of this pairing. A greeting may also come from
    /// one that we have never met, as long as we have met nobody. Whatever is not a greeting has to be of the life that greeted
    /// last, and meant for this one; whoever speaks in another one, or to another one, is asked to greet.
    pub(super) fn admit(&mut self, now: Now, frame: PeerFrame, fx: &mut Effects) -> Option<PeerMessage> {
        let me = self.identity();
        let of_this_pairing = frame.from != me.master && me.epoch.is_some() && frame.epoch == me.epoch;
        if let Some(why) = self.refusal(&frame) {
            // What it said before it heard that the two have met is no news to anybody.
            let of_before = me.paired && frame.epoch.is_none() && Some(frame.life) == self.agreement.lives.peer;
            if !of_before {
                let whose = if of_this_pairing { self.whose(frame.life) } else { Refused::Stranger };
                self.note_refusal(why, whose, fx);
            }
            self.on_other_pairing(now, &frame, fx);
            return None;
        }
        if of_this_pairing && me.awaiting.is_some() {
            self.on_token_used(now, &frame.message, fx);
            return None;
        }
        if let PeerMessage::Hello(hello) = &frame.message {
            if of_this_pairing && hello.retired.is_some() && hello.retired == me.epoch {
                self.replaced(fx);
                return None;
            }
            if of_this_pairing && me.paired && !self.undoubted(now, frame.life, hello, fx) {
                return None;
            }
            self.adopt_cluster(&frame, hello.users.as_deref(), fx);
        } else if frame.epoch.is_none() || self.agreement.pair.refused.is_some() {
            return None;
        } else if of_this_pairing
            && me.paired
            && frame.is_between_others(self.agreement.lives.present(), self.agreement.lives.peer)
        {
            fx.answer(PeerMessage::Hello(self.hello(now, true)));
            return None;
        }
        self.agreement.pair.refused = None;
        if matches!(frame.message, PeerMessage::Hello(_)) {
            self.agreement.pair.copy = None;
        }
        if self.identity().paired {
            self.agreement.pair.heard = Some(now.boot);
            self.agreement.pair.connected_anew = false;
            if !self.agreement.pair.synced {
                self.agreement.pair.unanswered_since.get_or_insert(now.boot);
            }
            self.agreement.pair.view().heard = now.wall;
        }
        Some(frame.message)
    }

    /// The one that speaks in this life of the other master. What another life than the accepted one says wrong, such as that of a copy
    /// of its store, is no reason to believe the accepted one any less.
    fn whose(&self, life: Life) -> Refused {
        match self.agreement.lives.peer {
            Some(accepted) if accepted != life => Refused::AnotherLife,
            _ => Refused::TheOther,
        }
    }

    /// Keeps the reason why somebody is not believed, for the operator. If it is the other master, nothing is believed of it any more.
    fn note_refusal(&mut self, why: String, whose: Refused, fx: &mut Effects) {
        let pair = &mut self.agreement.pair;
        let why_before = match whose {
            _ if !self.identity.paired => &mut pair.refused,
            Refused::TheOther => &mut pair.refused,
            Refused::AnotherLife => &mut pair.copy,
            Refused::Stranger => &mut pair.stranger,
        };
        if why_before.as_ref() != Some(&why) {
            fx.alarms.push(Alarm::PeerRefused(why.clone()));
        }
        *why_before = Some(why);
    }

    /// Notes that somebody writes to the peer port who proves nothing.
    pub(crate) fn on_stranger(&mut self, why: String, fx: &mut Effects) {
        self.note_refusal(why, Refused::Stranger, fx);
    }

    /// Messages of another pairing of this cluster. Whoever is left behind in an earlier one, restored from a backup or
    /// replaced while it lived, is told so, on the connection by which it came; whoever is told stops for good, before an
    /// operator may think that it is the one to go on with. The id of the earlier pairing is the proof: only its masters
    /// know it.
    fn on_other_pairing(&mut self, now: Now, frame: &PeerFrame, fx: &mut Effects) {
        let me = self.identity();
        let PeerMessage::Hello(hello) = &frame.message else { return };
        if frame.from == me.master || frame.epoch == me.epoch {
            return;
        }
        let left_behind = frame.epoch.filter(|epoch| me.former.contains(epoch));
        if hello.answer && left_behind.is_some() {
            fx.answer(PeerMessage::Hello(Hello { retired: left_behind, ..self.hello(now, false) }));
        }
    }

    /// Stops for good because the other master of this pairing speaks, and this one waits for it to join.
    //
    // Nobody speaks in the name of a pairing before this master has written down that the token is used (`JoinStep::Done`), however late a
    // message is and however often a join was begun: so this ledger is older than that, or a copy of one that was. The other one is told,
    // because it may not have seen anything that this ledger lacks.
    fn on_token_used(&mut self, now: Now, message: &PeerMessage, fx: &mut Effects) {
        if self.mode() != Mode::RolledBack {
            fx.alarms.push(Alarm::TokenUsed);
        }
        self.stop_for_good(fx);
        if let PeerMessage::Hello(hello) = message
            && (hello.answer || hello.challenge.is_some())
        {
            fx.answer(PeerMessage::Hello(Hello { echo: hello.challenge, ..self.hello(now, false) }));
        }
    }

    /// Notes that this master's pairing is over, for good.
    pub(crate) fn replaced(&mut self, fx: &mut Effects) {
        if self.mode() != Mode::RolledBack {
            fx.alarms.push(Alarm::Replaced);
        }
        self.stop_for_good(fx);
    }

    fn stop_for_good(&mut self, fx: &mut Effects) {
        self.put_observed(PeerObservations { rolled_back: true, ..self.agreement.observed }, fx);
        self.agreement.pair.roll_back();
    }

    /// Tells whether a greeting of this pairing may be taken in: not if it says that one of the two must not go on. If that
    /// was asked for just now, it is acted on; otherwise the greeting may be an old one, and the other master is asked to
    /// say it again. What it asks us to say again is said.
    fn undoubted(&mut self, now: Now, life: Life, hello: &Hello, fx: &mut Effects) -> bool {
        let doubt = self.doubt(hello, self.agreement.observed.peer_lsn, &self.agreement.lives);
        let mut challenge = None;
        let mut answers = hello.challenge.is_some();
        match doubt {
            None => (self.agreement.pair.doubted, self.agreement.pair.settled) = (None, None),
            // Known already; whoever is meant may not know it yet.
            Some(doubt) if self.agreement.pair.settled == Some((doubt, life)) => answers |= hello.answer,
            Some(doubt) if self.said_again(now, doubt, hello) => {
                self.agreement.pair.settled = Some((doubt, life));
                self.act_on(doubt, life, hello, fx);
                answers = true;
            }
            Some(doubt) => {
                if matches!(doubt, Doubt::OursBehind | Doubt::OursCopied) {
                    self.agreement.pair.doubted = Some(now.boot);
                }
                challenge = Some(self.challenge(now));
                answers = true;
            }
        }
        if answers {
            fx.answer(PeerMessage::Hello(Hello { challenge, echo: hello.challenge, ..self.hello(now, false) }));
        }
        doubt.is_none()
    }

    /// Tells whether a greeting names the number that the other master was asked for, and says so also by what was known then.
    fn said_again(&mut self, now: Now, doubt: Doubt, hello: &Hello) -> bool {
        let asked = self.agreement.pair.challenge.take_if(|challenge| hello.echo == Some(challenge.number));
        let asked = asked.filter(|challenge| now.boot - challenge.at < CHALLENGE_WAIT);
        asked.is_some_and(|then| self.doubt(hello, then.peer_lsn, &then.lives) == Some(doubt))
    }

    /// The number that the other master has to name: that of a moment ago, or a new one.
    fn challenge(&mut self, now: Now) -> u64 {
        if let Some(open) = self.agreement.pair.challenge.as_ref().filter(|open| now.boot - open.at < CHALLENGE_WAIT) {
            return open.number;
        }
        self.agreement.pair.challenges = self.agreement.pair.challenges.wrapping_add(1);
        let number = self.agreement.pair.challenges;
        let (peer_lsn, lives) = (self.agreement.observed.peer_lsn, self.agreement.lives.clone());
        self.agreement.pair.challenge = Some(Challenge { number, at: now.boot, peer_lsn, lives });
        number
    }

    /// The master that must not go on if this greeting is true, by what was known here at some time.
    fn doubt(&self, hello: &Hello, peer_lsn: u64, lives: &Lives) -> Option<Doubt> {
        let (ours, theirs) = (lives.follow(hello.accepted), lives.peer_follows(&hello.lives));
        if hello.seen > self.lsn() {
            Some(Doubt::OursBehind)
        } else if hello.copied || ours == Follows::Otherwise || theirs == Follows::Later {
            Some(Doubt::OursCopied)
        } else if lives.outlived(&hello.lives) {
            // Even if it lacks changes of the accepted one: it is no old copy, which would speak in a life of its own.
            Some(Doubt::TheirsCopied)
        } else if hello.lsn < peer_lsn || hello.awaits {
            Some(Doubt::TheirsBehind)
        } else if self.agreement.lives.peer_copied || theirs == Follows::Otherwise || ours == Follows::Later {
            Some(Doubt::TheirsCopied)
        } else {
            None
        }
    }

    fn act_on(&mut self, doubt: Doubt, life: Life, hello: &Hello, fx: &mut Effects) {
        let stopped_before = self.mode() == Mode::RolledBack;
        match doubt {
            Doubt::OursBehind => {
                if !stopped_before {
                    fx.alarms.push(Alarm::RolledBack { mine: self.lsn(), seen: hello.seen });
                }
                self.stop_for_good(fx);
            }
            Doubt::OursCopied => {
                if !stopped_before {
                    fx.alarms.push(Alarm::Copied);
                }
                self.stop_for_good(fx);
            }
            Doubt::TheirsBehind => self.note_behind(life, hello, fx),
            Doubt::TheirsCopied => {
                if !self.agreement.lives.peer_copied {
                    fx.alarms.push(Alarm::PeerCopied);
                    self.put_lives(Lives { peer_copied: true, ..self.agreement.lives.clone() }, fx);
                }
                // The next beats tell the other of the two, if it is there that `--peer` leads.
                self.agreement.pair.synced = false;
                self.agreement.pair.refused = Some(Alarm::PeerCopied.to_string());
            }
        }
    }

    /// Notes that the other master's store has forgotten changes, or that it is a copy that lacks them.
    fn note_behind(&mut self, life: Life, hello: &Hello, fx: &mut Effects) {
        let whose = self.whose(life);
        let what = match whose {
            _ if hello.awaits => "it waits for a replacement, but this master has joined it".to_owned(),
            // The same for any copy, whatever the other master changes meanwhile.
            Refused::AnotherLife => "it lacks changes of the other master's ledger that were seen here".to_owned(),
            _ => {
                let (there, seen) = (hello.lsn, self.agreement.observed.peer_lsn);
                format!("its ledger ends at change {there}, but change {seen} of it was seen here")
            }
        };
        let remedy = match whose {
            Refused::AnotherLife => {
                "if the other master is still heard, this is an old copy of it: stop the copy. Otherwise its disk was rolled back: stop \
                 it, and run `uniq_master --peer-lost` here"
            }
            _ => "its disk was rolled back. Stop it, and run `uniq_master --peer-lost` here",
        };
        self.note_refusal(format!("{what}; {remedy}"), whose, fx);
    }

    fn refusal(&self, frame: &PeerFrame) -> Option<String> {
        let me = self.identity();
        if frame.protocol != wire::PROTOCOL {
            let (here, there) = (wire::PROTOCOL, frame.protocol);
            return Some(format!("it speaks protocol {there}, this one {here}: install the same version on both"));
        }
        if frame.from == me.master {
            return Some(format!(
                "it says that it is master {} too: format one of them with the other --id",
                me.master
            ));
        }
        match (me.cluster, frame.cluster) {
            (Some(here), Some(there)) if here != there => {
                // Only a store that never met another says of which cluster it is.
                let why = format!("it belongs to cluster {there}, this one to {here}: check --peer and --data-dir");
                return Some(if me.paired { format!("{why}. {FORMATTED_ANEW}") } else { why });
            }
            (Some(_), None) if me.paired => {
                return Some(format!(
                    "its store was formatted anew and belongs to no cluster, but this one has met another in its place. \
                     {FORMATTED_ANEW}"
                ));
            }
            (None, None) if me.master == MasterId::One => {
                return Some("neither of the two stores belongs to a cluster: format them again".to_owned());
            }
            _ => {}
        }
        if me.epoch.is_some() && frame.epoch.is_some() && me.epoch != frame.epoch {
            return Some("it belongs to another pairing of this cluster: it was replaced, or this one was".to_owned());
        }
        if me.paired && frame.epoch.is_none() {
            return Some(
                "it does not prove that it belongs to this pairing: check --peer and --data-dir on both".to_owned(),
            );
        }
        let PeerMessage::Hello(hello) = &frame.message else { return None };
        if hello.parameters != me.parameters {
            let (here, there) = (me.parameters, hello.parameters);
            return Some(format!("it was formatted with other parameters ({there}) than this one ({here})"));
        }
        if hello.test_clock != self.test_clock() {
            return Some("the two run by different clocks: give both the same --test-clock, or none".to_owned());
        }
        None
    }

    /// The first meeting: master 2 takes over what master 1 drew, master 1 notes that it happened.
    fn adopt_cluster(&mut self, frame: &PeerFrame, users: Option<&Setting>, fx: &mut Effects) {
        let me = self.identity();
        if me.paired || frame.cluster.is_none() || frame.epoch.is_none() {
            return;
        }
        let paired = Identity {
            cluster: me.cluster.or(frame.cluster),
            epoch: me.epoch.or(frame.epoch),
            paired: true,
            ..me.clone()
        };
        self.put_identity(paired, fx);
        if let Some(users) = users {
            self.take_first_users(users, fx);
        }
    }
}
