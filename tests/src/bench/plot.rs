//! Bars as SVG, readable on light and dark pages.

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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_that_of_the_largest() {
        let svg = bars("a < b", &[("ours", 100.0), ("theirs", 50.0)]);
        assert!(
            svg.contains("a &lt; b") && svg.contains("width=\"370.0\"") && svg.contains("width=\"185.0\""),
            "{svg}"
        );
    }
}
