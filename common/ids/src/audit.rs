//! The audit: the lines that the masters write about every change of ownership and every command of an operator: who, from
//! where, when, what.
//!
//! A line is made durable in the same commit as its effect, so no effect is ever seen without it.

use crate::parameters::MasterId;
use crate::time::WallMs;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest name or address that is kept of somebody, in characters; the rest is cut off.
pub const ACTOR_CHARS_MAX: usize = 64;
/// The longest detail of a line, in characters; the rest is cut off.
pub const DETAIL_CHARS_MAX: usize = 512;

/// Somebody who causes a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Actor {
    who: String,
    from: String,
}

impl Actor {
    /// A person, an API key, an agent or a master, and the address it came from (empty if it has none). What comes from
    /// outside is cut to [`ACTOR_CHARS_MAX`] characters and cleared of control characters.
    pub fn new(who: &str, from: &str) -> Self {
        Self { who: cleared(who, ACTOR_CHARS_MAX), from: cleared(from, ACTOR_CHARS_MAX) }
    }

    /// A master that acts by itself, as when it ends a lease whose time is over.
    pub fn master(id: MasterId) -> Self {
        Self { who: format!("master {id}"), from: String::new() }
    }

    /// Its name.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// The address it came from; empty if it has none.
    pub fn from(&self) -> &str {
        &self.from
    }
}

/// The cause of a change of a lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cause {
    /// The actor, for the audit.
    pub actor: Actor,
    /// True if an operator commanded it; otherwise it follows from what agents and masters did.
    pub commanded: bool,
}

impl Cause {
    /// An operator's command.
    pub fn command(actor: Actor) -> Self {
        Self { actor, commanded: true }
    }

    /// The cause of something that an agent did, or that was noticed of it.
    pub fn event(actor: Actor) -> Self {
        Self { actor, commanded: false }
    }
}

/// Characters at most of what somebody outside says, in our errors and in the log.
pub const TOLD_CHARS: usize = 200;

/// `text` without control characters, cut to `chars_max` characters: what comes from outside, for people to read.
pub fn cleared(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

/// The action that a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// `lease.grant`: a token has a new holder.
    Grant,
    /// `lease.deny`: a lease is not renewed any more: its holder gave it back, or two live copies of it were seen.
    Deny,
    /// `lease.end`: a lease is over and its token rests.
    End,
    /// `lease.renew`: an operator renewed a lease by hand. Renewals by their holders are not written down.
    Renew,
    /// `namespace.define`: a generator's name stands for something from now on.
    Define,
    /// `whitelist.change`: who may ask for leases.
    Whitelist,
    /// `master.peer_lost`: the other master was declared lost.
    PeerLost,
    /// `master.join`: its replacement took the ledger over.
    Join,
    /// `master.rolled_back`: this ledger is older than it once was, or of a pairing that is over.
    RolledBack,
    /// `login.begin`: somebody logged in at this master's console.
    LogIn,
    /// `login.lockout`: too many wrong passwords for a user who exists; the address is that of the last one.
    LockOut,
    /// `user.change`: a user is new, gone, or has another password or role.
    User,
    /// `key.change`: an API key is new or gone.
    Key,
    /// `master.vouch`: an operator vouched that this master's store is the untouched one (`--vouch-untouched`).
    Vouch,
    /// `namespace.retire`: a generator's name gives no more IDs.
    Retire,
    /// `master.reverted`: an agent proved that both ledgers were put back to an earlier state.
    Reverted,
    /// `master.after_revert`: an operator said how to go on after that, or after both stores were lost.
    AfterRevert,
    /// `master.forget_clock`: an operator let a master forget the latest time that both calendars ever showed.
    ForgetClock,
    /// `lease.terminate`: an operator terminated a lease.
    Terminate,
    /// `namespace.about`: something else is noted about a generator's name.
    About,
    /// `axis.extend`: a part of a segment's axis belongs to a run of a master.
    Extend,
    /// `axis.raise`: an operator raised a segment's axis.
    Raise,
    /// `axis.dismiss`: an operator said that what agents show of an axis is not true.
    Dismiss,
    /// `section.move`: an operator gave a section of a sequence to another agent. Sections that masters move by themselves are not
    /// written down: there are tens of thousands, and each agent that comes or goes moves thousands of them.
    MoveSection,
    /// `section.raise`: an operator raised the numbers of a section of a sequence.
    RaiseSection,
    /// `agent.drain`: an operator takes all sections away from an agent, or no longer does.
    Drain,
    /// `settings.export`: somebody has all settings as a file, without secrets.
    Export,
    /// `settings.import`: somebody brings settings from a file; what is new has lines of its own.
    Import,
    /// `login.end`: an admin ended somebody else's login at this master's console.
    EndLogin,
    /// `invitation.make`: somebody invited a program from this master's console; who reads the invitation can get a certificate by it.
    Invite,
    /// `invitation.withdraw`: somebody withdrew an invitation.
    Withdraw,
    /// `certificate.issue`: a program got a certificate from this master by an invitation; a master got the CA.
    Certify,
    /// `certificate.revoke`: an admin revoked a program's certificates, or took that back.
    Revoke,
    /// `access.refuse`: somebody was refused; the first time at once, then together every ten minutes, by [`RefusedAt`].
    Refuse,
}

impl Action {
    /// Tells whether masters and agents do it by themselves day in, day out: leases come and go, and axes are granted. All else is somebody's
    /// decision, or happens so seldom that somebody should see it.
    pub const fn is_automatic(self) -> bool {
        matches!(self, Self::Grant | Self::Deny | Self::End | Self::Extend)
    }

    /// The stable name in logs and APIs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Grant => "lease.grant",
            Self::Deny => "lease.deny",
            Self::End => "lease.end",
            Self::Renew => "lease.renew",
            Self::Define => "namespace.define",
            Self::Whitelist => "whitelist.change",
            Self::PeerLost => "master.peer_lost",
            Self::Join => "master.join",
            Self::RolledBack => "master.rolled_back",
            Self::Vouch => "master.vouch",
            Self::LogIn => "login.begin",
            Self::LockOut => "login.lockout",
            Self::User => "user.change",
            Self::Key => "key.change",
            Self::Retire => "namespace.retire",
            Self::Reverted => "master.reverted",
            Self::AfterRevert => "master.after_revert",
            Self::ForgetClock => "master.forget_clock",
            Self::Terminate => "lease.terminate",
            Self::About => "namespace.about",
            Self::Extend => "axis.extend",
            Self::Raise => "axis.raise",
            Self::Dismiss => "axis.dismiss",
            Self::MoveSection => "section.move",
            Self::RaiseSection => "section.raise",
            Self::Drain => "agent.drain",
            Self::Export => "settings.export",
            Self::Import => "settings.import",
            Self::EndLogin => "login.end",
            Self::Invite => "invitation.make",
            Self::Withdraw => "invitation.withdraw",
            Self::Certify => "certificate.issue",
            Self::Revoke => "certificate.revoke",
            Self::Refuse => "access.refuse",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// Time of the action, by the calendar of the master that wrote it down.
    pub at: WallMs,
    /// The actor.
    pub actor: Actor,
    /// The action.
    pub action: Action,
    /// The subject: a token, a name.
    pub subject: String,
    /// Details: the rest a reader wants to know.
    pub detail: String,
}

/// A place where somebody is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusedAt {
    /// The login of the console.
    Login,
    /// The console behind it, and the API.
    Console,
    /// The issuing of certificates.
    Certificates,
    /// The port for agents.
    Agents,
}

impl RefusedAt {
    /// The name, as the subject of a line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Console => "console",
            Self::Certificates => "certificates",
            Self::Agents => "agents",
        }
    }
}

/// A line of the audit that is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The actor.
    pub actor: Actor,
    /// The action.
    pub action: Action,
    /// The subject: a token, a name.
    pub subject: String,
    /// Details; empty if there are none.
    pub detail: String,
}

impl Note {
    /// A line without details.
    pub fn new(actor: Actor, action: Action, subject: impl Into<String>) -> Self {
        Self { actor, action, subject: subject.into(), detail: String::new() }
    }
}

impl Entry {
    /// A line; a detail longer than [`DETAIL_CHARS_MAX`] is cut.
    pub fn new(at: WallMs, actor: Actor, action: Action, subject: &str, detail: &str) -> Self {
        let (subject, detail) = (cleared(subject, ACTOR_CHARS_MAX), cleared(detail, DETAIL_CHARS_MAX));
        Self { at, actor, action, subject, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_cut_and_cleared() {
        let actor = Actor::new(&"\u{1b}[31mx\n".repeat(100), "10.0.0.1:5\r");
        assert_eq!((actor.who().chars().count(), actor.from()), (ACTOR_CHARS_MAX, "10.0.0.1:5"));
        assert!(!actor.who().contains(char::is_control));
        let entry = Entry::new(WallMs(0), actor, Action::Define, "orders", &"d".repeat(10_000));
        assert_eq!(entry.detail.len(), DETAIL_CHARS_MAX);
    }
}
