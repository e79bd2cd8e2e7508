//! Whether hosts can be used at all.

use std::collections::BTreeMap;

use super::{Check, Facts, Fault, Node, Outcome, Outcomes, Scope, about_all};
use crate::connect;

pub(super) const CHECKS: &[Check] = &[
    Check::all(
        Scope::Cluster,
        [
            "host-agent",
            "an agent runs on every host, and answers throughout",
            "Whether the launcher reaches the host, the executable can be put and run there, and the agent answers until the end. A host that fails here is left out of every other check.",
            "run the launcher's own command by hand, such as `ssh HOST true`",
            "gdrtune's launchers",
        ],
        agent,
    ),
    Check::all(
        Scope::Cluster,
        [
            "host-twice",
            "every host is a machine of its own",
            "The boot id of each. Two names of one machine make NCCL find a GPU twice (`Duplicate GPU detected`); containers of one machine share its HCAs.",
            "name each machine once: leave the other name out with -x",
            "NCCL src/init.cc; Linux random(4), boot_id",
        ],
        twice,
    ),
    Check::all(
        Scope::Cluster,
        [
            "host-clock",
            "the nodes' clocks agree",
            "Each node's clock against what most have. With clocks apart nobody can put logs of ranks side by side, and beyond munge's 300 s Slurm refuses steps.",
            "start chrony or ntpd on those nodes: `systemctl enable --now chronyd`",
            "munge(1), --ttl; chronyd(8)",
        ],
        clock,
    ),
    Check::node(
        [
            "host-busy",
            "nobody else uses the GPUs and HCAs",
            "Processes that have a GPU or HCA open. Whatever is measured beside them is theirs as much as ours.",
            "wait for these processes, or end them",
            "gdrtune's inventory: /proc/*/fd and nvidia-smi",
        ],
        busy,
    ),
];

fn agent(facts: &Facts) -> Outcomes {
    let broken = facts.unusable.iter();
    let mut all: Outcomes = broken
        .map(|host| (vec![host.host.clone()], Fault::fail(host.what.clone()).fixed_by(host.fix.clone()).into()))
        .collect();
    if facts.nodes.iter().any(|node| node.is_recorded) {
        all.extend(about_all(facts, Outcome::skip("recorded trees have no agents")));
    } else if !facts.nodes.is_empty() {
        all.extend(about_all(facts, Outcome::pass("started, and answered")));
    }
    all
}

fn twice(facts: &Facts) -> Outcomes {
    if facts.nodes.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes"));
    }
    let mut by_boot: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in facts.nodes.iter().filter(|node| !node.inventory.boot_id.is_empty()) {
        by_boot.entry(&node.inventory.boot_id).or_default().push(node);
    }
    if by_boot.is_empty() {
        return about_all(facts, Outcome::skip("no boot id could be read"));
    }
    let mut all = Vec::new();
    for nodes in by_boot.values().filter(|nodes| nodes.len() > 1) {
        let hosts: Vec<String> = nodes.iter().map(|node| node.host.clone()).collect();
        let name = &nodes[0].inventory.hostname;
        let fault = if nodes.iter().all(|node| node.inventory.hostname == *name) {
            Fault::fail(format!("all are the machine {name}"))
        } else {
            Fault::warn("these are containers or other parts of one machine: one kernel runs them all")
                .fixed_by("know it: they share HCAs, memory and CPUs, so they are no cluster to tune for")
        };
        all.push((hosts, fault.into()));
    }
    if all.is_empty() { about_all(facts, Outcome::pass("no boot id comes twice")) } else { all }
}

/// Apart by more than this, in seconds, log lines cannot be put in order by eye.
const ODD_S: f64 = 1.0;

/// munge's default time to live, in seconds.
const BROKEN_S: f64 = 300.0;

fn clock(facts: &Facts) -> Outcomes {
    if facts.nodes.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes"));
    }
    let clocks = match &facts.clocks {
        Ok(clocks) => clocks,
        Err(why) => return about_all(facts, Outcome::skip(why.clone())),
    };
    let known: Vec<(&Node, super::super::Clock)> =
        facts.nodes.iter().zip(clocks).filter_map(|(node, clock)| Some((node, (*clock)?))).collect();
    if known.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes told their time"));
    }
    // This machine's clock is no part of the cluster: the nodes' own middle is what they are held against.
    let mut ahead: Vec<i64> = known.iter().map(|(_, clock)| clock.ahead_us).collect();
    ahead.sort_unstable();
    let middle = ahead[ahead.len() / 2];
    let mut all = Vec::new();
    for (node, clock) in &known {
        // As much as is sure.
        let apart_s = (clock.ahead_us - middle).unsigned_abs().saturating_sub(clock.error_us) as f64 / 1e6;
        if apart_s < ODD_S {
            continue;
        }
        let side = if clock.ahead_us < middle { "behind" } else { "ahead of" };
        let evidence = format!("its clock is {apart_s:.0} s {side} most nodes'");
        let fault = if apart_s < BROKEN_S { Fault::warn(evidence) } else { Fault::fail(evidence) };
        all.push((vec![node.host.clone()], fault.into()));
    }
    if all.is_empty() { about_all(facts, Outcome::pass("no clock is a second off the others")) } else { all }
}

/// Processes that a finding names.
const SHOWN: usize = 3;

fn busy(node: &Node) -> Outcome {
    if node.is_recorded {
        return Outcome::skip("a recorded tree has no processes");
    }
    if !node.has_gpus() && !node.has_hcas() {
        return Outcome::skip("neither GPU nor HCA");
    }
    let users = &node.inventory.device_users;
    let line = |user: &gdrtune_wire::DeviceUser| {
        let devices: Vec<String> = user.devices.iter().map(ToString::to_string).collect();
        connect::describe_process(user, &devices)
    };
    let shown: Vec<String> = users.iter().take(SHOWN).map(line).collect();
    let more = users.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    if users.is_empty() {
        Outcome::pass("no other process has one open")
    } else {
        Outcome::warn(format!("{}{more}", shown.join("; ")))
    }
}
