//! Sequences: which agent serves what is seen, a section is moved and an agent drained by hand.

use super::{AXE, click, console_of, go, in_browser, is_clean};
use anyhow::{Result, ensure};
use fantoccini::Client as Browser;
use serde_json::json;
use tests::browser::{accessible, page_has, type_into};
use tests::cluster::{Cluster, until};

/// Sections of a name with a thousand keys in each.
const ALL: &str = "4,294,968";
/// Sections that are moved away from those beside them, and what a page with them is long at most on a phone, in pixels.
const SCATTERED: usize = 4;
const PHONE_MAX: u64 = 12_000;

/// Lets both agents serve sections, so that those of the next name are shared among them.
async fn both_serve(cluster: &Cluster) -> Result<()> {
    let first = json!({"name": "first", "kind": "sequence", "keys_per_section": u32::MAX});
    let console = cluster.masters[0].daemon.http;
    ensure!(cluster.client.change(console, "/api/namespaces", &first).await?.status == 201, "it is registered");
    cluster.all_give("sequence/first/0").await?;
    let both = || async {
        let known = cluster.client.console(console, "/api/allocators").await.ok()?.json().ok()?;
        (known.as_array()?.len() == 2).then_some(())
    };
    until("both agents serve sections", both).await?;
    Ok(())
}

/// Gives numbers of a few keys, so that there is something to see.
async fn ask_for_keys(cluster: &Cluster) -> Result<()> {
    both_serve(cluster).await?;
    let inbox = json!({"name": "inbox", "kind": "sequence", "keys_per_section": 1_000, "step": 100});
    let console = cluster.masters[0].daemon.http;
    ensure!(cluster.client.change(console, "/api/namespaces", &inbox).await?.status == 201, "it is registered");
    cluster.all_give("sequence/inbox/0").await?;
    for key in (0..5).map(|section| section * 1_000) {
        let path = format!("sequence/inbox/{key}");
        let served = || async { (cluster.ask_agent(0, &path).await.ok()?.status == 200).then_some(()) };
        until("the key has numbers", served).await?;
    }
    Ok(())
}

fn shows(id: &str, text: &str) -> String {
    format!("document.getElementById('{id}')?.innerText.includes({})", json!(text))
}

/// The row of an agent that serves sections.
fn row_of(agent: &str) -> String {
    format!("[...document.querySelectorAll('#allocators tr')].find((row) => row.innerText.includes('{agent}'))")
}

/// Moves section 2 to whoever does not have it.
async fn move_by_hand(browser: &Browser, axe: &str) -> Result<()> {
    let owner = "document.querySelector('#rows [data-from=\"0\"]').closest('tr').innerText.includes('agent-1')";
    let to = if browser.execute(&format!("return {owner}"), Vec::new()).await? == json!(true) { 2 } else { 1 };
    click(browser, "#rows [data-open=move]").await?;
    page_has(browser, &shows("move-title", "Move a section of inbox to another agent?")).await?;
    page_has(browser, &shows("move", "none is refused")).await?;
    accessible(browser, axe, "the dialog of moving").await?;
    type_into(browser, "move-section", "2").await?;
    page_has(browser, "document.getElementById('move-to').value === ''").await?;
    let offered =
        "[...document.querySelectorAll('#move-agents option')].map((it) => it.value).join() === 'agent-1,agent-2'";
    page_has(browser, offered).await?;
    type_into(browser, "move-to", &format!("agent-{to}")).await?;
    for (typed, disabled) in [("inbox/1", true), ("inbox/2", false)] {
        type_into(browser, "move-confirm", typed).await?;
        let is = format!("document.querySelector('#move button[type=submit]').disabled === {disabled}");
        page_has(browser, &is).await?;
    }
    click(browser, "#move button[type=submit]").await?;
    page_has(browser, &shows("notes", &format!("Section 2 of inbox is on its way to agent-{to}."))).await?;
    let there = format!("document.getElementById('section-inbox-2')?.innerText.includes('agent-{to}')");
    page_has(browser, &there).await?;
    page_has(browser, "document.getElementById('section-inbox-2')?.innerText.includes('served')").await
}

/// Drains the first agent, and lets it serve again.
async fn drain_by_hand(browser: &Browser, axe: &str) -> Result<()> {
    click(browser, "#allocators [data-open=drain][data-agent=agent-1]").await?;
    page_has(browser, &shows("drain-title", "Take all sections away from agent-1?")).await?;
    accessible(browser, axe, "the dialog of draining").await?;
    type_into(browser, "drain-confirm", "agent-1").await?;
    click(browser, "#drain button[type=submit]").await?;
    page_has(browser, &shows("notes", "agent-1 is drained")).await?;
    page_has(browser, &format!("{}.innerText.includes('drained: empty')", row_of("agent-1"))).await?;
    page_has(browser, "[...document.querySelectorAll('#legend li')].map((it) => it.innerText).join() === 'agent-2'")
        .await?;
    click(browser, "#allocators [data-run=undrain]").await?;
    page_has(browser, &shows("notes", "agent-1 is given sections again.")).await?;
    page_has(browser, "!document.querySelector('#allocators [data-run=undrain]')").await
}

/// Refusals are said in the dialog, which stays; the browser complains of them, too.
async fn is_refused(browser: &Browser) -> Result<()> {
    click(browser, "#rows [data-open=move]").await?;
    type_into(browser, "move-section", "2").await?;
    type_into(browser, "move-to", "nobody").await?;
    type_into(browser, "move-confirm", "inbox/2").await?;
    click(browser, "#move button[type=submit]").await?;
    page_has(browser, &shows("move", "no agent of the name 'nobody'")).await
}

/// Agents are before the sections, and the page has an end on a phone, however many sections there are.
async fn is_short_on_a_phone(cluster: &Cluster, browser: &Browser, home: &str) -> Result<()> {
    let wide = json!({"name": "wide", "kind": "sequence", "keys_per_section": 1_000, "step": 100});
    let console = cluster.masters[0].daemon.http;
    ensure!(cluster.client.change(console, "/api/namespaces", &wide).await?.status == 201, "it is registered");
    // Both agents are given sections of it if neither counts as drained at the master that gives them.
    let undrained = || async {
        let known =
            cluster.client.console(cluster.masters[1].daemon.http, "/api/allocators").await.ok()?.json().ok()?;
        let drained = |row: &serde_json::Value| row["draining"] == true;
        (!known.as_array()?.iter().any(drained)).then_some(())
    };
    until("the other master knows that nobody is drained", undrained).await?;
    cluster.all_give("sequence/wide/0").await?;
    // Sections in the middle of what the other one has: each is a row then, and so is what is on either side.
    let some = || async {
        let rows = cluster.client.console(console, "/api/sections?name=wide").await.ok()?.json().ok()?;
        let its = rows.as_array()?.iter().filter(|row| row["owner"]["agent_id"] == "agent-2");
        let some: Vec<u64> = its.take(SCATTERED).filter_map(|row| Some(row["from"].as_u64()? + 5)).collect();
        (some.len() == SCATTERED).then_some(some)
    };
    for section in until("the other agent serves some of them", some).await?.0 {
        let key = format!("wide/{section}");
        let order = json!({"to": "agent-1", "confirm": key});
        let moved = cluster.client.change(console, &format!("/api/sections/{key}/move"), &order).await?;
        ensure!(moved.status == 202, "{moved:?}");
    }
    browser.set_window_size(500, 1_000).await?;
    go(browser, &format!("{home}/sequences?name=wide")).await?;
    page_has(browser, &format!("document.getElementById('map').innerText.includes('{ALL} of {ALL}')")).await?;
    page_has(browser, "document.querySelectorAll('#rows tr').length === 20").await?;
    let top = |id: &str| format!("document.getElementById('{id}').getBoundingClientRect().top");
    page_has(browser, &format!("{} < {}", top("allocators"), top("map"))).await?;
    let height = browser.execute("return document.documentElement.scrollHeight", Vec::new()).await?;
    ensure!(height.as_u64().is_some_and(|height| height < PHONE_MAX), "the page is {height} px long");
    browser.set_window_size(1_360, 1_000).await?;
    Ok(())
}

/// Says to whoever removes the agents' network whom that ends.
async fn whom_it_ends_is_said(browser: &Browser, home: &str, axe: &str) -> Result<()> {
    go(browser, &format!("{home}/whitelist")).await?;
    click(browser, "[data-open=disallow][data-range='127.0.0.0/8']").await?;
    let impact = "document.querySelector('#disallow .impact').innerText";
    page_has(browser, &format!("{impact}.includes('the service of agent-1, agent-2. Agents: 2; leases')")).await?;
    page_has(browser, "document.querySelector('#disallow button[type=submit]').disabled").await?;
    accessible(browser, axe, "the dialog of removing a network").await
}

/// An agent has a page of its own, with the sections that it serves.
async fn has_its_page(browser: &Browser, axe: &str, taste: &str) -> Result<()> {
    click(browser, "#allocators a[href='/agents/agent-1']").await?;
    page_has(browser, "document.querySelectorAll('#rows tr').length > 0").await?;
    page_has(browser, "document.querySelector('#allocators tr').innerText.includes('agent-1')").await?;
    page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;
    accessible(browser, axe, &format!("/agents/agent-1 {taste}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_is_moved_and_an_agent_is_drained_by_hand() {
    let axe = std::fs::read_to_string(AXE).unwrap();
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        ask_for_keys(cluster).await?;
        for (lang, theme, width) in [("zh-CN", "dark", 1_360), ("en", "light", 500), ("en", "light", 1_360)] {
            browser.set_window_size(width, 1_000).await?;
            let taste =
                format!("document.cookie = 'uniq_lang={lang}; Path=/'; document.cookie = 'uniq_theme={theme}; Path=/'");
            browser.execute(&taste, Vec::new()).await?;
            go(browser, &format!("{home}/sequences?name=inbox")).await?;
            page_has(browser, "document.querySelectorAll('#bar-inbox .piece').length > 0").await?;
            page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;
            accessible(browser, &axe, &format!("/sequences {lang} {theme} {width}")).await?;
            has_its_page(browser, &axe, &format!("{lang} {theme} {width}")).await?;
        }
        go(browser, &home).await?;
        page_has(browser, &shows("keyed", "2 agents serve 4,294,970 sections of keys.")).await?;
        go(browser, &format!("{home}/sequences?name=inbox")).await?;
        page_has(browser, &shows("map", &format!("{ALL} of {ALL} sections given"))).await?;
        page_has(browser, &format!("{}?.innerText.includes('serves')", row_of("agent-2"))).await?;
        move_by_hand(browser, &axe).await?;
        drain_by_hand(browser, &axe).await?;
        is_short_on_a_phone(cluster, browser, &home).await?;
        whom_it_ends_is_said(browser, &home, &axe).await?;
        go(browser, &format!("{home}/sequences?name=inbox")).await?;
        is_clean(driver, browser, &[home]).await?;
        is_refused(browser).await
    })
    .await
    .unwrap();
}
