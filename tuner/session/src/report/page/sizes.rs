//! The default against what was tuned, size by size: plots and the numbers behind them.

use gdrtune_profiles::{
    profile::Profile,
    size::Size,
    vocab::{Collective, Engine, Point},
};
use gdrtune_tuner::stats::{median, relative_spread};

use super::{MAX_TEXT, bandwidth, factor, interval, microseconds, of_shapes};
use crate::{
    report::{
        block::{Block, Column, Table, Text, shortened},
        plot::{Kind, Mark, Plot},
        seen::{PointSeen, Seen, ShapeSeen},
    },
    run::decision_words,
};

/// Times of the default below which they have no quartiles to speak of.
const LEAST_SAMPLES: usize = 4;

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let has_verdicts = seen.shapes.iter().flat_map(|shape| shape.points.values()).any(|point| point.verdict.is_some());
    let about = if has_verdicts {
        "The interval covers 90 %; P(faster) is the bootstrap probability, over processes, that the ratio of medians exceeds 1. A rule is judged over all its \
         sizes, so one without a sure gain of its own may lie in its range. In plots, bars are the interval of the gain, at the default's \
         median. Where there is no tuned value, the size was not in the A/B and runs as without the profile."
    } else {
        "There was no A/B: tuned values are the best that the search measured, which flatters what it chose, since it is the best of many."
    };
    let arms = match seen.started.engine {
        _ if !has_verdicts => "",
        Engine::Nccl | Engine::Native => {
            "Both arms were measured interleaved, each in fresh processes that read the emitted files. "
        }
        Engine::Sim => "Both arms ran interleaved on the simulated cluster, each in simulated processes of its own. ",
        Engine::Replay => "Both arms were drawn interleaved from the recorded grid: no process was started. ",
    };
    let shapes = of_shapes(seen, |shape| of_shape(seen, shape));
    if shapes.is_empty() {
        return Vec::new();
    }
    let spread = "The default's spread is the distance between the quartiles of all its times over their median: what the noise is, and the \
                  drift of a whole run.";
    let heading =
        [Block::heading(2, "Default against tuned, by size"), Block::paragraph(format!("{arms}{about} {spread}"))];
    heading.into_iter().chain(shapes).collect()
}

fn of_shape(seen: &Seen, shape: &ShapeSeen) -> Vec<Block> {
    let of = |collective| {
        let plots: Vec<Plot> = plots(seen, shape, collective).into_iter().filter(|plot| !plot.is_empty()).collect();
        if plots.is_empty() {
            return Vec::new();
        }
        let level = if seen.has_shapes { 4 } else { 3 };
        let table = Block::Table(table(seen.profile.as_ref(), shape, collective));
        vec![Block::heading(level, collective.to_string()), Block::Plots(plots), table]
    };
    shape.collectives().into_iter().flat_map(of).collect()
}

/// Names of files and anchors of a collective's plots.
pub(super) fn plot_name(seen: &Seen, shape: &ShapeSeen, collective: Collective, what: &str) -> String {
    let ShapeSeen { nodes, ranks, .. } = shape;
    let shape = if seen.has_shapes { format!("-{nodes}nodes-{ranks}ranks") } else { String::new() };
    format!("{collective}{shape}-{what}")
}

/// Times of a point: the default's, and what was tuned with its interval.
struct Times {
    default_us: Option<f64>,
    tuned: Option<Tuned>,
}

#[derive(Clone, Copy)]
struct Tuned {
    time_us: f64,
    interval_us: Option<(f64, f64)>,
    gain: f64,
    gain_interval: Option<(f64, f64)>,
    kind: Kind,
}

impl Times {
    fn of(point: &PointSeen) -> Self {
        if let Some(verdict) = &point.verdict {
            let speedup = &verdict.speedup;
            let tuned = Tuned {
                time_us: verdict.tuned_us,
                interval_us: Some((verdict.default_us / speedup.high, verdict.default_us / speedup.low)),
                gain: speedup.median,
                gain_interval: Some((speedup.low, speedup.high)),
                kind: verdict.decision.into(),
            };
            return Self { default_us: Some(verdict.default_us), tuned: Some(tuned) };
        }
        let estimate = point.best.as_ref().map(|best| Tuned {
            time_us: best.time_us,
            interval_us: None,
            gain: best.default_us / best.time_us,
            gain_interval: None,
            kind: Kind::Estimate,
        });
        let told = point.best.as_ref().map(|best| best.default_us);
        Self { default_us: told.or_else(|| median(&point.default_us)), tuned: estimate }
    }
}

/// Times by point, estimates only where nothing was verified: they are not to be taken for results.
fn times(shape: &ShapeSeen, collective: Collective) -> Vec<(Point, Times)> {
    let is_verified = shape.points.values().any(|point| point.verdict.is_some());
    let points = shape.points_of(collective).map(|(point, known)| {
        let times = Times::of(known);
        let tuned = times.tuned.filter(|tuned| !is_verified || tuned.kind != Kind::Estimate);
        (point, Times { tuned, ..times })
    });
    points.collect()
}

fn plots(seen: &Seen, shape: &ShapeSeen, collective: Collective) -> Vec<Plot> {
    let times = times(shape, collective);
    let busbw = |bytes: u64, time_us: f64| collective.busbw_gbs(shape.ranks, bytes, time_us);
    let default = |value: &dyn Fn(u64, f64) -> f64| -> Vec<Mark> {
        let mark = |(point, times): &(Point, Times)| {
            let value = value(point.bytes, times.default_us?);
            Some(Mark { bytes: point.bytes, value, interval: None, kind: Kind::Default })
        };
        times.iter().filter_map(mark).collect()
    };
    let tuned = |value: &dyn Fn(u64, f64) -> f64| -> Vec<Mark> {
        let mark = |(point, times): &(Point, Times)| {
            let Tuned { time_us, interval_us, kind, .. } = times.tuned?;
            let interval = interval_us.map(|(a, b)| (value(point.bytes, a), value(point.bytes, b)));
            Some(Mark { bytes: point.bytes, value: value(point.bytes, time_us), interval, kind })
        };
        times.iter().filter_map(mark).collect()
    };
    let gain = |(point, times): &(Point, Times)| {
        let Tuned { gain, gain_interval, kind, .. } = times.tuned?;
        Some(Mark { bytes: point.bytes, value: gain, interval: gain_interval, kind })
    };
    let gains: Vec<Mark> = times.iter().filter_map(gain).collect();
    let time = |_: u64, time_us: f64| time_us;
    let plot = |what: &str, title: &str, unit, reference, lines: Vec<Vec<Mark>>| Plot {
        name: plot_name(seen, shape, collective, what),
        title: format!("{collective}: {title}"),
        unit,
        reference,
        lines: lines.into_iter().filter(|line| !line.is_empty()).collect(),
    };
    let bandwidths = if busbw(1 << 20, 1.0) > 0.0 { vec![default(&busbw), tuned(&busbw)] } else { Vec::new() };
    vec![
        plot("busbw", "bus bandwidth (more is better)", "GB/s", None, bandwidths),
        plot("latency", "time of one call (less is better)", "microseconds", None, vec![default(&time), tuned(&time)]),
        plot("speedup", "speed-up (above 1 is faster)", "default time over tuned time", Some(1.0), vec![gains]),
    ]
}

fn table(profile: Option<&Profile>, shape: &ShapeSeen, collective: Collective) -> Table {
    let columns = vec![
        Column::Numbers("size"),
        Column::Numbers("default (us)"),
        Column::Numbers("tuned (us)"),
        Column::Numbers("default busbw (GB/s)"),
        Column::Numbers("tuned busbw (GB/s)"),
        Column::Numbers("speed-up"),
        Column::Numbers("90 % interval"),
        Column::Numbers("P(faster)"),
        Column::Numbers("default's spread"),
        Column::Words("verdict"),
        Column::Words("ships"),
    ];
    let row = |(point, times): (Point, Times)| {
        let known = shape.points.get(&point);
        let verdict = known.and_then(|known| known.verdict.as_ref());
        let busbw = |time_us: f64| bandwidth(collective.busbw_gbs(shape.ranks, point.bytes, time_us));
        let samples = known.map(|known| &known.default_us).filter(|samples| LEAST_SAMPLES <= samples.len());
        let spread = samples.and_then(|samples| relative_spread(samples));
        let tuned_us = times.tuned.map(|tuned| tuned.time_us);
        let text = |text: Option<String>| Text::from(text.unwrap_or_default());
        let words = verdict.map(|verdict| {
            let note = if verdict.note.is_empty() { String::new() } else { format!(": {}", verdict.note) };
            shortened(&format!("{}{note}", decision_words(verdict.decision)), MAX_TEXT)
        });
        let words = words.or_else(|| times.tuned.map(|_| "an estimate".to_owned()));
        vec![
            Size(point.bytes).to_string().into(),
            text(times.default_us.map(microseconds)),
            text(tuned_us.map(microseconds)),
            text(times.default_us.map(busbw)),
            text(tuned_us.map(busbw)),
            text(times.tuned.map(|tuned| factor(tuned.gain))),
            text(verdict.map(|verdict| interval(&verdict.speedup))),
            text(verdict.map(|verdict| format!("{:.3}", verdict.speedup.p_faster))),
            text(spread.map(|spread| format!("{:.0} %", 100.0 * spread))),
            text(words),
            ships(profile, shape, point),
        ]
    };
    let caption = format!("{collective}: default against tuned");
    Table::new(caption, &columns, self::times(shape, collective).into_iter().map(row).collect())
}

/// What the profile makes of a point.
fn ships(profile: Option<&Profile>, shape: &ShapeSeen, point: Point) -> Text {
    let Some(profile) = profile.filter(|profile| !profile.run.unverified) else { return Text::default() };
    match (profile.rule_of((shape.nodes, shape.ranks), point), profile.env.is_empty()) {
        (Some(rule), _) => Text::code(rule.choice().to_string()),
        (None, true) => "default".into(),
        (None, false) => "settings".into(),
    }
}
