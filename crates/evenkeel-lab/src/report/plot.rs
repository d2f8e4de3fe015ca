//! Curves over time and bars, drawn to SVG that takes its colours from the page.
//!
//! Text and grid have marker colours that the page's style sheet replaces, so that one drawing
//! serves a light and a dark page.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::number;

/// Replaced by the page's text colour.
pub const INK: &str = "#010101";
/// Replaced by the page's grid colour.
pub const GRID: &str = "#020202";
/// Replaced by the page's colour of the n-th subject.
pub const SERIES: [&str; 6] = [
    "#100001", "#100002", "#100003", "#100004", "#100005", "#100006",
];

const FONT: &str = "sans-serif";
const WIDTH: u32 = 560;
const HEIGHT: u32 = 230;
const BAR_WIDTH: u32 = 1_140;

/// One subject's values.
pub struct Curve<'a> {
    /// Which colour.
    pub colour: usize,
    /// (seconds, value).
    pub points: &'a [(f64, f64)],
}

/// Bars of one measurement.
pub struct Group {
    /// The measurement.
    pub label: String,
    /// (colour, value) for each subject.
    pub bars: Vec<(usize, f64)>,
}

type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn rgb(code: &str) -> RGBColor {
    let part = |at: usize| {
        let digits = code.get(at..at + 2).unwrap_or("00");
        u8::from_str_radix(digits, 16).unwrap_or(0)
    };
    RGBColor(part(1), part(3), part(5))
}

fn colour(index: usize) -> RGBColor {
    rgb(SERIES.get(index % SERIES.len()).copied().unwrap_or(INK))
}

/// A label of an axis: no zeros behind the point.
fn tick(value: f64) -> String {
    let text = number(value);
    match text.split_once('.') {
        Some((whole, digits)) if digits.chars().all(|c| c == '0') => whole.to_owned(),
        _ => text,
    }
}

/// Curves over the seconds of a run. Empty when there is nothing to draw.
pub fn curves(axis: &str, curves: &[Curve<'_>]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let end = points().map(|point| point.0).fold(0.0, f64::max).ceil();
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    if end < 1.0 {
        return String::new();
    }
    let top = if top > 0.0 { top * 1.08 } else { 1.0 };
    drawn((WIDTH, HEIGHT), |area| {
        draw_curves(area, axis, curves, end, top)
    })
}

fn drawn(size: (u32, u32), draw: impl FnOnce(&Drawing<'_>) -> Drawn) -> String {
    let mut text = String::new();
    let outcome = {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area).and_then(|()| area.present().map_err(Into::into))
    };
    match outcome {
        Ok(()) => scalable(&text, size),
        Err(error) => format!("<p>not drawn: {error}</p>"),
    }
}

/// The drawing without a fixed size: the page sets its width.
fn scalable(svg: &str, (width, height): (u32, u32)) -> String {
    svg.replacen(&format!("width=\"{width}\" height=\"{height}\" "), "", 1)
}

fn draw_curves(area: &Drawing<'_>, axis: &str, curves: &[Curve<'_>], end: f64, top: f64) -> Drawn {
    let (ink, grid) = (rgb(INK), rgb(GRID));
    let text = (FONT, 12).into_font().color(&ink);
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .margin_right(14)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(grid)
        .axis_style(grid)
        .label_style(text.clone())
        .axis_desc_style(text)
        .x_desc("seconds into the run")
        .y_desc(axis)
        .y_labels(5)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| tick(*y))
        .draw()?;
    for curve in curves {
        let colour = colour(curve.colour);
        let line = curve.points.iter().copied();
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    }
    Ok(())
}

/// Horizontal bars, grouped by measurement, each with its value.
pub fn bars(axis: &str, groups: &[Group]) -> String {
    const BAR: f64 = 17.0;
    const GAP: f64 = 12.0;
    let count: usize = groups.iter().map(|group| group.bars.len()).sum();
    let top = groups
        .iter()
        .flat_map(|g| &g.bars)
        .map(|bar| bar.1)
        .fold(0.0, f64::max);
    if count == 0 || top <= 0.0 {
        return String::new();
    }
    let inner = BAR * count as f64 + GAP * groups.len() as f64;
    let size = (BAR_WIDTH, inner as u32 + 60);
    drawn(size, |area| {
        let (ink, grid) = (rgb(INK), rgb(GRID));
        let text = (FONT, 13).into_font().color(&ink);
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_left(300)
            .margin_right(20)
            .x_label_area_size(40)
            .build_cartesian_2d(0.0..top * 1.12, inner..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(grid)
            .axis_style(grid)
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .x_desc(axis)
            .x_label_formatter(&|x| tick(*x))
            .draw()?;
        let mut y = GAP / 2.0;
        for group in groups {
            let height = BAR * group.bars.len() as f64;
            let (_, middle) = chart.backend_coord(&(0.0, y + height / 2.0));
            area.draw(&Text::new(
                group.label.clone(),
                (8, middle - 6),
                text.clone(),
            ))?;
            for (index, value) in &group.bars {
                let corners = [(0.0, y + 2.0), (*value, y + BAR - 1.0)];
                chart.draw_series([Rectangle::new(corners, colour(*index).filled())])?;
                let (x, mid) = chart.backend_coord(&(*value, y + BAR / 2.0));
                area.draw(&Text::new(number(*value), (x + 6, mid - 5), text.clone()))?;
                y += BAR;
            }
            y += GAP;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_name_their_axes_and_use_marker_colours() {
        let points = [(0.5, 1.0), (1.5, 3.0)];
        let curve = Curve {
            colour: 1,
            points: &points,
        };
        let svg = curves("rate (tps)", &[curve]);
        assert!(svg.contains("rate (tps)") && svg.contains("seconds into the run"));
        assert!(svg.contains(SERIES[1]) && svg.contains(INK), "{svg}");
        assert!(
            svg.contains("viewBox") && !svg.contains("<svg width"),
            "{svg}"
        );
    }

    #[test]
    fn nothing_to_draw_is_no_drawing() {
        assert_eq!(curves("x", &[]), "");
        assert_eq!(bars("x", &[]), "");
    }

    #[test]
    fn bars_carry_their_values() {
        let group = Group {
            label: "first scan".to_owned(),
            bars: vec![(0, 1_234.0), (1, 10.0)],
        };
        let svg = bars("time (ms)", &[group]);
        assert!(svg.contains("1,234") && svg.contains("first scan") && svg.contains("time (ms)"));
    }
}
