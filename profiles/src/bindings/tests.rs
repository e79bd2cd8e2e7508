use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    ceilings::{Ceiling, Failure, Memory, Outcome},
    *,
};
use crate::topology::{Address, Gpu, Hca, Interface, Lanes, PcieLink, Port};

const WIDE: Lanes = Lanes { mtps: 32_000, count: 16 };

fn port(number: u16, state: &str, layer: &str, rate: &str) -> Port {
    Port { number, state: state.into(), link_layer: layer.into(), rate: rate.into() }
}

fn hca(name: &str) -> Hca {
    let link = PcieLink { current: Some(WIDE), most: Some(WIDE) };
    let ports = vec![port(1, "ACTIVE", "InfiniBand", "400 Gb/s")];
    Hca { name: name.into(), link, ports, ..Hca::default() }
}

/// HCAs `mlx5_N`; by GPU a letter for each: `x` PIX, `b` PHB, `n` NODE, `s` SYS.
fn machine(rows: &[&str]) -> Machine {
    let distance = |letter| match letter {
        'x' => Some(PcieDistance::Pix),
        'b' => Some(PcieDistance::Phb),
        'n' => Some(PcieDistance::Node),
        's' => Some(PcieDistance::Sys),
        _ => None,
    };
    Machine {
        gpus: rows.iter().map(|_| Gpu::default()).collect(),
        hcas: (0..rows[0].len()).map(|number| hca(&format!("mlx5_{number}"))).collect(),
        to_hcas: rows.iter().map(|row| row.chars().map(distance).collect()).collect(),
        ..Machine::default()
    }
}

/// Two GPUs with an HCA each, and one that is far from both.
fn three() -> Machine {
    machine(&["xss", "sxs"])
}

fn nodes(machines: &[Machine]) -> Vec<Node<'_>> {
    ["n1", "n2", "n3", "n4"].into_iter().zip(machines).map(|(host, machine)| Node::whole(host, machine)).collect()
}

fn bindings(machines: &[Machine]) -> Bindings {
    Bindings::of(&nodes(machines), &Ceilings::default())
}

/// `VALUE: why`, in brackets where it is the same as unset.
fn candidates(bindings: &Bindings, variable: &str) -> Vec<String> {
    let offer = bindings.offer(variable).unwrap();
    let line = |known: &Candidate| {
        let alike = if known.alike.is_empty() { String::new() } else { format!(" (= {})", known.alike.join(" ")) };
        let line = format!("{}{alike}: {}", known.value, known.why);
        if known.is_default { format!("[{line}]") } else { line }
    };
    if offer.candidates.is_empty() { vec![offer.why_none.clone()] } else { offer.candidates.iter().map(line).collect() }
}

fn findings(bindings: &Bindings) -> Vec<String> {
    let line = |Finding { what, verdict, evidence: Evidence { hosts, text }, .. }: &Finding| {
        let hosts = if hosts.is_empty() { String::new() } else { format!(" ({})", hosts.join(" ")) };
        format!("{what} {verdict}: {text}{hosts}")
    };
    bindings.findings.iter().map(line).collect()
}

#[test]
fn an_hca_without_a_gpu_is_left_out_of_some_lists() {
    let found = bindings(&[three(), three()]);
    assert_eq!(findings(&found), ["mlx5_2:1 storage or management?: is SYS at best from any GPU, others are PIX"]);
    assert_eq!(
        candidates(&found, HCAS),
        [
            "=mlx5_0:1,mlx5_1:1: without what seems to be for storage or management: mlx5_2:1; those that are PIX or PXB of a GPU that \
             is used; for each GPU that is used the nearest HCA that no other has",
            "[=mlx5_0:1,mlx5_1:1,mlx5_2:1: all 3 that every node has, up]",
            "=mlx5_0:1: mlx5_0:1 alone",
            "=mlx5_1:1: mlx5_1:1 alone",
            "=mlx5_2:1: mlx5_2:1 alone",
        ]
    );
    // Where one GPU is used, one HCA is near.
    let machines = [three(), three()];
    let mut used = nodes(&machines);
    for node in &mut used {
        node.gpus = Some(vec![1]);
    }
    let found = Bindings::of(&used, &Ceilings::default());
    let near = "=mlx5_1:1: those that are PIX or PXB of a GPU that is used; for each GPU that is used the nearest HCA that no other has; \
                mlx5_1:1 alone";
    assert!(candidates(&found, HCAS).contains(&near.to_owned()), "{:?}", candidates(&found, HCAS));
}

#[test]
fn what_is_not_the_same_on_all_nodes_is_refused_by_name() {
    let mut odd = three();
    odd.hcas[0].ports[0].state = "DOWN Polling".into();
    odd.hcas[2].ports[0].link_layer = "Ethernet".into();
    let mut renamed = three();
    renamed.hcas[1].name = "ibp1".into();
    let found = bindings(&[three(), three(), odd, renamed]);
    assert_eq!(
        findings(&found),
        [
            "ibp1:1 not bound: is not there (n1 n2 n3)",
            "mlx5_0:1 not bound: is down (DOWN Polling) (n3)",
            "mlx5_1:1 not bound: is not there (n4)",
            "mlx5_2:1 not bound: has Ethernet, elsewhere InfiniBand (n3)",
        ]
    );
    assert_eq!(candidates(&found, HCAS), ["no HCA is there and up on all nodes"]);
    assert_eq!(candidates(&found, CROSS_NIC), ["there is one rail, or none"]);
    let bare = Machine { hcas: Vec::new(), to_hcas: Vec::new(), ..three() };
    assert_eq!(candidates(&bindings(&[bare.clone(), bare]), HCAS), ["no node has an HCA"]);
}

#[test]
fn what_is_degraded_on_a_node_has_lists_without_it() {
    let mut narrow = three();
    narrow.hcas[0].link.current = Some(Lanes { mtps: 16_000, count: 8 });
    narrow.hcas[1].ports[0].rate = "100 Gb/s".into();
    let found = bindings(&[three(), narrow, three()]);
    assert_eq!(
        findings(&found)[..2],
        [
            "mlx5_0:1 degraded: has a PCIe link of 16 GT/s x8 of 32 GT/s x16 (n2)",
            "mlx5_1:1 degraded: has 100 Gb/s, those that serve the GPUs have 400 Gb/s (n2)",
        ]
    );
    let values = found.offer(HCAS).unwrap().values();
    assert_eq!(values, ["=mlx5_0:1,mlx5_1:1", "=mlx5_2:1", "=mlx5_0:1", "=mlx5_1:1"]);
    // Where all nodes have it so, it is how the port is.
    let slow = || {
        let mut machine = three();
        machine.hcas[1].ports[0].rate = "25 Gb/s".into();
        machine
    };
    let said = findings(&bindings(&[slow(), slow()]));
    let expected = "mlx5_1:1 storage or management?: has 25 Gb/s, those that serve the GPUs have 400 Gb/s";
    assert!(said.contains(&expected.to_owned()), "{said:?}");
}

#[test]
fn other_link_layers_and_networks_are_told() {
    let roce = |number: usize| -> Machine {
        let mut machine = machine(&["bbbb"]);
        for (at, hca) in machine.hcas.iter_mut().enumerate() {
            hca.ports[0].link_layer = "Ethernet".into();
            hca.nets = vec![format!("eth{at}")];
        }
        machine.hcas[3].ports[0].link_layer = "InfiniBand".into();
        let networks = ["10.0.0", "10.0.0", "10.9.0", "10.0.0"];
        let interface = |(at, network): (usize, &str)| Interface {
            name: format!("eth{at}"),
            is_loopback: false,
            addresses: vec![Address {
                ip: format!("{network}.{}", 10 * number + at).parse().unwrap(),
                prefix: Some(24),
            }],
        };
        machine.interfaces = networks.into_iter().enumerate().map(interface).collect();
        machine
    };
    assert_eq!(
        findings(&bindings(&[roce(1), roce(2)])),
        [
            "mlx5_2:1 storage or management?: is in the network 10.9.0.0/24, most are in 10.0.0.0/24",
            "mlx5_3:1 storage or management?: has InfiniBand, those that serve the GPUs have Ethernet",
        ]
    );
}

#[test]
fn lists_differ_by_node_where_gpus_sit_elsewhere() {
    let swapped = machine(&["xss", "ssx"]);
    let found = bindings(&[three(), three(), swapped]);
    let refused: Vec<String> = findings(&found).into_iter().filter(|line| line.starts_with(HCAS)).collect();
    assert_eq!(
        refused,
        [
            "NCCL_IB_HCA not bound: those that are PIX or PXB of a GPU that is used would be another list than on the other nodes, which \
             have mlx5_0:1, mlx5_1:1 (n3)",
            "NCCL_IB_HCA not bound: for each GPU that is used the nearest HCA that no other has would be another list than on the other \
             nodes, which have mlx5_0:1, mlx5_1:1 (n3)",
        ]
    );
}

#[test]
fn no_list_is_longer_than_nccl_reads() {
    let row = "b".repeat(33);
    let found = bindings(&[machine(&[&row]), machine(&[&row])]);
    assert_eq!(
        findings(&found),
        ["NCCL_IB_HCA not bound: all 33 that every node has, up would be 33 HCAs, and NCCL reads 32"]
    );
    assert_eq!(found.offer(HCAS).unwrap().values(), ["=mlx5_0:1"], "the nearest of the GPU");
}

#[test]
fn efa_and_hcas_without_a_name_are_in_no_list() {
    let mut efa = three();
    efa.hcas[0].ports[0].link_layer = "Unknown".into();
    efa.hcas[1].name = "0101:00:00.0".into();
    let found = bindings(&[efa.clone(), efa]);
    let said = findings(&found);
    assert!(said[0].starts_with("0101:00:00.0:1 not bound: has no name that NCCL_IB_HCA could name"), "{said:?}");
    assert!(said[1].starts_with("mlx5_0:1 not bound: has the link layer Unknown: NCCL's verbs"), "{said:?}");
    let expected =
        "=mlx5_2:1: for each GPU that is used the nearest HCA that no other has; the one that every node has, up";
    assert_eq!(candidates(&found, HCAS), [expected]);
    // A source that tells of no ports means all of them.
    let mut silent = machine(&["xs"]);
    silent.hcas.iter_mut().for_each(|hca| hca.ports.clear());
    assert_eq!(bindings(&[silent]).offer(HCAS).unwrap().values(), ["=mlx5_0", "=mlx5_1"]);
}

#[test]
fn a_sites_own_list_is_kept_to() {
    let machines = [three(), three()];
    let mut limited = nodes(&machines);
    limited[1].only = Some(HcaList::parse("^=mlx5_1").unwrap());
    let found = Bindings::of(&limited, &Ceilings::default());
    assert_eq!(findings(&found)[0], "mlx5_1:1 not bound: is left out by the site's nccl.conf (n2)");
    assert!(found.offer(HCAS).unwrap().candidates.iter().all(|known| !known.value.contains("mlx5_1")));
}

#[test]
fn levels_are_those_that_reach_other_pairs() {
    for (rows, expected) in [
        // Each GPU has one at its switch, the other is across sockets.
        (
            &["xs", "sx"][..],
            &[
                "LOC: GPUDirect RDMA for 0 of 4 pairs of GPU and HCA",
                "[PIX (= PXB PHB): GPUDirect RDMA for 2 of 4 pairs of GPU and HCA]",
                "SYS: GPUDirect RDMA for 4 of 4 pairs of GPU and HCA",
            ][..],
        ),
        // NODE is PHB to NCCL.
        (
            &["nb"],
            &[
                "[LOC (= PIX PXB): GPUDirect RDMA for 0 of 2 pairs of GPU and HCA]",
                "PHB (= SYS): GPUDirect RDMA for 2 of 2 pairs of GPU and HCA",
            ],
        ),
        (
            &["xns"],
            &[
                "LOC: GPUDirect RDMA for 0 of 3 pairs of GPU and HCA",
                "[PIX (= PXB): GPUDirect RDMA for 1 of 3 pairs of GPU and HCA]",
                "PHB: GPUDirect RDMA for 2 of 3 pairs of GPU and HCA",
                "SYS: GPUDirect RDMA for 3 of 3 pairs of GPU and HCA",
            ],
        ),
    ] {
        assert_eq!(candidates(&bindings(&[machine(rows)]), GDR_LEVEL), expected, "{rows:?}");
    }
    assert!(bindings(&[machine(&["??"])]).offer(GDR_LEVEL).is_none(), "nothing is known");
    let found = bindings(&[machine(&["xs", "sx"])]);
    let offer = found.offer(GDR_LEVEL).unwrap();
    let useful = |listed: &[&str]| offer.useful(&listed.iter().map(ToString::to_string).collect::<Vec<_>>()).join(" ");
    assert_eq!(useful(&["PHB", "SYS"]), "SYS", "PHB reaches no pair more than NCCL's own level");
    assert_eq!(useful(&["LOC", "PXB", "0", "SYS", "SYS"]), "LOC 0 SYS");
}

#[test]
fn settings_that_are_the_same_together_are_known() {
    let words = |values: &Vec<Values>| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ");
    // One GPU, one HCA at its switch, one at its bridge, one across sockets.
    let found = bindings(&[machine(&["xns"]), machine(&["xns"])]);
    let idle: Vec<String> = found.idle.iter().map(|Idle { with, knob }| format!("{with}: {knob}")).collect();
    assert_eq!(
        idle,
        [
            "NCCL_IB_HCA==mlx5_0:1: NCCL_CROSS_NIC",
            "NCCL_IB_HCA==mlx5_0:1: NCCL_NET_GDR_LEVEL=PIX,PXB,PHB,SYS",
            "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1: NCCL_NET_GDR_LEVEL=PIX,PXB",
            "NCCL_IB_HCA==mlx5_1:1: NCCL_CROSS_NIC",
            "NCCL_IB_HCA==mlx5_1:1: NCCL_NET_GDR_LEVEL=LOC,PIX,PXB",
            "NCCL_IB_HCA==mlx5_2:1: NCCL_CROSS_NIC",
            "NCCL_IB_HCA==mlx5_2:1: NCCL_NET_GDR_LEVEL=LOC,PIX,PXB,PHB",
        ]
    );
    // Both reach the HCA at the bridge, which NCCL's own level does not.
    let forbidden: Vec<String> = found.forbidden.iter().map(words).collect();
    assert_eq!(forbidden, ["NCCL_IB_HCA==mlx5_1:1 + NCCL_NET_GDR_LEVEL=SYS"]);
}

fn interface(name: &str, ip: &str, prefix: u8) -> Interface {
    let addresses = vec![Address { ip: ip.parse().unwrap(), prefix: Some(prefix) }];
    Interface { name: name.into(), is_loopback: name == "lo", addresses }
}

fn with_interfaces(interfaces: &[(&str, &str)]) -> Machine {
    let interfaces = interfaces.iter().map(|(name, ip)| interface(name, ip, 24)).collect();
    Machine { interfaces, ..Machine::default() }
}

#[test]
fn interfaces_are_those_that_connect_the_nodes() {
    let a = with_interfaces(&[
        ("lo", "127.0.0.1"),
        ("docker0", "172.17.0.1"),
        ("railB", "10.2.0.1"),
        ("railA", "10.1.0.1"),
        ("ib9", "fe80::1"),
        ("mgmt", "192.168.1.1"),
        ("usb0", "169.254.3.1"),
    ]);
    let b = with_interfaces(&[
        ("lo", "127.0.0.1"),
        ("docker0", "172.17.0.1"),
        ("railA", "10.1.0.2"),
        ("railB", "10.2.0.2"),
        ("eth9", "10.9.0.2"),
        ("mgmt", "192.168.7.1"),
        ("usb0", "169.254.3.1"),
    ]);
    let found = bindings(&[a.clone(), b]);
    assert_eq!(
        candidates(&found, INTERFACES),
        ["=railB: railB alone", "=railA: railA alone", "=railB,railA: railB and railA"]
    );
    assert_eq!(
        findings(&found),
        [
            "docker0 not bound: is a bridge of containers or virtual machines, which leads to no other node",
            "mgmt not bound: is not in 192.168.7.0/24, in which most nodes have it: where these networks are routed, --add \
             NCCL_SOCKET_IFNAME==mgmt tries it anyway (n1)",
            "usb0 not bound: has one address, 169.254.3.1: they do not reach each other by it (n1 n2)",
            "eth9 not bound: is not there, is down or has no IPv4 address (n1)",
        ]
    );
    assert_eq!(candidates(&bindings(std::slice::from_ref(&a)), INTERFACES), ["one node has no network to choose"]);
    assert!(bindings(&[three(), three()]).offer(INTERFACES).is_none(), "nobody tells of interfaces");
    // Two that are one machine share their addresses.
    let machines = [a.clone(), a];
    let mut same = nodes(&machines);
    for node in &mut same {
        node.machine_id = "boot";
    }
    let values = Bindings::of(&same, &Ceilings::default()).offer(INTERFACES).unwrap().values();
    assert_eq!(values.len(), 4 + 6, "{values:?}");
}

#[test]
fn what_is_the_same_as_no_setting_is_known() {
    let one = |host: u8| {
        with_interfaces(&[("lo", "127.0.0.1"), ("eth0", &format!("10.0.0.{host}")), ("docker0", "172.17.0.1")])
    };
    let mut found = bindings(&[one(1), one(2)]);
    assert_eq!(candidates(&found, INTERFACES), ["[=eth0: eth0 alone]"]);
    assert!(found.offer(INTERFACES).unwrap().values().is_empty());
    found.set_by_site(INTERFACES);
    assert_eq!(found.offer(INTERFACES).unwrap().values(), ["=eth0"]);
    let two = |host: u8| with_interfaces(&[("a", &format!("10.0.0.{host}")), ("b", &format!("10.0.1.{host}"))]);
    assert_eq!(bindings(&[two(1), two(2)]).offer(INTERFACES).unwrap().values(), ["=a", "=b"]);
    let three = |host: u8| {
        with_interfaces(&[
            ("a", &format!("10.0.0.{host}")),
            ("b", &format!("10.0.1.{host}")),
            ("c", &format!("10.0.2.{host}")),
        ])
    };
    let values = bindings(&[three(1), three(2)]).offer(INTERFACES).unwrap().values();
    assert_eq!(values, ["=a", "=b", "=c", "=a,b", "=a,c", "=b,c"]);
}

fn measured(hca: &str, outcome: &Outcome) -> Vec<Ceiling> {
    let way = |node: &str, peer: &str| Ceiling {
        node: node.into(),
        hca: hca.into(),
        port: 1,
        peer: peer.into(),
        memory: Memory::Host,
        outcome: outcome.clone(),
    };
    vec![way("n1", "n2"), way("n2", "n1")]
}

#[test]
fn what_was_measured_prunes_the_lists() {
    let machines = [three(), three()];
    let gbs = |gbs| Outcome::Measured { gbs, us: None };
    let of = |outcomes: [Outcome; 3]| {
        let links =
            outcomes.into_iter().enumerate().flat_map(|(at, outcome)| measured(&format!("mlx5_{at}"), &outcome));
        Bindings::of(&nodes(&machines), &Ceilings { links: links.collect() })
    };
    let found = of([gbs(40.0), gbs(4.0), gbs(36.5)]);
    assert_eq!(
        findings(&found)[0],
        "mlx5_1:1 not bound: measured 4.00 GB/s at worst, the median of its peers is 38.25 GB/s (n1 n2)"
    );
    let values = found.offer(HCAS).unwrap().values();
    assert_eq!(values, ["=mlx5_0:1", "=mlx5_0:1,mlx5_2:1", "=mlx5_2:1"], "all that are left are not all there are");
    let slow = of([gbs(40.0), gbs(30.0), gbs(40.0)]);
    assert!(findings(&slow)[0].starts_with("mlx5_1:1 degraded: measured 30.00 GB/s"), "{:?}", findings(&slow));
    assert!(slow.offer(HCAS).unwrap().values().contains(&"=mlx5_0:1".to_owned()), "without it, and storage");
    let failed = Outcome::Failed { failure: Failure::Connect, why: "refused".into() };
    let found = of([gbs(40.0), failed.clone(), gbs(40.0)]);
    assert_eq!(findings(&found)[0], "mlx5_1:1 not bound: no connection came about to n2: refused (n1 n2)");
    assert_eq!(
        of([failed.clone(), failed.clone(), failed]),
        bindings(&machines),
        "a probe that always fails says nothing"
    );
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let state = prop::sample::select(vec!["ACTIVE", "ACTIVE", "ACTIVE", "DOWN", ""]);
    let layer = prop::sample::select(vec!["InfiniBand", "InfiniBand", "Ethernet", "Unknown", ""]);
    let rate = prop::sample::select(vec!["400 Gb/s", "400 Gb/s", "100 Gb/s", ""]);
    let name = prop::sample::select(vec!["mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11", "ib0", "0101:00:00.0", "mlx5_1"]);
    let ports = prop::collection::vec((state, layer, rate), 0..3);
    let hcas = prop::collection::vec((name, ports), 0..6);
    let letters = prop::collection::vec("[xbns?]{6}", 0..4);
    (hcas, letters).prop_map(|(hcas, letters)| {
        let mut known = BTreeSet::new();
        let own = |(name, ports): (&str, Vec<(&str, &str, &str)>)| {
            let ports = (1..).zip(ports).map(|(number, (state, layer, rate))| port(number, state, layer, rate));
            Hca { ports: ports.collect(), ..hca(name) }
        };
        let hcas: Vec<Hca> = hcas.into_iter().filter(|(name, _)| known.insert(*name)).map(own).collect();
        let rows: Vec<&str> = letters.iter().map(|row| &row[..]).collect();
        let placed = if rows.is_empty() { Machine::default() } else { machine(&rows) };
        let to_hcas = placed.to_hcas.into_iter().map(|row| row.into_iter().take(hcas.len()).collect()).collect();
        Machine { hcas, to_hcas, gpus: placed.gpus, ..Machine::default() }
    })
}

proptest! {
    /// A list means the very ports that it names, on every node, and these are up there.
    #[test]
    fn every_list_selects_its_ports_and_no_others(machines in prop::collection::vec(any_machine(), 1..4)) {
        let found = bindings(&machines);
        let mut seen = BTreeSet::new();
        for candidate in &found.offer(HCAS).unwrap().candidates {
            prop_assert!(seen.insert(candidate.value.clone()), "twice: {}", candidate.value);
            let list = HcaList::parse(&candidate.value).unwrap();
            prop_assert!(list.is_exact && !list.is_excluding && list.trap().is_none());
            prop_assert_eq!(list.to_string(), candidate.value.clone());
            for machine in &machines {
                let mut selected = 0;
                for hca in &machine.hcas {
                    let named: Vec<_> = list.items.iter().filter(|item| item.name == hca.name).collect();
                    for port in &hca.ports {
                        let is_named = named.iter().any(|item| item.port.is_none_or(|number| number == port.number));
                        prop_assert_eq!(list.matches(&hca.name, port.number), is_named);
                        prop_assert!(!is_named || !port.is_down());
                    }
                    selected += named.len();
                }
                prop_assert_eq!(selected, list.items.len(), "a node lacks one of {}", candidate.value);
            }
        }
    }

    #[test]
    fn what_is_known_of_lists_is_of_candidates(machines in prop::collection::vec(any_machine(), 1..3)) {
        let found = bindings(&machines);
        let known: BTreeSet<String> =
            found.offer(HCAS).unwrap().candidates.iter().map(|candidate| candidate.value.clone()).collect();
        let lists = found.forbidden.iter().map(|settings| &settings[0]).chain(found.idle.iter().map(|idle| &idle.with));
        prop_assert!(lists.flat_map(|list| &list.values).all(|value| known.contains(value)));
    }
}
