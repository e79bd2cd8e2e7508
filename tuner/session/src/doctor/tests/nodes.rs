//! Cases of the checks of nodes as a whole, and of what lies between them.

use gdrtune_wire::*;

use super::{
    Case,
    Change::{All, Facts, Second},
    change::set,
};
use crate::doctor::{Clock, Contact, Node, Unusable, facts::Facts as Known};

fn recorded(facts: &mut Known) {
    facts.nodes = facts.nodes.iter().map(|node| Node::recorded(&node.host, node.inventory.clone())).collect();
}

fn fail(facts: &mut Known, wanted: fn(&Contact) -> bool, fault: &DialFault) {
    let contacts = facts.contacts.as_mut().unwrap().iter_mut();
    contacts.filter(|contact| wanted(contact)).for_each(|contact| contact.outcome = Err(fault.clone()));
}

fn alone(facts: &mut Known) {
    facts.nodes.truncate(1);
}

fn nccl(node: &mut Inventory) -> &mut Library {
    &mut node.system.libraries[0]
}

fn conf(node: &mut Inventory, text: &str) {
    node.nccl_confs.push(ConfFile { path: "/etc/nccl.conf".into(), text: text.into() });
}

fn python(version: &str) -> Library {
    Library {
        path: "/venv/nccl/lib/libnccl.so.2".into(),
        version: version.into(),
        cuda: "12.4".into(),
        found: LibrarySource::Python,
        ..Library::default()
    }
}

pub(super) const CASES: &[Case] = &[
    (
        "host-agent",
        "FAIL n4: auth refused: no key",
        Facts(|facts| {
            let (what, fix) = ("auth refused: no key".into(), "add the key".into());
            facts.unusable.push(Unusable { host: "n4".into(), what, fix });
        }),
    ),
    ("host-agent", "SKIP n[1-3]: recorded trees have no agents", Facts(recorded)),
    (
        "host-twice",
        "FAIL n[1-2]: all are the machine n1",
        Second(|n| (n.hostname, n.boot_id) = ("n1".into(), "boot-1".into())),
    ),
    ("host-twice", "WARN n[1-2]: these are containers", Second(|n| n.boot_id = "boot-1".into())),
    ("host-twice", "SKIP n1: fewer than two nodes", Facts(alone)),
    ("host-twice", "SKIP n[1-3]: no boot id could be read", All(|n| n.boot_id.clear())),
    (
        "host-clock",
        "WARN n2: its clock is 30 s ahead of most nodes'",
        Facts(|facts| {
            facts.clocks.as_mut().unwrap()[1] = Some(Clock { ahead_us: 30_000_500, error_us: 400 });
        }),
    ),
    (
        "host-clock",
        "FAIL n3: its clock is 3600 s behind most nodes'",
        Facts(|facts| {
            facts.clocks.as_mut().unwrap()[2] = Some(Clock { ahead_us: -3_600_000_000, error_us: 400 });
        }),
    ),
    // A slow answer says nothing.
    (
        "host-clock",
        "PASS n[1-3]: no clock is a second off",
        Facts(|facts| {
            facts.clocks.as_mut().unwrap()[1] = Some(Clock { ahead_us: 1_500_000, error_us: 900_000 });
        }),
    ),
    (
        "host-clock",
        "SKIP n[1-3]: fewer than two nodes told their time",
        Facts(|facts| facts.clocks = Ok(vec![None; 3])),
    ),
    ("host-clock", "SKIP n[1-3]: not asked", Facts(|facts| facts.clocks = Err("not asked for".into()))),
    ("host-busy", "SKIP n[1-3]: a recorded tree has no processes", Facts(recorded)),
    ("net-interface", "PASS n[1-3]: eth[0-1] (NCCL's own choice)", All(|n| n.interfaces.rotate_left(1))),
    (
        "net-interface",
        "FAIL n2: NCCL_SOCKET_IFNAME=ib0 names no interface with an address; there are lo,eth[0-1]",
        Second(|n| {
            set(n, "NCCL_SOCKET_IFNAME", "ib0");
        }),
    ),
    (
        "net-interface",
        "FAIL n2: NCCL's own choice takes br-4f2, which leads to no other node",
        Second(|n| {
            n.interfaces[1].name = "br-4f2".into();
        }),
    ),
    ("net-interface", "WARN n2: NCCL's own choice takes veth7", Second(|n| n.interfaces[2].name = "veth7".into())),
    (
        "net-interface",
        "FAIL n2: NCCL's own choice takes vmbr0",
        Second(|n| {
            n.interfaces[1].name = "vmbr0".into();
            let lower = vec!["veth100".into()];
            n.net_details.push(NetDetails {
                name: "vmbr0".into(),
                kind: NetKind::Bridge,
                lower,
                ..NetDetails::default()
            });
        }),
    ),
    // A bridge over a real device leads out.
    (
        "net-interface",
        "PASS n2: br0,eth1 (NCCL's own choice)",
        Second(|n| {
            n.interfaces[1].name = "br0".into();
            let lower = vec!["eth0".into(), "veth100".into()];
            n.net_details.push(NetDetails {
                name: "br0".into(),
                kind: NetKind::Bridge,
                lower,
                ..NetDetails::default()
            });
        }),
    ),
    ("net-interface", "WARN n2: lo: the loopback only", Second(|n| n.interfaces.truncate(1))),
    (
        "net-interface",
        "SKIP n2: IPv6 addresses only",
        Second(|n| {
            n.interfaces.truncate(1);
            n.interfaces[0].addresses = vec![std::net::Ipv6Addr::LOCALHOST.into()];
        }),
    ),
    ("net-interface", "SKIP n2: no interface has an address that could be read", Second(|n| n.interfaces.clear())),
    ("net-interface", "SKIP n[1-3]: a recorded tree has no addresses", Facts(recorded)),
    (
        "net-connect",
        "FAIL n[1-3]: eth0: no answer in time: n1 to n2, n3 to n2",
        Facts(|facts| {
            fail(facts, |contact| contact.to == 1 && contact.place == 0, &DialFault::Silent);
        }),
    ),
    (
        "net-connect",
        "FAIL n[1-3]: eth0: refused: n1 to n2, n1 to n3, n2 to n1, n2 to n3, and 2 more",
        Facts(|facts| {
            fail(facts, |_| true, &DialFault::Refused);
        }),
    ),
    (
        "net-connect",
        "FAIL n[1,3]: eth0: another machine answers at this address: n1 to n3",
        Facts(|facts| {
            fail(facts, |contact| (contact.from, contact.to, contact.place) == (0, 2, 0), &DialFault::Stranger);
        }),
    ),
    (
        "net-connect",
        "PASS n[1-3]: 6 of 6 directed pairs connected",
        Facts(|facts| {
            fail(facts, |contact| contact.place == 1, &DialFault::Silent);
        }),
    ),
    ("net-connect", "SKIP n[1-3]: not asked for", Facts(|facts| facts.contacts = Err("not asked for".into()))),
    ("net-connect", "SKIP n[1-3]: no pair of nodes was tried", Facts(|facts| facts.contacts = Ok(Vec::new()))),
    (
        "net-connect-others",
        "WARN n[1-2]: eth1: No route to host (os error 113): n1 to n2",
        Facts(|facts| {
            let fault = DialFault::NoRoute("No route to host (os error 113)".into());
            fail(facts, |contact| (contact.from, contact.to, contact.place) == (0, 1, 1), &fault);
        }),
    ),
    (
        "net-connect-others",
        "FAIL n[1-2]: eth1: no answer in time",
        Facts(|facts| {
            for node in &mut facts.nodes {
                node.inventory.topology.hcas.clear();
            }
            fail(facts, |contact| (contact.from, contact.to) == (0, 1), &DialFault::Silent);
        }),
    ),
    (
        "net-connect-others",
        "SKIP n[1-3]: NCCL takes one interface",
        Facts(|facts| {
            facts.contacts.as_mut().unwrap().retain(|contact| contact.place == 0);
        }),
    ),
    ("net-interface-alike", "WARN n[1-3]: n[1,3]: eth[0-1]; n2: eth0", Second(|n| n.interfaces.truncate(2))),
    ("net-interface-alike", "SKIP n[1-3]: fewer than two nodes tell it", All(|n| n.interfaces.clear())),
    ("net-mtu-alike", "FAIL n[1-3]: n[1,3]: MTU 9000; n2: MTU 1500", Second(|n| n.interfaces[1].mtu = 1500)),
    ("net-mtu-alike", "SKIP n1: fewer than two nodes", Facts(alone)),
    (
        "net-speed-alike",
        "WARN n[1-3]: n[1,3]: 100000 Mb/s; n2: 10000 Mb/s",
        Second(|n| n.interfaces[1].speed_mbps = Some(10_000)),
    ),
    ("net-speed-alike", "SKIP n[1-3]: fewer than two nodes tell it", All(|n| n.interfaces[1].speed_mbps = None)),
    (
        "nccl-library",
        "WARN n2: no libnccl.so is found",
        Second(|n| {
            n.system.libraries.remove(0);
        }),
    ),
    (
        "nccl-library",
        "SKIP n[1-3]: this recorded tree has no libraries",
        Facts(|facts| {
            facts.nodes.iter_mut().for_each(|node| node.inventory.system.libraries.clear());
            recorded(facts);
        }),
    ),
    ("nccl-version", "FAIL n2: 2.9.9 (", Second(|n| nccl(n).version = "2.9.9".into())),
    ("nccl-version", "WARN n2: 2.20.5 (", Second(|n| nccl(n).version = "2.20.5".into())),
    ("nccl-version", "SKIP n2: no NCCL library tells its version", Second(|n| nccl(n).version.clear())),
    (
        "nccl-cuda",
        "FAIL n2: 2.28.9 (/usr/lib/libnccl.so.2.28.9) for CUDA 13.0; the driver supports 12.4",
        Second(|n| {
            nccl(n).cuda = "13.0".into();
        }),
    ),
    // Newer minor versions run on older drivers of the same major one.
    ("nccl-cuda", "PASS n2: CUDA 12.9 on 12.4", Second(|n| nccl(n).cuda = "12.9".into())),
    ("nccl-cuda", "SKIP n2: the CUDA version of the driver is not known", Second(|n| n.system.cuda.clear())),
    ("nccl-cuda", "SKIP n2: no NCCL library tells the CUDA", Second(|n| nccl(n).cuda.clear())),
    (
        "nccl-copies",
        "WARN n2: 2.28.9 (/usr/lib/libnccl.so.2.28.9), 2.21.5 (/venv",
        Second(|n| {
            n.system.libraries.push(python("2.21.5"));
        }),
    ),
    ("nccl-copies", "PASS n[1-3]: 2.28.9", Second(|n| n.system.libraries.push(python("2.28.9")))),
    ("nccl-copies", "SKIP n2: no NCCL library tells its version", Second(|n| nccl(n).version.clear())),
    ("nccl-alike", "FAIL n[1-3]: n[1,3]: 2.28.9; n2: 2.27.3", Second(|n| nccl(n).version = "2.27.3".into())),
    ("nccl-alike", "PASS n[1-3]: 2.28.9", Second(|n| n.system.libraries.push(python("2.21.5")))),
    ("nccl-alike", "SKIP n1: fewer than two nodes", Facts(alone)),
    (
        "env-debugging",
        "WARN n2: NCCL's manual has NCCL_BUFFSIZE for debugging, not to be kept, in environment [debugging-variable]",
        Second(|n| {
            set(n, "NCCL_BUFFSIZE", "8388608");
        }),
    ),
    (
        "env-debugging",
        "WARN n2: NCCL's manual has NCCL_NTHREADS for debugging, not to be kept, in /etc/nccl.conf:1",
        Second(|n| {
            conf(n, "NCCL_NTHREADS=256\n");
        }),
    ),
    ("env-debugging", "SKIP n[1-3]: a recorded tree has no environment", Facts(recorded)),
    ("env-ll128", "FAIL n2: ", Second(|n| set(n, "NCCL_PROTO", "LL128"))),
    ("env-ll128", "FAIL n2: ", Second(|n| set(n, "NCCL_PROTO", "^LL"))),
    ("env-ll128", "PASS n2: 1 variables", Second(|n| set(n, "NCCL_PROTO", "^LL128"))),
    ("env-ll128", "SKIP n[1-3]: a recorded tree", Facts(recorded)),
    (
        "env-hca-prefix",
        "FAIL n2: NCCL_IB_HCA=mlx5_1: mlx5_1 also means mlx5_10",
        Second(|n| {
            n.topology.hcas[2].name = "mlx5_10".into();
            set(n, "NCCL_IB_HCA", "mlx5_1");
        }),
    ),
    (
        "env-hca-prefix",
        "WARN n2: NCCL_IB_HCA=mlx5_1: names without `=` are prefixes",
        Second(|n| set(n, "NCCL_IB_HCA", "mlx5_1")),
    ),
    ("env-hca-prefix", "PASS n2: NCCL_IB_HCA==mlx5_1", Second(|n| set(n, "NCCL_IB_HCA", "=mlx5_1"))),
    ("env-hca-prefix", "SKIP n2: NCCL_IB_HCA is no list", Second(|n| set(n, "NCCL_IB_HCA", "=^mlx5_1"))),
    (
        "env-hca-list",
        "FAIL n2: NCCL_IB_HCA==^mlx5_1: the modifiers are in the wrong order",
        Second(|n| set(n, "NCCL_IB_HCA", "=^mlx5_1")),
    ),
    (
        "env-hca-list",
        "FAIL n2: NCCL_IB_HCA==ibp0: no active port; there are mlx5_[0-2]",
        Second(|n| set(n, "NCCL_IB_HCA", "=ibp0")),
    ),
    (
        "env-hca-list",
        "WARN n2: NCCL_IB_HCA==mlx5_1,mlx5_7: there is no mlx5_7",
        Second(|n| set(n, "NCCL_IB_HCA", "=mlx5_1,mlx5_7")),
    ),
    ("env-hca-list", "PASS n2: 2 of 3 ports, all active", Second(|n| set(n, "NCCL_IB_HCA", "=mlx5_0,mlx5_1"))),
    (
        "env-hca-list",
        "SKIP n2: no port can be read",
        Second(|n| {
            n.hca_ports.clear();
            set(n, "NCCL_IB_HCA", "=mlx5_0");
        }),
    ),
    ("env-transport-off", "WARN n2: ", Second(|n| set(n, "NCCL_P2P_DISABLE", "1"))),
    ("env-transport-off", "SKIP n[1-3]: a recorded tree", Facts(recorded)),
    ("env-gdr-level", "WARN n2: ", Second(|n| set(n, "NCCL_NET_GDR_LEVEL", "SYS"))),
    ("env-gdr-level", "SKIP n[1-3]: a recorded tree", Facts(recorded)),
    (
        "env-file",
        "FAIL n2: NCCL_TOPO_FILE=/opt/topo.xml: Permission denied",
        Second(|n| {
            let problem = Some("Permission denied (os error 13)".into());
            n.named_files.push(NamedFile { variable: "NCCL_TOPO_FILE".into(), path: "/opt/topo.xml".into(), problem });
        }),
    ),
    (
        "env-file",
        "PASS n2: /opt/topo.xml",
        Second(|n| {
            n.named_files.push(NamedFile {
                variable: "NCCL_TOPO_FILE".into(),
                path: "/opt/topo.xml".into(),
                problem: None,
            });
        }),
    ),
    ("env-file", "SKIP n[1-3]: a recorded tree", Facts(recorded)),
    (
        "env-other",
        "WARN n2: nobody reads NCCL_SOCKET_IFNAM; it is nearly NCCL_SOCKET_IFNAME",
        Second(|n| set(n, "NCCL_SOCKET_IFNAM", "eth0")),
    ),
    ("env-other", "FAIL n2: ", Second(|n| conf(n, "export NCCL_IB_HCA=\"=mlx5_0\"\n"))),
    ("env-other", "SKIP n[1-3]: a recorded tree", Facts(recorded)),
    ("env-alike", "FAIL n[1-3]: NCCL_IB_TC differs: n[1,3]: not set; n2: 106", Second(|n| set(n, "NCCL_IB_TC", "106"))),
    (
        "env-alike",
        "WARN n[1-3]: NCCL_DEBUG differs: n[1,3]: not set; n2: WARN",
        Second(|n| set(n, "NCCL_DEBUG", "WARN")),
    ),
    ("env-alike", "SKIP n[1-3]: recorded trees have no environment", Facts(recorded)),
    ("sys-memlock", "FAIL n2: 64 KiB", Second(|n| n.system.memlock = Some(Memlock { soft: Some(65_536), hard: None }))),
    (
        "sys-memlock",
        "WARN n2: 4096 MiB",
        Second(|n| n.system.memlock = Some(Memlock { soft: Some(4 << 30), hard: None })),
    ),
    (
        "sys-memlock",
        "PASS n2: CAP_IPC_LOCK lifts the limit",
        Second(|n| {
            n.system.memlock = Some(Memlock { soft: Some(65_536), hard: None });
            n.system.container.ipc_lock = Some(true);
        }),
    ),
    ("sys-memlock", "SKIP n2: the limit cannot be read", Second(|n| n.system.memlock = None)),
    ("sys-shm", "FAIL n2: 64 MiB", Second(|n| n.system.memory.shm_bytes = Some(64 << 20))),
    ("sys-shm", "WARN n2: 512 MiB", Second(|n| n.system.memory.shm_bytes = Some(512 << 20))),
    ("sys-shm", "FAIL n2: 3 MiB free of 512G", Second(|n| n.system.memory.shm_free_bytes = Some(3 << 20))),
    ("sys-shm", "SKIP n2: its size cannot be read", Second(|n| n.system.memory.shm_bytes = None)),
    (
        "sys-governor",
        "WARN n2: powersave",
        Second(|n| n.system.cpu.governors = vec!["performance".into(), "powersave".into()]),
    ),
    ("sys-governor", "SKIP n2: no governor shows", Second(|n| n.system.cpu.governors.clear())),
    ("sys-frequency", "WARN n2: 2.0 GHz of 3.8 GHz", Second(|n| n.system.cpu.most_khz = Some(2_000_000))),
    ("sys-frequency", "SKIP n2: the CPUs' frequencies", Second(|n| n.system.cpu.most_khz = None)),
    ("sys-numa-balancing", "WARN n2: on", Second(|n| n.system.memory.numa_balancing = Some(true))),
    (
        "sys-numa-balancing",
        "PASS n2: one NUMA node",
        Second(|n| {
            n.system.memory.numa_balancing = Some(true);
            n.topology.numa_nodes = 1;
        }),
    ),
    ("sys-numa-balancing", "SKIP n2: the setting cannot be read", Second(|n| n.system.memory.numa_balancing = None)),
    (
        "sys-huge-pages",
        "PASS n2: few are free; transparent: always",
        Second(|n| n.system.memory.transparent_huge_pages = "always".into()),
    ),
    (
        "sys-huge-pages",
        "WARN n2: 204800 of 1048576 MiB are reserved",
        Second(|n| {
            n.system.memory.huge_pages = vec![HugePages { bytes: 2 << 20, total: 110_000, free: 102_400 }];
        }),
    ),
    (
        "sys-huge-pages",
        "SKIP n2: their settings cannot be read",
        Second(|n| n.system.memory = MemorySettings::default()),
    ),
    (
        "sys-container-memory",
        "WARN n2: 2048 MiB, for 2 GPUs",
        Second(|n| n.system.container.memory_bytes = Some(2 << 30)),
    ),
    ("sys-container-memory", "PASS n2: 65536 MiB", Second(|n| n.system.container.memory_bytes = Some(64 << 30))),
    ("sys-container-memory", "SKIP n[1-3]: a recorded tree has no control group", Facts(recorded)),
    ("sys-cpus", "WARN n2: 2 CPUs for 2 GPUs", Second(|n| n.cpus = 2)),
    ("sys-cpus", "WARN n2: time of 1.5 CPUs for 2 GPUs", Second(|n| n.system.container.cpu_milli = Some(1500))),
    ("sys-cpus", "SKIP n2: the number of CPUs", Second(|n| n.cpus = 0)),
    (
        "alike-gpus",
        "WARN n[1-3]: n[1,3]: 2 x NVIDIA H100 80GB HBM3; n2: 1 x NVIDIA H100 80GB HBM3, 1 x NVIDIA H200",
        Second(|n| {
            n.gpus[1] = "NVIDIA H200".into();
        }),
    ),
    ("alike-gpus", "SKIP n1: fewer than two nodes", Facts(alone)),
    ("alike-driver", "WARN n[1-3]: n[1,3]: 550.54.15; n2: 535.104.05", Second(|n| n.driver = "535.104.05".into())),
    ("alike-driver", "SKIP n[1-3]: fewer than two nodes tell it", All(|n| n.driver.clear())),
    (
        "alike-hcas",
        "FAIL n[1-3]: n[1,3]: 1 x Ethernet 400 Gb/sec (4X NDR), 2 x InfiniBand 400 Gb/sec (4X NDR); n2: 1 x Ethernet",
        Second(|n| {
            n.hca_ports.remove(1);
        }),
    ),
    (
        "alike-hcas",
        "PASS n[1-3]: 1 x InfiniBand 400 Gb/sec (4X NDR)",
        All(|n| {
            set(n, "NCCL_IB_HCA", "=mlx5_0");
            if n.hostname == "n2" {
                n.hca_ports.remove(1);
            }
        }),
    ),
    ("alike-hcas", "SKIP n1: fewer than two nodes", Facts(alone)),
    (
        "alike-hca-names",
        "WARN n[1-3]: n[1,3]: mlx5_[0-2]; n2: ibp1,mlx5_[0,2]",
        Second(|n| n.hca_ports[1].hca = "ibp1".into()),
    ),
    ("alike-hca-names", "SKIP n[1-3]: no node has any", All(|n| n.hca_ports.clear())),
    (
        "alike-hca-firmware",
        "WARN n[1-3]: MT_0000000838: 28.36.1010 on n2; 28.39.1002 on n[1-3]",
        Second(|n| {
            n.hca_details[1].firmware = "28.36.1010".into();
        }),
    ),
    (
        "alike-hca-firmware",
        "PASS n[1-3]: MT_0000000838: 28.39.1002; MT_0000000840: 20.1",
        Second(|n| {
            n.hca_details[1].board = "MT_0000000840".into();
            n.hca_details[1].firmware = "20.1".into();
        }),
    ),
    ("alike-hca-firmware", "SKIP n[1-3]: no HCA tells board and firmware", All(|n| n.hca_details.clear())),
    ("alike-ofed", "WARN n[1-3]: n[1,3]: 23.10-0.5.5; n2: none", Second(|n| n.system.ofed = None)),
    ("alike-ofed", "SKIP n[1-3]: fewer than two nodes tell it", All(|n| n.hca_details.clear())),
    (
        "alike-cpu",
        "WARN n[1-3]: n[1,3]: 96 x INTEL(R) XEON(R) PLATINUM 8558; n2: 96 x AMD EPYC 9654",
        Second(|n| {
            n.cpu_model = "AMD EPYC 9654".into();
        }),
    ),
    ("alike-cpu", "SKIP n[1-3]: fewer than two nodes tell it", All(|n| n.cpu_model.clear())),
    ("alike-memory", "WARN n[1-3]: n[1,3]: 1024G; n2: 960G", Second(|n| n.memory_bytes = 960 << 30)),
    ("alike-memory", "PASS n[1-3]: 1024G", Second(|n| n.memory_bytes += 1 << 30)),
    ("alike-memory", "SKIP n1: fewer than two nodes", Facts(alone)),
    ("alike-kernel", "WARN n[1-3]: n[1,3]: 6.8.0-45-generic; n2: 5.15.0", Second(|n| n.kernel = "5.15.0".into())),
    ("alike-kernel", "SKIP n1: fewer than two nodes", Facts(alone)),
    (
        "alike-wiring",
        "WARN n2: GPU1 to mlx5_1: PHB, most have PIX",
        Second(|n| {
            n.topology.distances[1][1] = Some(gdrtune_profiles::vocab::PcieDistance::Phb);
        }),
    ),
    ("alike-wiring", "SKIP n[1-3]: no GPU and no HCA", All(|n| n.topology = Topology::default())),
    ("alike-wiring", "SKIP n1: fewer than two nodes", Facts(alone)),
];
