//! Asks agents, which are its arguments: `http://HOST:PORT` (their `--http-listen`) or `tarpc://HOST:PORT` (their `--rpc-listen`).
#![allow(clippy::print_stdout)]

use std::time::Duration;
use uniq_client::{Client, Error, Prefetch, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agents: Vec<String> = std::env::args().skip(1).collect();
    let mut settings = Settings::new(agents.iter().map(String::as_str))?;
    settings.timeout = Duration::from_secs(5);
    let client = Client::new(settings.clone())?;
    println!("{}", client.uniq64("default").await?);
    println!("{}", client.uniq_string("default", "SHOP", "01").await?);
    for id in client.uniq64_batch("default", 3).await? {
        println!("{id}");
    }

    // Fetched in batches: most calls take no more than a lock.
    settings.prefetch = Some(Prefetch::default());
    let quick = Client::new(settings)?;
    for _ in 0..3 {
        println!("{}", quick.uniq64("default").await?);
    }

    // What no agent would answer differently is told from what may work later.
    match client.uniq64("no-such-name").await {
        Err(Error::Refused { code, .. }) => println!("refused: {code}"),
        Err(later) => println!("ask again in {:?}: {later}", later.retry_after()),
        Ok(id) => println!("{id}"),
    }
    Ok(())
}
