//! The table of checks.

mod cluster;
mod gdr;
mod gpu;
mod hca;

mod hosts;
mod nccl;
mod net;
mod pcie;
mod roce;
mod settings;
mod system;

use super::{
    Facts, Node,
    check::{Check, Fault, Outcome, Outcomes, Scope},
};

/// Checks that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// What the ids of its checks begin with.
    pub name: &'static str,
    /// Heading, in lower case.
    pub title: &'static str,
    /// The checks.
    pub checks: &'static [Check],
}

/// The table.
pub const GROUPS: &[Group] = &[
    Group { name: "host", title: "hosts", checks: hosts::CHECKS },
    Group { name: "gpu", title: "GPUs and their driver", checks: gpu::CHECKS },
    Group { name: "gdr", title: "the way between GPUs and HCAs", checks: gdr::CHECKS },
    Group { name: "hca", title: "HCAs and their ports", checks: hca::CHECKS },
    Group { name: "pcie", title: "PCIe links", checks: pcie::CHECKS },
    Group { name: "roce", title: "RoCE", checks: roce::CHECKS },
    Group { name: "net", title: "the way between nodes", checks: net::CHECKS },
    Group { name: "nccl", title: "NCCL's libraries", checks: nccl::CHECKS },
    Group { name: "env", title: "settings that jobs find", checks: settings::CHECKS },
    Group { name: "sys", title: "limits and the operating system", checks: system::CHECKS },
    Group { name: "alike", title: "what should be the same on all nodes", checks: cluster::CHECKS },
];

/// Every check, group by group.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    GROUPS.iter().flat_map(|group| group.checks)
}

/// The check called `id`.
pub fn check(id: &str) -> Option<&'static Check> {
    checks().find(|check| check.id == id)
}

/// Outcomes about no host in particular.
fn about_all(facts: &Facts, outcome: impl Into<Outcome>) -> Outcomes {
    vec![(facts.nodes.iter().map(|node| node.host.clone()).collect(), outcome.into())]
}

/// The name of a device as one word of a shell's command.
fn word(name: &str) -> String {
    let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b));
    if is_plain { name.to_owned() } else { gdrtune_fleet::launcher::quote(name) }
}

/// What a check of GPUs says of a node without.
fn no_gpu() -> Outcome {
    Outcome::skip("no NVIDIA GPU")
}

/// What a check of HCAs says of a node without.
fn no_hca() -> Outcome {
    Outcome::skip("no HCA")
}
