//! PCIe links of GPUs and HCAs.

use gdrtune_profiles::topology::{Lanes, PcieLink};
use gdrtune_wire::UsedDevice;

use super::{super::facts::by_device, Check, Node, Outcome, hca::gbps, no_gpu, no_hca};

const RESEAT: &str = "reseat the card; check riser and slot, and the BIOS's bifurcation; `lspci -vv -s ADDRESS` shows LnkSta beside LnkCap";

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "pcie-gpu-width",
            "GPUs have all lanes of their links",
            "Lanes of each GPU's PCIe link now, and at most. Lanes that are missing halve the bandwidth to HCAs and host; idle GPUs slow their links down, but keep the lanes.",
            RESEAT,
            "Linux Documentation/ABI/testing/sysfs-bus-pci, current_link_width",
        ],
        gpu_width,
    ),
    Check::node(
        [
            "pcie-gpu-speed",
            "busy GPUs have their links at full speed",
            "Speed of each GPU's PCIe link. That of an idle GPU is lower on purpose, so only GPUs that somebody uses tell.",
            "set the slot's generation to Auto or the highest in the BIOS; check the riser",
            "nvidia-smi(1), GPU Link information: PCIe Generation",
        ],
        gpu_speed,
    ),
    Check::node(
        [
            "pcie-hca-width",
            "HCAs have all lanes of their links",
            "Lanes of each HCA's PCIe link now, and at most.",
            RESEAT,
            "Linux Documentation/ABI/testing/sysfs-bus-pci, current_link_width",
        ],
        hca_width,
    ),
    Check::node(
        [
            "pcie-hca-speed",
            "HCAs have their links at full speed",
            "Speed of each HCA's PCIe link now, and at most. HCAs do not slow down when idle.",
            "set the slot's generation to Auto or the highest in the BIOS; check the riser, or use a slot of the HCA's generation",
            "Linux Documentation/ABI/testing/sysfs-bus-pci, current_link_speed",
        ],
        hca_speed,
    ),
    Check::node(
        [
            "pcie-hca-room",
            "links of HCAs carry what their ports do",
            "Bandwidth of each HCA's PCIe link against the rates of its active ports. A link that is narrower than the network is the bottleneck.",
            "use a slot with more lanes or a newer generation, or expect the link's rate at most",
            "PCI Express Base Specification, encodings 8b/10b and 128b/130b",
        ],
        hca_room,
    ),
];

/// Links of the GPUs that are known both ways.
fn gpus(node: &Node) -> Vec<(usize, PcieLink)> {
    let links = node.machine.gpus.iter().map(|gpu| gpu.link).enumerate();
    links.filter(|(_, link)| link.current.is_some() && link.most.is_some()).collect()
}

fn hcas(node: &Node) -> Vec<(String, PcieLink)> {
    let links = node.machine.hcas.iter().map(|hca| (hca.name.clone(), hca.link));
    links.filter(|(_, link)| link.current.is_some() && link.most.is_some()).collect()
}

fn judge<D: std::fmt::Display>(
    links: &[(D, PcieLink)],
    is_degraded: fn(&PcieLink) -> bool,
    evidence: fn(PcieLink) -> String,
) -> Outcome {
    let bad = links.iter().filter(|(_, link)| is_degraded(link));
    let said = by_device(bad.map(|(device, link)| (device.to_string(), link.to_string())));
    if said.is_empty() {
        Outcome::pass(by_device(links.iter().map(|(device, link)| (device.to_string(), evidence(*link)))))
    } else {
        Outcome::fail(said)
    }
}

const UNKNOWN: &str = "the kernel does not tell the links, as in most virtual machines";

fn width(link: PcieLink) -> String {
    link.current.map_or("?".to_owned(), |lanes| format!("x{}", lanes.count))
}

fn whole(link: PcieLink) -> String {
    link.to_string()
}

fn gpu_width(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let links: Vec<(String, PcieLink)> =
        gpus(node).into_iter().map(|(number, link)| (format!("GPU{number}"), link)).collect();
    if links.is_empty() { Outcome::skip(UNKNOWN) } else { judge(&links, PcieLink::is_narrow, width) }
}

fn gpu_speed(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let links = gpus(node);
    if links.is_empty() {
        return Outcome::skip(UNKNOWN);
    }
    let users = node.inventory.device_users.iter().flat_map(|user| &user.devices);
    let used: Vec<u32> =
        users.filter_map(|device| if let UsedDevice::Gpu(index) = device { Some(*index) } else { None }).collect();
    let tells = |(number, link): &(usize, PcieLink)| !link.is_slow() || used.contains(&(*number as u32));
    let telling: Vec<(String, PcieLink)> =
        links.iter().filter(|link| tells(link)).map(|(number, link)| (format!("GPU{number}"), *link)).collect();
    if telling.iter().any(|(_, link)| link.is_slow()) {
        return judge(&telling, PcieLink::is_slow, whole);
    }
    if telling.len() < links.len() {
        return Outcome::skip("idle GPUs have their links slowed down: look again while a job runs");
    }
    judge(&telling, PcieLink::is_slow, whole)
}

fn hca_width(node: &Node) -> Outcome {
    let links = hcas(node);
    match (node.has_hcas(), links.is_empty()) {
        (false, _) => no_hca(),
        (true, true) => Outcome::skip(UNKNOWN),
        (true, false) => judge(&links, PcieLink::is_narrow, width),
    }
}

fn hca_speed(node: &Node) -> Outcome {
    let links = hcas(node);
    match (node.has_hcas(), links.is_empty()) {
        (false, _) => no_hca(),
        (true, true) => Outcome::skip(UNKNOWN),
        (true, false) => judge(&links, PcieLink::is_slow, whole),
    }
}

/// What lanes carry one way in Gbit/s, less their encoding: 8b/10b up to 5 GT/s, 128b/130b to 32, none from 64 (PCI Express Base
/// Specification). Packet headers take more.
fn capacity_gbps(lanes: Lanes) -> f64 {
    let encoding = match lanes.mtps {
        0..=5_000 => 0.8,
        5_001..=32_000 => 128.0 / 130.0,
        _ => 1.0,
    };
    f64::from(lanes.mtps) / 1e3 * f64::from(lanes.count) * encoding
}

fn hca_room(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let rate = |name: &str| {
        let ports = node.inventory.hca_ports.iter().filter(|port| port.hca == name && port.is_active());
        ports.filter_map(|port| gbps(&port.rate)).sum::<f64>()
    };
    let links = node.machine.hcas.iter().filter_map(|hca| Some((hca.name.clone(), hca.link.current?, rate(&hca.name))));
    let links: Vec<(String, Lanes, f64)> = links.filter(|(.., rate)| *rate > 0.0).collect();
    if links.is_empty() {
        return Outcome::skip("no HCA tells both its link and the rate of an active port");
    }
    let tight = links.iter().filter(|(_, lanes, rate)| capacity_gbps(*lanes) < *rate);
    let said = tight.map(|(name, lanes, rate)| {
        (name.clone(), format!("{lanes} carries {:.0} Gb/s of {rate} Gb/s", capacity_gbps(*lanes)))
    });
    let evidence = by_device(said);
    if evidence.is_empty() { Outcome::pass("every link carries more than its ports") } else { Outcome::warn(evidence) }
}
