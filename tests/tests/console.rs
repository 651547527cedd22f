//! The console in a real browser, served by real masters: it shows the leases and both masters, follows them without a
//! reload, asks nobody else for anything, and has nothing to complain of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use anyhow::{Context as _, Result, bail, ensure};
use fantoccini::{Client as Browser, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use tests::cluster::{Cluster, PATIENCE, until, until_status};

const RENEW: [&str; 2] = ["--renew-interval", "1s"];
const MISSING: &str = "there is no `chromedriver` in PATH, and the console is tested in a real browser: \
     `apt-get install chromium chromium-driver` brings both (scripts/test.sh does)";

/// The program that drives the browser. Dropping it ends both.
struct Driver {
    child: Child,
    at: SocketAddr,
}

impl Driver {
    fn start(at: SocketAddr) -> Result<Self> {
        let child = Command::new("chromedriver")
            .arg(format!("--port={}", at.port()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Ok(Self { child, at }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => bail!(MISSING),
            Err(e) => Err(e).context("chromedriver does not start"),
        }
    }

    /// A headless browser with a profile of its own that notes what its console and its network see.
    async fn browser(&mut self, profile: &std::path::Path) -> Result<Browser> {
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1360,1200",
            &format!("--user-data-dir={}", profile.display()),
        ];
        let wanted = json!({
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let wanted = wanted.as_object().cloned().unwrap_or_default();
        let began = Instant::now();
        loop {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            match builder.capabilities(wanted.clone()).connect(&format!("http://{}", self.at)).await {
                Ok(browser) => return Ok(browser),
                Err(e) => {
                    if let Some(ended) = self.child.try_wait()? {
                        bail!("chromedriver ended with {ended}; is its port {} taken?", self.at.port());
                    }
                    // It needs a moment until it listens; what it says after that is its last word.
                    let is_up = tokio::net::TcpStream::connect(self.at).await.is_ok();
                    if is_up || began.elapsed() > PATIENCE {
                        return Err(e).context("chromedriver has no browser for us; is chromium installed?");
                    }
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// What the browser noted since it was last asked: `browser` (its console) or `performance` (its network).
    async fn log(&self, browser: &Browser, kind: &str) -> Result<Vec<Value>> {
        let session = browser.session_id().await?.context("no session")?;
        let url = format!("http://{}/session/{session}/se/log", self.at);
        let answer: Value =
            reqwest::Client::new().post(url).json(&json!({ "type": kind })).send().await?.json().await?;
        answer["value"].as_array().cloned().with_context(|| format!("no log: {answer}"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays `scene` in a browser. The browser is closed whatever comes of it: nobody else would end it.
async fn in_browser(
    cluster: &mut Cluster,
    scene: impl AsyncFnOnce(&mut Cluster, &Driver, &Browser) -> Result<()>,
) -> Result<()> {
    let mut driver = Driver::start(cluster.port()?)?;
    let browser = driver.browser(&cluster.dir().join("browser")).await?;
    let played = scene(cluster, &driver, &browser).await;
    browser.close().await?;
    played
}

/// Waits until something is true in the page.
async fn page_has(browser: &Browser, what: &str) -> Result<()> {
    let script = format!("return Boolean({what})");
    let holds = || async { (browser.execute(&script, Vec::new()).await.ok()? == true).then_some(()) };
    match until(what, holds).await {
        Ok(((), took)) => println!("after {took:?}: {what}"),
        Err(e) => {
            let text = browser.execute("return document.body.innerText", Vec::new()).await;
            return Err(e).with_context(|| format!("the page shows: {text:?}"));
        }
    }
    Ok(())
}

fn row_of(token_type: &str, token: &str) -> String {
    let family = if token_type.starts_with("uint") { "uint" } else { &token_type[..7] };
    format!("document.getElementById('lease-{family}-{}')", token.to_lowercase())
}

fn mode_of(master: u8) -> String {
    format!("document.getElementById('master-{master}').dataset.mode")
}

fn console_of(cluster: &Cluster, master: usize) -> String {
    format!("http://{}", cluster.masters[master].daemon.http)
}

/// Starts a master that was ended, and waits until it is ready: one that does not come back says why by itself.
async fn start_again(cluster: &mut Cluster, master: usize) -> Result<()> {
    let client = cluster.client.clone();
    let daemon = &mut cluster.master(master)?.daemon;
    daemon.start()?;
    until_status(&client, daemon, "/readyz", 200).await?;
    Ok(())
}

/// Everything that the browser asked for so far went to `home`, and its console is silent.
async fn is_clean(driver: &Driver, browser: &Browser, home: &str) -> Result<()> {
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
            ensure!(url.starts_with(&format!("{home}/")), "asked a stranger: {url}");
            asked += 1;
        }
    }
    ensure!(asked >= 4, "the page, its style, its script and its events are at least four requests, not {asked}");
    let complaints = driver.log(browser, "browser").await?;
    ensure!(complaints.is_empty(), "the browser complains: {complaints:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_is_and_follows_what_happens() {
    let mut cluster = Cluster::start(1, &RENEW).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        browser.goto(&format!("{home}/")).await?;
        ensure!(browser.title().await? == "Master 1 · UniqGenerator", "{}", browser.title().await?);

        // What is: each lease of a real agent, and both masters.
        let leases = cluster.agent_status(0).await?.leases;
        ensure!(!leases.is_empty(), "a ready agent holds leases");
        for lease in &leases {
            let row = row_of(&lease.token_type, &lease.token);
            page_has(browser, &format!("{row}.innerText.includes('held') && {row}.innerText.includes('agent-1')"))
                .await?;
        }
        page_has(browser, &format!("{} === 'ready' && {} === 'ready'", mode_of(1), mode_of(2))).await?;
        page_has(browser, "document.getElementById('live').innerText === 'Live'").await?;

        // A mark that a reload would wipe out.
        browser.execute("window.mark = 'here'", Vec::new()).await?;

        // What happens: another agent comes.
        let second = cluster.add_agent(&RENEW)?;
        let client = cluster.client.clone();
        cluster.agent(second)?.daemon.start()?;
        until_status(&client, &mut cluster.agent(second)?.daemon, "/readyz", 200).await?;
        let token = cluster.agent_status(second).await?.token("uint2").context("no number")?.to_owned();
        page_has(browser, &format!("{}?.innerText.includes('agent-2')", row_of("uint2", &token))).await?;

        // The other master goes, and comes back.
        ensure!(cluster.master(1)?.daemon.terminate().await?.0.success(), "not a clean stop");
        page_has(browser, &format!("{} === 'silent' && {} === 'ready-alone'", mode_of(2), mode_of(1))).await?;
        page_has(browser, "document.getElementById('status').innerText.includes('Master 2 is silent')").await?;
        start_again(cluster, 1).await?;
        page_has(browser, &format!("{} === 'ready' && {} === 'ready'", mode_of(1), mode_of(2))).await?;
        page_has(browser, "document.getElementById('status').innerText.includes('Both masters are ready')").await?;
        page_has(browser, "window.mark === 'here'").await?;
        is_clean(driver, browser, &home).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_narrows_the_table_and_every_field_has_its_label() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 1);
        browser.goto(&home).await?;
        page_has(browser, "document.querySelectorAll('#rows th').length === 4").await?;
        page_has(
            browser,
            "[...document.querySelectorAll('select, input')].every((field) => field.labels.length === 1)",
        )
        .await?;
        page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;

        browser.find(Locator::Id("type")).await?.select_by_label("uint2").await?;
        browser.find(Locator::Id("agent")).await?.send_keys("agent-2").await?;
        browser.find(Locator::Css("form button")).await?.click().await?;
        page_has(browser, "new URLSearchParams(location.search).get('agent') === 'agent-2'").await?;
        page_has(browser, "document.getElementById('live').innerText === 'Live'").await?;
        page_has(browser, "document.querySelectorAll('#rows th').length === 1").await?;
        let token = cluster.agent_status(1).await?.token("uint2").context("no number")?.to_owned();
        page_has(browser, &row_of("uint2", &token)).await?;
        page_has(browser, "document.getElementById('agent').value === 'agent-2'").await?;

        browser.find(Locator::LinkText("Show all")).await?.click().await?;
        page_has(browser, "document.querySelectorAll('#rows th').length === 4").await?;

        browser.set_window_size(500, 900).await?;
        page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;
        is_clean(driver, browser, &home).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_master_is_gone_says_so_and_recovers_by_itself() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, _, browser| {
        browser.goto(&console_of(cluster, 0)).await?;
        page_has(browser, "document.getElementById('live').innerText === 'Live'").await?;
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
