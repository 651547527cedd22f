//! Figures that a run of the load generator measured.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest latency that is told apart; longer ones count as this.
const LATENCY_MAX: Duration = Duration::from_secs(120);

/// Latencies in nanoseconds, to three digits.
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// None yet.
    ///
    /// # Errors
    /// None with these bounds.
    pub fn new() -> anyhow::Result<Self> {
        let max = u64::try_from(LATENCY_MAX.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self(Histogram::new_with_bounds(1, max, 3)?))
    }

    /// Notes one.
    #[inline]
    pub fn note(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    /// Forgets all, for the end of the warm-up.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The latency that this part of the requests did not exceed, in microseconds.
    pub fn quantile(&self, part: f64) -> f64 {
        self.0.value_at_quantile(part) as f64 / 1e3
    }

    /// The quantiles that are printed.
    pub fn spread(&self) -> Spread {
        let max = self.0.max() as f64 / 1e3;
        Spread { p50: self.quantile(0.5), p99: self.quantile(0.99), p999: self.quantile(0.999), max }
    }
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the requests were faster.
    pub p50: f64,
    /// 99 of 100 were faster.
    pub p99: f64,
    /// 999 of 1,000 were faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The time that was measured, in seconds.
    pub seconds: f64,
    /// Good answers.
    pub requests: u64,
    /// Good answers a second.
    pub per_second: f64,
    /// Bytes received a second.
    pub bytes_per_second: f64,
    /// Of good answers.
    pub latency: Spread,
    /// Answers that were refusals.
    pub refused: u64,
    /// Of refusals.
    pub refused_latency: Spread,
    /// Requests of an open loop that were due and not sent when the time was over.
    pub unsent: u64,
    /// IDs that were noted; 0 if they were not looked at.
    pub checked: u64,
    /// IDs that came twice.
    pub duplicates: u64,
    /// Processor time of the server for a good answer, in microseconds; `None` if its process is not known.
    pub server_us: Option<f64>,
}

impl Figures {
    /// For a person, on a few lines.
    pub fn text(&self) -> String {
        let Spread { p50, p99, p999, max } = self.latency;
        let mut text = format!(
            "{:.0} answers/s ({} in {:.2} s, {:.1} MB/s), latency us p50 {p50:.0} p99 {p99:.0} p999 {p999:.0} max {max:.0}",
            self.per_second,
            self.requests,
            self.seconds,
            self.bytes_per_second / 1e6,
        );
        if self.refused > 0 {
            let Spread { p50, p99, p999, max } = self.refused_latency;
            text += &format!(
                "\n{} refused, latency us p50 {p50:.0} p99 {p99:.0} p999 {p999:.0} max {max:.0}",
                self.refused
            );
        }
        if self.unsent > 0 {
            text += &format!("\n{} were due and could not be sent", self.unsent);
        }
        if let Some(us) = self.server_us {
            text += &format!("\nserver: {us:.2} us of processor time an answer");
        }
        if self.checked > 0 {
            text += &format!("\n{} IDs checked, {} came twice", self.checked, self.duplicates);
        }
        text
    }
}

/// Processor time that a process has used so far, all threads together; `None` if it is gone.
pub fn processor_time(pid: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Duration::from_nanos(threads.filter_map(of).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_with_work() {
        let before = processor_time(std::process::id()).unwrap();
        let mut sum = 0u64;
        while processor_time(std::process::id()).unwrap() == before {
            sum = (0..100_000u64).fold(sum, |sum, n| std::hint::black_box(sum ^ n));
        }
        assert_eq!(processor_time(u32::MAX), None);
    }

    #[test]
    fn the_quantiles_are_those_of_the_latencies() {
        let mut latencies = Latencies::new().unwrap();
        (1..=1_000u64).for_each(|us| latencies.note(us * 1_000));
        let Spread { p50, p99, p999, max } = latencies.spread();
        for (found, wanted) in [(p50, 500.0), (p99, 990.0), (p999, 999.0), (max, 1_000.0)] {
            assert!((found - wanted).abs() / wanted < 0.002, "{found} {wanted}");
        }
        latencies.clear();
        assert_eq!(latencies.spread(), Spread::default());
    }
}
