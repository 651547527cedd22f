//! Every text of the pages, in English and in Simplified Chinese. A word that one of the two lacks does not compile.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The languages of the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lang {
    #[default]
    En,
    Zh,
}

impl Lang {
    pub(crate) const ALL: [Self; 2] = [Self::En, Self::Zh];

    /// The tag in `<html lang>` and in the cookie.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }

    /// Its own name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::Zh => "简体中文",
        }
    }

    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lang| lang.tag() == tag)
    }

    /// The first language of an `Accept-Language` that we speak. Weights are ignored: browsers send them in order.
    pub(crate) fn accepted(header: &str) -> Option<Self> {
        header.split(',').find_map(|part| match part.split([';', '-']).next().unwrap_or_default().trim() {
            "en" => Some(Self::En),
            "zh" => Some(Self::Zh),
            _ => None,
        })
    }

    pub(crate) const fn words(self) -> &'static Words {
        match self {
            Self::En => &EN,
            Self::Zh => &ZH,
        }
    }
}

/// Puts `values` where a text says `{0}`, `{1}`.
pub(crate) fn fill(text: &str, values: &[&str]) -> String {
    let mut filled = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, (place, behind))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        filled.push_str(before);
        filled.push_str(place.parse::<usize>().ok().and_then(|n| values.get(n)).copied().unwrap_or_default());
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

/// One table of all texts, of which each topic, a file of its own, adds its part.
macro_rules! words {
    ([$topic:ident $($rest:ident)*] $($before:tt)*) => { $topic! { [$($rest)*] $($before)* } };
    ([] $($name:ident: $en:literal, $zh:literal;)*) => {
        /// The texts of one language.
        #[derive(Debug)]
        pub(crate) struct Words { $(pub(crate) $name: &'static str,)* }
        const EN: Words = Words { $($name: $en,)* };
        const ZH: Words = Words { $($name: $zh,)* };
        #[cfg(test)]
        const PAIRS: &[(&str, &str, &str)] = &[$((stringify!($name), $en, $zh),)*];
    };
}

#[macro_use]
mod frame;
#[macro_use]
mod leases;
#[macro_use]
mod names;
#[macro_use]
mod sequences;
#[macro_use]
mod access;
#[macro_use]
mod tools;

words! { [frame leases names sequences access tools] }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_the_same_places_to_fill() {
        let places = |text: &str| {
            let mut found: Vec<String> =
                text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap().to_owned()).collect();
            found.sort();
            found
        };
        assert!(PAIRS.len() > 200);
        for (name, en, zh) in PAIRS {
            assert_eq!(places(en), places(zh), "{name}");
            assert!(!en.is_empty() && !zh.is_empty() && !en.contains(['<', '>']) && !zh.contains(['<', '>']), "{name}");
        }
    }

    #[test]
    fn the_browsers_first_language_that_we_speak_is_taken() {
        assert_eq!(Lang::accepted("de-DE,zh-CN;q=0.9,en;q=0.8"), Some(Lang::Zh));
        assert_eq!(Lang::accepted("en-GB"), Some(Lang::En));
        assert_eq!(Lang::accepted("fr, de;q=0.5"), None);
        assert_eq!((Lang::of_tag("zh-CN"), Lang::of_tag("zh")), (Some(Lang::Zh), None));
    }

    #[test]
    fn values_go_where_they_belong() {
        assert_eq!(fill("{1} of {0}, {0}", &["a", "b"]), "b of a, a");
        assert_eq!(fill("{2}{x} {", &["a"]), " {");
    }
}
