//! A viewer's preferences: the language, and light or dark.

use crate::words::{Lang, Words};
use axum::http::header;

/// The cookies of the viewer's own choices. The script sets them; they say nothing of who somebody is.
const LANG_COOKIE: &str = "uniq_lang";
const THEME_COOKIE: &str = "uniq_theme";

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// The viewer's choices, by cookies and by what the browser asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preferences {
    pub(crate) lang: Lang,
    pub(crate) theme: Theme,
}

impl Preferences {
    pub(crate) fn of(headers: &axum::http::HeaderMap) -> Self {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let all: Vec<(&str, &str)> =
            cookies.flat_map(|all| all.split(';')).filter_map(|one| one.trim().split_once('=')).collect();
        let cookie = |wanted: &str| all.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        let accepted = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let lang = cookie(LANG_COOKIE).and_then(Lang::of_tag).or_else(|| accepted.and_then(Lang::accepted));
        let theme = Theme::ALL.into_iter().find(|theme| cookie(THEME_COOKIE) == Some(theme.name()));
        Self { lang: lang.unwrap_or_default(), theme: theme.unwrap_or_default() }
    }
}

/// One of several to choose from.
pub(crate) struct Choice {
    pub(crate) value: &'static str,
    pub(crate) name: &'static str,
    pub(crate) chosen: bool,
}

pub(crate) fn langs(chosen: Lang) -> Vec<Choice> {
    Lang::ALL.map(|lang| Choice { value: lang.tag(), name: lang.name(), chosen: lang == chosen }).into()
}

pub(crate) fn themes(chosen: Theme, w: &'static Words) -> Vec<Choice> {
    let name = |theme| match theme {
        Theme::Auto => w.theme_auto,
        Theme::Light => w.theme_light,
        Theme::Dark => w.theme_dark,
    };
    Theme::ALL.map(|theme| Choice { value: theme.name(), name: name(theme), chosen: theme == chosen }).into()
}
