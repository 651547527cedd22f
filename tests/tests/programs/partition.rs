//! Masters and agents on machines of their own, cut from each other every way: nothing is granted that only one master
//! knows of, what was promised is kept, minting and renewals go on, and healed all agree again.
//!
//! Machines are network namespaces, cuts are nft rules. Packets of one direction are dropped, or only those of the
//! connection that one of two masters opened: then one hears the other and is not heard. `scripts/partition.sh` sets
//! `UNIQ_PARTITION_ROUNDS` for the long form: each round cuts every pair again, for a time drawn anew.

use common::lease::Grant;
use common::token::TokenType;
use net::rpc::lease::Refusal;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::cluster::{Cluster, until, until_status};
use tests::lessee::Lessee;
use tests::load::{Load, Pace};
use tests::netns::{self, Net, Node};
use tests::oracle::Oracle;
use tests::variables;
use tokio::task::JoinSet;

const AGENTS: usize = 2;
/// Sessions that ask each master for a token while the masters are cut from each other.
const ASKING: usize = 3;
/// IDs that must come in each situation.
const IDS: usize = 2_000;
/// The time that a client rests between two answers: many debug programs share the machine.
const REST: Duration = Duration::from_millis(700);
/// Connections that the port between the masters takes.
const PEER_PLACES: usize = master::replication::link::LIMITS.connections_max;
/// In the long form: how long a cut lasts beyond what is looked at, at most, in milliseconds.
const LASTS_MS_MAX: u64 = 20_000;

#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Neither gets a packet of the other.
    Both,
    /// No packet of the other reaches this one.
    Packets { deaf: usize },
    /// Messages of the other do not reach this one, which is heard.
    Messages { deaf: usize },
}

impl Cut {
    /// Masters that hear nothing of the other and will say so. With packets lost one way no connection lives.
    fn deaf(self) -> Vec<usize> {
        match self {
            Self::Both | Self::Packets { .. } => vec![0, 1],
            Self::Messages { deaf } => vec![deaf],
        }
    }
}

/// Two masters and their agents, each on a machine of its own, with clients.
struct Pair {
    cluster: Cluster,
    masters: [Node; 2],
    agents: Vec<Node>,
    /// The machine of an agent that is yet to come.
    spare: Node,
    oracle: Arc<Oracle>,
}

type Held = BTreeMap<(String, String), (u64, String, String)>;

impl Pair {
    /// Makes the machines; nothing runs yet.
    fn new(net: &mut Net) -> Self {
        let mut cluster = Cluster::new().unwrap();
        let masters = [net.node().unwrap(), net.node().unwrap()];
        netns::move_masters(&mut cluster, &masters).unwrap();
        let agents = (0..AGENTS).map(|_| net.node().unwrap()).collect();
        Self { cluster, masters, agents, spare: net.node().unwrap(), oracle: Arc::default() }
    }

    /// Starts everything, and clients.
    async fn start(&mut self, seed: u64) -> Load {
        for master in &mut self.cluster.masters {
            master.daemon.start().unwrap();
        }
        for agent in &self.agents {
            add_agent(&mut self.cluster, agent);
        }
        self.cluster.all_ready().await.unwrap();
        let addresses: Vec<_> = self.cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
        Load::paced(&self.cluster.client, &addresses, &self.oracle, seed, Pace::resting(REST))
    }

    fn cut(&self, cut: Cut) {
        let [one, two] = &self.masters;
        let ends = |deaf: usize| if deaf == 0 { (one, two) } else { (two, one) };
        match cut {
            Cut::Both => {
                one.deafen(two).unwrap();
                two.deafen(one).unwrap();
            }
            Cut::Packets { deaf } => ends(deaf).0.deafen(ends(deaf).1).unwrap(),
            Cut::Messages { deaf } => {
                let port = self.cluster.masters[deaf].peer_listen.port();
                ends(deaf).0.deafen_port(ends(deaf).1, port).unwrap();
            }
        }
    }

    fn heal(&self) {
        for node in self.masters.iter().chain(&self.agents).chain([&self.spare]) {
            node.heal().unwrap();
        }
    }

    fn listens(&self) -> [SocketAddr; 2] {
        [self.cluster.masters[0].agent_listen, self.cluster.masters[1].agent_listen]
    }

    /// The leases that a master has on record as held: by type and token the grant, the session and the end.
    async fn held(&self, master: usize) -> Held {
        let rows = self.cluster.leases(master, "state=held").await.unwrap();
        let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
        let entry = |row: &serde_json::Value| {
            (
                (text(row, "type"), text(row, "token")),
                (row["g"].as_u64().unwrap(), text(row, "session"), text(row, "until")),
            )
        };
        rows.iter().map(entry).collect()
    }

    /// The latest end that either master has promised for each lease.
    async fn promised(&self) -> Held {
        let mut promised = self.held(0).await;
        for (token, (g, session, until)) in self.held(1).await {
            let mine = promised.entry(token.clone()).or_insert_with(|| (g, session.clone(), until.clone()));
            assert_eq!((&mine.0, &mine.1), (&g, &session), "the masters differ on who holds {token:?}");
            mine.2 = mine.2.clone().max(until);
        }
        promised
    }

    /// Waits until each lease of these agents was renewed further by one of the masters.
    async fn renewals_go_on(&self, agents: &[usize]) {
        let mut tokens = BTreeSet::new();
        for nth in agents {
            let leases =
                || async { self.cluster.agent_status(*nth).await.ok().filter(|status| status.leases.len() == 2) };
            let (status, _) = until("a lease of each type", leases).await.unwrap();
            tokens.extend(status.leases.into_iter().map(|lease| (lease.token_type, lease.token)));
        }
        assert_eq!(tokens.len(), 2 * agents.len(), "two agents share a token: {tokens:?}");
        let before = self.promised().await;
        let renewed = || async {
            let now = self.promised().await;
            tokens.iter().all(|token| now[token].2 > before[token].2).then_some(())
        };
        until("every lease is renewed", renewed).await.unwrap();
    }

    async fn minting_goes_on(&self, load: &mut Load) {
        let goal = self.oracle.total() + IDS;
        until("more IDs", || async { (self.oracle.total() > goal).then_some(()) }).await.unwrap();
        load.check().unwrap();
    }

    /// Asks each master for tokens; none may grant one. Gives who asked.
    async fn nothing_is_granted(&self, cut: Cut, round: usize) -> Vec<Lessee> {
        let mut asking = JoinSet::new();
        for (at, listen) in self.listens().into_iter().enumerate() {
            for nth in 0..ASKING {
                let lessee = Lessee::new(&format!("asks-{round}-{at}-{nth}")).unwrap();
                asking.spawn(async move {
                    let master = Lessee::connect(listen).await.unwrap();
                    let answer = lessee.request(&master, TokenType::Uint2).await.unwrap();
                    (lessee, answer)
                });
            }
        }
        let mut lessees = Vec::new();
        for (lessee, answer) in asking.join_all().await {
            let refused = matches!(answer, Err(Refusal::PeerAway | Refusal::Retry));
            assert!(refused, "{cut:?}: {} was answered {answer:?}", lessee.agent_id);
            lessees.push(lessee);
        }
        lessees
    }

    /// After the cut: all is ready, and both tables show the same, with nothing shorter than it was promised.
    async fn agrees_again(&mut self, promised: &Held) {
        self.cluster.all_ready().await.unwrap();
        let agree = || async {
            let (one, two) = (self.held(0).await, self.held(1).await);
            (one == two).then_some(one)
        };
        let (now, took) = until("both tables show the same", agree).await.unwrap();
        println!("  both tables show the same {} leases {took:?} after both masters were ready", now.len());
        for (token, (g, session, until)) in promised {
            let kept = now.get(token).is_some_and(|(now_g, now_session, now_until)| {
                now_g == g && now_session == session && now_until >= until
            });
            assert!(kept, "{token:?} was promised to {session} until {until}, and is {:?}", now.get(token));
        }
    }

    async fn lives_through(&mut self, load: &mut Load, cut: Cut, round: usize, lasts: Duration) {
        let began = Instant::now();
        let at = |what: &str| println!("{cut:?}: {what} after {:.1} s", began.elapsed().as_secs_f64());
        self.cut(cut);
        for deaf in cut.deaf() {
            let client = self.cluster.client.clone();
            until_status(&client, &mut self.cluster.masters[deaf].daemon, "/readyz", 503).await.unwrap();
        }
        at("noticed");
        let lessees = self.nothing_is_granted(cut, round).await;
        at("nothing granted");
        self.renewals_go_on(&[0, 1]).await;
        at("all renewed");
        self.minting_goes_on(load).await;
        tokio::time::sleep(lasts).await;
        let promised = self.promised().await;
        self.heal();
        at("healed");
        self.agrees_again(&promised).await;
        at("agreed again");
        let mut values = BTreeSet::new();
        for lessee in &lessees {
            let Grant { key, .. } = lessee.obtain(self.listens(), TokenType::Uint2).await.unwrap();
            let theirs = promised.contains_key(&("uint2".to_owned(), key.to_string()));
            assert!(values.insert(key) && !theirs, "{} got {key}, which somebody has", lessee.agent_id);
        }
        at("all granted");
    }

    /// Agents cut from one master, from the other, and from both.
    async fn agents_are_cut_off(&mut self, load: &mut Load) {
        for (master, one_way) in [(0, true), (1, false)] {
            for agent in &self.agents {
                agent.deafen(&self.masters[master]).unwrap();
                if !one_way {
                    self.masters[master].deafen(agent).unwrap();
                }
            }
            self.renewals_go_on(&[0, 1]).await;
            self.heal();
            println!("agents cut from master {}: renewed by the other one", master + 1);
        }
        for agent in self.agents.iter().chain([&self.spare]) {
            for master in &self.masters {
                master.deafen(agent).unwrap();
            }
        }
        // One of them is even killed: it needs no master to go on. A new one does.
        let client = self.cluster.client.clone();
        let before = self.cluster.agent_status(0).await.unwrap();
        let daemon = &mut self.cluster.agents[0].daemon;
        daemon.kill_9();
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
        let after = self.cluster.agent_status(0).await.unwrap();
        assert!(after.resumed && after.tokens() == before.tokens(), "{after:?} after {before:?}");
        let new = add_agent(&mut self.cluster, &self.spare);
        until_status(&client, &mut self.cluster.agents[new].daemon, "/healthz", 200).await.unwrap();
        self.minting_goes_on(load).await;
        let answer = self.cluster.ask_agent(new, "uniq64").await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (503, "no_lease"), "{}", answer.text());
        let promised = self.promised().await;
        self.heal();
        println!("agents cut from both masters: minted on, resumed, and a new one waited");
        self.agrees_again(&promised).await;
        self.renewals_go_on(&[0, 1, new]).await;
    }

    /// A master is started anew while nothing of what it says arrives: it hears the other one and is not heard. It says so,
    /// renews alone, and agrees with the other one when it is heard again.
    async fn a_master_is_restarted_unheard(&mut self, load: &mut Load) {
        // One agent knows this master only.
        let (only, client) = (self.cluster.masters[0].agent_listen.to_string(), self.cluster.client.clone());
        let daemon = &mut self.cluster.agents[0].daemon;
        daemon.terminate().await.unwrap();
        daemon.set("--masters", &only);
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
        self.cut(Cut::Messages { deaf: 1 });
        let daemon = &mut self.cluster.masters[0].daemon;
        daemon.kill_9();
        daemon.start().unwrap();
        let http = self.cluster.masters[0].daemon.http;
        let alone = || async { (self.cluster.master_row(http).await.ok()?["mode"] == "ready-alone").then_some(()) };
        until("the master that is not heard goes on alone", alone).await.unwrap();
        let why = client.get(&format!("http://{http}/readyz")).await.unwrap();
        let named = why.text().contains("is heard, but does not answer") && why.text().contains("--peer");
        assert!(why.status == 503 && named, "{}", why.text());
        self.renewals_go_on(&[0, 1]).await;
        self.minting_goes_on(load).await;
        let promised = self.promised().await;
        self.heal();
        self.agrees_again(&promised).await;
        self.renewals_go_on(&[0, 1]).await;
    }

    /// A machine fills the port between the masters with connections and dies without a word. The other master, started
    /// anew, must find a place all the same, once the kernel has noticed.
    async fn a_machine_vanishes(&mut self) {
        let (master, peer) = (&self.masters[0], self.cluster.masters[0].peer_listen);
        let script = "for _ in $(seq $3); do exec {fd}<>/dev/tcp/$1/$2; done; echo connected; exec sleep 1000";
        let mut machine = self.spare.command("bash");
        machine.args([
            "-c",
            script,
            "bash",
            &peer.ip().to_string(),
            &peer.port().to_string(),
            &PEER_PLACES.to_string(),
        ]);
        let mut machine = machine.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(machine.stdout.take().unwrap()).read_line(&mut said).unwrap();
        master.deafen(&self.spare).unwrap();
        machine.kill().unwrap();
        machine.wait().unwrap();
        assert_eq!(said, "connected\n");
        let (client, daemon) = (self.cluster.client.clone(), &mut self.cluster.masters[1].daemon);
        daemon.kill_9();
        daemon.start().unwrap();
        let began = Instant::now();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
        println!("both masters ready {:?} after a machine with {PEER_PLACES} connections vanished", began.elapsed());
    }

    async fn ends(self, load: Load) {
        let troubles = load.stop().await.unwrap();
        let verdict = self.oracle.verdict();
        println!("{verdict}\n  meanwhile clients met: {troubles:?}");
        assert_eq!(verdict.duplicates, 0, "{verdict}");
        // One agent was killed once, between two of its clients' answers.
        let harmless = ["no connection", "broken off", "clock_behind"];
        assert!(troubles.keys().all(|code| harmless.contains(&code.as_str())), "clients met {troubles:?}");
    }
}

fn add_agent(cluster: &mut Cluster, node: &Node) -> usize {
    let nth = cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
    netns::move_agent(cluster, nth, node).unwrap();
    cluster.agents[nth].daemon.start().unwrap();
    nth
}

async fn cut_every_way() {
    let rounds = variables::number_or("UNIQ_PARTITION_ROUNDS", 0);
    let seed = variables::seed();
    let mut net = Net::new().unwrap();
    let plans: [&[Cut]; 3] = [
        &[Cut::Both],
        &[Cut::Packets { deaf: 0 }, Cut::Packets { deaf: 1 }],
        &[Cut::Messages { deaf: 0 }, Cut::Messages { deaf: 1 }],
    ];
    // Side by side, because a cut is mostly waited for.
    let mut running = JoinSet::new();
    for (nth, plan) in plans.into_iter().enumerate() {
        let mut random = SmallRng::seed_from_u64(seed.wrapping_add(nth as u64));
        let mut pair = Pair::new(&mut net);
        running.spawn(async move {
            let mut load = pair.start(seed).await;
            for round in 0..=rounds {
                for (part, cut) in plan.iter().enumerate() {
                    let lasts = if rounds == 0 { 0 } else { random.random_range(0..=LASTS_MS_MAX) };
                    let (nth, lasts) = (round * plan.len() + part, Duration::from_millis(lasts));
                    pair.lives_through(&mut load, *cut, nth, lasts).await;
                }
            }
            if nth == 0 {
                pair.agents_are_cut_off(&mut load).await;
            }
            pair.ends(load).await;
        });
    }
    let mut pair = Pair::new(&mut net);
    running.spawn(async move {
        let load = pair.start(seed).await;
        pair.a_machine_vanishes().await;
        pair.ends(load).await;
    });
    let mut pair = Pair::new(&mut net);
    running.spawn(async move {
        let mut load = pair.start(seed).await;
        pair.a_master_is_restarted_unheard(&mut load).await;
        pair.ends(load).await;
    });
    running.join_all().await;
}

#[test]
fn cut_every_way_nothing_is_granted_twice_and_all_agree_again() {
    netns::enter(async || cut_every_way().await).unwrap();
}
