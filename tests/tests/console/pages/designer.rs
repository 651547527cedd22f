//! The designers of layouts and of templates, by mouse and by keys.

use super::{AXE, click, console_of, go, in_browser, is_clean};
use anyhow::{Context as _, Result};
use fantoccini::actions::{InputSource as _, MOUSE_BUTTON_LEFT, MouseActions, PointerAction};
use fantoccini::key::Key;
use fantoccini::{Client as Browser, Locator};
use serde_json::{Value, json};
use std::time::Duration;
use tests::browser::{accessible, page_has, type_into};
use tests::cluster::Cluster;

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
        page_has(browser, &format!("{} === '1' && {}", width(4), gives("4,096,000"))).await?;
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

        // What the definition says is what is registered. Put there and sent at once: the field that was typed into says that it
        // changed when it is left, and what is drawn for that overwrites the definition.
        type_into(browser, "gen-name", "bills").await?;
        browser
            .execute(
                "document.getElementById('definition').textContent = '{\"kind\":\"uniq64\"}';
                document.querySelector('#register button[type=submit]').click()",
                Vec::new(),
            )
            .await?;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_written_and_says_at_once_what_it_gives() {
    let axe = std::fs::read_to_string(AXE).unwrap();
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    in_browser(&mut cluster, async |cluster, driver, browser| {
        let home = console_of(cluster, 0);
        let part =
            |id: &str, text: &str| format!("document.getElementById('{id}')?.innerText.includes({})", json!(text));
        let defined = |template: &str| {
            let json = "JSON.parse(document.getElementById('definition')?.textContent ?? '{}')";
            format!("{json}.template === {}", json!(template))
        };
        let refused = "!document.getElementById('definition') && document.querySelector('#register button').disabled";
        go(browser, &format!("{home}/designer/template")).await?;
        page_has(browser, &part("facts", "1,000,000")).await?;
        page_has(browser, &part("example", "-12000042")).await?;

        // By typing: what is wrong is said and marked, and the rest is drawn.
        type_into(browser, "template", "ORD{date:%Y%m%d}{tokn}").await?;
        page_has(browser, "document.querySelector('#fault mark')?.innerText === '{tokn}'").await?;
        page_has(browser, "document.querySelector('#design svg').ariaLabel === '11 characters: fixed 3, date 8'")
            .await?;
        page_has(browser, &part("fault", "'tokn' is not a field")).await?;
        page_has(browser, refused).await?;
        accessible(browser, &axe, "a template with a fault").await?;

        // By the buttons: they write behind what is there, and the page's address is the template.
        type_into(browser, "template", "ORD{date:%Y%m%d}").await?;
        page_has(browser, &part("fault", "token is missing")).await?;
        click(browser, "#add-2").await?;
        page_has(browser, &part("fault", "serial is missing")).await?;
        click(browser, "#add-3").await?;
        page_has(browser, &defined("ORD{date:%Y%m%d}{token}{serial:8}")).await?;
        page_has(browser, "document.activeElement.id === 'add-3'").await?;
        browser.refresh().await?;
        page_has(browser, &defined("ORD{date:%Y%m%d}{token}{serial:8}")).await?;
        accessible(browser, &axe, "a template").await?;
        browser.find(Locator::Id("token-type")).await?.select_by_value("string3-only-number").await?;
        page_has(browser, &part("facts", "22")).await?;
        is_clean(driver, browser, std::slice::from_ref(&home)).await?;

        // What is drawn is what is registered; another name of the same template is refused before it is tried.
        type_into(browser, "gen-name", "bills").await?;
        click(browser, "#register button[type=submit]").await?;
        page_has(browser, "document.getElementById('notes').innerText.includes('Registered bills.')").await?;
        browser.refresh().await?;
        page_has(browser, &part("fault", "that of 'bills'")).await?;
        page_has(browser, refused).await?;
        browser.find(Locator::Id("scope")).await?.select_by_value("own").await?;
        page_has(browser, "!document.getElementById('fault') && document.getElementById('definition')").await?;

        // In the other language.
        browser.execute("document.cookie = 'uniq_lang=zh-CN; Path=/'", Vec::new()).await?;
        browser.refresh().await?;
        page_has(browser, &part("facts", "最后一天")).await?;
        page_has(browser, "document.querySelector('#design svg').ariaLabel.includes('个字符')").await
    })
    .await
    .unwrap();
}
