//! The program `uniq_generator`, also for applications that add plugins and strategies of their own: their program has the same
//! flags, and a `main` that calls [`main`]. Wiring only.
//!
//! ```no_run
//! use agent::extensions::Extensions;
//!
//! fn main() -> std::process::ExitCode {
//!     agent::program::main(Extensions::default().refusals(|call, failure| eprintln!("{}: {}", call.name, failure.detail)))
//! }
//! ```

use crate::access::{Access, CredentialList};
use crate::bootstrap::{Identity, Parts};
use crate::config::{Args, Mode};
use crate::dev::Base;
use crate::extensions::Extensions;
use crate::http;
use crate::minter::Minter;
use crate::plugin::history::{self, History, Line};
use crate::rpc::{self, Server};
use crate::sequences::Sequences;
use crate::unix_socket::{self, SocketFile};
use crate::{secret_file, workers};
use anyhow::Context as _;
use common::clock::Clock;
use common::encoding::Secrets;
use common::kind::{self, Known, TextForm, UNIQ64};
use common::parameters::{AgentId, SessionId};
use common::sequence::ServedAt;
use common::setting::predefined;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join, join_all};
use net::enroll::{self, Invited, TlsFolder};
use net::tls::{Admits, Listener, Role, Tls};
use process::descriptors::{self, Port};
use process::settings;
use process::tasks::Watch;
use process::{dump, end, program};
use serde_json::json;
use serial_file::{self, Forgotten, NUM_BLOCKS_DEFAULT, Opened, SectionFile, SectionsStart, kept_names};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The time that everything that talks may take to end; the serial file is written after that, whoever has not ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(3_300);
/// The time that the last write may take.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that threads that may block are waited for.
const THREADS_TIMEOUT: Duration = Duration::from_millis(200);
/// Descriptors that connections of clients do not get: the serial file and what is written beside it, the masters, the log,
const DESCRIPTORS_RESERVED: usize = 96;
/// and for each thread that talks its runtime, its listeners, and connections that it is about to close.
const DESCRIPTORS_RESERVED_A_THREAD: usize = 12;
/// RPC connections of a thread without which the program does not start.
const RPC_LEAST: usize = 8;
/// The name of the program in its log, also as a part of another program.
const PROGRAM: &str = "uniq_generator";
/// Lines that one search of the history shows.
const FOUND_MAX: usize = 1_000;

/// Does what the command line says, with these extensions: serves until it is told to end, or one of `--format`, `--inspect`,
/// `--explain`, `--history`. To be called once, from `main`.
pub fn main(extensions: Extensions) -> ExitCode {
    program::main(|args: Args| match args.mode() {
        Mode::Format => format(&args),
        Mode::Inspect => inspect(&args),
        Mode::ForgetClock => forget_clock(&args),
        Mode::Explain(id) => explain(&id, &args, &extensions),
        Mode::History(id) => find(&id, &args),
        Mode::Enroll => say_enrolled(enroll(&args)?),
        Mode::Renew => renew_certificate(&args),
        Mode::Serve => run(&args, extensions),
    })
}

fn format(args: &Args) -> anyhow::Result<()> {
    let now = args.flags.clock().wall();
    let num_blocks = args.num_blocks.unwrap_or(NUM_BLOCKS_DEFAULT);
    // An invitation is not used up for a file that cannot be made.
    if args.flags.invitation.is_some() && !args.serial_file.exists() {
        say_enrolled(enroll(args)?)?;
    }
    serial_file::format(&args.serial_file, num_blocks, now, SessionId(rand::random()))?;
    end::say(&format!("made the serial file {} with {num_blocks} blocks", args.serial_file.display()));
    Ok(())
}

/// Uses the invitation up, and keeps the certificate that it gives. Says whose it is, and where it is kept.
fn enroll(args: &Args) -> anyhow::Result<(Role, TlsFolder)> {
    let invitation = args.flags.invited().map_err(anyhow::Error::msg)?.context("--invitation is missing")?;
    let invited = &invitation.invited;
    let wrong = match (invited, &args.agent_id) {
        (Invited::As(Role::Master(_)), _) => Some("give it to uniq_master".to_owned()),
        (Invited::As(Role::Client(_)) | Invited::Client, _) if args.format || args.flags.tls_dir.is_none() => {
            Some("an application gets its certificate by --tls-dir FOLDER --invitation -, without --format".to_owned())
        }
        (Invited::As(Role::Agent(name)), Some(id)) if name != id => Some(format!("--agent-id is {id}")),
        (Invited::Agent, Some(id)) => Some(format!("--agent-id is {id}, and its name is drawn: invite agent/{id}")),
        _ => None,
    };
    if let Some(why) = wrong {
        anyhow::bail!("this invitation is for {invited}, and is not used up: {why}");
    }
    let folder = args.tls_folder();
    let role = runtime()?.block_on(enroll::redeem(&invitation, &folder))?;
    Ok((role, folder))
}

fn say_enrolled((role, folder): (Role, TlsFolder)) -> anyhow::Result<()> {
    end::say(&format!("got the certificate of {role}, in {}", folder.path().display()));
    Ok(())
}

fn renew_certificate(args: &Args) -> anyhow::Result<()> {
    let folder = args.tls_folder();
    let tls = Tls::load(folder.files())
        .context("what is there cannot be renewed; a new invitation (--invitation) brings another")?;
    let mut renewed = Err(anyhow::anyhow!("--masters is missing"));
    for at in &args.masters {
        renewed = runtime()?.block_on(enroll::renew(at, &tls, &folder)).map_err(anyhow::Error::from);
        if renewed.is_ok() {
            break;
        }
    }
    say_enrolled((renewed?, folder))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

fn forget_clock(args: &Args) -> anyhow::Result<()> {
    let now = args.flags.clock().wall();
    let Forgotten { mark } = serial_file::forget_clock(&args.serial_file, now, SessionId(rand::random()))?;
    let file = args.serial_file.display();
    end::say(&format!(
        "{file} begins a new session; IDs were minted up to {mark}, and the next ones follow the clock, at {now}"
    ));
    Ok(())
}

fn inspect(args: &Args) -> anyhow::Result<()> {
    let mut inspection = serial_file::inspect(&args.serial_file)?;
    match kept_names(&args.serial_file) {
        Ok(kept) => inspection.name_blocks(&kept),
        // Short names stand in the file itself.
        Err(why) => end::say(&format!("uniq_generator: {why}")),
    }
    if args.json { print(&serde_json::to_string_pretty(&inspection)?) } else { print(&inspection.to_string()) }
}

fn explain(id: &str, args: &Args, extensions: &Extensions) -> anyhow::Result<()> {
    let secrets = secrets(args)?;
    let mut names: Vec<_> = predefined().collect();
    match kept_names(&args.serial_file) {
        Ok(kept) => names.extend(kept),
        // An ID of the kinds that need no name can be taken apart nevertheless.
        Err(why) => end::say(&format!("uniq_generator: {why}")),
    }
    let names: Vec<_> = names.iter().collect();
    let (secrets, strategies, now) = (&secrets, &extensions.strategies, args.flags.clock().wall());
    let explained = kind::explain(id, &Known { names: &names, secrets, strategies, now })?;
    if args.json { print(&serde_json::to_string_pretty(&explained)?) } else { print(&explained.to_string()) }
}

fn secrets(args: &Args) -> anyhow::Result<Secrets> {
    secret_file::given(args.secret_file.as_deref(), std::env::var_os(secret_file::VARIABLE))
}

/// Every line of history that says who got this ID. Uniq64 may be asked for in any of their forms.
fn find(id: &str, args: &Args) -> anyhow::Result<()> {
    let folder = args.history_dir.as_deref().context("--history-dir is missing: say where history is kept")?;
    let number = UNIQ64.parse(id).map(|id| UNIQ64.text(id, TextForm::Decimal)).ok();
    let wanted = |line: &Line| line.contains(id) || number.as_deref().is_some_and(|number| line.contains(number));
    let mut found = Vec::new();
    let searched = history::find(folder, wanted, |line| {
        // The same ID stands in one line, or in one of each name whose scope is its own.
        if found.len() < FOUND_MAX {
            found.push(line);
        }
    });
    let at = folder.display();
    let searched = searched.with_context(|| format!("cannot read the history in {at}"))?;
    for (path, why) in &searched.unread {
        end::say(&format!("uniq_generator: {} was not read: {why}", path.display()));
    }
    if searched.torn > 0 {
        end::say(&format!("uniq_generator: {} lines were torn or changed; the ID may have been in one", searched.torn));
    }
    anyhow::ensure!(!found.is_empty(), "no line of {} in {} files in {at} has this ID", searched.lines, searched.files);
    let text = |line: &Line| {
        let Line { time, kind, name, caller, count, first, last, .. } = line;
        let range = json!({
            "time": time, "kind": kind, "name": name, "caller": caller, "count": count, "first": first, "last": last,
        });
        match args.json {
            true => range.to_string(),
            false => format!("{time}  {kind} {name}  {caller}  {count} IDs: {first} to {last}"),
        }
    };
    print(&found.iter().map(text).collect::<Vec<_>>().join("\n"))
}

fn print(text: &str) -> anyhow::Result<()> {
    end::print(text).map_err(anyhow::Error::msg)
}

fn run(args: &Args, extensions: Extensions) -> anyhow::Result<()> {
    let (stop, clock) = program::start(args).map_err(anyhow::Error::msg)?;
    let mut base = match args.dev {
        true => Base::alone(args.dev_dir.as_deref(), args.after_reboot, clock)?,
        false => Base::with_masters(&args.serial_file, args.masters.clone(), args.after_reboot)?,
    };
    let opened = &base.opened;
    let (file, session) = (opened.file.path().display(), opened.contents.header.session);
    tracing::info!(target: PROGRAM, %file, %session, start = %opened.start, "serial file opened");
    // For the masters, signals and the disk; clients are served by threads of their own.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().context("cannot start the runtime")?;
    let folder = base.folder.take();
    let done = runtime.block_on(serve(args, extensions, base, clock, stop));
    runtime.shutdown_timeout(THREADS_TIMEOUT);
    // Whoever wrote into it has ended.
    drop(folder);
    done
}

async fn serve(
    args: &Args,
    extensions: Extensions,
    base: Base,
    clock: Clock,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // Whatever ends this: from then on tasks may end too.
    let _stopping = stop.clone().drop_guard();
    let watch = Watch::new(stop.clone());
    let threads = args.threads.map_or_else(workers::threads_default, usize::from);
    let Bound { listeners, http: http_at, rpc: rpc_at, socket } = Bound::of(args, threads)?;
    let [http_max, rpc_max] = connections(threads)?;
    let agent_id = agent_id(args, http_at.unwrap_or(rpc_at).port())?;
    let (bounds, sections_start) = sections(&base.opened, &agent_id);
    let (extensions, history) = with_history(args, extensions)?;
    let (asked, serial_file) = (base.masters.join(","), base.serial_file.clone());
    let token_types = args.token_types.iter().copied().collect();
    let tls = certificates(args, &agent_id, &watch, &stop)?;
    let renew_interval = args.renew_interval();
    let identity = Identity { agent_id: agent_id.clone(), token_types, renew_interval, clock, tls: tls.clone() };
    let parts = Parts::new(base, identity, extensions).map_err(anyhow::Error::msg)?;
    let (minter, names, masters) = (Arc::clone(&parts.minter), Arc::clone(&parts.names), Arc::clone(&parts.masters));
    configure(&minter, args)?;
    names.recall().await;
    let access = Arc::new(Access::new(args.open_mint));
    let keys = CredentialList::recalled(Arc::clone(&access), Arc::clone(&masters), &serial_file);
    let sequences = parts.sequences(args.sets.clone(), args.sequence_memory, served_at(args, http_at, rpc_at));
    let sequences = sequences.with_bounds(bounds, &sections_start);
    let sequences = Arc::new(sequences.with_connections(http::connections_of(http_max)));
    let agent = http::Agent::new(Arc::clone(&minter), Arc::clone(&masters.report), agent_id.clone(), args.batch_max)
        .with_names(Arc::clone(&names))
        .with_sequences(Arc::clone(&sequences))
        .with_access(Arc::clone(&access));
    let tasks = tasks(parts, keys, &sequences, &stop).map(|(name, task)| tokio::spawn(watch.clone().over(name, task)));
    let (site, server) = (
        http::Site::new(agent, settings::host_names(&host_names(args))).with_descriptors(http_max),
        Server::new(Arc::clone(&minter), args.batch_max)
            .with_names(names)
            .with_sequences(sequences)
            .with_access(Arc::clone(&access))
            .with_connections(rpc_max),
    );
    let http_tls = tls.unless(args.http_tcp().is_some_and(|http| http.plain));
    let scheme = http_tls.scheme();
    let clients = {
        let (stop, callers) = (stop.clone(), ([http_tls, tls], args.admits(), access.any_keys()));
        let talk = move |listeners| {
            let work = talk(listeners, callers.clone(), site.clone(), server.clone(), stop.clone());
            watch.clone().over("worker", work)
        };
        workers::start(listeners, talk)?
    };
    let (http, unix) = (http_at.map(|at| format!("{scheme}://{at}/")), args.http_unix().map(Path::display));
    tracing::info!(target: PROGRAM, http, unix = unix.map(tracing::field::display), rpc = %rpc_at, masters = %asked, threads, "agent {agent_id} started");

    let gone = stop.run_until_cancelled(minter.driver().ended()).await;
    tracing::info!(target: PROGRAM, "stopping");
    stop.cancel();
    drop(socket);
    drain(join(join_all(tasks), clients.wait()), history).await;
    if let Some(why) = gone {
        anyhow::bail!(why);
    }
    write_back(minter).await;
    Ok(())
}

/// The certificate of this agent, which is read again when it changes and, if it is its own to keep, renewed.
fn certificates(args: &Args, agent_id: &AgentId, watch: &Watch, stop: &CancellationToken) -> anyhow::Result<Tls> {
    let folder = args.folder();
    let tls = args.flags.tls(&Role::Agent(agent_id.clone()), folder.as_ref()).map_err(anyhow::Error::msg)?;
    tokio::spawn(watch.clone().until_done("certificates", tls.clone().reload(stop.clone())));
    if let Some(kept) = args.flags.keeps(folder.as_ref()) {
        let keep = enroll::keep(kept.clone(), args.masters.clone(), tls.clone(), stop.clone());
        tokio::spawn(watch.clone().until_done("certificate", keep));
    }
    Ok(tls)
}

/// The agent's name: the given one, that of its certificate, or one of the host's.
fn agent_id(args: &Args, port: u16) -> anyhow::Result<AgentId> {
    let folder = args.folder();
    let certified = || match args.flags.keeps(folder.as_ref())?.role()? {
        Role::Agent(name) => Some(name),
        _ => None,
    };
    args.agent_id.clone().or_else(certified).map_or_else(|| default_agent_id(port), Ok)
}

/// Waits for everything that talks, and for the last lines of history, each for its time.
async fn drain<T>(ended: impl Future<Output = T>, history: Option<Arc<History>>) {
    if tokio::time::timeout(DRAIN_TIMEOUT, ended).await.is_err() {
        tracing::warn!(target: PROGRAM, "not everything ended in time");
    }
    if let Some(history) = history {
        let ended = tokio::task::spawn_blocking(move || history.end());
        if tokio::time::timeout(LAST_WRITE_TIMEOUT, ended).await.is_err() {
            tracing::warn!(target: PROGRAM, "the last lines of history were not written");
        }
    }
}

/// Adds the history that the command line asks for to what an application adds.
fn with_history(args: &Args, extensions: Extensions) -> anyhow::Result<(Extensions, Option<Arc<History>>)> {
    let Some(settings) = args.history_settings() else { return Ok((extensions, None)) };
    let history = History::start(&settings)?;
    let plugins = extensions.plugins.with_history(Arc::clone(&history));
    Ok((Extensions { plugins, ..extensions }, Some(history)))
}

/// The tasks that run beside the workers for as long as the program does, with the names by which their end is told.
fn tasks(
    parts: Parts,
    keys: CredentialList,
    sequences: &Arc<Sequences>,
    stop: &CancellationToken,
) -> [(&'static str, BoxFuture<'static, ()>); 5] {
    parts.masters.live_on(&Handle::current());
    let names = Arc::clone(&parts.names);
    let (heartbeat, segments) = parts.tasks();
    [
        ("heartbeat", heartbeat.run(stop.clone()).boxed()),
        ("names", names.run(stop.clone()).boxed()),
        ("keys", keys.run(stop.clone()).boxed()),
        ("segments", segments.run(stop.clone()).boxed()),
        ("sequences", Arc::clone(sequences).run(stop.clone()).boxed()),
    ]
}

/// Connections to the HTTP and to the RPC listener that there are descriptors for.
fn connections(threads: usize) -> anyhow::Result<[usize; 2]> {
    let limit = descriptors::raise();
    let reserve = DESCRIPTORS_RESERVED + threads * DESCRIPTORS_RESERVED_A_THREAD;
    let rpc_port = Port { most: threads * rpc::LIMITS.connections_max, least: threads * RPC_LEAST };
    let [http_max, rpc_max] = descriptors::split(limit, reserve, [http::DESCRIPTORS, rpc_port])?;
    tracing::info!(target: PROGRAM,
        limit,
        reserve,
        http = http_max,
        rpc = rpc_max,
        "file descriptors, and how many are for whose connections"
    );
    Ok([http_max, rpc_max])
}

/// Tells minting what the command line says of it.
fn configure(minter: &Minter, args: &Args) -> anyhow::Result<()> {
    minter.driver().reserve_last(args.reserved_percent)?;
    if args.one_segment {
        minter.driver().fetch_one_segment()?;
    }
    if args.secret_file.is_some() || std::env::var_os(secret_file::VARIABLE).is_some() {
        dump::forbid();
    }
    minter.extras().keep_secrets(secrets(args)?);
    Ok(())
}

async fn write_back(minter: Arc<Minter>) {
    let last_write = tokio::task::spawn_blocking(move || minter.end());
    match tokio::time::timeout(LAST_WRITE_TIMEOUT, last_write).await {
        Ok(Ok(Ok(()))) => tracing::info!(target: PROGRAM, "stopped; unused serials were written back"),
        // No error: the marks that are durable are high enough, as after a crash.
        _ => tracing::warn!(target: PROGRAM, "stopped; unused serials were not written back and are a gap"),
    }
}

/// Reads the bounds of the sections that a process before served.
fn sections(opened: &Opened, agent_id: &AgentId) -> (SectionFile, SectionsStart) {
    let (bounds, start) = opened.sections(agent_id, SessionId(rand::random()));
    match &start {
        SectionsStart::Resumed => {
            let (sections, session) = (bounds.bounds().len(), bounds.session());
            tracing::info!(target: PROGRAM, sections, %session, "bounds of sections found");
        }
        SectionsStart::Fresh(reason) => {
            tracing::info!(target: PROGRAM, %reason, "sections are served by a new session")
        }
    }
    (bounds, start)
}

/// The listeners of a worker: for HTTP at an address and at a Unix socket, and for RPC.
type Listeners = (Option<TcpListener>, Option<UnixListener>, TcpListener);

/// The listeners of all workers.
struct Bound {
    listeners: Vec<Listeners>,
    http: Option<SocketAddr>,
    rpc: SocketAddr,
    socket: Option<SocketFile>,
}

impl Bound {
    fn of(args: &Args, threads: usize) -> anyhow::Result<Self> {
        let http = args.http_tcp().map(|http| bind(http.at, threads, "--http-listen")).transpose()?;
        let (rpc_listeners, rpc) = bind(args.rpc_listen, threads, "--rpc-listen")?;
        let socket = args.http_unix().map(|at| unix_socket::listen(at, args.socket_mode, args.socket_group.as_deref()));
        let (unix, socket) = socket.transpose()?.unzip();
        let (http_listeners, http) = http.unzip();
        let mut http_listeners = http_listeners.into_iter().flatten();
        let of_each = |rpc| {
            // All workers share it.
            let unix =
                unix.as_ref().map(UnixListener::try_clone).transpose().context("cannot share the Unix socket")?;
            Ok((http_listeners.next(), unix, rpc))
        };
        let listeners = rpc_listeners.into_iter().map(of_each).collect::<anyhow::Result<_>>()?;
        Ok(Self { listeners, http, rpc, socket })
    }
}

/// Serves the listeners of a worker, for HTTP and for RPC.
async fn talk(
    (http, unix, rpc): Listeners,
    ([http_tls, rpc_tls], admits, any_keys): ([Tls; 2], Admits, Arc<AtomicBool>),
    site: http::Site,
    server: Server,
    stop: CancellationToken,
) {
    // To show an API key takes no certificate.
    let port =
        |tls: &Tls, tcp| tls.port_open_while(tokio::net::TcpListener::from_std(tcp)?, admits, Arc::clone(&any_keys));
    let unix = unix.map(|unix| tokio::net::UnixListener::from_std(unix).map(Listener::from));
    let http = http.map(|http| port(&http_tls, http)).into_iter().chain(unix).collect::<io::Result<Vec<_>>>();
    match (http, port(&rpc_tls, rpc)) {
        (Ok(http), Ok(rpc)) => {
            let http = http.into_iter().map(|http| http::serve(http, site.clone(), stop.clone()));
            tokio::join!(join_all(http), server.run(rpc, stop.clone()));
        }
        (Err(error), _) | (_, Err(error)) => tracing::error!(target: PROGRAM, %error, "a worker cannot listen"),
    }
}

fn bind(address: SocketAddr, threads: usize, flag: &str) -> anyhow::Result<(Vec<TcpListener>, SocketAddr)> {
    let listeners = workers::listeners(address, threads).with_context(|| {
        format!("cannot listen on {address}; end what listens there, or give another address with {flag}")
    })?;
    let at = listeners.first().context("no listener")?.local_addr()?;
    Ok((listeners, at))
}

/// The names under which clients ask: also that which routes lead to.
fn host_names(args: &Args) -> Vec<String> {
    let advertised = args.advertise_http.iter().filter_map(|at| Some(at.rsplit_once(':')?.0.to_owned()));
    args.flags.host_names.iter().cloned().chain(advertised).collect()
}

/// Addresses where other agents are told to ask for keys of sections that are served here. Plain HTTP of this machine is not one.
fn served_at(args: &Args, http: Option<SocketAddr>, rpc: SocketAddr) -> ServedAt {
    let http = http.filter(|_| !args.http_tcp().is_some_and(|http| http.plain));
    ServedAt {
        http: args.advertise_http.clone().or_else(|| http.map(settings::reached_at)).unwrap_or_default(),
        rpc: args.advertise_rpc.clone().unwrap_or_else(|| settings::reached_at(rpc)),
    }
}

/// `<host name>-<port>`, without the characters that a name may not have.
fn default_agent_id(port: u16) -> anyhow::Result<AgentId> {
    let node = rustix::system::uname();
    let host = node.nodename().to_string_lossy().into_owned();
    let port = format!("-{port}");
    let fits = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let host: String = host.chars().filter(fits).take(AgentId::LEN_MAX - port.len()).collect();
    format!("{host}{port}").parse().context("this machine's name makes no agent name; give one with --agent-id")
}
