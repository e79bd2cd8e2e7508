use super::{super::topology_tests::*, *};
use crate::inventory::read_recorded;

/// A machine with a GPU, an HCA, and much that is nobody else's business.
fn machine() -> Tree {
    let tree = Tree::new("0\n");
    tree.pci("pci0000:15/0000:15:01.0/0000:16:00.0", 0, "0x030200", NVIDIA, "0x2335");
    tree.pci("pci0000:15/0000:15:01.0", 0, "0x060400", "0x8086", "0x352a");
    tree.nvidia("0000:16:00.0", "GPU-a");
    let port = ["4: ACTIVE\n", "5: LinkUp\n", "400 Gb/sec (4X NDR)\n"];
    tree.hca("pci0000:15/0000:15:02.0/0000:17:00.0", 0, "mlx5_0", "ib0", port);
    let library = [b"\x7fELF\0secret key\0".as_slice(), b"NCCL version 2.28.9+cuda13.0\0more"].concat();
    fs::create_dir_all(tree.0.path().join("usr/lib64")).unwrap();
    fs::write(tree.0.path().join("usr/lib64/libnccl.so.2.28.9"), library).unwrap();
    symlink("/usr/lib64/libnccl.so.2.28.9", tree.0.path().join("usr/lib64/libnccl.so.2")).unwrap();
    for (path, text) in [
        ("proc/cmdline", "root=UUID=7 password=secret iommu=pt\n"),
        ("proc/900/status", "Cpus_allowed_list:\t0-7\nCapEff:\t0000000000004000\n"),
        ("proc/900/mounts", "//secret/home /home cifs rw 0 0\ntmpfs /dev/shm tmpfs rw,size=65536k 0 0\n"),
        ("proc/900/environ", "SECRET=1\n"),
        ("proc/901/comm", "secret-job\n"),
        ("proc/902/comm", "nv-fabricmanage\n"),
        ("proc/driver/nvidia-nvswitch/devices/0000:05:00.0", ""),
        ("proc/meminfo", "MemTotal:       16777216 kB\n"),
        ("proc/sys/kernel/hostname", "node7\n"),
        ("etc/nccl.conf", "NCCL_DEBUG=WARN\n"),
        ("etc/shadow", "root:secret\n"),
        ("home/user/secret", "x"),
        ("usr/lib64/secret.so", "x"),
        (
            "nvidia-smi-q.xml",
            "<nvidia_smi_log>\n<driver_version>555.1</driver_version>\n<gpu id=\"0000:16:00.0\">\n<serial>secret</serial>\n<processes>\n\
             <process_info>\n<process_name>secret-job</process_name>\n</process_info>\n</processes>\n<pci>\n\
             <pci_bus_id>00000000:16:00.0</pci_bus_id>\n</pci>\n</gpu>\n</nvidia_smi_log>\n",
        ),
    ] {
        tree.file(path, text);
    }
    symlink("900", tree.0.path().join("proc/self")).unwrap();
    symlink("../../../../../../etc/shadow", tree.0.path().join("sys/class/net/out")).unwrap();
    tree
}

/// Every file of a folder with what is in it; links by where they lead to.
fn contents(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let inner = path.strip_prefix(folder).unwrap().to_owned();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                found.insert(inner, format!("-> {}", fs::read_link(path).unwrap().display()));
            } else {
                found.insert(inner, String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned());
            }
        }
    }
    found
}

#[test]
fn a_record_reads_as_the_machine_and_has_no_secret() {
    let tree = machine();
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join("node7");
    let written = record(tree.0.path(), &copy).unwrap();
    let (again, machine) = (read_recorded(&copy), read_recorded(tree.0.path()));
    assert_eq!(machine.system.libraries[0].version, "2.28.9");
    assert_eq!((machine.topology.gpus.len(), machine.topology.hcas.len(), machine.hostname.as_str()), (1, 1, "node7"));
    assert_eq!(machine.system.fabric.manager_runs, Some(true));
    let elsewhere = |lines: &[String], root: &Path| -> Vec<String> {
        lines.iter().map(|line| line.replace(&format!("{}/", root.display()), "/")).collect()
    };
    assert_eq!(elsewhere(&again.unreadable, &copy), elsewhere(&machine.unreadable, tree.0.path()));
    let same = gdrtune_wire::Inventory { unreadable: machine.unreadable.clone(), ..again };
    assert_eq!(same, machine);

    let files = contents(&copy);
    let told: Vec<_> =
        files.iter().filter(|(path, text)| format!("{} {text}", path.display()).contains("secret")).collect();
    assert!(told.is_empty(), "{told:#?}");
    assert_eq!(files[Path::new("proc/cmdline")], "iommu=pt");
    assert!(
        !files.keys().any(|path| path.starts_with("proc/901") || path.ends_with("environ") || path.starts_with("home"))
    );
    assert_eq!(files[Path::new("usr/lib64/libnccl.so.2")], "-> ../../usr/lib64/libnccl.so.2.28.9");
    let bytes: u64 = files.values().filter(|text| !text.starts_with("->")).map(|text| text.len() as u64).sum();
    assert_eq!(written.bytes, bytes);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing temporary is left");
}

#[test]
fn what_cannot_be_recorded_leaves_nothing() {
    let tree = machine();
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "mine").unwrap();
    let error = record(tree.0.path(), &home.path().join("file")).unwrap_err();
    assert!(matches!(error, RecordError::Exists(_)), "{error}");
    let error = record(tree.0.path(), &home.path().join("missing/copy")).unwrap_err().to_string();
    assert!(error.starts_with("create ") && error.contains("No such file"), "{error}");
    // What no machine has.
    let folder = tree.0.path().join("sys/class/net");
    for number in 0..4 {
        fs::create_dir_all(folder.join(format!("eth{number}/device"))).unwrap();
        fs::write(folder.join(format!("eth{number}/operstate")), vec![b'x'; 17 << 20]).unwrap();
    }
    fs::create_dir_all(folder.join("eth4/device")).unwrap();
    let copied = record(tree.0.path(), &home.path().join("copy")).unwrap();
    assert!(copied.bytes < 8 << 20, "of a file its beginning is read, and copied: {copied:?}");
    assert_eq!(fs::read(home.path().join("file")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
}

#[test]
fn links_are_followed_below_the_root_only() {
    let of = |folder: &str, target: &str| resolved(Path::new(folder), Path::new(target));
    assert_eq!(of("sys/class/net", "../../devices/x"), Some("sys/devices/x".into()));
    assert_eq!(of("usr/lib", "/opt/a/../b"), Some("opt/b".into()));
    assert_eq!(of("sys", "../../etc"), None);
}
