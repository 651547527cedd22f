//! The names beside the serial file, with a process that dies or a disk that fails at any step, and what others put in their place.

use super::*;
use common::namespace::{Definition, Namespace};
use wire::lease::{NAMESPACES_PAGE_MAX, NameState, Registered};

/// As many names, known by that cluster.
fn names(n: usize, cluster: u128) -> KeptNames {
    let of = |n| Namespace::define(format!("n{n}").parse().unwrap(), &Definition::default()).unwrap();
    let names = (0..n).map(|n| Registered { namespace: of(n), state: NameState::InUse, proof: None }).collect();
    KeptNames { cluster: Some(ClusterId(cluster)), names }
}

fn path_of(home: &Home) -> PathBuf {
    home.folder.path().join("F.generators")
}

#[test]
fn names_are_kept_as_a_whole_whatever_step_a_process_dies_or_a_disk_fails_at() {
    let (old, new) = (names(NAMESPACES_PAGE_MAX, 1), names(2 * NAMESPACES_PAGE_MAX + 1, 1));
    for fault in [Fault::Dies, Fault::Fails, Fault::DoneButFails] {
        let mut found = Vec::new();
        for at in 1.. {
            let home = Home::new();
            old.write(&home.path()).unwrap();
            let disk = home.disk();
            disk.arm(at, fault);
            if home.place().names.keep(&disk, new.encode()).is_ok() {
                break;
            }
            let kept = KeptNames::read(&home.path()).unwrap().unwrap();
            assert!(kept == old || kept == new, "{:?}", disk.trace());
            found.push(kept == new);
            new.write(&home.path()).unwrap();
            assert_eq!(KeptNames::read(&home.path()), Ok(Some(new.clone())));
            assert_eq!(home.names(), ["F", "F.generators"]);
        }
        assert!(found.len() == 6 && !found[0] && found[5], "{fault:?}: {found:?}");
    }
}

#[test]
fn a_log_of_names_is_believed_as_a_whole_or_not_at_all() {
    let home = Home::new();
    assert_eq!(KeptNames::read(&home.path()), Ok(None));
    assert_eq!(KeptNames::read(&home.folder.path().join("nowhere/F")), Ok(None));
    for n in [0, 1, NAMESPACES_PAGE_MAX, NAMESPACES_PAGE_MAX + 1] {
        names(n, 1).write(&home.path()).unwrap();
        assert_eq!(KeptNames::read(&home.path()), Ok(Some(names(n, 1))));
    }
    let bytes = fs::read(path_of(&home)).unwrap();
    let first = bytes.len() - {
        names(1, 1).write(&home.path()).unwrap();
        fs::read(path_of(&home)).unwrap().len()
    };
    let other = {
        names(1, 2).write(&home.path()).unwrap();
        fs::read(path_of(&home)).unwrap()
    };
    let (page, last) = bytes.split_at(first);
    let wrong: [&[&[u8]]; 8] = [
        &[],
        &[page],
        &[last],
        &[last, page],
        &[page, page],
        &[page, last, last],
        &[page, &other],
        &[page, last, &[0]],
    ];
    for parts in wrong {
        fs::write(path_of(&home), parts.concat()).unwrap();
        let error = KeptNames::read(&home.path()).unwrap_err();
        assert!(error.contains("cannot be read") && error.contains("/F"), "{error}");
    }
    fs::write(path_of(&home), &bytes).unwrap();
    assert_eq!(KeptNames::read(&home.path()).unwrap().unwrap().names.len(), NAMESPACES_PAGE_MAX + 1);
}

#[test]
fn what_somebody_puts_in_their_place_is_neither_waited_for_nor_followed_nor_read_without_end() {
    let home = Home::new();
    let refused = || KeptNames::read(&home.path()).unwrap_err();
    rustix::fs::mknodat(rustix::fs::CWD, path_of(&home), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(refused().contains("cut"), "{}", refused());
    fs::remove_file(path_of(&home)).unwrap();
    names(1, 1).write(&home.path()).unwrap();
    fs::rename(path_of(&home), home.folder.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", path_of(&home)).unwrap();
    assert!(refused().contains("cannot be read"), "{}", refused());
    fs::remove_file(path_of(&home)).unwrap();
    File::create(path_of(&home)).unwrap().set_len(1 << 40).unwrap();
    assert!(refused().contains("another kind"), "{}", refused());
}
