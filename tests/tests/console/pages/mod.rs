//! The console in a real browser, served by two real masters with real agents: people log in, look, act, and see what came
//! of it at the other master; and it is usable for everybody, asks nobody else for anything, and has nothing to complain of.

mod accounts;
mod axes;
mod designer;
mod leases;
mod names;
mod sequences;
mod sso;

use anyhow::{Context as _, Result, ensure};
use fantoccini::key::Key;
use fantoccini::{Client as Browser, Locator};
use serde_json::Value;
use tests::browser::{Driver, accessible, log_in, page_has};
use tests::client::ADMIN_PASSWORD;
use tests::cluster::{Cluster, until_status};

const RENEW: [&str; 2] = ["--renew-interval", "1s"];
/// Every page of somebody who is logged in.
const PAGES: [&str; 13] = [
    "/",
    "/leases",
    "/agents",
    "/namespaces",
    "/axes",
    "/sequences",
    "/whitelist",
    "/audit",
    "/designer",
    "/designer/template",
    "/explain",
    "/users",
    "/settings",
];
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../browser/node_modules/axe-core/axe.min.js");

/// Plays `scene` in a browser that is logged in at master 1. The browser is closed whatever comes of it: nobody else would
/// end it.
async fn in_browser(
    cluster: &mut Cluster,
    scene: impl AsyncFnOnce(&mut Cluster, &Driver, &Browser) -> Result<()>,
) -> Result<()> {
    let mut driver = Driver::start(cluster.port()?)?;
    let browser = driver.browser(&cluster.dir().join("browser")).await?;
    let home = console_of(cluster, 0);
    let played = async {
        log_in(&browser, &home, "admin", ADMIN_PASSWORD).await?;
        scene(cluster, &driver, &browser).await
    };
    let played = played.await;
    browser.close().await?;
    played
}

fn row_of(token_type: &str, token: &str) -> String {
    let family = if token_type.starts_with("uint") { "uint" } else { &token_type[..7] };
    format!("document.getElementById('lease-{family}-{}')", token.to_lowercase())
}

fn mode_of(master: u8) -> String {
    format!("document.getElementById('master-{master}')?.dataset.mode")
}

fn console_of(cluster: &Cluster, master: usize) -> String {
    format!("http://{}", cluster.masters[master].daemon.http)
}

async fn go(browser: &Browser, address: &str) -> Result<()> {
    browser.goto(address).await?;
    page_has(browser, "document.getElementById('live')?.classList.contains('on')").await
}

async fn click(browser: &Browser, css: &str) -> Result<()> {
    browser.find(Locator::Css(css)).await?.click().await?;
    Ok(())
}

/// Starts a master that was ended, and waits until it is ready: one that does not come back says why by itself.
async fn start_again(cluster: &mut Cluster, master: usize) -> Result<()> {
    let client = cluster.client.clone();
    let daemon = &mut cluster.master(master)?.daemon;
    daemon.start()?;
    until_status(&client, daemon, "/readyz", 200).await?;
    Ok(())
}

/// Everything that the browser asked for so far went to one of `homes`, and its console is silent.
async fn is_clean(driver: &Driver, browser: &Browser, homes: &[String]) -> Result<()> {
    let mut asked = 0;
    for entry in driver.log(browser, "performance").await? {
        let entry: Value = serde_json::from_str(entry["message"].as_str().context("no message")?)?;
        let message = &entry["message"];
        if message["method"] == "Network.requestWillBeSent" {
            let url = message["params"]["request"]["url"].as_str().context("a request without url")?;
            // The browser's own first page (`chrome://`) and what is written into ours (`data:`) ask nobody.
            if !["http", "ws", "ftp"].iter().any(|scheme| url.starts_with(scheme)) {
                continue;
            }
            ensure!(homes.iter().any(|home| url.starts_with(&format!("{home}/"))), "asked a stranger: {url}");
            asked += 1;
        }
    }
    ensure!(asked >= 4, "the page, its style, its script and its events are at least four requests, not {asked}");
    let complaints = driver.log(browser, "browser").await?;
    ensure!(complaints.is_empty(), "the browser complains: {complaints:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_shows_what_is_and_follows_what_happens() {
    let mut cluster = Cluster::start(1, &RENEW).await.unwrap();
    in_browser(&mut cluster, async |cluster, _, browser| {
        ensure!(browser.title().await? == "Overview · Master 1 · UniqGenerator", "{}", browser.title().await?);
        page_has(browser, &format!("{} === 'ready' && {} === 'ready'", mode_of(1), mode_of(2))).await?;
        page_has(browser, "document.getElementById('tiles').innerText.includes('1 well')").await?;
        page_has(browser, "document.getElementById('recent').innerText.includes('lease granted')").await?;
        // A mark that a reload would wipe out.
        browser.execute("window.mark = 'here'", Vec::new()).await?;

        // Another agent comes, and mints.
        let second = cluster.add_agent(&RENEW)?;
        let client = cluster.client.clone();
        cluster.agent(second)?.daemon.start()?;
        until_status(&client, &mut cluster.agent(second)?.daemon, "/readyz", 200).await?;
        page_has(browser, "document.getElementById('tiles').innerText.includes('2 well')").await?;
        ensure!(cluster.ask_agent(second, "uniq64?n=100000").await?.status == 200, "it mints");
        page_has(browser, "document.getElementById('busiest').innerText.includes('agent-2')").await?;
        page_has(browser, "document.querySelector('#tiles polyline').points.length > 0").await?;

        // The other master goes, and comes back.
        ensure!(cluster.master(1)?.daemon.terminate().await?.0.success(), "not a clean stop");
        page_has(browser, &format!("{} === 'silent' && {} === 'ready-alone'", mode_of(2), mode_of(1))).await?;
        page_has(browser, "document.getElementById('status').innerText.includes('Master 2 is silent')").await?;
        start_again(cluster, 1).await?;
        page_has(browser, &format!("{} === 'ready' && {} === 'ready'", mode_of(1), mode_of(2))).await?;
        page_has(browser, "document.getElementById('status').innerText.includes('Both masters are ready')").await?;
        page_has(browser, "window.mark === 'here'").await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_master_is_gone_says_so_and_recovers_by_itself() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, _, browser| {
        browser.execute("window.mark = 'here'", Vec::new()).await?;
        cluster.master(0)?.daemon.kill_9();
        page_has(browser, "document.getElementById('notes').innerText.includes('Connection lost')").await?;
        start_again(cluster, 0).await?;
        page_has(browser, "document.getElementById('live').innerText === 'Live'").await?;
        page_has(browser, "document.getElementById('notes').innerText === ''").await?;
        page_has(browser, &format!("{} === 'ready' && window.mark === 'here'", mode_of(1))).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_usable_for_everybody() {
    let axe = std::fs::read_to_string(AXE)
        .unwrap_or_else(|e| panic!("{AXE}: {e}: `npm ci` in tests/browser brings it (scripts/test.sh does)"));
    let mut cluster = Cluster::start(1, &RENEW).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        let token = cluster.agent_status(0).await?.token("uint2").context("no number")?.to_owned();
        let id = cluster.ask_agent(0, "string?biz=ORDR&custom=01").await?.text();
        let mut pages: Vec<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
        pages.extend([format!("/leases/uint2/{token}"), format!("/explain?id={}", id.trim()), "/nothing".to_owned()]);
        for (lang, theme, width) in [("en", "light", 1_360), ("zh-CN", "dark", 1_360), ("en", "dark", 500)] {
            browser.set_window_size(width, 1_000).await?;
            let taste =
                format!("document.cookie = 'uniq_lang={lang}; Path=/'; document.cookie = 'uniq_theme={theme}; Path=/'");
            browser.execute(&taste, Vec::new()).await?;
            for page in &pages {
                browser.goto(&format!("{home}{page}")).await?;
                if page != "/nothing" {
                    page_has(browser, "document.getElementById('live')?.classList.contains('on')").await?;
                }
                page_has(browser, &format!("document.documentElement.lang === '{lang}'")).await?;
                page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;
                accessible(browser, &axe, &format!("{page} {lang} {theme} {width}")).await?;
            }
        }
        browser.set_window_size(1_360, 1_000).await?;
        go(browser, &format!("{home}/leases/uint2/{token}")).await?;
        click(browser, "[data-open=terminate]").await?;
        accessible(browser, &axe, "the dialog of a termination").await?;

        // By the keyboard alone: the first stop leads past the menu.
        go(browser, &format!("{home}/leases")).await?;
        browser.active_element().await?.send_keys(&char::from(Key::Tab).to_string()).await?;
        page_has(browser, "document.activeElement.classList.contains('skip')").await?;
        browser.active_element().await?.send_keys(&char::from(Key::Enter).to_string()).await?;
        page_has(browser, "location.hash === '#content' && document.activeElement.id === 'content'").await?;
        // Times are in the viewer's zone, with UTC behind them.
        let time = "document.querySelector('#rows time')";
        page_has(browser, &format!("{time}.title.includes('GMT+8') && {time}.title.includes('UTC')")).await?;
        // What is missing is an error of the network, not of a script: of the pages themselves there is no complaint.
        let complaints = driver.log(browser, "browser").await?;
        let about_pages =
            complaints.iter().filter(|it| !it["message"].as_str().is_some_and(|text| text.contains("/nothing")));
        ensure!(about_pages.count() == 0, "the browser complains: {complaints:?}");
        browser.delete_all_cookies().await?;
        browser.goto(&format!("{home}/login")).await?;
        accessible(browser, &axe, "/login").await
    })
    .await
    .unwrap();
}
