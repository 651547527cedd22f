use super::*;
use proptest::prelude::*;
use std::net::IpAddr;

fn spec(per_second: Option<u64>, per_day: Option<u64>, callers_max: u32) -> QuotaSpec {
    let mut json = serde_json::json!({ "plugin": "quota", "by": "caller", "callers_max": callers_max });
    for (key, limit) in [("per_second", per_second), ("per_day", per_day)] {
        if let Some(limit) = limit {
            json[key] = limit.into();
        }
    }
    let spec: super::super::PluginSpec = serde_json::from_value(json).unwrap();
    spec.parameters.read().unwrap()
}

fn v4(n: u32) -> AccountHolder {
    AccountHolder::Network(IpAddr::from(n.to_be_bytes()).into())
}

const ALL: usize = usize::MAX;

fn retry(limit: u64, per: Per, ms: i64) -> Result<(), Excess> {
    Err(Excess { limit, per, retry: Some(SpanMs(ms)) })
}

#[test]
fn a_window_gives_its_limit_and_says_when_the_next_begins() {
    let mut accounts = Accounts::new(spec(Some(10), Some(25), 100));
    let mut take = |ms: i64, n| accounts.take(BootMs(ms), &v4(1), n, ALL);
    assert_eq!(take(5_000, 10), Ok(()));
    assert_eq!(take(5_400, 1), retry(10, Per::Second, 600));
    assert_eq!(take(5_999, 1), retry(10, Per::Second, 1));
    assert_eq!(take(6_000, 10), Ok(()));
    assert_eq!(take(7_000, 6), retry(25, Per::Day, DAY_MS - 2_000));
    assert_eq!(take(7_000, 5), Ok(()));
    assert_eq!(take(7_001, 6), retry(25, Per::Day, DAY_MS - 2_001), "of two limits the one that lasts longer");
    assert_eq!(take(5_000 + DAY_MS, 10), Ok(()));
    assert_eq!(take(5_001 + DAY_MS, 11), Err(Excess { limit: 10, per: Per::Second, retry: None }), "it never fits");
    let mut accounts = Accounts::new(spec(Some(1_000_000_000), None, 100));
    assert_eq!(accounts.take(BootMs(i64::MAX), &v4(1), u32::MAX, ALL).unwrap_err().retry, None);
    assert_eq!(accounts.take(BootMs(i64::MAX), &v4(1), 1, ALL), Ok(()));
    assert_eq!(accounts.take(BootMs(i64::MIN), &v4(2), 1, ALL), Ok(()));
}

#[test]
fn what_did_not_leave_is_given_back_to_the_window_it_came_from() {
    let mut accounts = Accounts::new(spec(Some(10), None, 100));
    accounts.take(BootMs(0), &v4(1), 10, ALL).unwrap();
    accounts.give_back(BootMs(0), &v4(1), 4);
    assert_eq!(accounts.take(BootMs(1), &v4(1), 4, ALL), Ok(()));
    assert!(accounts.take(BootMs(2), &v4(1), 1, ALL).is_err());
    accounts.take(BootMs(1_500), &v4(1), 10, ALL).unwrap();
    accounts.give_back(BootMs(2), &v4(1), 4);
    assert!(accounts.take(BootMs(1_501), &v4(1), 1, ALL).is_err(), "they were of the window before");
}

#[test]
fn callers_are_told_apart_as_networks() {
    let of = |address: &str| AccountHolder::of(By::Caller, Caller::Address(address.parse().unwrap()));
    assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_ne!(of("::a00:1"), of("10.0.0.1"));
    assert_eq!(
        AccountHolder::of(By::Name, Caller::IN_PROCESS),
        AccountHolder::of(By::Name, Caller::Address("::1".parse().unwrap()))
    );
    assert_ne!(
        AccountHolder::of(By::Caller, Caller::IN_PROCESS),
        AccountHolder::of(By::Caller, Caller::Label("other"))
    );
}

#[test]
fn callers_for_whom_there_is_no_room_share_one_account() {
    let mut accounts = Accounts::new(spec(None, Some(10), 100));
    for n in 0..100 {
        accounts.take(BootMs(0), &v4(n), 1, ALL).unwrap();
    }
    let passed = (100..10_000).filter(|n| accounts.take(BootMs(1), &v4(*n), 1, ALL).is_ok()).count();
    assert_eq!((passed, accounts.len()), (10, 100));
    assert_eq!(accounts.take(BootMs(2), &v4(7), 9, ALL), Ok(()), "who has an account keeps it");
    // A day later all of them may be forgotten.
    assert_eq!(accounts.take(BootMs(DAY_MS + 1_000), &v4(10_000), 10, ALL), Ok(()));
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts.take(BootMs(DAY_MS + 1_000), &v4(10_001), 10, 1), Ok(()));
    assert_eq!(accounts.len(), 1, "no room in the agent");
}

/// The same, told by looking at everything that ever passed.
#[derive(Default)]
struct Twin {
    passed: Vec<(i64, u64)>,
}

impl Twin {
    fn used(&self, now: i64, span: i64) -> (i64, u64) {
        let (mut start, mut used) = (now, 0);
        for (at, n) in &self.passed {
            if used == 0 || *at >= start + span {
                (start, used) = (*at, 0);
            }
            used += n;
        }
        if now >= start + span { (now, 0) } else { (start, used) }
    }
}

proptest! {
    #[test]
    fn it_gives_what_its_twin_gives_and_the_wait_it_names_is_exact(
        per_second in 1u64..20,
        per_day in 1u64..60,
        calls in prop::collection::vec((0i64..900, 1u32..12), 1..60),
        leap in 0i64..DAY_MS * 2,
    ) {
        let mut accounts = Accounts::new(spec(Some(per_second), Some(per_day), 10));
        let (mut twin, mut now) = (Twin::default(), -5_000);
        let half = calls.len() / 2;
        for (index, (later, n)) in calls.into_iter().enumerate() {
            now += if index == half { leap } else { later };
            let fits = [(1_000, per_second), (DAY_MS, per_day)].iter().all(|(span, limit)| twin.used(now, *span).1 + u64::from(n) <= *limit);
            let before = accounts.clone();
            let taken = accounts.take(BootMs(now), &v4(1), n, ALL);
            prop_assert_eq!(taken.is_ok(), fits);
            match taken {
                Ok(()) => twin.passed.push((now, n.into())),
                Err(Excess { retry: Some(SpanMs(retry)), .. }) => {
                    prop_assert!(retry > 0);
                    prop_assert!(before.clone().take(BootMs(now + retry - 1), &v4(1), n, ALL).is_err());
                    prop_assert!(before.clone().take(BootMs(now + retry), &v4(1), n, ALL).is_ok());
                }
                Err(Excess { retry: None, limit, .. }) => prop_assert!(u64::from(n) > limit),
            }
        }
    }

    #[test]
    fn giving_back_what_was_just_taken_undoes_it(used in 0u32..10, n in 1u32..10) {
        let mut accounts = Accounts::new(spec(Some(20), None, 10));
        if used > 0 {
            accounts.take(BootMs(0), &v4(1), used, ALL).unwrap();
        }
        accounts.take(BootMs(3), &v4(1), n, ALL).unwrap();
        accounts.give_back(BootMs(3), &v4(1), n);
        prop_assert!(accounts.take(BootMs(4), &v4(1), 20 - used, ALL).is_ok());
        prop_assert!(accounts.take(BootMs(4), &v4(1), 1, ALL).is_err());
    }
}
