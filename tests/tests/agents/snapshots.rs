//! Serial files in snapshots of their file system: whatever of them is started, no ID comes twice.
//!
//! What needs a mount runs in a mount namespace (`tests::mounts`); a file system that cannot be had is left out, and said so.

use common::parameters::{ClusterId, SessionId};
use common::time::WallMs;
use serial_file::{
    AfterReboot, Disk as _, Fingerprint, Found, Holdings, Lineage, Opened, OsDisk, StartKind, Stat, decode, format,
    judge, open,
};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tests::client::{Kind as Ids, Media};
use tests::cluster::{Cluster, until_status};
use tests::mounts::{self, Image, Kind, mount, run};
use tests::oracle::Oracle;
use tests::programs;

const NOW: WallMs = WallMs(1_795_000_000_000);
/// Containers that are made of one snapshot.
const COPIES: usize = 2;
/// The number of tries for a device number that somebody else took, and the pause after each.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(50);

fn start(file: &Path) -> Opened {
    open(file, AfterReboot::Fresh, SessionId(rand::random())).unwrap()
}

/// A folder with a serial file whose session has joined a cluster.
fn folder(at: &Path) -> PathBuf {
    fs::create_dir_all(at).unwrap();
    let file = at.join("F");
    format(&file, 3, NOW, SessionId(rand::random())).unwrap();
    let mut opened = start(&file);
    let holdings = Holdings { cluster: Some(ClusterId(9)), ..Holdings::default() };
    opened.file.write(&mut opened.contents, &holdings).unwrap();
    file
}

/// Gives what a start would say that knew nothing of file systems.
fn without_the_file_system(file: &Path) -> StartKind {
    let found = Found::decode(&fs::read(file.with_extension("lineage")).unwrap());
    let header = decode(&fs::read(file).unwrap()).unwrap().header;
    let identity = Stat::from(&fs::metadata(file).unwrap()).identity;
    let boot = OsDisk::new(file.parent().unwrap()).unwrap().boot_id().unwrap();
    let (write_counter, session) = (header.write_counter, header.session);
    let Found::Whole(Lineage { seen: Fingerprint { file_system, .. }, .. }) = found else { panic!("{found:?}") };
    let now = Fingerprint { identity, write_counter, boot, session, file_system };
    judge(&found, &now, None, AfterReboot::Fresh)
}

fn subvolume(how: &[&str]) {
    run("btrfs", [&["subvolume"], how].concat()).unwrap();
}

/// Shows a subvolume under this device number, which the one before it gave back; other mounts of this machine may have taken
/// it for a moment. `false` if they keep it.
fn show_as(image: &Image, subvolume: &str, device: u64) -> bool {
    (0..TRIES).any(|nth| {
        if nth > 0 {
            std::thread::sleep(PAUSE);
        }
        image.show(subvolume).unwrap();
        device_of(image) == device
    })
}

fn device_of(image: &Image) -> u64 {
    fs::metadata(image.folder()).unwrap().dev()
}

fn image(kind: Kind, dir: &Path) -> Option<Image> {
    let image = Image::new(kind, dir).and_then(|image| {
        if kind == Kind::Btrfs {
            run("btrfs", ["--version"])?;
        }
        Ok(image)
    });
    image.inspect_err(|why| println!("{kind:?} is left out: {why:#}")).ok()
}

/// Snapshots of the subvolume `original`: `copy-0` and on. All of them can be seen afterwards.
fn copies(image: &Image) {
    image.show("/").unwrap();
    for nth in 0..COPIES {
        let [from, to] = ["original".to_owned(), format!("copy-{nth}")].map(|name| image.folder().join(name));
        subvolume(&["snapshot", from.to_str().unwrap(), to.to_str().unwrap()]);
    }
}

#[test]
fn a_file_in_a_btrfs_snapshot_is_fresh_even_under_the_device_number_of_the_original() {
    mounts::enter(|dir| {
        let Some(image) = image(Kind::Btrfs, dir) else { return };
        let file = image.folder().join("F");
        subvolume(&["create", image.folder().join("original").to_str().unwrap()]);
        image.show("original").unwrap();
        let device = device_of(&image);
        drop(folder(image.folder()));
        copies(&image);
        assert!(show_as(&image, "original", device), "another mount keeps the device number");
        assert_eq!(start(&file).start, StartKind::Resumed);
        for nth in 0..COPIES {
            assert!(show_as(&image, &format!("copy-{nth}"), device), "another mount keeps the device number");
            assert_eq!(without_the_file_system(&file), StartKind::Resumed, "twin: nothing else tells them apart");
            let opened = start(&file);
            assert_eq!(opened.start.to_string(), "fresh (file_copied)");
            assert!(opened.holdings.former.is_empty(), "its original lives");
        }
        assert!(show_as(&image, "original", device), "another mount keeps the device number");
        let opened = start(&file);
        assert_eq!((opened.start, opened.renew_first), (StartKind::Resumed, false));
    })
    .unwrap();
}

/// The layers of containers on a snapshot: the overlay's own number is copied along, so that a master has to say.
#[test]
fn in_layers_that_were_mounted_anew_a_session_waits_for_a_master() {
    mounts::enter(|dir| {
        let Some(image) = image(Kind::Btrfs, dir) else { return };
        let [lower, merged] = ["lower", "merged"].map(|name| dir.join(name));
        fs::create_dir(&lower).unwrap();
        let layers = |of: &Path| {
            let options =
                format!("lowerdir={},upperdir={}/upper,workdir={}/work", lower.display(), of.display(), of.display());
            mount("overlay", &options, "none", &merged)
        };
        let home = image.folder().join("original");
        subvolume(&["create", home.to_str().unwrap()]);
        for name in ["upper", "work"] {
            fs::create_dir(home.join(name)).unwrap();
        }
        if let Err(why) = layers(&home) {
            return println!("overlay file systems are left out: {why:#}");
        }
        run("umount", [&merged]).unwrap();
        // As few file systems as below, so that the numbers of their devices are the same.
        let mounted = |name: &str| {
            image.show("/").unwrap();
            layers(&image.folder().join(name)).unwrap();
            fs::metadata(&merged).unwrap().dev()
        };
        let device = mounted("original");
        let again = start(&folder(&merged));
        assert_eq!((again.start, again.renew_first), (StartKind::Resumed, false), "the same mount");
        drop(again.file);
        run("umount", [&merged]).unwrap();
        copies(&image);
        for name in ["copy-0", "copy-1", "original"] {
            while mounted(name) != device {
                run("umount", [&merged]).unwrap();
                std::thread::sleep(PAUSE);
            }
            let file = merged.join("F");
            assert_eq!(
                without_the_file_system(&file),
                StartKind::Resumed,
                "{name}, twin: nothing else tells them apart"
            );
            let opened = start(&file);
            println!("{name}: {}, waits for a master: {}", opened.start, opened.renew_first);
            assert!(opened.renew_first || opened.start != StartKind::Resumed, "{name} goes on by itself");
            drop(opened);
            run("umount", [&merged]).unwrap();
        }
    })
    .unwrap();
}

/// A volume manager puts a volume back: another disk under the same number, with the same bytes.
#[test]
fn a_file_on_a_disk_that_was_put_back_without_a_reboot_is_fresh() {
    mounts::enter(|dir| {
        let Some(mut image) = image(Kind::Ext4, dir) else { return };
        let file = folder(image.folder());
        run("sync", ["-f".as_ref(), file.as_os_str()]).unwrap();
        let device = fs::metadata(&file).unwrap().dev();
        let disk = OsDisk::new(image.folder()).unwrap().file_system().unwrap().id.disk;
        image.cut_power().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().dev(), device);
        if disk.is_none() {
            return println!("left out: this kernel does not number its disks");
        }
        assert_eq!(without_the_file_system(&file), StartKind::Resumed, "twin: nothing else tells them apart");
        assert_eq!(start(&file).start.to_string(), "fresh (file_copied)");
    })
    .unwrap();
}

/// The real programs: containers made of one snapshot of a stopped agent are started one after the other while no master
/// answers, each under the device number that the one before it gave back.
#[test]
fn containers_of_one_snapshot_give_no_id_twice_while_no_master_answers() {
    mounts::enter_async(async || containers().await).unwrap();
}

async fn containers() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let Some(image) = image(Kind::Btrfs, cluster.dir()) else { return };
    let file = image.folder().join("uniq_generator.serial");
    subvolume(&["create", image.folder().join("original").to_str().unwrap()]);
    image.show("original").unwrap();
    let device = device_of(&image);
    let args = ["--format", "--serial-file", file.to_str().unwrap()];
    assert_eq!(programs::run(&programs::generator().unwrap(), &args, "/".as_ref()).unwrap().status, Some(0));
    let nth = cluster.add_agent_in(image.folder().to_owned(), "container", &[]).unwrap();
    let (client, oracle) = (cluster.client.clone(), Arc::new(Oracle::default()));
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let take = async |cluster: &Cluster, who: &str| {
        let answer = cluster.ask_agent(nth, "uniq64?n=1000").await.unwrap();
        if answer.status == 200 {
            oracle.note("uniq64", who, &answer.ids(Ids::Uniq64, Media::Text).unwrap());
        }
        answer.status
    };
    assert_eq!(take(&cluster, "before").await, 200);
    cluster.agent(nth).unwrap().daemon.kill_9();
    cluster.masters.iter_mut().for_each(|master| master.daemon.kill_9());
    copies(&image);
    let mut seen = Vec::new();
    for shown in ["original", "copy-0", "copy-1", "original"] {
        assert!(show_as(&image, shown, device), "another mount keeps the device number");
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.start().unwrap();
        until_status(&client, daemon, "/healthz", 200).await.unwrap();
        let status = cluster.agent_status(nth).await.unwrap();
        // Whoever was resumed answers when it has waited for the masters.
        let code = take(&cluster, shown).await;
        println!("{shown}: fresh because {:?}, answers {code}", status.fresh_because);
        seen.push((shown, status.fresh_because, code));
        cluster.agent(nth).unwrap().daemon.kill_9();
    }
    let verdict = oracle.verdict();
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    assert_eq!(verdict.total(), 3_000, "the original's");
    for (shown, fresh_because, code) in seen {
        let copied = Some("file_copied".to_owned());
        let wanted = if shown == "original" { (None, 200) } else { (copied, 503) };
        assert_eq!((fresh_because, code), wanted, "{shown}");
    }
}
