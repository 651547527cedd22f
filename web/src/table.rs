//! The leases that are shown, their order, and pages of them.

use crate::masters::{LeaseRow, LeaseStage};
use common::lease::{Lease, Prep};
use common::parameters::{AgentId, SessionId};
use common::time::WallMs;
use common::token::{TokenKey, TokenType};
use std::fmt;
use std::str::FromStr;

/// A text to search for in leases: a whole token, a part of an agent's name, or the beginning of a session or an
/// address. Case does not matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Search(String);

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    pub by: SortBy,
    pub descending: bool,
}

/// The columns that rows are put in order by; those that are equal in one stay in the order of their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SortBy {
    #[default]
    Token,
    State,
    Agent,
    Until,
    Renewed,
}

/// A part of the matching leases: of those after `after`, without the first `skip`, at most `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page {
    pub after: Option<TokenKey>,
    pub skip: usize,
    pub limit: usize,
    pub order: Order,
}

/// A page of leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasePage {
    pub rows: Vec<LeaseRow>,
    /// Counts the leases that match, on all pages together.
    pub total: usize,
}

/// The fields of a lease that are searched and sorted by.
#[derive(Clone, Copy, Debug)]
pub struct LeaseFields<'a> {
    pub token: TokenKey,
    pub token_type: TokenType,
    pub stage: LeaseStage,
    pub agent_id: &'a AgentId,
    pub session: SessionId,
    pub address: &'a str,
    pub until: WallMs,
    pub renewed: Option<WallMs>,
}

impl<'a> LeaseFields<'a> {
    pub fn of_lease(token: TokenKey, lease: &'a Lease, stage: LeaseStage) -> Self {
        let Lease { token_type, agent_id, session, address, until, renewed, .. } = lease;
        let (token_type, session, until, renewed) = (*token_type, *session, *until, Some(*renewed));
        Self { token, token_type, stage, agent_id, session, address, until, renewed }
    }

    pub fn of_prep(prep: &'a Prep) -> Self {
        let Prep { key: token, token_type, agent_id, session, address, until, .. } = prep;
        let (token, token_type, session, until) = (*token, *token_type, *session, *until);
        Self { token, token_type, stage: LeaseStage::Granting, agent_id, session, address, until, renewed: None }
    }

    pub fn of_row(row: &'a LeaseRow) -> Self {
        let LeaseRow { token, token_type, stage, agent_id, session, address, until, renewed, .. } = row;
        let (token, token_type, stage, session) = (*token, *token_type, *stage, *session);
        Self { token, token_type, stage, agent_id, session, address, until: *until, renewed: *renewed }
    }
}

impl Search {
    /// The longest text to search for, in characters.
    pub const LEN_MAX: usize = 64;

    pub(crate) fn finds(&self, lease: &LeaseFields<'_>) -> bool {
        let begins = |text: &str| text.get(..self.0.len()).is_some_and(|start| start.eq_ignore_ascii_case(&self.0));
        lease.agent_id.as_str().to_ascii_lowercase().contains(&self.0)
            || lease.token.text().eq_ignore_ascii_case(&self.0)
            || begins(lease.address)
            || self.begins_session(lease.session)
    }

    /// Only the digits that are shown count, so that nobody finds out the others one by one.
    fn begins_session(&self, session: SessionId) -> bool {
        let text = self.0.get(..SessionId::SHOWN_DIGITS).unwrap_or(&self.0);
        session.shown().starts_with(text)
    }
}

impl FromStr for Search {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.chars().count() > Self::LEN_MAX || text.chars().any(char::is_control) {
            return Err(format!("1 to {} characters can be searched for", Self::LEN_MAX));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SortBy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Token, Self::State, Self::Agent, Self::Until, Self::Renewed];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::State => "state",
            Self::Agent => "agent",
            Self::Until => "until",
            Self::Renewed => "renewed",
        }
    }
}

impl Order {
    fn compare(self, a: &LeaseFields<'_>, b: &LeaseFields<'_>) -> std::cmp::Ordering {
        let by = match self.by {
            SortBy::Token => a.token.cmp(&b.token),
            SortBy::State => a.stage.cmp(&b.stage),
            SortBy::Agent => a.agent_id.cmp(b.agent_id),
            SortBy::Until => a.until.cmp(&b.until),
            SortBy::Renewed => a.renewed.cmp(&b.renewed),
        };
        if self.descending { by.reverse() } else { by }.then_with(|| a.token.cmp(&b.token))
    }
}

impl Page {
    /// Cuts this page out of all that matches, ascending by key. Only what is on the page is made into rows.
    pub fn cut<'a, T>(
        &self,
        matching: impl Iterator<Item = (LeaseFields<'a>, T)>,
        row: impl Fn(TokenKey, T) -> LeaseRow,
    ) -> LeasePage {
        if self.order != Order::default() {
            return self.cut_sorted(matching, row);
        }
        let mut page = LeasePage::default();
        let mut skipped = 0;
        for (LeaseFields { token: key, .. }, item) in matching {
            page.total += 1;
            if self.after.is_some_and(|after| key <= after) || page.rows.len() >= self.limit {
                continue;
            }
            if skipped < self.skip {
                skipped += 1;
            } else {
                page.rows.push(row(key, item));
            }
        }
        page
    }

    /// Cuts a page in another order: what comes before the page's end is told apart from the rest, and only that is sorted.
    fn cut_sorted<'a, T>(
        &self,
        matching: impl Iterator<Item = (LeaseFields<'a>, T)>,
        row: impl Fn(TokenKey, T) -> LeaseRow,
    ) -> LeasePage {
        let mut all: Vec<(LeaseFields<'a>, T)> = matching.collect();
        let total = all.len();
        let compare = |a: &(LeaseFields<'a>, T), b: &(LeaseFields<'a>, T)| self.order.compare(&a.0, &b.0);
        let end = self.skip.saturating_add(self.limit);
        if end < total {
            all.select_nth_unstable_by(end, compare);
            all.truncate(end);
        }
        all.sort_unstable_by(compare);
        let rows = all.into_iter().skip(self.skip).map(|(fields, item)| row(fields.token, item)).collect();
        LeasePage { rows, total }
    }
}
