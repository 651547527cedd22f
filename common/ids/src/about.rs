//! The note that people keep about a generator's name: what it is for, which application uses it, who is asked about it, and
//! labels to find it by. It says nothing about IDs, so unlike what a name stands for it may change.

use crate::digits::shown;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A note about a name as people write it in JSON; what is left out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AboutSource {
    /// The purpose of the name: at most 256 characters.
    pub description: String,
    /// The application that uses it: at most 64 characters.
    pub application: String,
    /// The owner, a person or a team to ask about it: at most 64 characters.
    pub owner: String,
    /// Labels, at most 16. A key is 1 to 63 of a-z 0-9 - and begins and ends with a letter or a digit; a value has at most 64 characters.
    pub labels: BTreeMap<String, String>,
}

/// A note about a name, checked: each part is within its bounds, without control characters and without blanks around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "AboutSource", into = "AboutSource")]
pub struct About(AboutSource);

/// The reason why a note is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AboutError {
    /// A text is too long.
    #[error("{what} has {found} characters: shorten it to {max}")]
    TooLong {
        /// The part of the note.
        what: &'static str,
        /// The number of its characters.
        found: usize,
        /// The largest number of them.
        max: usize,
    },
    /// A line feed, a tab or the like.
    #[error("{what} has a control character, such as a line feed or a tab: write it in one line without")]
    Control {
        /// The part of the note.
        what: &'static str,
    },
    /// A character that turns the direction of what is around it.
    #[error(
        "{what} has a character that turns the direction of writing without being seen (U+202E or the like): leave it out"
    )]
    Bidirectional {
        /// The part of the note.
        what: &'static str,
    },
    /// Not a key of a label.
    #[error("'{0}' is no key of a label: write 1 to {max} of a-z 0-9 -, with a letter or a digit at both ends", max = About::KEY_LEN_MAX)]
    Key(String),
    /// Too many labels.
    #[error("there are {found} labels: leave out some, {max} is the most", max = About::LABELS_MAX)]
    Labels {
        /// The number of labels.
        found: usize,
    },
}

impl About {
    /// The longest description, in characters.
    pub const DESCRIPTION_CHARS_MAX: usize = 256;
    /// The longest application, owner and value of a label, in characters.
    pub const TEXT_CHARS_MAX: usize = 64;
    /// Labels of one name at most.
    pub const LABELS_MAX: usize = 16;
    /// The longest key of a label, in characters: that of a label in DNS.
    pub const KEY_LEN_MAX: usize = 63;

    /// A note, without the blanks around its texts.
    ///
    /// # Errors
    /// [`AboutError`]: which part is too long, or not what it should be.
    pub fn new(source: AboutSource) -> Result<Self, AboutError> {
        let AboutSource { description, application, owner, labels } = source;
        if labels.len() > Self::LABELS_MAX {
            return Err(AboutError::Labels { found: labels.len() });
        }
        let labels = labels.into_iter().map(|(key, value)| {
            if !is_label_key(&key) {
                return Err(AboutError::Key(shown(&key)));
            }
            Ok((key, checked("the value of a label", &value, Self::TEXT_CHARS_MAX)?))
        });
        Ok(Self(AboutSource {
            description: checked("description", &description, Self::DESCRIPTION_CHARS_MAX)?,
            application: checked("application", &application, Self::TEXT_CHARS_MAX)?,
            owner: checked("owner", &owner, Self::TEXT_CHARS_MAX)?,
            labels: labels.collect::<Result<_, _>>()?,
        }))
    }

    /// The purpose of the name; empty if nobody said.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// The application that uses it; empty if nobody said.
    pub fn application(&self) -> &str {
        &self.0.application
    }

    /// The owner; empty if nobody said.
    pub fn owner(&self) -> &str {
        &self.0.owner
    }

    /// Its labels, by their keys.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.0.labels
    }

    /// Tells whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The length of all its texts together, in bytes.
    pub fn len(&self) -> usize {
        let AboutSource { description, application, owner, labels } = &self.0;
        let labels = labels.iter().map(|(key, value)| key.len() + value.len() + LABEL_EXTRA);
        description.len() + application.len() + owner.len() + labels.sum::<usize>()
    }
}

/// Bytes that a label costs beside its texts when it is sent: the lengths of both, which are below 2^16.
const LABEL_EXTRA: usize = 2 * 3;

/// Tells whether a text is what a part of a name in DNS is (RFC 1123, section 2.1), in lower case.
pub fn is_label_key(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.iter().all(|end| end.is_some_and(plain))
        && text.len() <= About::KEY_LEN_MAX
        && text.bytes().all(|b| plain(b) || b == b'-')
}

/// Tells whether a character changes the direction of what is around it without being visible (Unicode 16, UAX #9): a note could then look
/// like another one.
fn is_bidirectional_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn checked(what: &'static str, text: &str, max: usize) -> Result<String, AboutError> {
    let text = text.trim();
    if text.contains(char::is_control) {
        return Err(AboutError::Control { what });
    }
    if text.contains(is_bidirectional_control) {
        return Err(AboutError::Bidirectional { what });
    }
    let found = text.chars().count();
    if found > max {
        return Err(AboutError::TooLong { what, found, max });
    }
    Ok(text.to_owned())
}

impl TryFrom<AboutSource> for About {
    type Error = AboutError;
    fn try_from(source: AboutSource) -> Result<Self, AboutError> {
        Self::new(source)
    }
}

impl From<About> for AboutSource {
    fn from(about: About) -> Self {
        about.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(key: &str, value: &str) -> Result<About, AboutError> {
        let labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        About::new(AboutSource { labels, ..AboutSource::default() })
    }

    #[test]
    fn texts_are_taken_up_to_their_bounds_in_characters_and_without_blanks_around_them() {
        let (long, text) = ("字".repeat(About::DESCRIPTION_CHARS_MAX), "é".repeat(About::TEXT_CHARS_MAX));
        let source = AboutSource {
            description: format!("  {long} "),
            application: text.clone(),
            owner: format!("{text}\n"),
            labels: BTreeMap::from([("a".to_owned(), format!(" {text}"))]),
        };
        let about = About::new(source).unwrap();
        assert_eq!((about.description(), about.application(), about.owner()), (&*long, &*text, &*text));
        assert_eq!(about.labels()["a"], text);
        assert_eq!(about.len(), 3 * 256 + 3 * 2 * 64 + 1 + LABEL_EXTRA);
        let too_long = |source: AboutSource| match About::new(source) {
            Err(AboutError::TooLong { what, found, max }) => {
                assert_eq!(found, max + 1);
                what
            }
            other => panic!("{other:?}"),
        };
        let none = AboutSource::default;
        assert_eq!(too_long(AboutSource { description: format!("{long}x"), ..none() }), "description");
        assert_eq!(too_long(AboutSource { application: format!("{text}x"), ..none() }), "application");
        assert_eq!(too_long(AboutSource { owner: format!("{text}x"), ..none() }), "owner");
        assert!(matches!(labelled("a", &format!("{text}x")), Err(AboutError::TooLong { max: 64, .. })));
        for (what, source) in [
            ("description", AboutSource { description: "a\nb".to_owned(), ..none() }),
            ("application", AboutSource { application: "a\u{1b}[31m".to_owned(), ..none() }),
            ("owner", AboutSource { owner: "a\u{85}b".to_owned(), ..none() }),
        ] {
            assert_eq!(About::new(source), Err(AboutError::Control { what }));
        }
        assert!(matches!(labelled("a", "b\tc"), Err(AboutError::Control { .. })));
    }

    #[test]
    fn keys_are_parts_of_names_in_dns() {
        for good in ["a", "0", "team", "cost-center", "a--b", &"a".repeat(About::KEY_LEN_MAX)] {
            assert!(labelled(good, "").is_ok(), "{good}");
        }
        for bad in ["", "-", "-a", "a-", "A", "a_b", "a.b", "a b", "é", "a=b", &"a".repeat(About::KEY_LEN_MAX + 1)] {
            assert!(matches!(labelled(bad, "x"), Err(AboutError::Key(_))), "{bad}");
        }
        let many = |n: usize| (0..n).map(|n| (format!("k{n}"), String::new())).collect();
        let of = |n| About::new(AboutSource { labels: many(n), ..AboutSource::default() });
        assert_eq!(of(About::LABELS_MAX).unwrap().labels().len(), About::LABELS_MAX);
        assert_eq!(of(About::LABELS_MAX + 1), Err(AboutError::Labels { found: 17 }));
    }

    #[test]
    fn what_is_read_is_checked_and_says_who_can_do_what() {
        let about: About = serde_json::from_str(r#"{"owner":" team pay ","labels":{"env":"prod"}}"#).unwrap();
        assert!(about.owner() == "team pay" && about.description().is_empty() && !about.is_empty());
        let json = serde_json::to_string(&about).unwrap();
        assert_eq!(json, r#"{"description":"","application":"","owner":"team pay","labels":{"env":"prod"}}"#);
        assert_eq!(serde_json::from_str::<About>(&json).unwrap(), about);
        assert!(serde_json::from_str::<About>("{}").unwrap().is_empty());
        for (json, why) in [
            (r#"{"owners":"a"}"#, "unknown field"),
            (r#"{"labels":{"Env":"prod"}}"#, "'Env' is no key of a label: write 1 to 63"),
            (r#"{"owner":"a\u0000b"}"#, "owner has a control character"),
            (r#"{"owner":"a\u202eb"}"#, "owner has a character that turns the direction of writing"),
            (r#"{"labels":{"env":"\u2067prod"}}"#, "turns the direction of writing"),
        ] {
            let e = serde_json::from_str::<About>(json).unwrap_err().to_string();
            assert!(e.contains(why), "{e}");
        }
    }
}
