//! GPUs and their driver.

use gdrtune_profiles::{size::Size, topology::GpuPath};
use gdrtune_wire::GpuDetails;

use super::{
    super::facts::{by_device, gpu_names},
    Check, Fault, Node, Outcome, no_gpu,
};

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "gpu-driver-loaded",
            "NVIDIA's driver runs the GPUs",
            "GPUs on the PCI bus, and the driver's version in /proc and /sys. Without the driver nothing sees them.",
            "install NVIDIA's driver for this kernel, or `modprobe nvidia`; dmesg's lines with NVRM say what keeps it",
            "NVIDIA driver README, /proc/driver/nvidia",
        ],
        driver_loaded,
    ),
    Check::node(
        [
            "gpu-nouveau",
            "nouveau does not hold the GPUs",
            "Whether the kernel's own driver is loaded: it takes the GPUs, and NVIDIA's cannot load beside it.",
            "`echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf`, make the initramfs anew, and boot again",
            "NVIDIA driver README, Interaction with the Nouveau Driver",
        ],
        nouveau,
    ),
    Check::node(
        [
            "gpu-driver-version",
            "the driver is 470 or newer",
            "The driver's version. CUDA 11.4, and the nvidia-peermem module that GPUDirect RDMA needs, come with 470.",
            "install a driver of branch 470 or newer; 535 or newer is in support",
            "CUDA release notes, table of drivers; NVIDIA driver README, GPUDirect RDMA Peer Memory Client",
        ],
        driver_version,
    ),
    Check::node(
        [
            "gpu-cuda-version",
            "the driver supports CUDA 11.4 or newer",
            "The CUDA version that nvidia-smi prints: the newest that programs can have been built for.",
            "install a driver of branch 470 or newer",
            "CUDA release notes, table of drivers",
        ],
        cuda_version,
    ),
    Check::node(
        [
            "gpu-class",
            "the GPUs can do GPUDirect RDMA",
            "The models: data-centre GPUs and the professional RTX ones can, GeForce and TITAN cannot, whatever is loaded.",
            "use a data-centre or professional GPU; on these, NCCL goes through host memory",
            "GPUDirect RDMA documentation, Supported Systems; DGX Spark porting guide",
        ],
        class,
    ),
    Check::node(
        [
            "gpu-clock-slowdown",
            "neither heat nor power supply slows a GPU down",
            "NVML's reasons for reduced clocks: the hardware's slowdowns and the driver's thermal one. One slow GPU slows every collective.",
            "look at `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`; fans, airflow, power cables",
            "nvml.h, nvmlClocksEventReason",
        ],
        slowdown,
    ),
    Check::node(
        [
            "gpu-clock-setting",
            "no setting holds clocks down",
            "Whether application clocks hold the clocks below what the GPU could do.",
            "`nvidia-smi -rac` (application clocks), `nvidia-smi -rgc` (locked clocks)",
            "nvml.h, nvmlClocksEventReasonApplicationsClocksSetting; nvidia-smi(1)",
        ],
        clock_setting,
    ),
    Check::node(
        [
            "gpu-persistence",
            "persistence mode is on",
            "Without it the driver is torn down after the last process and set up again with the next, which takes seconds and loses settings.",
            "`systemctl enable --now nvidia-persistenced`, or `nvidia-smi -pm 1`",
            "NVIDIA driver persistence documentation",
        ],
        persistence,
    ),
    Check::node(
        [
            "gpu-ecc",
            "ECC is on",
            "ECC of the GPU memory. Without it a flipped bit is a wrong gradient that nobody notices.",
            "`nvidia-smi -e 1`, and boot again",
            "nvidia-smi(1), ECC Mode",
        ],
        ecc,
    ),
    Check::node(
        [
            "gpu-mig",
            "no GPU is divided by MIG",
            "MIG mode. NCCL takes one instance of a GPU at most, and instances have neither peer-to-peer nor NVLink.",
            "`nvidia-smi -i GPU -mig 0`",
            "NVIDIA MIG user guide, Application Considerations",
        ],
        mig,
    ),
    Check::node(
        [
            "gpu-compute-mode",
            "compute mode lets jobs in",
            "Compute mode: `Prohibited` keeps every CUDA program out.",
            "`nvidia-smi -c DEFAULT`",
            "nvidia-smi(1), Compute Mode",
        ],
        compute_mode,
    ),
    Check::node(
        [
            "gpu-bar1",
            "BAR1 covers the GPU's memory",
            "The size of the PCI window through which HCAs reach GPU memory. One smaller than the memory limits how much GPUDirect RDMA can have registered at a time.",
            "switch `Above 4G decoding` and `Resizable BAR` on in the BIOS",
            "GPUDirect RDMA documentation, BAR sizes; nvidia-smi(1), BAR1 Memory Usage",
        ],
        bar1,
    ),
    Check::node(
        [
            "gpu-fabric",
            "the fabric manager has set the NVSwitches up",
            "On machines with NVSwitches, whether the fabric manager runs and each GPU is registered with it. Without, CUDA itself fails to start (`system not yet initialized`).",
            "`systemctl enable --now nvidia-fabricmanager`, in the driver's own version",
            "NVIDIA Fabric Manager user guide",
        ],
        fabric,
    ),
    Check::node(
        [
            "gpu-nvlink",
            "GPUs have as many NVLinks to each other as the others",
            "The ways between the node's GPUs. One that lost links, or goes over PCIe where others have NVLinks, makes every ring as slow.",
            "`nvidia-smi nvlink -s`; a link that is down comes back with a reset of the GPUs, or needs service",
            "nvidia-smi(1), topo -m and nvlink",
        ],
        nvlink,
    ),
];

fn gpu(number: usize) -> String {
    format!("GPU{number}")
}

/// What `value` says of each GPU; nothing where no GPU has it.
fn told<T>(node: &Node, value: impl Fn(&GpuDetails) -> Option<T>) -> Vec<(usize, T)> {
    let details = node.inventory.gpu_details.iter().enumerate();
    details.filter_map(|(number, details)| Some((number, value(details)?))).collect()
}

/// Looks at what `value` says of each GPU, where it says something.
fn each<T>(
    node: &Node,
    what: &str,
    value: impl Fn(&GpuDetails) -> Option<T>,
    look: impl FnOnce(Vec<(usize, T)>) -> Outcome,
) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let told = told(node, value);
    if told.is_empty() { Outcome::skip(format!("nvidia-smi does not tell {what}")) } else { look(told) }
}

fn driver_loaded(node: &Node) -> Outcome {
    match (node.gpu_count(), node.inventory.driver.as_str()) {
        (0, "") => no_gpu(),
        (count, "") => Outcome::fail(format!("{count} on the PCI bus, and no driver is loaded")),
        (_, version) => Outcome::pass(format!("driver {version}")),
    }
}

fn nouveau(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    if node.has_module("nouveau") {
        return Outcome::fail("nouveau is loaded");
    }
    if node.knows_modules() || !node.inventory.driver.is_empty() {
        Outcome::pass("not loaded")
    } else {
        Outcome::skip("the kernel's modules are not known")
    }
}

/// The first two numbers of a version.
pub(super) fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    let major = parts.next()?.trim().parse().ok()?;
    let minor = parts.next().map_or(Some(0), |part| part.trim().parse().ok())?;
    Some((major, minor))
}

/// The first driver branch with CUDA 11.4 (CUDA 11.4 release notes, table 2).
const LEAST_DRIVER: u32 = 470;

fn driver_version(node: &Node) -> Outcome {
    let version = node.inventory.driver.as_str();
    if version.is_empty() {
        return if node.has_gpus() { Outcome::skip("no driver is loaded") } else { no_gpu() };
    }
    match major_minor(version) {
        Some((major, _)) if major < LEAST_DRIVER => Outcome::fail(format!("driver {version}")),
        Some(_) => Outcome::pass(format!("driver {version}")),
        None => Outcome::skip(format!("`{version}` is no version")),
    }
}

/// The CUDA of that branch.
const LEAST_CUDA: (u32, u32) = (11, 4);

fn cuda_version(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let cuda = node.inventory.system.cuda.as_str();
    match major_minor(cuda) {
        _ if cuda.is_empty() => Outcome::skip("neither nvidia-smi nor libcuda tells it"),
        Some(version) if version < LEAST_CUDA => Outcome::fail(format!("CUDA {cuda}")),
        Some(_) => Outcome::pass(format!("CUDA {cuda}")),
        None => Outcome::skip(format!("`{cuda}` is no version")),
    }
}

/// Whether a model can do GPUDirect RDMA; `None` for one that is not known here.
///
/// Source: GPUDirect RDMA documentation ("Tesla and Quadro GPUs"); NVIDIA's product lines since. DGX Spark's GB10 cannot (its porting
/// guide). `10de:...` is a GPU without a driver.
fn can_do_gdr(model: &str) -> Option<bool> {
    const CANNOT: [&str; 4] = ["GeForce", "TITAN", "GB10", "Jetson"];
    const CAN: [&str; 29] = [
        "Tesla",
        "Quadro",
        "RTX A",
        "RTX PRO",
        "Ada Generation",
        "RTX 4000",
        "RTX 5000",
        "RTX 6000",
        "GB200",
        "GB300",
        "GH200",
        "B100",
        "B200",
        "B300",
        "H100",
        "H200",
        "H800",
        "H20",
        "A100",
        "A800",
        "A10",
        "A30",
        "A40",
        "A16",
        "A2",
        "L40",
        "L4",
        "V100",
        "P100",
    ];
    let is_named = |names: &[&str]| {
        names.iter().any(|name| {
            let at = model.find(name);
            // `A10` is no part of `RTX A1000`, nor `GB10` of `GB100`.
            at.is_some_and(|at| {
                let after = model[at + name.len()..].chars().next();
                !(name.ends_with(|c: char| c.is_ascii_digit()) && after.is_some_and(|c| c.is_ascii_digit()))
            })
        })
    };
    match (is_named(&CANNOT), is_named(&CAN)) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

fn class(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let models: Vec<(usize, &str)> = node.gpu_models().collect();
    let cannot: Vec<_> = models.iter().filter(|(_, model)| can_do_gdr(model) == Some(false)).collect();
    let unknown: Vec<_> = models.iter().filter(|(_, model)| can_do_gdr(model).is_none()).collect();
    let line =
        |found: &[&(usize, &str)]| by_device(found.iter().map(|(number, model)| (gpu(*number), (*model).to_owned())));
    if !cannot.is_empty() {
        let evidence = line(&cannot);
        // Without an HCA nothing is lost.
        return if node.has_hcas() { Outcome::fail(evidence) } else { Outcome::warn(evidence) };
    }
    if unknown.is_empty() {
        Outcome::pass(by_device(models.iter().map(|(number, model)| (gpu(*number), (*model).to_owned()))))
    } else {
        Outcome::skip(format!("{}: a model that is not known here", line(&unknown)))
    }
}

fn slowdown(node: &Node) -> Outcome {
    each(
        node,
        "what holds clocks down",
        |gpu| gpu.clock_limits,
        |limits| {
            let slow = limits.iter().filter(|(_, limits)| limits.faults().0 != 0);
            let evidence = by_device(slow.map(|(number, limits)| (gpu(*number), limits.faults().to_string())));
            if evidence.is_empty() { Outcome::pass("none") } else { Outcome::fail(evidence) }
        },
    )
}

fn clock_setting(node: &Node) -> Outcome {
    each(
        node,
        "what holds clocks down",
        |gpu| gpu.clock_limits,
        |limits| {
            const SETTING: &str = "applications_clocks_setting";
            let held = limits.iter().filter(|(_, limits)| limits.names().any(|name| name == SETTING));
            let held = gpu_names(held.map(|(number, _)| *number));
            if held.is_empty() { Outcome::pass("none") } else { Outcome::warn(format!("{held}: {SETTING}")) }
        },
    )
}

/// A fault where a setting of some GPUs is not what it should be.
fn switch(switches: &[(usize, bool)], wanted: bool, fault: fn(String) -> Fault) -> Outcome {
    let word = |on: bool| if on { "on" } else { "off" };
    let wrong = gpu_names(switches.iter().filter(|(_, on)| *on != wanted).map(|(number, _)| *number));
    if wrong.is_empty() {
        Outcome::pass(format!("{} on all", word(wanted)))
    } else {
        fault(format!("{wrong}: {}", word(!wanted))).into()
    }
}

fn persistence(node: &Node) -> Outcome {
    each(node, "persistence mode", |gpu| gpu.persistence, |modes| switch(&modes, true, Fault::warn))
}

fn ecc(node: &Node) -> Outcome {
    each(node, "ECC, or the GPUs have none", |gpu| gpu.ecc, |modes| switch(&modes, true, Fault::warn))
}

fn mig(node: &Node) -> Outcome {
    each(node, "MIG, or the GPUs have none", |gpu| gpu.mig, |modes| switch(&modes, false, Fault::fail))
}

fn compute_mode(node: &Node) -> Outcome {
    let mode = |gpu: &GpuDetails| Some(gpu.compute_mode.clone()).filter(|mode| !mode.is_empty());
    each(node, "compute mode", mode, |modes| {
        let closed = gpu_names(modes.iter().filter(|(_, mode)| mode == "Prohibited").map(|(number, _)| *number));
        if closed.is_empty() {
            Outcome::pass(by_device(modes.into_iter().map(|(number, mode)| (gpu(number), mode))))
        } else {
            Outcome::fail(format!("{closed}: Prohibited"))
        }
    })
}

fn bar1(node: &Node) -> Outcome {
    each(
        node,
        "the size of BAR1",
        |gpu| gpu.bar1_bytes.zip(gpu.memory_bytes),
        |sizes| {
            // nvidia-smi counts memory without what the driver keeps, so a full window is never the smaller one.
            let small = sizes.iter().filter(|(_, (bar1, memory))| bar1 < memory);
            let said = |bar1: u64, memory: u64| format!("{} for {} MiB of memory", Size(bar1), memory >> 20);
            let evidence = by_device(small.map(|(number, (bar1, memory))| (gpu(*number), said(*bar1, *memory))));
            if evidence.is_empty() { Outcome::pass("as large as the memory") } else { Outcome::warn(evidence) }
        },
    )
}

fn fabric(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let fabric = &node.inventory.system.fabric;
    let states = told(node, |gpu| Some(gpu.fabric_state.clone()).filter(|state| !state.is_empty() && state != "N/A"));
    let unready: Vec<_> = states.iter().filter(|(_, state)| state != "Completed").collect();
    if !unready.is_empty() {
        let said = unready.iter().map(|(number, state)| (gpu(*number), format!("registration is {state}")));
        return Outcome::fail(by_device(said));
    }
    match (fabric.nvswitches, fabric.manager_runs) {
        _ if !states.is_empty() => Outcome::pass("every GPU is registered"),
        (0, _) => Outcome::skip("no NVSwitch shows"),
        (count, Some(false)) => Outcome::fail(format!("{count} NVSwitches, and no fabric manager runs")),
        (count, Some(true)) => Outcome::pass(format!("{count} NVSwitches, and a fabric manager runs")),
        (count, None) => Outcome::skip(format!("{count} NVSwitches; whether a fabric manager runs cannot be seen")),
    }
}

fn nvlink(node: &Node) -> Outcome {
    if node.gpu_count() < 2 {
        return Outcome::skip("fewer than two GPUs");
    }
    // By design some pairs have fewer links than others, or none; but every GPU has as many as the next.
    let links = |way: &GpuPath| if let GpuPath::NvLinks(count) = way { *count } else { 0 };
    let rows = &node.inventory.topology.gpu_paths;
    let totals: Vec<u32> = rows.iter().map(|row| row.iter().flatten().map(links).sum()).collect();
    match totals.iter().max() {
        None => Outcome::skip("nvidia-smi does not tell the ways between GPUs"),
        Some(0) => Outcome::pass("none has any"),
        Some(most) => {
            let few = totals.iter().enumerate().filter(|(_, total)| *total < most);
            let evidence = by_device(few.map(|(number, total)| (gpu(number), total.to_string())));
            if evidence.is_empty() {
                Outcome::pass(format!("{most} to the other GPUs each"))
            } else {
                Outcome::warn(format!("links to the other GPUs: {evidence}; others: {most}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_apart() {
        for (model, expected) in [
            ("NVIDIA H100 80GB HBM3", Some(true)),
            ("NVIDIA H200", Some(true)),
            ("NVIDIA GH200 480GB", Some(true)),
            ("NVIDIA GB200", Some(true)),
            ("NVIDIA A100-SXM4-40GB", Some(true)),
            ("Tesla T4", Some(true)),
            ("NVIDIA L4", Some(true)),
            ("NVIDIA L40S", Some(true)),
            ("Quadro RTX 8000", Some(true)),
            ("NVIDIA RTX A6000", Some(true)),
            ("NVIDIA RTX 6000 Ada Generation", Some(true)),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", Some(true)),
            ("NVIDIA GeForce RTX 4090", Some(false)),
            ("NVIDIA TITAN RTX", Some(false)),
            ("NVIDIA GB10", Some(false)),
            ("10de:2684", None),
            ("NVIDIA X900", None),
        ] {
            assert_eq!(can_do_gdr(model), expected, "{model}");
        }
    }
}
