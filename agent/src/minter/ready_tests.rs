use super::kit::{Kit, in_use, set_wall};
use super::*;
use common::kind::{Kind, UNIQ64, UNIQ64_SERIALS_PER_HOUR};
use common::namespace::Definition;
use common::parameters::SessionId;
use common::time::{DAY_MS, HOUR_MS, SpanMs, WallMs};
use net::rpc::mint::MintCode;
use serial_file::forget_clock;

fn noon(minter: &Minter) -> WallMs {
    WallMs(minter.time().wall().0 / DAY_MS * DAY_MS + DAY_MS + 12 * HOUR_MS)
}

fn uniq64(minter: &Minter) -> &Arc<Generator> {
    minter.names().generator(Kind::Uniq64, "default").unwrap()
}

fn layout() -> Namespace {
    let json = r#"{"kind":"layout","layout":"snowflake","token_type":"uint2"}"#;
    Namespace::define("flake".parse().unwrap(), &serde_json::from_str(json).unwrap()).unwrap()
}

/// Masters take all sections away from an agent that can give no numbers of them.
#[tokio::test]
async fn a_name_in_conflict_takes_sections_away_if_it_is_that_of_a_sequence() {
    let kit = Kit::new();
    let minter = kit.start();
    let named = |name: &str, json: &str| {
        Namespace::define(name.parse().unwrap(), &serde_json::from_str::<Definition>(json).unwrap()).unwrap()
    };
    for (name, one, other, may) in [
        ("invoices", r#"{"kind":"segment"}"#, r#"{"kind":"segment","first":7}"#, true),
        ("flake", r#"{"kind":"layout","layout":"snowflake"}"#, r#"{"kind":"segment"}"#, true),
        ("orders", r#"{"kind":"sequence"}"#, r#"{"kind":"sequence","width":32}"#, false),
    ] {
        minter.define(named(name, one)).unwrap();
        let conflict = minter.contradicted(&in_use(named(name, other)));
        assert_eq!(conflict, Ok(()), "{name}");
        assert_eq!(minter.may_give_sections().is_ok(), may, "{name}: {:?}", minter.may_give_sections());
        assert!(matches!(minter.ready(), Err(Refusal::GeneratorConflict { .. })), "{name}: {:?}", minter.ready());
    }
}

/// An hour ahead: Uniq64 may go on that far, Uniq96 and layouts may not.
#[tokio::test]
async fn who_minted_while_the_clock_was_ahead_is_not_ready_and_says_what_to_do() {
    for of_layout in [false, true] {
        let kit = Kit::new();
        let minter = kit.start();
        let noon = noon(&minter);
        set_wall(&minter, noon + SpanMs(HOUR_MS));
        minter.define(layout()).unwrap();
        minter.mint(uniq64(&minter), 1).await.unwrap();
        match of_layout {
            true => minter.mint(minter.names().generator(Kind::Layout, "flake").unwrap(), 1).await.unwrap(),
            false => minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap(),
        };
        assert_eq!(minter.ready(), Ok(()));
        // In one process, whose windows are open still, and in the next one.
        set_wall(&minter, noon);
        let refused = minter.ready().unwrap_err();
        assert_eq!(refused.code(), MintCode::ClockBehind, "{of_layout}");
        assert!(refused.to_string().contains("--forget-clock"), "{refused}");
        minter.regate().unwrap();
        assert_eq!(minter.ready().unwrap_err().code(), MintCode::ClockBehind, "{of_layout}");
        drop(minter);
        let minter = kit.start();
        set_wall(&minter, noon);
        minter.mint(uniq64(&minter), 1).await.unwrap();
        assert_eq!(
            minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap_err().code(),
            MintCode::ClockBehind
        );
        assert_eq!(minter.ready().unwrap_err().code(), MintCode::ClockBehind, "{of_layout}");
        let session = minter.session().id();
        drop(minter);

        forget_clock(&kit.path(), noon, SessionId(77)).unwrap();
        let minter = kit.start();
        assert_eq!(
            (minter.session().id(), minter.driver().former()),
            (SessionId(77), Vec::new()),
            "the masters have granted it a token"
        );
        assert_ne!(session, SessionId(77));
        set_wall(&minter, noon);
        assert_eq!(minter.ready(), Ok(()));
        minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap();
        let id = minter
            .mint(uniq64(&minter), 1)
            .await
            .unwrap()
            .numbers()
            .next()
            .and_then(|id| UNIQ64.layout().parts(id))
            .unwrap();
        assert_eq!(id.tick % 24, 12, "by the clock");
    }
}

#[tokio::test]
async fn nothing_is_forgotten_where_no_time_is_ahead() {
    let kit = Kit::new();
    let minter = kit.start();
    minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap();
    let (session, wall) = (minter.session().id(), minter.time().wall());
    drop(minter);
    let refused = forget_clock(&kit.path(), wall, SessionId(77)).unwrap_err().to_string();
    assert!(refused.contains("nothing to forget"), "{refused}");
    assert_eq!(kit.start().session().id(), session);
}

#[tokio::test]
async fn who_has_used_up_the_hour_of_default_is_not_ready_until_the_next_one() {
    let kit = Kit::new();
    let noon = noon(&kit.start());
    kit.preset_hour(noon, 1_000, UNIQ64_SERIALS_PER_HOUR - 2);
    let minter = kit.start();
    set_wall(&minter, noon);
    assert_eq!(minter.mint(uniq64(&minter), 3).await.unwrap_err().code(), MintCode::SerialExhausted);
    assert_eq!(minter.ready(), Ok(()), "two are left");
    minter.mint(uniq64(&minter), 2).await.unwrap();
    assert_eq!(minter.mint(uniq64(&minter), 1).await.unwrap_err().code(), MintCode::SerialExhausted);
    let refused = minter.ready().unwrap_err();
    assert!(matches!(refused, Refusal::SerialExhausted { unit: "hour", .. }), "{refused}");
    set_wall(&minter, noon + SpanMs(HOUR_MS));
    assert_eq!(minter.ready(), Ok(()));
}
