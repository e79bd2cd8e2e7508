//! Topology files in the forms in which NCCL and clouds write them, cut to a few devices.

use proptest::prelude::*;

use super::*;

/// Two switches of an HGX board at two sockets, as in NVIDIA/nccl-tests #256; the second socket's NIC has two ports.
const HGX: &str = r#"<system version="1">
  <cpu host_hash="0x16fe256e956b115c" numaid="0" affinity="00ffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:16:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="9" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020000" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.000000" guid="0xa87cb10003e1a258" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="9" speed="10000" port="0"/>
    </nic>
  </cpu>
  <cpu host_hash="0x16fe256e956b115c" numaid="1" affinity="ff000000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:98:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:9b:00.0" class="0x020000" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_10" dev="1" speed="200000" port="1"/>
          <net name="mlx5_10" dev="2" speed="2500" port="2"/>
        </nic>
      </pci>
      <pci busid="0000:99:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
        <pci busid="0000:9A:00.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="16">
          <gpu dev="1" sm="90" rank="1" gdr="1">
            <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
          </gpu>
        </pci>
      </pci>
    </pci>
    <pci busid="0000:a8:00.0" class="0x020000" vendor="0x15b3" device="0x1021" link_speed="" link_width="0">
      <nic>
        <net name="mlx5_2" dev="3" speed="400000" port="1"/>
      </nic>
    </pci>
  </cpu>
</system>
"#;

fn read(text: &str) -> (Machine, Vec<String>) {
    let (machine, odd) = parse(text, "topo.xml").unwrap();
    (machine, odd.iter().map(ToString::to_string).collect())
}

fn distances(machine: &Machine) -> Vec<String> {
    let row = |row: &Vec<Option<PcieDistance>>| {
        row.iter().map(|d| d.map_or("?", PcieDistance::nccl_name)).collect::<Vec<_>>().join(" ")
    };
    machine.to_hcas.iter().map(row).collect()
}

fn names(machine: &Machine) -> Vec<&str> {
    machine.hcas.iter().map(|hca| hca.name.as_str()).collect()
}

#[test]
fn a_dump_of_nccl() {
    let (machine, odd) = read(HGX);
    assert_eq!(odd, Vec::<String>::new());
    assert_eq!(names(&machine), ["eth0", "mlx5_0", "mlx5_2", "mlx5_10"]);
    assert_eq!(distances(&machine), ["? PIX SYS SYS", "SYS SYS PHB PXB"]);
    assert_eq!(machine.notes, [PHB_NOTE]);
    let nv18 = Some(GpuPath::NvLinks(18));
    assert_eq!(machine.gpu_paths, [[None, nv18], [nv18, None]]);
    let gpu = &machine.gpus[1];
    assert_eq!((gpu.model.as_str(), gpu.address.as_str(), gpu.numa), ("10de:2335 sm_90", "0000:9a:00.0", Some(1)));
    assert_eq!(gpu.link.to_string(), "? of 32 GT/s x16");
    let dual = &machine.hcas[3];
    let ports: Vec<_> = dual.ports.iter().map(|port| (port.number, port.rate.as_str())).collect();
    assert_eq!((ports, dual.numa), (vec![(1, "200 Gb/s"), (2, "2.5 Gb/s")], Some(1)));
    assert_eq!((machine.hcas[2].link, machine.hcas[0].address.as_str()), (PcieLink::default(), ""));
    assert_eq!(machine.numa_nodes, Some(2));
}

#[test]
fn a_file_of_a_site_with_nothing_but_functions() {
    // The form of Azure/azhpc-images `ndv4-topo.xml`.
    let text = r#"<system version="1">
      <cpu numaid="0" affinity="0000ffff,0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
        <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
          <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
          <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
          <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
        </pci>
      </cpu>
      <cpu numaid="1" affinity="0000ffff,0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
        <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16 GT/s" link_width="16">
          <pci busid="0103:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
        </pci>
      </cpu>
    </system>"#;
    let (machine, odd) = read(text);
    let addresses: Vec<_> = machine.gpus.iter().map(|gpu| gpu.address.as_str()).collect();
    assert_eq!((addresses, odd), (vec!["0001:00:00.0", "0002:00:00.0"], vec![]));
    assert_eq!(names(&machine), ["0101:00:00.0", "0103:00:00.0"]);
    assert_eq!(distances(&machine), ["PIX SYS", "PIX SYS"]);
    assert_eq!((machine.gpu_paths.len(), machine.notes), (0, vec![NVLINK_NOTE.to_owned()]), "nothing is PHB");
}

#[test]
fn nvlinks_without_a_switch_and_gpus_without_any() {
    let gpu = |bus: &str, dev: u32, links: &str| {
        format!("<pci busid=\"{bus}\" class=\"0x030200\"><gpu dev=\"{dev}\" sm=\"80\">{links}</gpu></pci>")
    };
    let text = format!(
        "<system version=\"1\"><cpu numaid=\"-1\">{}{}{}</cpu></system>",
        gpu("0000:0A:00.0", 2, ""),
        gpu("0000:08:00.0", 0, "<nvlink target=\"0000:09:00.0\" count=\"12\" tclass=\"0x030200\"/>"),
        gpu("0000:09:00.0", 1, "<nvlink target=\"0000:08:00.0\" count=\"12\"/>"),
    );
    let (machine, odd) = read(&text);
    let (nv12, phb) = (Some(GpuPath::NvLinks(12)), Some(GpuPath::Pcie(PcieDistance::Phb)));
    assert_eq!(machine.gpu_paths, [[None, nv12, phb], [nv12, None, phb], [phb, phb, None]]);
    assert_eq!((machine.gpus[0].numa, odd), (None, vec![]));
}

#[test]
fn what_is_odd_is_said_and_what_is_no_topology_is_refused() {
    let text = "<system>\n<cpu numaid=\"0\">\n<gpu dev=\"x\"/>\n<pci busid=\"0000:01:00.0\"><nic><net speed=\"1\"/>\n<net name=\"mlx5_0\" speed=\"fast\"/></nic></pci>";
    let (machine, odd) = read(text);
    assert_eq!(
        odd,
        [
            "topo.xml:1: warning: <system> is not closed: was the file cut off?",
            "topo.xml:2: warning: <cpu> is not closed: was the file cut off?",
            "topo.xml:3: warning: a GPU without a <pci> above it: how far it is from anything is not known",
            "topo.xml:3: warning: dev=\"x\" is not a number of ours",
            "topo.xml:4: warning: a network device without a name is left out",
            "topo.xml:5: warning: speed=\"fast\" is not a number of ours",
        ]
    );
    assert_eq!(distances(&machine), ["?"]);
    for (text, message) in [
        (
            "\n<graphs version=\"1\"/>",
            "f:2: these are NCCL's graphs, not its topology: have it written for NCCL_TOPO_DUMP_FILE",
        ),
        ("<html>", "f:1: the first element is <html>: NCCL's topology files begin with <system>"),
        (
            "<system version=\"1\"><cpu numaid=\"0\"/></system>",
            "f:1: neither GPUs nor network devices are in it: have NCCL write it on such a machine",
        ),
        ("<!-- nothing -->", "f:1: no element"),
        ("<system\nversion=1>", "f:2: the value of version is not in quotes: write version=\"...\""),
    ] {
        assert_eq!(parse(text, "f").unwrap_err().to_string(), message);
    }
}

proptest! {
    #[test]
    fn a_broken_file_never_panics(cuts in prop::collection::vec((0_usize..4000, "[<>/\"a-z0-9 \\n\u{e9}]{0,12}"), 0..6)) {
        let mut text: Vec<char> = HGX.chars().collect();
        for (at, new) in cuts {
            let at = at.min(text.len());
            let end = (at + 5).min(text.len());
            drop(text.splice(at..end, new.chars()));
        }
        if let Ok((machine, _)) = parse(&text.into_iter().collect::<String>(), "f") {
            prop_assert_eq!(machine.to_hcas.len(), machine.gpus.len());
            prop_assert!(machine.to_hcas.iter().all(|row| row.len() == machine.hcas.len()));
        }
    }

    #[test]
    fn any_elements_are_taken_or_refused(
        tags in prop::collection::vec(
            prop::sample::select(vec![
                "<system>", "<cpu numaid=\"0\">", "<pci busid=\"0000:01:00.0\" class=\"0x030200\">", "<gpu dev=\"0\">", "<nic>",
                "<net name=\"a\" port=\"1\"/>", "<nvlink target=\"0000:01:00.0\" count=\"4294967295\"/>", "</gpu>", "</pci>", "</cpu>",
            ]),
            0..30,
        ),
    ) {
        drop(parse(&format!("<system>{}", tags.concat()), "f"));
    }
}
