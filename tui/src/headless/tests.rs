//! What plain lines say.

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Environment, Protocol};
use gdrtune_session::event::{Extension, Failure, Knob, KnobEffect, Owner, Wish};

use super::*;

fn trial(trial: u64, result: TrialResult) -> Event {
    Event::Trial(Trial {
        trial,
        arm: Arm::Search,
        environment: Environment::new(),
        point: Point { collective: Collective::AllReduce, bytes: 65536 },
        requested: None,
        selected: None,
        process: 0,
        item: None,
        result,
    })
}

fn timed() -> TrialResult {
    TrialResult::Timed {
        time_us: 120.0,
        slowest_us: 121.0,
        median_us: 119.0,
        max_us: 140.0,
        cpu_us: 60.0,
        busbw_gbs: 0.82,
        iterations: 20,
    }
}

#[test]
fn progress_is_rare_and_failures_are_always_said() {
    let failed = TrialResult::Failed { kind: Failure::Hung, detail: "killed at its deadline".into(), ran: None };
    let events = [
        (0, Event::Shape { index: 1, of: 2, nodes: 2, ranks: 16 }),
        (0, Event::Phase { phase: Phase::Search }),
        (2_000, trial(0, timed())),
        (2_100, trial(1, timed())),
        (2_200, trial(2, failed)),
        (4_100, trial(3, timed())),
    ];
    let every = "2.1s  search: 2 s, 2 trials; now allreduce 64K own choice: 120.0 us, busbw 0.820 GB/s";
    let usual = shown(Detail::Usual, &events);
    assert_eq!(
        shown(Detail::EveryTrial, &events).iter().filter(|line| !usual.contains(line)).collect::<Vec<_>>(),
        [every]
    );
    assert_eq!(
        usual,
        [
            "0.0s  shape 2 of 2: 2 nodes, 16 ranks",
            "0.0s  phase: search",
            "2.0s  search: 2 s, 1 trial; now allreduce 64K own choice: 120.0 us, busbw 0.820 GB/s",
            "2.2s  trial 2 failed (hung): allreduce 64K own choice: killed at its deadline",
            "4.1s  search: 4 s, 4 trials; now allreduce 64K own choice: 120.0 us, busbw 0.820 GB/s",
        ]
    );
    assert!(shown(Detail::Result, &events).is_empty());
}

/// The lines that these events come to.
fn shown(detail: Detail, events: &[(u64, Event)]) -> Vec<String> {
    let mut out = Vec::new();
    let mut lines = PlainLines::new(&mut out, detail);
    for (seq, (t_ms, event)) in (0..).zip(events) {
        lines.show(&Record { seq, t_ms: *t_ms, event: event.clone() }).unwrap();
    }
    String::from_utf8(out).unwrap().lines().map(|line| line.trim_start().to_owned()).collect()
}

#[test]
fn the_quiet_say_errors_and_the_result_with_its_labels() {
    let log = |level, text: &str| Event::Log { level, host: "vh1".into(), text: text.into() };
    let node = |state, detail: &str| Event::Node { index: 0, host: "vh1".into(), state, detail: detail.into() };
    let failed = TrialResult::Failed { kind: Failure::Hung, detail: "killed at its deadline".into(), ran: None };
    let events = [
        (0, Event::Emulated { why: "one machine".into() }),
        (1, node(NodeState::Ready, "2 CPUs")),
        (2, log(Level::Warn, "drift")),
        (3, trial(0, failed)),
        (100, log(Level::Error, "no memory")),
        (200, node(NodeState::Lost, "silent")),
        (300, Event::Finished { end: gdrtune_session::event::RunEnd::NodesLost, summary: "vh1 is lost".into() }),
    ];
    let expected = [
        "0.1s  error: vh1: no memory",
        "0.2s  vh1: LOST: silent",
        "0.3s  EMULATED nodes: one machine",
        "0.3s  1 trial, 1 failed",
        "0.3s  vh1 is lost",
    ];
    assert_eq!(shown(Detail::Result, &events), expected);
}

/// What a screen reader spells out, or leaves out: brackets, arrows, rules, anything that is not in ASCII.
fn is_spoken(c: char) -> bool {
    c.is_ascii_alphanumeric() || " .,:;()%/'".contains(c)
}

#[test]
fn plain_lines_are_words_without_symbols() {
    let speedup = Speedup { median: 1.35, low: 1.3, high: 1.41, p_faster: 0.999, repeats: 21 };
    let point = Point { collective: Collective::AllReduce, bytes: 65536 };
    let choice = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 2 };
    let knob = |effect| Knob {
        name: "NSOCKS".into(),
        best: None,
        worst: Some("4".into()),
        factor: 1.6,
        low: 1.4,
        high: 1.8,
        effect,
    };
    let scored = |score, note: &str| Event::EnvironmentScored {
        index: 1,
        score,
        environment: Environment::new(),
        note: note.into(),
    };
    let node = |state| Event::Node { index: 0, host: "vh1".into(), state, detail: "2 CPUs".into() };
    let (nodes, ranks, hosts) = (1, 8, "vh1".to_owned());
    let failed = TrialResult::Failed { kind: Failure::Crashed, detail: "signal 11".into(), ran: None };
    let events = [
        Event::Resumed { at: "14:02".into(), trials: 1, by: Owner::default() },
        node(NodeState::Ready),
        node(NodeState::Lost),
        Event::Emulated { why: "one machine".into() },
        Event::NodeSet { hosts, nodes, ranks, left_out: vec![] },
        Event::Shape { index: 0, of: 2, nodes, ranks },
        Event::Phase { phase: Phase::Verify },
        Event::EnvironmentStarted { index: 1, environment: Environment::new(), why: "as it is".into() },
        scored(Some(0.7), "given up early"),
        scored(None, ""),
        Event::Importance { knobs: [KnobEffect::Mattered, KnobEffect::None, KnobEffect::Unknown].map(knob).to_vec() },
        trial(0, timed()),
        trial(1, failed),
        Event::Verdict {
            point,
            speedup,
            default_us: 128.7,
            tuned_us: 95.1,
            decision: Decision::Ship,
            note: String::new(),
        },
        Event::Wish { question: 3, wish: Wish::Drop { point: Some(point), choice } },
        Event::Extended(Extension {
            question: 3,
            seconds: Some(20.0),
            budget_s: Some(80.0),
            trials: None,
            max_trials: None,
        }),
        Event::Written { files: vec!["tuned/profile.toml".into()], so_far: false },
        Event::Log { level: Level::Warn, host: "vh1".into(), text: "drift".into() },
        Event::Finished { end: gdrtune_session::event::RunEnd::Tuned, summary: "1 rule ships".into() },
    ];
    let events: Vec<(u64, Event)> = (1..).map(|second| second * 1000).zip(events).collect();
    let lines = shown(Detail::EveryTrial, &events);
    assert!(events.len() <= lines.len(), "{lines:#?}");
    for line in lines {
        assert!(line.chars().all(is_spoken), "{line}");
    }
}
