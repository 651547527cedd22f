//! The query of a request, checked to the letter: what is not understood is refused, never ignored. A script with a
//! misspelt filter must not take the whole table for its answer.

use crate::masters::LeaseFilter;
use crate::orders::AuditFilter;
use crate::problem::Problem;
use serde::Deserialize;
use std::str::FromStr;
use utoipa::IntoParams;

/// Rows on one page of the table.
pub(crate) const PAGE_ROWS: usize = 200;
/// The highest page number: far beyond the last row of the largest cluster.
pub(crate) const PAGE_NUMBER_MAX: u32 = 10_000;

/// The filter as it stands in the address; an empty value is as good as none, because forms send those.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilterQuery {
    #[serde(rename = "type", default)]
    token_type: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    search: String,
}

/// Lines of the audit that one answer holds unless it is said, and at most.
pub(crate) const AUDIT_LINES: usize = 100;
/// See [`AUDIT_LINES`].
pub(crate) const AUDIT_LINES_MAX: usize = 1_000;

/// Which part of the audit.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only lines before this one.
    before: Option<u64>,
    /// How many lines, 1 to 1000; 100 unless it is said.
    #[param(minimum = 1, maximum = 1000)]
    n: Option<usize>,
    /// Only those whose actor's name contains this.
    #[serde(default)]
    actor: String,
    /// Only actions that begin so: `lease.deny`, or `lease.` for all of leases.
    #[serde(default)]
    action: String,
    /// Only those whose subject contains this.
    #[serde(default)]
    about: String,
}

impl AuditQuery {
    /// Which lines. An empty text is as good as none, because forms send those.
    pub(crate) fn filter(&self) -> AuditFilter {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        AuditFilter { actor: given(&self.actor), action: given(&self.action), about: given(&self.about) }
    }

    /// Before which line, and how many.
    pub(crate) fn part(self) -> Result<(Option<u64>, usize), Problem> {
        let count = self.n.unwrap_or(AUDIT_LINES);
        if !(1..=AUDIT_LINES_MAX).contains(&count) {
            return Err(Problem::bad_parameter(format!("n: 1 to {AUDIT_LINES_MAX} lines at once")));
        }
        Ok((self.before, count))
    }
}

/// A filter and the number of a page.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ViewQuery {
    #[serde(rename = "type", default)]
    token_type: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    page: String,
}

/// What somebody looks at: which leases, and which page of them (1 is the first).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct View {
    pub(crate) filter: LeaseFilter,
    pub(crate) page: u32,
}

impl TryFrom<FilterQuery> for LeaseFilter {
    type Error = Problem;
    fn try_from(query: FilterQuery) -> Result<Self, Problem> {
        Ok(Self {
            token_type: given("type", &query.token_type)?,
            stage: given("state", &query.state)?,
            agent: given("agent", query.agent.trim())?,
            token: None,
            search: given("search", query.search.trim())?,
        })
    }
}

impl TryFrom<ViewQuery> for View {
    type Error = Problem;
    fn try_from(query: ViewQuery) -> Result<Self, Problem> {
        let ViewQuery { token_type, state, agent, page } = query;
        let page =
            match page.as_str() {
                "" => 1,
                text => text.parse().ok().filter(|page| (1..=PAGE_NUMBER_MAX).contains(page)).ok_or_else(|| {
                    Problem::bad_parameter(format!("page: a page is numbered 1 to {PAGE_NUMBER_MAX}"))
                })?,
            };
        Ok(Self { filter: FilterQuery { token_type, state, agent, search: String::new() }.try_into()?, page })
    }
}

impl View {
    /// How many rows come before this page.
    pub(crate) fn skip(&self) -> usize {
        usize::try_from(self.page.saturating_sub(1)).unwrap_or(usize::MAX).saturating_mul(PAGE_ROWS)
    }

    /// The address of page `page` under the same filter. Every value that passed the filter is made of characters that
    /// stand for themselves in a query.
    pub(crate) fn href(&self, page: u32) -> String {
        let filter = &self.filter;
        let parts = [
            filter.token_type.map(|kind| format!("type={kind}")),
            filter.stage.map(|stage| format!("state={}", stage.name())),
            filter.agent.as_ref().map(|agent| format!("agent={agent}")),
            (page > 1).then(|| format!("page={page}")),
        ];
        let query = parts.into_iter().flatten().collect::<Vec<_>>().join("&");
        if query.is_empty() { "/".to_owned() } else { format!("/?{query}") }
    }
}

fn given<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<Option<T>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|e| Problem::bad_parameter(format!("{name}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(token_type: &str, state: &str, agent: &str, page: &str) -> Result<View, Problem> {
        let [token_type, state, agent, page] = [token_type, state, agent, page].map(str::to_owned);
        ViewQuery { token_type, state, agent, page }.try_into()
    }

    #[test]
    fn an_address_leads_back_to_its_view() {
        let asked = view("uint2", "held", "edge-*", "3").unwrap();
        assert_eq!(asked.href(asked.page), "/?type=uint2&state=held&agent=edge-*&page=3");
        assert_eq!(asked.skip(), 2 * PAGE_ROWS);
        assert_eq!(view("", "", "", "").unwrap().href(1), "/");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (token_type, state, agent, page) in [
            ("uint3", "", "", ""),
            ("", "free", "", ""),
            ("", "", "<b>", ""),
            ("", "", "a*b", ""),
            ("", "", "a**", ""),
            ("", "", "", "0"),
            ("", "", "", "10001"),
            ("", "", "", "-1"),
        ] {
            assert!(view(token_type, state, agent, page).is_err(), "{token_type} {state} {agent} {page}");
        }
    }
}
