//! Strangers, what they learn and what they can take: a process of the same machine, or a host of a whitelisted network, that asks
//! in due form.

use common::namespace::{Definition, Namespace};
use common::parameters::SessionId;
use common::setting::{CALLER_NAMES_AT_ONCE, NAMES_AT_ONCE};
use common::token::TokenType;
use net::rpc::lease::{
    AgentReport, Changed, DefineReply, DefineRequest, NameState, Refusal, Registered, RestoreRequest,
    report_interval_ms,
};
use net::rpc::mint::{MintCode, MintFailure, MintServiceClient};
use net::rpc::transport::{connect, deadline_in};
use std::net::{IpAddr, SocketAddr};
use tests::cluster::{Cluster, until};
use tests::lessee::{CALL_MAX, Lessee};
use tokio::net::{TcpListener, TcpSocket};

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

/// Opens an address to connect to so that a master sees the caller come from `address`.
async fn from(address: IpAddr, to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            tokio::spawn(async move {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(SocketAddr::new(address, 0)).unwrap();
                let mut master = socket.connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut caller, &mut master).await;
            });
        }
    });
    here
}

/// So many fresh starts, each under another name, from one address: how many got a token, and what the others were told.
async fn flood(cluster: &Cluster, address: &str, count: usize) -> (usize, Option<Refusal>) {
    let kind = TokenType::String2OnlyNumber;
    let mut masters = Vec::new();
    for master in &cluster.masters {
        let to = from(address.parse().unwrap(), master.agent_listen).await;
        masters.push(Lessee::connect(to).await.unwrap());
    }
    let (mut granted, mut refused) = (0, None);
    for nth in 0..count {
        let lessee = Lessee::new(&format!("fresh-{nth}-of-{address}")).unwrap();
        let master = &masters[nth % 2];
        lessee.heartbeat(master).await.unwrap().unwrap();
        match lessee.request(master, kind).await.unwrap() {
            Ok(_) => granted += 1,
            Err(refusal) => refused = Some(refusal),
        }
    }
    (granted, refused)
}

/// A hundred fresh starts under changing names would take the whole of the smallest pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fresh_starts_under_changing_names_leave_tokens_for_others() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let (granted, refused) = flood(&cluster, "127.0.0.9", 110).await;
    assert_eq!(granted, 50, "{refused:?}");
    let refused = refused.unwrap();
    assert!(matches!(&refused, Refusal::NetworkShare { network, .. } if network == "127.0.0.9/32"), "{refused}");
    assert!(refused.to_string().contains("--network-share"), "{refused}");

    // An honest newcomer beside it, and the operator sees what happened.
    let nth = cluster.add_agent(&["--token-types", "string2-only-number"]).unwrap();
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();

    // From further addresses too the last fifth is not to be had by newcomers, and operators are warned.
    let (granted, refused) = flood(&cluster, "127.0.0.10", 60).await;
    assert_eq!((granted, refused), (29, Some(Refusal::Kept { token_type: TokenType::String2OnlyNumber })));
    let is_low = || async {
        let metrics = cluster.client.get(&format!("http://{}/metrics", cluster.masters[0].daemon.http)).await.ok()?;
        metrics.text().contains("uniq_master_pool_low{type=\"string2-only-number\"} 1").then_some(())
    };
    until("the metric says that the pool is low", is_low).await.unwrap();
    let logged = || async { cluster.masters[0].daemon.log_tail(200).contains("only 20 of 100").then_some(()) };
    until("the log says that the pool is low", logged).await.unwrap();
}

/// So many new names by one caller, one after the other: how many were registered, and what was said of the first that was not.
async fn names<E: std::fmt::Debug>(
    prefix: &str,
    register: impl AsyncFn(Namespace) -> Result<bool, E>,
) -> (u32, Option<E>) {
    for nth in 0..2 * NAMES_AT_ONCE {
        let name = format!("{prefix}{nth}").parse().unwrap();
        match register(Namespace::define(name, &Definition::default()).unwrap()).await {
            Ok(is_new) => assert!(is_new),
            Err(refusal) => return (nth, Some(refusal)),
        }
    }
    (2 * NAMES_AT_ONCE, None)
}

/// Names are registered at one rate, whichever listener is asked; what is known may be said again, and operators have no such bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_registers_names_faster_by_another_listener() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    for (nth, address) in ["127.0.0.9", "127.0.0.10"].into_iter().enumerate() {
        let to = from(address.parse().unwrap(), cluster.masters[nth].agent_listen).await;
        let (master, agent_id) = (Lessee::connect(to).await.unwrap(), Lessee::new("stranger").unwrap().agent_id);
        let define = |namespace| DefineRequest { agent_id: agent_id.clone(), cluster: None, caller: None, namespace };
        // It says that it served the name, and has no proof.
        let restore = |namespace| {
            let shown = Registered { namespace, state: NameState::InUse, proof: None };
            RestoreRequest { agent_id: agent_id.clone(), cluster: None, shown }
        };
        let prefix = format!("at-{nth}-");
        let outcome = |reply: Result<DefineReply, Refusal>| reply.and_then(|reply| reply.outcome);
        let (registered, refused) = names(&prefix, async |namespace| {
            let would = outcome(master.try_namespace(deadline_in(CALL_MAX), define(namespace.clone())).await.unwrap());
            let reply = master.define_namespace(deadline_in(CALL_MAX), define(namespace)).await.unwrap();
            let is = outcome(reply);
            assert_eq!(would, is);
            is.map(|changed| changed == Changed::Done)
        })
        .await;
        let said = refused.expect("it was held").to_string();
        assert_eq!(registered, NAMES_AT_ONCE, "{said}");
        assert!(said.contains(&format!("90 names were registered from {address}/32")), "{said}");
        let again = Namespace::define(format!("{prefix}0").parse().unwrap(), &Definition::default()).unwrap();
        // A dry run is told the same, and takes nothing of it.
        let other = Namespace::define(format!("{prefix}x").parse().unwrap(), &Definition::default()).unwrap();
        let known = outcome(master.try_namespace(deadline_in(CALL_MAX), define(again.clone())).await.unwrap());
        assert_eq!(known, Ok(Changed::AlreadySo));
        let other = outcome(master.try_namespace(deadline_in(CALL_MAX), define(other)).await.unwrap());
        assert!(matches!(other, Err(Refusal::NamesRate { .. })), "{other:?}");
        for restores in [false, true] {
            let namespace = Namespace::define(format!("{prefix}x").parse().unwrap(), &Definition::default()).unwrap();
            let (known, other) = match restores {
                false => (
                    outcome(master.define_namespace(deadline_in(CALL_MAX), define(again.clone())).await.unwrap()),
                    outcome(master.define_namespace(deadline_in(CALL_MAX), define(namespace)).await.unwrap()),
                ),
                true => (
                    master.restore_namespace(deadline_in(CALL_MAX), restore(again.clone())).await.unwrap(),
                    master.restore_namespace(deadline_in(CALL_MAX), restore(namespace)).await.unwrap(),
                ),
            };
            // That a known name is in use is news once.
            assert_eq!(known, Ok(if restores { Changed::Done } else { Changed::AlreadySo }));
            assert!(matches!(other, Err(Refusal::NamesRate { .. })), "restores: {restores}, {other:?}");
        }
    }

    // Callers of an agent, over RPC: each has a part of what the agent may register, and another one, over HTTP, finds some left.
    let by_rpc = async |address: &str, prefix: &str| {
        let to = from(address.parse().unwrap(), cluster.agents[0].rpc_listen).await;
        let agent = MintServiceClient::new(Default::default(), connect(&to.to_string()).await.unwrap()).spawn();
        let (registered, refused) = names(prefix, async |namespace| {
            agent
                .define_generator(deadline_in(CALL_MAX), namespace, false)
                .await
                .unwrap()
                .map(|defined| defined.0.is_new)
        })
        .await;
        let refused: MintFailure = refused.expect("it was held");
        assert_eq!(refused.code, MintCode::QuotaExceeded, "{}", refused.detail);
        (registered, refused.retry_after_s)
    };
    let by_http = async |name: &str| {
        let url = cluster.agent_url(0, &format!("generators/{name}")).unwrap();
        let answer = cluster.client.ask("PUT", &url, br#"{"kind":"uniq64"}"#.to_vec()).await.unwrap();
        (answer.status, answer.text())
    };
    assert_eq!(by_rpc("127.0.0.11", "one-").await, (CALLER_NAMES_AT_ONCE, 30));
    let (status, said) = by_http("by-http").await;
    assert_eq!(status, 201, "{said}");
    assert_eq!(by_rpc("127.0.0.12", "two-").await, (CALLER_NAMES_AT_ONCE, 30));
    // What this agent registered for its callers, its masters count together.
    assert_eq!(by_rpc("127.0.0.13", "three-").await, (NAMES_AT_ONCE - 2 * CALLER_NAMES_AT_ONCE - 1, 10));
    let (status, said) = by_http("by-http-too").await;
    assert!(status == 429 && said.contains("quota_exceeded"), "{said}");

    // From the same address.
    for nth in 0..3 {
        let form = serde_json::json!({"name": format!("op-{nth}"), "kind": "uniq64"});
        let created = cluster.client.change(cluster.masters[0].daemon.http, "/api/namespaces", &form).await.unwrap();
        assert_eq!(created.status, 201, "{}", created.text());
    }
}

/// An agent that may not ask, or asks at the wrong port, is told which of the two it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_told_why_no_master_serves_it() {
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        master.daemon.set("--allow", "10.0.0.0/8");
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let unwanted = cluster.add_agent(&[]).unwrap();
    cluster.agent(unwanted).unwrap().daemon.start().unwrap();
    let peer_port = cluster.masters[0].peer_listen.to_string();
    let astray = cluster.add_agent(&[]).unwrap();
    let daemon = &mut cluster.agent(astray).unwrap().daemon;
    daemon.set("--masters", &peer_port);
    daemon.start().unwrap();
    for (nth, why) in [(unwanted, "not allowed by the masters' whitelist"), (astray, "--agent-listen")] {
        let cluster = &cluster;
        let told = || async move {
            let status = cluster.ask_agent(nth, "status").await.ok()?.text();
            status.contains(why).then_some(())
        };
        until(why, told).await.unwrap();
    }
}

/// An agent whose network leaves the whitelist says so to whoever asks it, and the masters count what they refuse it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_says_that_it_is_outside_the_whitelist() {
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        master.daemon.set("--sequence-lease", "2");
        master.daemon.start().unwrap();
    }
    let nth = cluster.add_agent(&[]).unwrap();
    cluster.agents[nth].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let (cluster, client) = (&cluster, &cluster.client);
    let url = cluster.agent_url(nth, "generators/inbox").unwrap();
    let registered = client.ask("PUT", &url, br#"{"kind":"sequence"}"#.to_vec()).await.unwrap();
    assert_eq!(registered.status, 201, "{}", registered.text());
    let given = || async { (cluster.ask_agent(nth, "sequence/inbox/a").await.ok()?.status == 200).then_some(()) };
    until("a key has numbers", given).await.unwrap();
    assert_eq!(cluster.ask_agent(nth, "readyz").await.unwrap().text(), "ready\n");

    let http = cluster.masters[0].daemon.http;
    let remove = async |body: serde_json::Value| {
        client.change_by(reqwest::Method::DELETE, http, "/api/whitelist", &body).await.unwrap()
    };
    let networks = client.console(http, "/api/whitelist").await.unwrap().json().unwrap();
    for network in networks.as_array().unwrap() {
        let range = network["network"].as_str().unwrap();
        let removed = remove(serde_json::json!({ "range": range, "confirm": range })).await;
        assert_eq!(removed.status, 200, "{}", removed.text());
        let sections = removed.json().unwrap()["sections"].as_u64().unwrap();
        assert_eq!(sections > 0, range.starts_with("127."), "{}", removed.text());
    }
    let why = "not allowed by the masters' whitelist";
    let refused = || async {
        let answer = cluster.ask_agent(nth, "sequence/inbox/a").await.ok()?;
        (answer.status == 503 && answer.text().contains(why)).then_some(())
    };
    until("the agent says why the key has no numbers", refused).await.unwrap();
    let ready = cluster.ask_agent(nth, "readyz").await.unwrap();
    assert!(ready.status == 200 && ready.text().contains(why), "its leases last: {}", ready.text());
    assert!(cluster.ask_agent(nth, "status").await.unwrap().json().unwrap()["outside_whitelist"].is_string());
    assert!(cluster.agents[nth].daemon.log_tail(400).contains("outside the whitelist of this master"));
    let metrics = client.console(http, "/metrics").await.unwrap().text();
    let counted =
        metrics.lines().find_map(|line| line.strip_prefix("uniq_master_renewals_refused_total{why=\"not_allowed\"} "));
    assert!(counted.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");

    let allowed = client.change(http, "/api/whitelist", &serde_json::json!({ "range": "127.0.0.0/8" })).await.unwrap();
    assert_eq!(allowed.status, 200, "{}", allowed.text());
    until("the key goes on", given).await.unwrap();
    let well = || async { (cluster.ask_agent(nth, "readyz").await.ok()?.text() == "ready\n").then_some(()) };
    until("nothing is wrong any more", well).await.unwrap();
}

/// Reports that somebody invents make no ghosts among the agents, and slow nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_holds_a_lease_counts_among_the_agents() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let master = Lessee::connect(cluster.masters[0].agent_listen).await.unwrap();
    let mut interval = 0;
    for nth in 0..200 {
        let ghost = Lessee::new(&format!("ghost-{nth}")).unwrap();
        let report = AgentReport {
            cluster: None,
            agent_id: ghost.agent_id,
            session: ghost.session,
            version: String::new(),
            fresh_because: None,
            uptime_ms: 0,
            clock_offset_ms: 0,
            not_ready: None,
            stops: false,
            minted: 0,
            scarcest: None,
            names: Vec::new(),
            alarm: None,
        };
        interval = master.report(deadline_in(CALL_MAX), report).await.unwrap().unwrap();
    }
    assert_eq!(interval, report_interval_ms(1));
    for (nth, most) in [(0, 1 + 64), (1, 1)] {
        let agents = cluster.client.console(cluster.masters[nth].daemon.http, "/api/agents").await.unwrap();
        let rows = agents.json().unwrap().as_array().unwrap().len();
        assert!(rows <= most, "{rows} agents at master {}", nth + 1);
    }
}

/// Two masters started with different networks: whoever either of them lets in stays when the whitelist is first changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_change_of_the_whitelist_drops_no_network() {
    let mut cluster = Cluster::new().unwrap();
    for (master, network) in cluster.masters.iter_mut().zip(["10.1.0.0/16", "10.2.0.0/16"]) {
        master.daemon.set("--allow", &format!("127.0.0.0/8,{network}"));
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let shown = |nth: usize, wanted: &'static [&'static str]| {
        let cluster = &cluster;
        move || async move {
            let answer = cluster.client.console(cluster.masters[nth].daemon.http, "/api/whitelist").await.ok()?;
            let text = answer.text();
            wanted.iter().all(|network| text.contains(network)).then_some(())
        }
    };
    for nth in 0..2 {
        until("the networks of both are shown", shown(nth, &["127.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"]))
            .await
            .unwrap();
        let logged = || async { cluster.masters[nth].daemon.log_tail(200).contains("different --allow").then_some(()) };
        until("the log says that they differ", logged).await.unwrap();
    }
    // By whichever master is home to it.
    let http = cluster.masters[0].daemon.http;
    let added = || async {
        let network = serde_json::json!({ "range": "10.3.0.0/16" });
        let answer = cluster.client.change(http, "/api/whitelist", &network).await.ok()?;
        (answer.status == 200).then_some(())
    };
    until("a third network is allowed", added).await.unwrap();
    for nth in 0..2 {
        until("all are allowed", shown(nth, &["127.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"]))
            .await
            .unwrap();
    }
}
