//! Limits and the operating system.

use gdrtune_profiles::size::Size;

use super::{Check, Fault, Node, Outcome, no_gpu, no_hca};

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "sys-memlock",
            "memory may be locked without limit",
            "The limit of locked memory that agents, and so workers, have. RDMA locks every buffer; below it registering fails with `ibv_reg_mr failed`.",
            "`* soft memlock unlimited` and hard, in /etc/security/limits.d/90-rdma.conf, then log in anew; `docker run --ulimit memlock=-1`; slurmd: LimitMEMLOCK=infinity and PropagateResourceLimitsExcept=MEMLOCK",
            "NCCL networking troubleshooting guide, Troubleshooting NCCL errors",
        ],
        memlock,
    ),
    Check::node(
        [
            "sys-shm",
            "/dev/shm has room",
            "Size and free space of /dev/shm, in which ranks of a node meet. Docker's default of 64 MiB is too little: `failed to extend /dev/shm/nccl-...`.",
            "`docker run --shm-size=1g` (or --ipc=host); Kubernetes: an emptyDir of medium Memory at /dev/shm; remove files left there",
            "NCCL troubleshooting guide, Shared memory",
        ],
        shm,
    ),
    Check::node(
        [
            "sys-governor",
            "CPUs run at full speed",
            "Governors of the CPUs. NCCL's proxy threads poll in short bursts, for which slow governors never speed up.",
            "`cpupower frequency-set -g performance`, or `tuned-adm profile throughput-performance`",
            "Linux Documentation/admin-guide/pm/cpufreq.rst; NVIDIA performance tuning for ConnectX",
        ],
        governor,
    ),
    Check::node(
        [
            "sys-frequency",
            "no setting caps the CPUs' frequency",
            "The highest frequency that may be chosen against the hardware's.",
            "`cpupower frequency-set -u MAX`, with the frequency that `cpupower frequency-info` shows as the hardware's limit",
            "Linux Documentation/admin-guide/pm/cpufreq.rst, scaling_max_freq",
        ],
        frequency,
    ),
    Check::node(
        [
            "sys-numa-balancing",
            "the kernel does not move pages between NUMA nodes",
            "Automatic NUMA balancing: it takes pages away for a moment to see who uses them, which shows as stalls.",
            "`sysctl -w kernel.numa_balancing=0`",
            "Linux Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; Azure HPC and NVIDIA tuning guides",
        ],
        numa_balancing,
    ),
    Check::node(
        [
            "sys-huge-pages",
            "huge pages hold no memory that nobody uses",
            "Memory that is reserved as huge pages and free: nobody else can have it, for pinned buffers neither. Transparent huge pages are shown, and none of their modes is a fault.",
            "`sysctl -w vm.nr_hugepages=N`, with what is used",
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
        ],
        huge_pages,
    ),
    Check::node(
        [
            "sys-container-memory",
            "a container has memory for its GPUs",
            "The control group's memory limit. NCCL's buffers, and pinned memory, count; beyond it the kernel kills the rank.",
            "raise the container's memory limit: docker run --memory, or resources.limits.memory",
            "Linux Documentation/admin-guide/cgroup-v2.rst, memory.max",
        ],
        container_memory,
    ),
    Check::node(
        [
            "sys-cpus",
            "there are CPUs for ranks and proxy threads",
            "CPUs that the agent may use, and the CPU time of its control group, per GPU. Each rank has its main thread and at least one proxy thread that polls.",
            "srun --cpus-per-task, docker run --cpus, resources.limits.cpu: at least 2 per GPU",
            "NCCL src/proxy.cc; Linux cgroup-v2.rst, cpu.max",
        ],
        cpus,
    ),
];

/// NCCL locks some tens of MiB for each connection.
const LEAST_LOCKED: u64 = 1 << 30;

/// How the limit goes: for logins, containers and jobs of Slurm.
const UNLIMIT: &str = r"`printf '* %s memlock unlimited\n' soft hard | sudo tee /etc/security/limits.d/90-rdma.conf`; log in anew; containers: `docker run --ulimit memlock=-1`; slurmd: LimitMEMLOCK=infinity and PropagateResourceLimitsExcept=MEMLOCK";

fn memlock(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    let system = &node.inventory.system;
    if system.container.ipc_lock == Some(true) {
        return Outcome::pass("CAP_IPC_LOCK lifts the limit");
    }
    match system.memlock {
        None => Outcome::skip("the limit cannot be read"),
        Some(limit) => match limit.soft {
            None => Outcome::pass("unlimited"),
            Some(bytes) if bytes < LEAST_LOCKED => Fault::fail(format!("{} KiB", bytes >> 10)).fixed_by(UNLIMIT).into(),
            Some(bytes) => Fault::warn(format!("{} MiB", bytes >> 20)).fixed_by(UNLIMIT).into(),
        },
    }
}

/// What NCCL's guide tells users of docker to ask for.
const GOOD_SHM: u64 = 1 << 30;

/// Docker's default.
const SMALL_SHM: u64 = 64 << 20;

fn shm(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let memory = &node.inventory.system.memory;
    let Some(size) = memory.shm_bytes else { return Outcome::skip("its size cannot be read") };
    let free = memory.shm_free_bytes.unwrap_or(size);
    if size <= SMALL_SHM {
        Outcome::fail(format!("{} MiB", size >> 20))
    } else if free < SMALL_SHM {
        Outcome::fail(format!("{} MiB free of {}", free >> 20, Size(size >> 20 << 20)))
    } else if size < GOOD_SHM {
        Outcome::warn(format!("{} MiB", size >> 20))
    } else {
        Outcome::pass("1 GiB or more")
    }
}

fn governor(node: &Node) -> Outcome {
    let governors = &node.inventory.system.cpu.governors;
    let slow: Vec<&str> = governors.iter().map(String::as_str).filter(|governor| *governor != "performance").collect();
    match (governors.is_empty(), slow.is_empty()) {
        (true, _) => Outcome::skip("no governor shows, as in most virtual machines"),
        (false, true) => Outcome::pass("performance"),
        (false, false) => Outcome::warn(slow.join(", ")),
    }
}

fn frequency(node: &Node) -> Outcome {
    let cpu = &node.inventory.system.cpu;
    let Some((most, hardware)) = cpu.most_khz.zip(cpu.hardware_most_khz) else {
        return Outcome::skip("the CPUs' frequencies cannot be read");
    };
    let ghz = |khz: u32| format!("{:.1} GHz", f64::from(khz) / 1e6);
    if most < hardware {
        Outcome::warn(format!("{} of {}", ghz(most), ghz(hardware)))
    } else {
        Outcome::pass(ghz(hardware))
    }
}

fn numa_balancing(node: &Node) -> Outcome {
    match (node.inventory.system.memory.numa_balancing, node.inventory.topology.numa_nodes) {
        (None, _) => Outcome::skip("the setting cannot be read"),
        (Some(false), _) => Outcome::pass("off"),
        (Some(true), 2..) => Outcome::warn("on"),
        (Some(true), 1) => Outcome::pass("one NUMA node"),
        (Some(true), 0) => Outcome::skip("on, and the number of NUMA nodes is not known"),
    }
}

fn huge_pages(node: &Node) -> Outcome {
    let memory = &node.inventory.system.memory;
    if memory.transparent_huge_pages.is_empty() && memory.huge_pages.is_empty() {
        return Outcome::skip("their settings cannot be read");
    }
    let idle: u64 = memory.huge_pages.iter().map(|pool| pool.bytes.saturating_mul(pool.free)).sum();
    let total = node.inventory.memory_bytes;
    // A tenth is what one notices.
    if total > 0 && total / 10 < idle {
        let evidence = format!("{} of {} MiB are reserved as huge pages that nobody uses", idle >> 20, total >> 20);
        return Outcome::warn(evidence);
    }
    let mode = memory.transparent_huge_pages.as_str();
    Outcome::pass(if mode.is_empty() {
        "few are free".to_owned()
    } else {
        format!("few are free; transparent: {mode}")
    })
}

/// What a rank takes without any data of the job: CUDA's context and NCCL's buffers.
const RANK_BYTES: u64 = 2 << 30;

fn container_memory(node: &Node) -> Outcome {
    let Some(limit) = node.inventory.system.container.memory_bytes else {
        return if node.is_recorded {
            Outcome::skip("a recorded tree has no control group")
        } else {
            Outcome::pass("no limit")
        };
    };
    let needed = RANK_BYTES * node.gpu_count().max(1) as u64;
    let said = format!("{} MiB", limit >> 20);
    if limit < needed { Outcome::warn(format!("{said}, for {} GPUs", node.gpu_count())) } else { Outcome::pass(said) }
}

/// A rank's main thread and one proxy thread.
const CPUS_PER_GPU: u64 = 2;

fn cpus(node: &Node) -> Outcome {
    let gpus = node.gpu_count() as u64;
    if gpus == 0 {
        return no_gpu();
    }
    let cpus = u64::from(node.inventory.cpus);
    if cpus == 0 {
        return Outcome::skip("the number of CPUs cannot be read");
    }
    let quota = node.inventory.system.container.cpu_milli;
    let milli = quota.map_or(cpus * 1000, |quota| quota.min(cpus * 1000));
    let said = match quota {
        Some(quota) if quota < cpus * 1000 => format!("time of {:.1} CPUs for {gpus} GPUs", quota as f64 / 1e3),
        _ => format!("{cpus} CPUs for {gpus} GPUs"),
    };
    if milli < gpus * CPUS_PER_GPU * 1000 { Outcome::warn(said) } else { Outcome::pass(said) }
}
