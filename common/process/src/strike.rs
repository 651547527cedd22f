//! Lets a test end, panic or stop a long-lived task of a running program.
//!
//! Only in programs built with debug assertions, and only where the environment names a file: a released program has no
//! such place. The file holds `TASK end`, `TASK panic` or `TASK hang`, and strikes the task of that name.

#[cfg(debug_assertions)]
use std::time::Duration;

/// The environment variable that names the file.
#[cfg(debug_assertions)]
const FILE: &str = "UNIQ_TEST_STRIKE";
#[cfg(debug_assertions)]
const POLL: Duration = Duration::from_millis(50);

/// The end that befalls a task.
#[cfg(debug_assertions)]
enum Blow {
    End,
    Panic,
    Hang,
}

#[cfg(debug_assertions)]
fn due(task: &str) -> Option<Blow> {
    let text = std::fs::read_to_string(std::env::var_os(FILE)?).ok()?;
    let (name, blow) = text.trim().rsplit_once(' ')?;
    match blow {
        _ if name != task => None,
        "end" => Some(Blow::End),
        "panic" => Some(Blow::Panic),
        "hang" => Some(Blow::Hang),
        _ => None,
    }
}

/// A place in a thread where it may be struck; `true`: it is to end.
#[cfg(debug_assertions)]
#[allow(clippy::panic, reason = "tests ask for it")]
pub fn here(task: &str) -> bool {
    match due(task) {
        None => false,
        Some(Blow::End) => true,
        Some(Blow::Panic) => panic!("struck by a test"),
        Some(Blow::Hang) => loop {
            std::thread::sleep(POLL);
        },
    }
}

/// Nothing, in a released program.
#[cfg(not(debug_assertions))]
pub fn here(_: &str) -> bool {
    false
}

/// Ends when the task is to end, or panics.
#[cfg(debug_assertions)]
pub(super) async fn wait(task: &str) {
    if std::env::var_os(FILE).is_none() {
        return std::future::pending().await;
    }
    while !here(task) {
        tokio::time::sleep(POLL).await;
    }
}

/// Never, in a released program.
#[cfg(not(debug_assertions))]
pub(super) async fn wait(_: &str) {
    std::future::pending().await
}
