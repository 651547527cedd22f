//! A steady load on small segments: what callers notice when one is used up and the next one begins.
//!
//! Requests are due at a fixed rate, and their latency counts from the instant at which they were due. Two agents are loaded in turn:
//! one with its double buffer, as it is shipped, and one that asks for the next segment only when there is no number left.

use super::contenders::pin;
use super::figures::Figures;
use super::load::{self, Point};
use super::plot::{self, Curve};
use super::speak::{Protocol, http_request};
use crate::cluster::Cluster;
use anyhow::{Context as _, Result};
use std::time::Duration;

/// Requests a second.
pub const RATE: f64 = 2_000.0;
/// Numbers of a segment: one lasts a quarter of a second.
const STEP: u32 = 500;
const NAME: &str = "bench-steady";
const WARMUP: Duration = Duration::from_millis(500);

/// The answers that one agent's callers saw, round by round.
pub struct Noticed {
    /// The name of the agent.
    pub title: &'static str,
    /// The rounds.
    pub runs: Vec<Figures>,
    /// All answers of the round whose p999 is in the middle.
    points: Vec<Point>,
}

impl Noticed {
    /// The p999 in the middle of those of the rounds, in microseconds.
    pub fn p999(&self) -> f64 {
        super::report::median(self.runs.iter().map(|run| run.latency.p999))
    }
}

/// Loads an agent of each kind in turn, `rounds` times for so long.
///
/// # Errors
/// If one does not start or does not answer.
pub async fn measure(cluster: &mut Cluster, rounds: usize, duration: Duration) -> Result<Vec<Noticed>> {
    let double = cluster.add_agent(&["--threads", "1"])?;
    let single = cluster.add_agent(&["--threads", "1", "--one-segment"])?;
    for nth in [double, single] {
        cluster.agent(nth)?.daemon.start()?;
    }
    cluster.all_ready().await?;
    let definition = format!(r#"{{"kind":"segment","step":{STEP},"step_min":{STEP},"step_max":{STEP}}}"#);
    cluster.register(NAME, &definition).await?;
    let mut plans = Vec::new();
    for nth in [double, single] {
        let agent = cluster.agent(nth)?;
        let (target, pid) = (agent.daemon.http, agent.daemon.pid().context("an agent has ended")?);
        pin(pid)?;
        plans.push(load::Plan {
            target,
            unix: None,
            from: None,
            protocol: Protocol::Http,
            requests: vec![http_request(&target.to_string(), &format!("/segment/{NAME}"), None)],
            connections: 64,
            depth: 1,
            rate: Some(RATE),
            once: false,
            warmup: WARMUP,
            duration,
            check: Some(super::check::Form::Decimal),
            pid: Some(pid),
            progress: false,
        });
    }
    let titles = ["two segments at a time (as shipped)", "one segment at a time"];
    let mut all: Vec<_> = titles.map(|title| (title, Vec::new())).into();
    for _ in 0..rounds {
        for ((_, runs), plan) in all.iter_mut().zip(&plans) {
            let plan = plan.clone();
            runs.push(tokio::task::spawn_blocking(move || load::run_point_by_point(plan)).await??);
        }
    }
    Ok(all.into_iter().map(|(title, runs)| noticed(title, runs)).collect())
}

fn noticed(title: &'static str, mut runs: Vec<(Figures, Vec<Point>)>) -> Noticed {
    runs.sort_by(|one, other| one.0.latency.p999.total_cmp(&other.0.latency.p999));
    let middle = runs.len() / 2;
    let points = runs.get_mut(middle).map(|run| std::mem::take(&mut run.1)).unwrap_or_default();
    Noticed { title, runs: runs.into_iter().map(|run| run.0).collect(), points }
}

/// Both as a picture.
pub fn picture(noticed: &[Noticed]) -> String {
    let courses = noticed.iter().map(|one| Curve { title: one.title, points: &one.points, line: ("p999", one.p999()) });
    let title = format!("Latency of {RATE} requests a second, a new segment every {STEP} numbers");
    plot::over_time(&title, &courses.collect::<Vec<_>>())
}
