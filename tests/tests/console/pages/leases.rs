//! Leases: found in the table, and terminated.

use super::{click, console_of, go, in_browser, is_clean, row_of, start_again};
use anyhow::Context as _;
use fantoccini::Locator;
use fantoccini::key::Key;
use tests::browser::{log_in, page_has, try_password, type_into};
use tests::client::ADMIN_PASSWORD;
use tests::cluster::Cluster;

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
            format!("/lease terminated\\s+uint2 {token}\\s+g\\d+ of .*\\s+admin/.test(document.getElementById('lines').innerText)");
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
