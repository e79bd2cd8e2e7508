//! HCAs and their ports.

use std::collections::BTreeMap;

use gdrtune_fleet::hosts::fold;
use gdrtune_wire::{HcaPort, LibraryKind, PortDetails};

use super::gpu::major_minor;
use super::{
    super::facts::{by_device, gpu_names, port_name},
    Check, Facts, Fault, Node, Outcome, Outcomes, Scope, about_all, no_hca, word,
};

pub(super) const CHECKS: &[Check] = &[
    Check::all(
        Scope::Cluster,
        [
            "hca-present",
            "nodes with GPUs have HCAs",
            "RDMA adapters in sysfs, where several nodes are to work together. Without any, NCCL goes over sockets.",
            "check that the card is there (lspci) and its driver is loaded: `modprobe mlx5_ib`, or the vendor's",
            "NCCL docs, NCCL_NET",
        ],
        present,
    ),
    Check::node(
        [
            "hca-port-active",
            "ports that NCCL may use are active",
            "The state of each port, but of those that NCCL_IB_HCA leaves out. NCCL takes active ports only, and goes on without the others and without a word.",
            "unused port: nothing to do, as NCCL takes active ones only; else bring it up: cable, transceiver, switch port, for InfiniBand the subnet manager",
            "NCCL src/transport/net_ib/init.cc; networking troubleshooting guide",
        ],
        active,
    ),
    Check::node(
        [
            "hca-subnet-manager",
            "InfiniBand ports have a subnet manager",
            "The subnet manager's LID at each port whose link is up, and ports that wait in INIT for one.",
            "start a subnet manager: on the switch, or opensm on a node",
            "NCCL networking troubleshooting guide, Subnet Manager",
        ],
        subnet_manager,
    ),
    Check::all(
        Scope::Cluster,
        [
            "hca-rate",
            "ports run at their full rate",
            "The rate and width of each active port, against the fastest port of the same kind of HCA in the cluster.",
            "reseat or replace the cable or transceiver; `mlxlink -d DEVICE -m` says what the port sees",
            "NCCL networking troubleshooting guide, NIC-level diagnostics",
        ],
        rate,
    ),
    Check::node(
        [
            "hca-mtu",
            "InfiniBand ports use their largest MTU",
            "Active and largest MTU of each port. Smaller packets cost bandwidth.",
            "raise the MTU of the partition in the subnet manager (opensm: mtu=5 in partitions.conf)",
            "opensm(8); ibv_devinfo(1)",
        ],
        mtu,
    ),
    Check::node(
        [
            "hca-link-errors",
            "ports have counted no errors of their link",
            "Error counters since the driver's start: symbol errors, recoveries, links that went down. What goes on counting is a cable or transceiver on its way out.",
            "look whether they grow: `perfquery -C HCA -P PORT` (`perfquery -R` sets them to 0); then reseat or replace the cable",
            "InfiniBand specification, PortCounters; NCCL networking troubleshooting guide, Port error counters",
        ],
        link_errors,
    ),
    Check::node(
        [
            "hca-ofed",
            "NVIDIA's RDMA drivers are version 5 or newer",
            "The version of MLNX_OFED or DOCA-OFED. Peer memory, relaxed ordering and adaptive routing need 5.0.",
            "install a newer DOCA-OFED, or MLNX_OFED 5.8 LTS",
            "MLNX_OFED release notes",
        ],
        ofed,
    ),
    Check::node(
        [
            "hca-verbs-library",
            "libibverbs can be loaded",
            "Whether the loader finds it. NCCL opens it at run time, and falls back to sockets where it is not there.",
            "install libibverbs and rdma-core, in the container as well",
            "NCCL src/misc/ibvwrap.cc",
        ],
        verbs_library,
    ),
    Check::node(
        [
            "hca-device-files",
            "/dev/infiniband is there",
            "Device files of the HCAs, which a container must be given.",
            "`docker run --device=/dev/infiniband ...` (Kubernetes: an RDMA device plugin); on the host: `modprobe ib_uverbs`",
            "Linux Documentation/infiniband/user_verbs.rst",
        ],
        device_files,
    ),
    Check::node(
        [
            "hca-net-plugin",
            "EFA has its network plugin",
            "Whether aws-ofi-nccl's libnccl-net is found where HCAs are AWS's EFA. NCCL itself cannot use these, and goes over sockets.",
            "install the EFA installer's aws-ofi-nccl, and its folder in LD_LIBRARY_PATH",
            "aws/aws-ofi-nccl issue 472; NVIDIA/nccl issue 1538",
        ],
        net_plugin,
    ),
];

fn present(facts: &Facts) -> Outcomes {
    if facts.nodes.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes"));
    }
    let of = |node: &Node| match (node.has_gpus(), node.inventory.topology.hcas.len()) {
        (_, count @ 1..) => Outcome::pass(format!("{count} HCA{}", if count == 1 { "" } else { "s" })),
        (true, 0) => Outcome::warn("GPUs, and no HCA"),
        (false, 0) => Outcome::skip("neither GPU nor HCA"),
    };
    facts.nodes.iter().map(|node| (vec![node.host.clone()], of(node))).collect()
}

/// `DOWN Polling`.
fn state(port: &HcaPort) -> String {
    format!("{} {}", port.state, port.phys_state).trim().to_owned()
}

/// What to do about a port that jobs need.
const BRING_UP: &str = "bring it up: cable, transceiver, switch port, for InfiniBand the subnet manager";

fn active(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let ports: Vec<&HcaPort> =
        node.inventory.hca_ports.iter().filter(|port| node.may_use(port) && !port.state.is_empty()).collect();
    if ports.is_empty() {
        return Outcome::skip("no port's state can be read, or NCCL_IB_HCA leaves all out");
    }
    let (up, down): (Vec<&HcaPort>, Vec<&HcaPort>) = ports.into_iter().partition(|port| port.is_active());
    if up.is_empty() {
        let evidence = by_device(down.iter().map(|port| (port_name(port), state(port))));
        return Fault::fail(format!("none is: {evidence}")).fixed_by(BRING_UP).into();
    }
    let mut faults = Vec::new();
    let (near, far): (Vec<&HcaPort>, Vec<&HcaPort>) =
        down.into_iter().partition(|port| !nearest_gpus(node, &port.hca, &up).is_empty());
    for port in near {
        let gpus = gpu_names(nearest_gpus(node, &port.hca, &up));
        let evidence = format!("{}: {}, though nearest to {gpus}", port_name(port), state(port));
        faults.push(Fault::fail(evidence).fixed_by(BRING_UP));
    }
    let spare = by_device(far.iter().map(|port| (port_name(port), state(port))));
    if !spare.is_empty() {
        faults.push(Fault::warn(spare));
    }
    Outcome::unless(faults, format!("{} active", fold(&up.iter().map(|port| port_name(port)).collect::<Vec<_>>())))
}

/// GPUs to which an HCA without an active port is nearer than any that has one.
fn nearest_gpus(node: &Node, hca: &str, up: &[&HcaPort]) -> Vec<usize> {
    let machine = &node.machine;
    let is_up = |name: &str| up.iter().any(|port| port.hca == name);
    let Some(own) = machine.hcas.iter().position(|other| other.name == hca).filter(|_| !is_up(hca)) else {
        return Vec::new();
    };
    let is_nearest = |row: &Vec<Option<_>>| {
        let others = machine.hcas.iter().zip(row).filter(|(other, _)| is_up(&other.name)).filter_map(|(_, d)| *d).min();
        row.get(own).copied().flatten().is_some_and(|distance| others.is_none_or(|nearest| distance < nearest))
    };
    machine.to_hcas.iter().enumerate().filter(|(_, row)| is_nearest(row)).map(|(gpu, _)| gpu).collect()
}

fn is_infiniband(port: &HcaPort) -> bool {
    port.link_layer == "InfiniBand"
}

fn subnet_manager(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let linked: Vec<(&HcaPort, Option<&PortDetails>)> =
        node.ports().filter(|(port, _)| is_infiniband(port) && port.phys_state == "LinkUp").collect();
    if linked.is_empty() {
        return Outcome::skip("no InfiniBand port with a link");
    }
    let waits = |(port, details): &&(&HcaPort, Option<&PortDetails>)| {
        port.state == "INIT" || details.is_some_and(|details| details.sm_lid == Some(0))
    };
    let waiting: Vec<String> = linked.iter().filter(waits).map(|(port, _)| port_name(port)).collect();
    if !waiting.is_empty() {
        return Outcome::fail(format!("{}: the link is up, and no subnet manager has set it up", fold(&waiting)));
    }
    let lids: Vec<u32> = linked.iter().filter_map(|(_, details)| details.as_ref()?.sm_lid).collect();
    let all_active = linked.iter().all(|(port, _)| port.is_active());
    match (lids.is_empty(), all_active) {
        // A port gets active by a subnet manager's hand only.
        (true, true) => Outcome::pass("every port with a link is active"),
        (true, false) => Outcome::skip("the subnet manager's LID cannot be read"),
        (false, _) => Outcome::pass("every port with a link knows one"),
    }
}

/// Gb/s and lanes of the kernel's `400 Gb/sec (4X NDR)`.
pub(super) fn gbps(rate: &str) -> Option<f64> {
    rate.split_whitespace().next()?.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
}

fn lanes(rate: &str) -> Option<u32> {
    rate.split_once('(')?.1.split_once('X')?.0.trim().parse().ok()
}

/// What HCAs are of one kind by: their model, or their PCI numbers; and the link layer.
fn kind(node: &Node, port: &HcaPort) -> (String, String) {
    let details = node.hca_details(&port.hca);
    let kind = details.map(|hca| format!("{} {} {}", hca.kind, hca.vendor, hca.device)).unwrap_or_default();
    (kind, port.link_layer.clone())
}

fn rate(facts: &Facts) -> Outcomes {
    let mut fastest: BTreeMap<(String, String), f64> = BTreeMap::new();
    let usable = |node: &Node| {
        let ports = node.inventory.hca_ports.iter().filter(|port| port.is_active() && node.may_use(port));
        ports.filter_map(|port| Some((port.clone(), gbps(&port.rate)?))).collect::<Vec<_>>()
    };
    for node in &facts.nodes {
        for (port, rate) in usable(node) {
            let most = fastest.entry(kind(node, &port)).or_insert(rate);
            *most = most.max(rate);
        }
    }
    let of = |node: &Node| {
        if !node.has_hcas() {
            return no_hca();
        }
        let ports = usable(node);
        if ports.is_empty() {
            return Outcome::skip("no active port tells its rate");
        }
        let slow = ports.iter().filter(|(port, rate)| {
            let most = fastest.get(&kind(node, port)).copied().unwrap_or(*rate);
            *rate < most || (is_infiniband(port) && lanes(&port.rate) == Some(1))
        });
        let said = slow.map(|(port, rate)| {
            let most = fastest.get(&kind(node, port)).copied().unwrap_or(*rate);
            let of = if *rate < most { format!(", others of its kind {most} Gb/s") } else { String::new() };
            (port_name(port), format!("{}{of}", port.rate))
        });
        let evidence = by_device(said);
        if !evidence.is_empty() {
            return Outcome::fail(evidence);
        }
        Outcome::pass(by_device(ports.iter().map(|(port, _)| (port_name(port), port.rate.clone()))))
    };
    if facts.nodes.is_empty() {
        return about_all(facts, Outcome::skip("no host could be looked at"));
    }
    facts.nodes.iter().map(|node| (vec![node.host.clone()], of(node))).collect()
}

fn mtu(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let ports = node.ports().filter(|(port, _)| is_infiniband(port) && port.is_active());
    let known: Vec<(String, u32, u32)> = ports
        .filter_map(|(port, details)| {
            let details = details?;
            Some((port_name(port), details.active_mtu?, details.max_mtu?))
        })
        .collect();
    if known.is_empty() {
        return Outcome::skip("no active InfiniBand port tells its MTU: ibv_devinfo would");
    }
    let small = known.iter().filter(|(_, active, most)| active < most);
    let evidence = by_device(small.map(|(name, active, most)| (name.clone(), format!("{active} of {most}"))));
    if evidence.is_empty() {
        Outcome::pass(by_device(known.into_iter().map(|(name, active, _)| (name, active.to_string()))))
    } else {
        Outcome::warn(evidence)
    }
}

/// Counters in `ports/N/counters` that only a bad link moves (InfiniBand specification, port counters).
const LINK_COUNTERS: [&str; 6] = [
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
];

/// What some counters of each usable port have counted, as a fault or well. `fix` is told the ports.
pub(super) fn counted(
    node: &Node,
    names: &[&str],
    is_wanted: impl Fn(&HcaPort) -> bool,
    fix: fn(&[&HcaPort]) -> String,
) -> Outcome {
    let ports: Vec<(&HcaPort, &PortDetails)> = node
        .ports()
        .filter(|(port, _)| is_wanted(port) && node.may_use(port))
        .filter_map(|(port, details)| Some((port, details?)))
        .filter(|(_, details)| names.iter().any(|name| details.counter(name).is_some()))
        .collect();
    if ports.is_empty() {
        return Outcome::skip("no port's counters can be read");
    }
    let said = |details: &PortDetails| {
        let moved = names.iter().filter_map(|name| Some((name, details.counter(name).filter(|count| *count > 0)?)));
        moved.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    let moved: Vec<(&HcaPort, String)> =
        ports.iter().map(|(port, details)| (*port, said(details))).filter(|(_, said)| !said.is_empty()).collect();
    if moved.is_empty() {
        return Outcome::pass("all are 0");
    }
    let fix = fix(&moved.iter().map(|(port, _)| *port).collect::<Vec<_>>());
    Fault::warn(by_device(moved.into_iter().map(|(port, said)| (port_name(port), said)))).fixed_by(fix).into()
}

/// How the counters of links are looked at once more: `perfquery` asks InfiniBand ports only.
fn look_at_link(ports: &[&HcaPort]) -> String {
    let command = |port: &&HcaPort| {
        let hca = word(&port.hca);
        if is_infiniband(port) {
            format!("perfquery -C {hca} -P {}", port.port)
        } else {
            format!("grep . /sys/class/infiniband/{hca}/ports/{}/counters/*", port.port)
        }
    };
    let commands: Vec<String> = ports.iter().map(command).collect();
    format!("look whether they grow: `{}`; then reseat or replace the cable", commands.join("; "))
}

fn link_errors(node: &Node) -> Outcome {
    if node.has_hcas() { counted(node, &LINK_COUNTERS, |_| true, look_at_link) } else { no_hca() }
}

/// NVIDIA's packages of RDMA drivers are numbered 5.0 to 5.9, and by year and month since 23.04.
const LEAST_OFED: (u32, u32) = (5, 0);

fn ofed(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let is_nvidia = node.inventory.hca_details.iter().any(|hca| hca.vendor == "15b3");
    let Some(ofed) = &node.inventory.system.ofed else {
        let why = if is_nvidia { "none shows: the kernel's own drivers run the HCAs" } else { "no HCA of NVIDIA's" };
        return Outcome::skip(why);
    };
    match major_minor(&ofed.version) {
        Some(version) if version < LEAST_OFED => Outcome::fail(format!("version {}", ofed.version)),
        Some(_) => Outcome::pass(format!("version {}", ofed.version)),
        None => Outcome::skip(format!("`{}` is no version", ofed.version)),
    }
}

fn verbs_library(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let libraries = &node.inventory.system.libraries;
    if let Some(library) = libraries.iter().find(|library| library.kind == LibraryKind::Verbs) {
        return Outcome::pass(library.path.clone());
    }
    if node.is_recorded {
        return Outcome::skip("this recorded tree has no libraries");
    }
    Outcome::fail("libibverbs.so is not found")
}

fn device_files(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let files = &node.inventory.system.container.rdma_devices;
    if node.is_recorded && files.is_empty() {
        return Outcome::skip("this recorded tree has no device files");
    }
    let verbs = files.iter().filter(|name| name.starts_with("uverbs")).count();
    let hcas = node.inventory.topology.hcas.len();
    match verbs {
        0 => Outcome::fail("no uverbs file in /dev/infiniband"),
        count if count < hcas => Outcome::warn(format!("{count} uverbs files for {hcas} HCAs")),
        count => Outcome::pass(format!("{count} uverbs files")),
    }
}

fn net_plugin(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    if !node.is_efa() {
        let is_known = node.inventory.hca_details.iter().any(|hca| !hca.driver.is_empty());
        return Outcome::skip(if is_known { "no HCA of AWS's EFA" } else { "the HCAs' driver is not known" });
    }
    let libraries = &node.inventory.system.libraries;
    if let Some(plugin) = libraries.iter().find(|library| library.kind == LibraryKind::NcclNet) {
        return Outcome::pass(plugin.path.clone());
    }
    if node.is_recorded && libraries.is_empty() {
        return Outcome::skip("this recorded tree has no libraries");
    }
    Outcome::fail("no libnccl-net*.so is found")
}
