//! JSON that people and programs send, read to the letter.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::de::{DeserializeOwned, Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// Reads a body. What is `null` is refused: a field that is left out means the default, and one that says nothing may have been meant to
/// say something.
///
/// # Errors
/// Where it is not what was asked for, and why.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    // The type first: it refuses a field that is there twice.
    let read = serde_path_to_error::deserialize(&mut source).map_err(|e| e.to_string())?;
    source.end().map_err(|e| e.to_string())?;
    match serde_json::from_slice(bytes).ok().as_ref().and_then(null_in) {
        Some(place) => Err(format!("{} is null: leave it out, or say what it is to be", place.trim_start_matches('.'))),
        None => Ok(read),
    }
}

fn null_in(value: &Value) -> Option<String> {
    let under = |name: String, value| Some(name + &null_in(value)?);
    match value {
        Value::Null => Some(String::new()),
        Value::Array(items) => items.iter().enumerate().find_map(|(nth, item)| under(format!("[{nth}]"), item)),
        Value::Object(fields) => fields.iter().find_map(|(name, field)| under(format!(".{name}"), field)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A whole number that may exceed 2^53, from where on JavaScript and many readers of JSON round: read as a number or as a text of its digits,
/// written as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole(pub u64);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Whole;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from 0 to {}, or its digits as a text", u64::MAX)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Whole, E> {
                let digits = text.trim();
                let number = digits.parse().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()));
                number.map(Whole).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Digits)
    }
}

/// Reads and writes a field that may be left out as a [`Whole`].
pub mod whole {
    use super::Whole;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    /// Writes it, `null` if there is none.
    ///
    /// # Errors
    /// Those of the serializer.
    #[allow(clippy::ref_option, reason = "serde hands it over so")]
    pub fn serialize<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        number.map(Whole).serialize(to)
    }

    /// Reads one that is there.
    ///
    /// # Errors
    /// If it is no whole number, or too large a one.
    pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<Option<T>, D::Error> {
        let Whole(number) = Whole::deserialize(from)?;
        T::try_from(number).map(Some).map_err(|_| D::Error::custom(format_args!("{number} is too large here")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_to_the_last_digit_and_nothing_else_is() {
        let read = |json: &str| serde_json::from_str::<Whole>(json).map(|whole| whole.0);
        for (json, number) in [
            ("0", 0),
            ("9007199254740993", 9_007_199_254_740_993),
            ("\"9007199254740993\"", 9_007_199_254_740_993),
            ("\" 18446744073709551615 \"", u64::MAX),
        ] {
            assert_eq!(read(json).unwrap(), number, "{json}");
        }
        for json in
            ["-1", "1.0", "1e3", "18446744073709551616", "\"\"", "\"+1\"", "\"1,000\"", "\"-1\"", "null", "[1]", "true"]
        {
            let refusal = read(json).unwrap_err().to_string();
            assert!(refusal.contains("a whole number from 0 to"), "{json}: {refusal}");
        }
    }

    #[test]
    fn null_is_refused_wherever_it_stands() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Body {
            a: Option<u32>,
            #[serde(default, with = "whole")]
            b: Option<u64>,
            c: Option<Vec<Option<u32>>>,
        }
        assert_eq!(read::<Body>(b"{}").unwrap(), Body { a: None, b: None, c: None });
        assert_eq!(
            read::<Body>(br#"{"a":1,"b":"2","c":[3]}"#).unwrap(),
            Body { a: Some(1), b: Some(2), c: Some(vec![Some(3)]) }
        );
        for (body, why) in [
            (r#"{"a":null}"#, "a is null"),
            (r#"{"b":null}"#, "b: invalid type: null, expected a whole number from 0 to"),
            (r#"{"c":[1,null]}"#, "c[1] is null"),
            (r#"{"a":1,"a":2}"#, "duplicate field"),
            (r#"{"a":1}}"#, "trailing characters"),
        ] {
            let refusal = read::<Body>(body.as_bytes()).unwrap_err();
            assert!(refusal.contains(why), "{body}: {refusal}");
        }
    }
}
