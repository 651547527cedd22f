//! The command line of `uniq_generator`.

use crate::heartbeat::{MASTERS_MAX, RENEW_INTERVALS};
use crate::http::BATCH_MAX_DEFAULT;
use crate::minter::{RESERVED_PERCENT, RESERVED_PERCENTS};
use crate::plugin::history::{self, HistorySettings};
use crate::sequences;
use crate::workers::THREADS_MAX;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Parser};
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::sequence::SET_DEFAULT;
use common::time::SpanMs;
use common::token::TokenType;
use net::enroll::TlsFolder;
use net::rpc::mint::BATCH_MAX_LIMIT;
use net::rpc::ranges::SETS_MAX;
use net::tls::Admits;
use process::program::{CommandLine, Flags, Wrong};
use process::settings::{self, HttpAddress, WebAddress};
use serial_file::{AfterReboot, NUM_BLOCKS};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a file of history if nothing else is said,
const HISTORY_FILE_LEN_DEFAULT: u64 = 64 << 20;
/// files that are kept then,
const HISTORY_FILES_DEFAULT: u32 = 100;
/// and how many there may be.
const HISTORY_FILES: RangeInclusive<u32> = 2..=100_000;
/// Memory for keys of sequences, in bytes.
const SEQUENCE_MEMORY: RangeInclusive<u64> = sequences::MEMORY_MIN..=1 << 40;

/// Mints order numbers, transaction and message IDs that never repeat.
///
/// Create the serial file once with --format, then start with --masters; or try it, with --dev alone. Every flag may also be set in a TOML file
/// (--config, same name with _) and in the environment (UNIQ_ and upper case); a flag beats the environment, the
/// environment the file, the file the default. What acts once (--format, --inspect, --forget-clock, --explain, --history) is a flag only.
#[derive(Clone, Debug, Parser)]
#[command(name = "uniq_generator", version, max_term_width = 120)]
pub struct Args {
    /// Create the serial file and exit; refused if it exists
    #[arg(long, conflicts_with_all = ["inspect", "explain"])]
    pub format: bool,

    /// Print what the serial file says and exit; changes nothing
    #[arg(long, conflicts_with = "explain")]
    pub inspect: bool,

    /// Let the serial file forget times ahead of this machine's clock, and exit: for an agent that minted while the clock was wrong, and
    /// has to wait for it now. Its next start has a new session and new tokens. Stop the agent first; no ID can repeat by it
    #[arg(long, conflicts_with_all = ["format", "inspect", "explain"])]
    pub forget_clock: bool,

    /// Take an ID apart and exit; needs neither file nor masters. With the names that the agent of --serial-file has learned, if
    /// it is there, and with the secrets of --secret-file
    #[arg(long, value_name = "ID")]
    pub explain: Option<String>,

    /// Print who got an ID, by the history in --history-dir, and exit; also while an agent writes it
    #[arg(long, value_name = "ID", conflicts_with_all = ["format", "inspect", "explain", "forget_clock"])]
    pub history: Option<String>,

    /// Get the certificate in --tls-dir anew from one of --masters, and exit: for applications whose certificate came by an invitation, and
    /// that do not renew it themselves; an agent does
    #[arg(long, conflicts_with_all = ["format", "inspect", "explain", "forget_clock", "history", "invitation"])]
    pub renew_certificate: bool,

    /// With --inspect, --explain or --history: print JSON
    #[arg(long, env = "UNIQ_JSON", value_parser = settings::switch)]
    pub json: bool,

    /// The serial file; its lineage is kept beside it
    #[arg(long, env = "UNIQ_SERIAL_FILE", default_value = "uniq_generator.serial", value_name = "FILE")]
    pub serial_file: PathBuf,

    /// With --format: for how many names the file has room at first, 2 to 20000; it grows by itself when more are minted by
    /// [default: 100]
    #[arg(long, env = "UNIQ_NUM_BLOCKS", value_name = "N", value_parser = settings::number(NUM_BLOCKS))]
    pub num_blocks: Option<u32>,

    /// The masters' --agent-listen addresses, comma-separated; needed to start
    #[arg(long, env = "UNIQ_MASTERS", value_delimiter = ',', value_parser = process::settings::host_port, value_name = "HOST:PORT")]
    pub masters: Vec<String>,

    /// For laptops and tests: needs neither masters nor a serial file, gives IDs of all kinds, and keeps nothing unless --dev-dir says
    /// where. It is a cluster of its own: two that run at once, or one after the other, may give the same IDs
    #[arg(long, env = "UNIQ_DEV", value_parser = settings::switch)]
    pub dev: bool,

    /// With --dev: the folder in which it keeps what it gives, made if it is not there, so that no ID comes again in another run
    #[arg(long, env = "UNIQ_DEV_DIR", value_name = "FOLDER")]
    pub dev_dir: Option<PathBuf>,

    /// This agent's name; by default of its host and HTTP port
    #[arg(
        long,
        env = "UNIQ_AGENT_ID",
        value_name = "NAME",
        help = "This agent's name [default: <host name>-<HTTP port>]"
    )]
    pub agent_id: Option<AgentId>,

    /// The listener of IDs over HTTP: an address, a Unix socket for programs of this machine as unix:PATH, or both with a comma. A
    /// socket is plain HTTP; its callers are known by their user and need no certificate. plain:127.0.0.1:PORT is without TLS, for any
    /// program of this machine
    #[arg(long, env = "UNIQ_HTTP_LISTEN", default_value = "127.0.0.1:6200", value_delimiter = ',', value_name = "[plain:]IP:PORT|unix:PATH",
          value_parser = settings::item(settings::http_address))]
    pub http_listen: Vec<HttpAddress>,

    /// The mode of the Unix socket of --http-listen, which says who may connect
    #[arg(long, env = "UNIQ_SOCKET_MODE", default_value = "660", value_name = "MODE", value_parser = settings::mode)]
    pub socket_mode: u32,

    /// The group of the Unix socket of --http-listen, by name or number
    #[arg(
        long,
        env = "UNIQ_SOCKET_GROUP",
        value_name = "GROUP",
        help = "The group of the Unix socket of --http-listen, by name or number [default: this program's own, or that of its folder where the folder is setgid]"
    )]
    pub socket_group: Option<String>,

    /// The listener of IDs over RPC (tarpc)
    #[arg(long, env = "UNIQ_RPC_LISTEN", default_value = "127.0.0.1:6201", value_name = "IP:PORT", value_parser = settings::ip_port)]
    pub rpc_listen: SocketAddr,

    /// The types of token to lease, comma-separated: uint2 for Uniq64 and Uniq96, the others for strings
    #[arg(
        long,
        env = "UNIQ_TOKEN_TYPES",
        default_value = "uint2,string2-include-letter",
        value_delimiter = ',',
        value_name = "TYPE",
        value_parser = settings::item(str::parse::<TokenType>)
    )]
    pub token_types: Vec<TokenType>,

    /// Interval at which leases are renewed, 1s to 12h
    #[arg(long, env = "UNIQ_RENEW_INTERVAL", default_value = "1h", value_parser = parse_interval, value_name = "TIME")]
    pub renew_interval: Duration,

    /// The session after a reboot of this machine: fresh (new tokens) or resume (safe only where disks are
    /// never cloned and never reverted to a snapshot)
    #[arg(long, env = "UNIQ_AFTER_REBOOT", default_value_t = AfterReboot::Fresh, value_name = "fresh|resume")]
    pub after_reboot: AfterReboot,

    /// The most IDs that one request gets
    #[arg(long, env = "UNIQ_BATCH_MAX", default_value_t = BATCH_MAX_DEFAULT, value_name = "N",
          value_parser = settings::number(1..=BATCH_MAX_LIMIT))]
    pub batch_max: u32,

    /// Percent, 0 to 90, of a name's IDs of each hour, day or tick, the last ones, of which one caller (a certificate, an address, or a /64 of IPv6) gets at
    /// most a sixteenth of what is left, so that no caller can exhaust them for everyone; 0 where one address stands for all, such as a proxy
    #[arg(long, env = "UNIQ_RESERVED_PERCENT", default_value_t = RESERVED_PERCENT, value_name = "N",
          value_parser = settings::number(RESERVED_PERCENTS))]
    pub reserved_percent: u8,

    /// Fetch no second segment while the first one is used: for comparisons only, calls wait at each change of segments
    #[arg(long, env = "UNIQ_ONE_SEGMENT", value_parser = settings::switch, hide = true)]
    pub one_segment: bool,

    /// Threads that serve HTTP and RPC
    #[arg(
        long,
        env = "UNIQ_THREADS",
        value_name = "N",
        help = "Threads that serve HTTP and RPC [default: one for each core]",
        value_parser = settings::number(1..=THREADS_MAX)
    )]
    pub threads: Option<u16>,

    /// A file with the secrets for names whose encoding is ff1, 64 digits of 0-9 a-f each, one a line (openssl rand -hex 32); the
    /// first is for new names. All agents that serve such a name need the same one. Keep it from others (chmod 600).
    /// Instead of the file, the variable UNIQ_SECRETS may have them, separated by commas
    #[arg(long, env = "UNIQ_SECRET_FILE", value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Folder for the history of names with the plugin history, for this agent alone; without it such names give no
    /// IDs here
    #[arg(long, env = "UNIQ_HISTORY_DIR", value_name = "FOLDER")]
    pub history_dir: Option<PathBuf>,

    /// Bytes of a file of history, 65536 to 1099511627776
    #[arg(long, env = "UNIQ_HISTORY_FILE_LEN", default_value_t = HISTORY_FILE_LEN_DEFAULT, value_name = "BYTES",
          value_parser = settings::number(history::FILE_LENS))]
    pub history_file_len: u64,

    /// Files of history that are kept, 2 to 100000; of more the oldest become one, which has the latest lines of each name
    #[arg(long, env = "UNIQ_HISTORY_FILES", default_value_t = HISTORY_FILES_DEFAULT, value_name = "N",
          value_parser = settings::number(HISTORY_FILES))]
    pub history_files: u32,

    /// The sets of sequences that this agent serves, comma-separated, at most 64
    #[arg(long, env = "UNIQ_SETS", default_value = SET_DEFAULT, value_delimiter = ',', value_name = "SET",
          value_parser = settings::item(str::parse::<GeneratorName>))]
    pub sets: Vec<GeneratorName>,

    /// Memory for keys of sequences, in bytes, 16777216 to 1099511627776; when it is used up, keys that were not asked for lately
    /// are forgotten, which costs each of them a gap
    #[arg(long, env = "UNIQ_SEQUENCE_MEMORY", default_value_t = sequences::MEMORY_DEFAULT, value_name = "BYTES",
          value_parser = settings::number(SEQUENCE_MEMORY))]
    pub sequence_memory: u64,

    /// Address at which clients and other agents reach this one over HTTP for keys of sequences that it serves
    #[arg(long, env = "UNIQ_ADVERTISE_HTTP", value_parser = settings::host_port, value_name = "HOST:PORT",
          help = "Address at which clients and other agents reach this one over HTTP for keys of sequences that it serves [default: --http-listen, with this machine's name for 0.0.0.0 and [::]]")]
    pub advertise_http: Option<String>,

    /// The same over RPC
    #[arg(long, env = "UNIQ_ADVERTISE_RPC", value_parser = settings::host_port, value_name = "HOST:PORT",
          help = "The same over RPC [default: --rpc-listen, with this machine's name for 0.0.0.0 and [::]]")]
    pub advertise_rpc: Option<String>,

    /// Serve callers without a certificate at --http-listen and --rpc-listen, too: they take IDs, and register no names. Without it,
    /// callers show a certificate of a client or an agent, or an API key for agents
    #[arg(long, env = "UNIQ_OPEN_MINT", value_parser = settings::switch)]
    pub open_mint: bool,

    /// Those of every program
    #[command(flatten)]
    pub flags: Flags,
}

/// The task that the program is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `--format`.
    Format,
    /// `--inspect`.
    Inspect,
    /// `--forget-clock`.
    ForgetClock,
    /// `--explain`.
    Explain(String),
    /// `--history`.
    History(String),
    /// `--invitation` without `--format`.
    Enroll,
    /// `--renew-certificate`.
    Renew,
    /// Mint.
    Serve,
}

impl CommandLine for Args {
    fn flags(&self) -> &Flags {
        &self.flags
    }

    fn check(&self, said: &ArgMatches) -> Result<(), Wrong> {
        self.check_dev(said.value_source("serial_file") != Some(ValueSource::DefaultValue))?;
        if matches!(self.mode(), Mode::History(_)) && self.history_dir.is_none() {
            let why = "--history-dir FOLDER is missing: say where the agent keeps its history";
            return Err((ErrorKind::MissingRequiredArgument, why.to_owned()));
        }
        if self.mode() == Mode::Renew && self.masters.is_empty() {
            let why = "--masters HOST:PORT,HOST:PORT is missing: say which masters renew the certificate";
            return Err((ErrorKind::MissingRequiredArgument, why.to_owned()));
        }
        if self.flags.invitation.is_some() && self.mode() != Mode::Enroll && self.mode() != Mode::Format {
            let why = "--invitation goes with --format, or alone: it gets a certificate, and exits";
            return Err((ErrorKind::ArgumentConflict, why.to_owned()));
        }
        if self.mode() != Mode::Serve {
            return Ok(());
        }
        if self.num_blocks.is_some() {
            let why = "--num-blocks (UNIQ_NUM_BLOCKS, num_blocks) is for --format alone: leave it out at a start, the serial file grows \
                       by itself";
            return Err((ErrorKind::ArgumentConflict, why.to_owned()));
        }
        if self.masters.is_empty() && !self.dev {
            let why = "--masters HOST:PORT,HOST:PORT is missing: name the --agent-listen addresses of both masters, or try without any \
                       by --dev";
            return Err((ErrorKind::MissingRequiredArgument, why.to_owned()));
        }
        if self.masters.len() > MASTERS_MAX {
            return Err((ErrorKind::TooManyValues, format!("--masters takes at most {MASTERS_MAX} addresses")));
        }
        if self.sets.len() > SETS_MAX {
            return Err((ErrorKind::TooManyValues, format!("--sets takes at most {SETS_MAX} names")));
        }
        let own = self.folder();
        if self.open_mint && self.flags.is_plain(own.as_ref()) {
            let why = "--open-mint needs --tls-cert or --tls-dir: over plain TCP nobody is asked for a certificate";
            return Err((ErrorKind::MissingRequiredArgument, why.to_owned()));
        }
        self.check_http()?;
        let tcp = [self.http_tcp().map(|http| http.at), Some(self.rpc_listen)];
        self.flags.check_listening(&tcp.into_iter().flatten().collect::<Vec<_>>(), own.as_ref())
    }
}

impl Args {
    /// The task that the program is to do.
    pub fn mode(&self) -> Mode {
        if let Some(id) = &self.history {
            return Mode::History(id.clone());
        }
        if self.forget_clock {
            return Mode::ForgetClock;
        }
        if self.renew_certificate {
            return Mode::Renew;
        }
        if self.flags.invitation.is_some() && !self.format {
            return Mode::Enroll;
        }
        match (&self.explain, self.format, self.inspect) {
            (Some(id), ..) => Mode::Explain(id.clone()),
            (None, true, _) => Mode::Format,
            (None, false, true) => Mode::Inspect,
            (None, false, false) => Mode::Serve,
        }
    }

    /// The folder in which this agent keeps its certificate, beside its serial file.
    pub fn tls_folder(&self) -> TlsFolder {
        self.flags.folder(|| {
            let mut folder = self.serial_file.clone().into_os_string();
            folder.push(".tls");
            folder.into()
        })
    }

    /// That folder, if its certificate is to be used: an agent of `--dev` has none of its own.
    pub fn folder(&self) -> Option<TlsFolder> {
        (!self.dev || self.flags.tls_dir.is_some()).then(|| self.tls_folder())
    }

    /// The address at which HTTP is served to whoever reaches it, if there is one.
    pub fn http_tcp(&self) -> Option<WebAddress> {
        self.http_listen.iter().find_map(|at| if let HttpAddress::Tcp(at) = at { Some(*at) } else { None })
    }

    /// The Unix socket at which HTTP is served, if there is one.
    pub fn http_unix(&self) -> Option<&Path> {
        self.http_listen.iter().find_map(|at| if let HttpAddress::Unix(path) = at { Some(&**path) } else { None })
    }

    /// Checks that HTTP is served at an address, at a socket, or at one of each.
    fn check_http(&self) -> Result<(), Wrong> {
        let said = self.http_listen.len();
        if said != usize::from(self.http_tcp().is_some()) + usize::from(self.http_unix().is_some()) {
            let why = "--http-listen takes one IP:PORT, one unix:PATH, or one of each";
            return Err((ErrorKind::TooManyValues, why.to_owned()));
        }
        if self.socket_group.is_some() && self.http_unix().is_none() {
            let why = "--socket-group needs a Unix socket: name one with --http-listen unix:PATH";
            return Err((ErrorKind::MissingRequiredArgument, why.to_owned()));
        }
        Ok(())
    }

    /// The settings of history, if it is kept.
    pub fn history_settings(&self) -> Option<HistorySettings> {
        let folder = self.history_dir.clone()?;
        let files_max = usize::try_from(self.history_files).unwrap_or(usize::MAX);
        Some(HistorySettings { folder, file_len_max: self.history_file_len, files_max })
    }

    /// The callers that are served, where there are certificates.
    pub fn admits(&self) -> Admits {
        if self.open_mint { Admits::Open } else { Admits::Callers }
    }

    /// [`renew_interval`](Self::renew_interval) as the holder takes it.
    pub fn renew_interval(&self) -> SpanMs {
        SpanMs(i64::try_from(self.renew_interval.as_millis()).unwrap_or(i64::MAX))
    }

    /// Checks that what is said beside `--dev` goes with it, and that nothing needs it that has it not.
    fn check_dev(&self, file_said: bool) -> Result<(), Wrong> {
        let conflict = |why: &str| Err((ErrorKind::ArgumentConflict, why.to_owned()));
        match self.dev {
            false if self.dev_dir.is_some() => {
                conflict("--dev-dir (UNIQ_DEV_DIR, dev_dir) is for --dev alone: say --dev too, or leave it out")
            }
            false => Ok(()),
            true if self.mode() != Mode::Serve => conflict(
                "--dev (UNIQ_DEV, dev) starts an agent: leave it out to do what acts once; in the folder of --dev-dir is a serial file for \
                 --serial-file",
            ),
            true if !self.masters.is_empty() => conflict(
                "--dev (UNIQ_DEV, dev) needs no masters, and --masters (UNIQ_MASTERS, masters) names some: leave one of them out",
            ),
            true if file_said => conflict(
                "--dev (UNIQ_DEV, dev) has a serial file of its own: leave --serial-file (UNIQ_SERIAL_FILE, serial_file) out, and say where \
                 to keep it by --dev-dir FOLDER",
            ),
            true => Ok(()),
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).ok().filter(|interval| RENEW_INTERVALS.contains(interval));
    interval.ok_or_else(|| "write a time from 1s to 12h, such as 30m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::ffi::OsString;

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::layered(std::iter::once("uniq_generator").chain(flags.iter().copied()).map(OsString::from))
    }

    #[test]
    fn the_command_is_well_formed_and_its_help_shows_every_default() {
        Args::command().debug_assert();
        let help = Args::command().render_long_help().to_string();
        for default in ["uniq_generator.serial", "127.0.0.1:6200", "127.0.0.1:6201", "1h", "fresh", "100000", "info"] {
            assert!(help.contains(&format!("[default: {default}]")), "{default}");
        }
        assert!(help.contains("[default: 100]") && help.contains("[default: <host name>-<HTTP port>]"));
        assert!(!help.contains("test-clock"));
    }

    #[test]
    fn wrong_usage_is_one_line_that_names_the_remedy() {
        for (flags, named) in [
            (&[][..], "--masters HOST:PORT"),
            (&["--masters", "nowhere"], "HOST:PORT"),
            (&["--masters", "http://a:1"], "HOST:PORT"),
            (&["--masters", "a:1", "--log", "warning"], "error, warn, info"),
            (&["--masters", "a:1;b:1"], "HOST:PORT"),
            (&["--masters", "a:1 b:1"], "HOST:PORT"),
            (&["--masters", "a:1", "--host-names", "a.example:80"], "without scheme and port"),
            (&["--masters", "a:1", "--num-blocks", "200"], "--format alone"),
            (&["--masters", "a:0"], "1 to 65535"),
            (&["--masters", "a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1"], "at most 8"),
            (&["--masters", "a:1", "--http-listen", "0.0.0.0:6200"], "--insecure"),
            (&["--masters", "a:1", "--http-listen", "unix:/run/a,0.0.0.0:6200"], "--insecure"),
            (&["--masters", "a:1", "--http-listen", "unix:"], "such as unix:/run/"),
            (&["--masters", "a:1", "--http-listen", "plain:0.0.0.0:6200"], "plain:127.0.0.1:PORT"),
            (&["--masters", "a:1", "--http-listen", "plain:127.0.0.1:1,127.0.0.1:2"], "one of each"),
            (&["--masters", "a:1", "--http-listen", "unix:/a,unix:/b"], "one of each"),
            (&["--masters", "a:1", "--http-listen", "127.0.0.1:1,127.0.0.1:2"], "one of each"),
            (&["--masters", "a:1", "--socket-group", "app"], "--http-listen unix:PATH"),
            (&["--masters", "a:1", "--socket-mode", "888"], "octal digits"),
            (&["--masters", "a:1", "--socket-mode", "432"], "as a text, such as '660'"),
            (&["--masters", "a:1", "--http-listen", "0.0.0.0:6200"], "--tls-cert"),
            (&["--masters", "a:1", "--tls-cert", "a.pem", "--tls-key", "a.key"], "--tls-ca"),
            (
                &["--masters", "a:1", "--tls-cert", "a", "--tls-key", "b", "--tls-ca", "c", "--insecure"],
                "say one of them",
            ),
            (&["--masters", "a:1", "--open-mint"], "--tls-cert"),
            (&["--masters", "a:1", "--rpc-listen", "[::]:6201"], "--insecure"),
            (&["--masters", "a:1", "--token-types", "uint3"], "uint2"),
            (&["--masters", "a:1", "--renew-interval", "13h"], "1s to 12h"),
            (&["--masters", "a:1", "--renew-interval", "5"], "such as 30m"),
            (&["--masters", "a:1", "--http-listen", "6200"], "IP:PORT, such as"),
            (&["--masters", "a:1", "--threads", "many"], "1 to 256"),
            (&["--masters", "a:1", "--batch-max", "many"], "1 to 1000000"),
            (&["--masters", "a:1", "--batch-max", "0"], "1 to 1000000"),
            (&["--masters", "a:1", "--agent-id", "a b"], "A-Z"),
            (&["--format", "--num-blocks", "1"], "2 to 20000"),
            (&["--masters", "a:1", "--history-files", "1"], "2 to 100000"),
            (&["--masters", "a:1", "--history-file-len", "5"], "65536 to 1099511627776"),
            (&["--history", "1"], "--history-dir"),
            (&["--history", "1", "--history-dir", "x", "--format"], "cannot be used with"),
            (&["--format", "--inspect"], "cannot be used with"),
            (&["--masters", "a:1", "--sets", "A B"], "a-z"),
            (&["--masters", "a:1", "--sequence-memory", "1GB"], "16777216 to 1099511627776"),
            (&["--masters", "a:1", "--sequence-memory", "1048576"], "16777216 to 1099511627776"),
            (&["--masters", "a:1", "--advertise-rpc", "here"], "HOST:PORT"),
            (&["--masters", "a:1", "--colour"], "--colour"),
            (&["--dev", "--masters", "a:1"], "leave one of them out"),
            (&["--dev", "--serial-file", "uniq_generator.serial"], "--dev-dir FOLDER"),
            (&["--dev", "--format"], "leave it out"),
            (&["--masters", "a:1", "--dev-dir", "x"], "say --dev too"),
            (&["--dev", "--num-blocks", "200"], "--format alone"),
            (&["--dev", "--http-listen", "0.0.0.0:6200"], "--insecure"),
        ] {
            let error = parse(flags).expect_err("was taken");
            let line = process::settings::one_line(&error, "uniq_generator");
            assert!(line.contains(named) && !line.contains('\n') && error.exit_code() == 2, "{flags:?}: {line}");
            assert!(!line.contains("invalid digit") && line.matches("--help").count() == 1, "{flags:?}: {line}");
        }
    }

    #[test]
    fn a_process_alone_needs_no_masters_either() {
        let args = parse(&["--dev", "--dev-dir", "kept"]).unwrap();
        assert_eq!((args.mode(), args.dev, args.dev_dir), (Mode::Serve, true, Some("kept".into())));
    }

    #[test]
    fn modes_need_no_masters() {
        assert_eq!(parse(&["--format"]).unwrap().mode(), Mode::Format);
        assert_eq!(parse(&["--inspect", "--json"]).unwrap().mode(), Mode::Inspect);
        assert_eq!(parse(&["--explain", "1"]).unwrap().mode(), Mode::Explain("1".to_owned()));
        let args = parse(&["--history", "7", "--history-dir", "past"]).unwrap();
        assert_eq!(args.mode(), Mode::History("7".to_owned()));
        let lists =
            ["--masters", "a:1, b:2", "--token-types", "uint2, uint1", "--sets", "default, x", "--host-names", "a, b"];
        let args = parse(&lists).unwrap();
        assert_eq!(
            (args.masters, args.flags.host_names),
            (vec!["a:1".to_owned(), "b:2".to_owned()], vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!((args.token_types.len(), args.sets.len()), (2, 2));
        let args = parse(&["--masters", "a:1,b:2", "--http-listen", "0.0.0.0:1", "--insecure"]).unwrap();
        assert_eq!((args.mode(), args.masters), (Mode::Serve, vec!["a:1".to_owned(), "b:2".to_owned()]));
    }
}
