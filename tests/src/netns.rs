//! Machines of their own for masters and agents: network namespaces on one bridge, between which packets can be dropped
//! in either direction.

use crate::cluster::Cluster;
use crate::unshare::{Namespaces, block_on};
use anyhow::{Context as _, Result, bail};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

const NETWORKS: Namespaces = Namespaces {
    flags: &["--net", "--mount"],
    // Names of namespaces are files below /run, which must be ours and is nobody else's business.
    setup: "mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up",
    probe: "ip netns add a && ip link add br0 type bridge && ip link add a0 type veth peer name eth0 netns a \
            && ip link set a0 master br0 && nsenter --net=/run/netns/a nft add table inet cut",
    wanted: "UNIQ_NETNS",
    what: "network namespaces with a bridge and nft",
};
const NETNS: &str = "/run/netns";
/// Addresses for tests of networks (RFC 2544), which nobody has.
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const PREFIX: u8 = 24;
/// The bridge, and the test itself.
const OURS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const FIRST: u8 = 10;

/// Runs a test, the function that this closure stands in, in a network of its own.
///
/// # Errors
/// See [`Namespaces::run`].
pub fn enter<Test: AsyncFnOnce()>(test: Test) -> Result<()> {
    NETWORKS.run::<Test>(|| block_on(test()))
}

fn run(program: &str, args: &str) -> Result<()> {
    let done = Command::new(program).args(args.split_whitespace()).output();
    let done = done.with_context(|| format!("cannot run {program}"))?;
    if !done.status.success() {
        bail!("{program} {args}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

/// The bridge.
pub struct Net {
    next: u8,
}

impl Net {
    /// The bridge, with the test on it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> Result<Self> {
        run("ip", "link add br0 type bridge")?;
        run("ip", &format!("address add {OURS}/{PREFIX} dev br0"))?;
        run("ip", "link set br0 up")?;
        Ok(Self { next: FIRST })
    }

    /// A machine.
    ///
    /// # Errors
    /// If it cannot be made, or there are no more addresses.
    pub fn node(&mut self) -> Result<Node> {
        let host = self.next;
        self.next = host.checked_add(1).context("too many machines")?;
        let [a, b, c, _] = NETWORK.octets();
        let node = Node { name: format!("n{host}"), ip: Ipv4Addr::new(a, b, c, host) };
        let Node { name, ip } = &node;
        run("ip", &format!("netns add {name}"))?;
        run("ip", &format!("link add {name} type veth peer name eth0 netns {name}"))?;
        run("ip", &format!("link set {name} master br0 up"))?;
        node.inside("ip", "link set lo up")?;
        node.inside("ip", &format!("address add {ip}/{PREFIX} dev eth0"))?;
        node.inside("ip", "link set eth0 up")?;
        node.inside("nft", "add table inet cut")?;
        node.inside("nft", "add chain inet cut in { type filter hook input priority 0 ; policy accept ; }")?;
        Ok(node)
    }
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Node {
    name: String,
    /// Its address.
    pub ip: Ipv4Addr,
}

impl Node {
    fn namespace(&self) -> PathBuf {
        Path::new(NETNS).join(&self.name)
    }

    fn inside(&self, program: &str, args: &str) -> Result<()> {
        run("nsenter", &format!("--net={} {program} {args}", self.namespace().display()))
    }

    /// A program that will run on it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace().display())).arg(program);
        command
    }

    /// Drops every packet that comes from `other`; what goes there still arrives.
    ///
    /// # Errors
    /// If nft does not take it.
    pub fn deafen(&self, other: &Node) -> Result<()> {
        self.inside("nft", &format!("add rule inet cut in ip saddr {} drop", other.ip))
    }

    /// Drops what comes from `other` to a port of ours: of two connections, one each way, only the other's own breaks.
    ///
    /// # Errors
    /// If nft does not take it.
    pub fn deafen_port(&self, other: &Node, port: u16) -> Result<()> {
        self.inside("nft", &format!("add rule inet cut in ip saddr {} tcp dport {port} drop", other.ip))
    }

    /// Lets everything through again.
    ///
    /// # Errors
    /// If nft does not take it.
    pub fn heal(&self) -> Result<()> {
        self.inside("nft", "flush chain inet cut in")
    }

    fn at(&self, address: SocketAddr) -> SocketAddr {
        SocketAddr::from((self.ip, address.port()))
    }
}

/// Moves both masters, not started yet, to machines of their own.
///
/// # Errors
/// If there is no such master.
pub fn move_masters(cluster: &mut Cluster, nodes: &[Node; 2]) -> Result<()> {
    let [one, two] = nodes;
    for (nth, node, other) in [(0, one, two), (1, two, one)] {
        let peer = cluster.master(1 - nth)?.peer_listen.port();
        let master = cluster.master(nth)?;
        let ours = [&mut master.agent_listen, &mut master.peer_listen, &mut master.daemon.http];
        for address in ours {
            *address = node.at(*address);
        }
        let (agents, peers, web) = (master.agent_listen, master.peer_listen, master.daemon.http);
        for (flag, value) in [("--agent-listen", agents), ("--peer-listen", peers), ("--web-listen", web)] {
            master.daemon.set(flag, &value.to_string());
        }
        master.daemon.set("--peer", &format!("{}:{peer}", other.ip));
        master.daemon.set("--allow", &format!("{NETWORK}/{PREFIX}"));
        master.daemon.args.push("--insecure".to_owned());
        master.daemon.run_inside(&node.namespace());
    }
    Ok(())
}

/// Moves an agent, not started yet, to a machine.
///
/// # Errors
/// If there is no such agent.
pub fn move_agent(cluster: &mut Cluster, nth: usize, node: &Node) -> Result<()> {
    let agent = cluster.agent(nth)?;
    agent.daemon.http = node.at(agent.daemon.http);
    agent.rpc_listen = node.at(agent.rpc_listen);
    let (http, rpc) = (agent.daemon.http.to_string(), agent.rpc_listen.to_string());
    agent.daemon.set("--http-listen", &http);
    agent.daemon.set("--rpc-listen", &rpc);
    agent.daemon.args.push("--insecure".to_owned());
    agent.daemon.run_inside(&node.namespace());
    Ok(())
}
