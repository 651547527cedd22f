//! Settings in layers: flag > environment > file > default, for any clap command.
//!
//! The file's entries are put in as if they had been given as flags, unless the flag or its environment variable is
//! there. So every setting has one name, one parser and one error message wherever it comes from.
//!
//! A flag without an environment variable acts once: it makes, declares or shows something and the program ends. Such a flag
//! counts on the command line alone, because a file or an environment is there at each start, and often for several programs.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use common::hosts::{ANY as ANY_HOST, HostNames};
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest configuration file, in bytes.
pub const FILE_LEN_MAX: u64 = 1 << 20;
/// The names of the log's levels.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
/// The flag that names the file.
const CONFIG: &str = "config";

/// Parses `argv` with the file that `--config` names, if it does.
///
/// # Errors
/// clap's, for `--help` and `--version` too: print it and end with its exit code.
pub(crate) fn parse(mut command: Command, argv: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, clap::Error> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let matches = command.try_get_matches_from_mut(argv.clone())?;
    no_act_in_environment(&command)?;
    let Some(path) = matches.get_one::<std::path::PathBuf>(CONFIG) else { return Ok(matches) };
    let from_file = file_flags(&command, &matches, path)
        .map_err(|why| command.error(clap::error::ErrorKind::InvalidValue, format!("{}: {why}", path.display())))?;
    let (program, rest) =
        argv.split_first().map_or((OsString::from("program"), argv.as_slice()), |(p, r)| (p.clone(), r));
    let layered = std::iter::once(program).chain(from_file).chain(rest.iter().cloned());
    // Without the file all was well, so it is the file that is not.
    command.try_get_matches_from_mut(layered).map_err(|e| {
        let why = format!("{}: {}", path.display(), cause(&e));
        command.error(e.kind(), why)
    })
}

/// A usage error as one line, for the named program.
pub fn one_line(error: &clap::Error, program: &str) -> String {
    format!("{} (see {program} --help)", cause(error))
}

/// The cause of a usage error, without where to read more.
fn cause(error: &clap::Error) -> String {
    let text = error.to_string();
    let cause = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let cause = cause.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let line = cause.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Reads the value of a flag that is a whole number within `range`. What it refuses it answers with the range.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("write a whole number from {} to {}", range.start(), range.end())),
    }
}

/// The value of a flag that names where to listen.
///
/// # Errors
/// A text that says how to write it.
pub fn ip_port(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write it as IP:PORT, such as 127.0.0.1:7000 or [::1]:7000".to_owned())
}

/// An address at which HTTP is served over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebAddress {
    /// Where to listen.
    pub at: SocketAddr,
    /// Plain TCP, also by a program with a certificate: for callers on this machine.
    pub plain: bool,
}

impl FromStr for WebAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (plain, at) = text.strip_prefix("plain:").map_or((false, text), |at| (true, at));
        let at = ip_port(at)?;
        if plain && !at.ip().is_loopback() {
            return Err(
                "plain: is for callers on this machine, so write plain:127.0.0.1:PORT or plain:[::1]:PORT".to_owned()
            );
        }
        Ok(Self { at, plain })
    }
}

impl Display for WebAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.plain { "plain:" } else { "" }, self.at)
    }
}

/// An address at which HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// For whoever reaches it.
    Tcp(WebAddress),
    /// A Unix socket, for programs of this machine.
    Unix(PathBuf),
}

/// The longest path of a Unix socket, in bytes: those of `sun_path` (unix(7)) without its end, and without the folder in which it is made.
const SOCKET_PATH_LEN_MAX: usize = 96;

/// The value of a flag that names where HTTP is served.
///
/// # Errors
/// A text that says how to write it.
pub fn http_address(text: &str) -> Result<HttpAddress, String> {
    let Some(path) = text.strip_prefix("unix:") else {
        return text.parse().map(HttpAddress::Tcp).map_err(|how| format!("{how}, or unix:PATH"));
    };
    match path.len() {
        0 => Err("write the path of the socket behind 'unix:', such as unix:/run/uniq/agent.sock".to_owned()),
        1..=SOCKET_PATH_LEN_MAX => Ok(HttpAddress::Unix(path.into())),
        len => {
            Err(format!("the path of a Unix socket has at most {SOCKET_PATH_LEN_MAX} bytes, and this one has {len}"))
        }
    }
}

/// The value of a flag that says who beside its owner may use a file, in octal digits.
///
/// # Errors
/// A text that says how to write it. TOML's `0o660` is a number, 432 in decimal: as octal digits that would let in everybody but the owner.
pub fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600);
    mode.ok_or_else(|| "write octal digits from 600 to 777 as a text, such as '660'".to_owned())
}

/// The value of a flag that names where to connect, without blanks around it.
///
/// # Errors
/// A text that says how to write it: what no resolver can ever find is refused.
pub fn host_port(text: &str) -> Result<String, String> {
    const FORM: &str = "write it as HOST:PORT, a name, an IPv4 address or [an IPv6 address]";
    let text = text.trim();
    let (host, port) = text.rsplit_once(':').ok_or(FORM)?;
    let v6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if !v6.map_or_else(|| is_name(host), |v6| v6.parse::<Ipv6Addr>().is_ok()) {
        return Err(FORM.to_owned());
    }
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(text.to_owned()),
        _ => Err("write it as HOST:PORT, with a port from 1 to 65535".to_owned()),
    }
}

/// The address at which others reach a listener: with this machine's name where it listens on all addresses.
pub fn reached_at(at: SocketAddr) -> String {
    if !at.ip().is_unspecified() {
        return at.to_string();
    }
    format!("{}:{}", rustix::system::uname().nodename().to_string_lossy(), at.port())
}

/// A name under which a program is asked over HTTP, or `*` for any, without blanks around it.
///
/// # Errors
/// A text that says how to write it: what no `Host` header can be equal to is refused.
pub fn host_name(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text == ANY_HOST || is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("write a name without scheme and port, such as ids.example.com, or * for any".to_owned()),
    }
}

/// Tells whether a text can be the name of a host, or an IPv4 address.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// One item of a list that is separated by commas, read by `parse` without the blanks around it.
pub fn item<T, E>(parse: impl Fn(&str) -> Result<T, E> + Clone) -> impl Fn(&str) -> Result<T, E> + Clone {
    move |text| parse(text.trim())
}

/// The names under which a program may be asked over HTTP: those given, and the machine's own.
pub fn host_names(given: &[String]) -> HostNames {
    let node = rustix::system::uname();
    let own = node.nodename().to_string_lossy().into_owned();
    HostNames::new(given.iter().cloned().chain([own]))
}

/// A switch as an environment variable says it; empty is off, as an unset one.
///
/// # Errors
/// A text that says how to write it: a slip must not turn on what the switch allows.
pub fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "no" | "off" => Ok(false),
        "1" | "true" | "yes" | "on" => Ok(true),
        _ => Err("write it as true or false".to_owned()),
    }
}

/// Checks a level of the log, or a filter with levels for parts of the program, without blanks.
///
/// # Errors
/// A text that says how to write it. The log's library takes a word that is no level for the name of a part that nobody has, and then
/// logs nothing at all.
pub fn log_filter(text: &str) -> Result<String, String> {
    let known = |item: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(item.trim()));
    let says_a_level = |item: &str| match item.rsplit_once('=') {
        Some((part, level)) => !part.trim().is_empty() && known(level),
        None => known(item),
    };
    match text.split(',').all(says_a_level) {
        true => Ok(text.split_whitespace().collect()),
        false => Err(format!("write one of {}, or a filter such as info,net=debug", LEVELS.join(", "))),
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Tells whether a flag acts once: those alone have no environment variable.
fn acts_once(arg: &Arg) -> bool {
    arg.get_long().is_some() && arg.get_env().is_none() && ![CONFIG, "help", "version"].contains(&arg.get_id().as_str())
}

fn flag_only(arg: &Arg, said: &str) -> String {
    let long = arg.get_long().unwrap_or_default();
    format!("{said} is not accepted: what --{long} does is done once, so it is given on the command line only")
}

fn no_act_in_environment(command: &Command) -> Result<(), clap::Error> {
    for arg in command.get_arguments().filter(|arg| acts_once(arg)) {
        let name = format!("UNIQ_{}", arg.get_id().as_str().to_ascii_uppercase());
        let said =
            std::env::var_os(&name).is_some_and(|value| value.to_str().is_none_or(|text| switch(text) != Ok(false)));
        if said {
            let why = flag_only(arg, &format!("{name} in the environment"));
            return Err(command.clone().error(clap::error::ErrorKind::ArgumentConflict, why));
        }
    }
    Ok(())
}

fn file_flags(command: &Command, matches: &ArgMatches, path: &Path) -> Result<Vec<OsString>, String> {
    let len = std::fs::metadata(path).map_err(|e| format!("cannot be read: {e}"))?.len();
    if len > FILE_LEN_MAX {
        return Err(format!("has {len} bytes; a configuration has at most {FILE_LEN_MAX}"));
    }
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot be read: {e}"))?;
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let mut flags = Vec::new();
    for (name, value) in table {
        let id = name.as_str();
        let known = command.get_arguments().find(|arg| arg.get_id() == id && arg.get_long().is_some());
        let Some(arg) = known.filter(|_| id != CONFIG) else {
            let names: Vec<&str> = command
                .get_arguments()
                .filter(|arg| arg.get_long().is_some() && arg.get_env().is_some() && !arg.is_hide_set())
                .map(|arg| arg.get_id().as_str())
                .filter(|id| *id != CONFIG)
                .collect();
            return Err(format!("no setting is called '{name}'; there are {}", names.join(", ")));
        };
        if acts_once(arg) {
            return Err(flag_only(arg, &format!("'{name}'")));
        }
        let given = matches.value_source(id);
        if matches!(given, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            continue;
        }
        let long = arg.get_long().unwrap_or(id);
        match (arg.get_action().takes_values(), value) {
            (false, toml::Value::Boolean(true)) => flags.push(format!("--{long}").into()),
            (false, toml::Value::Boolean(false)) => {}
            (false, _) => return Err(format!("'{name}' is true or false")),
            (true, toml::Value::Array(items)) => {
                let items: Result<Vec<String>, String> = items.iter().map(|item| plain(&name, item)).collect();
                flags.push(format!("--{long}={}", items?.join(",")).into());
            }
            (true, value) => flags.push(format!("--{long}={}", plain(&name, &value)?).into()),
        }
    }
    Ok(flags)
}

fn plain(name: &str, value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(flag) => Ok(flag.to_string()),
        _ => Err(format!("'{name}' is a text, a number, or a list of them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn command() -> Command {
        Command::new("test")
            .arg(Arg::new(CONFIG).long(CONFIG).value_parser(clap::value_parser!(std::path::PathBuf)))
            .arg(
                arg("batch_max", "batch-max", "SETTINGS_TEST_BATCH_MAX")
                    .default_value("7")
                    .value_parser(clap::value_parser!(u32)),
            )
            .arg(arg("masters", "masters", "SETTINGS_TEST_MASTERS").value_delimiter(',').action(ArgAction::Append))
            .arg(arg("insecure", "insecure", "SETTINGS_TEST_INSECURE").action(ArgAction::SetTrue))
            .arg(Arg::new("declare_lost").long("declare-lost").action(ArgAction::SetTrue))
    }

    fn arg(id: &'static str, long: &'static str, env: &'static str) -> Arg {
        Arg::new(id).long(long).env(env)
    }

    fn run(file: &str, flags: &[&str]) -> Result<(u32, Vec<String>, bool), String> {
        let dir =
            std::env::temp_dir().join(format!("settings-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("config.toml");
        std::fs::write(&path, file).unwrap();
        let argv =
            ["test", "--config", path.to_str().unwrap()].into_iter().chain(flags.iter().copied()).map(OsString::from);
        let parsed = parse(command(), argv).map_err(|e| e.to_string());
        std::fs::remove_dir_all(&dir).unwrap();
        let m = parsed?;
        let masters = m.get_many::<String>("masters").into_iter().flatten().cloned().collect();
        Ok((*m.get_one("batch_max").unwrap(), masters, m.get_flag("insecure")))
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        assert_eq!(run("", &[]), Ok((7, vec![], false)));
        let masters = vec!["a:1".to_owned(), "b:2".to_owned()];
        assert_eq!(run("batch_max = 8\nmasters = [\"a:1\", \"b:2\"]\ninsecure = true", &[]), Ok((8, masters, true)));
        assert_eq!(run("batch_max = 8", &["--batch-max", "9"]), Ok((9, vec![], false)));
    }

    #[test]
    fn a_number_is_refused_with_what_it_may_be() {
        let port = number(1..=9_u8);
        assert_eq!((port("1"), port("9")), (Ok(1), Ok(9)));
        for bad in ["", "0", "10", "-1", "256", "many", "1.5"] {
            assert_eq!(port(bad), Err("write a whole number from 1 to 9".to_owned()), "{bad}");
        }
        assert!(ip_port("[::1]:7101").is_ok() && ip_port("7101").unwrap_err().contains("IP:PORT"));
    }

    #[test]
    fn plain_http_beside_tls_is_for_loopback() {
        for text in ["127.0.0.1:6200", "0.0.0.0:6200", "plain:127.0.0.1:6200", "plain:[::1]:6200"] {
            assert_eq!(text.parse::<WebAddress>().unwrap().to_string(), text);
        }
        for text in ["plain:0.0.0.0:6200", "plain:10.0.0.1:6200", "plain:[::ffff:10.0.0.1]:6200"] {
            assert!(text.parse::<WebAddress>().unwrap_err().contains("plain:127.0.0.1:PORT"), "{text}");
        }
        for text in ["plain:", "plain:plain:127.0.0.1:1", "plain:unix:/a", "Plain:127.0.0.1:1", "plain:localhost:1"] {
            assert!(http_address(text).unwrap_err().contains("IP:PORT"), "{text}");
        }
    }

    #[test]
    fn blanks_around_an_address_are_taken_off_and_what_can_never_work_is_refused() {
        for (text, taken) in [("a:1", "a:1"), (" b.example:7101 ", "b.example:7101"), ("[::1]:1", "[::1]:1")] {
            assert_eq!(host_port(text), Ok(taken.to_owned()));
        }
        for bad in [
            "",
            "a",
            ":1",
            "a:0",
            "a:x",
            "http://a:1",
            "tcp://a:1",
            "a:1;b:2",
            "a b:1",
            "a:1 b:2",
            "::1:1",
            "[::x]:1",
            "é:1",
        ] {
            assert!(host_port(bad).unwrap_err().contains("HOST:PORT"), "{bad}");
        }
        for (text, taken) in [("*", "*"), (" ids.example ", "ids.example")] {
            assert_eq!(host_name(text), Ok(taken.to_owned()));
        }
        for bad in ["", "http://ids.example", "ids.example:80", "a b", "*.example"] {
            assert!(host_name(bad).is_err(), "{bad}");
        }
        assert_eq!(item(str::parse::<u8>)(" 7 "), Ok(7));
    }

    #[test]
    fn a_level_is_a_known_word() {
        for (text, taken) in
            [("info", "info"), ("warn ", "warn"), ("WARN", "WARN"), ("info, agent=debug", "info,agent=debug")]
        {
            assert_eq!(log_filter(text), Ok(taken.to_owned()));
        }
        for bad in
            ["", " ", "warning", "WARNING", "verbose", "info,", "agent", "agent=", "=debug", "agent=loud", "wa rn"]
        {
            assert!(log_filter(bad).unwrap_err().contains("one of error, warn"), "{bad}");
        }
    }

    #[test]
    fn where_to_read_more_is_said_once() {
        let dir = std::env::temp_dir().join(format!("settings-once-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("config.toml");
        std::fs::write(&path, "batch_max = \"many\"").unwrap();
        let argv = ["test", "--config", path.to_str().unwrap()].map(OsString::from);
        let error = parse(command(), argv).unwrap_err();
        std::fs::remove_dir_all(&dir).unwrap();
        let line = one_line(&error, "test");
        assert_eq!(line.matches("--help").count(), 1, "{line}");
        assert!(line.contains("config.toml: invalid value 'many'"), "{line}");
    }

    #[test]
    fn what_the_file_may_not_say_is_named() {
        assert!(run("batch_mux = 8", &[]).unwrap_err().contains("there are batch_max, masters"));
        let error = run("batch_max = \"many\"", &[]).unwrap_err();
        assert!(error.contains("many") && error.contains("config.toml"), "{error}");
        assert!(run("batch_max = ", &[]).is_err());
        assert!(run("insecure = 1", &[]).unwrap_err().contains("true or false"));
        assert!(run("masters = [[1]]", &[]).is_err());
        assert!(run("config = \"other.toml\"", &[]).is_err());
        let once = run("declare_lost = true", &[]).unwrap_err();
        assert!(once.contains("on the command line only"), "{once}");
        assert!(run("declare_lost = false", &[]).is_err());
        assert!(run("", &["--declare-lost"]).is_ok());
    }
}
