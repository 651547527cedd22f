//! What no compiler checks: the pure rooms stay pure, the documents name every endpoint, files stay of a readable size.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};

/// The line that makes a file pure.
const PURE: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";
/// Files that must be pure; a new one in these folders is pure from its first day.
const PURE_ROOMS: [&str; 5] =
    ["common/src/ids", "common/src/template", "master/src/lease", "master/src/setting", "agent/src/holder"];
const PURE_FILES: [&str; 22] = [
    "common/src/account.rs",
    "web/src/auth/lockout.rs",
    "web/src/auth/logins.rs",
    "common/src/audit.rs",
    "common/src/setting.rs",
    "master/src/store/audit.rs",
    "common/src/calendar.rs",
    "common/src/envelope.rs",
    "common/src/hosts.rs",
    "common/src/lease.rs",
    "common/src/namespace.rs",
    "common/src/parameters.rs",
    "common/src/time.rs",
    "common/src/token.rs",
    "master/src/proof.rs",
    "master/src/replication/pair.rs",
    "master/src/store/record.rs",
    "agent/src/gate.rs",
    "agent/src/serial.rs",
    "agent/src/timebase.rs",
    "agent/src/window.rs",
    "agent/src/serial_file/layout.rs",
];
/// What a pure file does not say outside its tests. Addresses are of `core::net`, which has no sockets.
const IMPURE: [&str; 10] =
    ["async ", "tokio", "tracing", "std::fs", "std::net", "SystemTime", "Instant", "rand::", "HashMap", "Mutex"];
const LINES_MAX: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
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
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = product.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

#[test]
fn pure_rooms_do_no_io_and_read_no_clock() {
    let mut files: Vec<PathBuf> = PURE_FILES.iter().map(|file| root().join(file)).collect();
    for room in PURE_ROOMS {
        rust_files(&root().join(room), &mut files);
    }
    assert!(files.len() > 25, "where have the pure files gone?");
    for file in files {
        if file.file_name().is_some_and(|name| name.to_string_lossy().ends_with("tests.rs")) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let denies = text.contains(PURE) || file.file_name().is_some_and(|name| name == "mod.rs");
        assert!(denies, "{} does not say {PURE}", file.display());
        for word in IMPURE {
            assert!(!code(&file).contains(word), "{} is pure, but says '{word}'", file.display());
        }
    }
}

/// The texts between quotes that begin with a slash: a router's addresses.
fn addresses(source: &str) -> Vec<String> {
    let routes = source.split(".route(\"").skip(1);
    routes.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn every_endpoint_is_in_the_documents() {
    let api = read("docs/api.md");
    let agent = addresses(&read("agent/src/http/mod.rs"));
    let mut web = addresses(&read("web/src/routes.rs"));
    let mut described = vec![root().join("web/src/auth/login.rs")];
    rust_files(&root().join("web/src/api"), &mut described);
    for file in described {
        let source = fs::read_to_string(file).unwrap();
        web.extend(source.split(" path = \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
    }
    assert!(agent.len() > 8 && web.len() > 25, "no routes found: {agent:?} {web:?}");
    for address in agent.iter().chain(&web) {
        let fixed = address.split('{').next().unwrap().trim_end_matches('/');
        if fixed.is_empty() || fixed == "/assets" {
            continue;
        }
        assert!(api.contains(fixed), "docs/api.md does not name {address}");
    }
    for service in ["lease", "mint", "peer"] {
        let source = read(&format!("common/src/rpc/{service}.rs"));
        let methods = source.split("    async fn ").skip(1).map(|rest| rest.split('(').next().unwrap().to_owned());
        let methods: Vec<String> = methods.collect();
        assert!(!methods.is_empty());
        for method in methods {
            assert!(api.contains(&format!("`{method}")), "docs/api.md does not name {method} of {service}");
        }
    }
    for code in common::rpc::mint::MintCode::ALL {
        assert!(api.contains(code.as_str()), "docs/api.md does not name the code {code}");
    }
}

/// The folders of the workspace's crates, as its manifest lists them: none can be forgotten.
fn members() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let list = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    list.split(',').map(|name| name.trim().trim_matches('"').to_owned()).filter(|name| !name.is_empty()).collect()
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
