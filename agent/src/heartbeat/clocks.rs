//! The search for the calendar that is wrong: a master's or this machine's.

use super::Task;
use crate::masters::{Ask, First, Greeting, Lane, Line};
use crate::timebase::Timebase;

impl Task {
    /// A line to a master whose calendar fits this machine's: this one, or, if its calendar is too far off, to another
    /// master whose is not. If no other one answers or all say the same, it is this machine's that is wrong as far as
    /// anybody knows, and minting stops.
    pub(super) async fn with_a_fitting_clock(&mut self, line: Line, greeting: Greeting) -> (Line, Greeting) {
        let Some(by) = Timebase::skewed_by(&greeting.answer) else { return (line, greeting) };
        let wrong = greeting.reply.master;
        let fitting = |mut line: Line| async move {
            let Greeting { reply, answer } = line.introduction().await?;
            let fits = answer.tells() && Timebase::skewed_by(&answer).is_none();
            let serves = reply.master != wrong && reply.mode.serves().is_ok();
            Ok((serves && fits).then_some((line, Greeting { reply, answer })))
        };
        let ask = Ask::new(Lane::Calls, First::Others(line.at));
        let Ok((other, theirs)) = self.masters.ask(ask, fitting).await else { return (line, greeting) };
        let (wrong, by_s) = (line.address(), by.0 / common::time::SECOND_MS);
        if self.is_news(format!("the clock of {wrong} is wrong")) {
            tracing::warn!(%wrong, by_s, right = %other.address(), "a master's clock is off; the other master's is used");
        }
        (other, theirs)
    }
}
