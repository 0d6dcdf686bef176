//! Plots as inline SVG: lines over steps or time, with a legend and marks where something changed.

use plimsoll_sim::report::Escaped;
use std::fmt::{self, Write as _};

/// Points that are drawn of a line at most: more than a screen shows.
const MOST_POINTS: usize = 500;
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
/// Colours of the style sheet.
const COLOURS: usize = 8;

/// A line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend; none if it is the faint background of another.
    pub name: Option<String>,
    /// Its colour, by number.
    pub colour: usize,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// A line over steps 0, 1, 2, ….
    pub fn over_steps(name: &str, colour: usize, values: &[f64]) -> Self {
        let points = values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect();
        Self { name: Some(name.to_owned()), colour, points }
    }

    /// The same without a name, as a background.
    #[must_use]
    pub fn faint(mut self) -> Self {
        self.name = None;
        self
    }
}

/// A plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// What the x axis is.
    pub x: String,
    /// What the y axis is.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// Where on the x axis something changed, and what.
    pub marks: Vec<(f64, String)>,
}

/// The mean of the last `window` values at each place, or of as many as there are.
pub fn moving_average(values: &[f64], window: usize) -> Vec<f64> {
    let window = window.max(1);
    let mean = |at: usize| {
        let from = (at + 1).saturating_sub(window);
        values[from..=at].iter().sum::<f64>() / (at + 1 - from) as f64
    };
    (0..values.len()).map(mean).collect()
}

/// The span of an axis, and the steps at which it is labelled.
struct Axis {
    least: f64,
    most: f64,
    step: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let start = if from_zero { (0.0, 0.0) } else { (f64::INFINITY, f64::NEG_INFINITY) };
        let (mut least, mut most) = finite.fold(start, |(least, most), value| (least.min(value), most.max(value)));
        if least > most {
            (least, most) = (0.0, 1.0);
        }
        if most - least < 1e-9 {
            most = least + 1.0;
        }
        let rough = (most - least) / 5.0;
        let power = libm::pow(10.0, libm::floor(libm::log10(rough)));
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let (least, most) = (libm::floor(least / step) * step, libm::ceil(most / step) * step);
        Self { least, most, step }
    }

    fn labels(&self) -> impl Iterator<Item = f64> + '_ {
        let count = libm::round((self.most - self.least) / self.step) as usize;
        (0..=count).map(|at| self.least + at as f64 * self.step)
    }

    fn share(&self, value: f64) -> f64 {
        ((value - self.least) / (self.most - self.least)).clamp(0.0, 1.0)
    }

    fn text(&self, value: f64) -> String {
        let decimals = if self.step >= 1.0 { 0 } else { (libm::ceil(-libm::log10(self.step)) as usize).min(6) };
        format!("{:.decimals$}", if value == 0.0 { 0.0 } else { value })
    }
}

impl Figure {
    /// The plot as HTML.
    pub fn html(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::new(points().map(|point| point.0), false);
        let y = Axis::new(points().map(|point| point.1), true);
        let place = |point: (f64, f64)| {
            let across = LEFT + x.share(point.0) * (WIDTH - LEFT - RIGHT);
            (across, HEIGHT - BOTTOM - y.share(point.1) * (HEIGHT - TOP - BOTTOM))
        };
        let title = Escaped(&self.title);
        writeln!(out, "<figure>\n<figcaption><h3>{title}</h3><p>")?;
        for line in &self.lines {
            let Some(name) = &line.name else { continue };
            let colour = line.colour % COLOURS;
            write!(out, "<i class=\"swatch\" style=\"background:var(--c{colour})\"></i>{} &nbsp; ", Escaped(name))?;
        }
        writeln!(
            out,
            "</p></figcaption>\n<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
        )?;
        for label in y.labels() {
            let (_, at) = place((x.least, label));
            writeln!(
                out,
                "<line class=\"gridline\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                WIDTH - RIGHT
            )?;
            writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                y.text(label)
            )?;
        }
        let foot = HEIGHT - BOTTOM + 15.0;
        for label in x.labels() {
            let (at, _) = place((label, y.least));
            writeln!(out, "<text x=\"{at:.1}\" y=\"{foot}\" text-anchor=\"middle\">{}</text>", x.text(label))?;
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 4.0,
            Escaped(&self.x)
        )?;
        writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", TOP - 2.0, Escaped(&self.y))?;
        for (at, what) in &self.marks {
            let (at, _) = place((*at, y.least));
            writeln!(
                out,
                "<line class=\"bound\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{}\"/>",
                HEIGHT - BOTTOM
            )?;
            writeln!(out, "<text x=\"{:.1}\" y=\"{}\">{}</text>", at + 4.0, TOP + 10.0, Escaped(what))?;
        }
        for line in &self.lines {
            let class = if line.name.is_some() { "line" } else { "line raw" };
            write!(out, "<polyline class=\"{class}\" style=\"stroke:var(--c{})\" points=\"", line.colour % COLOURS)?;
            let every = line.points.len().div_ceil(MOST_POINTS).max(1);
            for point in line.points.iter().step_by(every) {
                let (across, down) = place(*point);
                write!(out, "{across:.1},{down:.1} ")?;
            }
            writeln!(out, "\"/>")?;
        }
        writeln!(out, "</svg>\n</figure>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moving_average_is_over_what_came_before() {
        assert_eq!(moving_average(&[1.0, 3.0, 5.0, 7.0], 2), [1.0, 2.0, 4.0, 6.0]);
        assert_eq!(moving_average(&[], 3), [0.0; 0]);
    }

    #[test]
    fn axes_have_round_labels() {
        let axis = Axis::new([0.0, 7.3].into_iter(), true);
        assert_eq!(axis.labels().map(|label| axis.text(label)).collect::<Vec<_>>(), ["0", "2", "4", "6", "8"]);
        let axis = Axis::new([0.1, 0.4].into_iter(), false);
        assert_eq!(axis.labels().map(|label| axis.text(label)).collect::<Vec<_>>(), ["0.1", "0.2", "0.3", "0.4"]);
        let axis = Axis::new(std::iter::empty(), false);
        assert_eq!((axis.least, axis.most), (0.0, 1.0));
    }

    #[test]
    fn a_figure_escapes_names_and_draws_every_line() {
        let figure = Figure {
            title: "a < b".into(),
            x: "step".into(),
            y: "pods".into(),
            lines: vec![
                Line::over_steps("one & two", 0, &[0.0, 1.0, f64::NAN]),
                Line::over_steps("", 1, &[2.0]).faint(),
            ],
            marks: vec![(1.0, "change".into())],
        };
        let html = figure.html();
        assert!(html.contains("a &lt; b") && html.contains("one &amp; two") && html.contains(">change<"), "{html}");
        assert_eq!(html.matches("<polyline").count(), 2);
    }
}
