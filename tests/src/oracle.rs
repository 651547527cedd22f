//! The oracle: the set of every ID that any client received, which must never hold one twice.
//!
//! IDs are kept as they came, not as hashes, so a verdict is exact: 16 bytes for a number and 32 for a string of up to
//! [`TEXT_INLINE`] characters, 10 million IDs in 160 to 320 MB. They are sorted once at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Characters of a string ID that are kept without an allocation of its own.
pub const TEXT_INLINE: usize = 27;
/// Duplicates that a verdict names one by one; more are only counted.
pub const DUPLICATES_NAMED: usize = 20;

/// IDs of one kind, as they were received in one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// 64-bit numbers.
    Uniq64(Vec<u64>),
    /// 96-bit numbers, in the low bits.
    Uniq96(Vec<u128>),
    /// Strings, and numbers in a text form.
    Text(Vec<String>),
}

impl Ids {
    /// The number of IDs.
    pub fn len(&self) -> usize {
        match self {
            Self::Uniq64(ids) => ids.len(),
            Self::Uniq96(ids) => ids.len(),
            Self::Text(ids) => ids.len(),
        }
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The place and the time at which IDs were received.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The one who gave them, and to what request.
    pub source: String,
    /// The time since the oracle's beginning.
    pub at: Duration,
}

/// One ID that came twice.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The namespace in which it must be unique.
    pub namespace: String,
    /// The ID as text.
    pub id: String,
    /// The answers it came with.
    pub receipts: [Receipt; 2],
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.receipts;
        write!(
            f,
            "{} {}: from {} at {:.3} s, and from {} at {:.3} s",
            self.namespace,
            self.id,
            a.source,
            a.at.as_secs_f64(),
            b.source,
            b.at.as_secs_f64()
        )
    }
}

/// The findings of the oracle.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The number of IDs that each namespace gave.
    pub counts: BTreeMap<String, usize>,
    /// The number of those that had come before.
    pub duplicates: usize,
    /// The first of those, at most [`DUPLICATES_NAMED`].
    pub named: Vec<Duplicate>,
}

impl Verdict {
    /// All IDs.
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IDs received, {} of them twice", self.total(), self.duplicates)?;
        for (namespace, count) in &self.counts {
            write!(f, "\n  {namespace}: {count}")?;
        }
        for duplicate in &self.named {
            write!(f, "\n  TWICE {duplicate}")?;
        }
        Ok(())
    }
}

/// Bytes in place; the last one is the length, so that a shorter text is never taken for a longer one.
type Inline = [u8; TEXT_INLINE + 1];

#[derive(Default)]
struct Column {
    uniq64: Vec<(u64, u32)>,
    /// The upper 64 bits, the lower 32, the receipt: 16 bytes, where a `u128` would make it 32.
    uniq96: Vec<(u64, u32, u32)>,
    text: Vec<(Inline, u32)>,
    long: Vec<(Box<str>, u32)>,
}

#[derive(Default)]
struct Inner {
    columns: BTreeMap<String, Column>,
    receipts: Vec<Receipt>,
    total: usize,
}

/// Every ID received so far. Shared by all clients of a test.
pub struct Oracle {
    began: Instant,
    inner: Mutex<Inner>,
}

impl Default for Oracle {
    fn default() -> Self {
        Self { began: Instant::now(), inner: Mutex::default() }
    }
}

impl Oracle {
    /// Notes what `source` gave. `namespace` is the scope of uniqueness: the kind and the generator's name.
    pub fn note(&self, namespace: &str, source: &str, ids: &Ids) {
        let mut inner = self.lock();
        let receipt = u32::try_from(inner.receipts.len()).unwrap_or(u32::MAX);
        inner.receipts.push(Receipt { source: source.to_owned(), at: self.began.elapsed() });
        inner.total += ids.len();
        let column = inner.columns.entry(namespace.to_owned()).or_default();
        match ids {
            Ids::Uniq64(ids) => column.uniq64.extend(ids.iter().map(|id| (*id, receipt))),
            Ids::Uniq96(ids) => column.uniq96.extend(ids.iter().map(|id| {
                let (high, low) = halves(*id);
                (high, low, receipt)
            })),
            Ids::Text(ids) => {
                for id in ids {
                    match inline(id) {
                        Some(bytes) => column.text.push((bytes, receipt)),
                        None => column.long.push((id.as_str().into(), receipt)),
                    }
                }
            }
        }
    }

    /// The number of IDs that came so far.
    pub fn total(&self) -> usize {
        self.lock().total
    }

    /// Looks for IDs that came twice. What was noted stays noted.
    pub fn verdict(&self) -> Verdict {
        let mut inner = self.lock();
        let Inner { columns, receipts, .. } = &mut *inner;
        let mut verdict = Verdict::default();
        for (namespace, column) in columns {
            let Column { uniq64, uniq96, text, long } = column;
            uniq64.sort_unstable();
            uniq96.sort_unstable();
            text.sort_unstable();
            long.sort_unstable();
            let count = uniq64.len() + uniq96.len() + text.len() + long.len();
            verdict.counts.insert(namespace.clone(), count);
            let mut twice = Twice { verdict: &mut verdict, namespace, receipts };
            twice.among(uniq64.iter().map(|(id, receipt)| (id, *receipt)), |id| id.to_string());
            twice.among(uniq96.iter().map(|(high, low, receipt)| ((high, low), *receipt)), |(high, low)| {
                format!("{high:020}{low:010}")
            });
            twice.among(text.iter().map(|(id, receipt)| (id, *receipt)), shown);
            twice.among(long.iter().map(|(id, receipt)| (id, *receipt)), |id| id.to_string());
        }
        verdict
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

struct Twice<'a> {
    verdict: &'a mut Verdict,
    namespace: &'a str,
    receipts: &'a [Receipt],
}

impl Twice<'_> {
    /// Compares neighbours of an ordered row.
    fn among<T: PartialEq + Copy>(&mut self, sorted: impl Iterator<Item = (T, u32)>, show: impl Fn(T) -> String) {
        let mut before: Option<(T, u32)> = None;
        for (id, receipt) in sorted {
            if let Some((last, first)) = before
                && last == id
            {
                self.verdict.duplicates += 1;
                if self.verdict.named.len() < DUPLICATES_NAMED {
                    self.verdict.named.push(Duplicate {
                        namespace: self.namespace.to_owned(),
                        id: show(id),
                        receipts: [first, receipt].map(|nth| self.receipt(nth)),
                    });
                }
            }
            before = Some((id, receipt));
        }
    }

    fn receipt(&self, nth: u32) -> Receipt {
        let unknown = || Receipt { source: "(too many answers to remember)".to_owned(), at: Duration::ZERO };
        usize::try_from(nth).ok().and_then(|nth| self.receipts.get(nth)).cloned().unwrap_or_else(unknown)
    }
}

fn halves(id: u128) -> (u64, u32) {
    let bytes = id.to_be_bytes();
    let [_, _, _, _, h0, h1, h2, h3, h4, h5, h6, h7, l0, l1, l2, l3] = bytes;
    (u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7]), u32::from_be_bytes([l0, l1, l2, l3]))
}

fn inline(id: &str) -> Option<Inline> {
    let mut bytes = [0; TEXT_INLINE + 1];
    bytes.get_mut(..TEXT_INLINE)?.get_mut(..id.len())?.copy_from_slice(id.as_bytes());
    *bytes.last_mut()? = u8::try_from(id.len()).ok()?;
    Some(bytes)
}

fn shown(bytes: &Inline) -> String {
    let len = bytes.last().map_or(0, |len| usize::from(*len));
    String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_id_of_each_kind_is_found_and_named() {
        let oracle = Oracle::default();
        let long = "x".repeat(TEXT_INLINE + 1);
        oracle.note("uniq64/default", "a", &Ids::Uniq64(vec![1, 2, 3]));
        oracle.note("uniq96/default", "a", &Ids::Uniq96(vec![1 << 90, 5]));
        oracle.note("string/default", "a", &Ids::Text(vec!["short".to_owned(), long.clone()]));
        assert_eq!(oracle.verdict().duplicates, 0);

        oracle.note("uniq64/default", "b", &Ids::Uniq64(vec![9, 2]));
        oracle.note("uniq96/default", "b", &Ids::Uniq96(vec![1 << 90]));
        oracle.note("string/default", "b", &Ids::Text(vec![long.clone(), "short".to_owned()]));
        let verdict = oracle.verdict();
        assert_eq!((verdict.total(), verdict.duplicates, oracle.total()), (12, 4, 12));
        let mut named: Vec<_> = verdict.named.iter().map(|d| d.id.clone()).collect();
        named.sort();
        assert_eq!(named, ["002882303761517117440000000000", "2", "short", &long]);
        assert!(
            verdict.named.iter().all(|d| { d.receipts.iter().map(|r| r.source.as_str()).collect::<String>() == "ab" })
        );
    }

    #[test]
    fn names_and_kinds_are_scopes_of_their_own() {
        let oracle = Oracle::default();
        oracle.note("uniq64/default", "a", &Ids::Uniq64(vec![1]));
        oracle.note("uniq64/orders", "a", &Ids::Uniq64(vec![1]));
        oracle.note("string/default", "a", &Ids::Text(vec!["a".to_owned(), "a\0".to_owned()]));
        assert_eq!(oracle.verdict().duplicates, 0);
    }

    #[test]
    fn an_id_twice_in_one_answer_is_found() {
        let oracle = Oracle::default();
        oracle.note("uniq64/default", "a", &Ids::Uniq64((0..1000).chain([500]).collect()));
        assert_eq!(oracle.verdict().duplicates, 1);
    }
}
