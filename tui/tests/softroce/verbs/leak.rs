//! Registering and freeing leaves nothing behind.

use std::{path::Path, process::Command, sync::Arc};

use gdrtune_node::verbs::{Access, Device, Domain, HostMemory, Region, Verbs};

const REGIONS: usize = 10_000;
const BYTES: usize = 64 << 10;

/// What a leak would show in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    resident_kib: u64,
    locked_kib: u64,
    /// Regions that the kernel lists.
    regions: usize,
    descriptors: usize,
}

impl Usage {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let shown = Command::new("rdma").args(["res", "show", "mr"]).output().unwrap();
        let regions = String::from_utf8_lossy(&shown.stdout).lines().filter(|line| line.contains("rxe_r1a")).count();
        let descriptors = std::fs::read_dir(Path::new("/proc/self/fd")).unwrap().count();
        Self { resident_kib: field("VmRSS:"), locked_kib: field("VmPin:") + field("VmLck:"), regions, descriptors }
    }
}

fn register(domain: &Arc<Domain>) -> Region {
    domain.register(HostMemory::zeroed(BYTES).unwrap(), Access::RemoteReadWrite).unwrap()
}

#[test]
#[ignore = "runs in the guest"]
fn registering_leaks_nothing() {
    let verbs = Verbs::open().unwrap();
    let domain = Domain::new(&Device::open(&verbs, "rxe_r1a").unwrap()).unwrap();
    let kept = register(&domain);
    let round = |count: usize| (0..count).for_each(|_| assert_ne!(register(&domain).remote().key, kept.remote().key));
    // Allocators and the kernel's caches are warm after some.
    round(REGIONS / 10);
    let before = Usage::now();
    round(REGIONS);
    let after = Usage::now();
    assert_eq!(before.regions, 1, "the kernel lists the region that is there");
    assert!(BYTES as u64 / 1024 <= before.locked_kib, "{before:?}");
    // A page a region would be 40 MB.
    assert!(after.resident_kib <= before.resident_kib + 2048, "{before:?}, then {after:?}");
    assert_eq!(Usage { resident_kib: before.resident_kib, ..after }, before);
    drop(kept);
    let end = Usage::now();
    assert_eq!(end.regions, 0, "the last region is gone, too");
    println!("{REGIONS} regions of {BYTES} bytes: {before:?}, then {after:?}, and at the end {end:?}");
}
