//! Leases as an engine has them: with what a mutation makes of them, and for strings as for numbers.

use super::mutation::{Mutation, Mutations};
use common::lease::{Generation, Grant};
use common::time::{SpanMs, WallMs};
use common::token::{TokenType, TokenValue};
use minting::holder::{LeaseView, Leases};
use serial_file::Holdings;

/// The time by which the ends of leases are moved where a mutation moves them.
const TOO_FAR: SpanMs = SpanMs::days(15);

/// A lease that nobody can mint under.
pub(super) fn long_over() -> Grant {
    let token_type = TokenType::Uint2;
    let key = token_type.key(TokenValue(0));
    Grant { token_type, key, g: Generation(0), from: WallMs(0), until: WallMs(0), receipt: None }
}

/// A lease as a mutation has it.
pub(super) fn bent(lease: &Grant, mutations: Mutations) -> Grant {
    let mut lease = lease.clone();
    if mutations.has(Mutation::MintPastTheLease) {
        lease.until = lease.until + TOO_FAR;
    }
    if mutations.has(Mutation::MintBeforeTheLease) {
        lease.from = lease.from + SpanMs(-TOO_FAR.0);
    }
    lease
}

/// Gives what is really held, of what the engine holds: leases of numbers as they were granted.
pub(super) fn unbent(holdings: &Holdings, mutations: Mutations) -> Holdings {
    let as_granted = |lease: &Grant| {
        let mut lease = lease.clone();
        if mutations.has(Mutation::MintPastTheLease) {
            lease.until = lease.until + SpanMs(-TOO_FAR.0);
        }
        if mutations.has(Mutation::MintBeforeTheLease) {
            lease.from = lease.from + TOO_FAR;
        }
        lease
    };
    let numbers = holdings.leases.iter().filter(|lease| lease.token_type != TokenType::String2IncludeLetter);
    Holdings { leases: numbers.map(as_granted).collect(), ..holdings.clone() }
}

/// Strings are minted under the leases of numbers, the value written as two characters: one lease per agent instead of
/// two, and as few values. One value has one text, so what is unique stays unique. For the same reason a lease of a narrow type is
/// minted under as one of the widest.
pub(super) fn views(leases: Leases, mutations: Mutations) -> Leases {
    let strings = TokenType::String2IncludeLetter;
    let each = leases.into_values().flat_map(|view| {
        let view = with(view, |lease| bent(&lease, mutations));
        let spell = |lease: Grant| Grant { token_type: strings, key: strings.key(lease.key.value), ..lease };
        let spelled = with(view.clone(), spell);
        [(TokenType::Uint2, view), (strings, spelled)]
    });
    each.collect()
}

pub(super) fn with(view: LeaseView, change: impl FnOnce(Grant) -> Grant) -> LeaseView {
    match view {
        LeaseView::Missing => LeaseView::Missing,
        LeaseView::Held(lease) => LeaseView::Held(change(lease)),
        LeaseView::Resumed(lease) => LeaseView::Resumed(change(lease)),
        LeaseView::Suspended(lease) => LeaseView::Suspended(change(lease)),
        LeaseView::Expired(lease) => LeaseView::Expired(change(lease)),
    }
}
