//! From inventories to what the search may try, and to what the cluster is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use gdrtune_fleet::hosts::Host;
use gdrtune_profiles::{
    bindings::{Bindings, HCAS},
    vocab::{Choice, Engine, Environment},
};
use gdrtune_tuner::{
    bench::BenchInfo,
    space::{Built, Facts, LeftOut, NcclFacts, Space, SpaceError, Transport},
};
use gdrtune_wire::{EngineReport, HcaPort, Inventory, NetworkUse};
use sha2::{Digest, Sha256};

use super::RunConfig;
use crate::{
    cluster::Probe,
    event::{EngineFacts, GdrUse},
    open::ClusterRequest,
};

/// Channels that are tried at most: with TCP, eight connections fill what one core can move.
pub(crate) const NATIVE_CHANNELS: u16 = 8;

/// The same for NCCL. Each channel takes a multiprocessor from the model, so that more than this must come from NCCL itself.
pub(crate) const NCCL_CHANNELS: u16 = 32;

/// Variables that a site sets for a reason which a measurement does not show: `NCCL_NVLS_ENABLE=0` is set where
/// multicast takes a whole host's GPUs down, and a list of HCAs keeps jobs off those for storage.
const SITE_FORCES: [&str; 5] = ["NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", HCAS];

/// Variables of which NCCL takes the environment's word over any tuner's (NCCL `src/graph/tuning.cc`).
const SITE_LIMITS: [&str; 2] = ["NCCL_ALGO", "NCCL_PROTO"];

/// The space of this cluster. Where the run has several shapes, pinned settings are its only ones.
pub(super) fn space(
    config: &RunConfig,
    info: &BenchInfo,
    bindings: Bindings,
    forced: BTreeSet<String>,
    nccl: NcclFacts,
) -> Result<Built, SpaceError> {
    let most = if info.engine == Engine::Nccl { NCCL_CHANNELS } else { NATIVE_CHANNELS };
    let only_rules = !config.shapes.is_empty();
    // Only a setting could raise the ceiling.
    let most = if only_rules { nccl.channels.map_or(most, |own| own.min(most)) } else { most };
    let facts = Facts {
        engine: info.engine,
        nodes: info.nodes,
        ranks: info.ranks,
        bindings,
        collectives: config.points.iter().map(|p| p.collective).collect::<BTreeSet<_>>().into_iter().collect(),
        max_channels: most,
        selection: config.space.selection.clone(),
        adds: config.settings.adds.clone(),
        pins: config.settings.pins.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        excludes: config.settings.excludes.iter().cloned().collect(),
        forced,
        nccl,
    };
    let mut built = Space::build(&facts)?;
    if only_rules {
        built.space.dimensions.retain(|dimension| config.settings.pins.get(&dimension.name).is_some());
        // That no setting is searched is said already.
        built.left_out.clear();
    }
    Ok(built)
}

/// What begins the lines of [`left_out_lines`], by which they are known in a store.
pub(crate) const NOT_SEARCHED: &str = "not searched: ";

/// What is not searched, one line for each reason.
pub(super) fn left_out_lines(left_out: &[LeftOut]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for LeftOut { what, why } in left_out {
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    reasons.into_iter().map(|(why, names)| format!("{NOT_SEARCHED}{}: {why}", names.join(", "))).collect()
}

/// Variables that the site of any node insists on, with that node's name.
pub(super) fn forced(inventories: &[Inventory]) -> BTreeMap<String, String> {
    set_by_site(inventories, &SITE_FORCES)
}

/// Variables by which the site of any node takes choices away, with that node's name.
pub(super) fn limiting(inventories: &[Inventory]) -> BTreeMap<String, String> {
    set_by_site(inventories, &SITE_LIMITS)
}

/// What the site sets, with the nodes where it does, folded.
pub(super) fn site_environments(hosts: &[Host], inventories: &[Inventory]) -> Vec<(String, Environment)> {
    let mut nodes: BTreeMap<&Environment, Vec<&str>> = BTreeMap::new();
    for (host, inventory) in hosts.iter().zip(inventories) {
        nodes.entry(&inventory.site_env).or_default().push(&host.name);
    }
    nodes.into_iter().map(|(environment, hosts)| (gdrtune_fleet::hosts::fold(&hosts), environment.clone())).collect()
}

fn set_by_site(inventories: &[Inventory], names: &[&str]) -> BTreeMap<String, String> {
    let of_node = |node: &Inventory| {
        let set = names.iter().filter(|name| node.site_env.get(name).is_some());
        set.map(|name| ((*name).to_owned(), node.hostname.clone())).collect::<Vec<_>>()
    };
    inventories.iter().flat_map(of_node).collect()
}

/// Whether every node has an active port of an HCA, so that it matters how ranks are connected.
pub(super) fn have_hcas(inventories: &[Inventory]) -> bool {
    inventories.iter().all(|node| node.hca_ports.iter().any(HcaPort::is_active))
}

/// What a probe of the engine says about the space.
pub(crate) fn nccl(probe: &Probe, nodes: u32) -> NcclFacts {
    let report = &probe.report;
    NcclFacts {
        version: report.version.as_deref().and_then(|text| text.parse().ok()),
        allowed: probe.allowed(),
        channels: report.channels,
        transport: match &report.network {
            _ if nodes == 1 => Transport::None,
            Some(network) => transport(network),
            None => Transport::Unknown,
        },
    }
}

fn transport(network: &NetworkUse) -> Transport {
    let is = |kind: &str| !network.paths.is_empty() && network.paths.iter().all(|path| path.contains(kind));
    // The last is the native engine's.
    match (is("NET/Socket"), is("NET/IB") || is("verbs/")) {
        (true, _) => Transport::Socket,
        (_, true) => Transport::Verbs,
        // A network plugin of a vendor, or a mixture: knobs of the built-in transports may mean nothing there.
        _ => Transport::Unknown,
    }
}

/// A report as the run store keeps it; `None` where the engine tells nothing.
pub(super) fn engine_facts(report: EngineReport) -> Option<EngineFacts> {
    if report == EngineReport::default() {
        return None;
    }
    let EngineReport { version, library, device, channels, network, .. } = report;
    let network = network.unwrap_or_default();
    let (all, direct) = (network.sends + network.receives, network.gdr_sends + network.gdr_receives);
    let gdr = match direct {
        _ if all == 0 => None,
        0 => Some(GdrUse::Off),
        direct if direct == all => Some(GdrUse::All),
        _ => Some(GdrUse::Partly),
    };
    Some(EngineFacts { version, library, device, channels, paths: network.paths, gdr })
}

/// Every choice of any collective, once, in the space's order.
pub(super) fn all_choices(space: &Space) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for &choice in space.choices.values().flatten() {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    choices
}

/// Which hosts are one machine, if any are.
pub(super) fn emulated(cluster: &ClusterRequest, inventories: &[Inventory]) -> Option<String> {
    if cluster.emulate_nodes {
        let ranks: u32 = cluster.slots.iter().sum();
        return Some(format!("{ranks} ranks pose as one node each, on {} machine(s)", cluster.slots.len()));
    }
    let mut machines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, inventory) in cluster.hosts.iter().zip(inventories) {
        if !inventory.boot_id.is_empty() {
            machines.entry(&inventory.boot_id).or_default().push(&host.name);
        }
    }
    let shared: Vec<String> =
        machines.values().filter(|hosts| hosts.len() > 1).map(|hosts| gdrtune_fleet::hosts::fold(hosts)).collect();
    (!shared.is_empty()).then(|| format!("{} run on one machine", shared.join(" and ")))
}

/// `sha256:` over what a profile depends on: architecture, CPUs and interfaces of each node, in rank order.
///
/// With NCCL also its version and the GPU.
pub(crate) fn fingerprint(
    cluster: &ClusterRequest,
    inventories: &[Inventory],
    report: Option<&EngineReport>,
) -> String {
    let mut hash = Sha256::new();
    for (slots, node) in cluster.slots.iter().zip(inventories) {
        hash.update(format!("node {} {} cpus {} ranks {slots}\n", node.arch, node.kernel, node.cpus));
        for i in node.interfaces.iter().filter(|i| !i.loopback) {
            hash.update(format!("interface {} mtu {} speed {:?}\n", i.name, i.mtu, i.speed_mbps));
        }
    }
    if let Some(EngineReport { version, device, .. }) = report {
        hash.update(format!("nccl {version:?} gpu {device:?}\n"));
    }
    sha256_text(hash)
}

/// A hash as a profile holds it.
pub(crate) fn sha256_text(hash: Sha256) -> String {
    format!("sha256:{}", hex(hash))
}

/// Of the names and texts of emitted files, in hexadecimal.
pub(super) fn files_sha256(files: &[(String, String)]) -> String {
    let mut hash = Sha256::new();
    for (name, text) in files {
        hash.update(format!("{name} {}\n{text}", text.len()));
    }
    hex(hash)
}

/// Of a file's bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// What was measured on, in words.
pub(super) fn place(cluster: &ClusterRequest, inventories: &[Inventory], emulated: Option<&str>) -> String {
    let own_name = |only: &Host| inventories.first().map_or(only.name.clone(), |i| i.hostname.clone());
    match (cluster.hosts.as_slice(), emulated) {
        ([only], None) if cluster.engine == Engine::Nccl => {
            format!("the GPUs of one machine ({})", own_name(only))
        }
        ([only], _) if cluster.engine != Engine::Nccl => {
            format!("the loopback of one machine ({}), no network between the ranks", own_name(only))
        }
        (_, Some(why)) => format!("emulated nodes ({why})"),
        (hosts, None) => {
            let names: Vec<&str> = hosts.iter().map(|h| h.name.as_str()).collect();
            format!("the hosts {}", gdrtune_fleet::hosts::fold(&names))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said_once_for_each_reason() {
        let left_out = [("A", "no verbs"), ("B", "too old"), ("C", "no verbs")];
        let left_out = left_out.map(|(what, why)| LeftOut { what: what.into(), why: why.into() });
        assert_eq!(left_out_lines(&left_out), ["not searched: A, C: no verbs", "not searched: B: too old"]);
    }

    #[test]
    fn what_a_site_insists_on_is_found_on_any_node() {
        let site_env = Environment::new().with("NCCL_NVLS_ENABLE", "0").with("NCCL_PROTO", "Simple");
        let nodes = [Inventory::default(), Inventory { hostname: "n2".into(), site_env, ..Inventory::default() }];
        let one = |name: &str| BTreeMap::from([(name.to_owned(), "n2".to_owned())]);
        assert_eq!((forced(&nodes), limiting(&nodes)), (one("NCCL_NVLS_ENABLE"), one("NCCL_PROTO")));
    }
}
