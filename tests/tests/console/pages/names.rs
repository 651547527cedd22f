//! Names, and what agents say of themselves.

use super::{AXE, RENEW, click, console_of, go, in_browser, is_clean};
use anyhow::{Result, ensure};
use common::parameters::SessionId;
use net::rpc::lease::{AgentReport, LeaseServiceClient};
use net::rpc::transport;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tests::browser::{accessible, page_has, type_into};
use tests::cluster::Cluster;

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
    assert_eq!(cluster.ask_agent(0, "uniq64/orders").await.unwrap().status, 200);
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
async fn a_registration_offers_the_encodings_that_its_kind_takes_and_a_length_where_they_have_one() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let home = console_of(&cluster, 0);
    in_browser(&mut cluster, async |_, driver, browser| {
        go(browser, &format!("{home}/namespaces")).await?;
        let choose = async |id: &str, value: &str| {
            let script = format!(
                "const it = document.getElementById('{id}'); it.value = '{value}'; it.dispatchEvent(new Event('change', {{ bubbles: true }}))"
            );
            browser.execute(&script, Vec::new()).await
        };
        let is = async |id: &str, what: &str| page_has(browser, &format!("document.getElementById('{id}').{what}")).await;
        for (kind, form, chosen, long) in [
            ("segment", "sqids", "sqids", true),
            ("segment", "base32hex", "base32hex", false),
            ("sequence", "base32hex", "base32hex", false),
            ("sequence", "base62", "base62", true),
            ("uniq64", "sqids", "sqids", true),
            // It hides numbers, which those of a sequence are not.
            ("sequence", "", "decimal", true),
            ("string", "", "decimal", false),
        ] {
            choose("ns-kind", kind).await?;
            if !form.is_empty() {
                choose("ns-form", form).await?;
            }
            is("ns-form", &format!("value === '{chosen}'")).await?;
            is("ns-length", &format!("disabled === {}", !long)).await?;
            let sqids = "document.querySelector('#ns-form option:not([data-when*=sequence])')";
            page_has(browser, &format!("{sqids}.text === 'sqids' && {sqids}.disabled === {}", !["segment", "uniq64"].contains(&kind))).await?;
        }
        is_clean(driver, browser, std::slice::from_ref(&home)).await
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
        stops: false,
        minted: u64::MAX,
        scarcest: None,
        names: Vec::new(),
    };
    client.report(transport::deadline_in(Duration::from_secs(30)), report).await??;
    Ok(())
}
