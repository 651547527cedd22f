//! Single sign-on by an identity provider that many use, in the browser.

use super::{click, console_of};
use anyhow::{Context as _, Result, ensure};
use fantoccini::{Client as Browser, Locator};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use tests::browser::{Driver, page_has};
use tests::certificates::Authority;
use tests::cluster::{Cluster, until};

const PROVIDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../browser/provider.mjs");

/// The identity provider, a process of Node.js, and what it says, which would end it if nobody could hear it. Dropping it ends it.
struct Provider(Child, BufReader<ChildStdout>);

impl Provider {
    fn start(port: u16, authority: &Authority, consoles: &[String]) -> Result<Self> {
        let files = authority.issue("provider", &[])?;
        let (certificate, key) = files.own.context("a certificate")?;
        let mut command = Command::new("node");
        command.arg(PROVIDER).arg(port.to_string()).arg(certificate).arg(key);
        command.args(consoles.iter().map(|console| format!("{console}/login/sso/callback")));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("node")?;
        let output = BufReader::new(child.stdout.take().context("its output")?);
        let (mut provider, mut said) = (Self(child, output), String::new());
        provider.1.read_line(&mut said)?;
        ensure!(said == "listening\n", "`npm ci` in tests/browser brings it: {said}");
        Ok(provider)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Goes from a page of a console to the provider, is let in there by this name, and comes back.
async fn come_in(browser: &Browser, page: &str, name: &str) -> Result<()> {
    browser.goto(page).await?;
    page_has(browser, "location.pathname === '/login'").await?;
    click(browser, "a.button").await?;
    let provider = "location.hostname === 'localhost'";
    page_has(browser, &format!("{provider} && document.querySelector('input[name=login]')")).await?;
    browser.find(Locator::Css("input[name=login]")).await?.send_keys(name).await?;
    browser.find(Locator::Css("input[name=password]")).await?.send_keys("any").await?;
    click(browser, "button[type=submit]").await?;
    page_has(browser, &format!("{provider} && document.body.innerText.includes('Authorize')")).await?;
    click(browser, "button[type=submit]").await
}

async fn asked(browser: &Browser, path: &str) -> Result<Value> {
    let script =
        "const [path, done] = arguments; fetch(path).then((it) => it.json()).then(done, (why) => done(`${why}`));";
    Ok(browser.execute_async(script, vec![json!(path)]).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_the_identity_provider_lets_in_has_the_role_of_its_groups() {
    let mut cluster = Cluster::new().unwrap();
    let authority = Authority::new(&cluster.dir().join("authority")).unwrap();
    let port = cluster.port().unwrap().port();
    let consoles = [0, 1].map(|master| console_of(&cluster, master));
    let secret = cluster.dir().join("client-secret");
    std::fs::write(&secret, "not plain: %+&=\n").unwrap();
    for (master, console) in cluster.masters.iter_mut().zip(&consoles) {
        for (flag, value) in [
            ("--oidc-issuer", format!("https://localhost:{port}").as_str()),
            ("--oidc-client-id", "console"),
            ("--oidc-client-secret-file", secret.to_str().unwrap()),
            ("--oidc-ca", authority.ca().to_str().unwrap()),
            ("--oidc-roles", "ids-admins=admin,ids-operators=operator"),
            ("--console-url", console),
        ] {
            master.daemon.set(flag, value);
        }
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let mut driver = Driver::start(cluster.port().unwrap()).unwrap();
    let browser = driver.browser(&cluster.dir().join("browser")).await.unwrap();
    let played = async {
        // The provider is away: people are told, and those with a password come in.
        browser.goto(&format!("{}/users", consoles[0])).await?;
        click(&browser, "a.button").await?;
        page_has(&browser, "document.querySelector('.status.bad').innerText.includes('does not work just now')")
            .await?;
        let _provider = Provider::start(port, &authority, &consoles)?;
        // A master that was told in vain asks again after a moment.
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let (http, begin) = (&http, format!("{}/login/sso", consoles[0]));
        let asked_again = || async { (http.get(&begin).send().await.ok()?.status().as_u16() == 303).then_some(()) };
        until("the provider is asked again", asked_again).await?;
        come_in(&browser, &format!("{}/users?lang=en", consoles[0]), "jane").await?;
        page_has(&browser, "location.pathname === '/users' && location.search === '?lang=en'").await?;
        page_has(&browser, "document.querySelector('.self').innerText.includes('sso jane@example.com')").await?;
        let me = asked(&browser, "/api/me").await?;
        ensure!(me["name"] == "sso jane@example.com" && me["role"] == "admin", "{me}");
        page_has(&browser, "!document.getElementById('own-title') && document.getElementById('logins-title')").await?;
        let logins = asked(&browser, "/api/logins").await?;
        ensure!(logins[0]["user"] == "sso jane@example.com" && logins[0]["own"] == true, "{logins}");
        let lines = asked(&browser, "/api/audit?action=login.begin").await?;
        ensure!(lines[0]["who"] == "sso jane@example.com", "{lines}");
        ensure!(lines[0]["detail"] == "as admin; jane of the identity provider", "{lines}");
        // Who has no role is known, and not let in; who has a lesser one has that, at the other master too.
        driver.devtools(&browser, "Network.clearBrowserCookies", json!({})).await?;
        come_in(&browser, &consoles[0], "victor").await?;
        page_has(&browser, "document.querySelector('.status.bad').innerText.includes('you have no role here')").await?;
        ensure!(asked(&browser, "/api/me").await?["code"] == "login_required", "victor is not let in");
        driver.devtools(&browser, "Network.clearBrowserCookies", json!({})).await?;
        come_in(&browser, &consoles[1], "olga").await?;
        page_has(&browser, "document.querySelector('.self')?.innerText.includes('sso olga@example.com')").await?;
        let me = asked(&browser, "/api/me").await?;
        ensure!(me["role"] == "operator", "{me}");
        click(&browser, ".self form button").await?;
        page_has(&browser, "location.pathname === '/login'").await?;
        ensure!(asked(&browser, "/api/me").await?["code"] == "login_required", "olga is out");
        Ok::<_, anyhow::Error>(())
    };
    let played = played.await;
    browser.close().await.unwrap();
    played.unwrap();
}
