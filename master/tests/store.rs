//! The store on disk: what was committed is there after a restart, and what is damaged is never believed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use common::audit::{Action, Actor, Entry};
use common::calendar::UtcOffset;
use common::lease::{Generation, Lease, Prep};
use common::parameters::{ClusterId, ClusterParameters, MasterId, SessionId};
use common::sequence::{Section, SectionKey, SectionOwner, SectionRecord, ServedAt};
use common::time::WallMs;
use common::token::{TokenFamily, TokenKey, TokenType, TokenValue};
use master::lease::{Identity, Write};
use master::store::audit::Line;
use master::store::lineage::Unproven;
use master::store::memory::MemoryStore;
use master::store::{Audit as _, DiskStore, Draft as _, Store, StoreError};
use std::fs;
use std::path::Path;

fn identity() -> Identity {
    Identity {
        master: MasterId::One,
        cluster: Some(ClusterId(7)),
        epoch: None,
        pair_epoch: 1,
        former: Vec::new(),
        paired: false,
        awaiting: None,
        parameters: ClusterParameters::new(7, UtcOffset::default(), 4095).unwrap(),
    }
}

fn prep(value: u32) -> Prep {
    Prep {
        key: TokenKey { family: TokenFamily::Uint, value: TokenValue(value) },
        g: Generation(1),
        token_type: TokenType::Uint2,
        agent_id: "a".parse().unwrap(),
        session: SessionId(value.into()),
        address: "127.0.0.1:1".to_owned(),
        granted: WallMs(1),
        from: WallMs(0),
        until: WallMs(2),
    }
}

fn granted(value: u32) -> Write {
    Write::Lease(prep(value).key, Lease::from_prep(&prep(value)))
}

/// A store with some commits behind it, closed.
fn used(dir: &Path) {
    DiskStore::format(dir, identity()).unwrap();
    let (mut store, _) = DiskStore::open(dir).unwrap();
    for value in 0..200 {
        store.commit(&[Write::Prep(prep(value))], u64::from(value) * 2 + 1).unwrap();
        let key = prep(value).key;
        store.commit(&[Write::DropPrep(key), granted(value)], u64::from(value) * 2 + 2).unwrap();
    }
    store.commit(&[Write::Prep(prep(999))], 401).unwrap();
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let (_, loaded) = DiskStore::open(dir.path()).unwrap();
    assert_eq!((loaded.identity, loaded.lsn, loaded.leases.len()), (identity(), 401, 200));
    assert_eq!(loaded.preps, vec![prep(999)]);
    assert!(loaded.leases.iter().all(|(key, lease)| lease.session == SessionId(key.value.0.into())));
}

fn section(at: u32, g: u64) -> SectionRecord {
    SectionRecord {
        range: (&SectionKey { name: "orders".parse().unwrap(), section: Section(at) }).into(),
        g: Generation(g),
        owner: SectionOwner {
            session: SessionId(7),
            agent_id: "a".parse().unwrap(),
            address: ServedAt { http: "h:1".to_owned(), rpc: "h:2".to_owned() },
        },
        max_seq: u64::from(at) * 10,
    }
}

#[test]
fn sections_are_there_after_a_restart_and_none_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let (mut store, loaded) = DiskStore::open(dir.path()).unwrap();
    assert!(loaded.sections.is_empty() && loaded.section_preps.is_empty() && !loaded.sections_cut);
    let writes: Vec<Write> = (0..300).map(|at| Write::sections(section(at, 1), 3)).collect();
    store.commit(&writes, 402).unwrap();
    let [first, second] = [section(1, 2), section(2, 2)];
    let preps = Write::SectionPreps { gone: Vec::new(), rows: vec![first.clone(), second.clone()] };
    store.commit(&[preps, Write::SectionsCut(true)], 403).unwrap();
    let over = Write::SectionPreps { gone: vec![second.range.first()], rows: Vec::new() };
    store.commit(&[over, Write::sections(second, 20)], 404).unwrap();
    drop(store);
    let (store, loaded) = DiskStore::open(dir.path()).unwrap();
    assert_eq!((loaded.sections.len(), loaded.section_preps, loaded.sections_cut), (300, vec![first], true));
    assert!(loaded.sections.contains(&(section(2, 2), 20)) && loaded.sections.contains(&(section(299, 1), 3)));
    drop(store);
    // One that is lost behind the store's back is missed.
    let db = sled::open(dir.path().join("ledger").join("sled")).unwrap();
    let key = db.scan_prefix(b"q").keys().next().unwrap().unwrap();
    db.remove(key).unwrap();
    db.flush().unwrap();
    drop(db);
    let why = DiskStore::open(dir.path()).err().unwrap().to_string();
    assert!(why.contains("sections") && why.contains("299"), "{why}");
}

fn line(n: u32) -> Write {
    let actor = Actor::new("olga", "10.0.0.9");
    Write::Audit(Entry::new(WallMs(n.into()), actor, Action::Deny, &format!("token {n}"), ""))
}

#[test]
fn the_audit_is_a_chain_that_is_read_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let (mut store, _) = DiskStore::open(dir.path()).unwrap();
    store.commit(&[line(1), line(2)], 402).unwrap();
    store.commit(&[line(3)], 403).unwrap();
    drop(store);
    let (mut store, _) = DiskStore::open(dir.path()).unwrap();
    store.commit(&[line(4)], 404).unwrap();
    let audit = store.audit();
    assert_eq!(audit.verify(audit.head().unwrap()), Ok(4));
    let numbers = |before, count| audit.newest(before, count).unwrap().0.iter().map(|l| l.number).collect::<Vec<_>>();
    assert_eq!(numbers(None, 3), [4, 3, 2]);
    assert_eq!(numbers(Some(2), 3), [1]);
    assert_eq!(audit.newest(None, 1).unwrap().0[0].entry.subject, "token 4");
}

/// Does what the programs do with a store, whatever keeps it.
fn serves_the_programs<S: Store>(place: &S::Location) {
    assert!(S::vacant(place).is_ok() && matches!(S::open(place), Err(StoreError::Missing(_))));
    let mut draft = S::draft(place).unwrap();
    draft.commit(&[Write::Identity(identity()), line(1)], 5).unwrap();
    drop(draft);
    assert!(matches!(S::open(place), Err(StoreError::Missing(_))), "it was not published");
    S::format(place, identity()).unwrap();
    assert!(matches!(S::vacant(place), Err(StoreError::Exists(_))));
    assert!(matches!(S::draft(place), Err(StoreError::Exists(_))));
    let (mut store, loaded) = S::open(place).unwrap();
    assert_eq!((loaded.identity, loaded.lsn), (identity(), 0));
    let audit = store.audit();
    store.commit(&[line(1), line(2)], 7).unwrap();
    let head = audit.head().unwrap();
    store.commit(&[line(3)], 8).unwrap();
    assert_eq!(audit.verify(head), Ok(2), "lines that were written since are left alone");
    assert_eq!(audit.verify(audit.head().unwrap()), Ok(3));
    let numbers = |lines: Vec<Line>| lines.iter().map(|line| line.number).collect::<Vec<_>>();
    assert_eq!(numbers(audit.newest(None, 2).unwrap().0), [3, 2]);
    assert_eq!(numbers(audit.newest(Some(3), 9).unwrap().0), [2, 1]);
    let (some, next) = audit.newest_of(None, 2, 9, |line| line.number != 3).unwrap();
    assert_eq!((numbers(some), next), (vec![2], Some(2)));
    let (none, next) = audit.newest_of(next, 9, 9, |line| line.number > 1).unwrap();
    assert!(none.is_empty() && next.is_none());
    drop((audit, store));
    assert_eq!(S::open(place).unwrap().1.lsn, 8);
}

#[test]
fn each_store_serves_the_programs() {
    serves_the_programs::<DiskStore>(tempfile::tempdir().unwrap().path());
    serves_the_programs::<MemoryStore>(&MemoryStore::default());
}

/// Opens sled behind the store's back.
fn tampered(dir: &Path, how: impl Fn(&sled::Db)) {
    // Whoever had it open may hold the lock for a moment longer.
    let db = (0..200).find_map(|_| {
        let opened = sled::open(dir.join("ledger/sled"));
        opened.inspect_err(|_| std::thread::sleep(std::time::Duration::from_millis(50))).ok()
    });
    let db = db.unwrap();
    how(&db);
    db.flush().unwrap();
}

#[test]
fn a_line_that_is_changed_or_gone_is_noticed() {
    let key = |number: u64| [&b"a"[..], &number.to_be_bytes()].concat();
    let made = || {
        let dir = tempfile::tempdir().unwrap();
        used(dir.path());
        let (mut store, _) = DiskStore::open(dir.path()).unwrap();
        store.commit(&[line(1), line(2), line(3)], 402).unwrap();
        dir
    };
    // The last line is looked at by every start.
    let dir = made();
    tampered(dir.path(), |db| drop(db.remove(key(3)).unwrap()));
    let Err(StoreError::Damaged { why, .. }) = DiskStore::open(dir.path()) else { panic!("it was believed") };
    assert!(why.contains("line 3"), "{why}");
    // The others by whoever asks.
    type Change = fn(&sled::Db, Vec<u8>);
    let changes: [Change; 2] = [
        |db, key| drop(db.remove(key).unwrap()),
        |db, key| {
            let other = db.get(b"a\0\0\0\0\0\0\0\x01").unwrap().unwrap();
            db.insert(key, other).unwrap();
        },
    ];
    for change in changes {
        let dir = made();
        tampered(dir.path(), |db| change(db, key(2)));
        let (store, _) = DiskStore::open(dir.path()).unwrap();
        let audit = store.audit();
        let why = audit.verify(audit.head().unwrap()).unwrap_err();
        assert!(why.contains("line 1"), "{why}");
    }
}

#[test]
fn a_store_of_another_format_is_refused_by_name_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let other = common::envelope::encode(common::envelope::Kind { name: *b"META", version: 5 }, &0_u64).unwrap();
    tampered(dir.path(), |db| drop(db.insert(b"m", other.clone()).unwrap()));
    let Err(refusal @ StoreError::OtherVersion { .. }) = DiskStore::open(dir.path()) else { panic!("it was believed") };
    tampered(dir.path(), |db| assert_eq!(db.get(b"m").unwrap().unwrap(), other));
    assert!(refusal.to_string().contains("has format 5, and this program reads 10"), "{refusal}");
}

#[test]
fn a_store_is_never_overwritten_and_never_made_by_opening() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(DiskStore::open(dir.path()), Err(StoreError::Missing(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "opening left something behind");
    DiskStore::format(dir.path(), identity()).unwrap();
    assert!(matches!(DiskStore::format(dir.path(), identity()), Err(StoreError::Exists(_))));
    let open = DiskStore::open(dir.path()).unwrap();
    assert!(matches!(DiskStore::open(dir.path()), Err(StoreError::Locked { .. })), "opened twice");
    drop(open);
    assert!(DiskStore::open(dir.path()).is_ok());
}

#[test]
fn a_format_that_was_cut_off_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("ledger.new")).unwrap();
    fs::write(dir.path().join("ledger.new/db"), b"half").unwrap();
    assert!(matches!(DiskStore::open(dir.path()), Err(StoreError::Missing(_))));
    DiskStore::format(dir.path(), identity()).unwrap();
    assert!(DiskStore::open(dir.path()).is_ok());
}

/// Something that happens to the directory of a closed ledger.
type Damage = Box<dyn Fn(&Path)>;

/// Opens a damaged store: it may refuse, or show every record that was committed. Anything in between would grant a
/// value twice.
fn open_damaged(dir: &Path) -> bool {
    match DiskStore::open(dir) {
        Err(StoreError::Damaged { .. } | StoreError::Io { .. } | StoreError::Locked { .. }) => true,
        Err(other) => panic!("refused for a wrong reason: {other}"),
        Ok((_, loaded)) => {
            assert_eq!(
                (loaded.lsn, loaded.leases.len(), loaded.preps.len()),
                (401, 200, 1),
                "believed a damaged store"
            );
            false
        }
    }
}

#[test]
fn a_damaged_store_is_refused_or_whole() {
    let whole = tempfile::tempdir().unwrap();
    used(whole.path());
    let mut refused = 0;
    let ledger = whole.path().join("ledger");
    let log_len = fs::metadata(ledger.join("sled/db")).unwrap().len();
    let mut damage: Vec<Damage> = vec![
        Box::new(|ledger| fs::remove_file(ledger.join("sled/db")).unwrap()),
        Box::new(|ledger| fs::write(ledger.join("sled/db"), b"").unwrap()),
        Box::new(|ledger| fs::remove_file(ledger.join("sled/conf")).unwrap()),
        Box::new(|ledger| fs::remove_file(ledger.join("anchor")).unwrap()),
        Box::new(|ledger| fs::write(ledger.join("anchor"), b"").unwrap()),
        Box::new(|ledger| fs::remove_dir_all(ledger.join("sled")).unwrap()),
    ];
    for part in 1..16 {
        let cut = log_len * part / 16;
        damage.push(Box::new(move |ledger| {
            fs::File::options().write(true).open(ledger.join("sled/db")).unwrap().set_len(cut).unwrap();
        }));
        damage.push(Box::new(move |ledger| {
            let mut bytes = fs::read(ledger.join("sled/db")).unwrap();
            bytes[usize::try_from(cut).unwrap()] ^= 0x10;
            fs::write(ledger.join("sled/db"), bytes).unwrap();
        }));
        damage.push(Box::new(move |ledger| {
            for entry in fs::read_dir(ledger.join("sled")).unwrap().flatten() {
                if entry.file_name().to_string_lossy().starts_with("snap") {
                    fs::remove_file(entry.path()).unwrap();
                }
            }
            fs::File::options().write(true).open(ledger.join("sled/db")).unwrap().set_len(cut).unwrap();
        }));
    }
    for damage in &damage {
        let copy = tempfile::tempdir().unwrap();
        let target = copy.path().join("ledger");
        copy_tree(&ledger, &target);
        damage(&target);
        refused += u32::from(open_damaged(copy.path()));
    }
    assert!(
        refused > 10,
        "only {refused} of {} damages were noticed: does this test still damage anything?",
        damage.len()
    );
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Tells whether the store in `dir` is proven to be the one that was last written there.
fn proven(dir: &Path) -> Result<(), Unproven> {
    DiskStore::open(dir).unwrap().1.proven
}

/// Copies a folder as `cp -a` does: the bytes, the modes, the times.
fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_store_that_nobody_touched_is_proven_and_a_copy_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (own, other) = (dir.path().join("own"), dir.path().join("copy"));
    used(&own);
    assert_eq!(proven(&own), Ok(()));
    copy(&own, &other);
    assert_eq!(proven(&other), Err(Unproven::Copied));
    assert_eq!(proven(&own), Ok(()), "being copied does no harm");
    // Where it lies is not part of it.
    fs::rename(&own, dir.path().join("moved")).unwrap();
    assert_eq!(proven(&dir.path().join("moved")), Ok(()));
}

#[test]
fn a_store_that_was_put_back_in_whatever_way_is_not_proven() {
    let dir = tempfile::tempdir().unwrap();
    let (own, backup) = (dir.path().join("own"), dir.path().join("backup"));
    used(&own);
    copy(&own, &backup);
    let (mut store, _) = DiskStore::open(&own).unwrap();
    store.commit(&[line(1)], 402).unwrap();
    drop(store);
    let ledger = Path::new("ledger");
    // In place: the same files with older bytes and times.
    for file in ["anchor", "lineage", "sled/db", "sled/conf"] {
        let (from, to) = (backup.join(ledger).join(file), own.join(ledger).join(file));
        let done = std::process::Command::new("cp").arg("--preserve=all").arg(from).arg(to).status().unwrap();
        assert!(done.success());
    }
    assert_eq!(proven(&own), Err(Unproven::Touched));
    // Another folder of the same name.
    fs::remove_dir_all(&own).unwrap();
    fs::rename(&backup, &own).unwrap();
    assert_eq!(proven(&own), Err(Unproven::Copied));
    // What is written then does not make it another one: only the ledger says when it has met the other master.
    let (mut store, loaded) = DiskStore::open(&own).unwrap();
    let lives = master::lease::Lives { unproven: true, ..loaded.lives };
    store.commit(&[Write::Lives(lives.clone())], 401).unwrap();
    drop(store);
    assert_eq!(proven(&own), Err(Unproven::NotMetSince));
    let (mut store, _) = DiskStore::open(&own).unwrap();
    store.commit(&[Write::Lives(master::lease::Lives { unproven: false, ..lives })], 401).unwrap();
    drop(store);
    assert_eq!(proven(&own), Ok(()));
}

#[test]
fn a_store_of_the_version_without_a_lineage_opens_unproven_and_goes_on() {
    use common::envelope::{Kind, encode};
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let ledger = dir.path().join("ledger");
    fs::remove_file(ledger.join("lineage")).unwrap();
    fs::write(ledger.join("anchor"), encode(Kind { name: *b"ANCH", version: 1 }, &401_u64).unwrap()).unwrap();
    let (mut store, loaded) = DiskStore::open(dir.path()).unwrap();
    assert_eq!((loaded.lsn, loaded.leases.len(), loaded.proven), (401, 200, Err(Unproven::Missing)));
    store.commit(&[line(1)], 402).unwrap();
    drop(store);
    assert_eq!(proven(dir.path()), Ok(()));
}
