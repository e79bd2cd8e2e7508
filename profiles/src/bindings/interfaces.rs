//! Candidates for `NCCL_SOCKET_IFNAME`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{Candidate, Evidence, Finding, Node, Offer, Verdict, most};
use crate::{
    grammar::ifname::{InterfaceList, MOST_INTERFACES, is_local},
    topology::{Address, Interface, by_number},
};

/// The variable.
pub const INTERFACES: &str = "NCCL_SOCKET_IFNAME";

/// Pairs are candidates up to this many interfaces (10 pairs); above, single ones only.
const MOST_PAIRED: usize = 5;

/// What may be tried of [`INTERFACES`], and what not and why not. `None` where no node tells of its interfaces.
pub(super) fn interfaces(nodes: &[Node<'_>]) -> Option<(Offer, Vec<Finding>)> {
    if nodes.iter().all(|node| node.machine.interfaces.is_empty()) {
        return None;
    }
    if nodes.len() < 2 {
        return Some((Offer::new(INTERFACES, "one node has no network to choose"), Vec::new()));
    }
    let mut offer = Offer::new(INTERFACES, "there are no two interfaces that every node has");
    let (mut usable, mut findings) = (Vec::new(), Vec::new());
    for name in names(nodes) {
        match problem(nodes, name) {
            None => usable.push(name),
            Some(evidence) => {
                findings.push(Finding {
                    variable: INTERFACES,
                    what: name.to_owned(),
                    verdict: Verdict::Refused,
                    evidence,
                });
            }
        }
    }
    // What NCCL and the native engine take where they are not told otherwise.
    let others: BTreeSet<&str> = names(nodes).into_iter().filter(|name| !is_local(name)).collect();
    let list = |of: &[&str]| {
        let is_default = others.len() == of.len() && of.iter().all(|name| others.contains(name));
        let why = if let [only] = of { format!("{only} alone") } else { of.join(" and ") };
        let value = InterfaceList::exactly(of.iter().copied()).to_string();
        Candidate { value, why, alike: Vec::new(), is_default }
    };
    offer.candidates = usable.iter().map(|name| list(&[*name])).collect();
    if (2..=MOST_PAIRED).contains(&usable.len()) {
        for (at, first) in usable.iter().enumerate() {
            offer.candidates.extend(usable.iter().skip(at + 1).map(|second| list(&[*first, *second])));
        }
    }
    Some((offer, findings))
}

/// Interfaces that carry data where nothing is said, on the node that has the most of them.
pub(super) fn by_default(nodes: &[Node<'_>]) -> u16 {
    let of = |node: &Node<'_>| node.machine.interfaces.iter().filter(|i| is_candidate(i) && !is_local(&i.name)).count();
    nodes.iter().map(of).max().unwrap_or(0).min(MOST_INTERFACES) as u16
}

/// Interfaces of any node that have an IPv4 address and are no loopback: those of the first node in its order, then the others.
fn names<'n>(nodes: &[Node<'n>]) -> Vec<&'n str> {
    let of = |node: &Node<'n>| {
        let interfaces = node.machine.interfaces.iter();
        interfaces.filter(|interface| is_candidate(interface)).map(|interface| interface.name.as_str())
    };
    let mut names: Vec<&str> = nodes.first().into_iter().flat_map(of).collect();
    let mut others: Vec<&str> = nodes.iter().flat_map(of).filter(|name| !names.contains(name)).collect();
    others.sort_by(|a, b| by_number(a, b));
    others.dedup();
    names.extend(others);
    names
}

fn is_candidate(interface: &Interface) -> bool {
    !interface.is_loopback && interface.addresses.iter().any(|address| address.ip.is_ipv4())
}

/// Why an interface cannot be named for all nodes.
fn problem(nodes: &[Node<'_>], name: &str) -> Option<Evidence> {
    let everywhere = |text: &str| Some(Evidence { hosts: Vec::new(), text: text.to_owned() });
    if is_local(name) {
        return everywhere("is a bridge of containers or virtual machines, which leads to no other node");
    }
    let found = |node: &Node<'_>| {
        node.machine.interfaces.iter().find(|interface| interface.name == name && is_candidate(interface)).cloned()
    };
    let of_nodes: Vec<(&Node<'_>, Option<Interface>)> = nodes.iter().map(|node| (node, found(node))).collect();
    let lacking = of_nodes.iter().filter(|(_, found)| found.is_none());
    let hosts: Vec<String> = lacking.map(|(node, _)| node.host.to_owned()).collect();
    if !hosts.is_empty() {
        let text = "is not there, is down or has no IPv4 address".to_owned();
        return Some(Evidence { hosts, text });
    }
    same_address(&of_nodes).or_else(|| other_network(&of_nodes))
}

/// Nodes with the same address cannot reach each other by it. Several that are one machine can.
fn same_address(of_nodes: &[(&Node<'_>, Option<Interface>)]) -> Option<Evidence> {
    let mut owners: BTreeMap<IpAddr, Vec<&Node<'_>>> = BTreeMap::new();
    for (node, interface) in of_nodes {
        for address in interface.iter().flat_map(|interface| &interface.addresses) {
            owners.entry(address.ip).or_default().push(node);
        }
    }
    let is_shared = |nodes: &[&Node<'_>]| {
        let first = nodes.first().map(|node| node.machine_id).unwrap_or_default();
        nodes.iter().any(|node| first.is_empty() || node.machine_id != first)
    };
    let (ip, nodes) = owners.into_iter().find(|(_, nodes)| nodes.len() > 1 && is_shared(nodes))?;
    let hosts = nodes.iter().map(|node| node.host.to_owned()).collect();
    Some(Evidence { hosts, text: format!("has one address, {ip}: they do not reach each other by it") })
}

/// Nodes that share no IPv4 network with the others, where networks are known.
fn other_network(of_nodes: &[(&Node<'_>, Option<Interface>)]) -> Option<Evidence> {
    let networks = |interface: &Interface| -> BTreeSet<(IpAddr, u8)> {
        let v4 = interface.addresses.iter().filter(|address| address.ip.is_ipv4());
        v4.filter_map(Address::network).collect()
    };
    let known: Vec<(&str, BTreeSet<(IpAddr, u8)>)> =
        of_nodes.iter().filter_map(|(node, interface)| Some((node.host, networks(interface.as_ref()?)))).collect();
    if known.iter().any(|(_, networks)| networks.is_empty()) {
        return None;
    }
    let (first, bits) = most(known.iter().flat_map(|(_, networks)| networks.iter().copied()))?;
    let elsewhere = known.iter().filter(|(_, networks)| !networks.contains(&(first, bits)));
    let hosts: Vec<String> = elsewhere.map(|(host, _)| (*host).to_owned()).collect();
    let text = format!(
        "is not in {first}/{bits}, in which most nodes have it: where these networks are routed, --add {INTERFACES}=={} \
         tries it anyway",
        of_nodes.iter().find_map(|(_, interface)| Some(interface.as_ref()?.name.as_str())).unwrap_or_default()
    );
    (!hosts.is_empty()).then_some(Evidence { hosts, text })
}
