//! The command line of `uniq_master`.

use crate::lease::Limits;
use crate::lease::cursor::SOLO_SPANS;
use crate::sso::SsoFlags;
use crate::tokens::TokenFlags;
use clap::error::ErrorKind;
use clap::{ArgMatches, Parser};
use common::calendar::UtcOffset;
use common::parameters::{ClusterParameters, MasterId};
use common::time::SpanMs;
use ipnet::IpNet;
use net::enroll::invitation::{NETWORKS_MAX, USES, VALID, token_file};
use net::enroll::{self, Invited, TlsFolder};
use net::rpc::peer::JoinToken;
use net::rpc::ranges::SECTION_LEASE_MAX_S;
use net::tls::Role;
use process::program::{CommandLine, Flags, Wrong};
use process::settings::{self, WebAddress};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Half of a pair of masters that lease tokens to UniqGenerator's agents.
///
/// Make the store once with --format (the same parameters on both machines, --id 1 on one and 2 on the other), then run
/// both with --peer naming each other. Every flag may also be set in a TOML file (--config, same name with _) and in the
/// environment (UNIQ_ and upper case); a flag beats the environment, the environment the file, the file the default. What
/// acts once (--format, --peer-lost, --join, --verify-audit and the like) is a flag only.
#[derive(Clone, Debug, Parser)]
#[command(name = "uniq_master", version, max_term_width = 120)]
pub struct Args {
    /// Create the store of a new cluster in --data-dir and exit
    #[arg(long)]
    pub format: bool,

    /// The folder in which this master keeps its ledger
    #[arg(long, env = "UNIQ_DATA_DIR", default_value = "uniq_master.data", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// The other master is gone for good: begin a new pairing in --data-dir of this stopped one, print the one-use token
    /// with which its replacement joins, and exit
    #[arg(long, conflicts_with_all = ["format", "join", "join_file"])]
    pub peer_lost: bool,

    /// Create the store of a replacement in --data-dir from the running survivor (--peer), with the token that its
    /// --peer-lost printed, and exit
    #[arg(long, value_name = "TOKEN", conflicts_with = "format")]
    pub join: Option<JoinToken>,

    /// As --join, with the token in the first line of this file, or of standard input if it is -: other users of the machine
    /// can read a command line, and a file only if they may
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["format", "join"])]
    pub join_file: Option<PathBuf>,

    /// Check that the audit is whole, every line following from the one before it, and exit: the audit in --data-dir of this
    /// stopped master, or in the files of an --audit-dir that is given here, for which no store is needed
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["format", "join", "join_file", "peer_lost"])]
    pub verify_audit: Option<Option<PathBuf>>,

    /// Say what the store in --data-dir of this stopped master holds and whether a start would take it, and exit;
    /// changes nothing, works on a copy in the folder for temporary files
    #[arg(long, conflicts_with_all = ["format", "join", "join_file", "peer_lost", "verify_audit"])]
    pub check_store: bool,

    /// With --format, where both stores of an earlier cluster are lost and agents of it may still mint: nothing is granted
    /// until the last of them must have stopped; with --above, values above the highest one that was ever granted are granted at
    /// once. Give the same flags on both masters
    #[arg(long)]
    pub after_total_loss: bool,

    /// Both masters' disks were put back to an earlier state: decide, on this stopped one and on the other, how to go on.
    /// Nothing is granted until all that was promised since is over; with --above, values above the mark are granted at once.
    /// Needs --confirm
    #[arg(long, conflicts_with_all = ["format", "join", "peer_lost", "verify_audit"])]
    pub after_revert: bool,

    /// The highest value of any family that may ever have been granted: values above it are granted at once (with
    /// --after-total-loss or --after-revert) [default: nothing is granted until all that was promised is over]
    #[arg(long, value_name = "N", value_parser = settings::number(0..=u32::MAX))]
    pub above: Option<u32>,

    /// With --after-revert: how many numbers each section of each sequence skips, more than any section can have given since the
    /// backup. Never fewer than the name's solo_allowance [default: the solo_allowance]
    #[arg(long, value_name = "N", value_parser = settings::number(1..=1_u64 << 62))]
    pub skip_numbers: Option<u64>,

    /// Both calendars were wrong at some time: make this stopped master, and the other one, forget the latest time that they
    /// ever showed. Needs --confirm
    #[arg(long, conflicts_with_all = ["format", "join", "peer_lost", "verify_audit", "after_revert"])]
    pub forget_clock: bool,

    /// The words by which an operator confirms --after-revert ("both ledgers are old") or --forget-clock ("the calendars
    /// are right now")
    #[arg(long, value_name = "WORDS")]
    pub confirm: Option<String>,

    /// This master's number, 1 or 2 (with --format and --join)
    #[arg(long, env = "UNIQ_ID", value_parser = parse_id, value_name = "1|2")]
    pub id: Option<MasterId>,

    /// Days that a lease lasts, 1 to 30 (with --format) [default: 7]
    #[arg(long, env = "UNIQ_LEASE_DAYS", value_name = "DAYS",
          value_parser = settings::number(ClusterParameters::LEASE_DAYS))]
    pub lease_days: Option<u8>,

    /// The one UTC offset in which this cluster counts hours and days (with --format) [default: +00:00]
    #[arg(long, env = "UNIQ_UTC_OFFSET", value_name = "+HH:MM", allow_hyphen_values = true)]
    pub utc_offset: Option<UtcOffset>,

    /// The largest uint2 token; above 4095 for Uniq96 alone (with --format) [default: 4095]
    #[arg(long, env = "UNIQ_UINT2_MAX", value_name = "N", value_parser = settings::number(0..=u16::MAX))]
    pub uint2_max: Option<u16>,

    /// Address for agents
    #[arg(long, env = "UNIQ_AGENT_LISTEN", default_value = "127.0.0.1:7101", value_name = "IP:PORT", value_parser = settings::ip_port)]
    pub agent_listen: SocketAddr,

    /// Address for the other master
    #[arg(long, env = "UNIQ_PEER_LISTEN", default_value = "127.0.0.1:7201", value_name = "IP:PORT", value_parser = settings::ip_port)]
    pub peer_listen: SocketAddr,

    /// The other master's --peer-listen
    #[arg(long, env = "UNIQ_PEER", value_name = "HOST:PORT", value_parser = process::settings::host_port)]
    pub peer: Option<String>,

    /// Address for the console; plain:127.0.0.1:PORT is without TLS
    #[arg(long, env = "UNIQ_WEB_LISTEN", default_value = "127.0.0.1:7301", value_name = "[plain:]IP:PORT")]
    pub web_listen: WebAddress,

    /// Networks from which agents may ask for leases, comma-separated, until the ledger has its own whitelist
    #[arg(long, env = "UNIQ_ALLOW", default_value = "127.0.0.0/8,::1/128", value_delimiter = ',', value_name = "CIDR",
          value_parser = settings::item(common::setting::network))]
    pub allow: Vec<IpNet>,

    /// Leading bits that IPv4 addresses of one network have in common, for --network-share and --network-grants-per-hour
    #[arg(long, env = "UNIQ_NETWORK_V4_BITS", default_value = "32", value_name = "BITS",
          value_parser = settings::number(1..=32_u8))]
    pub network_v4_bits: u8,

    /// Leading bits that IPv6 addresses of one network have in common
    #[arg(long, env = "UNIQ_NETWORK_V6_BITS", default_value = "64", value_name = "BITS",
          value_parser = settings::number(1..=128_u8))]
    pub network_v6_bits: u8,

    /// The part of a token type's pool, in percent, that the agents of one network may have open leases of; 100 means no limit.
    /// The same at both masters
    #[arg(long, env = "UNIQ_NETWORK_SHARE", default_value = "50", value_name = "PERCENT",
          value_parser = settings::number(1..=100_u8))]
    pub network_share: u8,

    /// New leases of a token type that the agents of one network get within an hour; 0 means no limit. The same at both masters
    #[arg(long, env = "UNIQ_NETWORK_GRANTS_PER_HOUR", default_value = "1024", value_name = "N",
          value_parser = settings::number(0..=u32::MAX))]
    pub network_grants_per_hour: u32,

    /// Time for which this master can grant segments of every name alone, at the recent rate of both, while the other one is away: it holds
    /// numbers of each axis for at least this time, and for twice this time at most; 1m to 30d. The same at both masters
    #[arg(long, env = "UNIQ_SOLO_SPAN", default_value = "24h", value_name = "TIME", value_parser = solo_span)]
    pub solo_span: Duration,

    /// The part of each token type's pool, in percent, whose last free values are kept for agents and networks that have held a
    /// lease for an hour or longer, so that newcomers cannot displace agents that start anew; 0 keeps nothing. The same at
    /// both masters
    #[arg(long, env = "UNIQ_POOL_RESERVE", default_value = "20", value_name = "PERCENT",
          value_parser = settings::number(0..=50_u8))]
    pub pool_reserve: u8,

    /// Time for which an agent serves sections of sequences after it has asked for them, in seconds, 1 to 60: the sections of one that
    /// died are without service for about two and a half times as long. The same at both masters; if they differ, the longer one applies
    #[arg(long, env = "UNIQ_SEQUENCE_LEASE", default_value = "5", value_name = "SECONDS",
          value_parser = settings::number(1..=SECTION_LEASE_MAX_S))]
    pub sequence_lease: u8,

    /// The password of the first user, `admin`, is the first line of this file, as long as there are no users, and with
    /// --reset-admin; without it master 1 draws one and writes it once to DIR/admin-password. What master 1 has, given or drawn,
    /// counts for both
    #[arg(long, env = "UNIQ_ADMIN_PASSWORD_FILE", value_name = "FILE")]
    pub admin_password_file: Option<PathBuf>,

    /// A folder of this master's own in which it also writes its audit, as files of JSON lines that are named by the number of their
    /// first line, for programs that ship or keep them: the store keeps the last million lines. The master never removes a file
    #[arg(long, env = "UNIQ_AUDIT_DIR", value_name = "DIR")]
    pub audit_dir: Option<PathBuf>,

    /// Vouches for what this master cannot prove; on the command line only, and recorded in the audit. At a start, and with
    /// --peer-lost: the store in --data-dir was not copied, put back or reverted since its master last ran and no copy of it runs, so this
    /// one serves renewals alone after a reboot while the other one is away. With --after-revert, where the store was put back: no
    /// replacement of the other master ever joined
    #[arg(long, conflicts_with_all = ["format", "join", "verify_audit"])]
    pub vouch_untouched: bool,

    /// Print an invitation for a program to get its certificate by, and exit: for `master` (the other one), `agent`, `client`, agent/NAME or
    /// client/NAME; without a name one is drawn. Further addresses under which browsers and other HTTP clients reach it may follow, as in
    /// agent/orders-1@10.0.0.11,ids.example.com. To be run beside the running master, with the same settings
    #[arg(long, value_name = "ROLE[@ADDRESS,...]", value_parser = invited,
          conflicts_with_all = ["format", "join", "join_file", "peer_lost", "verify_audit", "check_store", "after_revert", "forget_clock"])]
    pub invite: Option<Invite>,

    /// With --invite: how many programs may use the invitation; more than one for agents or clients without a name [default: 1]
    #[arg(long, value_name = "N", value_parser = settings::number(USES), requires = "invite")]
    pub invite_uses: Option<u32>,

    /// With --invite: how long it is valid, 1m to 30d [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = invite_span, requires = "invite")]
    pub invite_for: Option<Duration>,

    /// With --invite: the networks of the programs that may use it, comma-separated [default: all]
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = settings::item(common::setting::network), requires = "invite")]
    pub invite_from: Vec<IpNet>,

    /// With --invite agent or client: no secret, but the file in which a Kubernetes pod finds its service account's token (--token-keys).
    /// Such an invitation may be read by everybody
    #[arg(long, value_name = "FILE", value_parser = token_file, requires = "invite",
          conflicts_with_all = ["invite_uses", "invite_for", "invite_from"])]
    pub invite_token_file: Option<PathBuf>,

    /// With --invite: the address under which the invited program reaches this master's --agent-listen
    #[arg(long, value_name = "HOST:PORT", value_parser = settings::host_port, requires = "invite",
          help = "With --invite: the address under which the invited program reaches this master's --agent-listen [default: that address, with this machine's name for 0.0.0.0 and [::]]")]
    pub invite_at: Option<String>,

    /// The life of certificates that this master issues, 10s to 398d: programs renew theirs when a third of it is left
    #[arg(long, env = "UNIQ_CERTIFICATE_LIFE", default_value = "30d", value_name = "TIME", value_parser = certificate_life)]
    pub certificate_life: Duration,

    /// Lets the console's user `admin` in again: once both masters are there it has role admin and a new password, the first line
    /// of --admin-password-file, or else one that is drawn and written to DIR/admin-password, and no second factor. All of its
    /// logins end, other users stay; recorded in the audit. For one start: a later one with it resets a password that was changed since
    #[arg(long, conflicts_with_all = ["format", "join", "join_file", "peer_lost", "verify_audit", "check_store", "after_revert",
          "forget_clock"])]
    pub reset_admin: bool,

    #[command(flatten)]
    pub tokens: TokenFlags,

    #[command(flatten)]
    pub sso: SsoFlags,

    #[command(flatten)]
    pub flags: Flags,
}

/// The program that is invited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    /// The role that it is to have. `None`: the other master.
    pub invited: Option<Invited>,
    /// The DNS names and IP addresses in its certificate.
    pub names: Vec<String>,
}

impl CommandLine for Args {
    fn flags(&self) -> &Flags {
        &self.flags
    }

    fn check(&self, _: &ArgMatches) -> Result<(), Wrong> {
        let missing = |why: &str| Err((ErrorKind::MissingRequiredArgument, why.to_owned()));
        let remedy = self.after_revert || self.forget_clock;
        let joins = self.join.is_some() || self.join_file.is_some();
        let enrolls = self.flags.invitation.is_some() && !joins;
        let command = enrolls
            || self.invite.is_some()
            || self.format
            || self.peer_lost
            || self.verify_audit.is_some()
            || self.check_store
            || remedy;
        let runs = !command && !joins;
        let conflict = |why: &str| Err((ErrorKind::ArgumentConflict, why.to_owned()));
        if self.after_total_loss && !self.format {
            return conflict("--after-total-loss goes with --format");
        }
        if self.above.is_some() && !self.after_total_loss && !self.after_revert {
            return conflict("--above goes with --after-total-loss or --after-revert");
        }
        if self.skip_numbers.is_some() && !self.after_revert {
            return conflict("--skip-numbers goes with --after-revert");
        }
        self.check_invitations()?;
        self.sso.check()?;
        self.tokens.check()?;
        if self.confirm.is_some() && !remedy {
            return conflict("--confirm goes with --after-revert or --forget-clock");
        }
        match (self.id, joins, &self.peer) {
            (None, _, _) if self.format => return missing("--format needs --id 1, or --id 2 on the other machine"),
            (None, true, _) => return missing("--join needs --id: which of the two masters this is going to be"),
            (_, true, None) => return missing("--join needs --peer HOST:PORT: the --peer-listen of the survivor"),
            (Some(_), false, _) if !self.format => {
                let why = "--id goes with --format and --join; a running master knows from its store which one it is";
                return Err((ErrorKind::ArgumentConflict, why.to_owned()));
            }
            (_, _, None) if runs => {
                return missing("--peer HOST:PORT is missing: the --peer-listen of the other master");
            }
            _ => {}
        }
        let formats = [self.lease_days.is_some(), self.utc_offset.is_some(), self.uint2_max.is_some()];
        if !self.format && formats.contains(&true) {
            let why = "--lease-days, --utc-offset and --uint2-max go with --format; a running cluster keeps what it was \
                       formatted with";
            return Err((ErrorKind::ArgumentConflict, why.to_owned()));
        }
        match runs {
            true => self.flags.check_listening(&self.listens(), self.folder().as_ref()),
            false => Ok(()),
        }
    }
}

impl Args {
    /// Limits of what one network may have.
    pub fn limits(&self) -> Limits {
        Limits {
            v4_bits: self.network_v4_bits,
            v6_bits: self.network_v6_bits,
            share_percent: self.network_share,
            grants_per_hour: self.network_grants_per_hour,
            kept_percent: self.pool_reserve,
        }
    }

    /// Checks what is said of invitations.
    fn check_invitations(&self) -> Result<(), Wrong> {
        let conflict = |why: &str| Err((ErrorKind::ArgumentConflict, why.to_owned()));
        if self.flags.invitation.as_deref() == Some(Path::new("-")) && self.join_file == self.flags.invitation {
            return conflict(
                "--join-file and --invitation cannot both be read from standard input: put one into a file",
            );
        }
        if self.flags.invitation.is_some() && self.format && self.id == Some(MasterId::One) {
            return conflict("--invitation is for master 2: master 1 makes the CA, and invites the others");
        }
        let invited = self.invite.as_ref().and_then(|invite| invite.invited.as_ref());
        if self.invite_uses.unwrap_or(1) > invited.map_or(1, Invited::uses_max) {
            return conflict(
                "--invite-uses goes with --invite agent or --invite client: of one name there is one certificate",
            );
        }
        if self.invite_from.len() > NETWORKS_MAX {
            return conflict("--invite-from: at most 16 networks");
        }
        let is_drawn = matches!(invited, Some(Invited::Agent | Invited::Client));
        if self.invite_token_file.is_some() && !(is_drawn && self.invite.as_ref().is_some_and(|it| it.names.is_empty()))
        {
            return conflict(
                "--invite-token-file goes with --invite agent or --invite client, alone: the name is the pod's, and the addresses are those of --token-account",
            );
        }
        Ok(())
    }

    fn listens(&self) -> [SocketAddr; 3] {
        [self.agent_listen, self.peer_listen, self.web_listen.at]
    }

    /// The folder in which this master keeps its CA and its certificate.
    pub fn tls_folder(&self) -> TlsFolder {
        self.flags.folder(|| self.data_dir.join("tls"))
    }

    /// That folder, if its certificate is to be used: where a listener is not on loopback, or --tls-dir says so.
    pub fn folder(&self) -> Option<TlsFolder> {
        let beyond = self.flags.tls_dir.is_some() || self.listens().iter().any(|at| !at.ip().is_loopback());
        beyond.then(|| self.tls_folder())
    }

    /// The DNS names and IP addresses under which browsers reach this master.
    pub fn names(&self) -> Vec<String> {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let given = self.flags.host_names.iter().filter(|name| *name != "*").cloned();
        let listens = self.listens().into_iter().map(|at| at.ip()).filter(|ip| !ip.is_unspecified());
        let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let names: BTreeSet<String> =
            local.into_iter().chain([node]).chain(given).chain(listens.map(|ip| ip.to_string())).collect();
        names.into_iter().collect()
    }

    pub fn solo_span(&self) -> SpanMs {
        SpanMs(i64::try_from(self.solo_span.as_millis()).unwrap_or(i64::MAX))
    }

    /// Time for which agents serve sections after they have asked for them.
    pub fn sequence_lease(&self) -> SpanMs {
        SpanMs::seconds(self.sequence_lease.into())
    }

    /// The parameters of the cluster to be formatted.
    ///
    /// # Errors
    /// Those no cluster may have.
    pub fn parameters(&self) -> Result<ClusterParameters, common::parameters::ParametersError> {
        ClusterParameters::new(
            self.lease_days.unwrap_or(ClusterParameters::LEASE_DAYS_DEFAULT),
            self.utc_offset.unwrap_or_default(),
            self.uint2_max.unwrap_or(ClusterParameters::UINT2_MAX_DEFAULT),
        )
    }
}

fn parse_id(text: &str) -> Result<MasterId, String> {
    text.parse().ok().and_then(MasterId::from_number).ok_or_else(|| "a master is 1 or 2".to_owned())
}

fn invited(text: &str) -> Result<Invite, String> {
    const FORM: &str = "write master, agent, client, agent/NAME or client/NAME, and further addresses as in agent/NAME@10.0.0.11,ids.example.com";
    let (role, names) = text.split_once('@').unwrap_or((text, ""));
    let names: Vec<String> =
        if text.contains('@') { names.split(',').map(str::to_owned).collect() } else { Vec::new() };
    if !enroll::are_names(&names) {
        return Err(FORM.to_owned());
    }
    let invited = match role {
        "master" if names.is_empty() => None,
        role => match role.parse() {
            Ok(Invited::As(Role::Master(_))) | Err(_) => return Err(FORM.to_owned()),
            Ok(invited) => Some(invited),
        },
    };
    Ok(Invite { invited, names })
}

fn invite_span(text: &str) -> Result<Duration, String> {
    span(text, VALID, "1m to 30d, such as 1h")
}

fn certificate_life(text: &str) -> Result<Duration, String> {
    span(text, Duration::from_secs(10)..=Duration::from_secs(398 * 86_400), "10s to 398d, such as 30d")
}

fn span(text: &str, within: RangeInclusive<Duration>, form: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).ok().filter(|span| within.contains(span));
    span.ok_or_else(|| format!("write a time from {form}"))
}

fn solo_span(text: &str) -> Result<Duration, String> {
    let fits = |span: &Duration| SOLO_SPANS.contains(&SpanMs(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)));
    let span = humantime::parse_duration(text).ok().filter(fits);
    span.ok_or_else(|| "write a time from 1m to 30d, such as 24h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::ffi::OsString;

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::layered(std::iter::once("uniq_master").chain(flags.iter().copied()).map(OsString::from))
    }

    #[test]
    fn the_command_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn wrong_usage_is_refused_with_the_remedy() {
        for (flags, named) in [
            (&["--format"][..], "--id"),
            (&["--format", "--id", "3"], "1 or 2"),
            (&["--format", "--id", "1", "--lease-days", "0"], "1 to 30"),
            (&["--format", "--id", "1", "--lease-days", "31"], "1 to 30"),
            (&["--format", "--id", "1", "--lease-days", "x"], "1 to 30"),
            (&["--format", "--id", "1", "--uint2-max", "70000"], "0 to 65535"),
            (&["--peer", "b:1", "--network-grants-per-hour", "many"], "0 to 4294967295"),
            (&["--above", "x", "--format", "--id", "1"], "0 to 4294967295"),
            (&["--peer", "b:1", "--web-listen", "7301"], "IP:PORT, such as"),
            (&[], "--peer"),
            (&["--peer", "nowhere"], "HOST:PORT"),
            (&["--peer", "b:1", "--agent-listen", "0.0.0.0:7101"], "--insecure"),
            (&["--peer", "b:1", "--tls-ca", "ca.pem"], "--tls-cert"),
            (&["--peer", "b:1", "--allow", "10.0.0.0/99"], "--allow"),
            (&["--peer", "b:1", "--allow", "010.0.0.0/8"], "leading zeros"),
            (&["--peer", "b:1", "--allow", "::ffff:0.0.0.0/64"], "IPv4 network"),
            (&["--peer", "b:1", "--id", "1"], "--format"),
            (&["--peer", "b:1", "--lease-days", "3"], "--format"),
            (&["--join", "x", "--id", "1", "--peer", "b:1"], "64 hexadecimal digits"),
            (&["--join", &"0".repeat(64)], "--id"),
            (&["--peer-lost", "--format", "--id", "1"], "--peer-lost"),
            (&["--after-total-loss", "--peer", "b:1"], "--format"),
            (&["--above", "9", "--format", "--id", "1"], "--after-total-loss"),
            (&["--confirm", "x", "--peer", "b:1"], "--after-revert"),
            (&["--after-revert", "--forget-clock"], "--after-revert"),
            (&["--skip-numbers", "5", "--peer", "b:1"], "--after-revert"),
            (&["--after-revert", "--skip-numbers", "0"], "from 1 to"),
            (&["--reset-admin"], "--peer"),
        ] {
            let error = parse(flags).expect_err("was taken");
            let line = process::settings::one_line(&error, "uniq_master");
            assert!(line.contains(named) && !line.contains('\n') && error.exit_code() == 2, "{flags:?}: {line}");
            assert!(!line.contains("invalid digit") && line.matches("--help").count() == 1, "{flags:?}: {line}");
        }
        assert!(parse(&["--peer", "b:1", "--agent-listen", "0.0.0.0:7101", "--insecure"]).is_ok());
        let secured = ["--tls-cert", "a.pem", "--tls-key", "a.key", "--tls-ca", "ca.pem"];
        assert!(parse(&[&["--peer", "b:1", "--agent-listen", "0.0.0.0:7101"][..], &secured].concat()).is_ok());
        assert_eq!(parse(&["--peer", "b:1"]).unwrap().limits(), Limits::DEFAULT);
        assert!(parse(&["--peer", "b:1", "--network-share", "0"]).is_err());
        assert!(parse(&["--peer", "b:1", "--pool-reserve", "51"]).is_err());
        assert!(parse(&["--peer-lost"]).is_ok());
        assert!(parse(&["--verify-audit"]).is_ok());
        assert!(parse(&["--after-revert", "--above", "9", "--confirm", "words"]).is_ok());
        assert!(parse(&["--forget-clock"]).is_ok());
        assert!(parse(&["--format", "--id", "1", "--after-total-loss", "--above", "9"]).is_ok());
        assert!(parse(&["--verify-audit", "--peer-lost"]).is_err());
        for other in [
            &["--format"][..],
            &["--join", &"0f".repeat(32)],
            &["--join-file", "-"],
            &["--peer-lost"],
            &["--verify-audit"],
            &["--check-store"],
            &["--after-revert"],
            &["--forget-clock"],
        ] {
            let error = parse(&[&["--peer", "b:1", "--reset-admin"][..], other].concat()).expect_err("was taken");
            assert!(error.to_string().contains("'--reset-admin' cannot be used with"), "{other:?}: {error}");
        }
        assert!(parse(&["--peer", "b:1", "--reset-admin", "--vouch-untouched"]).unwrap().reset_admin);
        assert!(parse(&["--join-file", "-", "--id", "1", "--peer", "b:1"]).is_ok());
        assert!(parse(&["--join-file", "-", "--join", &"0f".repeat(32), "--id", "1", "--peer", "b:1"]).is_err());
        assert!(parse(&["--join", &"0f".repeat(32), "--id", "1", "--peer", "b:1"]).is_ok());
        assert!(parse(&["--format", "--id", "2", "--utc-offset", "-03:30"]).is_ok());
    }
}
