//! Settings, users and logins.

use super::{click, console_of, go, in_browser, is_clean};
use anyhow::{Context as _, Result, ensure};
use fantoccini::Locator;
use serde_json::json;
use tests::browser::{log_in, page_has, try_password, type_into};
use tests::client::ADMIN_PASSWORD;
use tests::cluster::Cluster;

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
        // No ID was given by it: it is gone.
        page_has(browser, "!document.getElementById('namespace-string-invoices')").await?;

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
        let impact = "document.querySelector('#disallow .impact').innerText";
        page_has(browser, &format!("{impact} === 'No agent that is known calls from there alone.'")).await?;
        type_into(browser, "disallow-confirm", "10.20.0.0/16").await?;
        click(browser, "#disallow button[type=submit]").await?;
        page_has(browser, &said("10.20.0.0/16 may not ask")).await?;
        page_has(browser, "!document.getElementById('rows').innerText.includes('10.20.')").await?;

        go(browser, &format!("{home}/audit")).await?;
        page_has(browser, "document.getElementById('lines').innerText.includes('-10.20.0.0/16')").await?;

        go(browser, &format!("{home}/users")).await?;
        type_into(browser, "new-name", "jane").await?;
        type_into(browser, "new-password", "a long password").await?;
        click(browser, "form[data-api='POST /api/users'] button").await?;
        page_has(browser, "document.getElementById('user-jane').innerText.includes('viewer')").await?;
        click(browser, "#user-jane [data-open=role]").await?;
        browser.find(Locator::Id("role-role")).await?.select_by_value("operator").await?;
        click(browser, "#role button[type=submit]").await?;
        page_has(browser, "document.getElementById('user-jane').innerText.includes('operator')").await?;
        type_into(browser, "new-key-name", "grafana").await?;
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
async fn a_login_is_ended_in_the_list() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, _, browser| {
        go(browser, &format!("{}/users", console_of(cluster, 0))).await?;
        // The other master need not be there.
        ensure!(cluster.master(1)?.daemon.terminate().await?.0.success(), "not a clean stop");
        page_has(browser, "document.getElementById('status-line')?.dataset.gate").await?;
        let row = "[...document.querySelectorAll('[id^=login-]')].find((row) => row.innerText.includes('this one'))";
        browser.execute(&format!("{row}.querySelector('button').click()"), Vec::new()).await?;
        page_has(browser, "document.querySelector('#end-login button[type=submit]').disabled").await?;
        type_into(browser, "end-login-confirm", "admin").await?;
        click(browser, "#end-login button[type=submit]").await?;
        page_has(browser, "location.pathname === '/login'").await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_agents_is_made_replaced_and_removed_in_the_browser() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        let form = "form[data-api='POST /api/keys']";
        let (create, secret) =
            (format!("{form} button[type=submit]"), "document.querySelector('.secret code').innerText");
        let row = "document.getElementById('key-shop')";
        go(browser, &format!("{home}/users")).await?;
        page_has(browser, "!document.getElementById('new-key-names').checkVisibility()").await?;
        type_into(browser, "new-key-name", "shop").await?;
        browser.find(Locator::Id("new-key-for")).await?.select_by_value("agents").await?;
        page_has(browser, "!document.getElementById('new-key-role').checkVisibility()").await?;
        type_into(browser, "new-key-names", "orders-*, default").await?;
        click(browser, &create).await?;
        let problem =
            format!("document.querySelector(\"{form} .problem\").innerText.includes('at least one of actions')");
        page_has(browser, &problem).await?;
        let noted = driver.log(browser, "browser").await?;
        ensure!(noted.len() == 1 && noted[0].to_string().contains("400"), "a refusal is noted, and only it: {noted:?}");
        for action in ["new-key-mint", "new-key-status"] {
            browser.find(Locator::Id(action)).await?.click().await?;
        }
        type_into(browser, "new-key-days", "7").await?;
        click(browser, &create).await?;
        page_has(browser, &format!("{secret}.startsWith('uniq_')")).await?;
        for shown in ["agents", "mint, status", "default orders-*", "ends soon"] {
            page_has(browser, &format!("{row}.innerText.includes('{shown}')")).await?;
        }
        page_has(browser, "document.getElementById('new-key-for').value === 'masters'").await?;
        browser.execute(&format!("window.first = {secret}"), Vec::new()).await?;

        click(browser, "#key-shop [data-open=rotate-key]").await?;
        page_has(browser, "document.getElementById('rotate-key-title').innerText.includes('shop')").await?;
        page_has(browser, "document.getElementById('rotate-key-hours').value === '24'").await?;
        type_into(browser, "rotate-key-hours", "48").await?;
        click(browser, "#rotate-key button[type=submit]").await?;
        page_has(browser, &format!("{secret}.startsWith('uniq_') && {secret} !== first")).await?;
        page_has(browser, &format!("{row}.innerText.includes('the key before it: until')")).await?;
        let client = cluster.client.clone();
        let listed = async || client.console(cluster.masters[1].daemon.http, "/api/keys").await;
        let rows = listed().await?.json()?;
        let shop = rows.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "shop"));
        let shop = shop.context("the other master has it, too")?;
        ensure!(shop["actions"] == json!(["mint", "status"]) && shop["former_until"].is_string(), "{shop}");

        click(browser, "#key-shop [data-open=remove-key]").await?;
        type_into(browser, "remove-key-confirm", "shop").await?;
        click(browser, "#remove-key button[type=submit]").await?;
        page_has(browser, &format!("!{row}")).await?;
        ensure!(!listed().await?.text().contains("shop"), "it is gone at both");
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
async fn a_file_of_settings_is_looked_at_and_then_imported() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        let kept = |file: &str, networks: serde_json::Value| -> Result<String> {
            let path = cluster.dir().join(file);
            let file = json!({"version": 1, "utc_offset": "+00:00", "names": [], "users": [], "networks": networks});
            std::fs::write(&path, file.to_string())?;
            Ok(path.display().to_string())
        };
        let (good, bad) =
            (kept("good.json", json!(["10.9.0.0/16"]))?, kept("bad.json", json!(["nowhere", "010.0.0.0/8"]))?);
        let choose = async |path: &str| -> Result<()> {
            go(browser, &format!("{home}/settings")).await?;
            browser.find(Locator::Id("import-file")).await?.send_keys(path).await?;
            Ok(())
        };
        let import = "form[data-file] button[type=submit]";
        let said = |text: &str| format!("document.querySelector('.said').innerText.includes({})", json!(text));
        choose(&good).await?;
        page_has(browser, "document.querySelector('a[href=\"/api/export\"]').download === 'uniq-export.json'").await?;
        click(browser, import).await?;
        page_has(browser, &said("New: 0 names, 0 notes, 0 users, 1 networks, 0 revocations.")).await?;
        let client = cluster.client.clone();
        let whitelist = async || client.console(cluster.masters[1].daemon.http, "/api/whitelist").await;
        ensure!(!whitelist().await?.text().contains("10.9."), "it was only looked at");
        browser.find(Locator::Id("import-how")).await?.select_by_value("false").await?;
        click(browser, import).await?;
        page_has(browser, &said("New: 0 names, 0 notes, 0 users, 1 networks, 0 revocations.")).await?;
        ensure!(whitelist().await?.text().contains("10.9.0.0/16"), "it is done at both");
        is_clean(driver, browser, std::slice::from_ref(&home)).await?;

        choose(&bad).await?;
        click(browser, import).await?;
        let problem = "document.querySelector('form[data-file] .problem').innerText";
        page_has(browser, &format!("{problem}.includes('networks[0]') && {problem}.includes('\\nnetworks[1]')")).await
    })
    .await
    .unwrap();
}
