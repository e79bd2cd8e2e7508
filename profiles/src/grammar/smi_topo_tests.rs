//! Tables as drivers of several years print them, cut to a few devices.

use proptest::prelude::*;

use super::*;

const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
";

/// A driver of 2023 and later, on a terminal: underlined header, numbered NICs with a legend, a last column.
const NUMBERED: &str = "\
\t\u{1b}[4mGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV18\tPIX\tNODE\tSYS\t0-47,96-143\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tSYS\tPIX\t48-95,144-191\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tNODE\tSYS\t\t\t\t
NIC1\tNODE\tSYS\tNODE\t X \tSYS\t\t\t\t
NIC2\tSYS\tPIX\tSYS\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  PIX  = Connection traversing at most a single PCIe bridge

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_10
  NIC2: mlx5_2
";

fn read(text: &str) -> (Machine, Vec<String>) {
    let (machine, odd) = parse(text, "topo.txt").unwrap();
    assert!(odd.iter().all(|diagnostic| !diagnostic.is_error()));
    (machine, odd.iter().map(ToString::to_string).collect())
}

/// Each GPU: NUMA node, ways to GPUs, distances to HCAs.
fn shown(machine: &Machine) -> Vec<String> {
    let word = |path: &Option<GpuPath>| path.map_or("-".to_owned(), |path| path.to_string());
    let rows = machine.gpus.iter().zip(&machine.gpu_paths).zip(&machine.to_hcas);
    rows.map(|((gpu, paths), distances)| {
        let numa = gpu.numa.map_or("?".to_owned(), |numa| numa.to_string());
        let distance = |d: &Option<PcieDistance>| d.map_or("?", PcieDistance::nccl_name).to_owned();
        let words: Vec<String> = paths.iter().map(word).chain(distances.iter().map(distance)).collect();
        format!("{numa}: {}", words.join(" "))
    })
    .collect()
}

fn names(machine: &Machine) -> Vec<&str> {
    machine.hcas.iter().map(|hca| hca.name.as_str()).collect()
}

#[test]
fn numbered_nics_have_the_names_of_the_legend() {
    let (machine, odd) = read(NUMBERED);
    assert_eq!((names(&machine), odd), (vec!["mlx5_0", "mlx5_2", "mlx5_10"], vec![]));
    assert_eq!(shown(&machine), ["0: - NV18 PIX SYS NODE", "1: NV18 - SYS PIX SYS"]);
    let pasted = NUMBERED.replace('\t', "    ").replace('\n', "  \r\n");
    assert_eq!(read(&pasted).0, machine, "copied from a web page");
    let prompt = format!("$ nvidia-smi topo -m\n\n{NUMBERED}");
    assert_eq!(read(&prompt).0, machine);
}

#[test]
fn older_drivers_name_hcas_in_the_header() {
    // 2021: no column for GPU memory's NUMA node. 2017: `SOC` in the place of `SYS`, CPUs only.
    let text = format!(
        "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\n\
         GPU0\t X \tNV12\tPXB\tSYS\t48-63,176-191\t3\n\
         GPU1\tNV12\t X \tSYS\tPXB\t16-31,144-159\t1\n\
         mlx5_0\tPXB\tSYS\t X \tSYS\t\t\n\
         mlx5_1\tSYS\tPXB\tSYS\t X \t\t\n{LEGEND}"
    );
    let (machine, odd) = read(&text);
    assert_eq!((names(&machine), odd), (vec!["mlx5_0", "mlx5_1"], vec![]));
    assert_eq!(shown(&machine), ["3: - NV12 PXB SYS", "1: NV12 - SYS PXB"]);

    let text = "        GPU0   GPU1   mlx5_0  CPU Affinity\nGPU0     X     SOC    PHB     0-7\nGPU1    SOC     X     SOC     8-15\n";
    let (machine, odd) = read(text);
    assert_eq!((shown(&machine), odd), (vec!["?: - SYS PHB".to_owned(), "?: SYS - SYS".to_owned()], vec![]));
}

#[test]
fn one_gpu_without_hcas_and_a_virtual_machine() {
    let (machine, odd) = read("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-15\t0\t\tN/A\n");
    assert_eq!((shown(&machine), machine.hcas.len(), odd), (vec!["0: -".to_owned()], 0, vec![]));
    // A list of NUMA nodes is no place; and neither is the GPU memory's own node.
    for tail in ["0-95\t0-1\t\tN/A", "\t\t\tN/A", "0-71\t0-1\t\t1", "N/A\tN/A\t\tN/A", ""] {
        let text =
            format!("\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tPHB\t{tail}\nNIC0\tPHB\t X\n");
        assert_eq!(shown(&read(&text).0), ["?: - PHB"], "{tail}");
    }
    let grace =
        "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNODE\t0-71\t0\t\t1\nNIC0\tNODE\t X \n";
    assert_eq!(shown(&read(grace).0), ["0: - NODE"]);
}

#[test]
fn mig_and_what_the_driver_does_not_know() {
    // With MIG there are no NVLinks between GPUs, and pairs can be `N/A`.
    let text = "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n\
                GPU0\t X \tSYS\tPXB\tN/A\t0-63\t0\n\
                GPU1\tSYS\t X \tN/A\tSYS\t64-127\t1\n\
                NIC0\tPXB\tN/A\t X \tSYS\t\t\n\
                NIC1\tNODE\tSYS\tSYS\t X \t\t\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: bnxt_re0\n";
    let (machine, odd) = read(text);
    assert_eq!((names(&machine), odd), (vec!["bnxt_re0", "mlx5_0"], vec![]));
    assert_eq!(shown(&machine), ["0: - SYS NODE PXB", "1: SYS - SYS ?"], "the other row helps out");
}

#[test]
fn what_is_not_whole_is_said_with_its_line() {
    let text = "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\n\
                GPU0\t X \tNV4\tNV4\tPIB\t0-7\n\
                GPU1\tNV4\t X\n\
                GPU1\tNV4\t X \tNV4\tPIX\n\
                GPU7\tNV4\t X \tNV4\tPIX\n\
                \tGPU0\tGPU1\nGPU0\tX\tOK\n";
    let (machine, odd) = read(text);
    assert_eq!(
        odd,
        [
            "topo.txt:1: warning: no row of GPU2: was the output cut off?",
            "topo.txt:2: warning: unknown word `PIB` in the row of GPU0; did you mean `PIX`?",
            "topo.txt:3: warning: the row of GPU1 has 2 of 4 words: what it lacks is not known",
            "topo.txt:4: warning: a second row of GPU1: the first one counts",
            "topo.txt:5: warning: a row of GPU7, which is not in the header",
            "topo.txt:6: warning: another table begins here: only the first one is read",
        ]
    );
    assert_eq!(shown(&machine), ["?: - NV4 NV4 ?", "?: NV4 - - ?", "?: NV4 - - ?"]);
    for (text, message) in [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "topo.txt:1: no table of GPUs: ",
        ),
        ("GPU 0: NVIDIA H200 (UUID: GPU-0)\nGPU0 is well\n", "topo.txt:1: no table of GPUs: "),
        ("\n\tGPU0\tGPU1\n", "topo.txt:2: a table without rows: "),
    ] {
        let error = parse(text, "topo.txt").unwrap_err().to_string();
        assert!(error.starts_with(message) && error.ends_with(NEXT_STEP), "{error}");
    }
    let wide = (0..600).map(|number| format!("GPU{number}")).collect::<Vec<_>>().join("\t");
    assert_eq!(parse(&wide, "f").unwrap_err().to_string(), "f:1: a table of 600 devices: 512 at most are read");
}

proptest! {
    #[test]
    fn a_broken_table_never_panics(cuts in prop::collection::vec((0_usize..700, "[A-Z0-9:/ \\t\\n\u{1b}\u{e9}]{0,6}"), 0..6)) {
        let mut text: Vec<char> = NUMBERED.chars().collect();
        for (at, new) in cuts {
            let at = at.min(text.len());
            let end = (at + 3).min(text.len());
            drop(text.splice(at..end, new.chars()));
        }
        if let Ok((machine, _)) = parse(&text.into_iter().collect::<String>(), "f") {
            prop_assert_eq!(machine.to_hcas.len(), machine.gpus.len());
            prop_assert!(machine.to_hcas.iter().all(|row| row.len() == machine.hcas.len()));
            prop_assert!(machine.gpu_paths.iter().all(|row| row.len() == machine.gpus.len()));
        }
    }

    #[test]
    fn any_text_is_taken_or_refused(text in "\\PC{0,120}|(GPU[0-3]|NIC0|X|PIX|NV4|[ \\t\\n]){0,40}") {
        drop(parse(&text, "f"));
    }
}
