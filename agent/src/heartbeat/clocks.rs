//! Whose calendar is wrong: a master's or this machine's.

use super::Task;
use super::link::{Greeting, Link};
use crate::timebase::Timebase;

impl Task {
    /// A connection to a master whose calendar fits this machine's: this one, or, if its calendar is too far off, another
    /// master's that is not. If no other one answers or all say the same, it is this machine's that is wrong as far as
    /// anybody knows, and minting stops.
    pub(super) async fn with_a_fitting_clock(&mut self, link: Link, greeting: Greeting) -> (Link, Greeting) {
        let Some(by) = Timebase::skewed_by(&greeting.answer) else { return (link, greeting) };
        let count = self.masters.len();
        for turn in (1..count).map(|step| (self.turn + step) % count) {
            let Some(address) = self.masters.get(turn).cloned() else { continue };
            let Ok((other, theirs)) = Link::open(&address, &self.caller, &self.minter).await else { continue };
            let another = theirs.reply.master != greeting.reply.master;
            let serves = theirs.reply.mode.serves().is_ok();
            if another && serves && theirs.answer.tells() && Timebase::skewed_by(&theirs.answer).is_none() {
                let (wrong, by_s) = (&link.address, by.0 / common::time::SECOND_MS);
                if self.is_news(format!("the clock of {wrong} is wrong")) {
                    tracing::warn!(%wrong, by_s, right = %address, "a master's clock is off; the other's is gone by");
                }
                self.turn = turn;
                return (other, theirs);
            }
        }
        (link, greeting)
    }
}
