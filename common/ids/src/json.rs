//! JSON that people and programs send, read to the letter.

use crate::digits::shown;
use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;

/// Reads a body. What is `null` is refused: a field that is left out means the default, and one that says nothing may have been meant to
/// say something. A field that is there twice is refused too, also where a type would take the last one.
///
/// # Errors
/// The place where the body is not what was asked for, and why.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    whole_text::<Said>(bytes)?;
    whole_text(bytes)
}

fn whole_text<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut source).map_err(|e| e.to_string())?;
    source.end().map_err(|e| e.to_string())?;
    Ok(read)
}

/// Any value in which nothing is `null` and no field is there twice.
struct Said;

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Said {
    type Value = Self;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Err(E::custom("null says nothing: leave it out, or say what it is to be"))
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            fields.next_value::<Self>()?;
            if let Some(twice) = names.replace(name) {
                return Err(A::Error::custom(format_args!("'{}' is there twice: leave one out", shown(&twice))));
            }
        }
        Ok(self)
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
    fn what_says_nothing_or_is_said_twice_is_refused_wherever_it_stands() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Body {
            a: Option<u32>,
            #[serde(default, with = "whole")]
            b: Option<u64>,
            c: Option<Vec<Option<u32>>>,
            /// Keeps the last of two fields.
            #[serde(flatten)]
            rest: std::collections::BTreeMap<String, serde_json::Value>,
        }
        let rest = std::collections::BTreeMap::new;
        assert_eq!(read::<Body>(b"{}").unwrap(), Body { a: None, b: None, c: None, rest: rest() });
        assert_eq!(
            read::<Body>(br#" {"a":1,"b":"2","c":[3]} "#).unwrap(),
            Body { a: Some(1), b: Some(2), c: Some(vec![Some(3)]), rest: rest() }
        );
        assert_eq!(read::<Body>(br#"{"d":[{"x":-1.5,"y":true},{"x":-2}]}"#).unwrap().rest.len(), 1);
        for (body, why) in [
            (r#"{"a":null}"#, "a: null says nothing"),
            (r#"{"b":null}"#, "b: null says nothing"),
            (r#"{"c":[1,null]}"#, "c[1]: null says nothing"),
            (r#"{"d":[{"x":{"y":null}}]}"#, "d[0].x.y: null says nothing"),
            (r#"{"a":1,"a":2}"#, "'a' is there twice: leave one out"),
            (r#"{"a":1,"\u0061":1}"#, "'a' is there twice"),
            (r#"{"kind":"segment","kind":"uniq64"}"#, "'kind' is there twice"),
            (r#"{"d":[{"x":{"y":1,"y":1}}]}"#, "d[0].x: 'y' is there twice"),
            (r#"{"a":1}}"#, "trailing characters"),
            (r#"{"a":1,}"#, "trailing comma"),
            (r#"{"b":-1}"#, "b: invalid type: integer `-1`, expected a whole number from 0 to"),
        ] {
            let refusal = read::<Body>(body.as_bytes()).unwrap_err();
            assert!(refusal.contains(why), "{body}: {refusal}");
        }
    }
}
