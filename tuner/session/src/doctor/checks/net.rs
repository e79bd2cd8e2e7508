//! The way between nodes over the interfaces that NCCL starts up with.

use std::{collections::BTreeMap, net::Ipv4Addr};

use gdrtune_fleet::hosts::fold;
use gdrtune_wire::{DialFault, NetKind};

use super::{Check, Facts, Fault, Node, Outcome, Outcomes, Scope, about_all, cluster::alike};
use crate::doctor::Contact;

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "net-interface",
            "NCCL's interfaces lead to other nodes",
            "The interfaces that NCCL takes for sockets: those that NCCL_SOCKET_IFNAME names, else of its own choice. A container's or virtual machine's bridge, or the loopback, leads nowhere.",
            "`export NCCL_SOCKET_IFNAME==NAME`, with the exact name of the interface to the other nodes",
            "NCCL src/misc/socket.cc, ncclFindInterfaces; NVIDIA/nccl issues 286, 913, 1581",
        ],
        interface,
    ),
    Check::all(
        Scope::Pair,
        [
            "net-connect",
            "nodes can connect to each other",
            "A real connection, to a free port of the interface that NCCL starts up with; both ends prove a key of this run. All pairs of up to 8 nodes; of more, each node dials both neighbours of a ring and two others by chance.",
            "open TCP between the nodes (NCCL takes any port: net.ipv4.ip_local_port_range), or name another interface with NCCL_SOCKET_IFNAME",
            "NCCL networking troubleshooting guide, IP ports",
        ],
        |facts| connect(facts, |place| place == 0, true),
    ),
    Check::all(
        Scope::Pair,
        [
            "net-connect-others",
            "nodes can connect over their other interfaces, too",
            "The same over the other interfaces that NCCL takes: it spreads data over all of them where it goes over sockets.",
            "name those that lead to all nodes with NCCL_SOCKET_IFNAME, or open the way",
            "NCCL networking troubleshooting guide, IP network interfaces",
        ],
        |facts| connect(facts, |place| place > 0, false),
    ),
    Check::all(
        Scope::Cluster,
        [
            "net-interface-alike",
            "NCCL takes the same interfaces on all nodes",
            "Names of the interfaces that NCCL takes for sockets. One that is down on a node is missing there without a word, and the nodes' lists no longer pair up.",
            "bring the interface up on the others, or name the common ones: NCCL_SOCKET_IFNAME==NAME",
            "NCCL src/misc/socket.cc, ncclFindInterfaces; src/transport/net_socket.cc",
        ],
        |facts| alike(facts, names, Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "net-mtu-alike",
            "the interface has the same MTU on all nodes",
            "MTU of the interface that NCCL starts up with. Where two differ, small messages arrive and large ones vanish.",
            "`ip link set DEVICE mtu N`, the same on all nodes",
            "RFC 1191; NCCL networking troubleshooting guide",
        ],
        mtu_alike,
    ),
    Check::all(
        Scope::Cluster,
        [
            "net-speed-alike",
            "the interface has the same speed on all nodes",
            "Link speed of the interface that NCCL starts up with, where the driver tells it.",
            "check cable and switch port: `ethtool DEVICE`",
            "ethtool(8)",
        ],
        speed_alike,
    ),
];

/// Names that programs for containers and virtual machines give to bridges of this host, and to the ends of their virtual
/// cables.
const LOCAL_NAMES: [&str; 10] = ["docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc", "podman", "vmnet"];

fn interface(node: &Node) -> Outcome {
    if node.is_recorded {
        return Outcome::skip("a recorded tree has no addresses");
    }
    let chosen = &node.interfaces;
    let names: Vec<&str> = chosen.interfaces.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return match node.setting("NCCL_SOCKET_IFNAME").filter(|_| chosen.is_named) {
            _ if chosen.is_any => Outcome::skip("IPv6 addresses only, which are not looked at"),
            Some(value) => {
                let known: Vec<&str> = node.inventory.interfaces.iter().map(|other| other.name.as_str()).collect();
                let there = if known.is_empty() { "none".to_owned() } else { fold(&known) };
                Outcome::fail(format!(
                    "NCCL_SOCKET_IFNAME={value} names no interface with an address; there are {there}"
                ))
            }
            None => Outcome::skip("no interface has an address that could be read"),
        };
    }
    let is_loopback = |name: &str| node.inventory.interfaces.iter().any(|other| other.name == name && other.loopback);
    if names.iter().all(|name| is_loopback(name)) {
        return Outcome::warn(format!("{}: the loopback only", fold(&names)));
    }
    let is_local = |name: &&&str| {
        let details = node.inventory.net_details.iter().find(|net| net.name == **name);
        let is_bridge = details.is_some_and(|net| {
            net.kind == NetKind::Bridge
                && net.lower.iter().all(|lower| LOCAL_NAMES.iter().any(|p| lower.starts_with(p)))
        });
        is_bridge || LOCAL_NAMES.iter().any(|prefix| name.starts_with(prefix)) || is_loopback(name)
    };
    let local: Vec<&str> = names.iter().filter(is_local).copied().collect();
    let how = if chosen.is_named { "NCCL_SOCKET_IFNAME" } else { "NCCL's own choice" };
    if local.is_empty() {
        return Outcome::pass(format!("{} ({how})", fold(&names)));
    }
    let evidence =
        format!("{how} takes {}, which lead{} to no other node", fold(&local), if local.len() == 1 { "s" } else { "" });
    // The first one starts up.
    if local.first() == names.first() { Outcome::fail(evidence) } else { Outcome::warn(evidence) }
}

/// Pairs that a finding names.
const SHOWN: usize = 4;

fn connect(facts: &Facts, is_wanted: fn(usize) -> bool, is_first: bool) -> Outcomes {
    let contacts = match &facts.contacts {
        Ok(contacts) => contacts,
        Err(why) => return about_all(facts, Outcome::skip(why.clone())),
    };
    let tried: Vec<&Contact> = contacts.iter().filter(|contact| is_wanted(contact.place)).collect();
    if tried.is_empty() {
        let why = if is_first { "no pair of nodes was tried" } else { "NCCL takes one interface" };
        return about_all(facts, Outcome::skip(why));
    }
    // By what is in the way, and over which interface.
    let mut failed: BTreeMap<(String, &'static str), Vec<&Contact>> = BTreeMap::new();
    for contact in &tried {
        if let Err(fault) = &contact.outcome {
            let interface = name_of(facts, contact.to, contact.place);
            failed.entry((format!("{interface}: {}", words(fault)), fix(fault))).or_default().push(contact);
        }
    }
    if failed.is_empty() {
        let nodes = facts.nodes.len();
        let all = nodes * nodes.saturating_sub(1);
        let pairs =
            tried.iter().map(|contact| (contact.from, contact.to)).collect::<std::collections::BTreeSet<_>>().len();
        return about_all(facts, Outcome::pass(format!("{pairs} of {all} directed pairs connected")));
    }
    // Data goes over HCAs where there are some, so that only the first interface is needed.
    let is_grave = is_first || !facts.nodes.iter().any(Node::has_hcas);
    let line = |((what, fix), contacts): ((String, &'static str), Vec<&Contact>)| {
        let pair = |contact: &&Contact| format!("{} to {}", host(facts, contact.from), host(facts, contact.to));
        let shown: Vec<String> = contacts.iter().take(SHOWN).map(pair).collect();
        let more = contacts.len().saturating_sub(SHOWN);
        let more = if more == 0 { String::new() } else { format!(", and {more} more") };
        let evidence = format!("{what}: {}{more}", shown.join(", "));
        let fault = if is_grave { Fault::fail(evidence) } else { Fault::warn(evidence) };
        let fault = if fix.is_empty() { fault } else { fault.fixed_by(fix) };
        let mut places: Vec<usize> = contacts.iter().flat_map(|contact| [contact.from, contact.to]).collect();
        places.sort_unstable();
        places.dedup();
        (places.into_iter().map(|place| host(facts, place).to_owned()).collect(), fault.into())
    };
    failed.into_iter().map(line).collect()
}

fn host(facts: &Facts, place: usize) -> &str {
    facts.nodes.get(place).map_or("?", |node| node.host.as_str())
}

fn name_of(facts: &Facts, node: usize, place: usize) -> &str {
    let interfaces = facts.nodes.get(node).map(|node| node.interfaces.interfaces.as_slice()).unwrap_or_default();
    interfaces.get(place).map_or("?", |(name, _)| name.as_str())
}

fn words(fault: &DialFault) -> String {
    match fault {
        DialFault::Silent => "no answer in time".to_owned(),
        DialFault::Refused => "refused".to_owned(),
        DialFault::Stranger => "another machine answers at this address".to_owned(),
        DialFault::NoRoute(why) | DialFault::Other(why) => why.clone(),
    }
}

/// What to do, where it is closer than the check's own.
fn fix(fault: &DialFault) -> &'static str {
    match fault {
        DialFault::Silent => {
            "a firewall drops the packets, or the interface leads elsewhere: open TCP between the nodes, or name another with NCCL_SOCKET_IFNAME"
        }
        DialFault::Refused => "a firewall rejects the packets: open TCP between the nodes",
        DialFault::Stranger => {
            "the address is on several machines, as those of container bridges are: name the right interface with NCCL_SOCKET_IFNAME"
        }
        DialFault::NoRoute(_) => {
            "give that interface a route to the other nodes, or name another with NCCL_SOCKET_IFNAME"
        }
        DialFault::Other(_) => "",
    }
}

/// The interface that NCCL starts up with.
fn first(node: &Node) -> Option<&(String, Ipv4Addr)> {
    node.interfaces.interfaces.first()
}

fn names(node: &Node) -> Option<String> {
    let names: Vec<&str> = node.interfaces.interfaces.iter().map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| fold(&names))
}

fn mtu_alike(facts: &Facts) -> Outcomes {
    let mtu = |node: &Node| {
        let (name, _) = first(node)?;
        let own = node.inventory.interfaces.iter().find(|interface| interface.name == *name)?;
        (own.mtu > 0).then(|| format!("MTU {}", own.mtu))
    };
    alike(facts, mtu, Fault::fail)
}

fn speed_alike(facts: &Facts) -> Outcomes {
    let speed = |node: &Node| {
        let (name, _) = first(node)?;
        let own = node.inventory.interfaces.iter().find(|interface| interface.name == *name)?;
        Some(format!("{} Mb/s", own.speed_mbps?))
    };
    alike(facts, speed, Fault::warn)
}
