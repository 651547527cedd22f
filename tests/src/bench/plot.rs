//! Bars, and latencies over time, as SVG, readable on light and dark pages.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const LABEL: f64 = 260.0;
const FIGURE: f64 = 90.0;
const ROW: f64 = 28.0;
const TOP: f64 = 34.0;

/// A horizontal bar for each name; the first one stands out.
pub fn bars(title: &str, rows: &[(&str, f64)]) -> String {
    let max = rows.iter().map(|row| row.1).fold(f64::MIN_POSITIVE, f64::max);
    let height = TOP + ROW * rows.len() as f64 + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"20\" font-weight=\"bold\" fill=\"#222222\">{} (a second)</text>\n",
        escaped(title)
    );
    for (nth, (name, value)) in rows.iter().enumerate() {
        let y = TOP + ROW * nth as f64;
        let len = (WIDTH - LABEL - FIGURE) * value / max;
        let color = if nth == 0 { "#1f6f8b" } else { "#b8c4cc" };
        let (text, bar) = (y + 17.0, y + 4.0);
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"{text}\" fill=\"#222222\">{}</text>\
             <rect x=\"{LABEL}\" y=\"{bar}\" width=\"{len:.1}\" height=\"18\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{text}\" fill=\"#222222\">{value:.0}</text>",
            escaped(name),
            LABEL + len + 6.0
        );
    }
    svg + "</svg>\n"
}

/// Height of one curve, and of the space above it for its title.
const PANEL: f64 = 150.0;
const PANEL_TOP: f64 = 26.0;
const LEFT: f64 = 56.0;
/// Stretches of time that a curve is drawn in; of each the slowest answer is shown.
const STRETCHES: usize = 640;

/// Latencies over time.
pub struct Curve<'a> {
    /// The title, which names whose they are.
    pub title: &'a str,
    /// The instant of each, and how long it took, both in nanoseconds.
    pub points: &'a [(u64, u64)],
    /// A latency to draw a line at, in microseconds, with its name.
    pub line: (&'a str, f64),
}

/// The curves one below the other, all in the same scale.
pub fn over_time(title: &str, curves: &[Curve<'_>]) -> String {
    let of = |part: fn(&(u64, u64)) -> u64| curves.iter().flat_map(|curve| curve.points).map(part).max();
    let (end, slowest) = (of(|point| point.0).unwrap_or(0).max(1), of(|point| point.1).unwrap_or(0).max(1) as f64);
    let height = TOP + (PANEL + PANEL_TOP) * curves.len() as f64 + 28.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"13\" font-weight=\"bold\" fill=\"#222222\">{}</text>\n",
        escaped(title)
    );
    let wide = WIDTH - LEFT - 12.0;
    for (nth, curve) in curves.iter().enumerate() {
        let top = TOP + (PANEL + PANEL_TOP) * nth as f64 + PANEL_TOP;
        let bottom = top + PANEL;
        let y = |ns: f64| bottom - PANEL * ns / slowest;
        let color = if nth == 0 { "#1f6f8b" } else { "#b2552d" };
        let mut slowest_of = vec![0u64; STRETCHES];
        for (when, took) in curve.points {
            let at = (*when as u128 * STRETCHES as u128 / (end as u128 + 1)) as usize;
            if let Some(place) = slowest_of.get_mut(at) {
                *place = (*place).max(*took);
            }
        }
        let (name, us) = curve.line;
        let (line, text) = (y(us * 1e3), top - 8.0);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{text}\" fill=\"#222222\">{}: {name} {:.2} ms</text>\
             <path d=\"M{LEFT} {top}V{bottom}H{}\" stroke=\"#888888\" fill=\"none\"/>\
             <text x=\"8\" y=\"{}\" fill=\"#222222\">{:.1} ms</text><text x=\"8\" y=\"{bottom}\" fill=\"#222222\">0</text>",
            escaped(curve.title),
            us / 1e3,
            LEFT + wide,
            top + 10.0,
            slowest / 1e6,
        );
        let step = wide / STRETCHES as f64;
        let mut path = String::new();
        for (at, took) in slowest_of.iter().enumerate().filter(|(_, took)| **took > 0) {
            let _ = write!(path, "M{:.1} {bottom}V{:.1}", LEFT + step * (at as f64 + 0.5), y(*took as f64));
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" stroke=\"{color}\" stroke-width=\"1.1\" fill=\"none\"/>\
             <path d=\"M{LEFT} {line:.1}H{}\" stroke=\"#222222\" stroke-dasharray=\"4 3\" fill=\"none\"/>",
            LEFT + wide
        );
    }
    let (y, seconds) = (height - 8.0, end as f64 / 1e9);
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{y}\" fill=\"#222222\">0 to {seconds:.1} s; of each moment the slowest answer</text>"
    );
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_seen_where_it_was() {
        let points: Vec<_> =
            (0..1_000).map(|ms| (ms * 1_000_000, if ms == 500 { 8_000_000 } else { 100_000 })).collect();
        let svg = over_time("a & b", &[Curve { title: "ours", points: &points, line: ("p999", 8_000.0) }]);
        // The whole height of the panel, in the middle of its width.
        assert!(svg.contains("a &amp; b") && svg.contains("M382.5 210V60.0") && svg.contains("p999 8.00 ms"), "{svg}");
    }

    #[test]
    fn the_longest_bar_is_that_of_the_largest() {
        let svg = bars("a < b", &[("ours", 100.0), ("theirs", 50.0)]);
        assert!(
            svg.contains("a &lt; b") && svg.contains("width=\"370.0\"") && svg.contains("width=\"185.0\""),
            "{svg}"
        );
    }
}
