//! `gdrtune topo`: machines from recorded trees, files of others, and hosts with agents.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use common::{gdrtune, output, root, stderr, sysfs};
use gdrtune_node::inventory;
use serde_json::Value;

/// The recorded machines.
const MACHINES: [&str; 8] =
    ["dgx-a100", "hgx-h100", "azure-nd-h100-v5", "aws-p5", "single-socket-pcie", "gh200", "cloud-vm-flat", "desktop"];

fn description(machine: &str) -> String {
    fs::read_to_string(root().join("tui/tests/machines").join(format!("{machine}.txt"))).unwrap()
}

/// A folder with the trees of these machines, each under its name.
fn trees(machines: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, description) in machines {
        sysfs::expand(description, &home.path().join(name));
    }
    home
}

/// Standard output of a run that ends with this exit code, and standard error.
fn topo(home: &Path, args: &[&str], code: i32) -> (String, String) {
    let run = output(gdrtune(home).arg("topo").args(args));
    assert_eq!(run.status.code(), Some(code), "{}", stderr(&run));
    (String::from_utf8(run.stdout.clone()).unwrap(), stderr(&run))
}

fn json(home: &Path, args: &[&str], code: i32) -> Value {
    let (text, _) = topo(home, &[args, &["--format", "json"]].concat(), code);
    serde_json::from_str(&text).unwrap()
}

/// `PIX mlx5_0` for each GPU of the first group.
fn nearest(document: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let near = |gpu: &Value| {
        let near = &gpu["nearest"];
        if near.is_null() {
            return "none".to_owned();
        }
        let hcas: Vec<String> = near["hcas"].as_array().unwrap().iter().map(text).collect();
        format!("{} {}", text(&near["distance"]), hcas.join(" "))
    };
    document["groups"][0]["gpus"].as_array().unwrap().iter().map(near).collect()
}

#[test]
fn eight_machines_are_shown_as_they_are() {
    for machine in MACHINES {
        let home = trees(&[(machine, &description(machine))]);
        let (text, said) = topo(home.path(), &["--from", machine], 0);
        insta::assert_snapshot!(machine, text);
        assert_eq!(said, "", "{machine}");
    }
}

/// On a terminal of 80 columns, every cell of every table is there, and nothing is wider but what may be pasted.
#[test]
fn nothing_is_wider_than_the_terminal() {
    let both = [("dgx-a100", &*description("dgx-a100")), ("aws-p5", &*description("aws-p5"))];
    let home = trees(&both);
    for (columns, args) in [("80", &["--bindings"][..]), ("60", &[])] {
        let from = ["--from", "dgx-a100", "aws-p5"];
        let (whole, _) = topo(home.path(), &[&from[..], args].concat(), 0);
        let run = output(gdrtune(home.path()).env("COLUMNS", columns).arg("topo").args(from).args(args));
        let narrow = String::from_utf8(run.stdout).unwrap();
        let wide = |line: &&str| columns.parse::<usize>().unwrap() < line.chars().count();
        let long: Vec<&str> = narrow.lines().filter(wide).collect();
        assert!(long.iter().all(|line| line.trim_start().starts_with('=') && !line.trim().contains(' ')), "{long:#?}");
        let words = |text: &str| -> std::collections::BTreeSet<String> {
            text.split(|c: char| c.is_whitespace() || c == ',').map(str::to_owned).collect()
        };
        assert_eq!(words(&narrow), words(&whole));
        if args.is_empty() {
            insta::assert_snapshot!("sixty_columns", narrow);
        }
    }
}

/// What is recorded of a machine reads as it does.
#[test]
fn records_of_machines_read_as_the_machines() {
    for machine in ["single-socket-pcie", "dgx-a100", "aws-p5"] {
        let home = trees(&[(machine, &description(machine))]);
        let (tree, copy) = (home.path().join(machine), home.path().join("copy"));
        let written = inventory::record(&tree, &copy).unwrap();
        assert!(written.entries < 50_000 && written.bytes < 4 << 20, "{machine}: {written:?}");
        let (mut again, mut whole) = (inventory::read_recorded(&copy), inventory::read_recorded(&tree));
        again.unreadable.clear();
        whole.unreadable.clear();
        assert_eq!(again, whole, "{machine}");
    }
}

#[test]
fn this_machine_is_recorded_once() {
    let home = tempfile::tempdir().unwrap();
    let (_, said) = topo(home.path(), &["--record", "here"], 0);
    assert!(said.starts_with("gdrtune: recorded this machine in here: "), "{said}");
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(inventory::read_recorded(&home.path().join("here")).hostname, hostname.trim());
    // Also a machine without GPUs and HCAs is one.
    for args in [&["--from", "here"][..], &["--inventory", "--from", "here"]] {
        let (text, said) = topo(home.path(), args, 0);
        assert!(text.starts_with("here") && said.is_empty(), "{text}{said}");
    }
    let (_, said) = topo(home.path(), &["--record", "here"], 2);
    assert!(said.contains("here is there already") && said.contains("not there yet"), "{said}");
    let (_, said) = topo(home.path(), &["--record", "x", "--from", "here"], 2);
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn eight_machines_have_their_inventories() {
    for machine in MACHINES {
        let home = trees(&[(machine, &description(machine))]);
        let (text, said) = topo(home.path(), &["--inventory", "--from", machine], 0);
        let folder = fs::canonicalize(home.path().join(machine)).unwrap();
        let text = text.replace(&format!("{machine}/"), "/").replace(&format!("{}/", folder.display()), "/");
        insta::assert_snapshot!(format!("inventory-{machine}"), text);
        assert_eq!(said, "", "{machine}");
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 160).collect();
        assert_eq!(long, Vec::<&str>::new(), "{machine}");
    }
}

/// Facts that stand in the documents that the descriptions name.
#[test]
fn an_inventory_has_all_of_it_for_programs() {
    let home = trees(&[("a", &description("hgx-h100")), ("b", &description("single-socket-pcie"))]);
    let document = json(home.path(), &["--inventory", "--from", "a", "b"], 0);
    let node = |at: usize| &document["nodes"][at]["inventory"];
    assert_eq!((document["schema_version"].as_u64(), document["nodes"][1]["host"].as_str()), (Some(1), Some("b")));
    let gpu = &node(0)["gpu_details"][7];
    assert_eq!((gpu["memory_bytes"].as_u64(), gpu["bar1_bytes"].as_u64()), (Some(81_559 << 20), Some(128 << 30)));
    assert_eq!(
        (&gpu["compute_capability"], &gpu["dmabuf"]["possible"]),
        (&serde_json::json!([9, 0]), &Value::Bool(true))
    );
    assert_eq!(node(0)["port_details"][5]["counters"][1], serde_json::json!({"name": "link_downed", "value": 2}));
    assert!(node(0)["bridges"].as_array().unwrap().iter().all(|bridge| bridge["acs_redirects"] == true));
    let roce = &node(1)["port_details"][0];
    assert_eq!(roce["active_mtu"], 1024);
    assert_eq!(
        roce["gids"][1],
        serde_json::json!({"index": 3, "gid": "::ffff:10.10.0.1", "kind": "roce_v2", "net": "enp66s0np0"})
    );
    assert_eq!(node(1)["gpu_details"][0]["dmabuf"]["possible"], false);
    assert_eq!(
        node(1)["hca_details"][0]["function"],
        serde_json::json!({"physical": {"virtual_functions": 2, "most": 16}})
    );
}

/// Settings as NCCL sees them: the environment before the node's file.
#[test]
fn an_inventory_of_this_machine_tells_what_holds() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(".nccl.conf"), "NCCL_NET=IB\nNCCL_DEBUG=WARN\n").unwrap();
    let run = output(gdrtune(home.path()).args(["topo", "--inventory", "--format", "json"]).env("NCCL_DEBUG", "INFO"));
    let document: Value = serde_json::from_slice(&run.stdout).unwrap();
    let node = &document["nodes"][0];
    let setting = |name: &str| {
        let all = node["nccl_environment"].as_array().unwrap();
        let found = all.iter().find(|setting| setting["name"] == name).unwrap();
        (found["value"].as_str().unwrap().to_owned(), found["file"].is_null())
    };
    assert_eq!(setting("NCCL_DEBUG"), ("INFO".to_owned(), true));
    assert_eq!(setting("NCCL_NET"), ("IB".to_owned(), false));
    let system = &node["inventory"]["system"];
    assert!(system["memory"]["shm_bytes"].as_u64().is_some(), "{system}");
    assert!(system["memlock"].is_object() && system["cpu"]["vendor"].is_string(), "{system}");
    let text = String::from_utf8(output(gdrtune(home.path()).args(["topo", "--inventory"])).stdout).unwrap();
    assert!(text.starts_with("localhost\n\n  Machine\n    name"), "{text}");
}

/// What the sources of the descriptions say of NICs and GPUs.
#[test]
fn gpus_have_the_hcas_that_vendors_document() {
    let own = |distance: &str, name: &str| (0..8).map(|gpu| format!("{distance} {name}{gpu}")).collect::<Vec<_>>();
    let all = |count: usize, near: &str| vec![near.to_owned(); count];
    let (near, far) = ("NODE mlx5_ib0 mlx5_ib1 mlx5_ib2 mlx5_ib3", "NODE mlx5_ib4 mlx5_ib5 mlx5_ib6 mlx5_ib7");
    let efa = [79, 96, 113, 130, 147, 164, 181, 198].map(|bus| {
        (bus..bus + 4).fold("PIX".to_owned(), |mut text, bus| {
            write!(text, " rdmap{bus}s0").unwrap();
            text
        })
    });
    let dgx = [[0, 1], [2, 3], [6, 7], [8, 9]];
    let dgx = dgx.map(|[a, b]| all(2, &format!("PXB mlx5_{a} mlx5_{b}"))).concat();
    let vm: Vec<String> = (0..8).map(|hca| format!("mlx5_{hca}")).collect();
    for (machine, expected) in [
        ("dgx-a100", dgx),
        ("hgx-h100", own("PIX", "mlx5_")),
        ("azure-nd-h100-v5", [all(4, near), all(4, far)].concat()),
        ("aws-p5", efa.to_vec()),
        (
            "single-socket-pcie",
            ["NODE mlx5_0 mlx5_1", "PHB mlx5_0", "NODE mlx5_0 mlx5_1", "PHB mlx5_1"].map(str::to_owned).to_vec(),
        ),
        ("gh200", all(1, "NODE mlx5_0 mlx5_1")),
        ("cloud-vm-flat", all(8, &format!("PHB {}", vm.join(" ")))),
        ("desktop", all(1, "none")),
    ] {
        let home = trees(&[(machine, &description(machine))]);
        assert_eq!(nearest(&json(home.path(), &["--from", machine], 0)), expected, "{machine}");
    }
}

/// The file that Azure ships, whose pairs the hypervisor does not show: `customizations/ndv5.sh` in Azure/azhpc-images.
fn ndv5() -> String {
    let gpus = ["0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"];
    let link = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
    let mut text = "<system version=\"1\">\n".to_owned();
    for numa in 0..2 {
        writeln!(
            text,
            "  <cpu numaid=\"{numa}\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">"
        )
        .unwrap();
        for (at, gpu) in gpus.iter().enumerate().skip(4 * numa).take(4) {
            let number = at + 1;
            write!(
                text,
                "    <pci busid=\"ffff:ff:{number:02}.0\" class=\"0x060400\" {link}>\n      <pci busid=\"{gpu}:00:00.0\" \
                 class=\"0x030200\" {link}/>\n      <pci busid=\"010{number}:00:00.0\" class=\"0x020700\" {link}/>\n    </pci>\n"
            )
            .unwrap();
        }
        text.push_str("  </cpu>\n");
    }
    text.push_str("</system>\n");
    text
}

#[test]
fn files_of_others_are_read() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("ndv5-topo.xml"), ndv5()).unwrap();
    let document = json(home.path(), &["--from", "ndv5-topo.xml"], 0);
    let expected: Vec<String> = (1..9).map(|number| format!("PIX 010{number}:00:00.0")).collect();
    assert_eq!(nearest(&document), expected);

    let table = "\t\u{1b}[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n\
                 GPU0\t X \tNV18\tPIX\tSYS\t0-47\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\tPIB\t48-95\t1\t\tN/A\n\
                 NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\nNIC1\tSYS\tSYS\tSYS\t X \t\t\t\t\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n";
    fs::write(home.path().join("topo.txt"), table).unwrap();
    let (text, said) = topo(home.path(), &["--from", "topo.txt"], 0);
    insta::assert_snapshot!("a_table_of_nvidia_smi", text);
    assert_eq!(said, "gdrtune: topo.txt:3: warning: unknown word `PIB` in the row of GPU1; did you mean `PIX`?\n");

    let run = gdrtune(home.path())
        .args(["topo", "--from", "-"])
        .stdin(Stdio::from(fs::File::open(home.path().join("topo.txt")).unwrap()))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), text.replacen("topo.txt", "-", 1));
}

#[test]
fn what_is_no_topology_is_refused_with_its_place() {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("log.txt", "NVIDIA-SMI has failed\n"),
        ("graph.xml", "<graphs version=\"1\">\n</graphs>\n"),
        ("cut.xml", "<system version=\"1\">\n  <cpu numaid=\"0\n"),
        ("bytes", "\u{0}\u{1b}[2J\u{fffd}"),
        ("topo.txt", "\tGPU0\nGPU0\t X \n"),
    ] {
        fs::write(home.path().join(name), text).unwrap();
    }
    fs::create_dir(home.path().join("empty")).unwrap();
    for (args, message) in [
        (&["--from", "log.txt"][..], "log.txt:1: no table of GPUs: give the output of `nvidia-smi topo -m`"),
        (&["--from", "graph.xml"], "graph.xml:1: these are NCCL's graphs, not its topology"),
        (&["--from", "cut.xml"], "cut.xml:2: the value of numaid does not end: `\"` is missing"),
        (&["--from", "bytes"], "bytes:1: no table of GPUs"),
        (&["--from", "nowhere"], "read nowhere: No such file or directory"),
        (&["--from", "empty"], "empty: neither GPUs nor HCAs are in this folder: it needs a machine's sys/devices"),
        (
            &["--inventory", "--from", "topo.txt"],
            "topo.txt tells only how a machine is wired: --inventory needs a folder",
        ),
        (&["--from", "log.txt", "-w", "n1"], "cannot be used with"),
        (&["--from"], "a value is required"),
        (&["--format", "xml"], "invalid value 'xml'"),
    ] {
        let (text, said) = topo(home.path(), args, 2);
        assert!(said.contains(message) && text.is_empty(), "{args:?}: {said}");
        assert!(!said.contains('\u{1b}') && !said.contains("panicked"), "{said}");
    }
}

/// Four machines: two alike; one with an HCA down and another that lost lanes; one without an HCA, on an older driver.
#[test]
fn nodes_are_folded_and_their_differences_named() {
    let usual = description("hgx-h100");
    let line = |name: &str| usual.lines().find(|line| line.contains(&format!(" {name} "))).unwrap();
    let (mlx5_2, mlx5_5) = (line("mlx5_2"), line("mlx5_5"));
    let down = usual
        .replace(mlx5_2, &mlx5_2.replace("ACTIVE LinkUp", "DOWN Polling"))
        .replace(mlx5_5, &mlx5_5.replacen("link=\"32.0 GT/s PCIe x16\"", "link=\"16.0 GT/s PCIe x8\"", 1));
    // Addresses do not matter, nor does how fast an idle GPU's link is.
    let same =
        usual.replacen("link=\"32.0 GT/s PCIe x16\"", "link=\"2.5 GT/s PCIe x16\"", 1).replace("/18:00.0", "/1f:00.0");
    let short = usual.lines().filter(|line| !line.contains(" mlx5_7 ")).collect::<Vec<_>>().join("\n");
    let home = trees(&[("n1", &down), ("n2", &usual), ("n3", &same), ("n4", &short)]);
    let (text, _) = topo(home.path(), &["--from", "n1", "n2", "n3", "n4"], 0);
    let tail = text.split("\nn1\n").nth(1).unwrap();
    assert!(text.starts_with("n[2-3] (2 nodes alike)\n  8 GPUs, 8 HCAs, 2 NUMA nodes\n"), "{text}");
    insta::assert_snapshot!("differences_and_rails", format!("n1\n{tail}"));
    let document = json(home.path(), &["--from", "n1", "n2", "n3", "n4"], 0);
    assert_eq!(document["rails"][2]["down"], serde_json::json!(["n1"]));
    assert_eq!(document["rails"][7]["missing"], serde_json::json!(["n4"]));
    assert_eq!(
        (&document["rails"][0]["whole"], &document["rails"][7]["whole"]),
        (&Value::Bool(true), &Value::Bool(false))
    );
}

#[test]
fn hcas_of_other_names_make_rails_by_position() {
    let usual = description("gh200");
    let home = trees(&[("a", &usual), ("b", &usual.replace("mlx5_", "ibp"))]);
    let (text, _) = topo(home.path(), &["--from", "a", "b"], 0);
    assert!(text.contains("\n  mlx5_0/ibp0  2      InfiniBand 400 Gb/s  GPU0\n"), "{text}");
    assert!(text.contains("  warning: no HCA has the same name on all nodes, so rails are by position"), "{text}");
}

/// Candidates of a variable that differ from leaving it unset.
fn candidates(document: &Value, variable: &str) -> Vec<String> {
    let offers = document["bindings"].as_array().unwrap();
    let Some(offer) = offers.iter().find(|offer| offer["variable"] == variable) else { return vec!["unknown".into()] };
    let tried = offer["candidates"].as_array().unwrap().iter().filter(|known| known["same_as_unset"] == false);
    let values: Vec<String> = tried.map(|known| known["value"].as_str().unwrap().to_owned()).collect();
    if values.is_empty() { vec![offer["why_none"].as_str().unwrap().to_owned()] } else { values }
}

/// Two machines of each kind as a cluster.
#[test]
fn lists_of_hcas_follow_the_wiring() {
    const ALL: &str = "the nodes have no other HCAs than NCCL takes by itself";
    let list =
        |names: &[u32]| format!("={}", names.iter().map(|name| format!("mlx5_{name}:1")).collect::<Vec<_>>().join(","));
    // The ports of the storage cards are up and far from all GPUs. The machine's nccl.conf leaves one of them out; its `mlx5_1` also
    // means mlx5_10, and what is unset is what that file says, so that no list is the same.
    let dgx = vec![list(&[0, 1, 2, 3, 6, 7, 8, 9]), list(&[0, 1, 2, 3, 6, 7, 8, 9, 10])];
    let text = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (machine, hcas, levels) in [
        ("dgx-a100", dgx, &["LOC", "SYS"][..]),
        ("hgx-h100", text(&[ALL]), &["LOC", "PHB", "SYS"]),
        ("azure-nd-h100-v5", text(&[ALL]), &["PHB", "SYS"]),
        ("aws-p5", text(&["no HCA is there and up on all nodes"]), &["unknown"]),
        ("single-socket-pcie", text(&["=mlx5_0:1", "=mlx5_1:1"]), &["PHB"]),
        ("gh200", text(&["=mlx5_0:1", "=mlx5_1:1"]), &["PHB"]),
        ("cloud-vm-flat", text(&[ALL]), &["PHB"]),
        ("desktop", text(&["no node has an HCA"]), &["unknown"]),
    ] {
        let home = trees(&[("a", &description(machine)), ("b", &description(machine))]);
        let document = json(home.path(), &["--bindings", "--from", "a", "b"], 0);
        assert_eq!(candidates(&document, "NCCL_IB_HCA"), hcas, "{machine}");
        assert_eq!(candidates(&document, "NCCL_NET_GDR_LEVEL"), levels, "{machine}");
        let rails = match machine {
            "desktop" => "unknown",
            "aws-p5" => "there is one rail, or none",
            _ => "0 1",
        };
        assert_eq!(candidates(&document, "NCCL_CROSS_NIC").join(" "), rails, "{machine}");
    }
}

/// A folder's nccl.conf counts as a host's in a run.
#[test]
fn bindings_keep_to_the_settings_file_of_a_folder() {
    let home = trees(&[("a", &description("hgx-h100")), ("b", &description("hgx-h100"))]);
    let values = || candidates(&json(home.path(), &["--bindings", "--from", "a", "b"], 0), "NCCL_IB_HCA");
    assert_eq!(values(), ["the nodes have no other HCAs than NCCL takes by itself"]);
    fs::create_dir_all(home.path().join("b/etc")).unwrap();
    fs::write(home.path().join("b/etc/nccl.conf"), "NCCL_IB_HCA=^=mlx5_7\n").unwrap();
    let kept = values();
    assert!(kept.iter().all(|list| list.starts_with("=mlx5_") && !list.contains("mlx5_7")), "{kept:?}");
    let (text, _) = topo(home.path(), &["--bindings", "--from", "a", "b"], 0);
    let line = text.lines().find(|line| line.contains("is left out by the site's nccl.conf")).unwrap();
    assert!(line.contains("mlx5_7:1") && line.contains("on b"), "{line}");
}

#[test]
fn bindings_are_told_with_what_speaks_against_hcas() {
    let part = |text: &str| {
        text.split("Candidates for ").skip(1).map(str::to_owned).collect::<Vec<_>>().join("Candidates for ")
    };
    let home = trees(&[("a", &description("dgx-a100")), ("b", &description("dgx-a100"))]);
    let (text, _) = topo(home.path(), &["--bindings", "--from", "a", "b"], 0);
    insta::assert_snapshot!("bindings_of_two_dgx", part(&text));
    // One port is down, one lost lanes, and a node lacks one.
    let usual = description("hgx-h100");
    let line = |name: &str| usual.lines().find(|line| line.contains(&format!(" {name} "))).unwrap();
    let (mlx5_2, mlx5_5) = (line("mlx5_2"), line("mlx5_5"));
    let odd = usual
        .replace(mlx5_2, &mlx5_2.replace("ACTIVE LinkUp", "DOWN Polling"))
        .replace(mlx5_5, &mlx5_5.replacen("link=\"32.0 GT/s PCIe x16\"", "link=\"16.0 GT/s PCIe x8\"", 1));
    let short = usual.lines().filter(|line| !line.contains(" mlx5_7 ")).collect::<Vec<_>>().join("\n");
    let home = trees(&[("n1", &odd), ("n2", &usual), ("n3", &usual), ("n4", &short)]);
    let (text, _) = topo(home.path(), &["--bindings", "--from", "n1", "n2", "n3", "n4"], 0);
    insta::assert_snapshot!("bindings_where_nodes_differ", part(&text));
    let (plain, _) = topo(home.path(), &["--from", "n1", "n2", "n3", "n4"], 0);
    assert!(text.starts_with(&plain) && !plain.contains("Candidates"), "they are there where they are asked for");
}

/// An `nvidia-smi` of two GPUs with NVLinks between them. Another process writes it: a file that this one has open for writing
/// cannot be run, and any test's fork keeps it open for a moment.
fn fake_nvidia_smi(folder: &Path) {
    let text = "#!/bin/sh\ncase \"$1\" in --query-gpu=*) echo '0, GPU-a, NVIDIA H200'; echo '1, GPU-b, NVIDIA H200';;\n\
                topo) printf '\\tGPU0\\tGPU1\\nGPU0\\t X \\tNV18\\nGPU1\\tNV18\\t X \\n';; esac\n";
    fs::create_dir_all(folder).unwrap();
    let script = "printf '%s' \"$1\" >\"$0\" && chmod +x \"$0\"";
    let path = folder.join("nvidia-smi");
    assert!(Command::new("/bin/sh").args(["-c", script]).arg(&path).arg(text).status().unwrap().success());
}

/// Hosts that are all this machine; each finds a folder of its own first on its path.
#[test]
fn hosts_are_looked_at_by_their_agents_and_a_broken_one_spoils_nothing() {
    let home = tempfile::tempdir().unwrap();
    for host in ["h1", "h2", "h3"] {
        fake_nvidia_smi(&home.path().join(host));
    }
    let folder = home.path().to_str().unwrap();
    let start = format!("[ -d {folder}/$0 ] || exit 9; PATH={folder}/$0:$PATH exec \"$@\"");
    let launcher = format!("sh -c '{start}' {{host}} {{agent}}");
    let hosts = |list: &'static str| ["--launcher-cmd", &*launcher.clone().leak(), "-w", list];
    let (text, said) = topo(home.path(), &hosts("h[1-3]"), 0);
    assert!(text.starts_with("h[1-3] (3 nodes alike)\n"), "{text}{said}");
    assert!(text.contains("note: nvidia-smi names 2 GPUs, and /proc and /sys show 0"), "{text}");

    let document = json(home.path(), &hosts("h[1-2],gone"), 101);
    assert_eq!(document["groups"][0]["hosts"], serde_json::json!(["h1", "h2"]));
    assert_eq!(document["failed"][0]["host"], "gone");
    let (text, said) = topo(home.path(), &hosts("gone"), 3);
    assert!(text.is_empty() && said.contains("no host can be looked at: start the agent on gone"), "{said}");
    // Nothing is locked, and no agent is left.
    assert!(!home.path().join("lock").exists(), "a lock was taken");
    assert_eq!(common::gdrtune_processes(folder), Vec::<u32>::new());
}

#[test]
fn this_machine_alone_is_looked_at_without_any_host() {
    let home = tempfile::tempdir().unwrap();
    let (text, _) = topo(home.path(), &[], 0);
    assert!(text.starts_with("localhost\n"), "{text}");
}
