//! The console with made-up leases, to work on its looks without a cluster: `cargo run -p uniq-web --example preview`, then
//! open <http://127.0.0.1:7399> and log in as `admin` with `preview`. An argument shows another state: `silent`, `syncing`, `empty`, `large`,
//! `test-clock`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use common::clock::TestClock;
use common::time::{DAY_MS, HOUR_MS, WallMs};
use net::rpc::lease::Mode;
use sample::{NOW, Sample};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let sample = Arc::new(Sample::new(sample::many(430)));
    sample.change(sample::furnish);
    sample.change(|state| match std::env::args().nth(1).as_deref() {
        Some("silent") => {
            Sample::lose_peer(state);
            if let Some(row) = state.masters.last_mut() {
                row.last_heartbeat = Some(WallMs(NOW.0 - 95_000));
            }
        }
        Some("syncing") => {
            if let Some(row) = state.masters.first_mut() {
                row.mode = Mode::Syncing.into();
            }
            state.ready = Err("this master is still synchronising with the other one".to_owned());
        }
        Some("large") => state.leases = sample::many(65_536),
        Some("empty") => state.leases.clear(),
        Some("test-clock") => state.test_clock = Some(TestClock { scale: 3_600, epoch: WallMs(NOW.0 - DAY_MS) }),
        _ => {}
    });

    // Time passes and one lease comes and goes, so that there is something to see.
    let living = Arc::clone(&sample);
    tokio::spawn(async move {
        let hidden = sample::lease(common::token::TokenType::Uint2, 1, web::LeaseStage::Granting, "new-agent");
        for second in 0_i64.. {
            tokio::time::sleep(Duration::from_secs(1)).await;
            living.change(|state| {
                state.now = WallMs(NOW.0 + second * 1_000);
                for row in state.masters.iter_mut().filter(|row| row.mode != web::MasterMode::Silent) {
                    row.last_heartbeat = Some(state.now);
                    row.lsn = row.lsn.map(|lsn| lsn + 1);
                }
                match (second % 20, state.leases.iter().position(|row| row.token == hidden.token)) {
                    (5, None) => state
                        .leases
                        .insert(state.leases.partition_point(|row| row.token < hidden.token), hidden.clone()),
                    (8, Some(at)) => {
                        if let Some(row) = state.leases.get_mut(at) {
                            row.stage = web::LeaseStage::Held;
                            row.renewed = Some(WallMs(state.now.0 - HOUR_MS));
                        }
                    }
                    (19, Some(at)) => {
                        state.leases.remove(at);
                    }
                    _ => {}
                }
            });
        }
    });

    let listener = tokio::net::TcpListener::bind("127.0.0.1:7399").await?;
    // The user `admin` with the password `preview`, which nobody could set in a real console.
    let user = common::account::User {
        name: "admin".parse().map_err(std::io::Error::other)?,
        role: web::Role::Admin,
        phc: web::hash(b"preview").unwrap_or_default(),
        totp: None,
    };
    let accounts = sample::SampleAccounts { users: vec![user].into(), ..sample::SampleAccounts::with_key() };
    web::serve(listener, web::CONNECTIONS_MAX, sample, Arc::new(accounts).auth(), CancellationToken::new()).await;
    Ok(())
}
