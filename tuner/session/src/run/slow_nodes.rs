//! Names nodes that are slower than the others before anything is searched: every collective would wait for them.

use std::time::Instant;

use gdrtune_fleet::hosts::Host;
use gdrtune_profiles::size::Size;
use gdrtune_tuner::{
    bench::Cancel,
    stats,
    stragglers::{self, LEAST_NODES, Slow, Straggler},
};

use super::RunError;
use crate::{
    cluster::{ClusterBench, PairProbe},
    event::{Event, Level},
    recorder::Recorder,
};

/// Measures pairs of nodes and says what is odd; `numbers` are those of the hosts among all of the run. With fewer than three
/// nodes there is nothing to tell.
pub(super) fn name(
    bench: &mut ClusterBench<'_>,
    hosts: &[Host],
    numbers: &[u32],
    recorder: &Recorder,
    cancel: &Cancel,
) -> Result<(), RunError> {
    if hosts.len() < LEAST_NODES {
        return Ok(());
    }
    let begun = Instant::now();
    let probe = bench.probe_pairs(cancel)?;
    recorder.log(Level::Info, "", summary(&probe, begun.elapsed().as_secs_f64()));
    for straggler in stragglers::find(&probe.pairs) {
        let why = words(&straggler, hosts, &probe);
        recorder.log(Level::Warn, "", why.clone());
        if let (Some(host), Some(&index)) = (hosts.get(straggler.node), numbers.get(straggler.node)) {
            recorder.record(Event::SlowNode { index, host: host.name.clone(), why });
        }
    }
    Ok(())
}

/// `4 pairs of nodes in 0.7 s: 120 us for 1K, 0.45 GB/s for 4M`.
fn summary(probe: &PairProbe, seconds: f64) -> String {
    let PairProbe { pairs, small_bytes, large_bytes, .. } = probe;
    let times =
        |time: fn(&stragglers::Pair) -> Option<f64>| stats::median(&pairs.iter().filter_map(time).collect::<Vec<_>>());
    let count = pairs.len();
    match (times(|pair| pair.small_us), times(|pair| pair.large_us)) {
        (Some(small), Some(large)) => {
            let (rate, small_size, large_size) = (gbs(probe.busbw_gbs(large)), Size(*small_bytes), Size(*large_bytes));
            format!("{count} pairs of nodes in {seconds:.1} s: {small:.0} us for {small_size}, {rate} for {large_size}")
        }
        _ => format!("{count} pairs of nodes in {seconds:.1} s: none could be measured"),
    }
}

/// `node07 is slow: 4.1 GB/s with node06 and node08 where the others have 11.8 GB/s; try -x node07`.
fn words(straggler: &Straggler, hosts: &[Host], probe: &PairProbe) -> String {
    let Straggler { node, slow, partners, own_us, others_us, is_certain } = straggler;
    let name = |node: usize| hosts.get(node).map_or("", |host| host.name.as_str());
    let (node, with) = (name(*node), partners.iter().map(|&node| name(node)).collect::<Vec<_>>().join(" and "));
    let small = Size(probe.small_bytes);
    let text = match slow {
        Slow::Silent => {
            format!("{node} is cut off: nothing comes through between it and {with}, where the others work")
        }
        Slow::Large => {
            let (own, others) = (gbs(probe.busbw_gbs(*own_us)), gbs(probe.busbw_gbs(*others_us)));
            format!("{node} is slow: {own} with {with} where the others have {others}")
        }
        Slow::Small => {
            format!("{node} is slow: {own_us:.0} us for {small} with {with} where the others take {others_us:.0} us")
        }
    };
    if *is_certain {
        format!("{text}; try -x {node}")
    } else {
        format!("{text}; but these are slow themselves, so it may be as good as the others")
    }
}

/// A bandwidth with two digits at least.
fn gbs(gbs: f64) -> String {
    if gbs < 1.0 { format!("{gbs:.3} GB/s") } else { format!("{gbs:.1} GB/s") }
}

#[cfg(test)]
mod tests {
    use gdrtune_tuner::stragglers::Pair;

    use super::*;

    #[test]
    fn a_slow_node_is_named_with_its_partners_and_the_next_step() {
        let hosts: Vec<Host> = (6..9).map(|number| Host::named(format!("node{number:02}"))).collect();
        let pair = Pair { nodes: (0, 1), small_us: Some(20.0), large_us: Some(355.0) };
        let probe = PairProbe { pairs: vec![pair], ranks: 2, small_bytes: 1 << 10, large_bytes: 4 << 20 };
        let straggler = |slow, own_us, others_us| Straggler {
            node: 1,
            slow,
            partners: vec![0, 2],
            own_us,
            others_us,
            is_certain: true,
        };
        let say = |straggler: &Straggler| words(straggler, &hosts, &probe);
        let large = straggler(Slow::Large, 1023.0, 355.0);
        assert_eq!(
            say(&large),
            "node07 is slow: 4.1 GB/s with node06 and node08 where the others have 11.8 GB/s; try -x node07"
        );
        let unsure = say(&Straggler { is_certain: false, ..large });
        assert!(unsure.ends_with("; but these are slow themselves, so it may be as good as the others"), "{unsure}");
        assert_eq!(
            say(&straggler(Slow::Small, 95.0, 21.0)),
            "node07 is slow: 95 us for 1K with node06 and node08 where the others take 21 us; try -x node07"
        );
        let silent = say(&straggler(Slow::Silent, f64::INFINITY, 21.0));
        assert!(silent.starts_with("node07 is cut off: nothing comes through between it and node06"), "{silent}");
        assert_eq!(summary(&probe, 0.74), "1 pairs of nodes in 0.7 s: 20 us for 1K, 11.8 GB/s for 4M");
    }
}
