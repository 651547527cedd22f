//! Rules that no compiler checks: the pure rooms stay pure, the documents name every endpoint, files stay of a readable size.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use common::layout::Preset;
use std::fs;
use std::path::{Path, PathBuf};

mod arrows;
mod flags;
mod pages;

/// The crates that are pure as a whole: what their manifests do not name, they cannot use.
const PURE_CRATES: [&str; 5] = ["common/ids", "common/wire", "master/ledger", "agent/minting", "agent/engine"];
/// Crates that these do not name: those that wait, talk or read, and those of ours that do.
const IMPURE_CRATES: &str = "tokio tokio-util futures tarpc hyper hyper-util axum mio rustix sled clap tracing rand \
                             common net process agent master web";
/// The line that makes a file pure, or at a crate's root all of them. It stands before everything but the file's own documentation.
const PURE: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";
/// Words that a pure file does not say outside its tests. Addresses are of `core::net`, which has no sockets.
const IMPURE: [&str; 10] =
    ["async ", "tokio", "tracing", "std::fs", "std::net", "SystemTime", "Instant", "rand::", "HashMap", "Mutex"];
const LINES_MAX: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// A file's text without its tests, comments and documentation.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = product.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// Tells whether a file is in a crate that is pure.
fn in_pure_crate(file: &str) -> bool {
    PURE_CRATES.iter().any(|krate| file.strip_prefix(krate).is_some_and(|rest| rest.starts_with("/src/")))
}

/// The text of each file of the product and of the tests' own crate, by its path.
fn sources() -> arrows::Sources {
    let mut files = Vec::new();
    for folder in members().iter().map(|member| root().join(member).join("src")).filter(|src| src.is_dir()) {
        rust_files(&folder, &mut files);
    }
    let path = |file: &Path| file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    files.iter().map(|file| (path(file), fs::read_to_string(file).unwrap())).collect()
}

/// The files of the map. Those of crates that have but one room are not in it: their manifests hold the walls.
fn mapped(map: &arrows::Map) -> arrows::Sources {
    let has_rooms = |file: &str| {
        [
            "common/src/",
            "common/net/",
            "common/process/",
            "master/",
            "agent/src/",
            "agent/minting/",
            "agent/serial_file/",
            "agent/engine/",
            "web/",
        ]
        .iter()
        .any(|it| file.starts_with(it))
    };
    sources().into_iter().filter(|(file, _)| has_rooms(file) || map.room_of(file).is_some()).collect()
}

/// Tells whether a file denies what pure ones may not touch.
fn says_pure(text: &str) -> bool {
    let head = |line: &&str| line.is_empty() || line.starts_with("//");
    text.lines().skip_while(head).take_while(|line| line.starts_with("#!")).any(|line| line == PURE)
}

#[test]
fn pure_rooms_do_no_io_and_read_no_clock() {
    let (map, sources) = (arrows::Map::read(&read("ARCHITECTURE.md")), sources());
    // A crate's root would speak for all its rooms.
    let product =
        |file: &str| !file.ends_with("tests.rs") && !file.ends_with("src/lib.rs") && !file.contains("/tests/");
    for (file, text) in sources.iter().filter(|(file, _)| product(file) && !file.starts_with("tests/")) {
        let pure = in_pure_crate(file) || says_pure(text);
        let in_pure_room = map.room_of(file).is_some_and(|room| room.kind == "P");
        assert!(pure || !in_pure_room, "{file} is in a pure room and does not say {PURE}");
        assert!(pure || !text.contains(PURE), "{file} says that it is pure, but not in its first lines");
        for word in IMPURE.iter().filter(|_| pure) {
            assert!(!code(text).contains(word), "{file} is pure, but says '{word}'");
        }
    }
}

#[test]
fn pure_crates_can_use_nothing_that_waits_or_talks() {
    for krate in PURE_CRATES {
        assert!(says_pure(&read(&format!("{krate}/src/lib.rs"))), "{krate} does not say {PURE}");
        let manifest = read(&format!("{krate}/Cargo.toml"));
        let names = |line: &str| IMPURE_CRATES.split(' ').any(|it| line.split(['.', ' ']).next() == Some(it));
        let impure: Vec<&str> = manifest.lines().filter(|line| names(line)).collect();
        assert!(impure.is_empty(), "{krate}/Cargo.toml names {impure:?}");
    }
}

#[test]
fn arrows_lead_where_the_map_allows() {
    let map = arrows::Map::read(&read("ARCHITECTURE.md"));
    let wrong = arrows::violations(&map, &mapped(&map));
    assert!(wrong.is_empty(), "ARCHITECTURE.md, 'Who may use whom':\n{}", wrong.join("\n"));
}

/// The proof that the test above would see it.
#[test]
fn an_upward_use_in_the_product_is_seen() {
    let map = arrows::Map::read(&read("ARCHITECTURE.md"));
    let planted = [
        ("common/src/metrics.rs", "use crate::{token, clock::Clock};", "common/src/clock.rs"),
        ("agent/minting/src/window.rs", "use crate::{sync, holder::View};", "agent/minting/src/holder/mod.rs"),
        ("agent/src/plugin/mod.rs", "use crate::minter::{self, Minter};", "agent/src/minter/mod.rs"),
        ("master/ledger/src/lease/table.rs", "use crate::Ledger;", "master/ledger/src/lib.rs"),
        ("master/ledger/src/machine/grant.rs", "use super::pair::Salt;", "master/ledger/src/machine/pair/mod.rs"),
        ("master/ledger/src/policy/limits.rs", "use wire::peer::PeerMessage;", "common/wire/src/peer.rs"),
        (
            "master/ledger/src/machine/state.rs",
            "impl Ledger { fn f(&mut self) { self.beat(now, fx) } }",
            "master/ledger/src/machine/pair/exchange.rs",
        ),
        (
            "master/ledger/src/machine/renew.rs",
            "impl<A> Ledger<A> where Self: Agreement { fn f(&mut self) { self.merge_all(now, records, fx) } }",
            "master/ledger/src/machine/pair/grant.rs",
        ),
        (
            "master/ledger/src/machine/grant.rs",
            "impl Ledger { fn f(&mut self) { self.on_time(now, fx) } }",
            "master/ledger/src/machine/step.rs",
        ),
        (
            "master/ledger/src/machine/state.rs",
            "use crate::replication::pair::Pair;",
            "master/ledger/src/replication/pair.rs",
        ),
        (
            "master/ledger/src/policy/grant.rs",
            "use crate::replication::pair::Pair;",
            "master/ledger/src/replication/pair.rs",
        ),
        ("master/ledger/src/machine/settings.rs", "use wire::peer::PeerMessage;", "common/wire/src/peer.rs"),
        ("master/ledger/src/replication/pair.rs", "use crate::lease::Alarm;", "master/ledger/src/lease/mod.rs"),
        ("master/src/store/mod.rs", "use super::driver::Driver;", "master/src/driver.rs"),
        ("web/src/masters.rs", "use crate::pages::{Parts, View};", "web/src/pages/mod.rs"),
    ];
    let mut sources = mapped(&map);
    for (file, planted, _) in planted {
        let text = sources.get_mut(file).unwrap_or_else(|| panic!("{file} has gone"));
        text.push('\n');
        text.push_str(planted);
    }
    let wrong = arrows::violations(&map, &sources);
    for (file, planted, used) in planted {
        let seen = wrong.iter().any(|wrong| wrong.starts_with(file) && wrong.contains(&format!("uses {used}")));
        assert!(seen, "{file}: {planted} is not seen: {wrong:?}");
    }
}

/// Whatever keeps the records may be another engine one day.
#[test]
fn only_the_store_knows_its_engine() {
    let its_names = ["sled", "DiskStore", "DiskDraft", "DiskAudit"];
    let names =
        |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| its_names.contains(&word));
    let uses = |(_, text): &(String, String)| names(text);
    let (store, others): (Vec<_>, Vec<_>) = sources()
        .into_iter()
        .filter(|(file, _)| !file.starts_with("tests/"))
        .filter(uses)
        .map(|(file, _)| file)
        .partition(|file| file.starts_with("master/src/store/"));
    assert!(!store.is_empty() && others.is_empty(), "{others:?} name the store's engine");
}

/// The texts between quotes that begin with a slash: a router's addresses.
fn addresses(source: &str) -> Vec<String> {
    let routes = source.split(".route(\"").skip(1);
    routes.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn every_endpoint_is_in_the_documents() {
    let page = |names: &[&str]| names.iter().map(|name| read(&format!("docs/use/{name}.md"))).collect::<String>();
    let agents = page(&["http", "keys", "registering"]);
    let masters = page(&["masters", "masters-names"]);
    let mut agent = addresses(&read("agent/src/http/mod.rs"));
    let mut kinds = Vec::new();
    rust_files(&root().join("common/ids/src/kind"), &mut kinds);
    for file in kinds {
        let source = fs::read_to_string(file).unwrap();
        let names = source.split("    name: \"").skip(1).map(|rest| rest.split('"').next().unwrap());
        agent.extend(names.map(|name| format!("/{name}")));
    }
    let mut web = addresses(&read("web/src/routes.rs"));
    let mut described = vec![root().join("web/src/auth/login.rs")];
    rust_files(&root().join("web/src/api"), &mut described);
    for file in described {
        let source = fs::read_to_string(file).unwrap();
        web.extend(source.split(" path = \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
    }
    assert!(agent.len() > 10 && web.len() > 25, "no routes found: {agent:?} {web:?}");
    let agent = agent.iter().map(|address| (address, &agents));
    for (address, page) in agent.chain(web.iter().map(|address| (address, &masters))) {
        let fixed = address.split('{').next().unwrap().trim_end_matches('/');
        if fixed.is_empty() || fixed == "/assets" {
            continue;
        }
        assert!(page.contains(fixed), "docs/use/ does not name {address} where it belongs");
    }
    let rpc = page(&["rpc"]);
    for service in ["lease", "mint", "peer"] {
        let source = read(&format!("common/net/src/rpc/{service}.rs"));
        let methods = source.split("    async fn ").skip(1).map(|rest| rest.split('(').next().unwrap().to_owned());
        let methods: Vec<String> = methods.collect();
        assert!(!methods.is_empty());
        for method in methods {
            assert!(rpc.contains(&format!("`{method}")), "docs/use/rpc.md does not name {method} of {service}");
        }
    }
    // As they stand in the source: `Name = "code", 503;`. No crate is needed for that.
    let source = read("common/wire/src/mint.rs");
    let codes: Vec<&str> = source
        .lines()
        .filter_map(|line| line.split_once(" = \"")?.1.split_once("\", "))
        .map(|(code, _)| code)
        .collect();
    assert!(codes.len() >= 15, "no codes found: {codes:?}");
    let errors = page(&["errors"]);
    for code in codes {
        assert!(errors.contains(&format!("| `{code}` |")), "docs/use/errors.md does not name the code {code}");
    }
}

/// Finds the files that a text names, by their path from the root: in one of our folders, of a kind that we write.
fn files_named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c)));
    let folders = members();
    words.map(|word| word.trim_end_matches('.').trim_start_matches("./")).filter(move |word| {
        let ours = word.split_once('/').is_some_and(|(first, _)| {
            ["scripts", "docs"].contains(&first) || folders.iter().any(|folder| folder == first)
        });
        ours && [".rs", ".sh", ".md", ".toml"].iter().any(|end| word.ends_with(end))
    })
}

/// A script that plants a fault in a file that has moved plants nothing, and a reader who follows a name finds nothing.
#[test]
fn documents_and_scripts_name_files_that_there_are() {
    let mut texts = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name)).to_vec();
    texts.extend(pages::all(&root()).into_iter().map(|page| root().join(page)));
    texts.extend(fs::read_dir(root().join("scripts")).unwrap().flatten().map(|entry| entry.path()));
    let (mut missing, mut found) = (Vec::new(), 0);
    for text in texts.iter().filter(|path| path.is_file()) {
        // Pictures are no text.
        let Ok(said) = fs::read_to_string(text) else { continue };
        for named in files_named(&said) {
            found += 1;
            if !root().join(named).exists() {
                missing.push(format!("{}: {named}", text.display()));
            }
        }
    }
    assert!(missing.is_empty(), "no such files: {missing:#?}");
    assert!(found > 100, "only {found} names of files were seen");
}

/// A test that is in no program does not run, and nothing fails.
#[test]
fn every_file_of_tests_is_in_a_program() {
    let folders = ["tests/tests", "tests/models", "tests/tidy"];
    let paths = |folder| read(&format!("{folder}/Cargo.toml")).replace("path = \"", &format!("path = \"{folder}/"));
    let manifests: String = folders.map(paths).concat();
    let mut files = Vec::new();
    ["tests/tests", "tests/models/tests", "tests/tidy"]
        .iter()
        .for_each(|folder| rust_files(&root().join(folder), &mut files));
    for file in files {
        let whole = if file.ends_with("mod.rs") { file.parent().unwrap() } else { &file };
        let (folder, name) = (whole.parent().unwrap(), whole.file_stem().unwrap().to_str().unwrap());
        let (named, text) = if ["main", "lib"].contains(&name) {
            (format!("path = \"{}\"", file.strip_prefix(root()).unwrap().display()), manifests.clone())
        } else {
            let parent = ["main.rs", "mod.rs"].map(|parent| folder.join(parent)).into_iter().find(|it| it.exists());
            (format!("mod {name};"), fs::read_to_string(parent.unwrap()).unwrap())
        };
        assert!(text.contains(&named), "{} is in no program: nothing says {named}", file.display());
    }
}

/// The modules of tests that a text picks by their names, as in `all_at_once::` and `/^(mutants|bench)::/`.
fn modules_picked(text: &str) -> impl Iterator<Item = &str> {
    let picks = |line: &&str| {
        ["-p models ", "-p tests ", "-p processes ", "package(", "tests=(", "runs ", "nextest run"]
            .iter()
            .any(|it| line.contains(it))
    };
    text.lines()
        .filter(picks)
        .flat_map(|line| line.match_indices("::").map(move |(at, _)| line.split_at(at).0))
        .flat_map(|before| {
            let names = match before.strip_suffix(')') {
                Some(several) => several.rsplit('(').next(),
                None => before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next(),
            };
            names.unwrap_or_default().split('|')
        })
}

/// A name that no test has picks none, and then nothing fails.
#[test]
fn scripts_pick_tests_that_there_are() {
    let mut programs: Vec<PathBuf> =
        fs::read_dir(root().join("tests/tests")).unwrap().flatten().map(|entry| entry.path()).collect();
    programs.push(root().join("tests/models/tests"));
    let mut texts = [".config/nextest.toml", "CONTRIBUTING.md"].map(|name| root().join(name)).to_vec();
    texts.extend(fs::read_dir(root().join("scripts")).unwrap().flatten().map(|entry| entry.path()));
    let mut found = 0;
    for text in texts {
        let said = fs::read_to_string(&text).unwrap();
        for module in modules_picked(&said) {
            found += 1;
            let file =
                |program: &PathBuf| program.join(format!("{module}.rs")).exists() || program.join(module).is_dir();
            assert!(
                programs.iter().any(file),
                "{}: no file of tests/tests or tests/models is called {module}",
                text.display()
            );
        }
    }
    assert!(found > 20, "only {found} modules were seen");
}

/// The folders of the workspace's crates, as its manifest lists them: none can be forgotten.
fn members() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let list = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    list.split(',').map(|name| name.trim().trim_matches('"').to_owned()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_preset_is_in_the_documents() {
    let kinds = read("docs/use/layouts.md");
    let missing = Preset::ALL.map(Preset::name).into_iter().filter(|name| !kinds.contains(&format!("`{name}`")));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn pages_are_short_and_their_links_lead_somewhere() {
    let wrong = pages::faults(&root());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_fit_a_readers_head() {
    let mut files = Vec::new();
    for folder in members() {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(files.contains(&root().join("client/src/lib.rs")), "where has the crate client gone?");
    for file in files {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines: two rooms would read better than one", file.display());
    }
}
