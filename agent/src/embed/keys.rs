//! Numbers of keys for an application.
//!
//! An application serves no keys itself: it comes and goes, and nobody else could reach it. It learns from the masters which agent serves which
//! keys, asks that one directly, and follows when they move.

use super::{MintError, Process};
use crate::refusal::Refusal;
use crate::sequences::{Call, CallOutcome, Name, Sequences};
use common::sequence::Slot;
use net::rpc::mint::{KeyAsked, KeyOutcome, MintCode};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Consecutive numbers of one key in one call.
const N_MAX: u32 = 100_000;
/// Keys in one call.
const KEYS_MAX: usize = 10_000;

/// The counters of one name of kind `sequence`: each key's numbers strictly grow, whoever asks for them, in this process or elsewhere.
///
/// A key is text of 1 to 128 bytes; one that is a whole number below 2^32, as digits, has a counter of its own, and others share one in some
/// rare cases, which costs gaps. Every call waits for an agent, and for as long as its section moves to another one, at most 30 s.
#[derive(Clone)]
pub struct Sequence {
    pub(super) sequences: Arc<Sequences>,
    pub(super) name: Arc<Name>,
    pub(super) runtime: Handle,
    pub(super) process: Process,
}

impl Sequence {
    /// The key's next number: greater than every one that anybody was given for it before.
    ///
    /// # Errors
    /// [`MintError`]; then no number was given, or one whose answer was lost, which is a gap.
    pub fn get_next(&self, key: &str) -> Result<u64, MintError> {
        self.get_batch_next(key, 1)
    }

    /// The first of the key's next `n` numbers, 1 to 100,000 that follow each other.
    ///
    /// # Errors
    /// As [`get_next`](Self::get_next).
    pub fn get_batch_next(&self, key: &str, n: u32) -> Result<u64, MintError> {
        if !(1..=N_MAX).contains(&n) {
            return Err(Refusal::BadParameter(format!("n: 1 to {N_MAX}")).into());
        }
        self.name.admits(n)?;
        self.one(key, n)
    }

    /// The next number of each of these keys, at most 10,000, in their order; a key that occurs twice gets two. One that gets none has the
    /// reason in its place.
    ///
    /// # Errors
    /// [`MintError`]; then no key got a number.
    pub fn get_next_of_many(&self, keys: &[&str]) -> Result<Vec<Result<u64, MintError>>, MintError> {
        if keys.len() > KEYS_MAX {
            return Err(Refusal::BadParameter(format!("at most {KEYS_MAX} keys in one call")).into());
        }
        let asked = keys.iter().map(|key| asked(key, 1)).collect::<Result<Vec<_>, _>>()?;
        let outcomes = self.ask(asked)?.outcomes;
        Ok(outcomes.into_iter().map(|outcome| self.number(outcome)).collect())
    }

    /// The last number that may have been given for the key; gives none. The next one is greater; 0 if there was none.
    ///
    /// # Errors
    /// [`MintError`].
    pub fn get_current(&self, key: &str) -> Result<u64, MintError> {
        self.one(key, 0)
    }

    /// The text of a number, as the name's definition writes it; `None` of one that is larger than any of its keys has.
    pub fn text(&self, number: u64) -> Option<String> {
        let fits = number <= self.name.definition().width().last();
        fits.then(|| self.name.encoding().text(number.into())).flatten()
    }

    fn one(&self, key: &str, n: u32) -> Result<u64, MintError> {
        let outcome = self.ask(vec![asked(key, n)?])?.outcomes.pop();
        self.number(outcome.unwrap_or(KeyOutcome::Refused(MintCode::SegmentPending)))
    }

    fn number(&self, outcome: KeyOutcome) -> Result<u64, MintError> {
        match outcome {
            KeyOutcome::Given(number) => Ok(number),
            KeyOutcome::Refused(code) => Err(self.sequences.refusal(&self.name, code).into()),
        }
    }

    /// Asks on the thread of ours; the caller may be in a runtime of its own, so it waits as for any lock.
    fn ask(&self, keys: Vec<KeyAsked>) -> Result<CallOutcome, MintError> {
        self.process.check()?;
        self.sequences.gives(&self.name)?;
        let (done, answer) = std::sync::mpsc::sync_channel(1);
        let (sequences, name) = (Arc::clone(&self.sequences), Arc::clone(&self.name));
        self.runtime.spawn(async move {
            let _ = done.send(sequences.next(&name, &keys, Call::default()).await);
        });
        answer.recv().map_err(|_| Refusal::Overloaded("this agent has ended").into())
    }
}

fn asked(key: &str, n: u32) -> Result<KeyAsked, MintError> {
    let slot = Slot::of(key).map_err(|e| MintError::from(Refusal::BadParameter(e.to_string())))?;
    Ok(KeyAsked { slot, n })
}
