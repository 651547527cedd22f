//! Fresh starts: a machine that is rebooted again and again has a lease each time, a loop of fresh starts empties no pool,
//! and a copy of a folder takes nothing from its living original.

use common::parameters::{ClusterParameters, SessionId};
use common::token::TokenType;
use net::rpc::lease::Refusal;
use std::path::Path;
use tests::client::Media;
use tests::cluster::{Cluster, until, until_status};
use tests::lessee::Lessee;
use tests::mounts;
use tests::oracle::Oracle;

/// More than an agent may have open leases.
const REBOOTS: u128 = 7;

#[test]
fn an_agent_has_a_lease_after_every_reboot() {
    mounts::enter_async(async || reboots().await).unwrap();
}

async fn reboots() {
    assert!(REBOOTS > ClusterParameters::BUDGET.into());
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let (client, oracle) = (cluster.client.clone(), Oracle::default());
    let boots = tempfile::tempdir().unwrap();
    for nth in 0..=REBOOTS {
        let daemon = &mut cluster.agent(0).unwrap().daemon;
        if nth > 0 {
            daemon.kill_9();
            mounts::pretend_boot(nth, boots.path()).unwrap();
            daemon.start().unwrap();
        }
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
        let status = cluster.agent_status(0).await.unwrap();
        println!("start {nth}: {:?}, token {:?}", status.fresh_because, status.token("uint2"));
        if nth > 0 {
            assert_eq!(status.fresh_because.as_deref(), Some("reboot"));
        }
        for kind in tests::client::KINDS {
            let answer = cluster.ask_agent(0, &format!("{}&n=100", kind.path())).await.unwrap();
            oracle.note(kind.namespace(), "agent-1", &answer.ids(kind, Media::Text).unwrap());
        }
    }
    let rows = cluster.leases(0, "type=uint2").await.unwrap();
    let held = rows.iter().filter(|row| row["state"] == "held").count();
    assert_eq!((held, rows.len() as u128), (1, REBOOTS + 1), "the former ones rest: {rows:?}");
    let verdict = oracle.verdict();
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// A loop of fresh starts ends in a refusal long before the pool is empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_name_gives_up_is_bounded() {
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let masters = [0, 1].map(|nth: usize| cluster.masters[nth].agent_listen);
    let session = |nth: u8| SessionId(1_000 + u128::from(nth));
    let lessee = |nth: u8| Lessee { session: session(nth), ..Lessee::new("looping").unwrap() };
    let mut last = None;
    for nth in 0..=ClusterParameters::DENIED + ClusterParameters::BUDGET {
        let master = Lessee::connect(masters[usize::from(nth % 2)]).await.unwrap();
        lessee(nth).heartbeat(&master).await.unwrap().unwrap();
        let former: Vec<SessionId> = last.into_iter().collect();
        let answer = || async {
            match lessee(nth).request_instead_of(&master, TokenType::Uint2, former.clone()).await.unwrap() {
                // Both masters have to have heard of the last one.
                Err(Refusal::Retry | Refusal::PeerAway) => None,
                answer => Some(answer),
            }
        };
        let (answer, _) = until("an answer", answer).await.unwrap();
        match answer {
            Ok(_) => last = Some(session(nth)),
            Err(Refusal::Budget { open, .. }) => {
                assert_eq!(
                    (nth, open),
                    (ClusterParameters::DENIED, ClusterParameters::DENIED.into()),
                    "so many were granted"
                );
                return;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("there was no end");
}

/// Folders that are copied under the same name: the original goes on with its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_takes_nothing_from_its_living_original() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let (client, name) = (cluster.client.clone(), cluster.agents[0].agent_id.clone());
    let before = cluster.agent_status(0).await.unwrap();
    for copy in 0..2 {
        let to = cluster.dir().join(format!("copy-{copy}"));
        copy_folder(&cluster.agents[0].dir, &to);
        let nth = cluster.add_agent_in(to, &name, &[]).unwrap();
        cluster.agent(nth).unwrap().daemon.start().unwrap();
        until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
        let status = cluster.agent_status(nth).await.unwrap();
        assert_eq!(status.fresh_because.as_deref(), Some("file_copied"));
    }
    let rows = cluster.leases(0, "type=uint2&state=held").await.unwrap();
    assert_eq!(rows.len(), 3, "nothing was given up: {rows:?}");
    assert_eq!(cluster.agent_status(0).await.unwrap().tokens(), before.tokens());
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
