use std::time::Duration;

use gdrtune_profiles::vocab::{Collective, Engine};
use gdrtune_tuner::{
    bench::{BenchInfo, Outcome, Sample, Timing},
    gdr::Decision,
    observe::Silent,
};
use gdrtune_wire::{EngineReport, NetworkUse};

use super::*;
use crate::cluster::ClusterNote;

/// What a rank's connections are, of four.
#[derive(Clone, Copy)]
enum Has {
    Direct(u32),
    Sockets,
    Nothing,
    NoLog,
}

/// A cluster whose arms are connected, and take times, as said: without and with.
struct Fixed {
    nodes: u32,
    has: [Has; 2],
    /// Microseconds of large and of small sizes.
    us: [[f64; 2]; 2],
    /// The pair from which on the arm with it loses it.
    loses_at: Option<u32>,
    started: u32,
    tell: Box<dyn FnMut(ClusterNote)>,
    lines: Vec<String>,
}

impl Fixed {
    fn report(&self, has: Has) -> EngineReport {
        let network = |path: &str, count, direct| {
            let (sends, receives) = (count, count);
            let paths = if count == 0 { vec![] } else { vec![path.to_owned()] };
            Some(NetworkUse { paths, sends, gdr_sends: direct, receives, gdr_receives: direct })
        };
        let network = match has {
            Has::Direct(direct) => network("NET/IB/0", 2, direct),
            Has::Sockets => network("NET/Socket/0", 2, 0),
            Has::Nothing => network("", 0, 0),
            Has::NoLog => None,
        };
        EngineReport { network, gdr_log: self.lines.clone(), ..EngineReport::default() }
    }
}

impl Bench for Fixed {
    fn info(&self) -> BenchInfo {
        BenchInfo { engine: Engine::Nccl, nodes: self.nodes, ranks: 2 }
    }

    fn now_s(&self) -> f64 {
        0.0
    }

    fn run(&mut self, script: &Script, _: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        assert!(script.fresh);
        let Setup::Live(environment) = &script.setup else { panic!("{:?}", script.setup) };
        let arm = usize::from(environment.get("NCCL_NET_GDR_LEVEL") == Some("SYS"));
        let process = self.started;
        self.started += 1;
        let has = match self.loses_at {
            Some(process_from) if arm == 1 && process_from <= process => Has::Direct(0),
            _ => self.has[arm],
        };
        let ranks = vec![self.report(has); 2];
        let (setup, setup_time, engine) = (String::new(), Duration::ZERO, Box::default());
        (self.tell)(ClusterNote::WorkersStarted { process, setup, setup_time, engine, ranks });
        for (item, asked) in script.items.iter().enumerate() {
            let side = usize::from(asked.point.bytes < 1 << 20);
            for _ in 0..asked.repeats {
                let us = self.us[side][arm];
                let (time_us, slowest_us, median_us, max_us, cpu_us) = (us, us, us, us, us / 2.0);
                let timing = Timing { time_us, slowest_us, median_us, max_us, cpu_us, iterations: 1, selected: None };
                sink(Sample { item, process, outcome: Outcome::Timed(timing) });
            }
        }
        Ok(())
    }
}

fn plan() -> GdrPlan {
    let point = |bytes| Point { collective: Collective::AllReduce, bytes };
    GdrPlan {
        bandwidth: vec![point(16 << 20), point(64 << 20)],
        latency: vec![point(1024)],
        level: "SYS",
        pairs: 7,
        marks: Marks::standard(1),
    }
}

fn outcome(change: impl FnOnce(&mut Fixed)) -> (GdrOutcome, u32) {
    let paths = Paths::default();
    let mut bench = Fixed {
        nodes: 2,
        has: [Has::Direct(0), Has::Direct(2)],
        us: [[1500.0, 1000.0], [100.0, 40.0]],
        loses_at: None,
        started: 0,
        tell: paths.listener(),
        lines: vec![],
    };
    change(&mut bench);
    let outcome = measure(&mut bench, &plan(), &paths, &mut Silent, &Cancel::new()).unwrap();
    (outcome, bench.started)
}

#[test]
fn both_arms_are_measured_where_both_are_proven() {
    let (GdrOutcome::Measured(result), started) = outcome(|_| {}) else { panic!("not measured") };
    assert_eq!((result.verdict.decision, result.pairs, started), (Decision::Passes, 7, 2 + 14));
    assert!(result.with.iter().all(|rank| rank.network.as_ref().is_some_and(|network| network.gdr_sends == 2)));
    assert!(result.without.iter().all(|rank| rank.network.as_ref().is_some_and(|network| network.gdr_sends == 0)));
    assert_eq!(result.with.len(), 2);
    assert_eq!(result.verdict.rows[0].on_cpu_us, Some(500.0));
    let (GdrOutcome::Measured(slower), _) = outcome(|bench| bench.us = [[900.0, 1000.0], [100.0, 40.0]]) else {
        panic!("not measured")
    };
    assert_eq!(slower.verdict.decision, Decision::Slower);
}

#[test]
fn where_it_has_no_part_nothing_is_compared() {
    for (why, starts, change) in [
        ("one node", 0, (|bench: &mut Fixed| bench.nodes = 1) as fn(&mut Fixed)),
        ("NCCL uses sockets", 1, |bench| bench.has[1] = Has::Sockets),
        ("no connection goes over the network", 1, |bench| bench.has[1] = Has::Nothing),
    ] {
        let (outcome, started) = outcome(change);
        let GdrOutcome::NotApplicable(text) = &outcome else { panic!("{outcome:?}") };
        assert!(text.contains(why) && started == starts, "{text} {started}");
    }
}

#[test]
fn an_arm_that_is_not_as_asked_is_no_arm() {
    for (what, starts, change) in [
        (
            "does not have it on any connection",
            1,
            (|bench: &mut Fixed| bench.has[1] = Has::Direct(0)) as fn(&mut Fixed),
        ),
        ("has it on 4 of 8 connections", 1, |bench| bench.has[1] = Has::Direct(1)),
        ("the only proof", 1, |bench| bench.has[1] = Has::NoLog),
        ("has it all the same", 2, |bench| bench.has[0] = Has::Direct(2)),
        // In the third pair.
        ("does not have it on any connection", 16, |bench| bench.loses_at = Some(6)),
    ] {
        let (outcome, started) = outcome(change);
        let GdrOutcome::Unproven(unproven) = &outcome else { panic!("{outcome:?}") };
        assert!(unproven.what.contains(what) && started == starts, "{} {started}", unproven.what);
        assert_eq!(unproven.ranks.len(), 2);
    }
}

#[test]
fn the_log_of_the_ranks_says_why() {
    let lines = [
        "NCCL version 2.28.9+cuda12.9",
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
    ]
    .map(|message| format!("n1:1:2 [0] NCCL INFO {message}"));
    let (outcome, _) = outcome(|bench| {
        bench.has[1] = Has::Direct(0);
        bench.lines = lines.to_vec();
    });
    let GdrOutcome::Unproven(unproven) = outcome else { panic!("{outcome:?}") };
    let [(what, fix)] = unproven.reasons.as_slice() else { panic!("{:?}", unproven.reasons) };
    assert!(what.contains("no peer memory module") && fix.contains("nvidia_peermem"), "{what} {fix}");
}
