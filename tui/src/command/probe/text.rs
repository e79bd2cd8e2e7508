//! A probe as tables for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::bindings::{
    Evidence, PortId,
    ceilings::{Judgement, Memory, Outcome, USUAL_SHARE},
};
use gdrtune_session::probe::{Probe, ProbedLink};
use gdrtune_tuner::stats;

use super::{
    super::{printable, topo::text::table},
    Findings,
};
use crate::ui::text::count;

/// Ways that are all shown; of more, only the slow and failed ones.
const SHOWN_WAYS: usize = 64;

/// Everything, ending with a line break.
pub(super) fn text(findings: &Findings<'_>, columns: Option<usize>) -> String {
    let probe = findings.probe;
    let mut lines =
        vec![format!("Ports over {}, GB/s of large writes and us of small ones", count(findings.hosts as u64, "host"))];
    ports(probe, columns, &mut lines);
    if !findings.odd.is_empty() {
        lines.push(String::new());
        lines.push("Slow or useless".to_owned());
        lines.extend(findings.odd.iter().map(|(port, judgement)| odd_port(port, judgement, probe)));
    }
    lines.push(String::new());
    let odd: BTreeSet<usize> = odd_ways(probe).collect();
    let is_long = probe.links.len() > SHOWN_WAYS;
    let shown = (0..probe.links.len()).filter(|at| !is_long || odd.contains(at));
    let mut rows = vec![["from", "to", "HCA", "port", "memory", "GB/s", "us", ""].map(str::to_owned).to_vec()];
    rows.extend(shown.filter_map(|at| Some(way(probe.links.get(at)?, odd.contains(&at)))));
    lines.push(if is_long {
        format!("Ways: {} of {} are slow or failed", odd.len(), probe.links.len())
    } else {
        "Ways".to_owned()
    });
    if rows.len() > 1 {
        table(&rows, columns, &mut lines);
    }
    lines.iter().fold(String::new(), |mut text, line| {
        // Writing to a string cannot fail. Names of hosts and devices are others' words.
        writeln!(text, "{}", printable(line.trim_end())).ok();
        text
    })
}

/// What a way has in common with others: its port and memory.
type Kind = (PortId, Option<u32>);

fn kind(link: &ProbedLink) -> Kind {
    let ceiling = &link.ceiling;
    let gpu = match ceiling.memory {
        Memory::Host => None,
        Memory::Gpu(gpu) => Some(gpu),
    };
    (PortId { hca: ceiling.hca.clone(), port: Some(ceiling.port) }, gpu)
}

fn measured(link: &ProbedLink) -> Option<(f64, Option<f64>)> {
    match link.ceiling.outcome {
        Outcome::Measured { gbs, us } => Some((gbs, us)),
        Outcome::Failed { .. } => None,
    }
}

/// Positions of ways that failed, or are slower than the others over the same port by more than repeated medians differ.
pub(super) fn odd_ways(probe: &Probe) -> impl Iterator<Item = usize> {
    let mut rates: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
    for link in &probe.links {
        rates.entry(kind(link)).or_default().extend(measured(link).map(|(gbs, _)| gbs));
    }
    let usual: BTreeMap<Kind, Option<f64>> =
        rates.into_iter().map(|(kind, rates)| (kind, stats::median(&rates))).collect();
    probe.links.iter().enumerate().filter_map(move |(at, link)| {
        let usual = usual.get(&kind(link)).copied().flatten();
        let is_fine = measured(link).is_some_and(|(gbs, _)| usual.is_none_or(|usual| USUAL_SHARE * usual <= gbs));
        (!is_fine).then_some(at)
    })
}

fn memory_name(gpu: Option<u32>) -> String {
    gpu.map_or("host".to_owned(), |gpu| format!("GPU{gpu}"))
}

/// Three digits that count, and no power of ten.
fn number(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else if value >= 1.0 {
        2
    } else {
        4
    };
    format!("{value:.decimals$}")
}

fn ports(probe: &Probe, columns: Option<usize>, lines: &mut Vec<String>) {
    let mut rows =
        vec![["HCA", "port", "memory", "ways", "median GB/s", "worst", "", "median us"].map(str::to_owned).to_vec()];
    let mut kinds: BTreeMap<Kind, Vec<&ProbedLink>> = BTreeMap::new();
    for link in &probe.links {
        kinds.entry(kind(link)).or_default().push(link);
    }
    for ((port, gpu), links) in kinds {
        let rates: Vec<f64> = links.iter().filter_map(|link| Some(measured(link)?.0)).collect();
        let times: Vec<f64> = links.iter().filter_map(|link| measured(link)?.1).collect();
        let worst = links.iter().filter_map(|link| Some((measured(link)?.0, *link)));
        let worst = worst.min_by(|a, b| a.0.total_cmp(&b.0));
        let median = |values: &[f64]| stats::median(values).map_or("-".to_owned(), number);
        rows.push(vec![
            port.hca.clone(),
            port.port.map_or("?".to_owned(), |port| port.to_string()),
            memory_name(gpu),
            links.len().to_string(),
            median(&rates),
            worst.map_or("-".to_owned(), |(gbs, _)| number(gbs)),
            worst.map_or(String::new(), |(_, link)| format!("{} > {}", link.ceiling.node, link.ceiling.peer)),
            median(&times),
        ]);
    }
    table(&rows, columns, lines);
}

fn odd_port(port: &PortId, judgement: &Judgement, probe: &Probe) -> String {
    let (word, Evidence { hosts, text }) = match judgement {
        Judgement::Useless(evidence) => ("useless", evidence),
        Judgement::Slow(evidence) => ("slow", evidence),
    };
    let all: BTreeSet<&str> = probe.links.iter().map(|link| link.ceiling.node.as_str()).collect();
    let on = if hosts.is_empty() || hosts.len() == all.len() { "all hosts".to_owned() } else { fold(hosts) };
    format!("  {word}: {port} on {on}: {text}")
}

fn way(link: &ProbedLink, is_odd: bool) -> Vec<String> {
    let ceiling = &link.ceiling;
    let (gbs, us, note) = match &ceiling.outcome {
        Outcome::Measured { gbs, us } => {
            let note = if is_odd { "slow" } else { "" };
            (number(*gbs), us.map_or("-".to_owned(), number), note.to_owned())
        }
        Outcome::Failed { failure, why } => ("-".to_owned(), "-".to_owned(), format!("failed: {failure}: {why}")),
    };
    let (port, gpu) = kind(link);
    vec![
        ceiling.node.clone(),
        ceiling.peer.clone(),
        port.hca,
        ceiling.port.to_string(),
        memory_name(gpu),
        gbs,
        us,
        note,
    ]
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::bindings::ceilings::{Ceiling, Failure};

    use super::*;

    fn link(node: &str, hca: &str, peer: &str, outcome: Outcome) -> ProbedLink {
        let [node, hca, peer] = [node, hca, peer].map(str::to_owned);
        ProbedLink { ceiling: Ceiling { node, hca, port: 1, peer, memory: Memory::Host, outcome }, rates: Vec::new() }
    }

    fn rate(gbs: f64) -> Outcome {
        Outcome::Measured { gbs, us: Some(1.25) }
    }

    /// A slow rail, a slow way of the good one, and a failure.
    fn probe() -> Probe {
        let failed = Outcome::Failed { failure: Failure::Transfer, why: "IBV_WC_RETRY_EXC_ERR".to_owned() };
        let mut links = vec![link("n2", "mlx5_1", "n1", failed), link("n1", "mlx5_0", "n3", rate(30.0))];
        for (node, peer) in [("n1", "n2"), ("n2", "n1"), ("n3", "n1"), ("n2", "n3"), ("n3", "n2")] {
            links.push(link(node, "mlx5_0", peer, rate(48.9)));
            links.push(link(node, "mlx5_2", peer, rate(5.2)));
        }
        Probe { links, lost: Vec::new() }
    }

    #[test]
    fn slow_and_failed_ones_are_named() {
        let probe = probe();
        let odd = probe.ceilings().judge().into_iter().collect();
        let findings = Findings { probe: &probe, odd, hosts: 3 };
        insta::assert_snapshot!(text(&findings, None));
        assert_eq!(odd_ways(&probe).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(super::super::exit(&findings), crate::exit::Exit::Findings);
    }

    #[test]
    fn nothing_odd_is_nothing_found() {
        let links = vec![link("a", "x", "b", rate(0.04)), link("b", "x", "a", rate(0.0401))];
        let mut probe = Probe { links, lost: Vec::new() };
        let exit = |probe: &Probe| super::super::exit(&Findings { probe, odd: Vec::new(), hosts: 2 });
        assert_eq!(exit(&probe), crate::exit::Exit::Done);
        probe.lost.push(("a".to_owned(), "gone".to_owned()));
        assert_eq!(exit(&probe), crate::exit::Exit::NodesLost);
    }

    #[test]
    fn of_many_ways_only_the_odd_ones_are_shown() {
        let mut probe = probe();
        probe.links.extend((0..100).map(|at| link(&format!("m{at}"), "mlx5_0", "n1", rate(48.0))));
        let shown = text(&Findings { probe: &probe, odd: Vec::new(), hosts: 103 }, None);
        assert!(shown.contains("Ways: 2 of 112 are slow or failed"), "{shown}");
        assert!(!shown.contains("m7"), "{shown}");
    }
}
