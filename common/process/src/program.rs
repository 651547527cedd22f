//! A program from its command line to its exit status, and the flags that every program has.

use super::{end, log, signals};
use crate::settings::{self, LogFormat};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use common::clock::{Clock, TestClock};
use net::enroll::{Invitation, TlsFolder};
use net::tls::{Files, Role, Tls};
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// The exit status of who does not say what a program can do.
const USAGE: u8 = 2;

/// Bytes that are read of a file with an invitation at most.
const INVITATION_LEN_MAX: u64 = 1_024;

/// Flags of every program; they follow its own.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Names under which this program is asked over HTTP, comma-separated, beside plain addresses, localhost and this machine's
    /// own name; * for any. Requests for other names are refused, because a web page in somebody's browser may have made them
    #[arg(long, env = "UNIQ_HOST_NAMES", value_delimiter = ',', value_name = "NAME",
          value_parser = settings::host_name)]
    pub host_names: Vec<String>,

    /// This program's certificate in PEM form, and those between it and the CA. With --tls-key and --tls-ca connections are TLS. Its
    /// subject's alternative names hold one URI: uniq://master/ID for a master, uniq://agent/NAME for an agent. The three files are read
    /// again when they change
    #[arg(long, env = "UNIQ_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, in PEM form
    #[arg(long, env = "UNIQ_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// The certificates of the CAs that are believed, in PEM form; two while one is exchanged for another
    #[arg(long, env = "UNIQ_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// The folder with ca.pem and own.pem (certificate and key), in place of --tls-cert, --tls-key and --tls-ca: what an invitation brings is
    /// kept there, and renewed by the program itself
    #[arg(long, env = "UNIQ_TLS_DIR", value_name = "FOLDER")]
    pub tls_dir: Option<PathBuf>,

    /// The invitation that `uniq_master --invite` printed: this file's first line, or that of standard input if it is -. It gives this
    /// program its certificate, which goes into --tls-dir, and is used up by that
    #[arg(long, value_name = "FILE|-")]
    pub invitation: Option<PathBuf>,

    /// Speak TLS 1.2 to callers who have no 1.3, such as Java 8 before update 261. Their certificates are seen by whoever watches the network then
    #[arg(long = "tls-1-2", env = "UNIQ_TLS_1_2", value_parser = settings::switch)]
    pub tls_1_2: bool,

    /// Listen on addresses that are not loopback, without TLS: anybody who reaches them can take IDs or leases
    #[arg(long, env = "UNIQ_INSECURE", value_parser = settings::switch)]
    pub insecure: bool,

    /// A TOML file with further settings
    #[arg(long, env = "UNIQ_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Format of log lines
    #[arg(long, env = "UNIQ_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// Level of the log on stderr: error, warn, info, debug, trace, or a filter such as info,net=debug. SIGHUP reads it anew
    /// from --config. Of each kind of line above debug at most ten are written at once and then one every 10 s; those left out are
    /// counted
    #[arg(long, env = "UNIQ_LOG", default_value = "info", value_name = "LEVEL", value_parser = settings::log_filter)]
    pub log: String,

    /// Tests only: time runs SCALE times faster from EPOCH_MS on
    #[arg(long, env = "UNIQ_TEST_CLOCK", hide = true, value_name = "SCALE@EPOCH_MS")]
    pub test_clock: Option<TestClock>,
}

impl Flags {
    /// The time by which the program goes.
    pub fn clock(&self) -> Clock {
        Clock::new(self.test_clock)
    }

    /// Checks that a program which listens there is not within everybody's reach, unless it is told to be. `own` is the folder whose
    /// certificate it has if no flag says another one.
    ///
    /// # Errors
    /// As [`CommandLine::check`].
    pub fn check_listening(&self, at: &[SocketAddr], own: Option<&TlsFolder>) -> Result<(), Wrong> {
        let plain = self.certificates(own)?.is_none();
        match at.iter().find(|address| !address.ip().is_loopback()) {
            Some(address) if !self.insecure && plain => Err((
                ErrorKind::ValueValidation,
                format!(
                    "{address} is not loopback, and without TLS anybody who reaches it can take IDs or leases: get a certificate by \
                     --invitation, or give one with --tls-cert, --tls-key and --tls-ca, listen on 127.0.0.1 or [::1], or say --insecure if \
                     the network is closed"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The folder of the certificate that this program keeps itself: the one of `--tls-dir`, or `default`.
    pub fn folder(&self, default: impl FnOnce() -> PathBuf) -> TlsFolder {
        TlsFolder::new(self.tls_dir.clone().unwrap_or_else(default))
    }

    /// The folder whose certificate the program keeps itself, if that is the one it has.
    pub fn keeps<'a>(&self, own: Option<&'a TlsFolder>) -> Option<&'a TlsFolder> {
        own.filter(|own| self.tls_cert.is_none() && !self.insecure && (self.tls_dir.is_some() || own.is_there()))
    }

    /// The files with certificates, if there are any.
    fn certificates(&self, own: Option<&TlsFolder>) -> Result<Option<Files>, Wrong> {
        let conflict = |why: &str| Err((ErrorKind::ArgumentConflict, why.to_owned()));
        match (&self.tls_cert, &self.tls_key, &self.tls_ca) {
            (None, None, None) if self.insecure && self.tls_dir.is_some() => {
                conflict("--insecure is plain TCP, and --tls-dir is TLS: say one of them")
            }
            (None, None, None) => match self.keeps(own) {
                Some(own) => Ok(Some(own.files())),
                None if self.tls_1_2 => Err((
                    ErrorKind::MissingRequiredArgument,
                    "--tls-1-2 needs --tls-cert or --tls-dir: plain TCP has no version of TLS".to_owned(),
                )),
                None => Ok(None),
            },
            (Some(_), Some(_), Some(_)) if self.insecure => {
                conflict("--insecure is plain TCP, and --tls-cert is TLS: say one of them")
            }
            (Some(_), Some(_), Some(_)) if self.tls_dir.is_some() => {
                conflict("--tls-dir stands for --tls-cert, --tls-key and --tls-ca: give either")
            }
            (Some(cert), Some(key), Some(ca)) => {
                Ok(Some(Files { ca: ca.clone(), own: Some((cert.clone(), key.clone())) }))
            }
            _ => Err((
                ErrorKind::MissingRequiredArgument,
                "--tls-cert, --tls-key and --tls-ca belong together: give all three".to_owned(),
            )),
        }
    }

    /// Tells whether the program speaks plain TCP.
    pub fn is_plain(&self, own: Option<&TlsFolder>) -> bool {
        matches!(self.certificates(own), Ok(None))
    }

    /// The certificates that the flags name, or the ones in the folder `own`, whose holder has to be this one; plain TCP if there are none.
    ///
    /// # Errors
    /// The reason why they cannot be used, with the remedy.
    pub fn tls(&self, holder: &Role, own: Option<&TlsFolder>) -> Result<Tls, String> {
        match self.certificates(own).map_err(|(_, why)| why)? {
            Some(files) => {
                let again = "; it came by an invitation, and a new one (--invitation) brings another";
                let again = if self.keeps(own).is_some() { again } else { "" };
                let tls = Tls::load_for(files, holder).map_err(|why| format!("{why}{again}"))?;
                Ok(if self.tls_1_2 { tls.with_tls12() } else { tls })
            }
            None => Ok(Tls::PLAIN),
        }
    }

    /// Reads the invitation that the flags name, if they name one.
    ///
    /// # Errors
    /// The file cannot be read, or holds none.
    pub fn invited(&self) -> Result<Option<Invitation>, String> {
        let Some(file) = &self.invitation else { return Ok(None) };
        if self.tls_cert.is_some() {
            return Err("--invitation brings a certificate, and --tls-cert names one: give either".to_owned());
        }
        let at = match file.to_str() {
            Some("-") => "standard input".to_owned(),
            // Whoever reads the log could use it.
            Some(line) if line.contains("://") => {
                return Err(
                    "give the invitation in a file, or by - on standard input: a command line is read by others"
                        .to_owned(),
                );
            }
            _ => file.display().to_string(),
        };
        let mut text = String::new();
        let read = match file.to_str() {
            // The line alone: who pastes it does not end the input.
            Some("-") => std::io::stdin().lock().take(INVITATION_LEN_MAX).read_line(&mut text),
            _ => File::open(file).and_then(|file| BufReader::new(file).take(INVITATION_LEN_MAX).read_line(&mut text)),
        };
        read.map_err(|why| format!("cannot read the invitation in {at}: {why}"))?;
        text.parse().map(Some).map_err(|why| format!("there is no invitation in the first line of {at}: {why}"))
    }
}

/// The reason why flags do not go together.
pub type Wrong = (ErrorKind, String);

/// The command line of a program.
pub trait CommandLine: CommandFactory + FromArgMatches + 'static {
    /// The flags that every program has.
    fn flags(&self) -> &Flags;

    /// Checks what belongs together. clap would look before the configuration file is read. `said` tells where each value is from.
    ///
    /// # Errors
    /// A text that names the remedy.
    fn check(&self, said: &ArgMatches) -> Result<(), Wrong>;

    /// Parses the command line, the environment and the configuration file.
    ///
    /// # Errors
    /// clap's, for `--help` and `--version` too.
    fn layered(argv: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = settings::parse(command.clone(), argv)?;
        let args = Self::from_arg_matches(&matches).map_err(|e| e.format(&mut command))?;
        args.check(&matches).map_err(|(kind, why)| command.error(kind, why))?;
        Ok(args)
    }
}

/// Does with the command line of this process what `run` does, and says how that ended.
pub fn main<A: CommandLine, E: Display>(run: impl FnOnce(A) -> Result<(), E>) -> ExitCode {
    let command = A::command();
    let program = command.get_name();
    let args = match A::layered(std::env::args_os()) {
        Ok(args) => args,
        Err(e) if e.exit_code() == 0 => {
            // `--help`. Where stdout is closed there is nobody to tell.
            let _ = e.print();
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            end::say(&format!("{program}: {}", settings::one_line(&e, program)));
            return ExitCode::from(USAGE);
        }
    };
    match run(args) {
        Ok(()) => {
            log::flush();
            ExitCode::SUCCESS
        }
        Err(e) => {
            end::say(&format!("{program}: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Starts the log, and the thread that hears signals: the token is cancelled when the program is told to stop.
///
/// # Errors
/// A text for the operator.
pub fn start<A: CommandLine>(args: &A) -> Result<(CancellationToken, Clock), String> {
    let flags = args.flags();
    log::start(&flags.log, flags.log_format)?;
    let stop = CancellationToken::new();
    signals::start(stop.clone(), reload::<A>).map_err(|e| format!("cannot listen to signals: {e}"))?;
    if let Some(test) = flags.test_clock {
        tracing::warn!("TEST CLOCK {test}: time is not what it seems; never use this for real IDs");
    }
    Ok((stop, flags.clock()))
}

/// Reads the configuration again, at SIGHUP, and the log follows it. All else needs a restart.
fn reload<A: CommandLine>() {
    let args = A::layered(std::env::args_os()).map_err(|e| settings::one_line(&e, A::command().get_name()));
    let set = args.and_then(|args| log::set_level(&args.flags().log).map(|()| args.flags().log.clone()));
    match set {
        Ok(level) => tracing::info!(%level, "the configuration was read again for the log; all else needs a restart"),
        Err(why) => tracing::error!(%why, "the configuration could not be read again"),
    }
}
