//! From inventories to what the search may try, and to what the cluster is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use gdrtune_profiles::vocab::Choice;
use gdrtune_tuner::space::{Facts, Space, SpaceError};
use gdrtune_wire::{Interface, Inventory};
use sha2::{Digest, Sha256};

use super::{RunConfig, SpaceSize};

/// Channels that are tried at most: with TCP, eight connections fill what one core can move.
const MAX_CHANNELS: u16 = 8;

/// The space of this cluster.
pub(super) fn space(config: &RunConfig, inventories: &[Inventory]) -> Result<Space, SpaceError> {
    let facts = Facts {
        engine: config.engine,
        nodes: config.slots.len() as u32,
        ranks: config.slots.iter().sum(),
        interfaces: common_interfaces(inventories),
        collectives: config.points.iter().map(|p| p.collective).collect::<BTreeSet<_>>().into_iter().collect(),
        max_channels: if config.space == SpaceSize::Small { 2 } else { MAX_CHANNELS },
        pins: config.settings.pins.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        excludes: config.settings.excludes.iter().cloned().collect(),
    };
    let mut space = Space::build(&facts)?;
    if config.space == SpaceSize::Small {
        for dimension in &mut space.dimensions {
            dimension.values.truncate(2);
        }
    }
    Ok(space)
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

/// Interfaces that every node has under the same name, in the first node's order. One node has no network to choose.
fn common_interfaces(inventories: &[Inventory]) -> Vec<String> {
    let [first, others @ ..] = inventories else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let usable = |i: &&Interface| !i.loopback && i.addresses.iter().any(std::net::IpAddr::is_ipv4);
    let has = |node: &Inventory, name: &str| node.interfaces.iter().filter(usable).any(|i| i.name == name);
    let names = first.interfaces.iter().filter(usable).map(|i| &i.name);
    names.filter(|name| others.iter().all(|node| has(node, name))).cloned().collect()
}

/// Which hosts are one machine, if any are.
pub(super) fn emulated(config: &RunConfig, inventories: &[Inventory]) -> Option<String> {
    let mut machines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, inventory) in config.hosts.iter().zip(inventories) {
        if !inventory.boot_id.is_empty() {
            machines.entry(&inventory.boot_id).or_default().push(&host.name);
        }
    }
    let shared: Vec<String> =
        machines.values().filter(|hosts| hosts.len() > 1).map(|hosts| gdrtune_fleet::hosts::fold(hosts)).collect();
    (!shared.is_empty()).then(|| format!("{} run on one machine", shared.join(" and ")))
}

/// `sha256:` over what a profile depends on: architecture, CPUs and interfaces of each node, in rank order.
pub(super) fn fingerprint(config: &RunConfig, inventories: &[Inventory]) -> String {
    let mut hash = Sha256::new();
    for (slots, node) in config.slots.iter().zip(inventories) {
        hash.update(format!("node {} {} cpus {} ranks {slots}\n", node.arch, node.kernel, node.cpus));
        for i in node.interfaces.iter().filter(|i| !i.loopback) {
            hash.update(format!("interface {} mtu {} speed {:?}\n", i.name, i.mtu, i.speed_mbps));
        }
    }
    let mut text = "sha256:".to_owned();
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

/// What was measured on, in words.
pub(super) fn place(config: &RunConfig, inventories: &[Inventory], emulated: Option<&str>) -> String {
    match (config.hosts.as_slice(), emulated) {
        ([only], _) => {
            let name = inventories.first().map_or(only.name.as_str(), |i| i.hostname.as_str());
            format!("the loopback of one machine ({name}), no network between the ranks")
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

    fn node(interfaces: &[(&str, &str)]) -> Inventory {
        let interface = |&(name, address): &(&str, &str)| Interface {
            name: name.to_owned(),
            addresses: vec![address.parse().unwrap()],
            loopback: name == "lo",
            mtu: 1500,
            speed_mbps: None,
        };
        Inventory { interfaces: interfaces.iter().map(interface).collect(), ..Inventory::default() }
    }

    #[test]
    fn only_interfaces_that_every_node_has_are_offered() {
        let a = node(&[("lo", "127.0.0.1"), ("railB", "10.2.0.1"), ("railA", "10.1.0.1"), ("mgmt", "fe80::1")]);
        let b = node(&[("lo", "127.0.0.1"), ("railA", "10.1.0.2"), ("railB", "10.2.0.2"), ("eth9", "10.9.0.2")]);
        assert_eq!(common_interfaces(&[a.clone(), b]), ["railB", "railA"]);
        assert!(common_interfaces(&[a]).is_empty(), "one node has no network to choose");
    }
}
