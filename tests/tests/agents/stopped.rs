//! An agent that stands still past the end of its lease, with requests in its socket, mints nothing of the old lease when it
//! goes on: its value may be somebody else's by then.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use tests::client::{Kind, Media};
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::oracle::Oracle;

/// A day in three seconds.
const SCALE: u32 = 28_800;
/// Requests that wait in the socket of who stands still.
const WAITING: usize = 8;

fn pid(cluster: &mut Cluster, nth: usize) -> Pid {
    let pid = cluster.agent(nth).unwrap().daemon.pid().unwrap();
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Stops an agent. A thread that runs on another processor may go on for a moment after the signal was sent, and answer; when
/// this returns all of them stand.
fn stop(cluster: &mut Cluster, nth: usize) {
    let pid = pid(cluster, nth);
    kill_process(pid, Signal::STOP).unwrap();
    let seen = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap().unwrap();
    assert!(seen.stopped(), "{seen:?}");
}

/// Fetches IDs and notes them; says what was answered otherwise.
async fn fetch(cluster: &Cluster, nth: usize, oracle: &Oracle) -> Result<(), (u16, String)> {
    let url = cluster.agent_url(nth, "uniq64?n=1000").unwrap();
    let answer = cluster.client.get_as(&url, Media::Text).await.unwrap();
    match answer.ids(Kind::Uniq64, Media::Text) {
        Ok(ids) => {
            oracle.note("uniq64", &format!("agent {nth}"), &ids);
            Ok(())
        }
        Err(_) => Err((answer.status, answer.code())),
    }
}

/// The token of numbers that an agent holds.
async fn token(cluster: &Cluster, nth: usize) -> Option<String> {
    cluster.agent_status(nth).await.ok()?.token("uint2").map(str::to_owned)
}

/// An agent that ends as it was told to is lost to nobody: both masters show that it stopped, and that it runs once it is started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_stopped_as_it_should_be_is_not_lost() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    for (run, wanted) in [(false, "stopped"), (true, "well")] {
        let daemon = &mut cluster.agent(0).unwrap().daemon;
        if run {
            daemon.start().unwrap()
        } else {
            assert!(daemon.terminate().await.unwrap().0.success());
        }
        // Once both have shown it each is started again, and has it from the other one.
        for (nth, again) in [(0, false), (1, false), (0, true), (1, true)] {
            if again {
                let daemon = &mut cluster.masters[nth].daemon;
                daemon.kill_9();
                daemon.start().unwrap();
            }
            let (client, http) = (&cluster.client, cluster.masters[nth].daemon.http);
            let shown = || async move {
                let rows = client.console(http, "/api/agents").await.ok()?.json().ok()?;
                let rows = rows.as_array()?.iter().map(|row| row["state"].as_str()).collect::<Option<Vec<_>>>()?;
                (rows == [wanted]).then_some(())
            };
            until(&format!("master {} shows the agent as {wanted}", nth + 1), shown).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stands_still_past_the_lease_mints_nothing_of_it() {
    let mut cluster = Cluster::new().unwrap();
    // One value: whoever gets one later gets that one.
    let test_clock = cluster.run_by_test_clock(SCALE, &["--lease-days", "1", "--uint2-max", "0"]).unwrap();
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let flags = ["--test-clock", test_clock.as_str(), "--token-types", "uint2"];
    let (client, oracle) = (cluster.client.clone(), Oracle::default());
    let stopped = cluster.add_agent(&flags).unwrap();
    let daemon = &mut cluster.agent(stopped).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    fetch(&cluster, stopped, &oracle).await.unwrap();
    let before = cluster.agent_status(stopped).await.unwrap();

    stop(&mut cluster, stopped);
    // The kernel takes these in while nobody reads them.
    let http = cluster.agents[stopped].daemon.http;
    let mut waiting: Vec<TcpStream> = (0..WAITING).map(|_| TcpStream::connect(http).unwrap()).collect();
    for stream in &mut waiting {
        stream.write_all(b"GET /uniq64?n=10 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    }
    let other = cluster.add_agent(&flags).unwrap();
    cluster.agent(other).unwrap().daemon.start().unwrap();
    let got = || async { token(&cluster, other).await.filter(|token| Some(token.as_str()) == before.token("uint2")) };
    let (value, took) = until("the value rests and is granted to the other", got).await.unwrap();
    println!("value {value} is the other agent's after {took:?}");
    until("the other mints", || async { fetch(&cluster, other, &oracle).await.ok() }).await.unwrap();

    kill_process(pid(&mut cluster, stopped), Signal::CONT).unwrap();
    for mut stream in waiting {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        let told = ["lease_expired", "no_lease", "clock_skew"];
        assert!(told.iter().any(|code| answer.contains(&format!("\"{code}\""))), "{answer}");
    }
    for _ in 0..20 {
        let (status, code) = fetch(&cluster, stopped, &oracle).await.unwrap_err();
        assert_eq!(status, 503, "{code}");
        fetch(&cluster, other, &oracle).await.unwrap();
    }
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}
