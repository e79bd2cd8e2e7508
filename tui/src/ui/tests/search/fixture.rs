//! Searches as large as NCCL's, made of events.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Engine, Environment, Point, Protocol};
use gdrtune_session::event::{Arm, Event, Failure, Knob, KnobEffect, Phase, Record, Trial, TrialResult};

use crate::ui::{
    state::State,
    tests::{RECORDS, feed, new_state},
};

pub(super) const ALLREDUCE: Point = Point { collective: Collective::AllReduce, bytes: 1 << 20 };
pub(super) const ALLGATHER: Point = Point { collective: Collective::AllGather, bytes: 1 << 24 };

/// Algorithms and protocols of a cluster with `NVLink` switches, in the order of the vocabulary.
pub(super) const FAMILIES: [(Algorithm, Protocol); 12] = [
    (Algorithm::Tree, Protocol::Ll),
    (Algorithm::Tree, Protocol::Ll128),
    (Algorithm::Tree, Protocol::Simple),
    (Algorithm::Ring, Protocol::Ll),
    (Algorithm::Ring, Protocol::Ll128),
    (Algorithm::Ring, Protocol::Simple),
    (Algorithm::CollNetDirect, Protocol::Simple),
    (Algorithm::CollNetChain, Protocol::Simple),
    (Algorithm::Nvls, Protocol::Simple),
    (Algorithm::NvlsTree, Protocol::Simple),
    (Algorithm::Pat, Protocol::Ll),
    (Algorithm::Pat, Protocol::Simple),
];

pub(super) fn choice((algorithm, protocol): (Algorithm, Protocol), channels: u16) -> Choice {
    Choice { algorithm, protocol, channels }
}

pub(super) fn event(state: &mut State, event: Event) {
    let t_ms = state.view.elapsed_ms + 10;
    feed(state, [&Record { seq: 0, t_ms, event }]);
}

pub(super) fn overlay(index: u64) -> Environment {
    let settings = [
        Environment::new(),
        Environment::new().with("NCCL_BUFFSIZE", "1048576"),
        Environment::new().with("NCCL_BUFFSIZE", "8388608").with("NCCL_IB_QPS_PER_CONNECTION", "4"),
        Environment::new().with("NCCL_IB_SPLIT_DATA_ON_QPS", "1"),
    ];
    settings[index as usize].clone()
}

pub(super) fn trial(
    state: &mut State,
    environment: u64,
    point: Point,
    requested: Choice,
    result: Result<f64, Failure>,
) {
    let result = match result {
        Ok(time_us) => TrialResult::Timed {
            time_us,
            slowest_us: time_us,
            median_us: time_us,
            max_us: time_us,
            cpu_us: 1.0,
            busbw_gbs: 1.0,
            iterations: 20,
        },
        Err(kind) => TrialResult::Failed { kind, detail: "as it is".to_owned(), ran: None },
    };
    let trial = Trial {
        trial: state.run.summary.n_trials,
        arm: Arm::Search,
        environment: overlay(environment),
        point,
        requested: Some(requested),
        selected: Some(requested),
        process: 1,
        item: None,
        result,
    };
    event(state, Event::Trial(trial));
}

/// A search in its first environment, whose library refuses NVLS and PAT for an all-reduce.
pub(super) fn nccl_start(size: (u16, u16), channels: &[u16]) -> State {
    let mut state = new_state(size);
    let mut started = RECORDS.first().unwrap().event.clone();
    if let Event::RunStarted { engine, points, .. } = &mut started {
        (*engine, *points) = (Engine::Nccl, vec![ALLREDUCE, ALLGATHER]);
    }
    event(&mut state, started);
    event(&mut state, Event::Phase { phase: Phase::Search });
    let values = |names: &[Option<&str>]| names.iter().map(|value| value.map(str::to_owned)).collect::<Vec<_>>();
    event(
        &mut state,
        Event::Space {
            dimensions: BTreeMap::from([
                ("NCCL_BUFFSIZE".to_owned(), values(&[None, Some("1048576"), Some("8388608")])),
                ("NCCL_IB_QPS_PER_CONNECTION".to_owned(), values(&[None, Some("4")])),
                ("NCCL_IB_SPLIT_DATA_ON_QPS".to_owned(), values(&[None, Some("1")])),
            ]),
            choices: channels.iter().flat_map(|n| FAMILIES.map(|family| choice(family, *n))).collect(),
            environments: 12,
            name: "default".to_owned(),
        },
    );
    for (point, allowed) in [(ALLREDUCE, &FAMILIES[..8]), (ALLGATHER, &FAMILIES[3..6])] {
        let times_us = allowed.iter().map(|family| (choice(*family, 0), 100.0)).collect();
        event(&mut state, Event::Predicted { point, times_us });
    }
    event(&mut state, Event::EnvironmentStarted { index: 0, environment: overlay(0), why: "start".to_owned() });
    state
}

/// Every kind of cell at the first point: the fastest is ring/ll128/8 with 100 us, and each step away from it costs.
pub(super) fn nccl(size: (u16, u16), channels: &[u16]) -> State {
    let mut state = nccl_start(size, channels);
    state.run.summary.points.get_mut(&ALLREDUCE).unwrap().tell_default(150.0);
    for (row, family) in FAMILIES[..6].iter().enumerate() {
        for n in channels.iter().filter(|n| **n < 64) {
            let rows_off = row.abs_diff(4) as f64;
            let steps_off = (f64::from(*n).log2() - 3.0).abs();
            let time_us = 100.0 * (1.0 + 0.01 * steps_off.powi(3) + 0.3 * rows_off.powi(3));
            for noise in [0.99, 1.0, 1.02] {
                trial(&mut state, 0, ALLREDUCE, choice(*family, *n), Ok(time_us * noise));
            }
        }
    }
    for (kind, n) in [(Failure::Hung, 1), (Failure::Crashed, 2), (Failure::Wrong, 4), (Failure::Substituted, 8)] {
        trial(&mut state, 0, ALLREDUCE, choice(FAMILIES[6], n), Err(kind));
    }
    trial(&mut state, 0, ALLREDUCE, choice(FAMILIES[6], 16), Err(Failure::Unsupported));
    for (family, n, why) in [
        (FAMILIES[0], 1, "20.86 times slower than the leader"),
        (FAMILIES[6], 1, "hung: killed after 2 s"),
        (FAMILIES[7], 1, "the user dropped it"),
    ] {
        let (environment, why) = (overlay(0), why.to_owned());
        event(&mut state, Event::Dropped { environment, point: ALLREDUCE, choice: choice(family, n), why });
    }
    trial(&mut state, 0, ALLREDUCE, choice(FAMILIES[5], 2), Ok(230.0));
    state
}

/// The channel counts of the product's own space.
pub(super) const USUAL: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];

pub(super) fn many() -> Vec<u16> {
    (1..=32).collect()
}

/// Three more environments: one given up, one failed, one in play; and what the search told of two knobs.
pub(super) fn with_environments(size: (u16, u16)) -> State {
    let mut state = nccl(size, &USUAL);
    let scored = |index, score, note: &str| Event::EnvironmentScored {
        index,
        environment: overlay(index),
        score,
        note: note.to_owned(),
    };
    let started =
        |index, why: &str| Event::EnvironmentStarted { index, environment: overlay(index), why: why.to_owned() };
    event(&mut state, scored(0, Some(0.9), ""));
    event(&mut state, started(1, "NCCL_BUFFSIZE moved from unset"));
    trial(&mut state, 1, ALLREDUCE, choice(FAMILIES[5], 4), Ok(80.0));
    event(&mut state, scored(1, Some(0.7), ""));
    event(&mut state, started(2, "the model expects 1.20x"));
    event(&mut state, scored(2, Some(1.3), "given up early: clearly worse"));
    event(&mut state, started(3, "the model expects 1.05x"));
    event(&mut state, scored(3, None, "workers did not start: no such device"));
    let knob = |name: &str, best: Option<&str>, effect, factor: f64| Knob {
        name: name.to_owned(),
        best: best.map(str::to_owned),
        worst: Some("8388608".to_owned()),
        factor,
        low: factor * 0.95,
        high: factor * 1.06,
        effect,
    };
    event(
        &mut state,
        Event::Importance {
            knobs: vec![
                knob("NCCL_BUFFSIZE", Some("1048576"), KnobEffect::Mattered, 1.6),
                knob("NCCL_IB_QPS_PER_CONNECTION", None, KnobEffect::None, 1.01),
            ],
        },
    );
    // The search comes back to the second one.
    trial(&mut state, 1, ALLREDUCE, choice(FAMILIES[5], 8), Ok(85.0));
    trial(&mut state, 1, ALLREDUCE, choice(FAMILIES[5], 8), Ok(84.0));
    state
}
