//! RDMA over Ethernet.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use gdrtune_profiles::version::Version;
use gdrtune_wire::{Gid, GidKind, HcaPort, Lossless, NetDetails, PortDetails};

use super::{
    super::facts::{by_device, port_name},
    Check, Facts, Fault, Node, Outcome, Outcomes, Scope, about_all,
    hca::counted,
    word,
};

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "roce-gid",
            "RoCE ports have a version 2 GID with an address that routes",
            "GIDs of each active Ethernet port. Version 1 does not cross routers, and fe80:: addresses do not even cross most switches' VLANs.",
            "give the port's interface an IPv4 address: `sudo ip address add ADDRESS/PREFIX dev DEVICE`",
            "NVIDIA/nccl issues 769, 1131; NCCL src/transport/net_ib/init.cc, ncclIbGetGidIndex",
        ],
        gid,
    ),
    Check::node(
        [
            "roce-gid-index",
            "NCCL takes the right GID",
            "NCCL_IB_GID_INDEX against the GIDs that each port has. One number seldom fits every HCA and node; since 2.21 NCCL finds it, and before it takes 0, which is version 1.",
            "unset NCCL_IB_GID_INDEX with NCCL 2.21 or newer; with an older one set it to the index that show_gids prints as v2",
            "NCCL networking troubleshooting guide, RoCE; NVIDIA/nccl issues 718, 1333",
        ],
        gid_index,
    ),
    Check::node(
        [
            "roce-mtu",
            "interfaces under RoCE have jumbo frames",
            "MTU of the network devices of RoCE ports. RoCE's own MTU of 4096 needs 4200 with its headers; on 1500 it is 1024.",
            "`sudo ip link set DEVICE mtu 9000`, on all nodes and switches alike",
            "Linux drivers/infiniband/core, iboe_get_mtu; NVIDIA RoCE documentation",
        ],
        mtu,
    ),
    Check::node(
        [
            "roce-pfc",
            "priority flow control keeps the network lossless",
            "PFC of the network devices of RoCE ports. Without it congestion drops packets, and each loss costs RoCE a retransmission of everything after it.",
            "`mlnx_qos -i DEVICE --trust dscp --pfc 0,0,0,1,0,0,0,0`, and the same priority on the switches",
            "NVIDIA RoCE documentation, lossless fabric",
        ],
        pfc,
    ),
    Check::node(
        [
            "roce-ecn",
            "ECN slows senders down before PFC must",
            "Congestion notification of the network devices of RoCE ports, at the priorities with PFC.",
            "`echo 1 > /sys/class/net/DEVICE/ecn/roce_np/enable/PRIORITY`, and the same under roce_rp",
            "NVIDIA RoCE documentation, DC-QCN",
        ],
        ecn,
    ),
    Check::node(
        [
            "roce-traffic-class",
            "NCCL's traffic goes at a priority with flow control",
            "The traffic class that NCCL's packets get (NCCL_IB_TC, or what the port forces) against the priorities with PFC.",
            "`export NCCL_IB_TC=106` for DSCP 26 at priority 3, or the class of your switches",
            "NCCL docs, NCCL_IB_TC; RFC 2474",
        ],
        traffic_class,
    ),
    Check::all(
        Scope::Cluster,
        [
            "roce-subnet",
            "the same HCA is in the same subnet on all nodes",
            "IPv4 addresses of each HCA's version 2 GIDs, by their first 24 bits, as prefixes do not show in GIDs. Where two are swapped on a node, connections of a rail end in the wrong subnet and time out.",
            "swap cables or addresses, so that an HCA of one name is in one subnet on all nodes; subnets that differ must be routed",
            "getainode/ainode issue 89; NVIDIA/nccl issue 1591",
        ],
        subnet,
    ),
    Check::node(
        [
            "roce-loss",
            "RoCE ports have counted no lost packets",
            "Counters of retransmissions and sequence errors since the driver's start. What goes on counting is congestion without flow control, or a bad link.",
            "look whether they grow (`rdma statistic`) while a job runs; then check PFC and ECN on nodes and switches",
            "NCCL networking troubleshooting guide, RDMA protocol statistics",
        ],
        loss,
    ),
];

fn lacks_ports(node: &Node) -> Option<Outcome> {
    node.roce_ports().next().is_none().then(|| Outcome::skip("no active RoCE port"))
}

/// Active RoCE ports that NCCL may use, with their details.
fn ports(node: &Node) -> Vec<(&HcaPort, &PortDetails)> {
    let all = node.roce_ports().filter(|(port, _)| node.may_use(port));
    all.filter_map(|(port, details)| Some((port, details?))).collect()
}

/// Whether packets to an address cross a router: neither link-local nor the loopback, nor nothing.
fn routes(gid: Ipv6Addr) -> bool {
    match gid.to_ipv4_mapped() {
        Some(address) => !address.is_link_local() && !address.is_loopback() && !address.is_unspecified(),
        None => !gid.is_unicast_link_local() && !gid.is_loopback() && !gid.is_unspecified(),
    }
}

fn is_right(gid: &Gid) -> bool {
    gid.kind == Some(GidKind::RoceV2) && routes(gid.gid)
}

fn gid(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_ports(node) {
        return lacking;
    }
    let known: Vec<_> = ports(node).into_iter().filter(|(_, details)| !details.gids.is_empty()).collect();
    if known.is_empty() {
        return Outcome::skip("no RoCE port's GIDs can be read");
    }
    if known.iter().all(|(_, details)| details.gids.iter().all(|gid| gid.kind.is_none())) {
        return Outcome::skip("the kernel does not tell the versions of GIDs");
    }
    let wrong = known.iter().filter(|(_, details)| !details.gids.iter().any(is_right));
    let evidence = by_device(wrong.clone().map(|(port, details)| {
        let has_v2 = details.gids.iter().any(|gid| gid.kind == Some(GidKind::RoceV2));
        let why = if has_v2 { "version 2 with link-local addresses only" } else { "no GID of version 2" };
        (port_name(port), why.to_owned())
    }));
    if !evidence.is_empty() {
        let fault = Fault::fail(evidence);
        let nets = wrong.flat_map(|(_, details)| &details.nets);
        let add: Vec<String> =
            nets.map(|net| format!("sudo ip address add ADDRESS/PREFIX dev {}", word(net))).collect();
        if add.is_empty() {
            return fault.into();
        }
        return fault.fixed_by(format!("give the port's interface an IPv4 address: `{}`", add.join("; "))).into();
    }
    let right = |details: &PortDetails| details.gids.iter().filter(|gid| is_right(gid)).map(|gid| gid.index).min();
    Outcome::pass(by_device(
        known.iter().filter_map(|(port, details)| Some((port_name(port), format!("index {}", right(details)?)))),
    ))
}

/// The first NCCL that finds the GID by itself.
const FINDS_GID: Version = Version::new(2, 21);

fn gid_index(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_ports(node) {
        return lacking;
    }
    // Negative is NCCL's own choice.
    let wanted = node.setting("NCCL_IB_GID_INDEX").and_then(|text| text.trim().parse::<i32>().ok()).filter(|n| *n >= 0);
    let versions = node.nccl_libraries().filter_map(|library| library.version.parse::<Version>().ok());
    let Some(index) = wanted else {
        return match versions.min() {
            Some(old) if old < FINDS_GID => {
                Outcome::warn(format!("NCCL {old} takes index 0, as NCCL_IB_GID_INDEX is not set"))
            }
            Some(_) => Outcome::pass("NCCL finds it by itself"),
            None => Outcome::skip("NCCL_IB_GID_INDEX is not set, and the version of NCCL is not known"),
        };
    };
    let known: Vec<_> = ports(node).into_iter().filter(|(_, details)| !details.gids.is_empty()).collect();
    if known.is_empty() {
        return Outcome::skip(format!("NCCL_IB_GID_INDEX={index}, and no RoCE port's GIDs can be read"));
    }
    let said = known.iter().filter_map(|(port, details)| {
        let why = match details.gids.iter().find(|gid| i32::from(gid.index) == index) {
            None => "is not set",
            Some(gid) if gid.kind == Some(GidKind::InfiniBandOrRoceV1) => "is version 1",
            Some(gid) if !routes(gid.gid) => "is link-local",
            Some(_) => return None,
        };
        Some((port_name(port), format!("GID {index} {why}")))
    });
    let evidence = by_device(said);
    if evidence.is_empty() {
        Outcome::pass(format!("NCCL_IB_GID_INDEX={index} is version 2 and routes on every port"))
    } else {
        Outcome::fail(format!("NCCL_IB_GID_INDEX={index}: {evidence}"))
    }
}

/// Network devices of the usable RoCE ports, each once, in the order of the ports.
fn devices(node: &Node) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, details) in ports(node) {
        found.extend(details.nets.iter().filter(|name| !found.contains(name)).cloned().collect::<Vec<_>>());
    }
    found
}

/// The smallest Ethernet MTU with room for RoCE's 4096 bytes and its headers (NVIDIA's documentation of RoCE).
const LEAST_MTU: u32 = 4200;

fn mtu(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_ports(node) {
        return lacking;
    }
    let names = devices(node);
    let nets = node.inventory.topology.nets.iter().filter(|net| net.mtu > 0 && names.contains(&net.name));
    let known: Vec<(String, u32)> = nets.map(|net| (net.name.clone(), net.mtu)).collect();
    if known.is_empty() {
        return Outcome::skip("no RoCE port tells its network device");
    }
    let words = |nets: &mut dyn Iterator<Item = &(String, u32)>| {
        by_device(nets.map(|(name, mtu)| (name.clone(), format!("MTU {mtu}"))))
    };
    let small = words(&mut known.iter().filter(|(_, mtu)| *mtu < LEAST_MTU));
    if small.is_empty() {
        return Outcome::pass(words(&mut known.iter()));
    }
    let raise = known.iter().filter(|(_, mtu)| *mtu < LEAST_MTU);
    let raise: Vec<String> = raise.map(|(name, _)| format!("sudo ip link set {} mtu 9000", word(name))).collect();
    Fault::warn(small).fixed_by(format!("`{}`, on all nodes and switches alike", raise.join("; "))).into()
}

/// How devices of RoCE ports are set to be lossless, where `is_known`.
fn lossless(node: &Node, is_known: fn(&Lossless) -> bool) -> Vec<&NetDetails> {
    let names = devices(node);
    let all = node.inventory.net_details.iter().filter(|net| names.contains(&net.name));
    all.filter(|net| is_known(&net.lossless)).collect()
}

/// What only NVIDIA's driver package shows in sysfs.
const NETLINK_ONLY: &str =
    "sysfs does not tell: only NVIDIA's driver package shows it there; try `dcb pfc show dev DEVICE`";

fn numbers(all: &[u8]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn pfc(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_ports(node) {
        return lacking;
    }
    let known = lossless(node, |lossless| lossless.pfc.is_some());
    if known.is_empty() {
        return Outcome::skip(NETLINK_ONLY);
    }
    let priorities = |net: &NetDetails| net.lossless.pfc.clone().unwrap_or_default();
    let without = known.iter().filter(|net| priorities(net).is_empty());
    let evidence = by_device(without.map(|net| (net.name.clone(), "PFC at no priority".to_owned())));
    if evidence.is_empty() {
        let said = |net: &&NetDetails| (net.name.clone(), format!("PFC at priority {}", numbers(&priorities(net))));
        Outcome::pass(by_device(known.iter().map(said)))
    } else {
        Outcome::warn(evidence)
    }
}

fn ecn(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_ports(node) {
        return lacking;
    }
    let known = lossless(node, |lossless| lossless.ecn_notifies.is_some() && lossless.ecn_reacts.is_some());
    if known.is_empty() {
        return Outcome::skip(NETLINK_ONLY);
    }
    let lacking = |net: &&NetDetails| {
        let Lossless { pfc, ecn_notifies, ecn_reacts, .. } = &net.lossless;
        let (notifies, reacts) = (ecn_notifies.clone().unwrap_or_default(), ecn_reacts.clone().unwrap_or_default());
        let has = |priority: &u8| notifies.contains(priority) && reacts.contains(priority);
        let wanted = pfc.clone().unwrap_or_default();
        let bare: Vec<u8> = wanted.iter().copied().filter(|priority| !has(priority)).collect();
        if !bare.is_empty() {
            return Some((net.name.clone(), format!("no ECN at priority {}, which has PFC", numbers(&bare))));
        }
        (notifies.is_empty() || reacts.is_empty()).then(|| (net.name.clone(), "ECN at no priority".to_owned()))
    };
    let evidence = by_device(known.iter().filter_map(lacking));
    if evidence.is_empty() { Outcome::pass("on where PFC is") } else { Outcome::warn(evidence) }
}

fn traffic_class(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_ports(node) {
        return lacking;
    }
    let of_nccl = node.setting("NCCL_IB_TC").and_then(|text| text.trim().parse::<u8>().ok());
    let known = lossless(node, |lossless| lossless.pfc.as_ref().is_some_and(|pfc| !pfc.is_empty()));
    if known.is_empty() {
        return Outcome::skip("no RoCE port has PFC that can be read");
    }
    let mut faults = Vec::new();
    let mut sides = BTreeSet::new();
    for (port, details) in ports(node) {
        let Some(net) = known.iter().find(|net| details.nets.contains(&net.name)) else { continue };
        // Priorities that come from VLAN tags have nothing to do with the class.
        if net.lossless.trust != "dscp" {
            continue;
        }
        // What the port forces is for all; the upper six bits are the DSCP, of which the upper three choose the priority.
        let class = details.traffic_class.filter(|class| *class > 0).or(of_nccl).unwrap_or(0);
        let priority = class >> 5;
        let pfc = net.lossless.pfc.clone().unwrap_or_default();
        if pfc.contains(&priority) {
            sides.insert(format!("class {class} is priority {priority}"));
        } else {
            let said = format!("class {class} goes at priority {priority}, and PFC is at {}", numbers(&pfc));
            faults.push((port_name(port), said));
        }
    }
    let evidence = by_device(faults);
    match (evidence.is_empty(), sides.is_empty()) {
        (false, _) => Outcome::warn(evidence),
        (true, false) => Outcome::pass(sides.into_iter().collect::<Vec<_>>().join("; ")),
        (true, true) => Outcome::skip("priorities are taken from VLAN tags, or the trust is not known"),
    }
}

/// The first 24 bits of each usable HCA's version 2 addresses.
fn networks(node: &Node) -> BTreeMap<String, String> {
    let network = |details: &PortDetails| {
        let addresses = details.gids.iter().filter(|gid| is_right(gid)).filter_map(|gid| gid.gid.to_ipv4_mapped());
        addresses.map(|address| address.octets()).map(|[a, b, c, _]| format!("{a}.{b}.{c}.0/24")).next()
    };
    ports(node).into_iter().filter_map(|(port, details)| Some((port_name(port), network(details)?))).collect()
}

fn subnet(facts: &Facts) -> Outcomes {
    let known: Vec<(&Node, BTreeMap<String, String>)> =
        facts.nodes.iter().map(|node| (node, networks(node))).filter(|(_, networks)| !networks.is_empty()).collect();
    if known.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes tell IPv4 addresses of RoCE ports"));
    }
    // What most nodes have.
    let mut votes: BTreeMap<&BTreeMap<String, String>, usize> = BTreeMap::new();
    for (_, networks) in &known {
        *votes.entry(networks).or_default() += 1;
    }
    let first = &known[0].1;
    let usual =
        votes.into_iter().max_by_key(|(networks, count)| (*count, *networks == first)).map_or(first, |(n, _)| n);
    let mut all = Vec::new();
    for (node, networks) in known.iter().filter(|(_, networks)| networks != usual) {
        let other = networks.iter().filter(|(hca, network)| usual.get(*hca).is_some_and(|usual| usual != *network));
        let said = by_device(other.map(|(hca, network)| {
            (hca.clone(), format!("{network}, on most nodes {}", usual.get(hca).map_or("none", String::as_str)))
        }));
        let set = |networks: &BTreeMap<String, String>| networks.values().cloned().collect::<BTreeSet<_>>();
        if said.is_empty() {
            continue;
        }
        let is_swapped = set(networks) == set(usual);
        let fault = if is_swapped { Fault::fail(format!("swapped: {said}")) } else { Fault::warn(said) };
        all.push((vec![node.host.clone()], fault.into()));
    }
    let words = by_device(usual.iter().map(|(hca, network)| (hca.clone(), network.clone())));
    if all.is_empty() { about_all(facts, Outcome::pass(words)) } else { all }
}

/// Counters in `ports/N/hw_counters` that a lost packet moves (NVIDIA, mlx5 counters; NCCL networking troubleshooting guide).
const LOSS_COUNTERS: [&str; 6] = [
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "out_of_buffer",
];

fn loss(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_ports(node) {
        return lacking;
    }
    counted(
        node,
        &LOSS_COUNTERS,
        |port| port.is_active() && port.link_layer == "Ethernet",
        |ports| {
            let look = |port: &&HcaPort| format!("`rdma statistic show link {}/{}`", word(&port.hca), port.port);
            let look: Vec<String> = ports.iter().map(look).collect();
            format!(
                "look whether they grow while a job runs: {}; then check PFC and ECN on nodes and switches",
                look.join("; ")
            )
        },
    )
}
