//! Makes the pictures of the console: a real pair of masters with real agents, looked at in a real browser.
//! `scripts/screenshots.sh` runs it.
#![allow(clippy::print_stdout, reason = "a program for developers")]

use anyhow::{Context as _, Result};
use base64::Engine as _;
use clap::Parser;
use fantoccini::Client as Browser;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::browser::{Driver, log_in, page_has};
use tests::client::ADMIN_PASSWORD;
use tests::cluster::Cluster;

/// The time that the agents mint before the first picture, so that their lines have a shape.
const WARM_UP: Duration = Duration::from_secs(75);
const QUALITY: u32 = 80;
const WIDE: (u32, u32) = (1360, 900);
const NARROW: (u32, u32) = (420, 860);

/// Makes the pictures of the console.
#[derive(Parser)]
struct Args {
    /// The folder for them
    folder: PathBuf,
    /// As PNG, for programs that cannot show WebP
    #[arg(long)]
    png: bool,
    /// Seconds for which the agents mint first
    #[arg(long, default_value_t = WARM_UP.as_secs())]
    warm_up: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.folder)?;
    let mut cluster = cluster().await?;
    for nth in 0..cluster.agents.len() {
        tokio::spawn(mint(cluster.agent_url(nth, "")?, nth));
    }
    tokio::time::sleep(Duration::from_secs(args.warm_up)).await;
    let mut driver = Driver::start(cluster.port()?)?;
    let browser = driver.browser(&cluster.dir().join("browser")).await?;
    let done = pictures(&mut cluster, &driver, &browser, &args).await;
    browser.close().await?;
    done
}

/// Both masters and a handful of agents with the names of their machines.
async fn cluster() -> Result<Cluster> {
    let mut cluster = Cluster::start(0, &[]).await?;
    for name in ["billing-1", "billing-2", "edge-fra-1", "edge-sin-1", "orders-1", "orders-2", "stock-1"] {
        let dir = cluster.dir().join(name);
        std::fs::create_dir(&dir)?;
        let file = dir.join("uniq_generator.serial");
        let file = file.to_str().context("the folder's name is not text")?;
        tests::programs::run(&tests::programs::generator()?, &["--format", "--serial-file", file], &dir)?;
        let nth = cluster.add_agent_in(dir, name, &[])?;
        cluster.agent(nth)?.daemon.start()?;
    }
    cluster.all_ready().await?;
    Ok(cluster)
}

/// Mints as an application would: now more, now less.
async fn mint(agent: String, nth: usize) {
    let client = reqwest::Client::new();
    for second in 0_usize.. {
        let n = (nth * 37 + 11) * (20 + (second * (nth + 3) / 5 % 13) + second / 7 % 5);
        for kind in ["uniq64", "uniq96"] {
            // A picture of a machine that is busy needs no single ID of these.
            let _ = client.get(format!("{agent}{kind}?n={}", n.clamp(1, 20_000))).send().await;
        }
        for path in ["segment/orders".to_owned(), format!("sequence/inbox/{nth}-{second}")] {
            let _ = client.get(format!("{agent}{path}")).send().await;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn pictures(cluster: &mut Cluster, driver: &Driver, browser: &Browser, args: &Args) -> Result<()> {
    let home = format!("http://{}", cluster.masters.first().context("no master")?.daemon.http);
    let shot = async |name: &str, path: &str, size: (u32, u32)| -> Result<()> {
        browser.goto(&format!("{home}{path}")).await?;
        if path != "/login" {
            page_has(browser, "document.getElementById('live')?.classList.contains('on')").await?;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
        picture(driver, browser, &args.folder, name, size, args.png).await
    };
    browser.set_window_size(WIDE.0, WIDE.1).await?;
    shot("login", "/login", WIDE).await?;
    log_in(browser, &home, "admin", ADMIN_PASSWORD).await?;
    furnish(cluster, browser).await?;
    shot("overview", "/", WIDE).await?;
    shot("leases", "/leases?sort=-until", WIDE).await?;
    let token = cluster.agent_status(1).await?.token("uint2").context("no token")?.to_owned();
    shot("lease", &format!("/leases/uint2/{token}"), WIDE).await?;
    for page in ["agents", "namespaces", "sequences", "whitelist", "audit", "users", "settings"] {
        shot(page, &format!("/{page}"), WIDE).await?;
    }
    shot("agent", "/agents/orders-1", WIDE).await?;
    let id = cluster.ask_agent(4, "uniq64").await?.text();
    shot("explain", &format!("/explain?id={}", id.trim()), WIDE).await?;
    browser.goto(&format!("{home}/leases/uint2/{token}")).await?;
    page_has(browser, "document.querySelector('[data-open=terminate]')?.disabled === false").await?;
    browser.execute("document.querySelector('[data-open=terminate]').click()", Vec::new()).await?;
    picture(driver, browser, &args.folder, "terminate", WIDE, args.png).await?;
    taste(browser, "dark", "en").await?;
    shot("overview-dark", "/", WIDE).await?;
    taste(browser, "light", "zh-CN").await?;
    shot("overview-zh", "/", WIDE).await?;
    taste(browser, "light", "en").await?;
    shot("narrow", "/agents", NARROW).await?;
    cluster.master(1)?.daemon.kill_9();
    browser.goto(&format!("{home}/")).await?;
    page_has(browser, "document.getElementById('master-2')?.dataset.mode === 'silent'").await?;
    shot("master-lost", "/", WIDE).await
}

/// Furnishes an installation as it is after a while: names, people, keys, and an agent that was ended.
async fn furnish(cluster: &mut Cluster, browser: &Browser) -> Result<()> {
    let mut wanted = vec![
        (
            "/api/namespaces",
            json!({"name": "invoices", "kind": "string", "template": "INV-{date:%Y%m%d}-{token}{serial:6}{check:luhn}", "token_type": "string2-only-number"}),
        ),
        ("/api/namespaces", json!({"name": "messages", "kind": "uniq64"})),
        ("/api/namespaces", json!({"name": "orders", "kind": "segment"})),
        ("/api/namespaces", json!({"name": "inbox", "kind": "sequence"})),
        (
            "PUT /api/namespaces/invoices/about",
            json!({"description": "Numbers on invoices", "application": "billing", "owner": "team-pay", "labels": {"env": "prod"}}),
        ),
        ("/api/whitelist", json!({"range": "10.20.0.0/16"})),
        ("/api/users", json!({"name": "jane", "password": "a-picture-of-a-password", "role": "operator"})),
        ("/api/users", json!({"name": "night-shift", "password": "a-picture-of-a-password", "role": "viewer"})),
        ("/api/keys", json!({"name": "grafana", "role": "viewer"})),
    ];
    let token = cluster.agent_status(6).await?.token("uint2").context("no token")?.to_owned();
    let address = format!("/api/leases/uint2/{token}/terminate");
    wanted.push((&address, json!({"confirm": format!("uint2/{token}")})));
    let script = "const [what, body, done] = arguments; const [method, address] = what.startsWith('/') ? ['POST', what] : what.split(' ');
        ask(method, address, body).then(() => done(''), (e) => done(String(e)));";
    for (address, body) in wanted {
        let said = browser.execute_async(script, vec![json!(address), body]).await?;
        anyhow::ensure!(said == "", "{address}: {said}");
    }
    cluster.all_give("segment/orders").await?;
    cluster.all_give("sequence/inbox/jane").await
}

async fn taste(browser: &Browser, theme: &str, lang: &str) -> Result<()> {
    let script = "document.cookie = `uniq_theme=${arguments[0]}; Path=/`; document.cookie = `uniq_lang=${arguments[1]}; Path=/`;";
    browser.execute(script, vec![json!(theme), json!(lang)]).await?;
    Ok(())
}

async fn picture(
    driver: &Driver,
    browser: &Browser,
    folder: &Path,
    name: &str,
    (width, height): (u32, u32),
    png: bool,
) -> Result<()> {
    let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    driver.devtools(browser, "Emulation.setDeviceMetricsOverride", metrics).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let tall = browser.execute("return document.documentElement.scrollHeight", Vec::new()).await?;
    let height = tall.as_u64().unwrap_or(0).clamp(u64::from(height), 1_600);
    let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    driver.devtools(browser, "Emulation.setDeviceMetricsOverride", metrics).await?;
    let (end, params) = if png {
        ("png", json!({ "format": "png" }))
    } else {
        ("webp", json!({ "format": "webp", "quality": QUALITY }))
    };
    let taken = driver.devtools(browser, "Page.captureScreenshot", params).await?;
    let data = taken.get("data").and_then(Value::as_str).context("no picture")?;
    let path = folder.join(format!("{name}.{end}"));
    std::fs::write(&path, base64::engine::general_purpose::STANDARD.decode(data)?)?;
    println!("made {}", path.display());
    driver.devtools(browser, "Emulation.clearDeviceMetricsOverride", json!({})).await?;
    Ok(())
}
