//! What was measured, and on what: engine, versions, nodes and what they have, what the site sets.

use std::collections::BTreeSet;

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    profile::Baseline,
    size::Size,
    vocab::{Collective, Point},
};

use super::{MAX_TEXT, count, list, memory, shape_words};
use crate::{
    event::{HcaFacts, NodeFacts, goal_words},
    report::{
        block::{Block, Column, Table, Text, shortened},
        seen::{Host, Seen},
    },
    run::engine_words,
};

/// Kinds of nodes, and lines of site settings, that are shown.
const MAX_ROWS: usize = 40;

/// Sizes that are named one by one.
const MAX_SIZES: usize = 12;

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "What was measured on what"), Block::Facts(facts(seen))];
    blocks.extend(nodes(seen));
    blocks.extend(site(seen));
    blocks.extend(ceilings(seen));
    blocks
}

fn facts(seen: &Seen) -> Vec<(&'static str, Text)> {
    let started = &seen.started;
    let profile = seen.profile.as_ref();
    let mut facts: Vec<(&'static str, Text)> = Vec::new();
    facts.push(("Engine", format!("{}: {}", started.engine, engine_words(started.engine).replace("**", "")).into()));
    let place = if started.engine.is_real() { "Hosts" } else { "Source" };
    facts.push((place, Text::code(shortened(&started.hosts, 4 * MAX_TEXT))));
    let shapes = seen.shapes.iter().map(|shape| shape_words(shape.nodes, shape.ranks));
    facts.push(("Job shape", shapes.collect::<Vec<_>>().join("; ").into()));
    let mut known = |name, value: Option<String>| {
        facts.extend(value.filter(|value| !value.is_empty()).map(|value| (name, Text::from(value))));
    };
    known("GPU", profile.and_then(|profile| profile.cluster.gpu.clone()));
    known("Library", seen.engine.as_ref().map(ToString::to_string));
    known("Its file", seen.engine.as_ref().and_then(|engine| engine.library.clone()));
    known("gdrtune", Some(started.tool.clone()));
    // An id begins with the time.
    known("Began", crate::run::began_at(&started.run).and(started.run.get(..20).map(str::to_owned)));
    known("Collectives", Some(collectives(seen)));
    known("Sizes", Some(sizes(seen)));
    known("Elements", seen.invocation.as_ref().and_then(|by| by.data_type).map(|data_type| data_type.to_string()));
    known("What counts", goal_words(&started.workload, &started.objective, started.sm_cost));
    let limits =
        [started.budget_s.map(|s| format!("{s} s")), started.max_trials.map(|n| count(n, "trial") + " of the search")];
    known("Budget", Some(limits.into_iter().flatten().collect::<Vec<_>>().join(", ")));
    let baseline = profile.map(|profile| match profile.run.baseline {
        Baseline::Site => "the site's own environment, in processes of its own",
        Baseline::Stock => "nothing set at all, in processes of its own",
    });
    known("Default arm", baseline.map(str::to_owned));
    known("Fingerprint", profile.map(|profile| profile.cluster.fingerprint.clone()));
    facts
}

fn points(seen: &Seen) -> impl Iterator<Item = Point> {
    seen.shapes.iter().flat_map(|shape| shape.points.keys().copied())
}

fn collectives(seen: &Seen) -> String {
    let names: BTreeSet<Collective> = points(seen).map(|point| point.collective).collect();
    names.iter().map(|name| name.name()).collect::<Vec<_>>().join(", ")
}

fn sizes(seen: &Seen) -> String {
    let sizes: BTreeSet<u64> = points(seen).map(|point| point.bytes).collect();
    let name = |bytes: &u64| Size(*bytes).to_string();
    match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) if MAX_SIZES < sizes.len() => {
            format!("{} from {} to {}", sizes.len(), name(first), name(last))
        }
        _ => sizes.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// Nodes that have the same are one row.
fn nodes(seen: &Seen) -> Vec<Block> {
    let mut kinds: Vec<(&NodeFacts, Vec<&str>)> = Vec::new();
    for host in seen.hosts.values() {
        let Some(facts) = host.facts.as_deref() else { continue };
        match kinds.iter_mut().find(|(known, _)| *known == facts) {
            Some((_, names)) => names.push(&host.name),
            None => kinds.push((facts, vec![&host.name])),
        }
    }
    let mut blocks = Vec::new();
    if !kinds.is_empty() {
        let columns =
            ["nodes", "GPUs", "HCAs", "networks", "CPUs", "memory, at least", "driver", "kernel"].map(Column::Words);
        let rows = kinds.iter().take(MAX_ROWS).map(|(facts, names)| node_row(facts, names));
        let caption =
            format!("Nodes: {} of {}", count(kinds.len() as u64, "kind"), count(seen.hosts.len() as u64, "node"));
        blocks.push(Block::Table(Table::new(caption, &columns, rows.collect())));
    }
    let lost = |host: &Host| Some(Text::code(&host.name).then(format!(": {}", host.lost.as_ref()?)));
    let lost: Vec<Text> = seen.hosts.values().filter_map(lost).collect();
    if !lost.is_empty() {
        blocks.push(Block::paragraph("Hosts that could not be started, or were lost:"));
        blocks.push(list(lost, MAX_ROWS));
    }
    blocks
}

fn node_row(facts: &NodeFacts, names: &[&str]) -> Vec<Text> {
    let gpus = equal(facts.gpus.iter().map(|gpu| (gpu.model.clone(), String::new())));
    let nets = facts.nets.iter().filter(|net| !net.driver.is_empty()).map(|net| {
        let speed = net.speed_mbps.map(|mbps| format!("{} Gbit/s ", f64::from(mbps) / 1e3)).unwrap_or_default();
        (format!("{speed}{}, MTU {}", net.state, net.mtu), net.name.clone())
    });
    let numa = if facts.numa_nodes > 1 { format!(", {} NUMA nodes", facts.numa_nodes) } else { String::new() };
    vec![
        Text::code(shortened(&fold(names), 4 * MAX_TEXT)),
        gpus.into(),
        equal(facts.hcas.iter().flat_map(ports)).into(),
        equal(nets).into(),
        format!("{} x {}{numa}", facts.cpus, facts.cpu_model).into(),
        if facts.memory_bytes == 0 { String::new() } else { memory(facts.memory_bytes) }.into(),
        facts.driver.clone().into(),
        facts.kernel.clone().into(),
    ]
}

fn ports(hca: &HcaFacts) -> impl Iterator<Item = (String, String)> {
    hca.ports.iter().map(|port| {
        let name = if hca.ports.len() > 1 { format!("{}:{}", hca.name, port.port) } else { hca.name.clone() };
        (format!("{} {} {}", port.rate, port.link_layer, port.state), name)
    })
}

/// `8 x 400 Gb/sec (4X NDR) InfiniBand ACTIVE (mlx5_[0-7])`: what is equal is one item, with the names of those.
fn equal(devices: impl Iterator<Item = (String, String)>) -> String {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for (kind, name) in devices {
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, names)) => names.push(name),
            None => kinds.push((kind, vec![name])),
        }
    }
    let item = |(kind, names): &(String, Vec<String>)| {
        let named = if names.iter().all(String::is_empty) { String::new() } else { format!(" ({})", fold(names)) };
        if names.len() == 1 { format!("{kind}{named}") } else { format!("{} x {kind}{named}", names.len()) }
    };
    shortened(&kinds.iter().map(item).collect::<Vec<_>>().join("; "), 2 * MAX_TEXT)
}

/// What jobs find set on the nodes.
fn site(seen: &Seen) -> Option<Block> {
    let shape = seen.shapes.iter().find(|shape| !shape.site.is_empty())?;
    let lines = shape.site.iter().flat_map(|(hosts, environment)| environment.iter().map(move |set| (hosts, set)));
    let row = |(hosts, (name, value)): (&String, (&str, &str))| {
        vec![Text::code(name), Text::code(shortened(value, MAX_TEXT)), Text::code(shortened(hosts, MAX_TEXT))]
    };
    let rows: Vec<Vec<Text>> = lines.take(MAX_ROWS).map(row).collect();
    if rows.is_empty() {
        return Some(Block::paragraph("The site sets no variable for collectives on these nodes."));
    }
    let columns = ["variable", "value", "nodes"].map(Column::Words);
    Some(Block::Table(Table::new("What the site sets, which both arms keep", &columns, rows)))
}

fn ceilings(seen: &Seen) -> Option<Block> {
    let judged = seen.ceilings.judge();
    let n_links = seen.ceilings.links.len() as u64;
    if n_links == 0 {
        return None;
    }
    let slow = match judged.len() as u64 {
        0 => "no port is slower than the others".to_owned(),
        n => format!("{} slower than the others, or failed", count(n, "port")),
    };
    Some(Block::paragraph(format!("A probe had measured {} between the nodes' HCAs: {slow}.", count(n_links, "way"))))
}
