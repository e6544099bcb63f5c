//! The plot: how long `true` takes, a bar each, on a logarithmic scale. Written by hand; a plot of eight bars needs no
//! library.

use crate::report::{Bar, Kind};
use crate::stats::time;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 78.0;
const BAR: f64 = 24.0;
const STEP: f64 = 36.0;
const BOTTOM: f64 = 56.0;

/// The picture, with bars from the shortest to the longest.
pub fn bars(bars: &[Bar]) -> String {
    let mut sorted: Vec<&Bar> = bars.iter().filter(|bar| bar.seconds > 0.0).collect();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let scale = Scale::over(&sorted);
    let foot = TOP + STEP * sorted.len() as f64;
    let height = foot + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, -apple-system, 'Segoe UI', sans-serif\" font-size=\"14\" \
         role=\"img\" aria-label=\"Latency of true\">\n<rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" \
         fill=\"#ffffff\"/>\n<text x=\"24\" y=\"34\" font-size=\"18\" font-weight=\"600\" fill=\"#1b1f24\">Time for \
         <tspan font-family=\"ui-monospace, monospace\">true</tspan> in a session</text>\n<text x=\"24\" y=\"55\" \
         font-size=\"13\" fill=\"#57606a\">median, logarithmic; shorter is better</text>\n"
    );
    grid(&mut svg, &scale, foot);
    for (index, bar) in sorted.iter().enumerate() {
        draw(&mut svg, bar, &scale, TOP + STEP * index as f64);
    }
    legend(&mut svg, height - 16.0);
    svg += "</svg>\n";
    svg
}

/// Whole decades around all bars.
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn over(bars: &[&Bar]) -> Self {
        let shortest = bars.first().map_or(1e-5, |bar| bar.seconds);
        let longest = bars.last().map_or(1e-1, |bar| bar.seconds);
        let low = shortest.log10().floor() as i32;
        Self { low, high: (longest.log10().ceil() as i32).max(low + 1) }
    }

    fn x(&self, seconds: f64) -> f64 {
        let part = (seconds.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }
}

fn grid(svg: &mut String, scale: &Scale, foot: f64) {
    for decade in scale.low..=scale.high {
        let x = scale.x(10f64.powi(decade));
        let top = TOP - 8.0;
        let label = match decade {
            ..=-4 => format!("{} µs", 10f64.powi(decade + 6).round()),
            -3..=-1 => format!("{} ms", 10f64.powi(decade + 3).round()),
            _ => format!("{} s", 10f64.powi(decade).round()),
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{foot}\" stroke=\"#d8dee4\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"12\" fill=\"#57606a\">{label}</text>",
            foot + 16.0
        );
    }
}

fn draw(svg: &mut String, bar: &Bar, scale: &Scale, y: f64) {
    let width = (scale.x(bar.seconds) - LEFT).max(2.0);
    let middle = y + BAR / 2.0 + 5.0;
    let (label, colour, value) = (escape(&bar.label), colour(bar.kind), time(bar.seconds));
    let weight = if bar.kind == Kind::Ours { "600" } else { "400" };
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\" font-weight=\"{weight}\" \
         fill=\"#1b1f24\">{label}</text><rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"3\" \
         fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{middle:.1}\" font-size=\"13\" font-weight=\"{weight}\" \
         fill=\"#1b1f24\">{value}</text>",
        LEFT - 12.0,
        LEFT + width + 8.0
    );
}

fn legend(svg: &mut String, y: f64) {
    let entries = [(Kind::Floor, "bash alone"), (Kind::Ours, "shellkeep"), (Kind::Peer, "other session tools")];
    for (index, (kind, name)) in entries.into_iter().enumerate() {
        let x = LEFT + 130.0 * index as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"{y:.1}\" font-size=\"13\" fill=\"#57606a\">{name}</text>",
            y - 11.0,
            colour(kind),
            x + 18.0
        );
    }
}

fn colour(kind: Kind) -> &'static str {
    match kind {
        Kind::Floor => "#8c959f",
        Kind::Ours => "#0969da",
        Kind::Peer => "#e0a458",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_bars_are_longer_and_nothing_leaves_the_picture() {
        let bar = |seconds| Bar { label: "a < b".to_owned(), kind: Kind::Ours, seconds };
        let (short, long) = (bar(3e-5), bar(0.2));
        let scale = Scale::over(&[&short, &long]);
        assert!(LEFT < scale.x(short.seconds) && scale.x(short.seconds) < scale.x(long.seconds));
        assert!(scale.x(long.seconds) <= WIDTH - RIGHT);
        assert!(bars(&[long, short]).contains("a &lt; b"));
        assert!(bars(&[]).ends_with("</svg>\n"));
    }
}
