//! A real browser, headless, driven over WebDriver: for the tests of the console and for its pictures.

use crate::cluster::{PATIENCE, until};
use anyhow::{Context as _, Result, bail, ensure};
use fantoccini::{Client as Browser, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const MISSING: &str = "there is no `chromedriver` in PATH, and the console is tested in a real browser: \
     `apt-get install chromium chromium-driver` brings both (scripts/test.sh does)";

/// The program that drives the browser. Dropping it ends both.
pub struct Driver {
    child: Child,
    at: SocketAddr,
}

impl Driver {
    /// A driver that listens at `at`.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(at: SocketAddr) -> Result<Self> {
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

    /// A headless browser with a profile of its own, in English, in the time zone of Shanghai, that notes what its console
    /// and its network see.
    ///
    /// # Errors
    /// If there is no browser.
    pub async fn browser(&mut self, profile: &Path) -> Result<Browser> {
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
            "--hide-scrollbars",
            "--lang=en-US",
            "--window-size=1360,1200",
            &format!("--user-data-dir={}", profile.display()),
        ];
        let wanted = json!({
            // An identity provider of a test has a certificate of a CA that no browser knows.
            "acceptInsecureCerts": true,
            "goog:chromeOptions": { "args": args, "prefs": { "intl.accept_languages": "en-US,en" } },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let wanted = wanted.as_object().cloned().unwrap_or_default();
        // It needs a moment until it listens; what it says after that is its last word.
        let began = Instant::now();
        while tokio::net::TcpStream::connect(self.at).await.is_err() {
            if let Some(ended) = self.child.try_wait()? {
                bail!("chromedriver ended with {ended}; is its port {} taken?", self.at.port());
            }
            ensure!(began.elapsed() < PATIENCE, "chromedriver does not listen at {}", self.at);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let browser = builder.capabilities(wanted).connect(&format!("http://{}", self.at)).await;
        let browser = browser.context("chromedriver has no browser for us; is chromium installed?")?;
        let zone = json!({ "timezoneId": "Asia/Shanghai" });
        self.devtools(&browser, "Emulation.setTimezoneOverride", zone).await?;
        Ok(browser)
    }

    /// Takes what the browser noted since it was last asked: `browser` (its console) or `performance` (its network).
    ///
    /// # Errors
    /// If the driver does not say.
    pub async fn log(&self, browser: &Browser, kind: &str) -> Result<Vec<Value>> {
        let answer = self.post(browser, "se/log", json!({ "type": kind })).await?;
        answer.as_array().cloned().with_context(|| format!("no log: {answer}"))
    }

    /// Has the browser's own tools do something.
    ///
    /// # Errors
    /// If they do not.
    pub async fn devtools(&self, browser: &Browser, command: &str, params: Value) -> Result<Value> {
        self.post(browser, "goog/cdp/execute", json!({ "cmd": command, "params": params })).await
    }

    async fn post(&self, browser: &Browser, what: &str, body: Value) -> Result<Value> {
        let session = browser.session_id().await?.context("no session")?;
        let url = format!("http://{}/session/{session}/{what}", self.at);
        let mut answer: Value = reqwest::Client::new().post(url).json(&body).send().await?.json().await?;
        let value = answer.get_mut("value").map(Value::take).context("no value")?;
        ensure!(value.get("error").is_none(), "{what} {body}: {value}");
        Ok(value)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is true in the page.
///
/// # Errors
/// If it does not come true; says what the page shows instead.
pub async fn page_has(browser: &Browser, what: &str) -> Result<()> {
    let script = format!("return Boolean({what})");
    let holds = || async { (browser.execute(&script, Vec::new()).await.ok()? == true).then_some(()) };
    if let Err(e) = until(what, holds).await {
        let text = browser.execute("return location.href + '\\n' + document.body.innerText", Vec::new()).await;
        return Err(e).with_context(|| format!("the page shows: {text:?}"));
    }
    Ok(())
}

/// Logs in at the console at `home` and waits for its first page.
///
/// # Errors
/// If nobody is let in.
pub async fn log_in(browser: &Browser, home: &str, user: &str, password: &str) -> Result<()> {
    browser.goto(&format!("{home}/login")).await?;
    try_password(browser, user, password).await?;
    page_has(browser, "document.getElementById('live')?.classList.contains('on')").await
}

/// Fills in the form of the login and sends it.
///
/// # Errors
/// If there is no such form.
pub async fn try_password(browser: &Browser, user: &str, password: &str) -> Result<()> {
    type_into(browser, "user", user).await?;
    type_into(browser, "password", password).await?;
    browser.find(Locator::Css("form button[type=submit]")).await?.click().await?;
    Ok(())
}

/// Types into the field with that id, in the place of what is there.
///
/// # Errors
/// If there is no such field.
pub async fn type_into(browser: &Browser, id: &str, text: &str) -> Result<()> {
    let field = browser.find(Locator::Id(id)).await?;
    field.clear().await?;
    field.send_keys(text).await?;
    Ok(())
}

/// No violation that keeps somebody out, by the rules of WCAG 2.2 A and AA; `axe` is the text of axe-core.
///
/// # Errors
/// The rule that is violated.
pub async fn accessible(browser: &Browser, axe: &str, page: &str) -> Result<()> {
    let script = format!(
        "{axe}; const done = arguments[arguments.length - 1];
         axe.run({{ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }}).then(
           (found) => done({{ rules: found.passes.length, violations: found.violations.map((it) => [it.impact, it.id, it.help,
             it.nodes.slice(0, 4).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary)]) }}),
           (error) => done({{ violations: [String(error)], rules: 0 }}));"
    );
    let found = browser.execute_async(&script, Vec::new()).await?;
    let rules = found.get("rules").and_then(Value::as_u64).unwrap_or(0);
    let violations = found.get("violations").and_then(Value::as_array).context("no answer of axe")?;
    ensure!(rules > 10 && violations.is_empty(), "{page}: {rules} rules passed, violated: {violations:#?}");
    Ok(())
}
