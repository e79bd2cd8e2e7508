//! A survey as tables for people. Where it is shown on a terminal, tables that are wider go on below, with the first column again.

use std::fmt::Write;

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    bindings::{Bindings, Candidate},
    topology::{GpuPath, Hca, Machine},
    vocab::PcieDistance,
};
use gdrtune_session::topology::{Difference, Group, Nearest, Rail, Survey, bindings::finding_lines};

use super::super::printable;
use crate::ui::text;

/// Differences of one group of nodes that are shown; the others are counted. A GPU that is elsewhere has one for each HCA.
const SHOWN_DIFFERENCES: usize = 12;

/// Everything, ending with a line break.
pub(super) fn text(survey: &Survey, bindings: Option<&Bindings>, columns: Option<usize>) -> String {
    let mut lines = Vec::new();
    for group in &survey.groups {
        group_lines(group, columns, &mut lines);
        lines.push(String::new());
    }
    differences(&survey.differences, &mut lines);
    let nodes: usize = survey.groups.iter().map(|group| group.hosts.len()).sum();
    if nodes > 1 && !survey.rails.is_empty() {
        rails(&survey.rails, nodes, columns, &mut lines);
        lines.extend(survey.notes.iter().map(|note| format!("  warning: {note}")));
        lines.push(String::new());
    }
    if let Some(bindings) = bindings {
        bindings_lines(bindings, &mut lines);
    }
    lines.pop();
    lines.iter().fold(String::new(), |mut text, line| {
        // Writing to a string cannot fail. Names of hosts, devices and files are others' words.
        writeln!(text, "{}", printable(line.trim_end())).ok();
        text
    })
}

fn group_lines(group: &Group, columns: Option<usize>, lines: &mut Vec<String>) {
    let machine = &group.machine;
    let alike = if group.hosts.len() == 1 { String::new() } else { format!(" ({} nodes alike)", group.hosts.len()) };
    lines.push(format!("{}{alike}", fold(&group.hosts)));
    let numa =
        machine.numa_nodes.map_or(String::new(), |nodes| format!(", {}", text::count(u64::from(nodes), "NUMA node")));
    let gpus = text::count(machine.gpus.len() as u64, "GPU");
    lines.push(format!("  {gpus}, {}{numa}", text::count(machine.hcas.len() as u64, "HCA")));
    if !machine.gpus.is_empty() {
        lines.push(String::new());
        table(&gpu_rows(group), columns, lines);
    }
    if !machine.hcas.is_empty() {
        lines.push(String::new());
        table(&hca_rows(machine), columns, lines);
    }
    gpu_paths(machine, columns, lines);
    if !group.warnings.is_empty() || !machine.notes.is_empty() {
        lines.push(String::new());
    }
    lines.extend(group.warnings.iter().map(|warning| format!("  warning: {warning}")));
    lines.extend(machine.notes.iter().map(|note| format!("  note: {note}")));
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn numa(numa: Option<u32>) -> String {
    numa.map_or("?".to_owned(), |node| node.to_string())
}

fn gpu_rows(group: &Group) -> Vec<Vec<String>> {
    let machine = &group.machine;
    let mut rows = vec![words(["GPU", "NUMA", "PCIe link", "address", "nearest HCA", "model"])];
    for (number, (gpu, nearest)) in machine.gpus.iter().zip(&group.nearest).enumerate() {
        rows.push(vec![
            format!("GPU{number}"),
            numa(gpu.numa),
            gpu.link.to_string(),
            or_unknown(&gpu.address),
            near(nearest.as_ref(), machine),
            or_unknown(&gpu.model),
        ]);
    }
    rows
}

/// `PIX mlx5_[0-1]`.
fn near(nearest: Option<&Nearest>, machine: &Machine) -> String {
    let Some(nearest) = nearest else { return if machine.hcas.is_empty() { "none" } else { "?" }.to_owned() };
    let names: Vec<&str> =
        nearest.hcas.iter().filter_map(|at| machine.hcas.get(*at)).map(|hca| hca.name.as_str()).collect();
    format!("{} {}", nearest.distance.nccl_name(), fold(&names))
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "?".to_owned() } else { text.to_owned() }
}

/// The matrix, HCA by HCA: of those there can be thirty, of GPUs eight.
fn hca_rows(machine: &Machine) -> Vec<Vec<String>> {
    let gpus = (0..machine.gpus.len()).map(|gpu| format!("GPU{gpu}"));
    let header = words(["HCA", "NUMA"]).into_iter().chain(gpus).chain(words(["PCIe link", "address", "port"]));
    let mut rows = vec![header.collect::<Vec<_>>()];
    for (at, hca) in machine.hcas.iter().enumerate() {
        let mut row = vec![hca.name.clone(), numa(hca.numa)];
        let distance =
            |row: &Vec<Option<PcieDistance>>| row.get(at).copied().flatten().map_or("?", PcieDistance::nccl_name);
        row.extend(machine.to_hcas.iter().map(|row| distance(row).to_owned()));
        row.extend([hca.link.to_string(), or_unknown(&hca.address), ports(hca)]);
        rows.push(row);
    }
    rows
}

/// `1 ACTIVE InfiniBand 400 Gb/s`.
fn ports(hca: &Hca) -> String {
    let port = |port: &gdrtune_profiles::topology::Port| {
        let said = [port.number.to_string(), port.state.clone(), port.link_layer.clone(), port.rate.clone()];
        said.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    if hca.ports.is_empty() { "?".to_owned() } else { hca.ports.iter().map(port).collect::<Vec<_>>().join(", ") }
}

/// The ways between GPUs: one line where all are the same.
fn gpu_paths(machine: &Machine, columns: Option<usize>, lines: &mut Vec<String>) {
    let all: Vec<GpuPath> = machine.gpu_paths.iter().flatten().flatten().copied().collect();
    let Some(first) = all.first() else { return };
    lines.push(String::new());
    let gpus = machine.gpus.len();
    if all.len() == gpus * gpus.saturating_sub(1) && all.iter().all(|path| path == first) {
        lines.push(format!("  GPU to GPU: {first} between all"));
        return;
    }
    let name = |gpu: usize| format!("GPU{gpu}");
    let mut rows = vec![std::iter::once("GPU to GPU".to_owned()).chain((0..gpus).map(name)).collect::<Vec<_>>()];
    for (gpu, paths) in machine.gpu_paths.iter().enumerate() {
        let word = |(other, path): (usize, &Option<GpuPath>)| {
            let itself = if gpu == other { "-" } else { "?" };
            path.map_or(itself.to_owned(), |path| path.to_string())
        };
        rows.push(std::iter::once(name(gpu)).chain(paths.iter().enumerate().map(word)).collect());
    }
    table(&rows, columns, lines);
}

fn differences(all: &[Difference], lines: &mut Vec<String>) {
    if all.is_empty() {
        return;
    }
    lines.push("Differences".to_owned());
    for of_group in all.chunk_by(|a, b| a.hosts == b.hosts) {
        let hosts = fold(&of_group[0].hosts);
        for Difference { what, own, most, .. } in of_group.iter().take(SHOWN_DIFFERENCES) {
            lines.push(format!("  {hosts}: {what}: {own}, most have {most}"));
        }
        let more = of_group.len().saturating_sub(SHOWN_DIFFERENCES);
        if more > 0 {
            lines.push(format!("  {hosts}: and {more} more"));
        }
    }
    lines.push(String::new());
}

fn rails(rails: &[Rail], nodes: usize, columns: Option<usize>, lines: &mut Vec<String>) {
    lines.push(format!("Rails over {nodes} nodes"));
    let mut rows = vec![words(["HCA", "nodes", "rate", "near", ""])];
    for rail in rails {
        let gpus: Vec<String> = rail.gpus.iter().map(|gpu| format!("GPU{gpu}")).collect();
        let near = if gpus.is_empty() { "-".to_owned() } else { fold(&gpus) };
        let lacks = |what: &str, hosts: &[String]| {
            if hosts.is_empty() { None } else { Some(format!("{what} {}", fold(hosts))) }
        };
        let uneven = (rail.rates.len() > 1).then(|| "rates differ".to_owned());
        let problems: Vec<String> =
            [lacks("down on", &rail.down), lacks("missing on", &rail.missing), uneven].into_iter().flatten().collect();
        let problems = if problems.is_empty() { String::new() } else { format!("warning: {}", problems.join(", ")) };
        let rates = if rail.rates.is_empty() { "?".to_owned() } else { rail.rates.join(" / ") };
        rows.push(vec![rail.name.clone(), rail.hosts.len().to_string(), rates, near, problems]);
    }
    table(&rows, columns, lines);
}

/// What jobs can be bound to: by variable, its candidates, and what is in none of them or odd.
fn bindings_lines(bindings: &Bindings, lines: &mut Vec<String>) {
    for offer in &bindings.offers {
        lines.push(format!("Candidates for {}", offer.variable));
        if offer.values().is_empty() {
            lines.push(format!("  none: {}", offer.why_none));
        }
        for Candidate { value, why, alike, is_default } in &offer.candidates {
            let unset = if *is_default { " (the same as unset)" } else { "" };
            let alike =
                if alike.is_empty() { String::new() } else { format!(" (here the same as {})", alike.join(", ")) };
            lines.push(format!("  {value}{alike}{unset}"));
            lines.push(format!("    {why}"));
        }
        lines.extend(finding_lines(bindings, offer.variable).into_iter().map(|line| format!("  - {line}")));
        lines.push(String::new());
    }
}

/// Rows of columns that are as wide as what is in them. Where they are wider than `columns`, those that have no room follow below, each part
/// with the first column before it.
pub(in crate::command) fn table(rows: &[Vec<String>], columns: Option<usize>, lines: &mut Vec<String>) {
    const GAP: usize = 2;
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| text::width(cell)).max();
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or_default()).collect();
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (column, width) in widths.iter().enumerate() {
        used += GAP + width;
        match parts.last_mut() {
            Some(part) if columns.is_none_or(|columns| used <= columns) || part.len() < 2 => part.push(column),
            None => parts.push(vec![column]),
            Some(_) => {
                parts.push(vec![0, column]);
                used = 2 * GAP + widths[0] + width;
            }
        }
    }
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            lines.push(String::new());
        }
        for row in rows {
            let cells = part.iter().filter_map(|column| {
                let (cell, width) = (row.get(*column)?, widths[*column]);
                let blanks = width.saturating_sub(text::width(cell));
                Some(format!("{:GAP$}{cell}{}", "", " ".repeat(blanks)))
            });
            lines.push(cells.collect::<String>());
        }
    }
}
