//! The end of a program: one line on stderr that names the cause, whatever has become of stderr.

use std::io::Write as _;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// The longest time that the last line may take: behind stderr may be a pipe that nobody reads.
const SAY_TIMEOUT: Duration = Duration::from_millis(200);

/// Writes one line to stderr, after the log lines that wait. What cannot be written, or not in time, is left out: unlike
/// `eprintln!` this never panics and never blocks for long.
pub fn say(line: &str) {
    super::log::flush();
    let text = format!("{}\n", line.trim_end());
    let (done, said) = sync_channel(1);
    let writer = std::thread::Builder::new().name("last-line".to_owned()).spawn(move || {
        let _ = std::io::stderr().write_all(text.as_bytes());
        let _ = done.send(());
    });
    if writer.is_ok() {
        let _ = said.recv_timeout(SAY_TIMEOUT);
    }
}

/// Ends the process with status 1 and this line, without another step of anybody: for when nobody knows any more what is in
/// memory or on the disk, and a restart reads a known state.
pub fn now(why: &str) -> ! {
    say(why);
    std::process::exit(1)
}

/// Writes a command's result to stdout as one line.
///
/// # Errors
/// If it cannot be written: whoever asked for it has not got it.
pub fn print(result: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{}", result.trim_end()).and_then(|()| out.flush());
    written.map_err(|e| format!("cannot write to stdout: {e}"))
}
