//! The console in a real browser, served by two real masters with real agents: people log in, look, act, and see what came
//! of it at the other master; and it is usable for everybody, asks nobody else for anything, and has nothing to complain of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use anyhow::{Context as _, Result, ensure};
use common::parameters::SessionId;
use common::rpc::lease::{AgentReport, LeaseServiceClient};
use common::rpc::transport;
use fantoccini::actions::{InputSource as _, MOUSE_BUTTON_LEFT, MouseActions, PointerAction};
use fantoccini::key::Key;
use fantoccini::{Client as Browser, Locator};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tests::browser::{Driver, accessible, log_in, page_has, try_password, type_into};
use tests::client::ADMIN_PASSWORD;
use tests::cluster::{Cluster, until_status};

const RENEW: [&str; 2] = ["--renew-interval", "1s"];
/// Every page of somebody who is logged in.
const PAGES: [&str; 11] = [
    "/",
    "/leases",
    "/agents",
    "/namespaces",
    "/axes",
    "/whitelist",
    "/audit",
    "/designer",
    "/explain",
    "/users",
    "/settings",
];
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/browser/node_modules/axe-core/axe.min.js");

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
async fn the_table_is_filtered_searched_and_sorted() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        // The other master's console: logins are of one master, so somebody logs in there, too, and is led on.
        let (home, other) = (console_of(cluster, 0), console_of(cluster, 1));
        browser.goto(&format!("{other}/leases?type=uint2")).await?;
        page_has(browser, "location.pathname === '/login'").await?;
        try_password(browser, "admin", ADMIN_PASSWORD).await?;
        page_has(browser, "location.pathname + location.search === '/leases?type=uint2'").await?;
        page_has(browser, "document.querySelectorAll('#rows tr').length === 2").await?;
        click(browser, ".filter a").await?;
        page_has(browser, "document.querySelectorAll('#rows tr').length === 4").await?;
        page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;

        browser.find(Locator::Id("type")).await?.select_by_label("uint2").await?;
        type_into(browser, "agent", "agent-2").await?;
        click(browser, ".filter button").await?;
        page_has(browser, "new URLSearchParams(location.search).get('agent') === 'agent-2'").await?;
        page_has(browser, "document.querySelectorAll('#rows tr').length === 1").await?;
        let token = cluster.agent_status(1).await?.token("uint2").context("no number")?.to_owned();
        page_has(browser, &row_of("uint2", &token)).await?;

        // A session's beginning finds its leases of all types; what is not found is said.
        let session = cluster.agent_status(0).await?.session;
        go(browser, &format!("{other}/leases")).await?;
        type_into(browser, "search", &session[..10]).await?;
        click(browser, ".filter button").await?;
        page_has(browser, "document.querySelectorAll('#rows .pill.held').length === 2").await?;
        type_into(browser, "search", "nobody").await?;
        click(browser, ".filter button").await?;
        page_has(browser, "document.getElementById('rows').innerText.includes('No lease matches')").await?;

        // By the agent's name, down and up.
        go(browser, &format!("{other}/leases?sort=agent")).await?;
        let first = |name: &str| format!("document.querySelector('#rows tr').innerText.includes('{name}')");
        page_has(browser, &first("agent-1")).await?;
        click(browser, "th[aria-sort=ascending] a").await?;
        page_has(browser, "location.search === '?sort=-agent'").await?;
        page_has(browser, &first("agent-2")).await?;
        is_clean(driver, browser, &[home, other]).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_terminated_and_the_other_master_knows_who_did_it() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let (home, other) = (console_of(cluster, 0), console_of(cluster, 1));
        let token = cluster.agent_status(0).await?.token("uint2").context("no number")?.to_owned();
        go(browser, &format!("{home}/leases?type=uint2")).await?;
        click(browser, "#rows th a").await?;
        page_has(
            browser,
            "document.querySelector('[data-run=renew]') && document.querySelector('[data-open=terminate]')",
        )
        .await?;
        click(browser, "[data-run=renew]").await?;
        page_has(browser, "document.getElementById('notes').innerText.includes('Renewed until')").await?;
        page_has(browser, "document.getElementById('history').innerText.includes('lease renewed by hand')").await?;

        // The wrong word does nothing; the dialog holds the focus and Escape leaves it.
        click(browser, "[data-open=terminate]").await?;
        page_has(browser, "document.activeElement.id === 'terminate-confirm'").await?;
        type_into(browser, "terminate-confirm", "uint2/").await?;
        page_has(browser, "document.querySelector('#terminate button[type=submit]').disabled").await?;
        browser.find(Locator::Id("terminate-confirm")).await?.send_keys(&char::from(Key::Escape).to_string()).await?;
        page_has(browser, "!document.getElementById('terminate').open").await?;
        click(browser, "[data-open=terminate]").await?;
        type_into(browser, "terminate-confirm", &format!("uint2/{token}")).await?;
        click(browser, "#terminate button[type=submit]").await?;
        page_has(
            browser,
            "/Terminated. Token \\d+ rests until .*20\\d\\d/.test(document.getElementById('notes').innerText)",
        )
        .await?;
        page_has(browser, "document.getElementById('lease').innerText.includes('ending')").await?;
        page_has(browser, "!document.querySelector('[data-open=terminate]')").await?;

        // In the table here, and in the other master's table and audit.
        go(browser, &format!("{home}/leases")).await?;
        page_has(browser, &format!("{}.innerText.includes('ending')", row_of("uint2", &token))).await?;
        log_in(browser, &other, "admin", ADMIN_PASSWORD).await?;
        go(browser, &format!("{other}/leases?state=ending")).await?;
        page_has(browser, &row_of("uint2", &token)).await?;
        go(browser, &format!("{other}/audit?action=lease.terminate")).await?;
        let line =
            format!("/lease terminated\\s+uint2 {token}\\s+admin/.test(document.getElementById('lines').innerText)");
        page_has(browser, &line).await?;
        click(browser, "form.inline button").await?;
        page_has(browser, "document.getElementById('notes').innerText.includes('The audit is whole')").await?;

        // With one master away buttons wait and say so; when it is back they wait no more.
        cluster.master(0)?.daemon.kill_9();
        go(browser, &format!("{other}/namespaces")).await?;
        page_has(browser, "document.querySelector('button[data-both]').disabled").await?;
        page_has(browser, "!document.querySelector('.gate').hidden").await?;
        start_again(cluster, 0).await?;
        page_has(browser, "!document.querySelector('button[data-both]').disabled").await?;
        page_has(browser, "document.querySelector('.gate').hidden").await?;
        is_clean(driver, browser, &[home, other]).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_changed_in_the_browser_and_a_login_outlives_both_masters() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        let said = |text: &str| format!("document.getElementById('notes').innerText.includes({})", json!(text));
        go(browser, &format!("{home}/namespaces")).await?;
        type_into(browser, "ns-name", "invoices").await?;
        type_into(browser, "ns-template", "INV-{date:%Y%m%d}-{token}").await?;
        click(browser, "form.fields button[type=submit]").await?;
        page_has(browser, "document.querySelector('.problem').innerText.includes('serial')").await?;
        let noted = driver.log(browser, "browser").await?;
        ensure!(noted.len() == 1 && noted[0].to_string().contains("400"), "a refusal is noted, and only it: {noted:?}");
        type_into(browser, "ns-template", "INV-{date:%Y%m%d}-{token}{serial:6}").await?;
        click(browser, "form.fields button[type=submit]").await?;
        page_has(browser, &said("Registered invoices.")).await?;
        page_has(browser, "document.getElementById('namespace-string-invoices').innerText.includes('INV-20')").await?;
        click(browser, "[data-open=retire][data-name=invoices]").await?;
        page_has(browser, "document.getElementById('retire-title').innerText.includes('invoices')").await?;
        type_into(browser, "retire-confirm", "invoice").await?;
        page_has(browser, "document.querySelector('#retire button[type=submit]').disabled").await?;
        type_into(browser, "retire-confirm", "invoices").await?;
        click(browser, "#retire button[type=submit]").await?;
        page_has(browser, &said("invoices gives no more IDs.")).await?;
        let row = "document.getElementById('namespace-string-invoices')";
        page_has(browser, &format!("{row}.innerText.includes('retired') && !{row}.querySelector('button')")).await?;

        go(browser, &format!("{home}/whitelist")).await?;
        // A button stays that of its network, whatever rows come before it: nobody's click hits another one.
        let kept = "window.kept = document.querySelector('#rows button'); window.keptRange = kept.dataset.range";
        browser.execute(kept, Vec::new()).await?;
        type_into(browser, "range", "10.20.0.0/16").await?;
        click(browser, "form.fields button[type=submit]").await?;
        page_has(browser, &said("10.20.0.0/16 may ask for leases.")).await?;
        page_has(browser, "document.querySelector('#rows tr').innerText.includes('10.20.0.0/16')").await?;
        page_has(browser, "kept.isConnected && kept.dataset.range === keptRange && keptRange !== '10.20.0.0/16'")
            .await?;
        click(browser, "[data-open=disallow][data-range='10.20.0.0/16']").await?;
        page_has(browser, "document.getElementById('disallow-title').innerText.includes('10.20.0.0/16')").await?;
        type_into(browser, "disallow-confirm", "10.20.0.0/16").await?;
        click(browser, "#disallow button[type=submit]").await?;
        page_has(browser, &said("10.20.0.0/16 may not ask")).await?;
        page_has(browser, "!document.getElementById('rows').innerText.includes('10.20.')").await?;

        go(browser, &format!("{home}/users")).await?;
        type_into(browser, "new-name", "jane").await?;
        type_into(browser, "new-password", "a long password").await?;
        click(browser, "form[data-api='POST /api/users'] button").await?;
        page_has(browser, "document.getElementById('user-jane').innerText.includes('viewer')").await?;
        click(browser, "#user-jane [data-open=role]").await?;
        browser.find(Locator::Id("role-role")).await?.select_by_value("operator").await?;
        click(browser, "#role button[type=submit]").await?;
        page_has(browser, "document.getElementById('user-jane').innerText.includes('operator')").await?;
        type_into(browser, "key-name", "grafana").await?;
        click(browser, "form[data-api='POST /api/keys'] button").await?;
        page_has(browser, "document.querySelector('.secret code').innerText.startsWith('uniq_')").await?;
        let key = browser.find(Locator::Css(".secret code")).await?.text().await?;
        let asked = async |key: &str| -> Result<u16> {
            let request = reqwest::Client::new().get(format!("{home}/api/me")).bearer_auth(key);
            Ok(request.send().await?.status().as_u16())
        };
        ensure!(asked(&key).await? == 200, "the key is accepted");
        click(browser, "#key-grafana [data-open=remove-key]").await?;
        type_into(browser, "remove-key-confirm", "grafana").await?;
        click(browser, "#remove-key button[type=submit]").await?;
        page_has(browser, "!document.getElementById('key-grafana')").await?;
        ensure!(asked(&key).await? == 401, "and does not any more");
        is_clean(driver, browser, std::slice::from_ref(&home)).await?;

        // Both masters end and start: whoever was logged in still is.
        for master in [0, 1] {
            ensure!(cluster.master(master)?.daemon.terminate().await?.0.success(), "not a clean stop");
        }
        for master in [0, 1] {
            cluster.master(master)?.daemon.start()?;
        }
        cluster.all_ready().await?;
        go(browser, &format!("{home}/users")).await?;
        page_has(browser, "document.getElementById('user-jane').innerText.includes('operator')").await?;
        click(browser, ".self form button").await?;
        page_has(browser, "location.pathname === '/login'").await?;
        // A login that ends elsewhere ends the pages it has open, too.
        log_in(browser, &home, "admin", ADMIN_PASSWORD).await?;
        browser.execute("fetch('/logout', { method: 'POST', headers: { 'X-CSRF-Token': csrf } })", Vec::new()).await?;
        page_has(browser, "location.pathname === '/login'").await?;
        browser.goto(&format!("{home}/users")).await?;
        page_has(browser, "location.pathname === '/login'").await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_described_found_and_retired_on_its_own_page() {
    let axe = std::fs::read_to_string(AXE).unwrap();
    let mut cluster = Cluster::start(1, &RENEW).await.unwrap();
    let home = console_of(&cluster, 0);
    for (name, note) in [("orders", json!({"owner": "team-shop"})), ("parcels", json!({"application": "shop"}))] {
        let (client, console) = (cluster.client.clone(), cluster.masters[1].daemon.http);
        let named = json!({"name": name, "kind": "uniq64"});
        assert_eq!(client.change(console, "/api/namespaces", &named).await.unwrap().status, 201);
        let path = format!("/api/namespaces/{name}/about");
        assert_eq!(client.change_by(reqwest::Method::PUT, console, &path, &note).await.unwrap().status, 200);
    }
    in_browser(&mut cluster, async |_, driver, browser| {
        let said = |text: &str| format!("document.getElementById('notes').innerText.includes({})", json!(text));
        let shows =
            |id: &str, text: &str| format!("document.getElementById('{id}').innerText.includes({})", json!(text));
        // Found by a form that needs no script; from the table to the name's page.
        go(browser, &format!("{home}/namespaces")).await?;
        page_has(browser, &shows("count", "4 of 4 names")).await?;
        type_into(browser, "q", "TEAM-sh").await?;
        click(browser, ".filter button").await?;
        page_has(browser, "new URLSearchParams(location.search).get('q') === 'TEAM-sh'").await?;
        page_has(browser, &shows("count", "1 of 4 names")).await?;
        click(browser, "#rows th a").await?;
        page_has(browser, "location.pathname === '/namespaces/uniq64/orders'").await?;
        page_has(browser, "document.getElementById('live')?.classList.contains('on')").await?;
        page_has(browser, &shows("served", "agent-1")).await?;
        page_has(browser, "/Agents that can serve it\\s+1\\s/.test(document.getElementById('detail').innerText)")
            .await?;

        // What is wrong is said beside the form, which keeps what was typed; what is right is shown at once.
        type_into(browser, "note-description", "Orders of the shop <b>").await?;
        type_into(browser, "note-labels", "Env=prod\nregion=eu").await?;
        click(browser, "#note button[type=submit]").await?;
        page_has(browser, &shows("note", "'Env' is no key of a label")).await?;
        let noted = driver.log(browser, "browser").await?;
        ensure!(noted.len() == 1 && noted[0].to_string().contains("400"), "a refusal is noted, and only it: {noted:?}");
        type_into(browser, "note-labels", "env=prod\nregion=eu").await?;
        click(browser, "#note button[type=submit]").await?;
        page_has(browser, &said("Saved what is noted about orders.")).await?;
        page_has(browser, &shows("detail", "Orders of the shop <b>")).await?;
        page_has(browser, "document.getElementById('note-description').value === 'Orders of the shop <b>'").await?;
        page_has(browser, "document.getElementById('note-owner').value === 'team-shop'").await?;
        for (lang, theme, width) in [("zh-CN", "dark", 1_360), ("en", "light", 500), ("en", "light", 1_360)] {
            browser.set_window_size(width, 1_000).await?;
            let taste =
                format!("document.cookie = 'uniq_lang={lang}; Path=/'; document.cookie = 'uniq_theme={theme}; Path=/'");
            browser.execute(&taste, Vec::new()).await?;
            for page in
                ["/namespaces", "/namespaces?q=nobody", "/namespaces/uniq64/orders", "/namespaces/string/default"]
            {
                go(browser, &format!("{home}{page}")).await?;
                page_has(browser, &format!("document.documentElement.lang === '{lang}'")).await?;
                page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;
                accessible(browser, &axe, &format!("{page} {lang} {theme} {width}")).await?;
            }
        }
        // Its labels lead to the others that have them.
        go(browser, &format!("{home}/namespaces/uniq64/orders")).await?;
        click(browser, "#detail a.chip").await?;
        page_has(browser, "location.search === '?label=env%3Dprod'").await?;
        page_has(browser, &shows("count", "1 of 4 names")).await?;

        // Retired only by its whole name; then nothing can be done to it any more, and the audit says what was.
        go(browser, &format!("{home}/namespaces/uniq64/orders")).await?;
        click(browser, "[data-open=retire]").await?;
        page_has(browser, &shows("retire-title", "orders")).await?;
        accessible(browser, &axe, "the dialog of retiring").await?;
        for (typed, disabled) in [("order", true), ("parcels", true), ("orders", false)] {
            type_into(browser, "retire-confirm", typed).await?;
            let is = format!("document.querySelector('#retire button[type=submit]').disabled === {disabled}");
            page_has(browser, &is).await?;
        }
        click(browser, "#retire button[type=submit]").await?;
        page_has(browser, &said("orders gives no more IDs.")).await?;
        page_has(browser, "!document.querySelector('[data-open=retire]')").await?;
        page_has(browser, &shows("detail", "retired")).await?;
        go(browser, &format!("{home}/namespaces/uniq64/orders")).await?;
        page_has(browser, "!document.getElementById('note')").await?;
        click(browser, "#detail a[href^='/audit']").await?;
        page_has(browser, "/namespace retired\\s+orders\\s+admin/.test(document.getElementById('lines').innerText)")
            .await?;
        page_has(browser, &shows("lines", "namespace described")).await?;
        is_clean(driver, browser, std::slice::from_ref(&home)).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_lock_out_the_right_one_too() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, _, browser| {
        let other = console_of(cluster, 1);
        browser.goto(&format!("{other}/login")).await?;
        for _ in 0..5 {
            browser.execute("window.mark = 'sent'", Vec::new()).await?;
            try_password(browser, "admin", "a wrong password").await?;
            page_has(browser, "!window.mark && document.querySelector('[role=alert]')").await?;
            page_has(browser, "document.body.innerText.includes('There is no such user with this password.')").await?;
        }
        try_password(browser, "admin", ADMIN_PASSWORD).await?;
        page_has(browser, "document.body.innerText.includes('Too many failed logins.')").await?;
        browser.goto(&format!("{other}/leases")).await?;
        page_has(browser, "location.pathname === '/login'").await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_says_of_itself_is_shown_as_text() {
    const HOSTILE: &str = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=2</script>";
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    // A name that is more than a name is not even taken.
    let ended =
        tests::programs::run(&tests::programs::generator().unwrap(), &["--agent-id", HOSTILE], "/".as_ref()).unwrap();
    assert_eq!(ended.status, Some(2), "{ended:?}");
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        go(browser, &format!("{home}/agents")).await?;
        // Who holds no lease is shown by the master that it reports to, and by no other.
        tell(cluster.masters[0].agent_listen, HOSTILE).await?;
        page_has(browser, "document.getElementById('rows').innerText.includes('onerror=')").await?;
        for page in ["/agents", "/"] {
            go(browser, &format!("{home}{page}")).await?;
            page_has(browser, "document.body.innerText.includes('window.hacked')").await?;
            page_has(browser, "window.hacked === undefined && !document.querySelector('main img')").await?;
        }
        is_clean(driver, browser, &[home]).await
    })
    .await
    .unwrap();
}

async fn tell(master: SocketAddr, text: &str) -> Result<()> {
    let connection = transport::connect(&master.to_string()).await?;
    let client = LeaseServiceClient::new(Default::default(), connection).spawn();
    let report = AgentReport {
        cluster: None,
        agent_id: "a-name".parse()?,
        session: SessionId(7),
        version: text.to_owned(),
        fresh_because: Some(text.to_owned()),
        uptime_ms: 0,
        clock_offset_ms: i64::MIN,
        not_ready: Some(text.to_owned()),
        alarm: Some(text.to_owned()),
        minted: u64::MAX,
        scarcest: None,
        names: Vec::new(),
    };
    client.report(transport::deadline_in(Duration::from_secs(30)), report).await??;
    Ok(())
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

/// Drags with the mouse from the middle of an element by so many pixels.
async fn drag(browser: &Browser, css: &str, by: i64) -> Result<()> {
    let knob = browser.find(Locator::Css(css)).await?;
    let (x, y, width, height) = knob.rectangle().await?;
    let (x, y) = ((x + width / 2.0) as i64, (y + height / 2.0) as i64);
    let moved = |x: i64| PointerAction::MoveTo { duration: Some(Duration::from_millis(50)), x: x as f64, y: y as f64 };
    let mouse = MouseActions::new("mouse".to_owned())
        .then(moved(x))
        .then(PointerAction::Down { button: MOUSE_BUTTON_LEFT })
        .then(moved(x + by / 2))
        .then(moved(x + by))
        .then(PointerAction::Up { button: MOUSE_BUTTON_LEFT });
    browser.perform_actions(mouse).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layout_is_drawn_by_mouse_and_keys_and_says_what_it_gives() {
    let axe = std::fs::read_to_string(AXE).unwrap();
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        let gives = |text: &str| format!("document.getElementById('facts').innerText.includes({})", json!(text));
        let width = |row: usize| format!("document.getElementById('row-{row}-width').value");
        let defined =
            |json: Value| format!("document.getElementById('definition')?.textContent === {}", json!(json.to_string()));
        go(browser, &format!("{home}/designer")).await?;
        page_has(browser, &gives("2080-07-10")).await?;
        page_has(browser, &defined(json!({"kind": "layout", "layout": "snowflake"}))).await?;

        // By the keyboard: a border gives bits from one field to the other, no further than the last one, and keeps the focus.
        let border = browser.find(Locator::Id("border-1")).await?;
        border.send_keys(&char::from(Key::Right).to_string().repeat(2)).await?;
        page_has(browser, &format!("{} === '43' && {} === '8'", width(1), width(2))).await?;
        page_has(browser, &gives("256")).await?;
        page_has(browser, "document.activeElement.id === 'border-1' && document.activeElement.ariaValueNow === '43'")
            .await?;
        browser.active_element().await?.send_keys(&char::from(Key::End).to_string()).await?;
        page_has(browser, &format!("{} === '50' && {} === '1'", width(1), width(2))).await?;
        page_has(browser, "document.getElementById('row-1').innerText.includes('time has 50 bits: at most 48')")
            .await?;
        page_has(
            browser,
            "!document.getElementById('definition') && document.querySelector('#register button').disabled",
        )
        .await?;

        // By the mouse: as far as it was moved.
        go(browser, &format!("{home}/designer?layout=discord")).await?;
        let bit = browser.execute("return document.querySelector('#bitmap svg').clientWidth / 64", Vec::new()).await?;
        let bit = bit.as_f64().context("no picture")?;
        drag(browser, "#border-0", (-3.0 * bit) as i64).await?;
        page_has(browser, &format!("{} === '39' && {} === '13'", width(0), width(1))).await?;
        page_has(browser, &gives("8,192")).await?;
        accessible(browser, &axe, "the designer after a drag").await?;

        // By typing; fields come, go and move, and the page's address is the layout.
        go(browser, &format!("{home}/designer?layout=snowflake")).await?;
        type_into(browser, "row-1-width", "40").await?;
        page_has(browser, "document.getElementById('fault').innerText.includes('63 bits, and the number has 64')")
            .await?;
        accessible(browser, &axe, "the designer with a fault").await?;
        click(browser, "#add-random").await?;
        page_has(browser, &format!("{} === '1' && {}", width(4), gives("4.09 M"))).await?;
        click(browser, "#row-4-up").await?;
        page_has(browser, "document.getElementById('row-3-part').value === 'random'").await?;
        page_has(browser, "document.activeElement.id === 'row-3-part'").await?;
        let fields = json!(["zero:1", "time:40", "token:10", "random:1", "serial:12"]).to_string();
        let own = format!(
            "JSON.stringify(JSON.parse(document.getElementById('definition')?.textContent ?? '{{}}').fields) === {}",
            json!(fields)
        );
        page_has(browser, &own).await?;
        browser.refresh().await?;
        page_has(browser, &own).await?;
        click(browser, "#row-3-remove").await?;
        page_has(browser, "document.querySelectorAll('.rows li').length === 4").await?;
        browser.find(Locator::Id("layout")).await?.select_by_value("uuid7").await?;
        page_has(browser, "document.getElementById('example').innerText.includes('uuid')").await?;
        page_has(
            browser,
            "/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/m.test(document.getElementById('example').innerText)",
        )
        .await?;
        accessible(browser, &axe, "a layout with many borders").await?;
        browser.find(Locator::Id("encoding")).await?.select_by_value("base62").await?;
        type_into(browser, "ahead", "20000").await?;
        page_has(browser, "document.getElementById('fault').innerText.includes('too far')").await?;
        type_into(browser, "ahead", "0").await?;
        page_has(
            browser,
            "document.getElementById('definition')?.textContent.endsWith(',\"ahead_max_ms\":0,\"encoding\":\"base62\"}')",
        )
        .await?;
        page_has(browser, "/base62\\n[0-9A-Za-z]{22}/.test(document.getElementById('example').innerText)").await?;
        is_clean(driver, browser, std::slice::from_ref(&home)).await?;

        // What the definition says is what is registered.
        browser
            .execute("document.getElementById('definition').textContent = '{\"kind\":\"uniq64\"}'", Vec::new())
            .await?;
        type_into(browser, "gen-name", "bills").await?;
        click(browser, "#register button[type=submit]").await?;
        page_has(browser, "document.getElementById('notes').innerText.includes('Registered bills.')").await?;
        go(browser, &format!("{home}/namespaces")).await?;
        page_has(browser, "document.getElementById('namespace-uniq64-bills').querySelector('svg.bits')").await?;

        // In the other language.
        browser.execute("document.cookie = 'uniq_lang=zh-CN; Path=/'", Vec::new()).await?;
        go(browser, &format!("{home}/designer")).await?;
        page_has(browser, "document.getElementById('facts').innerText.includes('最后一天')").await?;
        type_into(browser, "unit", "7").await?;
        page_has(browser, "document.getElementById('fault').innerText.includes('does not divide a day')").await?;
        page_has(browser, "document.querySelector('#bitmap svg').ariaLabel.includes('时间')").await
    })
    .await
    .unwrap();
}
