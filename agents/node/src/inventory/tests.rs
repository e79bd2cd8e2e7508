use std::fs;

use super::*;

fn recorded(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// Of addresses such as `10.0.0.1` and `10.0.0.1/24`.
pub(super) fn link(name: &str, addresses: &[&str]) -> Link {
    let address = |text: &&str| {
        let (ip, prefix) = text.split_once('/').unwrap_or((text, "32"));
        (ip.parse().unwrap(), prefix.parse().unwrap())
    };
    let addresses = addresses.iter().map(address).collect();
    Link { name: name.to_owned(), loopback: name == "lo", addresses }
}

pub(super) fn live(links: Vec<Link>) -> Live {
    let variables = [
        ("NCCL_ALGO", "Ring"),
        ("GDRTUNE_X", ""),
        ("GDRTUNE_LOCK_DIR", "/run/lock"),
        ("PATH", "/bin"),
        ("XNCCL_A", "1"),
        ("CUDA_VISIBLE_DEVICES", "1"),
        ("CUDA_CACHE_PATH", "/tmp"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Live {
        links: Ok(links),
        variables,
        pid: 1,
        home: Some("/home/ann".into()),
        nvidia_smi: None,
        log: None,
        asks: false,
        shm: None,
    }
}

#[test]
fn a_recorded_tree_reads_like_a_machine() {
    let root = recorded(&[
        ("proc/sys/kernel/hostname", "node01\n"),
        ("proc/sys/kernel/random/boot_id", "5c8f\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
        ("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8,10-11\n"),
        ("proc/meminfo", "MemTotal:        2048 kB\nMemFree:         1 kB\n"),
        ("sys/class/net/lo/mtu", "65536\n"),
        ("sys/class/net/ib0/mtu", "4092\n"),
        ("sys/class/net/ib0/speed", "400000\n"),
        ("sys/class/net/veth/mtu", "1500\n"),
        ("sys/class/net/veth/speed", "-1\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"),
        ("proc/driver/nvidia/gpus/0000:19:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n"),
        ("proc/driver/nvidia/gpus/0000:2b:00.0/information", "Model: \t\t NVIDIA H200\n"),
        ("sys/module/nvidia/version", "550.54.15\n"),
        ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
        ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
        ("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
        ("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n"),
        ("home/ann/.nccl.conf", "NCCL_DEBUG=WARN\n"),
        ("etc/nccl.conf", "NCCL_NET=IB\n"),
    ]);
    let links = vec![
        link("lo", &["127.0.0.1", "::1"]),
        link("ib0", &["fd00::1/64", "10.0.0.1/16"]),
        link("veth", &["10.1.0.1"]),
    ];
    let inventory = assemble(root.path(), live(links));
    assert_eq!(inventory.unreadable, Vec::<String>::new());
    assert_eq!((inventory.hostname.as_str(), inventory.boot_id.as_str()), ("node01", "5c8f"));
    assert_eq!((inventory.kernel.as_str(), inventory.cpus, inventory.memory_bytes), ("6.1.0-18-amd64", 7, 2 << 20));
    assert_eq!(inventory.site_env.to_string(), "CUDA_VISIBLE_DEVICES=1 GDRTUNE_X= NCCL_ALGO=Ring");
    let rows: Vec<_> =
        inventory.interfaces.iter().map(|i| (i.name.as_str(), i.loopback, i.mtu, i.speed_mbps)).collect();
    assert_eq!(rows, [("lo", true, 65536, None), ("ib0", false, 4092, Some(400_000)), ("veth", false, 1500, None)]);
    let ib0: Vec<String> = inventory.interfaces[1].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(ib0, ["10.0.0.1", "fd00::1"], "IPv4 first");
    assert_eq!(inventory.interfaces[1].prefixes, [16, 64], "in the order of the addresses");
    assert_eq!((inventory.cpu_model.as_str(), inventory.driver.as_str()), ("Some CPU @ 2 GHz", "550.54.15"));
    assert_eq!(inventory.gpus, ["NVIDIA H200", "NVIDIA H200"]);
    let ports: Vec<_> =
        inventory.hca_ports.iter().map(|port| (port.hca.as_str(), port.port, port.is_active())).collect();
    assert_eq!(ports, [("mlx5_0", 1, true), ("mlx5_0", 2, false)]);
    assert_eq!(inventory.hca_ports[0].rate, "400 Gb/sec (4X NDR)");
    let confs: Vec<_> = inventory.nccl_confs.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    assert_eq!(confs, [("/home/ann/.nccl.conf", "NCCL_DEBUG=WARN"), ("/etc/nccl.conf", "NCCL_NET=IB")]);
}

#[test]
fn what_is_missing_or_broken_is_listed_with_its_cause() {
    let root = recorded(&[
        ("proc/sys/kernel/hostname", "node01"),
        ("proc/self/status", "Cpus_allowed_list:\t3-1\n"),
        ("proc/meminfo", "MemTotal: many kB\n"),
        ("sys/class/net/ib0/mtu", "big"),
    ]);
    let inventory = assemble(root.path(), live(vec![link("ib0", &["10.0.0.1"])]));
    assert_eq!(inventory.hostname, "node01");
    assert_eq!((inventory.cpus, inventory.memory_bytes, inventory.interfaces[0].mtu), (0, 0, 0));
    let unreadable = inventory.unreadable.join("\n");
    for (path, why) in [
        ("proc/sys/kernel/random/boot_id", "No such file"),
        ("proc/sys/kernel/osrelease", "No such file"),
        ("proc/self/status", "has an unexpected form"),
        ("proc/meminfo", "has an unexpected form"),
        ("sys/class/net/ib0/mtu", "has an unexpected form"),
    ] {
        let line = format!("{}: {why}", root.path().join(path).display());
        assert!(unreadable.contains(&line), "{line} is not in:\n{unreadable}");
    }
    assert_eq!(inventory.unreadable.len(), 5);

    let no_links = Live { links: Err(io::Error::other("denied")), ..live(vec![]) };
    let inventory = assemble(Path::new("/nowhere"), no_links);
    assert_eq!((inventory.interfaces.len(), inventory.unreadable[0].as_str()), (0, "interface addresses: denied"));
}

#[test]
fn this_machine_has_a_loopback_a_name_and_a_cpu() {
    let inventory = read(Path::new("/"));
    assert!(!inventory.hostname.is_empty() && !inventory.boot_id.is_empty());
    assert!(inventory.cpus >= 1 && inventory.memory_bytes > 1 << 20, "{inventory:?}");
    let loopback = inventory.interfaces.iter().find(|interface| interface.loopback).unwrap();
    assert_eq!((loopback.addresses[0].to_string().as_str(), loopback.prefixes[0]), ("127.0.0.1", 8));
    assert!(loopback.mtu > 1000);
}

#[test]
fn kernel_lists_are_counted() {
    for (list, expected) in [
        ("0", Some(1)),
        ("0-1", Some(2)),
        ("0-3,8,10-11", Some(7)),
        ("", None),
        ("3-1", None),
        ("0-", None),
        ("a", None),
        ("0-4294967295", None),
    ] {
        assert_eq!(count_list(list), expected, "{list}");
    }
}

#[test]
fn a_recorded_tree_is_read_without_what_is_outside_of_it_or_never_ends() {
    let (tree, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| tree.path().join(name);
    std::fs::create_dir_all(path("proc/sys/kernel")).unwrap();
    std::fs::write(outside.path().join("osrelease"), "of this machine").unwrap();
    std::os::unix::fs::symlink(outside.path().join("osrelease"), path("proc/sys/kernel/osrelease")).unwrap();
    std::fs::write(path("host"), "node07").unwrap();
    std::os::unix::fs::symlink("../../../host", path("proc/sys/kernel/hostname")).unwrap();
    // Nobody ever writes to it.
    rustix::fs::mknodat(rustix::fs::CWD, path("nvidia-smi-q.xml"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let inventory = read_recorded(tree.path());
    assert_eq!((inventory.hostname.as_str(), inventory.kernel.as_str()), ("node07", ""));
    let unreadable = inventory.unreadable.join("\n");
    assert!(unreadable.contains("osrelease: leads out of the recorded tree"), "{unreadable}");
}
