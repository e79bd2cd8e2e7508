//! The times of a run in the columns of nccl-tests, for what reads its tables: a table for each collective and arm.

use std::fmt::Write as _;

use gdrtune_profiles::vocab::{Collective, DataType, Point};
use gdrtune_tuner::stats::median;

use super::seen::{PointSeen, Seen, ShapeSeen};

/// What is in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Default,
    Tuned,
}

impl Arm {
    /// Median time of a point in microseconds. Of what was tuned there is one where the A/B had the point.
    fn time_us(self, point: &PointSeen) -> Option<f64> {
        let verdict = point.verdict.as_ref();
        match self {
            Self::Default => verdict.map(|verdict| verdict.default_us).or_else(|| median(&point.default_us)),
            Self::Tuned => verdict.map(|verdict| verdict.tuned_us),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Tuned => "tuned, as the A/B measured it",
        }
    }
}

pub(super) fn write(seen: &Seen) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    write_all(seen, &mut out).unwrap_or_default();
    out
}

fn write_all(seen: &Seen, out: &mut String) -> std::fmt::Result {
    let started = &seen.started;
    writeln!(out, "# gdrtune {}, run {}, engine {}", started.tool, started.run, started.engine)?;
    if let Some(label) = started.engine.label() {
        writeln!(out, "# {label}")?;
    }
    if seen.emulated.is_some() {
        writeln!(out, "# EMULATED nodes")?;
    }
    writeln!(out, "# medians over processes; #wrong counts trials with a wrong result, of which no time is used")?;
    for shape in &seen.shapes {
        for collective in shape.collectives() {
            for arm in [Arm::Default, Arm::Tuned] {
                write_table(seen, shape, collective, arm, out)?;
            }
        }
    }
    Ok(())
}

fn write_table(seen: &Seen, shape: &ShapeSeen, collective: Collective, arm: Arm, out: &mut String) -> std::fmt::Result {
    let mut rows =
        shape.points_of(collective).filter_map(|(point, known)| Some((point, known, arm.time_us(known)?))).peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let ShapeSeen { nodes, ranks, .. } = shape;
    writeln!(out, "#\n# {collective}, {}, {nodes} nodes, {ranks} ranks", arm.words())?;
    writeln!(
        out,
        "#{:>13} {:>13} {:>9} {:>7} {:>7} {:>10} {:>8} {:>8} {:>7}",
        "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"
    )?;
    writeln!(
        out,
        "#{:>13} {:>13} {:>9} {:>7} {:>7} {:>10} {:>8} {:>8} {:>7}",
        "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", ""
    )?;
    let data_type = seen.invocation.as_ref().and_then(|by| by.data_type);
    for (point, known, time_us) in rows {
        write_row(point, *ranks, data_type, (time_us, known.wrong[usize::from(arm == Arm::Tuned)]), out)?;
    }
    Ok(())
}

fn write_row(
    point: Point,
    ranks: u32,
    data_type: Option<DataType>,
    (time_us, wrong): (f64, u64),
    out: &mut String,
) -> std::fmt::Result {
    let Point { collective, bytes } = point;
    // Recorded and simulated times are of bytes, whatever these are.
    let count = data_type.map_or_else(|| "-".to_owned(), |of| collective.count(ranks, bytes, of).to_string());
    let data_type = data_type.map_or("-", DataType::nccl_name);
    let redop = if collective.reduces() { "sum" } else { "none" };
    // nccl-tests takes rank 0 where there is a root, and writes -1 where there is none.
    let root = if matches!(collective, Collective::Broadcast | Collective::Reduce) { 0 } else { -1 };
    let (algbw, busbw) = (bytes as f64 / time_us / 1e3, collective.busbw_gbs(ranks, bytes, time_us));
    writeln!(
        out,
        " {bytes:>13} {count:>13} {data_type:>9} {redop:>7} {root:>7} {time_us:>10.2} {algbw:>8.2} {busbw:>8.2} {wrong:>7}"
    )
}
