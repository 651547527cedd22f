//! The query of a request for IDs, checked to the letter: what is not understood is refused, never ignored.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::refusal::Refusal;
use axum::extract::Query;
use axum::http::Uri;
use common::kind::TextForm;

/// The parameters that a caller may give about the IDs it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MintQuery {
    n: Option<String>,
    format: Option<String>,
    biz: Option<String>,
    custom: Option<String>,
}

impl MintQuery {
    /// The query of a request, of which only the parameters `allowed` may be there, each once.
    pub(super) fn of(uri: &Uri, allowed: &[&str]) -> Result<Self, Refusal> {
        let mut query = Self::default();
        for (name, value) in pairs(uri)? {
            let place = match name.as_str() {
                "n" => &mut query.n,
                "format" => &mut query.format,
                "biz" => &mut query.biz,
                "custom" => &mut query.custom,
                _ => return Err(unknown(&name, allowed)),
            };
            if !allowed.contains(&name.as_str()) {
                return Err(unknown(&name, allowed));
            }
            if place.replace(value).is_some() {
                return Err(bad(format!("{name} is there twice")));
            }
        }
        Ok(query)
    }

    /// The number of IDs: 1..=`max`, 1 if nothing is said.
    pub(super) fn count(&self, max: u32) -> Result<u32, Refusal> {
        let Some(text) = &self.n else { return Ok(1) };
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let n = text.parse().ok().filter(|n| digits && (1..=max).contains(n));
        n.ok_or_else(|| bad(format!("n: '{}' is not a number from 1 to {max}", cut(text))))
    }

    /// The form of the IDs, if one is said.
    pub(super) fn form(&self) -> Result<Option<TextForm>, Refusal> {
        let form = self.format.as_deref().map(str::parse::<TextForm>).transpose();
        form.map_err(|e| bad(format!("format: {e}")))
    }

    /// The caller's parts of a string.
    pub(super) fn parts(&self) -> (Option<&str>, Option<&str>) {
        (self.biz.as_deref(), self.custom.as_deref())
    }
}

/// Tells whether a registration is only to be tried: `?dry-run`, with `=true` or `=false` if wanted.
pub(super) fn dry_run(uri: &Uri) -> Result<bool, Refusal> {
    let mut said = None;
    for (name, value) in pairs(uri)? {
        // The second as masters spell it.
        if !["dry-run", "dry_run"].contains(&name.as_str()) {
            return Err(unknown(&name, &["dry-run"]));
        }
        let dry = match value.as_str() {
            "" | "true" => true,
            "false" => false,
            other => return Err(bad(format!("{name}: '{}' is neither true nor false", cut(other)))),
        };
        if said.replace(dry).is_some() {
            return Err(bad(format!("{name} is there twice")));
        }
    }
    Ok(said.unwrap_or(false))
}

fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, Refusal> {
    if uri.query().is_none_or(str::is_empty) {
        return Ok(Vec::new());
    }
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|_| bad("the query is malformed: write name=value&name=value".to_owned()))?;
    Ok(pairs)
}

fn bad(why: String) -> Refusal {
    Refusal::BadParameter(why)
}

fn unknown(name: &str, allowed: &[&str]) -> Refusal {
    bad(format!("there is no parameter '{}' here; there are {}", cut(name), allowed.join(", ")))
}

/// Enough of a caller's text to recognise it.
fn cut(text: &str) -> String {
    text.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&str] = &["n", "format", "biz", "custom"];

    fn of(query: &str) -> Result<MintQuery, Refusal> {
        MintQuery::of(&format!("/string{query}").parse().unwrap(), ALL)
    }

    #[test]
    fn what_is_said_once_and_understood_is_taken() {
        let query = of("?&n=5&format=hex&biz=AB%43D&custom=").unwrap();
        assert_eq!((query.count(10).unwrap(), query.form().unwrap()), (5, Some(TextForm::Hex)));
        assert_eq!(query.parts(), (Some("ABCD"), Some("")));
        assert_eq!(of("").unwrap().count(10), Ok(1));
        assert_eq!(of("?").unwrap().form(), Ok(None));
    }

    #[test]
    fn a_dry_run_is_asked_for_in_so_many_words() {
        let asked = |query: &str| dry_run(&format!("/generators/a{query}").parse().unwrap());
        for yes in ["?dry-run", "?dry-run=", "?dry-run=true", "?dry_run=true", "?dry_run"] {
            assert_eq!(asked(yes), Ok(true), "{yes}");
        }
        for no in ["", "?", "?dry-run=false", "?dry_run=false"] {
            assert_eq!(asked(no), Ok(false), "{no}");
        }
        for bad in ["?dryrun", "?dry-run=1", "?dry-run=True", "?dry-run&dry_run=false", "?n=1", "?dry-run&x", "?%ff"] {
            assert!(asked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for bad in ["?m=1", "?n=1&n=1", "?N=1", "?date=20261120", "?n=1&=", "?nonsense"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        for bad in ["0", "11", "", "-1", "+1", "1.0", "abc", "99999999999999999999", "%31%30%30"] {
            assert!(of(&format!("?n={bad}")).unwrap().count(10).is_err(), "{bad}");
        }
        assert!(of("?format=roman").unwrap().form().is_err());
        assert!(MintQuery::of(&"/uniq96?biz=1".parse().unwrap(), &["n", "format"]).is_err());
    }
}
