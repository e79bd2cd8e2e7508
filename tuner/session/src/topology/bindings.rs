//! What jobs on some hosts can be bound to: from inventories to candidates, and the words for people.

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    bindings::{Bindings, Candidate, Evidence, Finding, HCAS, Node, Offer, PortId, Verdict, ceilings::Ceilings},
    grammar::{hca::HcaList, nccl_conf},
    topology::Machine,
};
use gdrtune_wire::Inventory;

use crate::connect::gpus_of_run;

/// What jobs with so many ranks on each of these hosts can be bound to.
pub(crate) fn of_run(hosts: &[&str], slots: &[u32], inventories: &[Inventory], ceilings: &Ceilings) -> Bindings {
    let machines: Vec<Machine> = inventories.iter().map(super::machine).collect();
    let nodes = hosts.iter().zip(slots).zip(inventories).zip(&machines);
    let nodes: Vec<Node<'_>> = nodes
        .map(|(((host, ranks), inventory), machine)| Node {
            host,
            machine_id: &inventory.boot_id,
            machine,
            gpus: used(inventory, *ranks, machine),
            only: only(inventory),
        })
        .collect();
    let mut bindings = Bindings::of(&nodes, ceilings);
    keep_to_site(&mut bindings, &inventories.iter());
    bindings
}

/// Notes what the sites of these nodes set.
fn keep_to_site<'i>(bindings: &mut Bindings, inventories: &(impl Iterator<Item = &'i Inventory> + Clone)) {
    let sets = |variable: &str| {
        inventories.clone().any(|node| node.site_env.get(variable).is_some() || by_conf(node, variable).is_some())
    };
    let set: Vec<&str> = bindings.offers.iter().map(|offer| offer.variable).filter(|variable| sets(variable)).collect();
    for variable in set {
        bindings.set_by_site(variable);
    }
}

/// What jobs that use all GPUs of these machines can be bound to. With an inventory, what its site sets counts as in a run; a
/// topology file knows nothing of that.
pub fn of_machines(machines: &[(&str, &Machine, Option<&Inventory>)]) -> Bindings {
    let nodes: Vec<Node<'_>> = machines
        .iter()
        .map(|(host, machine, inventory)| Node { only: inventory.and_then(only), ..Node::whole(host, machine) })
        .collect();
    let mut bindings = Bindings::of(&nodes, &Ceilings::default());
    keep_to_site(&mut bindings, &machines.iter().filter_map(|(.., inventory)| *inventory));
    bindings
}

/// Positions of the GPUs that so many workers take; `None` where it could be any.
fn used(inventory: &Inventory, ranks: u32, machine: &Machine) -> Option<Vec<usize>> {
    let gpus: Vec<usize> = gpus_of_run(&inventory.site_env, ranks)?.into_iter().map(|gpu| gpu as usize).collect();
    // Ranks that share GPUs have more numbers than there are.
    gpus.iter().all(|gpu| *gpu < machine.gpus.len()).then_some(gpus)
}

/// The list of HCAs that a settings file of the node has. A trial's environment would go over it, and must not bind what the site
/// leaves out.
fn only(inventory: &Inventory) -> Option<HcaList> {
    HcaList::parse(&by_conf(inventory, HCAS)?).ok()
}

/// What the settings files of a node set a variable to: the first that does.
fn by_conf(inventory: &Inventory, variable: &str) -> Option<String> {
    let read =
        |file: &gdrtune_wire::ConfFile| nccl_conf::parse(&file.text, &file.path).0.get(variable).map(str::to_owned);
    inventory.nccl_confs.iter().find_map(read)
}

/// Findings of one verdict and one reason, as one line each: `mlx5_[0-3]:1: degraded: has 100 Gb/s ... (n[2-3])`.
pub fn finding_lines(bindings: &Bindings, variable: &str) -> Vec<String> {
    let mut groups: Vec<(&Verdict, &Evidence, Vec<&str>)> = Vec::new();
    for Finding { what, verdict, evidence, .. } in bindings.findings.iter().filter(|found| found.variable == variable) {
        match groups.iter_mut().find(|(known, why, _)| *known == verdict && *why == evidence) {
            Some((_, _, names)) => names.push(what),
            None => groups.push((verdict, evidence, vec![what])),
        }
    }
    let line = |(verdict, Evidence { hosts, text }, names): (&Verdict, &Evidence, Vec<&str>)| {
        let on = if hosts.is_empty() { String::new() } else { format!(" (on {})", fold(hosts)) };
        format!("{}: {verdict}: {text}{on}", fold(&names))
    };
    groups.into_iter().map(line).collect()
}

/// A line for each candidate of a variable that differs from leaving it unset: `NCCL_IB_HCA==mlx5_0:1: ...`.
pub(crate) fn candidate_lines(offer: &Offer) -> Vec<String> {
    let tried = offer.candidates.iter().filter(|candidate| !candidate.is_default);
    tried.map(|Candidate { value, why, .. }| format!("{}={value}: {why}", offer.variable)).collect()
}

/// What a list of HCAs that the user or the site gives means on the nodes, where that is more or less than it says; in sentences.
pub(crate) fn odd_list(value: &str, hosts: &[&str], inventories: &[Inventory]) -> Option<String> {
    let list = HcaList::parse(value).ok().filter(|list| list.trap().is_some())?;
    let exact = HcaList { is_exact: true, ..list.clone() };
    let caught = |inventory: &Inventory| {
        let ports = inventory.hca_ports.iter();
        let caught = ports.filter(|port| list.matches(&port.hca, port.port) != exact.matches(&port.hca, port.port));
        caught.map(|port| PortId { hca: port.hca.clone(), port: Some(port.port) }.to_string()).collect::<Vec<_>>()
    };
    let by_host = hosts.iter().zip(inventories).map(|(host, inventory)| (host, caught(inventory)));
    let (host, ports) = by_host.into_iter().find(|(_, ports)| !ports.is_empty())?;
    let verb = if list.is_excluding { "excludes" } else { "means" };
    let ports = fold(&ports);
    Some(format!(
        "{HCAS}={value} also {verb} {ports} (on {host}), as names without `=` are prefixes: write {exact} if that is not meant"
    ))
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{
        bindings::{GDR_LEVEL, INTERFACES},
        vocab::PcieDistance,
    };
    use gdrtune_wire::{ConfFile, Gpu, Hca, HcaPort, Interface, Topology};

    use super::*;

    /// Two GPUs, each with an HCA at its switch, and `mlx5_10` far from both.
    fn node(host: u8) -> Inventory {
        let names = ["mlx5_0", "mlx5_1", "mlx5_10"];
        let hca = |name: &str| Hca { name: name.to_owned(), ..Hca::default() };
        let port = |name: &str| HcaPort {
            hca: name.to_owned(),
            port: 1,
            link_layer: "InfiniBand".into(),
            rate: "400 Gb/sec (4X NDR)".into(),
            state: "ACTIVE".into(),
            phys_state: "LinkUp".into(),
        };
        let (near, far) = (Some(PcieDistance::Pix), Some(PcieDistance::Sys));
        let interface = |(network, name): (u8, &str)| Interface {
            name: name.to_owned(),
            addresses: vec![[10, 0, network, host].into()],
            prefixes: vec![24],
            loopback: false,
            mtu: 9000,
            speed_mbps: None,
        };
        Inventory {
            boot_id: host.to_string(),
            interfaces: (0..).zip(["eth0", "eth1"]).map(interface).collect(),
            hca_ports: names.map(port).to_vec(),
            topology: Topology {
                gpus: vec![Gpu::default(); 2],
                hcas: names.map(hca).to_vec(),
                distances: vec![vec![near, far, far], vec![far, near, far]],
                ..Topology::default()
            },
            ..Inventory::default()
        }
    }

    fn values(bindings: &Bindings, variable: &str) -> Vec<String> {
        bindings.offer(variable).map(Offer::values).unwrap_or_default()
    }

    fn of(nodes: &[Inventory], ranks: u32) -> Bindings {
        of_run(&["n1", "n2"], &[ranks; 2], nodes, &Ceilings::default())
    }

    #[test]
    fn inventories_become_candidates_for_the_gpus_that_are_used() {
        let nodes = [node(1), node(2)];
        let both = of(&nodes, 2);
        assert_eq!(values(&both, HCAS)[0], "=mlx5_0:1,mlx5_1:1");
        assert_eq!(values(&both, INTERFACES), ["=eth0", "=eth1"]);
        assert_eq!(values(&both, GDR_LEVEL), ["LOC", "SYS"]);
        assert_eq!(
            finding_lines(&both, HCAS),
            ["mlx5_10:1: storage or management?: is SYS at best from any GPU, others are PIX"]
        );
        let one = of(&nodes, 1);
        assert!(one.why(HCAS, "=mlx5_0:1").unwrap().starts_with("those that are PIX or PXB of a GPU that is used"));
        // Ranks that share GPUs have more numbers than there are GPUs.
        assert_eq!(values(&of(&nodes, 4), HCAS), values(&both, HCAS));
    }

    #[test]
    fn a_sites_settings_are_kept_to() {
        let conf = |text: &str| ConfFile { path: "/etc/nccl.conf".into(), text: text.into() };
        let mut nodes = [node(1), node(2)];
        nodes[1].nccl_confs = vec![conf("NCCL_DEBUG=WARN\n"), conf("NCCL_IB_HCA=^=mlx5_10\nNCCL_SOCKET_IFNAME=eth\n")];
        let found = of(&nodes, 2);
        assert_eq!(finding_lines(&found, HCAS), ["mlx5_10:1: not bound: is left out by the site's nccl.conf (on n2)"]);
        assert!(values(&found, HCAS).contains(&"=mlx5_0:1,mlx5_1:1".to_owned()), "it is not what unset means on n1");
        assert_eq!(values(&found, INTERFACES), ["=eth0", "=eth1", "=eth0,eth1"], "unset means what the site says");
    }

    #[test]
    fn machines_with_inventories_keep_to_the_same_settings() {
        let mut nodes = [node(1), node(2)];
        let text = "NCCL_IB_HCA=^=mlx5_1\nNCCL_NET_GDR_LEVEL=SYS\n";
        nodes[1].nccl_confs = vec![ConfFile { path: "/etc/nccl.conf".into(), text: text.into() }];
        let machines = nodes.each_ref().map(crate::topology::machine);
        let of = |second: Option<&Inventory>| of_machines(&[("n1", &machines[0], None), ("n2", &machines[1], second)]);
        let (file, inventory) = (of(None), of(Some(&nodes[1])));
        let has = |found: &Bindings| values(found, HCAS).iter().any(|value| value.contains("mlx5_1:1"));
        assert!(has(&file) && !has(&inventory), "{:?}", values(&inventory, HCAS));
        assert_eq!(
            finding_lines(&inventory, HCAS)[0],
            "mlx5_1:1: not bound: is left out by the site's nccl.conf (on n2)"
        );
        let defaults = |found: &Bindings| {
            let offer = found.offer(GDR_LEVEL).unwrap();
            offer.candidates.iter().filter(|candidate| candidate.is_default).count()
        };
        assert_eq!((defaults(&file), defaults(&inventory)), (1, 0), "unset means what the file says");
    }

    #[test]
    fn a_prefix_that_means_more_than_it_says_is_told() {
        let nodes = [node(1), node(2)];
        let said = |value| odd_list(value, &["n1", "n2"], &nodes);
        assert_eq!(
            said("mlx5_0,mlx5_1").unwrap(),
            "NCCL_IB_HCA=mlx5_0,mlx5_1 also means mlx5_10:1 (on n1), as names without `=` are prefixes: write =mlx5_0,mlx5_1 if that is \
             not meant"
        );
        for value in ["=mlx5_1", "mlx5", "mlx5_10", "^=mlx5_1", "=^"] {
            assert_eq!(said(value), None, "{value}");
        }
        assert!(said("^mlx5_1").unwrap().contains("also excludes mlx5_10:1"));
    }
}
