//! What a run's store tells of the times of a job shape: the default arm at every point, and what the A/B said; and which of its
//! records are about a shape at all.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::Point;
use gdrtune_tuner::{predict::Measured, stats::median};

use crate::event::{Arm, Event, Record, TrialResult};

mod judged;
mod shape;

pub use judged::Judged;
pub use shape::{OtherShape, check_shape, measured_shapes, shapes};

/// Times at one point.
#[derive(Default)]
struct Times {
    default_us: Vec<f64>,
    /// The last verdict: a reduced candidate is measured again.
    verdict: Option<Measured>,
}

/// Every point that the default arm has a time for, with the nodes and ranks of `shape`; those of other shapes of the run, and
/// of nodes that went on without others, are not mixed in.
///
/// The default time is that of the A/B where it had the point: both arms of a ratio are from the same minutes.
pub fn measured(records: &[Record], shape: (u32, u32)) -> Vec<Measured> {
    let mut points: BTreeMap<Point, Times> = BTreeMap::new();
    for record in of_shape(records, shape) {
        match &record.event {
            Event::Trial(trial) if trial.arm == Arm::Default => {
                if let TrialResult::Timed { time_us, .. } = trial.result {
                    points.entry(trial.point).or_default().default_us.push(time_us);
                }
            }
            Event::Verdict { point, speedup, default_us, .. } => {
                let measured = Measured { point: *point, default_us: *default_us, ratio: Some((*speedup).into()) };
                points.entry(*point).or_default().verdict = Some(measured);
            }
            _ => {}
        }
    }
    let time = |(point, times): (Point, Times)| {
        times.verdict.or_else(|| Some(Measured { point, default_us: median(&times.default_us)?, ratio: None }))
    };
    points.into_iter().filter_map(time).filter(|measured| 0.0 < measured.default_us).collect()
}

/// The records about one of a run's shapes, in their order: what was measured before the run went on with other nodes is not
/// among them, nor what is told of no shape in a run of several.
pub fn of_shape(records: &[Record], shape: (u32, u32)) -> impl Iterator<Item = &Record> {
    // A run without shapes has one.
    let is_of_several = records.iter().any(|record| matches!(record.event, Event::Shape { .. }));
    let mut is_of_shape = !is_of_several && measured_shapes(records).contains(&shape);
    let begun = records.iter().rposition(|record| matches!(record.event, Event::NodeSet { .. })).unwrap_or(0);
    records.iter().enumerate().filter_map(move |(place, record)| {
        if let Event::Shape { nodes, ranks, .. } = record.event {
            is_of_shape = (nodes, ranks) == shape;
        }
        (is_of_shape && begun <= place).then_some(record)
    })
}

/// The id of the run.
pub fn run_id(records: &[Record]) -> Option<&str> {
    records.iter().find_map(|record| match &record.event {
        Event::RunStarted { run, .. } => Some(run.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{
        profile::Speedup,
        vocab::{Collective, Environment},
    };

    use super::*;
    use crate::event::{Decision, Failure, Trial};

    fn point(bytes: u64) -> Point {
        Point { collective: Collective::AllReduce, bytes }
    }

    fn trial(arm: Arm, bytes: u64, time_us: f64) -> Event {
        let timed = TrialResult::Timed {
            time_us,
            slowest_us: 0.0,
            median_us: 0.0,
            max_us: 0.0,
            cpu_us: 0.0,
            busbw_gbs: 0.0,
            iterations: 1,
        };
        let failed = TrialResult::Failed { kind: Failure::Hung, detail: String::new(), ran: None };
        let result = if time_us > 0.0 { timed } else { failed };
        let environment = Environment::new();
        Event::Trial(Trial {
            trial: 0,
            arm,
            environment,
            point: point(bytes),
            requested: None,
            selected: None,
            process: 0,
            item: None,
            result,
        })
    }

    fn verdict(bytes: u64, median: f64) -> Event {
        let speedup = Speedup { median, low: 1.0, high: 3.0, p_faster: 1.0, repeats: 9 };
        Event::Verdict {
            point: point(bytes),
            speedup,
            default_us: 50.0,
            tuned_us: 25.0,
            decision: Decision::Ship,
            note: String::new(),
        }
    }

    fn nodes(nodes: u32, ranks: u32) -> Event {
        Event::NodeSet { hosts: "a".into(), nodes, ranks, left_out: Vec::new() }
    }

    fn shown(events: Vec<Event>, shape: (u32, u32)) -> Vec<(u64, f64, Option<f64>)> {
        let records: Vec<Record> = (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect();
        measured(&records, shape)
            .iter()
            .map(|m| (m.point.bytes, m.default_us, m.ratio.map(|ratio| ratio.median)))
            .collect()
    }

    #[test]
    fn the_default_arms_median_counts_and_the_last_verdict_before_it() {
        let events = vec![
            nodes(2, 16),
            trial(Arm::Default, 1024, 10.0),
            trial(Arm::Default, 1024, 90.0),
            trial(Arm::Default, 1024, 12.0),
            trial(Arm::Default, 1024, 0.0),
            trial(Arm::Search, 1024, 1.0),
            trial(Arm::Candidate, 4096, 1.0),
            trial(Arm::Default, 4096, 40.0),
            verdict(4096, 3.0),
            verdict(4096, 2.0),
        ];
        assert_eq!(shown(events.clone(), (2, 16)), [(1024, 12.0, None), (4096, 50.0, Some(2.0))]);
        assert_eq!(shown(events, (1, 16)), [], "the run has no other shape");
    }

    #[test]
    fn other_shapes_and_other_nodes_are_not_mixed_in() {
        let shape = |nodes, ranks| Event::Shape { index: 0, of: 2, nodes, ranks };
        let events = vec![
            shape(4, 32),
            trial(Arm::Default, 1024, 10.0),
            shape(2, 16),
            trial(Arm::Default, 1024, 20.0),
            verdict(1024, 2.0),
        ];
        assert_eq!(shown(events.clone(), (4, 32)), [(1024, 10.0, None)]);
        assert_eq!(shown(events.clone(), (2, 16)), [(1024, 50.0, Some(2.0))]);
        assert_eq!(shown(events, (1, 8)), []);
        let events = vec![trial(Arm::Default, 1024, 10.0), nodes(1, 8), trial(Arm::Default, 4096, 20.0)];
        assert_eq!(shown(events.clone(), (1, 8)), [(4096, 20.0, None)]);
        assert_eq!(shown(events.clone(), (8, 8)), []);
        let emulated = [events, vec![Event::Emulated { why: String::new() }]].concat();
        assert_eq!(shown(emulated, (8, 8)), [(4096, 20.0, None)], "each rank may pose as a node");
    }
}
