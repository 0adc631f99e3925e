//! Line and point plots as SVG text: no script, no file beside the report.
use std::fmt::Write;

pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) colour: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 26.0;
const RIGHT: f64 = 12.0;

pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    /// Points instead of lines.
    pub(crate) scatter: bool,
}

impl Plot<'_> {
    pub(crate) fn svg(&self, lines: &[Line<'_>]) -> String {
        let all = || lines.iter().flat_map(|line| line.points.iter());
        let x_max = nice(all().map(|p| p.0).fold(0.0, f64::max));
        let y_max = nice(all().map(|p| p.1).fold(0.0, f64::max));
        let px = |x: f64| LEFT + (WIDTH - LEFT - RIGHT) * x / x_max;
        let py = |y: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / y_max;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(self.title)
        );
        let _ = write!(svg, "<text x=\"{LEFT}\" y=\"15\" class=\"t\">{}</text>", escape(self.title));
        for k in 0..=4 {
            let part = f64::from(k) / 4.0;
            let (y, x) = (py(y_max * part), px(x_max * part));
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"g\"/>\
                 <text x=\"{}\" y=\"{:.1}\" class=\"e\">{}</text>\
                 <text x=\"{x:.1}\" y=\"{}\" class=\"m\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                short(y_max * part),
                HEIGHT - 18.0,
                short(x_max * part)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" class=\"m\">{}</text><text x=\"4\" y=\"15\" class=\"s\">{}</text>",
            WIDTH / 2.0,
            HEIGHT - 4.0,
            escape(self.x),
            escape(self.y)
        );
        for (index, line) in lines.iter().enumerate() {
            if self.scatter {
                for (x, y) in &line.points {
                    let _ = write!(
                        svg,
                        "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.3\" fill=\"{}\"/>",
                        px(*x),
                        py(*y),
                        line.colour
                    );
                }
            } else {
                let points: Vec<String> =
                    line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", px(*x), py(*y))).collect();
                let _ = write!(svg, "<polyline points=\"{}\" stroke=\"{}\"/>", points.join(" "), line.colour);
            }
            let at = WIDTH - RIGHT - 140.0 * (lines.len() - index) as f64;
            let _ = write!(
                svg,
                "<text x=\"{at}\" y=\"15\" class=\"s\" fill=\"{}\">■ {}</text>",
                line.colour,
                escape(line.name)
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

/// The next round figure, never 0.
fn nice(max: f64) -> f64 {
    if max <= 0.0 || !max.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(max.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= max).unwrap_or(max)
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e4 => format!("{:.0} k", v / 1e3),
        v if v >= 10.0 || v == 0.0 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// At most `n` points of a long line, evenly taken, the largest of each stretch.
pub(crate) fn thin(points: Vec<(f64, f64)>, n: usize) -> Vec<(f64, f64)> {
    if points.len() <= n {
        return points;
    }
    let stretch = points.len().div_ceil(n);
    let largest = |chunk: &[(f64, f64)]| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(stretch).filter_map(largest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_figures() {
        assert_eq!(
            [nice(0.0), nice(3.0), nice(21.0), nice(100.0), nice(0.3)].map(|v| (v * 100.0).round()),
            [100.0, 500.0, 2500.0, 10000.0, 50.0]
        );
    }

    #[test]
    fn a_plot_holds_its_lines_and_escapes_its_words() {
        let plot = Plot { title: "a < b", x: "s", y: "ms", scatter: false };
        let svg = plot.svg(&[Line { name: "n&m", colour: "#123", points: vec![(0.0, 1.0), (1.0, 2.0)] }]);
        assert!(
            svg.contains("a &lt; b")
                && svg.contains("n&amp;m")
                && svg.contains("<polyline")
                && svg.ends_with("</svg>")
        );
        assert_eq!(svg.matches("polyline").count(), 1);
    }

    #[test]
    fn thinning_keeps_the_peaks() {
        let points: Vec<_> = (0..1000).map(|i| (f64::from(i), if i == 555 { 9.0 } else { 1.0 })).collect();
        let thinned = thin(points, 100);
        assert!(thinned.len() <= 100 && thinned.iter().any(|p| p.1 == 9.0));
    }
}
