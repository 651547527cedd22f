//! The axis of a name of segments, as an operator registers, reads and raises it.

use super::{AXE, click, console_of, go, in_browser};
use anyhow::Result;
use fantoccini::Client as Browser;
use serde_json::json;
use tests::browser::{accessible, page_has, type_into};
use tests::cluster::Cluster;

/// Registers a name of segments by the form, looks at its axis, and raises it to a place that a browser's numbers cannot hold.
async fn raise_by_hand(browser: &Browser, home: &str) -> Result<()> {
    let axe = std::fs::read_to_string(AXE)?;
    let said = |text: &str| format!("document.getElementById('notes').innerText.includes({})", json!(text));
    let shows = |id: &str, text: &str| format!("document.getElementById('{id}')?.innerText.includes({})", json!(text));
    go(browser, &format!("{home}/namespaces")).await?;
    page_has(browser, "document.getElementById('ns-first').offsetParent === null").await?;
    click(browser, "#ns-kind option[value=segment]").await?;
    page_has(
        browser,
        "document.getElementById('ns-first').offsetParent && !document.getElementById('ns-template').offsetParent",
    )
    .await?;
    accessible(browser, &axe, "the form of a segment").await?;
    type_into(browser, "ns-name", "orders").await?;
    type_into(browser, "ns-first", "1000").await?;
    // Tried with texts of one length: shown, and nothing is registered.
    type_into(browser, "ns-prefix", "ORD-").await?;
    type_into(browser, "ns-length", "8").await?;
    click(browser, "button[data-shows=ns-tried]").await?;
    page_has(browser, &shows("ns-tried", "ORD-00001000\nORD-00001001\nORD-00001002")).await?;
    page_has(browser, &shows("ns-tried", "99999999")).await?;
    page_has(browser, &shows("ns-tried", "free: nothing was registered")).await?;
    page_has(browser, "!/Last day/.test(document.getElementById('ns-tried').innerText)").await?;
    accessible(browser, &axe, "what a try gives").await?;
    type_into(browser, "ns-prefix", "").await?;
    type_into(browser, "ns-length", "").await?;
    click(browser, "form[data-api='POST /api/namespaces'] button[type=submit]").await?;
    page_has(browser, &said("Registered orders.")).await?;

    for (lang, theme, width) in [("zh-CN", "dark", 1_360), ("en", "light", 500), ("en", "light", 1_360)] {
        browser.set_window_size(width, 1_000).await?;
        let taste =
            format!("document.cookie = 'uniq_lang={lang}; Path=/'; document.cookie = 'uniq_theme={theme}; Path=/'");
        browser.execute(&taste, Vec::new()).await?;
        for page in ["/axes", "/namespaces/segment/orders"] {
            go(browser, &format!("{home}{page}")).await?;
            page_has(browser, "document.documentElement.scrollWidth <= innerWidth").await?;
            accessible(browser, &axe, &format!("{page} {lang} {theme} {width}")).await?;
        }
    }
    go(browser, &format!("{home}/axes")).await?;
    page_has(browser, &shows("axis-orders", "1,000")).await?;
    click(browser, "#axis-orders [data-open=raise]").await?;
    page_has(browser, &shows("raise-title", "Raise the axis of orders?")).await?;
    page_has(browser, &shows("raise", "A place from 1000 to 9223372036854775807")).await?;
    accessible(browser, &axe, "the dialog of raising").await?;
    type_into(browser, "raise-to", "9007199254740993").await?;
    for (typed, disabled) in [("order", true), ("orders", false)] {
        type_into(browser, "raise-confirm", typed).await?;
        let is = format!("document.querySelector('#raise button[type=submit]').disabled === {disabled}");
        page_has(browser, &is).await?;
    }
    click(browser, "#raise button[type=submit]").await?;
    page_has(browser, &said("The axis of orders is raised to 9007199254740993.")).await?;
    page_has(browser, &shows("axis-orders", "raised to 9,007,199,254,740,993")).await?;
    // What is refused is said in the dialog, which stays.
    click(browser, "#axis-orders [data-open=raise]").await?;
    type_into(browser, "raise-to", "5000").await?;
    type_into(browser, "raise-confirm", "orders").await?;
    click(browser, "#raise button[type=submit]").await?;
    page_has(browser, &shows("raise", "an axis is never lowered")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_axis_is_raised_in_a_browser_to_the_last_digit() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    cluster.all_ready().await.unwrap();
    in_browser(&mut cluster, async |cluster, _, browser| raise_by_hand(browser, &console_of(cluster, 0)).await)
        .await
        .unwrap();
}
