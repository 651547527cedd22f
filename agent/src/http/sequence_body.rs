//! The body of a call for many keys: a key a line, or packed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::problem::Problem;
use common::sequence::{InvalidKey, Slot};
use net::rpc::mint::KeyAsked;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Keys of one call at most.
pub(super) const KEYS_MAX: usize = 10_000;
/// Bytes of a key that comes packed.
const PACKED_LEN: usize = 8;

/// A key in JSON: a number or a text.
struct Key(Slot);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key: a whole number that is not negative, or a text")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Key, E> {
                Ok(Key(Slot::of_number(number)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
                Slot::of(text).map(Key).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// A line of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: Key,
    #[serde(default = "one")]
    n: u32,
}

const fn one() -> u32 {
    1
}

/// Reads what a line asks for.
fn line(text: &[u8]) -> Result<KeyAsked, String> {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.first() != Some(&b'{') {
        let slot = Slot::of_bytes(text).map_err(|e: InvalidKey| e.to_string())?;
        return Ok(KeyAsked { slot, n: 1 });
    }
    let Line { key: Key(slot), n } = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    Ok(KeyAsked { slot, n })
}

/// The keys of a body with a key a line, each of them at least one number and at most `n_max`.
///
/// # Errors
/// A problem that names the line. Nothing is given then.
pub(super) fn lines(body: &[u8], n_max: u32) -> Result<Vec<KeyAsked>, Problem> {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    // A key takes a byte at least, and another one ends its line.
    let mut keys = Vec::with_capacity((body.len() / 2 + 1).min(KEYS_MAX));
    for (nth, text) in body.split(|byte| *byte == b'\n').enumerate() {
        if nth >= KEYS_MAX {
            return Err(too_many());
        }
        let wrong = |why: String| Problem::bad_parameter(format!("line {}: {why}", nth + 1));
        let key = line(text).map_err(wrong)?;
        if !(1..=n_max).contains(&key.n) {
            return Err(wrong(format!("n: {} is not a number from 1 to {n_max}", key.n)));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// The keys of a packed body: numbers of eight bytes, the most significant first.
///
/// # Errors
/// A problem that says what is wrong. Nothing is given then.
pub(super) fn packed(body: &[u8]) -> Result<Vec<KeyAsked>, Problem> {
    let (keys, rest) = body.as_chunks::<PACKED_LEN>();
    if !rest.is_empty() || keys.is_empty() {
        let why = format!("{} bytes are not packed keys: each has {PACKED_LEN}, and there is at least one", body.len());
        return Err(Problem::bad_parameter(why));
    }
    if keys.len() > KEYS_MAX {
        return Err(too_many());
    }
    Ok(keys.iter().map(|key| KeyAsked { slot: Slot::of_number(u64::from_be_bytes(*key)), n: 1 }).collect())
}

fn too_many() -> Problem {
    Problem::bad_parameter(format!("a call has at most {KEYS_MAX} keys; make several"))
}

/// A route as callers read it.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) g: u64,
    pub(super) http: &'a str,
    pub(super) rpc: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_come_bare_or_as_json_or_packed() {
        let body =
            b"42\n{\"key\":42}\r\n{\"n\":3,\"key\":\"42\"}\nuser 7\n{\"key\":\"{\"}\n{\"key\":18446744073709551615}\n";
        let keys = lines(body, 10).unwrap();
        let slot = |key| Slot::of(key).unwrap();
        let one = |slot| KeyAsked { slot, n: 1 };
        assert_eq!(
            keys,
            [
                one(Slot(42)),
                one(Slot(42)),
                KeyAsked { slot: Slot(42), n: 3 },
                one(slot("user 7")),
                one(slot("{")),
                one(slot("18446744073709551615")),
            ]
        );
        assert_eq!(packed(&[0, 0, 0, 0, 0, 0, 0, 42]).unwrap(), [one(Slot(42))]);
        let large: Vec<u8> = [7u64, u64::MAX].iter().flat_map(|key| key.to_be_bytes()).collect();
        assert_eq!(packed(&large).unwrap(), [one(Slot(7)), one(slot("18446744073709551615"))]);
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_line() {
        let long = format!("1\n{}", "k".repeat(129));
        for (body, named) in [
            (&b""[..], "line 1: a key has 1 to 128 bytes"),
            (b"1\n\n2", "line 2: "),
            (b"1\n2\n\xff", "line 3: a key is text in UTF-8"),
            (long.as_bytes(), "has 129"),
            (b"{\"key\":-1}", "line 1: "),
            (b"{\"key\":1.5}", "a key: a whole number"),
            (b"{\"key\":null}", "a key: a whole number"),
            (b"{\"key\":1,\"n\":null}", "invalid type: null"),
            (b"{\"key\":1,\"n\":2,\"n\":3}", "duplicate field `n`"),
            (b"{\"n\":1}", "missing field `key`"),
            (b"{\"key\":1,\"m\":1}", "unknown field `m`"),
            (b"{\"key\":1,\"n\":0}", "line 1: n: 0 is not"),
            (b"{\"key\":1,\"n\":11}", "1 to 10"),
            (b"{\"key\":\"\"}", "empty"),
            (b"{\"key\":1", "line 1: "),
        ] {
            let problem = lines(body, 10).unwrap_err().document();
            assert!(problem.contains(&named.replace('"', "\\\"")) && problem.contains("bad_parameter"), "{problem}");
        }
        for body in [&[][..], &[1], &[0; 12]] {
            assert!(packed(body).is_err());
        }
    }

    #[test]
    fn there_may_be_ten_thousand_keys_and_not_one_more() {
        let body = |n: usize| "1\n".repeat(n);
        assert_eq!(lines(body(KEYS_MAX).as_bytes(), 1).unwrap().len(), KEYS_MAX);
        assert!(lines(body(KEYS_MAX + 1).as_bytes(), 1).is_err());
        assert_eq!(packed(&[0; 8 * KEYS_MAX]).unwrap().len(), KEYS_MAX);
        assert!(packed(&[0; 8 * (KEYS_MAX + 1)]).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (lines(&body, 5), packed(&body));
        }
    }
}
