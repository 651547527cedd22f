//! What a stranger learns and what it can take: a process of the same machine, or a host of a whitelisted network, that asks
//! in due form.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use common::terms::SessionId;
use common::token::TokenType;
use tests::cluster::Cluster;
use tests::lessee::Lessee;

/// A session is what proves to a master who holds a lease: no page, list or answer tells it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_an_agents_session() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let agent = &cluster.agents[0];
    let session = agent.session().unwrap();
    let lease = cluster.agent_status(0).await.unwrap().leases[0].clone();
    let of_the_lease = [format!("/leases/{}/{}", lease.token_type, lease.token)];
    let paths = ["/", "/leases", "/agents", "/audit", "/api/leases", "/api/agents", "/api/audit"].map(str::to_owned);
    let mut shown = 0;
    for master in &cluster.masters {
        for path in paths.iter().chain(&of_the_lease) {
            let answer = cluster.client.console(master.daemon.http, path).await.unwrap();
            assert_eq!(answer.status, 200, "{path}");
            assert!(!answer.text().contains(&session.to_string()), "{path} tells a whole session");
            shown += usize::from(answer.text().contains(&session.shown()));
        }
        // Not digit by digit either.
        for (digits, found) in [(&session.to_string()[..SessionId::SHOWN_DIGITS], 2), (&wrong_end(session), 2)] {
            let path = format!("/api/leases?search={digits}");
            let answer = cluster.client.console(master.daemon.http, &path).await.unwrap();
            assert_eq!(answer.json().unwrap().as_array().unwrap().len(), found, "{path}: {}", answer.text());
        }
    }
    assert!(shown >= 8, "where is the session's beginning? seen {shown} times");
    let status = cluster.ask_agent(0, "status").await.unwrap().text();
    assert!(!status.contains(&session.to_string()) && status.contains(&session.shown()), "{status}");

    // Under the agent's name, with another session: nothing is told, nothing is ended.
    let stranger = Lessee::new(&agent.agent_id).unwrap();
    for master in &cluster.masters {
        assert_eq!(stranger.list(master.agent_listen).await.unwrap(), []);
    }
    // With the session, under another name: nothing either, and a token of its own.
    let stranger = Lessee { session, ..Lessee::new("stranger").unwrap() };
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    let own = stranger.obtain(masters, TokenType::Uint2).await.unwrap();
    assert_ne!(own.key.text(), *cluster.agent_status(0).await.unwrap().token("uint2").unwrap());
    for master in masters {
        let listed = stranger.list(master).await.unwrap();
        assert_eq!(listed.iter().map(|row| row.grant.key).collect::<Vec<_>>(), [own.key]);
    }
}

/// The same beginning, another end.
fn wrong_end(session: SessionId) -> String {
    SessionId(session.0 ^ 1).to_string()
}
