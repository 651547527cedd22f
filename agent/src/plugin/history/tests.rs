use super::*;
use crate::plugin::{Caller, Chain, IdRange, PluginSpec, Plugins};
use common::namespace::GeneratorName;
use common::time::{BootMs, Now, WallMs};
use net::rpc::mint::MintCode;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

fn settings(folder: &Path) -> HistorySettings {
    HistorySettings { folder: folder.to_owned(), file_len_max: *FILE_LENS.start(), files_max: 3 }
}

fn chain(history: &Arc<History>, kind: Kind, mode: &str) -> Arc<Chain> {
    let plugins = Plugins::new().with_history(Arc::clone(history));
    let specs: Vec<PluginSpec> = serde_json::from_str(&format!(r#"[{{"plugin":"history","mode":"{mode}"}}]"#)).unwrap();
    plugins.chain(kind, &"orders".parse::<GeneratorName>().unwrap(), &specs).unwrap().unwrap()
}

fn call(kind: Kind, n: u32) -> Call<'static> {
    let now = Now { wall: WallMs(1_000), boot: BootMs(0) };
    Call { kind, name: "orders", n, caller: Caller::Address("10.0.0.7".parse().unwrap()), now }
}

/// A call for numbers from `first` on.
fn numbers(chain: &Chain, first: u64, n: u32) -> Result<(), PluginRefusal> {
    let last = first + u64::from(n) - 1;
    let ranges = [IdRange { first: first.to_string(), last: last.to_string(), count: n }];
    chain.before(call(Kind::Uniq64, n))?.after(Outgoing::new(&ranges))
}

fn texts(chain: &Chain, texts: &[String]) -> Result<(), PluginRefusal> {
    let passed = chain.before(call(Kind::String, texts.len() as u32))?;
    passed.after(Outgoing::new(&[]).with_texts(texts))
}

fn found(folder: &Path, id: &str) -> (Vec<Line>, Searched) {
    let mut lines = Vec::new();
    let searched = find(folder, |line| line.contains(id), |line| lines.push(line)).unwrap();
    (lines, searched)
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn in_folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn whoever_got_an_id_is_found() {
    let folder = in_folder();
    let history = History::start(&settings(folder.path())).unwrap();
    let (ids, strings) = (chain(&history, Kind::Uniq64, "required"), chain(&history, Kind::String, "required"));
    assert_eq!((ids.needs(), strings.needs()), (Needs::Ranges, Needs::Texts));
    numbers(&ids, 95, 10).unwrap();
    numbers(&ids, 105, 1).unwrap();
    texts(&strings, &["D08A".to_owned(), "D09A".to_owned(), "D10A".to_owned()]).unwrap();
    history.end();
    let (lines, searched) = found(folder.path(), "100");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((line.caller.as_str(), line.time.as_str()), ("10.0.0.7", "1970-01-01T00:00:01.000Z"));
    assert_eq!((line.first.as_str(), line.last.as_str(), line.count), ("95", "104", 10));
    assert_eq!((searched.files, searched.lines, searched.torn, searched.unread.len()), (1, 3, 0, 0));
    assert_eq!(found(folder.path(), "D09A").0.len(), 1);
    for not in ["94", "106", "D09B", "D11A", ""] {
        assert!(found(folder.path(), not).0.is_empty(), "{not}");
    }
    assert!(numbers(&ids, 1, 1).unwrap_err().detail().contains("ends"), "nobody would write it");
    assert_eq!(history.dropped(), 0);
}

#[test]
fn files_rotate_and_the_oldest_go() {
    let folder = in_folder();
    let history = History::start(&settings(folder.path())).unwrap();
    let ids = chain(&history, Kind::Uniq64, "required");
    for id in 0..6_000 {
        numbers(&ids, id, 1).unwrap();
    }
    history.end();
    let numbers = files::numbers(folder.path()).unwrap();
    assert!(numbers.len() == 3 && numbers[0] > 2, "{numbers:?}");
    for number in &numbers {
        let file = fs::read(files::path(folder.path(), *number)).unwrap();
        assert!(file.len() as u64 <= *FILE_LENS.start() && file.starts_with(files::HEADER) && file.ends_with(b"\n"));
    }
    let kept = || {
        let mut ids: Vec<u64> = Vec::new();
        find(folder.path(), |_| true, |line| ids.push(line.first.parse().unwrap())).unwrap();
        ids
    };
    // The latest ones, without a hole, from the oldest on.
    let all = kept();
    assert!(all.len() > 1_000 && all.iter().copied().eq(6_000 - all.len() as u64..6_000), "{all:?}");
    // The next start goes on in the last file.
    let history = History::start(&settings(folder.path())).unwrap();
    numbers_of(&history, 7_000);
    history.end();
    assert_eq!(files::numbers(folder.path()).unwrap(), numbers);
    assert_eq!(kept().last(), Some(&7_000));
}

/// As `chain`, of another name.
fn chain_of(history: &Arc<History>, name: &str) -> Arc<Chain> {
    let plugins = Plugins::new().with_history(Arc::clone(history));
    let specs: Vec<PluginSpec> = serde_json::from_str(r#"[{"plugin":"history","mode":"required"}]"#).unwrap();
    plugins.chain(Kind::Uniq64, &name.parse::<GeneratorName>().unwrap(), &specs).unwrap().unwrap()
}

fn given(chain: &Chain, name: &str, id: u64) {
    let ranges = [IdRange { first: id.to_string(), last: id.to_string(), count: 1 }];
    let call = Call { name, ..call(Kind::Uniq64, 1) };
    chain.before(call).unwrap().after(Outgoing::new(&ranges)).unwrap();
}

#[test]
fn a_flood_of_one_name_leaves_the_lines_of_others_and_no_more_than_room_for_them() {
    let folder = in_folder();
    let history = History::start(&settings(folder.path())).unwrap();
    let (quiet, loud, many) = (chain_of(&history, "quiet"), chain_of(&history, "loud"), chain_of(&history, "many"));
    given(&quiet, "quiet", 7);
    // As many as a file has room for, and then more than all files have.
    (10_000..11_000).for_each(|id| given(&many, "many", id));
    (20_000..40_000).for_each(|id| given(&loud, "loud", id));
    given(&quiet, "quiet", 8);
    history.end();
    for id in ["7", "8"] {
        let (lines, searched) = found(folder.path(), id);
        assert!(matches!(&lines[..], [line] if line.name == "quiet"), "{id}: {lines:?}");
        assert_eq!((searched.torn, searched.unread.len()), (0, 0));
    }
    let numbers = files::numbers(folder.path()).unwrap();
    assert_eq!(numbers.len(), 3, "{numbers:?}");
    let lens = numbers.iter().map(|number| fs::metadata(files::path(folder.path(), *number)).unwrap().len());
    assert!(lens.max().unwrap() <= *FILE_LENS.start());
    let kept = |from: u64, to: u64| {
        let mut ids: Vec<u64> = Vec::new();
        find(folder.path(), |_| true, |line| ids.push(line.first.parse().unwrap())).unwrap();
        ids.retain(|id| (from..to).contains(id));
        ids
    };
    // The latest ones of each, without a hole: of what has half of a file's room, and of what has that and all other files.
    let (many, loud) = (kept(10_000, 11_000), kept(20_000, 40_000));
    assert!(many.len() > 300 && many.iter().copied().eq(11_000 - many.len() as u64..11_000), "{}", many.len());
    assert!(loud.len() > 1_300 && loud.iter().copied().eq(40_000 - loud.len() as u64..40_000), "{}", loud.len());
}

#[test]
fn where_the_oldest_files_cannot_become_one_the_first_goes() {
    let folder = in_folder();
    // A folder stands where the one file is to be written.
    (1..100).for_each(|number| fs::create_dir(files::path(folder.path(), number).with_extension("new")).unwrap());
    let history = History::start(&settings(folder.path())).unwrap();
    let ids = chain(&history, Kind::Uniq64, "required");
    (0..6_000).for_each(|id| numbers(&ids, id, 1).unwrap());
    history.end();
    assert_eq!(files::numbers(folder.path()).unwrap().len(), 3);
    assert_eq!(found(folder.path(), "5999").0.len(), 1);
}

fn numbers_of(history: &Arc<History>, id: u64) {
    numbers(&chain(history, Kind::Uniq64, "required"), id, 1).unwrap();
}

#[test]
fn a_line_that_a_crash_tore_is_passed_over_and_nothing_is_glued_to_it() {
    let folder = in_folder();
    let last = |number| files::path(folder.path(), number);
    let history = History::start(&settings(folder.path())).unwrap();
    for id in [10, 20] {
        numbers_of(&history, id);
    }
    history.end();
    let whole = fs::read(last(1)).unwrap();
    let second = whole.len() - 20;
    for torn in [second, whole.len() - 1, files::HEADER.len() + 3, files::HEADER.len(), 5, 0] {
        fs::write(last(1), &whole[..torn]).unwrap();
        let history = History::start(&settings(folder.path())).unwrap();
        numbers_of(&history, 30);
        history.end();
        let (lines, searched) = found(folder.path(), "30");
        assert_eq!((lines.len(), searched.unread.len()), (1, 0), "{torn}");
        let (had, torn_lines) = (found(folder.path(), "20").0.len(), searched.torn);
        // Only the end of the line was missing: then it is whole again.
        assert_eq!(
            (had, torn_lines),
            if torn == second {
                (0, 1)
            } else if torn == whole.len() - 1 {
                (1, 0)
            } else {
                (0, torn_lines)
            }
        );
    }
    // A line that is being written is no line yet.
    fs::write(last(1), &whole[..whole.len() - 1]).unwrap();
    assert_eq!((found(folder.path(), "20").0.len(), found(folder.path(), "20").1.torn), (0, 1));
}

#[test]
fn two_programs_do_not_write_into_one_folder() {
    let folder = in_folder();
    let history = History::start(&settings(folder.path())).unwrap();
    let second = History::start(&settings(folder.path()));
    assert!(matches!(second, Err(HistoryError::InUse(_))), "{second:?}");
    history.end();
    let settings = settings(folder.path());
    drop(History::start(&settings).unwrap());
    for wrong in
        [HistorySettings { file_len_max: 1, ..settings.clone() }, HistorySettings { files_max: 1, ..settings.clone() }]
    {
        assert!(History::start(&wrong).unwrap_err().to_string().contains("is a number from"));
    }
    fs::write(folder.path().join("file"), "").unwrap();
    let under_a_file = HistorySettings { folder: folder.path().join("file/history"), ..settings };
    assert!(History::start(&under_a_file).unwrap_err().to_string().contains("make the folder"));
}

/// A file that cannot be written, as on a disk that is full: it is a link.
#[test]
fn a_file_that_cannot_be_written_refuses_before_ids_are_taken_and_loses_no_line_when_it_can_be_again() {
    let folder = in_folder();
    let file = files::path(folder.path(), 1);
    symlink("/dev/full", &file).unwrap();
    let history = History::start(&settings(folder.path())).unwrap();
    let required = chain(&history, Kind::Uniq64, "required");
    let best = chain(&history, Kind::Uniq64, "best-effort");
    numbers(&required, 10, 1).unwrap();
    wait("the failure", || history.failing().is_some());
    let refusal = numbers(&required, 11, 1).unwrap_err();
    assert_eq!(refusal.code(), MintCode::Overloaded);
    assert!(refusal.detail().contains("is a link") && refusal.retry().is_some(), "{refusal}");
    assert!(found(folder.path(), "10").1.unread.len() == 1, "a device is not read");
    numbers(&best, 12, 1).unwrap();
    fs::remove_file(&file).unwrap();
    wait("its end", || history.failing().is_none());
    numbers(&required, 13, 1).unwrap();
    history.end();
    let has = |id: &str| found(folder.path(), id).0.len();
    assert_eq!((has("10"), has("11"), has("12"), has("13"), history.dropped()), (1, 0, 1, 1, 0));
}

#[test]
fn a_file_that_stays_so_bounds_memory_and_does_not_keep_the_end_waiting() {
    let folder = in_folder();
    symlink("/dev/full", files::path(folder.path(), 1)).unwrap();
    let history = History::start(&settings(folder.path())).unwrap();
    let best = chain(&history, Kind::String, "best-effort");
    // Nothing of these counts up, so each is a line.
    let many: Vec<_> = (0..20_000u64).map(|n| format!("{:016X}X", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    for _ in 0..20 {
        texts(&best, &many).unwrap();
        assert!(history.shared.lock().lines.len() <= QUEUE_LEN_MAX);
    }
    wait("the failure", || history.failing().is_some());
    assert!(history.dropped() > 0);
    let required = chain(&history, Kind::String, "required");
    assert!(texts(&required, &many).unwrap_err().detail().contains("is a link"));
    let began = Instant::now();
    history.end();
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn a_slow_disk_refuses_before_the_queue_is_full() {
    let folder = in_folder();
    let history = History::start(&settings(folder.path())).unwrap();
    let required = chain(&history, Kind::Uniq64, "required");
    let passed = required.before(call(Kind::Uniq64, 1)).unwrap();
    // As if the thread did not come to write.
    history.end();
    history.shared.lock().ended = false;
    history.shared.lock().lines = vec![b'x'; QUEUE_LEN_MAX / 2 + 1];
    assert!(numbers(&required, 1, 1).unwrap_err().detail().contains("as fast"));
    let ranges = [IdRange { first: "1".to_owned(), last: "1".to_owned(), count: 1 }];
    passed.after(Outgoing::new(&ranges)).unwrap();
    let huge: Vec<_> = (0..300_000u64).map(|n| format!("{:016X}X", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    history.shared.lock().lines.clear();
    let refusal = texts(&chain(&history, Kind::String, "required"), &huge).unwrap_err();
    assert!(refusal.detail().contains("ask for fewer"), "{refusal}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = in_folder();
    let history = History::start(&settings(folder.path())).unwrap();
    numbers_of(&history, 10);
    history.end();
    let path = |number| files::path(folder.path(), number);
    fs::write(path(2), "something else\n").unwrap();
    fs::write(path(3), "").unwrap();
    let long = [files::HEADER, "x".repeat(3 * line::LINE_LEN_MAX).as_bytes(), b"\n\xff\n", &fs::read(path(1)).unwrap()]
        .concat();
    fs::write(path(4), long).unwrap();
    fs::create_dir(path(5)).unwrap();
    symlink("/dev/zero", path(6)).unwrap();
    fs::write(folder.path().join("history-1.log"), "not one of ours").unwrap();
    fs::copy(path(1), path(7)).unwrap();
    fs::set_permissions(path(7), fs::Permissions::from_mode(0o0)).unwrap();
    let (lines, searched) = found(folder.path(), "10");
    // Whoever may do everything reads the last one too.
    let all = usize::from(fs::read(path(7)).is_ok());
    assert_eq!((lines.len(), searched.files), (2 + all, 3 + all));
    let unread: Vec<_> = searched.unread.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(unread[..3], [path(2), path(5), path(6)]);
    // The long line, the one that is not text, and the header in the midst.
    assert_eq!(searched.torn, 3);
    assert!(find(&folder.path().join("nowhere"), |_| true, |_| {}).is_err());
}

#[test]
fn files_are_for_this_user_alone_and_no_link_is_followed() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = in_folder();
    let folder = dir.path().join("history");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let first = folder.join("history-0000000001.log");
    let write = || {
        let history = History::start(&settings(&folder)).unwrap();
        numbers_of(&history, 7);
        history.end();
    };
    write();
    let all = [(&folder, 0o700), (&first, 0o600), (&folder.join("history.lock"), 0o600)];
    assert_eq!(all.map(|(path, _)| mode(path)), all.map(|(_, mode)| mode));
    // As a former version made it.
    std::fs::set_permissions(&first, std::fs::Permissions::from_mode(0o644)).unwrap();
    write();
    assert_eq!(mode(&first), 0o600);
    // Somebody lays a link to another file of this user in its place.
    let precious = dir.path().join("precious");
    std::fs::write(&precious, "mine\n").unwrap();
    std::fs::remove_file(&first).unwrap();
    std::os::unix::fs::symlink(&precious, &first).unwrap();
    let history = History::start(&settings(&folder)).unwrap();
    let chain = chain(&history, Kind::Uniq64, "required");
    let _ = numbers(&chain, 8, 1);
    wait("the reason", || history.failing().is_some_and(|why| why.contains("is a link")));
    history.end();
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine\n");
    std::fs::remove_file(folder.join("history.lock")).unwrap();
    std::os::unix::fs::symlink(&precious, folder.join("history.lock")).unwrap();
    let refused = History::start(&settings(&folder)).unwrap_err().to_string();
    assert!(refused.contains("open the lock") && refused.contains("is a link"), "{refused}");
}
