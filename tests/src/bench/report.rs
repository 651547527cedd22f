//! The comparison as tables, ratios and plots.

use super::compare::{BATCH, Lane, Plan, Scenario};
use super::figures::Figures;
use super::plot;
use anyhow::Result;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// The processor, its cores and how busy they are.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let busy = read("/proc/loadavg").split(' ').next().unwrap_or("?").to_owned();
    format!("{} x {}, load {busy} before the run", cores, model.unwrap_or("processor"))
}

/// The one in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Lane {
    /// The median over the rounds.
    pub fn of(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(self.runs.iter().map(figure))
    }

    /// Ours against this one: the median of the rounds' own ratios.
    fn ratio(&self, ours: &Lane, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(ours.runs.iter().zip(&self.runs).map(|(our, peer)| figure(our) / figure(peer)))
    }
}

fn server_us(figures: &Figures) -> f64 {
    figures.server_us.unwrap_or(f64::NAN)
}

/// The name of a contender within a ratio's.
fn key(name: &str) -> String {
    let name = name.split(", prepared").next().unwrap_or(name).to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// Each ratio with its name: answers a second, ours to the peer's, and the same of processor time, the peer's to ours; in
/// both, more is better for us.
pub fn ratios(scenarios: &[Scenario]) -> Vec<(String, f64)> {
    let mut ratios = Vec::new();
    for scenario in scenarios {
        let Some((ours, peers)) = scenario.lanes.split_first() else { continue };
        for peer in peers {
            let name = format!("{}_to_{}", scenario.key, key(peer.name));
            ratios.push((name.clone(), peer.ratio(ours, |figures| figures.per_second)));
            let processor = 1.0 / peer.ratio(ours, server_us);
            if processor.is_finite() {
                ratios.push((format!("{name}_processor"), processor));
            }
        }
    }
    ratios
}

fn table(scenario: &Scenario) -> String {
    let batch = !matches!(scenario.key, "one" | "pipelined" | "tarpc");
    let unit = if batch { "M IDs/s" } else { "answers/s" };
    let mut text = format!("| server | {unit} | p50 us | p99 us | p999 us | server's processor, us an answer |\n");
    text += "|---|---:|---:|---:|---:|---:|\n";
    for lane in &scenario.lanes {
        let rate = lane.of(|figures| figures.per_second);
        let rate = if batch { format!("{:.0}", rate * BATCH as f64 / 1e6) } else { format!("{rate:.0}") };
        let number = |value: f64| if value.is_finite() && value > 0.0 { format!("{value:.0}") } else { String::new() };
        let latency = |part: fn(&Figures) -> f64| number(lane.of(part));
        let us = lane.of(server_us);
        let us = if us.is_finite() { format!("{us:.2}") } else { String::new() };
        let (p50, p99, p999) = (
            latency(|f: &Figures| f.latency.p50),
            latency(|f: &Figures| f.latency.p99),
            latency(|f: &Figures| f.latency.p999),
        );
        let _ = writeln!(text, "| {} | {rate} | {p50} | {p99} | {p999} | {us} |", lane.name);
    }
    text
}

/// Prints tables and ratios.
///
/// # Errors
/// If stdout is closed.
pub fn print(scenarios: &[Scenario], machine: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{machine}")?;
    for scenario in scenarios {
        writeln!(out, "\n{}\n{}", scenario.title, table(scenario))?;
    }
    for (name, value) in ratios(scenarios) {
        writeln!(out, "RATIO {name}={value:.3}")?;
    }
    let checked: u64 = scenarios.iter().flat_map(|s| &s.lanes).flat_map(|l| &l.runs).map(|run| run.checked).sum();
    Ok(writeln!(out, "{checked} IDs were checked")?)
}

/// Writes the report, and a plot for each scenario into a folder beside it.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, scenarios: &[Scenario], machine: &str, in_process: Option<&str>, plan: &Plan) -> Result<()> {
    let plots = path.with_extension("");
    std::fs::create_dir_all(&plots)?;
    let folder = plots.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut text = include_str!("benchmarks.md").to_owned();
    let seconds = plan.turn_ms as f64 / 1e3;
    let _ = writeln!(text, "\n{machine}; {} rounds of {seconds} s each; medians.", plan.rounds);
    for scenario in scenarios {
        let file = format!("{}.svg", scenario.key);
        let bars = scenario.lanes.iter().map(|lane| (lane.name, lane.of(|figures| figures.per_second)));
        std::fs::write(plots.join(&file), plot::bars(scenario.title, &bars.collect::<Vec<_>>()))?;
        let _ = write!(text, "\n## {}\n\n{}\n", scenario.title, table(scenario));
        let _ = writeln!(text, "![{}]({folder}/{file})", scenario.title);
    }
    if let Some(in_process) = in_process {
        let _ = write!(text, "\n## In process\n\n```text\n{}\n```\n", in_process.trim());
    }
    text += "\n## Ratios\n\n| name | ratio |\n|---|---:|\n";
    for (name, value) in ratios(scenarios) {
        let _ = writeln!(text, "| {name} | {value:.2} |");
    }
    // What another run wrote behind it stays.
    let before = std::fs::read_to_string(path).unwrap_or_default();
    text += before.find(RANGES).and_then(|at| before.get(at..)).unwrap_or_default();
    Ok(std::fs::write(path, text)?)
}

/// The beginning of the part on segments and sequences, which is the last one of the page and measured by itself.
pub const RANGES: &str = "\n## Segments and sequences\n";

/// Puts that part anew.
///
/// # Errors
/// If the page is not there or cannot be written.
pub fn write_ranges(path: &Path, part: &str) -> Result<()> {
    let page = std::fs::read_to_string(path)?;
    let before = page.find(RANGES).map_or(page.as_str(), |at| page.get(..at).unwrap_or_default());
    Ok(std::fs::write(path, format!("{}\n{RANGES}{part}", before.trim_end()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ratios_are_words() {
        assert_eq!(key("Redis INCR, in memory"), "redis_incr_in_memory");
        assert_eq!(key("PostgreSQL nextval, prepared, 16 conn."), "postgresql_nextval");
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert!(median(std::iter::empty()).is_nan());
    }
}
