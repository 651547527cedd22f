use super::*;
use common::calendar::UtcOffset;
use common::lease::Generation;
use common::time::{DAY_MS, HOUR_MS};
use common::token::TokenFamily;
use common::token::TokenValue;

fn key(value: u32) -> TokenKey {
    TokenKey { family: TokenFamily::Uint, value: TokenValue(value) }
}

fn lease(state: LeaseState, until: WallMs, deny: bool) -> Lease {
    let from = WallMs(0);
    let agent_id = "edge-01".parse().unwrap();
    let (token_type, session, address) = (TokenType::Uint2, SessionId(7), String::new());
    let (granted, renewed, rseq, attempt) = (from, from, 0, 0);
    let g = Generation(3);
    Lease { g, state, token_type, agent_id, session, address, granted, renewed, from, until, deny, rseq, attempt }
}

#[test]
fn a_lease_is_held_while_it_can_be_renewed_and_rests_until_it_can_be_granted() {
    let parameters = ClusterParameters::new(7, UtcOffset::default(), 4095).unwrap();
    let until = WallMs(7 * DAY_MS + HOUR_MS);
    let stage = |state, deny, now| LeaseStage::of(&lease(state, until, deny), WallMs(now), &parameters);
    assert_eq!(stage(LeaseState::Held, false, until.0 - 1), Some(LeaseStage::Held));
    assert_eq!(stage(LeaseState::Held, false, until.0), Some(LeaseStage::Ending));
    assert_eq!(stage(LeaseState::Held, true, 0), Some(LeaseStage::Ending));
    assert_eq!(stage(LeaseState::Closing, false, 0), Some(LeaseStage::Ending));
    assert_eq!(stage(LeaseState::Closed, false, 9 * DAY_MS - 1), Some(LeaseStage::Resting));
    assert_eq!(stage(LeaseState::Closed, true, 9 * DAY_MS), None, "its day and the day of rest are over");
}

#[test]
fn pages_follow_each_other_without_gap_or_overlap() {
    let parameters = ClusterParameters::new(7, UtcOffset::default(), 4095).unwrap();
    let held = lease(LeaseState::Held, WallMs(DAY_MS), false);
    let seen = |value: u32| LeaseFields::of_lease(key(value * 3), &held, LeaseStage::Held);
    let all = || (0..10).map(|value| (seen(value), &held));
    let cut = |page: Page| {
        let page = page.cut(all(), |key, lease| LeaseRow::of_lease(key, lease, LeaseStage::Held, &parameters));
        assert_eq!(page.total, 10);
        page.rows.iter().map(|row| row.token.value.0).collect::<Vec<_>>()
    };
    assert_eq!(cut(Page { after: None, skip: 0, limit: 4, order: Order::default() }), [0, 3, 6, 9]);
    assert_eq!(cut(Page { after: Some(key(9)), skip: 0, limit: 4, order: Order::default() }), [12, 15, 18, 21]);
    assert_eq!(cut(Page { after: None, skip: 8, limit: 4, order: Order::default() }), [24, 27]);
    assert_eq!(cut(Page { after: Some(key(27)), skip: 0, limit: 4, order: Order::default() }), [0; 0]);
    assert_eq!(cut(Page { after: None, skip: usize::MAX, limit: usize::MAX, order: Order::default() }), [0; 0]);
}

#[test]
fn a_pool_is_as_large_as_its_type_admits() {
    for uint2_max in [0, 99, 255, 256, 4095, u16::MAX] {
        for token_type in TokenType::ALL {
            let admitted = (0..70_000).filter(|v| token_type.admits(TokenValue(*v), uint2_max)).count();
            assert_eq!(token_type.size(uint2_max) as usize, admitted, "{token_type} {uint2_max}");
        }
    }
}

#[test]
fn a_value_counts_in_every_pool_it_belongs_to() {
    let taken = [(key(5), LeaseStage::Held), (key(300), LeaseStage::Granting), (key(6), LeaseStage::Resting)];
    let pools = count_pools(4095, taken.into_iter());
    let of = |kind| pools.iter().find(|pool| pool.token_type == kind).map(|p| (p.free, p.held, p.resting)).unwrap();
    assert_eq!(of(TokenType::Uint2), (4093, 2, 1));
    assert_eq!(of(TokenType::Uint1), (254, 1, 1));
    assert_eq!(of(TokenType::String3OnlyNumber), (1_000, 0, 0));
}

#[test]
fn any_order_is_a_stable_cut_of_the_whole() {
    let parameters = ClusterParameters::new(7, UtcOffset::default(), 4095).unwrap();
    let leases: Vec<Lease> = (0..50)
        .map(|n| Lease {
            agent_id: format!("agent-{}", n * 7 % 5).parse().unwrap(),
            ..lease(LeaseState::Held, WallMs(n * 13 % 11), false)
        })
        .collect();
    let all = || {
        let keys = (0..).map(key);
        keys.zip(&leases).map(|(key, lease)| (LeaseFields::of_lease(key, lease, LeaseStage::Held), lease))
    };
    for (by, descending) in SortBy::ALL.into_iter().flat_map(|by| [(by, false), (by, true)]) {
        let order = Order { by, descending };
        let cut = |skip, limit| {
            let page = Page { after: None, skip, limit, order };
            page.cut(all(), |key, lease| LeaseRow::of_lease(key, lease, LeaseStage::Held, &parameters)).rows
        };
        let whole = cut(0, 1_000);
        let pages: Vec<_> = (0..6).flat_map(|n| cut(n * 9, 9)).collect();
        assert_eq!((whole.len(), &pages), (50, &whole), "{order:?}");
        let ends: Vec<_> = whole.iter().map(|row| row.until).collect();
        if by == SortBy::Until {
            assert!(if descending { ends.is_sorted_by(|a, b| a >= b) } else { ends.is_sorted() });
        }
    }
}

#[test]
fn a_search_finds_tokens_agents_sessions_and_addresses() {
    let mut held = lease(LeaseState::Held, WallMs(DAY_MS), false);
    held.address = "10.4.0.7:4000".to_owned();
    let seen = LeaseFields::of_lease(key(46), &held, LeaseStage::Held);
    let session = held.session.to_string();
    let wrong_end = format!("{}f", &session[..31]);
    for (text, found) in [
        ("46", true),
        ("4", false),
        ("GE-0", true),
        ("10.4.", true),
        (&session[..9], true),
        (&session, true),
        (&wrong_end, true),
        ("x", false),
    ] {
        assert_eq!(text.parse::<Search>().unwrap().finds(&seen), found, "{text}");
    }
    assert!(
        "".parse::<Search>().is_err() && "a\n".parse::<Search>().is_err() && "x".repeat(65).parse::<Search>().is_err()
    );
}
