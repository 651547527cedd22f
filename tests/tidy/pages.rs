//! The documents as a reader meets them: pages of a readable size, links that lead somewhere, an index that leads to all.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

const PAGE_BYTES_MAX: usize = 12_000;
const CELL_CHARS_MAX: usize = 300;
/// Links from the index to any page.
const CLICKS_MAX: usize = 2;
const INDEX: &str = "docs/README.md";
/// Pages outside docs/ whose links are followed, too.
const OUTSIDE: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

#[derive(Default)]
struct Page {
    bytes: usize,
    anchors: BTreeSet<String>,
    links: Vec<String>,
    long_cells: Vec<String>,
}

/// Paths of all pages below docs/, from the root.
pub(super) fn all(root: &Path) -> Vec<String> {
    let (mut folders, mut found) = (vec![root.join("docs")], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The anchor that hosting sites give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}

fn read(text: &str) -> Page {
    let mut page = Page { bytes: text.len(), ..Page::default() };
    let mut said = String::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. } | Tag::TableCell) => said.clear(),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string())
            }
            Event::Text(text) | Event::Code(text) => said.push_str(&text),
            Event::End(TagEnd::Heading(_)) => {
                let first = anchor(&said);
                let again = (1..).map(|n| format!("{first}-{n}"));
                let free = std::iter::once(first.clone()).chain(again).find(|name| !page.anchors.contains(name));
                page.anchors.extend(free);
            }
            Event::End(TagEnd::TableCell) if said.chars().count() > CELL_CHARS_MAX => {
                page.long_cells.push(said.clone())
            }
            _ => {}
        }
    }
    page
}

/// The path that a link of `page` means, and its anchor; nothing for links to other hosts.
fn target(page: &str, link: &str) -> Option<(String, String)> {
    if link.contains("://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        return Some((page.to_owned(), anchor.to_owned()));
    }
    let mut whole = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(path).components() {
        match part {
            Component::ParentDir => assert!(whole.pop(), "{page}: {link} leads out of the repository"),
            part => whole.push(part),
        }
    }
    Some((whole.to_str().unwrap().to_owned(), anchor.to_owned()))
}

/// Pages that are further from the index than a reader goes, or that nothing leads to.
fn too_far(pages: &BTreeMap<String, Page>) -> Vec<String> {
    let mut near = BTreeSet::from([INDEX.to_owned()]);
    for _ in 0..CLICKS_MAX {
        let links = near.iter().flat_map(|name| pages[name].links.iter().filter_map(|link| target(name, link)));
        let next: Vec<_> = links.map(|(path, _)| path).filter(|path| pages.contains_key(path)).collect();
        near.extend(next);
    }
    let far = pages.keys().filter(|name| !OUTSIDE.contains(&name.as_str()) && !near.contains(*name));
    far.map(|name| format!("{name} is more than {CLICKS_MAX} clicks from {INDEX}")).collect()
}

/// All that is wrong with the documents, a line each.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let names = all(root).into_iter().chain(OUTSIDE.map(str::to_owned));
    let pages: BTreeMap<String, Page> =
        names.map(|name| (name.clone(), read(&fs::read_to_string(root.join(name)).unwrap()))).collect();
    assert!(pages.len() > 50, "where have the pages gone? There are {}", pages.len());
    let mut wrong = too_far(&pages);
    for (name, page) in &pages {
        if name.starts_with("docs/") {
            if page.bytes > PAGE_BYTES_MAX {
                wrong.push(format!("{name} has {} bytes: two pages would read better than one", page.bytes));
            }
            wrong.extend(page.long_cells.iter().map(|cell| format!("{name}: a cell that wants to be text: {cell}")));
        }
        for link in &page.links {
            let Some((path, anchor)) = target(name, link) else { continue };
            if !root.join(&path).exists() {
                wrong.push(format!("{name}: {link} leads nowhere"));
            } else if !anchor.is_empty() && pages.get(&path).is_none_or(|page| !page.anchors.contains(&anchor)) {
                wrong.push(format!("{name}: {link} leads to no heading"));
            }
        }
    }
    wrong
}

/// The proof that the test would see them.
#[test]
fn faults_of_a_page_are_seen() {
    let page = read(&format!("# A `b`, c\n# A b c\n[x](y.md#z)\n\n|a|\n|-|\n|{}|\n", "x".repeat(CELL_CHARS_MAX + 1)));
    assert_eq!(page.anchors, BTreeSet::from(["a-b-c".to_owned(), "a-b-c-1".to_owned()]));
    assert_eq!((page.links, page.long_cells.len()), (vec!["y.md#z".to_owned()], 1));
    let to = |link| target("docs/use/http.md", link).unwrap();
    assert_eq!(to("../start/a.md#b"), ("docs/start/a.md".to_owned(), "b".to_owned()));
    assert_eq!(to("#b"), ("docs/use/http.md".to_owned(), "b".to_owned()));
    let lonely = BTreeMap::from([(INDEX.to_owned(), Page::default()), ("docs/x.md".to_owned(), Page::default())]);
    assert_eq!(too_far(&lonely).len(), 1);
}
