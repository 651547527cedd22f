//! Signals, on a thread of their own: whatever else hangs, SIGTERM ends the process in time.

use super::{end, strike};
use std::io;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The longest time that a stop may take before the process is ended where it stands. Below the five seconds that are promised.
const STOP_MAX: Duration = Duration::from_millis(4_700);

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    fn register() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Returns when the program is told to stop.
    async fn listen(&mut self, reload: &impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => reload(),
                _ = self.user1.recv() => tracing::info!("SIGUSR1 means nothing here"),
                _ = self.user2.recv() => tracing::info!("SIGUSR2 means nothing here"),
            }
        }
    }
}

/// Lets SIGTERM and SIGINT cancel `stop`, and the process end at most 4.7 s later, cleanly or not; SIGHUP calls
/// `reload`; SIGUSR1 and SIGUSR2 are logged.
///
/// # Errors
/// An error of the operating system.
pub fn start(stop: CancellationToken, reload: impl Fn() + Send + 'static) -> io::Result<()> {
    let (ready, registered) = sync_channel(1);
    let watch = super::tasks::Watch::new(stop.clone());
    let listen = move || {
        let guard = watch.guard("signals");
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(e) => {
                let _ = ready.send(Err(e));
                return guard.done();
            }
        };
        runtime.block_on(async {
            match Signals::register() {
                Ok(mut signals) => {
                    let _ = ready.send(Ok(()));
                    tokio::select! {
                        () = signals.listen(&reload) => {}
                        () = strike::wait("signals") => return,
                    }
                    stop.cancel();
                    tokio::time::sleep(STOP_MAX).await;
                    end::now("told to stop, but something did not end in time: the process exits at once, as if it were killed");
                }
                Err(e) => {
                    let _ = ready.send(Err(e));
                    stop.cancel();
                }
            }
        });
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
    registered.recv().unwrap_or_else(|_| Err(io::Error::other("the thread for signals ended")))
}
