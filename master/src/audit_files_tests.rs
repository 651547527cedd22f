//! Tests of the audit's files.

use super::*;
use common::audit::{Action, Actor};
use common::time::WallMs;
use std::ops::Range;
use std::sync::Mutex;

/// Lines by their number, and where they end.
type Chain = (Head, Vec<(u64, Vec<u8>)>);

/// An audit in memory that can drop its oldest lines.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Chain>>);

impl Kept {
    fn add(&self, count: usize) -> u64 {
        let (head, lines) = &mut *self.0.lock().unwrap();
        for _ in 0..count {
            let actor = Actor::new("o\"\\\u{2028}\u{10ffff}", "10.0.0.1:5");
            let detail = format!("generation {}", head.number);
            lines.push(head.add(&Entry::new(WallMs(1), actor, Action::Key, "token 7", &detail)).unwrap());
        }
        head.number
    }

    fn drop_until(&self, number: u64) {
        self.0.lock().unwrap().1.retain(|(kept, _)| *kept > number);
    }
}

impl Audit for Kept {
    fn rows(&self, range: Range<Vec<u8>>) -> impl DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> {
        let key = |number: u64| [&b"a"[..], &number.to_be_bytes()].concat();
        let rows = self.0.lock().unwrap().1.clone().into_iter().map(move |(number, bytes)| (key(number), bytes));
        rows.filter(|(key, _)| range.contains(key)).map(Ok).collect::<Vec<_>>().into_iter()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    first_lines(folder).unwrap().into_iter().map(|first| path_of(folder, first)).collect()
}

/// Writes all lines up to this number.
fn write(files: &mut AuditFiles<Kept>, durable: u64) {
    while files.write(durable).unwrap() < durable {}
}

#[test]
fn every_line_is_written_once_whatever_a_crash_tears() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Kept::default();
    let start = || AuditFiles::start(dir.path(), audit.clone());
    // Neither an empty audit nor an empty file is a fault.
    assert_eq!(start().unwrap().write(0).unwrap(), 0);
    assert!(check(dir.path()).is_err(), "there is nothing to check");
    assert_eq!(start().unwrap().write(audit.add(3)).unwrap(), 3);
    let file = files(dir.path()).remove(0);
    let whole = fs::read(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, FILE_MODE);
    audit.add(1);
    for len in (0..whole.len()).rev() {
        File::options().write(true).open(&file).unwrap().set_len(len as u64).unwrap();
        let torn = len > 0 && whole[len - 1] != b'\n';
        assert_eq!(check(dir.path()).map_or(torn, |checked| checked.torn), torn, "torn at byte {len}");
        assert_eq!(start().unwrap().write(3).unwrap(), 3);
        assert_eq!(fs::read(&file).unwrap(), whole, "torn at byte {len}");
    }
    // What is not durable is not written.
    let mut running = start().unwrap();
    assert_eq!(running.write(3).unwrap(), 3);
    assert!(matches!(start(), Err(AuditFilesError::InUse(_))));
    assert_eq!(running.write(4).unwrap(), 4);
    let last = audit.0.lock().unwrap().0;
    assert_eq!(check(dir.path()).unwrap(), Checked { files: 1, first: 1, last, torn: false });
}

#[test]
fn a_line_is_written_as_it_always_was() {
    let entry = Entry::new(WallMs(1), Actor::new("o\"\u{e9}", "10.0.0.1:5"), Action::Key, "key a", "new");
    let (number, bytes) = Head::default().add(&entry).unwrap();
    let line = text_of(&Line { number, before: Hash::default(), entry }, &bytes).unwrap();
    let expected = concat!(
        r#"{"number":1,"at":"1970-01-01T00:00:00.001Z","who":"o\"é","from":"10.0.0.1:5","action":"key.change","#,
        r#""subject":"key a","detail":"new","hash":"25defbd9ac32ef1ceafdd13d56b9f0372fd30c124dab624cd5233352a965f9fb","#,
        r#""record":"QVVEVAEAAQBqAAAAlsvSEgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAQAAAAAAAAAbyLDqQoAAAAAAAAAMTAuMC4wLjE6NQwAAAAFAAAAAAAAAGtleSBhAwAAAAAAAABuZXc="}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(line).unwrap(), expected);
}

#[test]
fn files_follow_each_other_and_the_first_ones_may_be_moved_away() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Kept::default();
    let mut running = AuditFiles::start(dir.path(), audit.clone()).unwrap();
    for _ in 0..3 {
        write(&mut running, audit.add(2 * BATCH));
        running.open.as_mut().unwrap().len = FILE_LEN_MAX;
    }
    assert_eq!(first_lines(dir.path()).unwrap(), [1, 2_001, 4_001]);
    fs::remove_file(path_of(dir.path(), 1)).unwrap();
    let checked = check(dir.path()).unwrap();
    assert_eq!((checked.files, checked.first, checked.last.number), (2, 2_001, 6_000));
    fs::remove_file(path_of(dir.path(), 2_001)).unwrap();
    drop(running);
    // A start goes on after the last one, and one of which the store dropped the last line after what it still has.
    let mut running = AuditFiles::start(dir.path(), audit.clone()).unwrap();
    write(&mut running, audit.add(1));
    drop(running);
    audit.add(5);
    audit.drop_until(6_003);
    let mut running = AuditFiles::start(dir.path(), audit.clone()).unwrap();
    write(&mut running, 6_006);
    assert_eq!(first_lines(dir.path()).unwrap(), [4_001, 6_004]);
    let gap = check(dir.path()).unwrap_err().to_string();
    assert!(gap.contains("after line 6001 comes line 6004"), "{gap}");
}

#[test]
fn what_is_moved_or_removed_meanwhile_takes_no_line_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("audit");
    let audit = Kept::default();
    let mut running = AuditFiles::start(&folder, audit.clone()).unwrap();
    write(&mut running, audit.add(3));
    // As `logrotate` does: moved away, and an empty one in its place.
    let file = path_of(&folder, 1);
    fs::rename(&file, folder.join("audit-000000000001.jsonl.1")).unwrap();
    File::create(&file).unwrap();
    write(&mut running, audit.add(1));
    assert_eq!(first_lines(&folder).unwrap(), [1, 4]);
    assert_eq!(check(&folder).unwrap().first, 4);
    // With its folder: all that the store has is written anew.
    fs::remove_dir_all(&folder).unwrap();
    assert!(running.write(audit.add(1)).is_err());
    write(&mut running, 5);
    let checked = check(&folder).unwrap();
    assert_eq!((checked.first, checked.last.number), (1, 5));
}

#[test]
fn what_was_changed_or_is_of_another_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Kept::default();
    AuditFiles::start(dir.path(), audit.clone()).unwrap().write(audit.add(3)).unwrap();
    let file = files(dir.path()).remove(0);
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&file, &flipped).unwrap();
        // Without its end the last line is unfinished.
        assert!(!check(dir.path()).is_ok_and(|checked| !checked.torn), "byte {at} was changed");
    }
    fs::write(&file, &whole).unwrap();
    assert!(check(dir.path()).is_ok());
    // One that was put back, or another one.
    let (put_back, other) = (Kept::default(), Kept::default());
    put_back.add(2);
    let actor = Actor::new("another", "");
    for _ in 0..5 {
        let (head, lines) = &mut *other.0.lock().unwrap();
        lines.push(head.add(&Entry::new(WallMs(1), actor.clone(), Action::Key, "", "")).unwrap());
    }
    for store in [put_back, other] {
        let refused = AuditFiles::start(dir.path(), store).unwrap().write(3).unwrap_err().to_string();
        assert!(refused.contains("ends with line 3, which is not in the audit of this store"), "{refused}");
    }
}
