//! The chain of the audit: each line carries the hash of the one before it, and the store's count of records the hash of
//! the last one, so that a line that was changed, removed or put in is noticed.
//!
//! The chain keeps the newest [`LINES_MAX`] lines. Who can write to the disk can make a whole new chain; the hash of the
//! last line (`--verify-audit` prints it), kept elsewhere, shows that too.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::audit::Entry;
use common::envelope::{EnvelopeError, Kind, decode, encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Lines that are kept at most: years of grants and ends.
pub const LINES_MAX: u64 = 1_000_000;
const LINE: Kind = Kind { name: *b"AUDT", version: 1 };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hash([u8; 32]);

impl Hash {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Hash {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A line in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// 1 for the first line of this store.
    pub number: u64,
    /// The hash of the line before it; zeros before the first.
    pub before: Hash,
    pub entry: Entry,
}

/// The end of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The number of the last line; 0 if there is none.
    pub number: u64,
    pub hash: Hash,
}

impl Head {
    /// Adds a line. Returns its number, and its bytes for the store.
    ///
    /// # Errors
    /// A line that is too long to be one.
    pub fn add(&mut self, entry: &Entry) -> Result<(u64, Vec<u8>), EnvelopeError> {
        let number = self.number.saturating_add(1);
        let bytes = encode(LINE, &Line { number, before: self.hash, entry: entry.clone() })?;
        *self = Self { number, hash: Hash::of(&bytes) };
        Ok((number, bytes))
    }

    /// Tells whether `line` is the line that it ends with.
    pub fn ends_with(&self, line: Option<&[u8]>) -> bool {
        match line {
            None => *self == Self::default(),
            Some(bytes) => Hash::of(bytes) == self.hash && read(bytes).is_ok_and(|line| line.number == self.number),
        }
    }
}

/// Reads one line.
///
/// # Errors
/// The bytes are none.
pub fn read(bytes: &[u8]) -> Result<Line, EnvelopeError> {
    decode(LINE, bytes)
}

/// A chain as it is walked from its first line that is still kept.
#[derive(Debug, Default)]
pub struct Walk {
    at: Option<Head>,
    lines: u64,
}

impl Walk {
    /// The next line.
    ///
    /// # Errors
    /// A sentence that says what does not fit.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Line, String> {
        let expected = self.at.map(|head| head.number.saturating_add(1));
        let shown = |number: Option<u64>| number.map_or_else(|| "the first line".to_owned(), |n| format!("line {n}"));
        let line = read(bytes).map_err(|e| format!("{} is damaged: {e}", shown(expected)))?;
        match self.at {
            Some(head) if line.number != head.number.saturating_add(1) => {
                return Err(format!("after line {} comes line {}", head.number, line.number));
            }
            Some(head) if line.before != head.hash => {
                return Err(format!(
                    "line {} does not follow line {}: one of them was changed",
                    line.number, head.number
                ));
            }
            None if line.number == 1 && line.before != Hash::default() => {
                return Err("line 1 follows a line that is not there".to_owned());
            }
            _ => {}
        }
        self.at = Some(Head { number: line.number, hash: Hash::of(bytes) });
        self.lines += 1;
        Ok(line)
    }

    /// The last line so far.
    pub fn head(&self) -> Head {
        self.at.unwrap_or_default()
    }

    /// Counts the lines, if the chain ends where the store says.
    ///
    /// # Errors
    /// A sentence that says where it ends instead.
    pub fn end(self, head: Head) -> Result<u64, String> {
        let at = self.head();
        if at.number != head.number {
            return Err(format!("it ends at line {}, but line {} was written", at.number, head.number));
        }
        if at.hash != head.hash {
            return Err(format!("line {} is not what was written", at.number));
        }
        if self.lines < head.number.min(LINES_MAX) {
            return Err(format!("{} lines are missing at its beginning", head.number.min(LINES_MAX) - self.lines));
        }
        Ok(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::audit::{Action, Actor};
    use common::time::WallMs;

    fn chain(length: u64) -> (Vec<Vec<u8>>, Head) {
        let mut head = Head::default();
        let lines = (0..length).map(|n| {
            let entry = Entry::new(WallMs(0), Actor::new("a", ""), Action::Grant, &format!("token {n}"), "");
            head.add(&entry).unwrap().1
        });
        (lines.collect(), head)
    }

    fn verify(lines: &[Vec<u8>], head: Head) -> Result<u64, String> {
        let mut walk = Walk::default();
        for line in lines {
            walk.step(line)?;
        }
        walk.end(head)
    }

    #[test]
    fn whatever_is_done_to_a_chain_is_noticed() {
        let (lines, head) = chain(6);
        assert_eq!(verify(&lines, head), Ok(6));
        for at in 0..lines.len() {
            let mut without = lines.clone();
            without.remove(at);
            assert!(verify(&without, head).is_err(), "line {at} was removed");
            let mut doubled = lines.clone();
            doubled.insert(at, lines[at].clone());
            assert!(verify(&doubled, head).is_err(), "line {at} was doubled");
            let mut swapped = lines.clone();
            swapped.swap(at, (at + 1) % lines.len());
            assert!(verify(&swapped, head).is_err(), "line {at} was moved");
            for byte in 0..lines[at].len() {
                let mut flipped = lines.clone();
                flipped[at][byte] ^= 1;
                assert!(verify(&flipped, head).is_err(), "line {at} byte {byte} was changed");
            }
            // Also by somebody who knows how a line is made.
            let mut forged = lines.clone();
            let mut line = read(&lines[at]).unwrap();
            line.entry.subject = "another".to_owned();
            forged[at] = encode(LINE, &line).unwrap();
            assert!(verify(&forged, head).is_err(), "line {at} was rewritten");
        }
        assert!(verify(&[], head).is_err());
        assert_eq!(verify(&[], Head::default()), Ok(0));
    }
}
