//! `uniq_master`: wiring only.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

use anyhow::{Context as _, bail};
use common::account::{Login, SecretHash, User};
use common::audit::Actor;
use common::clock::Clock;
use common::parameters::{ClusterId, EpochId, MasterId};
use common::segment::MasterRun;
use common::setting::SettingValue;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use master::accounts;
use master::admin::Admin;
use master::audit_files::{self, AuditFiles, Writer};
use master::bootstrap::{self, Reset};
use master::config::Args;
use master::driver::{self, Counters, Driver};
use master::enroll::{self, Enrollment};
use master::invitations::Inviting;
use master::invite;
use master::lease::Loaded;
use master::lease::remedy::vouch as vouched;
use master::lease::{Identity, Write};
use master::ledger::{Ledger, Salt};
use master::registry::AgentRegistry;
use master::remedy;
use master::replication::join::declare_lost;
use master::replication::link::Inbox;
use master::replication::places::PeerPlaces;
use master::replication::{joining, link};
use master::rpc::{self, ReportContext};
use master::setting::SettingsTable;
use master::store::{self, Audit, Draft as _, Store, check};
use master::whitelist::Whitelist;
use net::enroll::TlsFolder;
use net::rpc::peer::JoinToken;
use net::tls::{Admits, Listener, Role, Tls};
use process::descriptors::{self, Port};
use process::settings;
use process::tasks::Watch;
use process::{end, program};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use web::{Accounts, Auth, AuthSettings, FlagRow};

/// Users and logins that the console begins with.
struct Console {
    /// The users who were logged in when this master ended.
    logins: Vec<(SecretHash, Login)>,
    /// The first user, where there are none yet.
    first_admin: Option<User>,
    /// The reset that --reset-admin asks for.
    reset: Option<Reset>,
}

/// Bytes that are read of a file with a join token at most.
const TOKEN_FILE_LEN_MAX: u64 = 1_024;
/// Descriptors that connections of agents and operators do not get: the store's files, the log, the other master's connections
/// and those that want to be.
const DESCRIPTORS_RESERVED: usize = 128 + link::LIMITS.connections_max;
/// The descriptors that the console can use.
const CONSOLE_DESCRIPTORS: Port = Port { most: web::CONNECTIONS_MAX, least: 64 };
/// The longest time that open connections may take to end; then they are cut.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    // Everything that a master writes is its own: hashes of passwords, the first password, who holds what.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    program::main(|args: Args| {
        if let Some(invitation) = &args.invite {
            invite::invite(&args, invitation)
        } else if args.format {
            format(&args)
        } else if args.peer_lost {
            peer_lost(&args)
        } else if args.after_revert {
            after_revert(&args)
        } else if args.forget_clock {
            forget_clock(&args)
        } else if let Some(files) = &args.verify_audit {
            verify_audit(&args, files.as_deref())
        } else if args.check_store {
            check_store(&args)
        } else if args.join.is_some() || args.join_file.is_some() {
            join(&args)
        } else if args.flags.invitation.is_some() {
            // Of a store that was formatted without.
            end::say(invite::begin(&args, None)?.trim_end());
            Ok(())
        } else {
            run(args)
        }
    })
}

fn format(args: &Args) -> anyhow::Result<()> {
    let id = args.id.context("--format needs --id 1 or --id 2")?;
    let first = id == MasterId::One;
    let identity = Identity {
        master: id,
        // Master 1 draws the names of the cluster and of the pairing; master 2 takes them over when they meet.
        cluster: first.then(|| ClusterId(rand::random())),
        epoch: first.then(|| EpochId(rand::random())),
        pair_epoch: 1,
        former: Vec::new(),
        paired: false,
        awaiting: None,
        parameters: args.parameters()?,
    };
    let parameters = identity.parameters;
    let mut writes = vec![Write::Identity(identity)];
    let mut note = "agents of an earlier cluster stop minting when they hear a master of this one (wrong_cluster); each goes on \
                    after `uniq_generator --format` with a new --serial-file. If they may still mint unheard, because both \
                    stores of that cluster were lost, remove this store and format both with --after-total-loss"
        .to_owned();
    if args.after_total_loss {
        let (floor, said) = remedy::total_loss(args, &parameters);
        writes.extend(floor);
        note = format!("{said}: until then agents of the lost cluster may still mint. Format the other one alike");
    }
    let mut draft = store::draft(&args.data_dir)?;
    draft.commit(&writes, 0)?;
    let certified = invite::begin(args, Some(id))?;
    draft.publish()?;
    end::say(&format!("made the store of master {id} in {}: {parameters}\n{certified}{note}", args.data_dir.display()));
    Ok(())
}

fn after_revert(args: &Args) -> anyhow::Result<()> {
    let said = remedy::revert(args)?;
    end::say(&format!("{said}\nRun the same on the other stopped master, then start both"));
    Ok(())
}

fn forget_clock(args: &Args) -> anyhow::Result<()> {
    let was = remedy::forget_clock(args)?;
    end::say(&format!(
        "forgot that both calendars once showed {was}. Run the same on the other stopped master, then start both; an agent that \
         says clock_behind goes on after `uniq_generator --format` with a new --serial-file"
    ));
    Ok(())
}

fn peer_lost(args: &Args) -> anyhow::Result<()> {
    let (mut store, mut loaded) = store::open(&args.data_dir)?;
    if !loaded.identity.paired {
        bail!("this master never met the other one: format both again instead");
    }
    if loaded.observed.rolled_back {
        bail!(
            "this master's own ledger is older than what the other one knows, so it must not go on alone: run \
             `uniq_master --peer-lost` on the other one, and let a new one --join in this one's place"
        );
    }
    if let Err(why) = &loaded.proven
        && !args.vouch_untouched
    {
        bail!(
            "this master's store is not proven to be the one it last wrote ({why}), and an older one must not go on alone: \
             it may grant again what it has forgotten. If you know that it was not copied, put back or reverted since its \
             master last ran and that no copy of it runs, say so with --vouch-untouched"
        );
    }
    vouch(&mut store, &mut loaded, args)?;
    let token = JoinToken(rand::random());
    let actor = Actor::new("operator", "uniq_master --peer-lost");
    let now = args.flags.clock().wall();
    let writes = declare_lost(&loaded, EpochId(rand::random()), link::hash(&token), actor, now);
    store.commit(&writes, loaded.lsn.saturating_add(1))?;
    let other = loaded.identity.master.other();
    if !loaded.sections.is_empty() || !loaded.section_preps.is_empty() {
        end::say(&format!(
            "numbers of sequences jump by their solo_allowance, which covers what master {other} may have raised alone: none is given \
             twice. If master {other} still runs, agents that reach it alone go on with their sections until it hears that it is replaced, \
             and their numbers do not come in order with those of others: stop it, or keep agents from it. Until the new master has joined \
             this one alone knows how far the sequences went: do not put its disk back"
        ));
    }
    end::say(&format!(
        "master {other} counts as lost from now on, even if it still runs: its messages are refused. Start this master as usual,\n\
         and on the machine of the replacement run, once, with this master's --peer-listen as HOST:PORT:\n\
         uniq_master --join TOKEN --data-dir DIR --id {other} --peer HOST:PORT\n\
         and, where the cluster has a CA of its own, --invitation FILE with the line that `uniq_master --invite master` prints here"
    ));
    // The token alone on standard output, for scripts.
    end::print(&token.to_string()).map_err(anyhow::Error::msg)
}

/// Writes down an operator's word for the store, if it was given and is needed.
fn vouch(store: &mut impl Store, loaded: &mut Loaded, args: &Args) -> anyhow::Result<()> {
    let actor = Actor::new("operator", "uniq_master --vouch-untouched");
    let given = args.vouch_untouched.then(|| vouched(loaded, actor, args.flags.clock().wall())).flatten();
    let (Some(writes), Err(why)) = (given, &loaded.proven) else { return Ok(()) };
    tracing::warn!("the operator vouches for this store, which is not proven to be the one it last wrote: {why}");
    store.commit(&writes, loaded.lsn)?;
    // By an operator's word alone no run goes on.
    (loaded.proven, loaded.run) = (Ok(()), None);
    loaded.lives.unproven = false;
    Ok(())
}

fn verify_audit(args: &Args, files: Option<&Path>) -> anyhow::Result<()> {
    if let Some(folder) = files {
        let checked = audit_files::check(folder)?;
        let whole = format!("the audit in {} is whole: {checked}", folder.display());
        return end::print(&whole).map_err(anyhow::Error::msg);
    }
    let (store, _) = store::open(&args.data_dir)?;
    let audit = store.audit();
    let wrong = |why| anyhow::anyhow!("the audit in {} is not what was written: {why}", args.data_dir.display());
    let head = audit.head().map_err(wrong)?;
    let lines = audit.verify(head).map_err(wrong)?;
    // Keep it elsewhere: whoever can write to the disk can make another chain, but not one that ends in this hash.
    let whole = format!("the audit is whole: {lines} lines; line {} has the hash {}", head.number, head.hash);
    end::print(&whole).map_err(anyhow::Error::msg)
}

fn check_store(args: &Args) -> anyhow::Result<()> {
    let check::Report { mut lines, debris, damage } = check::check(&args.data_dir)?;
    let leftover = debris.iter().map(|file| {
        format!("left over from a write that never finished, and removed by the next start: {}", file.display())
    });
    lines.extend(leftover);
    if damage.is_none() {
        lines.push("intact: a master can start on it".to_owned());
    }
    end::print(&lines.join("\n")).map_err(anyhow::Error::msg)?;
    damage.map_or(Ok(()), |damage| Err(damage.into()))
}

/// The token of --join, or of the first line of --join-file.
fn join_token(args: &Args) -> anyhow::Result<JoinToken> {
    if let Some(token) = &args.join {
        return Ok(token.clone());
    }
    let file = args.join_file.as_deref().context("--join or --join-file is missing")?;
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().take(TOKEN_FILE_LEN_MAX).read_to_string(&mut text),
        _ => std::fs::File::open(file).and_then(|file| file.take(TOKEN_FILE_LEN_MAX).read_to_string(&mut text)),
    };
    read.with_context(|| format!("cannot read the join token in {}", file.display()))?;
    let line = text.lines().next().unwrap_or_default().trim();
    line.parse().with_context(|| format!("the first line of {} is not a join token", file.display()))
}

fn join(args: &Args) -> anyhow::Result<()> {
    let token = join_token(args)?;
    let (id, peer) = args.id.zip(args.peer.as_deref()).context("--join needs --id and --peer")?;
    store::vacant(&args.data_dir)?;
    let certified = invite::begin(args, Some(id))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    // Who was just invited has no other way to the survivor.
    let folder = if certified.is_empty() { args.folder() } else { Some(args.tls_folder()) };
    let tls = args.flags.tls(&Role::Master(id), folder.as_ref()).map_err(anyhow::Error::msg)?;
    let leases = runtime.block_on(joining::join(&args.data_dir, id, peer, token, &tls))?;
    let made = format!("made the store of master {id} in {} with {leases} leases", args.data_dir.display());
    end::say(&format!("{certified}{made}; start it as usual"));
    Ok(())
}

fn run(args: Args) -> anyhow::Result<()> {
    let (stop, clock) = program::start(&args).map_err(anyhow::Error::msg)?;
    let (mut store, mut loaded) = store::open(&args.data_dir)?;
    vouch(&mut store, &mut loaded, &args)?;
    if let Err(why) = &loaded.proven {
        tracing::warn!(
            "this store is not proven to be the one its master last wrote ({why}): nothing is granted or renewed before the \
             other master is reached; if you know that it is untouched, say so with --vouch-untouched"
        );
    }
    let logins = std::mem::take(&mut loaded.logins);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let first_admin = first_admin(&args, &loaded)?;
    let reset =
        args.reset_admin.then(|| Reset::new(&args.data_dir, args.admin_password_file.as_deref())).transpose()?;
    let ledger = Ledger::start(
        loaded,
        clock.link_now(),
        Salt { mark: rand::random(), run: MasterRun(rand::random()) },
        args.flags.test_clock,
        version,
    )
    .with_first_whitelist(args.allow.clone())
    .with_first_admin(first_admin.clone())
    .with_limits(args.limits())
    .with_solo_span(args.solo_span())
    .with_sequence_lease(args.sequence_lease());
    // This thread serves agents and the other master: a call costs less than waking a second thread for it. The console has a
    // thread of its own, so that a large page keeps no agent waiting.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("console").enable_all();
    let console = builder.build().context("cannot start the console's runtime")?;
    let begins = Console { logins, first_admin, reset };
    let done = runtime.block_on(serve(args, ledger, store, clock, begins, console.handle(), stop));
    for runtime in [runtime, console] {
        runtime.shutdown_timeout(Duration::from_millis(200));
    }
    done
}

/// The first user of the console, where there are none yet.
fn first_admin(args: &Args, loaded: &Loaded) -> anyhow::Result<Option<User>> {
    if loaded.settings.iter().any(|setting| matches!(setting.value, SettingValue::Users(_))) {
        return Ok(None);
    }
    let proposed = loaded.setting_preps.iter().filter_map(|prep| match &prep.value {
        SettingValue::Users(users) => Some(users.iter().cloned()),
        _ => None,
    });
    let given = args.admin_password_file.as_deref();
    let user = bootstrap::admin(&args.data_dir, given, loaded.identity.master, proposed.flatten())?;
    if user.is_some() && given.is_none() {
        let file = args.data_dir.join(bootstrap::PASSWORD_FILE);
        tracing::info!("the console's first user is 'admin', with the password in {}", file.display());
    }
    Ok(user)
}

async fn serve(
    args: Args,
    ledger: Ledger,
    store: impl Store,
    clock: Clock,
    Console { logins, first_admin, reset }: Console,
    console_runtime: &Handle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // Whatever ends this: from then on tasks may end too.
    let _stopping = stop.clone().drop_guard();
    let watch = Watch::new(stop.clone());
    let [agents_max, console_max] = connections()?;
    let (id, parameters) = (ledger.identity().master, ledger.identity().parameters);
    let (tls, folder) = certificates(&args, id, &watch, &stop)?;
    let [agents, peers, console] = ports(&args, &tls, id, console_runtime).await?;
    let (flags, web_tls) = (shown(&args), tls.unless(args.web_listen.plain));
    let peer = args.peer.clone().context("--peer HOST:PORT is missing")?;

    let counters = Arc::new(Counters::default());
    let audit = store.audit();
    let writer = audit_writer(args.audit_dir.as_deref(), &audit, &counters, &watch)?;
    let (whitelist, follow) = following(tls.clone());
    let (driver, running, messages) = driver::start(ledger, store, clock, Arc::clone(&counters), follow)?;
    let registry = AgentRegistry::default();
    let reporting = ReportContext { registry: registry.clone(), clock, master: id, counters: Arc::clone(&counters) };
    let inviting = folder.clone().map(|folder| Inviting::new(folder, settings::reached_at(args.agent_listen)));
    let enrollment = folder.zip(inviting.as_ref()).map(|(folder, inviting)| {
        let (times, writes) = ((clock, args.certificate_life), (driver.clone(), Arc::clone(&counters)));
        Enrollment::new(folder, (inviting.kept().clone(), args.tokens.clone()), tls.clone(), times, writes)
    });
    let (inbox, places) = (Inbox::new(driver.clone(), reporting.clone()), PeerPlaces::default());
    let refusals = accounts::tell_refusals(driver.clone(), Arc::clone(&counters), clock, stop.clone());
    tokio::spawn(watch.clone().until_done("refusals", refusals));
    let admin = Admin::new(driver.clone(), clock, counters, audit).with_first_admin(first_admin.clone());
    let admin = Arc::new(admin.with_registry(registry.clone(), flags).with_invitations(inviting));
    let auth = Auth::new(Arc::clone(&admin) as Arc<dyn Accounts>, auth_settings(&args, id, &web_tls, logins));
    let over = |name, work: BoxFuture<'static, ()>| watch.clone().over(name, work);
    let tasks = [
        tokio::spawn(over(
            "agents",
            rpc::serve(agents, agents_max, driver.clone(), whitelist, (reporting.clone(), enrollment), stop.clone())
                .boxed(),
        )),
        tokio::spawn(over("peers", link::serve(peers, inbox.clone(), places.clone(), stop.clone()).boxed())),
        tokio::spawn(over(
            "link",
            link::run(peer, messages, inbox, places, registry, tls.clone(), stop.clone()).boxed(),
        )),
        console_runtime.spawn(over("console", web::serve(console, console_max, admin, auth, stop.clone()).boxed())),
    ];
    propose_admins(&driver, (first_admin, reset), console_runtime, &watch, &stop);
    tracing::info!(
        agents = %args.agent_listen, peer = %args.peer_listen, console = %format!("{}://{}/", web_tls.scheme(), args.web_listen.at),
        "master {id} started: {parameters}"
    );

    stop.cancelled().await;
    tracing::info!("stopping");
    // Requests under way end with their connections; what the ledger has taken in it finishes and commits.
    let ended = tokio::time::timeout(SHUTDOWN_PATIENCE, futures::future::join_all(tasks)).await;
    if ended.is_err() {
        tracing::warn!("some connections did not end in time and were cut");
    }
    let end = move || {
        running.stop();
        writer.into_iter().for_each(Writer::stop);
    };
    tokio::task::spawn_blocking(end).await.context("the ledger did not end cleanly")?;
    tracing::info!("stopped");
    Ok(())
}

/// The whitelist, and the way in which it and what is believed of certificates follow the ledger's settings.
fn following(tls: Tls) -> (Whitelist, impl Fn(&SettingsTable) + Send + 'static) {
    let whitelist = Whitelist::new([]);
    let allowed = whitelist.clone();
    let follow = move |settings: &SettingsTable| {
        allowed.set(settings.whitelist());
        tls.revoke(settings.revoked());
    };
    (whitelist, follow)
}

/// Settings of the console's logins.
fn auth_settings(args: &Args, id: MasterId, tls: &Tls, logins: Vec<(SecretHash, Login)>) -> AuthSettings {
    AuthSettings {
        cookie: format!("uniq_master_{id}"),
        tls: !tls.is_plain(),
        loopback: args.web_listen.at.ip().is_loopback(),
        hosts: settings::host_names(&[args.flags.host_names.clone(), args.sso.host().into_iter().collect()].concat()),
        logins,
        sso: args.sso.settings(),
    }
}

/// Begins to write the files of the audit, if they have a folder.
fn audit_writer(
    folder: Option<&Path>,
    audit: &impl Audit,
    counters: &Arc<Counters>,
    watch: &Watch,
) -> anyhow::Result<Option<Writer>> {
    let head = audit.head().map_err(anyhow::Error::msg)?;
    counters.audited.store(head.number, Ordering::Relaxed);
    let files = folder.map(|folder| AuditFiles::start(folder, audit.clone())).transpose()?;
    Ok(files.map(|files| Writer::start(files, Arc::clone(counters), watch)).transpose()?)
}

/// The certificates of this master, which are read again when they change; and the folder, if this master keeps them itself by the CA in it.
fn certificates(
    args: &Args,
    id: MasterId,
    watch: &Watch,
    stop: &CancellationToken,
) -> anyhow::Result<(Tls, Option<TlsFolder>)> {
    let (role, folder) = (Role::Master(id), args.folder());
    let kept = args.flags.keeps(folder.as_ref()).filter(|kept| kept.ca_key_file().exists()).cloned();
    if let Some(kept) = &kept
        && let Err(why) = enroll::ensure_own(kept, &role, &args.names(), args.certificate_life)
    {
        // The certificate that is there may do for a while.
        tracing::error!("this master's certificate cannot be renewed: {why:#}");
    }
    let tls = args.flags.tls(&role, folder.as_ref()).map_err(anyhow::Error::msg)?;
    tokio::spawn(watch.clone().until_done("certificates", tls.clone().reload(stop.clone())));
    if let Some(kept) = kept.clone() {
        let keep = enroll::keep_own(kept, (role, args.names()), tls.clone(), args.certificate_life, stop.clone());
        tokio::spawn(watch.clone().until_done("certificate", keep));
    }
    Ok((tls, kept))
}

/// Begins to propose those whom the other master is to let in, too.
fn propose_admins(
    driver: &Driver,
    (first, reset): (Option<User>, Option<Reset>),
    console: &Handle,
    watch: &Watch,
    stop: &CancellationToken,
) {
    if let Some(user) = first {
        let work = accounts::propose_first_admin(driver.clone(), user, stop.clone());
        tokio::spawn(watch.clone().until_done("first-admin", work));
    }
    if let Some(reset) = reset {
        // Passwords are hashed for it: no agent waits for that.
        let work = accounts::reset_admin(driver.clone(), reset, stop.clone());
        console.spawn(watch.clone().until_done("reset-admin", work));
    }
}

/// Connections to the agents' port and to the console that there are descriptors for.
fn connections() -> anyhow::Result<[usize; 2]> {
    let limit = descriptors::raise();
    let ports = [rpc::DESCRIPTORS, CONSOLE_DESCRIPTORS];
    let [agents, console] = descriptors::split(limit, DESCRIPTORS_RESERVED, ports)?;
    tracing::info!(
        limit,
        reserve = DESCRIPTORS_RESERVED,
        agents,
        console,
        "file descriptors, and how many are for whose connections"
    );
    Ok([agents, console])
}

/// The flags that operators see in the console: where things are, nothing secret.
fn shown(args: &Args) -> Vec<FlagRow> {
    let test_clock = args.flags.test_clock.map(|clock| ("--test-clock", clock.to_string()));
    let path = |path: &Option<PathBuf>| path.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let flags = [
        ("--data-dir", args.data_dir.display().to_string()),
        ("--audit-dir", path(&args.audit_dir)),
        ("--agent-listen", args.agent_listen.to_string()),
        ("--peer-listen", args.peer_listen.to_string()),
        ("--web-listen", args.web_listen.to_string()),
        ("--peer", args.peer.clone().unwrap_or_default()),
        ("--network-v4-bits", args.network_v4_bits.to_string()),
        ("--network-v6-bits", args.network_v6_bits.to_string()),
        ("--network-share", args.network_share.to_string()),
        ("--pool-reserve", args.pool_reserve.to_string()),
        ("--network-grants-per-hour", args.network_grants_per_hour.to_string()),
        ("--solo-span", humantime::format_duration(args.solo_span).to_string()),
        ("--sequence-lease", args.sequence_lease.to_string()),
        ("--insecure", args.flags.insecure.to_string()),
        ("--tls-dir", path(&args.flags.tls_dir)),
        ("--tls-cert", path(&args.flags.tls_cert)),
        ("--log", args.flags.log.clone()),
    ];
    flags.into_iter().chain(test_clock).map(|(flag, value)| FlagRow { flag, value }).collect()
}

/// Opens the ports at which agents, the other master and operators are served.
async fn ports(args: &Args, tls: &Tls, id: MasterId, console: &Handle) -> anyhow::Result<[Listener; 3]> {
    let agents = tls.port_to_enroll(bind(args.agent_listen, "--agent-listen").await?, Admits::Agents)?;
    let peers = tls.port(bind(args.peer_listen, "--peer-listen").await?, Admits::Master(id.other()))?;
    // Operators are asked for a password, not for a certificate.
    let console = moved(bind(args.web_listen.at, "--web-listen").await?, console)?;
    let console = tls.unless(args.web_listen.plain).port(console, Admits::Anyone)?;
    Ok([agents, peers, console])
}

async fn bind(address: std::net::SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; give another address with {flag}"))
}

/// The same listener, for tasks of another runtime.
fn moved(listener: TcpListener, runtime: &Handle) -> anyhow::Result<TcpListener> {
    let listener = listener.into_std()?;
    let _there = runtime.enter();
    Ok(TcpListener::from_std(listener)?)
}
