//! Volumes of masters' stores that are detached, put back to a snapshot and attached again while the machine runs: nothing but the
//! attachment shows it, and a master that cannot tell promises nothing alone.
//!
//! What needs a mount runs in a mount namespace (`tests::mounts`); a file system that cannot be had is left out, and said so.

use common::calendar::UtcOffset;
use common::parameters::{ClusterId, ClusterParameters, MasterId};
use master::lease::{Identity, Lives, Write};
use master::replication::lives::Unproven;
use master::store::{self, DiskStore, Store as _};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;
use tests::cluster::{Cluster, until, until_status};
use tests::mounts::{self, Image, Kind, run};

/// Room for a store.
const LEN: u64 = 320 << 20;
/// Longer than a master that may go on alone needs until it does, by some seconds in which it gives what it has.
const ALONE: Duration = Duration::from_secs(14);

fn image(kind: Kind, dir: &Path) -> Option<Image> {
    Image::with_len(kind, dir, LEN).inspect_err(|why| println!("{kind:?} is left out: {why:#}")).ok()
}

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

/// Opens a store and writes it; says why it is not proven to be the one that was last written.
fn proven(dir: &Path) -> Result<(), Unproven> {
    let (mut store, loaded) = store::open(dir).unwrap();
    store.commit(&[Write::Lives(Lives::default())], loaded.lsn).unwrap();
    loaded.proven
}

#[test]
fn a_store_on_a_volume_that_was_put_back_is_not_proven() {
    mounts::enter(|dir| {
        for kind in [Kind::Ext4, Kind::Xfs, Kind::Btrfs] {
            let Some(mut image) = image(kind, dir) else { continue };
            let at = image.folder().join("store");
            std::fs::create_dir(&at).unwrap();
            DiskStore::format(&at, identity()).unwrap();
            assert_eq!(proven(&at), Ok(()), "{kind:?}");
            let device = std::fs::metadata(&at).unwrap().dev();
            image.keep().unwrap();
            assert_eq!(proven(&at), Ok(()), "{kind:?}: it goes on");
            // Mounted anew from the disk that it was on all the time, or on no disk of its own.
            image.mount_anew().unwrap();
            let stayed = if kind == Kind::Btrfs { Err(Unproven::Attached) } else { Ok(()) };
            assert_eq!(proven(&at), stayed, "{kind:?}");
            image.put_back().unwrap();
            println!("{kind:?}: device {device} and {}", std::fs::metadata(&at).unwrap().dev());
            assert_eq!(proven(&at), Err(Unproven::Attached), "{kind:?}");
            assert_eq!(proven(&at), Ok(()), "{kind:?}: it is this one's now");
        }
    })
    .unwrap();
}

/// The real programs: what a master gave of an axis is forgotten by its volume, and the other master is away.
#[test]
fn a_master_on_a_volume_that_was_put_back_gives_no_number_again() {
    mounts::enter_async(async || a_volume_put_back().await).unwrap();
}

async fn a_volume_put_back() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let Some(mut image) = image(Kind::Ext4, cluster.dir()) else { return };
    let client = cluster.client.clone();
    let master = &mut cluster.masters[0];
    master.daemon.terminate().await.unwrap();
    let at = image.folder().join("master-1");
    run("cp", ["-a".as_ref(), master.data_dir.as_os_str(), at.as_os_str()]).unwrap();
    master.daemon.set("--data-dir", at.to_str().unwrap());
    master.data_dir = at;
    master.daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let nth = cluster.add_agent(&[]).unwrap();
    let only = cluster.masters[0].agent_listen.to_string();
    let daemon = &mut cluster.agent(nth).unwrap().daemon;
    daemon.set("--masters", &only);
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let url = cluster.agent_url(nth, "generators/orders").unwrap();
    let defined = client.ask("PUT", &url, br#"{"kind":"segment","step":100}"#.to_vec()).await.unwrap();
    assert_eq!(defined.status, 201, "{}", defined.text());

    let mut given: BTreeSet<String> = numbers(&cluster, nth).await.into_iter().collect();
    cluster.masters[0].daemon.kill_9();
    image.keep().unwrap();
    cluster.masters[0].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    while given.len() < 1_000 {
        given.extend(numbers(&cluster, nth).await);
    }

    cluster.masters.iter_mut().for_each(|master| master.daemon.kill_9());
    image.put_back().unwrap();
    // The agent comes with a session that holds nothing.
    cluster.agent(nth).unwrap().daemon.kill_9();
    cluster.masters[0].daemon.start().unwrap();
    let other = cluster.add_agent(&[]).unwrap();
    let daemon = &mut cluster.agent(other).unwrap().daemon;
    daemon.set("--masters", &only);
    daemon.start().unwrap();
    let began = std::time::Instant::now();
    while began.elapsed() < ALONE {
        let again = asked(&cluster, other).await.into_iter().find(|number| given.contains(number));
        assert_eq!(again, None, "given before");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let said = client.get(&format!("http://{}/readyz", cluster.masters[0].daemon.http)).await.unwrap();
    assert!(said.status == 503 && said.text().contains("attached anew"), "{}", said.text());
    // The other master has seen what is forgotten.
    cluster.masters[1].daemon.start().unwrap();
    let stops = || async {
        let row = cluster.master_row(cluster.masters[0].daemon.http).await.ok()?;
        (row["mode"] == "rolled-back").then_some(())
    };
    until("it hears of that", stops).await.unwrap();
}

/// Numbers from an agent, if it gives any.
async fn asked(cluster: &Cluster, nth: usize) -> Vec<String> {
    let answer = cluster.ask_agent(nth, "segment/orders?n=50").await;
    let given = answer.ok().filter(|answer| answer.status == 200).map(|answer| answer.text()).unwrap_or_default();
    given.lines().map(str::to_owned).collect()
}

/// The same, waited for.
async fn numbers(cluster: &Cluster, nth: usize) -> Vec<String> {
    let given = || async { Some(asked(cluster, nth).await).filter(|given| !given.is_empty()) };
    until("numbers", given).await.unwrap().0
}
