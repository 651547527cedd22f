//! Both programs on the command line: help, exit statuses, one line that names the cause and the remedy, and settings
//! by flag, environment and file in this order.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use tests::cluster::Cluster;
use tests::programs::{Ended, command, generator, master, run};

fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        status: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The last line of stderr; log lines may stand before it.
fn last_line(ended: &Ended) -> &str {
    ended.err.lines().last().unwrap_or_default()
}

fn fails(ended: &Ended, status: i32, names: &str, what: &str) {
    assert_eq!(ended.status, Some(status), "{what}: {ended:?}");
    assert!(last_line(ended).contains(names), "{what}: '{names}' is not named: {ended:?}");
    assert!(!ended.err.contains("panicked") && ended.out.is_empty(), "{what}: {ended:?}");
}

#[test]
fn help_shows_every_flag_with_its_default() {
    let dir = tempfile::tempdir().unwrap();
    let agent = [
        "--format",
        "--inspect",
        "--explain",
        "--serial-file",
        "uniq_generator.serial",
        "--num-blocks",
        "100",
        "--json",
        "--masters",
        "--agent-id",
        "--http-listen",
        "127.0.0.1:6200",
        "--rpc-listen",
        "127.0.0.1:6201",
        "--token-types",
        "uint2,string2-include-letter",
        "--renew-interval",
        "1h",
        "--after-reboot",
        "--batch-max",
        "100000",
        "--reserved-percent",
        "--history-dir",
        "--history-file-len",
        "67108864",
        "--history-files",
        "--config",
        "--log",
        "--log-format",
        "--insecure",
    ];
    let masters = [
        "--format",
        "--data-dir",
        "uniq_master.data",
        "--id",
        "--lease-days",
        "7",
        "--utc-offset",
        "+00:00",
        "--uint2-max",
        "4095",
        "--agent-listen",
        "127.0.0.1:7101",
        "--peer-listen",
        "127.0.0.1:7201",
        "--peer",
        "--web-listen",
        "127.0.0.1:7301",
        "--allow",
        "127.0.0.0/8",
        "--config",
        "--log",
        "--log-format",
        "--insecure",
    ];
    for (program, words) in [(generator().unwrap(), &agent[..]), (master().unwrap(), &masters[..])] {
        let help = run(&program, &["--help"], dir.path()).unwrap();
        assert_eq!((help.status, help.err.as_str()), (Some(0), ""));
        for word in words {
            assert!(help.out.contains(word), "--help of {} does not say {word}:\n{}", program.display(), help.out);
        }
        assert!(!help.out.contains("--test-clock"), "--test-clock is for tests only");
        let version = run(&program, &["--version"], dir.path()).unwrap();
        assert!(version.status == Some(0) && version.out.contains(env!("CARGO_PKG_VERSION")), "{version:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_of_the_agent_is_status_2_and_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let generator = generator().unwrap();
    assert_eq!(run(&generator, &["--format"], dir.path()).unwrap().status, Some(0));
    fn run_with<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["--masters", "127.0.0.1:1"], more].concat()
    }
    let agent_cases: Vec<(Vec<&str>, &str)> = vec![
        (vec!["--no-such-flag"], "--no-such-flag"),
        (vec!["stray"], "stray"),
        (vec![], "--masters"),
        (vec!["--masters", ""], "--masters"),
        (vec!["--masters", "nonsense"], "--masters"),
        (vec!["--format", "--inspect"], "--inspect"),
        (vec!["--format", "--num-blocks", "1", "--serial-file", "x"], "--num-blocks"),
        (vec!["--format", "--num-blocks", "-1", "--serial-file", "x"], "-1"),
        (vec!["--format", "--num-blocks", "4294967295", "--serial-file", "x"], "--num-blocks"),
        (run_with(&["--http-listen", "nonsense"]), "write it as IP:PORT"),
        (run_with(&["--batch-max", "many"]), "write a whole number from 1 to 1000000"),
        (run_with(&["--reserved-percent", "91"]), "write a whole number from 0 to 90"),
        (run_with(&["--rpc-listen", "127.0.0.1:99999"]), "--rpc-listen"),
        (run_with(&["--renew-interval", "soon"]), "--renew-interval"),
        (run_with(&["--renew-interval", "0s"]), "--renew-interval"),
        (run_with(&["--token-types", "uint3"]), "uint2"),
        (run_with(&["--after-reboot", "maybe"]), "--after-reboot"),
        (run_with(&["--agent-id", "two words"]), "--agent-id"),
        (run_with(&["--log-format", "xml"]), "--log-format"),
        (run_with(&["--http-listen", "0.0.0.0:0"]), "--insecure"),
        (run_with(&["--test-clock", "fast"]), "SCALE@EPOCH_MS"),
    ];
    for (args, names) in &agent_cases {
        let ended = run(&generator, args, dir.path()).unwrap();
        fails(&ended, 2, names, &format!("uniq_generator {args:?}"));
        assert_eq!(ended.err.lines().count(), 1, "more than one line: uniq_generator {args:?}: {}", ended.err);
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["uniq_generator.serial"], "wrong usage made something");
}

#[test]
fn wrong_usage_of_the_master_is_status_2_and_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let master = master().unwrap();
    let master_cases: [(&[&str], &str); 15] = [
        (&["--no-such-flag"], "--no-such-flag"),
        (&[], "--peer"),
        (&["--format"], "--id"),
        (&["--format", "--id", "0"], "--id"),
        (&["--format", "--id", "3"], "--id"),
        (&["--format", "--id", "1", "--lease-days", "0"], "--lease-days"),
        (&["--format", "--id", "1", "--lease-days", "31"], "--lease-days"),
        (&["--format", "--id", "1", "--utc-offset", "+25:00"], "--utc-offset"),
        (&["--format", "--id", "1", "--utc-offset", "Berlin"], "--utc-offset"),
        (&["--format", "--id", "1", "--uint2-max", "65536"], "--uint2-max"),
        (&["--peer", "nonsense"], "--peer"),
        (&["--peer", "127.0.0.1:1", "--web-listen", "nonsense"], "--web-listen"),
        (&["--peer", "127.0.0.1:1", "--allow", "everyone"], "--allow"),
        (&["--peer", "127.0.0.1:1", "--agent-listen", "0.0.0.0:0"], "--insecure"),
        (&["--peer", "127.0.0.1:1", "--log-format", "xml"], "--log-format"),
    ];
    for (args, names) in master_cases {
        let ended = run(&master, args, dir.path()).unwrap();
        fails(&ended, 2, names, &format!("uniq_master {args:?}"));
        assert_eq!(ended.err.lines().count(), 1, "more than one line: uniq_master {args:?}: {}", ended.err);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "wrong usage made something");
}

#[test]
fn both_understand_the_same_words_for_a_switch_and_no_slip() {
    for (program, format) in
        [(generator().unwrap(), vec!["--format"]), (master().unwrap(), vec!["--format", "--id", "1"])]
    {
        for (text, status) in [("1", 0), ("true", 0), ("Yes", 0), ("off", 0), ("0", 0), ("", 0), ("flase", 2)] {
            let dir = tempfile::tempdir().unwrap();
            let mut command = command(&program);
            command.args(&format).current_dir(dir.path()).env("UNIQ_INSECURE", text);
            let ended = ended(command);
            assert_eq!(ended.status, Some(status), "{} with {text:?}: {ended:?}", program.display());
            if status != 0 {
                fails(&ended, status, "write it as true or false", text);
                assert!(ended.err.contains("--insecure"), "{ended:?}");
            }
        }
    }
}

#[test]
fn config_files_that_say_nonsense_are_refused_with_their_name() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&generator().unwrap(), &["--format"], dir.path()).unwrap().status, Some(0));
    let cases = [
        ("syntax.toml", "masters = ["),
        ("unknown.toml", "mastres = '127.0.0.1:1'"),
        ("type.toml", "num_blocks = 'many'"),
        ("value.toml", "http_listen = 'nonsense'"),
    ];
    for (name, text) in cases {
        std::fs::write(dir.path().join(name), text).unwrap();
        for program in [generator().unwrap(), master().unwrap()] {
            if program == master().unwrap() && name != "syntax.toml" && name != "unknown.toml" {
                continue;
            }
            let ended = run(&program, &["--config", name], dir.path()).unwrap();
            fails(&ended, 2, "", &format!("{} with {name}", program.display()));
            assert!(ended.err.contains(name), "the file is not named: {ended:?}");
        }
    }
    std::fs::write(dir.path().join("bytes.toml"), [0xff, 0xfe, 0x00]).unwrap();
    for name in ["bytes.toml", "missing.toml", "."] {
        let ended = run(&generator().unwrap(), &["--config", name], dir.path()).unwrap();
        assert!(matches!(ended.status, Some(1 | 2)) && ended.err.contains(name), "{name}: {ended:?}");
    }
}

fn file_blocks(path: &Path) -> u64 {
    (std::fs::metadata(path).unwrap().len() - 72) / 68
}

#[test]
fn a_flag_goes_before_the_environment_and_that_before_the_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c.toml"), "num_blocks = 3\nserial_file = 'from-file'\n").unwrap();
    let format = |file: &str, env: Option<&str>, flag: Option<&str>| {
        let mut command = command(&generator().unwrap());
        command.current_dir(&dir).args(["--format", "--config", "c.toml"]);
        command.env("UNIQ_SERIAL_FILE", file);
        if let Some(env) = env {
            command.env("UNIQ_NUM_BLOCKS", env);
        }
        if let Some(flag) = flag {
            command.args(["--num-blocks", flag]);
        }
        let ended = ended(command);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        file_blocks(&dir.path().join(file))
    };
    assert_eq!(format("a", None, None), 3);
    assert_eq!(format("b", Some("4"), None), 4);
    assert_eq!(format("c", Some("4"), Some("5")), 5);
    assert!(!dir.path().join("from-file").exists());

    let mut wrong = command(&generator().unwrap());
    wrong.current_dir(&dir).arg("--format").env("UNIQ_NUM_BLOCKS", "many");
    fails(&ended(wrong), 2, "many", "a wrong value in the environment");
}

/// A file that both masters share, or an environment that a shell keeps, must not declare both of them lost.
#[test]
fn what_acts_once_is_a_flag_only() {
    let dir = tempfile::tempdir().unwrap();
    let token = "0f".repeat(32);
    let acts = [
        (
            master().unwrap(),
            &[
                "format",
                "peer_lost",
                "join",
                "join_file",
                "verify_audit",
                "check_store",
                "vouch_untouched",
                "reset_admin",
                "invite",
                "invitation",
            ][..],
        ),
        (generator().unwrap(), &["format", "inspect", "explain", "invitation", "renew_certificate"][..]),
    ];
    for (program, names) in acts {
        for name in names {
            let is_text = ["join", "explain", "invit"].iter().any(|text| name.starts_with(text));
            let value = if is_text { format!("'{token}'") } else { "true".to_owned() };
            std::fs::write(dir.path().join("c.toml"), format!("{name} = {value}\n")).unwrap();
            let flag = name.replace('_', "-");
            let only = format!("--{flag} does is done once");
            let mut file = command(&program);
            file.current_dir(&dir).args(["--config", "c.toml", "--peer", "127.0.0.1:1"]);
            if program.ends_with("uniq_generator") {
                file = command(&program);
                file.current_dir(&dir).args(["--config", "c.toml", "--masters", "127.0.0.1:1"]);
            }
            fails(&ended(file), 2, &only, &format!("{name} in a file"));
            let mut environment = command(&program);
            environment.current_dir(&dir).env(format!("UNIQ_{}", name.to_ascii_uppercase()), value.trim_matches('\''));
            fails(&ended(environment), 2, &only, &format!("{name} in the environment"));
        }
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["c.toml"], "something was made");
}

#[test]
fn a_join_token_may_come_from_a_file_or_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), format!("{}\n", "0f".repeat(32))).unwrap();
    std::fs::write(dir.path().join("none"), "a word\n").unwrap();
    let join = |from: &str, stdin: &str| {
        let mut join = command(&master().unwrap());
        join.current_dir(&dir).args(["--join-file", from, "--id", "2", "--peer", "127.0.0.1:1", "--data-dir", "d"]);
        join.stdin(std::fs::File::open(dir.path().join(stdin)).unwrap());
        ended(join)
    };
    // The token is taken; only nobody is there to ask.
    fails(&join("token", "none"), 1, "127.0.0.1:1", "a token in a file");
    fails(&join("-", "token"), 1, "127.0.0.1:1", "a token on standard input");
    fails(&join("none", "token"), 1, "64 hexadecimal digits", "no token in a file");
    fails(&join("-", "none"), 1, "64 hexadecimal digits", "no token on standard input");
    fails(&join("nowhere", "none"), 1, "nowhere", "no file");
}

/// The flags of a command line as a configuration file says them: the same names with `_`.
fn as_toml(args: &[String]) -> String {
    let line = |pair: &[String]| format!("{} = '{}'\n", pair[0].trim_start_matches("--").replace('-', "_"), pair[1]);
    args.chunks(2).map(line).collect()
}

#[tokio::test]
async fn a_configuration_file_alone_is_enough_to_run() {
    let mut cluster = Cluster::new().unwrap();
    cluster.add_agent(&["--renew-interval", "10m", "--log", "debug"]).unwrap();
    let dir = cluster.dir().to_owned();
    for daemon in cluster.daemons() {
        let file = dir.join(format!("{}.toml", daemon.name));
        std::fs::write(&file, as_toml(&daemon.args)).unwrap();
        daemon.args = vec!["--config".to_owned(), file.to_str().unwrap().to_owned()];
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    assert_eq!(cluster.ask_agent(0, "uniq64").await.unwrap().status, 200);
}

#[test]
fn explain_takes_an_id_apart_offline() {
    let dir = tempfile::tempdir().unwrap();
    let explain = |id: &str| run(&generator().unwrap(), &["--explain", id], dir.path()).unwrap();
    // 26 | 11 | 20 | 13 | 4095 | 1, packed by hand.
    let bits: u64 = (26 << 57) | (11 << 53) | (20 << 48) | (13 << 43) | (4095 << 31) | 1;
    for id in [bits.to_string(), format!("{bits:016x}"), "uniq64://2026-11-20_13/4095/1".to_owned()] {
        let ended = explain(&id);
        assert_eq!(ended.status, Some(0), "{id}: {ended:?}");
        for word in ["uniq64", "4095", "2026-11-20", "uniq64://2026-11-20_13/4095/1"] {
            assert!(ended.out.contains(word), "{id}: no {word}: {ended:?}");
        }
    }
    for garbage in ["", "nonsense", "-1", "\u{202e}", "99999999999999999999999999999999999999"] {
        let ended = explain(garbage);
        assert!(matches!(ended.status, Some(1 | 2)), "{garbage:?}: {ended:?}");
        assert!(!ended.err.is_empty() && !ended.err.contains("panicked"), "{garbage:?}: {ended:?}");
    }
}

#[test]
fn a_store_is_made_once_and_never_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let master = master().unwrap();
    let start = ["--data-dir", "d", "--peer", "127.0.0.1:1", "--web-listen", "127.0.0.1:0"];
    fails(&run(&master, &start, dir.path()).unwrap(), 1, "--format", "no store");
    // Whoever has lost a store must not be told to make another cluster of it.
    for remedy in ["If this cluster ran before", "--peer-lost", "--join"] {
        fails(&run(&master, &start, dir.path()).unwrap(), 1, remedy, "no store");
    }
    assert!(!dir.path().join("d").exists(), "a start made a store by itself");
    std::fs::create_dir(dir.path().join("d")).unwrap();
    fails(&run(&master, &start, dir.path()).unwrap(), 1, "--format", "an empty folder");

    std::fs::write(dir.path().join("d/notes.txt"), "mine").unwrap();
    fails(&run(&master, &start, dir.path()).unwrap(), 1, "--format", "a foreign folder");
    let format = ["--format", "--data-dir", "d", "--id", "1"];
    assert_eq!(run(&master, &format, dir.path()).unwrap().status, Some(0));
    fails(&run(&master, &format, dir.path()).unwrap(), 1, "d already holds", "format again");
    assert_eq!(std::fs::read_to_string(dir.path().join("d/notes.txt")).unwrap(), "mine");
}

#[tokio::test]
async fn what_somebody_else_holds_is_named() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    // The store of a running master.
    let data_dir = cluster.masters[0].data_dir.to_str().unwrap();
    let any = "127.0.0.1:0";
    #[rustfmt::skip]
    let second = [
        "--data-dir", data_dir, "--peer", "127.0.0.1:1", "--agent-listen", any, "--peer-listen", any, "--web-listen", any,
    ];
    fails(&run(&master().unwrap(), &second, cluster.dir()).unwrap(), 1, data_dir, "a store in use");

    // A port in use.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&generator().unwrap(), &["--format"], dir.path()).unwrap().status, Some(0));
    for (flag, other) in [("--http-listen", "--rpc-listen"), ("--rpc-listen", "--http-listen")] {
        let args = ["--masters", "127.0.0.1:1", flag, &address, other, any];
        fails(&run(&generator().unwrap(), &args, dir.path()).unwrap(), 1, &address, "a port in use");
    }
    drop(taken);
    assert_eq!(cluster.ask_agent(0, "uniq64").await.unwrap().status, 200);
}

#[tokio::test]
async fn sigterm_and_ctrl_c_stop_both_programs_cleanly() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let daemons: Vec<_> = cluster.daemons().collect();
    for daemon in daemons {
        let (status, took) = daemon.terminate().await.unwrap();
        println!("{} ended in {took:?} after SIGTERM with {status} (goal: 5 s)", daemon.name);
        assert!(status.success(), "{}: {status}\n{}", daemon.name, daemon.log_tail(20));
    }
    // Nothing was lost by it: all come back, the agent with its token.
    for daemon in cluster.daemons() {
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    assert!(cluster.agent_status(0).await.unwrap().resumed);
    for daemon in cluster.daemons() {
        let pid = rustix::process::Pid::from_raw(daemon.pid().unwrap() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
    for daemon in cluster.daemons() {
        let deadline = std::time::Instant::now() + tests::programs::END_MAX;
        let status = loop {
            if let Some(status) = daemon.ended() {
                break status;
            }
            assert!(std::time::Instant::now() < deadline, "{} still runs after Ctrl-C", daemon.name);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        assert!(status.success(), "{}: {status}", daemon.name);
    }
}
