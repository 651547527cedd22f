//! Uses of files by others, and whether the map in `ARCHITECTURE.md` allows them.
//!
//! An arrow is a path that begins with `crate`, `super`, `self`, a module declared in the same file or a crate of ours,
//! wherever it stands: in a `use`, with braces or without, or in the midst of code. It leads to the deepest module that the
//! path names, which is a file. Where the methods of one type are in several files, a call of one on `self` is an arrow to the
//! file that has it. What only tests see (`#[cfg(test)]`, `tests.rs`) has no arrows.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// The text of each file, by its path from the workspace's folder.
pub(crate) type Sources = BTreeMap<String, String>;
/// The files that each file uses.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The heading of the table.
const HEADING: &str = "## Who may use whom";
/// The crates inside other crates' folders. What a crate's root passes on of them is no arrow: cargo holds who may use them.
const NESTED: [(&str, &str); 8] = [
    ("ids", "common/ids"),
    ("wire", "common/wire"),
    ("net", "common/net"),
    ("process", "common/process"),
    ("ledger", "master/ledger"),
    ("minting", "agent/minting"),
    ("serial_file", "agent/serial_file"),
    ("engine", "agent/engine"),
];

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) name: String,
    /// P, S, N, V, as in the table of rooms.
    pub(crate) kind: String,
    /// Beginnings of paths. The longest that fits a file says where it belongs.
    places: Vec<String>,
    may_use: BTreeSet<String>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) rooms: Vec<Room>,
}

/// The texts between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// `a/{b,c}.rs` stands for two places.
fn places(pattern: &str) -> Vec<String> {
    match pattern.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        Some((head, (names, tail))) => names.split(',').map(|name| format!("{head}{name}{tail}")).collect(),
        None => vec![pattern.to_owned()],
    }
}

impl Map {
    /// Reads the table out of the document.
    pub(crate) fn read(document: &str) -> Self {
        let part = document.split_once(HEADING).expect(HEADING).1;
        let part = part.split("\n## ").next().unwrap_or_default();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, name, kind, files, may_use, _] = cells[..] else { panic!("not a row of this table: {line}") };
            Room {
                name: name.to_owned(),
                kind: kind.to_owned(),
                places: quoted(files).iter().flat_map(|pattern| places(pattern)).collect(),
                may_use: may_use.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            }
        };
        let rows = part.lines().filter(|line| line.starts_with('|')).skip(2);
        Self { rooms: rows.map(row).collect() }
    }

    /// The room that a file is in.
    pub(crate) fn room_of(&self, file: &str) -> Option<&Room> {
        let fits = |room: &&Room| room.places.iter().filter(|place| file.starts_with(*place)).map(String::len).max();
        self.rooms.iter().filter(|room| fits(room).is_some()).max_by_key(fits)
    }

    fn named(&self, file: &str) -> &str {
        self.room_of(file).map_or("", |room| room.name.as_str())
    }
}

/// The words and signs of a source, without comments and texts.
fn tokens(source: &str) -> Vec<String> {
    fn flatten(stream: TokenStream, found: &mut Vec<String>) {
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            match tree {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    found.push(open.to_owned());
                    flatten(group.stream(), found);
                    found.push(close.to_owned());
                }
                TokenTree::Ident(word) => found.push(word.to_string()),
                TokenTree::Punct(sign) => {
                    let is_path = |next: &TokenTree| matches!(next, TokenTree::Punct(it) if it.as_char() == ':');
                    let twice = sign.as_char() == ':' && trees.next_if(is_path).is_some();
                    found.push(if twice { "::".to_owned() } else { sign.to_string() });
                }
                TokenTree::Literal(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    flatten(source.parse().expect("a source of Rust"), &mut found);
    found
}

/// A source as it is in the product, and the modules that are there for tests alone.
struct Product {
    tokens: Vec<String>,
    test_modules: Vec<String>,
}

fn product(source: &str) -> Product {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let all = tokens(source);
    let (mut kept, mut test_modules, mut i) = (Vec::new(), Vec::new(), 0);
    while i < all.len() {
        if all[i..].iter().take(MARK.len()).map(String::as_str).eq(MARK) {
            let (mut depth, start) = (0usize, i);
            i += MARK.len();
            while i < all.len() {
                match all[i].as_str() {
                    "{" => depth += 1,
                    "}" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                i += 1;
                if depth == 0 && matches!(all[i - 1].as_str(), "}" | ";") {
                    break;
                }
            }
            test_modules.extend(declared(&all[start..i]));
        } else {
            kept.push(all[i].clone());
            i += 1;
        }
    }
    Product { tokens: kept, test_modules }
}

/// The modules that are declared and in a file of their own.
fn declared(tokens: &[String]) -> Vec<String> {
    let file = |three: &[String]| (three[0] == "mod" && three[2] == ";").then(|| three[1].clone());
    tokens.windows(3).filter_map(file).collect()
}

/// A file as a module: its crate, and its path in it. A program in `bin/` is a crate of its own.
fn module(file: &str) -> Option<(String, Vec<String>)> {
    let (krate, rest) = file.split_once("/src/")?;
    let mut path: Vec<String> = rest.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if path.first().is_some_and(|first| first == "bin") {
        return Some((file.to_owned(), Vec::new()));
    }
    if path.last().is_some_and(|last| last == "mod" || last == "lib") {
        path.pop();
    }
    Some((krate.to_owned(), path))
}

type Modules = BTreeMap<(String, Vec<String>), String>;

/// The files of the product as modules. What tests alone see is left out.
fn modules(sources: &Sources, products: &BTreeMap<&String, Product>) -> Modules {
    let of_tests: BTreeSet<(String, Vec<String>)> = products
        .iter()
        .filter_map(|(file, product)| Some((module(file)?, &product.test_modules)))
        .flat_map(|((krate, path), names)| {
            names.iter().map(move |name| (krate.clone(), path.iter().chain([name]).cloned().collect()))
        })
        .collect();
    let seen_by_tests_alone = |krate: &String, path: &[String]| {
        path.last().is_some_and(|name| name.ends_with("tests"))
            || (1..=path.len()).any(|n| of_tests.contains(&(krate.clone(), path[..n].to_vec())))
    };
    let all = sources.keys().filter_map(|file| Some((module(file)?, file.clone())));
    all.filter(|((krate, path), _)| !seen_by_tests_alone(krate, path)).collect()
}

/// The paths that a tree of `use` names, from just behind its first word on, and where it ends.
fn tree(tokens: &[String], mut i: usize) -> (Vec<Vec<String>>, usize) {
    let word = |i: usize| tokens.get(i).filter(|t| t.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let is = |i: usize, sign: &str| tokens.get(i).is_some_and(|t| t == sign);
    let mut path = Vec::new();
    while is(i, "::") {
        if is(i + 1, "{") {
            let mut all = Vec::new();
            i += 2;
            while i < tokens.len() && !is(i, "}") {
                if let Some(first) = word(i) {
                    let (rest, end) = tree(tokens, i + 1);
                    all.extend(rest.into_iter().map(|rest| [path.clone(), vec![first.clone()], rest].concat()));
                    i = if is(end, "as") { end + 2 } else { end };
                } else {
                    i += 1;
                }
            }
            return (all, i + 1);
        }
        let Some(next) = word(i + 1) else { return (vec![path], i + 1) };
        path.push(next.clone());
        i += 2;
    }
    (vec![path], i)
}

/// The names that a crate's root passes on from crates inside other folders.
fn passed_on(tokens: &[String]) -> BTreeSet<String> {
    let begins = |three: &[String]| three[0] == "pub" && three[1] == "use" && folder(&three[2]) != three[2];
    let starts = tokens.windows(3).enumerate().filter(|(_, three)| begins(three)).map(|(i, _)| i + 2);
    let names = |i: usize| tree(tokens, i + 1).0.into_iter().filter_map(move |path| Some((i, path.first()?.clone())));
    starts.flat_map(names).map(|(i, name)| if name == "self" { tokens[i].clone() } else { name }).collect()
}

/// The methods of one type in a file: those that stand there, and those that are called on `self`.
#[derive(Default)]
struct Methods {
    here: BTreeSet<String>,
    called: BTreeSet<String>,
}

/// Past `<...>`, if that is what stands there.
fn past_generics(tokens: &[String], mut i: usize) -> usize {
    let at = |i: usize| tokens.get(i).map_or("", String::as_str);
    let mut depth = 0;
    while i < tokens.len() {
        match at(i) {
            "<" => depth += 1,
            ">" if at(i - 1) != "-" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at(i) == ">" { i + 1 } else { i };
        }
        i += 1;
    }
    i
}

/// Finds where the methods of a type itself begin, and its name: at `impl Type {`, with generics or without.
fn own_methods(tokens: &[String], i: usize) -> Option<(&str, usize)> {
    let begins = i == 0 || ["}", ";", "]"].contains(&tokens[i - 1].as_str());
    let name = past_generics(tokens, i + 1);
    let body = past_generics(tokens, name + 1);
    let bounds = tokens.get(body)? == "where";
    let body = if bounds { (body..tokens.len()).find(|i| tokens[*i] == "{")? } else { body };
    (begins && tokens[i] == "impl" && tokens.get(body)? == "{").then(|| (tokens[name].as_str(), body))
}

/// The methods of each type in a file, by `impl Type { ... }`.
fn methods(tokens: &[String]) -> BTreeMap<String, Methods> {
    let at = |i: usize| tokens.get(i).map_or("", String::as_str);
    let mut found: BTreeMap<String, Methods> = BTreeMap::new();
    for (name, body) in (0..tokens.len()).filter_map(|i| own_methods(tokens, i)) {
        let its = found.entry(name.to_owned()).or_default();
        let (mut depth, mut i) = (0, body);
        while i < tokens.len() {
            match (at(i), at(i + 1)) {
                ("{", _) => depth += 1,
                ("}", _) => depth -= 1,
                ("fn", name) if depth == 1 => drop(its.here.insert(name.to_owned())),
                ("self", ".") | ("Self", "::") if at(i + 3) == "(" => drop(its.called.insert(at(i + 2).to_owned())),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            i += 1;
        }
    }
    found
}

/// Finds which file uses which.
pub(crate) fn arrows(sources: &Sources) -> Arrows {
    let products: BTreeMap<&String, Product> = sources.iter().map(|(file, text)| (file, product(text))).collect();
    let modules = modules(sources, &products);
    let crates: BTreeSet<&str> = sources.keys().filter_map(|file| Some(file.split_once("/src/")?.0)).collect();
    let mut arrows = Arrows::new();
    let roots = modules.iter().filter(|((_, path), _)| path.is_empty());
    let passed: BTreeMap<&String, BTreeSet<String>> =
        roots.map(|((krate, _), file)| (krate, passed_on(&products[file].tokens))).collect();
    let mut homes = BTreeMap::new();
    for ((krate, _), file) in &modules {
        for (of, its) in methods(&products[file].tokens) {
            homes.extend(its.here.into_iter().map(|name| ((krate, of.clone(), name), file)));
        }
    }
    for ((krate, own), file) in &modules {
        let Product { tokens, .. } = &products[file];
        let children: BTreeSet<String> = declared(tokens).into_iter().collect();
        let used = arrows.entry(file.clone()).or_default();
        for (of, its) in methods(tokens) {
            let home = |name| homes.get(&(krate, of.clone(), name)).filter(|home| **home != file);
            used.extend(its.called.into_iter().filter_map(home).map(|home| (*home).clone()));
        }
        let mut i = 0;
        while i + 1 < tokens.len() {
            let (first, begins) = (tokens[i].as_str(), i == 0 || tokens[i - 1] != "::");
            if !begins || tokens[i + 1] != "::" {
                i += 1;
                continue;
            }
            let parent = || own[..own.len().saturating_sub(1)].to_vec();
            let (of, base) = match first {
                "crate" => (krate.clone(), Vec::new()),
                "self" => (krate.clone(), own.clone()),
                "super" => (krate.clone(), parent()),
                _ if children.contains(first) => (krate.clone(), [own.clone(), vec![first.to_owned()]].concat()),
                _ if crates.contains(folder(first)) => (folder(first).to_owned(), Vec::new()),
                _ => {
                    i += 1;
                    continue;
                }
            };
            let (paths, end) = tree(tokens, i + 1);
            i = end;
            for path in paths {
                let mut full = base.clone();
                for part in path {
                    if part == "super" { drop(full.pop()) } else { full.push(part) }
                }
                if full.first().is_some_and(|name| passed.get(&of).is_some_and(|names| names.contains(name))) {
                    continue;
                }
                let deepest = (0..=full.len()).rev().find_map(|n| modules.get(&(of.clone(), full[..n].to_vec())));
                used.extend(deepest.filter(|used| *used != file).cloned());
            }
        }
    }
    arrows
}

/// The folder of a crate.
fn folder(name: &str) -> &str {
    NESTED.iter().find(|(called, _)| *called == name).map_or(name, |(_, folder)| folder)
}

/// All files that can be reached from one.
fn reached<'a>(arrows: &'a Arrows, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        for used in arrows.get(file).into_iter().flatten() {
            if seen.insert(used.as_str()) {
                next.push(used);
            }
        }
    }
    seen
}

/// Lists what the sources do and the map does not allow, and what the map says and is not so.
pub(crate) fn violations(map: &Map, sources: &Sources) -> Vec<String> {
    let arrows = arrows(sources);
    let mut wrong = Vec::new();
    for (file, used) in &arrows {
        let Some(room) = map.room_of(file) else {
            wrong.push(format!("{file} is in no room"));
            continue;
        };
        for used in used {
            let there = map.named(used);
            if there != room.name && !room.may_use.contains(there) {
                wrong.push(format!("{file} ({}) uses {used} ({there}), which the map does not allow", room.name));
            }
        }
    }
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|file| (file.as_str(), reached(&arrows, file))).collect();
    let back = |used: &str, file: &str| reach.get(used).is_some_and(|reached| reached.contains(file));
    let mut circles: BTreeMap<BTreeSet<String>, BTreeSet<&str>> = BTreeMap::new();
    for (file, reached) in &reach {
        let circle: BTreeSet<&str> = reached.iter().copied().filter(|used| back(used, file)).collect();
        let rooms: BTreeSet<String> = circle.iter().map(|file| map.named(file).to_owned()).collect();
        if rooms.len() > 1 {
            circles.entry(rooms).or_default().extend(circle);
        }
    }
    wrong.extend(circles.iter().map(|(rooms, files)| format!("a circle between {rooms:?}: {files:?}")));
    let names: BTreeSet<&str> = map.rooms.iter().map(|room| room.name.as_str()).collect();
    for room in &map.rooms {
        let unknown = room.may_use.iter().filter(|name| !names.contains(name.as_str()));
        wrong.extend(unknown.map(|name| format!("{} may use {name}, which is not a room", room.name)));
        let empty = room.places.iter().filter(|place| !sources.keys().any(|file| file.starts_with(*place)));
        wrong.extend(empty.map(|place| format!("nothing is at {place}, where {} is said to be", room.name)));
    }
    wrong
}

/// A map and sources of a made-up product.
fn made_up() -> (Map, Sources) {
    let map = Map::read(
        "## Who may use whom\n\n| room | kind | files | may use |\n|---|---|---|---|\n\
         | low | P | `common/src/` | |\n| high | N | `common/src/{net,gate}` | low |\n| app | N | `agent/src/` | low, high |\n",
    );
    let files = [
        ("common/src/lib.rs", "pub mod time; pub mod gate; pub mod net;"),
        ("common/src/time.rs", "pub struct Wall;"),
        ("common/src/net/mod.rs", "mod io; pub use io::Io;"),
        ("common/src/net/io.rs", "use super::super::time::Wall; use crate::gate::Gate;"),
        ("common/src/gate.rs", "use crate::{time::Wall as W, gate::Gate};"),
        ("agent/src/lib.rs", "use common::{net::{Io, io}, time};"),
    ];
    (map, files.map(|(file, text)| (file.to_owned(), text.to_owned())).into())
}

#[test]
fn each_way_to_name_another_file_is_an_arrow() {
    let (map, sources) = made_up();
    assert_eq!(violations(&map, &sources), Vec::<String>::new());
    for planted in [
        "use crate::net::Io;",
        "use crate::{\n    time,\n    net::{self, Io as Other},\n};",
        "use super::net;",
        "fn f() -> Wall { let x = 'x'; crate::net::io::open::<u8>(\"//\") }",
        "type It = Vec<super::net::Io>; // done",
        "pub use super::super::common::net::Io; use crate::net::*;",
        "const TEXT: &str = r#\"quoted \" text\"#; use crate::net::Io;",
        "#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nuse crate::net::Io;",
    ] {
        let mut sources = sources.clone();
        sources.get_mut("common/src/time.rs").unwrap().push_str(planted);
        let wrong = violations(&map, &sources);
        assert!(
            wrong.iter().any(|wrong| wrong.starts_with("common/src/time.rs (low) uses common/src/net/")),
            "{planted}: {wrong:?}"
        );
        assert!(
            wrong.iter().any(|wrong| wrong.starts_with("a circle between {\"high\", \"low\"}")),
            "{planted}: {wrong:?}"
        );
    }
    for harmless in [
        "// use crate::net::Io;",
        "/* use crate::net::Io; */",
        "const TEXT: &str = \"use crate::net::Io;\";",
        "const TEXT: &str = r\"use crate::net::Io;\";",
        "#[cfg(test)]\nuse crate::net::Io;",
        "#[cfg(test)]\nmod tests {\n    use crate::net::Io;\n}",
        "fn f() { std::net::lookup(); other::net::io(); }",
    ] {
        let mut sources = sources.clone();
        sources.get_mut("common/src/time.rs").unwrap().push_str(harmless);
        assert_eq!(violations(&map, &sources), Vec::<String>::new(), "{harmless}");
    }
}

#[test]
fn a_circle_is_found_though_the_table_allows_each_arrow() {
    let (_, mut sources) = made_up();
    let table = "## Who may use whom\n\n| room | kind | files | may use |\n|---|---|---|---|\n\
                 | low | P | `common/src/` | high |\n| high | N | `common/src/{net,gate}` | low |\n| app | N | `agent/src/` | low, high |\n";
    assert_eq!(violations(&Map::read(table), &sources), Vec::<String>::new());
    sources.get_mut("common/src/time.rs").unwrap().push_str("use crate::net::Io;");
    let wrong = violations(&Map::read(table), &sources);
    assert!(wrong.len() == 1 && wrong[0].contains("common/src/net/io.rs"), "{wrong:?}");
}

#[test]
fn a_call_of_a_method_that_stands_in_another_file_is_an_arrow() {
    let (map, mut sources) = made_up();
    let io =
        "use crate::time::Wall; impl Wall { fn send(&self) { if self.is_late() { Self::put(self.next.send()) } } }";
    let time = "impl Wall { fn is_late(&self) -> bool { true } fn put() {} }";
    for (file, text) in [("common/src/net/io.rs", io), ("common/src/time.rs", time)] {
        sources.get_mut(file).unwrap().push_str(text);
    }
    assert_eq!(violations(&map, &sources), Vec::<String>::new(), "downwards, and of another type");
    let impls = ["impl Wall", "impl<T: Fn() -> u8> Wall<T>", "impl<T> Wall<T> where T: Into<u8>"];
    for (planted, head) in ["self.send()", "Self::send(&it)"].into_iter().flat_map(|it| impls.map(|head| (it, head))) {
        let mut sources = sources.clone();
        let upward = format!("{head} {{ fn planted(&self) {{ {{ let it = {planted}; }} }} }}");
        sources.get_mut("common/src/time.rs").unwrap().push_str(&upward);
        let wrong = violations(&map, &sources);
        let arrow = "common/src/time.rs (low) uses common/src/net/io.rs (high)";
        assert!(wrong.iter().any(|wrong| wrong.starts_with(arrow)), "{head} {planted}: {wrong:?}");
    }
}

#[test]
fn a_file_in_no_room_and_a_room_without_files_are_said() {
    let (map, mut sources) = made_up();
    sources.insert("web/src/lib.rs".to_owned(), "use common::time;".to_owned());
    sources.remove("common/src/gate.rs");
    let wrong = violations(&map, &sources);
    assert!(wrong.contains(&"web/src/lib.rs is in no room".to_owned()), "{wrong:?}");
    assert!(wrong.contains(&"nothing is at common/src/gate, where high is said to be".to_owned()), "{wrong:?}");
}
