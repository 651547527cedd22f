//! The serial file: made once on purpose, never over another, never believed when a byte differs.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tests::cluster::Cluster;
use tests::programs::{Ended, generator, run};

const HEADER: usize = 72;
const BLOCK: usize = 68;
const BLOCKS: usize = 100;
/// Beyond the header and the used blocks every byte is zero and treated alike, so a sample of them tells as much.
const STRIDE: usize = 97;
const FILE: &str = "uniq_generator.serial";

fn agent(dir: &Path, args: &[&str]) -> Ended {
    run(&generator().unwrap(), args, dir).unwrap()
}

/// A start that must not come to life: status 1, one line that names the remedy, nothing on stdout.
fn refused(ended: &Ended, remedy: &str, what: &str) {
    assert_eq!(ended.status, Some(1), "{what}: {ended:?}");
    assert!(ended.err.contains(remedy), "{what}: the remedy {remedy} is not named: {ended:?}");
    assert!(!ended.err.contains("panicked"), "{what}: {ended:?}");
}

/// The flags of a start with masters that nobody is: enough for whatever is decided before any master is asked.
const START: [&str; 6] = ["--masters", "127.0.0.1:1", "--http-listen", "127.0.0.1:0", "--rpc-listen", "127.0.0.1:0"];

#[test]
fn without_a_serial_file_the_agent_does_not_start_and_says_how_to_make_one() {
    let dir = tempfile::tempdir().unwrap();
    refused(&agent(dir.path(), &START), "--format", "no file");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a start made something by itself");
    refused(&agent(dir.path(), &["--inspect"]), "--format", "inspect without a file");
}

#[test]
fn format_never_goes_over_an_existing_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    assert_eq!(agent(dir.path(), &["--format"]).status, Some(0));
    let before = std::fs::read(&file).unwrap();
    for args in [&["--format"][..], &["--format", "--num-blocks", "3"]] {
        refused(&agent(dir.path(), args), FILE, "format again");
        assert_eq!(std::fs::read(&file).unwrap(), before, "a refused --format changed the file");
    }
    // Not over anything else either, and not through a link.
    let other = dir.path().join("notes.txt");
    std::fs::write(&other, "mine").unwrap();
    std::os::unix::fs::symlink(dir.path().join("nowhere"), dir.path().join("link")).unwrap();
    refused(&agent(dir.path(), &["--format", "--serial-file", "notes.txt"]), "notes.txt", "format over notes");
    refused(&agent(dir.path(), &["--format", "--serial-file", "link"]), "link", "format over a link");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    assert!(!dir.path().join("nowhere").exists());
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()).into()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Wherever in the document, the value under this key.
fn find<'a>(json: &'a Value, key: &str) -> Option<&'a Value> {
    match json {
        Value::Object(map) => map.get(key).or_else(|| map.values().find_map(|value| find(value, key))),
        Value::Array(rows) => rows.iter().find_map(|row| find(row, key)),
        _ => None,
    }
}

fn assert_number(json: &Value, key: &str, bytes: u64) {
    let said = find(json, key).unwrap_or_else(|| panic!("no {key} in {json}"));
    assert_eq!(said.as_u64(), Some(bytes), "{key}");
}

#[test]
fn a_new_file_is_72_and_100_times_68_bytes_and_inspect_agrees() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(agent(dir.path(), &["--format"]).status, Some(0));
    let bytes = std::fs::read(dir.path().join(FILE)).unwrap();
    agrees_with_the_bytes(&bytes, dir.path());
    for (at, kind) in [(HEADER, 1), (HEADER + BLOCK, 2)] {
        assert_eq!(
            (&bytes[at..at + 16], bytes[at + 33]),
            (&b"default\0\0\0\0\0\0\0\0\0"[..], kind),
            "no other name takes its block"
        );
    }
    assert!(bytes[HEADER + 2 * BLOCK..].iter().all(|byte| *byte == 0), "a new file has no other used block");

    assert_eq!(agent(dir.path(), &["--format", "--serial-file", "small", "--num-blocks", "3"]).status, Some(0));
    assert_eq!(std::fs::read(dir.path().join("small")).unwrap().len(), HEADER + 3 * BLOCK);
}

/// Reads the file by the layout alone and compares with what `--inspect --json` says. Gives the used blocks.
fn agrees_with_the_bytes(bytes: &[u8], dir: &Path) -> Vec<usize> {
    let path = dir.join(FILE);
    let ended = agent(dir, &["--inspect", "--json", "--serial-file", path.to_str().unwrap()]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(bytes.len(), HEADER + BLOCKS * BLOCK);
    assert_eq!((u32_at(bytes, 0), u32_at(bytes, 4)), (1, BLOCKS as u64));
    assert_number(&json, "version", 1);
    assert_number(&json, "num_blocks", BLOCKS as u64);
    assert_number(&json, "write_counter", u64_at(bytes, 40));
    let session = u128::from_le_bytes(bytes[16..32].try_into().unwrap());
    assert!(session != 0, "a file without a session");
    assert_eq!(find(&json, "session").and_then(Value::as_str), Some(format!("{session:032x}").as_str()));
    assert_eq!((u64_at(bytes, 48), u64_at(bytes, 56)), (0, 0), "reserved");
    let mut blank = bytes.to_vec();
    blank[64..72].fill(0);
    assert_eq!(u64_at(bytes, 64), u64::from(crc32c::crc32c(&blank)), "the checksum at 64");

    let used: Vec<_> = (0..BLOCKS).map(|nth| HEADER + nth * BLOCK).filter(|at| bytes[*at] != 0).collect();
    let rows = find(&json, "blocks").and_then(Value::as_array).expect("blocks");
    assert_eq!(rows.len(), used.len(), "{json}");
    for (at, row) in used.iter().zip(rows) {
        let block = &bytes[*at..at + BLOCK];
        let end = block[..16].iter().position(|byte| *byte == 0).expect("a name ends with NUL");
        assert_eq!(row["name"].as_str().map(str::as_bytes), Some(&block[..end]), "the name in its 16 bytes");
        assert_number(row, "bucket", u32_at(block, 36));
        assert_number(row, "bucket_base", u64_at(block, 40));
        assert_number(row, "serial", u64_at(block, 56));
        assert_number(row, "step", u32_at(block, 64));
        assert_eq!(row["everyday_reset"].as_bool(), Some(u32_at(block, 32) & 1 == 1), "{row}");
    }
    used
}

/// A file in use: numbers and strings were minted from it, then its agent was killed.
async fn used_file() -> (Cluster, PathBuf, Vec<u8>) {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    for path in ["uniq64?n=1000", "string?biz=TEST&custom=00&n=1000", "uniq96?n=10"] {
        assert_eq!(cluster.ask_agent(0, path).await.unwrap().status, 200);
    }
    cluster.agent(0).unwrap().daemon.kill_9();
    let file = cluster.agents[0].serial_file();
    let bytes = std::fs::read(&file).unwrap();
    (cluster, file, bytes)
}

#[tokio::test]
async fn a_used_file_keeps_the_layout_and_its_marks_lie_beyond_what_was_minted() {
    let (cluster, _, bytes) = used_file().await;
    let used = agrees_with_the_bytes(&bytes, &cluster.agents[0].dir);
    assert!(used.len() >= 2, "numbers and strings have a block each: {used:?}");
    for at in used {
        assert!(u64_at(&bytes, at + 56) >= 1_000, "1000 were minted below the mark of the block at {at}");
    }
    assert!(u64_at(&bytes, 32) > 0, "no time mark for Uniq96");
}

#[tokio::test]
async fn a_flipped_byte_anywhere_stops_the_start() {
    let (cluster, file, bytes) = used_file().await;
    let mut used = (0..BLOCKS).map(|nth| HEADER + nth * BLOCK).filter(|at| bytes[*at] != 0);
    let end = used.next_back().expect("used blocks") + BLOCK;
    let places: Vec<usize> = (0..end).chain((end..bytes.len()).step_by(STRIDE)).chain([bytes.len() - 1]).collect();
    println!("{} bytes flipped one at a time", places.len());

    // On a copy of its folder each time, its lineage included, two at a time.
    let lineage = file.with_file_name(format!("{FILE}.lineage"));
    assert!(lineage.exists());
    std::thread::scope(|scope| {
        for part in places.chunks(places.len().div_ceil(2)) {
            let (bytes, lineage) = (&bytes, &lineage);
            scope.spawn(move || {
                let dir = tempfile::tempdir().unwrap();
                std::fs::copy(lineage, dir.path().join(format!("{FILE}.lineage"))).unwrap();
                for at in part {
                    let mut damaged = bytes.clone();
                    damaged[*at] ^= 1 << (at % 8);
                    std::fs::write(dir.path().join(FILE), &damaged).unwrap();
                    refused(&agent(dir.path(), &START), FILE, &format!("byte {at} flipped"));
                    let after = std::fs::read(dir.path().join(FILE)).unwrap();
                    assert!(after == damaged, "byte {at} flipped: the start changed the file");
                }
            });
        }
    });

    // So does a cut, and a byte too many.
    let dir = tempfile::tempdir().unwrap();
    let cuts = [0, 1, HEADER - 1, HEADER, HEADER + BLOCK - 1, bytes.len() - 1].map(|len| bytes[..len].to_vec());
    let longer = [&bytes[..], &[0]].concat();
    for damaged in cuts.into_iter().chain([longer]) {
        std::fs::write(dir.path().join(FILE), &damaged).unwrap();
        refused(&agent(dir.path(), &START), FILE, &format!("{} bytes", damaged.len()));
        refused(&agent(dir.path(), &["--inspect"]), FILE, &format!("inspect of {} bytes", damaged.len()));
    }
    drop(cluster);
}

#[tokio::test]
async fn a_file_in_use_is_left_alone() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let dir = &cluster.agents[0].dir;
    let second = agent(dir, &START);
    refused(&second, FILE, "a second agent on the same file");

    // Looking is free: the bytes may change under it, but it changes nothing and the agent goes on.
    assert_eq!(agent(dir, &["--inspect"]).status, Some(0));
    assert_eq!(cluster.ask_agent(0, "uniq64").await.unwrap().status, 200);
}

/// As root, the way a runbook is followed in a hurry; then as the service's user.
#[test]
fn a_serial_file_of_another_users_is_left_as_it_is() {
    const USER: &str = "nobody";
    if !rustix::process::geteuid().is_root() {
        return println!("left out: only root can run programs as another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("uniq_generator");
    // Where that user can run it, wherever it was built.
    std::fs::copy(generator().unwrap(), &program).unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let file = dir.path().join("f.serial");
    let path = file.to_str().unwrap();
    assert_eq!(run(&program, &["--format", "--serial-file", path], dir.path()).unwrap().status, Some(0));
    tests::mounts::run("chown", [USER, path]).unwrap();
    let before = (std::fs::read(&file).unwrap(), std::fs::read_dir(dir.path()).unwrap().count());
    for act in [&["--forget-clock"][..], &["--masters", "127.0.0.1:1"]] {
        let ended = run(&program, &[&["--serial-file", path], act].concat(), dir.path()).unwrap();
        refused(&ended, "runuser -u", act[0]);
        let after = (std::fs::read(&file).unwrap(), std::fs::read_dir(dir.path()).unwrap().count());
        assert!(after == before, "{act:?}");
    }
    let arguments = ["-u", USER, "--", program.to_str().unwrap(), "--forget-clock", "--serial-file", path];
    let ended = run(Path::new("runuser"), &arguments, dir.path()).unwrap();
    assert!(ended.err.contains("nothing to forget"), "{} {}", ended.out, ended.err);
}
