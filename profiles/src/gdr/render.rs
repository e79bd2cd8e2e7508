//! A report as text and as one JSON document.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::{Value, json};

use super::{Communicator, End, Evidence, Problem, Rank, Reason, Report, Use};
use crate::{diagnostic::printable, grammar::nccl_log::CommunicatorName};

/// Hosts that are named of a group of ranks; the others are counted.
const SHOWN_HOSTS: usize = 4;

/// What makes connections of several ranks alike: all but the device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    end: End,
    /// `NET/IB`, or `P2P/CUMEM`.
    transport: String,
    is_gdr: bool,
    is_proxied: bool,
    reasons: Vec<usize>,
    channels: BTreeSet<u16>,
}

/// Ranks whose connections are alike.
struct Alike<'r> {
    ranks: Vec<&'r Rank>,
    kinds: BTreeMap<Kind, BTreeSet<u32>>,
}

/// A report for people, ending with a line break.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        // Writing to a string cannot fail. Hosts, files and messages are others' words.
        writeln!(text, "{}", printable(line.trim_end())).ok();
    };
    line(&headline(report));
    for communicator in &report.communicators {
        line("");
        line(&title(communicator));
        for alike in alike(&communicator.ranks) {
            line(&format!("  {}", ranks_words(&alike.ranks)));
            kind_lines(&alike, &mut line);
        }
    }
    if !report.reasons.is_empty() {
        line("");
        line("Why not:");
        for (at, reason) in (1..).zip(&report.reasons) {
            reason_lines(at, reason, &mut line);
        }
    }
    for Problem { id, what, fix, evidence, processes } in &report.problems {
        line("");
        line(&format!("warning: {what} ({}) [{id}]", count(*processes, "process", "processes")));
        line(&format!("      {}", evidence_words(evidence)));
        line(&format!("      fix: {fix}"));
    }
    if !report.notes.is_empty() {
        line("");
        for note in &report.notes {
            line(&format!("note: {note}"));
        }
    }
    text
}

fn headline(report: &Report) -> String {
    let versions: Vec<String> = report.versions.iter().map(|version| format!("NCCL {version}")).collect();
    let versions = if versions.is_empty() { "NCCL of unknown version".to_owned() } else { versions.join(", ") };
    let (all, direct) = report.connections();
    let hosts = count(report.hosts.len() as u64, "host", "hosts");
    let said = match (all, direct) {
        _ if !report.tells_connections() => {
            "no line of a connection is in the log, so who uses GPU Direct RDMA is not known".to_owned()
        }
        (0, _) => "no connection goes over the network, so GPU Direct RDMA has no part in it".to_owned(),
        (all, direct) if all == direct => {
            format!("all {} over the network use GPU Direct RDMA", count(all, "connection", "connections"))
        }
        (all, 0) => {
            format!("none of {} over the network uses GPU Direct RDMA", count(all, "connection", "connections"))
        }
        (all, direct) => format!("{direct} of {all} connections over the network use GPU Direct RDMA"),
    };
    format!("{versions}, {hosts}: {said}")
}

fn title(communicator: &Communicator) -> String {
    let here = communicator.ranks.len();
    match communicator.size {
        Some(size) if here < size as usize => format!("{}: {here} of {size} ranks", communicator.label()),
        _ => format!("{}: {}", communicator.label(), count(here as u64, "rank", "ranks")),
    }
}

/// Groups ranks, in the order of their first.
fn alike(ranks: &[Rank]) -> Vec<Alike<'_>> {
    let mut groups: Vec<Alike<'_>> = Vec::new();
    let mut places: BTreeMap<Vec<Kind>, usize> = BTreeMap::new();
    for rank in ranks {
        let kinds = kinds(&rank.uses);
        let at = *places.entry(kinds.keys().cloned().collect()).or_insert_with(|| {
            groups.push(Alike { ranks: Vec::new(), kinds: BTreeMap::new() });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(at) {
            group.ranks.push(rank);
            for (kind, devices) in kinds {
                group.kinds.entry(kind).or_default().extend(devices);
            }
        }
    }
    groups
}

/// A rank's connections, by kind, with their devices.
fn kinds(uses: &[Use]) -> BTreeMap<Kind, BTreeSet<u32>> {
    let mut found: BTreeMap<Kind, (BTreeSet<u16>, BTreeSet<u32>)> = BTreeMap::new();
    for one in uses {
        let (transport, device) = match one.path.rsplit_once('/') {
            Some((transport, device)) if one.end != End::Local => (transport, device.parse::<u32>().ok()),
            _ => (one.path.as_str(), None),
        };
        let kind = Kind {
            end: one.end,
            transport: transport.to_owned(),
            is_gdr: one.is_gdr,
            is_proxied: one.proxy.is_some(),
            reasons: one.reasons.clone(),
            channels: BTreeSet::new(),
        };
        let (channels, devices) = found.entry(kind).or_default();
        channels.extend(&one.channels);
        devices.extend(device);
    }
    found.into_iter().map(|(kind, (channels, devices))| (Kind { channels, ..kind }, devices)).collect()
}

fn kind_lines(alike: &Alike<'_>, line: &mut impl FnMut(&str)) {
    if alike.kinds.is_empty() {
        line("    no connection is in the log");
    }
    for (kind, devices) in &alike.kinds {
        let Kind { end, transport, is_gdr, is_proxied, reasons, channels } = kind;
        let (end, direct) = match (end, is_gdr) {
            (End::Sends, true) => ("sends", "GDR"),
            (End::Sends, false) => ("sends", "no GDR"),
            (End::Receives, true) => ("receives", "GDR"),
            (End::Receives, false) => ("receives", "no GDR"),
            (End::Local, _) => ("local", "-"),
        };
        let path = if devices.is_empty() { transport.clone() } else { format!("{transport}/{}", ranges(devices)) };
        let path = if *is_proxied { format!("{path} through another GPU (PXN)") } else { path };
        let channels = if channels.is_empty() { String::new() } else { format!("channels {}", ranges(channels)) };
        let why = reasons.iter().fold(String::new(), |why, at| format!("{why} [{}]", at + 1));
        line(&format!("    {end:<9} {direct:<7} {path:<24} {channels}{why}"));
    }
    let nvls = alike.ranks.iter().filter_map(|rank| rank.nvls).collect::<BTreeSet<_>>();
    if let (Some(is_there), 1) = (nvls.first(), nvls.len()) {
        line(&format!("    NVLink SHARP (NVLS): {}", if *is_there { "available" } else { "not available" }));
    }
}

fn ranks_words(ranks: &[&Rank]) -> String {
    let numbers: BTreeSet<u32> = ranks.iter().filter_map(|rank| rank.rank).collect();
    let mut hosts: Vec<&str> = Vec::new();
    for rank in ranks {
        if !hosts.contains(&rank.host.as_str()) && hosts.len() <= SHOWN_HOSTS {
            hosts.push(&rank.host);
        }
    }
    let more = if hosts.len() > SHOWN_HOSTS { ", ..." } else { "" };
    hosts.truncate(SHOWN_HOSTS);
    let gpu = if let [rank] = ranks { format!(", GPU {}", rank.gpu) } else { String::new() };
    let which = match numbers.len() {
        0 => count(ranks.len() as u64, "rank", "ranks"),
        1 => format!("rank {}", ranges(&numbers)),
        _ => format!("ranks {}", ranges(&numbers)),
    };
    format!("{which} on {}{more}{gpu}", hosts.join(", "))
}

fn reason_lines(at: usize, reason: &Reason, line: &mut impl FnMut(&str)) {
    let Reason { id, what, fix, evidence, ranks, connections } = reason;
    let (connections, ranks) = (count(*connections, "connection", "connections"), count(*ranks, "rank", "ranks"));
    line(&format!("  [{at}] {connections} of {ranks}: {what} [{id}]"));
    for evidence in evidence {
        line(&format!("      {}", evidence_words(evidence)));
    }
    line(&format!("      fix: {fix}"));
}

fn evidence_words(Evidence { file, line, text }: &Evidence) -> String {
    format!("{file}:{line}: {text}")
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `0-3,7`.
fn ranges<N: Copy + Into<u64>>(numbers: &BTreeSet<N>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers.iter().map(|number| (*number).into()) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let word = |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(word).collect::<Vec<_>>().join(",")
}

/// A report for programs. Ends are `sends`, `receives` and `local`; reasons are indexes into the list of them.
pub fn json(report: &Report) -> Value {
    let (connections, direct) = report.connections();
    let reason = |reason: &Reason| {
        let Reason { id, what, fix, evidence, ranks, connections } = reason;
        let evidence: Vec<Value> = evidence.iter().map(evidence_value).collect();
        json!({"id": id, "what": what, "fix": fix, "evidence": evidence, "ranks": ranks, "connections": connections})
    };
    let problem = |Problem { id, what, fix, evidence, processes }: &Problem| json!({"id": id, "what": what, "fix": fix, "evidence": evidence_value(evidence), "processes": processes});
    json!({
        "schema_version": 1,
        "nccl": report.versions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "hosts": report.hosts,
        "lines": report.lines,
        "damaged": report.damaged,
        "connections": connections,
        "gdr_connections": direct,
        "communicators": report.communicators.iter().map(communicator_value).collect::<Vec<_>>(),
        "reasons": report.reasons.iter().map(reason).collect::<Vec<_>>(),
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

fn communicator_value(communicator: &Communicator) -> Value {
    let name = match communicator.name {
        Some(CommunicatorName::Id(id)) => json!({"id": format!("{id:#x}")}),
        Some(CommunicatorName::Part { number, color }) => json!({"part": number, "color": color}),
        None => Value::Null,
    };
    let ranks: Vec<Value> = communicator.ranks.iter().map(rank_value).collect();
    json!({"name": name, "size": communicator.size, "ranks": ranks})
}

fn rank_value(rank: &Rank) -> Value {
    let of_use = |one: &Use| {
        let end = match one.end {
            End::Sends => "sends",
            End::Receives => "receives",
            End::Local => "local",
        };
        json!({
            "end": end,
            "path": one.path,
            "gdr": one.is_gdr,
            "proxy": one.proxy,
            "channels": one.channels,
            "connections": one.connections,
            "evidence": evidence_value(&one.evidence),
            "reasons": one.reasons,
        })
    };
    let uses: Vec<Value> = rank.uses.iter().map(of_use).collect();
    json!({"rank": rank.rank, "host": rank.host, "gpu": rank.gpu, "nvls": rank.nvls, "uses": uses})
}

fn evidence_value(Evidence { file, line, text }: &Evidence) -> Value {
    json!({"file": &**file, "line": line, "text": text})
}
