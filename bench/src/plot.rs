//! Plots of figures, as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A figure beside a peer's, in the direction in which more is better.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// How many times better ours is.
    pub(crate) times: f64,
    /// How many times better ours is to be.
    pub(crate) target: Option<f64>,
}

/// A line of a plot of growth.
pub(crate) struct Curve {
    pub(crate) label: String,
    /// The size of the crowd, and what one operation costs in it.
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: i32 = 860;
/// The part of the width that the labels of bars take.
const LABELS: i32 = 380;
const ROW: i32 = 22;
const MARGIN: i32 = 30;
const FONT: &str = "sans-serif";
const REACHED: RGBColor = RGBColor(0, 128, 110);
const MISSED: RGBColor = RGBColor(200, 90, 10);
const WITHOUT_TARGET: RGBColor = RGBColor(120, 130, 145);
const COLOURS: [RGBColor; 4] = [REACHED, MISSED, RGBColor(60, 90, 170), WITHOUT_TARGET];

/// Draws bars from 1 to the figure on a logarithmic scale, each with a tick at its target.
pub(crate) fn bars(bars: &[Bar], to: &Path) -> Result<()> {
    let height = MARGIN * 2 + ROW * i32::try_from(bars.len())?;
    let area = SVGBackend::new(to, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let values = || bars.iter().flat_map(|bar| [Some(bar.times), bar.target]).flatten();
    let least = values().fold(0.5, f64::min);
    let most = values().fold(2.0, f64::max);
    let across = f64::from(WIDTH - LABELS - MARGIN) / (most / least).ln();
    let x = |value: f64| LABELS + ((value / least).ln() * across).round() as i32;
    let bottom = height - MARGIN;
    for mark in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0] {
        if mark < least || mark > most {
            continue;
        }
        let style = if mark == 1.0 { BLACK.stroke_width(1) } else { RGBColor(225, 228, 232).stroke_width(1) };
        area.draw(&PathElement::new([(x(mark), MARGIN), (x(mark), bottom)], style)).map_err(failed)?;
        area.draw(&Text::new(
            format!("{mark}×"),
            (x(mark), bottom + 6),
            style_of(11, HPos::Center, VPos::Top),
        ))
        .map_err(failed)?;
    }
    for (row, bar) in (0..).zip(bars) {
        let top = MARGIN + row * ROW;
        let colour = match bar.target {
            Some(target) if bar.times >= target => REACHED,
            Some(_) => MISSED,
            None => WITHOUT_TARGET,
        };
        let (from, until) = (x(bar.times.min(1.0)), x(bar.times.max(1.0)));
        let corners = [(from, top + 4), (until, top + ROW - 4)];
        area.draw(&Rectangle::new(corners, colour.filled())).map_err(failed)?;
        if let Some(target) = bar.target {
            let ends = [(x(target), top + 1), (x(target), top + ROW - 1)];
            area.draw(&PathElement::new(ends, BLACK.stroke_width(2))).map_err(failed)?;
        }
        let middle = top + ROW / 2;
        let label = style_of(12, HPos::Right, VPos::Center);
        area.draw(&Text::new(bar.label.clone(), (LABELS - 50, middle), label)).map_err(failed)?;
        let value = style_of(12, HPos::Right, VPos::Center);
        area.draw(&Text::new(format!("{:.2}", bar.times), (LABELS - 10, middle), value)).map_err(failed)?;
    }
    area.present().map_err(failed)
}

/// Draws curves on scales that are both logarithmic.
pub(crate) fn curves(title: &str, unit: &str, curves: &[Curve], to: &Path) -> Result<()> {
    let area = SVGBackend::new(to, (WIDTH as u32 / 2, 300)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let points = || curves.iter().flat_map(|curve| &curve.points).copied();
    let least = points().fold((f64::MAX, f64::MAX), |(x, y), point| (x.min(point.0), y.min(point.1)));
    let most = points().fold((0.0, 0.0), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)));
    let mut chart = ChartBuilder::on(&area)
        .caption(title, (FONT, 14))
        .margin(10)
        .margin_right(36)
        .x_label_area_size(34)
        .y_label_area_size(52)
        .build_cartesian_2d((least.0..most.0).log_scale(), (least.1 * 0.7..most.1 * 1.4).log_scale())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("how many")
        .y_desc(unit)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|size| format!("{size:.0}"))
        .draw()
        .map_err(failed)?;
    for (curve, colour) in curves.iter().zip(COLOURS.into_iter().cycle()) {
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)).point_size(3))
            .map_err(failed)?
            .label(&curve.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 11))
        .draw()
        .map_err(failed)?;
    area.present().map_err(failed)
}

fn style_of(size: i32, h_pos: HPos, v_pos: VPos) -> TextStyle<'static> {
    TextStyle::from((FONT, size).into_font()).pos(Pos::new(h_pos, v_pos))
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}
