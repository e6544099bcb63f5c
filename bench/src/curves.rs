//! Curves over a number, of sessions or of files: panels in a grid, each with its own scale. In the manner of
//! [`crate::plot`].

use crate::stats::digits;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const COLUMNS: usize = 2;
const PANEL: (f64, f64) = (WIDTH / COLUMNS as f64, 270.0);
const HEAD: f64 = 74.0;
const FOOT: f64 = 14.0;
/// Within a panel: room for the numbers on the left, the title above, the numbers across below.
const INSET: (f64, f64, f64, f64) = (70.0, 58.0, 24.0, 42.0);
/// Lines across a panel whose scale is not logarithmic.
const STEPS: usize = 4;

/// Whose curve it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// The machine's.
    Floor,
    /// Ours, first of several.
    First,
    /// Ours, second.
    Second,
    /// Ours, third.
    Third,
}

/// One curve: its name and its points, each a number of sessions or files and a value.
#[derive(Debug)]
pub struct Curve {
    pub name: &'static str,
    pub tone: Tone,
    /// From few to many. A value that is not a number was not measured.
    pub points: Vec<(usize, f64)>,
}

/// Curves that share a scale.
#[derive(Debug)]
pub struct Panel {
    /// What is shown, with its unit.
    pub title: &'static str,
    /// Whether the scale is logarithmic.
    pub logarithmic: bool,
    /// What was aimed at, drawn as a line.
    pub target: Option<f64>,
    pub curves: Vec<Curve>,
}

/// The picture.
pub fn panels(title: &str, subtitle: &str, panels: &[Panel]) -> String {
    let height = HEAD + PANEL.1 * panels.len().div_ceil(COLUMNS) as f64 + FOOT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, -apple-system, 'Segoe UI', sans-serif\" font-size=\"12\" \
         role=\"img\" aria-label=\"{title}\">\n<rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" \
         fill=\"#ffffff\"/>\n<text x=\"24\" y=\"34\" font-size=\"18\" font-weight=\"600\" \
         fill=\"#1b1f24\">{title}</text>\n<text x=\"24\" y=\"55\" font-size=\"13\" fill=\"#57606a\">{subtitle}</text>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        let (column, row) = (index % COLUMNS, index / COLUMNS);
        let corner = (column as f64 * PANEL.0, HEAD + row as f64 * PANEL.1);
        if let Some(frame) = Frame::around(panel, corner) {
            frame.draw(&mut svg, panel);
        }
    }
    svg += "</svg>\n";
    svg
}

/// Where a panel's values are in the picture.
struct Frame {
    corner: (f64, f64),
    /// Decades of sessions.
    across: (f64, f64),
    /// Values, or their decades.
    up: (f64, f64),
    logarithmic: bool,
}

impl Frame {
    /// Nothing if there is nothing to show.
    fn around(panel: &Panel, corner: (f64, f64)) -> Option<Self> {
        let points = || panel.curves.iter().flat_map(|curve| &curve.points).filter(|(_, value)| value.is_finite());
        let sessions = || points().map(|(sessions, _)| (*sessions as f64).log10());
        let across = (sessions().reduce(f64::min)?, sessions().reduce(f64::max)?);
        let across = if across.0 < across.1 { across } else { (across.0 - 0.5, across.0 + 0.5) };
        let values = || points().map(|(_, value)| *value).chain(panel.target).filter(|value| *value > 0.0);
        let (low, high) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        let up = if panel.logarithmic {
            let low = low.log10().floor();
            (low, high.log10().ceil().max(low + 1.0))
        } else {
            (0.0, round_up(high))
        };
        Some(Self { corner, across, up, logarithmic: panel.logarithmic })
    }

    fn x(&self, sessions: f64) -> f64 {
        let part = (sessions.log10() - self.across.0) / (self.across.1 - self.across.0);
        self.corner.0 + INSET.0 + part * (PANEL.0 - INSET.0 - INSET.2)
    }

    fn y(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        let part = (value - self.up.0) / (self.up.1 - self.up.0);
        self.corner.1 + PANEL.1 - INSET.3 - part * (PANEL.1 - INSET.1 - INSET.3)
    }

    fn draw(&self, svg: &mut String, panel: &Panel) {
        let (left, top) = (self.corner.0 + 24.0, self.corner.1 + 20.0);
        let _ = writeln!(
            svg,
            "<text x=\"{left:.1}\" y=\"{top:.1}\" font-size=\"14\" font-weight=\"600\" fill=\"#1b1f24\">{}</text>",
            panel.title
        );
        self.legend(svg, panel, left, top + 18.0);
        self.grid(svg);
        if let Some(target) = panel.target {
            let (from, to, y) = (self.x(10f64.powf(self.across.0)), self.x(10f64.powf(self.across.1)), self.y(target));
            let _ = writeln!(
                svg,
                "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"#cf222e\" \
                 stroke-dasharray=\"5 4\"/>"
            );
        }
        for curve in &panel.curves {
            self.curve(svg, curve);
        }
    }

    fn legend(&self, svg: &mut String, panel: &Panel, left: f64, y: f64) {
        let mut x = left;
        let names = panel.curves.iter().map(|curve| (curve.name, colour(curve.tone)));
        for (name, colour) in names.chain(panel.target.map(|_| ("target", "#cf222e"))) {
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"3\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"#57606a\">{name}</text>",
                y - 5.5,
                x + 19.0
            );
            // About the width of a letter at this size; what is measured exactly would need a font.
            x += 32.0 + 6.3 * name.chars().count() as f64;
        }
    }

    fn grid(&self, svg: &mut String) {
        let (from, to) = (self.x(10f64.powf(self.across.0)), self.x(10f64.powf(self.across.1)));
        let lines: Vec<f64> = if self.logarithmic {
            (self.up.0 as i32..=self.up.1 as i32).map(|decade| 10f64.powi(decade)).collect()
        } else {
            (0..=STEPS).map(|step| self.up.1 * step as f64 / STEPS as f64).collect()
        };
        for value in lines {
            let y = self.y(value);
            let _ = writeln!(
                svg,
                "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"#d8dee4\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#57606a\">{}</text>",
                from - 8.0,
                y + 4.0,
                short(value)
            );
        }
        let foot = self.corner.1 + PANEL.1 - INSET.3 + 18.0;
        for decade in self.across.0.ceil() as i32..=self.across.1.floor() as i32 {
            let x = self.x(10f64.powi(decade));
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{foot:.1}\" text-anchor=\"middle\" fill=\"#57606a\">{}</text>",
                short(10f64.powi(decade))
            );
        }
    }

    fn curve(&self, svg: &mut String, curve: &Curve) {
        let colour = colour(curve.tone);
        let places: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter(|(_, value)| value.is_finite() && (!self.logarithmic || *value > 0.0))
            .map(|(sessions, value)| (self.x(*sessions as f64), self.y(*value)))
            .collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
}

/// The next number that divides well by the lines across.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * decade).find(|rounded| *rounded >= value).unwrap_or(value)
}

/// A number as short as it can be.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", trimmed(v / 1e6)),
        v if v >= 1e3 => format!("{}k", trimmed(v / 1e3)),
        v => trimmed(v),
    }
}

fn trimmed(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { digits(value).trim_end_matches('0').to_owned() }
}

fn colour(tone: Tone) -> &'static str {
    match tone {
        Tone::Floor => "#8c959f",
        Tone::First => "#0969da",
        Tone::Second => "#e0a458",
        Tone::Third => "#2da44e",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_inside_its_panel_and_in_order() {
        let points = vec![(10, 5.0), (1000, f64::NAN), (100_000, 50.0)];
        let panel = |logarithmic| Panel {
            title: "title",
            logarithmic,
            target: Some(60.0),
            curves: vec![Curve { name: "a", tone: Tone::First, points: points.clone() }],
        };
        for logarithmic in [false, true] {
            let frame = Frame::around(&panel(logarithmic), (0.0, 0.0)).unwrap();
            assert!(frame.x(10.0) < frame.x(100_000.0) && frame.x(100_000.0) <= PANEL.0 - INSET.2);
            assert!(frame.y(60.0) < frame.y(5.0) && frame.y(60.0) >= INSET.1 && frame.y(5.0) <= PANEL.1 - INSET.3);
        }
        let empty = Panel { title: "nothing", logarithmic: true, target: None, curves: Vec::new() };
        assert!(!panels("t", "s", &[empty]).contains("nothing"));
    }

    #[test]
    fn numbers_on_the_axis_are_short() {
        assert_eq!([0.01, 1.0, 12.5, 20_000.0, 100_000.0].map(short), ["0.01", "1", "12.5", "20k", "100k"]);
        assert_eq!([7.0, 30_500.0, 0.011].map(round_up), [8.0, 40_000.0, 0.012]);
    }
}
