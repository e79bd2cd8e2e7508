//! What jobs find set: NCCL's variables in the environment and in nccl.conf, by the rules of `gdrtune lint` and by what the node has.

use std::collections::BTreeSet;

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    grammar::hca::HcaList,
    lint::{self, Input, Kind, Options, Severity},
    version::Version,
};
use gdrtune_wire::HcaPort;

use super::{super::facts::port_name, Check, Facts, Fault, Node, Outcome, Outcomes, Scope, about_all, no_hca};
use crate::homogeneity;

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "env-debugging",
            "no setting is left over from debugging",
            "Variables that NCCL's manual wants for debugging only, in the environment and in nccl.conf. A later release may choose better by itself.",
            "unset it, or measure what it gains: `gdrtune tune`",
            "NCCL docs/userguide/source/env.rst, Debugging; gdrtune lint, debugging-variable",
        ],
        |node| by_rules(node, DEBUGGING, None),
    ),
    Check::node(
        [
            "env-ll128",
            "LL128 is not forced",
            "NCCL_PROTO that names LL128, or inverts LL: NCCL then skips its test of whether links keep 128-byte stores whole, and results are silently wrong where they do not.",
            "unset NCCL_PROTO, or write ^LL128",
            "NCCL src/graph/tuning.cc; NVIDIA/nccl issues 740, 831, 1261",
        ],
        |node| by_rules(node, LL128, Some(Fault::fail)),
    ),
    Check::node(
        [
            "env-hca-prefix",
            "NCCL_IB_HCA has exact names",
            "Names without `=` are prefixes: mlx5_1 also means mlx5_10 to mlx5_19, of those that this node has.",
            "write NCCL_IB_HCA with `=` (or `^=`) in front of the list",
            "NCCL src/misc/utils.cc; NVIDIA/nccl issue 236",
        ],
        hca_prefix,
    ),
    Check::node(
        [
            "env-hca-list",
            "NCCL_IB_HCA names ports that are active here",
            "The list against the node's ports. A list that NCCL reads otherwise, or that names nothing active, leaves it with sockets.",
            "name HCAs that ibstat shows as Active, such as NCCL_IB_HCA==mlx5_0,mlx5_1",
            "NCCL src/transport/net_ib/init.cc",
        ],
        hca_list,
    ),
    Check::node(
        [
            "env-transport-off",
            "no transport is switched off",
            "NCCL_IB_DISABLE, NCCL_P2P_DISABLE and their like: left over from looking for an error, they cost most of the bandwidth.",
            "unset it",
            "NCCL docs/userguide/source/env.rst; gdrtune lint, transport-disabled",
        ],
        |node| by_rules(node, TRANSPORT, None),
    ),
    Check::node(
        [
            "env-gdr-level",
            "the level of GPUDirect RDMA is left to NCCL",
            "NCCL_NET_GDR_LEVEL at an extreme, or as a digit.",
            "unset NCCL_NET_GDR_LEVEL, and measure if you need another",
            "NVIDIA/nccl issues 1151, 1188; gdrtune lint, gdr-level-extreme and level-digit",
        ],
        |node| by_rules(node, GDR_LEVEL, None),
    ),
    Check::node(
        [
            "env-file",
            "files that settings name can be read",
            "NCCL_TOPO_FILE, NCCL_GRAPH_FILE, NCCL_TUNER_CONFIG_FILE and NCCL_CONF_FILE. NCCL warns at best and goes on without; a tuner file that is not there leaves one channel for every call.",
            "put the file on every node, readable for all, or unset the variable",
            "NCCL src/graph/xml.cc; plugins/tuner/example/plugin.c",
        ],
        files,
    ),
    Check::node(
        [
            "env-other",
            "no other setting is a trap",
            "What `gdrtune lint` warns of in the environment and in nccl.conf, beside what other checks name.",
            "`gdrtune lint --rules` explains each rule",
            "gdrtune lint",
        ],
        others,
    ),
    Check::all(
        Scope::Cluster,
        [
            "env-alike",
            "all nodes have the same settings",
            "NCCL's variables, from the environment or nccl.conf. Each rank acts on its own; where they decide differently, NCCL hangs.",
            "set it the same everywhere: one /etc/nccl.conf for all nodes, or pass it to every rank (mpirun -x, srun --export)",
            "NVIDIA/nccl issues 260, 1008",
        ],
        settings_alike,
    ),
];

const DEBUGGING: &[&str] = &["debugging-variable"];
const LL128: &[&str] = &["ll128-forced", "ll128-by-inversion"];
const TRANSPORT: &[&str] = &["transport-disabled"];
const GDR_LEVEL: &[&str] = &["gdr-level-extreme", "level-digit"];

/// Rules whose findings other checks have, which know the node as well.
const ELSEWHERE: &[&str] = &["hca-prefix", "hca-exclude-prefix", "hca-list", "file-missing"];

/// Why there is nothing to look at, where that is so.
fn unknown(node: &Node) -> Option<Outcome> {
    let is_nothing = node.settings.is_empty() && node.inventory.nccl_confs.is_empty();
    (is_nothing && node.is_recorded)
        .then(|| Outcome::skip("a recorded tree has no environment, and there is no nccl.conf"))
}

/// What lint finds, with the place of each.
fn found(node: &Node) -> Vec<lint::Finding> {
    // No file has a value of several lines, so no rule knows what to make of one.
    let variables = node.inventory.site_env.iter().filter(|(_, value)| !value.contains(['\n', '\r']));
    let environment = variables.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n");
    let mut inputs = vec![Input { name: "the environment", text: &environment, kind: Some(Kind::Env) }];
    let confs = node.inventory.nccl_confs.iter();
    inputs.extend(confs.map(|conf| Input { name: &conf.path, text: &conf.text, kind: Some(Kind::NcclConf) }));
    let versions: Vec<Version> =
        node.nccl_libraries().filter_map(|library| library.version.parse::<Version>().ok()).collect();
    // With several, nobody knows which one the jobs have.
    let version = versions.first().copied().filter(|first| versions.iter().all(|version| version == first));
    lint::lint(&inputs, &Options { version, exists: None, allow: &[] })
}

fn of_rules(node: &Node, is_wanted: impl Fn(&str) -> bool, fault: Option<fn(String) -> Fault>) -> Outcome {
    if let Some(unknown) = unknown(node) {
        return unknown;
    }
    let mut faults: Vec<Fault> = Vec::new();
    for finding in found(node).iter().filter(|finding| is_wanted(finding.rule.id)) {
        let make = match (fault, finding.rule.severity) {
            (Some(make), _) => make,
            (None, Severity::Error) => Fault::fail,
            (None, Severity::Warning) => Fault::warn,
            (None, Severity::Note) => continue,
        };
        let place = if finding.file == "the environment" {
            "environment".to_owned()
        } else {
            format!("{}:{}", finding.file, finding.line)
        };
        let evidence = format!("{}, in {place} [{}]", finding.message, finding.rule.id);
        faults.push(make(evidence).fixed_by(finding.fix.clone()));
    }
    let count = node.settings.len();
    let looked_at = if count == 0 { "no NCCL variable is set".to_owned() } else { format!("{count} variables") };
    Outcome::unless(faults, looked_at)
}

fn by_rules(node: &Node, rules: &[&str], fault: Option<fn(String) -> Fault>) -> Outcome {
    of_rules(node, |id| rules.contains(&id), fault)
}

fn others(node: &Node) -> Outcome {
    let known = [DEBUGGING, LL128, TRANSPORT, GDR_LEVEL, ELSEWHERE];
    of_rules(node, |id| !known.iter().any(|rules| rules.contains(&id)), None)
}

/// The value of `NCCL_IB_HCA`, or why there is nothing to say of it.
fn list_text(node: &Node) -> Result<&str, Outcome> {
    match node.setting("NCCL_IB_HCA").filter(|text| !text.is_empty()) {
        Some(text) => Ok(text),
        None => Err(unknown(node).unwrap_or_else(|| Outcome::pass("NCCL_IB_HCA is not set"))),
    }
}

fn hca_prefix(node: &Node) -> Outcome {
    let text = match list_text(node) {
        Ok(text) => text,
        Err(outcome) => return outcome,
    };
    let Ok(list) = HcaList::parse(text) else { return Outcome::skip("NCCL_IB_HCA is no list of HCAs") };
    if list.is_exact {
        return Outcome::pass(format!("NCCL_IB_HCA={text}"));
    }
    let names = || node.inventory.topology.hcas.iter().map(|hca| hca.name.as_str());
    let caught = list.items.iter().filter_map(|item| {
        let more: Vec<&str> = names().filter(|name| name.starts_with(&item.name) && *name != item.name).collect();
        // A prefix that is nobody's name is meant as one.
        let is_name = names().any(|name| name == item.name);
        (is_name && !more.is_empty()).then(|| format!("{} also means {}", item.name, fold(&more)))
    });
    let caught: Vec<String> = caught.collect();
    let sign = if list.is_excluding { "^=" } else { "=" };
    let fix = format!("`export NCCL_IB_HCA='{sign}{}'`", text.trim_start_matches('^'));
    let fault = if caught.is_empty() {
        Fault::warn(format!("NCCL_IB_HCA={text}: names without `=` are prefixes"))
    } else {
        Fault::fail(format!("NCCL_IB_HCA={text}: {}", caught.join("; ")))
    };
    fault.fixed_by(fix).into()
}

fn hca_list(node: &Node) -> Outcome {
    let text = match list_text(node) {
        Ok(text) => text,
        Err(outcome) => return outcome,
    };
    let list = match HcaList::parse(text) {
        Ok(list) => list,
        Err(error) => return Outcome::fail(format!("NCCL_IB_HCA={text}: {error}")),
    };
    let ports = &node.inventory.hca_ports;
    if ports.is_empty() {
        return if node.has_hcas() { Outcome::skip("no port can be read") } else { no_hca() };
    }
    let matched: Vec<&HcaPort> = ports.iter().filter(|port| list.matches(&port.hca, port.port)).collect();
    let active: Vec<String> = matched.iter().filter(|port| port.is_active()).map(|port| port_name(port)).collect();
    if active.is_empty() {
        let names: Vec<String> = ports.iter().map(port_name).collect();
        return Outcome::fail(format!("NCCL_IB_HCA={text}: no active port; there are {}", fold(&names)));
    }
    let is_nobody = |name: &str| {
        !ports.iter().any(|port| if list.is_exact { port.hca == name } else { port.hca.starts_with(name) })
    };
    let missing: Vec<&str> = list.items.iter().map(|item| item.name.as_str()).filter(|name| is_nobody(name)).collect();
    if !missing.is_empty() {
        return Outcome::warn(format!("NCCL_IB_HCA={text}: there is no {}", fold(&missing)));
    }
    Outcome::pass(format!("{} of {} ports, all active", active.len(), ports.len()))
}

fn files(node: &Node) -> Outcome {
    if let Some(unknown) = unknown(node) {
        return unknown;
    }
    let named = &node.inventory.named_files;
    if named.is_empty() {
        return Outcome::pass("no setting names a file");
    }
    let broken = named.iter().filter_map(|file| {
        let why = file.problem.as_ref()?;
        Some(Fault::fail(format!("{}={}: {why}", file.variable, file.path)))
    });
    let words: Vec<String> = named.iter().map(|file| file.path.clone()).collect();
    Outcome::unless(broken.collect(), words.join(", "))
}

fn settings_alike(facts: &Facts) -> Outcomes {
    if facts.nodes.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes"));
    }
    if facts.nodes.iter().all(|node| unknown(node).is_some()) {
        return about_all(facts, Outcome::skip("recorded trees have no environment, and there is no nccl.conf"));
    }
    let nodes: Vec<(&str, &homogeneity::Settings)> =
        facts.nodes.iter().map(|node| (node.host.as_str(), &node.settings)).collect();
    let faults = homogeneity::variables(&nodes).into_iter().map(|difference| {
        let make = if difference.is_grave { Fault::fail } else { Fault::warn };
        make(difference.to_string())
    });
    let names: BTreeSet<&String> = facts.nodes.iter().flat_map(|node| node.settings.keys()).collect();
    let words = match names.len() {
        0 => "no NCCL variable is set".to_owned(),
        count => format!("{count} variables"),
    };
    about_all(facts, Outcome::unless(faults.collect(), words))
}
