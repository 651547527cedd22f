//! The query of a request, checked to the letter: what is not understood is refused, never ignored. A script with a
//! misspelt filter must not take the whole table for its answer.

use crate::commands::AuditFilter;
use crate::masters::LeaseFilter;
use crate::names::NamespaceFilter;
use crate::problem::Problem;
use crate::sequences::{SectionFilter, SectionPage, section_key};
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
    pub(crate) token_type: String,
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) agent: String,
    #[serde(default)]
    pub(crate) search: String,
}

/// The filter of names as it stands in the address; an empty value is as good as none, because forms send those.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NamespacesQuery {
    /// Only those with this text in the name, the description, the application, the owner or a label (`key=value`).
    #[serde(default)]
    q: String,
    /// Only those of this application.
    #[serde(default)]
    application: String,
    /// Only those of this owner.
    #[serde(default)]
    owner: String,
    /// Only those with this label: `key=value`, or the key alone.
    #[serde(default)]
    label: String,
    /// Only those of this kind.
    #[serde(default)]
    kind: String,
}

impl TryFrom<NamespacesQuery> for NamespaceFilter {
    type Error = Problem;
    fn try_from(query: NamespacesQuery) -> Result<Self, Problem> {
        Ok(Self {
            search: given("q", query.q.trim())?,
            application: given("application", query.application.trim())?,
            owner: given("owner", query.owner.trim())?,
            label: given("label", query.label.trim())?,
            kind: given("kind", &query.kind)?,
        })
    }
}

/// Lines of the audit that one answer holds, unless the query says how many.
pub(crate) const AUDIT_LINES: usize = 100;
/// Lines of the audit that one answer holds at most.
pub(crate) const AUDIT_LINES_MAX: usize = 1_000;

/// Lines of the audit that one answer reads at most.
pub(crate) const AUDIT_SCAN_MAX: usize = 100_000;
/// Lines of the audit that a page reads at most, again each second as long as somebody watches it.
pub(crate) const AUDIT_WATCHED_MAX: usize = 10_000;

/// A part of the audit.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only lines before this one.
    before: Option<u64>,
    /// The number of lines, 1 to 1000; 100 unless it is said.
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
    /// The filter. An empty text is as good as none, because forms send those.
    pub(crate) fn filter(&self) -> AuditFilter {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        AuditFilter {
            actor: given(&self.actor),
            action: given(&self.action),
            about: given(&self.about),
            automatic: None,
        }
    }

    /// The line before which to begin, and the number of lines.
    pub(crate) fn part(self) -> Result<(Option<u64>, usize), Problem> {
        let count = self.n.unwrap_or(AUDIT_LINES);
        if !(1..=AUDIT_LINES_MAX).contains(&count) {
            return Err(Problem::bad_parameter(format!("n: 1 to {AUDIT_LINES_MAX} lines at once")));
        }
        Ok((self.before, count))
    }
}

/// Rows of sections that one answer holds, unless the query says how many.
pub(crate) const SECTION_ROWS: usize = 100;
/// Rows of sections that one answer holds at most.
pub(crate) const SECTION_ROWS_MAX: usize = 1_000;

/// A part of the sections.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SectionsQuery {
    /// Only those of names of this set.
    #[serde(default)]
    pub(crate) set: String,
    /// Only those of this name.
    #[serde(default)]
    pub(crate) name: String,
    /// Only those that this agent has or is to have; a final `*` stands for any ending.
    #[serde(default)]
    pub(crate) agent: String,
    /// Only those after this one: NAME/SECTION.
    #[serde(default)]
    after: String,
    /// The number of rows, 1 to 1000; 100 unless it is said.
    #[param(minimum = 1, maximum = 1000)]
    n: Option<usize>,
}

impl SectionsQuery {
    /// The filter, and the part of what it lets through.
    pub(crate) fn read(self) -> Result<(SectionFilter, SectionPage), Problem> {
        let limit = self.n.unwrap_or(SECTION_ROWS);
        if !(1..=SECTION_ROWS_MAX).contains(&limit) {
            return Err(Problem::bad_parameter(format!("n: 1 to {SECTION_ROWS_MAX} rows at once")));
        }
        let after = match self.after.as_str() {
            "" => None,
            text => {
                let wrong = || Problem::bad_parameter("after: a section as NAME/SECTION, such as inbox/42");
                Some(section_key(text).ok_or_else(wrong)?)
            }
        };
        let filter = SectionFilter {
            set: given("set", self.set.trim())?,
            name: given("name", self.name.trim())?,
            agent: given("agent", self.agent.trim())?,
        };
        Ok((filter, SectionPage { after, limit }))
    }
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

/// A text as a value in a query.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~*".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The number of a page, from 1 on; 1 if none is given.
pub(crate) fn page_number(text: &str) -> Result<u32, Problem> {
    if text.is_empty() {
        return Ok(1);
    }
    let number = text.parse().ok().filter(|page| (1..=PAGE_NUMBER_MAX).contains(page));
    number.ok_or_else(|| Problem::bad_parameter(format!("page: a page is numbered 1 to {PAGE_NUMBER_MAX}")))
}

pub(crate) fn given<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<Option<T>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|e| Problem::bad_parameter(format!("{name}: {e}")))
}
