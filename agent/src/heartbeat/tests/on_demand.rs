//! Tokens that a name needs and that nobody told the agent to lease.

use super::*;
use common::kind::Kind;
use common::namespace::{Definition, Namespace};
use net::rpc::mint::MintCode;

fn with_snowflake(kit: &Kit) -> Arc<Minter> {
    let minter = kit.start_bare();
    minter.define(Namespace::define("flake".parse().unwrap(), &Definition::layout("snowflake")).unwrap()).unwrap();
    minter
}

async fn flake(minter: &Arc<Minter>) -> Result<u128, crate::refusal::Refusal> {
    let runs = minter.mint(minter.names().generator(Kind::Layout, "flake").unwrap(), 1).await?;
    Ok(runs.numbers().next().unwrap())
}

async fn uniq64(minter: &Arc<Minter>) -> Result<(), crate::refusal::Refusal> {
    minter.mint(minter.names().generator(Kind::Uniq64, "default").unwrap(), 1).await.map(drop)
}

#[tokio::test]
async fn the_first_call_for_a_narrow_layout_has_a_small_token_leased_and_waits_for_it() {
    let kit = Kit::new();
    let (minter, master) = (with_snowflake(&kit), Master::new(Ok(9)));
    let running = start(Arc::clone(&minter), vec![master.listen().await], &[]);
    until("a token", || token(&running.minter) == Some(9)).await;
    let asked = || master.with(|records| records.requests.iter().map(|r| r.token_type).collect::<Vec<_>>());
    assert_eq!(asked(), [TokenType::Uint2], "nobody has used the name yet");
    master.with(|records| records.grant = Ok(5));
    assert_eq!(flake(&minter).await.unwrap() >> 12 & 0x3ff, 5);
    assert_eq!(asked(), [TokenType::Uint2, TokenType::Uint10Bit]);
    assert!(minter.grants().leases().contains_key(&TokenType::Uint10Bit));
    let holdings = minter.lease_grants();
    assert!(holdings.iter().any(|grant| grant.token_type == TokenType::Uint10Bit), "durable");
    // The next run goes on with it, without anybody telling it to.
    let told = [TokenType::Uint2].into();
    assert_eq!(Holder::demanded_before(&told, &holdings), [TokenType::Uint10Bit].into());
}

#[tokio::test]
async fn where_there_is_no_small_token_the_name_says_so_and_the_others_go_on() {
    let kit = Kit::new();
    let (minter, master) = (with_snowflake(&kit), Master::new(Ok(9)));
    let running = start(Arc::clone(&minter), vec![master.listen().await], &[]);
    until("a token", || token(&running.minter) == Some(9)).await;
    master.with(|records| records.grant = Err(Said::PoolExhausted { token_type: TokenType::Uint10Bit }));
    let refused = flake(&minter).await.unwrap_err();
    assert_eq!(refused.code(), MintCode::NoLease);
    assert!(refused.to_string().contains("uint-10bit"), "{refused}");
    assert!(uniq64(&minter).await.is_ok() && minter.ready().is_ok());
    // It is asked for until there is one.
    master.with(|records| records.grant = Ok(5));
    for _ in 0..100 {
        if flake(&minter).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no lease in ten seconds");
}
