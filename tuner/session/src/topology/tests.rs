use gdrtune_profiles::topology::{GpuPath, Lanes, PcieLink};
use gdrtune_wire as wire;

use super::*;

const WIDE: Lanes = Lanes { mtps: 32_000, count: 16 };

fn hca(name: &str, state: &str) -> Hca {
    let port = Port { number: 1, state: state.into(), link_layer: "InfiniBand".into(), rate: "400 Gb/s".into() };
    let link = PcieLink { current: Some(WIDE), most: Some(WIDE) };
    Hca { name: name.into(), numa: Some(0), link, ports: vec![port], ..Hca::default() }
}

/// GPUs by HCAs: a letter for each distance of a GPU (`x` PIX, `b` PHB, `s` SYS, `?`).
fn machine_of(hcas: &[&str], rows: &[&str]) -> Machine {
    let distance = |letter| match letter {
        'x' => Some(PcieDistance::Pix),
        'b' => Some(PcieDistance::Phb),
        's' => Some(PcieDistance::Sys),
        _ => None,
    };
    Machine {
        numa_nodes: Some(2),
        gpus: rows.iter().map(|_| Gpu { model: "H200".into(), numa: Some(0), ..Gpu::default() }).collect(),
        hcas: hcas.iter().map(|name| hca(name, "ACTIVE")).collect(),
        to_hcas: rows.iter().map(|row| row.chars().map(distance).collect()).collect(),
        ..Machine::default()
    }
}

fn survey(machines: &[(&str, Machine)]) -> Survey {
    Survey::of(machines.iter().map(|(host, machine)| ((*host).to_owned(), machine.clone())).collect())
}

fn warnings_of(machine: Machine) -> Vec<String> {
    survey(&[("n", machine)]).groups.remove(0).warnings
}

#[test]
fn an_inventory_is_put_in_the_order_of_numbers() {
    let place = |address: &str| wire::Place { address: address.to_owned(), numa: Some(1), ..wire::Place::default() };
    let hca = |name: &str| wire::Hca { name: name.to_owned(), place: place(name), nets: Vec::new() };
    let port = |state: &str, phys_state: &str| HcaPort {
        hca: "mlx5_2".into(),
        port: 1,
        link_layer: "InfiniBand".into(),
        rate: "400 Gb/sec (4X NDR)".into(),
        state: state.into(),
        phys_state: phys_state.into(),
    };
    let mut inventory = Inventory {
        gpus: vec!["NVIDIA H200".to_owned(); 2],
        hca_ports: vec![port("ACTIVE", "LinkUp"), HcaPort { port: 2, ..port("DOWN", "Polling") }],
        unreadable: vec!["/usr/bin/nvidia-smi: odd".into(), "/usr/bin/nvidia-smi topo -m: exit code 3".into()],
        topology: wire::Topology {
            gpus: vec![wire::Gpu::default(), wire::Gpu { model: "10de:2335".into(), place: place("0000:18:00.0") }],
            hcas: vec![hca("mlx5_10"), hca("mlx5_2")],
            distances: vec![vec![Some(PcieDistance::Sys), Some(PcieDistance::Pix)], vec![None, None]],
            ..wire::Topology::default()
        },
        ..Inventory::default()
    };
    let read = machine(&inventory);
    assert_eq!(read.hcas.iter().map(|hca| hca.name.as_str()).collect::<Vec<_>>(), ["mlx5_2", "mlx5_10"]);
    assert_eq!(read.to_hcas, [[Some(PcieDistance::Pix), Some(PcieDistance::Sys)], [None, None]]);
    let ports: Vec<_> = read.hcas[0].ports.iter().map(|port| (port.state.as_str(), port.rate.as_str())).collect();
    assert_eq!(ports, [("ACTIVE", "400 Gb/s"), ("DOWN Polling", "400 Gb/s")]);
    assert_eq!((read.gpus[1].model.as_str(), read.gpus[1].numa, read.numa_nodes), ("NVIDIA H200", Some(1), None));
    assert!(read.notes[0].ends_with("gave no answer (/usr/bin/nvidia-smi topo -m: exit code 3)"), "{:?}", read.notes);

    // More names than places: a container that hides some of /proc.
    inventory.gpus.push("NVIDIA L4".into());
    let read = machine(&inventory);
    assert_eq!((read.gpus[1].model.as_str(), read.gpus.len()), ("10de:2335", 2));
    assert!(read.notes[0].starts_with("nvidia-smi names 3 GPUs, and /proc and /sys show 2"), "{:?}", read.notes);

    inventory.gpus.pop();
    inventory.topology.gpu_paths = vec![vec![None; 2]; 2];
    assert_eq!(machine(&inventory).notes, Vec::<String>::new());
}

#[test]
fn the_nearest_hca_is_one_that_works() {
    let mut machine = machine_of(&["mlx5_0", "mlx5_1", "mlx5_2"], &["xbs", "bxs", "???", "sss"]);
    let near = |machine: &Machine| {
        let nearest = survey(&[("n", machine.clone())]).groups.remove(0).nearest;
        nearest.into_iter().map(|near| near.map(|near| (near.distance, near.hcas))).collect::<Vec<_>>()
    };
    let (pix, phb, sys) = (PcieDistance::Pix, PcieDistance::Phb, PcieDistance::Sys);
    assert_eq!(near(&machine), [Some((pix, vec![0])), Some((pix, vec![1])), None, Some((sys, vec![0, 1, 2]))]);
    machine.hcas[0] = hca("mlx5_0", "DOWN Polling");
    assert_eq!(near(&machine)[0], Some((phb, vec![1])));
    for at in 1..3 {
        machine.hcas[at] = hca("mlx5_x", "INIT LinkUp");
    }
    assert_eq!(near(&machine), [None, None, None, None]);
}

#[test]
fn what_is_wrong_is_said_with_the_next_step() {
    let hcas = ["mlx5_0", "mlx5_1"];
    assert_eq!(warnings_of(machine_of(&hcas, &["xs", "sx"])), Vec::<String>::new());
    assert_eq!(warnings_of(machine_of(&[], &["", ""])), Vec::<String>::new(), "no HCA is no fault of a GPU");

    let far = warnings_of(machine_of(&hcas, &["xs", "ss", "ss"]));
    assert!(far.len() == 1 && far[0].starts_with("GPU[1-2]: the nearest HCA is across sockets"), "{far:?}");

    let mut machine = machine_of(&hcas, &["xs", "sx"]);
    machine.hcas[1] = hca("mlx5_1", "DOWN Disabled");
    let said = warnings_of(machine);
    assert!(said[0].starts_with("GPU1: the nearest HCA is across sockets"), "{said:?}");
    assert!(said[1].starts_with("mlx5_1: down (DOWN Disabled), though nearest to GPU1: check its cable"), "{said:?}");

    let unknown = warnings_of(machine_of(&hcas, &["??", "??"]));
    assert!(
        unknown.len() == 1 && unknown[0].starts_with("GPU[0-1]: how far the HCAs are is not known: "),
        "{unknown:?}"
    );

    // A virtual machine's one bridge; with NUMA nodes, or one GPU, it may be true.
    let mut machine = machine_of(&hcas, &["bb", "bb"]);
    assert_eq!(warnings_of(machine.clone()), Vec::<String>::new());
    for gpu in &mut machine.gpus {
        gpu.numa = None;
    }
    let flat = warnings_of(machine);
    assert!(flat.len() == 1 && flat[0].contains("NCCL_TOPO_FILE"), "{flat:?}");

    let mut machine = machine_of(&hcas, &["xs", "sx"]);
    let idle = PcieLink { current: Some(Lanes { mtps: 2_500, count: 16 }), most: Some(WIDE) };
    let narrow = PcieLink { current: Some(Lanes { mtps: 32_000, count: 8 }), most: Some(WIDE) };
    (machine.gpus[0].link, machine.gpus[1].link) = (idle, narrow);
    (machine.hcas[0].link, machine.hcas[1].link) = (idle, narrow);
    let links = warnings_of(machine);
    assert!(links[0].starts_with("mlx5_0: PCIe link 2.5 GT/s x16 of 32 GT/s x16: "), "{links:?}");
    assert!(links[1].starts_with("GPU1,mlx5_1: PCIe link 32 GT/s x8 of 32 GT/s x16: "), "{links:?}");
    assert_eq!(links.len(), 2, "an idle GPU is no fault: {links:?}");
}

#[test]
fn equal_nodes_are_folded_and_others_compared_with_the_largest_group() {
    let usual = machine_of(&["mlx5_0", "mlx5_1"], &["xs", "sx"]);
    let (mut same, mut other, mut bare) = (usual.clone(), usual.clone(), usual.clone());
    same.gpus[0].address = "0000:99:00.0".into();
    same.gpus[0].link.current = None;
    other.to_hcas[0][0] = Some(PcieDistance::Phb);
    other.gpus[1].model = "H100".into();
    bare.hcas.pop();
    bare.to_hcas.iter_mut().for_each(|row| row.truncate(1));
    bare.gpu_paths = vec![vec![None, Some(GpuPath::NvLinks(18))], vec![Some(GpuPath::NvLinks(18)), None]];
    let survey = survey(&[("a", other), ("b", usual), ("c", bare), ("d", same)]);
    let hosts: Vec<&[String]> = survey.groups.iter().map(|group| group.hosts.as_slice()).collect();
    assert_eq!(hosts, [&["b", "d"][..], &["a"], &["c"]]);
    let said =
        survey.differences.iter().map(|d| format!("{}: {}: {} not {}", d.hosts.join(","), d.what, d.own, d.most));
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            "a: GPUs: 1 x H100, 1 x H200 not 2 x H200",
            "a: GPU0 to mlx5_0: PHB not PIX",
            "c: HCAs: mlx5_0 not mlx5_[0-1]",
        ],
        "what one of them has no word of is no difference"
    );
}

#[test]
fn rails_are_hcas_of_one_name() {
    let usual = machine_of(&["mlx5_0", "mlx5_1", "mlx5_10"], &["xss", "sxs"]);
    let mut other = usual.clone();
    other.hcas[0].ports[0].rate = "200 Gb/s".into();
    other.hcas[1] = hca("mlx5_1", "DOWN Polling");
    other.hcas.pop();
    other.to_hcas.iter_mut().for_each(|row| row.truncate(2));
    let found = survey(&[("a", usual.clone()), ("b", usual.clone()), ("c", other)]);
    let shown: Vec<_> = found
        .rails
        .iter()
        .map(|rail| {
            let Rail { name, hosts, down, missing, rates, gpus } = rail;
            format!("{name} {} {down:?} {missing:?} {} {gpus:?} {}", hosts.join(""), rates.join("|"), rail.is_whole())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "mlx5_0 abc [] [] InfiniBand 200 Gb/s|InfiniBand 400 Gb/s [0] false",
            "mlx5_1 ab [\"c\"] [] InfiniBand 400 Gb/s [1] false",
            "mlx5_10 ab [] [\"c\"] InfiniBand 400 Gb/s [] false",
        ]
    );
    assert!(survey(&[("a", usual.clone()), ("b", usual.clone())]).rails.iter().all(Rail::is_whole));

    let renamed = machine_of(&["ibp1s0", "ibp2s0"], &["xs", "sx"]);
    let found = survey(&[("a", usual), ("b", renamed), ("c", machine_of(&[], &[""]))]);
    let names: Vec<&str> = found.rails.iter().map(|rail| rail.name.as_str()).collect();
    assert_eq!(names, ["mlx5_0/ibp1s0", "mlx5_1/ibp2s0", "mlx5_10"]);
    assert_eq!((found.rails[0].missing.as_slice(), found.notes.len()), (&["c".to_owned()][..], 1));
}
