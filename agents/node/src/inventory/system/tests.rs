//! Facts of a whole node, on recorded trees.

use std::{fs, os::unix::fs::symlink, path::Path};

use gdrtune_wire::{HugePages, LibraryKind, LibrarySource, Memlock, Module, NvidiaModule};

use super::*;
use crate::inventory::topology_tests::{NVIDIA, Tree};

const MEMORY: u64 = 64 << 30;

fn tree(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::new("0\n");
    for (path, text) in files {
        tree.file(path, text);
    }
    tree
}

fn read_with(tree: &Tree, variables: &[(&str, &str)]) -> System {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut reader = Reader::new(tree.0.path());
    let (topology, _) = reader.topology(&[], None);
    let system = reader.system(&topology, &LiveSystem { variables, shm: None }, None, MEMORY);
    assert_eq!(reader.unreadable, Vec::<String>::new());
    system
}

fn read(files: &[(&str, &str)]) -> System {
    read_with(&tree(files), &[])
}

#[test]
fn a_machine_that_tells_nothing_is_none_the_worse() {
    let mut reader = Reader::new(Path::new("/nowhere"));
    let system = reader.system(&Topology::default(), &LiveSystem::default(), None, 0);
    assert_eq!((system, reader.unreadable), (System::default(), vec![]));
}

#[test]
fn modules_are_loaded_or_only_installed() {
    let system = read(&[
        ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
        ("sys/module/nvidia/version", "550.54.15\n"),
        ("sys/module/ib_uverbs/refcnt", "3\n"),
        ("sys/module/ext4/version", "1\n"),
        (
            "lib/modules/6.8.0-45-generic/modules.dep",
            "kernel/fs/ext4/ext4.ko.zst: kernel/a.ko\nupdates/dkms/nvidia-peermem.ko.zst: updates/dkms/nvidia.ko.zst\nkernel/x/nouveau.ko:\n",
        ),
    ]);
    let module =
        |name: &str, loaded, version: &str| Module { name: name.to_owned(), loaded, version: version.to_owned() };
    let expected = [
        module("ib_uverbs", true, ""),
        module("nouveau", false, ""),
        module("nvidia", true, "550.54.15"),
        module("nvidia_peermem", false, ""),
    ];
    assert_eq!(system.modules, expected);
    assert_eq!(
        (system.loaded("nvidia").map(|m| m.version.as_str()), system.loaded("nvidia_peermem")),
        (Some("550.54.15"), None)
    );
}

#[test]
fn nvidias_kernel_module_is_open_or_not() {
    for (text, expected) in [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)\nGCC version: 12.2.0\n",
            Some(("550.54.15", true)),
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.105.17  Tue Mar 28 18:02:59 UTC 2023\n",
            Some(("525.105.17", false)),
        ),
        ("NVRM version: of tomorrow\n", None),
    ] {
        let expected = expected.map(|(version, open)| NvidiaModule { version: version.to_owned(), open });
        assert_eq!(read(&[("proc/driver/nvidia/version", text)]).nvidia_module, expected, "{text}");
    }
}

#[test]
fn a_fabric_manager_is_seen_by_who_sees_all_processes() {
    let switches = ("proc/driver/nvidia-nvswitch/devices/0000:86:00.0/information", "x\n");
    let runs = |files: &[(&str, &str)]| read(&[&[switches], files].concat()).fabric.manager_runs;
    let manager = ("proc/77/comm", "nv-fabricmanage\n");
    let init = ("proc/1/comm", "systemd\n");
    assert_eq!((runs(&[init]), runs(&[init, manager]), runs(&[])), (Some(false), Some(true), None));
    assert_eq!(runs(&[init, (".dockerenv", "")]), None, "in a container");
    let none = read(&[init, manager]).fabric;
    assert_eq!((none.nvswitches, none.manager_runs), (0, None), "without switches it does not matter");
}

#[test]
fn ofed_is_told_by_its_driver_or_its_script() {
    const SCRIPT: &str = "#!/bin/bash\nif [ $# -eq 0 ]; then\necho MLNX_OFED_LINUX-23.10-0.5.5.0 (OFED-23.10-0.5.5):\n";
    for (path, text, expected) in [
        ("sys/module/mlx5_core/version", "23.10-0.5.5\n", Some("23.10-0.5.5")),
        ("sys/module/mlx5_core/version", "5.0-0\n", None),
        ("usr/bin/ofed_info", SCRIPT, Some("23.10-0.5.5.0")),
        ("usr/bin/ofed_info", "#!/bin/sh\nexit 1\n", None),
    ] {
        let told = read(&[(path, text)]).ofed;
        assert_eq!(told.as_ref().map(|ofed| ofed.version.as_str()), expected, "{text}");
        assert!(told.is_none_or(|ofed| ofed.source == format!("/{path}")));
    }
}

#[test]
fn iommu_groups_of_our_devices() {
    let tree = tree(&[
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=7 password=x iommu=pt intel_iommu=on pci=realloc=off quiet\n"),
        ("sys/kernel/iommu_groups/3/type", "identity\n"),
        ("sys/kernel/iommu_groups/9/type", "DMA\n"),
    ]);
    tree.pci("pci0000:00/0000:01:00.0", 0, "0x030200", NVIDIA, "0x2335");
    tree.link("sys/devices/pci0000:00/0000:01:00.0/iommu_group", "sys/kernel/iommu_groups/3");
    let system = read_with(&tree, &[]);
    assert_eq!(system.kernel_parameters, ["iommu=pt", "intel_iommu=on", "pci=realloc=off"]);
    assert_eq!((system.iommu.groups, system.iommu.types), (Some(2), vec!["identity".to_owned()]), "of a GPU only");
}

#[test]
fn memory_and_its_limits() {
    for (text, soft, hard) in [
        ("unlimited            unlimited            bytes", None, None),
        ("8388608              unlimited            bytes", Some(8 << 20), None),
        ("65536                65536                bytes", Some(65_536), Some(65_536)),
    ] {
        let limits =
            format!("Limit   Soft   Hard   Units\nMax locked memory         {text}\nMax open files 1 2 files\n");
        assert_eq!(read(&[("proc/self/limits", &limits)]).memlock, Some(Memlock { soft, hard }), "{text}");
    }
    assert_eq!(read(&[("proc/self/limits", "Max locked memory a b bytes\n")]).memlock, None);
    let pool = "sys/kernel/mm/hugepages";
    let memory = read(&[
        (&format!("{pool}/hugepages-1048576kB/nr_hugepages"), "0\n"),
        (&format!("{pool}/hugepages-1048576kB/free_hugepages"), "0\n"),
        (&format!("{pool}/hugepages-2048kB/nr_hugepages"), "512\n"),
        (&format!("{pool}/hugepages-2048kB/free_hugepages"), "500\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid 0 0\nshm /dev/shm tmpfs rw,size=65536k,mode=1777 0 0\n"),
    ])
    .memory;
    let small = HugePages { bytes: 2 << 20, total: 512, free: 500 };
    assert_eq!(memory.huge_pages, [small, HugePages { bytes: 1 << 30, total: 0, free: 0 }]);
    assert_eq!(
        (memory.transparent_huge_pages.as_str(), memory.numa_balancing, memory.shm_bytes),
        ("madvise", Some(true), Some(64 << 20))
    );
    let half = read(&[("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid 0 0\n")]).memory.shm_bytes;
    assert_eq!(half, Some(MEMORY / 2), "nothing said");
}

#[test]
fn cpus_and_who_chooses_their_frequencies() {
    let cpu = "sys/devices/system/cpu";
    let files: Vec<(String, &str)> = vec![
        ("proc/cpuinfo".into(), "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: EPYC\n"),
        (format!("{cpu}/cpu0/topology/physical_package_id"), "0\n"),
        (format!("{cpu}/cpu1/topology/physical_package_id"), "1\n"),
        (format!("{cpu}/cpu2/topology/physical_package_id"), "1\n"),
        (format!("{cpu}/smt/active"), "1\n"),
        (format!("{cpu}/cpufreq/policy0/scaling_governor"), "performance\n"),
        (format!("{cpu}/cpufreq/policy1/scaling_governor"), "powersave\n"),
        (format!("{cpu}/cpu0/cpufreq/scaling_driver"), "acpi-cpufreq\n"),
        (format!("{cpu}/cpu0/cpufreq/scaling_min_freq"), "1500000\n"),
        (format!("{cpu}/cpu0/cpufreq/scaling_max_freq"), "2450000\n"),
        (format!("{cpu}/cpu0/cpufreq/cpuinfo_max_freq"), "3530493\n"),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let cpu = read(&files).cpu;
    assert_eq!((cpu.vendor.as_str(), cpu.sockets, cpu.smt), ("AuthenticAMD", Some(2), Some(true)));
    assert_eq!(
        (cpu.governors, cpu.driver.as_str()),
        (vec!["performance".to_owned(), "powersave".to_owned()], "acpi-cpufreq")
    );
    assert_eq!(
        (cpu.least_khz, cpu.most_khz, cpu.hardware_most_khz),
        (Some(1_500_000), Some(2_450_000), Some(3_530_493))
    );
    assert_eq!(read(&[("proc/cpuinfo", "CPU implementer\t: 0x41\n")]).cpu.vendor, "0x41", "ARM");
}

#[test]
fn limits_of_control_groups_new_and_old() {
    let new = [
        ("proc/self/cgroup", "0::/kubepods.slice/pod7\n"),
        ("sys/fs/cgroup/kubepods.slice/memory.max", "max\n"),
        ("sys/fs/cgroup/kubepods.slice/cpu.max", "400000 100000\n"),
        ("sys/fs/cgroup/kubepods.slice/pod7/memory.max", "34359738368\n"),
        ("sys/fs/cgroup/kubepods.slice/pod7/cpu.max", "max 100000\n"),
        ("proc/self/status", "CapEff:\t00000000a80425fb\n"),
        ("dev/infiniband/uverbs0", ""),
        ("dev/infiniband/rdma_cm", ""),
    ];
    let container = read(&new).container;
    assert_eq!(
        (container.kind.as_str(), container.memory_bytes, container.cpu_milli),
        ("kubernetes", Some(32 << 30), Some(4000))
    );
    assert_eq!(
        (container.rdma_devices, container.ipc_lock),
        (vec!["rdma_cm".to_owned(), "uverbs0".to_owned()], Some(false))
    );
    let old = [
        ("proc/self/cgroup", "4:memory:/docker/7\n2:cpu,cpuacct:/docker/7\n0::/\n"),
        ("sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.cfs_quota_us", "150000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.cfs_period_us", "100000\n"),
        ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
    ];
    let container = read(&old).container;
    assert_eq!((container.kind.as_str(), container.memory_bytes, container.cpu_milli), ("docker", None, Some(1500)));
    assert_eq!(container.ipc_lock, Some(true));
    let unlimited = [
        ("proc/self/cgroup", "2:cpu:/\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ];
    assert_eq!(read(&unlimited).container.cpu_milli, None);
    let by_variable = read_with(&tree(&[(".dockerenv", "")]), &[("APPTAINER_NAME", "x")]).container.kind;
    assert_eq!(by_variable, "apptainer");
    assert_eq!(read(&[("run/.containerenv", "")]).container.kind, "podman");
}

#[test]
fn libraries_are_found_once_and_in_the_loaders_order() {
    let tree = tree(&[
        ("opt/own/libnccl.so.2", "\0NCCL version 2.27.3+cuda12.9\0"),
        ("usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5", "none"),
        ("usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", ""),
        ("opt/amazon/ofi-nccl/lib/libnccl-net.so", ""),
        (
            "usr/local/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
            "x\0NCCL version 2.21.5\0NCCL version 2.21.5+cuda12.4\0",
        ),
    ]);
    let lib = tree.0.path().join("usr/lib/x86_64-linux-gnu");
    symlink("libnccl.so.2.18.5", lib.join("libnccl.so.2")).unwrap();
    symlink("/usr/lib/x86_64-linux-gnu/libnccl.so.2", lib.join("libnccl.so")).unwrap();
    symlink("libcuda.so.550.54.15", lib.join("libcuda.so.1")).unwrap();
    symlink("nowhere.so", lib.join("libnccl-net-gone.so")).unwrap();
    symlink("libnccl-tuner-ring.so", lib.join("libnccl-tuner-ring.so")).unwrap();
    symlink("usr/lib", tree.0.path().join("lib")).unwrap();
    let cache = ld_cache::tests::cache(&[
        ("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        ("libm.so.6", "/lib/libm.so.6"),
        ("libnccl.so.2", "/lib/x86_64-linux-gnu/../x86_64-linux-gnu/libnccl.so.2"),
    ]);
    fs::create_dir_all(tree.0.path().join("etc")).unwrap();
    fs::write(tree.0.path().join("etc/ld.so.cache"), cache).unwrap();
    let libraries = read_with(&tree, &[("LD_LIBRARY_PATH", "relative:/opt/own:/nowhere")]).libraries;
    let rows: Vec<_> =
        libraries.iter().map(|l| (l.kind, l.path.as_str(), l.version.as_str(), l.cuda.as_str(), l.found)).collect();
    let python = "/usr/local/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2";
    assert_eq!(
        rows,
        [
            (LibraryKind::Nccl, "/opt/own/libnccl.so.2", "2.27.3", "12.9", LibrarySource::LibraryPath),
            (
                LibraryKind::Cuda,
                "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15",
                "550.54.15",
                "",
                LibrarySource::LoaderCache
            ),
            (
                LibraryKind::Nccl,
                "/usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5",
                "2.18.5",
                "",
                LibrarySource::LoaderCache
            ),
            (LibraryKind::NcclNet, "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "", "", LibrarySource::UsualFolder),
            (LibraryKind::Nccl, python, "2.21.5", "12.4", LibrarySource::Python),
        ]
    );
}

#[test]
fn storage_and_its_settings() {
    let text = "{\n    // comment\n    \"properties\": {\n        \"allow_compat_mode\": true,\n    }\n}\n";
    let files =
        [("proc/driver/nvidia-fs/version", "version: 2.17.5\n"), ("etc/cufile.json", text), ("opt/my.json", "{}\n")];
    let storage = read(&files).storage;
    assert_eq!(
        (storage.nvidia_fs.as_str(), storage.cufile_json.as_str(), storage.compatible),
        ("2.17.5", "/etc/cufile.json", Some(true))
    );
    let named = read_with(&tree(&files), &[("CUFILE_ENV_PATH_JSON", "/opt/my.json")]).storage;
    assert_eq!((named.cufile_json.as_str(), named.compatible), ("/opt/my.json", None));
    assert_eq!(read(&[("sys/module/nvidia_fs/version", "2.7.49\n")]).storage.nvidia_fs, "2.7.49");
}
