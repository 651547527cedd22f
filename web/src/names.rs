//! Filters of names: by a text, and by what is noted about them.

use crate::masters::NamespaceRow;
use common::about::{About, is_label_key};
use common::kind::Kind;
use std::fmt;
use std::str::FromStr;

/// A filter of names. An empty one wants all; case never matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceFilter {
    /// Only those in which this text occurs: in the name, its description, application, owner or a label (`key=value`).
    pub search: Option<Text>,
    /// Only those of this application: all of its name.
    pub application: Option<Text>,
    /// Only those of this owner: all of its name.
    pub owner: Option<Text>,
    /// Only those that have this label.
    pub label: Option<Label>,
    /// Only those of this kind.
    pub kind: Option<Kind>,
}

/// A text to search for, in lower case: at most 256 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(String);

/// A label to search for: a key with any value (`env`), or with this one (`env=prod`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    key: String,
    /// The value in lower case; `None`: any.
    value: Option<String>,
}

impl NamespaceFilter {
    pub fn admits(&self, row: &NamespaceRow) -> bool {
        let NamespaceRow { namespace, about, .. } = row;
        self.kind.is_none_or(|kind| kind == namespace.kind())
            && self.application.as_ref().is_none_or(|wanted| wanted.is(about.application()))
            && self.owner.as_ref().is_none_or(|wanted| wanted.is(about.owner()))
            && self.label.as_ref().is_none_or(|wanted| wanted.is_among(about))
            && self
                .search
                .as_ref()
                .is_none_or(|wanted| wanted.is_in(namespace.name().as_str()) || wanted.is_noted(about))
    }
}

impl Text {
    fn is(&self, text: &str) -> bool {
        text.to_lowercase() == self.0
    }

    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }

    fn is_noted(&self, about: &About) -> bool {
        let texts = [about.description(), about.application(), about.owner()];
        texts.into_iter().any(|text| self.is_in(text))
            || about.labels().iter().any(|(key, value)| self.is_in(&format!("{key}={value}")))
    }
}

impl FromStr for Text {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        const MAX: usize = About::DESCRIPTION_CHARS_MAX;
        match text.chars().count() > MAX || text.contains(char::is_control) {
            true => Err(format!("look for at most {MAX} characters, and no control characters")),
            false => Ok(Self(text.to_lowercase())),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Label {
    fn is_among(&self, about: &About) -> bool {
        let value = about.labels().get(&self.key);
        value.is_some_and(|value| self.value.as_ref().is_none_or(|wanted| value.to_lowercase() == *wanted))
    }
}

impl FromStr for Label {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (text, None),
        };
        let key = key.to_lowercase();
        let short = value.is_none_or(|value| value.chars().count() <= About::TEXT_CHARS_MAX);
        if !is_label_key(&key) || !short {
            return Err("write a label as key=value, or its key alone; a key is 1 to 63 of a-z 0-9 -".to_owned());
        }
        Ok(Self { key, value: value.map(str::to_lowercase) })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::about::AboutSource;
    use common::namespace::{Definition, Namespace};

    fn row() -> NamespaceRow {
        let labels = [("env".to_owned(), "Prod".to_owned()), ("empty".to_owned(), String::new())].into();
        let (description, application) = ("Numbers of invoices".to_owned(), "Billing".to_owned());
        let source = AboutSource { description, application, owner: "Team Pay".to_owned(), labels };
        NamespaceRow {
            namespace: Namespace::define("inv-2".parse().unwrap(), &Definition::default()).unwrap(),
            about: About::new(source).unwrap(),
            capacity: 1,
            registered_by: String::new(),
            retired: false,
            in_use: true,
            leased: true,
        }
    }

    fn filter(part: &str, text: &str) -> NamespaceFilter {
        let none = NamespaceFilter::default();
        match part {
            "q" => NamespaceFilter { search: Some(text.parse().unwrap()), ..none },
            "application" => NamespaceFilter { application: Some(text.parse().unwrap()), ..none },
            "owner" => NamespaceFilter { owner: Some(text.parse().unwrap()), ..none },
            "label" => NamespaceFilter { label: Some(text.parse().unwrap()), ..none },
            _ => NamespaceFilter { kind: Some(text.parse().unwrap()), ..none },
        }
    }

    #[test]
    fn each_part_of_a_filter_finds_what_it_says_whatever_the_case() {
        for (part, text) in [
            ("q", "V-2"),
            ("q", "OF INVOICES"),
            ("q", "billing"),
            ("q", "pay"),
            ("q", "env=prod"),
            ("application", "billing"),
            ("owner", "TEAM pay"),
            ("label", "env"),
            ("label", "ENV = prod"),
            ("label", "empty="),
            ("kind", "uniq64"),
        ] {
            assert!(filter(part, text).admits(&row()), "{part} {text}");
        }
        for (part, text) in [
            ("q", "uniq64"),
            ("q", "orders"),
            ("application", "bill"),
            ("owner", "team"),
            ("label", "en"),
            ("label", "env=pro"),
            ("label", "env="),
            ("label", "empty=x"),
            ("kind", "string"),
        ] {
            assert!(!filter(part, text).admits(&row()), "{part} {text}");
        }
        assert!(NamespaceFilter::default().admits(&row()));
        let both = NamespaceFilter { owner: Some("nobody".parse().unwrap()), ..filter("label", "env") };
        assert!(!both.admits(&row()));
    }

    #[test]
    fn what_cannot_be_a_label_or_is_too_long_is_refused() {
        for bad in ["", "=prod", "e nv=prod", "-env", &format!("env={}", "x".repeat(65))] {
            assert!(bad.parse::<Label>().is_err(), "{bad}");
        }
        assert!("x".repeat(256).parse::<Text>().is_ok() && "x".repeat(257).parse::<Text>().is_err());
        assert!("a\u{1}".parse::<Text>().is_err());
        assert_eq!(["env=a=b", "env"].map(|text| text.parse::<Label>().unwrap().to_string()), ["env=a=b", "env"]);
    }
}
